//! Queues and controllers that end: what is outstanding goes with them.

use crate::controllers::Features;
use crate::controllers::Reset;
use crate::output::{Output, Queue};
use crate::queue::State;
use crate::subsystem::Subsystem;
use mynah_model::config::{Arbitration, Weights};
use mynah_model::io::{Control, QueueId};
use std::collections::VecDeque;

impl Subsystem {
    /// Ends a queue: its connection is to be closed.
    pub(crate) fn close(&mut self, queue: u32, reason: &'static str) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        if slot.state() == State::Closing {
            return;
        }
        slot.close();
        let is_guests = slot.is_guests();
        self.abandon(queue);
        if is_guests {
            return;
        }
        self.outputs.push_back(Output::Close { queue: Queue(queue), reason });
    }

    /// Forgets everything outstanding on a queue.
    pub(crate) fn abandon(&mut self, queue: u32) {
        self.model.forget_requests(queue);
        let owner = self.queues.get(queue).map_or(0, |slot| slot.controller());
        self.abandon_completions(owner, queue);
        let mut kept = VecDeque::with_capacity(self.outputs.len());
        for output in std::mem::take(&mut self.outputs) {
            match output {
                Output::Completion(completion) if completion.queue.0 == queue => {
                    self.discard(completion)
                }
                output if output.queue().0 == queue => {}
                output => kept.push_back(output),
            }
        }
        self.outputs = kept;
        self.commands.forget_deferred(queue);
        let orphans: Vec<u32> = self
            .commands
            .iter()
            .filter(|(_, command)| command.queue() == queue)
            .map(|(index, _)| index)
            .collect();
        for index in orphans {
            if let Some(command) = self.commands.get_mut(index) {
                command.orphan();
            }
        }
        let Some(slot) = self.queues.get_mut(queue) else { return };
        if slot.abandon() {
            self.control(Control::DeleteQueue(QueueId(queue as u16)));
        }
    }

    /// Forgets the completions of a queue's commands.
    pub(crate) fn abandon_completions(&mut self, id: u16, slot: u32) {
        let Some(controller) = self.controllers.get_mut(id) else { return };
        for completion in controller.take_completions_of(slot) {
            self.discard(completion);
        }
    }

    /// Ends a controller and all its queues.
    pub(crate) fn end_controller(&mut self, id: u16, reason: &'static str) {
        let Some(controller) = self.controllers.remove(id) else { return };
        for queue in controller.queues() {
            self.close(queue, reason);
        }
        self.restore_arbitration(controller.features());
    }

    /// Controller level reset: I/O queues go, features and events are as in the beginning.
    pub(crate) fn reset_controller(&mut self, id: u16) {
        self.admin.reset_self_test(id, self.now.wall);
        let defaults = Features::of(&self.model.config().queues);
        let Some(controller) = self.controllers.get_mut(id) else { return };
        let Reset { features, io_queues, requests } = controller.reset(defaults);
        let admin = controller.admin_queue();
        for queue in io_queues {
            self.close(queue, "the controller was reset");
        }
        // Requests for events end with the reset, without completions.
        if let Some(slot) = self.queues.get_mut(admin) {
            slot.forget(requests as u32);
        }
        self.restore_arbitration(&features);
    }

    /// An I/O queue goes, and with it everything outstanding on it.
    pub(crate) fn delete_guest_queue(&mut self, slot: u32) {
        let Some(queue) = self.queues.get(slot) else { return };
        let (id, queue_id) = (queue.controller(), queue.queue_id());
        self.abandon(slot);
        self.queues.remove(slot);
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.forget_io_queue(queue_id, slot);
        }
    }

    /// CC.EN becomes 0: all queues go; features and events are as in the beginning.
    pub(crate) fn disable_guest(&mut self, id: u16) {
        let queues: Vec<u32> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.controller() == id && queue.is_guests())
            .map(|(slot, _)| slot)
            .collect();
        for slot in queues {
            self.delete_guest_queue(slot);
        }
        self.reset_controller(id);
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.forget_host();
        }
    }

    /// A controller that had these features has been reset or is gone: the model arbitrates as
    /// the drive's description says, if that was changed.
    pub(crate) fn restore_arbitration(&mut self, gone: &Features) {
        let queues = &self.model.config().queues;
        if !gone.arbitrates_unlike(queues) {
            return;
        }
        let weights = match queues.arbitration {
            Arbitration::Weighted(weights) => weights,
            Arbitration::RoundRobin => Weights { high: 1, medium: 1, low: 1 },
        };
        let burst = queues.arbitration_burst;
        self.control(Control::Arbitration { burst, weights });
    }

    /// Closes a queue behind the completion that was posted last.
    pub(crate) fn close_after_completion(&mut self, queue: u32, reason: &'static str) {
        // Closing forgets completions that have not been polled; this one is kept behind it.
        let completion = self.outputs.pop_back();
        self.close(queue, reason);
        let close = self.outputs.pop_back();
        self.outputs.extend(completion);
        self.outputs.extend(close);
    }
}
