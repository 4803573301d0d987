//! What is asked for: by those who asked in the base already, and by others.

use crate::analysis::Analysis;
use crate::group::Dimension;
use crate::presence::{Scope, Stay, ahead, stays};
use std::collections::{BTreeMap, BTreeSet};

/// A load has grown if it is so many times what it was.
const GROWN: f64 = 1.1;
/// More at once ends in no fewer I/Os a second, if nothing else has changed.
const FEWER: f64 = 0.9;
/// Others count if so much of all bytes, or of all I/Os, is theirs.
const OTHERS: f64 = 0.05;

/// Load that a session offers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Load {
    iops: f64,
    bytes_per_s: f64,
    /// Most I/Os under way at once, summed over its queues.
    depth: u64,
}

/// Most I/Os that were under way at once in a queue.
fn depth(analysis: &Analysis, of: &[Stay]) -> u64 {
    let outstanding = |stay: &Stay| u64::from(analysis.trace.ios()[stay.io].outstanding);
    // By the records, who also counted those that have none, or by what is here.
    if of.iter().all(|stay| outstanding(stay) > 0) {
        return of.iter().map(outstanding).max().unwrap_or(0);
    }
    ahead(&analysis.trace, of).iter().map(|before| before.ios + 1).max().unwrap_or(0)
}

fn loads(analysis: &Analysis) -> BTreeMap<String, Load> {
    let trace = &analysis.trace;
    let Some(last) = analysis.header.stages.len().checked_sub(1) else { return BTreeMap::new() };
    // Records may be a sample; what they are a sample of asks for as much more.
    let per_second = analysis.rate() / trace.ios().len().max(1) as f64;
    let mut loads: BTreeMap<String, Load> = BTreeMap::new();
    for of in stays(trace, 0, last, Scope::Queue) {
        let io = |stay: &Stay| &trace.ios()[stay.io];
        let number = of.first().map_or(0, |first| io(first).connection);
        let name = Dimension::Session.label(&analysis.header, number.into());
        let bytes: u64 = of.iter().map(|stay| u64::from(io(stay).bytes)).sum();
        let load = loads.entry(name).or_default();
        load.iops += of.len() as f64 * per_second;
        load.bytes_per_s += bytes as f64 * per_second;
        load.depth += depth(analysis, &of);
    }
    loads
}

/// How what is asked for has changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Loads {
    /// How many times more I/Os a second, bytes a second, and I/Os under way those have who were there
    /// before.
    pub(super) iops: f64,
    pub(super) bytes: f64,
    pub(super) depth: f64,
    /// Whether all wait for answers before they ask for more, then and now.
    closed: bool,
    /// Who has come, or asks for more than before while others do not: with bytes a second.
    pub(super) others: Vec<(String, f64)>,
    /// I/Os and bytes a second of all in this profile.
    pub(super) iops_now: f64,
    pub(super) bytes_per_s: f64,
}

impl Loads {
    pub(super) fn of(base: &Analysis, now: &Analysis) -> Loads {
        let (before, after) = (loads(base), loads(now));
        let bytes_per_s: f64 = after.values().map(|load| load.bytes_per_s).sum();
        let iops: f64 = after.values().map(|load| load.iops).sum();
        let matters =
            |load: &Load| load.bytes_per_s >= OTHERS * bytes_per_s || load.iops >= OTHERS * iops;
        let kept: BTreeSet<&String> =
            before.keys().filter(|name| after.contains_key(*name)).collect();
        // Controllers have other numbers in another run: then all of one are those of the other.
        let is_kept = |name: &String| kept.is_empty() || kept.contains(name);
        let others = after.iter().filter(|(name, load)| !is_kept(name) && matters(load));
        let others = others.map(|(name, load)| (name.clone(), load.bytes_per_s)).collect();
        let sum = |all: &BTreeMap<String, Load>, of: fn(&Load) -> f64| -> f64 {
            all.iter().filter(|(name, _)| is_kept(name)).map(|(_, load)| of(load)).sum()
        };
        let times = |of: fn(&Load) -> f64| {
            let base = sum(&before, of);
            if base > 0.0 { sum(&after, of) / base } else { 1.0 }
        };
        let waits = |analysis: &Analysis| analysis.header.closed_loop == Some(true);
        Loads {
            iops: times(|load| load.iops),
            bytes: times(|load| load.bytes_per_s),
            depth: times(|load| load.depth as f64),
            closed: waits(base) && waits(now),
            others,
            iops_now: iops,
            bytes_per_s,
        }
    }

    /// Whether those who were there before ask for more: more a second, which something slower cannot
    /// bring about, or, where they wait for answers, more at once. Who has more at once and still gets
    /// less has met something that is slower (by Little's law, the latency has grown by more than the
    /// depth has).
    pub(super) fn has_grown(&self) -> bool {
        let deeper = self.closed && self.depth >= GROWN && self.iops >= FEWER;
        self.iops >= GROWN || self.bytes >= GROWN || deeper
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{:.2} times the I/Os, {:.2} times the bytes a second, {:.2} times as many at once",
            self.iops, self.bytes, self.depth
        )
    }
}
