//! Admin commands: which handler carries out which, and how each ends.

mod abort;
pub(crate) mod background;
pub(crate) mod discovery;
mod event;
pub(crate) mod feature;
mod firmware;
pub(crate) mod format;
pub(crate) mod identify;
mod log;
mod namespace;
mod placement;
pub(crate) mod sanitize;
pub(crate) mod self_test;
mod state;
mod tasks;
mod timestamp;
mod warnings;

pub(crate) use state::AdminState;

use crate::controllers::Role;
use crate::output::CommandKind;
use crate::subsystem::{Outcome, Subsystem};
use crate::transfer::check_admin;
use mynah_wire::nvme::command::AdminCommand;
use mynah_wire::nvme::opcode::{FABRICS, admin};
use mynah_wire::nvme::{Status, SubmissionEntry};

/// Memory that completions of an admin queue may hold; one completion more may begin.
const HELD_BYTES_MAX: u64 = 1 << 20;

/// An admin command and where it came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) queue: u32,
    pub(crate) controller: u16,
    pub(crate) entry: &'a SubmissionEntry,
    pub(crate) data: &'a [u8],
}

impl Subsystem {
    /// A command on an admin queue.
    pub(crate) fn submit_admin(&mut self, queue: u32, entry: &SubmissionEntry, data: &[u8]) {
        if entry.opcode == FABRICS {
            return self.submit_fabrics(queue, entry, data);
        }
        let Some(slot) = self.queues.get(queue) else { return };
        let id = slot.controller();
        let Some(controller) = self.controllers.get_mut(id) else { return };
        controller.heard_of(self.now.wall);
        if controller.is_fatal() {
            return;
        }
        if !controller.is_ready() {
            let status = Status::COMMAND_SEQUENCE_ERROR.do_not_retry();
            return self.fail(queue, entry, CommandKind::Admin, status);
        }
        let role = controller.role();
        let context = Context { queue, controller: id, entry, data };
        let outcome = self.check_admin(context, role).and_then(|()| self.admin_command(context));
        match outcome {
            Ok(Outcome::Done(result)) => self.complete(queue, entry, CommandKind::Admin, result),
            Ok(Outcome::OncePersistent(result)) => {
                let index = self.begin_whole(queue, entry, CommandKind::Admin, 0);
                self.describe();
                self.finish_persistent(index, result);
            }
            Ok(Outcome::Data(data)) => {
                self.complete_with_data(queue, entry, CommandKind::Admin, data)
            }
            Ok(Outcome::Answer(result, data)) => {
                self.complete_with_answer(queue, entry, result, data)
            }
            Ok(Outcome::Later) => {}
            Err(status) => self.fail(queue, entry, CommandKind::Admin, status),
        }
        self.deliver_events(id);
    }

    /// Refuses a command that cannot be carried out now, whatever its fields say.
    fn check_admin(&self, context: Context<'_>, role: Role) -> Result<(), Status> {
        let entry = context.entry;
        let all_there = || check_admin(entry, context.data, self.has_placement());
        if entry.flags & 3 != 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        match entry.opcode {
            admin::IDENTIFY | admin::GET_LOG_PAGE | admin::GET_FEATURES => {
                let slot = self.queues.get(context.queue).ok_or(Status::INTERNAL_ERROR)?;
                slot.account().check(HELD_BYTES_MAX)?;
                all_there()
            }
            admin::SET_FEATURES => all_there(),
            admin::ASYNCHRONOUS_EVENT_REQUEST | admin::KEEP_ALIVE => Ok(()),
            _ if role == Role::Discovery => Err(Status::INVALID_OPCODE.do_not_retry()),
            admin::ABORT => Ok(()),
            _ if self.admin.sanitizes() => Err(Status::SANITIZE_IN_PROGRESS),
            // Without data placement there is no such command, which is found out below.
            admin::DIRECTIVE_RECEIVE if self.has_placement() => {
                let slot = self.queues.get(context.queue).ok_or(Status::INTERNAL_ERROR)?;
                slot.account().check(HELD_BYTES_MAX)?;
                all_there()
            }
            _ => all_there(),
        }
    }

    fn admin_command(&mut self, context: Context<'_>) -> Result<Outcome, Status> {
        match AdminCommand::parse(context.entry)? {
            AdminCommand::Identify(identify) => self.identify(context, identify),
            AdminCommand::GetLogPage(request) => self.log_page(context, request),
            AdminCommand::SetFeatures(request) => self.set_features(context, request),
            AdminCommand::GetFeatures(request) => self.get_features(context, request),
            AdminCommand::AsynchronousEventRequest => self.event_request(context),
            AdminCommand::KeepAlive => Ok(Outcome::Done(0)),
            AdminCommand::Abort(abort) => self.abort(context, abort),
            AdminCommand::FormatNvm(request) => self.format_nvm(context, request),
            AdminCommand::Sanitize(request) => self.sanitize(context, request),
            AdminCommand::DeviceSelfTest(test) => self.device_self_test(context, test.code),
            AdminCommand::NamespaceManagement(request) => {
                self.namespace_management(context, request)
            }
            AdminCommand::NamespaceAttachment(request) => {
                self.namespace_attachment(context, request.attaches)
            }
            AdminCommand::FirmwareImageDownload(piece) => self.firmware_download(piece),
            AdminCommand::FirmwareCommit(commit) => self.firmware_commit(commit),
            AdminCommand::DirectiveSend(request) => self.directive_send(context, request),
            AdminCommand::DirectiveReceive(request) => self.directive_receive(context, request),
            // Of queues in guest memory, and carried out there.
            AdminCommand::CreateCompletionQueue(_)
            | AdminCommand::CreateSubmissionQueue(_)
            | AdminCommand::DeleteCompletionQueue(_)
            | AdminCommand::DeleteSubmissionQueue(_)
            | AdminCommand::DoorbellBufferConfig(_) => Err(Status::INVALID_OPCODE.do_not_retry()),
        }
    }
}
