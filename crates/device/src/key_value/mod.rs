//! The Key Value command set (Key Value Command Set 1.3): keys and where their values are, and what
//! its commands do.
//!
//! A command takes effect at one moment, when it is decided: at once where nothing is modelled, else
//! when the model says that a request manager has taken it. Commands are in the order of these
//! moments, and a Retrieve returns the one whole value of its moment, whatever becomes of the key
//! while the value is on its way.

mod any;
mod commands;
pub(crate) mod identify;
mod keys;
mod pairs;
mod space;
mod table;

pub(crate) use any::{AnyPairs, bytes_of};
pub(crate) use commands::{KeyWork, has_yet_to_change, kind_of};
pub(crate) use keys::{Keys, Name};
pub(crate) use pairs::{Answer, Choice, Pairs, is_answer};
pub(crate) use space::PairSpace;
