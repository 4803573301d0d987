//! An interval as lines: one for each group.

use mynah_analysis::live::{Interval, LiveGroup};
use mynah_result::figures::{count, duration, percent};
use std::fmt::Write;
use std::time::Duration;

/// Stages that are named, those that take longest.
const STAGES: usize = 4;

/// An interval as text; it ended `at` this time after the first one began.
pub(super) fn text(at: Duration, interval: &Interval) -> String {
    let mut out = String::new();
    for group in &interval.groups {
        line(&mut out, at, interval, group).expect("a string takes everything");
    }
    if interval.groups.is_empty() {
        let at = at.as_secs_f64();
        writeln!(out, "{at:.1}s: no I/Os{}", missing(interval)).expect("a string takes everything");
    }
    out
}

fn line(
    out: &mut String,
    at: Duration,
    interval: &Interval,
    group: &LiveGroup,
) -> std::fmt::Result {
    write!(
        out,
        "{:.1}s: {}: IOPS={}, lat 50%={}, 99%={}, avg={}",
        at.as_secs_f64(),
        group.name,
        count(group.iops),
        duration(group.p50_ns),
        duration(group.p99_ns),
        duration(group.mean_ns)
    )?;
    if let Some(times) = group.amplification {
        write!(out, " x{times:.2}")?;
    }
    write!(out, ", outstanding={:.1}", group.outstanding)?;
    let mut stages: Vec<_> = group.stages.iter().collect();
    stages.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns));
    for stage in stages.iter().take(STAGES) {
        let (name, mean, share) = (&stage.name, duration(stage.mean_ns), percent(stage.share));
        write!(out, ", {name}={mean} ({share})")?;
        if let Some(times) = stage.amplification {
            write!(out, " x{times:.2}")?;
        }
    }
    if group.failed > 0 {
        write!(out, ", {} failed", group.failed)?;
    }
    writeln!(out, "{}", missing(interval))
}

/// The I/Os that the profile has no records of.
pub(super) fn missing(interval: &Interval) -> String {
    let parts = [
        (interval.counts.filtered, "filtered"),
        (interval.counts.sampled_out, "not sampled"),
        (interval.counts.lost.saturating_add(interval.overwritten), "lost"),
        (interval.torn, "damaged"),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    parts.map(|(number, what)| format!(", {number} {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::interval;
    use super::*;

    #[test]
    fn every_group_has_a_line() {
        insta::assert_snapshot!(text(Duration::from_millis(2500), &interval()), @r"
        2.5s: read 4KiB: IOPS=2.07M, lat 50%=93.1us, 99%=110us, avg=102us x2.31, outstanding=209.9, die_wait=60.0us (59.1 %) x60.00, flash_array=40.0us (39.4 %) x1.00, output=1.55us (1.5 %) x0.52, 27 not sampled, 1 lost
        2.5s: write 4KiB: IOPS=1.03M, lat 50%=9.60us, 99%=9.60us, avg=9.60us x1.01, outstanding=9.9, flash_array=9.10us (94.8 %) x1.01, output=500ns (5.2 %) x1.00, 27 not sampled, 1 lost
        ");
        let nothing = Interval { torn: 3, ..Interval::default() };
        assert_eq!(text(Duration::from_secs(1), &nothing), "1.0s: no I/Os, 3 damaged\n");
    }
}
