//! Who was in a stage when an I/O came to it.

use super::trace::{Io, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Among which I/Os a stage is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All I/Os of the profile.
    All,
    /// Those of a controller, or of a flow of a simulation.
    Session,
    /// Those of a queue, which on a network has a connection of its own.
    Queue,
}

impl Scope {
    pub(super) fn of(self, io: &Io) -> u32 {
        match self {
            Scope::All => 0,
            Scope::Session => u32::from(io.connection),
            Scope::Queue => u32::from(io.connection) << 16 | u32::from(io.queue),
        }
    }
}

/// An I/O's time in some stages that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    /// Index of the I/O in the trace.
    pub(super) io: usize,
    pub(super) enter: u64,
    /// When it left the first of them.
    pub(super) served: u64,
    /// When it left the last of the place's stages.
    pub(super) leave: u64,
}

/// The times that I/Os spent in the stages from `first` to `last`, by scope and then in the order in
/// which they came. Those that did not pass them are left out.
pub(super) fn stays(trace: &Trace, first: usize, last: usize, scope: Scope) -> Vec<Vec<Stay>> {
    let mut by_scope: BTreeMap<u32, Vec<Stay>> = BTreeMap::new();
    for (io, it) in trace.ios().iter().enumerate() {
        let spans = trace.stages_of(it);
        let enter = it.begin + spans[..first].iter().sum::<u64>();
        let leave = enter + spans[first..=last].iter().sum::<u64>();
        if leave > enter {
            let stay = Stay { io, enter, served: enter + spans[first], leave };
            by_scope.entry(scope.of(it)).or_default().push(stay);
        }
    }
    let mut all: Vec<Vec<Stay>> = by_scope.into_values().collect();
    all.iter_mut().for_each(|stays| stays.sort_unstable_by_key(|stay| (stay.enter, stay.io)));
    all
}

/// Number and bytes of the I/Os that were there when an I/O came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) ios: u64,
    pub(super) bytes: u64,
}

/// What was there when each of these came; they are in the order in which they came.
pub(super) fn ahead(trace: &Trace, stays: &[Stay]) -> Vec<Ahead> {
    ahead_of_each(stays, |io| trace.ios()[io].bytes.into())
}

/// As [`ahead`], with a weight of each I/O in place of its bytes.
pub(super) fn ahead_of_each(stays: &[Stay], weight: impl Fn(usize) -> u64) -> Vec<Ahead> {
    let mut there = BinaryHeap::new();
    let mut now = Ahead::default();
    let each = stays.iter().map(|stay| {
        while let Some(&Reverse((leave, bytes))) = there.peek()
            && leave <= stay.enter
        {
            there.pop();
            now.ios -= 1;
            now.bytes -= bytes;
        }
        let before = now;
        let bytes = weight(stay.io);
        there.push(Reverse((stay.leave, bytes)));
        now = Ahead { ios: now.ios + 1, bytes: now.bytes + bytes };
        before
    });
    each.collect()
}

/// What stages cost in the company of others, and without.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Company {
    pub(super) ios: u64,
    /// How long they were there on average, in picoseconds.
    pub(super) mean_ps: f64,
    /// How many of them found nobody.
    pub(super) alone: u64,
    /// How long those were there on average, in picoseconds.
    pub(super) alone_ps: f64,
    /// I/Os and bytes that were there before them, on average.
    pub(super) ahead: f64,
    pub(super) bytes_ahead: f64,
}

impl Company {
    /// Over the I/Os that `which` selects; `weight` says how many bytes of others count.
    pub(super) fn of(
        trace: &Trace,
        (first, last): (usize, usize),
        scope: Scope,
        which: impl Fn(&Io) -> bool,
        weight: impl Fn(&Io) -> u64,
    ) -> Company {
        let mut it = Company::default();
        let [mut sum, mut alone_sum, mut ahead, mut bytes] = [0u128; 4];
        for stays in stays(trace, first, last, scope) {
            for (stay, found) in
                stays.iter().zip(ahead_of_each(&stays, |io| weight(&trace.ios()[io])))
            {
                if !which(&trace.ios()[stay.io]) {
                    continue;
                }
                let spent = u128::from(stay.leave - stay.enter);
                it.ios += 1;
                sum += spent;
                ahead += u128::from(found.ios);
                bytes += u128::from(found.bytes);
                if found.ios == 0 {
                    it.alone += 1;
                    alone_sum += spent;
                }
            }
        }
        let mean = |sum: u128, of: u64| sum as f64 / of.max(1) as f64;
        it.mean_ps = mean(sum, it.ios);
        it.alone_ps = mean(alone_sum, it.alone);
        it.ahead = mean(ahead, it.ios);
        it.bytes_ahead = mean(bytes, it.ios);
        it
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_profile::Head;
    use mynah_stamp::{Span, Time};

    /// I/Os that begin at a time and spend one in each of two stages.
    fn trace(ios: &[(u64, u64, u64, u16)]) -> Trace {
        let mut trace = Trace::new(2);
        for &(begin, a, b, queue) in ios {
            let begin = Time::from_ps(begin);
            let head = Head { begin, queue, bytes: 100, ..Head::default() };
            trace.add(&head, &[Span::from_ps(a), Span::from_ps(b)]);
        }
        trace.sort();
        trace
    }

    #[test]
    fn who_was_there_by_hand() {
        // The second comes while the first is there; the third as the second leaves.
        let trace = trace(&[(0, 10, 5, 0), (5, 10, 5, 0), (15, 10, 5, 1), (16, 0, 7, 0)]);
        let company = Company::of(&trace, (0, 0), Scope::All, |_| true, |_| 100);
        assert_eq!((company.ios, company.alone), (3, 2));
        assert_eq!((company.mean_ps, company.alone_ps), (10.0, 10.0));
        assert!((company.ahead - 1.0 / 3.0).abs() < 1e-12);
        assert!((company.bytes_ahead - 100.0 / 3.0).abs() < 1e-12);
        // Both stages together: 0..15, 5..20, 15..30, 16..23.
        let both = Company::of(&trace, (0, 1), Scope::All, |_| true, |_| 100);
        assert_eq!((both.ios, both.alone), (4, 1));
        assert!((both.ahead - (1.0 + 1.0 + 2.0) / 4.0).abs() < 1e-12);
        let queues = Company::of(&trace, (0, 1), Scope::Queue, |io| io.queue == 0, |_| 100);
        assert!((queues.ahead - 2.0 / 3.0).abs() < 1e-12);
    }
}
