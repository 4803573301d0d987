//! The host link, PCIe or SATA: how long messages take on it.
//!
//! Two directions, each a [`Fifo`]. A message is cut into transaction layer packets of at
//! most `max_payload_bytes`, each with `packet_overhead_bytes` of header, link layer and
//! framing; sizes are rounded up to whole lanes (the packet latency model of MQSim, FAST'18
//! section 4.3, after Xilinx WP350).
//!
//! SATA has one direction at a time, so one [`Fifo`]. A command is a Register FIS to the
//! device and one back, before its data goes a DMA Setup FIS (to the device preceded by a DMA
//! Activate FIS), data goes in Data FISes, and a Set Device Bits FIS completes it (Serial ATA
//! Revision 3, section 10.5, and its rules for native command queuing).

use crate::config;
use crate::kernel::fifo::Fifo;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};

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

/// Register FIS, host to device, and device to host.
const REGISTER_FIS_BYTES: u64 = 20;
const DMA_SETUP_FIS_BYTES: u64 = 28;
const DMA_ACTIVATE_FIS_BYTES: u64 = 4;
/// Header of a Data FIS; its payload is at most 8 KiB.
const DATA_FIS_HEADER_BYTES: u32 = 4;
const SET_DEVICE_BITS_FIS_BYTES: u64 = 8;

#[derive(Serialize, Deserialize)]
pub(crate) struct Link {
    config: config::Link,
    /// Whether `down` carries both directions.
    pub(crate) half_duplex: bool,
    /// The host bus adapter's two sides, for commands and for completions, where it takes
    /// time.
    pub(crate) adapter: Option<[Fifo; 2]>,
    /// Link time of a request for write data: a read request, or SATA's DMA Setup and Activate.
    pub(crate) data_request: Span,
    /// Link time before read data: SATA's DMA Setup.
    pub(crate) data_setup: Span,
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
        let adapter = (!config.adapter.is_zero()).then(<[Fifo; 2]>::default);
        if config.protocol == config::LinkProtocol::Sata {
            return Link { adapter, ..Link::sata(config) };
        }
        let doorbell = if config.truncate_ns { DOORBELL_BYTES_MQSIM } else { DOORBELL_BYTES };
        let read_request = packet_time(
            &config,
            u64::from(config.packet_overhead_bytes) + READ_REQUEST_EXTRA_BYTES,
        );
        Link {
            half_duplex: false,
            adapter,
            data_request: read_request,
            data_setup: Span::ZERO,
            config,
            down: Fifo::default(),
            up: Fifo::default(),
            doorbell: payload_time(&config, doorbell),
            read_request,
            completion_entry: payload_time(&config, COMPLETION_ENTRY_BYTES),
            submission_entry: payload_time(&config, u64::from(config.submission_entry_bytes)),
            sectors: (0..=SHORT_SECTORS)
                .map(|sectors| payload_time(&config, u64::from(sectors) * 512))
                .collect(),
        }
    }

    fn sata(config: config::Link) -> Link {
        let frame =
            |bytes: u64| packet_time(&config, bytes + u64::from(config.packet_overhead_bytes));
        // Data FISes have a header more than the others.
        let data = config::Link {
            packet_overhead_bytes: config.packet_overhead_bytes + DATA_FIS_HEADER_BYTES,
            ..config
        };
        Link {
            half_duplex: true,
            adapter: None,
            down: Fifo::default(),
            up: Fifo::default(),
            doorbell: Span::ZERO,
            read_request: Span::ZERO,
            completion_entry: frame(SET_DEVICE_BITS_FIS_BYTES),
            submission_entry: frame(REGISTER_FIS_BYTES).times(2),
            data_request: frame(DMA_SETUP_FIS_BYTES) + frame(DMA_ACTIVATE_FIS_BYTES),
            data_setup: frame(DMA_SETUP_FIS_BYTES),
            sectors: (0..=SHORT_SECTORS)
                .map(|sectors| payload_time(&data, u64::from(sectors) * 512))
                .collect(),
            config: data,
        }
    }

    /// The direction towards the host.
    #[inline(always)]
    pub(crate) fn towards_host(&mut self) -> &mut Fifo {
        if self.half_duplex { &mut self.down } else { &mut self.up }
    }

    /// Makes room for `holders` holders.
    pub(crate) fn grow(&mut self, holders: usize) {
        self.up.grow(holders);
        self.down.grow(holders);
        for side in self.adapter.iter_mut().flatten() {
            side.grow(holders);
        }
    }

    /// Drops what is on its way.
    pub(crate) fn clear(&mut self, now: Time) {
        self.up.clear(now);
        self.down.clear(now);
        for side in self.adapter.iter_mut().flatten() {
            side.clear(now);
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
            _ if self.half_duplex => self.submission_entry.times(count.into()),
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
    use crate::testing::plain_link;

    #[test]
    fn times_by_hand() {
        let link = Link::new(plain_link());
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
    fn frames_by_hand() {
        // 6 Gb/s with 8b/10b coding: 600 MB/s; 12 bytes around each frame.
        let link = Link::new(config::Link {
            protocol: config::LinkProtocol::Sata,
            bytes_per_s: 600_000_000,
            lanes: 1,
            max_payload_bytes: 8192,
            packet_overhead_bytes: 12,
            fetch_prp_lists: false,
            ..plain_link()
        });
        let bytes = |bytes: u64| Span::from_ps((bytes * 1_000_000).div_ceil(600));
        assert_eq!(link.data(8192), bytes(8192 + 16));
        assert_eq!(link.sectors(17), bytes(8192 + 16 + 512 + 16));
        assert_eq!(link.submission_entries(1), bytes(32).times(2));
        assert_eq!(link.completion_entry, bytes(20));
        assert_eq!(link.data_setup, bytes(40));
        assert!(link.doorbell.is_zero() && link.half_duplex);
    }

    #[test]
    fn prp_lists_start_with_the_third_page() {
        let link = Link::new(plain_link());
        assert_eq!(link.prp_list_bytes(8192), 0);
        assert_eq!(link.prp_list_bytes(8193), 16);
        assert_eq!(link.prp_list_bytes(128 * 1024), 31 * 8);
    }
}
