//! Memory in frames of 4 KiB.

use crate::store::PREFETCHED_BYTES;
use std::ops::DerefMut;

/// What is given out at once: small, because a random write should cost no more than the
/// bytes it brings.
pub(super) const FRAME_BYTES: usize = 4096;
/// Frames are cut from arenas of this size. They come zeroed from the system, which provides
/// each page when it is first touched: a microsecond, or ten inside a virtual machine.
pub(super) const ARENA_BYTES: usize = 16 << 20;
const ARENA_FRAMES: u32 = (ARENA_BYTES / FRAME_BYTES) as u32;
/// Frames beyond those in use that are touched when there is time.
pub(super) const FRAMES_AHEAD: u32 = 1024;
/// Bytes of an arena that are consolidated at once: a huge page.
const CONSOLIDATED_BYTES: usize = 2 << 20;
const CONSOLIDATED_FRAMES: u32 = (CONSOLIDATED_BYTES / FRAME_BYTES) as u32;
/// Bytes that come near together.
const CACHE_LINE: usize = 64;

/// A large piece of memory that frames are cut from.
pub trait Arena: DerefMut<Target = [u8]> {
    /// Whether the system has really provided the memory, so that no first use of a page waits
    /// for it.
    fn is_provided(&self) -> bool {
        false
    }

    /// Moves bytes, all of which are in use, to where they are reached faster, should they not be
    /// there; that may take milliseconds.
    fn consolidate(&mut self, _at: usize, _bytes: usize) {}

    /// Says that bytes will soon be used: at most those of one frame of 4 KiB.
    #[inline]
    fn prefetch(&self, at: usize, bytes: usize) {
        let lines = self[at..at + bytes].chunks(CACHE_LINE).take(PREFETCHED_BYTES / CACHE_LINE);
        std::hint::black_box(lines.fold(0, |touched, line| touched ^ line[0]));
    }
}

impl Arena for Vec<u8> {}

/// Makes arenas of so many bytes, all zero.
pub type ArenaSource<A> = Box<dyn FnMut(usize) -> A + Send>;

/// A frame. The word that says so in a table is not 0, which is left to mean that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame(u32);

impl Frame {
    /// What a word of a table says.
    #[inline]
    pub(super) fn from_word(word: u32) -> Option<Frame> {
        word.checked_sub(1).map(Frame)
    }

    #[inline]
    pub(super) fn word(self) -> u32 {
        self.0 + 1
    }

    #[inline]
    fn arena(self) -> usize {
        (self.0 / ARENA_FRAMES) as usize
    }

    /// Offset of its first byte in its arena.
    #[inline]
    fn at(self) -> usize {
        (self.0 % ARENA_FRAMES) as usize * FRAME_BYTES
    }
}

/// The allocator of frames.
pub(super) struct Frames<A> {
    source: ArenaSource<A>,
    arenas: Vec<A>,
    /// Frames that were in use and hold old bytes.
    free: Vec<Frame>,
    /// Frames ever cut from the arenas.
    cut: u32,
    /// Frames of the arenas whose memory is really there.
    touched: u32,
    /// Frames that are where they will stay.
    consolidated: u32,
}

impl<A: Arena> Frames<A> {
    pub(super) fn new(source: ArenaSource<A>) -> Frames<A> {
        let (arenas, free) = (Vec::new(), Vec::new());
        Frames { source, arenas, free, cut: 0, touched: 0, consolidated: 0 }
    }

    /// Allocates a frame, and says whether it is all zero: otherwise it holds old bytes.
    pub(super) fn take(&mut self) -> (Frame, bool) {
        if let Some(frame) = self.free.pop() {
            return (frame, false);
        }
        let frame = Frame(self.cut);
        self.cut += 1;
        if frame.arena() == self.arenas.len() {
            self.arenas.push((self.source)(ARENA_BYTES));
        }
        (frame, true)
    }

    /// The frame is not used any more. With the last one all memory goes back to the system.
    pub(super) fn give_back(&mut self, frame: Frame) {
        self.free.push(frame);
        if self.free.len() == self.cut as usize {
            (self.arenas, self.free) = Default::default();
            (self.cut, self.touched, self.consolidated) = (0, 0, 0);
        }
    }

    /// Whether no frame is in use.
    pub(super) fn is_empty(&self) -> bool {
        self.cut == 0
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self, frame: Frame) -> &mut [u8] {
        &mut self.arenas[frame.arena()][frame.at()..frame.at() + FRAME_BYTES]
    }

    /// Bytes from the `first` of a frame on, in the frames that follow it, too: no more than
    /// [`Frames::together`] says.
    #[inline]
    pub(super) fn run(&self, frame: Frame, first: usize, bytes: usize) -> &[u8] {
        let at = frame.at() + first;
        &self.arenas[frame.arena()][at..at + bytes]
    }

    /// How many bytes lie together from the `first` of a frame on, whosever they are.
    #[inline]
    pub(super) fn together(frame: Frame, first: usize) -> usize {
        ARENA_BYTES - frame.at() - first
    }

    /// Says that bytes of a frame will soon be used.
    #[inline]
    pub(super) fn prefetch(&self, frame: Frame, first: usize, bytes: usize) {
        self.arenas[frame.arena()].prefetch(frame.at() + first, bytes);
    }

    /// Has the system provide a page that will be needed; whether there was one.
    pub(super) fn prepare(&mut self) -> bool {
        let wanted = (self.cut + FRAMES_AHEAD).saturating_sub(self.free.len() as u32);
        if self.cut == 0 || self.touched >= wanted {
            return false;
        }
        let next = Frame(self.touched.max(self.cut));
        match self.arenas.get_mut(next.arena()) {
            Some(arena) if arena.is_provided() => {
                self.touched = (next.0 / ARENA_FRAMES + 1) * ARENA_FRAMES;
            }
            Some(arena) => {
                arena[next.at()] = 0;
                self.touched = next.0 + 1;
            }
            None => self.arenas.push((self.source)(ARENA_BYTES)),
        }
        true
    }

    /// Whether there is something to consolidate.
    pub(super) fn is_scattered(&self) -> bool {
        self.consolidated + CONSOLIDATED_FRAMES <= self.touched.max(self.cut)
    }

    /// Consolidates the next piece, if [`Frames::is_scattered`] says that there is one.
    pub(super) fn consolidate(&mut self) {
        if self.is_scattered() {
            let next = Frame(self.consolidated);
            self.arenas[next.arena()].consolidate(next.at(), CONSOLIDATED_BYTES);
            self.consolidated += CONSOLIDATED_FRAMES;
        }
    }

    /// Frames ever cut, and those of which the memory is there.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.cut, self.touched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Notes what is consolidated.
    struct Noting {
        bytes: Vec<u8>,
        consolidated: Arc<Mutex<Vec<usize>>>,
    }

    impl std::ops::Deref for Noting {
        type Target = [u8];
        fn deref(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl DerefMut for Noting {
        fn deref_mut(&mut self) -> &mut [u8] {
            &mut self.bytes
        }
    }

    impl Arena for Noting {
        fn consolidate(&mut self, at: usize, bytes: usize) {
            assert!(self.bytes[at..at + bytes].chunks(FRAME_BYTES).all(|frame| frame[1] == 1));
            self.consolidated.lock().expect("a lock").push(at);
        }
    }

    #[test]
    fn what_is_in_use_is_consolidated_once() {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let consolidated = Arc::clone(&noted);
        let source =
            move |bytes| Noting { bytes: vec![0; bytes], consolidated: Arc::clone(&consolidated) };
        let mut frames = Frames::new(Box::new(source));
        let mut last = None;
        for number in 1..=ARENA_FRAMES + CONSOLIDATED_FRAMES + 1 {
            let (frame, is_zero) = frames.take();
            assert!(is_zero);
            frames.bytes_mut(frame)[1] = 1;
            last = Some(frame);
            assert_eq!(frames.is_scattered(), number % CONSOLIDATED_FRAMES == 0, "{number}");
            frames.consolidate();
        }
        let huge_pages = (0..8).chain([0]).map(|number| number * CONSOLIDATED_BYTES);
        assert!(noted.lock().expect("a lock").iter().copied().eq(huge_pages), "{noted:?}");

        frames.give_back(last.unwrap());
        assert_eq!(frames.take(), (last.unwrap(), false));
    }
}
