//! Layouts of messages.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Command numbers.
pub mod command {
    pub const VERSION: u16 = 1;
    pub const DMA_MAP: u16 = 2;
    pub const DMA_UNMAP: u16 = 3;
    pub const DEVICE_GET_INFO: u16 = 4;
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    pub const DEVICE_GET_REGION_IO_FDS: u16 = 6;
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    pub const DEVICE_SET_IRQS: u16 = 8;
    pub const REGION_READ: u16 = 9;
    pub const REGION_WRITE: u16 = 10;
    pub const DMA_READ: u16 = 11;
    pub const DMA_WRITE: u16 = 12;
    pub const DEVICE_RESET: u16 = 13;

    /// The name of a command, for people.
    pub fn name(command: u16) -> &'static str {
        match command {
            VERSION => "VERSION",
            DMA_MAP => "DMA_MAP",
            DMA_UNMAP => "DMA_UNMAP",
            DEVICE_GET_INFO => "DEVICE_GET_INFO",
            DEVICE_GET_REGION_INFO => "DEVICE_GET_REGION_INFO",
            DEVICE_GET_REGION_IO_FDS => "DEVICE_GET_REGION_IO_FDS",
            DEVICE_GET_IRQ_INFO => "DEVICE_GET_IRQ_INFO",
            DEVICE_SET_IRQS => "DEVICE_SET_IRQS",
            REGION_READ => "REGION_READ",
            REGION_WRITE => "REGION_WRITE",
            DMA_READ => "DMA_READ",
            DMA_WRITE => "DMA_WRITE",
            DEVICE_RESET => "DEVICE_RESET",
            _ => "an unknown command",
        }
    }
}

/// Bits of [`Header::flags`].
pub mod flag {
    /// What kind of message it is: [`REQUEST`] or [`REPLY`].
    pub const TYPE: u32 = 0xf;
    pub const REQUEST: u32 = 0;
    pub const REPLY: u32 = 1;
    /// No reply is wanted.
    pub const NO_REPLY: u32 = 1 << 4;
    /// The request failed; [`super::Header::error`] says why.
    pub const ERROR: u32 = 1 << 5;
}

/// An error number of Linux, as failed requests have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub u32);

impl Errno {
    pub const TOO_BIG: Errno = Errno(7);
    pub const NO_MEMORY: Errno = Errno(12);
    pub const EXISTS: Errno = Errno(17);
    pub const INVALID: Errno = Errno(22);
    pub const NO_ENTRY: Errno = Errno(2);
    pub const PROTOCOL: Errno = Errno(71);
    pub const NOT_SUPPORTED: Errno = Errno(95);
}

/// Regions of a PCI device, in the order of `<linux/vfio.h>`: six BARs, the expansion ROM,
/// configuration space, VGA.
pub const REGIONS: usize = 9;
/// The region of configuration space.
pub const CONFIGURATION_REGION: u32 = 7;
/// Kinds of interrupts of a PCI device: INTx, MSI, MSI-X, errors, requests.
pub const INTERRUPT_KINDS: usize = 5;
/// Index of the MSI-X interrupts.
pub const MSI_X: u32 = 2;

/// Header of every message.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Chosen by the sender; the reply has the same.
    pub id: U16,
    /// Number of [`command`].
    pub command: U16,
    /// Bytes of the message with this header.
    pub size: U32,
    /// Bits of [`flag`].
    pub flags: U32,
    /// Error number of a failed request.
    pub error: U32,
}

impl Header {
    pub const BYTES: usize = size_of::<Header>();
}

/// VERSION, before its capabilities.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Version {
    /// Messages of other major versions cannot be understood.
    pub major: U16,
    /// Higher minor versions are compatible.
    pub minor: U16,
}

/// DMA_MAP.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DmaMap {
    /// Bytes of this structure.
    pub argsz: U32,
    /// [`DmaMap::READ`], [`DmaMap::WRITE`].
    pub flags: U32,
    /// Where in the descriptor's file the memory begins.
    pub offset: U64,
    /// The first address on the bus.
    pub address: U64,
    /// In bytes.
    pub size: U64,
}

impl DmaMap {
    /// The device may read.
    pub const READ: u32 = 1;
    /// The device may write.
    pub const WRITE: u32 = 2;
}

/// DMA_UNMAP.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DmaUnmap {
    /// Bytes of this structure.
    pub argsz: U32,
    /// [`DmaUnmap::DIRTY_BITMAP`], [`DmaUnmap::ALL`].
    pub flags: U32,
    /// The first address on the bus.
    pub address: U64,
    /// In bytes.
    pub size: U64,
}

impl DmaUnmap {
    /// Which pages were written is asked for.
    pub const DIRTY_BITMAP: u32 = 1;
    /// Everything, whatever address and size are.
    pub const ALL: u32 = 2;
}

/// DEVICE_GET_INFO.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DeviceInfo {
    /// Bytes of this structure.
    pub argsz: U32,
    /// [`DeviceInfo::RESET`], [`DeviceInfo::PCI`].
    pub flags: U32,
    /// Regions, at least [`REGIONS`] of a PCI device.
    pub regions: U32,
    /// Number of interrupt kinds.
    pub interrupts: U32,
}

impl DeviceInfo {
    /// The device can be reset.
    pub const RESET: u32 = 1;
    /// The device is a PCI device.
    pub const PCI: u32 = 2;
}

/// DEVICE_GET_REGION_INFO, before its capabilities.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RegionInfo {
    /// Of a request: bytes that may come. Of a reply: bytes that there are, capabilities included.
    pub argsz: U32,
    /// [`RegionInfo::READ`] and so on.
    pub flags: U32,
    /// Index of the region.
    pub index: U32,
    /// Where the first capability begins, from the beginning of this.
    pub capability_offset: U32,
    /// Bytes of the region; 0: there is none.
    pub size: U64,
    /// Where the region begins in its descriptor's file.
    pub offset: U64,
}

impl RegionInfo {
    /// The region can be read.
    pub const READ: u32 = 1;
    /// The region can be written.
    pub const WRITE: u32 = 2;
    /// It can be mapped, or parts of it can.
    pub const MAPPABLE: u32 = 4;
    /// Capabilities follow.
    pub const CAPABILITIES: u32 = 8;
}

/// The capability that says which one area of a region can be mapped.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SparseMapping {
    /// [`SparseMapping::ID`].
    pub id: U16,
    /// 1.
    pub version: U16,
    /// Where the next capability begins; 0: there is none.
    pub next: U32,
    /// Number of areas that follow.
    pub areas: U32,
    pub reserved: U32,
    /// Where the first area begins in the region.
    pub offset: U64,
    /// Bytes of the first area.
    pub size: U64,
}

impl SparseMapping {
    /// VFIO_REGION_INFO_CAP_SPARSE_MMAP.
    pub const ID: u16 = 1;
}

/// DEVICE_GET_IRQ_INFO.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct InterruptInfo {
    /// Bytes of this structure.
    pub argsz: U32,
    /// [`InterruptInfo::EVENTFD`] and so on.
    pub flags: U32,
    /// Index of the interrupt kind.
    pub index: U32,
    /// Number of interrupts of the kind.
    pub count: U32,
}

impl InterruptInfo {
    /// Signalled through event descriptors.
    pub const EVENTFD: u32 = 1;
    /// All interrupts of the kind are set up together (VFIO_IRQ_INFO_NORESIZE).
    pub const NO_RESIZE: u32 = 8;
}

/// DEVICE_SET_IRQS, before its data.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct InterruptSet {
    /// Bytes of this with its data.
    pub argsz: U32,
    /// What is to be done, and with what.
    pub flags: U32,
    /// Index of the interrupt kind.
    pub index: U32,
    /// The first interrupt of that kind.
    pub start: U32,
    /// Number of interrupts.
    pub count: U32,
}

impl InterruptSet {
    /// No data follow.
    pub const DATA_NONE: u32 = 1;
    /// The data are a byte for each interrupt.
    pub const DATA_BOOL: u32 = 2;
    /// The data are event descriptors, or none of them.
    pub const DATA_EVENTFD: u32 = 4;
    /// The interrupts are masked.
    pub const MASK: u32 = 8;
    /// The interrupts are unmasked.
    pub const UNMASK: u32 = 16;
    /// The interrupts are triggered, or their event descriptors set.
    pub const TRIGGER: u32 = 32;
}

/// REGION_READ and REGION_WRITE, before their data.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RegionAccess {
    /// Offset in the region.
    pub offset: U64,
    /// Index of the region.
    pub region: U32,
    /// Number of bytes.
    pub count: U32,
}

/// DMA_READ: what the device wants to read of the client's memory. In the protocol's text the count
/// has 64 bits, and in QEMU 32 with as many behind them that mean nothing.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MemoryAccess {
    /// First address on the bus.
    pub address: U64,
    /// Number of bytes.
    pub count: U64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_their_sizes() {
        assert_eq!(Header::BYTES, 16);
        assert_eq!(size_of::<Version>(), 4);
        assert_eq!(size_of::<DmaMap>(), 32);
        assert_eq!(size_of::<DmaUnmap>(), 24);
        assert_eq!(size_of::<DeviceInfo>(), 16);
        assert_eq!(size_of::<RegionInfo>(), 32);
        assert_eq!(size_of::<SparseMapping>(), 32);
        assert_eq!(size_of::<InterruptInfo>(), 16);
        assert_eq!(size_of::<InterruptSet>(), 20);
        assert_eq!(size_of::<RegionAccess>(), 16);
    }
}
