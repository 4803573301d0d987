//! Single reads: how long they take, in which levels, and whether the second of two is faster.
//!
//! Latencies of reads come in levels, one for each type of page: Cai, Haratsch, Mutlu and Mai, DATE
//! 2012, and the data sheets of chips. What a second read of the same address takes shows whether
//! something was kept: Chen, Koufaty and Zhang, SIGMETRICS 2009.

use super::Known;
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ask, Ended, Probe};
use crate::stats;

/// Addresses that are asked.
const ADDRESSES: usize = 400;
/// Addresses that are asked again and again, to see the noise.
const NOISY: usize = 24;
/// Times that they are asked.
const AGAIN: usize = 9;
/// Measurements of which the median is taken where there is noise: three of five would have to be
/// outliers.
const REPEATS: usize = 5;
/// The size that hosts ask for most, and the alignment of all addresses.
pub(super) const SMALL: u64 = 4096;

const READ: (&str, &str) = ("read_latency", "latency of a 4 KiB read at queue depth 1");

/// What is known of single reads, in us.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Latencies of a block at random addresses that were read before.
    pub(super) blocks: Vec<f64>,
    /// How much faster a second read is, if it is.
    pub(super) repeat_gain: Option<f64>,
    /// What reads of one address differ by, as a standard deviation; 0 in virtual time.
    pub(super) noise: f64,
}

/// Asks the same addresses again and again: how far answers are from their median, in 9 of 10 cases; and
/// whether any is.
fn noise(probe: &mut Probe<'_>) -> Result<(f64, bool), Ended> {
    /// Within so many standard deviations are nine of ten (normal distribution).
    const NINE_OF_TEN: f64 = 1.645;
    let mut all = Vec::new();
    for _ in 0..NOISY {
        let offset = probe.anywhere(SMALL, SMALL);
        probe.alone(Ask::read(offset, SMALL))?;
        let mut own = [0.0; AGAIN];
        for one in &mut own {
            *one = probe.alone(Ask::read(offset, SMALL))?;
        }
        let middle = stats::median(&own);
        all.extend(own.map(|it| (it - middle).abs()));
    }
    let is_noisy = all.iter().any(|it| *it > 1e-6);
    Ok((stats::quantile(&all, 0.9) / NINE_OF_TEN, is_noisy))
}

/// Median latency of a read of `bytes` at `offset`, once whatever finds the address has been asked.
pub(super) fn settled(probe: &mut Probe<'_>, offset: u64, bytes: u64) -> Result<f64, Ended> {
    probe.alone(Ask::read(offset, bytes))?;
    let repeats = probe.repeats().max(3);
    let all: Result<Vec<f64>, Ended> =
        (0..repeats).map(|_| probe.alone(Ask::read(offset, bytes))).collect();
    Ok(stats::median(&all?))
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let block = probe.block_bytes();
    let (noise, is_noisy) = noise(probe)?;
    known.reads.noise = noise;
    if is_noisy {
        probe.repeat(REPEATS);
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..ADDRESSES {
        let offset = probe.anywhere(SMALL, SMALL);
        first.push(probe.alone(Ask::read(offset, SMALL))?);
        second.push(probe.alone(Ask::read(offset, SMALL))?);
        known.reads.blocks.push(settled(probe, offset, block)?);
    }
    let faster: Vec<f64> = first.iter().zip(&second).map(|(a, b)| a - b).collect();
    let (low, _) = stats::median_interval(&faster);
    let gain = stats::median(&faster);
    if low > 0.0 && gain > stats::deviation(&second) {
        known.reads.repeat_gain = Some(gain);
    }
    let middle = stats::median(&first);
    let (low, high) = stats::median_interval(&first);
    let evidence = format!(
        "{ADDRESSES} random addresses; 1 % below {}, 99 % below {}{}",
        Value::Time(stats::quantile(&first, 0.01)),
        Value::Time(stats::quantile(&first, 0.99)),
        match is_noisy {
            true => format!("; reads of one address differ by {}", Value::Time(noise)),
            false => String::new(),
        },
    );
    let picture = Picture {
        title: "Reads of 4 KiB at queue depth 1".to_owned(),
        x: "share of reads (%)".to_owned(),
        y: "latency (us)".to_owned(),
        series: vec![
            ("first".to_owned(), stats::distribution(&first)),
            ("again".to_owned(), stats::distribution(&second)),
        ],
    };
    let between = Some((Value::Time(low), Value::Time(high)));
    let method = "Chen, Koufaty and Zhang, SIGMETRICS 2009";
    findings.found(READ, Value::Time(middle), between, evidence, (method, Some(picture)));
    Ok(())
}
