//! The mapping tables, complete and exact: where each logical unit and each translation
//! page is, and what each PPN holds. A cached table changes when entries are
//! known to the controller, never what they say.

use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::snapshot::words;
use crate::number::{Lpn, Mvpn, Ppn};
use crate::space::Shape;
use mynah_memory::prefetch;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    Unit(Lpn),
    TranslationPage(Mvpn),
}

/// Both directions. Entries are stored plus one, so that untouched memory (zero) means
/// "none" and a large drive costs nothing until it is written.
#[derive(Serialize, Deserialize)]
pub(crate) struct Table {
    /// PPN of each logical unit.
    #[serde(with = "words")]
    physical: Vec<u32>,
    /// What each PPN holds: a logical unit, or beyond their number a translation page.
    #[serde(with = "words")]
    logical: Vec<u32>,
    /// First PPN of each translation page.
    #[serde(with = "words")]
    translation: Vec<u32>,
    units: u32,
}

impl Clone for Table {
    /// What is untouched here is untouched there.
    fn clone(&self) -> Table {
        Table {
            physical: touched(&self.physical),
            logical: touched(&self.logical),
            translation: self.translation.clone(),
            units: self.units,
        }
    }
}

/// Entries that are looked at together for whether any is there.
const TOGETHER: usize = 1 << 14;

fn touched(from: &[u32]) -> Vec<u32> {
    let mut to = vec![0; from.len()];
    for (from, to) in from.chunks(TOGETHER).zip(to.chunks_mut(TOGETHER)) {
        if from.iter().any(|entry| *entry != 0) {
            to.copy_from_slice(from);
        }
    }
    to
}

impl Table {
    pub(crate) fn new(shape: &Shape, units: u32, translation_pages: u32) -> Table {
        Table {
            physical: vec![0; units as usize],
            logical: vec![0; shape.ppns()],
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

    #[inline]
    pub(crate) fn ppn(&self, lpn: Lpn) -> Option<Ppn> {
        self.physical[lpn].checked_sub(1).map(Ppn)
    }

    /// The first PPN of the page that holds translation page `page`.
    #[inline]
    pub(crate) fn translation_ppn(&self, page: Mvpn) -> Option<Ppn> {
        self.translation[page].checked_sub(1).map(Ppn)
    }

    /// What was written to `ppn` last, valid or not.
    #[inline]
    pub(crate) fn written(&self, ppn: Ppn) -> Option<Content> {
        let code = self.logical[ppn].checked_sub(1)?;
        Some(match code.checked_sub(self.units) {
            None => Content::Unit(Lpn(code)),
            Some(page) => Content::TranslationPage(Mvpn(page)),
        })
    }

    fn is_written(&self, ppn: Ppn) -> bool {
        self.logical[ppn] != 0
    }

    /// What `ppn` holds, if that is still where the mapping says it is.
    #[inline]
    pub(crate) fn content(&self, ppn: Ppn) -> Option<Content> {
        let content = self.written(ppn)?;
        let current = match content {
            Content::Unit(lpn) => self.ppn(lpn),
            Content::TranslationPage(page) => self.translation_ppn(page),
        };
        (current == Some(ppn)).then_some(content)
    }

    /// Asks for the entry of `lpn`, which will soon be looked at.
    #[inline]
    pub(crate) fn prefetch(&self, lpn: Lpn) {
        if let Some(entry) = self.physical.get(lpn.index()) {
            prefetch(entry);
        }
    }

    /// Asks for what says what `ppn` holds.
    #[inline]
    pub(crate) fn prefetch_ppn(&self, ppn: Ppn) {
        if let Some(code) = self.logical.get(ppn.index()) {
            prefetch(code);
        }
    }

    /// Asks for the entry of what `ppn` holds, when the PPN itself is near.
    #[inline]
    pub(crate) fn prefetch_content(&self, ppn: Ppn) {
        if let Some(code) = self.logical.get(ppn.index()) {
            self.prefetch(Lpn(code.wrapping_sub(1)));
        }
    }

    /// Maps `content` to `ppn`; returns where it was before.
    #[inline]
    pub(crate) fn map(&mut self, content: Content, ppn: Ppn) -> Option<Ppn> {
        let (entry, code) = match content {
            Content::Unit(lpn) => (&mut self.physical[lpn], lpn.0),
            Content::TranslationPage(page) => (&mut self.translation[page], self.units + page.0),
        };
        let before = std::mem::replace(entry, ppn.0 + 1);
        self.logical[ppn] = code + 1;
        before.checked_sub(1).map(Ppn)
    }

    /// Forgets where `lpn` is; returns where it was.
    #[inline]
    pub(crate) fn unmap(&mut self, lpn: Lpn) -> Option<Ppn> {
        std::mem::take(&mut self.physical[lpn]).checked_sub(1).map(Ppn)
    }

    /// Forgets where translation page `page` is; returns where it was.
    pub(crate) fn forget_translation_page(&mut self, page: Mvpn) -> Option<Ppn> {
        std::mem::take(&mut self.translation[page]).checked_sub(1).map(Ppn)
    }

    /// Puts a mapping back after a program that never finished.
    pub(crate) fn restore(&mut self, content: Content, ppn: Option<Ppn>) {
        let stored = ppn.map_or(0, |ppn| ppn.0 + 1);
        match content {
            Content::Unit(lpn) => self.physical[lpn] = stored,
            Content::TranslationPage(page) => self.translation[page] = stored,
        }
    }

    /// Marks a PPN as holding nothing.
    #[inline]
    pub(crate) fn clear_ppn(&mut self, ppn: Ppn) {
        self.logical[ppn] = 0;
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
        let ppns = self.logical.len() as u32;
        self.physical = input.all("mapping entries", self.physical.len(), ppns + 1)?;
        let pages = self.translation.len();
        self.translation = input.all("translation pages", pages, ppns + 1)?;
        self.logical.fill(0);
        let mut valid = vec![0u16; (shape.planes * shape.blocks_per_plane) as usize];
        let twice = || StateError::Damaged("a place on flash holds two things".into());
        for (code, entry) in self.physical.iter().chain(&self.translation).enumerate() {
            let Some(ppn) = entry.checked_sub(1).map(Ppn) else { continue };
            let place = &mut self.logical[ppn];
            if std::mem::replace(place, code as u32 + 1) != 0 {
                return Err(twice());
            }
            let units = if code < self.physical.len() { 1 } else { shape.units_per_page };
            let block = &mut valid[shape.block_of_ppn(ppn)];
            let sum = u32::from(*block) + units;
            if sum > shape.units_per_block {
                return Err(twice());
            }
            *block = sum as u16;
        }
        for ppn in self.translation.iter().filter_map(|entry| entry.checked_sub(1)) {
            let rest = ppn + 1..(ppn + shape.units_per_page).min(ppns);
            if ppn % shape.units_per_page != 0
                || rest.into_iter().any(|it| self.is_written(Ppn(it)))
            {
                return Err(twice());
            }
        }
        Ok(valid)
    }

    /// Folds where everything is into a hash.
    pub(crate) fn hash(&self, hash: &mut crate::kernel::hash::StateHash) {
        self.physical.iter().chain(&self.translation).for_each(|&entry| hash.add(entry));
    }
}
