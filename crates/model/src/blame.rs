//! Who delayed whom: for each flow the time its requests waited for each resource, split by
//! whoever had it.
//!
//! A wait for a die or a channel may see several holders come and go. Each die and channel
//! keeps a running total of the time each holder had it; a waiting operation notes the
//! totals when its wait starts and subtracts them when it ends. The parts therefore add up
//! to the wait exactly.

use crate::io::FlowId;
use crate::stats::{Blame, Holder, Resource};
use mynah_stamp::{Span, Time};

/// Index of a holder: garbage collection, the mapping table, then the flows.
pub(crate) type HolderIndex = u16;

pub(crate) const GARBAGE_COLLECTION: HolderIndex = 0;
pub(crate) const MAPPING_TABLE: HolderIndex = 1;
const FIRST_FLOW: HolderIndex = 2;

pub(crate) fn flow_holder(flow: FlowId) -> HolderIndex {
    FIRST_FLOW + flow.0
}

fn holder(index: HolderIndex) -> Holder {
    match index {
        GARBAGE_COLLECTION => Holder::GarbageCollection,
        MAPPING_TABLE => Holder::MappingTable,
        flow => Holder::Flow(FlowId(flow - FIRST_FLOW)),
    }
}

/// Time waited, by victim flow, resource and holder.
#[derive(Default)]
pub(crate) struct BlameMatrix {
    holders: usize,
    waits: Vec<u64>,
}

impl BlameMatrix {
    /// Makes room for `holders` holders; keeps what was counted.
    pub(crate) fn grow(&mut self, holders: usize) {
        let old = std::mem::take(self);
        self.holders = holders;
        self.waits = vec![0; holders * Resource::ALL.len() * holders];
        for blame in old.iter_indexed() {
            self.add(blame.0, blame.1, blame.2, blame.3);
        }
    }

    #[inline]
    pub(crate) fn add(
        &mut self,
        victim: HolderIndex,
        resource: Resource,
        holder: HolderIndex,
        wait: Span,
    ) {
        let row = victim as usize * Resource::ALL.len() + resource as usize;
        self.waits[row * self.holders + holder as usize] += wait.as_ps();
    }

    fn iter_indexed(
        &self,
    ) -> impl Iterator<Item = (HolderIndex, Resource, HolderIndex, Span)> + '_ {
        let resources = Resource::ALL.len();
        self.waits.iter().enumerate().filter(|&(_, &wait)| wait > 0).map(move |(at, &wait)| {
            let (row, holder) = (at / self.holders, at % self.holders);
            let (victim, resource) = (row / resources, Resource::ALL[row % resources]);
            (victim as HolderIndex, resource, holder as HolderIndex, Span::from_ps(wait))
        })
    }

    /// Everything that flows waited, by victim, resource and holder.
    pub(crate) fn rows(&self) -> Vec<Blame> {
        self.iter_indexed()
            .filter(|&(victim, ..)| victim >= FIRST_FLOW)
            .map(|(victim, resource, by, wait)| Blame {
                victim: FlowId(victim - FIRST_FLOW),
                resource,
                holder: holder(by),
                wait,
            })
            .collect()
    }

    /// Forgets what was counted.
    pub(crate) fn clear(&mut self) {
        self.waits.fill(0);
    }
}

/// For each of a set of resources, the time each holder has had it.
#[derive(Default)]
pub(crate) struct Tenancy {
    holders: usize,
    held: Vec<u64>,
    /// Who has each resource now, and since when.
    current: Vec<Option<(HolderIndex, Time)>>,
}

impl Tenancy {
    pub(crate) fn new(resources: usize) -> Tenancy {
        Tenancy { holders: 0, held: vec![], current: vec![None; resources] }
    }

    /// Makes room for `holders` holders; keeps what was counted.
    pub(crate) fn grow(&mut self, holders: usize) {
        let mut held = vec![0; holders * self.current.len()];
        for (to, from) in held.chunks_mut(holders.max(1)).zip(self.held.chunks(self.holders.max(1)))
        {
            to[..from.len()].copy_from_slice(from);
        }
        self.held = held;
        self.holders = holders;
    }

    /// `holder` takes the free resource.
    #[inline]
    pub(crate) fn take(&mut self, resource: usize, holder: HolderIndex, now: Time) {
        debug_assert!(self.current[resource].is_none(), "resource {resource} is taken");
        self.current[resource] = Some((holder, now));
    }

    /// The resource becomes free; returns how long it was held.
    #[inline]
    pub(crate) fn release(&mut self, resource: usize, now: Time) -> Span {
        let Some((holder, since)) = self.current[resource].take() else {
            return Span::ZERO;
        };
        let span = now.since(since);
        self.held[resource * self.holders + holder as usize] += span.as_ps();
        span
    }

    /// Adds time to a holder's total directly.
    #[inline]
    pub(crate) fn add(&mut self, resource: usize, holder: usize, ps: u64) {
        self.held[resource * self.holders + holder] += ps;
    }

    /// Writes the totals at `now` to `into`, one for each holder.
    #[inline]
    pub(crate) fn snapshot(&self, resource: usize, now: Time, into: &mut [u64]) {
        let from = resource * self.holders;
        into.copy_from_slice(&self.held[from..from + self.holders]);
        if let Some((holder, since)) = self.current[resource] {
            into[holder as usize] += now.since(since).as_ps();
        }
    }

    /// How long the present holder has had the resource.
    pub(crate) fn running(&self, resource: usize, now: Time) -> Span {
        self.current[resource].map_or(Span::ZERO, |(_, since)| now.since(since))
    }

    /// The total of one holder at `now`.
    #[inline]
    pub(crate) fn total(&self, resource: usize, holder: usize, now: Time) -> u64 {
        let mut total = self.held[resource * self.holders + holder];
        if let Some((current, since)) = self.current[resource]
            && current as usize == holder
        {
            total += now.since(since).as_ps();
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_keeps_what_was_counted() {
        let mut matrix = BlameMatrix::default();
        matrix.grow(3);
        matrix.add(2, Resource::Die, GARBAGE_COLLECTION, Span::from_ns(7));
        matrix.grow(5);
        let rows = matrix.rows();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].victim, rows[0].resource), (FlowId(0), Resource::Die));
        assert_eq!((rows[0].holder, rows[0].wait), (Holder::GarbageCollection, Span::from_ns(7)));
    }

    #[test]
    fn a_wait_is_split_over_successive_holders() {
        let mut die = Tenancy::new(1);
        die.grow(4);
        let at = Time::from_ns;
        die.take(0, 2, at(0));
        let mut start = [0; 4];
        die.snapshot(0, at(10), &mut start);
        die.release(0, at(30));
        die.take(0, 3, at(30));
        let waited = |holder| die.total(0, holder, at(45)) - start[holder];
        assert_eq!((waited(2), waited(3)), (20_000, 15_000));
    }
}
