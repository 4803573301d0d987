//! Data placement: hosts say of each write which data it belongs with (NVM Express Base
//! Specification 2.1, section 8.1.10, Flexible Data Placement).

use serde::{Deserialize, Serialize};

/// Most reclaim unit handles: as many as a namespace's list of placement handles can name (NVM
/// Command Set Specification, section 4.1.6.4).
pub const HANDLES_MAX: u8 = 128;

/// How a drive places data as its hosts ask for. Its reclaim units are superblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPlacement {
    /// Reclaim unit handles, 1 to [`HANDLES_MAX`].
    pub handles: u8,
    /// What becomes of data that collection moves.
    pub isolation: Isolation,
    /// Among which reclaim units a victim is chosen.
    pub victims: Victims,
    /// Superblocks of a reclaim unit, at least 1.
    pub superblocks: u32,
}

/// Which data may share a reclaim unit after the drive has moved them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// Those of all handles: what collection moves goes to units of its own, or, with one write
    /// frontier, to the one that the last handle fills.
    Initial,
    /// Those of one handle.
    Persistent,
}

/// Among which reclaim units a victim is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Victims {
    /// Among all.
    All,
    /// Among those of the handle whose write the room is for, if one of them has room to win.
    Handle,
}
