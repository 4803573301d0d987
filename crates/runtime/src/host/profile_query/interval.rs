//! What a profile says of an interval, in a line.

use mynah_profile::{Head, Header};
use mynah_result::figures::{count, duration, percent};
use mynah_result::histogram::Histogram;
use mynah_stamp::Span;

/// Most stages that a line names.
const NAMED: usize = 4;

/// Figures of the I/Os that ended within an interval.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    total: Histogram,
    stages: Vec<(String, u128)>,
    failed: u64,
    slow: u64,
    slowest: Span,
    lasted: Span,
    ended: u64,
}

impl Interval {
    /// An interval that begins, of a profile with this header.
    pub fn new(header: &Header) -> Interval {
        let stages = header.stages.iter().map(|name| (name.clone(), 0)).collect();
        Interval { stages, ..Interval::default() }
    }

    pub fn add(&mut self, head: &Head, stages: &[Span]) {
        self.slowest = self.slowest.max(head.total);
        if head.status != 0 {
            self.failed += 1;
        } else if head.kept {
            self.slow += 1;
        } else {
            self.total.record(head.total);
            for ((_, sum), span) in self.stages.iter_mut().zip(stages) {
                *sum += u128::from(span.as_ps());
            }
        }
    }

    /// It has ended after so long, and so many I/Os ended in it, with records or without.
    pub fn ended(&mut self, lasted: Span, ended: u64) {
        (self.lasted, self.ended) = (lasted, ended);
    }

    /// I/Os that ended in it, with records or without.
    pub fn completed(&self) -> u64 {
        self.ended
    }

    /// In words: how many I/Os, how long they took, and where most of that went.
    pub fn line(&self) -> String {
        let seconds = self.lasted.as_secs_f64();
        let iops = if seconds > 0.0 { self.ended as f64 / seconds } else { 0.0 };
        let mut line = format!("IOPS={}", count(iops));
        let Some(mean) = self.total.mean_ns().filter(|_| self.total.count() > 0) else {
            line.push_str(", no records");
            return line;
        };
        let percentile =
            |it: f64| duration(self.total.percentile(it).map_or(0.0, |span| span.as_ns_f64()));
        line += &format!(
            ", lat avg={}, 50%={}, 99%={}, max={}",
            duration(mean),
            percentile(50.0),
            percentile(99.0),
            duration(self.slowest.as_ns_f64())
        );
        let all = self.total.sum_ps().max(1) as f64;
        let mut stages: Vec<_> = self.stages.iter().filter(|(_, sum)| *sum > 0).collect();
        stages.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
        let named = stages.iter().take(NAMED);
        let named = named.map(|(name, sum)| format!("{name} {}", percent(*sum as f64 / all)));
        line += &format!(": {}", named.collect::<Vec<_>>().join(", "));
        for (number, what) in [(self.slow, "slow ones beside"), (self.failed, "failed")] {
            if number > 0 {
                line += &format!("; {number} {what}");
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_profile::{Side, TimeBase};

    #[test]
    fn a_line_names_what_took_most() {
        let mut header = Header::new(Side::Target, "a drive", TimeBase::Monotonic);
        header.stages = vec!["intake".into(), "drive".into(), "output".into()];
        let mut interval = Interval::new(&header);
        let mut add = |us: [u64; 3], kept, status| {
            let total = Span::from_us(us.iter().sum());
            let head = Head { total, kept, status, ..Head::default() };
            interval.add(&head, &us.map(Span::from_us));
        };
        add([1, 6, 0], false, 0);
        add([1, 12, 0], false, 0);
        add([0, 900, 0], true, 0);
        add([5, 0, 0], false, 2);
        interval.ended(Span::from_ms(500), 1000);
        let line = interval.line();
        assert!(line.starts_with("IOPS=2.00k, lat avg=10.0us, 50%="), "{line}");
        let end = ", max=900us: drive 90.0 %, intake 10.0 %; 1 slow ones beside; 1 failed";
        assert!(line.ends_with(end), "{line}");
        let mut nothing = Interval::new(&header);
        nothing.ended(Span::from_secs(1), 0);
        assert_eq!(nothing.line(), "IOPS=0.00, no records");
    }
}
