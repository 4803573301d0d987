//! Numbers as bytes, written and read: what saved states are made of.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Begins every state, and changes when the layout does.
pub(crate) const LAYOUT: u32 = 3;

/// Why a state could not be saved or restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Commands, collections, or writes for which nothing has to come are under way.
    #[error("the drive is not at rest")]
    Busy,
    /// It was to be restored into a drive that has been used.
    #[error("a state can only be given to a drive that has not been used")]
    Used,
    /// The drive decides by policies of others, of which nothing says what they know.
    #[error("the policies `{0}` are not the drive's own, and what they know cannot be saved")]
    Policies(String),
    /// The layout is of another version.
    #[error("the state has layout {0}; this version reads layout {LAYOUT}")]
    Layout(u64),
    /// It belongs to a drive of another shape.
    #[error("the state belongs to a drive of another shape: {0}")]
    OtherShape(&'static str),
    /// It ends too early, or says what cannot be.
    #[error("the state is damaged: {0}")]
    Damaged(String),
}

/// Writes the drive's state as little-endian numbers.
pub(crate) struct Writer<'a> {
    pub(crate) sink: &'a mut dyn FnMut(&[u8]),
}

impl Writer<'_> {
    pub(crate) fn number(&mut self, number: u64) {
        (self.sink)(&number.to_le_bytes());
    }

    /// Numbers, with their count before them.
    pub(crate) fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        self.number(numbers.len() as u64);
        let mut chunk = Vec::with_capacity(1 << 16);
        for number in numbers {
            chunk.extend_from_slice(&number.to_le_bytes());
            if chunk.len() >= (1 << 16) - 4 {
                (self.sink)(&chunk);
                chunk.clear();
            }
        }
        (self.sink)(&chunk);
    }
}

/// Reads what a [`Writer`] has written.
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a mut dyn FnMut(&mut [u8]) -> bool,
}

impl Reader<'_> {
    fn bytes(&mut self, bytes: &mut [u8]) -> Result<(), StateError> {
        match (self.source)(bytes) {
            true => Ok(()),
            false => Err(StateError::Damaged("it ends too early".into())),
        }
    }

    pub(crate) fn number(&mut self) -> Result<u64, StateError> {
        let mut bytes = [0; 8];
        self.bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// At most `most` numbers, each below `below`.
    pub(crate) fn numbers(
        &mut self,
        what: &'static str,
        most: usize,
        below: u32,
    ) -> Result<Vec<u32>, StateError> {
        self.numbers_that(what, most, |number| number < below)
    }

    /// At most `most` numbers that are `valid`.
    fn numbers_that(
        &mut self,
        what: &'static str,
        most: usize,
        valid: impl Fn(u32) -> bool,
    ) -> Result<Vec<u32>, StateError> {
        let count = self.number()?;
        let count = usize::try_from(count).ok().filter(|count| *count <= most);
        let count = count.ok_or_else(|| StateError::Damaged(format!("too many {what}")))?;
        let mut numbers = Vec::with_capacity(count);
        let mut chunk = vec![0; (1 << 16).min(count * 4)];
        while numbers.len() < count {
            let bytes = ((count - numbers.len()) * 4).min(chunk.len());
            self.bytes(&mut chunk[..bytes])?;
            for number in chunk[..bytes].chunks_exact(4) {
                let number = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
                if !valid(number) {
                    return Err(StateError::Damaged(format!("{what}: {number}")));
                }
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    /// Exactly `count` numbers, each below `below`.
    pub(crate) fn all(
        &mut self,
        what: &'static str,
        count: usize,
        below: u32,
    ) -> Result<Vec<u32>, StateError> {
        let numbers = self.numbers(what, count, below)?;
        enough(numbers, what, count)
    }

    /// At most `most` numbers of any value.
    pub(crate) fn any(&mut self, what: &'static str, most: usize) -> Result<Vec<u32>, StateError> {
        self.numbers_that(what, most, |_| true)
    }

    /// Exactly `count` numbers of any value.
    pub(crate) fn words(
        &mut self,
        what: &'static str,
        count: usize,
    ) -> Result<Vec<u32>, StateError> {
        let numbers = self.numbers_that(what, count, |_| true)?;
        enough(numbers, what, count)
    }
}

fn enough(numbers: Vec<u32>, what: &'static str, count: usize) -> Result<Vec<u32>, StateError> {
    match numbers.len() == count {
        true => Ok(numbers),
        false => Err(StateError::Damaged(format!("too few {what}"))),
    }
}

/// The generator that a saved and a restored drive both go on with.
pub(crate) fn generator(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}
