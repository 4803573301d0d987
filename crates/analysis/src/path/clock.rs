//! How a target's clock goes beside a host's, from the stamps of the I/Os themselves.
//!
//! What leaves the host at h arrives at the target at t: so the target's clock is ahead of the host's
//! by at most t - h. What leaves the target at t arrives at the host at h: so it is ahead by at least
//! t - h. All I/Os together leave a band; the line in its middle is the relation, and half its width
//! is the bound on every time that crosses the network one way (skew by linear constraints, as of
//! Moon, Skelly and Towsley, "Estimation and removal of clock skew from network delay measurements",
//! INFOCOM 1999).

use mynah_stamp::Time;

/// Clocks of computers run at rates that differ by less than a thousandth.
const DRIFT_MAX: f64 = 1e-3;
/// Steps of the search for the line that is farthest out.
const STEPS: usize = 100;

/// One limit on how far the target's clock is ahead: at a time of the host's, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    at: f64,
    ahead: f64,
}

/// What is known of two clocks.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// When the first was taken, on the host's clock and the target's: others are told from there.
    origin: Option<(Time, Time)>,
    upper: Vec<Limit>,
    lower: Vec<Limit>,
}

/// How a target's clock goes beside a host's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockRelation {
    origin: (Time, Time),
    /// How far the target's is ahead at the origin, beside the difference of the origins; and by
    /// how much more a nanosecond later.
    ahead_ns: f64,
    drift: f64,
    /// Largest error of a time that is converted from one clock to the other.
    pub bound_ns: f64,
}

/// No relation of two clocks explains their stamps.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the clocks of the two sides contradict each other: what was sent came {by_ns:.0} ns before it \
     was sent, whatever their relation; was a clock set meanwhile?"
)]
pub struct Contradiction {
    /// Least time by which the clocks' bounds contradict each other.
    pub by_ns: f64,
}

/// Times as differences from the origin, in nanoseconds.
fn since(at: Time, origin: Time) -> f64 {
    (i128::from(at.as_ps()) - i128::from(origin.as_ps())) as f64 / 1e3
}

impl Stamps {
    fn limit(&mut self, host: Time, target: Time) -> Limit {
        let (of_host, of_target) = *self.origin.get_or_insert((host, target));
        let at = since(host, of_host);
        Limit { at, ahead: since(target, of_target) - at }
    }

    /// Adds a message from the host to the target, by its times on both clocks.
    pub(super) fn sent(&mut self, left: Time, arrived: Time) {
        let limit = self.limit(left, arrived);
        self.upper.push(limit);
    }

    /// Adds a message from the target to the host, by its times on both clocks.
    pub(super) fn answered(&mut self, left: Time, arrived: Time) {
        let limit = self.limit(arrived, left);
        self.lower.push(limit);
    }

    /// The relation.
    ///
    /// # Errors
    /// If there is none.
    ///
    /// # Panics
    /// Without a stamp of either direction.
    pub(super) fn relation(self) -> Result<ClockRelation, Contradiction> {
        let origin = self.origin.expect("there are stamps");
        let upper = hull(self.upper, 1.0);
        let lower = hull(self.lower, -1.0);
        // For a drift, how far ahead the target's clock can be at most and at least.
        let most = |drift: f64| least(upper.iter().map(|it| it.ahead - drift * it.at));
        let fewest = |drift: f64| -least(lower.iter().map(|it| drift * it.at - it.ahead));
        let room = |drift: f64| most(drift) - fewest(drift);
        let widest = peak(-DRIFT_MAX, DRIFT_MAX, room);
        if room(widest) < 0.0 {
            return Err(Contradiction { by_ns: -room(widest) / 2.0 });
        }
        // The drifts that are possible at all, on either side of that.
        let slowest = edge(widest, -DRIFT_MAX, |drift| room(drift) >= 0.0);
        let fastest = edge(widest, DRIFT_MAX, |drift| room(drift) >= 0.0);
        let drift = f64::midpoint(slowest, fastest);
        let ahead_ns = f64::midpoint(most(drift), fewest(drift));
        let times = || upper.iter().chain(&lower).map(|it| it.at);
        let (first, last) = (least(times()), -least(times().map(|at| -at)));
        // The band is widest at one of its ends.
        let bound = [first, last].map(|at| {
            let line = ahead_ns + drift * at;
            let highest = peak(slowest, fastest, |drift| most(drift) + drift * at);
            let lowest = peak(slowest, fastest, |drift| -fewest(drift) - drift * at);
            let highest = most(highest) + highest * at;
            let lowest = fewest(lowest) + lowest * at;
            (highest - line).max(line - lowest)
        });
        let bound_ns = bound[0].max(bound[1]).max(0.0);
        Ok(ClockRelation { origin, ahead_ns, drift, bound_ns })
    }
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

/// Where a concave function is greatest.
fn peak(mut from: f64, mut to: f64, of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..STEPS {
        let third = (to - from) / 3.0;
        match of(from + third) < of(to - third) {
            true => from += third,
            false => to -= third,
        }
    }
    f64::midpoint(from, to)
}

/// How far one can go from a place where something holds to one where it may not.
fn edge(mut holds: f64, mut may_not: f64, of: impl Fn(f64) -> bool) -> f64 {
    if of(may_not) {
        return may_not;
    }
    for _ in 0..STEPS {
        let middle = f64::midpoint(holds, may_not);
        match of(middle) {
            true => holds = middle,
            false => may_not = middle,
        }
    }
    holds
}

/// Those limits that others do not make needless: the lower side of the convex hull of upper limits
/// (`sign` 1), or the upper side of that of lower ones (-1).
fn hull(mut limits: Vec<Limit>, sign: f64) -> Vec<Limit> {
    limits.sort_by(|a, b| {
        let by_ahead = (sign * a.ahead).total_cmp(&(sign * b.ahead));
        a.at.total_cmp(&b.at).then(by_ahead)
    });
    let mut kept: Vec<Limit> = vec![];
    for limit in limits {
        if kept.last().is_some_and(|last| last.at == limit.at) {
            continue;
        }
        while let [.., first, second] = kept[..] {
            let turn = (second.at - first.at) * (limit.ahead - first.ahead)
                - (second.ahead - first.ahead) * (limit.at - first.at);
            if sign * turn > 0.0 {
                break;
            }
            kept.pop();
        }
        kept.push(limit);
    }
    kept
}

impl ClockRelation {
    /// A time of the target's on the host's clock, in picoseconds; it may be before the host's 0.
    pub fn on_host(&self, target: Time) -> i128 {
        let (of_host, of_target) = self.origin;
        let passed = since(target, of_target);
        // ahead(h) = ahead + drift * h, and t = h + ahead(h).
        let host = (passed - self.ahead_ns) / (1.0 + self.drift);
        i128::from(of_host.as_ps()) + libm::round(host * 1e3) as i128
    }

    /// How far the target's clock is ahead of the host's, in nanoseconds.
    pub fn offset_ns(&self) -> f64 {
        let (of_host, of_target) = self.origin;
        since(of_target, of_host) + self.ahead_ns
    }

    /// By how much faster the target's clock goes, in parts of a million.
    pub fn drift_ppm(&self) -> f64 {
        self.drift * 1e6
    }

    /// Of two clocks that are one, where the target's times are told from `ahead` picoseconds later.
    pub(super) fn one_clock(later_ps: i128) -> ClockRelation {
        let at = |ps: i128| Time::from_ps(u64::try_from(ps).unwrap_or(0));
        let origin = (at(later_ps), at(-later_ps));
        ClockRelation { origin, ahead_ns: 0.0, drift: 0.0, bound_ns: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_stamp::Span;
    use proptest::prelude::*;

    /// A target's clock: so far ahead, and so much faster.
    fn on_target(host: u64, ahead_ns: i64, ppm: f64) -> Time {
        let ns = host as f64 * (1.0 + ppm / 1e6);
        Time::from_ps(((ns + ahead_ns as f64) * 1e3) as u64)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever the clocks and the delays of the network: no time on the other clock is wrong by
        /// more than the bound, and the bound is that of the shortest delays.
        #[test]
        fn the_error_is_within_the_bound(
            ahead_us in -1_000_000i64..1_000_000,
            ppm in -100.0..100.0f64,
            ios in prop::collection::vec((0u64..60_000_000_000, 0u64..40_000, 0u64..40_000), 2..200),
        ) {
            let (start, ahead) = (3_600_000_000_000u64, ahead_us * 1_000);
            let mut stamps = Stamps::default();
            for &(at, out, back) in &ios {
                let left = start + at;
                let arrived = left + 700 + out;
                let answered = arrived + 80_000;
                let back = answered + 700 + back;
                stamps.sent(Time::from_ns(left), on_target(arrived, ahead, ppm));
                stamps.answered(on_target(answered, ahead, ppm), Time::from_ns(back));
            }
            let relation = stamps.relation().expect("clocks that go evenly");
            for &(at, ..) in &ios {
                let host = start + at;
                let found = relation.on_host(on_target(host, ahead, ppm)) as f64 / 1e3;
                let error = (found - host as f64).abs();
                prop_assert!(error <= relation.bound_ns + 10.0, "{error} ns of {relation:?}");
            }
        }
    }

    #[test]
    fn many_ios_leave_little_room() {
        let mut stamps = Stamps::default();
        // Delays of 1 to 21 us: a hundred I/Os have nearly the shortest of them both ways.
        for n in 0..1_000u64 {
            let left = n * 1_000_000;
            let arrived = left + 1_000 + n * 7_919 % 20_011;
            let back = arrived + 50_000 + 1_000 + n * 104_729 % 20_021;
            stamps.sent(Time::from_ns(left), on_target(arrived, 5_000_000_000, 20.0));
            stamps.answered(on_target(arrived + 50_000, 5_000_000_000, 20.0), Time::from_ns(back));
        }
        let relation = stamps.relation().unwrap();
        assert!(relation.bound_ns < 1_600.0, "{relation:?}");
        assert!((relation.drift_ppm() - 20.0).abs() < 2.0, "{relation:?}");
        assert!((relation.offset_ns() - 5e9).abs() < relation.bound_ns + 10.0, "{relation:?}");
    }

    #[test]
    fn a_clock_that_was_set_is_found_out() {
        let mut stamps = Stamps::default();
        for n in 0..100u64 {
            let left = Time::from_ns(n * 1_000_000);
            let ahead = if n < 50 { 0 } else { 400_000 };
            let arrived = on_target(n * 1_000_000 + 1_000, ahead, 0.0);
            stamps.sent(left, arrived);
            stamps.answered(arrived, left + Span::from_us(2));
        }
        let contradiction = stamps.relation().unwrap_err();
        assert!(contradiction.by_ns > 1_000.0, "{contradiction}");
    }
}
