//! Sockets in the file system at which somebody listens: they come and go with him.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The longest path of a socket (unix(7)), without its closing zero byte.
const PATH_BYTES_MAX: usize = 107;

/// Why nobody can listen there.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Sockets cannot have such long names.
    #[error("{0}: the path of a socket has at most {PATH_BYTES_MAX} bytes")]
    TooLong(PathBuf),
    /// Another program listens there.
    #[error("{0}: another program serves there")]
    InUse(PathBuf),
    /// Something is there, or on the way there, that is no folder.
    #[error("{0} is no folder and cannot become one")]
    NoFolder(PathBuf),
    /// There is something that is no socket.
    #[error("{0} is there, and is no socket")]
    NoSocket(PathBuf),
    /// A system call failed.
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
}

/// A socket at which somebody listens; removed when it is dropped.
#[derive(Debug)]
pub struct LocalListener {
    path: PathBuf,
    /// The socket's file, so that no other is removed.
    identity: (u64, u64),
    socket: OwnedFd,
}

impl LocalListener {
    /// Whether a socket can have this path.
    ///
    /// # Errors
    /// If it is too long.
    pub fn check(path: &Path) -> Result<(), ListenError> {
        match path.as_os_str().len() > PATH_BYTES_MAX {
            true => Err(ListenError::TooLong(path.to_owned())),
            false => Ok(()),
        }
    }

    /// Listens at a path, for this user alone. A socket that nobody answers at is removed.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn new(path: PathBuf) -> Result<LocalListener, ListenError> {
        LocalListener::check(&path)?;
        let system = |error| ListenError::System(path.clone(), error);
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => return Err(ListenError::NoSocket(path)),
            Ok(_) => match UnixStream::connect(&path) {
                Ok(_) => return Err(ListenError::InUse(path)),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(&path).map_err(system)?;
                }
                Err(error) => return Err(system(error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(system(error)),
        }
        let socket = UnixListener::bind(&path).map_err(system)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(system)?;
        socket.set_nonblocking(true).map_err(system)?;
        let found = fs::symlink_metadata(&path).map_err(system)?;
        let identity = (found.dev(), found.ino());
        Ok(LocalListener { path, identity, socket: socket.into() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for LocalListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            // A socket that stays is removed by the next to listen there.
            let _ = fs::remove_file(&self.path);
        }
    }
}
