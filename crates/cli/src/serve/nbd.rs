//! Namespaces as network block devices: `serve --nbd`.

use super::{address, numbered};
use crate::args::Serve;
use crate::failure::Failure;
use mynah_runtime::nbd::{HOST_NQN, NbdAddress};
use std::path::PathBuf;

/// Where `--nbd` asks for exports.
pub(super) fn addresses(args: &Serve) -> Result<Vec<NbdAddress>, Failure> {
    let addresses = args.nbd.iter().map(|text| match text.strip_prefix("unix:") {
        Some("") => {
            let help = "write unix:PATH, as in unix:/tmp/drive.sock, or ADDRESS:PORT";
            Err(Failure::usage("--nbd unix: without a path", Some(help)))
        }
        Some(path) => Ok(NbdAddress::Local(PathBuf::from(path))),
        None => address("--nbd", text).map(NbdAddress::Tcp).map_err(|_| {
            let help = "write unix:PATH, as in unix:/tmp/drive.sock, or ADDRESS:PORT, as in \
                        127.0.0.1:10809; port 0 takes a free one";
            Failure::usage(format!("--nbd: `{text}` is no place to listen"), Some(help))
        }),
    });
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    if !addresses.is_empty() {
        check(args)?;
    }
    Ok(addresses)
}

/// Refuses what would not hold for clients of NBD.
fn check(args: &Serve) -> Result<(), Failure> {
    for (option, given, help) in [
        (
            "--host-key",
            !args.host_key.is_empty(),
            "clients of NBD cannot prove who they are; leave --nbd or --host-key out",
        ),
        (
            "--tls-psk",
            !args.tls_psk.is_empty(),
            "connections of NBD are not encrypted; leave --nbd or --tls-psk out",
        ),
        (
            "--profile",
            args.profile.is_some(),
            "a served drive's profile has no records of NBD; leave --nbd or --profile out",
        ),
    ] {
        if given {
            return Err(Failure::usage(format!("{option} with --nbd"), Some(help)));
        }
    }
    let is_allowed = args.allow_host.is_empty() || args.allow_host.iter().any(|it| it == HOST_NQN);
    if !is_allowed {
        let help = format!("clients of NBD come as one host: --allow-host {HOST_NQN} lets them in");
        return Err(Failure::usage("--nbd with --allow-host, which keeps them out", Some(&help)));
    }
    Ok(())
}

/// Where the drive or shard of this number is exported, if the first is at `address`.
pub(super) fn move_on(address: &mut NbdAddress, number: usize) -> Result<(), Failure> {
    match address {
        NbdAddress::Tcp(address) => super::move_port("--nbd", address, number),
        NbdAddress::Local(path) => {
            *path = numbered(path, number);
            Ok(())
        }
    }
}
