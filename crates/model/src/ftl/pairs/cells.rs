//! Which of a namespace's mapping units ("cells") are taken: pairs take runs of them that follow one
//! another. Cells are names, not places: where a cell is on flash is for the mapping to say, so
//! nothing is gained by choosing among free ones.

/// Allocator of a namespace's cells.
pub(crate) struct Cells {
    /// A bit for each cell, set while it is taken; beyond the last cell all are.
    words: Vec<u64>,
    count: u32,
    taken: u32,
    /// Where the search for the next run begins.
    cursor: u32,
}

impl Cells {
    pub(crate) fn new(count: u32) -> Cells {
        let mut cells = Cells { words: vec![], count, taken: 0, cursor: 0 };
        cells.clear();
        cells
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.words.resize(self.count.div_ceil(64) as usize, 0);
        if !self.count.is_multiple_of(64)
            && let Some(last) = self.words.last_mut()
        {
            *last = u64::MAX << (self.count % 64);
        }
        (self.taken, self.cursor) = (0, 0);
    }

    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Where the search for the next run begins.
    pub(crate) fn cursor(&self) -> u32 {
        self.cursor
    }

    /// Has the next search begin there.
    pub(crate) fn seek(&mut self, cursor: u32) {
        self.cursor = cursor;
    }

    pub(crate) fn is_taken(&self, cell: u32) -> bool {
        self.words[(cell / 64) as usize] >> (cell % 64) & 1 != 0
    }

    /// Takes `length` cells that follow one another; the first of them, or `None` if so many do
    /// not. Searches from where the last run ended, and from the start once.
    pub(crate) fn take(&mut self, length: u32) -> Option<u32> {
        let first = self.find(self.cursor, self.count, length).or_else(|| {
            let end = self.cursor.saturating_add(length).min(self.count);
            self.find(0, end, length)
        })?;
        self.mark(first, length);
        self.cursor = first + length;
        Some(first)
    }

    /// Takes these cells, which are free; false if one is not.
    pub(crate) fn take_at(&mut self, first: u32, length: u32) -> bool {
        let fits = first.checked_add(length).is_some_and(|end| end <= self.count);
        let free = fits && !(first..first + length).any(|cell| self.is_taken(cell));
        if free {
            self.mark(first, length);
        }
        free
    }

    fn mark(&mut self, first: u32, length: u32) {
        for cell in first..first + length {
            self.words[(cell / 64) as usize] |= 1 << (cell % 64);
        }
        self.taken += length;
    }

    /// Frees cells; all of them must be taken.
    pub(crate) fn give_back(&mut self, first: u32, length: u32) {
        for cell in first..first + length {
            self.words[(cell / 64) as usize] &= !(1 << (cell % 64));
        }
        self.taken -= length;
    }

    /// The first of `length` free cells that follow one another in `from..end`.
    fn find(&self, from: u32, end: u32, length: u32) -> Option<u32> {
        let mut first = self.next(from, end, 0)?;
        loop {
            let most = first.checked_add(length).filter(|&most| most <= end)?;
            match self.next(first, most, u64::MAX) {
                None => return Some(first),
                Some(taken) => first = self.next(taken, end, 0)?,
            }
        }
    }

    /// The first cell in `from..end` that is free (`flip` 0) or taken (`flip` all ones).
    #[inline]
    fn next(&self, from: u32, end: u32, flip: u64) -> Option<u32> {
        let mut at = from;
        while at < end {
            let word = !(self.words[(at / 64) as usize] ^ flip) >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Runs never overlap, are within the cells, and are found as long as there is room for
        /// them in one piece.
        #[test]
        fn runs_do_not_overlap(
            count in 1u32..400,
            steps in prop::collection::vec((1u32..40, any::<bool>(), any::<u16>()), 0..200),
        ) {
            let mut cells = Cells::new(count);
            let mut runs: Vec<(u32, u32)> = vec![];
            for (length, give, which) in steps {
                if give && !runs.is_empty() {
                    let (first, length) = runs.swap_remove(usize::from(which) % runs.len());
                    cells.give_back(first, length);
                } else {
                    let mut used = vec![false; count as usize];
                    for &(first, length) in &runs {
                        (first..first + length).for_each(|cell| used[cell as usize] = true);
                    }
                    let room = used
                        .chunk_by(|a, b| a == b)
                        .any(|run| !run[0] && run.len() >= length as usize);
                    match cells.take(length) {
                        Some(first) => {
                            prop_assert!(first + length <= count);
                            prop_assert!(!used[first as usize..(first + length) as usize].contains(&true));
                            runs.push((first, length));
                        }
                        None => prop_assert!(!room, "no room for {length} in {runs:?} of {count}"),
                    }
                }
                let taken: u32 = runs.iter().map(|run| run.1).sum();
                prop_assert_eq!(cells.taken(), taken);
                for cell in 0..count {
                    let within = runs.iter().any(|&(first, length)| (first..first + length).contains(&cell));
                    prop_assert_eq!(cells.is_taken(cell), within);
                }
            }
        }
    }
}
