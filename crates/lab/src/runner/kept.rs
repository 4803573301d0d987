//! What of a run that is ready to begin is kept for the next that begins with the same
//! ([`StateCache`](crate::state_cache::StateCache)).

use super::{RunError, RunOptions, Runner, random_writes};
use crate::experiment::Precondition;
use crate::state_cache::{Key, StateCache};
use mynah_drive_file::drive_hash;
use mynah_model::Drive;
use mynah_model::config::Config;
use mynah_model::precondition::{Occupancy, Preconditioned};
use mynah_result::{Settled, TraceWrites};
use mynah_workload::{FlowSpec, Limits, Source, TraceSource, When};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader};
use twox_hash::XxHash3_128;

/// Mapping units of a drive that is filled or computed in no time: it is not worth a file.
const SMALL: u64 = 1 << 20;

/// Where a drive that is made ready is kept.
pub(super) struct Place {
    states: StateCache,
    key: Key,
    of: String,
}

/// What there is beside the drive.
#[derive(Serialize, Deserialize)]
struct Beside {
    preconditioned: Option<Preconditioned>,
    occupancy: Vec<Occupancy>,
    scattered: bool,
    trace_writes: Vec<TraceWrites>,
    settled: Option<Settled>,
    readied: bool,
    warms_cache: bool,
    warmed: u64,
    notes: Vec<String>,
}

/// A drive that was made ready for such a run.
pub(super) struct Kept {
    drive: Drive,
    beside: Beside,
}

impl Place {
    /// The place of the drive that is made ready for these flows; `None` if there is none, or what it
    /// becomes is not known from what is said here.
    pub(super) fn of(config: &Config, flows: &[FlowSpec], options: &RunOptions) -> Option<Place> {
        let states = options.states.as_ref()?;
        let known = flows.iter().all(|flow| match &flow.source {
            Source::Synthetic(_) => true,
            Source::Trace(trace) => !trace.is_pipe(),
            Source::KeyValue(_) => false,
        });
        if options.precondition == Precondition::None || options.load_state.is_some() || !known {
            return None;
        }
        let mut traces = String::new();
        for flow in flows {
            if let Source::Trace(trace) = &flow.source {
                let _ = write!(traces, "{:?} ", contents(trace).ok()?);
            }
        }
        // How long the run itself lasts changes nothing of what is before it.
        let endless = |flow: &FlowSpec| match flow.source {
            Source::Trace(_) => flow.clone(),
            _ => FlowSpec { limits: Limits::default(), ..flow.clone() },
        };
        let flows: Vec<FlowSpec> = flows.iter().map(endless).collect();
        let RunOptions { seed, precondition, settle, only, .. } = options;
        let key = Key::of(format_args!(
            "run {config:?} {flows:?} {traces} {seed} {precondition:?} {settle:?} {only:?}"
        ));
        let names: Vec<&str> = flows.iter().map(|flow| &*flow.name).collect();
        let of = format!(
            "drive {}, {}, seed {seed}, flows {}",
            drive_hash(config),
            precondition.name(),
            names.join(", ")
        );
        Some(Place { states: states.clone(), key, of })
    }

    pub(super) fn find(&self, config: &Config) -> Option<Kept> {
        let (beside, drive) = self.states.get(&self.key, config)?;
        Some(Kept { drive, beside })
    }
}

/// A hash of all that a trace's file has. What is no ordinary file may be another at each reading.
fn contents(trace: &TraceSource) -> io::Result<u128> {
    let file = File::open(&trace.path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut hash = XxHash3_128::new();
    let mut from = BufReader::with_capacity(1 << 16, file);
    loop {
        let bytes = io::BufRead::fill_buf(&mut from)?;
        let count = bytes.len();
        if count == 0 {
            return Ok(hash.finish_128());
        }
        hash.write(bytes);
        io::BufRead::consume(&mut from, count);
    }
}

impl Kept {
    /// The run that begins with it.
    pub(super) fn into_runner(
        self,
        flows: &[FlowSpec],
        options: &RunOptions,
    ) -> Result<Runner, RunError> {
        let Kept { drive, beside } = self;
        let aged_by = (options.precondition == Precondition::SteadyRandom)
            .then(|| random_writes(drive.config(), flows));
        let mut runner = Runner::on(drive, flows, options, When::Run)?;
        runner.preconditioned = beside.preconditioned;
        runner.occupancy = beside.occupancy;
        runner.scattered = beside.scattered;
        runner.trace_writes = beside.trace_writes;
        runner.settled = beside.settled;
        runner.readied = beside.readied;
        runner.warms_cache = beside.warms_cache;
        runner.warmed = beside.warmed;
        runner.notes = beside.notes;
        runner.aged_by = aged_by;
        runner.settle = options.settle;
        runner.is_ready = true;
        if options.precondition.is_steady() {
            runner.expects(None);
        }
        Ok(runner)
    }
}

impl Runner {
    /// Keeps the drive, which is ready, if it took a while to become so and there is a place for it.
    pub(super) fn keep(&mut self) {
        let Some(Place { states, key, of }) = self.keep.take() else { return };
        let config = self.drive.config();
        let units = config.geometry.raw_bytes() / u64::from(config.mapping.unit_bytes);
        if units < SMALL && !self.has_settled() {
            return;
        }
        let beside = Beside {
            preconditioned: self.preconditioned.clone(),
            occupancy: self.occupancy.clone(),
            scattered: self.scattered,
            trace_writes: self.trace_writes.clone(),
            settled: self.settled.clone(),
            readied: self.readied,
            warms_cache: self.warms_cache,
            warmed: self.warmed,
            notes: self.notes.clone(),
        };
        states.put(&key, of, &beside, &self.drive);
    }
}
