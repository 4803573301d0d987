//! The commands of the Key Value command set and of Samsung's: what is checked when one comes, how it is
//! decided, and how it ends.
//!
//! A command takes effect at one moment, when it is decided: at once where nothing is modelled, else
//! when the model says that a request manager has taken it. Commands are in the order of these
//! moments, and a Retrieve returns the one whole value of its moment, whatever becomes of the key
//! while the value is on its way.

pub(crate) mod identify;

use crate::any_pairs::{AnyCommand, bytes_of, key_of};
use crate::config::Timing;
use crate::key_value::{Answer, Choice, NO_ROOM, TOGETHER, is_answer};
use crate::media::of_values;
use crate::output::{CommandKind, CompletionData, Value};
use crate::samsung::SpaceCommand;
use crate::slots::NONE;
use crate::store::{Place, Ready};
use crate::subsystem::Subsystem;
use crate::subsystem::access::Access;
use crate::subsystem::commands::Work;
use crate::subsystem::io_command::IoCommand;
use crate::subsystem::nvm::NAMESPACE_ALL;
use crate::transfer::check_room;
use mynah_model::io::{QueueId, Tag};
use mynah_model::keys::{Decision, KeyRequest};
use mynah_wire::nvme::command::{KeyValueCommand, List, SamsungCommand, SamsungKey, Store};
use mynah_wire::nvme::key::Key;
use mynah_wire::nvme::samsung::{KEY_BYTES_MAX as SAMSUNG_KEY_BYTES_MAX, status as samsung};
use mynah_wire::nvme::{Status, SubmissionEntry};

/// Memory that values of a queue may hold that are on their way: enough for a deep queue of large
/// ones. All queues of a host together have their own bound.
const HELD_BYTES_MAX: u64 = 256 << 20;

/// What a command has for its host counts as held memory from so many bytes on: less than that is
/// bounded by how many commands a queue can have under way.
const LARGE_BYTES: u32 = 4096;

/// What a command under way has to do, and what has come of it.
#[derive(Debug)]
pub(crate) struct KeyWork {
    command: AnyCommand,
    is_decided: bool,
    /// The value of a Store, until it is decided.
    staged: Option<Place>,
    answer: Answer,
    result: u32,
}

/// What comes of a command of which nothing is modelled.
struct ImmediateOutcome {
    status: Status,
    answer: Answer,
    result: u32,
    /// Whether the store keeps what it has changed, or has to be waited for.
    ready: Ready,
}

/// A command that may change pairs has yet to be decided.
pub(crate) fn has_yet_to_change(work: &KeyWork) -> bool {
    work.command.changes() && !work.is_decided
}

/// A command of a guest that can be carried out.
#[derive(Debug)]
pub(crate) struct GuestKey {
    /// Index of its namespace: the identifier less one.
    at: usize,
    command: AnyCommand,
    /// Bytes of data between host and controller.
    pub(crate) bytes: u32,
}

impl GuestKey {
    /// What its completion is counted as.
    pub(crate) fn kind(&self) -> CommandKind {
        self.command.kind()
    }

    /// Whether these go to the host.
    pub(crate) fn is_to_host(&self) -> bool {
        !self.command.stores()
    }
}

impl Subsystem {
    /// Carries a command out.
    ///
    /// # Errors
    /// What it ends with, if it ends at once with an error.
    pub(crate) fn key_value(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        command: KeyValueCommand,
        data: &[u8],
    ) -> Result<(), Status> {
        if command == KeyValueCommand::Flush {
            return self.flush(queue, entry);
        }
        let at = self.admit_key(queue, entry, &command)?;
        check_room(entry, room_of(&command))?;
        let staged = match command {
            KeyValueCommand::Store(Store { bytes, .. }) => {
                let short = Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
                let value = data.get(..bytes as usize).ok_or(short)?;
                let place = self.stage(bytes)?;
                if let Some(into) = self.media.values_mut()?.bytes_mut(place, bytes) {
                    into.copy_from_slice(value);
                }
                Some(place)
            }
            _ => None,
        };
        let command = AnyCommand::KeyValue(command);
        if self.config.timing == Timing::Immediate {
            self.decide_at_once(queue, entry, at, &command, staged)
        } else {
            self.start_key(queue, entry, at, command, staged, NONE);
            Ok(())
        }
    }

    /// Whether a queue may give this command, and the command can be carried out as it says: the
    /// index of its namespace.
    fn admit_key(
        &self,
        queue: u32,
        entry: &SubmissionEntry,
        command: &KeyValueCommand,
    ) -> Result<usize, Status> {
        let access = match command {
            KeyValueCommand::Store(_) | KeyValueCommand::Delete(_) => Access::ChangePairs,
            _ => Access::ReadPairs,
        };
        let at = self.admit(queue, entry, access)?;
        // One of key spaces has commands of its own.
        let other = Status::INVALID_OPCODE.do_not_retry();
        let pairs = self.namespaces.need(at)?.pairs().ok_or(other)?;
        let slot = self.queues.get(queue).ok_or(Status::INTERNAL_ERROR)?;
        slot.account().check(HELD_BYTES_MAX)?;
        if access == Access::ChangePairs {
            self.media.check_values(matches!(command, KeyValueCommand::Delete(_)))?;
        }
        let most = slot.transport().max_transfer_bytes;
        if key_of(command).len() > pairs.layout().key_max as usize {
            return Err(Status::INVALID_KEY_SIZE.do_not_retry());
        }
        match *command {
            KeyValueCommand::Store(Store { bytes, .. }) if bytes > pairs.value_max(most) => {
                Err(Status::INVALID_VALUE_SIZE.do_not_retry())
            }
            KeyValueCommand::List(List { bytes, .. }) if bytes < 4 => {
                Err(Status::INVALID_FIELD.do_not_retry())
            }
            _ if bytes_of(*command) > most => Err(Status::INVALID_FIELD.do_not_retry()),
            _ => Ok(at),
        }
    }

    /// Checks a command of Samsung's set; returns the index of the namespace.
    fn admit_samsung(
        &self,
        queue: u32,
        entry: &SubmissionEntry,
        command: &SamsungCommand,
    ) -> Result<usize, Status> {
        let access = match command {
            SamsungCommand::Store { .. }
            | SamsungCommand::Append { .. }
            | SamsungCommand::Delete { .. } => Access::ChangePairs,
            _ => Access::ReadPairs,
        };
        let namespace = self.namespaces.key_spaces().ok_or(Status::INVALID_NAMESPACE)?;
        let at = self.admit_to(queue, namespace.id(), access)?;
        let spaces = namespace.key_spaces().ok_or(Status::INTERNAL_ERROR)?;
        let slot = self.queues.get(queue).ok_or(Status::INTERNAL_ERROR)?;
        slot.account().check(HELD_BYTES_MAX)?;
        if entry.namespace_id.get() == NAMESPACE_ALL {
            return Err(samsung::INVALID_KEY_SPACE);
        }
        let layout = spaces.pairs().layout();
        if command.key().is_some_and(|key| key.len() > layout.long_key_max as usize) {
            return Err(samsung::INVALID_KEY_SIZE);
        }
        let most = slot.transport().max_transfer_bytes;
        let most = if access == Access::ChangePairs { layout.value_max(most) } else { most };
        match command.bytes() > most {
            true => Err(samsung::INVALID_VALUE_SIZE),
            false => Ok(at),
        }
    }

    /// Room for the value of a Store until it is decided.
    fn stage(&mut self, bytes: u32) -> Result<Place, Status> {
        self.media.values_mut()?.reserve(bytes).ok_or(NO_ROOM)
    }

    /// Carries a command out of which nothing is modelled.
    fn decide_at_once(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        at: usize,
        command: &AnyCommand,
        staged: Option<Place>,
    ) -> Result<(), Status> {
        let ImmediateOutcome { status, answer, result, ready } =
            self.decide_now(at, command, staged)?;
        let kind = command.kind();
        if ready != Ready::Now && status.is_success() {
            // The store has too much under way.
            let bytes = command.bytes();
            let index = self.begin_whole(queue, entry, kind, at);
            if let Some(command) = self.commands.get_mut(index) {
                command.set_bytes(bytes);
            }
            self.wait_for(index, ready);
            self.start(index);
            return Ok(());
        }
        let (mut moved, mut data) = (0, CompletionData::None);
        match answer {
            Answer::Nothing if status.is_success() => moved = command.bytes(),
            Answer::Nothing => {}
            Answer::Value { pinned, skip, bytes, size } => {
                moved = bytes;
                data = self.data_of_value(Value { pinned, skip, bytes, size });
            }
            Answer::Keys(listed) => {
                moved = listed.len() as u32;
                data = CompletionData::Bytes(listed);
            }
        }
        if status.is_success() {
            self.health.count(kind, entry.opcode, moved);
        } else if !is_answer(status) {
            return Err(status);
        }
        let done = self.completion_of(queue, entry, kind, status, result.into(), data);
        if let Some(mut completion) = done {
            completion.bytes = moved;
            if let (CompletionData::Value(value), Some(slot)) =
                (&completion.data, self.queues.get(queue))
                && value.size > LARGE_BYTES
            {
                // It stays where it is until it has gone out, whatever becomes of its key.
                let held = slot.account().hold(value.size as usize);
                completion._held = Some(Box::new(held));
            }
            self.post(completion);
        }
        Ok(())
    }

    /// Lets a command take effect of which nothing is modelled.
    fn decide_now(
        &mut self,
        at: usize,
        command: &AnyCommand,
        staged: Option<Place>,
    ) -> Result<ImmediateOutcome, Status> {
        let values = self.media.values_mut()?;
        let pairs = self.namespaces.need_mut(at)?.any_pairs_mut();
        let mut pairs = pairs.ok_or(Status::INTERNAL_ERROR)?;
        let mut choice = pairs.choose(command, staged, values);
        let (_, key_bytes) = command.key();
        let mut ready = Ready::Now;
        if pairs.has_room(&choice, key_bytes.into()) {
            ready = of_values(pairs.make_so(&choice, values));
        } else {
            pairs.take_back(&choice, values);
            choice.status = NO_ROOM;
        }
        let Choice { status, answer, result, .. } = choice;
        Ok(ImmediateOutcome { status: command.own(status), answer, result, ready })
    }

    /// Data of a completion that are bytes of a value.
    fn data_of_value(&mut self, value: Value) -> CompletionData {
        if value.bytes > 0 {
            return CompletionData::Value(value);
        }
        // Nobody would take them.
        self.media.release_value(value.pinned);
        CompletionData::None
    }

    /// Gives a command to the model. A guest's data lie where `transfer` says.
    fn start_key(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        at: usize,
        command: AnyCommand,
        staged: Option<Place>,
        transfer: u32,
    ) {
        let Some(operation) = command.operation() else { return };
        let pairs = self.namespaces.get_mut(at).and_then(|it| it.any_pairs_mut());
        let Some(pool) = pairs.map(|mut pairs| pairs.pool()) else { return };
        let id = entry.command_id.get();
        let is_guests = self.queues.get(queue).is_some_and(|queue| queue.is_guests());
        let (bytes, (token, key_bytes)) = (command.bytes(), command.key());
        let mut new = self.new_command(queue, command.kind()).of(entry, at as u32, 0);
        if is_guests {
            let is_fetched = self.take_fetched(queue, id);
            debug_assert!(is_fetched || transfer != NONE, "the model waits for it");
            new.go_direct();
            new.set_transfer(transfer);
        }
        new.wait();
        let (is_decided, answer, result) = (false, Answer::Nothing, 0);
        new.set_work(Work::Key(Box::new(KeyWork { command, is_decided, staged, answer, result })));
        let index = self.insert(new);
        if staged.is_some() {
            self.hold(index, bytes as usize);
        }
        let request =
            KeyRequest { tag: Tag(index), operation, namespace: pool, token, key_bytes, bytes };
        if !self.model.key_command(self.now.model, QueueId(queue as u16), request) {
            // The queue went with the power.
            if let Some(command) = self.commands.get_mut(index) {
                command.set_status(Status::INTERNAL_ERROR);
            }
            self.part_done(index);
        }
    }

    /// The model has taken a command, and it takes effect now.
    pub(crate) fn decide_key(&mut self, index: u32) {
        let now = self.now.model;
        let nothing = Decision::Absent;
        let Some(command) = self.commands.get_mut(index) else {
            self.model.decided(now, index, nothing);
            return;
        };
        let (at, has_host) = (command.namespace(), command.queue() != NONE);
        let may = has_host && !command.is_overtaken() && command.status().is_success();
        let Work::Key(mut work) = command.take_work() else {
            debug_assert!(false, "the model decides commands of keys alone");
            self.model.decided(now, index, nothing);
            return;
        };
        work.is_decided = true;
        let staged = work.staged.take();
        let namespace = self.namespaces.get_mut(at).filter(|_| may);
        let pairs = namespace.and_then(|it| it.any_pairs_mut());
        let (Some(mut pairs), Ok(values)) = (pairs, self.media.values_mut()) else {
            if let Some(place) = staged {
                self.media.release_value(place);
            }
            self.model.decided(now, index, nothing);
            return self.put_key(index, work, Status::SUCCESS);
        };
        let choice = pairs.choose(&work.command, staged, values);
        let mut ready = Ready::Now;
        if self.model.decided(now, index, choice.decision) {
            ready = of_values(pairs.make_so(&choice, values));
        } else {
            // The model says why when it completes the command.
            pairs.take_back(&choice, values);
        }
        let Choice { status, answer, result, .. } = choice;
        let bytes = match &answer {
            Answer::Nothing => 0,
            Answer::Value { size, .. } => *size,
            Answer::Keys(listed) => listed.len() as u32,
        };
        (work.answer, work.result) = (answer, result);
        self.put_key(index, work, status);
        self.wait_for(index, ready);
        if bytes > LARGE_BYTES {
            // It stays where it is until it has gone out, whatever becomes of its key.
            self.hold(index, bytes as usize);
        }
    }

    /// Puts a command's work back, with the status that was decided.
    fn put_key(&mut self, index: u32, work: Box<KeyWork>, status: Status) {
        let Some(command) = self.commands.get_mut(index) else { return };
        if let Answer::Value { bytes, .. } = work.answer {
            command.set_bytes(bytes);
        }
        command.set_work(Work::Key(work));
        if !status.is_success() {
            command.fail(status);
        }
    }

    /// Ends a command that waits for nothing any more: its data are ready, or it has failed.
    pub(crate) fn finish_key(&mut self, index: u32) {
        let Some(command) = self.commands.get_mut(index) else { return };
        let Work::Key(work) = command.take_work() else { return };
        let KeyWork { command: key_command, staged, answer, result, .. } = *work;
        let is_good = command.status().is_success();
        // A guest's data have been moved.
        let goes_along = is_good && command.queue() != NONE && command.transfer() == NONE;
        if key_command.stores() && is_good {
            command.set_bytes(key_command.bytes());
        }
        if command.status() == Status::UNRECOVERED_READ_ERROR
            && key_command.kind() == CommandKind::Retrieve
        {
            command.set_status(Status::UNRECOVERED_VALUE_ERROR);
            self.health.media_error();
        }
        command.set_status(key_command.own(command.status()));
        let result = if is_good || is_answer(command.status()) { result } else { 0 };
        if let Some(place) = staged {
            self.media.release_value(place);
        }
        let mut data = CompletionData::None;
        match answer {
            Answer::Nothing => {}
            Answer::Value { pinned, .. } if !goes_along => self.media.release_value(pinned),
            Answer::Value { pinned, skip, bytes, size } => {
                data = self.data_of_value(Value { pinned, skip, bytes, size });
            }
            Answer::Keys(listed) if goes_along => data = CompletionData::Bytes(listed),
            Answer::Keys(_) => {}
        }
        self.finish_with(index, data, result.into());
    }
}

/// The guest's side: a command that the model has fetched from a queue in guest memory. Its data move
/// when the model says so.
impl Subsystem {
    /// The command about pairs that an entry is; `None`: it is another one. A key that the entry does
    /// not have is read by `fetch`.
    ///
    /// # Errors
    /// What it ends with if it cannot be carried out.
    pub(crate) fn guest_key(
        &self,
        slot: u32,
        entry: &SubmissionEntry,
        fetch: impl FnOnce(&SamsungKey, &mut [u8]) -> Result<(), Status>,
    ) -> Result<Option<GuestKey>, Status> {
        // Halves of fused operations, and what follows a first half.
        if entry.flags & 3 != 0 || self.queues.get(slot).is_none_or(|queue| queue.has_first_half())
        {
            return Ok(None);
        }
        match self.io_command(slot, entry)? {
            IoCommand::KeyValue(command) if command != KeyValueCommand::Flush => {
                let at = self.admit_key(slot, entry, &command)?;
                let bytes = bytes_of(command);
                Ok(Some(GuestKey { at, command: AnyCommand::KeyValue(command), bytes }))
            }
            IoCommand::Samsung(command) => {
                let at = self.admit_samsung(slot, entry, &command)?;
                let mut bytes = [0; SAMSUNG_KEY_BYTES_MAX];
                let into = &mut bytes[..command.key().map_or(0, |key| key.len())];
                match command.key() {
                    None => {}
                    Some(key) => match key.bytes() {
                        Some(inline) => into.copy_from_slice(inline),
                        None => fetch(&key, into)?,
                    },
                }
                let command = SpaceCommand::new(command, entry.namespace_id.get(), into);
                let bytes = command.bytes();
                let command = AnyCommand::Samsung(Box::new(command));
                Ok(Some(GuestKey { at, command, bytes }))
            }
            _ => Ok(None),
        }
    }

    /// Begins a command that [`Subsystem::guest_key`] has accepted. Its data move from or to where
    /// `transfer` says.
    ///
    /// # Errors
    /// If there is no memory for its value.
    pub(crate) fn begin_guest_key(
        &mut self,
        slot: u32,
        entry: &SubmissionEntry,
        request: GuestKey,
        transfer: u32,
    ) -> Result<(), Status> {
        let GuestKey { at, command, bytes } = request;
        let staged = match command.stores() {
            true => Some(self.stage(bytes).map_err(|status| command.own(status))?),
            false => None,
        };
        if let Some(queue) = self.queues.get_mut(slot) {
            queue.begin_command();
        }
        self.start_key(slot, entry, at, command, staged, transfer);
        Ok(())
    }

    /// Brings near what entries of a queue will need, as far as they are commands about pairs of one
    /// namespace.
    pub(crate) fn bring_keys_near(&self, slot: u32, entries: &[SubmissionEntry]) {
        let Some(first) = entries.first() else { return };
        let controller = self.queues.get(slot).map_or(0, |queue| queue.controller());
        let id = first.namespace_id;
        let Ok(namespace) = self.namespaces.active(controller, id.get()) else { return };
        let (Some(pairs), Some(values)) = (namespace.pairs(), self.media.values()) else { return };
        let (mut keys, mut count) = ([Key::EMPTY; TOGETHER], 0);
        for entry in entries.iter().take(TOGETHER).filter(|entry| entry.namespace_id == id) {
            if let Ok(command) = KeyValueCommand::parse(entry) {
                keys[count] = key_of(&command);
                count += 1;
            }
        }
        pairs.bring_near(&keys[..count], values);
    }

    /// Carries out a command of which nothing is modelled: its data come by `read`, and go by
    /// `write`. Its status, its result, and bytes moved.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn guest_key_at_once(
        &mut self,
        request: &GuestKey,
        read: impl FnOnce(&mut [u8]) -> Result<(), Status>,
        write: impl FnOnce(&[u8]) -> Result<(), Status>,
    ) -> Result<(Status, u32, u32), Status> {
        let mut staged = None;
        if request.command.stores() {
            let bytes = request.bytes;
            let place = self.stage(bytes).map_err(|status| request.command.own(status))?;
            if let Some(into) = self.media.values_mut()?.bytes_mut(place, bytes)
                && let Err(status) = read(into)
            {
                self.media.release_value(place);
                return Err(status);
            }
            staged = Some(place);
        }
        let ImmediateOutcome { status, answer, result, .. } =
            self.decide_now(request.at, &request.command, staged)?;
        match answer {
            Answer::Nothing if status.is_success() => Ok((status, result, request.bytes)),
            Answer::Nothing if is_answer(status) => Ok((status, 0, 0)),
            Answer::Nothing => Err(status),
            Answer::Keys(listed) => write(&listed).map(|()| (status, result, listed.len() as u32)),
            Answer::Value { pinned, skip, bytes, size } => {
                let mut scratch = Vec::new();
                let value = Value { pinned, skip, bytes, size };
                let written = write(self.media.value_bytes(&value, &mut scratch));
                self.media.release_value(pinned);
                written.map(|()| (status, result, bytes))
            }
        }
    }

    /// Where the data of a command lie, if it is one about pairs.
    pub(crate) fn key_transfer(&self, index: u32) -> Option<u32> {
        let command = self.commands.get(index)?;
        matches!(command.work(), Work::Key(_)).then(|| command.transfer())
    }

    /// Room for the value of a Store that comes now; `None`: nobody keeps it.
    pub(crate) fn staged_mut(&mut self, index: u32) -> Option<&mut [u8]> {
        let Work::Key(work) = self.commands.get(index)?.work() else { return None };
        let (place, bytes) = (work.staged?, work.command.bytes());
        self.media.values_mut().ok()?.bytes_mut(place, bytes)
    }

    /// What a command has for its host, or a copy in `scratch`.
    pub(crate) fn answer_bytes<'a>(&'a self, index: u32, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let work = self.commands.get(index).map(|command| command.work());
        let Some(Work::Key(work)) = work else { return &[] };
        match &work.answer {
            Answer::Nothing => &[],
            Answer::Keys(listed) => listed,
            &Answer::Value { pinned, skip, bytes, size } => {
                self.media.value_bytes(&Value { pinned, skip, bytes, size }, scratch)
            }
        }
    }
}

/// Bytes that the host has to have room for, or to send.
fn room_of(command: &KeyValueCommand) -> u64 {
    bytes_of(*command).into()
}
