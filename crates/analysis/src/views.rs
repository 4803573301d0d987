//! What profiles are shown as, beside text and JSON: a page with pictures, and files for other
//! programs.
//!
//! Each view reads records once more, from the oldest to the newest ([`mynah_profile::Follow`]), and
//! takes what sums there are from the [`Analysis`]. Of a ring that is being written meanwhile it
//! shows what is there then.

mod csv;
mod folded;
mod hdr;
mod html;
mod perfetto;
mod pictures;

pub use csv::LeftOut;

use super::analysis::Analysis;
use super::report::ProfileReports;
use mynah_drive_file::units::Bytes;
use mynah_profile::{Follow, Head, Header, Problem, Record};
use mynah_report::html::known_stage;
use mynah_result::output::{self, OutputError};
use mynah_stamp::Stage;
use pictures::Pictures;
use std::io::{self, Write};
use std::path::Path;

/// A view cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// A profile cannot be read.
    #[error(transparent)]
    Profile(#[from] Problem),
    /// The view cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Writes the page of these profiles to `path`, beside a base, with what was made of them in words.
///
/// # Errors
/// If a profile cannot be read, or the page cannot be written.
pub fn write_report(
    path: &Path,
    reports: &ProfileReports,
    (profiles, base): (&[Analysis], Option<&Analysis>),
    verdict: Option<&str>,
) -> Result<(), ViewError> {
    let drawn = profiles.iter().map(Pictures::of).collect::<Result<Vec<_>, _>>()?;
    let base = match base {
        Some(base) => Some((base, Pictures::of(base)?)),
        None => None,
    };
    let base = base.as_ref().map(|(analysis, pictures)| html::Side { analysis, pictures });
    let sides = profiles.iter().zip(&drawn);
    let sides = sides.map(|(analysis, pictures)| html::Side { analysis, pictures });
    let sides: Vec<_> = sides.collect();
    output::write(path, &html::document(reports, &sides, base.as_ref(), verdict))?;
    Ok(())
}

/// Writes a Perfetto trace of these profiles to `path`; how many I/Os are not on it, because more were
/// under way than there are tracks.
///
/// # Errors
/// If a profile cannot be read, or the trace cannot be written.
pub fn write_trace(path: &Path, profiles: &[Analysis]) -> Result<u64, ViewError> {
    perfetto::write(path, profiles)
}

/// The stages of these profiles as folded stacks: a line for each, with its time in nanoseconds.
pub fn folded(profiles: &[Analysis]) -> String {
    folded::text(profiles)
}

/// Writes these profiles to `out` in the columns of fio's latency logs, their offsets by blocks of so
/// many bytes; what is not in them. An error of `out` stands behind that.
///
/// # Errors
/// If a profile cannot be read.
pub fn write_csv(
    out: &mut impl Write,
    profiles: &[Analysis],
    block_bytes: u64,
) -> Result<(LeftOut, io::Result<()>), Problem> {
    csv::write(out, profiles, block_bytes)
}

/// Writes the latencies of these profiles' groups to `path` as a log of HdrHistograms.
///
/// # Errors
/// If a profile cannot be read, or the log cannot be written.
pub fn write_hdr(path: &Path, profiles: &[Analysis]) -> Result<(), ViewError> {
    Ok(output::write(path, &hdr::log(profiles)?)?)
}

/// Gives `take` every record of a profile that was analysed, the oldest first.
fn each_record(analysis: &Analysis, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Problem> {
    let mut follow = Follow::open(&analysis.path)?;
    if follow.header() != &analysis.header {
        let error = mynah_profile::ReadError::Damaged("another run has begun it anew".into());
        return Err(Problem { path: analysis.path.clone(), error });
    }
    let read = follow.poll(&mut |record| {
        if analysis.has(&record.head) {
            take(record);
        }
    });
    read.map(drop).map_err(|error| Problem { path: analysis.path.clone(), error })
}

/// Whose part of an I/O's path a stage is, by its name.
fn part_of_path(stage: &str) -> &'static str {
    if known_stage(stage).is_some_and(|stage| Stage::OF_DRIVE.contains(&stage)) {
        return "drive";
    }
    match stage {
        "data_request" | "r2t_wait" | "r2t_further" | "remote" => "network",
        _ if stage.starts_with("host") => "host",
        _ if stage.starts_with("network") => "network",
        _ => "target",
    }
}

/// What an I/O was: its type, and the size of its data.
fn io_name(header: &Header, head: &Head) -> String {
    let kind = header.kinds.get(usize::from(head.kind)).map_or("?", String::as_str);
    match head.bytes {
        0 => kind.to_owned(),
        bytes => format!("{kind} {}", Bytes(bytes.into())),
    }
}
