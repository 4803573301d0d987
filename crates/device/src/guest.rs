//! Controllers whose queues lie in guest memory: the subsystem's side of [`crate::pci`].
//!
//! With [`Timing::Modelled`] an I/O queue is one of the model's memory queues: the model says
//! when an entry is fetched and when data move, and stands still until that is answered.
//!
//! A command that is one operation of the model is that operation on its queue
//! ([`Command::direct`]). Every other command (several operations, a comparison, an error) has
//! a place of its own there ([`Operation::Other`]) from its fetch to its completion, and what
//! it needs of the drive runs beside the queue, on the controller's own.

use crate::command_set::IoCommand;
use crate::commands::{Command, Step, Work};
use crate::config::{Timing, Transport};
use crate::controllers::{Controller, Role};
use crate::model::ModelRequest;
use crate::namespaces::{Extent, SECTOR_BYTES};
use crate::nvm::Plain;
use crate::output::{CommandKind, Completion};
use crate::pci::{Aggregation, FunctionConfig};
use crate::queue::State;
use crate::slots::NONE;
use crate::store::Ready;
use crate::subsystem::Subsystem;
use mynah_model::config::Priority;
use mynah_model::io::{self, NamespaceId, Operation, Queue as ModelQueue, QueueId, QueueKind};
use mynah_stamp::Stage;
use mynah_wire::nvme::command::NvmCommand;
use mynah_wire::nvme::opcode::nvm;
use mynah_wire::nvme::property::Configuration;
use mynah_wire::nvme::{Status, SubmissionEntry};

/// The transport type of PCI Express, as far as there is one.
pub(crate) const PCI_EXPRESS: u8 = 0;

/// What a queue in guest memory knows of its commands.
#[derive(Debug, Default)]
pub(crate) struct GuestQueue {
    /// The command whose fetch the model waits for, while it is being looked at.
    fetched: Option<u16>,
    /// Commands that have a place in the model's queue while their work is done beside it:
    /// command identifier, and index of the place.
    places: Vec<(u16, u32)>,
}

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
            queue.state = state;
            queue.controller = controller;
            queue.queue_id = queue_id;
            queue.size = 2;
            queue.flow_control = false;
            queue.guest = Some(Box::default());
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
            (queue.flow, queue.modelled) = (flow, modelled);
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

    /// An I/O queue goes, and with it everything outstanding on it.
    pub(crate) fn delete_guest_queue(&mut self, slot: u32) {
        let Some(queue) = self.queues.get(slot) else { return };
        let (id, queue_id) = (queue.controller, queue.queue_id);
        self.abandon(slot);
        self.queues.remove(slot);
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.forget_io_queue(queue_id, slot);
        }
    }

    /// Forgets the completions of a queue's commands.
    pub(crate) fn abandon_completions(&mut self, id: u16, slot: u32) {
        let Some(controller) = self.controllers.get_mut(id) else { return };
        for completion in controller.take_completions_of(slot) {
            self.discard(completion);
        }
    }

    /// CC.EN becomes 0: all queues go; features and events are as in the beginning.
    pub(crate) fn disable_guest(&mut self, id: u16) {
        let queues: Vec<u32> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.controller == id && queue.guest.is_some())
            .map(|(slot, _)| slot)
            .collect();
        for slot in queues {
            self.delete_guest_queue(slot);
        }
        self.reset_controller(id);
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.forget_host();
        }
    }

    /// The function is gone.
    pub(crate) fn close_guest_controller(&mut self, id: u16) {
        self.disable_guest(id);
        self.controllers.remove(id);
    }

    /// CSTS of a controller.
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
        self.queues.get(slot).map_or(0, |queue| queue.outstanding)
    }

    /// The identifier that the host knows a queue by.
    pub(crate) fn guest_queue_id(&self, slot: u32) -> u16 {
        self.queues.get(slot).map_or(0, |queue| queue.queue_id)
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

    /// Where the data of a read or write lie that is out of the ordinary in nothing; `None` if
    /// the command needs more care.
    #[inline]
    pub(crate) fn guest_plain(
        &self,
        slot: u32,
        entry: &SubmissionEntry,
    ) -> Result<Option<(CommandKind, Plain)>, Status> {
        let (kind, io) = match NvmCommand::parse(entry) {
            Ok(NvmCommand::Read(io)) => (CommandKind::Read, io),
            Ok(NvmCommand::Write(io)) if !self.through(io.force_unit_access) => {
                (CommandKind::Write, io)
            }
            _ => return Ok(None),
        };
        // Halves of fused operations, and what follows a first half.
        if entry.flags & 3 != 0 || self.queues.get(slot).is_none_or(|queue| queue.fused.is_some()) {
            return Ok(None);
        }
        Ok(self.plain(slot, entry, io)?.map(|plain| (kind, plain)))
    }

    /// A command of the admin queue that the function has carried out.
    pub(crate) fn accept_guest(&mut self, slot: u32, entry: &SubmissionEntry) {
        let Some(queue) = self.queues.get_mut(slot) else { return };
        queue.outstanding += 1;
        self.complete(slot, entry, CommandKind::Admin, 0);
    }

    /// Controller fatal status: the controller cannot go on.
    pub(crate) fn fail_guest(&mut self, id: u16) {
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.fail();
        }
    }

    /// What the model asks of a controller.
    pub(crate) fn take_model_request(&mut self, id: u16) -> Option<ModelRequest> {
        let queues = &self.queues;
        let is_its = |queue| queues.get(queue).is_some_and(|queue| queue.controller == id);
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
        if slot != NONE && self.queues.get(slot).is_some_and(|queue| queue.modelled) {
            self.model.completions_freed(self.now.model, QueueId(slot as u16), count);
        }
    }

    /// Whether both halves of a fused operation can be in the controller at once: the second is
    /// fetched while the first waits for it.
    pub(crate) fn guests_can_fuse(&self) -> bool {
        let queues = self.model.drive().config().queues;
        self.config.timing == Timing::Immediate || queues.fetch_size > 1 && queues.command_slots > 1
    }

    /// The host of a controller has done something.
    pub(crate) fn heard_of_guest(&mut self, id: u16) {
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.heard_of(self.now.wall);
        }
    }

    /// A command from guest memory, with all data from the host.
    pub(crate) fn submit_guest(&mut self, slot: u32, entry: &SubmissionEntry, data: &[u8]) {
        if entry.flags & 3 != 0 && !self.guests_can_fuse() {
            return self.refuse_guest(slot, entry, Status::INVALID_FIELD.do_not_retry());
        }
        let modelled = self.config.timing == Timing::Modelled;
        let Some(queue) = self.queues.get_mut(slot) else { return };
        queue.outstanding += 1;
        let id = entry.command_id.get();
        match (queue.state, &mut queue.guest) {
            (State::Admin, _) => self.submit_admin(slot, entry, data),
            (State::Io, Some(guest)) => {
                if modelled {
                    guest.fetched = Some(id);
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
        let Some(queue) = self.queues.get_mut(slot) else { return };
        queue.outstanding += 1;
        let kind = match IoCommand::parse(entry).map(IoCommand::kind) {
            _ if queue.state == State::Admin => CommandKind::Admin,
            // A Flush that is refused has flushed nothing.
            Ok(CommandKind::Flush) | Err(_) => CommandKind::OtherIo,
            Ok(kind) => kind,
        };
        if let Some(guest) = queue.guest.as_mut().filter(|_| modelled && kind != CommandKind::Admin)
        {
            guest.fetched = Some(entry.command_id.get());
        }
        self.fail(slot, entry, kind, status);
    }

    /// The entry that the model has fetched cannot be read: nothing comes of it.
    pub(crate) fn lose_fetched(&mut self, slot: u32) {
        self.open_place(slot, 0);
    }

    /// Whether the fetch of this command has not been answered; it is now the caller's to.
    fn take_fetched(&mut self, slot: u32, command_id: u16) -> bool {
        let queue = self.queues.get_mut(slot);
        let guest = queue.and_then(|queue| queue.guest.as_deref_mut());
        guest.is_some_and(|guest| guest.fetched.take_if(|id| *id == command_id).is_some())
    }

    /// A read or write out of the ordinary in nothing, that the model has fetched. Data move
    /// when the model says so, from or to where `transfer` says.
    pub(crate) fn begin_guest_plain(
        &mut self,
        slot: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        plain: &Plain,
        transfer: u32,
    ) {
        let Some(queue) = self.queues.get_mut(slot) else { return };
        queue.outstanding += 1;
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

    /// Which of the model's queues a step of a guest's command goes to.
    pub(crate) fn queue_of_guests_step(&mut self, index: u32, step: &Step) -> QueueId {
        let Some(command) = self.commands.get(index) else { return QueueId(u16::MAX) };
        let (slot, id) = (command.queue(), command.command_id());
        let alone = command.steps().next().is_none()
            && match step.operation {
                Operation::Read => command.kind() == CommandKind::Read,
                Operation::Write | Operation::WriteThrough => command.kind() == CommandKind::Write,
                Operation::Trim => command.kind() == CommandKind::Trim,
                Operation::Flush => command.kind() == CommandKind::Flush,
                Operation::Other => false,
            };
        let Some(queue) = self.queues.get(slot) else { return QueueId(u16::MAX) };
        let controller = queue.controller;
        if alone && self.take_fetched(slot, id) {
            if let Some(command) = self.commands.get_mut(index) {
                command.go_direct();
            }
            return QueueId(slot as u16);
        }
        let controller = self.controllers.get(controller);
        QueueId(controller.map_or(u32::MAX, |controller| controller.admin_queue()) as u16)
    }

    /// Gives a command whose work is done beside its queue a place in it.
    fn open_place(&mut self, slot: u32, command_id: u16) {
        let index = self.insert_place(slot, None);
        if let Some(guest) = self.queues.get_mut(slot).and_then(|queue| queue.guest.as_mut()) {
            guest.places.push((command_id, index));
        }
        self.answer_with_place(slot, index);
    }

    fn insert_place(&mut self, slot: u32, completion: Option<Box<Completion>>) -> u32 {
        let place = self.new_command(slot, CommandKind::OtherIo).in_place(completion);
        self.insert(place)
    }

    fn answer_with_place(&mut self, slot: u32, index: u32) {
        let (pool, sector) = (NamespaceId(1), 0);
        self.step(index, Step { operation: Operation::Other, pool, sector, sectors: 0 });
        debug_assert!(self.queues.get(slot).is_some());
    }

    /// The completion of a command of a guest's queue: goes out when the model says that the host
    /// sees it.
    #[inline]
    pub(crate) fn post_to_guest(&mut self, completion: Completion) {
        let Some(queue) = self.queues.get(completion.queue.0) else { return };
        if !completion.direct && self.config.timing == Timing::Modelled && queue.state == State::Io
        {
            return self.post_in_place(completion);
        }
        if let Some(controller) = self.controllers.get_mut(queue.controller) {
            controller.push_completion(completion);
        }
    }

    /// The completion of a command whose work was done beside its queue.
    #[inline(never)]
    fn post_in_place(&mut self, completion: Completion) {
        let (slot, id) = (completion.queue.0, completion.entry.command_id.get());
        if self.take_fetched(slot, id) {
            let index = self.insert_place(slot, Some(Box::new(completion)));
            self.answer_with_place(slot, index);
            return self.data_arrived(index);
        }
        let Some(guest) = self.queues.get_mut(slot).and_then(|queue| queue.guest.as_mut()) else {
            return;
        };
        let Some(at) = guest.places.iter().position(|(place, _)| *place == id) else {
            debug_assert!(false, "a command of a modelled queue has a place in it");
            return;
        };
        let (_, index) = guest.places.remove(at);
        if let Some(command) = self.commands.get_mut(index) {
            command.set_work(Work::Place(Some(Box::new(completion))));
        }
        self.data_arrived(index);
    }

    /// Takes a place away that the model does not know any more.
    pub(crate) fn remove_place(&mut self, index: u32) -> Option<Command> {
        let command = self.commands.remove(index);
        self.health.end(self.commands.len(), self.now.wall);
        command
    }

    /// The model is done with a command's place in its queue.
    pub(crate) fn place_completed(&mut self, index: u32, ended: &io::Completion) {
        let Some(mut command) = self.remove_place(index) else { return };
        let Work::Place(Some(mut completion)) = command.take_work() else { return };
        if command.queue() == NONE {
            return self.discard(*completion);
        }
        // The time in its place was spent on the work beside the queue.
        let mut stages = ended.stages;
        let in_place = stages.get(Stage::DataIn);
        let worked = completion.stages.total().min(in_place);
        stages.shorten(Stage::DataIn, worked);
        let mut left = worked;
        for (stage, span) in completion.stages.iter() {
            let span = if span > left { left } else { span };
            stages.add(stage, span);
            left = left.saturating_sub(span);
        }
        completion.arrival = ended.rung;
        completion.due = Some(ended.at);
        completion.stages = stages;
        completion.direct = true;
        self.post(*completion);
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
