//! What flows do to one another: slowdown, fairness and weighted speedup (equations 1 and 2 of
//! Tavakkol et al., "MQSim", FAST 2018), and who made whom wait.

use mynah_model::stats::{Blame, Holder, Resource};
use mynah_stamp::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The time that one flow's requests waited for a resource while someone had it. Parts that
/// wait side by side add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlameEntry {
    /// The flow that waited.
    pub victim: String,
    /// What it waited for.
    pub resource: String,
    /// Who had it: a flow's name, `gc` or `mapping`; with several reclaim unit handles `gc for handle
    /// 1`, the one whose writes needed the room. Of a served drive also `admin commands`: what
    /// Format, Sanitize and Namespace Management left the drive to do.
    pub holder: String,
    /// For how long.
    pub wait_ns: f64,
}

/// A flow's slowdown: its mean latency shared over its mean latency alone. `None` unless
/// both are positive.
pub fn slowdown(shared_ns: f64, alone_ns: f64) -> Option<f64> {
    (shared_ns > 0.0 && alone_ns > 0.0).then(|| shared_ns / alone_ns)
}

/// Equation 1: the smallest slowdown over the largest; 1 is fair. `None` without flows.
pub fn fairness(slowdowns: &[f64]) -> Option<f64> {
    let min = slowdowns.iter().copied().reduce(f64::min)?;
    let max = slowdowns.iter().copied().reduce(f64::max)?;
    Some(min / max)
}

/// Equation 2: the sum of the slowdowns' inverses; as many as there are flows if none
/// slows another. `None` without flows.
pub fn weighted_speedup(slowdowns: &[f64]) -> Option<f64> {
    (!slowdowns.is_empty()).then(|| slowdowns.iter().map(|slowdown| 1.0 / slowdown).sum())
}

type BlameKey = (u16, Resource, Holder);

fn blame_key(blame: &Blame) -> BlameKey {
    (blame.victim.0, blame.resource, blame.holder)
}

/// The waiting between two moments: what `after` says beyond `before`, in the order of
/// victim, resource and holder, without zeros.
pub fn blame_since(before: &[Blame], after: &[Blame]) -> Vec<Blame> {
    let mut waits: BTreeMap<BlameKey, (Blame, Span)> = BTreeMap::new();
    for blame in after {
        waits.entry(blame_key(blame)).or_insert((*blame, Span::ZERO)).1 += blame.wait;
    }
    for blame in before {
        if let Some((_, wait)) = waits.get_mut(&blame_key(blame)) {
            *wait = wait.saturating_sub(blame.wait);
        }
    }
    waits
        .into_values()
        .filter(|(_, wait)| !wait.is_zero())
        .map(|(blame, wait)| Blame { wait, ..blame })
        .collect()
}

fn flow_name(id: u16, names: &[String]) -> String {
    names.get(id as usize).cloned().unwrap_or_else(|| format!("flow {id}"))
}

/// What results call whoever held something.
pub fn holder_name(holder: Holder, names: &[String]) -> String {
    match holder {
        Holder::Flow(id) => flow_name(id.0, names),
        Holder::GarbageCollection => "gc".to_owned(),
        Holder::CollectionFor(handle) => format!("gc for handle {handle}"),
        Holder::Folding => "folding".to_owned(),
        Holder::MappingTable => "mapping".to_owned(),
        Holder::Index => "index".to_owned(),
        Holder::Compaction => "compaction".to_owned(),
    }
}

/// Blame with the names of the flows; flows beyond `names` are called by their number.
pub fn blame_entries(blame: &[Blame], names: &[String]) -> Vec<BlameEntry> {
    blame
        .iter()
        .map(|blame| BlameEntry {
            victim: flow_name(blame.victim.0, names),
            resource: blame.resource.name().to_owned(),
            holder: holder_name(blame.holder, names),
            wait_ns: blame.wait.as_ns_f64(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_1_and_2() {
        let slowdowns = [slowdown(300.0, 100.0).unwrap(), slowdown(150.0, 100.0).unwrap()];
        assert_eq!(fairness(&slowdowns), Some(0.5));
        assert_eq!(weighted_speedup(&slowdowns), Some(1.0 / 3.0 + 1.0 / 1.5));
        assert_eq!(fairness(&[2.0, 2.0]), Some(1.0));
        assert_eq!(slowdown(1.0, 0.0), None);
        assert_eq!((fairness(&[]), weighted_speedup(&[])), (None, None));
    }

    #[test]
    fn only_waits_in_the_measurement_count() {
        let blame = |victim, holder, us| Blame {
            victim: mynah_model::io::FlowId(victim),
            resource: Resource::Die,
            holder,
            wait: Span::from_us(us),
        };
        let gc = Holder::GarbageCollection;
        let before = [blame(1, gc, 5), blame(0, gc, 2)];
        let after = [blame(1, gc, 7), blame(0, gc, 2), blame(0, Holder::MappingTable, 1)];
        let entries = blame_entries(&blame_since(&before, &after), &["a".into()]);
        let said: Vec<_> = entries
            .iter()
            .map(|e| (e.victim.as_str(), e.resource.as_str(), e.holder.as_str(), e.wait_ns))
            .collect();
        assert_eq!(said, [("a", "die", "mapping", 1_000.0), ("flow 1", "die", "gc", 2_000.0)]);
    }
}
