//! Traces of any columns: where in a line the time, the operation, the offset and the size stand, and in
//! which units. What such lines look like is said in words ([`Columns::parse`]); some that are known by
//! name are written out here.

use super::{Line, LineFault, TraceRecord, sectors};
use mynah_model::io::Operation;
use std::fmt;

/// Most columns that a description may name.
const MOST: usize = 32;

/// What the columns of a trace are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    separator: Separator,
    /// Number of columns in a line, or the least number if `more` is set.
    count: u8,
    /// Whether a line may have more.
    more: bool,
    /// Column of the time, from 0, and its unit in nanoseconds; `None` if there is none.
    time: Option<(u8, u32)>,
    operation: (u8, Numbered),
    /// Column, from 0, and its unit in bytes.
    offset: (u8, u32),
    size: (u8, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Comma,
    /// Any number of spaces and tabs.
    Space,
}

/// How the operation column is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbered {
    /// Operations are words.
    No,
    /// 0 is a read, 1 a write.
    ReadIsZero,
    /// 0 is a write, 1 a read.
    WriteIsZero,
}

const S: u32 = 1_000_000_000;
const US: u32 = 1_000;
/// Names of time units, and their nanoseconds.
const UNITS: [(&str, u32); 5] =
    [("s", S), ("ms", 1_000_000), ("us", US), ("100ns", 100), ("ns", 1)];

impl Columns {
    /// Alibaba's block traces (Li et al., IISWC 2020; its README): `device,R|W,offset,length,us`.
    pub const ALIBABA: Columns = Columns {
        separator: Separator::Comma,
        count: 5,
        more: false,
        time: Some((4, US)),
        operation: (1, Numbered::No),
        offset: (2, 1),
        size: (3, 1),
    };
    /// Tencent's cloud block storage (Zhang et al., ATC 2020; SNIA IOTTA 27917):
    /// `seconds,offset,size,0|1,volume`, in sectors, 0 a read.
    pub const TENCENT: Columns = Columns {
        separator: Separator::Comma,
        count: 5,
        more: false,
        time: Some((0, S)),
        operation: (3, Numbered::ReadIsZero),
        offset: (1, 512),
        size: (2, 512),
    };
    /// SYSTOR '17's virtual desktops (Lee et al.; SNIA IOTTA 4964):
    /// `seconds,response,R|W,LUN,offset,size`, in bytes.
    pub const SYSTOR: Columns = Columns {
        separator: Separator::Comma,
        count: 6,
        more: false,
        time: Some((0, S)),
        operation: (2, Numbered::No),
        offset: (4, 1),
        size: (5, 1),
    };
    /// FIU's I/O deduplication traces (Koller and Rangaswami, FAST 2010; SNIA IOTTA 390):
    /// `ns pid process lba size R|W major minor MD5`, in sectors.
    pub const FIU: Columns = Columns {
        separator: Separator::Space,
        count: 8,
        more: true,
        time: Some((0, 1)),
        operation: (5, Numbered::No),
        offset: (3, 512),
        size: (4, 512),
    };
    /// The Storage Performance Council's (SPC Trace File Format Specification 1.0.1):
    /// `ASU,LBA,size,r|w,seconds`, the address in sectors, the size in bytes; more fields may follow.
    pub const SPC: Columns = Columns {
        separator: Separator::Comma,
        count: 5,
        more: true,
        time: Some((4, S)),
        operation: (3, Numbered::No),
        offset: (1, 512),
        size: (2, 1),
    };

    /// Reads `time:us,op,offset,size`: the columns in their order, separated as the trace's are, by
    /// commas or spaces. `-` is a column that says nothing, `*` at the end any number of them.
    ///
    /// # Errors
    /// Says which word is wrong, and what is valid.
    pub fn parse(text: &str) -> Result<Columns, String> {
        let separator = if text.contains(',') { Separator::Comma } else { Separator::Space };
        let words: Vec<&str> = match separator {
            Separator::Comma => text.split(',').map(str::trim).collect(),
            Separator::Space => text.split_whitespace().collect(),
        };
        if words.len() > MOST {
            return Err(format!("{} columns are more than {MOST}", words.len()));
        }
        let more = words.last() == Some(&"*");
        let words = &words[..words.len() - usize::from(more)];
        let (mut time, mut operation, mut offset, mut size) = (None, None, None, None);
        for (at, word) in (0u8..).zip(words) {
            let (name, unit) = match word.split_once(':') {
                Some((name, unit)) => (name, Some(unit)),
                None => (*word, None),
            };
            let again = match (name, unit) {
                ("-", None) => false,
                ("time", unit) => time.replace((at, time_unit(unit.unwrap_or("s"))?)).is_some(),
                ("op", unit) => operation.replace((at, numbered(unit)?)).is_some(),
                ("offset", unit) => offset.replace((at, bytes_unit(unit)?)).is_some(),
                ("size", unit) => size.replace((at, bytes_unit(unit)?)).is_some(),
                _ => {
                    return Err(format!(
                        "`{word}` is no column: valid are time[:s|ms|us|ns|100ns], op[:0=read|:0=write], \
                         offset[:sectors|:BYTES], size[:sectors|:BYTES], - for a column that says \
                         nothing, and * for any more at the end"
                    ));
                }
            };
            if again {
                return Err(format!("`{name}` is named twice"));
            }
        }
        let needed = |name: &str| format!("no column is `{name}`: op, offset and size are needed");
        Ok(Columns {
            separator,
            count: words.len() as u8,
            more,
            time,
            operation: operation.ok_or_else(|| needed("op"))?,
            offset: offset.ok_or_else(|| needed("offset"))?,
            size: size.ok_or_else(|| needed("size"))?,
        })
    }

    /// Reads a line. The first may be the columns' names.
    pub(super) fn read(&self, line: &[u8], is_first: bool) -> Result<Line, LineFault> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(Line::Empty);
        }
        let mut all: [&[u8]; MOST] = [&[]; MOST];
        let mut found = 0;
        let by_commas = self.separator == Separator::Comma;
        let ends = |byte: &u8| if by_commas { *byte == b',' } else { byte.is_ascii_whitespace() };
        for column in line.split(ends).filter(|column| by_commas || !column.is_empty()) {
            if let Some(place) = all.get_mut(found) {
                *place = bare(column);
            }
            found += 1;
        }
        let wanted = usize::from(self.count);
        if found < wanted || found > wanted && !self.more {
            return Err(LineFault::Columns { found, wanted });
        }
        let offset_column = self.offset.0;
        if is_first && !all[usize::from(offset_column)].first().is_some_and(u8::is_ascii_digit) {
            return Ok(Line::Empty);
        }
        let at = usize::from(self.operation.0);
        // Of SYSTOR '17 some have a blank type, which the README says: no request.
        if *self == Columns::SYSTOR && all[at].is_empty() {
            return Ok(Line::Skipped);
        }
        let arrival = match self.time {
            Some((at, unit)) => Some(time(all[usize::from(at)], usize::from(at) + 1, unit)?),
            None => None,
        };
        let fault = LineFault::UnknownKind(at + 1, "op");
        let operation = operation(all[at], self.operation.1).ok_or(fault)?;
        if operation == Operation::Flush {
            return Ok(Line::Record(TraceRecord { arrival, sector: 0, sectors: 0, operation }));
        }
        let bytes = |(at, unit): (u8, u32), name| {
            let column = usize::from(at) + 1;
            let value = super::number(all[usize::from(at)], column, name)?;
            value.checked_mul(unit.into()).ok_or(LineFault::TooLarge(column, name))
        };
        let offset = bytes(self.offset, "offset")?;
        let size = bytes(self.size, "size")?;
        let (sector, sectors) = sectors(offset, size, usize::from(self.size.0) + 1)?;
        Ok(Line::Record(TraceRecord { arrival, sector, sectors, operation }))
    }
}

/// A column without the spaces and quotes around it.
fn bare(column: &[u8]) -> &[u8] {
    let column = column.trim_ascii();
    column.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(column)
}

fn time_unit(name: &str) -> Result<u32, String> {
    let unit = UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, ns)| *ns);
    unit.ok_or_else(|| format!("`time:{name}`: valid are s, ms, us, ns and 100ns"))
}

fn numbered(meaning: Option<&str>) -> Result<Numbered, String> {
    match meaning {
        None => Ok(Numbered::No),
        Some("0=read") => Ok(Numbered::ReadIsZero),
        Some("0=write") => Ok(Numbered::WriteIsZero),
        Some(other) => {
            Err(format!("`op:{other}`: valid are 0=read and 0=write, where 1 is the other"))
        }
    }
}

fn bytes_unit(name: Option<&str>) -> Result<u32, String> {
    match name {
        None => Ok(1),
        Some("sectors") => Ok(512),
        Some(other) => match other.parse() {
            Ok(bytes @ 1..=16_777_216) => Ok(bytes),
            _ => Err(format!(
                "`{other}` is no unit: valid are sectors (512 bytes), or bytes of a unit"
            )),
        },
    }
}

/// A decimal number of units as nanoseconds; what is below one is cut off.
fn time(text: &[u8], column: usize, unit: u32) -> Result<u64, LineFault> {
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    let whole = super::number(whole, column, "time")?;
    let mut ns = whole.checked_mul(unit.into()).ok_or(LineFault::TooLarge(column, "time"))?;
    let mut place = u64::from(unit);
    for digit in fraction {
        if !digit.is_ascii_digit() {
            return Err(LineFault::NotANumber(column, "time"));
        }
        place /= 10;
        ns = ns.saturating_add(place * u64::from(digit - b'0'));
    }
    Ok(ns)
}

fn operation(text: &[u8], numbered: Numbered) -> Option<Operation> {
    match (numbered, text) {
        (Numbered::ReadIsZero, b"0") | (Numbered::WriteIsZero, b"1") => {
            return Some(Operation::Read);
        }
        (Numbered::ReadIsZero, b"1") | (Numbered::WriteIsZero, b"0") => {
            return Some(Operation::Write);
        }
        _ => {}
    }
    const WORDS: [(&str, Operation); 14] = [
        ("r", Operation::Read),
        ("rd", Operation::Read),
        ("read", Operation::Read),
        ("rs", Operation::Read),
        ("w", Operation::Write),
        ("wr", Operation::Write),
        ("write", Operation::Write),
        ("ws", Operation::Write),
        ("d", Operation::Trim),
        ("trim", Operation::Trim),
        ("discard", Operation::Trim),
        ("unmap", Operation::Trim),
        ("f", Operation::Flush),
        ("flush", Operation::Flush),
    ];
    let same = |(word, _): &&(&str, Operation)| text.eq_ignore_ascii_case(word.as_bytes());
    WORDS.iter().find(same).map(|(_, operation)| *operation)
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = match self.separator {
            Separator::Comma => ",",
            Separator::Space => " ",
        };
        let bytes = |name: &str, unit: u32| match unit {
            1 => name.to_owned(),
            512 => format!("{name}:sectors"),
            bytes => format!("{name}:{bytes}"),
        };
        for at in 0..self.count {
            let word = if let Some((_, ns)) = self.time.filter(|(time, _)| *time == at) {
                let unit = UNITS.iter().find(|(_, unit)| *unit == ns).map_or("s", |(name, _)| name);
                format!("time:{unit}")
            } else if self.operation.0 == at {
                match self.operation.1 {
                    Numbered::No => "op".to_owned(),
                    Numbered::ReadIsZero => "op:0=read".to_owned(),
                    Numbered::WriteIsZero => "op:0=write".to_owned(),
                }
            } else if self.offset.0 == at {
                bytes("offset", self.offset.1)
            } else if self.size.0 == at {
                bytes("size", self.size.1)
            } else {
                "-".to_owned()
            };
            write!(f, "{}{word}", if at > 0 { between } else { "" })?;
        }
        if self.more { write!(f, "{between}*") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(columns: Columns, line: &str) -> TraceRecord {
        match columns.read(line.as_bytes(), false) {
            Ok(Line::Record(record)) => record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn formats_that_are_known_by_name() {
        let expect = |arrival, sector, sectors, operation| TraceRecord {
            arrival: Some(arrival),
            sector,
            sectors,
            operation,
        };
        let read = record(Columns::ALIBABA, "419,R,8192,4096,1577808000000051");
        assert_eq!(read, expect(1_577_808_000_000_051_000, 16, 8, Operation::Read));
        let write = record(Columns::TENCENT, "1538323200,12910952,128,1,1063");
        assert_eq!(write, expect(1_538_323_200_000_000_000, 12_910_952, 128, Operation::Write));
        let line = "1455592844.086735,0.000432,W,0,9487056896,4096";
        let write = record(Columns::SYSTOR, line);
        assert_eq!(write, expect(1_455_592_844_086_735_000, 18_529_408, 8, Operation::Write));
        let line = "89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523";
        assert_eq!(
            record(Columns::FIU, line),
            expect(89_968_195_792_462, 283_193_184, 8, Operation::Read)
        );
        let write = record(Columns::SPC, "0,303567,3584,w,0.026214");
        assert_eq!(write, expect(26_214_000, 303_567, 7, Operation::Write));
    }

    /// Its README: the type is R, W or blank.
    #[test]
    fn a_blank_type_of_systor_is_no_request() {
        let line = b"1456095001.100200000,0.000000,,1,0,0";
        assert_eq!(Columns::SYSTOR.read(line, false), Ok(Line::Skipped));
        let columns = Columns::parse("-,op,offset,size,time:us").unwrap();
        let fault = LineFault::UnknownKind(2, "op");
        assert_eq!(columns.read(b"1,,4096,4096,5", false), Err(fault));
    }

    #[test]
    fn words_are_read_as_they_are_printed() {
        for (text, columns) in [
            ("-,op,offset,size,time:us", Columns::ALIBABA),
            ("time,offset:sectors,size:sectors,op:0=read,-", Columns::TENCENT),
            ("time:s,-,op,-,offset,size", Columns::SYSTOR),
            ("time:ns - - offset:sectors size:sectors op - - *", Columns::FIU),
            ("-,offset:sectors,size,op,time,*", Columns::SPC),
        ] {
            assert_eq!(Columns::parse(text), Ok(columns), "{text}");
            assert_eq!(Columns::parse(&columns.to_string()), Ok(columns));
        }
        for (text, part) in [
            ("time,op,offset", "no column is `size`"),
            ("time,op,op,offset,size", "`op` is named twice"),
            ("time:h,op,offset,size", "valid are s, ms, us"),
            ("op:1=read,offset,size", "valid are 0=read"),
            ("op,offset:sector,size", "is no unit"),
            ("op,offset,size,length", "`length` is no column"),
            ("", "no column is"),
        ] {
            let said = Columns::parse(text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn lines_that_do_not_fit_are_refused() {
        let columns = Columns::parse("time:ms,op,offset,size").unwrap();
        assert_eq!(columns.read(b"Time,Op,Offset,Size", true), Ok(Line::Empty));
        for (line, fault) in [
            ("1,r,0", LineFault::Columns { found: 3, wanted: 4 }),
            ("1,r,0,4096,9", LineFault::Columns { found: 5, wanted: 4 }),
            ("x,r,0,4096", LineFault::NotANumber(1, "time")),
            ("1.5x,r,0,4096", LineFault::NotANumber(1, "time")),
            ("1,q,0,4096", LineFault::UnknownKind(2, "op")),
            ("1,r,-1,4096", LineFault::NotANumber(3, "offset")),
            ("1,r,0,0", LineFault::ZeroSectors),
            ("99999999999999999,r,0,4096", LineFault::TooLarge(1, "time")),
        ] {
            assert_eq!(columns.read(line.as_bytes(), false), Err(fault), "{line}");
        }
        let flush = columns.read(b"1,F,,", false);
        assert!(matches!(flush, Ok(Line::Record(TraceRecord { sectors: 0, .. }))), "{flush:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(line in prop::collection::vec(any::<u8>(), 0..80), first: bool) {
            for columns in [Columns::ALIBABA, Columns::FIU, Columns::SPC] {
                let _ = columns.read(&line, first);
            }
        }
    }
}
