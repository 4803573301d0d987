//! Features (Base 2.0, section 5.27.1).

pub mod id {
    pub const ARBITRATION: u8 = 0x01;
    pub const POWER_MANAGEMENT: u8 = 0x02;
    pub const TEMPERATURE_THRESHOLD: u8 = 0x04;
    pub const ERROR_RECOVERY: u8 = 0x05;
    pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
    pub const NUMBER_OF_QUEUES: u8 = 0x07;
    pub const INTERRUPT_COALESCING: u8 = 0x08;
    pub const INTERRUPT_VECTOR: u8 = 0x09;
    pub const WRITE_ATOMICITY: u8 = 0x0a;
    pub const ASYNCHRONOUS_EVENTS: u8 = 0x0b;
    pub const TIMESTAMP: u8 = 0x0e;
    pub const KEEP_ALIVE: u8 = 0x0f;
    pub const NON_OPERATIONAL_POWER: u8 = 0x11;
    pub const HOST_BEHAVIOR: u8 = 0x16;
    pub const SANITIZE_CONFIG: u8 = 0x17;
    pub const ENDURANCE_GROUP_EVENTS: u8 = 0x18;
    pub const COMMAND_SET_PROFILE: u8 = 0x19;
    pub const DATA_PLACEMENT: u8 = 0x1d;
    pub const PLACEMENT_EVENTS: u8 = 0x1e;
    pub const KEY_VALUE_CONFIGURATION: u8 = 0x20;
    pub const HOST_ID: u8 = 0x81;
    pub const RESERVATION_NOTIFICATION: u8 = 0x82;
    pub const RESERVATION_PERSISTENCE: u8 = 0x83;
    pub const WRITE_PROTECTION: u8 = 0x84;
}

/// Which value Get Features asks for (SEL).
pub mod select {
    pub const CURRENT: u8 = 0;
    pub const DEFAULT: u8 = 1;
    pub const SAVED: u8 = 2;
    pub const SUPPORTED: u8 = 3;
}

/// Bits of the asynchronous event configuration, and of OAES where both have them.
pub mod event {
    pub const NAMESPACE_CHANGED: u32 = 1 << 8;
    pub const FIRMWARE_ACTIVATION: u32 = 1 << 9;
    pub const ANA_CHANGED: u32 = 1 << 11;
    pub const ENDURANCE_GROUP: u32 = 1 << 14;
    pub const DISCOVERY_CHANGED: u32 = 1 << 31;
    /// Critical warnings that make an event (7:0).
    pub const CRITICAL_WARNINGS: u32 = 0xff;
}

/// The value of Arbitration (Base 2.0, section 5.27.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arbitration {
    /// AB: commands taken at a time, as an exponent of two; [`Arbitration::BURST_UNLIMITED`] stands
    /// for no limit.
    pub burst: u8,
    /// LPW: the weight of the low priority class, counted from 0, as are the others.
    pub low: u8,
    /// MPW.
    pub medium: u8,
    /// HPW.
    pub high: u8,
}

impl Arbitration {
    /// The burst that stands for no limit.
    pub const BURST_UNLIMITED: u8 = 7;

    pub fn from_bits(bits: u32) -> Arbitration {
        let [burst, low, medium, high] = bits.to_le_bytes();
        Arbitration { burst: burst & 7, low, medium, high }
    }

    pub fn to_bits(self) -> u32 {
        u32::from_le_bytes([self.burst, self.low, self.medium, self.high])
    }
}

/// The value of Temperature Threshold (Base 2.0, section 5.27.1.3), and what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemperatureThreshold {
    /// TMPTH, in kelvin.
    pub kelvin: u16,
    /// TMPSEL: which sensor; 0: all together, 15: each of them.
    pub sensor: u8,
    /// THSEL: 0 of temperatures above, 1 below; others are reserved.
    pub kind: u8,
}

impl TemperatureThreshold {
    pub fn from_bits(bits: u32) -> TemperatureThreshold {
        TemperatureThreshold {
            kelvin: bits as u16,
            sensor: (bits >> 16 & 0xf) as u8,
            kind: (bits >> 20 & 3) as u8,
        }
    }

    pub fn to_bits(self) -> u32 {
        u32::from(self.kelvin) | u32::from(self.sensor) << 16 | u32::from(self.kind) << 20
    }
}

/// The value of Number of Queues (Base 2.0, section 5.27.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberOfQueues {
    /// NSQR or NSQA: I/O submission queues, less one.
    pub submission: u16,
    /// NCQR or NCQA: I/O completion queues, less one.
    pub completion: u16,
}

impl NumberOfQueues {
    pub fn from_bits(bits: u32) -> NumberOfQueues {
        NumberOfQueues { submission: bits as u16, completion: (bits >> 16) as u16 }
    }

    pub fn to_bits(self) -> u32 {
        u32::from(self.submission) | u32::from(self.completion) << 16
    }
}

/// The value of Interrupt Coalescing (Base 2.0, section 5.27.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptCoalescing {
    /// THR: completions that are worth an interrupt, less one.
    pub threshold: u8,
    /// TIME: how long one may wait, in units of 100 microseconds.
    pub time: u8,
}

impl InterruptCoalescing {
    pub fn from_bits(bits: u32) -> InterruptCoalescing {
        let [threshold, time, ..] = bits.to_le_bytes();
        InterruptCoalescing { threshold, time }
    }

    pub fn to_bits(self) -> u32 {
        u32::from(self.threshold) | u32::from(self.time) << 8
    }
}

/// The value of Interrupt Vector Configuration (Base 2.0, section 5.27.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptVector {
    /// IV.
    pub vector: u16,
    /// CD: interrupt coalescing is disabled for this vector.
    pub coalescing_disabled: bool,
}

impl InterruptVector {
    pub fn from_bits(bits: u32) -> InterruptVector {
        InterruptVector { vector: bits as u16, coalescing_disabled: bits >> 16 & 1 != 0 }
    }

    pub fn to_bits(self) -> u32 {
        u32::from(self.vector) | u32::from(self.coalescing_disabled) << 16
    }
}

/// The value of Key Value Configuration (Key Value Command Set 1.0, section 4.1.3.1), which each
/// namespace has for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyValueConfiguration {
    /// EDNEK: a Delete of a key that does not exist is an error.
    pub delete_of_absent_fails: bool,
}

impl KeyValueConfiguration {
    pub fn from_bits(bits: u32) -> KeyValueConfiguration {
        KeyValueConfiguration { delete_of_absent_fails: bits & 1 != 0 }
    }

    pub fn to_bits(self) -> u32 {
        self.delete_of_absent_fails.into()
    }
}

/// The value of Flexible Data Placement (Base 2.1, section 5.1.25.1.20): dword 12 of Set Features, and
/// dword 0 of the completion of Get Features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPlacement {
    /// FDPE.
    pub enabled: bool,
    /// FDPCIDX: which of the configurations in the log of configurations.
    pub configuration: u8,
}

impl DataPlacement {
    pub fn from_bits(bits: u32) -> DataPlacement {
        DataPlacement { enabled: bits & 1 != 0, configuration: (bits >> 8) as u8 }
    }

    pub fn to_bits(self) -> u32 {
        u32::from(self.enabled) | u32::from(self.configuration) << 8
    }
}

/// What Flexible Data Placement Events is about (Base 2.1, section 5.1.25.1.21): dword 11 of Set
/// Features and Get Features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementEvents {
    /// PHNDL: a placement handle of the namespace.
    pub handle: u16,
    /// NOET: types of events in the data, a byte each in Set Features, two in Get Features.
    pub types: u8,
}

impl PlacementEvents {
    pub fn from_bits(bits: u32) -> PlacementEvents {
        PlacementEvents { handle: bits as u16, types: (bits >> 16) as u8 }
    }

    pub fn to_bits(self) -> u32 {
        u32::from(self.handle) | u32::from(self.types) << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_survive_being_read_and_written(bits in any::<u32>()) {
            prop_assert_eq!(Arbitration::from_bits(bits).to_bits(), bits & !0xf8);
            prop_assert_eq!(TemperatureThreshold::from_bits(bits).to_bits(), bits & 0x003f_ffff);
            prop_assert_eq!(NumberOfQueues::from_bits(bits).to_bits(), bits);
            prop_assert_eq!(InterruptCoalescing::from_bits(bits).to_bits(), bits & 0xffff);
            prop_assert_eq!(InterruptVector::from_bits(bits).to_bits(), bits & 0x1_ffff);
            prop_assert_eq!(KeyValueConfiguration::from_bits(bits).to_bits(), bits & 1);
            prop_assert_eq!(DataPlacement::from_bits(bits).to_bits(), bits & 0xff01);
            prop_assert_eq!(PlacementEvents::from_bits(bits).to_bits(), bits & 0xff_ffff);
        }
    }
}
