//! Bloom filters (Bloom, CACM 1970): whether a token can be among some, in a few bits of DRAM for
//! each. Positions by double hashing (Kirsch and Mitzenmacher, ESA 2006): tokens are random bits as
//! they are.

/// A set of tokens that says of some others, too, that they are in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    words: Vec<u64>,
    hashes: u32,
}

impl Filter {
    /// A filter of these tokens, with so many bits for each; without bits, everything is in it.
    pub(super) fn new(tokens: &[u64], bits_each: u32) -> Filter {
        if bits_each == 0 {
            return Filter::default();
        }
        let bits = (tokens.len() as u64 * u64::from(bits_each)).max(64);
        let mut filter =
            Filter { words: vec![0; bits.div_ceil(64) as usize], hashes: hashes(bits_each) };
        for &token in tokens {
            for at in filter.positions(token) {
                filter.words[(at / 64) as usize] |= 1 << (at % 64);
            }
        }
        filter
    }

    /// Whether a token may be in it.
    pub(super) fn may_contain(&self, token: u64) -> bool {
        self.hashes == 0
            || self.positions(token).all(|at| self.words[(at / 64) as usize] >> (at % 64) & 1 != 0)
    }

    fn positions(&self, token: u64) -> impl Iterator<Item = u64> + use<> {
        let bits = self.words.len() as u128 * 64;
        let step = token.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..u64::from(self.hashes)).map(move |n| {
            let hash = token.wrapping_add(n.wrapping_mul(step));
            ((u128::from(hash) * bits) >> 64) as u64
        })
    }
}

/// How many bits of a filter a token sets: the number with the fewest false positives.
fn hashes(bits_each: u32) -> u32 {
    (libm::round(f64::from(bits_each) * std::f64::consts::LN_2) as u32).max(1)
}

/// The share of tokens that are not in a filter of so many bits for each of its own, of which it
/// says that they are.
pub(super) fn false_positives(bits_each: u32) -> f64 {
    let hashes = f64::from(hashes(bits_each));
    libm::pow(1.0 - libm::exp(-hashes / f64::from(bits_each)), hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_positives_are_as_many_as_computed() {
        let token = |key: u64| crate::keys::token(&key.to_le_bytes());
        for bits in [4, 8, 10] {
            let tokens: Vec<u64> = (0..100_000).map(token).collect();
            let filter = Filter::new(&tokens, bits);
            assert!(tokens.iter().all(|&token| filter.may_contain(token)));
            let others = 1_000_000;
            let found = (0..others).filter(|n| filter.may_contain(token(1 << 40 | n))).count();
            let share = found as f64 / others as f64;
            let expected = false_positives(bits);
            assert!((share / expected - 1.0).abs() < 0.05, "{bits}: {share}, not {expected}");
        }
        assert!(Filter::new(&[1, 2], 0).may_contain(3));
    }
}
