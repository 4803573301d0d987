//! The lines of blkparse(1), as it prints them by default (blktrace: `blkparse_fmt.c`,
//! `process_default`): `MAJ,MIN CPU SEQUENCE SECONDS.NANOSECONDS PID ACTION RWBS` and then, of
//! what is replayed, `SECTOR + SECTORS`, `SECTOR` or nothing, with `-t` a time in brackets, and
//! the process or the error.
//!
//! Lines of one action count; what is no event, such as the summary at the end, is passed over
//! and counted. So are commands that hosts pass through, of which only bytes are printed.
//!
//! RWBS (`fill_rwbs` there; `blk_fill_rwbs` in the kernel's `kernel/trace/blktrace.c`) is `F` for
//! a flush before the request; then what it does, `D`iscard, `W`rite, `R`ead or `N`othing; then
//! `F` for FUA, `A`head, `S`ync and `M`eta. A flush on its way to the drive does nothing else
//! (`FN`). The request that asked for it and has no data is printed with `F` where it is queued
//! (`FWS`) and without where it completes (`WS 0`), when the flush itself has been counted.

use super::{Line, LineFault, TraceAction, TraceRecord, columns, is_space, number as whole_number};
use mynah_model::io::Operation;

/// Contents of the RWBS column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flags {
    /// Whether the drive flushes before the operation.
    flush: bool,
    /// The operation after that; `None` if there is none.
    operation: Option<Operation>,
}

impl Flags {
    /// `None` if these are no flags of blkparse's.
    fn read(rwbs: &[u8]) -> Option<Flags> {
        let (flush, rest) = match rwbs.strip_prefix(b"F") {
            Some(rest) => (true, rest),
            None => (false, rwbs),
        };
        let (operation, rest) = match rest.split_first() {
            // The kernel's own text has `F` for a flush where blkparse has `N`.
            None if flush => (None, rest),
            Some((b'F' | b'N', rest)) if flush => (None, rest),
            Some((b'N', rest)) => (None, rest),
            Some((b'R', rest)) => (Some(Operation::Read), rest),
            Some((b'W', rest)) if rest.contains(&b'F') => (Some(Operation::WriteThrough), rest),
            Some((b'W', rest)) => (Some(Operation::Write), rest),
            // `DE` is the kernel's for a discard that erases.
            Some((b'D', rest)) => (Some(Operation::Trim), rest.strip_prefix(b"E").unwrap_or(rest)),
            // `FS`: what follows a lone flush.
            Some((b'A' | b'S' | b'M', _)) if flush => (None, rest),
            _ => return None,
        };
        let known = rest.iter().all(|flag| matches!(flag, b'F' | b'A' | b'S' | b'M'));
        known.then_some(Flags { flush, operation })
    }
}

fn is_device(column: &[u8]) -> bool {
    let mut parts = column.split(|&byte| byte == b',');
    let number = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
    };
    number(parts.next()) && number(parts.next()) && parts.next().is_none()
}

fn arrival(time: &[u8]) -> Result<u64, LineFault> {
    let mut time = time.split(|&byte| byte == b'.');
    let seconds = whole_number(time.next().unwrap_or_default(), 4, "seconds")?;
    let nanoseconds = match time.next() {
        Some(digits) if digits.len() == 9 => whole_number(digits, 4, "nanoseconds")?,
        _ => return Err(LineFault::NotANumber(4, "seconds.nanoseconds")),
    };
    seconds
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(nanoseconds))
        .ok_or(LineFault::TooLarge(4, "seconds"))
}

/// Reads a line; events of other actions than `action` are nothing.
pub(super) fn read(line: &[u8], action: TraceAction) -> Result<Line, LineFault> {
    let (all, count) = columns(line, is_space, false);
    if count == 0 {
        return Ok(Line::Empty);
    }
    if !is_device(all[0]) {
        return Ok(Line::Skipped);
    }
    if count < 7 {
        return Err(LineFault::Columns { found: count, wanted: 10 });
    }
    if all[5] != action.letter() {
        return Ok(Line::Empty);
    }
    let arrival = Some(arrival(all[3])?);
    let Some(Flags { flush, operation }) = Flags::read(all[6]) else {
        return Err(LineFault::UnknownKind(7, "rwbs"));
    };
    let flushes = TraceRecord { arrival, sector: 0, sectors: 0, operation: Operation::Flush };
    let Some(operation) = operation else {
        return Ok(if flush { Line::Record(flushes) } else { Line::Skipped });
    };
    if count < 10 || all[8] != b"+" {
        // A request without data carries its flush, or is the end of one that did: its sector
        // stands here where it completes, and only there. Of a command that is passed through
        // it is the other way round.
        let number = all[7].first().is_some_and(u8::is_ascii_digit);
        let after = all[7 + usize::from(number)];
        let ends = matches!(after.first(), None | Some(b'[' | b'('));
        let passed_through = number != (action == TraceAction::Completed);
        return match operation {
            _ if !ends => Err(LineFault::Columns { found: count, wanted: 10 }),
            _ if passed_through => Ok(Line::Skipped),
            Operation::Write | Operation::WriteThrough if flush => Ok(Line::Record(flushes)),
            Operation::Write | Operation::WriteThrough => Ok(Line::Empty),
            _ => Ok(Line::Skipped),
        };
    }
    let sector = whole_number(all[7], 8, "sector")?;
    let sectors = whole_number(all[9], 10, "sectors")?;
    let sectors = u32::try_from(sectors).map_err(|_| LineFault::TooLarge(10, "sectors"))?;
    let record = TraceRecord { arrival, sector, sectors, operation };
    Ok(match (sectors, flush) {
        (0, true) => Line::Record(flushes),
        (0, false) => Line::Empty,
        (_, true) => Line::AfterFlush(record),
        (_, false) => Line::Record(record),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(operation: Operation, sector: u64, sectors: u32) -> TraceRecord {
        TraceRecord { arrival: Some(1_000_000_005), sector, sectors, operation }
    }

    #[test]
    fn every_form_of_a_request() {
        let is = |operation| Ok(Line::Record(record(operation, 4096, 8)));
        let flush = Ok(Line::Record(record(Operation::Flush, 0, 0)));
        let after_flush = |operation| Ok(Line::AfterFlush(record(operation, 4096, 8)));
        use Operation::{Read, Trim, Write, WriteThrough};
        for (action, text, wanted) in [
            // With data.
            ("D", "  R 4096 + 8 [fio]", is(Read)),
            ("D", " RA 4096 + 8 [fio]", is(Read)),
            ("D", " RS 4096 + 8 [a process]", is(Read)),
            ("D", "RSM 4096 + 8 [ext4]", is(Read)),
            ("D", "  W 4096 + 8 [fio]", is(Write)),
            ("D", " WS 4096 + 8 [fio]", is(Write)),
            ("D", " WM 4096 + 8 [xfs]", is(Write)),
            ("D", "WFS 4096 + 8 [jbd2]", is(WriteThrough)),
            ("D", "WFSM 4096 + 8 [jbd2]", is(WriteThrough)),
            ("D", "  D 4096 + 8 [fstrim]", is(Trim)),
            ("D", " DS 4096 + 8 [blkdiscard]", is(Trim)),
            ("D", " DE 4096 + 8 [blkdiscard]", is(Trim)),
            ("D", " WS 4096 + 8 (    3000) [fio]", is(Write)),
            ("C", " WS 4096 + 8 [0]", is(Write)),
            ("C", " WS 4096 + 8 (   86000) [0]", is(Write)),
            // A flush, and then data.
            ("Q", " FW 4096 + 8 [jbd2]", after_flush(Write)),
            ("Q", "FWS 4096 + 8 [jbd2]", after_flush(Write)),
            ("Q", "FWFS 4096 + 8 [jbd2]", after_flush(WriteThrough)),
            ("Q", "FWFSM 4096 + 8 [jbd2]", after_flush(WriteThrough)),
            // A flush: asked for, on its way to the drive, done.
            ("Q", "FWS [worker]", flush),
            ("Q", "FWS (    3000) [worker]", flush),
            ("D", " FN [kworker/1:1H]", flush),
            ("D", " FN (    3000) [kworker/1:1H]", flush),
            ("D", "FWS [kworker/1:1H]", flush),
            ("C", " FN 0 [0]", flush),
            ("C", " FN 0 (  400000) [0]", flush),
            ("C", "FWS 0 [0]", flush),
            ("D", " FF [kworker/1:1H]", flush),
            ("D", "FFS [kworker/1:1H]", flush),
            ("D", "  F 0 + 0 [x]", flush),
            // The end of the request that asked for it, which has been counted.
            ("C", " WS 0 [0]", Ok(Line::Empty)),
            ("C", " WS 4096 (  400000) [0]", Ok(Line::Empty)),
            ("C", "WFS 0 [0]", Ok(Line::Empty)),
            // Passed through.
            ("D", "  N [fio]", Ok(Line::Skipped)),
            ("D", "  R 36 (12 00 00 00 24 00 ..) [hald]", Ok(Line::Skipped)),
            ("D", "  W 512 (2a 00 ..) [x]", Ok(Line::Skipped)),
            ("D", "  R 36 [x]", Ok(Line::Skipped)),
            ("C", "  R (12 00 00 00 24 00 ..) [0]", Ok(Line::Skipped)),
            // Nothing that blkparse prints.
            ("D", "  X 4096 + 8 [x]", Err(LineFault::UnknownKind(7, "rwbs"))),
            ("D", " WX 4096 + 8 [x]", Err(LineFault::UnknownKind(7, "rwbs"))),
            ("D", "  R 4096 8 [x]", Err(LineFault::Columns { found: 10, wanted: 10 })),
            ("D", "  R 4096 + x [x]", Err(LineFault::NotANumber(10, "sectors"))),
            ("D", "  W 4096 + 4294967296 [x]", Err(LineFault::TooLarge(10, "sectors"))),
        ] {
            let line = format!("259,0    1       11     1.000000005   697  {action} {text}");
            let of = match action {
                "D" => TraceAction::Issued,
                "Q" => TraceAction::Queued,
                _ => TraceAction::Completed,
            };
            assert_eq!(read(line.as_bytes(), of), wanted, "{line}");
        }
    }

    #[test]
    fn what_is_no_event_of_the_action() {
        let of = |line: &str| read(line.as_bytes(), TraceAction::Issued);
        for line in [
            "8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]",
            "8,0    3        1     0.000000000   697  Q  FN [x]",
            "8,0    3        1     0.000000000   697  P   N [kjournald]",
            "8,0    3        1     0.000000000   697 UT   N [swapper] 1",
            "8,0    3        1     0.000000000   697  A   W 223490 + 8 <- (8,1) 223427",
            "8,0    3        1     0.000000000   697  X   W 223490 / 223494 [x]",
            "8,0    3        0     0.000000000     0  m   N cfq697 insert_request",
            "",
        ] {
            assert_eq!(of(line), Ok(Line::Empty), "{line}");
        }
        for line in [
            "CPU0 (8,0):",
            " Reads Queued:      16,      64KiB\t Writes Queued:   9",
            "Total (8,0):",
            "Throughput (R/W): 0KiB/s / 0KiB/s",
            "Events (8,0): 7 entries",
            "Skips: 0 forward (0 -   0.0%)",
        ] {
            assert_eq!(of(line), Ok(Line::Skipped), "{line}");
        }
        let line = "8,0 3 1 0.1 697 D W 223490 + 8 [x]";
        assert_eq!(of(line), Err(LineFault::NotANumber(4, "seconds.nanoseconds")));
        assert_eq!(of("8,0 3 1 0.1 697"), Err(LineFault::Columns { found: 5, wanted: 10 }));
    }
}
