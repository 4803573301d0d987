//! What the tests share: small drives, a seeded generator of random numbers, and a virtual
//! host that drives a [`Drive`] through its contract.

use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::policy::BuiltIn;
use mynah_model::precondition::{Occupancy, Order, UpdateClass};
pub(crate) use mynah_model::testing::{cache, cached_table, page_times, small};
use mynah_model::{Drive, Policies};
use mynah_stamp::{LinkSpans, Span, Time};
use std::collections::{BTreeMap, VecDeque};

pub(crate) const NAMESPACE: NamespaceId = NamespaceId(1);
pub(crate) const QUEUE: QueueId = QueueId(1);

/// Random numbers from a seed (SplitMix64).
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        ((self.next() >> 11) as f64) < share * (1u64 << 53) as f64
    }

    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

/// [`small`] with changes.
pub(crate) fn small_with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = small();
    change(&mut config);
    config
}

/// One plane of 4 KiB pages, the mapping unit, of whose `blocks` collection keeps `free`; of the
/// others `valid` (0 to 1) holds data. What is valid over what is physical, less what is kept
/// free, is the spare factor of the mean-field theory.
pub(crate) fn one_plane(blocks: u32, pages_per_block: u32, free: u32, valid: f64) -> Config {
    small_with(|c| {
        c.geometry = plane_of(blocks, pages_per_block);
        keep_free(c, free, valid);
    })
}

/// One plane of 4 KiB pages.
pub(crate) fn plane_of(blocks: u32, pages_per_block: u32) -> Geometry {
    Geometry {
        channels: 1,
        chips_per_channel: 1,
        dies_per_chip: 1,
        planes_per_die: 1,
        blocks_per_plane: blocks,
        pages_per_block,
        page_bytes: 4096,
        page_spare_bytes: 0,
    }
}

/// Lets collection keep `free` blocks of each plane; data fills a share `valid` of the others.
pub(crate) fn keep_free(config: &mut Config, free: u32, valid: f64) {
    let Geometry { blocks_per_plane, pages_per_block, .. } = config.geometry;
    config.gc.start = f64::from(free) / f64::from(blocks_per_plane);
    config.gc.urgent = config.gc.start;
    let units = (blocks_per_plane - free) * pages_per_block * config.geometry.planes();
    config.namespaces[0].units = Some((valid * f64::from(units)) as u64);
}

/// Units that are written at random until the drive has settled, with a share `weight` of all
/// writes.
pub(crate) fn written_class(first: u64, units: u64, weight: f64) -> UpdateClass {
    UpdateClass {
        placement: Default::default(),
        first,
        units,
        weight,
        order: Order::UNIFORM,
        write_share: 1.0,
        saturated: true,
        units_per_s: 0.0,
        together: 1,
        trims_per_write: 0.0,
    }
}

pub(crate) fn memory_queue(id: u16) -> Queue {
    Queue {
        id: QueueId(id),
        kind: QueueKind::Memory,
        flow: FlowId(id - 1),
        priority: Priority::High,
        completion_entries: 1024,
    }
}

pub(crate) fn fetched_queue(id: u16) -> Queue {
    Queue { kind: QueueKind::Fetched, ..memory_queue(id) }
}

/// How a host behaves where the contract leaves it free.
#[derive(Clone, Copy, Default)]
pub(crate) struct Manner {
    /// Advances in random steps of this seed instead of from event to event.
    pub(crate) slices: Option<u64>,
    /// Takes all outputs of an instant, dawdles, and answers then.
    pub(crate) late: bool,
    /// Asks for moves.
    pub(crate) moves: bool,
    /// Commands are submitted where the drive reads them, instead of handed over on demand.
    pub(crate) submits: bool,
}

/// A host in virtual time. Commands are answered when they are fetched, data when it moves,
/// and completion queue entries are freed when they are seen.
pub(crate) struct Host<P: Policies = BuiltIn> {
    pub(crate) drive: Drive<P>,
    /// Commands that were rung for and wait to be fetched.
    waiting: BTreeMap<QueueId, VecDeque<Request>>,
    kinds: BTreeMap<QueueId, QueueKind>,
    completions: VecDeque<Completion>,
    /// Move outputs, in order.
    pub(crate) moved: Vec<Output>,
    pub(crate) outstanding: usize,
    manner: Manner,
    random: Random,
    next_tag: u32,
    /// Where the time of the last completion went on an Ethernet link.
    pub(crate) link: LinkSpans,
    /// Whether completion queue entries are freed.
    pub(crate) frees: bool,
}

impl Host {
    /// A drive with one memory queue, [`QUEUE`].
    pub(crate) fn new(config: Config) -> Host {
        Host::with(config, Manner::default())
    }

    pub(crate) fn with(config: Config, manner: Manner) -> Host {
        let kind = config.host_queues(0);
        let mut host = Host::without_queues(config, manner);
        host.create(Queue { kind, ..memory_queue(1) });
        host
    }

    pub(crate) fn without_queues(config: Config, manner: Manner) -> Host {
        Host::of(Drive::new(config).expect("a valid drive"), manner)
    }
}

impl<P: Policies> Host<P> {
    /// A drive with policies of its own, and one memory queue.
    pub(crate) fn deciding(config: Config, policies: P) -> Host<P> {
        let kind = config.host_queues(0);
        let drive = Drive::with_policies(config, policies).expect("a valid drive");
        let mut host = Host::of(drive, Manner::default());
        host.create(Queue { kind, ..memory_queue(1) });
        host
    }

    fn of(mut drive: Drive<P>, manner: Manner) -> Host<P> {
        drive.report_moves(manner.moves);
        Host {
            drive,
            waiting: BTreeMap::new(),
            kinds: BTreeMap::new(),
            completions: VecDeque::new(),
            moved: vec![],
            outstanding: 0,
            random: Random(manner.slices.unwrap_or(0)),
            manner,
            next_tag: 0,
            link: LinkSpans::default(),
            frees: true,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.drive.now()
    }

    pub(crate) fn create(&mut self, queue: Queue) {
        self.kinds.insert(queue.id, queue.kind);
        let now = self.now();
        self.drive.control(now, Control::CreateQueue(queue)).expect("a new queue");
    }

    /// Deletes a queue: what it has not fetched is forgotten, the rest is answered.
    pub(crate) fn delete(&mut self, queue: QueueId) {
        let now = self.now();
        self.drive.control(now, Control::DeleteQueue(queue)).expect("a queue");
        self.outstanding -= self.waiting.remove(&queue).map_or(0, |waiting| waiting.len());
        self.drain();
    }

    pub(crate) fn control(&mut self, control: Control) {
        let now = self.now();
        self.drive.control(now, control).expect("a control that fits");
        self.drain();
    }

    /// The host forgets everything it had outstanding: after a reset or a power cut.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
        self.kinds.clear();
        self.outstanding = 0;
    }

    pub(crate) fn tag(&mut self) -> Tag {
        self.next_tag += 1;
        Tag(self.next_tag)
    }

    pub(crate) fn request(&mut self, operation: Operation, sector: u64, sectors: u32) -> Request {
        Request {
            placement: Default::default(),
            tag: self.tag(),
            operation,
            namespace: NAMESPACE,
            sector,
            sectors,
        }
    }

    /// Submits now.
    pub(crate) fn submit(&mut self, queue: QueueId, request: Request) {
        let now = self.now();
        self.outstanding += 1;
        match self.kinds[&queue] {
            QueueKind::Memory if self.manner.submits => {
                self.drive.submit(now, queue, request).expect("a queue to submit to");
            }
            QueueKind::Memory => {
                self.waiting.entry(queue).or_default().push_back(request);
                self.drive.ring(now, queue, 1).expect("a queue to ring");
            }
            QueueKind::Network { .. } if self.manner.submits => {
                self.drive.submit(now, queue, request).expect("a queue to submit to");
            }
            QueueKind::Fetched | QueueKind::Network { .. } => {
                self.drive.command(now, queue, request).expect("a queue");
            }
        }
    }

    /// Submits a command of [`QUEUE`] now; returns its tag.
    pub(crate) fn send(&mut self, operation: Operation, sector: u64, sectors: u32) -> Tag {
        let request = self.request(operation, sector, sectors);
        self.submit(QUEUE, request);
        request.tag
    }

    /// Runs one command of [`QUEUE`] alone to its completion.
    pub(crate) fn run_one(
        &mut self,
        operation: Operation,
        sector: u64,
        sectors: u32,
    ) -> Completion {
        // The doorbell of the last command's completion is across by then.
        self.advance_to(self.now() + Span::from_us(1));
        let tag = self.send(operation, sector, sectors);
        let done = self.next().expect("the command completes");
        assert_eq!(done.tag, tag);
        done
    }

    /// Moves time to `to` and deals with everything up to then.
    pub(crate) fn advance_to(&mut self, to: Time) {
        while self.now() < to || self.drive.next_at().is_some_and(|at| at <= to) {
            self.step(to);
        }
    }

    /// The next completion; `None` when nothing happens any more.
    pub(crate) fn next(&mut self) -> Option<Completion> {
        loop {
            if let Some(completion) = self.completions.pop_front() {
                return Some(completion);
            }
            let at = self.drive.next_at()?;
            self.step(at);
        }
    }

    /// The next completion up to `to`.
    pub(crate) fn next_until(&mut self, to: Time) -> Option<Completion> {
        loop {
            if let Some(completion) = self.completions.pop_front() {
                return Some(completion);
            }
            let at = self.drive.next_at().filter(|&at| at <= to);
            let Some(at) = at else {
                self.advance_to(to);
                return self.completions.pop_front();
            };
            self.step(at);
        }
    }

    /// Everything that completes until nothing happens any more.
    pub(crate) fn finish(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.next()).collect()
    }

    fn step(&mut self, to: Time) {
        if self.manner.slices.is_some() {
            let ps = self.random.pick(&[0, 1, 1_000, 100_000, 10_000_000, 1_000_000_000]);
            let step = Span::from_ps(self.random.below(ps + 1));
            let to = (self.now() + step).min(to);
            self.drive.advance(to);
        } else {
            self.drive.advance(to);
        }
        self.drain();
    }

    fn drain(&mut self) {
        if self.manner.late {
            loop {
                let outputs: Vec<_> = std::iter::from_fn(|| self.poll()).collect();
                if outputs.is_empty() {
                    return;
                }
                let _ = self.drive.next_at();
                for (output, link) in outputs {
                    self.answer(output, link);
                }
            }
        }
        while let Some((output, link)) = self.poll() {
            self.answer(output, link);
        }
    }

    /// The next output, and the stages of a completion that are an Ethernet link's.
    fn poll(&mut self) -> Option<(Output, LinkSpans)> {
        let output = self.drive.poll()?;
        Some((output, self.drive.polled_link_spans().copied().unwrap_or_default()))
    }

    fn answer(&mut self, output: Output, link: LinkSpans) {
        assert_eq!(output.at(), self.now(), "an output of another instant");
        match output {
            Output::Fetch { at, queue } => {
                let request = self.waiting.get_mut(&queue).and_then(VecDeque::pop_front);
                // Of a queue that was deleted in the same instant nothing is left.
                if let Some(request) = request {
                    self.drive.command(at, queue, request).expect("a fetched command");
                }
            }
            Output::Decide { .. } => unreachable!("there are no key-value commands"),
            Output::Move { at, tag, direction, .. } => {
                self.moved.push(output);
                if direction == Direction::FromHost {
                    self.drive.data_arrived(at, tag).expect("data that was asked for");
                }
            }
            Output::Complete(completion) => {
                assert_eq!(
                    completion.stages.total() + link.total(),
                    completion.at.since(completion.rung),
                    "the stages of {completion:?} and {link:?} do not fill its time"
                );
                self.link = link;
                self.outstanding -= 1;
                if self.frees && self.kinds.get(&completion.queue) == Some(&QueueKind::Memory) {
                    // A queue that was deleted in the same instant frees nothing.
                    let _ = self.drive.cq_freed(completion.at, completion.queue, 1);
                }
                self.completions.push_back(completion);
            }
        }
    }

    /// Keeps `depth` commands of [`QUEUE`] outstanding until `count` have completed.
    pub(crate) fn closed_loop(
        &mut self,
        depth: usize,
        count: usize,
        mut request: impl FnMut(usize) -> (Operation, u64, u32),
    ) -> Vec<Completion> {
        let mut done = Vec::with_capacity(count);
        let mut submitted = 0;
        while done.len() < count {
            while self.outstanding < depth && submitted < count {
                let (operation, sector, sectors) = request(submitted);
                self.send(operation, sector, sectors);
                submitted += 1;
            }
            let completion = self.next().expect("a deadlock: commands wait, nothing happens");
            done.push(completion);
        }
        done
    }
}

/// Puts data on all of namespace 1 without taking any time.
pub(crate) fn fill(host: &mut Host<impl Policies>) {
    let units = host.drive.namespace_sectors(NAMESPACE).expect("a namespace");
    fill_sectors(host, units);
}

/// Puts data on the first sectors of namespace 1 without taking any time.
pub(crate) fn fill_sectors(host: &mut Host<impl Policies>, sectors: u64) {
    let unit_sectors = u64::from(host.drive.config().mapping.unit_bytes / 512);
    let class = UpdateClass {
        placement: Default::default(),
        first: 0,
        units: sectors / unit_sectors,
        weight: 1.0,
        order: Order::UNIFORM,
        write_share: 0.5,
        saturated: false,
        units_per_s: 0.0,
        together: 1,
        trims_per_write: 0.0,
    };
    host.drive
        .fill(&[Occupancy { namespace: NAMESPACE, classes: vec![class] }])
        .expect("a fresh drive");
}

/// Asserts that `measured` is `expected` to within a share of `tolerance`.
#[track_caller]
pub(crate) fn assert_close(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let off = measured / expected - 1.0;
    assert!(
        off.abs() <= tolerance,
        "{what}: {measured} is {:+.3} % off {expected}, more than {} %",
        off * 100.0,
        tolerance * 100.0
    );
}

impl<P: Policies> Host<P> {
    /// A completion that has been seen already.
    pub(crate) fn ready(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// The next completion up to `to`; stops early when the power fails.
    pub(crate) fn next_until_power_cut(&mut self, to: Time) -> Option<Completion> {
        loop {
            if let Some(completion) = self.completions.pop_front() {
                return Some(completion);
            }
            if self.drive.has_lost_power() {
                return None;
            }
            let at = self.drive.next_at().filter(|&at| at <= to)?;
            self.step(at);
        }
    }
}
