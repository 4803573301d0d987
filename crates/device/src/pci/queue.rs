//! Submission and completion queues in guest memory.

use crate::controllers::Aggregation;
use crate::output::Completion;
use crate::slots::NONE;
use mynah_stamp::{Span, Time};
use std::collections::VecDeque;

/// How long a completion may wait for its interrupt because the host has not dealt with the
/// one before: then it has missed it, or does not say what it has taken.
const PATIENCE: Span = Span::from_us(100);

/// A submission queue in guest memory.
#[derive(Debug)]
pub(super) struct Submission {
    /// The transport queue in the subsystem.
    pub(super) slot: u32,
    base: u64,
    pub(super) entries: u32,
    /// Index of the next entry to fetch.
    pub(super) head: u32,
    /// How many have been fetched, as far as 32 bits go.
    pub(super) taken: u32,
    /// Where the host said last that its entries end.
    pub(super) tail: u32,
    /// Identifier of its completion queue.
    pub(super) completion: u16,
    /// The last invalid tail that was reported to the host (Invalid Doorbell Write Value).
    refused: Option<u32>,
    /// Commands whose data go to the host when they end: identifier and transfer.
    pub(super) pending: Vec<(u16, u32)>,
    /// Completions that a fault holds back, and until when, the next one first.
    pub(super) held: VecDeque<(Time, Completion)>,
}

impl Submission {
    pub(super) fn new(slot: u32, base: u64, entries: u32, completion: u16) -> Submission {
        Submission {
            slot,
            base,
            entries,
            head: 0,
            taken: 0,
            tail: 0,
            completion,
            refused: None,
            pending: Vec::new(),
            held: VecDeque::new(),
        }
    }

    /// Entries that the host has put in and that have not been fetched.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        match self.tail.checked_sub(self.head) {
            Some(waiting) => waiting,
            None => self.tail + self.entries - self.head,
        }
    }

    /// Takes the tail that the doorbell shows: how many entries are new. An error once for
    /// each tail that cannot be.
    #[inline]
    pub(super) fn ring(&mut self, tail: u32) -> Result<u32, ()> {
        if tail == self.tail {
            return Ok(0);
        }
        let waiting = self.waiting();
        let fresh = match tail.checked_sub(self.tail) {
            Some(fresh) => fresh,
            None => tail.wrapping_add(self.entries).wrapping_sub(self.tail),
        };
        if tail >= self.entries || waiting + fresh >= self.entries {
            let known = self.refused.replace(tail) == Some(tail);
            return if known { Ok(0) } else { Err(()) };
        }
        self.refused = None;
        self.tail = tail;
        Ok(fresh)
    }

    /// Where the next entries to fetch lie, and how many of at most `most` follow one another
    /// there.
    #[inline]
    pub(super) fn run(&self, most: u32) -> (u64, u32) {
        let at = self.base + u64::from(self.head) * 64;
        (at, most.min(self.entries - self.head))
    }

    /// Moves the head behind entries that have been fetched.
    #[inline]
    pub(super) fn fetched(&mut self, count: u32) {
        self.head += count;
        self.taken = self.taken.wrapping_add(count);
        if self.head >= self.entries {
            self.head -= self.entries;
        }
    }
}

/// A completion that waits for room.
#[derive(Debug)]
pub(super) struct Backlogged {
    pub(super) submission: u16,
    pub(super) completion: Completion,
}

/// A completion queue in guest memory.
#[derive(Debug)]
pub(super) struct Completions {
    base: u64,
    pub(super) entries: u32,
    tail: u32,
    pub(super) head: u32,
    phase: u16,
    /// The interrupt vector, if it has interrupts.
    pub(super) vector: Option<u16>,
    /// Submission queues that use it.
    pub(super) users: u32,
    /// Whose completion each entry holds, as the subsystem's queue.
    owners: Box<[u32]>,
    pub(super) backlog: VecDeque<Backlogged>,
    refused: Option<u32>,
    /// Entries since the last interrupt, and when the first of them came.
    unsignalled: u32,
    since: Time,
    /// There was an interrupt, and the host has not taken an entry since.
    unanswered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Never, as things are.
    No,
    /// At this time on the host's clock, unless something happens before.
    At(Time),
    Now,
}

impl Completions {
    pub(super) fn new(base: u64, entries: u32, vector: Option<u16>) -> Completions {
        Completions {
            base,
            entries,
            tail: 0,
            head: 0,
            phase: 1,
            vector,
            users: 0,
            owners: vec![NONE; entries as usize].into(),
            backlog: VecDeque::new(),
            refused: None,
            unsignalled: 0,
            since: Time::ZERO,
            unanswered: false,
        }
    }

    #[inline]
    fn used(&self) -> u32 {
        match self.tail.checked_sub(self.head) {
            Some(used) => used,
            None => self.tail + self.entries - self.head,
        }
    }

    /// Entries that can be posted: one place always stays empty.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.entries - 1 - self.used()
    }

    /// Where the next entries go, and how many of at most `most` follow one another there;
    /// there has to be room.
    #[inline]
    pub(super) fn run(&self, most: u32) -> (u64, u32) {
        let at = self.base + u64::from(self.tail) * 16;
        (at, most.min(self.entries - self.tail))
    }

    /// The phase of the next entry.
    #[inline]
    pub(super) fn phase(&self) -> u16 {
        self.phase
    }

    /// So many entries, all of one submission queue, have been posted.
    #[inline]
    pub(super) fn posted(&mut self, count: u32, owner: u32, now: Time) {
        let first = self.tail as usize;
        self.owners[first..first + count as usize].fill(owner);
        self.tail += count;
        if self.tail >= self.entries {
            self.tail = 0;
            self.phase ^= 1;
        }
        if self.unsignalled == 0 {
            self.since = now;
        }
        self.unsignalled += count;
    }

    /// Takes the head that the doorbell shows; says for each entry that is free again whose
    /// it was. An error once for each head that cannot be.
    #[inline]
    pub(super) fn free(&mut self, head: u32, mut each: impl FnMut(u32)) -> Result<(), ()> {
        if head == self.head {
            return Ok(());
        }
        let freed = match head.checked_sub(self.head) {
            Some(freed) => freed,
            None => head.wrapping_add(self.entries).wrapping_sub(self.head),
        };
        if head >= self.entries || freed > self.used() {
            let known = self.refused.replace(head) == Some(head);
            return if known { Ok(()) } else { Err(()) };
        }
        self.refused = None;
        self.unanswered = false;
        for _ in 0..freed {
            each(self.owners[self.head as usize]);
            self.head += 1;
            if self.head == self.entries {
                self.head = 0;
            }
        }
        // The host has seen them: no interrupt is needed for what it has taken.
        self.unsignalled = self.unsignalled.min(self.used());
        Ok(())
    }

    /// A submission queue is gone: nobody hears of its entries.
    pub(super) fn disown(&mut self, owner: u32) {
        for place in &mut self.owners {
            if *place == owner {
                *place = NONE;
            }
        }
    }

    /// When its interrupt is due.
    #[inline]
    pub(super) fn signal(&self, aggregation: Aggregation, now: Time) -> Signal {
        if self.unsignalled == 0 || self.vector.is_none() {
            return Signal::No;
        }
        let mut at = self.since;
        if self.unsignalled < aggregation.entries {
            at += aggregation.time;
        }
        if self.unanswered {
            at = at.max(self.since + PATIENCE);
        }
        if at <= now { Signal::Now } else { Signal::At(at) }
    }

    /// Whether there are entries that no interrupt has told of.
    #[inline]
    pub(super) fn has_unsignalled(&self) -> bool {
        self.unsignalled > 0
    }

    /// The interrupt has been raised.
    pub(super) fn signalled(&mut self) {
        self.unsignalled = 0;
        self.unanswered = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_move_as_far_as_there_is_room() {
        let mut queue = Submission::new(0, 0x1000, 4, 1);
        assert_eq!(queue.ring(3), Ok(3));
        assert_eq!(queue.waiting(), 3);
        // Full: nothing fits, and each impossible tail is said once.
        assert_eq!(queue.ring(0), Err(()));
        assert_eq!(queue.ring(0), Ok(0));
        assert_eq!(queue.ring(4), Err(()));
        assert_eq!(queue.ring(u32::MAX), Err(()));
        assert_eq!(queue.run(8), (0x1000, 4));
        queue.fetched(2);
        assert_eq!(queue.ring(1), Ok(2));
        assert_eq!((queue.waiting(), queue.run(8)), (3, (0x1000 + 128, 2)));
        queue.fetched(2);
        assert_eq!((queue.head, queue.waiting()), (0, 1));
    }

    #[test]
    fn phases_turn_and_heads_free_what_was_posted() {
        let mut queue = Completions::new(0x2000, 3, Some(1));
        let mut freed = vec![];
        assert_eq!(queue.room(), 2);
        queue.posted(2, 7, Time::ZERO);
        assert_eq!((queue.room(), queue.phase()), (0, 1));
        assert_eq!(queue.free(3, |_| ()), Err(()));
        assert_eq!(queue.free(1, |owner| freed.push(owner)), Ok(()));
        queue.posted(1, 8, Time::ZERO);
        assert_eq!((queue.room(), queue.phase(), queue.run(5)), (0, 0, (0x2000, 3)));
        // Behind the tail.
        assert_eq!(queue.free(1, |_| ()), Ok(()));
        queue.disown(8);
        assert_eq!(queue.free(0, |owner| freed.push(owner)), Ok(()));
        assert_eq!(freed, [7, 7, NONE]);
    }

    #[test]
    fn interrupts_wait_for_the_host_but_not_for_ever() {
        let us = |us| Time::ZERO + Span::from_us(us);
        let none = Aggregation::default();
        let mut queue = Completions::new(0, 16, Some(1));
        assert_eq!(queue.signal(none, us(0)), Signal::No);
        queue.posted(1, 0, us(1));
        assert_eq!(queue.signal(none, us(1)), Signal::Now);
        queue.signalled();
        queue.posted(2, 0, us(2));
        assert_eq!(queue.signal(none, us(2)), Signal::At(us(102)));
        assert_eq!(queue.signal(none, us(102)), Signal::Now);
        // The host takes one: it is there, and the rest is news.
        queue.free(1, |_| ()).unwrap();
        assert_eq!(queue.signal(none, us(3)), Signal::Now);
        // What it takes needs no interrupt.
        queue.free(3, |_| ()).unwrap();
        assert_eq!(queue.signal(none, us(3)), Signal::No);
        let aggregation = Aggregation { entries: 4, time: Span::from_us(300) };
        queue.posted(3, 0, us(4));
        assert_eq!(queue.signal(aggregation, us(4)), Signal::At(us(304)));
        queue.posted(1, 0, us(5));
        assert_eq!(queue.signal(aggregation, us(5)), Signal::Now);
        // Without a vector there are none.
        let mut silent = Completions::new(0, 16, None);
        silent.posted(1, 0, us(0));
        assert_eq!(silent.signal(none, us(9)), Signal::No);
    }
}
