//! The error log: errors of commands, numbered, of which the last ones can be asked for.
//!
//! NVMe leaves open whose it is. Hosts that look for what went wrong come with a connection of their
//! own, and over fabrics that is a controller of its own: so the log is the subsystem's, and so is
//! SMART's count of its entries. Discovery controllers have another, because anybody has one.

use mynah_wire::nvme::log::ErrorEntry;
use std::collections::VecDeque;

/// Entries kept of the error log.
pub(crate) const ERROR_ENTRIES: usize = 64;

/// The last errors, and how many there were over the drive's life.
#[derive(Debug, Default)]
pub(crate) struct ErrorLog {
    /// The latest first, at most [`ERROR_ENTRIES`].
    entries: VecDeque<ErrorEntry>,
    count: u64,
}

impl ErrorLog {
    /// Adds an entry, which gets the next number.
    pub(super) fn add(&mut self, mut entry: ErrorEntry) {
        self.count += 1;
        entry.count.set(self.count);
        self.entries.truncate(ERROR_ENTRIES - 1);
        self.entries.push_front(entry);
    }

    /// Entries are numbered from here on: so many were counted by earlier processes.
    pub(super) fn begin_after(&mut self, count: u64) {
        self.count = count;
    }

    /// The latest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &ErrorEntry> {
        self.entries.iter()
    }

    /// How many there were: the highest number of an entry.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}
