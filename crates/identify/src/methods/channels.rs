//! How many channels there are, and how fast: reads of two dies of one channel share its bus.
//!
//! A page is read of one die and a block of another, so that the block would come while the page is on
//! the bus: it waits if the bus is the same (Chen, Lee and Zhang, HPCA 2011, section 4.3, with a
//! delay between the two). That the block is small keeps the link, which all share, out of it.

use super::Known;
use super::meeting::{self, Spot};
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ask, Ended, Probe};
use crate::stats::{self, Split};

/// When the block comes: after this share of what the page takes longer than a block, or more if noise
/// could make it come before the page.
const WITHIN: f64 = 0.1;
/// So many deviations of noise away it does not.
const SURELY: f64 = 3.0;
/// The latest that it may come, as a share of what the page may be on the bus.
const LATE_MOST: f64 = 0.9;

const CHANNELS: (&str, &str) = ("geometry.channels", "channels");
const BUS: (&str, &str) = ("bus.rate", "rate of a channel's bus, of user data");
const LINK: (&str, &str) = (
    "link.bandwidth",
    "rate at which data of several channels come: the link, or what copies them",
);
const METHOD: &str = "Chen, Lee and Zhang, HPCA 2011, section 4.3";

/// Reads of a die.
struct Reader {
    /// A whole page.
    page: Spot,
    /// A block of it.
    block: Spot,
}

/// How long pairs of dies take, in us.
struct Pairs {
    /// What a page takes longer than a block: on the bus and on the link.
    size: f64,
    /// One command behind another in the front end.
    behind: f64,
    /// By how much two pages are longer than one, if they would end together, by die and die.
    pages: Vec<Vec<f64>>,
    /// What a block waits for a page, by die and die.
    waits: Vec<Vec<f64>>,
}

impl Pairs {
    /// The pairs of dies of which `which` is true.
    fn of(matrix: &[Vec<f64>], which: impl Fn(usize, usize) -> bool) -> Vec<f64> {
        let count = matrix.len();
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
        pairs.filter(|(a, b)| which(*a, *b)).map(|(a, b)| matrix[a][b]).collect()
    }
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let Some(page) = known.page.filter(|_| !known.dies.is_empty()) else {
        let because = "it is not known which addresses are of one die, and of one page";
        findings.cannot_any(&[CHANNELS, BUS, LINK], because);
        return Ok(());
    };
    let pairs = match meet_all(probe, known, page)? {
        Ok(pairs) => pairs,
        Err(because) => {
            findings.cannot_any(&[CHANNELS, LINK], &because);
            return bus(probe, known, findings, page);
        }
    };
    let all = Pairs::of(&pairs.waits, |_, _| true);
    let (groups, split) = match groups(&pairs.waits, &all, pairs.size) {
        Ok(found) => found,
        Err(because) => {
            findings.cannot_any(&[CHANNELS, LINK], &because);
            return bus(probe, known, findings, page);
        }
    };
    let channels = groups.iter().max().map_or(1, |last| last + 1);
    let evidence = format!(
        "in {} of {} pairs of dies a block waits {} for a page of the other, in the others {}",
        all.iter().filter(|it| **it > split.threshold).count(),
        all.len(),
        Value::Time(split.high.max(0.0)),
        Value::Time(split.low.max(0.0)),
    );
    let picture = Picture {
        title: "A block that comes while a page of another die is read".to_owned(),
        x: "share of pairs of dies (%)".to_owned(),
        y: "wait (us)".to_owned(),
        series: vec![("pairs of dies".to_owned(), stats::distribution(&all))],
    };
    let value = Value::Count(channels as u64);
    findings.found(CHANNELS, value, None, evidence, (METHOD, Some(picture)));
    known.channels = groups;
    bus(probe, known, findings, page)?;
    link(known, findings, (page, &pairs));
    Ok(())
}

/// Reads pages and blocks of all pairs of dies; or why that tells nothing.
fn meet_all(
    probe: &mut Probe<'_>,
    known: &Known,
    page: u64,
) -> Result<Result<Pairs, String>, Ended> {
    let block = probe.block_bytes();
    let mut readers = Vec::new();
    for die in &known.dies {
        let offset = die.spot().offset / page * page;
        let block = Spot::at(probe, offset, block)?;
        readers.push(Reader { page: Spot::at(probe, offset, page)?, block });
    }
    let longer: Vec<f64> = readers.iter().map(|it| it.page.alone - it.block.alone).collect();
    let size = stats::median(&longer);
    let behind = known.meeting.map_or(0.0, |meeting| meeting.behind);
    let count = readers.len();
    let mut pages = vec![vec![0.0; count]; count];
    let mut waits = pages.clone();
    for a in 0..count {
        for b in a + 1..count {
            pages[a][b] = meeting::beyond(probe, readers[a].page, readers[b].page)?;
        }
    }
    // Pages of two channels share the link, at least; what is left of the size is the bus.
    let link = stats::quantile(&Pairs::of(&pages, |_, _| true), 0.1);
    for a in 0..count {
        for b in a + 1..count {
            let (a_reader, b_reader) = (&readers[a], &readers[b]);
            let bus = Bus { size, behind, least: size - link, noise: known.reads.noise };
            let Some(wait) = waited(probe, (a_reader, b_reader), bus)? else {
                let why = match SURELY * bus.noise > behind {
                    true => format!("reads of one address differ by {}", Value::Time(bus.noise)),
                    false => format!("the front end takes a command every {}", Value::Time(behind)),
                };
                return Ok(Err(format!(
                    "{why}, too much to have two reads on a bus at once, where a page is for {}",
                    Value::Time(bus.least)
                )));
            };
            (waits[a][b], waits[b][a]) = (wait, wait);
        }
    }
    Ok(Ok(Pairs { size, behind, pages, waits }))
}

/// What a bus carries: of two pages of one die the second waits until the first one has left, which is
/// one time on the bus more than with blocks.
fn bus(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
    page: u64,
) -> Result<(), Ended> {
    let transfers = of_one_die(probe, known, page)?;
    let (low, high) = stats::median_interval(&transfers);
    let middle = stats::median(&transfers);
    if low <= 0.0 {
        findings.cannot(BUS, "pages of a die take no longer than blocks".to_owned());
        return Ok(());
    }
    known.transfer = Some(middle);
    let evidence = format!(
        "of two pages of a die the second waits {} longer than of two blocks ({} pairs)",
        Value::Time(middle),
        transfers.len()
    );
    let between = Some((rate(page, high), rate(page, low)));
    findings.found(BUS, rate(page, middle), between, evidence, (METHOD, None));
    Ok(())
}

/// What the link carries: two pages of different channels end one time on the link apart.
fn link(known: &mut Known, findings: &mut Findings, (page, pairs): (u64, &Pairs)) {
    let apart = |a: usize, b: usize| known.channels[a] != known.channels[b];
    let ends = Pairs::of(&pairs.pages, apart);
    let (low, high) = stats::median_interval(&ends);
    let middle = stats::median(&ends);
    if ends.is_empty() {
        findings.cannot(LINK, "all dies share a bus, which comes before the link".to_owned());
    } else if middle <= 1.05 * pairs.behind {
        let because = format!(
            "the front end takes a command every {}, and a page is on the link for no longer",
            Value::Time(pairs.behind)
        );
        findings.cannot(LINK, because);
    } else {
        let evidence = format!(
            "two pages of different channels end {} apart ({} pairs)",
            Value::Time(middle),
            ends.len()
        );
        let between = Some((rate(page, high), rate(page, low)));
        findings.found(LINK, rate(page, middle), between, evidence, (METHOD, None));
    }
}

/// The rate at which `bytes` take so many us.
fn rate(bytes: u64, us: f64) -> Value {
    Value::Rate(bytes as f64 / us * 1e6)
}

/// What pages take longer than blocks on the bus: of two reads of a die the second one waits for the
/// first to have left.
fn of_one_die(probe: &mut Probe<'_>, known: &Known, page: u64) -> Result<Vec<f64>, Ended> {
    let mut all = Vec::new();
    for die in &known.dies {
        for pair in die.members.windows(2) {
            let (a, b) = (pair[0].again(probe)?, pair[1].again(probe)?);
            let blocks = meeting::beyond(probe, a, b)?;
            let a = Spot::at(probe, a.offset / page * page, page)?;
            let b = Spot::at(probe, b.offset / page * page, page)?;
            let rest = a.bytes - probe.block_bytes();
            let longer = meeting::beyond(probe, a, b)? - blocks;
            all.push(longer * page as f64 / rest as f64);
        }
    }
    Ok(all)
}

/// What is known of the bus, in us.
#[derive(Clone, Copy)]
struct Bus {
    /// What a page takes longer than a block.
    size: f64,
    /// One command behind another in the front end.
    behind: f64,
    /// For so long a page is on it, at least.
    least: f64,
    /// Of the reads of one address.
    noise: f64,
}

/// How much longer than alone a block of one die takes that comes while a page of the other is read;
/// `None` if it may come before the page is on the bus, or after it has left.
fn waited(
    probe: &mut Probe<'_>,
    (a, b): (&Reader, &Reader),
    Bus { size, behind, least, noise }: Bus,
) -> Result<Option<f64>, Ended> {
    let within = (WITHIN * size).max(SURELY * noise);
    for (page, block) in [(a, b), (b, a)] {
        let after = page.page.alone - size - block.block.alone + within;
        let late = (behind - after.abs()).max(0.0);
        if late > 0.0 && within + late > LATE_MOST * least || within + SURELY * noise > least {
            continue;
        }
        let page = Ask::read(page.page.offset, page.page.bytes);
        let other = Ask::read(block.block.offset, block.block.bytes);
        let taken = probe.middle(|probe| {
            Ok(match after >= 0.0 {
                true => probe.one_after_another(&[page, other], &[after])?[1].latency() - late,
                false => probe.one_after_another(&[other, page], &[-after])?[0].latency(),
            })
        })?;
        // It waits for no more than the page.
        return Ok(Some((taken - block.block.alone).min(size)));
    }
    Ok(None)
}

/// Index of each die's group, and how waits split; or why there are no groups.
fn groups(waits: &[Vec<f64>], all: &[f64], size: f64) -> Result<(Vec<usize>, Split), String> {
    let middle = stats::median(all);
    let split = match stats::split(all).filter(Split::is_real) {
        Some(split) if split.high > size / 4.0 => split,
        _ if stats::quantile(all, 1.0) - stats::quantile(all, 0.0) > size / 2.0 => {
            return Err("waits of blocks for pages of other dies are of all lengths".to_owned());
        }
        // All alike: of one channel, or each of its own.
        _ => {
            let threshold = size / 4.0;
            let (lower, higher) = if middle > threshold { (0, all.len()) } else { (all.len(), 0) };
            Split { threshold, low: middle, high: middle, lower, higher, between: 1.0 }
        }
    };
    let mut firsts: Vec<usize> = Vec::new();
    let mut group_of = Vec::new();
    for (index, row) in waits.iter().enumerate() {
        let own = firsts.iter().position(|first| row[*first] > split.threshold);
        group_of.push(own.unwrap_or_else(|| {
            firsts.push(index);
            firsts.len() - 1
        }));
    }
    let mut odd = 0;
    for a in 0..waits.len() {
        for b in a + 1..waits.len() {
            odd += usize::from((group_of[a] == group_of[b]) != (waits[a][b] > split.threshold));
        }
    }
    let sizes: Vec<usize> =
        (0..firsts.len()).map(|group| group_of.iter().filter(|it| **it == group).count()).collect();
    if sizes.iter().any(|size| *size != sizes[0]) {
        return Err(format!(
            "dies whose blocks wait for pages of one another form groups of unequal sizes, {} to {} \
             dies",
            sizes.iter().min().unwrap_or(&0),
            sizes.iter().max().unwrap_or(&0)
        ));
    }
    // Misjudged pairs of which each could have moved a die to another group.
    if odd * 20 > all.len() {
        return Err(format!(
            "whether a block waits for a page of another die is no equivalence: {odd} of {} pairs of \
             dies do not fit {} groups",
            all.len(),
            firsts.len()
        ));
    }
    Ok((group_of, split))
}
