//! Drives that were made ready, kept in a folder for the next run that begins with the same: what prepares a
//! drive is a function of the drive, the way of preparation, what the flows are like, and the build
//! ([`BUILD`]). All of that together names an entry, so an entry is never wrong, only unused.
//!
//! An entry is a file: a magic line, the length of a header in four bytes, the header as JSON, the drive's
//! snapshot ([`Drive::snapshot`], or only what preconditioning has made of it) and a checksum (XXH3, 128 bits) of all that. It is written under another
//! name and renamed, and never changed then. Whatever is wrong with the folder or an entry, the drive is
//! made ready without it. Entries belong to the user that runs this: those of others are not read.

use crate::BUILD;
use mynah_memory::MappedFile;
use mynah_model::Drive;
use mynah_model::config::Config;
use mynah_model::precondition::Prepared;
use mynah_result::output::PendingFile;
use postcard::Deserializer;
use postcard::de_flavors::Slice;
use rustix::fs::{Access, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write as _};
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use twox_hash::XxHash3_128;

const MAGIC: &[u8] = b"mynah.prepared/1\n";
const CHECKSUM: usize = 16;
/// Entries' names are a key and this: nothing else in the folder is listed, counted or removed.
const ENDING: &str = ".prepared";
/// Hexadecimal digits of a key.
const DIGITS: usize = 32;
/// Longest header that is read, in bytes.
const HEADER_MAX: usize = 16 << 20;
/// What a folder holds at most, unless something else is said; and the part of a file system's free room
/// that it takes at most then, with what it holds already.
pub const BOUND: u64 = 2 << 30;
const PART_OF_FREE: u64 = 10;
/// What is written is whole within this time of the latest use of any entry, or never will be.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Of how many entries there is room at least, where runs follow one another that are all different.
const ENTRIES_MIN: u64 = 16;

/// The folder that all of this process uses, unless something else is said.
static OF_PROCESS: OnceLock<StateCache> = OnceLock::new();

/// A folder of drives that were made ready. Clones share it, and so may other processes.
#[derive(Clone, Debug)]
pub struct StateCache {
    folder: PathBuf,
    /// `None`: nothing was said.
    bound: Option<u64>,
    of_many: bool,
}

/// What an entry is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The build that has made it ([`BUILD`]).
    pub build: String,
    /// What the drive was made ready for.
    pub of: String,
}

/// What the file of an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    Drive(About),
    /// Somebody else's, which is not used.
    AnotherUser,
    /// None of ours, or damaged.
    Unknown,
}

/// An entry, as a listing has it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub path: PathBuf,
    pub bytes: u64,
    /// When it was made or used last, where the file system says it.
    pub last_used: Option<SystemTime>,
    pub contents: Contents,
}

#[derive(Serialize, Deserialize)]
struct Header<T> {
    about: About,
    /// The entry's name: a file that was given another is of another drive.
    key: String,
    more: T,
}

/// Names an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(String);

impl Key {
    /// The name of what follows from `parts`, whose `Debug` has to say all that there is, and this build.
    pub(crate) fn of(parts: fmt::Arguments<'_>) -> Key {
        struct Hash(Sha256);
        impl fmt::Write for Hash {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.update(text);
                Ok(())
            }
        }
        let mut hash = Hash(Sha256::new());
        // A hash takes everything.
        let _ = write!(hash, "{BUILD}\n{parts}");
        let digest = hash.0.finalize();
        Key(digest[..DIGITS / 2].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// A writer that ends when more comes than is to be, and the checksum of what came.
struct Bounded<W> {
    to: W,
    left: u64,
    hash: XxHash3_128,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.hash.write(bytes);
        self.to.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl StateCache {
    /// The folder at `folder`, which is made when there is something to keep.
    pub fn at(folder: PathBuf) -> StateCache {
        StateCache { folder, bound: None, of_many: false }
    }

    /// What `choice` says, as `--state-cache` has it: `off`, or a folder. Without one it is that of the
    /// environment (`MYNAH_STATE_CACHE`, likewise), or `mynah/states` in the user's folder of such things
    /// (`$XDG_CACHE_HOME`, `~/.cache`).
    pub fn chosen(choice: Option<&Path>) -> Option<StateCache> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let choice =
            choice.map(Path::to_owned).or_else(|| set("MYNAH_STATE_CACHE").map(PathBuf::from));
        let folder = match choice {
            Some(choice) if choice.as_os_str().eq_ignore_ascii_case("off") => return None,
            Some(folder) => folder,
            None => {
                let of_user = set("XDG_CACHE_HOME").map(PathBuf::from);
                let of_user = of_user.filter(|folder| folder.is_absolute());
                let in_home = || set("HOME").map(|home| Path::new(&home).join(".cache"));
                of_user.or_else(in_home)?.join("mynah/states")
            }
        };
        Some(StateCache::at(folder))
    }

    /// The same folder, that holds so many bytes at most.
    pub fn bounded(self, bound: u64) -> StateCache {
        StateCache { bound: Some(bound), ..self }
    }

    /// The same folder, for many runs that are all different: what takes too much of it is not kept, since
    /// it would be gone before anybody asks for it.
    pub fn of_many(self) -> StateCache {
        StateCache { of_many: true, ..self }
    }

    /// Has everything in this process that makes drives ready use it from now on. What was set first stays.
    pub fn use_everywhere(self) {
        let _ = OF_PROCESS.set(self);
    }

    /// What [`StateCache::use_everywhere`] has set; nothing, if nobody has.
    pub(crate) fn of_process() -> Option<StateCache> {
        OF_PROCESS.get().cloned()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it holds at most, in bytes.
    pub fn bound(&self) -> u64 {
        self.bound.unwrap_or_else(|| {
            let there = self.folder.ancestors().find_map(|it| rustix::fs::statvfs(it).ok());
            let free = there.map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize));
            BOUND.min((free + self.held()) / PART_OF_FREE)
        })
    }

    /// Whether it would hold more if the file system had more room.
    pub fn is_bounded_by_room(&self) -> bool {
        self.bound.is_none() && self.bound() < BOUND
    }

    /// The bytes that it holds, with what is being written.
    pub fn held(&self) -> u64 {
        self.files().iter().map(|(_, metadata)| metadata.len()).sum()
    }

    /// The largest entry that is kept.
    fn entry_max(&self) -> u64 {
        match self.of_many {
            true => self.bound() / ENTRIES_MIN,
            false => self.bound(),
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}{ENDING}", key.0))
    }

    /// The drive of `config` that was kept under this name, and what was said of it.
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        key: &Key,
        config: &Config,
    ) -> Option<(T, Drive)> {
        self.read(key, |snapshot| Drive::from_snapshot(config.clone(), snapshot).ok())
    }

    /// The state that was kept under this name, and what was said of it.
    pub(crate) fn get_prepared<T: DeserializeOwned>(&self, key: &Key) -> Option<(T, Prepared)> {
        self.read(key, |snapshot| Prepared::deserialize(snapshot).ok())
    }

    fn read<T: DeserializeOwned, R>(
        &self,
        key: &Key,
        read: impl for<'a> FnOnce(&mut Deserializer<'a, Slice<'a>>) -> Option<R>,
    ) -> Option<(T, R)> {
        let file = open_own(&self.path(key)).ok()?;
        let bytes = MappedFile::new(&file).ok()?;
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>()?;
        if XxHash3_128::oneshot(body).to_le_bytes() != *checksum {
            return None;
        }
        let (header, snapshot) = split(body)?;
        let header: Header<T> = serde_json::from_slice(header).ok()?;
        if header.key != key.0 {
            return None;
        }
        let mut from = Deserializer::from_bytes(snapshot);
        let kept = read(&mut from)?;
        if !from.finalize().ok()?.is_empty() {
            return None;
        }
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let same = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let used = Timestamps { last_access: same, last_modification: now };
        // Where that cannot be noted the entry goes early.
        let _ = rustix::fs::futimens(&file, &used);
        self.make_room();
        Some((header.more, kept))
    }

    /// Keeps a snapshot under this name, with `more`, if it can: what is not kept is made ready again.
    pub(crate) fn put(
        &self,
        key: &Key,
        of: String,
        more: &impl Serialize,
        snapshot: &impl Serialize,
    ) {
        if self.try_put(key, of, more, snapshot).is_err() {
            self.make_room();
        }
    }

    fn try_put(
        &self,
        key: &Key,
        of: String,
        more: &impl Serialize,
        snapshot: &impl Serialize,
    ) -> io::Result<()> {
        let about = About { build: BUILD.to_owned(), of };
        let header = serde_json::to_vec(&Header { about, key: key.0.clone(), more })?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.path(key);
        // A pipe would be written to, once somebody reads it.
        if fs::symlink_metadata(&path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            fs::remove_file(&path)?;
        }
        let file = PendingFile::create_private(&path).map_err(io::Error::other)?;
        let to = BufWriter::with_capacity(1 << 20, file.file()?);
        let mut to = Bounded { to, left: self.entry_max(), hash: XxHash3_128::new() };
        to.write_all(MAGIC)?;
        to.write_all(&(header.len() as u32).to_le_bytes())?;
        to.write_all(&header)?;
        let mut to = BufWriter::with_capacity(1 << 16, to);
        postcard::to_io(snapshot, &mut to).map_err(io::Error::other)?;
        let mut to = to.into_inner().map_err(io::IntoInnerError::into_error)?;
        let checksum = to.hash.finish_128();
        to.write_all(&checksum.to_le_bytes())?;
        to.flush()?;
        self.make_room();
        file.keep().map_err(io::Error::other)
    }

    /// Removes what processes that were killed have left, and what was not used for longest, as far as all
    /// that is there and being written is too much.
    fn make_room(&self) {
        let (bound, mut held) = (self.bound(), self.held());
        let mut entries = self.files();
        entries.sort_by_key(|(_, metadata)| metadata.modified().ok());
        let latest = entries.last().and_then(|(_, metadata)| metadata.modified().ok());
        let is_abandoned = |path: &Path, written: Option<SystemTime>| {
            let age = latest.zip(written).and_then(|(latest, it)| latest.duration_since(it).ok());
            !is_whole(path) && age.is_some_and(|age| age > ABANDONED)
        };
        for (path, metadata) in entries {
            if held <= bound && !is_abandoned(&path, metadata.modified().ok()) {
                continue;
            }
            held -= metadata.len();
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }

    /// The files of entries, and of those that are being written, or never were to the end.
    fn files(&self) -> Vec<(PathBuf, fs::Metadata)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // While one is written its name has more before and after it ([`PendingFile`]).
            is_entry(&name) || name.strip_prefix('.').is_some_and(|it| rest_of_entry(it).is_some())
        });
        let files = ours.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
        files.filter(|(_, metadata)| metadata.is_file()).collect()
    }

    /// How many files are being written, or never were to the end, and their bytes.
    pub fn unfinished(&self) -> (usize, u64) {
        let files = self.files().into_iter().filter(|(path, _)| !is_whole(path));
        files.fold((0, 0), |(count, bytes), (_, file)| (count + 1, bytes + file.len()))
    }

    /// Why nothing can be kept there, if that is known: runs say nothing of it.
    pub fn obstacle(&self) -> Option<io::Error> {
        let nearest = self.folder.ancestors().find(|it| fs::symlink_metadata(it).is_ok())?;
        if !nearest.is_dir() {
            return Some(io::ErrorKind::NotADirectory.into());
        }
        rustix::fs::access(nearest, Access::WRITE_OK | Access::EXEC_OK).err().map(io::Error::from)
    }

    /// What is in it, what was used last first.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |(path, metadata): (PathBuf, fs::Metadata)| Entry {
            contents: match about(&path) {
                Some(about) => Contents::Drive(about),
                None if metadata.uid() != rustix::process::geteuid().as_raw() => {
                    Contents::AnotherUser
                }
                None => Contents::Unknown,
            },
            bytes: metadata.len(),
            last_used: metadata.modified().ok(),
            path,
        };
        let files = self.files().into_iter().filter(|(path, _)| is_whole(path));
        let mut entries: Vec<Entry> = files.map(entry).collect();
        entries
            .sort_by(|one, other| (other.last_used, &other.path).cmp(&(one.last_used, &one.path)));
        entries
    }

    /// Removes all entries, and what processes that were killed have left of some; how many files, and of
    /// how many bytes.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn clear(&self) -> io::Result<(usize, u64)> {
        let (mut count, mut bytes) = (0, 0);
        match fs::read_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for (path, metadata) in self.files() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => (count, bytes) = (count + 1, bytes + metadata.len()),
            }
        }
        Ok((count, bytes))
    }
}

/// What follows an entry's name, if `name` begins with one.
fn rest_of_entry(name: &str) -> Option<&str> {
    let (key, rest) = name.split_at_checked(DIGITS)?;
    let is_key = key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    rest.strip_prefix(ENDING).filter(|_| is_key)
}

fn is_entry(name: &str) -> bool {
    rest_of_entry(name) == Some("")
}

/// Whether it is the file of an entry that was written to its end.
fn is_whole(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_entry(&name.to_string_lossy()))
}

/// Opens an ordinary file that belongs to this user.
fn open_own(path: &Path) -> io::Result<File> {
    // A pipe is not waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let own = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    own.then_some(file).ok_or_else(|| io::ErrorKind::PermissionDenied.into())
}

/// Header and snapshot of an entry's bytes without their checksum.
fn split(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = body.strip_prefix(MAGIC)?.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    rest.split_at_checked(length).filter(|_| length <= HEADER_MAX)
}

/// What an entry says it is of. Whether it is whole has not been looked at then.
fn about(path: &Path) -> Option<About> {
    use std::io::Read;
    let mut file = open_own(path).ok()?;
    let mut begin = [0; MAGIC.len() + 4];
    file.read_exact(&mut begin).ok()?;
    let length = u32::from_le_bytes(*begin.strip_prefix(MAGIC)?.first_chunk()?);
    if length as usize > HEADER_MAX {
        return None;
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).ok()?;
    let header: Header<serde::de::IgnoredAny> = serde_json::from_slice(&header).ok()?;
    Some(header.about)
}
