//! Abort (Base 2.0, section 5.1).

use super::Context;
use crate::output::CommandKind;
use crate::subsystem::{Outcome, Subsystem};
use mynah_model::io::{Control, QueueId, Tag};
use mynah_wire::nvme::command::Abort;
use mynah_wire::nvme::opcode::admin;
use mynah_wire::nvme::{Status, SubmissionEntry};

/// ACL: concurrent Abort commands, less one. Each is answered at once.
pub(super) const LIMIT: u8 = 3;

impl Subsystem {
    /// Calls a command back if that is still possible: an event request, or a write that
    /// waits for room in the cache. The result says whether it was not (1).
    pub(super) fn abort(&mut self, context: Context<'_>, abort: Abort) -> Result<Outcome, Status> {
        let Abort { queue_id, command_id } = abort;
        let not_aborted = Ok(Outcome::Done(1));
        let Some(controller) = self.controllers.get_mut(context.controller) else {
            return not_aborted;
        };
        if queue_id == 0 {
            if !controller.events_mut().abort(command_id) {
                return not_aborted;
            }
            let opcode = admin::ASYNCHRONOUS_EVENT_REQUEST;
            let mut entry = SubmissionEntry { opcode, ..Default::default() };
            entry.command_id.set(command_id);
            let (status, data) = (Status::ABORT_REQUESTED, crate::CompletionData::None);
            self.complete_as(context.queue, &entry, CommandKind::Admin, status, 0, data);
            return Ok(Outcome::Done(0));
        }
        let queue = controller.io_queue(queue_id).ok_or(Status::INVALID_FIELD.do_not_retry())?;
        let found = self
            .commands
            .iter()
            .find(|(_, command)| command.is(queue, command_id))
            .map(|(index, _)| index);
        let Some(index) = found else { return not_aborted };
        self.control(Control::Abort(QueueId(queue as u16), Tag(index)));
        let still_there = self.commands.get(index).is_some_and(|it| it.is(queue, command_id));
        Ok(Outcome::Done(u64::from(still_there)))
    }
}
