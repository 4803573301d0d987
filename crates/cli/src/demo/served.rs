//! A drive served, used, recorded, simulated again, and laid beside its simulation.

use super::{Sides, apart, load_on, put, with_host};
use crate::failure::Failure;
use crate::progress::Bar;
use crate::sim;
use mynah_drive_file::DEFAULT_DRIVE;
use mynah_lab::Simulation;
use mynah_lab::emulation::Emulation;
use mynah_lab::replay::replay;
use mynah_result::{Result as RunResult, Run};
use mynah_runtime::host::load::Outcome;
use mynah_runtime::pacing::Poll;
use mynah_runtime::record::Recording;
use mynah_runtime::server::{ServeOptions, Server};
use mynah_study::agreement::Agreement;
use mynah_workload::FlowSpec;
use std::path::Path;

/// What the served drive gets: reads that wait for one another at its one chip, so that their latencies
/// are long beside what sockets and schedulers add, and neither side has time to sleep.
pub(super) const HOST: &str = "rw=randread bs=4k iodepth=64 runtime=2s";
/// So often at most is it served, until real time was kept.
const TRIES: usize = 2;

/// Result of serving a drive and simulating it again.
pub(super) struct Served {
    /// Result at the drive, as served.
    pub(super) served: RunResult,
    /// Result at the host.
    pub(super) host: RunResult,
    /// Comparison of what was served and what was simulated.
    pub(super) agreement: Agreement,
    /// Completions that came at the same picosecond when they were simulated again.
    pub(super) replayed: u64,
    /// How many tries before it were too late to be trusted.
    pub(super) earlier: usize,
}

/// Serves the drive, uses it, simulates it, and compares; nothing if it was interrupted.
pub(super) fn run(sides: &Sides) -> Result<Option<Served>, Failure> {
    let simulation = Simulation::on_changed(DEFAULT_DRIVE, &cut())?.flow("host", HOST)?.seed(1);
    let folder = tempfile::tempdir().map_err(|error| Failure::failed(error.to_string(), None))?;
    let recording = folder.path().join("demo.rec");
    let mut earlier = 0;
    let (served, seen) = loop {
        let (served, seen) = apart(|| serve_and_use(&recording, &simulation.flows[0], sides))?;
        if seen.interrupted {
            return Ok(None);
        }
        if let Some(failure) = seen.failure() {
            return Err(Failure::failed(failure, None));
        }
        match &served.untrusted {
            Some(_) if earlier + 1 < TRIES => earlier += 1,
            _ => break (served, seen),
        }
    };
    let bar = Bar::titled("simulating again what the drive was given");
    let again =
        sim::watched_on(bar, |watch| replay(&recording, None, &[], &[], None, None, watch))?;
    let bar = Bar::titled("simulating the same drive and load");
    let predicted = sim::watched_on(bar, |watch| simulation.run_watched(watch))?;
    if again.interrupted || predicted.interrupted {
        return Ok(None);
    }
    let host = seen.result;
    let agreement = Agreement::new(&predicted.result, &served, &host);
    let replayed = again.result.requests;
    Ok(Some(Served { served, host, agreement, replayed, earlier }))
}

/// What the drive saw, and what the host saw.
fn serve_and_use(
    path: &Path,
    flow: &FlowSpec,
    sides: &Sides,
) -> Result<(RunResult, Outcome), Failure> {
    let bar = Bar::titled("preparing the drive");
    let prepared = Emulation::on(DEFAULT_DRIVE, &cut())?.prepare()?;
    drop(bar);
    let (recording, tap) = Recording::begin(path, &prepared, std::iter::empty())?;
    let mut server = Server::new(prepared, options(sides))?;
    server.subsystem_mut().set_tap(tap);
    let load = load_on(&server, flow, sides);
    let (served, seen) = with_host(server, || put(&load, "using the drive"))?;
    recording.finish(served.end())?;
    Ok((served.result(Run::default()), seen))
}

/// How the drive is served. Where there is a second processor for the host it does not sleep: to be woken
/// takes longer than its commands.
pub(super) fn options(sides: &Sides) -> ServeOptions {
    let poll = if sides.cpus.count() > 1 { Poll::Always } else { Poll::Adaptive };
    ServeOptions { poll, cpus: sides.drive(), ..ServeOptions::default() }
}

/// What the drive is cut down to: one chip on one channel.
pub(super) fn cut() -> [String; 2] {
    ["geometry.channels=1", "geometry.chips_per_channel=1"].map(str::to_owned)
}
