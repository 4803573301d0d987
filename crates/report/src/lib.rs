//! Results as people look at them: the summary on a terminal, the page in a browser, two runs side
//! by side, and the packets of an Ethernet drive as a capture that Wireshark reads.
//!
//! What is shown is known from results and records: nothing here drives a drive.

pub mod capture;
pub mod comparison;
pub mod html;
pub mod page;
pub mod sheet;
pub mod summary;
