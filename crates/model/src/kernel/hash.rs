//! A hash of the drive's state, by which tests and saved states compare drives.

use crate::number::Lpn;

/// Folds numbers into one (the multiplication of the FNV hash, 64 bits).
pub(crate) struct StateHash(u64);

impl Default for StateHash {
    fn default() -> Self {
        StateHash(0xcbf2_9ce4_8422_2325)
    }
}

impl StateHash {
    pub(crate) fn value(&self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn add(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    pub(crate) fn add_cached(&mut self, lpn: Lpn, mask: u64) {
        [lpn.0, mask as u32, (mask >> 32) as u32].into_iter().for_each(|number| self.add(number));
    }
}
