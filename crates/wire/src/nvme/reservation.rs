//! Reservations (Base 2.0, section 7.5 and the commands of figure 390).

use super::structures;
use zerocopy::byteorder::little_endian::{U16, U32, U64};

/// Types of reservations (RTYPE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReservationType {
    /// Only the holder writes.
    WriteExclusive = 1,
    /// Only the holder reads and writes.
    ExclusiveAccess = 2,
    /// Only registrants write.
    WriteExclusiveRegistrants = 3,
    /// Only registrants read and write.
    ExclusiveAccessRegistrants = 4,
    /// Only registrants write; all of them hold the reservation.
    WriteExclusiveAll = 5,
    /// Only registrants read and write; all of them hold the reservation.
    ExclusiveAccessAll = 6,
}

impl ReservationType {
    pub fn from_code(code: u8) -> Option<ReservationType> {
        use ReservationType::*;
        Some(match code {
            1 => WriteExclusive,
            2 => ExclusiveAccess,
            3 => WriteExclusiveRegistrants,
            4 => ExclusiveAccessRegistrants,
            5 => WriteExclusiveAll,
            6 => ExclusiveAccessAll,
            _ => return None,
        })
    }

    /// Whether reads of others are refused too.
    pub fn is_exclusive_access(self) -> bool {
        use ReservationType::*;
        matches!(self, ExclusiveAccess | ExclusiveAccessRegistrants | ExclusiveAccessAll)
    }

    /// Whether registrants are let in.
    pub fn admits_registrants(self) -> bool {
        self as u8 >= 3
    }

    /// Whether all registrants hold it.
    pub fn is_held_by_all(self) -> bool {
        self as u8 >= 5
    }
}

structures! {
    /// Data of Reservation Register.
    pub struct RegisterData: 16 {
        /// CRKEY: the key so far.
        pub current_key: U64,
        /// NRKEY: the new key.
        pub new_key: U64,
    }

    /// Data of Reservation Acquire.
    pub struct AcquireData: 16 {
        /// CRKEY: the host's key.
        pub current_key: U64,
        /// PRKEY: the key to preempt.
        pub preempt_key: U64,
    }

    /// Head of the extended reservation status.
    pub struct ReservationStatus: 64 {
        /// GEN: changes of registrations.
        pub generation: U32,
        /// RTYPE.
        pub kind: u8,
        /// REGCTL: registered controllers.
        pub registrants: U16,
        pub reserved_7: [u8; 2],
        /// PTPLS: whether reservations outlive a power loss.
        pub persists: u8,
        pub reserved_10: [u8; 54],
    }

    /// A registrant in the extended reservation status.
    pub struct Registrant: 64 {
        /// CNTLID; 0xffff: of no controller that exists now.
        pub controller_id: U16,
        /// RCSTS: holds the reservation (0).
        pub status: u8,
        pub reserved_3: [u8; 5],
        /// RKEY.
        pub key: U64,
        /// HOSTID.
        pub host_id: [u8; 16],
        pub reserved_32: [u8; 32],
    }
}
