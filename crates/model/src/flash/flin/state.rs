//! What FLIN knows of flows, as bytes: how much each asked of each die in this epoch, who is
//! intensive, how they fared, and who has caused the collection to come. An epoch that is over
//! is judged when the drive is saved.

use super::{Flin, Note, Owed, READS, Share, WRITES};
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::number::WriteIndex;
use mynah_stamp::{Span, Time};

/// Bytes and picoseconds beyond this have not been counted by any drive; their sums cannot
/// overflow.
const MOST: u64 = 1 << 60;

impl Flin {
    /// `queued` are the parts of pages that wait, which have their estimates.
    pub(in crate::flash) fn save(
        &mut self,
        now: Time,
        queued: &[WriteIndex],
        out: &mut Writer<'_>,
    ) {
        self.classify(now);
        // Of reads there are none, and what comes next finds nothing of those before.
        self.notes[READS].clear();
        out.number(self.epoch_end.since(now).as_ps());
        out.number(self.shares.len() as u64);
        for share in &self.shares {
            out.number(share.bytes);
            out.number(share.slowdowns.to_bits());
            let flag = u64::from(share.intensive) << 32;
            out.number(flag | u64::from(share.count));
            out.number(share.written.into());
        }
        for owed in &self.owed {
            out.number(
                owed.map_or(0, |owed| (u64::from(owed.holder) + 1) << 32 | u64::from(owed.moves)),
            );
        }
        for &part in queued {
            let note = self.note(WRITES, part.0);
            out.number(note.alone.as_ps());
            out.number(note.alone_service.as_ps());
            out.number(u64::from(note.intensive) | u64::from(note.moved) << 1);
        }
    }

    pub(in crate::flash) fn restore(
        &mut self,
        now: Time,
        queued: &[WriteIndex],
        input: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        let damaged = |what: &str| Err(StateError::Damaged(what.into()));
        let left = Span::from_ps(input.number()?);
        if left > self.config.epoch {
            return damaged("an epoch");
        }
        self.epoch_end = now + left;
        if input.number()? != self.shares.len() as u64 {
            return damaged("flows");
        }
        for share in &mut self.shares {
            let bytes = input.number()?;
            let slowdowns = f64::from_bits(input.number()?);
            let (count, written) = (input.number()?, input.number()?);
            let fits = bytes <= MOST
                && slowdowns.is_finite()
                && slowdowns >= 0.0
                && count >> 33 == 0
                && written <= u32::MAX.into();
            if !fits {
                return damaged("what a flow asked");
            }
            let (intensive, count) = (count >> 32 == 1, count as u32);
            *share = Share { bytes, intensive, slowdowns, count, written: written as u32 };
        }
        for die in 0..self.owed.len() {
            let packed = input.number()?;
            let (holder, moves) = (packed >> 32, packed as u32);
            if holder > self.holders as u64 || holder == 0 && moves > 0 {
                return damaged("owed collection");
            }
            self.owed[die] = (holder > 0).then(|| Owed { holder: holder as u16 - 1, moves });
        }
        for &part in queued {
            let (alone, alone_service) = (input.number()?, input.number()?);
            let flags = input.number()?;
            if alone > MOST || alone_service > MOST || flags > 3 {
                return damaged("an estimate");
            }
            let note = Note {
                alone: Span::from_ps(alone),
                alone_service: Span::from_ps(alone_service),
                intensive: flags & 1 != 0,
                moved: flags & 2 != 0,
            };
            self.set_note(WRITES, part.0, note);
        }
        Ok(())
    }
}
