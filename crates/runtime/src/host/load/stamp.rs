//! Bytes that say what they are: which block or key they belong to, which write of it they are (its
//! generation), and of which run; with a checksum over everything.

use std::ops::Range;

const MAGIC: u64 = u64::from_le_bytes(*b"mynahblk");
/// Magic, run, address, generation, checksum.
pub(super) const HEADER_BYTES: usize = 32;
const CHECKSUM: Range<usize> = 28..32;

/// What the header of a written block or value says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Tells a run's bytes from others'.
    pub(super) run: u64,
    /// A block's address, or a key's number.
    pub(super) address: u64,
    pub(super) generation: u32,
}

impl Stamp {
    /// Fills `into`, which has room for a header.
    pub(super) fn write(&self, into: &mut [u8]) {
        into[..8].copy_from_slice(&MAGIC.to_le_bytes());
        into[8..16].copy_from_slice(&self.run.to_le_bytes());
        into[16..24].copy_from_slice(&self.address.to_le_bytes());
        into[24..28].copy_from_slice(&self.generation.to_le_bytes());
        self.noise(&mut into[HEADER_BYTES..]);
        let sum = checksum(into);
        into[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }

    /// Fills `into` with what only these bytes have: SplitMix64, seeded with what they are.
    pub(super) fn noise(&self, into: &mut [u8]) {
        let Stamp { run, address, generation } = *self;
        let mut state = run ^ address.rotate_left(24) ^ u64::from(generation).rotate_left(48);
        for word in into.chunks_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..word.len()]);
        }
    }

    /// What `data` say they are; `None` if that is nothing.
    pub(super) fn read(data: &[u8]) -> Option<Stamp> {
        let word = |at: usize| {
            let eight = data.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(eight))
        };
        if word(0)? != MAGIC {
            return None;
        }
        Some(Stamp { run: word(8)?, address: word(16)?, generation: word(24)? as u32 })
    }

    /// The first byte of `data` that is not what it should be; `None` if they are whole.
    pub(super) fn wrong_from(&self, data: &[u8]) -> Option<usize> {
        let sum = data.get(CHECKSUM).and_then(|sum| sum.try_into().ok()).map(u32::from_le_bytes);
        if sum == Some(checksum(data)) {
            return None;
        }
        let mut right = vec![0; data.len()];
        self.write(&mut right);
        Some(data.iter().zip(&right).position(|(a, b)| a != b).unwrap_or(0))
    }
}

/// Over everything but the checksum itself.
fn checksum(data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&data[..CHECKSUM.start]), &data[CHECKSUM.end..])
}
