//! Key-value flows of a run: the keys that there are, the commands under way, and what is decided
//! about them.

use super::{RunError, Runner, explain_slow};
use crate::experiment::Precondition;
use crate::key_space::{KeySpace, StoredPair};
use crate::recording::Tape;
use mynah_model::config::NamespaceKind;
use mynah_model::io::{Completed, NamespaceId, Operation, QueueId, Request, Status, Tag};
use mynah_model::keys::{Decision, KeyOperation, KeyRequest, LostPair, PairToFill};
use mynah_model::{Drive, Policies};
use mynah_result::kind::Kind;
use mynah_stamp::Time;
use mynah_workload::key_value::key_token;
use mynah_workload::{FlowSpec, KeyAction, Planned};
use std::collections::BTreeSet;

/// A key-value command in flight.
#[derive(Clone, Copy)]
struct Pending {
    request: KeyRequest,
    /// Number of its key in the key space.
    key: u64,
    space: usize,
    /// What it counts as; of a Store that is known when it has been decided.
    kind: Kind,
    /// Bytes that it moves, which is known then.
    bytes: u32,
    /// Of a Retrieve: the size of the value that is stored then.
    then: Option<u32>,
}

/// State of the host side of key-value flows.
pub(super) struct Keys {
    spaces: Vec<KeySpace>,
    /// Commands in flight, by tag.
    pending: Vec<Option<Pending>>,
    /// Commands that found no key, since they were counted anew.
    misses: u64,
}

impl Keys {
    /// For these flows; `None` if none is of key-value commands. No key is there yet.
    ///
    /// # Errors
    /// If they do not fit the drive, or one another.
    pub(super) fn new(
        drive: &Drive<impl Policies>,
        flows: &[FlowSpec],
        precondition: Precondition,
    ) -> Result<Option<Box<Keys>>, RunError> {
        let config = drive.config();
        let mut spaces: Vec<KeySpace> = vec![];
        for flow in flows {
            let namespace = config.namespaces.get((flow.namespace.0 as usize).wrapping_sub(1));
            let pairs = namespace.is_some_and(|it| it.kind == NamespaceKind::Pairs);
            let Some(keys) = flow.key_value() else {
                if pairs {
                    let (flow, namespace) = (flow.name.clone(), flow.namespace.0);
                    return Err(RunError::BlocksOnPairs { flow, namespace });
                }
                continue;
            };
            let (name, namespace) = (flow.name.clone(), flow.namespace);
            let Some(kv) = config.key_value.as_ref().filter(|_| pairs) else {
                let ids = 1..=config.namespaces.len() as u32;
                let fits = ids.zip(&config.namespaces);
                let fits = fits.filter(|(_, it)| it.kind == NamespaceKind::Pairs);
                let fits = fits.map(|(id, _)| id.to_string()).collect::<Vec<_>>().join(", ");
                return Err(RunError::PairsOnBlocks { flow: name, namespace: namespace.0, fits });
            };
            if precondition == Precondition::SteadyRandom {
                return Err(RunError::KeyPrecondition(name));
            }
            for (what, is, most) in [
                ("keys", u32::from(keys.key_size.max()), kv.key_max),
                ("values", keys.value_size.max(), kv.value_max),
            ] {
                if is > most {
                    return Err(RunError::PairTooLarge { flow: name, what, is, most });
                }
            }
            let room = drive.pair_counts(namespace).map_or(0, |counts| counts.capacity);
            if keys.initial_keys() > room {
                return Err(RunError::TooManyKeys { flow: name, keys: keys.keys, room });
            }
            match spaces.iter().find(|space| space.namespace == namespace) {
                None => spaces.push(KeySpace::new(namespace, keys.key_size)),
                Some(space) if space.sizes != keys.key_size => {
                    return Err(RunError::KeySizes { flow: name, namespace: namespace.0 });
                }
                Some(_) => {}
            }
        }
        let keys = Keys { spaces, pending: vec![], misses: 0 };
        Ok((!keys.spaces.is_empty()).then(|| Box::new(keys)))
    }

    /// Takes the keys that the flows find on `drive`, which has a saved state, from `saved`.
    ///
    /// # Errors
    /// If nobody knows them, or the flows have other ones.
    pub(super) fn take(
        &mut self,
        drive: &Drive<impl Policies>,
        flows: &[FlowSpec],
        saved: &mut Vec<KeySpace>,
    ) -> Result<(), RunError> {
        for space in &mut self.spaces {
            let namespace = space.namespace;
            let Some(at) = saved.iter().position(|it| it.namespace == namespace) else {
                match drive.pair_counts(namespace).map_or(0, |counts| counts.pairs) {
                    0 => continue,
                    _ => return Err(RunError::KeysInState { namespace: namespace.0 }),
                }
            };
            let there = saved.swap_remove(at);
            if there.sizes != space.sizes {
                let flow = flows.iter().find(|flow| flow.namespace == namespace);
                let flow = flow.map(|flow| flow.name.clone()).unwrap_or_default();
                let (saved, here) = (there.sizes.text(), space.sizes.text());
                return Err(RunError::OtherKeysInState { flow, saved, here });
            }
            *space = there;
        }
        Ok(())
    }

    /// The keys of each namespace.
    pub(super) fn spaces(&self) -> impl Iterator<Item = &KeySpace> {
        self.spaces.iter()
    }

    /// Stores the initial keys of the flows on the drive, in order and without time.
    pub(super) fn fill(
        &mut self,
        drive: &mut Drive<impl Policies>,
        flows: &[FlowSpec],
    ) -> Result<(), RunError> {
        for KeySpace { namespace, sizes, table } in &mut self.spaces {
            let here = flows.iter().filter(|flow| flow.namespace == *namespace);
            let mut here: Vec<_> = here.filter_map(FlowSpec::key_value).collect();
            // A key that several flows find has the value that the first of them says.
            here.dedup();
            let mut first = 0;
            let begins = here.into_iter().flat_map(|flow| {
                let begun = first;
                first = first.max(flow.initial_keys());
                flow.initial_from(begun)
            });
            let pairs = begins.map(|(number, key_bytes, value_bytes)| {
                let pair = table.take_name();
                table.put(number, StoredPair { pair, value: value_bytes });
                let token = key_token(number, sizes.of(number));
                PairToFill { pair, token, key_bytes, value_bytes }
            });
            drive.fill_pairs(*namespace, pairs)?;
        }
        Ok(())
    }

    /// The pairs that there are, in the order in which [`Keys::fill`] lays such down.
    fn pairs(&self) -> impl Iterator<Item = (NamespaceId, PairToFill)> + '_ {
        self.spaces.iter().flat_map(|space| {
            space.table.all().map(|(number, StoredPair { pair, value: value_bytes })| {
                let key_bytes = space.sizes.of(number);
                let token = key_token(number, key_bytes);
                (space.namespace, PairToFill { pair, token, key_bytes, value_bytes })
            })
        })
    }

    /// What goes to the drive for a command.
    fn prepare(&mut self, tag: u32, namespace: NamespaceId, planned: Planned) -> KeyRequest {
        let space = self.spaces.iter().position(|space| space.namespace == namespace);
        let space = space.unwrap_or(0);
        let number = planned.sector;
        let operation = match planned.key.unwrap_or(KeyAction::Exist) {
            KeyAction::Store | KeyAction::Update => KeyOperation::Store,
            KeyAction::Retrieve | KeyAction::ReadModifyWrite => KeyOperation::Retrieve,
            KeyAction::Delete => KeyOperation::Delete,
            KeyAction::Exist => KeyOperation::Exist,
            KeyAction::List => KeyOperation::List,
        };
        let then = (planned.key == Some(KeyAction::ReadModifyWrite)).then_some(planned.sectors);
        let key_bytes = self.spaces[space].sizes.of(number);
        let request = KeyRequest {
            tag: Tag(tag),
            operation,
            namespace,
            token: key_token(number, key_bytes),
            key_bytes,
            // Whoever stores a value takes whatever there was.
            bytes: then.map_or(planned.sectors, |_| u32::MAX),
        };
        let kind = Kind::of_key(operation, false);
        let pending = Pending { request, key: number, space, kind, bytes: 0, then };
        if tag as usize >= self.pending.len() {
            self.pending.resize(tag as usize + 1, None);
        }
        self.pending[tag as usize] = Some(pending);
        request
    }

    /// The decision about a command that the drive asks for. It takes effect when the drive has
    /// accepted it ([`Keys::agreed`]).
    fn decide(&mut self, tag: u32) -> Option<Decision> {
        let pending = self.pending.get_mut(tag as usize)?.as_mut()?;
        let space = &mut self.spaces[pending.space];
        let found = space.table.find(pending.key);
        let operation = pending.request.operation;
        pending.kind = Kind::of_key(operation, found.is_some());
        Some(match (operation, found) {
            (KeyOperation::List, _) => {
                let entry = (2 + u32::from(space.sizes.max())).next_multiple_of(4);
                let room = pending.request.bytes.saturating_sub(4) / entry;
                let keys = u64::from(room).min(space.table.keys()) as u32;
                pending.bytes = 4 + keys * entry;
                self.misses += u64::from(keys == 0);
                Decision::Keys { bytes: pending.bytes }
            }
            (KeyOperation::Store, _) => {
                pending.bytes = pending.request.bytes;
                let pair = found.map_or_else(|| space.table.take_name(), |known| known.pair);
                Decision::Pair { pair, bytes: 0 }
            }
            (_, None) => {
                self.misses += 1;
                Decision::Absent
            }
            (KeyOperation::Retrieve, Some(StoredPair { pair, value })) => {
                pending.bytes = value.min(pending.request.bytes);
                Decision::Pair { pair, bytes: pending.bytes }
            }
            (_, Some(StoredPair { pair, .. })) => Decision::Pair { pair, bytes: 0 },
        })
    }

    /// Applies a decision that the drive has accepted, or refused for want of room.
    fn agreed(&mut self, tag: u32, decision: Decision, done: bool) {
        let Some(pending) = self.pending.get(tag as usize).copied().flatten() else { return };
        let table = &mut self.spaces[pending.space].table;
        let (operation, number) = (pending.request.operation, pending.key);
        match (operation, decision) {
            (KeyOperation::Store, Decision::Pair { pair, .. }) if done => {
                table.put(number, StoredPair { pair, value: pending.request.bytes });
            }
            (KeyOperation::Store, Decision::Pair { pair, .. }) if pending.kind == Kind::Store => {
                table.give_back(pair);
            }
            (KeyOperation::Delete, Decision::Pair { .. }) if done => table.remove(number),
            _ => {}
        }
    }

    /// The request of a command under way.
    fn request(&self, tag: u32) -> Option<KeyRequest> {
        self.pending.get(tag as usize).copied().flatten().map(|pending| pending.request)
    }

    /// Commands that found no key.
    pub(super) fn misses(&self) -> u64 {
        self.misses
    }

    /// Restarts the count of misses at the end of the ramp.
    pub(super) fn forget_misses(&mut self) {
        self.misses = 0;
    }

    /// Bytes of all keys and values.
    pub(super) fn live_bytes(&self) -> u64 {
        let of = |space: &KeySpace| -> u64 {
            let bytes = |(number, known): (u64, StoredPair)| {
                u64::from(space.sizes.of(number)) + u64::from(known.value)
            };
            space.table.all().map(bytes).sum()
        };
        self.spaces.iter().map(of).sum()
    }

    /// Key-value namespaces that flows of the run use.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = NamespaceId> + '_ {
        self.spaces.iter().map(|space| space.namespace)
    }

    /// Called after a power cut: commands in flight are gone, and the drive has lost these pairs or
    /// their latest values.
    pub(super) fn stopped(&mut self, lost: &[LostPair]) {
        self.pending.clear();
        self.misses = 0;
        for space in &mut self.spaces {
            let lost = lost.iter().filter(|it| it.namespace == space.namespace);
            let lost = lost.filter(|it| it.since.is_none()).map(|it| it.pair.0);
            let lost: BTreeSet<u32> = lost.collect();
            if lost.is_empty() {
                continue;
            }
            let gone = space.table.all().filter(|(_, known)| lost.contains(&known.pair.0));
            let gone: Vec<u64> = gone.map(|(number, _)| number).collect();
            gone.into_iter().for_each(|number| space.table.remove(number));
        }
    }
}

impl<P: Policies> Runner<P> {
    /// Whether preconditioning has laid down pairs, if anything, and no blocks.
    pub(crate) fn begins_without_blocks(&self) -> bool {
        self.keys.is_some() && self.occupancy.is_empty()
    }

    /// Writes down which pairs there are.
    pub(crate) fn record_pairs(&self, tape: &mut Tape) -> Result<(), RunError> {
        let mut pairs = self.keys.iter().flat_map(|keys| keys.pairs());
        pairs.try_for_each(|(of, pair)| tape.pair(of, &pair)).map_err(RunError::Recording)
    }

    /// Puts a key-value command into its submission queue.
    #[inline(never)]
    pub(super) fn submit_key(
        &mut self,
        at: u32,
        tag: u32,
        planned: Planned,
        created: Time,
    ) -> Result<(), Box<RunError>> {
        let now = self.issued(at);
        let job = &mut self.jobs[at as usize];
        let Some(keys) = &mut self.keys else { return Ok(()) };
        let request = keys.prepare(tag, job.namespace(), planned);
        let shown = Request { operation: Operation::Other, ..job.request(tag, planned) };
        self.pending[tag as usize] = super::Pending { request: shown, created };
        if self.drive_fetches {
            return self.drive.submit_key(now, job.queue, request);
        }
        job.submitted.push_back(tag);
        self.drive.ring(now, job.queue)
    }

    /// Hands over a key-value command that the drive has asked for.
    pub(super) fn fetch_key(&mut self, queue: QueueId, tag: u32) -> Result<(), Box<RunError>> {
        let request = self.keys.as_ref().and_then(|keys| keys.request(tag));
        match request {
            Some(request) => self.drive.key_command(self.drive.now(), queue, request),
            None => Ok(()),
        }
    }

    /// A request manager has taken a command.
    #[inline(never)]
    pub(super) fn decide(&mut self, tag: Tag) -> Result<(), Box<RunError>> {
        let Some(keys) = &mut self.keys else { return Ok(()) };
        let Some(decision) = keys.decide(tag.0) else { return Ok(()) };
        let done = self.drive.decided(tag, decision)?;
        keys.agreed(tag.0, decision, done);
        Ok(())
    }

    /// A key-value command has completed.
    #[inline(never)]
    pub(super) fn complete_key(&mut self, completed: Completed) -> Result<(), Box<RunError>> {
        let now = self.drive.now();
        let completion = self.drive.completion(completed);
        let (tag, at) = (completion.tag.0, u32::from(completion.queue.0) - 1);
        let super::Pending { request, created } = self.pending[tag as usize];
        let pending =
            self.keys.as_mut().and_then(|keys| keys.pending.get_mut(tag as usize)?.take());
        let Some(pending) = pending else { return Ok(()) };
        let job = &mut self.jobs[at as usize];
        job.outstanding -= 1;
        self.completed += 1;
        let flow = job.flow as usize;
        let bytes = if completion.status == Status::Success { pending.bytes } else { 0 };
        self.recorder.record(flow, pending.kind, bytes, created, completion);
        let slow = self.recorder.is_slow(created, completion);
        if let Some(observers) = &mut self.observers {
            observers.completed_key(flow, pending.kind, bytes, &request, created, completion)?;
        }
        if slow {
            let what = (flow, pending.kind, bytes);
            explain_slow(&mut self.recorder, &mut self.drive, what, completed, created);
        }
        self.drive.seen(completed, created)?;
        self.drive.free(job.queue)?;
        if let Some(value) = pending.then {
            let key = Some(KeyAction::Update);
            let update = Planned {
                placement: Default::default(),
                operation: Operation::Other,
                key,
                sector: pending.key,
                sectors: value,
                arrival: None,
            };
            return self.submit_key(at, tag, update, now);
        }
        if job.depth.is_some()
            && let Some(planned) = job.draw_now(&self.drive, &mut self.arrivals)
        {
            return self.submit_key(at, tag, planned, now);
        }
        self.free.push(tag);
        if job.waits { self.submit_waiting(at, now) } else { Ok(()) }
    }
}
