//! Reading profiles, which are foreign bytes: nothing in them is believed.

use crate::error::{Problem, ReadError};
use crate::header::{Counts, HEADER_BYTES, Header};
use crate::record::{HEAD_WORDS, Head, Record};
use mynah_stamp::Span;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

/// A profile that is read from first to last.
#[derive(Debug)]
pub struct Profile<R> {
    header: Header,
    counts: Counts,
    slots: u64,
    rest: R,
}

impl Profile<BufReader<File>> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// If it is no profile.
    pub fn open(path: &Path) -> Result<Profile<BufReader<File>>, Problem> {
        let fail = |error: ReadError| Problem { path: path.to_owned(), error };
        let file = File::open(path).map_err(|error| fail(error.into()))?;
        Profile::new(BufReader::with_capacity(1 << 18, file)).map_err(fail)
    }
}

impl<R: Read> Profile<R> {
    /// A profile in `from`.
    ///
    /// # Errors
    /// If it is none.
    pub fn new(mut from: R) -> Result<Profile<R>, ReadError> {
        let mut page = Vec::with_capacity(HEADER_BYTES);
        from.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut page)?;
        let (header, slots, counts) = Header::from_page(&page)?;
        Ok(Profile { header, counts, slots, rest: from })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn records(self) -> Records<R> {
        let row = vec![0; self.header.record_bytes() as usize];
        let slots = self.slots;
        let kinds = self.header.kinds.len();
        let stages = vec![Span::ZERO; self.header.stages.len()];
        let beside = vec![0; self.header.beside.len()];
        Records { rest: self.rest, slots, kinds, row, stages, beside, seen: 0, torn: 0, all: slots }
    }

    /// How many records there is room for.
    pub fn slots(&self) -> u64 {
        self.slots
    }
}

impl<R: Read + Seek> Profile<R> {
    /// Records of a range of its slots, for readers that work in parallel.
    ///
    /// # Errors
    /// If it cannot be read there.
    pub fn records_within(mut self, slots: Range<u64>) -> Result<Records<R>, ReadError> {
        let first = slots.start.min(self.slots);
        let at = first.checked_mul(self.header.record_bytes());
        let at = at.and_then(|bytes| bytes.checked_add(HEADER_BYTES as u64));
        let at = at.ok_or_else(|| ReadError::Damaged("it says that it has no end".to_owned()))?;
        self.rest.seek(SeekFrom::Start(at))?;
        let last = slots.end.min(self.slots);
        Ok(Records { slots: last, seen: first, ..self.records() })
    }
}

/// The records of a profile, in the order of the file.
#[derive(Debug)]
pub struct Records<R> {
    rest: R,
    slots: u64,
    kinds: usize,
    row: Vec<u8>,
    stages: Vec<Span>,
    beside: Vec<u64>,
    seen: u64,
    torn: u64,
    /// Number of slots of the whole profile.
    all: u64,
}

impl<R: Read> Records<R> {
    /// The next record. Slots that are empty, or hold no record that can be, are passed over and
    /// counted.
    ///
    /// # Errors
    /// If the file cannot be read, or ends before its header says so.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        while self.seen < self.slots {
            if let Err(error) = self.rest.read_exact(&mut self.row) {
                return Err(match error.kind() {
                    io::ErrorKind::UnexpectedEof => ReadError::Damaged(format!(
                        "it ends after {} of {} records",
                        self.seen, self.all
                    )),
                    _ => error.into(),
                });
            }
            self.seen += 1;
            let (head, is_whole) = parse(&self.row, &mut self.stages, &mut self.beside);
            if head.sequence == 0 {
                continue;
            }
            if !is_whole || usize::from(head.kind) >= self.kinds {
                self.torn += 1;
                continue;
            }
            return Ok(Some(Record { head, stages: &self.stages, beside: &self.beside }));
        }
        Ok(None)
    }

    /// Records that were damaged, or being written, so far.
    pub fn torn(&self) -> u64 {
        self.torn
    }
}

/// Parses a record's bytes; false if its sequence is not the same at both ends.
pub(crate) fn parse(row: &[u8], stages: &mut [Span], beside: &mut [u64]) -> (Head, bool) {
    let mut words = row.chunks_exact(8).map(|word| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        u64::from_le_bytes(bytes)
    });
    let mut head = [0; HEAD_WORDS];
    head.iter_mut().zip(&mut words).for_each(|(into, word)| *into = word);
    let head = Head::from_words(&head);
    for (into, word) in stages.iter_mut().zip(&mut words) {
        *into = Span::from_ps(word);
    }
    beside.iter_mut().zip(&mut words).for_each(|(into, word)| *into = word);
    (head, words.next() == Some(head.sequence))
}
