//! What the PCI function costs: time of a read or write of 512 bytes or 4 KiB in nanoseconds,
//! without the model and with it, by queue depth; the best of five runs. The guest is in the same
//! thread: it puts all its entries into the queue, lets the function have its turns and takes all
//! completions, which is part of the figure.
//!
//! `cargo bench -p mynah-device --bench pci [-- WORD…]` runs the lines that have all the words.
//! `--count N` has each do N commands once and no more, for a tool that counts instructions.

#[allow(dead_code)]
#[path = "../tests/device/support.rs"]
mod shared;

use mynah_device::pci::{
    DOORBELL_BYTES, Function, FunctionConfig, Guest, GuestMemory, Region, Unmapped, Watch,
};
use mynah_device::{
    NamespaceConfig, Now, RamStore, Reply, ReplyKind, Subsystem, SubsystemConfig, Timing,
};
use mynah_model::Drive;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use zerocopy::{FromBytes, IntoBytes};

const ENTRIES: u32 = 1024;
/// Where things are in the guest's memory.
const ADMIN: u64 = 0;
const SUBMISSIONS: u64 = 1 << 20;
const COMPLETIONS: u64 = 2 << 20;
const BUFFERS: u64 = 4 << 20;
const MEMORY_BYTES: usize = 16 << 20;

/// Memory in one piece.
struct FlatMemory(RefCell<Vec<u8>>);

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
    fn write_completions(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        self.write(at, from)
    }
}

#[derive(Default)]
struct Heard(u64);

impl Watch for Heard {
    fn completed(&mut self, reply: &Reply) {
        assert!(reply.entry.status().is_success(), "{reply:?}");
        self.0 += 1;
    }

    fn plain(&mut self, _kind: ReplyKind, commands: u32, _bytes: u64) {
        self.0 += u64::from(commands);
    }
}

struct Bench {
    subsystem: Subsystem,
    function: Function,
    memory: FlatMemory,
    doorbells: Vec<AtomicU32>,
    now: Time,
    heard: Heard,
    admin_tail: u32,
    tail: u32,
    head: u32,
    phase: u16,
    interrupts: u64,
}

impl Bench {
    fn new(timing: Timing, namespace_bytes: u64) -> Bench {
        let mut config = SubsystemConfig { timing, ..SubsystemConfig::new(shared::SUBSYSTEM) };
        let bytes = Some(namespace_bytes);
        config.namespaces = vec![NamespaceConfig { bytes, block_bytes: 512 }];
        let mut drive = shared::small();
        drive.geometry.blocks_per_plane = 2048;
        let drive = Drive::new(drive).expect("a drive");
        let mut subsystem =
            Subsystem::new(config, drive, Box::new(RamStore::new())).expect("a subsystem");
        let now = Now { wall: Time::ZERO, model: Time::ZERO };
        let function = Function::new(now, &mut subsystem, FunctionConfig::default());
        let mut bench = Bench {
            function: function.expect("a function"),
            subsystem,
            memory: FlatMemory(RefCell::new(vec![0; MEMORY_BYTES])),
            doorbells: (0..DOORBELL_BYTES / 4).map(|_| AtomicU32::new(0)).collect(),
            now: Time::ZERO,
            heard: Heard::default(),
            admin_tail: 0,
            tail: 0,
            head: 0,
            phase: 1,
            interrupts: 0,
        };
        bench.write(Region::Configuration, 4, &[6, 0]);
        for (at, value) in [
            (offset::AQA, 7 | 7 << 16),
            (offset::ASQ, ADMIN as u32),
            (offset::ACQ, ADMIN as u32 + 4096),
            (offset::CC, 0x0046_0001),
        ] {
            bench.write(Region::Registers, at.into(), &value.to_le_bytes());
        }
        for (opcode, at, more) in [
            (admin::CREATE_COMPLETION_QUEUE, COMPLETIONS, 3 | 1 << 16),
            (admin::CREATE_SUBMISSION_QUEUE, SUBMISSIONS, 1 | 1 << 16),
        ] {
            let mut create = SubmissionEntry { opcode, ..Default::default() };
            create.set_prps(at, 0);
            create.dword10.set(1 | (ENTRIES - 1) << 16);
            create.dword11.set(more);
            let place = ADMIN + u64::from(bench.admin_tail) * 64;
            bench.memory.write(place, create.as_bytes()).expect("mapped");
            bench.admin_tail += 1;
            bench.doorbells[0].store(bench.admin_tail.to_le(), Ordering::Release);
            while bench.turn() {}
        }
        assert_eq!(bench.heard.0, 2);
        bench
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

    /// Takes the completions that can be seen; how many.
    fn take(&mut self) -> u32 {
        let mut taken = 0;
        loop {
            let mut entry = CompletionEntry::default();
            let at = COMPLETIONS + u64::from(self.head) * 16;
            self.memory.read(at, entry.as_mut_bytes()).expect("mapped");
            if entry.status_and_phase.get() & 1 != self.phase {
                break;
            }
            taken += 1;
            self.head += 1;
            if self.head == ENTRIES {
                (self.head, self.phase) = (0, self.phase ^ 1);
            }
        }
        if taken > 0 {
            self.doorbells[3].store(self.head.to_le(), Ordering::Release);
        }
        taken
    }

    /// Keeps `depth` commands outstanding until so many are done.
    fn run(&mut self, opcode: u8, blocks: u32, span: u64, depth: u32, commands: u64) {
        let (mut sent, mut done) = (0u64, 0u64);
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut entry = SubmissionEntry { opcode, ..Default::default() };
        entry.namespace_id.set(1);
        entry.dword12.set(blocks - 1);
        while done < commands {
            let before = sent;
            while sent < commands && sent - done < u64::from(depth) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let start = (random >> 16) % (span / u64::from(blocks)) * u64::from(blocks);
                entry.dword10.set(start as u32);
                entry.command_id.set(sent as u16);
                entry.set_prps(BUFFERS + sent % 1024 * 4096, 0);
                let at = SUBMISSIONS + u64::from(self.tail) * 64;
                self.memory.write(at, entry.as_bytes()).expect("mapped");
                self.tail = (self.tail + 1) % ENTRIES;
                sent += 1;
            }
            if sent > before {
                self.doorbells[2].store(self.tail.to_le(), Ordering::Release);
            }
            if !self.turn()
                && let Some(next) = self.subsystem.next_at().model
            {
                // As real time goes, which has no time for a turn at every event.
                self.now = (self.now + Span::from_us(1)).max(next);
            }
            done += u64::from(self.take());
        }
    }
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let count = words.iter().position(|word| word == "--count").map(|at| {
        words.remove(at);
        words.remove(at).parse::<u64>().expect("a number of commands")
    });
    // A disk that fits no cache, and one that does.
    for (disk, disk_bytes) in [("256-MiB", 256 << 20), ("1-MiB", 1 << 20)] {
        for (timing, timing_name, commands) in
            [(Timing::Immediate, "immediate", 2_000_000), (Timing::Modelled, "modelled", 200_000)]
        {
            for (what, opcode, blocks) in [
                ("read-512", nvm::READ, 1),
                ("write-512", nvm::WRITE, 1),
                ("read-4k", nvm::READ, 8),
            ] {
                for depth in [1, 16, 32, 128] {
                    let name = format!("{disk} {timing_name} {what} depth-{depth}");
                    let is_wanted = |word: &String| name.split(' ').any(|part| part == word);
                    if !words.iter().all(is_wanted) {
                        continue;
                    }
                    let mut bench = Bench::new(timing, disk_bytes);
                    let span = disk_bytes / 512;
                    fill(&mut bench, span);
                    if let Some(count) = count {
                        bench.run(opcode, blocks, span, depth, count);
                        continue;
                    }
                    let mut best = f64::MAX;
                    for _ in 0..5 {
                        let began = Instant::now();
                        bench.run(opcode, blocks, span, depth, commands / 5);
                        let each = began.elapsed().as_secs_f64() * 1e9 / (commands / 5) as f64;
                        best = best.min(each);
                    }
                    println!("{name}: {best:.1} ns, {:.2} M/s", 1000.0 / best);
                }
            }
        }
    }
}

/// Gives every byte of the disk a place in the store.
fn fill(bench: &mut Bench, span: u64) {
    let data = vec![7; 4096];
    for block in (0..span).step_by(8) {
        let mut entry = SubmissionEntry::read_from_bytes(&[0; 64]).expect("64 bytes");
        entry.opcode = nvm::WRITE;
        entry.namespace_id.set(1);
        entry.dword10.set(block as u32);
        entry.dword12.set(7);
        entry.set_prps(BUFFERS, 0);
        if block == 0 {
            bench.memory.write(BUFFERS, &data).expect("mapped");
        }
        let at = SUBMISSIONS + u64::from(bench.tail) * 64;
        bench.memory.write(at, entry.as_bytes()).expect("mapped");
        bench.tail = (bench.tail + 1) % ENTRIES;
        bench.doorbells[2].store(bench.tail.to_le(), Ordering::Release);
        loop {
            while bench.turn() {}
            if bench.take() > 0 {
                break;
            }
            let next = bench.subsystem.next_at().model.expect("something will happen");
            bench.now = bench.now.max(next);
        }
    }
}
