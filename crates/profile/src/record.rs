//! One I/O: its head, and how long each of its stages was.

use mynah_stamp::{Span, Time};

/// Words of 8 bytes that a record has before its stages.
pub const HEAD_WORDS: usize = 7;

/// What an I/O was, when, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Which record of its profile it is, from 1. It stands behind the stages once more, is taken
    /// away there before a record is written over, and written there last: so one that is being
    /// written is known.
    pub sequence: u64,
    /// The controller (CNTLID), or the flow of a simulation.
    pub connection: u16,
    pub queue: u16,
    /// The command's identifier in it.
    pub command_id: u16,
    pub namespace: u16,
    /// Bytes of data.
    pub bytes: u32,
    /// What kind of I/O it was, by the header's list.
    pub kind: u8,
    /// Its opcode; 0xff where there is none.
    pub opcode: u8,
    /// NVMe status: code type and code, 0 for success.
    pub status: u16,
    /// Which command of its connection it was, from 0, modulo 2^32: both ends count alike.
    pub nth: u32,
    /// Commands of the connection that were outstanding when it came, itself included.
    pub outstanding: u16,
    /// Commands that came together with it, at one look, itself included.
    pub batch: u16,
    /// First block, or the number of a key.
    pub block: u64,
    /// When its first stage began.
    pub begin: Time,
    /// From `begin` to the end of its last stage.
    pub total: Span,
    /// It has a record since it was slow, and is not of the sample: means and percentiles of the
    /// sample are without it.
    pub kept: bool,
}

/// The bit of the kind that says so of a file's record. There are fewer kinds than that.
const KEPT: u8 = 0x80;

impl Head {
    #[inline]
    pub fn to_words(&self) -> [u64; HEAD_WORDS] {
        let shorts = |a: u16, b: u16, c: u16, d: u16| {
            u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48
        };
        [
            self.sequence,
            shorts(self.connection, self.queue, self.command_id, self.namespace),
            u64::from(self.bytes)
                | u64::from(self.kind | if self.kept { KEPT } else { 0 }) << 32
                | u64::from(self.opcode) << 40
                | u64::from(self.status) << 48,
            u64::from(self.nth) | u64::from(self.outstanding) << 32 | u64::from(self.batch) << 48,
            self.block,
            self.begin.as_ps(),
            self.total.as_ps(),
        ]
    }

    /// From words of a file, which may be anything.
    pub fn from_words(words: &[u64; HEAD_WORDS]) -> Head {
        let [sequence, ids, what, count, block, begin, total] = *words;
        Head {
            sequence,
            connection: ids as u16,
            queue: (ids >> 16) as u16,
            command_id: (ids >> 32) as u16,
            namespace: (ids >> 48) as u16,
            bytes: what as u32,
            kind: (what >> 32) as u8 & !KEPT,
            kept: (what >> 32) as u8 & KEPT != 0,
            opcode: (what >> 40) as u8,
            status: (what >> 48) as u16,
            nth: count as u32,
            outstanding: (count >> 32) as u16,
            batch: (count >> 48) as u16,
            block,
            begin: Time::from_ps(begin),
            total: Span::from_ps(total),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub head: Head,
    /// Its stages, in the header's order.
    pub stages: &'a [Span],
    /// What is beside them, in the header's order.
    pub beside: &'a [u64],
}

impl Record<'_> {
    /// By how much its stages fall short of the whole, or are too long: nothing in a profile that is
    /// right.
    pub fn residual(&self) -> i128 {
        let stages: u128 = self.stages.iter().map(|span| u128::from(span.as_ps())).sum();
        i128::from(self.head.total.as_ps()) - stages as i128
    }
}
