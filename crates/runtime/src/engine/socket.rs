//! Sockets and what the engine knows of them.

use mynah_stamp::Time;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Where hosts come in.
pub(super) struct Listener(OwnedFd);

impl Listener {
    pub(super) fn new(listener: TcpListener) -> io::Result<Listener> {
        listener.set_nonblocking(true)?;
        Ok(Listener(listener.into()))
    }

    /// The next connection and who it is from; `None` if there is none.
    pub(super) fn accept(&mut self) -> io::Result<Option<(OwnedFd, String)>> {
        match acceptfrom_with(&self.0, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((socket, peer)) => {
                // A completion must not wait for the acknowledgement of the one before.
                let _ = sockopt::set_tcp_nodelay(&socket, true);
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                Ok(Some((socket, peer.map_or_else(String::new, |peer| peer.to_string()))))
            }
            Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connection's socket.
pub(super) struct Socket {
    descriptor: OwnedFd,
    pub(super) serial: u64,
    pub(super) opened: Time,
    /// When bytes last came.
    pub(super) active: Time,
    /// There may be bytes to receive.
    pub(super) readable: bool,
    /// There may be room to send.
    pub(super) writable: bool,
    /// It is among those to look at.
    pub(super) queued: bool,
    /// Its memory was given back since it was last active.
    pub(super) shrunk: bool,
    /// It is over, and closed then at the latest.
    pub(super) closing: Option<Time>,
}

impl Socket {
    pub(super) fn new(descriptor: OwnedFd, now: Time, serial: u64) -> Socket {
        Socket {
            descriptor,
            serial,
            opened: now,
            active: now,
            readable: true,
            writable: true,
            queued: false,
            shrunk: false,
            closing: None,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
