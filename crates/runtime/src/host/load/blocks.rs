//! The work of a job on a namespace of blocks.

use super::draw::{Draw, Ready};
use super::job::Plan;
use super::tally::Tally;
use super::verify::Verify;
use super::work::{Answer, Issued, Turn, Work};
use crate::host::transport::{self, Completed};
use crate::host::{HostError, Namespace};
use mynah_model::io::Operation;
use mynah_result::kind::Kind;
use mynah_stamp::Time;
use mynah_wire::nvme::command::Directive;
use mynah_wire::nvme::{SubmissionEntry, opcode::nvm};
use mynah_wire::tcp::host::{Movement, Payload};
use mynah_workload::{Planned, SECTOR_BYTES};

/// Commands outstanding in the final pass.
pub(super) const FINAL_DEPTH: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct Io {
    operation: Operation,
    /// In the namespace's blocks.
    first: u64,
    blocks: u32,
    /// Of which of the flows on this queue it is.
    flow: u8,
    /// Which data it belongs with, if it says that: the placement identifier.
    placement: Option<u16>,
}

/// Data buffers of a job's I/Os.
pub(super) struct Data {
    /// What is written where nobody looks at it.
    noise: Vec<u8>,
    verify: Option<Verify>,
    /// With verification, a buffer for each slot.
    buffers: Vec<u8>,
    stride: usize,
    /// The range of each slot that deallocates one.
    ranges: Vec<Option<[u8; RANGE_BYTES]>>,
}

impl Payload for Data {
    #[inline]
    fn fill(&mut self, slot: u16, offset: u32, into: &mut [u8]) {
        let (slot, offset) = (usize::from(slot), offset as usize);
        let from = match (&self.ranges[slot], &self.verify) {
            (Some(range), _) => &range[offset..],
            (None, Some(_)) => &self.buffers[slot * self.stride + offset..],
            (None, None) => &self.noise[offset..],
        };
        into.copy_from_slice(&from[..into.len()]);
    }

    #[inline]
    fn place(&mut self, slot: u16, offset: u32, from: &[u8]) {
        if self.verify.is_some() {
            let at = usize::from(slot) * self.stride + offset as usize;
            self.buffers[at..at + from.len()].copy_from_slice(from);
        }
    }
}

impl transport::Data for Data {
    #[inline]
    fn is_particular(&self, slot: u16) -> bool {
        self.verify.is_some() || self.ranges[usize::from(slot)].is_some()
    }

    #[inline]
    fn is_looked_at(&self) -> bool {
        self.verify.is_some()
    }
}

/// Bytes that nobody looks at, and that do not compress.
pub(super) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut word = 0x6d79_6e61_6800_0000 ^ seed;
    let noise = std::iter::repeat_with(|| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 56) as u8
    });
    noise.take(bytes).collect()
}

/// Where a job's next I/Os come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Load,
    /// Everything that was written is read, from this block on.
    Final(u64),
    Ended,
}

/// The block workload of one job.
pub(super) struct Blocks {
    namespace: Namespace,
    draw: Draw,
    /// The placement identifiers that its writes name, by placement handle; none: they name none.
    identifiers: Vec<u16>,
    /// Other flows on the same queue, which end with the first.
    others: Vec<Other>,
    data: Data,
    phase: Phase,
}

/// Another flow on the queue.
struct Other {
    draw: Draw,
    identifiers: Vec<u16>,
    outstanding: usize,
}

impl Blocks {
    /// The work of a job as planned: what it and the others draw, each with the placement identifiers
    /// of its writes.
    pub(super) fn new(
        plan: &Plan,
        namespace: Namespace,
        (draw, identifiers): (Draw, Vec<u16>),
        others: Vec<(Draw, Vec<u16>)>,
        verify: Option<Verify>,
    ) -> Blocks {
        let noise = match verify {
            Some(_) => Vec::new(),
            None => noise(plan.queue_id.into(), plan.bytes_max),
        };
        let ranges = vec![None; usize::from(plan.queue_entries)];
        let data = Data { noise, verify, buffers: Vec::new(), stride: plan.bytes_max, ranges };
        let other = |(draw, identifiers)| Other { draw, identifiers, outstanding: 0 };
        let others = others.into_iter().map(other).collect();
        Blocks { namespace, draw, identifiers, others, data, phase: Phase::Load }
    }

    /// The next I/O of another flow on this queue, if there is one that may issue one now.
    fn next_of_others(&mut self, turn: &mut Turn<'_, Io>) -> Option<Issued<Io>> {
        for (flow, other) in (1..).zip(&mut self.others) {
            let mut own = Turn {
                start: turn.start,
                end: turn.end,
                now: turn.now,
                outstanding: other.outstanding,
                commands: turn.commands,
                tally: turn.tally,
            };
            if let Ready::Now(planned, created) = other.draw.ready(&mut own) {
                other.draw.take(writes(planned.operation));
                other.outstanding += 1;
                return Some(Issued::new(
                    io_of(&self.namespace, &planned, &other.identifiers, flow),
                    created,
                ));
            }
        }
        None
    }

    /// The next I/O of the load, if it may be issued now.
    fn next_load(&mut self, turn: &mut Turn<'_, Io>) -> Option<Issued<Io>> {
        if !self.others.is_empty() {
            if let Some(io) = self.next_of_others(turn) {
                return Some(io);
            }
            let theirs: usize = self.others.iter().map(|other| other.outstanding).sum();
            turn.outstanding -= theirs;
        }
        let (planned, created) = match self.draw.ready(turn) {
            Ready::Now(planned, created) => (planned, created),
            Ready::Flush => {
                let flush = Io {
                    operation: Operation::Flush,
                    first: 0,
                    blocks: 0,
                    flow: 0,
                    placement: None,
                };
                return Some(Issued::new(flush, turn.now));
            }
            Ready::Later => return None,
            Ready::Over => {
                // All is issued: what was written is read again, if that is wanted.
                let verifies = self.data.verify.is_some();
                if turn.outstanding == 0 || !verifies {
                    self.draw.over(turn);
                    self.phase = if verifies { Phase::Final(0) } else { Phase::Ended };
                }
                return None;
            }
        };
        let io = io_of(&self.namespace, &planned, &self.identifiers, 0);
        if self.data.verify.is_some() && overlaps(turn.commands, io.first, io.blocks) {
            self.draw.held_back(turn);
            return None;
        }
        self.draw.take(writes(planned.operation));
        Some(Issued::new(io, created))
    }

    /// The next read of the final pass.
    fn next_final(&mut self, from: u64, turn: &Turn<'_, Io>) -> Option<Issued<Io>> {
        if turn.outstanding >= FINAL_DEPTH {
            return None;
        }
        let most = (self.data.stride >> self.namespace.block_shift) as u32;
        let verify = self.data.verify.as_ref()?;
        match verify.written_from(from, most) {
            Some((first, blocks)) => {
                self.phase = Phase::Final(first + u64::from(blocks));
                let operation = Operation::Read;
                let read = Io { operation, first, blocks, flow: 0, placement: None };
                Some(Issued::uncounted(read, turn.now))
            }
            None => {
                self.phase = Phase::Ended;
                None
            }
        }
    }

    /// What verification has to know of an I/O that begins.
    fn note_verified(&mut self, slot: u16, io: &Io, again: bool) {
        let bytes = (io.blocks as usize) << self.namespace.block_shift;
        let Some(verify) = &mut self.data.verify else { return };
        let at = usize::from(slot) * self.data.stride;
        if self.data.buffers.len() < at + self.data.stride {
            self.data.buffers.resize(at + self.data.stride, 0);
        }
        match io.operation {
            // No workload has others.
            Operation::Read | Operation::Other => {}
            Operation::Write | Operation::WriteThrough => {
                if !again {
                    verify.write_begins(io.first, io.blocks);
                }
                verify.fill(io.first, &mut self.data.buffers[at..at + bytes]);
            }
            Operation::Trim => verify.trimmed(io.first, io.blocks),
            Operation::Flush => verify.flush_begins(),
        }
    }
}

/// A drawn I/O of the flow with this number, in blocks.
#[inline]
fn io_of(namespace: &Namespace, planned: &Planned, identifiers: &[u16], flow: u8) -> Io {
    let shift = u32::from(namespace.block_shift) - SECTOR_BYTES.trailing_zeros();
    let (first, blocks) = (planned.sector >> shift, planned.sectors >> shift);
    let placement = match planned.operation {
        Operation::Write | Operation::WriteThrough => {
            identifiers.get(usize::from(planned.placement.0)).copied()
        }
        _ => None,
    };
    Io { operation: planned.operation, first, blocks, flow, placement }
}

fn writes(operation: Operation) -> bool {
    matches!(operation, Operation::Write | Operation::WriteThrough)
}

/// Whether an outstanding I/O touches these blocks; what is there then cannot be told.
fn overlaps(outstanding: &[Option<Issued<Io>>], first: u64, blocks: u32) -> bool {
    let end = first + u64::from(blocks);
    let others = outstanding.iter().flatten().map(|io| io.command).filter(|io| io.blocks > 0);
    others.into_iter().any(|io| io.first < end && first < io.first + u64::from(io.blocks))
}

impl Work for Blocks {
    type Command = Io;
    type Data = Data;

    #[inline]
    fn data(&mut self) -> &mut Data {
        &mut self.data
    }

    fn prepares(&self) -> bool {
        false
    }

    fn begin(&mut self) {}

    fn has_failed(&self) -> bool {
        false
    }

    #[inline]
    fn next(&mut self, turn: &mut Turn<'_, Io>) -> Option<Issued<Io>> {
        match self.phase {
            Phase::Load => self.next_load(turn),
            Phase::Final(from) => self.next_final(from, turn),
            Phase::Ended => None,
        }
    }

    fn next_arrival(&self) -> Option<Time> {
        // Others have none: they go on when an answer has come.
        self.draw.next_arrival()
    }

    fn is_loading(&self) -> bool {
        self.phase == Phase::Load
    }

    fn is_over(&self) -> bool {
        self.phase == Phase::Ended
    }

    fn end(&mut self) {
        self.phase = Phase::Ended;
    }

    #[inline]
    fn write(&mut self, slot: u16, io: &mut Io, again: bool) -> (SubmissionEntry, Movement) {
        let bytes = io.blocks << self.namespace.block_shift;
        let mut entry = SubmissionEntry::default();
        entry.namespace_id.set(self.namespace.id);
        entry.dword10.set(io.first as u32);
        entry.dword11.set((io.first >> 32) as u32);
        entry.dword12.set(io.blocks.wrapping_sub(1) & 0xffff);
        self.note_verified(slot, io, again);
        let movement = match io.operation {
            Operation::Read => {
                entry.opcode = nvm::READ;
                Movement::ToHost(bytes)
            }
            Operation::Write | Operation::WriteThrough => {
                entry.opcode = nvm::WRITE;
                if io.operation == Operation::WriteThrough {
                    entry.dword12.set(entry.dword12.get() | 1 << 30);
                }
                if let Some(identifier) = io.placement {
                    let kind = Directive::DATA_PLACEMENT;
                    Directive { kind, specific: identifier }.put(&mut entry);
                }
                Movement::FromHost(bytes)
            }
            Operation::Flush | Operation::Other => {
                entry.opcode = nvm::FLUSH;
                for dword in [&mut entry.dword10, &mut entry.dword11, &mut entry.dword12] {
                    dword.set(0);
                }
                self.draw.flush_begins();
                Movement::None
            }
            Operation::Trim => {
                entry.opcode = nvm::DATASET_MANAGEMENT;
                entry.dword10.set(0);
                entry.dword11.set(1 << 2);
                entry.dword12.set(0);
                Movement::FromHost(RANGE_BYTES as u32)
            }
        };
        let trims = io.operation == Operation::Trim;
        self.data.ranges[usize::from(slot)] = trims.then(|| range_of(io));
        (entry, movement)
    }

    #[inline]
    fn kind(io: &Io) -> Kind {
        Kind::from(io.operation)
    }

    fn refused(&mut self, io: &Io) {
        if io.operation == Operation::Flush {
            self.draw.flush_ends();
            if let Some(verify) = &mut self.data.verify {
                verify.flushed(false);
            }
        }
    }

    #[inline]
    fn answered(&mut self, io: &Io, completed: &Completed) -> Result<Answer, HostError> {
        let bytes = u64::from(io.blocks) << self.namespace.block_shift;
        let success = completed.entry.status().is_success();
        let received = completed.received;
        if success && io.operation == Operation::Read && u64::from(received) != bytes {
            return Err(HostError::Nonsense(format!(
                "a read of {bytes} bytes succeeded with {received} bytes"
            )));
        }
        if io.operation == Operation::Flush {
            self.draw.flush_ends();
        }
        if io.flow > 0 {
            self.others[usize::from(io.flow) - 1].outstanding -= 1;
        }
        if let Some(verify) = &mut self.data.verify {
            match io.operation {
                Operation::Flush => verify.flushed(success),
                _ if !success => {}
                Operation::Write | Operation::WriteThrough => verify.written(io.first, io.blocks),
                Operation::Read => {
                    let at = usize::from(completed.slot) * self.data.stride;
                    verify.check(io.first, &self.data.buffers[at..at + bytes as usize]);
                }
                Operation::Trim | Operation::Other => {}
            }
        }
        Ok(Answer { success, bytes, missed: false })
    }

    fn lost(&mut self) {
        self.draw.flush_ends();
        if let Some(verify) = &mut self.data.verify {
            verify.lost();
        }
    }

    fn finish(&mut self, tally: &mut Tally) {
        if let Some(verify) = &mut self.data.verify {
            (tally.checked, tally.mismatched) = verify.counts();
            tally.mismatches = verify.take_mismatches();
        }
    }
}

/// Bytes of a range of Dataset Management (NVM Command Set 1.0, figure 36).
const RANGE_BYTES: usize = 16;

/// The range that an I/O deallocates.
fn range_of(io: &Io) -> [u8; RANGE_BYTES] {
    let mut range = [0; RANGE_BYTES];
    range[4..8].copy_from_slice(&io.blocks.to_le_bytes());
    range[8..].copy_from_slice(&io.first.to_le_bytes());
    range
}
