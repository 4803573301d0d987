//! FDP events (Base 2.1, section 5.1.12.1.31): what has happened to data placement, and who wants to
//! know. They belong to reclaim unit handles; none is wanted until a host says so.

use mynah_wire::nvme::log::PlacementEvent;
pub(super) use mynah_wire::nvme::log::placement_event::MEDIA_REALLOCATED;
use mynah_wire::nvme::log::placement_event::{
    IMPLICITLY_MODIFIED, INVALID_IDENTIFIER, NOT_FULLY_WRITTEN, RESET_MODIFIED, TIME_LIMIT_EXCEEDED,
};
use std::collections::VecDeque;
use zerocopy::byteorder::little_endian::{U16, U32};

/// The types of events that hosts may want. Two never happen: reclaim units have no time limit, and no
/// handle refers to another one but by what hosts write. Nor does a reset or a power cut have one do
/// so: what was programmed to a reclaim unit is still there, and what is written next goes behind it.
/// Only a handle that its host has updated, and whose last data were still to be programmed, begins
/// its new reclaim unit with the power cut, which is what the host has asked for.
pub(crate) const TYPES: [u8; 6] = [
    NOT_FULLY_WRITTEN,
    TIME_LIMIT_EXCEEDED,
    RESET_MODIFIED,
    INVALID_IDENTIFIER,
    MEDIA_REALLOCATED,
    IMPLICITLY_MODIFIED,
];

/// Most events that are kept of hosts, and of the controller: what a log page of 4 KiB has room for.
const KEPT_MAX: usize = 63;

/// What has happened, to which reclaim unit handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: u8,
    /// The reclaim unit handle.
    pub(crate) handle: u8,
    /// The placement identifier, and the namespace, if they are known.
    pub(crate) identifier: Option<u16>,
    pub(crate) namespace: Option<u32>,
    pub(crate) specific: [u8; 16],
}

/// Events that have happened, and which are wanted.
#[derive(Debug)]
pub(crate) struct Events {
    /// Of each reclaim unit handle a bit for each of [`TYPES`].
    wanted: Vec<u8>,
    of_hosts: VecDeque<PlacementEvent>,
    of_controller: VecDeque<PlacementEvent>,
}

/// The bit of a type; `None` if there is no such type.
fn bit(kind: u8) -> Option<u8> {
    TYPES.iter().position(|it| *it == kind).map(|at| 1 << at)
}

impl Events {
    pub(super) fn new(handles: u8) -> Events {
        let (of_hosts, of_controller) = (VecDeque::new(), VecDeque::new());
        Events { wanted: vec![0; handles.into()], of_hosts, of_controller }
    }

    /// Whether an event of this type is wanted of a reclaim unit handle.
    pub(crate) fn wants(&self, handle: u8, kind: u8) -> bool {
        let wanted = self.wanted.get(usize::from(handle)).copied().unwrap_or(0);
        bit(kind).is_some_and(|bit| wanted & bit != 0)
    }

    /// Events of these types are wanted of a reclaim unit handle from now on, or not; false, and
    /// nothing is changed, if there is no such type or handle.
    pub(crate) fn want(&mut self, handle: u8, kinds: &[u8], wants: bool) -> bool {
        let bits = kinds.iter().map(|kind| bit(*kind));
        let Some(bits) = bits.collect::<Option<Vec<u8>>>() else { return false };
        let Some(wanted) = self.wanted.get_mut(usize::from(handle)) else { return false };
        for bit in bits {
            *wanted = if wants { *wanted | bit } else { *wanted & !bit };
        }
        true
    }

    /// Something has happened; `timestamp` is what the Timestamp feature says. The oldest event gives
    /// way where there is no room.
    pub(crate) fn note(&mut self, event: Event, timestamp: [u8; 8]) {
        if !self.wants(event.handle, event.kind) {
            return;
        }
        let mut valid = PlacementEvent::LOCATION_VALID;
        valid |= if event.identifier.is_some() { PlacementEvent::IDENTIFIER_VALID } else { 0 };
        valid |= if event.namespace.is_some() { PlacementEvent::NAMESPACE_VALID } else { 0 };
        let of_kind = match event.kind < MEDIA_REALLOCATED {
            true => &mut self.of_hosts,
            false => &mut self.of_controller,
        };
        if of_kind.len() == KEPT_MAX {
            of_kind.pop_front();
        }
        of_kind.push_back(PlacementEvent {
            kind: event.kind,
            valid,
            identifier: U16::new(event.identifier.unwrap_or(0)),
            timestamp,
            namespace_id: U32::new(event.namespace.unwrap_or(0)),
            specific: event.specific,
            handle: U16::new(event.handle.into()),
            ..Default::default()
        });
    }

    /// The events of hosts, or of the controller, the oldest first.
    pub(crate) fn log(&self, of_hosts: bool) -> &VecDeque<PlacementEvent> {
        if of_hosts { &self.of_hosts } else { &self.of_controller }
    }
}
