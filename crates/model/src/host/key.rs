//! A key-value command's way: its value and its key, a request manager, the decision, the index, and
//! what it reads, writes or removes.
//!
//! The decision is what puts commands in order: the set of pairs changes then, and nothing that
//! comes later changes what a command returns or does.

use super::managers::Managers;
use crate::config::{Config, KeyTimes};
use crate::drive::{Drive, InputError, Policies};
use crate::ftl::pairs::{Cell, Change};
use crate::host::command::Piece;
use crate::io::{Brief, Direction, Operation, PlacementId, QueueId, Request, Status, Tag};
use crate::kernel::event::Event;
use crate::kernel::pool::{Pool, Pooled};
use crate::keys::{Decision, KeyOperation, KeyRequest};
use crate::number::{CommandIndex, KeyCommandIndex};
use crate::observe::blame::{COMPACTION, HolderIndex, INDEX};
use crate::observe::stats::Resource;
use crate::pair_index::Probes;
use hashbrown::HashMap;
use mynah_stamp::{Span, Stage, Time};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

/// What a key-value command does next at the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// The command has reached the controller.
    Begin,
    /// The list of where its value is has been fetched, if it needs one: now the value.
    Value,
    /// Its value is here: now its key, if that comes by itself, and a manager.
    Handle,
    /// Its key has been asked for.
    KeyAtHost,
    /// Its key is here, with a manager that waited for it or before one is asked for.
    Key,
    /// A manager asks what it finds.
    Ask,
    /// A manager is at work on it.
    Handled,
    /// It looks at pages of the index.
    LookUp,
    /// It waits until the index has caught up.
    Stalled,
}

/// What it does once the index has been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Task {
    /// Only completes the command.
    Answer,
    Read,
    Write,
    /// Reads what was there before it writes.
    Extend,
    Remove,
}

/// What a key-value command is beside a command.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeyCommand {
    request: KeyRequest,
    step: Step,
    /// Whether a request manager works on it.
    managed: bool,
    task: Task,
    change: Change,
    /// Where the value lies that is extended.
    before: Cell,
    /// Bytes that go to the host, and how many have set out.
    bytes_out: u32,
    bytes_sent: u32,
    probes: Probes,
    /// The next of `probes`.
    at: u32,
}

impl Default for KeyCommand {
    fn default() -> KeyCommand {
        KeyCommand {
            request: KeyRequest {
                tag: Tag(0),
                operation: KeyOperation::Exist,
                namespace: crate::io::NamespaceId(0),
                token: 0,
                key_bytes: 0,
                bytes: 0,
            },
            step: Step::Begin,
            managed: false,
            task: Task::Answer,
            change: NO_CHANGE,
            before: Cell::NONE,
            bytes_out: 0,
            bytes_sent: 0,
            probes: Probes::default(),
            at: 0,
        }
    }
}

const NO_CHANGE: Change =
    Change { run: Cell::NONE, old: Cell::NONE, older: Cell::NONE, existed: false };

impl Pooled for KeyCommand {
    type Index = KeyCommandIndex;
}

impl KeyCommand {
    fn begin(&mut self, request: KeyRequest) {
        self.request = request;
        self.step = Step::Begin;
        self.managed = false;
        self.task = Task::Answer;
        self.change = NO_CHANGE;
        self.before = Cell::NONE;
        (self.bytes_out, self.bytes_sent) = (0, 0);
        self.probes.clear();
        self.at = 0;
    }

    /// From 0; identifiers count from 1.
    fn namespace(&self) -> usize {
        (self.request.namespace.0 as usize).wrapping_sub(1)
    }
}

/// Key-value commands in the controller, and who handles them.
#[derive(Serialize, Deserialize)]
pub(super) struct KeyCommands {
    commands: Pool<KeyCommand>,
    managers: Managers,
    deciding: HashMap<Tag, CommandIndex, FxBuildHasher>,
    times: KeyTimes,
    /// Longer keys come by themselves.
    inline: u32,
    /// Whether a manager is occupied while a long key is fetched.
    fetch_holds: bool,
    /// How long one is on its way.
    round_trip: Span,
}

impl KeyCommands {
    pub(super) fn new(config: &Config, random: Xoshiro256PlusPlus) -> KeyCommands {
        let key_value = config.key_value.as_ref();
        KeyCommands {
            commands: Pool::default(),
            managers: Managers::new(key_value.map_or(1, |it| it.managers), random),
            deciding: HashMap::default(),
            times: key_value.map_or_else(|| KeyTimes::all(Span::ZERO), |it| it.times.clone()),
            inline: key_value.map_or(u32::MAX, |it| it.key_inline),
            fetch_holds: key_value.is_some_and(|it| it.key_fetch_holds),
            round_trip: key_value.map_or(Span::ZERO, |it| it.key_round_trip),
        }
    }

    /// Drops what is under way.
    pub(super) fn stop(&mut self) {
        self.commands.clear();
        self.managers.stop();
        self.deciding.clear();
    }

    /// Nobody will decide about a command; whether that was still to come.
    pub(super) fn forget_decision(&mut self, tag: Tag, command: CommandIndex) -> bool {
        let found = !self.deciding.is_empty() && self.deciding.get(&tag) == Some(&command);
        if found {
            self.deciding.remove(&tag);
        }
        found
    }

    /// Whether the key of a command comes by itself.
    fn fetches_key(&self, request: &KeyRequest) -> bool {
        u32::from(request.key_bytes) > self.inline
    }
}

impl<P: Policies> Drive<P> {
    /// As [`Drive::command`], of a key-value command.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn key_command(
        &mut self,
        at: Time,
        queue: QueueId,
        request: KeyRequest,
    ) -> Result<(), InputError> {
        P::key_command(self, at, queue, request)
    }

    pub(crate) fn key_command_here(
        &mut self,
        at: Time,
        queue: QueueId,
        request: KeyRequest,
    ) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.interface.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        let (rung, fetched) =
            self.host.interface.accept(index, at).ok_or(InputError::NotFetched(queue))?;
        let command = self.new_key_command(index, queue, request, rung);
        self.host.commands[command].end_stage(Stage::SubmissionQueue, fetched);
        self.begin_command(command);
        self.settle();
        Ok(())
    }

    /// As [`Drive::submit`], of a key-value command.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn submit_key(
        &mut self,
        at: Time,
        queue: QueueId,
        request: KeyRequest,
    ) -> Result<(), InputError> {
        P::submit_key(self, at, queue, request)
    }

    pub(crate) fn submit_key_here(
        &mut self,
        at: Time,
        queue: QueueId,
        request: KeyRequest,
    ) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.interface.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        if self.host.interface.is_rung(index) {
            return Err(InputError::Mixed(queue));
        }
        let command = self.new_key_command(index, queue, request, at);
        self.host.interface.submit(index, &mut self.host.commands, command);
        self.send_doorbell(index, 1);
        Ok(())
    }

    fn new_key_command(
        &mut self,
        queue: u16,
        id: QueueId,
        request: KeyRequest,
        rung: Time,
    ) -> CommandIndex {
        let key = self.host.keys.commands.insert_any();
        self.host.keys.commands[key].begin(request);
        let sectors = match request.operation {
            KeyOperation::Store | KeyOperation::StoreIf => request.bytes.div_ceil(512),
            _ => 0,
        };
        let (tag, namespace) = (request.tag, request.namespace);
        let placement = PlacementId::default();
        let operation = Operation::Other;
        let request = Request { tag, operation, placement, namespace, sector: 0, sectors };
        let flow = self.host.interface.queues[usize::from(queue)].flow;
        let command = self.host.commands.insert_any();
        let c = &mut self.host.commands[command];
        c.begin(request, queue, id, flow, rung);
        c.key = key;
        command
    }

    fn key(&mut self, command: CommandIndex) -> &mut KeyCommand {
        let key = self.host.commands[command].key;
        &mut self.host.keys.commands[key]
    }

    /// A key-value command goes on at the front end.
    pub(super) fn key_goes_on(&mut self, command: CommandIndex) {
        self.host.commands[command].aside = true;
        let request = self.key(command).request;
        let c = &self.host.commands[command];
        let (linked, flow) = (c.linked, c.flow);
        let stores = matches!(request.operation, KeyOperation::Store | KeyOperation::StoreIf);
        let with_value = linked && stores && request.bytes > 0;
        let is_ours = |pairs: &crate::ftl::pairs::Pairs| {
            pairs.has((request.namespace.0 as usize).wrapping_sub(1))
        };
        let step = self.key(command).step;
        match step {
            Step::Begin if !self.ftl.pairs().is_some_and(is_ours) => {
                self.host.commands[command].completion.status = Status::InvalidField;
                self.finish(command);
            }
            Step::Begin => {
                self.key(command).step = Step::Value;
                match with_value && self.host.link.prp_list_bytes(request.bytes.into()) > 0 {
                    true => self.request_prp_list(command),
                    false => self.key_goes_on(command),
                }
            }
            Step::Value => {
                self.key(command).step = Step::Handle;
                if !with_value {
                    return self.key_goes_on(command);
                }
                let booking = self.book_up(self.host.link.data_request, flow);
                self.kernel.events.push(booking.end, Event::KeyStep { command });
            }
            Step::Handle if linked && self.host.keys.fetches_key(&request) => {
                match self.host.keys.fetch_holds {
                    true => self.manage(command),
                    false => self.fetch_key(command),
                }
            }
            _ => self.manage(command),
        }
    }

    /// What a key-value command waited for at the front end is there.
    #[cold]
    #[inline(never)]
    pub(crate) fn key_step(&mut self, command: CommandIndex) {
        let now = self.kernel.now;
        let flow = self.host.commands[command].flow;
        let request = self.key(command).request;
        match self.key(command).step {
            // The request for the value is at the host.
            Step::Handle => {
                let length = self.host.link.data(request.bytes.into());
                let booking = self.book_down(length, flow);
                self.kernel.events.push(booking.end, Event::DataInArrived { command });
            }
            Step::KeyAtHost => {
                self.key(command).step = Step::Key;
                let length = self.host.link.data(request.key_bytes.into());
                let booking = self.book_down(length, flow);
                self.kernel.events.push(booking.end, Event::KeyStep { command });
            }
            Step::Key => {
                self.host.commands[command].end_stage(Stage::CommandFetch, now);
                match self.key(command).managed {
                    true => self.ask(command),
                    false => self.manage(command),
                }
            }
            Step::LookUp => self.look_up(command),
            Step::Stalled => self.found(command),
            _ => self.handled(command),
        }
    }

    /// Fetches a key that did not fit into the command.
    fn fetch_key(&mut self, command: CommandIndex) {
        self.key(command).step = Step::KeyAtHost;
        let flow = self.host.commands[command].flow;
        let booking = self.book_up(self.host.link.read_request, flow);
        let there = booking.end + self.host.keys.round_trip;
        self.kernel.events.push(there, Event::KeyStep { command });
    }

    /// A command wants a manager.
    fn manage(&mut self, command: CommandIndex) {
        if self.host.keys.managers.take(command, self.kernel.now) {
            self.managed(command);
        }
    }

    /// A manager has taken a command.
    fn managed(&mut self, command: CommandIndex) {
        self.key(command).managed = true;
        let now = self.kernel.now;
        let request = self.key(command).request;
        let c = &self.host.commands[command];
        let by_itself = c.linked && self.host.keys.fetches_key(&request);
        if by_itself && self.host.keys.fetch_holds && self.key(command).step == Step::Handle {
            self.host.commands[command].end_stage(Stage::Firmware, now);
            return self.fetch_key(command);
        }
        self.ask(command);
    }

    /// A manager asks what its command finds.
    fn ask(&mut self, command: CommandIndex) {
        let c = &self.host.commands[command];
        if c.orphan {
            return self.leave_undecided(command);
        }
        let (tag, queue) = (c.request.tag, self.queue_id(c.queue));
        self.key(command).step = Step::Ask;
        self.host.keys.deciding.insert(tag, command);
        self.host.pending.push(super::front::Pending::Output(Brief::Decide { tag, queue }));
    }

    /// A command's queue went before it was decided: it ends without having done anything.
    pub(super) fn leave_undecided(&mut self, command: CommandIndex) {
        let flow = self.host.commands[command].flow;
        self.manager_ends(flow);
        self.finish(command);
    }

    /// Says which pair a command is about: the answer to
    /// [`Output::Decide`](crate::io::Output::Decide). False if a Store finds no room: then the set
    /// of pairs is as it was, and the command will fail.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn decided(&mut self, at: Time, tag: Tag, decision: Decision) -> Result<bool, InputError> {
        P::decided(self, at, tag, decision)
    }

    pub(crate) fn decided_here(
        &mut self,
        at: Time,
        tag: Tag,
        decision: Decision,
    ) -> Result<bool, InputError> {
        self.reach(at)?;
        let unexpected = InputError::NoDecisionExpected(tag);
        let command = self.host.keys.deciding.remove(&tag).ok_or(unexpected)?;
        let request = self.key(command).request;
        let outcome = self.decide(command, &request, decision).ok_or(unexpected)?;
        let mut probes = std::mem::take(&mut self.key(command).probes);
        if let Some(pairs) = self.ftl.pairs_mut() {
            pairs.swap_probes(&mut probes);
        }
        let key = self.key(command);
        key.probes = probes;
        if let Err(status) = outcome {
            key.probes.clear();
            self.host.commands[command].completion.status = status;
        }
        let existed = self.key(command).change.existed;
        let moved = match request.operation {
            KeyOperation::Store | KeyOperation::StoreIf => request.bytes,
            _ => self.key(command).bytes_out,
        };
        let times = &self.host.keys.times;
        let time = match request.operation {
            KeyOperation::Store | KeyOperation::StoreIf if existed => &times.update,
            KeyOperation::Store | KeyOperation::StoreIf => &times.store,
            KeyOperation::Retrieve => &times.retrieve,
            KeyOperation::Delete => &times.delete,
            KeyOperation::Exist => &times.exist,
            KeyOperation::List => &times.list,
        };
        let span = self.host.keys.managers.time(time, moved);
        self.key(command).step = Step::Handled;
        self.kernel.observe.count().manager_busy += span;
        let namespace = self.key(command).namespace();
        self.index_works(namespace);
        if span.is_zero() {
            self.handled(command);
        } else {
            self.kernel.events.push(at + span, Event::KeyStep { command });
        }
        self.settle();
        Ok(outcome.is_ok())
    }

    /// What a decision makes of the set of pairs, and of the command; `None` if it does not fit the
    /// command.
    fn decide(
        &mut self,
        command: CommandIndex,
        request: &KeyRequest,
        decision: Decision,
    ) -> Option<Result<(), Status>> {
        let namespace = self.key(command).namespace();
        let protected = self.ftl.is_write_protected();
        let pairs = self.ftl.pairs_mut()?;
        let mut before = Cell::NONE;
        let (change, task, bytes_out) = match (request.operation, decision) {
            (KeyOperation::Store | KeyOperation::StoreIf, Decision::Pair { .. }) if protected => {
                return Some(Err(Status::WriteProtected));
            }
            (
                KeyOperation::Store | KeyOperation::StoreIf,
                Decision::Pair { pair, bytes: retained },
            ) => {
                before = pairs.run(namespace, pair).filter(|_| retained > 0).unwrap_or(Cell::NONE);
                let bytes = request.bytes.saturating_add(retained);
                match pairs.store(namespace, pair, &KeyRequest { bytes, ..*request }) {
                    Some(change) if before.is_nowhere() => (change, Task::Write, 0),
                    Some(change) => (change, Task::Extend, 0),
                    None => return Some(Err(Status::CapacityExceeded)),
                }
            }
            (KeyOperation::Store | KeyOperation::StoreIf, Decision::Refused { pair }) => {
                let found = pairs.find(namespace, pair, false)?;
                (Change { run: Cell::NONE, ..found }, Task::Answer, 0)
            }
            (KeyOperation::Retrieve, Decision::Pair { pair, bytes }) => {
                (pairs.find(namespace, pair, true)?, Task::Read, bytes.min(request.bytes))
            }
            (KeyOperation::Exist, Decision::Pair { pair, .. }) => {
                let found = pairs.find(namespace, pair, false)?;
                (Change { run: Cell::NONE, ..found }, Task::Answer, 0)
            }
            (KeyOperation::Delete, Decision::Pair { pair, .. }) => {
                (pairs.remove(namespace, pair)?, Task::Remove, 0)
            }
            (KeyOperation::List, Decision::Keys { bytes }) => {
                (NO_CHANGE, Task::Answer, bytes.min(request.bytes))
            }
            (_, Decision::Absent) => {
                pairs.miss(namespace, request.token)?;
                (NO_CHANGE, Task::Answer, 0)
            }
            _ => return None,
        };
        if !change.run.is_nowhere() {
            pairs.hold(namespace, change.run);
        }
        if !before.is_nowhere() {
            pairs.hold(namespace, before);
        }
        let key = self.key(command);
        (key.change, key.before, key.task, key.bytes_out) = (change, before, task, bytes_out);
        Some(Ok(()))
    }

    /// A manager is done with a command.
    fn handled(&mut self, command: CommandIndex) {
        let now = self.kernel.now;
        let c = &mut self.host.commands[command];
        c.end_stage(Stage::Firmware, now);
        let flow = c.flow;
        self.manager_ends(flow);
        self.key(command).step = Step::LookUp;
        self.look_up(command);
    }

    /// A manager is free, or takes the next command, which has waited for the one of `holder`.
    fn manager_ends(&mut self, holder: HolderIndex) {
        let Some((next, waited)) = self.host.keys.managers.next(self.kernel.now) else { return };
        let flow = self.host.commands[next].flow;
        if !waited.is_zero() {
            let blame = self.kernel.observe.blame();
            blame.add(flow, Resource::Firmware, holder, waited);
        }
        self.managed(next);
    }

    /// Looks at the pages of the index that say where the key is, from the next on.
    fn look_up(&mut self, command: CommandIndex) {
        let namespace = self.key(command).namespace();
        let mut at = self.key(command).at;
        let probes = std::mem::take(&mut self.key(command).probes);
        let known = self.probe(command, namespace, &probes, &mut at);
        let key = self.key(command);
        (key.probes, key.at) = (probes, at);
        if known {
            self.found(command);
        }
    }

    /// The index has been looked at: what the command is for.
    fn found(&mut self, command: CommandIndex) {
        let writes = !matches!(self.key(command).task, Task::Answer | Task::Read);
        let namespace = self.key(command).namespace();
        // What it has waited for since the stage before.
        let holder = if self.key(command).step == Step::Stalled { COMPACTION } else { INDEX };
        let now = self.kernel.now;
        let c = &mut self.host.commands[command];
        let (flow, waited) = (c.flow, now.since(c.mark));
        if !waited.is_zero() {
            c.end_stage(Stage::Mapping, now);
            self.kernel.observe.blame().add(flow, Resource::Mapping, holder, waited);
        }
        if writes && self.waits_for_index(namespace, command) {
            self.key(command).step = Step::Stalled;
            return;
        }
        let KeyCommand { change, before, task, .. } = *self.key(command);
        match task {
            Task::Read | Task::Write => self.go_over(command, change.run),
            Task::Extend => self.go_over(command, before),
            Task::Answer | Task::Remove => {}
        }
        match task {
            Task::Answer => self.finish(command),
            Task::Read | Task::Extend => self.begin_read(command),
            Task::Write => {
                self.drop_run(namespace, change.old);
                self.begin_write(command);
            }
            Task::Remove => {
                self.drop_run(namespace, change.old);
                self.drop_run(namespace, change.older);
                self.finish(command);
            }
        }
    }

    /// What is read or written next is a run of units.
    fn go_over(&mut self, command: CommandIndex, run: Cell) {
        let c = &mut self.host.commands[command];
        c.first_unit = run.first;
        c.end_unit = run.end();
        c.cursor = c.first_unit;
        c.request.sectors = run.units * self.shape.unit_sectors;
    }

    /// A value that is extended has been read: now all of it is written.
    fn write_extended(&mut self, command: CommandIndex) {
        let (namespace, change) = (self.key(command).namespace(), self.key(command).change);
        self.host.interface.retain(self.host.commands[command].queue);
        self.key(command).task = Task::Write;
        self.go_over(command, change.run);
        self.drop_run(namespace, change.old);
        let before = std::mem::replace(&mut self.key(command).before, Cell::NONE);
        self.release_run(namespace, before);
        self.begin_write(command);
    }

    /// Data of a command that is no plain read: a part of a value that has been read, or of what
    /// nobody waits for.
    #[inline(never)]
    pub(super) fn send_otherwise(
        &mut self,
        command: CommandIndex,
        first_sector: u32,
        sectors: u32,
    ) -> Time {
        let c = &self.host.commands[command];
        if sectors == 0 || c.orphan || c.key == KeyCommandIndex::NONE || !c.linked {
            return self.kernel.now;
        }
        // The value lies behind the header and the key, and the host may want less than all of it.
        let header = self.ftl.pairs().map_or(0, |pairs| pairs.config().header_bytes);
        let key = self.key(command);
        let before = u64::from(header) + u64::from(key.request.key_bytes);
        let end = before + u64::from(key.bytes_out);
        let from = (u64::from(first_sector) * 512).clamp(before, end);
        let to = (u64::from(first_sector + sectors) * 512).clamp(before, end);
        let bytes = (to - from) as u32;
        self.send_value(command, bytes)
    }

    /// Moves bytes of a value, or of keys, to the host; returns when they are there.
    fn send_value(&mut self, command: CommandIndex, bytes: u32) -> Time {
        if bytes == 0 {
            return self.kernel.now;
        }
        let key = self.key(command);
        key.bytes_sent += bytes;
        let is_last = key.bytes_sent >= key.bytes_out;
        let sectors = key.bytes_out.div_ceil(512);
        let flow = self.host.commands[command].flow;
        let length = self.host.link.data_setup + self.host.link.data(bytes.into());
        let booking = self.book_up(length, flow);
        if self.host.report_moves && is_last {
            // All of it is said to have moved when the last of it has.
            let piece = self.host.pieces_out.insert(Piece { command, first_sector: 0, sectors });
            self.kernel.events.push(booking.end, Event::DataOutArrived { piece });
        }
        booking.end
    }

    /// A key-value command has done what it asked, or what comes before that.
    pub(super) fn finish_key(&mut self, command: CommandIndex) {
        if self.key(command).task == Task::Extend && !self.key(command).before.is_nowhere() {
            return self.write_extended(command);
        }
        let (index, namespace) = (self.host.commands[command].key, self.key(command).namespace());
        let run = std::mem::replace(&mut self.key(command).change.run, Cell::NONE);
        self.release_run(namespace, run);
        let c = &self.host.commands[command];
        let fails = c.completion.status != Status::Success;
        let left = match fails || c.orphan {
            true => 0,
            false => self.key(command).bytes_out - self.key(command).bytes_sent,
        };
        let c = &mut self.host.commands[command];
        if c.orphan || !c.linked {
            if !c.orphan && left > 0 && self.host.report_moves {
                self.report_value(command);
            }
            self.host.keys.commands.remove(index);
            return self.finish_off_the_link(command);
        }
        let has_data = !fails && self.key(command).bytes_out > 0;
        if has_data {
            let sent = self.send_value(command, left);
            let arrived = self.host.link.towards_host().free_at().max(sent);
            self.host.commands[command].end_stage(Stage::DataOut, arrived);
        }
        self.host.keys.commands.remove(index);
        self.complete(command, !has_data);
    }

    /// A value has reached a host whose queue is not on the link.
    fn report_value(&mut self, command: CommandIndex) {
        let sectors = self.key(command).bytes_out.div_ceil(512);
        let c = &self.host.commands[command];
        let (tag, queue) = (c.request.tag, self.queue_id(c.queue));
        self.host.pending.push(super::front::Pending::Output(Brief::Move {
            tag,
            queue,
            first_sector: 0,
            sectors,
            direction: Direction::ToHost,
        }));
    }
}
