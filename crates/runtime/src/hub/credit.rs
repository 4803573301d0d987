//! The real path's part of the modelled time, for drives whose own link is the network.
//!
//! What such a drive models begins when the host sends and ends when the answer is at the host. The
//! real path takes some of that already. So the model goes ahead by what the path takes at least (the
//! credit), and an answer leaves so much before its modelled end. A command is taken as sent when its
//! first bytes came, as long as the model has done nothing since: one that comes sooner after another's
//! answer than a host on that path could have sent it is taken later, by up to the credit. The model
//! knows nothing of it: what it was given, and when, is what a recording holds.

use crate::clock::Rate;
use mynah_device::Now;
use mynah_drive_file::units::Duration;
use mynah_stamp::{Span, Time};

/// A run is not trusted if the real path takes longer than the modelled one for more than one command
/// in so many.
const SHORT_MAX: u64 = 100;

/// What of the modelled time the real path is credited with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathCredit {
    /// What the nearest host's path has been seen to take at least ([`super::PathMeter`]).
    Auto,
    /// The same span for every command.
    Fixed(Span),
    /// Nothing: the path adds to what is modelled.
    #[default]
    Off,
}

/// The credit for the real path, in host time and in model time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit {
    pub(super) wall: Span,
    pub(super) model: Span,
}

impl Credit {
    pub(super) fn new(wall: Span, rate: Rate) -> Credit {
        Credit { wall, model: rate.model(Time::ZERO + wall).since(Time::ZERO) }
    }

    /// A command that came at `arrival` to a model that has come to `come_to`. If its data had to be
    /// asked for, the command itself came at `asked`, on the model's clock.
    #[inline]
    pub(super) fn take_in(
        &self,
        rate: Rate,
        come_to: Time,
        arrival: Time,
        mut asked: Option<Time>,
    ) -> Taken {
        let mut now = Now { wall: arrival, model: rate.model(arrival) };
        if !self.model.is_zero() {
            // How its data come is modelled.
            now.model = asked.take().unwrap_or(now.model).min(now.model);
            now.wall = rate.wall(now.model).min(arrival);
        }
        let mut missed = come_to.saturating_since(now.model);
        if !self.model.is_zero() && !missed.is_zero() {
            asked = Some(now.model);
            // What the model is ahead is no uncertainty.
            missed = missed.saturating_sub(self.model);
        }
        Taken { now, asked, missed: rate.wall_span(missed) }
    }
}

/// When a command takes effect.
pub(super) struct Taken {
    pub(super) now: Now,
    /// When it came, on the model's clock, if that was before.
    pub(super) asked: Option<Time>,
    /// By how much the model has missed that, in the host's time.
    pub(super) missed: Span,
}

/// Sums of what was credited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credited {
    /// Commands that were modelled.
    pub commands: u64,
    /// Commands whose modelled time is less than the credit: they were answered late.
    pub short: u64,
    /// Commands that took effect later than they came, since the model was ahead.
    pub held: u64,
    /// Sum of the time by which commands were held back, on the host's clock.
    pub held_by: Span,
    /// The credit that was given last.
    pub last: Span,
}

impl Credited {
    /// What a result says of it; nothing if nothing was credited.
    pub(crate) fn result(&self) -> Option<mynah_result::PathCredit> {
        let all = self.commands.max(1) as f64;
        (self.commands > 0).then(|| mynah_result::PathCredit {
            credit_ns: self.last.as_ns_f64(),
            commands: self.commands,
            short: self.short,
            held: self.held,
            held_mean_ns: self.held_by.as_ns_f64() / all,
        })
    }

    /// Why the run must not be trusted, if it must not.
    pub fn verdict(&self) -> Option<String> {
        (self.short * SHORT_MAX > self.commands).then(|| {
            format!(
                "the real path takes {}, and {} of {} commands less than that on the modelled \
                 drive: its host is too far away",
                Duration(self.last),
                self.short,
                self.commands
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_may_be_short() {
        let of = |short| Credited { commands: 1000, short, ..Credited::default() };
        assert_eq!(of(10).verdict(), None);
        assert!(of(11).verdict().is_some_and(|why| why.contains("11 of 1000 commands")));
        assert_eq!(Credited::default().verdict(), None);
    }

    #[test]
    fn a_credit_goes_as_fast_as_the_clock() {
        let us = Span::from_us;
        let credit = Credit::new(us(8), Rate::new(0.5).unwrap());
        assert_eq!((credit.wall, credit.model), (us(8), us(4)));
    }
}
