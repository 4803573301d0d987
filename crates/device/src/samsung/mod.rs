//! Samsung's key-value command set, as drives of the PM983 kind speak it on the PCIe bus: a namespace
//! whose pairs lie in any number of key spaces apart from one another, under keys of 4 to 255 bytes.
//! Sources: see [`mynah_wire::nvme::samsung`].
//!
//! The namespace identifier of its commands names a key space, so the opcode alone says whose they are:
//! there is at most one such namespace. Pairs and their values are those of [`crate::key_value`], and its
//! commands are carried out beside that set's (`subsystem/key_value/`).
//!
//! What is not there: compound commands, and iterators that return values or delete what they return.

mod command;
mod iterators;
mod name;
mod pages;
mod spaces;

pub(crate) use command::{SpaceCommand, kind_of, status_of};
pub(crate) use pages::{EFFECTS, iterators_page, write_amplification_page};
pub(crate) use spaces::KeySpaces;
