//! `mynah profile TARGET`: what a running target's I/Os go through.

use super::{choice, tell};
use crate::args::Attach;
use crate::failure::{Failure, say};
use crate::progress;
use crate::target::{self, ResolvedTarget};
use crate::{print, values};
use mynah_analysis::{ProfileReports, analyse, choice_text};
use mynah_profile::{HEADER_BYTES, Header};
use mynah_result::figures::duration;
use mynah_runtime::host::load::Where;
use mynah_runtime::host::{Chosen, Interval, TargetRecords, Watch, collect, persist};
use mynah_runtime::profile::Ring;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of records that are kept: the latest.
const KEPT_BYTES: u64 = 64 << 20;

/// Set by Ctrl-C: collecting ends, and what was collected is shown.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Collects records until Ctrl-C, which is the regular end and no interruption.
pub(crate) fn run(args: &Attach) -> Result<bool, Failure> {
    let choice = choice::live(&args.sample, &args.taken)?;
    let span = |option, text: &str| values::interval(option, text);
    let watch = Watch {
        runtime: args.runtime.as_deref().map(|text| span("--runtime", text)).transpose()?,
        interval: span("--interval", &args.interval)?,
    };
    let (found, wait) = options(args)?;
    let connect = || TargetRecords::start(&found, &choice);
    let records = persist(wait, connect).map_err(|error| target::failed(&error, None))?;
    progress::on_interrupt(|| ENDS.store(true, Ordering::Relaxed));
    if let Chosen::ByOthers(why) = records.chosen() {
        let what = records.header().choice.as_ref().map_or("every I/O".to_owned(), choice_text);
        say(format_args!("note: the target records {what}, not what was asked for: {why}"));
    }
    let mut ring = ring(args.taken.output.as_deref(), records.header())?;
    let mut seconds = 0.0;
    let mut say_so = |interval: &Interval, records: &TargetRecords| {
        seconds += watch.interval.as_secs_f64();
        let line = line(seconds, interval, records);
        match args.taken.json.as_deref() == Some(Path::new("-")) {
            _ if args.quiet => {}
            // With the report on standard output, nothing else belongs there.
            true => say(line),
            // Who does not read it does not want it.
            false => drop(print::out(&format!("{line}\n"))),
        }
    };
    let collected =
        collect(records, &mut ring, watch, &|| !ENDS.load(Ordering::Relaxed), &mut say_so);
    report(args, &ring, &found.address)?;
    match collected {
        Ok(()) => Ok(false),
        Err(error) => Err(target::failed(&error, None)),
    }
}

/// How the target is reached, and for how long it is tried.
fn options(args: &Attach) -> Result<(mynah_runtime::host::Options, std::time::Duration), Failure> {
    if args.host.nsid.is_some() {
        let help = "a profile is of all namespaces; --filter namespace=N chooses";
        return Err(Failure::usage("--nsid has no effect here", Some(help)));
    }
    let name = args.target.as_deref().unwrap_or_default();
    let ResolvedTarget { place, wait, .. } = target::find(name, &args.host)?;
    match place {
        Where::Tcp(options) => Ok((*options, wait)),
        Where::VfioUser(_) | Where::Disk(_) | Where::Nbd(_) => {
            let help = "only targets over TCP answer queries: tcp://HOST:PORT";
            Err(Failure::usage("a PCIe function has no profile to ask for", Some(help)))
        }
    }
}

fn ring(output: Option<&Path>, header: &Header) -> Result<Ring, Failure> {
    let bytes = HEADER_BYTES as u64 + KEPT_BYTES;
    match output {
        Some(path) => Ring::create(path, header, bytes)
            .map_err(|error| Failure::usage(format!("--output: {error}"), None)),
        None => Ring::in_memory(header, bytes)
            .map_err(|error| Failure::failed(format!("no memory for records: {error}"), None)),
    }
}

fn line(seconds: f64, interval: &Interval, records: &TargetRecords) -> String {
    let mut line = format!("{seconds:>6.1}s  {}", interval.line());
    let lost = records.counts().lost;
    if lost > 0 {
        line += &format!("; {lost} lost");
    }
    if let Some((least, most)) = records.offset_ps() {
        let either_way = most.saturating_sub(least).max(0) as f64 / 2e3;
        line += &format!("; clocks ±{}", duration(either_way));
    }
    line
}

/// Reports what was collected.
fn report(args: &Attach, ring: &Ring, address: &str) -> Result<(), Failure> {
    let path = ring.path();
    let named = |path: &Path| args.taken.output.as_deref().unwrap_or(path).display().to_string();
    let by = args.taken.group_by.clone().unwrap_or_default();
    let analysis = analyse(&path, &by)
        .map_err(|problem| Failure::failed(format!("{}: {}", named(&path), problem.error), None))?;
    let mut reports = ProfileReports::new(&[analysis], None);
    for report in &mut reports.profiles {
        report.file = match &args.taken.output {
            Some(path) => path.display().to_string(),
            None => format!("tcp://{address}"),
        };
    }
    tell(&reports, args.taken.json.as_deref())
}
