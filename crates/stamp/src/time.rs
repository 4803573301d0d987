//! Instants and durations in integer picoseconds.
//!
//! A 64-bit count of picoseconds ends after 213 days. Arithmetic that would pass the end
//! panics in debug builds and saturates in release builds (sums that are added to in place
//! wrap): a run that long is refused by the experiment's runner before it starts.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

const PS_PER_NS: u64 = 1_000;
const PS_PER_US: u64 = 1_000_000;
const PS_PER_MS: u64 = 1_000_000_000;
const PS_PER_S: u64 = 1_000_000_000_000;

/// An instant on the drive's clock, in picoseconds since the drive was built.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(u64);

/// A duration in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Span(u64);

impl Time {
    /// The instant at which the drive was built.
    pub const ZERO: Time = Time(0);
    /// The last instant that can be represented, 213 days after [`Time::ZERO`].
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// The instant `ns` nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * PS_PER_NS)
    }

    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Nanoseconds since the start, with fractions.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / PS_PER_NS as f64
    }

    /// Seconds since the start, with fractions.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// The time that has passed since `earlier`.
    ///
    /// # Panics
    /// In debug builds, if `earlier` is later than `self`.
    pub fn since(self, earlier: Time) -> Span {
        debug_assert!(self >= earlier, "{self} is before {earlier}");
        Span(self.0.wrapping_sub(earlier.0))
    }

    /// The time that has passed since `earlier`, or zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    pub const ZERO: Span = Span(0);
    /// The longest duration that can be represented, 213 days.
    pub const MAX: Span = Span(u64::MAX);

    pub const fn from_ps(ps: u64) -> Span {
        Span(ps)
    }

    pub const fn from_ns(ns: u64) -> Span {
        Span(ns * PS_PER_NS)
    }

    pub const fn from_us(us: u64) -> Span {
        Span(us * PS_PER_US)
    }

    pub const fn from_ms(ms: u64) -> Span {
        Span(ms * PS_PER_MS)
    }

    pub const fn from_secs(s: u64) -> Span {
        Span(s * PS_PER_S)
    }

    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Nanoseconds, with fractions.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / PS_PER_NS as f64
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// This duration `n` times; saturates at [`Span::MAX`].
    pub const fn times(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }

    /// This duration less `other`, or zero.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        debug_assert!(self.0.checked_add(span.0).is_some(), "past the end of time");
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

/// For sums of time that has passed, which cannot pass the end before the clock does.
impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        debug_assert!(self.0.checked_add(other.0).is_some(), "past the end of time");
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        debug_assert!(self.0 >= other.0, "negative duration");
        Span(self.0.wrapping_sub(other.0))
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(iter: I) -> Span {
        iter.fold(Span::ZERO, Span::add)
    }
}

/// Writes picoseconds in the largest unit that keeps the number at or above one, with up
/// to three decimals: `88.906us`, `75us`, `1.2ms`.
fn write_duration(f: &mut fmt::Formatter<'_>, ps: u64) -> fmt::Result {
    let (unit, name) = match ps {
        0 => return f.write_str("0s"),
        1..PS_PER_NS => (1, "ps"),
        PS_PER_NS..PS_PER_US => (PS_PER_NS, "ns"),
        PS_PER_US..PS_PER_MS => (PS_PER_US, "us"),
        PS_PER_MS..PS_PER_S => (PS_PER_MS, "ms"),
        _ => (PS_PER_S, "s"),
    };
    let text = format!("{:.3}", ps as f64 / unit as f64);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    write!(f, "{text}{name}")
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_duration(f, self.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({}ps)", self.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_duration(f, self.0)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({}ps)", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_in_their_natural_unit() {
        let shown = |ps| Span::from_ps(ps).to_string();
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(7), "7ps");
        assert_eq!(shown(88_906_000), "88.906us");
        assert_eq!(shown(75_000_000), "75us");
        assert_eq!(shown(3_800_000_000), "3.8ms");
        assert_eq!(shown(2_000_000_000_000), "2s");
    }

    #[test]
    fn time_ends_after_213_days() {
        assert_eq!(Time::MAX.as_secs_f64() as u64 / 86_400, 213);
        assert_eq!(Span::MAX.times(2), Span::MAX);
    }
}
