//! Running the model: its time, what it says on the way, and the steps of commands that go to it.

use crate::config::Timing;
use crate::model::{ModelRequest, OWN_QUEUE};
use crate::output::CommandKind;
use crate::slots::NONE;
use crate::store::Ready;
use crate::subsystem::Subsystem;
use crate::subsystem::commands::{Command, Step, Work};
use mynah_model::io::{self, Control, FlowId, Operation, QueueId, QueueKind, Request, Tag};
use mynah_stamp::Time;
use mynah_wire::nvme::Status;

impl Subsystem {
    /// Runs the model up to `to`, taking its completions on the way. Whether it has lost its power
    /// before, which has to be seen to.
    #[inline]
    pub(crate) fn advance_model(&mut self, to: Time) -> bool {
        if to <= self.now.model && self.model.drive().next_at().is_none_or(|at| at > to) {
            return false;
        }
        if self.model.is_held_up() {
            return false;
        }
        self.run_model(to)
    }

    /// [`Subsystem::advance_model`] where there is something to run.
    pub(crate) fn run_model(&mut self, to: Time) -> bool {
        let to = to.max(self.model.now());
        loop {
            // A power cut must not be run over unseen.
            let limit = match self.model.next_power_cut() {
                Some(cut) if cut <= to => cut,
                _ => to,
            };
            self.model.advance(limit);
            self.now.model = self.now.model.max(self.model.now());
            self.take_outputs();
            if self.model.is_held_up() {
                return false;
            }
            if self.model.now() < limit {
                continue;
            }
            return self.model.take_power_cut(limit);
        }
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.model.poll() {
            match output {
                io::Output::Complete(completion) => self.model_completed(&completion),
                io::Output::Fetch { queue, .. } => {
                    self.model.ask(ModelRequest::Fetch { queue: queue.0.into() });
                }
                io::Output::Decide { tag, .. } => self.decide_key(tag.0),
                io::Output::Move { tag, queue, first_sector, sectors, direction, .. } => {
                    let (queue, command) = (queue.0.into(), tag.0);
                    let request =
                        ModelRequest::Transfer { queue, command, first_sector, sectors, direction };
                    if self.commands.get(command).is_some_and(|it| it.transfer() != NONE) {
                        self.model.ask(request);
                    } else if direction == io::Direction::FromHost {
                        // It concerns nobody's memory: they came with the command.
                        self.model.data_arrived(self.now.model, command);
                    }
                }
            }
        }
    }

    /// Gives the model a control.
    pub(crate) fn control(&mut self, control: Control) {
        if self.config.timing == Timing::Immediate {
            return;
        }
        self.model.control(self.now.model, control);
        self.take_outputs();
    }

    /// Says whose I/O a transport queue carries, and has the model make a queue for it.
    pub(crate) fn create_model_queue(&mut self, queue: u32, flow: FlowId) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let modelled = self.config.timing == Timing::Modelled;
        slot.carry(flow, modelled);
        if !modelled {
            return;
        }
        let completion_entries = slot.entries().max(2);
        // What a transport carries has come already; an Ethernet drive has it come by its own port.
        let config = self.model.config();
        let kind = match config.ethernet {
            Some(_) => config.host_queues(0),
            None => QueueKind::Fetched,
        };
        self.control(Control::CreateQueue(mynah_model::io::Queue {
            id: QueueId(queue as u16),
            kind,
            flow,
            priority: Default::default(),
            completion_entries,
        }));
    }

    /// Starts a command: its fetches and writes have been given to the store, its steps go to
    /// the model now. Ends it if nothing has to be waited for.
    pub(crate) fn start(&mut self, index: u32) {
        let modelled = self.config.timing == Timing::Modelled;
        let Some(command) = self.commands.get_mut(index) else { return };
        if !modelled {
            command.forget_steps();
        }
        match command.next_step() {
            Some(step) => {
                command.wait();
                self.next_step(index, step);
            }
            None if !command.is_waiting() => self.blocks_ready(index),
            None => {}
        }
    }

    fn next_step(&mut self, index: u32, step: Step) {
        match step.operation {
            Operation::Trim => self.trim(index, step),
            _ => self.step(index, step),
        }
    }

    /// Which of the model's queues a step of an admin command goes to: what a shutdown has written
    /// is its host's doing, and goes to the controller's admin queue.
    #[cold]
    fn queue_of_own_step(&self, index: u32) -> QueueId {
        let work = self.commands.get(index).map(Command::work);
        let Some(&Work::ShutDown(id)) = work else { return OWN_QUEUE };
        let controller = self.controllers.get(id);
        QueueId(controller.map_or(NONE, |controller| controller.admin_queue()) as u16)
    }

    #[inline]
    pub(crate) fn step(&mut self, index: u32, step: Step) {
        self.look_at_moved();
        let Some(command) = self.commands.get(index) else { return };
        let (slot, own) = (command.queue(), command.kind() == CommandKind::Admin);
        let queue = match command.kind() {
            CommandKind::Admin => self.queue_of_own_step(index),
            _ if command.is_direct() => QueueId(slot as u16),
            _ if self.queues.get(slot).is_some_and(|queue| queue.is_guests()) => {
                self.queue_of_guests_step(index, &step)
            }
            _ => QueueId(slot as u16),
        };
        let request = Request {
            placement: step.placement,
            tag: Tag(index),
            operation: step.operation,
            namespace: step.pool,
            sector: step.sector,
            sectors: step.sectors,
        };
        if !self.model.command(self.now.model, queue, request, own) {
            // The queue went with the power.
            let Some(command) = self.commands.get_mut(index) else { return };
            command.set_status(Status::INTERNAL_ERROR);
            command.forget_steps();
            self.part_done(index);
        }
    }

    fn model_completed(&mut self, completion: &io::Completion) {
        let index = completion.tag.0;
        let Some(command) = self.commands.get_mut(index) else { return };
        command.rung_at(completion.rung);
        self.model.completed(completion, command.arrival());
        if matches!(command.work(), Work::Place(_)) {
            return self.place_completed(index, completion);
        }
        if command.ends_plainly_with(completion) {
            return self.finish_plain(index, completion);
        }
        command.step_took(completion, self.model.drive().polled_link_spans());
        if completion.status != io::Status::Success {
            command.fail(status_of(completion.status));
        }
        match command.next_step() {
            Some(step) => self.next_step(index, step),
            None => self.part_done(index),
        }
    }

    /// The model or a job of the store is done with a command.
    pub(crate) fn part_done(&mut self, index: u32) {
        let Some(command) = self.commands.get_mut(index) else { return };
        if command.stop_waiting() {
            self.blocks_ready(index);
        }
    }

    /// Has a command wait for the store if it has to.
    #[inline]
    pub(crate) fn wait_for(&mut self, index: u32, ready: Ready) {
        if let Ready::Later(job) = ready {
            self.commands.await_job(index, job);
        }
    }

    /// Takes what the store has finished.
    pub(crate) fn finish_jobs(&mut self) {
        while let Some((job, outcome)) = self.media.finished_job() {
            let Some(index) = self.commands.take_job(job) else { continue };
            if let (Err(error), Some(command)) = (outcome, self.commands.get_mut(index)) {
                command.fail(match error {
                    crate::StoreError::Read => Status::UNRECOVERED_READ_ERROR,
                    crate::StoreError::Write => Status::WRITE_FAULT,
                    // As Linux's own target says it of a file without room (nvmet's
                    // errno_to_nvme_status), and what its host takes for "no space left"; a retry
                    // that follows at once is expected to fail (Base 2.0, section 3.3.3.2.1, DNR).
                    crate::StoreError::Full => Status::CAPACITY_EXCEEDED.do_not_retry(),
                });
            }
            self.part_done(index);
        }
        self.watch_store();
    }
}

fn status_of(status: io::Status) -> Status {
    match status {
        io::Status::Success => Status::SUCCESS,
        io::Status::InvalidNamespace => Status::INVALID_NAMESPACE,
        io::Status::LbaOutOfRange => Status::LBA_OUT_OF_RANGE,
        io::Status::InvalidField => Status::INVALID_FIELD,
        io::Status::UnrecoveredReadError => Status::UNRECOVERED_READ_ERROR,
        io::Status::WriteFault => Status::WRITE_FAULT,
        io::Status::Aborted => Status::ABORT_REQUESTED,
        io::Status::WriteProtected => Status::NAMESPACE_WRITE_PROTECTED,
        io::Status::CapacityExceeded => Status::CAPACITY_EXCEEDED.do_not_retry(),
    }
}
