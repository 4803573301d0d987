//! What verbs that are hosts connect to, and how.

pub(crate) mod local;

use crate::args::ConnectArgs;
use crate::failure::Failure;
use crate::key;
use crate::values;
use mynah_runtime::host::load::Where;
use mynah_runtime::host::{self, Credentials, HostError, Options, Target, VfioUserOptions};
use mynah_wire::fabrics::check_nqn;
use mynah_wire::tcp::digest::Digests;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(10);
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(5);

/// A target, and how to reach it.
pub(crate) struct ResolvedTarget {
    pub(crate) place: Where,
    /// Where discovery has listed it, if that was asked and is not where the host has asked.
    pub(crate) listed: Option<String>,
    /// How long connecting is tried.
    pub(crate) wait: Duration,
}

/// Finds what `target` on the command line stands for.
pub(crate) fn find(target: &str, host: &ConnectArgs) -> Result<ResolvedTarget, Failure> {
    let wait = time("--wait", &host.wait, DEFAULT_WAIT)?;
    let (place, listed) = match target.strip_prefix("vfio-user:") {
        Some(folder) => (Where::VfioUser(vfio_user(host, folder)?), None),
        None => {
            let (options, listed) = tcp(target, host, wait)?;
            (Where::Tcp(Box::new(options)), listed)
        }
    };
    Ok(ResolvedTarget { place, listed, wait })
}

/// The namespace of `--nsid`.
pub(crate) fn namespace(host: &ConnectArgs) -> Result<Option<u32>, Failure> {
    let Some(text) = &host.nsid else { return Ok(None) };
    match text.parse() {
        // FFFFFFFFh stands for all of them.
        Ok(id) if (1..u32::MAX).contains(&id) => Ok(Some(id)),
        _ => Err(Failure::usage(
            format!("--nsid {text}: expected a namespace's number, from 1"),
            None,
        )),
    }
}

/// Why a host did not get what it wanted; `listed` is where discovery has listed the subsystem, if not
/// where the host has asked for it.
pub(crate) fn failed(error: &HostError, listed: Option<&str>) -> Failure {
    let help = match (error, listed) {
        (HostError::Refused { .. }, Some(listed)) => {
            Some(format!("the target lists its subsystem elsewhere: {listed}"))
        }
        _ => error.help().map(str::to_owned),
    };
    let numbers = |all: &[u32]| {
        let all: Vec<_> = all.iter().map(|id| format!("--nsid {id}")).collect();
        all.join("\n")
    };
    match error {
        HostError::SeveralKeyValue(all) => Failure::usage(error.to_string(), Some(&numbers(all))),
        HostError::OtherKind { .. }
        | HostError::Nbd(_)
        | HostError::OneConnection
        | HostError::NoKeyValue
        | HostError::NoSamsung
        | HostError::NoProfile => Failure::usage(error.to_string(), help.as_deref()),
        _ => Failure::failed(error.to_string(), help.as_deref()),
    }
}

/// How to reach a function over vfio-user.
fn vfio_user(host: &ConnectArgs, folder: &str) -> Result<VfioUserOptions, Failure> {
    let secret = Some(key::FROM_ENVIRONMENT);
    for (option, given, help) in [
        ("--host-nqn", host.host_nqn.is_some(), None),
        ("--host-key", host.host_key.is_some(), secret),
        ("--tls-psk", host.tls_psk.is_some(), secret),
        ("--header-digest", host.header_digest, None),
        ("--data-digest", host.data_digest, None),
        ("--keep-alive", host.keep_alive.is_some(), None),
    ] {
        if given {
            let message = format!("{option} has no effect on a PCIe function: it is for TCP");
            return Err(Failure::usage(message, help));
        }
    }
    if folder.is_empty() {
        let help = "write vfio-user:DIR, the folder that `mynah serve --vfio-user DIR` has";
        return Err(Failure::usage("vfio-user: has no folder".to_owned(), Some(help)));
    }
    Ok(VfioUserOptions {
        folder: folder.into(),
        interrupts: host.interrupts,
        timeout: time("--timeout", &host.timeout, DEFAULT_TIMEOUT)?,
    })
}

/// What somebody may have meant who names what is no target, and the option with which a drive is
/// served so that hosts reach it.
fn other_way(text: &str) -> Option<String> {
    let path = Path::new(text);
    let is = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    if is(&["tcp://"]) {
        None
    } else if is(&["nbd:", "nbd+unix:", "nbd://", "unix:"]) || is_socket(path) {
        Some(
            "that is for clients of network block devices (mynah serve --nbd); with --tcp ADDR:PORT \
             beside it the drive is reached at tcp://ADDR:PORT"
                .to_owned(),
        )
    } else if is(&["rdma://", "rdma:"]) {
        Some(
            "served with --tcp ADDR:PORT beside --rdma, the drive is reached at tcp://ADDR:PORT"
                .to_owned(),
        )
    } else if is(&["/dev/"]) {
        Some("`mynah bench` puts a load on devices of this machine's kernel; for the rest there is nvme-cli".to_owned())
    } else if path.join("cntrl").exists() {
        Some(format!("a drive served with --vfio-user is there: vfio-user:{text}"))
    } else if path.is_file() {
        Some(format!("for a profile in a file: mynah profile show {text}"))
    } else if text.contains("//") || text.contains(char::is_whitespace) || text.is_empty() {
        None
    } else {
        let help = "for a drive served with --tcp at this address";
        Some(format!("{help}: tcp://{text}")).filter(|_| !text.contains('/'))
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.file_type().is_socket())
}

/// How to reach a subsystem over TCP, and where discovery has listed it, if that was asked.
fn tcp(
    text: &str,
    host: &ConnectArgs,
    wait: Duration,
) -> Result<(Options, Option<String>), Failure> {
    let target: Target = text.parse().map_err(|error: host::TargetError| {
        Failure::usage(error.to_string(), other_way(text).as_deref())
    })?;
    if host.interrupts {
        let message = "--interrupts has no effect over TCP: it is for vfio-user".to_owned();
        return Err(Failure::usage(message, None));
    }
    let options = options(host, &target)?;
    match target.nqn {
        Some(_) => Ok((options, None)),
        None => discovered(options, wait),
    }
}

fn options(host: &ConnectArgs, target: &Target) -> Result<Options, Failure> {
    #[cfg(not(feature = "tls"))]
    if host.tls_psk.is_some() {
        return Err(key::without_tls());
    }
    let host_nqn = match &host.host_nqn {
        Some(nqn) => check_nqn(nqn)
            .map(|()| nqn.clone())
            .map_err(|problem| Failure::usage(format!("--host-nqn {nqn}: {problem}"), None))?,
        None => host::default_host_nqn(),
    };
    Ok(Options {
        address: target.address.clone(),
        subsystem_nqn: target.nqn.clone().unwrap_or_default(),
        host_nqn,
        credentials: credentials(host)?,
        #[cfg(feature = "tls")]
        tls: encryption(host)?,
        digests: Digests { header: host.header_digest, data: host.data_digest },
        keep_alive: time("--keep-alive", &host.keep_alive, DEFAULT_KEEP_ALIVE)?,
        timeout: time("--timeout", &host.timeout, DEFAULT_TIMEOUT)?,
    })
}

fn credentials(host: &ConnectArgs) -> Result<Option<Credentials>, Failure> {
    let Some(own) = &host.host_key else { return Ok(None) };
    let controller = host.controller_key.as_ref();
    Ok(Some(Credentials {
        host: own.read("--host-key")?,
        controller: controller.map(|secret| secret.read("--controller-key")).transpose()?,
        choices: key::choices(&host.auth)?,
    }))
}

#[cfg(feature = "tls")]
fn encryption(host: &ConnectArgs) -> Result<Option<host::Encryption>, Failure> {
    let Some(secret) = &host.tls_psk else { return Ok(None) };
    let encryption = host::Encryption::new(secret.read("--tls-psk")?);
    Ok(Some(encryption.map_err(|error| Failure::failed(error.to_string(), None))?))
}

/// The options with the target's only subsystem, and where the target says that it is. A host stays
/// where it came in all the same: an address behind a forwarded port is none that it can reach.
fn discovered(options: Options, wait: Duration) -> Result<(Options, Option<String>), Failure> {
    let found = host::persist(wait, || host::discover(&options));
    let mut found = found.map_err(|error| failed(&error, None))?;
    // The entry for where the host is comes first.
    let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned());
    let here = port(&options.address);
    let is_elsewhere = |one: &host::Subsystem| one.address.as_deref().and_then(port) != here;
    found.sort_by_key(|one| (one.nqn.clone(), is_elsewhere(one)));
    found.dedup_by(|a, b| a.nqn == b.nqn);
    match &found[..] {
        [] => Err(Failure::failed("the target has no subsystem for this host".into(), None)),
        [only] => {
            let listed = only.address.as_ref().filter(|_| is_elsewhere(only));
            let listed = listed.map(|address| format!("tcp://{address}/{}", only.nqn));
            Ok((Options { subsystem_nqn: only.nqn.clone(), ..options }, listed))
        }
        several => {
            let place = |one: &host::Subsystem| match &one.address {
                Some(address) if is_elsewhere(one) => address.clone(),
                _ => options.address.clone(),
            };
            let names = several.iter().map(|one| format!("tcp://{}/{}", place(one), one.nqn));
            let names: Vec<_> = names.collect();
            let message = format!("the target has {} subsystems; name one of them", names.len());
            Err(Failure::usage(message, Some(&names.join("\n"))))
        }
    }
}

/// A duration that an option gives.
pub(crate) fn time(
    option: &str,
    text: &Option<String>,
    default: Duration,
) -> Result<Duration, Failure> {
    text.as_deref().map_or(Ok(default), |text| {
        values::span(option, text).map(|span| Duration::from_nanos(span.as_ps() / 1_000))
    })
}
