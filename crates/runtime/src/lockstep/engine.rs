//! The loop that serves a guest in lock-step: one thread, and no clock but the guest's.

use super::account::Account;
use super::link::{Link, Lost, wait};
use super::{GuestClock, Outcome};
use crate::clock::{Clock, Rate, Still};
use crate::engine::{Control, Snapshot, SnapshotSink};
use crate::hub::{Hub, Measure, Parts};
use crate::vfio_user::{ClientEvent, Port, Say};
use mynah_device::{Now, Subsystem};
use mynah_guest_protocol::{Counts, INSTRUCTION_NS, Message};
use mynah_stamp::{Span, Time};
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// QEMU takes interrupts at once; on a machine with other things to do, that may take a while.
const PATIENCE: Span = Span::from_secs(60);
/// Between two looks whether QEMU has taken an interrupt.
const LOOK: Span = Span::from_us(20);
/// How long nothing may be heard before somebody asks whether it is time to end.
const PAUSE: Span = Span::from_secs(1);

/// So often is something tried that is due and does not happen.
const EVENTS_AT_ONCE: u32 = 1000;

/// So many events end every command that a client may wait for.
const EVENTS_ALONE: u32 = 1_000_000;

/// Why the guest does not go on.
enum End {
    /// It has ended in order, or the drive is told to.
    Over,
    Failed(String),
}

impl From<Lost> for End {
    fn from(lost: Lost) -> End {
        match lost {
            Lost::Closed => End::Failed(
                "the guest ended without a word: QEMU was killed, or has crashed".to_owned(),
            ),
            Lost::Wrong(text) => End::Failed(text),
        }
    }
}

/// Does something every so often, by the guest's clock.
struct Interval {
    every: Span,
    next: Time,
    then: SnapshotSink,
}

/// Serves one guest in lockstep with the guest's clock.
pub struct Engine {
    hub: Hub,
    port: Port,
    link: Link,
    quantum: Span,
    control: Arc<Control>,
    account: Account,
    /// The guest's time.
    now: Time,
    /// When something last happened in the drive. What the guest does after its last access, while
    /// QEMU ends, is not the same every time.
    settled: Time,
    /// The guest has reached its limit and stands still.
    is_held: bool,
    has_come: bool,
    interval: Option<Interval>,
    say: Say,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("now", &self.now).finish_non_exhaustive()
    }
}

/// The guest's time when it has executed so many instructions.
fn time(counts: &Counts) -> Time {
    Time::from_ns(counts.executed().saturating_mul(INSTRUCTION_NS))
}

/// What the guest has executed at the first block that begins then or later.
fn instructions(at: Time) -> u64 {
    at.as_ps().div_ceil(INSTRUCTION_NS * 1000)
}

impl Engine {
    /// An engine around `hub`, for the guest that comes to `port` and whose clock connects to
    /// `link`. `say` is told what the guest does wrong.
    pub fn new(
        hub: Hub,
        (port, link): (Port, Link),
        clock: &GuestClock,
        control: Arc<Control>,
        say: Say,
    ) -> Engine {
        Engine {
            hub,
            port,
            link,
            quantum: clock.quantum,
            control,
            account: Account::default(),
            now: Time::ZERO,
            settled: Time::ZERO,
            is_held: false,
            has_come: false,
            interval: None,
            say,
        }
    }

    /// Calls `then` every so often, by the guest's clock, with what has been measured.
    pub fn every(&mut self, every: Span, then: SnapshotSink) {
        self.interval = Some(Interval { every, next: Time::ZERO + every, then });
    }

    /// Serves until the guest ends, or [`Control::stop`]. Returns the subsystem, what was measured,
    /// and what came of the guest.
    pub fn run(mut self) -> (Subsystem, Measure, Outcome) {
        let end = loop {
            if let Err(end) = self.turn() {
                break end;
            }
        };
        let failure = match end {
            End::Over => None,
            End::Failed(reason) => Some(reason),
        };
        let reason = failure.as_deref().unwrap_or("it was told to end");
        self.link.refuse(reason);
        let now = self.at(self.settled);
        let Parts { subsystem, measure, .. } = self.hub.parts();
        self.port.close(now, subsystem, measure);
        self.hub.measure_mut().ended(now.model);
        let totals = self.hub.measure().totals();
        let commands = totals.reads + totals.writes + totals.others;
        let guest = self.has_come.then(|| self.account.close(commands));
        let (subsystem, measure) = self.hub.into_parts();
        let late = measure.lateness().late().filter(|late| late.max > 0.0);
        let late = late.map(|late| {
            format!("a completion was {} ns late, which must not be: this is a bug", late.max)
        });
        (subsystem, measure, Outcome { guest, failure: failure.or(late) })
    }

    fn at(&self, time: Time) -> Now {
        Now { wall: time, model: time }
    }

    /// Waits for what happens next, and deals with it.
    fn turn(&mut self) -> Result<(), End> {
        let mut all: Vec<BorrowedFd<'_>> = vec![self.control.bell(), self.port.listener()];
        let channel = self.port.channel();
        all.extend(channel);
        all.extend(self.link.descriptors());
        let most = if self.link.has_more() { Span::ZERO } else { PAUSE };
        let ready = wait(&all, most);
        let heard = channel.is_some() && ready[2];
        if ready[0] {
            self.controlled()?;
        }
        if ready[1] {
            // Out of descriptors: it is asked in later.
            let _ = self.port.accept();
        }
        self.link.accept();
        while let Some(message) = self.link.hear()? {
            match message {
                Message::Reached(counts) => {
                    self.is_held = true;
                    self.come_to(&counts);
                }
                Message::Halted(processor) => self.halted(processor)?,
                Message::Bye(_) => return Err(End::Over),
                // Nobody asked.
                _ => return Err(End::Failed("the guest's clock answers unasked".to_owned())),
            }
        }
        if heard {
            self.listen()?;
        }
        if self.is_held {
            self.let_go()?;
        }
        Ok(())
    }

    /// The guest stands still: what is due happens, and then it may go on.
    fn let_go(&mut self) -> Result<(), End> {
        let raised = self.port.raise();
        if !raised.is_empty() {
            self.have_taken(&raised)?;
        }
        self.tell();
        let quantum = self.now + self.quantum;
        let next = self.next_at().map_or(quantum, |next| next.min(quantum));
        let limit = instructions(next).max(instructions(self.now) + 1);
        self.is_held = false;
        Ok(self.link.run(limit)?)
    }

    /// Waits until QEMU has made interrupts of these signals: it has read the descriptors, and has
    /// answered something that it was asked afterwards.
    fn have_taken(&mut self, raised: &[u16]) -> Result<(), End> {
        let (clock, deadline) = (Clock::start(Rate::REAL), Time::ZERO + PATIENCE);
        let mut looks = 0;
        while self.port.has_untaken(raised) {
            looks += 1;
            if clock.wall() > deadline {
                let text = "QEMU has not taken an interrupt for a minute; it may be stopped";
                return Err(End::Failed(text.to_owned()));
            }
            match looks < 64 {
                true => std::thread::yield_now(),
                false => drop(wait(&[], LOOK)),
            }
        }
        self.port.knock();
        loop {
            let Some(channel) = self.port.channel() else { return Ok(()) };
            wait(&[channel], PAUSE);
            if self.port.receive_one() && self.deal()? == ClientEvent::Knocked {
                return Ok(());
            }
            if clock.wall() > deadline {
                let text = "QEMU has not answered for a minute; it may be stopped";
                return Err(End::Failed(text.to_owned()));
            }
        }
    }

    /// The client has something to say. It waits for the answer, and with it the guest.
    fn listen(&mut self) -> Result<(), End> {
        if !self.port.receive_one() {
            return Ok(());
        }
        if self.link.is_connected() {
            let counts = self.link.ask()?;
            self.come_to(&counts);
            self.settle(self.now);
            self.account.accessed();
        }
        self.deal().map(|_| ())
    }

    /// Handles what the client has sent, at the present time.
    fn deal(&mut self) -> Result<ClientEvent, End> {
        let now = self.at(self.now);
        let Parts { subsystem, measure, .. } = self.hub.parts();
        let was_in_use = self.port.is_in_use();
        let heard = self.port.deal(now, subsystem, measure, &mut self.say);
        if !was_in_use && self.port.is_in_use() && !self.link.is_connected() {
            let text = "a guest uses the drive without a clock: QEMU needs the -plugin that was \
                        printed at the start";
            return Err(End::Failed(text.to_owned()));
        }
        match heard {
            ClientEvent::Mark(number) => self.account.mark(number),
            ClientEvent::Posted => {
                let text = "QEMU does not wait for the drive when the guest writes to it: the device \
                            needs x-no-posted-writes=true";
                return Err(End::Failed(text.to_owned()));
            }
            _ => {}
        }
        self.settle(self.now);
        // A client that takes memory back waits for the commands that use it, and its guest waits for
        // the client: the drive goes on alone.
        let mut left = EVENTS_ALONE;
        while self.port.is_waiting()
            && left > 0
            && let Some(next) = self.next_at()
        {
            left -= 1;
            self.now = next.max(self.now);
            self.settle(self.now);
        }
        self.port.answer();
        Ok(heard)
    }

    /// A processor of the guest halts.
    fn halted(&self, processor: u32) -> Result<(), End> {
        if !self.port.is_in_use() {
            return Ok(());
        }
        Err(End::Failed(format!(
            "processor {processor} of the guest halts, and time would pass that no instruction counts: \
             its kernel needs idle=poll on its command line"
        )))
    }

    /// The guest has come so far: the model comes there, event by event.
    fn come_to(&mut self, counts: &Counts) {
        self.has_come = true;
        let now = time(counts).max(self.now);
        // What is due and does not happen is not waited for for ever.
        let mut left = EVENTS_AT_ONCE;
        while let Some(next) = self.next_at()
            && next <= now
            && left > 0
        {
            left = if next > self.now { EVENTS_AT_ONCE } else { left - 1 };
            self.now = next.max(self.now);
            self.settle(self.now);
        }
        self.now = now;
        let outstanding = self.port.outstanding(self.hub.subsystem());
        self.account.has_come(counts, outstanding > 0);
    }

    /// When something happens by itself.
    fn next_at(&self) -> Option<Time> {
        [self.hub.next_at(), self.port.next_at()].into_iter().flatten().min()
    }

    /// Does all that is due at this time.
    fn settle(&mut self, time: Time) {
        let now = self.at(time);
        self.settled = time;
        let mut left = EVENTS_AT_ONCE;
        while left > 0 {
            let worked = self.port.turn(now, &Still(time), self.hub.parts(), &mut self.say);
            self.hub.advance(now);
            if let Some(warning) = self.hub.take_warning() {
                (self.say)(&warning);
            }
            let is_due = self.next_at().is_some_and(|next| next <= time);
            match worked {
                true => left = EVENTS_AT_ONCE,
                false if is_due => left -= 1,
                false => break,
            }
        }
        let outstanding = self.port.outstanding(self.hub.subsystem());
        self.account.has_io(outstanding > 0);
    }

    /// Handles what [`Control`] asks for.
    fn controlled(&mut self) -> Result<(), End> {
        self.control.silence();
        if self.control.stopping.load(Ordering::Acquire) {
            return Err(End::Over);
        }
        self.control.answer_wanted(self.hub.measure(), || self.snapshot());
        Ok(())
    }

    /// Reports what was measured, if the interval is over.
    fn tell(&mut self) {
        let Some(interval) = &mut self.interval else { return };
        if self.now < interval.next {
            return;
        }
        interval.next = (interval.next + interval.every).max(self.now);
        let snapshot = self.snapshot();
        let taken = self.hub.measure_mut().take_interval();
        if let Some(interval) = &mut self.interval {
            (interval.then)(Snapshot { interval: Some(taken), ..snapshot });
        }
    }

    /// A snapshot, without the distributions.
    fn snapshot(&self) -> Snapshot {
        let measure = self.hub.measure();
        Snapshot {
            now: self.at(self.now),
            connections: usize::from(self.port.is_attached()),
            half_open: 0,
            refused: self.port.refused(),
            refusals: self.hub.quotas().refusals(),
            starvations: 0,
            outstanding: self.port.outstanding(self.hub.subsystem()),
            stall: self.hub.stall(),
            stalls: measure.stalls().count(),
            totals: measure.totals(),
            counters: self.hub.subsystem().drive().counters(),
            distributions: None,
            interval: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_guest_protocol::Processor;

    #[test]
    fn a_limit_is_never_before_its_time() {
        for ps in [0, 1, 3999, 4000, 4001, 123_456_789] {
            let executed = instructions(Time::from_ps(ps));
            let processors = vec![Processor { executed, idle: 0 }];
            let reached = time(&Counts { current: 0, processors });
            assert!(reached.as_ps() >= ps && reached.as_ps() < ps + 4000, "{ps}");
        }
    }
}
