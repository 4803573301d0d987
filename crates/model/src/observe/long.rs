//! The longest waits one by one: for whoever wants to know what held up a single slow I/O.

use super::Observe;
use super::blame::{HolderIndex, Waiting};
use crate::drive::Drive;
use crate::io::FlowId;
use crate::number::{Channel, Lane};
use crate::observe::stats::{Holder, Resource};
use mynah_stamp::{Span, Time};
use std::collections::VecDeque;

/// So many waits are kept, the latest ones.
const KEPT: usize = 1024;

/// A wait of a part of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// Whose I/O.
    pub victim: FlowId,
    /// What it waited for.
    pub resource: Resource,
    /// When the wait ended.
    pub ended: Time,
    /// How long it was.
    pub wait: Span,
    /// Who had it for the longest part of that time.
    pub holder: Holder,
    /// How long that was.
    pub held: Span,
}

/// The latest waits of some length.
pub(crate) struct LongWaits {
    /// How long a wait has to be. Never, unless somebody asks.
    least: Span,
    kept: VecDeque<LongWait>,
}

impl LongWaits {
    pub(crate) fn new() -> LongWaits {
        LongWaits { least: Span::MAX, kept: VecDeque::new() }
    }

    /// Whether a wait is long enough.
    #[inline(always)]
    pub(crate) fn takes(&self, wait: Span) -> bool {
        wait >= self.least
    }

    fn push(&mut self, wait: LongWait) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(wait);
    }
}

impl Observe {
    /// A wait has ended that is long enough; with whoever had what was waited for, for longest.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_long(
        &mut self,
        victim: HolderIndex,
        resource: Resource,
        ended: Time,
        (wait, holder, held): (Span, HolderIndex, Span),
    ) {
        let flows = self.flows();
        if let Holder::Flow(victim) = flows.holder(victim) {
            let holder = flows.holder(holder);
            self.long.push(LongWait { victim, resource, ended, wait, holder, held });
        }
    }

    /// The same of a wait for a lane, and for the channel that kept it from starting.
    #[cold]
    #[inline(never)]
    pub(super) fn note_long_lane(
        &mut self,
        waiting: Waiting,
        lane: Lane,
        now: Time,
        victim: HolderIndex,
    ) {
        for resource in [Resource::Die, Resource::Channel] {
            let longest = self.tenancies().longest_of_lane(waiting, lane, resource, now).longest();
            if self.long.takes(longest.0) && !longest.0.is_zero() {
                self.note_long(victim, resource, now, longest);
            }
        }
    }

    /// The same of a wait for a channel.
    #[cold]
    #[inline(never)]
    pub(super) fn note_long_channel(
        &mut self,
        waiting: Waiting,
        channel: Channel,
        now: Time,
        victim: HolderIndex,
    ) {
        let longest = self.tenancies().longest_of_channel(waiting, channel, now).longest();
        self.note_long(victim, Resource::Channel, now, longest);
    }
}

impl Drive {
    /// Keeps waits for dies, channels, room in the write cache and mapping entries that are at least
    /// so long, the latest thousand of them.
    pub fn keep_long_waits(&mut self, least: Span) {
        self.kernel.observe.long.least = least;
    }

    /// Those that were kept, the latest first.
    pub fn long_waits(&self) -> impl Iterator<Item = &LongWait> {
        self.kernel.observe.long.kept.iter().rev()
    }
}
