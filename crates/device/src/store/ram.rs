//! Bytes in memory.

use super::{PREFETCHED_BYTES, Ready, Store, StoreError, StoreJob};
use std::ops::DerefMut;

/// What is given out at once: small, because a random write should cost no more than the
/// bytes it brings.
const FRAME_BYTES: usize = 4096;
/// Frames are cut from arenas of this size. They come zeroed from the system, which provides
/// each page when it is first touched: a microsecond, or ten inside a virtual machine.
const ARENA_BYTES: usize = 16 << 20;
/// So many frames beyond those in use are touched when there is time.
const FRAMES_AHEAD: u32 = 1024;
const ARENA_FRAMES: usize = ARENA_BYTES / FRAME_BYTES;
/// What was never written reads as.
static ZEROS: [u8; FRAME_BYTES] = [0; FRAME_BYTES];
/// Frames that one group of the table tells of. So many that a group is memory of its own, which
/// comes zeroed, and of which the system provides a page when it is first touched: filling a group
/// would make the write for which it is made wait for all its pages.
const GROUP_FRAMES: usize = 65_536;
/// In the table, which otherwise counts frames from one: nothing was written here.
const NONE: u32 = 0;

/// Bytes that come near together.
const CACHE_LINE: usize = 64;

/// A large piece of memory.
pub trait Arena: DerefMut<Target = [u8]> {
    /// Whether the system has really provided the memory, so that no first use of a page waits
    /// for it.
    fn is_provided(&self) -> bool {
        false
    }

    /// Says that bytes will soon be used: at most those of one frame of 4 KiB.
    #[inline]
    fn prefetch(&self, at: usize, bytes: usize) {
        let lines = self[at..at + bytes].chunks(CACHE_LINE).take(PREFETCHED_BYTES / CACHE_LINE);
        std::hint::black_box(lines.fold(0, |touched, line| touched ^ line[0]));
    }
}

impl Arena for Vec<u8> {}

/// Makes arenas of so many bytes, all zero.
pub type ArenaSource<A> = Box<dyn FnMut(usize) -> A>;

/// Holds bytes in memory; only what was written takes room.
pub struct RamStore<A = Vec<u8>> {
    source: ArenaSource<A>,
    /// Which frame holds each 4 KiB: a table of two levels, of which only what is needed
    /// exists.
    groups: Vec<Option<Box<[u32]>>>,
    arenas: Vec<A>,
    /// Frames that were in use and hold old bytes, counted as in the table.
    free: Vec<u32>,
    /// Frames ever cut from the arenas.
    cut: u32,
    /// Frames of the arenas whose memory is really there.
    touched: u32,
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
        f.debug_struct("RamStore").field("frames", &self.cut).finish_non_exhaustive()
    }
}

impl<A: Arena> RamStore<A> {
    /// An empty store that will have its memory from `source`.
    pub fn from_source(source: ArenaSource<A>) -> RamStore<A> {
        let (groups, arenas, free) = (Vec::new(), Vec::new(), Vec::new());
        RamStore { source, groups, arenas, free, cut: 0, touched: 0 }
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

    /// The arena of a part, and where in it the part begins.
    #[inline]
    fn find(&self, part: Part) -> Option<(&A, usize)> {
        let group = self.groups.get(part.place / GROUP_FRAMES)?.as_deref()?;
        let frame = group[part.place % GROUP_FRAMES].checked_sub(1)? as usize;
        let at = frame % ARENA_FRAMES * FRAME_BYTES + part.first;
        Some((&self.arenas[frame / ARENA_FRAMES], at))
    }

    #[inline]
    fn frame_bytes(&self, part: Part) -> Option<&[u8]> {
        let (arena, at) = self.find(part)?;
        Some(&arena[at..at + part.bytes])
    }

    /// Up to `most` bytes that begin with those of a part, as far as they lie together.
    fn run(&self, part: Part, most: usize) -> &[u8] {
        let Some(Some(group)) = self.groups.get(part.place / GROUP_FRAMES) else { return &[] };
        let frames = &group[part.place % GROUP_FRAMES..];
        let Some(frame) = frames[0].checked_sub(1) else { return &[] };
        let frame = frame as usize;
        let at = frame % ARENA_FRAMES * FRAME_BYTES + part.first;
        let most = most.min(ARENA_BYTES - at);
        let mut bytes = part.bytes;
        let mut following = frames.iter().zip(frame + 1..).skip(1);
        while bytes < most && following.next().is_some_and(|(&it, next)| it as usize == next) {
            bytes = (bytes + FRAME_BYTES).min(most);
        }
        &self.arenas[frame / ARENA_FRAMES][at..at + bytes]
    }

    /// The bytes of a part; `fills`: all of them will be written, whatever they are.
    #[inline]
    fn bytes_to_write(&mut self, part: Part, fills: bool) -> &mut [u8] {
        let at = part.place / GROUP_FRAMES;
        if self.groups.len() <= at {
            self.groups.resize_with(at + 1, || None);
        }
        let group = self.groups[at].get_or_insert_with(|| vec![NONE; GROUP_FRAMES].into());
        let entry = &mut group[part.place % GROUP_FRAMES];
        let mut stale = false;
        if *entry == NONE {
            *entry = match self.free.pop() {
                Some(entry) => {
                    stale = !fills || part.bytes < FRAME_BYTES;
                    entry
                }
                None => {
                    self.cut += 1;
                    self.cut
                }
            };
        }
        let frame = *entry as usize - 1;
        if frame / ARENA_FRAMES == self.arenas.len() {
            self.arenas.push((self.source)(ARENA_BYTES));
        }
        let at = frame % ARENA_FRAMES * FRAME_BYTES;
        let frame = &mut self.arenas[frame / ARENA_FRAMES][at..at + FRAME_BYTES];
        if stale {
            frame.fill(0);
        }
        &mut frame[part.first..part.first + part.bytes]
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
        if let Some((arena, at)) = self.find(part) {
            arena.prefetch(at, part.bytes);
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
        // Where nothing was written there may be terabytes: groups that do not exist are
        // passed over as a whole.
        const GROUP_BYTES: u64 = (GROUP_FRAMES * FRAME_BYTES) as u64;
        let end = (at + bytes).min(self.groups.len() as u64 * GROUP_BYTES);
        let mut next = at;
        while next < end {
            let number = next / GROUP_BYTES;
            let group_end = (number + 1) * GROUP_BYTES;
            let part_end = group_end.min(end);
            let whole = next == number * GROUP_BYTES && part_end == group_end;
            if let Some(group) = &mut self.groups[number as usize] {
                for part in Self::parts(next, part_end - next) {
                    let entry = &mut group[part.place % GROUP_FRAMES];
                    if *entry == NONE {
                        continue;
                    }
                    if part.bytes == FRAME_BYTES {
                        self.free.push(std::mem::replace(entry, NONE));
                    } else {
                        let frame = *entry as usize - 1;
                        let at = frame % ARENA_FRAMES * FRAME_BYTES + part.first;
                        self.arenas[frame / ARENA_FRAMES][at..at + part.bytes].fill(0);
                    }
                }
                if whole {
                    self.groups[number as usize] = None;
                }
            }
            next = part_end;
        }
        if self.free.len() == self.cut as usize {
            (self.groups, self.arenas, self.free) = Default::default();
            (self.cut, self.touched) = (0, 0);
        }
        Ready::Now
    }

    fn flush(&mut self) -> Ready {
        Ready::Now
    }

    fn prepare(&mut self) -> bool {
        let wanted = (self.cut + FRAMES_AHEAD).saturating_sub(self.free.len() as u32);
        if self.cut == 0 || self.touched >= wanted {
            return false;
        }
        let frame = self.touched.max(self.cut) as usize;
        match self.arenas.get_mut(frame / ARENA_FRAMES) {
            Some(arena) if arena.is_provided() => {
                self.touched = ((frame / ARENA_FRAMES + 1) * ARENA_FRAMES) as u32;
            }
            Some(arena) => {
                arena[frame % ARENA_FRAMES * FRAME_BYTES] = 0;
                self.touched = frame as u32 + 1;
            }
            None => self.arenas.push((self.source)(ARENA_BYTES)),
        }
        true
    }

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(store.cut, 2, "the frame is used again");
        while store.prepare() {}
        assert_eq!(store.touched, 2 + FRAMES_AHEAD);

        let mut back = [1; FRAME_BYTES];
        store.read(None, 1 << 30, &mut back);
        assert!(back[..512].iter().all(|&byte| byte == 8));
        assert!(back[512..].iter().all(|&byte| byte == 0));
        store.discard(0, 1 << 40);
        assert!(store.arenas.is_empty(), "an empty store holds no memory");
    }
}
