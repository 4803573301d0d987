//! Memory that a host's commands hold beyond their queue entries: data kept for comparisons,
//! replies that have been put together. A host that asks for much and takes nothing must not
//! be able to use up the machine's.

use mynah_wire::nvme::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What all hosts together may hold.
const ALL_BYTES_MAX: u64 = 512 << 20;

/// Bytes that are held, by everybody and by one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    all: Arc<AtomicU64>,
    own: Arc<AtomicU64>,
}

impl Account {
    /// An account of its own that counts towards the same total.
    pub(crate) fn of_queue(&self) -> Account {
        Account { all: self.all.clone(), own: Arc::default() }
    }

    /// Whether a command that needs memory may begin.
    pub(crate) fn check(&self, own_max: u64) -> Result<(), Status> {
        // Statistics of one thread: no order is needed.
        let held = (self.own.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        if held.0 > own_max || held.1 > ALL_BYTES_MAX {
            return Err(Status::COMMAND_INTERRUPTED);
        }
        Ok(())
    }

    /// Holds bytes until the result is dropped.
    pub(crate) fn hold(&self, bytes: usize) -> Held {
        let bytes = bytes as u64;
        self.all.fetch_add(bytes, Ordering::Relaxed);
        self.own.fetch_add(bytes, Ordering::Relaxed);
        Held { account: self.clone(), bytes }
    }
}

/// Bytes held.
#[derive(Debug)]
pub(crate) struct Held {
    account: Account,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.own.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
