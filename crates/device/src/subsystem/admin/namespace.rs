//! Namespace Management and Namespace Attachment (Base 2.0, sections 5.23 and 5.22).

use super::{Context, format};
use crate::command_set::CommandSet;
use crate::controllers::Controller;
use crate::namespaces::ControllerSet;
use crate::output::CommandKind;
use crate::subsystem::commands::Work;
use crate::subsystem::nvm::NAMESPACE_ALL;
use crate::subsystem::{Outcome, Subsystem};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{NamespaceManagement, NamespaceSelect};
use mynah_wire::nvme::identify::{IdentifyKeyValueNamespace, IdentifyNamespace};
use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::U16;

/// Most identifiers of a controller list.
const LIST_MAX: u16 = 2047;

fn invalid() -> Status {
    Status::INVALID_FIELD.do_not_retry()
}

impl Subsystem {
    pub(super) fn namespace_management(
        &mut self,
        context: Context<'_>,
        request: NamespaceManagement,
    ) -> Result<Outcome, Status> {
        let set = self.supported_set(request.command_set)?;
        match (request.select, set) {
            (NamespaceSelect::Create, CommandSet::KeyValue) => self.create_of_pairs_wished(context),
            (NamespaceSelect::Create, CommandSet::Nvm) => self.create_namespace(context),
            (NamespaceSelect::Delete, _) => self.delete_namespaces(context),
            (NamespaceSelect::Reserved(_), _) => Err(invalid()),
        }
    }

    fn create_namespace(&mut self, context: Context<'_>) -> Result<Outcome, Status> {
        let (wish, _) = IdentifyNamespace::ref_from_prefix(context.data)
            .map_err(|_| Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?;
        let index = wish.format & 0xf | wish.format >> 1 & 0x30;
        let extended = wish.format & 1 << 4 != 0;
        let block_format = format::format(index, extended, wish.protection & 7)?;
        let blocks = wish.size.get();
        if blocks == 0 || wish.capacity.get() > blocks || wish.multipath > 1 {
            return Err(invalid());
        }
        if wish.capacity.get() != blocks {
            return Err(Status::THIN_PROVISIONING_UNSUPPORTED.do_not_retry());
        }
        if wish.ana_group.get() > 1 || wish.endurance_group.get() > 1 || wish.nvm_set.get() > 0 {
            return Err(invalid());
        }
        let at = self.free_place()?;
        let insufficient = Status::NAMESPACE_INSUFFICIENT_CAPACITY.do_not_retry();
        let bytes = blocks.checked_mul(1 << block_format.shift).ok_or(insufficient)?;
        let extents = self.namespaces.space_mut().take(bytes).ok_or(insufficient)?;
        let (id, shared) = (at as u32 + 1, wish.multipath & 1 != 0);
        let nobody = ControllerSet::none();
        let (handles, are_chosen) = match self.wished_handles(context.data, &extents, block_format)
        {
            Ok(wished) => wished,
            Err(status) => {
                self.namespaces.space_mut().give_back(&extents);
                return Err(status);
            }
        };
        let mut namespace = self.namespaces.make(id, extents, block_format, nobody, shared);
        namespace.set_blocks(blocks);
        namespace.set_handles(handles, are_chosen);
        // There is room for as many namespaces as there may be, each in one run and attached to
        // somebody, but marks of blocks and reservations take of the same.
        if !self.can_describe(&namespace) {
            self.namespaces.space_mut().give_back(namespace.extents());
            return Err(Status::INTERNAL_ERROR);
        }
        self.namespaces.insert(namespace);
        Ok(Outcome::OncePersistent(u64::from(id)))
    }

    /// The index that a new namespace gets: the lowest that is free.
    fn free_place(&self) -> Result<usize, Status> {
        let places = self.config.shard.ids().map(|id| id - 1);
        let mut places = places.take_while(|at| *at < self.namespaces.places());
        let place = places.find(|at| self.namespaces.get(*at).is_none());
        place.ok_or(Status::NAMESPACE_ID_UNAVAILABLE.do_not_retry())
    }

    /// A namespace of pairs, which is all of one that the model has for pairs: the smallest that is
    /// not used and has as many bytes as wished.
    fn create_of_pairs_wished(&mut self, context: Context<'_>) -> Result<Outcome, Status> {
        let (wish, _) = IdentifyKeyValueNamespace::ref_from_prefix(context.data)
            .map_err(|_| Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?;
        let bytes = wish.size.get();
        if bytes == 0 || wish.multipath > 1 {
            return Err(invalid());
        }
        if wish.format & 0xf != 0 {
            return Err(Status::FORMAT_INVALID.do_not_retry());
        }
        if wish.ana_group.get() > 1 || wish.endurance_group.get() > 1 || wish.nvm_set.get() > 0 {
            return Err(invalid());
        }
        let (at, shared) = (self.free_place()?, wish.multipath & 1 != 0);
        let pairs = self.namespaces.unused_pairs(|its| its >= bytes);
        let mut pairs = pairs.ok_or(Status::NAMESPACE_INSUFFICIENT_CAPACITY.do_not_retry())?;
        if self.media.keeps_replaced() {
            pairs.expect_power_cut();
        }
        let (id, nobody) = (at as u32 + 1, ControllerSet::none());
        let namespace = self.namespaces.make_of_pairs(id, pairs, nobody, shared);
        if !self.can_describe(&namespace) {
            return Err(Status::INTERNAL_ERROR);
        }
        self.namespaces.insert(namespace);
        Ok(Outcome::OncePersistent(u64::from(id)))
    }

    fn delete_namespaces(&mut self, context: Context<'_>) -> Result<Outcome, Status> {
        let ids: Vec<u32> = match context.entry.namespace_id.get() {
            NAMESPACE_ALL => self.namespaces.iter().map(|it| it.id()).collect(),
            id => vec![id],
        };
        for &id in &ids {
            let namespace = self.namespaces.with_id(id);
            let namespace = namespace.ok_or(Status::INVALID_NAMESPACE.do_not_retry())?;
            self.may_be_emptied(namespace, context.controller)?;
        }
        let index = self.begin_whole(context.queue, context.entry, CommandKind::Admin, 0);
        let mut extents = Vec::new();
        for id in ids {
            let at = id as usize - 1;
            self.erase_namespace(index, at);
            self.namespace_changed(id);
            if let Some(namespace) = self.namespaces.remove(at) {
                extents.extend_from_slice(namespace.extents());
            }
            self.overtake(at, Some(index), Status::INVALID_NAMESPACE.do_not_retry());
        }
        if let Some(command) = self.commands.get_mut(index) {
            command.set_work(Work::Release(extents));
        }
        self.describe();
        let ready = self.flush_store();
        self.wait_for(index, ready);
        self.start(index);
        Ok(Outcome::Later)
    }

    pub(super) fn namespace_attachment(
        &mut self,
        context: Context<'_>,
        attaches: bool,
    ) -> Result<Outcome, Status> {
        let id = context.entry.namespace_id.get();
        if id == NAMESPACE_ALL {
            return Err(invalid());
        }
        let bad_list = Status::CONTROLLER_LIST_INVALID.do_not_retry();
        let short = Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
        let (count, rest) = U16::read_from_prefix(context.data).map_err(|_| short)?;
        if !(1..=LIST_MAX).contains(&count.get()) {
            return Err(bad_list);
        }
        let (list, _) = <[U16]>::ref_from_prefix_with_elems(rest, usize::from(count.get()))
            .map_err(|_| short)?;
        let namespace = self.namespaces.with_id(id);
        let namespace = namespace.ok_or(Status::INVALID_NAMESPACE.do_not_retry())?;
        let mut seen = Vec::with_capacity(list.len());
        for controller in list.iter().map(|controller| controller.get()) {
            let exists = self.controllers.get(controller).is_some_and(Controller::is_io);
            if !exists || seen.contains(&controller) {
                return Err(bad_list);
            }
            match (attaches, namespace.is_attached(controller)) {
                (true, true) => return Err(Status::NAMESPACE_ALREADY_ATTACHED.do_not_retry()),
                (false, false) => return Err(Status::NAMESPACE_NOT_ATTACHED.do_not_retry()),
                _ => seen.push(controller),
            }
        }
        if attaches
            && !namespace.is_shared()
            && (seen.len() > 1 || !namespace.attached().is_empty())
        {
            return Err(Status::NAMESPACE_PRIVATE.do_not_retry());
        }
        // Two bytes for each in what is kept.
        if !self.can_describe_more(2 * seen.len()) {
            return Err(Status::INTERNAL_ERROR);
        }
        let Some(namespace) = self.namespaces.with_id_mut(id) else {
            return Err(Status::INTERNAL_ERROR);
        };
        for &controller in &seen {
            namespace.attach(controller, attaches);
        }
        for controller in seen {
            self.namespace_changed_for(controller, id);
        }
        Ok(Outcome::OncePersistent(0))
    }

    /// Bytes that lie in namespaces.
    pub fn allocated_bytes(&self) -> u64 {
        self.capacity_bytes() - self.unallocated_bytes()
    }

    /// Bytes that there are for namespaces.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.media.data_bytes() + self.namespaces.bytes_for_pairs().0
    }

    /// Bytes of the drive that no namespace has (UNVMCAP).
    pub(super) fn unallocated_bytes(&self) -> u64 {
        self.namespaces.space().free_bytes() + self.namespaces.bytes_for_pairs().1
    }
}
