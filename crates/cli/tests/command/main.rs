//! The `mynah` command, from outside.

mod how_to;
mod reference;
mod serving;
mod sim;
mod snapshots;
mod states;
