//! A host of key spaces, in Samsung's key-value command set over vfio-user: one command at a time.

use super::transport::{Data, IoQueue, Remote, Source};
use super::vfio_user::{Controller, Queue};
use super::{HostError, VfioUserOptions, persist};
use crate::clock::{Clock, Rate};
use mynah_wire::nvme::command::{SamsungCommand as C, SamsungKey, StoreCondition};
use mynah_wire::nvme::samsung::{BATCH_BYTES_MAX, batched_keys, status as codes};
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use mynah_wire::tcp::host::{Movement, Payload};
use std::time::Duration;

/// Waits in the system end after this, to look whether the controller is still there.
const NAP: Duration = Duration::from_millis(50);
/// Looks without result before that.
const SPINS: u32 = 20;
/// A key that does not go within its command lies in a page of its own, behind the data.
const KEY_BYTES: usize = 4096;
/// Most bytes of keys that are asked for at a time.
const LIST_BYTES: u32 = 32 << 10;

/// What the command under way moves.
#[derive(Default)]
struct Moved {
    out: Vec<u8>,
    back: Vec<u8>,
}

impl Payload for Moved {
    fn fill(&mut self, _slot: u16, offset: u32, into: &mut [u8]) {
        let offset = offset as usize;
        into.copy_from_slice(&self.out[offset..offset + into.len()]);
    }

    fn place(&mut self, _slot: u16, offset: u32, from: &[u8]) {
        self.back.truncate(offset as usize);
        self.back.extend_from_slice(from);
    }
}

impl Data for Moved {
    fn is_particular(&self, _slot: u16) -> bool {
        true
    }

    fn is_looked_at(&self) -> bool {
        true
    }

    fn comes_along(&self, entry: &CompletionEntry) -> bool {
        entry.status().is_success() || plain(entry.status()) == codes::END_OF_ITERATION
    }

    fn returned(&self, _slot: u16, entry: &CompletionEntry, asked: u32) -> u32 {
        asked.min(entry.result.get() as u32)
    }
}

fn plain(status: Status) -> Status {
    Status::new(status.code_type(), status.code())
}

/// What a status of the set means, where another has its code.
fn meaning(status: Status) -> Option<&'static str> {
    Some(match plain(status) {
        codes::INVALID_VALUE_SIZE => "the value is too long",
        codes::INVALID_KEY_SIZE => "a key cannot have this length here",
        codes::INVALID_OPTION => "it does not know the option",
        codes::INVALID_KEY_SPACE => "there can be no such key space",
        codes::KEY_DOES_NOT_EXIST => "there is no such key",
        codes::KEY_EXISTS => "there is such a key",
        codes::UNRECOVERED => "the value could not be read",
        codes::CAPACITY_EXCEEDED => "there is no room",
        codes::NO_ITERATOR_LEFT => "all of its iterators are open",
        codes::ITERATOR_IS_OPEN => "an iterator over these keys is open already",
        _ => return None,
    })
}

struct Completion {
    status: Status,
    result: u32,
    data: Vec<u8>,
}

impl Completion {
    /// Whether it succeeded.
    ///
    /// # Errors
    /// If it ended in another way than these two.
    fn unless(&self, what: &'static str, other: Status) -> Result<bool, HostError> {
        match plain(self.status) {
            Status::SUCCESS => Ok(true),
            status if status == other => Ok(false),
            status => Err(match meaning(status) {
                Some(text) => HostError::Unusable(format!("{what} failed: {text}")),
                None => HostError::Refused { what, status },
            }),
        }
    }
}

/// A host that uses one key space of a Samsung key-value SSD.
pub struct Client {
    controller: Controller,
    queue: Queue,
    moved: Moved,
    space: u32,
    bytes_max: u32,
    timeout: Duration,
}

impl Client {
    /// Connects to a function, which is tried for so long, and uses a key space of it.
    ///
    /// # Errors
    /// If there is no such function, or it does not speak the set.
    pub fn connect(
        options: &VfioUserOptions,
        space: u32,
        wait: Duration,
    ) -> Result<Client, HostError> {
        let mut client = persist(wait, || {
            let mut controller = Controller::connect(options)?;
            controller.request_queues(1)?;
            let source = controller.source();
            let bytes_max = source.facts().transfer_bytes_max.min(u32::MAX.into()) as u32;
            // Bytes of a buffer are whole dwords.
            let bytes_max = bytes_max & !3;
            let queue = source.open_queue(1, 2, bytes_max as usize + KEY_BYTES)?;
            let (moved, timeout) = (Moved::default(), options.timeout);
            Ok(Client { controller, queue, moved, space, bytes_max, timeout })
        })?;
        // No iterator has this handle: whoever knows the set says so.
        let asked = client.issue(&C::CloseIterator { handle: 0 }, Movement::None)?;
        match plain(asked.status) {
            codes::NO_SUCH_ITERATOR => Ok(client),
            _ => Err(HostError::NoSamsung),
        }
    }

    /// Most bytes of a value that can be moved here.
    pub fn value_bytes_max(&self) -> u32 {
        self.bytes_max
    }

    /// Stores a value; whether the key was as the condition wants it.
    ///
    /// # Errors
    /// If it is not stored for another reason.
    ///
    /// # Panics
    /// If the value has more bytes than can be moved.
    pub fn store(
        &mut self,
        key: &[u8],
        value: Vec<u8>,
        condition: StoreCondition,
    ) -> Result<bool, HostError> {
        let what = "storing a value";
        assert!(value.len() <= self.bytes_max as usize, "{} bytes", value.len());
        let bytes = value.len() as u32;
        let key = self.key(key)?;
        self.moved.out = value;
        let movement = if bytes > 0 { Movement::FromHost(bytes) } else { Movement::None };
        let ended = self.issue(&C::Store { key, bytes, condition }, movement)?;
        ended.unless(
            what,
            match condition {
                StoreCondition::IfExists => codes::KEY_DOES_NOT_EXIST,
                _ => codes::KEY_EXISTS,
            },
        )
    }

    /// A value; `None`: there is no such key.
    ///
    /// # Errors
    /// If it cannot be retrieved.
    pub fn retrieve(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, HostError> {
        let what = "retrieving a value";
        let place = self.key(key)?;
        let size = C::Retrieve { key: place, bytes: 0, offset: 0, only_size: true };
        let asked = self.issue(&size, Movement::None)?;
        if !asked.unless(what, codes::KEY_DOES_NOT_EXIST)? {
            return Ok(None);
        }
        let bytes = asked.result.next_multiple_of(4);
        if bytes > self.bytes_max {
            return Err(HostError::Unusable(format!(
                "the value has {} bytes, and {} can be moved here",
                asked.result, self.bytes_max
            )));
        }
        let place = self.key(key)?;
        let retrieve = C::Retrieve { key: place, bytes, offset: 0, only_size: false };
        let movement = if bytes > 0 { Movement::ToHost(bytes) } else { Movement::None };
        let ended = self.issue(&retrieve, movement)?;
        match ended.unless(what, codes::KEY_DOES_NOT_EXIST)? {
            true if ended.data.len() == ended.result as usize => Ok(Some(ended.data)),
            true => Err(HostError::Unusable("the value has changed meanwhile".to_owned())),
            false => Ok(None),
        }
    }

    /// Whether there is a key.
    ///
    /// # Errors
    /// If the target does not say.
    pub fn exists(&mut self, key: &[u8]) -> Result<bool, HostError> {
        let key = self.key(key)?;
        let ended = self.issue(&C::Exist { key }, Movement::None)?;
        ended.unless("asking for a key", codes::KEY_DOES_NOT_EXIST)
    }

    /// Deletes a key and its value; whether there was one.
    ///
    /// # Errors
    /// If it cannot be deleted.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, HostError> {
        let key = self.key(key)?;
        let ended = self.issue(&C::Delete { key, must_exist: true }, Movement::None)?;
        ended.unless("deleting a key", codes::KEY_DOES_NOT_EXIST)
    }

    /// Gives `take` all keys that begin so, in portions, until it says `false`.
    ///
    /// # Errors
    /// If they cannot be listed, or `take` fails.
    pub fn list<E: From<HostError>>(
        &mut self,
        prefix: &[u8],
        take: impl FnMut(&[&[u8]]) -> Result<bool, E>,
    ) -> Result<(), E> {
        let (mut pattern, mut mask) = ([0; 4], [0; 4]);
        for (at, &byte) in prefix.iter().take(4).enumerate() {
            (pattern[at], mask[at]) = (byte, 0xff);
        }
        let what = "listing keys";
        let opened = self.issue(&C::OpenIterator { prefix: pattern, mask }, Movement::None)?;
        opened.unless(what, Status::SUCCESS)?;
        let handle = opened.result as u8;
        let listed = self.read(handle, prefix, take);
        let closed = self.issue(&C::CloseIterator { handle }, Movement::None);
        listed?;
        closed?.unless("closing an iterator", Status::SUCCESS)?;
        Ok(())
    }

    fn read<E: From<HostError>>(
        &mut self,
        handle: u8,
        prefix: &[u8],
        mut take: impl FnMut(&[&[u8]]) -> Result<bool, E>,
    ) -> Result<(), E> {
        let bytes = LIST_BYTES.min(self.bytes_max).min(BATCH_BYTES_MAX);
        loop {
            let read = C::ReadIterator { handle, bytes };
            let ended = self.issue(&read, Movement::ToHost(bytes))?;
            let goes_on = ended.unless("listing keys", codes::END_OF_ITERATION)?;
            let Some(mut keys) = batched_keys(&ended.data) else {
                let what = "an iterator's keys end before the last".to_owned();
                return Err(HostError::Nonsense(what).into());
            };
            keys.retain(|key| key.starts_with(prefix));
            if !take(&keys)? || !goes_on {
                return Ok(());
            }
        }
    }

    /// Leaves the target in order.
    pub fn close(self) {
        let Client { controller, queue, .. } = self;
        drop(queue);
        // What was asked is done; a controller that cannot be told notices by itself.
        let _ = controller.shutdown();
    }

    /// A key where the next command finds it.
    fn key(&mut self, key: &[u8]) -> Result<SamsungKey, HostError> {
        let inline = SamsungKey::inline(key);
        let key = inline.or_else(|| {
            let at = self.queue.put_aside(key)?;
            SamsungKey::at(at, 0, key.len())
        });
        key.ok_or_else(|| HostError::Unusable("a key has 4 to 255 bytes here".to_owned()))
    }

    /// Issues one command and waits for its completion.
    fn issue(&mut self, command: &C, movement: Movement) -> Result<Completion, HostError> {
        let mut entry = SubmissionEntry::default();
        entry.namespace_id.set(self.space);
        command.put(&mut entry);
        self.moved.back.clear();
        if self.queue.submit(&entry, movement, &mut self.moved).is_none() {
            return Err(HostError::Nonsense("it has not ended the command before".to_owned()));
        }
        let clock = Clock::start(Rate::REAL);
        let mut idle = 0;
        loop {
            self.queue.send(&mut self.moved)?;
            if let Some(completed) = self.queue.poll(&mut self.moved)? {
                let data = std::mem::take(&mut self.moved.back);
                let entry = completed.entry;
                return Ok(Completion {
                    status: entry.status(),
                    result: entry.result.get() as u32,
                    data,
                });
            }
            idle += 1;
            if idle > SPINS && !self.queue.receive()? {
                self.controller.check()?;
                if Duration::from_nanos(clock.wall().as_ps() / 1_000) > self.timeout {
                    let seconds = self.timeout.as_secs();
                    return Err(HostError::Timeout { what: "a command", seconds });
                }
                self.queue.wait(NAP)?;
            }
        }
    }
}
