//! Several drives behind a switch in virtual time: every flow runs on each drive, in closed loops.
//!
//! A drive runs by itself up to its next output, as long as nothing can come to it before: what
//! comes to it is on its way already, or follows from an answer that a host has still to see. What
//! passes the uplink does so in order of time, whichever drive's it is.

use super::job::{Arrivals, Job};
use super::{Outcome, Phase, Progress, RunError, RunOptions, Runner};
use crate::enclosure::{Direction, Enclosure, Uplink};
use crate::observers::Observers;
use mynah_model::Drive;
use mynah_model::ceilings::{Asked, WireBytes, wire_bytes};
use mynah_model::config::{Config, Ethernet, Fault};
use mynah_model::io::{Brief, Completion, Control, FlowId, Operation, Queue, QueueKind, Request};
use mynah_model::stats::Blame;
use mynah_result::recorder::Recorder;
use mynah_stamp::{LinkSpans, Span, Stage, Time};
use mynah_workload::{FlowSpec, Schedule};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Completions between two looks at whether to go on.
const PROGRESS_EVERY: u64 = 1 << 14;

/// An event of a drive, as [`Run::next`] schedules them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A drive has outputs to be polled.
    Outputs,
    /// A completion has arrived at the host.
    Answered { tag: u32 },
    /// A drive's request for write data has arrived at the host.
    Asked { tag: u32 },
}

/// What arrives at a drive over its link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Input {
    Command { tag: u32 },
    Data { tag: u32 },
}

/// A request, from its issue to its answer.
#[derive(Clone, Copy)]
struct Pending {
    request: Request,
    job: u32,
    issued: Time,
    arrived: Time,
    /// The drive's completion, once it has been sent.
    done: Option<(Completion, LinkSpans)>,
}

/// A drive and the hosts' side of it.
struct Node {
    drive: Drive,
    jobs: Vec<Job>,
    pending: Vec<Option<Pending>>,
    free: Vec<u32>,
    /// On its way to the drive, in order of time.
    inputs: BinaryHeap<Reverse<(Time, u64, Input)>>,
    /// When hosts see what is on its way to them: nothing new comes to the drive before.
    answers: BinaryHeap<Reverse<Time>>,
    /// Whether the drive has outputs, and an event for them is scheduled.
    has_outputs: bool,
}

struct Run {
    ethernet: Ethernet,
    uplink: Uplink,
    nodes: Vec<Node>,
    next: BinaryHeap<Reverse<(Time, u64, u32, Event)>>,
    /// Breaks ties: what was scheduled first comes first.
    order: u64,
    recorder: Recorder,
    observers: Observers,
    completed: u64,
    now: Time,
    ramp_until: Time,
    blame_before: Vec<Vec<Blame>>,
    sizes: BTreeMap<(bool, u32), WireBytes>,
}

/// Runs `flows` on each drive of an enclosure, at which observers of commands look.
///
/// # Errors
/// If there is no enclosure of such drives, or not with such flows.
pub(crate) fn run(
    config: &Config,
    flows: &[FlowSpec],
    options: &RunOptions,
    (enclosure, observers): (Enclosure, Observers),
    mut watch: impl FnMut(Phase) -> bool,
) -> Result<(Outcome, Vec<String>), RunError> {
    let Some(ethernet) = config.ethernet.clone() else {
        return Err(RunError::Enclosure(
            "a switch is before Ethernet drives: this one has another \
                                        link (`link.protocol = \"ethernet\"`)"
                .into(),
        ));
    };
    suits(config, flows, options)?;
    let mut nodes = Vec::new();
    for number in 0..enclosure.drives {
        // Drives and their jobs differ by their seeds alone.
        let seed = options.seed.wrapping_add(u64::from(number).wrapping_mul(0x9e37_79b9));
        let config = Config { seed: config.seed.wrapping_add(number.into()), ..config.clone() };
        let own = RunOptions { seed, ..options.clone() };
        let runner = Runner::new(config, flows, &own)?;
        let runner = runner.settled(|before| watch(Phase::Before(before)))?;
        nodes.push(Node::new(runner.into_drive_and_jobs()?));
    }
    let mut run = Run {
        uplink: Uplink::new(enclosure),
        ethernet,
        nodes,
        next: BinaryHeap::new(),
        order: 0,
        recorder: Recorder::new(flows.iter().map(|flow| flow.name.clone()).collect()),
        observers,
        completed: 0,
        now: Time::ZERO,
        ramp_until: match options.ramp_time {
            Span::ZERO => Time::MAX,
            ramp => Time::ZERO + ramp,
        },
        blame_before: vec![],
        sizes: BTreeMap::new(),
    };
    run.start(flows)?;
    let interrupted = run.go(flows, &mut |progress| watch(Phase::Running(progress)))?;
    run.outcome(interrupted)
}

/// Refuses flows and options that an enclosure does not support.
fn suits(config: &Config, flows: &[FlowSpec], options: &RunOptions) -> Result<(), RunError> {
    let refuse = |what: String| Err(RunError::Enclosure(what));
    if config.faults.iter().any(|fault| matches!(fault, Fault::PowerCut { .. })) {
        return refuse("a power cut is of one drive".into());
    }
    for flow in flows {
        let name = &flow.name;
        if flow.depth().is_none() || flow.key_value().is_some() {
            return refuse(format!("flow `{name}`: closed loops of reads and writes (iodepth)"));
        }
        if flow.schedule != Schedule::default() || flow.after_previous {
            return refuse(format!("flow `{name}`: no pauses, and no waiting for others"));
        }
        if flow.limits.auto {
            return refuse(format!("flow `{name}`: give runtime or number_ios"));
        }
    }
    if options.until_steady.is_some() || options.load_state.is_some() {
        return refuse("no search for the steady state, and no saved states".into());
    }
    Ok(())
}

impl Node {
    fn new((drive, jobs): (Drive, Vec<Job>)) -> Node {
        Node {
            drive,
            jobs,
            pending: vec![],
            free: vec![],
            inputs: BinaryHeap::new(),
            answers: BinaryHeap::new(),
            has_outputs: false,
        }
    }

    fn tag(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() as u32 - 1
        })
    }
}

impl Run {
    fn order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    fn bytes(&mut self, request: &Request) -> WireBytes {
        let writes = matches!(request.operation, Operation::Write | Operation::WriteThrough);
        let moves = writes || request.operation == Operation::Read;
        let bytes = if moves { request.sectors.saturating_mul(512) } else { 0 };
        let ethernet = &self.ethernet;
        *self
            .sizes
            .entry((writes, bytes))
            .or_insert_with(|| wire_bytes(ethernet, Asked { writes, bytes }))
    }

    fn start(&mut self, flows: &[FlowSpec]) -> Result<(), RunError> {
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            node.drive.hold_data(true);
            let entries = node.drive.config().queues.entries;
            for job in &node.jobs {
                let spec = &flows[job.flow as usize];
                let queue = Queue {
                    id: job.queue,
                    kind: QueueKind::Network { port: spec.port },
                    flow: FlowId(job.flow as u16),
                    priority: spec.priority,
                    completion_entries: entries,
                };
                node.drive
                    .control(Time::ZERO, Control::CreateQueue(queue))
                    .map_err(|error| RunError::Input(error, 0))?;
            }
            for job in 0..self.nodes[at].jobs.len() as u32 {
                let depth = self.nodes[at].jobs[job as usize].depth.unwrap_or(0);
                for _ in 0..depth {
                    self.issue(at, job);
                }
            }
        }
        for at in 0..self.nodes.len() {
            self.run_on(at)?;
        }
        Ok(())
    }

    /// Sends a job's next request from its host now, if there is one.
    fn issue(&mut self, at: usize, number: u32) {
        let now = self.now;
        let node = &mut self.nodes[at];
        let job = &mut node.jobs[number as usize];
        // No flow pauses: nothing is held back for later.
        let mut none = Arrivals::new();
        let Some(planned) = job.draw_at(now, &node.drive, &mut none) else { return };
        job.outstanding += 1;
        let tag = node.tag();
        let request = node.jobs[number as usize].request(tag, planned);
        self.recorder.issued(now);
        let bytes = self.bytes(&request).command;
        let arrived = self.uplink.carry(now, Direction::ToDrives, bytes);
        let order = self.order();
        let node = &mut self.nodes[at];
        node.pending[tag as usize] =
            Some(Pending { request, job: number, issued: now, arrived, done: None });
        node.inputs.push(Reverse((arrived, order, Input::Command { tag })));
    }

    /// Runs a drive up to its next output, or as far as it can.
    fn run_on(&mut self, at: usize) -> Result<(), RunError> {
        let least = self.uplink.least(0);
        let node = &mut self.nodes[at];
        if node.has_outputs {
            return Ok(());
        }
        let input_error = |error| RunError::Input(error, 0);
        loop {
            let input = node.inputs.peek().map(|Reverse((time, ..))| *time);
            let answer = node.answers.peek().map(|Reverse(time)| *time + least);
            let bound = input.unwrap_or(Time::MAX).min(answer.unwrap_or(Time::MAX));
            // Without anything outstanding, what the drive tidies up is no part of the run.
            if bound == Time::MAX && node.jobs.iter().all(|job| job.outstanding == 0) {
                return Ok(());
            }
            node.drive.advance(bound);
            if node.drive.has_outputs() {
                node.has_outputs = true;
                let now = node.drive.now();
                let order = self.order();
                self.next.push(Reverse((now, order, at as u32, Event::Outputs)));
                return Ok(());
            }
            if input != Some(bound) || bound == Time::MAX {
                return Ok(());
            }
            let Some(Reverse((time, _, input))) = node.inputs.pop() else { return Ok(()) };
            match input {
                Input::Command { tag } => {
                    let Some(pending) = &node.pending[tag as usize] else { continue };
                    let queue = node.jobs[pending.job as usize].queue;
                    node.drive.command(time, queue, pending.request).map_err(input_error)?;
                }
                Input::Data { tag } => {
                    let tag = mynah_model::io::Tag(tag);
                    node.drive.data_arrived(time, tag).map_err(input_error)?;
                }
            }
        }
    }

    /// What a drive says: answers and requests for data go to the switch.
    fn take_outputs(&mut self, at: usize) {
        let now = self.now;
        loop {
            let node = &mut self.nodes[at];
            let Some(brief) = node.drive.poll_brief() else { break };
            let (tag, what, is_answer) = match brief {
                Brief::Complete(completed) => {
                    let completion = *node.drive.completion(completed);
                    let link = node.drive.link_spans(completed).copied().unwrap_or_default();
                    let tag = completion.tag.0;
                    if let Some(pending) = &mut node.pending[tag as usize] {
                        pending.done = Some((completion, link));
                    }
                    (tag, Event::Answered { tag }, true)
                }
                Brief::Move { tag, .. } => (tag.0, Event::Asked { tag: tag.0 }, false),
                Brief::Fetch { .. } | Brief::Decide { .. } => continue,
            };
            let Some(pending) = node.pending[tag as usize] else { continue };
            let bytes = self.bytes(&pending.request);
            let bytes = if is_answer { bytes.answer } else { bytes.request };
            let seen = self.uplink.carry(now, Direction::ToHosts, bytes);
            let order = self.order();
            self.nodes[at].answers.push(Reverse(seen));
            self.next.push(Reverse((seen, order, at as u32, what)));
        }
        self.nodes[at].has_outputs = false;
    }

    /// A host sends the data that it is asked for.
    fn send_data(&mut self, at: usize, tag: u32) {
        let now = self.now;
        self.nodes[at].answers.pop();
        let Some(pending) = self.nodes[at].pending[tag as usize] else { return };
        let bytes = self.bytes(&pending.request).data;
        let arrived = self.uplink.carry(now, Direction::ToDrives, bytes);
        let order = self.order();
        self.nodes[at].inputs.push(Reverse((arrived, order, Input::Data { tag })));
    }

    /// Called when a completion has arrived at its host, which issues the next request.
    fn answered(&mut self, at: usize, tag: u32) -> Result<(), RunError> {
        let now = self.now;
        let node = &mut self.nodes[at];
        node.answers.pop();
        let Some(pending) = node.pending[tag as usize].take() else { return Ok(()) };
        node.free.push(tag);
        let Some((mut completion, link)) = pending.done else { return Ok(()) };
        // The way from the host to the port, and back.
        completion.stages.add(Stage::NetworkRequest, pending.arrived.since(pending.issued));
        completion.stages.add(Stage::NetworkResponse, now.since(completion.at));
        (completion.rung, completion.at) = (pending.issued, now);
        let job = &mut node.jobs[pending.job as usize];
        job.outstanding -= 1;
        let (flow, operation) = (job.flow as usize, pending.request.operation);
        let bytes = pending.request.sectors.saturating_mul(512);
        self.recorder.record(flow, operation, bytes, pending.issued, &completion);
        self.recorder.record_link(flow, operation, pending.issued, &completion, &link);
        if self.recorder.is_slow(pending.issued, &completion) {
            // Whose drive's waits these were is not known here.
            let what = (flow, operation.into(), bytes);
            let completed = (&completion, Some(&link));
            self.recorder.record_slow(what, pending.issued, completed, std::iter::empty());
        }
        self.observers.on_drive(at as u32);
        let completed = (&completion, Some(&link));
        self.observers.completed(flow, &pending.request, pending.issued, completed)?;
        self.completed += 1;
        self.issue(at, pending.job);
        Ok(())
    }

    /// Runs until nothing more happens; true if `watch` has interrupted it.
    fn go(
        &mut self,
        flows: &[FlowSpec],
        progress: &mut impl FnMut(Progress) -> bool,
    ) -> Result<bool, RunError> {
        let mut next_progress = PROGRESS_EVERY;
        while let Some(Reverse((now, _, node, what))) = self.next.pop() {
            self.now = now;
            if now >= self.ramp_until {
                self.ramp_until = Time::MAX;
                self.recorder.reset_at(now);
                self.blame_before = self.nodes.iter().map(|node| node.drive.blame()).collect();
            }
            let at = node as usize;
            match what {
                Event::Outputs => self.take_outputs(at),
                Event::Asked { tag } => self.send_data(at, tag),
                Event::Answered { tag } => self.answered(at, tag)?,
            }
            self.run_on(at)?;
            if self.completed >= next_progress {
                next_progress += PROGRESS_EVERY;
                let done = self.done(flows);
                if !progress(Progress { done, now, completed: self.completed }) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// How much is done, by the flow that is furthest behind.
    fn done(&self, flows: &[FlowSpec]) -> f64 {
        let jobs = self.nodes.iter().flat_map(|node| &node.jobs);
        let shares = jobs.filter_map(|job| {
            let limits = &flows[job.flow as usize].limits;
            let requests = limits.requests.map(|all| 1.0 - job.left().0 as f64 / all as f64);
            let time = limits.runtime.map(|all| self.now.as_secs_f64() / all.as_secs_f64());
            [requests, time].into_iter().flatten().reduce(f64::max)
        });
        shares.fold(1.0, f64::min)
    }

    /// The measurements, and a remark about the switch's load.
    fn outcome(mut self, interrupted: bool) -> Result<(Outcome, Vec<String>), RunError> {
        let of_uplink = self.uplink.busy().map(|busy| {
            let all = self.now.as_secs_f64().max(f64::MIN_POSITIVE);
            100.0 * busy.as_secs_f64() / all
        });
        let blame = |of: &mut dyn Iterator<Item = Vec<Blame>>| {
            let mut sums: Vec<Blame> = vec![];
            for row in of.flatten() {
                let same = |it: &&mut Blame| {
                    (it.victim, it.resource, it.holder) == (row.victim, row.resource, row.holder)
                };
                match sums.iter_mut().find(same) {
                    Some(sum) => sum.wait += row.wait,
                    None => sums.push(row),
                }
            }
            sums
        };
        let before = blame(&mut self.blame_before.iter().cloned());
        let after = blame(&mut self.nodes.iter().map(|node| node.drive.blame()));
        self.observers.finish_logs(&after)?;
        let drives = self.nodes.len();
        let notes = vec![
            format!("{drives} drives; each flow runs on every one, with all of its jobs"),
            format!(
                "uplink {:.1} % busy to the drives, {:.1} % to the hosts",
                of_uplink[0], of_uplink[1]
            ),
        ];
        Ok((Outcome::of_many(self.recorder, before, after, self.now, interrupted), notes))
    }
}
