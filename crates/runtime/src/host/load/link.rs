//! What the thread that owns the controller and the jobs' threads tell one another: which
//! controller there is, that a connection was lost, that it is time to stop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A controller that I/O queues can be connected to, and which one since the start it is.
pub(super) struct Current<S> {
    pub(super) epoch: u64,
    pub(super) source: Arc<S>,
}

impl<S> Clone for Current<S> {
    fn clone(&self) -> Self {
        Current { epoch: self.epoch, source: Arc::clone(&self.source) }
    }
}

struct State<S> {
    current: Current<S>,
    /// The last controller that a job has lost a connection to.
    lost: u64,
    /// There will be no further controller.
    given_up: bool,
    /// Jobs that have not ended.
    working: usize,
}

/// Shared by all threads of a run.
pub(super) struct Link<S> {
    state: Mutex<State<S>>,
    changed: Condvar,
    epoch: AtomicU64,
    stop: AtomicBool,
}

impl<S> Link<S> {
    pub(super) fn new(source: S, jobs: usize) -> Link<S> {
        let current = Current { epoch: 1, source: Arc::new(source) };
        Link {
            state: Mutex::new(State { current, lost: 0, given_up: false, working: jobs }),
            changed: Condvar::new(),
            epoch: AtomicU64::new(1),
            stop: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the present controller: it grows with each reconnection.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Whether jobs were told to end.
    #[inline]
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Tells all jobs to end.
    pub(super) fn stop(&self) {
        // Under the lock, so that nobody begins to wait without having seen it.
        let _state = self.state();
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(super) fn current(&self) -> Current<S> {
        self.state().current.clone()
    }

    /// A job lost its connection to controller `epoch`: waits for the next one. `None` if
    /// there will be none, or the run ends.
    pub(super) fn next_after(&self, epoch: u64) -> Option<Current<S>> {
        let mut state = self.state();
        state.lost = state.lost.max(epoch);
        self.changed.notify_all();
        loop {
            if state.given_up || self.stopped() {
                return None;
            }
            if state.current.epoch > epoch {
                return Some(state.current.clone());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Called by a job that ends.
    pub(super) fn done(&self) {
        self.state().working -= 1;
        self.changed.notify_all();
    }

    /// Waits at most so long for something to happen: whether jobs are at work, and whether
    /// one of them has lost its connection.
    pub(super) fn watch(&self, patience: Duration) -> (bool, bool) {
        let quiet = |state: &mut State<S>| {
            state.working > 0 && (state.lost < state.current.epoch || state.given_up)
        };
        let guard = self.state();
        let (state, _) = self
            .changed
            .wait_timeout_while(guard, patience, quiet)
            .unwrap_or_else(PoisonError::into_inner);
        let lost = state.lost >= state.current.epoch && !state.given_up;
        (state.working > 0, lost)
    }

    /// There is a new controller.
    pub(super) fn connected(&self, source: S) {
        let mut state = self.state();
        state.current.epoch += 1;
        state.current.source = Arc::new(source);
        self.epoch.store(state.current.epoch, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// There will be no further controller.
    pub(super) fn give_up(&self) {
        self.state().given_up = true;
        // Jobs whose own connection still works must not go on alone.
        self.epoch.store(u64::MAX, Ordering::Relaxed);
        self.changed.notify_all();
    }
}
