//! A namespace that somebody serves, over NVMe/TCP or vfio-user.
//!
//! It has one set of keys: one key space at a time, whose keys are those of the namespace. So what other
//! hosts have stored is in it as well, and they find what is stored here under the same keys.

use crate::code::Code;
use crate::engine::{Completion, Listing, Lost, Name, Operation, Outcome, Page, Port};
use crate::spaces::LIST_KEY;
use crate::table::StoreKind;
use mynah_runtime::host::HostError;
use mynah_runtime::host::key_value::{Client, Done, Needs, Request};
use mynah_runtime::host::load::Where;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::StoreCondition;
use mynah_wire::nvme::key::{Key, listed_keys};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Polls that find nothing before the thread sleeps, and for how long it does.
const SPINS: u32 = 200;
const NAP: Duration = Duration::from_micros(20);
/// The controller hears from its host at least this often.
const IDLE: Duration = Duration::from_millis(500);
/// Most commands in flight.
const DEPTH: u16 = 128;

/// What a namespace says of itself.
pub(crate) struct Served {
    pub(crate) capacity: u64,
    pub(crate) key_max: u32,
    pub(crate) value_max: u32,
    pub(crate) granularity: Option<u32>,
    /// Keys are listed in the order of their bytes.
    pub(crate) in_order: bool,
}

/// See the file's description.
pub(crate) struct Remote {
    client: Client,
    /// The step in flight of each key; there is one of a key at a time.
    of_keys: HashMap<Key, (u32, Operation)>,
    /// Lists, which are answered in any order: alike are alike.
    lists: VecDeque<(u32, Listing, Request)>,
    /// Steps that completed without a command.
    finished: Vec<Completion>,
    looks: u32,
}

impl Remote {
    /// Connects.
    ///
    /// # Errors
    /// If there is no such target or namespace.
    pub(crate) fn connect(
        place: &Where,
        nsid: Option<u32>,
        wait: Duration,
    ) -> Result<(Remote, Served), String> {
        let needs = Needs { requests: DEPTH, bytes: None };
        let client =
            Client::connect(place, nsid, needs, wait).map_err(|error| error.to_string())?;
        let namespace = client.namespace();
        let served = Served {
            capacity: namespace.bytes,
            key_max: namespace.key_bytes_max.into(),
            value_max: client.value_bytes_max(),
            granularity: namespace.value_granularity,
            in_order: client.model().starts_with("Mynah"),
        };
        let remote = Remote {
            client,
            of_keys: HashMap::new(),
            lists: VecDeque::new(),
            finished: Vec::new(),
            looks: 0,
        };
        Ok((remote, served))
    }

    fn under_way(&self) -> usize {
        self.of_keys.len() + self.lists.len()
    }

    fn ended(&mut self, done: Done) -> Option<Completion> {
        let status = Status::new(done.status.code_type(), done.status.code());
        if let Request::List { .. } = &done.request {
            let at = self.lists.iter().position(|(_, _, request)| *request == done.request)?;
            let (id, listing, _) = self.lists.remove(at)?;
            return Some((id, keys_of(&listing, status, &done.data)));
        }
        let (id, step) = self.of_keys.remove(&done.request.key()?)?;
        Some((id, outcome_of(&step, status, done)))
    }
}

impl Port for Remote {
    const IS_REMOTE: bool = true;

    fn value_max(&self) -> u32 {
        self.client.value_bytes_max()
    }

    fn can_submit(&self) -> bool {
        self.client.can_submit()
    }

    fn submit(&mut self, id: u32, mut step: Operation) -> Result<(), Lost> {
        self.looks = 0;
        let request = match &mut step {
            Operation::Store { name, value, kind } => {
                let condition = match kind {
                    StoreKind::UpdateOnly => StoreCondition::IfExists,
                    StoreKind::NoOverwrite => StoreCondition::IfAbsent,
                    StoreKind::Post | StoreKind::Append => StoreCondition::Always,
                };
                let value = std::mem::take(value);
                key(name).map(|key| Request::Store { key, value, condition })
            }
            Operation::Retrieve { name, offset, bytes, .. } => {
                // There is no offset on the wire.
                let bytes = offset.saturating_add(*bytes).min(self.client.value_bytes_max());
                key(name).map(|key| Request::Retrieve { key, bytes })
            }
            Operation::Delete(name) | Operation::DeleteExisting(name) => {
                key(name).map(Request::Delete)
            }
            Operation::Exist(name) => key(name).map(Request::Exist),
            Operation::List(listing) => {
                let start = listing.start.as_deref().map_or(Some(Key::EMPTY), Key::new);
                start.map(|start| Request::List { start, bytes: listing.bytes.max(1024) })
            }
            Operation::Used => {
                let used = self.client.used_bytes().map_err(lost)?;
                self.finished.push((id, Ok(Outcome::Used(used))));
                return Ok(());
            }
        };
        let Some(request) = request else {
            self.finished.push((id, Err(Code::KeyLengthInvalid)));
            return Ok(());
        };
        match (request.key(), step) {
            (Some(key), step) => drop(self.of_keys.insert(key, (id, step))),
            (None, Operation::List(listing)) => {
                self.lists.push_back((id, listing, request.clone()));
            }
            (None, _) => {}
        }
        self.client.submit(request);
        Ok(())
    }

    fn turn(&mut self, ended: &mut Vec<Completion>) -> Result<(), Lost> {
        ended.append(&mut self.finished);
        self.looks = self.looks.saturating_add(1);
        while let Some(done) = self.client.poll().map_err(lost)? {
            self.looks = 0;
            ended.extend(self.ended(done));
        }
        Ok(())
    }

    fn rest(&self) -> Option<Duration> {
        match (self.under_way(), self.looks) {
            (0, _) => Some(IDLE),
            (_, ..SPINS) => None,
            _ => Some(NAP),
        }
    }

    fn close(self) {
        self.client.close();
    }
}

fn key((_, key): &Name) -> Option<Key> {
    Key::new(key).filter(|key| !key.is_empty())
}

fn lost(error: HostError) -> Lost {
    Lost(error.to_string())
}

/// What a status means where it is no success.
fn code_of(status: Status) -> Code {
    match status {
        Status::KEY_DOES_NOT_EXIST => Code::KeyNotExist,
        Status::KEY_EXISTS => Code::ValueUpdateNotAllowed,
        Status::CAPACITY_EXCEEDED => Code::KeySpaceCapacity,
        Status::INVALID_VALUE_SIZE => Code::ValueLengthInvalid,
        Status::INVALID_KEY_SIZE => Code::KeyLengthInvalid,
        _ => Code::SysIo,
    }
}

fn outcome_of(step: &Operation, status: Status, mut done: Done) -> Result<Outcome, Code> {
    match step {
        Operation::Exist(_) | Operation::Delete(_) if status == Status::KEY_DOES_NOT_EXIST => {
            Ok(Outcome::Existed(false))
        }
        _ if !status.is_success() => Err(code_of(status)),
        Operation::Exist(_) | Operation::Delete(_) => Ok(Outcome::Existed(true)),
        Operation::Retrieve { offset, .. } => {
            if *offset > 0 && *offset >= done.size {
                return Err(Code::ValueOffsetInvalid);
            }
            done.data.drain(..(*offset as usize).min(done.data.len()));
            Ok(Outcome::Value { size: done.size, data: done.data })
        }
        _ => Ok(Outcome::Done),
    }
}

fn keys_of(listing: &Listing, status: Status, data: &[u8]) -> Result<Outcome, Code> {
    if !status.is_success() {
        return Err(code_of(status));
    }
    let listed = listed_keys(data).map_err(|_| Code::SysIo)?;
    // A page has the key at which it starts, if that is still there.
    let start = listing.start.as_deref();
    let last = listed.iter().map(Key::as_slice).rfind(|&key| Some(key) != start);
    let next = last.map(Box::from);
    let keys = listed.iter().map(Key::as_slice).filter(|&key| key != LIST_KEY);
    Ok(Outcome::Keys(Page { keys: keys.map(Box::from).collect(), next }))
}
