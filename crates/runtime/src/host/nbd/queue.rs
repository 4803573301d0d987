//! A connection to an NBD server as a queue: NVMe commands as the load generator writes them, put into NBD's
//! requests. Of what NBD has not the server gets a request that nobody knows, and refuses it.

use super::NbdOptions;
use super::place::NbdServer;
use crate::clock::{Clock, Rate};
use crate::host::connection::{Stream, connect};
use crate::host::errno::status_of;
use crate::host::transport::{Completed, Data, IoQueue, wait};
use crate::host::{HostError, connection};
use crate::profile::Flight;
use mynah_stamp::Time;
use mynah_wire::nbd::client::{Handshake, Offer, Session};
use mynah_wire::nbd::{Command, Request, command_flag};
use mynah_wire::nvme::command::{BlockCommand, DatasetManagement, NvmCommand};
use mynah_wire::nvme::protection::DatasetRange;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use mynah_wire::tcp::host::Movement;
use rustix::event::PollFlags;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

/// Where data have so many bytes they are received to their end before anything is sent.
const LONG_DATA_BYTES: u32 = 8 << 10;
/// Room for what a server says in a handshake; more is waited for piece by piece.
const HANDSHAKE_BYTES: usize = 64 << 10;
/// A command that no server knows.
const NOTHING: Command = Command::Unknown(u16::MAX);

/// A connection whose export is open.
pub(super) struct Opened {
    stream: Box<dyn Stream>,
    pub(super) offer: Offer,
}

impl Opened {
    /// Connects, and opens the export.
    pub(super) fn new(options: &NbdOptions) -> Result<Opened, HostError> {
        let failed = |error| HostError::NbdConnect { place: options.place.to_string(), error };
        let stream: Box<dyn Stream> = match &options.place.server {
            NbdServer::Tcp(address) => match connect(address, options.timeout) {
                Ok(stream) => Box::new(stream),
                Err(HostError::Connect { error, .. }) => return Err(failed(error)),
                Err(error) => return Err(error),
            },
            NbdServer::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(failed)?;
                stream.set_nonblocking(true).map_err(failed)?;
                Box::new(stream)
            }
        };
        Opened::shake_hands(stream, options)
    }

    fn shake_hands(mut stream: Box<dyn Stream>, options: &NbdOptions) -> Result<Opened, HostError> {
        let clock = Clock::start(Rate::REAL);
        let mut handshake = Handshake::new(&options.place.export, options.structured)?;
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let mut buffer = vec![0; HANDSHAKE_BYTES];
        loop {
            let (used, offer) = handshake.take(&input, &mut output)?;
            input.drain(..used);
            if let Some(offer) = offer {
                return match input.is_empty() {
                    true => Ok(Opened { stream, offer }),
                    false => Err(HostError::Nonsense("it answered what nobody asked".into())),
                };
            }
            if !output.is_empty() {
                match stream.write(&output) {
                    Ok(bytes) => drop(output.drain(..bytes)),
                    Err(error) if is_later(&error) => {}
                    Err(error) => return Err(HostError::Lost(error)),
                }
            }
            let mut events = PollFlags::IN;
            events.set(PollFlags::OUT, !output.is_empty());
            match stream.read(&mut buffer) {
                Ok(0) => return Err(HostError::Closed),
                Ok(bytes) => input.extend(&buffer[..bytes]),
                Err(error) if is_later(&error) => {
                    let passed = Duration::from_nanos(clock.wall().as_ps() / 1_000);
                    let left = options.timeout.saturating_sub(passed);
                    if left.is_zero() {
                        let (what, seconds) = (connection::REQUEST, options.timeout.as_secs());
                        return Err(HostError::Timeout { what, seconds });
                    }
                    wait(stream.fd(), events, left)?;
                }
                Err(error) => return Err(HostError::Lost(error)),
            }
        }
    }
}

/// Whether a socket has only to be waited for.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// A connection at work.
pub(in crate::host) struct Queue {
    stream: Box<dyn Stream>,
    session: Session,
    block_shift: u8,
    blocked: bool,
}

impl Queue {
    /// A queue of so many entries, one of which is always free.
    pub(super) fn new(opened: Opened, block_shift: u8, entries: u16) -> Queue {
        let Opened { stream, offer } = opened;
        let session = Session::new(offer.structured, entries.saturating_sub(1).max(1));
        Queue { stream, session, block_shift, blocked: false }
    }

    /// What a command is as a request.
    fn request(&self, slot: u16, entry: &SubmissionEntry, data: &mut impl Data) -> Request {
        let nothing = Request { cookie: 0, command: NOTHING, flags: 0, offset: 0, bytes: 0 };
        let shift = self.block_shift;
        // What would not fit is beyond the end of any export.
        let offset = |start: u64| start.checked_mul(1 << shift).unwrap_or(u64::MAX << shift);
        let of = |command: Command, blocks: &BlockCommand| Request {
            command,
            offset: offset(blocks.start),
            bytes: blocks.blocks << shift,
            ..nothing
        };
        match NvmCommand::parse(entry) {
            Ok(NvmCommand::Read(blocks)) => of(Command::Read, &blocks),
            Ok(NvmCommand::Write(blocks)) => {
                let flags = if blocks.force_unit_access { command_flag::FUA } else { 0 };
                Request { flags, ..of(Command::Write, &blocks) }
            }
            Ok(NvmCommand::Flush) => Request { command: Command::Flush, ..nothing },
            Ok(NvmCommand::DatasetManagement(DatasetManagement {
                ranges: 1,
                deallocates: true,
            })) => {
                let mut range = DatasetRange::new_zeroed();
                data.fill(slot, 0, range.as_mut_bytes());
                let bytes = u64::from(range.blocks.get()) << shift;
                match u32::try_from(bytes) {
                    Ok(bytes) => {
                        let offset = offset(range.start.get());
                        Request { command: Command::Trim, offset, bytes, ..nothing }
                    }
                    Err(_) => nothing,
                }
            }
            _ => nothing,
        }
    }
}

impl Drop for Queue {
    /// Says that it leaves, where that can be said at once and between requests.
    fn drop(&mut self) {
        if self.session.is_between_requests() {
            let request =
                Request { cookie: 0, command: Command::Disconnect, flags: 0, offset: 0, bytes: 0 };
            let _ = self.stream.write(&request.build());
        }
    }
}

impl IoQueue for Queue {
    /// Profiles are of NVMe.
    fn watch(&mut self, _clock: Clock) {}

    fn socket(&self) -> Option<OwnedFd> {
        None
    }

    fn ended(&mut self, _slot: u16) -> Option<(&Flight, Time, u16)> {
        None
    }

    fn flight(&self, _slot: u16) -> Option<&Flight> {
        None
    }

    #[inline]
    fn receive(&mut self) -> Result<bool, HostError> {
        match self.stream.read(self.session.receive_buffer()) {
            Ok(0) => Err(HostError::Closed),
            Ok(bytes) => {
                self.session.received(bytes);
                Ok(true)
            }
            Err(error) if is_later(&error) => Ok(self.session.has_early()),
            Err(error) => Err(HostError::Lost(error)),
        }
    }

    #[inline]
    fn is_amid_data(&self) -> bool {
        self.session.is_amid_data(LONG_DATA_BYTES)
    }

    #[inline]
    fn poll(&mut self, data: &mut impl Data) -> Result<Option<Completed>, HostError> {
        let Some(event) = self.session.poll(data)? else { return Ok(None) };
        let status = match event.error {
            0 => Status::SUCCESS,
            error => status_of(error),
        };
        let entry = CompletionEntry::new(event.slot, status, 0);
        Ok(Some(Completed { slot: event.slot, entry, received: event.received }))
    }

    #[inline]
    fn can_submit(&self) -> bool {
        self.session.next_slot().is_some()
    }

    #[inline]
    fn next_slot(&self) -> Option<u16> {
        self.session.next_slot()
    }

    #[inline]
    fn submit(
        &mut self,
        entry: &SubmissionEntry,
        _movement: Movement,
        data: &mut impl Data,
    ) -> Option<u16> {
        let request = self.request(self.session.next_slot()?, entry, data);
        self.session.submit(request)
    }

    #[inline]
    fn send(&mut self, data: &mut impl Data) -> Result<(), HostError> {
        self.blocked = false;
        loop {
            let output = self.session.output(data);
            if output.is_empty() {
                return Ok(());
            }
            match self.stream.write(output) {
                Ok(0) => return Err(HostError::Closed),
                Ok(bytes) => self.session.sent(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_later(&error) => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) => return Err(HostError::Lost(error)),
            }
        }
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        self.blocked
    }

    fn wait(&self, timeout: Duration) -> Result<(), HostError> {
        if self.session.has_early() {
            return Ok(());
        }
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, self.blocked);
        wait(self.stream.fd(), events, timeout)
    }
}
