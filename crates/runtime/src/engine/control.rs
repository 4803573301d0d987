//! What other threads may ask of the engine, without locks in its path.

use super::admission::Newcomer;
use crate::hub::Totals;
use crate::lateness::Lateness;
use crate::quota::COUNTED;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use mynah_device::Now;
use mynah_lab::histogram::Histogram;
use mynah_model::stats::Counters;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the engine has measured by some moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When.
    pub now: Now,
    /// Connections that are open.
    pub connections: usize,
    /// Those of them that are not queues of a controller.
    pub half_open: usize,
    /// Connections that were ended for what their hosts did, or not accepted.
    pub refused: u64,
    /// How often peers could have no more of a quantity, by its name.
    pub refusals: [(&'static str, u64); COUNTED],
    /// How often the system had nothing left for a new connection.
    pub starvations: u64,
    /// Commands under way.
    pub outstanding: u64,
    /// What was done.
    pub totals: Totals,
    /// Latencies of reads and writes.
    pub latencies: Histogram,
    /// How well real time was kept.
    pub lateness: Lateness,
    /// What the drive has counted.
    pub counters: Counters,
    /// Latencies and lateness of reads and writes since the interval before, if this was
    /// made at the end of one.
    pub interval: Option<(Histogram, Histogram)>,
}

/// A handle on a running engine, for any thread.
#[derive(Debug)]
pub struct Control {
    bell: OwnedFd,
    pub(super) stopping: AtomicBool,
    pub(super) wanted: AtomicBool,
    answers: Sender<Snapshot>,
    /// Locked by whoever waits for an answer, never by the engine.
    answered: Mutex<Receiver<Snapshot>>,
    adoptions: Sender<Newcomer>,
    pub(super) adopted: Receiver<Newcomer>,
    /// Somebody else who accepts connections has no descriptors left.
    pub(super) starved: AtomicBool,
}

impl Control {
    /// A handle for an engine to come.
    pub fn new() -> io::Result<Control> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (answers, answered) = bounded(1);
        let (adoptions, adopted) = unbounded();
        Ok(Control {
            bell,
            stopping: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            answers,
            answered: Mutex::new(answered),
            adoptions,
            adopted,
            starved: AtomicBool::new(false),
        })
    }

    /// Ends the engine in order.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.ring();
    }

    /// Hands over a connection that was accepted elsewhere.
    pub fn adopt(&self, new: Newcomer) {
        // Fails only without an engine, and then the connection just ends.
        let _ = self.adoptions.send(new);
        self.ring();
    }

    /// Says that whoever accepts connections elsewhere has no descriptors left.
    pub fn starve(&self) {
        self.starved.store(true, Ordering::Release);
        self.ring();
    }

    /// What the engine has measured; `None` if it does not answer in time.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let answered = self.answered.lock().ok()?;
        // An answer that came too late for whoever asked.
        let _ = answered.try_recv();
        self.wanted.store(true, Ordering::Release);
        self.ring();
        answered.recv_timeout(PATIENCE).ok()
    }

    /// Gives an answer; it is lost if nobody has taken the one before.
    pub(super) fn answer(&self, snapshot: Snapshot) {
        let _ = self.answers.try_send(snapshot);
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn ring(&self) {
        // Fails only when it has been rung four billion times and not been heard.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(super) fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}
