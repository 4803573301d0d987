//! Hosts that ask for the profile while I/O goes on ([`mynah_wire::nvme::query`]).
//!
//! Whoever asks is told of the sessions of its own host alone, told by NQN, unless the target lets
//! everybody see all; and what it begins anew begins anew for itself alone. Which I/Os have records
//! it decides for its own sessions alone, then: none blinds another. Where the target has no
//! profile a query begins one, in memory, for as long as it is asked for: an asker that dies does
//! not leave it on. A profile in a file is the operator's, and goes on as it was begun.

use super::ring::Ring;
use super::target::{Profiled, TargetProfile, header};
use crate::clock::{Clock, Rate};
use mynah_device::Query;
use mynah_profile::{Choice, Counts, Head, KeepAbove, Sampling};
use mynah_result::histogram::Histogram;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::opcode::query::STORE_PROGRAM;
use mynah_wire::nvme::query::{
    self as encoding, AnswerHead, AnswerWriter, HistogramHead, INSTRUCTIONS_MAX, Instruction,
    KEEP_ABOVE_RUNNING, Occupancy, RecordsHead, Step, Switched, operation, outcome, statistic,
    switch,
};
use zerocopy::IntoBytes;

/// Most controllers that may ask at once: statistics are kept for each, for every record.
const ASKERS_MAX: usize = 8;
/// Most of them of one host, where hosts are told of their own sessions.
const ASKERS_OF_HOST_MAX: usize = 2;
/// Programs that one may have stored.
const PROGRAMS_MAX: usize = 8;
/// Longest time that a profile goes on without being asked for.
const LEASE_SECONDS_MAX: u32 = 3600;
/// Records that are looked at for one instruction, and bytes of them that are returned: the target
/// stands still meanwhile.
const LOOKED_AT_MAX: u64 = 1 << 14;
const RECORDS_BYTES_MAX: usize = 256 << 10;
/// Most hosts whose sessions are told apart; those of further ones are shown to none but who may see
/// all.
const TENANTS_MAX: usize = 1 << 10;
/// Nobody that is told apart.
pub(super) const NOBODY: u16 = 0;

/// Of which sessions whoever asks is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Sessions of the same host.
    #[default]
    Own,
    All,
}

/// What a controller that asks is told.
#[derive(Clone, Debug)]
pub(super) struct Watcher {
    controller_id: u16,
    /// Of whose I/Os; `None`: all.
    tenant: Option<u16>,
    /// Time in all, in the target, in the drive.
    times: [Histogram; 3],
    depth: QueueDepth,
    /// What had been counted when it began.
    base: Counts,
    /// Records that had been written over before it asked for them.
    lost: u64,
}

/// How many commands were outstanding when others came.
#[derive(Clone, Copy, Debug, Default)]
struct QueueDepth {
    came: u64,
    sum: u64,
    max: u64,
}

impl Watcher {
    fn new(asker: &Asker, base: Counts) -> Watcher {
        Watcher {
            controller_id: asker.controller_id,
            tenant: asker.tenant,
            times: Default::default(),
            depth: QueueDepth::default(),
            base,
            lost: 0,
        }
    }

    fn may_see(&self, tenant: u16) -> bool {
        may_see(self.tenant, tenant)
    }

    /// An I/O of the sample has ended.
    pub(super) fn saw(&mut self, tenant: u16, head: &Head, in_drive: Span) {
        if !self.may_see(tenant) {
            return;
        }
        let [all, target, drive] = &mut self.times;
        all.record(head.total);
        target.record(head.total.saturating_sub(in_drive));
        drive.record(in_drive);
        let outstanding = u64::from(head.outstanding);
        self.depth.came += 1;
        self.depth.sum += outstanding;
        self.depth.max = self.depth.max.max(outstanding);
    }

    fn times(&self, of: u8) -> Option<&Histogram> {
        Some(&self.times[place_of(of)?])
    }
}

/// Whether whoever is told of `asker`'s I/Os is told of this one's.
fn may_see(asker: Option<u16>, tenant: u16) -> bool {
    asker.is_none_or(|asker| asker == tenant && tenant != NOBODY)
}

fn place_of(of: u8) -> Option<usize> {
    match of {
        switch::ALL => Some(0),
        switch::TARGET => Some(1),
        switch::DRIVE => Some(2),
        _ => None,
    }
}

/// A controller that has queried, and its stored programs.
#[derive(Debug)]
struct Asker {
    controller_id: u16,
    tenant: Option<u16>,
    programs: Vec<Vec<Step>>,
}

/// What is known beside the profile when a query is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) now: Time,
    /// Commands outstanding of each connection, and whose they are.
    pub(crate) outstanding: &'a [(u16, u64)],
}

/// Answers the queries of all controllers.
#[derive(Debug)]
pub struct Queries {
    scope: Scope,
    drive: Profiled,
    rate: Rate,
    /// What profiles are told by, once it runs.
    clock: Option<Clock>,
    /// NQNs of hosts; their numbers are from 1.
    tenants: Vec<String>,
    askers: Vec<Asker>,
    /// Who has said which I/Os have records, of which tenant.
    chosen_by: Vec<(Option<u16>, u16)>,
    /// Number of the current profile, from 1.
    profiles: u32,
}

/// What comes of one instruction.
type Outcome = (u16, Vec<u8>);

impl Queries {
    /// Answers what is asked about a drive of this name.
    pub fn new(scope: Scope, drive: impl Into<Profiled>, rate: Rate) -> Queries {
        Queries {
            scope,
            drive: drive.into(),
            rate,
            clock: None,
            tenants: vec![],
            askers: vec![],
            chosen_by: vec![],
            profiles: 1,
        }
    }

    /// Serving begins, on this clock.
    pub fn starts(&mut self, clock: &Clock) {
        self.clock = Some(*clock);
    }

    /// Number of a host; [`NOBODY`] if there are too many hosts.
    pub(crate) fn tenant(&mut self, host_nqn: &str) -> u16 {
        match self.tenants.iter().position(|it| it == host_nqn) {
            Some(at) => at as u16 + 1,
            None if self.tenants.len() < TENANTS_MAX => {
                self.tenants.push(host_nqn.to_owned());
                self.tenants.len() as u16
            }
            None => NOBODY,
        }
    }

    /// A controller has gone. Whether the profile should go with it, since nobody asks any more.
    pub(crate) fn gone(&mut self, controller_id: u16, profile: Option<&mut TargetProfile>) -> bool {
        let at = self.askers.iter().position(|it| it.controller_id == controller_id);
        let Some(tenant) = at.map(|at| self.askers.remove(at).tenant) else { return false };
        self.chosen_by.retain(|(_, by)| *by != controller_id);
        let Some(profile) = profile else { return false };
        if !self.askers.iter().any(|it| it.tenant == tenant) {
            profile.dismiss(tenant);
        }
        profile.watchers.retain(|it| it.controller_id != controller_id);
        self.askers.is_empty() && profile.ends_at().is_some()
    }

    /// Called when a profile has ended.
    pub(crate) fn ended(&mut self) {
        self.chosen_by.clear();
        self.profiles += 1;
    }

    /// Answers a query: the result and the data of its completion.
    pub(crate) fn answer(
        &mut self,
        query: &Query,
        profile: &mut Option<Box<TargetProfile>>,
        situation: Situation<'_>,
    ) -> Result<(u32, Vec<u8>), Status> {
        let at = self.asker(query, profile.as_deref_mut());
        if query.entry.opcode == STORE_PROGRAM && !query.is_page() {
            let asker = at.and_then(|at| self.askers.get_mut(at));
            let asker = asker.ok_or(Status::COMMAND_INTERRUPTED)?;
            return Ok((asker.keep(query.program.as_deref().unwrap_or_default())?, vec![]));
        }
        let invalid = Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
        let mut writer = AnswerWriter::new(query.room as usize).ok_or(invalid)?;
        let steps: Vec<Step> = match query.is_page() {
            true => page_program(),
            false => encoding::inline(&query.entry).into_iter().map(Step::from).collect(),
        };
        let mut left = INSTRUCTIONS_MAX;
        for step in steps {
            let calls = step.instruction.operation == operation::CALL;
            let program = calls.then(|| self.program(at, step.instruction.parameter.get()));
            let steps = match program {
                None => vec![step],
                Some(Some(steps)) => steps,
                Some(None) => {
                    writer.part(step.instruction, outcome::NO_PROGRAM, &[]);
                    continue;
                }
            };
            for step in steps.into_iter().take(left) {
                left -= 1;
                let room = writer.room();
                let (outcome, data) = self.step(at, &step, profile, situation, room);
                writer.part(step.instruction, outcome, &data);
            }
        }
        let mut head =
            AnswerHead { scope: u8::from(self.scope == Scope::All), ..Default::default() };
        head.came.set(query.came.as_ps());
        head.left.set(situation.now.as_ps());
        head.profile.set(if profile.is_some() { self.profiles } else { 0 });
        Ok((0, writer.finish(head)))
    }

    /// Index of the controller that asks; `None` if there are too many.
    fn asker(&mut self, query: &Query, profile: Option<&mut TargetProfile>) -> Option<usize> {
        let id = query.controller_id;
        if let Some(at) = self.askers.iter().position(|it| it.controller_id == id) {
            return Some(at);
        }
        let tenant = match self.scope {
            Scope::All => None,
            Scope::Own => Some(self.tenant(&query.host_nqn)),
        };
        // No host keeps the others from asking.
        let same = self.askers.iter().filter(|it| it.tenant == tenant).count();
        if self.askers.len() == ASKERS_MAX || tenant.is_some() && same == ASKERS_OF_HOST_MAX {
            return None;
        }
        let asker = Asker { controller_id: id, tenant, programs: vec![] };
        if let Some(profile) = profile {
            profile.watchers.push(Watcher::new(&asker, profile.counts(tenant)));
        }
        self.askers.push(asker);
        Some(self.askers.len() - 1)
    }

    /// A program that was stored under this handle.
    fn program(&self, at: Option<usize>, handle: u32) -> Option<Vec<Step>> {
        let programs = &self.askers.get(at?)?.programs;
        programs.get((handle as usize).checked_sub(1)?).cloned()
    }

    /// Carries one instruction out.
    fn step(
        &mut self,
        at: Option<usize>,
        step: &Step,
        profile: &mut Option<Box<TargetProfile>>,
        situation: Situation<'_>,
        room: usize,
    ) -> Outcome {
        let instruction = &step.instruction;
        let Some(asker) = at.and_then(|at| self.askers.get(at)) else {
            return (outcome::DENIED, b"too many ask already".to_vec());
        };
        let (id, tenant) = (asker.controller_id, asker.tenant);
        match (instruction.operation, instruction.statistic.get()) {
            (operation::CLOCK, _) => done(situation.now.as_ps().to_le_bytes()),
            (operation::LOAD, statistic::HEADER) => {
                let (header, counts) = match profile {
                    Some(profile) => (profile.header(tenant), profile.counts(tenant)),
                    None => (header(&self.drive), Counts::default()),
                };
                done(header.to_page(0, &counts))
            }
            (operation::LOAD, statistic::SWITCH) => {
                done(self.switched(profile.as_deref(), situation.now).as_bytes())
            }
            (operation::LOAD, statistic::OCCUPANCY) if instruction.switch == switch::ALL => {
                let mine = situation.outstanding.iter().filter(|(it, _)| may_see(tenant, *it));
                let watcher = profile.as_deref_mut().and_then(|it| it.watcher(id));
                let seen = watcher.map_or(QueueDepth::default(), |it| it.depth);
                let mut occupancy = Occupancy::default();
                occupancy.now.set(mine.map(|(_, count)| count).sum());
                occupancy.came.set(seen.came);
                occupancy.sum.set(seen.sum);
                occupancy.max.set(seen.max);
                done(occupancy.as_bytes())
            }
            (operation::STORE, statistic::SWITCH) => {
                self.switch(tenant, instruction.parameter.get(), profile, situation.now)
            }
            (operation::STORE, _) => self.choose((id, tenant), step, profile.as_deref_mut()),
            (operation::LOAD | operation::RESET, _) => match profile.as_deref_mut() {
                Some(profile) if instruction.operation == operation::LOAD => {
                    load(profile, (id, tenant), instruction, room)
                }
                Some(profile) => reset(profile, (id, tenant), instruction),
                None => (outcome::OFF, vec![]),
            },
            _ => (outcome::UNKNOWN, vec![]),
        }
    }

    fn switched(&self, profile: Option<&TargetProfile>, now: Time) -> Switched {
        let mut switched = Switched::default();
        if let Some(profile) = profile {
            let left = profile.ends_at().map(|until| until.saturating_since(now));
            switched.on.set(if left.is_some() { 1 } else { 2 });
            let seconds = left.map_or(0.0, |left| left.as_secs_f64().ceil());
            switched.lease_s.set(seconds as u32);
        }
        switched.askers.set(self.askers.len() as u32);
        switched
    }

    /// Has the profile go on for so many seconds, or end.
    fn switch(
        &mut self,
        tenant: Option<u16>,
        seconds: u32,
        profile: &mut Option<Box<TargetProfile>>,
        now: Time,
    ) -> Outcome {
        if seconds > LEASE_SECONDS_MAX {
            let why = format!("a lease is at most {LEASE_SECONDS_MAX} s");
            return (outcome::INVALID, why.into_bytes());
        }
        let until = now + Span::from_secs(seconds.into());
        match profile {
            Some(profile) => match profile.until {
                // The operator's.
                None if seconds == 0 => (outcome::DENIED, vec![]),
                None => done([]),
                // Others may need it longer.
                Some(_) if seconds == 0 && self.askers.len() > 1 => (outcome::DENIED, vec![]),
                Some(_) if seconds == 0 => {
                    profile.until = Some(now);
                    done([])
                }
                Some(before) => {
                    profile.until = Some(before.max(until));
                    profile.admit(tenant);
                    done([])
                }
            },
            None if seconds == 0 => done([]),
            None => match TargetProfile::in_memory(
                &self.drive,
                self.rate,
                until,
                self.scope == Scope::All,
            ) {
                Ok(mut begun) => {
                    begun.now = now;
                    begun.admit(tenant);
                    if let Some(clock) = &self.clock {
                        begun.starts(clock);
                    }
                    let watchers = self.askers.iter().map(|it| Watcher::new(it, Counts::default()));
                    begun.watchers = watchers.collect();
                    *profile = Some(Box::new(begun));
                    done([])
                }
                Err(error) => (outcome::DENIED, error.to_string().into_bytes()),
            },
        }
    }

    /// Changes which I/Os have records.
    fn choose(
        &mut self,
        (id, tenant): (u16, Option<u16>),
        step: &Step,
        profile: Option<&mut TargetProfile>,
    ) -> Outcome {
        let instruction = &step.instruction;
        let parameter = instruction.parameter.get();
        let known = [statistic::SAMPLE, statistic::KEEP_ABOVE, statistic::CHOICE];
        if !known.contains(&instruction.statistic.get()) {
            return (outcome::UNKNOWN, vec![]);
        }
        let Some(profile) = profile else { return (outcome::OFF, vec![]) };
        if profile.ends_at().is_none() {
            return (outcome::DENIED, b"the target's own --profile decides that".to_vec());
        }
        if self.chosen_by.iter().any(|&(of, by)| of == tenant && by != id) {
            return (outcome::DENIED, b"another controller has chosen already".to_vec());
        }
        let mut choice = profile.choice(tenant);
        match instruction.statistic.get() {
            statistic::SAMPLE => {
                choice.sampling = Sampling::OneIn(parameter);
                if parameter == 1 {
                    (choice.sampling, choice.keep_above) = (Sampling::All, KeepAbove::Nothing);
                }
            }
            statistic::KEEP_ABOVE => {
                choice.keep_above = match parameter {
                    0 => KeepAbove::Nothing,
                    KEEP_ABOVE_RUNNING => KeepAbove::Running,
                    ns => KeepAbove::Ps(u64::from(ns) * 1000),
                };
            }
            _ => match Choice::from_json(&step.text) {
                Ok(wanted) => choice = wanted,
                Err(error) => return (outcome::INVALID, error.into_bytes()),
            },
        }
        match profile.choose_for(tenant, choice) {
            Ok(()) => {
                self.chosen_by.retain(|(of, _)| *of != tenant);
                self.chosen_by.push((tenant, id));
                done([])
            }
            Err(error) => (outcome::INVALID, error.to_string().into_bytes()),
        }
    }
}

impl Asker {
    /// Keeps a program; its handle.
    fn keep(&mut self, program: &[u8]) -> Result<u32, Status> {
        let invalid = Status::INVALID_FIELD.do_not_retry();
        let steps = encoding::parse_program(program).map_err(|_| invalid)?;
        // A program that is called calls none: how long it runs is known.
        if steps.iter().any(|step| step.instruction.operation == operation::CALL) {
            return Err(invalid);
        }
        // The same program has the same handle.
        if let Some(at) = self.programs.iter().position(|it| *it == steps) {
            return Ok(at as u32 + 1);
        }
        if self.programs.len() == PROGRAMS_MAX {
            self.programs.pop();
        }
        self.programs.push(steps);
        Ok(self.programs.len() as u32)
    }
}

impl TargetProfile {
    fn watcher(&mut self, controller_id: u16) -> Option<&mut Watcher> {
        self.watchers.iter_mut().find(|it| it.controller_id == controller_id)
    }
}

fn done(data: impl AsRef<[u8]>) -> Outcome {
    (outcome::DONE, data.as_ref().to_vec())
}

/// The program whose answer is the log page.
fn page_program() -> Vec<Step> {
    let general = [statistic::SWITCH, statistic::COUNTS, statistic::LOST, statistic::OCCUPANCY];
    let general = general.into_iter().map(|it| Instruction::load(switch::ALL, it, 0));
    let times = [statistic::COUNT, statistic::SUM, statistic::MIN, statistic::MAX];
    let switches = [switch::ALL, switch::TARGET, switch::DRIVE];
    let times = switches.into_iter().flat_map(|switch| {
        times.into_iter().map(move |statistic| Instruction::load(switch, statistic, 0))
    });
    general.chain(times).map(Step::from).collect()
}

/// What became of I/Os since something else had been counted.
fn since(counts: Counts, base: Counts) -> [u64; 5] {
    let both = counts.to_array().into_iter().zip(base.to_array());
    let mut since = [0; 5];
    since.iter_mut().zip(both).for_each(|(into, (now, then))| *into = now.saturating_sub(then));
    since
}

fn load(
    profile: &mut TargetProfile,
    (id, tenant): (u16, Option<u16>),
    instruction: &Instruction,
    room: usize,
) -> Outcome {
    let parameter = instruction.parameter.get();
    let wanted = instruction.statistic.get();
    if wanted == statistic::RECORDS {
        let Some((data, lost)) = records(profile, tenant, parameter, room) else {
            return (outcome::NO_ROOM, vec![]);
        };
        if let Some(watcher) = profile.watcher(id) {
            watcher.lost += lost;
        }
        return done(data);
    }
    let counts = profile.counts(tenant);
    let Some(watcher) = profile.watcher(id) else { return (outcome::DENIED, vec![]) };
    match wanted {
        statistic::COUNTS => {
            let counts = since(counts, watcher.base);
            return done(counts.map(u64::to_le_bytes).concat());
        }
        statistic::LOST => return done(watcher.lost.to_le_bytes()),
        _ => {}
    }
    let Some(times) = watcher.times(instruction.switch) else {
        return (outcome::ELSEWHERE, vec![]);
    };
    let span = |span: Option<Span>| done(span.unwrap_or_default().as_ps().to_le_bytes());
    match wanted {
        statistic::COUNT => done(times.count().to_le_bytes()),
        statistic::SUM => done(times.sum_ps().to_le_bytes()),
        statistic::MIN => span(times.min()),
        statistic::MAX => span(times.max()),
        statistic::HISTOGRAM => {
            let most = room.saturating_sub(HistogramHead::BYTES) / 16;
            let skip = parameter as usize;
            let mut rest = times.counts().skip(skip);
            let buckets: Vec<_> = rest.by_ref().take(most).collect();
            let mut head = HistogramHead::default();
            head.buckets.set(buckets.len() as u32);
            let more = rest.next().is_some();
            head.next.set(if more { (skip + buckets.len()) as u32 } else { 0 });
            let mut data = head.as_bytes().to_vec();
            for (from, count) in buckets {
                data.extend_from_slice(&from.to_le_bytes());
                data.extend_from_slice(&count.to_le_bytes());
            }
            done(data)
        }
        _ => (outcome::UNKNOWN, vec![]),
    }
}

fn reset(
    profile: &mut TargetProfile,
    (id, tenant): (u16, Option<u16>),
    instruction: &Instruction,
) -> Outcome {
    let counts = profile.counts(tenant);
    let Some(watcher) = profile.watcher(id) else { return (outcome::DENIED, vec![]) };
    let wanted = instruction.statistic.get();
    let everything = wanted == statistic::EVERYTHING;
    if !(everything || (statistic::COUNT..=statistic::COUNTS).contains(&wanted)) {
        return (outcome::UNKNOWN, vec![]);
    }
    match wanted {
        statistic::OCCUPANCY => watcher.depth = QueueDepth::default(),
        statistic::LOST => watcher.lost = 0,
        statistic::COUNTS => watcher.base = counts,
        // Their cursor is the asker's own.
        statistic::RECORDS => return (outcome::UNKNOWN, vec![]),
        // Count, sum, extremes and distribution are of the same I/Os, and begin together.
        _ if instruction.switch == switch::ALL => watcher.times = Default::default(),
        _ => match place_of(instruction.switch) {
            Some(at) => watcher.times[at] = Histogram::default(),
            None => return (outcome::ELSEWHERE, vec![]),
        },
    }
    if everything && instruction.switch == switch::ALL {
        (watcher.depth, watcher.lost, watcher.base) = (QueueDepth::default(), 0, counts);
    }
    done([])
}

/// The whole number of a record of which the low half was said, near what there is.
fn sequence_of(low: u32, ring: &Ring) -> u64 {
    let next = ring.counts().recorded + 1;
    let candidate = next & !u64::from(u32::MAX) | u64::from(low);
    match low {
        0 => ring.oldest(),
        _ if candidate > next => candidate.checked_sub(1 << 32).unwrap_or(next),
        _ => candidate,
    }
}

/// Records from one on, as far as there is room; and how many before them were missed.
fn records(
    profile: &TargetProfile,
    tenant: Option<u16>,
    from: u32,
    room: usize,
) -> Option<(Vec<u8>, u64)> {
    let ring = profile.ring();
    let record_bytes = profile.record_bytes();
    let room = room.min(RECORDS_BYTES_MAX).checked_sub(RecordsHead::BYTES)?;
    let most = room / record_bytes;
    if most == 0 {
        return None;
    }
    let wanted = sequence_of(from, ring);
    let first = wanted.max(ring.oldest());
    let end = (ring.counts().recorded + 1).min(first.saturating_add(LOOKED_AT_MAX));
    let mut data = vec![0; RecordsHead::BYTES];
    let (mut next, mut count) = (first, 0);
    while next < end && count < most {
        if may_see(tenant, profile.owner(next)) && ring.copy(next, &mut data) {
            count += 1;
        }
        next += 1;
    }
    let mut head = RecordsHead::default();
    head.first.set(first);
    head.next.set(next);
    head.lost.set(first - wanted);
    head.records.set(count as u32);
    head.record_bytes.set(record_bytes as u32);
    data[..RecordsHead::BYTES].copy_from_slice(head.as_bytes());
    Some((data, first - wanted))
}
