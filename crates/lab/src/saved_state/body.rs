//! What of a state's file its checksum is over, written and read piece by piece.

use super::{CHECKSUM, Checksum};
use flate2::read::ZlibDecoder;
use sha2::{Digest, Sha256};
use std::io::{self, Read, Take, Write};

/// Computes the checksum of all bytes that are read or written through it.
#[derive(Debug)]
pub(super) struct Summed<T> {
    inner: T,
    bytes: u64,
    checksum: Sha256,
    /// The system's error, if reading failed.
    error: Option<io::Error>,
}

impl<T> Summed<T> {
    pub(super) fn new(inner: T) -> Summed<T> {
        Summed { inner, bytes: 0, checksum: Sha256::new(), error: None }
    }

    /// The underlying reader or writer, and the checksum of all bytes.
    pub(super) fn end(self) -> (T, Checksum) {
        (self.inner, self.checksum.finalize().into())
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.checksum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(into) {
            Ok(read) => {
                self.bytes += read as u64;
                self.checksum.update(&into[..read]);
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                // Decoders give it another form.
                self.error = Some(io::Error::new(error.kind(), error.to_string()));
                Err(error)
            }
        }
    }
}

/// A state's file while it is read, without the checksum at its end.
#[derive(Debug)]
pub(super) enum Body<R> {
    Plain(Summed<Take<R>>),
    /// Compressed from this byte offset on.
    Deflated(Box<ZlibDecoder<Summed<Take<R>>>>, u64),
}

impl<R: Read> Body<R> {
    /// A body of `bytes` bytes, read from `input`.
    pub(super) fn new(input: R, bytes: u64) -> Body<R> {
        Body::Plain(Summed::new(input.take(bytes)))
    }

    /// Continues as a compressed body, from the current position.
    pub(super) fn inflated(self) -> Body<R> {
        match self {
            Body::Plain(input) => {
                let begin = input.bytes;
                Body::Deflated(Box::new(ZlibDecoder::new(input)), begin)
            }
            deflated => deflated,
        }
    }

    /// Fills `bytes`; false if the body ends before.
    pub(super) fn take(&mut self, bytes: &mut [u8]) -> bool {
        let read = match self {
            Body::Plain(input) => input.read_exact(bytes),
            Body::Deflated(input, _) => input.read_exact(bytes),
        };
        read.is_ok()
    }

    /// The system's error, if reading failed.
    pub(super) fn error(&mut self) -> Option<io::Error> {
        match self {
            Body::Plain(input) => input.error.take(),
            Body::Deflated(input, _) => input.get_mut().error.take(),
        }
    }

    /// Whether something of it is left.
    pub(super) fn has_more(&mut self) -> bool {
        match self {
            Body::Plain(input) => input.inner.limit() > 0,
            Body::Deflated(input, begin) => {
                let Ok(read) = input.read(&mut [0]) else { return false };
                // It may have read further than its end.
                let used = *begin + input.total_in();
                let below = input.get_ref();
                read > 0 || below.bytes > used || below.inner.limit() > 0
            }
        }
    }

    /// Reads what is left; whether the checksum that follows is that of everything.
    pub(super) fn ends_whole(self) -> bool {
        let mut input = match self {
            Body::Plain(input) => input,
            Body::Deflated(input, _) => input.into_inner(),
        };
        if io::copy(&mut input, &mut io::sink()).is_err() || input.inner.limit() > 0 {
            return false;
        }
        let (input, found) = input.end();
        let mut expected = [0; CHECKSUM];
        input.into_inner().read_exact(&mut expected).is_ok() && found == expected
    }
}
