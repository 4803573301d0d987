//! A drive, made ready to be served in real time.

use crate::experiment::{Precondition, Start};
use crate::recording::{Header, Preparation};
use crate::runner::{RunError, slc_start};
use crate::saved_state::{self, Checksum, SavedStateError};
use crate::shard::{self, ShardError};
use crate::simulation::SimulationError;
use crate::state_cache::{Key, StateCache};
use mynah_drive_file::fault;
use mynah_drive_file::{self as drive, drive_hash};
use mynah_model::Drive;
use mynah_model::config::{Config, NamespaceKind};
use mynah_model::io::NamespaceId;
use mynah_model::precondition::{Occupancy, Order, Preconditioned, UpdateClass};
use mynah_model::warm::Access;
use mynah_stamp::Span;
use mynah_workload::history;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Assumed share of writes among the accesses before the drive is served: the real one is not
/// known.
const WRITE_SHARE: f64 = 0.5;

/// A drive that is to be served, and the state it starts in.
///
/// It has one namespace over the whole drive, from which an NVMe subsystem cuts its own.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// Name of the drive: of a shipped drive, or as its file calls it.
    pub name: String,
    /// Description of the drive, overrides and faults included.
    pub config: Config,
    /// How it is prepared. Both steady states mean: after a long time of reads and writes all over
    /// the drive, which have warmed the data cache, too.
    pub start: Start,
    /// Where drives that were made ready are kept, as for simulations.
    pub states: Option<StateCache>,
}

impl Emulation {
    /// The shipped drive or the drive file `name_or_path`, with `KEY=VALUE` changes.
    ///
    /// # Errors
    /// If there is no such drive, or it is not possible.
    pub fn on(name_or_path: &str, overrides: &[String]) -> Result<Emulation, SimulationError> {
        let file = drive::load(name_or_path, overrides)?;
        Ok(Emulation {
            name: file.name,
            config: file.config,
            start: Start::default(),
            states: StateCache::of_process(),
        })
    }

    /// Part `index` of the drive, divided into `of`.
    ///
    /// # Errors
    /// See [`shard::part`]; if the part is no drive that can be, that is said when it is prepared.
    pub fn shard(&self, index: u32, of: u32) -> Result<Emulation, ShardError> {
        Ok(Emulation { config: shard::part(&self.config, index, of)?, ..self.clone() })
    }

    /// Adds a fault, as `--fault` has it.
    ///
    /// # Errors
    /// If it cannot be read, or names what the drive does not have.
    pub fn fault(mut self, spec: &str) -> Result<Emulation, SimulationError> {
        let fault = fault::parse(spec)?;
        fault::check(&fault, &self.config)?;
        self.config.faults.push(fault);
        Ok(self)
    }

    /// [`drive_hash`] of the configuration.
    pub fn hash(&self) -> String {
        drive_hash(&self.config)
    }

    /// Whether the drive can be built.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check(&self) -> Result<(), SimulationError> {
        Ok(self.config.check().map_err(RunError::Drive)?)
    }

    /// Builds the drive, and puts it into the state that was saved at `state`, in place of
    /// preconditioning.
    ///
    /// # Errors
    /// If it cannot be built, or the state cannot be read, is damaged or another drive's.
    pub fn restore(self, state: &Path) -> Result<Prepared, SimulationError> {
        let mut drive = Drive::new(self.config).map_err(RunError::Drive)?;
        saved_state::load(&mut drive, state).map_err(RunError::from)?;
        let io = |error| SavedStateError::Io { path: state.into(), error };
        let checksum = saved_state::checksum(state).map_err(|error| RunError::from(io(error)))?;
        Ok(Prepared {
            hash: drive_hash(drive.config()),
            name: self.name,
            start: Precondition::None.into(),
            preconditioned: None,
            restored: Some(Restored { file: state.to_owned(), checksum }),
            occupancy: Vec::new(),
            warmed: 0,
            drive,
        })
    }

    /// Builds and preconditions the drive.
    ///
    /// # Errors
    /// If it cannot be built, or not be in such a state.
    pub fn prepare(mut self) -> Result<Prepared, SimulationError> {
        let start = self.start;
        slc_start::check(&self.config, start.slc)?;
        let states = self.states.take().filter(|_| start.precondition != Precondition::None);
        let key = Key::of(format_args!("serve {:?} {start}", self.config));
        let kept = states.as_ref().and_then(|states| states.get(&key, &self.config));
        let (beside, drive) = match kept {
            Some(kept) => kept,
            None => {
                let (beside, drive) = prepare_anew(self.config, start)?;
                if let Some(states) = states {
                    let hash = drive_hash(drive.config());
                    if let Some(snapshot) = drive.snapshot() {
                        let of = format!("drive {hash}, {start}, to be served");
                        states.put(&key, of, &beside, &snapshot);
                    }
                }
                (beside, drive)
            }
        };
        let Beside { preconditioned, occupancy, warmed } = beside;
        Ok(Prepared {
            hash: drive_hash(drive.config()),
            name: self.name,
            start,
            preconditioned,
            restored: None,
            occupancy,
            warmed,
            drive,
        })
    }
}

/// Builds and preconditions the drive of `config`.
fn prepare_anew(
    config: Config,
    Start { precondition, slc }: Start,
) -> Result<(Beside, Drive), SimulationError> {
    let mut drive = Drive::new(config).map_err(RunError::Drive)?;
    let unit_sectors = u64::from(drive.config().mapping.unit_bytes / 512);
    let everything = |namespace: u32| {
        let namespace = NamespaceId(namespace);
        let units = drive.namespace_sectors(namespace).unwrap_or(0) / unit_sectors;
        let class = UpdateClass {
            placement: Default::default(),
            first: 0,
            units,
            weight: 1.0,
            order: Order::UNIFORM,
            write_share: WRITE_SHARE,
            saturated: false,
            units_per_s: 0.0,
            together: 1,
            trims_per_write: 0.0,
        };
        Occupancy { namespace, classes: vec![class] }
    };
    let occupancy: Vec<Occupancy> = match precondition {
        Precondition::None => Vec::new(),
        // Nobody knows which pairs there will be.
        _ => {
            let namespaces = (1..).zip(&drive.config().namespaces);
            let blocks = namespaces.filter(|(_, it)| it.kind == NamespaceKind::Blocks);
            blocks.map(|(id, _)| everything(id)).collect()
        }
    };
    let preconditioned = match precondition {
        Precondition::None => None,
        Precondition::Fill => Some(drive.fill(&occupancy)),
        Precondition::Steady | Precondition::SteadyRandom => Some(drive.precondition(&occupancy)),
    };
    let preconditioned = preconditioned.transpose().map_err(RunError::Precondition)?;
    if let Some(slc) = slc {
        slc_start::prepare_unknown(&mut drive, slc)?;
    }
    let warmed = match precondition {
        Precondition::Steady | Precondition::SteadyRandom => {
            let past = history::anywhere(&drive, WRITE_SHARE);
            drive.warm_cache(past).map_err(RunError::Precondition)?
        }
        _ => 0,
    };
    Ok((Beside { preconditioned, occupancy, warmed }, drive))
}

/// What is kept of a drive that is ready, beside the drive.
#[derive(Serialize, Deserialize)]
struct Beside {
    preconditioned: Option<Preconditioned>,
    occupancy: Vec<Occupancy>,
    warmed: u64,
}

/// A saved state that a drive was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub file: PathBuf,
    /// Checksum of the file's contents, which identifies the state.
    pub checksum: Checksum,
}

/// A drive that is ready to be served.
pub struct Prepared {
    /// Name of the drive, as in [`Emulation::name`].
    pub name: String,
    /// [`drive_hash`] of its configuration.
    pub hash: String,
    /// The drive, with its clock at zero.
    pub drive: Drive,
    /// How it was preconditioned.
    pub start: Start,
    /// What preconditioning found.
    pub preconditioned: Option<Preconditioned>,
    /// The saved state that it was given instead.
    pub restored: Option<Restored>,
    occupancy: Vec<Occupancy>,
    warmed: u64,
}

impl Prepared {
    /// The header of a recording that begins now, before the drive's first input.
    ///
    /// # Errors
    /// If the drive cannot be written as a drive file.
    pub fn header(&self) -> Result<Header, SimulationError> {
        let preparation = Preparation {
            name: &self.name,
            saved_state: self.restored.as_ref().map(|it| saved_state::name(&it.checksum)),
            start: self.start,
            settling: None,
            precision: None,
            occupancy: &self.occupancy,
            seed: self.drive.config().seed,
            ramp: Span::ZERO,
            notes: &[],
        };
        preparation.header(&self.drive, Vec::new()).map_err(SimulationError::Unwritable)
    }

    /// The accesses that have warmed the data cache, for such a recording
    /// ([`crate::recording::Tape::past`]).
    pub fn past(&self) -> impl Iterator<Item = Access> + use<> {
        history::anywhere(&self.drive, WRITE_SHARE).take(self.warmed as usize)
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("name", &self.name).finish_non_exhaustive()
    }
}
