//! Whose flash work is: it goes to the flash with the work and comes back with its end.

use crate::number::{Block, CommandIndex, Mvpn, Plane, WriteIndex};
use serde::{Deserialize, Serialize};

/// What becomes of the end of a flash read or erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Token {
    Read {
        command: CommandIndex,
    },
    /// A pair whose key is compared with that of a key-value command.
    Compare {
        command: CommandIndex,
    },
    /// The rest of a write unit that was overwritten in part.
    Rest {
        unit: WriteIndex,
    },
    /// A page that the collection of a plane moves.
    Collect {
        plane: Plane,
    },
    /// A translation page for those who miss one of its entries.
    Load {
        page: Mvpn,
    },
    /// A translation page that is to be changed.
    Update {
        page: Mvpn,
    },
    Erase {
        block: Block,
    },
}
