//! What other threads may ask of the engine, without locks in its path.

use crate::hub::Totals;
use crate::lateness::Lateness;
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

/// A connection that somebody else has accepted.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) socket: OwnedFd,
    pub(super) peer: String,
    pub(super) port: u16,
    pub(super) host_nqn: Option<String>,
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
    adoptions: Sender<Adopted>,
    pub(super) adopted: Receiver<Adopted>,
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
        })
    }

    /// Ends the engine in order.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.ring();
    }

    /// Hands over a connection of `peer` that was accepted elsewhere, for the subsystem's port
    /// of that number. The socket must not block. With `host_nqn`, the peer has proved that it is
    /// that host.
    pub fn adopt(&self, socket: OwnedFd, peer: String, port: u16, host_nqn: Option<String>) {
        // Fails only without an engine, and then the connection just ends.
        let _ = self.adoptions.send(Adopted { socket, peer, port, host_nqn });
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
