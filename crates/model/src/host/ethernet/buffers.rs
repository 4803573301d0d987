//! Things that are counted: buffers, and RDMA READs of a queue pair. Who finds none waits, first
//! come, first served.

use crate::number::CommandIndex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Someone who waits: the command, and where it goes on.
pub(super) type Waiter = (CommandIndex, u16);

#[derive(Serialize, Deserialize)]
pub(super) struct Buffers {
    most: u32,
    free: u32,
    waiting: VecDeque<Waiter>,
}

impl Buffers {
    pub(super) fn new(most: u32) -> Buffers {
        Buffers { most, free: most, waiting: VecDeque::new() }
    }

    /// Takes one; if there is none, `waiter` gets the next that comes back.
    #[inline]
    pub(super) fn take(&mut self, waiter: Waiter) -> bool {
        match self.free.checked_sub(1) {
            Some(free) => self.free = free,
            None => self.waiting.push_back(waiter),
        }
        self.waiting.is_empty()
    }

    /// Gives one back: who has it now, if somebody waited.
    #[inline]
    pub(super) fn give_back(&mut self) -> Option<Waiter> {
        let next = self.waiting.pop_front();
        self.free += u32::from(next.is_none());
        next
    }

    pub(super) fn is_full(&self) -> bool {
        self.free == self.most
    }

    pub(super) fn clear(&mut self) {
        *self = Buffers::new(self.most);
    }
}
