//! A target's view: from the arrival of a command's last byte to the send that took the last byte of
//! its answer.
//!
//! The stages follow one another without gap or overlap. A send call lies behind the last of them:
//! on loopback the host has the bytes before the call returns. What the drive does is told by its
//! model, to the picosecond; where there is none, it is one stage.

use super::notes::Note;
use super::ring::{RING_BYTES, Ring, RingError};
use crate::clock::Rate;
use mynah_device::{CommandKind, Completion};
use mynah_lab::recorder::Kind;
use mynah_profile::{Head, Header, Side, TimeBase};
use mynah_stamp::{Span, Stage, Time};
use std::path::Path;

/// Stages before the drive's: asking the host for data until the last of them has come, and until
/// the model has taken the command.
const BEFORE: [&str; 2] = ["data_request", "intake"];
/// And behind them: the subsystem without a model; past the modelled completion until the engine has
/// come to it; until there was room in the output; and until the send that took its last byte.
const BEHIND: [&str; 4] = ["processing", "late", "backlog", "output"];
const STAGES: usize = BEFORE.len() + Stage::OF_DRIVE.len() + BEHIND.len();

/// What is none of the kinds that results have.
const OTHER: &str = "other";

/// An answer that has been sent.
pub(crate) struct Sent<'a> {
    pub(crate) controller_id: u16,
    pub(crate) queue_id: u16,
    pub(crate) completion: &'a Completion,
    pub(crate) note: &'a Note,
    /// When the command itself came, on the model's clock, if its data had to be asked for.
    pub(crate) asked: Option<Time>,
}

/// A target's profile.
#[derive(Debug)]
pub struct TargetProfile {
    ring: Ring,
    rate: Rate,
    /// When the send that is under way began.
    pub(crate) sends_at: Time,
    /// When the clock was read last.
    pub(crate) now: Time,
}

impl TargetProfile {
    /// Begins the profile of a drive in the file at `path`.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn create(path: &Path, drive: &str, rate: Rate) -> Result<TargetProfile, RingError> {
        let mut header = Header::new(Side::Target, drive, TimeBase::Monotonic);
        let kinds = Kind::ALL.iter().map(|kind| kind.name()).chain([OTHER]);
        header.kinds = kinds.map(str::to_owned).collect();
        let drive = Stage::OF_DRIVE.iter().map(|stage| stage.name());
        let stages = BEFORE.into_iter().chain(drive).chain(BEHIND);
        header.stages = stages.map(str::to_owned).collect();
        let ring = Ring::create(path, &header, RING_BYTES)?;
        Ok(TargetProfile { ring, rate, sends_at: Time::ZERO, now: Time::ZERO })
    }

    /// An I/O's answer has been handed to the network.
    pub(crate) fn sent(&mut self, sent: &Sent<'_>) {
        let Sent { completion, note, .. } = sent;
        let Some(kind) = kind_of(completion.kind) else { return };
        let rate = self.rate;
        let taken = rate.wall(completion.arrival).max(note.arrived);
        let begin = sent.asked.map_or(note.arrived, |at| rate.wall(at)).min(note.arrived);
        let mut stages = [Span::ZERO; STAGES];
        let (before, rest) = stages.split_at_mut(BEFORE.len());
        let (drive, behind) = rest.split_at_mut(Stage::OF_DRIVE.len());
        before[0] = note.arrived.since(begin);
        let mut at = note.arrived;
        if completion.due.is_some() {
            before[1] = taken.since(note.arrived);
            at = taken;
            for (into, stage) in drive.iter_mut().zip(Stage::OF_DRIVE) {
                *into = rate.wall_span(completion.stages.get(stage));
                at += *into;
            }
            behind[1] = note.done.saturating_since(at);
        } else {
            behind[0] = note.done.saturating_since(at);
        }
        at = at.max(note.done);
        behind[2] = note.answered.saturating_since(at);
        at = at.max(note.answered);
        behind[3] = self.sends_at.saturating_since(at);
        let end = at.max(self.sends_at);
        let head = Head {
            sequence: 0,
            connection: sent.controller_id,
            queue: sent.queue_id,
            command_id: note.command_id,
            namespace: note.namespace,
            bytes: completion.bytes,
            kind,
            opcode: note.opcode,
            status: completion.entry.status().to_bits() & 0x7ff,
            nth: note.nth,
            outstanding: note.outstanding,
            batch: note.batch,
            block: note.block,
            begin,
            total: end.since(begin),
        };
        self.ring.record(&head, &stages, &[]);
    }
}

/// The number of a kind of I/O; `None` of what is none. Whether a Store found its key only the model
/// knows.
fn kind_of(kind: CommandKind) -> Option<u8> {
    let kind = match kind {
        CommandKind::Fabrics | CommandKind::Admin => return None,
        CommandKind::Read => Kind::Read,
        CommandKind::Write => Kind::Write,
        CommandKind::Trim => Kind::Trim,
        CommandKind::Flush => Kind::Flush,
        CommandKind::Store => Kind::Store,
        CommandKind::Retrieve => Kind::Retrieve,
        CommandKind::Delete => Kind::Delete,
        CommandKind::Exist => Kind::Exist,
        CommandKind::List => Kind::List,
        CommandKind::OtherIo => return Some(Kind::ALL.len() as u8),
    };
    Some(kind as u8)
}
