//! Saved states of simulated drives, as files.
//!
//! A file is `mynah.state/3` and a line end, the length of a header in four bytes, the header
//! as JSON, the model's bytes ([`mynah_model::Drive::save_state`]) as zlib deflates them, and
//! SHA-256 over all of that. In a `mynah.state/2` the model's bytes are as they are. Where flows
//! have used key-value namespaces the model's bytes are followed by the keys of each that the
//! header names: keys are the host's, and a run that begins in the state is to find them. A state
//! belongs to the drive it was saved from: it is bound to the drive's hash, and refused by any
//! other drive, as is a file that is damaged. What the drive was stands in the header too, so that
//! the other can be told what it differs in.

mod body;

use self::body::{Body, Summed};
use crate::key_space::KeySpace;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use mynah_drive_file::{Differences, differences, drive_hash, to_toml};
use mynah_model::config::Config;
use mynah_model::io::NamespaceId;
use mynah_model::{Drive, Policies, StateError};
use mynah_result::output::{OutputError, PendingFile};
use mynah_workload::key_value::KeySize;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"mynah.state/3\n";
/// Magic of states whose model bytes are not compressed.
const MAGIC_PLAIN: &[u8] = b"mynah.state/2\n";
/// Prefix of the magics of all versions.
const ANY_VERSION: &[u8] = b"mynah.state/";
/// Longest header that is read, in bytes.
const HEADER_MAX: u32 = 1 << 20;
const CHECKSUM: usize = 32;
const WRITTEN_BY: &str = "`mynah sim --save-state FILE` writes one, for the same drive and version";

/// What the header of a state says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateHeader {
    pub drive: String,
    /// [`drive_hash`] of the drive.
    pub drive_hash: String,
    /// The drive file. Files of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_text: Option<String>,
    /// Describes the run after which it was saved.
    pub after: String,
    /// Key-value namespaces whose keys it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<SavedKeys>,
}

/// A key-value namespace whose keys a state has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedKeys {
    /// Namespace identifier, from 1.
    pub namespace: u32,
    /// How long its keys are, as flows say it.
    pub key_size: String,
}

impl StateHeader {
    /// What the drive that was saved differs in from `here`.
    pub fn differences(&self, here: &Config) -> Differences {
        differences(self.drive_text.as_deref(), &self.drive_hash, here)
    }
}

/// Why a saved state cannot be used.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum SavedStateError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    #[diagnostic(help("{WRITTEN_BY}"))]
    Io {
        /// The state's file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file is no saved state, or damaged.
    #[error("{}: {problem}", path.display())]
    #[diagnostic(help("{WRITTEN_BY}"))]
    Format {
        /// The state's file.
        path: PathBuf,
        /// What is wrong with the contents.
        problem: String,
    },
    /// It belongs to another drive.
    #[error(
        "{}: saved from drive `{drive}` [{saved}], and this is another [{here}]: {differences}",
        path.display()
    )]
    #[diagnostic(help("a state fits the very drive it was saved from, changes by --set included"))]
    OtherDrive {
        /// The state's file.
        path: PathBuf,
        /// Name of the drive in the state.
        drive: String,
        /// Drive hash in the state.
        saved: String,
        /// The hash of the drive at hand.
        here: String,
        /// Settings in which the two drives differ.
        differences: Box<Differences>,
    },
    /// The drive could not be saved, or takes no state.
    #[error("{}: {error}", path.display())]
    State {
        /// The state's file.
        path: PathBuf,
        /// The model's error.
        error: StateError,
    },
    /// The file cannot be written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
}

/// SHA-256 over all of a state's file before it.
pub type Checksum = [u8; CHECKSUM];

/// The header of a state, as JSON.
fn header(name: &str, config: &Config, after: &str, keys: &[&KeySpace]) -> Vec<u8> {
    let saved = |space: &&KeySpace| SavedKeys {
        namespace: space.namespace.0,
        key_size: space.sizes.text(),
    };
    let mut header = StateHeader {
        drive: name.to_owned(),
        drive_hash: drive_hash(config),
        drive_text: Some(to_toml(name, "", config, &[])),
        after: after.to_owned(),
        keys: keys.iter().map(saved).collect(),
    };
    let json = |header: &StateHeader| serde_json::to_vec(header).expect("a header is plain data");
    let bytes = json(&header);
    if bytes.len() <= HEADER_MAX as usize {
        return bytes;
    }
    // Thousands of namespaces. The text only explains.
    header.drive_text = None;
    json(&header)
}

/// Saves `drive`, which is at rest, to `file`, on stable storage. Returns its checksum.
///
/// # Errors
/// If it is not at rest, or the file cannot be written.
pub fn save(
    drive: &mut Drive<impl Policies>,
    name: &str,
    after: &str,
    file: PendingFile,
) -> Result<Checksum, SavedStateError> {
    save_with_keys(drive, name, after, &[], file)
}

/// The same, with the keys of key-value namespaces.
///
/// # Errors
/// See [`save`].
pub(crate) fn save_with_keys(
    drive: &mut Drive<impl Policies>,
    name: &str,
    after: &str,
    keys: &[&KeySpace],
    file: PendingFile,
) -> Result<Checksum, SavedStateError> {
    let path = file.path().to_owned();
    let header = header(name, drive.config(), after, keys);
    let mut written = || -> std::io::Result<Result<Checksum, StateError>> {
        let out = BufWriter::with_capacity(1 << 20, file.file()?);
        let mut out = Summed::new(out);
        out.write_all(MAGIC)?;
        out.write_all(&(header.len() as u32).to_le_bytes())?;
        out.write_all(&header)?;
        // Who ends a drive waits for it, and the order of a steady state is random: no level helps.
        let mut deflated =
            BufWriter::with_capacity(1 << 16, ZlibEncoder::new(out, Compression::fast()));
        let mut failed = Ok(());
        let mut write = |bytes: &[u8]| {
            if failed.is_ok() {
                failed = deflated.write_all(bytes);
            }
        };
        let saved = drive.save_state(&mut write);
        keys.iter().for_each(|space| space.save(&mut write));
        failed?;
        let deflated = deflated.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        let (mut out, checksum) = deflated.finish()?.end();
        out.write_all(&checksum)?;
        out.flush()?;
        let out = out.get_ref();
        // There is nothing to wait for where the file is a pipe, say.
        if out.metadata()?.is_file() {
            out.sync_all()?;
        }
        Ok(saved.map(|()| checksum))
    };
    match written() {
        Ok(Ok(checksum)) => {
            file.keep()?;
            Ok(checksum)
        }
        Ok(Err(error)) => Err(SavedStateError::State { path, error }),
        Err(error) => Err(file.error(error).into()),
    }
}

/// The checksum that the file at `path` ends with, if it has one and is what it says.
///
/// # Errors
/// If the file cannot be read, or is too short.
pub fn checksum(path: &Path) -> std::io::Result<Checksum> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    let Some(at) = length.checked_sub(CHECKSUM as u64) else {
        let problem = format!("not a saved state: it has {length} bytes, which is too few");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, problem));
    };
    file.seek(SeekFrom::Start(at))?;
    let mut checksum = [0; CHECKSUM];
    file.read_exact(&mut checksum)?;
    Ok(checksum)
}

/// Opens an ordinary file: a pipe would wait for somebody who writes to it.
fn open(path: &Path) -> std::io::Result<File> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        let problem = "not an ordinary file, as saved states are";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, problem));
    }
    File::open(path)
}

/// The name of a state in recordings that begin in it: its checksum, in hexadecimal digits.
pub fn name(checksum: &Checksum) -> String {
    checksum.iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// Gives `drive`, which has not been used, the state in the file at `path`.
///
/// # Errors
/// If the file does not fit. The drive must not be used then.
pub fn load(drive: &mut Drive<impl Policies>, path: &Path) -> Result<StateHeader, SavedStateError> {
    Ok(load_with_keys(drive, path)?.0)
}

/// The same; and the keys of its key-value namespaces, if it says them.
///
/// # Errors
/// See [`load`].
pub(crate) fn load_with_keys(
    drive: &mut Drive<impl Policies>,
    path: &Path,
) -> Result<(StateHeader, Vec<KeySpace>), SavedStateError> {
    let io = |error| SavedStateError::Io { path: path.into(), error };
    let file = open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let input = BufReader::with_capacity(1 << 20, file);
    read_with_keys(drive, path, input, length)
}

/// The same from any bytes; `length` of them.
///
/// # Errors
/// See [`load`].
pub fn read(
    drive: &mut Drive<impl Policies>,
    path: &Path,
    input: impl Read,
    length: u64,
) -> Result<StateHeader, SavedStateError> {
    Ok(read_with_keys(drive, path, input, length)?.0)
}

fn read_with_keys(
    drive: &mut Drive<impl Policies>,
    path: &Path,
    input: impl Read,
    length: u64,
) -> Result<(StateHeader, Vec<KeySpace>), SavedStateError> {
    let format =
        |problem: &str| SavedStateError::Format { path: path.into(), problem: problem.into() };
    let Some(rest) = length.checked_sub(CHECKSUM as u64) else {
        return Err(format("not a saved state: it ends too early"));
    };
    let mut body = Body::new(input, rest);
    let is_deflated = take_magic(path, &mut body)?;
    let header = take_header(path, &mut body);
    if is_deflated {
        body = body.inflated();
    }
    let taken = header.and_then(|header| take(drive, path, header, &mut body));
    if let Some(error) = body.error() {
        return Err(SavedStateError::Io { path: path.into(), error });
    }
    if taken.is_ok() && body.has_more() {
        return Err(format("there is more in it than a state"));
    }
    // What is damaged may say anything of itself: that it is another drive's, say.
    match body.ends_whole() {
        true => taken,
        false => Err(format("it is damaged, or was truncated: its checksum is wrong")),
    }
}

/// What the file at `path` says it is of. Whether it is whole has not been looked at then.
///
/// # Errors
/// If it cannot be read so far.
pub fn header_of(path: &Path) -> Result<StateHeader, SavedStateError> {
    let io = |error| SavedStateError::Io { path: path.into(), error };
    let mut body = Body::new(BufReader::new(open(path).map_err(io)?), u64::MAX);
    take_magic(path, &mut body)?;
    take_header(path, &mut body)
}

/// Reads the magic; true if the model's bytes are compressed.
fn take_magic(path: &Path, body: &mut Body<impl Read>) -> Result<bool, SavedStateError> {
    let mut magic = [0; MAGIC.len()];
    let begun = body.take(&mut magic);
    let problem = match begun {
        true if magic == MAGIC => return Ok(true),
        true if magic == MAGIC_PLAIN => return Ok(false),
        true if magic.starts_with(ANY_VERSION) => {
            "saved by another version of Mynah, or its first bytes are damaged; this one reads \
             mynah.state/3 and 2"
        }
        _ => "not a saved state (mynah.state/3), or its first bytes are damaged",
    };
    Err(SavedStateError::Format { path: path.into(), problem: problem.into() })
}

/// Takes the header, which follows.
fn take_header(path: &Path, body: &mut Body<impl Read>) -> Result<StateHeader, SavedStateError> {
    let format =
        |problem: &str| SavedStateError::Format { path: path.into(), problem: problem.into() };
    let short = || format("it ends too early");
    let mut size = [0; 4];
    if !body.take(&mut size) {
        return Err(short());
    }
    let size = u32::from_le_bytes(size);
    if size > HEADER_MAX {
        return Err(format("its header is too long"));
    }
    let mut header = vec![0; size as usize];
    if !body.take(&mut header) {
        return Err(short());
    }
    serde_json::from_slice(&header).map_err(|error| format(&format!("its header: {error}")))
}

/// Takes what follows the header.
fn take(
    drive: &mut Drive<impl Policies>,
    path: &Path,
    header: StateHeader,
    body: &mut Body<impl Read>,
) -> Result<(StateHeader, Vec<KeySpace>), SavedStateError> {
    let here = drive_hash(drive.config());
    if header.drive_hash != here {
        let differences = Box::new(header.differences(drive.config()));
        let (drive, saved) = (header.drive, header.drive_hash);
        let path = path.into();
        return Err(SavedStateError::OtherDrive { path, drive, saved, here, differences });
    }
    drive
        .restore_state(&mut |bytes| body.take(bytes))
        .map_err(|error| SavedStateError::State { path: path.into(), error })?;
    let format = |problem: String| SavedStateError::Format { path: path.into(), problem };
    let mut spaces: Vec<KeySpace> = vec![];
    for SavedKeys { namespace, key_size } in &header.keys {
        let namespace = NamespaceId(*namespace);
        let sizes =
            KeySize::parse(key_size).map_err(|problem| format(format!("its keys: {problem}")))?;
        if spaces.iter().any(|space| space.namespace == namespace) {
            return Err(format(format!("it has keys of namespace {} twice", namespace.0)));
        }
        let space = KeySpace::restore(namespace, sizes, drive, &mut |bytes| body.take(bytes));
        spaces.push(space.map_err(|problem| format(problem.into()))?);
    }
    Ok((header, spaces))
}

#[cfg(test)]
mod tests {
    use crate::simulation::Simulation;
    use sha2::Digest;
    use std::io::Read;
    use std::path::Path;

    fn simulation(flow: &str) -> Simulation {
        Simulation::on("enterprise-tlc")
            .unwrap()
            .set("geometry.blocks_per_plane=48")
            .unwrap()
            .set("over_provisioning=20%")
            .unwrap()
            .precondition(crate::experiment::Precondition::None)
            .flow("flow", flow)
            .unwrap()
    }

    #[test]
    fn dirty_data_outlive_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.state");
        let small = |flow: &str| {
            let lazy = ["cache.size=8MiB", "cache.write_back=lru", "cache.high=50%"];
            lazy.iter().fold(simulation(flow), |simulation, set| simulation.set(set).unwrap())
        };
        // A quarter of the cache is written, and nothing of it goes to flash.
        let mut first = small("rw=write bs=16k iodepth=4 size=2MiB");
        first.save_state = Some(path.clone());
        let programmed = |simulation: &Simulation| {
            let result = simulation.run().unwrap().result;
            result.device.map_or((0, 0), |device| (device.flash_programs, device.flash_reads))
        };
        assert_eq!(programmed(&first).0, 0);
        // All of it is read from the cache.
        let mut reads = small("rw=read bs=16k iodepth=4 size=2MiB");
        reads.options.load_state = Some(path.clone());
        assert_eq!(programmed(&reads), (0, 0));
        // Another quarter: still nothing. And as much again: what came first has to go.
        let next = |size: &str| {
            let mut next = small(&format!("rw=write bs=16k iodepth=4 offset=2MiB size={size}"));
            next.options.load_state = Some(path.clone());
            programmed(&next).0
        };
        assert_eq!(next("2MiB"), 0);
        assert!(next("4MiB") > 0);
    }

    /// A mapping table of which little is cached, and blocks chosen blindly: what is collected has
    /// its place written down in more pages than are won back.
    #[test]
    fn a_drive_that_never_comes_to_rest_is_not_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.state");
        let settings = [
            "geometry.blocks_per_plane=100",
            "geometry.pages_per_block=32",
            "over_provisioning=12%",
            "gc.victim=random",
            "gc.write_frontiers=one",
            "mapping.table=cached",
            "mapping.cmt.size=64KiB",
            "mapping.cmt.granularity=page",
        ];
        let mut busy =
            Simulation::on_changed("samsung-48l-tlc", &settings.map(String::from)).unwrap();
        busy = busy.precondition(crate::experiment::Precondition::Steady);
        busy = busy.flow("flow", "rw=randwrite bs=4k number_ios=8").unwrap();
        busy.options.settle = crate::experiment::Settle::Off;
        let unsaved = busy.run().unwrap();
        busy.save_state = Some(path.clone());
        let error = busy.run().unwrap_err();
        assert!(error.to_string().contains("does not come to rest"), "{error}");
        assert!(!path.exists());
        // Nothing of what was measured is lost.
        let crate::SimulationError::Unsaved { measured, .. } = error else { panic!("{error}") };
        assert_eq!(measured.result.flows, unsaved.result.flows);
        assert_eq!(measured.result.notes.last().unwrap(), "the drive's state was not saved");
    }

    /// A state as earlier versions wrote it: without what describes the drive, and not deflated.
    fn without_drive(state: &[u8]) -> Vec<u8> {
        let length = super::MAGIC.len();
        let rest = &state[length..];
        let size = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        let mut header: super::StateHeader = serde_json::from_slice(&rest[4..4 + size]).unwrap();
        assert!(header.drive_text.take().unwrap().contains("[geometry]\nchannels = 16\n"));
        let header = serde_json::to_vec(&header).unwrap();
        let mut model = vec![];
        let deflated = &rest[4 + size..rest.len() - super::CHECKSUM];
        flate2::read::ZlibDecoder::new(deflated).read_to_end(&mut model).unwrap();
        assert!(deflated.len() < model.len() / 4, "{} of {}", deflated.len(), model.len());
        let size = (header.len() as u32).to_le_bytes();
        let mut old = [super::MAGIC_PLAIN, &size, &header, &model].concat();
        let checksum = sha2::Sha256::digest(&old);
        old.extend(checksum);
        old
    }

    #[test]
    fn a_saved_drive_goes_on_and_others_refuse_its_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.state");
        let mut first = simulation("rw=randwrite bs=16k iodepth=8 number_ios=3000");
        first.save_state = Some(path.clone());
        first.run().unwrap();

        let read = "rw=randread bs=16k iodepth=8 number_ios=3000";
        let flash_reads = |measured: &mynah_result::Result| {
            measured.device.as_ref().map_or(0, |device| device.flash_reads)
        };
        assert_eq!(flash_reads(&simulation(read).run().unwrap().result), 0);
        let mut second = simulation(read);
        second.options.load_state = Some(path.clone());
        let once = second.run().unwrap().result;
        assert_eq!(second.run().unwrap().result, once);
        assert!(flash_reads(&once) > 0, "what was written is there");

        let refused = |simulation: Simulation, said: &str| {
            let error = simulation.run().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        };
        let other = |settings: &[&str], file: &Path, said: &[&str]| {
            let drive = settings.iter().fold(simulation(read), |it, set| it.set(set).unwrap());
            let (mut here, hash) = (drive.clone(), mynah_drive_file::drive_hash(&drive.config));
            here.options.load_state = Some(file.to_owned());
            refused(here.clone(), "saved from drive `enterprise-tlc` [");
            refused(here.clone(), &format!("and this is another [{hash}]: "));
            said.iter().for_each(|said| refused(here.clone(), said));
        };
        other(
            &["flash.read=99us"],
            &path,
            &["]: `flash.read` was { lsb = 38us, csb = 45us, msb = 52us } and is 99us"],
        );
        let three = ["gc.paced=false", "firmware.cores=2", "link.lanes=8"];
        other(
            &three,
            &path,
            &[
                "; `firmware.cores` was 8 and is 2; ",
                "; `link.lanes` was 4 and is 8; ",
                "; `gc.paced` was true and is false",
            ],
        );
        // A file of an earlier version does not say what drive it is of, and is taken all the same.
        let old = folder.path().join("old.state");
        std::fs::write(&old, without_drive(&std::fs::read(&path).unwrap())).unwrap();
        other(&["flash.read=99us"], &old, &["which settings differ is not known"]);
        let mut again = simulation(read);
        again.options.load_state = Some(old);
        assert_eq!(again.run().unwrap().result.flows, once.flows);
        const DAMAGED: &str = "it is damaged, or was truncated";
        fn hash_of(bytes: &mut [u8]) -> &mut [u8] {
            let name = b"\"drive_hash\":\"";
            let at = bytes.windows(name.len()).position(|it| it == name).unwrap();
            &mut bytes[at + name.len()..]
        }
        fn layout_of(bytes: &mut [u8]) -> &mut [u8] {
            let header = u32::from_le_bytes(bytes[14..18].try_into().unwrap());
            &mut bytes[18 + header as usize..]
        }
        let bytes = std::fs::read(&path).unwrap();
        let bad = folder.path().join("bad.state");
        for (change, said) in [
            (&(|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2)) as &dyn Fn(&mut Vec<u8>), ""),
            (&|bytes| *bytes.last_mut().unwrap() ^= 1, "checksum"),
            (&|bytes| bytes.extend([0; 40]), "more in it"),
            (&|bytes| bytes[7] ^= 1, "not a saved state"),
            (&|bytes| bytes[12] = b'1', "another version of Mynah, or its first bytes"),
            (&|bytes| bytes.truncate(10), "too early"),
            (&|bytes| bytes.truncate(40), "not a saved state"),
            (&|bytes| bytes.clear(), "too early"),
            // Whatever a damaged file says of itself, that it is damaged comes first.
            (&|bytes| bytes[14..18].fill(0xff), DAMAGED),
            (&|bytes| bytes[15] ^= 1, DAMAGED),
            (&|bytes| bytes[18] ^= 1, DAMAGED),
            (&|bytes| hash_of(bytes)[3] ^= 1, DAMAGED),
            // The layout, of which high bits are no version.
            (&|bytes| layout_of(bytes)[0] ^= 1, DAMAGED),
            (&|bytes| layout_of(bytes)[6] ^= 1, DAMAGED),
            (&|bytes| layout_of(bytes)[9] ^= 1, DAMAGED),
            (&|bytes| bytes.truncate(bytes.len() - 1), DAMAGED),
            (&|bytes| bytes.truncate(bytes.len() - super::CHECKSUM), DAMAGED),
        ] {
            let mut damaged = bytes.clone();
            change(&mut damaged);
            std::fs::write(&bad, damaged).unwrap();
            let mut damaged = simulation(read);
            damaged.options.load_state = Some(bad.clone());
            refused(damaged, said);
        }
        // What is no file, is not there, or too short, by both ways to look at it.
        let pipe = folder.path().join("pipe");
        {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        }
        std::fs::write(&bad, b"0123456789").unwrap();
        for (path, said) in [
            (&pipe, "not an ordinary file"),
            (&folder.path().to_owned(), "is a directory"),
            (&folder.path().join("nothing"), "No such file"),
            (&bad, "not a saved state"),
        ] {
            let error = super::checksum(path).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            let mut odd = simulation(read);
            odd.options.load_state = Some(path.clone());
            refused(odd, said);
        }
    }
}
