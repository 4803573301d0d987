//! Get Log Page (Base 2.0, section 5.16).

use super::warnings::SPARE_THRESHOLD;
use super::{Context, identify};
use crate::command_set::{CommandSet, effect};
use crate::controllers::{
    CHANGED_NAMESPACES, Controller, ERROR_ENTRIES, ErrorLog, Role, TEMPERATURE_K,
};
use crate::namespaces::SECTOR_BYTES;
use crate::samsung;
use crate::subsystem::nvm::NAMESPACE_ALL;
use crate::subsystem::{Outcome, Subsystem};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::GetLogPage;
use mynah_wire::nvme::feature::id;
use mynah_wire::nvme::identify::ascii;
use mynah_wire::nvme::log::{
    AnaGroup, AnaHeader, EnduranceGroup, ErrorEntry, FirmwareSlots, MynahDrive, Smart, page,
};
use mynah_wire::nvme::opcode::{admin, query};
use mynah_wire::nvme::samsung::page as vendor;
use zerocopy::IntoBytes;
use zerocopy::byteorder::little_endian::U128;

/// Log pages of I/O controllers.
const PAGES: [u8; 14] = [
    page::SUPPORTED_LOG_PAGES,
    page::ERROR_INFORMATION,
    page::SMART,
    page::FIRMWARE_SLOT,
    page::CHANGED_NAMESPACES,
    page::COMMANDS_SUPPORTED,
    page::ENDURANCE_GROUP,
    page::ANA,
    page::FEATURES_SUPPORTED,
    page::RESERVATION_NOTIFICATION,
    page::SELF_TEST,
    page::SANITIZE_STATUS,
    page::MYNAH_DRIVE,
    page::MYNAH_LATENESS,
];

/// Those that there are beside them with data placement: OCP's SMART page has the place of Mynah's own
/// then.
const PLACEMENT_PAGES: [u8; 5] = [
    page::PLACEMENT_CONFIGURATIONS,
    page::HANDLE_USAGE,
    page::PLACEMENT_STATISTICS,
    page::PLACEMENT_EVENTS,
    page::MYNAH_DRIVE_BESIDE_OCP,
];

impl Subsystem {
    pub(super) fn log_page(
        &mut self,
        context: Context<'_>,
        request: GetLogPage,
    ) -> Result<Outcome, Status> {
        let invalid = Status::INVALID_FIELD.do_not_retry();
        let GetLogPage { bytes, offset, .. } = request;
        let slot = self.queues.get(context.queue).ok_or(Status::INTERNAL_ERROR)?;
        if bytes > u64::from(slot.transport().max_transfer_bytes) {
            return Err(invalid);
        }
        if request.page == page::MYNAH_PROFILE && self.has_profile_page(context.controller)? {
            self.query_page(context.queue, context.entry, request)?;
            return Ok(Outcome::Later);
        }
        let page = self.page(context, request)?;
        if offset > page.len() as u64 {
            return Err(invalid);
        }
        if !request.retains_event {
            self.page_read(context.controller, request.page);
        }
        // What lies behind a page's end is zero.
        let mut data: Vec<u8> =
            page[offset as usize..].iter().copied().take(bytes as usize).collect();
        data.resize(bytes as usize, 0);
        Ok(Outcome::Data(data))
    }

    /// Whether a controller has the page that whoever serves it answers.
    fn has_profile_page(&self, id: u16) -> Result<bool, Status> {
        let controller = self.controllers.need(id)?;
        Ok(controller.role() != Role::Discovery && !controller.is_guests())
    }

    /// The log page from its first byte on, whatever part of it is asked for.
    fn page(&mut self, context: Context<'_>, request: GetLogPage) -> Result<Vec<u8>, Status> {
        let unknown = Status::LOG_PAGE_INVALID.do_not_retry();
        let controller = self.controllers.need(context.controller)?;
        let is_discovery = controller.role() == Role::Discovery;
        let namespace = context.entry.namespace_id.get();
        let keeps_event = request.retains_event;
        match request.page {
            page::SUPPORTED_LOG_PAGES => {
                Ok(self.supported_pages(is_discovery, controller.is_guests()))
            }
            page::ERROR_INFORMATION => Ok(errors(self.controllers.errors(controller.role()))),
            page::DISCOVERY if is_discovery => {
                let (host, local) = (controller.host_nqn().to_owned(), controller.local());
                Ok(self.discovery_page(&host, local))
            }
            _ if is_discovery => Err(unknown),
            page::SMART if !matches!(namespace, 0 | NAMESPACE_ALL) => {
                Err(Status::INVALID_FIELD.do_not_retry())
            }
            page::SMART => Ok(self.smart(controller)),
            page::FIRMWARE_SLOT => {
                let mut slots = FirmwareSlots { active: 1, ..Default::default() };
                slots.revisions[0] = ascii(&self.config.firmware);
                Ok(slots.as_bytes().to_vec())
            }
            page::CHANGED_NAMESPACES => self.changed_namespaces(context.controller, keeps_event),
            page::COMMANDS_SUPPORTED => {
                let set = match self.namespaces.can_hold_pairs() {
                    true => self.supported_set(request.command_set)?,
                    false => CommandSet::Nvm,
                };
                let spaces = self.namespaces.key_spaces();
                let spaces = spaces.is_some_and(|it| it.is_attached(context.controller));
                Ok(effects(controller, set, spaces, self.placement.is_some()))
            }
            page::FEATURES_SUPPORTED => Ok(features(&self.supported_features())),
            page::ENDURANCE_GROUP if request.specific_id == identify::GROUP as u16 => {
                Ok(self.endurance_group())
            }
            page::ENDURANCE_GROUP => Err(Status::INVALID_FIELD.do_not_retry()),
            page::ANA => Ok(self.ana(context.controller, request.specific)),
            page::SELF_TEST => Ok(self.self_test_page()),
            page::SANITIZE_STATUS => Ok(self.sanitize_page()),
            page::PLACEMENT_CONFIGURATIONS..=page::PLACEMENT_EVENTS => self.placement_page(request),
            page::OCP_SMART if self.has_placement() => Ok(self.ocp_smart()),
            page::MYNAH_DRIVE => Ok(self.drive_page()),
            page::MYNAH_DRIVE_BESIDE_OCP if self.has_placement() => Ok(self.drive_page()),
            page::MYNAH_LATENESS => Ok(self.lateness.page()),
            vendor::ITERATORS | vendor::WRITE_AMPLIFICATION => {
                let spaces = self.namespaces.key_spaces();
                let spaces = spaces.filter(|it| it.is_attached(context.controller));
                let spaces = spaces.and_then(|it| it.key_spaces()).ok_or(unknown)?;
                let amplification = self.model.drive().counters().write_amplification();
                Ok(match request.page {
                    vendor::ITERATORS => samsung::iterators_page(spaces),
                    _ => samsung::write_amplification_page(amplification.unwrap_or(0.0)),
                })
            }
            page::RESERVATION_NOTIFICATION => self.notification(context.controller, keeps_event),
            _ => Err(unknown),
        }
    }

    fn supported_pages(&self, is_discovery: bool, is_guests: bool) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        let discovery = [page::SUPPORTED_LOG_PAGES, page::ERROR_INFORMATION, page::DISCOVERY];
        let pages: &[u8] = if is_discovery { &discovery } else { &PAGES };
        let vendors: &[u8] = match self.namespaces.key_spaces() {
            Some(_) if !is_discovery => &[vendor::ITERATORS, vendor::WRITE_AMPLIFICATION],
            _ => &[],
        };
        let profile: &[u8] = match is_discovery || is_guests {
            true => &[],
            false => &[page::MYNAH_PROFILE],
        };
        let placement: &[u8] = match self.has_placement() && !is_discovery {
            true => &PLACEMENT_PAGES,
            false => &[],
        };
        for &page in pages.iter().chain(vendors).chain(profile).chain(placement) {
            bytes[usize::from(page) * 4] = 1;
        }
        bytes
    }

    fn smart(&self, controller: &Controller) -> Vec<u8> {
        let (health, counts) = (&self.health, self.health.counts());
        let hours = health.on_ms(self.now.wall) / (3600 * 1000);
        let media = self.wear();
        let is_hot = controller.features().temperature_warns();
        let mut smart = Smart {
            critical_warning: u8::from(is_hot) << 1 | media.warning,
            available_spare: media.spare,
            spare_threshold: SPARE_THRESHOLD,
            percentage_used: media.used,
            data_units_read: U128::new(u128::from(counts.sectors_read.div_ceil(1000))),
            data_units_written: U128::new(u128::from(counts.sectors_written.div_ceil(1000))),
            host_reads: U128::new(u128::from(counts.reads)),
            host_writes: U128::new(u128::from(counts.writes)),
            busy_minutes: U128::new(u128::from(health.busy_ms(self.now.wall) / (60 * 1000))),
            // The first power-on counts.
            power_cycles: U128::new(u128::from(counts.power_cycles) + 1),
            power_on_hours: U128::new(u128::from(hours)),
            unsafe_shutdowns: U128::new(u128::from(counts.unsafe_shutdowns)),
            media_errors: U128::new(u128::from(counts.media_errors)),
            error_entries: U128::new(u128::from(self.controllers.errors(Role::Io).count())),
            ..Default::default()
        };
        smart.temperature.set(TEMPERATURE_K);
        smart.as_bytes().to_vec()
    }

    fn endurance_group(&self) -> Vec<u8> {
        const BILLION: u128 = 1_000_000_000;
        let (health, counters) = (&self.health, self.model.drive().counters());
        let counts = health.counts();
        let sectors = |count: u64| (u128::from(count) * u128::from(SECTOR_BYTES)).div_ceil(BILLION);
        let media = u128::from(counters.flash_bytes_programmed());
        let capacity = u128::from(self.media.data_bytes());
        let errors = self.controllers.errors(Role::Io).count();
        let wear = self.wear();
        // Blocks that only serve an SLC cache hold none of what they have taken in the end.
        let blocks = [counters.wear.native().blocks, counters.wear.blocks.max(1)].map(u128::from);
        let native = u128::from(self.model.config().geometry.raw_bytes()) * blocks[0] / blocks[1];
        // With data placement what is amplified is compared with it, so it is counted by the same.
        let written = match self.has_placement() {
            true => u128::from(counters.host_bytes_written).div_ceil(BILLION),
            false => sectors(counts.sectors_written),
        };
        let mut group = EnduranceGroup {
            // The group's bits are where SMART has them.
            critical_warning: wear.warning,
            available_spare: wear.spare,
            spare_threshold: SPARE_THRESHOLD,
            percentage_used: wear.used,
            endurance_estimate: U128::new(native * u128::from(wear.endured) / BILLION),
            data_units_read: U128::new(sectors(counts.sectors_read)),
            data_units_written: U128::new(written),
            media_units_written: U128::new(media.div_ceil(BILLION)),
            host_reads: U128::new(u128::from(counts.reads)),
            host_writes: U128::new(u128::from(counts.writes)),
            media_errors: U128::new(u128::from(counts.media_errors)),
            error_entries: U128::new(u128::from(errors)),
            total_capacity: U128::new(capacity),
            unallocated_capacity: U128::new(u128::from(self.namespaces.space().free_bytes())),
            ..Default::default()
        };
        group.domain.set(0);
        group.as_bytes().to_vec()
    }

    /// Mynah's own log page: what the model has counted.
    fn drive_page(&self) -> Vec<u8> {
        let counters = self.model.drive().counters();
        let mut page = MynahDrive::default();
        page.version.set(1);
        // Times a thousand; 0 before anything was written.
        let amplification = counters.write_amplification().unwrap_or(0.0);
        page.write_amplification_milli.set((amplification * 1000.0) as u32);
        for (field, value) in [
            (&mut page.host_units_written, counters.host_units_written),
            (&mut page.flash_units_programmed, counters.flash_units_programmed),
            (&mut page.gc_units_moved, counters.gc_units_moved),
            (&mut page.gc_runs, counters.gc_runs),
            (&mut page.erases, counters.erases),
            (&mut page.erases_max, u64::from(counters.block_erases_max)),
            (&mut page.flash_reads, counters.flash_reads),
            (&mut page.flash_programs, counters.flash_programs),
            (&mut page.cmt_hits, counters.cmt_hits),
            (&mut page.cmt_lookups, counters.cmt_lookups),
            (&mut page.cache_hits, counters.cache_hits),
            (&mut page.cache_lookups, counters.cache_lookups),
            (&mut page.units_lost, counters.units_lost),
        ] {
            field.set(value);
        }
        page.unit_bytes.set(self.model.config().mapping.unit_bytes);
        page.as_bytes().to_vec()
    }

    fn changed_namespaces(&mut self, id: u16, keeps_event: bool) -> Result<Vec<u8>, Status> {
        let controller = self.controllers.need_mut(id)?;
        let mut page = Vec::with_capacity(CHANGED_NAMESPACES * 4);
        match controller.changed() {
            Some(list) => {
                let mut list = list.to_vec();
                list.sort_unstable();
                page.extend(list.iter().flat_map(|id| id.to_le_bytes()));
            }
            None => page.extend(NAMESPACE_ALL.to_le_bytes()),
        }
        page.resize(CHANGED_NAMESPACES * 4, 0);
        if !keeps_event {
            controller.forget_changed();
        }
        Ok(page)
    }

    fn notification(&mut self, id: u16, keeps_event: bool) -> Result<Vec<u8>, Status> {
        let controller = self.controllers.need_mut(id)?;
        let page = controller.next_notification(keeps_event).unwrap_or_default();
        Ok(page.as_bytes().to_vec())
    }

    /// The ANA log: one group, with every namespace that is attached to the controller.
    fn ana(&self, controller: u16, specific: u8) -> Vec<u8> {
        // RGO: groups only, without namespaces.
        let groups_only = specific & 1 != 0;
        let mut header = AnaHeader::default();
        let (state, changes) = self.controllers.ana(controller);
        header.change_count.set(changes);
        header.groups.set(1);
        let ids: Vec<u32> = self
            .namespaces
            .iter()
            .filter(|it| !groups_only && it.is_attached(controller))
            .map(|it| it.id())
            .collect();
        let mut group = AnaGroup { state: state as u8, ..Default::default() };
        group.group.set(identify::GROUP);
        group.namespaces.set(ids.len() as u32);
        group.change_count.set(changes);
        let mut page = header.as_bytes().to_vec();
        page.extend_from_slice(group.as_bytes());
        page.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        page
    }
}

/// As many entries as Identify Controller says (ELPE); those of no error are zero.
fn errors(log: &ErrorLog) -> Vec<u8> {
    let mut page: Vec<u8> = log.entries().flat_map(|entry| entry.as_bytes().to_vec()).collect();
    page.resize(ERROR_ENTRIES * size_of::<ErrorEntry>(), 0);
    page
}

/// Effects of commands; those of Samsung's set are among them where it is spoken, because hosts take
/// its namespace for one of blocks.
fn effects(
    controller: &Controller,
    set_of_commands: CommandSet,
    has_key_spaces: bool,
    has_placement: bool,
) -> Vec<u8> {
    use effect::{ALONE, BLOCKS, INVENTORY, NAMESPACE, SUPPORTED};
    let mut page = vec![0; 4096];
    let mut set = |at: usize, opcode: u8, effects: u32| {
        let at = at + usize::from(opcode) * 4;
        page[at..at + 4].copy_from_slice(&(SUPPORTED | effects).to_le_bytes());
    };
    for (opcode, effects) in [
        (admin::GET_LOG_PAGE, 0),
        (admin::IDENTIFY, 0),
        (admin::ABORT, 0),
        (admin::SET_FEATURES, 0),
        (admin::GET_FEATURES, 0),
        (admin::ASYNCHRONOUS_EVENT_REQUEST, 0),
        (admin::KEEP_ALIVE, 0),
        (admin::FIRMWARE_COMMIT, 0),
        (admin::FIRMWARE_IMAGE_DOWNLOAD, 0),
        (admin::DEVICE_SELF_TEST, 0),
        (admin::NAMESPACE_MANAGEMENT, INVENTORY),
        (admin::NAMESPACE_ATTACHMENT, INVENTORY),
        (admin::FORMAT_NVM, BLOCKS | NAMESPACE | ALONE),
        (admin::SANITIZE, BLOCKS | ALONE),
    ] {
        set(0, opcode, effects);
    }
    if has_placement {
        set(0, admin::DIRECTIVE_SEND, 0);
        set(0, admin::DIRECTIVE_RECEIVE, 0);
    }
    if !controller.is_guests() {
        set(1024, query::STORE_PROGRAM, 0);
        set(1024, query::RUN, 0);
    }
    if controller.is_guests() {
        if has_key_spaces && set_of_commands == CommandSet::Nvm {
            samsung::EFFECTS.into_iter().for_each(|(opcode, effects)| set(1024, opcode, effects));
        }
        for opcode in [
            admin::CREATE_SUBMISSION_QUEUE,
            admin::DELETE_SUBMISSION_QUEUE,
            admin::CREATE_COMPLETION_QUEUE,
            admin::DELETE_COMPLETION_QUEUE,
        ] {
            set(0, opcode, 0);
        }
    }
    if controller.has_shadow_doorbells() {
        set(0, admin::DOORBELL_BUFFER_CONFIG, 0);
    }
    for (opcode, effects) in set_of_commands.effects(has_placement) {
        set(1024, opcode, effects);
    }
    page
}

/// Which features there are and what changing them touches.
fn features(supported: &[(u8, bool, bool)]) -> Vec<u8> {
    let mut page = vec![0; 1024];
    for &(identifier, _, of_namespaces) in supported {
        // Scope: a namespace (20), the controller (21), an endurance group (23).
        let scope = match of_namespaces {
            true => 1 << 20,
            false if identifier == id::DATA_PLACEMENT => 1 << 23,
            false => 1 << 21,
        };
        let at = usize::from(identifier) * 4;
        page[at..at + 4].copy_from_slice(&(effect::SUPPORTED | scope).to_le_bytes());
    }
    page
}
