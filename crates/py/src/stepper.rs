//! A drive, request by request. One thread at a time may use it; a second is told so.

use crate::drive::Drive;
use crate::failure::{Failure, guarded};
use crate::run::enough_memory;
use crate::table::Table;
use mynah_lab::stepper::{Done, HostQueue, Stepper as Stepping, StepperError};
use mynah_model::config::Priority;
use mynah_model::io::{NamespaceId, Operation};
use mynah_result::kind::status_name;
use mynah_result::rows::RequestBatch;
use mynah_stamp::{Span, Stage, Time};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// The operations, by their numbers in buffers.
const OPERATIONS: [(&str, Operation); 5] = [
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("write_through", Operation::WriteThrough),
    ("trim", Operation::Trim),
    ("flush", Operation::Flush),
];
const PRIORITIES: [(&str, Priority); 4] = [
    ("urgent", Priority::Urgent),
    ("high", Priority::High),
    ("medium", Priority::Medium),
    ("low", Priority::Low),
];
const SECTOR_BYTES: u64 = 512;
/// How far time goes, or how many requests complete, before signals are looked for.
const SLICE: Span = Span::from_ms(10);
const SLICE_ROWS: usize = 1 << 14;

/// A request that has completed.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Completion {
    done: Done,
    /// The flow's name.
    flow: Arc<str>,
}

#[pymethods]
impl Completion {
    #[getter]
    fn tag(&self) -> u32 {
        self.done.request.tag.0
    }
    #[getter]
    fn flow(&self) -> &str {
        &self.flow
    }
    #[getter]
    fn op(&self) -> &'static str {
        let found = OPERATIONS.iter().find(|(_, it)| *it == self.done.request.operation);
        found.map_or("other", |(name, _)| name)
    }
    #[getter]
    fn offset(&self) -> u64 {
        self.done.request.sector * SECTOR_BYTES
    }
    #[getter]
    fn size(&self) -> u64 {
        u64::from(self.done.request.sectors) * SECTOR_BYTES
    }
    #[getter]
    fn status(&self) -> &'static str {
        status_name(self.done.completion.status)
    }
    #[getter]
    fn submitted_ps(&self) -> u64 {
        self.done.asked.as_ps()
    }
    #[getter]
    fn completed_ps(&self) -> u64 {
        self.done.completion.at.as_ps()
    }
    #[getter]
    fn latency_ps(&self) -> u64 {
        self.done.completion.at.since(self.done.asked).as_ps()
    }
    /// The time in each stage that it spent any in.
    #[getter]
    fn stages_ps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let made = PyDict::new(py);
        let before = self.done.completion.rung.saturating_since(self.done.asked);
        let common = self.done.completion.stages.iter().map(|(stage, span)| match stage {
            Stage::HostQueue => (stage, span + before),
            _ => (stage, span),
        });
        let of_link = self.done.link.iter().flat_map(|link| link.iter());
        for (stage, span) in common.chain(of_link).filter(|(_, span)| !span.is_zero()) {
            made.set_item(stage.name(), span.as_ps())?;
        }
        Ok(made)
    }
    fn __repr__(&self) -> String {
        let (op, flow, latency) = (self.op(), &self.flow, self.latency_ps());
        format!("<Completion {} of {flow}: {op}, {}, {latency} ps>", self.tag(), self.status())
    }
}

struct State {
    drive: Stepping,
    /// Of a table that somebody interrupted.
    rows: Option<RequestBatch>,
}

/// A drive and a host that does what it is told.
#[pyclass(frozen, subclass, module = "mynah._native")]
pub(crate) struct Stepper {
    state: Mutex<State>,
    flows: Vec<String>,
    /// The same, for completions to share.
    names: Vec<Arc<str>>,
    has_link: bool,
    /// Bytes that a namespace has.
    capacities: Vec<u64>,
}

impl Stepper {
    fn lock(&self) -> Result<MutexGuard<'_, State>, Failure> {
        self.state.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::usage(
                "this stepper is in use by another thread",
                Some("one thread at a time: a lock of yours, or a stepper for each".to_owned()),
            ),
            TryLockError::Poisoned(_) => {
                Failure::usage("this stepper met a bug before, and cannot go on", None)
            }
        })
    }

    fn queue(&self, flow: Option<&str>) -> Result<usize, Failure> {
        let Some(name) = flow else { return Ok(0) };
        self.flows.iter().position(|flow| flow == name).ok_or_else(|| {
            let help = format!("there are {}", self.flows.join(", "));
            Failure::usage(format!("flow={name:?}: there is no such flow"), Some(help))
        })
    }

    fn shown(&self, done: Done) -> Completion {
        Completion { flow: self.names[done.queue].clone(), done }
    }

    fn empty(&self) -> RequestBatch {
        RequestBatch::new(self.has_link)
    }
}

#[pymethods]
impl Stepper {
    /// A drive with a queue for each of these flows, by name and priority; `state` is `empty`, `steady`
    /// or the bytes of a saved state.
    #[new]
    fn new(
        py: Python<'_>,
        drive: &Drive,
        flows: Vec<(String, String)>,
        state: &str,
        saved: Option<Vec<u8>>,
    ) -> PyResult<Stepper> {
        let file = &drive.file;
        guarded(py, move || {
            let simulation = mynah_lab::Simulation::with(&file.name, file.config.clone());
            enough_memory(&simulation, 1)?;
            let (mut names, mut queues) = (Vec::new(), Vec::new());
            for (index, (name, priority)) in flows.into_iter().enumerate() {
                let found = PRIORITIES.iter().find(|(it, _)| *it == priority);
                let (_, priority) = *found.ok_or_else(|| {
                    let message = format!("priority={priority:?}: there is no such priority");
                    let valid = PRIORITIES.map(|(name, _)| name).join(", ");
                    Failure::usage(message, Some(format!("valid are {valid}")))
                })?;
                if names.contains(&name) {
                    let message = format!("two flows are called `{name}`");
                    return Err(Failure::usage(message, None));
                }
                let flow = u16::try_from(index).unwrap_or(u16::MAX);
                queues.push(HostQueue { flow, priority });
                names.push(name);
            }
            let mut drive = Stepping::with_queues(file.config.clone(), &queues)?;
            if let Some(bytes) = saved {
                drive.restore("state", &bytes).map_err(StepperError::from)?;
            } else if state == "steady" {
                drive.settle().map_err(StepperError::from)?;
            }
            let sectors = (1..).map_while(|id| drive.drive().namespace_sectors(NamespaceId(id)));
            let capacities = sectors.map(|sectors| sectors * SECTOR_BYTES).collect();
            let has_link = file.config.ethernet.is_some();
            let state = Mutex::new(State { drive, rows: None });
            let (flows, names) = (names.clone(), names.into_iter().map(Arc::from).collect());
            Ok::<_, Failure>(Stepper { state, flows, names, has_link, capacities })
        })
    }

    /// The flows' names.
    #[getter]
    fn flows(&self) -> Vec<String> {
        self.flows.clone()
    }

    /// Bytes of a namespace.
    #[pyo3(signature = (namespace = 1))]
    fn capacity(&self, #[pyo3(from_py_with = namespace_of)] namespace: u32) -> PyResult<u64> {
        let index = (namespace as usize).checked_sub(1);
        let found = index.and_then(|index| self.capacities.get(index));
        Ok(*found.ok_or_else(|| no_namespace(namespace, self.capacities.len()))?)
    }

    /// Submits a request now; its tag.
    #[pyo3(signature = (op, offset = 0, size = 4096, flow = None, namespace = 1))]
    fn submit(
        &self,
        op: &str,
        #[pyo3(from_py_with = offset_of)] offset: u64,
        #[pyo3(from_py_with = size_of)] size: u64,
        flow: Option<&str>,
        #[pyo3(from_py_with = namespace_of)] namespace: u32,
    ) -> PyResult<u32> {
        let queue = self.queue(flow)?;
        let operation = named(op)?;
        let (sector, sectors) = sectors(offset, size)?;
        let id = NamespaceId(namespace);
        Ok(self.lock()?.drive.submit_in(queue, id, operation, sector, sectors).0)
    }

    /// Submits requests now, in order: of operations, offsets and sizes, each one value for all or a
    /// buffer. The first tag, and how many.
    #[pyo3(signature = (op, offset, size, flow = None, namespace = 1))]
    fn submit_many(
        &self,
        py: Python<'_>,
        op: Bound<'_, PyAny>,
        offset: Bound<'_, PyAny>,
        size: Bound<'_, PyAny>,
        flow: Option<&str>,
        #[pyo3(from_py_with = namespace_of)] namespace: u32,
    ) -> PyResult<(u32, usize)> {
        let queue = self.queue(flow)?;
        let offsets = numbers(py, "offset", &offset)?;
        let sizes = numbers(py, "size", &size)?;
        let one = match op.extract::<String>() {
            Ok(name) => Some(named(&name)?),
            Err(_) => None,
        };
        let ops = if one.is_some() { Numbers::One(0) } else { numbers(py, "op", &op)? };
        let count = [&offsets, &sizes, &ops].iter().find_map(|it| it.len()).unwrap_or(1);
        for (name, it) in [("offset", &offsets), ("size", &sizes), ("op", &ops)] {
            if let Some(other) = it.len().filter(|len| *len != count) {
                let message = format!("{name}: {other} values where others have {count}");
                return Err(Failure::usage(message, None).into());
            }
        }
        let mut requests = Vec::with_capacity(count);
        for at in 0..count {
            let operation = match one {
                Some(operation) => operation,
                None => numbered(ops.at(at))?,
            };
            requests.push((operation, sectors(offsets.at(at), sizes.at(at))?));
        }
        let mut state = self.lock()?;
        let mut first = None;
        for (operation, (sector, sectors)) in requests {
            let id = NamespaceId(namespace);
            let tag = state.drive.submit_in(queue, id, operation, sector, sectors);
            first.get_or_insert(tag.0);
        }
        Ok((first.unwrap_or(0), count))
    }

    /// Runs to the next completion; `None` when nothing is outstanding.
    fn step(&self) -> PyResult<Option<Completion>> {
        let done = self.lock()?.drive.step_whole();
        Ok(done.map(|done| self.shown(done)))
    }

    /// Runs until so many requests have completed, or nothing is outstanding, and gives them as a
    /// table.
    #[pyo3(signature = (count = None))]
    fn step_many(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = count_of)] count: Option<usize>,
    ) -> PyResult<Table> {
        let count = count.unwrap_or(usize::MAX);
        let mut rows = self.lock()?.rows.take().unwrap_or_else(|| self.empty());
        loop {
            let goal = count.min(rows.len().saturating_add(SLICE_ROWS));
            let (more, whole) = guarded(py, || {
                let mut state = self.lock()?;
                let mut rows = rows;
                while rows.len() < goal {
                    match state.drive.step_whole() {
                        Some(done) => done.push_to(&mut rows),
                        None => break,
                    }
                }
                let whole = rows.len() < goal || goal >= count;
                Ok::<_, Failure>((rows, whole))
            })?;
            if whole {
                return guarded(py, || {
                    Table::of_requests(vec![more.into_columns()], &self.flows, self.has_link)
                });
            }
            rows = more;
            if let Err(signal) = py.check_signals() {
                self.lock()?.rows = Some(rows);
                return Err(signal);
            }
        }
    }

    /// Lets simulated time pass, up to `until_ps`; what completed.
    fn advance(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = until_of)] until_ps: u64,
    ) -> PyResult<Vec<Completion>> {
        let until = Time::from_ps(until_ps);
        loop {
            let reached = guarded(py, || {
                let mut state = self.lock()?;
                let now = state.drive.now();
                // Where nothing happens for long, there is nothing to be looked at.
                let next = state.drive.next_at().unwrap_or(until);
                let slice = next.max(now).as_ps().saturating_add(SLICE.as_ps());
                let slice = until.min(Time::from_ps(slice));
                state.drive.advance(slice);
                Ok::<_, Failure>(slice >= until)
            })?;
            if reached {
                let mut state = self.lock()?;
                let taken = std::iter::from_fn(|| state.drive.take());
                return Ok(taken.map(|done| self.shown(done)).collect());
            }
            py.check_signals()?;
        }
    }

    /// The drive's clock.
    #[getter]
    fn now_ps(&self) -> PyResult<u64> {
        Ok(self.lock()?.drive.now().as_ps())
    }

    /// When something will next happen, if anything will.
    #[getter]
    fn next_event_ps(&self) -> PyResult<Option<u64>> {
        Ok(self.lock()?.drive.next_at().map(Time::as_ps))
    }

    /// Requests submitted and not completed.
    #[getter]
    fn outstanding(&self) -> PyResult<usize> {
        Ok(self.lock()?.drive.outstanding())
    }

    /// What the drive has counted, and what it looks like now.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.lock()?;
        let (counters, gauges) = (state.drive.counters(), state.drive.drive().gauges());
        let made = PyDict::new(py);
        let each: [(&str, u64); 16] = [
            ("commands", counters.commands),
            ("events", counters.events),
            ("host_units_written", counters.host_units_written),
            ("host_bytes_written", counters.host_bytes_written),
            ("flash_units_programmed", counters.flash_units_programmed),
            ("gc_units_moved", counters.gc_units_moved),
            ("flash_reads", counters.flash_reads),
            ("flash_programs", counters.flash_programs),
            ("gc_reads", counters.gc_reads),
            ("gc_programs", counters.gc_programs),
            ("erases", counters.erases),
            ("gc_runs", counters.gc_runs),
            ("free_blocks", gauges.free_blocks),
            ("cached_units", gauges.cached_units.into()),
            ("flash_reads_waiting", gauges.flash_reads_waiting.into()),
            ("flash_writes_waiting", gauges.flash_writes_waiting.into()),
        ];
        for (name, value) in each {
            made.set_item(name, value)?;
        }
        if let Some(slc) = gauges.slc {
            made.set_item("slc_filled_bytes", slc.filled_bytes)?;
            made.set_item("slc_room_bytes", slc.room_bytes)?;
        }
        Ok(made)
    }
}

impl From<StepperError> for Failure {
    fn from(error: StepperError) -> Failure {
        Failure::usage(error.to_string(), None)
    }
}

fn no_namespace(namespace: u32, count: usize) -> Failure {
    Failure::usage(format!("namespace={namespace}: the drive has {count}, from 1"), None)
}

fn named(name: &str) -> Result<Operation, Failure> {
    let found = OPERATIONS.iter().find(|(it, _)| *it == name);
    found.map(|(_, operation)| *operation).ok_or_else(|| {
        let valid = OPERATIONS.map(|(name, _)| name).join(", ");
        let message = format!("op={name:?}: there is no such operation");
        Failure::usage(message, Some(format!("valid are {valid}")))
    })
}

fn numbered(number: u64) -> Result<Operation, Failure> {
    let found = usize::try_from(number).ok().and_then(|number| OPERATIONS.get(number));
    found.map(|(_, operation)| *operation).ok_or_else(|| {
        let message = format!("op: {number} is no operation");
        let valid = OPERATIONS.map(|(name, _)| name).join(", ");
        Failure::usage(message, Some(format!("from 0 they are {valid}")))
    })
}

/// The sectors of a range of bytes.
fn sectors(offset: u64, size: u64) -> Result<(u64, u32), Failure> {
    let whole = |name: &str, bytes: u64| match bytes % SECTOR_BYTES {
        0 => Ok(bytes / SECTOR_BYTES),
        _ => Err(Failure::usage(
            format!("{name}={bytes}: not a multiple of {SECTOR_BYTES} bytes"),
            None,
        )),
    };
    let sectors = u32::try_from(whole("size", size)?).map_err(|_| {
        let most = u64::from(u32::MAX) * SECTOR_BYTES;
        Failure::usage(format!("size={size}: at most {most} bytes"), None)
    })?;
    Ok((whole("offset", offset)?, sectors))
}

/// One number for all, or one for each.
enum Numbers {
    One(u64),
    Each(Vec<u64>),
}

impl Numbers {
    fn len(&self) -> Option<usize> {
        match self {
            Numbers::One(_) => None,
            Numbers::Each(each) => Some(each.len()),
        }
    }

    fn at(&self, index: usize) -> u64 {
        match self {
            Numbers::One(one) => *one,
            Numbers::Each(each) => each[index],
        }
    }
}

/// The argument `name`, a whole number from 0 to `most`.
fn whole(name: &str, given: &Bound<'_, PyAny>, most: u64) -> PyResult<u64> {
    match given.extract::<u64>() {
        Ok(number) if number <= most => Ok(number),
        Err(error) if !is_a_number(&error, given) => {
            let kind = given.get_type().name()?;
            let message = format!("{name}: a whole number from 0 belongs here, not a {kind}");
            Err(Failure::usage(message, None).into())
        }
        _ => Err(beyond(name, most).into()),
    }
}

/// Whether the error says of a whole number that it is too large, or below 0.
fn is_a_number(error: &PyErr, given: &Bound<'_, PyAny>) -> bool {
    error.is_instance_of::<PyOverflowError>(given.py())
}

fn beyond(name: &str, most: u64) -> Failure {
    Failure::usage(format!("{name}: a whole number from 0 to {most} belongs here"), None)
}

fn offset_of(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    whole("offset", given, u64::MAX)
}

fn size_of(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    whole("size", given, u64::MAX)
}

fn until_of(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    whole("until_ps", given, u64::MAX)
}

fn namespace_of(given: &Bound<'_, PyAny>) -> PyResult<u32> {
    Ok(whole("namespace", given, u32::MAX.into())? as u32)
}

fn count_of(given: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if given.is_none() {
        return Ok(None);
    }
    Ok(Some(whole("count", given, usize::MAX as u64)? as usize))
}

/// Whole numbers from 0: one, or a buffer of them.
fn numbers(py: Python<'_>, name: &str, given: &Bound<'_, PyAny>) -> PyResult<Numbers> {
    match given.extract::<u64>() {
        Ok(one) => return Ok(Numbers::One(one)),
        Err(error) if is_a_number(&error, given) => return Err(beyond(name, u64::MAX).into()),
        Err(_) => {}
    }
    macro_rules! buffer {
        ($($kind:ty),+) => {
            $(if let Ok(buffer) = PyBuffer::<$kind>::get(given) {
                let each = buffer.to_vec(py)?.into_iter().map(u64::try_from);
                let each = each.collect::<Result<Vec<_>, _>>().map_err(|_| {
                    Failure::usage(format!("{name}: a number is below 0"), None)
                })?;
                return Ok(Numbers::Each(each));
            })+
        };
    }
    buffer!(u64, i64, u32, i32, u16, u8);
    let wanted = "a whole number from 0, or a buffer of whole numbers (an array, bytes)";
    let kind = given.get_type().name()?;
    Err(Failure::usage(format!("{name}: {wanted} belongs here, not a {kind}"), None).into())
}
