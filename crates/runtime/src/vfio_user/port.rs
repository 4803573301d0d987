//! A drive's PCI function, and the client that uses it.
//!
//! There is one client at a time. What it says over the socket becomes accesses to the
//! [`Function`], its memory is mapped, its doorbells are in memory that both share, and interrupts
//! go out through the event descriptors it gave. When it goes, the function is reset, its memory
//! is let go, and the next one may come.
//!
//! Memory that a client takes back while commands move data to or from it is waited for: queues
//! go on, and so do accesses to registers, which may end the wait; requests that map or unmap
//! wait behind it, so that they take effect in their order. A client whose memory goes away without
//! a word is sent away.

use super::watch::{Looks, Profiling, Watcher};
use super::{Channel, HostMemory, Listener, Missing};
use crate::clock::Times;
use crate::fault::{Faults, Strike};
use crate::hub::{Measure, Parts};
use crate::profile::{FunctionNotes, Owner};
use crate::quota::{Peer, Quotas, Share};
use crate::shared::Shared;
use mynah_device::pci::{
    DOORBELL_BYTES, DOORBELLS_AT, Function, FunctionConfig, FunctionError, Guest, Region,
};
use mynah_device::{Now, Subsystem};
use mynah_stamp::{Span, Time};
use mynah_wire::vfio_user::Errno;
use mynah_wire::vfio_user::message::{CONFIGURATION_REGION, MSI_X};
use mynah_wire::vfio_user::server::{
    Area, Change, Device, Event, Memory, Region as Described, Server, Ticket, Which,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::path::Path;

/// Requests that may wait for memory to be given back.
const WAITING_MAX: usize = 256;
/// Messages dealt with in one go.
const MESSAGES_A_LOOK: u32 = 64;
/// Guests have more memory than this.
const GUEST_BYTES_MIN: u64 = 1 << 20;

/// How doorbells are rung.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoorbellMode {
    /// In memory that the client writes to, and that is looked at all the time.
    #[default]
    Mapped,
    /// By messages of the client.
    Trapped,
    /// By messages of the client, every one of them, and it waits for the answer: whoever serves it
    /// says when it may go on ([`Port::receive_one`], [`Port::raise`]).
    InStep,
}

/// What a client wanted that is served in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// Nothing out of the ordinary.
    Something,
    /// The guest wrote a mark (see [`MARK_AT`]).
    Mark(u32),
    /// It has answered [`Port::knock`].
    Knocked,
    /// It has written without waiting for the answer: nobody knows when that was.
    Posted,
    /// It has disconnected.
    Gone,
}

/// A register in configuration space, of 32 bits, for guests that are served in step: what they write
/// is a mark in the result. It reads as zeros.
pub const MARK_AT: u64 = 0xf00;

/// A request that waits until memory is free.
#[derive(Debug)]
enum Waiting {
    Map { ticket: Ticket, memory: Memory, descriptor: Option<OwnedFd> },
    Unmap { ticket: Ticket, range: Option<(u64, u64)> },
}

/// A connected vfio-user client.
#[derive(Debug)]
struct Session {
    channel: Channel,
    server: Server<OwnedFd>,
    memory: HostMemory,
    /// Eventfds by interrupt vector.
    events: Vec<Option<OwnedFd>>,
    waiting: VecDeque<Waiting>,
    /// There may be more to receive.
    unread: bool,
    over: bool,
    /// It was said that memory is missing.
    complained: bool,
}

/// Tells a person something.
pub type Say = Box<dyn FnMut(&str)>;

/// A PCIe function that is served over a vfio-user socket.
pub struct Port {
    listener: Listener,
    function: Function,
    name: String,
    doorbells: Shared,
    doorbell_file: OwnedFd,
    mode: DoorbellMode,
    session: Option<Session>,
    looks: Looks,
    /// Notes for the profile, while one is written.
    noted: Option<Box<FunctionNotes>>,
    /// Tenant of its commands, in profiles.
    tenant: u16,
    refused: u64,
    faults: Option<Faults>,
    /// Its controller, whether there is a client or not.
    _controller: Share,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The subsystem cannot have such a function.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// The system has no memory for its doorbells.
    #[error("no memory for doorbells: {0}")]
    Doorbells(io::Error),
}

impl Port {
    /// A new function of `subsystem`, the drive's `number`-th, for the clients of `listener`. Its
    /// commands can move so many bytes, if that is more than functions usually do.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn new(
        now: Now,
        subsystem: &mut Subsystem,
        listener: Listener,
        mode: DoorbellMode,
        transfer_bytes: Option<u32>,
        (number, quotas): (usize, &Quotas),
    ) -> Result<Port, PortError> {
        let peer = Peer::function(number);
        let controller = quotas.controllers.take(peer).map_err(|_| FunctionError::NoController)?;
        let folder = listener.path().parent().unwrap_or(listener.path());
        let name = match mode {
            // Where the socket is must not make a difference.
            DoorbellMode::InStep => "guest".to_owned(),
            _ => format!("vfio-user:{}", folder.display()),
        };
        let shadow_doorbells = mode == DoorbellMode::Trapped;
        let usual = FunctionConfig::default();
        let transfer_bytes = transfer_bytes.unwrap_or(0).max(usual.max_transfer_bytes);
        let config = FunctionConfig {
            host: name.clone(),
            max_transfer_bytes: transfer_bytes,
            source: peer.number(),
            shadow_doorbells,
            transport_masks: true,
        };
        let function = Function::new(now, subsystem, config)?;
        let (doorbells, doorbell_file) = new_doorbells().map_err(PortError::Doorbells)?;
        Ok(Port {
            listener,
            function,
            name,
            doorbells,
            doorbell_file,
            mode,
            session: None,
            looks: Looks::default(),
            noted: None,
            tenant: 0,
            refused: 0,
            faults: None,
            _controller: controller,
        })
    }

    /// Has faults strike the client: its completions, and its connection. Faults of controllers
    /// are the subsystem's, and not among them.
    pub fn inject(&mut self, faults: Faults) {
        self.function.expect_faults();
        self.faults = Some(faults);
    }

    /// Name of its host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells profiles whose its commands are.
    pub(crate) fn belongs_to(&mut self, tenant: u16) {
        self.tenant = tenant;
    }

    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// What to wait on for clients.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// What to wait on for the client's messages.
    pub fn channel(&self) -> Option<BorrowedFd<'_>> {
        self.session.as_ref().map(|session| session.channel.as_fd())
    }

    /// Whether there is a client.
    pub fn is_attached(&self) -> bool {
        self.session.is_some()
    }

    /// Clients that came while there was one.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether the client may ring doorbells that nobody tells of.
    pub fn is_polled(&self) -> bool {
        self.mode == DoorbellMode::Mapped && self.session.is_some() && self.function.is_active()
    }

    /// Whether the client uses the controller.
    pub fn is_in_use(&self) -> bool {
        self.session.is_some() && self.function.is_in_use()
    }

    pub fn outstanding(&self, subsystem: &Subsystem) -> u64 {
        self.function.outstanding(subsystem)
    }

    /// When it wants a turn by itself, on the host's clock.
    pub fn next_at(&self) -> Option<Time> {
        self.function.next_at()
    }

    /// Whether messages wait that were not dealt with, or answers that could not be sent.
    pub fn has_more(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.unread || session.over)
    }

    /// Whether doorbells have been rung since the last turn, as far as a glance tells.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.session.is_some() && self.function.is_rung(self.doorbells.words())
    }

    /// Nobody will look at doorbells for a while: has the client tell of those that it would not.
    /// Whether there is something to do now.
    pub fn before_sleep(&mut self) -> bool {
        let Some(session) = &self.session else { return false };
        let guest = Guest { memory: &session.memory, doorbells: self.doorbells.words() };
        self.function.ask_for_doorbells(guest) || session.memory.lost().is_some()
    }

    /// Somebody knocks: takes the client, if there is none yet.
    ///
    /// # Errors
    /// If the system has nothing left for one.
    pub fn accept(&mut self) -> io::Result<bool> {
        let Some(channel) = self.listener.accept()? else { return Ok(false) };
        if self.session.is_some() {
            // It is told by being left alone at once.
            self.refused += 1;
            return Ok(false);
        }
        // Its own: the one before may still have those that it was given.
        (self.doorbells, self.doorbell_file) = new_doorbells()?;
        let vectors = usize::from(self.function.vectors());
        self.session = Some(Session {
            channel,
            server: Server::new(self.device()),
            memory: HostMemory::default(),
            events: (0..vectors).map(|_| None).collect(),
            waiting: VecDeque::new(),
            unread: true,
            over: false,
            complained: false,
        });
        Ok(true)
    }

    /// Lets a client go that was just accepted.
    pub fn dismiss(&mut self) {
        self.session = None;
    }

    /// What clients are told of the function.
    fn device(&self) -> Device {
        let mut device =
            Device { mappings_max: super::memory::MAPPINGS_MAX as u64, ..Device::default() };
        for (number, region) in device.regions.iter_mut().enumerate() {
            if let Some(known) = region_of(number as u32) {
                let mapped = (known == Region::Registers && self.mode == DoorbellMode::Mapped)
                    .then_some(Area { offset: DOORBELLS_AT, bytes: DOORBELL_BYTES });
                *region = Described { bytes: self.function.region_bytes(known), mapped };
            }
        }
        device.interrupts[MSI_X as usize] = u32::from(self.function.vectors());
        device
    }

    /// Lets the client go: the function is as new.
    fn leave(&mut self, now: Now, subsystem: &mut Subsystem, measure: &mut Measure) {
        self.note_waits(now, subsystem, measure);
        self.function.reset(now, subsystem, self.doorbells.words());
        for vector in 0..self.function.vectors() {
            self.function.hold_interrupt(vector, false);
        }
        self.function.take_interrupts(|_| ());
        self.noted = None;
        self.session = None;
    }

    /// Notes that the client goes, or serving ends, while its commands are under way.
    fn note_waits(&self, now: Now, subsystem: &Subsystem, measure: &mut Measure) {
        if let Some(flow) = self.function.flow(subsystem)
            && self.outstanding(subsystem) > 0
        {
            measure.waited_for(flow, now.model);
        }
    }

    /// Takes the function from the subsystem.
    pub fn close(mut self, now: Now, subsystem: &mut Subsystem, measure: &mut Measure) {
        self.looks.settle(now, measure);
        self.note_waits(now, subsystem, measure);
        self.session = None;
        self.function.close(now, subsystem);
    }

    /// Looks at the doorbells and does what is due; whether there was something.
    pub fn turn(&mut self, now: Now, clock: &impl Times, parts: Parts<'_>, say: &mut Say) -> bool {
        let Parts { subsystem, measure, profile } = parts;
        let mut cut = false;
        while let Some(Strike::Cut) = self.faults.as_mut().and_then(|it| it.strike(now.model)) {
            cut = true;
        }
        self.looks.settle(now, measure);
        let Some(session) = &mut self.session else { return false };
        let gap = match self.mode {
            // What has come was told at once.
            DoorbellMode::InStep => Span::ZERO,
            _ => self.looks.look(now),
        };
        let guest = Guest { memory: &session.memory, doorbells: self.doorbells.words() };
        let watcher = Watcher::new(clock, now, gap, &mut self.looks, measure);
        let profiling = match profile {
            Some(profile) => {
                let notes = &mut **self.noted.get_or_insert_default();
                let (controller_id, tenant) = (self.function.controller_id(), self.tenant);
                Some(Profiling { profile, notes, owner: Owner { controller_id, tenant } })
            }
            None => {
                // What was noted is of commands that end unseen.
                self.noted = None;
                None
            }
        };
        let mut watcher = watcher.with(self.faults.as_mut(), profiling);
        let mut worked = self.function.turn(now, subsystem, guest, &mut watcher);
        cut |= watcher.finish(subsystem);
        session.over |= cut;
        worked |= cut;
        if !worked {
            self.looks.found_nothing(now.model);
        }
        if self.mode != DoorbellMode::InStep {
            let events = &session.events;
            self.function.take_interrupts(|vector| signal(events, vector));
        }
        if !session.waiting.is_empty() {
            worked |= self.settle();
            if self.mode != DoorbellMode::InStep {
                self.send();
            }
        }
        if let Some(session) = &mut self.session
            && !session.complained
            && let Some(missing) = session.memory.take_missing()
        {
            session.complained = true;
            say(&complaint(&self.name, missing, session.memory.bytes()));
        }
        if let Some(session) = &mut self.session
            && !session.over
            && let Some(at) = session.memory.lost()
        {
            session.over = true;
            worked = true;
            say(&format!(
                "{}: the client was sent away: its memory at {at:#x} is gone (the file behind it \
                 has become shorter, or has no room left)",
                self.name
            ));
        }
        worked
    }

    /// Does what waits for memory to be free, in order, as far as it is; whether anything.
    fn settle(&mut self) -> bool {
        let Some(session) = &mut self.session else { return false };
        let mut worked = false;
        while let Some(first) = session.waiting.front() {
            if let Waiting::Unmap { range, .. } = first {
                let (at, bytes) = range.unwrap_or((0, u64::MAX));
                if self.function.uses(at, bytes) {
                    break;
                }
            }
            worked = true;
            match session.waiting.pop_front() {
                Some(Waiting::Map { ticket, memory, descriptor }) => {
                    let result = session.memory.map(&memory, descriptor);
                    session.server.answer(ticket, result);
                }
                Some(Waiting::Unmap { ticket, range }) => {
                    let result = session.memory.unmap(range);
                    session.server.answer(ticket, result);
                }
                None => break,
            }
        }
        worked
    }

    /// Deals with what the client says, and sends what it is told; whether there was something.
    pub fn receive(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        measure: &mut Measure,
        say: &mut Say,
    ) -> bool {
        let mut worked = false;
        for _ in 0..MESSAGES_A_LOOK {
            let Some(session) = &mut self.session else { break };
            if session.over {
                break;
            }
            session.unread = true;
            if !session.server.may_receive() || session.waiting.len() >= WAITING_MAX {
                self.send();
                break;
            }
            match session.channel.receive(session.server.receive_buffer()) {
                Ok(Some(received)) if received.bytes == 0 => session.over = true,
                Ok(Some(received)) => {
                    worked = true;
                    if received.lost {
                        session.server.lost_descriptors();
                    }
                    session.server.received(received.bytes, received.descriptors);
                    let _ = self.requests(now, subsystem, say);
                    self.settle();
                    self.send();
                }
                Ok(None) => {
                    session.unread = false;
                    break;
                }
                Err(_) => session.over = true,
            }
        }
        self.send();
        if self.session.as_ref().is_some_and(|session| session.over) {
            self.leave(now, subsystem, measure);
            worked = true;
        }
        worked
    }

    /// Receives up to the end of a message; whether there is a message, or the client has gone: then
    /// [`Port::deal`] comes next.
    pub fn receive_one(&mut self) -> bool {
        let Some(session) = &mut self.session else { return false };
        while !session.over && !session.server.has_message() {
            match session.channel.receive(session.server.receive_buffer()) {
                Ok(Some(received)) if received.bytes == 0 => session.over = true,
                Ok(Some(received)) => {
                    if received.lost {
                        session.server.lost_descriptors();
                    }
                    session.server.received(received.bytes, received.descriptors);
                }
                Ok(None) => return false,
                Err(_) => session.over = true,
            }
        }
        true
    }

    /// Deals with the message that has been received. The client is answered by [`Port::answer`].
    pub fn deal(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        measure: &mut Measure,
        say: &mut Say,
    ) -> ClientEvent {
        let heard = self.requests(now, subsystem, say);
        self.settle();
        if self.session.as_ref().is_none_or(|session| session.over) {
            self.leave(now, subsystem, measure);
            return if heard == ClientEvent::Posted { heard } else { ClientEvent::Gone };
        }
        heard
    }

    /// Sends the client all that it is to be told. Its socket has room for that: it waits for every
    /// answer.
    pub fn answer(&mut self) {
        self.send();
    }

    /// Whether the client waits for memory that commands use.
    pub fn is_waiting(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.waiting.is_empty())
    }

    /// Asks the client for something of no importance ([`ClientEvent::Knocked`]).
    pub fn knock(&mut self) {
        if let Some(session) = &mut self.session {
            session.server.knock();
            self.send();
        }
    }

    /// Signals the interrupts that are due; those that the client has a descriptor for.
    pub fn raise(&mut self) -> Vec<u16> {
        let mut raised = Vec::new();
        let Some(session) = &self.session else { return raised };
        let events = &session.events;
        self.function.take_interrupts(|vector| {
            if matches!(events.get(usize::from(vector)), Some(Some(_))) {
                raised.push(vector);
            }
            signal(events, vector);
        });
        raised
    }

    /// Whether the client has yet to take one of these interrupts, which were signalled.
    pub fn has_untaken(&self, raised: &[u16]) -> bool {
        let Some(session) = &self.session else { return false };
        let events = raised.iter().filter_map(|vector| session.events.get(usize::from(*vector)));
        events.flatten().any(|event| {
            let mut look = [PollFd::new(event, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut look, Some(&now)).is_ok_and(|ready| ready > 0)
        })
    }

    /// Sends what there is to send, as far as the socket takes it.
    fn send(&mut self) {
        let Some(session) = &mut self.session else { return };
        while let Some(output) = session.server.output() {
            let file = [self.doorbell_file.as_fd()];
            let descriptors = if output.descriptors.is_some() { &file[..] } else { &[] };
            match session.channel.send(output.bytes, descriptors) {
                Ok(0) => break,
                Ok(bytes) => session.server.sent(bytes),
                Err(_) => {
                    session.over = true;
                    break;
                }
            }
        }
    }

    /// Deals with the requests that have come.
    fn requests(&mut self, now: Now, subsystem: &mut Subsystem, say: &mut Say) -> ClientEvent {
        let Some(session) = &mut self.session else { return ClientEvent::Gone };
        let in_step = self.mode == DoorbellMode::InStep;
        let mut heard = ClientEvent::Something;
        let Session { server, memory, events, waiting, over, complained, .. } = session;
        let (function, doorbells) = (&mut self.function, self.doorbells.words());
        while let Some(event) = server.poll() {
            match event {
                Event::Connected(_) => {}
                Event::Map { ticket, memory, descriptor } => {
                    waiting.push_back(Waiting::Map { ticket, memory, descriptor });
                }
                Event::Unmap { ticket, range } => {
                    waiting.push_back(Waiting::Unmap { ticket, range })
                }
                Event::Interrupts { ticket, kind, start, count, change } => {
                    let result = match kind {
                        MSI_X => interrupts(function, events, start, count, change),
                        // There are none of the others, so that nothing else can be asked for.
                        _ => Ok(()),
                    };
                    if !in_step {
                        function.take_interrupts(|vector| signal(events, vector));
                    }
                    server.answer(ticket, result);
                }
                Event::Read { ticket, region, offset, bytes } => {
                    let mut data = vec![0; bytes as usize];
                    let result = region_of(region).ok_or(Errno::INVALID).and_then(|known| {
                        // Doorbells are what the client has written there itself.
                        function
                            .read(subsystem, known, offset, &mut data)
                            .map_err(|_| Errno::INVALID)
                    });
                    match result {
                        Ok(()) => server.read_done(ticket, |into| into.copy_from_slice(&data)),
                        Err(errno) => server.answer(ticket, Err(errno)),
                    }
                }
                Event::Write { ticket, .. } if in_step && !ticket.is_awaited() => {
                    heard = ClientEvent::Posted;
                    *over = true;
                    drop(ticket);
                }
                Event::Write { ticket, region: CONFIGURATION_REGION, offset: MARK_AT, data }
                    if in_step =>
                {
                    let mut mark = [0; 4];
                    let bytes = data.len().min(4);
                    mark[..bytes].copy_from_slice(&data[..bytes]);
                    heard = ClientEvent::Mark(u32::from_le_bytes(mark));
                    server.answer(ticket, Ok(()));
                }
                Event::Write { ticket, region, offset, data } => {
                    let before = function.is_active();
                    let result = region_of(region).ok_or(Errno::INVALID).and_then(|known| {
                        function
                            .write(now, subsystem, doorbells, known, offset, data)
                            .map_err(|_| Errno::INVALID)
                    });
                    server.answer(ticket, result);
                    let (shared, not_shared) = memory.bytes();
                    let is_enabled = !before && function.is_active();
                    if is_enabled && shared == 0 && not_shared >= GUEST_BYTES_MIN && !*complained {
                        *complained = true;
                        say(&complaint(&self.name, Missing::NotShared(0), (0, not_shared)));
                    }
                }
                Event::Reset { ticket } => {
                    function.reset(now, subsystem, doorbells);
                    server.answer(ticket, Ok(()));
                }
                Event::Knocked => heard = ClientEvent::Knocked,
                Event::Ended(ended) => {
                    say(&format!("{}: the client was sent away: {ended}", self.name));
                    *over = true;
                    return ClientEvent::Gone;
                }
            }
        }
        heard
    }
}

/// Memory for doorbells, and the file that it is. The file has the doorbells where BAR 0 has them,
/// so that both have the same offsets.
fn new_doorbells() -> io::Result<(Shared, OwnedFd)> {
    let bytes = DOORBELLS_AT + DOORBELL_BYTES;
    let (whole, file) = Shared::create("mynah-doorbells", bytes)?;
    drop(whole);
    let doorbells = Shared::map(&file, DOORBELLS_AT, DOORBELL_BYTES, true, true)?;
    Ok((doorbells, file))
}

/// What a region of the protocol is in the function; `None` if there is none.
fn region_of(number: u32) -> Option<Region> {
    match number {
        0 => Some(Region::Registers),
        4 => Some(Region::MsixTable),
        5 => Some(Region::MsixPending),
        CONFIGURATION_REGION => Some(Region::Configuration),
        _ => None,
    }
}

/// Sets the event descriptor of a vector, if there is one.
fn signal(events: &[Option<OwnedFd>], vector: u16) {
    if let Some(Some(event)) = events.get(usize::from(vector)) {
        // Full after four billion times that nobody has looked: then it is set anyway.
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}

/// Sets interrupts up, masks or triggers them.
fn interrupts(
    function: &mut Function,
    events: &mut [Option<OwnedFd>],
    start: u32,
    count: u32,
    change: Change<'_, OwnedFd>,
) -> Result<(), Errno> {
    let range = start as usize..(start + count) as usize;
    let these = events.get_mut(range.clone()).ok_or(Errno::INVALID)?;
    let chosen = |which: Which<'_>| -> Vec<u16> {
        let numbers = range.clone().map(|vector| vector as u16);
        match which {
            Which::All => numbers.collect(),
            Which::Some(bytes) => {
                numbers.zip(bytes).filter(|(_, byte)| **byte != 0).map(|it| it.0).collect()
            }
        }
    };
    match change {
        Change::Disable => events.fill_with(|| None),
        Change::Silence => these.fill_with(|| None),
        Change::Signal(descriptors) => {
            for (event, descriptor) in these.iter_mut().zip(descriptors) {
                // A counter that is full must not stop the drive.
                let flags = rustix::fs::fcntl_getfl(&descriptor).map_err(|_| Errno::INVALID)?;
                rustix::fs::fcntl_setfl(&descriptor, flags | rustix::fs::OFlags::NONBLOCK)
                    .map_err(|_| Errno::INVALID)?;
                *event = Some(descriptor);
            }
        }
        Change::Trigger(which) => {
            chosen(which).into_iter().for_each(|vector| signal(events, vector));
        }
        Change::Mask(which) => {
            chosen(which).into_iter().for_each(|vector| function.hold_interrupt(vector, true));
        }
        Change::Unmask(which) => {
            chosen(which).into_iter().for_each(|vector| function.hold_interrupt(vector, false));
        }
    }
    Ok(())
}

/// What is wrong with the client's memory, and what to do about it.
fn complaint(name: &str, missing: Missing, (shared, not_shared): (u64, u64)) -> String {
    const SHARE: &str = "-object memory-backend-memfd,id=mem,size=SIZE,share=on -machine \
                         memory-backend=mem";
    match missing {
        Missing::NotShared(_) if shared < GUEST_BYTES_MIN => format!(
            "{name}: the guest's memory ({} MiB) is not shared with the drive, which cannot work \
             without; give QEMU {SHARE}",
            not_shared >> 20
        ),
        Missing::NotShared(at) => format!(
            "{name}: address {at:#x} lies in memory that is not shared with the drive; give all \
             of the guest's memory to QEMU as {SHARE}"
        ),
        Missing::Unknown(at) => format!(
            "{name}: the driver gave address {at:#x}, where there is no memory: the command fails"
        ),
        Missing::Forbidden(at) => format!(
            "{name}: the driver wants memory at {at:#x} to be used that the drive may not use so: \
             the command fails"
        ),
    }
}
