//! How long a target that is not there yet is waited for.
//!
//! Only what may pass by itself is tried again: nobody listens, or not yet. Who answers something
//! else than NVMe, or refuses, will do so again.

use super::{CONNECTING, HostError, without_hints};
use crate::clock::{Clock, Rate};
use mynah_wire::nvme::Status;
use std::io::ErrorKind;
use std::time::Duration;

/// The pause between attempts, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// Connections that were accepted and closed without an answer: a target that is about to begin does
/// that, or whoever forwards to it, but so do servers of other protocols.
const CLOSED_MAX: u32 = 3;

/// Attempts something until it succeeds, fails in a way that does not pass, or `wait` is over.
///
/// # Errors
/// The last attempt's.
pub fn persist<T>(
    wait: Duration,
    mut attempt: impl FnMut() -> Result<T, HostError>,
) -> Result<T, HostError> {
    let clock = Clock::start(Rate::REAL);
    let (mut pause, mut closed) = (PAUSE_MIN, 0);
    loop {
        let error = match attempt() {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        closed += u32::from(matches!(error, HostError::Closed | HostError::Lost(_)));
        let passed = Duration::from_nanos(clock.wall().as_ps() / 1_000);
        let left = wait.saturating_sub(passed);
        if left.is_zero() || closed >= CLOSED_MAX || !may_pass(&error) {
            return Err(error);
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Whether the next attempt may end otherwise.
fn may_pass(error: &HostError) -> bool {
    match error {
        HostError::Closed | HostError::Lost(_) => true,
        HostError::Connect { error, .. }
        | HostError::NbdConnect { error, .. }
        | HostError::Socket { error, .. } => matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown
                | ErrorKind::TimedOut
                | ErrorKind::NotFound
        ),
        HostError::Refused { what: CONNECTING, status } => {
            without_hints(*status) == Status::CONNECT_CONTROLLER_BUSY && !status.is_final()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    const LONG: Duration = Duration::from_secs(60);

    fn nobody() -> HostError {
        let error = io::Error::from(ErrorKind::ConnectionRefused);
        HostError::Connect { address: "there:4420".to_owned(), error }
    }

    /// How often something is attempted that fails like this, until it would succeed.
    fn attempts(wait: Duration, succeeds: u32, failure: impl Fn() -> HostError) -> (u32, bool) {
        let mut count = 0;
        let done = persist(wait, || {
            count += 1;
            if count == succeeds { Ok(()) } else { Err(failure()) }
        });
        (count, done.is_ok())
    }

    #[test]
    fn what_passes_is_waited_for() {
        assert_eq!(attempts(LONG, 5, nobody), (5, true));
        assert_eq!(attempts(Duration::ZERO, 5, nobody), (1, false), "once");
        let (count, done) = attempts(Duration::from_millis(120), 1_000, nobody);
        assert!(!done && (1..=4).contains(&count), "{count}");
    }

    #[test]
    fn what_does_not_pass_is_said_at_once() {
        let refused = |status| move || HostError::Refused { what: CONNECTING, status };
        let busy = Status::CONNECT_CONTROLLER_BUSY;
        assert_eq!(attempts(LONG, 3, refused(busy)), (3, true));
        assert_eq!(attempts(LONG, 3, refused(busy.do_not_retry())), (1, false));
        assert_eq!(attempts(LONG, 3, refused(Status::CONNECT_INVALID_HOST)), (1, false));
        assert_eq!(attempts(LONG, 3, || HostError::NotNvme("220 hello".to_owned())), (1, false));
        let silent = || HostError::Timeout { what: "the connection request", seconds: 10 };
        assert_eq!(attempts(LONG, 3, silent), (1, false));
        assert_eq!(attempts(LONG, 9, || HostError::Closed), (CLOSED_MAX, false));
    }
}
