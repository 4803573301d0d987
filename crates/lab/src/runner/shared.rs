//! States that runs of one process share: what preconditioning makes of a drive does not depend on all
//! that describes it, so drives that differ in some of their times alone, as those of a search do, are
//! prepared once. What is shared is what the drive would have been prepared into by itself, to the last
//! bit ([`mynah_model::Drive::take_prepared`]).

use mynah_model::Drive;
use mynah_model::config::Config;
use mynah_model::io::NamespaceId;
use mynah_model::precondition::{Heat, Occupancy, PreconditionError, Preconditioned, Prepared};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// States that are kept at most: each is as large as the tables of a drive.
pub const STATES_MAX: usize = 2;
/// Drives that are remembered as having been prepared once.
const REMEMBERED: usize = 64;

/// How preconditioning computes the drive's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Everything occupied is written once, in order.
    Fill,
    /// As [`How::Fill`], to be overwritten by the flows then.
    FillToBeWritten,
    /// The state that the flows' writes lead to in the long run is computed.
    Steady,
}

/// States that runs share; the same ones in every clone.
#[derive(Clone, Default)]
pub struct SharedStates(Arc<Mutex<States>>);

#[derive(Default)]
struct States {
    /// States that were asked for once. Only those that are asked for again are kept, to save
    /// memory.
    seen: Vec<Key>,
    retained: Vec<Arc<(Key, Prepared, Preconditioned)>>,
    taken: u64,
}

/// All that a prepared state depends on.
struct Key {
    config: Config,
    how: How,
    occupancy: Vec<Occupancy>,
    heats: Vec<(NamespaceId, Heat)>,
}

/// Whether the times of the flash and its bus shape the state: they say how much of the time planes
/// collect where it is known how fast they are written, or that it is as fast as they can be.
fn asks_for_flash(how: How, occupancy: &[Occupancy]) -> bool {
    let mut classes = occupancy.iter().flat_map(|occupancy| &occupancy.classes);
    how != How::Fill && classes.any(|class| class.saturated || class.units_per_s != 0.0)
}

impl Key {
    fn is_of(
        &self,
        config: &Config,
        how: How,
        occupancy: &[Occupancy],
        heats: &[(NamespaceId, Heat)],
    ) -> bool {
        self.how == how
            && self.occupancy == occupancy
            && self.heats == heats
            && self.config.is_prepared_like(config, asks_for_flash(how, occupancy))
    }
}

impl fmt::Debug for SharedStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStates").field("kept", &self.lock().retained.len()).finish()
    }
}

impl SharedStates {
    pub fn new() -> SharedStates {
        SharedStates::default()
    }

    /// How often a drive took a kept state instead of being prepared.
    pub fn taken(&self) -> u64 {
        self.lock().taken
    }

    fn lock(&self) -> MutexGuard<'_, States> {
        // Nothing is half done while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prepares `drive`, which is new and has no pairs, or gives it the state of one that was prepared alike.
///
/// # Errors
/// If it cannot be prepared.
pub(super) fn prepare(
    shared: Option<&SharedStates>,
    drive: &mut Drive,
    how: How,
    occupancy: &[Occupancy],
    heats: &[(NamespaceId, Heat)],
) -> Result<Preconditioned, PreconditionError> {
    let Some(shared) = shared else { return alone(drive, how, occupancy, heats) };
    let known = {
        let states = shared.lock();
        let of = |key: &Key| key.is_of(drive.config(), how, occupancy, heats);
        states.retained.iter().find(|state| of(&state.0)).cloned()
    };
    if let Some(state) = known
        && drive.take_prepared(&state.1, asks_for_flash(how, occupancy))
    {
        shared.lock().taken += 1;
        return Ok(state.2.clone());
    }
    let prepared = alone(drive, how, occupancy, heats)?;
    let mut states = shared.lock();
    let of = |key: &Key| key.is_of(drive.config(), how, occupancy, heats);
    if states.retained.iter().any(|state| of(&state.0)) {
        return Ok(prepared);
    }
    let key = Key {
        config: drive.config().clone(),
        how,
        occupancy: occupancy.to_vec(),
        heats: heats.to_vec(),
    };
    if !states.seen.iter().any(of) {
        if states.seen.len() == REMEMBERED {
            states.seen.remove(0);
        }
        states.seen.push(key);
        return Ok(prepared);
    }
    if states.retained.len() == STATES_MAX {
        states.retained.remove(0);
    }
    if let Some(state) = drive.prepared() {
        states.retained.push(Arc::new((key, state, prepared.clone())));
    }
    Ok(prepared)
}

fn alone(
    drive: &mut Drive,
    how: How,
    occupancy: &[Occupancy],
    heats: &[(NamespaceId, Heat)],
) -> Result<Preconditioned, PreconditionError> {
    match how {
        How::Fill => drive.fill(occupancy),
        How::FillToBeWritten => drive.fill_to_be_written(occupancy, heats),
        How::Steady => drive.precondition_with(occupancy, heats),
    }
}

#[cfg(test)]
mod tests;
