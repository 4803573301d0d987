//! One command at a time on an I/O queue: for what is not asked on the admin queue.

use super::transport::{Data, IoQueue, Remote, Source};
use super::{HostError, controller};
use crate::clock::{Clock, Rate};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::SubmissionEntry;
use mynah_wire::nvme::command::{IoManagementReceive, NvmCommand};
use mynah_wire::nvme::placement::{HandleState, HandleStatus};
use mynah_wire::tcp::host::{Movement, Payload};
use std::time::Duration;

/// Entries of the queue, of which one is always free.
const ENTRIES: u16 = 2;
/// Most bytes of an answer: a namespace has at most 128 placement handles (NVM Command Set 1.2, section
/// 4.1.5.8), each with a descriptor of 32 bytes.
const BYTES_MAX: usize = 8 << 10;
/// Looks without result before the system is left to wait.
const SPINS: u32 = 20;
/// Waits end after this, to look whether the controller has taken too long.
const NAP: Duration = Duration::from_millis(50);

/// What comes back.
struct Answer(Vec<u8>);

impl Payload for Answer {
    fn fill(&mut self, _slot: u16, _offset: u32, into: &mut [u8]) {
        into.fill(0);
    }

    fn place(&mut self, _slot: u16, offset: u32, from: &[u8]) {
        let offset = offset as usize;
        self.0[offset..offset + from.len()].copy_from_slice(from);
    }
}

impl Data for Answer {
    fn is_particular(&self, _slot: u16) -> bool {
        false
    }

    fn is_looked_at(&self) -> bool {
        true
    }
}

/// An I/O queue with at most one command on it.
pub(super) struct Single<R: Remote> {
    queue: <R::Source as Source>::Queue,
    timeout: Duration,
}

impl<R: Remote> Single<R> {
    /// Opens an I/O queue of those that were requested.
    pub(super) fn open(controller: &R, id: u16, timeout: Duration) -> Result<Single<R>, HostError> {
        let queue = controller.source().open_queue(id, ENTRIES, BYTES_MAX)?;
        Ok(Single { queue, timeout })
    }

    /// What the placement handles of a namespace refer to: Reclaim Unit Handle Status (Base 2.1,
    /// section 7.3), head and descriptors.
    pub(super) fn handle_status(&mut self, namespace: u32) -> Result<Vec<u8>, HostError> {
        let what = "reading the status of reclaim unit handles";
        let mut read = |bytes: usize| {
            let mut entry = SubmissionEntry::default();
            entry.namespace_id.set(namespace);
            let operation = IoManagementReceive::HANDLE_STATUS;
            let status = IoManagementReceive { operation, specific: 0, bytes: bytes as u64 };
            NvmCommand::IoManagementReceive(status).put(&mut entry);
            Ok::<_, HostError>(self.ask(&entry, bytes, what)?.1)
        };
        let head_bytes = size_of::<HandleStatus>();
        let head: HandleStatus = controller::read(&read(head_bytes)?);
        let bytes = head_bytes + usize::from(head.handles.get()) * size_of::<HandleState>();
        if bytes > BYTES_MAX {
            let what = format!("it says that a namespace has {} placement handles", head.handles);
            return Err(HostError::Nonsense(what));
        }
        read(bytes)
    }

    /// The placement identifiers of a namespace, in the order of its placement handles.
    pub(super) fn placement_identifiers(&mut self, namespace: u32) -> Result<Vec<u16>, HostError> {
        let status = self.handle_status(namespace)?;
        let states = status[size_of::<HandleStatus>()..].chunks_exact(size_of::<HandleState>());
        Ok(states.map(|it| controller::read::<HandleState>(it).identifier.get()).collect())
    }

    /// Does a command whose answer has so many bytes; its result and those.
    fn ask(
        &mut self,
        entry: &SubmissionEntry,
        bytes: usize,
        what: &'static str,
    ) -> Result<(u64, Vec<u8>), HostError> {
        debug_assert!(bytes <= BYTES_MAX, "{bytes}");
        let mut answer = Answer(vec![0; bytes]);
        let movement = if bytes == 0 { Movement::None } else { Movement::ToHost(bytes as u32) };
        if self.queue.submit(entry, movement, &mut answer).is_none() {
            return Err(HostError::Nonsense(format!("it takes no command, so not {what}")));
        }
        let clock = Clock::start(Rate::REAL);
        let timeout = Span::from_ns(self.timeout.as_nanos() as u64);
        let mut idle = 0;
        loop {
            self.queue.send(&mut answer)?;
            if let Some(completed) = self.queue.poll(&mut answer)? {
                let status = completed.entry.status();
                if !status.is_success() {
                    return Err(HostError::Refused { what, status });
                }
                return Ok((completed.entry.result.get(), answer.0));
            }
            if self.queue.receive()? {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle > SPINS {
                if clock.wall().saturating_since(Time::ZERO) > timeout {
                    return Err(HostError::Timeout { what, seconds: self.timeout.as_secs() });
                }
                self.queue.wait(NAP)?;
            }
        }
    }
}
