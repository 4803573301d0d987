//! The flash translation layer: where data lie on flash, and how that is kept and won back.

pub(crate) mod blocks;
pub(crate) mod collection;
pub(crate) mod heat;
pub(crate) mod hotness;
pub(crate) mod mapping;
pub(crate) mod placement;
pub mod precondition;
pub(crate) mod space;
pub(crate) mod wear;
