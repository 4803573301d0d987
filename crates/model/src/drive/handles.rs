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
        let waits = self.ftl.units().stored().filter(|unit| {
            let own = matches!(unit.content, Content::Unit(_)) && unit.class != CLASS_COLLECTION;
            let programming = unit.state == UnitState::Programming && !unit.rewritten;
            own && unit.group == handle && !programming && !unit.trimmed
        });
        let waits = waits.count() as u64;
        Some((left + whole - waits % whole - 1) % whole + 1)
    }

    /// The namespace's placement handle refers to a new reclaim unit from now on, unless its present
    /// one is empty (section 7.4, Reclaim Unit Handle Update). What waits in the cache goes there, so
    /// write that back first. Returns the mapping units that stay unwritten in the one before; `None`
    /// if the namespace has no such placement handle.
    pub fn update_handle(&mut self, namespace: NamespaceId, placement: PlacementId) -> Option<u64> {
        let list = self.placement_handles(namespace)?;
        let handle = *list.get(usize::from(placement.0))?;
        let (left, whole) = self.ftl.reclaim_unit_left(handle)?;
        if left == whole {
            return Some(0);
        }
        self.ftl.begin_reclaim_unit(handle);
        for plane in self.shape.all_planes() {
            self.collect_if_needed(plane);
        }
        self.settle();
        Some(left)
    }
}
