//! The records of a job's I/Os.

use super::flight::Flight;
use crate::profile::ring::Ring;
use mynah_profile::{Chooser, Decision, HOST_STAGES, Head, Header, Side, TimeBase, io_kinds};
use mynah_result::kind::Kind;
use mynah_stamp::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is beside a host's stages.
const BESIDE: [&str; 3] = ["send_call_ps", "bytes_ahead", "r2ts"];

/// An I/O that has ended, or has been given up.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub kind: Kind,
    /// Bytes, if they are known better than from its command.
    pub bytes: Option<u32>,
    /// NVMe status: code type and code.
    pub status: u16,
    /// When the request was created.
    pub created: Time,
    /// When it was given to its queue.
    pub submitted: Time,
    /// When the last byte of its answer came, if it has one.
    pub arrived: Time,
    /// When the host saw that byte.
    pub seen: Time,
    /// When the completion was handed to the job.
    pub handed: Time,
    /// Its place among the completions of one receive, from 1.
    pub batch: u16,
}

/// When the first I/O of a run began and when its last one ended, on the profile's clock: also those
/// that have no record, or whose record has been written over.
#[derive(Debug)]
pub struct Period {
    first_ps: AtomicU64,
    last_ps: AtomicU64,
}

impl Default for Period {
    fn default() -> Period {
        Period { first_ps: AtomicU64::new(u64::MAX), last_ps: AtomicU64::new(0) }
    }
}

impl Period {
    /// It has I/Os between these times.
    fn has(&self, first: Time, last: Time) {
        self.first_ps.fetch_min(first.as_ps(), Ordering::Relaxed);
        self.last_ps.fetch_max(last.as_ps(), Ordering::Relaxed);
    }

    /// How long it is, if there was an I/O.
    pub fn span(&self) -> Option<Span> {
        let (first, last) = (&self.first_ps, &self.last_ps);
        let span = last.load(Ordering::Relaxed).checked_sub(first.load(Ordering::Relaxed));
        span.map(Span::from_ps)
    }
}

/// Writes the records of one job's I/Os.
#[derive(Debug)]
pub struct HostProfile {
    ring: Ring,
    chooser: Chooser,
    /// From the profile's time 0 to that of the job's clock.
    offset: Span,
    controller_id: u16,
    queue_id: u16,
    /// When its first I/O began and when its last one ended, and whom it tells when it ends.
    first: Time,
    last: Time,
    period: Arc<Period>,
}

/// The header of a host's profile of loads on this target.
pub fn host_header(target: &str) -> Header {
    let mut header = Header::new(Side::Host, target, TimeBase::Monotonic);
    header.kinds = io_kinds();
    header.stages = HOST_STAGES.map(str::to_owned).to_vec();
    header.beside = BESIDE.map(str::to_owned).to_vec();
    header
}

impl HostProfile {
    /// In this ring; the job's clock began so long after the profile's. When it is dropped it tells
    /// `period` when its I/Os were.
    pub fn new(ring: Ring, chooser: Chooser, offset: Span, period: Arc<Period>) -> HostProfile {
        let (first, last) = (Time::MAX, Time::ZERO);
        HostProfile { ring, chooser, offset, controller_id: 0, queue_id: 0, first, last, period }
    }

    /// Its commands go through a queue of this controller from now on.
    pub fn connected(&mut self, controller_id: u16, queue_id: u16) {
        (self.controller_id, self.queue_id) = (controller_id, queue_id);
    }

    /// An I/O has ended: writes its record, if it is to have one.
    #[inline]
    pub fn ended(&mut self, flight: &Flight, io: &Ended) {
        let begin = io.created.min(io.submitted);
        let left = flight.left.unwrap_or(io.seen).max(io.submitted);
        let at = flight.at.max(left);
        let arrived = io.arrived.max(at);
        let seen = io.seen.max(arrived);
        let handed = io.handed.max(seen);
        self.first = self.first.min(begin);
        self.last = self.last.max(handed);
        let head = Head {
            sequence: 0,
            connection: self.controller_id,
            queue: self.queue_id,
            command_id: flight.command_id,
            namespace: flight.namespace,
            bytes: io.bytes.unwrap_or(flight.bytes),
            kind: io.kind as u8,
            opcode: flight.opcode,
            status: io.status,
            nth: flight.nth,
            outstanding: flight.outstanding,
            batch: io.batch,
            block: flight.block,
            begin: begin + self.offset,
            total: handed.since(begin),
            kept: false,
        };
        let head = match self.chooser.decide(&head) {
            Decision::Record => head,
            Decision::Slow => Head { kept: true, ..head },
            decision => return self.ring.skip(decision),
        };
        let stages = [
            io.submitted.since(begin),
            left.since(io.submitted),
            flight.wait,
            flight.turn,
            flight.further,
            arrived.since(at),
            seen.since(arrived),
            handed.since(seen),
        ];
        let beside = [flight.call.as_ps(), flight.ahead.into(), flight.rounds.into()];
        self.ring.record(&head, &stages, &beside);
    }
}

impl Drop for HostProfile {
    fn drop(&mut self) {
        if self.first <= self.last {
            self.period.has(self.first + self.offset, self.last + self.offset);
        }
    }
}
