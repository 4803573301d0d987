//! One job: a thread with a queue of its own. What it does is a [`Work`]'s.
//!
//! A turn receives once, or until long data have come to their end, deals with everything that
//! came, submits what may be outstanding and sends once. The clock is read once a reception.
//! Nothing is allocated for a command.

use super::access::{Access, State};
use super::gate::Gate;
use super::link::{Current, Link};
use super::tally::Tally;
use super::work::{Issued, Turn, Work};
use crate::clock::Clock;
use crate::host::HostError;
use crate::host::transport::{Completed, IoQueue, Source};
use crate::profile::{Ended, HostProfile, HostProfiles, Sampled};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::Status;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long an interrupted job waits for what is outstanding.
const LEAVE_PATIENCE: Span = Span::from_secs(2);
/// How long a job whose time is over waits for its last answers, and has them asked for again, at
/// least; longer ones, as long as they were.
const LAST_PATIENCE: Span = Span::from_secs(5);
/// Waiting in the system ends this long before something is to be done, since waking takes
/// time.
const WAKE: Span = Span::from_us(60);
/// Waits in the system end after this, to look whether the run has ended.
const NAP: Duration = Duration::from_millis(50);
/// While long data are coming: receptions in one turn, and looks without result between two.
const RECEPTIONS_AMID_DATA: u32 = 256;
const LOOKS_AMID_DATA: u32 = 1_000;
/// How long a target that breaks the protocol on each connection is tried, and the pause before the next
/// connection after one that brought nothing.
const BROKEN_PATIENCE: Span = Span::from_secs(2);
const FRUITLESS_PAUSE: Duration = Duration::from_millis(50);
/// Answers that came at once are handed on so many, in a power of two less one, to a look at the
/// clock.
const HANDED_MASK: u16 = 3;
/// The status of commands whose connection was lost: Host Pathing Error (Base 2.0, figure 100; code
/// type 3h, code 70h).
const HOST_PATH_ERROR: u16 = 0x370;

/// How a job goes about its work, whatever that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The queue's identifier, from 1.
    pub(super) queue_id: u16,
    pub(super) queue_entries: u16,
    /// Commands come at their times, not when others have ended.
    pub(super) is_open: bool,
    /// Most bytes that a command moves.
    pub(super) bytes_max: usize,
    pub(super) ramp: Span,
    /// How many commands that makes, if it is known; on average, where they have different sizes.
    pub(super) requests: Option<u64>,
    /// How long commands are issued.
    pub(super) runtime: Option<Span>,
    pub(super) timeout: Span,
    /// How long connections that bring nothing are made anew.
    pub(super) reconnect: Span,
    /// How long a change of the namespace's access state may take.
    pub(super) transition: Span,
    /// Looks without result before the job waits in the system.
    pub(super) spins: u32,
}

/// What all jobs of a run share.
pub(super) struct Shared<'a, S> {
    pub(super) link: &'a Link<S>,
    pub(super) clock: &'a Clock,
    pub(super) gate: &'a Gate,
}

impl<S> Clone for Shared<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Shared<'_, S> {}

/// A job at work.
pub(super) struct Job<'a, S: Source, W: Work> {
    plan: Plan,
    shared: Shared<'a, S>,
    completed: &'a AtomicU64,
    queue: S::Queue,
    epoch: u64,
    work: W,
    /// Outstanding commands by slot.
    commands: Vec<Option<Issued<W::Command>>>,
    outstanding: usize,
    /// To be submitted again after a lost connection, or when the namespace can be accessed.
    again: VecDeque<Issued<W::Command>>,
    access: Access,
    /// When the run was interrupted; since then outstanding commands are waited for.
    leaving: Option<Time>,
    tally: Tally,
    measuring: bool,
    /// What comes before the load is being done.
    preparing: bool,
    /// When the first of the connections was lost since which nothing was answered.
    fruitless: Option<Time>,
    /// From when the timeout counts: the last answer, or the first command after a pause.
    last_heard: Time,
    idle: u32,
    profile: Option<Box<Profiled>>,
}

/// A job's profile, and when an answer was handed on last.
struct Profiled {
    profile: HostProfile,
    handed: Time,
    /// The run's, and its socket while that is asked what limits it.
    run: Arc<HostProfiles>,
    sampled: Option<Sampled>,
}

impl<'a, S: Source, W: Work> Job<'a, S, W> {
    /// Connects the job's queue.
    pub(super) fn connect(
        plan: Plan,
        work: W,
        shared: Shared<'a, S>,
        completed: &'a AtomicU64,
        profile: Option<(HostProfile, Arc<HostProfiles>)>,
    ) -> Result<Job<'a, S, W>, HostError> {
        let Current { epoch, source } = shared.link.current();
        let queue = source.open_queue(plan.queue_id, plan.queue_entries, plan.bytes_max)?;
        let profile = profile.map(|(profile, run)| {
            Box::new(Profiled { profile, handed: Time::ZERO, run, sampled: None })
        });
        let mut job = Job {
            plan,
            shared,
            completed,
            queue,
            epoch,
            preparing: work.prepares(),
            work,
            commands: vec![None; usize::from(plan.queue_entries)],
            outstanding: 0,
            again: VecDeque::new(),
            access: Access::new(plan.transition),
            leaving: None,
            tally: Tally::default(),
            measuring: false,
            fruitless: None,
            last_heard: Time::ZERO,
            idle: 0,
            profile,
        };
        job.watch(source.facts().controller_id);
        Ok(job)
    }

    /// Has the queue, which is new, note what a profile needs.
    fn watch(&mut self, controller_id: u16) {
        if let Some(profiled) = &mut self.profile {
            profiled.profile.connected(controller_id, self.plan.queue_id);
            self.queue.watch(*self.shared.clock);
            profiled.sampled = self.queue.socket().map(|socket| profiled.run.ask(socket));
        }
    }

    /// Works until everything is done; what came of it.
    pub(super) fn run(mut self) -> Tally {
        let mut lost = false;
        if self.preparing {
            self.last_heard = self.shared.clock.wall();
            lost = !self.work_through(Time::ZERO);
            let loaded = std::mem::take(&mut self.tally);
            self.tally.prepared(loaded);
            self.preparing = false;
            self.work.begin();
            if self.work.has_failed() {
                self.shared.link.stop();
            }
        }
        let stopped = || self.shared.link.stopped();
        let start = self.shared.gate.pass(self.shared.clock, stopped);
        self.last_heard = self.shared.clock.wall();
        self.tally.start(start + self.plan.ramp);
        self.measuring = self.plan.ramp.is_zero();
        if !lost {
            self.work_through(start);
        }
        let now = self.shared.clock.wall();
        self.note_lost();
        self.abandon(now);
        self.tally.unknown += self.commands.iter().flatten().count() as u64;
        self.tally.inaccessible = self.access.waited_until(now);
        self.work.finish(&mut self.tally);
        self.tally
    }

    /// Works on one connection after the other until everything is done; false if there is none any
    /// more.
    fn work_through(&mut self, start: Time) -> bool {
        while let Err(error) = self.work(start) {
            if !self.reconnect(error) {
                if self.leaving.is_none() {
                    self.end_load(start, self.shared.clock.wall());
                }
                return false;
            }
        }
        true
    }

    /// Works on one connection until everything is done.
    fn work(&mut self, start: Time) -> Result<(), HostError> {
        let mut now = self.shared.clock.wall();
        loop {
            let mut busy = self.queue.receive()?;
            if busy {
                now = self.take_completed()?;
                // The commands that follow go out together when long data have come: piece by
                // piece they would have the target send in small pieces, too.
                let (mut receptions, mut looks) = (0, 0);
                let looks_max = self.plan.spins.min(LOOKS_AMID_DATA);
                while self.queue.is_amid_data()
                    && receptions < RECEPTIONS_AMID_DATA
                    && looks < looks_max
                {
                    if self.queue.receive()? {
                        now = self.take_completed()?;
                        (receptions, looks) = (receptions + 1, 0);
                    } else {
                        looks += 1;
                    }
                }
                self.completed.store(self.tally.completed(), Ordering::Relaxed);
            } else if self.plan.is_open || self.idle & 15 == 15 {
                now = self.shared.clock.wall();
            }
            if !self.measuring && now >= start + self.plan.ramp {
                self.measuring = true;
            }
            if self.shared.link.stopped() {
                if self.leaving.is_none() {
                    self.end_load(start, now);
                }
                self.work.end();
                self.abandon(now);
                let since = *self.leaving.get_or_insert(now);
                if now.saturating_since(since) > LEAVE_PATIENCE {
                    return Ok(());
                }
            }
            busy |= self.submit(start, now);
            self.queue.send(self.work.data())?;
            if self.outstanding == 0 && self.work.is_over() && self.again.is_empty() {
                return Ok(());
            }
            if self.shared.link.epoch() != self.epoch {
                return Err(HostError::Closed);
            }
            match busy {
                true => self.idle = 0,
                // It would be issued again, after its time: it is as well to say so.
                false if self.is_in_vain(start, now) => {
                    self.end_load(start, now);
                    return Ok(());
                }
                false => self.rest(start, now)?,
            }
        }
    }

    /// Whether the job's time is over, and what is left has been waited for long enough.
    fn is_in_vain(&self, start: Time, now: Time) -> bool {
        let Some(runtime) = self.plan.runtime.filter(|_| !self.preparing) else { return false };
        let patience = runtime.max(LAST_PATIENCE);
        let (end, silent) = (start + runtime, now.saturating_since(self.last_heard));
        let is_late = now.saturating_since(end) > patience;
        self.outstanding > 0
            && self.again.is_empty()
            && now >= end
            && (silent > patience || is_late && silent > self.plan.timeout)
    }

    /// Handles everything that came; returns the time at which it did.
    #[inline]
    fn take_completed(&mut self) -> Result<Time, HostError> {
        let now = self.shared.clock.wall();
        self.last_heard = now;
        while let Some(completed) = self.queue.poll(self.work.data())? {
            self.completed(completed, now)?;
        }
        Ok(now)
    }

    /// Nothing came and nothing could be submitted: looks again at once for a while, then
    /// waits in the system.
    fn rest(&mut self, start: Time, now: Time) -> Result<(), HostError> {
        self.idle = self.idle.saturating_add(1);
        let mut patience = NAP;
        if let Some(until) = self.access.pauses_until(now)
            && self.outstanding == 0
        {
            self.last_heard = now;
            let pause = Duration::from_nanos(until.saturating_since(now).as_ps() / 1_000);
            self.queue.wait(patience.min(pause))?;
            self.idle |= 15;
            return Ok(());
        }
        let due = self.work.next_arrival().map(|at| start + at.since(Time::ZERO));
        if self.outstanding == 0 {
            self.last_heard = now;
            if let Some(due) = due {
                let until = due.saturating_since(now).saturating_sub(WAKE);
                if until.is_zero() {
                    return Ok(());
                }
                patience = patience.min(Duration::from_nanos(until.as_ps() / 1_000));
                return self.queue.wait(patience);
            }
        } else if now.saturating_since(self.last_heard) > self.plan.timeout {
            let seconds = self.plan.timeout.as_ps() / 1_000_000_000_000;
            return Err(HostError::Timeout { what: "an I/O command", seconds });
        }
        if self.idle < self.plan.spins && !self.queue.is_blocked() {
            return Ok(());
        }
        if let Some(due) = due {
            let due = due.saturating_since(now).saturating_sub(WAKE);
            if due.is_zero() {
                return Ok(());
            }
            patience = patience.min(Duration::from_nanos(due.as_ps() / 1_000));
        }
        self.queue.wait(patience)?;
        self.idle |= 15;
        Ok(())
    }

    /// Gives up commands that were to be submitted again: refused ones have failed, of the others
    /// the outcome is unknown.
    fn abandon(&mut self, now: Time) {
        while let Some(io) = self.again.pop_front() {
            match io.refused {
                Some(status) => {
                    let measured = self.measuring && io.counted;
                    let kind = W::kind(&io.command);
                    self.tally.failed(kind, measured, now, || status.result_name().into_owned());
                }
                None => self.tally.unknown += 1,
            }
        }
    }

    /// Submits what there is to submit; whether there was anything.
    fn submit(&mut self, start: Time, now: Time) -> bool {
        let mut busy = false;
        if self.access.pauses_until(now).is_some() {
            return false;
        }
        while self.queue.can_submit() {
            if let Some(io) = self.again.pop_front() {
                self.issue(io, now, true);
                busy = true;
                continue;
            }
            let end = self.plan.runtime.map_or(Time::MAX, |runtime| start + runtime);
            let mut turn = Turn {
                start,
                end,
                now,
                outstanding: self.outstanding,
                commands: &self.commands,
                tally: &mut self.tally,
            };
            let Some(io) = self.work.next(&mut turn) else { break };
            self.issue(io, now, false);
            busy = true;
        }
        busy
    }

    /// The load ends before all of it has been issued and has come back.
    fn end_load(&mut self, start: Time, now: Time) {
        let mut waiting = self.again.iter().chain(self.commands.iter().flatten());
        if self.work.is_loading() || waiting.any(|io| io.counted) {
            let end = self.plan.runtime.map_or(Time::MAX, |runtime| start + runtime);
            self.tally.offered_until(now.min(end));
        }
    }

    /// Submits a command; the machine takes it.
    fn issue(&mut self, mut io: Issued<W::Command>, now: Time, again: bool) {
        (io.submitted, io.refused) = (now, None);
        let slot = self.queue.next_slot().expect("it can submit");
        let (entry, movement) = self.work.write(slot, &mut io.command, again);
        let submitted = self.queue.submit(&entry, movement, self.work.data());
        debug_assert_eq!(submitted, Some(slot));
        self.commands[usize::from(slot)] = Some(io);
        self.outstanding += 1;
        self.tally.retried += u64::from(again);
    }

    /// A command has been answered.
    #[inline]
    fn completed(&mut self, completed: Completed, now: Time) -> Result<(), HostError> {
        let Some(io) = self.commands[usize::from(completed.slot)].take() else {
            return Err(HostError::Nonsense("it answered what nobody asked".into()));
        };
        self.outstanding -= 1;
        self.fruitless = None;
        let status = completed.entry.status();
        if self.profile.is_some() {
            self.note(&completed, &io, now);
        }
        if !status.is_success()
            && let Some(state) = State::of(status)
        {
            self.work.refused(&io.command);
            self.refused(Issued { refused: Some(status), ..io }, state, status, now);
            return Ok(());
        }
        let answer = self.work.answered(&io.command, &completed)?;
        self.access.answered(now);
        let measured = self.measuring && io.counted;
        let kind = W::kind(&io.command);
        if !answer.success {
            self.tally.failed(kind, measured, now, || status.result_name().into_owned());
        } else {
            self.tally.succeeded(kind, measured, answer.bytes, io.created, io.submitted, now);
            self.tally.missed += u64::from(answer.missed && measured);
        }
        Ok(())
    }

    /// Writes the record of a command that has been answered.
    #[inline(never)]
    fn note(&mut self, completed: &Completed, io: &Issued<W::Command>, now: Time) {
        let Some(profiled) = &mut self.profile else { return };
        let Some((flight, arrived, batch)) = self.queue.ended(completed.slot) else { return };
        // A look at the clock takes longer than a record: one for every few answers that came at
        // once.
        if batch & HANDED_MASK == 0 {
            profiled.handed = self.shared.clock.wall();
        } else if batch == 1 {
            profiled.handed = now;
        }
        if !(self.measuring && io.counted) {
            return;
        }
        let status = completed.entry.status();
        let bytes = (status.is_success() && completed.received > 0).then_some(completed.received);
        profiled.profile.ended(
            flight,
            &Ended {
                kind: W::kind(&io.command),
                bytes,
                status: status.to_bits() & 0x7ff,
                created: io.created,
                submitted: io.submitted,
                arrived,
                seen: now,
                handed: profiled.handed,
                batch,
            },
        );
    }

    /// Writes the records of commands whose answers will not come.
    fn note_lost(&mut self) {
        let Some(profiled) = &mut self.profile else { return };
        let now = self.shared.clock.wall();
        for (slot, io) in (0..).zip(&self.commands) {
            let Some(io) = io.as_ref().filter(|io| self.measuring && io.counted) else { continue };
            let Some(flight) = self.queue.flight(slot) else { continue };
            profiled.profile.ended(
                flight,
                &Ended {
                    kind: W::kind(&io.command),
                    bytes: None,
                    status: HOST_PATH_ERROR,
                    created: io.created,
                    submitted: io.submitted,
                    arrived: now,
                    seen: now,
                    handed: now,
                    batch: 0,
                },
            );
        }
    }

    /// The namespace's access state did not allow a command: it is issued again, or the load ends.
    #[cold]
    fn refused(&mut self, io: Issued<W::Command>, state: State, status: Status, now: Time) {
        self.again.push_back(io);
        if self.tally.barred.is_some() || !self.access.refused(state, status, now) {
            self.tally.barred.get_or_insert(state);
            self.work.end();
            self.abandon(now);
        }
    }

    /// Whether it is as well to try again after this error: connections to a target that answers nothing, or
    /// nothing that makes sense, could be made for ever.
    fn is_patient(&mut self, error: &HostError) -> bool {
        let now = self.shared.clock.wall();
        let Some(since) = self.fruitless else {
            self.fruitless = Some(now);
            return true;
        };
        let patience = match error {
            HostError::NbdBroken(_) | HostError::Protocol(_) | HostError::Nonsense(_) => {
                BROKEN_PATIENCE.min(self.plan.reconnect)
            }
            _ => self.plan.reconnect,
        };
        if now.saturating_since(since) > patience {
            return false;
        }
        std::thread::sleep(FRUITLESS_PAUSE);
        true
    }

    /// The connection is lost: waits for another controller, connects to it, and does what
    /// was outstanding again. False if that is over.
    fn reconnect(&mut self, error: HostError) -> bool {
        let is_patient = self.is_patient(&error);
        self.tally.lost_connections += 1;
        self.tally.last_error = Some(error.to_string());
        self.note_lost();
        if let Some(profiled) = &mut self.profile {
            profiled.sampled = None;
        }
        let outstanding = self.commands.iter_mut().filter_map(Option::take);
        self.again.extend(outstanding);
        self.outstanding = 0;
        self.work.lost();
        if !is_patient {
            return false;
        }
        loop {
            let Some(Current { epoch, source }) = self.shared.link.next_after(self.epoch) else {
                return false;
            };
            self.epoch = epoch;
            let Plan { queue_id, queue_entries, bytes_max, .. } = self.plan;
            match source.open_queue(queue_id, queue_entries, bytes_max) {
                Ok(queue) => {
                    self.queue = queue;
                    self.watch(source.facts().controller_id);
                    self.last_heard = self.shared.clock.wall();
                    self.idle = 0;
                    return true;
                }
                Err(error) => self.tally.last_error = Some(error.to_string()),
            }
        }
    }
}
