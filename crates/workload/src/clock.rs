//! When the requests of a stream arrive.

use crate::random::exponential;
use mynah_stamp::Time;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The arrival process of a job's requests.
#[derive(Debug)]
pub(crate) enum Clock {
    /// In a closed loop: at once.
    Closed,
    /// The next arrival is at `next` plus `remainder / rate` picoseconds.
    Fixed { next: u64, step: u64, remainder: u64, step_remainder: u64, rate: u64 },
    /// Exponential intervals (a Poisson process), after the last arrival at `now` in picoseconds.
    Exponential { now: u64, mean_ps: f64 },
}

impl Clock {
    /// When the next request arrives.
    pub(crate) fn next(&mut self, rng: &mut Xoshiro256PlusPlus) -> Time {
        match self {
            Clock::Closed => Time::ZERO,
            Clock::Fixed { next, step, remainder, step_remainder, rate } => {
                let at = *next;
                *remainder += *step_remainder;
                let carry = *remainder >= *rate;
                if carry {
                    *remainder -= *rate;
                }
                *next = next.saturating_add(*step + u64::from(carry));
                Time::from_ps(at)
            }
            Clock::Exponential { now, mean_ps } => {
                *now = now.saturating_add((exponential(rng) * *mean_ps) as u64);
                Time::from_ps(*now)
            }
        }
    }
}
