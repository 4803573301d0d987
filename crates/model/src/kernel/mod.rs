//! The event core: the queue of events, and the tables, queues and resources that all parts of
//! the drive are made of. Nothing here knows what a drive does.

pub(crate) mod event;
pub(crate) mod fifo;
pub(crate) mod index;
pub(crate) mod pool;
pub(crate) mod recency;
pub(crate) mod ring;
