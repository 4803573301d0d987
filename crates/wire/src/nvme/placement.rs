//! What I/O Management Receive returns of reclaim unit handles (Base 2.1, section 7.3).

use super::structures;
use zerocopy::byteorder::little_endian::{U16, U32, U64};

structures! {
    /// Head of Reclaim Unit Handle Status; a descriptor of each placement handle follows.
    pub struct HandleStatus: 16 {
        pub reserved_0: [u8; 14],
        /// NRUHSD: descriptors that follow.
        pub handles: U16,
    }

    /// A placement handle of a namespace.
    pub struct HandleState: 32 {
        /// PID: the placement identifier that names it.
        pub identifier: U16,
        /// RUHID: its reclaim unit handle.
        pub handle: U16,
        /// EARUTR: seconds until its reclaim unit is left; 0: not said.
        pub time_left: U32,
        /// RUAMW: logical blocks that can still be written to its reclaim unit.
        pub blocks_left: U64,
        pub reserved_16: [u8; 16],
    }
}
