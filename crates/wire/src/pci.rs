//! PCI configuration space of an endpoint (PCI Express Base 4.0, section 7.5; PCI Bus Power
//! Management 1.2, section 3.2; MSI-X in PCI Local Bus 3.0, section 6.8.2).

use crate::nvme::structures;
use zerocopy::byteorder::little_endian::{U16, U32};

/// Bytes of a function's configuration space, the extended part included.
pub const CONFIGURATION_BYTES: usize = 4096;

/// Class code of an NVM Express I/O controller: mass storage, non-volatile memory, NVMe.
pub const CLASS_NVME: [u8; 3] = [0x02, 0x08, 0x01];

/// Bits of the command register.
pub mod command {
    /// The function answers to its memory addresses.
    pub const MEMORY: u16 = 1 << 1;
    /// The function may read and write memory, and send interrupts.
    pub const BUS_MASTER: u16 = 1 << 2;
    /// INTx is disabled.
    pub const INTERRUPT_DISABLE: u16 = 1 << 10;
    /// The bits that an endpoint of PCI Express keeps: memory, bus master, parity error
    /// response, SERR#, interrupt disable.
    pub const WRITABLE: u16 = MEMORY | BUS_MASTER | 1 << 6 | 1 << 8 | INTERRUPT_DISABLE;
}

/// Status register: there is a list of capabilities.
pub const STATUS_CAPABILITIES: u16 = 1 << 4;

/// Identifiers of capabilities.
pub mod capability {
    pub const POWER_MANAGEMENT: u8 = 0x01;
    pub const EXPRESS: u8 = 0x10;
    pub const MSIX: u8 = 0x11;
}

/// Memory base address register: 64 bits wide.
pub const BAR_64_BIT: u32 = 0b100;

/// MSI-X message control: interrupts are sent as MSI-X.
pub const MSIX_ENABLE: u16 = 1 << 15;
/// MSI-X message control: all vectors are masked.
pub const MSIX_MASK_ALL: u16 = 1 << 14;
/// MSI-X vector control: the vector is masked.
pub const MSIX_MASKED: u32 = 1;
/// Bytes of an entry of the MSI-X table: address, data, vector control.
pub const MSIX_ENTRY_BYTES: usize = 16;

/// Device capabilities: the function can be reset by itself.
pub const EXPRESS_FUNCTION_RESET: u32 = 1 << 28;
/// Device control: resets the function.
pub const EXPRESS_INITIATE_RESET: u16 = 1 << 15;

structures! {
    /// The header of an endpoint (type 0).
    pub struct Header: 64 {
        pub vendor_id: U16,
        pub device_id: U16,
        /// Bits of [`command`].
        pub command: U16,
        /// [`STATUS_CAPABILITIES`].
        pub status: U16,
        pub revision: u8,
        /// Programming interface, subclass, base class.
        pub class: [u8; 3],
        /// Cache line size in units of 4 bytes; of no meaning here.
        pub cache_line: u8,
        /// Latency timer; zero.
        pub latency_timer: u8,
        /// Header type; zero for one function with this layout.
        pub header_type: u8,
        /// Built-in self test; zero for none.
        pub self_test: u8,
        /// BAR 0 to BAR 5.
        pub base_addresses: [U32; 6],
        /// CardBus CIS pointer; zero.
        pub card_information: U32,
        /// Subsystem vendor identifier.
        pub subsystem_vendor_id: U16,
        pub subsystem_id: U16,
        /// Expansion ROM; zero for none.
        pub expansion_rom: U32,
        /// Where the first capability is.
        pub capabilities: u8,
        pub reserved_53: [u8; 7],
        /// For software: where the pin interrupt arrives.
        pub interrupt_line: u8,
        /// INTx pin; zero for none.
        pub interrupt_pin: u8,
        /// Not used by PCI Express; zero.
        pub min_grant: u8,
        /// Not used by PCI Express; zero.
        pub max_latency: u8,
    }

    /// Power management capability.
    pub struct PowerManagement: 8 {
        /// [`capability::POWER_MANAGEMENT`].
        pub id: u8,
        /// Where the next capability is; zero for none.
        pub next: u8,
        /// Version (2:0) and what is supported.
        pub capabilities: U16,
        /// Power state (1:0); no reset when it goes from D3hot to D0 (3).
        pub control: U16,
        /// Zero.
        pub bridge: u8,
        /// Zero.
        pub data: u8,
    }

    /// MSI-X capability.
    pub struct Msix: 12 {
        /// [`capability::MSIX`].
        pub id: u8,
        /// Where the next capability is; zero for none.
        pub next: u8,
        /// Vectors, less one (10:0); [`MSIX_MASK_ALL`], [`MSIX_ENABLE`].
        pub control: U16,
        /// Where the table is: base address register (2:0) and offset.
        pub table: U32,
        /// Where the pending bits are: base address register (2:0) and offset.
        pub pending: U32,
    }

    /// PCI Express capability, version 2.
    pub struct Express: 60 {
        /// [`capability::EXPRESS`].
        pub id: u8,
        /// Where the next capability is; zero for none.
        pub next: u8,
        /// Version (3:0) and type of the port (7:4; 0 is an endpoint).
        pub flags: U16,
        /// Device capabilities: largest payload (2:0), [`EXPRESS_FUNCTION_RESET`].
        pub device_capabilities: U32,
        /// Device control; [`EXPRESS_INITIATE_RESET`].
        pub device_control: U16,
        pub device_status: U16,
        /// Link capabilities: speed (3:0), width (9:4).
        pub link_capabilities: U32,
        pub link_control: U16,
        /// Link status: speed (3:0), width (9:4).
        pub link_status: U16,
        /// Slot and root registers: none of an endpoint's.
        pub slot_and_root: [u8; 16],
        pub device_capabilities_2: U32,
        pub device_control_2: U16,
        pub device_status_2: U16,
        /// Link capabilities 2: a bit for each speed (7:1).
        pub link_capabilities_2: U32,
        pub link_control_2: U16,
        pub link_status_2: U16,
        /// Slot registers 2: none of an endpoint's.
        pub slot_2: [u8; 8],
    }
}
