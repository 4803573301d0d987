//! A drive in virtual time as a subject.

use crate::subject::{Answer, Lost, Op, Subject};
use mynah_lab::stepper::{Stepper, StepperError};
use mynah_model::config::{Config, NamespaceKind};
use mynah_model::io::{NamespaceId, Operation, Status};
use mynah_stamp::{Span, Time};

const SECTOR_BYTES: u64 = 512;

/// As many as Linux asks for in a command without further settings.
const MAX_TRANSFER_BYTES: u32 = 1 << 20;

/// More than any method asks for at once.
const MAX_OUTSTANDING: usize = 1024;

/// Why a drive cannot be asked in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedDriveError {
    /// It cannot be built or filled.
    #[error(transparent)]
    Stepper(#[from] StepperError),
    /// It holds pairs, which have no addresses.
    #[error("its first namespace holds key-value pairs, which have no addresses to be asked about")]
    Pairs,
}

/// A drive in virtual time, that was written once, in order.
pub struct SimulatedDrive {
    stepper: Stepper,
    bytes: u64,
}

impl SimulatedDrive {
    /// Builds the drive, and lays data down on its first namespace as if the whole of it had been
    /// written once, in order.
    ///
    /// # Errors
    /// If there can be no such drive, or it has no addresses.
    pub fn filled(config: Config) -> Result<SimulatedDrive, SimulatedDriveError> {
        if config.namespaces.first().is_some_and(|it| it.kind == NamespaceKind::Pairs) {
            return Err(SimulatedDriveError::Pairs);
        }
        let mut stepper = Stepper::new(config)?;
        stepper.fill().map_err(StepperError::from)?;
        let sectors = stepper.drive().namespace_sectors(NamespaceId(1)).unwrap_or(0);
        Ok(SimulatedDrive { stepper, bytes: sectors * SECTOR_BYTES })
    }
}

impl Subject for SimulatedDrive {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_bytes(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    fn max_transfer_bytes(&self) -> u32 {
        MAX_TRANSFER_BYTES
    }

    fn max_outstanding(&self) -> usize {
        MAX_OUTSTANDING
    }

    fn can_trim(&self) -> bool {
        true
    }

    fn submit(&mut self, op: Op, offset: u64, bytes: u64) -> Result<u64, Lost> {
        let operation = match op {
            Op::Read => Operation::Read,
            Op::Write => Operation::Write,
            Op::Trim => Operation::Trim,
            Op::Flush => Operation::Flush,
        };
        let sectors = (bytes / SECTOR_BYTES) as u32;
        let tag = self.stepper.submit(operation, offset / SECTOR_BYTES, sectors);
        Ok(u64::from(tag.0))
    }

    fn next(&mut self) -> Result<Option<Answer>, Lost> {
        match self.stepper.step_whole() {
            Some(done) => Ok(Some(answer(&done))),
            None if self.stepper.outstanding() == 0 => Ok(None),
            None => Err(Lost("the drive has lost its power".to_owned())),
        }
    }

    fn pass(&mut self, span: Span) -> Result<(), Lost> {
        self.stepper.wait(span);
        Ok(())
    }

    fn now(&self) -> Time {
        self.stepper.now()
    }
}

fn answer(done: &mynah_lab::stepper::Done) -> Answer {
    Answer {
        tag: u64::from(done.request.tag.0),
        submitted: done.asked,
        completed: done.completion.at,
        is_ok: done.completion.status == Status::Success,
    }
}
