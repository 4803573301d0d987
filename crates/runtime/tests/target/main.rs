//! A served drive, and hosts of all kinds.

mod client;
mod hostile;
mod served;
mod timing;
