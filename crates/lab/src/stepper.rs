//! A drive, request by request: for programs that decide what to ask next by what came back.
//!
//! One queue pair, one flow. Time moves only in [`Stepper::step`] and [`Stepper::wait`].

use mynah_model::config::{Config, Priority};
use mynah_model::io::{
    Completion, Control, FlowId, NamespaceId, Operation, Output, Queue, QueueId, Request, Tag,
};
use mynah_model::precondition::{Occupancy, PreconditionError, Preconditioned};
use mynah_model::stats::Counters;
use mynah_model::{ConfigError, Drive};
use mynah_stamp::{Span, Time};
use std::collections::VecDeque;

const QUEUE: QueueId = QueueId(1);

/// A drive and a host that does what it is told.
///
/// ```
/// use mynah_lab::stepper::Stepper;
/// use mynah_model::io::Operation;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let drive = mynah_lab::drive::load("enterprise-tlc", &[])?;
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
    /// Rung and not fetched.
    submitted: VecDeque<Request>,
    /// Waiting for room in the queue.
    backlog: VecDeque<Request>,
    outstanding: u32,
    entries: u32,
    completed: VecDeque<Completion>,
}

impl Stepper {
    /// Builds the drive, empty.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn new(config: Config) -> Result<Stepper, ConfigError> {
        let entries = config.queues.entries;
        let mut drive = Drive::new(config)?;
        let queue = Queue {
            id: QUEUE,
            kind: drive.config().host_queues(0),
            flow: FlowId(0),
            priority: Priority::default(),
            completion_entries: entries,
        };
        drive.control(Time::ZERO, Control::CreateQueue(queue)).expect("the first queue");
        Ok(Stepper {
            drive,
            next_tag: 0,
            submitted: VecDeque::new(),
            backlog: VecDeque::new(),
            outstanding: 0,
            entries,
            completed: VecDeque::new(),
        })
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
        let tag = Tag(self.next_tag);
        self.next_tag = self.next_tag.wrapping_add(1);
        self.backlog.push_back(Request { tag, operation, namespace, sector, sectors });
        self.ring();
        tag
    }

    fn ring(&mut self) {
        while self.outstanding + 1 < self.entries
            && let Some(request) = self.backlog.pop_front()
        {
            self.submitted.push_back(request);
            self.outstanding += 1;
            self.drive.ring(self.drive.now(), QUEUE, 1).expect("the queue exists");
        }
    }

    /// Runs to the next completion and returns it; `None` when nothing is outstanding, or
    /// nothing will be answered any more because the power has failed.
    pub fn step(&mut self) -> Option<Completion> {
        while self.completed.is_empty() && self.outstanding > 0 {
            self.drive.next_at()?;
            self.drive.advance(Time::MAX);
            self.react();
        }
        self.completed.pop_front()
    }

    /// Lets simulated time pass. Completions are kept for [`Stepper::step`].
    pub fn wait(&mut self, span: Span) {
        let until = self.drive.now() + span;
        while self.drive.now() < until {
            self.drive.advance(until);
            self.react();
        }
    }

    /// Answers the drive's outputs.
    fn react(&mut self) {
        while let Some(output) = self.drive.poll() {
            match output {
                Output::Fetch { at, queue } => {
                    if let Some(request) = self.submitted.pop_front() {
                        self.drive.command(at, queue, request).expect("it was fetched");
                    }
                }
                Output::Complete(completion) => {
                    self.outstanding -= 1;
                    self.completed.push_back(completion);
                    self.drive.cq_freed(completion.at, QUEUE, 1).expect("the queue exists");
                    self.ring();
                }
                Output::Move { .. } | Output::Decide { .. } => {}
            }
        }
    }

    /// The drive's clock.
    pub fn now(&self) -> Time {
        self.drive.now()
    }

    /// Requests submitted and not completed.
    pub fn outstanding(&self) -> usize {
        self.outstanding as usize + self.backlog.len()
    }

    /// What the drive has counted.
    pub fn counters(&self) -> Counters {
        self.drive.counters()
    }

    /// The drive, to look at.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepper").field("now", &self.now()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(overrides: &[&str]) -> Stepper {
        let mut all =
            vec!["geometry.blocks_per_plane=48".to_owned(), "over_provisioning=20%".to_owned()];
        all.extend(overrides.iter().map(|text| (*text).to_owned()));
        Stepper::new(crate::drive::load("enterprise-tlc", &all).unwrap().config).unwrap()
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
        config.faults.push(crate::fault::parse("power-cut:at=10us").unwrap());
        let mut drive = Stepper::new(config).unwrap();
        drive.submit(Operation::Write, 0, 8);
        while drive.step().is_some() {}
        assert!(drive.drive().has_lost_power() || drive.outstanding() == 0);
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
