//! A store of bytes in memory, which end with the process.

mod frames;

pub use frames::{Arena, ArenaSource};

use super::{RamValues, Ready, Store, StoreError, StoreJob, Values};
use frames::{FRAME_BYTES, Frame, Frames};

/// What was never written reads as.
static ZEROS: [u8; FRAME_BYTES] = [0; FRAME_BYTES];
/// Frames that one group of the table tells of.
const GROUP_FRAMES: usize = 1024;
const GROUP_BYTES: u64 = (GROUP_FRAMES * FRAME_BYTES) as u64;
/// Places, or groups that are not there, that are looked at in one search.
const LOOKS: u32 = 16 << 10;
/// Groups that are made ahead when there is time.
const SPARE_GROUPS: usize = 256;

/// Holds bytes in memory; only what was written takes room.
pub struct RamStore<A = Vec<u8>> {
    /// Which frame holds each 4 KiB: a table of two levels, of which only what is needed exists.
    groups: Vec<Option<Box<Group>>>,
    spare: Vec<Box<Group>>,
    frames: Frames<A>,
    /// What will hold values of pairs.
    values: Option<Box<dyn Values>>,
}

/// The frames of consecutive places.
struct Group {
    /// The frame of each place, if it has one, as [`Frame::word`] says it.
    words: [u32; GROUP_FRAMES],
    /// How many places have a frame.
    used: u32,
}

impl Group {
    fn empty() -> Box<Group> {
        Box::new(Group { words: [0; GROUP_FRAMES], used: 0 })
    }

    /// Makes the bytes of a part zero.
    fn discard<A: Arena>(&mut self, part: Part, frames: &mut Frames<A>) {
        let word = &mut self.words[part.place % GROUP_FRAMES];
        let Some(frame) = Frame::from_word(*word) else { return };
        if part.bytes == FRAME_BYTES {
            *word = 0;
            self.used -= 1;
            frames.give_back(frame);
        } else {
            frames.bytes_mut(frame)[part.first..part.first + part.bytes].fill(0);
        }
    }
}

/// A part of a range that lies in one frame's place.
#[derive(Clone, Copy)]
struct Part {
    /// Index of the 4 KiB of the store.
    place: usize,
    /// Offset of the first byte in the frame.
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

impl RamStore {
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
        let (groups, spare) = (Vec::new(), Vec::new());
        RamStore { groups, spare, frames: Frames::new(source), values: None }
    }

    /// Takes the memory for values of pairs from `source`.
    #[must_use]
    pub fn with_values_from(self, source: ArenaSource<A>) -> RamStore<A>
    where
        A: 'static,
    {
        RamStore { values: Some(Box::new(RamValues::from_source(source))), ..self }
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

    #[inline]
    fn group(&self, place: usize) -> Option<&Group> {
        self.groups.get(place / GROUP_FRAMES)?.as_deref()
    }

    /// The frame that holds a place's bytes.
    #[inline]
    fn frame(&self, place: usize) -> Option<Frame> {
        Frame::from_word(self.group(place)?.words[place % GROUP_FRAMES])
    }

    #[inline]
    fn frame_bytes(&self, part: Part) -> Option<&[u8]> {
        Some(self.frames.run(self.frame(part.place)?, part.first, part.bytes))
    }

    /// Up to `most` bytes that begin with those of a part, as far as they lie together.
    fn run(&self, part: Part, most: usize) -> &[u8] {
        let Some(group) = self.group(part.place) else { return &[] };
        let words = &group.words[part.place % GROUP_FRAMES..];
        let Some(frame) = Frame::from_word(words[0]) else { return &[] };
        let most = most.min(Frames::<A>::together(frame, part.first));
        let mut bytes = part.bytes;
        let mut following = words.iter().zip(frame.word()..).skip(1);
        while bytes < most && following.next().is_some_and(|(&word, next)| word == next) {
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
            self.groups.resize_with(at + 1, || None);
        }
        let spare = || self.spare.pop().unwrap_or_else(Group::empty);
        let group = self.groups[at].get_or_insert_with(spare);
        let (frame, is_zero) = self.frames.take();
        if !is_zero && !fills {
            self.frames.bytes_mut(frame).fill(0);
        }
        group.words[place % GROUP_FRAMES] = frame.word();
        group.used += 1;
        frame
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

    fn takes_room(&self, at: u64, most: u64) -> (bool, u64) {
        let place = |at: u64| (at / FRAME_BYTES as u64) as usize;
        let does = self.frame(place(at)).is_some();
        let end = at.saturating_add(most);
        let mut next = at;
        for _ in 0..LOOKS {
            if next >= end || self.frame(place(next)).is_some() != does {
                break;
            }
            let step = match self.group(place(next)) {
                Some(_) => FRAME_BYTES as u64,
                None => GROUP_BYTES,
            };
            next = next / step * step + step;
        }
        (does, next.min(end) - at)
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
        // Where nothing was written there may be terabytes: groups that do not exist are
        // passed over as a whole.
        let end = (at + bytes).min(self.groups.len() as u64 * GROUP_BYTES);
        let mut next = at;
        while next < end {
            let number = next / GROUP_BYTES;
            let part_end = ((number + 1) * GROUP_BYTES).min(end);
            let slot = &mut self.groups[number as usize];
            if let Some(group) = slot {
                for part in Self::parts(next, part_end - next) {
                    group.discard(part, &mut self.frames);
                }
                if group.used == 0 {
                    *slot = None;
                }
            }
            next = part_end;
        }
        if self.frames.is_empty() {
            (self.groups, self.spare) = Default::default();
        }
        Ready::Now
    }

    fn values(&mut self) -> Option<Box<dyn Values>> {
        Some(self.values.take().unwrap_or_else(|| Box::new(RamValues::new())))
    }

    fn flush(&mut self) -> Ready {
        Ready::Now
    }

    fn prepare(&mut self) -> bool {
        let wants_spare = !self.groups.is_empty() && self.spare.len() < SPARE_GROUPS;
        if wants_spare {
            self.spare.push(Group::empty());
        }
        wants_spare || self.frames.prepare()
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
        assert_eq!(store.frames.counts(), (2, 0), "the frame is used again");
        while store.prepare() {}
        assert_eq!(store.frames.counts(), (2, 2 + FRAMES_AHEAD));
        assert_eq!(store.spare.len(), SPARE_GROUPS);

        let mut back = [1; FRAME_BYTES];
        store.read(None, 1 << 30, &mut back);
        assert!(back[..512].iter().all(|&byte| byte == 8));
        assert!(back[512..].iter().all(|&byte| byte == 0));
        store.discard(0, 1 << 40);
        assert_eq!(store.frames.counts(), (0, 0), "an empty store holds no memory");
        assert!(store.groups.is_empty() && store.spare.is_empty());
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
