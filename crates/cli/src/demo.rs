//! `mynah demo`: a drive explained under a mixed workload; then the same drive served on
//! loopback, used by a host, and laid beside its simulation; then what its I/Os go through.

mod profile;

use crate::args::Demo;
use crate::failure::Failure;
use crate::{print, sim};
use mynah_lab::comparison::Comparison;
use mynah_lab::emulation::Emulation;
use mynah_lab::replay::replay;
use mynah_lab::result::{Result as RunResult, Run};
use mynah_lab::workload::FlowSpec;
use mynah_lab::{Simulation, output};
use mynah_runtime::host::load::{self, Load, LoadError, Outcome, Where};
use mynah_runtime::host::{Options, default_host_nqn};
use mynah_runtime::pacing::Poll;
use mynah_runtime::record::Recording;
use mynah_runtime::server::{ServeOptions, Server};
use mynah_stamp::Span;
use mynah_wire::tcp::digest::Digests;
use std::path::Path;
use std::time::Duration;

const DRIVE: &str = "enterprise-tlc";
const READER: &str = "rw=randread bs=4k iodepth=16 runtime=1s";
const WRITER: &str = "rw=randwrite bs=16k rate_iops=15000 runtime=1s";
/// What the served drive gets. At a given rate, so that host and network do not slow it.
const HOST: &str = "rw=randrw rwmixread=70 bs=4k rate_iops=20000 runtime=4s";
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the demonstration.
pub(crate) fn run(demo: &Demo) -> Result<bool, Failure> {
    Ok(explain(&demo.report)? || serve()? || profile::run()?)
}

/// Simulates two flows; whether it was interrupted.
fn explain(report: &Path) -> Result<bool, Failure> {
    print::out(&format!(
        "1. A drive predicted and explained\n\n\
         Two flows share the drive `{DRIVE}`, which is in steady state, so that every write costs\n\
         garbage collection. For one second of simulated time\n  \
         reader: {READER}\n  writer: {WRITER}\n\n"
    ))?;
    let simulation = Simulation::on(DRIVE)?.flow("reader", READER)?.flow("writer", WRITER)?.seed(1);
    let measured = sim::watched(false, |watch| simulation.run_watched(watch))?;
    output::write(report, &measured.html())?;
    let run = &measured.result.run;
    print::out(&format!(
        "{}\n{} requests took {:.1} s of one processor, preparing the drive {:.1} s.\n\
         {} has the same with pictures; open it in a browser.\n\n",
        measured.summary(),
        measured.result.requests,
        run.cpu_s,
        run.setup_cpu_s,
        report.display(),
    ))?;
    Ok(measured.interrupted)
}

/// Serves the drive, uses it, simulates it, and compares; whether it was interrupted.
fn serve() -> Result<bool, Failure> {
    print::out(&format!(
        "2. The same drive, served over NVMe/TCP in real time\n\n\
         A host connects on loopback and does this: {HOST}\n\n"
    ))?;
    let simulation = Simulation::on(DRIVE)?.flow("host", HOST)?.seed(1);
    let folder = tempfile::tempdir().map_err(|error| Failure::failed(error.to_string(), None))?;
    let recording = folder.path().join("demo.rec");
    let (mut served, seen) = serve_and_use(&recording, &simulation.flows[0])?;
    // The drive knows its host by a long name.
    if let [flow] = &mut served.flows[..] {
        flow.name = "host".into();
    }
    print_host(&seen)?;

    let again = sim::watched(true, |watch| replay(&recording, None, &[], &[], None, None, watch))?;
    let predicted = sim::watched(false, |watch| simulation.run_watched(watch))?;
    let names = ["as served, at the drive", "as simulated from the same file"];
    let comparison = Comparison::new(names, [&served, &predicted.result]);
    let caution = match served.untrusted {
        Some(_) => {
            "This machine missed real time by more than the bound, as it says above: the medians\n\
             can be compared, the tails are the machine's.\n\n"
        }
        None => "",
    };
    print::out(&format!(
        "{}\n{caution}\
         Everything that went into the served drive was recorded. Simulated again, each of its\n\
         {} completions came at the same picosecond.\n\n",
        comparison.text(),
        again.result.requests,
    ))?;
    Ok(seen.interrupted || predicted.interrupted)
}

/// What the drive saw, and what the host saw.
fn serve_and_use(path: &Path, flow: &FlowSpec) -> Result<(RunResult, Outcome), Failure> {
    let prepared = Emulation::on(DRIVE, &[])?.prepare()?;
    let (recording, tap) = Recording::begin(path, &prepared, std::iter::empty())?;
    let mut server =
        Server::new(prepared, ServeOptions { poll: Poll::Always, ..ServeOptions::default() })?;
    server.subsystem_mut().set_tap(tap);
    let load = load_on(&server, flow);
    let control = server.control();
    let host = std::thread::spawn(move || {
        let outcome = load::run(&load, &mut |_| true);
        control.stop();
        outcome
    });
    let served = server.run()?;
    recording.finish(served.end())?;
    let outcome = host.join().map_err(|_| Failure::failed("the host failed".into(), None))?;
    let outcome = outcome.map_err(|error: LoadError| Failure::failed(error.to_string(), None))?;
    Ok((served.result(Run::default()), outcome))
}

/// A load on a drive that is served here.
fn load_on(server: &Server, flow: &FlowSpec) -> Load {
    Load {
        target: Where::Tcp(Box::new(Options {
            address: server.addresses()[0].to_string(),
            subsystem_nqn: server.nqn().to_owned(),
            host_nqn: default_host_nqn(),
            credentials: None,
            #[cfg(feature = "tls")]
            tls: None,
            digests: Digests::default(),
            keep_alive: TIMEOUT,
            timeout: TIMEOUT,
        })),
        flow: flow.clone(),
        beside: vec![],
        namespace: None,
        loads_keys: false,
        index: 0,
        seed: 1,
        queue_entries: None,
        ramp: Span::ZERO,
        verify: false,
        flush_every: 0,
        wait: Duration::ZERO,
        reconnect: Duration::ZERO,
        cpus: None,
        profile: None,
    }
}

fn print_host(seen: &Outcome) -> Result<(), Failure> {
    use std::fmt::Write;
    let mut text = String::from("At the host, network and its own software included:\n");
    for flow in &seen.result.flows {
        for (kind, side) in flow.sides() {
            let Some(latency) = side.lat_ns else { continue };
            let us = |ns: f64| ns / 1_000.0;
            let _ = writeln!(
                text,
                "  {:<6} {:>7} I/Os, latency mean {:.1} us, p50 {:.1} us, p99 {:.1} us",
                kind.name(),
                side.ios,
                us(latency.mean),
                us(latency.percentiles.p50),
                us(latency.percentiles.p99)
            );
        }
    }
    text.push('\n');
    print::out(&text)
}
