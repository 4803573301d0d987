//! A drive, request by request: for programs that decide what to ask next by what came back.
//!
//! Queues of any number, each of a flow and a priority; one if nothing else is said. Time moves only
//! in [`Stepper::step`], [`Stepper::wait`] and [`Stepper::advance`].

use crate::saved_state::{self, SavedStateError};
use mynah_model::config::{Config, NamespaceKind, Priority};
use mynah_model::io::{
    Completion, Control, FlowId, NamespaceId, Operation, Output, Queue, QueueId, Request, Tag,
};
use mynah_model::precondition::{Occupancy, PreconditionError, Preconditioned, UpdateClass};
use mynah_model::stats::Counters;
use mynah_model::{ConfigError, Drive, InputError};
use mynah_result::rows::{RequestBatch, op_of};
use mynah_stamp::{LinkSpans, Span, Time};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::path::Path;

/// A queue pair of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostQueue {
    /// Number of the flow that requests in this queue belong to.
    pub flow: u16,
    /// Priority class, which counts if the drive arbitrates by priority.
    pub priority: Priority,
}

/// Why a stepper cannot be built or prepared.
#[derive(Debug, thiserror::Error)]
pub enum StepperError {
    /// The drive cannot be built.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The drive refuses a queue.
    #[error(transparent)]
    Queue(#[from] InputError),
    /// The drive cannot be in that state.
    #[error(transparent)]
    Precondition(#[from] PreconditionError),
    /// The saved state does not fit.
    #[error(transparent)]
    State(#[from] SavedStateError),
}

/// A request that has not completed.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    request: Request,
    at: Time,
}

/// The host's side of a queue pair.
#[derive(Debug, Default)]
struct Lane {
    flow: u16,
    /// Announced by the doorbell, and not fetched by the drive.
    submitted: VecDeque<Request>,
    /// Waiting in the host for a free entry of the queue.
    backlog: VecDeque<Request>,
    outstanding: u32,
}

/// A request that has completed.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The request as it was submitted.
    pub request: Request,
    /// Index of the queue, from 0.
    pub queue: usize,
    /// Number of the queue's flow.
    pub flow: u16,
    /// When the request was submitted.
    pub asked: Time,
    /// The drive's completion, with status and times.
    pub completion: Completion,
    /// Where its time went on an Ethernet link.
    pub link: Option<LinkSpans>,
}

impl Done {
    /// Adds it as a row to a table of requests.
    pub fn push_to(&self, rows: &mut RequestBatch) {
        let Done { request, flow, asked, completion, link, .. } = self;
        let who = (usize::from(*flow), op_of(request.operation));
        rows.push(u64::from(request.tag.0), who, request, *asked, (completion, link.as_ref()));
    }
}

/// A drive and a host that does what it is told.
///
/// ```
/// use mynah_lab::stepper::Stepper;
/// use mynah_model::io::Operation;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let drive = mynah_drive_file::load("enterprise-tlc", &[])?;
/// let mut drive = Stepper::new(drive.config)?;
/// drive.submit(Operation::Write, 0, 8);
/// let written = drive.step().expect("a write completes");
/// let tag = drive.submit(Operation::Read, 0, 8);
/// let read = drive.step().expect("a read completes");
/// assert_eq!(read.tag, tag);
/// println!("write {}, read {}", written.at.since(written.rung), read.at.since(read.rung));
/// assert_eq!(drive.counters().commands, 2);
/// # Ok(())
/// # }
/// ```
pub struct Stepper {
    drive: Drive,
    next_tag: u32,
    lanes: Vec<Lane>,
    pending: FxHashMap<u32, PendingRequest>,
    entries: u32,
    completed: VecDeque<Done>,
}

impl Stepper {
    /// Builds the drive, empty, with one queue.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn new(config: Config) -> Result<Stepper, StepperError> {
        Stepper::with_queues(config, &[HostQueue::default()])
    }

    /// Builds the drive, empty, with these queues, at least one.
    ///
    /// # Errors
    /// If it cannot be built, or has no such queues.
    pub fn with_queues(config: Config, queues: &[HostQueue]) -> Result<Stepper, StepperError> {
        let entries = config.queues.entries;
        let mut drive = Drive::new(config)?;
        let mut lanes = Vec::new();
        for (index, HostQueue { flow, priority }) in queues.iter().enumerate() {
            let queue = Queue {
                id: id(index),
                kind: drive.config().host_queues(0),
                flow: FlowId(*flow),
                priority: *priority,
                completion_entries: entries,
            };
            drive.control(Time::ZERO, Control::CreateQueue(queue))?;
            lanes.push(Lane { flow: *flow, ..Lane::default() });
        }
        let (pending, completed) = (FxHashMap::default(), VecDeque::new());
        Ok(Stepper { drive, next_tag: 0, lanes, pending, entries, completed })
    }

    /// Puts the drive into the steady state of the stated writes, before its first request.
    ///
    /// # Errors
    /// If it has been used, or cannot be in such a state.
    pub fn precondition(
        &mut self,
        occupancy: &[Occupancy],
    ) -> Result<Preconditioned, PreconditionError> {
        self.drive.precondition(occupancy)
    }

    /// Puts the drive into the state that uniform random writes all over it settle into, before its
    /// first request.
    ///
    /// # Errors
    /// If it has been used, or cannot be in such a state.
    pub fn settle(&mut self) -> Result<Preconditioned, PreconditionError> {
        let all = self.everything(|units| UpdateClass {
            weight: units as f64,
            write_share: 1.0,
            saturated: true,
            ..UpdateClass::written_once(0, units)
        });
        self.drive.precondition(&all)
    }

    /// Lays data down on all block namespaces as if each had been written once, in order, before the
    /// first request.
    ///
    /// # Errors
    /// If it has been used.
    pub fn fill(&mut self) -> Result<Preconditioned, PreconditionError> {
        let all = self.everything(|units| UpdateClass::written_once(0, units));
        self.drive.fill(&all)
    }

    /// Each block namespace as one range.
    fn everything(&self, class: impl Fn(u64) -> UpdateClass) -> Vec<Occupancy> {
        let unit_sectors = u64::from(self.drive.config().mapping.unit_bytes) / SECTOR_BYTES;
        let namespaces = self.drive.config().namespaces.iter().enumerate();
        let blocks = namespaces.filter(|(_, namespace)| namespace.kind != NamespaceKind::Pairs);
        let whole = |(index, _)| {
            let id = NamespaceId(index as u32 + 1);
            let units = self.drive.namespace_sectors(id).unwrap_or(0) / unit_sectors;
            Occupancy { namespace: id, classes: vec![class(units)] }
        };
        blocks.map(whole).collect()
    }

    /// Puts the drive into a saved state, as `mynah sim --save-state` writes it, before its first
    /// request. Messages call it `name`.
    ///
    /// # Errors
    /// If it is of another drive, or damaged. The stepper must not be used then.
    pub fn restore(&mut self, name: &str, state: &[u8]) -> Result<(), SavedStateError> {
        let read = saved_state::read(&mut self.drive, Path::new(name), state, state.len() as u64);
        read.map(|_| ())
    }

    /// Submits a request to the first namespace now. When the queue is full it waits in the
    /// host.
    pub fn submit(&mut self, operation: Operation, sector: u64, sectors: u32) -> Tag {
        self.submit_to(NamespaceId(1), operation, sector, sectors)
    }

    /// Submits a request to a namespace now.
    pub fn submit_to(
        &mut self,
        namespace: NamespaceId,
        operation: Operation,
        sector: u64,
        sectors: u32,
    ) -> Tag {
        self.submit_in(0, namespace, operation, sector, sectors)
    }

    /// Submits a request to a namespace now, in the queue with this index.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn submit_in(
        &mut self,
        queue: usize,
        namespace: NamespaceId,
        operation: Operation,
        sector: u64,
        sectors: u32,
    ) -> Tag {
        let tag = Tag(self.next_tag);
        self.next_tag = self.next_tag.wrapping_add(1);
        let request =
            Request { placement: Default::default(), tag, operation, namespace, sector, sectors };
        self.pending.insert(tag.0, PendingRequest { request, at: self.drive.now() });
        self.lanes[queue].backlog.push_back(request);
        self.ring(queue);
        tag
    }

    fn ring(&mut self, queue: usize) {
        let lane = &mut self.lanes[queue];
        while lane.outstanding + 1 < self.entries
            && let Some(request) = lane.backlog.pop_front()
        {
            lane.outstanding += 1;
            let now = self.drive.now();
            if self.drive.config().ethernet.is_some() {
                // Commands cross the network as they are: there is no doorbell.
                self.drive.submit(now, id(queue), request).expect("the queue exists");
                continue;
            }
            lane.submitted.push_back(request);
            self.drive.ring(now, id(queue), 1).expect("the queue exists");
        }
    }

    /// Runs to the next completion and returns it; `None` when nothing is outstanding, or
    /// nothing will be answered any more because the power has failed.
    pub fn step(&mut self) -> Option<Completion> {
        self.step_whole().map(|done| done.completion)
    }

    /// Like [`Stepper::step`], with the request and its times.
    pub fn step_whole(&mut self) -> Option<Done> {
        while self.completed.is_empty() && !self.pending.is_empty() {
            self.drive.next_at()?;
            self.drive.advance(Time::MAX);
            self.react();
        }
        self.completed.pop_front()
    }

    /// Lets simulated time pass. Completions are kept for [`Stepper::step`].
    pub fn wait(&mut self, span: Span) {
        self.advance(self.drive.now() + span);
    }

    /// Lets simulated time pass up to `until`. Completions are kept for [`Stepper::step`] and
    /// [`Stepper::take`].
    pub fn advance(&mut self, until: Time) {
        while self.drive.now() < until && (until < Time::MAX || self.drive.next_at().is_some()) {
            self.drive.advance(until);
            self.react();
        }
    }

    /// Takes a completion that is there already, without letting time pass.
    pub fn take(&mut self) -> Option<Done> {
        self.completed.pop_front()
    }

    /// When something will next happen: now if there are completions to be taken, else whenever
    /// the drive does something by itself.
    pub fn next_at(&self) -> Option<Time> {
        match self.completed.is_empty() {
            true => self.drive.next_at(),
            false => Some(self.drive.now()),
        }
    }

    /// Answers the drive's outputs.
    fn react(&mut self) {
        while let Some(output) = self.drive.poll() {
            match output {
                Output::Fetch { at, queue } => {
                    if let Some(request) = self.lanes[index(queue)].submitted.pop_front() {
                        self.drive.command(at, queue, request).expect("it was fetched");
                    }
                }
                Output::Complete(completion) => {
                    let link = self.drive.polled_link_spans().copied();
                    let queue = index(completion.queue);
                    let lane = &mut self.lanes[queue];
                    lane.outstanding -= 1;
                    let flow = lane.flow;
                    if let Some(pending) = self.pending.remove(&completion.tag.0) {
                        let PendingRequest { request, at: asked } = pending;
                        let done = Done { request, queue, flow, asked, completion, link };
                        self.completed.push_back(done);
                    }
                    self.drive.cq_freed(completion.at, completion.queue, 1).expect("it exists");
                    self.ring(queue);
                }
                Output::Move { .. } | Output::Decide { .. } => {}
            }
        }
    }

    /// Simulated time.
    pub fn now(&self) -> Time {
        self.drive.now()
    }

    /// Number of queues, at least one.
    pub fn queues(&self) -> usize {
        self.lanes.len()
    }

    /// Requests submitted and not completed.
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// What the drive has counted.
    pub fn counters(&self) -> Counters {
        self.drive.counters()
    }

    /// Read access to the drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }
}

const SECTOR_BYTES: u64 = 512;

fn id(index: usize) -> QueueId {
    QueueId(index as u16 + 1)
}

fn index(id: QueueId) -> usize {
    usize::from(id.0) - 1
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepper").field("now", &self.now()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_result::rows::{Wide, stages};

    fn small(overrides: &[&str]) -> Stepper {
        let mut all =
            vec!["geometry.blocks_per_plane=48".to_owned(), "over_provisioning=20%".to_owned()];
        all.extend(overrides.iter().map(|text| (*text).to_owned()));
        Stepper::new(mynah_drive_file::load("enterprise-tlc", &all).unwrap().config).unwrap()
    }

    #[test]
    fn every_request_of_a_deep_burst_completes_once() {
        let mut drive = small(&["queues.entries=16"]);
        let tags: Vec<Tag> = (0..100).map(|n| drive.submit(Operation::Write, n * 8, 8)).collect();
        assert_eq!(drive.outstanding(), 100);
        let mut seen: Vec<Tag> = std::iter::from_fn(|| drive.step().map(|c| c.tag)).collect();
        seen.sort();
        assert_eq!(seen, tags);
        assert_eq!(drive.outstanding(), 0);
        assert_eq!(drive.step(), None);
    }

    #[test]
    fn a_drive_on_ethernet_answers_more_than_its_queue_holds() {
        let config = mynah_drive_file::load("kioxia-em6", &[]).unwrap().config;
        let mut drive = Stepper::new(config).unwrap();
        drive.fill().unwrap();
        for n in 0..3_000 {
            drive.submit(Operation::Read, n * 8, 8);
            assert!(drive.step().is_some(), "read {n}");
        }
    }

    #[test]
    fn waiting_keeps_completions() {
        let mut drive = small(&[]);
        let tag = drive.submit(Operation::Read, 0, 8);
        drive.wait(Span::from_ms(1));
        assert_eq!(drive.now(), Time::ZERO + Span::from_ms(1));
        assert_eq!(drive.step().map(|completion| completion.tag), Some(tag));
    }

    #[test]
    fn a_power_cut_ends_the_answers() {
        let mut config = small(&[]).drive().config().clone();
        config.faults.push(mynah_drive_file::fault::parse("power-cut:at=10us").unwrap());
        let mut drive = Stepper::new(config).unwrap();
        drive.submit(Operation::Write, 0, 8);
        while drive.step().is_some() {}
        assert!(drive.drive().has_lost_power() || drive.outstanding() == 0);
    }

    #[test]
    fn queues_have_flows_of_their_own() {
        let config = small(&[]).drive().config().clone();
        let queue = |flow, priority| HostQueue { flow, priority };
        let queues =
            [queue(0, Priority::High), queue(1, Priority::Low), queue(1, Priority::Urgent)];
        let mut drive = Stepper::with_queues(config, &queues).unwrap();
        drive.settle().unwrap();
        let first = NamespaceId(1);
        for n in 0..300u64 {
            drive.submit_in(n as usize % 3, first, Operation::Write, n * 8, 8);
        }
        let mut rows = RequestBatch::new(false);
        while let Some(done) = drive.step_whole() {
            assert_eq!(done.queue, done.request.tag.0 as usize % 3);
            assert_eq!(done.flow, queues[done.queue].flow);
            assert_eq!(usize::from(done.completion.queue.0), done.queue + 1);
            done.push_to(&mut rows);
        }
        assert_eq!((rows.len(), drive.outstanding(), drive.queues()), (300, 0, 3));
        let rows = rows.into_columns();
        assert!(rows.wide(Wide::LatencyPs).iter().all(|&latency| latency > 0));
        let spans = 0..stages(false).len();
        let of_stages = |row: usize| {
            spans.clone().map(|stage| rows.wide(Wide::StagePs(stage))[row]).sum::<u64>()
        };
        let sums = (0..300).map(of_stages);
        let ends = rows.wide(Wide::CompletedPs).iter().zip(rows.wide(Wide::CreatedPs));
        let whole = ends.map(|(end, start)| end - start);
        assert!(sums.eq(whole));
        assert!(drive.drive().counters().host_units_written >= 300);
    }

    #[test]
    fn time_goes_where_it_is_told() {
        let mut drive = small(&[]);
        drive.submit(Operation::Read, 0, 8);
        let next = drive.next_at().unwrap();
        drive.advance(next);
        assert!(drive.now() >= next && drive.take().is_none());
        drive.advance(Time::MAX);
        assert_eq!(drive.take().map(|done| done.request.sectors), Some(8));
        assert_eq!((drive.take().is_none(), drive.outstanding()), (true, 0));
    }

    #[test]
    fn a_saved_state_is_begun_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.state");
        let small = ["geometry.blocks_per_plane=48".to_owned(), "over_provisioning=20%".to_owned()];
        let mut run = crate::Simulation::on_changed("enterprise-tlc", &small).unwrap();
        run = run.flow("a", "rw=randwrite number_ios=500").unwrap();
        run.save_state = Some(path.clone());
        run.run().unwrap();
        let state = std::fs::read(&path).unwrap();
        let mut drive = Stepper::new(run.config.clone()).unwrap();
        drive.restore("a", &state).unwrap();
        let mut empty = Stepper::new(run.config.clone()).unwrap();
        let free = |drive: &Stepper| drive.drive().gauges().free_blocks;
        assert!(free(&drive) < free(&empty));
        for bytes in [0, 10, state.len() / 2, state.len() - 1] {
            assert!(
                Stepper::new(run.config.clone()).unwrap().restore("a", &state[..bytes]).is_err()
            );
        }
        empty.submit(Operation::Write, 0, 8);
        empty.step().unwrap();
        assert!(empty.restore("a", &state).is_err());
        drive.submit(Operation::Read, 0, 8);
        assert!(drive.step().is_some());
    }

    #[test]
    fn drives_in_one_process_do_not_touch_each_other() {
        let mut drives = [small(&[]), small(&["flash.program=900us"]), small(&[])];
        let mut ends = [Vec::new(), Vec::new(), Vec::new()];
        for n in 0..200u64 {
            for (drive, ends) in drives.iter_mut().zip(&mut ends) {
                drive.submit(if n % 3 == 0 { Operation::Write } else { Operation::Read }, n * 8, 8);
                if n % 4 == 3 {
                    ends.push(drive.step().unwrap().at);
                }
            }
        }
        for (drive, ends) in drives.iter_mut().zip(&mut ends) {
            ends.extend(std::iter::from_fn(|| drive.step().map(|completion| completion.at)));
            assert_eq!(ends.len(), 200);
        }
        assert_eq!(ends[0], ends[2]);
    }
}
