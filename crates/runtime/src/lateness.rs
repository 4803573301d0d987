//! How well real time kept up with the model.
//!
//! The lateness of a command is the moment at which its completion had been handed to the
//! network, less the modelled moment.
//!
//! Where the kernel notes when bytes come (`SO_TIMESTAMPNS`), a command takes effect in the
//! model at that moment, and its arrival is uncertain only by as much as the model had gone
//! past it already. The kernel has one note for all bytes that were received together: it is
//! true of the last command of them, and the others may have come at any moment since the look
//! before. Without notes (behind TLS, say) that holds for all. Where the engine slept between
//! two looks, it was woken by what came, and the gap is what waking up takes, as far as has
//! been seen lately.

use mynah_drive_file::units::Duration;
use mynah_result::Latency;
use mynah_result::histogram::Histogram;
use mynah_stamp::Span;

/// Smallest bound of a run's deviation.
const BOUND: Span = Span::from_us(50);

/// Lateness and arrival uncertainty of many commands, in the host's time.
#[derive(Debug, Default)]
pub struct Lateness {
    late: Histogram,
    uncertain: Histogram,
}

impl Clone for Lateness {
    fn clone(&self) -> Lateness {
        Lateness { late: self.late.clone(), uncertain: self.uncertain.clone() }
    }

    /// Allocates nothing.
    fn clone_from(&mut self, other: &Lateness) {
        self.late.clone_from(&other.late);
        self.uncertain.clone_from(&other.uncertain);
    }
}

impl Lateness {
    /// A command came; it may have come so long before it was seen.
    #[inline]
    pub fn arrived(&mut self, gap: Span) {
        self.uncertain.record(gap);
    }

    /// So many commands came, each within the same gap.
    pub fn arrived_many(&mut self, gap: Span, commands: u64) {
        self.uncertain.record_many(gap, commands);
    }

    /// A command was visible to the host so long after its modelled moment.
    #[inline]
    pub fn completed(&mut self, late: Span) {
        self.late.record(late);
    }

    /// The lateness; `None` without modelled commands.
    pub fn late(&self) -> Option<Latency> {
        self.late.latency()
    }

    /// The arrival uncertainty; `None` without commands.
    pub fn uncertain(&self) -> Option<Latency> {
        self.uncertain.latency()
    }

    /// The lateness of all modelled commands.
    pub fn late_histogram(&self) -> &Histogram {
        &self.late
    }

    /// The arrival uncertainty of all commands.
    pub fn uncertain_histogram(&self) -> &Histogram {
        &self.uncertain
    }

    /// The 99th percentile of the lateness.
    pub fn late_p99(&self) -> Option<Span> {
        self.late.percentile(99.0)
    }

    /// Why the run must not be trusted, if it must not: the 99th percentiles of lateness and
    /// arrival uncertainty together are above the bound. Without one that is 50 us or a
    /// tenth of the median latency, whichever is more.
    pub fn verdict(&self, bound: Option<Span>, median_latency: Option<Span>) -> Option<String> {
        let late = self.late_p99()?;
        let uncertain = self.uncertain.percentile(99.0).unwrap_or_default();
        let limit = bound.unwrap_or_else(|| usual_bound(median_latency));
        let sum = late + uncertain;
        (sum > limit).then(|| {
            let [sum, late, uncertain, limit] =
                [sum, late, uncertain, limit].map(|span| Duration(rounded(span)));
            format!(
                "real time was missed by {sum} at the 99th percentile ({late} late, arrival \
                 uncertain by {uncertain}); the bound is {limit}"
            )
        })
    }
}

/// What a run may be off unless something else is asked for: 50 us or a tenth of the median latency,
/// whichever is more.
pub fn usual_bound(median_latency: Option<Span>) -> Span {
    BOUND.max(median_latency.map_or(Span::ZERO, |median| Span::from_ps(median.as_ps() / 10)))
}

/// To whole nanoseconds: more would be noise.
fn rounded(span: Span) -> Span {
    Span::from_ns(span.as_ps() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_follows_the_bound() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.verdict(Some(Span::ZERO), None), None, "nothing was modelled");
        for _ in 0..100 {
            lateness.arrived(Span::from_us(20));
            lateness.completed(Span::from_us(40));
        }
        let us = Span::from_us;
        let trusted = |bound, median| lateness.verdict(bound, median).is_none();
        assert!(!trusted(None, Some(us(80))), "60 us are more than 50");
        assert!(trusted(None, Some(us(700))), "but less than a tenth of 700");
        assert!(trusted(Some(us(61)), Some(us(80))));
        assert!(!trusted(Some(us(59)), Some(us(700))), "a bound that was asked for holds");
        let why = lateness.verdict(None, None).unwrap();
        assert!(why.contains("the bound is 50us"), "{why}");
    }
}
