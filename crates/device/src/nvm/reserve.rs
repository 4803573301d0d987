//! The reservation commands (Base 2.0, sections 7.2 to 7.5).

use super::Access;
use super::reservation::{HostId, Notice, Notices, PREEMPT_AND_ABORT};
use crate::output::ReplyKind;
use crate::subsystem::Subsystem;
use crate::transfer::check_room;
use mynah_wire::nvme::opcode::nvm;
use mynah_wire::nvme::reservation::{AcquireData, RegisterData, Registrant, ReservationStatus};
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

impl Subsystem {
    pub(super) fn reservation(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> Result<(), Status> {
        let at = self.admit(queue, entry, Access::Reservation)?;
        let controller = self.queues.get(queue).map_or(0, |slot| slot.controller);
        let host = match &self.controllers[usize::from(controller)] {
            // A host that has not said who it is holds nothing.
            Some(controller) if controller.is_guests() && controller.host_id == [0; 16] => {
                return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
            }
            Some(controller) => controller.host_id,
            None => return Err(Status::INTERNAL_ERROR),
        };
        if entry.opcode == nvm::RESERVATION_REPORT {
            let report = self.reservation_report(at, entry)?;
            self.reply_data(queue, entry, ReplyKind::OtherIo, report);
            return Ok(());
        }
        let short = || Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
        let dword10 = entry.dword10.get();
        let Some(namespace) = &mut self.namespaces[at] else { return Err(Status::INTERNAL_ERROR) };
        let before = namespace.reservations.clone();
        let state = &mut namespace.reservations;
        let notices = match entry.opcode {
            nvm::RESERVATION_REGISTER => {
                let (keys, _) = RegisterData::read_from_prefix(data).map_err(|_| short())?;
                state.register(host, dword10, keys.current_key.get(), keys.new_key.get())?
            }
            nvm::RESERVATION_ACQUIRE => {
                let (keys, _) = AcquireData::read_from_prefix(data).map_err(|_| short())?;
                state.acquire(host, dword10, keys.current_key.get(), keys.preempt_key.get())?
            }
            _ => {
                let (key, _) = U64::read_from_prefix(data).map_err(|_| short())?;
                state.release(host, dword10, key.get())?
            }
        };
        namespace.settle();
        let persists = namespace.reservations.persist;
        if persists && !self.can_describe_more(0) {
            // What could not be kept is not promised.
            if let Some(namespace) = &mut self.namespaces[at] {
                namespace.reservations = before;
                namespace.settle();
            }
            return Err(Status::INTERNAL_ERROR);
        }
        let is_preemption = |notice: &Notice| *notice != Notice::ReservationReleased;
        let aborts = entry.opcode == nvm::RESERVATION_ACQUIRE && dword10 & 7 == PREEMPT_AND_ABORT;
        let preempted = notices.iter().filter(|(_, notice)| aborts && is_preemption(notice));
        let preempted: Vec<HostId> = preempted.map(|(host, _)| *host).collect();
        self.give_notice(at as u32 + 1, notices);
        let is_kept = persists || before.persist;
        if !is_kept && preempted.is_empty() {
            self.reply(queue, entry, ReplyKind::OtherIo, 0);
            return Ok(());
        }
        let index = self.begin(queue, entry, ReplyKind::OtherIo, at);
        if let Some(command) = self.commands.get_mut(index) {
            command.start = 0;
        }
        if is_kept {
            // It is done when it is on stable storage.
            self.is_described = false;
            let ready = self.flush_store();
            self.wait_for(index, ready);
        }
        // And when nothing of the preempted hosts is under way (so do nvmet_pr_do_abort in
        // drivers/nvme/target/pr.c of Linux, and SPDK's target).
        if !preempted.is_empty() {
            self.overtake_hosts(at, index, Status::ABORTED_PREEMPTED, &preempted);
        }
        self.start(index);
        Ok(())
    }

    /// Tells hosts what happened to their registrations and reservations.
    fn give_notice(&mut self, namespace: u32, notices: Notices) {
        for (host, notice) in notices {
            for id in 1..self.controllers.len() {
                if let Some(controller) = &mut self.controllers[id]
                    && controller.host_id == host
                    && controller.features.wants_notice(namespace, notice)
                {
                    controller.note_reservation(notice as u8, namespace);
                    self.raise(id as u16, crate::admin::event::RESERVATION_NOTIFICATION);
                }
            }
        }
    }

    fn reservation_report(&self, at: usize, entry: &SubmissionEntry) -> Result<Vec<u8>, Status> {
        // Hosts of fabrics have 128-bit identifiers: EDS has to be set.
        if entry.dword11.get() & 1 == 0 {
            return Err(Status::HOST_ID_INCONSISTENT.do_not_retry());
        }
        let wanted = (u64::from(entry.dword10.get()) + 1) * 4;
        check_room(entry, wanted)?;
        let namespace = self.namespaces[at].as_ref().ok_or(Status::INTERNAL_ERROR)?;
        let state = &namespace.reservations;
        let mut rows = Vec::new();
        for registrant in &state.registrants {
            let held = state.is_held_by(&registrant.host);
            let mut row = Registrant { status: u8::from(held), ..Default::default() };
            row.key.set(registrant.key);
            row.host_id = registrant.host;
            let before = rows.len();
            for controller in self.controllers.iter().flatten() {
                if controller.host_id == registrant.host
                    && namespace.attached.contains(controller.id)
                {
                    row.controller_id.set(controller.id);
                    rows.push(row);
                }
            }
            if rows.len() == before {
                row.controller_id.set(0xffff);
                rows.push(row);
            }
        }
        let mut head = ReservationStatus::default();
        head.generation.set(state.generation);
        head.kind = state.holder_kind().map_or(0, |kind| kind as u8);
        head.registrants.set(rows.len() as u16);
        head.persists = u8::from(state.persist);
        let mut report = head.as_bytes().to_vec();
        for row in &rows {
            report.extend_from_slice(row.as_bytes());
        }
        report.truncate(wanted as usize);
        Ok(report)
    }
}
