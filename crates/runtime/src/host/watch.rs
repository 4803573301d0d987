//! When commands leave a connection and their answers come, for a profile.

use super::HostError;
use super::connection::{Connection, Stream};
use crate::clock::Clock;
use crate::profile::Flights;
use crate::stamped;
use mynah_stamp::{Span, Time};
use mynah_wire::tcp::host::{Host, Payload};
use std::cell::Cell;
use std::io;

/// Bytes are never seen later than this after they came.
const STAMP_AGE_MAX: Span = Span::from_secs(1);

/// What watches a connection.
pub(super) struct Watch {
    clock: Clock,
    control: Vec<u8>,
    /// Whether the kernel notes when bytes come.
    stamped: bool,
    /// When the last look had ended; the socket was found empty later than this; when a wait for it ended.
    looked: Time,
    empty: Time,
    woken: Cell<Time>,
    pub(super) flights: Flights,
}

impl Watch {
    /// Of a connection without commands under way.
    pub(super) fn new(clock: Clock, stream: &dyn Stream, machine: &mut Host) -> Watch {
        machine.tell_transfers();
        let stamped = stream.is_bare() && stamped::begin(&stream.fd());
        let flights = Flights::new(machine.slots());
        let woken = Cell::new(Time::ZERO);
        let (looked, empty) = (Time::ZERO, Time::ZERO);
        let control = stamped::control_buffer();
        Watch { clock, control, stamped, looked, empty, woken, flights }
    }

    /// A wait for something to come has ended.
    pub(super) fn wakes(&self) {
        self.woken.set(self.clock.wall());
    }

    /// Receives into the machine, and notes when it came: how many bytes.
    fn receive(&mut self, stream: &mut dyn Stream, machine: &mut Host) -> io::Result<usize> {
        let buffer = machine.receive_buffer();
        let received = match self.stamped {
            true => {
                stamped::receive(stream.fd(), buffer, &mut self.control).map_err(io::Error::from)
            }
            false => stream.read(buffer).map(|bytes| (bytes, None)),
        };
        if received.is_err() {
            // Between the look and this moment something may have come.
            self.empty = self.looked;
            self.looked = self.clock.wall();
        }
        let (bytes, stamp) = received?;
        let (seen, age) = match stamp.map(|stamp| self.clock.since(stamp)) {
            Some((now, age)) if age < STAMP_AGE_MAX => (now.wall, age),
            _ => (self.clock.wall(), Span::ZERO),
        };
        self.looked = seen;
        let came = Time::from_ps(seen.as_ps().saturating_sub(age.as_ps()));
        self.flights.received(readable(came, self.empty, self.woken.get()).min(seen));
        Ok(bytes)
    }
}

/// When bytes could be read that came with this stamp, on a socket that was found empty at one time and
/// whose last wait ended at another. A segment that came before one that was lost keeps its stamp, and
/// lies in the kernel until that has come: the network's doing, not that of the host.
fn readable(came: Time, empty: Time, woken: Time) -> Time {
    if came < empty { empty.max(woken) } else { came }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_for_a_lost_segment_came_when_it_could_be_read() {
        let at = Time::from_ns;
        // It came after the last look, while the host looked or slept.
        assert_eq!(readable(at(12), at(10), at(3)), at(12));
        assert_eq!(readable(at(12), at(10), at(15)), at(12));
        // It is older than a look that found nothing: it could be read after that, or when that woke.
        assert_eq!(readable(at(5), at(10), at(3)), at(10));
        assert_eq!(readable(at(5), at(10), at(15)), at(15));
    }
}
