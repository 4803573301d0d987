//! A guest: memory, doorbells, and a driver that boots the controller and keeps its queues.

use crate::shared;
use mynah_device::pci::{
    DOORBELL_BYTES, Function, FunctionConfig, Guest, GuestMemory, Posting, Region, SparseMemory,
    Watch,
};
use mynah_device::{
    CommandKind, Completion, Now, RamStore, Store, Subsystem, SubsystemConfig, Timing,
};
use mynah_model::Drive;
use mynah_model::config::Config;
use mynah_model::io::FlowId;
use mynah_stamp::{Span, StageSpans, Time};
use mynah_wire::nvme::opcode::admin;
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use zerocopy::{FromBytes, IntoBytes};

pub(crate) const PAGE: u64 = 4096;
/// Where the guest's memory begins.
const MEMORY: u64 = 0x10_0000;

/// What the driver of the function hears of a command.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) kind: CommandKind,
    pub(crate) queue_id: u16,
    pub(crate) command_id: u16,
    pub(crate) bytes: u32,
    pub(crate) arrival: Time,
    pub(crate) due: Option<Time>,
    pub(crate) stages: StageSpans,
}

#[derive(Debug, Default)]
pub(crate) struct Ears {
    pub(crate) heard: Vec<Heard>,
    pub(crate) plain: [(u32, u64); 2],
    /// Commands about pairs that were answered at once.
    pub(crate) keys: BTreeMap<String, u32>,
    /// Whose its commands are.
    pub(crate) flow: Option<FlowId>,
    /// Of the next completions that ask for it.
    pub(crate) fates: VecDeque<Posting>,
}

impl Ears {
    /// All that a function's guest does is of one flow.
    fn belongs_to(&mut self, flow: FlowId) {
        assert_eq!(*self.flow.get_or_insert(flow), flow);
    }
}

impl Watch for Ears {
    fn completed(&mut self, reply: &Completion) {
        if reply.kind != CommandKind::Admin {
            self.belongs_to(reply.flow);
        }
        // Of what takes long by itself, a format say, the model knows but a part.
        if let Some(due) = reply.due.filter(|_| reply.kind != CommandKind::Admin) {
            assert_eq!(due.since(reply.arrival), reply.stages.total(), "{reply:?}");
        }
        self.heard.push(Heard {
            kind: reply.kind,
            queue_id: reply.entry.queue_id.get(),
            command_id: reply.entry.command_id.get(),
            bytes: reply.bytes,
            arrival: reply.arrival,
            due: reply.due,
            stages: reply.stages,
        });
    }

    fn plain(&mut self, flow: FlowId, kind: CommandKind, commands: u32, bytes: u64) {
        self.belongs_to(flow);
        if !matches!(kind, CommandKind::Read | CommandKind::Write) {
            *self.keys.entry(format!("{kind:?}")).or_default() += commands;
            return;
        }
        let place = &mut self.plain[usize::from(kind == CommandKind::Write)];
        *place = (place.0 + commands, place.1 + bytes);
    }

    fn posting(&mut self) -> Posting {
        self.fates.pop_front().unwrap_or(Posting::Posted)
    }
}

/// A submission queue as the guest sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submissions {
    pub(crate) base: u64,
    pub(crate) entries: u32,
    pub(crate) tail: u32,
}

/// A completion queue as the guest sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    pub(crate) base: u64,
    pub(crate) entries: u32,
    pub(crate) head: u32,
    phase: u16,
}

pub(crate) struct Host {
    pub(crate) subsystem: Subsystem,
    pub(crate) function: Function,
    pub(crate) memory: SparseMemory,
    pub(crate) doorbells: Vec<AtomicU32>,
    pub(crate) now: Time,
    pub(crate) submissions: BTreeMap<u16, Submissions>,
    pub(crate) completions: BTreeMap<u16, Completed>,
    /// Completions that nobody has asked for.
    pub(crate) done: VecDeque<CompletionEntry>,
    pub(crate) ears: Ears,
    pub(crate) interrupts: Vec<u16>,
    /// Whether completions are taken at once, and said to be.
    pub(crate) takes: bool,
    /// Whether every completion has to be seen at the moment that the model says.
    pub(crate) is_punctual: bool,
    next_page: u64,
    next_id: u16,
}

pub(crate) fn doorbells() -> Vec<AtomicU32> {
    (0..DOORBELL_BYTES / 4).map(|_| AtomicU32::new(0)).collect()
}

impl Host {
    /// A function that nobody has touched.
    pub(crate) fn cold(
        timing: Timing,
        change: impl FnOnce(&mut SubsystemConfig, &mut FunctionConfig),
        change_drive: impl FnOnce(&mut Config),
        store: Box<dyn Store>,
    ) -> Host {
        let mut config = SubsystemConfig { timing, ..SubsystemConfig::new(shared::SUBSYSTEM) };
        let mut function = FunctionConfig { max_transfer_bytes: 256 << 10, ..Default::default() };
        change(&mut config, &mut function);
        let mut drive = shared::small();
        change_drive(&mut drive);
        let drive = Drive::new(drive).expect("a drive");
        let mut subsystem = Subsystem::new(config, drive, store).expect("a subsystem");
        let zero = Now { wall: Time::ZERO, model: Time::ZERO };
        let function = Function::new(zero, &mut subsystem, function).expect("a function");
        let mut host = Host {
            subsystem,
            function,
            memory: SparseMemory::default(),
            doorbells: doorbells(),
            now: Time::ZERO,
            submissions: BTreeMap::new(),
            completions: BTreeMap::new(),
            done: VecDeque::new(),
            ears: Ears::default(),
            interrupts: vec![],
            takes: true,
            is_punctual: false,
            next_page: MEMORY,
            next_id: 0,
        };
        host.write(Region::Configuration, 4, &[6, 0]);
        host
    }

    /// A controller that is ready, with admin queues.
    pub(crate) fn new(timing: Timing) -> Host {
        Host::with(timing, |_, _| {}, |_| {})
    }

    pub(crate) fn with(
        timing: Timing,
        change: impl FnOnce(&mut SubsystemConfig, &mut FunctionConfig),
        change_drive: impl FnOnce(&mut Config),
    ) -> Host {
        let mut host = Host::cold(timing, change, change_drive, Box::new(RamStore::new()));
        host.boot(32);
        host
    }

    /// A controller that is ready, with an I/O queue pair of 64 entries.
    pub(crate) fn with_io(timing: Timing) -> Host {
        let mut host = Host::new(timing);
        host.create_pair(1, 64);
        host
    }

    pub(crate) fn clock(&self) -> Now {
        Now { wall: self.now, model: self.now }
    }

    pub(crate) fn boot(&mut self, entries: u32) {
        self.boot_with(entries, 0x0046_0001);
    }

    /// The same with a configuration.
    pub(crate) fn boot_with(&mut self, entries: u32, configuration: u32) {
        let submissions = self.pages(u64::from(entries) * 64);
        let completions = self.pages(u64::from(entries) * 16);
        self.set_register(offset::AQA, (entries - 1) * 0x1_0001);
        self.set_register_64(offset::ASQ, submissions);
        self.set_register_64(offset::ACQ, completions);
        self.set_register(offset::CC, configuration);
        self.submissions.insert(0, Submissions { base: submissions, entries, tail: 0 });
        let completed = Completed { base: completions, entries, head: 0, phase: 1 };
        self.completions.insert(0, completed);
        assert_eq!(self.register(offset::CSTS), 1);
    }

    pub(crate) fn write(&mut self, region: Region, at: u64, bytes: &[u8]) {
        let now = self.clock();
        self.function
            .write(now, &mut self.subsystem, &self.doorbells, region, at, bytes)
            .expect("inside the region");
    }

    pub(crate) fn read<const N: usize>(&self, region: Region, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.function.read(&self.subsystem, region, at, &mut bytes).expect("inside the region");
        bytes
    }

    pub(crate) fn register(&self, at: u32) -> u32 {
        u32::from_le_bytes(self.read(Region::Registers, at.into()))
    }

    pub(crate) fn set_register(&mut self, at: u32, value: u32) {
        self.write(Region::Registers, at.into(), &value.to_le_bytes());
    }

    pub(crate) fn set_register_64(&mut self, at: u32, value: u64) {
        self.write(Region::Registers, at.into(), &value.to_le_bytes());
    }

    /// Fresh memory, from the start of a page on.
    pub(crate) fn pages(&mut self, bytes: u64) -> u64 {
        let at = self.next_page;
        let bytes = bytes.next_multiple_of(PAGE);
        // Neighbours are not one run.
        self.next_page += bytes + PAGE;
        self.memory.map(at, bytes);
        at
    }

    /// Puts bytes into fresh memory.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.pages(bytes.len().max(1) as u64);
        self.memory.write(at, bytes).expect("mapped");
        at
    }

    pub(crate) fn get(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut into = vec![0; bytes];
        self.memory.read(at, &mut into).expect("mapped");
        into
    }

    /// Describes `bytes` from `at` on, in pages that follow one another, with PRPs.
    pub(crate) fn set_prps(&mut self, entry: &mut SubmissionEntry, at: u64, bytes: u64) {
        let first = PAGE - at % PAGE;
        let rest = bytes.saturating_sub(first);
        let second = match rest {
            0 => 0,
            1..=PAGE => at + first,
            _ => {
                let count = rest.div_ceil(PAGE);
                let mut pages: Vec<u64> = (0..count).map(|n| at + first + n * PAGE).collect();
                // Lists of 512 entries, of which the last points to the next list.
                let mut lists = vec![];
                while pages.len() > 512 {
                    let tail = pages.split_off(511);
                    lists.push(std::mem::replace(&mut pages, tail));
                }
                lists.push(pages);
                let mut next = None;
                while let Some(mut list) = lists.pop() {
                    list.extend(next);
                    next = Some(self.put(list.as_bytes()));
                }
                next.unwrap_or(0)
            }
        };
        entry.set_prps(at, second);
    }

    /// Creates a completion queue; its status.
    pub(crate) fn create_cq(&mut self, id: u16, entries: u32, vector: u16) -> Status {
        let base = self.pages(u64::from(entries) * 16);
        let mut entry = shared::entry(admin::CREATE_COMPLETION_QUEUE, 0);
        entry.set_prps(base, 0);
        entry.dword10.set(u32::from(id) | (entries - 1) << 16);
        entry.dword11.set(3 | u32::from(vector) << 16);
        let status = self.status(0, entry);
        if status == Status::SUCCESS {
            self.completions.insert(id, Completed { base, entries, head: 0, phase: 1 });
        }
        status
    }

    /// Creates a submission queue; its status.
    pub(crate) fn create_sq(&mut self, id: u16, entries: u32, completion: u16) -> Status {
        let base = self.pages(u64::from(entries) * 64);
        let mut entry = shared::entry(admin::CREATE_SUBMISSION_QUEUE, 0);
        entry.set_prps(base, 0);
        entry.dword10.set(u32::from(id) | (entries - 1) << 16);
        entry.dword11.set(1 | u32::from(completion) << 16);
        let status = self.status(0, entry);
        if status == Status::SUCCESS {
            self.submissions.insert(id, Submissions { base, entries, tail: 0 });
        }
        status
    }

    pub(crate) fn create_pair(&mut self, id: u16, entries: u32) {
        assert_eq!(self.create_cq(id, entries, id), Status::SUCCESS);
        assert_eq!(self.create_sq(id, entries, id), Status::SUCCESS);
    }

    pub(crate) fn delete(&mut self, opcode: u8, id: u16) -> Status {
        let mut entry = shared::entry(opcode, 0);
        entry.set_prps(0, 0);
        entry.dword10.set(id.into());
        self.status(0, entry)
    }

    /// Puts an entry into a queue without ringing; its command identifier.
    pub(crate) fn insert(&mut self, queue: u16, mut entry: SubmissionEntry) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        entry.command_id.set(self.next_id);
        let submissions = self.submissions.get_mut(&queue).expect("a queue");
        let at = submissions.base + u64::from(submissions.tail) * 64;
        self.memory.write(at, entry.as_bytes()).expect("mapped");
        submissions.tail = (submissions.tail + 1) % submissions.entries;
        self.next_id
    }

    pub(crate) fn ring(&mut self, queue: u16) {
        let tail = self.submissions[&queue].tail;
        self.doorbells[usize::from(queue) * 2].store(tail.to_le(), Ordering::Release);
    }

    pub(crate) fn submit(&mut self, queue: u16, entry: SubmissionEntry) -> u16 {
        let id = self.insert(queue, entry);
        self.ring(queue);
        id
    }

    /// Gives the function turns while it has something to do; takes completions.
    pub(crate) fn turn(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the function never rests");
            let guest = Guest { memory: &self.memory, doorbells: &self.doorbells };
            let now = Now { wall: self.now, model: self.now };
            let before = self.ears.heard.len();
            let worked = self.function.turn(now, &mut self.subsystem, guest, &mut self.ears);
            if self.is_punctual {
                for heard in &self.ears.heard[before..] {
                    assert_eq!(heard.due, Some(self.now), "late or early: {heard:?}");
                }
            }
            self.function.take_interrupts(|vector| self.interrupts.push(vector));
            if self.takes {
                self.take();
            }
            if !worked {
                break;
            }
        }
    }

    /// Takes the completions that can be seen.
    pub(crate) fn take(&mut self) {
        for (id, queue) in &mut self.completions {
            let before = queue.head;
            loop {
                let mut bytes = [0; 16];
                let at = queue.base + u64::from(queue.head) * 16;
                if self.memory.read(at, &mut bytes).is_err() {
                    break;
                }
                let entry = CompletionEntry::read_from_bytes(&bytes).expect("16 bytes");
                if entry.status_and_phase.get() & 1 != queue.phase {
                    break;
                }
                self.done.push_back(entry);
                queue.head += 1;
                if queue.head == queue.entries {
                    (queue.head, queue.phase) = (0, queue.phase ^ 1);
                }
            }
            if queue.head != before {
                let doorbell = &self.doorbells[usize::from(*id) * 2 + 1];
                doorbell.store(queue.head.to_le(), Ordering::Release);
            }
        }
    }

    /// When something happens next.
    pub(crate) fn next_at(&self) -> Option<Time> {
        let next = self.subsystem.next_at();
        [next.wall, next.model, self.function.next_at()].into_iter().flatten().min()
    }

    /// Lets time pass, event by event.
    pub(crate) fn wait(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            self.turn();
            match self.next_at().filter(|&at| at < until) {
                Some(at) if at > self.now => self.now = at,
                _ if self.now == until => return,
                // What is due and does not happen cannot be waited for.
                _ => self.now = until,
            }
        }
    }

    /// The completion of a command, waiting for it.
    pub(crate) fn completion(&mut self, queue: u16, id: u16) -> CompletionEntry {
        for _ in 0..100_000 {
            self.turn();
            let found = self
                .done
                .iter()
                .position(|it| it.queue_id.get() == queue && it.command_id.get() == id);
            if let Some(at) = found {
                return self.done.remove(at).expect("it is there");
            }
            // Where nothing is due for a while, a store is looked at.
            let next = self.next_at().filter(|&at| at > self.now);
            let soon = self.now + Span::from_us(100);
            self.now = next.map_or(soon, |at| at.min(soon));
        }
        panic!("no completion of command {id} on queue {queue}");
    }

    pub(crate) fn call(&mut self, queue: u16, entry: SubmissionEntry) -> CompletionEntry {
        let id = self.submit(queue, entry);
        self.completion(queue, id)
    }

    pub(crate) fn status(&mut self, queue: u16, entry: SubmissionEntry) -> Status {
        shared::plain(self.call(queue, entry).status())
    }

    /// A command with data for the host, and those data.
    pub(crate) fn fetch(
        &mut self,
        queue: u16,
        mut entry: SubmissionEntry,
        bytes: usize,
    ) -> (Status, Vec<u8>) {
        let at = self.pages(bytes as u64);
        self.set_prps(&mut entry, at, bytes as u64);
        let status = self.status(queue, entry);
        (status, self.get(at, bytes))
    }

    /// A command with data from the host.
    pub(crate) fn send(&mut self, queue: u16, mut entry: SubmissionEntry, data: &[u8]) -> Status {
        let at = self.put(data);
        self.set_prps(&mut entry, at, data.len() as u64);
        self.status(queue, entry)
    }

    /// A command without data.
    pub(crate) fn plain(&mut self, queue: u16, mut entry: SubmissionEntry) -> Status {
        entry.set_prps(0, 0);
        self.status(queue, entry)
    }
}
