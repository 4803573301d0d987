//! How many channels there are: reads of two dies of one channel share its bus.
//!
//! Whole pages are read, of two dies at a time, so that both would end together: those of one channel
//! take the time of a transfer longer (Chen, Lee and Zhang, HPCA 2011, section 4.3).

use super::Known;
use super::meeting::{self, Spot};
use super::reads::SMALL;
use crate::finding::{Findings, Value};
use crate::probe::{Ended, Probe};
use crate::stats::{self, Split};

const CHANNELS: (&str, &str) = ("geometry.channels", "channels");

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    if known.dies.is_empty() {
        findings.cannot(CHANNELS, "it is not known which addresses are of one die".to_owned());
        return Ok(());
    }
    let bytes = known.page.unwrap_or(SMALL);
    let mut spots = Vec::new();
    for die in &known.dies {
        let offset = die.spot().offset / bytes * bytes;
        spots.push(Spot::at(probe, offset, bytes)?);
    }
    let mut longer = vec![vec![0.0; spots.len()]; spots.len()];
    let mut all = Vec::new();
    for a in 0..spots.len() {
        for b in a + 1..spots.len() {
            let beyond = meeting::beyond(probe, spots[a], spots[b])?;
            (longer[a][b], longer[b][a]) = (beyond, beyond);
            all.push(beyond);
        }
    }
    let Some(split) = stats::split(&all).filter(Split::is_real) else {
        let because = format!("whole pages of two dies take {} longer than one, whichever two they are", Value::Time(stats::median(&all)));
        findings.cannot(CHANNELS, because);
        return Ok(());
    };
    let mut channel_of: Vec<usize> = Vec::new();
    let mut firsts: Vec<usize> = Vec::new();
    let mut odd = 0;
    for a in 0..spots.len() {
        let own = firsts.iter().position(|first| longer[*first][a] > split.threshold);
        let own = own.unwrap_or_else(|| {
            firsts.push(a);
            firsts.len() - 1
        });
        channel_of.push(own);
    }
    for a in 0..spots.len() {
        for b in a + 1..spots.len() {
            odd += usize::from((channel_of[a] == channel_of[b]) != (longer[a][b] > split.threshold));
        }
    }
    let channels = firsts.len();
    let evidence = format!(
        "of {} pairs of dies {} take {} longer for whole pages, the others {}; {odd} do not fit {channels} groups",
        all.len(),
        split.higher,
        Value::Time(split.high),
        Value::Time(split.low.max(0.0)),
    );
    findings.found(CHANNELS, Value::Count(channels as u64), None, evidence, ("Chen, Lee and Zhang, HPCA 2011, section 4.3", None));
    known.channels = channel_of;
    Ok(())
}
