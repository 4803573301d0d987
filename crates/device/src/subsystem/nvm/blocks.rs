//! Blocks brought together from the store, and what then happens to them; writes that keep
//! what they replace; commands that need a namespace for themselves.

use crate::media::Segment;
use crate::namespaces::SECTOR_BYTES;
use crate::namespaces::protection::{METADATA_BYTES, brought_together, complement};
use crate::output::{CommandKind, CompletionData};
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use crate::subsystem::commands::{BlockRun, Blocks, Overwrite, Then, Work};
use mynah_wire::nvme::Status;

/// Where blocks lie in the store: first byte and bytes.
pub(super) struct Place {
    pub(super) data: (u64, u64),
    /// The room for their metadata ([`crate::namespaces::protection::spread`]).
    pub(super) metadata: Option<(u64, u64)>,
}

impl Subsystem {
    /// Where a range of blocks lies in the store.
    pub(super) fn places(&self, namespace: usize, start: u64, blocks: u64) -> Vec<Place> {
        let Some(namespace) = self.namespaces.get(namespace) else { return vec![] };
        let format = namespace.format();
        let per_block = format.block_sectors();
        let parts = namespace.parts(start * per_block, blocks * per_block);
        let place = |part: crate::namespaces::Extent| Place {
            data: (part.store, part.sectors * SECTOR_BYTES),
            metadata: (format.metadata > 0).then(|| {
                (self.media.metadata_place(part.store), part.sectors * METADATA_BYTES as u64)
            }),
        };
        parts.map(place).collect()
    }

    /// Has the blocks brought near; [`Then`] happens when they are.
    pub(super) fn gather(&mut self, index: u32, namespace: usize, runs: Vec<BlockRun>, then: Then) {
        let mut blocks = Blocks { runs, data: vec![], metadata: vec![], then };
        for at in 0..blocks.runs.len() {
            let run = blocks.runs[at];
            for place in self.places(namespace, run.start, u64::from(run.blocks)) {
                blocks.data.push(self.near(index, place.data));
                if let Some(metadata) = place.metadata {
                    blocks.metadata.push(self.near(index, metadata));
                }
            }
        }
        if let Some(command) = self.commands.get_mut(index) {
            command.set_work(Work::Blocks(Box::new(blocks)));
        }
    }

    fn near(&mut self, index: u32, (at, bytes): (u64, u64)) -> Segment {
        let bytes = bytes as u32;
        let ready = self.media.fetch(at, bytes);
        self.wait_for(index, ready);
        Segment { at, bytes, job: ready.job() }
    }

    /// Copies segments that are near, one behind the other.
    fn collect(&mut self, segments: &[Segment]) -> Vec<u8> {
        let bytes: usize = segments.iter().map(|segment| segment.bytes as usize).sum();
        let mut all = vec![0; bytes];
        let mut rest = &mut all[..];
        for segment in segments {
            let (part, tail) = rest.split_at_mut(segment.bytes as usize);
            self.media.read(segment.job, segment.at, part);
            rest = tail;
        }
        all
    }

    /// Ends a command that has changed what outlives the process, with this result: when that is on
    /// stable storage, because its host asks for nothing more.
    pub(crate) fn finish_persistent(&mut self, index: u32, result: u64) {
        let ready = self.flush_store();
        self.wait_for(index, ready);
        match self.commands.get_mut(index) {
            Some(command) if command.is_waiting() => command.set_work(Work::Persist(result)),
            _ => self.finish_with(index, CompletionData::None, result),
        }
    }

    /// A command waits for nothing any more: goes on with its blocks, or ends it.
    pub(crate) fn blocks_ready(&mut self, index: u32) {
        let Some(command) = self.commands.get_mut(index) else { return };
        let orphan = command.queue() == NONE;
        match command.work() {
            Work::None | Work::Media => return self.finish(index, CompletionData::None),
            Work::Key(_) => return self.finish_key(index),
            Work::Fused(_) => return self.finish_fused(index, Status::SUCCESS),
            // The power was lost, or its queue has gone.
            Work::Place(_) => return drop(self.remove_place(index)),
            &Work::Persist(result) => return self.finish_with(index, CompletionData::None, result),
            Work::Format(_) | Work::Release(_) | Work::Sanitize | Work::ShutDown(_) => {
                let work = command.take_work();
                return match self.end_own(index, work) {
                    true => self.finish_persistent(index, 0),
                    false => self.finish(index, CompletionData::None),
                };
            }
            Work::Blocks(_) => {}
        }
        let Work::Blocks(blocks) = command.take_work() else { return };
        let Blocks { runs, data, metadata, then } = *blocks;
        let namespace = command.namespace();
        // A comparison is to see all of a write or nothing; the host may try again.
        let is_in_between = !command.is_exclusive()
            && matches!(then, Then::Copy { .. } | Then::Overwrite { .. })
            && self.namespaces.get(namespace).is_some_and(|it| it.is_exclusive());
        if is_in_between && command.status().is_success() {
            command.set_status(Status::COMMAND_INTERRUPTED);
        }
        let status = command.status();
        if let Then::Overwrite { overwrite, work } = then {
            command.set_work(work);
            if command.is_overtaken() || is_in_between {
                for job in data.iter().filter_map(|segment| segment.job) {
                    self.media.forget(job);
                }
            } else {
                // Even where nobody listens any more: the model counts it as written.
                self.media.keep(&data);
                self.apply(index, *overwrite);
            }
            return self.go_on(index);
        }
        if !status.is_success() || orphan {
            for job in data.iter().chain(&metadata).filter_map(|segment| segment.job) {
                self.media.forget(job);
            }
            if let Then::CompareAndWrite { second, .. } = then {
                return self.fail_fused(index, status, &second.entry);
            }
            return self.finish(index, CompletionData::None);
        }
        let data = self.collect(&data);
        let block_sectors =
            self.namespaces.get(namespace).map_or(1, |it| it.format().block_sectors());
        let mut metadata = brought_together(self.collect(&metadata), block_sectors);
        complement(&mut metadata);
        if let Err((status, block)) = self.check(namespace, &runs, &data, &metadata) {
            if let Some(command) = self.commands.get_mut(index) {
                command.fail_at(status, block);
            }
            if let Then::CompareAndWrite { second, .. } = then {
                return self.fail_fused(index, status, &second.entry);
            }
            return self.finish(index, CompletionData::None);
        }
        match then {
            Then::ToHost { strip } => {
                let bytes = self.join(namespace, data, &metadata, strip);
                self.finish(index, CompletionData::Bytes(bytes));
            }
            Then::Check => self.finish(index, CompletionData::None),
            Then::Compare { data: host, strip } => {
                let stored = self.join(namespace, data, &metadata, strip);
                if let Some(command) = self.commands.get_mut(index)
                    && stored != host
                {
                    command.set_status(Status::COMPARE_FAILURE);
                }
                self.finish(index, CompletionData::None);
            }
            Then::CompareAndWrite { data: host, strip, second } => {
                let stored = self.join(namespace, data, &metadata, strip);
                if stored == host {
                    self.fused_write(index, namespace, *second);
                } else {
                    self.fail_fused(index, Status::COMPARE_FAILURE, &second.entry);
                }
            }
            Then::Copy { to, check, through } => {
                self.copy_blocks(index, namespace, to, check, through, (data, metadata));
            }
            Then::Overwrite { .. } => {}
        }
    }

    /// Ends a command unless it waits for something again.
    pub(super) fn go_on(&mut self, index: u32) {
        if self.commands.get(index).is_some_and(|command| !command.is_waiting()) {
            self.blocks_ready(index);
        }
    }

    /// Checks protection information; says which block fails.
    fn check(
        &self,
        namespace: usize,
        runs: &[BlockRun],
        data: &[u8],
        metadata: &[u8],
    ) -> Result<(), (Status, u64)> {
        let Some(namespace) = self.namespaces.get(namespace) else {
            return Err((Status::INVALID_NAMESPACE, 0));
        };
        let format = namespace.format();
        if format.protection == 0 {
            return Ok(());
        }
        let mut blocks =
            data.chunks_exact(1 << format.shift).zip(metadata.chunks_exact(METADATA_BYTES));
        for run in runs {
            for (at, (data, metadata)) in (0..run.blocks).zip(&mut blocks) {
                run.check
                    .verify(format, at, data, metadata)
                    .map_err(|status| (status, run.start + u64::from(at)))?;
            }
        }
        Ok(())
    }

    /// Puts data and metadata together as the host sees blocks.
    fn join(&self, namespace: usize, data: Vec<u8>, metadata: &[u8], strip: bool) -> Vec<u8> {
        if metadata.is_empty() || strip {
            return data;
        }
        let shift = self.namespaces.get(namespace).map_or(9, |it| it.format().shift);
        let mut joined = Vec::with_capacity(data.len() + metadata.len());
        for (data, metadata) in data.chunks(1 << shift).zip(metadata.chunks(METADATA_BYTES)) {
            joined.extend_from_slice(data);
            joined.extend_from_slice(metadata);
        }
        joined
    }

    /// Writes and discards bytes of the store; first keeps what they replace if a power cut
    /// could bring it back.
    pub(crate) fn overwrite(&mut self, index: u32, overwrite: Overwrite) {
        // The model deallocates for good: a power cut does not bring back what was erased.
        let own = self.commands.get(index).is_some_and(|it| it.kind() == CommandKind::Admin);
        if !self.media.keeps_replaced() || own {
            return self.apply(index, overwrite);
        }
        let places: Vec<(u64, u64)> = overwrite
            .parts
            .iter()
            .map(|(at, bytes)| (*at, bytes.len() as u64))
            .chain(overwrite.discards.iter().copied())
            .collect();
        let mut segments = Vec::new();
        for place in places {
            for unit in self.media.kept_places(place) {
                segments.push(self.near(index, unit));
            }
        }
        if segments.iter().all(|segment| segment.job.is_none()) {
            self.media.keep(&segments);
            return self.apply(index, overwrite);
        }
        if self.commands.get(index).is_some_and(|command| !command.holds()) {
            self.hold(index, overwrite.parts.iter().map(|(_, bytes)| bytes.len()).sum());
        }
        if let Some(command) = self.commands.get_mut(index) {
            let work = command.take_work();
            let then = Then::Overwrite { overwrite: Box::new(overwrite), work };
            let blocks = Blocks { runs: vec![], data: segments, metadata: vec![], then };
            command.set_work(Work::Blocks(Box::new(blocks)));
        }
    }

    fn apply(&mut self, index: u32, overwrite: Overwrite) {
        if overwrite.flush && self.media.keeps_replaced() {
            // It is on flash when the command completes. Metadata go with their data.
            let parts = overwrite.parts.iter().map(|(at, bytes)| (*at, at + bytes.len() as u64));
            let discards = overwrite.discards.iter().map(|(at, bytes)| (*at, at + bytes));
            let data_end = self.media.data_bytes();
            let runs: Vec<_> = parts.chain(discards).filter(|run| run.0 < data_end).collect();
            self.makes_certain(index, &runs);
        }
        for (at, bytes) in &overwrite.parts {
            let ready = self.media.write(*at, bytes);
            self.wait_for(index, ready);
        }
        for &(at, bytes) in &overwrite.discards {
            let ready = self.media.discard(at, bytes);
            self.wait_for(index, ready);
        }
        if overwrite.flush {
            let ready = self.flush_store();
            self.wait_for(index, ready);
        }
    }

    /// A command begins whose success makes writes certain: to these runs of bytes of the
    /// store, each by its first byte and the byte behind its last.
    pub(crate) fn makes_certain(&mut self, index: u32, runs: &[(u64, u64)]) {
        if let Some(command) = self.commands.get_mut(index) {
            command.set_certain(self.media.makes_certain(runs));
        }
    }
}
