//! The event core: time, the queue of events, and the tables, queues and resources that all parts
//! of the drive are made of. Nothing here knows what a drive does.

pub(crate) mod bytes;
pub(crate) mod event;
pub(crate) mod fifo;
pub(crate) mod hash;
pub(crate) mod index;
pub(crate) mod pool;
pub(crate) mod recency;
pub(crate) mod ring;
pub(crate) mod snapshot;

use crate::observe::Observe;
use event::EventQueue;
use mynah_stamp::Time;
use serde::{Deserialize, Serialize};

/// What every part of the drive is given beside its own state: the time, what will happen, and who
/// looks on.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kernel {
    pub(crate) now: Time,
    pub(crate) events: EventQueue,
    pub(crate) observe: Observe,
    /// How many flash operations have been asked for.
    order: u64,
}

impl Kernel {
    pub(crate) fn new(observe: Observe) -> Kernel {
        Kernel { now: Time::ZERO, events: EventQueue::new(), observe, order: 0 }
    }

    /// The place of a flash operation that is asked for now among all of them.
    #[inline]
    pub(crate) fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// The last place given away.
    #[inline]
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Goes on from the order of a drive that was saved.
    pub(crate) fn restore_order(&mut self, order: u64) {
        self.order = order;
    }
}
