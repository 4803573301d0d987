//! Loads on what is no controller of NVMe: which options mean nothing there.

use crate::args::Bench;
use crate::failure::Failure;
use crate::target::ResolvedTarget;
use crate::target::local::{self, Kind};
use mynah_workload::FlowSpec;

/// The target, if it is no controller, for these flows.
///
/// # Errors
/// If an option has no effect there, or the target is not such as is to be loaded.
pub(super) fn find(args: &Bench, flows: &[FlowSpec]) -> Result<Option<ResolvedTarget>, Failure> {
    let kind = local::kind(&args.target)?;
    if let (Some(_), None | Some(Kind::Nbd)) = (&args.run.destroy, &kind) {
        let message = "--destroy has no effect here: it is for devices and files of this machine";
        return Err(Failure::usage(message, None));
    }
    let Some(kind) = kind else { return Ok(None) };
    refuse(args, &kind)?;
    let host = &args.host.connect;
    match kind {
        Kind::Disk(path) => {
            let writes = flows.iter().any(FlowSpec::modifies);
            let destroy = args.run.destroy.as_deref();
            local::disk((&args.target, path), host, writes, destroy).map(Some)
        }
        Kind::Nbd => local::export(&args.target, host).map(Some),
    }
}

/// Refuses options that only a load on a controller of NVMe gives a meaning.
fn refuse(args: &Bench, kind: &Kind<'_>) -> Result<(), Failure> {
    let is_kv = args.flow.options().kv.is_some();
    let reconnects = matches!(kind, Kind::Nbd);
    for (option, given, help) in [
        ("--kv", is_kv, Some("`mynah serve --namespace SIZE,kv` serves a key-value namespace")),
        ("--load", args.run.load.is_some(), None),
        (
            "--queue-size",
            args.host.queue_size.is_some(),
            Some("--iodepth says how much is asked at once"),
        ),
        ("--reconnect", args.host.reconnect.is_some() && !reconnects, None),
        ("--profile", args.profile.is_some(), Some("--hgrm and --verbose show latencies there")),
    ] {
        if given {
            let message = format!("{option} has no effect on {}", kind.name());
            return Err(Failure::usage(message, help));
        }
    }
    Ok(())
}
