//! Features (Base 2.0, section 5.27.1).

/// Feature identifiers.
pub mod id {
    #![allow(missing_docs)]
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
    pub const HOST_ID: u8 = 0x81;
    pub const RESERVATION_NOTIFICATION: u8 = 0x82;
    pub const RESERVATION_PERSISTENCE: u8 = 0x83;
    pub const WRITE_PROTECTION: u8 = 0x84;
}

/// Which value Get Features asks for (SEL).
pub mod select {
    #![allow(missing_docs)]
    pub const CURRENT: u8 = 0;
    pub const DEFAULT: u8 = 1;
    pub const SAVED: u8 = 2;
    pub const SUPPORTED: u8 = 3;
}

/// Bits of the asynchronous event configuration, and of OAES where both have them.
pub mod event {
    #![allow(missing_docs)]
    pub const NAMESPACE_CHANGED: u32 = 1 << 8;
    pub const FIRMWARE_ACTIVATION: u32 = 1 << 9;
    pub const ANA_CHANGED: u32 = 1 << 11;
    pub const ENDURANCE_GROUP: u32 = 1 << 14;
    pub const DISCOVERY_CHANGED: u32 = 1 << 31;
    /// Critical warnings that make an event (7:0).
    pub const CRITICAL_WARNINGS: u32 = 0xff;
}
