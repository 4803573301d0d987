//! Several flows on one target.
//!
//! Each is a load of its own, with a controller and queues of its own. Those of a stage
//! ([`mynah_workload::stages`]) begin together, when all of them are connected; the next
//! stage connects when all of them have ended. What they measured becomes one result, every rate
//! in it over its flow's own time.

use super::{LOOK, Load, LoadError, Outcome, Progress, Where, run};
use mynah_result::{Host, Result as LoadResult};
use mynah_workload as workload;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Puts several flows on a target, and watches as [`run`] does.
///
/// # Errors
/// As of [`run`], of any of them.
///
/// # Panics
/// Without any load.
pub fn run_all(
    loads: &[Load],
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, LoadError> {
    for load in loads {
        let mut flows = std::iter::once(&load.flow).chain(&load.beside);
        let waits = flows.all(|flow| flow.depth().is_some());
        load.profile.iter().for_each(|profile| profile.asks(waits));
    }
    if let [load] = loads {
        return run(load, watch);
    }
    let flows: Vec<_> = loads.iter().map(|load| load.flow.clone()).collect();
    let mut stages: Vec<Vec<&Load>> = Vec::new();
    for (load, stage) in loads.iter().zip(workload::stages(&flows)) {
        stages.resize_with(stages.len().max(stage + 1), Vec::new);
        stages[stage].push(load);
    }
    fits(&stages)?;
    let together = beside_others(&stages);
    let stages: Vec<Vec<&Load>> = together.iter().map(|stage| stage.iter().collect()).collect();
    watch(Progress::Connecting);
    let mut done: Vec<Vec<Outcome>> = Vec::new();
    for stage in &stages {
        let outcomes = run_stage(stage, done.len(), stages.len(), watch)?;
        let interrupted = outcomes.iter().any(|outcome| outcome.interrupted);
        done.push(outcomes);
        if interrupted {
            break;
        }
    }
    watch(Progress::Finished);
    let begun: usize = done.iter().map(Vec::len).sum();
    let mut outcome = joined(done);
    if let Some(first) = flows.get(begun) {
        outcome.result.notes.push(format!("flow `{}` had not begun", first.name));
    }
    Ok(outcome)
}

/// Whether several loads can be put together.
fn fits(stages: &[Vec<&Load>]) -> Result<(), LoadError> {
    let mut loads = stages.iter().flatten();
    if loads.any(|load| load.verify) {
        return Err(LoadError::Unfit(
            "--verify knows what one flow has written; of several none knows what is there".into(),
        ));
    }
    let mut together = stages.iter().filter(|stage| stage.len() > 1).flatten();
    if together.any(|load| matches!(load.target, Where::VfioUser(_))) {
        return Err(LoadError::Unfit(
            "a PCIe function has one driver, so flows run one after the other there \
             (wait_for_previous, stonewall); numjobs gives one of them more queues"
                .into(),
        ));
    }
    Ok(())
}

/// The loads, each of which knows whether others use its target at the same time.
fn beside_others(stages: &[Vec<&Load>]) -> Vec<Vec<Load>> {
    let known = |load: &&Load, several: bool| {
        let mut load = (*load).clone();
        if let Where::Nbd(options) = &mut load.target {
            options.several = several;
        }
        load
    };
    let of_stage =
        |stage: &Vec<&Load>| stage.iter().map(|load| known(load, stage.len() > 1)).collect();
    stages.iter().map(of_stage).collect()
}

/// Holds flows back until all of their stage are connected, or cannot be.
#[derive(Default)]
struct Gate {
    arrived: Mutex<usize>,
    opens: Condvar,
}

impl Gate {
    /// One more of `all` flows has arrived, or has failed before.
    fn arrive(&self, all: usize) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        *arrived += 1;
        if *arrived == all {
            self.opens.notify_all();
        }
    }

    fn wait(&self, all: usize) {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.opens.wait_while(arrived, |arrived| *arrived < all);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn is_open(&self, all: usize) -> bool {
        *self.arrived.lock().unwrap_or_else(PoisonError::into_inner) >= all
    }
}

/// Progress of one flow, for all stages to see.
#[derive(Default)]
struct FlowProgress {
    connected: AtomicBool,
    lost: AtomicBool,
    finished: AtomicBool,
    /// How much is done, in millionths.
    done: AtomicU64,
    completed: AtomicU64,
}

impl FlowProgress {
    fn note(&self, progress: Progress) {
        self.lost.store(progress == Progress::Reconnecting, Ordering::Relaxed);
        match progress {
            Progress::Started => self.connected.store(true, Ordering::Relaxed),
            Progress::Running { done, completed } => {
                self.done.store((done * 1e6) as u64, Ordering::Relaxed);
                self.completed.store(completed, Ordering::Relaxed);
            }
            Progress::Loading { .. }
            | Progress::Connecting
            | Progress::Reconnecting
            | Progress::Finished => {}
        }
    }
}

/// Runs the flows of stage `number` of `count`.
fn run_stage(
    loads: &[&Load],
    number: usize,
    count: usize,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<Outcome>, LoadError> {
    let all = loads.len();
    let (gate, stop) = (Gate::default(), AtomicBool::new(false));
    let seen: Vec<FlowProgress> = loads.iter().map(|_| FlowProgress::default()).collect();
    let ended = std::thread::scope(|scope| {
        let (gate, stop) = (&gate, &stop);
        let flows: Vec<_> = loads
            .iter()
            .zip(&seen)
            .map(|(load, seen)| {
                scope.spawn(move || {
                    let outcome = run(load, &mut |progress| {
                        seen.note(progress);
                        if progress == Progress::Started {
                            gate.arrive(all);
                            gate.wait(all);
                        }
                        !stop.load(Ordering::Relaxed)
                    });
                    if outcome.is_err() {
                        // Without it the others are not the load that was asked for.
                        stop.store(true, Ordering::Relaxed);
                    }
                    if !seen.connected.load(Ordering::Relaxed) {
                        gate.arrive(all);
                    }
                    seen.finished.store(true, Ordering::Relaxed);
                    outcome
                })
            })
            .collect();
        let mut started = number > 0;
        while !flows.iter().all(|flow| flow.is_finished()) {
            if !started && gate.is_open(all) {
                started = true;
                watch(Progress::Started);
            }
            if started && !watch(progress(&seen, number, count)) {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK);
        }
        if !started {
            watch(Progress::Started);
        }
        let joined = flows.into_iter().map(|flow| flow.join().expect("a flow ends"));
        joined.collect::<Vec<_>>()
    });
    ended.into_iter().collect()
}

/// Where the whole run is, in stage `number` of `count`.
fn progress(seen: &[FlowProgress], number: usize, count: usize) -> Progress {
    if seen.iter().any(|seen| seen.lost.load(Ordering::Relaxed)) {
        return Progress::Reconnecting;
    }
    let done = seen.iter().map(|seen| match seen.finished.load(Ordering::Relaxed) {
        true => 1.0,
        false => seen.done.load(Ordering::Relaxed) as f64 / 1e6,
    });
    let done = (number as f64 + done.fold(1.0, f64::min)) / count as f64;
    let completed = seen.iter().map(|seen| seen.completed.load(Ordering::Relaxed)).sum();
    Progress::Running { done, completed }
}

/// What the flows of all stages measured, as one.
fn joined(stages: Vec<Vec<Outcome>>) -> Outcome {
    let longest = |stage: &Vec<Outcome>| {
        stage.iter().map(|outcome| outcome.result.simulated_ns).fold(0.0, f64::max)
    };
    let simulated_ns = stages.iter().map(longest).sum();
    let mut all = stages.into_iter().flatten();
    let mut joined = all.next().expect("at least one load");
    named(&mut joined.result);
    for mut other in all {
        named(&mut other.result);
        let (result, more) = (&mut joined.result, other.result);
        result.requests += more.requests;
        result.untrusted = result.untrusted.take().or(more.untrusted);
        result.notes.extend(more.notes);
        result.flows.extend(more.flows);
        if let (Some(host), Some(more)) = (&mut result.host, more.host) {
            add(host, &more);
        }
        joined.interrupted |= other.interrupted;
        joined.mismatches.extend(other.mismatches);
    }
    joined.result.simulated_ns = simulated_ns;
    joined
}

/// Puts the flow's name before its notes.
fn named(result: &mut LoadResult) {
    let Some(flow) = result.flows.first() else { return };
    let said = |text: &String| format!("flow `{}`: {text}", flow.name);
    result.notes = result.notes.iter().map(said).collect();
    result.untrusted = result.untrusted.as_ref().map(said);
}

/// Adds what another flow's host counted.
fn add(host: &mut Host, more: &Host) {
    host.queues += more.queues;
    host.completed += more.completed;
    host.failed += more.failed;
    host.retried += more.retried;
    host.unknown += more.unknown;
    host.lost_connections += more.lost_connections;
    host.reconnects += more.reconnects;
    host.not_issued_ns = host.not_issued_ns.max(more.not_issued_ns);
    host.mismatched_blocks += more.mismatched_blocks;
    host.mismatched_values += more.mismatched_values;
    host.misses = host.misses.map(|misses| misses + more.misses.unwrap_or(0)).or(more.misses);
}
