//! The mapping tables, complete and exact: where each logical unit and each translation
//! page is, and what each physical slot holds. A cached table changes when entries are
//! known to the controller, never what they say.

use crate::ftl::space::Shape;
use crate::number::{Lpn, Ppn};
use crate::state::{Reader, StateError, Writer};
use mynah_memory::prefetch;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Unit(Lpn),
    TranslationPage(u32),
}

/// Both directions. Entries are stored plus one, so that untouched memory (zero) means
/// "none" and a large drive costs nothing until it is written.
pub(crate) struct Table {
    /// Slot of each logical unit.
    physical: Vec<u32>,
    /// What each slot holds: a logical unit, or beyond their number a translation page.
    logical: Vec<u32>,
    /// First slot of each translation page.
    translation: Vec<u32>,
    units: u32,
}

impl Table {
    pub(crate) fn new(shape: &Shape, units: u32, translation_pages: u32) -> Table {
        Table {
            physical: vec![0; units as usize],
            logical: vec![0; shape.slots()],
            translation: vec![0; translation_pages as usize],
            units,
        }
    }

    pub(crate) fn units(&self) -> u32 {
        self.units
    }

    pub(crate) fn translation_pages(&self) -> u32 {
        self.translation.len() as u32
    }

    /// The slot that holds `unit`.
    #[inline]
    pub(crate) fn slot(&self, unit: Lpn) -> Option<Ppn> {
        self.physical[unit].checked_sub(1).map(Ppn)
    }

    /// The first slot of the page that holds translation page `page`.
    #[inline]
    pub(crate) fn translation_slot(&self, page: u32) -> Option<Ppn> {
        self.translation[page as usize].checked_sub(1).map(Ppn)
    }

    /// What was written to `slot` last, valid or not.
    #[inline]
    pub(crate) fn written(&self, slot: Ppn) -> Option<Content> {
        let code = self.logical[slot].checked_sub(1)?;
        Some(match code.checked_sub(self.units) {
            None => Content::Unit(Lpn(code)),
            Some(page) => Content::TranslationPage(page),
        })
    }

    fn is_written(&self, slot: Ppn) -> bool {
        self.logical[slot] != 0
    }

    /// What `slot` holds, if that is still where the mapping says it is.
    #[inline]
    pub(crate) fn content(&self, slot: Ppn) -> Option<Content> {
        let content = self.written(slot)?;
        let current = match content {
            Content::Unit(unit) => self.slot(unit),
            Content::TranslationPage(page) => self.translation_slot(page),
        };
        (current == Some(slot)).then_some(content)
    }

    /// Asks for the entry of `unit`, which will soon be looked at.
    #[inline]
    pub(crate) fn prefetch(&self, unit: Lpn) {
        if let Some(entry) = self.physical.get(unit.index()) {
            prefetch(entry);
        }
    }

    /// Asks for what says what `slot` holds.
    #[inline]
    pub(crate) fn prefetch_slot(&self, slot: Ppn) {
        if let Some(code) = self.logical.get(slot.index()) {
            prefetch(code);
        }
    }

    /// Asks for the entry of what `slot` holds, when the slot itself is near.
    #[inline]
    pub(crate) fn prefetch_content(&self, slot: Ppn) {
        if let Some(code) = self.logical.get(slot.index()) {
            self.prefetch(Lpn(code.wrapping_sub(1)));
        }
    }

    /// Maps `content` to `slot`; returns where it was before.
    #[inline]
    pub(crate) fn map(&mut self, content: Content, slot: Ppn) -> Option<Ppn> {
        let (entry, code) = match content {
            Content::Unit(unit) => (&mut self.physical[unit], unit.0),
            Content::TranslationPage(page) => {
                (&mut self.translation[page as usize], self.units + page)
            }
        };
        let before = std::mem::replace(entry, slot.0 + 1);
        self.logical[slot] = code + 1;
        before.checked_sub(1).map(Ppn)
    }

    /// Forgets where `unit` is; returns where it was.
    #[inline]
    pub(crate) fn unmap(&mut self, unit: Lpn) -> Option<Ppn> {
        std::mem::take(&mut self.physical[unit]).checked_sub(1).map(Ppn)
    }

    /// Puts a mapping back after a program that never finished.
    pub(crate) fn restore(&mut self, content: Content, slot: Option<Ppn>) {
        let stored = slot.map_or(0, |slot| slot.0 + 1);
        match content {
            Content::Unit(unit) => self.physical[unit] = stored,
            Content::TranslationPage(page) => self.translation[page as usize] = stored,
        }
    }

    /// Marks a slot as holding nothing.
    #[inline]
    pub(crate) fn clear_slot(&mut self, slot: Ppn) {
        self.logical[slot] = 0;
    }

    /// Writes both tables; the other direction follows from them.
    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        out.numbers(self.physical.iter().copied());
        out.numbers(self.translation.iter().copied());
    }

    /// Takes what [`Table::save`] wrote; the valid units of each block.
    pub(crate) fn restore_all(
        &mut self,
        shape: &Shape,
        input: &mut Reader<'_>,
    ) -> Result<Vec<u16>, StateError> {
        let slots = self.logical.len() as u32;
        self.physical = input.all("mapping entries", self.physical.len(), slots + 1)?;
        let pages = self.translation.len();
        self.translation = input.all("translation pages", pages, slots + 1)?;
        self.logical.fill(0);
        let mut valid = vec![0u16; (shape.planes * shape.blocks_per_plane) as usize];
        let twice = || StateError::Damaged("a place on flash holds two things".into());
        for (code, entry) in self.physical.iter().chain(&self.translation).enumerate() {
            let Some(slot) = entry.checked_sub(1).map(Ppn) else { continue };
            let place = &mut self.logical[slot];
            if std::mem::replace(place, code as u32 + 1) != 0 {
                return Err(twice());
            }
            let units = if code < self.physical.len() { 1 } else { shape.units_per_page };
            let block = &mut valid[shape.block_of_slot(slot)];
            let sum = u32::from(*block) + units;
            if sum > shape.units_per_block {
                return Err(twice());
            }
            *block = sum as u16;
        }
        for slot in self.translation.iter().filter_map(|entry| entry.checked_sub(1)) {
            let rest = slot + 1..(slot + shape.units_per_page).min(slots);
            if slot % shape.units_per_page != 0
                || rest.into_iter().any(|it| self.is_written(Ppn(it)))
            {
                return Err(twice());
            }
        }
        Ok(valid)
    }

    /// Folds where everything is into a hash.
    pub(crate) fn hash(&self, hash: &mut crate::observe::account::StateHash) {
        self.physical.iter().chain(&self.translation).for_each(|&entry| hash.add(entry));
    }
}
