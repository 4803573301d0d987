//! Memory for write data that hosts are asked for, bounded for all connections together.

/// Smallest buffer handed out.
const CLASS_BYTES_MIN: usize = 16 << 10;
const CLASSES: usize = 16;
/// One connection may hold one part in so many of the whole.
const SHARES: usize = 4;

/// Lends buffers in powers of two. What is lent and what is kept for later never exceed the
/// limit together.
#[derive(Debug)]
pub struct TransferPool {
    bytes_max: usize,
    lent_bytes: usize,
    kept_bytes: usize,
    kept: [Vec<Vec<u8>>; CLASSES],
    contended: bool,
}

impl TransferPool {
    /// A pool of so many bytes.
    pub fn new(bytes_max: usize) -> TransferPool {
        TransferPool {
            bytes_max,
            lent_bytes: 0,
            kept_bytes: 0,
            kept: Default::default(),
            contended: false,
        }
    }

    /// The most one connection may hold while others may want some too; it may always hold
    /// one buffer.
    pub fn share_bytes(&self) -> usize {
        self.bytes_max / SHARES
    }

    /// Bytes that are lent.
    pub fn lent_bytes(&self) -> usize {
        self.lent_bytes
    }

    /// Whether connections wait for buffers, so that nobody may go first out of turn.
    pub fn is_contended(&self) -> bool {
        self.contended
    }

    /// Says whether connections wait for buffers.
    pub fn set_contended(&mut self, contended: bool) {
        self.contended = contended;
    }

    /// What a buffer for so many bytes takes.
    pub fn class_bytes(bytes: usize) -> usize {
        bytes.next_power_of_two().max(CLASS_BYTES_MIN)
    }

    /// Lends a buffer of at least so many bytes, with anything in it.
    pub fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let bytes = Self::class_bytes(bytes);
        if bytes > self.bytes_max - self.lent_bytes {
            return None;
        }
        self.lent_bytes += bytes;
        if let Some(buffer) = self.kept.get_mut(class(bytes)).and_then(Vec::pop) {
            self.kept_bytes -= bytes;
            return Some(buffer);
        }
        if self.lent_bytes + self.kept_bytes > self.bytes_max {
            self.forget_kept();
        }
        Some(vec![0; bytes])
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Vec<u8>) {
        self.lent_bytes -= buffer.len();
        if let Some(kept) = self.kept.get_mut(class(buffer.len())) {
            self.kept_bytes += buffer.len();
            kept.push(buffer);
        }
    }

    /// Gives the memory back that nobody uses.
    pub fn forget_kept(&mut self) {
        self.kept = Default::default();
        self.kept_bytes = 0;
    }
}

fn class(bytes: usize) -> usize {
    (bytes / CLASS_BYTES_MIN).trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds() {
        let mut pool = TransferPool::new(256 << 10);
        let large = pool.take(100 << 10).unwrap();
        assert_eq!(large.len(), 128 << 10);
        let small: Vec<_> = (0..8).map(|_| pool.take(1).unwrap()).collect();
        assert!(pool.take(1).is_none());
        pool.give(large);
        small.into_iter().for_each(|buffer| pool.give(buffer));
        assert_eq!(pool.lent_bytes(), 0);
        assert_eq!(pool.kept_bytes, 256 << 10);
        let whole = pool.take(256 << 10).unwrap();
        assert_eq!((whole.len(), pool.kept_bytes), (256 << 10, 0));
        pool.give(whole);
        assert!(pool.take((256 << 10) + 1).is_none());
    }
}
