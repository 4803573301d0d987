//! The back end: bus and array times, the dies and channels, and who uses them next.

pub(crate) mod channel;
pub(crate) mod choice;
pub(crate) mod die;
pub(crate) mod flin;
pub(crate) mod hold;
pub(crate) mod operation;
pub(crate) mod queues;
pub(crate) mod scheduler;
pub(crate) mod timing;
