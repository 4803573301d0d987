//! Where jobs wait for one another between what comes before the load and the load itself, so that
//! it begins for all of them at once.

use crate::clock::Clock;
use mynah_stamp::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often a waiting job looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Value of [`Gate::opened`] while the gate is shut.
const SHUT: u64 = u64::MAX;

pub(super) struct Gate {
    /// Jobs that have not come yet.
    missing: Mutex<usize>,
    opens: Condvar,
    /// When it opened, in picoseconds.
    opened: AtomicU64,
}

impl Gate {
    /// A gate that opens when so many jobs have come.
    pub(super) fn new(jobs: usize) -> Gate {
        Gate { missing: Mutex::new(jobs), opens: Condvar::new(), opened: AtomicU64::new(SHUT) }
    }

    /// Opens it without waiting for all jobs.
    pub(super) fn open(&self, clock: &Clock) {
        self.opened.store(clock.wall().as_ps(), Ordering::Release);
    }

    /// When it opened, if it has.
    pub(super) fn opened(&self) -> Option<Time> {
        let opened = self.opened.load(Ordering::Acquire);
        (opened != SHUT).then(|| Time::from_ps(opened))
    }

    /// Waits for the other jobs, or for the end of the run; when the load begins.
    pub(super) fn pass(&self, clock: &Clock, stopped: impl Fn() -> bool) -> Time {
        if let Some(opened) = self.opened() {
            return opened;
        }
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        *missing -= 1;
        if *missing == 0 {
            self.opened.store(clock.wall().as_ps(), Ordering::Release);
            self.opens.notify_all();
        }
        loop {
            if let Some(opened) = self.opened() {
                return opened;
            }
            if stopped() {
                return clock.wall();
            }
            let waited = self.opens.wait_timeout(missing, LOOK);
            missing = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
