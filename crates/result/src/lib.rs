//! What is counted while a drive runs, and the result that it becomes.
//!
//! [`recorder::Recorder`] takes completed commands, [`series`], [`request_log`], [`rows`] and
//! [`timeline`] keep more of them where that is wanted, [`precision`] and [`steady`] say when
//! enough was measured, and [`assembly`] makes a [`Result`] of it, the document that scripts read.
//! Nothing here drives a drive, and nothing says how a result looks to people, but for the words of
//! [`figures`].

pub mod assembly;
mod batch_means;
pub mod confidence;
mod document;
pub mod figures;
pub mod histogram;
pub mod kind;
pub mod output;
pub mod precision;
pub mod recorder;
pub mod request_log;
pub mod rows;
pub mod series;
pub mod slowest;
pub mod steady;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod timeline;

pub use document::*;
