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
}

/// Median latency of a read of `bytes` at `offset`, once whatever finds the address has been asked.
pub(super) fn settled(probe: &mut Probe<'_>, offset: u64, bytes: u64) -> Result<f64, Ended> {
    probe.alone(Ask::read(offset, bytes))?;
    let mut all = [0.0; 3];
    for one in &mut all {
        *one = probe.alone(Ask::read(offset, bytes))?;
    }
    Ok(stats::median(&all))
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let block = probe.block_bytes();
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
        "{ADDRESSES} random addresses; 1 % below {}, 99 % below {}",
        Value::Time(stats::quantile(&first, 0.01)),
        Value::Time(stats::quantile(&first, 0.99)),
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
