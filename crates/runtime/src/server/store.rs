//! Where a served drive's bytes are, and its own state beside them.
//!
//! When a drive whose bytes are in a file ends in order, its own state (mapping, blocks, wear: see
//! [`mynah_model::state`]) is saved in a file beside that, and the store's header names it by its
//! checksum. The header is written last, so that it names a state only if that is on stable storage
//! and belongs to just these bytes; while the drive is served it names none. Whatever does not fit
//! has the drive's state made anew by preconditioning, and the reason is said. What else a drive
//! counts (health, power cycles) begins anew.
//!
//! Pairs are in a folder beside the file. A state calls them by names, which the folder has kept with
//! it; in a state that is made anew they are laid down in the order of their keys.

use super::{ServeError, ServeOptions, Speed, StoreKind, pairs};
use crate::arena::{self, HugeArena};
use crate::engine::copy_descriptor;
use crate::file_store::{Failure, FileStore, Found, OpenError, StoreFile, Trouble};
use crate::pair_store::{self, KeptPair, PairFolder, PairStore};
use mynah_device::store::StateId;
use mynah_device::{PatternStore, RamStore, Store, Subsystem};
use mynah_lab::SimulationError;
use mynah_lab::emulation::{Emulation, Prepared};
use mynah_lab::saved_state::{self, Checksum};
use mynah_model::io::NamespaceId;
use mynah_model::keys::{PairToFill, token};
use mynah_result::output::{self, PendingFile};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What the name of a state's file ends with, behind that of the bytes.
const STATE_ENDING: &str = ".state";
/// Ending of the name of the folder of pairs.
const PAIRS_ENDING: &str = ".pairs";

/// A drive that is ready to be served, and the file for its bytes if that is open already.
#[derive(Debug)]
pub struct Start {
    pub(super) drive: Prepared,
    pub(super) file: Option<StoreFile>,
    /// The folder of its pairs, if it has or had any.
    pub(super) pairs: Option<PairFolder<HugeArena>>,
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
        Start { drive, file: None, pairs: None, state: State::Anew("it was not looked for".into()) }
    }
}

/// Why a drive could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The drive cannot be built.
    #[error(transparent)]
    Drive(#[from] SimulationError),
    /// The file cannot hold the bytes.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The folder cannot hold the pairs.
    #[error(transparent)]
    PairStore(#[from] pair_store::OpenError),
}

/// The file for a state of the drive that belongs to `file`: to its bytes, or to a recording that
/// begins in it.
pub fn state_path(file: &Path) -> PathBuf {
    beside(file, STATE_ENDING)
}

/// The folder for the pairs of the drive whose bytes are in `file`.
fn pairs_path(file: &Path) -> PathBuf {
    beside(file, PAIRS_ENDING)
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(ending);
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
        // Nobody else writes it as long as the file is held.
        output::remove_left_over(&state_path(path));
        let folder = pairs_path(path);
        let mut pairs = match pairs::has_pairs(&emulation.config) || folder.exists() {
            true => Some(PairFolder::open(&folder, arena::source())?),
            false => None,
        };
        let (drive, state) = match restore(&emulation, &file, &mut pairs, options) {
            Ok(drive) => (drive, State::Kept),
            Err(reason) => {
                let mut drive = emulation.prepare()?;
                if let Some(pairs) = &mut pairs {
                    pairs.name_anew();
                    // What is not asked need not have them.
                    if options.speed != Speed::Max {
                        lay_down(&mut drive, pairs)?;
                    }
                }
                (drive, State::Anew(reason))
            }
        };
        Ok(Start { drive, file: Some(file), pairs, state })
    }

    pub fn drive(&self) -> &Prepared {
        &self.drive
    }

    /// Pairs of an earlier run that the drive was prepared with, in the order in which they were laid
    /// down. Those that came back with its own state are not among them.
    pub(crate) fn laid_down(&self) -> impl Iterator<Item = (NamespaceId, PairToFill)> {
        let is_anew = matches!(self.state, State::Anew(_));
        let folder = self.pairs.iter().filter(move |_| is_anew);
        folder.flat_map(|folder| {
            let sets = folder.sets().map(NamespaceId);
            let of_pairs = sets.filter(|id| self.drive.drive.pair_counts(*id).is_some());
            of_pairs.flat_map(move |id| pairs_of(folder, id).map(move |pair| (id, pair)))
        })
    }

    /// The same, to set something up before it is served.
    pub fn drive_mut(&mut self) -> &mut Prepared {
        &mut self.drive
    }
}

/// Pairs as the model has them.
fn pairs_of(
    folder: &PairFolder<HugeArena>,
    namespace: NamespaceId,
) -> impl Iterator<Item = PairToFill> {
    folder.pairs(namespace.0).map(|KeptPair { pair, key, bytes }| PairToFill {
        pair,
        token: token(key),
        key_bytes: key.len() as u8,
        value_bytes: bytes,
    })
}

/// Lays the pairs of a folder down on a drive that has been prepared.
fn lay_down(drive: &mut Prepared, folder: &PairFolder<HugeArena>) -> Result<(), StartError> {
    for namespace in folder.sets().map(NamespaceId) {
        // Where there is no such namespace, or not for pairs, whoever is to serve it says so.
        if drive.drive.pair_counts(namespace).is_some() {
            let laid = drive.drive.fill_pairs(namespace, pairs_of(folder, namespace));
            laid.map_err(|_| pair_store::OpenError::room(folder.path(), namespace.0))?;
        }
    }
    Ok(())
}

/// Calls pairs what a drive does that has come back with the state `id`.
fn name_pairs(
    drive: &Prepared,
    folder: &mut PairFolder<HugeArena>,
    id: StateId,
) -> Result<(), String> {
    if !folder.name_as(id).map_err(|error| error.to_string())? {
        return Err(format!("{} has not kept what it calls pairs", folder.path().display()));
    }
    let drive = &drive.drive;
    let all = (1..=drive.config().namespaces.len() as u32).map(NamespaceId);
    let mut of_pairs = all.filter(|id| drive.pair_counts(*id).is_some());
    match of_pairs.all(|id| drive.has_pairs(id, pairs_of(folder, id))) {
        true => Ok(()),
        false => Err(format!("the pairs in {} are not those of it", folder.path().display())),
    }
}

/// The drive with the state that belongs to the bytes in `file`, or why it cannot have that.
fn restore(
    emulation: &Emulation,
    file: &StoreFile,
    pairs: &mut Option<PairFolder<HugeArena>>,
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
    let drive = emulation.clone().restore(&path).map_err(|error| error.to_string())?;
    if let Some(folder) = pairs {
        name_pairs(&drive, folder, id)?;
    }
    Ok(drive)
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

/// Identifier of a saved state: the first bytes of its checksum.
fn id_of(checksum: &Checksum) -> StateId {
    let mut id = StateId::default();
    let bytes = id.len();
    id.copy_from_slice(&checksum[..bytes]);
    id
}

/// A store, and the descriptors that tell of its results.
pub(super) struct Opened {
    pub(super) store: Box<dyn Store>,
    /// Ring when the store has finished something.
    pub(super) wakers: Vec<OwnedFd>,
    pub(super) trouble: Trouble,
}

impl Opened {
    /// A store that never has anything to say.
    fn silent(store: Box<dyn Store>) -> Opened {
        Opened { store, wakers: Vec::new(), trouble: Trouble::default() }
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
    let mut wakers = vec![copy_descriptor(store.wake_descriptor())?];
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
    if found == Found::Nothing && state_path(path).is_file() {
        let (path, state) = (path.display(), state_path(path));
        notes.push(format!(
            "{path}: it was empty, and a drive begins anew in it, though {} is there from before",
            state.display()
        ));
    }
    let trouble = store.trouble();
    let pairs = match start.pairs.take() {
        None if pairs::has_pairs(start.drive.drive.config()) => {
            Some(PairFolder::open(&pairs_path(path), arena::source())?)
        }
        pairs => pairs,
    };
    let Some(pairs) = pairs else { return Ok(Opened { store: Box::new(store), wakers, trouble }) };
    let mut pairs = PairStore::new(pairs)?;
    pairs.tell_with(&trouble);
    wakers.push(copy_descriptor(pairs.wake_descriptor())?);
    let store = store.with_values(Box::new(pairs));
    Ok(Opened { store: Box::new(store), wakers, trouble })
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
        if std::fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
            return Err(format!("{} is no ordinary file", path.display()));
        }
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
