//! Data placement in admin commands (Flexible Data Placement, Base 2.1, section 8.1.10): its logs, its
//! features, directives, and the placement handles of new namespaces. Where the data go that writes
//! bring is in [`crate::subsystem::nvm::placement`].

use super::Context;
use super::identify::GROUP;
use crate::namespaces::{Extent, Format, Namespace};
use crate::placement::{Bytes, Event, Placement, TYPES};
use crate::subsystem::nvm::placement::LIST_MAX;
use crate::subsystem::{Outcome, Subsystem};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{Directive, DirectiveReceive, DirectiveSend, GetLogPage};
use mynah_wire::nvme::feature::{DataPlacement, PlacementEvents as EventsFeature};
use mynah_wire::nvme::identify::NamespacePlacement;
use mynah_wire::nvme::log::{
    HandleKind, HandleUsage, HandleUse, MediaReallocated, OcpSmart, PlacementConfiguration,
    PlacementConfigurations, PlacementEvents, PlacementStatistics, page, placement_event,
};
use zerocopy::byteorder::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, IntoBytes};

/// The only FDP configuration.
const CONFIGURATION: u8 = 0;
/// Bytes of the log of events, whatever it has.
const EVENTS_BYTES: usize = 4096;
/// Bytes of what Directive Receive returns of directives.
const DIRECTIVES_BYTES: usize = 4096;

fn invalid() -> Status {
    Status::INVALID_FIELD.do_not_retry()
}

fn disabled() -> Status {
    Status::FDP_DISABLED.do_not_retry()
}

impl Subsystem {
    /// Whether there is data placement, enabled or not.
    pub(crate) fn has_placement(&self) -> bool {
        self.placement.is_some()
    }

    /// A log page of data placement. Its endurance group is the log specific identifier. The page of
    /// configurations is there to choose one, so it is read where none is enabled as well. A drive
    /// without data placement has none of these pages.
    pub(super) fn placement_page(&mut self, request: GetLogPage) -> Result<Vec<u8>, Status> {
        let unknown = Status::LOG_PAGE_INVALID.do_not_retry();
        let placement = self.placement.as_deref().ok_or(unknown)?;
        if request.specific_id != GROUP as u16 {
            return Err(invalid());
        }
        if request.page == page::PLACEMENT_CONFIGURATIONS {
            return Ok(self.configurations(placement));
        }
        if !placement.is_enabled() {
            return Err(disabled());
        }
        match request.page {
            page::HANDLE_USAGE => Ok(self.handle_usage(placement)),
            page::PLACEMENT_STATISTICS => Ok(self.statistics(placement)),
            _ => {
                self.tell_of_moved();
                Ok(self.placement_events(request.specific & 1 != 0))
            }
        }
    }

    /// The log of configurations: one.
    fn configurations(&self, placement: &Placement) -> Vec<u8> {
        let handles = placement.handles();
        let own = PlacementConfiguration::BYTES + usize::from(handles) * HandleKind::BYTES;
        let bytes = own.next_multiple_of(8);
        let mut head = PlacementConfigurations::default();
        head.bytes.set((PlacementConfigurations::BYTES + bytes) as u32);
        let configuration = PlacementConfiguration {
            bytes: U16::new(bytes as u16),
            // Valid (7), volatile write cache (4); the reclaim group takes no bits.
            attributes: 1 << 7 | u8::from(self.has_volatile_cache()) << 4,
            groups: U32::new(1),
            handles: U16::new(handles.into()),
            identifiers_max: U16::new(u16::from(handles) - 1),
            namespaces_max: U32::new(self.config.limits.namespaces_max),
            unit_bytes: U64::new(self.model.drive().reclaim_unit_bytes().unwrap_or(0)),
            ..Default::default()
        };
        let kind = HandleKind { kind: placement.kind(), ..Default::default() };
        let mut log = head.as_bytes().to_vec();
        log.extend_from_slice(configuration.as_bytes());
        (0..handles).for_each(|_| log.extend_from_slice(kind.as_bytes()));
        log.resize(PlacementConfigurations::BYTES + bytes, 0);
        log
    }

    /// Who has chosen a reclaim unit handle for a placement handle of a namespace, as the log of their
    /// use says it: nobody (0), a host (1), the controller (2).
    fn use_of(&self, handle: u8) -> u8 {
        let uses = |chosen: bool| {
            let of = |it: &Namespace| it.are_handles_chosen() == chosen;
            self.namespaces.iter().any(|it| of(it) && it.handles().contains(&handle))
        };
        match (uses(true), uses(false)) {
            (true, _) => 1,
            (false, true) => 2,
            (false, false) => 0,
        }
    }

    fn handle_usage(&self, placement: &Placement) -> Vec<u8> {
        let mut head = HandleUsage::default();
        head.handles.set(placement.handles().into());
        let mut log = head.as_bytes().to_vec();
        for handle in 0..placement.handles() {
            let of = HandleUse { attributes: self.use_of(handle), ..Default::default() };
            log.extend_from_slice(of.as_bytes());
        }
        log
    }

    /// What the drive has counted since it was built, in bytes.
    fn counted_bytes(&self) -> Bytes {
        let counters = self.model.drive().counters();
        let erased = counters.placement.as_ref();
        Bytes {
            host: counters.host_bytes_written.into(),
            media: counters.flash_bytes_programmed().into(),
            erased: erased.map_or(0, |it| u128::from(it.units_erased) * u128::from(it.unit_bytes)),
        }
    }

    fn statistics(&self, placement: &Placement) -> Vec<u8> {
        let bytes = placement.since_enabled(self.counted_bytes());
        let log = PlacementStatistics {
            host_bytes: U128::new(bytes.host),
            media_bytes: U128::new(bytes.media),
            erased_bytes: U128::new(bytes.erased),
            ..Default::default()
        };
        log.as_bytes().to_vec()
    }

    fn placement_events(&self, of_hosts: bool) -> Vec<u8> {
        let mut head = PlacementEvents::default();
        let mut events = Vec::new();
        if let Some(placement) = &self.placement {
            let kept = placement.events().log(of_hosts);
            head.events.set(kept.len() as u32);
            events.extend(kept.iter().flat_map(|event| event.as_bytes().to_vec()));
        }
        let mut log = head.as_bytes().to_vec();
        log.extend(events);
        log.resize(EVENTS_BYTES, 0);
        log
    }

    /// Notes what collection has moved, unless that was done within the last second of the drive's time.
    /// Whose namespace it was is said if only one has its reclaim unit handle.
    #[cold]
    pub(crate) fn tell_of_moved(&mut self) {
        let now = self.now.model;
        let Some(placement) = &mut self.placement else { return };
        if !placement.may_tell_of_moved(now) {
            return;
        }
        let Some(counters) = self.model.drive().placement_counters() else { return };
        let moved: Vec<u64> = counters.handles.iter().map(|handle| handle.units_moved).collect();
        let Some((handle, units)) = placement.take_moved(now, &moved) else { return };
        let bytes = units * u64::from(self.model.config().mapping.unit_bytes);
        let users = self.namespaces.iter().filter(|it| it.handles().contains(&handle));
        let users: Vec<&Namespace> = users.collect();
        let user = if let [user] = users[..] { Some(user) } else { None };
        let at = |it: &Namespace| it.handles().iter().position(|its| *its == handle);
        let blocks = user.map_or(0, |it| (bytes >> it.format().shift).min(0xffff) as u16);
        let specific = MediaReallocated { blocks: U16::new(blocks), ..Default::default() };
        let event = Event {
            kind: placement_event::MEDIA_REALLOCATED,
            handle,
            identifier: user.and_then(at).map(|at| at as u16),
            namespace: user.map(Namespace::id),
            specific: zerocopy::transmute!(specific),
        };
        self.note_event(event);
    }

    /// [`Subsystem::tell_of_moved`], where it may be time for that.
    #[inline]
    pub(crate) fn look_at_moved(&mut self) {
        if self.placement.as_ref().is_some_and(|it| it.may_tell_of_moved(self.now.model)) {
            self.tell_of_moved();
        }
    }

    /// SMART / Health Information Extended: what drives in data centres say of their media.
    pub(super) fn ocp_smart(&self) -> Vec<u8> {
        let counters = self.model.drive().counters();
        let (counts, wear) = (self.health.counts(), self.wear());
        let raw = self.model.config().geometry.raw_bytes();
        let used: u64 = self.namespaces.iter().map(|it| it.blocks()).sum();
        let protected = self.model.config().cache;
        let protected = protected.is_some_and(|cache| cache.power_loss_protection);
        let mut log = OcpSmart {
            media_written: U128::new(counters.flash_bytes_programmed().into()),
            media_read: U128::new(
                u128::from(counters.flash_reads) * u128::from(counters.wear.page_bytes),
            ),
            read_errors: U64::new(counts.media_errors),
            // Of those that hold data most are worn alike, and the least is not counted.
            erases: [U32::new(counters.block_erases_max), U32::new(0)],
            // Version 2.0.
            specification: [0, 0, 0, 0, 0, 2],
            incomplete_shutdowns: U32::new(counts.unsafe_shutdowns.min(u32::MAX.into()) as u32),
            free_percent: wear.spare,
            // In percent; all ones without capacitors.
            capacitors: U16::new(if protected { 100 } else { 0xffff }),
            used_blocks: U64::new(used),
            endurance_estimate: U128::new(u128::from(raw) * u128::from(wear.endured)),
            // That of version 2.0 of the specification.
            version: U16::new(3),
            guid: OcpSmart::GUID,
            ..Default::default()
        };
        // User and system blocks: how many are good, in percent.
        (log.bad_blocks[6], log.bad_blocks[14]) = (100, 100);
        log.as_bytes().to_vec()
    }

    /// The endurance group that a feature is about. 0 stands for the only one: tools that set features
    /// by number leave it out (`nvme set-feature -f 0x1d -c 1`).
    fn check_group(&self, group: u32) -> Result<(), Status> {
        if group as u16 > GROUP as u16 { Err(invalid()) } else { Ok(()) }
    }

    /// Get Features of Flexible Data Placement; `current`: not the default.
    pub(super) fn placement_feature(&self, group: u32, current: bool) -> Result<Outcome, Status> {
        self.check_group(group)?;
        let is_enabled = self.placement.as_ref().is_some_and(|it| it.is_enabled());
        let enabled = is_enabled || !current;
        let value = DataPlacement { enabled, configuration: CONFIGURATION };
        Ok(Outcome::Done(value.to_bits().into()))
    }

    /// Set Features of Flexible Data Placement. There is one value, which outlives power cycles whether
    /// its host wants it saved or not: namespaces would not be what they were otherwise.
    pub(super) fn set_placement(&mut self, group: u32, value: u32) -> Result<Outcome, Status> {
        self.check_group(group)?;
        let DataPlacement { enabled, configuration } = DataPlacement::from_bits(value);
        if enabled && configuration != CONFIGURATION {
            return Err(invalid());
        }
        let counted = self.counted_bytes();
        let placement = self.placement.as_mut().ok_or(invalid())?;
        if placement.is_enabled() == enabled {
            return Ok(Outcome::Done(0));
        }
        if self.namespaces.iter().next().is_some() {
            return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
        }
        placement.enable(enabled, counted);
        Ok(Outcome::OncePersistent(0))
    }

    /// The reclaim unit handle whose events a feature is about: that of a placement handle of a
    /// namespace.
    fn handle_of_events(&self, namespace: u32, feature: EventsFeature) -> Result<u8, Status> {
        let namespace = self.namespaces.with_id(namespace);
        let handles = namespace.map(Namespace::handles).unwrap_or_default();
        if handles.is_empty() {
            return Err(disabled());
        }
        if feature.types == 0 {
            return Err(invalid());
        }
        handles.get(usize::from(feature.handle)).copied().ok_or(invalid())
    }

    /// Get Features of Flexible Data Placement Events: the types that there are, as far as there is room
    /// for them, and whether they are wanted; in dword 0 how many there are.
    pub(super) fn events_feature(
        &self,
        namespace: u32,
        which: u32,
        current: bool,
    ) -> Result<Outcome, Status> {
        let feature = EventsFeature::from_bits(which);
        let handle = self.handle_of_events(namespace, feature)?;
        let room = usize::from(feature.types);
        let wants = |kind| {
            current && self.placement.as_ref().is_some_and(|it| it.events().wants(handle, kind))
        };
        let types = TYPES.into_iter().take(room);
        let mut data: Vec<u8> = types.flat_map(|kind| [kind, wants(kind).into()]).collect();
        data.resize(2 * room, 0);
        Ok(Outcome::Answer(TYPES.len() as u64, data))
    }

    /// Set Features of Flexible Data Placement Events: these types are wanted, or not any more. It
    /// lasts until the drive is started anew.
    pub(super) fn set_events(
        &mut self,
        context: Context<'_>,
        which: u32,
        wants: bool,
    ) -> Result<Outcome, Status> {
        let feature = EventsFeature::from_bits(which);
        let handle = self.handle_of_events(context.entry.namespace_id.get(), feature)?;
        let types = context.data.get(..usize::from(feature.types));
        let types = types.ok_or(Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?;
        let placement = self.placement.as_mut().ok_or(disabled())?;
        match placement.events_mut().want(handle, types, wants) {
            true => Ok(Outcome::Done(0)),
            false => Err(invalid()),
        }
    }

    /// The namespace that a directive is about.
    fn namespace_of_directive(&self, context: &Context<'_>) -> Result<&Namespace, Status> {
        if self.placement.is_none() {
            return Err(Status::INVALID_OPCODE.do_not_retry());
        }
        self.namespaces.active(context.controller, context.entry.namespace_id.get())
    }

    /// Directive Receive: which directives there are, and no more (Base 2.1, sections 8.1.8.2 and
    /// 8.1.8.4).
    pub(super) fn directive_receive(
        &self,
        context: Context<'_>,
        request: DirectiveReceive,
    ) -> Result<Outcome, Status> {
        let namespace = self.namespace_of_directive(&context)?;
        let slot = self.queues.get(context.queue).ok_or(Status::INTERNAL_ERROR)?;
        let is_too_long = request.bytes > u64::from(slot.transport().max_transfer_bytes);
        let what = (request.kind, request.operation);
        if what != (Directive::IDENTIFY, DirectiveReceive::RETURN_PARAMETERS) || is_too_long {
            return Err(invalid());
        }
        let (identify, placement) = (1 << Directive::IDENTIFY, 1 << Directive::DATA_PLACEMENT);
        let is_enabled = !namespace.handles().is_empty();
        let mut page = vec![0; DIRECTIVES_BYTES];
        // Supported, enabled, and enabled whatever a reset does: 32 bytes each.
        page[0] = identify | placement;
        page[32] = identify | if is_enabled { placement } else { 0 };
        page[64] = placement;
        page.resize(request.bytes as usize, 0);
        Ok(Outcome::Data(page))
    }

    /// Directive Send: data placement has no operations, and is enabled by a feature; that of Identify
    /// cannot be disabled.
    pub(super) fn directive_send(
        &self,
        context: Context<'_>,
        request: DirectiveSend,
    ) -> Result<Outcome, Status> {
        let is_disabled = self.namespace_of_directive(&context)?.handles().is_empty();
        match request.kind == Directive::DATA_PLACEMENT && is_disabled {
            true => Err(disabled()),
            false => Err(invalid()),
        }
    }

    /// The reclaim unit handles of a new namespace's placement handles, and whether its host has chosen
    /// them: those of its list, or one that the controller chooses (NVM Command Set 1.2, section 4.1.6).
    /// The controller has one for all namespaces without a list, which no list may name, and takes none
    /// that a list has.
    pub(super) fn wished_handles(
        &self,
        data: &[u8],
        extents: &[Extent],
        format: Format,
    ) -> Result<(Vec<u8>, bool), Status> {
        let Some(placement) = self.placement.as_ref().filter(|it| it.is_enabled()) else {
            // It is not looked at.
            return Ok((vec![], false));
        };
        let bad = Status::PLACEMENT_HANDLES_INVALID.do_not_retry();
        let short = Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
        let wish = data.get(384..).ok_or(short)?;
        let (wish, _) = NamespacePlacement::ref_from_prefix(wish).map_err(|_| short)?;
        let (handles, are_chosen) = match usize::from(wish.count.get()) {
            0 => {
                let fits = |handle: &u8| self.can_have_handles(&[*handle], extents);
                let with_use = |wanted| {
                    let mut all = (0..placement.handles()).rev().filter(fits);
                    all.find(|handle| self.use_of(*handle) == wanted)
                };
                (vec![with_use(2).or_else(|| with_use(0)).ok_or(bad)?], false)
            }
            count if count > LIST_MAX => return Err(bad),
            count => {
                let list = wish.handles[..count].iter().map(|handle| u8::try_from(handle.get()));
                let list = list.collect::<Result<Vec<u8>, _>>().map_err(|_| bad)?;
                let is_ours = |handle: &u8| self.use_of(*handle) == 2;
                if !self.can_have_handles(&list, extents) || list.iter().any(is_ours) {
                    return Err(bad);
                }
                (list, true)
            }
        };
        // Namespaces that share a reclaim unit handle have the same format.
        let is_shared = |it: &Namespace| handles.iter().any(|handle| it.handles().contains(handle));
        let differs = |it: &Namespace| it.format().index() != format.index();
        match self.namespaces.iter().any(|it| is_shared(it) && differs(it)) {
            true => Err(Status::FORMAT_INVALID.do_not_retry()),
            false => Ok((handles, are_chosen)),
        }
    }
}
