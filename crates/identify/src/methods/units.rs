//! The unit of mapping: a write of less reads what it does not overwrite first.
//!
//! Writes of growing size on data that were there before are timed until they are on the flash. Those
//! below the unit take a read of the array more (granularity: uFLIP, Bouganim, Jonsson and Bonnet, CIDR
//! 2009; Chen, Koufaty and Zhang, SIGMETRICS 2009). Where that cannot be timed, many of them are
//! written: below the unit a larger write costs no more than a smaller one, and at the unit less.

use super::Known;
use super::stored::{self, Way};
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ask, Ended, Probe, Taken};
use crate::stats;
use rand::RngExt;

/// The largest unit that is looked for.
const LARGEST: u64 = 64 << 10;
/// Writes of each size.
const WRITES: usize = 40;
/// The piece in which they are.
const PIECE: u64 = 64 << 20;
/// Writes outstanding when many are written.
const DEPTH: usize = 64;
/// Other steps down are smaller than this share of the one at the unit.
const OTHERS: f64 = 0.65;
/// How much more often writes as large as the unit are taken than those of half of it, at least.
const OFTENER: f64 = 1.2;
/// And how much more rarely those of twice the unit, which write two, at most.
const RARER: f64 = 0.9;
/// The share of the drive, and the bytes, that are written at most of a size.
const MOST: (u64, u64) = (64, 256 << 20);

const UNIT: (&str, &str) = ("mapping.unit", "unit of mapping, below which writes read first");
const METHOD: &str =
    "Bouganim, Jonsson and Bonnet, CIDR 2009 (uFLIP); Chen, Koufaty and Zhang, SIGMETRICS 2009";

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let read = match findings.value("flash.read") {
        Some(Value::Times(times)) if !times.is_empty() => times[0],
        _ => {
            findings.cannot(UNIT, "the array's time for a read is not known".to_owned());
            return Ok(());
        }
    };
    let (start, room) = stored::piece(probe, PIECE);
    stored::lay_down(probe, start, room)?;
    let way = stored::way(probe, findings, (start, room, LARGEST))?;
    known.is_uncached = matches!(way, Some(Way::Write { .. }));
    let single = match way {
        Some(way) => single(probe, (known, findings), way, (start, room), read)?,
        None => Err("a write is taken before it is on the flash, and a flush does not wait for it"
            .to_owned()),
    };
    if let Ok(unit) = single {
        known.unit = Some(unit.bytes);
        let evidence = format!(
            "a write of {} takes {} until it is on the flash, one of {} {}; a read of the array takes {}",
            Value::Bytes(unit.bytes / 2),
            Value::Time(unit.below),
            Value::Bytes(unit.bytes),
            Value::Time(unit.above),
            Value::Time(read),
        );
        let picture = picture("time until a write is on the flash (us)", unit.points);
        findings.found(UNIT, Value::Bytes(unit.bytes), None, evidence, (METHOD, Some(picture)));
        return Ok(());
    }
    match many(probe, known)? {
        Ok(unit) => {
            known.unit = Some(unit.bytes);
            let evidence = format!(
                "{:.0} writes of {} are taken in a second, and {:.0} of {}",
                unit.below,
                Value::Bytes(unit.bytes / 2),
                unit.above,
                Value::Bytes(unit.bytes),
            );
            let picture = picture("random writes in a second", unit.points);
            findings.found(UNIT, Value::Bytes(unit.bytes), None, evidence, (METHOD, Some(picture)));
        }
        Err(because) => {
            let first = single.err().unwrap_or_default();
            findings.cannot(UNIT, format!("{first}; {because}"));
        }
    }
    Ok(())
}

/// A unit, and what writes of half of it and of all of it show.
struct Unit {
    bytes: u64,
    below: f64,
    above: f64,
    points: Vec<(f64, f64)>,
}

fn picture(y: &str, points: Vec<(f64, f64)>) -> Picture {
    Picture {
        title: "Aligned writes of growing size".to_owned(),
        x: "size (KiB)".to_owned(),
        y: y.to_owned(),
        series: vec![("writes".to_owned(), points)],
    }
}

/// Sizes that are tried.
fn sizes(probe: &Probe<'_>) -> Vec<u64> {
    let block = probe.block_bytes();
    (0..).map(|n| block << n).take_while(|size| *size <= LARGEST).collect()
}

/// One write at a time, until it is on the flash.
fn single(
    probe: &mut Probe<'_>,
    (known, findings): (&Known, &Findings),
    way: Way,
    (start, room): (u64, u64),
    read: f64,
) -> Result<Result<Unit, String>, Ended> {
    let sizes = sizes(probe);
    let mut times = Vec::new();
    for size in &sizes {
        let mut all = Vec::new();
        for _ in 0..WRITES {
            // Whatever finds the address has been asked, and all units of it are on the flash.
            let offset = start + stored::inside(probe, room, LARGEST);
            probe.alone(Ask::read(offset, LARGEST))?;
            let (write, then) = stored::time(probe, way, (offset, *size))?;
            // Without the link, that is from when it is in the drive, however long it takes to be
            // copied to the cache.
            all.push(write + then - stored::on_link(findings, *size));
            probe.rest(stored::REST)?;
        }
        times.push(all);
    }
    let medians: Vec<f64> = times.iter().map(|all| stats::median(all)).collect();
    let points = sizes.iter().zip(&medians).map(|(size, time)| (*size as f64 / 1024.0, *time));
    let points: Vec<(f64, f64)> = points.collect();
    // A page that is not full sets out when the flush comes; what is read is read meanwhile.
    let page = known.page.unwrap_or(0);
    if let Way::Flush { idle } = way
        && read < 1.5 * idle
    {
        return Ok(Err(format!(
            "what a write reads first takes {}, while the flush that sends it to the flash takes {}",
            Value::Time(read),
            Value::Time(idle)
        )));
    }
    let least = |size: u64| if size == page { 0.85 * read } else { 0.25 * read };
    let fall = |index: usize| medians[index - 1] - medians[index];
    let at = (1..sizes.len()).max_by(|a, b| fall(*a).total_cmp(&fall(*b))).unwrap_or(1);
    let others = (1..sizes.len()).filter(|index| *index != at).map(fall).fold(0.0, f64::max);
    if fall(at) < least(sizes[at]) || others > OTHERS * fall(at) {
        return Ok(Err(format!(
            "writes of {} to {} take {} to {} until they are on the flash, with no step down of a \
             read's time, or several",
            Value::Bytes(sizes[0]),
            Value::Bytes(LARGEST),
            Value::Time(stats::quantile(&medians, 0.0)),
            Value::Time(stats::quantile(&medians, 1.0)),
        )));
    }
    let (low, high) = (stats::quantile(&times[at - 1], 0.2), stats::quantile(&times[at], 0.8));
    if low < high {
        return Ok(Err("times until writes are on the flash overlap".to_owned()));
    }
    let (bytes, below, above) = (sizes[at], medians[at - 1], medians[at]);
    Ok(Ok(Unit { bytes, below, above, points }))
}

/// Many writes at a time, as many as the drive takes once its cache is full.
fn many(probe: &mut Probe<'_>, known: &Known) -> Result<Result<Unit, String>, Ended> {
    let sizes = sizes(probe);
    let whole = MOST.1.min(probe.bytes() / MOST.0);
    let mut rates = Vec::new();
    stored::empty_all(probe, known)?;
    let (start, room) = stored::piece(probe, whole);
    for size in &sizes {
        stored::lay_down(probe, start, room)?;
        rates.push(rate(probe, (start, room), *size)?);
    }
    let points = sizes.iter().zip(&rates).map(|(size, rate)| (*size as f64 / 1024.0, *rate));
    let points: Vec<(f64, f64)> = points.collect();
    let rises: Vec<usize> =
        (1..sizes.len()).filter(|&index| rates[index] > OFTENER * rates[index - 1]).collect();
    // Smaller ones cost as much as half a unit, at most: they are as often, or rarer.
    let unit = rises.first().filter(|&&at| {
        rises.len() == 1 && rates.get(at + 1).is_none_or(|twice| *twice < RARER * rates[at])
    });
    let Some(&at) = unit else {
        return Ok(Err(format!(
            "{:.0} to {:.0} random writes of {} to {} are taken in a second, and larger ones are not \
             oftener than smaller ones at one size",
            stats::quantile(&rates, 0.0),
            stats::quantile(&rates, 1.0),
            Value::Bytes(sizes[0]),
            Value::Bytes(LARGEST),
        )));
    };
    let (bytes, below, above) = (sizes[at], rates[at - 1], rates[at]);
    Ok(Ok(Unit { bytes, below, above, points }))
}

/// Random writes of `size` that are taken in a second, of the second half of so many that the cache is
/// full before.
fn rate(probe: &mut Probe<'_>, (start, room): (u64, u64), size: u64) -> Result<f64, Ended> {
    let count = (room / (4 << 10)).min(room / size).max(64);
    let mut left = count;
    let mut ends: Vec<f64> = Vec::new();
    let next = |random: &mut rand_xoshiro::Xoshiro256PlusPlus| {
        left = left.checked_sub(1)?;
        Some(Ask::write(start + random.random_range(0..room / size) * size, size))
    };
    let see = |_: &Ask, taken: Taken| {
        ends.push(taken.until);
        true
    };
    probe.stream(DEPTH, next, see)?;
    let half = ends.len() / 2;
    Ok((ends.len() - 1 - half) as f64 / (ends[ends.len() - 1] - ends[half]) * 1e6)
}
