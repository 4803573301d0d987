//! The bytes a drive holds.

mod pattern;

pub use pattern::PatternStore;

/// Names work that a store does in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreJob(pub u64);

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It is.
    Now,
    /// [`Store::finished`] will return this job.
    Later(StoreJob),
}

/// The store could not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Bytes could not be read.
    #[error("the store cannot read")]
    Read,
    /// Bytes could not be written, or it is not known whether they are on stable storage.
    #[error("the store cannot write")]
    Write,
}

/// The longest description that a store keeps, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 60 << 10;

/// Holds the bytes of a drive, addressed from 0 to its size. Never blocks.
///
/// Reads see all writes accepted before them. What was never written, or was discarded,
/// reads as zeros.
pub trait Store {
    /// Brings bytes so near that [`Store::read`] has them at hand.
    fn fetch(&mut self, at: u64, bytes: u32) -> Ready;

    /// Copies bytes that were fetched; `job` is the finished job if the fetch gave one, which
    /// this call releases. Writes accepted between the fetch and now may or may not be seen.
    fn read(&mut self, job: Option<StoreJob>, at: u64, into: &mut [u8]);

    /// Releases a job whose bytes nobody wants any more.
    fn forget(&mut self, job: StoreJob);

    /// Accepts bytes. `Later`: they are accepted, but the command must not complete until
    /// the job has finished, because the store has too much under way.
    fn write(&mut self, at: u64, from: &[u8]) -> Ready;

    /// Makes bytes read as zeros. `Later`: as for [`Store::write`].
    fn discard(&mut self, at: u64, bytes: u64) -> Ready;

    /// Puts everything accepted so far on stable storage.
    fn flush(&mut self) -> Ready;

    /// Keeps a description of what the bytes are (namespaces and their formats, say) beside
    /// them, at most [`DESCRIPTION_BYTES_MAX`] bytes. A flush that begins after this makes it
    /// stable, too. A store that does not outlive the process need not keep it.
    fn describe(&mut self, _description: &[u8]) {}

    /// The description kept last, by an earlier process perhaps.
    fn description(&self) -> Option<&[u8]> {
        None
    }

    /// Puts everything on stable storage and notes that it was closed in order. The last call;
    /// the only one that may block.
    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The next job that has finished, and how.
    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)>;
}

const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that one group of the table holds.
const GROUP_CHUNKS: usize = 4096;

type Chunk = Option<Box<[u8]>>;

/// Holds bytes in memory; only what was written takes room.
#[derive(Debug, Default)]
pub struct RamStore {
    /// A table of two levels, of which only what is needed exists.
    groups: Vec<Option<Box<[Chunk]>>>,
}

impl RamStore {
    /// An empty store.
    pub fn new() -> RamStore {
        RamStore::default()
    }

    #[inline]
    fn chunk(&self, chunk: u64) -> Option<&[u8]> {
        let group = self.groups.get(chunk as usize / GROUP_CHUNKS)?.as_deref()?;
        group[chunk as usize % GROUP_CHUNKS].as_deref()
    }

    #[inline]
    fn chunk_to_write(&mut self, chunk: u64) -> &mut [u8] {
        let at = chunk as usize / GROUP_CHUNKS;
        if self.groups.len() <= at {
            self.groups.resize_with(at + 1, || None);
        }
        let group = self.groups[at].get_or_insert_with(|| vec![None; GROUP_CHUNKS].into());
        group[chunk as usize % GROUP_CHUNKS].get_or_insert_with(|| vec![0; CHUNK_BYTES].into())
    }

    /// The parts of a range by chunk: chunk number, first byte in it, bytes.
    fn parts(at: u64, bytes: u64) -> impl Iterator<Item = (u64, usize, usize)> {
        let end = at + bytes;
        let mut next = at;
        std::iter::from_fn(move || {
            if next == end {
                return None;
            }
            let chunk = next / CHUNK_BYTES as u64;
            let first = (next % CHUNK_BYTES as u64) as usize;
            let length = (CHUNK_BYTES - first).min((end - next) as usize);
            next += length as u64;
            Some((chunk, first, length))
        })
    }
}

impl Store for RamStore {
    fn fetch(&mut self, _at: u64, _bytes: u32) -> Ready {
        Ready::Now
    }

    fn read(&mut self, _job: Option<StoreJob>, at: u64, into: &mut [u8]) {
        let mut rest = into;
        for (chunk, first, length) in Self::parts(at, rest.len() as u64) {
            let (part, tail) = rest.split_at_mut(length);
            match self.chunk(chunk) {
                Some(bytes) => part.copy_from_slice(&bytes[first..first + length]),
                None => part.fill(0),
            }
            rest = tail;
        }
    }

    fn forget(&mut self, _job: StoreJob) {}

    fn write(&mut self, at: u64, from: &[u8]) -> Ready {
        let mut rest = from;
        for (chunk, first, length) in Self::parts(at, from.len() as u64) {
            let (part, tail) = rest.split_at(length);
            self.chunk_to_write(chunk)[first..first + length].copy_from_slice(part);
            rest = tail;
        }
        Ready::Now
    }

    fn discard(&mut self, at: u64, bytes: u64) -> Ready {
        // Where nothing was written there may be terabytes: groups that do not exist are
        // passed over as a whole.
        const GROUP_BYTES: u64 = (GROUP_CHUNKS * CHUNK_BYTES) as u64;
        let end = (at + bytes).min(self.groups.len() as u64 * GROUP_BYTES);
        let mut next = at;
        while next < end {
            let group_end = (next / GROUP_BYTES + 1) * GROUP_BYTES;
            let part_end = group_end.min(end);
            if let Some(group) = &mut self.groups[(next / GROUP_BYTES) as usize] {
                for (chunk, first, length) in Self::parts(next, part_end - next) {
                    let chunk = &mut group[chunk as usize % GROUP_CHUNKS];
                    if length == CHUNK_BYTES {
                        *chunk = None;
                    } else if let Some(bytes) = chunk {
                        bytes[first..first + length].fill(0);
                    }
                }
            }
            next = part_end;
        }
        Ready::Now
    }

    fn flush(&mut self) -> Ready {
        Ready::Now
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
}
