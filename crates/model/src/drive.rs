//! The drive: everything put together behind the contract of inputs, outputs and time.

mod account;
mod entries;
mod fault;
mod observation;

use crate::cache::Cache;
use crate::config::{Config, ConfigError, Placement};
use crate::flash::Flash;
use crate::flash::channel::Arrived;
use crate::flash::die::{DieOperation, OperationKind};
use crate::flash::operation::ArrayEnd;
use crate::flash::scheduler::Dropped;
use crate::ftl::{Ftl, Streams};
use crate::host::Host;
use crate::io::{Brief, Output, QueueId, Tag};
use crate::kernel::Kernel;
use crate::kernel::event::Event;
use crate::number::{Channel, Die, WorkIndex};
use crate::observe::Observe;
use crate::observe::blame::Flows;
use crate::observe::stats::{Blame, Counters};
use crate::policy::PlaneScheduling;
use crate::policy::{BuiltIn, PolicyError};
use crate::space::Shape;
pub use entries::Policies;
use mynah_stamp::{LinkSpans, Time};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::hint::cold_path;

/// An input that does not fit the drive's state: a mistake of the program that drives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The input's time lies before the drive's.
    #[error("the input is stamped {at}, but the drive's clock already stands at {now}")]
    Past { at: Time, now: Time },
    /// The drive had something to say before the input's time.
    #[error("advance the drive to {at} and take its outputs before giving it this input")]
    NotAdvanced { at: Time },
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
    /// A decision came for a command that does not wait for one, or it does not fit what the
    /// command does.
    #[error("command {0:?} does not wait for this decision")]
    NoDecisionExpected(Tag),
    /// The link has no queues of this kind: an Ethernet drive's are [`QueueKind::Network`], which
    /// no other drive has.
    ///
    /// [`QueueKind::Network`]: crate::io::QueueKind::Network
    #[error("queue {0:?} is of a kind that the drive's link does not carry")]
    OtherLink(QueueId),
    #[error("flow numbers end at {max}")]
    TooManyFlows { max: u16 },
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
pub struct Drive<P: Policies = BuiltIn> {
    pub(crate) config: Config,
    pub(crate) shape: Shape,
    pub(crate) kernel: Kernel,
    pub(crate) host: Host,
    pub(crate) cache: Option<Cache>,
    pub(crate) ftl: Ftl,
    pub(crate) flash: Flash,
    pub(crate) policies: P,
}

impl Drive {
    /// Builds the drive: empty, never written, at time zero.
    ///
    /// # Errors
    /// If the configuration describes something that cannot be built; see
    /// [`Config::check`].
    pub fn new(config: Config) -> Result<Drive, ConfigError> {
        Drive::build(config, BuiltIn)
    }
}

impl<P: Policies> Drive<P> {
    /// Builds a drive that decides by `policies`.
    ///
    /// # Errors
    /// As [`Drive::new`], and if the drive does not ask for what a policy would decide.
    pub fn with_policies(config: Config, policies: P) -> Result<Drive<P>, ConfigError> {
        config.validate_policies::<P>()?;
        Drive::build(config, policies)
    }

    fn build(config: Config, policies: P) -> Result<Drive<P>, ConfigError> {
        let plan = config.validate()?;
        let shape = Shape::new(&config);
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        let mut stream = || {
            let stream = seeds.clone();
            seeds.jump();
            stream
        };
        let (gc, faults, lives, retries) = (stream(), stream(), stream(), stream());
        let handling = stream();
        let random = Streams { gc, faults, lives, retries };
        let flash = Flash::new(&config, shape);
        let has_pairs = plan.namespaces.iter().any(|space| space.pairs.is_some());
        let flows = Flows::new(has_pairs, config.slc.is_some(), config.reclaim_unit_handles());
        let mut drive = Drive {
            kernel: Kernel::new(Observe::new(&config.geometry, flash.lanes(), flows)),
            host: Host::new(&config, handling),
            cache: config
                .cache
                .map(|cache| Cache::new(&cache, plan.namespaces.len(), flows, &shape)),
            ftl: Ftl::new(&config, shape, plan, random),
            flash,
            shape,
            config,
            policies,
        };
        drive.ftl.date_blocks(drive.policies.victims());
        if P::Scheduling::OWN {
            drive.flash.weigh_reads();
        }
        drive.grow_holders(usize::from(flows.first()) + 1);
        drive.schedule_faults();
        if let Some(cache) = &mut drive.cache
            && !drive.ftl.caches_all_writes()
        {
            cache.leave_writes_out();
        }
        if drive.config.placement != Placement::Static {
            drive.ftl.count_planes();
        }
        if drive.ftl.is_mapping_cached()
            && drive.config.mapping.unmapped_reads == crate::config::UnmappedReads::Allocate
        {
            drive.ftl.place_translation_pages();
        }
        drive.restart_turnover();
        Ok(drive)
    }

    /// What the drive was built from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What one of its policies has done wrong, if one has. The drive has decided by itself since.
    pub fn policy_error(&self) -> Option<&PolicyError> {
        self.policies.error()
    }

    /// The policies by which it decides.
    pub fn policies(&self) -> &P {
        &self.policies
    }

    #[inline]
    pub fn now(&self) -> Time {
        self.kernel.now
    }

    /// Capacity of a namespace in 512-byte sectors; `None` if there is no such namespace.
    pub fn namespace_sectors(&self, namespace: crate::io::NamespaceId) -> Option<u64> {
        let index = (namespace.0 as usize).checked_sub(1)?;
        let space = self.ftl.namespace(index)?;
        Some(u64::from(space.units) * u64::from(self.shape.unit_sectors))
    }

    /// When something will next happen inside the drive by itself.
    #[inline]
    pub fn next_at(&self) -> Option<Time> {
        match self.host.has_nothing_pending() {
            true => self.kernel.events.next_at(),
            false => Some(self.kernel.now),
        }
    }

    /// Whether there is something to poll.
    #[inline]
    pub fn has_outputs(&self) -> bool {
        !self.host.has_nothing_pending()
    }

    /// Moves time forward to `to`, or to the first instant that has outputs. Take the
    /// outputs with [`Drive::poll`], answer them, and call again.
    #[inline]
    pub fn advance(&mut self, to: Time) {
        P::advance(self, to)
    }

    #[inline(always)]
    pub(crate) fn advance_here(&mut self, to: Time) {
        loop {
            let limit = if self.host.has_nothing_pending() { to } else { self.kernel.now };
            if let Some((at, event)) = self.kernel.events.pop(limit) {
                self.kernel.now = at;
                self.kernel.observe.count().events += 1;
                self.handle(event);
                self.settle_here();
            } else if let Some(step) = self.host.pending_step() {
                self.kernel.events.end_instant();
                self.take(step);
                self.settle_here();
            } else {
                break;
            }
        }
        self.kernel.events.end_instant();
        if self.host.has_nothing_pending() && to != Time::MAX {
            self.kernel.now = self.kernel.now.max(to);
        }
    }

    /// Returns the next output of the present instant.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        let at = self.kernel.now;
        self.host.note_polled(None);
        Some(match self.poll_brief()? {
            Brief::Fetch { queue } => Output::Fetch { at, queue },
            Brief::Complete(completed) => {
                self.host.note_polled(Some(completed));
                Output::Complete(*self.completion(completed))
            }
            Brief::Move { tag, queue, first_sector, sectors, direction } => {
                Output::Move { at, tag, queue, first_sector, sectors, direction }
            }
            Brief::Decide { tag, queue } => Output::Decide { at, tag, queue },
        })
    }

    /// [`Drive::link_spans`] of the completion that [`Drive::poll`] returned last, as long as nothing
    /// has been given to the drive since.
    pub fn polled_link_spans(&self) -> Option<&LinkSpans> {
        self.link_spans(self.host.polled()?)
    }

    /// What the drive has counted since it was built or [`Drive::restart_counters`].
    pub fn counters(&self) -> Counters {
        self.counters_now()
    }

    /// When counters began: zero, or the last [`Drive::restart_counters`].
    pub fn counting_since(&self) -> Time {
        self.kernel.observe.counting_since()
    }

    /// Who delayed whom, since counting began.
    pub fn blame(&self) -> Vec<Blame> {
        self.kernel.observe.blamed()
    }

    /// Units whose latest data a power cut has lost, by namespace, since this was last
    /// asked. What they read as afterwards is what was on flash before, or zeros.
    pub fn take_lost_units(&mut self) -> Vec<(crate::io::NamespaceId, u64)> {
        let lost = self.ftl.take_lost_units();
        lost.into_iter().map(|lpn| self.ftl.namespace_of(lpn)).collect()
    }

    /// Whether a unit has been written and not deallocated since, in the cache or on flash;
    /// false outside the namespace.
    pub fn holds_data(&self, namespace: crate::io::NamespaceId, unit: u64) -> bool {
        let space = (namespace.0 as usize).checked_sub(1).and_then(|at| self.ftl.namespace(at));
        let Some(space) = space.filter(|space| unit < u64::from(space.units)) else {
            return false;
        };
        let lpn = space.base + unit as u32;
        let cached = self.cache.as_ref().and_then(|cache| cache.find(lpn));
        cached.is_some_and(|at| !self.ftl.unit(at).trimmed) || self.ftl.ppn(lpn).is_some()
    }

    /// Asks for what reads and writes at `sectors` will soon look at. Changes nothing but speed,
    /// most with some ten to thirty addresses.
    #[inline]
    pub fn warm(
        &self,
        namespace: crate::io::NamespaceId,
        sectors: impl Iterator<Item = u64> + Clone,
    ) {
        let Some(space) = self.ftl.namespace((namespace.0 as usize).wrapping_sub(1)) else {
            return;
        };
        // What one step asks for is there when the next looks at it.
        let units = sectors.filter_map(|sector| {
            let (unit, _) = self.shape.split_sectors(sector);
            (unit < u64::from(space.units)).then(|| space.base + unit as u32)
        });
        for lpn in units.clone() {
            self.ftl.prefetch_entry(lpn);
        }
        if let Some(cache) = &self.cache {
            cache.prefetch(units.clone());
        }
        self.ftl.prefetch_reads(units);
    }

    /// Runs everything that happens inside up to and including `at`.
    #[inline(always)]
    pub(crate) fn reach(&mut self, at: Time) -> Result<(), InputError> {
        if at == self.kernel.now && !self.kernel.events.is_due(at) {
            return Ok(());
        }
        self.reach_slowly(at)
    }

    #[inline]
    fn reach_slowly(&mut self, at: Time) -> Result<(), InputError> {
        P::reach_slowly(self, at)
    }

    #[inline(never)]
    pub(crate) fn reach_slowly_here(&mut self, at: Time) -> Result<(), InputError> {
        if at < self.kernel.now {
            return Err(InputError::Past { at, now: self.kernel.now });
        }
        if at > self.kernel.now && !self.host.has_nothing_pending() {
            return Err(InputError::NotAdvanced { at });
        }
        self.advance(at);
        if self.kernel.now < at {
            return Err(InputError::NotAdvanced { at });
        }
        Ok(())
    }

    pub(crate) fn grow_holders(&mut self, holders: usize) {
        if holders > self.kernel.observe.holders() {
            self.kernel.observe.grow(holders);
            self.flash.grow(holders);
            self.host.grow(holders);
            if let Some(cache) = &mut self.cache {
                cache.grow(holders);
            }
        }
    }

    #[inline(always)]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Doorbell { queue, count } => self.doorbell(queue, count),
            Event::EntryRequestAtHost { queue, count } => self.return_entries(queue, count),
            Event::EntriesArrived { queue, count } => self.entries_arrived(queue, count),
            Event::PrpRequestAtHost { command } => self.return_prp_list(command),
            Event::PrpArrived { command } => self.prp_list_arrived(command),
            Event::DataRequestAtHost { command } => self.return_data(command),
            Event::DataInArrived { command } => self.data_in_arrived(command),
            Event::FirmwareDone { command } => self.firmware_done(command),
            Event::KeyStep { command } => self.key_step(command),
            Event::CacheAccessDone { command } => self.cache_access_done(command),
            Event::UnitOutOfDram { unit } => self.queue_for_plane(unit),
            Event::ChannelDone { channel } => self.channel_done(channel),
            Event::ArrayDone { die } => self.array_done(die),
            Event::Decoded { work } => self.read_done(work),
            Event::LongArrayDone { number, die } => {
                let (kernel, ftl) = (&mut self.kernel, &mut self.ftl);
                if let Some(operation) = self.flash.long_array_done(kernel, ftl, die, number) {
                    self.blocks_changed(&operation);
                }
            }
            Event::DataOutArrived { piece } => {
                cold_path();
                self.data_out_arrived(piece);
            }
            Event::CompletionVisible { command } => self.completion_visible(command),
            Event::CompletionAtAdapter { command } => self.completion_at_adapter(command),
            Event::DoorbellAtHost { queue, count } => self.doorbell_at_host(queue, count),
            Event::CompletionDoorbell { queue } => self.completion_doorbell(queue),
            Event::Hop { command, hop } => self.hop(command, hop),
            Event::LineTurn { line } => self.line_turn(line),
            Event::TrimStep { command } => self.trim_step(command),
            Event::IdleCheck { plane } => self.idle_check(plane),
            Event::FoldCheck { plane } => self.fold_check(plane),
            Event::Fault { index } => self.fault(index),
            Event::PowerRestored => self.power_restored(),
        }
    }

    /// What a channel carried is across.
    #[inline(always)]
    fn channel_done(&mut self, channel: Channel) {
        match self.flash.channel_done(&mut self.kernel, &mut self.ftl, channel) {
            Arrived::Command => {}
            Arrived::Data { work } if self.ftl.is_decoded() => self.decode(work),
            Arrived::Data { work } => self.read_done(work),
            Arrived::Copyback { work, die } => {
                cold_path();
                return self.moved_page_in_register(die, work);
            }
        }
        self.flash.look_again(channel);
    }

    /// A die's array operation is done.
    #[inline(always)]
    fn array_done(&mut self, die: Die) {
        match self.flash.array_done(&mut self.kernel, &mut self.ftl, die) {
            ArrayEnd::Reads => {}
            ArrayEnd::Failed { work, next } => self.reads_failed(die, work, next),
            ArrayEnd::Change => {
                let (kernel, ftl) = (&mut self.kernel, &mut self.ftl);
                if let Some(operation) = self.flash.block_changed(kernel, ftl, die) {
                    self.blocks_changed(&operation);
                }
            }
        }
    }

    /// A read has failed, and perhaps some of those after it in its operation.
    #[cold]
    fn reads_failed(&mut self, die: Die, work: WorkIndex, next: u32) {
        let mut failed = ArrayEnd::Failed { work, next };
        while let ArrayEnd::Failed { work, next } = failed {
            self.read_failed(work);
            failed = self.flash.reads_ready(&mut self.kernel, &mut self.ftl, die, next);
        }
    }

    /// What follows from the end of a program or an erase (nothing from a suspension's).
    #[inline(always)]
    fn blocks_changed(&mut self, operation: &DieOperation) {
        for at in 0..usize::from(operation.planes) {
            match operation.kind {
                OperationKind::Erase => self.block_erased(operation.work_at(at)),
                _ => self.page_programmed(operation.part_at(at), operation.ppns[at]),
            }
        }
    }

    /// Starts whatever can start on the channels that were listed, and notes the beginning of
    /// the waits of everything that could not.
    #[inline(never)]
    pub(crate) fn settle(&mut self) {
        self.settle_here();
    }

    /// [`Drive::settle`], inlined into the event loop.
    #[inline(always)]
    fn settle_here(&mut self) {
        if self.flash.is_settled() {
            return;
        }
        loop {
            while let Some(channel) = self.flash.next_stale() {
                if let Some(turn) = self.flash.grant(
                    &mut self.kernel,
                    &mut self.ftl,
                    self.policies.scheduling(),
                    channel,
                ) {
                    self.start_program(channel, turn);
                }
            }
            let Some(dropped) = self.flash.next_dropped() else { break };
            cold_path();
            self.deal_with_dropped(dropped);
        }
        self.flash.note_waits(&mut self.kernel, &self.ftl);
    }

    #[inline(never)]
    fn deal_with_dropped(&mut self, dropped: Dropped) {
        match dropped {
            Dropped::Void(unit) => self.drop_void_unit(unit),
            Dropped::Unplaced(unit) => self.unit_failed(unit),
            Dropped::Work(work) => self.fail_work(work),
        }
    }
}
