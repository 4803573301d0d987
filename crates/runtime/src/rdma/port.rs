//! An address at which hosts come in over RDMA, and their queue pairs.
//!
//! Writes take effect when their data are here, as over TCP; a completion counts as visible when its
//! response has been handed to the device. Data go through blocks of one memory, bounded for all
//! hosts and for each. Who finds none waits in turn.

use super::buddy::{Block, Buddy};
use super::verbs::{Device, Done, Event, Listener, Pair, Region, Request, Sizes, Slot};
use crate::clock::Clock;
use crate::hub::{Arrival, Hub, Id};
use crate::quota::{Bound, Peer, Share};
use mynah_device::{Completion, CompletionData, Now, Transport};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry};
use mynah_wire::rdma::private_data::{Rejection, Request as Wanted};
use mynah_wire::rdma::target::{Connection, Settings, Step};
use mynah_wire::rdma::{ENTRIES_MAX, TRANSPORT_TYPE};
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Data of a capsule: as Linux's target (NVMET_RDMA_DEFAULT_INLINE_DATA_SIZE in
/// drivers/nvme/target/rdma.c).
const CAPSULE_DATA_BYTES: u32 = 4096;
/// RDMA READs of a queue pair, at most.
const READS_MAX: u8 = 16;
/// Capsules of one connection in one turn.
const CAPSULES_A_TURN: usize = 64;
/// A connection that is over gets so long to take the last responses.
const LINGER: Span = Span::from_secs(1);

/// A queue pair, and what it has not dealt with.
#[derive(Debug)]
struct Connected {
    pair: Pair,
    machine: Connection,
    who: Peer,
    /// Capsules that wait, and their bytes.
    capsules: VecDeque<(Slot, u32)>,
    /// Commands that the machine itself answers.
    refusals: VecDeque<CompletionEntry>,
    replies: VecDeque<Completion>,
    half_open: Option<Share>,
    opened: Time,
    /// The queue pair failed.
    is_over: bool,
    /// It ends when its answers have gone, and then at the latest.
    closing: Option<Time>,
}

/// Memory for data on their way.
#[derive(Debug)]
struct Memory {
    region: Arc<Region>,
    buddy: Buddy,
    /// Bytes that each host has.
    held: HashMap<Peer, usize>,
    per_peer: usize,
    /// Connections for which there was no block, in turn.
    waiting: VecDeque<Id>,
}

impl Memory {
    /// A block for so many bytes, if it is this connection's turn.
    fn take(&mut self, id: Id, who: Peer, bytes: u32) -> Option<Block> {
        let held = self.held.get(&who).copied().unwrap_or(0);
        let wanted = Buddy::taken_for(bytes);
        // A host that has too much waits for itself, and not for others.
        if held + wanted > self.per_peer.max(wanted) {
            return None;
        }
        let is_first = self.waiting.front().is_none_or(|&first| first == id);
        let block = is_first.then(|| self.buddy.take(bytes)).flatten();
        match &block {
            Some(_) => {
                self.held.insert(who, held + wanted);
            }
            None if !self.waiting.contains(&id) => self.waiting.push_back(id),
            None => {}
        }
        block
    }

    fn give(&mut self, who: Peer, block: Block) {
        if let Some(held) = self.held.get_mut(&who) {
            *held = held.saturating_sub(block.bytes());
            if *held == 0 {
                self.held.remove(&who);
            }
        }
        self.buddy.give(block);
    }
}

/// An address, and who has come to it.
#[derive(Debug)]
pub struct Port {
    connections: Vec<Option<Box<Connected>>>,
    memory: Memory,
    listener: Listener,
    device: Arc<Device>,
    transport: Transport,
    refused: u64,
}

impl Port {
    /// Listens at an address of an RDMA device; `number` is that of the subsystem's port. Commands
    /// move up to `transfer_bytes`, through so much memory.
    ///
    /// # Errors
    /// If there is no such device, or it has no room.
    pub fn new(
        address: SocketAddr,
        number: u16,
        transfer_bytes: u32,
        bound: Bound,
    ) -> io::Result<Port> {
        let listener = Listener::new(address)?;
        let device = listener.device().clone();
        let largest = Buddy::taken_for(transfer_bytes);
        let bytes = bound.total.max(2 * largest);
        let memory = Memory {
            region: Arc::new(Region::new(&device, bytes)?),
            buddy: Buddy::new(bytes, transfer_bytes),
            held: HashMap::new(),
            per_peer: bound.per_peer,
            waiting: VecDeque::new(),
        };
        let transport = Transport {
            in_capsule_bytes: CAPSULE_DATA_BYTES,
            max_transfer_bytes: transfer_bytes,
            peer: String::new(),
            source: 0,
            local: None,
            port: number,
            kind: TRANSPORT_TYPE,
            host_nqn: None,
        };
        Ok(Port { connections: Vec::new(), memory, listener, device, transport, refused: 0 })
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// What to wait on for hosts that come and go.
    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// What to wait on for work, after [`Port::before_sleep`].
    pub(crate) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Connections that were ended for what their hosts did, or not accepted.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Connections that are not queues of a controller.
    pub(crate) fn half_open(&self) -> usize {
        self.connections.iter().flatten().filter(|it| it.half_open.is_some()).count()
    }

    /// Takes the event by which the device told of completions.
    pub(crate) fn silence(&self) {
        self.device.silence();
    }

    /// Hosts may have come or gone. None is taken in if `is_closed`.
    pub(crate) fn hear(&mut self, now: Now, hub: &mut Hub, is_closed: bool) {
        while let Some(event) = self.listener.next() {
            match event {
                Event::Requested(request) => {
                    let taken = match is_closed {
                        true => Err((request, Rejection::Resources)),
                        false => self.admit(now, hub, request),
                    };
                    if let Err((request, rejection)) = taken {
                        self.refused += 1;
                        request.reject(&rejection.to_bytes());
                    }
                }
                Event::Over(key) => {
                    let is = |it: &Option<Box<Connected>>| {
                        it.as_ref().is_some_and(|it| it.pair.key() == key)
                    };
                    if let Some(id) = self.connections.iter().position(is) {
                        self.close(now, hub, id as Id);
                    }
                }
            }
        }
    }

    /// Takes a host in; otherwise says why not.
    fn admit(
        &mut self,
        now: Now,
        hub: &mut Hub,
        request: Request,
    ) -> Result<(), (Request, Rejection)> {
        let queues_max = hub.subsystem().config().limits.queues_max;
        let wanted = match Wanted::parse(&request.private, ENTRIES_MAX, queues_max) {
            Ok(wanted) => wanted,
            Err(rejection) => return Err((request, rejection)),
        };
        let read_depth = request.read_depth.min(READS_MAX);
        if read_depth == 0 {
            return Err((request, Rejection::ReadDepth));
        }
        let who = Peer::of(request.peer);
        let Ok(half_open) = hub.quotas().half_open.take(who) else {
            return Err((request, Rejection::Resources));
        };
        let settings = Settings {
            entries: wanted.send_entries,
            read_depth,
            transfer_bytes: self.transport.max_transfer_bytes,
        };
        let sizes = Sizes {
            entries: settings.entries,
            capsule_bytes: SubmissionEntry::BYTES as u32 + CAPSULE_DATA_BYTES,
            work_requests: settings.work_requests(),
            read_depth,
        };
        let peer = request.peer.map_or_else(String::new, |peer| peer.to_string());
        let local = request.local.map(|local| local.ip());
        let accepted =
            request.accept(&self.device, &self.memory.region, sizes, &wanted.acceptance());
        let Ok(pair) = accepted else {
            // The host hears of it from the system: its request has gone.
            self.refused += 1;
            return Ok(());
        };
        let transport = Transport { peer, local, ..self.transport.clone() };
        let id = hub.open_elsewhere(now, who, transport);
        if self.connections.len() <= id as usize {
            self.connections.resize_with(id as usize + 1, || None);
        }
        self.connections[id as usize] = Some(Box::new(Connected {
            pair,
            machine: Connection::new(settings),
            who,
            capsules: VecDeque::new(),
            refusals: VecDeque::new(),
            replies: VecDeque::new(),
            half_open: Some(half_open),
            opened: now.wall,
            is_over: false,
            closing: None,
        }));
        Ok(())
    }

    /// Looks at every queue pair, and deals with what has come within `gap`; whether something had.
    pub(crate) fn receive(&mut self, clock: &Clock, hub: &mut Hub, gap: Span) -> bool {
        let mut worked = false;
        for id in 0..self.connections.len() {
            let Some(connected) = &mut self.connections[id] else { continue };
            let looked = connected.pair.look();
            if !looked && connected.capsules.is_empty() {
                continue;
            }
            worked |= looked;
            let now = clock.now();
            let arrival = Arrival::seen(now.wall, gap);
            self.take_done(hub, id as Id, arrival);
            self.take_capsules(hub, id as Id, arrival);
        }
        worked
    }

    /// Handles work requests that have completed.
    fn take_done(&mut self, hub: &mut Hub, id: Id, arrival: Arrival) {
        let Port { connections, memory, .. } = self;
        let Some(connected) = &mut connections[id as usize] else { return };
        while let Some(done) = connected.pair.next() {
            match done {
                Done::Capsule(slot, bytes) => connected.capsules.push_back((slot, bytes)),
                Done::Read(number, block) => {
                    if let Some((entry, asked)) = connected.machine.read_ended(number) {
                        let bytes = entry.data.length.get() as usize;
                        let data = memory.region.bytes(&block, bytes);
                        let asked = Some(Time::from_ps(asked));
                        hub.command_elsewhere(id, &entry, data, asked, arrival);
                    }
                    memory.give(connected.who, block);
                }
                Done::Answered(block, work_requests) => {
                    connected.machine.sent(work_requests);
                    if let Some(block) = block {
                        memory.give(connected.who, block);
                    }
                }
                Done::Broken => connected.is_over = true,
            }
        }
    }

    /// Deals with capsules, as far as they need not wait.
    fn take_capsules(&mut self, hub: &mut Hub, id: Id, arrival: Arrival) {
        let Some(connected) = &mut self.connections[id as usize] else { return };
        let stamp = hub.model_time(arrival.at()).as_ps();
        for _ in 0..CAPSULES_A_TURN {
            if connected.is_over || connected.closing.is_some() {
                return;
            }
            let Some((slot, bytes)) = connected.capsules.front() else { return };
            let capsule = connected.pair.capsule(slot, *bytes);
            if connected.machine.holds_up(capsule) {
                return;
            }
            match connected.machine.capsule(capsule, stamp) {
                Ok(Step::Command(entry, data)) => {
                    hub.command_elsewhere(id, &entry, &capsule[data], None, arrival);
                }
                Ok(Step::Waits) => {}
                Ok(Step::Answered(entry)) => connected.refusals.push_back(entry),
                Err(_) => {
                    self.refused += 1;
                    connected.is_over = true;
                    return;
                }
            }
            if let Some((slot, _)) = connected.capsules.pop_front()
                && connected.pair.receive(slot).is_err()
            {
                connected.is_over = true;
            }
        }
    }

    /// Reads the data of writes, and sends what there is to send; whether there was something. Ends
    /// connections that are over.
    pub(crate) fn send(&mut self, clock: &Clock, hub: &mut Hub) -> bool {
        let mut worked = false;
        // Those that wait for memory come first, in turn, and say so again if they still do.
        let first = std::mem::take(&mut self.memory.waiting);
        let all = 0..self.connections.len() as Id;
        for id in first.into_iter().chain(all) {
            worked |= self.fetch(hub, id);
            worked |= self.answer(clock, hub, id);
            let Some(connected) = &self.connections[id as usize] else { continue };
            let is_sent = connected
                .closing
                .is_some_and(|until| !connected.pair.is_sending() || clock.now().wall >= until);
            if connected.is_over || is_sent {
                self.close(clock.now(), hub, id);
                worked = true;
            }
        }
        worked
    }

    /// A completion for one of the connections; gives it back if it is none's.
    pub(crate) fn reply(&mut self, id: Id, completion: Completion) -> Option<Completion> {
        match self.connections.get_mut(id as usize).and_then(Option::as_deref_mut) {
            Some(connected) => {
                connected.replies.push_back(completion);
                None
            }
            None => Some(completion),
        }
    }

    /// Posts the READs of writes.
    fn fetch(&mut self, hub: &Hub, id: Id) -> bool {
        let Port { connections, memory, .. } = self;
        let Some(connected) = &mut connections[id as usize] else { return false };
        if connected.half_open.is_some() && hub.is_connected(id) {
            connected.half_open = None;
        }
        let mut worked = false;
        while let Some(from) = connected.machine.next_read()
            && connected.closing.is_none()
            && let Some(block) = memory.take(id, connected.who, from.bytes)
        {
            match connected.machine.read_begins() {
                Some(number) => {
                    connected.is_over |= connected.pair.read(number, block, from).is_err();
                }
                None => memory.give(connected.who, block),
            }
            worked = true;
        }
        worked
    }

    /// Posts completions to a host.
    fn answer(&mut self, clock: &Clock, hub: &mut Hub, id: Id) -> bool {
        let Port { connections, memory, .. } = self;
        let Some(connected) = &mut connections[id as usize] else { return false };
        let Connected { pair, machine, who, refusals, replies, is_over, .. } = &mut **connected;
        let mut worked = false;
        while machine.has_room() && !*is_over {
            if let Some(entry) = refusals.pop_front() {
                let answer = machine.answer(&entry, 0);
                *is_over |= pair.answer(&answer, None).is_err();
                worked = true;
                continue;
            }
            let Some(reply) = replies.front() else { break };
            let bytes = reply.data.bytes() as u32;
            let command_id = reply.entry.command_id.get();
            let mut block = None;
            if machine.place_for(command_id, bytes).is_some() {
                block = memory.take(id, *who, bytes);
                if block.is_none() {
                    break;
                }
            }
            let Some(mut reply) = replies.pop_front() else { break };
            if let CompletionData::Connected(connected) = &reply.data {
                machine.connected(connected.queue_id, connected.entries, connected.flow_control);
            }
            if let Some(block) = &mut block {
                let into = memory.region.bytes_mut(block, bytes as usize);
                hub.fill_elsewhere(&mut reply, into);
                reply.data = CompletionData::None;
            }
            let answer = machine.answer(&reply.entry, bytes);
            *is_over |= pair.answer(&answer, block).is_err();
            hub.answered_elsewhere(clock.now(), id, &reply);
            hub.discard_elsewhere(reply);
            worked = true;
        }
        worked
    }

    /// The subsystem does not know a connection any more.
    pub(crate) fn end(&mut self, now: Time, id: Id, at_once: bool) {
        if let Some(connected) = self.connections.get_mut(id as usize).and_then(Option::as_mut) {
            connected.closing = Some(if at_once { now } else { now + LINGER });
            connected.is_over |= at_once;
        }
    }

    /// Whether hosts wait for answers that are here.
    pub(crate) fn owes_output(&self) -> bool {
        self.connections
            .iter()
            .flatten()
            .any(|it| it.pair.is_sending() || !it.replies.is_empty() || !it.refusals.is_empty())
    }

    /// Whether work is left for which no event will come.
    pub(crate) fn has_more(&self) -> bool {
        self.connections.iter().flatten().any(|it| {
            it.closing.is_some()
                || it.capsules.front().is_some_and(|(slot, bytes)| {
                    !it.machine.holds_up(it.pair.capsule(slot, *bytes))
                })
        })
    }

    /// Nobody will look for a while: has the device tell of work. Whether there is some now.
    pub(crate) fn before_sleep(&mut self) -> bool {
        let mut has_work = self.has_more();
        for connected in self.connections.iter_mut().flatten() {
            connected.pair.arm();
            // What ended before that is not told of.
            has_work |= connected.pair.look();
        }
        has_work
    }

    /// Ends connections that have not become queues in time.
    pub(crate) fn sweep(&mut self, now: Now, hub: &mut Hub, (usual, authenticating): (Span, Span)) {
        for id in 0..self.connections.len() as Id {
            let Some(connected) = &self.connections[id as usize] else { continue };
            let time = if hub.is_authenticating(id) { authenticating } else { usual };
            let quiet = now.wall.saturating_since(connected.opened);
            if connected.half_open.is_some() && !hub.is_connected(id) && quiet >= time {
                self.refused += 1;
                self.close(now, hub, id);
            }
        }
    }

    fn close(&mut self, now: Now, hub: &mut Hub, id: Id) {
        let Some(connected) = self.connections.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        let Connected { mut pair, who, replies, .. } = *connected;
        replies.into_iter().for_each(|reply| hub.discard_elsewhere(reply));
        pair.disconnect();
        for block in pair.close() {
            self.memory.give(who, block);
        }
        self.memory.waiting.retain(|&waiting| waiting != id);
        hub.close(now, id);
    }

    pub(crate) fn close_all(&mut self, now: Now, hub: &mut Hub) {
        for id in 0..self.connections.len() as Id {
            self.close(now, hub, id);
        }
    }
}
