//! The same of a PCI function's commands: from the look that found them in their queue until their
//! completions were in the host's memory.
//!
//! The model has the link and the queues: where it is asked, what it says is the drive's stages, and the
//! rest is late. Without it commands go in batches, which have one reading of the clock for each step.

use super::{Behind, Stages, TargetProfile, head_of, kind_of};
use crate::profile::notes::{Note, Notes};
use mynah_device::Completion;
use mynah_device::pci::{Fetched, Served, Step};
use mynah_profile::Head;
use mynah_stamp::{Span, Time};

/// Whose commands a function's are.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The controller's identifier.
    pub controller_id: u16,
    /// Who its host is, as queries tell hosts apart; 0: nobody.
    pub tenant: u16,
}

/// When a function's turn began, and by how much its commands may have come before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) at: Time,
    pub(crate) gap: Span,
}

/// What is remembered of a function's commands for a profile.
#[derive(Debug, Default)]
pub struct FunctionNotes {
    /// By queue, in the order in which they were used first.
    queues: Vec<(u16, Notes)>,
    /// When the batch had its entries, its data, and its completions.
    steps: [Time; 3],
}

impl FunctionNotes {
    fn queue(&mut self, queue_id: u16) -> Option<&mut Notes> {
        self.queues.iter_mut().find(|(id, _)| *id == queue_id).map(|(_, notes)| notes)
    }

    pub(crate) fn fetched(&mut self, command: &Fetched<'_>, turn: Turn) {
        let note = Note {
            nth: command.nth,
            outstanding: command.outstanding.min(u16::MAX.into()) as u16,
            batch: command.batch.min(u16::MAX.into()) as u16,
            arrived: turn.at,
            gap: turn.gap,
            ..Note::of(command.entry)
        };
        match self.queue(command.queue_id) {
            Some(notes) => _ = notes.put(note),
            None => {
                let mut notes = Notes::default();
                notes.put(note);
                self.queues.push((command.queue_id, notes));
            }
        }
    }

    /// A command's completion has to wait, from the turn that began at `at`.
    pub(crate) fn kept_back(&mut self, queue_id: u16, command_id: u16, at: Time) {
        if let Some(note) = self.queue(queue_id).and_then(|notes| notes.get_mut(command_id))
            && note.done == Time::ZERO
        {
            note.done = at;
        }
    }

    /// The batch has come so far.
    pub(crate) fn step(&mut self, step: Step, at: Time) {
        self.steps[step as usize] = at;
    }
}

/// A completion that has been posted.
pub(crate) struct Posted<'a> {
    pub(crate) completion: &'a Completion,
    /// By how much it may have come before the look that found it.
    pub(crate) gap: Span,
    /// The turn in which the command ended.
    pub(crate) turn: Turn,
    /// When its completion was in the host's memory.
    pub(crate) at: Time,
}

impl TargetProfile {
    /// A function has posted a completion.
    pub(crate) fn posted(&mut self, owner: Owner, notes: &mut FunctionNotes, posted: &Posted<'_>) {
        let Posted { completion, turn, .. } = posted;
        let Some(kind) = kind_of(completion.kind) else { return };
        let queue = completion.entry.queue_id.get();
        let command_id = completion.entry.command_id.get();
        let Some(note) = notes.queue(queue).and_then(|notes| notes.take(command_id)) else {
            return;
        };
        let is_modelled = completion.due.is_some();
        let begin = match is_modelled {
            true => self.rate.wall(completion.arrival),
            false => note.arrived,
        };
        let mut stages = Stages::begin(self.layout, begin);
        if is_modelled {
            stages.drive(self.rate, completion);
        }
        let done = if note.done == Time::ZERO { turn.at } else { note.done };
        stages.behind(if is_modelled { Behind::Late } else { Behind::Processing }, done);
        stages.behind(Behind::Backlog, turn.at);
        stages.behind(Behind::CompletionPost, posted.at);
        let head = Head {
            connection: owner.controller_id,
            queue,
            bytes: completion.bytes,
            kind,
            status: completion.entry.status().to_bits() & 0x7ff,
            begin,
            total: stages.total(),
            ..head_of(note)
        };
        let gap = if is_modelled { posted.gap } else { note.gap };
        self.keep(owner.tenant, head, &stages, [gap.as_ps(), 0, 0, 0, 0]);
    }

    /// A function has carried out a command in a batch.
    pub(crate) fn served(
        &mut self,
        owner: Owner,
        notes: &FunctionNotes,
        of: &Served<'_>,
        turn: Turn,
    ) {
        let Some(kind) = kind_of(of.kind) else { return };
        let [fetched, moved, posted] = notes.steps;
        let mut stages = Stages::begin(self.layout, turn.at);
        stages.entry_fetch(fetched);
        stages.behind(Behind::DataTransfer, moved);
        stages.behind(Behind::CompletionPost, posted);
        let Fetched { queue_id, nth, outstanding, batch, entry } = of.fetched;
        let head = Head {
            connection: owner.controller_id,
            queue: queue_id,
            bytes: of.bytes,
            kind,
            status: of.status.to_bits() & 0x7ff,
            begin: turn.at,
            total: stages.total(),
            nth,
            outstanding: outstanding.min(u16::MAX.into()) as u16,
            batch: batch.min(u16::MAX.into()) as u16,
            ..head_of(&Note::of(entry))
        };
        self.keep(owner.tenant, head, &stages, [turn.gap.as_ps(), 0, 0, 0, 0]);
    }
}
