//! What is to be remembered of commands until they end.

use super::requests::Requests;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::SubmissionEntry;

/// What is remembered of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Note {
    pub(crate) command_id: u16,
    pub(crate) taken: bool,
    pub(crate) opcode: u8,
    pub(crate) namespace: u16,
    pub(crate) outstanding: u16,
    pub(crate) batch: u16,
    pub(crate) nth: u32,
    pub(crate) block: u64,
    /// When it came, when it came out of the subsystem, and when its answer was put into the output.
    pub(crate) arrived: Time,
    pub(crate) done: Time,
    pub(crate) answered: Time,
    /// By how much it may have come before, and when it was seen.
    pub(crate) gap: Span,
    pub(crate) seen: Time,
    /// When its data were asked for, if they were, and how often.
    pub(crate) asked: Option<Time>,
    pub(crate) requests: u32,
    /// Bytes in the output before its answer.
    pub(crate) ahead: u32,
}

impl Note {
    /// What a command says of itself.
    #[inline]
    pub(crate) fn of(entry: &SubmissionEntry) -> Note {
        Note {
            command_id: entry.command_id.get(),
            opcode: entry.opcode,
            namespace: entry.namespace_id.get() as u16,
            block: entry.start_lba(),
            ..Note::default()
        }
    }
}

/// What is remembered of a connection.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) notes: Notes,
    pub(crate) requests: Requests,
    /// Commands that came at once, and the last of them.
    batch: u16,
    last: u16,
}

impl Noted {
    /// Bytes were received: a new batch of commands begins.
    #[inline]
    pub(crate) fn batch_begins(&mut self) {
        self.batch = 0;
    }

    /// A command has come, with all its data; these had to be asked for or not.
    #[inline]
    pub(crate) fn command(&mut self, note: Note, was_asked: bool) {
        self.batch = self.batch.saturating_add(1);
        self.last = note.command_id;
        let place = self.notes.put(Note { batch: self.batch, ..note });
        if was_asked && let Some(asked) = self.requests.complete(place.command_id) {
            (place.asked, place.requests) = (Some(asked.first), asked.count);
        }
    }

    /// Forgets all commands of the connection.
    pub(crate) fn clear(&mut self) {
        self.notes.clear();
        self.requests = Requests::default();
    }

    /// What came at once has been dealt with: the last command came so long before at most.
    pub(crate) fn batch_ends(&mut self, gap: Span) {
        if self.batch > 0
            && let Some(note) = self.notes.get_mut(self.last)
        {
            note.gap = gap;
        }
    }
}

/// Notes of the commands of a connection, by their identifiers. Linux and Mynah number commands by
/// slots, from 0, with a generation above 12 bits (nvme_cid): as many places as there are slots do.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Its length is 0 or a power of two.
    places: Vec<Note>,
}

/// Places at first. There are never more than there are identifiers.
const PLACES_MIN: usize = 64;
const PLACES_MAX: usize = 1 << 16;

impl Notes {
    /// Notes a command that has come. One of the same identifier, which its host must not have used
    /// again, is forgotten.
    #[inline]
    pub(crate) fn put(&mut self, note: Note) -> &mut Note {
        let id = usize::from(note.command_id);
        while self.places.is_empty() || self.is_crowded(id) {
            self.grow();
        }
        let mask = self.places.len() - 1;
        let place = &mut self.places[id & mask];
        *place = Note { taken: true, ..note };
        place
    }

    /// Whether another command is where this one's note would be.
    #[inline]
    fn is_crowded(&self, id: usize) -> bool {
        let place = &self.places[id & (self.places.len() - 1)];
        place.taken && usize::from(place.command_id) != id && self.places.len() < PLACES_MAX
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.places.len() * 2).max(PLACES_MIN);
        let old = std::mem::replace(&mut self.places, vec![Note::default(); count]);
        for note in old.into_iter().filter(|note| note.taken) {
            self.places[usize::from(note.command_id) & (count - 1)] = note;
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, command_id: u16) -> Option<&mut Note> {
        let mask = self.places.len().checked_sub(1)?;
        let place = &mut self.places[usize::from(command_id) & mask];
        (place.taken && place.command_id == command_id).then_some(place)
    }

    pub(crate) fn clear(&mut self) {
        self.places.iter_mut().for_each(|place| place.taken = false);
    }

    /// Takes it away: it can be read until there is another.
    #[inline]
    pub(crate) fn take(&mut self, command_id: u16) -> Option<&Note> {
        let note = self.get_mut(command_id)?;
        note.taken = false;
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn notes_are_a_map(steps in prop::collection::vec((any::<u16>(), any::<bool>(), 0u32..9), 0..300)) {
            let mut notes = Notes::default();
            let mut expected = BTreeMap::new();
            for (id, puts, nth) in steps {
                // Near each other, and far.
                let command_id = if nth < 5 { id % 100 } else { id };
                if puts {
                    notes.put(Note { command_id, nth, ..Note::default() });
                    expected.insert(command_id, nth);
                } else {
                    let taken = notes.take(command_id).map(|note| note.nth);
                    prop_assert_eq!(taken, expected.remove(&command_id));
                }
            }
            for (id, nth) in expected {
                prop_assert_eq!(notes.get_mut(id).map(|note| note.nth), Some(nth));
            }
        }
    }
}
