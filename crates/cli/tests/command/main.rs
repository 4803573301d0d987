//! The `mynah` command, from outside.

mod help;
mod how_to;
mod reference;
mod serving;
mod sim;
mod snapshots;
mod states;
mod watch;
