//! A disk of this machine's kernel, opened: what it is, how large it is, and what its I/Os are multiples of.
//!
//! Everything is opened with O_DIRECT, so that I/Os go to the device and not to the page cache. To write, a
//! block device is claimed with O_EXCL: the kernel refuses that while it, or a part of it, is mounted or has
//! another holder. A file keeps its size.

use rustix::fs::{AtFlags, OFlags, SeekFrom, StatxFlags, fstatfs, ioctl_blksszget, seek, statx};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File systems in memory (statfs(2)), whose files no I/O leaves.
const IN_MEMORY: [(u32, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
/// Names of other file systems (statfs(2)).
const FILE_SYSTEMS: [(u32, &str); 6] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0x794c_7630, "overlayfs"),
];
/// Units of I/Os that are usable here, in bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 512..=65_536;

/// Why a disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The system refuses it.
    #[error("cannot open {}: {error}", path.display())]
    Open {
        /// The disk.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is to be written, and somebody else has it.
    #[error(
        "{} is in use: it or a part of it is mounted, or belongs to swap, RAID, LVM or another program",
        .0.display()
    )]
    InUse(PathBuf),
    /// It is neither a block device nor a regular file.
    #[error("{} is {what}, no block device and no regular file", path.display())]
    Kind {
        /// What is there.
        path: PathBuf,
        /// What that is.
        what: &'static str,
    },
    /// Its file system has no I/O past the page cache.
    #[error(
        "{} lies on a file system that refuses O_DIRECT: its I/Os would be those of the page cache",
        .0.display()
    )]
    NoDirect(PathBuf),
    /// Its file system has no device beneath.
    #[error("{} lies in memory ({file_system}): no device would be measured", path.display())]
    InMemory {
        /// The file.
        path: PathBuf,
        /// The file system's name.
        file_system: &'static str,
    },
    /// It is shorter than its smallest I/O.
    #[error("{} has {bytes} bytes, and its I/Os are multiples of {block_bytes}", path.display())]
    Short {
        /// The disk.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The unit of its I/Os.
        block_bytes: u64,
    },
    /// Its unit is none that I/Os can have here.
    #[error("I/Os of {} are multiples of {block_bytes} bytes, which is not supported", path.display())]
    Blocks {
        /// The disk.
        path: PathBuf,
        /// The unit of its I/Os.
        block_bytes: u64,
    },
}

impl DiskError {
    /// What the user can do about it, if that is known.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            DiskError::Open { error, .. } => match error.kind() {
                io::ErrorKind::PermissionDenied => Some(
                    "block devices are for root and the group `disk`; in a container they have to be \
                     handed in (docker run --device)",
                ),
                io::ErrorKind::NotFound => {
                    Some("`lsblk` lists block devices; a file has to be there, in its full size")
                }
                _ => None,
            },
            DiskError::InUse(_) => {
                Some("unmount it first, or name another; reads (--rw randread) need no such claim")
            }
            DiskError::Kind { .. } => {
                Some("`lsblk` lists block devices; a drive of NVMe is /dev/nvme0n1, not /dev/nvme0")
            }
            DiskError::NoDirect(_) | DiskError::InMemory { .. } => Some(
                "valid are a block device, and a file on a disk's file system such as ext4 or xfs",
            ),
            DiskError::Short { .. } => {
                Some("a file keeps its size: `fallocate -l 8G FILE` makes one with its blocks")
            }
            DiskError::Blocks { .. } => None,
        }
    }
}

/// A block device or a regular file of this machine's kernel, open past the page cache. Clones are the
/// same open file, with one claim.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Open>);

#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    bytes: u64,
    block_shift: u8,
    is_device: bool,
    writable: bool,
    trims: bool,
    model: String,
}

impl Disk {
    /// Opens the block device or file at `path`, to write it as well or only to read it.
    ///
    /// # Errors
    /// See [`DiskError`].
    pub fn open(path: &Path, writes: bool) -> Result<Disk, DiskError> {
        let failed = |error| DiskError::Open { path: path.to_owned(), error };
        let found = std::fs::metadata(path).map_err(failed)?;
        let is_device = kind(path, &found)?;
        let mut flags = OFlags::DIRECT | OFlags::CLOEXEC;
        flags.set(OFlags::EXCL, writes && is_device);
        let opened = OpenOptions::new()
            .read(true)
            .write(writes)
            .custom_flags(flags.bits() as i32)
            .open(path);
        let file =
            opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::BUSY) => DiskError::InUse(path.to_owned()),
                Some(Errno::INVAL) => DiskError::NoDirect(path.to_owned()),
                _ => failed(error),
            })?;
        let opened = file.metadata().map_err(failed)?;
        if kind(path, &opened)? != is_device {
            return Err(failed(io::Error::other("it became another file meanwhile")));
        }
        let system = |error: Errno| failed(error.into());
        let (size, block_bytes, model) = if is_device {
            let size = seek(&file, SeekFrom::End(0)).map_err(system)?;
            (
                size,
                u64::from(ioctl_blksszget(&file).map_err(system)?),
                of_device(path, opened.rdev()),
            )
        } else {
            let kind = fstatfs(&file).map_err(system)?.f_type as u32;
            if let Some((_, file_system)) = IN_MEMORY.iter().find(|(it, _)| *it == kind) {
                return Err(DiskError::InMemory { path: path.to_owned(), file_system });
            }
            let named = FILE_SYSTEMS.iter().find(|(it, _)| *it == kind);
            let model = named.map_or("a file".to_owned(), |(_, name)| format!("a file on {name}"));
            (opened.len(), file_unit(path, &file, &opened)?, model)
        };
        if !block_bytes.is_power_of_two() || !BLOCK_BYTES.contains(&block_bytes) {
            return Err(DiskError::Blocks { path: path.to_owned(), block_bytes });
        }
        if size < block_bytes {
            return Err(DiskError::Short { path: path.to_owned(), bytes: size, block_bytes });
        }
        Ok(Disk(Arc::new(Open {
            file,
            path: path.to_owned(),
            bytes: size / block_bytes * block_bytes,
            block_shift: block_bytes.trailing_zeros() as u8,
            is_device,
            writable: writes,
            trims: writes && (!is_device || discards(opened.rdev())),
            model,
        })))
    }

    /// The open file.
    pub(super) fn file(&self) -> &File {
        &self.0.file
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Its size in whole blocks, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Bytes of a block, as a power of two: what offsets and lengths are multiples of.
    pub fn block_shift(&self) -> u8 {
        self.0.block_shift
    }

    /// Whether it is a block device, and not a file.
    pub fn is_device(&self) -> bool {
        self.0.is_device
    }

    /// Whether it was opened to be written.
    pub fn is_writable(&self) -> bool {
        self.0.writable
    }

    /// Whether it was opened to be written and takes trims. Of a file that is what its file system says
    /// when it is asked to.
    pub fn can_trim(&self) -> bool {
        self.0.trims
    }

    /// What the kernel calls it: a device's model or name, or the kind of file.
    pub fn model(&self) -> &str {
        &self.0.model
    }
}

/// Whether it is a block device.
///
/// # Errors
/// If it is no regular file either.
fn kind(path: &Path, found: &Metadata) -> Result<bool, DiskError> {
    let kind = found.file_type();
    let what = if kind.is_block_device() {
        return Ok(true);
    } else if kind.is_file() {
        return Ok(false);
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a pipe"
    };
    Err(DiskError::Kind { path: path.to_owned(), what })
}

/// What offsets and lengths of O_DIRECT are multiples of in a file: what statx(2) says of it (Linux 6.1),
/// or its file system's block, which always will do.
fn file_unit(path: &Path, file: &File, opened: &Metadata) -> Result<u64, DiskError> {
    match statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(said) if said.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            match u64::from(said.stx_dio_offset_align) {
                0 => Err(DiskError::NoDirect(path.to_owned())),
                unit => Ok(unit.max(*BLOCK_BYTES.start())),
            }
        }
        _ => Ok(opened.blksize()),
    }
}

/// The folder of a block device in sysfs, and that of the device that it is a partition of.
fn folders(device: u64) -> [PathBuf; 2] {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let own = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let above = own.canonicalize().ok().and_then(|own| own.parent().map(Path::to_owned));
    [own, above.unwrap_or_default()]
}

/// What a file of the device's folder says, or of the device's that it is a partition of.
fn said(device: u64, what: &str) -> Option<String> {
    let read = |folder: PathBuf| std::fs::read_to_string(folder.join(what)).ok();
    let text = folders(device).into_iter().find_map(read)?;
    let printable = |it: char| if it.is_control() { '?' } else { it };
    Some(text.trim().chars().map(printable).collect::<String>()).filter(|text| !text.is_empty())
}

/// Model of a block device, or its name if it has none.
fn of_device(path: &Path, device: u64) -> String {
    let name = || path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    said(device, "device/model").unwrap_or_else(name)
}

/// Whether a block device takes discards.
fn discards(device: u64) -> bool {
    said(device, "queue/discard_max_bytes").is_some_and(|most| most != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_disk_is_refused_by_what_it_is() {
        let said = |path: &str| Disk::open(Path::new(path), false).unwrap_err().to_string();
        assert_eq!(said("/proc"), "/proc is a folder, no block device and no regular file");
        assert_eq!(
            said("/dev/null"),
            "/dev/null is a character device, no block device and no regular file"
        );
        assert!(said("/dev/there-is-none").starts_with("cannot open /dev/there-is-none: "));
        if let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") {
            let error = Disk::open(file.path(), false).unwrap_err();
            // Before Linux 6.6 the open itself is refused.
            assert!(
                matches!(error, DiskError::InMemory { .. } | DiskError::NoDirect(_)),
                "{error}"
            );
            assert!(error.help().unwrap().contains("ext4"));
        }
    }
}
