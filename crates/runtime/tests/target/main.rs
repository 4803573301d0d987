//! A served drive, and hosts of all kinds.

mod client;
mod faults;
mod hostile;
mod secure;
mod served;
mod timing;
