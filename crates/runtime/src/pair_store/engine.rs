//! The embedded engine, and what a worker thread does with it: fjall, whose tables have one name each
//! and are here one for each set of keys, one for the names of pairs, and one for what the folder is.

use super::backlog::{Batch, Change};
use super::open_error::Problem;
use crate::file_store::{Failure, is_no_room};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};
use mynah_device::store::StateId;
use mynah_model::keys::PairId;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Memory for what was read of tables: they are read once, at the start.
const CACHE_BYTES: u64 = 16 << 20;
/// Changes in memory before they are written as a table, and in journals.
const TABLE_BYTES: u64 = 32 << 20;
const JOURNAL_BYTES: u64 = 256 << 20;
/// Threads that write and merge tables.
const THREADS: usize = 2;
/// Tables that may wait to be written, or merged, before changes wait here. The engine itself waits
/// from 4 and 30 on, for ever if its threads have failed.
const UNWRITTEN_MAX: usize = 3;
const UNMERGED_MAX: usize = 18;
const NAP: Duration = Duration::from_millis(5);
const NAPS_MAX: u32 = 400;
/// Most names in one entry.
const NAMES_CHUNK: usize = 1 << 20;
/// Room without which a file system counts as full.
const ROOM_BYTES: u64 = 4 << 20;

const ABOUT: &str = "mynah";
const NAMES: &str = "names";
const SET: &str = "set-";
const IDENTITY: &[u8] = b"identity";
const FORMAT: &[u8] = b"format";
const CHANGES: &[u8] = b"changes";
const STATE: &[u8] = b"state";
const FORMAT_NOW: u32 = 1;

/// Identifiers of the pairs of each set in a saved state of the drive, in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The saved state; `None`: no identifiers are stored.
    pub(super) state: Option<StateId>,
    pub(super) of_sets: BTreeMap<u32, Vec<PairId>>,
}

/// Work for the thread.
#[derive(Debug)]
pub struct Task(pub(super) Work);

#[derive(Debug)]
pub(super) enum Work {
    /// Writes a batch, which is number `count`.
    Change { batch: Batch, count: u64 },
    /// Puts everything on stable storage.
    Sync,
    /// Stores the identifiers, and ends.
    End(Names),
}

/// Result of a [`Task`].
#[derive(Debug)]
pub struct TaskResult(pub(super) Outcome);

#[derive(Debug)]
pub(super) enum Outcome {
    Changed(Result<(), (Failure, Batch)>),
    Synced(Result<(), Failure>),
    Ended(Result<(), Failure>),
}

/// What keeps pairs: the engine, or in tests one that refuses what they say.
pub(super) trait Keeper {
    fn change(&mut self, batch: &Batch, count: u64) -> Result<(), Failure>;
    fn sync(&mut self) -> Result<(), Failure>;
    fn end(&mut self, names: &Names) -> Result<(), Failure>;
}

pub(super) fn perform(keeper: &mut impl Keeper, task: Task) -> TaskResult {
    TaskResult(match task.0 {
        Work::Change { batch, count } => {
            let changed = keeper.change(&batch, count);
            Outcome::Changed(changed.map_err(|problem| (problem, batch)))
        }
        Work::Sync => Outcome::Synced(keeper.sync()),
        Work::End(names) => Outcome::Ended(keeper.end(&names)),
    })
}

/// The opened database and its keyspaces.
struct Open {
    database: Database,
    about: Keyspace,
    names: Keyspace,
    sets: BTreeMap<u32, Keyspace>,
}

/// See the file's description.
pub(super) struct Engine {
    folder: PathBuf,
    /// `None`: it has to be opened again after there was no room, or it has ended.
    open: Option<Open>,
    changes: u64,
}

/// What the folder's own entry says.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) identity: [u8; 16],
    pub(super) state: Option<StateId>,
}

fn options() -> KeyspaceCreateOptions {
    // Large values are not copied again with each merge.
    let separate = Some(KvSeparationOptions::default());
    KeyspaceCreateOptions::default().max_memtable_size(TABLE_BYTES).with_kv_separation(separate)
}

fn open(folder: &Path) -> fjall::Result<Open> {
    let database = Database::builder(folder)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(THREADS)
        .open()?;
    let about = database.keyspace(ABOUT, KeyspaceCreateOptions::default)?;
    let names = database.keyspace(NAMES, KeyspaceCreateOptions::default)?;
    let mut sets = BTreeMap::new();
    for name in database.list_keyspace_names() {
        let name: &str = &name;
        if let Some(set) = name.strip_prefix(SET).and_then(|set| set.parse().ok()) {
            sets.insert(set, database.keyspace(name, options)?);
        }
    }
    Ok(Open { database, about, names, sets })
}

/// Translates an error of the engine while the folder was opened.
pub(super) fn problem_of(error: fjall::Error) -> Problem {
    match error {
        fjall::Error::Locked => Problem::InUse,
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            match error.kind() {
                io::ErrorKind::NotFound => Problem::Damaged(format!("a file is missing ({error})")),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                    Problem::Damaged(error.to_string())
                }
                _ => Problem::Io(error),
            }
        }
        other => Problem::Damaged(format!("{other:?}")),
    }
}

impl Engine {
    /// Creates an engine in a folder that does not exist.
    pub(super) fn create(folder: &Path, identity: [u8; 16]) -> Result<(), Problem> {
        let make = || -> fjall::Result<()> {
            let Open { database, about, .. } = open(folder)?;
            about.insert(IDENTITY, identity)?;
            about.insert(FORMAT, FORMAT_NOW.to_le_bytes())?;
            about.insert(CHANGES, 0u64.to_le_bytes())?;
            database.persist(PersistMode::SyncAll)
        };
        make().map_err(problem_of)
    }

    /// Opens an engine that was created before, with what it says of itself.
    pub(super) fn open(folder: &Path) -> Result<(Engine, About), Problem> {
        let open = open(folder).map_err(problem_of)?;
        let read = |key| open.about.get(key).map_err(problem_of);
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).ok();
        let missing = || Problem::Damaged("what it says of itself is not there".into());
        match read(FORMAT)?.as_deref().and_then(number) {
            Some(FORMAT_NOW) => {}
            Some(format) => return Err(Problem::Format(format)),
            None => return Err(missing()),
        }
        let identity = read(IDENTITY)?.and_then(|it| <[u8; 16]>::try_from(&it[..]).ok());
        let identity = identity.filter(|it| *it != [0; 16]).ok_or_else(missing)?;
        let changes = read(CHANGES)?.and_then(|it| <[u8; 8]>::try_from(&it[..]).ok());
        let changes = u64::from_le_bytes(changes.ok_or_else(missing)?);
        let state = read(STATE)?.and_then(|it| StateId::try_from(&it[..]).ok());
        let engine = Engine { folder: folder.into(), open: Some(open), changes };
        Ok((engine, About { identity, state }))
    }

    /// Batches of changes that were written.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// The sets of keys that there are.
    pub(super) fn sets(&self) -> Vec<u32> {
        self.open.iter().flat_map(|open| open.sets.keys().copied()).collect()
    }

    /// Hands out all keys of a set with their values, in order.
    pub(super) fn each(
        &self,
        set: u32,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let Some(pairs) = self.open.as_ref().and_then(|open| open.sets.get(&set)) else {
            return Ok(());
        };
        for pair in pairs.iter() {
            let (key, value) = pair.into_inner().map_err(problem_of)?;
            each(&key, &value)?;
        }
        Ok(())
    }

    /// Identifiers of a set's pairs in the saved state.
    pub(super) fn names(&self, set: u32) -> Result<Vec<PairId>, Problem> {
        let mut all = Vec::new();
        let Some(open) = &self.open else { return Ok(all) };
        for chunk in open.names.prefix(set.to_be_bytes()) {
            let chunk = chunk.value().map_err(problem_of)?;
            let (names, _) = chunk.as_chunks::<4>();
            all.extend(names.iter().map(|name| PairId(u32::from_le_bytes(*name))));
        }
        Ok(all)
    }

    /// The engine, opened again if it has to be.
    fn need(&mut self) -> fjall::Result<&mut Open> {
        if self.open.is_none() {
            self.open = Some(open(&self.folder)?);
        }
        self.open.as_mut().ok_or(fjall::Error::Poisoned)
    }

    fn try_change(&mut self, batch: &Batch, count: u64) -> fjall::Result<()> {
        let open = self.need()?;
        let mut together = open.database.batch();
        for change in &batch.changes {
            match change {
                Change::Put((set, key), value) => {
                    together.insert(open.set(*set)?, &key[..], &value[..]);
                }
                Change::Remove((set, key)) => together.remove(open.set(*set)?, &key[..]),
                Change::Clear(set) => {
                    std::mem::replace(&mut together, open.database.batch()).commit()?;
                    open.set(*set)?.clear()?;
                }
            }
        }
        together.insert(&open.about, CHANGES, count.to_le_bytes());
        open.wait_for_room()?;
        together.commit()?;
        self.changes = count;
        Ok(())
    }

    fn try_end(&mut self, names: &Names) -> fjall::Result<()> {
        let open = self.need()?;
        open.about.remove(STATE)?;
        open.names.clear()?;
        if let Some(state) = names.state {
            for (set, names) in &names.of_sets {
                for (number, chunk) in (0u32..).zip(names.chunks(NAMES_CHUNK)) {
                    let key = [set.to_be_bytes(), number.to_be_bytes()].concat();
                    let bytes: Vec<u8> = chunk.iter().flat_map(|it| it.0.to_le_bytes()).collect();
                    open.names.insert(key, bytes)?;
                }
            }
            open.about.insert(STATE, state)?;
        }
        open.database.persist(PersistMode::SyncAll)?;
        // Its threads end, and with it its lock.
        self.open = None;
        Ok(())
    }

    /// What an error means. The engine is closed where it may be opened again, and does not work as it
    /// is.
    fn failure_of(&mut self, error: fjall::Error) -> Failure {
        let error = match error {
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => error,
            other => io::Error::other(format!("{other:?}")),
        };
        // Its threads do not say what they failed for.
        let free = rustix::fs::statvfs(&self.folder);
        let is_full = free.is_ok_and(|it| it.f_bavail.saturating_mul(it.f_frsize) < ROOM_BYTES);
        if is_no_room(&error) || is_full {
            self.open = None;
            return Failure::NoRoom(error);
        }
        Failure::Write(error)
    }
}

impl Open {
    fn set(&mut self, set: u32) -> fjall::Result<&Keyspace> {
        let database = &self.database;
        Ok(match self.sets.entry(set) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(database.keyspace(&format!("{SET}{set}"), options)?)
            }
        })
    }

    /// Waits a while if the engine is behind with its tables. Fails if its threads have failed.
    fn wait_for_room(&self) -> fjall::Result<()> {
        let is_behind = |it: &Keyspace| {
            it.sealed_memtable_count() >= UNWRITTEN_MAX || it.l0_table_count() >= UNMERGED_MAX
        };
        for _ in 0..NAPS_MAX {
            if !self.sets.values().any(is_behind) {
                break;
            }
            self.database.persist(PersistMode::Buffer)?;
            std::thread::sleep(NAP);
        }
        Ok(())
    }
}

impl Keeper for Engine {
    fn change(&mut self, batch: &Batch, count: u64) -> Result<(), Failure> {
        self.try_change(batch, count).map_err(|error| self.failure_of(error))
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let synced = self.need().and_then(|open| open.database.persist(PersistMode::SyncData));
        // Whatever it says: what the kernel could not write it reports once, and drops (fsync(2)).
        synced.map_err(|error| match error {
            fjall::Error::Io(error) => Failure::Sync(error),
            other => Failure::Sync(io::Error::other(format!("{other:?}"))),
        })
    }

    fn end(&mut self, names: &Names) -> Result<(), Failure> {
        self.try_end(names).map_err(|error| self.failure_of(error))
    }
}
