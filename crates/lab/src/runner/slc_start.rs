//! What a drive's pSLC cache holds before it is run or served, where that is said.

use crate::experiment::SlcStart;
use crate::run_error::RunError;
use mynah_model::Drive;
use mynah_model::config::{Config, Fault};
use mynah_model::warm::Access;
use mynah_workload::history;

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
pub(crate) fn prepare<Writes: Iterator<Item = Access>>(
    drive: &mut Drive,
    slc: SlcStart,
    writes: impl FnOnce(&Drive, u64) -> Result<Writes, RunError>,
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
pub(crate) fn prepare_unknown(drive: &mut Drive, slc: SlcStart) -> Result<(), RunError> {
    let faults = drive.config().faults.clone();
    prepare(drive, slc, |drive, _| Ok(history::anywhere(drive, 1.0)), faults)
}
