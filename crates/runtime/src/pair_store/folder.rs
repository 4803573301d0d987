//! A folder of pairs, opened and read before a drive is served.

use super::engine::{About, Engine};
use super::open_error::Problem;
use super::{OpenError, manifest};
use mynah_device::store::StateId;
use mynah_device::{Arena, ArenaSource, Place, RamValues, Values};
use mynah_model::keys::PairId;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Upper bounds of the bytes of a key and of a value, which no drive exceeds.
const KEY_BYTES_MAX: usize = 255;
const VALUE_BYTES_MAX: usize = 32 << 20;
/// Ending of the name of a folder that is being made.
const UNFINISHED: &str = ".new";

/// A value of an earlier process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) place: Place,
    pub(super) bytes: u32,
}

/// The pairs of a set of keys.
#[derive(Debug, Default)]
pub(super) struct Recalled {
    /// Keys in order, each behind its length.
    keys: Vec<u8>,
    values: Vec<Value>,
    /// Identifiers of the pairs.
    names: Vec<PairId>,
}

impl Recalled {
    pub(super) fn pairs(&self) -> impl Iterator<Item = (PairId, &[u8], Value)> {
        let mut rest = &self.keys[..];
        let keys = std::iter::from_fn(move || {
            let (&length, tail) = rest.split_first()?;
            let (key, tail) = tail.split_at_checked(length.into())?;
            rest = tail;
            Some(key)
        });
        let named = self.names.iter().zip(keys).zip(&self.values);
        named.map(|((name, key), value)| (*name, key, *value))
    }
}

/// A pair of an earlier process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptPair<'a> {
    pub pair: PairId,
    pub key: &'a [u8],
    pub bytes: u32,
}

/// A folder with a drive's pairs, locked by this process, and the pairs that were in it.
pub struct PairFolder<A = Vec<u8>> {
    pub(super) path: PathBuf,
    pub(super) engine: Engine,
    pub(super) values: RamValues<A>,
    pub(super) recalled: BTreeMap<u32, Recalled>,
    pub(super) identity: [u8; 16],
    state: Option<StateId>,
}

impl<A> std::fmt::Debug for PairFolder<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairFolder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<A: Arena> PairFolder<A> {
    /// Opens a folder, or makes one, and reads all of it into memory from `source`. Blocks.
    ///
    /// # Errors
    /// If it cannot be used, or is damaged.
    pub fn open(path: &Path, source: ArenaSource<A>) -> Result<PairFolder<A>, OpenError> {
        let opened = open(path).and_then(|(engine, about)| {
            let mut values = RamValues::from_source(source);
            let mut recalled = BTreeMap::new();
            for set in engine.sets() {
                let pairs = read(&engine, set, &mut values)?;
                if !pairs.values.is_empty() {
                    recalled.insert(set, pairs);
                }
            }
            let About { identity, state } = about;
            Ok(PairFolder { path: path.into(), engine, values, recalled, identity, state })
        });
        opened.map_err(|problem| OpenError::new(path, problem))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The sets of keys that have pairs.
    pub fn sets(&self) -> impl Iterator<Item = u32> {
        self.recalled.keys().copied()
    }

    /// The pairs of a set, in the order of their keys.
    pub fn pairs(&self, set: u32) -> impl Iterator<Item = KeptPair<'_>> {
        let recalled = self.recalled.get(&set).into_iter().flat_map(Recalled::pairs);
        recalled.map(|(pair, key, value)| KeptPair { pair, key, bytes: value.bytes })
    }

    /// Gives pairs the identifiers that they have in this saved state of the drive; false if the
    /// folder does not have them.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn name_as(&mut self, state: StateId) -> Result<bool, OpenError> {
        if self.state != Some(state) {
            return Ok(false);
        }
        let mut all = Vec::new();
        for (set, recalled) in &self.recalled {
            let names = self.engine.names(*set);
            let names = names.map_err(|problem| OpenError::new(&self.path, problem))?;
            if names.len() != recalled.values.len() {
                return Ok(false);
            }
            all.push(names);
        }
        for (recalled, names) in self.recalled.values_mut().zip(all) {
            recalled.names = names;
        }
        Ok(true)
    }

    /// Gives pairs identifiers by counting, in the order of their keys.
    pub fn name_anew(&mut self) {
        for recalled in self.recalled.values_mut() {
            recalled.names = (0..recalled.values.len() as u32).map(PairId).collect();
        }
    }
}

/// Opens the engine of a folder, which is created if it does not exist.
fn open(path: &Path) -> Result<(Engine, About), Problem> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => return Err(Problem::Kind),
        Ok(_) if fs::read_dir(path)?.next().is_none() => make(path)?,
        Ok(_) => check(path)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(path)?,
        Err(error) => return Err(error.into()),
    }
    Engine::open(path)
}

/// Makes a folder that appears whole.
fn make(path: &Path) -> Result<(), Problem> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = PathBuf::from(unfinished);
    if unfinished.exists() {
        // Of a process that was killed while it made it.
        check(&unfinished)?;
        fs::remove_dir_all(&unfinished)?;
    }
    // It is its owner's alone: it holds what hosts store.
    DirBuilder::new().mode(0o700).create(&unfinished)?;
    let mut identity = [0; 16];
    while identity == [0; 16] {
        crate::random::fill(&mut identity);
    }
    Engine::create(&unfinished, identity)?;
    fs::rename(&unfinished, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

/// Whether a folder has the engine's files and no others, which the engine would take for its own.
fn check(path: &Path) -> Result<(), Problem> {
    let foreign = |name: &str| Err(Problem::Foreign(format!("`{name}` does not belong there")));
    let is_number = |name: &str| !name.is_empty() && name.bytes().all(|it| it.is_ascii_digit());
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let Some(name) = name.to_str() else { return foreign(&name.to_string_lossy()) };
        let fits = match name {
            "lock" | "version" => kind.is_file(),
            "keyspaces" => kind.is_dir(),
            _ => name.strip_suffix(".jnl").is_some_and(is_number) && kind.is_file(),
        };
        if !fits {
            return foreign(name);
        }
    }
    let tables = path.join("keyspaces");
    if !tables.is_dir() {
        return Err(Problem::Foreign("it has no `keyspaces`".into()));
    }
    for entry in fs::read_dir(tables)? {
        let entry = entry?;
        let name = entry.file_name();
        match name.to_str() {
            Some(name) if is_number(name) && name.len() < 20 && entry.file_type()?.is_dir() => {
                manifest::check(&entry.path())?;
            }
            _ => return foreign(&format!("keyspaces/{}", name.to_string_lossy())),
        }
    }
    Ok(())
}

/// Reads the pairs of a set.
fn read<A: Arena>(
    engine: &Engine,
    set: u32,
    values: &mut RamValues<A>,
) -> Result<Recalled, Problem> {
    let mut recalled = Recalled::default();
    engine.each(set, |key, value| {
        if !(1..=KEY_BYTES_MAX).contains(&key.len()) || value.len() > VALUE_BYTES_MAX {
            let what = format!("a key of {} bytes with a value of {}", key.len(), value.len());
            return Err(Problem::Damaged(what));
        }
        let bytes = value.len() as u32;
        let no_room = || Problem::Io(std::io::ErrorKind::OutOfMemory.into());
        let place = values.reserve(bytes).ok_or_else(no_room)?;
        if let Some(into) = values.bytes_mut(place, bytes) {
            into.copy_from_slice(value);
        }
        recalled.keys.push(key.len() as u8);
        recalled.keys.extend_from_slice(key);
        recalled.values.push(Value { place, bytes });
        Ok(())
    })?;
    recalled.names = (0..recalled.values.len() as u32).map(PairId).collect();
    Ok(recalled)
}
