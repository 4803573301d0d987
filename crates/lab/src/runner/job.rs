//! One job of a flow: what it issues next, and when.

use mynah_model::io::{NamespaceId, QueueId, Request, Tag};
use mynah_model::{Drive, Policies};
use mynah_stamp::{Span, Time};
use mynah_workload::{FlowSpec, Generator, Planned, Schedule};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Requests that a job draws ahead, so that their mapping entries can be brought near
/// together.
const DRAWN_AHEAD: usize = 32;

/// When something arrives or a pause ends, and whose.
pub(super) type Arrivals = BinaryHeap<Reverse<(Time, u32)>>;

/// A job and its queue pair, as the host sees them.
pub(super) struct Job {
    pub(super) flow: u32,
    /// One more than the job's number.
    pub(super) queue: QueueId,
    namespace: NamespaceId,
    /// Its commands are key-value commands.
    pub(super) keys: bool,
    pub(super) generator: Generator,
    /// Requests drawn ahead; those before `next_ahead` are used up.
    ahead: Vec<Planned>,
    next_ahead: usize,
    pub(super) exhausted: bool,
    /// A closed loop issues nothing from then on.
    stops_at: Time,
    /// When a closed loop's runtime was over, if that is what has ended it.
    ended_by_runtime: Option<Time>,
    /// Requests in the submission queue that the controller has not fetched.
    pub(super) submitted: VecDeque<u32>,
    /// When an open loop's last request arrived, and whether it waits in the host until one of
    /// those outstanding completes. What arrives behind it is not drawn before.
    pub(super) arrived: Time,
    pub(super) waits: bool,
    pub(super) outstanding: u32,
    /// Queue depth of a closed loop; `None` for open loops.
    pub(super) depth: Option<u32>,
    /// Requests that an open loop may have outstanding.
    pub(super) most: u32,
    /// Start, bursts and pauses of a closed loop; `None` if it issues whenever it can.
    gate: Option<Box<Gate>>,
}

/// Pauses and bursts of a closed loop.
struct Gate {
    schedule: Schedule,
    /// From then on the job issues nothing.
    stops_at: Time,
    /// Requests since the last pause, and when that ends.
    issued: u32,
    resumes_at: Time,
    /// Requests that are not issued for now, and whether the job will be woken.
    held: u32,
    wakes: bool,
}

impl Job {
    /// Job `number` of a run, from 0, which draws from `generator`; its submission queue has
    /// `entries` entries.
    pub(super) fn new(
        number: u16,
        flow: u32,
        spec: &FlowSpec,
        generator: Generator,
        entries: u32,
    ) -> Job {
        let mut job = Job {
            flow,
            queue: QueueId(number + 1),
            namespace: spec.namespace,
            keys: spec.key_value().is_some(),
            generator,
            ahead: Vec::with_capacity(DRAWN_AHEAD),
            next_ahead: 0,
            exhausted: false,
            stops_at: Time::MAX,
            ended_by_runtime: None,
            gate: None,
            submitted: VecDeque::new(),
            arrived: Time::ZERO,
            waits: false,
            outstanding: 0,
            depth: spec.depth(),
            most: spec.depth_max().unwrap_or(u32::MAX).min(entries - 1),
        };
        job.keep_to(spec);
        job
    }

    /// Begins at `start` in the run, whatever the flow says; nothing has been drawn yet.
    pub(super) fn begin_at(&mut self, start: Span, spec: &FlowSpec) {
        self.generator.begin_at(start);
        self.keep_to(spec);
    }

    /// Takes start, runtime and pauses from `spec`.
    fn keep_to(&mut self, spec: &FlowSpec) {
        let runtime = spec.limits.runtime;
        let stops_at =
            runtime.map_or(Time::MAX, |runtime| Time::ZERO + spec.schedule.start + runtime);
        let gated = spec.depth().is_some() && spec.schedule != Schedule::default();
        let gate = Gate {
            schedule: spec.schedule,
            stops_at,
            issued: 0,
            resumes_at: Time::ZERO,
            held: 0,
            wakes: false,
        };
        // A gate is asked before each request.
        self.stops_at = if gated { Time::ZERO } else { stops_at };
        self.gate = gated.then(|| Box::new(gate));
    }

    pub(super) fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    #[inline]
    pub(super) fn request(&self, tag: u32, planned: Planned) -> Request {
        Request {
            placement: planned.placement,
            tag: Tag(tag),
            operation: planned.operation,
            namespace: self.namespace,
            sector: planned.sector,
            sectors: planned.sectors,
        }
    }

    /// Drops requests drawn ahead, and draws no more.
    pub(super) fn issue_no_more(&mut self) {
        self.ahead.clear();
        self.next_ahead = 0;
        self.exhausted = true;
    }

    /// Ends the job's runtime at `end`, which lies ahead. Requests that were drawn for `end` or
    /// later are dropped.
    pub(super) fn end_at(&mut self, end: Time) {
        if self.depth.is_none() {
            let ahead = &self.ahead[self.next_ahead..];
            let late = |planned: &Planned| planned.arrival.is_some_and(|at| at >= end);
            let first_late = ahead.iter().position(late);
            if let Some(place) = first_late {
                self.ahead.truncate(self.next_ahead + place);
                self.exhausted = true;
            }
            self.generator.end_at(end, first_late.is_some());
            return;
        }
        let Some(gate) = &mut self.gate else {
            self.stops_at = end;
            return;
        };
        gate.stops_at = end;
        if std::mem::take(&mut gate.wakes) {
            gate.held = 0;
            self.exhausted = true;
            self.ended_by_runtime = Some(end);
        }
    }

    /// The next request, which is used up.
    #[inline]
    pub(super) fn draw(&mut self, drive: &Drive<impl Policies>) -> Option<Planned> {
        let planned = self.peek(drive)?;
        self.next_ahead += 1;
        Some(planned)
    }

    /// The next request, which stays the next one.
    #[inline]
    fn peek(&mut self, drive: &Drive<impl Policies>) -> Option<Planned> {
        if self.next_ahead >= self.ahead.len() {
            self.draw_ahead(drive);
        }
        self.ahead.get(self.next_ahead).copied()
    }

    /// Draws the next batch of requests, which do not depend on what the drive does.
    #[inline(never)]
    fn draw_ahead(&mut self, drive: &Drive<impl Policies>) {
        self.next_ahead = 0;
        self.ahead.clear();
        if self.exhausted {
            return;
        }
        self.generator.draw(&mut self.ahead, DRAWN_AHEAD);
        self.exhausted = self.ahead.len() < DRAWN_AHEAD;
        if self.keys {
            return;
        }
        let sectors = self.ahead.iter().map(|planned| planned.sector);
        drive.warm(self.namespace, sectors);
    }

    /// When an open loop's next request arrives: not before the one before it.
    pub(super) fn next_arrival(&mut self, drive: &Drive<impl Policies>) -> Option<Time> {
        let planned = self.peek(drive)?;
        Some(planned.arrival.map_or(self.arrived, |arrival| arrival.max(self.arrived)))
    }

    /// Requests that have not been completed, and sectors that have not been issued, as far as
    /// the generator knows.
    pub(super) fn left(&self) -> (u64, u64) {
        let ahead = &self.ahead[self.next_ahead..];
        let (requests, sectors) = self.generator.remaining();
        let drawn = ahead.len() as u64 + u64::from(self.outstanding);
        let drawn_sectors: u64 = ahead.iter().map(|planned| u64::from(planned.sectors)).sum();
        (requests.saturating_add(drawn), sectors.saturating_add(drawn_sectors))
    }

    /// When the job's runtime was over, if that is what has ended it.
    pub(super) fn ended_by_runtime(&self) -> Option<Time> {
        self.ended_by_runtime.or_else(|| self.generator.ended_by_runtime())
    }

    /// Whether all has been issued and completed.
    pub(super) fn is_done(&self) -> bool {
        let is_drawn = self.exhausted && self.next_ahead >= self.ahead.len();
        self.outstanding == 0 && (is_drawn || self.ended_by_runtime.is_some())
    }

    /// A closed loop's pause is over: how many requests were held back.
    pub(super) fn wake(&mut self) -> u32 {
        let Some(gate) = &mut self.gate else { return 0 };
        gate.wakes = false;
        std::mem::take(&mut gate.held)
    }

    /// A closed loop's next request, if it issues one now.
    #[inline]
    pub(super) fn draw_now(
        &mut self,
        drive: &Drive<impl Policies>,
        arrivals: &mut Arrivals,
    ) -> Option<Planned> {
        self.draw_at(drive.now(), drive, arrivals)
    }

    /// Like [`Job::draw_now`], for a host whose clock is at `now`.
    #[inline(always)]
    pub(super) fn draw_at(
        &mut self,
        now: Time,
        drive: &Drive<impl Policies>,
        arrivals: &mut Arrivals,
    ) -> Option<Planned> {
        if now >= self.stops_at && self.is_held(now, arrivals) {
            return None;
        }
        self.draw(drive)
    }

    /// Whether a closed loop must not issue a request now: it is over, or pauses.
    #[inline(never)]
    fn is_held(&mut self, now: Time, arrivals: &mut Arrivals) -> bool {
        let stops_at = self.gate.as_ref().map_or(self.stops_at, |gate| gate.stops_at);
        let active = self.gate.as_deref_mut().and_then(|gate| {
            let ready = gate.schedule.next_active(now.max(gate.resumes_at));
            (now.max(ready) < stops_at).then_some((gate, ready))
        });
        let Some((gate, ready)) = active else {
            self.exhausted = true;
            self.ended_by_runtime = Some(stops_at);
            return true;
        };
        if ready > now {
            gate.held += 1;
            if !std::mem::replace(&mut gate.wakes, true) {
                arrivals.push(Reverse((ready, u32::from(self.queue.0) - 1)));
            }
            return true;
        }
        if let Some(think) = gate.schedule.think {
            gate.issued += 1;
            if gate.issued >= think.requests {
                gate.issued = 0;
                gate.resumes_at = now + think.time;
            }
        }
        false
    }
}
