//! The methods, each in a file of its own, and the order in which they are run: each builds on what
//! those before it have found.

mod channels;
mod dies;
mod fill;
mod front_end;
mod lay;
mod meeting;
mod pages;
mod planes;
mod programs;
mod reads;
mod spare;
mod stored;
mod times;
mod trims;
mod units;
mod write_cache;

use crate::finding::{Finding, Findings, Outcome, Picture, Value};
use crate::probe::{Ended, Limits, Probe, Watch};
use crate::subject::Subject;

/// How a drive is asked.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What it may cost. Without bytes to write nothing is written or trimmed.
    pub limits: Limits,
    /// Seed of the addresses.
    pub seed: u64,
}

/// What is known so far, for the methods that build on it.
#[derive(Debug, Default)]
struct Known {
    /// Of single reads.
    reads: reads::Reads,
    /// How two reads that meet in a die are told from two that do not.
    meeting: Option<meeting::Meeting>,
    /// An address in each die.
    dies: Vec<dies::Die>,
    /// Bytes of a page.
    page: Option<u64>,
    /// Index of each die's channel.
    channels: Vec<usize>,
    /// What a page takes on a channel's bus, in us.
    transfer: Option<f64>,
    /// A piece that was trimmed, and is: offset and bytes.
    empty: Option<(u64, u64)>,
    /// Bytes of a unit of mapping.
    unit: Option<u64>,
    /// Whether writes take until they are on the flash.
    is_uncached: bool,
    /// Where what is written goes.
    cells: fill::Cells,
}

/// What is being found out, and how.
type Method = (&'static str, fn(&mut Probe<'_>, &mut Known, &mut Findings) -> Result<(), Ended>);

/// Those that read, in order.
const READING: [Method; 7] = [
    ("latency of single reads", reads::find),
    ("reads that meet", meeting::find),
    ("dies", dies::find),
    ("pages", pages::find),
    ("planes", planes::find),
    ("channels", channels::find),
    ("array times", times::find),
];

/// Those that trim and write, in order; what a drive holds is lost.
const WRITING: [Method; 7] = [
    ("trims", trims::find),
    ("front end", front_end::find),
    ("write cache", write_cache::find),
    ("units of mapping", units::find),
    ("SLC cache", fill::find),
    ("programs", programs::find),
    ("over-provisioning", spare::find),
];

/// Asks a drive everything, and says what was found. An end before everything was known is part of it.
pub fn identify(subject: &mut dyn Subject, watch: &mut dyn Watch, plan: &Plan) -> Findings {
    let mut probe = Probe::new(subject, watch, plan.limits, plan.seed);
    let mut findings = Findings::default();
    findings.ended = ask_all(&mut probe, &mut findings).err();
    findings.requests = probe.asked();
    findings.written_bytes = probe.written();
    findings.seconds = probe.seconds();
    findings
}

/// Runs all methods; or says which of them has ended early, and why.
fn ask_all(probe: &mut Probe<'_>, findings: &mut Findings) -> Result<(), String> {
    let mut known = Known::default();
    let writes = probe.may_write();
    let share = |index: usize| match writes {
        true => index as f64 / (READING.len() + WRITING.len()) as f64,
        false => index as f64 / READING.len() as f64,
    };
    let run = |probe: &mut Probe<'_>,
               known: &mut Known,
               findings: &mut Findings,
               index: usize,
               (what, method): Method| {
        probe.tell(what, share(index));
        method(probe, known, findings).map_err(|ended| format!("{what}: {ended}"))
    };
    for (index, method) in READING.into_iter().enumerate() {
        run(probe, &mut known, findings, index, method)?;
    }
    if !writes {
        return Ok(());
    }
    if known.page.is_none() {
        const WHAT: &str = "data in order";
        probe.tell(WHAT, share(0));
        if lay::down(probe).map_err(|ended| format!("{WHAT}: {ended}"))? {
            known = Known::default();
            findings.findings.clear();
            for (index, method) in READING.into_iter().enumerate() {
                run(probe, &mut known, findings, index, method)?;
            }
        }
    }
    for (index, method) in WRITING.into_iter().enumerate() {
        run(probe, &mut known, findings, READING.len() + index, method)?;
        // Trims ask for what was written; what comes after them writes itself.
        probe.stay_within(0, probe.bytes());
    }
    // The burst that fills the cache then goes to cells that are programmed much faster than later ones.
    let is_slc = findings.value("slc") == Some(&Value::Yes(true));
    if is_slc && findings.value(write_cache::SIZE.0).is_some() {
        findings.findings.retain(|finding| finding.key != write_cache::SIZE.0);
        let because = "an SLC cache behind it takes much of a burst meanwhile";
        findings.cannot(write_cache::SIZE, because.to_owned());
    }
    Ok(())
}

impl Findings {
    /// Adds a parameter that was found.
    fn found(
        &mut self,
        (key, what): (&'static str, &'static str),
        value: Value,
        between: Option<(Value, Value)>,
        evidence: String,
        (method, picture): (&'static str, Option<Picture>),
    ) {
        let outcome = Outcome::Found { value, between };
        self.findings.push(Finding { key, what, outcome, evidence, method, picture });
    }

    /// Adds parameters that cannot be told, for one reason.
    fn cannot_any(&mut self, all: &[(&'static str, &'static str)], because: &str) {
        all.iter().for_each(|what| self.cannot(*what, because.to_owned()));
    }

    /// Adds a parameter that cannot be told.
    fn cannot(&mut self, (key, what): (&'static str, &'static str), because: String) {
        let outcome = Outcome::NotDetermined { because };
        let (evidence, method, picture) = (String::new(), "", None);
        self.findings.push(Finding { key, what, outcome, evidence, method, picture });
    }
}
