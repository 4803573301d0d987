//! What the flows of a run, or the random writes in their place, did before it began, which the
//! data cache remembers.

use super::{RunError, Runner, closed_loop, occupancy};
use crate::recording::Tape;
use mynah_model::Policies;
use mynah_model::precondition::Occupancy;
use mynah_model::warm::Access;
use mynah_workload::history::{self, History, Pace};
use mynah_workload::{FlowSpec, SECTOR_BYTES, Source};

impl<P: Policies> Runner<P> {
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

    /// Writes down what the data cache was warmed with, where a replay does not do it all again.
    pub(crate) fn record_past(&self, tape: &mut Tape) -> Result<(), RunError> {
        if self.has_settled() {
            return Ok(());
        }
        let past = self.past(&mut vec![])?.take(self.warmed as usize);
        past.into_iter().try_for_each(|access| tape.past(&access)).map_err(RunError::Recording)
    }

    /// What the flows did before; what of it nobody knows is said in `notes`.
    fn past(
        &self,
        notes: &mut Vec<String>,
    ) -> Result<impl Iterator<Item = Access> + use<P>, RunError> {
        let cache_bytes = self.drive.config().cache.map_or(0, |cache| cache.bytes);
        let mut histories = vec![];
        let (flows, all) = match &self.aged_by {
            Some(writes) => (writes, true),
            None => (&self.specs, false),
        };
        for (index, flow) in flows.iter().enumerate() {
            let ours = all || self.jobs.iter().any(|job| job.flow as usize == index);
            if !ours || flow.key_value().is_some() {
                continue;
            }
            let capacity = self.drive.namespace_sectors(flow.namespace).unwrap_or(0);
            let cache_sectors = cache_bytes / SECTOR_BYTES;
            let pace = Pace { cache_sectors, saturated: self.is_saturated_by(flow) };
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

    /// Whether `flow` writes as fast as the drive takes it: a closed loop that writes, and does not
    /// wait for its reads (`closed_loop.rs`).
    fn is_saturated_by(&self, flow: &FlowSpec) -> bool {
        let writes = match &flow.source {
            Source::Synthetic(synthetic) => synthetic.mix.write() > 0.0,
            Source::Front(_) => true,
            Source::Trace(_) | Source::KeyValue(_) => false,
        };
        let of_namespace = |on: &&Occupancy| on.namespace == flow.namespace;
        let classes = self.occupancy.iter().filter(of_namespace).flat_map(|on| &on.classes);
        let config = self.drive.config();
        let occupied =
            classes.map(|class| class.units).sum::<u64>() * u64::from(config.mapping.unit_bytes);
        let sectors = self.drive.namespace_sectors(flow.namespace).unwrap_or(0);
        let share = occupied as f64 / (sectors * SECTOR_BYTES).max(1) as f64;
        let valid = occupancy::valid_share(&self.drive, share);
        let held_up = || closed_loop::sectors_written_per_s(config, valid, flow);
        writes && flow.depth().is_some() && held_up().is_none()
    }
}
