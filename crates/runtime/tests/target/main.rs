//! A served drive, and hosts of all kinds.

mod client;
mod faults;
mod greedy;
mod hostile;
mod restart;
mod secure;
mod served;
mod timing;
