//! Flushes and trims of a disk, which the kernel only does while somebody waits: threads do that, so that
//! reads and writes are not held up.

#![allow(unsafe_code)]

use super::open::Disk;
use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Most flushes and trims that a queue does at once.
const THREADS_MAX: usize = 16;
/// BLKDISCARD (linux/fs.h): a range of bytes, as offset and length.
const DISCARD: Opcode = opcode::none(0x12, 119);

/// What a helper does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// What was written goes to the medium.
    Flush,
    /// A range of bytes is not needed any more.
    Trim { offset: u64, bytes: u64 },
}

/// What became of a task, by its slot.
pub(super) type Done = (u16, Result<(), Errno>);

/// The threads of a queue; started when they are needed.
pub(super) struct Helpers {
    disk: Disk,
    tasks: Sender<(u16, Task)>,
    /// What threads take their tasks from.
    waiting: Receiver<(u16, Task)>,
    done: Receiver<Done>,
    tells: Sender<Done>,
    event: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
    outstanding: usize,
}

impl Helpers {
    /// Helpers that write `event` when something is done.
    pub(super) fn new(disk: Disk, event: Arc<OwnedFd>) -> Helpers {
        let ((tasks, waiting), (tells, done)) = (unbounded(), unbounded());
        Helpers { disk, tasks, waiting, done, tells, event, threads: vec![], outstanding: 0 }
    }

    /// Has something done.
    pub(super) fn ask(&mut self, slot: u16, task: Task) {
        self.outstanding += 1;
        if self.threads.len() < self.outstanding.min(THREADS_MAX) {
            let (disk, waiting) = (self.disk.clone(), self.waiting.clone());
            let (tells, event) = (self.tells.clone(), Arc::clone(&self.event));
            let work = move || {
                for (slot, task) in waiting {
                    // Nobody is left to be told of what is done after the queue.
                    let _ = tells.send((slot, carry_out(&disk, task)));
                    let _ = rustix::io::write(&*event, &1u64.to_ne_bytes());
                }
            };
            match std::thread::Builder::new().name("mynah-disk".to_owned()).spawn(work) {
                Ok(thread) => self.threads.push(thread),
                // Others will do it, if there are any.
                Err(_) if !self.threads.is_empty() => {}
                Err(_) => {
                    let _ = self.tells.send((slot, Err(Errno::AGAIN)));
                    return;
                }
            }
        }
        // The receiver is here as well.
        let _ = self.tasks.send((slot, task));
    }

    /// Something that is done.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Done> {
        if self.outstanding == 0 {
            return None;
        }
        let done = self.done.try_recv().ok()?;
        self.outstanding -= 1;
        Some(done)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        // Without this sender the threads end, once what was asked is done.
        self.tasks = unbounded().0;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn carry_out(disk: &Disk, task: Task) -> Result<(), Errno> {
    match task {
        Task::Flush => fdatasync(disk.file()),
        Task::Trim { offset, bytes } if disk.is_device() => {
            // SAFETY: BLKDISCARD reads two numbers of 64 bits, which is what it is given.
            let discard = unsafe { Setter::<DISCARD, [u64; 2]>::new([offset, bytes]) };
            // SAFETY: as above; nothing of this process is changed by it.
            unsafe { ioctl(disk.file(), discard) }
        }
        Task::Trim { offset, bytes } => {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(disk.file(), how, offset, bytes)
        }
    }
}
