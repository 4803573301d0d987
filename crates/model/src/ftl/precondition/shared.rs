//! What preconditioning has made of one drive, for others that it would make the same of.
//!
//! Preconditioning takes no time, and changes nothing but what the translation layer knows; that is built
//! from the configuration without the times of the link, of the firmware and of Ethernet. So drives that
//! differ in nothing but these end in the same state, to the last bit and the next random number. The
//! times of the flash and its bus shape only steady states of which it is known how fast they are written,
//! since they say how much of the time a plane collects.

use crate::config::{Config, FlashTiming};
use crate::drive::Drive;
use crate::ftl::Ftl;
use mynah_stamp::Time;

/// A state that drives of the same configuration, but for times, may take over.
pub struct Prepared {
    ftl: Ftl,
    config: Config,
}

impl Config {
    /// Whether a drive of `other` would be prepared into the very state that one of this is; `of_flash`
    /// says whether the times of the flash and its bus count, as they do in steady states
    /// ([`Drive::take_prepared`]).
    pub fn is_prepared_like(&self, other: &Config, of_flash: bool) -> bool {
        // Everything but what is named here has to be equal.
        let like = Config {
            link: self.link,
            firmware: self.firmware,
            ethernet: self.ethernet.clone(),
            ..other.clone()
        };
        match of_flash {
            true => like == *self,
            false => Config { flash: times_of(self, &like), bus: self.bus, ..like } == *self,
        }
    }
}

/// The flash of `like` with the times of `of`.
fn times_of(of: &Config, like: &Config) -> FlashTiming {
    let FlashTiming { read, program, erase, read_ready_delay, .. } = of.flash;
    FlashTiming { read, program, erase, read_ready_delay, ..like.flash }
}

impl Drive {
    /// A copy of what preconditioning has made of this drive, which has not been used since.
    ///
    /// `None` if it has, or has namespaces of pairs, which know more.
    pub fn prepared(&self) -> Option<Prepared> {
        match self.is_unused() {
            true => Some(Prepared { ftl: self.ftl.copied()?, config: self.config.clone() }),
            false => None,
        }
    }

    pub(super) fn is_unused(&self) -> bool {
        self.kernel.now == Time::ZERO
            && self.kernel.observe.counted().commands == 0
            && self.host.commands_inside() == 0
    }

    /// Makes this drive, which is new, what the one was that `prepared` was taken of; whether it fits. If
    /// not, nothing has changed. Who asks has to know that both would be prepared alike, and to what the
    /// times of the flash and its bus count: to a steady state of which any class is written as fast as it
    /// can be, or is known how fast.
    pub fn take_prepared(&mut self, prepared: &Prepared, of_flash: bool) -> bool {
        if !self.is_unused() || !self.config.is_prepared_like(&prepared.config, of_flash) {
            return false;
        }
        let Some(ftl) = prepared.ftl.copied() else { return false };
        self.ftl = ftl;
        self.restart_counters();
        true
    }
}
