//! The drive of a run. What goes into it is written down, if somebody wants a recording.

use super::RunError;
use crate::recording::Tape;
use mynah_model::io::{Completed, Control, QueueId, Request, Tag};
use mynah_model::keys::{Decision, KeyRequest};
use mynah_model::policy::BuiltIn;
use mynah_model::{Drive, InputError, Policies};
use mynah_stamp::Time;
use std::ops::{Deref, DerefMut};

/// A drive, and the recording of what goes into it.
pub(super) struct RecordedDrive<P: Policies = BuiltIn> {
    drive: Drive<P>,
    pub(super) tape: Option<Box<Tape>>,
    /// Seed of the run, for error messages.
    seed: u64,
}

impl<P: Policies> Deref for RecordedDrive<P> {
    type Target = Drive<P>;

    #[inline]
    fn deref(&self) -> &Drive<P> {
        &self.drive
    }
}

impl<P: Policies> DerefMut for RecordedDrive<P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Drive<P> {
        &mut self.drive
    }
}

impl<P: Policies> RecordedDrive<P> {
    pub(super) fn new(drive: Drive<P>, seed: u64) -> RecordedDrive<P> {
        RecordedDrive { drive, tape: None, seed }
    }

    pub(super) fn into_drive(self) -> Drive<P> {
        self.drive
    }

    /// Puts a request into the submission queue from which the drive fetches by itself. Not used
    /// while recording.
    #[inline]
    pub(super) fn submit(
        &mut self,
        at: Time,
        queue: QueueId,
        request: Request,
    ) -> Result<(), Box<RunError>> {
        let done = self.drive.submit(at, queue, request);
        self.checked(done)
    }

    #[inline(never)]
    pub(super) fn ring(&mut self, at: Time, queue: QueueId) -> Result<(), Box<RunError>> {
        if let Some(tape) = &mut self.tape {
            tape.ring(at, queue, 1).map_err(RunError::Recording)?;
        }
        let done = self.drive.ring(at, queue, 1);
        self.checked(done)
    }

    pub(super) fn command(
        &mut self,
        at: Time,
        queue: QueueId,
        request: Request,
    ) -> Result<(), Box<RunError>> {
        if let Some(tape) = &mut self.tape {
            tape.command(at, queue, &request).map_err(RunError::Recording)?;
        }
        let done = self.drive.command(at, queue, request);
        self.checked(done)
    }

    /// Like [`RecordedDrive::submit`], for a key-value command. Not used while recording.
    pub(super) fn submit_key(
        &mut self,
        at: Time,
        queue: QueueId,
        request: KeyRequest,
    ) -> Result<(), Box<RunError>> {
        let done = self.drive.submit_key(at, queue, request);
        self.checked(done)
    }

    /// Hands a key-value command over.
    pub(super) fn key_command(
        &mut self,
        at: Time,
        queue: QueueId,
        request: KeyRequest,
    ) -> Result<(), Box<RunError>> {
        if let Some(tape) = &mut self.tape {
            tape.key_command(at, queue, &request).map_err(RunError::Recording)?;
        }
        let done = self.drive.key_command(at, queue, request);
        self.checked(done)
    }

    /// Gives the drive the decision about a command; false if the drive does not accept it.
    pub(super) fn decided(&mut self, tag: Tag, decision: Decision) -> Result<bool, Box<RunError>> {
        let now = self.drive.now();
        if let Some(tape) = &mut self.tape {
            tape.decided(now, tag, &decision).map_err(RunError::Recording)?;
        }
        let done = self.drive.decided(now, tag, decision);
        done.map_err(|error| Box::new(RunError::Input(error, self.seed)))
    }

    /// The host has seen a completion, of a request that was `created` then.
    #[inline]
    pub(super) fn seen(
        &mut self,
        completed: Completed,
        created: Time,
    ) -> Result<(), Box<RunError>> {
        if let Some(tape) = &mut self.tape {
            let completion = self.drive.completion(completed);
            tape.completed(completion, created).map_err(RunError::Recording)?;
        }
        Ok(())
    }

    /// The host frees an entry of a completion queue.
    #[inline(always)]
    pub(super) fn free(&mut self, queue: QueueId) -> Result<(), Box<RunError>> {
        let at = self.drive.now();
        if let Some(tape) = &mut self.tape {
            tape.cq_freed(at, queue, 1).map_err(RunError::Recording)?;
        }
        let done = self.drive.cq_freed(at, queue, 1);
        self.checked(done)
    }

    pub(super) fn control(&mut self, at: Time, control: Control) -> Result<(), Box<RunError>> {
        if let Some(tape) = &mut self.tape {
            tape.control(at, &control).map_err(RunError::Recording)?;
        }
        let done = self.drive.control(at, control);
        self.checked(done)
    }

    #[inline]
    fn checked(&self, done: Result<(), InputError>) -> Result<(), Box<RunError>> {
        done.map_err(|error| Box::new(RunError::Input(error, self.seed)))
    }
}
