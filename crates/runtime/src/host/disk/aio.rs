//! Linux' native asynchronous I/O (io_submit(2)): reads and writes of a file, to and from memory of its own.
//!
//! It is what fio's `libaio` uses. io_uring is younger and asks for less, but container engines forbid it
//! (Docker's and containerd's seccomp profiles), and for single I/Os past the page cache it is no faster. Only
//! what the kernel can do asynchronously is asked for here; flushes and trims are for `helpers.rs`.

#![allow(unsafe_code)]

use super::open::Disk;
use crate::shared::Shared;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// IOCB_CMD_PREAD and IOCB_CMD_PWRITE (linux/aio_abi.h).
const READ: u16 = 0;
const WRITE: u16 = 1;
/// IOCB_FLAG_RESFD: completions are told to the eventfd `resfd`.
const TELLS: u32 = 1;
/// RWF_DSYNC (linux/fs.h): the write ends when its data are on the medium.
const DATA_SYNC: u32 = 2;
/// Requests handed to the kernel, and completions taken from it, in one call.
const BATCH: usize = 64;

/// A request (struct iocb, linux/aio_abi.h).
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Iocb {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: u32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// A completion (struct io_event, linux/aio_abi.h).
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct IoEvent {
    data: u64,
    request: u64,
    result: i64,
    result_2: i64,
}

/// A read or a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Comes back with the completion.
    pub(super) slot: u16,
    /// Into the memory, or out of it.
    pub(super) reads: bool,
    /// It ends when it is on the medium.
    pub(super) through: bool,
    /// Where its bytes are in the memory.
    pub(super) at: usize,
    pub(super) bytes: usize,
    /// Where they are in the file.
    pub(super) offset: u64,
}

/// What became of a transfer: its slot, and how many bytes were moved.
pub(super) type Ended = (u16, Result<u32, Errno>);

/// A context of asynchronous I/O, with the memory that its transfers go to and come from.
pub(super) struct Context {
    id: libc::c_ulong,
    disk: Disk,
    memory: Shared,
    event: Arc<OwnedFd>,
    events: [IoEvent; BATCH],
}

impl Context {
    /// A context for so many transfers at once, with so much memory.
    pub(super) fn new(disk: Disk, transfers: u16, memory_bytes: u64) -> io::Result<Context> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (memory, _file) = Shared::create("mynah-disk-queue", memory_bytes)?;
        let mut id: libc::c_ulong = 0;
        // SAFETY: io_setup(2) writes the new context's identifier, for which there is room.
        let made = unsafe {
            libc::syscall(libc::SYS_io_setup, libc::c_long::from(transfers), &raw mut id)
        };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        let events = [IoEvent::default(); BATCH];
        Ok(Context { id, disk, memory, event: Arc::new(event), events })
    }

    /// The memory that transfers go to and come from.
    pub(super) fn memory(&self) -> &Shared {
        &self.memory
    }

    /// Becomes readable with completions, and when others write it.
    pub(super) fn event(&self) -> &Arc<OwnedFd> {
        &self.event
    }

    /// Hands the first of some transfers to the kernel, as many as it takes now: how many. The outcome is
    /// that of the first: if it fails with EAGAIN the kernel has no room, otherwise it is this one that is
    /// wrong.
    ///
    /// # Panics
    /// If bytes of a transfer are not in the memory.
    pub(super) fn submit(&mut self, transfers: &[Transfer]) -> Result<usize, Errno> {
        let mut requests = [Iocb::default(); BATCH];
        let mut addresses = [std::ptr::null_mut::<Iocb>(); BATCH];
        let count = transfers.len().min(BATCH);
        for (request, transfer) in requests.iter_mut().zip(transfers) {
            *request = Iocb {
                data: transfer.slot.into(),
                rw_flags: if transfer.through { DATA_SYNC } else { 0 },
                opcode: if transfer.reads { READ } else { WRITE },
                file: self.disk.file().as_raw_fd() as u32,
                buffer: self.memory.at(transfer.at, transfer.bytes).addr() as u64,
                bytes: transfer.bytes as u64,
                offset: transfer.offset as i64,
                flags: TELLS,
                event_file: self.event.as_raw_fd() as u32,
                ..Iocb::default()
            };
        }
        for (address, request) in addresses.iter_mut().zip(&mut requests) {
            *address = request;
        }
        // SAFETY: the kernel copies the `count` requests, all of which are there, before it returns. Their
        // bytes are in the memory, which this context keeps until io_destroy(2) has waited for the last of
        // them (`drop`); nobody has references to these bytes, only copies are made of them.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_io_submit,
                self.id,
                count as libc::c_long,
                addresses.as_mut_ptr(),
            )
        };
        usize::try_from(taken).map_err(|_| last_error())
    }

    /// Takes completions that are there, without waiting; whether there were any.
    pub(super) fn take(&mut self, mut each: impl FnMut(Ended)) -> Result<bool, Errno> {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let mut any = false;
        loop {
            // SAFETY: io_getevents(2) writes at most `BATCH` events, for which there is room, and reads the
            // time, which outlives the call.
            let taken = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.id,
                    0 as libc::c_long,
                    BATCH as libc::c_long,
                    self.events.as_mut_ptr(),
                    &raw const now,
                )
            };
            let taken = match usize::try_from(taken) {
                Ok(taken) => taken,
                Err(_) if last_error() == Errno::INTR => 0,
                Err(_) => return Err(last_error()),
            };
            for event in self.events.iter().take(taken) {
                let result = u32::try_from(event.result);
                let failed =
                    |_| Errno::from_raw_os_error(i32::try_from(-event.result).unwrap_or(5));
                each((event.data as u16, result.map_err(failed)));
            }
            any |= taken > 0;
            if taken < BATCH {
                return Ok(any);
            }
        }
    }
}

impl Drop for Context {
    /// Waits for what is outstanding: the kernel writes to the memory until then.
    fn drop(&mut self) {
        // SAFETY: the context is this one's own, and it is the last to use it.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
