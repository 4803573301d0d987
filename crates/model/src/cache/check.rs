//! Invariants of the data cache, walked in full; for tests.

use crate::drive::{Drive, Policies};
use crate::ftl::mapping::table::Content;
use crate::ftl::unit::UnitState;
use crate::invariant::{BrokenInvariant, hold};

impl<P: Policies> Drive<P> {
    pub(crate) fn check_cache(&self) -> Result<(), BrokenInvariant> {
        let Some(cache) = &self.cache else { return Ok(()) };
        cache.check().map_err(BrokenInvariant)?;
        let contents = cache.contents();
        for part in (0..cache.parts.len()).filter(|_| cache.is_bounded()) {
            let units = contents.iter().map(|&(_, at)| self.ftl.unit(at));
            let of_part = units.filter(|unit| usize::from(unit.part) == part);
            let sectors: u32 = of_part.map(|unit| u32::from(unit.under_way)).sum();
            let counted = cache.under_way(part);
            hold(sectors == counted, || {
                format!("{sectors} sectors of part {part} are on their way, {counted} are counted")
            })?;
        }
        if let Some(clean) = &cache.clean {
            for (lpn, _) in (0..cache.parts.len()).flat_map(|part| clean.contents(part)) {
                hold(self.ftl.ppn(lpn).is_some(), || {
                    format!("unit {lpn} is clean in the cache, but not on flash")
                })?;
                hold(self.stays_when_clean(lpn), || {
                    format!("unit {lpn} is clean in the cache, which is not for its reads")
                })?;
            }
        }
        let mut dirty = 0;
        for (lpn, at) in contents {
            let u = self.ftl.unit(at);
            hold(u.content == Content::Unit(lpn) && u.cached, || {
                format!("unit {lpn} is cached as something else")
            })?;
            hold(!u.rewritten || u.retried || u.state == UnitState::Programming, || {
                format!("unit {lpn} was rewritten in state {:?}", u.state)
            })?;
            dirty += 1 + u64::from(u.rewritten);
        }
        hold(dirty == cache.dirty_units(), || {
            format!("{dirty} dirty units, but the epochs count {}", cache.dirty_units())
        })
    }
}
