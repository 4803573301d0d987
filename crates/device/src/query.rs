//! Queries of a profile (vendor commands c1h and c2h, log page c2h): the subsystem knows whose they
//! are, and whoever serves it answers. Guests' functions have no profile, and no such commands.

use crate::Now;
use crate::output::{CommandKind, CompletionData, Output, Query, Queue};
use crate::queue::State;
use crate::subsystem::Subsystem;
use crate::transfer::host_room;
use mynah_wire::nvme::command::GetLogPage;
use mynah_wire::nvme::opcode::query::{RUN, STORE_PROGRAM};
use mynah_wire::nvme::query::PROGRAM_BYTES_MAX;
use mynah_wire::nvme::{Status, SubmissionEntry};

/// Memory that answers of a queue may hold; one more may begin.
const HELD_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the log page.
const PAGE_BYTES: u32 = 4096;

impl Subsystem {
    /// A query on an I/O queue. Its namespace does not matter.
    #[cold]
    pub(crate) fn query(&mut self, queue: u32, entry: &SubmissionEntry, data: &[u8]) {
        if let Err(status) = self.ask(queue, entry, data) {
            self.fail(queue, entry, CommandKind::Admin, status);
        }
    }

    fn ask(&mut self, queue: u32, entry: &SubmissionEntry, data: &[u8]) -> Result<(), Status> {
        let slot = self.queues.get(queue).ok_or(Status::INTERNAL_ERROR)?;
        if slot.is_guests() {
            return Err(Status::INVALID_OPCODE.do_not_retry());
        }
        let invalid = Status::INVALID_FIELD.do_not_retry();
        let most = slot.transport().max_transfer_bytes;
        let (room, program) = match entry.opcode {
            STORE_PROGRAM if data.is_empty() || data.len() > PROGRAM_BYTES_MAX => {
                return Err(invalid);
            }
            STORE_PROGRAM => (0, Some(data.to_vec())),
            RUN => (host_room(entry).unwrap_or(0), None),
            _ => return Err(Status::INVALID_OPCODE.do_not_retry()),
        };
        if room > most {
            return Err(invalid);
        }
        slot.account().check(HELD_BYTES_MAX)?;
        self.pass_on(queue, entry, (room, program, None))
    }

    /// The log page is an answer as well.
    pub(crate) fn query_page(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        wanted: GetLogPage,
    ) -> Result<(), Status> {
        self.pass_on(queue, entry, (PAGE_BYTES, None, Some((wanted.offset, wanted.bytes as u32))))
    }

    fn pass_on(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        (room, program, page): (u32, Option<Vec<u8>>, Option<(u64, u32)>),
    ) -> Result<(), Status> {
        let slot = self.queues.get(queue).ok_or(Status::INTERNAL_ERROR)?;
        let controller = self.controllers.get(slot.controller()).ok_or(Status::INTERNAL_ERROR)?;
        let query = Query {
            queue: Queue(queue),
            entry: *entry,
            program,
            room,
            page,
            came: self.now.wall,
            host_nqn: controller.host_nqn().to_owned(),
            controller_id: controller.id(),
            queue_id: slot.queue_id(),
        };
        self.outputs.push_back(Output::Query(Box::new(query)));
        Ok(())
    }

    /// The answer to [`Output::Query`]: a result, and for [`Query::room`] bytes of data, of which
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

    /// The host that a queue is of, by its NQN.
    pub fn host_of(&self, queue: Queue) -> Option<&str> {
        let slot = self.queues.get(queue.0)?;
        Some(self.controllers.get(slot.controller())?.host_nqn())
    }
}
