//! The host's end of an NVMe/TCP connection, as a machine without I/O.
//!
//! Bytes from the socket go into [`Host::receive_buffer`], bytes for the socket come out of
//! [`Host::output`]. [`Host::poll`] says what happened: the connection is initialised, a
//! command has completed. Who uses the machine lends it the commands' data as a [`Payload`]:
//! data from the controller is handed over straight from the receive buffer, as it arrives,
//! and data for the controller is written straight into the send buffer. Nothing is
//! allocated for a command.
//!
//! What the target sends is not trusted: identifiers, offsets, lengths, flags and order are
//! checked, and what does not fit ends the connection with a termination request. A target
//! cannot make the machine hold more than its configuration says.
//!
//! Data in either direction is expected and sent in order within a command, as the
//! specification has it for the PDUs of one transfer, and as the Linux and SPDK targets do
//! for a command's R2Ts too.

mod receive;
#[cfg(test)]
mod tests;

use super::digest::Digests;
use super::pdu::FatalError;
use super::stream::{End, Fatal, Inbound, Initialization, Limits, Outbound};
use crate::nvme::entry::{DataPointer, SGL_IN_CAPSULE, SGL_TRANSPORT};
use crate::nvme::{CompletionEntry, Status, SubmissionEntry, opcode};
use receive::Incoming;
use std::collections::VecDeque;
use zerocopy::byteorder::little_endian::{U16, U32, U64};

/// The largest number of commands that one connection can have outstanding. An identifier
/// has twelve bits of slot and four bits that change each time the slot is used, so that a
/// completion that comes twice is found out. 0xffff is not an identifier.
pub const COMMANDS_MAX: u16 = 4_095;

/// In-capsule data that every controller takes with Fabrics and admin commands (TCP
/// Transport 1.0, section 3.3.2.1).
pub const ADMIN_IN_CAPSULE_BYTES: u32 = 8_192;

/// More than this is not put into a capsule, whatever the controller would take.
const IN_CAPSULE_BYTES_MAX: u32 = 16 << 10;
/// A data PDU is no longer than this, whatever the controller would take.
const DATA_BYTES_MAX: u32 = 128 << 10;
/// While more than this is unsent, no command and no further data is put into the buffer.
const UNSENT_BYTES_MAX: usize = 1 << 20;

const SLOT_BITS: u32 = 12;
const SLOT_MASK: u16 = (1 << SLOT_BITS) - 1;

/// What the host wants of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// The digests that the connection is to have.
    pub digests: Digests,
    /// R2Ts that a command may have outstanding; at least 1.
    pub ready_to_transfer_max: u32,
    /// Data from the controller begins at multiples of this many dwords less one (HPDA); at
    /// most 31.
    pub alignment: u8,
    /// Commands that may be outstanding, 1 to [`COMMANDS_MAX`].
    pub commands: u16,
}

impl Default for HostConfig {
    fn default() -> HostConfig {
        HostConfig {
            digests: Digests::default(),
            ready_to_transfer_max: 1,
            alignment: 0,
            commands: 127,
        }
    }
}

/// The commands' data, lent to the machine.
pub trait Payload {
    /// Writes the bytes that the command in `slot` has from `offset` on.
    fn fill(&mut self, slot: u16, offset: u32, into: &mut [u8]);
    /// Takes bytes from the controller that belong at `offset` of the command in `slot`.
    fn place(&mut self, slot: u16, offset: u32, from: &[u8]);
}

/// Direction and length of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    None,
    /// So many bytes to the controller.
    FromHost(u32),
    /// At most so many bytes to the host.
    ToHost(u32),
}

/// What [`Host::poll`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is initialised; commands may be submitted.
    Ready,
    Completed {
        /// The command's slot, which is free again.
        slot: u16,
        /// A command whose data did not fit its digest has the status
        /// [`Status::TRANSIENT_TRANSPORT_ERROR`].
        entry: CompletionEntry,
        /// Bytes of data that came from the controller.
        received: u32,
    },
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The target broke the rules. A termination request is in the output.
    #[error("the target broke the NVMe/TCP protocol: {what}")]
    Violation {
        /// The kind of mistake, as it is reported to the target.
        error: FatalError,
        /// Where the bad field is, or what the bad value was.
        information: u32,
        /// What was wrong.
        what: &'static str,
    },
    /// The target cannot or will not do what was asked for when the connection began.
    #[error("the target does not support {0}")]
    Unsupported(&'static str),
    /// The target ended the connection.
    #[error("the target ended the connection with a termination request: {}", fatal(*status))]
    Terminated {
        /// [`FatalError`], or something else.
        status: u16,
        /// Where the bad field is, or what the bad value was.
        information: u32,
    },
}

/// A fatal error's status in words.
fn fatal(status: u16) -> &'static str {
    match status {
        1 => "invalid PDU header field",
        2 => "PDU sequence error",
        3 => "header digest error",
        4 => "data transfer out of range",
        5 => "a limit was exceeded",
        6 => "unsupported parameter",
        _ => "a reason that the specification does not know",
    }
}

pub(super) type Result<T> = std::result::Result<T, HostError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Initializing,
    Ready,
    Failed(HostError),
}

/// State of the command in a slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Changes each time the slot is used; the upper bits of the identifier.
    generation: u16,
    outstanding: bool,
    movement: Movement,
    /// Bytes that the controller has sent, asked for, or got in the capsule.
    moved: u32,
    /// R2Ts whose data is not all in the send buffer yet.
    requests: u32,
    /// The last data PDU was seen.
    last: bool,
    digest_failed: bool,
}

/// Data that the controller has asked for.
#[derive(Clone, Copy, Debug)]
struct Grant {
    command_id: u16,
    transfer_tag: u16,
    offset: u32,
    bytes: u32,
}

/// What has happened to a command's data for the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The controller has sent an R2T.
    Asked { slot: u16 },
    /// The data for an R2T are in the output, as far as `end`.
    Written {
        slot: u16,
        /// Offset in the output behind the last byte of the data.
        end: usize,
    },
}

/// The host's end of a connection.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    state: State,
    inbound: Inbound,
    outbound: Outbound,
    /// The data PDU that is being received.
    incoming: Option<Incoming>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Data asked for and not yet in the send buffer, in the order of the requests.
    grants: VecDeque<Grant>,
    in_capsule_bytes: u32,
    /// Data bytes of the last PDU that had any.
    data_bytes: u32,
    /// Most data bytes in a PDU to the controller.
    data_bytes_max: u32,
    /// Commands that were submitted.
    commands: u32,
    /// What has happened to data, in order, if anybody wants to know.
    transfers: Option<VecDeque<Transfer>>,
}

impl Host {
    /// A new connection; the initialization request is in the output.
    ///
    /// # Panics
    /// If the configuration has values that are not valid.
    pub fn new(config: HostConfig) -> Host {
        assert!((1..=COMMANDS_MAX).contains(&config.commands), "1 to {COMMANDS_MAX} commands");
        assert!(config.alignment <= 31 && config.ready_to_transfer_max >= 1);
        let empty = Slot {
            generation: 0,
            outstanding: false,
            movement: Movement::None,
            moved: 0,
            requests: 0,
            last: false,
            digest_failed: false,
        };
        // A command's own length bounds its data.
        let limits = Limits { capsule_data_bytes: 0, data_bytes: u32::MAX };
        let mut outbound = Outbound::new(End::Host);
        outbound.initialize(Initialization {
            version: 0,
            alignment: config.alignment,
            digests: config.digests.to_byte(),
            limit: config.ready_to_transfer_max - 1,
        });
        Host {
            config,
            state: State::Initializing,
            inbound: Inbound::new(End::Host, limits),
            outbound,
            incoming: None,
            slots: vec![empty; usize::from(config.commands)],
            free: (0..config.commands).rev().collect(),
            grants: VecDeque::new(),
            in_capsule_bytes: 0,
            data_bytes: 0,
            data_bytes_max: 0,
            commands: 0,
            transfers: None,
        }
    }

    /// How much data a capsule of this queue may carry beside Fabrics commands: 8,192 bytes
    /// on the admin queue, what Identify Controller says (IOCCSZ) on others.
    pub fn set_in_capsule_bytes(&mut self, bytes: u32) {
        self.in_capsule_bytes = bytes.min(IN_CAPSULE_BYTES_MAX);
    }

    /// Where the next received bytes go; never empty.
    pub fn receive_buffer(&mut self) -> &mut [u8] {
        self.inbound.space()
    }

    /// `bytes` were put into the receive buffer; poll until there is nothing more.
    pub fn received(&mut self, bytes: usize) {
        self.inbound.received(bytes);
    }

    /// Whether more is on its way: a part of a PDU has come, while data PDUs have at least so many
    /// bytes.
    #[inline]
    pub fn is_amid_data(&self, bytes_min: u32) -> bool {
        self.data_bytes >= bytes_min && self.inbound.is_amid_pdu()
    }

    /// What happened next, if anything did.
    ///
    /// # Errors
    /// If the connection cannot go on. The output may have a termination request, which the
    /// target should get before the socket is closed.
    #[inline]
    pub fn poll(&mut self, payload: &mut impl Payload) -> Result<Option<Event>> {
        if let State::Failed(error) = self.state {
            return Err(error);
        }
        self.receive(payload).inspect_err(|&error| {
            self.state = State::Failed(error);
            self.grants.clear();
        })
    }

    /// Bytes for the socket, data that the controller asked for included.
    pub fn output(&mut self, payload: &mut impl Payload) -> &[u8] {
        if !self.grants.is_empty() {
            self.send_granted(payload);
        }
        self.outbound.bytes()
    }

    /// The socket took `bytes` of the output.
    pub fn sent(&mut self, bytes: usize) {
        self.outbound.sent(bytes);
    }

    /// Whether [`Host::submit`] would take a command.
    #[inline]
    pub fn can_submit(&self) -> bool {
        self.state == State::Ready
            && !self.free.is_empty()
            && self.outbound.len() < UNSENT_BYTES_MAX
    }

    /// How many commands were submitted from the start, modulo 2^32.
    #[inline]
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// The identifier of the command in a slot.
    #[inline]
    pub fn command_id(&self, slot: u16) -> u16 {
        self.slots.get(usize::from(slot)).map_or(slot, |it| slot | it.generation)
    }

    /// Bytes that are to be sent, data that were asked for not included.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.outbound.len()
    }

    /// Makes [`Host::next_transfer`] report transfers. They then have to be taken after every
    /// [`Host::poll`] and [`Host::output`].
    pub fn tell_transfers(&mut self) {
        self.transfers.get_or_insert_default();
    }

    /// What has happened to a command's data next.
    #[inline]
    pub fn next_transfer(&mut self) -> Option<Transfer> {
        self.transfers.as_mut()?.pop_front()
    }

    /// How many commands are outstanding.
    pub fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many commands can be outstanding.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The slots whose commands are outstanding.
    pub fn outstanding_slots(&self) -> impl Iterator<Item = u16> + '_ {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.outstanding).map(|(index, _)| index)
    }

    /// The slot that the next command gets.
    #[inline]
    pub fn next_slot(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// Submits a command; its identifier and data pointer are the machine's to set. Data that
    /// fits goes with it. Returns the command's slot, or `None` if it cannot be submitted now.
    #[inline]
    pub fn submit(
        &mut self,
        entry: &SubmissionEntry,
        movement: Movement,
        payload: &mut impl Payload,
    ) -> Option<u16> {
        if !self.can_submit() {
            return None;
        }
        let index = self.free.pop()?;
        self.commands = self.commands.wrapping_add(1);
        let limit = match entry.opcode {
            opcode::FABRICS => ADMIN_IN_CAPSULE_BYTES,
            _ => self.in_capsule_bytes,
        };
        let (length, in_capsule) = match movement {
            Movement::None => (0, 0),
            Movement::ToHost(bytes) => (bytes, 0),
            Movement::FromHost(bytes) => (bytes, if bytes <= limit { bytes } else { 0 }),
        };
        let slot = &mut self.slots[usize::from(index)];
        *slot = Slot {
            generation: slot.generation.wrapping_add(1 << SLOT_BITS),
            outstanding: true,
            movement,
            moved: in_capsule,
            requests: 0,
            last: false,
            digest_failed: false,
        };
        let mut entry = *entry;
        // SGLs describe the data (PSDT), also where there is none.
        entry.flags = entry.flags & 0x3f | 0x40;
        entry.command_id = U16::new(index | slot.generation);
        entry.data = DataPointer {
            address: U64::new(0),
            length: U32::new(length),
            reserved: [0; 3],
            kind: if in_capsule > 0 { SGL_IN_CAPSULE } else { SGL_TRANSPORT },
        };
        self.outbound.command(&entry, in_capsule, |into| payload.fill(index, 0, into));
        Some(index)
    }

    /// Moves data that was asked for into the send buffer, while that has room.
    fn send_granted(&mut self, payload: &mut impl Payload) {
        while self.outbound.len() < UNSENT_BYTES_MAX {
            let Some(grant) = self.grants.front_mut() else { return };
            let Grant { command_id, transfer_tag, offset, .. } = *grant;
            let index = command_id & SLOT_MASK;
            let slot = &mut self.slots[usize::from(index)];
            // The command may have failed before its data was sent.
            if !slot.outstanding || index | slot.generation != command_id {
                self.grants.pop_front();
                continue;
            }
            let bytes = grant.bytes.min(self.data_bytes_max);
            grant.offset += bytes;
            grant.bytes -= bytes;
            let mut flags = 0;
            let is_last = grant.bytes == 0;
            if is_last {
                flags = super::pdu::FLAG_DATA_LAST;
                slot.requests -= 1;
                self.grants.pop_front();
            }
            self.outbound.data(command_id, transfer_tag, offset, bytes, flags, |into| {
                payload.fill(index, offset, into);
            });
            if is_last && let Some(transfers) = &mut self.transfers {
                transfers.push_back(Transfer::Written { slot: index, end: self.outbound.len() });
            }
        }
    }

    /// Ends the connection because the target made a mistake.
    fn violation(&mut self, fatal: &Fatal, what: &'static str) -> HostError {
        self.outbound.terminate(fatal);
        HostError::Violation { error: fatal.error, information: fatal.information, what }
    }

    /// Frees the slot of a command that is outstanding.
    fn complete(&mut self, mut entry: CompletionEntry) -> Event {
        let index = entry.command_id.get() & SLOT_MASK;
        let slot = &mut self.slots[usize::from(index)];
        slot.outstanding = false;
        self.free.push(index);
        if slot.digest_failed {
            let status = Status::TRANSIENT_TRANSPORT_ERROR.to_bits() << 1;
            entry.status_and_phase = U16::new(status);
        }
        let received = match slot.movement {
            Movement::ToHost(_) => slot.moved,
            _ => 0,
        };
        Event::Completed { slot: index, entry, received }
    }
}
