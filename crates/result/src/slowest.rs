//! The slowest commands, one by one: when they came, which stage took longest, and who had what they
//! waited for there.

use crate::document::{LongestStage, LongestWait, SlowCommand, SlowStage, holder_name};
use crate::kind::Kind;
use mynah_model::LongWait;
use mynah_model::io::{Completion, FlowId};
use mynah_model::stats::Resource;
use mynah_stamp::{LinkSpans, Span, Stage, Time};

/// How many commands results have.
const COMMANDS: usize = 10;

/// The items with the longest durations of all that were offered, the longest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Longest<T> {
    most: usize,
    entries: Vec<(Span, T)>,
}

impl<T> Longest<T> {
    /// Keeps the `most` longest.
    pub fn new(most: usize) -> Longest<T> {
        Longest { most, entries: vec![] }
    }

    /// The shortest duration that is kept, once there are `most`; only longer ones are added then.
    pub(crate) fn least(&self) -> Option<Span> {
        self.entries.last().filter(|_| self.entries.len() == self.most).map(|(span, _)| *span)
    }

    /// Adds an item if it is one of the longest; of two that took as long, the earlier one comes
    /// first. True if it was added.
    pub fn offer(&mut self, span: Span, make: impl FnOnce() -> T) -> bool {
        let at = self.entries.partition_point(|(other, _)| *other >= span);
        if at >= self.most {
            return false;
        }
        self.entries.truncate(self.most - 1);
        self.entries.insert(at, (span, make()));
        true
    }

    /// With their durations, the longest first.
    pub fn iter(&self) -> impl Iterator<Item = &(Span, T)> {
        self.entries.iter()
    }
}

/// A command, as it went through the drive.
#[derive(Clone, Copy, Debug)]
struct Slow {
    flow: usize,
    kind: Kind,
    bytes: u32,
    created: Time,
    completion: Completion,
    link: Option<LinkSpans>,
    waited: Option<LongWait>,
}

impl Slow {
    /// The stages that it spent time in, in their order.
    fn stages(&self) -> impl Iterator<Item = (Stage, Span)> {
        let in_host = (Stage::HostQueue, self.completion.rung.saturating_since(self.created));
        let of_drive =
            self.completion.stages.iter().filter(|(stage, _)| *stage != Stage::HostQueue);
        let of_link = self.link.iter().flat_map(LinkSpans::iter);
        let all = std::iter::once(in_host).chain(of_drive).chain(of_link);
        all.filter(|(_, span)| !span.is_zero())
    }

    fn longest_stage(&self) -> Option<(Stage, Span)> {
        self.stages().max_by_key(|(stage, span)| (*span, Stage::COUNT - *stage as usize))
    }

    /// Whether that was the wait in its longest stage, or a part of it: of other commands of the flow
    /// none has waited for just as long, to the picosecond, in the same time.
    fn has_waited(&self, wait: &LongWait, stage: Stage, span: Span) -> bool {
        let in_time = wait.ended <= self.completion.at && wait.ended >= self.completion.rung;
        let of_flow = wait.victim == FlowId(self.flow as u16);
        in_time && of_flow && wait.whole == span && waits_of(stage).contains(&wait.resource)
    }
}

/// What is waited for in a stage.
fn waits_of(stage: Stage) -> &'static [Resource] {
    match stage {
        Stage::CacheWait => &[Resource::CacheSpace],
        Stage::Mapping => &[Resource::Mapping],
        Stage::BlockWait => &[Resource::FreeBlock],
        // A die that is free may be kept from starting by its channel.
        Stage::DieWait => &[Resource::Die, Resource::Channel],
        Stage::ChannelWait => &[Resource::Channel],
        _ => &[],
    }
}

/// The slowest commands that have succeeded.
#[derive(Clone, Debug)]
pub(crate) struct Slowest {
    /// Only commands with a longer latency are kept.
    least: Span,
    longest: Longest<Slow>,
}

impl Default for Slowest {
    fn default() -> Self {
        Slowest { least: Span::ZERO, longest: Longest::new(COMMANDS) }
    }
}

impl Slowest {
    /// Whether a command that took so long is one of them.
    #[inline(always)]
    pub(crate) fn takes(&self, all: Span) -> bool {
        all > self.least
    }

    /// Adds a command that is one of the slowest: flow, kind, and bytes.
    pub(crate) fn take(
        &mut self,
        (flow, kind, bytes): (usize, Kind, u32),
        created: Time,
        (completion, link): (&Completion, Option<&LinkSpans>),
    ) {
        let created = created.min(completion.rung);
        let (completion, link) = (*completion, link.copied());
        let slow = Slow { flow, kind, bytes, created, completion, link, waited: None };
        self.longest.offer(completion.at.since(created), || slow);
        self.least = self.longest.least().unwrap_or(Span::ZERO);
    }

    /// The drive's long waits, the latest first, after `completion` was taken; returns how long waits
    /// have to be from now on for one of them to explain half of a command that will be kept.
    pub(crate) fn add_wait<'a>(
        &mut self,
        flow: usize,
        completion: &Completion,
        waits: impl Iterator<Item = &'a LongWait>,
    ) -> Span {
        let slowest = self.longest.entries.iter_mut().map(|(_, slow)| slow);
        if let Some(slow) = slowest.into_iter().find(|slow| slow.is(flow, completion))
            && let Some((stage, span)) = slow.longest_stage()
        {
            let candidates = waits.filter(|wait| slow.has_waited(wait, stage, span));
            slow.waited = candidates.max_by_key(|wait| wait.wait).copied();
        }
        Span::from_ps(self.least.as_ps() / 2)
    }

    /// Drops the commands of a flow, at the end of its ramp.
    pub(crate) fn forget(&mut self, flow: usize) {
        self.longest.entries.retain(|(_, slow)| slow.flow != flow);
        self.least = self.longest.least().unwrap_or(Span::ZERO);
    }

    /// Adds the commands of the time right after this.
    pub(crate) fn append(&mut self, other: Slowest) {
        for (span, slow) in other.longest.entries {
            self.longest.offer(span, || slow);
        }
        self.least = self.longest.least().unwrap_or(Span::ZERO);
    }

    /// The slowest commands as results have them.
    pub(crate) fn told(&self, names: &[String]) -> Vec<SlowCommand> {
        self.longest.iter().map(|(all, slow)| slow.told(*all, names)).collect()
    }
}

impl Slow {
    fn is(&self, flow: usize, completion: &Completion) -> bool {
        self.flow == flow && self.completion == *completion
    }

    fn told(&self, all: Span, names: &[String]) -> SlowCommand {
        let longest = self.longest_stage().map(|(stage, span)| LongestStage {
            stage: stage.name().to_owned(),
            ns: span.as_ns_f64(),
            waited_for: self.waited.map(|wait| LongestWait {
                resource: wait.resource.name().to_owned(),
                ns: wait.wait.as_ns_f64(),
                holder: holder_name(wait.holder, names),
                held_ns: wait.held.as_ns_f64(),
            }),
        });
        let stages = self.stages().map(|(stage, span)| SlowStage {
            stage: stage.name().to_owned(),
            ns: span.as_ns_f64(),
        });
        SlowCommand {
            flow: names.get(self.flow).cloned().unwrap_or_default(),
            kind: self.kind.name().to_owned(),
            bytes: self.bytes.into(),
            created_ns: self.created.since(Time::ZERO).as_ns_f64(),
            lat_ns: all.as_ns_f64(),
            longest,
            stages: stages.collect(),
        }
    }
}
