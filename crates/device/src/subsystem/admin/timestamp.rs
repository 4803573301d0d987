//! The timestamp feature (Base 2.0, section 5.27.1.12).

use mynah_stamp::Time;

/// A clock that the host sets.
#[derive(Debug, Default)]
pub(crate) struct Timestamp {
    /// Milliseconds when it was set, and when that was.
    set: Option<(u64, Time)>,
}

const MILLISECOND_PS: u64 = 1_000_000_000;
const BITS: u64 = (1 << 48) - 1;

impl Timestamp {
    pub(crate) fn set(&mut self, bytes: &[u8; 8], now: Time) {
        self.set = Some((u64::from_le_bytes(*bytes) & BITS, now));
    }

    /// The feature's data: milliseconds, and where they come from.
    pub(crate) fn bytes(&self, now: Time) -> [u8; 8] {
        let (start, since) = self.set.unwrap_or((0, Time::ZERO));
        let value = start + now.saturating_since(since).as_ps() / MILLISECOND_PS;
        let origin = u64::from(self.set.is_some());
        (value & BITS | origin << 49).to_le_bytes()
    }
}
