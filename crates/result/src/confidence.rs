//! Repeated runs: means with confidence intervals.
//!
//! The runs of one point differ in their seed only and are independent, so the mean of a
//! quantity over `n` runs lies within `t(n - 1) s / sqrt(n)` of its true mean with the given
//! probability (Student's t, two-sided; `s` is the standard deviation of the sample).

use crate::document::{Confidence, JointPrecision, Metric, Result};
use std::collections::BTreeMap;

/// The probability with which the true mean lies in the interval.
pub const LEVEL: f64 = 0.95;

/// Student's t for [`LEVEL`], two-sided, by degrees of freedom from 1.
const T: [f64; 30] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
    2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687,
    2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
];

/// Student's t for [`LEVEL`] and `freedom` degrees of freedom, at least 1.
pub fn student_t(freedom: usize) -> f64 {
    match T.get(freedom.saturating_sub(1)) {
        Some(&t) => t,
        // The first terms of the expansion by 1 / freedom (Abramowitz and Stegun, 26.7.5).
        None => {
            let (z, v) = (1.959_964f64, freedom as f64);
            let (z3, z5) = (z * z * z, z * z * z * z * z);
            z + (z3 + z) / (4.0 * v) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v * v)
        }
    }
}

/// Mean and interval of a quantity that several runs have measured.
fn metric(name: String, values: &[f64]) -> Metric {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let (stddev, half_width) = match values.len() {
        0 | 1 => (None, None),
        count => {
            let stddev = (squares / (n - 1.0)).sqrt();
            (Some(stddev), Some(student_t(count - 1) * stddev / n.sqrt()))
        }
    };
    Metric { name, mean, stddev, half_width }
}

/// The quantities of a result that are compared between runs, by name.
pub fn quantities(result: &Result) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for flow in &result.flows {
        for (kind, side) in flow.sides() {
            if side.ios == 0 {
                continue;
            }
            let name = |what: &str| format!("{} {} {what}", flow.name, kind.name());
            all.push((name("iops"), side.iops));
            all.push((name("bw_bytes_per_s"), side.bw_bytes_per_s));
            if let Some(lat) = &side.lat_ns {
                all.push((name("lat_ns mean"), lat.mean));
                all.push((name("lat_ns p50"), lat.percentiles.p50));
                all.push((name("lat_ns p99"), lat.percentiles.p99));
                all.push((name("lat_ns p99.9"), lat.percentiles.p99_9));
            }
        }
        all.extend(flow.slowdown.map(|slowdown| (format!("{} slowdown", flow.name), slowdown)));
    }
    if let Some(device) = &result.device {
        all.extend(device.waf.map(|waf| ("waf".to_owned(), waf)));
        all.extend(device.cmt_hit_ratio.map(|hits| ("cmt_hit_ratio".to_owned(), hits)));
        all.extend(device.cache_hit_ratio.map(|hits| ("cache_hit_ratio".to_owned(), hits)));
    }
    if let Some(judged) = &result.steadiness {
        all.push(("blocks_collected".to_owned(), judged.blocks_collected as f64));
        all.extend(judged.waf_collection.map(|waf| ("waf_collection".to_owned(), waf)));
        all.extend(judged.waf_expected.map(|waf| ("waf_expected".to_owned(), waf)));
    }
    all.extend(result.fairness.map(|fairness| ("fairness".to_owned(), fairness)));
    all.extend(result.weighted_speedup.map(|speedup| ("weighted_speedup".to_owned(), speedup)));
    all
}

/// How many of the runs ended with each verdict about whether the drive was at rest.
fn verdicts(runs: &[&Result]) -> BTreeMap<String, u64> {
    let mut verdicts = BTreeMap::new();
    for judged in runs.iter().filter_map(|result| result.steadiness.as_ref()) {
        *verdicts.entry(judged.verdict.name().to_owned()).or_insert(0) += 1;
    }
    verdicts
}

/// Means and intervals over runs that differ in their seed only. A quantity that some of
/// them do not have is left out.
pub fn of(runs: &[&Result]) -> Confidence {
    let each: Vec<Vec<(String, f64)>> = runs.iter().map(|result| quantities(result)).collect();
    let names = each.first().into_iter().flatten().map(|(name, _)| name);
    let metrics = names.filter_map(|name| {
        let value = |of: &Vec<(String, f64)>| of.iter().find(|(it, _)| it == name).map(|it| it.1);
        let values: Option<Vec<f64>> = each.iter().map(value).collect();
        values.map(|values| metric(name.clone(), &values))
    });
    let precisions: Option<Vec<_>> = runs.iter().map(|result| result.precision.as_ref()).collect();
    Confidence {
        precision: precisions.and_then(|all| JointPrecision::of(&all)),
        point: runs.first().map(|result| result.point.clone()).unwrap_or_default(),
        runs: runs.len() as u64,
        level: LEVEL,
        metrics: metrics.collect(),
        steadiness: verdicts(runs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, StudentsT};

    #[test]
    fn students_t_is_right() {
        for freedom in (1..200).chain([1_000, 100_000]) {
            let exact = StudentsT::new(0.0, 1.0, freedom as f64).unwrap().inverse_cdf(0.975);
            assert!((student_t(freedom) - exact).abs() < 2e-4, "{freedom}: {exact}");
        }
    }

    #[test]
    fn an_interval_by_hand() {
        // Mean 5, s = 2, t(3) = 3.1824: half-width 3.1824 * 2 / 2.
        let metric = metric("x".into(), &[3.0, 7.0, 4.0, 6.0]);
        assert_eq!(metric.mean, 5.0);
        let s = (10.0f64 / 3.0).sqrt();
        assert!((metric.half_width.unwrap() - 3.1824 * s / 2.0).abs() < 1e-9);
        assert_eq!(super::metric("x".into(), &[3.0]).half_width, None);
    }
}
