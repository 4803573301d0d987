//! Whether the namespace can be used over the path that a job has (ANA: Base 2.0, section 8.1), as
//! far as the answers to its commands say.
//!
//! A host with other paths would use those. With this one it tries again after growing pauses for as
//! long as a change of state may take (ANATT), and then gives up; where the access is lost for good
//! it does so at once. The ANA log is not read: whether a command is carried out says as much.

use mynah_stamp::{Span, Time};
use mynah_wire::nvme::Status;

/// The pause before I/Os are issued again, at first and at most.
const PAUSE_MIN: Span = Span::from_ms(10);
const PAUSE_MAX: Span = Span::from_secs(1);

/// A state of the path in which I/Os are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Inaccessible,
    PersistentLoss,
    Change,
}

impl State {
    /// The state that a command's status tells of.
    #[inline]
    pub(super) fn of(status: Status) -> Option<State> {
        match Status::new(status.code_type(), status.code()) {
            Status::ANA_INACCESSIBLE => Some(State::Inaccessible),
            Status::ANA_PERSISTENT_LOSS => Some(State::PersistentLoss),
            Status::ANA_TRANSITION => Some(State::Change),
            _ => None,
        }
    }

    /// Its name in the specification.
    pub(super) const fn name(self) -> &'static str {
        match self {
            State::Inaccessible => "ANA Inaccessible",
            State::PersistentLoss => "ANA Persistent Loss",
            State::Change => "ANA Change",
        }
    }
}

/// Whether a job's path to its namespace is usable, by its ANA state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// How long a change of state may take.
    transition: Span,
    /// Since when it has refused everything.
    since: Option<Time>,
    /// No command is issued before this time.
    retry_at: Option<Time>,
    pause: Span,
    /// How long it was not usable, in all.
    waited: Span,
}

impl Access {
    pub(super) fn new(transition: Span) -> Access {
        Access { transition, since: None, retry_at: None, pause: PAUSE_MIN, waited: Span::ZERO }
    }

    /// A command was refused because of `state`; whether it is to be tried again.
    pub(super) fn refused(&mut self, state: State, status: Status, now: Time) -> bool {
        let since = *self.since.get_or_insert(now);
        let is_final = state == State::PersistentLoss || status.is_final();
        if is_final || now.saturating_since(since) > self.transition {
            return false;
        }
        // What was refused together is tried again together.
        if self.retry_at.is_none() {
            self.retry_at = Some(now + self.pause);
            self.pause = self.pause.times(2).min(PAUSE_MAX);
        }
        true
    }

    /// A command was carried out, or refused for other reasons.
    #[inline]
    pub(super) fn answered(&mut self, now: Time) {
        if self.since.is_some() {
            self.works_again(now);
        }
    }

    #[cold]
    fn works_again(&mut self, now: Time) {
        *self = Access { waited: self.waited_until(now), ..Access::new(self.transition) };
    }

    /// When what was refused is tried again, if that is still to come: nothing is issued before.
    #[inline]
    pub(super) fn pauses_until(&mut self, now: Time) -> Option<Time> {
        self.retry_at = self.retry_at.filter(|&at| at > now);
        self.retry_at
    }

    /// How long it was not usable, in all.
    pub(super) fn waited_until(&self, now: Time) -> Span {
        self.waited + self.since.map_or(Span::ZERO, |since| now.saturating_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn a_change_is_waited_for_as_long_as_it_may_take() {
        let mut access = Access::new(Span::from_secs(2));
        let refuse =
            |access: &mut Access, now| access.refused(State::Change, Status::ANA_TRANSITION, now);
        assert_eq!(access.pauses_until(ms(0)), None);
        assert!(refuse(&mut access, ms(5)) && refuse(&mut access, ms(6)));
        assert_eq!(access.pauses_until(ms(7)), Some(ms(15)), "one pause for both");
        assert_eq!(access.pauses_until(ms(15)), None);
        // Pauses grow, but not without end.
        for (now, until) in [(20, 40), (50, 90), (100, 180), (1000, 1160), (1200, 1520)] {
            assert!(refuse(&mut access, ms(now)));
            assert_eq!(access.pauses_until(ms(now)), Some(ms(until)));
            assert_eq!(access.pauses_until(ms(until)), None);
        }
        assert!(refuse(&mut access, ms(2005)));
        assert!(!refuse(&mut access, ms(2006)), "more than 2 s");
        assert_eq!(access.waited_until(ms(2006)), Span::from_ms(2001));
        // A path that works again begins anew.
        access.answered(ms(3005));
        assert_eq!(access.waited_until(ms(9000)), Span::from_ms(3000));
        assert!(refuse(&mut access, ms(10_000)));
        assert_eq!(access.pauses_until(ms(10_000)), Some(ms(10_010)));
    }

    #[test]
    fn what_is_lost_for_good_is_not_waited_for() {
        for (state, status) in [
            (State::PersistentLoss, Status::ANA_PERSISTENT_LOSS),
            (State::Inaccessible, Status::ANA_INACCESSIBLE.do_not_retry()),
        ] {
            assert!(!Access::new(Span::from_secs(10)).refused(state, status, ms(1)));
        }
    }

    #[test]
    fn states_are_told_by_their_status() {
        assert_eq!(State::of(Status::ANA_TRANSITION.do_not_retry()), Some(State::Change));
        assert_eq!(State::of(Status::SUCCESS), None);
        assert_eq!(State::of(Status::INTERNAL_PATH_ERROR), None);
    }
}
