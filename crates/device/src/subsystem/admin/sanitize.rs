//! Sanitize (Base 2.0, sections 5.24 and 8.21).
//!
//! What is sanitized is deallocated, too: there is no other way for all of it to read the
//! same at no cost (SANICAP.NDI).

use super::{AdminState, Context};
use crate::controllers::events::{Kind, SANITIZE_COMPLETED, SANITIZE_COMPLETED_DEALLOCATED};
use crate::namespaces::WriteProtection;
use crate::output::CommandKind;
use crate::slots::NONE;
use crate::subsystem::admin::background::{Erasure, TaskKind};
use crate::subsystem::commands::{Overwrite, Step, Work};
use crate::subsystem::{Outcome, Subsystem};
use mynah_model::io::{NamespaceId, Operation};
use mynah_stamp::Span;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{Sanitize as Command, SanitizeAction};
use mynah_wire::nvme::log::SanitizeStatus;
use zerocopy::IntoBytes;

/// SANICAP: crypto erase (0), block erase (1), overwrite (2); deallocation cannot be left out
/// (29); nothing is changed afterwards (31:30).
pub(super) const CAPABILITIES: u32 = 0b111 | 1 << 29 | 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum State {
    #[default]
    Never,
    Done,
    UnderWay,
    /// Done, and deallocated although the host asked not to.
    DoneDeallocated,
}

impl State {
    /// As the log says it (SSTAT bits 2:0).
    fn code(self) -> u8 {
        match self {
            State::Never => 0,
            State::Done => 1,
            State::UnderWay => 2,
            State::DoneDeallocated => 4,
        }
    }

    fn from_code(code: u8) -> Option<State> {
        use State::{Done, DoneDeallocated, Never, UnderWay};
        [Never, Done, UnderWay, DoneDeallocated].into_iter().find(|state| state.code() == code)
    }
}

/// The most recent sanitize operation.
#[derive(Debug, Default)]
pub(crate) struct Sanitize {
    state: State,
    command: Command,
    /// Write commands when it ended.
    writes: u64,
}

/// Nobody knows whether something was written since.
const WRITES_UNKNOWN: u64 = u64::MAX;

impl Sanitize {
    pub(crate) fn is_under_way(&self) -> bool {
        self.state == State::UnderWay
    }

    fn erasure(&self) -> Erasure {
        match self.command.action() {
            Some(SanitizeAction::BlockErase) => Erasure::Blocks,
            Some(SanitizeAction::Overwrite) => Erasure::Overwrite(self.command.passes()),
            _ => Erasure::Forget,
        }
    }

    /// What outlives the process: state, the command, write commands.
    pub(crate) fn kept(&self) -> (u8, u32, u64) {
        (self.state.code(), self.command.to_bits(), self.writes)
    }

    /// Restores what an earlier process has kept; `None` if it cannot be.
    pub(crate) fn begun((code, command, writes): (u8, u32, u64)) -> Option<Sanitize> {
        let state = State::from_code(code)?;
        let command = Command::from_bits(command);
        let is_possible = match command.action() {
            _ if state == State::Never => true,
            None | Some(SanitizeAction::ExitFailureMode) => false,
            Some(_) => true,
        };
        is_possible.then_some(Sanitize { state, command, writes })
    }

    /// Writes may have happened that were not counted.
    pub(crate) fn forget_writes(&mut self) {
        self.writes = WRITES_UNKNOWN;
    }
}

impl AdminState {
    /// The operation is complete, after so many Write commands in all; returns the event for hosts.
    pub(crate) fn end_sanitize(&mut self, writes: u64) -> Kind {
        let (state, event) = match self.sanitize.command.keeps_allocated() {
            true => (State::DoneDeallocated, SANITIZE_COMPLETED_DEALLOCATED),
            false => (State::Done, SANITIZE_COMPLETED),
        };
        self.sanitize.state = state;
        self.sanitize.writes = writes;
        event
    }
}

impl Subsystem {
    pub(super) fn sanitize(
        &mut self,
        context: Context<'_>,
        command: Command,
    ) -> Result<Outcome, Status> {
        if command.action() == Some(SanitizeAction::ExitFailureMode) {
            // A sanitize never fails here.
            return Ok(Outcome::Done(0));
        }
        if command.keeps_allocated() && self.admin.sanitize_config == 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        for namespace in self.namespaces.iter() {
            if namespace.protection() != WriteProtection::None {
                return Err(Status::NAMESPACE_WRITE_PROTECTED.do_not_retry());
            }
            if namespace.is_formatting() {
                return Err(Status::FORMAT_IN_PROGRESS);
            }
        }
        self.admin.abort_self_test(9, self.now.wall);
        self.admin.sanitize = Sanitize { state: State::UnderWay, command, writes: 0 };
        // It has begun when that is on stable storage: from then on nothing stops it.
        self.media.outdate_description();
        let index = self.begin_whole(context.queue, context.entry, CommandKind::Admin, 0);
        let ready = self.flush_store();
        self.wait_for(index, ready);
        self.start(index);
        self.restart_sanitize();
        Ok(Outcome::Later)
    }

    pub(crate) fn restart_sanitize(&mut self) {
        for at in 0..self.namespaces.places() {
            self.overtake(at, None, Status::SANITIZE_IN_PROGRESS);
        }
        self.settle_guard();
        let span = self.erasure_time(self.admin.sanitize.erasure());
        let ends = self.admin.begin_task(self.now.wall, span, TaskKind::Sanitize);
        self.timers.set(Some(ends));
    }

    /// The operation's time is over: erases the store and the model.
    pub(crate) fn erase_sanitized(&mut self) {
        self.need_own_queue();
        let command = self.new_command(NONE, CommandKind::Admin);
        let index = self.insert(command);
        let mut steps = Vec::new();
        for at in 0..self.namespaces.places() {
            self.erase_pairs(at);
        }
        for id in (1..).map(NamespaceId) {
            let Some(sectors) = self.model.drive().namespace_sectors(id) else { break };
            let most = u64::from(u32::MAX) / self.namespaces.space().unit_sectors()
                * self.namespaces.space().unit_sectors();
            let mut sector = 0;
            while sector < sectors {
                let part = (sectors - sector).min(most) as u32;
                let operation = Operation::Trim;
                steps.push(Step {
                    operation,
                    pool: id,
                    sector,
                    sectors: part,
                    placement: Default::default(),
                });
                sector += u64::from(part);
            }
        }
        if let Some(command) = self.commands.get_mut(index) {
            steps.into_iter().for_each(|step| command.add_step(step));
            command.set_work(Work::Sanitize);
        }
        let bytes = self.media.metadata_place(self.media.data_bytes());
        let discards = vec![(0, bytes)];
        self.overwrite(index, Overwrite { parts: vec![], discards, flush: true });
        self.start(index);
    }

    pub(super) fn sanitize_page(&self) -> Vec<u8> {
        let seconds = |span: Span| (span.as_ps().div_ceil(1_000_000_000_000)) as u32;
        let state = &self.admin.sanitize;
        let progress =
            match self.admin.tasks.iter().find(|task| matches!(task.kind, TaskKind::Sanitize)) {
                Some(task) => task.progress(self.now.wall, 0xfffe),
                None if state.is_under_way() => 0xfffe,
                None => 0xffff,
            };
        let code = u32::from(state.state.code());
        let passes = match state.state {
            State::Done | State::DoneDeallocated
                if state.command.action() == Some(SanitizeAction::Overwrite) =>
            {
                state.command.passes()
            }
            _ => 0,
        };
        let untouched = !state.is_under_way() && state.writes == self.health.counts().writes;
        let mut page = SanitizeStatus::default();
        page.progress.set(progress as u16);
        page.status.set((code | passes << 3 | u32::from(untouched) << 8) as u16);
        page.dword10.set(state.command.to_bits());
        // Of an overwrite with 16 passes (Base 2.0, figure 291, ETO), the most there are.
        let overwrite = seconds(self.erasure_time(Erasure::Overwrite(16)));
        let erase = seconds(self.erasure_time(Erasure::Blocks));
        let crypto = seconds(self.erasure_time(Erasure::Forget));
        page.overwrite_seconds.set(overwrite);
        page.erase_seconds.set(erase);
        page.crypto_seconds.set(crypto);
        page.overwrite_kept_seconds.set(overwrite);
        page.erase_kept_seconds.set(erase);
        page.crypto_kept_seconds.set(crypto);
        page.as_bytes().to_vec()
    }
}
