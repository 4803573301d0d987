//! A target's view: from the arrival of a command's last byte to the send that took the last byte of
//! its answer.
//!
//! The stages follow one another without gap or overlap. A send call lies behind the last of them:
//! on loopback the host has the bytes before the call returns. What the drive does is told by its
//! model, to the picosecond; where there is none, it is one stage.

mod function;
mod stages;

pub use function::{FunctionNotes, Owner};
pub(crate) use function::{Posted, Turn};

use super::notes::Note;
use super::query::{NOBODY, Watcher};
use super::ring::{RING_BYTES, Ring, RingError};
use crate::clock::{self, Clock, Rate};
use mynah_device::{CommandKind, Completion};
use mynah_profile::{
    Choice, ChoiceError, Chooser, Counts, Decision, Head, Header, Side, TimeBase, io_kinds,
};
use mynah_result::kind::Kind;
use mynah_stamp::{Span, Time};
use stages::{Before, Behind, Layout, Stages};
use std::io;
use std::path::Path;

/// What is beside them: by how much the command may have come earlier; how long it lay in the
/// system's buffer, while the model had it already; how long the send call took that had its answer's
/// last byte; bytes in the output before the answer; and requests for data.
const BESIDE: [&str; 5] = ["arrival_gap_ps", "unseen_ps", "send_call_ps", "bytes_ahead", "r2ts"];

/// The drive whose I/Os a profile has.
#[derive(Clone, Debug)]
pub struct Profiled {
    pub drive: String,
    /// Whether its link is Ethernet, which has stages of its own.
    pub has_link: bool,
    /// Whether it has PCI functions, which have some, too.
    pub has_functions: bool,
}

impl From<&str> for Profiled {
    /// A drive whose link is not Ethernet, and without functions.
    fn from(drive: &str) -> Profiled {
        Profiled { drive: drive.to_owned(), has_link: false, has_functions: false }
    }
}

/// An answer that has been sent.
pub(crate) struct Sent<'a> {
    pub(crate) controller_id: u16,
    pub(crate) queue_id: u16,
    /// Whose it is, by [`super::Queries::tenant`].
    pub(crate) tenant: u16,
    pub(crate) completion: &'a Completion,
    pub(crate) note: &'a Note,
    /// When the command itself came, on the model's clock, if its data had to be asked for.
    pub(crate) asked: Option<Time>,
    /// How much of the path's time is in the drive's stages: the answer left so long before it was due.
    pub(crate) credit: Span,
    /// When the send call had returned.
    pub(crate) at: Time,
}

/// Writes the records of a target's I/Os.
#[derive(Debug)]
pub struct TargetProfile {
    ring: Ring,
    header: Header,
    layout: Layout,
    /// What decides which I/Os have records; or where hosts decide that for themselves, by tenant:
    /// the I/Os of others have none.
    chooser: Chooser,
    own: Option<Vec<(u16, Chooser)>>,
    rate: Rate,
    /// By slot of the ring, whose record it has; and the next slot.
    owners: Box<[u16]>,
    slot: usize,
    /// What became of the I/Os of each tenant.
    tenants: Vec<Counts>,
    /// Who asks, and what they are told.
    pub(super) watchers: Vec<Watcher>,
    /// When it ends, unless somebody asks for more of it.
    pub(super) until: Option<Time>,
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
    pub fn create(
        path: &Path,
        drive: impl Into<Profiled>,
        rate: Rate,
    ) -> Result<TargetProfile, RingError> {
        let drive = drive.into();
        let header = header(&drive);
        let ring = Ring::create(path, &header, RING_BYTES)?;
        Ok(TargetProfile::over(ring, header, &drive, rate))
    }

    /// The same in this process's memory, until that time: of all, or of those tenants alone that
    /// are admitted.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn in_memory(
        drive: &Profiled,
        rate: Rate,
        until: Time,
        is_shared: bool,
    ) -> io::Result<TargetProfile> {
        let header = header(drive);
        let ring = Ring::in_memory(&header, RING_BYTES)?;
        let profile = TargetProfile::over(ring, header, drive, rate);
        let own = (!is_shared).then(Vec::new);
        Ok(TargetProfile { until: Some(until), own, ..profile })
    }

    fn over(ring: Ring, header: Header, of: &Profiled, rate: Rate) -> TargetProfile {
        let layout = Layout::of(of);
        let chooser =
            Chooser::new(Choice::default(), &header.kinds).expect("every I/O is a choice");
        TargetProfile {
            owners: vec![NOBODY; ring.slots() as usize].into(),
            slot: 0,
            ring,
            layout,
            header,
            chooser,
            own: None,
            rate,
            tenants: vec![],
            watchers: vec![],
            until: None,
            sends_at: Time::ZERO,
            now: Time::ZERO,
        }
    }

    /// Serving begins, on this clock; or has begun, and the profile begins.
    pub fn starts(&mut self, clock: &Clock) {
        (self.header.origin_ns, self.header.machine) = (clock.origin_ns(), clock::machine());
        self.ring.describe(&self.header);
    }

    /// Whether its lease is over.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= self.now)
    }

    /// When it ends, if nothing happens.
    pub(crate) fn ends_at(&self) -> Option<Time> {
        self.until
    }

    /// What it says of itself to a tenant.
    pub(super) fn header(&self, tenant: Option<u16>) -> Header {
        let choice = self.choice(tenant);
        Header { choice: (!choice.is_all()).then_some(choice), ..self.header.clone() }
    }

    pub(super) fn record_bytes(&self) -> usize {
        self.header.record_bytes() as usize
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// What decides which I/Os of a tenant have records.
    pub(super) fn choice(&self, tenant: Option<u16>) -> Choice {
        let own = self.own.as_ref().and_then(|own| {
            own.iter().find(|(it, _)| Some(*it) == tenant).map(|(_, chooser)| chooser)
        });
        own.unwrap_or(&self.chooser).choice().clone()
    }

    /// Tenant whose I/O a record is of, by sequence.
    pub(super) fn owner(&self, sequence: u64) -> u16 {
        let slot = (sequence - 1) % self.owners.len() as u64;
        self.owners[slot as usize]
    }

    /// What became of a tenant's I/Os; of all for `None`.
    pub(super) fn counts(&self, tenant: Option<u16>) -> Counts {
        match tenant {
            None => self.ring.counts(),
            Some(tenant) => self.tenants.get(usize::from(tenant)).copied().unwrap_or_default(),
        }
    }

    #[inline]
    fn count(&mut self, tenant: u16, decision: Decision) {
        let at = usize::from(tenant);
        if at >= self.tenants.len() {
            self.tenants.resize(at + 1, Counts::default());
        }
        let counts = &mut self.tenants[at];
        counts.completed += 1;
        match decision {
            Decision::Filtered => counts.filtered += 1,
            Decision::SampledOut => counts.sampled_out += 1,
            Decision::Record | Decision::Slow => counts.recorded += 1,
        }
    }

    /// From now on a tenant's I/Os have records: all, until it chooses.
    pub(super) fn admit(&mut self, tenant: Option<u16>) {
        if let (Some(own), Some(tenant)) = (&mut self.own, tenant)
            && !own.iter().any(|(it, _)| *it == tenant)
        {
            let all = Chooser::new(Choice::default(), &self.header.kinds);
            own.extend(all.ok().map(|all| (tenant, all)));
        }
    }

    /// From now on a tenant's I/Os have no records.
    pub(super) fn dismiss(&mut self, tenant: Option<u16>) {
        if let (Some(own), Some(tenant)) = (&mut self.own, tenant) {
            own.retain(|(it, _)| *it != tenant);
        }
    }

    /// Which I/Os of a tenant that end from now on get a record, where tenants decide for
    /// themselves; of all otherwise.
    ///
    /// # Errors
    /// If there is no such choice.
    pub(super) fn choose_for(
        &mut self,
        tenant: Option<u16>,
        choice: Choice,
    ) -> Result<(), ChoiceError> {
        let (Some(own), Some(tenant)) = (&mut self.own, tenant) else {
            return self.choose(choice);
        };
        let chooser = Chooser::new(choice, &self.header.kinds)?;
        own.retain(|(it, _)| *it != tenant);
        own.push((tenant, chooser));
        Ok(())
    }

    /// Which I/Os that end from now on get a record.
    ///
    /// # Errors
    /// If there is no such choice.
    pub fn choose(&mut self, choice: Choice) -> Result<(), ChoiceError> {
        self.chooser = Chooser::new(choice, &self.header.kinds)?;
        let choice = self.chooser.choice();
        self.header.choice = (!choice.is_all()).then(|| choice.clone());
        self.ring.describe(&self.header);
        Ok(())
    }

    /// An I/O's answer has been handed to the network.
    pub(crate) fn sent(&mut self, sent: &Sent<'_>) {
        let Sent { completion, note, .. } = sent;
        let Some(kind) = kind_of(completion.kind) else { return };
        let rate = self.rate;
        let begin = sent.asked.map_or(note.arrived, |at| rate.wall(at)).min(note.arrived);
        let left = note.done.max(note.answered).max(self.sends_at) + sent.credit;
        let end = note.arrived.max(left);
        let mut head = Head {
            connection: sent.controller_id,
            queue: sent.queue_id,
            bytes: completion.bytes,
            kind,
            status: completion.entry.status().to_bits() & 0x7ff,
            begin,
            total: end.since(begin),
            ..head_of(note)
        };
        match self.decide(sent.tenant, &head) {
            decision @ (Decision::Record | Decision::Slow) => {
                head.kept = decision == Decision::Slow;
                self.record(sent, &mut head);
            }
            decision => self.ring.skip(decision),
        }
    }

    /// Whether an I/O that has ended gets a record.
    #[inline]
    fn decide(&mut self, tenant: u16, head: &Head) -> Decision {
        let decision = match &mut self.own {
            None => self.chooser.decide(head),
            Some(own) => own
                .iter_mut()
                .find(|(it, _)| *it == tenant)
                .map_or(Decision::SampledOut, |(_, chooser)| chooser.decide(head)),
        };
        // What was counted before somebody asks does not matter to whoever does.
        if !self.watchers.is_empty() {
            self.count(tenant, decision);
        }
        decision
    }

    /// Writes the record of an I/O.
    #[inline(never)]
    fn record(&mut self, sent: &Sent<'_>, head: &mut Head) {
        let Sent { completion, note, .. } = sent;
        let rate = self.rate;
        let begin = head.begin;
        let mut stages = Stages::begin(self.layout, begin);
        let asked = note.asked.unwrap_or(begin).clamp(begin, note.arrived);
        stages.before(Before::DataBuffer, asked);
        stages.before(Before::DataRequest, note.arrived);
        let [done, answered, sends_at] =
            [note.done, note.answered, self.sends_at].map(|at| at + sent.credit);
        if completion.due.is_some() {
            stages.before(Before::Intake, rate.wall(completion.arrival));
            stages.drive(rate, completion);
            stages.behind(Behind::Late, done);
        } else {
            stages.behind(Behind::Processing, done);
        }
        stages.behind(Behind::Backlog, answered);
        stages.behind(Behind::Output, sends_at);
        // The modelled end may be some picoseconds behind the stamps, where its clock is another.
        head.total = stages.total();
        let beside = [
            note.gap.as_ps(),
            note.seen.saturating_since(note.arrived).as_ps(),
            sent.at.saturating_since(self.sends_at).as_ps(),
            note.ahead.into(),
            note.requests.into(),
        ];
        self.write(sent.tenant, head, &stages, &beside);
    }

    /// Writes a record, and tells those who listen.
    #[inline]
    fn write(&mut self, tenant: u16, head: &Head, stages: &Stages, beside: &[u64; BESIDE.len()]) {
        self.owners[self.slot] = tenant;
        self.slot += 1;
        if self.slot == self.owners.len() {
            self.slot = 0;
        }
        if !head.kept && !self.watchers.is_empty() {
            let in_drive = stages.in_drive();
            for watcher in &mut self.watchers {
                watcher.saw(tenant, head, in_drive);
            }
        }
        self.ring.record(head, stages.spans(), beside);
    }

    /// Decides, and writes the record if there is to be one.
    fn keep(&mut self, tenant: u16, head: Head, stages: &Stages, beside: [u64; BESIDE.len()]) {
        match self.decide(tenant, &head) {
            Decision::Record => self.write(tenant, &head, stages, &beside),
            Decision::Slow => self.write(tenant, &Head { kept: true, ..head }, stages, &beside),
            decision => self.ring.skip(decision),
        }
    }
}

/// What a note says of its command.
#[inline]
fn head_of(note: &Note) -> Head {
    Head {
        command_id: note.command_id,
        namespace: note.namespace,
        opcode: note.opcode,
        nth: note.nth,
        outstanding: note.outstanding,
        batch: note.batch,
        block: note.block,
        ..Head::default()
    }
}

/// What a target's profile says of itself.
pub(super) fn header(of: &Profiled) -> Header {
    let mut header = Header::new(Side::Target, &of.drive, TimeBase::Monotonic);
    header.kinds = io_kinds();
    header.stages = Layout::of(of).names();
    header.beside = BESIDE.map(str::to_owned).to_vec();
    header
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
