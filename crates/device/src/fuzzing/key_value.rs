//! Hosts that do what the bytes say to a key-value namespace: over connections, and from guest
//! memory.

use super::{SUBSYSTEM, connect, enable};
use crate::pci::{
    DOORBELL_BYTES, Function, FunctionConfig, Guest, GuestMemory, Region, SparseMemory, Watch,
};
use crate::{
    CommandKind, Completion, NamespaceConfig, NamespaceContent, Now, Output, Queue, RamStore,
    Subsystem, SubsystemConfig, Timing, Transport,
};
use mynah_model::Drive;
use mynah_model::io::FlowId;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::SubmissionEntry;
use mynah_wire::nvme::command::{
    AdminCommand, CreateCompletionQueue, CreateSubmissionQueue, QueuePriority,
};
use mynah_wire::nvme::opcode::{key_value as opcode, samsung};
use mynah_wire::nvme::property::offset;
use std::sync::atomic::{AtomicU32, Ordering};
use zerocopy::IntoBytes;

/// Bytes of a record: what, key, length of the key, options, bytes, bytes that there are.
const RECORD: usize = 8;
/// Largest data transfer of a command.
const TRANSFER_BYTES: u32 = 64 << 10;
/// Where the guest's memory begins: its queues, and behind them room for data.
const MEMORY: u64 = 0x1_0000;
const PAGE: u64 = 4096;
const DATA: u64 = MEMORY + 16 * PAGE;
/// Entries of the guest's queues.
const ENTRIES: u32 = 16;

/// A host of each kind in front of one subsystem.
struct Hosts {
    subsystem: Subsystem,
    function: Function,
    memory: SparseMemory,
    doorbells: Vec<AtomicU32>,
    now: Time,
    admin: Queue,
    io: Queue,
    tails: [u32; 2],
    next_id: u16,
    counter: PairCommandCounter,
}

/// Gives a subsystem around `drive`, whose first namespace has pairs (of NVMe's own set or of
/// Samsung's), what the bytes say: records of
/// commands, few of which are right, and of time that passes. Neither host may be able to make it
/// panic or hang. How many commands about pairs have succeeded.
pub fn key_value(drive: Drive, data: &[u8]) -> u32 {
    let Some((&first, rest)) = data.split_first() else { return 0 };
    let timing = if first & 1 == 0 { Timing::Immediate } else { Timing::Modelled };
    let speaks_samsung = first & 2 != 0;
    let Some(mut hosts) = Hosts::new(drive, timing, speaks_samsung) else { return 0 };
    for record in rest.as_chunks::<RECORD>().0 {
        let [what, key, length, options, low, high, there, more] = *record;
        let bytes = u32::from(u16::from_le_bytes([low, high]));
        match what % 16 {
            0 => hosts.wait(Span::from_us(bytes.into())),
            1 => hosts.reset(),
            2 => hosts.administer(key, options),
            3 => hosts.reconnect(),
            _ => {
                let entry = match speaks_samsung && options & 0xe0 != 0xe0 {
                    true => samsung_entry(*record),
                    false => entry(what, key, length, options, bytes),
                };
                let there = (u32::from(there) << (more % 9)) as usize;
                match what & 0x80 {
                    0 => hosts.submit(hosts.io, entry, &vec![key; there]),
                    _ => hosts.ring(1, entry, there as u64),
                }
            }
        }
        hosts.turn();
    }
    hosts.wait(Span::from_secs(1));
    hosts.reset();
    hosts.reconnect();
    hosts.wait(Span::from_secs(1));
    hosts.counter.0
}

/// Counts commands about pairs that have succeeded.
#[derive(Default)]
struct PairCommandCounter(u32);

impl Watch for PairCommandCounter {
    fn completed(&mut self, completion: &Completion) {
        use CommandKind::{Delete, Exist, List, Retrieve, Store};
        let is_about_pairs = matches!(completion.kind, Store | Retrieve | Delete | Exist | List);
        self.0 += u32::from(is_about_pairs && completion.entry.status().is_success());
    }

    fn plain(&mut self, _: FlowId, _: CommandKind, _: u32, _: u64) {}
}

/// A command of the set, or of another, whose fields may be anything.
fn entry(what: u8, key: u8, length: u8, options: u8, bytes: u32) -> SubmissionEntry {
    let opcodes = [
        opcode::STORE,
        opcode::RETRIEVE,
        opcode::DELETE,
        opcode::EXIST,
        opcode::LIST,
        opcode::STORE,
        opcode::RETRIEVE,
        opcode::FLUSH,
    ];
    // Some that are of blocks, about reservations, or none.
    let odd = options & 0xc0 == 0xc0;
    let opcode = if odd { what } else { opcodes[usize::from(what >> 4 & 7)] };
    let mut entry = SubmissionEntry { opcode, flags: 0x40, ..Default::default() };
    entry.namespace_id.set(if options & 0x30 == 0x30 { key.into() } else { 1 });
    entry.dword2.set(u32::from(key % 16));
    entry.dword14.set(u32::from(key) << 24);
    entry.dword10.set(if length & 0x40 == 0 { bytes } else { bytes << (length & 0x1f) });
    let length = if length & 0x80 == 0 { length % 20 } else { length };
    entry.dword11.set(u32::from(length) | u32::from(options & 7) << 8);
    entry.data.length.set(u32::MAX);
    entry
}

/// A command of Samsung's set, whose fields may be anything.
fn samsung_entry(record: [u8; RECORD]) -> SubmissionEntry {
    let [what, key, length, options, low, high, _, more] = record;
    let opcodes = [
        samsung::STORE,
        samsung::RETRIEVE,
        samsung::DELETE,
        samsung::EXIST,
        samsung::ITERATE,
        samsung::READ_ITERATOR,
        samsung::APPEND,
        samsung::STORE,
    ];
    let opcode = opcodes[usize::from(what >> 4 & 7)];
    let mut entry = SubmissionEntry { opcode, ..Default::default() };
    entry.namespace_id.set(if more & 0x80 == 0 { u32::from(more >> 5) } else { u32::MAX });
    let dwords = u32::from(u16::from_le_bytes([low, high]));
    entry.dword10.set(if length & 0x40 == 0 { dwords } else { dwords << (length & 0x1f) });
    entry.metadata.set(u64::from(more & 0x1f) * if options & 0x20 == 0 { 512 } else { 100 });
    let length = if length & 0x80 == 0 { length % 20 + 3 } else { length };
    let field = match opcode {
        samsung::ITERATE | samsung::READ_ITERATOR => u32::from(key % 20),
        _ => u32::from(length),
    };
    entry.dword11.set(field | u32::from(options & 0x1f) << 8 | u32::from(options >> 5) << 16);
    match length > 15 && !matches!(opcode, samsung::ITERATE) {
        true => {
            // Where the key lies: in the last pages of the memory, or behind them.
            let at = DATA + u64::from(TRANSFER_BYTES) - 16 * 256 + u64::from(key) * 16;
            entry.dword12.set(at as u32);
            entry.dword13.set(u32::from(options & 0x10));
            entry.dword14.set(if options & 8 == 0 { MEMORY as u32 } else { u32::from(key) });
        }
        false => {
            entry.dword12.set(u32::from(key % 4));
            entry.dword13.set(u32::from(key % 8) << 24);
        }
    }
    entry.data.length.set(u32::MAX);
    entry
}

impl Hosts {
    fn new(drive: Drive, timing: Timing, speaks_samsung: bool) -> Option<Hosts> {
        let mut config = SubsystemConfig { timing, ..SubsystemConfig::new(SUBSYSTEM) };
        if speaks_samsung {
            let (bytes, content) = (None, NamespaceContent::SamsungPairs);
            config.namespaces = vec![NamespaceConfig { bytes, content, handles: vec![] }];
        }
        let mut subsystem = Subsystem::new(config, drive, Box::new(RamStore::new())).ok()?;
        let zero = Now { wall: Time::ZERO, model: Time::ZERO };
        let config = FunctionConfig { max_transfer_bytes: TRANSFER_BYTES, ..Default::default() };
        let function = Function::new(zero, &mut subsystem, config).ok()?;
        let admin = subsystem.attach(zero, transport());
        let io = subsystem.attach(zero, transport());
        let mut hosts = Hosts {
            subsystem,
            function,
            memory: SparseMemory::default(),
            doorbells: (0..DOORBELL_BYTES / 4).map(|_| AtomicU32::new(0)).collect(),
            now: Time::ZERO,
            admin,
            io,
            tails: [0; 2],
            next_id: 0,
            counter: PairCommandCounter::default(),
        };
        hosts.memory.map(MEMORY, 16 * PAGE + u64::from(TRANSFER_BYTES));
        hosts.connect();
        hosts.boot();
        Some(hosts)
    }

    fn clock(&self) -> Now {
        Now { wall: self.now, model: self.now }
    }

    /// Connects the queues over fabrics.
    fn connect(&mut self) {
        for (queue, queue_id) in [(self.admin, 0), (self.io, 1)] {
            // The function has the first identifier.
            let (entry, data) = connect(SUBSYSTEM, queue_id, 63, 2);
            self.submit(queue, entry, data.as_bytes());
            if queue_id == 0 {
                self.submit(queue, enable(), &[]);
            }
            self.turn();
        }
    }

    fn reconnect(&mut self) {
        let now = self.clock();
        for queue in [self.io, self.admin] {
            self.subsystem.detach(now, queue);
        }
        self.admin = self.subsystem.attach(now, transport());
        self.io = self.subsystem.attach(now, transport());
        self.connect();
    }

    fn submit(&mut self, queue: Queue, mut entry: SubmissionEntry, data: &[u8]) {
        self.next_id = self.next_id.wrapping_add(1);
        entry.command_id.set(self.next_id);
        self.subsystem.submit(self.clock(), queue, &entry, data);
    }

    /// Format, deletion of the namespace, protection, a feature of it.
    fn administer(&mut self, which: u8, value: u8) {
        let opcodes = [0x80, 0x0d, 0x09, 0x09, 0x06];
        let opcode = opcodes[usize::from(which) % opcodes.len()];
        let mut entry = SubmissionEntry { opcode, flags: 0x40, ..Default::default() };
        entry.namespace_id.set(1);
        let features = [0x84, 0x20];
        entry.dword10.set(match opcode {
            0x0d => u32::from(value & 1),
            0x09 => features[usize::from(value & 1)],
            0x06 => 5,
            _ => 0,
        });
        entry.dword11.set(match opcode {
            0x09 => u32::from(value >> 1 & 1),
            _ => 1 << 24,
        });
        entry.data.length.set(u32::MAX);
        // Namespace Management has a namespace of 1 MiB in mind.
        let mut data = vec![0; 4096];
        data[2] = 0x10;
        self.submit(self.admin, entry, &data);
    }

    fn write(&mut self, at: u32, bytes: &[u8]) {
        let now = self.clock();
        let (subsystem, doorbells) = (&mut self.subsystem, &self.doorbells);
        let (function, region) = (&mut self.function, Region::Registers);
        // Within the region: it cannot fail.
        let _ = function.write(now, subsystem, doorbells, region, at.into(), bytes);
    }

    /// The function's host sets up its queues.
    fn boot(&mut self) {
        let now = self.clock();
        let (subsystem, doorbells) = (&mut self.subsystem, &self.doorbells);
        let _ = self.function.write(now, subsystem, doorbells, Region::Configuration, 4, &[6, 0]);
        self.tails = [0; 2];
        self.write(offset::AQA, &((ENTRIES - 1) * 0x1_0001).to_le_bytes());
        self.write(offset::ASQ, &MEMORY.to_le_bytes());
        self.write(offset::ACQ, &(MEMORY + PAGE).to_le_bytes());
        self.write(offset::CC, &0x0046_0001u32.to_le_bytes());
        let (queue_id, entries, contiguous) = (1, ENTRIES, true);
        for command in [
            AdminCommand::CreateCompletionQueue(CreateCompletionQueue {
                queue_id,
                entries,
                at: MEMORY + 3 * PAGE,
                contiguous,
                interrupts: false,
                vector: 0,
            }),
            AdminCommand::CreateSubmissionQueue(CreateSubmissionQueue {
                queue_id,
                entries,
                at: MEMORY + 2 * PAGE,
                contiguous,
                priority: QueuePriority::Urgent,
                completion_queue_id: queue_id,
            }),
        ] {
            let mut entry = SubmissionEntry::default();
            command.put(&mut entry);
            self.put(0, entry);
            self.turn();
        }
    }

    fn reset(&mut self) {
        let now = self.clock();
        self.function.reset(now, &mut self.subsystem, &self.doorbells);
        self.boot();
    }

    /// A command of the guest, whose data lie where there are so many bytes before the end of its
    /// memory.
    fn ring(&mut self, queue: usize, mut entry: SubmissionEntry, there: u64) {
        let at = DATA + u64::from(TRANSFER_BYTES).saturating_sub(there);
        entry.flags = 0x40;
        entry.data.address.set(at);
        self.put(queue, entry);
    }

    fn put(&mut self, queue: usize, mut entry: SubmissionEntry) {
        self.next_id = self.next_id.wrapping_add(1);
        entry.command_id.set(self.next_id);
        let tail = self.tails[queue];
        let at = MEMORY + 2 * queue as u64 * PAGE + u64::from(tail) * 64;
        if self.memory.write(at, entry.as_bytes()).is_ok() {
            self.tails[queue] = (tail + 1) % ENTRIES;
            self.doorbells[queue * 2].store(self.tails[queue].to_le(), Ordering::Relaxed);
        }
    }

    fn turn(&mut self) {
        let now = self.clock();
        for _ in 0..1000 {
            let guest = Guest { memory: &self.memory, doorbells: &self.doorbells };
            let worked = self.function.turn(now, &mut self.subsystem, guest, &mut self.counter);
            self.take();
            // Whatever was completed has been taken.
            for queue in 0..2 {
                let head = self.tails[queue];
                self.doorbells[queue * 2 + 1].store(head.to_le(), Ordering::Relaxed);
            }
            if !worked {
                break;
            }
        }
    }

    fn wait(&mut self, span: Span) {
        let until = self.now + span;
        for _ in 0..100_000 {
            self.turn();
            let next = self.subsystem.next_at();
            let next = [next.wall, next.model].into_iter().flatten().min().unwrap_or(until);
            if next >= until {
                break;
            }
            self.now = self.now.max(next);
        }
        self.now = until;
        self.subsystem.advance(self.clock());
        self.turn();
    }

    fn take(&mut self) {
        while let Some(output) = self.subsystem.poll() {
            if let Output::Completion(mut completion) = output {
                let mut data = vec![0; completion.data.bytes()];
                self.subsystem.fill(&mut completion, &mut data);
                self.counter.completed(&completion);
            }
        }
    }
}

fn transport() -> Transport {
    Transport {
        in_capsule_bytes: 8192,
        max_transfer_bytes: TRANSFER_BYTES,
        peer: String::new(),
        source: 0,
        local: None,
        port: 0,
        kind: 3,
        host_nqn: None,
    }
}
