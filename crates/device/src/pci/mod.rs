//! The drive as a PCI Express function: configuration space, controller registers, and queues
//! in the host's memory (Base 2.0; PCIe Transport 1.0).
//!
//! One [`Function`] is one controller of a [`Subsystem`]. It knows no transport: whoever has
//! the host's memory and its doorbells gives them to [`Function::turn`], forwards accesses to
//! the function's [`Region`]s, and signals the interrupts that [`Function::take_interrupts`]
//! names. It is driven so:
//!
//! - The subsystem is lent to each call, because several functions, and connections of other
//!   transports, may share it. Give all of them the same [`Now`] in one round, the functions
//!   first: while the model waits for a function's answer, its time stands still for everybody
//!   until that function has its turn.
//! - [`Function::turn`] looks at the doorbells, and does what is due, in bounded portions. Call
//!   it again at once while it says that it did something, and otherwise when a doorbell may
//!   have been rung, when [`Function::next_at`] or [`Subsystem::next_at`] says so, or when the
//!   store has finished something.
//! - Replies to this function's commands never come out of [`Subsystem::poll`].
//! - Where the model is recorded, it has to report data movements
//!   ([`mynah_model::Drive::report_moves`]) before the recording's header is made; the function
//!   asks for them itself, but only when it is made.
//! - The function does nothing while the host has not made it a bus master (bit 2 of the
//!   command register in configuration space) and enabled the controller.
//! - Memory may be unmapped at any time: what reaches for it afterwards fails with Data Transfer
//!   Error, or makes the controller fail if it is a queue. A host that is polite is waited for
//!   with [`Function::uses`].
//!
//! What it does not do: pin interrupts and MSI, NVM subsystem reset, controller memory buffers,
//! memory pages other than 4 KiB, queues that are not contiguous, SGLs for admin commands.

mod admin;
mod config_space;
mod data;
mod immediate;
mod memory;
mod modelled;
mod msix;
mod queue;
mod registers;
mod sparse;
mod turn;

pub use memory::{Fetched, Guest, GuestMemory, Posting, Served, Step, Unmapped, Watch};
pub use sparse::SparseMemory;

pub use crate::config::{FunctionConfig, QUEUES_MAX};

use crate::config::Timing;
use crate::slots::{NONE, Slots};
use crate::{Now, Subsystem};
use config_space::{BarBytes, ConfigSpace};
use data::Segments;
use immediate::Batch;
use msix::MsixTable;
use mynah_model::io::FlowId;
use mynah_stamp::Time;
use mynah_wire::nvme::property::Configuration;
use mynah_wire::pci::{CONFIGURATION_BYTES, MSIX_ENTRY_BYTES};
use queue::{Completions, Submission};
use std::sync::atomic::AtomicU32;

/// Where the doorbells begin in [`Region::Registers`].
pub const DOORBELLS_AT: u64 = 0x1000;
/// The doorbell page.
pub const DOORBELL_BYTES: u64 = 4096;
/// Bytes of [`Region::Registers`].
const REGISTER_BYTES: u32 = 16 << 10;

/// Why a function cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    /// The subsystem has no controller left.
    #[error("the subsystem has as many controllers as it can have")]
    NoController,
    /// The largest transfer makes no sense.
    #[error("the largest transfer is {0} bytes, but has to be 4 KiB to 32 MiB")]
    Transfer(u32),
}

/// A part of the function that the host can read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Region {
    Configuration,
    /// BAR 0, 64 bits wide: controller registers, and doorbells from [`DOORBELLS_AT`] on.
    Registers,
    /// BAR 4: the MSI-X table.
    MsixTable,
    /// BAR 5: the MSI-X pending bits.
    MsixPending,
}

/// An access outside a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the access passes the end of the region")]
pub struct OutOfRegion;

/// Where data of a command under way lie.
#[derive(Debug)]
struct Transfer {
    /// The transport queue in the subsystem.
    slot: u32,
    segments: Segments,
}

/// A PCI function with an NVMe controller. See the module's description.
#[derive(Debug)]
pub struct Function {
    config: FunctionConfig,
    /// The subsystem's name for the controller.
    controller: u16,
    space: ConfigSpace,
    msix: MsixTable,
    vectors: u16,
    queue_entries_max: u32,
    modelled: bool,
    has_priorities: bool,
    /// CC, AQA, ASQ, ACQ.
    configuration: Configuration,
    admin_sizes: u32,
    admin_submission: u64,
    admin_completion: u64,
    /// CC.EN is 1, and the controller could not be made ready yet.
    wants_enable: bool,
    /// By identifier; the first are the admin queues.
    submissions: Vec<Option<Box<Submission>>>,
    completions: Vec<Option<Box<Completions>>>,
    /// Identifiers of the I/O submission queues, and of all completion queues.
    active: Vec<u16>,
    active_completions: Vec<u16>,
    /// Pages of shadow doorbells and of event indices.
    shadow: Option<(u64, u64)>,
    transfers: Slots<Transfer>,
    /// Lists that are not in use, and bytes for data that take a detour.
    spare: Vec<Segments>,
    scratch: Vec<u8>,
    batch: Option<Batch>,
    /// Completions were posted or taken since interrupts were looked at last.
    unsettled: bool,
    next_at: Option<Time>,
    /// Whether completions ask whether they are posted, and when the next one is due that is held back.
    has_faults: bool,
    held_until: Option<Time>,
}

impl Function {
    /// A function of this subsystem, not enabled. Functions come before the first command of
    /// any host.
    ///
    /// # Errors
    /// If the configuration cannot be, or the subsystem has no controller left.
    pub fn new(
        now: Now,
        subsystem: &mut Subsystem,
        config: FunctionConfig,
    ) -> Result<Function, FunctionError> {
        if !(4096..=32 << 20).contains(&config.max_transfer_bytes) {
            return Err(FunctionError::Transfer(config.max_transfer_bytes));
        }
        subsystem.advance(now);
        let controller =
            subsystem.open_guest_controller(&config).ok_or(FunctionError::NoController)?;
        let limits = subsystem.config().limits;
        let queues_max = limits.queues_max.min(QUEUES_MAX);
        let vectors = queues_max + 1;
        let modelled = subsystem.config().timing == Timing::Modelled;
        if modelled {
            subsystem.report_moves();
        }
        let drive = subsystem.drive().config();
        let table_bytes = (u32::from(vectors) * MSIX_ENTRY_BYTES as u32).next_power_of_two();
        let bars = BarBytes {
            registers: REGISTER_BYTES,
            msix_table: table_bytes.max(4096),
            msix_pending: 4096,
        };
        Ok(Function {
            space: ConfigSpace::new(bars, vectors, &drive.link),
            has_priorities: modelled
                && (drive.scheduler.priority_classes
                    || matches!(
                        drive.queues.arbitration,
                        mynah_model::config::Arbitration::Weighted(_)
                    )),
            msix: MsixTable::new(vectors, config.transport_masks),
            config,
            controller,
            vectors,
            queue_entries_max: limits.queue_entries_max,
            modelled,
            configuration: Configuration::default(),
            admin_sizes: 0,
            admin_submission: 0,
            admin_completion: 0,
            wants_enable: false,
            submissions: (0..=queues_max).map(|_| None).collect(),
            completions: (0..=queues_max).map(|_| None).collect(),
            active: Vec::new(),
            active_completions: Vec::new(),
            shadow: None,
            transfers: Slots::default(),
            spare: Vec::new(),
            scratch: Vec::new(),
            batch: None,
            unsettled: false,
            next_at: None,
            has_faults: false,
            held_until: None,
        })
    }

    /// Interrupt vectors: one for each queue pair.
    pub fn vectors(&self) -> u16 {
        self.vectors
    }

    pub fn region_bytes(&self, region: Region) -> u64 {
        match region {
            Region::Configuration => CONFIGURATION_BYTES as u64,
            Region::Registers => REGISTER_BYTES.into(),
            Region::MsixTable => {
                let bytes = u64::from(self.vectors) * MSIX_ENTRY_BYTES as u64;
                bytes.next_power_of_two().max(4096)
            }
            Region::MsixPending => 4096,
        }
    }

    fn check(&self, region: Region, at: u64, bytes: usize) -> Result<usize, OutOfRegion> {
        let end = at.checked_add(bytes as u64).ok_or(OutOfRegion)?;
        if end > self.region_bytes(region) {
            return Err(OutOfRegion);
        }
        Ok(at as usize)
    }

    /// The host reads a region.
    ///
    /// # Errors
    /// If the access passes the region's end.
    pub fn read(
        &self,
        subsystem: &Subsystem,
        region: Region,
        at: u64,
        into: &mut [u8],
    ) -> Result<(), OutOfRegion> {
        let at = self.check(region, at, into.len())?;
        match region {
            Region::Configuration => {
                let bytes = self.space.read(at, into.len()).ok_or(OutOfRegion)?;
                into.copy_from_slice(bytes);
            }
            Region::Registers => self.read_registers(subsystem, at as u32, into),
            Region::MsixTable => self.msix.read_table(at, into),
            Region::MsixPending => self.msix.read_pending(at, into),
        }
        Ok(())
    }

    /// The host writes a region. What it writes to doorbells goes into `doorbells`, and is seen
    /// in the next turn.
    ///
    /// # Errors
    /// If the access passes the region's end.
    pub fn write(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        doorbells: &[AtomicU32],
        region: Region,
        at: u64,
        from: &[u8],
    ) -> Result<(), OutOfRegion> {
        let at = self.check(region, at, from.len())?;
        subsystem.advance(now);
        match region {
            Region::Configuration => {
                let effect = self.space.write(at, from).ok_or(OutOfRegion)?;
                if effect.reset {
                    self.reset(now, subsystem, doorbells);
                } else if effect.msix {
                    self.msix.set_control(self.space.msix_control());
                }
            }
            Region::Registers => self.write_registers(subsystem, doorbells, at as u32, from),
            Region::MsixTable => self.msix.write_table(at, from),
            Region::MsixPending => {}
        }
        Ok(())
    }

    /// Resets the function: configuration space, registers, controller. Commands under way are
    /// not answered any more.
    pub fn reset(&mut self, now: Now, subsystem: &mut Subsystem, doorbells: &[AtomicU32]) {
        subsystem.advance(now);
        self.disable(subsystem, doorbells);
        self.space.reset();
        self.msix.reset();
        self.configuration = Configuration::default();
        self.admin_sizes = 0;
        (self.admin_submission, self.admin_completion) = (0, 0);
    }

    /// Takes the function from the subsystem. Without it, the subsystem may wait for it for
    /// ever.
    pub fn close(mut self, now: Now, subsystem: &mut Subsystem) {
        subsystem.advance(now);
        self.disable(subsystem, &[]);
        subsystem.close_guest_controller(self.controller);
    }

    /// Takes the vectors to be signalled to the host, each once.
    pub fn take_interrupts(&mut self, each: impl FnMut(u16)) {
        self.msix.take(each);
    }

    /// Holds a vector's signals back, or lets those go that were held back.
    pub fn hold_interrupt(&mut self, vector: u16, hold: bool) {
        self.msix.hold(vector, hold);
    }

    /// When the function wants a turn on the host's clock although nothing has happened: an
    /// interrupt is due then, or a completion that was held back. What the subsystem does by itself
    /// is not part of it.
    pub fn next_at(&self) -> Option<Time> {
        [self.next_at, self.held_until].into_iter().flatten().min()
    }

    /// Has every completion of an I/O command ask whether it is posted ([`Watch::posting`]), from now on. Then
    /// no commands are carried out in batches.
    pub fn expect_faults(&mut self) {
        self.has_faults = true;
    }

    /// Whether a command under way moves data to or from a byte of this range. Queues do not
    /// count: who takes their memory away means to end them.
    pub fn uses(&self, at: u64, bytes: u64) -> bool {
        self.transfers.iter().any(|(_, transfer)| transfer.segments.touches(at, bytes))
    }

    /// Whether the host has enabled the controller, and it may use the host's memory: then its
    /// doorbells have to be looked at.
    pub fn is_active(&self) -> bool {
        self.space.is_bus_master() && self.configuration.enabled()
    }

    /// Whether the host uses the controller: it is active, and no shutdown has begun.
    pub fn is_in_use(&self) -> bool {
        self.is_active() && self.configuration.shutdown() == 0
    }

    /// I/O commands under way, as far as they were fetched.
    pub fn outstanding(&self, subsystem: &Subsystem) -> u64 {
        let queues =
            self.active.iter().filter_map(|&id| self.submissions[usize::from(id)].as_ref());
        queues.map(|queue| u64::from(subsystem.guest_outstanding(queue.slot))).sum()
    }

    /// Its controller's identifier.
    pub fn controller_id(&self) -> u16 {
        self.controller
    }

    /// The flow of the host that uses it, once that has I/O queues.
    pub fn flow(&self, subsystem: &Subsystem) -> Option<FlowId> {
        subsystem.guest_flow(self.controller)
    }

    /// Keeps where a command's data lie until it ends.
    fn keep(&mut self, slot: u32, segments: Segments) -> u32 {
        self.transfers.insert(Transfer { slot, segments })
    }

    /// A list to fill in: one that is not in use, if there is any.
    fn spare(&mut self) -> Segments {
        self.spare.pop().unwrap_or_default()
    }

    /// Forgets where a command's data lie.
    fn forget(&mut self, transfer: u32) {
        if transfer != NONE
            && let Some(transfer) = self.transfers.remove(transfer)
        {
            self.reuse(transfer.segments);
        }
    }

    fn reuse(&mut self, mut segments: Segments) {
        segments.clear();
        self.spare.push(segments);
    }
}
