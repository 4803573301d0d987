//! Who may use a namespace, and for what.

use crate::Now;
use crate::controllers::events::ANA_CHANGED;
use crate::controllers::{AnaState, Path};
use crate::namespaces::WriteProtection;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::{Status, SubmissionEntry};

/// How a command touches the blocks or pairs of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Counts as a write where the namespace is reserved, and not where it is protected (Base 2.0,
    /// section 8.12; nvmet_io_cmd_check_access in drivers/nvme/target/core.c of Linux).
    Flush,
    ReadPairs,
    ChangePairs,
    /// Reads or changes reservations only.
    Reservation,
}

impl Subsystem {
    /// Whether the queue's controller may use the namespace for this; returns the
    /// namespace's index.
    pub(crate) fn admit(
        &self,
        queue: u32,
        entry: &SubmissionEntry,
        access: Access,
    ) -> Result<usize, Status> {
        self.admit_to(queue, entry.namespace_id.get(), access)
    }

    /// [`Subsystem::admit`] for a namespace that the entry does not name.
    pub(crate) fn admit_to(&self, queue: u32, id: u32, access: Access) -> Result<usize, Status> {
        let slot = self.queues.get(queue).ok_or(Status::INTERNAL_ERROR)?;
        let namespace = self.namespaces.active(slot.controller(), id)?;
        self.controllers.check_path(slot.controller())?;
        if self.admin.sanitizes() {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        if namespace.is_formatting() {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        let of_pairs = match access {
            Access::Read | Access::Write => false,
            Access::ReadPairs | Access::ChangePairs => true,
            Access::Flush | Access::Reservation => namespace.holds_pairs(),
        };
        if namespace.holds_pairs() != of_pairs {
            // It is of another command set.
            return Err(Status::INVALID_OPCODE.do_not_retry());
        }
        if access == Access::Reservation {
            return Ok(id as usize - 1);
        }
        let writes = !matches!(access, Access::Read | Access::ReadPairs);
        if let Some(controller) = self.controllers.get(slot.controller())
            && !namespace.reservations().admits(controller.host_id(), writes)
        {
            return Err(Status::RESERVATION_CONFLICT);
        }
        let changes = matches!(access, Access::Write | Access::ChangePairs);
        if changes && namespace.protection() != WriteProtection::None {
            return Err(Status::NAMESPACE_WRITE_PROTECTED.do_not_retry());
        }
        Ok(id as usize - 1)
    }

    /// Gives the ANA group another state for those whose path this is; tells their hosts if it is
    /// another. What was changed last counts.
    pub fn set_ana_state(&mut self, now: Now, path: Path, state: AnaState) {
        self.advance(now);
        for id in self.controllers.change_path(path, state) {
            self.raise(id, ANA_CHANGED);
        }
        self.settle_guard();
    }

    /// Recomputes whether reads and writes need more checks than usual, whatever their namespace.
    pub(crate) fn settle_guard(&mut self) {
        let is_guarded = self.media.keeps_replaced()
            || self.admin.sanitizes()
            || self.controllers.has_closed_path();
        self.namespaces.set_guarded(is_guarded);
    }
}
