//! The event queue: what will happen, in order of time, and at equal times in the order in
//! which it was scheduled.
//!
//! A timing wheel of 4096 slots of 65.5 ns takes everything that happens within 268 us; a
//! binary heap takes the rest (programs, erases, timers), and is compared at every pop, so
//! nothing ever moves from one to the other. One event is held back in front of both: the
//! most recently scheduled one often is the next to happen and then touches neither.

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

const SLOT_BITS: u32 = 16;
const SLOTS: usize = 4096;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    time: u64,
    sequence: u64,
    event: Event,
    next: u32,
}

/// Pending events. `pop` returns them in order of (time, order of scheduling).
pub(crate) struct EventQueue {
    sequence: u64,
    held: Option<(u64, u64, Event)>,
    /// Heads of the slots' lists, each sorted by (time, sequence).
    slots: Box<[u32; SLOTS]>,
    /// One bit for each slot, and one for each word of those that is not zero.
    occupied: [u64; SLOTS / 64],
    occupied_words: u64,
    nodes: Vec<Node>,
    free: u32,
    /// Slot number (not wrapped) of the last popped event: nothing in the wheel is earlier.
    position: u64,
    /// Slot index of the earliest event in the wheel, or `NONE`.
    first_slot: u32,
    far: BinaryHeap<Reverse<(u64, u64, Event)>>,
}

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            sequence: 0,
            held: None,
            slots: Box::new([NONE; SLOTS]),
            occupied: [0; SLOTS / 64],
            occupied_words: 0,
            nodes: Vec::new(),
            free: NONE,
            position: 0,
            first_slot: NONE,
            far: BinaryHeap::new(),
        }
    }

    /// Schedules `event`. `at` must not be before the last popped event.
    #[inline]
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let sequence = self.sequence;
        self.sequence += 1;
        let time = at.as_ps();
        match self.held {
            None => self.held = Some((time, sequence, event)),
            // At equal times the held event was scheduled first and stays in front.
            Some(held) if time < held.0 => {
                self.insert(held);
                self.held = Some((time, sequence, event));
            }
            Some(_) => self.insert((time, sequence, event)),
        }
    }

    /// Takes the place in the order that an event scheduled now would have, without
    /// scheduling one. Optional reports use it so that they never change the order of the
    /// events that matter.
    pub(crate) fn skip_sequence(&mut self) {
        self.sequence += 1;
    }

    fn insert(&mut self, (time, sequence, event): (u64, u64, Event)) {
        let slot_number = time >> SLOT_BITS;
        if slot_number.wrapping_sub(self.position) >= SLOTS as u64 {
            self.far.push(Reverse((time, sequence, event)));
            return;
        }
        let slot = slot_number as usize % SLOTS;
        let node = Node { time, sequence, event, next: NONE };
        let index = if self.free != NONE {
            let index = self.free;
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        let head = self.slots[slot];
        if head == NONE {
            self.slots[slot] = index;
            self.occupied[slot / 64] |= 1 << (slot % 64);
            self.occupied_words |= 1 << (slot / 64);
            if self.first_slot == NONE
                || self.distance(slot as u32) < self.distance(self.first_slot)
            {
                self.first_slot = slot as u32;
            }
            return;
        }
        if (time, sequence) < self.key(head) {
            self.nodes[index as usize].next = head;
            self.slots[slot] = index;
            return;
        }
        let mut before = head;
        loop {
            let next = self.nodes[before as usize].next;
            if next == NONE || (time, sequence) < self.key(next) {
                self.nodes[index as usize].next = next;
                self.nodes[before as usize].next = index;
                return;
            }
            before = next;
        }
    }

    #[inline]
    fn key(&self, node: u32) -> (u64, u64) {
        let node = &self.nodes[node as usize];
        (node.time, node.sequence)
    }

    /// Slots from the wheel's position to `slot`.
    #[inline]
    fn distance(&self, slot: u32) -> u64 {
        (u64::from(slot).wrapping_sub(self.position)) % SLOTS as u64
    }

    /// The first occupied slot at or after the wheel's position.
    fn find_first_slot(&self) -> u32 {
        if self.occupied_words == 0 {
            return NONE;
        }
        let start = self.position as usize % SLOTS;
        let (word, bit) = (start / 64, start % 64);
        let here = self.occupied[word] & (u64::MAX << bit);
        if here != 0 {
            return (word * 64) as u32 + here.trailing_zeros();
        }
        let later = self.occupied_words & (u64::MAX << word) & !(1 << word);
        let word = match later {
            0 => self.occupied_words.trailing_zeros(),
            _ => later.trailing_zeros(),
        };
        word * 64 + self.occupied[word as usize].trailing_zeros()
    }

    /// When the next event happens.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.first().map(|(time, _, _)| Time::from_ps(time))
    }

    /// Time, sequence and place of the next event.
    #[inline]
    fn first(&self) -> Option<(u64, u64, Place)> {
        let mut first = (u64::MAX, u64::MAX, Place::Held);
        if let Some((time, sequence, _)) = self.held {
            first = (time, sequence, Place::Held);
        }
        if self.first_slot != NONE {
            let (time, sequence) = self.key(self.slots[self.first_slot as usize]);
            if (time, sequence) < (first.0, first.1) {
                first = (time, sequence, Place::Wheel);
            }
        }
        if let Some(Reverse((time, sequence, _))) = self.far.peek()
            && (*time, *sequence) < (first.0, first.1)
        {
            first = (*time, *sequence, Place::Far);
        }
        (first.1 != u64::MAX).then_some(first)
    }

    /// Removes and returns the next event if it happens at `limit` or before.
    #[inline]
    pub(crate) fn pop(&mut self, limit: Time) -> Option<(Time, Event)> {
        let (time, _, place) = self.first()?;
        if time > limit.as_ps() {
            return None;
        }
        let event = match place {
            Place::Held => self.held.take()?.2,
            Place::Far => self.far.pop()?.0.2,
            Place::Wheel => {
                let slot = self.first_slot as usize;
                let index = self.slots[slot];
                let node = self.nodes[index as usize];
                self.nodes[index as usize].next = self.free;
                self.free = index;
                self.slots[slot] = node.next;
                self.position = time >> SLOT_BITS;
                if node.next == NONE {
                    self.occupied[slot / 64] &= !(1 << (slot % 64));
                    if self.occupied[slot / 64] == 0 {
                        self.occupied_words &= !(1 << (slot / 64));
                    }
                    self.first_slot = self.find_first_slot();
                }
                return Some((Time::from_ps(time), node.event));
            }
        };
        self.position = time >> SLOT_BITS;
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

enum Place {
    Held,
    Wheel,
    Far,
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
