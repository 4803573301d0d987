//! What goes wrong with a store's disk: told once for each kind, at once, and kept for the result.

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Tells people something; must not block.
pub type Tell = Box<dyn FnMut(&str) + Send>;

/// What can go wrong with a store while it is used.
#[derive(Debug)]
pub(crate) enum Problem {
    /// There is no room for what was written.
    NoRoom(io::Error),
    /// A write or a zeroing failed for good.
    Write(io::Error),
    /// What was written did not get to stable storage.
    Sync(io::Error),
    Read(io::Error),
    /// The file cannot be looked at.
    Look(io::Error),
    /// The file has no name any more.
    Deleted,
    /// The file has become shorter.
    Truncated {
        bytes: u64,
        wanted: u64,
    },
    /// The drive has ended, and so many bytes that were accepted are not in the file.
    Lost(u64),
    /// The drive has ended, and it cannot be noted that it did so in order.
    Unclosed,
    /// The drive's own state was not saved.
    State(String),
}

impl Problem {
    /// The error of the system call.
    fn cause(&self) -> Option<&io::Error> {
        match self {
            Problem::NoRoom(error)
            | Problem::Write(error)
            | Problem::Sync(error)
            | Problem::Read(error)
            | Problem::Look(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NO_MORE: &str = "writes and flushes fail until the drive is started anew, and what \
                               was written since the last flush may be lost";
        match self {
            Problem::NoRoom(error) => {
                let remedy = match Errno::from_io_error(error) {
                    Some(Errno::FBIG) => "raise the limit for the size of files (ulimit -f)",
                    Some(Errno::DQUOT) => "raise the quota",
                    _ => "make room on its file system, or deallocate (TRIM) what is not needed",
                };
                write!(
                    f,
                    "there is no room for what was written ({error}): writes and flushes fail \
                     until there is, and what was accepted is kept in memory; {remedy}"
                )
            }
            Problem::Write(error) => write!(f, "it cannot be written ({error}): {NO_MORE}"),
            Problem::Sync(error) => {
                write!(f, "what was written did not get to the disk ({error}): {NO_MORE}")
            }
            Problem::Look(error) => write!(f, "it cannot be looked at ({error}): {NO_MORE}"),
            Problem::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("it ends before what is to be read: such reads fail")
            }
            Problem::Read(error) => write!(f, "it cannot be read ({error}): such reads fail"),
            Problem::Deleted => write!(
                f,
                "the file was deleted or replaced while the drive is served: writes and flushes \
                 fail, and all of it is lost when the drive ends; until then hosts can read it"
            ),
            Problem::Truncated { bytes, wanted } => write!(
                f,
                "the file was truncated to {bytes} bytes of {wanted} while the drive is served: \
                 what lay behind that is lost, and writes and flushes fail until the drive is \
                 started anew"
            ),
            Problem::Lost(0) => f.write_str("what was written since the last flush may be lost"),
            Problem::Lost(bytes) => write!(
                f,
                "{bytes} bytes that hosts had written are lost: they are not in the file, and the \
                 drive has ended"
            ),
            Problem::Unclosed => f.write_str(
                "it cannot be noted that the drive has ended in order: the next run takes it for \
                 one that was killed",
            ),
            Problem::State(reason) => write!(
                f,
                "the drive's own state was not saved: {reason}; the next run preconditions it anew"
            ),
        }
    }
}

/// Problems of a store so far, and the function that tells of them.
#[derive(Clone, Default)]
pub struct Trouble {
    path: PathBuf,
    reports: Arc<Mutex<Reports>>,
}

#[derive(Default)]
struct Reports {
    kinds: Vec<(PathBuf, std::mem::Discriminant<Problem>)>,
    messages: Vec<String>,
    cause: Option<String>,
    has_room_again: bool,
    tell: Option<Tell>,
}

impl fmt::Debug for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trouble").field(&self.messages()).finish()
    }
}

impl Trouble {
    /// For the store at `path`.
    pub(crate) fn of(path: &Path) -> Trouble {
        Trouble { path: path.to_owned(), reports: Arc::default() }
    }

    /// For another file of the same store, with the same reports.
    pub(crate) fn of_another(&self, path: &Path) -> Trouble {
        Trouble { path: path.to_owned(), reports: self.reports.clone() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn with<R>(&self, then: impl FnOnce(&mut Reports) -> R) -> R {
        then(&mut self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells `tell` from now on what goes wrong, once for each kind.
    pub fn tell(&self, tell: Tell) {
        self.with(|reports| reports.tell = Some(tell));
    }

    /// Tells of a problem, once for each path and kind.
    pub(crate) fn add(&self, problem: &Problem) {
        self.with(|reports| {
            let kind = (self.path.clone(), std::mem::discriminant(problem));
            if reports.kinds.contains(&kind) {
                return;
            }
            reports.kinds.push(kind);
            reports.cause =
                reports.cause.take().or_else(|| problem.cause().map(ToString::to_string));
            let message = format!("{}: {problem}", self.path.display());
            if let Some(tell) = &mut reports.tell {
                tell(&format!("error: {message}"));
            }
            reports.messages.push(message);
        });
    }

    /// There is room again, and everything that had none is written.
    pub(crate) fn has_room_again(&self) {
        self.with(|reports| {
            if std::mem::replace(&mut reports.has_room_again, true) {
                return;
            }
            let path = self.path.display();
            let message = format!("{path}: there is room again, and everything is written");
            if let Some(tell) = &mut reports.tell {
                tell(&format!("note: {message}"));
            }
        });
    }

    /// What went wrong, in order, each kind once.
    pub fn messages(&self) -> Vec<String> {
        self.with(|reports| reports.messages.clone())
    }

    /// What the system said of it first.
    pub fn cause(&self) -> Option<String> {
        self.with(|reports| reports.cause.clone())
    }
}
