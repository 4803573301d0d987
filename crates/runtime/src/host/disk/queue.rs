//! A queue of I/Os on a disk: NVMe commands as the load generator writes them, carried out by the kernel.
//!
//! Each slot has memory of its own, a multiple of a page. Writes of nobody's particular bytes write noise,
//! of which each sector is another at every write: it neither compresses nor repeats.

use super::aio::{Context, Ended, Transfer};
use super::helpers::{Helpers, Task};
use super::open::Disk;
use crate::clock::Clock;
use crate::host::HostError;
use crate::host::errno::status_of;
use crate::host::noise::Noise;
use crate::host::transport::{Completed, Data, IoQueue, wait};
use crate::profile::Flight;
use mynah_stamp::Time;
use mynah_wire::nvme::command::{BlockCommand, DatasetManagement, NvmCommand};
use mynah_wire::nvme::protection::DatasetRange;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use mynah_wire::tcp::host::Movement;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

/// What the memory of a slot is a multiple of: no device wants more (statx(2), `stx_dio_mem_align`).
const PAGE_BYTES: usize = 4096;

/// What a slot does.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// A command is outstanding.
    busy: bool,
    /// Bytes that it moves, and whether out of the disk.
    bytes: u32,
    reads: bool,
    /// So many bytes of its memory are noise.
    noise: usize,
}

pub(in crate::host) struct Queue {
    disk: Disk,
    /// Bytes of a slot's memory.
    stride: usize,
    free: Vec<u16>,
    slots: Vec<Slot>,
    /// Transfers that were not handed to the kernel yet.
    unsent: VecDeque<Transfer>,
    /// The kernel took no more.
    blocked: bool,
    ended: VecDeque<(u16, Status, u32)>,
    noise: Noise,
    scratch: Vec<u8>,
    helpers: Helpers,
    context: Context,
}

impl Queue {
    /// A queue of so many entries, one of which is always free, for commands of so many bytes at most.
    pub(super) fn new(disk: &Disk, entries: u16, bytes_max: usize) -> Result<Queue, HostError> {
        let slots = entries.saturating_sub(1).max(1);
        let stride = bytes_max.max(1).next_multiple_of(PAGE_BYTES);
        let bytes = stride as u64 * u64::from(slots);
        let failed = |error: std::io::Error| match error.raw_os_error() {
            Some(errno) if errno == Errno::AGAIN.raw_os_error() => HostError::Unusable(format!(
                "the kernel has no room for {slots} asynchronous I/Os (sysctl fs.aio-max-nr)"
            )),
            _ => HostError::Unusable(format!("the kernel refuses asynchronous I/O: {error}")),
        };
        let context = Context::new(disk.clone(), slots, bytes).map_err(failed)?;
        let helpers = Helpers::new(disk.clone(), context.event().clone());
        Ok(Queue {
            disk: disk.clone(),
            stride,
            free: (0..slots).rev().collect(),
            slots: vec![Slot::default(); usize::from(slots)],
            unsent: VecDeque::new(),
            blocked: false,
            ended: VecDeque::new(),
            noise: Noise::new(stride),
            scratch: vec![0; stride],
            helpers,
            context,
        })
    }

    /// What became of a transfer: less than all of it is an error.
    fn note((slot, result): Ended, slots: &[Slot], ended: &mut VecDeque<(u16, Status, u32)>) {
        let asked = slots.get(usize::from(slot)).map_or(0, |slot| slot.bytes);
        ended.push_back(match result {
            Ok(moved) if moved == asked => (slot, Status::SUCCESS, moved),
            Ok(_) => (slot, status_of(Errno::IO.raw_os_error() as u32), 0),
            Err(error) => (slot, status_of(error.raw_os_error() as u32), 0),
        });
    }

    /// A range of blocks in bytes.
    ///
    /// # Errors
    /// If the disk has not got it.
    fn range(&self, start: u64, blocks: u32) -> Result<(u64, u64), Status> {
        let shift = self.disk.block_shift();
        let end = start.checked_add(blocks.into()).filter(|&end| end <= self.disk.bytes() >> shift);
        end.map(|_| (start << shift, u64::from(blocks) << shift)).ok_or(Status::LBA_OUT_OF_RANGE)
    }

    /// Begins a command.
    ///
    /// # Errors
    /// The status that it ends with at once.
    fn begin(
        &mut self,
        slot: u16,
        command: &NvmCommand,
        data: &mut impl Data,
    ) -> Result<(), Status> {
        match command {
            NvmCommand::Read(blocks) => self.transfer(slot, blocks, true, data),
            NvmCommand::Write(blocks) => self.transfer(slot, blocks, false, data),
            NvmCommand::Flush => {
                self.helpers.ask(slot, Task::Flush);
                Ok(())
            }
            NvmCommand::DatasetManagement(DatasetManagement { ranges: 1, deallocates: true }) => {
                if !self.disk.can_trim() {
                    return Err(Status::INVALID_OPCODE);
                }
                let mut range = DatasetRange::new_zeroed();
                data.fill(slot, 0, range.as_mut_bytes());
                let (offset, bytes) = self.range(range.start.get(), range.blocks.get())?;
                self.helpers.ask(slot, Task::Trim { offset, bytes });
                Ok(())
            }
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    fn transfer(
        &mut self,
        slot: u16,
        blocks: &BlockCommand,
        reads: bool,
        data: &mut impl Data,
    ) -> Result<(), Status> {
        if !reads && !self.disk.is_writable() {
            return Err(Status::NAMESPACE_WRITE_PROTECTED);
        }
        let (offset, bytes) = self.range(blocks.start, blocks.blocks)?;
        let length = usize::try_from(bytes).ok().filter(|&bytes| bytes <= self.stride);
        let length = length.ok_or(Status::INVALID_FIELD)?;
        let at = usize::from(slot) * self.stride;
        let own = &mut self.slots[usize::from(slot)];
        (own.bytes, own.reads) = (length as u32, reads);
        if reads {
            own.noise = 0;
        } else if data.is_particular(slot) {
            own.noise = 0;
            data.fill(slot, 0, &mut self.scratch[..length]);
            self.context.memory().write(at, &self.scratch[..length]);
        } else {
            own.noise = self.noise.put(self.context.memory(), at, own.noise, length);
        }
        let through = !reads && blocks.force_unit_access;
        self.unsent.push_back(Transfer { slot, reads, through, at, bytes: length, offset });
        Ok(())
    }
}

impl IoQueue for Queue {
    /// Profiles are of NVMe.
    fn watch(&mut self, _clock: Clock) {}

    fn socket(&self) -> Option<OwnedFd> {
        None
    }

    fn ended(&mut self, _slot: u16) -> Option<(&Flight, Time, u16)> {
        None
    }

    fn flight(&self, _slot: u16) -> Option<&Flight> {
        None
    }

    #[inline]
    fn receive(&mut self) -> Result<bool, HostError> {
        let Queue { context, slots, ended, helpers, .. } = self;
        let taken = context.take(|it| Queue::note(it, slots, ended));
        taken.map_err(|error| HostError::Lost(error.into()))?;
        while let Some((slot, result)) = helpers.next() {
            let status = result
                .err()
                .map_or(Status::SUCCESS, |error| status_of(error.raw_os_error() as u32));
            ended.push_back((slot, status, 0));
        }
        Ok(!ended.is_empty())
    }

    #[inline]
    fn is_amid_data(&self) -> bool {
        false
    }

    #[inline]
    fn poll(&mut self, data: &mut impl Data) -> Result<Option<Completed>, HostError> {
        let Some((slot, status, moved)) = self.ended.pop_front() else { return Ok(None) };
        let own = self.slots.get_mut(usize::from(slot)).filter(|own| own.busy);
        let Some(own) = own else {
            return Err(HostError::Nonsense("the kernel ended what nobody asked".to_owned()));
        };
        own.busy = false;
        let received = if own.reads { moved } else { 0 };
        if received > 0 && data.is_looked_at() {
            let bytes = &mut self.scratch[..received as usize];
            self.context.memory().read(usize::from(slot) * self.stride, bytes);
            data.place(slot, 0, bytes);
        }
        self.free.push(slot);
        Ok(Some(Completed { slot, entry: CompletionEntry::new(slot, status, 0), received }))
    }

    #[inline]
    fn can_submit(&self) -> bool {
        !self.free.is_empty()
    }

    #[inline]
    fn next_slot(&self) -> Option<u16> {
        self.free.last().copied()
    }

    #[inline]
    fn submit(
        &mut self,
        entry: &SubmissionEntry,
        _movement: Movement,
        data: &mut impl Data,
    ) -> Option<u16> {
        let slot = self.free.pop()?;
        let own = &mut self.slots[usize::from(slot)];
        (own.busy, own.bytes, own.reads) = (true, 0, false);
        let begun = NvmCommand::parse(entry).and_then(|it| self.begin(slot, &it, data));
        if let Err(status) = begun {
            self.ended.push_back((slot, status, 0));
        }
        Some(slot)
    }

    #[inline]
    fn send(&mut self, _data: &mut impl Data) -> Result<(), HostError> {
        self.blocked = false;
        while !self.unsent.is_empty() {
            let Queue { context, unsent, slots, ended, .. } = self;
            let taken = match context.submit(unsent.make_contiguous()) {
                Ok(taken) => taken,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(error) => {
                    // It is the first that the kernel does not want.
                    let first = unsent[0].slot;
                    Queue::note((first, Err(error)), slots, ended);
                    1
                }
            };
            if taken == 0 {
                self.blocked = true;
                return Ok(());
            }
            unsent.drain(..taken);
        }
        Ok(())
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        self.blocked
    }

    fn wait(&self, timeout: Duration) -> Result<(), HostError> {
        if !self.ended.is_empty() {
            return Ok(());
        }
        wait(self.context.event().as_fd(), PollFlags::IN, timeout)?;
        // Empty if it was the time that woke.
        let _ = rustix::io::read(&**self.context.event(), &mut [0; 8]);
        Ok(())
    }
}
