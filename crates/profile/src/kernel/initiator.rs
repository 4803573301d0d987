//! Records of I/Os out of the events of an initiator.
//!
//! Events come in the order of time. A request is given to a queue, its command is made by the same
//! thread, sends begin for it, bytes come and are read, and it ends. What a queue's address stands
//! for is learned from the first two. An I/O during which events were lost gets no record: a stage
//! of it could be wrong.

use super::event::{Event, TimedEvent};
use crate::header::{Header, Side, TimeBase};
use crate::host::{CAPSULES_COUNTED, HOST_STAGES};
use crate::kinds::{self, io_kinds};
use crate::record::Head;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode::nvm::{READ, WRITE};
use mynah_wire::nvme::opcode::{FABRICS, NvmOpcode, fabrics};
use rustc_hash::FxHashMap;

/// What is beside the stages: how often data were asked for; whether capsules were counted from the
/// start of the connection, so that the record's number is that of the target.
pub const KERNEL_BESIDE: [&str; 2] = ["r2ts", CAPSULES_COUNTED];

/// Most entries of each table: a kernel has fewer, hostile bytes might not.
const FLIGHTS_MAX: usize = 1 << 20;
const THREADS_MAX: usize = 1 << 16;
const QUEUES_MAX: usize = 1 << 16;
/// Times are within this of the origin, in nanoseconds: half of what a profile's clock holds.
const NS_MAX: u64 = u64::MAX / 2_000;
/// The tag in a command's identifier; above it is a generation (Linux: `nvme_tag_from_cid`).
const TAG: u16 = 0xfff;
/// Opcode of a request for which no command was built.
const NO_OPCODE: u8 = 0xff;

/// A queue of a controller's instance.
type QueueName = (u32, u16);

/// A request that was given to a queue and has no command yet.
#[derive(Clone, Copy, Debug)]
struct QueuedRequest {
    queue: u64,
    tag: u16,
    bytes: u32,
    started: u64,
    time: u64,
}

/// A command under way. Times are in nanoseconds of the trace's clock.
#[derive(Clone, Copy, Debug)]
struct Flight {
    command_id: u16,
    namespace: u32,
    opcode: u8,
    /// Whether it is an I/O, not a command that sets the connection up.
    is_io: bool,
    block: u64,
    blocks: u32,
    bytes: Option<u32>,
    outstanding: u16,
    nth: Option<u32>,
    is_counted: bool,
    begin: u64,
    given: u64,
    /// When the last send of its capsule began.
    left: Option<u64>,
    /// When the last R2T came, and when the last send of data after it began.
    asked: Option<u64>,
    sent: Option<u64>,
    /// Time spent waiting for R2Ts, and sending data, in all rounds but the last.
    wait: u64,
    turn: u64,
    rounds: u32,
}

/// What is known of a connection, by the address of its queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    name: QueueName,
    /// When bytes last came, and of what is being read: when it came, and when that began.
    ready: u64,
    arrived: u64,
    seen: u64,
    /// Completions of the receive that is being handled.
    batch: u16,
    /// Capsules so far; whether they were counted from the first on; and how often events had been
    /// lost by then: capsules may have been among those that were since.
    capsules: u32,
    is_counted: bool,
    gaps: u64,
}

/// Commands outstanding and completed in one queue.
#[derive(Clone, Copy, Debug, Default)]
struct Commands {
    address: u64,
    outstanding: u32,
    ended: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedIo {
    /// What it was. Its connection is nothing yet: see `controller`.
    pub head: Head,
    /// The controller's instance, as in `nvme0`.
    pub controller: u32,
    /// Blocks of a read or write, where its bytes are not known.
    pub blocks: Option<u32>,
    /// Its stages, which are [`HOST_STAGES`].
    pub stages: [Span; HOST_STAGES.len()],
    /// What is beside them, [`KERNEL_BESIDE`].
    pub beside: [u64; KERNEL_BESIDE.len()],
}

/// The state machine that turns the events of one trace into records.
#[derive(Debug)]
pub struct Initiator {
    /// The profile's time 0, on the trace's clock.
    origin: u64,
    flights: FxHashMap<(QueueName, u16), Flight>,
    queues: FxHashMap<u64, Queue>,
    commands: FxHashMap<QueueName, Commands>,
    threads: FxHashMap<u32, QueuedRequest>,
    /// Up to when events were lost, and how often; 0: none were.
    gap: u64,
    gaps: u64,
    completed: u64,
    ended: u64,
    lost: u64,
    before: u64,
    clamped: u64,
    connects: u64,
}

/// The header of a profile of this kernel's initiator.
pub fn kernel_header(name: &str) -> Header {
    let mut header = Header::new(Side::Host, name, TimeBase::Monotonic);
    header.kinds = io_kinds();
    header.stages = HOST_STAGES.map(str::to_owned).to_vec();
    header.beside = KERNEL_BESIDE.map(str::to_owned).to_vec();
    header
}

impl Initiator {
    /// Begins with an empty trace; the profile's time 0 is then on the trace's clock.
    pub fn new(origin: u64) -> Initiator {
        Initiator {
            origin,
            flights: FxHashMap::default(),
            queues: FxHashMap::default(),
            commands: FxHashMap::default(),
            threads: FxHashMap::default(),
            gap: 0,
            gaps: 0,
            completed: 0,
            ended: 0,
            lost: 0,
            before: 0,
            clamped: 0,
            connects: 0,
        }
    }

    /// I/Os that ended since, as far as is known.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// I/Os that became records.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// I/Os without a record, since events were lost while they were under way.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Those that ended, and had begun before the trace: they are not counted.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// I/Os of which a stage would have been negative, and is nothing.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Connections that were made since: what is known of controllers may be another.
    pub fn connects(&self) -> u64 {
        self.connects
    }

    /// Events were lost up to this time.
    pub fn missed(&mut self, until: u64) {
        self.gap = self.gap.max(until).max(1);
        self.gaps += 1;
    }

    /// Something has happened; the I/O that has ended with it.
    pub fn take(&mut self, seen: &TimedEvent) -> Option<EndedIo> {
        let TimedEvent { time, thread, event } = *seen;
        match event {
            Event::Queued { queue, tag, bytes, started } => {
                if self.threads.len() >= THREADS_MAX {
                    self.threads.clear();
                }
                let tag = tag & TAG;
                self.threads.insert(thread, QueuedRequest { queue, tag, bytes, started, time });
            }
            Event::Setup { .. } => self.setup(time, thread, &event),
            Event::Sent { queue, command_id, is_capsule } => {
                self.sent(time, queue, command_id, is_capsule);
            }
            Event::R2t { queue, command_id, is_cut: false } => {
                self.asked(time, queue, command_id);
            }
            Event::R2t { .. } => {}
            Event::Ready { queue } => {
                if let Some(queue) = self.queues.get_mut(&queue) {
                    queue.ready = time;
                }
            }
            Event::Read { queue } => {
                if let Some(queue) = self.queues.get_mut(&queue) {
                    queue.arrived = if queue.ready == 0 { time } else { queue.ready };
                    (queue.seen, queue.batch) = (time, 0);
                }
            }
            Event::Completed { controller, queue, tag, status } => {
                return self.ends(time, thread, (controller, queue), tag & TAG, status);
            }
        }
        None
    }

    fn setup(&mut self, time: u64, thread: u32, event: &Event) {
        let Event::Setup { controller, queue, command_id, opcode, fabrics, namespace, dwords } =
            *event
        else {
            return;
        };
        let given = self.threads.remove(&thread).filter(|it| it.tag == command_id & TAG);
        let is_connect = opcode == FABRICS && fabrics == fabrics::CONNECT;
        self.connects += u64::from(is_connect);
        // Connect goes to no namespace's queue: it says itself which one it makes (NVMe-oF).
        let id = match (queue, given) {
            (0, _) if is_connect => u16::from_le_bytes([dwords[2], dwords[3]]),
            (0, Some(given)) => self.queues.get(&given.queue).map_or(0, |it| it.name.1),
            (id, _) => id,
        };
        if id == 0 || self.flights.len() >= FLIGHTS_MAX {
            return;
        }
        let name = (controller, id);
        if let Some(given) = given {
            self.learn(given.queue, name, is_connect);
        }
        let begin = given.map_or(time, |it| it.begin());
        let moves = matches!(opcode, READ | WRITE);
        let long = |at: usize| {
            dwords.get(at..at + 8).and_then(|it| it.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let mut flight = Flight {
            command_id,
            namespace,
            opcode,
            is_io: queue != 0,
            block: if moves { long(0) } else { 0 },
            blocks: u32::from(u16::from_le_bytes([dwords[8], dwords[9]])) + 1,
            bytes: given.map(|it| it.bytes),
            outstanding: 0,
            nth: None,
            is_counted: false,
            begin,
            given: given.map_or(time, |it| it.time),
            left: None,
            asked: None,
            sent: None,
            wait: 0,
            turn: 0,
            rounds: 0,
        };
        let old = self.flights.remove(&(name, command_id & TAG));
        if let Some(old) = old {
            // It ended, and that was lost; or it was made and never given (BLK_STS_RESOURCE).
            if old.is_io && old.begin <= self.gap {
                self.completed += 1;
                self.lost += 1;
            }
        }
        let commands = self.commands.entry(name).or_default();
        commands.outstanding += u32::from(flight.is_io);
        commands.outstanding -= u32::from(old.is_some_and(|it| it.is_io)).min(commands.outstanding);
        flight.outstanding = commands.outstanding.min(u16::MAX.into()) as u16;
        self.flights.insert((name, command_id & TAG), flight);
    }

    /// A queue with this address has this name.
    fn learn(&mut self, address: u64, name: QueueName, is_connect: bool) {
        if self.queues.len() >= QUEUES_MAX || self.commands.len() >= QUEUES_MAX {
            self.queues.clear();
            self.commands.clear();
        }
        let new = Queue {
            name,
            ready: 0,
            arrived: 0,
            seen: 0,
            batch: 0,
            capsules: 0,
            is_counted: false,
            gaps: 0,
        };
        let gaps = self.gaps;
        let queue = self.queues.entry(address).or_insert(new);
        if queue.name != name {
            *queue = new;
        }
        if is_connect {
            // The first capsule of a connection.
            (queue.capsules, queue.is_counted, queue.gaps) = (0, true, gaps);
        }
        self.commands.entry(name).or_default().address = address;
    }

    /// The flight of a command, and its queue.
    fn flight(&mut self, queue: u64, command_id: u16) -> Option<(&mut Queue, Option<&mut Flight>)> {
        let queue = self.queues.get_mut(&queue)?;
        queue.is_counted &= queue.gaps == self.gaps;
        let flight = self.flights.get_mut(&(queue.name, command_id & TAG));
        Some((queue, flight.filter(|it| it.command_id == command_id)))
    }

    fn sent(&mut self, time: u64, queue: u64, command_id: u16, is_capsule: bool) {
        let Some((queue, flight)) = self.flight(queue, command_id) else { return };
        let Some(flight) = flight else {
            // Whether this is the first send of that capsule is not known.
            queue.is_counted &= !is_capsule;
            return;
        };
        if is_capsule && flight.left.is_none() {
            (flight.nth, flight.is_counted) = (Some(queue.capsules), queue.is_counted);
            queue.capsules = queue.capsules.wrapping_add(1);
        }
        match flight.rounds {
            0 => flight.left = Some(time),
            _ => flight.sent = Some(time),
        }
    }

    fn asked(&mut self, time: u64, queue: u64, command_id: u16) {
        let Some((queue, Some(flight))) = self.flight(queue, command_id) else { return };
        let arrived = if queue.seen == 0 { time } else { queue.arrived };
        flight.round(arrived);
    }

    fn ends(
        &mut self,
        time: u64,
        thread: u32,
        name: QueueName,
        tag: u16,
        status: u16,
    ) -> Option<EndedIo> {
        if name.1 == 0 || self.commands.len() >= QUEUES_MAX {
            return None;
        }
        let commands = self.commands.entry(name).or_default();
        let address = commands.address;
        let flight = match self.flights.remove(&(name, tag)) {
            Some(flight) => {
                commands.outstanding -= u32::from(flight.is_io).min(commands.outstanding);
                flight
            }
            None => match self.threads.remove(&thread).filter(|it| it.tag == tag) {
                // It was given to a queue that takes none, and failed at once.
                Some(given) => Flight::unmade(given, tag),
                None => return self.ends_unknown(),
            },
        };
        // A number of its own, where its capsule was not seen: samples are drawn by it.
        let nth = flight.nth.unwrap_or(commands.ended);
        commands.ended = commands.ended.wrapping_add(1);
        let queue = self.queues.get_mut(&address).filter(|it| it.name == name);
        let (arrived, seen, batch) = match queue {
            Some(queue) => {
                queue.batch = queue.batch.saturating_add(1);
                (queue.arrived, queue.seen, queue.batch)
            }
            None => (0, 0, 0),
        };
        if !flight.is_io {
            return None;
        }
        self.completed += 1;
        if flight.begin <= self.gap {
            self.lost += 1;
            return None;
        }
        self.ended += 1;
        let times = flight.times(self.origin, (arrived, seen, time));
        self.clamped += u64::from(times.is_clamped);
        let head = Head {
            queue: name.1,
            command_id: flight.command_id,
            namespace: flight.namespace as u16,
            bytes: flight.bytes.unwrap_or(0),
            kind: kind_of(flight.opcode),
            opcode: flight.opcode,
            status,
            nth,
            outstanding: flight.outstanding,
            batch: if seen == 0 { 0 } else { batch },
            block: flight.block,
            begin: Time::from_ns(times.begin),
            total: Span::from_ns(times.total()),
            ..Head::default()
        };
        let is_sized = flight.bytes.is_some() || !matches!(flight.opcode, READ | WRITE);
        Some(EndedIo {
            head,
            controller: name.0,
            blocks: (!is_sized).then_some(flight.blocks),
            stages: times.stages.map(Span::from_ns),
            beside: [flight.rounds.into(), u64::from(flight.is_counted)],
        })
    }

    /// Counts an I/O that ended and whose beginning was not seen.
    fn ends_unknown(&mut self) -> Option<EndedIo> {
        match self.gap {
            0 => self.before += 1,
            _ => {
                self.completed += 1;
                self.lost += 1;
            }
        }
        None
    }
}

impl QueuedRequest {
    /// When the request was created, if that is known.
    fn begin(&self) -> u64 {
        match self.started {
            0 => self.time,
            started => started.min(self.time),
        }
    }
}

/// An I/O's times since the origin, in nanoseconds.
struct Times {
    begin: u64,
    /// Whether they were out of order, so that a stage would have been negative.
    is_clamped: bool,
    stages: [u64; HOST_STAGES.len()],
}

impl Times {
    fn total(&self) -> u64 {
        self.stages.iter().sum()
    }
}

impl Flight {
    /// A request that failed before its command was built.
    fn unmade(given: QueuedRequest, tag: u16) -> Flight {
        Flight {
            command_id: tag,
            namespace: 0,
            opcode: NO_OPCODE,
            is_io: true,
            block: 0,
            blocks: 0,
            bytes: Some(given.bytes),
            outstanding: 0,
            nth: None,
            is_counted: false,
            begin: given.begin(),
            given: given.time,
            left: None,
            asked: None,
            sent: None,
            wait: 0,
            turn: 0,
            rounds: 0,
        }
    }

    /// Up to when its stages are known, and when it was last given or sent.
    fn at(&self) -> u64 {
        let left = self.left.unwrap_or(self.given).max(self.given);
        left.max(self.asked.unwrap_or(0)).max(self.sent.unwrap_or(0))
    }

    /// An R2T for it came at this time.
    fn round(&mut self, arrived: u64) {
        let at = self.at();
        let arrived = arrived.max(at);
        match self.asked {
            None => self.wait = arrived - at,
            Some(asked) => self.turn = self.turn.saturating_add(at.saturating_sub(asked)),
        }
        (self.asked, self.sent) = (Some(arrived), None);
        self.rounds = self.rounds.saturating_add(1);
    }

    /// Its stages, where what was last read of its queue came, was seen, and this ended then.
    fn times(&self, origin: u64, (arrived, seen, ended): (u64, u64, u64)) -> Times {
        let at = self.at();
        // What ended without an answer (it was given up), or without anybody who saw it being read,
        // was away until then.
        let (arrived, seen) = match seen < at {
            true => (ended, ended),
            false => (arrived, seen),
        };
        let given = self.left.map_or(self.given, |left| left.min(self.given));
        let is_clamped =
            !(given == self.given && at <= arrived && arrived <= seen && seen <= ended);
        let since = |time: u64| time.saturating_sub(origin).min(NS_MAX);
        let begin = since(self.begin);
        let given = since(self.given).max(begin);
        let left = since(self.left.unwrap_or(self.given)).max(given);
        let sent = since(at).max(left);
        let last = self.asked.map_or(0, |asked| at.saturating_sub(asked));
        let turn = self.turn.saturating_add(last);
        // What is left of the rounds is waiting to be asked for more.
        let rounds = sent - left;
        let wait = self.wait.min(rounds);
        let turn = turn.min(rounds - wait);
        let further = rounds - wait - turn;
        let arrived = since(arrived).max(sent);
        let seen = since(seen).max(arrived);
        let ended = since(ended).max(seen);
        let stages = [
            given - begin,
            left - given,
            wait,
            turn,
            further,
            arrived - sent,
            seen - arrived,
            ended - seen,
        ];
        Times { begin, is_clamped, stages }
    }
}

/// The number of a kind of I/O.
fn kind_of(opcode: u8) -> u8 {
    let Some(opcode) = NvmOpcode::of(opcode) else { return kinds::OTHER };
    match opcode {
        NvmOpcode::Read => kinds::READ,
        NvmOpcode::Write => kinds::WRITE,
        NvmOpcode::Flush => kinds::FLUSH,
        NvmOpcode::DatasetManagement => kinds::TRIM,
        NvmOpcode::WriteUncorrectable
        | NvmOpcode::Compare
        | NvmOpcode::WriteZeroes
        | NvmOpcode::Verify
        | NvmOpcode::Copy
        | NvmOpcode::IoManagementReceive
        | NvmOpcode::IoManagementSend
        | NvmOpcode::ReservationRegister
        | NvmOpcode::ReservationReport
        | NvmOpcode::ReservationAcquire
        | NvmOpcode::ReservationRelease => kinds::OTHER,
    }
}
