//! One driver at a time: a lock on a file in the folder, which has in it who that is. The system lets
//! go of it when the process ends, however it does. It is a record lock, which children of a fork do
//! not have: workers may outlive their driver. What it does not tell apart, two drivers of one
//! process, is told apart here.

use super::LedgerError;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Name of the lock file in the ledger's folder.
const NAME: &str = "lock";
/// Most bytes that are read of the holder's description.
const HOLDER_MAX: u64 = 1000;

/// Folders that this process has locked, with the process identifier and the holder. Entries of a
/// parent do not count in a forked child.
static OURS: Mutex<BTreeMap<PathBuf, (u32, String)>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
pub(super) struct Lock {
    folder: PathBuf,
    _file: File,
}

impl Lock {
    pub(super) fn take(folder: &Path, us: &str) -> Result<Lock, LedgerError> {
        let path = folder.join(NAME);
        let system = |error| LedgerError::System { path: path.clone(), error };
        let whole = folder.canonicalize().map_err(system)?;
        let process = std::process::id();
        let me = format!("{us} (process {process} on {})", host());
        let held = |holder: String| LedgerError::Held {
            path: folder.to_owned(),
            holder: if holder.is_empty() { "another process".to_owned() } else { holder },
            us: me.clone(),
        };
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((owner, holder)) = ours.get(&whole)
            && *owner == process
        {
            // Not even opened: closing it would let go of the lock.
            return Err(held(holder.clone()));
        }
        let mut file = super::open_own(&path)?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                let mut holder = Vec::new();
                (&file).take(HOLDER_MAX).read_to_end(&mut holder).map_err(system)?;
                return Err(held(String::from_utf8_lossy(&holder).trim().to_owned()));
            }
            Err(error) => return Err(system(error.into())),
        }
        let noted = file.set_len(0).and_then(|()| file.write_all(format!("{me}\n").as_bytes()));
        // On a full disk the lock has no name; it is one all the same.
        if let Err(error) = noted
            && !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        {
            return Err(system(error));
        }
        ours.insert(whole.clone(), (process, me.clone()));
        Ok(Lock { folder: whole, _file: file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if ours.get(&self.folder).is_some_and(|(owner, _)| *owner == process) {
            ours.remove(&self.folder);
        }
    }
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "this machine".to_owned() } else { name.trim().to_owned() }
}
