//! A guest that does what the bytes say to a PCI function.

use crate::pci::{
    DOORBELL_BYTES, Function, FunctionConfig, Guest, GuestMemory, Region, SparseMemory,
};
use crate::{Now, RamStore, Subsystem, SubsystemConfig, Timing};
use mynah_model::Drive;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::command::{
    AdminCommand, CreateCompletionQueue, CreateSubmissionQueue, Identify, QueuePriority,
};
use mynah_wire::nvme::identify::cns;
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry};
use std::sync::atomic::{AtomicU32, Ordering};
use zerocopy::{FromBytes, IntoBytes};

/// Where the guest's memory begins, and its pages. The first are the queues, two for each.
const MEMORY: u64 = 0x1_0000;
const PAGE: u64 = 4096;
const PAGES: u64 = 64;
const BOOT_PAGES: u64 = 8;
/// Entries of the queues that the guest boots with.
const ENTRIES: u32 = 16;
/// Bytes of a record before its data: what, where, and a number.
const HEAD: usize = 4;
/// Turns after which a function that has nothing new to do has to rest.
const TURNS_MAX: u32 = 100_000;

struct Machine {
    subsystem: Subsystem,
    function: Function,
    memory: SparseMemory,
    doorbells: Vec<AtomicU32>,
    now: Time,
    tails: [u32; 3],
}

/// Boots a function of a subsystem around `drive`, and then does to it what the bytes say:
/// commands, memory written, mapped and unmapped, registers, doorbells, resets, time. At the
/// end, a reset function boots again and answers.
pub fn guest(drive: Drive, data: &[u8]) {
    let Some((&first, mut rest)) = data.split_first() else { return };
    let timing = if first & 1 == 0 { Timing::Immediate } else { Timing::Modelled };
    let config = SubsystemConfig { timing, ..SubsystemConfig::new(super::SUBSYSTEM) };
    let Ok(mut subsystem) = Subsystem::new(config, drive, Box::new(RamStore::new())) else {
        return;
    };
    let config = FunctionConfig {
        max_transfer_bytes: 64 << 10,
        shadow_doorbells: first & 2 != 0,
        ..Default::default()
    };
    let zero = Now { wall: Time::ZERO, model: Time::ZERO };
    let Ok(function) = Function::new(zero, &mut subsystem, config) else { return };
    let mut machine = Machine {
        subsystem,
        function,
        memory: SparseMemory::default(),
        doorbells: (0..DOORBELL_BYTES / 4).map(|_| AtomicU32::new(0)).collect(),
        now: Time::ZERO,
        tails: [0; 3],
    };
    machine.boot();
    while let Some((head, tail)) = rest.split_first_chunk::<HEAD>() {
        rest = tail;
        let [action, place, low, high] = *head;
        let number = u16::from_le_bytes([low, high]);
        let page = MEMORY + u64::from(place) % PAGES * PAGE;
        match action % 12 {
            0 => machine.wait(Span::from_us(number.into())),
            1 => machine.wait(Span::from_ms(number.into())),
            2 | 3 => {
                let Some((value, tail)) = rest.split_first_chunk::<4>() else { break };
                rest = tail;
                let at = u64::from(number) % 0x1400 * if action % 12 == 2 { 1 } else { 4 };
                machine.write(Region::Registers, at % 0x3ff8, value);
            }
            4 => {
                let bytes;
                (bytes, rest) = rest.split_at(rest.len().min(usize::from(place)));
                let at = MEMORY + u64::from(number) * 4;
                // The guest cannot write what is not mapped either.
                let _ = machine.memory.write(at, bytes);
            }
            5 => {
                let index = usize::from(place) % machine.doorbells.len();
                machine.doorbells[index].store(u32::from(number).to_le(), Ordering::Relaxed);
            }
            6 => machine.memory.unmap(page, PAGE),
            7 => machine.memory.map(page, PAGE),
            8 => {
                let Some((value, tail)) = rest.split_first_chunk::<2>() else { break };
                rest = tail;
                let region = match place % 3 {
                    0 => Region::Configuration,
                    1 => Region::MsixTable,
                    _ => Region::MsixPending,
                };
                machine.write(region, u64::from(number) % 4094, value);
            }
            9 => {
                let now = machine.clock();
                machine.function.reset(now, &mut machine.subsystem, &machine.doorbells);
                machine.boot();
            }
            _ => {
                let Ok((entry, tail)) = SubmissionEntry::read_from_prefix(rest) else { break };
                rest = tail;
                machine.submit(usize::from(place) % 3, &entry);
            }
        }
        machine.turn();
    }
    machine.wait(Span::from_secs(1));
    let now = machine.clock();
    machine.function.reset(now, &mut machine.subsystem, &machine.doorbells);
    machine.boot();
    assert!(machine.identifies(), "the function boots and answers after a reset");
    let now = machine.clock();
    machine.function.close(now, &mut machine.subsystem);
    assert!(!machine.subsystem.is_held_up(), "nobody waits for a function that is gone");
}

impl Machine {
    fn clock(&self) -> Now {
        Now { wall: self.now, model: self.now }
    }

    fn write(&mut self, region: Region, at: u64, from: &[u8]) {
        let now = self.clock();
        let written =
            self.function.write(now, &mut self.subsystem, &self.doorbells, region, at, from);
        assert!(written.is_ok(), "the access lies within the region");
    }

    /// A controller with admin queues and two pairs of I/O queues, in mapped memory.
    fn boot(&mut self) {
        self.memory.map(MEMORY, PAGES * PAGE);
        for page in 0..BOOT_PAGES {
            let _ = self.memory.write(MEMORY + page * PAGE, &[0; PAGE as usize]);
        }
        self.tails = [0; 3];
        self.write(Region::Configuration, 4, &[6, 0]);
        for (at, value) in [
            (offset::CC, 0),
            (offset::AQA, (ENTRIES - 1) * 0x1_0001),
            (offset::ASQ, MEMORY as u32),
            (0x2c, 0),
            (offset::ACQ, (MEMORY + PAGE) as u32),
            (0x34, 0),
            (offset::CC, 0x0046_0001),
        ] {
            self.write(Region::Registers, at.into(), &value.to_le_bytes());
        }
        for id in 1..3 {
            let (queue_id, entries, contiguous) = (id, ENTRIES, true);
            let at = MEMORY + u64::from(id) * 2 * PAGE;
            let completions = CreateCompletionQueue {
                queue_id,
                entries,
                at: at + PAGE,
                contiguous,
                interrupts: true,
                vector: id,
            };
            let submissions = CreateSubmissionQueue {
                queue_id,
                entries,
                at,
                contiguous,
                priority: QueuePriority::Urgent,
                completion_queue_id: id,
            };
            for command in [
                AdminCommand::CreateCompletionQueue(completions),
                AdminCommand::CreateSubmissionQueue(submissions),
            ] {
                self.call(command, 0);
            }
        }
    }

    fn submit(&mut self, queue: usize, entry: &SubmissionEntry) {
        let tail = &mut self.tails[queue];
        let at = MEMORY + queue as u64 * 2 * PAGE + u64::from(*tail) * 64;
        let _ = self.memory.write(at, entry.as_bytes());
        *tail = (*tail + 1) % ENTRIES;
        self.doorbells[queue * 2].store(tail.to_le(), Ordering::Relaxed);
    }

    fn turn(&mut self) {
        for _ in 0..TURNS_MAX {
            let guest = Guest { memory: &self.memory, doorbells: &self.doorbells };
            let now = Now { wall: self.now, model: self.now };
            if !self.function.turn(now, &mut self.subsystem, guest, &mut ()) {
                self.function.take_interrupts(|_| {});
                return;
            }
        }
        panic!("the function never rests");
    }

    fn wait(&mut self, span: Span) {
        let until = self.now + span;
        while self.now < until {
            self.turn();
            let next = self.subsystem.next_at();
            let next = [next.wall, next.model, self.function.next_at()].into_iter().flatten();
            let next = next.min().filter(|&at| at > self.now).unwrap_or(until);
            self.now = next.min(until);
        }
        self.turn();
    }

    /// Puts a command into the admin queue, with its data there if it has any.
    fn call(&mut self, command: AdminCommand, data: u64) {
        let mut entry = SubmissionEntry::default();
        entry.set_prps(data, 0);
        command.put(&mut entry);
        self.submit(0, &entry);
        self.turn();
    }

    /// Whether the controller answers an Identify.
    fn identifies(&mut self) -> bool {
        let (structure, controller_id, specific_id, command_set) = (cns::CONTROLLER, 0, 0, 0);
        let identify = Identify { structure, controller_id, specific_id, command_set };
        self.call(AdminCommand::Identify(identify), MEMORY + BOOT_PAGES * PAGE);
        let mut completion = CompletionEntry::default();
        // Behind those of the queues' creation.
        let at = MEMORY + PAGE + 4 * 16;
        self.memory.read(at, completion.as_mut_bytes()).is_ok()
            && completion.status_and_phase.get() == 1
    }
}
