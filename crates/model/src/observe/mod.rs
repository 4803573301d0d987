//! What is seen of a drive: counters, who delayed whom, what dies and channels did, what it looks
//! like now.

pub(crate) mod activity;
pub(crate) mod blame;
pub(crate) mod gauge;
pub(crate) mod long;
pub(crate) mod placement;
pub(crate) mod slc;
pub mod stats;
pub mod turnover;

use crate::config::Geometry;
use crate::number::{Channel, Lane, Plane};
use crate::space::Shape;
use activity::Activity;
use blame::{BlameMatrix, Flows, HolderIndex, Ledger, Waiting};
use long::{LongWait, LongWaits};
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};
use stats::{Blame, Counters, Holder, Resource};
use turnover::TurnoverBooks;

/// Everything that is counted, and nothing that anything depends on.
#[derive(Serialize, Deserialize)]
pub(crate) struct Observe {
    ledger: Ledger,
    blame: BlameMatrix,
    long: LongWaits,
    holders: usize,
    flows: Flows,
    counters: Counters,
    turnover: TurnoverBooks,
    /// What dies and channels did and nobody has taken, if anybody wants to.
    #[serde(skip)]
    activity: Option<Vec<Activity>>,
    /// When counting began, and what was booked on the link by then.
    counting_since: Time,
    counting_offset: Counters,
}

impl Observe {
    /// Nothing has been counted. A lane is a die, or a chip whose dies do not interleave.
    pub(crate) fn new(geometry: &Geometry, lanes: usize, flows: Flows) -> Observe {
        let channels = geometry.channels as usize;
        Observe {
            ledger: Ledger::new(lanes, channels),
            blame: BlameMatrix::default(),
            long: LongWaits::new(),
            holders: 0,
            flows,
            counters: Counters {
                channel_busy: vec![Default::default(); channels],
                die_busy: vec![Default::default(); geometry.dies() as usize],
                ..Counters::default()
            },
            turnover: TurnoverBooks::default(),
            activity: None,
            counting_since: Time::ZERO,
            counting_offset: Counters::default(),
        }
    }

    #[inline]
    pub(crate) fn count(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// What has been counted since the drive was built.
    #[inline]
    pub(crate) fn counted(&self) -> &Counters {
        &self.counters
    }

    #[inline]
    pub(crate) fn blame(&mut self) -> &mut BlameMatrix {
        &mut self.blame
    }

    /// Who delayed whom, since counting began.
    pub(crate) fn blamed(&self) -> Vec<Blame> {
        self.blame.rows(self.flows)
    }

    pub(crate) fn counting_since(&self) -> Time {
        self.counting_since
    }

    /// Who has had the dies and channels.
    #[inline]
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// [`Observe::ledger`] for reading only.
    pub(crate) fn tenancies(&self) -> &Ledger {
        &self.ledger
    }

    /// Charges the wait for a lane and its channel that ends now to whoever had them; how much was
    /// charged.
    #[inline(always)]
    pub(crate) fn charge_lane(
        &mut self,
        waiting: Waiting,
        (lane, channel): (Lane, Channel),
        now: Time,
        victim: HolderIndex,
    ) -> u64 {
        let blame = &mut self.blame;
        let charged = self.ledger.charge_lane(waiting, lane, channel, now, victim, blame);
        let wait = Span::from_ps(charged);
        if self.long.takes(wait) {
            self.note_long_lane(waiting, lane, (wait, now), victim);
        }
        charged
    }

    /// Charges a wait for a channel of length `wait` that ends now to whoever had the channel.
    #[inline(always)]
    pub(crate) fn charge_channel(
        &mut self,
        waiting: Waiting,
        channel: Channel,
        (wait, now): (Span, Time),
        victim: HolderIndex,
    ) {
        self.ledger.charge_channel(waiting, channel, now, victim, &mut self.blame);
        if self.long.takes(wait) {
            self.note_long_channel(waiting, channel, (wait, now), victim);
        }
    }

    /// Whether a wait is so long that somebody wants to know of it: then [`Observe::note_long`].
    #[inline(always)]
    pub(crate) fn takes_long(&self, wait: Span) -> bool {
        self.long.takes(wait)
    }

    /// Whether what dies and channels do is kept.
    #[inline]
    pub(crate) fn keeps_activity(&self) -> bool {
        self.activity.is_some()
    }

    pub(crate) fn keep_activity(&mut self, keep: bool) {
        self.activity = keep.then(Vec::new);
    }

    pub(crate) fn take_activity(&mut self) -> Vec<Activity> {
        self.activity.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn keep_long_waits(&mut self, least: Span) {
        self.long.keep(least);
    }

    pub(crate) fn long_waits(&self) -> impl Iterator<Item = &LongWait> {
        self.long.latest()
    }

    /// Counting begins anew; `totals` is what has been counted until `now`.
    pub(crate) fn restart(&mut self, now: Time, totals: Counters) {
        self.counting_offset = totals;
        self.counting_since = now;
        self.blame.clear();
    }

    /// What had been counted when counting began.
    pub(crate) fn counting_offset(&self) -> &Counters {
        &self.counting_offset
    }

    pub(crate) fn turnover(&self) -> &TurnoverBooks {
        &self.turnover
    }

    /// The turnover is counted anew, from these free blocks of each plane and valid units on.
    pub(crate) fn restart_turnover(&mut self, free: Vec<u32>, valid: u64, shape: &Shape) {
        self.turnover = TurnoverBooks::new(free, valid, &self.counters, shape);
    }

    /// A block of `plane` has been emptied, and is free again.
    #[inline]
    pub(crate) fn count_turnover(&mut self, plane: Plane) {
        self.turnover.collected(plane, &self.counters);
    }

    #[inline]
    pub(crate) fn flows(&self) -> Flows {
        self.flows
    }

    /// How many may hold something up.
    pub(crate) fn holders(&self) -> usize {
        self.holders
    }

    /// Makes room for this many flows and internal holders.
    pub(crate) fn grow(&mut self, holders: usize) {
        self.holders = holders;
        self.blame.grow(holders);
        self.ledger.grow(holders);
    }
}

impl Observe {
    /// A wait has ended that is long enough, or a part of `whole`; with whoever had what was waited for,
    /// for longest.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_long(
        &mut self,
        victim: HolderIndex,
        resource: Resource,
        (whole, ended): (Span, Time),
        (wait, holder, held): (Span, HolderIndex, Span),
    ) {
        let flows = self.flows();
        if let Holder::Flow(victim) = flows.holder(victim) {
            let holder = flows.holder(holder);
            self.long.push(LongWait { victim, resource, ended, wait, whole, holder, held });
        }
    }

    /// Charges a wait that ends now, and is a part of `whole`, to the one who had what was waited for.
    #[inline(always)]
    pub(crate) fn charge(
        &mut self,
        victim: HolderIndex,
        resource: Resource,
        holder: HolderIndex,
        wait: Span,
        (whole, now): (Span, Time),
    ) {
        self.blame.add(victim, resource, holder, wait);
        if self.long.takes(wait) {
            self.note_long(victim, resource, (whole, now), (wait, holder, wait));
        }
    }

    /// Notes a long wait for a lane, and for the channel that kept it from starting.
    #[cold]
    #[inline(never)]
    fn note_long_lane(
        &mut self,
        waiting: Waiting,
        lane: Lane,
        ends: (Span, Time),
        victim: HolderIndex,
    ) {
        for resource in [Resource::Die, Resource::Channel] {
            let longest = self.ledger.longest_of_lane(waiting, lane, resource, ends.1).longest();
            if !longest.0.is_zero() {
                self.note_long(victim, resource, ends, longest);
            }
        }
    }

    /// Notes a long wait for a channel.
    #[cold]
    #[inline(never)]
    fn note_long_channel(
        &mut self,
        waiting: Waiting,
        channel: Channel,
        ends: (Span, Time),
        victim: HolderIndex,
    ) {
        let longest = self.ledger.longest_of_channel(waiting, channel, ends.1).longest();
        self.note_long(victim, Resource::Channel, ends, longest);
    }
}
