//! What is asked of a drive: by those who asked in the base already, and by others.

use crate::profile::analysis::Analysis;
use crate::profile::group::Dimension;
use crate::profile::presence::{Scope, Stay, found, stays};
use std::collections::BTreeMap;

/// A load has grown if it is so many times what it was.
const GROWN: f64 = 1.1;
/// Others count if so much of all bytes, or of all I/Os, is theirs.
const OTHERS: f64 = 0.05;

/// What a session asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Load {
    iops: f64,
    bytes_per_s: f64,
    /// Most I/Os under way at once.
    depth: u64,
    /// Whether it nearly always has so many: then it waits for answers, and a slower drive has fewer
    /// of its I/Os a second, not more under way.
    closed: bool,
}

fn loads(analysis: &Analysis) -> BTreeMap<String, Load> {
    let trace = &analysis.trace;
    let Some(last) = analysis.header.stages.len().checked_sub(1) else { return BTreeMap::new() };
    // Records are a sample; what they are a sample of asks for as much more.
    let per_second = analysis.sampled_from() * 1e12 / trace.window().max(1) as f64;
    let load = |of: Vec<Stay>| {
        let io = |stay: &Stay| &trace.ios()[stay.io];
        let number = of.first().map_or(0, |first| io(first).connection);
        let name = Dimension::Session.label(&analysis.header, number.into());
        // By the records, who also counted those that have none, or by what is here.
        let told = of.iter().all(|stay| io(stay).outstanding > 0);
        let under_way: Vec<u64> = match told {
            true => of.iter().map(|stay| io(stay).outstanding.into()).collect(),
            false => found(trace, &of).iter().map(|found| found.ios + 1).collect(),
        };
        let depth = under_way.iter().copied().max().unwrap_or(0);
        let deep = under_way.iter().filter(|it| *it * 10 >= depth * 9).count();
        let bytes: u64 = of.iter().map(|stay| u64::from(io(stay).bytes)).sum();
        let load = Load {
            iops: of.len() as f64 * per_second,
            bytes_per_s: bytes as f64 * per_second,
            depth,
            closed: deep * 5 >= under_way.len() * 4,
        };
        (name, load)
    };
    stays(trace, 0, last, Scope::Session).into_iter().map(load).collect()
}

/// How what is asked for has changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Loads {
    /// How many times more I/Os a second, bytes a second, and I/Os under way those have who were there
    /// before.
    pub(super) iops: f64,
    pub(super) bytes: f64,
    pub(super) depth: f64,
    closed: bool,
    /// Who has come, or asks for more than before while others do not: with bytes a second.
    pub(super) others: Vec<(String, f64)>,
    /// Bytes a second of all in this profile.
    pub(super) bytes_per_s: f64,
}

impl Loads {
    pub(super) fn of(base: &Analysis, now: &Analysis) -> Loads {
        let (before, after) = (loads(base), loads(now));
        let bytes_per_s: f64 = after.values().map(|load| load.bytes_per_s).sum();
        let iops: f64 = after.values().map(|load| load.iops).sum();
        let matters =
            |load: &Load| load.bytes_per_s >= OTHERS * bytes_per_s || load.iops >= OTHERS * iops;
        let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
        let others = new.filter(|(_, load)| matters(load));
        let others = others.map(|(name, load)| (name.clone(), load.bytes_per_s)).collect();
        let kept: Vec<(&Load, &Load)> =
            before.iter().filter_map(|(name, load)| Some((load, after.get(name)?))).collect();
        let times = |of: fn(&Load) -> f64| {
            let base: f64 = kept.iter().map(|(base, _)| of(base)).sum();
            let now: f64 = kept.iter().map(|(_, now)| of(now)).sum();
            if base > 0.0 { now / base } else { 1.0 }
        };
        Loads {
            iops: times(|load| load.iops),
            bytes: times(|load| load.bytes_per_s),
            depth: times(|load| load.depth as f64),
            closed: kept.iter().all(|(base, now)| base.closed && now.closed),
            others,
            bytes_per_s,
        }
    }

    /// Whether those who were there before ask for more: more a second, which a slower drive cannot
    /// bring about, or, where they wait for answers, more at once.
    pub(super) fn has_grown(&self) -> bool {
        self.iops >= GROWN || self.bytes >= GROWN || self.closed && self.depth >= GROWN
    }
}
