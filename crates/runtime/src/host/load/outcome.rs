//! What came of a load: a result as simulations have it, and what the host saw.

use super::access::State;
use super::tally::Tally;
use super::{Load, Mismatch};
use mynah_result::figures::duration;
use mynah_result::{Host, INTERRUPTED, Result as LoadResult, ResultSchema, Run};
use mynah_stamp::Span;

#[derive(Clone, Debug)]
pub struct Outcome {
    pub result: LoadResult,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// The first blocks that were wrong.
    pub mismatches: Vec<Mismatch>,
    /// What the controller says it is.
    pub model: String,
    /// Why the load ended before its time, though the target was there.
    pub barred: Option<String>,
}

impl Outcome {
    /// What went wrong, in a sentence; `None` if nothing did.
    pub fn failure(&self) -> Option<String> {
        let host = self.result.host.as_ref()?;
        let mut wrong: Vec<_> = self.result.untrusted.iter().chain(&self.barred).cloned().collect();
        if host.mismatched_blocks > 0 {
            wrong.push(format!(
                "{} blocks have other contents than they should",
                host.mismatched_blocks
            ));
        }
        if host.mismatched_values > 0 {
            wrong.push(format!(
                "{} keys have other values than they should",
                host.mismatched_values
            ));
        }
        if host.failed > 0 {
            wrong.push(format!("{} I/Os failed", host.failed));
        }
        if host.unknown > 0 && !self.interrupted {
            wrong.push(match host.unknown {
                1 => "1 I/O was never answered: what became of it is not known".to_owned(),
                some => {
                    format!("{some} I/Os were never answered: what became of them is not known")
                }
            });
        }
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }
}

/// How a load came to its end, beside what its jobs counted.
pub(super) struct End {
    /// How often the controller was connected anew.
    pub(super) reconnects: u64,
    pub(super) jobs: usize,
    pub(super) interrupted: bool,
    /// The longest time that a change of access state takes.
    pub(super) transition: Span,
}

impl End {
    /// Result of a load that ended like this.
    pub(super) fn outcome(&self, load: &Load, model: &str, mut tally: Tally) -> Outcome {
        let notes = self.notes(&tally);
        let barred = tally.barred.map(|state| self.why_barred(state));
        let not_loaded = tally.not_loaded.take();
        let not_loaded = not_loaded.map(|why| format!("the keys could not be stored first: {why}"));
        let has_keys = load.flow.key_value().is_some();
        let result = LoadResult {
            schema: ResultSchema::V1,
            drive: model.to_owned(),
            drive_hash: String::new(),
            seed: load.seed,
            simulated_ns: tally.interval().as_ns_f64(),
            requests: tally.measured(),
            events: 0,
            point: Default::default(),
            steady: None,
            steadiness: None,
            precision: None,
            settled: None,
            trace_writes: Vec::new(),
            untrusted: self.untrusted(load, &tally),
            functional: false,
            failures: Vec::new(),
            notes,
            flows: vec![tally.flow(&load.flow.name, has_keys)],
            fairness: None,
            weighted_speedup: None,
            device: None,
            host: Some(self.host(load, &tally)),
            stages: Vec::new(),
            blame: Vec::new(),
            slowest: Vec::new(),
            lateness_ns: None,
            arrival_uncertainty_ns: None,
            path_credit: None,
            guest: None,
            run: Run::default(),
        };
        Outcome {
            result,
            interrupted: self.interrupted,
            mismatches: std::mem::take(&mut tally.mismatches),
            model: model.to_owned(),
            barred: not_loaded.or(barred),
        }
    }

    /// What has to be known with the result.
    fn notes(&self, tally: &Tally) -> Vec<String> {
        let (completed, failed) = tally.counts();
        let mut notes = Vec::new();
        if self.interrupted {
            notes.push(INTERRUPTED.to_owned());
        }
        if tally.lost_connections > 0 {
            let error = tally.last_error.as_deref().unwrap_or_default();
            notes.push(format!(
                "{} connections were lost ({error}); connected anew {} times: {completed} \
                 I/Os completed, {failed} failed, {} were issued again, the end of {} is unknown",
                tally.lost_connections, self.reconnects, tally.retried, tally.unknown
            ));
        }
        if !tally.inaccessible.is_zero() {
            let retried = tally.retried;
            notes.push(format!(
                "the namespace's access state (ANA) did not allow I/Os for {}: {retried} were \
                 issued again",
                duration(tally.inaccessible.as_ns_f64())
            ));
        }
        if !tally.not_issued.is_zero() {
            notes.push(format!(
                "the target did not keep up with the rate: the I/Os of the last {} of the runtime \
                 were not issued, and latencies from creation hold only what was",
                duration(tally.not_issued.as_ns_f64())
            ));
        }
        notes
    }

    /// Why a namespace's access state ended the load.
    fn why_barred(&self, state: State) -> String {
        match state {
            State::PersistentLoss => format!(
                "the namespace cannot be accessed any more at this controller (state {})",
                state.name()
            ),
            _ => format!(
                "the namespace could not be accessed at this controller (state {}) for longer than \
                 a change of state takes (ANATT: {})",
                state.name(),
                duration(self.transition.as_ns_f64())
            ),
        }
    }

    /// Why the result says nothing, if that is so.
    fn untrusted(&self, load: &Load, tally: &Tally) -> Option<String> {
        let (completed, _) = tally.counts();
        (tally.measured() == 0 && completed > 0 && !self.interrupted).then(|| {
            format!(
                "the run ended within its ramp of {}: nothing was measured; a longer run \
                 (runtime, number_ios) or a shorter ramp_time helps",
                duration(load.ramp.as_ns_f64())
            )
        })
    }

    /// What the host saw of the target.
    fn host(&self, load: &Load, tally: &Tally) -> Host {
        let (completed, failed) = tally.counts();
        let has_keys = load.flow.key_value().is_some();
        let of_keys = |count: u64| if has_keys { count } else { 0 };
        Host {
            target: load.target.to_string(),
            queues: self.jobs as u64,
            completed,
            failed,
            retried: tally.retried,
            unknown: tally.unknown,
            lost_connections: tally.lost_connections,
            reconnects: self.reconnects,
            not_issued_ns: tally.not_issued.as_ns_f64(),
            checked_blocks: (load.verify && !has_keys).then_some(tally.checked),
            mismatched_blocks: tally.mismatched - of_keys(tally.mismatched),
            checked_values: (load.verify && has_keys).then_some(tally.checked),
            mismatched_values: of_keys(tally.mismatched),
            misses: has_keys.then_some(tally.missed),
        }
    }
}
