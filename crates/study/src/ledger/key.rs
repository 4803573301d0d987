//! What identifies a run: a hash of all that its result follows from.
//!
//! That is the build, the drive, the flows, the options and the contents of the files that are read,
//! traces and saved states; not where those lie, nor what is written besides. Drive, flows and
//! options are hashed as their types print themselves, so that nothing of them can be forgotten here
//! when they get more: how they do that may change with the build, which is hashed as well.

use super::{BUILD, LedgerError};
use mynah_drive_file::drive_hash;
use mynah_lab::simulation::Simulation;
use mynah_workload::Source;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a SHA-256.
const BYTES: usize = 32;
/// Hexadecimal digits of a key.
pub(super) const DIGITS: usize = 2 * BYTES;

/// Identifies a run: SHA-256 of all that its result follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key([u8; BYTES]);

impl Key {
    /// The key of `simulation`; `files` knows what was read for others.
    ///
    /// # Errors
    /// If a file cannot be read, or read again.
    pub fn of(simulation: &Simulation, files: &mut Files) -> Result<Key, LedgerError> {
        let Simulation { name, config, options, enclosure, alone, require_steady, point, .. } =
            simulation;
        let mut hash = Sha256::new();
        let mut add = |text: String| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        add(BUILD.to_owned());
        add(name.clone());
        add(drive_hash(config));
        add(format!("{config:?}"));
        for flow in &simulation.flows {
            let mut flow = flow.clone();
            if let Source::Trace(trace) = &mut flow.source {
                if trace.is_pipe() {
                    return Err(LedgerError::Pipe);
                }
                trace.path = PathBuf::from(files.digest(&trace.path)?);
            }
            add(format!("{flow:?}"));
        }
        let mut options = options.clone();
        if let Some(path) = &mut options.load_state {
            *path = PathBuf::from(files.digest(path)?);
        }
        add(format!("{options:?} {enclosure:?} {alone} {require_steady}"));
        // Results have it, in the order of its keys.
        add(format!("{:?}", point.iter().cloned().collect::<BTreeMap<_, _>>()));
        Ok(Key(hash.finalize().into()))
    }

    /// The key of a value derived from this run; `what` names the derivation and its version.
    pub fn of_value(&self, what: &str) -> Key {
        Key(Sha256::new().chain_update(self.0).chain_update(what).finalize().into())
    }

    /// Parses a key in hexadecimal; `None` if it is none.
    pub fn parse(text: &str) -> Option<Key> {
        if text.len() != DIGITS || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = &text[2 * index..2 * index + 2];
            if digits.starts_with('+') {
                return None;
            }
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Key(bytes))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Hash over the keys of several runs, in order.
pub(super) fn of_all(keys: &[Key]) -> String {
    let mut hash = Sha256::new();
    keys.iter().for_each(|key| hash.update(key.0));
    Key(hash.finalize().into()).to_string()
}

/// Cached hashes of the files that runs read. A file is read again if it has changed.
#[derive(Debug, Default)]
pub struct Files {
    digests: BTreeMap<PathBuf, (Stamp, String)>,
}

/// Metadata that shows whether a file has changed: device, inode, length and modification time.
type Stamp = [i128; 5];

impl Files {
    /// SHA-256 of a file's contents, as hexadecimal digits.
    ///
    /// # Errors
    /// If it cannot be read, or read again.
    pub fn digest(&mut self, path: &Path) -> Result<String, LedgerError> {
        let input = |error| LedgerError::Input { path: path.to_owned(), error };
        let metadata = std::fs::metadata(path).map_err(input)?;
        if !metadata.is_file() {
            return Err(LedgerError::Pipe);
        }
        let stamp = [
            metadata.dev().into(),
            metadata.ino().into(),
            metadata.len().into(),
            metadata.mtime().into(),
            metadata.mtime_nsec().into(),
        ];
        if let Some((same, digest)) = self.digests.get(path)
            && *same == stamp
        {
            return Ok(digest.clone());
        }
        let digest = sum(path).map_err(input)?.to_string();
        self.digests.insert(path.to_owned(), (stamp, digest.clone()));
        Ok(digest)
    }
}

fn sum(path: &Path) -> io::Result<Key> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut part = vec![0; 1 << 18];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(Key(hash.finalize().into())),
            read => hash.update(&part[..read]),
        }
    }
}
