//! Layouts of messages.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a message asks for.
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
    /// A request.
    pub const REQUEST: u32 = 0;
    /// A reply.
    pub const REPLY: u32 = 1;
    /// No reply is wanted.
    pub const NO_REPLY: u32 = 1 << 4;
    /// The request failed.
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
/// MSI-X.
pub const MSI_X: u32 = 2;

/// Begins every message.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// The sender's name for the message; its reply has the same.
    pub id: U16,
    /// See [`command`].
    pub command: U16,
    /// Bytes of the message with this header.
    pub size: U32,
    /// See [`flag`].
    pub flags: U32,
    /// Of failed requests.
    pub error: U32,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = size_of::<Header>();
}

/// VERSION, before its capabilities.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Version {
    /// Messages of other major versions cannot be understood.
    pub major: U16,
    /// Grows with what is added.
    pub minor: U16,
}

/// DMA_MAP.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DmaMap {
    /// Bytes of this.
    pub argsz: U32,
    /// [`DmaMap::READ`], [`DmaMap::WRITE`].
    pub flags: U32,
    /// Where in the descriptor's file the memory begins.
    pub offset: U64,
    /// The first address on the bus.
    pub address: U64,
    /// Bytes.
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
    /// Bytes of this.
    pub argsz: U32,
    /// [`DmaUnmap::DIRTY_BITMAP`], [`DmaUnmap::ALL`].
    pub flags: U32,
    /// The first address on the bus.
    pub address: U64,
    /// Bytes.
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
    /// Bytes of this.
    pub argsz: U32,
    /// [`DeviceInfo::RESET`], [`DeviceInfo::PCI`].
    pub flags: U32,
    /// Regions, at least [`REGIONS`] of a PCI device.
    pub regions: U32,
    /// Kinds of interrupts.
    pub interrupts: U32,
}

impl DeviceInfo {
    /// It can be reset.
    pub const RESET: u32 = 1;
    /// It is a PCI device.
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
    /// Which region.
    pub index: U32,
    /// Where the first capability begins, from the beginning of this.
    pub capability_offset: U32,
    /// Bytes of the region.
    pub size: U64,
    /// Where the region begins in its descriptor's file.
    pub offset: U64,
}

impl RegionInfo {
    /// It can be read.
    pub const READ: u32 = 1;
    /// It can be written.
    pub const WRITE: u32 = 2;
    /// It can be mapped, or parts of it can.
    pub const MAPPABLE: u32 = 4;
    /// There are capabilities.
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
    /// How many areas follow.
    pub areas: U32,
    /// Zero.
    pub reserved: U32,
    /// Where the first area begins in the region.
    pub offset: U64,
    /// Its bytes.
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
    /// Bytes of this.
    pub argsz: U32,
    /// [`InterruptInfo::EVENTFD`] and so on.
    pub flags: U32,
    /// Which kind.
    pub index: U32,
    /// How many of it there are.
    pub count: U32,
}

impl InterruptInfo {
    /// Signalled through event descriptors.
    pub const EVENTFD: u32 = 1;
    /// Set up as a whole.
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
    /// Which kind.
    pub index: U32,
    /// The first interrupt of that kind.
    pub start: U32,
    /// How many.
    pub count: U32,
}

impl InterruptSet {
    /// There are no data.
    pub const DATA_NONE: u32 = 1;
    /// The data are a byte for each interrupt.
    pub const DATA_BOOL: u32 = 2;
    /// The data are event descriptors, or none of them.
    pub const DATA_EVENTFD: u32 = 4;
    /// They are masked.
    pub const MASK: u32 = 8;
    /// They are unmasked.
    pub const UNMASK: u32 = 16;
    /// They are triggered, or their event descriptors set.
    pub const TRIGGER: u32 = 32;
}

/// REGION_READ and REGION_WRITE, before their data.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RegionAccess {
    /// Where in the region.
    pub offset: U64,
    /// Which region.
    pub region: U32,
    /// Bytes.
    pub count: U32,
}

/// DMA_READ: what the device wants to read of the client's memory. In the protocol's text the count
/// has 64 bits, and in QEMU 32 with as many behind them that mean nothing.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MemoryAccess {
    /// Where.
    pub address: U64,
    /// Bytes.
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
