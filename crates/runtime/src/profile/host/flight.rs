//! When a host's commands leave it, when they are asked for data, and when their answers come.
//!
//! A command leaves when the send call begins that takes its last byte: on one machine the target
//! has the bytes before that call returns. It has no clock and no socket: who has them says what
//! time it is.

use mynah_stamp::{Span, Time};
use mynah_wire::nvme::SubmissionEntry;
use mynah_wire::tcp::host::{Host, Movement, Transfer};
use std::collections::VecDeque;

/// What is noted of a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    pub(super) command_id: u16,
    pub(super) namespace: u16,
    pub(super) opcode: u8,
    pub(super) outstanding: u16,
    pub(super) nth: u32,
    pub(super) bytes: u32,
    pub(super) block: u64,
    /// Bytes that were in the output before it.
    pub(super) ahead: u32,
    /// When all of it has left the host.
    pub(super) left: Option<Time>,
    /// Up to when its stages are known.
    pub(super) at: Time,
    /// Waiting to be asked for data; the host's turn; waiting to be asked for more.
    pub(super) wait: Span,
    pub(super) turn: Span,
    pub(super) further: Span,
    /// How often it was asked, and how often of these it has yet to send all.
    pub(super) rounds: u32,
    pending: u32,
    /// How long the send calls took that had the last bytes of it and of its data.
    pub(super) call: Span,
}

/// Something in the output whose leaving is to be noted.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    /// Bytes of the connection up to its end.
    end: u64,
    slot: u16,
    command_id: u16,
    is_data: bool,
}

/// A queue's commands under way.
#[derive(Debug)]
pub struct Flights {
    /// Outstanding commands by slot.
    flights: Vec<Flight>,
    leaving: VecDeque<Leaving>,
    sent: u64,
    /// When bytes last came, and how many commands have ended with them.
    arrived: Time,
    batch: u16,
}

impl Flights {
    /// Of a queue with so many slots. A connection tells of transfers as well
    /// ([`Host::tell_transfers`]).
    pub fn new(slots: usize) -> Flights {
        Flights {
            flights: vec![Flight::default(); slots],
            leaving: VecDeque::new(),
            sent: 0,
            arrived: Time::ZERO,
            batch: 0,
        }
    }

    /// A command was put into the output of a connection, behind `ahead` bytes.
    #[inline]
    pub fn submitted(
        &mut self,
        slot: u16,
        entry: &SubmissionEntry,
        movement: Movement,
        machine: &Host,
        ahead: usize,
    ) {
        let command_id = machine.command_id(slot);
        let end = self.sent + machine.unsent() as u64;
        self.leaving.push_back(Leaving { end, slot, command_id, is_data: false });
        self.begin(
            slot,
            Flight {
                command_id,
                outstanding: machine.outstanding().min(u16::MAX.into()) as u16,
                nth: machine.commands().wrapping_sub(1),
                ahead: ahead.min(u32::MAX as usize) as u32,
                ..Flight::of(entry, movement)
            },
        );
    }

    /// A command was put into a queue in memory, as the `nth` of it.
    #[inline]
    pub fn queued(
        &mut self,
        slot: u16,
        entry: &SubmissionEntry,
        movement: Movement,
        nth: u32,
        outstanding: usize,
    ) {
        self.leaving.push_back(Leaving { end: 0, slot, command_id: slot, is_data: false });
        let outstanding = outstanding.min(u16::MAX.into()) as u16;
        let flight = Flight { command_id: slot, nth, outstanding, ..Flight::of(entry, movement) };
        self.begin(slot, flight);
    }

    #[inline]
    fn begin(&mut self, slot: u16, flight: Flight) {
        if let Some(place) = self.flights.get_mut(usize::from(slot)) {
            *place = flight;
        }
    }

    /// What has happened to data, in a machine that was told to tell: before more is sent or
    /// received.
    #[inline]
    pub fn take_transfers(&mut self, machine: &mut Host) {
        while let Some(transfer) = machine.next_transfer() {
            match transfer {
                Transfer::Asked { slot } => self.asked(slot),
                Transfer::Written { slot, end } => {
                    let command_id = machine.command_id(slot);
                    let end = self.sent + end as u64;
                    self.leaving.push_back(Leaving { end, slot, command_id, is_data: true });
                }
            }
        }
    }

    fn asked(&mut self, slot: u16) {
        let arrived = self.arrived;
        let Some(flight) = self.flights.get_mut(usize::from(slot)) else { return };
        let at = arrived.max(flight.at);
        let span = at.since(flight.at);
        match (flight.pending, flight.rounds) {
            (0, 0) => flight.wait += span,
            (0, _) => flight.further += span,
            // It is asked for more before it has sent what it was asked for first.
            _ => flight.turn += span,
        }
        flight.pending += 1;
        flight.rounds += 1;
        flight.at = at;
    }

    /// The connection took so many bytes of the output in a call that began and ended then.
    #[inline]
    pub fn sent(&mut self, bytes: usize, began: Time, ended: Time) {
        self.sent += bytes as u64;
        self.left(began, ended);
    }

    /// The queue in memory was told of what is in it.
    #[inline]
    pub fn rung(&mut self, began: Time) {
        self.left(began, began);
    }

    #[inline]
    fn left(&mut self, began: Time, ended: Time) {
        let sent = self.sent;
        while let Some(leaving) = self.leaving.pop_front_if(|leaving| leaving.end <= sent) {
            let Some(flight) = self.flights.get_mut(usize::from(leaving.slot)) else { continue };
            if flight.command_id != leaving.command_id {
                continue;
            }
            let at = began.max(flight.at);
            if leaving.is_data {
                flight.turn += at.since(flight.at);
                flight.pending = flight.pending.saturating_sub(1);
            } else {
                flight.left = Some(at);
            }
            flight.at = at;
            flight.call = ended.saturating_since(began);
        }
    }

    /// Bytes were received at this time.
    #[inline]
    pub fn received(&mut self, at: Time) {
        (self.arrived, self.batch) = (at, 0);
    }

    /// What was noted of the command in a slot that has ended; when the last byte of its answer came;
    /// and which of the answers it was that came at once.
    #[inline]
    pub fn ended(&mut self, slot: u16) -> Option<(&Flight, Time, u16)> {
        self.batch = self.batch.saturating_add(1);
        Some((self.flights.get(usize::from(slot))?, self.arrived, self.batch))
    }

    /// What was noted of a command that is under way.
    pub fn flight(&self, slot: u16) -> Option<&Flight> {
        self.flights.get(usize::from(slot))
    }
}

impl Flight {
    #[inline]
    fn of(entry: &SubmissionEntry, movement: Movement) -> Flight {
        let bytes = match movement {
            Movement::None => 0,
            Movement::ToHost(bytes) | Movement::FromHost(bytes) => bytes,
        };
        Flight {
            opcode: entry.opcode,
            namespace: entry.namespace_id.get() as u16,
            block: entry.start_lba(),
            bytes,
            ..Flight::default()
        }
    }
}
