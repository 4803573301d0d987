//! One connection being carried.

use super::TlsError;
use openssl::ssl::{ErrorCode, SslStream};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

/// Bytes that wait on their way, each way.
const BUFFER_BYTES: usize = 64 << 10;
/// Looks at a connection before others have their turn.
const STEPS_A_TURN: usize = 32;

/// Bytes that were read from one socket and not yet written to the other.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The source has reached its end.
    ended: bool,
    /// The end was passed on to the sink.
    end_passed: bool,
}

impl Buffer {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn room(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; BUFFER_BYTES];
        }
        (self.start, self.end) = (0, 0);
        &mut self.bytes
    }

    /// Takes bytes from the source if all of those before are gone; whether something
    /// happened.
    fn take(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<bool> {
        if self.ended || !self.is_empty() {
            return Ok(false);
        }
        match read(self.room()) {
            Ok(0) => self.ended = true,
            Ok(count) => self.end = count,
            Err(error) if is_later(&error) => {
                // An idle connection keeps no buffer.
                self.bytes = Vec::new();
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn give(&mut self, write: impl FnOnce(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        match write(&self.bytes[self.start..self.end]) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                self.start += count;
                Ok(true)
            }
            Err(error) if is_later(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the sink is to be told that there is no more.
    fn ends(&mut self) -> bool {
        let ends = self.ended && self.is_empty() && !self.end_passed;
        self.end_passed |= ends;
        ends
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What carrying for a while has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing more can be done until a socket says so.
    Idle,
    /// There is more to do; others first.
    More,
    /// The connection has ended.
    Over,
}

/// An encrypted connection and the local socket that it is carried to.
pub(super) struct Pipe {
    tls: SslStream<TcpStream>,
    local: UnixStream,
    inwards: Buffer,
    outwards: Buffer,
}

impl Pipe {
    pub(super) fn new(tls: SslStream<TcpStream>, local: UnixStream) -> Pipe {
        Pipe { tls, local, inwards: Buffer::default(), outwards: Buffer::default() }
    }

    pub(super) fn turn(&mut self) -> Turn {
        for _ in 0..STEPS_A_TURN {
            match self.step() {
                Ok(true) => {}
                Ok(false) if self.inwards.end_passed && self.outwards.end_passed => {
                    return Turn::Over;
                }
                Ok(false) => return Turn::Idle,
                Err(_) => return Turn::Over,
            }
        }
        Turn::More
    }

    /// Carries some bytes each way; whether there were any.
    fn step(&mut self) -> io::Result<bool> {
        let Pipe { tls, local, inwards, outwards } = self;
        let mut moved = inwards.take(|into| match tls.ssl_read(into) {
            Ok(count) => Ok(count),
            Err(error) => match error.code() {
                ErrorCode::ZERO_RETURN => Ok(0),
                ErrorCode::WANT_READ | ErrorCode::WANT_WRITE => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                _ => Err(error.into_io_error().unwrap_or_else(io::Error::other)),
            },
        })?;
        moved |= inwards.give(|bytes| local.write(bytes))?;
        if inwards.ends() {
            let _ = local.shutdown(Shutdown::Write);
        }
        moved |= outwards.take(|into| local.read(into))?;
        moved |= outwards.give(|bytes| match tls.ssl_write(bytes) {
            Ok(count) => Ok(count),
            Err(error) => match error.code() {
                ErrorCode::WANT_READ | ErrorCode::WANT_WRITE => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                _ => Err(error.into_io_error().unwrap_or_else(io::Error::other)),
            },
        })?;
        if outwards.ends() {
            let _ = tls.shutdown();
            let _ = tls.get_ref().shutdown(Shutdown::Write);
        }
        Ok(moved)
    }
}

/// A TLS handshake under way.
pub(super) struct Handshake {
    pub(super) tls: SslStream<TcpStream>,
    pub(super) accepts: bool,
}

impl Handshake {
    /// Goes on with it; whether it is done.
    pub(super) fn turn(&mut self) -> Result<bool, TlsError> {
        let step = if self.accepts { self.tls.accept() } else { self.tls.connect() };
        match step {
            Ok(()) => Ok(true),
            Err(error) => match error.code() {
                ErrorCode::WANT_READ | ErrorCode::WANT_WRITE => Ok(false),
                _ => Err(TlsError::Handshake(match error.ssl_error() {
                    Some(stack) => stack.to_string(),
                    None => error.to_string(),
                })),
            },
        }
    }
}
