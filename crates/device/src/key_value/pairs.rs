//! The pairs of a namespace: which there are, what they take of its space, and what becomes of them
//! when a command is decided.

use super::keys::{Keys, Name, Pair, StoredValue};
use crate::store::{Place, Ready, Values};
use mynah_model::config::Config;
use mynah_model::io::NamespaceId;
use mynah_model::keys::{Decision, LostPair, PairId, token};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{KeyValueCommand, List, Retrieve, Store, StoreCondition};
use mynah_wire::nvme::feature::KeyValueConfiguration;
use mynah_wire::nvme::key::{KEY_BYTES_MAX, Key, KeyList};
use mynah_wire::nvme::samsung::status as samsung;
use std::collections::BTreeMap;

/// The status of a command whose key does not exist.
const ABSENT: Status = Status::KEY_DOES_NOT_EXIST.do_not_retry();
/// What ends a Store for which there is a key.
const EXISTS: Status = Status::KEY_EXISTS.do_not_retry();
/// What ends a Store for whose pair there is no room.
pub(crate) const NO_ROOM: Status = Status::CAPACITY_EXCEEDED.do_not_retry();

/// Whether a status says what was found, and that nothing went wrong.
pub(crate) fn is_answer(status: Status) -> bool {
    let plain = Status::new(status.code_type(), status.code());
    matches!(
        plain,
        Status::KEY_DOES_NOT_EXIST
            | Status::KEY_EXISTS
            | samsung::KEY_DOES_NOT_EXIST
            | samsung::KEY_EXISTS
            | samsung::END_OF_ITERATION
    )
}

/// How pairs are laid down, and what there is room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    header_bytes: u32,
    unit_bytes: u32,
    /// Most bytes of a key over NVMe's own set, and of one at all; of a value; most keys of the drive,
    /// if that is limited.
    pub(crate) key_max: u32,
    pub(crate) long_key_max: u32,
    pub(super) value_max: u32,
    pub(crate) keys_max: Option<u64>,
}

impl Layout {
    /// As a drive has it; `None`: it has no pairs.
    pub(crate) fn of(config: &Config) -> Option<Layout> {
        let pairs = config.key_value.as_ref()?;
        Some(Layout {
            header_bytes: pairs.header_bytes,
            unit_bytes: config.mapping.unit_bytes,
            key_max: pairs.key_max.min(KEY_BYTES_MAX as u32),
            long_key_max: pairs.key_max,
            value_max: pairs.value_max,
            keys_max: pairs.index.keys_max,
        })
    }

    /// Most bytes of a value where a command moves at most so many.
    pub(crate) fn value_max(&self, transfer_max: u32) -> u32 {
        // As MDTS says it: a power of two.
        self.value_max.min(1 << transfer_max.max(1).ilog2())
    }

    /// Mapping units that a pair takes.
    fn units(&self, key_bytes: usize, value_bytes: u32) -> u64 {
        let bytes = u64::from(self.header_bytes) + key_bytes as u64 + u64::from(value_bytes);
        bytes.div_ceil(self.unit_bytes.max(1).into()).max(1)
    }
}

/// What a command has for its host.
#[derive(Debug, Default)]
pub(crate) enum Answer {
    #[default]
    Nothing,
    /// `bytes` bytes from `skip` on, of a value of `size` bytes that is read by `pinned`.
    Value { pinned: Place, skip: u32, bytes: u32, size: u32 },
    /// The data of a List.
    Keys(Vec<u8>),
}

/// What a command is to do, or has for its host, at the moment at which it is decided.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) decision: Decision,
    pub(crate) status: Status,
    pub(crate) answer: Answer,
    /// The result of the command.
    pub(crate) result: u32,
    change: Change,
}

/// What is changed, unless there turns out to be no room.
#[derive(Debug)]
enum Change {
    Nothing,
    /// A pair that is among the keys already.
    Insert(PairId),
    /// The pair gets the value at this place, of so many bytes.
    Replace(PairId, Place, u32),
    Remove(PairId),
}

impl Choice {
    pub(crate) fn ends(decision: Decision, status: Status) -> Choice {
        Choice { decision, status, answer: Answer::Nothing, result: 0, change: Change::Nothing }
    }

    pub(crate) fn with_result(self, result: u32) -> Choice {
        Choice { result, ..self }
    }

    pub(crate) fn with_answer(self, answer: Answer) -> Choice {
        Choice { answer, ..self }
    }

    /// A command whose key there is not.
    pub(crate) fn absent() -> Choice {
        Choice::ends(Decision::Absent, ABSENT)
    }

    fn changes(pair: PairId, change: Change) -> Choice {
        let decision = Decision::Pair { pair, bytes: 0 };
        Choice { change, ..Choice::ends(decision, Status::SUCCESS) }
    }
}

#[derive(Debug)]
pub(crate) struct Pairs<N = Key> {
    /// The model's namespace, all of which it is.
    pool: NamespaceId,
    /// Bytes of the model's namespace.
    bytes: u64,
    layout: Layout,
    keys: Keys<N>,
    /// Mapping units that pairs take.
    units: u64,
    configuration: KeyValueConfiguration,
    /// Stores that found room, as the model counts them.
    stores: u64,
    /// Values that were replaced, by pair, where a power cut is due.
    replaced: Option<BTreeMap<u32, Vec<Replaced>>>,
}

/// A value that was replaced.
#[derive(Debug)]
struct Replaced {
    /// The number of the Store that replaced it, as `stores` counts.
    store: u64,
    place: Place,
    bytes: u32,
}

impl<N: Name> Pairs<N> {
    /// None, in a namespace of the model of so many bytes.
    ///
    /// The model has counted so many Stores to that before.
    pub(crate) fn new(pool: NamespaceId, bytes: u64, layout: Layout, stores: u64) -> Pairs<N> {
        let keys = Keys::new();
        let configuration = KeyValueConfiguration::default();
        Pairs { pool, bytes, layout, keys, units: 0, configuration, stores, replaced: None }
    }

    /// Stores that found room, as the model counts them.
    pub(crate) fn stores(&self) -> u64 {
        self.stores
    }

    /// The model's namespace that the pairs lie in.
    pub(crate) fn pool(&self) -> NamespaceId {
        self.pool
    }

    /// Bytes of the model's namespace.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of all keys and values.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.keys.bytes()
    }

    /// Most bytes of a value where a command moves at most so many.
    pub(crate) fn value_max(&self, transfer_max: u32) -> u32 {
        self.layout.value_max(transfer_max)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The Key Value Configuration feature.
    pub(crate) fn configuration(&self) -> KeyValueConfiguration {
        self.configuration
    }

    pub(crate) fn configure(&mut self, configuration: KeyValueConfiguration) {
        self.configuration = configuration;
    }

    /// From now on values that are replaced are kept, because a power cut may bring them back.
    pub(crate) fn expect_power_cut(&mut self) {
        self.replaced.get_or_insert_default();
    }

    /// The drive has lost the latest value of a pair with its power: it has the one before some
    /// Store again, or is no more.
    pub(crate) fn lose(&mut self, lost: &LostPair, values: &mut dyn Values) {
        let pair = lost.pair;
        if !self.keys.has(pair) {
            return;
        }
        let Some(since) = lost.since else {
            // Nobody waits for it: there are no commands under way.
            let _ = self.make_so(&Choice::changes(pair, Change::Remove(pair)), values);
            return;
        };
        let kept = self.replaced.as_mut().and_then(|kept| kept.get_mut(&pair.0));
        let Some(kept) = kept else { return };
        let Some(at) = kept.iter().position(|value| value.store == since) else { return };
        let Replaced { place, bytes, .. } = kept.remove(at);
        let key = &self.keys.get(pair).key;
        let _ = values.keep(self.pool.0, key.bytes(), place, bytes);
        let key_bytes = key.key_bytes();
        let units = |bytes| self.layout.units(key_bytes, bytes);
        let latest = self.keys.replace(pair, place, bytes);
        self.units = self.units - units(latest.bytes) + units(bytes);
        values.release(latest.place);
    }

    /// Releases all values that were replaced: no power cut can bring them back any more.
    pub(crate) fn forget_replaced(&mut self, values: &mut dyn Values) {
        let kept = self.replaced.iter_mut().flat_map(std::mem::take).flat_map(|(_, kept)| kept);
        kept.for_each(|value| values.release(value.place));
    }

    /// Releases what values a deleted pair had before.
    fn forget_replaced_of(&mut self, PairId(pair): PairId, values: &mut dyn Values) {
        let kept = self.replaced.as_mut().and_then(|kept| kept.remove(&pair));
        kept.into_iter().flatten().for_each(|value| values.release(value.place));
    }

    /// See [`Keys::bring_near`].
    pub(crate) fn bring_near(&self, keys: &[N], values: &dyn Values) {
        self.keys.bring_near(keys, values);
    }

    /// Deletes all pairs and releases their values.
    pub(crate) fn clear(&mut self, values: &mut dyn Values) {
        let keys = std::mem::replace(&mut self.keys, Keys::new());
        self.units = 0;
        self.forget_replaced(values);
        keys.pairs().for_each(|pair| values.release(pair.place));
        values.forget_all(self.pool.0);
    }

    pub(crate) fn keys(&self) -> &Keys<N> {
        &self.keys
    }

    /// To walk through the keys in order, which needs `&mut`: the order is made up when first used.
    pub(crate) fn keys_mut(&mut self) -> &mut Keys<N> {
        &mut self.keys
    }

    /// A value of so many bytes, which is `staged`, is stored.
    pub(crate) fn choose_store(
        &mut self,
        key: N,
        bytes: u32,
        condition: StoreCondition,
        staged: Option<Place>,
        values: &mut dyn Values,
    ) -> Choice {
        // Its value was not to be had.
        let Some(staged) = staged else {
            return Choice::ends(Decision::Absent, Status::INTERNAL_ERROR);
        };
        match (self.keys.find(&key), condition) {
            (Some((pair, _)), StoreCondition::IfAbsent) => {
                values.release(staged);
                Choice::ends(Decision::Refused { pair }, EXISTS)
            }
            (None, StoreCondition::IfExists) => {
                values.release(staged);
                Choice::ends(Decision::Absent, ABSENT)
            }
            (Some((pair, before)), _) => {
                let place = values.finish(staged, Some(before.place));
                Choice::changes(pair, Change::Replace(pair, place, bytes))
            }
            (None, _) => {
                let place = values.finish(staged, None);
                match self.keys.insert(key, place, bytes) {
                    Some(pair) => Choice::changes(pair, Change::Insert(pair)),
                    None => {
                        values.release(place);
                        Choice::ends(Decision::Absent, NO_ROOM)
                    }
                }
            }
        }
    }

    /// Bytes, which are `staged`, are put behind a value, or stored if there is none. `too_long`: what
    /// it ends with if the value would be.
    pub(crate) fn choose_append(
        &mut self,
        key: N,
        bytes: u32,
        staged: Option<Place>,
        too_long: Status,
        values: &mut dyn Values,
    ) -> Choice {
        let (Some((pair, before)), Some(tail)) = (self.keys.find(&key), staged) else {
            return self.choose_store(key, bytes, StoreCondition::Always, staged, values);
        };
        let all = before.bytes.checked_add(bytes).filter(|&all| all <= self.layout.value_max);
        let place = all.and_then(|all| values.reserve(all));
        let (Some(all), Some(place)) = (all, place) else {
            values.release(tail);
            let status = if all.is_some() { NO_ROOM } else { too_long };
            return Choice::ends(Decision::Refused { pair }, status);
        };
        if values.bytes_mut(place, all).is_some() {
            let mut joined = vec![0; all as usize];
            let (head, behind) = joined.split_at_mut(before.bytes as usize);
            values.read(before.place, before.bytes, 0, head);
            values.read(tail, bytes, 0, behind);
            if let Some(into) = values.bytes_mut(place, all) {
                into.copy_from_slice(&joined);
            }
        }
        values.release(tail);
        let place = values.finish(place, Some(before.place));
        // What was there is read first.
        let decision = Decision::Pair { pair, bytes: before.bytes };
        Choice { decision, ..Choice::changes(pair, Change::Replace(pair, place, all)) }
    }

    /// A key and its value are removed.
    pub(crate) fn choose_delete(&self, key: &N, must_exist: bool) -> Choice {
        match self.keys.find(key) {
            Some((pair, _)) => Choice::changes(pair, Change::Remove(pair)),
            None if must_exist => Choice::absent(),
            None => Choice::ends(Decision::Absent, Status::SUCCESS),
        }
    }

    pub(crate) fn choose_exist(&self, key: &N) -> Choice {
        match self.keys.find(key) {
            Some((pair, _)) => Choice::ends(Decision::Pair { pair, bytes: 0 }, Status::SUCCESS),
            None => Choice::absent(),
        }
    }

    /// The value of a pair, from a byte of it on, as far as so many bytes hold it. Its key has this
    /// token.
    pub(crate) fn choose_value(
        &self,
        (pair, found): (PairId, StoredValue),
        token: u64,
        (skip, most): (u32, u32),
        values: &mut dyn Values,
    ) -> Choice {
        let (size, bytes) = (found.bytes, (found.bytes - skip.min(found.bytes)).min(most));
        let pinned = values.pin(found.place, token);
        Choice {
            answer: Answer::Value { pinned, skip, bytes, size },
            result: size,
            ..Choice::ends(Decision::Pair { pair, bytes }, Status::SUCCESS)
        }
    }

    /// Whether there is room for what a choice changes, as far as that is known here: where nothing
    /// is modelled.
    pub(crate) fn has_room(&self, choice: &Choice, key_bytes: usize) -> bool {
        let (before, bytes) = match choice.change {
            // It is among them.
            Change::Insert(pair) => {
                let keys_max = self.layout.keys_max.unwrap_or(u64::MAX);
                if u64::from(self.keys.count()) > keys_max {
                    return false;
                }
                (0, self.keys.get(pair).bytes)
            }
            Change::Replace(pair, _, bytes) => {
                (self.layout.units(key_bytes, self.keys.get(pair).bytes), bytes)
            }
            Change::Nothing | Change::Remove(_) => return true,
        };
        let units = self.units - before + self.layout.units(key_bytes, bytes);
        units * u64::from(self.layout.unit_bytes) <= self.bytes
    }

    /// Makes a choice so. `Later`: its command has to wait for that.
    pub(crate) fn make_so(&mut self, choice: &Choice, values: &mut dyn Values) -> Ready {
        let pool = self.pool.0;
        match choice.change {
            Change::Nothing => Ready::Now,
            Change::Insert(pair) => {
                let pair = self.keys.get(pair);
                self.units += self.layout.units(pair.key.key_bytes(), pair.bytes);
                self.stores += 1;
                values.keep(pool, pair.key.bytes(), pair.place, pair.bytes)
            }
            Change::Replace(pair, place, bytes) => {
                let key = &self.keys.get(pair).key;
                let ready = values.keep(pool, key.bytes(), place, bytes);
                let key_bytes = key.key_bytes();
                let before = self.keys.replace(pair, place, bytes);
                self.units -= self.layout.units(key_bytes, before.bytes);
                self.units += self.layout.units(key_bytes, bytes);
                let store = self.stores;
                self.stores += 1;
                match &mut self.replaced {
                    None => values.release(before.place),
                    Some(kept) => {
                        let StoredValue { place, bytes } = before;
                        kept.entry(pair.0).or_default().push(Replaced { store, place, bytes });
                    }
                }
                ready
            }
            Change::Remove(pair) => {
                let before = self.keys.remove(pair);
                self.units -= self.layout.units(before.key.key_bytes(), before.bytes);
                values.release(before.place);
                self.forget_replaced_of(pair, values);
                values.forget(pool, before.key.bytes())
            }
        }
    }

    /// Leaves everything as it was before a choice.
    pub(crate) fn take_back(&mut self, choice: &Choice, values: &mut dyn Values) {
        match choice.change {
            Change::Nothing | Change::Remove(_) => {}
            Change::Insert(pair) => values.release(self.keys.remove(pair).place),
            Change::Replace(_, place, _) => values.release(place),
        }
    }
}

/// What the commands of NVMe's own set do.
impl Pairs {
    /// Takes the pairs that an earlier process has left in the namespace of the model; false if they
    /// cannot be pairs of it.
    pub(crate) fn recall(&mut self, values: &mut dyn Values) -> bool {
        let mut recalled = Vec::new();
        let mut all_fit = true;
        let (key_max, value_max) = (self.layout.key_max as usize, self.layout.value_max);
        values.recall(self.pool.0, &mut |key, pair, place, bytes| {
            let key = Key::new(key).filter(|key| (1..=key_max).contains(&key.len()));
            all_fit &= bytes <= value_max;
            match key {
                Some(key) => recalled.push((pair, Pair { place, bytes, key })),
                None => all_fit = false,
            }
        });
        if !all_fit {
            return false;
        }
        let units = |pair: &Pair| self.layout.units(pair.key.len(), pair.bytes);
        self.units = recalled.iter().map(|(_, pair)| units(pair)).sum();
        // As many as the model can have had: no more than units, but for those that are free.
        let most = 2 * (self.bytes / u64::from(self.layout.unit_bytes.max(1))) + (1 << 16);
        match Keys::of(recalled, most) {
            Some(keys) => self.keys = keys,
            None => return false,
        }
        self.units.saturating_mul(self.layout.unit_bytes.into()) <= self.bytes
    }

    /// Says how the pairs are called, in the order of their keys.
    pub(crate) fn name(&self, values: &mut dyn Values) {
        let mut named: Vec<(Key, PairId)> = self.keys.named().collect();
        named.sort_unstable_by_key(|(key, _)| *key);
        values.name(self.pool.0, named.into_iter().map(|(_, pair)| pair).collect());
    }

    /// What a command does now. The value of a Store is in `staged`.
    pub(crate) fn choose(
        &mut self,
        command: &KeyValueCommand,
        staged: Option<Place>,
        values: &mut dyn Values,
    ) -> Choice {
        match command {
            KeyValueCommand::Flush => Choice::ends(Decision::Absent, Status::SUCCESS),
            &KeyValueCommand::Store(Store { key, bytes, condition, .. }) => {
                self.choose_store(key, bytes, condition, staged, values)
            }
            KeyValueCommand::Retrieve(retrieve) => self.choose_retrieve(retrieve, values),
            KeyValueCommand::List(list) => self.choose_list(list),
            KeyValueCommand::Exist(key) => self.choose_exist(key),
            KeyValueCommand::Delete(key) => {
                self.choose_delete(key, self.configuration.delete_of_absent_fails)
            }
        }
    }

    fn choose_retrieve(&self, request: &Retrieve, values: &mut dyn Values) -> Choice {
        match self.keys.find(&request.key) {
            Some(found) => {
                self.choose_value(found, token(request.key.as_slice()), (0, request.bytes), values)
            }
            None => Choice::absent(),
        }
    }

    fn choose_list(&mut self, request: &List) -> Choice {
        // What the keys that there are can fill: no more than the host has room for.
        let entry = KEY_BYTES_MAX + 4;
        let most = (self.keys.count() as usize).saturating_mul(entry).saturating_add(4);
        let mut listed = vec![0; most.min(request.bytes as usize)];
        let Some(mut list) = KeyList::new(&mut listed) else {
            return Choice::ends(Decision::Absent, Status::INVALID_FIELD.do_not_retry());
        };
        let _ = self.keys.from(&request.start).all(|key| list.push(key.as_slice()));
        let bytes = list.bytes();
        listed.truncate(bytes);
        let decision = Decision::Keys { bytes: bytes as u32 };
        Choice { answer: Answer::Keys(listed), ..Choice::ends(decision, Status::SUCCESS) }
    }
}
