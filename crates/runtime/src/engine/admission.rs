//! Who may have a connection, and for how long.
//!
//! Connections that have not become queues of a controller are limited in number and time,
//! the oldest going first, and so are connections whose hosts owe data.

use super::{Engine, Socket};
use crate::hub::Id;
use mynah_device::Transport;
use mynah_stamp::{Span, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;

/// Connections accepted in one turn.
const ACCEPTS_A_TURN: usize = 16;
/// Between two looks at things that take seconds.
const SWEEP: Span = Span::from_secs(1);

/// How much hosts may ask of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// Connections at once.
    pub connections_max: usize,
    /// Connections at once that are not queues of a controller.
    pub half_open_max: usize,
    /// How long a connection may take to become one.
    pub half_open_time: Span,
    /// The same where the host has connected and has yet to prove who it is, which takes slow
    /// processors long with large groups.
    pub authentication_time: Span,
    /// How long a host may owe data that it was asked for.
    pub data_time: Span,
}

impl Default for EngineLimits {
    fn default() -> EngineLimits {
        EngineLimits {
            connections_max: 4096,
            half_open_max: 512,
            half_open_time: Span::from_secs(10),
            // As Linux's target without a keep-alive timeout (nvmet_execute_auth_send in
            // drivers/nvme/target/fabrics-cmd-auth.c).
            authentication_time: Span::from_secs(120),
            data_time: Span::from_secs(30),
        }
    }
}

impl Engine {
    pub(super) fn accept(&mut self, number: usize) {
        for _ in 0..ACCEPTS_A_TURN {
            let Some(listener) = self.listeners.get_mut(number) else { return };
            let (socket, peer) = match listener.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(_) => {
                    // Out of descriptors, most likely: those that may be nobody go first.
                    if !self.evict() {
                        return;
                    }
                    continue;
                }
            };
            self.adopt(socket, peer, number as u16, None);
        }
    }

    /// Takes a new connection in.
    pub(super) fn adopt(
        &mut self,
        socket: OwnedFd,
        peer: String,
        port: u16,
        host_nqn: Option<String>,
    ) {
        let now = self.clock.now();
        self.forget_connected();
        if self.half_open.len() >= self.limits.half_open_max
            || self.hub.connections() >= self.limits.connections_max
        {
            self.evict();
        }
        if self.hub.connections() >= self.limits.connections_max || self.draining.is_some() {
            self.refused += 1;
            return;
        }
        let transport = Transport { peer, port, host_nqn, ..self.transport.clone() };
        let id = self.hub.open(now, transport);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if epoll::add(&self.epoll, &socket, EventData::new_u64(id.into()), flags).is_err() {
            self.hub.close(now, id);
            return;
        }
        self.serial += 1;
        self.half_open.push_back((id, self.serial));
        if self.sockets.len() <= id as usize {
            self.sockets.resize_with(id as usize + 1, || None);
        }
        let socket = Socket::new(socket, self.stamped, now.wall, self.serial);
        self.sockets[id as usize] = Some(socket);
        self.queue(id);
    }

    /// Drops connections from the list of half-open ones that are so no longer.
    fn forget_connected(&mut self) {
        self.half_open.retain(|&(id, serial)| {
            let socket = self.sockets.get(id as usize).and_then(Option::as_ref);
            socket.is_some_and(|socket| socket.serial == serial) && !self.hub.is_connected(id)
        });
    }

    /// Closes the oldest half-open connection; false if there is none.
    fn evict(&mut self) -> bool {
        self.forget_connected();
        let Some((id, _)) = self.half_open.pop_front() else { return false };
        self.refused += 1;
        let now = self.clock.now();
        self.close(now, id);
        true
    }

    /// Looks at things that take seconds.
    pub(super) fn sweep(&mut self, now: Time) {
        self.next_sweep = now + SWEEP;
        self.forget_connected();
        let mut over = Vec::new();
        for &(id, _) in &self.half_open {
            let socket = self.sockets[id as usize].as_ref().expect("it is half open");
            let time = match self.hub.is_authenticating(id) {
                true => self.limits.authentication_time,
                false => self.limits.half_open_time,
            };
            if now.saturating_since(socket.opened) >= time {
                over.push(id);
            }
        }
        for (id, socket) in self.sockets.iter_mut().enumerate() {
            let Some(socket) = socket else { continue };
            let id = id as Id;
            let quiet = now.saturating_since(socket.active);
            let owes_data = self.hub.awaits_data(id) && quiet >= self.limits.data_time;
            if owes_data || socket.closing.is_some_and(|until| now >= until) {
                over.push(id);
            } else if quiet >= SWEEP && !socket.shrunk {
                socket.shrunk = true;
                self.hub.shrink(id);
            }
        }
        self.hub.shrink_pool();
        let now = self.clock.now();
        for id in over {
            self.close(now, id);
        }
    }
}
