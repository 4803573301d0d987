//! What the subsystem counts for SMART and its like.

use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode::nvm;

/// Counters of the whole subsystem.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Sectors of 512 bytes that hosts read and wrote.
    pub(crate) sectors_read: u64,
    pub(crate) sectors_written: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) media_errors: u64,
    pub(crate) power_cycles: u64,
    pub(crate) unsafe_shutdowns: u64,
    /// Time with an I/O command outstanding, and since when there is one.
    pub(crate) busy: Span,
    pub(crate) busy_since: Option<Time>,
    /// Whether a host has shut its controller down and nothing was written since.
    pub(crate) is_shut_down: bool,
    /// Critical warnings of the media that hosts have been told of.
    warned: u8,
}

impl Health {
    /// A command has succeeded.
    #[inline]
    pub(crate) fn count(&mut self, opcode: u8, bytes: u32) {
        match opcode {
            nvm::READ | nvm::COMPARE | nvm::VERIFY => {
                self.reads += 1;
                self.sectors_read += u64::from(bytes / 512);
            }
            nvm::WRITE => {
                self.writes += 1;
                self.sectors_written += u64::from(bytes / 512);
                self.is_shut_down = false;
            }
            nvm::COPY => {
                self.writes += 1;
                self.sectors_read += u64::from(bytes / 512);
                self.sectors_written += u64::from(bytes / 512);
            }
            _ => {}
        }
    }

    /// Whether the counters of the media have crossed a threshold that hosts had not been
    /// told of; remembers it.
    pub(crate) fn crosses(&mut self, warnings: u8) -> u8 {
        let new = warnings & !self.warned;
        self.warned = warnings;
        new
    }

    /// An I/O command has begun; there are `outstanding` now.
    #[inline]
    pub(crate) fn begin(&mut self, outstanding: usize, now: Time) {
        if outstanding == 1 {
            self.busy_since = Some(now);
        }
    }

    /// An I/O command has ended; there are `outstanding` now.
    #[inline]
    pub(crate) fn end(&mut self, outstanding: usize, now: Time) {
        if outstanding == 0
            && let Some(since) = self.busy_since.take()
        {
            self.busy += now.saturating_since(since);
        }
    }

    /// A host has told its controller to shut down.
    pub(crate) fn shut_down_normally(&mut self) {
        self.is_shut_down = true;
    }
}
