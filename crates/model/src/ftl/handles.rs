//! Reclaim unit handles: whose data are where on flash, and what the data of each have cost.

use crate::config::{Config, DataPlacement, Isolation, Victims};
use crate::io::PlacementId;
use crate::kernel::bytes::{Reader, StateError, Writer};
use crate::kernel::hash::StateHash;
use crate::number::{PoolIndex, Ppn, WriteIndex};
use crate::observe::blame::{GARBAGE_COLLECTION, HolderIndex, collection_for};
use crate::observe::placement::HandleCounters;
use crate::space::Shape;
use serde::{Deserialize, Serialize};

/// The handles of a drive with data placement.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Handles {
    placement: DataPlacement,
    /// The placement handle lists of namespaces.
    lists: Vec<Vec<u8>>,
    /// The handle of what was programmed last to each place; empty if there is only one.
    of_place: Vec<u8>,
    counters: Vec<HandleCounters>,
    /// Writes that named no placement handle of their namespace.
    unknown: u64,
    /// Whose write has had the last page, and for whom the present collection is.
    writer: u8,
    collects_for: u8,
    /// Collections since that page.
    in_a_row: u32,
    /// Of each unit that waits in a queue, the one before it there: a host may give it to another
    /// handle, and it leaves its queue then.
    queued_before: Vec<WriteIndex>,
    /// Handles that were updated, and units written before that that are to be programmed.
    closing: Vec<(u8, u64)>,
}

/// Collections in a row, without a page of the host's between, after which any reclaim unit will do
/// where those of a handle are preferred. An estimate: hosts wait for a few at most, unless a handle's
/// own units have next to nothing to win.
const IN_A_ROW_MAX: u32 = 16;

/// Who holds what a collection for the writes of a handle takes, on a drive with so many.
pub(crate) fn collector(handles: u8, collects_for: u8) -> HolderIndex {
    match handles {
        1 => GARBAGE_COLLECTION,
        _ => collection_for(collects_for),
    }
}

impl Handles {
    pub(crate) fn new(config: &Config, shape: &Shape) -> Option<Handles> {
        let placement = config.data_placement?;
        let all = || (0..placement.handles).collect::<Vec<u8>>();
        let lists = config.namespaces.iter().map(|namespace| match &namespace.handles[..] {
            [] => all(),
            some => some.to_vec(),
        });
        let places = if placement.handles > 1 { shape.ppns() } else { 0 };
        let counters = HandleCounters {
            moved_for: vec![0; placement.handles.into()],
            ..HandleCounters::default()
        };
        Some(Handles {
            placement,
            lists: lists.collect(),
            of_place: vec![0; places],
            counters: vec![counters; placement.handles.into()],
            unknown: 0,
            writer: 0,
            collects_for: 0,
            in_a_row: 0,
            queued_before: vec![],
            closing: vec![],
        })
    }

    /// The handle that a placement identifier of a namespace (counted from 0) stands for: that of the
    /// first placement handle if it is none (section 8.1.10.1).
    #[inline]
    pub(crate) fn resolve(&self, namespace: usize, placement: PlacementId) -> u8 {
        let list = &self.lists[namespace];
        list.get(usize::from(placement.0)).unwrap_or(&list[0]).to_owned()
    }

    /// A command writes so many bytes.
    #[inline]
    pub(crate) fn host_writes(&mut self, namespace: usize, placement: PlacementId, bytes: u64) {
        let handle = self.resolve(namespace, placement);
        self.unknown += u64::from(usize::from(placement.0) >= self.lists[namespace].len());
        let counters = &mut self.counters[usize::from(handle)];
        counters.host_writes += 1;
        counters.host_bytes += bytes;
    }

    /// What hosts wrote of a handle is programmed at `ppn`.
    #[inline]
    pub(crate) fn programmed(&mut self, ppn: Ppn, handle: u8) {
        self.counters[usize::from(handle)].units_programmed += 1;
        if let Some(of) = self.of_place.get_mut(ppn.index()) {
            *of = handle;
        }
    }

    /// What was at `from` is programmed at `ppn`.
    #[inline]
    pub(crate) fn moved(&mut self, from: Ppn, ppn: Ppn) {
        let handle = self.of(from);
        let counters = &mut self.counters[usize::from(handle)];
        counters.units_moved += 1;
        counters.moved_for[usize::from(self.collects_for)] += 1;
        if let Some(of) = self.of_place.get_mut(ppn.index()) {
            *of = handle;
        }
    }

    /// Notes, without counting, whose data are laid down at `ppn`.
    pub(crate) fn lay_down(&mut self, ppn: Ppn, handle: u8) {
        if let Some(of) = self.of_place.get_mut(ppn.index()) {
            *of = handle;
        }
    }

    /// The handle of what was programmed last at `ppn`.
    #[inline]
    pub(crate) fn of(&self, ppn: Ppn) -> u8 {
        self.of_place.get(ppn.index()).copied().unwrap_or(0)
    }

    /// The group that what is moved from `ppn` waits and lies with.
    #[inline]
    pub(crate) fn group_of_moved(&self, ppn: Ppn) -> u8 {
        match self.placement.isolation {
            Isolation::Initial => 0,
            Isolation::Persistent => self.of(ppn),
        }
    }

    /// A page of the host's is programmed of this handle, with room for so many more units.
    #[inline]
    pub(crate) fn page_of(&mut self, handle: u8, padded: u32) {
        (self.writer, self.in_a_row) = (handle, 0);
        self.counters[usize::from(handle)].units_padded += u64::from(padded);
    }

    /// A unit waits behind another, or `NONE`.
    #[inline]
    pub(crate) fn waits_behind(&mut self, unit: WriteIndex, before: WriteIndex) {
        if unit == WriteIndex::NONE {
            return;
        }
        if unit.index() >= self.queued_before.len() {
            self.queued_before.resize(unit.index() + 1, WriteIndex::NONE);
        }
        self.queued_before[unit.index()] = before;
    }

    /// What a unit that waits is behind of.
    pub(crate) fn waits_behind_what(&self, unit: WriteIndex) -> WriteIndex {
        self.queued_before[unit.index()]
    }

    /// Whether a handle was updated, and what it had written before is not yet programmed.
    #[inline]
    pub(crate) fn is_closing(&self, handle: u8) -> bool {
        !self.closing.is_empty() && self.closing.iter().any(|(it, _)| *it == handle)
    }

    /// Units that are to be programmed before a handle's reclaim unit is closed.
    pub(crate) fn closing(&mut self) -> &mut Vec<(u8, u64)> {
        &mut self.closing
    }

    /// How many of them a handle has, if it was updated.
    pub(crate) fn last_expected(&self, handle: u8) -> Option<u64> {
        self.closing.iter().find(|(it, _)| *it == handle).map(|(_, units)| *units)
    }

    /// A collection begins. Returns the handle among whose units its victim should be, if it should.
    pub(crate) fn collection_begins(&mut self) -> Option<u8> {
        self.collects_for = self.writer;
        self.in_a_row = self.in_a_row.saturating_add(1);
        let prefers = self.placement.victims == Victims::Handle && self.in_a_row <= IN_A_ROW_MAX;
        prefers.then_some(self.writer)
    }

    /// Who holds what the present collection takes.
    pub(crate) fn collector(&self) -> HolderIndex {
        collector(self.placement.handles, self.collects_for)
    }

    pub(crate) fn is_persistent(&self) -> bool {
        self.placement.isolation == Isolation::Persistent && self.placement.handles > 1
    }

    /// The counters of each handle, and writes that named no placement handle.
    pub(crate) fn counters(&self) -> (&[HandleCounters], u64) {
        (&self.counters, self.unknown)
    }

    pub(crate) fn count(&self) -> u8 {
        self.placement.handles
    }

    /// The placement handle list of a namespace, counted from 0.
    pub(crate) fn list(&self, namespace: usize) -> Option<&[u8]> {
        self.lists.get(namespace).map(Vec::as_slice)
    }

    /// Adds whose data are where.
    pub(crate) fn hash(&self, hash: &mut StateHash) {
        self.of_place.iter().for_each(|&of| hash.add(of.into()));
    }

    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        out.numbers(self.of_place.iter().map(|&of| of.into()));
        out.number(self.writer.into());
        out.number(self.collects_for.into());
        out.number(self.in_a_row.into());
    }

    pub(crate) fn restore(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let handles = u32::from(self.placement.handles);
        let of_place = input.all("places' handles", self.of_place.len(), handles)?;
        self.of_place = of_place.into_iter().map(|of| of as u8).collect();
        for one in [&mut self.writer, &mut self.collects_for] {
            let handle = input.number()?;
            if handle >= handles.into() {
                return Err(StateError::Damaged("a handle".into()));
            }
            *one = handle as u8;
        }
        let in_a_row = input.number()?;
        self.in_a_row = u32::try_from(in_a_row)
            .map_err(|_| StateError::Damaged(format!("{in_a_row} collections in a row")))?;
        Ok(())
    }
}
