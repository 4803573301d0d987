//! The bytes of a key, from its number.

use crate::seed;
use mynah_model::keys;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 255;

/// Writes the key with this number, of as many bytes as `key` has.
///
/// The first eight bytes (or all, if there are fewer) are the number, big-endian, after a bijection
/// of all numbers of so many bytes: keys are as scattered as hashes, and no two numbers have the
/// same one. Each further eight bytes are the output of SplitMix64 for the number and their place.
/// Of keys with less than eight bytes the number must fit into them.
///
/// # Panics
/// If `key` is empty, or longer than 255 bytes.
pub fn write_key(number: u64, key: &mut [u8]) {
    assert!((1..=KEY_BYTES_MAX).contains(&key.len()), "a key of {} bytes", key.len());
    let first = key.len().min(8);
    let bytes = scrambled(number, 8 * first as u32).to_be_bytes();
    let (begin, rest) = key.split_at_mut(first);
    begin.copy_from_slice(&bytes[8 - first..]);
    for (place, part) in rest.chunks_mut(8).enumerate() {
        let more = seed::mix(number.wrapping_add((place as u64 + 1).wrapping_mul(GOLDEN)));
        part.copy_from_slice(&more.to_be_bytes()[..part.len()]);
    }
}

/// The token of the key with this number, of so many bytes.
pub fn key_token(number: u64, key_bytes: u8) -> u64 {
    let mut key = [0; KEY_BYTES_MAX];
    let key = &mut key[..usize::from(key_bytes.max(1))];
    write_key(number, key);
    keys::token(key)
}

/// The increment of SplitMix64: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of the `bits`-bit numbers; 1 to 64 bits.
fn scrambled(number: u64, bits: u32) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let shift = bits.div_ceil(2);
    let mut x = number & mask;
    x = x.wrapping_mul(GOLDEN) & mask;
    x ^= x >> shift;
    x = x.wrapping_mul(0xd1b5_4a32_d192_ed03) & mask;
    x ^= x >> shift;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
    x ^ (x >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn key(number: u64, bytes: usize) -> Vec<u8> {
        let mut key = vec![0; bytes];
        write_key(number, &mut key);
        key
    }

    #[test]
    fn keys_are_what_they_have_been() {
        // Part of the interface: stores of bytes and verification rely on it.
        let hex = |bytes: Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let all = [key(0, 16), key(1, 16), key(1, 4), key(2_600_000, 20), key(u64::MAX, 8)];
        insta::assert_snapshot!(all.map(hex).join("\n"));
        assert_eq!(key_token(7, 16), keys::token(&key(7, 16)));
    }

    #[test]
    fn no_two_numbers_have_the_same_key() {
        let short: BTreeSet<_> = (0..1 << 16).map(|number| key(number, 2)).collect();
        assert_eq!(short.len(), 1 << 16);
        for bytes in [3, 7, 8, 9, 16, 255] {
            let all: BTreeSet<_> = (0..10_000u64).map(|n| key(n, bytes)).collect();
            assert_eq!(all.len(), 10_000, "{bytes}");
        }
        // Longer keys do not begin alike.
        let prefixes: BTreeSet<_> = (0..1000).map(|n| key(n, 16)[..4].to_vec()).collect();
        assert!(prefixes.len() > 990);
    }
}
