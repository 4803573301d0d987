//! What goes over the connections: receiving, sending, and the end of one.

use super::{DIRECT_MAX, Engine};
use crate::hub::{Arrival, Id, Reason};
use mynah_device::Now;
use mynah_stamp::{Span, Time};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

/// Commands of one connection in one turn.
const COMMANDS_A_TURN: u32 = 64;
/// Sends to one connection in one turn, and slices of one send (the system's limit).
const SENDS_A_TURN: u32 = 16;
const SLICES_A_SEND: usize = 1024;
/// A connection that is over gets so long to take the last bytes.
const LINGER: Span = Span::from_secs(1);

impl Engine {
    /// Puts a connection among those to look at.
    pub(super) fn queue(&mut self, id: Id) {
        if let Some(Some(socket)) = self.sockets.get_mut(id as usize)
            && !socket.queued
        {
            socket.queued = true;
            self.ready.push_back(id);
        }
    }

    /// Queues connections that waited for buffers and may go on.
    pub(super) fn queue_resumed(&mut self) {
        while let Some(id) = self.hub.next_resumed() {
            self.queue(id);
        }
    }

    /// Looks at every connection that has or may have something; whether one had.
    pub(super) fn receive(&mut self, look: Time) -> bool {
        let before = std::mem::replace(&mut self.last_look, look);
        let mut slept = std::mem::take(&mut self.slept);
        let mut worked = false;
        #[cfg(feature = "rdma")]
        {
            worked |= self.receive_rdma(before, slept);
        }
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else { break };
            let Some(Some(socket)) = self.sockets.get_mut(id as usize) else { continue };
            socket.queued = false;
            if self.draining.is_some() {
                continue;
            }
            if !self.hub.has_more(id) {
                let Some(buffer) = self.hub.receive_buffer(id) else {
                    if socket.closing.is_some() {
                        self.drain_closing(id);
                    }
                    continue;
                };
                let room = buffer.len();
                match socket.receive(buffer, &mut self.control_buffer) {
                    Ok((0, _)) => {
                        let now = self.clock.now();
                        self.close(now, id);
                        worked = true;
                        continue;
                    }
                    Ok((bytes, stamp)) => {
                        let (now, came) = match stamp.map(|stamp| self.clock.since(stamp)) {
                            Some((now, age)) => (now, socket.came(now.wall, age)),
                            None => (self.clock.now(), None),
                        };
                        let is_busy = self.busy.contains(&id);
                        let before = if is_busy { before } else { self.poll_before };
                        let arrival = match came {
                            Some(at) => {
                                let mut gap = at.saturating_since(before);
                                if std::mem::take(&mut slept) {
                                    self.pacing.woke(at, now.wall);
                                    gap = gap.min(self.pacing.wake());
                                }
                                Arrival::stamped(at, gap, now.wall)
                            }
                            // What came has woken the engine.
                            None if slept => Arrival::seen(now.wall, self.pacing.wake()),
                            None => Arrival::seen(now.wall, now.wall.saturating_since(before)),
                        };
                        // A short read of a stream has emptied it; an edge tells of more.
                        socket.readable = bytes == room;
                        if !socket.readable {
                            socket.empty = look;
                        }
                        socket.active = now.wall;
                        socket.shrunk = false;
                        if !is_busy && self.busy.len() <= DIRECT_MAX {
                            self.busy.push(id);
                        }
                        self.hub.received(id, bytes, arrival);
                    }
                    Err(Errno::WOULDBLOCK | Errno::INTR) => {
                        (socket.readable, socket.empty) = (false, look);
                        continue;
                    }
                    Err(_) => {
                        let now = self.clock.now();
                        self.close(now, id);
                        continue;
                    }
                }
            }
            worked = true;
            let more = self.hub.work(id, COMMANDS_A_TURN);
            let readable = self.sockets[id as usize].as_ref().is_some_and(|socket| socket.readable);
            if more || readable {
                self.queue(id);
            }
        }
        worked
    }

    /// Sends what there is, once for each connection; whether there was something.
    pub(super) fn send(&mut self) -> bool {
        let mut worked = false;
        #[cfg(feature = "rdma")]
        {
            worked |= self.send_rdma();
        }
        // Replies that waited for room may make a connection dirty again: next turn.
        let mut again = Vec::new();
        while let Some(id) = self.hub.next_dirty() {
            worked = true;
            if self.send_to(id) {
                again.push(id);
            }
        }
        for id in again {
            self.queue(id);
        }
        worked
    }

    /// Sends a connection's output; whether that lets it go on with other work.
    pub(super) fn send_to(&mut self, id: Id) -> bool {
        let Some(Some(socket)) = self.sockets.get_mut(id as usize) else { return false };
        let mut more = false;
        let mut sends = 0;
        // Replies that found no room follow at once, so that their data need not be copied.
        while socket.writable && self.hub.output_bytes(id) > 0 && sends < SENDS_A_TURN {
            sends += 1;
            if self.hub.is_profiled() {
                let now = self.clock.now();
                self.hub.sends(now.wall);
            }
            let output = self.hub.output(id, SLICES_A_SEND);
            let asked: usize = output.iter().map(|slice| slice.len()).sum();
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let sent = match &output[..] {
                [one] => rustix::net::send(&*socket, one, flags),
                several => {
                    let mut nothing = SendAncillaryBuffer::default();
                    rustix::net::sendmsg(&*socket, several, &mut nothing, flags)
                }
            };
            match sent {
                Ok(bytes) => {
                    socket.writable = bytes == asked;
                    let now = self.clock.now();
                    more = self.hub.sent(now, id, bytes);
                    if socket.closing.is_some() && self.hub.output_bytes(id) == 0 {
                        let _ = rustix::net::shutdown(&*socket, Shutdown::Write);
                    }
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => socket.writable = false,
                Err(_) => {
                    let now = self.clock.now();
                    self.close(now, id);
                    return false;
                }
            }
        }
        self.hub.settle(id);
        if more {
            self.queue(id);
        }
        more
    }

    pub(super) fn owes_output(&self) -> bool {
        #[cfg(feature = "rdma")]
        if self.rdma.iter().any(crate::rdma::Port::owes_output) {
            return true;
        }
        (0..self.sockets.len())
            .any(|id| self.sockets[id].is_some() && self.hub.output_bytes(id as Id) > 0)
    }

    /// A connection is over once its output is sent and the peer has seen it.
    pub(super) fn end(&mut self, now: Time, id: Id, reason: &Reason) {
        #[cfg(feature = "rdma")]
        self.end_rdma(now, id, reason);
        let Some(Some(socket)) = self.sockets.get_mut(id as usize) else { return };
        match reason {
            Reason::Protocol(_) | Reason::Client(_) => self.refused += 1,
            Reason::Subsystem(_) => {}
            Reason::Fault => {
                let now = self.clock.now();
                return self.close(now, id);
            }
        }
        socket.closing = Some(now + LINGER);
        if self.hub.output_bytes(id) == 0 {
            let _ = rustix::net::shutdown(&*socket, Shutdown::Write);
        }
        self.queue(id);
    }

    /// Throws away what the peer of a connection that is over still sends, so that it reads
    /// our last bytes and not of a reset.
    fn drain_closing(&mut self, id: Id) {
        let Some(Some(socket)) = self.sockets.get_mut(id as usize) else { return };
        let received = rustix::net::recv(&*socket, &mut self.scratch[..], RecvFlags::DONTWAIT);
        match received {
            Ok((0, _)) => {
                let now = self.clock.now();
                self.close(now, id);
            }
            Ok(_) => self.queue(id),
            Err(Errno::WOULDBLOCK | Errno::INTR) => socket.readable = false,
            Err(_) => {
                let now = self.clock.now();
                self.close(now, id);
            }
        }
    }

    pub(super) fn close(&mut self, now: Now, id: Id) {
        if let Some(place) = self.sockets.get_mut(id as usize)
            && place.take().is_some()
        {
            self.busy.retain(|&busy| busy != id);
            self.hub.close(now, id);
        }
    }
}
