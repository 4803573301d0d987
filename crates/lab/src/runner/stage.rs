//! The stages of a run: flows that begin when those before them have ended.
//!
//! A stage is over when nothing of it is outstanding or to come. The flows of the next one begin
//! at that instant, or at their `startdelay` in the run if that is later. The ramp is left out of
//! each stage, as fio leaves it out of each job. A flow that runs alone waits for nobody.

use super::RunOptions;
use mynah_stamp::{Span, Time};
use mynah_workload::{self as workload, FlowSpec};

/// Which flows run, and which are to come.
pub(super) struct Stages {
    /// Stage of each flow, by number of the flow.
    of: Vec<usize>,
    current: usize,
    last: usize,
    began: Time,
    ramp: Span,
}

impl Stages {
    pub(super) fn new(flows: &[FlowSpec], options: &RunOptions) -> Stages {
        let of: Vec<usize> = match options.only {
            Some(_) => vec![0; flows.len()],
            None => workload::stages(flows).collect(),
        };
        let last = of.last().copied().unwrap_or(0);
        Stages { of, current: 0, last, began: Time::ZERO, ramp: options.ramp_time }
    }

    pub(super) fn of(&self, flow: u32) -> usize {
        self.of[flow as usize]
    }

    /// The stage that runs, from 0.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Flows of the current stage.
    pub(super) fn flows(&self) -> impl Iterator<Item = usize> {
        let of = self.of.iter().enumerate();
        of.filter(|(_, stage)| **stage == self.current).map(|(flow, _)| flow)
    }

    /// When the current stage began.
    pub(super) fn began(&self) -> Time {
        self.began
    }

    /// Goes on to the next stage, if there is one: until when its ramp lasts, [`Time::MAX`]
    /// without one.
    pub(super) fn next(&mut self, now: Time) -> Option<Time> {
        if self.current == self.last {
            return None;
        }
        self.current += 1;
        self.began = now;
        Some(if self.ramp.is_zero() { Time::MAX } else { now + self.ramp })
    }

    /// How far the run is, if the current stage is as far as this.
    pub(super) fn done(&self, current: f64) -> f64 {
        (self.current as f64 + current) / (self.last + 1) as f64
    }
}
