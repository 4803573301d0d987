//! Values in memory, packed: rooms of some sizes in pieces of memory, each piece with rooms of one
//! size. A piece without values can have rooms of another size. Large values have memory of their
//! own.

use super::{Place, Values};
use crate::store::{Arena, ArenaSource};

/// Memory is allocated in arenas of so many bytes.
const ARENA_BYTES: usize = 16 << 20;
/// Arenas are divided into pieces of so many bytes.
const PIECE_BYTES: usize = 1 << 20;
const PIECES: usize = ARENA_BYTES / PIECE_BYTES;
/// In front of a value: how often it is used. In a free room: the next one.
const HEADER_BYTES: usize = 4;
/// Rooms of up to this many bytes are multiples of [`GRAIN`].
const FINE_BYTES: usize = 1024;
const GRAIN: usize = 16;
const FINE_SIZES: usize = FINE_BYTES / GRAIN;
/// From there on there are so many sizes between a power of two and the next.
const STEPS: usize = 8;
/// Values that need more have memory of their own: of such rooms too few would fit a piece.
const ROOM_BYTES_MAX: usize = 128 << 10;
const SIZES: usize = FINE_SIZES + STEPS * (ROOM_BYTES_MAX.ilog2() - FINE_BYTES.ilog2()) as usize;
/// Set in the place of a value that has memory of its own.
const LARGE: u64 = 1 << 63;
/// The place of a value without bytes.
const NOWHERE: Place = Place(u64::MAX);
/// In place of the number of a room or piece: none.
const NONE: u32 = u32::MAX;

/// Which size a room for so many bytes, header included, has.
fn size_for(bytes: usize) -> usize {
    if bytes <= FINE_BYTES {
        return bytes.div_ceil(GRAIN) - 1;
    }
    // The power of two below, and how many steps above it.
    let power = (bytes - 1).ilog2();
    let step = 1usize << (power - STEPS.ilog2());
    let steps = (bytes - (1 << power)).div_ceil(step);
    FINE_SIZES + (power - FINE_BYTES.ilog2()) as usize * STEPS + steps - 1
}

fn room_bytes(size: usize) -> usize {
    match size.checked_sub(FINE_SIZES) {
        None => (size + 1) * GRAIN,
        Some(coarse) => {
            let power = FINE_BYTES << (coarse / STEPS);
            power + (coarse % STEPS + 1) * (power / STEPS)
        }
    }
}

/// A piece of an arena, cut into rooms of one size.
#[derive(Clone, Copy, Debug)]
struct Piece {
    size: u32,
    /// The first of its free rooms; those from `cut` on were never used.
    free: u32,
    cut: u32,
    used: u32,
    /// Its index in `open`, among the pieces of its size that have room; NONE if it has no room.
    open: u32,
}

/// A value that has memory of its own.
#[derive(Debug)]
struct Large {
    uses: u32,
    bytes: Box<[u8]>,
}

/// See the file's description.
pub struct RamValues<A = Vec<u8>> {
    source: ArenaSource<A>,
    arenas: Vec<A>,
    pieces: Vec<Piece>,
    /// Pieces in which no room is used.
    spare: Vec<u32>,
    /// Pieces with room, by size.
    open: Vec<Vec<u32>>,
    large: Vec<Option<Large>>,
    free_large: Vec<u32>,
}

impl RamValues {
    pub fn new() -> RamValues {
        RamValues::from_source(Box::new(|bytes| vec![0; bytes]))
    }
}

impl Default for RamValues {
    fn default() -> Self {
        RamValues::new()
    }
}

impl<A> std::fmt::Debug for RamValues<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RamValues").field("pieces", &self.pieces.len()).finish_non_exhaustive()
    }
}

impl<A: Arena> RamValues<A> {
    /// Keeps values in memory from `source`.
    pub fn from_source(source: ArenaSource<A>) -> RamValues<A> {
        RamValues {
            source,
            arenas: Vec::new(),
            pieces: Vec::new(),
            spare: Vec::new(),
            open: vec![Vec::new(); SIZES],
            large: Vec::new(),
            free_large: Vec::new(),
        }
    }

    /// A piece in which no room is used; `None` if numbers run out.
    fn take_piece(&mut self) -> Option<u32> {
        if let Some(piece) = self.spare.pop() {
            return Some(piece);
        }
        let first = u32::try_from(self.pieces.len()).ok().filter(|&it| it < NONE / 2)?;
        self.arenas.push((self.source)(ARENA_BYTES));
        let empty = Piece { size: 0, free: NONE, cut: 0, used: 0, open: NONE };
        self.pieces.resize(self.pieces.len() + PIECES, empty);
        self.spare.extend((first + 1..first + PIECES as u32).rev());
        Some(first)
    }

    /// A room of a size: piece and number.
    fn take_room(&mut self, size: usize) -> Option<(u32, u32)> {
        let number = match self.open[size].last() {
            Some(&number) => number,
            None => {
                let number = self.take_piece()?;
                self.pieces[number as usize] =
                    Piece { size: size as u32, free: NONE, cut: 0, used: 0, open: 0 };
                self.open[size].push(number);
                number
            }
        };
        let bytes = room_bytes(size);
        let rooms = (PIECE_BYTES / bytes) as u32;
        let piece = self.pieces[number as usize];
        let (room, free, cut) = match piece.free {
            NONE => (piece.cut, NONE, piece.cut + 1),
            free => (free, self.word(number, free as usize * bytes), piece.cut),
        };
        let piece = &mut self.pieces[number as usize];
        (piece.free, piece.cut, piece.used) = (free, cut, piece.used + 1);
        if free == NONE && cut == rooms {
            piece.open = NONE;
            self.open[size].pop();
        }
        Some((number, room))
    }

    fn free_room(&mut self, number: u32, room: u32) {
        let piece = self.pieces[number as usize];
        let size = piece.size as usize;
        self.set_word(number, room as usize * room_bytes(size), piece.free);
        let open = &mut self.open[size];
        let piece = &mut self.pieces[number as usize];
        (piece.free, piece.used) = (room, piece.used - 1);
        if piece.open == NONE {
            piece.open = open.len() as u32;
            open.push(number);
        }
        if piece.used == 0 {
            let at = std::mem::replace(&mut piece.open, NONE);
            open.swap_remove(at as usize);
            if let Some(&moved) = open.get(at as usize) {
                self.pieces[moved as usize].open = at;
            }
            self.spare.push(number);
        }
    }

    /// Where a room's bytes begin: piece and byte.
    #[inline]
    fn room(&self, Place(place): Place) -> (u32, usize) {
        let (number, room) = ((place >> 32) as u32, place as u32);
        (number, room as usize * room_bytes(self.pieces[number as usize].size as usize))
    }

    #[inline]
    fn run(&self, number: u32, at: usize, bytes: usize) -> &[u8] {
        let at = number as usize % PIECES * PIECE_BYTES + at;
        &self.arenas[number as usize / PIECES][at..at + bytes]
    }

    #[inline]
    fn run_mut(&mut self, number: u32, at: usize, bytes: usize) -> &mut [u8] {
        let at = number as usize % PIECES * PIECE_BYTES + at;
        &mut self.arenas[number as usize / PIECES][at..at + bytes]
    }

    #[inline]
    fn word(&self, number: u32, at: usize) -> u32 {
        let bytes = self.run(number, at, HEADER_BYTES).first_chunk();
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    #[inline]
    fn set_word(&mut self, number: u32, at: usize, word: u32) {
        self.run_mut(number, at, HEADER_BYTES).copy_from_slice(&word.to_ne_bytes());
    }

    fn reserve_large(&mut self, bytes: u32) -> Option<Place> {
        let large = Large { uses: 1, bytes: vec![0; bytes as usize].into() };
        let at = match self.free_large.pop() {
            Some(at) => at,
            None => {
                self.large.push(None);
                self.large.len() as u32 - 1
            }
        };
        self.large[at as usize] = Some(large);
        Some(Place(LARGE | u64::from(at)))
    }

    fn large(&self, Place(place): Place) -> Option<&Large> {
        self.large.get((place & !LARGE) as usize)?.as_ref()
    }

    fn large_mut(&mut self, Place(place): Place) -> Option<&mut Large> {
        self.large.get_mut((place & !LARGE) as usize)?.as_mut()
    }

    /// Memory that holds values, or could at once.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        let large: usize = self.large.iter().flatten().map(|it| it.bytes.len()).sum();
        (self.pieces.len() - self.spare.len()) * PIECE_BYTES + large
    }
}

impl<A: Arena> Values for RamValues<A> {
    fn reserve(&mut self, bytes: u32) -> Option<Place> {
        if bytes == 0 {
            return Some(NOWHERE);
        }
        let needed = bytes as usize + HEADER_BYTES;
        if needed > ROOM_BYTES_MAX {
            return self.reserve_large(bytes);
        }
        let size = size_for(needed);
        let (number, room) = self.take_room(size)?;
        self.set_word(number, room as usize * room_bytes(size), 1);
        Some(Place(u64::from(number) << 32 | u64::from(room)))
    }

    fn bytes_mut(&mut self, place: Place, bytes: u32) -> Option<&mut [u8]> {
        if place == NOWHERE {
            return Some(&mut []);
        }
        if place.0 & LARGE != 0 {
            return self.large_mut(place).map(|large| &mut large.bytes[..]);
        }
        let (number, at) = self.room(place);
        Some(self.run_mut(number, at + HEADER_BYTES, bytes as usize))
    }

    fn finish(&mut self, place: Place, _before: Option<Place>) -> Place {
        place
    }

    fn pin(&mut self, place: Place, _token: u64) -> Place {
        if place == NOWHERE {
            return place;
        }
        if place.0 & LARGE != 0 {
            if let Some(large) = self.large_mut(place) {
                large.uses += 1;
            }
            return place;
        }
        let (number, at) = self.room(place);
        self.set_word(number, at, self.word(number, at) + 1);
        place
    }

    fn release(&mut self, place: Place) {
        if place == NOWHERE {
            return;
        }
        if place.0 & LARGE != 0 {
            let at = (place.0 & !LARGE) as u32;
            if let Some(large) = self.large_mut(place) {
                large.uses -= 1;
                if large.uses == 0 {
                    self.large[at as usize] = None;
                    self.free_large.push(at);
                }
            }
            return;
        }
        let (number, at) = self.room(place);
        match self.word(number, at) - 1 {
            0 => self.free_room(number, place.0 as u32),
            uses => self.set_word(number, at, uses),
        }
    }

    fn read(&self, place: Place, bytes: u32, skip: u32, into: &mut [u8]) {
        if let Some(value) = self.bytes(place, bytes) {
            into.copy_from_slice(&value[skip as usize..][..into.len()]);
        }
    }

    #[inline]
    fn bytes(&self, place: Place, bytes: u32) -> Option<&[u8]> {
        if place == NOWHERE {
            return Some(&[]);
        }
        if place.0 & LARGE != 0 {
            return self.large(place).map(|large| &large.bytes[..]);
        }
        let (number, at) = self.room(place);
        Some(self.run(number, at + HEADER_BYTES, bytes as usize))
    }

    #[inline]
    fn prefetch(&self, place: Place) {
        if place.0 & LARGE == 0 {
            let (number, at) = self.room(place);
            let piece = &self.pieces[number as usize];
            let bytes = room_bytes(piece.size as usize).min(512);
            let at = number as usize % PIECES * PIECE_BYTES + at;
            self.arenas[number as usize / PIECES].prefetch(at, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_waste_little() {
        let mut last = 0;
        for size in 0..SIZES {
            let bytes = room_bytes(size);
            assert!(bytes > last);
            assert_eq!(size_for(bytes), size);
            assert_eq!(size_for(last + 1), size);
            assert!(bytes - last <= (last / STEPS).max(GRAIN), "{last} {bytes}");
            last = bytes;
        }
        assert_eq!(last, ROOM_BYTES_MAX);
        // What a million values of 512 bytes take of their own: 3 % more.
        assert_eq!(room_bytes(size_for(512 + HEADER_BYTES)), 528);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// Values are what was written as long as they are used, and all memory comes free.
        #[test]
        fn values_stay_as_long_as_they_are_used(
            ops in proptest::collection::vec(
                (0..4u8, any::<u8>(), prop_oneof![0..40u32, 0..3000u32, 0..300_000u32]),
                0..300,
            ),
        ) {
            let mut values = RamValues::new();
            let mut all: Vec<(Place, Vec<u8>, u32)> = vec![];
            for (what, byte, size) in ops {
                match (what, all.len()) {
                    (0 | 1, _) | (_, 0) => {
                        let place = values.reserve(size).expect("there is room");
                        let bytes: Vec<u8> =
                            (0..size).map(|at| byte.wrapping_add((at % 251) as u8)).collect();
                        values.bytes_mut(place, size).expect("kept").copy_from_slice(&bytes);
                        prop_assert_eq!(values.finish(place, None), place);
                        all.push((place, bytes, 1));
                    }
                    (2, count) => {
                        let (place, _, uses) = &mut all[size as usize % count];
                        values.pin(*place, 0);
                        *uses += 1;
                    }
                    (_, count) => {
                        let at = size as usize % count;
                        values.release(all[at].0);
                        all[at].2 -= 1;
                        if all[at].2 == 0 {
                            all.swap_remove(at);
                        }
                    }
                }
                for (place, bytes, _) in &all {
                    prop_assert_eq!(values.bytes(*place, bytes.len() as u32), Some(&bytes[..]));
                }
            }
            for (place, _, uses) in all {
                (0..uses).for_each(|_| values.release(place));
            }
            prop_assert_eq!(values.memory_bytes(), 0);
        }
    }

    #[test]
    fn values_are_packed() {
        let mut values = RamValues::new();
        for _ in 0..100_000 {
            values.reserve(512).expect("there is room");
        }
        assert!(values.memory_bytes() < 100_000 * 540, "{}", values.memory_bytes());
    }
}
