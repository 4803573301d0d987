//! Puts units that are rewritten in order into the blocks of a plane: consecutive addresses in
//! consecutive places, from the oldest block to the one that was filled last.
//!
//! The range has just been written to its end, so the units with the lowest addresses are the
//! next to be rewritten. Within a block the units that were programmed first are the first to
//! lose their place.

use super::{CLASSES_MAX, PlaneClass, Scratch, below};
use crate::drive::{Drive, Policies};
use crate::ftl::mapping::table::Content;
use crate::io::NamespaceId;
use crate::number::{Plane, Ppn};
use crate::steady::ordered::{Kind, Ordered, Part};
use crate::steady::pool::BlockComposition;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Where a part of a sequence is: its PPNs, of all that the class has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Placed {
    rank: i64,
    first: u32,
    units: u32,
}

/// The parts of each class, and room to find those of one block.
#[derive(Default)]
pub(super) struct Parts {
    placed: Vec<Vec<Placed>>,
    of_block: Vec<Part>,
}

impl Parts {
    /// Forgets those of another plane, whose classes may be others.
    pub(super) fn begin(&mut self, classes: usize) {
        self.placed.iter_mut().for_each(Vec::clear);
        self.placed.resize(classes, vec![]);
    }
}

impl<P: Policies> Drive<P> {
    /// Draws which places of a block that begins at the PPN `first` are valid, and of which class,
    /// and notes them in `scratch`.
    pub(super) fn lay_out(
        &self,
        first: Ppn,
        composition: &BlockComposition,
        ordered: &Ordered,
        scratch: &mut Scratch,
        random: &mut Xoshiro256PlusPlus,
    ) {
        let classes = scratch.ppns.len();
        let written = u32::from(composition.written);
        // Of units in order those that are valid no more have their places, too.
        let (mut left, mut lost) = ([0u32; CLASSES_MAX], [0u32; CLASSES_MAX]);
        let mut room = written - composition.valid_units();
        for class in 0..classes {
            let valid = u32::from(composition.valid[class]);
            left[class] = valid;
            if ordered.kinds[class] == Kind::InOrder {
                lost[class] = (ordered.programmed(composition, class) - valid).min(room);
                left[class] += lost[class];
                room -= lost[class];
            }
        }
        for class in (0..classes).filter(|&class| ordered.kinds[class] == Kind::InOrder) {
            let mut first = scratch.ppns[class].len() as u32;
            ordered.parts(composition, class, &mut scratch.parts.of_block);
            for &Part { rank, units } in &scratch.parts.of_block {
                scratch.parts.placed[class].push(Placed { rank, first, units });
                first += units;
            }
        }
        let page = self.shape.units_per_page;
        let mut place = 0;
        while place < written {
            let mut draw = below(random, written - place);
            let mut drawn = 0;
            while drawn < classes && draw >= left[drawn] {
                draw -= left[drawn];
                drawn += 1;
            }
            if drawn == classes {
                place += 1;
                continue;
            }
            // What is written in order fills whole pages.
            let is_whole = ordered.kinds[drawn] == Kind::InOrder
                && place.is_multiple_of(page)
                && left[drawn] >= page;
            for _ in 0..if is_whole { page } else { 1 } {
                left[drawn] -= 1;
                match lost[drawn] {
                    0 => scratch.ppns[drawn].push(first + place),
                    _ => lost[drawn] -= 1,
                }
                place += 1;
            }
        }
    }

    /// Maps the units of a class that is rewritten in order, by their addresses.
    pub(super) fn map_in_order(
        &mut self,
        plane: Plane,
        class: PlaneClass,
        at: usize,
        heats: &[(NamespaceId, super::Heat)],
        scratch: &mut Scratch,
    ) {
        let placed = &mut scratch.parts.placed[at];
        placed.sort_unstable();
        let ppns = &scratch.ppns[at];
        let mut next = placed.iter().flat_map(|part| {
            let first = part.first as usize;
            ppns[first..first + part.units as usize].iter().copied()
        });
        let runs = &mut scratch.runs;
        runs.clear();
        self.groups_on_plane(plane, class, |from, to| runs.push((from, to)));
        for &(from, to) in runs.iter() {
            for lpn in from.upto(to) {
                if self.is_of(lpn, class.heat, heats)
                    && let Some(ppn) = next.next()
                {
                    self.ftl.mapping.table.map(Content::Unit(lpn), ppn);
                }
            }
        }
        debug_assert!(next.next().is_none());
    }
}
