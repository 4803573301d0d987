//! Every form of a line, format by format; those of blkparse are in its module.

use super::*;

fn read(format: TraceFormat, line: &str) -> Result<Line, LineFault> {
    LineParser::new(format, TraceAction::Issued).read(line.as_bytes())
}

fn record(arrival: u64, operation: Operation, sector: u64, sectors: u32) -> Line {
    Line::Record(TraceRecord { arrival: Some(arrival), sector, sectors, operation })
}

#[test]
fn mqsim_lines() {
    use Operation::{Read, Write};
    for (line, wanted) in [
        ("1000 0 4096 8 0", Ok(record(1000, Write, 4096, 8))),
        ("1000 0 4096 8 1", Ok(record(1000, Read, 4096, 8))),
        ("1000 0 4096 8 7", Ok(record(1000, Read, 4096, 8))),
        // Only the text `0` is a write.
        ("1000 0 4096 8 00", Ok(record(1000, Read, 4096, 8))),
        ("  1000  3\t4096 8 0\r", Ok(record(1000, Write, 4096, 8))),
        ("1000 hm_0 4096 8 0", Ok(record(1000, Write, 4096, 8))),
        // Numbers as C reads them, but for the time.
        ("010 0 0x1000 010 0", Ok(record(10, Write, 4096, 8))),
        ("10 0 0X1f 8 0", Ok(record(10, Write, 31, 8))),
        ("10 0 0 8 0", Ok(record(10, Write, 0, 8))),
        ("", Ok(Line::Empty)),
        ("1000 0 4096 8", Err(LineFault::Columns { found: 4, wanted: 5 })),
        ("1000 0 4096 8 0 # x", Err(LineFault::Columns { found: 7, wanted: 5 })),
        ("1000 0 4096 8 R", Err(LineFault::NotANumber(5, "type"))),
        ("1000 0 08 8 0", Err(LineFault::NotOctal(3, "first sector"))),
        ("1000 0 0x 8 0", Err(LineFault::NotANumber(3, "first sector"))),
        ("1000 0 0x+1 8 0", Err(LineFault::NotANumber(3, "first sector"))),
        ("1000 0 0x10000000000000000 8 0", Err(LineFault::TooLarge(3, "first sector"))),
        ("-1 0 4096 8 0", Err(LineFault::NotANumber(1, "arrival"))),
        ("1.5 0 4096 8 0", Err(LineFault::NotANumber(1, "arrival"))),
        ("1000 0 4096 0 0", Err(LineFault::ZeroSectors)),
    ] {
        assert_eq!(read(TraceFormat::Mqsim, line), wanted, "{line}");
    }
}

#[test]
fn msr_lines() {
    use Operation::{Read, Write};
    for (line, wanted) in [
        (
            "128166372003061629,hm,0,Read,383496192,32768,413",
            Ok(record(128_166_372_003_061_629, Read, 749_016, 64)),
        ),
        // What does not begin or end on a sector takes all it touches.
        ("7,hm,1,write,1000,100,0\r", Ok(record(7, Write, 1, 2))),
        (" 7, hm ,1, WRITE ,1024 , 512,0", Ok(record(7, Write, 2, 1))),
        ("7,,,Read,0,512,", Ok(record(7, Read, 0, 1))),
        ("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime", Ok(Line::Empty)),
        ("", Ok(Line::Empty)),
        ("7,hm,1,Write,1000,0,0", Err(LineFault::ZeroSectors)),
        ("7,hm,1,Erase,1000,512,0", Err(LineFault::UnknownKind(4, "type"))),
        ("7,hm,1,Write,1000,512", Err(LineFault::Columns { found: 6, wanted: 7 })),
        (",hm,1,Write,1000,512,0", Err(LineFault::NotANumber(1, "timestamp"))),
        ("7,hm,1,Read,18446744073709551615,512,0", Err(LineFault::TooLarge(6, "size"))),
    ] {
        assert_eq!(read(TraceFormat::Msr, line), wanted, "{line}");
    }
}

/// What fio reads (`iolog.c`, `read_iolog`) and writes.
#[test]
fn iologs() {
    let untimed = |operation, sector, sectors| {
        Line::Record(TraceRecord { arrival: None, sector, sectors, operation })
    };
    use Operation::{Flush, Read, Trim, Write};
    for (version, line, wanted) in [
        (3, "0 /dev/x add", Ok(Line::Empty)),
        (3, "5 /dev/x open", Ok(Line::Empty)),
        (3, "5 /dev/x close", Ok(Line::Empty)),
        (3, "7 /dev/x write 4096 512", Ok(record(7, Write, 8, 1))),
        (3, "7\t/dev/x  read 4096 512\r", Ok(record(7, Read, 8, 1))),
        (3, "9 /dev/x trim 0 1048576", Ok(record(9, Trim, 0, 2048))),
        (3, "9 /dev/x sync 0 0", Ok(record(9, Flush, 0, 0))),
        (3, "9 /dev/x datasync 0 0", Ok(record(9, Flush, 0, 0))),
        // fio passes over it, too.
        (3, "9 /dev/x wait 100 0", Ok(Line::Skipped)),
        (2, "x add", Ok(Line::Empty)),
        (2, "x wait 100 0", Ok(Line::Skipped)),
        (2, "x read 0 4096", Ok(untimed(Read, 0, 8))),
        (2, "x sync", Ok(untimed(Flush, 0, 0))),
        (2, "", Ok(Line::Empty)),
        (2, "x jump 0 0", Err(LineFault::UnknownKind(2, "action"))),
        (2, "x READ 0 4096", Err(LineFault::UnknownKind(2, "action"))),
        (2, "x read 0", Err(LineFault::Columns { found: 3, wanted: 4 })),
        (2, "x read 0 0", Err(LineFault::ZeroSectors)),
        (3, "x read 0 4096", Err(LineFault::UnknownKind(3, "action"))),
    ] {
        let mut parser = LineParser::new(TraceFormat::Fio, TraceAction::Issued);
        let first = format!("fio version {version} iolog");
        assert_eq!(parser.read(first.as_bytes()), Ok(Line::Empty));
        assert_eq!(parser.read(line.as_bytes()), wanted, "{version}: {line}");
    }
    assert_eq!(read(TraceFormat::Fio, "0 /dev/x add"), Err(LineFault::NotAnIolog));
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
