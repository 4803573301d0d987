//! Bytes on their way to the socket.

/// A buffer that is filled at its end and sent from its start.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Everything up to the longest extent so far; what lies outside of `start..end` is
    /// left over.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Outbox {
    /// Room for `bytes` more at the end, to be filled whole: it holds leftovers.
    #[inline]
    pub(super) fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.start > 0 && self.end + bytes > self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end + bytes > self.bytes.len() {
            let length = (self.end + bytes).next_power_of_two();
            self.bytes.resize(length, 0);
        }
        let from = self.end;
        self.end += bytes;
        &mut self.bytes[from..self.end]
    }

    /// What is not yet sent.
    #[inline]
    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The first `bytes` were sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "more was sent than there was");
        self.start += bytes;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }
}
