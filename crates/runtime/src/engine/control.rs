//! What other threads may ask of the engine, without locks in its path.

use super::admission::Newcomer;
use crate::hub::{Stall, Totals};
use crate::lateness::Lateness;
use crate::quota::COUNTED;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use mynah_device::Now;
use mynah_model::stats::Counters;
use mynah_result::histogram::Histogram;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long the engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the engine has measured by some moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
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
    pub outstanding: u64,
    /// For how long the drive has completed nothing though commands wait, if it has not just
    /// completed something.
    pub stall: Option<Stall>,
    /// How often the drive has stalled.
    pub stalls: u64,
    /// Commands and bytes since the start.
    pub totals: Totals,
    /// What the drive has counted.
    pub counters: Counters,
    /// How long things took since the start, if that was asked for.
    pub distributions: Option<Box<Distributions>>,
    /// Latencies and lateness of reads and writes since the interval before, if this was
    /// made at the end of one.
    pub interval: Option<(Histogram, Histogram)>,
}

/// How long things took since the start.
#[derive(Clone, Debug, Default)]
pub struct Distributions {
    /// Latencies of reads and writes.
    pub latencies: Histogram,
    /// How well real time was kept.
    pub lateness: Lateness,
}

impl Distributions {
    /// Takes over what was measured, into the memory that is there.
    pub(crate) fn take_over(&mut self, latencies: &Histogram, lateness: &Lateness) {
        self.latencies.clone_from(latencies);
        self.lateness.clone_from(lateness);
    }
}

/// State of the thread that asks for snapshots; the engine never locks it.
#[derive(Debug)]
struct Asker {
    answered: Receiver<Snapshot>,
    blanks: Sender<Box<Distributions>>,
    /// The buffer of an answer that was not taken.
    spare: Option<Box<Distributions>>,
}

/// A request to an engine; nobody else has one before this one is answered or dropped.
#[derive(Debug)]
pub struct SnapshotRequest<'a>(MutexGuard<'a, Asker>);

impl SnapshotRequest<'_> {
    /// What the engine has measured; `None` if it does not answer by then.
    pub fn wait(self, until: Instant) -> Option<Snapshot> {
        self.0.answered.recv_deadline(until).ok()
    }
}

/// A handle on a running engine, for any thread.
#[derive(Debug)]
pub struct Control {
    bell: OwnedFd,
    pub(crate) stopping: AtomicBool,
    wanted: AtomicBool,
    answers: Sender<Snapshot>,
    /// Memory for the next answer: the engine takes none of its own for that.
    blanks: Receiver<Box<Distributions>>,
    asker: Mutex<Asker>,
    adoptions: Sender<Newcomer>,
    pub(super) adopted: Receiver<Newcomer>,
    /// Whether a thread that accepts connections elsewhere has no descriptors left.
    pub(super) starved: AtomicBool,
}

impl Control {
    /// A handle for an engine to come.
    pub fn new() -> io::Result<Control> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (answers, answered) = bounded(1);
        let (sender, blanks) = bounded(1);
        let (adoptions, adopted) = unbounded();
        Ok(Control {
            bell,
            stopping: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            answers,
            blanks,
            asker: Mutex::new(Asker { answered, blanks: sender, spare: None }),
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

    /// Asks the engine for what it has measured; `None` if somebody who asked before has failed.
    pub fn ask(&self) -> Option<SnapshotRequest<'_>> {
        let mut asker = self.asker.lock().ok()?;
        // An answer that came too late for whoever asked.
        if let Ok(late) = asker.answered.try_recv() {
            asker.spare = late.distributions;
        }
        let blank = asker.spare.take().unwrap_or_default();
        // Full if the engine has not yet come to the one that was asked for before.
        let _ = asker.blanks.try_send(blank);
        self.wanted.store(true, Ordering::Release);
        self.ring();
        Some(SnapshotRequest(asker))
    }

    /// What the engine has measured; `None` if it does not answer in time.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.ask()?.wait(Instant::now() + PATIENCE)
    }

    /// Gives back a snapshot that is not needed any more: the next is made in its memory.
    pub fn reuse(&self, snapshot: Snapshot) {
        if let Ok(mut asker) = self.asker.lock() {
            asker.spare = snapshot.distributions;
        }
    }

    /// Answers a request for a snapshot, if there is one.
    pub(crate) fn answer_wanted(
        &self,
        measure: &crate::hub::Measure,
        snapshot: impl FnOnce() -> Snapshot,
    ) {
        if self.wanted.swap(false, Ordering::AcqRel) {
            let mut distributions = self.blank();
            distributions.take_over(measure.latencies(), measure.lateness());
            self.answer(Snapshot { distributions: Some(distributions), ..snapshot() });
        }
    }

    /// A buffer for an answer: one that was given back, or a new one.
    fn blank(&self) -> Box<Distributions> {
        self.blanks.try_recv().unwrap_or_default()
    }

    /// Gives an answer; it is lost if nobody has taken the one before.
    pub(crate) fn answer(&self, snapshot: Snapshot) {
        let _ = self.answers.try_send(snapshot);
    }

    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn ring(&self) {
        // Fails only when it has been rung four billion times and not been heard.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_stamp::Span;

    /// Run with `cargo test --release -p mynah-runtime --lib -- --ignored --nocapture a_snapshot`.
    #[test]
    #[ignore = "a measurement"]
    fn what_a_snapshot_costs_the_engine() {
        let mut measured = Distributions::default();
        // From some 8 us to 16 ms, most of them near 80 us.
        for n in 0..1_000_000u64 {
            let (long, short) = (16_384 >> (n.trailing_zeros() % 12), 60 + n % 40);
            let span = Span::from_us(if n.is_multiple_of(16) { long } else { short });
            measured.latencies.record(span);
            measured.lateness.completed(Span::from_ns(n % 50_000));
            measured.lateness.arrived(Span::from_ns(n % 20_000));
        }
        // Snapshots are dropped by whoever has asked for them.
        let (sender, receiver) = bounded::<Distributions>(1);
        let other = std::thread::spawn(move || receiver.into_iter().for_each(drop));
        let mut blank = Distributions::default();
        let [mut copies, mut reused] = [Vec::new(), Vec::new()];
        for _ in 0..1_000 {
            // As long as a scrape may take until the next.
            std::thread::sleep(Duration::from_millis(1));
            let clock = Instant::now();
            let copy = measured.clone();
            copies.push(clock.elapsed());
            let _ = sender.send(copy);
            std::thread::sleep(Duration::from_millis(1));
            let clock = Instant::now();
            blank.take_over(&measured.latencies, &measured.lateness);
            reused.push(clock.elapsed());
        }
        drop(sender);
        other.join().unwrap();
        for (what, mut times) in [("anew", copies), ("in place", reused)] {
            times.sort();
            println!("{what}: median {:?}, p99 {:?}", times[500], times[990]);
        }
    }
}
