//! The lines of traces: one parser for each format.
//!
//! - `mqsim`: five numbers, `arrival device sector sectors type`, separated by spaces or tabs;
//!   type 0 is a write, any other number a read. As in MQSim (`IO_Flow_Trace_Based.cpp`), sector
//!   and sectors may be hexadecimal (`0x10`) or octal (`010`), and the device says nothing. MQSim
//!   takes a line of other columns for the end of the trace; here it is an error.
//! - `msr`: the CSV of the MSR Cambridge traces (SNIA IOTTA; Narayanan et al., "Write
//!   off-loading", FAST 2008): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`,
//!   the timestamp in units of 100 ns (Windows' file time), offset and size in bytes. The disk
//!   is not used.
//! - `blkparse`: what blkparse(1) prints by default; see its module.
//! - `fio`: an iolog of fio(1), version 2 or 3: `[MICROSECONDS] FILE ACTION [OFFSET LENGTH]`.
//! - any other columns, by `trace_columns`, and some that are known by name; see `columns.rs`.

mod blkparse;
mod columns;

pub use columns::Columns;

use mynah_model::io::Operation;
use mynah_stamp::Span;

/// A trace file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TraceFormat {
    /// MQSim's ASCII traces of five columns.
    #[default]
    Mqsim,
    /// CSV files of the MSR Cambridge traces.
    Msr,
    /// Text output of blkparse(1).
    Blkparse,
    /// fio's iolog, versions 2 and 3.
    Fio,
    /// Columns in any order, as `trace_columns` describes them.
    Columns(Columns),
}

impl TraceFormat {
    /// Every format with its name.
    pub const ALL: [(&'static str, TraceFormat); 9] = [
        ("mqsim", TraceFormat::Mqsim),
        ("msr", TraceFormat::Msr),
        ("blkparse", TraceFormat::Blkparse),
        ("fio", TraceFormat::Fio),
        ("alibaba", TraceFormat::Columns(Columns::ALIBABA)),
        ("tencent", TraceFormat::Columns(Columns::TENCENT)),
        ("systor17", TraceFormat::Columns(Columns::SYSTOR)),
        ("fiu", TraceFormat::Columns(Columns::FIU)),
        ("spc", TraceFormat::Columns(Columns::SPC)),
    ];

    /// Duration of a tick, unless `trace_time_unit` says otherwise.
    pub const fn tick(self) -> Span {
        match self {
            TraceFormat::Mqsim | TraceFormat::Blkparse | TraceFormat::Columns(_) => {
                Span::from_ns(1)
            }
            TraceFormat::Msr => Span::from_ns(100),
            TraceFormat::Fio => Span::from_us(1),
        }
    }

    /// Whether times count from the first request, whatever they are.
    pub(super) const fn is_absolute(self) -> bool {
        matches!(self, TraceFormat::Msr | TraceFormat::Blkparse | TraceFormat::Columns(_))
    }

    /// Describes a valid line, for error messages.
    pub(super) fn help(self) -> &'static str {
        match self {
            TraceFormat::Mqsim => {
                "a line is `arrival_ns device first_sector sectors type`, five numbers separated \
                 by spaces; arrivals never decrease, type 0 is a write, any other a read"
            }
            TraceFormat::Msr => {
                "a line is `timestamp,host,disk,Read|Write,offset,size,response_time`, the \
                 timestamp in units of 100 ns, offset and size in bytes"
            }
            TraceFormat::Blkparse => {
                "a line is `major,minor cpu sequence seconds pid action rwbs sector + sectors \
                 [process]`, as blkparse prints it"
            }
            TraceFormat::Fio => {
                "the first line is `fio version 2 iolog` or `fio version 3 iolog`; the others \
                 are `[microseconds] file action [offset length]`"
            }
            TraceFormat::Columns(Columns::ALIBABA) => {
                "a line is `device,R|W,offset,length,timestamp`, in bytes and microseconds"
            }
            TraceFormat::Columns(Columns::TENCENT) => {
                "a line is `timestamp,offset,size,type,volume`, in seconds and sectors; type 0 is a \
                 read, 1 a write"
            }
            TraceFormat::Columns(Columns::SYSTOR) => {
                "a line is `timestamp,response,R|W,LUN,offset,size`, in seconds and bytes"
            }
            TraceFormat::Columns(Columns::FIU) => {
                "a line is `timestamp pid process lba size R|W major minor MD5`, in nanoseconds and \
                 sectors"
            }
            TraceFormat::Columns(Columns::SPC) => {
                "a line is `ASU,LBA,size,r|w,timestamp`, the address in sectors, the size in bytes, \
                 the time in seconds"
            }
            TraceFormat::Columns(_) => {
                "lines have the columns that --trace-columns (`trace_columns`) says, in their order; \
                 op is read, write, trim or flush, or their first letters"
            }
        }
    }
}

/// Which of an I/O's events in a blkparse trace counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TraceAction {
    /// It was issued to the driver (`D`).
    #[default]
    Issued,
    /// It was inserted into the queue of the block layer (`Q`).
    Queued,
    /// It completed (`C`).
    Completed,
}

impl TraceAction {
    const fn letter(self) -> &'static [u8] {
        match self {
            TraceAction::Issued => b"D",
            TraceAction::Queued => b"Q",
            TraceAction::Completed => b"C",
        }
    }
}

/// A request, as a line of a trace describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Arrival, in the trace's ticks; `None` where the format has no times.
    pub arrival: Option<u64>,
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Sectors; 0 only for a flush.
    pub sectors: u32,
    pub operation: Operation,
}

/// What is wrong with a line by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// It has more or fewer columns than it should.
    #[error("columns: {found} instead of {wanted}")]
    Columns {
        /// Number of columns in the line.
        found: usize,
        /// Number of columns that the format has.
        wanted: usize,
    },
    /// A column is not a decimal number.
    #[error("column {0} ({1}) is not a number")]
    NotANumber(usize, &'static str),
    /// A column that begins with 0 is not an octal number, as C reads it.
    #[error("column {0} ({1}) is not a number: after 0 it is octal, as MQSim reads it")]
    NotOctal(usize, &'static str),
    /// A number does not fit.
    #[error("column {0} ({1}) is too large")]
    TooLarge(usize, &'static str),
    /// The request has no length.
    #[error("a request of 0 sectors")]
    ZeroSectors,
    /// The type of a request is not known.
    #[error("column {0} ({1}) is not a known kind of request")]
    UnknownKind(usize, &'static str),
    /// The first line does not say which iolog it is.
    #[error("the first line is not `fio version 2 iolog` or `fio version 3 iolog`")]
    NotAnIolog,
}

/// What a line of a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing to replay, by design: empty, another action, opening a file.
    Empty,
    /// A request to replay.
    Record(TraceRecord),
    /// A request before which the drive has to have flushed.
    AfterFlush(TraceRecord),
    /// A line that is not understood; it is passed over and counted.
    Skipped,
}

/// Reads the lines of one trace, in order.
#[derive(Clone, Debug)]
pub struct LineParser {
    format: TraceFormat,
    action: TraceAction,
    /// The version of an iolog, when its first line was read.
    iolog: Option<u8>,
    /// Whether no line was read that holds something.
    is_first: bool,
}

type Fields<'l> = [&'l [u8]; 10];

/// The columns of a line, at most ten, and how many there are.
fn columns(line: &[u8], separator: impl Fn(u8) -> bool, empty: bool) -> (Fields<'_>, usize) {
    let mut columns: Fields<'_> = [&[]; 10];
    let mut count = 0;
    let all = line.split(|&byte| separator(byte));
    for column in all.filter(|column| empty || !column.is_empty()) {
        if let Some(place) = columns.get_mut(count) {
            *place = column;
        }
        count += 1;
    }
    (columns, count)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

fn number(digits: &[u8], column: usize, name: &'static str) -> Result<u64, LineFault> {
    if digits.is_empty() {
        return Err(LineFault::NotANumber(column, name));
    }
    let mut value: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return Err(LineFault::NotANumber(column, name));
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .ok_or(LineFault::TooLarge(column, name))?;
    }
    Ok(value)
}

/// A number as C reads it: hexadecimal after `0x`, octal after `0`.
fn c_number(digits: &[u8], column: usize, name: &'static str) -> Result<u64, LineFault> {
    let (radix, digits) = match digits {
        [b'0', b'x' | b'X', hexadecimal @ ..] => (16, hexadecimal),
        [b'0', octal @ ..] if !octal.is_empty() => (8, octal),
        decimal => return number(decimal, column, name),
    };
    let text = std::str::from_utf8(digits).unwrap_or_default();
    if text.is_empty() || !text.bytes().all(|digit| char::from(digit).is_digit(radix)) {
        return Err(match radix {
            8 => LineFault::NotOctal(column, name),
            _ => LineFault::NotANumber(column, name),
        });
    }
    u64::from_str_radix(text, radix).map_err(|_| LineFault::TooLarge(column, name))
}

/// The sectors that hold `bytes` from `offset` on.
fn sectors(offset: u64, bytes: u64, column: usize) -> Result<(u64, u32), LineFault> {
    let too_large = LineFault::TooLarge(column, "size");
    let end = offset.checked_add(bytes).ok_or(too_large)?.div_ceil(512);
    let first = offset / 512;
    let sectors = u32::try_from(end - first).map_err(|_| too_large)?;
    if bytes == 0 { Err(LineFault::ZeroSectors) } else { Ok((first, sectors)) }
}

impl LineParser {
    /// A parser at the start of a trace.
    pub fn new(format: TraceFormat, action: TraceAction) -> LineParser {
        LineParser { format, action, iolog: None, is_first: true }
    }

    /// Reads the next line, without its end.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn read(&mut self, line: &[u8]) -> Result<Line, LineFault> {
        match self.format {
            TraceFormat::Mqsim => mqsim(line),
            TraceFormat::Msr => msr(line),
            TraceFormat::Blkparse => blkparse::read(line, self.action),
            TraceFormat::Fio => self.fio(line),
            TraceFormat::Columns(columns) => {
                let is_first = std::mem::take(&mut self.is_first);
                columns.read(line, is_first)
            }
        }
    }

    fn fio(&mut self, line: &[u8]) -> Result<Line, LineFault> {
        let version = match self.iolog {
            Some(version) => version,
            None => {
                let version = match line.trim_ascii() {
                    b"fio version 2 iolog" => 2,
                    b"fio version 3 iolog" => 3,
                    _ => return Err(LineFault::NotAnIolog),
                };
                self.iolog = Some(version);
                return Ok(Line::Empty);
            }
        };
        let (all, count) = columns(line, is_space, false);
        if count == 0 {
            return Ok(Line::Empty);
        }
        let first = usize::from(version == 3);
        if count < first + 2 {
            return Err(LineFault::Columns { found: count, wanted: first + 4 });
        }
        let operation = match all[first + 1] {
            b"add" | b"open" | b"close" => return Ok(Line::Empty),
            b"wait" => return Ok(Line::Skipped),
            b"sync" | b"datasync" => Operation::Flush,
            b"read" => Operation::Read,
            b"write" => Operation::Write,
            b"trim" => Operation::Trim,
            _ => return Err(LineFault::UnknownKind(first + 2, "action")),
        };
        let arrival = match version {
            3 => Some(number(all[0], 1, "microseconds")?),
            _ => None,
        };
        if operation == Operation::Flush {
            return Ok(Line::Record(TraceRecord { arrival, sector: 0, sectors: 0, operation }));
        }
        if count != first + 4 {
            return Err(LineFault::Columns { found: count, wanted: first + 4 });
        }
        let offset = number(all[first + 2], first + 3, "offset")?;
        let bytes = number(all[first + 3], first + 4, "length")?;
        let (sector, sectors) = sectors(offset, bytes, first + 4)?;
        Ok(Line::Record(TraceRecord { arrival, sector, sectors, operation }))
    }
}

fn mqsim(line: &[u8]) -> Result<Line, LineFault> {
    let (all, count) = columns(line, is_space, false);
    match count {
        0 => return Ok(Line::Empty),
        5 => {}
        found => return Err(LineFault::Columns { found, wanted: 5 }),
    }
    let arrival = number(all[0], 1, "arrival")?;
    let sector = c_number(all[2], 3, "first sector")?;
    let sectors = c_number(all[3], 4, "sectors")?;
    number(all[4], 5, "type")?;
    let sectors = u32::try_from(sectors).map_err(|_| LineFault::TooLarge(4, "sectors"))?;
    if sectors == 0 {
        return Err(LineFault::ZeroSectors);
    }
    let operation = if all[4] == b"0" { Operation::Write } else { Operation::Read };
    Ok(Line::Record(TraceRecord { arrival: Some(arrival), sector, sectors, operation }))
}

fn msr(line: &[u8]) -> Result<Line, LineFault> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(Line::Empty);
    }
    let (all, count) = columns(line, |byte| byte == b',', true);
    // Some copies of the traces begin with their columns' names.
    if all[0].trim_ascii().eq_ignore_ascii_case(b"timestamp") {
        return Ok(Line::Empty);
    }
    if count != 7 {
        return Err(LineFault::Columns { found: count, wanted: 7 });
    }
    let arrival = number(all[0].trim_ascii(), 1, "timestamp")?;
    let operation = match all[3].trim_ascii() {
        kind if kind.eq_ignore_ascii_case(b"read") => Operation::Read,
        kind if kind.eq_ignore_ascii_case(b"write") => Operation::Write,
        _ => return Err(LineFault::UnknownKind(4, "type")),
    };
    let offset = number(all[4].trim_ascii(), 5, "offset")?;
    let bytes = number(all[5].trim_ascii(), 6, "size")?;
    let (sector, sectors) = sectors(offset, bytes, 6)?;
    Ok(Line::Record(TraceRecord { arrival: Some(arrival), sector, sectors, operation }))
}

#[cfg(test)]
mod tests;
