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

/// Time in the upper half, order of scheduling in the lower.
type Key = u128;

#[inline]
fn key(time: u64, sequence: u64) -> Key {
    Key::from(time) << 64 | Key::from(sequence)
}

#[inline]
fn time_of(key: Key) -> u64 {
    (key >> 64) as u64
}

#[derive(Clone, Copy)]
struct Node {
    key: Key,
    event: Event,
    next: u32,
}

/// Pending events. `pop` returns them in order of (time, order of scheduling).
pub(crate) struct EventQueue {
    sequence: u64,
    /// The event held back; `NEVER` if there is none.
    held: (Key, Event),
    /// Key of the first event of `first_slot`; `NEVER` if the wheel is empty.
    wheel_key: Key,
    /// Slot index of the earliest event in the wheel.
    first_slot: u32,
    free: u32,
    /// Slot number (not wrapped) of the last popped event: nothing in the wheel is earlier.
    position: u64,
    nodes: Vec<Node>,
    far: BinaryHeap<Reverse<(Key, Event)>>,
    /// Key of the first event in `far`; `NEVER` if there is none.
    far_key: Key,
    /// One bit for each slot, and one for each word of those that is not zero.
    occupied_words: u64,
    occupied: [u64; SLOTS / 64],
    /// Heads of the slots' lists, each sorted by key.
    slots: Box<[u32; SLOTS]>,
}

const NEVER: Key = Key::MAX;

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            sequence: 0,
            held: (NEVER, Event::PowerRestored),
            wheel_key: NEVER,
            first_slot: NONE,
            free: NONE,
            position: 0,
            nodes: Vec::new(),
            far: BinaryHeap::new(),
            far_key: NEVER,
            occupied_words: 0,
            occupied: [0; SLOTS / 64],
            slots: Box::new([NONE; SLOTS]),
        }
    }

    /// Schedules `event`. `at` must not be before the last popped event.
    #[inline]
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let mut entry = (key(at.as_ps(), self.sequence), event);
        self.sequence += 1;
        // At equal times the held event was scheduled first and stays in front.
        if entry.0 < self.held.0 {
            std::mem::swap(&mut entry, &mut self.held);
            if entry.0 == NEVER {
                return;
            }
        }
        self.insert(entry.0, entry.1);
    }

    /// Takes the place in the order that an event scheduled now would have, without
    /// scheduling one. Optional reports use it so that they never change the order of the
    /// events that matter.
    #[inline]
    pub(crate) fn skip_sequence(&mut self) {
        self.sequence += 1;
    }

    fn insert(&mut self, key: Key, event: Event) {
        let slot_number = time_of(key) >> SLOT_BITS;
        if slot_number.wrapping_sub(self.position) >= SLOTS as u64 {
            self.far_key = self.far_key.min(key);
            self.far.push(Reverse((key, event)));
            return;
        }
        let slot = slot_number as usize % SLOTS;
        let node = Node { key, event, next: NONE };
        let index = if self.free != NONE {
            let index = self.free;
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        if key < self.wheel_key {
            self.wheel_key = key;
            self.first_slot = slot as u32;
        }
        let head = self.slots[slot];
        if head == NONE {
            self.slots[slot] = index;
            self.occupied[slot / 64] |= 1 << (slot % 64);
            self.occupied_words |= 1 << (slot / 64);
            return;
        }
        if key < self.nodes[head as usize].key {
            self.nodes[index as usize].next = head;
            self.slots[slot] = index;
            return;
        }
        let mut before = head;
        loop {
            let next = self.nodes[before as usize].next;
            if next == NONE || key < self.nodes[next as usize].key {
                self.nodes[index as usize].next = next;
                self.nodes[before as usize].next = index;
                return;
            }
            before = next;
        }
    }

    /// Finds the first occupied slot at or after the wheel's position.
    fn find_first(&mut self) {
        if self.occupied_words == 0 {
            self.wheel_key = NEVER;
            return;
        }
        let start = self.position as usize % SLOTS;
        let (word, bit) = (start / 64, start % 64);
        let here = self.occupied[word] & (u64::MAX << bit);
        let slot = if here != 0 {
            word * 64 + here.trailing_zeros() as usize
        } else {
            let later = self.occupied_words & (u64::MAX << word) & !(1 << word);
            let word = match later {
                0 => self.occupied_words.trailing_zeros(),
                _ => later.trailing_zeros(),
            } as usize;
            word * 64 + self.occupied[word].trailing_zeros() as usize
        };
        self.first_slot = slot as u32;
        self.wheel_key = self.nodes[self.slots[slot] as usize].key;
    }

    #[inline]
    fn next_key(&self) -> Key {
        self.held.0.min(self.wheel_key).min(self.far_key)
    }

    /// When the next event happens.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Time> {
        match self.next_key() {
            NEVER => None,
            key => Some(Time::from_ps(time_of(key))),
        }
    }

    /// Whether anything happens at `at` or before.
    #[inline]
    pub(crate) fn is_due(&self, at: Time) -> bool {
        let key = self.next_key();
        time_of(key) <= at.as_ps() && key != NEVER
    }

    /// Removes and returns the next event if it happens at `limit` or before.
    #[inline]
    pub(crate) fn pop(&mut self, limit: Time) -> Option<(Time, Event)> {
        let next = self.next_key();
        if time_of(next) > limit.as_ps() || next == NEVER {
            return None;
        }
        self.position = time_of(next) >> SLOT_BITS;
        let event = if next == self.held.0 {
            self.held.0 = NEVER;
            self.held.1
        } else if next == self.wheel_key {
            let slot = self.first_slot as usize;
            let index = self.slots[slot];
            let node = &mut self.nodes[index as usize];
            let (event, after) = (node.event, node.next);
            node.next = self.free;
            self.free = index;
            self.slots[slot] = after;
            if after == NONE {
                self.occupied[slot / 64] &= !(1 << (slot % 64));
                if self.occupied[slot / 64] == 0 {
                    self.occupied_words &= !(1 << (slot / 64));
                }
                self.find_first();
            } else {
                self.wheel_key = self.nodes[after as usize].key;
            }
            event
        } else {
            let Reverse((_, event)) = self.far.pop()?;
            self.far_key = self.far.peek().map_or(NEVER, |Reverse((key, _))| *key);
            event
        };
        Some((Time::from_ps(time_of(next)), event))
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
