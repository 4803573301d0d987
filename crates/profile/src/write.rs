//! Profiles that are written from first to last, and keep every record.

use crate::header::{Counts, HEADER_BYTES, Header};
use crate::record::Head;
use mynah_stamp::Span;
use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};

/// Bytes of a profile with so many records.
pub fn file_bytes(header: &Header, records: u64) -> u64 {
    HEADER_BYTES as u64 + records * header.record_bytes()
}

/// A profile being written. Its header has no counts before [`Writer::finish`].
#[must_use = "a profile is none before it is finished"]
pub struct Writer<W: Write + Seek> {
    out: W,
    header: Header,
    counts: Counts,
    row: Vec<u8>,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a profile in `out`, which should be buffered.
    ///
    /// # Errors
    /// Of `out`.
    pub fn new(mut out: W, header: Header) -> io::Result<Writer<W>> {
        out.write_all(&header.to_page(0, &Counts::default()))?;
        let row = Vec::with_capacity(header.record_bytes() as usize);
        Ok(Writer { out, header, counts: Counts::default(), row })
    }

    /// Writes the record of an I/O that has ended; its sequence is given by the writer. `stages` are
    /// those of the header, in its order, and so is `beside`.
    ///
    /// # Errors
    /// Of `out`.
    pub fn record(
        &mut self,
        head: Head,
        stages: impl IntoIterator<Item = Span>,
        beside: &[u64],
    ) -> io::Result<()> {
        self.counts.completed += 1;
        self.counts.recorded += 1;
        let head = Head { sequence: self.counts.recorded, ..head };
        self.row.clear();
        for word in head.to_words() {
            self.row.extend_from_slice(&word.to_le_bytes());
        }
        for span in stages {
            self.row.extend_from_slice(&span.as_ps().to_le_bytes());
        }
        for word in beside {
            self.row.extend_from_slice(&word.to_le_bytes());
        }
        self.row.extend_from_slice(&head.sequence.to_le_bytes());
        debug_assert_eq!(self.row.len() as u64, self.header.record_bytes());
        self.out.write_all(&self.row)
    }

    /// Sets [`Header::held_ns`].
    pub fn held(&mut self, held_ns: BTreeMap<String, u64>) {
        self.header.held_ns = Some(held_ns);
    }

    /// Ends it; what was counted.
    ///
    /// # Errors
    /// Of the output.
    pub fn finish(self) -> io::Result<Counts> {
        let counts = self.counts;
        self.finish_as(counts)
    }

    /// Ends it with the counts of the profile that these records were taken from.
    ///
    /// # Errors
    /// Of the output.
    pub fn finish_as(mut self, counts: Counts) -> io::Result<Counts> {
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&self.header.to_page(self.counts.recorded, &counts))?;
        self.out.flush()?;
        Ok(counts)
    }
}
