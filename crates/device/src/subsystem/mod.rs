//! The subsystem: what transports call, and the state that all controllers share.
//!
//! The files of this folder are its handlers: each adds methods to [`Subsystem`] that carry something
//! out with the parts. The parts (`controllers/`, `namespaces/`, `media/`, `model.rs` and so on) lie
//! beside the folder, own their state, and do not know the subsystem.

mod access;
mod admin;
mod answers;
mod authentication;
mod commands;
mod completion;
mod ending;
mod fabrics;
mod guest;
mod io_command;
mod key_value;
mod nvm;
mod persist;
mod power;
mod query;
mod reservations;
mod shutdown;
mod steps;
mod submission;
mod timers;

pub use nvm::BlockNamespace;

use crate::config::{
    NamespaceConfig, NamespaceContent, SubsystemConfig, SubsystemError, Timing, Transport,
};
use crate::controllers::{Controllers, NOBODY};
use crate::health::Health;
use crate::key_value::PairSpace;
use crate::lateness::Lateness;
use crate::media::Media as StoredMedia;
use crate::model::Model;
use crate::namespaces::{ControllerSet, FORMATS, Namespaces, SECTOR_BYTES, Space};
use crate::output::{CommandKind, Completion, CompletionData, Media, Output, Queue};
use crate::placement::Placement;
use crate::queue::{Queues, State};
use crate::samsung::KeySpaces;
use crate::slots::NONE;
use crate::store::StateId;
use crate::tap::Tap;
use crate::{Now, Store, StoreError};
use admin::AdminState;
use commands::Commands;
use mynah_model::Drive;
use mynah_model::config::NamespaceKind;
use mynah_model::io::{FlowId, NamespaceId};
use mynah_stamp::{Span, Time};
use mynah_wire::fabrics::{ConnectRequest, DISCOVERY_NQN, check_nqn};
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::collections::VecDeque;
use timers::Timers;

/// When something will happen by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wakeup {
    pub wall: Option<Time>,
    pub model: Option<Time>,
}

/// Why a queue is closed whose host exceeds the queue's size.
const TOO_MANY_COMMANDS: &str = "more commands than the queue has entries";

/// What an admin command leads to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is complete, with this result.
    Done(u64),
    /// It completes with this result once what it has changed is on stable storage.
    OncePersistent(u64),
    /// It is complete, with data for the host.
    Data(Vec<u8>),
    /// It is complete, with this result and data for the host.
    Answer(u64, Vec<u8>),
    /// The completion comes later.
    Later,
}

/// An NVMe subsystem around one drive. See the crate's documentation for how to drive it.
///
/// It holds the parts, each of which owns its state, and is what carries commands out with them.
pub struct Subsystem {
    config: SubsystemConfig,
    now: Now,
    queues: Queues,
    controllers: Controllers,
    namespaces: Namespaces,
    commands: Commands,
    model: Model,
    /// A function moves data of its guest from and to the store itself.
    pub(crate) media: StoredMedia,
    health: Health,
    /// `None` of a drive without data placement.
    placement: Option<Box<Placement>>,
    admin: AdminState,
    outputs: VecDeque<Output>,
    timers: Timers,
    lateness: Lateness,
    lead: Span,
    was_restored: bool,
}

impl Subsystem {
    /// Builds a subsystem around a drive that no command has been given to yet. The store
    /// has [`Subsystem::store_bytes`] bytes.
    ///
    /// # Errors
    /// If the configuration cannot be.
    pub fn new(
        config: SubsystemConfig,
        drive: Drive,
        store: Box<dyn Store>,
    ) -> Result<Subsystem, SubsystemError> {
        check(&config)?;
        let unit_sectors = u64::from(drive.config().mapping.unit_bytes) / SECTOR_BYTES;
        let pair_space = PairSpace::of(&drive, drive.config());
        let space = Space::new(pools(&drive), unit_sectors.max(1));
        let placement = drive.config().data_placement.as_ref();
        let placement = placement.map(|config| Box::new(Placement::new(config)));
        let mut subsystem = Subsystem {
            now: Now { wall: Time::ZERO, model: Time::ZERO },
            queues: Queues::new(config.limits),
            controllers: Controllers::new(config.limits, config.shard),
            media: StoredMedia::new(store, space.bytes(), space.unit_sectors()),
            namespaces: Namespaces::new(config.limits.namespaces_max, space, pair_space),
            commands: Commands::default(),
            model: Model::new(drive),
            health: Health::default(),
            placement,
            admin: AdminState::default(),
            outputs: VecDeque::new(),
            timers: Timers::default(),
            lateness: Lateness::default(),
            lead: Span::ZERO,
            was_restored: false,
            config,
        };
        if subsystem.config.timing == Timing::Modelled && subsystem.model.expect_power_cuts() {
            subsystem.media.expect_power_cut(subsystem.model.drive().config());
            subsystem.namespaces.set_guarded(true);
        }
        subsystem.was_restored = subsystem.restore()?;
        if subsystem.media.has_left_pairs() {
            // Nobody would ever find them again.
            return Err(SubsystemError::Pairs);
        }
        let expects_power_cut = subsystem.media.keeps_replaced();
        if subsystem.admin.sanitizes() {
            subsystem.restart_sanitize();
        }
        if !subsystem.was_restored {
            subsystem.create_configured()?;
            subsystem.describe();
        }
        if expects_power_cut {
            let pairs = subsystem.namespaces.iter_mut().filter_map(|it| it.any_pairs_mut());
            pairs.for_each(|mut pairs| pairs.expect_power_cut());
        }
        Ok(subsystem)
    }

    /// Whether the namespaces are those that the store has kept from before, and not those of
    /// the configuration.
    pub fn has_restored_namespaces(&self) -> bool {
        self.was_restored
    }

    /// Bytes that a store for this drive has: its capacity, and behind it room for the
    /// metadata of every sector.
    pub fn store_bytes(drive: &Drive) -> u64 {
        let sectors: u64 = pools(drive).map(|(sectors, _)| sectors).sum();
        sectors * (SECTOR_BYTES + crate::namespaces::protection::METADATA_BYTES as u64)
    }

    fn create_configured(&mut self) -> Result<(), SubsystemError> {
        let mut configured = self.config.namespaces.clone();
        if configured.is_empty() {
            configured = default_namespaces(self.model.drive());
        }
        let ids: Vec<usize> = self.config.shard.ids().take(configured.len()).collect();
        let ids_max = self.config.limits.namespaces_max;
        if ids.last().is_some_and(|&id| id > ids_max as usize) {
            let of = usize::from(self.config.shard.of);
            return Err(SubsystemError::TooManyNamespaces(configured.len() * of, ids_max));
        }
        for at in 0..configured.len() {
            let namespace = configured[at].clone();
            let format = match namespace.content {
                NamespaceContent::Blocks(512) => FORMATS[0],
                NamespaceContent::Blocks(4096) => FORMATS[1],
                NamespaceContent::Blocks(other) => return Err(SubsystemError::BlockBytes(other)),
                NamespaceContent::Pairs | NamespaceContent::SamsungPairs => {
                    self.create_of_pairs(at + 1, ids[at] as u32, namespace)?;
                    continue;
                }
            };
            let left = self.namespaces.space().free_bytes();
            let grain = self.namespaces.space().grain() * SECTOR_BYTES;
            let bytes = namespace.bytes.map_or_else(
                || {
                    let blocks = configured[at..].iter().filter(|it| !it.content.holds_pairs());
                    let fixed: u64 = blocks.clone().filter_map(|it| it.bytes).sum();
                    let sharing = blocks.filter(|it| it.bytes.is_none()).count();
                    left.saturating_sub(fixed) / sharing as u64 / grain * grain
                },
                |bytes| bytes / grain * grain,
            );
            if bytes == 0 && left >= grain {
                return Err(SubsystemError::TooSmall { namespace: at + 1, grain });
            }
            let capacity = |wanted| SubsystemError::Capacity { namespace: at + 1, wanted, left };
            let extents =
                self.namespaces.space_mut().take(bytes).ok_or(capacity(bytes.max(grain)))?;
            let attached = ControllerSet::all(self.config.limits.controllers_max);
            let id = ids[at] as u32;
            let handles = self.configured_handles(at + 1, &namespace.handles, &extents)?;
            let mut namespace = self.namespaces.make(id, extents, format, attached, true);
            namespace.set_handles(handles, true);
            self.namespaces.insert(namespace);
        }
        Ok(())
    }

    /// Creates a namespace of pairs; `number` is that of its configuration, from 1, for errors.
    fn create_of_pairs(
        &mut self,
        number: usize,
        id: u32,
        config: NamespaceConfig,
    ) -> Result<(), SubsystemError> {
        if !self.media.takes_values() {
            return Err(SubsystemError::NoValues(number));
        }
        if !config.handles.is_empty() {
            return Err(SubsystemError::NoHandles(number));
        }
        let wanted = config.bytes;
        let fits = |bytes| wanted.is_none_or(|wanted| wanted == bytes);
        let none = SubsystemError::NoPairs { namespace: number, wanted };
        let attached = ControllerSet::all(self.config.limits.controllers_max);
        let namespace = match config.content {
            NamespaceContent::SamsungPairs if self.namespaces.key_spaces().is_some() => {
                return Err(SubsystemError::SecondOfKeySpaces(number));
            }
            NamespaceContent::SamsungPairs => {
                let spaces = KeySpaces::new(self.namespaces.unused_pairs(fits).ok_or(none)?);
                self.namespaces.make_of_key_spaces(id, spaces, attached, true)
            }
            _ => {
                let pairs = self.namespaces.unused_pairs(fits).ok_or(none)?;
                self.namespaces.make_of_pairs(id, pairs, attached, true)
            }
        };
        self.namespaces.insert(namespace);
        Ok(())
    }

    /// How far both clocks have come.
    pub fn now(&self) -> Now {
        self.now
    }

    /// What the subsystem was built from.
    pub fn config(&self) -> &SubsystemConfig {
        &self.config
    }

    /// Blocks of a namespace; `None` if there is none with this identifier.
    pub fn namespace_blocks(&self, id: u32) -> Option<u64> {
        self.namespaces.with_id(id).map(|namespace| namespace.blocks())
    }

    /// Bytes of a logical block of a namespace, without metadata.
    pub fn block_bytes(&self, id: u32) -> Option<u32> {
        self.namespaces.with_id(id).map(|namespace| 1 << namespace.format().shift)
    }

    pub fn drive(&self) -> &Drive {
        self.model.drive()
    }

    /// The names of the flows that completions belong to ([`crate::Completion::flow`]) and that the drive
    /// tells apart ([`mynah_model::Drive::blame`]), by number: the hosts with I/O queues, in the
    /// order in which they came. A flow keeps its number for good, so this only grows.
    pub fn flow_names(&self) -> Vec<String> {
        self.controllers.flow_names()
    }

    /// The flow of a connected queue's host; `None` where it carries no I/O of one.
    pub fn flow_of_queue(&self, queue: Queue) -> Option<FlowId> {
        self.queues.get(queue.0).map(|slot| slot.flow()).filter(|flow| *flow != NOBODY)
    }

    /// Lets somebody listen to what goes into the model, from now on.
    pub fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.model.set_tap(tap);
    }

    /// A transport connection is up; only Connect is valid on it.
    pub fn attach(&mut self, now: Now, transport: Transport) -> Queue {
        self.advance(now);
        Queue(self.queues.open(transport))
    }

    /// A transport connection is gone, and with it everything outstanding on it.
    pub fn detach(&mut self, now: Now, queue: Queue) {
        self.advance(now);
        let Some(slot) = self.queues.get(queue.0) else { return };
        let (state, controller, queue_id) = (slot.state(), slot.controller(), slot.queue_id());
        self.abandon(queue.0);
        self.queues.remove(queue.0);
        if state == State::New || controller == 0 {
            return;
        }
        let Some(owner) = self.controllers.get_mut(controller) else { return };
        if queue_id == 0 && owner.admin_queue() == queue.0 {
            owner.set_admin_queue(NONE);
            self.end_controller(controller, "the admin connection is gone");
        } else {
            owner.forget_io_queue(queue_id, queue.0);
        }
    }

    /// A command with all its data from the host. Errors are completions too.
    #[inline]
    pub fn submit(&mut self, now: Now, queue: Queue, entry: &SubmissionEntry, data: &[u8]) {
        match self.take_in(now, queue) {
            None => {}
            Some(State::Io) => self.submit_io(queue.0, entry, data),
            Some(State::Admin) => self.submit_admin(queue.0, entry, data),
            Some(_) => self.submit_early(queue.0, entry, data),
        }
    }

    /// A Connect whose data have been read already.
    pub fn connect(
        &mut self,
        now: Now,
        queue: Queue,
        entry: &SubmissionEntry,
        request: &ConnectRequest<'_>,
    ) {
        match self.take_in(now, queue) {
            None => {}
            Some(State::New) => self.submit_connect(queue.0, entry, request),
            // It is not carried out there.
            Some(State::Io) => self.submit_io(queue.0, entry, &[]),
            Some(State::Admin) => self.submit_admin(queue.0, entry, &[]),
            Some(_) => self.submit_early(queue.0, entry, &[]),
        }
    }

    /// Counts a command that comes, and returns the state of its queue. `None` if the queue is
    /// closing, or has no entry for the command and is closed because of that.
    #[inline]
    fn take_in(&mut self, now: Now, queue: Queue) -> Option<State> {
        self.pass(now);
        let slot = self.queues.get_mut(queue.0)?;
        if slot.state() == State::Closing {
            return None;
        }
        if !slot.begin_command() {
            self.close(queue.0, TOO_MANY_COMMANDS);
            return None;
        }
        Some(slot.state())
    }

    /// Answers a command that comes now with an error: whoever owns the transport has no room for
    /// what it wants.
    pub fn refuse(&mut self, now: Now, queue: Queue, entry: &SubmissionEntry, status: Status) {
        if self.take_in(now, queue).is_some() {
            self.fail(queue.0, entry, CommandKind::Fabrics, status);
        }
    }

    /// Moves both clocks forward: the model, timers, jobs of the store.
    #[inline]
    pub fn advance(&mut self, now: Now) {
        match self.lead.is_zero() {
            true => self.pass(now),
            false => self.pass_ahead(now),
        }
        self.begin_trims();
    }

    /// How far the model may run ahead of the time passed to [`Subsystem::advance`]: as long as it
    /// takes to hand a completion to the host.
    pub fn set_lead(&mut self, lead: Span) {
        self.lead = lead;
    }

    /// Has the model go ahead, event by event: where nothing happens it stays behind, so that a
    /// command can still come at any moment since.
    #[cold]
    fn pass_ahead(&mut self, now: Now) {
        if self.config.timing == Timing::Modelled {
            let ahead = now.model + self.lead;
            while let Some(at) = self.model.drive().next_at().filter(|at| *at <= ahead)
                && !self.model.is_held_up()
            {
                if self.advance_model(at) {
                    self.lose_power(at);
                }
            }
        }
        self.pass(Now { wall: now.wall, model: self.now.model });
    }

    /// Advances both clocks, without beginning a turn of deallocations.
    #[inline]
    fn pass(&mut self, now: Now) {
        self.now.wall = self.now.wall.max(now.wall);
        if self.config.timing == Timing::Modelled {
            if self.advance_model(now.model) {
                self.lose_power(now.model);
            }
        } else {
            self.now.model = self.now.model.max(now.model);
        }
        if self.commands.await_jobs() || self.media.take_call() {
            self.finish_jobs();
        }
        if self.timers.is_due(self.now.wall) {
            self.run_timers();
        }
    }

    /// When something will happen by itself. Jobs of the store are not part of it: whoever
    /// owns the store knows when to call [`Subsystem::advance`] for them.
    pub fn next_at(&self) -> Wakeup {
        let model = match self.config.timing {
            // A function has to answer first, and can at once.
            Timing::Modelled if self.model.is_held_up() => Some(self.now.model),
            Timing::Modelled => self.model.drive().next_at(),
            Timing::Immediate => None,
        };
        let wall = [self.timers.next(), self.commands.next_trims()].into_iter().flatten().min();
        Wakeup { wall, model }
    }

    /// What the subsystem wants done next.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Copies a completion's data: exactly [`CompletionData::bytes`] of them. Called once for each
    /// completion with [`CompletionData::Media`] or [`CompletionData::Value`], unless [`Subsystem::discard`] is.
    #[inline]
    pub fn fill(&mut self, completion: &mut Completion, into: &mut [u8]) {
        match &mut completion.data {
            CompletionData::None | CompletionData::Connected(_) => {}
            CompletionData::Bytes(bytes) => {
                let length = bytes.len().min(into.len());
                into[..length].copy_from_slice(&bytes[..length]);
            }
            CompletionData::Media(media) => {
                let length = (media.bytes as usize).min(into.len());
                self.media.read(media.job.take(), media.at, &mut into[..length]);
            }
            CompletionData::Value(value) => {
                let length = (value.bytes as usize).min(into.len());
                self.media.read_value(value, 0, &mut into[..length]);
                self.media.release_value(value.pinned);
                completion.data = CompletionData::None;
            }
        }
    }

    /// Where the data of a completion lie, if [`Subsystem::lent`] can show them there instead of
    /// [`Subsystem::fill`] copying them. Other commands may change them at any later time.
    #[inline]
    pub fn lend(&self, data: &CompletionData) -> Option<u64> {
        match data {
            CompletionData::Media(Media { at, bytes, job: None }) if *bytes > 0 => {
                self.media.bytes(*at, 1).map(|_| *at)
            }
            _ => None,
        }
    }

    /// Bytes from `at` on, at least one and at most `most`, of data that [`Subsystem::lend`]
    /// has named.
    #[inline]
    pub fn lent(&self, at: u64, most: u32) -> &[u8] {
        self.media.bytes(at, most).expect("a store that lends does so always")
    }

    /// Whether data that a write has completed with can be lost before the next Flush: with the
    /// power of the drive, or since its store has them in memory still.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        self.model.has_volatile_cache() || self.media.is_volatile()
    }

    /// Whether a host uses the queue: it is connected, and authenticated if it has to be.
    pub fn is_in_use(&self, queue: Queue) -> bool {
        let state = self.queues.get(queue.0).map(|slot| slot.state());
        matches!(state, Some(State::Admin | State::Io))
    }

    /// Has the store note that it is in use. To be called before anything else is done; it may
    /// block.
    ///
    /// # Errors
    /// If that cannot be noted.
    pub fn open_store(&mut self) -> Result<(), StoreError> {
        self.describe();
        self.media.begin()?;
        self.tend_store();
        Ok(())
    }

    /// Takes [`Subsystem::open_store`] back, where nothing was done since. The last call; it may
    /// block.
    ///
    /// # Errors
    /// If that cannot be noted.
    pub fn cancel_store(&mut self) -> Result<(), StoreError> {
        self.media.cancel()
    }

    /// Puts everything on stable storage that was written. No command comes after it; it may block.
    ///
    /// # Errors
    /// If something that was written may be lost.
    pub fn settle_store(&mut self) -> Result<(), StoreError> {
        self.media.settle()
    }

    /// Puts everything on stable storage, and notes that the store was closed in order, and which
    /// saved state of the drive belongs to it. The last call; it may block.
    ///
    /// # Errors
    /// If something that was written may be lost.
    pub fn close_store(&mut self, state: Option<StateId>) -> Result<(), StoreError> {
        self.media.settle_values()?;
        self.describe_end(true);
        if state.is_some()
            && let Ok(values) = self.media.values_mut()
        {
            self.namespaces.iter().filter_map(|it| it.pairs()).for_each(|it| it.name(values));
        }
        self.media.close(state)
    }

    /// Writes what is in the drive's cache to the flash and lets everything end, for as long as
    /// that takes on the model's clock, so that the drive can be saved. Commands under way are not
    /// answered any more, and no listener is told. `None` if the drive does not come to rest before
    /// its power fails, goes on collecting without end, or was not asked at all.
    pub fn bring_to_rest(&mut self) -> Option<&mut Drive> {
        if self.config.timing == Timing::Immediate {
            return None;
        }
        self.model.bring_to_rest()
    }

    /// Does some microseconds of work that will be needed later; whether it did any. To be
    /// called when there is nothing else to do.
    pub fn prepare(&mut self) -> bool {
        self.media.prepare()
    }

    /// Whether there is something for [`Subsystem::consolidate`] to do.
    pub fn is_scattered(&self) -> bool {
        self.media.is_scattered()
    }

    /// The store has made its owner wake up: it is asked on the next advance what has finished,
    /// though it may be nothing that a command waits for.
    pub fn store_calls(&mut self) {
        self.media.call();
    }

    /// Does up to some milliseconds of what makes later accesses faster. To be called while no
    /// host wants anything.
    pub fn consolidate(&mut self) {
        self.media.consolidate();
    }

    /// A completion was this late against the model, and the moment of its command's arrival
    /// this uncertain: for the log page.
    #[inline]
    pub fn record_lateness(&mut self, late: Span, uncertainty: Span) {
        self.lateness.record(late, uncertainty);
    }

    /// Puts every controller into fatal status (CSTS.CFS): commands are not answered any
    /// more until the host resets its controller.
    pub fn fail_controllers(&mut self, now: Now) {
        self.advance(now);
        for id in self.controllers.ids() {
            self.raise(id, crate::controllers::events::PERSISTENT_ERROR);
            if let Some(controller) = self.controllers.get_mut(id) {
                controller.fail();
            }
        }
    }
}

impl std::fmt::Debug for Subsystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subsystem").field("nqn", &self.config.nqn).finish_non_exhaustive()
    }
}

/// One namespace over all that a drive has for blocks, and one for each of its namespaces of pairs.
fn default_namespaces(drive: &Drive) -> Vec<NamespaceConfig> {
    let mut all = Vec::new();
    let mut has_blocks = false;
    for (_, is_for_blocks) in pools(drive) {
        let content = match is_for_blocks {
            true if std::mem::replace(&mut has_blocks, true) => continue,
            true => NamespaceContent::Blocks(512),
            false => NamespaceContent::Pairs,
        };
        all.push(NamespaceConfig { bytes: None, content, handles: vec![] });
    }
    all
}

/// Sectors of each of the model's namespaces, and whether it is for blocks; namespaces of pairs
/// count 0.
fn pools(drive: &Drive) -> impl Iterator<Item = (u64, bool)> + '_ {
    let kinds = drive.config().namespaces.iter().map(|it| it.kind == NamespaceKind::Blocks);
    let sectors = (1..).map_while(|id| drive.namespace_sectors(NamespaceId(id)));
    sectors.zip(kinds)
}

fn check(config: &SubsystemConfig) -> Result<(), SubsystemError> {
    if check_nqn(&config.nqn).is_err() || config.nqn == DISCOVERY_NQN {
        return Err(SubsystemError::Nqn(config.nqn.clone()));
    }
    for (field, text, max) in [
        ("serial number", &config.serial, 20),
        ("model number", &config.model_number, 40),
        ("firmware revision", &config.firmware, 8),
    ] {
        if text.len() > max || !text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
            return Err(SubsystemError::Text { field, text: text.clone(), max });
        }
    }
    if config.shard.index >= config.shard.of {
        return Err(SubsystemError::Shard(config.shard));
    }
    let limits = config.limits;
    for (name, value, min, max) in [
        ("controllers_max", u64::from(limits.controllers_max), u64::from(config.shard.of), 0x7fff),
        ("discovery_max", u64::from(limits.discovery_max), u64::from(config.shard.of), 0x7fff),
        ("queues_max", u64::from(limits.queues_max), 1, 0xfffe),
        ("queue_entries_max", u64::from(limits.queue_entries_max), 2, 65_536),
        ("namespaces_max", u64::from(limits.namespaces_max), 1, 1024),
    ] {
        if !(min..=max).contains(&value) {
            return Err(SubsystemError::Limit { name, value, min, max });
        }
    }
    let count = config.namespaces.len();
    if count > limits.namespaces_max as usize {
        return Err(SubsystemError::TooManyNamespaces(count, limits.namespaces_max));
    }
    Ok(())
}
