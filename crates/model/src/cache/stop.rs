//! What a stop leaves in the data cache.

use crate::drive::{Drive, Policies};
use crate::fault::Keep;
use crate::ftl::mapping::table::Content;
use crate::ftl::unit::{UnitState, WriteUnit};
use crate::number::{Lpn, WriteIndex};
use hashbrown::HashMap;
use mynah_stamp::Time;

/// A dirty unit that stays: how long it has not been written among those that rest, if it rests.
pub(crate) type Retained = (Option<usize>, WriteUnit);

impl<P: Policies> Drive<P> {
    /// Which dirty units stay in the cache, and which are lost, with the times when they were
    /// brought. What is being programmed has been dealt with.
    pub(crate) fn cache_at_stop(&self, keep: Keep) -> (Vec<Retained>, Vec<(Lpn, Time)>) {
        // Data that was only in DRAM is lost, if nothing protects it.
        let mut retained = vec![];
        let mut lost = vec![];
        if let Some(cache) = &self.cache {
            // Least recently written first; before them what was on its way.
            let age: HashMap<WriteIndex, usize> =
                self.cached_by_age().enumerate().map(|(age, at)| (at, age + 1)).collect();
            for (unit, at) in cache.contents() {
                let u = self.ftl.unit(at);
                if keep >= Keep::WriteCache && !u.trimmed {
                    let unit = WriteUnit {
                        cached: true,
                        part: u.part,
                        group: u.group,
                        mask: u.mask,
                        written: u.written,
                        ..WriteUnit::new(u.content, u.class, u.holder, u.created)
                    };
                    retained.push((age.get(&at).copied(), unit));
                } else if !u.trimmed && (u.state != UnitState::Programming || u.rewritten) {
                    lost.push((unit, u.created));
                }
            }
        }
        (retained, lost)
    }

    /// Empties the cache but for what stays: dirty units that are `kept`, and what is clean if
    /// everything is.
    pub(crate) fn refill_cache(&mut self, mut retained: Vec<Retained>, keep: Keep) {
        let now = self.kernel.now;
        let clean = match (&self.cache, keep) {
            (Some(cache), Keep::Everything) => cache.clean_contents(),
            _ => vec![],
        };
        if let Some(cache) = &mut self.cache {
            cache.power_cut(now);
        }
        retained.sort_by_key(|(age, _)| *age);
        for (_, unit) in retained {
            self.keep_unit(unit);
        }
        if let Some(cache) = &mut self.cache {
            clean.into_iter().for_each(|(part, unit, mask)| {
                cache.fill(unit, mask, part);
            });
        }
    }

    /// Units that stay in the cache, least recently written of each part first.
    fn cached_by_age(&self) -> impl Iterator<Item = WriteIndex> {
        let parts = self.cache.iter().flat_map(|cache| &cache.parts);
        parts.flat_map(|part| {
            part.resting.oldest_first(self.ftl.units().as_slice()).map(|(at, _)| WriteIndex(at))
        })
    }

    /// Puts data that a power cut has not taken back into the cache.
    fn keep_unit(&mut self, unit: WriteUnit) {
        let (holder, part, content) = (unit.holder, usize::from(unit.part), unit.content);
        let at = self.ftl.units_mut().insert(unit);
        let (Some(cache), Content::Unit(of)) = (&mut self.cache, content) else { return };
        self.ftl.unit_mut(at).epoch = cache.dirtied();
        cache.add(of, at, holder, part);
        self.link_newest_cached(at);
    }
}
