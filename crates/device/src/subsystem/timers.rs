//! What happens on the host's clock: hosts that are not heard of any more, work of admin commands that
//! takes its time, looks at the media.

use crate::subsystem::Subsystem;
use crate::subsystem::fabrics::KEEP_ALIVE_GRANULARITY_MS;
use mynah_stamp::{Span, Time};

/// How often the media are looked at for thresholds crossed.
const CHECK_INTERVAL: Span = Span::from_secs(60);

/// What is due on the host's clock.
#[derive(Debug)]
pub(crate) struct Timers {
    /// When one is due next, at the earliest.
    next: Option<Time>,
    /// When the media are looked at next.
    next_check: Time,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { next: None, next_check: Time::ZERO + CHECK_INTERVAL }
    }
}

impl Timers {
    /// When one is due next, at the earliest.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|at| at <= now)
    }

    /// Has [`Subsystem::run_timers`] called at `at` at the latest.
    pub(crate) fn set(&mut self, at: Option<Time>) {
        self.next = match (self.next, at) {
            (Some(before), Some(at)) => Some(before.min(at)),
            (before, at) => before.or(at),
        };
    }

    /// Sets the timer for the next look at the media.
    pub(crate) fn set_check(&mut self) {
        self.set(Some(self.next_check));
    }
}

impl Subsystem {
    pub(crate) fn run_timers(&mut self) {
        let now = self.now.wall;
        self.timers.next = None;
        for id in self.controllers.ids() {
            let Some(controller) = self.controllers.get(id) else { continue };
            match controller.expires() {
                Some(at) if at <= now && controller.is_guests() => {
                    if let Some(controller) = self.controllers.get_mut(id) {
                        controller.fail();
                    }
                    self.set_keep_alive(id, 0);
                }
                Some(at) if at <= now => {
                    let reason = match controller.keep_alive().is_zero() {
                        true => "the host has left the discovery controller idle",
                        false => "the host's keep-alive timer has run out",
                    };
                    self.end_controller(id, reason);
                }
                at => self.timers.set(at),
            }
        }
        self.run_tasks();
        if self.timers.next_check <= now {
            self.timers.next_check = now + CHECK_INTERVAL;
            self.check_media();
            self.media.outdate_description();
        }
        if self.controllers.iter().next().is_some() {
            self.timers.set_check();
        }
        match self.media.next_tend() {
            Some(at) if at <= now => self.tend_store(),
            at => self.timers.set(at),
        }
    }

    /// Has the store look after itself, and again after a while if it wants that.
    pub(crate) fn tend_store(&mut self) {
        let next = self.media.tend(self.now.wall);
        self.timers.set(next);
    }

    /// Sets a controller's keep-alive timeout, rounded up to the granularity.
    pub(crate) fn set_keep_alive(&mut self, id: u16, milliseconds: u32) {
        let Some(controller) = self.controllers.get_mut(id) else { return };
        let units = milliseconds.div_ceil(KEEP_ALIVE_GRANULARITY_MS);
        let rounded = u64::from(units) * u64::from(KEEP_ALIVE_GRANULARITY_MS);
        controller.set_keep_alive(Span::from_ms(rounded));
        controller.heard_of(self.now.wall);
        let at = controller.expires();
        self.timers.set(at);
        self.timers.set_check();
    }
}
