//! Bytes in memory.

mod frames;

pub use frames::{Arena, ArenaSource};

use super::{Ready, Store, StoreError, StoreJob};
use frames::{FRAME_BYTES, Frame, Frames};

/// What was never written reads as.
static ZEROS: [u8; FRAME_BYTES] = [0; FRAME_BYTES];
/// Bytes of a word of the table.
const WORD_BYTES: usize = size_of::<u32>();
/// Frames that one group of the table tells of: its words fill a frame, which so is ready, too,
/// before it is needed.
const GROUP_FRAMES: usize = FRAME_BYTES / WORD_BYTES;

/// Holds bytes in memory; only what was written takes room.
pub struct RamStore<A = Vec<u8>> {
    /// Which frame holds each 4 KiB: a table of two levels.
    groups: Vec<Group>,
    frames: Frames<A>,
}

/// A part of the table.
#[derive(Clone, Copy, Default)]
struct Group {
    /// The word of the frame that is its table, as long as there is one.
    table: u32,
    /// Words of the table that name a frame.
    used: u32,
}

/// A part of a range that lies in one frame's place.
#[derive(Clone, Copy)]
struct Part {
    /// Which 4 KiB of the store.
    place: usize,
    /// First byte in it.
    first: usize,
    bytes: usize,
}

impl Part {
    /// The first part of a range.
    #[inline]
    fn first(at: u64, bytes: u32) -> Part {
        let first = (at % FRAME_BYTES as u64) as usize;
        let bytes = (FRAME_BYTES - first).min(bytes as usize);
        Part { place: (at / FRAME_BYTES as u64) as usize, first, bytes }
    }
}

/// A word of a group's table.
#[inline]
fn word(table: &[u8], number: usize) -> u32 {
    let at = number * WORD_BYTES;
    u32::from_ne_bytes(table[at..at + WORD_BYTES].try_into().expect("four bytes"))
}

#[inline]
fn set_word(table: &mut [u8], number: usize, word: u32) {
    let at = number * WORD_BYTES;
    table[at..at + WORD_BYTES].copy_from_slice(&word.to_ne_bytes());
}

impl RamStore {
    /// An empty store.
    pub fn new() -> RamStore {
        RamStore::from_source(Box::new(|bytes| vec![0; bytes]))
    }
}

impl Default for RamStore {
    fn default() -> Self {
        RamStore::new()
    }
}

impl<A> std::fmt::Debug for RamStore<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RamStore").field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

impl<A: Arena> RamStore<A> {
    /// An empty store that will have its memory from `source`.
    pub fn from_source(source: ArenaSource<A>) -> RamStore<A> {
        RamStore { groups: Vec::new(), frames: Frames::new(source) }
    }

    fn parts(at: u64, bytes: u64) -> impl Iterator<Item = Part> {
        let end = at + bytes;
        let mut next = at;
        std::iter::from_fn(move || {
            if next == end {
                return None;
            }
            let first = (next % FRAME_BYTES as u64) as usize;
            let bytes = (FRAME_BYTES - first).min((end - next) as usize);
            let place = (next / FRAME_BYTES as u64) as usize;
            next += bytes as u64;
            Some(Part { place, first, bytes })
        })
    }

    /// The table of a place's group.
    #[inline]
    fn table(&self, place: usize) -> Option<&[u8]> {
        let group = self.groups.get(place / GROUP_FRAMES)?;
        Some(self.frames.bytes(Frame::from_word(group.table)?))
    }

    /// The frame that holds a place's bytes.
    #[inline]
    fn frame(&self, place: usize) -> Option<Frame> {
        Frame::from_word(word(self.table(place)?, place % GROUP_FRAMES))
    }

    #[inline]
    fn frame_bytes(&self, part: Part) -> Option<&[u8]> {
        Some(self.frames.run(self.frame(part.place)?, part.first, part.bytes))
    }

    /// Up to `most` bytes that begin with those of a part, as far as they lie together.
    fn run(&self, part: Part, most: usize) -> &[u8] {
        let Some(table) = self.table(part.place) else { return &[] };
        let mut words = (part.place % GROUP_FRAMES..GROUP_FRAMES).map(|number| word(table, number));
        let Some(frame) = words.next().and_then(Frame::from_word) else { return &[] };
        let most = most.min(Frames::<A>::together(frame, part.first));
        let mut bytes = part.bytes;
        let mut following = words.zip(frame.word() + 1..);
        while bytes < most && following.next().is_some_and(|(word, next)| word == next) {
            bytes = (bytes + FRAME_BYTES).min(most);
        }
        self.frames.run(frame, part.first, bytes)
    }

    /// The bytes of a part; `fills`: all of them will be written, whatever they are.
    #[inline]
    fn bytes_to_write(&mut self, part: Part, fills: bool) -> &mut [u8] {
        let frame = match self.frame(part.place) {
            Some(frame) => frame,
            None => self.add_frame(part.place, fills && part.bytes == FRAME_BYTES),
        };
        &mut self.frames.bytes_mut(frame)[part.first..part.first + part.bytes]
    }

    /// Gives a place a frame; `fills`: what is in it does not matter.
    fn add_frame(&mut self, place: usize, fills: bool) -> Frame {
        let at = place / GROUP_FRAMES;
        if self.groups.len() <= at {
            self.groups.resize(at + 1, Group::default());
        }
        let table = match Frame::from_word(self.groups[at].table) {
            Some(table) => table,
            None => self.take_frame(false),
        };
        let frame = self.take_frame(fills);
        let group = &mut self.groups[at];
        group.table = table.word();
        group.used += 1;
        set_word(self.frames.bytes_mut(table), place % GROUP_FRAMES, frame.word());
        frame
    }

    fn take_frame(&mut self, fills: bool) -> Frame {
        let (frame, is_zero) = self.frames.take();
        if !is_zero && !fills {
            self.frames.bytes_mut(frame).fill(0);
        }
        frame
    }

    /// Makes the bytes of a part zero, in a group that has a table.
    fn discard_part(&mut self, table: Frame, part: Part) {
        let words = self.frames.bytes_mut(table);
        let Some(frame) = Frame::from_word(word(words, part.place % GROUP_FRAMES)) else { return };
        if part.bytes < FRAME_BYTES {
            self.frames.bytes_mut(frame)[part.first..part.first + part.bytes].fill(0);
            return;
        }
        set_word(words, part.place % GROUP_FRAMES, 0);
        self.frames.give_back(frame);
        let group = &mut self.groups[part.place / GROUP_FRAMES];
        group.used -= 1;
    }
}

impl<A: Arena> Store for RamStore<A> {
    fn fetch(&mut self, _at: u64, _bytes: u32) -> Ready {
        Ready::Now
    }

    fn read(&mut self, _job: Option<StoreJob>, at: u64, into: &mut [u8]) {
        let mut rest = into;
        for part in Self::parts(at, rest.len() as u64) {
            let (head, tail) = rest.split_at_mut(part.bytes);
            match self.frame_bytes(part) {
                Some(bytes) => head.copy_from_slice(bytes),
                None => head.fill(0),
            }
            rest = tail;
        }
    }

    #[inline]
    fn bytes(&self, at: u64, most: u32) -> Option<&[u8]> {
        let part = Part::first(at, most);
        let Some(bytes) = self.frame_bytes(part) else { return Some(&ZEROS[..part.bytes]) };
        Some(if bytes.len() == most as usize { bytes } else { self.run(part, most as usize) })
    }

    #[inline]
    fn bytes_mut(&mut self, at: u64, most: u32) -> Option<&mut [u8]> {
        Some(self.bytes_to_write(Part::first(at, most), false))
    }

    #[inline]
    fn prefetch(&self, at: u64, bytes: u32) -> bool {
        let part = Part::first(at, bytes);
        if let Some(frame) = self.frame(part.place) {
            self.frames.prefetch(frame, part.first, part.bytes);
        }
        true
    }

    fn forget(&mut self, _job: StoreJob) {}

    fn write(&mut self, at: u64, from: &[u8]) -> Ready {
        let mut rest = from;
        for part in Self::parts(at, from.len() as u64) {
            let (head, tail) = rest.split_at(part.bytes);
            self.bytes_to_write(part, true).copy_from_slice(head);
            rest = tail;
        }
        Ready::Now
    }

    fn discard(&mut self, at: u64, bytes: u64) -> Ready {
        // Where nothing was written there may be terabytes: groups without a table are passed
        // over as a whole.
        const GROUP_BYTES: u64 = (GROUP_FRAMES * FRAME_BYTES) as u64;
        let end = (at + bytes).min(self.groups.len() as u64 * GROUP_BYTES);
        let mut next = at;
        while next < end {
            let number = (next / GROUP_BYTES) as usize;
            let part_end = ((number as u64 + 1) * GROUP_BYTES).min(end);
            if let Some(table) = Frame::from_word(self.groups[number].table) {
                for part in Self::parts(next, part_end - next) {
                    self.discard_part(table, part);
                }
                if self.groups[number].used == 0 {
                    self.groups[number] = Group::default();
                    self.frames.give_back(table);
                }
            }
            next = part_end;
        }
        Ready::Now
    }

    fn flush(&mut self) -> Ready {
        Ready::Now
    }

    fn prepare(&mut self) -> bool {
        self.frames.prepare()
    }

    fn is_scattered(&self) -> bool {
        self.frames.is_scattered()
    }

    fn consolidate(&mut self) {
        self.frames.consolidate();
    }

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::frames::FRAMES_AHEAD;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_come_back_and_holes_are_zero() {
        let mut store = RamStore::new();
        let data: Vec<u8> = (0..100_000u32).map(|n| n as u8 | 1).collect();
        store.write(60_000, &data);
        let mut back = vec![7; 110_000];
        store.read(None, 55_000, &mut back);
        assert!(back[..5_000].iter().all(|&byte| byte == 0));
        assert_eq!(&back[5_000..105_000], &data);
        assert!(back[105_000..].iter().all(|&byte| byte == 0));
        assert_eq!(store.bytes(60_000, 100).unwrap(), &data[..100]);
        let run = store.bytes(65_000, 1 << 20).unwrap();
        assert_eq!(run.len(), 40 * FRAME_BYTES - 65_000, "to the end of the last frame");
        assert_eq!(&run[..95_000], &data[5_000..]);
        assert_eq!(store.bytes(40 << 12, 1 << 20).unwrap(), [0; FRAME_BYTES]);
        store.discard(60_000, 70_000);
        store.read(None, 55_000, &mut back);
        assert!(back[..75_000].iter().all(|&byte| byte == 0));
        assert_eq!(&back[75_000..105_000], &data[70_000..]);
        // Far away, and all of it.
        let far = 1 << 44;
        store.write(far, &data);
        store.discard(1 << 20, far - (1 << 20) + 5);
        store.read(None, far, &mut back[..10]);
        assert_eq!((&back[..5], &back[5..10]), (&[0; 5][..], &data[5..10]));
        store.discard(0, 1 << 50);
        store.read(None, far, &mut back);
        assert!(back.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_frame_that_was_in_use_shows_nothing_of_it() {
        let mut store = RamStore::new();
        store.write(0, &[7; 2 * FRAME_BYTES]);
        store.discard(0, FRAME_BYTES as u64);
        store.write(1 << 30, &[8; 512]);
        // A table for each of the two groups, and the frame that is used again.
        assert_eq!(store.frames.counts(), (4, 0));
        while store.prepare() {}
        assert_eq!(store.frames.counts(), (4, 4 + FRAMES_AHEAD));

        let mut back = [1; FRAME_BYTES];
        store.read(None, 1 << 30, &mut back);
        assert!(back[..512].iter().all(|&byte| byte == 8));
        assert!(back[512..].iter().all(|&byte| byte == 0));
        store.discard(0, 1 << 40);
        assert_eq!(store.frames.counts(), (0, 0), "an empty store holds no memory");
    }

    /// The bytes of the store that the law below looks at: in two groups of its table.
    const BASE: u64 = (4 << 20) - (100 << 10);
    const SPAN: u64 = 200 << 10;

    /// What is done to the store: bytes from an address on are written (all of this value), or
    /// discarded.
    fn deed() -> impl Strategy<Value = (u64, u64, Option<u8>)> {
        let bytes =
            prop_oneof![1..20_000u64, Just(FRAME_BYTES as u64), Just(100 << 10), Just(SPAN)];
        let at = prop_oneof![0..SPAN, (0..SPAN).prop_map(|at| at & !4095), Just(0)];
        (at, bytes, prop::option::weighted(0.7, 1u8..))
    }

    proptest! {
        #[test]
        fn it_holds_what_was_written_last(deeds in prop::collection::vec(deed(), 1..24)) {
            let mut store = RamStore::new();
            let mut expected = vec![0u8; SPAN as usize];
            for (at, bytes, value) in deeds {
                let bytes = bytes.min(SPAN - at);
                let there = &mut expected[at as usize..(at + bytes) as usize];
                match value {
                    Some(value) => {
                        there.fill(value);
                        store.write(BASE + at, there);
                    }
                    None => {
                        there.fill(0);
                        store.discard(BASE + at, bytes);
                    }
                }
                let mut back = vec![0xff; SPAN as usize];
                store.read(None, BASE, &mut back);
                prop_assert!(back == expected);
                let most = (SPAN - at) as u32;
                let run = store.bytes(BASE + at, most).unwrap();
                prop_assert!(!run.is_empty() && run == &expected[at as usize..][..run.len()]);
                store.prepare();
            }
            store.discard(BASE, SPAN);
            prop_assert_eq!(store.frames.counts(), (0, 0));
        }
    }
}
