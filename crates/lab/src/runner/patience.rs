//! An end to runs that would have none.

use super::error::RunError;
use mynah_model::config::{Config, PageTimes};
use mynah_stamp::{Span, Time};

/// Finds out that a run would never end: a drive can be busy for ever with what it does to itself.
pub(super) struct Patience {
    /// A die programs more than a million pages in so long.
    span: Span,
    /// When to look again.
    pub(super) until: Time,
    /// What had been completed the last time, if more was outstanding.
    completed: Option<u64>,
}

impl Patience {
    pub(super) fn new(config: &Config) -> Patience {
        let PageTimes { lsb, csb, msb, fourth, fifth } = config.flash.program;
        let longest = [lsb, csb, msb, fourth, fifth, config.flash.erase].into_iter().max();
        let span = longest.unwrap_or_default().max(Span::from_us(100)).times(1_000_000);
        Patience { span, until: Time::ZERO + span, completed: None }
    }

    /// `completed` commands have been since the start, and so many are `outstanding`.
    ///
    /// # Errors
    /// If that was so the last time, too.
    pub(super) fn look(
        &mut self,
        now: Time,
        completed: u64,
        outstanding: u64,
    ) -> Result<(), RunError> {
        if self.completed == Some(completed) {
            return Err(RunError::NeverDone { outstanding, waited: self.span });
        }
        self.completed = (outstanding > 0).then_some(completed);
        self.until = now + self.span;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience() -> Patience {
        let span = Span::from_secs(700);
        Patience { span, until: Time::ZERO + span, completed: None }
    }

    #[test]
    fn what_waits_from_one_look_to_the_next_waits_for_ever() {
        let mut patience = patience();
        patience.look(patience.until, 5, 1).unwrap();
        assert_eq!(patience.until, Time::ZERO + Span::from_secs(1400));
        let error = patience.look(patience.until, 5, 1).unwrap_err();
        assert!(error.to_string().contains("1 I/Os wait"), "{error}");
    }

    #[test]
    fn who_has_just_come_or_is_served_is_waited_for() {
        let mut patience = patience();
        // Nothing was outstanding, then something is, then it is done.
        patience.look(patience.until, 5, 0).unwrap();
        patience.look(patience.until, 5, 1).unwrap();
        patience.look(patience.until, 6, 1).unwrap();
        patience.look(patience.until, 7, 0).unwrap();
        patience.look(patience.until, 7, 0).unwrap();
    }
}
