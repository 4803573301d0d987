//! A profile's I/Os one by one, in the order in which they began: for what depends on who was where
//! at the same time.
//!
//! It holds the earliest I/Os, so many as memory is for ([`MOST`]): which these are does not depend on
//! the order in which they were read, so merged parts are the whole.

use mynah_profile::Head;
use mynah_stamp::Span;

const MOST: usize = 1 << 17;

/// An I/O: what it was, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Io {
    /// When it began, in picoseconds.
    pub(super) begin: u64,
    pub(super) sequence: u64,
    pub(super) block: u64,
    pub(super) bytes: u32,
    pub(super) nth: u32,
    pub(super) connection: u16,
    pub(super) queue: u16,
    pub(super) namespace: u16,
    pub(super) status: u16,
    pub(super) kind: u8,
    /// I/Os of its session that were outstanding, by the record; 0: not known.
    pub(super) outstanding: u16,
    /// Index of its first stage among those of the trace.
    at: u32,
}

impl Io {
    /// What is read of a head to tell groups apart.
    pub(super) fn head(&self) -> Head {
        Head {
            connection: self.connection,
            queue: self.queue,
            namespace: self.namespace,
            bytes: self.bytes,
            kind: self.kind,
            status: self.status,
            ..Head::default()
        }
    }

    fn order(&self) -> (u64, u16, u16, u32, u64) {
        (self.begin, self.connection, self.queue, self.nth, self.sequence)
    }
}

/// I/Os in the order in which they began, once it is [`Trace::sort`]ed.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    ios: Vec<Io>,
    spans: Vec<u64>,
    stages: usize,
    /// Whether I/Os beyond [`MOST`] were left out.
    pub(super) cut: bool,
}

impl Trace {
    /// Without I/Os, which have so many stages.
    pub(super) fn new(stages: usize) -> Trace {
        Trace { stages, ..Trace::default() }
    }

    pub(super) fn add(&mut self, head: &Head, stages: &[Span]) {
        // A time beyond this is none; sums of it would not be, either.
        let begin = head.begin.as_ps().min(u64::MAX / 4);
        self.ios.push(Io {
            begin,
            sequence: head.sequence,
            block: head.block,
            bytes: head.bytes,
            nth: head.nth,
            connection: head.connection,
            queue: head.queue,
            namespace: head.namespace,
            status: head.status,
            kind: head.kind,
            outstanding: head.outstanding,
            at: (self.spans.len() / self.stages.max(1)) as u32,
        });
        let most = u64::MAX / 4 / self.stages.max(1) as u64;
        let spans = stages.iter().take(self.stages).map(|span| span.as_ps().min(most));
        self.spans.extend(spans);
        if self.ios.len() >= 2 * MOST {
            self.sort();
        }
    }

    /// Adds another part of the same profile.
    pub(super) fn merge(&mut self, other: &Trace) {
        self.cut |= other.cut;
        for io in &other.ios {
            let at = (self.spans.len() / self.stages.max(1)) as u32;
            self.spans.extend(other.stages_of(io));
            self.ios.push(Io { at, ..*io });
            if self.ios.len() >= 2 * MOST {
                self.sort();
            }
        }
    }

    /// Sorts them by when they began, and drops those beyond [`MOST`].
    pub(super) fn sort(&mut self) {
        self.ios.sort_unstable_by_key(Io::order);
        self.cut |= self.ios.len() > MOST;
        self.ios.truncate(MOST);
        let mut spans = Vec::with_capacity(self.ios.len() * self.stages);
        for io in &mut self.ios {
            let at = io.at as usize * self.stages;
            io.at = (spans.len() / self.stages.max(1)) as u32;
            spans.extend_from_slice(&self.spans[at..][..self.stages]);
        }
        self.spans = spans;
    }

    pub(super) fn ios(&self) -> &[Io] {
        &self.ios
    }

    /// How long the stages of one of them were.
    pub(super) fn stages_of(&self, io: &Io) -> &[u64] {
        &self.spans[io.at as usize * self.stages..][..self.stages]
    }

    /// From the beginning of the first to the end of the last, in picoseconds.
    pub(super) fn window(&self) -> u64 {
        let first = self.ios.first().map_or(0, |io| io.begin);
        let ends = self.ios.iter().map(|io| io.begin + self.stages_of(io).iter().sum::<u64>());
        ends.max().unwrap_or(first) - first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_stamp::Time;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merged_parts_are_the_whole(
            ios in prop::collection::vec((0..50u64, any::<u64>(), any::<u64>()), 0..60),
            cut in 0.0..1.0f64,
        ) {
            let of = |ios: &[(usize, (u64, u64, u64))]| {
                let mut trace = Trace::new(2);
                for (n, (begin, a, b)) in ios {
                    let begin = Time::from_ps(*begin);
                    let head = Head { begin, sequence: *n as u64, ..Head::default() };
                    trace.add(&head, &[Span::from_ps(*a), Span::from_ps(*b)]);
                }
                trace
            };
            let ios: Vec<_> = ios.into_iter().enumerate().collect();
            let mut whole = of(&ios);
            let (left, right) = ios.split_at((ios.len() as f64 * cut) as usize);
            let mut merged = of(right);
            merged.merge(&of(left));
            merged.sort();
            whole.sort();
            prop_assert_eq!(merged.ios(), whole.ios());
            prop_assert_eq!(&merged.spans, &whole.spans);
            for (one, next) in whole.ios().iter().zip(&whole.ios()[whole.ios().len().min(1)..]) {
                prop_assert!(one.begin <= next.begin);
            }
            prop_assert!(whole.ios().iter().all(|io| whole.stages_of(io).len() == 2));
        }
    }
}
