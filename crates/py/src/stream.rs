//! Requests of a run as they complete, in batches: the run waits when nobody takes them.

use crate::failure::{Failure, guarded};
use crate::run::{LOOK, Measured, RunOutcome, Shared, enough_memory, interrupted, spawn};
use crate::simulation::Simulation;
use crate::table::Table;
use mynah_result::rows::{BATCH_ROWS, RequestColumns, RowSink};
use pyo3::prelude::*;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// Batches that the run may be ahead of its reader.
const AHEAD: usize = 4;

struct Running {
    batches: Receiver<RequestColumns>,
    thread: JoinHandle<RunOutcome>,
}

/// A run under way, and its requests.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Stream {
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
    flows: Vec<String>,
    has_link: bool,
}

#[pymethods]
impl Stream {
    /// Starts the run.
    #[new]
    fn new(simulation: &Simulation, command: String) -> PyResult<Stream> {
        let mut simulation = simulation.simulation.clone();
        enough_memory(&simulation, 1)?;
        let (sender, batches) = sync_channel(AHEAD - 1);
        let sender = Mutex::new(sender);
        let take = Arc::new(move |batch| {
            // It waits for room without anything else that is locked.
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
            sender.send(batch).is_ok()
        });
        simulation.rows = Some(RowSink { rows: BATCH_ROWS, take });
        let flows = simulation.flows.iter().map(|flow| flow.name.clone()).collect();
        let has_link = simulation.config.ethernet.is_some();
        let shared = Arc::new(Shared::default());
        let (thread, _) = spawn(simulation, command, shared.clone(), None)?;
        let running = Mutex::new(Some(Running { batches, thread }));
        Ok(Stream { shared, running, flows, has_link })
    }

    /// The next batch, or what was measured, when the run has ended; neither when that was said.
    fn next(&self, py: Python<'_>) -> PyResult<(Option<Table>, Option<Measured>)> {
        loop {
            let waited = guarded(py, || {
                let mut running = self.running.try_lock().map_err(|error| match error {
                    TryLockError::WouldBlock => {
                        Failure::usage("this stream is in use by another thread", None)
                    }
                    TryLockError::Poisoned(_) => Failure::usage("this stream met a bug", None),
                })?;
                let Some(Running { batches, .. }) = &*running else { return Ok(Waited::Over) };
                match batches.recv_timeout(LOOK) {
                    Ok(batch) => Ok(Waited::Batch(Box::new(batch))),
                    Err(RecvTimeoutError::Timeout) => Ok(Waited::Nothing),
                    Err(RecvTimeoutError::Disconnected) => match running.take() {
                        None => Ok(Waited::Over),
                        Some(Running { thread, .. }) => match thread.join() {
                            Ok(ended) => Ok(Waited::End(Box::new(ended))),
                            Err(panic) => Err(Failure::bug(&*panic)),
                        },
                    },
                }
            })?;
            match waited {
                Waited::Batch(batch) => {
                    let made = || Table::of_requests(vec![*batch], &self.flows, self.has_link);
                    return Ok((Some(guarded(py, made)?), None));
                }
                Waited::End(ended) => {
                    let measured = ended.map_err(Failure::from)?;
                    return Ok((None, Some(Measured::of(measured))));
                }
                Waited::Over => return Ok((None, None)),
                Waited::Nothing => {}
            }
            if let Err(signal) = py.check_signals() {
                self.close(py);
                return Err(interrupted(py, signal, None));
            }
        }
    }

    /// Ends the run, if it still goes on.
    fn close(&self, py: Python<'_>) {
        self.shared.end.store(true, Ordering::Relaxed);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| {
            if let Some(Running { batches, thread }) = running {
                // A run that waits for room goes on, and ends.
                drop(batches);
                let _ = thread.join();
            }
        });
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Relaxed);
    }
}

enum Waited {
    Batch(Box<RequestColumns>),
    End(Box<RunOutcome>),
    Over,
    Nothing,
}
