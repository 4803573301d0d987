//! What comes from the target, and whether it may.

use super::{
    DATA_BYTES_MAX, Event, Grant, Host, HostError, Movement, Payload, Result, SLOT_MASK, Slot,
    State, Transfer,
};
use crate::nvme::CompletionEntry;
use crate::tcp::digest::Digests;
use crate::tcp::pdu::{self, CommonHeader, Data, FatalError, Kind, ReadyToTransfer};
use crate::tcp::stream::{Fatal, Initialization, Pdu, alignment_bytes};
use zerocopy::IntoBytes;
use zerocopy::byteorder::little_endian::{U16, U32, U64};

/// The least that a controller may take in a data PDU (TCP Transport 1.0, section 3.6.2.3).
const DATA_BYTES_MIN: u32 = 4_096;

/// The data PDU that is being received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    command_id: u16,
    offset: u32,
    /// The command succeeded with these data.
    success: bool,
}

/// A mistake of the target's: its kind, where the bad field is, and what it is.
type Mistake = (FatalError, u32, &'static str);

fn bad_field<T>(offset: u32, what: &'static str) -> std::result::Result<T, Mistake> {
    Err((FatalError::InvalidHeaderField, offset, what))
}

fn out_of_range<T>(what: &'static str) -> std::result::Result<T, Mistake> {
    Err((FatalError::DataOutOfRange, 0, what))
}

fn out_of_order<T>(what: &'static str) -> std::result::Result<T, Mistake> {
    Err((FatalError::PduSequenceError, 0, what))
}

impl Host {
    /// Goes on until something happens or the bytes end.
    #[inline]
    pub(super) fn receive(&mut self, payload: &mut impl Payload) -> Result<Option<Event>> {
        loop {
            if let Some(incoming) = self.incoming {
                let Some(event) = self.place(incoming, payload) else { return Ok(None) };
                if event.is_some() {
                    return Ok(event);
                }
            }
            match self.inbound.poll() {
                Ok(Some(pdu)) => {
                    let event = self.arrived(&pdu)?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                Ok(None) => return Ok(None),
                Err(fatal) => {
                    let what = match fatal.error {
                        FatalError::HeaderDigestError => "a header does not fit its digest",
                        FatalError::PduSequenceError => "a PDU came at the wrong moment",
                        _ => "a PDU's header is not valid",
                    };
                    return Err(self.violation(&fatal, what));
                }
            }
        }
    }

    /// Hands over data that have come. `None`: more must come. The inner value is the event
    /// that the end of the data is, if it is one.
    #[inline]
    fn place(
        &mut self,
        mut incoming: Incoming,
        payload: &mut impl Payload,
    ) -> Option<Option<Event>> {
        let index = incoming.command_id & SLOT_MASK;
        let data = self.inbound.data();
        if !data.is_empty() {
            let bytes = data.len();
            payload.place(index, incoming.offset, data);
            self.inbound.took(bytes);
            incoming.offset += bytes as u32;
            self.incoming = Some(incoming);
        }
        let intact = self.inbound.end_data()?;
        self.incoming = None;
        self.slots[usize::from(index)].digest_failed |= !intact;
        let succeeded = || CompletionEntry {
            result: U64::new(0),
            command_id: U16::new(incoming.command_id),
            ..CompletionEntry::default()
        };
        Some(incoming.success.then(|| self.complete(succeeded())))
    }

    #[inline]
    fn arrived(&mut self, pdu: &Pdu) -> Result<Option<Event>> {
        let done = match pdu {
            Pdu::Data(header) => match self.data_begins(header) {
                Ok(()) => return Ok(None),
                Err(mistake) => (mistake, header.as_bytes().to_vec()),
            },
            Pdu::CapsuleResponse(entry) => match self.answered(entry) {
                Ok(event) => return Ok(Some(event)),
                Err(mistake) => (mistake, response_header(entry)),
            },
            Pdu::ReadyToTransfer(header) => match self.asked_for_data(header) {
                Ok(()) => return Ok(None),
                Err(mistake) => (mistake, header.as_bytes().to_vec()),
            },
            Pdu::Initialize(fields) => {
                let used = Digests::from_byte(fields.digests);
                let wanted = self.config.digests;
                if fields.version != 0 {
                    return Err(HostError::Unsupported("NVMe/TCP PDU format version 0"));
                }
                if wanted.header && !used.header {
                    return Err(HostError::Unsupported("header digests"));
                }
                if wanted.data && !used.data {
                    return Err(HostError::Unsupported("data digests"));
                }
                match self.initialized(fields) {
                    Ok(()) => return Ok(Some(Event::Ready)),
                    Err(mistake) => (mistake, Vec::new()),
                }
            }
            Pdu::Terminate(status, information) => {
                let (status, information) = (*status, *information);
                return Err(HostError::Terminated { status, information });
            }
            // The stream lets only a controller's PDUs through.
            Pdu::CapsuleCommand(..) => {
                ((FatalError::PduSequenceError, 0, "a target sent a command"), Vec::new())
            }
        };
        let ((error, information, what), header) = done;
        Err(self.violation(&Fatal { error, information, header }, what))
    }

    fn initialized(&mut self, fields: &Initialization) -> std::result::Result<(), Mistake> {
        let digests = self.config.digests;
        if Digests::from_byte(fields.digests) != digests {
            return bad_field(11, "it uses digests that were not asked for");
        }
        let Some(alignment) = alignment_bytes(fields.alignment) else {
            return bad_field(10, "it wants data aligned to more than 128 bytes");
        };
        if fields.limit < DATA_BYTES_MIN || !fields.limit.is_multiple_of(4) {
            return bad_field(
                12,
                "it takes data PDUs of less than 4,096 bytes, or parts of dwords",
            );
        }
        self.outbound.establish(digests, alignment);
        self.inbound.establish(digests, (self.config.alignment + 1) * 4);
        self.data_bytes_max = fields.limit.min(DATA_BYTES_MAX);
        self.state = State::Ready;
        Ok(())
    }

    /// The slot of an outstanding command.
    #[inline]
    fn slot(&mut self, command_id: U16) -> std::result::Result<&mut Slot, Mistake> {
        let index = command_id.get() & SLOT_MASK;
        self.slots
            .get_mut(usize::from(index))
            .filter(|slot| slot.outstanding && index | slot.generation == command_id.get())
            .ok_or((FatalError::PduSequenceError, 0, "it names a command that is not outstanding"))
    }

    #[inline]
    fn data_begins(&mut self, header: &Data) -> std::result::Result<(), Mistake> {
        let flags = header.common.flags;
        let (offset, bytes) = (header.offset.get(), header.bytes.get());
        let last = flags & pdu::FLAG_DATA_LAST != 0;
        let success = flags & pdu::FLAG_DATA_SUCCESS != 0;
        if success && !last {
            return bad_field(1, "a command succeeded before its last data");
        }
        let slot = self.slot(header.command_id)?;
        let Movement::ToHost(expected) = slot.movement else {
            return out_of_order("it sent data for a command that reads none");
        };
        if slot.last {
            return out_of_order("it sent data after a command's last data");
        }
        if offset != slot.moved {
            return out_of_range("it left out data, or sent data again");
        }
        if bytes > expected - slot.moved {
            return out_of_range("it sent more data than a command reads");
        }
        slot.moved += bytes;
        slot.last = last;
        self.data_bytes = bytes;
        let command_id = header.command_id.get();
        self.incoming = Some(Incoming { command_id, offset, success });
        Ok(())
    }

    #[inline]
    fn answered(&mut self, entry: &CompletionEntry) -> std::result::Result<Event, Mistake> {
        let slot = self.slot(entry.command_id)?;
        if let Movement::FromHost(bytes) = slot.movement
            && (slot.moved < bytes || slot.requests > 0)
            && entry.status().is_success()
        {
            return out_of_order("a write succeeded without its data");
        }
        Ok(self.complete(*entry))
    }

    fn asked_for_data(&mut self, header: &ReadyToTransfer) -> std::result::Result<(), Mistake> {
        let (offset, bytes) = (header.offset.get(), header.bytes.get());
        let most = self.config.ready_to_transfer_max;
        let slot = self.slot(header.command_id)?;
        let Movement::FromHost(expected) = slot.movement else {
            return out_of_order("it asked for data of a command that writes none");
        };
        if slot.requests >= most {
            let what = "it asked for more transfers of a command at once than agreed upon";
            return Err((FatalError::LimitExceeded, 0, what));
        }
        if offset != slot.moved {
            return out_of_range("it asked for data out of order");
        }
        if bytes == 0 || bytes > expected - slot.moved {
            return out_of_range("it asked for more data than a command writes, or for none");
        }
        slot.moved += bytes;
        slot.requests += 1;
        let (command_id, transfer_tag) = (header.command_id.get(), header.transfer_tag.get());
        self.grants.push_back(Grant { command_id, transfer_tag, offset, bytes });
        if let Some(transfers) = &mut self.transfers {
            transfers.push_back(Transfer::Asked { slot: command_id & SLOT_MASK });
        }
        Ok(())
    }
}

/// The header of a completion, for a termination request.
fn response_header(entry: &CompletionEntry) -> Vec<u8> {
    let bytes = Kind::CapsuleResponse.header_bytes();
    let common = CommonHeader {
        kind: Kind::CapsuleResponse as u8,
        header_bytes: bytes as u8,
        pdu_bytes: U32::new(bytes as u32),
        ..CommonHeader::default()
    };
    pdu::CapsuleResponse { common, entry: *entry }.as_bytes().to_vec()
}
