//! The first page of a profile: what it is of, which stages its records have, and what was counted.

use crate::SCHEMA;
use crate::choice::Choice;
use crate::error::ReadError;
use crate::record::HEAD_WORDS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 4096;
/// What a profile begins with.
pub const MAGIC: [u8; 8] = *b"mynahprf";
/// Version of the fixed part.
const VERSION: u32 = 1;
/// Which word of a profile is the first of its counts ([`Counts::to_array`]).
pub const COUNTS_WORD: usize = COUNTS_AT / 8;
/// Where the counts begin, and the description.
pub(crate) const COUNTS_AT: usize = 64;
const TEXT_AT: usize = 256;
/// Most stages of a record, and as many figures beside them; and most kinds of I/O.
pub(crate) const STAGES_MAX: usize = 64;
const KINDS_MAX: usize = 64;

/// Whose view of I/Os a profile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// A drive that was simulated, with the host that was simulated with it.
    Simulation,
    Host,
    Target,
    /// Both ends of a path, joined.
    Path,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Simulation => "simulation",
            Side::Host => "host",
            Side::Target => "target",
            Side::Path => "path",
        }
    }
}

/// The clock that times are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeBase {
    /// Simulated time.
    Virtual,
    /// CLOCK_MONOTONIC of the machine.
    Monotonic,
}

/// What a profile says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    pub side: Side,
    /// Of which drive, or target.
    pub name: String,
    /// The clock of its times, in picoseconds.
    pub clock: TimeBase,
    /// What that clock said at the profile's time 0.
    #[serde(default)]
    pub origin_ns: u64,
    /// Which machine's clock it is, so that profiles of one clock are known.
    #[serde(default)]
    pub machine: String,
    /// The program that wrote it.
    pub program: String,
    /// Kinds of I/O, by number.
    pub kinds: Vec<String>,
    /// Names of the stages of each record, in the order in which an I/O passes them.
    pub stages: Vec<String>,
    /// Names of further figures of each record, which are not part of its total: spans in
    /// picoseconds if the name ends in `_ps`, else numbers.
    #[serde(default)]
    pub beside: Vec<String>,
    /// Names of connections or flows, by number; as many as fit.
    #[serde(default)]
    pub sessions: Vec<String>,
    /// Which I/Os have records; not there: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// What a host's connections said of themselves; not there: they were not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// For how long I/Os were counted, from the beginning of the first to the end of the last, whether
    /// their records are still there or not; not there: not known beyond the records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_ns: Option<u64>,
    /// Whether all of the load waits for answers before it asks for more (a closed loop); not there: not
    /// known, as at a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<bool>,
    /// Who had what the I/Os waited for (dies, channels, free blocks, room in the cache), and for how long,
    /// summed over their parts: `own`, `others`, or the drive's own work by its name. Not there: not
    /// known, as of all that is not simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ns: Option<BTreeMap<String, u64>>,
}

/// What the connections of a run said of themselves (Linux's TCP_INFO), while it went on: over all of
/// them, as their host sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// For how long they were asked.
    pub asked_us: u64,
    /// Smoothed round trip time: the median of all answers.
    pub rtt_us: u64,
    /// Segments that the host has sent again.
    pub retransmits: u64,
    /// Segments that came to the host out of order: what was before them was lost, or overtaken.
    pub out_of_order: u64,
    /// For how long the host had something to send, summed over connections.
    pub busy_us: u64,
    /// For how much of that the target's window was full.
    pub window_limited_us: u64,
    /// For how much of that the host's send buffer was full.
    pub buffer_limited_us: u64,
    /// Bytes a second that a connection delivered to the target of late: the median of all answers.
    pub delivery_rate: u64,
}

/// What became of the I/Os that ended while the profile was being written. They add up: `completed`
/// is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub completed: u64,
    /// Those with a record, whether it is still there or not.
    pub recorded: u64,
    /// Those that no filter let through.
    pub filtered: u64,
    /// Those that sampling left out.
    pub sampled_out: u64,
    /// Those for whose record there was no room.
    pub lost: u64,
}

impl Counts {
    /// As the header has them, one word each from [`COUNTS_WORD`] on.
    pub fn to_array(self) -> [u64; 5] {
        [self.completed, self.recorded, self.filtered, self.sampled_out, self.lost]
    }

    /// Adds the counts of another part of the same profile.
    pub fn add(&mut self, other: &Counts) {
        // Those of a file may be anything.
        self.completed = self.completed.saturating_add(other.completed);
        self.recorded = self.recorded.saturating_add(other.recorded);
        self.filtered = self.filtered.saturating_add(other.filtered);
        self.sampled_out = self.sampled_out.saturating_add(other.sampled_out);
        self.lost = self.lost.saturating_add(other.lost);
    }

    /// Whether `completed` is the sum of the others.
    pub fn add_up(&self) -> bool {
        let [completed, parts @ ..] = self.to_array().map(u128::from);
        completed == parts.iter().sum()
    }
}

impl Header {
    /// A header of this side, written by this program; the rest is empty.
    pub fn new(side: Side, name: &str, clock: TimeBase) -> Header {
        Header {
            schema: SCHEMA.to_owned(),
            side,
            name: name.to_owned(),
            clock,
            origin_ns: 0,
            machine: String::new(),
            program: concat!("mynah ", env!("CARGO_PKG_VERSION")).to_owned(),
            kinds: vec![],
            stages: vec![],
            beside: vec![],
            sessions: vec![],
            choice: None,
            network: None,
            counted_ns: None,
            closed_loop: None,
            held_ns: None,
        }
    }

    /// Words of a record: its head, its stages, what is beside them, and its sequence once more.
    pub fn record_words(&self) -> usize {
        HEAD_WORDS + self.stages.len() + self.beside.len() + 1
    }

    fn is_bounded(&self) -> bool {
        let words = self.stages.len().max(self.beside.len());
        words <= STAGES_MAX && self.kinds.len() <= KINDS_MAX
    }

    pub fn record_bytes(&self) -> u64 {
        self.record_words() as u64 * 8
    }

    /// The first page of a file with this many slots for records.
    ///
    /// # Panics
    /// If stages, kinds and further figures do not fit into a page: they are the program's own. A
    /// name that is too long is cut, and sessions are left out from the last.
    pub fn to_page(&self, slots: u64, counts: &Counts) -> Vec<u8> {
        assert!(self.is_bounded());
        let mut fits = self.clone();
        while fits.name.len() > 200 {
            fits.name.pop();
        }
        let mut text = serde_json::to_vec(&fits).expect("names are text");
        while TEXT_AT + text.len() > HEADER_BYTES && fits.sessions.pop().is_some() {
            text = serde_json::to_vec(&fits).expect("names are text");
        }
        assert!(TEXT_AT + text.len() <= HEADER_BYTES, "names of stages are too long");
        let mut page = vec![0; HEADER_BYTES];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        page[12..16].copy_from_slice(&(text.len() as u32).to_le_bytes());
        page[16..24].copy_from_slice(&slots.to_le_bytes());
        page[24..32].copy_from_slice(&self.record_bytes().to_le_bytes());
        for (at, count) in counts.to_array().iter().enumerate() {
            let at = COUNTS_AT + 8 * at;
            page[at..at + 8].copy_from_slice(&count.to_le_bytes());
        }
        page[TEXT_AT..TEXT_AT + text.len()].copy_from_slice(&text);
        page
    }

    /// Parses the first page of a file, which may be anything: the header, the number of slots, and
    /// the counts.
    ///
    /// # Errors
    /// If it is not one.
    pub fn from_page(page: &[u8]) -> Result<(Header, u64, Counts), ReadError> {
        if page.len() < MAGIC.len() || !page.starts_with(&MAGIC) {
            return Err(ReadError::Foreign);
        }
        if page.len() < HEADER_BYTES {
            return Err(ReadError::Truncated { bytes: page.len() as u64 });
        }
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&page[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let version = word(8) as u32;
        if version != VERSION {
            return Err(ReadError::Version(version));
        }
        let text_bytes = (word(8) >> 32) as usize;
        let text = page.get(TEXT_AT..).and_then(|rest| rest.get(..text_bytes));
        let damaged = |what: &str| ReadError::Damaged(what.to_owned());
        let text = text.ok_or_else(|| damaged("its description is longer than its header"))?;
        let header: Header = serde_json::from_slice(text)
            .map_err(|error| ReadError::Damaged(format!("its description: {error}")))?;
        if header.schema != SCHEMA {
            return Err(ReadError::Schema(header.schema.chars().take(40).collect()));
        }
        if !header.is_bounded() {
            return Err(damaged("more stages, kinds of I/O or figures than a profile has"));
        }
        if word(24) != header.record_bytes() {
            return Err(damaged("records of another size than its stages make"));
        }
        let count = |at: usize| word(COUNTS_AT + 8 * at);
        let counts = Counts {
            completed: count(0),
            recorded: count(1),
            filtered: count(2),
            sampled_out: count(3),
            lost: count(4),
        };
        Ok((header, word(16), counts))
    }
}
