//! MSI-X: the table, the pending bits, and which vectors are to be signalled.
//!
//! A client of VFIO's kind keeps the table and its masks to itself, although it passes on that
//! MSI-X is enabled: then every vector that is raised is signalled, unless the transport holds it
//! back. Where the host itself writes the table, what it masks is kept pending.

use mynah_wire::pci::{MSIX_ENABLE, MSIX_ENTRY_BYTES, MSIX_MASK_ALL, MSIX_MASKED};

/// One bit for each vector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bits(Box<[u64]>);

impl Bits {
    fn new(count: u16) -> Bits {
        Bits(vec![0; usize::from(count).div_ceil(64)].into())
    }

    fn get(&self, at: u16) -> bool {
        self.0[usize::from(at / 64)] >> (at % 64) & 1 != 0
    }

    fn set(&mut self, at: u16, value: bool) {
        let (word, bit) = (&mut self.0[usize::from(at / 64)], 1 << (at % 64));
        if value { *word |= bit } else { *word &= !bit }
    }
}

#[derive(Debug)]
pub(super) struct MsixTable {
    vectors: u16,
    table: Vec<u8>,
    pending: Bits,
    /// Vectors that the transport masks.
    held: Bits,
    /// Vectors that are to be signalled to the host.
    ready: Bits,
    any_ready: bool,
    /// The Message Control register of the capability.
    control: u16,
    /// INTMS: vectors 0 to 31 that are masked while MSI-X is off.
    pub(super) mask: u32,
    /// Masking is the transport's.
    is_transports: bool,
}

impl MsixTable {
    /// A table whose masks count; or, if masking is the transport's, only
    /// [`MsixTable::hold`] does.
    pub(super) fn new(vectors: u16, is_transports: bool) -> MsixTable {
        let mut table = vec![0; usize::from(vectors) * MSIX_ENTRY_BYTES];
        for entry in table.chunks_exact_mut(MSIX_ENTRY_BYTES) {
            entry[12..].copy_from_slice(&MSIX_MASKED.to_le_bytes());
        }
        MsixTable {
            vectors,
            table,
            pending: Bits::new(vectors),
            held: Bits::new(vectors),
            ready: Bits::new(vectors),
            any_ready: false,
            control: 0,
            mask: 0,
            is_transports,
        }
    }

    /// As after a reset; what the transport holds back stays so.
    pub(super) fn reset(&mut self) {
        let held = self.held.clone();
        *self = MsixTable { held, ..MsixTable::new(self.vectors, self.is_transports) };
    }

    fn is_masked(&self, vector: u16) -> bool {
        if self.held.get(vector) {
            return true;
        }
        if self.is_transports {
            return false;
        }
        if self.control & MSIX_ENABLE == 0 {
            return vector < 32 && self.mask >> vector & 1 != 0;
        }
        let at = usize::from(vector) * MSIX_ENTRY_BYTES + 12;
        self.control & MSIX_MASK_ALL != 0 || u32::from(self.table[at]) & MSIX_MASKED != 0
    }

    /// Signals a vector, or keeps it pending while it is masked.
    pub(super) fn raise(&mut self, vector: u16) {
        if vector >= self.vectors {
            return;
        }
        if self.is_masked(vector) {
            self.pending.set(vector, true);
        } else {
            self.ready.set(vector, true);
            self.any_ready = true;
        }
    }

    /// Masks may have gone: what was pending is raised again.
    fn settle(&mut self) {
        for word in 0..self.pending.0.len() {
            let mut bits = self.pending.0[word];
            while bits != 0 {
                let vector = word as u16 * 64 + bits.trailing_zeros() as u16;
                bits &= bits - 1;
                if !self.is_masked(vector) {
                    self.pending.set(vector, false);
                    self.raise(vector);
                }
            }
        }
    }

    pub(super) fn set_control(&mut self, control: u16) {
        self.control = control;
        self.settle();
    }

    pub(super) fn set_mask(&mut self, mask: u32) {
        self.mask = mask;
        self.settle();
    }

    /// The transport holds a vector back, or does no more.
    pub(super) fn hold(&mut self, vector: u16, held: bool) {
        if vector < self.vectors {
            self.held.set(vector, held);
            self.settle();
        }
    }

    /// Takes the vectors to be signalled.
    pub(super) fn take(&mut self, mut each: impl FnMut(u16)) {
        if !std::mem::take(&mut self.any_ready) {
            return;
        }
        for (at, word) in (0..).zip(self.ready.0.iter_mut()) {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                each(at * 64 + bits.trailing_zeros() as u16);
                bits &= bits - 1;
            }
        }
    }

    /// Reads the table; what lies behind its end is zero.
    pub(super) fn read_table(&self, at: usize, into: &mut [u8]) {
        copy_from(&self.table, at, into);
    }

    /// Writes the table; what lies behind its end is not there.
    pub(super) fn write_table(&mut self, at: usize, from: &[u8]) {
        for (place, byte) in self.table.iter_mut().skip(at).zip(from) {
            *place = *byte;
        }
        self.settle();
    }

    /// Reads the pending bits, which cannot be written.
    pub(super) fn read_pending(&self, at: usize, into: &mut [u8]) {
        let bytes: Vec<u8> = self.pending.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        copy_from(&bytes, at, into);
    }
}

/// Copies what there is from `at` on, and zeros behind it.
fn copy_from(bytes: &[u8], at: usize, into: &mut [u8]) {
    into.fill(0);
    for (place, byte) in into.iter_mut().zip(bytes.iter().skip(at)) {
        *place = *byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(table: &mut MsixTable) -> Vec<u16> {
        let mut vectors = vec![];
        table.take(|vector| vectors.push(vector));
        vectors
    }

    #[test]
    fn raised_vectors_are_signalled_once() {
        let mut table = MsixTable::new(129, false);
        for vector in [128, 0, 63, 64, 0, 129, 65_535] {
            table.raise(vector);
        }
        assert_eq!(taken(&mut table), [0, 63, 64, 128]);
        assert_eq!(taken(&mut table), []);
    }

    #[test]
    fn what_is_masked_is_pending_until_it_is_not() {
        let mut table = MsixTable::new(4, false);
        table.set_control(MSIX_ENABLE);
        let mut vector_2 = [0; 16];
        table.read_table(32, &mut vector_2);
        assert_eq!(vector_2[12], 1, "vectors start masked");
        table.raise(2);
        assert_eq!(taken(&mut table), []);
        let mut pending = [0xff; 8];
        table.read_pending(0, &mut pending);
        assert_eq!(pending, [4, 0, 0, 0, 0, 0, 0, 0]);
        table.write_table(32 + 12, &[0; 4]);
        assert_eq!(taken(&mut table), [2]);
        table.read_pending(0, &mut pending);
        assert_eq!(pending, [0; 8]);
        // All at once.
        table.set_control(MSIX_ENABLE | MSIX_MASK_ALL);
        table.raise(2);
        assert_eq!(taken(&mut table), []);
        table.set_control(MSIX_ENABLE);
        assert_eq!(taken(&mut table), [2]);
        // By the transport.
        table.hold(2, true);
        table.raise(2);
        assert_eq!(taken(&mut table), []);
        table.hold(2, false);
        assert_eq!(taken(&mut table), [2]);
    }

    #[test]
    fn a_transport_that_masks_by_itself_hears_of_every_vector() {
        let mut table = MsixTable::new(4, true);
        table.set_control(MSIX_ENABLE | MSIX_MASK_ALL);
        table.set_mask(u32::MAX);
        table.raise(2);
        assert_eq!(taken(&mut table), [2]);
        table.hold(2, true);
        table.raise(2);
        assert_eq!(taken(&mut table), []);
        table.reset();
        table.hold(2, false);
        table.raise(1);
        assert_eq!(taken(&mut table), [1]);
    }

    #[test]
    fn intms_masks_while_msix_is_off() {
        let mut table = MsixTable::new(64, false);
        table.set_mask(1 << 3);
        for vector in [3, 4, 40] {
            table.raise(vector);
        }
        assert_eq!(taken(&mut table), [4, 40]);
        table.set_mask(0);
        assert_eq!(taken(&mut table), [3]);
    }

    #[test]
    fn accesses_behind_the_end_do_nothing() {
        let mut table = MsixTable::new(2, false);
        table.write_table(28, &[0xff; 16]);
        table.write_table(usize::MAX - 3, &[0xff; 4]);
        let mut back = [7; 8];
        table.read_table(28, &mut back);
        assert_eq!(back, [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        table.read_table(1 << 40, &mut back);
        assert_eq!(back, [0; 8]);
    }
}
