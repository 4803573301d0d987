//! What is measured of the commands of a port.

use crate::clock::Times;
use crate::fault::{self, Faults};
use crate::hub::Measure;
use crate::profile::{FunctionNotes, Owner, Posted, TargetProfile, Turn};
use mynah_device::pci::{Fetched, Posting, Served, Step, Watch};
use mynah_device::{CommandKind, Completion, Now, Subsystem};
use mynah_model::io::FlowId;
use mynah_stamp::{Span, Time};
use std::collections::VecDeque;

/// Looks that are remembered.
const LOOKS_MAX: usize = 8192;

/// When doorbells were looked at, and how long before that they had been looked at last: a
/// command that a look has found came in between.
#[derive(Debug, Default)]
pub struct Looks {
    last: Time,
    /// The model's time of looks that found something, and their gaps.
    found: VecDeque<(Time, Span)>,
    /// Lateness and uncertainty of a turn's commands, for the log page.
    late: Vec<(Span, Span)>,
    /// What the last turn has answered at once.
    answered: Option<Answered>,
}

/// Commands that were answered in the turn that found them.
#[derive(Debug)]
struct Answered {
    seen: Time,
    gap: Span,
    flow: FlowId,
    /// Number of commands, and their bytes.
    reads: (u64, u64),
    writes: (u64, u64),
}

impl Looks {
    /// A look; the gap before it.
    pub fn look(&mut self, now: Now) -> Span {
        let gap = now.wall.saturating_since(self.last);
        self.last = now.wall;
        gap
    }

    /// Counts what the turn before has answered at once. That it took until now is hardly more
    /// than the truth, and saves a look at the clock.
    pub fn settle(&mut self, now: Now, measure: &mut Measure) {
        let Some(Answered { seen, gap, flow, reads, writes }) = self.answered.take() else {
            return;
        };
        let ended = (now.wall.saturating_since(seen), now.model);
        for (kind, (commands, bytes)) in [(CommandKind::Read, reads), (CommandKind::Write, writes)]
        {
            if commands > 0 {
                measure.answered_at_once(flow, kind, commands, bytes, gap, ended);
            }
        }
    }

    /// The look at `at` may find something.
    fn begin(&mut self, at: Time, gap: Span) {
        if self.found.back().is_some_and(|(last, _)| *last >= at) {
            return;
        }
        if self.found.len() == LOOKS_MAX {
            self.found.pop_front();
        }
        self.found.push_back((at, gap));
    }

    /// The look at `at` has found nothing.
    pub fn found_nothing(&mut self, at: Time) {
        self.found.pop_back_if(|(last, _)| *last == at);
    }

    /// The gap before the look that found a command which arrived at `at`. Of a look that is
    /// forgotten, that of the oldest one known.
    fn gap(&self, at: Time) -> Option<Span> {
        let index = self.found.partition_point(|(look, _)| *look < at);
        self.found.get(index).map(|(_, gap)| *gap)
    }
}

/// A profile of a turn's commands.
pub struct Profiling<'a> {
    pub profile: &'a mut TargetProfile,
    /// What is remembered of the function's commands.
    pub notes: &'a mut FunctionNotes,
    /// The host whose commands they are.
    pub owner: Owner,
}

/// Hears of a turn's commands.
pub struct Watcher<'a, C> {
    clock: &'a C,
    now: Now,
    gap: Span,
    /// Whose commands were answered at once: a function has one host.
    flow: FlowId,
    looks: &'a mut Looks,
    measure: &'a mut Measure,
    faults: Option<&'a mut Faults>,
    profiling: Option<Profiling<'a>>,
    /// A fault has cut the client off.
    cut: bool,
    /// Commands and bytes answered at once: reads, and writes.
    reads: (u64, u64),
    writes: (u64, u64),
}

impl<'a, C: Times> Watcher<'a, C> {
    /// Whoever hears of the turn that begins now, after such a gap.
    pub fn new(
        clock: &'a C,
        now: Now,
        gap: Span,
        looks: &'a mut Looks,
        measure: &'a mut Measure,
    ) -> Watcher<'a, C> {
        looks.begin(now.model, gap);
        let (reads, writes) = ((0, 0), (0, 0));
        let (flow, faults, profiling, cut) = (FlowId(0), None, None, false);
        Watcher { clock, now, gap, flow, looks, measure, faults, profiling, cut, reads, writes }
    }

    /// The same, where faults strike, and a profile is written.
    pub fn with(
        self,
        faults: Option<&'a mut Faults>,
        profiling: Option<Profiling<'a>>,
    ) -> Watcher<'a, C> {
        Watcher { faults, profiling, ..self }
    }

    /// The turn, as records have it.
    fn turn(&self) -> Turn {
        Turn { at: self.now.wall, gap: self.gap }
    }

    /// The turn is over; whether the client is to be cut off.
    pub fn finish(self, subsystem: &mut Subsystem) -> bool {
        for (late, gap) in self.looks.late.drain(..) {
            subsystem.record_lateness(late, gap);
        }
        let (reads, writes) = (self.reads, self.writes);
        if reads.0 + writes.0 > 0 {
            let (seen, gap, flow) = (self.now.wall, self.gap, self.flow);
            self.looks.answered = Some(Answered { seen, gap, flow, reads, writes });
        }
        self.cut
    }
}

impl<C: Times> Watch for Watcher<'_, C> {
    fn completed(&mut self, completion: &Completion) {
        let now = self.clock.now();
        let gap = self.looks.gap(completion.arrival).unwrap_or(self.gap);
        if !matches!(completion.kind, CommandKind::Admin | CommandKind::Fabrics) {
            self.measure.arrived(gap);
        }
        if let Some(late) = self.measure.visible(now, completion, None) {
            self.looks.late.push((late, gap));
        }
        let turn = self.turn();
        if let Some(Profiling { profile, notes, owner }) = &mut self.profiling {
            profile.posted(*owner, notes, &Posted { completion, gap, turn, at: now.wall });
        }
    }

    #[inline]
    fn hears_each(&self) -> bool {
        self.profiling.is_some()
    }

    fn fetched(&mut self, command: &Fetched<'_>) {
        let turn = self.turn();
        if let Some(Profiling { notes, .. }) = &mut self.profiling {
            notes.fetched(command, turn);
        }
    }

    fn kept_back(&mut self, queue_id: u16, command_id: u16) {
        let at = self.now.wall;
        if let Some(Profiling { notes, .. }) = &mut self.profiling {
            notes.kept_back(queue_id, command_id, at);
        }
    }

    fn step(&mut self, step: Step) {
        if let Some(Profiling { notes, .. }) = &mut self.profiling {
            notes.step(step, self.clock.now().wall);
        }
    }

    fn served(&mut self, command: &Served<'_>) {
        let turn = self.turn();
        if let Some(Profiling { profile, notes, owner }) = &mut self.profiling {
            profile.served(*owner, notes, command, turn);
        }
    }

    fn posting(&mut self) -> Posting {
        if self.cut {
            return Posting::Dropped;
        }
        match self.faults.as_mut().map_or(fault::Delivery::Sent, |faults| faults.draw()) {
            fault::Delivery::Sent => Posting::Posted,
            fault::Delivery::Dropped => Posting::Dropped,
            fault::Delivery::Delayed(by) => {
                Posting::Held(self.now.wall + self.clock.rate().wall_span(by))
            }
            fault::Delivery::Cut => {
                self.cut = true;
                Posting::Dropped
            }
        }
    }

    #[inline]
    fn plain(&mut self, flow: FlowId, kind: CommandKind, commands: u32, bytes: u64) {
        self.flow = flow;
        let side = match kind {
            CommandKind::Read | CommandKind::Retrieve => &mut self.reads,
            CommandKind::Write | CommandKind::Store => &mut self.writes,
            _ => return self.measure.answered_others(commands.into()),
        };
        side.0 += u64::from(commands);
        side.1 += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_as_uncertain_as_the_look_that_found_it() {
        let at = |us: u64| Time::from_ns(us * 1000);
        let mut looks = Looks::default();
        for (us, worked) in [(10, true), (11, false), (261, true), (262, true)] {
            let now = Now { wall: at(us), model: at(us) };
            let gap = looks.look(now);
            looks.begin(now.model, gap);
            if !worked {
                looks.found_nothing(now.model);
            }
        }
        assert_eq!(looks.gap(at(261)), Some(Span::from_us(250)));
        assert_eq!(looks.gap(at(262)), Some(Span::from_us(1)));
        assert_eq!(looks.gap(at(300)), None);
        for us in 300..300 + 2 * LOOKS_MAX as u64 {
            looks.begin(at(us), Span::from_us(1));
        }
        assert_eq!(looks.found.len(), LOOKS_MAX);
    }
}
