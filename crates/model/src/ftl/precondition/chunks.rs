//! Units that are written together: of a request of several units those that share a page. They
//! are valid or void as one, and collection moves them as one.

use super::{CLASSES_MAX, PlaneClass, Scratch, below};
use crate::number::Ppn;
use crate::steady::pool::{BlockComposition, BlockRole};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Units that count as one in the pool of a plane with these classes: those that are written
/// together, if that is as many in all classes that are written.
pub(super) fn chunk_of(classes: &[PlaneClass]) -> u32 {
    let mut written = classes.iter().filter(|class| class.weight > 0.0);
    let Some(first) = written.next() else { return 1 };
    let alike = |class: &PlaneClass| class.together == first.together;
    let ordered = classes.iter().any(|class| class.weight > 0.0 && class.order.is_ordered());
    if !ordered && written.all(alike) { first.together } else { 1 }
}

/// Counts of units as counts of chunks of `chunk` units, rounded down.
pub(super) fn in_chunks(units: &[u64], chunk: u32) -> Vec<u64> {
    units.iter().map(|&units| units / u64::from(chunk)).collect()
}

/// Counts in units what was counted in chunks, and gives each class what it has more: `counts` of
/// them in all.
pub(super) fn enlarge(compositions: &mut [BlockComposition], chunk: u32, counts: &[u64]) {
    if chunk == 1 {
        return;
    }
    for composition in compositions.iter_mut() {
        composition.written *= chunk as u16;
        composition.valid.iter_mut().for_each(|valid| *valid *= chunk as u16);
    }
    for (class, &count) in counts.iter().enumerate() {
        let have: u64 = compositions.iter().map(|block| u64::from(block.valid[class])).sum();
        let mut more = count.saturating_sub(have) as u32;
        for block in compositions.iter_mut().filter(|block| block.role == BlockRole::Full) {
            let room = more.min(u32::from(block.written) - block.valid_units());
            block.valid[class] += room as u16;
            more -= room;
        }
        debug_assert_eq!(more, 0);
    }
}

/// Draws which places of a block that begins at the PPN `first` are valid, and of which class, and
/// notes them in `scratch`: chunks by their first place, and one by one what fills none.
pub(super) fn lay_chunks(
    first: Ppn,
    composition: &BlockComposition,
    classes: &[PlaneClass],
    scratch: &mut Scratch,
    random: &mut Xoshiro256PlusPlus,
) {
    let mut size = classes.iter().map(|class| class.together).max().unwrap_or(1);
    let written = u32::from(composition.written);
    let places = &mut scratch.places;
    places.clear();
    places.extend((0..written / size).map(|at| at * size));
    let mut left = [0; CLASSES_MAX];
    left.iter_mut().zip(composition.valid).for_each(|(left, valid)| *left = u32::from(valid));
    loop {
        for (index, class) in classes.iter().enumerate() {
            while class.together >= size && left[index] >= size && !places.is_empty() {
                let at = below(random, places.len() as u32) as usize;
                let place = first + places.swap_remove(at);
                left[index] -= size;
                match size == class.together && size > 1 {
                    true => scratch.chunks[index].push(place),
                    false => scratch.ppns[index].extend(place.run(size)),
                }
            }
        }
        if size == 1 {
            break;
        }
        size /= 2;
        let halves = places.len();
        for at in 0..halves {
            places.push(places[at] + size);
        }
    }
    debug_assert_eq!(left.iter().sum::<u32>(), 0, "all have a place");
}
