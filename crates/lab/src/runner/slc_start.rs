//! What a drive's pSLC cache holds before it is run or served, where that is said.

use super::settling::lasting;
use super::taped::RecordedDrive;
use super::{RunOptions, Runner};
use crate::experiment::SlcStart;
use crate::run_error::RunError;
use mynah_model::config::{Config, Fault};
use mynah_model::warm::Access;
use mynah_model::{Drive, Policies};
use mynah_workload::history::{self, History, Pace, Turns};
use mynah_workload::{FlowSpec, Mix, SECTOR_BYTES, Source, When};

/// Refuses a state of a cache that a drive has not.
///
/// # Errors
/// [`RunError::NoSlcCache`].
pub(crate) fn check(config: &Config, slc: Option<SlcStart>) -> Result<(), RunError> {
    match slc.filter(|_| config.slc.is_none()) {
        Some(slc) => Err(RunError::NoSlcCache(slc.name())),
        None => Ok(()),
    }
}

/// Leaves the cache of a drive at rest so; `writes` are at least so many bytes that were written last.
/// It begins anew then, with `faults`.
///
/// # Errors
/// Why nobody can say what was written.
fn prepare<P: Policies, Writes: Iterator<Item = Access>>(
    drive: &mut Drive<P>,
    slc: SlcStart,
    writes: impl FnOnce(&Drive<P>, u64) -> Result<Writes, RunError>,
    faults: Vec<Fault>,
) -> Result<(), RunError> {
    if slc != SlcStart::Rested {
        drive.empty_slc();
        let room = drive.slc_state().map_or(0, |state| state.room_bytes);
        let writes = writes(drive, (room as f64 * slc.share()) as u64)?;
        drive.fill_slc(slc.share(), writes);
    }
    drive.begin_anew(faults);
    Ok(())
}

/// The same of a drive whose hosts nobody knows: they have written all over it.
pub(crate) fn prepare_unknown(
    drive: &mut Drive<impl Policies>,
    slc: SlcStart,
) -> Result<(), RunError> {
    let faults = drive.config().faults.clone();
    prepare(drive, slc, |drive, _| Ok(history::anywhere(drive, 1.0)), faults)
}

impl<P: Policies> Runner<P> {
    /// Leaves the cache as it was asked for.
    pub(super) fn with_slc_set(self) -> Result<Runner<P>, RunError> {
        let Some(slc) = self.slc_start else { return Ok(self) };
        let options = RunOptions { seed: self.seed, ..RunOptions::default() };
        let mut drive = self.drive.into_drive();
        let faults = drive.config().faults.clone();
        let watched = drive.keeps_activity();
        drive.keep_activity(false);
        drive.begin_anew(lasting(&faults));
        let mut inner = Runner::on(drive, &[], &options, When::Before)?;
        match slc {
            SlcStart::Rested => {
                inner.advance_until(|drive| drive.is_at_rest() && !drive.folds_in_idle_time())?;
            }
            SlcStart::Empty | SlcStart::Half | SlcStart::Full => inner.drain()?,
        }
        let mut drive = inner.drive.into_drive();
        drive.keep_activity(watched);
        let flows = self.aged_by.as_deref().unwrap_or(&self.specs);
        let writes = |drive: &Drive<P>, bytes| last_writes(drive, flows, bytes, self.seed);
        prepare(&mut drive, slc, writes, faults)?;
        let drive = RecordedDrive::new(drive, self.seed);
        Ok(Runner { drive, warmed: 0, readied: true, ..self })
    }
}

/// So many bytes, and more, that the flows have written last, by turns; of flows that only read, what
/// they read.
fn last_writes<P: Policies>(
    drive: &Drive<P>,
    flows: &[FlowSpec],
    bytes: u64,
    seed: u64,
) -> Result<impl Iterator<Item = Access> + use<P>, RunError> {
    let none_writes = !flows.iter().any(FlowSpec::modifies);
    let pace = Pace { cache_sectors: bytes / SECTOR_BYTES, saturated: false };
    let mut past = vec![];
    for (index, flow) in flows.iter().enumerate() {
        let mut flow = flow.clone();
        if let (Source::Synthetic(synthetic), true) = (&mut flow.source, none_writes) {
            synthetic.mix = Mix::WRITE;
        }
        if flow.modifies() {
            let capacity = drive.namespace_sectors(flow.namespace).unwrap_or(0);
            past.push(History::endless(&flow, capacity, seed, index as u32, pace)?);
        }
    }
    let anywhere = past.is_empty().then(|| history::anywhere(drive, 1.0));
    Ok(Turns::new(past).chain(anywhere.into_iter().flatten()))
}
