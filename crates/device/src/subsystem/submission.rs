//! Commands that come on I/O queues.

use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use crate::subsystem::io_command::IoCommand;
use mynah_wire::nvme::SubmissionEntry;
use mynah_wire::nvme::opcode::{self, FABRICS};

impl Subsystem {
    /// A command on an I/O queue.
    #[inline]
    pub(crate) fn submit_io(&mut self, queue: u32, entry: &SubmissionEntry, data: &[u8]) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let Some(controller) = self.controllers.get_mut(slot.controller()) else { return };
        controller.heard_of(self.now.wall);
        if controller.is_fatal() {
            return;
        }
        let is_fused = slot.has_first_half() || entry.flags & 3 != 0;
        if is_fused && !self.submit_fused(queue, entry, data) {
            return;
        }
        self.io(queue, entry, data);
    }

    /// Parses an I/O command and carries it out.
    #[inline]
    fn io(&mut self, queue: u32, entry: &SubmissionEntry, data: &[u8]) {
        match IoCommand::parse(entry) {
            Ok(command) => self.carry_out(queue, entry, command, data),
            Err(_) if entry.opcode == FABRICS => self.submit_fabrics(queue, entry, data),
            Err(_) if opcode::query::has(entry.opcode) => {
                if let Err(status) = self.query(queue, entry, data) {
                    self.fail(queue, entry, CommandKind::Admin, status);
                }
            }
            Err(_) if self.takes_key_value(queue, entry, data) => {}
            Err(status) => self.fail(queue, entry, CommandKind::OtherIo, status),
        }
    }
}
