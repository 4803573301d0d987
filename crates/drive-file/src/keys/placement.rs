//! The section `[placement]`: data placement as hosts ask for, NVMe's FDP.

use super::declare::{Need, section};
use super::{File, IsolationName, VictimsName};
use crate::at::Maybe;
use mynah_model::config;

/// For what needs reclaim unit handles.
pub(super) static PLACES: Need = Need {
    holds: |config| config.data_placement.is_some(),
    cause: |_| None,
    why: "there are no reclaim unit handles",
    help: "add `placement.handles`, for example 8",
};

// As many handles as drives that are sold have (PM9D3a: 8, initially isolated).
section! {
    /// Data placement: hosts say of each write which data it belongs with (NVMe FDP). A reclaim unit
    /// is a superblock, or several.
    Placement => config::DataPlacement {
        /// Reclaim unit handles: so many kinds of data are kept apart, each in reclaim units of its
        /// own.
        handles: Maybe<u32> = "8", in "1" to "128", is handles;
        /// Which data may share a reclaim unit once collection has moved them.
        isolation: Maybe<IsolationName> = "initial", is isolation;
        /// Among which reclaim units `gc.victim` chooses.
        victims: Maybe<VictimsName> = "all", is victims;
        /// Superblocks of a reclaim unit.
        superblocks: Maybe<u32> = "1", in "1" to "1024", is superblocks;
    }
    with |placement, check, _file| {}
}

/// Whether the file asks for it.
pub(crate) fn is_asked(file: &File) -> bool {
    file.placement.is_some()
}
