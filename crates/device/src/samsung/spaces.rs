//! The key spaces of a namespace: their pairs and iterators, and what commands do there.

use super::command::SpaceCommand;
use super::iterators::{Filter, Iterators};
use super::name::SpaceName;
use crate::key_value::{Answer, Choice, Pairs};
use crate::store::{Place, Values};
use mynah_model::keys::{Decision, token};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::SamsungCommand;
use mynah_wire::nvme::samsung::{ITERATORS, IteratorEntry, status};

/// See the file's description.
#[derive(Debug)]
pub(crate) struct KeySpaces {
    pairs: Pairs<SpaceName>,
    iterators: Iterators,
}

impl KeySpaces {
    pub(crate) fn new(pairs: Pairs<SpaceName>) -> KeySpaces {
        KeySpaces { pairs, iterators: Iterators::default() }
    }

    /// The pairs of all key spaces.
    pub(crate) fn pairs(&self) -> &Pairs<SpaceName> {
        &self.pairs
    }

    pub(crate) fn pairs_mut(&mut self) -> &mut Pairs<SpaceName> {
        &mut self.pairs
    }

    /// Deletes all pairs and closes all iterators.
    pub(crate) fn clear(&mut self, values: &mut dyn Values) {
        self.pairs.clear(values);
        self.iterators.close_all();
    }

    /// Iterators do not outlive a power cycle.
    pub(crate) fn power_cycled(&mut self) {
        self.iterators.close_all();
    }

    /// What there is to say of each iterator.
    pub(crate) fn iterators(&self) -> [IteratorEntry; ITERATORS] {
        self.iterators.entries()
    }

    /// What a command does now. Its value, if it brings one, is in `staged`. Statuses that NVMe's own
    /// set has as well are that set's: see [`super::status_of`].
    pub(crate) fn choose(
        &mut self,
        request: &SpaceCommand,
        staged: Option<Place>,
        values: &mut dyn Values,
    ) -> Choice {
        use SamsungCommand as C;
        let name = &request.name;
        match request.command {
            C::Store { bytes, condition, .. } => {
                self.pairs.choose_store(name.clone(), bytes, condition, staged, values)
            }
            C::Append { bytes, .. } => self.pairs.choose_append(
                name.clone(),
                bytes,
                staged,
                status::APPENDED_TOO_LONG,
                values,
            ),
            C::Retrieve { bytes, offset, only_size, .. } => {
                self.choose_retrieve(name, bytes, offset, only_size, values)
            }
            C::Delete { must_exist, .. } => self.pairs.choose_delete(name, must_exist),
            C::Exist { .. } => self.pairs.choose_exist(name),
            C::OpenIterator { prefix, mask } => {
                let (prefix, mask) = (u32::from_be_bytes(prefix), u32::from_be_bytes(mask));
                let filter = Filter { space: request.space, prefix, mask };
                let opened = self.iterators.open(filter, self.pairs.keys_mut());
                let (status, handle) = match opened {
                    Ok(handle) => (Status::SUCCESS, handle),
                    Err(status) => (status, 0),
                };
                Choice::ends(NO_KEYS, status).with_result(handle.into())
            }
            C::CloseIterator { handle } => {
                let status = self.iterators.close(handle).err().unwrap_or(Status::SUCCESS);
                Choice::ends(NO_KEYS, status)
            }
            C::ReadIterator { handle, bytes } => {
                match self.iterators.read(handle, bytes, self.pairs.keys_mut()) {
                    Ok((listed, is_at_end)) => {
                        let status = match is_at_end {
                            true => status::END_OF_ITERATION,
                            false => Status::SUCCESS,
                        };
                        let bytes = listed.len() as u32;
                        let choice = Choice::ends(Decision::Keys { bytes }, status);
                        choice.with_result(bytes).with_answer(Answer::Keys(listed))
                    }
                    Err(status) => Choice::ends(NO_KEYS, status),
                }
            }
        }
    }

    fn choose_retrieve(
        &self,
        name: &SpaceName,
        bytes: u32,
        offset: u32,
        only_size: bool,
        values: &mut dyn Values,
    ) -> Choice {
        let Some((pair, found)) = self.pairs.keys().find(name) else { return Choice::absent() };
        let nothing = Decision::Pair { pair, bytes: 0 };
        if offset > 0 && offset >= found.bytes {
            return Choice::ends(nothing, status::INVALID_OFFSET);
        }
        if only_size {
            return Choice::ends(nothing, Status::SUCCESS).with_result(found.bytes);
        }
        self.pairs.choose_value((pair, found), token(name.as_slice()), (offset, bytes), values)
    }
}

/// What the model is told of a command about iterators that returns no keys.
const NO_KEYS: Decision = Decision::Keys { bytes: 0 };
