//! The PCIe link: how long messages take on it.
//!
//! Two directions, each a [`Fifo`]. A message is cut into transaction layer packets of at
//! most `max_payload_bytes`, each with `packet_overhead_bytes` of header, link layer and
//! framing; sizes are rounded up to whole lanes (the packet latency model of MQSim, FAST'18
//! section 4.3, after Xilinx WP350).

use crate::config;
use crate::fifo::Fifo;
use mynah_stamp::Span;

/// Bytes of the address in a read request packet that a completion does not have.
const READ_REQUEST_EXTRA_BYTES: u64 = 4;
/// A doorbell's payload.
const DOORBELL_BYTES: u64 = 4;
/// A doorbell's payload as MQSim sends it.
const DOORBELL_BYTES_MQSIM: u64 = 2;
/// A completion queue entry (NVMe Base 2.0, section 4.2).
const COMPLETION_ENTRY_BYTES: u64 = 16;
/// A PRP entry (NVMe Base 2.0, section 4.1.1).
const PRP_ENTRY_BYTES: u64 = 8;
/// The memory page that a PRP entry describes (CC.MPS = 0).
const MEMORY_PAGE_BYTES: u64 = 4096;

pub(crate) struct Link {
    config: config::Link,
    pub(crate) down: Fifo,
    pub(crate) up: Fifo,
    pub(crate) doorbell: Span,
    pub(crate) read_request: Span,
    pub(crate) completion_entry: Span,
    submission_entry: Span,
    /// Time for the data of so many sectors, for short transfers.
    sectors: Vec<Span>,
}

/// Sectors of the longest transfer whose time is worked out beforehand: 128 KiB.
const SHORT_SECTORS: u32 = 256;

impl Link {
    pub(crate) fn new(config: config::Link) -> Link {
        let doorbell = if config.truncate_ns { DOORBELL_BYTES_MQSIM } else { DOORBELL_BYTES };
        Link {
            config,
            down: Fifo::default(),
            up: Fifo::default(),
            doorbell: payload_time(&config, doorbell),
            read_request: packet_time(
                &config,
                u64::from(config.packet_overhead_bytes) + READ_REQUEST_EXTRA_BYTES,
            ),
            completion_entry: payload_time(&config, COMPLETION_ENTRY_BYTES),
            submission_entry: payload_time(&config, u64::from(config.submission_entry_bytes)),
            sectors: (0..=SHORT_SECTORS)
                .map(|sectors| payload_time(&config, u64::from(sectors) * 512))
                .collect(),
        }
    }

    /// Time for `bytes` of payload.
    pub(crate) fn data(&self, bytes: u64) -> Span {
        payload_time(&self.config, bytes)
    }

    /// Time for the data of `sectors` sectors.
    #[inline]
    pub(crate) fn sectors(&self, sectors: u32) -> Span {
        match self.sectors.get(sectors as usize) {
            Some(&time) => time,
            None => self.data(u64::from(sectors) * 512),
        }
    }

    /// Time for `count` submission queue entries.
    #[inline]
    pub(crate) fn submission_entries(&self, count: u32) -> Span {
        match count {
            1 => self.submission_entry,
            _ => self.data(u64::from(self.config.submission_entry_bytes) * u64::from(count)),
        }
    }

    /// Bytes of the PRP list that a transfer of `bytes` needs: none up to two memory pages,
    /// whose addresses are in the command itself (NVMe Base 2.0, section 4.1.1).
    #[inline]
    pub(crate) fn prp_list_bytes(&self, bytes: u64) -> u64 {
        if bytes <= 2 * MEMORY_PAGE_BYTES || !self.config.fetch_prp_lists {
            return 0;
        }
        (bytes.div_ceil(MEMORY_PAGE_BYTES) - 1) * PRP_ENTRY_BYTES
    }
}

fn payload_time(config: &config::Link, bytes: u64) -> Span {
    let payload = u64::from(config.max_payload_bytes);
    let packets = bytes.div_ceil(payload);
    packet_time(config, bytes + packets * u64::from(config.packet_overhead_bytes))
}

fn packet_time(config: &config::Link, bytes: u64) -> Span {
    let lanes = u64::from(config.lanes);
    let on_all_lanes = u128::from(bytes.div_ceil(lanes) * lanes);
    let ps = (on_all_lanes * 1_000_000_000_000).div_ceil(u128::from(config.bytes_per_s)) as u64;
    Span::from_ps(if config.truncate_ns { ps / 1000 * 1000 } else { ps })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MQSim's shipped link: four lanes of 1 GB/s, 128-byte payloads, 28 bytes of overhead.
    fn shipped() -> config::Link {
        config::Link {
            bytes_per_s: 4_000_000_000,
            lanes: 4,
            max_payload_bytes: 128,
            packet_overhead_bytes: 28,
            submission_entry_bytes: 64,
            fetch_prp_lists: true,
            interrupt: Span::ZERO,
            truncate_ns: false,
            stream_data: true,
        }
    }

    #[test]
    fn times_by_hand() {
        let link = Link::new(shipped());
        // 32 packets of 128 + 28 bytes at 4 bytes a nanosecond.
        assert_eq!(link.data(4096), Span::from_ns(1248));
        assert_eq!(link.submission_entries(1), Span::from_ns(23));
        assert_eq!(link.completion_entry, Span::from_ns(11));
        assert_eq!(link.read_request, Span::from_ns(8));
        assert_eq!(link.doorbell, Span::from_ns(8));
        // Two entries fill one packet.
        assert_eq!(link.submission_entries(2), Span::from_ns(39));
    }

    #[test]
    fn prp_lists_start_with_the_third_page() {
        let link = Link::new(shipped());
        assert_eq!(link.prp_list_bytes(8192), 0);
        assert_eq!(link.prp_list_bytes(8193), 16);
        assert_eq!(link.prp_list_bytes(128 * 1024), 31 * 8);
    }
}
