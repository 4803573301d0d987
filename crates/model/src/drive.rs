//! The drive: everything put together behind the contract of inputs, outputs and time.

use crate::cache::Cache;
use crate::config::{Config, MappingScheme, Placement, Precedence, WriteFrontiers};
use crate::fault::Faults;
use crate::flash::channel::Channel;
use crate::flash::die::Die;
use crate::flash::flin::Flin;
use crate::flash::hold::Hold;
use crate::flash::queues::FullPages;
use crate::flash::scheduler::Deferred;
use crate::flash::timing::FlashTimes;
use crate::ftl::blocks::Blocks;
use crate::ftl::collection::PlaneState;
use crate::ftl::heat::HotQueues;
use crate::ftl::hotness::Hotness;
use crate::ftl::mapping::cached::Mapping;
use crate::ftl::mapping::hybrid::Hybrid;
use crate::ftl::mapping::table::Content;
use crate::ftl::placement::Stripe;
use crate::ftl::space::{NamespaceSpace, Shape};
use crate::ftl::wear::WornReads;
use crate::host::command::{Command, Piece, ThroughWaiter, Transaction, WriteUnit};
use crate::host::front::{Said, Step};
use crate::host::link::Link;
use crate::host::queues::HostInterface;
use crate::io::{Brief, Completed, Completion, Control, Output, QueueId, QueueKind, Request, Tag};
use crate::kernel::event::{Event, EventQueue};
use crate::kernel::fifo::Fifo;
use crate::kernel::pool::Pool;
use crate::kernel::ring::Ring;
use crate::observe::activity::Activity;
use crate::observe::blame::{BlameMatrix, Ledger, flow_holder};
use crate::observe::stats::{Blame, Counters};
use crate::observe::turnover::TurnoverBooks;
use crate::validate::ConfigError;
use hashbrown::HashMap;
use mynah_stamp::{Stage, Time};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rustc_hash::FxBuildHasher;
use std::hint::cold_path;

/// An input that does not fit the drive's state: a mistake of the program that drives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The input's time lies before the drive's.
    #[error("the input is stamped {at}, but the drive's clock already stands at {now}")]
    Past {
        /// The input's time.
        at: Time,
        /// The drive's time.
        now: Time,
    },
    /// The drive had something to say before the input's time.
    #[error("advance the drive to {at} and take its outputs before giving it this input")]
    NotAdvanced {
        /// The input's time.
        at: Time,
    },
    /// No queue has this identifier.
    #[error("there is no queue {0:?}")]
    NoSuchQueue(QueueId),
    /// A queue with this identifier exists.
    #[error("queue {0:?} exists already")]
    QueueExists(QueueId),
    /// A memory queue's command was handed over without a fetch.
    #[error("queue {0:?} did not ask for a command")]
    NotFetched(QueueId),
    /// A queue is either rung or submitted to, as long as commands are in it.
    #[error("queue {0:?} was both rung and submitted to")]
    Mixed(QueueId),
    /// Data arrived for a command that does not wait for any.
    #[error("command {0:?} does not wait for data")]
    NoDataExpected(Tag),
    /// There are too many flows.
    #[error("flow numbers end at {max}")]
    TooManyFlows {
        /// The last flow number.
        max: u16,
    },
}

/// The last flow number: each flow costs a row and a column of who delayed whom.
pub(crate) const FLOW_MAX: u16 = 1021;

/// A simulated drive.
///
/// Inputs carry the time at which they happen and are given in order. [`Drive::advance`] is
/// the only place where time moves: it stops at the first instant that has outputs, which
/// [`Drive::poll`] then returns; answers to an output carry the output's time. At equal
/// times, what happens inside the drive comes before inputs, and inputs take effect in the
/// order in which they are given. How `advance` is called never changes what happens.
pub struct Drive {
    pub(crate) config: Config,
    pub(crate) shape: Shape,
    pub(crate) now: Time,
    pub(crate) events: EventQueue,
    /// What the host has not taken of what the drive says at the present instant.
    pub(crate) outputs: Ring<Said>,
    pub(crate) report_moves: bool,
    pub(crate) host: HostInterface,
    pub(crate) link: Link,
    pub(crate) cores: Vec<Fifo>,
    pub(crate) cache: Option<Cache>,
    /// Whether what was read stays in the cache.
    pub(crate) reads_cached: bool,
    pub(crate) mapping: Mapping,
    /// What each block is, where that is not for the allocator to say.
    pub(crate) hybrid: Option<Box<Hybrid>>,
    pub(crate) namespaces: Vec<NamespaceSpace>,
    pub(crate) blocks: Blocks,
    /// What reads take, where that depends on wear.
    pub(crate) worn_reads: Option<Box<WornReads>>,
    /// Blocks of each plane that may be retired before the drive takes no more writes.
    pub(crate) spare_blocks: Vec<u32>,
    pub(crate) write_protected: bool,
    /// Dynamic placement: where the writes of each namespace go, and how many valid units a
    /// plane may hold.
    pub(crate) stripes: Vec<Stripe>,
    pub(crate) plane_room: u32,
    pub(crate) retries: Xoshiro256PlusPlus,
    /// Whether the last block that a plane emptied was emptied to level wear.
    pub(crate) levelled_last: Vec<bool>,
    /// What the host had written when each plane last levelled wear, and how many blocks it
    /// has emptied since.
    pub(crate) levelled: Vec<(u64, u32)>,
    pub(crate) planes: Vec<PlaneState>,
    /// Which units are hot, where that decides to which blocks they go, and what of them waits
    /// for each plane; nothing elsewhere.
    pub(crate) hotness: Option<Box<Hotness>>,
    pub(crate) hot_queues: Vec<HotQueues>,
    pub(crate) dies: Vec<Die>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) chip_busy: Vec<bool>,
    pub(crate) flash: FlashTimes,
    /// What dies have suspended or will do next, if any may.
    pub(crate) holds: Vec<Hold>,
    /// Pages of a victim that are read or programmed at a time.
    pub(crate) pages_in_flight: u32,
    /// Whether every program takes the next page of an open block, the one for what it is.
    pub(crate) plain_programs: bool,
    /// Whether reads do not always go before programs.
    pub(crate) weighs_reads: bool,
    pub(crate) flin: Option<Box<Flin>>,
    pub(crate) commands: Pool<Command>,
    pub(crate) transactions: Pool<Transaction>,
    pub(crate) units: Pool<WriteUnit>,
    /// Read data on its way to the host whose arrival is reported.
    pub(crate) pieces_out: Pool<Piece>,
    /// Commands that wait until what they wrote to a cached unit is on flash.
    pub(crate) through_waiters: HashMap<u32, Vec<ThroughWaiter>, FxBuildHasher>,
    pub(crate) awaiting_data: HashMap<Tag, u32, FxBuildHasher>,
    /// Commands that have ended after their queue had gone, and commands that were answered when it
    /// went, before they had ended.
    pub(crate) orphans_ended: u64,
    pub(crate) orphans_answered: u64,
    /// Whether host pages may be programmed before they are full.
    pub(crate) write_pressure: bool,
    /// Planes with full ones.
    pub(crate) full_pages: FullPages,
    /// Channels to look at, transactions and units that may begin to wait, and what cannot
    /// go on: dealt with at the end of each event. `unsettled` if there is any of it.
    pub(crate) unsettled: bool,
    pub(crate) stale_channels: Vec<u32>,
    pub(crate) fresh_transactions: Vec<u32>,
    pub(crate) fresh_units: Vec<u32>,
    pub(crate) deferred: Vec<Deferred>,
    pub(crate) faults: Faults,
    pub(crate) ledger: Ledger,
    pub(crate) blame: BlameMatrix,
    pub(crate) holders: usize,
    pub(crate) counters: Counters,
    pub(crate) turnover: TurnoverBooks,
    pub(crate) lost_units: Vec<u32>,
    /// What dies and channels did and nobody has taken, if anybody wants to.
    pub(crate) activity: Option<Vec<Activity>>,
    pub(crate) order: u64,
    /// When counting began, and what was booked on the link by then.
    pub(crate) counting_since: Time,
    pub(crate) counting_offset: Counters,
}

impl Drive {
    /// Builds the drive: empty, never written, at time zero.
    ///
    /// # Errors
    /// If the configuration describes something that cannot be built; see
    /// [`Config::check`].
    pub fn new(config: Config) -> Result<Drive, ConfigError> {
        let plan = config.validate()?;
        let shape = Shape::new(&config);
        let geometry = config.geometry;
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        let mut stream = || {
            let stream = seeds.clone();
            seeds.jump();
            stream
        };
        let (gc_random, fault_random) = (stream(), stream());
        let (lives, retries) = (stream(), stream());
        let dies_per_lane = match config.scheduler.die_interleaving {
            true => 1,
            false => shape.dies_per_chip,
        };
        let lanes = geometry.dies() / dies_per_lane;
        let dies = (0..geometry.dies())
            .map(|die| {
                let channel = die / shape.dies_per_channel;
                let bit = 1 << (die % shape.dies_per_channel);
                let mut die =
                    Die::new(channel, die / dies_per_lane, bit, die * shape.planes_per_die);
                die.urgent_takes_turns = config.scheduler.flin.is_some();
                die
            })
            .collect();
        let mut drive = Drive {
            now: Time::ZERO,
            events: EventQueue::new(),
            outputs: Ring::default(),
            report_moves: false,
            host: HostInterface::new(config.queues),
            link: Link::new(config.link),
            cores: (0..config.firmware.cores).map(|_| Fifo::default()).collect(),
            cache: config.cache.map(|cache| Cache::new(&cache, plan.namespaces.len(), &shape)),
            reads_cached: config.cache.is_some_and(|cache| cache.mode.reads()),
            mapping: Mapping::new(&config, &shape, &plan),
            hybrid: match config.mapping.scheme {
                MappingScheme::Page => None,
                MappingScheme::Hybrid { log_blocks } => {
                    Some(Box::new(Hybrid::new(&config, &shape, &plan.namespaces, log_blocks)))
                }
            },
            blocks: match config.mapping.scheme {
                MappingScheme::Hybrid { .. } => {
                    Blocks::hybrid(shape, &config.gc, &config.wear, gc_random, lives)
                }
                MappingScheme::Page if config.flash.rewritable => {
                    Blocks::rewritable(shape, &config.gc, &config.wear, gc_random, lives)
                }
                MappingScheme::Page => {
                    Blocks::new(shape, &config.gc, &config.wear, gc_random, lives)
                }
            },
            worn_reads: config.wear.reads.as_ref().map(|reads| Box::new(WornReads::new(reads))),
            spare_blocks: plan.spare_blocks,
            write_protected: false,
            stripes: vec![Stripe::default(); plan.namespaces.len()],
            plane_room: plan.plane_room,
            retries,
            levelled_last: vec![false; shape.planes as usize],
            levelled: vec![(0, 0); shape.planes as usize],
            planes: vec![PlaneState::default(); shape.planes as usize],
            hot_queues: match config.gc.frontiers {
                WriteFrontiers::HotCold(_) => {
                    vec![HotQueues::default(); shape.planes as usize]
                }
                _ => vec![],
            },
            hotness: match &config.gc.frontiers {
                WriteFrontiers::HotCold(data) => Some(Box::new(Hotness::new(data, plan.units))),
                _ => None,
            },
            dies,
            channels: (0..geometry.channels)
                .map(|channel| Channel::new(channel * shape.dies_per_channel))
                .collect(),
            chip_busy: vec![false; lanes as usize],
            flash: FlashTimes::new(&config),
            pages_in_flight: crate::ftl::collection::pages_in_flight(&config, &shape),
            plain_programs: !matches!(config.gc.frontiers, WriteFrontiers::HotCold(_))
                && !config.flash.rewritable
                && !config.flash.one_shot
                && config.mapping.scheme == MappingScheme::Page,
            holds: Hold::all(&config),
            weighs_reads: config.scheduler.write_deadline.is_some()
                || config.scheduler.precedence != Precedence::ReadFirst
                || config.scheduler.flin.is_some(),
            flin: config.scheduler.flin.map(|flin| Box::new(Flin::new(flin, &config))),
            commands: Pool::default(),
            transactions: Pool::default(),
            units: Pool::default(),
            pieces_out: Pool::default(),
            through_waiters: HashMap::default(),
            awaiting_data: HashMap::default(),
            orphans_ended: 0,
            orphans_answered: 0,
            write_pressure: false,
            full_pages: FullPages::new(
                shape.units_per_program,
                if matches!(config.gc.frontiers, WriteFrontiers::HotCold(_)) { 2 } else { 1 },
            ),
            unsettled: false,
            stale_channels: Vec::new(),
            fresh_transactions: Vec::new(),
            fresh_units: Vec::new(),
            deferred: Vec::new(),
            faults: Faults::new(&config, fault_random),
            ledger: Ledger::new(lanes as usize, geometry.channels as usize),
            blame: BlameMatrix::default(),
            holders: 0,
            counters: Counters {
                channel_busy: vec![Default::default(); geometry.channels as usize],
                die_busy: vec![Default::default(); geometry.dies() as usize],
                ..Counters::default()
            },
            turnover: TurnoverBooks::default(),
            lost_units: Vec::new(),
            activity: None,
            order: 0,
            counting_since: Time::ZERO,
            counting_offset: Counters::default(),
            namespaces: plan.namespaces,
            shape,
            config,
        };
        drive.grow_holders(flow_holder(crate::io::FlowId(0)) as usize + 1);
        drive.schedule_faults();
        let all_cached = drive.namespaces.iter().all(|space| space.caches_writes);
        if let Some(cache) = &mut drive.cache {
            cache.takes_all_writes &= all_cached;
        }
        if drive.config.placement != Placement::Static {
            drive.blocks.count_planes();
        }
        if drive.mapping.is_cached()
            && drive.config.mapping.unmapped_reads == crate::config::UnmappedReads::Allocate
        {
            drive.place_translation_pages();
        }
        drive.restart_turnover();
        Ok(drive)
    }

    /// What the drive was built from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The drive's clock.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Capacity of a namespace in 512-byte sectors; `None` if there is no such namespace.
    pub fn namespace_sectors(&self, namespace: crate::io::NamespaceId) -> Option<u64> {
        let index = (namespace.0 as usize).checked_sub(1)?;
        let space = self.namespaces.get(index)?;
        Some(u64::from(space.units) * u64::from(self.shape.unit_sectors))
    }

    /// Asks for [`Output::Move`] outputs, which say when data crosses. Without them data
    /// from the host counts as moved at its time. Ask before the first input.
    pub fn report_moves(&mut self, report: bool) {
        self.report_moves = report;
    }

    /// Whether [`Output::Move`] outputs were asked for.
    pub fn reports_moves(&self) -> bool {
        self.report_moves
    }

    /// The host has written a submission queue doorbell: `count` more commands wait in
    /// memory queue `queue`.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn ring(&mut self, at: Time, queue: QueueId, count: u32) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        if count == 0 {
            return Ok(());
        }
        if self.host.is_submitted_to(index) {
            return Err(InputError::Mixed(queue));
        }
        self.host.rung(index, at, count);
        self.send_doorbell(index, count);
        Ok(())
    }

    /// The host has put `request` into memory queue `queue`, where the drive can read it, and
    /// has written the doorbell. The same as [`Drive::ring`] and, when asked for it with
    /// [`Output::Fetch`], [`Drive::command`], but that the drive does not ask: the command
    /// begins when the outputs before it have been polled. Answer each output before polling
    /// the next.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn submit(&mut self, at: Time, queue: QueueId, request: Request) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        if self.host.is_rung(index) {
            return Err(InputError::Mixed(queue));
        }
        let flow = self.host.queues[usize::from(index)].flow;
        let command = self.commands.insert_any();
        self.commands[command].begin(request, index, queue, flow, at);
        self.host.submit(index, &mut self.commands, command);
        self.send_doorbell(index, 1);
        Ok(())
    }

    #[inline(always)]
    fn send_doorbell(&mut self, queue: u16, count: u32) {
        let flow = self.host.queues[usize::from(queue)].flow;
        if self.link.adapter.is_some() {
            return self.send_through_adapter(queue, count, flow);
        }
        let blame = &mut self.blame;
        let booking = self.link.down.book(self.now, self.link.doorbell, flow, |holder, wait| {
            blame.add(flow, crate::observe::stats::Resource::LinkDown, holder, wait);
        });
        self.events.push(booking.end, Event::Doorbell { queue, count });
    }

    /// The host hands over a command: the answer to [`Output::Fetch`] for a memory queue,
    /// unasked for a fetched one (then with its write data).
    ///
    /// # Errors
    /// See [`InputError`].
    pub fn command(
        &mut self,
        at: Time,
        queue: QueueId,
        request: Request,
    ) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        let (rung, fetched) = self.host.accept(index, at).ok_or(InputError::NotFetched(queue))?;
        let flow = self.host.queues[usize::from(index)].flow;
        let command = self.commands.insert_any();
        let c = &mut self.commands[command];
        c.begin(request, index, queue, flow, rung);
        c.end_stage(Stage::SubmissionQueue, fetched);
        self.begin_command(command);
        self.settle();
        Ok(())
    }

    /// The data of a write has been taken from host memory: the answer to
    /// [`Output::Move`] from the host.
    ///
    /// # Errors
    /// See [`InputError`].
    pub fn data_arrived(&mut self, at: Time, tag: Tag) -> Result<(), InputError> {
        self.reach(at)?;
        let command = self.awaiting_data.remove(&tag).ok_or(InputError::NoDataExpected(tag))?;
        self.data_is_here(command);
        self.settle();
        Ok(())
    }

    /// The host has taken `count` entries off `queue`'s completion queue.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn cq_freed(&mut self, at: Time, queue: QueueId, count: u32) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        let pair = &mut self.host.queues[usize::from(index)];
        if count == 0 || pair.queue.kind == QueueKind::Fetched {
            return Ok(());
        }
        let flow = pair.flow;
        let blame = &mut self.blame;
        let booking = self.link.down.book(at, self.link.doorbell, flow, |holder, wait| {
            blame.add(flow, crate::observe::stats::Resource::LinkDown, holder, wait);
        });
        pair.add_free(at, booking.end, count);
        self.watch_frees(index);
        Ok(())
    }

    /// Something happens to a queue, a namespace or the whole drive.
    ///
    /// # Errors
    /// See [`InputError`].
    pub fn control(&mut self, at: Time, control: Control) -> Result<(), InputError> {
        self.reach(at)?;
        match control {
            Control::CreateQueue(queue) => {
                if queue.flow.0 > FLOW_MAX {
                    return Err(InputError::TooManyFlows { max: FLOW_MAX });
                }
                self.grow_holders(usize::from(flow_holder(queue.flow)) + 1);
                if !self.host.create(queue) {
                    return Err(InputError::QueueExists(queue.id));
                }
            }
            Control::DeleteQueue(id) => {
                let index =
                    self.host.delete(id, &mut self.commands).ok_or(InputError::NoSuchQueue(id))?;
                self.orphan_commands(Some(index), true);
            }
            Control::Arbitration { burst, weights } => self.host.set_arbitration(burst, weights),
            Control::Reset => {
                self.host.reset(&mut self.commands);
                self.orphan_commands(None, false);
            }
            Control::Abort(queue, tag) => self.abort(queue, tag),
            Control::Format(namespace) => self.format(namespace),
            Control::WriteBack => self.write_back(),
            Control::PowerCut => self.power_cut(mynah_stamp::Span::ZERO),
        }
        self.settle();
        Ok(())
    }

    /// When something will next happen inside the drive by itself.
    #[inline]
    pub fn next_at(&self) -> Option<Time> {
        match self.outputs.is_empty() {
            true => self.events.next_at(),
            false => Some(self.now),
        }
    }

    /// Moves time forward to `to`, or to the first instant that has outputs. Take the
    /// outputs with [`Drive::poll`], answer them, and call again.
    pub fn advance(&mut self, to: Time) {
        loop {
            let limit = if self.outputs.is_empty() { to } else { self.now };
            if let Some((at, event)) = self.events.pop(limit) {
                self.now = at;
                self.counters.events += 1;
                self.handle(event);
                self.settle_here();
            } else if let Some(Said::Own(step)) = self.outputs.front() {
                self.outputs.pop();
                self.events.end_instant();
                self.take(step);
                self.settle_here();
            } else {
                break;
            }
        }
        self.events.end_instant();
        if self.outputs.is_empty() && to != Time::MAX {
            self.now = self.now.max(to);
        }
    }

    /// Returns the next output of the present instant.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        let at = self.now;
        Some(match self.poll_brief()? {
            Brief::Fetch { queue } => Output::Fetch { at, queue },
            Brief::Complete(completed) => Output::Complete(*self.completion(completed)),
            Brief::Move { tag, queue, first_sector, sectors, direction } => {
                Output::Move { at, tag, queue, first_sector, sectors, direction }
            }
        })
    }

    /// Returns the next output of the present instant; a completion stays here, to be looked
    /// at with [`Drive::completion`].
    #[inline]
    pub fn poll_brief(&mut self) -> Option<Brief> {
        loop {
            match self.outputs.pop()? {
                Said::Brief(brief) => {
                    if let Brief::Complete(Completed(command)) = brief {
                        self.commands.remove(command);
                    }
                    return Some(brief);
                }
                Said::Own(step) => {
                    self.take_late(step);
                }
            }
        }
    }

    /// Goes on by itself after an answer of the host.
    #[inline(never)]
    fn take_late(&mut self, step: Step) {
        if self.events.is_due(self.now) {
            self.advance(self.now);
        }
        self.take(step);
        self.settle();
    }

    /// The completion that was polled last, as long as nothing has been done to the drive
    /// since.
    #[inline]
    pub fn completion(&self, completed: Completed) -> &Completion {
        &self.commands[completed.0].completion
    }

    /// What the drive has counted since it was built or [`Drive::restart_counters`].
    pub fn counters(&self) -> Counters {
        self.counters_now()
    }

    /// When counting began.
    pub fn counting_since(&self) -> Time {
        self.counting_since
    }

    /// Who delayed whom, since counting began.
    pub fn blame(&self) -> Vec<Blame> {
        self.blame.rows()
    }

    /// Units whose latest data a power cut has lost, by namespace, since this was last
    /// asked. What they read as afterwards is what was on flash before, or zeros.
    pub fn take_lost_units(&mut self) -> Vec<(crate::io::NamespaceId, u64)> {
        let lost = std::mem::take(&mut self.lost_units);
        lost.into_iter().map(|unit| self.namespace_of(unit)).collect()
    }

    /// Whether a unit has been written and not deallocated since, in the cache or on flash;
    /// false outside the namespace.
    pub fn holds_data(&self, namespace: crate::io::NamespaceId, unit: u64) -> bool {
        let space = (namespace.0 as usize).checked_sub(1).and_then(|at| self.namespaces.get(at));
        let Some(space) = space.filter(|space| unit < u64::from(space.units)) else {
            return false;
        };
        let unit = space.base + unit as u32;
        let cached = self.cache.as_ref().and_then(|cache| cache.find(unit));
        cached.is_some_and(|at| !self.units[at].trimmed) || self.mapping.table.slot(unit).is_some()
    }

    /// Asks for what reads and writes at `sectors` will soon look at. Changes nothing but speed,
    /// most with some ten to thirty addresses.
    #[inline]
    pub fn warm(
        &self,
        namespace: crate::io::NamespaceId,
        sectors: impl Iterator<Item = u64> + Clone,
    ) {
        let Some(space) = self.namespaces.get((namespace.0 as usize).wrapping_sub(1)) else {
            return;
        };
        // What one step asks for is there when the next looks at it.
        let units = sectors.filter_map(|sector| {
            let (unit, _) = self.shape.split_sectors(sector);
            (unit < u64::from(space.units)).then(|| space.base + unit as u32)
        });
        for unit in units.clone() {
            self.mapping.table.prefetch(unit);
        }
        if let Some(cache) = &self.cache {
            cache.prefetch(units.clone());
        }
        self.prefetch_cached(units.clone());
        if self.worn_reads.is_some() {
            for slot in units.filter_map(|unit| self.mapping.table.slot(unit)) {
                self.blocks.prefetch_erases(self.shape.block_of_slot(slot));
            }
        }
    }

    #[inline]
    pub(crate) fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Runs everything that happens inside up to and including `at`.
    #[inline]
    fn reach(&mut self, at: Time) -> Result<(), InputError> {
        if at == self.now && !self.events.is_due(at) {
            return Ok(());
        }
        self.reach_slowly(at)
    }

    #[inline(never)]
    fn reach_slowly(&mut self, at: Time) -> Result<(), InputError> {
        if at < self.now {
            return Err(InputError::Past { at, now: self.now });
        }
        if at > self.now && !self.outputs.is_empty() {
            return Err(InputError::NotAdvanced { at });
        }
        self.advance(at);
        if self.now < at {
            return Err(InputError::NotAdvanced { at });
        }
        Ok(())
    }

    pub(crate) fn grow_holders(&mut self, holders: usize) {
        if holders > self.holders {
            self.holders = holders;
            self.blame.grow(holders);
            self.ledger.grow(holders);
            if let Some(flin) = &mut self.flin {
                flin.grow(holders);
            }
            self.link.grow(holders);
            for core in &mut self.cores {
                core.grow(holders);
            }
            if let Some(cache) = &mut self.cache {
                cache.grow(holders);
            }
        }
    }

    #[inline(always)]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Doorbell { queue, count } => {
                self.host.doorbell(queue, count);
                self.fetch();
            }
            Event::EntryRequestAtHost { queue, count } => self.return_entries(queue, count),
            Event::EntriesArrived { queue, count } => self.entries_arrived(queue, count),
            Event::PrpRequestAtHost { command } => self.return_prp_list(command),
            Event::PrpArrived { command } => self.prp_list_arrived(command),
            Event::DataRequestAtHost { command } => self.return_data(command),
            Event::DataInArrived { command } => self.data_in_arrived(command),
            Event::FirmwareDone { command } => self.firmware_done(command),
            Event::CacheAccessDone { command } => self.cache_access_done(command),
            Event::UnitOutOfDram { unit } => self.queue_for_plane(unit),
            Event::ChannelDone { channel } => self.channel_done(channel),
            Event::ArrayDone { die } => self.array_done(die),
            Event::Decoded { transaction } => self.read_done(transaction),
            Event::LongArrayDone { number, die } => self.long_array_done(die, number),
            Event::DataOutArrived { piece } => {
                cold_path();
                let Piece { command, first_sector, sectors } = self.pieces_out[piece];
                self.pieces_out.remove(piece);
                self.report_data_out(command, first_sector, sectors);
            }
            Event::CompletionVisible { command } => self.completion_visible(command),
            Event::CompletionAtAdapter { command } => self.completion_at_adapter(command),
            Event::DoorbellAtHost { queue, count } => self.doorbell_at_host(queue, count),
            Event::CompletionDoorbell { queue } => self.completion_doorbell(queue),
            Event::TrimStep { command } => self.trim_step(command),
            Event::IdleCheck { plane } => self.idle_check(plane),
            Event::Fault { index } => self.fault(index),
            Event::PowerRestored => self.power_restored(),
        }
    }

    /// The plane that `content` belongs to for ever.
    #[inline]
    pub(crate) fn plane_of(&self, content: Content) -> u32 {
        match content {
            Content::Unit(unit) => {
                let space = self.space_of(unit);
                space.plane_of(unit - space.base, self.shape.units_per_page)
            }
            Content::TranslationPage(page) => {
                let space = self
                    .namespaces
                    .iter()
                    .rev()
                    .find(|space| space.translation_base <= page)
                    .expect("a translation page belongs to a namespace");
                let local = (page - space.translation_base) as usize;
                space.planes[local % space.planes.len()]
            }
        }
    }

    #[inline]
    pub(crate) fn space_of(&self, unit: u32) -> &NamespaceSpace {
        &self.namespaces[self.namespace_index(unit)]
    }

    #[inline]
    pub(crate) fn namespace_index(&self, unit: u32) -> usize {
        if self.namespaces.len() == 1 {
            return 0;
        }
        self.namespaces.partition_point(|space| space.base <= unit) - 1
    }

    pub(crate) fn namespace_of(&self, unit: u32) -> (crate::io::NamespaceId, u64) {
        let index = self.namespace_index(unit);
        let id = crate::io::NamespaceId(index as u32 + 1);
        (id, u64::from(unit - self.namespaces[index].base))
    }
}
