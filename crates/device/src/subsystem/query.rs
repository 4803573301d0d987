//! Queries of a profile (vendor commands c1h and c2h, log page c2h): the subsystem knows whose they
//! are, and whoever serves it answers. Guests' functions have no profile, and no such commands.

use crate::output::{Output, Query, Queue};
use crate::subsystem::Subsystem;
use crate::transfer::host_room;
use mynah_wire::nvme::command::GetLogPage;
use mynah_wire::nvme::opcode::query::{RUN, STORE_PROGRAM};
use mynah_wire::nvme::query::PROGRAM_BYTES_MAX;
use mynah_wire::nvme::{Status, SubmissionEntry};

/// Memory that answers of a queue may hold; one more may begin.
const HELD_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the query log page.
const PAGE_BYTES: u32 = 4096;

impl Subsystem {
    /// A query on an I/O queue. Its namespace does not matter.
    #[cold]
    pub(crate) fn query(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> Result<(), Status> {
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

    /// Get Log Page of the query log page, which whoever serves the profile answers as well.
    pub(crate) fn query_page(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        request: GetLogPage,
    ) -> Result<(), Status> {
        if request.offset > PAGE_BYTES.into() {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        self.pass_on(queue, entry, (PAGE_BYTES, None, Some((request.offset, request.bytes as u32))))
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
}
