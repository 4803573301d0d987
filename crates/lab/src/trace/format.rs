//! The lines of traces: one parser for each format.
//!
//! - `mqsim`: five numbers, `arrival device sector sectors type`, separated by spaces or tabs;
//!   type 0 is a write, any other number a read.
//! - `msr`: the CSV of the MSR Cambridge traces (SNIA IOTTA; Narayanan et al., "Write
//!   off-loading", FAST 2008): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`,
//!   the timestamp in units of 100 ns (Windows' file time), offset and size in bytes. The disk
//!   is not used.
//! - `blkparse`: what blkparse(1) prints by default, `MAJ,MIN CPU SEQUENCE SECONDS.NANOSECONDS
//!   PID ACTION RWBS SECTOR + SECTORS [PROCESS]`. Lines of one action count; what is no event,
//!   such as the summary at the end, is passed over and counted.
//! - `fio`: an iolog of fio(1), version 2 or 3: `[MICROSECONDS] FILE ACTION [OFFSET LENGTH]`.

use mynah_model::io::Operation;
use mynah_stamp::Span;

/// A trace file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TraceFormat {
    /// MQSim's five columns.
    #[default]
    Mqsim,
    /// MSR Cambridge, CSV.
    Msr,
    /// blkparse's text.
    Blkparse,
    /// fio's iolog.
    Fio,
}

impl TraceFormat {
    /// Every format with its name.
    pub const ALL: [(&'static str, TraceFormat); 4] = [
        ("mqsim", TraceFormat::Mqsim),
        ("msr", TraceFormat::Msr),
        ("blkparse", TraceFormat::Blkparse),
        ("fio", TraceFormat::Fio),
    ];

    /// What a tick is if it is not said.
    pub const fn tick(self) -> Span {
        match self {
            TraceFormat::Mqsim | TraceFormat::Blkparse => Span::from_ns(1),
            TraceFormat::Msr => Span::from_ns(100),
            TraceFormat::Fio => Span::from_us(1),
        }
    }

    /// Whether times count from the first request, whatever they are.
    pub(super) const fn is_absolute(self) -> bool {
        matches!(self, TraceFormat::Msr | TraceFormat::Blkparse)
    }

    /// What a line looks like.
    pub(super) const fn help(self) -> &'static str {
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
        }
    }
}

/// Which of an I/O's events in a blkparse trace counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TraceAction {
    /// It was given to the driver.
    #[default]
    Issued,
    /// It was queued.
    Queued,
    /// It completed.
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

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Arrival, in the trace's ticks; `None` where the format has no times.
    pub arrival: Option<u64>,
    /// First sector.
    pub sector: u64,
    /// Sectors; 0 only for a flush.
    pub sectors: u32,
    /// What it does.
    pub operation: Operation,
}

/// What is wrong with a line by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// It has more or fewer columns than it should.
    #[error("columns: {found} instead of {wanted}")]
    Columns {
        /// How many it has.
        found: usize,
        /// How many it should have.
        wanted: usize,
    },
    /// A column is not a decimal number.
    #[error("column {0} ({1}) is not a number")]
    NotANumber(usize, &'static str),
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

/// What a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing, or nothing of interest by design: empty, another action, opening a file.
    Empty,
    /// A request.
    Record(TraceRecord),
    /// Something that is passed over and counted.
    Skipped,
}

/// Reads the lines of one trace, in order.
#[derive(Clone, Debug)]
pub struct LineParser {
    format: TraceFormat,
    action: TraceAction,
    /// The version of an iolog, when its first line was read.
    iolog: Option<u8>,
}

type Columns<'l> = [&'l [u8]; 10];

/// The columns of a line, at most ten, and how many there are.
fn columns(line: &[u8], separator: impl Fn(u8) -> bool, empty: bool) -> (Columns<'_>, usize) {
    let mut columns: Columns<'_> = [&[]; 10];
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
        LineParser { format, action, iolog: None }
    }

    /// Reads the next line, without its end.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn read(&mut self, line: &[u8]) -> Result<Line, LineFault> {
        match self.format {
            TraceFormat::Mqsim => mqsim(line),
            TraceFormat::Msr => msr(line),
            TraceFormat::Blkparse => blkparse(line, self.action),
            TraceFormat::Fio => self.fio(line),
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
    let sector = number(all[2], 3, "first sector")?;
    let sectors = number(all[3], 4, "sectors")?;
    let kind = number(all[4], 5, "type")?;
    let sectors = u32::try_from(sectors).map_err(|_| LineFault::TooLarge(4, "sectors"))?;
    if sectors == 0 {
        return Err(LineFault::ZeroSectors);
    }
    let operation = if kind == 0 { Operation::Write } else { Operation::Read };
    Ok(Line::Record(TraceRecord { arrival: Some(arrival), sector, sectors, operation }))
}

fn msr(line: &[u8]) -> Result<Line, LineFault> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(Line::Empty);
    }
    let (all, count) = columns(line, |byte| byte == b',', true);
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

fn blkparse(line: &[u8], action: TraceAction) -> Result<Line, LineFault> {
    let (all, count) = columns(line, is_space, false);
    if count == 0 {
        return Ok(Line::Empty);
    }
    let is_device = |column: &[u8]| {
        let mut parts = column.split(|&byte| byte == b',');
        let number = |part: Option<&[u8]>| {
            part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
        };
        number(parts.next()) && number(parts.next()) && parts.next().is_none()
    };
    if !is_device(all[0]) {
        return Ok(Line::Skipped);
    }
    if count < 7 {
        return Err(LineFault::Columns { found: count, wanted: 10 });
    }
    if all[5] != action.letter() {
        return Ok(Line::Empty);
    }
    let mut time = all[3].split(|&byte| byte == b'.');
    let seconds = number(time.next().unwrap_or_default(), 4, "seconds")?;
    let nanoseconds = match time.next() {
        Some(digits) if digits.len() == 9 => number(digits, 4, "nanoseconds")?,
        _ => return Err(LineFault::NotANumber(4, "seconds.nanoseconds")),
    };
    let arrival = seconds
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(nanoseconds))
        .ok_or(LineFault::TooLarge(4, "seconds"))?;
    let arrival = Some(arrival);
    // blktrace's flags: F before the direction is a flush, after it FUA; then R, W, D or N,
    // and what kind of request it is.
    let flags = all[6];
    let flags = flags.strip_prefix(b"F").filter(|rest| !rest.is_empty()).unwrap_or(flags);
    let operation = match flags.first() {
        Some(b'R') => Operation::Read,
        Some(b'W') if flags[1..].contains(&b'F') => Operation::WriteThrough,
        Some(b'W') => Operation::Write,
        Some(b'D') => Operation::Trim,
        Some(b'F') => Operation::Flush,
        Some(b'N') => return Ok(Line::Skipped),
        _ => return Err(LineFault::UnknownKind(7, "rwbs")),
    };
    let flush = TraceRecord { arrival, sector: 0, sectors: 0, operation: Operation::Flush };
    if operation == Operation::Flush || count < 10 || all[8] != b"+" {
        // A flush has no addresses; nor has the write that only carries one.
        return match operation {
            Operation::Flush | Operation::Write | Operation::WriteThrough if count < 10 => {
                Ok(Line::Record(flush))
            }
            Operation::Flush => Ok(Line::Record(flush)),
            _ => Err(LineFault::Columns { found: count, wanted: 10 }),
        };
    }
    let sector = number(all[7], 8, "sector")?;
    let sectors = number(all[9], 10, "sectors")?;
    let sectors = u32::try_from(sectors).map_err(|_| LineFault::TooLarge(10, "sectors"))?;
    match sectors {
        0 => Ok(Line::Record(flush)),
        _ => Ok(Line::Record(TraceRecord { arrival, sector, sectors, operation })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: TraceFormat, line: &str) -> Result<Line, LineFault> {
        LineParser::new(format, TraceAction::Issued).read(line.as_bytes())
    }

    fn record(arrival: u64, operation: Operation, sector: u64, sectors: u32) -> Line {
        Line::Record(TraceRecord { arrival: Some(arrival), sector, sectors, operation })
    }

    #[test]
    fn msr_lines() {
        let line = "128166372003061629,hm,0,Read,383496192,32768,413";
        let read_it = record(128_166_372_003_061_629, Operation::Read, 749_016, 64);
        assert_eq!(read(TraceFormat::Msr, line), Ok(read_it));
        // What does not begin or end on a sector takes all it touches.
        let line = "7,hm,1,write,1000,100,0\r";
        assert_eq!(read(TraceFormat::Msr, line), Ok(record(7, Operation::Write, 1, 2)));
        assert_eq!(read(TraceFormat::Msr, ""), Ok(Line::Empty));
        for (line, fault) in [
            ("7,hm,1,Write,1000,0,0", LineFault::ZeroSectors),
            ("7,hm,1,Erase,1000,512,0", LineFault::UnknownKind(4, "type")),
            ("7,hm,1,Write,1000,512", LineFault::Columns { found: 6, wanted: 7 }),
            (",hm,1,Write,1000,512,0", LineFault::NotANumber(1, "timestamp")),
            ("7,hm,1,Read,18446744073709551615,512,0", LineFault::TooLarge(6, "size")),
        ] {
            assert_eq!(read(TraceFormat::Msr, line), Err(fault), "{line}");
        }
    }

    #[test]
    fn blkparse_lines() {
        let of = |line| read(TraceFormat::Blkparse, line);
        let line = "  8,0    3       11     0.009507758   697  D   W 223490 + 8 [kjournald]";
        assert_eq!(of(line), Ok(record(9_507_758, Operation::Write, 223_490, 8)));
        let line = "259,0 1 2 12.000000001 1 D RA 16 + 256 [fio]";
        assert_eq!(of(line), Ok(record(12_000_000_001, Operation::Read, 16, 256)));
        let line = "259,0 1 2 0.000000000 1 D WFS 16 + 8 [fio]";
        assert_eq!(of(line), Ok(record(0, Operation::WriteThrough, 16, 8)));
        let line = "259,0 1 2 0.000000000 1 D DS 16 + 8 [fstrim]";
        assert_eq!(of(line), Ok(record(0, Operation::Trim, 16, 8)));
        for line in ["259,0 1 2 0.000000005 1 D FN [x]", "259,0 1 2 0.000000005 1 D F 0 + 0 [x]"] {
            let flushed = of(line);
            let wanted = match line.contains("FN") {
                // F and then no direction: a command that carries only a flush.
                true => Ok(Line::Skipped),
                false => Ok(record(5, Operation::Flush, 0, 0)),
            };
            assert_eq!(flushed, wanted, "{line}");
        }
        let other = "8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]";
        assert_eq!(of(other), Ok(Line::Empty));
        for line in ["CPU0 (8,0):", " Reads Queued:      16,      64KiB", "Total (8,0):"] {
            assert_eq!(of(line), Ok(Line::Skipped), "{line}");
        }
        let line = "8,0 3 1 0.1 697 D W 223490 + 8 [x]";
        assert_eq!(of(line), Err(LineFault::NotANumber(4, "seconds.nanoseconds")));
        let mut queued = LineParser::new(TraceFormat::Blkparse, TraceAction::Queued);
        let line = b"8,0 3 1 0.000000004 697 Q W 223490 + 8 [x]";
        assert_eq!(queued.read(line), Ok(record(4, Operation::Write, 223_490, 8)));
    }

    #[test]
    fn iologs() {
        let lines = |text: &str| -> Result<Vec<Line>, LineFault> {
            let mut parser = LineParser::new(TraceFormat::Fio, TraceAction::Issued);
            text.lines().map(|line| parser.read(line.as_bytes())).collect()
        };
        let third = "fio version 3 iolog\n0 /dev/x add\n5 /dev/x open\n7 /dev/x write 4096 512\n\
                     9 /dev/x datasync 0 0\n9 /dev/x trim 0 1048576\n12 /dev/x close\n";
        let read = lines(third).unwrap();
        assert_eq!(read[3], record(7, Operation::Write, 8, 1));
        assert_eq!(read[4], record(9, Operation::Flush, 0, 0));
        assert_eq!(read[5], record(9, Operation::Trim, 0, 2048));
        assert_eq!(read[6], Line::Empty);
        let second = lines("fio version 2 iolog\nx add\nx wait 100 0\nx read 0 4096\n").unwrap();
        let untimed =
            TraceRecord { arrival: None, sector: 0, sectors: 8, operation: Operation::Read };
        assert_eq!(second[2..], [Line::Skipped, Line::Record(untimed)]);
        assert_eq!(lines("0 /dev/x add"), Err(LineFault::NotAnIolog));
        assert_eq!(
            lines("fio version 2 iolog\nx jump 0 0"),
            Err(LineFault::UnknownKind(2, "action"))
        );
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_strange(line: Vec<u8>) {
            for (_, format) in TraceFormat::ALL {
                let mut parser = LineParser::new(format, TraceAction::Issued);
                let _ = parser.read(b"fio version 3 iolog");
                let _ = parser.read(&line);
            }
        }
    }
}
