//! What waits to be programmed in a plane, and how many planes have enough of it for a page.

use crate::flash::queues::CLASSES;
use crate::kernel::pool::List;
use crate::number::WriteIndex;
use serde::{Deserialize, Serialize};

/// Parts of pages that wait to be programmed in a plane.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ProgramQueues {
    /// By scheduling class.
    pub(crate) writes: [List<WriteIndex>; CLASSES],
    /// Host units in `writes`.
    pub(crate) host_units: u32,
    /// Host units in `writes` that must not wait for others to fill the page.
    pub(crate) forced: u32,
    /// Collected units in `writes`.
    pub(crate) collected_units: u32,
}

impl ProgramQueues {
    pub(crate) const EMPTY: ProgramQueues = ProgramQueues {
        writes: [List::EMPTY; CLASSES],
        host_units: 0,
        forced: 0,
        collected_units: 0,
    };
}

/// How many planes have a full page of host units to program, at least one.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct FullPages {
    /// Host units of which some fill a page, whichever of them go together.
    units: u32,
    planes: u32,
}

impl FullPages {
    /// A page takes so many units, and has units of one of so many kinds.
    pub(crate) fn new(units_per_program: u32, kinds: u32) -> FullPages {
        FullPages { units: kinds * (units_per_program - 1) + 1, planes: 0 }
    }

    /// Whether no plane has a full page.
    pub(crate) fn is_empty(&self) -> bool {
        self.planes == 0
    }

    /// Planes that have a full page.
    pub(crate) fn planes(&self) -> u32 {
        self.planes
    }

    /// Whether a plane with so many host units has one.
    pub(crate) fn is_full(&self, host_units: u32) -> bool {
        host_units >= self.units
    }

    /// A plane has been given a unit, and has so many now.
    #[inline(always)]
    pub(crate) fn added(&mut self, host_units: u32) {
        self.planes += u32::from(host_units == self.units);
    }

    /// A unit has been taken from a plane, which has so many left.
    #[inline(always)]
    pub(crate) fn taken(&mut self, host_units: u32) {
        self.planes -= u32::from(host_units + 1 == self.units);
    }

    /// All queues have been emptied.
    pub(crate) fn clear(&mut self) {
        self.planes = 0;
    }
}
