//! Read, Write and Flush of the NVM command set.

use super::{NAMESPACE_ALL, check_range};
use crate::config::Timing;
use crate::namespaces::SECTOR_BYTES;
use crate::namespaces::protection::{Check, METADATA_BYTES, complement, spread};
use crate::output::{CommandKind, Completion, CompletionData, Media, Output, Queue};
use crate::slots::NONE;
use crate::store::{PREFETCHED_BYTES, Ready};
use crate::subsystem::Subsystem;
use crate::subsystem::access::Access;
use crate::subsystem::commands::{BlockRun, Command, Overwrite, Step, Then};
use crate::subsystem::io_command::IoCommand;
use crate::transfer::check_room;
use mynah_model::io::Operation;
use mynah_stamp::StageSpans;
use mynah_wire::nvme::command::{BlockCommand, NvmCommand};
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};

/// So much of a timed read is brought near when its command comes: what lies between is long
/// enough for all of it, but a deep queue must not fill the cache.
const BYTES_NEAR_MAX: u32 = 4096;

impl Subsystem {
    /// Where a plain command's data lie; `None` if the command needs more care.
    #[inline]
    pub(crate) fn plain(
        &self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
    ) -> Result<Option<Plain>, Status> {
        let slot = self.queues.get(queue).ok_or(Status::INTERNAL_ERROR)?;
        let id = entry.namespace_id.get();
        let namespace = self.namespaces.active(slot.controller(), id)?;
        let BlockCommand { start, blocks, .. } = io;
        if let Err(status) = check_range(namespace, start, u64::from(blocks)) {
            // A namespace of pairs has no blocks.
            return if namespace.holds_pairs() { Ok(None) } else { Err(status) };
        }
        let bytes = blocks << namespace.format().shift;
        if bytes > slot.transport().max_transfer_bytes {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        if !namespace.is_plain() || self.namespaces.is_guarded() {
            return Ok(None);
        }
        let extent = &namespace.extents()[0];
        let Some(placement) = self.plain_placement(namespace, extent.pool, io.directive) else {
            return Ok(None);
        };
        let sector = start << (namespace.format().shift - 9);
        Ok(Some(Plain {
            namespace: id - 1,
            start,
            bytes,
            at: extent.store + sector * SECTOR_BYTES,
            pool: extent.pool,
            sector: extent.sector + sector,
            placement,
        }))
    }

    #[inline]
    pub(super) fn read(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
    ) -> Result<(), Status> {
        let Some(plain) = self.plain(queue, entry, io)? else {
            return self.guarded_read(queue, entry, io);
        };
        check_room(entry, plain.bytes.into())?;
        let ready = self.media.fetch(plain.at, plain.bytes);
        if self.config.timing == Timing::Immediate && ready == Ready::Now {
            self.complete_plain(queue, entry, CommandKind::Read, &plain);
            return Ok(());
        }
        self.bring_near(&plain);
        let mut command = self.plain_command(queue, entry, CommandKind::Read, &plain);
        command.read_from_media(ready.job());
        self.start_plain(command, &plain, Operation::Read, ready);
        Ok(())
    }

    /// Asks for what a read will copy when it is due, so that nothing then waits for memory.
    #[inline]
    fn bring_near(&self, plain: &Plain) {
        let bytes = plain.bytes.min(BYTES_NEAR_MAX);
        for at in (0..bytes).step_by(PREFETCHED_BYTES) {
            if !self.media.prefetch(plain.at + u64::from(at), bytes - at) {
                break;
            }
        }
    }

    #[inline]
    pub(super) fn write(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
        data: &[u8],
    ) -> Result<(), Status> {
        let Some(plain) = self.plain(queue, entry, io)? else {
            return self.guarded_write(queue, entry, io, data);
        };
        let Some(data) = data.get(..plain.bytes as usize) else {
            return Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry());
        };
        if self.admin.writes_through(io.force_unit_access) {
            return self.guarded_write(queue, entry, io, data);
        }
        let ready = self.media.write(plain.at, data);
        if self.config.timing == Timing::Immediate && ready == Ready::Now {
            self.complete_plain(queue, entry, CommandKind::Write, &plain);
            return Ok(());
        }
        let command = self.plain_command(queue, entry, CommandKind::Write, &plain);
        self.start_plain(command, &plain, Operation::Write, ready);
        Ok(())
    }

    #[inline]
    pub(crate) fn plain_command(
        &self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        plain: &Plain,
    ) -> Command {
        self.new_command(queue, kind)
            .of(entry, plain.namespace, plain.start)
            .in_one_run(plain.at, plain.bytes)
    }

    /// Answers a plain command at once.
    #[inline]
    fn complete_plain(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        plain: &Plain,
    ) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let (is_guests, flow, arrival) = (slot.is_guests(), slot.flow(), self.now.model);
        let mut done = CompletionEntry::new(entry.command_id.get(), Status::SUCCESS, 0);
        done.queue_head.set(slot.complete());
        self.health.count(kind, entry.opcode, plain.bytes);
        // Made where it goes: it is large.
        let completion = || Completion {
            queue: Queue(queue),
            flow,
            entry: done,
            data: match kind {
                CommandKind::Read => {
                    CompletionData::Media(Media { at: plain.at, bytes: plain.bytes, job: None })
                }
                _ => CompletionData::None,
            },
            kind,
            bytes: plain.bytes,
            arrival,
            due: None,
            stages: StageSpans::default(),
            link: None,
            transfer: NONE,
            direct: false,
            _held: None,
        };
        match is_guests {
            false => self.outputs.push_back(Output::Completion(completion())),
            true => self.post_to_guest(completion()),
        }
    }

    #[inline]
    pub(crate) fn start_plain(
        &mut self,
        command: Command,
        plain: &Plain,
        operation: Operation,
        ready: Ready,
    ) {
        let index = self.insert(command);
        self.wait_for(index, ready);
        if self.config.timing == Timing::Modelled {
            if let Some(command) = self.commands.get_mut(index) {
                command.wait();
            }
            let sectors = (u64::from(plain.bytes) / SECTOR_BYTES) as u32;
            let (pool, sector, placement) = (plain.pool, plain.sector, plain.placement);
            self.step(index, Step { operation, pool, sector, sectors, placement });
        }
    }

    /// Bytes that a command moves between host and controller.
    pub(super) fn moved_bytes(blocks: u32, shift: u8, metadata: u8, strip: bool) -> u32 {
        let metadata = if strip { 0 } else { u32::from(metadata) };
        blocks * ((1 << shift) + metadata)
    }

    fn guarded_read(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
    ) -> Result<(), Status> {
        if self.takes_key_value(queue, entry, &[]) {
            return Ok(());
        }
        let at = self.admit(queue, entry, Access::Read)?;
        let namespace = self.namespaces.need(at)?;
        let format = namespace.format();
        let BlockCommand { start, blocks, .. } = io;
        check_range(namespace, start, u64::from(blocks))?;
        let check = Check::of(&io, format)?;
        let strip = check.action;
        let moved = Self::moved_bytes(blocks, format.shift, format.metadata, strip);
        check_room(entry, moved.into())?;
        self.check_held(queue)?;
        let bad = namespace.uncorrectable().first_in(start, u64::from(blocks));
        let index = self.begin(queue, entry, CommandKind::Read, at);
        if let Some(bad) = bad {
            self.unreadable(index, bad);
        }
        self.set_bytes(index, blocks << format.shift);
        let run = BlockRun { start, blocks, check };
        self.hold(index, moved as usize);
        self.gather(index, at, vec![run], Then::ToHost { strip });
        self.add_steps(index, at, Operation::Read, start, u64::from(blocks));
        self.start(index);
        Ok(())
    }

    /// A block of the command cannot be read.
    pub(super) fn unreadable(&mut self, index: u32, block: u64) {
        if let Some(command) = self.commands.get_mut(index) {
            command.fail_at(Status::UNRECOVERED_READ_ERROR.do_not_retry(), block);
        }
    }

    pub(super) fn set_bytes(&mut self, index: u32, bytes: u32) {
        if let Some(command) = self.commands.get_mut(index) {
            command.set_bytes(bytes);
        }
    }

    fn guarded_write(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
        data: &[u8],
    ) -> Result<(), Status> {
        if self.takes_key_value(queue, entry, data) {
            return Ok(());
        }
        let at = self.admit(queue, entry, Access::Write)?;
        if self.defer(queue, entry, IoCommand::Nvm(NvmCommand::Write(io)), data, at)? {
            return Ok(());
        }
        let namespace = self.namespaces.need(at)?;
        let format = namespace.format();
        let BlockCommand { start, blocks, .. } = io;
        let check = Check::of(&io, format)?;
        if self.media.keeps_replaced() {
            // It may have to wait for what it replaces.
            self.check_held(queue)?;
        }
        let (data, metadata) = self.split(at, start, blocks, data, check)?;
        self.check_cleared(at, start, u64::from(blocks))?;
        let through = self.admin.writes_through(io.force_unit_access);
        let placed = self.place(at, io.directive)?;
        let index = self.begin(queue, entry, CommandKind::Write, at);
        self.set_placed(index, placed);
        self.set_bytes(index, blocks << format.shift);
        self.write_blocks(index, at, start, u64::from(blocks), Some((data, metadata)), through);
        let operation = if through { Operation::WriteThrough } else { Operation::Write };
        self.add_steps(index, at, operation, start, u64::from(blocks));
        self.start(index);
        Ok(())
    }

    /// Takes the host's blocks apart into data and metadata (as the store holds them), having
    /// checked or made the protection information.
    pub(super) fn split(
        &self,
        namespace: usize,
        start: u64,
        blocks: u32,
        from: &[u8],
        check: Check,
    ) -> Result<(Vec<u8>, Vec<u8>), Status> {
        let namespace = self.namespaces.need(namespace)?;
        check_range(namespace, start, u64::from(blocks))?;
        let format = namespace.format();
        let moved = Self::moved_bytes(blocks, format.shift, format.metadata, check.action);
        let Some(from) = from.get(..moved as usize) else {
            return Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry());
        };
        if format.metadata == 0 {
            return Ok((from.to_vec(), vec![]));
        }
        let size = 1usize << format.shift;
        let mut data = Vec::with_capacity(blocks as usize * size);
        let mut metadata = Vec::with_capacity(blocks as usize * METADATA_BYTES);
        let stride = if check.action { size } else { size + METADATA_BYTES };
        for (at, block) in (0..).zip(from.chunks_exact(stride)) {
            let (bytes, information) = block.split_at(size);
            data.extend_from_slice(bytes);
            if check.action {
                metadata.extend_from_slice(&check.generate(format, at, bytes));
            } else {
                check.verify(format, at, bytes, information)?;
                metadata.extend_from_slice(information);
            }
        }
        complement(&mut metadata);
        Ok((data, metadata))
    }

    /// Puts blocks into the store; without content, they are to read as zeros.
    pub(super) fn write_blocks(
        &mut self,
        index: u32,
        namespace: usize,
        start: u64,
        blocks: u64,
        content: Option<(Vec<u8>, Vec<u8>)>,
        through: bool,
    ) {
        let Some(target) = self.namespaces.get_mut(namespace) else { return };
        if target.clear_marks(start, blocks) {
            self.media.outdate_description();
        }
        let (shift, block_sectors) = (target.format().shift, target.format().block_sectors());
        let mut overwrite = Overwrite { parts: vec![], discards: vec![], flush: through };
        let mut done = 0;
        for place in self.places(namespace, start, blocks) {
            let Some((data, metadata)) = &content else {
                overwrite.discards.push(place.data);
                overwrite.discards.extend(place.metadata);
                continue;
            };
            let end = done + place.data.1 as usize;
            overwrite.parts.push((place.data.0, data[done..end].to_vec()));
            if let Some((at, _)) = place.metadata {
                let (from, to) = (done >> shift, end >> shift);
                let part = &metadata[from * METADATA_BYTES..to * METADATA_BYTES];
                overwrite.parts.push((at, spread(part, block_sectors)));
            }
            done = end;
        }
        self.overwrite(index, overwrite);
    }

    pub(crate) fn flush(&mut self, queue: u32, entry: &SubmissionEntry) -> Result<(), Status> {
        let slot = self.queues.get(queue).ok_or(Status::INTERNAL_ERROR)?;
        let controller = slot.controller();
        let mut namespaces = Vec::new();
        if entry.namespace_id.get() == NAMESPACE_ALL {
            self.controllers.check_path(controller)?;
            let all = 0..self.namespaces.places();
            namespaces.extend(
                all.filter(|&at| self.namespaces.active(controller, at as u32 + 1).is_ok()),
            );
        } else {
            namespaces.push(self.admit(queue, entry, Access::Flush)?);
        }
        if self.admin.sanitizes() {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        let first = namespaces.first().copied().unwrap_or(0);
        let index = self.begin_whole(queue, entry, CommandKind::Flush, first);
        self.flush_namespaces(index, &namespaces);
        self.start(index);
        Ok(())
    }

    /// Has a command put everything that namespaces hold on stable storage.
    pub(crate) fn flush_namespaces(&mut self, index: u32, namespaces: &[usize]) {
        let mut steps: Vec<Step> = Vec::new();
        let namespaces = namespaces.iter().filter_map(|&at| self.namespaces.get(at));
        for pool in namespaces.flat_map(|it| it.pools()) {
            if steps.iter().all(|step| step.pool != pool) {
                let operation = Operation::Flush;
                steps.push(Step::whole(operation, pool));
            }
        }
        let runs: Vec<_> = steps.iter().map(|step| self.model.pool_bytes(step.pool)).collect();
        self.makes_certain(index, &runs);
        if let Some(command) = self.commands.get_mut(index) {
            steps.into_iter().for_each(|step| command.add_step(step));
        }
        let ready = self.flush_store();
        self.wait_for(index, ready);
    }
}

/// A command whose data are one run of the store and one of the model.
pub(crate) struct Plain {
    namespace: u32,
    start: u64,
    pub(crate) bytes: u32,
    pub(crate) at: u64,
    pool: mynah_model::io::NamespaceId,
    sector: u64,
    placement: mynah_model::io::PlacementId,
}
