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
pub(crate) const FIRST_FLOW: HolderIndex = 2;

pub(crate) fn flow_holder(flow: FlowId) -> HolderIndex {
    FIRST_FLOW + flow.0
}

/// Who has this index.
pub(crate) fn holder(index: HolderIndex) -> Holder {
    match index {
        GARBAGE_COLLECTION => Holder::GarbageCollection,
        MAPPING_TABLE => Holder::MappingTable,
        flow => Holder::Flow(FlowId(flow - FIRST_FLOW)),
    }
}

/// Times of four holders. All tables are kept for four holders at a time, so that the loops
/// over holders are short and even.
type Four = [u64; 4];

/// Adds the differences of two rows to a third; returns their sum. A total that does not
/// count the present tenant yet may be behind one that did: numbers wrap until it does.
#[inline]
fn add_differences(to: &mut Four, now: &Four, before: &Four) -> u64 {
    let mut sum = 0u64;
    for at in 0..4 {
        let difference = now[at].wrapping_sub(before[at]);
        to[at] = to[at].wrapping_add(difference);
        sum = sum.wrapping_add(difference);
    }
    sum
}

/// Which four holders `holder` belongs to, and its place among them.
#[inline]
fn place(holder: HolderIndex) -> (usize, usize) {
    (usize::from(holder) / 4, usize::from(holder) % 4)
}

/// Time waited, by victim flow, resource and holder.
#[derive(Default)]
pub(crate) struct BlameMatrix {
    holders: usize,
    /// For each four holders the time that each victim waited for each resource.
    waits: Vec<Vec<Four>>,
}

#[inline]
fn row(victim: HolderIndex, resource: Resource) -> usize {
    usize::from(victim) * Resource::ALL.len() + resource as usize
}

impl BlameMatrix {
    /// Makes room for `holders` holders; keeps what was counted.
    pub(crate) fn grow(&mut self, holders: usize) {
        self.holders = holders;
        self.waits.resize(holders.div_ceil(4), vec![]);
        for waits in &mut self.waits {
            waits.resize(holders * Resource::ALL.len(), [0; 4]);
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
        let (four, at) = place(holder);
        let total = &mut self.waits[four][row(victim, resource)][at];
        *total = total.wrapping_add(wait.as_ps());
    }

    /// Everything that flows waited, by victim, resource and holder.
    pub(crate) fn rows(&self) -> Vec<Blame> {
        let holders = self.holders as HolderIndex;
        let mut rows = vec![];
        for victim in FIRST_FLOW..holders.max(FIRST_FLOW) {
            for resource in Resource::ALL {
                for by in 0..holders {
                    let (four, at) = place(by);
                    let wait = Span::from_ps(self.waits[four][row(victim, resource)][at]);
                    if !wait.is_zero() {
                        let victim = FlowId(victim - FIRST_FLOW);
                        rows.push(Blame { victim, resource, holder: holder(by), wait });
                    }
                }
            }
        }
        rows
    }

    /// Forgets what was counted.
    pub(crate) fn clear(&mut self) {
        self.waits.iter_mut().for_each(|waits| waits.fill([0; 4]));
    }
}

/// Who has had the dies and the channels, for how long.
///
/// A *lane* is a die, or a chip where the dies of a chip do not interleave.
pub(crate) struct Ledger {
    /// For each four holders.
    tables: Vec<Table>,
    lane_tenants: Vec<Tenant>,
    channel_tenants: Vec<Tenant>,
    is_blocked: Vec<bool>,
}

/// What four holders have had.
struct Table {
    lanes: Vec<LaneTotals>,
    channels: Vec<Four>,
    /// What a lane's totals, or in the first place a channel's, were when a wait began.
    noted: [Vec<[Four; 2]>; 2],
}

#[derive(Clone, Copy, Default)]
struct LaneTotals {
    /// How long each holder had the lane.
    held: Four,
    /// How long the lane was free but its channel, which the holder had, kept it from
    /// starting.
    blocked: Four,
    /// The channel's totals when it began to.
    blocked_from: Four,
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

impl Table {
    /// Where the totals at the beginning of a wait are noted.
    #[inline]
    fn note(&mut self, waiting: Waiting) -> &mut [Four; 2] {
        let (kind, index) = waiting.place();
        if index >= self.noted[kind].len() {
            self.make_room(kind, index);
        }
        &mut self.noted[kind][index]
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self, kind: usize, index: usize) {
        self.noted[kind].resize(index + 1, [[0; 4]; 2]);
    }
}

impl Ledger {
    pub(crate) fn new(lanes: usize, channels: usize) -> Ledger {
        Ledger {
            tables: vec![],
            lane_tenants: vec![None; lanes],
            channel_tenants: vec![None; channels],
            is_blocked: vec![false; lanes],
        }
    }

    /// Makes room for `holders` holders; keeps what was counted.
    pub(crate) fn grow(&mut self, holders: usize) {
        let (lanes, channels) = (self.lane_tenants.len(), self.channel_tenants.len());
        self.tables.resize_with(holders.div_ceil(4), || Table {
            lanes: vec![LaneTotals::default(); lanes],
            channels: vec![[0; 4]; channels],
            noted: [vec![], vec![]],
        });
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
        let (four, at) = place(holder);
        self.tables[four].lanes[lane].held[at] += span.as_ps();
        span
    }

    /// `holder` takes the lane over without a moment in between; returns how long it was held
    /// before.
    pub(crate) fn pass_lane(&mut self, lane: usize, holder: HolderIndex, now: Time) -> Span {
        let held = self.release_lane(lane, now);
        self.lane_tenants[lane] = Some((holder, now));
        held
    }

    /// The channel becomes free; returns how long it was held.
    #[inline]
    pub(crate) fn release_channel(&mut self, channel: usize, now: Time) -> Span {
        let Some((holder, since)) = self.channel_tenants[channel].take() else {
            return Span::ZERO;
        };
        let span = now.since(since);
        let (four, at) = place(holder);
        self.tables[four].channels[channel][at] += span.as_ps();
        span
    }

    /// How long the lane's and the channel's present holders have had them.
    pub(crate) fn lane_running(&self, lane: usize, now: Time) -> Span {
        self.lane_tenants[lane].map_or(Span::ZERO, |(_, since)| now.since(since))
    }

    /// Who has the lane, and since when.
    pub(crate) fn lane_tenant(&self, lane: usize) -> Option<(HolderIndex, Time)> {
        self.lane_tenants[lane]
    }

    /// Who has the channel, and since when.
    pub(crate) fn channel_tenant(&self, channel: usize) -> Option<(HolderIndex, Time)> {
        self.channel_tenants[channel]
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
            for table in &mut self.tables {
                table.lanes[lane].blocked_from = table.channels[channel];
            }
            if let Some((holder, since)) = self.channel_tenants[channel] {
                let (four, at) = place(holder);
                self.tables[four].lanes[lane].blocked_from[at] += now.since(since).as_ps();
            }
        }
    }

    /// The lane does not wait for its channel any more.
    #[inline(always)]
    pub(crate) fn end_blocked(&mut self, lane: usize, channel: usize, now: Time) {
        if self.is_blocked[lane] {
            self.is_blocked[lane] = false;
            self.add_blocked(lane, channel, now);
        }
    }

    #[inline(never)]
    fn add_blocked(&mut self, lane: usize, channel: usize, now: Time) {
        for table in &mut self.tables {
            let LaneTotals { blocked, blocked_from, .. } = &mut table.lanes[lane];
            add_differences(blocked, &table.channels[channel], blocked_from);
        }
        if let Some((holder, since)) = self.channel_tenants[channel] {
            let (four, at) = place(holder);
            let blocked = &mut self.tables[four].lanes[lane].blocked[at];
            *blocked = blocked.wrapping_add(now.since(since).as_ps());
        }
    }

    /// Forgets that the lane waits for its channel.
    pub(crate) fn forget_blocked(&mut self, lane: usize) {
        self.is_blocked[lane] = false;
    }

    /// Adds up what a lane has waited for its channel so far.
    #[inline]
    fn update_blocked(&mut self, lane: usize, channel: usize, now: Time) {
        if self.is_blocked[lane] {
            self.end_blocked(lane, channel, now);
            self.begin_blocked(lane, channel, now);
        }
    }

    /// An operation begins to wait for its lane.
    #[inline]
    pub(crate) fn note_lane(&mut self, waiting: Waiting, lane: usize, channel: usize, now: Time) {
        self.update_blocked(lane, channel, now);
        for table in &mut self.tables {
            let LaneTotals { held, blocked, .. } = table.lanes[lane];
            *table.note(waiting) = [held, blocked];
        }
        if let Some((holder, since)) = self.lane_tenants[lane] {
            let (four, at) = place(holder);
            self.tables[four].note(waiting)[0][at] += now.since(since).as_ps();
        }
    }

    /// Data begins to wait for the channel.
    #[inline]
    pub(crate) fn note_channel(&mut self, waiting: Waiting, channel: usize, now: Time) {
        for table in &mut self.tables {
            let totals = table.channels[channel];
            table.note(waiting)[0] = totals;
        }
        if let Some((holder, since)) = self.channel_tenants[channel] {
            let (four, at) = place(holder);
            self.tables[four].note(waiting)[0][at] += now.since(since).as_ps();
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
        self.update_blocked(lane, channel, now);
        let (kind, index) = waiting.place();
        let (on_die, on_channel) = (row(victim, Resource::Die), row(victim, Resource::Channel));
        let mut charged = 0u64;
        for (table, waits) in self.tables.iter().zip(&mut blame.waits) {
            let totals = &table.lanes[lane];
            let [held, blocked] = &table.noted[kind][index];
            let for_die = add_differences(&mut waits[on_die], &totals.held, held);
            let for_channel = add_differences(&mut waits[on_channel], &totals.blocked, blocked);
            charged = charged.wrapping_add(for_die).wrapping_add(for_channel);
        }
        if let Some((holder, since)) = self.lane_tenants[lane] {
            let span = now.since(since);
            blame.add(victim, Resource::Die, holder, span);
            charged = charged.wrapping_add(span.as_ps());
        }
        charged
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
        let row = row(victim, Resource::Channel);
        for (table, waits) in self.tables.iter().zip(&mut blame.waits) {
            let [noted, _] = &table.noted[kind][index];
            add_differences(&mut waits[row], &table.channels[channel], noted);
        }
        if let Some((holder, since)) = self.channel_tenants[channel] {
            blame.add(victim, Resource::Channel, holder, now.since(since));
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
