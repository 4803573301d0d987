//! What of a run that is ready to begin is kept for the next that begins with the same
//! ([`StateCache`](crate::state_cache::StateCache)).

use super::shared::Computed;
use super::{RunError, RunOptions, Runner, random_writes};
use crate::experiment::Precondition;
use crate::flow_text::flow_text;
use crate::state_cache::{Key, StateCache};
use mynah_drive_file::drive_hash;
use mynah_model::config::Config;
use mynah_model::precondition::{Occupancy, Preconditioned};
use mynah_model::{Drive, Policies};
use mynah_result::{Settled, TraceWrites};
use mynah_workload::{Feed, FlowSpec, Limits, Source, TraceSource, When};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader};
use twox_hash::XxHash3_128;

/// Mapping units of a drive that is filled or computed in no time: it is not worth a file.
const SMALL: u64 = 1 << 20;

/// Where something is kept, and what is said of it there.
pub(super) struct ToKeep {
    pub(super) states: StateCache,
    pub(super) key: Key,
    pub(super) of: String,
}

/// Where a drive that is made ready is kept.
pub(super) struct Place(ToKeep);

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
            // Traces of caches are not looked into.
            Source::Front(front) => matches!(front.feed, Feed::Drawn(_)),
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
        let RunOptions { seed, settle, only, .. } = options;
        let start = options.start();
        let key = Key::of(format_args!(
            "run {config:?} {flows:?} {traces} {seed} {start} {settle:?} {only:?}"
        ));
        let said = |flow: &FlowSpec| format!("{} ({})", flow.name, flow_text(flow));
        let said: Vec<String> = flows.iter().map(said).collect();
        let of =
            format!("drive {}, {}, seed {seed}, {}", drive_hash(config), start, said.join(", "));
        Some(Place(ToKeep { states: states.clone(), key, of }))
    }

    pub(super) fn find(&self, config: &Config) -> Option<Kept> {
        let (beside, drive) = self.0.states.get(&self.0.key, config)?;
        Some(Kept { drive, beside })
    }
}

fn is_small(config: &Config) -> bool {
    config.geometry.raw_bytes() / u64::from(config.mapping.unit_bytes) < SMALL
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

impl<P: Policies> Runner<P> {
    /// Keeps what preconditioning has computed, if nothing has happened to the drive since: that serves
    /// other drives and other loads as well.
    pub(super) fn keep_computed(&mut self) {
        let computed = std::mem::take(&mut self.computed);
        if matches!(computed, Computed::ForItself) || self.has_settled() || self.warmed > 0 {
            return;
        }
        let (Some(state), Some(found)) = (self.drive.prepared(), &self.preconditioned) else {
            return;
        };
        self.keep = None;
        if let Computed::New(ToKeep { states, key, of }) = computed
            && !is_small(self.drive.config())
        {
            states.put(&key, of, found, &state);
        }
    }

    /// Keeps the drive, which is ready, if it took a while to become so and there is a place for it.
    pub(super) fn keep(&mut self) {
        let Some(Place(ToKeep { states, key, of })) = self.keep.take() else { return };
        if is_small(self.drive.config()) && !self.has_settled() {
            return;
        }
        let Some(snapshot) = self.drive.snapshot() else { return };
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
        states.put(&key, of, &beside, &snapshot);
    }
}
