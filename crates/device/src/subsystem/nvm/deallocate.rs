//! Dataset Management, Write Zeroes, Write Uncorrectable (NVM Command Set 1.0, sections
//! 3.2.3, 3.2.7, 3.2.8).

use super::check_range;
use crate::namespaces::SECTOR_BYTES;
use crate::namespaces::protection::{Check, METADATA_BYTES, complement, spread};
use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use crate::subsystem::access::Access;
use crate::subsystem::commands::Overwrite;
use crate::subsystem::io_command::IoCommand;
use mynah_model::io::Operation;
use mynah_wire::nvme::command::{BlockCommand, DatasetManagement, NvmCommand};
use mynah_wire::nvme::protection::{DatasetRange, guard};
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::FromBytes;

/// Ranges as runs of blocks, each a first block and a count, that neither overlap nor touch.
fn merged(ranges: &[DatasetRange]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = ranges
        .iter()
        .map(|range| (range.start.get(), u64::from(range.blocks.get())))
        .filter(|&(_, blocks)| blocks > 0)
        .collect();
    runs.sort_unstable();
    runs.dedup_by(|next, run| {
        let touches = next.0 <= run.0 + run.1;
        if touches {
            run.1 = run.1.max(next.0 + next.1 - run.0);
        }
        touches
    });
    runs
}

impl Subsystem {
    pub(super) fn dataset_management(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        request: DatasetManagement,
        data: &[u8],
    ) -> Result<(), Status> {
        let at = self.admit(queue, entry, Access::Write)?;
        if self.defer(
            queue,
            entry,
            IoCommand::Nvm(NvmCommand::DatasetManagement(request)),
            data,
            at,
        )? {
            return Ok(());
        }
        let count = usize::from(request.ranges);
        let ranges = <[DatasetRange]>::ref_from_prefix_with_elems(data, count)
            .map_err(|_| Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?
            .0;
        let namespace = self.namespaces.need(at)?;
        for range in ranges {
            if range.blocks.get() > 0 {
                check_range(namespace, range.start.get(), u64::from(range.blocks.get()))?;
            }
        }
        let deallocates = request.deallocates;
        let runs = merged(ranges);
        if deallocates && !namespace.uncorrectable().is_empty() {
            let adds = |&&(start, blocks): &&(u64, u64)| {
                let units = self.whole_units(at, start, blocks);
                units.iter().any(|run| namespace.uncorrectable().clear_adds(run.0, run.1))
            };
            self.check_marks(runs.iter().filter(adds).count())?;
        }
        let index = self.begin_whole(queue, entry, CommandKind::Trim, at);
        if deallocates {
            let mut discards = Vec::new();
            for (start, blocks) in runs {
                self.add_steps(index, at, Operation::Trim, start, blocks);
                for (start, blocks) in self.whole_units(at, start, blocks) {
                    self.deallocated(at, start, blocks, &mut discards);
                }
            }
            self.overwrite(index, Overwrite { parts: vec![], discards, flush: false });
        }
        self.start(index);
        Ok(())
    }

    /// Notes that blocks are deallocated, and which bytes of the store go with them.
    fn deallocated(&mut self, at: usize, start: u64, blocks: u64, discards: &mut Vec<(u64, u64)>) {
        if let Some(namespace) = self.namespaces.get_mut(at)
            && namespace.clear_marks(start, blocks)
        {
            self.media.outdate_description();
        }
        for place in self.places(at, start, blocks) {
            discards.push(place.data);
            discards.extend(place.metadata);
        }
    }

    /// The runs of blocks that fill whole mapping units of the drive within a range.
    fn whole_units(&self, at: usize, start: u64, blocks: u64) -> Vec<(u64, u64)> {
        let Some(namespace) = self.namespaces.get(at) else { return vec![] };
        let (unit, per_block) =
            (self.namespaces.space().unit_sectors(), namespace.format().block_sectors());
        let mut sector = start * per_block;
        let mut runs = Vec::new();
        for part in namespace.parts(sector, blocks * per_block) {
            // Extents begin and end with whole units, and blocks divide units or are divided
            // by them.
            let grain = unit.max(per_block);
            let skip = part.sector.next_multiple_of(grain) - part.sector;
            if skip < part.sectors {
                let whole = (part.sectors - skip) / grain * grain;
                if whole > 0 {
                    runs.push(((sector + skip) / per_block, whole / per_block));
                }
            }
            sector += part.sectors;
        }
        runs
    }

    pub(super) fn write_zeroes(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
    ) -> Result<(), Status> {
        let at = self.admit(queue, entry, Access::Write)?;
        if self.defer(queue, entry, IoCommand::Nvm(NvmCommand::WriteZeroes(io)), &[], at)? {
            return Ok(());
        }
        let namespace = self.namespaces.need(at)?;
        let format = namespace.format();
        let (start, blocks) = (io.start, u64::from(io.blocks));
        check_range(namespace, start, blocks)?;
        let check = Check::of(&io, format)?;
        self.check_cleared(at, start, blocks)?;
        let through = self.admin.writes_through(io.force_unit_access);
        let placed = self.place(at, io.directive)?;
        let index = self.begin(queue, entry, CommandKind::Trim, at);
        self.set_placed(index, placed);
        let write = if through { Operation::WriteThrough } else { Operation::Write };
        if io.deallocates {
            // The edges that fill no whole unit are written.
            let mut next = start;
            for (from, count) in self.whole_units(at, start, blocks) {
                self.add_steps(index, at, write, next, from - next);
                self.add_steps(index, at, Operation::Trim, from, count);
                next = from + count;
            }
            self.add_steps(index, at, write, next, start + blocks - next);
            self.write_blocks(index, at, start, blocks, None, through);
        } else if format.metadata == 0 {
            self.add_steps(index, at, write, start, blocks);
            self.write_blocks(index, at, start, blocks, None, through);
        } else {
            self.add_steps(index, at, write, start, blocks);
            self.write_zeroes_with_metadata(index, at, start, blocks, check, through);
        }
        self.start(index);
        Ok(())
    }

    /// Zeros with protection information that the host's checks pass, or zeros.
    fn write_zeroes_with_metadata(
        &mut self,
        index: u32,
        at: usize,
        start: u64,
        blocks: u64,
        check: Check,
        through: bool,
    ) {
        let Some(namespace) = self.namespaces.get(at) else { return };
        let format = namespace.format();
        let guard = guard(&vec![0; 1 << format.shift]);
        let mut parts = Vec::new();
        let mut discards = Vec::new();
        let mut done = 0;
        for place in self.places(at, start, blocks) {
            discards.push(place.data);
            let count = place.data.1 / SECTOR_BYTES / format.block_sectors();
            let mut metadata = vec![0; count as usize * METADATA_BYTES];
            if check.action {
                for (item, number) in metadata.chunks_exact_mut(METADATA_BYTES).zip(done..) {
                    item.copy_from_slice(&check.generate_guarded(format, number, guard));
                }
            }
            complement(&mut metadata);
            done += count as u32;
            let metadata = spread(&metadata, format.block_sectors());
            parts.extend(place.metadata.map(|(at, _)| (at, metadata)));
        }
        if let Some(namespace) = self.namespaces.get_mut(at)
            && namespace.clear_marks(start, blocks)
        {
            self.media.outdate_description();
        }
        self.overwrite(index, Overwrite { parts, discards, flush: through });
    }

    pub(super) fn write_uncorrectable(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
    ) -> Result<(), Status> {
        let at = self.admit(queue, entry, Access::Write)?;
        if self.defer(queue, entry, IoCommand::Nvm(NvmCommand::WriteUncorrectable(io)), &[], at)? {
            return Ok(());
        }
        let namespace = self.namespaces.need(at)?;
        let (start, blocks) = (io.start, u64::from(io.blocks));
        check_range(namespace, start, blocks)?;
        self.check_marks(namespace.uncorrectable().mark_adds(start, blocks).into())?;
        self.namespaces.need_mut(at)?.mark(start, blocks);
        self.media.outdate_description();
        self.complete(queue, entry, CommandKind::OtherIo, 0);
        Ok(())
    }
}
