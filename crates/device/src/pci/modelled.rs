//! I/O in modelled time: the model says when an entry is fetched and when data move.

use super::Function;
use super::data::{Segments, read_key};
use super::memory::{Fetched, Guest, GuestMemory, Unmapped, Watch};
use crate::Now;
use crate::model::ModelRequest;
use crate::store::Ready;
use crate::subsystem::Subsystem;
use mynah_model::io::Direction;
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::{FromZeros, IntoBytes};

/// What the model asks for that is answered in one turn, at most.
const ANSWERS: u32 = 1024;

impl Function {
    /// Brings the model to the present, answering what it asks for on the way.
    pub(super) fn answer_model<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
        watch: &mut W,
    ) -> bool {
        let mut worked = false;
        for _ in 0..ANSWERS {
            match subsystem.take_model_request(self.controller) {
                Some(ModelRequest::Fetch { queue }) => {
                    self.fetch(subsystem, guest.memory, queue, watch);
                }
                Some(ModelRequest::Transfer {
                    command, first_sector, sectors, direction, ..
                }) => {
                    let range = (u64::from(first_sector) * 512, sectors * 512);
                    self.move_data(subsystem, guest.memory, command, range, direction);
                }
                // Another function's turn.
                None if subsystem.is_held_up() => break,
                None => {
                    subsystem.advance(now);
                    if !subsystem.is_held_up() {
                        break;
                    }
                    continue;
                }
            }
            worked = true;
        }
        worked
    }

    /// Tells the model of entries that the host has put into its queues.
    pub(super) fn ring_model<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
    ) -> bool {
        let mut worked = false;
        for at in 0..self.active.len() {
            let id = self.active[at];
            let fresh = self.look(subsystem, guest, id);
            if fresh > 0
                && let Some(queue) = &self.submissions[usize::from(id)]
            {
                subsystem.ring(queue.slot, fresh);
                worked = true;
            }
        }
        worked
    }

    /// The next entry of a queue reaches the controller.
    fn fetch<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        slot: u32,
        watch: &mut W,
    ) {
        let id = subsystem.guest_queue_id(slot);
        let queue = self.submissions.get_mut(usize::from(id)).and_then(Option::as_mut);
        let Some(queue) = queue.filter(|queue| queue.slot == slot && queue.waiting() > 0) else {
            return subsystem.lose_fetched(slot);
        };
        let ((at, _), nth) = (queue.run(1), queue.taken);
        queue.fetched(1);
        let mut entry = SubmissionEntry::new_zeroed();
        if memory.read(at, entry.as_mut_bytes()).is_err() {
            self.fail(subsystem);
            return subsystem.lose_fetched(slot);
        }
        if watch.hears_each() {
            watch.fetched(&Fetched {
                queue_id: id,
                nth,
                outstanding: subsystem.guest_outstanding(slot) + 1,
                batch: 0,
                entry: &entry,
            });
        }
        match subsystem.guest_plain(slot, &entry) {
            Ok(Some((kind, plain))) => {
                let mut segments = self.spare();
                let to_host = kind == crate::CommandKind::Read;
                match segments.find(memory, &entry, plain.bytes, to_host) {
                    Ok(()) => {
                        let transfer = self.keep(slot, segments);
                        subsystem.begin_guest_plain(slot, &entry, kind, &plain, transfer);
                    }
                    Err(status) => {
                        self.reuse(segments);
                        subsystem.refuse_guest(slot, &entry, status);
                    }
                }
            }
            Ok(None) => self.fetch_other(subsystem, memory, (id, slot), &entry),
            Err(status) => subsystem.refuse_guest(slot, &entry, status),
        }
    }

    /// The next entry is no plain read or write.
    fn fetch_other<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        (id, slot): (u16, u32),
        entry: &SubmissionEntry,
    ) {
        let is_about_keys =
            subsystem.is_about_pairs(slot, entry) || subsystem.is_about_key_spaces(slot, entry);
        let request = match is_about_keys {
            true => subsystem.guest_key(slot, entry, |key, into| read_key(memory, key, into)),
            false => Ok(None),
        };
        let request = match request {
            Ok(Some(request)) => request,
            Ok(None) => return self.submit(subsystem, memory, id, entry),
            Err(status) => return subsystem.refuse_guest(slot, entry, status),
        };
        let mut segments = self.spare();
        if let Err(status) = segments.find(memory, entry, request.bytes, request.is_to_host()) {
            self.reuse(segments);
            return subsystem.refuse_guest(slot, entry, status);
        }
        let transfer = self.keep(slot, segments);
        if let Err(status) = subsystem.begin_guest_key(slot, entry, request, transfer) {
            self.forget(transfer);
            subsystem.refuse_guest(slot, entry, status);
        }
    }

    /// A value, or keys, cross the link.
    fn move_value<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        command: u32,
        transfer: u32,
        direction: Direction,
    ) -> Result<(), Status> {
        let Some(transfer) = self.transfers.get(transfer) else { return Ok(()) };
        let segments = &transfer.segments;
        let moved = match direction {
            Direction::ToHost => {
                segments.write(memory, 0, subsystem.answer_bytes(command, &mut self.scratch))
            }
            Direction::FromHost => match subsystem.staged_mut(command) {
                Some(into) => segments.read(memory, 0, into),
                None => Ok(()),
            },
        };
        moved.map_err(|Unmapped| Status::DATA_TRANSFER_ERROR)
    }

    /// Data of a read or write cross the link.
    fn move_data<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        command: u32,
        (skip, bytes): (u64, u32),
        direction: Direction,
    ) {
        let moved = match subsystem.guest_transfer(command) {
            // It goes to the host when the store has it.
            Ok((_, _, false)) => Ok(()),
            Ok((at, transfer, true)) => match (self.transfers.get(transfer), direction) {
                (None, _) => Ok(()),
                (Some(it), Direction::ToHost) => {
                    let (segments, at) = (&it.segments, at + skip);
                    store_to_host(subsystem, memory, segments, skip, at, bytes, &mut self.scratch)
                        .map_err(|Unmapped| Status::DATA_TRANSFER_ERROR)
                }
                (Some(it), Direction::FromHost) => {
                    let scratch = &mut self.scratch;
                    host_to_store(subsystem, memory, &it.segments, at, bytes, scratch)
                        .map(|ready| subsystem.wait_for(command, ready))
                        .map_err(|Unmapped| Status::DATA_TRANSFER_ERROR)
                }
            },
            Err(status) => match subsystem.key_transfer(command) {
                Some(transfer) => self.move_value(subsystem, memory, command, transfer, direction),
                None => Err(status),
            },
        };
        if let Err(status) = moved {
            subsystem.transfer_failed(command, status);
        }
        if direction == Direction::FromHost {
            subsystem.data_arrived(command);
        }
    }
}

/// Copies bytes of the store to the host, which are a command's data from `skip` on.
pub(super) fn store_to_host<M: GuestMemory + ?Sized>(
    subsystem: &mut Subsystem,
    memory: &M,
    segments: &Segments,
    skip: u64,
    at: u64,
    bytes: u32,
    scratch: &mut Vec<u8>,
) -> Result<(), Unmapped> {
    let mut done = 0;
    while done < bytes {
        let (at, skip) = (at + u64::from(done), skip + u64::from(done));
        if let Some(run) = subsystem.media.bytes(at, bytes - done) {
            segments.write(memory, skip, run)?;
            done += run.len() as u32;
            continue;
        }
        scratch.resize((bytes - done) as usize, 0);
        subsystem.media.read(None, at, scratch);
        segments.write(memory, skip, scratch)?;
        done = bytes;
    }
    Ok(())
}

/// Copies a command's data from the host to the store.
pub(super) fn host_to_store<M: GuestMemory + ?Sized>(
    subsystem: &mut Subsystem,
    memory: &M,
    segments: &Segments,
    at: u64,
    bytes: u32,
    scratch: &mut Vec<u8>,
) -> Result<Ready, Unmapped> {
    let mut done = 0;
    while done < bytes {
        let (at, skip) = (at + u64::from(done), u64::from(done));
        if let Some(run) = subsystem.media.bytes_mut(at, bytes - done) {
            segments.read(memory, skip, run)?;
            done += run.len() as u32;
            continue;
        }
        scratch.resize((bytes - done) as usize, 0);
        segments.read(memory, skip, scratch)?;
        return Ok(subsystem.media.write(at, scratch));
    }
    Ok(Ready::Now)
}
