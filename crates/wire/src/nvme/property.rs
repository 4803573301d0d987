//! Controller properties (Base 2.0, section 3.1.3).

pub mod offset {
    pub const CAP: u32 = 0x00;
    pub const VS: u32 = 0x08;
    pub const INTMS: u32 = 0x0c;
    pub const INTMC: u32 = 0x10;
    pub const CC: u32 = 0x14;
    pub const CSTS: u32 = 0x1c;
    pub const NSSR: u32 = 0x20;
    pub const AQA: u32 = 0x24;
    pub const ASQ: u32 = 0x28;
    pub const ACQ: u32 = 0x30;
    pub const CRTO: u32 = 0x68;
    /// The first doorbell (PCIe Transport 1.0, section 3.1.2), with a stride of 4 bytes.
    pub const DOORBELLS: u32 = 0x1000;
}

/// Version 2.0 as VS and Identify Controller state it.
pub const VERSION_2_0: u32 = 0x0002_0000;

/// What a controller can do (CAP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Most entries of a queue (MQES is one less).
    pub queue_entries_max: u32,
    /// Longest time to become ready, in units of 500 ms.
    pub timeout: u8,
}

impl Capabilities {
    /// The property: contiguous queues, the NVM command set and the choice of I/O command
    /// sets by Identify, memory pages of 4 KiB, ready with media.
    pub fn to_bits(self) -> u64 {
        u64::from(self.queue_entries_max.clamp(2, 65_536) - 1)
            | 1 << 16
            | u64::from(self.timeout) << 24
            | (1 | 1 << 6) << 37
            | 1 << 59
    }

    /// Most entries of a queue, from the property.
    pub fn queue_entries(bits: u64) -> u32 {
        (bits & 0xffff) as u32 + 1
    }
}

/// CAP.AMS: weighted round robin with urgent priority class.
pub const CAP_WEIGHTED_ROUND_ROBIN: u64 = 1 << 17;

/// Controller configuration (CC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Configuration(pub u32);

impl Configuration {
    /// EN: the controller shall process commands.
    pub fn enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// CSS: the command sets selected; 0 NVM, 6 all of the selected profile, 7 admin only.
    pub fn command_sets(self) -> u8 {
        (self.0 >> 4 & 7) as u8
    }

    /// AMS: arbitration; 0 round robin, 1 weighted round robin with urgent priority class.
    pub fn arbitration(self) -> u8 {
        (self.0 >> 11 & 7) as u8
    }

    /// MPS: memory page size, a power of two of 4 KiB.
    pub fn page_shift(self) -> u8 {
        (self.0 >> 7 & 15) as u8
    }

    /// SHN: shutdown notification; 1 normal, 2 abrupt.
    pub fn shutdown(self) -> u8 {
        (self.0 >> 14 & 3) as u8
    }

    /// IOSQES: bytes of an I/O submission entry as a power of two.
    pub fn submission_entry(self) -> u8 {
        (self.0 >> 16 & 15) as u8
    }

    /// IOCQES: bytes of an I/O completion entry as a power of two.
    pub fn completion_entry(self) -> u8 {
        (self.0 >> 20 & 15) as u8
    }
}

/// Controller status (CSTS).
pub mod status {
    /// RDY.
    pub const READY: u32 = 1;
    /// CFS: controller fatal status.
    pub const FATAL: u32 = 1 << 1;
    /// SHST: shutdown status.
    pub const SHUTDOWN: u32 = 3 << 2;
    /// SHST, shutdown processing occurring.
    pub const SHUTDOWN_OCCURRING: u32 = 1 << 2;
    /// SHST, shutdown complete.
    pub const SHUTDOWN_COMPLETE: u32 = 2 << 2;
}
