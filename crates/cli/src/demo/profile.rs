//! What I/Os of a served drive go through, and why they take longer under a load.

use super::{Sides, apart, load_on, put, served, with_host};
use crate::bench::profile::Profile;
use crate::failure::Failure;
use crate::progress::Bar;
use mynah_analysis::{GroupBy, ProfileReports, analyse};
use mynah_drive_file::DEFAULT_DRIVE;
use mynah_lab::Simulation;
use mynah_lab::emulation::Emulation;
use mynah_profile::Choice;
use mynah_result::Run;
use mynah_runtime::host::load::Load;
use mynah_runtime::server::Server;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const QUIET: &str = "rw=randread bs=4k iodepth=16 runtime=1s";
pub(super) const BUSY: &str = "rw=randread bs=4k iodepth=128 runtime=1s";

/// Result of profiling a quiet and a busy load.
pub(super) struct Profiled {
    /// The busy load beside the quiet one.
    pub(super) reports: ProfileReports,
    /// Why the times are not to be trusted, if so.
    pub(super) untrusted: Option<String>,
}

/// Profiles both sides of a quiet load and of a busy one, and lays one beside the other; nothing if
/// it was interrupted.
pub(super) fn run(sides: &Sides) -> Result<Option<Profiled>, Failure> {
    let folder = crate::profile::folder()?;
    let [quiet, busy] = ["quiet", "busy"].map(|name| folder.path().join(name));
    let (interrupted, untrusted) = apart(|| serve_and_use(&quiet, &busy, sides))?;
    if interrupted {
        return Ok(None);
    }
    let read = |path: &Path| {
        analyse(path, &GroupBy::default())
            .map_err(|problem| Failure::failed(problem.to_string(), None))
    };
    let (base, now) = (read(&quiet)?, read(&busy)?);
    Ok(Some(Profiled { reports: ProfileReports::new(&[now], Some(&base)), untrusted }))
}

/// Whether it was interrupted, and why its times are not to be trusted, if so.
fn serve_and_use(
    quiet: &Path,
    busy: &Path,
    sides: &Sides,
) -> Result<(bool, Option<String>), Failure> {
    let bar = Bar::titled("preparing the drive");
    let prepared = Emulation::on(DEFAULT_DRIVE, &served::cut())?.prepare()?;
    drop(bar);
    let server = Server::new(prepared, served::options(sides))?;
    let mut loads = vec![];
    for (text, path, title) in
        [(QUIET, quiet, "profiling a quiet load"), (BUSY, busy, "profiling a busy load")]
    {
        let simulation =
            Simulation::on_changed(DEFAULT_DRIVE, &served::cut())?.flow("host", text)?;
        loads.push((load_on(&server, &simulation.flows[0], sides), path, title));
    }
    let (served, interrupted) = with_host(server, || {
        loads.into_iter().try_fold(false, |interrupted, (load, path, title)| {
            Ok(interrupted || profiled(load, path, title)?)
        })
    })?;
    Ok((interrupted, served.result(Run::default()).untrusted))
}

/// Puts a load on the drive, and keeps the profile of every I/O at `path`.
fn profiled(load: Load, path: &Path, title: &'static str) -> Result<bool, Failure> {
    let profile = Profile::of(Choice::default(), Some(path), &load.target.to_string())?;
    let profile = profile.ask(&load.target, Duration::ZERO);
    let load = Load { profile: Some(Arc::clone(&profile.run)), ..load };
    let outcome = put(&load, title)?;
    profile.finish(false)?;
    Ok(outcome.interrupted)
}
