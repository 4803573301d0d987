//! Accepted operations that the disk has not done yet: their order, and what they make reads
//! see.

use mynah_device::StoreJob;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What an operation leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Bytes(Arc<[u8]>),
    Zeros,
}

/// An operation whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) sequence: u64,
    pub(super) at: u64,
    pub(super) bytes: u64,
    pub(super) content: Content,
}

impl Operation {
    /// So many bytes, and no fewer, a disk has after it. Zeros make none longer.
    pub(super) fn holds(&self) -> u64 {
        match self.content {
            Content::Bytes(_) => self.at + self.bytes,
            Content::Zeros => 0,
        }
    }
}

/// Bytes of an unfinished operation that a read must see.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    at: u64,
    bytes: u64,
    content: Content,
    /// Where in `content` they begin.
    skip: u64,
}

impl Patch {
    /// Lays the patch over bytes that begin at `base`.
    pub(super) fn apply(&self, base: u64, into: &mut [u8]) {
        let first = (self.at - base) as usize;
        let part = &mut into[first..first + self.bytes as usize];
        match &self.content {
            Content::Bytes(bytes) => {
                part.copy_from_slice(&bytes[self.skip as usize..][..part.len()]);
            }
            Content::Zeros => part.fill(0),
        }
    }
}

#[derive(Debug)]
struct Pending {
    at: u64,
    bytes: u64,
    content: Content,
    /// Earlier operations and reads that must end first.
    waits_for: usize,
    /// Later operations that wait for this one.
    then: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    end: u64,
    sequence: u64,
}

#[derive(Debug)]
struct Reading {
    at: u64,
    end: u64,
    then: Vec<u64>,
}

/// What an operation costs besides its bytes, so that many small ones are bounded, too.
const OPERATION_COST: u64 = 256;

/// The unfinished operations. Those that overlap are done one after the other, and none is
/// begun while an earlier read of the same bytes is under way. One that the disk refuses is
/// unfinished still: its bytes are here and nowhere else, and those behind it wait until it has
/// been tried again.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    accepted: u64,
    cost: u64,
    pending: BTreeMap<u64, Pending>,
    /// For each byte with an unfinished operation the newest one; by first byte, disjoint.
    newest: BTreeMap<u64, Segment>,
    reading: HashMap<StoreJob, Reading>,
    /// Operations that the disk has refused, and that are not under way again.
    refused: BTreeSet<u64>,
}

impl Backlog {
    /// The number of the operation accepted last; the first has 1.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The lowest number of an operation that has not ended.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.pending.keys().next().copied()
    }

    /// Memory that is held, in bytes.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// Accepts an operation. `Some`: it may begin at once.
    pub(super) fn accept(&mut self, at: u64, bytes: u64, content: Content) -> Option<Operation> {
        self.accepted += 1;
        let sequence = self.accepted;
        let end = at + bytes;
        let mut earlier = self.take_segments(at, end);
        earlier.sort_unstable();
        earlier.dedup();
        let mut waits_for = earlier.len();
        for number in earlier {
            self.pending.get_mut(&number).expect("segments are pending").then.push(sequence);
        }
        for reading in self.reading.values_mut().filter(|read| read.at < end && at < read.end) {
            reading.then.push(sequence);
            waits_for += 1;
        }
        self.newest.insert(at, Segment { end, sequence });
        self.cost += cost(&content);
        let ready =
            (waits_for == 0).then(|| Operation { sequence, at, bytes, content: content.clone() });
        let pending = Pending { at, bytes, content, waits_for, then: Vec::new() };
        self.pending.insert(sequence, pending);
        ready
    }

    /// Removes a range from the segments; returns the operations that it belonged to.
    fn take_segments(&mut self, at: u64, end: u64) -> Vec<u64> {
        let mut owners = Vec::new();
        if let Some((&start, &segment)) = self.newest.range(..at).next_back()
            && segment.end > at
        {
            owners.push(segment.sequence);
            self.newest.insert(start, Segment { end: at, ..segment });
            if segment.end > end {
                self.newest.insert(end, segment);
                return owners;
            }
        }
        while let Some((&start, &segment)) = self.newest.range(at..end).next() {
            owners.push(segment.sequence);
            self.newest.remove(&start);
            if segment.end > end {
                self.newest.insert(end, segment);
            }
        }
        owners
    }

    /// An operation has ended well; appends those whose turn it is now.
    pub(super) fn ended(&mut self, sequence: u64, ready: &mut Vec<Operation>) {
        let Some(done) = self.pending.remove(&sequence) else { return };
        self.cost -= cost(&done.content);
        let range = done.at..done.at + done.bytes;
        let own: Vec<u64> = self
            .newest
            .range(range)
            .filter(|(_, segment)| segment.sequence == sequence)
            .map(|(&start, _)| start)
            .collect();
        for start in own {
            self.newest.remove(&start);
        }
        self.release(done.then, ready);
    }

    /// The disk refused an operation. Reads go on seeing its bytes.
    pub(super) fn refused(&mut self, sequence: u64) {
        if self.pending.contains_key(&sequence) {
            self.refused.insert(sequence);
        }
    }

    /// Whether there are operations that the disk has refused.
    pub(super) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Bytes in memory that may not be on the disk.
    pub(super) fn bytes(&self) -> u64 {
        self.pending.values().map(|it| it.bytes).sum()
    }

    /// Up to this many refused operations, oldest first, to be tried again.
    pub(super) fn retry(&mut self, most: usize) -> Vec<Operation> {
        let again: Vec<u64> = self.refused.iter().copied().take(most).collect();
        let operation = |sequence: u64| {
            self.refused.remove(&sequence);
            let pending = self.pending.get(&sequence)?;
            let (at, bytes, content) = (pending.at, pending.bytes, pending.content.clone());
            Some(Operation { sequence, at, bytes, content })
        };
        again.into_iter().filter_map(operation).collect()
    }

    /// Drops refused operations of which later ones have replaced everything; appends those whose
    /// turn it is now.
    pub(super) fn drop_replaced(&mut self, ready: &mut Vec<Operation>) {
        let is_replaced = |sequence: &u64| {
            let Some(pending) = self.pending.get(sequence) else { return true };
            let mut seen = self.newest.range(pending.at..pending.at + pending.bytes);
            !seen.any(|(_, segment)| segment.sequence == *sequence)
        };
        let replaced: Vec<u64> =
            self.refused.iter().copied().filter(|it| is_replaced(it)).collect();
        for sequence in replaced {
            self.refused.remove(&sequence);
            self.ended(sequence, ready);
        }
    }

    /// A read of the disk begins.
    pub(super) fn read_begins(&mut self, job: StoreJob, at: u64, bytes: u64) {
        self.reading.insert(job, Reading { at, end: at + bytes, then: Vec::new() });
    }

    /// A read of the disk has ended; appends the operations whose turn it is now.
    pub(super) fn read_ended(&mut self, job: StoreJob, ready: &mut Vec<Operation>) {
        if let Some(reading) = self.reading.remove(&job) {
            self.release(reading.then, ready);
        }
    }

    fn release(&mut self, then: Vec<u64>, ready: &mut Vec<Operation>) {
        for sequence in then {
            let Some(next) = self.pending.get_mut(&sequence) else { continue };
            next.waits_for -= 1;
            if next.waits_for == 0 {
                let (at, bytes, content) = (next.at, next.bytes, next.content.clone());
                ready.push(Operation { sequence, at, bytes, content });
            }
        }
    }

    /// What a read that is accepted now must see on top of the disk's bytes, and whether that
    /// is all of them.
    pub(super) fn patches(&self, at: u64, bytes: u64) -> (Vec<Patch>, bool) {
        let end = at + bytes;
        let mut patches = Vec::new();
        let mut covered = 0;
        let before = self.newest.range(..at).next_back();
        for (&start, segment) in before.into_iter().chain(self.newest.range(at..end)) {
            let (first, last) = (start.max(at), segment.end.min(end));
            if first >= last {
                continue;
            }
            let owner = &self.pending[&segment.sequence];
            covered += last - first;
            patches.push(Patch {
                at: first,
                bytes: last - first,
                content: owner.content.clone(),
                skip: first - owner.at,
            });
        }
        (patches, covered == bytes)
    }
}

fn cost(content: &Content) -> u64 {
    OPERATION_COST
        + match content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Zeros => 0,
        }
}
