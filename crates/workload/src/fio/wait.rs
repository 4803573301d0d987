//! Jobs that wait for others (`backend.c`, `run_threads`).
//!
//! `stonewall` holds up a job, and those behind it, until all before it have ended: flows do that
//! ([`FlowSpec::after_previous`]). `wait_for` holds up one job until those of a name have ended,
//! whatever else runs. Where nothing else does, those who wait are a stage of their own; where
//! something does, they are refused.

use super::FioError;
use super::file::Place;
use crate::FlowSpec;

/// `flows`, of which some wait for those of a name, in stages.
pub(super) fn staged(
    flows: Vec<FlowSpec>,
    waits: &[Option<(String, Place)>],
) -> Result<Vec<FlowSpec>, FioError> {
    if waits.iter().all(Option::is_none) {
        return Ok(flows);
    }
    let stages: Vec<usize> = crate::stages(&flows).collect();
    // How many others of its stage each has before it.
    let mut levels: Vec<usize> = Vec::new();
    for (index, wait) in waits.iter().enumerate() {
        let Some((name, place)) = wait else {
            levels.push(0);
            continue;
        };
        let before = || (0..index).filter(|&other| flows[other].name == *name);
        if before().next().is_none() {
            let message = format!("wait_for: no job before it is called `{name}`");
            return Err(place.error(message));
        }
        let here = before().filter(|&other| stages[other] == stages[index]);
        levels.push(here.map(|other| levels[other] + 1).max().unwrap_or(0));
    }
    for (index, wait) in waits.iter().enumerate() {
        let Some((name, place)) = wait.as_ref().filter(|_| levels[index] > 0) else { continue };
        let beside = |&other: &usize| {
            stages[other] == stages[index]
                && levels[other] + 1 == levels[index]
                && flows[other].name != *name
        };
        if let Some(other) = (0..flows.len()).find(beside) {
            let message = format!(
                "wait_for: `{}` may still run when `{name}` has ended, and who begins beside it then \
                 is not simulated: jobs wait for all that run (stonewall), or for the only one",
                flows[other].name
            );
            return Err(place.error(message));
        }
    }
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&index| (stages[index], levels[index]));
    let mut flows: Vec<Option<FlowSpec>> = flows.into_iter().map(Some).collect();
    let mut last = None;
    let in_order = order.into_iter().map(|index| {
        let mut flow = flows[index].take().expect("each has one place");
        let place = (stages[index], levels[index]);
        let begins = last.is_some_and(|last| last != place);
        // What the first flow of all says of those before it stays as it was.
        flow.after_previous = begins || last.is_none() && flow.after_previous;
        last = Some(place);
        flow
    });
    Ok(in_order.collect())
}
