//! Flows that last until something is known (`runtime = "auto"`): when the run is looked at, and how
//! they end. What is known is found by [`Search`].
//!
//! They end together, at the end of a batch, and as if their `runtime` were over then: nothing more
//! is issued, what is outstanding completes, and flows with an end of their own go on.

use super::{RunError, RunOptions, Runner};
use mynah_model::Policies;
use mynah_result::precision::{Plan, Search};
use mynah_stamp::{Span, Time};
use mynah_workload::FlowSpec;
use std::cmp::Reverse;

/// Checks the flows and options of a run that is to end when its figures are known.
pub(crate) fn check_ends(flows: &[FlowSpec], options: &RunOptions) -> Result<(), RunError> {
    let Some(auto) = flows.iter().find(|flow| flow.limits.auto) else { return Ok(()) };
    if options.until_steady.is_some() {
        return Err(RunError::TwoEnds(auto.name.clone()));
    }
    match flows.iter().skip(1).find(|flow| flow.after_previous) {
        Some(flow) => Err(RunError::AutoInStages(flow.name.clone())),
        None => Ok(()),
    }
}

/// What a run of these flows is to find out before it ends, if any of them last until then.
pub(super) fn search(flows: &[FlowSpec], options: &RunOptions) -> Option<Search> {
    let auto =
        |&index: &usize| flows[index].limits.auto && options.only.is_none_or(|only| only == index);
    let chosen: Vec<usize> = (0..flows.len()).filter(auto).collect();
    let begin = chosen.iter().map(|&flow| flows[flow].schedule.start).max()?;
    let plan =
        Plan { goal: options.precision, flows: chosen, begin_ps: begin.as_ps(), steady: false };
    Some(Search::new(plan, flows.iter().map(|flow| flow.name.clone()).collect(), None))
}

impl<P: Policies> Runner<P> {
    /// What the run is to find out before it ends, if its end is not given.
    pub(crate) fn plan(&self) -> Option<Plan> {
        self.search.as_ref().map(|search| search.plan().clone())
    }

    /// Called when the measurement begins: after the ramp, if there is one.
    pub(super) fn begin_search(&mut self) {
        if let Some(search) = &mut self.search {
            search.begin(&self.recorder, &self.drive);
        }
        self.set_horizon();
    }

    /// Called at the end of a batch: looks at the figures' precision, and ends the flows if it
    /// suffices.
    pub(super) fn end_batch(&mut self) -> Result<(), RunError> {
        let now = self.drive.now();
        if let Some(tape) = &mut self.drive.tape {
            tape.batch_ends(now).map_err(RunError::Recording)?;
        }
        let end = self.search.as_mut().and_then(|it| it.look(&self.recorder, &self.drive));
        if let Some(end) = end {
            self.end_flows(end);
        }
        Ok(())
    }

    /// The flows end whose end was not given, at `end`, which is the next instant.
    fn end_flows(&mut self, end: Time) {
        debug_assert_eq!(self.drive.now() + Span::from_ps(1), end);
        let auto = |job: u32, runner: &Runner<P>| {
            runner.specs[runner.jobs[job as usize].flow as usize].limits.auto
        };
        for at in 0..self.jobs.len() as u32 {
            if auto(at, self) {
                self.jobs[at as usize].end_at(end);
            }
        }
        // What has come by now is not there any more.
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.retain(|&Reverse((_, job))| !auto(job, self));
        self.arrivals = arrivals;
    }
}
