//! The latest records of a profile, in a mapped file.

use crate::shared::Shared;
use mynah_profile::{COUNTS_WORD, Counts, Decision, HEAD_WORDS, HEADER_BYTES, Head, Header};
use mynah_stamp::Span;
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes of a ring: as much as stays near a processor. A ring of 64 MiB costs more than twice as
/// much for each record.
pub const RING_BYTES: u64 = 8 << 20;

/// A profile cannot be begun.
#[derive(Debug, thiserror::Error)]
#[error("the profile {} cannot be written: {problem}", path.display())]
pub struct RingError {
    /// Its file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: RingProblem,
}

/// What is wrong with the file for a profile.
#[derive(Debug, thiserror::Error)]
pub enum RingProblem {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else, which is not to be lost.
    #[error("the file is there and is no profile; name another")]
    Foreign,
    /// Another process writes it.
    #[error("another process writes it")]
    InUse,
}

/// A ring of records that is being written.
#[derive(Debug)]
pub struct Ring {
    memory: Shared,
    /// Held, so that no other process writes it.
    file: File,
    counts: Counts,
    words: usize,
    /// The first word of the next one, and the end of the last.
    next: usize,
    end: usize,
}

impl Ring {
    /// A ring of so many bytes in the file at `path`, which is made, or holds a profile that is
    /// written over.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path, header: &Header, bytes: u64) -> Result<Ring, RingError> {
        let fail = |problem| RingError { path: path.to_owned(), problem };
        Ring::begin(path, header, bytes).map_err(fail)
    }

    fn begin(path: &Path, header: &Header, bytes: u64) -> Result<Ring, RingProblem> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(RingProblem::InUse),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut page = Vec::with_capacity(HEADER_BYTES);
        file.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut page)?;
        if !page.is_empty() && Header::from_page(&page).is_err() {
            return Err(RingProblem::Foreign);
        }
        let slots = (bytes.saturating_sub(HEADER_BYTES as u64) / header.record_bytes()).max(1);
        let bytes = HEADER_BYTES as u64 + slots * header.record_bytes();
        file.set_len(0)?;
        file.set_len(bytes)?;
        // Room for all of it: a mapping that finds none is lost. There are file systems that cannot
        // do that.
        let reserved = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes);
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT)) = reserved {
            return Err(io::Error::from(error).into());
        }
        let memory = Shared::map(&file, 0, bytes, true, true)?;
        Ok(Ring::over(memory, file, header, slots))
    }

    fn over(memory: Shared, file: File, header: &Header, slots: u64) -> Ring {
        memory.write(0, &header.to_page(slots, &Counts::default()));
        let words = header.record_words();
        let first = HEADER_BYTES / 8;
        Ring {
            memory,
            file,
            counts: Counts::default(),
            words,
            next: first,
            end: first + slots as usize * words,
        }
    }

    /// A ring in this process's memory alone, which goes with it.
    ///
    /// # Errors
    /// If there is not so much.
    pub fn in_memory(header: &Header, bytes: u64) -> io::Result<Ring> {
        let slots = (bytes.saturating_sub(HEADER_BYTES as u64) / header.record_bytes()).max(1);
        let bytes = HEADER_BYTES as u64 + slots * header.record_bytes();
        let (memory, file) = Shared::create("mynah-profile", bytes)?;
        Ok(Ring::over(memory, file.into(), header, slots))
    }

    /// How many records there is room for.
    pub fn slots(&self) -> u64 {
        ((self.end - HEADER_BYTES / 8) / self.words) as u64
    }

    /// The number of the oldest record that there is; of the next one, if there is none.
    pub fn oldest(&self) -> u64 {
        (self.counts.recorded + 1).saturating_sub(self.slots()).max(1)
    }

    /// Appends a record as the file has it, if it is there.
    pub fn copy(&self, sequence: u64, into: &mut Vec<u8>) -> bool {
        if sequence < self.oldest() || sequence > self.counts.recorded {
            return false;
        }
        let slot = ((sequence - 1) % self.slots()) as usize;
        let at = HEADER_BYTES / 8 + slot * self.words;
        let words = &self.memory.long_words()[at..at + self.words];
        into.extend(words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()));
        true
    }

    /// Of the I/Os that are told of something else was counted than what is recorded here: what has
    /// come from another ring is part of what ended there.
    pub fn says_of(&mut self, counts: &Counts) {
        let all = self.memory.long_words();
        let recorded = self.counts.recorded;
        let lost = counts.recorded.saturating_sub(recorded) + counts.lost;
        let completed = recorded + counts.filtered + counts.sampled_out + lost;
        let (filtered, sampled_out) = (counts.filtered, counts.sampled_out);
        self.counts = Counts { completed, recorded, filtered, sampled_out, lost };
        for (at, count) in self.counts.to_array().into_iter().enumerate() {
            all[COUNTS_WORD + at].store(count.to_le(), Ordering::Relaxed);
        }
    }

    /// Where it can be read in this process, whether it is in a file or not.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Says something else of what is written from now on; the stages must be the same.
    pub fn describe(&mut self, header: &Header) {
        debug_assert_eq!(header.record_words(), self.words);
        self.memory.write(0, &header.to_page(self.slots(), &self.counts));
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts an I/O that has ended and gets no record.
    #[inline]
    pub fn skip(&mut self, decision: Decision) {
        let all = self.memory.long_words();
        let put =
            |at: usize, word: u64| all[COUNTS_WORD + at].store(word.to_le(), Ordering::Relaxed);
        match decision {
            Decision::Filtered => {
                self.counts.filtered += 1;
                put(2, self.counts.filtered);
            }
            Decision::SampledOut => {
                self.counts.sampled_out += 1;
                put(3, self.counts.sampled_out);
            }
            Decision::Record | Decision::Slow => return,
        }
        self.counts.completed += 1;
        put(0, self.counts.completed);
    }

    /// Counts I/Os that have ended, and whose records are lost.
    pub fn lose(&mut self, ios: u64) {
        self.counts.completed += ios;
        self.counts.lost += ios;
        let all = self.memory.long_words();
        all[COUNTS_WORD].store(self.counts.completed.to_le(), Ordering::Relaxed);
        all[COUNTS_WORD + 4].store(self.counts.lost.to_le(), Ordering::Relaxed);
    }

    /// Writes the record of an I/O that has ended over the oldest one; its sequence is given here.
    #[inline]
    pub fn record(&mut self, head: &Head, stages: &[Span], beside: &[u64]) {
        self.counts.completed += 1;
        self.counts.recorded += 1;
        let sequence = self.counts.recorded;
        let all = self.memory.long_words();
        let record = &all[self.next..self.next + self.words];
        let (last, record) = record.split_last().expect("a record has words");
        let put = |at: &AtomicU64, word: u64| at.store(word.to_le(), Ordering::Relaxed);
        // Whoever reads it meanwhile finds no end.
        put(last, 0);
        fence(Ordering::Release);
        // Part by part: one iterator over all of them costs several times as much.
        let (of_head, rest) = record.split_at(HEAD_WORDS);
        let (of_stages, of_beside) = rest.split_at(rest.len() - beside.len());
        let mut head = head.to_words();
        head[0] = sequence;
        of_head.iter().zip(head).for_each(|(at, word)| put(at, word));
        put_all(of_stages, stages, |span| span.as_ps());
        of_beside.iter().zip(beside).for_each(|(at, &word)| put(at, word));
        last.store(sequence.to_le(), Ordering::Release);
        // Completed, and recorded.
        put(&all[COUNTS_WORD], self.counts.completed);
        put(&all[COUNTS_WORD + 1], sequence);
        self.next += self.words;
        if self.next == self.end {
            self.next = HEADER_BYTES / 8;
        }
    }
}

/// Stores as many words as there are values, eight at a time: atomic stores are not joined, so the loop
/// around each would cost as much as it does.
#[inline]
fn put_all<T>(into: &[AtomicU64], values: &[T], word: impl Fn(&T) -> u64) {
    let put = |(at, value): (&AtomicU64, &T)| at.store(word(value).to_le(), Ordering::Relaxed);
    let ((many, few), (values, rest)) = (into.as_chunks::<8>(), values.as_chunks::<8>());
    for (into, values) in many.iter().zip(values) {
        let [a, b, c, d, e, f, g, h] = into;
        let [s, t, u, v, w, x, y, z] = values;
        [(a, s), (b, t), (c, u), (d, v), (e, w), (f, x), (g, y), (h, z)].into_iter().for_each(put);
    }
    few.iter().zip(rest).for_each(put);
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_profile::{Profile, Side, TimeBase};
    use mynah_stamp::Time;

    fn header() -> Header {
        let mut header = Header::new(Side::Target, "a drive", TimeBase::Monotonic);
        header.kinds = vec!["read".into()];
        header.stages = vec!["first".into(), "second".into()];
        header
    }

    fn sequences(path: &Path) -> Vec<u64> {
        let mut records = Profile::open(path).unwrap().records();
        let mut all = vec![];
        while let Some(record) = records.next_record().unwrap() {
            assert_eq!(record.residual(), 0);
            assert_eq!(record.head.begin, Time::from_ns(record.head.sequence));
            all.push(record.head.sequence);
        }
        assert_eq!(records.torn(), 0);
        all
    }

    fn fill(ring: &mut Ring, count: u64) {
        for _ in 0..count {
            let begin = Time::from_ns(ring.counts().recorded + 1);
            let head = Head { begin, total: Span::from_ns(3), ..Head::default() };
            ring.record(&head, &[Span::from_ns(1), Span::from_ns(2)], &[]);
        }
    }

    #[test]
    fn the_latest_records_are_there_while_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.profile");
        let room = HEADER_BYTES as u64 + 10 * header().record_bytes() + 79;
        let mut ring = Ring::create(&path, &header(), room).unwrap();
        assert_eq!(sequences(&path), [0; 0]);
        fill(&mut ring, 4);
        assert_eq!(sequences(&path), [1, 2, 3, 4]);
        fill(&mut ring, 9);
        let mut all = sequences(&path);
        all.sort_unstable();
        assert_eq!(all, (4..=13).collect::<Vec<_>>());
        let counts = Profile::open(&path).unwrap().counts();
        assert_eq!((counts.completed, counts.recorded), (13, 13));
        let second = Ring::create(&path, &header(), room).unwrap_err();
        assert!(matches!(second.problem, RingProblem::InUse), "{second}");
        drop(ring);
        // A profile is written over, and nothing else.
        let mut ring = Ring::create(&path, &header(), room).unwrap();
        fill(&mut ring, 1);
        drop(ring);
        assert_eq!(sequences(&path), [1]);
        let other = folder.path().join("a text");
        std::fs::write(&other, "something").unwrap();
        let refused = Ring::create(&other, &header(), room).unwrap_err();
        assert!(matches!(refused.problem, RingProblem::Foreign), "{refused}");
        assert_eq!(std::fs::read(&other).unwrap(), b"something");
    }
}
