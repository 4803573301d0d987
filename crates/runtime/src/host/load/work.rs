//! What a job does: which commands it issues, what they move, and what is made of the answers.

use super::tally::Tally;
use crate::host::HostError;
use crate::host::transport::{Completed, Data};
use mynah_result::kind::Kind;
use mynah_stamp::Time;
use mynah_wire::nvme::{Status, SubmissionEntry};
use mynah_wire::tcp::host::Movement;

/// A command that is outstanding, or will be again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issued<C> {
    pub(super) command: C,
    pub(super) created: Time,
    pub(super) submitted: Time,
    /// Whether it is counted in the results.
    pub(super) counted: bool,
    /// It was refused with this status, and waits to be issued again.
    pub(super) refused: Option<Status>,
}

impl<C> Issued<C> {
    /// A command that was created at this time.
    pub(super) fn new(command: C, created: Time) -> Issued<C> {
        Issued { command, created, submitted: created, counted: true, refused: None }
    }

    /// A command that is not counted in the results.
    pub(super) fn uncounted(command: C, created: Time) -> Issued<C> {
        Issued { counted: false, ..Issued::new(command, created) }
    }
}

/// What there is when the next command is asked for.
pub(super) struct Turn<'a, C> {
    /// When the load began, and when its runtime is over.
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) now: Time,
    pub(super) outstanding: usize,
    /// By slot.
    pub(super) commands: &'a [Option<Issued<C>>],
    pub(super) tally: &'a mut Tally,
}

/// What a workload makes of a completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) success: bool,
    pub(super) bytes: u64,
    /// The key did not exist.
    pub(super) missed: bool,
}

/// A workload: which commands a job issues, and what it makes of their completions.
pub(super) trait Work: Send {
    type Command: Copy + Send;
    type Data: Data;

    /// Data buffers of the commands.
    fn data(&mut self) -> &mut Self::Data;
    /// Whether something is to be done before the load, which is not measured.
    fn prepares(&self) -> bool;
    /// Preparation is over and the load begins.
    fn begin(&mut self);
    /// Whether preparation failed.
    fn has_failed(&self) -> bool;
    /// The next command, if one may be issued now.
    fn next(&mut self, turn: &mut Turn<'_, Self::Command>) -> Option<Issued<Self::Command>>;
    /// When the next one is to be issued, from the start, if it has its time.
    fn next_arrival(&self) -> Option<Time>;
    /// Whether commands of the load may be to come.
    fn is_loading(&self) -> bool;
    /// Whether no more commands are to come.
    fn is_over(&self) -> bool;
    /// No more commands are to be issued.
    fn end(&mut self);
    /// The entry of a command in this slot, and what it moves. `again`: it was written before.
    fn write(
        &mut self,
        slot: u16,
        command: &mut Self::Command,
        again: bool,
    ) -> (SubmissionEntry, Movement);
    /// The kind that a command is counted as.
    fn kind(command: &Self::Command) -> Kind;
    /// A command was not carried out, and will be issued again.
    fn refused(&mut self, command: &Self::Command);
    /// A command has been completed.
    fn answered(
        &mut self,
        command: &Self::Command,
        completed: &Completed,
    ) -> Result<Answer, HostError>;
    /// The connection was lost; what was outstanding will be issued again.
    fn lost(&mut self);
    /// Adds what verification found, when everything has ended.
    fn finish(&mut self, tally: &mut Tally);
}
