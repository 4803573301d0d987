//! Recorded requests: a streaming reader of MQSim's ASCII trace format.
//!
//! A line is five numbers separated by spaces or tabs: `arrival device sector sectors type`,
//! type 0 being a write and any other number a read. Arrivals never decrease; the device
//! column is not used and may hold anything. Lines are separated by LF or CR LF; empty lines
//! are skipped. Memory use does not depend on the length of the file or of its lines.
//!
//! Nothing is skipped or mended silently: a line that does not fit this is an error that
//! shows the file, the line and what is valid.

use crate::workload::{Planned, TraceSource};
use mynah_model::io::Operation;
use mynah_stamp::Time;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The longest line that is read, in bytes.
pub const MAX_LINE: usize = 4096;

/// A trace file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TraceFormat {
    /// MQSim's five columns.
    #[default]
    Mqsim,
}

/// What happens to a request outside the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Remap {
    /// It is an error.
    #[default]
    Refuse,
    /// Its first sector is taken modulo the namespace's last sector, as MQSim does; if its
    /// end still lies outside it moves back until it fits. Counted.
    Modulo,
}

/// A line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Arrival, in the trace's ticks.
    pub arrival: u64,
    /// First sector.
    pub sector: u64,
    /// Sectors; at least 1.
    pub sectors: u32,
    /// Whether it is a write.
    pub write: bool,
}

/// A column of a trace line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The first.
    Arrival,
    /// The third.
    Sector,
    /// The fourth.
    Sectors,
    /// The fifth.
    Type,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Column::Arrival => "column 1 (arrival)",
            Column::Sector => "column 3 (first sector)",
            Column::Sectors => "column 4 (sectors)",
            Column::Type => "column 5 (type)",
        })
    }
}

/// What is wrong with a line by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// It has more or fewer than five columns.
    #[error("columns: {0} instead of 5")]
    Columns(usize),
    /// A column is not a decimal number.
    #[error("{0} is not a number")]
    NotANumber(Column),
    /// A number does not fit.
    #[error("{0} is too large")]
    TooLarge(Column),
    /// The request has no length.
    #[error("a request of 0 sectors")]
    ZeroSectors,
}

/// Reads one line, without its line end. `None` for an empty one.
pub fn parse_line(line: &[u8]) -> Result<Option<TraceRecord>, LineFault> {
    let mut columns: [&[u8]; 5] = [&[]; 5];
    let mut count = 0;
    let separator = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    for column in line.split(separator).filter(|column| !column.is_empty()) {
        if let Some(slot) = columns.get_mut(count) {
            *slot = column;
        }
        count += 1;
    }
    match count {
        0 => return Ok(None),
        5 => {}
        count => return Err(LineFault::Columns(count)),
    }
    let arrival = number(columns[0], Column::Arrival)?;
    let sector = number(columns[2], Column::Sector)?;
    let sectors = number(columns[3], Column::Sectors)?;
    let kind = number(columns[4], Column::Type)?;
    let sectors = u32::try_from(sectors).map_err(|_| LineFault::TooLarge(Column::Sectors))?;
    if sectors == 0 {
        return Err(LineFault::ZeroSectors);
    }
    Ok(Some(TraceRecord { arrival, sector, sectors, write: kind == 0 }))
}

fn number(digits: &[u8], column: Column) -> Result<u64, LineFault> {
    let mut value: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return Err(LineFault::NotANumber(column));
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .ok_or(LineFault::TooLarge(column))?;
    }
    Ok(value)
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{file}: {error}")]
    Io {
        /// The file.
        file: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A line is not valid.
    #[error("{file}:{line}: {problem}\n  {text}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
        /// The line's text, shortened and with unprintable bytes replaced.
        text: String,
        /// What is valid.
        #[help]
        help: String,
    },
    /// The file as a whole cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
}

const FORMAT_HELP: &str = "a line is `arrival_ns device first_sector sectors type`, five \
     numbers separated by spaces; arrivals never decrease, type 0 is a write, any other a read";

/// The records of a trace, one after the other.
#[derive(Debug)]
pub struct TraceReader<R> {
    file: String,
    input: BufReader<R>,
    /// A line that does not lie in the buffer in one piece.
    pieces: Vec<u8>,
    line: u64,
    last_arrival: u64,
}

impl<R: Read> TraceReader<R> {
    /// Reads from `input`, which messages call `file`.
    pub fn new(file: impl Into<String>, input: R) -> TraceReader<R> {
        TraceReader {
            file: file.into(),
            input: BufReader::with_capacity(64 << 10, input),
            pieces: Vec::new(),
            line: 0,
            last_arrival: 0,
        }
    }

    /// The number of the last line read, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next record.
    #[allow(clippy::should_implement_trait, reason = "reads like the streams it feeds")]
    pub fn next(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        let TraceReader { file, input, pieces, line, last_arrival } = self;
        loop {
            let read = with_line(input, pieces, |text| {
                *line += 1;
                match parse_line(text) {
                    Ok(Some(record)) if record.arrival < *last_arrival => Err(line_error(
                        file,
                        *line,
                        format!("arrival {} is before {}", record.arrival, *last_arrival),
                        text,
                        FORMAT_HELP,
                    )),
                    Ok(record) => Ok(record),
                    Err(fault) => {
                        Err(line_error(file, *line, fault.to_string(), text, FORMAT_HELP))
                    }
                }
            });
            match read {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(None))) => {}
                Ok(Some(Ok(Some(record)))) => {
                    *last_arrival = record.arrival;
                    return Ok(Some(record));
                }
                Ok(Some(Err(error))) => return Err(error),
                Err(error) => return Err(read_error(file, *line, error)),
            }
        }
    }

    /// Reads to the end and counts the lines that are not empty, looking no closer at them.
    fn count(&mut self) -> Result<u64, TraceError> {
        let mut count = 0;
        loop {
            let full = with_line(&mut self.input, &mut self.pieces, |text| {
                !text.iter().all(u8::is_ascii_whitespace)
            });
            self.line += 1;
            match full {
                Ok(None) => return Ok(count),
                Ok(Some(full)) => count += u64::from(full),
                Err(error) => return Err(read_error(&self.file, self.line - 1, error)),
            }
        }
    }
}

/// Why no line could be had.
enum ReadFault {
    Io(std::io::Error),
    TooLong,
}

fn read_error(file: &str, line: u64, fault: ReadFault) -> TraceError {
    match fault {
        ReadFault::Io(error) => TraceError::Io { file: file.into(), error },
        ReadFault::TooLong => line_error(
            file,
            line + 1,
            format!("the line is longer than {MAX_LINE} bytes"),
            b"",
            FORMAT_HELP,
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

/// Where trace bytes come from.
#[derive(Debug)]
enum Input {
    File(File),
    Stdin(std::io::Stdin),
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Input::File(file) => file.read(buffer),
            Input::Stdin(stdin) => stdin.read(buffer),
        }
    }
}

/// A trace as a flow replays it: within its namespace, in part or repeatedly, on the drive's
/// clock.
#[derive(Debug)]
pub(crate) struct TraceStream {
    source: TraceSource,
    capacity: u64,
    reader: TraceReader<Input>,
    /// Requests left in this replay.
    left: u64,
    /// Requests of each replay.
    each: u64,
    replays_left: u32,
    seen: u64,
    offset: Time,
    last: Time,
    remapped: u64,
}

fn open(path: &Path) -> Result<TraceReader<Input>, TraceError> {
    if path == Path::new("-") {
        return Ok(TraceReader::new("standard input", Input::Stdin(std::io::stdin())));
    }
    let file = path.display().to_string();
    match File::open(path) {
        Ok(input) => Ok(TraceReader::new(file, Input::File(input))),
        Err(error) => Err(TraceError::Io { file, error }),
    }
}

impl TraceStream {
    pub(crate) fn open(source: &TraceSource, capacity: u64) -> Result<TraceStream, TraceError> {
        let mut reader = open(&source.path)?;
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
        let TraceFormat::Mqsim = source.format;
        let mut each = u64::MAX;
        let once = source.path == Path::new("-");
        if once && (source.share < 1.0 || source.repeat > 1) {
            return fail("standard input is read once, so it is replayed whole and once");
        }
        if source.share < 1.0 {
            each = (reader.count()? as f64 * source.share) as u64;
            reader = open(&source.path)?;
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
            remapped: 0,
        })
    }

    pub(crate) fn remapped(&self) -> u64 {
        self.remapped
    }

    pub(crate) fn next(&mut self) -> Result<Option<Planned>, TraceError> {
        let record = loop {
            let record = if self.left == 0 { None } else { self.reader.next()? };
            match record {
                Some(record) => break record,
                None if self.seen == 0 => {
                    return Err(TraceError::File {
                        file: self.reader.file.clone(),
                        problem: "no requests to replay".into(),
                    });
                }
                None if self.replays_left == 0 => return Ok(None),
                None => {
                    self.reader = open(&self.source.path)?;
                    self.replays_left -= 1;
                    self.left = self.each;
                    self.offset = self.last;
                }
            }
        };
        self.left -= 1;
        self.seen += 1;
        let arrival = record
            .arrival
            .checked_mul(self.source.tick.as_ps())
            .and_then(|ps| ps.checked_add(self.offset.as_ps()));
        let Some(arrival) = arrival else {
            return Err(self.record_error(
                &record,
                format!("arrival {} is after the end of time (213 days)", record.arrival),
                "times count from the run's start: subtract the trace's first arrival",
            ));
        };
        self.last = Time::from_ps(arrival);
        let sector = self.fit(&record)?;
        let operation = if record.write { Operation::Write } else { Operation::Read };
        Ok(Some(Planned { operation, sector, sectors: record.sectors, arrival: Some(self.last) }))
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
                self.remapped += 1;
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
        let text = format!(
            "{} … {} {} {}",
            record.arrival,
            record.sector,
            record.sectors,
            u8::from(!record.write)
        );
        line_error(&self.reader.file, self.reader.line, problem, text.as_bytes(), help)
    }
}
