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

/// Times of four holders. Rows of times have as many of these as the holders need, so that
/// the loops over holders are short and even.
type Four = [u64; 4];

/// How many [`Four`]s hold the times of `holders` holders.
fn fours(holders: usize) -> usize {
    holders.div_ceil(4)
}

/// Copies a row. Short rows, nearly all of them, are not worth the call that a copy of
/// unknown length is.
#[inline]
fn copy(to: &mut [Four], from: &[Four]) {
    match (to, from) {
        ([to], [from]) => *to = *from,
        ([to_first, to_second], [first, second]) => (*to_first, *to_second) = (*first, *second),
        (to, from) => to.copy_from_slice(from),
    }
}

/// Adds the differences of two rows to a third; returns their sum. A total that does not
/// count the present tenant yet may be behind one that did: numbers wrap until it does.
#[inline]
fn add_differences(to: &mut [Four], now: &[Four], before: &[Four]) -> u64 {
    let mut sums = [0u64; 4];
    for ((to, now), before) in to.iter_mut().zip(now).zip(before) {
        for at in 0..4 {
            let difference = now[at].wrapping_sub(before[at]);
            to[at] = to[at].wrapping_add(difference);
            sums[at] = sums[at].wrapping_add(difference);
        }
    }
    sums.iter().fold(0, |sum, part| sum.wrapping_add(*part))
}

#[inline]
fn add_to(row: &mut [Four], holder: HolderIndex, span: Span) {
    let total = &mut row.as_flattened_mut()[usize::from(holder)];
    *total = total.wrapping_add(span.as_ps());
}

/// Time waited, by victim flow, resource and holder.
#[derive(Default)]
pub(crate) struct BlameMatrix {
    /// [`Four`]s of a row.
    fours: usize,
    waits: Vec<Four>,
}

impl BlameMatrix {
    /// Makes room for `holders` holders; keeps what was counted.
    pub(crate) fn grow(&mut self, holders: usize) {
        let old = std::mem::take(self);
        self.fours = fours(holders);
        self.waits = vec![[0; 4]; holders * Resource::ALL.len() * self.fours];
        for blame in old.iter_indexed() {
            self.add(blame.0, blame.1, blame.2, blame.3);
        }
    }

    #[inline]
    fn row(&mut self, victim: HolderIndex, resource: Resource) -> &mut [Four] {
        let row = usize::from(victim) * Resource::ALL.len() + resource as usize;
        &mut self.waits[row * self.fours..][..self.fours]
    }

    #[inline]
    pub(crate) fn add(
        &mut self,
        victim: HolderIndex,
        resource: Resource,
        holder: HolderIndex,
        wait: Span,
    ) {
        add_to(self.row(victim, resource), holder, wait);
    }

    fn iter_indexed(
        &self,
    ) -> impl Iterator<Item = (HolderIndex, Resource, HolderIndex, Span)> + '_ {
        let (resources, places) = (Resource::ALL.len(), self.fours * 4);
        let waits = self.waits.as_flattened().iter().enumerate();
        waits.filter(|&(_, &wait)| wait > 0).map(move |(at, &wait)| {
            let (row, holder) = (at / places, at % places);
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
        self.waits.as_flattened_mut().fill(0);
    }
}

/// Who has had the dies and the channels, for how long.
///
/// A *lane* is a die, or a chip where the dies of a chip do not interleave. For each lane
/// there are two rows of totals: the time each holder had it, and the time the lane was free
/// but its channel, which the holder had, kept it from starting. For each channel there is
/// one.
pub(crate) struct Ledger {
    /// [`Four`]s of a row.
    fours: usize,
    lanes: Vec<Four>,
    channels: Vec<Four>,
    lane_tenants: Vec<Tenant>,
    channel_tenants: Vec<Tenant>,
    /// The channel's totals when a lane began to be kept waiting by it.
    blocked_from: Vec<Four>,
    is_blocked: Vec<bool>,
    /// What the totals were when an operation's wait began.
    noted: [Vec<Four>; 2],
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
    #[inline]
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
            fours: 0,
            lanes: vec![],
            channels: vec![],
            lane_tenants: vec![None; lanes],
            channel_tenants: vec![None; channels],
            blocked_from: vec![],
            is_blocked: vec![false; lanes],
            noted: [vec![], vec![]],
        }
    }

    /// Makes room for `holders` holders; keeps what was counted.
    pub(crate) fn grow(&mut self, holders: usize) {
        let fours = fours(holders);
        if fours == self.fours {
            return;
        }
        let old = std::mem::replace(&mut self.fours, fours);
        let widen = |totals: &mut Vec<Four>, rows: usize| {
            let mut grown = vec![[0; 4]; rows * fours];
            if old > 0 {
                for (to, from) in grown.chunks_mut(fours).zip(totals.chunks(old)) {
                    to[..old].copy_from_slice(from);
                }
            }
            *totals = grown;
        };
        widen(&mut self.lanes, self.lane_tenants.len() * 2);
        widen(&mut self.channels, self.channel_tenants.len());
        widen(&mut self.blocked_from, self.is_blocked.len());
        for noted in &mut self.noted {
            let rows = noted.len().checked_div(old).unwrap_or(0);
            widen(noted, rows);
        }
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
        add_to(&mut self.lanes[lane * 2 * self.fours..], holder, span);
        span
    }

    /// The channel becomes free; returns how long it was held.
    #[inline]
    pub(crate) fn release_channel(&mut self, channel: usize, now: Time) -> Span {
        let Some((holder, since)) = self.channel_tenants[channel].take() else {
            return Span::ZERO;
        };
        let span = now.since(since);
        add_to(&mut self.channels[channel * self.fours..], holder, span);
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
            let fours = self.fours;
            let from = &mut self.blocked_from[lane * fours..][..fours];
            copy(from, &self.channels[channel * fours..][..fours]);
            if let Some((holder, since)) = self.channel_tenants[channel] {
                add_to(from, holder, now.since(since));
            }
        }
    }

    /// The lane does not wait for its channel any more.
    #[inline]
    pub(crate) fn end_blocked(&mut self, lane: usize, channel: usize, now: Time) {
        if self.is_blocked[lane] {
            self.is_blocked[lane] = false;
            let fours = self.fours;
            let blocked = &mut self.lanes[(lane * 2 + 1) * fours..][..fours];
            let from = &self.blocked_from[lane * fours..][..fours];
            add_differences(blocked, &self.channels[channel * fours..][..fours], from);
            if let Some((holder, since)) = self.channel_tenants[channel] {
                add_to(blocked, holder, now.since(since));
            }
        }
    }

    /// Forgets that the lane waits for its channel.
    pub(crate) fn forget_blocked(&mut self, lane: usize) {
        self.is_blocked[lane] = false;
    }

    /// Makes room to note the totals at the beginning of a wait; returns where.
    #[inline]
    fn make_room(&mut self, waiting: Waiting) -> (usize, usize) {
        let (kind, index) = waiting.place();
        let row = 2 * self.fours;
        if self.noted[kind].len() < (index + 1) * row {
            self.noted[kind].resize((index + 1) * row, [0; 4]);
        }
        (kind, index * row)
    }

    /// An operation begins to wait for its lane.
    #[inline]
    pub(crate) fn note_lane(&mut self, waiting: Waiting, lane: usize, channel: usize, now: Time) {
        let (fours, tenant) = (self.fours, self.lane_tenants[lane]);
        if self.is_blocked[lane] {
            // What it has waited so far is added up, so that the totals are those of now.
            self.end_blocked(lane, channel, now);
            self.begin_blocked(lane, channel, now);
        }
        let (kind, first) = self.make_room(waiting);
        let noted = &mut self.noted[kind][first..][..2 * fours];
        copy(noted, &self.lanes[lane * 2 * fours..][..2 * fours]);
        if let Some((holder, since)) = tenant {
            add_to(noted, holder, now.since(since));
        }
    }

    /// Data begins to wait for the channel.
    #[inline]
    pub(crate) fn note_channel(&mut self, waiting: Waiting, channel: usize, now: Time) {
        let (fours, tenant) = (self.fours, self.channel_tenants[channel]);
        let (kind, first) = self.make_room(waiting);
        let noted = &mut self.noted[kind][first..][..fours];
        copy(noted, &self.channels[channel * fours..][..fours]);
        if let Some((holder, since)) = tenant {
            add_to(noted, holder, now.since(since));
        }
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
        if self.is_blocked[lane] {
            self.end_blocked(lane, channel, now);
            self.begin_blocked(lane, channel, now);
        }
        let (kind, index) = waiting.place();
        let fours = self.fours;
        let noted = &self.noted[kind][index * 2 * fours..][..2 * fours];
        let totals = &self.lanes[lane * 2 * fours..][..2 * fours];
        let (held, blocked) = totals.split_at(fours);
        let (noted_held, noted_blocked) = noted.split_at(fours);
        let on_die = blame.row(victim, Resource::Die);
        let mut charged = add_differences(on_die, held, noted_held);
        if let Some((holder, since)) = self.lane_tenants[lane] {
            let span = now.since(since);
            add_to(on_die, holder, span);
            charged = charged.wrapping_add(span.as_ps());
        }
        let on_channel = blame.row(victim, Resource::Channel);
        charged.wrapping_add(add_differences(on_channel, blocked, noted_blocked))
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
        let (kind, index) = waiting.place();
        let fours = self.fours;
        let noted = &self.noted[kind][index * 2 * fours..][..fours];
        let totals = &self.channels[channel * fours..][..fours];
        let row = blame.row(victim, Resource::Channel);
        add_differences(row, totals, noted);
        if let Some((holder, since)) = self.channel_tenants[channel] {
            add_to(row, holder, now.since(since));
        }
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
