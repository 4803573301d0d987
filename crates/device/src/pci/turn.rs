//! A turn: what the doorbells say, what the subsystem has completed, and which interrupts are
//! due.

use super::data::Segments;
use super::memory::{Guest, GuestMemory, Posting, Unmapped, Watch, doorbell};
use super::queue::{Backlogged, Signal};
use super::{Function, NONE};
use crate::Now;
use crate::controllers::Aggregation;
use crate::controllers::events as event;
use crate::output::{Completion, CompletionData, Media};
use crate::subsystem::Subsystem;
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use zerocopy::{FromZeros, IntoBytes};

/// Entries of the admin queue that a turn deals with.
const ADMIN_COMMANDS: u32 = 8;
/// Commands that a queue may have outstanding beyond its entries: requests for events stay for
/// ever, also in a small queue.
const OUTSTANDING_EXTRA: u32 = 8;

/// Guest memory as long as the function may use it.
struct Gate<'a, M: ?Sized> {
    memory: &'a M,
    is_open: bool,
}

impl<M: GuestMemory + ?Sized> GuestMemory for Gate<'_, M> {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unmapped> {
        if self.is_open { self.memory.read(at, into) } else { Err(Unmapped) }
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        if self.is_open { self.memory.write(at, from) } else { Err(Unmapped) }
    }

    #[inline]
    fn write_completions(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        if self.is_open { self.memory.write_completions(at, from) } else { Err(Unmapped) }
    }

    #[inline]
    fn prefetch(&self, at: u64, bytes: u32) {
        self.memory.prefetch(at, bytes);
    }
}

impl Function {
    /// Looks at the doorbells and does what is due, in a bounded portion. Whether it did
    /// something: then there may be more to do at once.
    ///
    /// `watch` hears of every command that ends, once its completion can be seen.
    pub fn turn<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
        watch: &mut W,
    ) -> bool {
        subsystem.advance(now);
        if self.wants_enable {
            self.enable(subsystem, guest.doorbells);
        }
        let is_open = self.space.is_bus_master();
        let memory = &Gate { memory: guest.memory, is_open };
        let guest = Guest { memory, doorbells: guest.doorbells };
        let mut worked = false;
        if self.modelled {
            worked |= self.answer_model(now, subsystem, guest, watch);
        }
        if is_open && self.is_running(subsystem) {
            worked |= self.free_completions(now, subsystem, guest, watch);
            worked |= self.admin_commands(subsystem, guest);
            if self.modelled {
                if !subsystem.is_held_up() {
                    worked |= self.ring_model(subsystem, guest);
                }
            } else {
                worked |= self.serve(now, subsystem, guest, watch);
            }
            if self.has_faults {
                worked |= self.release_held(now, subsystem, guest, watch);
            }
            worked |= self.take_completions(now, subsystem, guest, watch);
            if self.unsettled || self.next_at.is_some() {
                self.signal(now, subsystem);
            }
        }
        if worked {
            subsystem.heard_of_guest(self.controller);
        }
        worked
    }

    /// Whether the host has put something into a queue, or made room in a full one, since the last
    /// turn: a glance at its doorbells, for those who wait. In shadow doorbells it sees nothing,
    /// and says yes.
    #[inline]
    pub fn is_rung(&self, doorbells: &[AtomicU32]) -> bool {
        let differs = |index: usize, known: u32| {
            doorbell(doorbells, index).is_some_and(|shown| shown != known)
        };
        let submitted = |&id: &u16| {
            let queue = &self.submissions[usize::from(id)];
            queue.as_ref().is_some_and(|queue| differs(usize::from(id) * 2, queue.tail))
        };
        let freed = |&id: &u16| {
            let queue = &self.completions[usize::from(id)];
            let full = queue.as_ref().filter(|queue| queue.room() == 0);
            full.is_some_and(|queue| differs(usize::from(id) * 2 + 1, queue.head))
        };
        self.shadow.is_some()
            || submitted(&0)
            || self.active.iter().any(submitted)
            || self.active_completions.iter().any(freed)
    }

    /// Before the host's writes to its shadow doorbells are left unwatched: asks it to ring.
    /// Whether something has been put into a queue meanwhile, so that another turn is due.
    pub fn ask_for_doorbells<M: GuestMemory + ?Sized>(&mut self, guest: Guest<'_, M>) -> bool {
        let Some((shadow, events)) = self.shadow else { return false };
        if !self.space.is_bus_master() {
            return false;
        }
        let mut is_rung = false;
        // The host writes its doorbell and then reads the event index: so here it is the other
        // way round, with every access in order.
        let mut ask = |index: u64, known: u32| {
            let mut now = [0; 4];
            let asked = guest.memory.write(events + index * 4, &known.to_le_bytes());
            fence(Ordering::SeqCst);
            if asked.and_then(|()| guest.memory.read(shadow + index * 4, &mut now)).is_ok() {
                is_rung |= u32::from_le_bytes(now) != known;
            }
        };
        for &id in &self.active {
            if let Some(queue) = &self.submissions[usize::from(id)] {
                ask(u64::from(id) * 2, queue.tail);
            }
        }
        // Heads are of interest where something waits for room.
        for &id in self.active_completions.iter().filter(|&&id| id > 0) {
            if let Some(queue) = &self.completions[usize::from(id)]
                && queue.room() == 0
            {
                ask(u64::from(id) * 2 + 1, queue.head);
            }
        }
        is_rung
    }

    /// What a doorbell says: in guest memory where the host has put it there.
    #[inline]
    fn doorbell<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        doorbells: &[AtomicU32],
        index: usize,
    ) -> Result<Option<u32>, Unmapped> {
        match self.shadow {
            Some((shadow, _)) if index >= 2 => {
                let mut word = [0; 4];
                memory.read(shadow + index as u64 * 4, &mut word)?;
                fence(Ordering::Acquire);
                Ok(Some(u32::from_le_bytes(word)))
            }
            _ => Ok(doorbell(doorbells, index)),
        }
    }

    /// Takes a submission queue's tail; how many entries are new.
    #[inline]
    pub(super) fn look<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
        id: u16,
    ) -> u32 {
        let index = usize::from(id) * 2;
        let Ok(tail) = self.doorbell(guest.memory, guest.doorbells, index) else {
            self.fail(subsystem);
            return 0;
        };
        let (Some(tail), Some(queue)) = (tail, &mut self.submissions[usize::from(id)]) else {
            return 0;
        };
        match queue.ring(tail) {
            Ok(0) => 0,
            Ok(fresh) => {
                if let Some((_, events)) = self.shadow
                    && id > 0
                {
                    // One behind: the host need not ring as long as there are turns.
                    let event = tail.wrapping_sub(1);
                    let _ = guest.memory.write(events + index as u64 * 4, &event.to_le_bytes());
                }
                fresh
            }
            Err(()) => {
                subsystem.raise(self.controller, event::INVALID_DOORBELL_VALUE);
                0
            }
        }
    }

    /// Takes the heads of the completion queues, and posts what waits for room.
    fn free_completions<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
        watch: &mut W,
    ) -> bool {
        let mut worked = false;
        for at in 0..self.active_completions.len() {
            let id = usize::from(self.active_completions[at]);
            let Ok(head) = self.doorbell(guest.memory, guest.doorbells, id * 2 + 1) else {
                self.fail(subsystem);
                return true;
            };
            let (Some(head), Some(queue)) = (head, &mut self.completions[id]) else { continue };
            if head == queue.head {
                continue;
            }
            self.unsettled = true;
            // Runs of entries with the same owner are freed at once.
            let (mut owner, mut count) = (NONE, 0);
            let outcome = queue.free(head, |other| {
                if other != owner {
                    subsystem.completions_freed(owner, std::mem::take(&mut count));
                    owner = other;
                }
                count += 1;
            });
            subsystem.completions_freed(owner, count);
            if outcome.is_err() {
                subsystem.raise(self.controller, event::INVALID_DOORBELL_VALUE);
                continue;
            }
            while let Some(queue) = &mut self.completions[id]
                && queue.room() > 0
                && let Some(Backlogged { submission, mut completion }) = queue.backlog.pop_front()
            {
                worked = true;
                self.post(now, subsystem, guest.memory, submission, &mut completion, watch);
            }
        }
        worked
    }

    /// Whether a queue's commands can be taken now: there is room for their completions, and
    /// there are not too many of them under way.
    pub(super) fn may_take(&self, subsystem: &Subsystem, id: u16) -> bool {
        let Some(queue) = &self.submissions[usize::from(id)] else { return false };
        let outstanding = subsystem.guest_outstanding(queue.slot);
        outstanding + (queue.held.len() as u32) < queue.entries + OUTSTANDING_EXTRA
            && self.completions[usize::from(queue.completion)]
                .as_ref()
                .is_some_and(|queue| queue.backlog.is_empty() && queue.room() > 0)
    }

    fn admin_commands<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
    ) -> bool {
        self.look(subsystem, guest, 0);
        let mut worked = false;
        for _ in 0..ADMIN_COMMANDS {
            if !self.is_running(subsystem) || !self.may_take(subsystem, 0) {
                break;
            }
            let Some(queue) = self.submissions[0].as_mut().filter(|it| it.waiting() > 0) else {
                break;
            };
            worked = true;
            let (at, _) = queue.run(1);
            queue.fetched(1);
            let slot = queue.slot;
            let mut entry = SubmissionEntry::new_zeroed();
            if guest.memory.read(at, entry.as_mut_bytes()).is_err() {
                self.fail(subsystem);
                break;
            }
            let (memory, doorbells) = (guest.memory, guest.doorbells);
            match self.queue_command(subsystem, memory, doorbells, &entry) {
                Some(Ok(())) => subsystem.accept_guest(slot, &entry),
                Some(Err(status)) => subsystem.refuse_guest(slot, &entry, status),
                None if entry.flags >> 6 != 0 => {
                    let status = Status::INVALID_FIELD.do_not_retry();
                    subsystem.refuse_guest(slot, &entry, status);
                }
                None => self.submit(subsystem, memory, 0, &entry),
            }
        }
        worked
    }

    /// Gives a command to the subsystem, with its data from the host; data for the host go out
    /// with the completion.
    pub(super) fn submit<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        id: u16,
        entry: &SubmissionEntry,
    ) {
        let Some(slot) = self.submissions[usize::from(id)].as_ref().map(|queue| queue.slot) else {
            return;
        };
        let mut segments = self.spare();
        if let Err(status) = self.submit_with(subsystem, memory, (id, slot), entry, &mut segments) {
            subsystem.refuse_guest(slot, entry, status);
        }
        self.reuse(segments);
    }

    fn submit_with<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        (id, slot): (u16, u32),
        entry: &SubmissionEntry,
        segments: &mut Segments,
    ) -> Result<(), Status> {
        let (bytes, to_host) = subsystem.guest_bytes(slot, entry)?;
        segments.find(memory, entry, bytes, to_host)?;
        // Where the data lie is the transport's business.
        let entry = SubmissionEntry { flags: entry.flags & 0x3f, ..*entry };
        if to_host && bytes > 0 {
            let transfer = self.keep(slot, std::mem::take(segments));
            if let Some(queue) = &mut self.submissions[usize::from(id)] {
                queue.pending.push((entry.command_id.get(), transfer));
            }
            subsystem.submit_guest(slot, &entry, &[]);
            return Ok(());
        }
        self.scratch.resize(bytes as usize, 0);
        segments.read(memory, 0, &mut self.scratch).map_err(|_| Status::DATA_TRANSFER_ERROR)?;
        subsystem.submit_guest(slot, &entry, &self.scratch);
        Ok(())
    }

    fn take_completions<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
        watch: &mut W,
    ) -> bool {
        let mut worked = false;
        while let Some(mut completion) = subsystem.take_guest_completion(self.controller) {
            worked = true;
            let id = subsystem.guest_queue_id(completion.queue.0);
            let command_id = completion.entry.command_id.get();
            let mut transfer = completion.transfer;
            if transfer == NONE
                && let Some(queue) = &mut self.submissions[usize::from(id)]
                && let Some(at) = queue.pending.iter().position(|(it, _)| *it == command_id)
            {
                transfer = queue.pending.swap_remove(at).1;
            }
            if self.deliver(subsystem, guest.memory, transfer, &mut completion).is_err() {
                let status = Status::DATA_TRANSFER_ERROR.to_bits() << 1;
                completion.entry.status_and_phase.set(status);
            }
            self.forget(transfer);
            let posting = match self.has_faults && id > 0 {
                true => watch.posting(),
                false => Posting::Posted,
            };
            match posting {
                Posting::Posted => self.post_or_keep(now, subsystem, guest, id, completion, watch),
                Posting::Held(until) => {
                    let Some(queue) = &mut self.submissions[usize::from(id)] else { continue };
                    watch.kept_back(id, command_id);
                    let at = queue.held.partition_point(|(other, _)| *other <= until);
                    queue.held.insert(at, (until, completion));
                    let next = self.held_until.map_or(until, |next| next.min(until));
                    self.held_until = Some(next);
                }
                // Its place in the completion queue is free again.
                Posting::Dropped => subsystem.completions_freed(completion.queue.0, 1),
            }
        }
        worked
    }

    /// Posts a completion, or keeps it until there is room.
    fn post_or_keep<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
        id: u16,
        mut completion: Completion,
        watch: &mut W,
    ) {
        let Some(queue) = &self.submissions[usize::from(id)] else { return };
        let Some(completions) = &mut self.completions[usize::from(queue.completion)] else {
            return;
        };
        if completions.room() == 0 || !completions.backlog.is_empty() {
            watch.kept_back(id, completion.entry.command_id.get());
            completions.backlog.push_back(Backlogged { submission: id, completion });
            return;
        }
        self.post(now, subsystem, guest.memory, id, &mut completion, watch);
    }

    /// Posts what a fault has held back until now; whether there was something.
    fn release_held<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        guest: Guest<'_, M>,
        watch: &mut W,
    ) -> bool {
        if self.held_until.is_none_or(|at| at > now.wall) {
            return false;
        }
        self.held_until = None;
        for at in 0..self.active.len() {
            let id = self.active[at];
            while let Some(queue) = &mut self.submissions[usize::from(id)]
                && let Some((until, _)) = queue.held.front()
            {
                if *until > now.wall {
                    let next = self.held_until.map_or(*until, |next| next.min(*until));
                    self.held_until = Some(next);
                    break;
                }
                let Some((_, completion)) = queue.held.pop_front() else { break };
                self.post_or_keep(now, subsystem, guest, id, completion, watch);
            }
        }
        true
    }

    /// Copies a completion's data to where the host wants them.
    fn deliver<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        transfer: u32,
        completion: &mut Completion,
    ) -> Result<(), Unmapped> {
        let data = std::mem::replace(&mut completion.data, CompletionData::None);
        let Some(transfer) = self.transfers.get(transfer) else {
            match data {
                CompletionData::Media(Media { job: Some(job), .. }) => subsystem.media.forget(job),
                CompletionData::Value(value) => subsystem.media.release_value(value.pinned),
                _ => {}
            }
            return Ok(());
        };
        match data {
            CompletionData::None | CompletionData::Connected(_) => Ok(()),
            CompletionData::Bytes(bytes) => transfer.segments.write(memory, 0, &bytes),
            CompletionData::Value(value) => {
                let bytes = subsystem.media.value_bytes(&value, &mut self.scratch);
                let written = transfer.segments.write(memory, 0, bytes);
                subsystem.media.release_value(value.pinned);
                written
            }
            CompletionData::Media(media) => {
                self.scratch.resize(media.bytes as usize, 0);
                subsystem.media.read(media.job, media.at, &mut self.scratch);
                transfer.segments.write(memory, 0, &self.scratch)
            }
        }
    }

    /// Writes a completion; there is room for it.
    fn post<M: GuestMemory + ?Sized, W: Watch + ?Sized>(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        memory: &M,
        id: u16,
        completion: &mut Completion,
        watch: &mut W,
    ) {
        let Some(queue) = &self.submissions[usize::from(id)] else { return };
        let Some(completions) = &mut self.completions[usize::from(queue.completion)] else {
            return;
        };
        let entry = &mut completion.entry;
        entry.queue_head.set(queue.head as u16);
        entry.queue_id.set(id);
        entry.status_and_phase.set(entry.status_and_phase.get() & !1 | completions.phase());
        let (at, _) = completions.run(1);
        if memory.write_completions(at, entry.as_bytes()).is_err() {
            return self.fail(subsystem);
        }
        completions.posted(1, queue.slot, now.wall);
        self.unsettled = true;
        watch.completed(completion);
    }

    /// Raises the interrupts that are due.
    fn signal(&mut self, now: Now, subsystem: &Subsystem) {
        self.next_at = None;
        self.unsettled = false;
        for at in 0..self.active_completions.len() {
            let id = self.active_completions[at];
            let Some(queue) = &mut self.completions[usize::from(id)] else { continue };
            let Some(vector) = queue.vector.filter(|_| queue.has_unsignalled()) else { continue };
            // The admin queue's interrupts are not aggregated.
            let aggregation = match id {
                0 => Aggregation::default(),
                _ => subsystem.guest_aggregation(self.controller, vector),
            };
            match queue.signal(aggregation, now.wall) {
                Signal::No => {}
                Signal::At(at) => {
                    self.next_at = Some(self.next_at.map_or(at, |other| other.min(at)));
                }
                Signal::Now => {
                    queue.signalled();
                    self.msix.raise(vector);
                }
            }
        }
    }
}
