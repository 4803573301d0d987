//! When commands leave a connection and their answers come, for a profile.

use super::HostError;
use super::connection::{Connection, Stream};
use crate::clock::Clock;
use crate::profile::Flights;
use crate::stamped;
use mynah_stamp::{Span, Time};
use mynah_wire::tcp::host::{Host, Payload};
use std::io;

/// Bytes are never seen later than this after they came.
const STAMP_AGE_MAX: Span = Span::from_secs(1);

/// What watches a connection.
pub(super) struct Watch {
    clock: Clock,
    control: Vec<u8>,
    /// Whether the kernel notes when bytes come.
    stamped: bool,
    pub(super) flights: Flights,
}

impl Watch {
    /// Of a connection without commands under way.
    pub(super) fn new(clock: Clock, stream: &dyn Stream, machine: &mut Host) -> Watch {
        machine.tell_transfers();
        let stamped = stream.is_bare() && stamped::begin(&stream.fd());
        let flights = Flights::new(machine.slots());
        Watch { clock, control: stamped::control_buffer(), stamped, flights }
    }

    /// Receives into the machine, and notes when it came: how many bytes.
    fn receive(&mut self, stream: &mut dyn Stream, machine: &mut Host) -> io::Result<usize> {
        let buffer = machine.receive_buffer();
        let (bytes, stamp) = match self.stamped {
            true => stamped::receive(stream.fd(), buffer, &mut self.control)?,
            false => (stream.read(buffer)?, None),
        };
        let (seen, age) = match stamp.map(|stamp| self.clock.since(stamp)) {
            Some((now, age)) if age < STAMP_AGE_MAX => (now.wall, age),
            _ => (self.clock.wall(), Span::ZERO),
        };
        self.flights.received(Time::from_ps(seen.as_ps().saturating_sub(age.as_ps())));
        Ok(bytes)
    }
}

impl Connection {
    /// Begins to note when commands leave and their answers come. None is under way.
    pub(super) fn watch(&mut self, clock: Clock) {
        self.watch = Some(Box::new(Watch::new(clock, &*self.stream, &mut self.machine)));
    }

    /// As [`Connection::send`], noting what leaves.
    #[inline(never)]
    pub(super) fn send_watched(&mut self, payload: &mut impl Payload) -> Result<(), HostError> {
        self.blocked = false;
        loop {
            let Connection { machine, watch: Some(watch), stream, .. } = self else {
                return Ok(());
            };
            // Data that were asked for are put behind what is there.
            if machine.output(payload).is_empty() {
                return Ok(());
            }
            watch.flights.take_transfers(machine);
            let began = watch.clock.wall();
            match stream.write(machine.output(payload)) {
                Ok(0) => return Err(HostError::Closed),
                Ok(bytes) => {
                    let ended = watch.clock.wall();
                    machine.sent(bytes);
                    watch.flights.sent(bytes, began, ended);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(HostError::Lost(error)),
            }
        }
    }

    /// As [`Connection::receive`], noting when it came.
    #[inline(never)]
    pub(super) fn receive_watched(&mut self) -> Result<bool, HostError> {
        let Connection { machine, watch: Some(watch), stream, .. } = self else {
            return Ok(false);
        };
        match watch.receive(&mut **stream, machine) {
            Ok(0) => Err(HostError::Closed),
            Ok(bytes) => {
                machine.received(bytes);
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(HostError::Lost(error)),
            },
        }
    }
}
