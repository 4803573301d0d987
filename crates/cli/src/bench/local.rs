//! Targets of `mynah bench` that are no controllers of NVMe: disks of this machine's kernel, and exports of
//! NBD servers. Which options mean nothing there, and whether what is there may be written over.

use crate::args::Bench;
use crate::failure::Failure;
use crate::key;
use crate::target::{self, DEFAULT_TIMEOUT, DEFAULT_WAIT, ResolvedTarget};
use mynah_result::figures;
use mynah_runtime::host::load::Where;
use mynah_runtime::host::{Disk, DiskError, DiskOptions, NbdOptions, NbdPlace, NbdPlaceError};
use mynah_workload::FlowSpec;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

/// What TARGET names, if it is no controller.
enum Kind<'a> {
    Disk(&'a Path),
    Nbd,
}

/// Which kind a target is, if it is no controller: a path is a disk's, unless a drive is served there.
fn kind(target: &str) -> Option<Kind<'_>> {
    if NbdPlace::is_meant(target) {
        return Some(Kind::Nbd);
    }
    let path = Path::new(target);
    let is_path = ["/", "./", "../"].iter().any(|start| target.starts_with(start));
    let is_found = || !target.contains("://") && path.is_file();
    if !is_path && !is_found() || path.join("cntrl").exists() {
        return None;
    }
    Some(Kind::Disk(path))
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.file_type().is_socket())
}

/// The target, if it is no controller, for these flows.
///
/// # Errors
/// If an option has no effect there, or the target is not such as is to be loaded.
pub(super) fn find(args: &Bench, flows: &[FlowSpec]) -> Result<Option<ResolvedTarget>, Failure> {
    if is_socket(Path::new(&args.target)) {
        let help = format!("an NBD server at it is nbd:unix:{}", args.target);
        let message = format!("{} is a socket, which alone is no target", args.target);
        return Err(Failure::usage(message, Some(&help)));
    }
    let kind = kind(&args.target);
    if let (Some(_), None | Some(Kind::Nbd)) = (&args.run.destroy, &kind) {
        let message = "--destroy has no effect here: it is for devices and files of this machine";
        return Err(Failure::usage(message, None));
    }
    let path = match kind {
        Some(Kind::Disk(path)) => path,
        Some(Kind::Nbd) => return export(args).map(Some),
        None => return Ok(None),
    };
    refuse(args, "a disk of this machine's kernel", &[])?;
    let disk = open(args, path, flows.iter().any(FlowSpec::modifies))?;
    let timeout = target::time("--timeout", &args.host.connect.timeout, DEFAULT_TIMEOUT)?;
    let place = Where::Disk(DiskOptions { disk, timeout });
    Ok(Some(ResolvedTarget { place, listed: None, wait: Duration::ZERO }))
}

/// An export of an NBD server.
fn export(args: &Bench) -> Result<ResolvedTarget, Failure> {
    refuse(args, "an NBD export", &["--wait", "--reconnect"])?;
    let place: Result<NbdPlace, NbdPlaceError> = args.target.parse();
    let place =
        place.map_err(|error| Failure::usage(error.to_string(), Some(NbdPlaceError::HELP)))?;
    let host = &args.host.connect;
    let wait = target::time("--wait", &host.wait, DEFAULT_WAIT)?;
    let timeout = target::time("--timeout", &host.timeout, DEFAULT_TIMEOUT)?;
    let options = NbdOptions { place, structured: false, several: false, timeout };
    Ok(ResolvedTarget { place: Where::Nbd(options), listed: None, wait })
}

/// Refuses options that only a controller of NVMe, or a connection to one, gives a meaning.
fn refuse(args: &Bench, what: &str, means: &[&str]) -> Result<(), Failure> {
    let (host, run) = (&args.host.connect, &args.run);
    let secret = Some(key::FROM_ENVIRONMENT);
    let is_kv = args.flow.options().kv.is_some();
    for (option, given, help) in [
        ("--kv", is_kv, Some("`mynah serve --namespace SIZE,kv` serves a key-value namespace")),
        ("--load", run.load.is_some(), None),
        ("--nsid", host.nsid.is_some(), None),
        ("--host-nqn", host.host_nqn.is_some(), None),
        ("--host-key", host.host_key.is_some(), secret),
        ("--tls-psk", host.tls_psk.is_some(), secret),
        ("--header-digest", host.header_digest, None),
        ("--data-digest", host.data_digest, None),
        ("--interrupts", host.interrupts, None),
        ("--keep-alive", host.keep_alive.is_some(), None),
        (
            "--queue-size",
            args.host.queue_size.is_some(),
            Some("--iodepth says how much is asked at once"),
        ),
        ("--reconnect", args.host.reconnect.is_some(), None),
        ("--wait", host.wait.is_some(), None),
        ("--profile", args.profile.is_some(), Some("--hgrm and --verbose show latencies there")),
    ] {
        if given && !means.contains(&option) {
            return Err(Failure::usage(format!("{option} has no effect on {what}"), help));
        }
    }
    Ok(())
}

/// Opens a disk; to be written only if that was said twice.
fn open(args: &Bench, path: &Path, writes: bool) -> Result<Disk, Failure> {
    let failed = |error: DiskError| Failure::usage(error.to_string(), error.help());
    match (&args.run.destroy, writes) {
        (Some(_), false) => {
            let message = "--destroy has no effect here: nothing is written";
            Err(Failure::usage(message, None))
        }
        (None, false) => Disk::open(path, false).map_err(failed),
        (Some(name), true) if *name == args.target => Disk::open(path, true).map_err(failed),
        (Some(name), true) => {
            let message = format!("--destroy {name} is not what is to be written: {}", args.target);
            Err(Failure::usage(
                message,
                Some("nothing was written; name TARGET as it stands there"),
            ))
        }
        (None, true) => {
            let disk = Disk::open(path, false).map_err(failed)?;
            let what = if disk.is_device() { "on the device" } else { "in the file" };
            let message = format!(
                "this workload writes to {}: what is {what} ({}, {}) would be lost",
                args.target,
                disk.model(),
                figures::bytes(disk.bytes() as f64)
            );
            let help =
                format!("to have that written over, name it again: --destroy {}", args.target);
            Err(Failure::usage(message, Some(&help)))
        }
    }
}
