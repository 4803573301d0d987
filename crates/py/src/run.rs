//! Runs, on a thread of their own each: the interpreter is let go of, and the caller's thread looks
//! for signals. When somebody presses Ctrl-C the run ends with what it has measured. While a drive
//! is being prepared there is nothing yet: then the caller is told at once, and the thread ends
//! when its drive is ready.

use crate::failure::{Failure, class_of, guarded};
use crate::machine::Meter;
use crate::policies::Policies;
use crate::simulation::Simulation;
use crate::table::Table;
use mynah_drive_file::units::Duration;
use mynah_lab::SimulationError;
use mynah_lab::runner::RunError;
use mynah_lab::simulation::Step;
use mynah_result::output::PendingFile;
use mynah_result::rows::{KEPT_ROWS, RequestColumns, RowSink};
use mynah_result::series::DEFAULT_INTERVAL;
use mynah_result::timeline::Window;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How often signals are looked for.
pub(crate) const LOOK: std::time::Duration = std::time::Duration::from_millis(20);
/// The stack of a run, as the command has it.
const STACK_BYTES: usize = 8 << 20;

/// What was measured.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Measured {
    measured: mynah_lab::Measured,
    /// Every request, if they were asked for.
    requests: Option<Py<Table>>,
}

impl Measured {
    pub(crate) fn of(measured: mynah_lab::Measured) -> Measured {
        Measured { measured, requests: None }
    }
}

#[pymethods]
impl Measured {
    /// The result, as the command writes it.
    fn json(&self) -> String {
        self.measured.result.to_json()
    }

    /// The report, an HTML document.
    fn html(&self) -> String {
        self.measured.html()
    }

    /// The table of requests, if it was asked for.
    fn requests(&self, py: Python<'_>) -> Option<Py<Table>> {
        self.requests.as_ref().map(|table| table.clone_ref(py))
    }
}

/// Where to a run writes besides.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Outputs {
    request_log: Option<PathBuf>,
    profile: Option<PathBuf>,
    record: Option<PathBuf>,
    pcap: Option<PathBuf>,
    save_state: Option<PathBuf>,
    report: Option<PathBuf>,
    intervals: Option<PathBuf>,
    interval: Option<String>,
    timeline: Option<PathBuf>,
    timeline_window: Option<String>,
}

impl Outputs {
    /// Tells the run; the report, begun before anything runs.
    fn apply(
        &self,
        simulation: &mut mynah_lab::Simulation,
    ) -> Result<Option<PendingFile>, Failure> {
        simulation.request_log = self.request_log.clone();
        simulation.profile = self.profile.clone();
        simulation.record = self.record.clone();
        simulation.pcap = self.pcap.clone();
        simulation.save_state = self.save_state.clone();
        simulation.over_time = self.report.is_some();
        if simulation.pcap.is_some() {
            simulation.ethernet()?;
        }
        let bad = |name: &str, value: &str, problem: String| {
            Failure::usage(format!("{name}={value:?}: {problem}"), None)
        };
        let interval = match &self.interval {
            None => DEFAULT_INTERVAL,
            Some(text) => match text.parse::<Duration>() {
                Ok(Duration(time)) if time.as_ps() >= INTERVAL_MIN_PS => time,
                Ok(_) => return Err(bad("interval", text, "at least 1us".to_owned())),
                Err(error) => return Err(bad("interval", text, error.to_string())),
            },
        };
        simulation.intervals = self.intervals.clone().map(|path| (path, interval));
        let window = match &self.timeline_window {
            None => Window::ALL,
            Some(text) => {
                Window::parse(text).map_err(|problem| bad("timeline_window", text, problem))?
            }
        };
        simulation.timeline = self.timeline.clone().map(|path| (path, window));
        Ok(self.report.as_deref().map(PendingFile::create).transpose()?)
    }
}

/// The shortest interval, in picoseconds: no command is as fast, and every interval is a row for
/// each flow.
const INTERVAL_MIN_PS: u64 = 1_000_000;

/// What a run's thread and its caller share.
#[derive(Default)]
pub(crate) struct Shared {
    /// Tells the run to end.
    pub(crate) end: AtomicBool,
    /// The drive is being prepared, and the run cannot end yet.
    preparing: AtomicBool,
}

pub(crate) type RunOutcome = Result<mynah_lab::Measured, SimulationError>;

/// Runs the simulation on this thread.
fn measure(
    simulation: &mynah_lab::Simulation,
    command: String,
    end: &AtomicBool,
    preparing: &AtomicBool,
    policies: Option<Policies>,
) -> RunOutcome {
    let mut meter = Meter::new(command);
    let mut watch = |step: Step<'_>| {
        meter.step(step);
        preparing.store(matches!(step, Step::Preparing | Step::Alone(_)), Ordering::Relaxed);
        !end.load(Ordering::Relaxed)
    };
    let ended = match policies {
        None => simulation.run_watched(&mut watch),
        Some(policies) => policies.run(simulation, &mut watch),
    };
    let run = meter.finish();
    ended.map(|mut measured| {
        measured.result.run = run;
        measured
    })
}

/// Waits for the end of a run, and looks for signals; `None` if it was told to end while it could
/// not, and the error that the signal's handler raised.
fn wait(
    py: Python<'_>,
    thread: JoinHandle<RunOutcome>,
    ended: Receiver<()>,
    shared: &Shared,
) -> Result<(Option<RunOutcome>, Option<PyErr>), Failure> {
    let mut signal = None;
    // The channel has been let go of when the thread is over, by a panic as well.
    let mut ended = ended;
    loop {
        let (waited, back) = py.detach(move || {
            let waited = ended.recv_timeout(LOOK);
            (waited, ended)
        });
        ended = back;
        if !matches!(waited, Err(RecvTimeoutError::Timeout)) {
            break;
        }
        if signal.is_none()
            && let Err(error) = py.check_signals()
        {
            signal = Some(error);
            shared.end.store(true, Ordering::Relaxed);
        }
        if signal.is_some() && shared.preparing.load(Ordering::Relaxed) {
            return Ok((None, signal));
        }
    }
    match py.detach(|| thread.join()) {
        Ok(ended) => Ok((Some(ended), signal)),
        Err(panic) => Err(Failure::bug(&*panic)),
    }
}

/// Runs on this thread, without the interpreter; `None` if it was told to end before its time.
pub(crate) fn here(
    py: Python<'_>,
    simulation: &mynah_lab::Simulation,
    command: String,
    end: &AtomicBool,
) -> PyResult<Option<Measured>> {
    if end.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let ended =
        guarded(py, || match measure(simulation, command, end, &AtomicBool::new(true), None) {
            Err(SimulationError::Run(RunError::Interrupted)) => Ok(None),
            ended => ended.map(Some),
        })?;
    Ok(ended.filter(|measured| !measured.interrupted).map(Measured::of))
}

/// Starts a run on a thread of its own; the channel has been let go of when it is over.
pub(crate) fn spawn(
    simulation: mynah_lab::Simulation,
    command: String,
    shared: Arc<Shared>,
    policies: Option<Policies>,
) -> Result<(JoinHandle<RunOutcome>, Receiver<()>), Failure> {
    shared.preparing.store(true, Ordering::Relaxed);
    let (alive, ended) = channel::<()>();
    let work = move || {
        let _alive = alive;
        measure(&simulation, command, &shared.end, &shared.preparing, policies)
    };
    let thread = std::thread::Builder::new().name("mynah-run".to_owned());
    let thread = thread.stack_size(STACK_BYTES).spawn(work).map_err(|error| {
        Failure::usage(format!("the system starts no thread for the run: {error}"), None)
    })?;
    Ok((thread, ended))
}

/// Runs a simulation. `command` is what the result says of who asked for it; `requests` whether every
/// one is wanted; `policies` what decides in the drive's stead.
#[pyfunction]
#[pyo3(signature = (simulation, command, outputs, requests, policies=None))]
pub(crate) fn run(
    py: Python<'_>,
    simulation: &Simulation,
    command: String,
    outputs: Outputs,
    requests: bool,
    policies: Option<Policies>,
) -> PyResult<Measured> {
    let mut simulation = simulation.simulation.clone();
    let report = outputs.apply(&mut simulation)?;
    enough_memory(&simulation, 1)?;
    let rows: Arc<Mutex<Vec<RequestColumns>>> = Arc::default();
    if requests {
        let rows = rows.clone();
        let take = Arc::new(move |batch| {
            rows.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
            true
        });
        simulation.rows = Some(RowSink { rows: KEPT_ROWS, take });
    }
    let flows: Vec<String> = simulation.flows.iter().map(|flow| flow.name.clone()).collect();
    let has_link = simulation.config.ethernet.is_some();
    let shared = Arc::new(Shared::default());
    let (thread, ended) = spawn(simulation, command, shared.clone(), policies)?;
    let (ended, signal) = wait(py, thread, ended, &shared)?;
    let mut unsaved = None;
    let measured = match ended {
        Some(Err(SimulationError::Unsaved { measured, reason })) => {
            unsaved = Some(SimulationError::from(reason));
            Some(*measured)
        }
        Some(Err(error)) if signal.is_none() => return Err(Failure::from(error).into()),
        Some(Err(_)) | None => None,
        Some(Ok(measured)) => Some(measured),
    };
    if let (Some(file), Some(measured)) = (report, &measured) {
        file.finish(&measured.html()).map_err(Failure::from)?;
    }
    let mut measured = measured.map(Measured::of);
    if let Some(measured) = &mut measured
        && requests
    {
        let rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
        let table = guarded(py, || Table::of_requests(rows, &flows, has_link))?;
        measured.requests = Some(Py::new(py, table)?);
    }
    if let Some(signal) = signal {
        return Err(interrupted(py, signal, measured));
    }
    if let Some(error) = unsaved {
        let error = PyErr::from(Failure::from(error));
        // All of the run was measured.
        error.value(py).setattr("_measured", measured)?;
        return Err(error);
    }
    measured.ok_or_else(|| Failure::usage("the run did not begin", None).into())
}

/// What Ctrl-C raises; what another handler of signals raised stays what it is.
pub(crate) fn interrupted(py: Python<'_>, signal: PyErr, measured: Option<Measured>) -> PyErr {
    if !signal.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
        return signal;
    }
    let made = class_of(py, "Interrupted").and_then(|class| class.call1((measured,)));
    let error = made.map_or_else(|error| error, PyErr::from_value);
    error.set_cause(py, Some(signal));
    error
}

/// Refuses a drive that this machine cannot hold so often, before the system ends the interpreter.
pub(crate) fn enough_memory(
    simulation: &mynah_lab::Simulation,
    at_once: u64,
) -> Result<(), Failure> {
    const MIB: u64 = 1 << 20;
    let needed = simulation.memory_bytes().saturating_mul(at_once);
    match mynah_memory::available_bytes() {
        Some(available) if needed > available => Err(Failure::unfit(
            format!(
                "the drive `{}` needs {} MiB of memory{}, and {} MiB are available",
                simulation.name,
                needed / MIB,
                if at_once > 1 { format!(" for {at_once} runs at a time") } else { String::new() },
                available / MIB
            ),
            Some(
                "a larger mapping.unit or fewer blocks (geometry.blocks_per_plane) need less"
                    .to_owned(),
            ),
        )),
        _ => Ok(()),
    }
}
