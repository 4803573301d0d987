//! Sockets and what the engine knows of them.

use crate::local_socket::LocalListener;
use crate::quota::{Peer, Share, is_starved};
use crate::stamped;
use crate::tcp_info::RoundTrips;
use mynah_stamp::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, acceptfrom_with, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// What a look at a listener finds.
pub(super) enum Accepted {
    /// A connection, and who it is from.
    Connection(OwnedFd, Option<SocketAddr>),
    /// Nobody, or somebody who has gone already.
    Nobody,
    /// The system has no descriptor or memory for whoever waits.
    Starved,
}

/// What a connection's ends speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    NvmeTcp,
    Nbd,
}

/// A socket that hosts connect to.
pub(super) enum Listener {
    Nvme(OwnedFd),
    /// NBD over TCP.
    Nbd(OwnedFd),
    /// NBD over a socket in the file system.
    LocalNbd(LocalListener),
}

impl Listener {
    pub(super) fn new(listener: TcpListener) -> io::Result<Listener> {
        listener.set_nonblocking(true)?;
        Ok(Listener::Nvme(listener.into()))
    }

    pub(super) fn of_nbd(listener: crate::nbd::Listener) -> io::Result<Listener> {
        Ok(match listener {
            crate::nbd::Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Nbd(listener.into())
            }
            crate::nbd::Listener::Local(listener) => Listener::LocalNbd(listener),
        })
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Listener::Nvme(_) => Protocol::NvmeTcp,
            Listener::Nbd(_) | Listener::LocalNbd(_) => Protocol::Nbd,
        }
    }

    pub(super) fn accept(&mut self) -> Accepted {
        match acceptfrom_with(&*self, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((socket, peer)) => {
                // A completion must not wait for the acknowledgement of the one before.
                let _ = sockopt::set_tcp_nodelay(&socket, true);
                Accepted::Connection(socket, peer.and_then(|peer| SocketAddr::try_from(peer).ok()))
            }
            // The system looks for a descriptor before it looks whether somebody waits.
            Err(error) if is_starved(error) && self.has_waiting() => Accepted::Starved,
            // Errors of the network belong to the connection, which has gone (accept(2)).
            Err(_) => Accepted::Nobody,
        }
    }
}

impl Listener {
    fn has_waiting(&self) -> bool {
        let mut descriptors = [PollFd::new(self, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut descriptors, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Nvme(socket) | Listener::Nbd(socket) => socket.as_fd(),
            Listener::LocalNbd(listener) => listener.as_fd(),
        }
    }
}

/// Bytes are never seen later than this after they came.
const STAMP_AGE_MAX: Span = Span::from_secs(1);

/// A connection's socket, and whether it may be read or written.
pub(super) struct Socket {
    descriptor: OwnedFd,
    /// Whether the kernel notes when bytes come.
    stamped: bool,
    pub(super) serial: u64,
    pub(super) host: Peer,
    pub(super) opened: Time,
    /// When bytes last came.
    pub(super) active: Time,
    /// There may be bytes to receive.
    pub(super) readable: bool,
    /// When the socket was last found to have nothing to receive.
    pub(super) empty: Time,
    /// There may be room to send.
    pub(super) writable: bool,
    /// It is among those to look at.
    pub(super) queued: bool,
    /// Its memory was given back since it was last active.
    pub(super) shrunk: bool,
    /// The connection ends: when it is closed at the latest.
    pub(super) closing: Option<Time>,
    /// Its place among the half-open connections, while it is one.
    pub(super) half_open: Option<Share>,
}

impl Socket {
    /// A socket; `stamped`: the kernel is asked to note when bytes come.
    pub(super) fn new(
        descriptor: OwnedFd,
        host: Peer,
        stamped: bool,
        now: Time,
        serial: u64,
    ) -> Socket {
        // Local sockets, behind which TLS is done, have no such stamps.
        let is_local = sockopt::socket_domain(&descriptor)
            .is_ok_and(|domain| domain == rustix::net::AddressFamily::UNIX);
        let stamped = stamped && !is_local && stamped::begin(&descriptor);
        Socket {
            descriptor,
            stamped,
            serial,
            host,
            opened: now,
            active: now,
            readable: true,
            empty: Time::ZERO,
            writable: true,
            queued: false,
            shrunk: false,
            closing: None,
            half_open: None,
        }
    }

    /// What the kernel has seen of round trips.
    pub(super) fn round_trips(&self) -> Option<RoundTrips> {
        crate::tcp_info::round_trips(&self.descriptor)
    }

    /// When bytes came that were received just now, and of which the kernel says that they are so old.
    /// `None` if they could not be read before: a segment that came before one that was lost keeps its
    /// stamp, and lies in the kernel until that has come. Nor is an age beyond reason one: the calendar
    /// has been set.
    #[inline]
    pub(super) fn came(&self, now: Time, age: Span) -> Option<Time> {
        let at = Time::from_ps(now.as_ps().saturating_sub(age.as_ps()));
        (age < STAMP_AGE_MAX && at >= self.empty).then_some(at)
    }

    /// Receives what is there: how many bytes, and when the last of them came by the system's
    /// calendar, if that is known.
    /// `control` is [`stamped::control_buffer`].
    pub(super) fn receive(
        &self,
        buffer: &mut [u8],
        control: &mut [u8],
    ) -> Result<(usize, Option<Duration>), Errno> {
        if !self.stamped {
            let (bytes, _) = rustix::net::recv(&self.descriptor, buffer, RecvFlags::DONTWAIT)?;
            return Ok((bytes, None));
        }
        stamped::receive(&self.descriptor, buffer, control)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::age;
    use crate::stamped::control_buffer;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::thread::sleep;

    #[test]
    fn received_bytes_are_as_old_as_they_are() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut peer = TcpStream::connect(listener.local_addr().expect("an address")).unwrap();
        let (accepted, _) = listener.accept().expect("a connection");
        let socket = Socket::new(accepted.into(), Peer::LOCAL, true, Time::ZERO, 0);
        let (mut buffer, mut control) = ([0; 64], control_buffer());
        let waiting = Duration::from_millis(30);
        // The system begins a little after it was asked to.
        let begun = (0..100).any(|_| {
            peer.write_all(&[0]).expect("it is sent");
            sleep(waiting);
            socket.receive(&mut buffer, &mut control).expect("a byte").1.is_some()
        });
        assert!(begun, "no stamps");
        for bytes in 1..4 {
            peer.write_all(&buffer[..bytes]).expect("it is sent");
            sleep(waiting);
            let (count, stamp) = socket.receive(&mut buffer, &mut control).expect("bytes");
            assert_eq!(count, bytes);
            let age = age(stamp.expect("a stamp"));
            assert!(age.as_ns_f64() >= waiting.as_nanos() as f64, "{age}");
        }
        // A stamp from before the socket was found empty does not tell when its bytes could be read.
        let (now, age) = (Time::from_ns(5_000), Span::from_ns(1_000));
        assert_eq!(socket.came(now, age), Some(Time::from_ns(4_000)));
        assert_eq!(socket.came(now, Span::from_secs(2)), None);
        let held_up = Socket { empty: Time::from_ns(4_001), ..socket };
        assert_eq!(held_up.came(now, age), None);
        let socket = held_up;
        // Without stamps there are none.
        let plain = Socket::new(peer.into(), Peer::LOCAL, false, Time::ZERO, 1);
        rustix::net::send(&socket, &buffer[..5], rustix::net::SendFlags::empty()).unwrap();
        sleep(waiting);
        assert_eq!(plain.receive(&mut buffer, &mut control), Ok((5, None)));
    }
}
