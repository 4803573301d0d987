//! When the next command of a job's load is due: what its generator has drawn, as far as the depth, the
//! runtime and flushes let it be issued.

use super::work::Turn;
use mynah_stamp::Time;
use mynah_workload::{Generator, Planned};

/// What a job may issue next.
pub(super) enum Ready {
    Flush,
    /// This command, which was created at this time. It stays the next one until it is taken.
    Now(Planned, Time),
    /// Nothing until a command has ended, or the next one's time has come.
    Later,
    /// Nothing any more: all of the load has been issued.
    Over,
}

/// Draws a job's commands from its generator.
pub(super) struct Draw {
    generator: Generator,
    /// An open loop: commands arrive at their times, not when others have ended.
    is_open: bool,
    /// Commands outstanding at the most, whenever they come.
    depth_max: usize,
    /// A flush follows so many writes; 0: none.
    flush_every: u64,
    writes_to_flush: u64,
    flush_outstanding: bool,
    /// Drawn, and not submitted yet.
    next: Option<Planned>,
    /// The runtime is over and the target did not keep up: no more are drawn.
    gave_up: bool,
}

impl Draw {
    pub(super) fn new(
        generator: Generator,
        is_open: bool,
        depth_max: usize,
        flush_every: u64,
    ) -> Draw {
        Draw {
            generator,
            is_open,
            depth_max,
            flush_every,
            writes_to_flush: 0,
            flush_outstanding: false,
            next: None,
            gave_up: false,
        }
    }

    #[inline]
    pub(super) fn ready<C>(&mut self, turn: &mut Turn<'_, C>) -> Ready {
        if turn.outstanding >= self.depth_max {
            return self.held_back(turn);
        }
        if self.flush_every > 0 && self.writes_to_flush >= self.flush_every {
            if self.flush_outstanding {
                return self.held_back(turn);
            }
            self.writes_to_flush = 0;
            return Ready::Flush;
        }
        if self.next.is_none() {
            let is_over = !self.is_open && turn.now >= turn.end || self.gave_up;
            self.next = if is_over { None } else { self.generator.next() };
        }
        let Some(planned) = self.next else { return Ready::Over };
        let created = match planned.arrival {
            Some(arrival) => turn.start + arrival.since(Time::ZERO),
            None => turn.now,
        };
        if created > turn.now { Ready::Later } else { Ready::Now(planned, created) }
    }

    /// What was drawn is being issued.
    #[inline]
    pub(super) fn take(&mut self, writes: bool) {
        self.next = None;
        self.writes_to_flush += u64::from(writes);
    }

    /// The next command has to wait for others. When the runtime is over, those that come at their
    /// times and are still to be issued are given up: the target did not keep up with them.
    pub(super) fn held_back<C>(&mut self, turn: &mut Turn<'_, C>) -> Ready {
        if turn.now >= turn.end && !self.gave_up {
            let next = self.next.take().or_else(|| self.generator.next());
            if let Some(due) = next.and_then(|next| next.arrival) {
                let due = turn.start + due.since(Time::ZERO);
                turn.tally.not_issued = turn.end.saturating_since(due);
            }
            self.gave_up = true;
        }
        Ready::Later
    }

    /// The load is over: says until when it was offered, if its runtime has ended it.
    pub(super) fn over<C>(&self, turn: &mut Turn<'_, C>) {
        let by_runtime = self.generator.ended_by_runtime().is_some();
        if turn.now >= turn.end && !self.is_open || self.gave_up || by_runtime {
            turn.tally.offered_until(turn.end);
        }
    }

    /// When the next one is to be issued, from the start, if it has its time.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        self.next.and_then(|next| next.arrival)
    }

    pub(super) fn flush_begins(&mut self) {
        self.flush_outstanding = true;
    }

    /// The flush has ended, or has to be issued again.
    pub(super) fn flush_ends(&mut self) {
        self.flush_outstanding = false;
    }
}
