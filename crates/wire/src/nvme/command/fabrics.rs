//! Fabrics commands (Base 2.0, section 6).

use super::{INVALID_FIELD, INVALID_OPCODE, bits};
use crate::fabrics::Connect;
use crate::nvme::opcode::{FABRICS, fabrics as kind};
use crate::nvme::{Status, SubmissionEntry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricsCommand {
    PropertySet(PropertySet),
    /// Connect (section 6.3).
    Connect(Connect),
    PropertyGet(PropertyGet),
    /// Authentication Send (section 6.2).
    AuthenticationSend(Authentication),
    /// Authentication Receive (section 6.1).
    AuthenticationReceive(Authentication),
    Disconnect(Disconnect),
}

impl FabricsCommand {
    /// Parses a Fabrics command.
    ///
    /// # Errors
    /// The status with which the command has to be completed.
    pub fn parse(entry: &SubmissionEntry) -> Result<FabricsCommand, Status> {
        use FabricsCommand as C;
        if entry.opcode != FABRICS {
            return Err(INVALID_OPCODE);
        }
        Ok(match entry.fabrics_type() {
            kind::PROPERTY_SET => C::PropertySet(PropertySet::parse(entry)?),
            kind::CONNECT => C::Connect(Connect::parse(entry)),
            kind::PROPERTY_GET => C::PropertyGet(PropertyGet::parse(entry)?),
            kind::AUTHENTICATION_SEND => C::AuthenticationSend(Authentication::parse(entry)),
            kind::AUTHENTICATION_RECEIVE => C::AuthenticationReceive(Authentication::parse(entry)),
            kind::DISCONNECT => C::Disconnect(Disconnect::parse(entry)),
            _ => return Err(INVALID_FIELD),
        })
    }

    /// Writes opcode, type and fields of an entry.
    pub fn put(&self, entry: &mut SubmissionEntry) {
        use FabricsCommand as C;
        entry.opcode = FABRICS;
        let kind = match self {
            C::Connect(command) => return command.put(entry),
            C::PropertySet(command) => {
                command.put(entry);
                kind::PROPERTY_SET
            }
            C::PropertyGet(command) => {
                command.put(entry);
                kind::PROPERTY_GET
            }
            C::AuthenticationSend(command) => {
                command.put(entry);
                kind::AUTHENTICATION_SEND
            }
            C::AuthenticationReceive(command) => {
                command.put(entry);
                kind::AUTHENTICATION_RECEIVE
            }
            C::Disconnect(command) => {
                entry.dword10.set(command.record_format.into());
                kind::DISCONNECT
            }
        };
        entry.namespace_id.set(kind.into());
    }
}

/// Bytes of a property (ATTRIB).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertySize {
    Four,
    Eight,
}

impl PropertySize {
    fn parse(entry: &SubmissionEntry) -> Result<PropertySize, Status> {
        match bits(entry.dword10.get(), 0, 3) {
            0 => Ok(PropertySize::Four),
            1 => Ok(PropertySize::Eight),
            _ => Err(INVALID_FIELD),
        }
    }

    fn put(self, entry: &mut SubmissionEntry) {
        entry.dword10.set(u32::from(self == PropertySize::Eight));
    }
}

/// Property Get (Base 2.0, section 6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyGet {
    /// ATTRIB.
    pub size: PropertySize,
    /// OFST ([`crate::nvme::property::offset`]).
    pub offset: u32,
}

impl PropertyGet {
    fn parse(entry: &SubmissionEntry) -> Result<PropertyGet, Status> {
        Ok(PropertyGet { size: PropertySize::parse(entry)?, offset: entry.dword11.get() })
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        self.size.put(entry);
        entry.dword11.set(self.offset);
    }
}

/// Property Set (Base 2.0, section 6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertySet {
    /// ATTRIB.
    pub size: PropertySize,
    /// OFST ([`crate::nvme::property::offset`]).
    pub offset: u32,
    /// The value; of a property of four bytes, only the lower half counts.
    pub value: u64,
}

impl PropertySet {
    fn parse(entry: &SubmissionEntry) -> Result<PropertySet, Status> {
        let (low, high) = (entry.dword12.get(), entry.dword13.get());
        Ok(PropertySet {
            size: PropertySize::parse(entry)?,
            offset: entry.dword11.get(),
            value: u64::from(low) | u64::from(high) << 32,
        })
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        self.size.put(entry);
        entry.dword11.set(self.offset);
        entry.dword12.set(self.value as u32);
        entry.dword13.set((self.value >> 32) as u32);
    }
}

/// Authentication Send or Receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// SPSP: security protocol specific.
    pub specific: u16,
    /// SECP: the security protocol.
    pub protocol: u8,
    /// Bytes sent, or room for bytes to be received (TL, AL).
    pub bytes: u32,
}

impl Authentication {
    fn parse(entry: &SubmissionEntry) -> Authentication {
        let dword10 = entry.dword10.get();
        Authentication {
            specific: bits(dword10, 8, 16) as u16,
            protocol: (dword10 >> 24) as u8,
            bytes: entry.dword11.get(),
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.dword10.set(u32::from(self.specific) << 8 | u32::from(self.protocol) << 24);
        entry.dword11.set(self.bytes);
    }
}

/// Disconnect (Base 2.0, section 6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// RECFMT: 0.
    pub record_format: u16,
}

impl Disconnect {
    fn parse(entry: &SubmissionEntry) -> Disconnect {
        Disconnect { record_format: entry.dword10.get() as u16 }
    }
}
