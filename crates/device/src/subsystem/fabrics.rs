//! Fabrics commands: Connect, properties, Disconnect, authentication (Base 2.0, section 6).

use crate::config::PCI_EXPRESS;
use crate::config::Transport;
use crate::controllers::{Features, Opening, READY_TIMEOUT, Role};
use crate::output::{Authentication, CommandKind, CompletionData, Connected, Output, Queue};
use crate::queue::State;
use crate::subsystem::Subsystem;
use crate::transfer::check_room;
use mynah_wire::fabrics::{CONTROLLER_ANY, ConnectRequest, DISCOVERY_NQN};
use mynah_wire::nvme::command::{
    Disconnect, FabricsCommand, PropertyGet, PropertySet, PropertySize,
};
use mynah_wire::nvme::property::{Capabilities, Configuration, VERSION_2_0, offset};
use mynah_wire::nvme::{Status, SubmissionEntry, command};

/// KAS: keep-alive timeouts are multiples of this.
pub(crate) const KEEP_ALIVE_GRANULARITY_MS: u32 = 100;
/// Authentication is required (a bit of Connect's result).
const AUTHENTICATION_REQUIRED: u64 = 1 << 17;
/// Largest authentication message.
const AUTHENTICATION_BYTES_MAX: u32 = 64 << 10;

/// Offsets in the Connect entry and data, for the result of a refusal.
mod place {
    pub(super) const QUEUE_ID: u16 = 42;
    pub(super) const QUEUE_SIZE: u16 = 44;
    pub(super) const CONTROLLER_ID: u16 = 16;
    pub(super) const SUBSYSTEM_NQN: u16 = 256;
    pub(super) const HOST_NQN: u16 = 512;
}

/// Why a Connect is refused: the status and its result.
type Refusal = (Status, u64);

fn invalid_entry(at: u16) -> Refusal {
    (Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), u64::from(at))
}

fn invalid_data(at: u16) -> Refusal {
    (Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), u64::from(at) | 1 << 16)
}

fn plain(status: Status) -> Refusal {
    (status, 0)
}

impl Subsystem {
    /// A command on a queue that is not connected, or not authenticated.
    pub(crate) fn submit_early(&mut self, queue: u32, entry: &SubmissionEntry, data: &[u8]) {
        let Some(slot) = self.queues.get(queue) else { return };
        match (slot.state(), FabricsCommand::parse(entry)) {
            (State::New, Ok(FabricsCommand::Connect(connect))) => {
                match ConnectRequest::new(connect, data) {
                    Some(request) => self.submit_connect(queue, entry, &request),
                    None => {
                        let short = Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
                        let (kind, data) = (CommandKind::Fabrics, CompletionData::None);
                        self.complete_as(queue, entry, kind, short, 0, data);
                    }
                }
            }
            (State::Unauthenticated, Ok(FabricsCommand::AuthenticationSend(sent))) => {
                self.authentication(queue, entry, sent, Some(data));
            }
            (State::Unauthenticated, Ok(FabricsCommand::AuthenticationReceive(room))) => {
                self.authentication(queue, entry, room, None);
            }
            (State::Unauthenticated, _) => {
                let status = Status::AUTHENTICATION_REQUIRED.do_not_retry();
                self.fail(queue, entry, CommandKind::Fabrics, status);
            }
            _ => {
                let status = Status::COMMAND_SEQUENCE_ERROR.do_not_retry();
                self.fail(queue, entry, CommandKind::Fabrics, status);
            }
        }
    }

    pub(crate) fn submit_connect(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        request: &ConnectRequest<'_>,
    ) {
        let (status, result, data) = match self.accept(queue, request) {
            Ok((result, connected)) => {
                (Status::SUCCESS, result, CompletionData::Connected(connected))
            }
            Err((status, result)) => (status, result, CompletionData::None),
        };
        self.complete_as(queue, entry, CommandKind::Fabrics, status, result, data);
    }

    /// Makes a new queue one of a controller; returns the result of Connect, and what the queue has
    /// become.
    fn accept(
        &mut self,
        queue: u32,
        request: &ConnectRequest<'_>,
    ) -> Result<(u64, Connected), Refusal> {
        let connect = &request.connect;
        if connect.record_format != 0 {
            return Err(plain(Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry()));
        }
        let host_nqn = request.host_nqn.ok_or(invalid_data(place::HOST_NQN))?;
        let subsystem = request.subsystem_nqn.ok_or(invalid_data(place::SUBSYSTEM_NQN))?;
        let role = if subsystem == DISCOVERY_NQN {
            Role::Discovery
        } else if subsystem == self.config.nqn {
            Role::Io
        } else {
            return Err(invalid_data(place::SUBSYSTEM_NQN));
        };
        if host_nqn.is_empty() && role == Role::Io && self.config.authenticate {
            // Secrets belong to names.
            return Err(invalid_data(place::HOST_NQN));
        }
        let proved = self.queues.get(queue).and_then(|slot| slot.transport().host_nqn.as_deref());
        if proved.is_some_and(|proved| proved != host_nqn)
            || role == Role::Io && !self.config.is_allowed(host_nqn)
        {
            return Err(plain(Status::CONNECT_INVALID_HOST.do_not_retry()));
        }
        if self.model.drive().has_lost_power() {
            return Err(plain(Status::CONNECT_CONTROLLER_BUSY));
        }
        let entries = connect.entries();
        if entries < 2 || entries > self.config.limits.queue_entries_max {
            return Err(invalid_entry(place::QUEUE_SIZE));
        }
        // The model names queues with 16 bits, and keeps the last name for itself.
        if queue >= u32::from(u16::MAX) {
            return Err(plain(Status::CONNECT_CONTROLLER_BUSY));
        }
        let id = if connect.queue_id == 0 {
            self.connect_admin(queue, request, role, host_nqn)?
        } else {
            self.connect_io(queue, request, host_nqn, role)?
        };
        let authenticates = role == Role::Io && self.config.authenticate;
        let connected = Connected {
            controller_id: id,
            queue_id: connect.queue_id,
            entries,
            flow_control: connect.has_flow_control(),
        };
        let Some(slot) = self.queues.get_mut(queue) else {
            return Err(plain(Status::INTERNAL_ERROR));
        };
        slot.connect(&connected, authenticates);
        if connect.queue_id != 0 {
            let flow = self.controllers.flow_of(id);
            self.create_model_queue(queue, flow);
        }
        Ok((u64::from(id) | if authenticates { AUTHENTICATION_REQUIRED } else { 0 }, connected))
    }

    fn connect_admin(
        &mut self,
        queue: u32,
        request: &ConnectRequest<'_>,
        role: Role,
        host_nqn: &str,
    ) -> Result<u16, Refusal> {
        // Controllers come into being when they are asked for: none can be asked for by name.
        if request.controller_id != CONTROLLER_ANY {
            return Err(invalid_data(place::CONTROLLER_ID));
        }
        let slot = self.queues.get(queue).ok_or(plain(Status::INTERNAL_ERROR))?;
        let transport = slot.transport().clone();
        let host = (host_nqn.to_owned(), request.host_id);
        let id = self
            .open_controller(host, role, queue, &transport)
            .ok_or(plain(Status::CONNECT_CONTROLLER_BUSY))?;
        self.set_keep_alive(id, request.connect.keep_alive_ms);
        Ok(id)
    }

    /// A new controller for a host; `None` if there are as many as there can be.
    pub(crate) fn open_controller(
        &mut self,
        host: (String, [u8; 16]),
        role: Role,
        admin_queue: u32,
        transport: &Transport,
    ) -> Option<u16> {
        let queues_max = match transport.kind {
            PCI_EXPRESS => self.config.limits.queues_max.min(crate::config::QUEUES_MAX),
            _ => self.config.limits.queues_max,
        };
        let opening = Opening {
            role,
            admin_queue,
            transport,
            queues_max,
            features: Features::of(&self.model.config().queues),
            now: self.now.wall,
        };
        self.controllers.open(host, opening)
    }

    fn connect_io(
        &mut self,
        queue: u32,
        request: &ConnectRequest<'_>,
        host_nqn: &str,
        role: Role,
    ) -> Result<u16, Refusal> {
        let (id, queue_id) = (request.controller_id, request.connect.queue_id);
        let controller = self
            .controllers
            .get_mut(id)
            .filter(|controller| controller.role() == role)
            .ok_or(invalid_data(place::CONTROLLER_ID))?;
        if controller.host_nqn() != host_nqn || *controller.host_id() != request.host_id {
            return Err(plain(Status::CONNECT_INVALID_HOST.do_not_retry()));
        }
        if role == Role::Discovery
            || !controller.is_ready()
            || queue_id > controller.queues_granted().0
        {
            return Err(invalid_entry(place::QUEUE_ID));
        }
        if controller.io_queue(queue_id).is_some() {
            return Err(plain(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()));
        }
        controller.set_io_queue(queue_id, queue);
        controller.heard_of(self.now.wall);
        Ok(id)
    }

    /// A Fabrics command on a connected queue.
    pub(crate) fn submit_fabrics(&mut self, queue: u32, entry: &SubmissionEntry, data: &[u8]) {
        let Some(slot) = self.queues.get(queue) else { return };
        let (id, is_admin) = (slot.controller(), slot.queue_id() == 0);
        if slot.is_guests() {
            let kind = if is_admin { CommandKind::Admin } else { CommandKind::OtherIo };
            return self.fail(queue, entry, kind, Status::INVALID_OPCODE.do_not_retry());
        }
        let outcome = match FabricsCommand::parse(entry) {
            Ok(FabricsCommand::PropertyGet(get)) if is_admin => self.property_get(id, get),
            Ok(FabricsCommand::PropertySet(set)) if is_admin => {
                self.property_set(id, set).map(|()| 0)
            }
            Ok(FabricsCommand::PropertyGet(_) | FabricsCommand::PropertySet(_)) => {
                Err(Status::INVALID_FIELD.do_not_retry())
            }
            Ok(FabricsCommand::AuthenticationSend(sent)) => {
                return self.authentication(queue, entry, sent, Some(data));
            }
            Ok(FabricsCommand::AuthenticationReceive(room)) => {
                return self.authentication(queue, entry, room, None);
            }
            Ok(FabricsCommand::Disconnect(_)) if is_admin => {
                Err(Status::INVALID_QUEUE_TYPE.do_not_retry())
            }
            Ok(FabricsCommand::Disconnect(Disconnect { record_format: 0 })) => {
                return self.disconnect(queue, entry);
            }
            Ok(FabricsCommand::Disconnect(_)) => {
                Err(Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry())
            }
            Ok(FabricsCommand::Connect(_)) => Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
            Err(status) => Err(status),
        };
        match outcome {
            Ok(result) => self.complete(queue, entry, CommandKind::Fabrics, result),
            Err(status) => self.fail(queue, entry, CommandKind::Fabrics, status),
        }
    }

    /// Disconnect: the completion goes out, then the queue ends.
    fn disconnect(&mut self, queue: u32, entry: &SubmissionEntry) {
        self.complete(queue, entry, CommandKind::Fabrics, 0);
        self.close_after_completion(queue, "the host has disconnected the queue");
    }

    fn property_get(&mut self, id: u16, property: PropertyGet) -> Result<u64, Status> {
        let invalid = Status::INVALID_FIELD.do_not_retry();
        let controller = self.controllers.get(id).ok_or(invalid)?;
        let capabilities = Capabilities {
            queue_entries_max: controller.entries_max(self.config.limits.queue_entries_max),
            timeout: READY_TIMEOUT,
        };
        let (value, size) = match property.offset {
            offset::CAP => (capabilities.to_bits(), PropertySize::Eight),
            offset::VS => (u64::from(VERSION_2_0), PropertySize::Four),
            offset::CC => (u64::from(controller.configuration().0), PropertySize::Four),
            offset::CSTS => (u64::from(controller.status()), PropertySize::Four),
            offset::NSSR => (0, PropertySize::Four),
            // Ready with media within the same time as CAP.TO says.
            offset::CRTO => (u64::from(READY_TIMEOUT), PropertySize::Four),
            _ => return Err(invalid),
        };
        if property.size != size {
            return Err(invalid);
        }
        Ok(value)
    }

    fn property_set(&mut self, id: u16, property: PropertySet) -> Result<(), Status> {
        let invalid = Status::INVALID_FIELD.do_not_retry();
        if property.size != PropertySize::Four || property.offset != offset::CC {
            return Err(invalid);
        }
        let new = Configuration(property.value as u32);
        let controller = self.controllers.get_mut(id).ok_or(invalid)?;
        let old = controller.set_configuration(new);
        controller.heard_of(self.now.wall);
        if new.shutdown() != 0 && old.shutdown() == 0 {
            self.shut_down(id);
        }
        let Some(controller) = self.controllers.get_mut(id) else { return Ok(()) };
        match (old.enabled(), new.enabled()) {
            (false, true) if controller.enable() => {
                let at = controller.expires();
                self.timers.set(at);
            }
            (true, false) => self.reset_controller(id),
            _ => {}
        }
        Ok(())
    }

    /// Authentication Send or Receive of so many bytes.
    fn authentication(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        command: command::Authentication,
        sent: Option<&[u8]>,
    ) {
        let Some(slot) = self.queues.get(queue) else { return };
        let Some(controller) = self.controllers.get(slot.controller()) else { return };
        let length = command.bytes;
        let sent = match sent {
            _ if length == 0 || length > AUTHENTICATION_BYTES_MAX => {
                Err(Status::INVALID_FIELD.do_not_retry())
            }
            Some(sent) => match sent.get(..length as usize) {
                Some(sent) => Ok(Some(sent.to_vec())),
                None => Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry()),
            },
            None => check_room(entry, length.into()).map(|()| None),
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(status) => return self.fail(queue, entry, CommandKind::Fabrics, status),
        };
        let authentication = Authentication {
            queue: Queue(queue),
            entry: *entry,
            command,
            data: sent,
            host_nqn: controller.host_nqn().to_owned(),
            host_id: *controller.host_id(),
            controller_id: controller.id(),
            queue_id: slot.queue_id(),
        };
        self.outputs.push_back(Output::Authentication(authentication));
    }
}
