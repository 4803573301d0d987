//! What device names stand for.

use mynah_drive_file::DEFAULT_KEY_VALUE_DRIVE;
use mynah_runtime::clock::Rate;
use mynah_runtime::host::load::Where;
use mynah_runtime::host::{self, Options, Target, VfioUserOptions};
use std::path::PathBuf;
use std::time::Duration;

/// The emulator's name in OpenMPDK.
const EMULATOR: &str = "/dev/kvemul";

const KEEP_ALIVE: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);
/// A target that is only starting is waited for.
const WAIT: Duration = Duration::from_secs(5);

/// Where the pairs of a drive in this process are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Backing {
    /// In memory, as long as the device is open.
    #[default]
    Ram,
    /// Nowhere: values are made up of their keys.
    Pattern,
    /// In files of a folder.
    Folder(PathBuf),
}

/// What the name of a device stands for.
#[derive(Debug)]
pub(crate) enum Uri {
    /// A drive in this process.
    Local { drive: String, backing: Backing, rate: Option<Rate> },
    /// A served namespace: where, which, and how long it is waited for.
    Served { place: Where, nsid: Option<u32>, wait: Duration },
}

/// Reads a device's name. A subsystem that it does not name is asked for.
///
/// # Errors
/// If it is none, or there is no such target.
pub(crate) fn parse(text: &str) -> Result<Uri, String> {
    if text == EMULATOR {
        return Ok(Uri::Local {
            drive: DEFAULT_KEY_VALUE_DRIVE.into(),
            backing: Backing::Ram,
            rate: None,
        });
    }
    let mut parts = text.split(',');
    let head = parts.next().unwrap_or_default();
    if let Some(drive) = head.strip_prefix("mynah:") {
        return local(drive, parts);
    }
    let mut nsid = None;
    for part in parts {
        let id = part.strip_prefix("nsid=").and_then(|id| id.parse().ok());
        match id {
            Some(id) if (1..u32::MAX).contains(&id) => nsid = Some(id),
            _ => return Err(format!("`{part}` is not nsid=N, a namespace's number")),
        }
    }
    if let Some(folder) = head.strip_prefix("vfio-user:") {
        if folder.is_empty() {
            return Err("vfio-user: has no folder".into());
        }
        let place = VfioUserOptions { folder: folder.into(), interrupts: false, timeout: TIMEOUT };
        return Ok(Uri::Served { place: Where::VfioUser(place), nsid, wait: WAIT });
    }
    if head.starts_with("tcp://") {
        let place = Where::Tcp(Box::new(tcp(head)?));
        return Ok(Uri::Served { place, nsid, wait: WAIT });
    }
    Err(format!(
        "`{text}` is no device: write mynah:DRIVE, {EMULATOR}, tcp://HOST:PORT/NQN or vfio-user:DIR"
    ))
}

fn local<'a>(drive: &str, parts: impl Iterator<Item = &'a str>) -> Result<Uri, String> {
    if drive.is_empty() {
        return Err("mynah: names no drive; mynah:kv-tlc is one".into());
    }
    let (mut backing, mut rate) = (Backing::Ram, None);
    for part in parts {
        match part.split_once('=') {
            Some(("store", "pattern")) => backing = Backing::Pattern,
            Some(("store", "ram")) => backing = Backing::Ram,
            Some(("store", path)) if !path.is_empty() => backing = Backing::Folder(path.into()),
            Some(("speed", "max")) => rate = None,
            Some(("speed", factor)) => {
                let factor = factor.parse().ok().and_then(Rate::new);
                let wrong = || format!("`{part}`: a speed is max, or from 0.000001 to 1000");
                rate = Some(factor.ok_or_else(wrong)?);
            }
            _ => {
                return Err(format!(
                    "`{part}` is not store=ram, store=pattern, store=PATH or speed=N"
                ));
            }
        }
    }
    Ok(Uri::Local { drive: drive.into(), backing, rate })
}

fn tcp(text: &str) -> Result<Options, String> {
    let target: Target = text.parse().map_err(|error: host::TargetError| error.to_string())?;
    let nqn = target.nqn.clone().unwrap_or_default();
    let options = Options::plain(target.address.clone(), nqn, KEEP_ALIVE, TIMEOUT);
    if target.nqn.is_some() {
        return Ok(options);
    }
    let found = host::persist(WAIT, || host::discover(&options));
    let mut names: Vec<String> =
        found.map_err(|error| error.to_string())?.into_iter().map(|it| it.nqn).collect();
    names.sort();
    names.dedup();
    match &names[..] {
        [] => Err(format!("{text} has no subsystem for this host")),
        [only] => Ok(Options { subsystem_nqn: only.clone(), ..options }),
        _ => Err(format!("{text} has several subsystems; name one of {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_in_this_process() {
        let local = |text: &str| match parse(text) {
            Ok(Uri::Local { drive, backing, rate }) => (drive, backing, rate),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(local("/dev/kvemul"), ("kv-tlc".into(), Backing::Ram, None));
        assert_eq!(local("mynah:a/b.toml"), ("a/b.toml".into(), Backing::Ram, None));
        assert_eq!(local("mynah:moke,store=pattern"), ("moke".into(), Backing::Pattern, None));
        assert_eq!(local("mynah:moke,speed=1").2, Some(Rate::REAL));
        assert_eq!(local("mynah:moke,speed=max,store=ram"), ("moke".into(), Backing::Ram, None));
        assert_eq!(local("mynah:moke,store=a/b").1, Backing::Folder("a/b".into()));
    }

    #[test]
    fn served_namespaces() {
        let served = |text: &str| match parse(text) {
            Ok(Uri::Served { place, nsid, .. }) => (place.to_string(), nsid),
            other => panic!("{text}: {other:?}"),
        };
        let nqn = "nqn.2026-01.org.example:a";
        let (place, nsid) = served(&format!("tcp://localhost/{nqn},nsid=3"));
        assert_eq!((place, nsid), (format!("tcp://localhost:4420/{nqn}"), Some(3)));
        assert_eq!(served("vfio-user:/run/m").1, None);
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "/dev/nvme0n1",
            "mynah:",
            "mynah:moke,speed=0",
            "mynah:moke,speed=fast",
            "mynah:moke,nsid=1",
            "mynah:moke,store=",
            "vfio-user:",
            "vfio-user:a,nsid=0",
            "tcp://",
            "tcp://host/nqn.2026-01.org.example:a,store=ram",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
