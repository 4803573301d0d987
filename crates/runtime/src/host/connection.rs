//! A socket and the machine that speaks NVMe/TCP over it.

use super::HostError;
use super::names;
use super::watch::Watch;
use crate::clock::{Clock, Rate};
use mynah_wire::tcp::host::{Event, Host, HostConfig, Payload};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A byte stream: a socket, plain or encrypted. Never blocks.
pub trait Stream: Read + Write + Send {
    /// The descriptor to poll.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Whether bytes come as they are from the network, so that the kernel knows when.
    fn is_bare(&self) -> bool;
}

impl Stream for TcpStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn is_bare(&self) -> bool {
        true
    }
}

/// To a thread that encrypts, or to another process: the kernel does not note when bytes come.
impl Stream for UnixStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn is_bare(&self) -> bool {
        false
    }
}

/// A connection to a target.
pub struct Connection {
    /// The NVMe/TCP protocol machine.
    pub machine: Host,
    pub(super) stream: Box<dyn Stream>,
    /// The socket did not take all output: wait until it is writable.
    pub(super) blocked: bool,
    /// What notes when commands leave and answers come.
    pub(super) watch: Option<Box<Watch>>,
}

/// Name of ICReq in error messages.
pub(super) const REQUEST: &str = "the connection request";
/// A target answers that at once; Linux's host waits as long (`sk_rcvtimeo` in nvme_tcp_alloc_queue,
/// drivers/nvme/host/tcp.c).
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of a foreign server's answer that are quoted.
const SAID_BYTES_MAX: usize = 60;

/// The error for bytes that begin no answer to a connection request, if there are any.
fn other_protocol(said: &[u8]) -> Option<HostError> {
    // ICResp and C2HTermReq (TCP Transport 1.0, section 3.6.1).
    if matches!(said.first(), None | Some(1 | 3)) {
        return None;
    }
    let line = said.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let print = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '.',
    };
    Some(HostError::NotNvme(line.iter().map(print).collect()))
}

/// Opens a socket to `address`.
pub(super) fn connect(address: &str, timeout: Duration) -> Result<TcpStream, HostError> {
    let lookup = |error| HostError::Lookup { address: address.to_owned(), error };
    let failed = |error| HostError::Connect { address: address.to_owned(), error };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in names::addresses(address).map_err(lookup)? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(failed)?;
                stream.set_nonblocking(true).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

impl Connection {
    /// A connection over `stream`, initialised as `config` wants it.
    ///
    /// # Errors
    /// If the target does not answer as it should within `timeout`.
    pub fn open(
        stream: Box<dyn Stream>,
        config: HostConfig,
        timeout: Duration,
    ) -> Result<Connection, HostError> {
        let mut connection =
            Connection { machine: Host::new(config), stream, blocked: false, watch: None };
        let mut said = Vec::new();
        match connection.initialize(&mut said, timeout.min(REQUEST_PATIENCE)) {
            Ok(()) => Ok(connection),
            Err(error) => Err(other_protocol(&said).unwrap_or(error)),
        }
    }

    /// Waits for the answer to the connection request; what came first goes into `said`.
    fn initialize(&mut self, said: &mut Vec<u8>, timeout: Duration) -> Result<(), HostError> {
        let clock = Clock::start(Rate::REAL);
        loop {
            self.send(&mut NoData)?;
            match self.poll(&mut NoData)? {
                Some(Event::Ready) => return Ok(()),
                Some(Event::Completed { .. }) => {
                    return Err(HostError::Nonsense("an answer without a command".into()));
                }
                None => {}
            }
            let buffer = self.machine.receive_buffer();
            match self.stream.read(buffer) {
                Ok(0) => return Err(HostError::Closed),
                Ok(bytes) => {
                    let room = SAID_BYTES_MAX.saturating_sub(said.len());
                    said.extend_from_slice(&buffer[..bytes.min(room)]);
                    self.machine.received(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let passed = Duration::from_nanos(clock.wall().as_ps() / 1_000);
                    let left = timeout.saturating_sub(passed);
                    if left.is_zero() {
                        let seconds = timeout.as_secs();
                        return Err(HostError::Timeout { what: REQUEST, seconds });
                    }
                    self.wait(left)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(HostError::Lost(error)),
            }
        }
    }

    /// Sends what there is to send, as far as the socket takes it.
    ///
    /// # Errors
    /// If the connection is lost.
    #[inline]
    pub fn send(&mut self, payload: &mut impl Payload) -> Result<(), HostError> {
        if self.watch.is_some() {
            return self.send_watched(payload);
        }
        self.blocked = false;
        loop {
            let output = self.machine.output(payload);
            if output.is_empty() {
                return Ok(());
            }
            match self.stream.write(output) {
                Ok(0) => return Err(HostError::Closed),
                Ok(bytes) => self.machine.sent(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(HostError::Lost(error)),
            }
        }
    }

    /// Receives what has come, once; whether anything had.
    ///
    /// # Errors
    /// If the connection is lost.
    #[inline]
    pub fn receive(&mut self) -> Result<bool, HostError> {
        if self.watch.is_some() {
            return self.receive_watched();
        }
        let buffer = self.machine.receive_buffer();
        match self.stream.read(buffer) {
            Ok(0) => Err(HostError::Closed),
            Ok(bytes) => {
                self.machine.received(bytes);
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(HostError::Lost(error)),
            },
        }
    }

    /// The next event of what was received.
    ///
    /// # Errors
    /// If the target violated the protocol. It is told so, if that takes no waiting.
    #[inline]
    pub fn poll(&mut self, payload: &mut impl Payload) -> Result<Option<Event>, HostError> {
        let polled = self.machine.poll(payload);
        if let Some(watch) = &mut self.watch {
            watch.flights.take_transfers(&mut self.machine);
        }
        match polled {
            Ok(event) => Ok(event),
            Err(error) => {
                // The connection ends anyway.
                let _ = self.send(payload);
                Err(HostError::Protocol(error))
            }
        }
    }

    /// Whether the socket did not take all there is to send.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Waits until something has come, blocked bytes can go out, or the time is over.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn wait(&self, timeout: Duration) -> Result<(), HostError> {
        let events = if self.blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let mut fds = [PollFd::from_borrowed_fd(self.stream.fd(), events)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => {
                if let Some(watch) = self.watch.as_ref().filter(|_| ready > 0) {
                    watch.wakes();
                }
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(HostError::Lost(error.into())),
        }
    }

    /// Sends, and waits for the next event.
    ///
    /// # Errors
    /// If the connection is lost or nothing comes within `timeout`; `what` is what was asked.
    pub fn wait_event(
        &mut self,
        payload: &mut impl Payload,
        what: &'static str,
        timeout: Duration,
    ) -> Result<Event, HostError> {
        let clock = Clock::start(Rate::REAL);
        loop {
            self.send(payload)?;
            if let Some(event) = self.poll(payload)? {
                return Ok(event);
            }
            if !self.receive()? {
                let passed = Duration::from_nanos(clock.wall().as_ps() / 1_000);
                let Some(left) = timeout.checked_sub(passed).filter(|left| !left.is_zero()) else {
                    return Err(HostError::Timeout { what, seconds: timeout.as_secs() });
                };
                self.wait(left)?;
            }
        }
    }
}

/// For events that carry no data.
pub(super) struct NoData;

impl Payload for NoData {
    fn fill(&mut self, _slot: u16, _offset: u32, into: &mut [u8]) {
        into.fill(0);
    }

    fn place(&mut self, _slot: u16, _offset: u32, _from: &[u8]) {}
}
