//! Signals that would end the process where an error tells more.

use nix::sys::signal::{SigHandler, Signal, signal};

/// Has writes beyond the limit for the size of files (`ulimit -f`) fail with EFBIG, which is
/// handled as a full disk is, instead of ending the process with SIGXFSZ (setrlimit(2),
/// RLIMIT_FSIZE).
#[allow(unsafe_code)]
pub fn refuse_large_files() {
    // SAFETY: no handler is installed that could run at any time: the signal is ignored.
    // Fails only for signals that there are not.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
}
