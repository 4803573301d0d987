//! Where a served drive's bytes are, and its own state beside them.
//!
//! When a drive whose bytes are in a file ends in order, its own state (mapping, blocks, wear: see
//! [`mynah_model::state`]) is saved in a file beside that, and the store's header names it by its
//! checksum. The header is written last, so that it names a state only if that is on stable storage
//! and belongs to just these bytes; while the drive is served it names none. Whatever does not fit
//! has the drive's state made anew by preconditioning, and the reason is said. What else a drive
//! counts (health, power cycles) begins anew.

use super::{ServeError, ServeOptions, Speed, StoreKind, pairs};
use crate::arena;
use crate::engine::copy_descriptor;
use crate::file_store::{Failure, FileStore, Found, OpenError, StoreFile, Trouble};
use mynah_device::store::StateId;
use mynah_device::{PatternStore, RamStore, Store, Subsystem};
use mynah_lab::SimulationError;
use mynah_lab::emulation::{Emulation, Prepared};
use mynah_lab::output::PendingFile;
use mynah_lab::saved_state::{self, Checksum};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What the name of a state's file ends with, behind that of the bytes.
const STATE_ENDING: &str = ".state";

/// A drive that is ready to be served, and the file for its bytes if that is open already.
#[derive(Debug)]
pub struct Start {
    pub(super) drive: Prepared,
    pub(super) file: Option<StoreFile>,
    /// What has become of the state that the drive had before.
    pub(super) state: State,
}

/// What a drive's own state is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The one it had when the run before ended.
    Kept,
    /// As it was prepared, because of this.
    Anew(String),
}

impl From<Prepared> for Start {
    fn from(drive: Prepared) -> Start {
        Start { drive, file: None, state: State::Anew("it was not looked for".into()) }
    }
}

/// Why a drive is not ready.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot be built.
    #[error(transparent)]
    Drive(#[from] SimulationError),
    /// The file cannot hold the bytes.
    #[error(transparent)]
    Store(#[from] OpenError),
}

/// The file for a state of the drive that belongs to `file`: to its bytes, or to a recording that
/// begins in it.
pub fn state_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(STATE_ENDING);
    path.into()
}

impl Start {
    /// Brings the drive back as the run before has left it, or prepares it anew.
    ///
    /// # Errors
    /// If the drive cannot be built, or its file is not there for it.
    pub fn new(emulation: Emulation, options: &ServeOptions) -> Result<Start, StartError> {
        let StoreKind::File(path) = &options.store else { return Ok(emulation.prepare()?.into()) };
        // What cannot be built leaves no file behind.
        emulation.check()?;
        let file = StoreFile::open(path)?;
        let (drive, state) = match restore(&emulation, &file, options) {
            Ok(drive) => (drive, State::Kept),
            Err(reason) => (emulation.prepare()?, State::Anew(reason)),
        };
        Ok(Start { drive, file: Some(file), state })
    }

    /// The drive.
    pub fn drive(&self) -> &Prepared {
        &self.drive
    }

    /// The same, to set something up before it is served.
    pub fn drive_mut(&mut self) -> &mut Prepared {
        &mut self.drive
    }
}

/// The drive with the state that belongs to the bytes in `file`, or why it cannot have that.
fn restore(
    emulation: &Emulation,
    file: &StoreFile,
    options: &ServeOptions,
) -> Result<Prepared, String> {
    if options.speed == Speed::Max {
        return Err("speed max does not ask for it".into());
    }
    if let Some(reason) = options.state_anew {
        return Err(reason.into());
    }
    if !file.is_of(&emulation.hash()) {
        return Err(of_another_drive(emulation, file));
    }
    if !file.is_closed() {
        return Err("the run before did not end in order".into());
    }
    let Some(id) = file.state() else {
        return Err("the run before has saved none".into());
    };
    let path = state_path(file.path());
    let checksum = saved_state::checksum(&path);
    match checksum.map(|checksum| id_of(&checksum) == id) {
        Ok(true) => {}
        Ok(false) => {
            return Err(format!(
                "{} was not saved with these bytes, or is damaged",
                path.display()
            ));
        }
        Err(error) => return Err(format!("{}: {error}", path.display())),
    }
    emulation.clone().restore(&path).map_err(|error| error.to_string())
}

/// That the bytes are not this drive's, and what theirs differs in if the state beside them says.
fn of_another_drive(emulation: &Emulation, file: &StoreFile) -> String {
    let header = saved_state::header_of(&state_path(file.path()));
    match header {
        Ok(header) if file.is_of(&header.drive_hash) => format!(
            "the bytes are of another drive, `{}` [{}], and this is [{}]: {}",
            header.drive,
            header.drive_hash,
            emulation.hash(),
            header.differences(&emulation.config)
        ),
        _ => "the bytes are of another drive".into(),
    }
}

/// Which state it is.
fn id_of(checksum: &Checksum) -> StateId {
    let mut id = StateId::default();
    let bytes = id.len();
    id.copy_from_slice(&checksum[..bytes]);
    id
}

/// A store, and how it is heard of.
pub(super) struct Opened {
    pub(super) store: Box<dyn Store>,
    /// Rings when the store has finished something.
    pub(super) waker: Option<OwnedFd>,
    pub(super) trouble: Trouble,
}

impl Opened {
    /// A store that never has anything to say.
    fn silent(store: Box<dyn Store>) -> Opened {
        Opened { store, waker: None, trouble: Trouble::default() }
    }
}

/// The store of a drive; `notes` get what was found.
pub(super) fn open(
    options: &ServeOptions,
    start: &mut Start,
    notes: &mut Vec<String>,
) -> Result<Opened, ServeError> {
    let path = match &options.store {
        StoreKind::Ram => {
            let mut store = RamStore::from_source(arena::source());
            if pairs::has_pairs(start.drive.drive.config()) {
                store = store.with_values_from(arena::source());
            }
            return Ok(Opened::silent(Box::new(store)));
        }
        StoreKind::Pattern => {
            notes.push("store pattern: nothing that was written was kept".to_owned());
            return Ok(Opened::silent(Box::new(PatternStore)));
        }
        StoreKind::File(path) => path,
    };
    let file = start.file.take().map_or_else(|| StoreFile::open(path), Ok)?;
    let bytes = Subsystem::store_bytes(&start.drive.drive);
    let (store, found) = FileStore::open(file, bytes, &start.drive.hash)?;
    let waker = copy_descriptor(store.wake_descriptor())?;
    if let Found::Bytes { same_drive, closed } = found {
        let how = match closed {
            true => "as they were left",
            false => "as of the last flush or newer, because the run before did not end in order",
        };
        let state = match &start.state {
            State::Kept => format!("is, too ({})", state_path(path).display()),
            State::Anew(reason) => format!("is made anew: {reason}"),
        };
        let path = path.display();
        notes.push(format!("{path}: the bytes are {how}; the drive's own state {state}"));
        if !same_drive {
            notes.push(format!("{path}: was written by another drive"));
        }
    }
    let trouble = store.trouble();
    Ok(Opened { store: Box::new(store), waker: Some(waker), trouble })
}

/// Saves the state of a drive that is not used any more beside its bytes. Which it is; `None` if
/// there is none, and a note if the drive has none to save, or trouble if it cannot be written.
pub(super) fn save(
    subsystem: &mut Subsystem,
    name: &str,
    options: &ServeOptions,
    trouble: &Trouble,
    notes: &mut Vec<String>,
) -> Option<StateId> {
    let StoreKind::File(bytes) = &options.store else { return None };
    if options.speed == Speed::Max {
        return None;
    }
    let after = format!("served until {}", subsystem.drive().now());
    let path = state_path(bytes);
    let Some(drive) = subsystem.bring_to_rest() else {
        notes.push("the drive's own state was not saved: the drive did not come to rest".into());
        return None;
    };
    let mut write = || -> Result<Checksum, String> {
        let file = PendingFile::create_private(&path).map_err(|error| error.to_string())?;
        let saved = saved_state::save(drive, name, &after, file);
        let checksum = saved.map_err(|error| error.to_string())?;
        // The new name is to last, too.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|it| it.sync_all());
        synced.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(checksum)
    };
    match write() {
        Ok(checksum) => Some(id_of(&checksum)),
        Err(problem) => {
            trouble.add(&Failure::State(problem));
            None
        }
    }
}
