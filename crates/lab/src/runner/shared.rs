//! States that runs share: what preconditioning makes of a drive does not depend on all that describes it,
//! so drives that differ in some of their times alone, as those of a search do, are prepared once; in one
//! process, and through what is kept in a folder. What is shared is what the drive would have been prepared
//! into by itself, to the last bit ([`mynah_drive_file::prepared_as`]).

use super::kept::ToKeep;
use crate::state_cache::{Key, StateCache};
use mynah_drive_file::{drive_hash, prepared_as};
use mynah_model::io::NamespaceId;
use mynah_model::precondition::{Heat, Occupancy, PreconditionError, Preconditioned, Prepared};
use mynah_model::{Drive, Policies};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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

/// States that runs of this process share; the same ones in every clone.
#[derive(Clone, Default)]
pub struct SharedStates(Arc<Shared>);

#[derive(Default)]
struct Shared {
    states: Mutex<States>,
    /// A state is there, or nobody computes it any more.
    computed: Condvar,
    /// Whether what was asked for once is kept.
    at_once: bool,
}

#[derive(Default)]
struct States {
    /// States that were asked for once. Only those that are asked for again are kept, to save
    /// memory.
    seen: Vec<Key>,
    retained: Vec<Arc<(Key, Prepared, Preconditioned)>>,
    /// States that somebody computes; whoever asks for one waits.
    computing: Vec<Key>,
    taken: u64,
}

impl fmt::Debug for SharedStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStates").field("kept", &self.lock().retained.len()).finish()
    }
}

/// A state that nobody has yet, and this run computes.
struct Computing<'a> {
    shared: &'a SharedStates,
    key: &'a Key,
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.shared.lock().computing.retain(|key| key != self.key);
        self.shared.0.computed.notify_all();
    }
}

impl SharedStates {
    pub fn new() -> SharedStates {
        SharedStates::default()
    }

    /// States for runs that are in an order in which the same ones follow one another: what was asked for
    /// once is kept.
    pub fn at_once() -> SharedStates {
        SharedStates(Arc::new(Shared { at_once: true, ..Shared::default() }))
    }

    /// How often a drive took a kept state instead of being prepared.
    pub fn taken(&self) -> u64 {
        self.lock().taken
    }

    fn lock(&self) -> MutexGuard<'_, States> {
        // Nothing is half done while it is held.
        self.0.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of this name, or the right to compute it; waits for whoever computes it.
    fn find<'a>(
        &'a self,
        key: &'a Key,
    ) -> Result<Arc<(Key, Prepared, Preconditioned)>, Computing<'a>> {
        let mut states = self.lock();
        loop {
            if let Some(state) = states.retained.iter().find(|state| state.0 == *key) {
                return Ok(Arc::clone(state));
            }
            if !states.computing.contains(key) {
                states.computing.push(key.clone());
                return Err(Computing { shared: self, key });
            }
            // It is wanted a second time.
            note(&mut states.seen, key);
            states = self.0.computed.wait(states).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Keeps the state of `drive`, if it is one that others ask for as well.
    fn offer(&self, key: &Key, drive: &Drive<impl Policies>, found: &Preconditioned) {
        if !note(&mut self.lock().seen, key) && !self.0.at_once {
            return;
        }
        let Some(state) = drive.prepared().and_then(|state| state.copied()) else { return };
        let mut states = self.lock();
        if states.retained.len() == STATES_MAX {
            states.retained.remove(0);
        }
        states.retained.push(Arc::new((key.clone(), state, found.clone())));
    }
}

/// Notes that `key` was asked for; whether it had been before.
fn note(seen: &mut Vec<Key>, key: &Key) -> bool {
    if seen.contains(key) {
        return true;
    }
    if seen.len() == REMEMBERED {
        seen.remove(0);
    }
    seen.push(key.clone());
    false
}

/// What a drive is prepared with.
pub(super) struct Preparation<'a> {
    pub(super) how: How,
    pub(super) occupancy: &'a [Occupancy],
    pub(super) heats: &'a [(NamespaceId, Heat)],
}

impl Preparation<'_> {
    /// Names all that the state depends on which `drive` is prepared into.
    fn key(&self, drive: &Drive<impl Policies>) -> Key {
        let Preparation { how, occupancy, heats } = self;
        let mut classes = occupancy.iter().flat_map(|occupancy| &occupancy.classes);
        let paced =
            *how != How::Fill && classes.any(|class| class.saturated || class.units_per_s != 0.0);
        let drive = prepared_as(drive.config(), paced);
        Key::of(format_args!("computed {drive} {how:?} {occupancy:?} {heats:?}"))
    }

    fn compute(
        &self,
        drive: &mut Drive<impl Policies>,
    ) -> Result<Preconditioned, PreconditionError> {
        let Preparation { how, occupancy, heats } = *self;
        match how {
            How::Fill => drive.fill(occupancy),
            How::FillToBeWritten => drive.fill_to_be_written(occupancy, heats),
            How::Steady => drive.precondition_with(occupancy, heats),
        }
    }

    /// What is said of the state where it is kept.
    fn said(&self, drive: &Drive<impl Policies>) -> String {
        let how = match self.how {
            How::Fill | How::FillToBeWritten => "filled",
            How::Steady => "computed to be steady",
        };
        format!("drive {} and others that differ in times, {how}", drive_hash(drive.config()))
    }
}

/// What preconditioning has computed, as far as it is kept.
#[derive(Default)]
pub(super) enum Computed {
    #[default]
    ForItself,
    /// It is there for others.
    Found,
    /// It may be kept there.
    New(ToKeep),
}

/// Prepares `drive`, which is new and has no pairs, or gives it the state of one that was prepared alike.
/// Says what there is to do for the next.
///
/// # Errors
/// If it cannot be prepared.
pub(super) fn prepare(
    (shared, states): (Option<&SharedStates>, Option<&StateCache>),
    drive: &mut Drive<impl Policies>,
    preparation: &Preparation<'_>,
) -> Result<(Preconditioned, Computed), PreconditionError> {
    if shared.is_none() && states.is_none() {
        return Ok((preparation.compute(drive)?, Computed::ForItself));
    }
    let key = preparation.key(drive);
    let known = shared.map(|shared| shared.find(&key));
    if let (Some(Ok(state)), Some(shared)) = (&known, shared)
        && state.1.copied().is_some_and(|state| drive.take_prepared(state))
    {
        shared.lock().taken += 1;
        return Ok((state.2.clone(), Computed::Found));
    }
    let kept = states.and_then(|states| states.get_prepared(&key));
    let taken = kept.and_then(|(found, state)| drive.take_prepared(state).then_some(found));
    let is_kept = taken.is_some();
    let found = match taken {
        Some(found) => found,
        None => preparation.compute(drive)?,
    };
    if let Some(shared) = shared {
        shared.offer(&key, drive, &found);
    }
    // Whoever waits for it finds it now.
    drop(known);
    let computed = match states {
        None => Computed::ForItself,
        Some(_) if is_kept => Computed::Found,
        Some(states) => {
            let (states, of) = (states.clone(), preparation.said(drive));
            Computed::New(ToKeep { states, key, of })
        }
    };
    Ok((found, computed))
}

#[cfg(test)]
mod tests;
