//! Transport queues, as the subsystem sees them.

use crate::commands::GuestQueue;
use crate::config::{Limits, Transport};
use crate::controllers::NOBODY;
use crate::held::{Account, Accounts};
use crate::nvm::compare::FirstHalf;
use crate::slots::Slots;
use mynah_model::io::FlowId;

/// What a transport queue has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No Connect yet.
    New,
    /// Connected, but the host has to authenticate first.
    Unauthenticated,
    /// An admin queue.
    Admin,
    /// An I/O queue.
    Io,
    /// Asked to be closed.
    Closing,
}

/// The transport queues, and the memory that their hosts hold.
#[derive(Debug)]
pub(crate) struct Queues {
    slots: Slots<TransportQueue>,
    accounts: Accounts,
}

impl Queues {
    pub(crate) fn new(limits: Limits) -> Queues {
        let accounts = Accounts::new(limits.held_bytes_max, limits.source_held_bytes_max);
        Queues { slots: Slots::default(), accounts }
    }

    /// A new one; its number.
    pub(crate) fn open(&mut self, transport: Transport) -> u32 {
        let account = self.accounts.of_queue(transport.source);
        self.slots.insert(TransportQueue::new(transport, account))
    }

    #[inline]
    pub(crate) fn get(&self, queue: u32) -> Option<&TransportQueue> {
        self.slots.get(queue)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, queue: u32) -> Option<&mut TransportQueue> {
        self.slots.get_mut(queue)
    }

    pub(crate) fn remove(&mut self, queue: u32) {
        self.slots.remove(queue);
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &TransportQueue)> {
        self.slots.iter()
    }
}

#[derive(Debug)]
pub(crate) struct TransportQueue {
    pub(crate) state: State,
    pub(crate) transport: Transport,
    /// The controller, once connected.
    pub(crate) controller: u16,
    /// Queue identifier; 0 is the admin queue.
    pub(crate) queue_id: u16,
    /// Entries.
    pub(crate) size: u32,
    /// Where the controller stands in the submission queue.
    head: u32,
    pub(crate) flow_control: bool,
    /// Commands that are not complete.
    pub(crate) outstanding: u32,
    /// Whether the model has a queue for it.
    pub(crate) modelled: bool,
    /// Whose I/O it carries.
    pub(crate) flow: FlowId,
    /// What the queue's commands and completions hold.
    pub(crate) account: Account,
    /// First half of a fused operation that waits for the second.
    pub(crate) fused: Option<Box<FirstHalf>>,
    /// Its entries lie in guest memory.
    pub(crate) guest: Option<Box<GuestQueue>>,
}

impl TransportQueue {
    fn new(transport: Transport, account: Account) -> TransportQueue {
        TransportQueue {
            state: State::New,
            transport,
            controller: 0,
            queue_id: 0,
            // Enough for Connect alone.
            size: 1,
            head: 0,
            flow_control: true,
            outstanding: 0,
            modelled: false,
            flow: NOBODY,
            account,
            fused: None,
            guest: None,
        }
    }

    /// A command is complete: what its completion says about the submission queue.
    #[inline]
    pub(crate) fn complete(&mut self) -> u16 {
        self.outstanding -= 1;
        if !self.flow_control {
            return 0xffff;
        }
        self.head += 1;
        if self.head >= self.size {
            self.head = 0;
        }
        self.head as u16
    }
}
