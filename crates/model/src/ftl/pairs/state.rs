//! Pairs and their index as bytes, saved and restored.

use super::space::{Fresh, Space};
use super::{Entry, Pairs};
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::keys::PairId;

impl Pairs {
    /// Adds which pairs there are and where.
    pub(crate) fn hash(&self, hash: &mut StateHash) {
        for space in self.spaces.iter().flatten() {
            for entry in &space.pairs {
                hash.add(entry.token as u32);
                hash.add((entry.token >> 32) as u32);
                hash.add(entry.first);
                hash.add(entry.units_and_place);
            }
            hash.add(space.cells.cursor());
            space.index.hash(hash);
        }
    }

    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        for space in self.spaces.iter().flatten() {
            let pairs = &space.pairs;
            out.number(pairs.len() as u64);
            out.numbers(pairs.iter().map(|entry| entry.token as u32));
            out.numbers(pairs.iter().map(|entry| (entry.token >> 32) as u32));
            out.numbers(pairs.iter().map(|entry| entry.first));
            out.numbers(pairs.iter().map(|entry| entry.units_and_place));
            out.number(space.cells.cursor().into());
            let fresh = &space.fresh;
            out.numbers(fresh.keys().map(|pair| pair.0));
            out.numbers(fresh.values().map(|of| of.left));
            let before = |of: &Fresh| of.before.unwrap_or(Entry::NONE);
            out.numbers(fresh.values().map(|of| before(of).first));
            out.numbers(fresh.values().map(|of| before(of).units_and_place));
            space.index.save(out);
        }
        self.pages.save(out);
    }

    /// Takes what [`Pairs::save`] wrote.
    pub(crate) fn restore(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let damaged = |what: &str| StateError::Damaged(what.into());
        let mut pages = 0;
        for space in self.spaces.iter_mut().flatten() {
            let count = input.number()?;
            let most = space.names_max();
            let count = usize::try_from(count).ok().filter(|&count| count as u64 <= most);
            let count = count.ok_or_else(|| damaged("too many pairs"))?;
            let low = input.words("tokens", count)?;
            let high = input.words("tokens", count)?;
            let first = input.words("first cells", count)?;
            let units = input.words("sizes of pairs", count)?;
            let cursor = input.number()?;
            space.pairs.clear();
            space.cells.clear();
            space.owner.fill(0);
            (space.live, space.recoverable) = (0, 0);
            space.fresh.clear();
            for pair in 0..count {
                let token = u64::from(low[pair]) | u64::from(high[pair]) << 32;
                let (first, units_and_place) = (first[pair], units[pair]);
                let entry = Entry { token, first, units_and_place };
                if entry.is_vacant() {
                    continue;
                }
                if entry.units() == 0 || !space.cells.take_at(first, entry.units()) {
                    return Err(damaged("a pair's cells"));
                }
                space.put(PairId(pair as u32), entry);
                space.live += entry.units();
            }
            space.pairs.resize(count, Entry::NONE);
            if space.live > space.capacity {
                return Err(damaged("more pairs than there is room for"));
            }
            let cursor = u32::try_from(cursor).ok().filter(|&at| at as usize <= space.owner.len());
            space.restore_fresh(input)?;
            space.cells.seek(cursor.ok_or_else(|| damaged("where cells are searched"))?);
            let there = space.pairs.iter().filter(|entry| !entry.is_vacant());
            let mut keys = there.map(|entry| (entry.token, entry.place()));
            space.index.restore(input, &mut keys)?;
            pages = space.index_base.0 + space.pages_max;
        }
        self.pages.restore(input, pages)
    }
}

impl Space {
    /// Takes which pairs are not all on flash.
    fn restore_fresh(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let damaged = || StateError::Damaged("a pair that is not all on flash".into());
        let pairs = input.numbers("pairs", self.pairs.len(), self.pairs.len() as u32)?;
        let left = input.words("cells that are not on flash", pairs.len())?;
        let first = input.words("first cells", pairs.len())?;
        let units = input.words("sizes of pairs", pairs.len())?;
        for (at, pair) in pairs.into_iter().map(PairId).enumerate() {
            let now = self.entry(pair);
            let (first, units_and_place) = (first[at], units[at]);
            let before = Entry { token: now.token, first, units_and_place };
            let before = Some(before).filter(|before| !before.is_vacant());
            if now.is_vacant() || left[at] == 0 || left[at] > now.units() {
                return Err(damaged());
            }
            if let Some(before) = before {
                if before.units() == 0 || !self.cells.take_at(before.first, before.units()) {
                    return Err(damaged());
                }
                self.recoverable += before.units();
            }
            let fresh = Fresh { left: left[at], before, since: 0 };
            if self.fresh.insert(pair, fresh).is_some() {
                return Err(damaged());
            }
        }
        Ok(())
    }
}
