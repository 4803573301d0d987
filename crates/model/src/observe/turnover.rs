//! How much of a drive has been turned over: blocks filled and blocks collected in each plane, and
//! how write amplification went on the way. What happened is counted here; what it says about the
//! drive is for others to judge.

use crate::number::Plane;
use crate::observe::stats::Counters;
use crate::space::Shape;
use serde::{Deserialize, Serialize};

/// Most marks that are kept. When there are as many, every other one is dropped.
const MARKS_MAX: usize = 256;

/// What had happened when so many blocks had been collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Blocks collected in all planes.
    pub collected: u64,
    /// Units that programs of user data carried, relocations included.
    pub units_programmed: u64,
    /// Of these, units that collection moved.
    pub units_moved: u64,
}

impl Mark {
    /// The write amplification of collection since an earlier mark: units programmed for each
    /// that was not moved. `None` if none was.
    pub fn amplification_since(&self, earlier: &Mark) -> Option<f64> {
        let programmed = self.units_programmed - earlier.units_programmed;
        let new = programmed.saturating_sub(self.units_moved - earlier.units_moved);
        (new > 0).then(|| programmed as f64 / new as f64)
    }
}

/// Blocks of one plane that were filled and collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneTurnover {
    /// Blocks that were opened to be filled.
    pub filled: u64,
    /// Blocks that were emptied and erased.
    pub collected: u64,
}

/// What has been turned over since counting began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// By plane.
    pub planes: Vec<PlaneTurnover>,
    /// Free blocks of the drive when counting began, and now.
    pub free_blocks: [u64; 2],
    /// Valid units in all its blocks when counting began, and now.
    pub valid_units: [u64; 2],
    /// What had happened at moments in between, oldest first, about as many collected blocks
    /// apart from one another.
    pub marks: Vec<Mark>,
    pub now: Mark,
}

impl Turnover {
    /// What has been turned over since `earlier`, which is of the same count.
    #[must_use]
    pub fn since(&self, earlier: &Turnover) -> Turnover {
        let less = |mark: &Mark| Mark {
            collected: mark.collected - earlier.now.collected,
            units_programmed: mark.units_programmed - earlier.now.units_programmed,
            units_moved: mark.units_moved - earlier.now.units_moved,
        };
        let planes = self.planes.iter().zip(&earlier.planes).map(|(now, before)| PlaneTurnover {
            filled: now.filled.saturating_sub(before.filled),
            collected: now.collected - before.collected,
        });
        let later = self.marks.iter().filter(|mark| mark.collected > earlier.now.collected);
        Turnover {
            planes: planes.collect(),
            free_blocks: [earlier.free_blocks[1], self.free_blocks[1]],
            valid_units: [earlier.valid_units[1], self.valid_units[1]],
            marks: later.map(less).collect(),
            now: less(&self.now),
        }
    }
}

/// The books of a drive: what is counted as it happens.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct TurnoverBooks {
    /// Free blocks and blocks collected of each plane: when counting began, and since then.
    free_before: Vec<u32>,
    /// Valid units when counting began.
    valid_before: u64,
    collected: Vec<u64>,
    all: u64,
    /// What was counted when counting began.
    from: Mark,
    marks: Vec<Mark>,
    /// Blocks collected between two marks, and by the next one.
    every: u64,
    next: u64,
}

impl TurnoverBooks {
    pub(super) fn new(
        free_before: Vec<u32>,
        valid_before: u64,
        counters: &Counters,
        shape: &Shape,
    ) -> TurnoverBooks {
        // Marks that lie closer than planes collect in turn say little.
        let every = u64::from(shape.planes).div_ceil(8).max(1);
        TurnoverBooks {
            collected: vec![0; free_before.len()],
            free_before,
            valid_before,
            all: 0,
            from: mark(counters, 0),
            marks: Vec::new(),
            every,
            next: every,
        }
    }

    pub(super) fn collected(&mut self, plane: Plane, counters: &Counters) {
        self.collected[plane] += 1;
        self.all += 1;
        if self.all >= self.next {
            self.marks.push(self.since(mark(counters, self.all)));
            if self.marks.len() == MARKS_MAX {
                // Those that are left lie twice as far apart, and end with the last.
                let mut odd = false;
                self.marks.retain(|_| {
                    odd = !odd;
                    !odd
                });
                self.every *= 2;
            }
            self.next = self.all + self.every;
        }
    }

    /// What has been turned over, by a drive whose planes have `free` blocks now, and which has
    /// `valid` valid units.
    pub(crate) fn turnover(&self, free: &[u64], valid: u64, counters: &Counters) -> Turnover {
        let planes = self.free_before.iter().zip(&self.collected).zip(free);
        let planes = planes.map(|((&before, &collected), &free)| {
            let filled = (u64::from(before) + collected).saturating_sub(free);
            PlaneTurnover { filled, collected }
        });
        let before = self.free_before.iter().map(|&free| u64::from(free)).sum();
        Turnover {
            planes: planes.collect(),
            free_blocks: [before, free.iter().sum()],
            valid_units: [self.valid_before, valid],
            marks: self.marks.clone(),
            now: self.since(mark(counters, self.all)),
        }
    }

    /// Blocks collected since counting began.
    pub(crate) fn blocks(&self) -> u64 {
        self.all
    }

    fn since(&self, mark: Mark) -> Mark {
        Mark {
            collected: mark.collected,
            units_programmed: mark.units_programmed - self.from.units_programmed,
            units_moved: mark.units_moved - self.from.units_moved,
        }
    }
}

fn mark(counters: &Counters, collected: u64) -> Mark {
    Mark {
        collected,
        // What is folded has been counted as it came to the cache.
        units_programmed: counters.flash_units_programmed - counters.slc.units_folded,
        units_moved: counters.gc_units_moved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_thinned_out_and_stay_evenly_apart() {
        let config = crate::testing::small();
        let shape = Shape::new(&config);
        let mut counters = Counters::default();
        let mut books = TurnoverBooks::new(vec![4; 8], 0, &counters, &shape);
        for block in 0..10_000u64 {
            counters.flash_units_programmed += 30;
            counters.gc_units_moved += 20;
            books.collected(Plane((block % 8) as u32), &counters);
        }
        assert!((MARKS_MAX / 2 - 1..MARKS_MAX).contains(&books.marks.len()));
        let apart = |pair: &[Mark]| pair[1].collected - pair[0].collected;
        let apart: Vec<u64> = books.marks.windows(2).map(apart).collect();
        assert!(apart.iter().all(|&blocks| blocks <= books.every), "{apart:?}");
        let (first, last) = (books.marks[0], books.marks[books.marks.len() - 1]);
        assert_eq!(last.amplification_since(&first), Some(3.0));
        assert_eq!(first.amplification_since(&first), None);
        assert_eq!(books.collected, [1250; 8]);
    }
}
