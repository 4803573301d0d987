//! Copy, format 0 (NVM Command Set 1.0, section 3.2.2).

use super::check_range;
use crate::namespaces::protection::{Check, complement};
use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use crate::subsystem::access::Access;
use crate::subsystem::commands::{BlockRun, Then};
use crate::subsystem::io_command::IoCommand;
use mynah_model::io::Operation;
use mynah_wire::nvme::command::{Copy, NvmCommand, Protection};
use mynah_wire::nvme::protection::CopyRange;
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::FromBytes;

/// MSSRL: blocks of a source range.
pub(crate) const RANGE_BLOCKS_MAX: u16 = 1024;
/// MCL: most logical blocks of a command.
pub(crate) const BLOCKS_MAX: u32 = 4096;
/// Source ranges of a command (MSRC is one less).
pub(crate) const RANGES_MAX: usize = 64;

impl Subsystem {
    pub(super) fn copy(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        copy: Copy,
        data: &[u8],
    ) -> Result<(), Status> {
        let at = self.admit(queue, entry, Access::Write)?;
        self.admit(queue, entry, Access::Read)?;
        if self.defer(queue, entry, IoCommand::Nvm(NvmCommand::Copy(copy)), data, at)? {
            return Ok(());
        }
        let namespace = self.namespaces.need(at)?;
        let format = namespace.format();
        let invalid = Status::INVALID_FIELD.do_not_retry();
        if copy.descriptor_format != 0 {
            return Err(invalid);
        }
        let count = usize::from(copy.ranges);
        if count > RANGES_MAX {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.do_not_retry());
        }
        let ranges = <[CopyRange]>::ref_from_prefix_with_elems(data, count)
            .map_err(|_| Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?
            .0;
        let (reads, writes) = (copy.read_protection, copy.write_protection);
        if reads.strips != writes.action.strips && format.protection != 0 {
            return Err(invalid);
        }
        let mut runs = Vec::with_capacity(count);
        let mut total = 0;
        let mut bad = None;
        for range in ranges {
            let (start, blocks) = (range.start.get(), u32::from(range.blocks.get()) + 1);
            if blocks > u32::from(RANGE_BLOCKS_MAX) {
                return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.do_not_retry());
            }
            check_range(namespace, start, u64::from(blocks))?;
            let wanted = Protection {
                action: reads,
                reference_tag: range.reference_tag.get(),
                application_tag: range.application_tag.get(),
                application_mask: range.application_mask.get(),
            };
            let check = Check::new(wanted, format).checked(start, format)?;
            runs.push(BlockRun { start, blocks, check });
            total += blocks;
            bad = bad.or(namespace.uncorrectable().first_in(start, u64::from(blocks)));
        }
        if total > BLOCKS_MAX {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.do_not_retry());
        }
        let to = copy.start;
        check_range(namespace, to, u64::from(total))?;
        let check = Check::new(writes, format).checked(to, format)?;
        let through = self.admin.writes_through(copy.force_unit_access);
        self.check_held(queue)?;
        let placed = self.place(at, copy.directive)?;
        let index = self.begin(queue, entry, CommandKind::OtherIo, at);
        self.set_placed(index, placed);
        if let Some(bad) = bad {
            self.unreadable(index, bad);
        }
        self.set_bytes(index, total << format.shift);
        self.hold(index, (total as usize) << format.shift);
        for run in &runs {
            self.add_steps(index, at, Operation::Read, run.start, u64::from(run.blocks));
        }
        let write = if through { Operation::WriteThrough } else { Operation::Write };
        self.add_steps(index, at, write, to, u64::from(total));
        self.gather(index, at, runs, Then::Copy { to, check, through });
        self.start(index);
        Ok(())
    }

    /// The source blocks are at hand: writes them to their destination.
    pub(super) fn copy_blocks(
        &mut self,
        index: u32,
        namespace: usize,
        to: u64,
        check: Check,
        through: bool,
        (data, mut metadata): (Vec<u8>, Vec<u8>),
    ) {
        let Some(target) = self.namespaces.get(namespace) else { return };
        let format = target.format();
        let size = 1usize << format.shift;
        if format.protection != 0 {
            for (at, (data, item)) in
                (0..).zip(data.chunks_exact(size).zip(metadata.chunks_exact_mut(8)))
            {
                if check.action {
                    item.copy_from_slice(&check.generate(format, at, data));
                } else if let Err(status) = check.verify(format, at, data, item) {
                    if let Some(command) = self.commands.get_mut(index) {
                        command.set_status(status);
                    }
                    return self.finish(index, crate::CompletionData::None);
                }
            }
        }
        complement(&mut metadata);
        let blocks = (data.len() / size) as u64;
        if let Err(status) = self.check_cleared(namespace, to, blocks) {
            if let Some(command) = self.commands.get_mut(index) {
                command.set_status(status);
            }
            return self.finish(index, crate::CompletionData::None);
        }
        self.write_blocks(index, namespace, to, blocks, Some((data, metadata)), through);
        self.go_on(index);
    }
}
