//! The reservation commands (Base 2.0, sections 7.2 to 7.5).

use crate::namespaces::reservation::{HostId, Notice, Notices, Reservations};
use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use crate::subsystem::access::Access;
use crate::transfer::check_room;
use mynah_wire::nvme::command::{AcquireAction, ReservationCommand, ReservationReport};
use mynah_wire::nvme::reservation::{AcquireData, RegisterData, Registrant, ReservationStatus};
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

impl Subsystem {
    pub(crate) fn reservation(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        request: ReservationCommand,
        data: &[u8],
    ) -> Result<(), Status> {
        let at = self.admit(queue, entry, Access::Reservation)?;
        let controller = self.queues.get(queue).map_or(0, |slot| slot.controller());
        let host = match self.controllers.get(controller) {
            // A host that has not said who it is holds nothing.
            Some(controller) if controller.is_guests() && *controller.host_id() == [0; 16] => {
                return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
            }
            Some(controller) => *controller.host_id(),
            None => return Err(Status::INTERNAL_ERROR),
        };
        let short = || Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
        match request {
            ReservationCommand::Report(request) => {
                let report = self.reservation_report(at, entry, request)?;
                self.complete_with_data(queue, entry, CommandKind::OtherIo, report);
                Ok(())
            }
            ReservationCommand::Register(request) => {
                let keys = RegisterData::ref_from_prefix(data).map_err(|_| short())?.0;
                let (current, new) = (keys.current_key.get(), keys.new_key.get());
                self.change_reservations(queue, entry, at, false, |state| {
                    state.register(host, request, current, new)
                })
            }
            ReservationCommand::Acquire(request) => {
                let keys = AcquireData::ref_from_prefix(data).map_err(|_| short())?.0;
                let (current, preempted) = (keys.current_key.get(), keys.preempt_key.get());
                let aborts = request.action == AcquireAction::PreemptAndAbort;
                self.change_reservations(queue, entry, at, aborts, |state| {
                    state.acquire(host, request, current, preempted)
                })
            }
            ReservationCommand::Release(request) => {
                let key = U64::ref_from_prefix(data).map_err(|_| short())?.0.get();
                self.change_reservations(queue, entry, at, false, |state| {
                    state.release(host, request, key)
                })
            }
        }
    }

    /// Changes registrations or the reservation of a namespace (by its index). Where the change
    /// `aborts`, the commands of those that it has preempted end.
    fn change_reservations(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        at: usize,
        aborts: bool,
        change: impl FnOnce(&mut Reservations) -> Result<Notices, Status>,
    ) -> Result<(), Status> {
        let Some(namespace) = self.namespaces.get_mut(at) else {
            return Err(Status::INTERNAL_ERROR);
        };
        let before = namespace.reservations().clone();
        let notices = namespace.change_reservations(change)?;
        let persists = namespace.reservations().persists();
        if persists && !self.can_describe_more(0) {
            // What could not be kept is not promised.
            if let Some(namespace) = self.namespaces.get_mut(at) {
                namespace.change_reservations(|state| *state = before);
            }
            return Err(Status::INTERNAL_ERROR);
        }
        let is_preemption = |notice: &Notice| *notice != Notice::ReservationReleased;
        let preempted = notices.iter().filter(|(_, notice)| aborts && is_preemption(notice));
        let preempted: Vec<HostId> = preempted.map(|(host, _)| *host).collect();
        self.give_notice(at as u32 + 1, notices);
        let is_kept = persists || before.persists();
        if !is_kept && preempted.is_empty() {
            self.complete(queue, entry, CommandKind::OtherIo, 0);
            return Ok(());
        }
        let index = self.begin_whole(queue, entry, CommandKind::OtherIo, at);
        if is_kept {
            // It is done when it is on stable storage.
            self.media.outdate_description();
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
            for id in self.controllers.ids() {
                if let Some(controller) = self.controllers.get_mut(id)
                    && *controller.host_id() == host
                    && controller.features().wants_notice(namespace, notice)
                {
                    controller.note_reservation(notice as u8, namespace);
                    self.raise(id, crate::controllers::events::RESERVATION_NOTIFICATION);
                }
            }
        }
    }

    fn reservation_report(
        &self,
        at: usize,
        entry: &SubmissionEntry,
        request: ReservationReport,
    ) -> Result<Vec<u8>, Status> {
        // Hosts of fabrics have 128-bit identifiers: EDS has to be set.
        if !request.extended {
            return Err(Status::HOST_ID_INCONSISTENT.do_not_retry());
        }
        check_room(entry, request.bytes)?;
        let namespace = self.namespaces.need(at)?;
        let state = &namespace.reservations();
        let mut rows = Vec::new();
        for registrant in state.registrants() {
            let held = state.is_held_by(&registrant.host);
            let mut row = Registrant { status: u8::from(held), ..Default::default() };
            row.key.set(registrant.key);
            row.host_id = registrant.host;
            let before = rows.len();
            for controller in self.controllers.iter() {
                if *controller.host_id() == registrant.host
                    && namespace.is_attached(controller.id())
                {
                    row.controller_id.set(controller.id());
                    rows.push(row);
                }
            }
            if rows.len() == before {
                row.controller_id.set(0xffff);
                rows.push(row);
            }
        }
        let mut head = ReservationStatus::default();
        head.generation.set(state.generation());
        head.kind = state.holder_kind().map_or(0, |kind| kind as u8);
        head.registrants.set(rows.len() as u16);
        head.persists = u8::from(state.persists());
        let mut report = head.as_bytes().to_vec();
        for row in &rows {
            report.extend_from_slice(row.as_bytes());
        }
        report.truncate(request.bytes as usize);
        Ok(report)
    }
}
