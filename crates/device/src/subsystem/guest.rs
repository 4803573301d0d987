//! Controllers whose queues lie in guest memory: the subsystem's side of [`crate::pci`].
//!
//! With [`Timing::Modelled`] an I/O queue is one of the model's memory queues: the model says
//! when an entry is fetched and when data move, and stands still until that is answered. Commands
//! whose work is done beside their queue have places in it ([`crate::subsystem::commands`]).

use crate::any_pairs;
use crate::config::{FunctionConfig, PCI_EXPRESS, Timing, Transport};
use crate::controllers::{Aggregation, Controller, NOBODY, Role};
use crate::model::ModelRequest;
use crate::namespaces::{Extent, SECTOR_BYTES};
use crate::output::{CommandKind, Completion, CompletionData};
use crate::queue::State;
use crate::slots::NONE;
use crate::store::Ready;
use crate::subsystem::Subsystem;
use crate::subsystem::io_command::IoCommand;
use crate::subsystem::nvm::Plain;
use crate::transfer::bytes_of_admin;
use mynah_model::config::Priority;
use mynah_model::io::{self, FlowId, Operation, Queue as ModelQueue, QueueId, QueueKind};
use mynah_wire::nvme::command::{NvmCommand, SamsungKey};
use mynah_wire::nvme::entry::Transfer;
use mynah_wire::nvme::opcode::nvm;
use mynah_wire::nvme::property::Configuration;
use mynah_wire::nvme::{Status, SubmissionEntry};

impl Subsystem {
    /// A controller for a PCI function; `None` if there are as many as there can be.
    pub(crate) fn open_guest_controller(&mut self, config: &FunctionConfig) -> Option<u16> {
        let transport = Transport {
            in_capsule_bytes: 0,
            max_transfer_bytes: config.max_transfer_bytes,
            peer: config.host.clone(),
            source: config.source,
            local: None,
            port: 0,
            kind: PCI_EXPRESS,
            host_nqn: None,
        };
        let host = (config.host.clone(), [0; 16]);
        let id = self.open_controller(host, Role::Io, NONE, &transport)?;
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.offer_shadow_doorbells(config.shadow_doorbells);
        }
        Some(id)
    }

    /// CC.EN becomes 1: the admin queue works. False if the drive has no power.
    pub(crate) fn enable_guest(&mut self, id: u16, configuration: Configuration) -> bool {
        if self.model.drive().has_lost_power() {
            return false;
        }
        let Some(controller) = self.controllers.get_mut(id) else { return false };
        controller.enable_with(configuration);
        let transport = controller.guest_transport();
        let flow = self.controllers.flow_of(id);
        let admin = self.insert_guest_queue(transport, id, 0, State::Admin);
        // The controller's own queue in the model: nothing crosses the link for it.
        self.create_model_queue(admin, flow);
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.set_admin_queue(admin);
        }
        true
    }

    fn insert_guest_queue(
        &mut self,
        transport: Transport,
        controller: u16,
        queue_id: u16,
        state: State,
    ) -> u32 {
        let slot = self.queues.open(transport);
        if let Some(queue) = self.queues.get_mut(slot) {
            queue.open_in_guest(controller, queue_id, state);
        }
        slot
    }

    /// An I/O queue in guest memory; `None` if the controller is gone, or the model has names
    /// for no more queues.
    pub(crate) fn create_guest_queue(
        &mut self,
        id: u16,
        queue_id: u16,
        completion_entries: u32,
        priority: Priority,
    ) -> Option<u32> {
        let transport = self.guest(id)?.guest_transport();
        let flow = self.controllers.flow_of(id);
        let slot = self.insert_guest_queue(transport, id, queue_id, State::Io);
        // The model names queues with 16 bits, and keeps the last name for itself.
        if slot >= u32::from(u16::MAX) {
            self.queues.remove(slot);
            return None;
        }
        let controller = self.controllers.get_mut(id)?;
        controller.set_io_queue(queue_id, slot);
        let modelled = self.config.timing == Timing::Modelled;
        if let Some(queue) = self.queues.get_mut(slot) {
            queue.carry(flow, modelled);
        }
        if modelled {
            self.control(io::Control::CreateQueue(ModelQueue {
                id: QueueId(slot as u16),
                kind: QueueKind::Memory,
                flow,
                priority,
                completion_entries,
            }));
        }
        Some(slot)
    }

    /// Removes the controller of a function that is gone.
    pub(crate) fn close_guest_controller(&mut self, id: u16) {
        self.disable_guest(id);
        self.controllers.remove(id);
    }

    #[inline]
    pub(crate) fn guest_status(&self, id: u16) -> u32 {
        self.guest(id).map_or(0, |controller| controller.status())
    }

    #[inline]
    fn guest(&self, id: u16) -> Option<&Controller> {
        self.controllers.get(id)
    }

    /// The subsystem's queue for a controller's admin commands.
    pub(crate) fn guest_admin_queue(&self, id: u16) -> u32 {
        self.guest(id).map_or(NONE, |controller| controller.admin_queue())
    }

    /// The highest identifier of an I/O submission queue, and of an I/O completion queue, of a
    /// controller.
    pub(crate) fn guest_queues(&self, id: u16) -> (u16, u16) {
        self.guest(id).map_or((0, 0), Controller::queues_granted)
    }

    /// Commands of a queue that are not complete.
    #[inline]
    pub(crate) fn guest_outstanding(&self, slot: u32) -> u32 {
        self.queues.get(slot).map_or(0, |queue| queue.outstanding())
    }

    /// The identifier that the host knows a queue by.
    pub(crate) fn guest_queue_id(&self, slot: u32) -> u16 {
        self.queues.get(slot).map_or(0, |queue| queue.queue_id())
    }

    /// How interrupts of a vector are aggregated.
    pub(crate) fn guest_aggregation(&self, id: u16, vector: u16) -> Aggregation {
        let Some(features) = self.guest(id).map(Controller::features) else {
            return Aggregation::default();
        };
        if features.is_not_coalesced(vector) {
            return Aggregation::default();
        }
        let (entries, time) = features.aggregation();
        Aggregation { entries, time }
    }

    /// The next completion of a command of a controller.
    #[inline]
    pub(crate) fn take_guest_completion(&mut self, id: u16) -> Option<Completion> {
        self.controllers.get_mut(id)?.take_completion()
    }

    /// Where the data of a plain read or write lie; `None` if the command needs any of the rarer
    /// checks.
    #[inline]
    pub(crate) fn guest_plain(
        &self,
        slot: u32,
        entry: &SubmissionEntry,
    ) -> Result<Option<(CommandKind, Plain)>, Status> {
        let (kind, io) = match NvmCommand::parse(entry) {
            Ok(NvmCommand::Read(io)) => (CommandKind::Read, io),
            Ok(NvmCommand::Write(io)) if !self.admin.writes_through(io.force_unit_access) => {
                (CommandKind::Write, io)
            }
            _ => return Ok(None),
        };
        // Halves of fused operations, and what follows a first half.
        if entry.flags & 3 != 0 || self.queues.get(slot).is_none_or(|queue| queue.has_first_half())
        {
            return Ok(None);
        }
        Ok(self.plain(slot, entry, io)?.map(|plain| (kind, plain)))
    }

    /// A command of the admin queue that the function has carried out.
    pub(crate) fn accept_guest(&mut self, slot: u32, entry: &SubmissionEntry) {
        let Some(queue) = self.queues.get_mut(slot) else { return };
        queue.begin_command();
        self.complete(slot, entry, CommandKind::Admin, 0);
    }

    /// Sets controller fatal status (CSTS.CFS).
    pub(crate) fn fail_guest(&mut self, id: u16) {
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.fail();
        }
    }

    /// Counts a command in SMART that the function has carried out.
    #[inline]
    pub(crate) fn count_guest(&mut self, kind: CommandKind, opcode: u8, bytes: u32) {
        self.health.count(kind, opcode, bytes);
    }

    /// The flow of a queue's host.
    #[inline]
    pub(crate) fn guest_queue_flow(&self, slot: u32) -> FlowId {
        self.queues.get(slot).map_or(NOBODY, |queue| queue.flow())
    }

    /// The flow of a controller's host, once that has I/O queues.
    pub(crate) fn guest_flow(&self, id: u16) -> Option<FlowId> {
        self.controllers.known_flow_of(id)
    }

    /// Has the drive say when data move.
    pub(crate) fn report_moves(&mut self) {
        self.model.report_moves();
    }

    /// Whether the drive stands still until a function answers what it asks for.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        self.model.is_held_up()
    }

    /// What the model asks of a controller.
    pub(crate) fn take_model_request(&mut self, id: u16) -> Option<ModelRequest> {
        let queues = &self.queues;
        let is_its = |queue| queues.get(queue).is_some_and(|queue| queue.controller() == id);
        self.model.take_request(is_its)
    }

    /// The data of a command have come from the host, or its work beside the queue is done.
    pub(crate) fn data_arrived(&mut self, command: u32) {
        self.model.data_arrived(self.now.model, command);
    }

    /// The host has put `count` entries into a queue.
    pub(crate) fn ring(&mut self, slot: u32, count: u32) {
        self.model.ring(self.now.model, QueueId(slot as u16), count);
    }

    /// The host has taken `count` entries of a queue off its completion queue.
    pub(crate) fn completions_freed(&mut self, slot: u32, count: u32) {
        if slot != NONE && self.queues.get(slot).is_some_and(|queue| queue.is_modelled()) {
            self.model.completions_freed(self.now.model, QueueId(slot as u16), count);
        }
    }

    /// Restarts the keep-alive timer of a controller.
    pub(crate) fn heard_of_guest(&mut self, id: u16) {
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.heard_of(self.now.wall);
        }
    }

    /// How many bytes a guest's command moves, and whether to the host.
    pub(crate) fn guest_bytes(
        &self,
        slot: u32,
        entry: &SubmissionEntry,
    ) -> Result<(u32, bool), Status> {
        let Some(queue) = self.queues.get(slot) else { return Ok((0, true)) };
        let bytes = match self.io_command(slot, entry) {
            _ if queue.state() == State::Admin => bytes_of_admin(entry, self.has_placement()),
            Ok(IoCommand::KeyValue(command)) => match self.guest_key(slot, entry, no_key)? {
                Some(_) => any_pairs::bytes_of(command).into(),
                None => 0,
            },
            Ok(command) => {
                let namespace =
                    self.namespaces.active(queue.controller(), entry.namespace_id.get());
                match command.bytes(namespace.ok()) {
                    Some(bytes) => bytes,
                    None => return Ok((0, true)),
                }
            }
            Err(_) => 0,
        };
        if bytes > u64::from(queue.transport().max_transfer_bytes) {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok((bytes as u32, entry.transfer() == Transfer::ToHost))
    }

    /// A command from guest memory, with all data from the host.
    pub(crate) fn submit_guest(&mut self, slot: u32, entry: &SubmissionEntry, data: &[u8]) {
        if entry.flags & 3 != 0 && !self.model.can_fuse(self.config.timing) {
            return self.refuse_guest(slot, entry, Status::INVALID_FIELD.do_not_retry());
        }
        let modelled = self.config.timing == Timing::Modelled;
        let Some(queue) = self.queues.get_mut(slot) else { return };
        queue.begin_command();
        let id = entry.command_id.get();
        match (queue.state(), queue.guest_mut()) {
            (State::Admin, _) => self.submit_admin(slot, entry, data),
            (State::Io, Some(guest)) => {
                if modelled {
                    guest.fetched(id);
                }
                self.submit_io(slot, entry, data);
                if self.take_fetched(slot, id) {
                    self.open_place(slot, id);
                }
            }
            _ => {}
        }
    }

    /// A command that cannot be carried out, because of where its data lie perhaps.
    pub(crate) fn refuse_guest(&mut self, slot: u32, entry: &SubmissionEntry, status: Status) {
        let modelled = self.config.timing == Timing::Modelled;
        let command = self.io_command(slot, entry);
        let Some(queue) = self.queues.get_mut(slot) else { return };
        queue.begin_command();
        let kind = match command.map(IoCommand::kind) {
            _ if queue.state() == State::Admin => CommandKind::Admin,
            // A Flush that is refused has flushed nothing.
            Ok(CommandKind::Flush) | Err(_) => CommandKind::OtherIo,
            Ok(kind) => kind,
        };
        if let Some(guest) = queue.guest_mut().filter(|_| modelled && kind != CommandKind::Admin) {
            guest.fetched(entry.command_id.get());
        }
        self.fail(slot, entry, kind, status);
    }

    /// A command that has been carried out, whose data have been moved.
    pub(crate) fn answer_guest(
        &mut self,
        slot: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        (status, result): (Status, u32),
    ) {
        let Some(queue) = self.queues.get_mut(slot) else { return };
        queue.begin_command();
        self.complete_as(slot, entry, kind, status, result.into(), CompletionData::None);
    }

    /// Begins a plain read or write that the model has fetched. Its data move when the model says
    /// so, from or to where `transfer` says.
    pub(crate) fn begin_guest_plain(
        &mut self,
        slot: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        plain: &Plain,
        transfer: u32,
    ) {
        let Some(queue) = self.queues.get_mut(slot) else { return };
        queue.begin_command();
        let mut command = self.plain_command(slot, entry, kind, plain);
        command.go_direct();
        command.set_transfer(transfer);
        let mut ready = Ready::Now;
        let operation = match kind {
            CommandKind::Read => {
                // Needed within microseconds, and then at once.
                self.media.prefetch(plain.at, plain.bytes);
                ready = self.media.fetch(plain.at, plain.bytes);
                if let Some(job) = ready.job() {
                    // It goes to the host when the store has it.
                    command.read_from_media(Some(job));
                }
                Operation::Read
            }
            _ => Operation::Write,
        };
        self.start_plain(command, plain, operation, ready);
    }

    /// The data of a command could not be moved.
    pub(crate) fn transfer_failed(&mut self, index: u32, status: Status) {
        if let Some(command) = self.commands.get_mut(index) {
            command.fail(status);
        }
    }

    /// Where a plain read or write is in the store, where it moves data to or from, and
    /// whether its data are at hand.
    ///
    /// # Errors
    /// If the namespace has changed since the command was fetched, so that its data must not be
    /// touched.
    pub(crate) fn guest_transfer(&self, index: u32) -> Result<(u64, u32, bool), Status> {
        let command = self.commands.get(index).ok_or(Status::INTERNAL_ERROR)?;
        if command.is_overtaken() {
            return Err(command.status());
        }
        let namespace = self.namespaces.get(command.namespace());
        let namespace = namespace.ok_or(Status::INVALID_NAMESPACE)?;
        let end = command.at() + u64::from(command.bytes());
        let has = |extent: &Extent| {
            extent.store <= command.at() && end <= extent.store + extent.sectors * SECTOR_BYTES
        };
        if !namespace.extents().iter().any(has) {
            return Err(Status::INVALID_NAMESPACE);
        }
        if namespace.is_formatting() {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        if self.admin.sanitizes() {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        // A comparison is to see all of a write or nothing; the host may try again.
        if namespace.is_exclusive() && command.opcode() == nvm::WRITE {
            return Err(Status::COMMAND_INTERRUPTED);
        }
        Ok((command.at(), command.transfer(), !command.fetches()))
    }
}

/// A command has its key itself.
fn no_key(_: &SamsungKey, _: &mut [u8]) -> Result<(), Status> {
    Err(Status::INTERNAL_ERROR)
}
