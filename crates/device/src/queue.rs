//! A transport queue, as the subsystem sees it.

use crate::config::Transport;
use crate::guest::GuestQueue;
use crate::held::Account;
use crate::hosts::NOBODY;
use crate::nvm::compare::FirstHalf;
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
    /// Commands not replied to.
    pub(crate) outstanding: u32,
    /// Whether the model has a queue for it.
    pub(crate) modelled: bool,
    /// Whose I/O it carries.
    pub(crate) flow: FlowId,
    /// What the queue's commands and replies hold.
    pub(crate) account: Account,
    /// First half of a fused operation that waits for the second.
    pub(crate) fused: Option<Box<FirstHalf>>,
    /// Its entries lie in guest memory.
    pub(crate) guest: Option<Box<GuestQueue>>,
}

impl TransportQueue {
    pub(crate) fn new(transport: Transport, account: Account) -> TransportQueue {
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

    /// A command is replied to: what its completion says about the submission queue.
    #[inline]
    pub(crate) fn reply(&mut self) -> u16 {
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
