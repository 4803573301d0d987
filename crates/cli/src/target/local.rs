//! Targets that are no controllers of NVMe: disks of this machine's kernel, and exports of NBD servers.
//! Which options of a connection mean nothing there, and whether what is there may be written over.

use super::{DEFAULT_TIMEOUT, DEFAULT_WAIT, ResolvedTarget, time};
use crate::args::ConnectArgs;
use crate::failure::Failure;
use crate::key;
use mynah_result::figures;
use mynah_runtime::host::load::Where;
use mynah_runtime::host::{Disk, DiskError, DiskOptions, NbdOptions, NbdPlace, NbdPlaceError};
use std::path::Path;
use std::time::Duration;

/// What TARGET names, if it is no controller.
pub(crate) enum Kind<'a> {
    Disk(&'a Path),
    Nbd,
}

impl Kind<'_> {
    /// What it is, in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Disk(_) => "a disk of this machine's kernel",
            Kind::Nbd => "an NBD export",
        }
    }
}

/// Which kind a target is, if it is no controller: a path is a disk's, unless a drive is served there.
///
/// # Errors
/// If it is a socket, of which nobody knows what is behind it.
pub(crate) fn kind(target: &str) -> Result<Option<Kind<'_>>, Failure> {
    let path = Path::new(target);
    if super::is_socket(path) {
        let help = format!("an NBD server at it is nbd:unix:{target}");
        let message = format!("{target} is a socket, which alone is no target");
        return Err(Failure::usage(message, Some(&help)));
    }
    if NbdPlace::is_meant(target) {
        return Ok(Some(Kind::Nbd));
    }
    let is_path = ["/", "./", "../"].iter().any(|start| target.starts_with(start));
    let is_found = || !target.contains("://") && path.is_file();
    if !is_path && !is_found() || path.join("cntrl").exists() {
        return Ok(None);
    }
    Ok(Some(Kind::Disk(path)))
}

/// An export of an NBD server.
pub(crate) fn export(target: &str, host: &ConnectArgs) -> Result<ResolvedTarget, Failure> {
    refuse(host, &Kind::Nbd)?;
    let place: Result<NbdPlace, NbdPlaceError> = target.parse();
    let place =
        place.map_err(|error| Failure::usage(error.to_string(), Some(NbdPlaceError::HELP)))?;
    let wait = time("--wait", &host.wait, DEFAULT_WAIT)?;
    let timeout = time("--timeout", &host.timeout, DEFAULT_TIMEOUT)?;
    let options = NbdOptions { place, structured: false, several: false, timeout };
    Ok(ResolvedTarget { place: Where::Nbd(options), listed: None, wait })
}

/// A disk, or a file in the place of one; to be written only if that is said twice: `destroy` is TARGET once
/// more.
pub(crate) fn disk(
    (target, path): (&str, &Path),
    host: &ConnectArgs,
    writes: bool,
    destroy: Option<&str>,
) -> Result<ResolvedTarget, Failure> {
    refuse(host, &Kind::Disk(path))?;
    let disk = open((target, path), writes, destroy)?;
    let timeout = time("--timeout", &host.timeout, DEFAULT_TIMEOUT)?;
    let place = Where::Disk(DiskOptions { disk, timeout });
    Ok(ResolvedTarget { place, listed: None, wait: Duration::ZERO })
}

/// Refuses options that only a connection to a controller of NVMe gives a meaning.
fn refuse(host: &ConnectArgs, kind: &Kind<'_>) -> Result<(), Failure> {
    let waits = matches!(kind, Kind::Nbd);
    refuse_connection(
        host,
        kind.name(),
        if waits { &["--wait", "--timeout"] } else { &["--timeout"] },
    )
}

/// Refuses the options of a connection on what has none, but for some that `means` something there.
pub(crate) fn refuse_connection(
    host: &ConnectArgs,
    what: &str,
    means: &[&str],
) -> Result<(), Failure> {
    let secret = Some(key::FROM_ENVIRONMENT);
    for (option, given, help) in [
        ("--nsid", host.nsid.is_some(), None),
        ("--host-nqn", host.host_nqn.is_some(), None),
        ("--host-key", host.host_key.is_some(), secret),
        ("--tls-psk", host.tls_psk.is_some(), secret),
        ("--header-digest", host.header_digest, None),
        ("--data-digest", host.data_digest, None),
        ("--interrupts", host.interrupts, None),
        ("--keep-alive", host.keep_alive.is_some(), None),
        ("--timeout", host.timeout.is_some(), None),
        ("--wait", host.wait.is_some(), None),
    ] {
        if given && !means.contains(&option) {
            return Err(Failure::usage(format!("{option} has no effect on {what}"), help));
        }
    }
    Ok(())
}

/// Opens a disk; to be written only if that was said twice.
fn open(
    (target, path): (&str, &Path),
    writes: bool,
    destroy: Option<&str>,
) -> Result<Disk, Failure> {
    let failed = |error: DiskError| Failure::usage(error.to_string(), error.help());
    match (destroy, writes) {
        (Some(_), false) => {
            let message = "--destroy has no effect here: nothing is written";
            Err(Failure::usage(message, None))
        }
        (None, false) => Disk::open(path, false).map_err(failed),
        (Some(name), true) if name == target => Disk::open(path, true).map_err(failed),
        (Some(name), true) => {
            let message = format!("--destroy {name} is not what is to be written: {target}");
            Err(Failure::usage(
                message,
                Some("nothing was written; name TARGET as it stands there"),
            ))
        }
        (None, true) => {
            let disk = Disk::open(path, false).map_err(failed)?;
            let what = if disk.is_device() { "on the device" } else { "in the file" };
            let message = format!(
                "this workload writes to {target}: what is {what} ({}, {}) would be lost",
                disk.model(),
                figures::bytes(disk.bytes() as f64)
            );
            let help = format!("to have that written over, name it again: --destroy {target}");
            Err(Failure::usage(message, Some(&help)))
        }
    }
}
