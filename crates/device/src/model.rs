//! How the subsystem drives the model and the store, and how commands end.

use crate::command::{Command, Step, Work};
use crate::config::Timing;
use crate::guest::Asked;
use crate::output::{Media, Output, Queue, Reply, ReplyData, ReplyKind};
use crate::slots::NONE;
use crate::store::Ready;
use crate::subsystem::{OWN_QUEUE, Subsystem};
use mynah_model::io::{self, Control, Operation, QueueId, Request, Tag};
use mynah_stamp::Time;
use mynah_wire::nvme::{CompletionEntry, Status};
use std::collections::VecDeque;

impl Subsystem {
    /// Runs the model up to `to`, taking its completions on the way.
    #[inline]
    pub(crate) fn advance_model(&mut self, to: Time) {
        if to <= self.now.model && self.drive.next_at().is_none_or(|at| at > to) {
            return;
        }
        if self.is_held_up() {
            return;
        }
        self.run_model(to);
    }

    fn run_model(&mut self, to: Time) {
        let to = to.max(self.drive.now());
        loop {
            // A power cut must not be run over unseen.
            let limit = match self.power_cuts.front() {
                Some(&cut) if cut <= to => cut,
                _ => to,
            };
            self.drive.advance(limit);
            self.now.model = self.now.model.max(self.drive.now());
            self.take_outputs();
            if self.is_held_up() {
                break;
            }
            if self.drive.now() < limit {
                continue;
            }
            if self.power_cuts.front() == Some(&limit) {
                self.power_cuts.pop_front();
                self.power_lost();
                continue;
            }
            break;
        }
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.drive.poll() {
            match output {
                io::Output::Complete(completion) => self.model_completed(&completion),
                io::Output::Fetch { queue, .. } => {
                    self.model_asks(Asked::Fetch { queue: queue.0.into() });
                }
                io::Output::Move { tag, queue, first_sector, sectors, direction, .. } => {
                    let (queue, command) = (queue.0.into(), tag.0);
                    let asked = Asked::Move { queue, command, first_sector, sectors, direction };
                    self.model_asks(asked);
                }
            }
        }
    }

    /// Gives the model a control.
    pub(crate) fn control(&mut self, control: Control) {
        if self.config.timing == Timing::Immediate {
            return;
        }
        let at = self.now.model.max(self.drive.now());
        if let Some(tap) = &mut self.tap {
            tap.control(at, &control);
        }
        // Fails only for a queue that a power cut has taken away.
        let _ = self.drive.control(at, control);
        self.take_outputs();
    }

    /// Starts a command: its fetches and writes have been given to the store, its steps go to
    /// the model now. Ends it if nothing has to be waited for.
    pub(crate) fn start(&mut self, index: u32) {
        let modelled = self.config.timing == Timing::Modelled;
        let Some(command) = self.commands.get_mut(index) else { return };
        if !modelled {
            command.steps.clear();
        }
        match command.steps.pop_front() {
            Some(step) => {
                command.waiting += 1;
                self.next_step(index, step);
            }
            None if command.waiting == 0 => self.blocks_ready(index),
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
        let work = self.commands.get(index).map(|command| &command.work);
        let Some(&Work::ShutDown(id)) = work else { return OWN_QUEUE };
        let controller = self.controllers[usize::from(id)].as_ref();
        QueueId(controller.map_or(NONE, |controller| controller.admin_queue) as u16)
    }

    #[inline]
    pub(crate) fn step(&mut self, index: u32, step: Step) {
        let Some(command) = self.commands.get(index) else { return };
        let (slot, own) = (command.queue, command.kind == ReplyKind::Admin);
        let queue = match command.kind {
            ReplyKind::Admin => self.queue_of_own_step(index),
            _ if command.direct => QueueId(slot as u16),
            _ if self.queues.get(slot).is_some_and(|queue| queue.guest.is_some()) => {
                self.queue_of_guests_step(index, &step)
            }
            _ => QueueId(slot as u16),
        };
        let request = Request {
            tag: Tag(index),
            operation: step.operation,
            namespace: step.pool,
            sector: step.sector,
            sectors: step.sectors,
        };
        let at = self.now.model.max(self.drive.now());
        match &mut self.tap {
            Some(tap) if own => tap.own_command(at, queue, &request),
            Some(tap) => tap.command(at, queue, &request),
            None => {}
        }
        if self.drive.command(at, queue, request).is_err() {
            // The queue went with the power.
            let Some(command) = self.commands.get_mut(index) else { return };
            command.status = Status::INTERNAL_ERROR;
            command.steps.clear();
            self.part_done(index);
        }
    }

    fn model_completed(&mut self, completion: &io::Completion) {
        let index = completion.tag.0;
        let Some(command) = self.commands.get_mut(index) else { return };
        if command.direct {
            command.arrival = completion.rung;
        }
        if let Some(tap) = &mut self.tap {
            tap.completed(completion, command.arrival);
        }
        if matches!(command.work, Work::Place(_)) {
            return self.place_completed(index, completion);
        }
        if command.waiting == 1
            && command.steps.is_empty()
            && command.stages.is_none()
            && command.certain.is_none()
            && matches!(command.work, Work::None | Work::Media)
            && completion.status == io::Status::Success
            && command.status.is_success()
        {
            return self.finish_plain(index, completion);
        }
        let stages = command.stages.get_or_insert_default();
        for (stage, span) in completion.stages.iter() {
            stages.add(stage, span);
        }
        command.due = Some(completion.at);
        if completion.status != io::Status::Success && command.status.is_success() {
            command.status = status_of(completion.status);
            command.steps.clear();
        }
        match command.steps.pop_front() {
            Some(step) => self.next_step(index, step),
            None => self.part_done(index),
        }
    }

    /// The model or a job of the store is done with a command.
    pub(crate) fn part_done(&mut self, index: u32) {
        let Some(command) = self.commands.get_mut(index) else { return };
        command.waiting -= 1;
        if command.waiting == 0 {
            self.blocks_ready(index);
        }
    }

    /// Has a command wait for the store if it has to.
    #[inline]
    pub(crate) fn wait_for(&mut self, index: u32, ready: Ready) {
        if let Ready::Later(job) = ready
            && let Some(command) = self.commands.get_mut(index)
        {
            command.waiting += 1;
            self.jobs.insert(job.0, index);
        }
    }

    /// Takes what the store has finished.
    pub(crate) fn finish_jobs(&mut self) {
        while let Some((job, outcome)) = self.store.finished() {
            let Some(index) = self.jobs.remove(&job.0) else { continue };
            if let (Err(error), Some(command)) = (outcome, self.commands.get_mut(index))
                && command.status.is_success()
            {
                command.status = match error {
                    crate::StoreError::Read => Status::UNRECOVERED_READ_ERROR,
                    crate::StoreError::Write => Status::WRITE_FAULT,
                    // As Linux's own target says it of a file without room (nvmet's
                    // errno_to_nvme_status), and what its host takes for "no space left"; a retry
                    // that follows at once is expected to fail (Base 2.0, section 3.3.3.2.1, DNR).
                    crate::StoreError::Full => Status::CAPACITY_EXCEEDED.do_not_retry(),
                };
                command.steps.clear();
            }
            self.part_done(index);
        }
        self.watch_store();
    }

    /// Ends a command that has done nothing out of the ordinary: most of them.
    #[inline]
    fn finish_plain(&mut self, index: u32, completion: &io::Completion) {
        let Some(command) = self.commands.get(index) else { return };
        let Some(slot) = self.queues.get_mut(command.queue) else {
            return self.finish(index, ReplyData::None);
        };
        if command.exclusive {
            return self.finish(index, ReplyData::None);
        }
        let (is_guests, flow) = (slot.guest.is_some(), slot.flow);
        let mut entry = CompletionEntry::new(command.command_id, Status::SUCCESS, 0);
        entry.queue_head.set(slot.reply());
        self.health.count(command.opcode, command.bytes);
        let is_media = matches!(command.work, Work::Media);
        let media = Media { at: command.at, bytes: command.bytes, job: command.job };
        let (queue, kind, bytes) = (Queue(command.queue), command.kind, command.bytes);
        let (arrival, transfer, direct) = (command.arrival, command.transfer, command.direct);
        self.commands.release(index);
        // Made where it goes: it is large.
        let reply = || Reply {
            queue,
            flow,
            entry,
            data: if is_media { ReplyData::Media(media) } else { ReplyData::None },
            kind,
            bytes,
            arrival,
            due: Some(completion.at),
            stages: completion.stages,
            transfer,
            direct,
            _held: None,
        };
        match is_guests {
            false => self.outputs.push_back(Output::Reply(reply())),
            true => self.reply_to_guest(reply()),
        }
        self.health.end(self.commands.len(), self.now.wall);
    }

    /// Ends a command: replies, or forgets it if nobody listens.
    pub(crate) fn finish(&mut self, index: u32, data: ReplyData) {
        self.end(index, data);
        self.has_ended(index);
    }

    fn end(&mut self, index: u32, mut data: ReplyData) {
        let Some(command) = self.commands.remove(index) else { return };
        self.health.end(self.commands.len(), self.now.wall);
        if command.exclusive {
            self.release_exclusive(command.namespace);
        }
        let slot = if command.queue == NONE { None } else { self.queues.get_mut(command.queue) };
        let mut status = command.status;
        let (head, flow) = match slot {
            Some(slot) => (slot.reply(), slot.flow),
            None => {
                return if let Some(job) = command.job {
                    self.store.forget(job);
                };
            }
        };
        if status.is_success() {
            if let (Some(certain), Some(before)) = (&command.certain, &mut self.before) {
                before.forget(certain);
            }
            self.health.count(command.opcode, command.bytes);
            if matches!(command.work, Work::Media) {
                let media = Media { at: command.at, bytes: command.bytes, job: command.job };
                data = ReplyData::Media(media);
            }
        } else {
            if let Some(job) = command.job {
                self.store.forget(job);
            }
            status = self.command_failed(&command, status);
            data = ReplyData::None;
        }
        let mut entry = CompletionEntry::new(command.command_id, status, 0);
        entry.queue_head.set(head);
        self.push(Reply {
            queue: Queue(command.queue),
            flow,
            entry,
            data,
            kind: command.kind,
            bytes: command.bytes,
            arrival: command.arrival,
            due: command.due,
            stages: command.stages.map_or_else(Default::default, |stages| *stages),
            transfer: command.transfer,
            direct: command.direct,
            _held: command.held,
        });
    }

    #[cold]
    fn command_failed(&mut self, command: &Command, status: Status) -> Status {
        if matches!(status.code_type(), 2) && status.code() <= 0x84 {
            self.health.media_errors += 1;
        }
        let namespace = command.namespace + 1;
        self.note_error(
            command.queue,
            command.command_id,
            command.opcode,
            namespace,
            command.start,
            status,
        )
    }

    /// An empty command, to be filled in.
    #[inline]
    pub(crate) fn new_command(&self, queue: u32, kind: ReplyKind) -> Command {
        Command {
            queue,
            command_id: 0,
            opcode: 0,
            kind,
            status: Status::SUCCESS,
            namespace: 0,
            waiting: 0,
            start: 0,
            bytes: 0,
            at: 0,
            job: None,
            transfer: NONE,
            direct: false,
            exclusive: false,
            overtaken: false,
            arrival: self.now.model,
            due: None,
            stages: None,
            steps: VecDeque::new(),
            work: Work::None,
            held: None,
            certain: None,
        }
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
    }
}
