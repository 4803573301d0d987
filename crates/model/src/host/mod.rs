//! The host's side of the controller: queues and arbitration, the link, and a command's life from
//! its doorbell to its completion.

pub(crate) mod command;
pub(crate) mod front;
pub(crate) mod link;
pub(crate) mod queues;
