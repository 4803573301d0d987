//! What a look-up in hashed pages costs beside the page that has the key: pages in which the key is
//! not are passed over if a filter says so, and where entries hold a signature of the key in place of
//! the key, pairs whose signatures are alike are read to be compared.
//!
//! The model holds neither filters nor signatures of pages. Whether one is wrong is drawn from the
//! token and the page, so that it is the same each time, as often as it would be.

use super::filter::false_positives;
use super::space::Space;
use crate::config::KeyIndex;
use crate::number::Lpn;
use crate::pair_index::{Place, Probes};

/// What entries and filters of hashed pages are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Likeness {
    filter_bits: u32,
    signature_bits: u32,
}

/// Random bits that depend on what is looked for, where, and what for.
fn bits_of(token: u64, page: u32, salt: u64) -> u64 {
    // The finaliser of MurmurHash3.
    let mut bits = token ^ (u64::from(page) << 32 | salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

/// [`bits_of`] as a fraction: at least 0, less than 1.
fn share_of(token: u64, page: u32, salt: u64) -> f64 {
    (bits_of(token, page, salt) >> 11) as f64 / (1u64 << 53) as f64
}

impl Likeness {
    pub(super) fn new(config: &KeyIndex) -> Likeness {
        let KeyIndex { filter_bits, signature_bits, .. } = *config;
        Likeness { filter_bits, signature_bits }
    }

    /// Whether the filter of a page that holds `keys` others says that a token is among them.
    fn filter_errs(&self, token: u64, page: u32, keys: u32) -> bool {
        if self.filter_bits == 0 {
            return true;
        }
        // The filter of a page is made anew with the page, for as many keys as it then has.
        keys > 0 && share_of(token, page, 1) < false_positives(self.filter_bits)
    }

    /// How many of `keys` entries of a page have the signature of a token that is none of theirs.
    fn alike(&self, token: u64, page: u32, keys: u32) -> u32 {
        if self.signature_bits == 0 {
            return 0;
        }
        // A binomial number, drawn by inversion.
        let alike = libm::exp2(-f64::from(self.signature_bits));
        let mut left = share_of(token, page, 2);
        let mut probability = libm::pow(1.0 - alike, f64::from(keys));
        let odds = alike / (1.0 - alike);
        for found in 0..keys {
            if left < probability {
                return found;
            }
            left -= probability;
            probability *= odds * f64::from(keys - found) / f64::from(found + 1);
        }
        keys
    }
}

/// The pair that is looked for, if it is there.
#[derive(Clone, Copy)]
pub(super) struct Own {
    pub(super) place: Place,
    /// First cell of the pair.
    pub(super) cell: Lpn,
    /// Whether it is read anyway, so that comparing it costs nothing.
    pub(super) read: bool,
}

impl Space {
    /// Leaves those pages among the probes that have to be looked at, and adds the pairs that have
    /// to be read.
    pub(super) fn compare(&self, token: u64, own: Option<Own>, probes: &mut Probes) {
        let likeness = self.likeness;
        if !self.index.is_hashed() || likeness.filter_bits == 0 && likeness.signature_bits == 0 {
            return;
        }
        let home = own.and_then(|own| self.index.page_of(token, own.place));
        let Probes { pages, compared, .. } = probes;
        pages.retain(|&page| {
            let is_home = home == Some(page);
            let keys = self.index.keys_of(page) - u32::from(is_home);
            if !is_home && !likeness.filter_errs(token, page, keys) {
                return false;
            }
            let alike = likeness.alike(token, page, keys);
            // The pair itself may be met before some of the others.
            let first = match is_home {
                true => (bits_of(token, page, 3) % u64::from(alike + 1)) as u32,
                false => alike,
            };
            compared.extend((0..first).filter_map(|n| self.some_cell(token, page, n)));
            true
        });
        if likeness.signature_bits > 0
            && let Some(own) = own
            && !own.read
        {
            compared.push(own.cell);
        }
    }

    /// The first cell of some pair, as good as any.
    fn some_cell(&self, token: u64, page: u32, n: u32) -> Option<Lpn> {
        let pairs = self.pairs.len() as u64;
        let from = bits_of(token, page, 4 + u64::from(n)).checked_rem(pairs)?;
        let near = (from..pairs).take(64).map(|at| self.pairs[at as usize]);
        let found = near.into_iter().find(|entry| !entry.is_vacant())?;
        Some(self.base + found.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_as_many_as_computed() {
        let token = |key: u64| crate::keys::token(&key.to_le_bytes());
        let misses = 1_000_000u64;
        // Three, six and seven bits of 4, 8 and 10 for each key: (1 - exp(-k n / m))^k, however full a page
        // is; nothing is in an empty one.
        for (filter_bits, keys, expected) in
            [(4, 195, 0.1469), (4, 512, 0.1469), (8, 1000, 0.0216), (10, 700, 0.00819), (4, 0, 0.0)]
        {
            let likeness = Likeness { filter_bits, signature_bits: 0 };
            let wrong = (0..misses).filter(|&n| likeness.filter_errs(token(n), 7, keys)).count();
            if keys == 0 {
                assert_eq!(wrong, 0);
                continue;
            }
            let share = wrong as f64 / misses as f64;
            assert!((share / expected - 1.0).abs() < 0.05, "{share}, not {expected}");
        }
        for (signature_bits, keys) in [(8, 500), (12, 1000), (16, 1000)] {
            let likeness = Likeness { filter_bits: 0, signature_bits };
            let alike: u64 =
                (0..misses).map(|n| u64::from(likeness.alike(token(n), 7, keys))).sum();
            let expected = f64::from(keys) / f64::from(1 << signature_bits);
            let mean = alike as f64 / misses as f64;
            assert!((mean / expected - 1.0).abs() < 0.05, "{mean}, not {expected}");
        }
    }
}
