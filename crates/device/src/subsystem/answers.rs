//! What whoever answers queries of a profile tells the subsystem.

use crate::Now;
use crate::output::{CommandKind, CompletionData, Query, Queue};
use crate::queue::State;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::Status;

impl Subsystem {
    /// The answer to [`crate::Output::Query`]: a result, and for [`Query::room`] bytes of data, of which
    /// those that are missing are zeros. False if nobody waits for it any more.
    pub fn answer_query(
        &mut self,
        now: Now,
        query: &Query,
        answer: Result<(u32, Vec<u8>), Status>,
    ) -> bool {
        self.advance(now);
        let (queue, entry) = (query.queue.0, &query.entry);
        let Some(slot) = self.queues.get(queue) else { return false };
        let same = (slot.controller(), slot.queue_id()) == (query.controller_id, query.queue_id);
        if slot.state() == State::Closing || !same {
            return false;
        }
        let (result, mut data) = match answer {
            Ok(answer) => answer,
            Err(status) => {
                self.fail(queue, entry, CommandKind::Admin, status);
                return true;
            }
        };
        data.resize(query.room as usize, 0);
        if let Some((offset, bytes)) = query.page {
            // What lies behind a page's end is zero.
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            data = data.get(from..).unwrap_or_default().to_vec();
            data.resize(bytes as usize, 0);
        }
        let data = match data.is_empty() {
            true => CompletionData::None,
            false => CompletionData::Bytes(data),
        };
        let kind = CommandKind::Admin;
        self.complete_as(queue, entry, kind, Status::SUCCESS, result.into(), data);
        true
    }

    /// NQN of the host at the other end of a queue.
    pub fn host_of(&self, queue: Queue) -> Option<&str> {
        let slot = self.queues.get(queue.0)?;
        Some(self.controllers.get(slot.controller())?.host_nqn())
    }
}
