//! Recorded runs, repeated: on the drive they were made with, where everything must come
//! out the same to the picosecond, or on another, to see what it would have made of them.

use crate::experiment::{Experiment, Precondition, Start};
use crate::recording::{
    Header, KeyDone, OccupancyRange, PairsSeen, Recording, RecordingError, Replayed,
};
use crate::runner::{Progress, RunError, RunOptions, Runner, power_note, slc_start};
use crate::saved_state::{self, SavedStateError};
use crate::simulation::{Measured, SimulationError, Step, log_error};
use mynah_drive_file as drive;
use mynah_model::Drive;
use mynah_model::config::Config;
use mynah_model::io::{Completion, NamespaceId, Operation, PlacementId, Request};
use mynah_model::precondition::{Occupancy, Order, Preconditioned, UpdateClass};
use mynah_report::html::ReportCurves;
use mynah_result::output::PendingFile;
use mynah_result::precision::Search;
use mynah_result::request_log::{RequestLog, RequestLogError};
use mynah_result::{
    KeyValueCounts, Result as RunResult, Run, Settled, Settling, Steadiness,
    assembly::{KeyValueParts, Parts},
};
use mynah_result::{
    kind::Kind,
    recorder::{Completed, Recorder},
};
use mynah_stamp::Time;
use mynah_workload::trace::Remap;
use std::path::Path;

/// Completions between two looks at the watcher.
const WATCH_EVERY: u64 = 1 << 14;

/// Repeats a recorded run and compares every completion with the recording. `drive` is
/// checked against the recorded one if it is given; `overrides` and `faults` change the
/// recorded drive otherwise, which then no longer fits. `state` is the saved state that the
/// recording begins in, if it begins in one.
///
/// # Errors
/// If the recording does not fit the drive or its state, or at the first difference.
pub fn replay(
    path: &Path,
    drive: Option<&str>,
    overrides: &[String],
    faults: &[String],
    state: Option<&Path>,
    request_log: Option<&Path>,
    watch: &mut dyn FnMut(Step<'_>) -> bool,
) -> Result<Measured, SimulationError> {
    let mut recording = Recording::open(path)?;
    let header = recording.header().clone();
    check_start(path, &header, state)?;
    let mut file = match drive {
        Some(name) => drive::load(name, overrides)?,
        None => drive::parse(&path.display().to_string(), &header.drive_text, overrides)?,
    };
    for spec in faults {
        file.inject(spec)?;
    }
    if file.hash != header.drive_hash {
        let (recorded, here) = (header.drive_hash.clone(), file.hash.clone());
        let text = Some(&*header.drive_text);
        let differences = drive::differences(text, &recorded, &file.config).into();
        let drive = header.drive;
        return Err(RecordingError::OtherDrive { drive, recorded, here, differences }.into());
    }
    // The hash leaves out the seed, which the recorded drive has.
    let config = drive::parse("the recording", &header.drive_text, &[])?.config;
    watch(Step::Preparing);
    let (mut device, prepared) = match &header.settling {
        Some(text) => {
            recording.lay_pairs(None)?;
            settle(config, path, text, watch)?
        }
        None => {
            let mut device = Drive::new(config).map_err(RunError::Drive)?;
            match state {
                Some(state) => {
                    saved_state::load(&mut device, state).map_err(RunError::from)?;
                    recording.lay_pairs(None)?;
                }
                None => recording.lay_pairs(Some(&mut device))?,
            }
            let found = precondition(&mut device, path, &header, occupied(&header.occupancy))?;
            recording.warm(&mut device)?;
            (device, (found, None))
        }
    };
    device.report_moves(header.report_moves);
    let here = format!("{:016x}", device.state_hash());
    if here != header.state_hash {
        let recorded = header.state_hash.clone();
        return Err(RecordingError::OtherState { recorded, here }.into());
    }
    let mut listener = Listener::new(&header, request_log, device.config().ethernet.is_some())?;
    listener.search(&device, prepared.0.as_ref());
    watch(Step::Started);
    recording.replay(&mut device, |device, event| listener.handle(device, &event, watch))?;
    let pairs = recording.pairs_seen(&device);
    listener.finish((&header.drive, &device), prepared, pairs, watch)
}

/// Checks that `state` is the saved state that a recording begins in, if it begins in one.
fn check_start(path: &Path, header: &Header, state: Option<&Path>) -> Result<(), SimulationError> {
    let other = |state: &Path, help| RecordingError::OtherStart {
        path: path.into(),
        state: state.into(),
        help,
    };
    match (&header.saved_state, state) {
        (None, None) => Ok(()),
        (Some(_), None) => Err(RecordingError::NeedsState { path: path.into() }.into()),
        (None, Some(state)) => {
            Err(other(state, "this recording begins in no saved state: leave out --load-state")
                .into())
        }
        (Some(name), Some(state)) => {
            let io = |error| SavedStateError::Io { path: state.into(), error };
            let here = saved_state::checksum(state).map_err(|error| RunError::from(io(error)))?;
            if saved_state::name(&here) != *name {
                return Err(other(state, "give the one that the recorded run began in").into());
            }
            Ok(())
        }
    }
}

/// Gives a recorded run's commands, at their recorded times, to another drive: `drive`, or
/// the recorded one, changed by `overrides` and `faults`. Commands come as they did, however
/// long this drive takes for the ones before. `remap` says what becomes of requests beyond its
/// end; those that are folded into it are counted in a note.
///
/// # Errors
/// If the recording is damaged, or its commands do not fit the drive.
pub fn resimulate(
    path: &Path,
    drive: Option<&str>,
    overrides: &[String],
    faults: &[String],
    remap: Remap,
    watch: &mut dyn FnMut(Step<'_>) -> bool,
) -> Result<Measured, SimulationError> {
    let mut recording = Recording::open(path)?;
    let header = recording.header().clone();
    check_start(path, &header, None)?;
    let mut file = match drive {
        Some(name) => drive::load(name, overrides)?,
        None => drive::parse(&path.display().to_string(), &header.drive_text, overrides)?,
    };
    for spec in faults {
        file.inject(spec)?;
    }
    let recorded = drive::parse("the recording", &header.drive_text, &[])?.config;
    file.config.seed = recorded.seed;
    watch(Step::Preparing);
    let settled = header.settling.as_ref();
    let settled = settled.map(|text| settle(file.config.clone(), path, text, watch));
    let mut notes = vec![];
    let (mut device, prepared) = match settled {
        Some(Err(SimulationError::Run(RunError::Workload(why)))) => {
            notes.push(format!("this drive has not settled as the recorded one has: {why}"));
            begin_other(file.config, path, &header, &recorded, &mut recording)?
        }
        Some(settled) => {
            recording.lay_pairs(None)?;
            settled?
        }
        None => begin_other(file.config, path, &header, &recorded, &mut recording)?,
    };
    let ours = Header { drive_hash: file.hash, ..header };
    let mut listener = Listener::new(&ours, None, false)?;
    listener.header.notes.append(&mut notes);
    watch(Step::Started);
    let handle = |device: &mut Drive, event: Replayed<'_>| listener.handle(device, &event, watch);
    let remapped = recording.resimulate(&mut device, remap, handle)?;
    if remapped > 0 {
        listener.header.notes.push(format!(
            "{remapped} requests of the recording lie beyond the end of this drive and were folded \
             into it"
        ));
    }
    let pairs = recording.pairs_seen(&device);
    listener.finish((&file.name, &device), prepared, pairs, watch)
}

fn precondition(
    device: &mut Drive,
    path: &Path,
    header: &Header,
    occupancy: Vec<Occupancy>,
) -> Result<Option<Preconditioned>, SimulationError> {
    let damaged = |problem: String| RecordingError::Format { path: path.into(), problem };
    let start: Start = header.precondition.parse().map_err(damaged)?;
    let preconditioned = match start.precondition {
        Precondition::None => None,
        Precondition::Fill => Some(device.fill(&occupancy)),
        Precondition::Steady | Precondition::SteadyRandom => Some(device.precondition(&occupancy)),
    };
    let preconditioned = preconditioned.transpose().map_err(RunError::Precondition)?;
    // A run's own writes fill it, and then it has a file of its flows (`settle`).
    if let Some(slc) = start.slc.filter(|_| device.config().slc.is_some()) {
        slc_start::prepare_unknown(device, slc)?;
    }
    Ok(preconditioned)
}

/// What preconditioning found, and how the drive settled then.
type Prepared = (Option<Preconditioned>, Option<Settled>);

/// The drive `config` as it settles under the flows of the experiment file `text`, from the state
/// that this says.
fn settle(
    mut config: Config,
    path: &Path,
    text: &str,
    watch: &mut dyn FnMut(Step<'_>) -> bool,
) -> Result<(Drive, Prepared), SimulationError> {
    let experiment = Experiment::parse(&path.display().to_string(), text)?;
    let flows = experiment.place(&mut config);
    let start = experiment.precondition.unwrap_or_default();
    let options = RunOptions {
        seed: experiment.seed.unwrap_or_default(),
        precondition: start.precondition,
        slc_start: start.slc,
        settle: experiment.settle.unwrap_or_default(),
        ..RunOptions::default()
    };
    let runner = Runner::new(config, &flows, &options)?;
    let runner = runner.settled(|before| watch(before.into()))?;
    Ok(runner.into_prepared())
}

/// Another drive than the `recorded` one, prepared as that was, as far as its units allow.
fn begin_other(
    config: Config,
    path: &Path,
    header: &Header,
    recorded: &Config,
    recording: &mut Recording,
) -> Result<(Drive, Prepared), SimulationError> {
    let mut device = Drive::new(config).map_err(RunError::Drive)?;
    recording.lay_pairs(Some(&mut device))?;
    let occupancy = converted(
        occupied(&header.occupancy),
        u64::from(recorded.mapping.unit_bytes),
        u64::from(device.config().mapping.unit_bytes),
        &device,
    );
    let found = precondition(&mut device, path, header, occupancy)?;
    recording.warm(&mut device)?;
    Ok((device, (found, None)))
}

/// Records the events of a replay, as a runner records those of a run.
struct Listener {
    header: Header,
    recorder: Recorder,
    log: Option<(RequestLog, PendingFile)>,
    log_failed: Option<RequestLogError>,
    ramp_until: Option<Time>,
    search: Option<Search>,
    issued: u64,
    completed: u64,
    interrupted: bool,
}

impl Listener {
    fn new(
        header: &Header,
        request_log: Option<&Path>,
        has_link: bool,
    ) -> Result<Listener, SimulationError> {
        let log = match request_log {
            Some(path) => {
                let file = PendingFile::create(path)?;
                let log = RequestLog::create(&file, &header.flows, has_link).map_err(log_error)?;
                Some((log, file))
            }
            None => None,
        };
        Ok(Listener {
            recorder: Recorder::new(header.flows.clone()),
            log,
            log_failed: None,
            search: None,
            ramp_until: (header.ramp_ps > 0).then(|| Time::from_ps(header.ramp_ps)),
            issued: 0,
            completed: 0,
            interrupted: false,
            header: header.clone(),
        })
    }

    /// Starts the search for precise figures again that the recorded run made, if it made one.
    fn search(&mut self, device: &Drive, prepared: Option<&Preconditioned>) {
        let Some(plan) = &self.header.precision else { return };
        let expected = expected_waf(&self.header, prepared);
        let mut search = Search::new(plan.clone(), self.header.flows.clone(), expected);
        if self.ramp_until.is_none() {
            search.begin(&self.recorder, device);
        }
        self.search = Some(search);
    }

    /// Handles an event of the replay; false if the replay is to stop.
    fn handle(
        &mut self,
        device: &mut Drive,
        event: &Replayed<'_>,
        watch: &mut dyn FnMut(Step<'_>) -> bool,
    ) -> bool {
        match *event {
            Replayed::Flow(flow) => {
                for number in self.recorder.flow_names().len()..=usize::from(flow.0) {
                    let name = format!("host {}", number + 1);
                    if let Some((log, _)) = &mut self.log {
                        log.add_flow(&name);
                    }
                    self.recorder.add_flow(name);
                }
                true
            }
            Replayed::Issued(at) => {
                self.recorder.issued(at);
                self.issued += 1;
                true
            }
            Replayed::RampEnds(at) => {
                self.end_ramp(device, at);
                true
            }
            Replayed::RampOf(flow, at) => {
                if usize::from(flow.0) < self.recorder.flow_names().len() {
                    self.recorder.forget(flow.0.into(), at);
                }
                true
            }
            Replayed::BatchEnds => {
                if let Some(search) = &mut self.search {
                    search.look(&self.recorder, device);
                }
                true
            }
            Replayed::Offered(flow, until) => {
                // A flow that the recording knows nothing else of has nothing to be measured.
                if usize::from(flow.0) < self.recorder.flow_names().len() {
                    self.recorder.offered_until(flow.0.into(), until);
                }
                true
            }
            Replayed::Completed { completion, link, request, created, flow } => {
                self.completes(device, completion);
                // What a place in a queue stands for is recorded by itself.
                let request = request.filter(|it| it.operation != Operation::Other);
                if let (Some(request), Some(flow)) = (request, flow) {
                    let (flow, bytes) = (usize::from(flow.0), request.sectors * 512);
                    self.recorder.record(flow, request.operation, bytes, created, completion);
                    let what = (flow, request.operation.into(), bytes);
                    self.explain_if_slow(device, what, created, (completion, link));
                    if let Some(link) = link {
                        let operation = request.operation;
                        self.recorder.record_link(flow, operation, created, completion, link);
                    }
                    if let Some((log, _)) = &mut self.log
                        && let Err(error) = log.record(flow, &request, created, (completion, link))
                    {
                        self.log_failed = Some(error);
                        return false;
                    }
                }
                self.goes_on(completion.at, watch)
            }
            Replayed::CompletedKey { completion, done, created, flow } => {
                self.completes(device, completion);
                if let Some(flow) = flow {
                    let KeyDone { kind, bytes, request } = done;
                    let flow = usize::from(flow.0);
                    self.recorder.record(flow, kind, bytes, created, completion);
                    self.explain_if_slow(device, (flow, kind, bytes), created, (completion, None));
                    // The key's number is not known: its token stands for it.
                    let shown = Request {
                        placement: Default::default(),
                        tag: request.tag,
                        operation: Operation::Other,
                        namespace: request.namespace,
                        sector: request.token,
                        sectors: request.bytes,
                    };
                    if let Some((log, _)) = &mut self.log
                        && let Err(error) = log.record_key(flow, kind, &shown, created, completion)
                    {
                        self.log_failed = Some(error);
                        return false;
                    }
                }
                self.goes_on(completion.at, watch)
            }
        }
    }

    /// Records what a completed command has waited for, if it is one of the slowest.
    fn explain_if_slow(
        &mut self,
        device: &mut Drive,
        what: (usize, Kind, u32),
        created: Time,
        completed: Completed<'_>,
    ) {
        if self.recorder.is_slow(created, completed.0) {
            let waits = device.long_waits();
            let least = self.recorder.record_slow(what, created, completed, waits);
            device.keep_long_waits(least);
        }
    }

    /// Handles what is common to completions of all kinds.
    fn completes(&mut self, device: &mut Drive, completion: &Completion) {
        // Recordings of earlier versions do not say when.
        if self.ramp_until.is_some_and(|until| completion.at >= until) {
            self.end_ramp(device, completion.at);
        }
        self.completed += 1;
    }

    /// Calls the watcher every [`WATCH_EVERY`] completions; false if the replay is to stop.
    fn goes_on(&mut self, now: Time, watch: &mut dyn FnMut(Step<'_>) -> bool) -> bool {
        let completed = self.completed;
        let progress = Progress { done: 0.0, now, completed };
        if completed.is_multiple_of(WATCH_EVERY) && !watch(Step::Running(progress)) {
            self.interrupted = true;
            return false;
        }
        true
    }

    fn end_ramp(&mut self, device: &mut Drive, at: Time) {
        self.ramp_until = None;
        self.recorder.reset_at(at);
        device.restart_counters();
        if let Some(search) = &mut self.search {
            search.begin(&self.recorder, device);
        }
    }

    fn finish(
        mut self,
        (name, device): (&str, &Drive),
        (preconditioned, settled): Prepared,
        pairs: Option<PairsSeen>,
        watch: &mut dyn FnMut(Step<'_>) -> bool,
    ) -> Result<Measured, SimulationError> {
        if let Some(error) = self.log_failed {
            return Err(log_error(error));
        }
        if let Some((log, file)) = self.log {
            log.finish().map_err(log_error)?;
            file.keep()?;
        }
        watch(Step::Finished);
        self.recorder.lasted_until(device.now());
        let mut result = RunResult::new(Parts {
            drive: name,
            drive_hash: &self.header.drive_hash,
            seed: self.header.seed,
            recorder: &self.recorder,
            counters_before: &Default::default(),
            counters: &device.counters(),
            blame_before: &[],
            blame: &device.blame(),
            alone: None,
            run: Run::default(),
        });
        if let (Some(pairs), Some(found)) = (pairs, &mut result.device) {
            let config = device.config();
            found.key_value = Some(KeyValueCounts::new(KeyValueParts {
                counts: pairs.counts,
                live_bytes: pairs.live_bytes,
                misses: pairs.misses,
                unit_bytes: config.mapping.unit_bytes,
                managers: config.key_value.as_ref().map_or(1, |kv| kv.managers),
                counters: [&Default::default(), &device.counters()],
                recorder: &self.recorder,
            }));
        }
        let expected = expected_waf(&self.header, preconditioned.as_ref());
        let counted = [&Default::default(), &device.counters()];
        let turnover = device.turnover();
        result.set_steadiness(Steadiness::of(device, &turnover, counted, expected));
        result.settled = settled.map(Settling::from);
        result.precision = self.search.map(Search::finish);
        result.notes.extend(self.header.notes);
        if device.has_lost_power() {
            result.notes.push(power_note(device, self.issued - self.completed));
        }
        if self.interrupted {
            result.note_interruption();
        }
        Ok(Measured {
            result,
            asked: Vec::new(),
            curves: ReportCurves::new(&self.recorder),
            preconditioned,
            interrupted: self.interrupted,
            end: device.now(),
        })
    }
}

/// The write amplification that was computed for the recorded run's own writes; `None` after a
/// preconditioning with random writes, which is of other writes.
fn expected_waf(header: &Header, prepared: Option<&Preconditioned>) -> Option<f64> {
    let own = !header.precondition.starts_with(Precondition::SteadyRandom.name());
    prepared.filter(|_| own).and_then(|found| found.expected_waf)
}

fn occupied(ranges: &[OccupancyRange]) -> Vec<Occupancy> {
    let mut all: Vec<Occupancy> = Vec::new();
    for range in ranges {
        let class = UpdateClass {
            first: range.first,
            units: range.units,
            weight: range.weight,
            order: Order { in_order: range.in_order, passed_over: range.passed_over },
            write_share: range.write_share,
            saturated: range.saturated,
            units_per_s: range.units_per_s,
            together: range.together,
            trims_per_write: range.trims_per_write,
            placement: PlacementId(range.placement),
        };
        let namespace = NamespaceId(range.namespace);
        match all.iter_mut().find(|occupancy| occupancy.namespace == namespace) {
            Some(occupancy) => occupancy.classes.push(class),
            None => all.push(Occupancy { namespace, classes: vec![class] }),
        }
    }
    all
}

/// The same ranges, counted in units of another size and cut off at the end of `device`.
fn converted(all: Vec<Occupancy>, unit: u64, here: u64, device: &Drive) -> Vec<Occupancy> {
    let each = |Occupancy { namespace, classes }: Occupancy| {
        let capacity = device.namespace_sectors(namespace).unwrap_or(0) * 512 / here;
        let class = |class: UpdateClass| {
            let first = class.first * unit / here;
            let end = ((class.first + class.units) * unit).div_ceil(here).min(capacity);
            // Each place is rewritten as often as it was.
            let units_per_s = class.units_per_s * (end - first) as f64 / class.units.max(1) as f64;
            (end > first).then(|| UpdateClass { first, units: end - first, units_per_s, ..class })
        };
        Occupancy { namespace, classes: classes.into_iter().filter_map(class).collect() }
    };
    all.into_iter().map(each).filter(|occupancy| !occupancy.classes.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_as_much_on_another_drive() {
        // Of the mqsim drive, whose units have 8 KiB.
        let device = Drive::new(mynah_drive_file::load("mqsim", &[]).unwrap().config).unwrap();
        let units = device.namespace_sectors(NamespaceId(1)).unwrap() / 16;
        let class = |first, units, units_per_s| UpdateClass {
            placement: Default::default(),
            first,
            units,
            weight: 1.0,
            order: Order::UNIFORM,
            write_share: 1.0,
            saturated: false,
            units_per_s,
            together: 1,
            trims_per_write: 0.0,
        };
        let there = |class| {
            let all = vec![Occupancy { namespace: NamespaceId(1), classes: vec![class] }];
            converted(all, 4096, 8192, &device).remove(0).classes.remove(0)
        };
        assert_eq!(there(class(100, 1000, 30.0)), class(50, 500, 15.0));
        // Half of this one lies beyond the end.
        let cut = there(class(0, units * 4, 80.0));
        assert_eq!(cut, class(0, units, 20.0));
    }
}
