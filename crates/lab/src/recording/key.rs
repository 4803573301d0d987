//! Key-value commands in recordings: their records, and what a replay knows of pairs.
//!
//! What a key is stays with whoever recorded: the drive is told its length and its token, and which
//! pair each command is about. So a replay needs no keys.

use super::{FeedError, Kind, Record};
use mynah_model::io::{NamespaceId, QueueId, Tag};
use mynah_model::keys::{
    Decision, KeyOperation, KeyRequest, LostPair, PairCounts, PairId, PairToFill,
};
use mynah_model::{Drive, InputError};
use mynah_result::kind::Kind as KindOfCommand;
use mynah_result::sum_of;
use mynah_stamp::Time;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Bits of a namespace in the records of key-value commands; a key's length has those above.
const NAMESPACE_BITS: u32 = 24;
const NAMESPACE: u32 = (1 << NAMESPACE_BITS) - 1;

/// A key-value command, with its decision once that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyDone {
    /// The command as the host submitted it.
    pub request: KeyRequest,
    /// Kind in results. Whether a Store counts as an update is known only after its decision.
    pub kind: KindOfCommand,
    /// Bytes of value or key list that are transferred; 0 before the decision.
    pub bytes: u32,
}

impl KeyDone {
    pub(super) fn new(request: KeyRequest) -> KeyDone {
        KeyDone { request, kind: KindOfCommand::of_key(request.operation, false), bytes: 0 }
    }

    /// Applies the decision; `existed`: whether the key was there before.
    pub(super) fn decide(&mut self, decision: Decision, existed: bool) {
        let KeyRequest { operation, bytes: requested, .. } = self.request;
        self.kind = KindOfCommand::of_key(operation, existed);
        self.bytes = match (operation, decision) {
            (KeyOperation::Store | KeyOperation::StoreIf, Decision::Pair { .. }) => requested,
            (_, Decision::Pair { bytes, .. } | Decision::Keys { bytes }) => bytes.min(requested),
            (_, Decision::Absent | Decision::Refused { .. }) => 0,
        };
    }

    /// Whether the command found no key, given its decision.
    pub(super) fn misses(&self, decision: Decision) -> bool {
        match self.request.operation {
            KeyOperation::Store | KeyOperation::StoreIf => false,
            // The number of keys, and nothing more.
            KeyOperation::List => matches!(decision, Decision::Keys { bytes } if bytes <= 4),
            _ => decision == Decision::Absent,
        }
    }
}

/// Packs a namespace and a key's length into one number. Drives have at most 1024 namespaces.
fn place(namespace: NamespaceId, key_bytes: u8) -> u32 {
    namespace.0 & NAMESPACE | u32::from(key_bytes) << NAMESPACE_BITS
}

impl Record {
    pub(super) fn of_pair(namespace: NamespaceId, pair: &PairToFill) -> Record {
        Record {
            tag: pair.pair.0,
            namespace: place(namespace, pair.key_bytes),
            sectors: pair.value_bytes,
            sector: pair.token,
            ..Record::new(Time::ZERO, Kind::Pair)
        }
    }

    pub(super) fn of_key_command(at: Time, queue: QueueId, request: &KeyRequest) -> Record {
        Record {
            code: request.operation as u8,
            queue: queue.0,
            tag: request.tag.0,
            namespace: place(request.namespace, request.key_bytes),
            sectors: request.bytes,
            sector: request.token,
            ..Record::new(at, Kind::KeyCommand)
        }
    }

    pub(super) fn of_decision(at: Time, tag: Tag, decision: &Decision) -> Record {
        let (code, pair, bytes) = match *decision {
            Decision::Pair { pair, bytes } => (0, pair.0, bytes),
            Decision::Absent => (1, 0, 0),
            Decision::Refused { pair } => (2, pair.0, 0),
            Decision::Keys { bytes } => (3, 0, bytes),
        };
        let new = Record::new(at, Kind::Decided);
        Record { code, tag: tag.0, namespace: pair, sectors: bytes, ..new }
    }

    /// Of a pair or a key-value command: its namespace.
    pub(super) fn key_namespace(&self) -> NamespaceId {
        NamespaceId(self.namespace & NAMESPACE)
    }

    /// The pair that a [`Kind::Pair`] record describes.
    pub(super) fn pair(&self) -> PairToFill {
        PairToFill {
            pair: PairId(self.tag),
            token: self.sector,
            key_bytes: (self.namespace >> NAMESPACE_BITS) as u8,
            value_bytes: self.sectors,
        }
    }

    /// The command of a [`Kind::KeyCommand`] record.
    pub(super) fn key_request(&self) -> Result<KeyRequest, FeedError> {
        let operation = [
            KeyOperation::Store,
            KeyOperation::StoreIf,
            KeyOperation::Retrieve,
            KeyOperation::Delete,
            KeyOperation::Exist,
            KeyOperation::List,
        ];
        let is_it = |it: &KeyOperation| *it as u8 == self.code;
        Ok(KeyRequest {
            tag: Tag(self.tag),
            operation: operation.into_iter().find(is_it).ok_or(FeedError::Code(self.code))?,
            namespace: self.key_namespace(),
            token: self.sector,
            key_bytes: (self.namespace >> NAMESPACE_BITS) as u8,
            bytes: self.sectors,
        })
    }

    /// The decision that was handed to the drive.
    pub(super) fn decision(&self) -> Result<Decision, FeedError> {
        let (pair, bytes) = (PairId(self.namespace), self.sectors);
        Ok(match self.code {
            0 => Decision::Pair { pair, bytes },
            1 => Decision::Absent,
            2 => Decision::Refused { pair },
            3 => Decision::Keys { bytes },
            code => return Err(FeedError::Code(code)),
        })
    }
}

/// What a recorded run leaves in the key-value namespaces that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairsSeen {
    /// Pairs, and what they take, of all of them together.
    pub counts: PairCounts,
    /// Bytes of all keys and values at the end; `None` if the recording does not say what was there
    /// at the beginning, or after a power cut.
    pub live_bytes: Option<u64>,
    /// Commands that found no key, since the ramp.
    pub misses: u64,
}

/// A pair: its name, and the bytes of its key and of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredPair {
    pub(super) pair: PairId,
    pub(super) key: u8,
    pub(super) value: u32,
}

impl StoredPair {
    fn bytes(self) -> u64 {
        u64::from(self.key) + u64::from(self.value)
    }
}

/// The pairs of a namespace, by the tokens of their keys. That two keys have one is as good as
/// impossible, and would have bytes counted wrongly.
#[derive(Default)]
struct Space {
    pairs: FxHashMap<u64, StoredPair>,
    bytes: u64,
    /// Names that are free again, and the first that has never been given.
    free: Vec<u32>,
    next: u32,
}

/// The pairs of a run, in each namespace that it uses.
#[derive(Default)]
pub(super) struct Pairs {
    spaces: BTreeMap<NamespaceId, Space>,
    /// Namespaces with pairs of which not all is known.
    unknown: BTreeSet<NamespaceId>,
}

impl Pairs {
    /// The run uses this namespace.
    pub(super) fn uses(&mut self, namespace: NamespaceId) {
        self.spaces.entry(namespace).or_default();
    }

    /// A pair that was there at the beginning.
    pub(super) fn add(&mut self, namespace: NamespaceId, pair: &PairToFill) {
        let known = StoredPair { pair: pair.pair, key: pair.key_bytes, value: pair.value_bytes };
        self.put(namespace, pair.token, known);
    }

    /// Called when the run begins on `drive`, which may have pairs that the recording does not
    /// list.
    pub(super) fn begin(&mut self, drive: &Drive) {
        let ids = (1..=drive.config().namespaces.len() as u32).map(NamespaceId);
        self.unknown.extend(ids.filter(|id| {
            let there = drive.pair_counts(*id).map_or(0, |counts| counts.pairs);
            let said = self.spaces.get(id).map_or(0, |space| space.pairs.len() as u64);
            there != said
        }));
    }

    pub(super) fn find(&self, namespace: NamespaceId, token: u64) -> Option<StoredPair> {
        self.spaces.get(&namespace)?.pairs.get(&token).copied()
    }

    /// Allocates a name for a new pair.
    pub(super) fn take_name(&mut self, namespace: NamespaceId) -> PairId {
        let space = self.spaces.entry(namespace).or_default();
        PairId(space.free.pop().unwrap_or_else(|| {
            space.next = space.next.saturating_add(1);
            space.next - 1
        }))
    }

    /// Returns a name that was allocated and not used.
    pub(super) fn give_back(&mut self, namespace: NamespaceId, pair: PairId) {
        self.spaces.entry(namespace).or_default().free.push(pair.0);
    }

    fn put(&mut self, namespace: NamespaceId, token: u64, known: StoredPair) {
        let space = self.spaces.entry(namespace).or_default();
        space.next = space.next.max(known.pair.0.saturating_add(1));
        space.bytes += known.bytes();
        space.bytes -= space.pairs.insert(token, known).map_or(0, StoredPair::bytes);
    }

    /// Applies a decision that the drive has accepted; returns the name that it frees, if any.
    pub(super) fn decided(&mut self, request: &KeyRequest, decision: Decision) -> Option<PairId> {
        let KeyRequest { operation, namespace, token, .. } = *request;
        match (operation, decision) {
            (KeyOperation::Store | KeyOperation::StoreIf, Decision::Pair { pair, .. }) => {
                let known = StoredPair { pair, key: request.key_bytes, value: request.bytes };
                self.put(namespace, token, known);
                None
            }
            (KeyOperation::Delete, Decision::Pair { pair, .. }) => {
                let space = self.spaces.get_mut(&namespace)?;
                space.bytes -= space.pairs.remove(&token)?.bytes();
                Some(pair)
            }
            _ => None,
        }
    }

    /// All pairs of a namespace are gone.
    pub(super) fn clear(&mut self, namespace: NamespaceId) {
        if let Some(space) = self.spaces.get_mut(&namespace) {
            *space = Space::default();
        }
    }

    /// Applies the losses of a power cut. The sizes of older values that came back are not known.
    pub(super) fn lose(&mut self, lost: &[LostPair]) {
        self.unknown.extend(lost.iter().map(|pair| pair.namespace));
        for (&namespace, space) in &mut self.spaces {
            let gone = lost.iter().filter(|it| it.namespace == namespace && it.since.is_none());
            let gone: BTreeSet<PairId> = gone.map(|it| it.pair).collect();
            if gone.is_empty() {
                continue;
            }
            let (free, bytes) = (&mut space.free, &mut space.bytes);
            space.pairs.retain(|_, known| {
                let stays = !gone.contains(&known.pair);
                if !stays {
                    *bytes -= known.bytes();
                }
                stays
            });
            free.extend(gone.iter().map(|pair| pair.0));
        }
    }

    fn bytes(&self) -> Option<u64> {
        let known = self.spaces.keys().all(|id| !self.unknown.contains(id));
        known.then(|| self.spaces.values().map(|space| space.bytes).sum())
    }

    /// The pairs on `drive` now, with this count of misses; `None` if the run uses no pairs.
    fn seen(&self, drive: &Drive, misses: u64) -> Option<PairsSeen> {
        let used = self.spaces.keys();
        let counts = sum_of(used.filter_map(|&id| drive.pair_counts(id)))?;
        Some(PairsSeen { counts, live_bytes: self.bytes(), misses })
    }
}

/// The key-value commands of a replay.
#[derive(Default)]
pub(super) struct KeysReplayed {
    /// Commands in flight, by tag.
    commands: FxHashMap<u32, KeyDone>,
    pub(super) pairs: Pairs,
    pub(super) misses: u64,
}

impl KeysReplayed {
    /// Hands a recorded command to the drive.
    pub(super) fn command(&mut self, drive: &mut Drive, record: &Record) -> Result<(), FeedError> {
        let request = record.key_request()?;
        drive.key_command(record.at, QueueId(record.queue), request)?;
        self.pairs.uses(request.namespace);
        self.commands.insert(request.tag.0, KeyDone::new(request));
        Ok(())
    }

    /// Gives the recorded decision to the drive.
    pub(super) fn decided(&mut self, drive: &mut Drive, record: &Record) -> Result<(), FeedError> {
        let (tag, decision) = (Tag(record.tag), record.decision()?);
        let Some(done) = self.commands.get_mut(&tag.0) else {
            return Err(InputError::NoDecisionExpected(tag).into());
        };
        let namespace = done.request.namespace;
        let existed = match decision {
            Decision::Pair { pair, .. } => drive.has_pair(namespace, pair),
            Decision::Refused { .. } => true,
            Decision::Absent | Decision::Keys { .. } => false,
        };
        done.decide(decision, existed);
        if drive.decided(record.at, tag, decision)? {
            self.pairs.decided(&done.request, decision);
        }
        self.misses += u64::from(done.misses(decision));
        Ok(())
    }

    /// Removes a completed command; `None` if the tag is not of a key-value command.
    pub(super) fn completed(&mut self, tag: u32) -> Option<KeyDone> {
        self.commands.remove(&tag)
    }

    /// The pairs on `drive` now; `None` if the run has used none.
    pub(super) fn seen(&self, drive: &Drive) -> Option<PairsSeen> {
        self.pairs.seen(drive, self.misses)
    }
}
