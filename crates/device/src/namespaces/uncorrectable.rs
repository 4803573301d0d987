//! Blocks that Write Uncorrectable has marked (NVM Command Set 1.0, section 3.2.7).
//!
//! They are kept as runs. How many there can be is bounded by the room that the subsystem has to
//! keep them beyond the process (`subsystem/persist.rs`): a command that would make one too many, be it
//! a mark or a write into the middle of a run, is refused.

use std::collections::BTreeMap;

/// Which blocks of a namespace cannot be read until they are written again.
#[derive(Debug, Default)]
pub(crate) struct Uncorrectable {
    /// End of each run by its start; runs neither touch nor overlap.
    runs: BTreeMap<u64, u64>,
}

impl Uncorrectable {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The first marked block of a range.
    pub(crate) fn first_in(&self, start: u64, blocks: u64) -> Option<u64> {
        let end = start + blocks;
        let (&from, &to) = self.runs.range(..end).next_back()?;
        if to <= start {
            return None;
        }
        // An earlier run may reach into the range, too.
        let earlier = self.runs.range(..=start).next_back().filter(|&(_, &to)| to > start);
        match earlier {
            Some(_) => Some(start),
            None => self.runs.range(start..end).next().map(|(&from, _)| from).or(Some(from)),
        }
    }

    /// Runs of marked blocks.
    pub(crate) fn count(&self) -> usize {
        self.runs.len()
    }

    /// Whether marking these blocks makes a run more.
    pub(crate) fn mark_adds(&self, start: u64, blocks: u64) -> bool {
        let before = self.runs.range(..=start + blocks).next_back();
        before.is_none_or(|(_, &end)| end < start)
    }

    /// Whether clearing these blocks makes a run more: they lie in the midst of one.
    pub(crate) fn clear_adds(&self, start: u64, blocks: u64) -> bool {
        let around = self.runs.range(..start).next_back();
        around.is_some_and(|(_, &end)| end > start + blocks)
    }

    /// Marks a range as uncorrectable.
    pub(crate) fn mark(&mut self, start: u64, blocks: u64) {
        let (mut from, mut to) = (start, start + blocks);
        while let Some((&start, &end)) = self.runs.range(..=to).next_back()
            && end >= from
        {
            self.runs.remove(&start);
            from = from.min(start);
            to = to.max(end);
        }
        self.runs.insert(from, to);
    }

    /// The runs of marked blocks in order, each by its first block and the one behind its last.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|(&start, &end)| (start, end))
    }

    /// Blocks were written or deallocated; whether any of them was marked.
    pub(crate) fn clear(&mut self, start: u64, blocks: u64) -> bool {
        let (end, mut cleared) = (start + blocks, false);
        while let Some((&from, &to)) = self.runs.range(..end).next_back()
            && to > start
        {
            cleared = true;
            self.runs.remove(&from);
            if from < start {
                self.runs.insert(from, start);
            }
            if to > end {
                self.runs.insert(end, to);
            }
        }
        cleared
    }

    pub(crate) fn clear_all(&mut self) {
        self.runs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined_split_and_found() {
        let mut marked = Uncorrectable::default();
        for (start, blocks) in [(10, 5), (20, 5), (15, 5), (40, 1)] {
            marked.mark(start, blocks);
        }
        assert_eq!(marked.count(), 2);
        for (start, blocks, first) in [
            (0, 10, None),
            (0, 11, Some(10)),
            (12, 1, Some(12)),
            (24, 20, Some(24)),
            (25, 15, None),
            (25, 16, Some(40)),
            (0, 100, Some(10)),
            (41, 100, None),
        ] {
            assert_eq!(marked.first_in(start, blocks), first, "{start} {blocks}");
        }
        assert!(marked.clear(12, 3) && !marked.clear(12, 3));
        assert_eq!(marked.first_in(12, 3), None);
        assert_eq!(marked.first_in(11, 3), Some(11));
        assert_eq!(marked.first_in(12, 4), Some(15));
        marked.clear(0, 100);
        assert!(marked.is_empty());
    }

    #[test]
    fn it_is_known_before_whether_runs_become_more() {
        for (start, blocks) in (0..24).flat_map(|start| (1..12).map(move |blocks| (start, blocks)))
        {
            let marked = || {
                let mut marked = Uncorrectable::default();
                for (start, blocks) in [(4, 5), (12, 1), (20, 4)] {
                    marked.mark(start, blocks);
                }
                marked
            };
            let mut more = marked();
            let adds = more.mark_adds(start, blocks);
            more.mark(start, blocks);
            assert_eq!(adds, more.count() > 3, "mark {start} {blocks}");
            let mut less = marked();
            let adds = less.clear_adds(start, blocks);
            less.clear(start, blocks);
            assert_eq!(adds, less.count() > 3, "clear {start} {blocks}");
        }
    }
}
