//! Reads and erases that wait for a plane, and the count that a die keeps of all that waits, by
//! class.

use crate::kernel::pool::List;
use crate::number::WorkIndex;
use serde::{Deserialize, Serialize};

/// Classes of reads and of writes: the mapping table, the four priorities of host I/O, garbage
/// collection, and the folding of what a write cache holds. The last two move data: what they do for
/// a die or a plane is asked for in the same way.
pub(crate) const CLASSES: usize = 7;
pub(crate) const CLASS_TABLES: u8 = 0;
pub(crate) const CLASS_HOST: u8 = 1;
pub(crate) const CLASS_COLLECTION: u8 = 5;
pub(crate) const CLASS_FOLD: u8 = 6;

/// Whether work of a class moves data.
#[inline(always)]
pub(crate) const fn moves(class: u8) -> bool {
    class >= CLASS_COLLECTION
}

/// Reads and erases that wait for a plane.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PlaneQueues {
    pub(super) reads: [List<WorkIndex>; CLASSES],
    pub(super) erases: List<WorkIndex>,
}

impl PlaneQueues {
    pub(super) const EMPTY: PlaneQueues =
        PlaneQueues { reads: [List::EMPTY; CLASSES], erases: List::EMPTY };
}

/// How much waits for a die's planes, by class.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) reads: [u32; CLASSES],
    pub(super) writes: [u32; CLASSES],
    pub(super) erases: u32,
    /// A bit for each of these that is not zero, and [`EXCLUSIVE`].
    pub(super) some: u32,
    /// Collections in its planes that nothing may come between.
    exclusive: u32,
}

/// Where the bits of writes and the bit of erases begin.
pub(super) const WRITES: u32 = 8;
pub(super) const ERASES: u32 = 16;
pub(super) const COLLECTION_READS: u32 = 1 << CLASS_COLLECTION;
pub(super) const COLLECTION_WRITES: u32 = 1 << (WRITES + CLASS_COLLECTION as u32);
pub(super) const FOLD_READS: u32 = 1 << CLASS_FOLD;
pub(super) const FOLD_WRITES: u32 = 1 << (WRITES + CLASS_FOLD as u32);
pub(super) const COLLECTION_WORK: u32 =
    COLLECTION_READS | COLLECTION_WRITES | FOLD_READS | FOLD_WRITES | 1 << ERASES;
pub(super) const TABLE_READS: u32 = 1 << CLASS_TABLES;
/// Not work, but a bit that keeps all but collection from being chosen.
pub(super) const EXCLUSIVE: u32 = 1 << 24;
/// Reads that somebody waits for: of the mapping table and of hosts.
pub(super) const AWAITED_READS: u32 = TABLE_READS | HOST_CLASSES << CLASS_HOST;
/// The bit of an operation that was suspended and has to go on.
pub(super) const SUSPENDED: u32 = 1 << 17;
pub(super) const HOST_CLASSES: u32 = 0b1111;

impl Load {
    #[inline]
    pub(super) fn reads(&self, class: u8) -> u32 {
        self.reads[usize::from(class)]
    }

    #[inline]
    pub(super) fn writes(&self, class: u8) -> u32 {
        self.writes[usize::from(class)]
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.some & !EXCLUSIVE == 0
    }

    /// A collection begins that nothing may come between.
    pub(super) fn begin_exclusive(&mut self) {
        self.exclusive += 1;
        self.some |= EXCLUSIVE;
    }

    pub(super) fn end_exclusive(&mut self) {
        self.exclusive -= 1;
        if self.exclusive == 0 {
            self.some &= !EXCLUSIVE;
        }
    }

    /// Whether host writes of another class than `class` wait.
    #[inline]
    pub(super) fn writes_other_than(&self, class: u8) -> bool {
        let host = HOST_CLASSES << (WRITES + u32::from(CLASS_HOST));
        self.some & host & !(1 << (WRITES + u32::from(class))) != 0
    }

    #[inline]
    pub(super) fn add_read(&mut self, class: u8) {
        self.reads[usize::from(class)] += 1;
        self.some |= 1 << class;
    }

    #[inline]
    pub(super) fn add_write(&mut self, class: u8) {
        self.writes[usize::from(class)] += 1;
        self.some |= 1 << (WRITES + u32::from(class));
    }

    #[inline]
    pub(super) fn add_erase(&mut self) {
        self.erases += 1;
        self.some |= 1 << ERASES;
    }

    #[inline]
    pub(super) fn take_reads(&mut self, class: u8, count: u32) {
        let left = &mut self.reads[usize::from(class)];
        *left -= count;
        self.some &= !(u32::from(*left == 0) << class);
    }

    #[inline]
    pub(super) fn take_write(&mut self, class: u8) {
        let left = &mut self.writes[usize::from(class)];
        *left -= 1;
        self.some &= !(u32::from(*left == 0) << (WRITES + u32::from(class)));
    }

    #[inline]
    pub(super) fn take_erase(&mut self) {
        self.erases -= 1;
        self.some &= !(u32::from(self.erases == 0) << ERASES);
    }

    /// Notes that the die has something to go on with, or no more.
    pub(super) fn set_suspended(&mut self, suspended: bool) {
        self.some = (self.some & !SUSPENDED) | (u32::from(suspended) * SUSPENDED);
    }

    /// Whether nothing but reads of one class waits that has no turns to take: which class.
    #[inline]
    pub(super) fn only_reads(&self) -> Option<u8> {
        const WITHOUT_TURNS: u32 = TABLE_READS | 0b11 << CLASS_HOST;
        let one = self.some & !WITHOUT_TURNS == 0 && self.some.is_power_of_two();
        one.then(|| self.some.trailing_zeros() as u8)
    }
}
