//! A file of lines that is only appended to. A line is there as a whole or not at all: what a failed
//! write leaves is cut off again, and so is what a killed writer left without its end.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};

/// The longest line, in bytes. A result has some thousand; one of many flows has more.
const LINE_MAX: u64 = 256 << 20;

/// File operations that lines need; tests replace the file.
pub(super) trait Storage: Read + Write + Seek {
    fn set_len(&mut self, bytes: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

impl Storage for File {
    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Where a line is, in bytes, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    at: u64,
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct Lines<S> {
    storage: S,
    /// Offset of the end of the last complete line.
    end: u64,
}

impl<S: Storage> Lines<S> {
    pub(super) fn new(storage: S) -> io::Result<Lines<S>> {
        Ok(Lines { storage, end: 0 })
    }

    /// Calls `see` for every complete line until it returns false. If it never does, an incomplete
    /// line at the end is cut off.
    pub(super) fn scan(&mut self, see: &mut dyn FnMut(Place, &[u8]) -> bool) -> io::Result<()> {
        self.storage.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::with_capacity(1 << 20, &mut self.storage);
        let mut line = Vec::new();
        let mut at = 0;
        loop {
            line.clear();
            let read = (&mut reader).take(LINE_MAX + 1).read_until(b'\n', &mut line)? as u64;
            if read > LINE_MAX {
                let message = format!("a line is longer than {} MiB", LINE_MAX >> 20);
                return Err(io::Error::new(ErrorKind::InvalidData, message));
            }
            if line.pop() != Some(b'\n') {
                break;
            }
            if !see(Place { at, bytes: read - 1 }, &line) {
                return Ok(());
            }
            at += read;
        }
        self.end = at;
        Ok(())
    }

    /// Truncates the file, so that the first line can be written.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.end = 0;
        self.storage.set_len(0)
    }

    /// Appends a line and syncs it. It must not hold a line end.
    pub(super) fn append(&mut self, line: &str) -> io::Result<Place> {
        debug_assert!(!line.contains('\n'));
        let text = format!("{line}\n");
        let written = self
            .storage
            .set_len(self.end)
            .and_then(|()| self.storage.seek(SeekFrom::Start(self.end)))
            .and_then(|_| self.storage.write_all(text.as_bytes()))
            .and_then(|()| self.storage.sync());
        if let Err(error) = written {
            // If this fails as well, whoever opens it next cuts it off.
            let _ = self.storage.set_len(self.end).and_then(|()| self.storage.sync());
            return Err(error);
        }
        let place = Place { at: self.end, bytes: line.len() as u64 };
        self.end += text.len() as u64;
        Ok(place)
    }

    /// Reads a line that was seen or appended.
    pub(super) fn read(&mut self, place: Place) -> io::Result<Vec<u8>> {
        self.storage.seek(SeekFrom::Start(place.at))?;
        let mut line = Vec::new();
        (&mut self.storage).take(place.bytes).read_to_end(&mut line)?;
        Ok(line)
    }
}
