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
/// Measurements of one thing where there is noise, and where there is much: above this share of a read.
const REPEATS: usize = 5;
const REPEATS_MOST: usize = 15;
const MUCH: f64 = 0.02;
/// The size that hosts ask for most, and the alignment of all addresses.
pub(super) const SMALL: u64 = 4096;

const READ: (&str, &str) = ("read_latency", "latency of a 4 KiB read at queue depth 1");

/// What is known of single reads, in us.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Latencies of a block at random addresses that were read before.
    pub(super) blocks: Vec<f64>,
    /// What noise leaves of [`settled`], as a standard deviation; 0 in virtual time.
    pub(super) noise: f64,
}

/// Noise: what reads of one address differ by.
struct Noise {
    /// Single ones, as a standard deviation, us.
    single: f64,
    /// The least of as many as are measured, us; no less than a tick of the clock may hide.
    undisturbed: f64,
}

/// Asks the same addresses again and again, says how far answers are apart, and has all that follows
/// measured as often as that asks for.
fn noise(probe: &mut Probe<'_>) -> Result<Noise, Ended> {
    /// Within so many standard deviations are nine of ten (normal distribution).
    const NINE_OF_TEN: f64 = 1.645;
    /// Two values one tick apart are one level if they are blurred by so much of it.
    const BLURRED: f64 = 0.6;
    let (mut all, mut middles, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..NOISY {
        let offset = probe.anywhere(SMALL, SMALL);
        probe.alone(Ask::read(offset, SMALL))?;
        let mut own = [0.0; AGAIN];
        for one in &mut own {
            *one = probe.alone(Ask::read(offset, SMALL))?;
        }
        own.sort_by(f64::total_cmp);
        // Times are whole picoseconds, less what floating point makes of them.
        steps.extend(own.windows(2).map(|two| two[1] - two[0]).filter(|step| *step > 5e-7));
        let middle = stats::median(&own);
        middles.push(middle);
        all.extend(own.map(|it| (it - middle).abs()));
    }
    if steps.is_empty() {
        return Ok(Noise { single: 0.0, undisturbed: 0.0 });
    }
    let single = stats::quantile(&all, 0.9) / NINE_OF_TEN;
    let much = single > MUCH * stats::median(&middles);
    probe.repeat(if much { REPEATS_MOST } else { REPEATS });
    let mut twice = Vec::new();
    for _ in 0..NOISY {
        let offset = probe.anywhere(SMALL, SMALL);
        let block = probe.block_bytes();
        twice.push((settled(probe, offset, block)? - settled(probe, offset, block)?).abs());
    }
    let settled = stats::quantile(&twice, 0.9) / NINE_OF_TEN / std::f64::consts::SQRT_2;
    let tick = stats::quantile(&steps, 0.0);
    Ok(Noise { single, undisturbed: settled.max(BLURRED * tick) })
}

/// Undisturbed latency of a read of `bytes` at `offset`, once whatever finds the address has been asked.
pub(super) fn settled(probe: &mut Probe<'_>, offset: u64, bytes: u64) -> Result<f64, Ended> {
    probe.alone(Ask::read(offset, bytes))?;
    let repeats = probe.repeats().max(3);
    let all: Result<Vec<f64>, Ended> =
        (0..repeats).map(|_| probe.alone(Ask::read(offset, bytes))).collect();
    Ok(stats::undisturbed(&all?))
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let block = probe.block_bytes();
    let noise = noise(probe)?;
    known.reads.noise = noise.undisturbed;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..ADDRESSES {
        let offset = probe.anywhere(SMALL, SMALL);
        first.push(probe.alone(Ask::read(offset, SMALL))?);
        second.push(probe.alone(Ask::read(offset, SMALL))?);
        known.reads.blocks.push(settled(probe, offset, block)?);
    }
    let middle = stats::median(&first);
    let (low, high) = stats::median_interval(&first);
    let evidence = format!(
        "{ADDRESSES} random addresses; 1 % below {}, 99 % below {}{}",
        Value::Time(stats::quantile(&first, 0.01)),
        Value::Time(stats::quantile(&first, 0.99)),
        match probe.repeats() > 1 {
            true => format!("; reads of one address differ by {}", Value::Time(noise.single)),
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
