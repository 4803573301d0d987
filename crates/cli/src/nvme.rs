//! `mynah nvme`: what a controller says of itself, with nvme-cli's names.

mod fields;
mod placement;

use crate::args::{
    ConnectArgs, Nvme, NvmeArgs, NvmeEvents, NvmeFeature, NvmeGroup, NvmeLog, NvmeVerb,
    OutputFormat,
};
use crate::failure::Failure;
use crate::print;
use crate::target::{self, ResolvedTarget};
use fields::{Field, Fields};
use mynah_runtime::host::{AdminSession, HostError, LogWanted};
use mynah_wire::nvme::feature::id;
use mynah_wire::nvme::identify::{IdentifyController, cns};
use mynah_wire::nvme::log::{AnaGroup, AnaHeader, ErrorEntry, page};
use std::process::ExitCode;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a SMART log page, and of an error log entry.
const SMART_BYTES: usize = 512;
const ERROR_BYTES: usize = size_of::<ErrorEntry>();
/// The largest log of access states that is read.
const ANA_BYTES_MAX: usize = 64 << 10;
/// NSID FFFFFFFFh: every namespace.
const ALL: u32 = 0xffff_ffff;

/// Runs a verb of `mynah nvme`.
pub(crate) fn run(args: &Nvme) -> Result<ExitCode, Failure> {
    let target = &args.target;
    match &args.what {
        NvmeVerb::IdCtrl(how) => ask(target, how, |session, _| {
            let bytes = session.identify(cns::CONTROLLER, 0, "identifying the controller")?;
            let fields = fields::controller(&read(&bytes));
            Ok(Structure { title: "NVME Identify Controller", bytes, fields })
        }),
        NvmeVerb::IdNs(how) => ask(target, how, |session, namespace| {
            let bytes = session.identify(cns::NAMESPACE, namespace, "identifying the namespace")?;
            // What is said of one that is not there is zeros (Base 2.0, section 5.17.2.1).
            if bytes.iter().all(|&byte| byte == 0) {
                let text = format!("there is no namespace {namespace}; list-ns lists them");
                return Err(HostError::Unusable(text));
            }
            let fields = fields::namespace(&read(&bytes));
            Ok(Structure { title: "NVME Identify Namespace", bytes, fields })
        }),
        NvmeVerb::ListNs(how) => ask(target, how, |session, _| {
            let bytes = session.identify(cns::ACTIVE_NAMESPACES, 0, "listing the namespaces")?;
            let ids = bytes.chunks_exact(4).filter_map(|id| id.try_into().ok());
            let ids = ids.map(u32::from_le_bytes).take_while(|&id| id != 0);
            let list = ids.map(|id| vec![("nsid", Field::from(id))]).collect();
            Ok(Structure {
                title: "Namespaces",
                bytes,
                fields: vec![("nsid_list", Field::List(list))],
            })
        }),
        NvmeVerb::SmartLog(how) => ask(target, how, |session, _| {
            let wanted = LogWanted {
                page: page::SMART,
                namespace: ALL,
                bytes: SMART_BYTES,
                ..LogWanted::default()
            };
            let bytes = session.log(&wanted, "reading the SMART log")?;
            let fields = fields::smart(&read(&bytes));
            Ok(Structure { title: "Smart Log", bytes, fields })
        }),
        NvmeVerb::ErrorLog(how) => ask(target, how, |session, _| errors(session)),
        NvmeVerb::AnaLog(how) => ask(target, how, |session, _| access(session, target)),
        NvmeVerb::FdpConfigs(NvmeGroup { endgrp_id: group, all }) => {
            ask(target, all, |session, _| placement::configurations(session, *group))
        }
        NvmeVerb::FdpUsage(NvmeGroup { endgrp_id: group, all }) => {
            ask(target, all, |session, _| placement::usage(session, *group))
        }
        NvmeVerb::FdpStats(NvmeGroup { endgrp_id: group, all }) => {
            ask(target, all, |session, _| placement::statistics(session, *group))
        }
        NvmeVerb::FdpEvents(NvmeEvents { host_events, group }) => {
            ask(target, &group.all, |session, _| {
                placement::events(session, group.endgrp_id, *host_events)
            })
        }
        NvmeVerb::FdpStatus(how) => ask(target, how, placement::status),
        NvmeVerb::GetFeature(wanted) => feature(target, wanted),
        NvmeVerb::GetLog(wanted) => log(target, wanted),
    }
}

/// A structure that was read, as bytes and as named fields.
struct Structure {
    title: &'static str,
    bytes: Vec<u8>,
    fields: Fields,
}

/// A structure that begins with these bytes; what is missing of it is zero.
fn read<T: FromBytes + KnownLayout + Immutable + IntoBytes>(bytes: &[u8]) -> T {
    let mut whole = T::new_zeroed();
    let into = whole.as_mut_bytes();
    let count = into.len().min(bytes.len());
    into[..count].copy_from_slice(&bytes[..count]);
    whole
}

/// Connects to the target, and disconnects after `then`.
fn with<T>(
    target: &str,
    connect: &ConnectArgs,
    then: impl FnOnce(&mut AdminSession, u32) -> Result<T, HostError>,
) -> Result<T, Failure> {
    let namespace = target::namespace(connect)?.unwrap_or(1);
    let ResolvedTarget { place, listed, wait } = target::find(target, connect)?;
    let failed = |error: HostError| target::failed(&error, listed.as_deref());
    let mut session = AdminSession::connect(&place, wait).map_err(failed)?;
    let result = then(&mut session, namespace).map_err(failed)?;
    session.end().map_err(failed)?;
    Ok(result)
}

fn ask(
    target: &str,
    how: &NvmeArgs,
    then: impl FnOnce(&mut AdminSession, u32) -> Result<Structure, HostError>,
) -> Result<ExitCode, Failure> {
    let structure = with(target, &how.connect, then)?;
    match how.format() {
        OutputFormat::Binary => print::bytes(&structure.bytes)?,
        OutputFormat::Json => print::out(&format!("{:#}\n", fields::json(&structure.fields)))?,
        OutputFormat::Normal => print::out(&fields::text(structure.title, &structure.fields))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The error log, as many entries as the controller has.
fn errors(session: &mut AdminSession) -> Result<Structure, HostError> {
    let bytes = session.identify(cns::CONTROLLER, 0, "identifying the controller")?;
    let controller: IdentifyController = read(&bytes);
    let entries = usize::from(controller.error_entries) + 1;
    let wanted = LogWanted {
        page: page::ERROR_INFORMATION,
        namespace: ALL,
        bytes: entries * ERROR_BYTES,
        ..LogWanted::default()
    };
    let bytes = session.log(&wanted, "reading the error log")?;
    let entries = bytes.chunks_exact(ERROR_BYTES).map(read::<ErrorEntry>);
    let list = entries.filter(|it| it.count.get() != 0).map(|it| fields::error(&it)).collect();
    Ok(Structure { title: "Error Log Entries", bytes, fields: vec![("errors", Field::List(list))] })
}

/// The Asymmetric Namespace Access log.
fn access(session: &mut AdminSession, target: &str) -> Result<Structure, HostError> {
    let what = "reading the ANA log";
    let mut wanted = LogWanted { page: page::ANA, bytes: 4096, ..LogWanted::default() };
    let mut bytes = session.log(&wanted, what)?;
    loop {
        match fields::access(&bytes, target) {
            Some((fields, length)) => {
                bytes.truncate(length);
                let title = "Asymmetric Namespace Access Log";
                return Ok(Structure { title, bytes, fields });
            }
            None if wanted.bytes >= ANA_BYTES_MAX => {
                let what = format!("its ANA log does not end within {ANA_BYTES_MAX} bytes");
                return Err(HostError::Nonsense(what));
            }
            None => {
                wanted.bytes *= 2;
                bytes = session.log(&wanted, what)?;
            }
        }
    }
}

/// Where groups of access states are in their log.
const ANA_HEADER_BYTES: usize = size_of::<AnaHeader>();
const ANA_GROUP_BYTES: usize = size_of::<AnaGroup>();

/// Bytes of data that come with a feature's value (Base 2.0, section 5.27.1).
fn feature_bytes(feature: u8) -> usize {
    match feature {
        id::TIMESTAMP => 8,
        id::HOST_BEHAVIOR => 512,
        id::HOST_ID => 16,
        _ => 0,
    }
}

fn feature(target: &str, wanted: &NvmeFeature) -> Result<ExitCode, Failure> {
    // What of it is supported has no data.
    let bytes = if wanted.sel == 3 { 0 } else { feature_bytes(wanted.id) };
    ask(target, &wanted.all, |session, namespace| {
        let (value, bytes) = session.feature(wanted.id, wanted.sel, namespace, bytes)?;
        let mut fields = vec![
            ("feature", Field::from(u32::from(wanted.id))),
            ("name", Field::Text(fields::feature_name(wanted.id).to_owned())),
            (fields::selected(wanted.sel), Field::Bits(value.into())),
        ];
        if !bytes.is_empty() {
            fields.push(("data", fields::digits(&bytes)));
        }
        Ok(Structure { title: "Feature", bytes, fields })
    })
}

fn log(target: &str, wanted: &NvmeLog) -> Result<ExitCode, Failure> {
    let bytes = with(target, &wanted.connect, |session, _| {
        let log = LogWanted {
            page: wanted.id,
            specific: wanted.lsp,
            specific_id: wanted.lsi,
            namespace: ALL,
            offset: wanted.lpo,
            bytes: wanted.log_len as usize,
        };
        session.log(&log, "reading the log page")
    })?;
    if wanted.raw {
        print::bytes(&bytes)?;
    } else {
        print::out(&fields::dump(&bytes, wanted.lpo))?;
    }
    Ok(ExitCode::SUCCESS)
}
