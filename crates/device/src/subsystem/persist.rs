//! What of the subsystem outlives the process, beside the bytes in the store.
//!
//! What is kept: each namespace's identifier, format, size, place, attachments and write
//! protection, its reservations where they persist through power loss, and which of its blocks
//! are marked uncorrectable; SMART's counters, and whether the process before ended in order; the
//! last sanitize, which goes on where it is under way. Of a namespace of pairs: which of the model's it
//! is; and which pairs belong to the description. Of a drive with data placement: whether that is
//! enabled, and the placement handles of namespaces.
//!
//! There is room for [`DESCRIPTION_BYTES_MAX`] bytes of it, whatever the store; a command whose
//! effect would not fit is refused ([`Subsystem::can_describe_more`]). The store keeps
//! it with its next flush. It is given to it when something of it but a counter has changed, when
//! the drive starts and ends, once a minute, and with a flush at most once a second if commands or
//! errors have been counted.
//!
//! What is read back may be anything: it is believed as a whole or not at all.

use crate::config::SubsystemError;
use crate::controllers::Role;
use crate::health::{COUNT_MAX, Health};
use crate::key_value::Pairs;
use crate::namespaces::reservation::{Held, REGISTRANTS_MAX, Registrant, Reservations};
use crate::namespaces::uncorrectable::Uncorrectable;
use crate::namespaces::{ControllerSet, Extent, FORMATS, Format, Namespace, WriteProtection};
use crate::store::{DESCRIPTION_BYTES_MAX, KeptPairs, Ready};
use crate::subsystem::Subsystem;
use crate::subsystem::admin::sanitize::Sanitize;
use mynah_model::io::{Control, NamespaceId};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::reservation::ReservationType;

/// What descriptions begin with, the oldest first: of namespaces and nothing else; of all but the
/// last sanitize; of all but namespaces of pairs; of all but data placement; of everything. Drives without
/// data placement have the last but one.
const MAGICS: [&[u8; 8]; 5] = [b"MynahNS1", b"MynahNS2", b"MynahNS3", b"MynahNS4", b"MynahNS5"];

/// Bytes of the number of a namespace's runs of marked blocks.
const MARKS_COUNT_BYTES: usize = 4;
/// Bytes of a run of marked blocks.
const RUN_BYTES: usize = 16;

/// Reads little-endian numbers one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let (head, tail) = self.0.split_at_checked(bytes)?;
        self.0 = tail;
        Some(head.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn host(&mut self) -> Option<[u8; 16]> {
        let (host, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*host)
    }
}

fn put(into: &mut Vec<u8>, value: u64, bytes: usize) {
    into.extend_from_slice(&value.to_le_bytes()[..bytes]);
}

/// What a description that was read back says.
struct Described {
    /// Namespaces of pairs without their pairs.
    namespaces: Vec<Namespace>,
    health: Health,
    /// How many entries the error log has had.
    errors: u64,
    sanitize: Sanitize,
    /// Which pairs belong to it, if any do.
    kept: Option<KeptPairs>,
    /// Whether the process ended in order.
    in_order: bool,
    /// Whether data placement was enabled.
    places: bool,
}

impl Subsystem {
    /// What the store is to keep but for marks of blocks; `ended` says that the process ends in
    /// order.
    fn description(&self, ended: bool) -> Vec<u8> {
        let mut all = MAGICS[if self.placement.is_some() { 4 } else { 3 }].to_vec();
        put(&mut all, self.namespaces.space().sectors(), 8);
        put(&mut all, u64::from(self.namespaces.last_serial()), 4);
        put(&mut all, u64::from(ended), 1);
        for count in self.health.kept(self.now.wall, self.error_entries()) {
            put(&mut all, count, 8);
        }
        let (state, command, writes) = self.admin.last_sanitize().kept();
        put(&mut all, u64::from(state), 1);
        put(&mut all, u64::from(command), 4);
        put(&mut all, writes, 8);
        let kept = self.media.kept_pairs();
        all.extend_from_slice(&kept.map_or([0; 16], |kept| kept.identity));
        put(&mut all, kept.map_or(0, |kept| kept.changes), 8);
        if let Some(placement) = &self.placement {
            put(&mut all, u64::from(placement.is_enabled()), 1);
        }
        put(&mut all, self.namespaces.iter().count() as u64, 4);
        for namespace in self.namespaces.iter() {
            self.put_namespace(&mut all, namespace);
        }
        all
    }

    fn put_namespace(&self, all: &mut Vec<u8>, namespace: &Namespace) {
        put(all, u64::from(namespace.id()), 4);
        put(all, u64::from(namespace.serial()), 4);
        put(all, u64::from(namespace.holds_pairs()), 1);
        if let Some(pairs) = namespace.pairs() {
            put(all, u64::from(pairs.pool().0), 4);
            put(all, pairs.bytes(), 8);
        }
        put(all, u64::from(namespace.format().index()), 1);
        put(all, u64::from(namespace.format().protection), 1);
        put(all, u64::from(namespace.is_shared()), 1);
        put(all, namespace.protection() as u64, 1);
        put(all, namespace.blocks(), 8);
        put(all, namespace.extents().len() as u64, 2);
        for extent in namespace.extents() {
            put(all, u64::from(extent.pool.0), 4);
            put(all, extent.sector, 8);
            put(all, extent.sectors, 8);
            put(all, extent.store, 8);
        }
        let (all_but, list) = namespace.attached().shorter_list(self.config.limits.controllers_max);
        put(all, u64::from(all_but), 1);
        put(all, list.len() as u64, 2);
        for id in list {
            put(all, u64::from(id), 2);
        }
        put_reservations(all, namespace.reservations());
        if self.placement.is_some() {
            let (handles, are_chosen) = (namespace.handles(), namespace.are_handles_chosen());
            let are_all = handles == self.all_handles(namespace.extents());
            let list = if are_all { &[] } else { handles };
            put(all, u64::from(are_chosen) | u64::from(are_all) << 1, 1);
            put(all, list.len() as u64, 1);
            all.extend_from_slice(list);
        }
    }

    /// Whether there is room for a new namespace as well.
    pub(crate) fn can_describe(&self, namespace: &Namespace) -> bool {
        let mut bytes = Vec::new();
        self.put_namespace(&mut bytes, namespace);
        self.can_describe_more(bytes.len() + MARKS_COUNT_BYTES)
    }

    /// The highest number of an error log entry.
    fn error_entries(&self) -> u64 {
        self.controllers.errors(Role::Io).count()
    }

    /// Appends the uncorrectable blocks of each namespace.
    fn put_marks(&self, all: &mut Vec<u8>) {
        for namespace in self.namespaces.iter() {
            put(all, namespace.uncorrectable().count() as u64, MARKS_COUNT_BYTES);
            for (start, end) in namespace.uncorrectable().runs() {
                put(all, start, 8);
                put(all, end, 8);
            }
        }
    }

    /// Whether there is room for `more` bytes beside everything that is kept now.
    pub(crate) fn can_describe_more(&self, more: usize) -> bool {
        let namespaces = self.namespaces.iter();
        let marks = |it: &Namespace| MARKS_COUNT_BYTES + it.uncorrectable().count() * RUN_BYTES;
        let marks: usize = namespaces.map(marks).sum();
        self.description(false).len() + marks + more <= DESCRIPTION_BYTES_MAX
    }

    /// Refuses what would make so many runs of marked blocks more than there is room for.
    pub(crate) fn check_marks(&self, more: usize) -> Result<(), Status> {
        if more > 0 && !self.can_describe_more(more * RUN_BYTES) {
            return Err(Status::CAPACITY_EXCEEDED.do_not_retry());
        }
        Ok(())
    }

    /// [`Subsystem::check_marks`] for blocks that are to be written: that may split a run in two.
    pub(crate) fn check_cleared(&self, at: usize, start: u64, blocks: u64) -> Result<(), Status> {
        let adds = |it: &Namespace| it.uncorrectable().clear_adds(start, blocks);
        self.check_marks(self.namespaces.get(at).is_some_and(adds).into())
    }

    /// Has the store keep what the subsystem is now.
    pub(crate) fn describe(&mut self) {
        self.describe_end(false);
    }

    /// [`Subsystem::describe`]; `ended` says that the process ends in order.
    pub(crate) fn describe_end(&mut self, ended: bool) {
        let mut description = self.description(ended);
        self.put_marks(&mut description);
        self.media.describe(&description);
        self.health.was_kept(self.now.wall, self.error_entries());
    }

    /// Puts everything on stable storage, what has changed of the subsystem included, and what
    /// has been counted unless that was within the last second.
    pub(crate) fn flush_store(&mut self) -> Ready {
        let has_counted = self.health.may_be_kept(self.now.wall)
            && self.health.has_counted(self.now.wall, self.error_entries());
        if !self.media.is_described() || has_counted {
            self.describe();
        }
        self.media.flush()
    }

    /// Brings back what the store describes; false if that is nothing that fits this drive.
    ///
    /// # Errors
    /// If pairs are not those of the description.
    pub(crate) fn restore(&mut self) -> Result<bool, SubsystemError> {
        let Some(description) = self.media.description().map(<[u8]>::to_vec) else {
            return Ok(false);
        };
        let Some(described) = self.parse(&description) else { return Ok(false) };
        let Described { mut namespaces, health, errors, sanitize, kept, in_order, places } =
            described;
        if let Some(kept) = kept {
            let Some(found) = self.media.kept_pairs() else { return Ok(false) };
            // After any other end there may be more of them than were counted.
            let is_all = !in_order || found.changes == kept.changes;
            if found.identity != kept.identity || !is_all {
                return Err(SubsystemError::Pairs);
            }
        }
        for namespace in &namespaces {
            if !self.namespaces.space_mut().take_exactly(namespace.extents()) {
                // Half of them would be worse than none.
                for taken in namespaces.iter().take_while(|it| it.id() != namespace.id()) {
                    self.namespaces.space_mut().give_back(taken.extents());
                }
                return Ok(false);
            }
        }
        if kept.is_some() {
            self.recall_pairs(&mut namespaces)?;
        }
        for namespace in namespaces {
            self.namespaces.insert(namespace);
        }
        self.health = health;
        self.controllers.restore_errors(errors);
        self.admin.restore_sanitize(sanitize);
        if let Some(placement) = &mut self.placement {
            placement.restore(places);
        }
        Ok(true)
    }

    /// Restores the pairs of namespaces that the store has kept.
    fn recall_pairs(&mut self, namespaces: &mut [Namespace]) -> Result<(), SubsystemError> {
        let Ok(values) = self.media.values_mut() else { return Ok(()) };
        for pairs in namespaces.iter_mut().filter_map(|it| it.pairs_mut()) {
            if !pairs.recall(values) {
                return Err(SubsystemError::Pairs);
            }
        }
        // Of namespaces that were deleted, and no flush came after that.
        let pools = self.namespaces.pair_space().pools().iter();
        let left = values.left();
        let gone = pools.map(|(pool, _)| *pool).filter(|pool| left.contains(&pool.0));
        for pool in gone.collect::<Vec<_>>() {
            if let Ok(values) = self.media.values_mut() {
                values.forget_all(pool.0);
            }
            // It was given them with all others.
            self.control(Control::Format(pool));
        }
        Ok(())
    }

    fn parse(&self, description: &[u8]) -> Option<Described> {
        let version = MAGICS.iter().position(|magic| description.starts_with(&magic[..]))?;
        let (knows_more, knows_sanitize, knows_pairs) = (version >= 1, version >= 2, version >= 3);
        let knows_placement = version >= 4;
        let mut reader = Reader(&description[MAGICS[version].len()..]);
        if reader.number(8)? != self.namespaces.space().sectors() {
            return None;
        }
        reader.number(4)?;
        let (mut health, mut sanitize) = (Health::default(), Sanitize::default());
        let (mut errors, mut in_order) = (0, false);
        if knows_more {
            in_order = reader.number(1)? != 0;
            let mut kept = [0; 10];
            for count in &mut kept {
                *count = reader.number(8)?;
            }
            errors = kept[9].min(COUNT_MAX);
            health = Health::begun(kept, in_order);
        }
        if knows_sanitize {
            let state = reader.number(1)? as u8;
            let (command, writes) = (reader.number(4)? as u32, reader.number(8)?);
            sanitize = Sanitize::begun((state, command, writes))?;
        }
        if !in_order {
            sanitize.forget_writes();
        }
        let kept = if knows_pairs { take_kept(&mut reader)? } else { None };
        let places = !knows_placement || reader.number(1)? != 0;
        let count = reader.number(4)?;
        let mut namespaces: Vec<Namespace> = Vec::new();
        for _ in 0..count {
            let (id, serial) = (reader.number(4)? as u32, reader.number(4)? as u32);
            let in_order = namespaces.last().is_none_or(|before| before.id() < id);
            let is_ours = self.config.shard.has(id);
            if !self.namespaces.can_have(id) || !in_order || !is_ours {
                return None;
            }
            let mut of_pairs = None;
            if knows_pairs && reader.number(1)? != 0 {
                let pairs = self.take_pairs(&mut reader)?;
                if namespaces.iter().flat_map(|it| it.pools()).any(|pool| pool == pairs.pool()) {
                    return None;
                }
                of_pairs = Some(pairs);
            }
            let format = *FORMATS.get(reader.number(1)? as usize)?;
            let protection = reader.number(1)?.min(3) as u8;
            let format = Format { protection, ..format };
            let shared = reader.number(1)? != 0;
            let write_protection = match reader.number(1)? {
                1 => WriteProtection::On,
                // The power has been off since.
                _ => WriteProtection::None,
            };
            let blocks = reader.number(8)?;
            let extents = self.take_extents(&mut reader)?;
            let all_but = reader.number(1)? != 0;
            let mut attached = match all_but {
                true => ControllerSet::all(self.config.limits.controllers_max),
                false => ControllerSet::none(),
            };
            for _ in 0..reader.number(2)? {
                let id = reader.number(2)? as u16;
                if all_but { attached.remove(id) } else { attached.insert(id) }
            }
            let reservations = match knows_more {
                true => take_reservations(&mut reader)?,
                false => Reservations::default(),
            };
            let mut namespace = match of_pairs {
                None => Namespace::new(id, serial, extents, format, attached, shared),
                Some(_) if !extents.is_empty() => return None,
                Some(pairs) => Namespace::of_pairs(id, serial, pairs, attached, shared),
            };
            if blocks > namespace.blocks() {
                return None;
            }
            let handles = if knows_placement { Some(take_handles(&mut reader)?) } else { None };
            self.restore_handles(&mut namespace, handles, places);
            namespace.restore(blocks, write_protection, reservations);
            namespaces.push(namespace);
        }
        for namespace in namespaces.iter_mut().filter(|_| knows_more) {
            namespace.restore_marks(take_runs(&mut reader, namespace.blocks())?);
        }
        Some(Described { namespaces, health, errors, sanitize, kept, in_order, places })
    }

    /// Where a namespace of blocks lies.
    fn take_extents(&self, reader: &mut Reader<'_>) -> Option<Vec<Extent>> {
        let mut extents = Vec::new();
        for _ in 0..reader.number(2)? {
            let pool = NamespaceId(reader.number(4)? as u32);
            let (sector, sectors) = (reader.number(8)?, reader.number(8)?);
            let store = reader.number(8)?;
            let (room, grain) =
                (self.namespaces.space().sectors(), self.namespaces.space().grain());
            let whole = sector % grain == 0 && sectors % grain == 0;
            if sector >= room || sectors == 0 || sectors > room || store / 512 >= room || !whole {
                return None;
            }
            extents.push(Extent { pool, sector, sectors, store });
        }
        Some(extents)
    }

    /// Gives a namespace the placement handles that it had. Where it had none because the drive had no
    /// data placement then, or the drive has not those reclaim unit handles any more, it gets all that
    /// there are, as a new one of the drive's description.
    fn restore_handles(&self, namespace: &mut Namespace, kept: Option<Handles>, places: bool) {
        if self.placement.is_none() || !places || namespace.holds_pairs() {
            return;
        }
        let extents = namespace.extents();
        let (handles, are_chosen) = match kept {
            Some(Handles { are_chosen, are_all: false, list })
                if self.can_have_handles(&list, extents) =>
            {
                (list, are_chosen)
            }
            kept => (self.all_handles(extents), kept.is_none_or(|it| it.are_chosen)),
        };
        namespace.set_handles(handles, are_chosen);
    }

    /// What is kept of a namespace of pairs: which it is, without its pairs.
    fn take_pairs(&self, reader: &mut Reader<'_>) -> Option<Pairs> {
        let pool = NamespaceId(reader.number(4)? as u32);
        let bytes = reader.number(8)?;
        let space = self.namespaces.pair_space();
        let layout = *space.layout()?;
        if !space.pools().contains(&(pool, bytes)) {
            return None;
        }
        Some(Pairs::new(pool, bytes, layout, space.stores(pool)))
    }
}

/// The placement handles of a namespace.
struct Handles {
    are_chosen: bool,
    /// Whether they are all that there are, in order; then there is no list.
    are_all: bool,
    list: Vec<u8>,
}

fn take_handles(reader: &mut Reader<'_>) -> Option<Handles> {
    let (flags, count) = (reader.number(1)?, reader.number(1)?);
    let list = (0..count).map(|_| reader.number(1).map(|handle| handle as u8));
    let list = list.collect::<Option<Vec<u8>>>()?;
    Some(Handles { are_chosen: flags & 1 != 0, are_all: flags & 2 != 0, list })
}

/// Which pairs belong to a description, if any do.
fn take_kept(reader: &mut Reader<'_>) -> Option<Option<KeptPairs>> {
    let (identity, changes) = (reader.host()?, reader.number(8)?);
    Some((identity != [0; 16]).then_some(KeptPairs { identity, changes }))
}

fn put_reservations(all: &mut Vec<u8>, reservations: &Reservations) {
    put(all, u64::from(reservations.persists()), 1);
    if !reservations.persists() {
        return;
    }
    put(all, u64::from(reservations.generation()), 4);
    let held = reservations.held();
    put(all, held.map_or(0, |held| held.kind as u64), 1);
    all.extend_from_slice(&held.map_or([0; 16], |held| held.holder));
    put(all, reservations.registrants().len() as u64, 2);
    for registrant in reservations.registrants() {
        all.extend_from_slice(&registrant.host);
        put(all, registrant.key, 8);
    }
}

fn take_reservations(reader: &mut Reader<'_>) -> Option<Reservations> {
    if reader.number(1)? != 1 {
        return Some(Reservations::default());
    }
    let generation = reader.number(4)? as u32;
    let (kind, holder) = (reader.number(1)? as u8, reader.host()?);
    let count = reader.number(2)? as usize;
    if count > REGISTRANTS_MAX {
        return None;
    }
    let mut registrants: Vec<Registrant> = Vec::new();
    for _ in 0..count {
        let registrant = Registrant { host: reader.host()?, key: reader.number(8)? };
        if registrant.key == 0 || registrants.iter().any(|it| it.host == registrant.host) {
            return None;
        }
        registrants.push(registrant);
    }
    let mut held = None;
    if kind != 0 {
        let kind = ReservationType::from_code(kind)?;
        // Where all registrants hold it, whoever acquired it may have gone.
        let is_held = match kind.is_held_by_all() {
            true => !registrants.is_empty(),
            false => registrants.iter().any(|it| it.host == holder),
        };
        held = Some(is_held.then_some(Held { kind, holder })?);
    }
    Some(Reservations::kept(generation, registrants, held))
}

/// Reads the uncorrectable blocks of a namespace of so many blocks; `None` if they cannot be.
fn take_runs(reader: &mut Reader<'_>, blocks: u64) -> Option<Uncorrectable> {
    let count = reader.number(4)?;
    let (mut all, mut after) = (Uncorrectable::default(), None);
    for _ in 0..count {
        let (start, end) = (reader.number(8)?, reader.number(8)?);
        if start >= end || end > blocks || after.is_some_and(|after| start <= after) {
            return None;
        }
        all.mark(start, end - start);
        after = Some(end);
    }
    Some(all)
}
