//! What the subsystem counts for SMART and its like.

use crate::output::CommandKind;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode::NvmOpcode;

const PS_PER_MS: u64 = 1_000_000_000;

/// How often counters alone are given to the store.
const KEEP_INTERVAL: Span = Span::from_secs(1);

/// Counters of what hosts do, the first of those that are kept: what comes behind them grows with
/// time alone, but for error log entries.
const OF_COMMANDS: usize = 7;

/// Counters begin no higher, so that there is room to count on.
pub(crate) const COUNT_MAX: u64 = 1 << 62;

/// What logs say of what was counted, over the drive's life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Sectors of 512 bytes that hosts read and wrote.
    pub(crate) sectors_read: u64,
    pub(crate) sectors_written: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) media_errors: u64,
    /// Power cycles before this process.
    pub(crate) power_cycles: u64,
    pub(crate) unsafe_shutdowns: u64,
}

/// Counters of the whole subsystem, over its life as far as the store keeps them.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Sectors of 512 bytes that hosts read and wrote.
    sectors_read: u64,
    sectors_written: u64,
    reads: u64,
    writes: u64,
    media_errors: u64,
    /// Power cycles before this process.
    power_cycles: u64,
    unsafe_shutdowns: u64,
    /// Time with an I/O command outstanding, and since when there is one.
    busy: Span,
    busy_since: Option<Time>,
    /// Milliseconds with an I/O command outstanding, and with power, before this process.
    busy_before_ms: u64,
    on_before_ms: u64,
    /// Whether a host has shut its controller down and nothing was written since.
    is_shut_down: bool,
    /// Critical warnings of the media that hosts have been told of.
    warned: u8,
    /// The counters that the store was given last, and when it may be given others for their own
    /// sake.
    last_kept: [u64; 10],
    next_kept: Time,
}

impl Health {
    /// Everything that is kept, at this moment of the process's wall clock.
    pub(crate) fn kept(&self, now: Time, errors: u64) -> [u64; 10] {
        [
            // This start counts.
            self.power_cycles + 1,
            self.unsafe_shutdowns,
            self.sectors_read,
            self.sectors_written,
            self.reads,
            self.writes,
            self.media_errors,
            self.busy_ms(now),
            self.on_ms(now),
            errors,
        ]
    }

    /// The store has been given the counters.
    pub(crate) fn was_kept(&mut self, now: Time, errors: u64) {
        self.last_kept = self.kept(now, errors);
        self.next_kept = now + KEEP_INTERVAL;
    }

    /// Whether the store may be given counters again, which is limited to once in
    /// [`KEEP_INTERVAL`].
    #[inline]
    pub(crate) fn may_be_kept(&self, now: Time) -> bool {
        self.next_kept <= now
    }

    /// Whether anything but time has been counted since. If not, that is not asked again for a
    /// while.
    pub(crate) fn has_counted(&mut self, now: Time, errors: u64) -> bool {
        let kept = self.kept(now, errors);
        self.next_kept = now + KEEP_INTERVAL;
        kept[..OF_COMMANDS] != self.last_kept[..OF_COMMANDS] || kept[9] != self.last_kept[9]
    }

    /// Restores the counters that an earlier process has kept; `in_order`: it ended in order.
    pub(crate) fn begun(kept: [u64; 10], in_order: bool) -> Health {
        let [cycles, unsafe_shutdowns, read, written, reads, writes, media, busy, on, _errors] =
            kept.map(|count| count.min(COUNT_MAX));
        Health {
            power_cycles: cycles,
            unsafe_shutdowns: unsafe_shutdowns + u64::from(!in_order),
            sectors_read: read,
            sectors_written: written,
            reads,
            writes,
            media_errors: media,
            busy_before_ms: busy,
            on_before_ms: on,
            ..Health::default()
        }
    }

    /// A command of this kind and opcode has succeeded.
    #[inline]
    pub(crate) fn count(&mut self, kind: CommandKind, opcode: u8, bytes: u32) {
        match kind {
            CommandKind::Read | CommandKind::Retrieve => self.read(bytes),
            CommandKind::Write | CommandKind::Store => self.wrote(bytes),
            CommandKind::Trim | CommandKind::OtherIo => self.count_other(opcode, bytes),
            CommandKind::Fabrics
            | CommandKind::Admin
            | CommandKind::Flush
            | CommandKind::Delete
            | CommandKind::Exist
            | CommandKind::List => {}
        }
    }

    fn count_other(&mut self, opcode: u8, bytes: u32) {
        let Some(opcode) = NvmOpcode::of(opcode) else { return };
        match opcode {
            // Data units read are those of Compare and Verify, too (Base 2.0, section 5.16.1.3).
            NvmOpcode::Read | NvmOpcode::Compare | NvmOpcode::Verify => self.read(bytes),
            NvmOpcode::Write => self.wrote(bytes),
            NvmOpcode::Copy => {
                self.sectors_read += u64::from(bytes / 512);
                self.wrote(bytes);
            }
            NvmOpcode::WriteZeroes
            | NvmOpcode::WriteUncorrectable
            | NvmOpcode::DatasetManagement => self.is_shut_down = false,
            NvmOpcode::Flush
            | NvmOpcode::IoManagementReceive
            | NvmOpcode::IoManagementSend
            | NvmOpcode::ReservationRegister
            | NvmOpcode::ReservationReport
            | NvmOpcode::ReservationAcquire
            | NvmOpcode::ReservationRelease => {}
        }
    }

    #[inline]
    fn read(&mut self, bytes: u32) {
        self.reads += 1;
        self.sectors_read += u64::from(bytes / 512);
    }

    #[inline]
    fn wrote(&mut self, bytes: u32) {
        self.writes += 1;
        self.sectors_written += u64::from(bytes / 512);
        self.is_shut_down = false;
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

    /// Milliseconds with an I/O command outstanding, over the drive's life.
    pub(crate) fn busy_ms(&self, now: Time) -> u64 {
        let running = self.busy_since.map_or(0, |since| now.saturating_since(since).as_ps());
        self.busy_before_ms + (self.busy.as_ps() + running) / PS_PER_MS
    }

    /// Milliseconds that the drive was on, over its life.
    pub(crate) fn on_ms(&self, now: Time) -> u64 {
        self.on_before_ms + now.as_ps() / PS_PER_MS
    }

    /// A host has told its controller to shut down.
    pub(crate) fn shut_down_normally(&mut self) {
        self.is_shut_down = true;
    }

    /// The counters that logs say as they are.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            sectors_read: self.sectors_read,
            sectors_written: self.sectors_written,
            reads: self.reads,
            writes: self.writes,
            media_errors: self.media_errors,
            power_cycles: self.power_cycles,
            unsafe_shutdowns: self.unsafe_shutdowns,
        }
    }

    /// Data could not be read or written as they were to be.
    pub(crate) fn media_error(&mut self) {
        self.media_errors += 1;
    }

    /// The power was lost and is back.
    pub(crate) fn power_lost(&mut self) {
        self.power_cycles += 1;
        self.unsafe_shutdowns += u64::from(!self.is_shut_down);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands read, data units read in sectors, and the same written, of 4 KiB.
    fn counted(kind: CommandKind, opcode: u8) -> [u64; 4] {
        let mut health = Health::default();
        health.count(kind, opcode, 4096);
        let it = health.counts();
        [it.reads, it.sectors_read, it.writes, it.sectors_written]
    }

    #[test]
    fn commands_count_as_what_they_do() {
        use mynah_wire::nvme::opcode::{admin, key_value, nvm, samsung};
        let (read, written, neither) = ([1, 8, 0, 0], [0, 0, 1, 8], [0; 4]);
        for (kind, opcode, wanted) in [
            (CommandKind::Read, nvm::READ, read),
            (CommandKind::Write, nvm::WRITE, written),
            (CommandKind::OtherIo, nvm::COMPARE, read),
            (CommandKind::OtherIo, nvm::VERIFY, read),
            (CommandKind::OtherIo, nvm::COPY, [0, 8, 1, 8]),
            (CommandKind::Trim, nvm::WRITE_ZEROES, neither),
            (CommandKind::Trim, nvm::DATASET_MANAGEMENT, neither),
            (CommandKind::Store, key_value::STORE, written),
            (CommandKind::Retrieve, key_value::RETRIEVE, read),
            (CommandKind::Store, samsung::STORE, written),
            (CommandKind::Retrieve, samsung::RETRIEVE, read),
            // Admin commands have opcodes of I/O commands.
            (CommandKind::Admin, admin::GET_LOG_PAGE, neither),
        ] {
            assert_eq!(counted(kind, opcode), wanted, "{kind:?} {opcode:#x}");
        }
    }
}
