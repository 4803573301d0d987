//! A queue pair in memory that is shared with the function.

use super::PAGE_BYTES;
use super::controller::SharedAdmin;
use crate::clock::Clock;
use crate::host::HostError;
use crate::host::transport::{Completed, Data, IoQueue, wait};
use crate::profile::{Flight, Flights};
use crate::shared::Shared;
use mynah_stamp::Time;
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry};
use mynah_wire::tcp::host::Movement;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Where things are in a queue's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Where the memory is on the bus.
    pub(super) address: u64,
    /// Bytes of all of the queue's memory.
    pub(super) bytes: u64,
    completion: u64,
    lists: u64,
    /// From one command's list to the next one's.
    list_bytes: u64,
    data: u64,
    /// From one command's data to the next one's; a multiple of a page.
    stride: u64,
}

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// PRPs of a page of a list. The last one leads to the next page where there is one.
const PRPS: u64 = PAGE_BYTES / 8;

/// Pages of a list of so many PRPs (Base 2.0, section 4.1.1).
fn list_pages(prps: u64) -> u64 {
    match prps {
        0 | 1 => 0,
        2..=PRPS => 1,
        more => 1 + (more - PRPS).div_ceil(PRPS - 1),
    }
}

impl Layout {
    /// Of an I/O queue whose commands move so many bytes at most.
    pub(super) fn new(entries: u16, bytes_max: usize, address: u64) -> Layout {
        let entries = u64::from(entries);
        let completion = pages(entries * SubmissionEntry::BYTES as u64);
        let lists = completion + pages(entries * CompletionEntry::BYTES as u64);
        let stride = pages(bytes_max.max(1) as u64);
        let list_bytes = list_pages(stride / PAGE_BYTES - 1) * PAGE_BYTES;
        let data = lists + entries * list_bytes;
        let bytes = data + entries * stride;
        Layout { address, bytes, completion, lists, list_bytes, data, stride }
    }

    /// Of the admin queue: a page for each of its two sides.
    pub(super) fn of_admin(address: u64) -> Layout {
        let [completion, lists, data] = [1, 2, 2].map(|page| page * PAGE_BYTES);
        let (bytes, stride) = (3 * PAGE_BYTES, PAGE_BYTES);
        Layout { address, bytes, completion, lists, list_bytes: 0, data, stride }
    }

    pub(super) fn submission_address(&self) -> u64 {
        self.address
    }

    pub(super) fn completion_address(&self) -> u64 {
        self.address + self.completion
    }

    fn data_at(&self, slot: u16) -> usize {
        (self.data + u64::from(slot) * self.stride) as usize
    }

    /// The list of a slot, if it has one.
    fn list_at(&self, slot: u16) -> u64 {
        self.lists + u64::from(slot) * self.list_bytes
    }

    /// Whether what a list has to hold depends on how long a command is: its last PRP is one of data,
    /// or leads on.
    #[inline]
    fn has_long_lists(&self) -> bool {
        self.list_bytes > PAGE_BYTES
    }

    /// Writes the list of a slot: all pages of its first `bytes` bytes but the first page.
    fn write_list(&self, memory: &Shared, slot: u16, bytes: u64) {
        let count = bytes.div_ceil(PAGE_BYTES).saturating_sub(1);
        if list_pages(count) == 0 {
            return;
        }
        let first = self.address + self.data_at(slot) as u64;
        let mut prps = (1..=count).map(|page| first + page * PAGE_BYTES);
        let mut left = count;
        let mut list = Vec::with_capacity((list_pages(count) * PAGE_BYTES) as usize);
        while left > PRPS {
            let some = prps.by_ref().take(PRPS as usize - 1);
            list.extend(some.flat_map(u64::to_le_bytes));
            let next = self.address + self.list_at(slot) + list.len() as u64 + 8;
            list.extend(next.to_le_bytes());
            left -= PRPS - 1;
        }
        list.extend(prps.flat_map(u64::to_le_bytes));
        memory.write(self.list_at(slot) as usize, &list);
    }

    /// The two PRPs of a slot's first `bytes` bytes.
    #[inline]
    fn prps(&self, slot: u16, bytes: u32) -> (u64, u64) {
        let first = self.address + self.data_at(slot) as u64;
        let second = match u64::from(bytes) {
            0..=PAGE_BYTES => 0,
            bytes if bytes <= 2 * PAGE_BYTES => first + PAGE_BYTES,
            _ => self.address + self.list_at(slot),
        };
        (first, second)
    }
}

/// How doorbells are rung.
#[derive(Debug)]
pub(super) enum Doorbell {
    /// By stores to mapped memory.
    Mapped {
        words: Arc<Shared>,
        /// The index of the first doorbell.
        first: usize,
    },
    /// By region writes, one message each.
    Messages,
}

/// Both sides of a queue pair: where the host stands, and where the entries are.
#[derive(Debug)]
pub(super) struct Ring {
    entries: u32,
    completion: usize,
    tail: u32,
    rung_tail: u32,
    head: u32,
    rung_head: u32,
    /// The phase of new completions.
    phase: u32,
    doorbell: Doorbell,
    /// The indices of the two doorbells.
    indices: (usize, usize),
}

impl Ring {
    /// A new queue pair, with so many words from one doorbell to the next.
    pub(super) fn new(
        id: u16,
        entries: u16,
        layout: &Layout,
        doorbell: Doorbell,
        stride: usize,
    ) -> Ring {
        let first = usize::from(id) * 2;
        Ring {
            entries: entries.into(),
            completion: layout.completion as usize,
            tail: 0,
            rung_tail: 0,
            head: 0,
            rung_head: 0,
            phase: 1,
            doorbell,
            indices: (first * stride, (first + 1) * stride),
        }
    }

    /// Puts an entry into the submission queue.
    #[inline]
    pub(super) fn push(&mut self, memory: &Shared, entry: &SubmissionEntry) {
        memory.write(self.tail as usize * SubmissionEntry::BYTES, entry.as_bytes());
        self.tail += 1;
        if self.tail == self.entries {
            self.tail = 0;
        }
    }

    /// The word of the next completion that has its phase, if it is new.
    #[inline]
    fn peek(&self, memory: &Shared) -> Option<u32> {
        let last = (self.completion + self.head as usize * CompletionEntry::BYTES) / 4 + 3;
        let word = u32::from_le(memory.words()[last].load(Ordering::Acquire));
        (word >> 16 & 1 == self.phase).then_some(word)
    }

    /// Takes the next completion.
    #[inline]
    pub(super) fn pop(&mut self, memory: &Shared) -> Option<CompletionEntry> {
        let last = self.peek(memory)?;
        let first = (self.completion + self.head as usize * CompletionEntry::BYTES) / 4;
        let words = &memory.words()[first..first + 3];
        let word = |at: usize| u32::from_le(words[at].load(Ordering::Relaxed));
        let mut entry = CompletionEntry::default();
        entry.result.set(u64::from(word(0)) | u64::from(word(1)) << 32);
        entry.queue_head.set(word(2) as u16);
        entry.queue_id.set((word(2) >> 16) as u16);
        entry.command_id.set(last as u16);
        entry.status_and_phase.set((last >> 16) as u16);
        self.head += 1;
        if self.head == self.entries {
            self.head = 0;
            self.phase ^= 1;
        }
        Some(entry)
    }

    #[inline]
    fn ring(&self, index: usize, value: u32) -> Option<(usize, u32)> {
        match &self.doorbell {
            Doorbell::Mapped { words, first } => {
                // A stride that leads out of the mapping is the controller's mistake.
                if let Some(word) = words.words().get(first + index) {
                    word.store(value.to_le(), Ordering::Release);
                }
                None
            }
            Doorbell::Messages => Some((index, value)),
        }
    }

    /// Tells the function of new submissions; the doorbell and its value if it is to be told by a
    /// message.
    #[inline]
    pub(super) fn ring_submission(&mut self) -> Option<(usize, u32)> {
        if self.tail == self.rung_tail {
            return None;
        }
        self.rung_tail = self.tail;
        self.ring(self.indices.0, self.tail)
    }

    /// Tells the function of completions taken; as for [`Ring::ring_submission`].
    #[inline]
    pub(super) fn ring_completion(&mut self) -> Option<(usize, u32)> {
        if self.head == self.rung_head {
            return None;
        }
        self.rung_head = self.head;
        self.ring(self.indices.1, self.head)
    }
}

pub(in crate::host) struct Queue {
    layout: Layout,
    memory: Shared,
    ring: Ring,
    event: Option<OwnedFd>,
    admin: SharedAdmin,
    free: Vec<u16>,
    /// By slot: whether a command is outstanding, and the bytes that come from the controller.
    slots: Vec<Option<u32>>,
    scratch: Vec<u8>,
    watch: Option<Box<Watch>>,
}

/// What notes when commands leave and completions are seen.
struct Watch {
    clock: Clock,
    flights: Flights,
    /// Commands that were submitted.
    commands: u32,
}

impl Queue {
    pub(super) fn new(
        layout: Layout,
        memory: Shared,
        ring: Ring,
        event: Option<OwnedFd>,
        admin: SharedAdmin,
    ) -> Queue {
        // One entry of a queue is always free.
        let slots = ring.entries as u16 - 1;
        let mut word = layout.address | 0x6d79_6e61;
        let mut scratch = vec![0; layout.stride as usize];
        for slot in 0..slots {
            for bytes in scratch.as_chunks_mut::<8>().0 {
                word = word
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                *bytes = word.to_le_bytes();
            }
            memory.write(layout.data_at(slot), &scratch);
            if !layout.has_long_lists() {
                layout.write_list(&memory, slot, layout.stride);
            }
        }
        Queue {
            layout,
            memory,
            ring,
            event,
            admin,
            free: (0..slots).rev().collect(),
            slots: vec![None; usize::from(slots)],
            scratch,
            watch: None,
        }
    }

    /// Puts bytes, a page of them at most, behind the data of the next command, where these are at
    /// least a page shorter than they may be. Where they lie on the bus; `None`: there is no room.
    pub(in crate::host) fn put_aside(&mut self, bytes: &[u8]) -> Option<u64> {
        let slot = self.next_slot()?;
        let room = self.layout.stride.checked_sub(PAGE_BYTES)?;
        if bytes.len() as u64 > PAGE_BYTES {
            return None;
        }
        let at = self.layout.data_at(slot) + room as usize;
        self.memory.write(at, bytes);
        Some(self.layout.address + at as u64)
    }

    #[cold]
    fn tell(&self, doorbell: (usize, u32)) -> Result<(), HostError> {
        let mut admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        admin.ring_doorbell(doorbell.0, doorbell.1)
    }
}

impl IoQueue for Queue {
    fn watch(&mut self, clock: Clock) {
        let flights = Flights::new(self.slots.len());
        self.watch = Some(Box::new(Watch { clock, flights, commands: 0 }));
    }

    fn socket(&self) -> Option<OwnedFd> {
        None
    }

    #[inline]
    fn ended(&mut self, slot: u16) -> Option<(&Flight, Time, u16)> {
        self.watch.as_mut()?.flights.ended(slot)
    }

    fn flight(&self, slot: u16) -> Option<&Flight> {
        self.watch.as_ref()?.flights.flight(slot)
    }

    #[inline]
    fn receive(&mut self) -> Result<bool, HostError> {
        let some = self.ring.peek(&self.memory).is_some();
        if some && let Some(watch) = &mut self.watch {
            // Nothing says when they came.
            watch.flights.received(watch.clock.wall());
        }
        Ok(some)
    }

    /// An entry says that all data are there.
    #[inline]
    fn is_amid_data(&self) -> bool {
        false
    }

    #[inline]
    fn poll(&mut self, data: &mut impl Data) -> Result<Option<Completed>, HostError> {
        let Some(entry) = self.ring.pop(&self.memory) else { return Ok(None) };
        let slot = entry.command_id.get();
        let outstanding = self.slots.get_mut(usize::from(slot)).and_then(Option::take);
        let Some(asked) = outstanding else {
            return Err(HostError::Nonsense("it answered what nobody asked".to_owned()));
        };
        let received = data.returned(slot, &entry, asked).min(asked);
        if received > 0 && data.is_looked_at() && data.comes_along(&entry) {
            let bytes = &mut self.scratch[..received as usize];
            self.memory.read(self.layout.data_at(slot), bytes);
            data.place(slot, 0, bytes);
        }
        self.free.push(slot);
        Ok(Some(Completed { slot, entry, received }))
    }

    #[inline]
    fn can_submit(&self) -> bool {
        !self.free.is_empty()
    }

    #[inline]
    fn next_slot(&self) -> Option<u16> {
        self.free.last().copied()
    }

    #[inline]
    fn submit(
        &mut self,
        entry: &SubmissionEntry,
        movement: Movement,
        data: &mut impl Data,
    ) -> Option<u16> {
        let slot = self.free.pop()?;
        let mut entry = *entry;
        entry.command_id.set(slot);
        let (bytes, received) = match movement {
            Movement::None => (0, 0),
            Movement::ToHost(bytes) => (bytes, bytes),
            Movement::FromHost(bytes) => (bytes, 0),
        };
        if matches!(movement, Movement::FromHost(_)) && data.is_particular(slot) {
            let into = &mut self.scratch[..bytes as usize];
            data.fill(slot, 0, into);
            self.memory.write(self.layout.data_at(slot), into);
        }
        if bytes > 0 {
            if self.layout.has_long_lists() {
                self.layout.write_list(&self.memory, slot, bytes.into());
            }
            let (first, second) = self.layout.prps(slot, bytes);
            entry.data.address.set(first);
            // The second PRP is where an SGL has its length and kind.
            entry.data.length.set(second as u32);
            let [.., a, b, c, d] = second.to_le_bytes();
            entry.data.reserved = [a, b, c];
            entry.data.kind = d;
        }
        self.slots[usize::from(slot)] = Some(received);
        self.ring.push(&self.memory, &entry);
        if let Some(watch) = &mut self.watch {
            let outstanding = self.slots.len() - self.free.len();
            watch.flights.queued(slot, &entry, movement, watch.commands, outstanding);
            watch.commands = watch.commands.wrapping_add(1);
        }
        Some(slot)
    }

    #[inline]
    fn send(&mut self, _data: &mut impl Data) -> Result<(), HostError> {
        if let Some(watch) = &mut self.watch
            && self.ring.tail != self.ring.rung_tail
        {
            watch.flights.rung(watch.clock.wall());
        }
        if let Some(doorbell) = self.ring.ring_completion() {
            self.tell(doorbell)?;
        }
        if let Some(doorbell) = self.ring.ring_submission() {
            self.tell(doorbell)?;
        }
        Ok(())
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        false
    }

    /// Without interrupts, time is only given to others while commands are outstanding.
    fn wait(&self, timeout: Duration) -> Result<(), HostError> {
        match &self.event {
            Some(event) => {
                wait(event.as_fd(), PollFlags::IN, timeout)?;
                // Empty if it was the time that woke.
                let _ = rustix::io::read(event, &mut [0; 8]);
            }
            None if self.free.len() < self.slots.len() => std::thread::yield_now(),
            None => std::thread::sleep(timeout),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the PRPs of a command as a controller does.
    fn walk(memory: &Shared, layout: &Layout, slot: u16, bytes: u32) -> Vec<u64> {
        let (first, second) = layout.prps(slot, bytes);
        let count = u64::from(bytes).div_ceil(PAGE_BYTES);
        let mut pages = vec![first];
        match count {
            1 => assert_eq!(second, 0),
            2 => pages.push(second),
            _ => {
                let mut at = second;
                loop {
                    let left = count - pages.len() as u64;
                    let mut list = vec![0; 8 * left.min(PRPS) as usize];
                    memory.read((at - layout.address) as usize, &mut list);
                    pages.extend(list.as_chunks().0.iter().map(|page| u64::from_le_bytes(*page)));
                    if left <= PRPS {
                        break;
                    }
                    at = pages.pop().expect("the next page of the list");
                    assert_eq!(at % PAGE_BYTES, 0);
                }
            }
        }
        pages
    }

    #[test]
    fn prps_lead_to_a_slots_own_bytes_in_order() {
        // With 513 and 1,024 pages a list's last PRP is one of data, with one more it leads on.
        let long = [513, 514, 1_024, 1_025].map(|pages| pages * PAGE_BYTES as usize);
        let short = [512, 4096, 8192, 12_288, 128 << 10, 2 << 20];
        for bytes_max in short.into_iter().chain(long).chain([32 << 20]) {
            let layout = Layout::new(5, bytes_max, 7 << 40);
            let (memory, _file) = Shared::create("test", layout.bytes).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for slot in 0..4 {
                layout.write_list(&memory, slot, layout.stride);
                let longest = bytes_max as u32;
                for bytes in [512, 4096, 4608, 8192, 8704, 65_536, 2 << 20, 4 << 20, longest] {
                    if bytes as usize > bytes_max {
                        continue;
                    }
                    if layout.has_long_lists() {
                        layout.write_list(&memory, slot, bytes.into());
                    }
                    let pages = walk(&memory, &layout, slot, bytes);
                    let first = layout.address + layout.data_at(slot) as u64;
                    let all: Vec<u64> =
                        (0..pages.len() as u64).map(|page| first + page * PAGE_BYTES).collect();
                    assert_eq!(pages, all, "{bytes_max} {slot} {bytes}");
                    seen.insert(first);
                }
            }
            assert_eq!(seen.len(), 4, "slots do not share pages");
            assert!(layout.data_at(3) as u64 + layout.stride <= layout.bytes);
        }
    }

    /// A controller that answers at once: completions come back in order, over many rounds.
    #[test]
    fn completions_are_told_from_old_ones_by_their_phase() {
        let layout = Layout::new(4, 512, 1 << 40);
        let (memory, _file) = Shared::create("test", layout.bytes).unwrap();
        let (words, _file) = Shared::create("doorbells", 4096).unwrap();
        let words = Arc::new(words);
        let doorbell = Doorbell::Mapped { words: Arc::clone(&words), first: 0 };
        let mut ring = Ring::new(3, 4, &layout, doorbell, 2);
        for number in 0..40u16 {
            assert!(ring.pop(&memory).is_none());
            let mut entry = SubmissionEntry::default();
            entry.command_id.set(number);
            let at = usize::from(number % 4);
            ring.push(&memory, &entry);
            assert_eq!(ring.ring_submission(), None);
            let tail = words.words()[12].load(Ordering::Relaxed);
            assert_eq!(tail, (u32::from(number) + 1) % 4);
            let mut back = [0; 64];
            memory.read(at * 64, &mut back);
            assert_eq!(back[2..4], number.to_le_bytes());
            let mut completion = CompletionEntry::default();
            completion.command_id.set(number);
            completion.result.set(u64::from(number) << 33 | 5);
            completion.status_and_phase.set(u16::from(number / 4 % 2 == 0));
            memory.write(layout.completion as usize + at * 16, completion.as_bytes());
            assert_eq!(ring.pop(&memory), Some(completion));
            assert_eq!(ring.ring_completion(), None);
            let head = words.words()[14].load(Ordering::Relaxed);
            assert_eq!(head, (u32::from(number) + 1) % 4);
        }
    }
}
