//! The subsystem, driven as hosts drive it.

mod administration;
mod background;
mod connecting;
mod corpus;
mod data_placement;
mod faults;
mod features;
mod hosts;
mod identifying;
mod io;
mod kept_pairs;
mod key_value;
mod key_value_admin;
mod key_value_laws;
mod laws;
mod nvm;
mod pairs;
mod persistence;
mod protection;
mod query;
mod slow_store;
mod support;
mod transfers;

use support as shared;
