//! `mynah profile kernel`: what this machine's own initiator does with each I/O.

use super::{choice, tell};
use crate::args::ProfileKernel;
use crate::failure::{Failure, say};
use crate::{print, progress, values};
use mynah_analysis::{ProfileReports, analyse};
use mynah_drive_file::units::Bytes;
use mynah_profile::kernel::LeftOut;
use mynah_profile::{Chooser, HEADER_BYTES};
use mynah_runtime::profile::Ring;
use mynah_runtime::profile::kernel::{KernelCounts, KernelTrace, TraceError};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of records that are kept: the latest.
const KEPT_BYTES: u64 = 64 << 20;

/// Allowed sizes of a processor's ring.
const BUFFER_BYTES: RangeInclusive<u64> = 16 << 10..=256 << 20;

/// Set by Ctrl-C: collecting ends, and what was collected is shown.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Collects, and says what was found. Ctrl-C is how it ends, not an interruption.
pub(super) fn run(args: &ProfileKernel) -> Result<(), Failure> {
    let choice = choice::live(&args.sample, &args.taken)?;
    let duration = args.duration.as_deref();
    let duration = duration.map(|text| values::interval("--duration", text)).transpose()?;
    let buffer = buffer(&args.buffer)?;
    let mut left_out = LeftOut::default();
    for name in &args.without {
        let added = left_out.add(name.trim());
        added.map_err(|error| Failure::usage(format!("--without: {error}"), None))?;
    }
    // From here on Ctrl-C must not leave anything in the kernel.
    progress::on_interrupt(|| ENDS.store(true, Ordering::Relaxed));
    let trace = KernelTrace::start(buffer, &left_out).map_err(refused)?;
    if !args.quiet {
        said(args, &format!("{}:\n{}", trace.header().name, trace.coverage()));
    }
    let mut header = trace.header().clone();
    let mut chooser = Chooser::new(choice.clone(), &header.kinds)
        .map_err(|error| Failure::usage(error.to_string(), None))?;
    header.choice = (!choice.is_all()).then_some(choice);
    let bytes = HEADER_BYTES as u64 + KEPT_BYTES;
    let mut ring = match &args.taken.output {
        Some(path) => Ring::create(path, &header, bytes)
            .map_err(|error| Failure::usage(format!("--output: {error}"), None))?,
        None => Ring::in_memory(&header, bytes)
            .map_err(|error| Failure::failed(format!("no memory for records: {error}"), None))?,
    };
    let goes_on = || !ENDS.load(Ordering::Relaxed);
    let counts = trace.collect(&mut ring, &mut chooser, duration, &goes_on).map_err(refused)?;
    report(args, &ring, &header.name)?;
    remarks(&counts, ring.counts().lost);
    Ok(())
}

/// With the report on standard output, nothing else belongs there.
fn said(args: &ProfileKernel, text: &str) {
    match args.taken.json.as_deref() == Some(Path::new("-")) {
        true => say(text.trim_end()),
        // Who does not read it does not want it.
        false => drop(print::out(text)),
    }
}

/// Bytes of a processor's ring.
fn buffer(text: &str) -> Result<u64, Failure> {
    let bytes = text.parse::<Bytes>().map(|it| it.0).ok();
    bytes.filter(|bytes| BUFFER_BYTES.contains(bytes)).ok_or_else(|| {
        let message = format!("--buffer: `{text}` is no size from 16KiB to 256MiB");
        Failure::usage(message, Some("write it as in 4MiB"))
    })
}

fn report(args: &ProfileKernel, ring: &Ring, name: &str) -> Result<(), Failure> {
    let by = args.taken.group_by.clone().unwrap_or_default();
    let analysis = analyse(&ring.path(), &by)
        .map_err(|problem| Failure::failed(format!("{name}: {}", problem.error), None))?;
    let mut reports = ProfileReports::new(&[analysis], None);
    for report in &mut reports.profiles {
        report.file =
            args.taken.output.as_ref().map_or(name.to_owned(), |it| it.display().to_string());
    }
    tell(&reports, args.taken.json.as_deref())
}

/// What is not in the counts of the report.
fn remarks(counts: &KernelCounts, lost: u64) {
    if counts.before > 0 {
        say(format_args!("note: {} I/Os had begun before, and are not counted", counts.before));
    }
    if counts.events_lost > 0 {
        let exactly = if counts.is_counted { "" } else { " at least" };
        say(format_args!(
            "note: the kernel had no room for {} events; {lost} I/Os{exactly} are lost with them",
            counts.events_lost
        ));
    }
    if counts.clamped > 0 {
        let clamped = counts.clamped;
        say(format_args!("note: {clamped} I/Os have a stage that would have been negative: 0"));
    }
    if counts.torn > 0 {
        say(format_args!("note: {} pages of the trace could not be read", counts.torn));
    }
}

/// The kernel cannot be traced.
fn refused(error: TraceError) -> Failure {
    let help = match &error {
        TraceError::Absent => "mount -t tracefs tracefs /sys/kernel/tracing",
        TraceError::Denied { .. } => {
            "run it as root; a kernel that is locked down (lockdown=confidentiality) cannot be traced"
        }
        TraceError::NoInitiator => "modprobe nvme-tcp, and connect: nvme connect -t tcp …",
        TraceError::NoHook { .. } => "it takes CONFIG_TRACING and the tracepoints of nvme-core",
        TraceError::Io { .. } => return Failure::failed(error.to_string(), None),
    };
    Failure::usage(error.to_string(), Some(help))
}
