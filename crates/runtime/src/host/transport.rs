//! What the load generator needs of a controller, whatever it is reached through.

use super::HostError;
use super::namespace::{self, KeyValueNamespace, Namespace};
use crate::clock::Clock;
use crate::profile::Flight;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::command::Identify;
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry};
use mynah_wire::tcp::host::{Movement, Payload};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// A completed command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    /// The command's slot, which is free again.
    pub(super) slot: u16,
    pub(super) entry: CompletionEntry,
    /// How many bytes came from the controller.
    pub(super) received: u32,
}

/// The commands' data, and whether anybody cares for them.
pub(super) trait Data: Payload {
    /// Whether the command in `slot` has to write particular bytes; if not, any bytes will do.
    fn is_particular(&self, slot: u16) -> bool;
    /// Whether anybody looks at what is read.
    fn is_looked_at(&self) -> bool;
    /// Whether data come with a completion, where the transport does not say it.
    #[inline]
    fn comes_along(&self, entry: &CompletionEntry) -> bool {
        entry.status().is_success()
    }
    /// How many of the `asked` bytes have come with this completion, where the transport does not
    /// say it.
    #[inline]
    fn returned(&self, _slot: u16, _entry: &CompletionEntry, asked: u32) -> u32 {
        asked
    }
}

pub(super) trait IoQueue {
    /// Begins to note when commands leave and their answers come, for a profile. None is under way.
    fn watch(&mut self, clock: Clock);
    /// Its socket, if it has one of its own: to be asked what limits it.
    fn socket(&self) -> Option<OwnedFd>;
    /// What was noted of the command in a slot that has just ended; when the last byte of its answer
    /// came; and which of the answers that came at once it was.
    fn ended(&mut self, slot: u16) -> Option<(&Flight, Time, u16)>;
    /// What was noted of a command that is under way.
    fn flight(&self, slot: u16) -> Option<&Flight>;
    /// Receives once; whether anything came.
    fn receive(&mut self) -> Result<bool, HostError>;
    /// Whether long data have begun to come and more is on its way.
    fn is_amid_data(&self) -> bool;
    /// The next command of those that has ended.
    fn poll(&mut self, data: &mut impl Data) -> Result<Option<Completed>, HostError>;
    /// Whether a command can be submitted now.
    fn can_submit(&self) -> bool;
    /// The slot of the next command.
    fn next_slot(&self) -> Option<u16>;
    /// Submits a command; its slot, or `None` if none can be submitted.
    fn submit(
        &mut self,
        entry: &SubmissionEntry,
        movement: Movement,
        data: &mut impl Data,
    ) -> Option<u16>;
    /// Sends what was submitted, or rings the doorbell, without waiting.
    fn send(&mut self, data: &mut impl Data) -> Result<(), HostError>;
    /// Whether bytes are left that could not be sent.
    fn is_blocked(&self) -> bool;
    /// Waits until something may have come, or the time is over.
    fn wait(&self, timeout: Duration) -> Result<(), HostError>;
}

/// What is known of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) queue_entries_max: u32,
    /// Most bytes that a command moves.
    pub(super) transfer_bytes_max: u64,
    /// How long a change of a namespace's access state may take (ANATT).
    pub(super) transition: Span,
    pub(super) controller_id: u16,
    pub(super) features: Features,
}

/// What can be asked of blocks besides reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) writes: bool,
    pub(super) trims: bool,
    pub(super) flushes: bool,
    /// Writes that end when they are on the medium (FUA).
    pub(super) writes_through: bool,
}

impl Features {
    pub(super) const ALL: Features =
        Features { writes: true, trims: true, flushes: true, writes_through: true };
}

/// What I/O queues of a controller are made from.
pub(super) trait Source: Send + Sync {
    type Queue: IoQueue + Send;

    fn facts(&self) -> Facts;

    /// Makes I/O queue `id`, from 1, whose commands move at most `bytes_max` bytes each.
    fn open_queue(&self, id: u16, entries: u16, bytes_max: usize)
    -> Result<Self::Queue, HostError>;
}

/// A controller that is connected and enabled.
pub(super) trait Remote: Sized {
    type Options;
    type Source: Source;

    fn connect(options: &Self::Options) -> Result<Self, HostError>;
    /// Model number of the controller.
    fn model(&self) -> String;
    /// What a result says was measured.
    fn description(&self) -> String {
        self.model()
    }
    /// The namespace `id` of blocks, or what stands in its place.
    fn blocks(&mut self, id: u32) -> Result<Namespace, HostError> {
        namespace::block(self, id)
    }
    /// The namespace `id` of keys, or the only one that there is.
    fn keys(&mut self, id: Option<u32>) -> Result<KeyValueNamespace, HostError> {
        namespace::key_value(self, id)
    }
    /// Does an Identify command, which `name` says in messages.
    fn identify(
        &mut self,
        what: &Identify,
        namespace: u32,
        name: &'static str,
    ) -> Result<Vec<u8>, HostError>;
    /// Asks for so many I/O queues.
    fn request_queues(&mut self, count: u16) -> Result<(), HostError>;
    fn source(&self) -> Self::Source;
    /// Fails unless the connection is still there; asks the controller nothing.
    fn check(&mut self) -> Result<(), HostError>;
    /// Tells it that its host is alive.
    fn keep_alive(&mut self) -> Result<(), HostError>;
    /// How long it lives without hearing of its host; zero: for ever.
    fn keep_alive_time(options: &Self::Options) -> Duration;
    /// How long an answer may take.
    fn timeout(options: &Self::Options) -> Duration;
    /// Shuts it down and leaves it.
    fn shutdown(self) -> Result<(), HostError>;
}

/// Waits until one of these events has come, or the time is over.
pub(super) fn wait(
    descriptor: BorrowedFd<'_>,
    events: PollFlags,
    timeout: Duration,
) -> Result<(), HostError> {
    let timeout =
        Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    let mut descriptors = [PollFd::from_borrowed_fd(descriptor, events)];
    match poll(&mut descriptors, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(HostError::Lost(error.into())),
    }
}
