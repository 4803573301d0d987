//! Commands under way when something overtakes them that lets them do no more to their
//! namespace: it is formatted, deleted, sanitized or protected against writes, or their host is
//! preempted. They end, with a status that says why, when the model and the store are done with
//! what they have begun; what has overtaken them ends after them.

use super::{Command, Then, Work};
use crate::namespaces::reservation::HostId;
use crate::output::CommandKind;
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use crate::subsystem::key_value::has_yet_to_change;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::opcode::NvmOpcode;

impl Subsystem {
    /// Commands on a namespace (by its index) do no more to it from now on. The command `by`, if
    /// any, waits for them.
    pub(crate) fn overtake(&mut self, namespace: usize, by: Option<u32>, status: Status) {
        self.overtake_some(namespace, by, status, |_, _| true);
    }

    /// [`Subsystem::overtake`] for the commands of some hosts, and for those whose queue is gone:
    /// which host they were from is not known.
    pub(crate) fn overtake_hosts(
        &mut self,
        namespace: usize,
        by: u32,
        status: Status,
        hosts: &[HostId],
    ) {
        self.overtake_some(namespace, Some(by), status, |subsystem, command| {
            let Some(slot) = subsystem.queues.get(command.queue) else { return true };
            let controller = subsystem.controllers.get(slot.controller());
            controller.is_some_and(|it| hosts.contains(it.host_id()))
        });
    }

    /// [`Subsystem::overtake`] for the commands that have yet to write.
    pub(crate) fn overtake_writes(&mut self, namespace: usize, by: u32, status: Status) {
        self.overtake_some(namespace, Some(by), status, |_, command| match &command.work {
            Work::Blocks(blocks) => matches!(
                blocks.then,
                Then::Copy { .. } | Then::CompareAndWrite { .. } | Then::Overwrite { .. }
            ),
            Work::Key(work) => has_yet_to_change(work),
            // A guest's data are fetched when the model says so.
            Work::None
            | Work::Media
            | Work::Place(_)
            | Work::Fused(_)
            | Work::Format(_)
            | Work::Release(_)
            | Work::Sanitize
            | Work::ShutDown(_)
            | Work::Persist(_) => command.kind == CommandKind::Write && command.transfer != NONE,
        });
    }

    fn overtake_some(
        &mut self,
        namespace: usize,
        by: Option<u32>,
        status: Status,
        is_meant: impl Fn(&Subsystem, &Command) -> bool,
    ) {
        let overtaken: Vec<u32> = self
            .commands
            .iter()
            .filter(|(_, it)| it.namespace as usize == namespace && has_blocks(it))
            .filter(|(_, it)| is_meant(self, it))
            .map(|(index, _)| index)
            .collect();
        let mut had_it_alone = false;
        for index in overtaken {
            let Some(command) = self.commands.get_mut(index) else { continue };
            (command.status, command.overtaken) = (status, true);
            command.steps.clear();
            had_it_alone |= std::mem::take(&mut command.exclusive);
            if let Some(by) = by
                && let Some(waiting) = self.commands.get_mut(by)
            {
                waiting.waiting += 1;
                self.commands.awaited.entry(index).or_default().push(by);
            }
        }
        if had_it_alone {
            self.release_exclusive(namespace as u32);
        }
    }

    /// A command has ended: what has overtaken it need not wait for it any more.
    #[inline]
    pub(crate) fn has_ended(&mut self, index: u32) {
        if self.commands.awaited.is_empty() {
            return;
        }
        for waiting in self.commands.awaited.remove(&index).unwrap_or_default() {
            self.part_done(waiting);
        }
    }
}

/// Whether a command reads or changes blocks or pairs of its namespace.
fn has_blocks(command: &Command) -> bool {
    match (&command.work, command.kind) {
        (_, CommandKind::Admin | CommandKind::Fabrics) | (Work::Place(_), _) => false,
        (Work::Key(_), _) => true,
        (_, CommandKind::Read | CommandKind::Write | CommandKind::Trim) => true,
        (_, CommandKind::OtherIo) => has_other_blocks(command.opcode),
        (
            _,
            CommandKind::Flush
            | CommandKind::Store
            | CommandKind::Retrieve
            | CommandKind::Delete
            | CommandKind::Exist
            | CommandKind::List,
        ) => false,
    }
}

fn has_other_blocks(opcode: u8) -> bool {
    let Some(opcode) = NvmOpcode::of(opcode) else { return false };
    match opcode {
        NvmOpcode::Read
        | NvmOpcode::Write
        | NvmOpcode::Compare
        | NvmOpcode::Verify
        | NvmOpcode::Copy
        | NvmOpcode::WriteZeroes
        | NvmOpcode::DatasetManagement => true,
        // It has ended when it has been marked: nothing is under way.
        NvmOpcode::WriteUncorrectable => false,
        NvmOpcode::Flush
        | NvmOpcode::IoManagementReceive
        | NvmOpcode::IoManagementSend
        | NvmOpcode::ReservationRegister
        | NvmOpcode::ReservationReport
        | NvmOpcode::ReservationAcquire
        | NvmOpcode::ReservationRelease => false,
    }
}
