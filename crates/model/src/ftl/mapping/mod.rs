//! Logical to physical mapping: the tables themselves ([`table`]), the part of them that a
//! drive with little DRAM keeps cached ([`cmt`]), and what is where in a drive that maps
//! blocks and logs ([`hybrid`]).

pub(crate) mod cached;
pub(crate) mod cmt;
pub(crate) mod flights;
mod hybrid;
pub(crate) mod scheme;
pub(crate) mod table;
