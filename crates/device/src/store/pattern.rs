//! Bytes that nobody keeps.

use super::{PatternValues, Ready, Store, StoreError, StoreJob, Values};

/// Every aligned eight bytes hold their own address, little endian; writes are dropped. For
/// work on performance, where the bytes do not matter and memory does.
#[derive(Debug, Default)]
pub struct PatternStore;

impl Store for PatternStore {
    fn fetch(&mut self, _at: u64, _bytes: u32) -> Ready {
        Ready::Now
    }

    fn read(&mut self, _job: Option<StoreJob>, at: u64, into: &mut [u8]) {
        let mut word = at & !7;
        let skip = (at - word) as usize;
        let (head, rest) = into.split_at_mut(if skip == 0 { 0 } else { into.len().min(8 - skip) });
        if skip > 0 {
            head.copy_from_slice(&word.to_le_bytes()[skip..skip + head.len()]);
            word += 8;
        }
        let mut words = rest.chunks_exact_mut(8);
        for bytes in &mut words {
            bytes.copy_from_slice(&word.to_le_bytes());
            word += 8;
        }
        let tail = words.into_remainder();
        tail.copy_from_slice(&word.to_le_bytes()[..tail.len()]);
    }

    fn forget(&mut self, _job: StoreJob) {}

    fn write(&mut self, _at: u64, _from: &[u8]) -> Ready {
        Ready::Now
    }

    fn discard(&mut self, _at: u64, _bytes: u64) -> Ready {
        Ready::Now
    }

    fn flush(&mut self) -> Ready {
        Ready::Now
    }

    fn values(&mut self) -> Option<Box<dyn Values>> {
        Some(Box::new(PatternValues))
    }

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_is_a_part_of_the_pattern() {
        let mut store = PatternStore;
        let mut whole = [0; 64];
        store.read(None, 4096, &mut whole);
        assert_eq!(whole[..8], 4096u64.to_le_bytes());
        assert_eq!(whole[56..], 4152u64.to_le_bytes());
        for first in 0..20 {
            for end in first..40 {
                let mut part = vec![0; end - first];
                store.read(None, 4096 + first as u64, &mut part);
                assert_eq!(part, whole[first..end], "{first}..{end}");
            }
        }
    }
}
