//! What a stock Linux initiator did with each I/O, from its kernel's trace.
//!
//! `hooks.rs` lists what is looked at, with alternatives; `format.rs` and `page.rs` read what the
//! kernel says of its events and the pages of its ring buffer (Linux:
//! `Documentation/trace/ring-buffer-design.rst`, `kernel/trace/ring_buffer.c`); `event.rs` makes
//! events of them and `initiator.rs` records of I/Os; `hits.rs` reads how many the kernel counted, and
//! `replay.rs` a stored trace. Nothing here touches the system: who has the trace hands bytes over.

mod event;
mod format;
mod hits;
mod hooks;
mod initiator;
mod page;
mod replay;
#[cfg(test)]
mod tests;

pub use event::{Decoder, Event, TimedEvent, Unfit};
pub use format::{EventFormat, Field, FormatError};
pub use hits::{Hits, hits};
pub use hooks::{Alternative, HOOKS, Hook, HookUse, LeftOut, NotLeftOut, Probe, coverage_text};
pub use initiator::{EndedIo, Initiator, KERNEL_BESIDE, kernel_header};
pub use page::{Entry, Missed, Page, PageError};
pub use replay::{Replayed, replay};
