//! Identify (Base 2.0, section 5.17).

use super::Context;
use crate::command_set::CommandSet;
use crate::controllers::events::REQUESTS_MAX;
use crate::controllers::{
    CRITICAL_TEMPERATURE_K, Controller, ENDURANCE_GROUP, ERROR_ENTRIES, Role, VENDOR_ID,
    WARNING_TEMPERATURE_K,
};
use crate::namespaces::{Format, Namespace, SECTOR_BYTES};
use crate::samsung::KeySpaces;
use crate::subsystem::key_value;
use crate::subsystem::nvm::{self, NAMESPACE_ALL, compare, copy};
use crate::subsystem::{Outcome, Subsystem};
use mynah_wire::fabrics::nqn_field;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::Identify;
use mynah_wire::nvme::feature::event as notice;
use mynah_wire::nvme::identify::{
    IDENTIFY_BYTES, IdentifyController, IdentifyIndependentNamespace, IdentifyNamespace,
    PrimaryCapabilities, ascii, cns, descriptor,
};
use mynah_wire::nvme::property::VERSION_2_0;
use zerocopy::IntoBytes;
use zerocopy::byteorder::little_endian::{U16, U32, U64, U128};

/// A locally administered OUI: Mynah has none of its own.
const OUI: [u8; 3] = [0x02, 0x4d, 0x59];
/// Minutes of an extended self-test.
pub(crate) const SELF_TEST_MINUTES: u16 = 2;
/// ANA group of all namespaces, and the endurance group.
pub(crate) const GROUP: u32 = ENDURANCE_GROUP as u32;

fn invalid() -> Status {
    Status::INVALID_FIELD.do_not_retry()
}

/// A list of identifiers as Identify returns it.
fn list(ids: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut bytes: Vec<u8> = ids.take(IDENTIFY_BYTES / 4).flat_map(u32::to_le_bytes).collect();
    bytes.resize(IDENTIFY_BYTES, 0);
    bytes
}

impl Subsystem {
    pub(super) fn identify(
        &self,
        context: Context<'_>,
        request: Identify,
    ) -> Result<Outcome, Status> {
        let controller = self.controllers.need(context.controller)?;
        let (what, id) = (request.structure, context.entry.namespace_id.get());
        let Identify { controller_id: of_controller, specific_id, .. } = request;
        if controller.role() == Role::Discovery && what != cns::CONTROLLER {
            return Err(invalid());
        }
        if let Some(data) = self.of_command_set(controller, id, request)? {
            return Ok(Outcome::Data(data));
        }
        let data = match what {
            cns::NAMESPACE if id == NAMESPACE_ALL => self.common_namespace(),
            cns::NAMESPACE => self.namespace_page(self.reported(context.controller, id)?),
            cns::CONTROLLER => self.controller_page(controller),
            cns::ACTIVE_NAMESPACES => {
                self.list_after(id, |namespace| namespace.is_attached(controller.id()))?
            }
            cns::NAMESPACE_DESCRIPTORS => {
                self.descriptors(self.namespaces.active(context.controller, id)?)
            }
            cns::INDEPENDENT_NAMESPACE => {
                let namespace = self.reported(context.controller, id)?;
                let left = namespace
                    .map_or(0, |namespace| self.admin.format_left(namespace.id(), self.now.wall));
                independent_namespace(namespace, left)
            }
            cns::ALLOCATED_NAMESPACES => self.list_after(id, |_| true)?,
            cns::ALLOCATED_NAMESPACE => self.namespace_page(self.existing(id)?),
            cns::NAMESPACE_CONTROLLERS => {
                let namespace = self.existing(id)?.ok_or(invalid())?;
                self.controller_list(of_controller, |it| namespace.is_attached(it.id()))
            }
            cns::CONTROLLERS => self.controller_list(of_controller, |_| true),
            cns::PRIMARY_CAPABILITIES => {
                let mut page = PrimaryCapabilities::default();
                page.controller_id.set(controller.id());
                page.port_id.set(controller.port() + 1);
                page.as_bytes().to_vec()
            }
            // No secondary controllers: an empty list.
            cns::SECONDARY_CONTROLLERS => vec![0; IDENTIFY_BYTES],
            cns::NAMESPACE_GRANULARITY => self.granularity(),
            cns::ENDURANCE_GROUPS => {
                let mut page = vec![0; IDENTIFY_BYTES];
                if specific_id <= GROUP as u16 {
                    page[0] = 1;
                    page[2] = GROUP as u8;
                }
                page
            }
            // A vector for each controller; the first combination is all that there are.
            cns::COMMAND_SETS => {
                let mut page = vec![0; IDENTIFY_BYTES];
                page[0] =
                    self.supported_sets().iter().fold(0, |all, set| all | 1 << set.identifier());
                page
            }
            _ => return Err(invalid()),
        };
        Ok(Outcome::Data(data))
    }

    /// What Identify returns that depends on the command set asked for; `None`: it is nothing of
    /// that kind.
    fn of_command_set(
        &self,
        controller: &Controller,
        id: u32,
        request: Identify,
    ) -> Result<Option<Vec<u8>>, Status> {
        let set = || self.supported_set(request.command_set);
        Ok(Some(match request.structure {
            cns::COMMAND_SET_NAMESPACE => {
                let namespace = set().and_then(|_| self.reported(controller.id(), id))?;
                self.namespace_page_of(set()?, namespace, controller)?
            }
            cns::COMMAND_SET_CONTROLLER => set()?.controller_page(),
            cns::COMMAND_SET_ACTIVE_NAMESPACES => {
                let set = set()?;
                let is_meant = |it: &Namespace| it.is_attached(controller.id());
                self.list_after(id, |it| it.command_set() == set && is_meant(it))?
            }
            cns::COMMAND_SET_ALLOCATED_NAMESPACES => {
                let set = set()?;
                self.list_after(id, |it| it.command_set() == set)?
            }
            cns::COMMAND_SET_ALLOCATED_NAMESPACE => {
                let namespace = set().and_then(|_| self.existing(id))?;
                self.namespace_page_of(set()?, namespace, controller)?
            }
            // That of blocks says the same of all formats.
            cns::COMMAND_SET_NAMESPACE_FORMAT if self.namespaces.can_hold_pairs() => {
                self.format_page(set()?, request.specific_id, controller)?
            }
            _ => return Ok(None),
        }))
    }

    /// What Identify says of a namespace for a command set.
    fn namespace_page_of(
        &self,
        set: CommandSet,
        namespace: Option<&Namespace>,
        controller: &Controller,
    ) -> Result<Vec<u8>, Status> {
        let Some(namespace) = namespace else { return Ok(vec![0; IDENTIFY_BYTES]) };
        if namespace.command_set() != set {
            return Err(Status::COMMAND_SET_INVALID.do_not_retry());
        }
        let Some(pairs) = namespace.pairs() else {
            return Ok(nvm::identify::namespace_page());
        };
        let value_max = pairs.value_max(controller.max_transfer_bytes());
        let mut page = key_value::identify::namespace_page(pairs, value_max);
        page.multipath = u8::from(namespace.is_shared());
        page.format_progress = 1 << 7 | self.admin.format_left(namespace.id(), self.now.wall);
        page.ana_group.set(GROUP);
        page.attributes = u8::from(namespace.protection() as u8 != 0);
        page.endurance_group.set(GROUP as u16);
        page.nguid = self.nguid(namespace);
        page.eui64 = self.eui64(namespace);
        Ok(page.as_bytes().to_vec())
    }

    /// What Identify says of a format of a command set.
    fn format_page(
        &self,
        set: CommandSet,
        index: u16,
        controller: &Controller,
    ) -> Result<Vec<u8>, Status> {
        let layout = self.namespaces.pair_space().layout();
        let layout = layout.filter(|_| set == CommandSet::KeyValue && index == 0);
        let layout = layout.ok_or(invalid())?;
        let value_max = layout.value_max(controller.max_transfer_bytes());
        Ok(key_value::identify::format_page(layout, value_max).as_bytes().to_vec())
    }

    /// A namespace as Identify reports it: inactive ones look empty, identifiers that cannot
    /// be are an error.
    fn reported(&self, controller: u16, id: u32) -> Result<Option<&Namespace>, Status> {
        Ok(self.existing(id)?.filter(|namespace| namespace.is_attached(controller)))
    }

    /// A namespace that exists, attached or not.
    fn existing(&self, id: u32) -> Result<Option<&Namespace>, Status> {
        match self.namespaces.can_have(id) {
            true => Ok(self.namespaces.with_id(id)),
            false => Err(Status::INVALID_NAMESPACE.do_not_retry()),
        }
    }

    fn list_after(
        &self,
        after: u32,
        which: impl Fn(&Namespace) -> bool,
    ) -> Result<Vec<u8>, Status> {
        if after >= 0xffff_fffe {
            return Err(Status::INVALID_NAMESPACE.do_not_retry());
        }
        let all = self.namespaces.iter();
        Ok(list(all.filter(|it| it.id() > after && which(it)).map(|it| it.id())))
    }

    fn controller_list(&self, from: u16, which: impl Fn(&Controller) -> bool) -> Vec<u8> {
        let all = self.controllers.iter();
        let ids: Vec<u16> = all
            .filter(|it| it.is_io() && it.id() >= from && which(it))
            .map(|it| it.id())
            .take(IDENTIFY_BYTES / 2 - 1)
            .collect();
        let mut bytes = (ids.len() as u16).to_le_bytes().to_vec();
        bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        bytes.resize(IDENTIFY_BYTES, 0);
        bytes
    }

    fn controller_page(&self, controller: &Controller) -> Vec<u8> {
        let limits = self.config.limits;
        let is_discovery = controller.role() == Role::Discovery;
        let mut page = IdentifyController {
            serial: ascii(&self.config.serial),
            model: ascii(&self.config.model_number),
            firmware: ascii(&self.config.firmware),
            ieee: [OUI[2], OUI[1], OUI[0]],
            max_transfer: (controller.max_transfer_bytes() / 4096).max(1).ilog2() as u8,
            controller_id: U16::new(controller.id()),
            version: U32::new(VERSION_2_0),
            controller_type: if is_discovery { 2 } else { 1 },
            // Get Log Page with offsets.
            log_attributes: 1 << 2,
            event_limit: REQUESTS_MAX as u8 - 1,
            error_entries: ERROR_ENTRIES as u8 - 1,
            keep_alive_granularity: U16::new(
                (crate::subsystem::fabrics::KEEP_ALIVE_GRANULARITY_MS / 100) as u16,
            ),
            commands_max: U16::new(
                controller.entries_max(limits.queue_entries_max).min(65_535) as u16
            ),
            // Supported without alignment (1:0), offsets (20), and keyed data blocks (2) or those of
            // the transport (21).
            sgl: U32::new(1 | 1 << 20 | if controller.is_over_rdma() { 1 << 2 } else { 1 << 21 }),
            command_capsule: U32::new((64 + controller.in_capsule_bytes()) / 16),
            response_capsule: U32::new(1),
            sgl_blocks_max: 1,
            // Disconnect.
            optional_fabrics: U16::new(1),
            // 128-bit host identifiers (0), keep-alive by traffic (6).
            attributes: U32::new(1 | 1 << 6),
            ..Default::default()
        };
        if controller.is_guests() {
            self.guests_controller(&mut page);
        }
        let nqn = if is_discovery {
            page.optional_events.set(notice::DISCOVERY_CHANGED);
            page.discovery_type = 1;
            mynah_wire::fabrics::DISCOVERY_NQN
        } else {
            self.io_controller(&mut page);
            if controller.is_guests() && !self.model.can_fuse(self.config.timing) {
                page.fused.set(0);
            }
            if controller.has_shadow_doorbells() {
                // Doorbell Buffer Config (8).
                page.optional_admin.set(page.optional_admin.get() | 1 << 8);
            }
            &self.config.nqn
        };
        page.subsystem_nqn = nqn_field(nqn).unwrap_or([0; 256]);
        page.as_bytes().to_vec()
    }

    /// What is different where queues lie in guest memory.
    fn guests_controller(&self, page: &mut IdentifyController) {
        page.vendor_id.set(VENDOR_ID);
        page.subsystem_vendor_id.set(VENDOR_ID);
        // Supported without alignment (1:0), bit buckets (16), more room than data (18).
        page.sgl.set(1 | 1 << 16 | 1 << 18);
        page.command_capsule.set(0);
        page.response_capsule.set(0);
        page.sgl_blocks_max = 0;
        page.optional_fabrics.set(0);
    }

    /// What only an I/O controller has.
    fn io_controller(&self, page: &mut IdentifyController) {
        let limits = self.config.limits;
        // Several controllers (1) and ports (0), ANA (3).
        let several_ports = self.config.ports.len() > 1 || self.config.shard.of > 1;
        page.multipath = 1 << 1 | 1 << 3 | u8::from(several_ports);
        page.optional_events.set(notice::NAMESPACE_CHANGED | notice::ANA_CHANGED);
        // Endurance groups (4), data placement (19).
        page.attributes.set(1 | 1 << 4 | 1 << 6 | u32::from(self.has_placement()) << 19);
        // Supported log pages (5), offsets (2), effects (1).
        page.log_attributes = 1 << 5 | 1 << 2 | 1 << 1;
        page.warning_temperature.set(WARNING_TEMPERATURE_K);
        page.critical_temperature.set(CRITICAL_TEMPERATURE_K);
        page.total_capacity = U128::new(u128::from(self.capacity_bytes()));
        page.unallocated_capacity = U128::new(u128::from(self.unallocated_bytes()));
        page.endurance_group_max.set(GROUP as u16);
        page.endurance_group_capacity_max = page.total_capacity;
        page.ana_transition_time = 10;
        // All states (4:0), the group of a namespace never changes (6).
        page.ana_capabilities = 0x1f | 1 << 6;
        page.ana_group_max.set(GROUP);
        page.ana_groups.set(1);
        page.submission_entry = 0x66;
        page.completion_entry = 0x44;
        page.namespaces.set(limits.namespaces_max);
        page.namespaces_max.set(limits.namespaces_max);
        page.optional_commands.set(nvm::identify::optional_commands());
        // Compare and Write.
        page.fused.set(1);
        // Present (0), and Flush takes all namespaces (2:1).
        page.volatile_write_cache = 0b110 | u8::from(self.has_volatile_cache());
        // Write protection, and until a power cycle.
        page.write_protection = 0b11;
        page.copy_formats.set(1);
        // Format (1), firmware (2), namespace management (3), self-test (4), directives (5).
        page.optional_admin.set(0b1_1110 | u16::from(self.has_placement()) << 5);
        page.abort_limit = super::abort::LIMIT;
        page.firmware_updates = super::firmware::UPDATES;
        page.firmware_granularity = 0xff;
        // Crypto erase by Format (2).
        page.format_attributes = 1 << 2;
        page.sanitize.set(super::sanitize::CAPABILITIES);
        page.self_test_minutes.set(SELF_TEST_MINUTES);
        // One self-test at a time.
        page.self_test_options = 1;
    }

    /// Namespace fields that do not depend on the namespace.
    fn common_namespace(&self) -> Vec<u8> {
        let page = IdentifyNamespace { ..self.namespace_template() };
        page.as_bytes().to_vec()
    }

    fn namespace_template(&self) -> IdentifyNamespace {
        IdentifyNamespace {
            formats: crate::namespaces::FORMATS.len() as u8 - 1,
            metadata_capabilities: 1,
            // Types 1, 2, 3; in the first or last bytes, which is all of them.
            protection_capabilities: 0b1_1111,
            lba_formats: Format::lba_formats(),
            // Persistence through power loss (0), all types (6:1), IEKEY as of version 1.3 (7).
            reservations: 0xff,
            // Zeros (2:0), Write Zeroes may deallocate (3).
            deallocate_features: 0b1001,
            copy_range_max: U16::new(copy::RANGE_BLOCKS_MAX),
            copy_max: U32::new(copy::BLOCKS_MAX),
            copy_ranges_max: copy::RANGES_MAX as u8 - 1,
            ..Default::default()
        }
    }

    fn namespace_page(&self, namespace: Option<&Namespace>) -> Vec<u8> {
        let Some(namespace) = namespace else { return vec![0; IDENTIFY_BYTES] };
        if let Some(pairs) = namespace.pairs() {
            return self.pairs_page(namespace, pairs.bytes(), pairs.used_bytes());
        }
        if let Some(pairs) = namespace.key_spaces().map(KeySpaces::pairs) {
            return self.pairs_page(namespace, pairs.bytes(), pairs.used_bytes());
        }
        let per_unit =
            self.namespaces.space().unit_sectors().div_ceil(namespace.format().block_sectors());
        let granularity = U16::new((per_unit - 1).min(0xffff) as u16);
        let mut page = IdentifyNamespace {
            size: U64::new(namespace.blocks()),
            capacity: U64::new(namespace.blocks()),
            utilisation: U64::new(namespace.blocks()),
            // Own atomic sizes (1), preferred granularities (4).
            features: 1 << 1 | 1 << 4,
            format: namespace.format().index() | u8::from(namespace.format().metadata > 0) << 4,
            protection: namespace.format().protection,
            multipath: u8::from(namespace.is_shared()),
            atomic_compare_write: U16::new(compare::COMPARE_AND_WRITE_BLOCKS_MAX as u16 - 1),
            bytes: U128::new(u128::from(namespace.space())),
            write_granularity: granularity,
            write_alignment: granularity,
            deallocate_granularity: granularity,
            deallocate_alignment: granularity,
            // A multiple of NPWG; larger writes are no better.
            optimal_write: granularity,
            ana_group: U32::new(GROUP),
            attributes: u8::from(namespace.protection() as u8 != 0),
            endurance_group: U16::new(GROUP as u16),
            format_progress: 1 << 7 | self.admin.format_left(namespace.id(), self.now.wall),
            nguid: self.nguid(namespace),
            eui64: self.eui64(namespace),
            ..self.namespace_template()
        };
        page.lba_formats = Format::lba_formats();
        page.as_bytes().to_vec()
    }

    /// A namespace of pairs, as one of blocks of 512 bytes. The Key Value command set has no such page,
    /// but its hosts ask for it first: SPDK fails the whole controller at an error, and takes a namespace
    /// without capacity (NCAP) for one that is not active (`nvme_ctrlr_identify_ns_async_done`,
    /// `spdk_nvme_ns_is_active`). Hosts of Samsung's set read size and use from it
    /// (`KADI::get_freespace` of OpenMPDK).
    fn pairs_page(&self, namespace: &Namespace, bytes: u64, used: u64) -> Vec<u8> {
        let blocks = (bytes / SECTOR_BYTES).max(1);
        let page = IdentifyNamespace {
            size: U64::new(blocks),
            capacity: U64::new(blocks),
            utilisation: U64::new(used.div_ceil(SECTOR_BYTES).min(blocks)),
            multipath: u8::from(namespace.is_shared()),
            bytes: U128::new(u128::from(bytes)),
            reservations: 0xff,
            ana_group: U32::new(GROUP),
            attributes: u8::from(namespace.protection() as u8 != 0),
            endurance_group: U16::new(GROUP as u16),
            format_progress: 1 << 7 | self.admin.format_left(namespace.id(), self.now.wall),
            nguid: self.nguid(namespace),
            eui64: self.eui64(namespace),
            // One format, of 512 bytes.
            lba_formats: Format::lba_formats(),
            ..Default::default()
        };
        page.as_bytes().to_vec()
    }

    fn descriptors(&self, namespace: &Namespace) -> Vec<u8> {
        let mut page = Vec::with_capacity(IDENTIFY_BYTES);
        let mut add = |kind: u8, bytes: &[u8]| {
            page.extend_from_slice(&[kind, bytes.len() as u8, 0, 0]);
            page.extend_from_slice(bytes);
        };
        add(descriptor::EUI64, &self.eui64(namespace));
        add(descriptor::NGUID, &self.nguid(namespace));
        add(descriptor::UUID, &self.uuid(namespace));
        add(descriptor::COMMAND_SET, &[namespace.command_set().identifier()]);
        page.resize(IDENTIFY_BYTES, 0);
        page
    }

    /// Bytes that name a namespace: the same for the same subsystem, identifier and birth.
    fn name(&self, namespace: &Namespace, salt: u8) -> [u8; 16] {
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        let numbers = [namespace.id(), namespace.serial()];
        let tail = numbers.iter().flat_map(|number| number.to_le_bytes());
        for byte in self.config.nqn.bytes().chain(tail).chain([salt]) {
            // FNV-1a with 128 bits.
            hash ^= u128::from(byte);
            hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        hash.to_be_bytes()
    }

    fn nguid(&self, namespace: &Namespace) -> [u8; 16] {
        // Vendor extension, OUI, extension.
        let mut guid = self.name(namespace, 1);
        guid[8..11].copy_from_slice(&OUI);
        guid
    }

    fn eui64(&self, namespace: &Namespace) -> [u8; 8] {
        let name = self.name(namespace, 2);
        let mut eui = [0; 8];
        eui[..3].copy_from_slice(&OUI);
        eui[3..].copy_from_slice(&name[..5]);
        eui
    }

    fn uuid(&self, namespace: &Namespace) -> [u8; 16] {
        let mut uuid = self.name(namespace, 3);
        // Version 8 (made by its own rules), variant of RFC 9562.
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }

    /// The namespace granularity list: namespaces are whole grains of the drive's space.
    fn granularity(&self) -> Vec<u8> {
        let grain = (self.namespaces.space().grain() * SECTOR_BYTES).to_le_bytes();
        let mut page = vec![0; IDENTIFY_BYTES];
        // One descriptor for all formats.
        page[32..40].copy_from_slice(&grain);
        page[40..48].copy_from_slice(&grain);
        page
    }
}

fn independent_namespace(namespace: Option<&Namespace>, format_left: u8) -> Vec<u8> {
    let Some(namespace) = namespace else { return vec![0; IDENTIFY_BYTES] };
    let page = IdentifyIndependentNamespace {
        multipath: u8::from(namespace.is_shared()),
        // Persistence through power loss (0), all types (6:1), IEKEY as of version 1.3 (7).
        reservations: 0xff,
        format_progress: 1 << 7 | format_left,
        ana_group: U32::new(GROUP),
        attributes: u8::from(namespace.protection() as u8 != 0),
        endurance_group: U16::new(GROUP as u16),
        status: 1,
        ..Default::default()
    };
    page.as_bytes().to_vec()
}
