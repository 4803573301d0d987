//! A served drive, and hosts of all kinds.

mod as_spdk;
mod client;
mod faults;
mod greedy;
mod hostile;
mod hosts;
mod key_value;
mod nbd;
mod path;
mod prober;
mod profile;
mod query;
mod restart;
mod secure;
mod served;
mod stall;
mod timing;
