//! Disks of this machine's kernel as targets: block devices, and regular files.
//!
//! I/Os go past the page cache (O_DIRECT) by Linux' native asynchronous I/O. The load generator writes NVMe
//! commands, of which a [`queue::Queue`] knows those that it needs; statuses are those that Linux' NVMe driver
//! makes the same errors of. There is no controller, so nothing can be asked of it.

mod aio;
mod helpers;
mod open;
mod queue;

pub use open::{Disk, DiskError};
pub(super) use queue::Queue;

use super::HostError;
use super::namespace::Namespace;
use super::transport::{Facts, Features, Remote, Source};
use mynah_stamp::Span;
use mynah_wire::nvme::command::Identify;
use std::time::Duration;

/// Most entries of a queue.
const ENTRIES_MAX: u32 = 4_096;
/// Most bytes of an I/O: the kernel cuts them into what the device takes.
const TRANSFER_BYTES_MAX: u64 = 32 << 20;

/// A disk to be loaded.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// What is loaded.
    pub disk: Disk,
    /// How long an I/O may take.
    pub timeout: Duration,
}

/// A disk in place of a controller.
pub(super) struct Local(Disk);

impl Source for Disk {
    type Queue = Queue;

    fn facts(&self) -> Facts {
        Facts {
            queue_entries_max: ENTRIES_MAX,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            transition: Span::ZERO,
            controller_id: 0,
            features: Features {
                writes: self.is_writable(),
                trims: self.can_trim(),
                ..Features::ALL
            },
        }
    }

    fn open_queue(&self, _id: u16, entries: u16, bytes_max: usize) -> Result<Queue, HostError> {
        Queue::new(self, entries, bytes_max)
    }
}

impl Remote for Local {
    type Options = DiskOptions;
    type Source = Disk;

    fn connect(options: &DiskOptions) -> Result<Local, HostError> {
        Ok(Local(options.disk.clone()))
    }

    fn model(&self) -> String {
        self.0.model().to_owned()
    }

    fn description(&self) -> String {
        let bytes = 1u32 << self.0.block_shift();
        format!("{}, blocks of {bytes} bytes, O_DIRECT by Linux AIO", self.0.model())
    }

    fn identify(
        &mut self,
        _what: &Identify,
        _namespace: u32,
        name: &'static str,
    ) -> Result<Vec<u8>, HostError> {
        Err(HostError::Unusable(format!("a disk of the kernel has no controller: no {name}")))
    }

    fn blocks(&mut self, id: u32) -> Result<Namespace, HostError> {
        let block_shift = self.0.block_shift();
        Ok(Namespace { id, blocks: self.0.bytes() >> block_shift, block_shift })
    }

    fn request_queues(&mut self, _count: u16) -> Result<(), HostError> {
        Ok(())
    }

    fn source(&self) -> Disk {
        self.0.clone()
    }

    fn check(&mut self) -> Result<(), HostError> {
        Ok(())
    }

    fn keep_alive(&mut self) -> Result<(), HostError> {
        Ok(())
    }

    fn keep_alive_time(_options: &DiskOptions) -> Duration {
        Duration::ZERO
    }

    fn timeout(options: &DiskOptions) -> Duration {
        options.timeout
    }

    fn shutdown(self) -> Result<(), HostError> {
        Ok(())
    }
}
