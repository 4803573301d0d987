//! A sorted run: entries of keys in the order of their tokens, on pages that follow one another. The
//! first token of each page is in DRAM, so a look-up takes one page.

use super::filter::Filter;

/// A sorted run of the tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// Ascending. What was removed has an entry, too, as long as an older run may know it.
    tokens: Vec<u64>,
    /// Whether each of them was removed; empty if none was.
    gone: Vec<bool>,
    filter: Filter,
    /// Its pages, one for each so many entries.
    pub(super) pages: Vec<u32>,
    /// All of its pages are in DRAM: it is of a pinned level, or has not been written yet.
    pub(super) resident: bool,
}

impl Run {
    /// A run of ascending entries: tokens, and whether they were removed.
    pub(super) fn new(entries: impl Iterator<Item = (u64, bool)>, filter_bits: u32) -> Run {
        let (tokens, gone): (Vec<u64>, Vec<bool>) = entries.unzip();
        let gone = if gone.contains(&true) { gone } else { vec![] };
        let filter = Filter::new(&tokens, filter_bits);
        Run { tokens, gone, filter, pages: vec![], resident: true }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Tokens in ascending order, each with whether it is a tombstone.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, bool)> {
        let gone = self.gone.iter().copied().chain(std::iter::repeat(false));
        self.tokens.iter().copied().zip(gone)
    }

    /// What it says of a token: whether it was removed; `None` if nothing.
    pub(super) fn says(&self, token: u64) -> Option<bool> {
        let at = self.tokens.binary_search(&token).ok()?;
        Some(self.gone.get(at).copied().unwrap_or(false))
    }

    /// The page to be looked at for a token, if its filter does not say that it is not there.
    pub(super) fn page_to_look_at(&self, token: u64, per_page: u32) -> Option<u32> {
        if !self.filter.may_contain(token) {
            return None;
        }
        let after = self.tokens.partition_point(|&other| other <= token);
        let page = after.checked_sub(1)? / per_page as usize;
        self.pages.get(page).copied()
    }

    /// What several runs say together, newest first; without what was removed if `all` there is to
    /// know is in them.
    pub(super) fn merge(newest_first: &[&Run], all: bool) -> Vec<(u64, bool)> {
        let mut merged: Vec<(u64, bool)> = vec![];
        let mut left: Vec<_> = newest_first.iter().map(|run| run.entries().peekable()).collect();
        loop {
            let least = left.iter_mut().filter_map(|run| run.peek().map(|entry| entry.0)).min();
            let Some(token) = least else { return merged };
            let mut newest = None;
            for run in &mut left {
                if let Some(entry) = run.next_if(|entry| entry.0 == token) {
                    newest.get_or_insert(entry);
                }
            }
            merged.extend(newest.filter(|entry| !(all && entry.1)));
        }
    }
}
