//! What drive is this? The parameters of an SSD, found by asking it and taking the time.
//!
//! A [`Subject`] is asked: a drive in virtual time ([`SimulatedDrive`]), or whatever else reads and
//! writes blocks. [`identify`] asks it, one method after the other; each method is a file in `methods/`
//! with its source in the literature, and sees nothing but when what was asked came back. What comes of
//! it is [`Findings`]: of each parameter its value with an interval and the evidence, or why it cannot
//! be told.

mod drive_file;
mod finding;
mod methods;
mod probe;
mod report;
mod simulated;
pub mod stats;
mod subject;

pub use drive_file::drive_file;
pub use finding::{Finding, Findings, Outcome, Picture, Value};
pub use methods::{Plan, identify};
pub use probe::{Ended, Limits, Watch};
pub use report::{html, json, text};
pub use simulated::{SimulatedDrive, SimulatedDriveError};
pub use subject::{Answer, Lost, Op, Subject};
