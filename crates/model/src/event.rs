//! The event queue: what will happen, in order of time, and at equal times in the order in
//! which it was scheduled.
//!
//! A timing wheel of 4096 slots of 65.5 ns takes everything that happens within 268 us; a
//! binary heap holds the rest (programs, erases, timers) until it comes within that reach.
//! Lists of a slot are sorted by time and then by a sequence number, so events that come
//! from the heap stand where they would have stood.

use mynah_stamp::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens inside the drive. Numbers index the drive's own tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A submission queue doorbell has crossed the link.
    Doorbell { queue: u16, count: u32 },
    /// The controller's request for submission queue entries has reached host memory.
    EntryRequestAtHost { queue: u16, count: u32 },
    /// Submission queue entries have reached the controller.
    EntriesArrived { queue: u16, count: u32 },
    /// The request for a PRP list has reached host memory.
    PrpRequestAtHost { command: u32 },
    /// A PRP list has reached the controller.
    PrpArrived { command: u32 },
    /// The request for write data has reached host memory.
    DataRequestAtHost { command: u32 },
    /// Write data has reached the controller.
    DataInArrived { command: u32 },
    /// The firmware has processed a command.
    FirmwareDone { command: u32 },
    /// A DRAM access for a command is done.
    CacheAccessDone { command: u32 },
    /// What the channel carried is across.
    ChannelDone { channel: u32 },
    /// A die's array operation is done.
    ArrayDone { die: u32 },
    /// Read data has reached the host; only reported, never acted on.
    DataOutArrived { command: u32, first_sector: u32, sectors: u32 },
    /// A completion queue entry is visible to the host.
    CompletionVisible { command: u32 },
    /// A completion queue doorbell that someone waits for has crossed the link.
    CompletionDoorbell { queue: u16 },
    /// A TRIM or format goes on with its next slice.
    TrimStep { command: u32 },
    /// A plane may have been idle long enough for idle garbage collection.
    IdleCheck { plane: u32 },
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

#[derive(Clone, Copy)]
struct Node {
    time: u64,
    sequence: u64,
    event: Event,
    next: u32,
}

/// Pending events. `pop` returns them in order of (time, order of scheduling).
pub(crate) struct EventQueue {
    /// Time of the earliest event: in the wheel, or if that is empty in `far`; `NEVER` if
    /// there is none.
    first: u64,
    sequence: u64,
    /// Slot number (not wrapped) of the last popped event: nothing in the wheel is earlier.
    position: u64,
    /// Slot number of the earliest event in `far`; `NEVER` if there is none.
    far_slot: u64,
    free: u32,
    nodes: Vec<Node>,
    /// One bit for each slot, and one for each word of those that is not zero.
    occupied_words: u64,
    occupied: [u64; SLOTS as usize / 64],
    /// Heads of the slots' lists, each sorted by (time, sequence).
    slots: Box<[u32; SLOTS as usize]>,
    far: BinaryHeap<Reverse<(u64, u64, Event)>>,
}

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            first: NEVER,
            sequence: 0,
            position: 0,
            far_slot: NEVER,
            free: NONE,
            nodes: Vec::new(),
            occupied_words: 0,
            occupied: [0; SLOTS as usize / 64],
            slots: Box::new([NONE; SLOTS as usize]),
            far: BinaryHeap::new(),
        }
    }

    /// Schedules `event`. `at` must not be before the last popped event.
    #[inline]
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let (time, sequence) = (at.as_ps(), self.sequence);
        self.sequence += 1;
        if (time >> SLOT_BITS) - self.position < SLOTS {
            self.insert(time, sequence, event);
        } else {
            self.push_far(time, sequence, event);
        }
    }

    #[cold]
    fn push_far(&mut self, time: u64, sequence: u64, event: Event) {
        self.far_slot = self.far_slot.min(time >> SLOT_BITS);
        self.far.push(Reverse((time, sequence, event)));
        if self.occupied_words == 0 {
            self.first = self.first.min(time);
        }
    }

    /// Takes the place in the order that an event scheduled now would have, without
    /// scheduling one. Optional reports use it so that they never change the order of the
    /// events that matter.
    #[inline]
    pub(crate) fn skip_sequence(&mut self) {
        self.sequence += 1;
    }

    #[inline]
    fn insert(&mut self, time: u64, sequence: u64, event: Event) {
        let node = Node { time, sequence, event, next: NONE };
        let index = if self.free != NONE {
            let index = self.free;
            let place = &mut self.nodes[index as usize];
            self.free = place.next;
            *place = node;
            index
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        self.first = self.first.min(time);
        let slot = ((time >> SLOT_BITS) % SLOTS) as usize;
        let head = self.slots[slot];
        if head == NONE {
            self.slots[slot] = index;
            self.occupied[slot / 64] |= 1 << (slot % 64);
            self.occupied_words |= 1 << (slot / 64);
        } else {
            self.insert_behind(slot, head, index);
        }
    }

    /// Puts `index` into the list of a slot that is not empty.
    fn insert_behind(&mut self, slot: usize, head: u32, index: u32) {
        let key = |nodes: &[Node], at: u32| (nodes[at as usize].time, nodes[at as usize].sequence);
        let new = key(&self.nodes, index);
        if new < key(&self.nodes, head) {
            self.nodes[index as usize].next = head;
            self.slots[slot] = index;
            return;
        }
        let mut before = head;
        loop {
            let next = self.nodes[before as usize].next;
            if next == NONE || new < key(&self.nodes, next) {
                self.nodes[index as usize].next = next;
                self.nodes[before as usize].next = index;
                return;
            }
            before = next;
        }
    }

    /// The time of the earliest event in the wheel, looked for from its position on.
    #[inline]
    fn find_first(&self) -> u64 {
        if self.occupied_words == 0 {
            return NEVER;
        }
        let start = (self.position % SLOTS) as usize;
        let (word, bit) = (start / 64, start % 64);
        let here = self.occupied[word] & (u64::MAX << bit);
        let slot = if here != 0 {
            word * 64 + here.trailing_zeros() as usize
        } else {
            let later = self.occupied_words & (u64::MAX << word) & !(1 << word);
            let words = if later == 0 { self.occupied_words } else { later };
            let word = words.trailing_zeros() as usize;
            word * 64 + self.occupied[word].trailing_zeros() as usize
        };
        self.nodes[self.slots[slot] as usize].time
    }

    /// Takes those events into the wheel that have come within its reach.
    #[cold]
    fn reach_far(&mut self) {
        while self.far_slot != NEVER && self.far_slot - self.position < SLOTS {
            if let Some(Reverse((time, sequence, event))) = self.far.pop() {
                self.insert(time, sequence, event);
            }
            self.far_slot = self.far.peek().map_or(NEVER, |Reverse((time, ..))| time >> SLOT_BITS);
        }
        if self.occupied_words == 0 {
            self.first = self.far.peek().map_or(NEVER, |Reverse((time, ..))| *time);
        }
    }

    /// When the next event happens.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Time> {
        (self.first != NEVER).then(|| Time::from_ps(self.first))
    }

    /// Whether anything happens at `at` or before.
    #[inline]
    pub(crate) fn is_due(&self, at: Time) -> bool {
        self.first <= at.as_ps() && self.first != NEVER
    }

    /// Removes and returns the next event if it happens at `limit` or before.
    #[inline]
    pub(crate) fn pop(&mut self, limit: Time) -> Option<(Time, Event)> {
        let time = self.first;
        if time > limit.as_ps() || time == NEVER {
            return None;
        }
        let number = time >> SLOT_BITS;
        if self.occupied_words == 0 {
            // The wheel is empty: it moves forward to the earliest event far away.
            self.position = number;
            self.reach_far();
        }
        let slot = (number % SLOTS) as usize;
        self.position = number;
        let index = self.slots[slot];
        let node = &mut self.nodes[index as usize];
        let (event, after) = (node.event, node.next);
        node.next = self.free;
        self.free = index;
        self.slots[slot] = after;
        if after == NONE {
            let word = &mut self.occupied[slot / 64];
            *word &= !(1 << (slot % 64));
            if *word == 0 {
                self.occupied_words &= !(1 << (slot / 64));
            }
            self.first = self.find_first();
        } else {
            self.first = self.nodes[after as usize].time;
        }
        if self.far_slot.wrapping_sub(number) < SLOTS || self.first == NEVER {
            self.reach_far();
        }
        Some((Time::from_ps(time), event))
    }

    /// Drops every pending event.
    pub(crate) fn clear(&mut self) {
        let (sequence, position) = (self.sequence, self.position);
        *self = EventQueue::new();
        self.sequence = sequence;
        self.position = position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(n: usize) -> Event {
        Event::ArrayDone { die: n as u32 }
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
