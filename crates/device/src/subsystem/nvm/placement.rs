//! Data placement in I/O commands: what writes say of it, and I/O Management Receive and Send (Base 2.1,
//! sections 7.3, 7.4 and 8.1.10).

use crate::config::SubsystemError;
use crate::model::Placed;
use crate::namespaces::{Extent, Namespace};
use crate::output::CommandKind;
use crate::placement::Event;
use crate::subsystem::Subsystem;
use crate::subsystem::access::Access;
use crate::transfer::check_room;
use mynah_model::io::{NamespaceId, PlacementId};
use mynah_wire::nvme::command::{Directive, IoManagementReceive, IoManagementSend};
use mynah_wire::nvme::log::placement_event;
use mynah_wire::nvme::placement::{HandleState, HandleStatus};
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::byteorder::little_endian::{U16, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Most placement handles of a namespace: what the list that creates it has room for.
pub(crate) const LIST_MAX: usize = 128;

fn invalid() -> Status {
    Status::INVALID_FIELD.do_not_retry()
}

/// Which reclaim unit handle a write to a namespace is for. One that names no placement handle of the
/// namespace goes to the first (Base 2.1, section 8.1.10.1); so does one that says nothing.
fn placed(namespace: &Namespace, directive: Directive) -> Result<Placed, Status> {
    let handles = namespace.handles();
    let first = handles.first().copied().unwrap_or(0);
    match directive.kind {
        0 => Ok(Placed { handle: first, is_unknown: false }),
        Directive::DATA_PLACEMENT if !handles.is_empty() => {
            let named = handles.get(usize::from(directive.specific)).copied();
            Ok(Placed { handle: named.unwrap_or(first), is_unknown: named.is_none() })
        }
        // Of a type that is not supported, or not enabled where the namespace is.
        _ => Err(invalid()),
    }
}

impl Subsystem {
    /// Where a plain write goes, or `None` if that needs more care. The fields of a read mean nothing.
    #[inline]
    pub(super) fn plain_placement(
        &self,
        namespace: &Namespace,
        pool: NamespaceId,
        directive: Directive,
    ) -> Option<PlacementId> {
        if self.placement.is_none() {
            return Some(PlacementId::default());
        }
        let placed = placed(namespace, directive).ok().filter(|placed| !placed.is_unknown)?;
        Some(self.model.placement(pool, placed))
    }

    /// Refuses a write to a namespace (by its index) whose directive there cannot be.
    pub(super) fn check_directive(&self, at: usize, directive: Directive) -> Result<(), Status> {
        if self.placement.is_some() {
            placed(self.namespaces.need(at)?, directive)?;
        }
        Ok(())
    }

    /// Which reclaim unit handle a write to a namespace (by its index) is for. To be asked once for each
    /// command, when it is about to begin: its host hears of identifiers that there are not.
    pub(super) fn place(&mut self, at: usize, directive: Directive) -> Result<Placed, Status> {
        if self.placement.is_none() {
            // Whatever the fields say: there are no directives.
            return Ok(Placed::default());
        }
        let namespace = self.namespaces.need(at)?;
        let placed = placed(namespace, directive)?;
        if placed.is_unknown {
            let id = namespace.id();
            self.note_event(Event {
                kind: placement_event::INVALID_IDENTIFIER,
                handle: placed.handle,
                identifier: Some(directive.specific),
                namespace: Some(id),
                specific: [0; 16],
            });
        }
        Ok(placed)
    }

    /// The steps of a command that are added from now on write for this reclaim unit handle.
    pub(super) fn set_placed(&mut self, index: u32, placed: Placed) {
        if let Some(command) = self.commands.get_mut(index) {
            command.set_placed(placed);
        }
    }

    /// Notes an event of data placement, if somebody wants it.
    pub(crate) fn note_event(&mut self, event: Event) {
        let timestamp = self.admin.timestamp(self.now.wall);
        if let Some(placement) = &mut self.placement {
            placement.events_mut().note(event, timestamp);
        }
    }

    pub(super) fn io_management_receive(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        request: IoManagementReceive,
    ) -> Result<(), Status> {
        if self.placement.is_none() {
            return Err(Status::INVALID_OPCODE.do_not_retry());
        }
        let at = self.admit(queue, entry, Access::Read)?;
        match request.operation {
            IoManagementReceive::NO_ACTION => {
                self.complete(queue, entry, CommandKind::OtherIo, 0);
                return Ok(());
            }
            IoManagementReceive::HANDLE_STATUS => {}
            _ => return Err(invalid()),
        }
        let namespace = self.namespaces.need(at)?;
        if namespace.handles().is_empty() {
            return Err(Status::FDP_DISABLED.do_not_retry());
        }
        let limit = self.queues.get(queue).map_or(0, |slot| slot.transport().max_transfer_bytes);
        if request.bytes > u64::from(limit) {
            return Err(invalid());
        }
        check_room(entry, request.bytes)?;
        self.check_held(queue)?;
        let mut status = self.handle_status(namespace);
        // Behind its end it is zero.
        status.resize(request.bytes as usize, 0);
        self.complete_with_data(queue, entry, CommandKind::OtherIo, status);
        Ok(())
    }

    /// Reclaim Unit Handle Status of a namespace.
    fn handle_status(&self, namespace: &Namespace) -> Vec<u8> {
        let mut head = HandleStatus::default();
        head.handles.set(namespace.handles().len() as u16);
        let mut status = head.as_bytes().to_vec();
        for (identifier, &handle) in (0..).zip(namespace.handles()) {
            let left = self.model.unit_left(handle).map_or(0, |(left, _)| left);
            let state = HandleState {
                identifier: U16::new(identifier),
                handle: U16::new(handle.into()),
                blocks_left: U64::new(left >> namespace.format().shift),
                ..Default::default()
            };
            status.extend_from_slice(state.as_bytes());
        }
        status
    }

    /// No data are changed: it may be done where the namespace is protected against writes, and not
    /// where somebody else has reserved it.
    pub(super) fn io_management_send(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        request: IoManagementSend,
        data: &[u8],
    ) -> Result<(), Status> {
        if self.placement.is_none() {
            return Err(Status::INVALID_OPCODE.do_not_retry());
        }
        let at = self.admit(queue, entry, Access::Flush)?;
        match request.operation {
            IoManagementSend::NO_ACTION => {}
            IoManagementSend::HANDLE_UPDATE => self.update_handles(at, request, data)?,
            _ => return Err(invalid()),
        }
        self.complete(queue, entry, CommandKind::OtherIo, 0);
        Ok(())
    }

    /// Has the placement handles of a namespace (by its index) that the data name refer to new reclaim
    /// units: all of them, or, if there is none such, none.
    fn update_handles(
        &mut self,
        at: usize,
        request: IoManagementSend,
        data: &[u8],
    ) -> Result<(), Status> {
        let namespace = self.namespaces.need(at)?;
        let (handles, id) = (namespace.handles().to_vec(), namespace.id());
        if handles.is_empty() {
            return Err(Status::FDP_DISABLED.do_not_retry());
        }
        // More identifiers than there are name one twice.
        if request.identifiers() > handles.len() {
            return Err(invalid());
        }
        let (named, _) = <[U16]>::ref_from_prefix_with_elems(data, request.identifiers())
            .map_err(|_| Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?;
        let named: Vec<u16> = named.iter().map(|identifier| identifier.get()).collect();
        if named.iter().any(|identifier| usize::from(*identifier) >= handles.len()) {
            return Err(invalid());
        }
        for identifier in named {
            let handle = handles[usize::from(identifier)];
            let Some((left, whole)) = self.model.unit_left(handle) else { continue };
            // One that is still empty is kept.
            if left == whole {
                continue;
            }
            self.note_event(Event {
                kind: placement_event::NOT_FULLY_WRITTEN,
                handle,
                identifier: Some(identifier),
                namespace: Some(id),
                specific: [0; 16],
            });
            if let Some(update) = self.model.update_of(handle) {
                self.control(update);
            }
        }
        Ok(())
    }

    /// Whether a list of reclaim unit handles can be the placement handles of a namespace in these
    /// extents: there are some, no more than fit a list, no one twice, and writes can be for all of
    /// them.
    pub(crate) fn can_have_handles(&self, list: &[u8], extents: &[Extent]) -> bool {
        let is_new = |at: usize| !list[..at].contains(&list[at]);
        let is_there = |handle: &u8| {
            extents.iter().all(|extent| self.model.handles_of(extent.pool).contains(handle))
        };
        (1..=LIST_MAX).contains(&list.len())
            && (0..list.len()).all(is_new)
            && list.iter().all(is_there)
    }

    /// All reclaim unit handles that a namespace in these extents can have.
    pub(crate) fn all_handles(&self, extents: &[Extent]) -> Vec<u8> {
        let pools = extents.iter().map(|extent| self.model.handles_of(extent.pool));
        let mut pools = pools.collect::<Vec<_>>().into_iter();
        let first = pools.next().unwrap_or_default();
        let all =
            first.iter().filter(|handle| pools.as_slice().iter().all(|it| it.contains(handle)));
        let all: Vec<u8> = all.copied().collect();
        // A write to a part that has not the handle goes to the part's first.
        if all.is_empty() { first.to_vec() } else { all }
    }

    /// The reclaim unit handles of a namespace that the configuration describes: those that it says, or
    /// all. `number` is that of its description, from 1, for errors.
    pub(crate) fn configured_handles(
        &self,
        number: usize,
        wanted: &[u8],
        extents: &[Extent],
    ) -> Result<Vec<u8>, SubsystemError> {
        if self.placement.is_none() && !wanted.is_empty() {
            return Err(SubsystemError::NoHandles(number));
        }
        if wanted.is_empty() {
            return Ok(self.all_handles(extents));
        }
        match self.can_have_handles(wanted, extents) {
            true => Ok(wanted.to_vec()),
            false => {
                let there = self.all_handles(extents);
                Err(SubsystemError::Handles { namespace: number, there })
            }
        }
    }
}
