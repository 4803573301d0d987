//! End-to-end protection information (NVM Command Set 1.0, section 5.2), and the ranges of
//! Dataset Management and Copy.

use super::structures;
use zerocopy::byteorder::big_endian;
use zerocopy::byteorder::little_endian::{U16, U32, U64};

structures! {
    /// Protection information of a block, with a 16-bit guard. Big-endian, unlike all else.
    pub struct ProtectionInformation: 8 {
        /// CRC of the block's data.
        pub guard: big_endian::U16,
        pub application_tag: big_endian::U16,
        /// For type 1: the lower 32 bits of the block's LBA.
        pub reference_tag: big_endian::U32,
    }

    /// A range of Dataset Management.
    pub struct DatasetRange: 16 {
        pub attributes: U32,
        /// Number of blocks, counted from 1.
        pub blocks: U32,
        /// SLBA.
        pub start: U64,
    }

    /// A source range of Copy, format 0.
    pub struct CopyRange: 32 {
        pub reserved_0: [u8; 8],
        /// SLBA.
        pub start: U64,
        /// NLB: number of blocks, less one.
        pub blocks: U16,
        pub reserved_18: [u8; 6],
        /// Expected initial reference tag.
        pub reference_tag: U32,
        /// Expected application tag.
        pub application_tag: U16,
        /// Mask of the expected application tag.
        pub application_mask: U16,
    }
}

const POLYNOMIAL: u16 = 0x8bb7;

/// What each byte, followed by 0 to 7 zero bytes, adds to the CRC.
const TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0u16; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before << 8 ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The guard: CRC-16 T10-DIF of a block's data, begun with 0.
pub fn guard(data: &[u8]) -> u16 {
    let mut crc = 0u16;
    let (words, rest) = data.as_chunks::<8>();
    for word in words {
        let first = [word[0] ^ (crc >> 8) as u8, word[1] ^ crc as u8];
        crc = TABLES[7][usize::from(first[0])] ^ TABLES[6][usize::from(first[1])];
        for at in 2..8 {
            crc ^= TABLES[7 - at][usize::from(word[at])];
        }
    }
    for byte in rest {
        crc = crc << 8 ^ TABLES[0][usize::from(*byte ^ (crc >> 8) as u8)];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_is_the_t10_crc() {
        // The check value of CRC-16/T10-DIF in the catalogue of parametrised CRC algorithms.
        assert_eq!(guard(b"123456789"), 0xd0db);
        assert_eq!(guard(&[0; 512]), 0);
    }

    #[test]
    fn whole_words_and_single_bytes_agree() {
        let data: Vec<u8> = (0..100u32).map(|n| (n * 37) as u8).collect();
        let mut crc = 0u16;
        for (at, byte) in data.iter().enumerate() {
            crc = crc << 8 ^ TABLES[0][usize::from(*byte ^ (crc >> 8) as u8)];
            assert_eq!(guard(&data[..=at]), crc, "{at}");
        }
    }
}
