//! The stages of a target's records, one behind the other.

use super::Profiled;
use crate::clock::Rate;
use mynah_device::Completion;
use mynah_stamp::{Span, Stage, Time};

/// Stages before the drive's: until the host is asked for data, which waits for a buffer; until the
/// last of them has come; and until the model has taken the command.
const BEFORE: [&str; 3] = ["data_buffer", "data_request", "intake"];
/// Without a model, of a PCI function: from the look that found the command until its entry was there.
const FUNCTION_BEFORE: [&str; 1] = ["entry_fetch"];
/// And behind them: the subsystem without a model; past the modelled completion until the engine has
/// come to it; until there was room for the answer; and until the send that took its last byte.
const BEHIND: [&str; 4] = ["processing", "late", "backlog", "output"];
/// Of a PCI function: without a model until the data were moved; and until the completion was in the
/// host's memory.
const FUNCTION_BEHIND: [&str; 2] = ["data_transfer", "completion_post"];

/// One of the stages before the drive's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Before {
    DataBuffer,
    DataRequest,
    Intake,
}

/// One of the stages after the drive's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Behind {
    Processing,
    Late,
    Backlog,
    Output,
    DataTransfer,
    CompletionPost,
}

const MOST: usize = BEFORE.len()
    + FUNCTION_BEFORE.len()
    + Stage::OF_DRIVE.len()
    + Stage::OF_LINK.len()
    + BEHIND.len()
    + FUNCTION_BEHIND.len();

/// Which stages there are, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    drive: usize,
    behind: usize,
    count: usize,
}

impl Layout {
    pub(super) fn of(profiled: &Profiled) -> Layout {
        let of_function = |stages: usize| if profiled.has_functions { stages } else { 0 };
        let drive = BEFORE.len() + of_function(FUNCTION_BEFORE.len());
        let link = if profiled.has_link { Stage::OF_LINK.len() } else { 0 };
        let behind = drive + Stage::OF_DRIVE.len() + link;
        let count = behind + BEHIND.len() + of_function(FUNCTION_BEHIND.len());
        Layout { drive, behind, count }
    }

    fn has_functions(self) -> bool {
        self.drive > BEFORE.len()
    }

    fn has_link(self) -> bool {
        self.behind > self.drive + Stage::OF_DRIVE.len()
    }

    /// What they are called, in their order.
    pub(super) fn names(self) -> Vec<String> {
        let of_function = |names: &'static [&'static str]| match self.has_functions() {
            true => names,
            false => &[],
        };
        let link = if self.has_link() { &Stage::OF_LINK[..] } else { &[] };
        let drive = Stage::OF_DRIVE.iter().chain(link).map(|stage| stage.name());
        let before = BEFORE.iter().chain(of_function(&FUNCTION_BEFORE)).copied();
        let behind = BEHIND.iter().chain(of_function(&FUNCTION_BEHIND)).copied();
        before.chain(drive).chain(behind).map(str::to_owned).collect()
    }
}

/// The stages of an I/O, each from the end of the one before: they add up.
#[derive(Debug)]
pub(super) struct Stages {
    layout: Layout,
    spans: [Span; MOST],
    begin: Time,
    at: Time,
}

impl Stages {
    /// Stages of an I/O that begins.
    #[inline]
    pub(super) fn begin(layout: Layout, begin: Time) -> Stages {
        Stages { layout, spans: [Span::ZERO; MOST], begin, at: begin }
    }

    /// A stage lasts until then; no time if that is over.
    #[inline]
    fn until(&mut self, stage: usize, end: Time) {
        self.spans[stage] = end.saturating_since(self.at);
        self.at = self.at.max(end);
    }

    /// A stage before the drive's lasts until then.
    #[inline]
    pub(super) fn before(&mut self, stage: Before, end: Time) {
        self.until(stage as usize, end);
    }

    /// The entry of a function's command was there.
    #[inline]
    pub(super) fn entry_fetch(&mut self, end: Time) {
        debug_assert!(self.layout.has_functions());
        self.until(BEFORE.len(), end);
    }

    /// A stage behind the drive's lasts until then.
    #[inline]
    pub(super) fn behind(&mut self, stage: Behind, end: Time) {
        debug_assert!(stage as usize <= Behind::Output as usize || self.layout.has_functions());
        self.until(self.layout.behind + stage as usize, end);
    }

    /// The drive's stages, as its model has them.
    #[inline]
    pub(super) fn drive(&mut self, rate: Rate, completion: &Completion) {
        let drive = &mut self.spans[self.layout.drive..self.layout.behind];
        let (common, of_link) = drive.split_at_mut(Stage::OF_DRIVE.len());
        common.copy_from_slice(completion.stages.of_drive());
        if let Some(link) = &completion.link {
            of_link.iter_mut().zip(link.iter()).for_each(|(into, (_, span))| *into = span);
        }
        let is_whole = completion.link.is_none() || !of_link.is_empty();
        if rate == Rate::REAL
            && is_whole
            && let Some(due) = completion.due
        {
            // What they add up to.
            let sum = due.since(completion.arrival);
            debug_assert_eq!(drive.iter().copied().sum::<Span>(), sum, "stages have gaps");
            self.at += sum;
            return;
        }
        for span in drive {
            *span = rate.wall_span(*span);
            self.at += *span;
        }
    }

    /// Sum of the drive's stages.
    pub(super) fn in_drive(&self) -> Span {
        self.spans[self.layout.drive..self.layout.behind].iter().copied().sum()
    }

    /// From the beginning to the end of the last one.
    #[inline]
    pub(super) fn total(&self) -> Span {
        self.at.since(self.begin)
    }

    #[inline]
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans[..self.layout.count]
    }
}
