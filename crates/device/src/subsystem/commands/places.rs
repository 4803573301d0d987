//! Places in the model's queues in guest memory for commands whose work is done beside them.
//!
//! A command that is one operation of the model is that operation on its queue
//! ([`Command::is_direct`]). Every other command (several operations, a comparison, an error) has
//! a place of its own there ([`Operation::Other`]) from its fetch to its completion, and what
//! it needs of the drive runs beside the queue, on the controller's own.

use super::{Command, Step, Work};
use crate::config::Timing;
use crate::output::{CommandKind, Completion};
use crate::queue::{State, TransportQueue};
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use mynah_model::io::{self, NamespaceId, Operation, QueueId};
use mynah_stamp::Stage;

impl Subsystem {
    /// The entry that the model has fetched cannot be read from guest memory: its place stays
    /// empty.
    pub(crate) fn lose_fetched(&mut self, slot: u32) {
        self.open_place(slot, 0);
    }

    /// Whether the model waits for the fetch of this command; if so, the caller has to answer it.
    pub(crate) fn take_fetched(&mut self, slot: u32, command_id: u16) -> bool {
        let queue = self.queues.get_mut(slot);
        let guest = queue.and_then(TransportQueue::guest_mut);
        guest.is_some_and(|guest| guest.take_fetched(command_id))
    }

    /// Which of the model's queues a step of a guest's command goes to.
    pub(crate) fn queue_of_guests_step(&mut self, index: u32, step: &Step) -> QueueId {
        let Some(command) = self.commands.get(index) else { return QueueId(u16::MAX) };
        let (slot, id) = (command.queue(), command.command_id());
        let alone = command.steps().next().is_none()
            && match step.operation {
                Operation::Read => command.kind() == CommandKind::Read,
                Operation::Write | Operation::WriteThrough => command.kind() == CommandKind::Write,
                Operation::Trim => command.kind() == CommandKind::Trim,
                Operation::Flush => command.kind() == CommandKind::Flush,
                Operation::Other => false,
            };
        let Some(queue) = self.queues.get(slot) else { return QueueId(u16::MAX) };
        let controller = queue.controller();
        if alone && self.take_fetched(slot, id) {
            if let Some(command) = self.commands.get_mut(index) {
                command.go_direct();
            }
            return QueueId(slot as u16);
        }
        let controller = self.controllers.get(controller);
        QueueId(controller.map_or(u32::MAX, |controller| controller.admin_queue()) as u16)
    }

    /// Gives a command whose work is done beside its queue a place in it.
    pub(crate) fn open_place(&mut self, slot: u32, command_id: u16) {
        let index = self.insert_place(slot, None);
        if let Some(guest) = self.queues.get_mut(slot).and_then(TransportQueue::guest_mut) {
            guest.add_place(command_id, index);
        }
        self.answer_with_place(slot, index);
    }

    pub(crate) fn insert_place(&mut self, slot: u32, completion: Option<Box<Completion>>) -> u32 {
        let place = self.new_command(slot, CommandKind::OtherIo).in_place(completion);
        self.insert(place)
    }

    pub(crate) fn answer_with_place(&mut self, slot: u32, index: u32) {
        self.step(index, Step::whole(Operation::Other, NamespaceId(1)));
        debug_assert!(self.queues.get(slot).is_some());
    }

    /// The completion of a command of a guest's queue: goes out when the model says that the host
    /// sees it.
    #[inline]
    pub(crate) fn post_to_guest(&mut self, completion: Completion) {
        let Some(queue) = self.queues.get(completion.queue.0) else { return };
        if !completion.direct
            && self.config.timing == Timing::Modelled
            && queue.state() == State::Io
        {
            return self.post_in_place(completion);
        }
        if let Some(controller) = self.controllers.get_mut(queue.controller()) {
            controller.push_completion(completion);
        }
    }

    /// The completion of a command whose work was done beside its queue.
    #[inline(never)]
    pub(crate) fn post_in_place(&mut self, completion: Completion) {
        let (slot, id) = (completion.queue.0, completion.entry.command_id.get());
        if self.take_fetched(slot, id) {
            let index = self.insert_place(slot, Some(Box::new(completion)));
            self.answer_with_place(slot, index);
            return self.model.data_arrived(self.now.model, index);
        }
        let Some(guest) = self.queues.get_mut(slot).and_then(TransportQueue::guest_mut) else {
            return;
        };
        let Some(index) = guest.take_place(id) else {
            debug_assert!(false, "a command of a modelled queue has a place in it");
            return;
        };
        if let Some(command) = self.commands.get_mut(index) {
            command.set_work(Work::Place(Some(Box::new(completion))));
        }
        self.model.data_arrived(self.now.model, index);
    }

    /// Takes a place away that the model does not know any more.
    pub(crate) fn remove_place(&mut self, index: u32) -> Option<Command> {
        let command = self.commands.remove(index);
        self.health.end(self.commands.len(), self.now.wall);
        command
    }

    /// The model is done with a command's place in its queue.
    pub(crate) fn place_completed(&mut self, index: u32, ended: &io::Completion) {
        let Some(mut command) = self.remove_place(index) else { return };
        let Work::Place(Some(mut completion)) = command.take_work() else { return };
        if command.queue() == NONE {
            return self.discard(*completion);
        }
        // The time in its place was spent on the work beside the queue.
        let mut stages = ended.stages;
        let in_place = stages.get(Stage::DataIn);
        let worked = completion.stages.total().min(in_place);
        stages.shorten(Stage::DataIn, worked);
        let mut left = worked;
        for (stage, span) in completion.stages.iter() {
            let span = if span > left { left } else { span };
            stages.add(stage, span);
            left = left.saturating_sub(span);
        }
        completion.arrival = ended.rung;
        completion.due = Some(ended.at);
        completion.stages = stages;
        completion.direct = true;
        self.post(*completion);
    }
}
