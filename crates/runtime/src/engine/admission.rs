//! Who may have a connection, and for how long.
//!
//! Connections that have not become queues of a controller are limited in number and time, and so
//! are connections whose hosts owe data. Where there is no room for another, the oldest goes of the
//! peer that has most of them ([`crate::quota`]). Where the system has no descriptor for another,
//! nobody is let in for a moment.

use super::socket::{Accepted, Protocol};
use super::{Engine, LISTENERS, PORTS, Socket};
use crate::hub::{Found, Id};
use crate::quota::{Bounds, Peer, Refused, Share, whom_to_drop};
use mynah_device::Transport;
use mynah_stamp::{Span, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use std::net::{IpAddr, SocketAddr};

/// Connections accepted in one turn.
const ACCEPTS_A_TURN: usize = 16;
/// Between two checks of timeouts.
const SWEEP: Span = Span::from_secs(1);
/// How often the round trips of connections are asked for.
const PATH_LOOK: Span = Span::from_ms(100);
/// Nobody is let in for so long where the system has nothing left for a connection.
const STARVED: Span = Span::from_ms(100);
/// Printed once, when connections have to wait for descriptors or memory.
const STARVED_TEXT: &str = "the system has no descriptors or memory left for new \
     connections (see ulimit -n): they wait until others end";

/// How much hosts may ask of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// How much there is, and how much of it one peer may have.
    pub bounds: Bounds,
    /// How long a connection may take to become a queue of a controller.
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
            bounds: Bounds::default(),
            half_open_time: Span::from_secs(10),
            // As Linux's target without a keep-alive timeout (nvmet_execute_auth_send in
            // drivers/nvme/target/fabrics-cmd-auth.c).
            authentication_time: Span::from_secs(120),
            data_time: Span::from_secs(30),
        }
    }
}

/// A new connection.
#[derive(Debug)]
pub struct Newcomer {
    /// Its socket, in non-blocking mode.
    pub socket: OwnedFd,
    /// Where it comes from; `None`: from a local socket.
    pub address: Option<SocketAddr>,
    /// The address at which it came in.
    pub local: Option<IpAddr>,
    /// The number of the subsystem's port that it came to.
    pub port: u16,
    /// NQN of the host that it has proved to be, if it has.
    pub host_nqn: Option<String>,
    pub protocol: Protocol,
    /// What it has of the half-open connections, if it has been admitted already.
    pub half_open: Option<Share>,
}

/// The address at which the peer of a connection came in.
fn local_address(socket: &OwnedFd) -> Option<IpAddr> {
    let address = rustix::net::getsockname(socket).ok()?;
    SocketAddr::try_from(address).ok().map(|address| address.ip())
}

impl Engine {
    pub(super) fn accept(&mut self, number: usize) {
        for _ in 0..ACCEPTS_A_TURN {
            let Some(listener) = self.listeners.get_mut(number) else { return };
            let (socket, address) = match listener.accept() {
                Accepted::Connection(socket, address) => (socket, address),
                Accepted::Nobody => return,
                Accepted::Starved => {
                    // Those that may be nobody go first.
                    if !self.evict(Peer::LOCAL, Refused::All) {
                        return self.starve(LISTENERS + number as u64);
                    }
                    continue;
                }
            };
            let protocol = listener.protocol();
            let local = local_address(&socket);
            // The subsystem's ports are those of NVMe/TCP, which come first.
            let port = if protocol == Protocol::NvmeTcp { number as u16 } else { 0 };
            let (host_nqn, half_open) = (None, None);
            self.adopt(Newcomer { socket, address, local, port, host_nqn, protocol, half_open });
        }
    }

    /// Does not look at a listener for a moment: it would be ready all the time.
    pub(super) fn starve(&mut self, data: u64) {
        self.watch(data, EventFlags::empty());
        self.starved.push(data);
        self.fed_at = Some(self.clock.wall() + STARVED);
        self.note_starvation();
    }

    /// The system has nothing left for a new connection, here or where others are accepted.
    pub(super) fn note_starvation(&mut self) {
        self.starvations += 1;
        if self.starvations == 1 {
            (self.say)(STARVED_TEXT);
        }
    }

    /// Tries again to accept from listeners that were starved of descriptors or memory.
    pub(super) fn feed(&mut self) {
        self.fed_at = None;
        for data in std::mem::take(&mut self.starved) {
            self.watch(data, EventFlags::IN);
        }
    }

    fn watch(&self, data: u64, flags: EventFlags) {
        let event = EventData::new_u64(data);
        // A listener that is there can be watched; those that have gone are of no interest.
        let _ = match data {
            PORTS.. => self
                .ports
                .get((data - PORTS) as usize)
                .map(|port| epoll::modify(&self.epoll, port.listener(), event, flags)),
            _ => self
                .listeners
                .get((data - LISTENERS) as usize)
                .map(|listener| epoll::modify(&self.epoll, listener, event, flags)),
        };
    }

    /// Takes a new connection in.
    pub(super) fn adopt(&mut self, new: Newcomer) {
        let Newcomer { socket, address, local, port, host_nqn, protocol, half_open } = new;
        let now = self.clock.now();
        let who = Peer::of(address);
        self.forget_connected();
        let half_open = half_open.or_else(|| self.admit(who));
        if half_open.is_none() || self.draining.is_some() {
            self.refused += 1;
            return;
        }
        let peer = address.map_or_else(String::new, |address| address.to_string());
        let transport = Transport { peer, local, port, host_nqn, ..self.transport.clone() };
        let id = match protocol {
            Protocol::NvmeTcp => self.hub.open(now, who, transport),
            Protocol::Nbd => self.hub.open_nbd(now, who, transport),
        };
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
        let mut socket = Socket::new(socket, who, self.stamped, now.wall, self.serial);
        socket.half_open = half_open;
        self.sockets[id as usize] = Some(socket);
        if let Some(path) = &mut self.path {
            path.meet(who);
            let credit = path.credit();
            self.hub.set_credit(credit);
        }
        self.queue(id);
    }

    /// A place among the half-open connections, which another may have to leave.
    fn admit(&mut self, who: Peer) -> Option<Share> {
        let half_open = self.hub.quotas().half_open.clone();
        match half_open.take(who) {
            Ok(share) => Some(share),
            Err(refused) => {
                self.evict(who, refused);
                half_open.take(who).ok()
            }
        }
    }

    /// Looks what the paths of hosts take at least, which is credited.
    pub(super) fn measure_path(&mut self, now: Time) {
        self.next_path = now + PATH_LOOK;
        let Some(path) = &mut self.path else { return };
        let hub = &self.hub;
        let sockets = self.sockets.iter().enumerate();
        path.look(sockets.filter_map(|(id, socket)| {
            let socket = socket.as_ref()?;
            Some(Found {
                serial: socket.serial,
                host: socket.host,
                is_admin: hub.is_admin(id as Id),
                trips: socket.round_trips(),
            })
        }));
        let credit = path.credit();
        self.hub.set_credit(credit);
    }

    /// Drops connections from the list of half-open ones that are so no longer.
    fn forget_connected(&mut self) {
        self.half_open.retain(|&(id, serial)| {
            let socket = self.sockets.get_mut(id as usize).and_then(Option::as_mut);
            let Some(socket) = socket.filter(|socket| socket.serial == serial) else {
                return false;
            };
            let stays = !self.hub.is_connected(id);
            if !stays {
                socket.half_open = None;
            }
            stays
        });
    }

    /// Closes a half-open connection, so that there is room for one of `newcomer`; false if there
    /// is none.
    fn evict(&mut self, newcomer: Peer, refused: Refused) -> bool {
        self.forget_connected();
        let sockets = &self.sockets;
        let oldest_first = self.half_open.iter().filter_map(|&(id, _)| {
            let share = sockets.get(id as usize)?.as_ref()?.half_open.as_ref()?;
            Some((id, share.peer()))
        });
        let Some(id) = whom_to_drop(oldest_first, newcomer, refused) else { return false };
        self.half_open.retain(|&(it, _)| it != id);
        self.refused += 1;
        let now = self.clock.now();
        self.close(now, id);
        true
    }

    /// Handles timeouts and idle connections.
    pub(super) fn sweep(&mut self, now: Time) {
        self.next_sweep = now + SWEEP;
        #[cfg(feature = "rdma")]
        self.sweep_rdma();
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
