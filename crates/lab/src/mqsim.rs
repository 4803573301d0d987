//! MQSim's configuration and workload files, read unchanged.
//!
//! Every tag of MQSim (CMU-SAFARI/MQSim at 7ec40e3) is known here. A tag whose feature the
//! model does not have is an error that names the tag, its value and its place, unless the
//! value changes nothing in the run at hand; then it is a warning. Unknown tags, tags that MQSim
//! reads and never uses, and tags that another tag makes pointless are warnings too.
//!
//! By default the files describe a drive, and Mynah simulates that drive. With `as_mqsim`
//! it computes what MQSim computes, defects included. The differences:
//!
//! - The dies of a chip work at the same time; MQSim's never do.
//! - `CMT_Sharing_Mode` SHARED is one cached mapping table for all flows; in MQSim each flow
//!   has one of the full size.
//! - Evicted dirty mapping entries are programmed to flash; MQSim queues them for ever. Its entries
//!   that are written with another count as just used.
//! - A program carries a whole page over the channel; in MQSim only what the host wrote of it.
//! - Bus transfers take their exact time; MQSim truncates the time of two transfers to whole
//!   nanoseconds, which above 1000 MT/s is nothing.
//! - PCIe transfers take their exact time; MQSim truncates to whole nanoseconds.
//! - Reading an address that was never written returns zeros without touching flash; MQSim
//!   allocates a page for it and reads that.
//! - Read commands go before data on a flash channel, so that dies start early; MQSim moves
//!   data first.
//! - A partner for a multi-plane command is sought among the next 32 transactions of the
//!   other planes; MQSim walks the whole queue.
//! - Writes wait for the data cache while it is full; in MQSim also while a page for each plane
//!   of the drive is on its way from the cache to flash, wherever that goes.
//!   (What is written twice within a second it keeps in the cache until room is short. That is
//!   not modelled: what is written while it is being programmed is programmed again.)
//! - A submission queue entry takes 64 bytes on the link; MQSim's takes 72.
//! - PRP lists of large requests are fetched over the link; MQSim has none.
//! - `Time_Unit` of a trace is honoured; MQSim takes every trace to count nanoseconds.
//! - `Percentage_To_Be_Executed` counts in every replay of a trace; MQSim ignores it if
//!   `Relay_Count` is not 1.
//! - The mean interval of `BANDWIDTH` flows is exact; MQSim's is the result of three
//!   integer divisions.
//! - Wear is levelled as the tags say, and blocks endure `Block_PE_Cycles_Limit` cycles; MQSim
//!   always opens the least worn block, and its blocks do not wear out.
//! - Programs and erases are suspended as `CMD_Suspension_Support` says; MQSim accepts the tag
//!   and never suspends. FLIN schedules; MQSim stops at it.
//!
//! Where collection is not preemptible it always goes before host I/O, in both cases.
//!
//! The stream of addresses is Mynah's in both cases, seeded with the flow's `Seed`: the same
//! distribution as MQSim's, not the same numbers.

mod drive;
mod flows;
mod section;
mod xml;

use crate::experiment::Precondition;
use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use mynah_model::config::Config;
use mynah_workload::FlowSpec;
use rustc_hash::FxHashMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use xml::{Document, Element};

/// The largest file that is read, in bytes.
pub const MAX_FILE: usize = 64 << 20;
/// The most scenarios in one workload file.
pub const MAX_SCENARIOS: usize = 10_000;
/// Different warnings that are kept.
const MAX_WARNINGS: usize = 1000;

/// A pair of MQSim files, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The scenarios in order, each with a drive of its own. At least one.
    pub scenarios: Vec<Scenario>,
    /// The drive's `Seed`, for the run.
    pub seed: u64,
    /// Whether MQSim's results are asked for rather than the drive's.
    pub as_mqsim: bool,
    /// Warnings about tags that were read and have no effect.
    pub warnings: Vec<String>,
}

/// One scenario: a run on a fresh drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// `scenario-1`, `scenario-2` and so on, in the order of the workload file.
    pub name: String,
    /// The drive, with one namespace for each flow.
    pub config: Config,
    /// The flows; the first uses namespace 1, and so on.
    pub flows: Vec<FlowSpec>,
    /// How the drive is prepared.
    pub precondition: Precondition,
}

/// Why MQSim's files cannot be used.
#[derive(Debug)]
pub struct MqsimError(Box<Details>);

#[derive(Debug)]
struct Details {
    file: String,
    line: Option<usize>,
    tag: Option<String>,
    message: String,
    source: Option<NamedSource<Arc<str>>>,
    at: usize,
}

impl MqsimError {
    fn at(
        file: &str,
        line: usize,
        tag: Option<&str>,
        message: String,
        source: NamedSource<Arc<str>>,
        at: usize,
    ) -> MqsimError {
        MqsimError(Box::new(Details {
            file: file.to_owned(),
            line: Some(line),
            tag: tag.map(str::to_owned),
            message,
            source: Some(source),
            at,
        }))
    }

    fn file(file: &str, message: String) -> MqsimError {
        let file = file.to_owned();
        MqsimError(Box::new(Details { file, line: None, tag: None, message, source: None, at: 0 }))
    }

    /// Name of the file in which the error is.
    pub fn file_name(&self) -> &str {
        &self.0.file
    }

    /// The line, from 1, if it is about one.
    pub fn line(&self) -> Option<usize> {
        self.0.line
    }

    /// The tag it is about, if any.
    pub fn tag(&self) -> Option<&str> {
        self.0.tag.as_deref()
    }
}

impl fmt::Display for MqsimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { file, line, tag, message, .. } = &*self.0;
        write!(f, "{file}:")?;
        if let Some(line) = line {
            write!(f, "{line}:")?;
        }
        if let Some(tag) = tag {
            write!(f, " <{tag}>:")?;
        }
        write!(f, " {message}")
    }
}

impl std::error::Error for MqsimError {}

impl Diagnostic for MqsimError {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.0.source.as_ref()?;
        let label = LabeledSpan::at_offset(self.0.at, "here");
        Some(Box::new(std::iter::once(label)))
    }
}

/// Tags that change nothing in a run, for one reason.
struct Idle {
    file: String,
    reason: String,
    tags: Vec<String>,
}

/// Warnings, each said once however often its reason occurs.
#[derive(Default)]
struct Warnings {
    idle: Vec<Idle>,
    /// Text with the place of the first occurrence, and the number of occurrences.
    said: Vec<(String, usize)>,
    /// Where in `said` a tag and message are.
    index: FxHashMap<String, usize>,
}

impl Warnings {
    fn add(&mut self, document: &Document, element: &Element, message: impl Into<String>) {
        let message = message.into();
        let key = format!("<{}>: {message}", element.name);
        if let Some(&index) = self.index.get(&key) {
            self.said[index].1 += 1;
        } else if self.said.len() < MAX_WARNINGS {
            self.index.insert(key, self.said.len());
            self.said.push((format!("{}: {message}", document.place(element)), 1));
        }
    }

    /// `element` changes nothing, because `reason`. Tags with the same reason share a warning.
    fn idle(&mut self, document: &Document, element: &Element, reason: &str) {
        let file = document.name();
        let mut known = self.idle.iter_mut();
        let tag = format!("<{}>", element.name);
        match known.find(|idle| idle.file == file && idle.reason == reason) {
            Some(idle) if idle.tags.contains(&tag) => {}
            Some(idle) => idle.tags.push(tag),
            None => {
                let (file, reason) = (file.to_owned(), reason.to_owned());
                self.idle.push(Idle { file, reason, tags: vec![tag] });
            }
        }
    }

    fn into_strings(self) -> Vec<String> {
        let say = |(text, count): (String, usize)| match count {
            1 => text,
            count => format!("{text} (and {} more)", count - 1),
        };
        let idle = |Idle { file, reason, tags }: Idle| {
            let verb = if tags.len() == 1 { "has" } else { "have" };
            format!("{file}: {} {verb} no effect: {reason}", tags.join(", "))
        };
        self.said.into_iter().map(say).chain(self.idle.into_iter().map(idle)).collect()
    }
}

/// Reads a pair of files: `ssdconfig.xml` and `workload.xml`.
pub fn load(drive: &Path, workload: &Path, as_mqsim: bool) -> Result<Import, MqsimError> {
    let read = |path: &Path| {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| MqsimError::file(&name, error.to_string()))?;
        Ok((name, bytes))
    };
    let (drive_name, drive_bytes) = read(drive)?;
    let (workload_name, workload_bytes) = read(workload)?;
    parse((&drive_name, &drive_bytes), (&workload_name, &workload_bytes), as_mqsim)
}

/// Reads a pair of files that are already here, each as its name and its bytes.
pub fn parse(
    drive: (&str, &[u8]),
    workload: (&str, &[u8]),
    as_mqsim: bool,
) -> Result<Import, MqsimError> {
    let document = |(name, bytes): (&str, &[u8])| {
        if bytes.len() > MAX_FILE {
            return Err(MqsimError::file(name, format!("more than {MAX_FILE} bytes")));
        }
        if bytes.trim_ascii() == b"USE_INTERNAL_PARAMS" {
            let message = "asks for MQSim's built-in parameters; let MQSim write them to a file";
            return Err(MqsimError::file(name, message.into()));
        }
        Document::parse(name, bytes)
    };
    let mut warnings = Warnings::default();
    let drive_document = document(drive)?;
    let drive = drive::read(&drive_document, as_mqsim, &mut warnings)?;
    let workload_document = document(workload)?;
    let scenarios = flows::read(&workload_document, &drive, as_mqsim, &mut warnings)?;
    Ok(Import { scenarios, seed: drive.config.seed, as_mqsim, warnings: warnings.into_strings() })
}
