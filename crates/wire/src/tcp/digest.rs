//! Header and data digests: CRC-32C (TCP Transport 1.0, section 3.1.5).

use super::pdu::DIGEST_BYTES;

/// Which digests a connection has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// HDGST: a digest follows every header.
    pub header: bool,
    /// DDGST: a digest follows all data.
    pub data: bool,
}

impl Digests {
    /// From the digest field of an initialize PDU; bits that mean nothing are ignored.
    pub fn from_byte(byte: u8) -> Digests {
        Digests { header: byte & 1 != 0, data: byte & 2 != 0 }
    }

    /// The digest field of an initialize PDU.
    pub fn to_byte(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }

    /// The digests that both ends want.
    #[must_use]
    pub fn and(self, other: Digests) -> Digests {
        Digests { header: self.header && other.header, data: self.data && other.data }
    }

    pub fn header_bytes(self) -> usize {
        if self.header { DIGEST_BYTES } else { 0 }
    }

    pub fn data_bytes(self) -> usize {
        if self.data { DIGEST_BYTES } else { 0 }
    }
}

/// Extends the checksum of `bytes` bytes of data by the zeros that pad them to a multiple of four:
/// what SPDK takes for a data digest (`nvme_tcp_pdu_calc_data_digest` in its nvme_tcp.h). Linux
/// sends the checksum of the data alone.
pub fn padded(checksum: u32, bytes: usize) -> u32 {
    let pad = bytes.next_multiple_of(4) - bytes;
    crc32c::crc32c_append(checksum, &[0; 3][..pad])
}

/// The digest of bytes, as it goes onto the wire.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // RFC 3720, section B.4: 32 bytes of zeros, of ones, and counting up.
        let counting: Vec<u8> = (0..32).collect();
        for (bytes, expected) in [
            (&[0; 32][..], [0xaa, 0x36, 0x91, 0x8a]),
            (&[0xff; 32], [0x43, 0xab, 0xa8, 0x62]),
            (&counting, [0x4e, 0x79, 0xdd, 0x46]),
        ] {
            assert_eq!(digest(bytes), expected);
        }
    }
}
