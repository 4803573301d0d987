//! Commands one at a time: what is done on an admin queue, and to open an I/O queue.

use super::connection::Connection;
use super::{HostError, describe};
use mynah_wire::fabrics::{CONNECT_NO_FLOW_CONTROL, Connect, ConnectData, nqn_field};
use mynah_wire::nvme::command::{AdminCommand, Identify};
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry, feature, opcode};
use mynah_wire::tcp::host::{Event, Movement, Payload};
use std::time::Duration;
use zerocopy::IntoBytes;
use zerocopy::byteorder::little_endian::U16;

/// Data of one command, in both directions.
struct Buffer {
    out: Vec<u8>,
    back: Vec<u8>,
}

impl Payload for Buffer {
    fn fill(&mut self, _slot: u16, offset: u32, into: &mut [u8]) {
        let offset = offset as usize;
        into.copy_from_slice(&self.out[offset..offset + into.len()]);
    }

    fn place(&mut self, _slot: u16, offset: u32, from: &[u8]) {
        let offset = offset as usize;
        self.back[offset..offset + from.len()].copy_from_slice(from);
    }
}

/// What is asked of a controller.
pub(super) enum Data<'a> {
    None,
    Out(&'a [u8]),
    /// Data of this many bytes come from the controller.
    Back(usize),
}

/// Does one command and returns its result and its data. Nothing else may be outstanding.
///
/// # Errors
/// If it fails; `what` is what it is called in the message.
pub(super) fn command(
    connection: &mut Connection,
    entry: &SubmissionEntry,
    data: Data<'_>,
    what: &'static str,
    timeout: Duration,
) -> Result<(CompletionEntry, Vec<u8>), HostError> {
    let mut buffer = Buffer { out: Vec::new(), back: Vec::new() };
    let movement = match data {
        Data::None => Movement::None,
        Data::Out(bytes) => {
            buffer.out = bytes.to_vec();
            Movement::FromHost(bytes.len() as u32)
        }
        Data::Back(bytes) => {
            buffer.back = vec![0; bytes];
            Movement::ToHost(bytes as u32)
        }
    };
    if connection.machine.submit(entry, movement, &mut buffer).is_none() {
        return Err(HostError::Nonsense(format!("it takes no command, so not {what}")));
    }
    match connection.wait_event(&mut buffer, what, timeout)? {
        Event::Completed { entry, received, .. } => {
            if !entry.status().is_success() {
                return Err(HostError::Refused { what, status: entry.status() });
            }
            if (received as usize) < buffer.back.len() {
                let (got, wanted) = (received, buffer.back.len());
                return Err(HostError::Nonsense(format!(
                    "{what} succeeded with {got} of {wanted} bytes ({})",
                    describe(entry.status())
                )));
            }
            Ok((entry, buffer.back))
        }
        Event::Ready => Err(HostError::Nonsense("the connection was initialised twice".into())),
    }
}

pub(super) fn identify(what: &Identify, namespace: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry::default();
    entry.namespace_id.set(namespace);
    AdminCommand::Identify(*what).put(&mut entry);
    entry
}

/// Set Features that asks for so many I/O queues.
pub(super) fn number_of_queues(count: u16) -> SubmissionEntry {
    let mut entry = SubmissionEntry { opcode: opcode::admin::SET_FEATURES, ..Default::default() };
    entry.dword10.set(u32::from(feature::id::NUMBER_OF_QUEUES));
    let wanted = u32::from(count - 1);
    entry.dword11.set(wanted | wanted << 16);
    entry
}

/// Who connects to which subsystem.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) subsystem_nqn: String,
    pub(super) host_nqn: String,
    pub(super) host_id: [u8; 16],
}

/// Queue parameters of Connect.
pub(super) struct Queue {
    /// 0 is the admin queue.
    pub(super) id: u16,
    pub(super) entries: u16,
    /// [`mynah_wire::fabrics::CONTROLLER_ANY`] for a new controller.
    pub(super) controller_id: u16,
    pub(super) keep_alive_ms: u32,
}

/// Connects a queue: the controller's identifier, and whether it wants authentication.
pub(super) fn connect(
    connection: &mut Connection,
    identity: &Identity,
    queue: &Queue,
    timeout: Duration,
) -> Result<(u16, bool), HostError> {
    let field = |nqn: &str| {
        nqn_field(nqn).ok_or_else(|| HostError::Nonsense(format!("the name `{nqn}` is too long")))
    };
    let data = ConnectData {
        host_id: identity.host_id,
        controller_id: U16::new(queue.controller_id),
        reserved: [0; 238],
        subsystem_nqn: field(&identity.subsystem_nqn)?,
        host_nqn: field(&identity.host_nqn)?,
        reserved_end: [0; 256],
    };
    let mut entry = SubmissionEntry::default();
    let connect = Connect {
        record_format: 0,
        queue_id: queue.id,
        queue_size: queue.entries - 1,
        attributes: CONNECT_NO_FLOW_CONTROL,
        keep_alive_ms: queue.keep_alive_ms,
    };
    connect.put(&mut entry);
    let what = match queue.id {
        0 => super::CONNECTING,
        _ => "connecting an I/O queue",
    };
    let data = Data::Out(data.as_bytes());
    let (answer, _) = command(connection, &entry, data, what, timeout)?;
    // Controller identifier; AUTHREQ: ATR is bit 17 and ASCR bit 18 (Base 2.0, figure 549).
    let result = answer.result.get();
    Ok((result as u16, result >> 17 & 3 != 0))
}

/// The entry of a Fabrics command of this type.
pub(super) fn fabrics(kind: u8) -> SubmissionEntry {
    let mut entry = SubmissionEntry { opcode: opcode::FABRICS, ..SubmissionEntry::default() };
    entry.namespace_id.set(u32::from(kind));
    entry
}
