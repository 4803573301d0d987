//! What whoever authenticates hosts tells the subsystem.

use crate::Now;
use crate::output::{Authentication, CommandKind, Queue};
use crate::queue::State;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::Status;

impl Subsystem {
    /// The answer to [`crate::Output::Authentication`]. False if nobody waits for it any more.
    pub fn answer_authentication(
        &mut self,
        now: Now,
        request: &Authentication,
        status: Status,
        data: Option<Vec<u8>>,
    ) -> bool {
        self.advance(now);
        let Some(slot) = self.queues.get(request.queue.0) else { return false };
        if slot.state() == State::Closing
            || slot.controller() != request.controller_id
            || slot.queue_id() != request.queue_id
        {
            return false;
        }
        match (status.is_success(), data) {
            (true, Some(data)) => {
                self.complete_with_data(
                    request.queue.0,
                    &request.entry,
                    CommandKind::Fabrics,
                    data,
                );
            }
            (true, None) => self.complete(request.queue.0, &request.entry, CommandKind::Fabrics, 0),
            (false, _) => self.fail(request.queue.0, &request.entry, CommandKind::Fabrics, status),
        }
        true
    }

    /// Answers an authentication command that was the host's last: the queue is over once
    /// the completion has gone out.
    pub fn refuse_authentication(
        &mut self,
        now: Now,
        request: &Authentication,
        data: Option<Vec<u8>>,
        reason: &'static str,
    ) {
        if self.answer_authentication(now, request, Status::SUCCESS, data) {
            self.close_after_completion(request.queue.0, reason);
        }
    }

    /// The host at the other end of the queue has proved who it is.
    pub fn set_authenticated(&mut self, queue: Queue) {
        if let Some(slot) = self.queues.get_mut(queue.0) {
            slot.authenticated();
        }
    }
}
