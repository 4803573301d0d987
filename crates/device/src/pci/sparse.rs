//! Guest memory for tests: pages in a map.

use super::data::PAGE;
use super::memory::{GuestMemory, Unmapped};
use std::cell::RefCell;
use std::collections::HashMap;

type Page = Box<[u8]>;

/// Memory of which only what is mapped exists, by whole pages of 4 KiB.
#[derive(Debug, Default)]
pub struct SparseMemory {
    pages: RefCell<HashMap<u64, Page>>,
}

impl SparseMemory {
    /// Maps the pages that these bytes touch; new ones are zero.
    pub fn map(&self, at: u64, bytes: u64) {
        let mut pages = self.pages.borrow_mut();
        for page in at / PAGE..(at + bytes).div_ceil(PAGE) {
            pages.entry(page).or_insert_with(|| vec![0; PAGE as usize].into());
        }
    }

    /// Takes the pages away that these bytes touch.
    pub fn unmap(&self, at: u64, bytes: u64) {
        let mut pages = self.pages.borrow_mut();
        for page in at / PAGE..(at + bytes).div_ceil(PAGE) {
            pages.remove(&page);
        }
    }

    /// Calls `each` with the parts of a range by page: in the page, and in the range.
    fn parts(
        &self,
        at: u64,
        bytes: usize,
        mut each: impl FnMut(&mut [u8], usize),
    ) -> Result<(), Unmapped> {
        at.checked_add(bytes as u64).ok_or(Unmapped)?;
        let mut pages = self.pages.borrow_mut();
        let mut done = 0;
        while done < bytes {
            let here = at + done as u64;
            let first = (here % PAGE) as usize;
            let count = (bytes - done).min(PAGE as usize - first);
            let page = pages.get_mut(&(here / PAGE)).ok_or(Unmapped)?;
            each(&mut page[first..first + count], done);
            done += count;
        }
        Ok(())
    }
}

impl GuestMemory for SparseMemory {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unmapped> {
        let bytes = into.len();
        self.parts(at, bytes, |page, from| into[from..from + page.len()].copy_from_slice(page))
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        self.parts(at, from.len(), |page, first| {
            page.copy_from_slice(&from[first..first + page.len()]);
        })
    }

    fn write_completions(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        self.write(at, from)
    }
}
