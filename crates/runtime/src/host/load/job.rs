//! One job: a thread with a queue of its own.
//!
//! A turn receives once, or until long data have come to their end, deals with everything that
//! came, submits what may be outstanding and sends once. The clock is read once a reception.
//! Nothing is allocated for an I/O.

use super::access::{Access, State};
use super::link::{Current, Link};
use super::tally::Tally;
use super::verify::Verify;
use crate::clock::Clock;
use crate::host::transport::{self, Completed, IoQueue, Source};
use crate::host::{HostError, Namespace};
use mynah_lab::workload::{Generator, Planned, SECTOR_BYTES};
use mynah_model::io::Operation;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::{Status, SubmissionEntry, opcode::nvm};
use mynah_wire::tcp::host::{Movement, Payload};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long an interrupted job waits for what is outstanding.
const LEAVE_PATIENCE: Span = Span::from_secs(2);
/// Waiting in the system ends this long before something is to be done, since waking takes
/// time.
const WAKE: Span = Span::from_us(60);
/// Waits in the system end after this, to look whether the run has ended.
const NAP: Duration = Duration::from_millis(50);
/// While long data are coming: receptions in one turn, and looks without result between two.
const RECEPTIONS_AMID_DATA: u32 = 256;
const LOOKS_AMID_DATA: u32 = 1_000;
/// Commands outstanding in the final pass.
const FINAL_DEPTH: usize = 32;

/// What a job is to do.
pub(super) struct Plan {
    /// The queue's identifier, from 1.
    pub(super) queue_id: u16,
    pub(super) queue_entries: u16,
    pub(super) namespace: Namespace,
    pub(super) generator: Generator,
    /// I/Os outstanding; `None`: they come at their times.
    pub(super) depth: Option<usize>,
    /// I/Os outstanding at the most, whenever they come.
    pub(super) depth_max: usize,
    /// The longest I/O, in bytes.
    pub(super) bytes_max: usize,
    pub(super) ramp: Span,
    /// How long I/Os are issued.
    pub(super) runtime: Option<Span>,
    /// A flush follows so many writes; 0: none.
    pub(super) flush_every: u64,
    pub(super) timeout: Span,
    /// How long a change of the namespace's access state may take.
    pub(super) transition: Span,
    /// Looks without result before the job waits in the system.
    pub(super) spins: u32,
}

/// An I/O that is outstanding, or will be again.
#[derive(Clone, Copy)]
struct Io {
    operation: Operation,
    /// In the namespace's blocks.
    first: u64,
    blocks: u32,
    created: Time,
    submitted: Time,
    /// Its answer counts.
    counted: bool,
    /// It was refused with this status, and waits to be issued again.
    refused: Option<Status>,
}

/// The bytes of I/Os.
struct Data {
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

/// Where a job's next I/Os come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Load,
    /// Everything that was written is read, from this block on.
    Final(u64),
    Ended,
}

/// A job at work.
pub(super) struct Job<'a, S: Source> {
    plan: Plan,
    link: &'a Link<S>,
    clock: &'a Clock,
    completed: &'a AtomicU64,
    queue: S::Queue,
    epoch: u64,
    data: Data,
    /// By slot.
    ios: Vec<Option<Io>>,
    outstanding: usize,
    /// Drawn, and not submitted yet.
    next: Option<Planned>,
    /// No more are drawn.
    gave_up: bool,
    /// To be submitted again after a lost connection, or when the namespace can be accessed.
    again: VecDeque<Io>,
    access: Access,
    phase: Phase,
    /// Since when the run is interrupted, and what is outstanding waited for.
    leaving: Option<Time>,
    writes_to_flush: u64,
    flush_outstanding: bool,
    tally: Tally,
    measuring: bool,
    /// When something last came.
    heard: Time,
    idle: u32,
}

impl<'a, S: Source> Job<'a, S> {
    /// Connects the job's queue.
    pub(super) fn connect(
        plan: Plan,
        verify: Option<Verify>,
        link: &'a Link<S>,
        clock: &'a Clock,
        completed: &'a AtomicU64,
    ) -> Result<Job<'a, S>, HostError> {
        let Current { epoch, source } = link.current();
        let queue = source.open_queue(plan.queue_id, plan.queue_entries, plan.bytes_max)?;
        let mut word = 0x6d79_6e61_6800_0000 ^ u64::from(plan.queue_id);
        let noise = std::iter::repeat_with(|| {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (word >> 56) as u8
        });
        let noise = match verify {
            Some(_) => Vec::new(),
            None => noise.take(plan.bytes_max).collect(),
        };
        let slots = usize::from(plan.queue_entries);
        let (ios, ranges) = (vec![None; slots], vec![None; slots]);
        let data = Data { noise, verify, buffers: Vec::new(), stride: plan.bytes_max, ranges };
        let measuring = plan.ramp.is_zero();
        let access = Access::new(plan.transition);
        Ok(Job {
            plan,
            link,
            clock,
            completed,
            queue,
            epoch,
            data,
            ios,
            outstanding: 0,
            next: None,
            gave_up: false,
            again: VecDeque::new(),
            access,
            phase: Phase::Load,
            leaving: None,
            writes_to_flush: 0,
            flush_outstanding: false,
            tally: Tally::default(),
            measuring,
            heard: Time::ZERO,
            idle: 0,
        })
    }

    /// Works until everything is done; what came of it.
    pub(super) fn run(mut self, start: Time) -> Tally {
        self.tally.start(start);
        self.heard = self.clock.wall();
        if !self.measuring {
            self.tally.start(start + self.plan.ramp);
        }
        loop {
            match self.work(start) {
                Ok(()) => break,
                Err(error) => {
                    if !self.reconnect(error) {
                        if self.leaving.is_none() {
                            self.end_load(start, self.clock.wall());
                        }
                        break;
                    }
                }
            }
        }
        let now = self.clock.wall();
        self.abandon(now);
        self.tally.unknown += self.ios.iter().flatten().count() as u64;
        self.tally.inaccessible = self.access.waited_until(now);
        if let Some(verify) = &mut self.data.verify {
            (self.tally.checked, self.tally.mismatched) = verify.counts();
            self.tally.mismatches = verify.take_mismatches();
        }
        self.tally
    }

    /// Works on one connection until everything is done.
    fn work(&mut self, start: Time) -> Result<(), HostError> {
        let mut now = self.clock.wall();
        loop {
            let mut busy = self.queue.receive()?;
            if busy {
                now = self.take_completed()?;
                // The commands that follow go out together when long data have come: piece by
                // piece they would have the target send in small pieces, too.
                let (mut receptions, mut looks) = (0, 0);
                let looks_max = self.plan.spins.min(LOOKS_AMID_DATA);
                while self.queue.is_amid_data()
                    && receptions < RECEPTIONS_AMID_DATA
                    && looks < looks_max
                {
                    if self.queue.receive()? {
                        now = self.take_completed()?;
                        (receptions, looks) = (receptions + 1, 0);
                    } else {
                        looks += 1;
                    }
                }
                self.completed.store(self.tally.completed(), Ordering::Relaxed);
            } else if self.plan.depth.is_none() || self.idle & 15 == 15 {
                now = self.clock.wall();
            }
            if !self.measuring && now >= start + self.plan.ramp {
                self.measuring = true;
            }
            if self.link.stopped() {
                if self.leaving.is_none() {
                    self.end_load(start, now);
                }
                self.phase = Phase::Ended;
                self.abandon(now);
                let since = *self.leaving.get_or_insert(now);
                if now.saturating_since(since) > LEAVE_PATIENCE {
                    return Ok(());
                }
            }
            busy |= self.submit(start, now);
            self.queue.send(&mut self.data)?;
            if self.outstanding == 0 && self.phase == Phase::Ended && self.again.is_empty() {
                return Ok(());
            }
            if self.link.epoch() != self.epoch {
                return Err(HostError::Closed);
            }
            match busy {
                true => self.idle = 0,
                false => self.rest(start, now)?,
            }
        }
    }

    /// Deals with everything that came, at the time it returns.
    #[inline]
    fn take_completed(&mut self) -> Result<Time, HostError> {
        let now = self.clock.wall();
        self.heard = now;
        while let Some(completed) = self.queue.poll(&mut self.data)? {
            self.completed(completed, now)?;
        }
        Ok(now)
    }

    /// Nothing came and nothing could be submitted: looks again at once for a while, then
    /// waits in the system.
    fn rest(&mut self, start: Time, now: Time) -> Result<(), HostError> {
        self.idle = self.idle.saturating_add(1);
        let mut patience = NAP;
        if let Some(until) = self.access.pauses_until(now)
            && self.outstanding == 0
        {
            self.heard = now;
            let pause = Duration::from_nanos(until.saturating_since(now).as_ps() / 1_000);
            self.queue.wait(patience.min(pause))?;
            self.idle |= 15;
            return Ok(());
        }
        if self.outstanding == 0 {
            self.heard = now;
            let due =
                self.next.and_then(|next| next.arrival).map(|at| start + at.since(Time::ZERO));
            if let Some(due) = due {
                let until = due.saturating_since(now).saturating_sub(WAKE);
                if until.is_zero() {
                    return Ok(());
                }
                patience = patience.min(Duration::from_nanos(until.as_ps() / 1_000));
                return self.queue.wait(patience);
            }
        } else if now.saturating_since(self.heard) > self.plan.timeout {
            let seconds = self.plan.timeout.as_ps() / 1_000_000_000_000;
            return Err(HostError::Timeout { what: "an I/O command", seconds });
        }
        if self.idle < self.plan.spins && !self.queue.is_blocked() {
            return Ok(());
        }
        if let Some(at) = self.next.and_then(|next| next.arrival) {
            let due = (start + at.since(Time::ZERO)).saturating_since(now).saturating_sub(WAKE);
            if due.is_zero() {
                return Ok(());
            }
            patience = patience.min(Duration::from_nanos(due.as_ps() / 1_000));
        }
        self.queue.wait(patience)?;
        self.idle |= 15;
        Ok(())
    }

    /// Gives up what is to be submitted again. What was refused has failed; of the rest nobody knows.
    fn abandon(&mut self, now: Time) {
        while let Some(io) = self.again.pop_front() {
            match io.refused {
                Some(status) => {
                    let measured = self.measuring && io.counted;
                    self.tally
                        .failed(io.operation, measured, now, || status.result_name().into_owned());
                }
                None => self.tally.unknown += 1,
            }
        }
    }

    /// Submits what there is to submit; whether there was anything.
    fn submit(&mut self, start: Time, now: Time) -> bool {
        let mut busy = false;
        if self.access.pauses_until(now).is_some() {
            return false;
        }
        while self.queue.can_submit() {
            if let Some(io) = self.again.pop_front() {
                self.issue(io, now, true);
                busy = true;
                continue;
            }
            let io = match self.phase {
                Phase::Load => self.next_load(start, now),
                Phase::Final(from) => self.next_final(from, now),
                Phase::Ended => None,
            };
            let Some(io) = io else { break };
            self.issue(io, now, false);
            busy = true;
        }
        busy
    }

    /// The next I/O of the load, if it may be issued now.
    fn next_load(&mut self, start: Time, now: Time) -> Option<Io> {
        let plan = &self.plan;
        let end = plan.runtime.map_or(Time::MAX, |runtime| start + runtime);
        if self.outstanding >= plan.depth_max {
            return self.held_back(start, end, now);
        }
        if plan.flush_every > 0 && self.writes_to_flush >= plan.flush_every {
            if self.flush_outstanding {
                return self.held_back(start, end, now);
            }
            self.writes_to_flush = 0;
            return Some(self.io(Operation::Flush, 0, 0, now));
        }
        if self.next.is_none() {
            let is_over = plan.depth.is_some() && now >= end || self.gave_up;
            self.next = if is_over { None } else { self.plan.generator.next() };
        }
        let Some(planned) = self.next else {
            // All is issued: what was written is read again, if that is wanted.
            let verifies = self.data.verify.is_some();
            if self.outstanding == 0 || !verifies {
                let by_runtime = self.plan.generator.ended_by_runtime().is_some();
                if now >= end && self.plan.depth.is_some() || self.gave_up || by_runtime {
                    self.tally.offered_until(end);
                }
                self.phase = if verifies { Phase::Final(0) } else { Phase::Ended };
            }
            return None;
        };
        let created = match planned.arrival {
            Some(arrival) => start + arrival.since(Time::ZERO),
            None => now,
        };
        if created > now {
            return None;
        }
        let shift = u32::from(self.plan.namespace.block_shift) - SECTOR_BYTES.trailing_zeros();
        let (first, blocks) = (planned.sector >> shift, planned.sectors >> shift);
        if self.data.verify.is_some() && self.overlaps(first, blocks) {
            return self.held_back(start, end, now);
        }
        self.next = None;
        if planned.operation == Operation::Write {
            self.writes_to_flush += 1;
        }
        Some(self.io(planned.operation, first, blocks, created))
    }

    /// The load ends before all of it has been issued and has come back.
    fn end_load(&mut self, start: Time, now: Time) {
        let mut waiting = self.again.iter().chain(self.ios.iter().flatten());
        if self.phase == Phase::Load || waiting.any(|io| io.counted) {
            let end = self.plan.runtime.map_or(Time::MAX, |runtime| start + runtime);
            self.tally.offered_until(now.min(end));
        }
    }

    /// The next I/O has to wait for others. When the runtime is over, those that come at their
    /// times and are still to be issued are given up: the target did not keep up with them.
    fn held_back(&mut self, start: Time, end: Time, now: Time) -> Option<Io> {
        if now >= end && !self.gave_up {
            let next = self.next.take().or_else(|| self.plan.generator.next());
            if let Some(due) = next.and_then(|next| next.arrival) {
                self.tally.not_issued = end.saturating_since(start + due.since(Time::ZERO));
            }
            self.gave_up = true;
        }
        None
    }

    /// The next read of the final pass.
    fn next_final(&mut self, from: u64, now: Time) -> Option<Io> {
        if self.outstanding >= FINAL_DEPTH {
            return None;
        }
        let most = (self.plan.bytes_max >> self.plan.namespace.block_shift) as u32;
        let verify = self.data.verify.as_ref()?;
        match verify.written_from(from, most) {
            Some((first, blocks)) => {
                self.phase = Phase::Final(first + u64::from(blocks));
                Some(Io { counted: false, ..self.io(Operation::Read, first, blocks, now) })
            }
            None => {
                self.phase = Phase::Ended;
                None
            }
        }
    }

    fn io(&self, operation: Operation, first: u64, blocks: u32, created: Time) -> Io {
        Io { operation, first, blocks, created, submitted: created, counted: true, refused: None }
    }

    /// Whether an outstanding I/O touches these blocks; what is there then cannot be told.
    fn overlaps(&self, first: u64, blocks: u32) -> bool {
        let end = first + u64::from(blocks);
        let others = self.ios.iter().flatten().filter(|io| io.blocks > 0);
        others.into_iter().any(|io| io.first < end && first < io.first + u64::from(io.blocks))
    }

    /// Submits an I/O; the machine takes it.
    fn issue(&mut self, mut io: Io, now: Time, again: bool) {
        (io.submitted, io.refused) = (now, None);
        let bytes = io.blocks << self.plan.namespace.block_shift;
        let mut entry = SubmissionEntry::default();
        entry.namespace_id.set(self.plan.namespace.id);
        entry.dword10.set(io.first as u32);
        entry.dword11.set((io.first >> 32) as u32);
        entry.dword12.set(io.blocks.wrapping_sub(1) & 0xffff);
        let slot = self.queue.next_slot().expect("it can submit");
        if let Some(verify) = &mut self.data.verify {
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
                    verify.fill(io.first, &mut self.data.buffers[at..at + bytes as usize]);
                }
                Operation::Trim => verify.trimmed(io.first, io.blocks),
                Operation::Flush => verify.flush_begins(),
            }
        }
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
                Movement::FromHost(bytes)
            }
            Operation::Flush | Operation::Other => {
                entry.opcode = nvm::FLUSH;
                for dword in [&mut entry.dword10, &mut entry.dword11, &mut entry.dword12] {
                    dword.set(0);
                }
                self.flush_outstanding = true;
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
        self.data.ranges[usize::from(slot)] = trims.then(|| range_of(&io));
        let submitted = self.queue.submit(&entry, movement, &mut self.data);
        debug_assert_eq!(submitted, Some(slot));
        self.ios[usize::from(slot)] = Some(io);
        self.outstanding += 1;
        self.tally.retried += u64::from(again);
    }

    /// An I/O has been answered.
    #[inline]
    fn completed(&mut self, completed: Completed, now: Time) -> Result<(), HostError> {
        let Completed { slot, entry, received } = completed;
        let Some(io) = self.ios[usize::from(slot)].take() else {
            return Err(HostError::Nonsense("it answered what nobody asked".into()));
        };
        self.outstanding -= 1;
        let bytes = u64::from(io.blocks) << self.plan.namespace.block_shift;
        let status = entry.status();
        let success = status.is_success();
        if success && io.operation == Operation::Read && u64::from(received) != bytes {
            return Err(HostError::Nonsense(format!(
                "a read of {bytes} bytes succeeded with {received} bytes"
            )));
        }
        if io.operation == Operation::Flush {
            self.flush_outstanding = false;
        }
        if let Some(verify) = &mut self.data.verify {
            match io.operation {
                Operation::Flush => verify.flushed(success),
                _ if !success => {}
                Operation::Write | Operation::WriteThrough => verify.written(io.first, io.blocks),
                Operation::Read => {
                    let at = usize::from(slot) * self.data.stride;
                    verify.check(io.first, &self.data.buffers[at..at + bytes as usize]);
                }
                Operation::Trim | Operation::Other => {}
            }
        }
        if !success && let Some(state) = State::of(status) {
            self.refused(Io { refused: Some(status), ..io }, state, status, now);
            return Ok(());
        }
        self.access.answered(now);
        let measured = self.measuring && io.counted;
        if !success {
            self.tally.failed(io.operation, measured, now, || status.result_name().into_owned());
        } else {
            self.tally.succeeded(io.operation, measured, bytes, io.created, io.submitted, now);
        }
        Ok(())
    }

    /// The namespace's access state did not allow an I/O: it is issued again, or the load ends.
    #[cold]
    fn refused(&mut self, io: Io, state: State, status: Status, now: Time) {
        self.again.push_back(io);
        if self.tally.barred.is_some() || !self.access.refused(state, status, now) {
            self.tally.barred.get_or_insert(state);
            self.phase = Phase::Ended;
            self.abandon(now);
        }
    }

    /// The connection is lost: waits for another controller, connects to it, and does what
    /// was outstanding again. False if that is over.
    fn reconnect(&mut self, error: HostError) -> bool {
        self.tally.lost_connections += 1;
        self.tally.last_error = Some(error.to_string());
        let outstanding = self.ios.iter_mut().filter_map(Option::take);
        self.again.extend(outstanding);
        self.outstanding = 0;
        self.flush_outstanding = false;
        if let Some(verify) = &mut self.data.verify {
            verify.lost();
        }
        loop {
            let Some(Current { epoch, source }) = self.link.next_after(self.epoch) else {
                return false;
            };
            self.epoch = epoch;
            let Plan { queue_id, queue_entries, bytes_max, .. } = self.plan;
            match source.open_queue(queue_id, queue_entries, bytes_max) {
                Ok(queue) => {
                    self.queue = queue;
                    self.heard = self.clock.wall();
                    self.idle = 0;
                    return true;
                }
                Err(error) => self.tally.last_error = Some(error.to_string()),
            }
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
