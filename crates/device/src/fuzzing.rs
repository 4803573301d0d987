//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. They may not panic, hang or allocate without bound.

mod guest;
mod key_value;

pub use guest::guest;
pub use key_value::key_value;

use crate::{Now, Output, Queue, RamStore, Subsystem, SubsystemConfig, Timing, Transport};
use mynah_model::Drive;
use mynah_stamp::{Span, Time};
use mynah_wire::fabrics::{Connect, ConnectData, DISCOVERY_NQN, nqn_field};
use mynah_wire::nvme::SubmissionEntry;
use mynah_wire::nvme::command::{FabricsCommand, PropertySet, PropertySize};
use mynah_wire::nvme::property::offset;
use std::collections::HashSet;
use zerocopy::{FromBytes, IntoBytes};

const HOST: &str = "nqn.2026-11.fuzz:host";
const SUBSYSTEM: &str = "nqn.2026-11.fuzz:drive";
/// Bytes of a record before its data: what, on which queue, how many data bytes or how long.
const HEAD: usize = 4;

/// A Connect and its data: of an admin queue, or of an I/O queue of this controller.
fn connect(
    subsystem: &str,
    queue_id: u16,
    queue_size: u16,
    controller: u16,
) -> (SubmissionEntry, ConnectData) {
    let connect =
        Connect { record_format: 0, queue_id, queue_size, attributes: 0, keep_alive_ms: 0 };
    let mut entry = SubmissionEntry::default();
    connect.put(&mut entry);
    let mut data = ConnectData { host_id: [7; 16], ..Default::default() };
    data.controller_id.set(if queue_id == 0 { 0xffff } else { controller });
    data.host_nqn = nqn_field(HOST).unwrap_or([0; 256]);
    data.subsystem_nqn = nqn_field(subsystem).unwrap_or([0; 256]);
    (entry, data)
}

/// What enables a controller.
fn enable() -> SubmissionEntry {
    let mut enable = SubmissionEntry::default();
    let (size, value) = (PropertySize::Four, 0x0046_0001);
    let set = PropertySet { size, offset: offset::CC, value };
    FabricsCommand::PropertySet(set).put(&mut enable);
    enable
}

struct Fuzz {
    subsystem: Subsystem,
    now: Time,
    queues: Vec<Queue>,
    closed: Vec<Queue>,
    waiting: HashSet<(Queue, u16)>,
    next_id: u16,
}

/// Gives a subsystem around `drive` what the bytes say: records of commands with their data,
/// of time that passes, of connections that come and go. Checks that no command is answered
/// twice and none that was not asked.
pub fn commands(drive: Drive, data: &[u8]) {
    let Some((&first, mut rest)) = data.split_first() else { return };
    let timing = if first & 1 == 0 { Timing::Immediate } else { Timing::Modelled };
    let config = SubsystemConfig { timing, ..SubsystemConfig::new(SUBSYSTEM) };
    let Ok(subsystem) = Subsystem::new(config, drive, Box::new(RamStore::new())) else { return };
    let mut fuzz = Fuzz {
        subsystem,
        now: Time::ZERO,
        queues: vec![],
        closed: vec![],
        waiting: HashSet::new(),
        next_id: 0,
    };
    for (subsystem, queue_id) in [(SUBSYSTEM, 0), (SUBSYSTEM, 1), (DISCOVERY_NQN, 0)] {
        fuzz.connect(subsystem, queue_id);
    }
    while let Some((head, tail)) = rest.split_first_chunk::<HEAD>() {
        rest = tail;
        let [action, queue, low, high] = *head;
        let amount = u16::from_le_bytes([low, high]);
        let queue = fuzz.queues[usize::from(queue) % fuzz.queues.len()];
        match action % 8 {
            0 => fuzz.wait(Span::from_us(u64::from(amount))),
            1 => fuzz.wait(Span::from_ms(u64::from(amount))),
            2 => {
                fuzz.subsystem.detach(fuzz.clock(), queue);
                fuzz.waiting.retain(|(of, _)| *of != queue);
                fuzz.queues.retain(|&other| other != queue);
                fuzz.connect(if action & 8 == 0 { SUBSYSTEM } else { DISCOVERY_NQN }, amount % 4);
            }
            _ => {
                let Ok((entry, tail)) = SubmissionEntry::read_from_prefix(rest) else { break };
                let data = &tail[..tail.len().min(usize::from(amount) % 4097)];
                rest = &tail[data.len()..];
                fuzz.submit(queue, entry, data);
            }
        }
        fuzz.take();
    }
    fuzz.wait(Span::from_secs(1));
}

impl Fuzz {
    fn clock(&self) -> Now {
        Now { wall: self.now, model: self.now }
    }

    fn submit(&mut self, queue: Queue, mut entry: SubmissionEntry, data: &[u8]) {
        self.next_id = self.next_id.wrapping_add(1);
        entry.command_id.set(self.next_id);
        if !self.closed.contains(&queue) {
            self.waiting.insert((queue, self.next_id));
        }
        self.subsystem.submit(self.clock(), queue, &entry, data);
    }

    fn connect(&mut self, subsystem: &str, queue_id: u16) {
        let transport = Transport {
            in_capsule_bytes: 8192,
            max_transfer_bytes: 64 << 10,
            peer: String::new(),
            source: 0,
            local: None,
            port: 0,
            kind: 3,
            host_nqn: None,
        };
        let queue = self.subsystem.attach(self.clock(), transport);
        self.closed.retain(|&other| other != queue);
        // The first controller is the one that I/O queues belong to.
        let (entry, data) = connect(subsystem, queue_id, 31, 1);
        self.submit(queue, entry, data.as_bytes());
        if queue_id == 0 {
            self.submit(queue, enable(), &[]);
        }
        self.queues.push(queue);
        self.take();
    }

    fn wait(&mut self, span: Span) {
        let until = self.now + span;
        while self.now < until {
            let next = self.subsystem.next_at();
            let next = [next.wall, next.model].into_iter().flatten().min().unwrap_or(until);
            self.now = self.now.max(next.min(until));
            self.subsystem.advance(self.clock());
            self.take();
            if next >= until {
                self.now = until;
            }
        }
        self.subsystem.advance(self.clock());
        self.take();
    }

    fn take(&mut self) {
        while let Some(output) = self.subsystem.poll() {
            match output {
                Output::Completion(mut completion) => {
                    let asked =
                        self.waiting.remove(&(completion.queue, completion.entry.command_id.get()));
                    assert!(asked, "a completion to nothing: {completion:?}");
                    let mut data = vec![0; completion.data.bytes()];
                    self.subsystem.fill(&mut completion, &mut data);
                }
                Output::Close { queue, .. } => {
                    self.waiting.retain(|(of, _)| *of != queue);
                    self.closed.push(queue);
                }
                Output::Authentication(_) => {}
                Output::Query(query) => {
                    let clock = self.clock();
                    self.subsystem.answer_query(clock, &query, Ok((1, vec![1, 2, 3])));
                }
            }
        }
    }
}
