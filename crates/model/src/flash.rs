//! The back end: bus and array times, the dies and channels, and who uses them next.

pub(crate) mod scheduler;
pub(crate) mod timing;
