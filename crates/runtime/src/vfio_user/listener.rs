//! Where clients come in: the socket `cntrl` in a folder, as SPDK's programs expect it too.

use super::Channel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket's name in its folder.
const NAME: &str = "cntrl";
/// The longest path of a socket (unix(7)), without its closing zero byte.
const PATH_BYTES_MAX: usize = 107;

/// Where the socket of a folder is.
pub fn socket_path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Why a folder cannot be listened in.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Sockets cannot have such long names.
    #[error("{0}: the path of a socket has at most {PATH_BYTES_MAX} bytes")]
    TooLong(PathBuf),
    /// Somebody serves there.
    #[error("{0}: another program serves there")]
    InUse(PathBuf),
    /// Something is there, or on the way there, that is no folder.
    #[error("{0} is no folder and cannot become one")]
    NoFolder(PathBuf),
    /// There is something that is no socket.
    #[error("{0} is there, and is no socket")]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
}

/// Accepts clients of one folder; removes its socket when it is dropped.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    /// The socket's file, so that no other is removed.
    identity: (u64, u64),
    socket: OwnedFd,
}

impl Listener {
    /// Listens in a folder, which is made if it is not there, for this user alone. A socket that
    /// nobody answers at is removed.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn new(folder: &Path) -> Result<Listener, ListenError> {
        Listener::at(socket_path(folder))
    }

    /// The same at a path of another name.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn at(path: PathBuf) -> Result<Listener, ListenError> {
        let folder =
            path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(ListenError::TooLong(path));
        }
        let system = |error| ListenError::System(path.clone(), error);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                ListenError::NoFolder(folder.into())
            }
            _ => system(error),
        })?;
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
        Ok(Listener { path, identity, socket: socket.into() })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next client; `None` if there is none.
    ///
    /// # Errors
    /// If the system has nothing left for one.
    pub fn accept(&self) -> io::Result<Option<Channel>> {
        match accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => Ok(Some(Channel::new(socket))),
            Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            // A socket that stays is removed by the next to listen there.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_and_its_socket_comes_and_goes() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("a/b");
        let listener = Listener::new(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert!(listener.accept().unwrap().is_none());
        let _client = UnixStream::connect(listener.path()).unwrap();
        assert!(listener.accept().unwrap().is_some());
        assert!(matches!(Listener::new(&folder), Err(ListenError::InUse(_))));
        let path = listener.path().to_owned();
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_that_nobody_answers_at_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = socket_path(folder.path());
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::new(folder.path()).unwrap();
        // Somebody else has taken the place: his socket stays.
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        assert!(matches!(Listener::new(folder.path()), Err(ListenError::NoSocket(_))));
        let long = folder.path().join("x".repeat(100));
        assert!(matches!(Listener::new(&long), Err(ListenError::TooLong(_))));
    }
}
