//! NVMe over Fabrics: what the transports share (Base 2.0, sections 3.1.3 and 6).

use crate::nvme::command::FabricsCommand;
use crate::nvme::{SubmissionEntry, structures};
use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::U16;

/// NQN of the well-known discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Longest NQN, in bytes, without the terminating zero.
pub const NQN_BYTES_MAX: usize = 223;

/// Controller identifier that asks for any controller.
pub const CONTROLLER_ANY: u16 = 0xffff;
/// Controller identifier that asks for any static controller.
pub const CONTROLLER_ANY_STATIC: u16 = 0xfffe;

/// Connect attribute: the host does not want submission queue flow control.
pub const CONNECT_NO_FLOW_CONTROL: u8 = 1 << 2;

structures! {
    /// Data of the Connect command (Base 2.0, figure 547).
    pub struct ConnectData: 1024 {
        /// HOSTID.
        pub host_id: [u8; 16],
        /// Which controller; 0xffff asks for a new one.
        pub controller_id: U16,
        pub reserved: [u8; 238],
        /// NQN of the subsystem, ended by a zero.
        pub subsystem_nqn: [u8; 256],
        /// NQN of the host, ended by a zero.
        pub host_nqn: [u8; 256],
        pub reserved_end: [u8; 256],
    }
}

/// What the entry of a Connect command says (Base 2.0, figure 546).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// RECFMT: 0.
    pub record_format: u16,
    /// QID: 0 for the admin queue.
    pub queue_id: u16,
    /// SQSIZE: entries, less one.
    pub queue_size: u16,
    /// CATTR: priority class (1:0), no flow control (2), individual queue deletion (3).
    pub attributes: u8,
    /// KATO: keep-alive timeout in milliseconds; 0: none.
    pub keep_alive_ms: u32,
}

impl Connect {
    pub fn parse(entry: &SubmissionEntry) -> Connect {
        let (low, high) = (entry.dword10.get(), entry.dword11.get());
        Connect {
            record_format: low as u16,
            queue_id: (low >> 16) as u16,
            queue_size: high as u16,
            attributes: (high >> 16) as u8,
            keep_alive_ms: entry.dword12.get(),
        }
    }

    /// Entries of the queue: SQSIZE and one.
    pub fn entries(&self) -> u32 {
        u32::from(self.queue_size) + 1
    }

    /// Whether completions say how far the controller has come in the submission queue.
    pub fn has_flow_control(&self) -> bool {
        self.attributes & CONNECT_NO_FLOW_CONTROL == 0
    }

    /// Writes the fields of the entry.
    pub fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = crate::nvme::opcode::FABRICS;
        entry.namespace_id.set(u32::from(crate::nvme::opcode::fabrics::CONNECT));
        entry.dword10.set(u32::from(self.record_format) | u32::from(self.queue_id) << 16);
        entry.dword11.set(u32::from(self.queue_size) | u32::from(self.attributes) << 16);
        entry.dword12.set(self.keep_alive_ms);
    }
}

/// A Connect with its data, read once for all who look at it on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// Fields of the command's entry.
    pub connect: Connect,
    /// HOSTID.
    pub host_id: [u8; 16],
    /// Which controller; [`CONTROLLER_ANY`] asks for a new one.
    pub controller_id: u16,
    /// The subsystem's name; `None` if it cannot be one.
    pub subsystem_nqn: Option<&'a str>,
    /// The host's name; `None` if it cannot be one, empty if there is none.
    pub host_nqn: Option<&'a str>,
}

impl<'a> ConnectRequest<'a> {
    /// Reads the data of a Connect; `None` if they are too few.
    pub fn new(connect: Connect, data: &'a [u8]) -> Option<ConnectRequest<'a>> {
        let (data, _) = ConnectData::ref_from_prefix(data).ok()?;
        Some(ConnectRequest {
            connect,
            host_id: data.host_id,
            controller_id: data.controller_id.get(),
            subsystem_nqn: nqn(&data.subsystem_nqn),
            host_nqn: host_nqn(&data.host_nqn),
        })
    }

    /// Reads a command; `None` if it is no Connect with its data.
    pub fn parse(entry: &SubmissionEntry, data: &'a [u8]) -> Option<ConnectRequest<'a>> {
        match FabricsCommand::parse(entry) {
            Ok(FabricsCommand::Connect(connect)) => ConnectRequest::new(connect, data),
            _ => None,
        }
    }
}

/// Why a text is no NVMe qualified name (Base 2.0, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// Names begin with a fixed word.
    #[error("its name does not begin with nqn.")]
    Prefix,
    /// Names fit a field of Connect.
    #[error("its name is longer than {NQN_BYTES_MAX} bytes")]
    TooLong,
}

/// Whether `text` can be an NVMe qualified name.
///
/// # Errors
/// Why it cannot.
pub fn check_nqn(text: &str) -> Result<(), NqnError> {
    if !text.starts_with("nqn.") {
        return Err(NqnError::Prefix);
    }
    if text.len() > NQN_BYTES_MAX {
        return Err(NqnError::TooLong);
    }
    Ok(())
}

/// The NQN in a 256-byte field: up to its first zero, at most 223 bytes of UTF-8.
pub fn nqn(field: &[u8; 256]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0)?;
    let text = std::str::from_utf8(&field[..end]).ok()?;
    check_nqn(text).is_ok().then_some(text)
}

/// The host's NQN in Connect's data, or nothing: a host need not have a name where nobody asks for
/// one. Linux's target and SPDK's look at it only to find it in a list of those who may connect
/// (nvmet_host_allowed in drivers/nvme/target/core.c, spdk_nvmf_subsystem_host_allowed in
/// lib/nvmf/subsystem.c), and spdk_nvme_perf has none unless it is told (app/spdk_nvme_perf/perf.c).
pub fn host_nqn(field: &[u8; 256]) -> Option<&str> {
    if field[0] == 0 { Some("") } else { nqn(field) }
}

/// An NQN as a 256-byte field; `None` if it is too long.
pub fn nqn_field(nqn: &str) -> Option<[u8; 256]> {
    let mut field = [0; 256];
    if nqn.len() > NQN_BYTES_MAX {
        return None;
    }
    field[..nqn.len()].copy_from_slice(nqn.as_bytes());
    Some(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    #[test]
    fn names_are_read_and_refused() {
        let field = nqn_field(DISCOVERY_NQN).unwrap();
        assert_eq!(nqn(&field), Some(DISCOVERY_NQN));
        assert_eq!(nqn(&[b'n'; 256]), None);
        assert_eq!(nqn(&[0; 256]), None);
        assert_eq!(host_nqn(&[0; 256]), Some(""));
        assert_eq!(host_nqn(&[b'n'; 256]), None);
        assert_eq!(host_nqn(&field), Some(DISCOVERY_NQN));
        assert_eq!(nqn(&nqn_field("iqn.x").unwrap()), None);
        assert!(nqn_field(&"n".repeat(224)).is_none());
    }

    #[test]
    fn connect_survives_its_entry() {
        let connect = Connect {
            record_format: 0,
            queue_id: 7,
            queue_size: 127,
            attributes: CONNECT_NO_FLOW_CONTROL,
            keep_alive_ms: 5000,
        };
        let mut entry = SubmissionEntry::default();
        connect.put(&mut entry);
        assert_eq!(Connect::parse(&entry), connect);
        assert_eq!((connect.entries(), connect.has_flow_control()), (128, false));
    }

    #[test]
    fn a_connect_is_read_with_its_data() {
        let connect = Connect {
            record_format: 0,
            queue_id: 0,
            queue_size: 31,
            attributes: 0,
            keep_alive_ms: 0,
        };
        let mut entry = SubmissionEntry::default();
        connect.put(&mut entry);
        let mut data = ConnectData { host_id: [3; 16], ..Default::default() };
        data.controller_id.set(CONTROLLER_ANY);
        data.subsystem_nqn = nqn_field(DISCOVERY_NQN).unwrap();
        data.host_nqn = [b'x'; 256];
        let request = ConnectRequest::parse(&entry, data.as_bytes()).unwrap();
        assert_eq!((request.connect, request.host_id), (connect, [3; 16]));
        assert_eq!(request.controller_id, CONTROLLER_ANY);
        assert_eq!(request.subsystem_nqn, Some(DISCOVERY_NQN));
        assert_eq!(request.host_nqn, None, "no name ends");
        assert_eq!(ConnectRequest::parse(&entry, &data.as_bytes()[1..]), None, "too few bytes");
        entry.opcode = 1;
        assert_eq!(ConnectRequest::parse(&entry, data.as_bytes()), None, "another command");
    }
}
