//! Profiles in the columns of fio's latency logs (fio's documentation, "Log File Formats"): time in
//! milliseconds, latency in nanoseconds, direction (0 read, 1 write, 2 trim), bytes, offset in bytes,
//! priority, and when the I/O was issued, in nanoseconds. Times count from the beginning of the first
//! I/O. fio's tools, fiologparser.py, fio2gnuplot and fio_generate_plots, read them.
//!
//! As fio does, it leaves out I/Os that failed. Those that have no direction, flushes for example, are
//! left out as well, and counted.

use super::super::analysis::Analysis;
use super::each_record;
use mynah_profile::{Header, Problem, Record, Side};
use mynah_result::kind::Kind;
use mynah_stamp::Time;
use std::io::{self, Write};

/// Simulations count blocks of so many bytes.
const SECTOR: u64 = 512;

/// I/Os of a profile that a log has no rows for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub failed: u64,
    /// I/Os that neither read, nor write, nor trim.
    pub undirected: u64,
}

/// Writes the lines of these profiles to `out`. The first error of `out` ends that, and is returned
/// behind what was left out.
pub(super) fn write(
    out: &mut impl Write,
    profiles: &[Analysis],
    block_bytes: u64,
) -> Result<(LeftOut, io::Result<()>), Problem> {
    let mut left_out = LeftOut::default();
    let mut written = Ok(());
    for analysis in profiles {
        let first = analysis.first;
        let block_bytes = match analysis.header.side {
            Side::Simulation => SECTOR,
            _ => block_bytes,
        };
        each_record(analysis, &mut |record| {
            if written.is_ok() {
                written = line(out, &analysis.header, record, first, block_bytes, &mut left_out);
            }
        })?;
    }
    let written = written.and_then(|()| out.flush());
    Ok((left_out, written))
}

fn line(
    out: &mut impl Write,
    header: &Header,
    record: &Record<'_>,
    first: Time,
    block_bytes: u64,
    left_out: &mut LeftOut,
) -> io::Result<()> {
    let head = &record.head;
    if head.status != 0 {
        left_out.failed += 1;
        return Ok(());
    }
    let name = header.kinds.get(usize::from(head.kind));
    let kind = Kind::ALL.into_iter().find(|kind| name.is_some_and(|name| name == kind.name()));
    // What pairs are stored under is no place on a drive.
    let (direction, has_place) = match kind {
        Some(Kind::Read) => (0, true),
        Some(Kind::Write) => (1, true),
        Some(Kind::Trim) => (2, true),
        Some(Kind::Retrieve | Kind::Exist | Kind::List) => (0, false),
        Some(Kind::Store | Kind::Update) => (1, false),
        Some(Kind::Delete) => (2, false),
        Some(Kind::Flush) | None => {
            left_out.undirected += 1;
            return Ok(());
        }
    };
    let begin = head.begin.saturating_since(first).as_ps();
    let end = begin.saturating_add(head.total.as_ps());
    let offset = if has_place { head.block.saturating_mul(block_bytes) } else { 0 };
    writeln!(
        out,
        "{}, {}, {direction}, {}, {offset}, 0, {}",
        end / 1_000_000_000,
        head.total.as_ps().saturating_add(500) / 1000,
        head.bytes,
        begin / 1000
    )
}
