//! A device: what its pairs are kept in, its key spaces, its iterators, and the thread that calls back.

use crate::abi::{KEY_BYTES, NAME_BYTES_MAX, OFFSET_GRAIN, VALUE_BYTES_MAX};
use crate::code::Code;
use crate::engine::{Callback, Engine, Listing, Operation, Outcome, Page};
use crate::iterator::{Filter, Iterators};
use crate::memory;
use crate::modelled::{Modelled, list};
use crate::served::Remote;
use crate::spaces::{
    LIST_BYTES_MAX, LIST_KEY, Metadata, Order, RECORDS, Space, list_bytes, metadata_bytes,
    metadata_keys, read_list, read_metadata,
};
use crate::table::{Retrieved, StoreKind, Table};
use crate::uri::{Backing, Uri};
use crate::worker::Worker;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls in flight, unless the environment says otherwise.
const DEPTH: usize = 64;
/// The environment variable that says otherwise, as in OpenMPDK.
const DEPTH_VARIABLE: &str = "KVSSD_QUEUE_DEPTH";
const DEPTH_MAX: usize = 1 << 16;
/// Bytes of keys that are asked for at a time.
const PAGE_BYTES: u32 = 16 << 10;

/// What a device is able to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) capacity: u64,
    pub(crate) key_min: u32,
    pub(crate) key_max: u32,
    pub(crate) value_max: u32,
    pub(crate) value_granularity: u32,
    /// Keys are listed in the order of their bytes.
    pub(crate) in_order: bool,
    /// It is a namespace with one set of keys.
    pub(crate) is_served: bool,
}

enum Backend {
    /// A table in this process, in no time.
    Table(Arc<Mutex<Table>>),
    /// A table in this process, with the time of a modelled drive.
    Modelled(Arc<Mutex<Table>>, Engine),
    /// A namespace of a served drive.
    Served(Engine),
}

/// See the file's description.
pub(crate) struct Device {
    facts: Facts,
    pub(crate) iterators: Mutex<Iterators>,
    /// Held while key spaces are created, deleted, opened or closed.
    directory: Mutex<()>,
    // Dropped in this order: the thread that calls back first, and the table is closed last, when
    // nothing uses it any more.
    pub(crate) worker: Worker,
    backend: Backend,
    _closing: Option<Closing>,
}

/// Closes the table when the device is dropped, so that everything is stored.
struct Closing(Arc<Mutex<Table>>);

impl Drop for Closing {
    fn drop(&mut self) {
        locked(&self.0).close();
    }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// If there is no such device.
    pub(crate) fn open(uri: Uri) -> Result<Device, String> {
        let (facts, backend) = match uri {
            Uri::Local { drive, backing, rate } => local(&drive, &backing, rate)?,
            Uri::Served { place, nsid, wait } => {
                let open = move || Remote::connect(&place, nsid, wait);
                let (engine, served) = Engine::start(open)?;
                let facts = Facts {
                    capacity: served.capacity,
                    key_min: 1,
                    key_max: served.key_max,
                    value_max: served.value_max.min(VALUE_BYTES_MAX),
                    value_granularity: served.granularity.unwrap_or(1),
                    in_order: served.in_order,
                    is_served: true,
                };
                (facts, Backend::Served(engine))
            }
        };
        let depth = std::env::var(DEPTH_VARIABLE).ok().and_then(|text| text.parse().ok());
        let depth = depth.filter(|depth| (1..=DEPTH_MAX).contains(depth)).unwrap_or(DEPTH);
        let worker = Worker::start(depth, matches!(backend, Backend::Table(_)));
        let worker = worker.ok_or("there is no thread to call back from")?;
        let (iterators, directory) = Default::default();
        let _closing = match &backend {
            Backend::Table(table) | Backend::Modelled(table, _) => Some(Closing(table.clone())),
            Backend::Served(_) => None,
        };
        let device = Device { facts, backend, worker, iterators, directory, _closing };
        device.find_spaces().map_err(|_| "its records of key spaces are damaged")?;
        Ok(device)
    }

    /// Finds the key spaces that an earlier process has left in a drive of this one, none of which is
    /// open any more.
    fn find_spaces(&self) -> Result<(), Code> {
        let (Backend::Table(table) | Backend::Modelled(table, _)) = &self.backend else {
            return Ok(());
        };
        let mut spaces = self.read_spaces()?;
        for at in 0..spaces.len() {
            let Space { id, metadata, .. } = &mut spaces[at];
            let was_open = std::mem::take(&mut metadata.opened);
            let capacity = metadata.capacity;
            locked(table).limit(*id, (capacity > 0).then_some(capacity));
            if was_open {
                self.write_counts(&mut spaces, at)?;
            }
        }
        Ok(())
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The thread that operations take to be done elsewhere; `None`: they are done here, at once.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        match &self.backend {
            Backend::Table(_) => None,
            Backend::Modelled(_, engine) | Backend::Served(engine) => Some(engine),
        }
    }

    /// Whether a program's key can be one here.
    ///
    /// # Errors
    /// If it cannot.
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), Code> {
        let Facts { key_min, key_max, is_served, .. } = self.facts;
        match key.len() {
            length if !(key_min as usize..=key_max as usize).contains(&length) => {
                Err(Code::KeyLengthInvalid)
            }
            _ if is_served && key == LIST_KEY => Err(Code::ParamInvalid),
            _ => Ok(()),
        }
    }

    /// Checks the length of a value, or of a buffer for one, and the offset in the value.
    ///
    /// # Errors
    /// If one of them is not allowed.
    pub(crate) fn check_value(
        &self,
        bytes: usize,
        offset: u32,
        is_stored: bool,
    ) -> Result<(), Code> {
        let most = if is_stored { self.facts.value_max } else { VALUE_BYTES_MAX };
        if bytes > most as usize {
            return Err(Code::ValueLengthInvalid);
        }
        match offset % OFFSET_GRAIN {
            0 => Ok(()),
            _ => Err(Code::ValueOffsetMisaligned),
        }
    }

    pub(crate) fn store(
        &self,
        space: u8,
        key: &[u8],
        value: &[u8],
        kind: StoreKind,
    ) -> Result<(), Code> {
        match &self.backend {
            Backend::Table(table) => locked(table).store(space, key, value, kind),
            Backend::Modelled(_, engine) | Backend::Served(engine) => {
                let (name, value) = ((space, key.into()), value.to_vec());
                engine.perform(Operation::Store { name, value, kind }).map(drop)
            }
        }
    }

    pub(crate) fn retrieve(
        &self,
        space: u8,
        key: &[u8],
        offset: u32,
        into: &mut [u8],
        delete: bool,
    ) -> Result<Retrieved, Code> {
        match &self.backend {
            Backend::Table(table) => {
                let mut table = locked(table);
                let found = table.retrieve(space, key, offset, into)?;
                if delete && found.copied == found.size - offset {
                    table.delete(space, key);
                }
                Ok(found)
            }
            Backend::Modelled(_, engine) | Backend::Served(engine) => {
                let (name, bytes) = ((space, key.into()), into.len() as u32);
                let outcome =
                    engine.perform(Operation::Retrieve { name, offset, bytes, delete })?;
                placed(outcome, into)
            }
        }
    }

    /// Deletes a pair. Whether there was one is known if it `matters`.
    pub(crate) fn delete(&self, space: u8, key: &[u8], matters: bool) -> Result<bool, Code> {
        match &self.backend {
            Backend::Table(table) => Ok(locked(table).delete(space, key).is_some()),
            Backend::Modelled(_, engine) | Backend::Served(engine) => {
                existed(engine.perform(deletion(space, key, matters))?)
            }
        }
    }

    pub(crate) fn exists(&self, space: u8, key: &[u8]) -> Result<bool, Code> {
        match &self.backend {
            Backend::Table(table) => Ok(locked(table).size(space, key).is_some()),
            Backend::Modelled(_, engine) | Backend::Served(engine) => {
                existed(engine.perform(Operation::Exist((space, key.into())))?)
            }
        }
    }

    /// Bytes of a value.
    pub(crate) fn size(&self, space: u8, key: &[u8]) -> Result<u32, Code> {
        self.retrieve(space, key, 0, &mut [], false).map(|found| found.size)
    }

    /// A page of keys, from a key on.
    pub(crate) fn page(
        &self,
        space: u8,
        start: Option<&[u8]>,
        descending: bool,
    ) -> Result<Page, Code> {
        let start = start.map(Box::from);
        let listing = Listing { space, start, descending, bytes: PAGE_BYTES };
        match &self.backend {
            Backend::Table(table) => Ok(list(&mut locked(table), &listing).0),
            Backend::Modelled(_, engine) | Backend::Served(engine) => {
                match engine.perform(Operation::List(listing))? {
                    Outcome::Keys(page) => Ok(page),
                    _ => Err(Code::SysIo),
                }
            }
        }
    }

    /// Bytes of the device that are in use.
    pub(crate) fn used(&self) -> Result<u64, Code> {
        match &self.backend {
            Backend::Table(table) | Backend::Modelled(table, _) => Ok(locked(table).used()),
            Backend::Served(engine) => match engine.perform(Operation::Used)? {
                Outcome::Used(bytes) => Ok(bytes),
                _ => Err(Code::SysIo),
            },
        }
    }

    /// Pairs of a key space, and bytes of them.
    pub(crate) fn counts(&self, space: u8) -> Result<(u64, u64), Code> {
        match &self.backend {
            Backend::Table(table) | Backend::Modelled(table, _) => Ok(locked(table).counts(space)),
            Backend::Served(_) => {
                let mut keys = 0;
                Filter::ALL.each(self, space, |_| {
                    keys += 1;
                    Ok(())
                })?;
                Ok((keys, self.used()?))
            }
        }
    }

    /// Deletes the pairs whose keys match.
    pub(crate) fn delete_group(&self, space: u8, filter: &Filter) -> Result<(), Code> {
        filter.each(self, space, |key| self.delete(space, key, false).map(drop))
    }

    fn read_record(&self, key: &[u8], most: usize) -> Result<Option<Vec<u8>>, Code> {
        let mut bytes = vec![0; most.min(self.facts.value_max as usize)];
        match self.retrieve(RECORDS, key, 0, &mut bytes, false) {
            Ok(found) => {
                bytes.truncate(found.copied as usize);
                Ok(Some(bytes))
            }
            Err(Code::KeyNotExist) => Ok(None),
            Err(code) => Err(code),
        }
    }

    fn read_spaces(&self) -> Result<Vec<Space>, Code> {
        let bytes = self.read_record(LIST_KEY, LIST_BYTES_MAX)?.unwrap_or_default();
        let mut spaces = read_list(&bytes, self.facts.is_served)?;
        if !self.facts.is_served {
            for space in &mut spaces {
                if let Some((_, metadata)) = self.find_metadata(space)? {
                    space.metadata = metadata;
                }
            }
        }
        Ok(spaces)
    }

    /// The record of a key space, and the key that it has, or could have.
    fn find_metadata(&self, space: &Space) -> Result<Option<(Vec<u8>, Metadata)>, Code> {
        for key in metadata_keys(&space.name) {
            if let Some(bytes) = self.read_record(&key, 64)? {
                let (id, metadata) = read_metadata(&bytes)?;
                if id == space.id {
                    return Ok(Some((key, metadata)));
                }
            }
        }
        Ok(None)
    }

    fn write_spaces(&self, spaces: &[Space]) -> Result<(), Code> {
        if spaces.is_empty() {
            return self.delete(RECORDS, LIST_KEY, false).map(drop);
        }
        let bytes = list_bytes(spaces, self.facts.is_served);
        self.store(RECORDS, LIST_KEY, &bytes, StoreKind::Post)
    }

    /// Writes the record of one key space.
    fn write_space(&self, spaces: &[Space], space: &Space) -> Result<(), Code> {
        if self.facts.is_served {
            return self.write_spaces(spaces);
        }
        let key = match self.find_metadata(space)? {
            Some((key, _)) => key,
            None => {
                let [cut, whole] = metadata_keys(&space.name);
                if self.exists(RECORDS, &cut)? { whole } else { cut }
            }
        };
        self.store(RECORDS, &key, &metadata_bytes(space), StoreKind::Post)
    }

    /// Creates a key space.
    ///
    /// # Errors
    /// If there cannot be one like that.
    pub(crate) fn create_space(
        &self,
        name: &[u8],
        capacity: u64,
        order: Order,
    ) -> Result<(), Code> {
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return Err(Code::KeySpaceName);
        }
        if capacity > self.facts.capacity {
            return Err(Code::DeviceCapacity);
        }
        // A namespace elsewhere has no part that could be bounded, and no order but its own.
        if self.facts.is_served && (capacity > 0 || order != Order::None) {
            return Err(Code::OptionInvalid);
        }
        let _held = locked(&self.directory);
        let mut spaces = self.read_spaces()?;
        if spaces.iter().any(|it| it.name == name) {
            return Err(Code::KeySpaceExist);
        }
        let most = if self.facts.is_served { 1 } else { u8::MAX };
        let id = (1..=most).find(|&id| spaces.iter().all(|it| it.id != id));
        let id = id.ok_or(Code::DeviceCapacity)?;
        spaces.push(Space { id, name: name.to_vec(), metadata: Metadata::new(order, capacity) });
        self.write_spaces(&spaces)?;
        let space = &spaces[spaces.len() - 1];
        self.write_space(&spaces, space)?;
        if let Backend::Table(table) | Backend::Modelled(table, _) = &self.backend {
            locked(table).limit(id, (capacity > 0).then_some(capacity));
        }
        Ok(())
    }

    /// Deletes a key space and its pairs, after `close` has been told which it is.
    ///
    /// # Errors
    /// If there is none with this name.
    pub(crate) fn delete_space(&self, name: &[u8], close: impl FnOnce(u8)) -> Result<(), Code> {
        let _held = locked(&self.directory);
        let mut spaces = self.read_spaces()?;
        let at = spaces.iter().position(|it| it.name == name).ok_or(Code::KeySpaceNotExist)?;
        let space = spaces.remove(at);
        close(space.id);
        locked(&self.iterators).forget(space.id);
        self.delete_group(space.id, &Filter::ALL)?;
        if !self.facts.is_served
            && let Some((key, _)) = self.find_metadata(&space)?
        {
            self.delete(RECORDS, &key, false)?;
        }
        self.write_spaces(&spaces)
    }

    /// The names of the key spaces.
    pub(crate) fn space_names(&self) -> Result<Vec<Vec<u8>>, Code> {
        let _held = locked(&self.directory);
        Ok(self.read_spaces()?.into_iter().map(|space| space.name).collect())
    }

    /// Finds a key space, has `open` look whether it can be opened, and writes that it is.
    ///
    /// # Errors
    /// If there is none with this name, or `open` refuses.
    pub(crate) fn open_space<T>(
        &self,
        name: &[u8],
        open: impl FnOnce(&Space) -> Result<T, Code>,
    ) -> Result<T, Code> {
        let _held = locked(&self.directory);
        let mut spaces = self.read_spaces()?;
        let at = spaces.iter().position(|it| it.name == name).ok_or(Code::KeySpaceNotExist)?;
        spaces[at].metadata.opened = true;
        let opened = open(&spaces[at])?;
        self.write_counts(&mut spaces, at)?;
        Ok(opened)
    }

    /// Writes that a key space is open no longer.
    pub(crate) fn close_space(&self, id: u8) -> Result<(), Code> {
        let _held = locked(&self.directory);
        locked(&self.iterators).forget(id);
        let mut spaces = self.read_spaces()?;
        let Some(at) = spaces.iter().position(|it| it.id == id) else { return Ok(()) };
        spaces[at].metadata.opened = false;
        self.write_counts(&mut spaces, at)
    }

    fn write_counts(&self, spaces: &mut [Space], at: usize) -> Result<(), Code> {
        // Counting the keys of a namespace elsewhere takes a look at all of them.
        if !self.facts.is_served {
            let (count, bytes) = self.counts(spaces[at].id)?;
            let metadata = &mut spaces[at].metadata;
            metadata.count = count;
            metadata.free = metadata.capacity.saturating_sub(bytes);
        }
        self.write_space(spaces, &spaces[at])
    }

    /// Bytes that a key space has, and how many of them are left, and its pairs.
    ///
    /// # Errors
    /// If the device does not say.
    pub(crate) fn space_info(&self, id: u8, limit: u64) -> Result<(u64, u64, u64), Code> {
        let (count, bytes) = self.counts(id)?;
        let left = self.facts.capacity.saturating_sub(self.used()?);
        match limit {
            0 => Ok((self.facts.capacity, left, count)),
            limit => Ok((limit, limit.saturating_sub(bytes).min(left), count)),
        }
    }

    /// Bytes that no key space has been promised.
    pub(crate) fn unallocated(&self) -> Result<u64, Code> {
        let _held = locked(&self.directory);
        let promised: u64 = self
            .read_spaces()?
            .iter()
            .fold(0, |sum, space| sum.saturating_add(space.metadata.capacity));
        Ok(self.facts.capacity.saturating_sub(promised))
    }
}

fn local(
    drive: &str,
    backing: &Backing,
    rate: Option<mynah_runtime::clock::Rate>,
) -> Result<(Facts, Backend), String> {
    let plan = memory::plan(drive)?;
    let layout = plan.layout;
    let facts = Facts {
        capacity: layout.capacity,
        key_min: *KEY_BYTES.start() as u32,
        key_max: *KEY_BYTES.end() as u32,
        value_max: layout.value_max,
        value_granularity: layout.unit_bytes,
        in_order: true,
        is_served: false,
    };
    let table = memory::table(layout, backing)?;
    let Some(rate) = rate else { return Ok((facts, Backend::Table(table))) };
    let its = Arc::clone(&table);
    let open = move || Modelled::new(plan, its, rate).map(|modelled| (modelled, ()));
    let (engine, ()) = Engine::start(open)?;
    Ok((facts, Backend::Modelled(table, engine)))
}

/// A deletion; whether the key existed is only found out if that `matters`.
pub(crate) fn deletion(space: u8, key: &[u8], matters: bool) -> Operation {
    let name = (space, key.into());
    if matters { Operation::DeleteExisting(name) } else { Operation::Delete(name) }
}

/// Copies a retrieved value to its place.
pub(crate) fn placed(outcome: Outcome, into: &mut [u8]) -> Result<Retrieved, Code> {
    let Outcome::Value { size, data } = outcome else { return Err(Code::SysIo) };
    let copied = data.len().min(into.len());
    into[..copied].copy_from_slice(&data[..copied]);
    Ok(Retrieved { size, copied: copied as u32 })
}

/// Whether an operation found its key.
pub(crate) fn existed(outcome: Outcome) -> Result<bool, Code> {
    match outcome {
        Outcome::Existed(existed) => Ok(existed),
        _ => Err(Code::SysIo),
    }
}

/// Submits the operation of an admitted call; `callback` gets the outcome, on the thread that calls
/// back.
pub(crate) fn submit(
    device: &Device,
    engine: &Engine,
    operation: Operation,
    callback: impl FnOnce(Result<Outcome, Code>) + Send + 'static,
) {
    let tasks = device.worker.tasks();
    let done: Callback = Box::new(move |outcome| tasks.push(Box::new(move || callback(outcome))));
    engine.submit(operation, done);
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
