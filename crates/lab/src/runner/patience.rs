//! An end to runs that would have none.

use crate::run_error::RunError;
use mynah_model::config::{Config, PageTimes};
use mynah_stamp::{Span, Time};

/// Pages programmed without a completion after which a run is given up: no command waits for so
/// many.
const PAGES: u64 = 1_000_000;
/// Looks while [`PAGES`] are programmed: more than one, so that a user can interrupt such a run
/// earlier.
const LOOKS: u64 = 8;

/// Detects runs that would never end: the drive stays busy with itself, and completes nothing.
pub(super) struct Patience {
    /// How often to look: the dies together need [`LOOKS`] times as long for [`PAGES`], at least.
    span: Span,
    /// Time of the next look.
    pub(super) until: Time,
    /// State at the look since which nothing was completed.
    waits: Option<Waits>,
}

/// State of a run at a look since which nothing was completed.
struct Waits {
    since: Time,
    /// Commands completed by then, and pages programmed.
    completed: u64,
    programmed: u64,
}

impl Patience {
    pub(super) fn new(config: &Config) -> Patience {
        let PageTimes { lsb, csb, msb, fourth, fifth } = config.flash.program;
        let longest = [lsb, csb, msb, fourth, fifth, config.flash.erase].into_iter().max();
        let longest = longest.unwrap_or_default().max(Span::from_us(100));
        let span = longest.times((PAGES / LOOKS / u64::from(config.geometry.dies())).max(1));
        Patience { span, until: Time::ZERO + span, waits: None }
    }

    /// Since the start `completed` commands and `programmed` pages have been; so many commands are
    /// `outstanding`.
    ///
    /// # Errors
    /// If nothing was completed while the drive programmed more than [`PAGES`].
    pub(super) fn look(
        &mut self,
        now: Time,
        completed: u64,
        outstanding: u64,
        programmed: u64,
    ) -> Result<(), RunError> {
        self.until = now + self.span;
        match &self.waits {
            Some(waits) if outstanding > 0 && completed == waits.completed => {
                let programmed = programmed - waits.programmed;
                if programmed > PAGES {
                    let waited = now.since(waits.since);
                    return Err(RunError::NeverDone { outstanding, waited, programmed });
                }
            }
            _ => {
                let waits = Waits { since: now, completed, programmed };
                self.waits = (outstanding > 0).then_some(waits);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Settle;
    use crate::simulation::{Simulation, Step};

    fn patience() -> Patience {
        let span = Span::from_secs(700);
        Patience { span, until: Time::ZERO + span, waits: None }
    }

    #[test]
    fn what_waits_while_a_million_pages_are_programmed_waits_for_ever() {
        let mut patience = patience();
        patience.look(patience.until, 5, 1, 300).unwrap();
        assert_eq!(patience.until, Time::ZERO + Span::from_secs(1400));
        patience.look(patience.until, 5, 1, PAGES + 300).unwrap();
        let error = patience.look(patience.until, 5, 1, PAGES + 301).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("1 I/Os wait") && said.contains("1000001 pages"), "{said}");
        assert!(said.contains("1400s"), "{said}");
    }

    #[test]
    fn who_has_just_come_or_is_served_is_waited_for() {
        let mut patience = patience();
        // Nothing was outstanding, then something is, then it is done.
        patience.look(patience.until, 5, 0, 0).unwrap();
        patience.look(patience.until, 5, 0, 2 * PAGES).unwrap();
        patience.look(patience.until, 5, 1, 4 * PAGES).unwrap();
        patience.look(patience.until, 6, 1, 6 * PAGES).unwrap();
        patience.look(patience.until, 7, 0, 8 * PAGES).unwrap();
        patience.look(patience.until, 7, 1, 10 * PAGES).unwrap();
    }

    #[test]
    fn a_slow_drive_is_waited_for() {
        let mut patience = patience();
        for pages in 0..100 {
            patience.look(patience.until, 5, 1, pages).unwrap();
        }
    }

    /// A mapping table of which little is cached, in the same blocks as data, and blocks chosen
    /// blindly: what is collected has its place written down in more pages than are won back, and
    /// writes wait for ever.
    #[test]
    fn a_run_without_end_can_be_ended_and_ends_by_itself() {
        let settings = [
            "geometry.blocks_per_plane=100",
            "geometry.pages_per_block=32",
            "over_provisioning=12%",
            "gc.victim=random",
            "gc.write_frontiers=one",
            "mapping.table=cached",
            "mapping.cmt.size=64KiB",
            "mapping.cmt.granularity=page",
        ];
        let run = Simulation::on_changed("samsung-48l-tlc", &settings.map(String::from)).unwrap();
        let run = run.precondition(crate::experiment::Precondition::Steady);
        let mut run = run.flow("flow", "rw=randwrite bs=4k iodepth=8 number_ios=3000").unwrap();
        run.options.settle = Settle::Off;
        let measured = run.run_watched(&mut |step| !matches!(step, Step::Running(_))).unwrap();
        assert!(measured.interrupted);
        // What was measured until then is not lost.
        let stopped = run.run().unwrap().result;
        let reason = stopped.untrusted.unwrap();
        assert!(reason.starts_with("the drive has stopped: 8 I/Os wait, and none"), "{reason}");
        assert!(stopped.requests > 0);
    }
}
