//! What is seen of a drive: counters, who delayed whom, what dies and channels did, what it looks
//! like now.

pub(crate) mod account;
pub(crate) mod activity;
pub(crate) mod blame;
pub(crate) mod gauge;
pub mod stats;
pub mod turnover;
