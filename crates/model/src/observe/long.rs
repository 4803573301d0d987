//! The longest waits one by one: for whoever wants to know what held up a single slow I/O.

use crate::io::FlowId;
use crate::observe::stats::{Holder, Resource};
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Most waits that are retained; older ones are dropped.
const WAITS_MAX: usize = 1024;

/// A wait of a part of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongWait {
    pub victim: FlowId,
    pub resource: Resource,
    pub ended: Time,
    pub wait: Span,
    /// How long all of the wait was that it is a part of: for a die, and for the channel that kept that
    /// from starting. It tells whose it was of several I/Os that wait at the same time.
    pub whole: Span,
    /// Who had it for the longest part of that time.
    pub holder: Holder,
    /// How long `holder` had the resource within the wait.
    pub held: Span,
}

/// The latest waits of some length.
#[derive(Serialize, Deserialize)]
pub(crate) struct LongWaits {
    /// How long a wait has to be. Never, unless somebody asks.
    least: Span,
    waits: VecDeque<LongWait>,
}

impl LongWaits {
    pub(crate) fn new() -> LongWaits {
        LongWaits { least: Span::MAX, waits: VecDeque::new() }
    }

    /// Whether a wait is long enough.
    #[inline(always)]
    pub(crate) fn takes(&self, wait: Span) -> bool {
        wait >= self.least
    }

    /// Keeps waits that are at least so long from now on.
    pub(super) fn keep(&mut self, least: Span) {
        self.least = least.max(Span::from_ps(1));
    }

    /// The waits that were kept, the latest first.
    pub(super) fn latest(&self) -> impl Iterator<Item = &LongWait> {
        self.waits.iter().rev()
    }

    pub(super) fn push(&mut self, wait: LongWait) {
        if self.waits.len() == WAITS_MAX {
            self.waits.pop_front();
        }
        self.waits.push_back(wait);
    }
}
