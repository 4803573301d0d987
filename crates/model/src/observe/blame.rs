//! Who delayed whom: for each flow the time its requests waited for each resource, split by
//! whoever had it.
//!
//! A wait for a die or a channel may see several holders come and go. Each die and channel
//! keeps a running total of the time each holder had it; a waiting operation notes the
//! totals when its wait starts and subtracts them when it ends. The parts therefore add up
//! to the wait exactly.

use crate::io::FlowId;
use crate::number::{Channel, Lane, PoolIndex, WorkIndex, WriteIndex};
use crate::observe::stats::{Blame, Holder, Resource};
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};

/// Index of a holder: garbage collection, the mapping table, where there are key-value namespaces
/// their index and its compaction, where there are several reclaim unit handles the collections for
/// the writes of each, then the flows.
pub(crate) type HolderIndex = u16;

pub(crate) const GARBAGE_COLLECTION: HolderIndex = 0;
pub(crate) const MAPPING_TABLE: HolderIndex = 1;
/// Of a drive with a pSLC write cache, which has neither key-value namespaces nor several handles.
pub(crate) const FOLDING: HolderIndex = 2;
/// Of a drive with key-value namespaces.
pub(crate) const INDEX: HolderIndex = 2;
pub(crate) const COMPACTION: HolderIndex = 3;

/// Collection for the writes of the first of several reclaim unit handles. There are no key-value
/// namespaces beside those.
const FIRST_HANDLE: HolderIndex = MAPPING_TABLE + 1;

/// Who holds the drive while it collects for the writes of one of several reclaim unit handles.
#[inline]
pub(crate) fn collection_for(handle: u8) -> HolderIndex {
    FIRST_HANDLE + HolderIndex::from(handle)
}

/// Which holders are flows. A drive without key-value namespaces has no holders for those: so two
/// flows are among the first four ([`Four`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flows {
    first: HolderIndex,
    has_pairs: bool,
    folds: bool,
}

impl Flows {
    /// The flows of a drive with so many reclaim unit handles, one if it has no data placement.
    pub(crate) fn new(has_pairs: bool, folds: bool, handles: u8) -> Flows {
        let first = match (has_pairs, handles) {
            _ if folds => FOLDING + 1,
            (true, _) => COMPACTION + 1,
            (false, 0 | 1) => MAPPING_TABLE + 1,
            (false, several) => collection_for(several),
        };
        Flows { first, has_pairs, folds }
    }

    /// The holder of the first flow.
    #[inline]
    pub(crate) fn first(self) -> HolderIndex {
        self.first
    }

    #[inline]
    pub(crate) fn holder_of(self, flow: FlowId) -> HolderIndex {
        self.first + flow.0
    }

    pub(crate) fn holder(self, index: HolderIndex) -> Holder {
        match index.checked_sub(self.first) {
            Some(flow) => Holder::Flow(FlowId(flow)),
            None => match index {
                GARBAGE_COLLECTION => Holder::GarbageCollection,
                MAPPING_TABLE => Holder::MappingTable,
                FOLDING if self.folds => Holder::Folding,
                _ if !self.has_pairs => Holder::CollectionFor((index - FIRST_HANDLE) as u8),
                INDEX => Holder::Index,
                _ => Holder::Compaction,
            },
        }
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
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct BlameMatrix {
    holders: usize,
    /// The time that each victim waited for each resource, while one of the first four holders
    /// had it; and the same for each four others.
    first: Vec<Four>,
    others: Vec<Vec<Four>>,
}

#[inline]
fn row(victim: HolderIndex, resource: Resource) -> usize {
    usize::from(victim) * Resource::ALL.len() + resource as usize
}

impl BlameMatrix {
    /// Makes room for `holders` holders; keeps what was counted.
    pub(crate) fn grow(&mut self, holders: usize) {
        self.holders = holders;
        self.others.resize(holders.div_ceil(4).saturating_sub(1), vec![]);
        for waits in self.others.iter_mut().chain([&mut self.first]) {
            waits.resize(holders * Resource::ALL.len(), [0; 4]);
        }
    }

    /// The times that one of four holders had what was waited for.
    #[inline]
    fn waits(&mut self, four: usize) -> &mut [Four] {
        match four {
            0 => &mut self.first,
            four => &mut self.others[four - 1],
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
        let total = &mut self.waits(four)[row(victim, resource)][at];
        *total = total.wrapping_add(wait.as_ps());
    }

    /// Everything that flows waited, by victim, resource and holder.
    pub(crate) fn rows(&self, flows: Flows) -> Vec<Blame> {
        let holders = self.holders as HolderIndex;
        let mut rows = vec![];
        for victim in flows.first..holders.max(flows.first) {
            for resource in Resource::ALL {
                for by in 0..holders {
                    let (four, at) = place(by);
                    let waits = if four == 0 { &self.first } else { &self.others[four - 1] };
                    let wait = Span::from_ps(waits[row(victim, resource)][at]);
                    if !wait.is_zero() {
                        let victim = FlowId(victim - flows.first);
                        rows.push(Blame { victim, resource, holder: flows.holder(by), wait });
                    }
                }
            }
        }
        rows
    }

    pub(crate) fn clear(&mut self) {
        for waits in self.others.iter_mut().chain([&mut self.first]) {
            waits.fill([0; 4]);
        }
    }
}

/// Who has had the dies and the channels, for how long.
///
/// A *lane* is a die, or a chip where the dies of a chip do not interleave. Nearly always there
/// are no more than four holders: their times stand with the rest of a lane or channel, those
/// of others in tables of their own.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ledger {
    lanes: Vec<LaneState>,
    channels: Vec<ChannelState>,
    noted: [Vec<Noted>; 2],
    /// For each four of the other holders.
    others: Vec<Table>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct LaneState {
    tenant: Tenant,
    /// It is free but waits for its channel.
    is_blocked: bool,
    totals: LaneTotals,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct ChannelState {
    tenant: Tenant,
    totals: Four,
}

/// What a lane's totals (held, blocked), or in the first place a channel's, were when a wait began.
type Noted = [Four; 2];

/// What four holders have had.
#[derive(Serialize, Deserialize)]
struct Table {
    lanes: Vec<LaneTotals>,
    channels: Vec<Four>,
    noted: [Vec<Noted>; 2],
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct LaneTotals {
    /// How long each holder had the lane.
    held: Four,
    /// How long the lane was free but its channel, which the holder had, kept it from
    /// starting.
    blocked: Four,
    /// The channel's totals when it began to.
    blocked_from: Four,
}

impl LaneTotals {
    #[inline]
    fn end_blocked(&mut self, channel: &Four) {
        add_differences(&mut self.blocked, channel, &self.blocked_from);
    }
}

/// Who has a resource now, and since when.
type Tenant = Option<(HolderIndex, Time)>;

/// A flash operation that waits for its die or channel.
#[derive(Clone, Copy)]
pub(crate) enum Waiting {
    Work(WorkIndex),
    Program(WriteIndex),
}

impl Waiting {
    #[inline]
    fn place(self) -> (usize, usize) {
        match self {
            Waiting::Work(index) => (0, index.index()),
            Waiting::Program(index) => (1, index.index()),
        }
    }
}

/// Where the totals at the beginning of a wait are noted.
#[inline]
fn note(noted: &mut [Vec<Noted>; 2], waiting: Waiting) -> &mut Noted {
    let (kind, index) = waiting.place();
    let noted = &mut noted[kind];
    if index >= noted.len() {
        make_room(noted, index);
    }
    &mut noted[index]
}

#[cold]
#[inline(never)]
fn make_room(noted: &mut Vec<Noted>, index: usize) {
    noted.resize(index + 1, [[0; 4]; 2]);
}

impl Ledger {
    pub(crate) fn new(lanes: usize, channels: usize) -> Ledger {
        Ledger {
            lanes: vec![LaneState::default(); lanes],
            channels: vec![ChannelState::default(); channels],
            noted: [vec![], vec![]],
            others: vec![],
        }
    }

    /// Makes room for `holders` holders; keeps what was counted. Waits may be under way: those
    /// who come now had nothing when they began.
    pub(crate) fn grow(&mut self, holders: usize) {
        let (lanes, channels) = (self.lanes.len(), self.channels.len());
        let noted = self.noted.each_ref().map(|noted| vec![Noted::default(); noted.len()]);
        self.others.resize_with(holders.div_ceil(4).saturating_sub(1), || Table {
            lanes: vec![LaneTotals::default(); lanes],
            channels: vec![[0; 4]; channels],
            noted: noted.clone(),
        });
    }

    /// What `holder` has had of a lane.
    #[inline]
    fn lane_totals(&mut self, lane: Lane, holder: HolderIndex) -> (&mut LaneTotals, usize) {
        match place(holder) {
            (0, at) => (&mut self.lanes[lane].totals, at),
            (four, at) => (&mut self.others[four - 1].lanes[lane], at),
        }
    }

    /// `holder` takes the free lane and its free channel for an operation.
    #[inline]
    pub(crate) fn take_lane(
        &mut self,
        lane: Lane,
        channel: Channel,
        holder: HolderIndex,
        now: Time,
    ) {
        self.end_blocked(lane, channel, now);
        debug_assert!(self.lanes[lane].tenant.is_none(), "lane {lane} is taken");
        self.lanes[lane].tenant = Some((holder, now));
        self.take_channel(channel, holder, now);
    }

    /// `holder` takes the free channel.
    #[inline]
    pub(crate) fn take_channel(&mut self, channel: Channel, holder: HolderIndex, now: Time) {
        debug_assert!(self.channels[channel].tenant.is_none(), "channel {channel} is taken");
        self.channels[channel].tenant = Some((holder, now));
    }

    /// The lane becomes free; returns how long it was held.
    #[inline]
    pub(crate) fn release_lane(&mut self, lane: Lane, now: Time) -> Span {
        let Some((holder, since)) = self.lanes[lane].tenant.take() else { return Span::ZERO };
        let span = now.since(since);
        let (totals, at) = self.lane_totals(lane, holder);
        totals.held[at] += span.as_ps();
        span
    }

    /// `holder` takes the lane over without a moment in between; returns how long it was held
    /// before.
    pub(crate) fn pass_lane(&mut self, lane: Lane, holder: HolderIndex, now: Time) -> Span {
        let held = self.release_lane(lane, now);
        self.lanes[lane].tenant = Some((holder, now));
        held
    }

    /// The channel becomes free; returns how long it was held.
    #[inline]
    pub(crate) fn release_channel(&mut self, channel: Channel, now: Time) -> Span {
        let state = &mut self.channels[channel];
        let Some((holder, since)) = state.tenant.take() else { return Span::ZERO };
        let span = now.since(since);
        match place(holder) {
            (0, at) => state.totals[at] += span.as_ps(),
            (four, at) => self.others[four - 1].channels[channel][at] += span.as_ps(),
        }
        span
    }

    /// How long the lane's present holder has had it.
    pub(crate) fn lane_running(&self, lane: Lane, now: Time) -> Span {
        self.lanes[lane].tenant.map_or(Span::ZERO, |(_, since)| now.since(since))
    }

    /// Who has the lane, and since when.
    pub(crate) fn lane_tenant(&self, lane: Lane) -> Option<(HolderIndex, Time)> {
        self.lanes[lane].tenant
    }

    /// Who has the channel, and since when.
    pub(crate) fn channel_tenant(&self, channel: Channel) -> Option<(HolderIndex, Time)> {
        self.channels[channel].tenant
    }

    /// How long the channel's present holder has had it.
    pub(crate) fn channel_running(&self, channel: Channel, now: Time) -> Span {
        self.channels[channel].tenant.map_or(Span::ZERO, |(_, since)| now.since(since))
    }

    /// The free lane wants to start something, and waits for its channel.
    #[inline(always)]
    pub(crate) fn begin_blocked(&mut self, lane: Lane, channel: Channel, now: Time) {
        let state = &mut self.lanes[lane];
        if !state.is_blocked {
            state.is_blocked = true;
            let ChannelState { tenant, totals } = &self.channels[channel];
            state.totals.blocked_from = *totals;
            for table in &mut self.others {
                table.lanes[lane].blocked_from = table.channels[channel];
            }
            if let Some((holder, since)) = *tenant {
                let (totals, at) = self.lane_totals(lane, holder);
                totals.blocked_from[at] += now.since(since).as_ps();
            }
        }
    }

    /// The lane does not wait for its channel any more.
    #[inline(always)]
    pub(crate) fn end_blocked(&mut self, lane: Lane, channel: Channel, now: Time) {
        if self.lanes[lane].is_blocked {
            self.add_blocked(lane, channel, now);
        }
    }

    #[inline(never)]
    fn add_blocked(&mut self, lane: Lane, channel: Channel, now: Time) {
        let state = &mut self.lanes[lane];
        state.is_blocked = false;
        let ChannelState { tenant, totals } = &self.channels[channel];
        state.totals.end_blocked(totals);
        for table in &mut self.others {
            table.lanes[lane].end_blocked(&table.channels[channel]);
        }
        if let Some((holder, since)) = *tenant {
            let (totals, at) = self.lane_totals(lane, holder);
            totals.blocked[at] = totals.blocked[at].wrapping_add(now.since(since).as_ps());
        }
    }

    /// Forgets that the lane waits for its channel.
    pub(crate) fn forget_blocked(&mut self, lane: Lane) {
        self.lanes[lane].is_blocked = false;
    }

    /// Adds up what a lane has waited for its channel so far.
    #[inline(always)]
    fn update_blocked(&mut self, lane: Lane, channel: Channel, now: Time) {
        if self.lanes[lane].is_blocked {
            self.end_blocked(lane, channel, now);
            self.begin_blocked(lane, channel, now);
        }
    }

    /// The tenant has had what somebody begins to wait for since `since`.
    #[inline]
    fn note_tenant(&mut self, waiting: Waiting, tenant: Tenant, now: Time) {
        if let Some((holder, since)) = tenant {
            let (noted, at) = match place(holder) {
                (0, at) => (note(&mut self.noted, waiting), at),
                (four, at) => (note(&mut self.others[four - 1].noted, waiting), at),
            };
            noted[0][at] += now.since(since).as_ps();
        }
    }

    /// An operation begins to wait for its lane.
    #[inline(always)]
    pub(crate) fn note_lane(&mut self, waiting: Waiting, lane: Lane, channel: Channel, now: Time) {
        self.update_blocked(lane, channel, now);
        let LaneState { tenant, totals, .. } = &self.lanes[lane];
        *note(&mut self.noted, waiting) = [totals.held, totals.blocked];
        for table in &mut self.others {
            let LaneTotals { held, blocked, .. } = table.lanes[lane];
            *note(&mut table.noted, waiting) = [held, blocked];
        }
        self.note_tenant(waiting, *tenant, now);
    }

    /// Data begins to wait for the channel.
    #[inline(always)]
    pub(crate) fn note_channel(&mut self, waiting: Waiting, channel: Channel, now: Time) {
        let ChannelState { tenant, totals } = &self.channels[channel];
        note(&mut self.noted, waiting)[0] = *totals;
        for table in &mut self.others {
            note(&mut table.noted, waiting)[0] = table.channels[channel];
        }
        self.note_tenant(waiting, *tenant, now);
    }

    /// A noted wait for a lane ends: charges it; returns the time charged.
    #[inline(always)]
    pub(crate) fn charge_lane(
        &mut self,
        waiting: Waiting,
        lane: Lane,
        channel: Channel,
        now: Time,
        victim: HolderIndex,
        blame: &mut BlameMatrix,
    ) -> u64 {
        self.update_blocked(lane, channel, now);
        let (kind, index) = waiting.place();
        let (on_die, on_channel) = (row(victim, Resource::Die), row(victim, Resource::Channel));
        let mut charged = 0u64;
        let mut charge = |totals: &LaneTotals, [held, blocked]: &Noted, waits: &mut [Four]| {
            let for_die = add_differences(&mut waits[on_die], &totals.held, held);
            let for_channel = add_differences(&mut waits[on_channel], &totals.blocked, blocked);
            charged = charged.wrapping_add(for_die).wrapping_add(for_channel);
        };
        let state = &self.lanes[lane];
        charge(&state.totals, &self.noted[kind][index], &mut blame.first);
        for (table, waits) in self.others.iter().zip(&mut blame.others) {
            charge(&table.lanes[lane], &table.noted[kind][index], waits);
        }
        if let Some((holder, since)) = state.tenant {
            let span = now.since(since);
            blame.add(victim, Resource::Die, holder, span);
            charged = charged.wrapping_add(span.as_ps());
        }
        charged
    }

    /// A noted wait for a channel ends: charges it.
    #[inline(always)]
    pub(crate) fn charge_channel(
        &mut self,
        waiting: Waiting,
        channel: Channel,
        now: Time,
        victim: HolderIndex,
        blame: &mut BlameMatrix,
    ) {
        let (kind, index) = waiting.place();
        let row = row(victim, Resource::Channel);
        let state = &self.channels[channel];
        add_differences(&mut blame.first[row], &state.totals, &self.noted[kind][index][0]);
        for (table, waits) in self.others.iter().zip(&mut blame.others) {
            add_differences(
                &mut waits[row],
                &table.channels[channel],
                &table.noted[kind][index][0],
            );
        }
        if let Some((holder, since)) = state.tenant {
            blame.add(victim, Resource::Channel, holder, now.since(since));
        }
    }

    /// Of a wait for a lane that ends now: how much of it was for the die, or for the channel that kept
    /// it from starting, and who had that for longest.
    pub(super) fn longest_of_lane(
        &self,
        waiting: Waiting,
        lane: Lane,
        resource: Resource,
        now: Time,
    ) -> Shares {
        let (kind, index) = waiting.place();
        let (at, of): (usize, fn(&LaneTotals) -> &Four) = match resource {
            Resource::Die => (0, |totals| &totals.held),
            _ => (1, |totals| &totals.blocked),
        };
        let state = &self.lanes[lane];
        let tenant = state.tenant.filter(|_| resource == Resource::Die);
        let mut shares = Shares { now, tenant, ..Shares::default() };
        shares.add(0, of(&state.totals), &self.noted[kind][index][at]);
        for (four, table) in (1..).zip(&self.others) {
            shares.add(four, of(&table.lanes[lane]), &table.noted[kind][index][at]);
        }
        shares
    }

    /// Who had a channel, and for how long, while `waiting` waited for it.
    pub(super) fn longest_of_channel(
        &self,
        waiting: Waiting,
        channel: Channel,
        now: Time,
    ) -> Shares {
        let (kind, index) = waiting.place();
        let state = &self.channels[channel];
        let mut shares = Shares { now, tenant: state.tenant, ..Shares::default() };
        shares.add(0, &state.totals, &self.noted[kind][index][0]);
        for (four, table) in (1..).zip(&self.others) {
            shares.add(four, &table.channels[channel], &table.noted[kind][index][0]);
        }
        shares
    }
}

/// What holders had of a wait.
#[derive(Default)]
pub(super) struct Shares {
    now: Time,
    tenant: Tenant,
    /// All of them together, in picoseconds; wraps until the tenant's share is in.
    sum: u64,
    most: (u64, HolderIndex),
}

impl Shares {
    /// Adds those of four holders.
    fn add(&mut self, four: HolderIndex, now: &Four, before: &Four) {
        for at in 0..4 {
            let holder = four * 4 + at as HolderIndex;
            let mut share = now[at].wrapping_sub(before[at]);
            if let Some((tenant, since)) = self.tenant
                && tenant == holder
            {
                share = share.wrapping_add(self.now.since(since).as_ps());
            }
            self.sum = self.sum.wrapping_add(share);
            if share > self.most.0 {
                self.most = (share, holder);
            }
        }
    }

    /// How long the wait was, who had it for longest, and how long.
    pub(super) fn longest(&self) -> (Span, HolderIndex, Span) {
        (Span::from_ps(self.sum), self.most.1, Span::from_ps(self.most.0))
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
        let rows = matrix.rows(Flows::new(false, false, 1));
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].victim, rows[0].resource), (FlowId(0), Resource::Die));
        assert_eq!((rows[0].holder, rows[0].wait), (Holder::GarbageCollection, Span::from_ns(7)));
    }

    #[test]
    fn holders_may_come_while_somebody_waits() {
        let mut ledger = Ledger::new(1, 1);
        let mut matrix = BlameMatrix::default();
        ledger.grow(3);
        matrix.grow(3);
        let at = Time::from_ns;
        let (wait, data) = (Waiting::Work(WorkIndex(3)), Waiting::Program(WriteIndex(5)));
        ledger.take_lane(Lane(0), Channel(0), 2, at(0));
        ledger.note_lane(wait, Lane(0), Channel(0), at(10));
        ledger.note_channel(data, Channel(0), at(10));
        ledger.grow(9);
        matrix.grow(9);
        ledger.release_channel(Channel(0), at(15));
        ledger.release_lane(Lane(0), at(20));
        ledger.take_lane(Lane(0), Channel(0), 8, at(20));
        ledger.charge_channel(data, Channel(0), at(25), 2, &mut matrix);
        assert_eq!(ledger.charge_lane(wait, Lane(0), Channel(0), at(50), 2, &mut matrix), 40_000);
        let rows = matrix.rows(Flows::new(false, false, 1)).into_iter();
        let waits: Vec<_> = rows.map(|row| (row.resource, row.wait.as_ps() / 1000)).collect();
        let (die, channel) = (Resource::Die, Resource::Channel);
        assert_eq!(waits.iter().filter(|(of, _)| *of == die).map(|(_, ns)| ns).sum::<u64>(), 40);
        assert_eq!(
            waits.iter().filter(|(of, _)| *of == channel).map(|(_, ns)| ns).sum::<u64>(),
            10
        );
    }

    #[test]
    fn a_wait_is_split_over_successive_holders() {
        let mut ledger = Ledger::new(1, 1);
        let mut matrix = BlameMatrix::default();
        ledger.grow(5);
        matrix.grow(5);
        let at = Time::from_ns;
        let wait = Waiting::Work(WorkIndex(3));
        ledger.take_lane(Lane(0), Channel(0), 2, at(0));
        ledger.release_channel(Channel(0), at(1));
        ledger.note_lane(wait, Lane(0), Channel(0), at(10));
        ledger.release_lane(Lane(0), at(30));
        // The channel, which flow 4 has, keeps the lane from starting until 34.
        ledger.take_channel(Channel(0), 4, at(29));
        ledger.begin_blocked(Lane(0), Channel(0), at(30));
        ledger.release_channel(Channel(0), at(34));
        ledger.take_lane(Lane(0), Channel(0), 3, at(34));
        let waited = ledger.charge_lane(wait, Lane(0), Channel(0), at(45), 2, &mut matrix);
        assert_eq!(waited, 35_000);
        let mut rows: Vec<_> = matrix
            .rows(Flows::new(false, false, 1))
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
