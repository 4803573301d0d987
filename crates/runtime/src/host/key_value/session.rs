//! A controller with one I/O queue, and the requests that are under way on it.

use super::{Client, Done, Driver, LIST_BYTES, MEMORY_BYTES, Needs, Request};
use crate::clock::{Clock, Rate};
use crate::host::HostError;
use crate::host::namespace::{self, KeyValueNamespace};
use crate::host::transport::{Completed, Data, IoQueue, Remote, Source};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry};
use mynah_wire::tcp::host::{Movement, Payload};
use std::time::Duration;

/// Waits in the system end after this, to look whether the controller has to be told something.
const NAP: Duration = Duration::from_millis(50);
/// Looks without result before that.
const SPINS: u32 = 20;

/// What a slot's command moves.
#[derive(Default)]
struct Slot {
    request: Option<Request>,
    /// Data received for it.
    data: Vec<u8>,
}

struct Slots(Vec<Slot>);

impl Payload for Slots {
    fn fill(&mut self, slot: u16, offset: u32, into: &mut [u8]) {
        let offset = offset as usize;
        match &self.0[usize::from(slot)].request {
            Some(Request::Store { value, .. }) => {
                into.copy_from_slice(&value[offset..offset + into.len()]);
            }
            _ => into.fill(0),
        }
    }

    fn place(&mut self, slot: u16, offset: u32, from: &[u8]) {
        let data = &mut self.0[usize::from(slot)].data;
        let offset = offset as usize;
        // As much as has come: a buffer may be much longer than what is put into it.
        if data.len() < offset + from.len() {
            data.resize(offset + from.len(), 0);
        }
        data[offset..offset + from.len()].copy_from_slice(from);
    }
}

impl Data for Slots {
    fn is_particular(&self, _slot: u16) -> bool {
        true
    }

    fn is_looked_at(&self) -> bool {
        true
    }

    fn returned(&self, slot: u16, entry: &CompletionEntry, asked: u32) -> u32 {
        match &self.0[usize::from(slot)].request {
            Some(Request::Retrieve { .. }) => asked.min(entry.result.get() as u32),
            _ => asked,
        }
    }
}

/// A controller and its queue.
pub(super) struct Session<R: Remote> {
    controller: R,
    queue: <R::Source as Source>::Queue,
    namespace: u32,
    slots: Slots,
    outstanding: usize,
    clock: Clock,
    /// From when the timeout counts: the last answer, or the first command after a pause.
    last_heard: Time,
    /// When the controller last heard of its host on the admin queue.
    last_keep_alive: Time,
    timeout: Span,
    keep_alive: Span,
}

impl<R: Remote + 'static> Session<R> {
    /// Connects, and finds the namespace.
    pub(super) fn open(
        options: &R::Options,
        id: Option<u32>,
        needs: Needs,
    ) -> Result<Client, HostError> {
        let mut controller = R::connect(options)?;
        let namespace = namespace::key_value(&mut controller, id)?;
        controller.request_queues(1)?;
        let source = controller.source();
        let facts = source.facts();
        let longest = facts.transfer_bytes_max.min(u32::MAX.into()) as u32;
        let bytes = needs.bytes.unwrap_or(namespace.value_bytes_max);
        let bytes_max = bytes.max(LIST_BYTES).min(longest);
        let requests = MEMORY_BYTES / bytes_max.max(1) as usize;
        // One entry of a queue is always free.
        let entries = requests.clamp(1, needs.requests.max(1).into()) as u32 + 1;
        let entries = entries.min(facts.queue_entries_max) as u16;
        let queue = source.open_queue(1, entries, bytes_max as usize)?;
        let clock = Clock::start(Rate::REAL);
        let span = |time: Duration| Span::from_ns(time.as_nanos() as u64);
        let model = controller.model();
        let session = Session {
            controller,
            queue,
            namespace: namespace.id,
            slots: Slots((0..entries).map(|_| Slot::default()).collect()),
            outstanding: 0,
            clock,
            last_heard: Time::ZERO,
            last_keep_alive: Time::ZERO,
            timeout: span(R::timeout(options)),
            // Two in a timeout, so that one may be late.
            keep_alive: span(R::keep_alive_time(options) / 2),
        };
        Ok(Client { session: Box::new(session), namespace, model, bytes_max })
    }

    /// Turns a completion into the outcome of its request, and frees the slot.
    fn done(&mut self, completed: &Completed) -> Result<Done, HostError> {
        let Completed { slot, entry, received } = completed;
        let slot = std::mem::take(&mut self.slots.0[usize::from(*slot)]);
        let Some(request) = slot.request else {
            return Err(HostError::Nonsense("it answered what nobody asked".into()));
        };
        self.outstanding -= 1;
        let (size, mut data) = (entry.result.get() as u32, slot.data);
        data.truncate(*received as usize);
        if let Request::Retrieve { bytes, .. } = request
            && entry.status().is_success()
            && data.len() != size.min(bytes) as usize
        {
            return Err(HostError::Nonsense(format!(
                "of a value of {size} bytes, {bytes} were asked for and {} came",
                data.len()
            )));
        }
        Ok(Done { request, status: entry.status(), size, data })
    }

    /// Keeps the controller alive, and looks whether it is.
    fn look_after(&mut self, now: Time) -> Result<(), HostError> {
        if !self.keep_alive.is_zero()
            && now.saturating_since(self.last_keep_alive) >= self.keep_alive
        {
            self.controller.keep_alive()?;
            self.last_keep_alive = now;
        }
        if now.saturating_since(self.last_heard) > self.timeout {
            let seconds = self.timeout.as_ps() / 1_000_000_000_000;
            return Err(HostError::Timeout { what: "a command", seconds });
        }
        Ok(())
    }
}

impl<R: Remote + 'static> Driver for Session<R> {
    fn can_submit(&self) -> bool {
        self.queue.can_submit()
    }

    fn submit(&mut self, request: Request) {
        let (command, back) = request.command();
        let movement = match &request {
            Request::Store { value, .. } if !value.is_empty() => {
                Movement::FromHost(value.len() as u32)
            }
            _ if back > 0 => Movement::ToHost(back),
            _ => Movement::None,
        };
        let mut entry = SubmissionEntry::default();
        entry.namespace_id.set(self.namespace);
        command.put(&mut entry);
        let slot = self.queue.next_slot().expect("there is room");
        self.slots.0[usize::from(slot)] = Slot { request: Some(request), data: Vec::new() };
        let submitted = self.queue.submit(&entry, movement, &mut self.slots);
        debug_assert_eq!(submitted, Some(slot));
        if self.outstanding == 0 {
            self.last_heard = self.clock.wall();
        }
        self.outstanding += 1;
    }

    fn next_done(&mut self) -> Result<Option<Done>, HostError> {
        let mut idle = 0;
        loop {
            if self.outstanding == 0 {
                return Ok(None);
            }
            self.queue.send(&mut self.slots)?;
            if let Some(completed) = self.queue.poll(&mut self.slots)? {
                return self.done(&completed).map(Some);
            }
            if self.queue.receive()? {
                self.last_heard = self.clock.wall();
                self.look_after(self.last_heard)?;
                idle = 0;
                continue;
            }
            idle += 1;
            if idle > SPINS {
                let now = self.clock.wall();
                self.look_after(now)?;
                self.queue.wait(NAP)?;
            }
        }
    }

    fn poll(&mut self) -> Result<Option<Done>, HostError> {
        if self.outstanding == 0 {
            self.last_heard = self.clock.wall();
            self.look_after(self.last_heard)?;
            return Ok(None);
        }
        self.queue.send(&mut self.slots)?;
        if let Some(completed) = self.queue.poll(&mut self.slots)? {
            return self.done(&completed).map(Some);
        }
        let now = self.clock.wall();
        if self.queue.receive()? {
            self.last_heard = now;
        }
        self.look_after(now)?;
        let completed = self.queue.poll(&mut self.slots)?;
        completed.map(|completed| self.done(&completed)).transpose()
    }

    fn identify(&mut self) -> Result<KeyValueNamespace, HostError> {
        namespace::key_value(&mut self.controller, Some(self.namespace))
    }

    fn shutdown(self: Box<Self>) {
        let Session { controller, queue, .. } = *self;
        drop(queue);
        // What was asked is done; a controller that cannot be told notices by itself.
        let _ = controller.shutdown();
    }
}
