//! What the flows of a run, or the random writes in their place, did before it began, which the
//! data cache remembers.

use super::{RunError, Runner};
use crate::recording::Tape;
use crate::workload::SECTOR_BYTES;
use crate::workload::history::{self, History, Pace};
use mynah_model::warm::Access;

impl Runner {
    /// Leaves the data cache as the flows' past would have left it, unless it is so already.
    pub(crate) fn warm_cache(&mut self) -> Result<(), RunError> {
        if std::mem::take(&mut self.warms_cache) && self.drive.config().cache.is_some() {
            let mut notes = vec![];
            let past = self.past(&mut notes)?;
            self.warmed = self.drive.warm_cache(past)?;
            self.notes.append(&mut notes);
        }
        Ok(())
    }

    /// Writes down what the data cache was warmed with.
    pub(crate) fn record_past(&self, tape: &mut Tape) -> Result<(), RunError> {
        let past = self.past(&mut vec![])?.take(self.warmed as usize);
        past.into_iter().try_for_each(|access| tape.past(&access)).map_err(RunError::Recording)
    }

    /// What the flows did before; what of it nobody knows is said in `notes`.
    fn past(
        &self,
        notes: &mut Vec<String>,
    ) -> Result<impl Iterator<Item = Access> + use<>, RunError> {
        let cache_bytes = self.drive.config().cache.map_or(0, |cache| cache.bytes);
        let (g, flash) = (self.drive.config().geometry, self.drive.config().flash);
        let waf = self.preconditioned.as_ref().and_then(|found| found.expected_waf).unwrap_or(1.0);
        let read_s = flash.read.lsb.as_secs_f64();
        let program_s = flash.program.lsb.as_secs_f64();
        // Where collection always goes before the host, a read waits for the rest of a block that
        // its die collects, which a die that is written without end does all but the time of the
        // host's own programs.
        let moved = 1.0 - 1.0 / waf.max(1.0);
        let behind_s = match self.drive.config().gc.collects_first() {
            true => moved * f64::from(g.pages_per_block) * moved * (read_s + program_s) / 2.0,
            false => 0.0,
        };
        let pace = Pace {
            cache_sectors: cache_bytes / SECTOR_BYTES,
            read_s: read_s + behind_s,
            writes_per_s: f64::from(g.planes()) / (program_s * waf.max(1.0)).max(1e-12),
        };
        let mut histories = vec![];
        let (flows, all) = match &self.aged_by {
            Some(writes) => (writes, true),
            None => (&self.specs, false),
        };
        for (index, flow) in flows.iter().enumerate() {
            if !all && !self.jobs.iter().any(|job| job.flow as usize == index) {
                continue;
            }
            let capacity = self.drive.namespace_sectors(flow.namespace).unwrap_or(0);
            match History::new(flow, capacity, self.seed, index as u32, pace)? {
                Some(history) => histories.push(history),
                None => notes.push(format!(
                    "flow `{}`: what it did before is not known, and has not warmed the cache",
                    flow.name
                )),
            }
        }
        Ok(history::by_turns(histories, self.drive.config()))
    }
}
