//! Reclaim unit handles as the outside sees them: what each has cost, how much room its reclaim unit
//! has left, and the beginning of another.

use super::Drive;
use crate::flash::queues::CLASS_COLLECTION;
use crate::ftl::handles::HandleCounters;
use crate::ftl::mapping::table::Content;
use crate::ftl::unit::UnitState;
use crate::io::{NamespaceId, PlacementId};
use serde::{Deserialize, Serialize};

/// What a drive with data placement has counted since it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementCounters {
    /// By reclaim unit handle.
    pub handles: Vec<HandleCounters>,
    /// Writes that named no placement handle of their namespace, and went to its first.
    pub unknown: u64,
    /// Reclaim units erased, and the bytes of one.
    pub units_erased: u64,
    pub unit_bytes: u64,
}

impl PlacementCounters {
    /// What has been counted since `before`.
    pub fn since(&self, before: &PlacementCounters) -> PlacementCounters {
        let zero = HandleCounters::default();
        let before_of = |at: usize| before.handles.get(at).unwrap_or(&zero);
        let handles = self.handles.iter().enumerate();
        PlacementCounters {
            handles: handles.map(|(at, now)| now.since(before_of(at))).collect(),
            unknown: self.unknown - before.unknown,
            units_erased: self.units_erased - before.units_erased,
            unit_bytes: self.unit_bytes,
        }
    }
}

impl Drive {
    /// What the handles of a drive with data placement have cost since it was built; `None` of others.
    pub fn placement_counters(&self) -> Option<PlacementCounters> {
        let (counters, unknown) = self.ftl.handles()?.counters();
        let mut handles = counters.to_vec();
        for (handle, of) in (0..).zip(&mut handles) {
            let units = self.ftl.unit_counts(handle).0;
            (of.units_opened, of.units_closed) = (units.opened, units.closed);
        }
        let (_, unit) = self.ftl.reclaim_unit_left(0)?;
        Some(PlacementCounters {
            handles,
            unknown,
            units_erased: self.ftl.unit_counts(0).1,
            unit_bytes: unit * u64::from(self.shape.unit_bytes),
        })
    }

    /// Bytes of a reclaim unit; `None` without data placement.
    pub fn reclaim_unit_bytes(&self) -> Option<u64> {
        self.ftl.handles()?;
        Some(self.ftl.reclaim_unit_left(0)?.1 * u64::from(self.shape.unit_bytes))
    }

    /// The reclaim unit handles of a namespace's placement handles, in order.
    pub fn placement_handles(&self, namespace: NamespaceId) -> Option<&[u8]> {
        self.ftl.handles()?.list((namespace.0 as usize).checked_sub(1)?)
    }

    /// Mapping units that can still be written to the reclaim unit that the handle fills: what waits
    /// in the cache and in queues will be there, too.
    pub fn reclaim_unit_left(&self, handle: u8) -> Option<u64> {
        self.ftl.handles().filter(|handles| handle < handles.count())?;
        let (left, whole) = self.ftl.reclaim_unit_left(handle)?;
        let waits = self.units_that_wait(handle);
        Some(match self.ftl.last_expected(handle) {
            // Its next unit is empty but for what has come since it was updated.
            Some(before) => whole - waits.saturating_sub(before) % whole,
            None => (left + whole - waits % whole - 1) % whole + 1,
        })
    }

    /// See [`Control::UpdateHandle`](crate::io::Control::UpdateHandle).
    pub(crate) fn update_handle(&mut self, namespace: NamespaceId, placement: PlacementId) {
        let list = self.placement_handles(namespace);
        let Some(&handle) = list.and_then(|list| list.get(usize::from(placement.0))) else {
            return;
        };
        let Some(whole) = self.ftl.reclaim_unit_left(handle).map(|(_, whole)| whole) else {
            return;
        };
        if self.reclaim_unit_left(handle) == Some(whole) {
            return;
        }
        self.write_back();
        let waits = self.units_that_wait(handle);
        match waits {
            0 => self.close_reclaim_unit(handle),
            _ => self.ftl.expect_last(handle, waits),
        }
    }

    /// A page of a handle with so many units is programmed: if it has the last that was written
    /// before the handle was updated, its reclaim unit is closed.
    #[cold]
    #[inline(never)]
    pub(crate) fn page_of_closing(&mut self, handle: u8, units: u32) {
        let waits = self.units_that_wait(handle);
        if self.ftl.last_is_written(handle, units.into(), waits) {
            self.close_reclaim_unit(handle);
        }
    }

    /// What handles that were updated had in the cache is gone.
    pub(crate) fn close_reclaim_units(&mut self) {
        for handle in self.ftl.take_closing() {
            self.close_reclaim_unit(handle);
        }
    }

    fn close_reclaim_unit(&mut self, handle: u8) {
        self.ftl.begin_reclaim_unit(handle);
        for plane in self.shape.all_planes() {
            self.flash.mark_plane(plane);
        }
    }

    /// Units of a handle that are to be programmed.
    fn units_that_wait(&self, handle: u8) -> u64 {
        let waits = self.ftl.units().stored().filter(|unit| {
            let own = matches!(unit.content, Content::Unit(_)) && unit.class != CLASS_COLLECTION;
            let programming = unit.state == UnitState::Programming && !unit.rewritten;
            own && unit.group == handle && !programming && !unit.trimmed
        });
        waits.count() as u64
    }
}
