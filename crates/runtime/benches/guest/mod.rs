//! A guest of one PCI function, in the same thread as it: it puts entries into its queues, lets
//! the function have its turns and takes the completions.

use super::shared;
use mynah_device::pci::{
    DOORBELL_BYTES, Function, FunctionConfig, Guest, GuestMemory, Region, Unmapped, Watch,
};
use mynah_device::{
    Arena, CommandKind, Completion, NamespaceConfig, NamespaceContent, Now, RamStore, Subsystem,
    SubsystemConfig, Timing,
};
use mynah_model::Drive;
use mynah_model::io::FlowId;
use mynah_runtime::arena::{self, HugeArena};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use zerocopy::IntoBytes;

const ENTRIES: u32 = 1024;
/// Enough to create all queues, so that no completion has to be taken.
const ADMIN_ENTRIES: u32 = 256;
/// Where things are in the guest's memory. Every queue has a megabyte.
const ADMIN: u64 = 0;
const QUEUES: u64 = 1 << 20;
const QUEUE_BYTES: u64 = 1 << 20;
const COMPLETIONS: u64 = 1 << 19;
const BUFFERS: u64 = 64 << 20;
const MEMORY_BYTES: usize = 80 << 20;
/// More find no place there.
const QUEUES_MAX: u16 = 63;

/// Memory in one piece.
struct FlatMemory(RefCell<HugeArena>);

impl GuestMemory for FlatMemory {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unmapped> {
        let (memory, at) = (self.0.borrow(), at as usize);
        let end = at.checked_add(into.len()).ok_or(Unmapped)?;
        into.copy_from_slice(memory.get(at..end).ok_or(Unmapped)?);
        Ok(())
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        let (mut memory, at) = (self.0.borrow_mut(), at as usize);
        let end = at.checked_add(from.len()).ok_or(Unmapped)?;
        memory.get_mut(at..end).ok_or(Unmapped)?.copy_from_slice(from);
        Ok(())
    }

    #[inline]
    fn prefetch(&self, at: u64, bytes: u32) {
        self.0.borrow().prefetch(at as usize, bytes as usize);
    }

    #[inline]
    fn write_completions(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        self.write(at, from)
    }
}

#[derive(Default)]
struct Heard(u64);

impl Watch for Heard {
    fn completed(&mut self, completion: &Completion) {
        assert!(completion.entry.status().is_success(), "{completion:?}");
        self.0 += 1;
    }

    fn plain(&mut self, _flow: FlowId, _kind: CommandKind, commands: u32, _bytes: u64) {
        self.0 += u64::from(commands);
    }
}

/// A submission queue and its completion queue.
struct Pair {
    id: u16,
    tail: u32,
    head: u32,
    phase: u16,
    outstanding: u32,
}

impl Pair {
    fn submissions(&self) -> u64 {
        QUEUES + u64::from(self.id - 1) * QUEUE_BYTES
    }

    fn completions(&self) -> u64 {
        self.submissions() + COMPLETIONS
    }
}

/// Commands of one kind at random places.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// Read or write.
    pub(crate) opcode: u8,
    /// Blocks of 512 bytes; up to 4 KiB.
    pub(crate) blocks: u32,
    /// Blocks of the disk.
    pub(crate) span: u64,
    /// Commands outstanding on each queue.
    pub(crate) depth: u32,
}

/// A guest and its function.
pub(crate) struct Bench {
    subsystem: Subsystem,
    function: Function,
    memory: FlatMemory,
    doorbells: Vec<AtomicU32>,
    now: Time,
    heard: Heard,
    admin_tail: u32,
    pairs: Vec<Pair>,
    random: u64,
    sent: u64,
    interrupts: u64,
}

impl Bench {
    /// A guest whose function has a namespace of so many bytes and so many queues for it, and
    /// every byte of it a place in the store.
    pub(crate) fn new(timing: Timing, namespace_bytes: u64, queues: u16) -> Bench {
        assert!((1..=QUEUES_MAX).contains(&queues), "1 to {QUEUES_MAX} queues");
        let mut config = SubsystemConfig { timing, ..SubsystemConfig::new(shared::SUBSYSTEM) };
        let bytes = Some(namespace_bytes);
        config.namespaces = vec![NamespaceConfig {
            bytes,
            content: NamespaceContent::Blocks(512),
            handles: vec![],
        }];
        let mut drive = shared::small();
        drive.geometry.blocks_per_plane = 2048;
        let drive = Drive::new(drive).expect("a drive");
        let mut subsystem =
            Subsystem::new(config, drive, Box::new(RamStore::from_source(arena::source())))
                .expect("a subsystem");
        let now = Now { wall: Time::ZERO, model: Time::ZERO };
        let function = Function::new(now, &mut subsystem, FunctionConfig::default());
        let mut bench = Bench {
            function: function.expect("a function"),
            subsystem,
            memory: FlatMemory(RefCell::new(HugeArena::zeroed(MEMORY_BYTES))),
            doorbells: (0..DOORBELL_BYTES / 4).map(|_| AtomicU32::new(0)).collect(),
            now: Time::ZERO,
            heard: Heard::default(),
            admin_tail: 0,
            pairs: (1..=queues)
                .map(|id| Pair { id, tail: 0, head: 0, phase: 1, outstanding: 0 })
                .collect(),
            random: 0x9e37_79b9_7f4a_7c15,
            sent: 0,
            interrupts: 0,
        };
        bench.write(Region::Configuration, 4, &[6, 0]);
        for (at, value) in [
            (offset::AQA, (ADMIN_ENTRIES - 1) * (1 | 1 << 16)),
            (offset::ASQ, ADMIN as u32),
            (offset::ACQ, ADMIN as u32 + (1 << 14)),
            (offset::CC, 0x0046_0001),
        ] {
            bench.write(Region::Registers, at.into(), &value.to_le_bytes());
        }
        for at in 0..bench.pairs.len() {
            bench.create(at);
        }
        bench.fill(namespace_bytes / 512);
        bench
    }

    /// Has the function create a pair of queues.
    fn create(&mut self, at: usize) {
        let (pair, before) = (&self.pairs[at], self.heard.0);
        let id = u32::from(pair.id);
        for (opcode, at, more) in [
            (admin::CREATE_COMPLETION_QUEUE, pair.completions(), 3 | id << 16),
            (admin::CREATE_SUBMISSION_QUEUE, pair.submissions(), 1 | id << 16),
        ] {
            let mut create = SubmissionEntry { opcode, ..Default::default() };
            create.set_prps(at, 0);
            create.dword10.set(id | (ENTRIES - 1) << 16);
            create.dword11.set(more);
            let place = ADMIN + u64::from(self.admin_tail) * 64;
            self.memory.write(place, create.as_bytes()).expect("mapped");
            self.admin_tail = (self.admin_tail + 1) % ADMIN_ENTRIES;
            self.doorbells[0].store(self.admin_tail.to_le(), Ordering::Release);
            while self.turn() {}
        }
        assert_eq!(self.heard.0, before + 2);
    }

    fn write(&mut self, region: Region, at: u64, from: &[u8]) {
        let now = Now { wall: self.now, model: self.now };
        self.function
            .write(now, &mut self.subsystem, &self.doorbells, region, at, from)
            .expect("inside the region");
    }

    #[inline]
    fn turn(&mut self) -> bool {
        let guest = Guest { memory: &self.memory, doorbells: &self.doorbells };
        let now = Now { wall: self.now, model: self.now };
        let worked = self.function.turn(now, &mut self.subsystem, guest, &mut self.heard);
        self.function.take_interrupts(|_| self.interrupts += 1);
        worked
    }

    /// Takes the completions of a queue that can be seen; how many.
    fn take(&mut self, at: usize) -> u32 {
        let pair = &mut self.pairs[at];
        let mut taken = 0;
        loop {
            let mut entry = CompletionEntry::default();
            let place = pair.completions() + u64::from(pair.head) * 16;
            self.memory.read(place, entry.as_mut_bytes()).expect("mapped");
            if entry.status_and_phase.get() & 1 != pair.phase {
                break;
            }
            taken += 1;
            pair.head += 1;
            if pair.head == ENTRIES {
                (pair.head, pair.phase) = (0, pair.phase ^ 1);
            }
        }
        if taken > 0 {
            pair.outstanding -= taken;
            let doorbell = usize::from(pair.id) * 2 + 1;
            self.doorbells[doorbell].store(pair.head.to_le(), Ordering::Release);
        }
        taken
    }

    /// Puts an entry into a queue.
    fn put(&mut self, at: usize, entry: &SubmissionEntry) {
        let pair = &mut self.pairs[at];
        let place = pair.submissions() + u64::from(pair.tail) * 64;
        self.memory.write(place, entry.as_bytes()).expect("mapped");
        pair.tail = (pair.tail + 1) % ENTRIES;
        pair.outstanding += 1;
    }

    fn ring(&mut self, at: usize) {
        let pair = &self.pairs[at];
        self.doorbells[usize::from(pair.id) * 2].store(pair.tail.to_le(), Ordering::Release);
    }

    /// Fills all queues up to their depth, lets the function have a turn and takes what is
    /// complete; how many commands that were.
    pub(crate) fn step(&mut self, work: &Work) -> u64 {
        let mut entry = SubmissionEntry { opcode: work.opcode, ..Default::default() };
        entry.namespace_id.set(1);
        entry.dword12.set(work.blocks - 1);
        for at in 0..self.pairs.len() {
            if self.pairs[at].outstanding >= work.depth {
                continue;
            }
            while self.pairs[at].outstanding < work.depth {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                let blocks = u64::from(work.blocks);
                let start = (self.random >> 16) % (work.span / blocks) * blocks;
                entry.dword10.set(start as u32);
                entry.command_id.set(self.sent as u16);
                entry.set_prps(BUFFERS + self.sent % 1024 * 4096, 0);
                self.put(at, &entry);
                self.sent += 1;
            }
            self.ring(at);
        }
        if !self.turn()
            && let Some(next) = self.subsystem.next_at().model
        {
            // As real time goes, which has no time for a turn at every event.
            self.now = (self.now + Span::from_us(1)).max(next);
        }
        (0..self.pairs.len()).map(|at| u64::from(self.take(at))).sum()
    }

    /// Gives every byte of the disk a place in the store, where it stays after a rest.
    fn fill(&mut self, span: u64) {
        let mut entry = SubmissionEntry { opcode: nvm::WRITE, ..Default::default() };
        entry.namespace_id.set(1);
        entry.dword12.set(7);
        entry.set_prps(BUFFERS, 0);
        self.memory.write(BUFFERS, &[7; 4096]).expect("mapped");
        for block in (0..span).step_by(8) {
            entry.dword10.set(block as u32);
            self.put(0, &entry);
            self.ring(0);
            loop {
                while self.turn() {}
                if self.take(0) > 0 {
                    break;
                }
                let next = self.subsystem.next_at().model.expect("something will happen");
                self.now = self.now.max(next);
            }
        }
        while self.subsystem.is_scattered() {
            self.subsystem.consolidate();
        }
    }
}
