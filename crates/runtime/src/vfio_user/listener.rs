//! Where clients come in: the socket `cntrl` in a folder, as SPDK's programs expect it too.

use super::Channel;
pub use crate::local_socket::ListenError;
use crate::local_socket::LocalListener;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The socket's name in its folder.
const NAME: &str = "cntrl";

/// Where the socket of a folder is.
pub fn socket_path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Accepts clients of one folder; removes its socket when it is dropped.
#[derive(Debug)]
pub struct Listener(LocalListener);

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
        LocalListener::check(&path)?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                ListenError::NoFolder(folder.into())
            }
            _ => ListenError::System(path.clone(), error),
        })?;
        LocalListener::new(path).map(Listener)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The next client; `None` if there is none.
    ///
    /// # Errors
    /// If the system has nothing left for one.
    pub fn accept(&self) -> io::Result<Option<Channel>> {
        match accept_with(&self.0, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => Ok(Some(Channel::new(socket))),
            Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixListener, UnixStream};

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
