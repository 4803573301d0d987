//! `mynah demo`: a drive served on loopback, used by a host and laid beside its simulation, the
//! verdict first; then a drive explained under a mixed workload; then what I/Os of the served one go
//! through. On a page: at most 60 lines of 80 columns.

mod page;
mod profile;
mod served;

use crate::args::Demo;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::{print, sim, values};
use mynah_drive_file::DEFAULT_DRIVE;
use mynah_lab::Simulation;
use mynah_result::output::PendingFile;
use mynah_runtime::cpus::Cpus;
use mynah_runtime::host::load::{self, Load, LoadError, Outcome, Where};
use mynah_runtime::host::{Options, default_host_nqn};
use mynah_runtime::server::{Served, Server};
use mynah_stamp::Span;
use mynah_wire::tcp::digest::Digests;
use mynah_workload::FlowSpec;
use std::path::Path;
use std::time::Duration;

const READER: &str = "rw=randread bs=4k iodepth=16 runtime=1s";
const WRITER: &str = "rw=randwrite bs=16k rate_iops=15000 runtime=1s";
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the demonstration; whether it was interrupted.
pub(crate) fn run(demo: &Demo) -> Result<bool, Failure> {
    let sides = Sides::new(values::cpus(demo.cpus_allowed.as_deref())?)?;
    let report = PendingFile::create(&demo.report)?;
    let Some(served) = served::run(&sides)? else { return Ok(true) };
    print::out(&page::served(&served, &sides))?;
    if explain(report, &demo.report)? {
        return Ok(true);
    }
    let Some(profiled) = profile::run(&sides)? else { return Ok(true) };
    print::out(&page::profiled(&profiled))?;
    print::out(&page::next())?;
    Ok(false)
}

/// Where the two sides of a served drive run.
struct Sides {
    /// Processors that were given, or those that there are.
    cpus: Cpus,
    is_given: bool,
}

impl Sides {
    fn new(given: Option<Cpus>) -> Result<Sides, Failure> {
        let failed = |error: std::io::Error| Failure::failed(error.to_string(), None);
        let is_given = given.is_some();
        let cpus = given.map_or_else(|| Cpus::usable().map_err(failed), Ok)?;
        Ok(Sides { cpus, is_given })
    }

    fn drive(&self) -> Option<Cpus> {
        self.is_given.then(|| self.cpus.split(0))
    }

    fn host(&self) -> Option<Cpus> {
        self.is_given.then(|| self.cpus.split(1))
    }

    /// What would help where real time was missed.
    fn help(&self) -> String {
        match (self.cpus.count(), self.is_given) {
            (..=1, _) => {
                "Drive and host had one processor for both; one for each would help.".into()
            }
            (_, true) => {
                "What would help: processors of --cpus_allowed that nothing else uses.".into()
            }
            (_, false) => format!(
                "What would help: a processor for each side that nothing else uses, as with \
                 `mynah demo --cpus_allowed {},{}`.",
                self.cpus.split(0),
                self.cpus.split(1)
            ),
        }
    }
}

/// Does `work`, which serves a drive and binds its thread to processors, on a thread of its own.
fn apart<T: Send>(work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.map_err(|_| Failure::failed("the drive failed".into(), None))?
}

/// Serves the drive on this thread while `host` puts a load on it from another.
fn with_host<T: Send>(
    server: Server,
    host: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<(Served, T), Failure> {
    let control = server.control();
    std::thread::scope(|scope| {
        let host = scope.spawn(move || {
            let done = host();
            // However it ended.
            control.stop();
            done
        });
        let served = server.run()?;
        let used = host.join().map_err(|_| Failure::failed("the host failed".into(), None))?;
        Ok((served, used?))
    })
}

/// Puts a load on a drive, and shows how far it is.
fn put(load: &Load, title: &'static str) -> Result<Outcome, Failure> {
    let mut bar = Bar::titled(title);
    let outcome = load::run(load, &mut |progress| bar.load(progress));
    outcome.map_err(|error: LoadError| Failure::failed(error.to_string(), None))
}

/// A load on a drive that is served here.
fn load_on(server: &Server, flow: &FlowSpec, sides: &Sides) -> Load {
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
        wait: Duration::ZERO,
        reconnect: Duration::ZERO,
        cpus: sides.host(),
        profile: None,
    }
}

/// Simulates two flows, and keeps the report; whether it was interrupted.
fn explain(report: PendingFile, path: &Path) -> Result<bool, Failure> {
    let simulation =
        Simulation::on(DEFAULT_DRIVE)?.flow("reader", READER)?.flow("writer", WRITER)?.seed(1);
    let bar = Bar::titled("simulating a reader and a writer");
    let measured = sim::watched_on(bar, |watch| simulation.run_watched(watch))?;
    if measured.interrupted {
        return Ok(true);
    }
    report.finish(&measured.html())?;
    print::out(&page::explained(&measured.result, path))?;
    Ok(false)
}
