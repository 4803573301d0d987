//! The time in which the array programs a page: how long a write takes until it is on the flash.
//!
//! A page is written while the drive rests, and is on the flash when a flush behind it ends, or the write
//! itself where nothing caches it; and when a read of it no longer comes out of the cache. The two must
//! agree, or one of them with the pace of many writes (programs that delay others: Chen, Lee and Zhang,
//! HPCA 2011; Kim et al., MICRO 2018). Of that time the bus takes what it carries, which reads that wait
//! for the bus show: one page, or all pages of a word line where one program takes them.

use super::Known;
use super::fill::Cells;
use super::reads::settled;
use super::stored::{self, FLUSH, Way};
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ask, Ended, Probe, Taken};
use crate::stats;

/// Pages that are written, one at a time.
const WRITES: usize = 96;
/// Those whose reads are watched.
const WATCHED: usize = 24;
/// Reads that may wait for the bus.
const WAITS: usize = 240;
/// Reads that have to wait for a program of their die.
const OWN: usize = 2;
/// The piece in which they are.
const PIECE: u64 = 64 << 20;
/// The share of writes that have to take as long as their kind of page does.
const AGREED: f64 = 0.6;
/// The least share that a type of pages has.
const SHARE_LEAST: f64 = 0.1;
/// Times that differ by less are the same.
const SAME: f64 = 0.03;
/// The pace may be this much below what it would be without erases.
const ERASES: f64 = 0.35;
/// The share of the drive that is written for the pace, and the most: the write cache is full before the
/// last third of it.
const PACE: (u64, u64) = (2, 1 << 30);
/// A program's command and address cycles, us (ONFI 3.1).
const COMMAND: f64 = 0.4;

const PROGRAM: (&str, &str) = ("flash.program", "time in which the array programs a page (tPROG)");
const SLC: (&str, &str) = ("slc.program", "time in which it programs a page with one bit a cell");
const METHOD: &str = "Chen, Lee and Zhang, HPCA 2011; Kim et al., MICRO 2018 (SSDcheck)";

/// What is written at a time, and what the bus takes for it, us.
#[derive(Clone, Copy)]
struct Page {
    bytes: u64,
    transfer: f64,
}

/// How long writes took until they were on the flash, us, and the read of each after that.
#[derive(Default)]
struct Stored {
    flushed: Vec<f64>,
    watched: Vec<f64>,
    reads: Vec<f64>,
    /// How much sooner than a write is answered its page sets out for the flash.
    sooner: f64,
    /// What reads waited that came when a page set out.
    waits: Vec<f64>,
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let (Some(page), Some(transfer)) = (known.page, known.transfer) else {
        let because = "it is not known what is a page, and how long the bus takes for it";
        findings.cannot_any(&[PROGRAM, SLC], because);
        return Ok(());
    };
    let bytes = page.max(known.unit.unwrap_or(page));
    let page = Page { bytes, transfer: transfer * bytes as f64 / page as f64 };
    let full = match known.cells {
        Cells::Unknown => {
            let because = "it is not known whether what is written goes to an SLC cache";
            findings.cannot_any(&[PROGRAM, SLC], because);
            return Ok(());
        }
        // The cache is full now, and what is written may go past it.
        Cells::Slc { below } => {
            let (stored, pages) = ask(probe, known, findings, page)?;
            Some((stored.only(|read| read > below), pages))
        }
        Cells::Native => None,
    };
    stored::empty_all(probe, known)?;
    // Whatever was written past a full SLC cache goes to it again.
    probe.rest(stored::IDLE)?;
    let (all, pages) = ask(probe, known, findings, page)?;
    let pace = pace(probe, known)?;
    match (full, known.cells) {
        (Some((full, pages)), Cells::Slc { below }) => {
            // One bit a cell: a page at a time.
            let all = all.only(|read| read < below);
            say(findings, known, SLC, (page, Some(1)), (&all, None));
            if full.flushed.len().max(full.watched.len()) < WATCHED / 2 {
                let because = "what is written goes to the SLC cache, also when it is full";
                findings.cannot(PROGRAM, because.to_owned());
            } else if kinds(&full.flushed).is_ok_and(|kinds| kinds.len() > 1) {
                let because =
                    "what is written past the full SLC cache waits for what is folded beside it";
                findings.cannot(PROGRAM, because.to_owned());
            } else {
                say(findings, known, PROGRAM, (page, pages), (&full, None));
            }
        }
        _ => {
            let pages = pages.or_else(|| by_pace(findings, known, page, (&all, pace)));
            say(findings, known, PROGRAM, (page, pages), (&all, Some(pace)));
            findings.cannot(SLC, "there is no SLC cache that shows".to_owned());
        }
    }
    Ok(())
}

/// Writes pages in a piece that lies there, and tells how many of them a program takes.
fn ask(
    probe: &mut Probe<'_>,
    known: &Known,
    findings: &Findings,
    page: Page,
) -> Result<(Stored, Option<u32>), Ended> {
    let (start, room) = stored::piece(probe, PIECE);
    stored::lay_down(probe, start, room)?;
    let way = stored::way(probe, findings, (start, room, page.bytes))?;
    let mut all = all(probe, way, page, (start, room), findings)?;
    let mut pages = None;
    // Reads of other dies must be able to wait for the bus.
    if known.channels.iter().max().is_some_and(|last| last + 1 < known.dies.len()) {
        waits(probe, (way, &mut all), page, (start, room), findings)?;
        pages = carried(page, &all.waits);
    }
    Ok((all, pages))
}

impl Stored {
    /// Those whose reads are as said. Reads belong to the flushed ones first.
    fn only(self, which: impl Fn(f64) -> bool) -> Stored {
        let both = self.flushed.len();
        let keep = |of: &[f64], reads: &[f64]| -> Vec<f64> {
            of.iter().zip(reads).filter(|(_, read)| which(**read)).map(|(time, _)| *time).collect()
        };
        Stored {
            flushed: keep(&self.flushed, &self.reads),
            watched: keep(&self.watched, &self.reads[both..]),
            reads: vec![],
            ..self
        }
    }
}

/// Writes of a page, one at a time.
fn all(
    probe: &mut Probe<'_>,
    way: Option<Way>,
    page: Page,
    (start, room): (u64, u64),
    findings: &Findings,
) -> Result<Stored, Ended> {
    let block = probe.block_bytes();
    let mut all = Stored::default();
    let sooner = match way {
        Some(Way::Write { .. }) => 0.0,
        _ => stored::sooner(probe, findings, (start, room, page.bytes))?,
    };
    all.sooner = sooner;
    for _ in 0..if way.is_some() { WRITES } else { 0 } {
        let Some(way) = way else { break };
        let offset = start + stored::inside(probe, room, page.bytes);
        all.flushed.push(stored::time(probe, way, (offset, page.bytes))?.1);
        probe.rest(stored::REST)?;
        all.reads.push(settled(probe, offset, block)?);
    }
    // A read that the flash answers takes longer by a page's transfer, at least, or by 3 us.
    let slower = 3.0;
    for n in 0..WATCHED {
        let offset = start + stored::inside(probe, room, page.bytes);
        let watched = stored::visible(probe, (offset, page.bytes), slower)?;
        probe.alone(FLUSH)?;
        probe.rest(stored::REST)?;
        let read = settled(probe, offset, block)?;
        match watched {
            Some(time) => {
                all.watched.push(time + sooner);
                all.reads.push(read);
            }
            // It costs as many reads as a program is long, and will not be otherwise next time.
            None if all.watched.is_empty() && n > 0 => break,
            None => {}
        }
    }
    // What waits in the cache for a flush sets out when that comes, all else with the write.
    let before = match way {
        Some(Way::Flush { idle }) if all.watched.is_empty() => -idle,
        _ => sooner,
    };
    all.flushed.iter_mut().for_each(|time| *time += before);
    Ok(all)
}

/// How long reads wait that come when a page has just begun to cross the bus.
fn waits(
    probe: &mut Probe<'_>,
    (way, all): (Option<Way>, &mut Stored),
    page: Page,
    (start, room): (u64, u64),
    findings: &Findings,
) -> Result<(), Ended> {
    let Some(&Value::Time(fixed)) = findings.value("fixed_latency") else {
        return Ok(());
    };
    let block = probe.block_bytes();
    let mut writes = Vec::new();
    for _ in 0..8 {
        let offset = start + stored::inside(probe, room, page.bytes);
        writes.push(probe.alone(Ask::write(offset, page.bytes))?);
        probe.alone(FLUSH)?;
        probe.rest(stored::REST)?;
    }
    let taken = stats::median(&writes);
    // What waits in the cache sets out when the flush comes.
    let flush = match way {
        Some(Way::Flush { idle }) if all.watched.is_empty() => Some(idle),
        _ => None,
    };
    let begins = match (way, flush) {
        (Some(Way::Write { beside }), _) => beside,
        (_, Some(idle)) => taken + idle,
        _ => taken - all.sooner,
    };
    let at = begins - fixed + 1.0;
    for _ in 0..WAITS {
        let offset = start + stored::inside(probe, room, page.bytes);
        let other = start + stored::inside(probe, room, page.bytes);
        if offset == other {
            continue;
        }
        let alone = settled(probe, other, block)?;
        let (write, read) = (Ask::write(offset, page.bytes), Ask::read(other, block));
        let read = match flush {
            _ if at < 0.0 && flush.is_some() => {
                probe.one_after_another(&[read, write, FLUSH], &[-at, taken])?[0]
            }
            _ if at < 0.0 => probe.one_after_another(&[read, write], &[-at])?[0],
            None => probe.one_after_another(&[write, read], &[at])?[1],
            Some(_) if at < taken => {
                probe.one_after_another(&[write, read, FLUSH], &[at, taken - at])?[1]
            }
            Some(_) => probe.one_after_another(&[write, FLUSH, read], &[taken, at - taken])?[2],
        };
        all.waits.push(read.latency() - alone);
        probe.alone(FLUSH)?;
        probe.rest(stored::REST)?;
    }
    Ok(())
}

/// How many pages a program carries over the bus, by how long reads of others on its channel wait.
fn carried(page: Page, waits: &[f64]) -> Option<u32> {
    let each = page.transfer + COMMAND;
    let on_bus: Vec<f64> =
        waits.iter().copied().filter(|wait| *wait > each / 2.0 && *wait < 5.2 * each).collect();
    if on_bus.len() < 4 {
        return None;
    }
    // Of the die itself they wait for longer, if programs are suspended; and all have come a little late.
    let pages = stats::quantile(&on_bus, 0.25) / each + 0.1;
    let whole = pages.round();
    ((pages - whole).abs() < 0.35 && (1.0..=5.0).contains(&whole)).then_some(whole as u32)
}

/// How many pages a program carries, if so many alone would have the pace that many writes have.
fn by_pace(
    findings: &Findings,
    known: &Known,
    page: Page,
    (all, pace): (&Stored, f64),
) -> Option<u32> {
    let first = if all.flushed.is_empty() { &all.watched } else { &all.flushed };
    let (time, each) = (stats::median(first), page.transfer + COMMAND);
    let fits = |pages: &u32| {
        let bus = f64::from(*pages) * each;
        let expected = expected(findings, known, time - bus, f64::from(*pages));
        time > 2.0 * bus && expected.is_some_and(|it| (0.85..1.1).contains(&(pace / it)))
    };
    let all: Vec<u32> = (1..=5).filter(fits).collect();
    if let [pages] = all[..] { Some(pages) } else { None }
}

/// Bytes that are taken in a second in the last third of a long write in order.
fn pace(probe: &mut Probe<'_>, known: &Known) -> Result<f64, Ended> {
    const WRITE: u64 = 128 << 10;
    stored::empty_all(probe, known)?;
    let bytes = PACE.1.min(probe.bytes() / PACE.0) / WRITE * WRITE;
    let start = probe.anywhere(WRITE, bytes);
    let mut ends: Vec<f64> = Vec::new();
    probe.write_in_order((start, bytes), (WRITE, 32), |taken: Taken| {
        ends.push(taken.until);
        true
    })?;
    probe.alone(FLUSH)?;
    let from = ends.len() * 2 / 3;
    let time = ends[ends.len() - 1] - ends[from];
    Ok((ends.len() - 1 - from) as f64 * WRITE as f64 / time * 1e6)
}

/// The times that samples come in, each with its interval; or why there are none.
fn kinds(samples: &[f64]) -> Result<Vec<(f64, f64, f64)>, String> {
    let middle = stats::median(samples);
    let levels = stats::levels(samples, SAME / 2.0 * middle);
    let least = SHARE_LEAST * samples.len() as f64;
    let levels: Vec<f64> =
        levels.into_iter().filter(|(_, count)| *count as f64 >= least).map(|it| it.0).collect();
    let near = |level: f64| samples.iter().copied().filter(move |x| (x / level - 1.0).abs() < SAME);
    let kinds: Vec<_> = levels
        .iter()
        .map(|level| {
            let own: Vec<f64> = near(*level).collect();
            let (low, high) = stats::median_interval(&own);
            (stats::median(&own), low, high)
        })
        .collect();
    let within: usize = levels.iter().map(|level| near(*level).count()).sum();
    if (within as f64) < AGREED * samples.len() as f64 {
        return Err(format!(
            "{} writes of a page take {} to {} until they are on the flash, in no levels",
            samples.len(),
            Value::Time(stats::quantile(samples, 0.1)),
            Value::Time(stats::quantile(samples, 0.9)),
        ));
    }
    Ok(kinds)
}

fn say(
    findings: &mut Findings,
    known: &Known,
    what: (&'static str, &'static str),
    (page, carried): (Page, Option<u32>),
    (all, pace): (&Stored, Option<f64>),
) {
    match told(findings, known, (page, carried), (all, pace)) {
        Ok((value, between, evidence)) => {
            let picture = Picture {
                title: "Writes of a page until they are on the flash".to_owned(),
                x: "share of writes (%)".to_owned(),
                y: "time (us)".to_owned(),
                series: [
                    ("a flush, or the write, ends", &all.flushed),
                    ("reads change", &all.watched),
                ]
                .into_iter()
                .filter(|(_, of)| !of.is_empty())
                .map(|(name, of)| (name.to_owned(), stats::distribution(of)))
                .collect(),
            };
            findings.found(what, value, Some(between), evidence, (METHOD, Some(picture)));
        }
        Err(because) => findings.cannot(what, because),
    }
}

type Told = (Value, (Value, Value), String);

fn told(
    findings: &Findings,
    known: &Known,
    (page, carried): (Page, Option<u32>),
    (all, pace): (&Stored, Option<f64>),
) -> Result<Told, String> {
    if all.flushed.is_empty() && all.watched.is_empty() {
        return Err(
            "a write is taken before it is on the flash, a flush does not wait for it, and \
                    reads do not show it"
                .to_owned(),
        );
    }
    let first = if all.flushed.is_empty() { &all.watched } else { &all.flushed };
    let found = kinds(first)?;
    let each = page.transfer + COMMAND;
    let least = found[0].0;
    let pages = match carried {
        Some(pages) => f64::from(pages),
        // It does not matter to the time, but to the pace.
        None if 4.0 * each < SAME * least => 1.0,
        None => {
            return Err(format!(
                "a page takes {} until it is on the flash, and the bus {} for each page of a word \
                 line, of which a program may take several",
                Value::Time(least),
                Value::Time(each)
            ));
        }
    };
    let bus = pages * each;
    if least < 1.5 * bus {
        return Err(format!(
            "a page takes {} until it is on the flash, most of it on the bus",
            Value::Time(least)
        ));
    }
    let mut evidence = format!(
        "{} writes of {} take {} until they are on the flash, {} of it on the bus ({pages} page(s))",
        first.len(),
        Value::Bytes(page.bytes),
        Value::Times(found.iter().map(|it| it.0).collect()),
        Value::Time(bus),
    );
    let mut ways = 1;
    if !all.flushed.is_empty() && !all.watched.is_empty() {
        let (a, b) = (stats::median(&all.flushed), stats::median(&all.watched));
        if (a / b - 1.0).abs() > SAME && (a - b).abs() > 3.0 {
            return Err(format!(
                "a page is on the flash after {} by a flush, and after {} by when reads of it change",
                Value::Time(a),
                Value::Time(b)
            ));
        }
        evidence += &format!("; reads of it leave the cache after {}", Value::Time(b));
        ways = 2;
    }
    let own = all.waits.iter().filter(|wait| (*wait / least - 1.0).abs() < 2.0 * SAME).count();
    if own >= OWN && least > (pages + 1.5) * each {
        evidence += &format!("; {own} reads of the die that programs it wait as long");
        ways += 1;
    }
    if let (Some(pace), Some(expected)) = (pace, expected(findings, known, least - bus, pages)) {
        let said = format!(
            "in order {} are written, and up to {} would be",
            Value::Rate(pace),
            Value::Rate(expected)
        );
        if pace > 1.15 * expected {
            return Err(format!("a page takes {}, but {said}", Value::Time(least - bus)));
        }
        if pace > ERASES * expected {
            evidence += &format!("; {said} by all dies");
            ways += 1;
        }
    }
    if ways < 2 {
        return Err(format!("{evidence}; nothing else confirms it"));
    }
    let times: Vec<f64> = found.iter().map(|it| it.0 - bus).collect();
    if let ([time], [(_, low, high)]) = (&times[..], &found[..]) {
        let between = (Value::Time(low - bus - COMMAND), Value::Time(high - bus + COMMAND));
        return Ok((Value::Time(*time), between, evidence));
    }
    let low = found.iter().map(|it| it.1 - bus - COMMAND).collect();
    let high = found.iter().map(|it| it.2 - bus + COMMAND).collect();
    Ok((Value::Times(times), (Value::Times(low), Value::Times(high)), evidence))
}

/// What all dies together would program in a second, but for the bus.
fn expected(findings: &Findings, known: &Known, program: f64, pages: f64) -> Option<f64> {
    let planes = findings.count("geometry.planes_per_die").unwrap_or(1) as f64;
    let (page, transfer) = (known.page? as f64, known.transfer?);
    let dies = known.dies.len() as f64;
    let joined = planes * pages;
    let rate = dies * joined * page / (program + joined * transfer) * 1e6;
    let channels = known.channels.iter().max().map_or(dies, |last| (last + 1) as f64);
    Some(rate.min(channels * page / transfer * 1e6))
}
