//! Commands whose data are asked for, and those that are held for their fused half.

use super::super::pool::{Owner, TransferPool};
use crate::nvme::SubmissionEntry;
use std::collections::VecDeque;

/// A command whose data are on the way.
#[derive(Debug)]
struct Transfer {
    entry: SubmissionEntry,
    /// Empty until a buffer was granted. Held data of a capsule are no pool buffer.
    buffer: Vec<u8>,
    from_pool: bool,
    bytes: u32,
    requested: u32,
    arrived: u32,
    grants: u32,
    damaged: bool,
    /// The stamp of the command, if its data had to be asked for.
    stamp: Option<u64>,
    /// Which command of the connection it is.
    nth: u32,
    /// Half of a fused pair: waits for the other even when complete.
    held: bool,
}

/// An R2T that the host has not fully answered.
#[derive(Clone, Copy, Debug)]
struct Grant {
    slot: u16,
    next: u32,
    end: u32,
}

/// An R2T to send.
pub(super) struct Ready {
    pub(super) command_id: u16,
    pub(super) tag: u16,
    pub(super) offset: u32,
    pub(super) bytes: u32,
}

/// What an R2T still allows.
pub(super) struct Granted {
    pub(super) command_id: u16,
    pub(super) next: u32,
    pub(super) left: u32,
}

/// All such commands of one connection. Their number is bounded by the queue's size.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    transfers: Vec<Option<Transfer>>,
    free: Vec<u16>,
    grants: Vec<Option<Grant>>,
    free_tags: Vec<u16>,
    granted: u32,
    /// Without a buffer, from the one that has waited longest.
    waiting: VecDeque<u16>,
    complete: VecDeque<u16>,
    /// Handed on; its buffer is given back at the next opportunity.
    delivered: Option<Transfer>,
    pool_bytes: usize,
    owner: Owner,
}

impl Transfers {
    /// None yet; buffers are lent to this owner.
    pub(super) fn of(owner: Owner) -> Transfers {
        Transfers { owner, ..Transfers::default() }
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// A command whose `bytes` have to be asked for.
    pub(super) fn begin(
        &mut self,
        entry: SubmissionEntry,
        bytes: u32,
        stamp: u64,
        nth: u32,
    ) -> u16 {
        let held = entry.flags & 3 != 0;
        let slot = self.insert(Transfer {
            entry,
            buffer: Vec::new(),
            from_pool: true,
            bytes,
            requested: 0,
            arrived: 0,
            grants: 0,
            damaged: false,
            stamp: Some(stamp),
            nth,
            held,
        });
        self.waiting.push_back(slot);
        slot
    }

    /// A command that has all its data but must wait for its fused half.
    pub(super) fn hold(&mut self, entry: SubmissionEntry, data: &[u8], nth: u32) -> u16 {
        let bytes = data.len() as u32;
        self.insert(Transfer {
            entry,
            buffer: data.to_vec(),
            from_pool: false,
            bytes,
            requested: bytes,
            arrived: bytes,
            grants: 0,
            damaged: false,
            stamp: None,
            nth,
            held: true,
        })
    }

    fn insert(&mut self, transfer: Transfer) -> u16 {
        insert(&mut self.transfers, &mut self.free, transfer)
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn has_grants(&self) -> bool {
        self.granted > 0
    }

    /// Gives the longest waiting a buffer, if it may have one now.
    pub(super) fn grant(&mut self, pool: &mut TransferPool) -> Option<u16> {
        let &slot = self.waiting.front()?;
        let transfer = self.transfers[usize::from(slot)].as_mut()?;
        let bytes = transfer.bytes as usize;
        let class = TransferPool::class_bytes(bytes);
        if self.pool_bytes > 0 && self.pool_bytes + class > pool.share_bytes() {
            return None;
        }
        transfer.buffer = pool.take(self.owner, bytes)?;
        self.pool_bytes += transfer.buffer.len();
        self.waiting.pop_front();
        Some(slot)
    }

    /// The next R2T of a transfer, if the host takes another one.
    pub(super) fn next_ready(
        &mut self,
        slot: u16,
        bytes_max: u32,
        grants_max: u32,
    ) -> Option<Ready> {
        let transfer = self.transfers[usize::from(slot)].as_mut()?;
        if transfer.requested == transfer.bytes || transfer.grants >= grants_max {
            return None;
        }
        let offset = transfer.requested;
        let bytes = (transfer.bytes - offset).min(bytes_max);
        transfer.requested += bytes;
        transfer.grants += 1;
        let command_id = transfer.entry.command_id.get();
        let grant = Grant { slot, next: offset, end: offset + bytes };
        let tag = insert(&mut self.grants, &mut self.free_tags, grant);
        self.granted += 1;
        Some(Ready { command_id, tag, offset, bytes })
    }

    pub(super) fn granted(&self, tag: u16) -> Option<Granted> {
        let grant = (*self.grants.get(usize::from(tag))?)?;
        let transfer = self.transfers[usize::from(grant.slot)].as_ref()?;
        let command_id = transfer.entry.command_id.get();
        Some(Granted { command_id, next: grant.next, left: grant.end - grant.next })
    }

    /// Where data under a tag go.
    pub(super) fn place(&mut self, tag: u16, at: u32, bytes: u32) -> &mut [u8] {
        let grant = self.grants[usize::from(tag)].expect("data were granted");
        let transfer = self.transfers[usize::from(grant.slot)].as_mut().expect("it is under way");
        &mut transfer.buffer[at as usize..(at + bytes) as usize]
    }

    /// The data of a PDU have arrived. The transfer, if its R2T is answered.
    pub(super) fn arrived(&mut self, tag: u16, bytes: u32, intact: bool) -> Option<u16> {
        let grant = self.grants[usize::from(tag)].as_mut()?;
        grant.next += bytes;
        let (slot, answered) = (grant.slot, grant.next == grant.end);
        let transfer = self.transfers[usize::from(slot)].as_mut()?;
        transfer.arrived += bytes;
        transfer.damaged |= !intact;
        if !answered {
            return None;
        }
        transfer.grants -= 1;
        self.granted -= 1;
        if transfer.arrived == transfer.bytes && !transfer.held {
            self.complete.push_back(slot);
        }
        self.grants[usize::from(tag)] = None;
        self.free_tags.push(tag);
        Some(slot)
    }

    pub(super) fn is_complete(&self, slot: u16) -> bool {
        let transfer = &self.transfers[usize::from(slot)];
        transfer.as_ref().is_none_or(|transfer| transfer.arrived == transfer.bytes)
    }

    pub(super) fn is_damaged(&self, slot: u16) -> bool {
        self.transfers[usize::from(slot)].as_ref().is_some_and(|transfer| transfer.damaged)
    }

    /// A fused half need not wait any longer.
    pub(super) fn release_held(&mut self, slot: u16) {
        if let Some(transfer) = &mut self.transfers[usize::from(slot)] {
            transfer.held = false;
            if transfer.arrived == transfer.bytes {
                self.complete.push_back(slot);
            }
        }
    }

    pub(super) fn has_complete(&self) -> bool {
        !self.complete.is_empty()
    }

    pub(super) fn next_complete(&mut self) -> Option<u16> {
        self.complete.pop_front()
    }

    /// The command and its data, to be handed on.
    pub(super) fn deliver(&mut self, slot: u16) -> (SubmissionEntry, &[u8], Option<u64>, u32) {
        let transfer = self.remove(slot);
        let transfer = self.delivered.insert(transfer);
        let data = &transfer.buffer[..transfer.bytes as usize];
        (transfer.entry, data, transfer.stamp, transfer.nth)
    }

    /// Forgets a command; its identifier.
    pub(super) fn discard(&mut self, slot: u16) -> u16 {
        let transfer = self.remove(slot);
        let command_id = transfer.entry.command_id.get();
        self.delivered = Some(transfer);
        command_id
    }

    fn remove(&mut self, slot: u16) -> Transfer {
        let transfer = self.transfers[usize::from(slot)].take().expect("it is under way");
        self.free.push(slot);
        transfer
    }

    /// Gives the buffer of what was handed on back.
    pub(super) fn release(&mut self, pool: &mut TransferPool) {
        if let Some(transfer) = self.delivered.take() {
            self.give(transfer, pool);
        }
    }

    fn give(&mut self, transfer: Transfer, pool: &mut TransferPool) {
        if transfer.from_pool && !transfer.buffer.is_empty() {
            self.pool_bytes -= transfer.buffer.len();
            pool.give(self.owner, transfer.buffer);
        }
    }

    /// Nothing will be handed on any more.
    pub(super) fn abandon(&mut self, pool: &mut TransferPool) {
        self.release(pool);
        for transfer in std::mem::take(&mut self.transfers).into_iter().flatten() {
            self.give(transfer, pool);
        }
        *self = Transfers::of(self.owner);
    }

    pub(super) fn shrink(&mut self) {
        if self.free.len() == self.transfers.len() && self.granted == 0 {
            let delivered = self.delivered.take();
            let pool_bytes = self.pool_bytes;
            *self = Transfers { delivered, pool_bytes, ..Transfers::of(self.owner) };
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.transfers.capacity() * size_of::<Option<Transfer>>()
            + self.grants.capacity() * size_of::<Option<Grant>>()
            + (self.free.capacity() + self.free_tags.capacity()) * size_of::<u16>()
            + (self.waiting.capacity() + self.complete.capacity()) * size_of::<u16>()
    }
}

fn insert<T>(slab: &mut Vec<Option<T>>, free: &mut Vec<u16>, value: T) -> u16 {
    match free.pop() {
        Some(slot) => {
            slab[usize::from(slot)] = Some(value);
            slot
        }
        None => {
            slab.push(Some(value));
            (slab.len() - 1) as u16
        }
    }
}
