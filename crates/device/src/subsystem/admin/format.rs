//! Format NVM (Base 2.0, section 5.14).

use super::Context;
use crate::controllers::Controller;
use crate::namespaces::{FORMATS, Format, Namespace, WriteProtection};
use crate::output::CommandKind;
use crate::subsystem::admin::background::{Erasure, TaskKind};
use crate::subsystem::commands::{Overwrite, Work};
use crate::subsystem::nvm::NAMESPACE_ALL;
use crate::subsystem::{Outcome, Subsystem};
use mynah_model::io::{Control, Operation};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{FormatNvm, SecureErase};

/// The block format of an index, with metadata and protection as asked for.
pub(super) fn format(index: u8, extended: bool, protection: u8) -> Result<Format, Status> {
    let invalid = Status::FORMAT_INVALID.do_not_retry();
    let format = FORMATS.get(usize::from(index)).ok_or(invalid)?;
    // Metadata lie behind the blocks or nowhere.
    let fits = format.metadata == 0 || extended;
    let protected = protection == 0 || (format.metadata > 0 && protection <= 3);
    if !fits || !protected {
        return Err(invalid);
    }
    Ok(Format { protection, ..*format })
}

impl Subsystem {
    pub(super) fn format_nvm(
        &mut self,
        context: Context<'_>,
        request: FormatNvm,
    ) -> Result<Outcome, Status> {
        let FormatNvm { lba_format, extended, protection, secure_erase, .. } = request;
        let format = format(lba_format, extended, protection)?;
        let erasure = match secure_erase {
            SecureErase::None | SecureErase::Cryptographic => Erasure::Forget,
            SecureErase::UserData => Erasure::Blocks,
            SecureErase::Reserved(_) => return Err(Status::INVALID_FIELD.do_not_retry()),
        };
        let id = context.entry.namespace_id.get();
        let ids: Vec<u32> = if id == NAMESPACE_ALL {
            self.namespaces.active_ids(context.controller)
        } else {
            vec![self.namespaces.active(context.controller, id)?.id()]
        };
        for &id in &ids {
            let namespace = self.namespaces.active(context.controller, id)?;
            self.may_be_emptied(namespace, context.controller)?;
            // Pairs have one format.
            if namespace.holds_pairs() && (lba_format != 0 || protection != 0) {
                return Err(Status::FORMAT_INVALID.do_not_retry());
            }
        }
        self.admin.abort_self_test(4, self.now.wall);
        for &id in &ids {
            if let Some(namespace) = self.namespaces.with_id_mut(id) {
                namespace.begin_format();
            }
        }
        let first = ids.first().map_or(0, |id| *id as usize - 1);
        let index = self.begin_whole(context.queue, context.entry, CommandKind::Admin, first);
        if let Some(command) = self.commands.get_mut(index) {
            command.set_work(Work::Format(ids.iter().map(|&id| (id, format)).collect()));
            // For its time.
            command.wait();
        }
        for &id in &ids {
            self.overtake(id as usize - 1, Some(index), Status::FORMAT_IN_PROGRESS);
        }
        let span = self.erasure_time(erasure);
        let ends = self.admin.begin_task(
            self.now.wall,
            span,
            TaskKind::Format { command: index, namespaces: ids },
        );
        self.timers.set(Some(ends));
        Ok(Outcome::Later)
    }

    /// Whether a controller may destroy what a namespace holds.
    pub(super) fn may_be_emptied(
        &self,
        namespace: &Namespace,
        controller: u16,
    ) -> Result<(), Status> {
        if namespace.is_formatting() {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        let host = self.controllers.get(controller).map(Controller::host_id);
        if !host.is_some_and(|host| namespace.reservations().admits(host, true)) {
            return Err(Status::RESERVATION_CONFLICT);
        }
        if namespace.protection() != WriteProtection::None {
            return Err(Status::NAMESPACE_WRITE_PROTECTED.do_not_retry());
        }
        Ok(())
    }

    /// The format's time is over: erases the namespaces in the store and in the model.
    pub(crate) fn erase_formatted(&mut self, command: u32, namespaces: &[u32]) {
        for &id in namespaces {
            self.erase_namespace(command, id as usize - 1);
        }
        self.start(command);
        self.part_done(command);
    }

    /// Takes all pairs from a namespace of pairs; whether it is one.
    pub(super) fn erase_pairs(&mut self, at: usize) -> bool {
        let pairs = self.namespaces.get_mut(at).and_then(|it| it.any_pairs_mut());
        let Some(mut pairs) = pairs else { return false };
        if let Ok(values) = self.media.values_mut() {
            pairs.clear(values);
        }
        let pool = pairs.pool();
        self.control(Control::Format(pool));
        true
    }

    /// Adds the emptying of a namespace to a command of the subsystem.
    pub(super) fn erase_namespace(&mut self, command: u32, at: usize) {
        self.need_own_queue();
        if self.erase_pairs(at) {
            return;
        }
        let Some(namespace) = self.namespaces.get(at) else { return };
        // All of its space, of which its blocks may not fill the end.
        let blocks = namespace.blocks();
        let extents = namespace.extents();
        let mut discards = Vec::new();
        for extent in extents {
            let bytes = extent.sectors * crate::namespaces::SECTOR_BYTES;
            discards.push((extent.store, bytes));
            let metadata = self.media.metadata_place(extent.store + bytes);
            let first = self.media.metadata_place(extent.store);
            discards.push((first, metadata - first));
        }
        self.add_steps(command, at, Operation::Trim, 0, blocks);
        self.overwrite(command, Overwrite { parts: vec![], discards, flush: false });
    }
}
