//! Transport queues, as the subsystem sees them.

use crate::config::{Limits, Transport};
use crate::controllers::NOBODY;
use crate::held::{Account, Accounts};
use crate::output::Connected;
use crate::slots::Slots;
use mynah_model::io::FlowId;
use mynah_wire::nvme::SubmissionEntry;

/// What a transport queue has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No Connect command has come yet.
    New,
    /// Connected, but the host has to authenticate first.
    Unauthenticated,
    Admin,
    Io,
    /// [`crate::Output::Close`] is returned for it, and it takes no more commands.
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

    /// Opens a queue; returns its number.
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
    state: State,
    transport: Transport,
    /// The controller, once connected.
    controller: u16,
    /// Queue identifier; 0 is the admin queue.
    queue_id: u16,
    /// Entries of the queue.
    size: u32,
    /// Where the controller stands in the submission queue.
    head: u32,
    flow_control: bool,
    /// Commands that are not complete.
    outstanding: u32,
    /// Whether the model has a queue for it.
    modelled: bool,
    /// The flow of its host.
    flow: FlowId,
    /// What the queue's commands and completions hold.
    account: Account,
    /// First half of a fused operation that waits for the second.
    fused: Option<Box<FirstHalf>>,
    /// State of a queue in guest memory; `None` over fabrics.
    guest: Option<Box<GuestQueue>>,
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

    #[inline]
    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The controller, once connected.
    #[inline]
    pub(crate) fn controller(&self) -> u16 {
        self.controller
    }

    /// Queue identifier; 0 is the admin queue.
    #[inline]
    pub(crate) fn queue_id(&self) -> u16 {
        self.queue_id
    }

    pub(crate) fn entries(&self) -> u32 {
        self.size
    }

    /// Commands that are not complete.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Whether the model has a queue for it.
    #[inline]
    pub(crate) fn is_modelled(&self) -> bool {
        self.modelled
    }

    /// The flow of its host.
    #[inline]
    pub(crate) fn flow(&self) -> FlowId {
        self.flow
    }

    /// What the queue's commands and completions hold.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Whether its entries lie in guest memory.
    #[inline]
    pub(crate) fn is_guests(&self) -> bool {
        self.guest.is_some()
    }

    /// What it knows of its commands, if its entries lie in guest memory.
    pub(crate) fn guest_mut(&mut self) -> Option<&mut GuestQueue> {
        self.guest.as_deref_mut()
    }

    /// Whether the first half of a fused operation waits for the second.
    #[inline]
    pub(crate) fn has_first_half(&self) -> bool {
        self.fused.is_some()
    }

    pub(crate) fn take_first_half(&mut self) -> Option<Box<FirstHalf>> {
        self.fused.take()
    }

    pub(crate) fn keep_first_half(&mut self, half: FirstHalf) {
        self.fused = Some(Box::new(half));
    }

    /// A command comes; whether the queue has an entry for it.
    #[inline]
    pub(crate) fn begin_command(&mut self) -> bool {
        self.outstanding += 1;
        self.outstanding <= self.size
    }

    /// Connect has succeeded; with `authenticates`, the host has to authenticate first.
    pub(crate) fn connect(&mut self, connected: &Connected, authenticates: bool) {
        self.controller = connected.controller_id;
        self.queue_id = connected.queue_id;
        self.size = connected.entries;
        self.flow_control = connected.flow_control;
        self.state = State::Unauthenticated;
        if !authenticates {
            self.authenticated();
        }
    }

    /// The host has proved who it is, or need not.
    pub(crate) fn authenticated(&mut self) {
        if self.state == State::Unauthenticated {
            self.state = if self.queue_id == 0 { State::Admin } else { State::Io };
        }
    }

    /// Opens a queue in guest memory, which needs no Connect.
    pub(crate) fn open_in_guest(&mut self, controller: u16, queue_id: u16, state: State) {
        self.state = state;
        self.controller = controller;
        self.queue_id = queue_id;
        self.size = 2;
        self.flow_control = false;
        self.guest = Some(Box::default());
    }

    /// Sets the flow, and whether the model has a queue for it.
    pub(crate) fn carry(&mut self, flow: FlowId, modelled: bool) {
        (self.flow, self.modelled) = (flow, modelled);
    }

    pub(crate) fn close(&mut self) {
        self.state = State::Closing;
    }

    /// Forgets everything outstanding; whether the model has a queue for it, which goes.
    pub(crate) fn abandon(&mut self) -> bool {
        self.outstanding = 0;
        self.fused = None;
        std::mem::take(&mut self.modelled)
    }

    /// The model has lost its queues.
    pub(crate) fn lose_model(&mut self) {
        self.modelled = false;
    }

    /// Commands have ended without completions.
    pub(crate) fn forget(&mut self, commands: u32) {
        self.outstanding -= commands.min(self.outstanding.saturating_sub(1));
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

/// The first half of a fused operation, and its data.
#[derive(Debug)]
pub(crate) struct FirstHalf {
    pub(crate) entry: SubmissionEntry,
    pub(crate) data: Vec<u8>,
}

impl FirstHalf {
    pub(crate) fn bytes(&self) -> usize {
        self.data.len()
    }
}

/// What a queue in guest memory knows of its commands.
#[derive(Debug, Default)]
pub(crate) struct GuestQueue {
    /// The command whose fetch the model waits for, while it is being looked at.
    fetched: Option<u16>,
    /// Commands that have a place in the model's queue while their work is done beside it:
    /// command identifier, and index of the place.
    places: Vec<(u16, u32)>,
}

impl GuestQueue {
    /// The model waits for the fetch of this command, which is being looked at.
    pub(crate) fn fetched(&mut self, command_id: u16) {
        self.fetched = Some(command_id);
    }

    /// Whether the model waits for the fetch of this command; from now on it does not.
    pub(crate) fn take_fetched(&mut self, command_id: u16) -> bool {
        self.fetched.take_if(|id| *id == command_id).is_some()
    }

    /// A command has the place with this index.
    pub(crate) fn add_place(&mut self, command_id: u16, index: u32) {
        self.places.push((command_id, index));
    }

    /// The index of a command's place, which it has no more. `None`: it has none.
    pub(crate) fn take_place(&mut self, command_id: u16) -> Option<u32> {
        let at = self.places.iter().position(|(id, _)| *id == command_id)?;
        Some(self.places.remove(at).1)
    }
}
