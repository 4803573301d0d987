//! Single I/Os on a target, for programs that decide what to ask next by what came back.
//!
//! A [`Prober`] has one queue, and no threads of its own: what is asked goes out at once, and its moment is
//! taken just before; answers are looked for without sleeping while they may come within milliseconds. Over
//! TCP an answer's moment is the kernel's own note of when its last bytes came; elsewhere it is when it was
//! seen. What is written is noise that neither compresses nor repeats.

use super::controller::{Controller, Options};
use super::disk;
use super::load::Where;
use super::namespace::Namespace;
use super::nbd::Export;
use super::noise::Noise;
use super::transport::{Data, Facts, IoQueue, Remote, Source};
use super::vfio_user;
use super::{HostError, persist};
use crate::clock::{Clock, Rate};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::SubmissionEntry;
use mynah_wire::nvme::command::{BlockCommand, DatasetManagement, NvmCommand};
use mynah_wire::nvme::protection::DatasetRange;
use mynah_wire::tcp::host::{Movement, Payload};
use std::collections::VecDeque;
use std::time::Duration;
use zerocopy::IntoBytes;

/// For so long after the last answer, answers are looked for without sleeping.
const POLLS: Span = Span::from_ms(5);
/// Waits in the system end after this.
const NAP: Duration = Duration::from_millis(50);
/// Entries of a queue beside those that are outstanding: one is always free.
const SPARE_ENTRIES: u32 = 1;
/// Most bytes of an I/O that is longer than anything (NVM Command Set 1.0, NLB).
const BLOCKS_MAX: u64 = 65_536;

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOp {
    /// Reads a range.
    Read,
    /// Writes noise to a range.
    Write,
    /// Deallocates a range.
    Trim,
    /// Brings what was written to the medium; has no range.
    Flush,
}

/// An I/O that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeDone {
    /// What [`Prober::submit`] gave for it.
    pub tag: u64,
    /// Just before it was sent, since the prober's origin.
    pub submitted: Duration,
    /// When its answer had come, since the prober's origin.
    pub completed: Duration,
    /// Whether it succeeded; a read has brought all of its bytes then.
    pub ok: bool,
}

/// One queue of a target, asked I/O by I/O.
pub struct Prober {
    driver: Box<dyn Driver>,
    shape: Shape,
    model: String,
    writes: bool,
    depth: u32,
    next_tag: u64,
}

/// What is known of the blocks.
#[derive(Clone, Copy, Debug)]
struct Shape {
    namespace: Namespace,
    facts: Facts,
    bytes_max: u64,
}

/// An I/O in blocks.
#[derive(Clone, Copy, Debug)]
struct Probe {
    tag: u64,
    op: ProbeOp,
    first: u64,
    blocks: u32,
}

impl Prober {
    /// Connects to a target, for at most `depth` I/Os at once (from 1; fewer if the target takes fewer, see
    /// [`Prober::depth`]), of at most `bytes_max` bytes each. `writes`: whether it will be written or trimmed; a disk must have been opened for that. Of
    /// NVMe, `namespace` is the namespace, from 1. Connecting is tried for `wait`.
    ///
    /// A TCP controller is connected without a keep-alive timeout: the caller may think as long as it likes.
    ///
    /// # Errors
    /// If there is no such target, or it is not such as it is to be used.
    pub fn connect(
        place: &Where,
        depth: u32,
        writes: bool,
        bytes_max: u32,
        namespace: u32,
        wait: Duration,
    ) -> Result<Prober, HostError> {
        let wants = Wants { depth, bytes_max, namespace };
        let (driver, shape, model): (Box<dyn Driver>, Shape, String) = match place {
            Where::Tcp(options) => {
                let options = Options { keep_alive: Duration::ZERO, ..(**options).clone() };
                persist(wait, || Session::<Controller>::open(&options, wants))?
            }
            Where::VfioUser(options) => {
                persist(wait, || Session::<vfio_user::Controller>::open(options, wants))?
            }
            Where::Disk(options) => Session::<disk::Local>::open(options, wants)?,
            Where::Nbd(options) => persist(wait, || Session::<Export>::open(options, wants))?,
        };
        if writes && !shape.facts.features.writes {
            return Err(HostError::Unusable(format!("{place} is read-only")));
        }
        let depth = driver.depth();
        Ok(Prober { driver, shape, model, writes, depth, next_tag: 0 })
    }

    /// Size of the target in bytes: whole blocks.
    pub fn bytes(&self) -> u64 {
        self.shape.namespace.bytes()
    }

    /// Bytes of a logical block, a power of two: offsets and lengths are multiples of it.
    pub fn block_bytes(&self) -> u32 {
        1 << self.shape.namespace.block_shift
    }

    /// Most bytes that a read or a write may have: what was asked for when connecting, or less if the
    /// target takes less; a multiple of a block.
    pub fn max_transfer_bytes(&self) -> u32 {
        let bytes = self.shape.bytes_max >> self.shape.namespace.block_shift;
        u32::try_from(bytes << self.shape.namespace.block_shift).unwrap_or(u32::MAX)
    }

    /// How many I/Os may be outstanding.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// What the target says it is.
    pub fn model(&self) -> String {
        self.model.clone()
    }

    /// Whether it takes trims, and was connected to be written.
    pub fn can_trim(&self) -> bool {
        self.writes && self.shape.facts.features.trims
    }

    /// Whether it takes flushes.
    pub fn can_flush(&self) -> bool {
        self.shape.facts.features.flushes
    }

    /// How many I/Os are outstanding: submitted, and not handed out by [`Prober::next`].
    pub fn outstanding(&self) -> u32 {
        self.driver.outstanding()
    }

    /// The time since the origin of all times here (`CLOCK_MONOTONIC`).
    pub fn now(&self) -> Duration {
        self.driver.now()
    }

    /// Begins an I/O, and sends it at once; its tag. Tags count from 0.
    ///
    /// # Errors
    /// If it does not fit the target, there is no room for it, or the target is lost.
    pub fn submit(&mut self, op: ProbeOp, offset: u64, bytes: u32) -> Result<u64, HostError> {
        let tag = self.hold(op, offset, bytes)?;
        self.flush_sends()?;
        Ok(tag)
    }

    /// Begins an I/O that leaves with the next [`Prober::flush_sends`], so that several leave together; its
    /// tag.
    ///
    /// # Errors
    /// As of [`Prober::submit`].
    pub fn hold(&mut self, op: ProbeOp, offset: u64, bytes: u32) -> Result<u64, HostError> {
        let (first, blocks) = self.range(op, offset, bytes)?;
        if self.outstanding() >= self.depth {
            return Err(HostError::Unusable(format!(
                "{} I/Os are outstanding, for which alone there is room",
                self.depth
            )));
        }
        let tag = self.next_tag;
        self.driver.hold(Probe { tag, op, first, blocks })?;
        self.next_tag += 1;
        Ok(tag)
    }

    /// Sends what is held, in one go as far as the transport can: all of it has the same moment.
    ///
    /// # Errors
    /// If the target is lost.
    pub fn flush_sends(&mut self) -> Result<(), HostError> {
        self.driver.flush_sends()
    }

    /// The next I/O that has ended, in the order in which answers come. `None` if none has within
    /// `patience`, or at once if none is outstanding. Sends what is held.
    ///
    /// # Errors
    /// If the target is lost, or has answered nothing for as long as an answer may take.
    pub fn next(&mut self, patience: Duration) -> Result<Option<ProbeDone>, HostError> {
        self.driver.next(patience)
    }

    /// Leaves the target in an orderly way. What is outstanding is given up.
    ///
    /// # Errors
    /// If the target cannot be told.
    pub fn end(self) -> Result<(), HostError> {
        self.driver.end()
    }

    /// A range in blocks.
    fn range(&self, op: ProbeOp, offset: u64, bytes: u32) -> Result<(u64, u32), HostError> {
        let unfit = |what: String| Err(HostError::Unusable(what));
        let features = self.shape.facts.features;
        match op {
            ProbeOp::Flush if !features.flushes => return unfit("it takes no flushes".into()),
            ProbeOp::Flush => return Ok((0, 0)),
            ProbeOp::Trim if !features.trims => return unfit("it takes no trims".into()),
            ProbeOp::Write | ProbeOp::Trim if !self.writes => {
                return unfit("it was connected to be read only".into());
            }
            _ => {}
        }
        let (unit, all) = (self.block_bytes(), self.bytes());
        let end = offset.checked_add(bytes.into()).filter(|&end| end <= all);
        if bytes == 0
            || !bytes.is_multiple_of(unit)
            || !offset.is_multiple_of(unit.into())
            || end.is_none()
        {
            return unfit(format!(
                "{bytes} bytes at {offset} are no blocks of {unit} bytes among the {all} that it has"
            ));
        }
        let most = self.max_transfer_bytes();
        if op != ProbeOp::Trim && bytes > most {
            return unfit(format!("{bytes} bytes are more than the {most} of one command here"));
        }
        let shift = self.shape.namespace.block_shift;
        Ok((offset >> shift, bytes >> shift))
    }
}

/// What a caller wants to do.
#[derive(Clone, Copy)]
struct Wants {
    depth: u32,
    bytes_max: u32,
    namespace: u32,
}

/// A queue of any kind of target.
trait Driver {
    fn depth(&self) -> u32;
    fn outstanding(&self) -> u32;
    fn now(&self) -> Duration;
    fn hold(&mut self, probe: Probe) -> Result<(), HostError>;
    fn flush_sends(&mut self) -> Result<(), HostError>;
    fn next(&mut self, patience: Duration) -> Result<Option<ProbeDone>, HostError>;
    fn end(self: Box<Self>) -> Result<(), HostError>;
}

/// An I/O that is under way.
#[derive(Clone, Copy, Debug)]
struct Flying {
    tag: u64,
    /// The zero of time until it is sent.
    submitted: Time,
    /// Bytes that are to come.
    reads: u32,
}

/// A connected target.
struct Session<R: Remote> {
    // Goes before the controller does.
    queue: <R::Source as Source>::Queue,
    controller: R,
    namespace: Namespace,
    clock: Clock,
    depth: u32,
    timeout: Span,
    data: Bytes,
    /// By slot.
    flying: Vec<Option<Flying>>,
    /// Slots that are held.
    held: Vec<u16>,
    outstanding: u32,
    ended: VecDeque<ProbeDone>,
    /// When something was sent or came.
    heard: Time,
}

type Opened = (Box<dyn Driver>, Shape, String);

impl<R> Session<R>
where
    R: Remote + 'static,
    <R::Source as Source>::Queue: 'static,
{
    fn open(options: &R::Options, wants: Wants) -> Result<Opened, HostError> {
        let mut controller = R::connect(options)?;
        let namespace = controller.blocks(wants.namespace)?;
        controller.request_queues(1)?;
        let source = controller.source();
        let facts = source.facts();
        let most = facts.queue_entries_max.min(1 << 12).saturating_sub(SPARE_ENTRIES);
        let depth = wants.depth.min(most);
        if depth == 0 {
            return Err(HostError::Unusable(format!(
                "it takes {most} commands at once, and {} are asked for",
                wants.depth
            )));
        }
        let block_bytes = 1u64 << namespace.block_shift;
        let bytes_max = u64::from(wants.bytes_max)
            .min(facts.transfer_bytes_max)
            .min(BLOCKS_MAX * block_bytes)
            .max(block_bytes);
        // Queues of one entry do not exist.
        let entries = (depth + SPARE_ENTRIES).max(2) as u16;
        let mut queue = source.open_queue(1, entries, bytes_max as usize)?;
        let clock = Clock::start(Rate::REAL);
        queue.watch(clock);
        let slots = usize::from(entries);
        let data = Bytes { noise: Noise::new(bytes_max as usize), ranges: vec![None; slots] };
        let model = controller.model();
        let session = Session::<R> {
            queue,
            controller,
            namespace,
            clock,
            depth,
            timeout: Span::from_ns(R::timeout(options).as_nanos() as u64),
            data,
            flying: vec![None; slots],
            held: Vec::new(),
            outstanding: 0,
            ended: VecDeque::new(),
            heard: clock.wall(),
        };
        Ok((Box::new(session), Shape { namespace, facts, bytes_max }, model))
    }

    /// Takes what came; whether anything did.
    fn receive(&mut self) -> Result<bool, HostError> {
        if !self.queue.receive()? {
            return Ok(false);
        }
        let seen = self.clock.wall();
        self.heard = seen;
        while let Some(completed) = self.queue.poll(&mut self.data)? {
            let slot = completed.slot;
            let flying = self.flying.get_mut(usize::from(slot)).and_then(Option::take);
            let Some(flying) = flying else {
                return Err(HostError::Nonsense("it answered what nobody asked".into()));
            };
            // What the transport noted, if it notes anything, is nearer to the wire.
            let came = self.queue.ended(slot).map_or(seen, |(_, arrived, _)| arrived.min(seen));
            self.data.ranges[usize::from(slot)] = None;
            let success = completed.entry.status().is_success();
            self.ended.push_back(ProbeDone {
                tag: flying.tag,
                submitted: since_origin(flying.submitted),
                completed: since_origin(came.max(flying.submitted)),
                ok: success && completed.received >= flying.reads,
            });
        }
        Ok(true)
    }
}

impl<R> Driver for Session<R>
where
    R: Remote + 'static,
    <R::Source as Source>::Queue: 'static,
{
    fn depth(&self) -> u32 {
        self.depth
    }

    fn outstanding(&self) -> u32 {
        self.outstanding
    }

    fn now(&self) -> Duration {
        since_origin(self.clock.wall())
    }

    fn hold(&mut self, probe: Probe) -> Result<(), HostError> {
        let full = || HostError::Unusable("the queue is full".to_owned());
        let slot = self.queue.next_slot().ok_or_else(full)?;
        let blocks =
            BlockCommand { start: probe.first, blocks: probe.blocks, ..BlockCommand::default() };
        let bytes = probe.blocks << self.namespace.block_shift;
        let (command, movement) = match probe.op {
            ProbeOp::Read => (NvmCommand::Read(blocks), Movement::ToHost(bytes)),
            ProbeOp::Write => (NvmCommand::Write(blocks), Movement::FromHost(bytes)),
            ProbeOp::Flush => (NvmCommand::Flush, Movement::None),
            ProbeOp::Trim => {
                let range = DatasetRange {
                    attributes: 0.into(),
                    blocks: probe.blocks.into(),
                    start: probe.first.into(),
                };
                self.data.ranges[usize::from(slot)] = Some(range);
                let one = DatasetManagement { ranges: 1, deallocates: true };
                let bytes = size_of::<DatasetRange>() as u32;
                (NvmCommand::DatasetManagement(one), Movement::FromHost(bytes))
            }
        };
        let mut entry = SubmissionEntry::default();
        entry.namespace_id.set(self.namespace.id);
        command.put(&mut entry);
        let taken = self.queue.submit(&entry, movement, &mut self.data);
        debug_assert_eq!(taken, Some(slot));
        let reads = if probe.op == ProbeOp::Read { bytes } else { 0 };
        self.flying[usize::from(slot)] =
            Some(Flying { tag: probe.tag, submitted: Time::ZERO, reads });
        self.held.push(slot);
        self.outstanding += 1;
        Ok(())
    }

    fn flush_sends(&mut self) -> Result<(), HostError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let now = self.clock.wall();
        self.heard = now;
        for slot in self.held.drain(..) {
            if let Some(flying) = &mut self.flying[usize::from(slot)] {
                flying.submitted = now;
            }
        }
        self.queue.send(&mut self.data)
    }

    fn next(&mut self, patience: Duration) -> Result<Option<ProbeDone>, HostError> {
        self.flush_sends()?;
        let began = self.clock.wall();
        let patience =
            Span::from_ns(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX / 1_000));
        loop {
            if let Some(done) = self.ended.pop_front() {
                self.outstanding -= 1;
                return Ok(Some(done));
            }
            if self.outstanding == 0 {
                return Ok(None);
            }
            if self.receive()? {
                // Data that were asked for, say.
                self.queue.send(&mut self.data)?;
                continue;
            }
            self.queue.send(&mut self.data)?;
            let now = self.clock.wall();
            let (passed, silent) = (now.saturating_since(began), now.saturating_since(self.heard));
            if passed >= patience {
                return Ok(None);
            }
            if silent > self.timeout {
                let seconds = self.timeout.as_ps() / 1_000_000_000_000;
                return Err(HostError::Timeout { what: "an I/O command", seconds });
            }
            if silent > POLLS {
                let left = patience.saturating_sub(passed);
                self.queue.wait(NAP.min(Duration::from_nanos(left.as_ps() / 1_000)))?;
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn end(self: Box<Self>) -> Result<(), HostError> {
        let Session { queue, controller, .. } = *self;
        drop(queue);
        controller.shutdown()
    }
}

fn since_origin(time: Time) -> Duration {
    Duration::from_nanos(time.as_ps() / 1_000)
}

/// What I/Os move: noise to the target, and what comes from it to nowhere.
struct Bytes {
    noise: Noise,
    /// By slot: the range that it deallocates.
    ranges: Vec<Option<DatasetRange>>,
}

impl Payload for Bytes {
    fn fill(&mut self, slot: u16, offset: u32, into: &mut [u8]) {
        let offset = offset as usize;
        match &self.ranges[usize::from(slot)] {
            Some(range) => into.copy_from_slice(&range.as_bytes()[offset..offset + into.len()]),
            None => self.noise.fill(offset, into),
        }
    }

    fn place(&mut self, _slot: u16, _offset: u32, _from: &[u8]) {}
}

impl Data for Bytes {
    fn is_particular(&self, _slot: u16) -> bool {
        true
    }

    fn is_looked_at(&self) -> bool {
        false
    }
}
