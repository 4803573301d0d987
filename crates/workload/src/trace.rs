//! Recorded requests: a streaming reader of traces, in the formats of [`TraceFormat`].
//!
//! Files may be packed with gzip or zstd. Lines are separated by LF or CR LF; empty lines are skipped. Memory use does not depend on
//! the length of the file or of its lines.
//!
//! Nothing is skipped or mended silently: a line that does not fit its format is an error that
//! shows the file, the line and what is valid; what is passed over by design, arrivals that
//! are put in order and addresses that are folded are counted and said.

mod format;
mod input;

use input::{Input, Source};

use crate::{Planned, TraceSource};
use mynah_model::io::Operation;
use mynah_stamp::Time;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

pub use format::{Columns, Line, LineFault, LineParser, TraceAction, TraceFormat, TraceRecord};

/// The longest line that is read, in bytes.
pub const MAX_LINE: usize = 4096;

/// What happens to a request outside the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Remap {
    /// The trace is refused.
    #[default]
    Refuse,
    /// Its first sector is taken modulo the namespace's last sector, as MQSim does (in a recording
    /// modulo the namespace's size, which keeps requests as aligned as they were); if its end
    /// still lies outside it moves back until it fits. Counted.
    Modulo,
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{file}: {error}")]
    Io {
        /// The trace file.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// A line is not valid.
    #[error("{file}:{line}: {problem}\n  {text}")]
    Line {
        /// The trace file.
        file: String,
        /// Line number, from 1.
        line: u64,
        /// What is wrong with the line.
        problem: String,
        /// The line's text, shortened and with unprintable bytes replaced.
        text: String,
        /// What a valid line looks like.
        #[help]
        help: String,
    },
    /// The trace holds no requests.
    #[error("{file}: {problem}")]
    Nothing {
        /// The trace file.
        file: String,
        /// What the file holds instead.
        problem: String,
        /// What would be valid.
        #[help]
        help: String,
    },
    /// The file as a whole cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// The trace file.
        file: String,
        /// What is wrong with the file.
        problem: String,
    },
}

/// Changes that were made to the requests of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Requests outside the namespace that were folded into it.
    pub remapped: u64,
    /// Requests that are stamped earlier than the one before them, and were taken to arrive
    /// with it.
    pub reordered: u64,
    /// Lines that hold no request of any kind.
    pub skipped: u64,
}

impl Mended {
    /// Adds what was done to another trace.
    pub fn add(&mut self, other: Mended) {
        self.remapped += other.remapped;
        self.reordered += other.reordered;
        self.skipped += other.skipped;
    }

    /// Remarks about the changes, for the user.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.remapped > 0 {
            notes.push(format!(
                "{} trace addresses beyond the namespace were folded into it",
                self.remapped
            ));
        }
        if self.reordered > 0 {
            notes.push(format!(
                "{} requests of the trace are stamped earlier than the one before them, and were \
                 taken to arrive with it",
                self.reordered
            ));
        }
        if self.skipped > 0 {
            notes.push(format!("{} lines of the trace hold no request", self.skipped));
        }
        notes
    }
}

/// The records of a trace, one after the other.
#[derive(Debug)]
pub struct TraceReader<R> {
    file: String,
    input: BufReader<R>,
    /// A line that does not lie in the buffer in one piece.
    pieces: Vec<u8>,
    line: u64,
    format: TraceFormat,
    parser: LineParser,
    /// The request that follows the flush that was read last, from the same line.
    after_flush: Option<TraceRecord>,
    /// The first arrival, where times count from it.
    first: Option<u64>,
    last_arrival: u64,
    reordered: u64,
    skipped: u64,
}

impl<R: Read> TraceReader<R> {
    /// Reads from `input`, which messages call `file`.
    pub fn new(
        file: impl Into<String>,
        input: R,
        format: TraceFormat,
        action: TraceAction,
    ) -> TraceReader<R> {
        TraceReader {
            file: file.into(),
            input: BufReader::with_capacity(64 << 10, input),
            pieces: Vec::new(),
            line: 0,
            format,
            parser: LineParser::new(format, action),
            after_flush: None,
            first: None,
            last_arrival: 0,
            reordered: 0,
            skipped: 0,
        }
    }

    /// The number of the last line read, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next record. Where times are a clock's, they count from the first record.
    #[allow(clippy::should_implement_trait, reason = "reads like the streams it feeds")]
    pub fn next(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        if let Some(record) = self.after_flush.take() {
            return Ok(Some(record));
        }
        let (format, help) = (self.format, self.format.help());
        let TraceReader { file, input, pieces, line, parser, after_flush, .. } = self;
        let (first, last_arrival) = (&mut self.first, &mut self.last_arrival);
        let (reordered, skipped) = (&mut self.reordered, &mut self.skipped);
        loop {
            let read = with_line(input, pieces, |text| {
                *line += 1;
                let fail = |problem| Err(line_error(file, *line, problem, text, help));
                let (mut record, flushes) = match parser.read(text) {
                    Ok(Line::Record(record)) => (record, false),
                    Ok(Line::AfterFlush(record)) => (record, true),
                    Ok(Line::Empty) => return Ok(None),
                    Ok(Line::Skipped) => {
                        *skipped += 1;
                        return Ok(None);
                    }
                    Err(fault) => return fail(fault.to_string()),
                };
                let mut with_flush = |record: TraceRecord| {
                    if !flushes {
                        return record;
                    }
                    *after_flush = Some(record);
                    TraceRecord { sector: 0, sectors: 0, operation: Operation::Flush, ..record }
                };
                let Some(mut arrival) = record.arrival else {
                    return Ok(Some(with_flush(record)));
                };
                if format.is_absolute() {
                    let first = *first.get_or_insert(arrival);
                    *reordered += u64::from(arrival < first);
                    arrival = arrival.max(first) - first;
                }
                if arrival < *last_arrival {
                    if format == TraceFormat::Mqsim {
                        return fail(format!("arrival {arrival} is before {}", *last_arrival));
                    }
                    *reordered += 1;
                    arrival = *last_arrival;
                }
                *last_arrival = arrival;
                record.arrival = Some(arrival);
                Ok(Some(with_flush(record)))
            });
            match read {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(None))) => {}
                Ok(Some(result)) => return result,
                Err(error) => return Err(read_error(file, *line, error, help)),
            }
        }
    }

    /// Reads to the end and counts the requests: in MQSim's format the lines that are not
    /// empty, looking no closer at them.
    fn count(&mut self) -> Result<u64, TraceError> {
        let mut count = 0;
        while self.format != TraceFormat::Mqsim {
            match self.next()? {
                Some(_) => count += 1,
                None => return Ok(count),
            }
        }
        loop {
            let full = with_line(&mut self.input, &mut self.pieces, |text| {
                !text.iter().all(u8::is_ascii_whitespace)
            });
            self.line += 1;
            match full {
                Ok(None) => return Ok(count),
                Ok(Some(full)) => count += u64::from(full),
                Err(error) => {
                    let help = self.format.help();
                    return Err(read_error(&self.file, self.line - 1, error, help));
                }
            }
        }
    }
}

/// Why a line could not be read.
enum ReadFault {
    Io(std::io::Error),
    TooLong,
}

fn read_error(file: &str, line: u64, fault: ReadFault, help: &str) -> TraceError {
    match fault {
        // What is packed cannot be unpacked.
        ReadFault::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            line_error(file, line + 1, error.to_string(), b"", help)
        }
        ReadFault::Io(error) => TraceError::Io { file: file.into(), error },
        ReadFault::TooLong => line_error(
            file,
            line + 1,
            format!("the line is longer than {MAX_LINE} bytes"),
            b"",
            help,
        ),
    }
}

fn line_error(file: &str, line: u64, problem: String, text: &[u8], help: &str) -> TraceError {
    let shown = &text[..text.len().min(120)];
    let mut text: String = String::from_utf8_lossy(shown)
        .trim_end()
        .chars()
        .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
        .collect();
    if shown.len() == 120 {
        text.push('…');
    }
    TraceError::Line { file: file.into(), line, problem, text, help: help.into() }
}

/// Calls `with` on the next line, without its end; `None` at the end of the input. A line
/// that lies in the buffer in one piece is not copied.
fn with_line<R: Read, T>(
    input: &mut BufReader<R>,
    pieces: &mut Vec<u8>,
    with: impl FnOnce(&[u8]) -> T,
) -> Result<Option<T>, ReadFault> {
    pieces.clear();
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ReadFault::Io(error)),
        };
        if buffer.is_empty() {
            return Ok(if pieces.is_empty() { None } else { Some(with(pieces)) });
        }
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        let used = piece.len() + usize::from(end.is_some());
        if pieces.len() + piece.len() > MAX_LINE {
            return Err(ReadFault::TooLong);
        }
        if pieces.is_empty() && end.is_some() {
            let result = with(piece);
            input.consume(used);
            return Ok(Some(result));
        }
        pieces.extend_from_slice(piece);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(with(pieces)));
        }
    }
}

/// A trace as a flow replays it: within its namespace, in part or repeatedly, on the drive's
/// clock.
#[derive(Debug)]
pub(crate) struct TraceStream {
    source: TraceSource,
    capacity: u64,
    reader: TraceReader<Input<Source>>,
    /// Requests left in this replay.
    left: u64,
    /// Requests in one replay of the trace.
    each: u64,
    replays_left: u32,
    seen: u64,
    offset: Time,
    last: Time,
    mended: Mended,
}

/// The bytes of a trace, unpacked.
pub(crate) type OpenInput = Input<Source>;

/// The bytes of the trace at `path`; `-` is standard input.
pub(crate) fn open_input(path: &Path) -> Result<OpenInput, TraceError> {
    let (file, opened) = match path == Path::new("-") {
        true => ("standard input".into(), Ok(Source::Stdin(std::io::stdin()))),
        false => {
            let opened = std::fs::File::open(path).map(Source::File);
            (path.display().to_string(), opened)
        }
    };
    opened.and_then(Input::new).map_err(|error| TraceError::Io { file, error })
}

fn open(source: &TraceSource) -> Result<TraceReader<Input<Source>>, TraceError> {
    let file = match source.is_pipe() {
        true => "standard input".into(),
        false => source.path.display().to_string(),
    };
    let input = open_input(&source.path)?;
    Ok(TraceReader::new(file, input, source.format, source.action))
}

/// `speed` in millionths, so that times are computed in integers.
fn millionths(speed: f64) -> Option<u64> {
    let millionths = (speed * 1e6).round();
    (1.0..=1e15).contains(&millionths).then_some(millionths as u64)
}

impl TraceStream {
    pub(crate) fn open(source: &TraceSource, capacity: u64) -> Result<TraceStream, TraceError> {
        let mut reader = open(source)?;
        let fail = |problem: &str| {
            let file = source.path.display().to_string();
            Err(TraceError::File { file, problem: problem.into() })
        };
        if source.repeat == 0 {
            return fail("a trace that is replayed 0 times has no requests");
        }
        if !(source.share > 0.0 && source.share <= 1.0) {
            return fail("the part to replay is more than 0, at most 100 %");
        }
        if millionths(source.speed).is_none() {
            return fail("the speed of a replay is more than 0, at most 100,000,000,000 %");
        }
        let mut each = u64::MAX;
        if source.is_pipe() && (source.share < 1.0 || source.repeat > 1) {
            return fail("standard input is read once, so it is replayed whole and once");
        }
        if source.share < 1.0 {
            each = (reader.count()? as f64 * source.share) as u64;
            reader = open(source)?;
        }
        Ok(TraceStream {
            source: source.clone(),
            capacity,
            reader,
            left: each,
            each,
            replays_left: source.repeat - 1,
            seen: 0,
            offset: Time::ZERO,
            last: Time::ZERO,
            mended: Mended::default(),
        })
    }

    pub(crate) fn mended(&self) -> Mended {
        let Mended { remapped, reordered, skipped } = self.mended;
        Mended {
            remapped,
            reordered: reordered + self.reader.reordered,
            skipped: skipped + self.reader.skipped,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Planned>, TraceError> {
        let record = loop {
            let record = if self.left == 0 { None } else { self.reader.next()? };
            match record {
                Some(record) => break record,
                None if self.seen == 0 => {
                    let mut problem = "no requests to replay".to_owned();
                    if self.reader.skipped > 0 {
                        problem += &format!(", and {} lines of other kinds", self.reader.skipped);
                    }
                    let (format, file) = (self.source.format, self.reader.file.clone());
                    return Err(TraceError::Nothing { file, problem, help: format.help().into() });
                }
                None if self.replays_left == 0 => return Ok(None),
                None => {
                    let again = open(&self.source)?;
                    let before = std::mem::replace(&mut self.reader, again);
                    self.mended.reordered += before.reordered;
                    self.mended.skipped += before.skipped;
                    self.replays_left -= 1;
                    self.left = self.each;
                    self.offset = self.last;
                }
            }
        };
        self.left -= 1;
        self.seen += 1;
        let arrival = match (self.source.depth, record.arrival) {
            (Some(_), _) => None,
            (None, Some(ticks)) => Some(self.arrival(&record, ticks)?),
            (None, None) => {
                return Err(self.record_error(
                    &record,
                    "this trace has no times".into(),
                    "`--trace-no-stall` (`trace_no_stall = true`) with an iodepth replays it as \
                     fast as the drive takes it",
                ));
            }
        };
        let sector = self.fit(&record)?;
        Ok(Some(Planned {
            placement: Default::default(),
            operation: record.operation,
            key: None,
            sector,
            sectors: record.sectors,
            arrival,
        }))
    }

    /// When a record arrives on the drive's clock.
    fn arrival(&mut self, record: &TraceRecord, ticks: u64) -> Result<Time, TraceError> {
        let speed = millionths(self.source.speed).unwrap_or(1_000_000);
        let trace_ps = u128::from(ticks) * u128::from(self.source.tick.as_ps());
        let ps = u64::try_from(trace_ps * 1_000_000 / u128::from(speed)).ok();
        let Some(arrival) = ps.and_then(|ps| ps.checked_add(self.offset.as_ps())) else {
            return Err(self.record_error(
                record,
                format!("arrival {ticks} is after the end of time (213 days)"),
                "times count from the run's start: subtract the trace's first arrival",
            ));
        };
        self.last = Time::from_ps(arrival);
        Ok(self.last)
    }

    /// The first sector of `record` in the namespace.
    fn fit(&mut self, record: &TraceRecord) -> Result<u64, TraceError> {
        let length = u64::from(record.sectors);
        if record.sector.checked_add(length).is_some_and(|end| end <= self.capacity) {
            return Ok(record.sector);
        }
        let outside = format!(
            "{} sectors from {} are outside the namespace of {} sectors",
            record.sectors, record.sector, self.capacity
        );
        if length > self.capacity {
            return Err(self.record_error(record, outside, "the drive is too small for it"));
        }
        match self.source.remap {
            Remap::Refuse => Err(self.record_error(
                record,
                outside,
                "a larger drive holds it, or `--trace-remap modulo` (`trace_remap = \"modulo\"`) \
                 folds such addresses into the namespace and counts them",
            )),
            Remap::Modulo => {
                self.mended.remapped += 1;
                let folded = if record.sector < self.capacity {
                    record.sector
                } else {
                    record.sector % (self.capacity - 1).max(1)
                };
                Ok(folded.min(self.capacity - length))
            }
        }
    }

    fn record_error(&self, record: &TraceRecord, problem: String, help: &str) -> TraceError {
        let arrival = record.arrival.map(|arrival| arrival.to_string()).unwrap_or_default();
        let kind = u8::from(record.operation == Operation::Read);
        let text = format!("{arrival} … {} {} {kind}", record.sector, record.sectors);
        line_error(&self.reader.file, self.reader.line, problem, text.as_bytes(), help)
    }
}
