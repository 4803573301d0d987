//! Messages in a stream of bytes, and the descriptors that belong to them.
//!
//! The receiving side asks for the bytes of one message and no more, so that descriptors that come
//! with them belong to that message, however the bytes were cut or joined on the way.

use super::message::{Errno, Header, command, flag};
use super::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX};
use std::collections::VecDeque;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// While more than this waits to be sent, nothing is received.
pub(super) const UNSENT_BYTES_MAX: usize = 256 << 10;

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// A message is shorter than its header or longer than any may be.
    #[error("a message of {0} bytes")]
    Size(u32),
    /// A message is neither request nor reply, or comes from the wrong side.
    #[error("a message with flags {0:#x}")]
    Kind(u32),
    /// The first request was not VERSION.
    #[error("{} before the version is agreed on", command::name(*.0))]
    Order(u16),
    /// The peer speaks another version.
    #[error("version {0}.{1}, which is not known here")]
    Version(u16, u16),
    /// The peer's capabilities are no JSON.
    #[error("capabilities that cannot be read")]
    Capabilities,
    /// A reply that nobody waits for.
    #[error("a reply that nobody waits for")]
    Unexpected,
    /// A reply that does not belong to its request.
    #[error("a reply to {} that cannot be one", command::name(*.0))]
    Reply(u16),
}

/// Receiving side of a connection.
#[derive(Debug)]
pub(super) struct Inbound<D> {
    /// As long as the message, as far as that is known.
    message: Vec<u8>,
    received: usize,
    descriptors: Vec<D>,
    /// More descriptors came than a message may have.
    surplus: bool,
    /// The message was taken, and the next one begins.
    taken: bool,
}

impl<D> Inbound<D> {
    pub(super) fn new() -> Inbound<D> {
        Inbound {
            message: vec![0; Header::BYTES],
            received: 0,
            descriptors: Vec::new(),
            surplus: false,
            taken: false,
        }
    }

    /// Where the next bytes go; empty when a message is complete.
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        self.begin_next();
        &mut self.message[self.received..]
    }

    /// So many bytes were put there, and these descriptors came with them.
    pub(super) fn received(
        &mut self,
        bytes: usize,
        descriptors: impl IntoIterator<Item = D>,
    ) -> Result<(), Ended> {
        let before = self.received;
        self.received = (before + bytes).min(self.message.len());
        for descriptor in descriptors {
            match self.descriptors.len() < DESCRIPTORS_MAX {
                true => self.descriptors.push(descriptor),
                false => self.surplus = true,
            }
        }
        if before < Header::BYTES && self.received >= Header::BYTES {
            let size = self.header().size.get();
            if !(Header::BYTES..=MESSAGE_BYTES_MAX).contains(&(size as usize)) {
                return Err(Ended::Size(size));
            }
            self.message.resize(size as usize, 0);
        }
        Ok(())
    }

    /// Whether there is a message that was not taken.
    pub(super) fn is_complete(&self) -> bool {
        !self.taken && self.received >= Header::BYTES && self.received == self.message.len()
    }

    /// More descriptors came than could be taken over.
    pub(super) fn lost_descriptors(&mut self) {
        self.surplus = true;
    }

    /// Whether there is another message. It can be looked at until this or
    /// [`Inbound::buffer`] is called again.
    pub(super) fn take(&mut self) -> bool {
        self.begin_next();
        self.taken = self.received >= Header::BYTES && self.received == self.message.len();
        self.taken
    }

    pub(super) fn header(&self) -> Header {
        Header::read_from_bytes(&self.message[..Header::BYTES]).expect("it is that long")
    }

    /// What follows the header.
    pub(super) fn body(&self) -> &[u8] {
        &self.message[Header::BYTES..]
    }

    /// The message's descriptors; an error if there were too many.
    pub(super) fn take_descriptors(&mut self) -> Result<Vec<D>, Errno> {
        let descriptors = std::mem::take(&mut self.descriptors);
        match std::mem::take(&mut self.surplus) {
            true => Err(Errno::TOO_BIG),
            false => Ok(descriptors),
        }
    }

    /// Makes room for the next message, if the one before was taken.
    fn begin_next(&mut self) {
        if !std::mem::take(&mut self.taken) {
            return;
        }
        self.received = 0;
        self.message.truncate(Header::BYTES);
        self.descriptors.clear();
        self.surplus = false;
    }
}

/// A part of a message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output<'a> {
    pub bytes: &'a [u8],
    /// With them, the descriptors that have this number. They must go with the first of the
    /// bytes, and only once.
    pub descriptors: Option<u32>,
}

/// Sending side of a connection.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
    /// Descriptors and the bytes that they go with, counted as `sent` is.
    attached: VecDeque<(usize, u32)>,
}

impl Outbound {
    /// Begins a message; what follows its header is `bytes` zeros, to be written to.
    pub(super) fn push(
        &mut self,
        id: u16,
        command: u16,
        flags: u32,
        error: u32,
        bytes: usize,
    ) -> &mut [u8] {
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
        let header = Header {
            id: id.into(),
            command: command.into(),
            size: ((Header::BYTES + bytes) as u32).into(),
            flags: flags.into(),
            error: error.into(),
        };
        self.bytes.extend_from_slice(header.as_bytes());
        let at = self.bytes.len();
        self.bytes.resize(at + bytes, 0);
        &mut self.bytes[at..]
    }

    /// The next message has these descriptors.
    pub(super) fn attach(&mut self, descriptors: u32) {
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
        self.attached.push_back((self.bytes.len(), descriptors));
    }

    pub(super) fn output(&self) -> Option<Output<'_>> {
        if self.sent == self.bytes.len() {
            return None;
        }
        let (descriptors, next) = match self.attached.front() {
            Some(&(at, descriptors)) if at == self.sent => {
                (Some(descriptors), self.attached.get(1).map(|(at, _)| *at))
            }
            Some(&(at, _)) => (None, Some(at)),
            None => (None, None),
        };
        let end = next.unwrap_or(self.bytes.len());
        Some(Output { bytes: &self.bytes[self.sent..end], descriptors })
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let before = self.sent;
        self.sent = (before + bytes).min(self.bytes.len());
        self.attached.pop_front_if(|(at, _)| *at == before);
    }

    pub(super) fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }
}

/// What a message begins with, and what follows.
pub(super) fn split<T>(body: &[u8]) -> Result<(T, &[u8]), Errno>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::read_from_prefix(body).map_err(|_| Errno::INVALID)
}

/// Whether this message asks for something.
pub(super) fn is_request(header: &Header) -> Result<bool, Ended> {
    match header.flags.get() & flag::TYPE {
        flag::REQUEST => Ok(true),
        flag::REPLY => Ok(false),
        _ => Err(Ended::Kind(header.flags.get())),
    }
}
