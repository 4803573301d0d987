//! How late completions were, as the transport's owner measures it, for a log page.

use mynah_stamp::Span;
use mynah_wire::nvme::log::{MynahHistogram, MynahLateness};
use zerocopy::IntoBytes;

/// Buckets of an octave.
const PER_OCTAVE: u32 = 4;

/// A histogram of durations in nanoseconds.
#[derive(Clone, Debug)]
struct Histogram {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
    buckets: Box<[u64; MynahHistogram::BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = Box::new([0; MynahHistogram::BUCKETS]);
        Histogram { count: 0, sum_ns: 0, max_ns: 0, buckets }
    }
}

/// The bucket of a duration: exact below 4 ns, then four for each power of two.
fn bucket(ns: u64) -> usize {
    if ns < u64::from(PER_OCTAVE) {
        return ns as usize;
    }
    let octave = ns.ilog2();
    let within = (ns >> (octave - 2)) as u32 & (PER_OCTAVE - 1);
    (((octave - 1) * PER_OCTAVE + within) as usize).min(MynahHistogram::BUCKETS - 1)
}

impl Histogram {
    #[inline]
    fn record(&mut self, span: Span) {
        let ns = span.as_ps() / 1000;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        self.buckets[bucket(ns)] += 1;
    }

    fn page(&self) -> MynahHistogram {
        let mut page = MynahHistogram::default();
        page.count.set(self.count);
        page.sum_ns.set(self.sum_ns);
        page.max_ns.set(self.max_ns);
        for (place, count) in page.buckets.iter_mut().zip(self.buckets.iter()) {
            place.set(*count);
        }
        page
    }
}

/// What the owner has measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    late: Histogram,
    uncertainty: Histogram,
}

impl Lateness {
    #[inline]
    pub(crate) fn record(&mut self, late: Span, uncertainty: Span) {
        self.late.record(late);
        self.uncertainty.record(uncertainty);
    }

    pub(crate) fn page(&self) -> Vec<u8> {
        let mut page = MynahLateness::default();
        page.version.set(1);
        page.per_octave.set(PER_OCTAVE);
        page.late = self.late.page();
        page.uncertainty = self.uncertainty.page();
        page.as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_a_quarter_of_an_octave_wide() {
        let cases = [(0, 0), (3, 3), (4, 4), (5, 5), (7, 7), (8, 8), (9, 8), (10, 9), (15, 11)];
        for (ns, expected) in cases {
            assert_eq!(bucket(ns), expected, "{ns}");
        }
        for ns in 1..100_000 {
            assert!(bucket(ns) - bucket(ns - 1) <= 1, "{ns}");
        }
        assert_eq!(bucket(u64::MAX), MynahHistogram::BUCKETS - 1);
    }
}
