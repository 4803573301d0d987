//! Admin commands.

mod abort;
pub(crate) mod event;
pub(crate) mod feature;
mod firmware;
pub(crate) mod format;
pub(crate) mod identify;
mod log;
mod namespace;
pub(crate) mod sanitize;
pub(crate) mod self_test;

use crate::controller::Role;
use crate::output::ReplyKind;
use crate::subsystem::{Answer, Subsystem};
use crate::transfer::check_admin;
use mynah_wire::nvme::opcode::{FABRICS, admin};
use mynah_wire::nvme::{Status, SubmissionEntry};

/// Memory that replies of an admin queue may hold; one reply more may begin.
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
        let id = slot.controller;
        let may_hold = slot.account.check(HELD_BYTES_MAX);
        let Some(controller) = &mut self.controllers[usize::from(id)] else { return };
        controller.last_seen = self.now.wall;
        if controller.is_fatal() {
            return;
        }
        if !controller.is_ready() {
            let status = Status::COMMAND_SEQUENCE_ERROR.do_not_retry();
            return self.fail(queue, entry, ReplyKind::Admin, status);
        }
        let role = controller.role;
        let context = Context { queue, controller: id, entry, data };
        let all_there = check_admin(entry, data);
        let outcome = match (entry.opcode, role) {
            (_, _) if entry.flags & 3 != 0 => Err(Status::INVALID_FIELD.do_not_retry()),
            (admin::IDENTIFY | admin::GET_LOG_PAGE | admin::GET_FEATURES, _)
                if let Err(busy) = may_hold =>
            {
                Err(busy)
            }
            (
                admin::IDENTIFY | admin::GET_LOG_PAGE | admin::GET_FEATURES | admin::SET_FEATURES,
                _,
            ) if let Err(short) = all_there => Err(short),
            (admin::IDENTIFY, _) => self.identify(context),
            (admin::GET_LOG_PAGE, _) => self.log_page(context),
            (admin::SET_FEATURES, _) => self.set_features(context),
            (admin::GET_FEATURES, _) => self.get_features(context),
            (admin::ASYNCHRONOUS_EVENT_REQUEST, _) => self.event_request(context),
            (admin::KEEP_ALIVE, _) => Ok(Answer::Done(0)),
            (_, Role::Discovery) => Err(Status::INVALID_OPCODE.do_not_retry()),
            (admin::ABORT, _) => self.abort(context),
            _ if self.sanitizes() => Err(Status::SANITIZE_IN_PROGRESS),
            _ if let Err(short) = all_there => Err(short),
            (admin::FORMAT_NVM, _) => self.format_nvm(context),
            (admin::SANITIZE, _) => self.sanitize(context),
            (admin::DEVICE_SELF_TEST, _) => self.device_self_test(context),
            (admin::NAMESPACE_MANAGEMENT, _) => self.namespace_management(context),
            (admin::NAMESPACE_ATTACHMENT, _) => self.namespace_attachment(context),
            (admin::FIRMWARE_IMAGE_DOWNLOAD, _) => self.firmware_download(context),
            (admin::FIRMWARE_COMMIT, _) => self.firmware_commit(context),
            _ => Err(Status::INVALID_OPCODE.do_not_retry()),
        };
        match outcome {
            Ok(Answer::Done(result)) => self.reply(queue, entry, ReplyKind::Admin, result),
            Ok(Answer::Data(data)) => self.reply_data(queue, entry, ReplyKind::Admin, data),
            Ok(Answer::Later) => {}
            Err(status) => self.fail(queue, entry, ReplyKind::Admin, status),
        }
        self.deliver_events(id);
    }
}
