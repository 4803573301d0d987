//! Memory for write data that hosts are asked for, bounded for all connections together, and for
//! those of one machine.

use std::collections::HashMap;

/// Smallest buffer handed out.
const CLASS_BYTES_MIN: usize = 16 << 10;
const CLASSES: usize = 16;
/// A connection may hold 1/`SHARES` of the pool's bytes.
const SHARES: usize = 4;

/// The connections of one machine, as far as the transport can tell; they share a limit. The
/// default owner has the connections of unknown origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner(u32);

#[derive(Debug, Default)]
struct Lender {
    source: u128,
    connections: usize,
    lent_bytes: usize,
}

/// Lends buffers in powers of two. The bytes of lent and cached buffers together never exceed the
/// limit.
#[derive(Debug)]
pub struct TransferPool {
    bytes_max: usize,
    owner_bytes_max: usize,
    /// Indexed by [`Owner`].
    owners: Vec<Lender>,
    by_source: HashMap<u128, Owner>,
    free: Vec<Owner>,
    lent_bytes: usize,
    cached_bytes: usize,
    cached: [Vec<Vec<u8>>; CLASSES],
    contended: bool,
}

impl TransferPool {
    /// A pool of so many bytes, all of which one machine may hold.
    pub fn new(bytes_max: usize) -> TransferPool {
        TransferPool::with_share(bytes_max, bytes_max)
    }

    /// A pool of so many bytes, of which one machine may hold `owner_bytes_max`; it may always hold
    /// one buffer.
    pub fn with_share(bytes_max: usize, owner_bytes_max: usize) -> TransferPool {
        TransferPool {
            bytes_max,
            owner_bytes_max,
            owners: vec![Lender::default()],
            by_source: HashMap::new(),
            free: Vec::new(),
            lent_bytes: 0,
            cached_bytes: 0,
            cached: Default::default(),
            contended: false,
        }
    }

    /// Registers a connection of the machine with this number, until [`TransferPool::leave`].
    pub fn join(&mut self, source: u128) -> Owner {
        let owner = *self.by_source.entry(source).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.owners.push(Lender::default());
                Owner(self.owners.len() as u32 - 1)
            })
        });
        let lender = &mut self.owners[owner.0 as usize];
        lender.source = source;
        lender.connections += 1;
        owner
    }

    /// A connection is gone, and has given everything back.
    pub fn leave(&mut self, owner: Owner) {
        let lender = &mut self.owners[owner.0 as usize];
        lender.connections -= 1;
        if lender.connections == 0 {
            debug_assert_eq!(lender.lent_bytes, 0);
            self.by_source.remove(&lender.source);
            self.free.push(owner);
        }
    }

    /// The most one connection may hold while others may want some too; it may always hold
    /// one buffer.
    pub fn share_bytes(&self) -> usize {
        self.bytes_max / SHARES
    }

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

    /// Size of the buffer that is lent for `bytes` bytes.
    pub fn class_bytes(bytes: usize) -> usize {
        bytes.next_power_of_two().max(CLASS_BYTES_MIN)
    }

    /// Lends a buffer of at least `bytes` bytes, with any contents.
    pub fn take(&mut self, owner: Owner, bytes: usize) -> Option<Vec<u8>> {
        let bytes = Self::class_bytes(bytes);
        let lender = &mut self.owners[owner.0 as usize];
        let has_enough = lender.lent_bytes > 0 && lender.lent_bytes + bytes > self.owner_bytes_max;
        if has_enough || bytes > self.bytes_max - self.lent_bytes {
            return None;
        }
        lender.lent_bytes += bytes;
        self.lent_bytes += bytes;
        if let Some(buffer) = self.cached.get_mut(class(bytes)).and_then(Vec::pop) {
            self.cached_bytes -= bytes;
            return Some(buffer);
        }
        if self.lent_bytes + self.cached_bytes > self.bytes_max {
            self.forget_kept();
        }
        Some(vec![0; bytes])
    }

    /// Returns a buffer to the pool.
    pub fn give(&mut self, owner: Owner, buffer: Vec<u8>) {
        self.owners[owner.0 as usize].lent_bytes -= buffer.len();
        self.lent_bytes -= buffer.len();
        if let Some(cached) = self.cached.get_mut(class(buffer.len())) {
            self.cached_bytes += buffer.len();
            cached.push(buffer);
        }
    }

    /// Frees the cached buffers.
    pub fn forget_kept(&mut self) {
        self.cached = Default::default();
        self.cached_bytes = 0;
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
        let owner = Owner::default();
        let large = pool.take(owner, 100 << 10).unwrap();
        assert_eq!(large.len(), 128 << 10);
        let small: Vec<_> = (0..8).map(|_| pool.take(owner, 1).unwrap()).collect();
        assert!(pool.take(owner, 1).is_none());
        pool.give(owner, large);
        small.into_iter().for_each(|buffer| pool.give(owner, buffer));
        assert_eq!(pool.lent_bytes(), 0);
        assert_eq!(pool.cached_bytes, 256 << 10);
        let whole = pool.take(owner, 256 << 10).unwrap();
        assert_eq!((whole.len(), pool.cached_bytes), (256 << 10, 0));
        pool.give(owner, whole);
        assert!(pool.take(owner, (256 << 10) + 1).is_none());
    }

    #[test]
    fn a_greedy_machine_leaves_others_their_part() {
        let mut pool = TransferPool::with_share(256 << 10, 128 << 10);
        // The greedy one has two connections.
        let greedy = [pool.join(1), pool.join(1)];
        let good = pool.join(2);
        assert!(greedy[0] == greedy[1] && greedy[0] != good);
        let held = pool.take(greedy[0], 100 << 10).unwrap();
        assert!(pool.take(greedy[1], 1).is_none());
        let own = pool.take(good, 128 << 10).expect("its part");
        pool.give(greedy[0], held);
        // More than one may have, where it has nothing else.
        assert!(pool.take(greedy[1], 256 << 10).is_none(), "more than is left");
        pool.give(good, own);
        let whole = pool.take(greedy[1], 256 << 10).unwrap();
        pool.give(greedy[1], whole);
        greedy.into_iter().chain([good]).for_each(|owner| pool.leave(owner));
        // Numbers of who is gone are used again.
        for source in 3..10 {
            let owner = pool.join(source);
            pool.leave(owner);
        }
        assert_eq!((pool.owners.len(), pool.by_source.len()), (3, 0));
    }
}
