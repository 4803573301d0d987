//! I/O without timing: what waits in a queue is fetched at once, and plain reads and writes are
//! carried out and completed in one go. This is the path that has to be fast: nothing is
//! allocated, data are copied once, and the store's and the guest's bytes are asked for before
//! the first of them is needed.

use super::Function;
use super::data::{PAGE, Segments, read_key};
use super::memory::{Fetched, Guest, GuestMemory, Served, Step, Unmapped, Watch};
use super::modelled::{host_to_store, store_to_host};
use crate::Now;
use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::command::SamsungKey;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use zerocopy::{FromZeros, IntoBytes};

/// Kinds of commands about pairs.
const KEY_KINDS: [CommandKind; 5] = [
    CommandKind::Store,
    CommandKind::Retrieve,
    CommandKind::Delete,
    CommandKind::Exist,
    CommandKind::List,
];

/// Entries of a queue that a turn deals with.
const BATCH: usize = 64;

/// A read or write that needs no more than copying one run of bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Plain {
    writes: bool,
    /// Offset of the first byte in the store.
    at: u64,
    bytes: u32,
}

/// The entries of a batch, and what becomes of them.
#[derive(Debug)]
pub(super) struct Batch {
    entries: Box<[SubmissionEntry; BATCH]>,
    plain: Box<[Plain; BATCH]>,
    completions: Box<[CompletionEntry; BATCH]>,
    /// Filled in if a watch hears each command: index, kind and bytes of those about pairs.
    keys: Vec<(usize, CommandKind, u32)>,
}

impl Default for Batch {
    fn default() -> Self {
        Batch {
            entries: Box::new([SubmissionEntry::new_zeroed(); BATCH]),
            plain: Box::new([Plain::default(); BATCH]),
            completions: Box::new([CompletionEntry::new_zeroed(); BATCH]),
            keys: Vec::new(),
        }
    }
}

/// Prefetches the bytes of a plain command; `None` if the command needs any of the rarer checks.
#[inline]
fn plain_of(subsystem: &Subsystem, slot: u32, entry: &SubmissionEntry) -> Option<Plain> {
    let (kind, found) = subsystem.guest_plain(slot, entry).ok()??;
    let writes = kind == CommandKind::Write;
    let plain = Plain { writes, at: found.at, bytes: found.bytes };
    subsystem.media.prefetch(found.at, found.bytes).then_some(plain)
}

/// What came of a command about pairs.
struct KeyEnd {
    kind: CommandKind,
    status: Status,
    result: u32,
    /// Bytes moved between host and controller.
    bytes: u32,
}

/// Tells of a batch's commands one by one: those that have completions, and those that will.
#[cold]
fn tell_each<W: Watch + ?Sized>(
    batch: &mut Batch,
    (ended, count): (usize, usize),
    (queue_id, nth, outstanding): (u16, u32, u32),
    watch: &mut W,
) {
    // Completions are in the order of their entries.
    let mut completions = batch.completions[..ended].iter().peekable();
    let mut keys = batch.keys.iter().peekable();
    for (at, entry) in batch.entries[..count].iter().enumerate() {
        let before = at as u32;
        let fetched = Fetched {
            queue_id,
            nth: nth.wrapping_add(before),
            outstanding: outstanding + before + 1,
            batch: before + 1,
            entry,
        };
        let Some(completion) = completions.next_if(|it| it.command_id == entry.command_id) else {
            watch.fetched(&fetched);
            continue;
        };
        let plain = &batch.plain[at];
        let kind = if plain.writes { CommandKind::Write } else { CommandKind::Read };
        let key = keys.next_if(|(key, ..)| *key == at);
        let (kind, bytes) = key.map_or((kind, plain.bytes), |&(_, kind, bytes)| (kind, bytes));
        watch.served(&Served { fetched, kind, bytes, status: completion.status() });
    }
}

/// Plain commands of a batch: how many, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    commands: u32,
    bytes: u64,
}

impl Function {
    /// Serves the I/O queues, a batch of each.
    pub(super) fn serve<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
        watch: &mut W,
    ) -> bool {
        let mut worked = false;
        for at in 0..self.active.len() {
            let id = self.active[at];
            self.look(subsystem, guest, id);
            let waits =
                self.submissions[usize::from(id)].as_ref().is_some_and(|it| it.waiting() > 0);
            if waits && self.may_take(subsystem, id) {
                worked = true;
                if self.has_faults {
                    self.serve_singly(subsystem, guest.memory, id, watch);
                    continue;
                }
                let mut batch = std::mem::take(&mut self.batch).unwrap_or_default();
                self.serve_batch(now, subsystem, guest.memory, id, &mut batch, watch);
                self.batch = Some(batch);
            }
        }
        worked
    }

    /// Gives a queue's commands to the subsystem one by one, so that each has a completion.
    fn serve_singly<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        id: u16,
        watch: &mut W,
    ) {
        for _ in 0..BATCH {
            if !self.may_take(subsystem, id) {
                return;
            }
            let Some(queue) = self.submissions[usize::from(id)].as_mut() else { return };
            if queue.waiting() == 0 {
                return;
            }
            let (at, _) = queue.run(1);
            let mut entry = SubmissionEntry::new_zeroed();
            if memory.read(at, entry.as_mut_bytes()).is_err() {
                return self.fail(subsystem);
            }
            let (slot, nth) = (queue.slot, queue.taken);
            queue.fetched(1);
            if watch.hears_each() {
                let outstanding = subsystem.guest_outstanding(slot) + 1;
                let (queue_id, entry) = (id, &entry);
                watch.fetched(&Fetched { queue_id, nth, outstanding, batch: 0, entry });
            }
            match subsystem.is_about_key_spaces(slot, &entry) {
                true => self.serve_space(subsystem, memory, slot, &entry),
                false => self.submit(subsystem, memory, id, &entry),
            }
        }
    }

    /// Carries out a command about key spaces, and gives it a completion.
    fn serve_space<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        slot: u32,
        entry: &SubmissionEntry,
    ) {
        let mut segments = self.spare();
        // The completion is counted.
        let mut counts = [Count::default(); KEY_KINDS.len()];
        match self.serve_key(subsystem, memory, slot, entry, &mut segments, &mut counts) {
            Ok(Some(KeyEnd { kind, status, result, .. })) => {
                subsystem.answer_guest(slot, entry, kind, (status, result));
            }
            Ok(None) => {
                subsystem.refuse_guest(slot, entry, Status::INVALID_FIELD.do_not_retry());
            }
            Err(status) => subsystem.refuse_guest(slot, entry, status),
        }
        self.reuse(segments);
    }

    fn serve_batch<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        memory: &M,
        id: u16,
        batch: &mut Batch,
        watch: &mut W,
    ) {
        let Some(queue) = &mut self.submissions[usize::from(id)] else { return };
        let Some(completions) = &self.completions[usize::from(queue.completion)] else { return };
        let most = queue.waiting().min(completions.room()).min(BATCH as u32);
        let (at, count) = queue.run(most);
        let (slot, nth, count) = (queue.slot, queue.taken, count as usize);
        if memory.read(at, batch.entries[..count].as_mut_bytes()).is_err() {
            return self.fail(subsystem);
        }
        queue.fetched(count as u32);
        let each = watch.hears_each();
        let outstanding = if each { subsystem.guest_outstanding(slot) } else { 0 };
        if each {
            batch.keys.clear();
            watch.step(Step::Fetched);
        }
        // First all that takes time to come near, then the work.
        for (entry, plain) in batch.entries[..count].iter().zip(batch.plain.iter_mut()) {
            *plain = plain_of(subsystem, slot, entry).unwrap_or_default();
            memory.prefetch(entry.prp1(), plain.bytes.min(PAGE as u32));
        }
        let mut segments = self.spare();
        let (mut ended, mut counts) = (0, [Count::default(); 2]);
        let mut others = false;
        let mut keys = [Count::default(); KEY_KINDS.len()];
        for at in 0..count {
            let (entry, mut plain) = (batch.entries[at], batch.plain[at]);
            if others {
                // Another command of the batch may have made this one less plain.
                plain = plain_of(subsystem, slot, &entry).unwrap_or_default();
                batch.plain[at] = plain;
            }
            if plain.bytes == 0 {
                if !others {
                    others = true;
                    subsystem.bring_keys_near(slot, &batch.entries[at..count]);
                }
                match self.serve_key(subsystem, memory, slot, &entry, &mut segments, &mut keys) {
                    Ok(Some(KeyEnd { kind, status, result, bytes })) => {
                        if each {
                            batch.keys.push((at, kind, bytes));
                        }
                        let id = entry.command_id.get();
                        batch.completions[ended] = CompletionEntry::new(id, status, result.into());
                        ended += 1;
                    }
                    Ok(None) => self.submit(subsystem, memory, id, &entry),
                    Err(status) => subsystem.refuse_guest(slot, &entry, status),
                }
                continue;
            }
            if let Err(status) = self.move_plain(subsystem, memory, &entry, plain, &mut segments) {
                subsystem.refuse_guest(slot, &entry, status);
                continue;
            }
            let kind = if plain.writes { CommandKind::Write } else { CommandKind::Read };
            subsystem.count_guest(kind, entry.opcode, plain.bytes);
            let count = &mut counts[usize::from(plain.writes)];
            count.commands += 1;
            count.bytes += u64::from(plain.bytes);
            let id = entry.command_id.get();
            batch.completions[ended] = CompletionEntry::new(id, Status::SUCCESS, 0);
            ended += 1;
        }
        self.reuse(segments);
        if each {
            watch.step(Step::Moved);
        }
        if self.post_batch(now, memory, id, &mut batch.completions[..ended]).is_err() {
            return self.fail(subsystem);
        }
        if each {
            watch.step(Step::Posted);
            tell_each(batch, (ended, count), (id, nth, outstanding), watch);
        }
        let flow = subsystem.guest_queue_flow(slot);
        for (kind, count) in [CommandKind::Read, CommandKind::Write].into_iter().zip(counts) {
            if count.commands > 0 {
                watch.plain(flow, kind, count.commands, count.bytes);
            }
        }
        if others {
            for (kind, count) in KEY_KINDS.into_iter().zip(keys) {
                if count.commands > 0 {
                    watch.plain(flow, kind, count.commands, count.bytes);
                }
            }
        }
    }

    /// Carries out a command about pairs: what came of it; `None`: it is another one.
    #[inline(never)]
    fn serve_key<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        slot: u32,
        entry: &SubmissionEntry,
        segments: &mut Segments,
        counts: &mut [Count; KEY_KINDS.len()],
    ) -> Result<Option<KeyEnd>, Status> {
        if !subsystem.is_about_pairs(slot, entry) && !subsystem.is_about_key_spaces(slot, entry) {
            return Ok(None);
        }
        let fetch = |key: &SamsungKey, into: &mut [u8]| read_key(memory, key, into);
        let Some(wanted) = subsystem.guest_key(slot, entry, fetch)? else { return Ok(None) };
        if subsystem.media.is_behind() {
            // It has to wait, unlike those that are carried out here.
            return Ok(None);
        }
        let failed = |_: Unmapped| Status::DATA_TRANSFER_ERROR;
        segments.find(memory, entry, wanted.bytes, wanted.is_to_host())?;
        let (status, result, moved) = subsystem.guest_key_at_once(
            &wanted,
            |into| segments.read(memory, 0, into).map_err(failed),
            |from| segments.write(memory, 0, from).map_err(failed),
        )?;
        if status.is_success() {
            subsystem.count_guest(wanted.kind(), entry.opcode, moved);
        }
        if let Some(at) = KEY_KINDS.iter().position(|kind| *kind == wanted.kind()) {
            counts[at].commands += 1;
            counts[at].bytes += u64::from(moved);
        }
        Ok(Some(KeyEnd { kind: wanted.kind(), status, result, bytes: moved }))
    }

    /// Moves the data of a plain read or write.
    #[inline]
    fn move_plain<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        entry: &SubmissionEntry,
        Plain { writes, at, bytes }: Plain,
        segments: &mut Segments,
    ) -> Result<(), Status> {
        let failed = |_: Unmapped| Status::DATA_TRANSFER_ERROR;
        let prp1 = entry.prp1();
        // Most commands: one run of the store, in one page.
        let one_page = prp1.is_multiple_of(4) && prp1 % PAGE + u64::from(bytes) <= PAGE;
        if entry.flags == 0 && one_page {
            if writes {
                if let Some(run) = subsystem.media.bytes_mut(at, bytes)
                    && run.len() == bytes as usize
                {
                    return memory.read(prp1, run).map_err(failed);
                }
            } else if let Some(run) = subsystem.media.bytes(at, bytes)
                && run.len() == bytes as usize
            {
                return memory.write(prp1, run).map_err(failed);
            }
        }
        segments.find(memory, entry, bytes, !writes)?;
        let scratch = &mut self.scratch;
        if writes {
            match host_to_store(subsystem, memory, segments, at, bytes, scratch) {
                Ok(crate::Ready::Now) => Ok(()),
                // A store whose bytes are at hand takes them at once.
                Ok(crate::Ready::Later(_)) => Err(Status::INTERNAL_ERROR),
                Err(error) => Err(failed(error)),
            }
        } else {
            store_to_host(subsystem, memory, segments, 0, at, bytes, scratch).map_err(failed)
        }
    }

    /// Writes the completions of a batch; there is room for them.
    fn post_batch<M: GuestMemory + ?Sized>(
        &mut self,
        now: Now,
        memory: &M,
        id: u16,
        entries: &mut [CompletionEntry],
    ) -> Result<(), Unmapped> {
        let Some(queue) = &self.submissions[usize::from(id)] else { return Ok(()) };
        let Some(completions) = &mut self.completions[usize::from(queue.completion)] else {
            return Ok(());
        };
        let (head, slot) = (queue.head as u16, queue.slot);
        self.unsettled |= !entries.is_empty();
        let mut rest = entries;
        while !rest.is_empty() {
            let (at, count) = completions.run(rest.len() as u32);
            let (run, tail) = rest.split_at_mut(count as usize);
            for entry in run.iter_mut() {
                entry.queue_head.set(head);
                entry.queue_id.set(id);
                let status = entry.status_and_phase.get();
                entry.status_and_phase.set(status | completions.phase());
            }
            memory.write_completions(at, run.as_bytes())?;
            completions.posted(count, slot, now.wall);
            rest = tail;
        }
        Ok(())
    }
}
