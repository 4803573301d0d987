//! Logical to physical mapping, page level: the tables themselves ([`table`]), the part of
//! them that a drive with little DRAM keeps cached ([`cmt`]).

pub(crate) mod cmt;
pub(crate) mod table;
