//! What a power cut takes, and what it leaves.
//!
//! A write is in the store as soon as the host has sent it. So where a power cut is due, what
//! each mapping unit held before is kept until it is certain that the new data are on flash:
//! when a Flush or a write with FUA has completed. Units that the model says are lost get
//! back the oldest of what is kept for them; a drive may return any of it.

use super::Certain;
use mynah_model::config::Config;
use std::collections::{HashMap, VecDeque};

/// Contents of a unit, oldest first, each with the epoch in which it was replaced.
type Versions = VecDeque<(u64, Box<[u8]>)>;

/// What mapping units held before writes that may still be lost.
#[derive(Debug)]
pub(super) struct ReplacedUnits {
    units: HashMap<u64, Versions>,
    /// Units in the order in which something was kept of them.
    order: VecDeque<u64>,
    /// Most contents kept: more than the cache and the flash's registers can hold.
    max: usize,
    /// A new one begins with every command that makes writes certain.
    epoch: u64,
}

impl ReplacedUnits {
    pub(super) fn new(config: &Config) -> ReplacedUnits {
        let cache = config.cache.map_or(0, |cache| cache.bytes);
        let max = (2 * cache + (64 << 20)) / u64::from(config.mapping.unit_bytes);
        let max = max as usize;
        ReplacedUnits { units: HashMap::new(), order: VecDeque::new(), max, epoch: 0 }
    }

    pub(super) fn has(&self, unit: u64) -> bool {
        self.units
            .get(&unit)
            .and_then(|kept| kept.back())
            .is_some_and(|&(epoch, _)| epoch == self.epoch)
    }

    pub(super) fn keep(&mut self, unit: u64, bytes: Box<[u8]>) {
        self.units.entry(unit).or_default().push_back((self.epoch, bytes));
        self.order.push_back(unit);
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
            && let Some(kept) = self.units.get_mut(&oldest)
        {
            kept.pop_front();
            if kept.is_empty() {
                self.units.remove(&oldest);
            }
        }
    }

    /// A command that makes writes certain begins; returns the epoch it ends.
    pub(super) fn begin_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch - 1
    }

    /// What was replaced up to an epoch will not come back.
    pub(super) fn forget(&mut self, certain: &Certain) {
        let mut forgotten = false;
        for (&unit, kept) in &mut self.units {
            if certain.units.iter().any(|&(first, end)| (first..end).contains(&unit)) {
                let count = kept.len();
                kept.retain(|&(replaced, _)| replaced > certain.epoch);
                forgotten |= kept.len() != count;
            }
        }
        if !forgotten {
            return;
        }
        let units = &mut self.units;
        units.retain(|_, kept| !kept.is_empty());
        // The order names each unit once for each of its contents.
        let mut left: HashMap<u64, usize> = HashMap::new();
        self.order.retain(|unit| {
            let seen = left.entry(*unit).or_default();
            *seen += 1;
            *seen <= units.get(unit).map_or(0, VecDeque::len)
        });
    }

    /// Nothing that was replaced will come back.
    pub(super) fn forget_all(&mut self) {
        self.units.clear();
        self.order.clear();
    }

    /// Takes the oldest of what was kept of a unit.
    pub(super) fn take(&mut self, unit: u64) -> Option<Box<[u8]>> {
        let (_, bytes) = self.units.remove(&unit)?.pop_front()?;
        Some(bytes)
    }

    /// The epoch that is not over.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }
}
