//! The event queue: what will happen, in order of time, and at equal times in the order in
//! which it was scheduled.
//!
//! An event that is scheduled before everything else is held back and never enters the queue
//! proper: a message on the link, which is most often the next thing to happen, costs next to
//! nothing. A timing wheel of 4096 slots of 524 ns takes everything else that happens within
//! 2.1 ms; a binary heap holds the rest (erases, timers) until it comes within that reach.
//! Lists of a slot are sorted by time and then by a sequence number, so events that come
//! from the heap stand where they would have stood.

use crate::kernel::snapshot::{array, boxed_array};
use crate::number::{Channel, CommandIndex, Die, PieceIndex, Plane, WorkIndex, WriteIndex};
use mynah_stamp::Time;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens inside the drive. Numbers index the drive's own tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A submission queue doorbell has crossed the link.
    Doorbell { queue: u16, count: u32 },
    /// The controller's request for submission queue entries has reached host memory.
    EntryRequestAtHost { queue: u16, count: u32 },
    /// Submission queue entries have reached the controller.
    EntriesArrived { queue: u16, count: u32 },
    /// The request for a PRP list has reached host memory.
    PrpRequestAtHost { command: CommandIndex },
    /// A PRP list has reached the controller.
    PrpArrived { command: CommandIndex },
    /// The request for write data has reached host memory.
    DataRequestAtHost { command: CommandIndex },
    /// Write data has reached the controller.
    DataInArrived { command: CommandIndex },
    /// The firmware has processed a command.
    FirmwareDone { command: CommandIndex },
    /// Something that a key-value command waited for at the front end is there: its value's
    /// request at the host, its key, or the end of its manager's work.
    KeyStep { command: CommandIndex },
    /// A DRAM access for a command is done.
    CacheAccessDone { command: CommandIndex },
    /// A unit's data have left the cache's DRAM for the flash.
    UnitOutOfDram { unit: WriteIndex },
    /// What the channel carried is across.
    ChannelDone { channel: Channel },
    /// A die's array operation is done.
    ArrayDone { die: Die },
    /// A page that was transferred has been decoded.
    Decoded { work: WorkIndex },
    /// An array operation that can be suspended is done. Stale if the die has another number by
    /// now: then the operation was suspended.
    LongArrayDone { number: u16, die: Die },
    /// Read data has reached the host; only reported, never acted on.
    DataOutArrived { piece: PieceIndex },
    /// A completion queue entry is visible to the host.
    CompletionVisible { command: CommandIndex },
    /// A completion has reached the host bus adapter.
    CompletionAtAdapter { command: CommandIndex },
    /// Commands have passed the host bus adapter.
    DoorbellAtHost { queue: u16, count: u32 },
    /// A completion queue doorbell that someone waits for has crossed the link.
    CompletionDoorbell { queue: u16 },
    /// A hop of a command on an Ethernet link has ended; `hop` is its next.
    Hop { command: CommandIndex, hop: u16 },
    /// A direction of a port may have its next turn.
    LineTurn { line: u16 },
    /// A TRIM or format goes on with its next slice.
    TrimStep { command: CommandIndex },
    /// A plane may have been idle long enough for idle garbage collection.
    IdleCheck { plane: Plane },
    /// The drive may have been idle long enough to fold in a plane.
    FoldCheck { plane: Plane },
    /// An injected fault takes effect.
    Fault { index: u32 },
    /// The drive accepts commands again after a power cut.
    PowerRestored,
}

const SLOT_BITS: u32 = 19;
const SLOTS: u64 = 4096;
const NONE: u32 = u32::MAX;
/// A time or slot number that never comes.
const NEVER: u64 = u64::MAX;

/// The position of the wheel from which on it reaches slot number `number`.
fn reached_from(number: u64) -> u64 {
    (number + 1).saturating_sub(SLOTS)
}

/// An event's place in the order: a time, and how many were scheduled before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    time: u64,
    sequence: u64,
}

impl Key {
    pub(crate) fn at(self) -> Time {
        Time::from_ps(self.time)
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Node {
    key: Key,
    event: Event,
    next: u32,
}

/// A list of events, sorted by key.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Slot {
    head: u32,
    /// Means nothing while there is no head.
    tail: u32,
}

/// Pending events. `pop` returns them in order of (time, order of scheduling).
#[derive(Serialize, Deserialize)]
pub(crate) struct EventQueue {
    /// The event that happens before all others, if it is held back; its time is `NEVER` if
    /// none is.
    held: Key,
    held_event: Event,
    /// Time of the earliest event that is not held back: in the wheel, or if that is empty in
    /// `far`; `NEVER` if there is none.
    first: u64,
    sequence: u64,
    /// Sequence number of the event that is happening; `NEVER` when all that happens at the
    /// present instant has happened.
    present: u64,
    /// Slot number (not wrapped) of the last event taken from the wheel: nothing in the wheel
    /// is earlier.
    position: u64,
    /// The position from which on the earliest event in `far` is within reach; `NEVER` if there
    /// is none.
    far_from: u64,
    free: u32,
    nodes: Vec<Node>,
    /// One bit for each slot, and one for each word of those that is not zero.
    occupied_words: u64,
    #[serde(with = "array")]
    occupied: [u64; SLOTS as usize / 64],
    #[serde(with = "boxed_array")]
    slots: Box<[Slot; SLOTS as usize]>,
    far: BinaryHeap<Reverse<(Key, Event)>>,
}

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            held: Key { time: NEVER, sequence: 0 },
            held_event: Event::PowerRestored,
            first: NEVER,
            sequence: 0,
            present: NEVER,
            position: 0,
            far_from: NEVER,
            free: NONE,
            nodes: Vec::new(),
            occupied_words: 0,
            occupied: [0; SLOTS as usize / 64],
            slots: Box::new([Slot { head: NONE, tail: NONE }; SLOTS as usize]),
            far: BinaryHeap::new(),
        }
    }

    /// Schedules `event`. `at` must not be before the last popped event.
    #[inline(always)]
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let key = Key { time: at.as_ps(), sequence: self.sequence };
        self.sequence += 1;
        let (mut later, mut later_event) = (key, event);
        if key.time < self.first.min(self.held.time) {
            (later, later_event) = (self.held, self.held_event);
            (self.held, self.held_event) = (key, event);
            if later.time == NEVER {
                return;
            }
        }
        self.store(later, later_event);
    }

    /// Takes the place in the order that an event scheduled now for `at` would have, without
    /// scheduling one: that may be done later, until then with [`EventQueue::push_reserved`].
    #[inline]
    pub(crate) fn reserve(&mut self, at: Time) -> Key {
        let key = Key { time: at.as_ps(), sequence: self.sequence };
        self.sequence += 1;
        key
    }

    /// Schedules an event at a place that was reserved and is not past.
    pub(crate) fn push_reserved(&mut self, key: Key, event: Event) {
        if self.held.time != NEVER && key < self.held {
            let before = std::mem::replace(&mut self.held.time, NEVER);
            self.store(Key { time: before, ..self.held }, self.held_event);
        }
        self.store(key, event);
    }

    /// Whether an event with this place would have happened already.
    #[inline]
    pub(crate) fn is_past(&self, key: Key, now: Time) -> bool {
        let now = now.as_ps();
        key.time < now || (key.time == now && key.sequence < self.present)
    }

    /// Everything that happens at the present instant has happened.
    #[inline]
    pub(crate) fn end_instant(&mut self) {
        self.present = NEVER;
    }

    /// Takes the place in the order that an event scheduled now would have, without
    /// scheduling one. Optional reports use it so that they never change the order of the
    /// events that matter.
    #[inline]
    pub(crate) fn skip_sequence(&mut self) {
        self.sequence += 1;
    }

    /// Puts an event into the wheel, or among those far away.
    #[inline(never)]
    fn store(&mut self, key: Key, event: Event) {
        let number = key.time >> SLOT_BITS;
        let index = self.free;
        let Some(node) =
            self.nodes.get_mut(index as usize).filter(|_| number - self.position < SLOTS)
        else {
            return self.store_otherwise(key, event);
        };
        self.first = self.first.min(key.time);
        self.free = node.next;
        *node = Node { key, event, next: NONE };
        let slot = (number % SLOTS) as usize;
        let Slot { head, tail } = self.slots[slot];
        if head == NONE {
            self.slots[slot] = Slot { head: index, tail: index };
            self.occupied[slot / 64] |= 1 << (slot % 64);
            self.occupied_words |= 1 << (slot / 64);
            return;
        }
        let last = &mut self.nodes[tail as usize];
        if last.key < key {
            last.next = index;
            self.slots[slot].tail = index;
        } else {
            self.insert(slot, head, index);
        }
    }

    /// Stores an event that lies beyond the slots, or for which no node is free.
    #[cold]
    #[inline(never)]
    fn store_otherwise(&mut self, key: Key, event: Event) {
        let number = key.time >> SLOT_BITS;
        if number - self.position < SLOTS {
            let nobody = Key { time: NEVER, sequence: 0 };
            self.free = self.nodes.len() as u32;
            self.nodes.push(Node { key: nobody, event: Event::PowerRestored, next: NONE });
            return self.store(key, event);
        }
        self.far_from = self.far_from.min(reached_from(number));
        self.far.push(Reverse((key, event)));
        if self.occupied_words == 0 {
            self.first = self.first.min(key.time);
        }
    }

    /// Puts `index` into the list of a slot that begins with `head`, before its last.
    #[inline(never)]
    fn insert(&mut self, slot: usize, head: u32, index: u32) {
        let key = self.nodes[index as usize].key;
        if key < self.nodes[head as usize].key {
            self.nodes[index as usize].next = head;
            self.slots[slot].head = index;
            return;
        }
        let mut before = head;
        loop {
            let next = self.nodes[before as usize].next;
            if key < self.nodes[next as usize].key {
                self.nodes[index as usize].next = next;
                self.nodes[before as usize].next = index;
                return;
            }
            before = next;
        }
    }

    /// The time of the first event in a slot that has any.
    #[inline]
    fn time_of_slot(&self, slot: usize) -> u64 {
        // It is below SLOTS; saying so spares a check of bounds.
        self.nodes[self.slots[slot % SLOTS as usize].head as usize].key.time
    }

    /// The time of the earliest event in the wheel, where the present slot and those after it
    /// among the bits of `word` are empty.
    #[inline]
    fn first_after_word(&self, word: usize) -> u64 {
        if self.occupied_words == 0 {
            return NEVER;
        }
        let later = self.occupied_words & (u64::MAX << word) & !(1 << word);
        let words = if later == 0 { self.occupied_words } else { later };
        let word = words.trailing_zeros() as usize % 64;
        self.time_of_slot(word * 64 + self.occupied[word].trailing_zeros() as usize % 64)
    }

    /// Takes those events into the wheel that have come within its reach.
    #[cold]
    #[inline(never)]
    fn reach_far(&mut self) {
        while self.far_from <= self.position {
            if let Some(Reverse((key, event))) = self.far.pop() {
                self.store(key, event);
            }
            self.far_from = self
                .far
                .peek()
                .map_or(NEVER, |Reverse((key, _))| reached_from(key.time >> SLOT_BITS));
        }
        if self.occupied_words == 0 {
            self.first = self.far.peek().map_or(NEVER, |Reverse((key, _))| key.time);
        }
    }

    /// When the next event happens.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Time> {
        let time = self.first.min(self.held.time);
        (time != NEVER).then(|| Time::from_ps(time))
    }

    /// Whether anything happens at `at` or before.
    #[inline]
    pub(crate) fn is_due(&self, at: Time) -> bool {
        let time = self.first.min(self.held.time);
        time <= at.as_ps() && time != NEVER
    }

    /// Removes and returns the next event if it happens at `limit` or before.
    #[inline]
    pub(crate) fn pop(&mut self, limit: Time) -> Option<(Time, Event)> {
        if self.held.time == NEVER {
            return self.pop_stored(limit);
        }
        if self.held.time > limit.as_ps() {
            return None;
        }
        self.present = self.held.sequence;
        let time = std::mem::replace(&mut self.held.time, NEVER);
        Some((Time::from_ps(time), self.held_event))
    }

    #[inline]
    fn pop_stored(&mut self, limit: Time) -> Option<(Time, Event)> {
        let time = self.first;
        if time > limit.as_ps().min(NEVER - 1) {
            return None;
        }
        let number = time >> SLOT_BITS;
        self.position = number;
        let slot = (number % SLOTS) as usize;
        let index = self.slots[slot].head;
        let Some(node) = self.nodes.get_mut(index as usize) else {
            // The wheel is empty: it moves forward to the earliest event far away.
            self.reach_far();
            return self.pop_stored(limit);
        };
        let (event, after) = (node.event, node.next);
        self.present = node.key.sequence;
        node.next = self.free;
        self.free = index;
        self.slots[slot].head = after;
        self.first = self.first_from(slot, after == NONE);
        if self.far_from <= number || self.first == NEVER {
            self.reach_far();
        }
        Some((Time::from_ps(time), event))
    }

    /// The time of the earliest event in the wheel, `slot` being that of the present position,
    /// which has just become empty or not. No branch depends on that, since nobody can foretell
    /// it.
    #[inline]
    fn first_from(&mut self, slot: usize, is_empty: bool) -> u64 {
        let (index, bit) = (slot / 64, slot % 64);
        let word = self.occupied[index] & !(u64::from(is_empty) << bit);
        self.occupied[index] = word;
        // Slots of the same word before the present one are a turn of the wheel later.
        let from = word >> bit;
        if from != 0 {
            return self.time_of_slot(slot + from.trailing_zeros() as usize);
        }
        self.occupied_words &= !(u64::from(word == 0) << index);
        self.first_after_word(index)
    }

    /// Drops every pending event.
    pub(crate) fn clear(&mut self) {
        *self = EventQueue {
            sequence: self.sequence,
            present: self.present,
            position: self.position,
            ..EventQueue::new()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(n: usize) -> Event {
        Event::ArrayDone { die: Die(n as u32) }
    }

    proptest! {
        /// Against a sorted list: any mix of pushes and pops, near and far, comes out in
        /// order of time and then of scheduling.
        #[test]
        fn pops_in_order(steps in prop::collection::vec(
            (prop_oneof![0u64..3, 0u64..200_000, 0u64..5_000_000_000], any::<bool>()), 1..400)
        ) {
            let mut queue = EventQueue::new();
            let mut expected: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (n, (delay, pop)) in steps.into_iter().enumerate() {
                queue.push(Time::from_ps(now + delay), event(n));
                expected.push((now + delay, n));
                expected.sort_unstable();
                if pop {
                    let (at, n) = expected.remove(0);
                    prop_assert_eq!(queue.next_at(), Some(Time::from_ps(at)));
                    prop_assert_eq!(queue.pop(Time::MAX), Some((Time::from_ps(at), event(n))));
                    now = at;
                }
            }
            for (at, n) in expected {
                prop_assert_eq!(queue.pop(Time::MAX), Some((Time::from_ps(at), event(n))));
            }
            prop_assert_eq!(queue.pop(Time::MAX), None);
        }
    }

    #[test]
    fn nothing_beyond_the_limit() {
        let mut queue = EventQueue::new();
        queue.push(Time::from_ns(5), event(1));
        assert_eq!(queue.pop(Time::from_ns(4)), None);
        assert_eq!(queue.pop(Time::from_ns(5)), Some((Time::from_ns(5), event(1))));
    }
}
