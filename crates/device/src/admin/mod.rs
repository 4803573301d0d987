//! Admin commands.

pub(crate) mod event;
pub(crate) mod feature;
mod identify;
mod log;

use crate::controller::Role;
use crate::output::{Output, ReplyKind};
use crate::subsystem::{Answer, Subsystem};
use mynah_wire::nvme::opcode::{FABRICS, admin};
use mynah_wire::nvme::{Status, SubmissionEntry};

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
        let outcome = match (entry.opcode, role) {
            (_, _) if entry.flags & 3 != 0 => Err(Status::INVALID_FIELD.do_not_retry()),
            (admin::IDENTIFY, _) => self.identify(context),
            (admin::GET_LOG_PAGE, _) => self.log_page(context),
            (admin::SET_FEATURES, _) => self.set_features(context),
            (admin::GET_FEATURES, _) => self.get_features(context),
            (admin::ASYNCHRONOUS_EVENT_REQUEST, _) => self.event_request(context),
            (admin::KEEP_ALIVE, _) => Ok(Answer::Done(0)),
            (_, Role::Discovery) => Err(Status::INVALID_OPCODE.do_not_retry()),
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

    /// Whether anything is still to be polled; for tests and idle loops.
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    pub(crate) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }
}
