//! The log blocks of one plane with hybrid mapping, after a long history of writes of single
//! pages: which of them hold the newest copies of which pages.
//!
//! Writes are performed without time or addresses on flash, by the rules of
//! [`crate::ftl::mapping::hybrid`], on a plane all of whose written pages have been laid down in
//! data blocks before. A merge only says how many pages it copies: where its data blocks are
//! makes no difference.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;

/// The log blocks of one plane under hybrid mapping.
pub(crate) struct Log {
    pages_per_block: u32,
    /// Log blocks for writes in no order.
    blocks: usize,
    /// Whether each page of the plane's logical space holds something, and how many of each
    /// logical block do.
    mapped: Vec<bool>,
    held: Vec<u32>,
    /// What was written to each log block, the oldest first; and how many came before.
    random: VecDeque<Vec<u32>>,
    before: u32,
    /// The log block and the place in it that have the newest copy of a page, and the pages of
    /// each logical block that were written to the log since it was last merged.
    newest: HashMap<u32, (u32, u32), FxBuildHasher>,
    of_logical: HashMap<u32, Vec<u32>, FxBuildHasher>,
    /// The logical block that is being written in order, and its next page.
    sequential: Option<(u32, u32)>,
    pub(crate) copies: u64,
}

impl Log {
    /// Logs that nothing has been written to. `mapped`: which pages hold something; whole
    /// logical blocks.
    pub(crate) fn new(pages_per_block: u32, blocks: usize, mapped: Vec<bool>) -> Log {
        let logical = mapped.chunks(pages_per_block as usize);
        let held = logical.map(|pages| pages.iter().map(|&held| u32::from(held)).sum()).collect();
        Log {
            pages_per_block,
            blocks,
            mapped,
            held,
            random: VecDeque::new(),
            before: 0,
            newest: HashMap::default(),
            of_logical: HashMap::default(),
            sequential: None,
            copies: 0,
        }
    }

    /// Writes a page that holds something. Returns whether it went to the log blocks for
    /// writes in no order.
    pub(crate) fn write(&mut self, page: u32) -> bool {
        let (logical, at) = (page / self.pages_per_block, page % self.pages_per_block);
        match self.sequential {
            Some((owner, next)) if owner == logical && next == at => {
                self.newest.remove(&page);
                self.sequential = Some((owner, next + 1));
                if next + 1 == self.pages_per_block {
                    self.merge_sequential();
                }
                return false;
            }
            Some((owner, _)) if owner == logical || at == 0 => self.merge_sequential(),
            _ => {}
        }
        if at == 0 {
            self.newest.remove(&page);
            self.sequential = Some((logical, 1));
            if self.pages_per_block == 1 {
                self.merge_sequential();
            }
            return false;
        }
        if self.random.back().is_none_or(|last| last.len() == self.pages_per_block as usize) {
            if self.random.len() == self.blocks {
                self.merge_oldest();
            }
            self.random.push_back(Vec::with_capacity(self.pages_per_block as usize));
        }
        let block = self.before + self.random.len() as u32 - 1;
        if let Some(last) = self.random.back_mut() {
            self.newest.insert(page, (block, last.len() as u32));
            last.push(page);
        }
        self.of_logical.entry(logical).or_default().push(page);
        true
    }

    fn merge_sequential(&mut self) {
        let Some((owner, next)) = self.sequential.take() else { return };
        let first = (owner * self.pages_per_block) as usize;
        let rest = first + next as usize..first + self.pages_per_block as usize;
        self.copies += self.mapped[rest].iter().filter(|held| **held).count() as u64;
        self.forget(owner);
    }

    fn merge_oldest(&mut self) {
        let Some(victim) = self.random.pop_front() else { return };
        let block = self.before;
        self.before += 1;
        for (page, at) in victim.into_iter().zip(0..) {
            if self.newest.get(&page) != Some(&(block, at)) {
                continue;
            }
            let logical = page / self.pages_per_block;
            if self.sequential.is_some_and(|(owner, _)| owner == logical) {
                self.merge_sequential();
            } else {
                self.copies += u64::from(self.held[logical as usize]);
                self.forget(logical);
            }
        }
    }

    /// No page of a logical block is in the log any more.
    fn forget(&mut self, logical: u32) {
        for page in self.of_logical.remove(&logical).into_iter().flatten() {
            self.newest.remove(&page);
        }
    }

    /// The log blocks, the oldest first: which page each place has, if it is the newest copy.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Vec<Option<u32>>> + '_ {
        self.random.iter().zip(self.before..).map(|(pages, block)| {
            let newest = |(&page, at): (&u32, u32)| {
                (self.newest.get(&page) == Some(&(block, at))).then_some(page)
            };
            pages.iter().zip(0..).map(newest).collect()
        })
    }

    /// The logical block that is being written in order, and its next page.
    pub(crate) fn sequential(&self) -> Option<(u32, u32)> {
        self.sequential
    }
}
