//! The media: the store that holds the drive's bytes, and what of them a power cut would take back.
//!
//! Bytes are addressed as in the store: the data of all sectors, and behind them the metadata of
//! all sectors.

mod before;

use crate::namespaces::protection::METADATA_BYTES;
use crate::namespaces::{Extent, SECTOR_BYTES};
use crate::output::Value;
use crate::store::{KeptPairs, Place, Ready, StateId, Values};
use crate::{Condition, Store, StoreError, StoreJob};
use before::ReplacedUnits;
use mynah_model::config::Config;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::Status;

/// How often a store is asked to look after itself, where it wants that.
const TEND_INTERVAL: Span = Span::from_secs(1);

/// The store with the values of pairs, and what they still have to do.
pub(crate) struct Media {
    store: Box<dyn Store>,
    /// Where the values of pairs are, if it can hold any.
    values: Option<Box<dyn Values>>,
    /// Bytes of data; metadata begin behind them.
    data_bytes: u64,
    /// Sectors of a mapping unit.
    unit_sectors: u64,
    /// The store has woken its owner up, and has not been asked for finished jobs since.
    has_called: bool,
    /// What the store could do when hosts were told last.
    condition: Condition,
    /// When the store looks after itself next.
    next_tend: Option<Time>,
    /// Whether the store has been given what the subsystem is, but for its counters.
    is_described: bool,
    /// What writes have replaced, where a power cut is due.
    before: Option<ReplacedUnits>,
    /// Flushes of both the store and the values that are under way, and how many were begun.
    flushes: Vec<BothFlush>,
    flushes_begun: u64,
}

/// Jobs of values have this bit set, and flushes of both the other: stores count theirs from 0.
const OF_VALUES: u64 = 1 << 63;
const OF_BOTH: u64 = 1 << 62;

/// A run of bytes in the store, being brought near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) job: Option<StoreJob>,
}

/// Writes that are on flash: those that replaced something up to an epoch, in runs of units.
#[derive(Debug)]
pub(crate) struct Certain {
    pub(crate) epoch: u64,
    /// First unit, and the unit behind the last.
    pub(crate) units: Vec<(u64, u64)>,
}

/// The number of one of the values' jobs among those of the media.
fn of_values_job(StoreJob(job): StoreJob) -> StoreJob {
    StoreJob(OF_VALUES | job)
}

/// What the values have answered, with the job's number among those of the media.
pub(crate) fn of_values(ready: Ready) -> Ready {
    ready.job().map_or(Ready::Now, |job| Ready::Later(of_values_job(job)))
}

/// A flush of bytes and of pairs, which is one job.
struct BothFlush {
    job: StoreJob,
    /// Jobs of store and values that have not finished.
    left: Vec<StoreJob>,
    outcome: Result<(), StoreError>,
}

impl Media {
    /// A store with the data of so many bytes, in mapping units of so many sectors.
    pub(crate) fn new(mut store: Box<dyn Store>, data_bytes: u64, unit_sectors: u64) -> Media {
        Media {
            values: store.values(),
            store,
            data_bytes,
            unit_sectors,
            has_called: false,
            condition: Condition::Good,
            next_tend: None,
            is_described: true,
            before: None,
            flushes: Vec::new(),
            flushes_begun: 0,
        }
    }

    /// Whether it can hold values of pairs.
    pub(crate) fn takes_values(&self) -> bool {
        self.values.is_some()
    }

    /// Where the values of pairs are.
    ///
    /// # Errors
    /// If it can hold none.
    #[inline]
    pub(crate) fn values_mut(&mut self) -> Result<&mut dyn Values, Status> {
        match &mut self.values {
            Some(values) => Ok(&mut **values),
            None => Err(Status::INTERNAL_ERROR),
        }
    }

    /// The values; `None` if the store has none.
    pub(crate) fn values(&self) -> Option<&dyn Values> {
        self.values.as_deref()
    }

    /// Nobody needs a value any more for what it was pinned or reserved for.
    #[inline]
    pub(crate) fn release_value(&mut self, place: Place) {
        if let Some(values) = &mut self.values {
            values.release(place);
        }
    }

    /// The bytes of a value that its command moves: where they are, or in `scratch`.
    pub(crate) fn value_bytes<'a>(&'a self, value: &Value, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let Value { pinned, skip, bytes, size } = *value;
        let values = self.values.as_deref();
        if let Some(all) = values.and_then(|it| it.bytes(pinned, size)) {
            return &all[skip as usize..][..bytes as usize];
        }
        scratch.resize(bytes as usize, 0);
        if let Some(values) = values {
            values.read(pinned, size, skip, scratch);
        }
        scratch
    }

    /// Copies bytes of a value from `skip` on.
    #[inline]
    pub(crate) fn read_value(&self, value: &Value, skip: u32, into: &mut [u8]) {
        if let Some(values) = &self.values {
            values.read(value.pinned, value.size, skip, into);
        }
    }

    /// See [`Store::fetch`].
    #[inline]
    pub(crate) fn fetch(&mut self, at: u64, bytes: u32) -> Ready {
        self.store.fetch(at, bytes)
    }

    /// See [`Store::read`].
    #[inline]
    pub(crate) fn read(&mut self, job: Option<StoreJob>, at: u64, into: &mut [u8]) {
        self.store.read(job, at, into);
    }

    /// See [`Store::bytes`].
    #[inline]
    pub(crate) fn bytes(&self, at: u64, most: u32) -> Option<&[u8]> {
        self.store.bytes(at, most)
    }

    /// See [`Store::takes_room`].
    pub(crate) fn takes_room(&self, at: u64, most: u64) -> (bool, u64) {
        self.store.takes_room(at, most)
    }

    /// See [`Store::bytes_mut`].
    #[inline]
    pub(crate) fn bytes_mut(&mut self, at: u64, most: u32) -> Option<&mut [u8]> {
        self.store.bytes_mut(at, most)
    }

    /// See [`Store::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, at: u64, bytes: u32) -> bool {
        self.store.prefetch(at, bytes)
    }

    /// See [`Store::forget`].
    pub(crate) fn forget(&mut self, job: StoreJob) {
        self.store.forget(job);
    }

    /// See [`Store::write`].
    #[inline]
    pub(crate) fn write(&mut self, at: u64, from: &[u8]) -> Ready {
        self.store.write(at, from)
    }

    /// See [`Store::discard`].
    pub(crate) fn discard(&mut self, at: u64, bytes: u64) -> Ready {
        self.store.discard(at, bytes)
    }

    /// Puts everything on stable storage: bytes, and pairs.
    pub(crate) fn flush(&mut self) -> Ready {
        let of_values = self.values.as_mut().map_or(Ready::Now, |values| values.flush());
        let of_store = self.store.flush();
        let Some(values) = of_values.job().map(of_values_job) else { return of_store };
        let Some(store) = of_store.job() else { return Ready::Later(values) };
        let job = StoreJob(OF_BOTH | self.flushes_begun);
        self.flushes_begun += 1;
        self.flushes.push(BothFlush { job, left: vec![values, store], outcome: Ok(()) });
        Ready::Later(job)
    }

    /// See [`Store::is_volatile`].
    pub(crate) fn is_volatile(&self) -> bool {
        self.store.is_volatile()
    }

    /// The next job of either that has finished, and how.
    pub(crate) fn finished_job(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        loop {
            let of_values = self.values.as_mut().and_then(|values| values.finished());
            let of_values = of_values.map(|(job, outcome)| (of_values_job(job), outcome));
            let (job, outcome) = of_values.or_else(|| self.store.finished())?;
            let Some(at) = self.flushes.iter().position(|it| it.left.contains(&job)) else {
                return Some((job, outcome));
            };
            let flush = &mut self.flushes[at];
            flush.left.retain(|left| *left != job);
            flush.outcome = flush.outcome.and(outcome);
            if flush.left.is_empty() {
                let flush = self.flushes.swap_remove(at);
                return Some((flush.job, flush.outcome));
            }
        }
    }

    /// Whether what becomes of pairs can be kept.
    ///
    /// # Errors
    /// What a command ends with if not. One that `makes_room` may go on where there is none.
    pub(crate) fn check_values(&self, makes_room: bool) -> Result<(), Status> {
        match self.values.as_ref().map_or(Condition::Good, |values| values.condition()) {
            Condition::Good => Ok(()),
            Condition::Full if makes_room => Ok(()),
            Condition::Full => Err(Status::CAPACITY_EXCEEDED.do_not_retry()),
            Condition::Failed => Err(Status::WRITE_FAULT),
        }
    }

    /// The pairs that outlive the process, if they do.
    pub(crate) fn kept_pairs(&self) -> Option<KeptPairs> {
        self.values.as_ref().and_then(|values| values.kept())
    }

    /// Puts all pairs on stable storage; it may block.
    pub(crate) fn settle_values(&mut self) -> Result<(), StoreError> {
        self.values.as_mut().map_or(Ok(()), |values| values.settle())
    }

    /// Whether so much becomes of pairs that commands have to wait.
    pub(crate) fn is_behind(&self) -> bool {
        self.values.as_ref().is_some_and(|values| values.is_behind())
    }

    /// Whether pairs of an earlier process are left over.
    pub(crate) fn has_left_pairs(&self) -> bool {
        self.values.as_ref().is_some_and(|values| !values.left().is_empty())
    }

    /// The store's owner was woken up by it.
    pub(crate) fn call(&mut self) {
        self.has_called = true;
    }

    /// Whether that has happened since this was asked last.
    #[inline]
    pub(crate) fn take_call(&mut self) -> bool {
        std::mem::take(&mut self.has_called)
    }

    /// See [`Store::prepare`].
    pub(crate) fn prepare(&mut self) -> bool {
        self.store.prepare()
    }

    /// See [`Store::is_scattered`].
    pub(crate) fn is_scattered(&self) -> bool {
        self.store.is_scattered()
    }

    /// See [`Store::consolidate`].
    pub(crate) fn consolidate(&mut self) {
        self.store.consolidate();
    }

    /// See [`Store::begin`].
    pub(crate) fn begin(&mut self) -> Result<(), StoreError> {
        self.store.begin()
    }

    /// See [`Store::cancel`].
    pub(crate) fn cancel(&mut self) -> Result<(), StoreError> {
        self.store.cancel()
    }

    /// See [`Store::settle`].
    pub(crate) fn settle(&mut self) -> Result<(), StoreError> {
        let of_values = self.values.as_mut().map_or(Ok(()), |values| values.settle());
        self.store.settle().and(of_values)
    }

    /// See [`Store::close`].
    pub(crate) fn close(&mut self, state: Option<StateId>) -> Result<(), StoreError> {
        let of_values = self.values.as_mut().map_or(Ok(()), |values| values.close(state));
        // What it then says, that all ended in order, has to be so of the pairs, too.
        of_values.and_then(|()| self.store.close(state))
    }

    /// The worse of what the store and the values can do.
    pub(crate) fn condition(&self) -> Condition {
        let of_values = self.values.as_ref().map_or(Condition::Good, |values| values.condition());
        match (self.store.condition(), of_values) {
            (Condition::Failed, _) | (_, Condition::Failed) => Condition::Failed,
            (Condition::Full, _) | (_, Condition::Full) => Condition::Full,
            (Condition::Good, Condition::Good) => Condition::Good,
        }
    }

    /// What the store can do, if it is not what it could do when this was asked last.
    pub(crate) fn changed_condition(&mut self) -> Option<Condition> {
        let condition = self.condition();
        (std::mem::replace(&mut self.condition, condition) != condition).then_some(condition)
    }

    /// Has the store look after itself; when it is due again, if it is.
    pub(crate) fn tend(&mut self, now: Time) -> Option<Time> {
        let of_values = self.values.as_mut().is_some_and(|values| values.tend());
        self.next_tend = (self.store.tend() || of_values).then(|| now + TEND_INTERVAL);
        self.next_tend
    }

    /// When [`Media::tend`] is due; `None`: not at all.
    pub(crate) fn next_tend(&self) -> Option<Time> {
        self.next_tend
    }

    /// What the store describes, of an earlier process perhaps.
    pub(crate) fn description(&self) -> Option<&[u8]> {
        self.store.description()
    }

    /// Has the store keep what the subsystem is now.
    pub(crate) fn describe(&mut self, description: &[u8]) {
        self.store.describe(description);
        self.is_described = true;
    }

    /// Whether the store has been given what the subsystem is, but for its counters.
    pub(crate) fn is_described(&self) -> bool {
        self.is_described
    }

    /// The subsystem is not what the store has been given any more: the next flush sees to it.
    pub(crate) fn outdate_description(&mut self) {
        self.is_described = false;
    }

    /// Bytes of data; metadata lie behind these.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Where the metadata of a sector lie, given where its data lie.
    pub(crate) fn metadata_place(&self, data: u64) -> u64 {
        self.data_bytes + data / SECTOR_BYTES * METADATA_BYTES as u64
    }

    /// From now on what writes replace is kept until they are certain to be on flash.
    pub(crate) fn expect_power_cut(&mut self, config: &Config) {
        self.before = Some(ReplacedUnits::new(config));
    }

    /// Whether a power cut is due.
    #[inline]
    pub(crate) fn keeps_replaced(&self) -> bool {
        self.before.is_some()
    }

    fn unit_bytes(&self) -> u64 {
        self.unit_sectors * SECTOR_BYTES
    }

    /// Units of these bytes of which something has to be kept first: where their data lie, and where
    /// their metadata.
    pub(crate) fn kept_places(&self, (at, bytes): (u64, u64)) -> Vec<(u64, u64)> {
        let Some(before) = &self.before else { return vec![] };
        // Metadata are kept with the data they belong to.
        if at >= self.data_bytes || bytes == 0 {
            return vec![];
        }
        let unit_bytes = self.unit_bytes();
        let metadata_bytes = self.unit_sectors * METADATA_BYTES as u64;
        let (first, last) = (at / unit_bytes, (at + bytes - 1) / unit_bytes);
        (first..=last)
            .filter(|&unit| !before.has(unit))
            .flat_map(|unit| {
                let at = unit * unit_bytes;
                [(at, unit_bytes), (self.metadata_place(at), metadata_bytes)]
            })
            .collect()
    }

    /// Keeps what these places, pairs of data and metadata of units, hold.
    pub(crate) fn keep(&mut self, segments: &[Segment]) {
        let unit_bytes = self.unit_bytes();
        for pair in segments.chunks_exact(2) {
            let mut bytes = vec![0; (pair[0].bytes + pair[1].bytes) as usize];
            let (data, metadata) = bytes.split_at_mut(pair[0].bytes as usize);
            self.store.read(pair[0].job, pair[0].at, data);
            self.store.read(pair[1].job, pair[1].at, metadata);
            if let Some(before) = &mut self.before {
                before.keep(pair[0].at / unit_bytes, bytes.into_boxed_slice());
            }
        }
    }

    /// A command begins whose success makes writes certain: to these runs of bytes, each by its
    /// first byte and the byte behind its last. What it has to tell when it has succeeded; `None`
    /// where no power cut is due.
    pub(crate) fn makes_certain(&mut self, runs: &[(u64, u64)]) -> Option<Box<Certain>> {
        let unit_bytes = self.unit_bytes();
        let before = self.before.as_mut()?;
        let units =
            runs.iter().map(|&(at, end)| (at / unit_bytes, end.div_ceil(unit_bytes))).collect();
        Some(Box::new(Certain { epoch: before.begin_epoch(), units }))
    }

    /// A command has succeeded that makes this certain.
    pub(crate) fn made_certain(&mut self, certain: Option<&Certain>) {
        if let (Some(certain), Some(before)) = (certain, &mut self.before) {
            before.forget(certain);
        }
    }

    /// Forgets what these runs held before: they are erased, and no power cut undoes that.
    pub(crate) fn forget_erased(&mut self, extents: &[Extent]) {
        let unit_bytes = self.unit_bytes();
        if let Some(before) = &mut self.before {
            let unit = |at: u64| at / unit_bytes;
            let run = |it: &Extent| (unit(it.store), unit(it.store + it.sectors * SECTOR_BYTES));
            let (epoch, units) = (before.epoch(), extents.iter().map(run).collect());
            before.forget(&Certain { epoch, units });
        }
    }

    /// Nothing that was replaced will come back.
    pub(crate) fn forget_replaced(&mut self) {
        if let Some(before) = &mut self.before {
            before.forget_all();
        }
    }

    /// The power was lost with a unit of a pool that begins at this sector: what it held before comes
    /// back.
    pub(crate) fn bring_back(&mut self, pool_start: u64, unit: u64) {
        let unit_bytes = self.unit_bytes();
        let unit = pool_start * SECTOR_BYTES / unit_bytes + unit;
        let Some(bytes) = self.before.as_mut().and_then(|before| before.take(unit)) else { return };
        let (data, metadata) = bytes.split_at(unit_bytes as usize);
        let at = unit * unit_bytes;
        let place = self.metadata_place(at);
        // Nobody waits for these writes; the jobs they may become are of no command.
        let _ = self.store.write(at, data);
        let _ = self.store.write(place, metadata);
    }
}
