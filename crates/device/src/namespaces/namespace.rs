//! A namespace: how its blocks look, where they lie in the drive's space, and who may use it.

use super::reservation::Reservations;
use super::uncorrectable::Uncorrectable;
use super::{Extent, SECTOR_BYTES};
use crate::any_pairs::AnyPairs;
use crate::command_set::CommandSet;
use crate::key_value::Pairs;
use crate::samsung::KeySpaces;
use mynah_model::io::NamespaceId;
use mynah_wire::nvme::identify::LbaFormat;
use zerocopy::byteorder::little_endian::U16;

/// An LBA format with its protection settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bytes of data as a power of two: 9 or 12.
    pub(crate) shift: u8,
    /// Bytes of metadata behind the data: 0 or 8.
    pub(crate) metadata: u8,
    /// Type of protection information, 0 for none.
    pub(crate) protection: u8,
}

/// The LBA formats, by index.
pub(crate) const FORMATS: [Format; 4] = [
    Format { shift: 9, metadata: 0, protection: 0 },
    Format { shift: 12, metadata: 0, protection: 0 },
    Format { shift: 9, metadata: 8, protection: 0 },
    Format { shift: 12, metadata: 8, protection: 0 },
];

impl Format {
    /// Index of the LBA format (FLBAS).
    pub(crate) fn index(self) -> u8 {
        u8::from(self.shift == 12) + if self.metadata > 0 { 2 } else { 0 }
    }

    /// Sectors of 512 bytes of a logical block, without metadata.
    pub(crate) fn block_sectors(self) -> u64 {
        1 << (self.shift - 9)
    }

    pub(crate) fn lba_formats() -> [LbaFormat; 64] {
        let mut formats = [LbaFormat::default(); 64];
        for (place, format) in formats.iter_mut().zip(FORMATS) {
            *place = LbaFormat {
                metadata: U16::new(u16::from(format.metadata)),
                data_shift: format.shift,
                // 4 KiB blocks suit the mapping, and metadata costs a copy.
                performance: if format.shift == 12 { 0 } else { 1 } + u8::from(format.metadata > 0),
            };
        }
        formats
    }
}

/// A set of controller identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerSet(Vec<u64>);

impl ControllerSet {
    pub(crate) fn none() -> ControllerSet {
        ControllerSet(Vec::new())
    }

    pub(crate) fn all(controllers_max: u16) -> ControllerSet {
        ControllerSet(vec![u64::MAX; usize::from(controllers_max) / 64 + 1])
    }

    #[inline]
    pub(crate) fn contains(&self, controller: u16) -> bool {
        let word = self.0.get(usize::from(controller / 64)).copied().unwrap_or(0);
        word >> (controller % 64) & 1 != 0
    }

    pub(crate) fn insert(&mut self, controller: u16) {
        let word = usize::from(controller / 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (controller % 64);
    }

    pub(crate) fn remove(&mut self, controller: u16) {
        if let Some(word) = self.0.get_mut(usize::from(controller / 64)) {
            *word &= !(1 << (controller % 64));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// The identifiers from 0 to `max` that are in the set, or those that are not if these are
    /// fewer; whether it is those.
    pub(crate) fn shorter_list(&self, max: u16) -> (bool, Vec<u16>) {
        let words = || {
            (0..=max / 64).map(|at| {
                let ids = u64::MAX >> (63 - (max - at * 64).min(63));
                (at * 64, self.0.get(usize::from(at)).copied().unwrap_or(0) & ids, ids)
            })
        };
        let with: u32 = words().map(|(_, word, _)| word.count_ones()).sum();
        let all_but = u32::from(max) + 1 - with < with;
        let mut list = Vec::new();
        for (first, word, ids) in words() {
            let mut left = if all_but { !word & ids } else { word };
            while left != 0 {
                list.push(first + left.trailing_zeros() as u16);
                left &= left - 1;
            }
        }
        (all_but, list)
    }
}

/// Write protection (Base 2.0, section 8.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WriteProtection {
    None = 0,
    /// Until somebody takes it off.
    On = 1,
    /// Until the next power cycle.
    UntilPowerCycle = 2,
}

/// A namespace: of blocks, or of pairs. One of pairs has no blocks and no extents: so whoever reads
/// or writes blocks need not look which it is, but finds none.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(super) id: u32,
    /// NSZE: size in logical blocks.
    pub(super) blocks: u64,
    pub(super) format: Format,
    pub(super) extents: Vec<Extent>,
    pub(super) attached: ControllerSet,
    /// NMIC: whether several controllers may be attached.
    pub(super) shared: bool,
    /// Makes its names unlike those of a deleted namespace with the same identifier.
    pub(super) serial: u32,
    pub(super) protection: WriteProtection,
    pub(super) reservations: Reservations,
    pub(super) uncorrectable: Uncorrectable,
    pub(super) formatting: bool,
    /// Commands that need the namespace for themselves, and those that wait for them.
    pub(super) exclusive: u32,
    /// Whether reads and writes need none of the rarer checks: plain blocks in one extent,
    /// nothing reserved, protected, uncorrectable or under way.
    pub(super) plain: bool,
    /// The reclaim unit handle of each placement handle; empty without data placement.
    handles: Vec<u8>,
    /// Whether a host, or whoever has described the drive, has chosen them.
    are_handles_chosen: bool,
    /// `None` unless it is a namespace of the Key Value command set.
    pairs: Option<Box<Pairs>>,
    /// `None` unless it is the namespace of Samsung's command set.
    key_spaces: Option<Box<KeySpaces>>,
}

impl Namespace {
    /// A new namespace of as many blocks as fit the extents.
    pub(crate) fn new(
        id: u32,
        serial: u32,
        extents: Vec<Extent>,
        format: Format,
        attached: ControllerSet,
        shared: bool,
    ) -> Namespace {
        let mut namespace = Namespace {
            id,
            blocks: 0,
            format,
            extents,
            attached,
            shared,
            serial,
            protection: WriteProtection::None,
            reservations: Reservations::default(),
            uncorrectable: Uncorrectable::default(),
            formatting: false,
            exclusive: 0,
            plain: false,
            handles: vec![],
            are_handles_chosen: false,
            pairs: None,
            key_spaces: None,
        };
        namespace.set_format(format);
        namespace
    }

    /// A namespace of the Key Value command set.
    pub(crate) fn of_pairs(
        id: u32,
        serial: u32,
        pairs: Pairs,
        attached: ControllerSet,
        shared: bool,
    ) -> Namespace {
        let none = Namespace::new(id, serial, vec![], FORMATS[0], attached, shared);
        Namespace { pairs: Some(Box::new(pairs)), ..none }
    }

    /// The namespace of Samsung's key-value command set.
    pub(crate) fn of_key_spaces(
        id: u32,
        serial: u32,
        spaces: KeySpaces,
        attached: ControllerSet,
        shared: bool,
    ) -> Namespace {
        let none = Namespace::new(id, serial, vec![], FORMATS[0], attached, shared);
        Namespace { key_spaces: Some(Box::new(spaces)), ..none }
    }

    /// Whether it is one of pairs, or of key spaces.
    #[inline]
    pub(crate) fn holds_pairs(&self) -> bool {
        self.pairs.is_some() || self.key_spaces.is_some()
    }

    /// `None` unless it is the namespace of Samsung's command set.
    pub(crate) fn key_spaces(&self) -> Option<&KeySpaces> {
        self.key_spaces.as_deref()
    }

    /// The pairs of either key-value set; `None` in a namespace of blocks.
    #[inline]
    pub(crate) fn any_pairs_mut(&mut self) -> Option<AnyPairs<'_>> {
        match (&mut self.pairs, &mut self.key_spaces) {
            (Some(pairs), _) => Some(AnyPairs::KeyValue(pairs)),
            (None, Some(spaces)) => Some(AnyPairs::Samsung(spaces)),
            (None, None) => None,
        }
    }

    /// `None` unless it is a namespace of the Key Value command set.
    #[inline]
    pub(crate) fn pairs(&self) -> Option<&Pairs> {
        self.pairs.as_deref()
    }

    #[inline]
    pub(crate) fn pairs_mut(&mut self) -> Option<&mut Pairs> {
        self.pairs.as_deref_mut()
    }

    /// The model's namespaces that it lies in.
    pub(crate) fn pools(&self) -> impl Iterator<Item = NamespaceId> + '_ {
        let pairs = self.pairs().map(Pairs::pool);
        let spaces = self.key_spaces().map(|spaces| spaces.pairs().pool());
        self.extents.iter().map(|extent| extent.pool).chain(pairs).chain(spaces)
    }

    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// The command set that it is used with. Key spaces have one that NVMe does not know of, and hosts
    /// take the namespace for one of blocks.
    pub(crate) fn command_set(&self) -> CommandSet {
        match self.pairs {
            None => CommandSet::Nvm,
            Some(_) => CommandSet::KeyValue,
        }
    }

    /// The reclaim unit handle of each placement handle; empty where there is no data placement.
    #[inline]
    pub(crate) fn handles(&self) -> &[u8] {
        &self.handles
    }

    /// Whether a host, or whoever has described the drive, has chosen these; else the controller has.
    pub(crate) fn are_handles_chosen(&self) -> bool {
        self.are_handles_chosen
    }

    /// Gives it placement handles.
    pub(crate) fn set_handles(&mut self, handles: Vec<u8>, are_chosen: bool) {
        (self.handles, self.are_handles_chosen) = (handles, are_chosen);
    }

    #[inline]
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Gives it fewer blocks than would fit.
    pub(crate) fn set_blocks(&mut self, blocks: u64) {
        self.blocks = blocks;
    }

    #[inline]
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    #[inline]
    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    #[inline]
    pub(crate) fn is_attached(&self, controller: u16) -> bool {
        self.attached.contains(controller)
    }

    pub(crate) fn attached(&self) -> &ControllerSet {
        &self.attached
    }

    /// Attaches it to a controller, or detaches it.
    pub(crate) fn attach(&mut self, controller: u16, attaches: bool) {
        match attaches {
            true => self.attached.insert(controller),
            false => self.attached.remove(controller),
        }
    }

    /// NMIC: whether several controllers may be attached.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Makes its names unlike those of a deleted namespace with the same identifier.
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    pub(crate) fn protection(&self) -> WriteProtection {
        self.protection
    }

    /// Protects it against writes, or no more.
    pub(crate) fn protect(&mut self, protection: WriteProtection) {
        self.protection = protection;
        self.settle();
    }

    pub(crate) fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Changes registrations or the reservation.
    pub(crate) fn change_reservations<T>(
        &mut self,
        change: impl FnOnce(&mut Reservations) -> T,
    ) -> T {
        let outcome = change(&mut self.reservations);
        self.settle();
        outcome
    }

    /// Which blocks cannot be read.
    pub(crate) fn uncorrectable(&self) -> &Uncorrectable {
        &self.uncorrectable
    }

    /// Marks blocks: they cannot be read until they are written again.
    pub(crate) fn mark(&mut self, start: u64, blocks: u64) {
        self.uncorrectable.mark(start, blocks);
        self.settle();
    }

    /// Blocks were written or deallocated; whether any of them was marked.
    pub(crate) fn clear_marks(&mut self, start: u64, blocks: u64) -> bool {
        let cleared = !self.uncorrectable.is_empty() && self.uncorrectable.clear(start, blocks);
        self.settle();
        cleared
    }

    /// No block is uncorrectable any more: everything was erased.
    pub(crate) fn clear_all_marks(&mut self) {
        self.uncorrectable.clear_all();
        self.settle();
    }

    /// Whether a format is under way.
    #[inline]
    pub(crate) fn is_formatting(&self) -> bool {
        self.formatting
    }

    pub(crate) fn begin_format(&mut self) {
        self.formatting = true;
        self.settle();
    }

    /// A format is over, and everything erased.
    pub(crate) fn end_format(&mut self, format: Format) {
        self.formatting = false;
        self.uncorrectable.clear_all();
        self.set_format(format);
    }

    /// Whether a command has it for itself.
    #[inline]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive > 0
    }

    /// A command takes it for itself.
    pub(crate) fn take_exclusively(&mut self) {
        self.exclusive += 1;
        self.settle();
    }

    /// A command does not need it for itself any more.
    pub(crate) fn release(&mut self) {
        self.exclusive -= 1;
        self.settle();
    }

    /// Whether reads and writes need none of the rarer checks: plain blocks in one extent, nothing
    /// reserved, protected, uncorrectable or under way.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Restores the uncorrectable marks from what an earlier process has kept.
    pub(crate) fn restore_marks(&mut self, uncorrectable: Uncorrectable) {
        self.uncorrectable = uncorrectable;
        self.settle();
    }

    /// Restores the rest of what an earlier process has kept.
    pub(crate) fn restore(
        &mut self,
        blocks: u64,
        protection: WriteProtection,
        reservations: Reservations,
    ) {
        self.blocks = blocks;
        self.protection = protection;
        self.reservations = reservations;
        self.settle();
    }

    /// Bytes of the drive's space for blocks.
    pub(crate) fn space(&self) -> u64 {
        self.extents.iter().map(|extent| extent.sectors * SECTOR_BYTES).sum()
    }

    /// Recomputes what [`Namespace::is_plain`] says.
    fn settle(&mut self) {
        self.plain = self.extents.len() == 1
            && self.format.metadata == 0
            && self.protection == WriteProtection::None
            && !self.formatting
            && self.exclusive == 0
            && self.reservations.holder_kind().is_none()
            && self.uncorrectable.is_empty();
    }

    /// Gives the namespace its block format, and the blocks that fit.
    fn set_format(&mut self, format: Format) {
        self.format = format;
        self.blocks = self.space() >> format.shift;
        self.settle();
    }

    /// What does not outlive a power cycle is gone.
    pub(crate) fn power_cycled(&mut self) {
        if let Some(spaces) = &mut self.key_spaces {
            spaces.power_cycled();
        }
        self.reservations.power_lost();
        self.formatting = false;
        if self.protection == WriteProtection::UntilPowerCycle {
            self.protection = WriteProtection::None;
        }
        self.settle();
    }

    /// The parts of a range of sectors, as runs of the drive's space.
    pub(crate) fn parts(&self, sector: u64, sectors: u64) -> impl Iterator<Item = Extent> + '_ {
        let end = sector + sectors;
        let mut from = 0;
        self.extents.iter().filter_map(move |extent| {
            let (first, last) = (from.max(sector), (from + extent.sectors).min(end));
            let skipped = first.saturating_sub(from);
            from += extent.sectors;
            (first < last).then(|| Extent {
                pool: extent.pool,
                sector: extent.sector + skipped,
                sectors: last - first,
                store: extent.store + skipped * SECTOR_BYTES,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_controllers() {
        let mut set = ControllerSet::none();
        assert!(set.is_empty() && !set.contains(70));
        set.insert(70);
        assert!(set.contains(70) && !set.contains(71) && !set.is_empty());
        set.remove(70);
        assert!(set.is_empty());
        assert!(ControllerSet::all(200).contains(200));
        assert_eq!(ControllerSet::none().shorter_list(200), (false, vec![]));
        let mut all = ControllerSet::all(200);
        assert_eq!(all.shorter_list(200), (true, vec![]));
        for id in [0, 63, 64, 200] {
            set.insert(id);
            all.remove(id);
        }
        set.insert(201);
        assert_eq!(set.shorter_list(200), (false, vec![0, 63, 64, 200]));
        assert_eq!(all.shorter_list(200), (true, vec![0, 63, 64, 200]));
        assert_eq!(set.shorter_list(0), (true, vec![]));
        assert_eq!(set.shorter_list(63), (false, vec![0, 63]));
    }
}
