//! A drive in lock-step with a QEMU guest: the guest's instructions are the time of both.
//!
//! The guest's clock (`link`) is a plugin of QEMU's. It lets the guest run only as far as the
//! drive says, which is until the model's next event or the end of a quantum. There the guest
//! stands still: the model goes on to the event, data are moved, completions written, interrupts
//! raised, and when QEMU has taken them the guest is let go (`engine`). Doorbells are trapped: QEMU
//! waits for the drive's answer to each, and the guest stands still behind it until the drive has
//! said how far it may go now. So nothing is ever late, and no clock of the host's has a say.
//!
//! `account` is what is counted of the guest meanwhile.

mod account;
mod engine;
mod link;

pub use engine::Engine;
pub use link::Link;

use mynah_result::Guest;
use mynah_stamp::Span;
use std::path::{Path, PathBuf};

/// The clock's socket in the folder of a function, unless another is given.
const NAME: &str = "clock";

/// How a drive and a guest are kept in step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestClock {
    /// The guest runs no longer than this without the drive.
    pub quantum: Span,
    /// Where the guest's clock connects; beside the function's own socket if it is not given.
    pub socket: Option<PathBuf>,
}

impl GuestClock {
    /// What a guest may run without the drive, unless something else is asked for.
    pub const QUANTUM: Span = Span::from_ms(1);

    /// Where the guest's clock connects, for a function in `folder`.
    pub fn path(&self, folder: &Path) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| folder.join(NAME))
    }
}

/// How a guest's run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What it has executed; `None` if none came.
    pub guest: Option<Guest>,
    /// What ended it, if that was not in order.
    pub failure: Option<String>,
}
