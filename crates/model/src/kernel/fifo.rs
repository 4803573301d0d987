//! A resource that serves one piece of work after another in the order in which they reach
//! it: a link direction, a DRAM, a firmware core. Because nothing overtakes, the end of a
//! piece of work is known at the moment it arrives.

use crate::observe::blame::HolderIndex;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::hint::cold_path;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Fifo {
    free_at: Time,
    busy: Span,
    /// End and holder of the work at hand (the last, if there is none).
    current: (Time, HolderIndex),
    /// Work behind it, oldest first: its end, its length and whose it is.
    backlog: VecDeque<(Time, Span, HolderIndex)>,
    /// Length of each holder's work in the backlog.
    pending: Vec<Span>,
}

/// When booked work starts and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Booking {
    pub(crate) start: Time,
    pub(crate) end: Time,
}

impl Fifo {
    /// Books `length` of work that reaches the resource at `now`. Calls `waits(holder,
    /// span)` for each holder of earlier work that it has to wait for.
    #[inline(always)]
    pub(crate) fn book(
        &mut self,
        now: Time,
        length: Span,
        holder: HolderIndex,
        mut waits: impl FnMut(HolderIndex, Span),
    ) -> Booking {
        self.busy += length;
        let start = self.free_at.max(now);
        if start == now {
            if !self.backlog.is_empty() {
                self.forget_backlog();
            }
        } else if self.current.1 == holder && self.backlog.is_empty() {
            // It becomes one piece with the work before it, which is the same holder's.
            waits(holder, start.since(now));
        } else {
            cold_path();
            return self.book_behind(now, length, holder, waits);
        }
        self.free_at = start + length;
        self.current = (self.free_at, holder);
        Booking { start, end: self.free_at }
    }

    #[cold]
    fn forget_backlog(&mut self) {
        self.backlog.clear();
        self.pending.fill(Span::ZERO);
    }

    #[inline(never)]
    fn book_behind(
        &mut self,
        now: Time,
        length: Span,
        holder: HolderIndex,
        mut waits: impl FnMut(HolderIndex, Span),
    ) -> Booking {
        while self.current.0 <= now
            && let Some((end, length, holder)) = self.backlog.pop_front()
        {
            self.pending[holder as usize] = self.pending[holder as usize] - length;
            self.current = (end, holder);
        }
        let (end, current) = self.current;
        waits(current, end.since(now));
        if !self.backlog.is_empty() {
            for (holder, &pending) in self.pending.iter().enumerate() {
                if !pending.is_zero() {
                    waits(holder as HolderIndex, pending);
                }
            }
        }
        let start = self.free_at;
        self.free_at = start + length;
        self.pending[holder as usize] += length;
        self.backlog.push_back((self.free_at, length, holder));
        Booking { start, end: self.free_at }
    }

    /// Makes room for `holders` holders.
    pub(crate) fn grow(&mut self, holders: usize) {
        self.pending.resize(holders, Span::ZERO);
    }

    /// When the resource will have done all that was booked.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    /// Time booked so far, without the part that lies in the future.
    pub(crate) fn booked(&self, now: Time) -> Span {
        self.busy.saturating_sub(self.free_at.saturating_since(now))
    }

    /// Drops all booked work: the resource is free at `now`.
    pub(crate) fn clear(&mut self, now: Time) {
        self.busy = self.busy.saturating_sub(self.free_at.saturating_since(now));
        self.free_at = now;
        self.backlog.clear();
        self.pending.fill(Span::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_in_order_and_splits_waits() {
        let mut fifo = Fifo::default();
        fifo.grow(4);
        let at = Time::from_ns;
        let span = Span::from_ns;
        let none = |_, _| panic!("no wait expected");
        assert_eq!(fifo.book(at(0), span(10), 1, none), Booking { start: at(0), end: at(10) });
        fifo.book(at(0), span(5), 2, |_, _| {});
        fifo.book(at(2), span(5), 2, |_, _| {});
        let mut waits = vec![];
        let booked = fifo.book(at(4), span(1), 3, |h, s| waits.push((h, s)));
        assert_eq!(booked, Booking { start: at(20), end: at(21) });
        assert_eq!(waits, [(1, span(6)), (2, span(10))]);
        let mut waits = vec![];
        fifo.book(at(13), span(1), 1, |h, s| waits.push((h, s)));
        assert_eq!(waits, [(2, span(2)), (2, span(5)), (3, span(1))]);
        assert_eq!(fifo.book(at(30), span(1), 1, none).start, at(30));
        assert_eq!(fifo.busy, span(23));
    }
}
