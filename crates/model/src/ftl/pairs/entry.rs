//! A pair as the model knows it, and the cells that it has.

use crate::number::Lpn;
use crate::pair_index::Place;
use serde::{Deserialize, Serialize};

/// Stands for no cells.
const NOWHERE: u32 = u32::MAX;

/// Cells that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) first: Lpn,
    pub(crate) units: u32,
}

impl Cell {
    pub(crate) const NONE: Cell = Cell { first: Lpn(0), units: 0 };

    pub(crate) fn is_nowhere(self) -> bool {
        self.units == 0
    }

    pub(crate) fn end(self) -> Lpn {
        self.first + self.units
    }
}

/// A pair that there is, or a name that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) token: u64,
    /// First cell within the namespace, or [`NOWHERE`].
    pub(super) first: u32,
    /// Number of cells in the lower 24 bits, place in the index in the upper 8.
    pub(super) units_and_place: u32,
}

impl Entry {
    pub(super) const NONE: Entry = Entry { token: 0, first: NOWHERE, units_and_place: 0 };

    pub(super) fn new(token: u64, first: u32, units: u32, place: Place) -> Entry {
        Entry { token, first, units_and_place: units | u32::from(place) << 24 }
    }

    pub(super) fn is_vacant(self) -> bool {
        self.first == NOWHERE
    }

    pub(super) fn units(self) -> u32 {
        self.units_and_place & 0x00ff_ffff
    }

    pub(super) fn place(self) -> Place {
        (self.units_and_place >> 24) as Place
    }
}
