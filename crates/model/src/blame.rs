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

    /// Adds, for each holder, the difference of two totals; returns their sum.
    #[inline]
    fn add_differences(
        &mut self,
        victim: HolderIndex,
        resource: Resource,
        now: &[u64],
        before: &[u64],
    ) -> u64 {
        let row = victim as usize * Resource::ALL.len() + resource as usize;
        let waits = &mut self.waits[row * self.holders..][..self.holders];
        let mut sum = 0;
        for ((wait, now), before) in waits.iter_mut().zip(now).zip(before) {
            let difference = now.wrapping_sub(*before);
            *wait += difference;
            sum += difference;
        }
        sum
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

/// Who has had the dies and the channels, for how long.
///
/// A *lane* is a die, or a chip where the dies of a chip do not interleave. For each lane
/// there are two totals for each holder: the time the holder had it, and the time the lane
/// was free but its channel, which the holder had, kept it from starting. For each channel
/// there is one.
pub(crate) struct Ledger {
    /// Totals of one kind for one resource take this many places.
    stride: usize,
    lanes: Vec<u64>,
    channels: Vec<u64>,
    lane_tenants: Vec<Tenant>,
    channel_tenants: Vec<Tenant>,
    /// The channel's totals when a lane began to be kept waiting by it.
    blocked_from: Vec<u64>,
    is_blocked: Vec<bool>,
    /// What the totals were when an operation's wait began.
    noted: [Vec<u64>; 2],
    scratch: Vec<u64>,
}

/// Who has a resource now, and since when.
type Tenant = Option<(HolderIndex, Time)>;

/// Whose wait is noted.
#[derive(Clone, Copy)]
pub(crate) enum Waiting {
    Transaction(u32),
    Unit(u32),
}

impl Waiting {
    fn place(self) -> (usize, usize) {
        match self {
            Waiting::Transaction(index) => (0, index as usize),
            Waiting::Unit(index) => (1, index as usize),
        }
    }
}

impl Ledger {
    pub(crate) fn new(lanes: usize, channels: usize) -> Ledger {
        Ledger {
            stride: 0,
            lanes: vec![],
            channels: vec![],
            lane_tenants: vec![None; lanes],
            channel_tenants: vec![None; channels],
            blocked_from: vec![],
            is_blocked: vec![false; lanes],
            noted: [vec![], vec![]],
            scratch: vec![],
        }
    }

    /// Makes room for `holders` holders; keeps what was counted.
    pub(crate) fn grow(&mut self, holders: usize) {
        // Multiples of four keep the loops over holders short and even.
        let stride = holders.next_multiple_of(4);
        if stride == self.stride {
            return;
        }
        let old = std::mem::replace(&mut self.stride, stride);
        let restride = |totals: &mut Vec<u64>, rows: usize| {
            let mut grown = vec![0; rows * stride];
            if old > 0 {
                for (to, from) in grown.chunks_mut(stride).zip(totals.chunks(old)) {
                    to[..old].copy_from_slice(from);
                }
            }
            *totals = grown;
        };
        restride(&mut self.lanes, self.lane_tenants.len() * 2);
        restride(&mut self.channels, self.channel_tenants.len());
        restride(&mut self.blocked_from, self.is_blocked.len());
        for noted in &mut self.noted {
            let rows = noted.len().checked_div(old).unwrap_or(0);
            restride(noted, rows);
        }
        self.scratch = vec![0; 2 * stride];
    }

    /// `holder` takes the free lane and its free channel for an operation.
    #[inline]
    pub(crate) fn take_lane(
        &mut self,
        lane: usize,
        channel: usize,
        holder: HolderIndex,
        now: Time,
    ) {
        self.end_blocked(lane, channel, now);
        debug_assert!(self.lane_tenants[lane].is_none(), "lane {lane} is taken");
        self.lane_tenants[lane] = Some((holder, now));
        self.take_channel(channel, holder, now);
    }

    /// `holder` takes the free channel.
    #[inline]
    pub(crate) fn take_channel(&mut self, channel: usize, holder: HolderIndex, now: Time) {
        debug_assert!(self.channel_tenants[channel].is_none(), "channel {channel} is taken");
        self.channel_tenants[channel] = Some((holder, now));
    }

    /// The lane becomes free; returns how long it was held.
    #[inline]
    pub(crate) fn release_lane(&mut self, lane: usize, now: Time) -> Span {
        let Some((holder, since)) = self.lane_tenants[lane].take() else { return Span::ZERO };
        let span = now.since(since);
        self.lanes[lane * 2 * self.stride + usize::from(holder)] += span.as_ps();
        span
    }

    /// The channel becomes free; returns how long it was held.
    #[inline]
    pub(crate) fn release_channel(&mut self, channel: usize, now: Time) -> Span {
        let Some((holder, since)) = self.channel_tenants[channel].take() else {
            return Span::ZERO;
        };
        let span = now.since(since);
        self.channels[channel * self.stride + usize::from(holder)] += span.as_ps();
        span
    }

    /// How long the lane's and the channel's present holders have had them.
    pub(crate) fn lane_running(&self, lane: usize, now: Time) -> Span {
        self.lane_tenants[lane].map_or(Span::ZERO, |(_, since)| now.since(since))
    }

    /// See [`Ledger::lane_running`].
    pub(crate) fn channel_running(&self, channel: usize, now: Time) -> Span {
        self.channel_tenants[channel].map_or(Span::ZERO, |(_, since)| now.since(since))
    }

    /// The free lane wants to start something, and waits for its channel.
    #[inline]
    pub(crate) fn begin_blocked(&mut self, lane: usize, channel: usize, now: Time) {
        if !self.is_blocked[lane] {
            self.is_blocked[lane] = true;
            let stride = self.stride;
            let from = &mut self.blocked_from[lane * stride..][..stride];
            from.copy_from_slice(&self.channels[channel * stride..][..stride]);
            if let Some((holder, since)) = self.channel_tenants[channel] {
                from[usize::from(holder)] += now.since(since).as_ps();
            }
        }
    }

    #[inline]
    fn end_blocked(&mut self, lane: usize, channel: usize, now: Time) {
        if self.is_blocked[lane] {
            self.is_blocked[lane] = false;
            let stride = self.stride;
            let blocked = &mut self.lanes[(lane * 2 + 1) * stride..][..stride];
            let from = &self.blocked_from[lane * stride..][..stride];
            let totals = &self.channels[channel * stride..][..stride];
            for ((blocked, total), from) in blocked.iter_mut().zip(totals).zip(from) {
                *blocked = blocked.wrapping_add(total.wrapping_sub(*from));
            }
            if let Some((holder, since)) = self.channel_tenants[channel] {
                let place = &mut blocked[usize::from(holder)];
                *place = place.wrapping_add(now.since(since).as_ps());
            }
        }
    }

    /// Forgets that the lane waits for its channel.
    pub(crate) fn forget_blocked(&mut self, lane: usize) {
        self.is_blocked[lane] = false;
    }

    /// Writes a lane's totals, as they are now, to `scratch`.
    #[inline]
    fn lane_totals(&mut self, lane: usize, channel: usize, now: Time) {
        let stride = self.stride;
        let totals = &mut self.scratch[..2 * stride];
        totals.copy_from_slice(&self.lanes[lane * 2 * stride..][..2 * stride]);
        if let Some((holder, since)) = self.lane_tenants[lane] {
            totals[usize::from(holder)] += now.since(since).as_ps();
        }
        if self.is_blocked[lane] {
            let blocked = &mut totals[stride..];
            let from = &self.blocked_from[lane * stride..][..stride];
            let channel_totals = &self.channels[channel * stride..][..stride];
            for ((blocked, total), from) in blocked.iter_mut().zip(channel_totals).zip(from) {
                *blocked = blocked.wrapping_add(total.wrapping_sub(*from));
            }
            if let Some((holder, since)) = self.channel_tenants[channel] {
                let place = &mut blocked[usize::from(holder)];
                *place = place.wrapping_add(now.since(since).as_ps());
            }
        }
    }

    #[inline]
    fn channel_totals(&mut self, channel: usize, now: Time) {
        let stride = self.stride;
        let totals = &mut self.scratch[..stride];
        totals.copy_from_slice(&self.channels[channel * stride..][..stride]);
        if let Some((holder, since)) = self.channel_tenants[channel] {
            totals[usize::from(holder)] += now.since(since).as_ps();
        }
    }

    #[inline]
    fn note(&mut self, waiting: Waiting, parts: usize) {
        let (kind, index) = waiting.place();
        let row = 2 * self.stride;
        let noted = &mut self.noted[kind];
        if noted.len() < (index + 1) * row {
            noted.resize((index + 1) * row, 0);
        }
        let places = parts * self.stride;
        noted[index * row..][..places].copy_from_slice(&self.scratch[..places]);
    }

    /// An operation begins to wait for its lane.
    #[inline]
    pub(crate) fn note_lane(&mut self, waiting: Waiting, lane: usize, channel: usize, now: Time) {
        self.lane_totals(lane, channel, now);
        self.note(waiting, 2);
    }

    /// Data begins to wait for the channel.
    #[inline]
    pub(crate) fn note_channel(&mut self, waiting: Waiting, channel: usize, now: Time) {
        self.channel_totals(channel, now);
        self.note(waiting, 1);
    }

    /// A noted wait for a lane ends: charges it; returns the time charged.
    #[inline]
    pub(crate) fn charge_lane(
        &mut self,
        waiting: Waiting,
        lane: usize,
        channel: usize,
        now: Time,
        victim: HolderIndex,
        blame: &mut BlameMatrix,
    ) -> u64 {
        self.lane_totals(lane, channel, now);
        let (kind, index) = waiting.place();
        let stride = self.stride;
        let noted = &self.noted[kind][index * 2 * stride..][..2 * stride];
        let (held, blocked) = self.scratch.split_at(stride);
        blame.add_differences(victim, Resource::Die, held, &noted[..stride])
            + blame.add_differences(victim, Resource::Channel, blocked, &noted[stride..])
    }

    /// A noted wait for a channel ends: charges it.
    #[inline]
    pub(crate) fn charge_channel(
        &mut self,
        waiting: Waiting,
        channel: usize,
        now: Time,
        victim: HolderIndex,
        blame: &mut BlameMatrix,
    ) {
        self.channel_totals(channel, now);
        let (kind, index) = waiting.place();
        let stride = self.stride;
        let noted = &self.noted[kind][index * 2 * stride..][..stride];
        blame.add_differences(victim, Resource::Channel, &self.scratch[..stride], noted);
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
        let mut ledger = Ledger::new(1, 1);
        let mut matrix = BlameMatrix::default();
        ledger.grow(5);
        matrix.grow(5);
        let at = Time::from_ns;
        let wait = Waiting::Transaction(3);
        ledger.take_lane(0, 0, 2, at(0));
        ledger.release_channel(0, at(1));
        ledger.note_lane(wait, 0, 0, at(10));
        ledger.release_lane(0, at(30));
        // The channel, which flow 4 has, keeps the lane from starting until 34.
        ledger.take_channel(0, 4, at(29));
        ledger.begin_blocked(0, 0, at(30));
        ledger.release_channel(0, at(34));
        ledger.take_lane(0, 0, 3, at(34));
        let waited = ledger.charge_lane(wait, 0, 0, at(45), 2, &mut matrix);
        assert_eq!(waited, 35_000);
        let mut rows: Vec<_> = matrix
            .rows()
            .into_iter()
            .map(|row| (row.resource, row.holder, row.wait.as_ps() / 1000))
            .collect();
        rows.sort_unstable();
        let flow = |n| Holder::Flow(FlowId(n));
        assert_eq!(
            rows,
            [
                (Resource::Channel, flow(2), 4),
                (Resource::Die, flow(0), 20),
                (Resource::Die, flow(1), 11),
            ]
        );
    }
}
