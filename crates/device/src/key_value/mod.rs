//! Pairs of the Key Value command set (Key Value Command Set 1.3): keys, where their values are, and
//! what becomes of them when a command is decided. The commands are in `subsystem/key_value/`.

mod keys;
mod pairs;
mod space;
mod table;

pub(crate) use keys::{Keys, Name, TOGETHER};
pub(crate) use pairs::{Answer, Choice, Layout, NO_ROOM, Pairs, is_answer};
pub(crate) use space::PairSpace;
