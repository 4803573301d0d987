//! What pictures need of each record: when I/Os of which latency ended, and the slowest of them.

use super::super::analysis::Analysis;
use super::each_record;
use mynah_profile::{Head, Problem, Record};
use mynah_result::histogram::Buckets;
use mynah_result::slowest::Longest;
use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;

pub(super) const COLUMNS: usize = 108;
/// How many of the slowest I/Os are shown.
const SLOWEST: usize = 20;

/// Rows of a heat map: four to an octave.
pub(super) type Rows = Buckets<2>;

/// How many I/Os ended when, with which latency.
pub(super) struct Heat {
    first: Time,
    /// Time that one column stands for.
    pub(super) column: Span,
    /// By row, how many I/Os each column has.
    pub(super) rows: BTreeMap<usize, Vec<u64>>,
}

impl Heat {
    fn new(first: Time, window: Span) -> Heat {
        let column = Span::from_ps(window.as_ps() / COLUMNS as u64 + 1);
        Heat { first, column, rows: BTreeMap::new() }
    }

    fn add(&mut self, head: &Head) {
        let end = Time::from_ps(head.begin.as_ps().saturating_add(head.total.as_ps()));
        let column = end.saturating_since(self.first).as_ps() / self.column.as_ps();
        let column = (column as usize).min(COLUMNS - 1);
        let row = self.rows.entry(Rows::index(head.total.as_ps()));
        row.or_insert_with(|| vec![0; COLUMNS])[column] += 1;
    }
}

/// One of the slowest I/Os.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Single {
    pub(super) head: Head,
    /// In the order of the header's stages.
    pub(super) stages: Vec<Span>,
    /// In the order of the header's `beside`.
    pub(super) beside: Vec<u64>,
}

/// What pictures are drawn of.
pub(super) struct Pictures {
    pub(super) heat: Heat,
    /// The slowest I/Os, the slowest first; those that failed as well.
    pub(super) slowest: Longest<Single>,
}

impl Pictures {
    /// Reads the analysed profile once more.
    pub(super) fn of(analysis: &Analysis) -> Result<Pictures, Problem> {
        let first = analysis.first.min(analysis.last);
        let heat = Heat::new(first, analysis.last.saturating_since(first));
        let mut pictures = Pictures { heat, slowest: Longest::new(SLOWEST) };
        each_record(analysis, &mut |record| pictures.add(record))?;
        Ok(pictures)
    }

    fn add(&mut self, record: &Record<'_>) {
        if record.head.status == 0 && !record.head.kept {
            self.heat.add(&record.head);
        }
        self.slowest.offer(record.head.total, || {
            let (stages, beside) = (record.stages.to_vec(), record.beside.to_vec());
            Single { head: record.head, stages, beside }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_slowest_are_kept_in_order(totals in prop::collection::vec(0u64..50, 0..200)) {
            let heat = Heat::new(Time::ZERO, Span::from_ps(1000));
            let mut pictures = Pictures { heat, slowest: Longest::new(SLOWEST) };
            let mut expected = vec![];
            for (sequence, total) in (1u64..).zip(totals) {
                let total = Span::from_ps(total);
                let head = Head { sequence, total, ..Head::default() };
                pictures.add(&Record { head, stages: &[total], beside: &[] });
                expected.push((std::cmp::Reverse(total), sequence));
            }
            expected.sort_unstable();
            expected.truncate(SLOWEST);
            let kept = pictures.slowest.iter();
            let kept: Vec<_> = kept.map(|(_, it)| (std::cmp::Reverse(it.head.total), it.head.sequence)).collect();
            prop_assert_eq!(kept, expected);
        }

        #[test]
        fn every_io_is_in_one_cell(
            ios in prop::collection::vec((any::<u64>(), any::<u64>()), 1..100),
            first in any::<u64>(), window in any::<u64>(),
        ) {
            let mut heat = Heat::new(Time::from_ps(first), Span::from_ps(window));
            for &(begin, total) in &ios {
                let (begin, total) = (Time::from_ps(begin), Span::from_ps(total));
                heat.add(&Head { begin, total, ..Head::default() });
            }
            let all: u64 = heat.rows.values().flatten().sum();
            prop_assert_eq!(all, ios.len() as u64);
        }
    }
}
