//! A page of the kernel's ring buffer, as `per_cpu/cpuN/trace_pipe_raw` has it: little-endian.
//!
//! It begins with a time and how many bytes follow, with two bits that say that events were written
//! over before this page could be read. Entries begin with a type of 5 bits and the nanoseconds
//! since the one before in 27.

/// Bytes before the first entry.
const HEAD_BYTES: usize = 16;
/// Bits of the count of bytes: events were lost; how many stands behind the last entry.
const MISSED: u32 = 1 << 31;
const MISSED_STORED: u32 = 1 << 30;
/// Types of entries that are no data, and the size of the largest whose length is its type.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of an absolute time that its entry has; those above it are of the time before.
const STAMP_BITS: u32 = 59;

/// Events that were written over before a page could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    Nothing,
    Events(u64),
    /// The page does not say how many.
    Uncounted,
}

/// A page that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a page of the trace is torn")]
pub struct PageError;

/// An event as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When, in nanoseconds of the trace's clock.
    pub time: u64,
    pub payload: &'a [u8],
}

/// The entries of a page, one after the other.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    rest: &'a [u8],
    time: u64,
    missed: Missed,
    is_torn: bool,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

impl<'a> Page<'a> {
    /// Of what was read.
    ///
    /// # Errors
    /// If it is shorter than it says.
    pub fn new(bytes: &'a [u8]) -> Result<Page<'a>, PageError> {
        let time = long(bytes, 0).ok_or(PageError)?;
        let commit = word(bytes, 8).ok_or(PageError)?;
        let used = (commit & !(MISSED | MISSED_STORED)) as usize;
        let rest = bytes.get(HEAD_BYTES..).ok_or(PageError)?;
        let data = rest.get(..used).ok_or(PageError)?;
        let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => Missed::Nothing,
            (true, false) => Missed::Uncounted,
            (true, true) => long(rest, used).map_or(Missed::Uncounted, Missed::Events),
        };
        Ok(Page { rest: data, time, missed, is_torn: false })
    }

    /// Events that were written over before it could be read.
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// Whether an entry was met that cannot be; those behind it are not known.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Takes so many bytes from what is left.
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next entry that is data; `Err` if one cannot be.
    fn step(&mut self) -> Result<Option<Entry<'a>>, PageError> {
        while !self.rest.is_empty() {
            let head = word(self.rest, 0).ok_or(PageError)?;
            let (kind, delta) = (head & 31, u64::from(head >> 5));
            let more = || word(self.rest, 4).ok_or(PageError);
            match kind {
                PADDING if delta == 0 => break,
                PADDING => {
                    let bytes = more()? as usize;
                    self.take(bytes.checked_add(4).ok_or(PageError)?).ok_or(PageError)?;
                    self.time = self.time.wrapping_add(delta);
                }
                TIME_EXTEND => {
                    let high = u64::from(more()?) << 27;
                    self.take(8).ok_or(PageError)?;
                    self.time = self.time.wrapping_add(high | delta);
                }
                TIME_STAMP => {
                    let low = u64::from(more()?) << 27 | delta;
                    self.take(8).ok_or(PageError)?;
                    self.time = self.time >> STAMP_BITS << STAMP_BITS | low;
                }
                _ => {
                    // Short ones have their length in words for a type, others behind the head.
                    let (skip, bytes) = match kind {
                        0 => (8, (more()? as usize).checked_sub(4).ok_or(PageError)?),
                        words => (4, 4 * words as usize),
                    };
                    self.take(skip).ok_or(PageError)?;
                    let payload = self.take(bytes).ok_or(PageError)?;
                    self.time = self.time.wrapping_add(delta);
                    return Ok(Some(Entry { time: self.time, payload }));
                }
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for Page<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        match self.step() {
            Ok(entry) => entry,
            Err(PageError) => {
                (self.rest, self.is_torn) = (&[], true);
                None
            }
        }
    }
}
