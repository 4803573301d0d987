//! The namespaces of a subsystem, and the space of the drive that they lie in.

mod namespace;
pub(crate) mod protection;
pub(crate) mod reservation;
mod space;
pub(crate) mod uncorrectable;

pub(crate) use namespace::{ControllerSet, FORMATS, Format, Namespace, WriteProtection};
pub(crate) use space::{Extent, Space};

use crate::key_value::{Name, PairSpace, Pairs};
use crate::samsung::KeySpaces;
use mynah_model::io::NamespaceId;
use mynah_wire::nvme::Status;

/// Bytes of a sector, the model's unit of addresses.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// The namespaces, by index: the identifier less one.
#[derive(Debug)]
pub(crate) struct Namespaces {
    table: Vec<Option<Box<Namespace>>>,
    /// The serial number of the one that was made last.
    last_serial: u32,
    space: Space,
    pair_space: PairSpace,
    /// Which is the one of key spaces: their commands do not name it.
    key_spaces: Option<usize>,
    /// Whether reads and writes need more checks than usual, in all of them.
    is_guarded: bool,
}

impl Namespaces {
    /// Room for `namespaces_max` namespaces, none of which exists yet.
    pub(crate) fn new(namespaces_max: u32, space: Space, pair_space: PairSpace) -> Namespaces {
        let table = (0..namespaces_max).map(|_| None).collect();
        Namespaces { table, last_serial: 0, space, pair_space, key_spaces: None, is_guarded: false }
    }

    /// NN: the highest identifier.
    pub(crate) fn places(&self) -> usize {
        self.table.len()
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&Namespace> {
        self.table.get(at)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Namespace> {
        self.table.get_mut(at)?.as_deref_mut()
    }

    /// The namespace of a command that was admitted to it.
    pub(crate) fn need(&self, at: usize) -> Result<&Namespace, Status> {
        self.get(at).ok_or(Status::INTERNAL_ERROR)
    }

    pub(crate) fn need_mut(&mut self, at: usize) -> Result<&mut Namespace, Status> {
        self.get_mut(at).ok_or(Status::INTERNAL_ERROR)
    }

    /// The one with an identifier, if there is one.
    #[inline]
    pub(crate) fn with_id(&self, id: u32) -> Option<&Namespace> {
        self.get((id as usize).wrapping_sub(1))
    }

    pub(crate) fn with_id_mut(&mut self, id: u32) -> Option<&mut Namespace> {
        self.get_mut((id as usize).wrapping_sub(1))
    }

    /// Whether there can be one with an identifier.
    pub(crate) fn can_have(&self, id: u32) -> bool {
        (1..=self.table.len() as u32).contains(&id)
    }

    /// The one with this identifier, if it is attached to the controller.
    #[inline]
    pub(crate) fn active(&self, controller: u16, id: u32) -> Result<&Namespace, Status> {
        self.with_id(id)
            .filter(|namespace| namespace.attached.contains(controller))
            .ok_or(Status::INVALID_NAMESPACE.do_not_retry())
    }

    /// The identifiers of those that are attached to a controller.
    pub(crate) fn active_ids(&self, controller: u16) -> Vec<u32> {
        let attached = self.iter().filter(|it| it.attached.contains(controller));
        attached.map(|it| it.id).collect()
    }

    /// The namespaces that there are, in order of their identifiers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.table.iter().filter_map(Option::as_deref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Namespace> {
        self.table.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// A namespace of blocks, to be passed to [`Namespaces::insert`].
    pub(crate) fn make(
        &mut self,
        id: u32,
        extents: Vec<Extent>,
        format: Format,
        attached: ControllerSet,
        shared: bool,
    ) -> Namespace {
        self.last_serial += 1;
        Namespace::new(id, self.last_serial, extents, format, attached, shared)
    }

    /// A namespace of pairs, to be passed to [`Namespaces::insert`].
    pub(crate) fn make_of_pairs(
        &mut self,
        id: u32,
        pairs: Pairs,
        attached: ControllerSet,
        shared: bool,
    ) -> Namespace {
        self.last_serial += 1;
        Namespace::of_pairs(id, self.last_serial, pairs, attached, shared)
    }

    /// A namespace of key spaces, to be passed to [`Namespaces::insert`].
    pub(crate) fn make_of_key_spaces(
        &mut self,
        id: u32,
        spaces: KeySpaces,
        attached: ControllerSet,
        shared: bool,
    ) -> Namespace {
        self.last_serial += 1;
        Namespace::of_key_spaces(id, self.last_serial, spaces, attached, shared)
    }

    /// The one of key spaces, if there is one.
    #[inline]
    pub(crate) fn key_spaces(&self) -> Option<&Namespace> {
        self.get(self.key_spaces?)
    }

    /// Whether there can be some of pairs.
    pub(crate) fn can_hold_pairs(&self) -> bool {
        self.pair_space.layout().is_some()
    }

    pub(crate) fn pair_space(&self) -> &PairSpace {
        &self.pair_space
    }

    /// No pairs yet, in the smallest of the model's namespaces of pairs that is not taken and fits.
    pub(crate) fn unused_pairs<N: Name>(&self, fits: impl Fn(u64) -> bool) -> Option<Pairs<N>> {
        let layout = self.pair_space.layout()?;
        let unused = self.pair_space.pools().iter().filter(|(pool, _)| !self.takes_pool(*pool));
        let (pool, bytes) = unused.filter(|(_, bytes)| fits(*bytes)).min_by_key(|it| it.1)?;
        Some(Pairs::new(*pool, *bytes, *layout, self.pair_space.stores(*pool)))
    }

    /// Bytes that there are for pairs, and how many of these are in no namespace.
    pub(crate) fn bytes_for_pairs(&self) -> (u64, u64) {
        self.pair_space.pools().iter().fold((0, 0), |(all, unused), &(pool, bytes)| {
            (all + bytes, unused + if self.takes_pool(pool) { 0 } else { bytes })
        })
    }

    /// Whether one of them lies in this namespace of the model.
    fn takes_pool(&self, pool: NamespaceId) -> bool {
        self.iter().any(|namespace| namespace.pools().any(|its| its == pool))
    }

    /// Enters a namespace at the index that its identifier gives.
    pub(crate) fn insert(&mut self, namespace: Namespace) {
        let at = namespace.id as usize - 1;
        if namespace.key_spaces().is_some() {
            self.key_spaces = Some(at);
        }
        self.last_serial = self.last_serial.max(namespace.serial);
        self.table[at] = Some(Box::new(namespace));
    }

    /// Removes a namespace; its space is not free before [`Space::give_back`].
    pub(crate) fn remove(&mut self, at: usize) -> Option<Box<Namespace>> {
        let gone = self.table.get_mut(at)?.take()?;
        if let Some(pairs) = gone.pairs() {
            self.pair_space.left(pairs.pool(), pairs.stores());
        }
        if let Some(pairs) = gone.key_spaces().map(KeySpaces::pairs) {
            self.pair_space.left(pairs.pool(), pairs.stores());
            self.key_spaces = None;
        }
        Some(gone)
    }

    /// The serial number of the one that was made last.
    pub(crate) fn last_serial(&self) -> u32 {
        self.last_serial
    }

    #[inline]
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    /// Whether reads and writes need more checks than usual, whatever their namespace.
    #[inline]
    pub(crate) fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    pub(crate) fn set_guarded(&mut self, is_guarded: bool) {
        self.is_guarded = is_guarded;
    }
}
