//! The subsystem, driven as hosts drive it.

mod administration;
mod background;
mod connecting;
mod corpus;
mod faults;
mod features;
mod hosts;
mod identifying;
mod io;
mod laws;
mod nvm;
mod persistence;
mod protection;
mod slow_store;
mod support;
mod transfers;
