//! Flexible Data Placement as a controller says it, with the names of nvme-cli's `nvme fdp`.

use super::fields::{Field, Fields};
use super::{Structure, read};
use mynah_runtime::host::{AdminSession, HostError, LogWanted};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::log::{
    HandleKind, HandleUsage, HandleUse, MediaReallocated, PlacementConfiguration,
    PlacementConfigurations, PlacementEvent, PlacementEvents, PlacementStatistics, page,
    placement_event,
};
use mynah_wire::nvme::placement::{HandleState, HandleStatus};

/// The largest log that is read.
const LOG_BYTES_MAX: usize = 256 << 10;
/// LSP: events that hosts have caused.
const OF_HOSTS: u8 = 1;

/// Bytes of a log page of an endurance group.
fn log(
    session: &mut AdminSession,
    group: u16,
    (page, specific): (u8, u8),
    bytes: usize,
) -> Result<Vec<u8>, HostError> {
    if bytes > LOG_BYTES_MAX {
        return Err(HostError::Nonsense(format!(
            "it says that log page {page:#x} has {bytes} bytes"
        )));
    }
    let wanted = LogWanted { page, specific, specific_id: group, namespace: 0, offset: 0, bytes };
    session.log(&wanted, "reading a log of data placement").map_err(explained)
}

/// Says so where the controller has no data placement: then it knows neither logs nor commands of it.
fn explained(error: HostError) -> HostError {
    const WITHOUT: [Status; 3] =
        [Status::FDP_DISABLED, Status::LOG_PAGE_INVALID, Status::INVALID_OPCODE];
    match &error {
        HostError::Refused { status, .. }
            if WITHOUT.iter().any(|it| status.name() == it.name()) =>
        {
            HostError::Unusable(format!(
                "{error}: the controller has no data placement; `mynah serve` has it where the \
                 drive's file has [placement], or with `--set placement.handles=4`"
            ))
        }
        _ => error,
    }
}

fn number(number: impl Into<u128>) -> Field {
    Field::Number(number.into())
}

/// FDP configurations.
pub(super) fn configurations(
    session: &mut AdminSession,
    group: u16,
) -> Result<Structure, HostError> {
    let page = (page::PLACEMENT_CONFIGURATIONS, 0);
    let head_bytes = size_of::<PlacementConfigurations>();
    let head: PlacementConfigurations = read(&log(session, group, page, head_bytes)?);
    let bytes = log(session, group, page, (head.bytes.get() as usize).max(head_bytes))?;
    let mut at = head_bytes;
    let mut all = Vec::new();
    for _ in 0..=head.last.get() {
        let rest = bytes.get(at..).unwrap_or_default();
        let it: PlacementConfiguration = read(rest);
        let (own, whole) = (size_of::<PlacementConfiguration>(), usize::from(it.bytes.get()));
        if whole < own || rest.len() < whole {
            let what = "a configuration of data placement does not end in its log".to_owned();
            return Err(HostError::Nonsense(what));
        }
        let kinds = rest[own..whole].chunks_exact(size_of::<HandleKind>());
        let kinds = kinds.take(it.handles.get().into()).map(|kind| {
            let kind: HandleKind = read(kind);
            vec![("ruht", number(kind.kind))]
        });
        all.push(vec![
            ("fdpa", Field::Bits(it.attributes.into())),
            ("vss", number(it.vendor_bytes)),
            ("nrg", number(it.groups.get())),
            ("nruh", number(it.handles.get())),
            ("maxpids", number(it.identifiers_max.get())),
            ("nnss", number(it.namespaces_max.get())),
            ("runs", number(it.unit_bytes.get())),
            ("erutl", number(it.time_limit.get())),
            ("ruhs", Field::List(kinds.collect())),
        ]);
        at += whole;
    }
    let fields = vec![("n", number(head.last.get())), ("configs", Field::List(all))];
    Ok(Structure { title: "FDP Configurations", bytes, fields })
}

/// Which reclaim unit handles namespaces use.
pub(super) fn usage(session: &mut AdminSession, group: u16) -> Result<Structure, HostError> {
    let page = (page::HANDLE_USAGE, 0);
    let head_bytes = size_of::<HandleUsage>();
    let head: HandleUsage = read(&log(session, group, page, head_bytes)?);
    let count = usize::from(head.handles.get());
    let bytes = log(session, group, page, head_bytes + count * size_of::<HandleUse>())?;
    let uses = bytes[head_bytes..].chunks_exact(size_of::<HandleUse>());
    let list = uses.map(|it| vec![("ruha", number(read::<HandleUse>(it).attributes))]).collect();
    let fields = vec![("nruh", number(head.handles.get())), ("ruhus", Field::List(list))];
    Ok(Structure { title: "Reclaim Unit Handle Usage", bytes, fields })
}

/// What hosts wrote, what the media wrote and what was erased.
pub(super) fn statistics(session: &mut AdminSession, group: u16) -> Result<Structure, HostError> {
    let page = (page::PLACEMENT_STATISTICS, 0);
    let bytes = log(session, group, page, size_of::<PlacementStatistics>())?;
    let it: PlacementStatistics = read(&bytes);
    let (host, media) = (it.host_bytes.get(), it.media_bytes.get());
    let mut fields = vec![
        ("hbmw", number(host)),
        ("mbmw", number(media)),
        ("mbe", number(it.erased_bytes.get())),
    ];
    if host > 0 {
        // nvme-cli leaves the division to its reader.
        fields.push(("waf", Field::Ratio(media as f64 / host as f64)));
    }
    Ok(Structure { title: "FDP Statistics", bytes, fields })
}

/// The events of the controller, or those that hosts have caused.
pub(super) fn events(
    session: &mut AdminSession,
    group: u16,
    of_hosts: bool,
) -> Result<Structure, HostError> {
    let page = (page::PLACEMENT_EVENTS, if of_hosts { OF_HOSTS } else { 0 });
    let head_bytes = size_of::<PlacementEvents>();
    let head: PlacementEvents = read(&log(session, group, page, head_bytes)?);
    let count = head.events.get() as usize;
    let events = count.saturating_mul(size_of::<PlacementEvent>());
    let bytes = log(session, group, page, events.saturating_add(head_bytes))?;
    let list = bytes[head_bytes..].chunks_exact(size_of::<PlacementEvent>()).map(event).collect();
    let fields = vec![("n", number(head.events.get())), ("events", Field::List(list))];
    let title = if of_hosts { "FDP Events of Hosts" } else { "FDP Events of the Controller" };
    Ok(Structure { title, bytes, fields })
}

fn event(bytes: &[u8]) -> Fields {
    let it: PlacementEvent = read(bytes);
    let mut fields = vec![
        ("type", Field::Bits(it.kind.into())),
        ("fdpef", Field::Bits(it.valid.into())),
        ("pid", number(it.identifier.get())),
        ("timestamp", number(u64::from_le_bytes(it.timestamp))),
        ("nsid", number(it.namespace_id.get())),
    ];
    if it.kind == placement_event::MEDIA_REALLOCATED {
        let moved: MediaReallocated = read(&it.specific);
        fields.push(("nlbam", number(moved.blocks.get())));
        if moved.flags & 1 != 0 {
            fields.push(("lba", number(moved.lba.get())));
        }
    }
    fields
}

/// What the placement handles of a namespace refer to.
pub(super) fn status(session: &mut AdminSession, namespace: u32) -> Result<Structure, HostError> {
    let bytes = session.handle_status(namespace).map_err(explained)?;
    let head: HandleStatus = read(&bytes);
    let states = bytes.get(size_of::<HandleStatus>()..).unwrap_or_default();
    let list = states.chunks_exact(size_of::<HandleState>()).map(|state| {
        let it: HandleState = read(state);
        vec![
            ("pid", number(it.identifier.get())),
            ("ruhid", number(it.handle.get())),
            ("earutr", number(it.time_left.get())),
            ("ruamw", number(it.blocks_left.get())),
        ]
    });
    let list = list.collect();
    let fields = vec![("nruhsd", number(head.handles.get())), ("ruhss", Field::List(list))];
    Ok(Structure { title: "Reclaim Unit Handle Status", bytes, fields })
}
