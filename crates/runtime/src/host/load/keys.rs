//! The work of a job on a key-value namespace: first the keys that its mix finds there, if they are to
//! be stored; then the load; with verification, at last everything that was stored is retrieved again.

use super::blocks::{FINAL_DEPTH, noise};
use super::draw::{Draw, Ready};
use super::job::Plan;
use super::tally::Tally;
use super::values::{Findings, Versions};
use super::work::{Answer, Issued, Turn, Work};
use crate::host::transport::{self, Completed};
use crate::host::{HostError, describe};
use mynah_result::kind::Kind;
use mynah_stamp::Time;
use mynah_wire::nvme::command::{KeyValueCommand, List, Retrieve, Store, StoreCondition};
use mynah_wire::nvme::key::{KEY_BYTES_MAX, Key, listed_keys};
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use mynah_wire::tcp::host::{Movement, Payload};
use mynah_workload::key_value::write_key;
use mynah_workload::{KeyAction, KeyValueFlow, Planned};
use std::collections::VecDeque;
use std::sync::Arc;

/// Stores outstanding while keys are stored before the load.
pub(super) const FILL_DEPTH: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyOperation {
    Store,
    Retrieve,
    /// A Retrieve, and then a Store of so many bytes.
    Modify(u32),
    Delete,
    Exist,
    List,
    Flush,
}

/// A key-value command of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyCommand {
    operation: KeyOperation,
    kind: Kind,
    /// Number of the key.
    number: u64,
    /// Bytes of the value, or of the buffer.
    bytes: u32,
    /// Of what is stored or deleted, with verification.
    version: u32,
    /// The lowest version that the key may have had when it was asked for.
    low: u32,
}

impl KeyCommand {
    fn new(operation: KeyOperation, kind: Kind, number: u64, bytes: u32) -> KeyCommand {
        KeyCommand { operation, kind, number, bytes, version: 0, low: 0 }
    }

    /// What was drawn. A value that is retrieved before it is stored anew may be of any size.
    fn drawn(planned: &Planned, buffer_bytes: u32) -> KeyCommand {
        let (number, bytes) = (planned.sector, planned.sectors);
        let (operation, kind, bytes) = match planned.key {
            Some(KeyAction::Store) => (KeyOperation::Store, Kind::Store, bytes),
            Some(KeyAction::Update) => (KeyOperation::Store, Kind::Update, bytes),
            Some(KeyAction::ReadModifyWrite) => {
                (KeyOperation::Modify(bytes), Kind::Retrieve, buffer_bytes)
            }
            Some(KeyAction::Delete) => (KeyOperation::Delete, Kind::Delete, 0),
            Some(KeyAction::Exist) => (KeyOperation::Exist, Kind::Exist, 0),
            Some(KeyAction::List) => (KeyOperation::List, Kind::List, bytes),
            Some(KeyAction::Retrieve) | None => (KeyOperation::Retrieve, Kind::Retrieve, bytes),
        };
        KeyCommand::new(operation, kind, number, bytes)
    }
}

/// Data buffers of a job's commands.
pub(super) struct Data {
    /// What is stored where nobody looks at it.
    noise: Vec<u8>,
    /// With verification, a buffer for each slot.
    buffers: Option<Vec<u8>>,
    stride: usize,
    /// The slots whose commands are answered with the size of a value.
    sized: Vec<bool>,
}

impl Data {
    fn buffer(&mut self, slot: u16, bytes: usize) -> Option<&mut [u8]> {
        let at = usize::from(slot) * self.stride;
        let buffers = self.buffers.as_mut()?;
        if buffers.len() < at + bytes {
            buffers.resize(at + self.stride, 0);
        }
        Some(&mut buffers[at..at + bytes])
    }
}

impl Payload for Data {
    fn fill(&mut self, slot: u16, offset: u32, into: &mut [u8]) {
        let offset = offset as usize;
        let from = match &self.buffers {
            Some(buffers) => &buffers[usize::from(slot) * self.stride + offset..],
            None => &self.noise[offset..],
        };
        into.copy_from_slice(&from[..into.len()]);
    }

    fn place(&mut self, slot: u16, offset: u32, from: &[u8]) {
        let end = offset as usize + from.len();
        if let Some(buffer) = self.buffer(slot, end) {
            buffer[offset as usize..].copy_from_slice(from);
        }
    }
}

impl transport::Data for Data {
    fn is_particular(&self, _slot: u16) -> bool {
        self.buffers.is_some()
    }

    fn is_looked_at(&self) -> bool {
        self.buffers.is_some()
    }

    fn returned(&self, slot: u16, entry: &CompletionEntry, asked: u32) -> u32 {
        match self.sized[usize::from(slot)] {
            true => asked.min(entry.result.get() as u32),
            false => asked,
        }
    }
}

/// Where a job's next commands come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Keys that the mix finds are stored, from this number on.
    Fill(u64),
    Load,
    /// Everything that was stored is retrieved, from this number on.
    Final(u64),
    Ended,
}

/// What a job has to know to do its work.
pub(super) struct KeysPlan {
    pub(super) namespace: u32,
    pub(super) flow: KeyValueFlow,
    pub(super) draw: Draw,
    /// Which job this is, of how many.
    pub(super) job: u64,
    pub(super) jobs: u64,
    /// Whether keys are stored before the load begins.
    pub(super) fills: bool,
    /// With verification, what is known of all keys.
    pub(super) versions: Option<Arc<Versions>>,
    /// Whether stores that were not flushed may be lost with the connection.
    pub(super) only_flushed: bool,
}

/// The key-value workload of one job.
pub(super) struct Keys {
    plan: KeysPlan,
    data: Data,
    phase: Phase,
    /// Stores of keys that were retrieved to be stored anew.
    to_store: VecDeque<KeyCommand>,
    findings: Findings,
    /// Stored since the last flush began, if flushes matter; and before that, since one that has not
    /// ended.
    dirty: Vec<u64>,
    flushing: Vec<u64>,
    /// Why keys could not be stored before the load.
    not_loaded: Option<String>,
}

impl Keys {
    pub(super) fn new(plan: &Plan, keys: KeysPlan) -> Keys {
        let verifies = keys.versions.is_some();
        let noise = if verifies { Vec::new() } else { noise(plan.queue_id.into(), plan.bytes_max) };
        let data = Data {
            noise,
            buffers: verifies.then(Vec::new),
            stride: plan.bytes_max,
            sized: vec![false; usize::from(plan.queue_entries)],
        };
        Keys {
            phase: if keys.fills { Phase::Fill(keys.job) } else { Phase::Load },
            plan: keys,
            data,
            to_store: VecDeque::new(),
            findings: Findings::default(),
            dirty: Vec::new(),
            flushing: Vec::new(),
            not_loaded: None,
        }
    }

    /// The next key that the mix finds, of this job's share of them.
    fn next_fill(
        &mut self,
        number: u64,
        turn: &Turn<'_, KeyCommand>,
    ) -> Option<Issued<KeyCommand>> {
        if number >= self.plan.flow.initial_keys() || self.not_loaded.is_some() {
            self.phase = Phase::Ended;
            return None;
        }
        if turn.outstanding >= FILL_DEPTH {
            return None;
        }
        self.phase = Phase::Fill(number.saturating_add(self.plan.jobs));
        let bytes = self.plan.flow.initial_value(number);
        let store = KeyCommand::new(KeyOperation::Store, Kind::Store, number, bytes);
        Some(Issued::uncounted(store, turn.now))
    }

    /// The next command of the load, if it may be issued now.
    fn next_load(&mut self, turn: &mut Turn<'_, KeyCommand>) -> Option<Issued<KeyCommand>> {
        if let Some(store) = self.to_store.pop_front() {
            return Some(Issued::new(store, turn.now));
        }
        match self.plan.draw.ready(turn) {
            Ready::Now(planned, created) => {
                let command = KeyCommand::drawn(&planned, self.plan.flow.buffer_bytes());
                self.plan.draw.take(command.operation == KeyOperation::Store);
                Some(Issued::new(command, created))
            }
            Ready::Flush => {
                Some(Issued::new(KeyCommand::new(KeyOperation::Flush, Kind::Flush, 0, 0), turn.now))
            }
            Ready::Later => None,
            Ready::Over => {
                // What is outstanding may be followed by a Store.
                if turn.outstanding == 0 {
                    self.plan.draw.over(turn);
                    let verifies = self.plan.versions.is_some();
                    self.phase = if verifies { Phase::Final(self.plan.job) } else { Phase::Ended };
                }
                None
            }
        }
    }

    /// The next Retrieve of the final pass.
    fn next_final(&mut self, from: u64, turn: &Turn<'_, KeyCommand>) -> Option<Issued<KeyCommand>> {
        if turn.outstanding >= FINAL_DEPTH {
            return None;
        }
        let versions = self.plan.versions.as_ref()?;
        let Some(number) = versions.touched_from(from, self.plan.jobs) else {
            self.phase = Phase::Ended;
            return None;
        };
        self.phase = Phase::Final(number + self.plan.jobs);
        let bytes = self.plan.flow.buffer_bytes();
        let retrieve = KeyCommand::new(KeyOperation::Retrieve, Kind::Retrieve, number, bytes);
        Some(Issued::uncounted(retrieve, turn.now))
    }

    fn key(&self, number: u64) -> Key {
        let mut bytes = [0; KEY_BYTES_MAX];
        // Longer keys were refused before.
        let length = usize::from(self.plan.flow.key_size.of(number)).min(KEY_BYTES_MAX);
        write_key(number, &mut bytes[..length]);
        Key::new(&bytes[..length]).expect("it is short")
    }

    /// Verification: what is stored is given a version, what is asked for has the lowest there is.
    fn begins(&mut self, slot: u16, command: &mut KeyCommand, again: bool) {
        let Some(versions) = &self.plan.versions else { return };
        let number = command.number;
        if self.plan.flow.is_missing(number) {
            return;
        }
        match command.operation {
            KeyOperation::Store | KeyOperation::Delete if !again => {
                command.version =
                    versions.begins(number, command.operation == KeyOperation::Delete);
            }
            KeyOperation::Retrieve | KeyOperation::Modify(_) | KeyOperation::Exist => {
                command.low = versions.low(number)
            }
            _ => {}
        }
        if command.operation == KeyOperation::Store {
            let versions = Arc::clone(versions);
            let buffer = self.data.buffer(slot, command.bytes as usize);
            versions.fill(number, command.version, buffer.expect("there are buffers"));
        }
    }

    /// Verification: what came of a command, whose key there is or is not.
    fn verify(&mut self, command: &KeyCommand, completed: &Completed, success: bool, found: bool) {
        let Some(versions) = self.plan.versions.clone() else { return };
        let number = command.number;
        let key = self.key(number);
        let Completed { slot, entry, received } = completed;
        if self.plan.flow.is_missing(number) {
            if success {
                self.findings
                    .check_missing(key, found && command.operation != KeyOperation::Delete);
            }
            return;
        }
        match command.operation {
            KeyOperation::Store | KeyOperation::Delete => {
                versions.ended(number, command.version, success);
                if success && self.plan.only_flushed {
                    self.dirty.push(number);
                }
            }
            KeyOperation::Retrieve | KeyOperation::Modify(_) if success && found => {
                let data = self.data.buffer(*slot, *received as usize);
                let value = (&*data.expect("there are buffers"), entry.result.get() as u32);
                self.findings.check(&versions, (number, key), command.low, Some(value));
            }
            KeyOperation::Retrieve | KeyOperation::Modify(_) | KeyOperation::Exist
                if success && !found =>
            {
                self.findings.check(&versions, (number, key), command.low, None);
            }
            KeyOperation::Exist if success => {
                self.findings.check_present(&versions, (number, key), command.low);
            }
            _ => {}
        }
    }

    fn flushed(&mut self, success: bool) {
        self.plan.draw.flush_ends();
        let flushing = std::mem::take(&mut self.flushing);
        if !success {
            self.dirty.extend(flushing);
        }
    }

    /// What is wrong with the data of a List, if anything is.
    fn check_list(&mut self, slot: u16, received: u32) -> Result<(), HostError> {
        let Some(data) = self.data.buffer(slot, received as usize) else { return Ok(()) };
        match listed_keys(data) {
            Ok(_) => Ok(()),
            Err(error) => Err(HostError::Nonsense(error.to_string())),
        }
    }
}

impl Work for Keys {
    type Command = KeyCommand;
    type Data = Data;

    fn data(&mut self) -> &mut Data {
        &mut self.data
    }

    fn prepares(&self) -> bool {
        self.plan.fills
    }

    fn begin(&mut self) {
        self.phase = if self.has_failed() { Phase::Ended } else { Phase::Load };
    }

    fn has_failed(&self) -> bool {
        self.not_loaded.is_some()
    }

    fn next(&mut self, turn: &mut Turn<'_, KeyCommand>) -> Option<Issued<KeyCommand>> {
        match self.phase {
            Phase::Fill(number) => self.next_fill(number, turn),
            Phase::Load => self.next_load(turn),
            Phase::Final(from) => self.next_final(from, turn),
            Phase::Ended => None,
        }
    }

    fn next_arrival(&self) -> Option<Time> {
        self.plan.draw.next_arrival()
    }

    fn is_loading(&self) -> bool {
        self.phase == Phase::Load
    }

    fn is_over(&self) -> bool {
        self.phase == Phase::Ended && self.to_store.is_empty()
    }

    fn end(&mut self) {
        self.phase = Phase::Ended;
        self.to_store.clear();
    }

    fn write(
        &mut self,
        slot: u16,
        command: &mut KeyCommand,
        again: bool,
    ) -> (SubmissionEntry, Movement) {
        self.begins(slot, command, again);
        let KeyCommand { operation, number, bytes, .. } = *command;
        let key = self.key(number);
        let to_host = |bytes: u32| match bytes {
            0 => Movement::None,
            bytes => Movement::ToHost(bytes),
        };
        use KeyValueCommand as C;
        let (built, movement) = match operation {
            KeyOperation::Store => {
                let condition = StoreCondition::Always;
                let movement = if bytes > 0 { Movement::FromHost(bytes) } else { Movement::None };
                (C::Store(Store { key, bytes, condition, uncompressed: false }), movement)
            }
            KeyOperation::Retrieve | KeyOperation::Modify(_) => {
                (C::Retrieve(Retrieve { key, bytes, raw: false }), to_host(bytes))
            }
            KeyOperation::List => (C::List(List { start: key, bytes }), to_host(bytes)),
            KeyOperation::Delete => (C::Delete(key), Movement::None),
            KeyOperation::Exist => (C::Exist(key), Movement::None),
            KeyOperation::Flush => {
                self.plan.draw.flush_begins();
                self.flushing.append(&mut self.dirty);
                (C::Flush, Movement::None)
            }
        };
        self.data.sized[usize::from(slot)] =
            matches!(operation, KeyOperation::Retrieve | KeyOperation::Modify(_));
        let mut entry = SubmissionEntry::default();
        entry.namespace_id.set(self.plan.namespace);
        built.put(&mut entry);
        (entry, movement)
    }

    fn kind(command: &KeyCommand) -> Kind {
        command.kind
    }

    fn refused(&mut self, command: &KeyCommand) {
        if command.operation == KeyOperation::Flush {
            self.flushed(false);
        }
    }

    fn answered(
        &mut self,
        command: &KeyCommand,
        completed: &Completed,
    ) -> Result<Answer, HostError> {
        let command = *command;
        let status = completed.entry.status();
        let asks = !matches!(
            command.operation,
            KeyOperation::Store | KeyOperation::List | KeyOperation::Flush
        );
        let missed = asks && crate::host::without_hints(status) == Status::KEY_DOES_NOT_EXIST;
        let success = status.is_success() || missed;
        let bytes = match command.operation {
            _ if !success || missed => 0,
            KeyOperation::Store => command.bytes,
            KeyOperation::Retrieve | KeyOperation::Modify(_) => {
                let size = completed.entry.result.get() as u32;
                if completed.received != size.min(command.bytes) {
                    return Err(HostError::Nonsense(format!(
                        "of a value of {size} bytes, {} were asked for and {} came",
                        command.bytes, completed.received
                    )));
                }
                completed.received
            }
            KeyOperation::List => {
                self.check_list(completed.slot, completed.received)?;
                completed.received
            }
            KeyOperation::Delete | KeyOperation::Exist | KeyOperation::Flush => 0,
        };
        if command.operation == KeyOperation::Flush {
            self.flushed(success);
        }
        self.verify(&command, completed, success, !missed);
        if let KeyOperation::Modify(bytes) = command.operation
            && success
            && self.phase == Phase::Load
        {
            let store = KeyCommand::new(KeyOperation::Store, Kind::Update, command.number, bytes);
            self.to_store.push_back(store);
        }
        if !success && matches!(self.phase, Phase::Fill(_)) {
            let key = self.key(command.number);
            self.not_loaded.get_or_insert(format!("key {key}: {}", describe(status)));
        }
        Ok(Answer { success, bytes: bytes.into(), missed })
    }

    fn lost(&mut self) {
        self.flushed(false);
        if !self.plan.only_flushed {
            return;
        }
        if let Some(versions) = &self.plan.versions {
            self.dirty.iter().for_each(|&number| versions.lost(number));
        }
    }

    fn finish(&mut self, tally: &mut Tally) {
        let Findings { checked, mismatched, mismatches } = std::mem::take(&mut self.findings);
        (tally.checked, tally.mismatched) = (checked, mismatched);
        tally.mismatches = mismatches;
        tally.not_loaded = self.not_loaded.take();
    }
}
