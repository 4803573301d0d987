//! The clock: the only place of the target that reads the time.

use mynah_device::Now;
use mynah_stamp::{Span, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Factors are held in parts of so much: `1.0` is `1 << 32`.
const UNIT: u32 = 32;

/// How fast the model's time goes compared with the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// Model time goes as fast as the host's clock.
    pub const REAL: Rate = Rate(1 << UNIT);

    /// `factor` times as fast; `None` if it is not between a millionth and a thousand.
    pub fn new(factor: f64) -> Option<Rate> {
        (1e-6..=1e3).contains(&factor).then(|| Rate((factor * 2f64.powi(UNIT as i32)) as u64))
    }

    /// The model's time at a time of the host's.
    pub fn model(self, wall: Time) -> Time {
        if self == Rate::REAL {
            return wall;
        }
        Time::from_ps(scale(wall.as_ps(), self.0, 1 << UNIT))
    }

    /// The first time of the host's at which the model's has come to `model`.
    pub fn wall(self, model: Time) -> Time {
        if self == Rate::REAL {
            return model;
        }
        let before = Time::from_ps(scale(model.as_ps(), 1 << UNIT, self.0));
        match self.model(before) < model {
            true => Time::from_ps(before.as_ps().saturating_add(1 + (1 << UNIT) / self.0)),
            false => before,
        }
    }

    /// A span of the model's time in the host's.
    pub fn wall_span(self, model: Span) -> Span {
        if self == Rate::REAL {
            return model;
        }
        Span::from_ps(scale(model.as_ps(), 1 << UNIT, self.0))
    }
}

fn scale(value: u64, by: u64, over: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(over);
    scaled.min(u128::from(u64::MAX)) as u64
}

/// Processor time of the calling thread.
pub fn thread_cpu() -> Span {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Readings of two clocks are at one time if no more than this was between them; how often that is
/// tried.
const READING_MAX: Span = Span::from_ns(500);
const READINGS_MAX: u32 = 3;

/// Tells the time since it was made, in picoseconds, and never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Timespec,
    rate: Rate,
}

impl Clock {
    pub fn start(rate: Rate) -> Clock {
        Clock { origin: clock_gettime(ClockId::Monotonic), rate }
    }

    /// What the system's clock (`CLOCK_MONOTONIC`) said when this one was made, in nanoseconds.
    pub fn origin_ns(&self) -> u64 {
        self.origin.tv_sec as u64 * 1_000_000_000 + self.origin.tv_nsec as u64
    }

    /// How fast the model's time goes.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The host's time since the clock was made.
    pub fn wall(&self) -> Time {
        let now = clock_gettime(ClockId::Monotonic);
        let seconds = now.tv_sec - self.origin.tv_sec;
        let ns = seconds * 1_000_000_000 + (now.tv_nsec - self.origin.tv_nsec);
        Time::from_ns(ns as u64)
    }

    /// Model time and host time of the same moment.
    pub fn now(&self) -> Now {
        self.at(self.wall())
    }

    /// Both times, and how long ago something happened that the system's calendar
    /// (`CLOCK_REALTIME`) has at `stamp`.
    ///
    /// The two clocks cannot be read at once. What comes between makes the age too short, never too
    /// long, and is looked at again if it was much.
    pub fn since(&self, stamp: std::time::Duration) -> (Now, Span) {
        let mut first = self.wall();
        for _ in 0..READINGS_MAX {
            let age = age(stamp);
            let last = self.wall();
            if last.since(first) < READING_MAX {
                return (self.at(last), age);
            }
            first = last;
        }
        let age = age(stamp);
        (self.now(), age)
    }

    /// Both times at a time of the host's.
    pub fn at(&self, wall: Time) -> Now {
        Now { wall, model: self.rate.model(wall) }
    }
}

/// Whoever tells what time it is: the clock, a guest, or a test.
pub trait Times {
    /// Model time and host time of the same moment.
    fn now(&self) -> Now;

    /// How fast the model's time goes.
    fn rate(&self) -> Rate;
}

impl Times for Clock {
    #[inline]
    fn now(&self) -> Now {
        Clock::now(self)
    }

    #[inline]
    fn rate(&self) -> Rate {
        self.rate
    }
}

/// A time that stands still, and is the model's as well.
#[derive(Clone, Copy, Debug)]
pub struct Still(pub Time);

impl Times for Still {
    fn now(&self) -> Now {
        Now { wall: self.0, model: self.0 }
    }

    fn rate(&self) -> Rate {
        Rate::REAL
    }
}

/// Names the machine since it was started, and the time namespace (time_namespaces(7)) of this
/// process: two processes of the same name have one clock.
pub fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// How long ago this time of the calendar (`CLOCK_REALTIME`) was; zero if that
/// is yet to come.
pub fn age(calendar: std::time::Duration) -> Span {
    let now = clock_gettime(ClockId::Realtime);
    let now = std::time::Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    Span::from_ns(now.saturating_sub(calendar).as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Waiting until the wall time of a modelled moment is never too short, and hardly
        /// too long.
        #[test]
        fn a_modelled_moment_is_reached_and_not_passed(ps in 0..1u64 << 58, factor in -6.0..3.0f64) {
            let rate = Rate::new(10f64.powf(factor)).unwrap();
            let model = Time::from_ps(ps);
            let wall = rate.wall(model);
            prop_assume!(wall < Time::MAX);
            prop_assert!(rate.model(wall) >= model);
            let slack = 2 * ((1u64 << UNIT) / rate.0 + 1);
            if wall.as_ps() > slack {
                prop_assert!(rate.model(Time::from_ps(wall.as_ps() - slack)) <= model);
            }
        }
    }

    #[test]
    fn rates_outside_reason_are_refused() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e4, 1e-7] {
            assert_eq!(Rate::new(factor), None, "{factor}");
        }
        assert_eq!(Rate::new(1.0), Some(Rate::REAL));
    }

    #[test]
    fn time_goes_on() {
        let clock = Clock::start(Rate::REAL);
        let first = clock.now();
        let second = clock.now();
        assert!(second.wall >= first.wall && second.model >= first.model);
    }
}
