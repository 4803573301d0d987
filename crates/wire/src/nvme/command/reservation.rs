//! The reservation commands (Base 2.0, sections 7.2 to 7.5). Their keys are data.

use super::{bit, bits};
use crate::nvme::SubmissionEntry;
use crate::nvme::opcode::nvm as opcode;

/// A reservation command; these are the same in every I/O command set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationCommand {
    Register(ReservationRegister),
    Report(ReservationReport),
    Acquire(ReservationAcquire),
    Release(ReservationRelease),
}

impl ReservationCommand {
    /// The command that an entry of an I/O queue is; `None` if it is no such one.
    pub fn parse(entry: &SubmissionEntry) -> Option<ReservationCommand> {
        use ReservationCommand as C;
        Some(match entry.opcode {
            opcode::RESERVATION_REGISTER => C::Register(ReservationRegister::parse(entry)),
            opcode::RESERVATION_REPORT => C::Report(ReservationReport::parse(entry)),
            opcode::RESERVATION_ACQUIRE => C::Acquire(ReservationAcquire::parse(entry)),
            opcode::RESERVATION_RELEASE => C::Release(ReservationRelease::parse(entry)),
            _ => return None,
        })
    }

    /// Bytes that it moves between host and controller: keys, or the report.
    pub fn bytes(&self) -> u64 {
        match self {
            ReservationCommand::Register(_) | ReservationCommand::Acquire(_) => 16,
            ReservationCommand::Release(_) => 8,
            ReservationCommand::Report(report) => report.bytes,
        }
    }

    /// Writes opcode and fields of an entry.
    pub fn put(&self, entry: &mut SubmissionEntry) {
        match self {
            ReservationCommand::Register(command) => command.put(entry),
            ReservationCommand::Report(command) => command.put(entry),
            ReservationCommand::Acquire(command) => command.put(entry),
            ReservationCommand::Release(command) => command.put(entry),
        }
    }
}

/// Reservation Register (Base 2.0, section 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationRegister {
    /// RREGA.
    pub action: RegisterAction,
    /// IEKEY: the current key need not be right.
    pub ignores_key: bool,
    /// CPTPL.
    pub persistence: Persistence,
}

/// What Reservation Register does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterAction {
    Register,
    Unregister,
    /// Replaces the key of the registration.
    Replace,
    /// A reserved code.
    Reserved(u8),
}

/// CPTPL: what a power loss does to registrations and the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// PTPL does not change.
    Unchanged,
    /// The reserved code.
    Reserved,
    /// PTPL 0: cleared when power comes back.
    Off,
    /// PTPL 1: they persist through a power loss.
    On,
}

impl ReservationRegister {
    fn parse(entry: &SubmissionEntry) -> ReservationRegister {
        let dword10 = entry.dword10.get();
        ReservationRegister {
            action: match bits(dword10, 0, 3) {
                0 => RegisterAction::Register,
                1 => RegisterAction::Unregister,
                2 => RegisterAction::Replace,
                code => RegisterAction::Reserved(code as u8),
            },
            ignores_key: bit(dword10, 3),
            persistence: match bits(dword10, 30, 2) {
                0 => Persistence::Unchanged,
                1 => Persistence::Reserved,
                2 => Persistence::Off,
                _ => Persistence::On,
            },
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::RESERVATION_REGISTER;
        let action = match self.action {
            RegisterAction::Register => 0,
            RegisterAction::Unregister => 1,
            RegisterAction::Replace => 2,
            RegisterAction::Reserved(code) => code,
        };
        let persistence = match self.persistence {
            Persistence::Unchanged => 0,
            Persistence::Reserved => 1,
            Persistence::Off => 2,
            Persistence::On => 3,
        };
        let ignores_key = u32::from(self.ignores_key);
        entry.dword10.set(u32::from(action) | ignores_key << 3 | persistence << 30);
    }
}

/// Reservation Acquire (Base 2.0, section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationAcquire {
    /// RACQA.
    pub action: AcquireAction,
    /// IEKEY: not allowed any more.
    pub ignores_key: bool,
    /// RTYPE ([`crate::nvme::reservation::ReservationType`]).
    pub kind: u8,
}

/// What Reservation Acquire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireAction {
    Acquire,
    /// Removes the registrations with PRKEY, and the reservation if they hold it.
    Preempt,
    /// Preempts, and aborts the commands of the hosts that lost their registrations.
    PreemptAndAbort,
    /// A reserved code.
    Reserved(u8),
}

impl ReservationAcquire {
    fn parse(entry: &SubmissionEntry) -> ReservationAcquire {
        let dword10 = entry.dword10.get();
        ReservationAcquire {
            action: match bits(dword10, 0, 3) {
                0 => AcquireAction::Acquire,
                1 => AcquireAction::Preempt,
                2 => AcquireAction::PreemptAndAbort,
                code => AcquireAction::Reserved(code as u8),
            },
            ignores_key: bit(dword10, 3),
            kind: bits(dword10, 8, 8) as u8,
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::RESERVATION_ACQUIRE;
        let action = match self.action {
            AcquireAction::Acquire => 0,
            AcquireAction::Preempt => 1,
            AcquireAction::PreemptAndAbort => 2,
            AcquireAction::Reserved(code) => code,
        };
        put_action(entry, action, self.ignores_key, self.kind);
    }
}

/// Reservation Release (Base 2.0, section 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationRelease {
    /// RRELA.
    pub action: ReleaseAction,
    /// IEKEY: not allowed any more.
    pub ignores_key: bool,
    /// RTYPE ([`crate::nvme::reservation::ReservationType`]).
    pub kind: u8,
}

/// What Reservation Release does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAction {
    Release,
    /// Releases the reservation and removes all registrations.
    Clear,
    /// A reserved code.
    Reserved(u8),
}

impl ReservationRelease {
    fn parse(entry: &SubmissionEntry) -> ReservationRelease {
        let dword10 = entry.dword10.get();
        ReservationRelease {
            action: match bits(dword10, 0, 3) {
                0 => ReleaseAction::Release,
                1 => ReleaseAction::Clear,
                code => ReleaseAction::Reserved(code as u8),
            },
            ignores_key: bit(dword10, 3),
            kind: bits(dword10, 8, 8) as u8,
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::RESERVATION_RELEASE;
        let action = match self.action {
            ReleaseAction::Release => 0,
            ReleaseAction::Clear => 1,
            ReleaseAction::Reserved(code) => code,
        };
        put_action(entry, action, self.ignores_key, self.kind);
    }
}

/// Reservation Report (Base 2.0, section 7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationReport {
    /// Bytes to return (NUMD, which counts dwords from 0).
    pub bytes: u64,
    /// EDS: with 128-bit host identifiers.
    pub extended: bool,
}

impl ReservationReport {
    fn parse(entry: &SubmissionEntry) -> ReservationReport {
        ReservationReport {
            bytes: (u64::from(entry.dword10.get()) + 1) * 4,
            extended: bit(entry.dword11.get(), 0),
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::RESERVATION_REPORT;
        entry.dword10.set((self.bytes / 4 - 1) as u32);
        entry.dword11.set(self.extended.into());
    }
}

fn put_action(entry: &mut SubmissionEntry, action: u8, ignores_key: bool, kind: u8) {
    entry.dword10.set(u32::from(action) | u32::from(ignores_key) << 3 | u32::from(kind) << 8);
}
