//! The function's PCI configuration space: what can be read, and which bits can be written.

use crate::controllers::VENDOR_ID;
use mynah_model::config::Link;
use mynah_wire::pci::{
    BAR_64_BIT, CLASS_NVME, CONFIGURATION_BYTES, EXPRESS_FUNCTION_RESET, EXPRESS_INITIATE_RESET,
    Express, Header, MSIX_ENABLE, MSIX_MASK_ALL, Msix, PowerManagement, STATUS_CAPABILITIES,
    capability, command,
};
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

/// Of nobody, as the vendor is.
const DEVICE_ID: u16 = 0x0001;

/// Where the capabilities are.
const POWER_MANAGEMENT_AT: usize = 0x40;
const MSIX_AT: usize = 0x50;
const EXPRESS_AT: usize = 0x60;
const COMMAND_AT: usize = 4;
const BASE_ADDRESSES_AT: usize = 16;
const INTERRUPT_LINE_AT: usize = 0x3c;

/// What a write to the configuration space asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// A function level reset has been requested.
    pub(super) reset: bool,
    /// The MSI-X control may have changed.
    pub(super) msix: bool,
}

#[derive(Debug)]
pub(super) struct ConfigSpace {
    bytes: Box<[u8; CONFIGURATION_BYTES]>,
    /// Which bits the host can write.
    writable: Box<[u8; CONFIGURATION_BYTES]>,
    initial: Box<[u8; CONFIGURATION_BYTES]>,
}

/// Bytes of the base address registers' regions, powers of two: BAR 0 (with BAR 1, 64 bits),
/// BAR 4 and BAR 5.
#[derive(Clone, Copy, Debug)]
pub(super) struct BarBytes {
    pub(super) registers: u32,
    pub(super) msix_table: u32,
    pub(super) msix_pending: u32,
}

/// A link's speed as its capabilities say it, 1 to 5: 2.5, 5, 8, 16, 32 GT/s a lane.
fn speed(link: &Link) -> u8 {
    let a_lane = link.bytes_per_s / u64::from(link.lanes.max(1));
    let speeds = [250_000_000, 500_000_000, 1_000_000_000, 2_000_000_000];
    speeds.iter().filter(|&&slower| a_lane > slower).count() as u8 + 1
}

impl ConfigSpace {
    pub(super) fn new(bars: BarBytes, vectors: u16, link: &Link) -> ConfigSpace {
        let header = Header {
            vendor_id: U16::new(VENDOR_ID),
            device_id: U16::new(DEVICE_ID),
            status: U16::new(STATUS_CAPABILITIES),
            class: CLASS_NVME,
            base_addresses: [BAR_64_BIT, 0, 0, 0, 0, 0].map(U32::new),
            subsystem_vendor_id: U16::new(VENDOR_ID),
            subsystem_id: U16::new(DEVICE_ID),
            capabilities: POWER_MANAGEMENT_AT as u8,
            ..Default::default()
        };
        let power = PowerManagement {
            id: capability::POWER_MANAGEMENT,
            next: MSIX_AT as u8,
            // Version 3.
            capabilities: U16::new(3),
            // No reset on the way to D0.
            control: U16::new(1 << 3),
            ..Default::default()
        };
        let msix = Msix {
            id: capability::MSIX,
            next: EXPRESS_AT as u8,
            control: U16::new(vectors - 1),
            table: U32::new(4),
            pending: U32::new(5),
        };
        let width = [1u8, 2, 4, 8, 12, 16].into_iter().rev().find(|&n| u32::from(n) <= link.lanes);
        let (speed, width) = (speed(link), width.unwrap_or(1));
        let payload = (link.max_payload_bytes.clamp(128, 4096) / 128).ilog2();
        let express = Express {
            id: capability::EXPRESS,
            // Version 2, an endpoint.
            flags: U16::new(2),
            // Role-based error reporting (15).
            device_capabilities: U32::new(payload | 1 << 15 | EXPRESS_FUNCTION_RESET),
            // Relaxed ordering (4), reads of up to 512 bytes (14:12), as after a reset.
            device_control: U16::new(1 << 4 | 2 << 12),
            link_capabilities: U32::new(u32::from(speed) | u32::from(width) << 4),
            link_status: U16::new(u16::from(speed) | u16::from(width) << 4),
            link_capabilities_2: U32::new((1 << (speed + 1)) - 2),
            link_control_2: U16::new(u16::from(speed)),
            ..FromZeros::new_zeroed()
        };
        let mut bytes = Box::new([0; CONFIGURATION_BYTES]);
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, header.as_bytes());
        put(POWER_MANAGEMENT_AT, power.as_bytes());
        put(MSIX_AT, msix.as_bytes());
        put(EXPRESS_AT, express.as_bytes());
        let mut writable = Box::new([0; CONFIGURATION_BYTES]);
        let mut may = |at: usize, part: &[u8]| writable[at..at + part.len()].copy_from_slice(part);
        may(COMMAND_AT, &command::WRITABLE.to_le_bytes());
        // Cache line size, interrupt line: for software.
        may(12, &[0xff]);
        may(INTERRUPT_LINE_AT, &[0xff]);
        let base = |bytes: u32| (!(bytes - 1)).to_le_bytes();
        may(BASE_ADDRESSES_AT, &base(bars.registers));
        may(BASE_ADDRESSES_AT + 4, &[0xff; 4]);
        may(BASE_ADDRESSES_AT + 16, &base(bars.msix_table));
        may(BASE_ADDRESSES_AT + 20, &base(bars.msix_pending));
        // The power state: D0 and D3hot, and what lies between is kept as it is written.
        may(POWER_MANAGEMENT_AT + 4, &3u16.to_le_bytes());
        may(MSIX_AT + 2, &(MSIX_ENABLE | MSIX_MASK_ALL).to_le_bytes());
        // Error reporting, ordering, payload and read sizes; not the reset, which reads as 0.
        may(EXPRESS_AT + 8, &(!EXPRESS_INITIATE_RESET).to_le_bytes());
        // Link control: ASPM, common clock, extended synch.
        may(EXPRESS_AT + 16, &0x00c3u16.to_le_bytes());
        let initial = bytes.clone();
        ConfigSpace { bytes, writable, initial }
    }

    /// As after a reset. The host's interrupt line and base addresses go, too.
    pub(super) fn reset(&mut self) {
        self.bytes.copy_from_slice(&self.initial[..]);
    }

    /// The bytes from `at` on; `None` outside the configuration space.
    pub(super) fn read(&self, at: usize, bytes: usize) -> Option<&[u8]> {
        self.bytes.get(at..at.checked_add(bytes)?)
    }

    /// Writes the bits that can be written; `None` outside the configuration space.
    pub(super) fn write(&mut self, at: usize, from: &[u8]) -> Option<Effect> {
        let range = at..at.checked_add(from.len())?;
        let targets = self.bytes.get_mut(range.clone())?;
        for ((byte, mask), new) in targets.iter_mut().zip(&self.writable[range.clone()]).zip(from) {
            *byte = *byte & !mask | new & mask;
        }
        // The highest byte of the device control has the reset's bit.
        let reset_at = EXPRESS_AT + 9;
        let reset = range.contains(&reset_at) && from[reset_at - at] & 0x80 != 0;
        let msix = range.start < MSIX_AT + 4 && range.end > MSIX_AT + 2;
        Some(Effect { reset, msix })
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Whether the function may read and write memory.
    #[inline]
    pub(super) fn is_bus_master(&self) -> bool {
        self.word(COMMAND_AT) & command::BUS_MASTER != 0
    }

    /// The MSI-X message control.
    pub(super) fn msix_control(&self) -> u16 {
        self.word(MSIX_AT + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> ConfigSpace {
        let bars = BarBytes { registers: 16 << 10, msix_table: 4096, msix_pending: 4096 };
        let link = Link {
            protocol: mynah_model::config::LinkProtocol::Pcie,
            adapter: mynah_stamp::Span::ZERO,
            bytes_per_s: 8_000_000_000,
            lanes: 4,
            max_payload_bytes: 256,
            packet_overhead_bytes: 28,
            submission_entry_bytes: 64,
            fetch_prp_lists: true,
            interrupt: mynah_stamp::Span::ZERO,
            truncate_ns: false,
            stream_data: true,
        };
        ConfigSpace::new(bars, 129, &link)
    }

    fn dword(space: &ConfigSpace, at: usize) -> u32 {
        u32::from_le_bytes(space.read(at, 4).unwrap().try_into().unwrap())
    }

    #[test]
    fn bars_tell_their_size_and_kind() {
        let mut space = space();
        let mut sizes = vec![];
        for at in (0x10..0x28).step_by(4) {
            space.write(at, &[0xff; 4]).unwrap();
            sizes.push(dword(&space, at));
        }
        assert_eq!(sizes, [0xffff_c004, 0xffff_ffff, 0, 0, 0xffff_f000, 0xffff_f000]);
        // No expansion ROM.
        space.write(0x30, &[0xff; 4]).unwrap();
        assert_eq!(dword(&space, 0x30), 0);
    }

    #[test]
    fn capabilities_are_a_list_that_ends() {
        let space = space();
        let mut at = usize::from(space.read(0x34, 1).unwrap()[0]);
        let mut seen = vec![];
        while at != 0 {
            let head = space.read(at, 2).unwrap();
            seen.push(head[0]);
            at = usize::from(head[1]);
            assert!(seen.len() < 48);
        }
        assert_eq!(seen, [0x01, 0x11, 0x10]);
        // Sixteen GT/s on four lanes.
        assert_eq!(dword(&space, EXPRESS_AT + 12) & 0x3ff, 4 | 4 << 4);
    }

    #[test]
    fn only_writable_bits_change() {
        let mut space = space();
        let before = space.bytes.clone();
        for at in 0..CONFIGURATION_BYTES {
            space.write(at, &[0xff]).unwrap();
            let changed = space.bytes[at] ^ before[at];
            assert_eq!(changed & !space.writable[at], 0, "{at:#x}");
        }
        assert_eq!(space.read(0, 4).unwrap(), &before[..4]);
        assert!(space.is_bus_master());
        space.reset();
        assert_eq!(space.bytes, before);
        assert!(!space.is_bus_master());
    }

    #[test]
    fn the_reset_bit_is_an_act_and_reads_as_zero() {
        let mut space = space();
        let effect = space.write(EXPRESS_AT + 8, &0x9010u16.to_le_bytes()).unwrap();
        assert!(effect.reset);
        assert_eq!(space.word(EXPRESS_AT + 8), 0x1010);
        assert!(!space.write(EXPRESS_AT + 8, &0x1010u16.to_le_bytes()).unwrap().reset);
        assert!(space.write(MSIX_AT + 3, &[0x80]).unwrap().msix);
        assert_eq!(space.write(CONFIGURATION_BYTES - 2, &[0; 4]), None);
        assert_eq!(space.write(usize::MAX, &[0; 4]), None);
        assert_eq!(space.read(4095, 2), None);
    }
}
