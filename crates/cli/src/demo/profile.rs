//! What I/Os of the served drive go through, and why they take longer under a load.

use super::{DRIVE, load_on};
use crate::bench::profile::Profile;
use crate::failure::Failure;
use crate::print;
use mynah_lab::Simulation;
use mynah_lab::emulation::Emulation;
use mynah_lab::profile::{GroupBy, ProfileReports, analyse};
use mynah_profile::Choice;
use mynah_runtime::host::load::{self, LoadError};
use mynah_runtime::pacing::Poll;
use mynah_runtime::server::{ServeOptions, Server};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const QUIET: &str = "rw=randread bs=16k iodepth=1 runtime=2s";
const BUSY: &str = "rw=randrw rwmixread=50 bs=16k iodepth=16 runtime=2s";

/// Profiles both sides of a quiet load and of a busy one, and lays one beside the other; whether it
/// was interrupted.
pub(super) fn run() -> Result<bool, Failure> {
    print::out(&format!(
        "3. Where the time of an I/O goes, on both sides of the network\n\n\
         The drive is served again, and two loads are profiled, host and target together:\n  \
         quiet: {QUIET}\n  busy:  {BUSY}\n\n"
    ))?;
    let folder = crate::profile::folder()?;
    let [quiet, busy] = ["quiet", "busy"].map(|name| folder.path().join(name));
    let prepared = Emulation::on(DRIVE, &[])?.prepare()?;
    let options = ServeOptions { poll: Poll::Always, ..ServeOptions::default() };
    let server = Server::new(prepared, options)?;
    let control = server.control();
    let mut loads = vec![];
    for (text, path) in [(QUIET, &quiet), (BUSY, &busy)] {
        let simulation = Simulation::on(DRIVE)?.flow("host", text)?;
        loads.push((load_on(&server, &simulation.flows[0]), path.clone()));
    }
    let used = std::thread::spawn(move || {
        let used = loads.into_iter().try_fold(false, |interrupted, (load, path)| {
            Ok::<_, Failure>(interrupted || profiled(load, &path)?)
        });
        control.stop();
        used
    });
    server.run()?;
    let used = used.join().map_err(|_| Failure::failed("the host failed".into(), None))?;
    let interrupted = used?;
    if !interrupted {
        show(&quiet, &busy)?;
    }
    print::out(&format!(
        "Try next:\n  \
         mynah serve                                 then, in another terminal:\n  \
         mynah bench tcp://127.0.0.1:4420 --rw randread --bs 4k --iodepth 16 --runtime 5 --profile\n  \
         mynah profile tcp://127.0.0.1:4420\n  \
         mynah drives show {DRIVE}\n  \
         mynah sim --rw randrw --bs 4k --iodepth 32 --set over_provisioning=28%\n  \
         mynah --help\n"
    ))?;
    Ok(interrupted)
}

/// Puts a load on the drive, and keeps the profile of every I/O at `path`.
fn profiled(load: load::Load, path: &Path) -> Result<bool, Failure> {
    let profile = Profile::of(Choice::default(), Some(path), &load.target.to_string())?;
    let profile = profile.ask(&load.target, Duration::ZERO);
    let load = load::Load { profile: Some(Arc::clone(&profile.run)), ..load };
    let outcome = load::run(&load, &mut |_| true);
    let outcome = outcome.map_err(|error: LoadError| Failure::failed(error.to_string(), None))?;
    profile.finish(false)?;
    Ok(outcome.interrupted)
}

fn show(quiet: &Path, busy: &Path) -> Result<(), Failure> {
    let read = |path: &Path| {
        analyse(path, &GroupBy::default())
            .map_err(|problem| Failure::failed(problem.to_string(), None))
    };
    let (base, now) = (read(quiet)?, read(busy)?);
    let mut reports = ProfileReports::new(&[now], Some(&base));
    reports.base = Some("quiet".into());
    for report in &mut reports.profiles {
        report.file = "busy".into();
    }
    print::out(&reports.text())?;
    print::out("\n")
}
