//! A host that asks a target for its profile, on a queue of its own ([`mynah_wire::nvme::query`]).

use super::admin::{self, Data};
use super::{Connection, Controller, HostError, Options};
use crate::clock::{Clock, Rate};
use crate::profile::Ring;
use mynah_profile::{Choice, Counts, HEAD_WORDS, Head, Header, Side, TimeBase};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode::query::{RUN, STORE_PROGRAM};
use mynah_wire::nvme::query::{
    AnswerHead, Instruction, Part, RecordsHead, Step, operation, outcome, parse_answer,
    program_bytes, put_inline, statistic, switch,
};
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::collections::VecDeque;
use std::time::Duration;
use zerocopy::FromBytes;

mod interval;

pub use interval::Interval;

/// Entries of the queue: one query at a time.
const ENTRIES: u16 = 8;
/// Bytes of an answer at first, and at most. The target fills answers up.
const ROOM_MIN: usize = 8 << 10;
const ROOM_MAX: usize = 256 << 10;
/// Seconds that a profile goes on at the target after the last query.
const LEASE_SECONDS: u32 = 10;
/// Polls in a row for records beyond those asked for, before other work has its turn.
const LOOKS_MAX: usize = 64;
/// Exchanges that tell how the two clocks are related.
const EXCHANGES_MAX: usize = 256;
const WHAT: &str = "asking for the profile";

/// When a query left, came, was answered and was back: the outer two on this host's clock, the
/// inner two on the target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub sent: Time,
    pub came: Time,
    pub left: Time,
    pub back: Time,
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    /// When query and answer left and came.
    pub exchange: Exchange,
}

impl Answer {
    /// What it begins with, and its parts.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(&self) -> Result<(AnswerHead, Vec<Part<'_>>), HostError> {
        parse_answer(&self.bytes).map_err(|error| nonsense(format!("its answer: {error}")))
    }
}

fn nonsense(what: String) -> HostError {
    HostError::Nonsense(what)
}

/// A host that asks a target for its profile.
pub struct ProfileClient {
    controller: Controller,
    connection: Connection,
    clock: Clock,
    timeout: Duration,
    room_max: usize,
    keep_alive: Span,
    last_keep_alive: Time,
}

impl ProfileClient {
    /// Connects a controller of its own, with a queue, for it.
    ///
    /// # Errors
    /// If that fails.
    pub fn connect(options: &Options) -> Result<ProfileClient, HostError> {
        let mut controller = Controller::connect(options)?;
        controller.request_queues(1)?;
        let association = controller.association();
        let connection = association.open_queue(1, ENTRIES)?;
        let room_max = usize::try_from(association.transfer_bytes_max).unwrap_or(usize::MAX);
        let keep_alive = Span::from_ns(options.keep_alive.as_nanos() as u64 / 2);
        Ok(ProfileClient {
            controller,
            connection,
            clock: Clock::start(Rate::REAL),
            timeout: options.timeout,
            room_max: room_max.min(ROOM_MAX),
            keep_alive,
            last_keep_alive: Time::ZERO,
        })
    }

    /// The clock of [`Exchange`]'s outer times.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Asks up to three things, for an answer of so many bytes.
    ///
    /// # Errors
    /// If there is none.
    pub fn ask(&mut self, all: &[Instruction], room: usize) -> Result<Answer, HostError> {
        let mut entry = SubmissionEntry { opcode: RUN, ..SubmissionEntry::default() };
        entry.namespace_id.set(1);
        put_inline(&mut entry, all);
        let sent = self.clock.wall();
        let data = Data::Back(room.min(self.room_max));
        let (_, bytes) = self.command(&entry, data)?;
        let back = self.clock.wall();
        let mut exchange = Exchange { sent, came: Time::ZERO, left: Time::ZERO, back };
        if let Ok((head, _)) = parse_answer(&bytes) {
            exchange.came = Time::from_ps(head.came.get());
            exchange.left = Time::from_ps(head.left.get());
        }
        Ok(Answer { bytes, exchange })
    }

    /// Stores a program; what calls it.
    ///
    /// # Errors
    /// If the target does not take it.
    pub fn store(&mut self, steps: &[Step]) -> Result<Instruction, HostError> {
        let mut entry = SubmissionEntry { opcode: STORE_PROGRAM, ..SubmissionEntry::default() };
        entry.namespace_id.set(1);
        let program = program_bytes(steps);
        let (handle, _) = self.command(&entry, Data::Out(&program))?;
        Ok(Instruction::new(operation::CALL, switch::ALL, statistic::EVERYTHING, handle))
    }

    fn command(
        &mut self,
        entry: &SubmissionEntry,
        data: Data<'_>,
    ) -> Result<(u32, Vec<u8>), HostError> {
        match admin::command(&mut self.connection, entry, data, WHAT, self.timeout) {
            Ok((entry, data)) => Ok((entry.result.get() as u32, data)),
            Err(HostError::Refused { status, .. })
                if super::without_hints(status) == Status::INVALID_OPCODE =>
            {
                Err(HostError::NoProfile)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits; ends early if the target closes the connection.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn wait(&mut self, span: Duration) -> Result<(), HostError> {
        let now = self.clock.wall();
        if !self.keep_alive.is_zero()
            && now.saturating_since(self.last_keep_alive) >= self.keep_alive
        {
            self.controller.keep_alive()?;
            self.last_keep_alive = now;
        }
        self.connection.wait(span)
    }

    /// Leaves the target.
    ///
    /// # Errors
    /// If it cannot be told.
    pub fn leave(self) -> Result<(), HostError> {
        drop(self.connection);
        self.controller.shutdown()
    }
}

/// Whether the target lets this host decide which I/Os have records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// As it was asked for.
    AsAsked,
    /// Others decide which I/Os have records, for this reason.
    ByOthers(String),
}

/// The records of a target, as they come.
pub struct TargetRecords {
    client: ProfileClient,
    choice: Choice,
    header: Header,
    chosen: Chosen,
    /// Which profile of the target's it is, and the number of the next record.
    profile: u32,
    next: u64,
    room: usize,
    /// What was counted of profiles before, and of this one.
    before: Counts,
    counts: Counts,
    taken: u64,
    exchanges: VecDeque<Exchange>,
}

impl TargetRecords {
    /// Has the target record these I/Os, from now on.
    ///
    /// # Errors
    /// If it does not. [`HostError::NoProfile`]: it answers no queries.
    pub fn start(options: &Options, choice: &Choice) -> Result<TargetRecords, HostError> {
        let client = ProfileClient::connect(options)?;
        let header = Header::new(Side::Target, "", TimeBase::Monotonic);
        let mut records = TargetRecords {
            client,
            choice: choice.clone(),
            header,
            chosen: Chosen::AsAsked,
            profile: 0,
            next: 0,
            room: ROOM_MIN,
            before: Counts::default(),
            counts: Counts::default(),
            taken: 0,
            exchanges: VecDeque::new(),
        };
        records.begin()?;
        Ok(records)
    }

    /// Begins with a profile at the target, which may have been begun by others.
    fn begin(&mut self) -> Result<(), HostError> {
        let program = [
            Step::from(Instruction::store(statistic::SWITCH, LEASE_SECONDS)),
            Step::choice(self.choice.to_json().as_bytes()),
            Step::from(Instruction::load(switch::ALL, statistic::HEADER, 0)),
            Step::from(Instruction::new(operation::RESET, switch::ALL, statistic::EVERYTHING, 0)),
            // What was recorded before is not asked for: only the number to go on with.
            Step::from(Instruction::load(switch::ALL, statistic::RECORDS, u32::MAX)),
        ];
        let call = self.client.store(&program)?;
        let answer = self.client.ask(&[call], ROOM_MIN)?;
        let (head, parts) = answer.read()?;
        let [switched, chosen, header, reset, records] = &parts[..] else {
            return Err(nonsense(format!("{} parts of an answer to 5 questions", parts.len())));
        };
        for part in [switched, header, reset, records] {
            check(part)?;
        }
        self.chosen = match chosen.outcome {
            outcome::DONE => Chosen::AsAsked,
            outcome::DENIED => Chosen::ByOthers(String::from_utf8_lossy(chosen.data).into_owned()),
            _ => return Err(HostError::Unusable(refusal(chosen))),
        };
        let (header, ..) = Header::from_page(header.data)
            .map_err(|error| nonsense(format!("the header of its profile: {error}")))?;
        self.header = header;
        self.profile = head.profile.get();
        self.before.add(&std::mem::take(&mut self.counts));
        self.next = records_head(records.data)?.0.next.get();
        Ok(())
    }

    /// What the target's profile says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the target lets this host decide which I/Os have records.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// What was counted at the target since this host asks: recorded are those whose records have
    /// come here, lost those that were written over before.
    pub fn counts(&self) -> Counts {
        let mut all = self.before;
        all.add(&self.counts);
        let lost = all.recorded.saturating_sub(self.taken);
        let recorded = all.recorded - lost;
        let completed = recorded + lost + all.filtered + all.sampled_out + all.lost;
        Counts { completed, recorded, lost: all.lost + lost, ..all }
    }

    /// The latest exchanges with the target, which tell how its clock is related to
    /// [`TargetRecords::clock`].
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter()
    }

    /// The clock of this host's times.
    pub fn clock(&self) -> Clock {
        self.client.clock
    }

    /// How far apart the target's clock and this host's can be, in picoseconds from and to (the
    /// target's less this host's), if anything is known.
    pub fn offset_ps(&self) -> Option<(i128, i128)> {
        let less = |a: Time, b: Time| i128::from(a.as_ps()) - i128::from(b.as_ps());
        let least = self.exchanges.iter().map(|it| less(it.left, it.back)).max()?;
        let most = self.exchanges.iter().map(|it| less(it.came, it.sent)).min()?;
        Some((least, most))
    }

    /// Takes the records that there are, each with its stages and what is beside them.
    ///
    /// # Errors
    /// If the target does not answer as it should.
    pub fn poll(&mut self, take: &mut impl FnMut(&Head, &[Span], &[u64])) -> Result<(), HostError> {
        for _ in 0..LOOKS_MAX {
            let from = self.next as u32;
            let asked = [
                Instruction::store(statistic::SWITCH, LEASE_SECONDS),
                Instruction::load(switch::ALL, statistic::COUNTS, 0),
                Instruction::load(switch::ALL, statistic::RECORDS, from),
            ];
            let answer = self.client.ask(&asked, self.room)?;
            self.note(answer.exchange);
            let (head, parts) = answer.read()?;
            let [_, counts, records] = &parts[..] else {
                return Err(nonsense(format!("{} parts of an answer to 3 questions", parts.len())));
            };
            if head.profile.get() != self.profile {
                // The target, or the profile, was begun anew.
                self.begin()?;
                continue;
            }
            check(counts)?;
            self.counts = counts_of(counts.data)?;
            if records.outcome == outcome::NO_ROOM && self.room < self.client.room_max {
                self.room = (self.room * 2).min(self.client.room_max);
                continue;
            }
            check(records)?;
            let (came, next, full) = self.take(records.data, take)?;
            self.next = next;
            self.taken += came;
            // Answers as long as they have to be.
            if full {
                self.room = (self.room * 2).min(self.client.room_max);
            } else {
                if records.data.len() < self.room / 4 {
                    self.room = (self.room / 2).max(ROOM_MIN);
                }
                break;
            }
        }
        Ok(())
    }

    fn note(&mut self, exchange: Exchange) {
        if self.exchanges.len() == EXCHANGES_MAX {
            self.exchanges.pop_front();
        }
        self.exchanges.push_back(exchange);
    }

    /// Takes the records of an answer: how many came, the number of the next one, and whether there
    /// are more.
    fn take(
        &self,
        data: &[u8],
        take: &mut impl FnMut(&Head, &[Span], &[u64]),
    ) -> Result<(u64, u64, bool), HostError> {
        let wrong = |what: &str| nonsense(format!("records: {what}"));
        let (head, rows) = records_head(data)?;
        let record_bytes = self.header.record_bytes() as usize;
        if head.record_bytes.get() as usize != record_bytes {
            return Err(wrong("of another size than the profile's header says"));
        }
        let (first, next) = (head.first.get(), head.next.get());
        if next < first || rows.len() != record_bytes * head.records.get() as usize {
            return Err(wrong("another number of them than it says"));
        }
        let (stages, kinds) = (self.header.stages.len(), self.header.kinds.len());
        let mut words = vec![0; record_bytes / 8];
        let mut spans = vec![Span::ZERO; stages];
        let mut came = 0;
        for row in rows.chunks_exact(record_bytes) {
            for (into, word) in words.iter_mut().zip(row.chunks_exact(8)) {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(word);
                *into = u64::from_le_bytes(bytes);
            }
            let mut begin = [0; HEAD_WORDS];
            begin.copy_from_slice(&words[..HEAD_WORDS]);
            let record = Head::from_words(&begin);
            if words.last() != Some(&record.sequence) || usize::from(record.kind) >= kinds {
                return Err(wrong("one of them is damaged"));
            }
            if record.sequence < self.next {
                // Of numbers only the low half is asked by.
                continue;
            }
            let (of_stages, beside) = words[HEAD_WORDS..words.len() - 1].split_at(stages);
            spans.iter_mut().zip(of_stages).for_each(|(into, &ps)| *into = Span::from_ps(ps));
            take(&record, &spans, beside);
            came += 1;
        }
        // The target looks at so many and no more; what it has written meanwhile comes next time.
        let full = !rows.is_empty() && rows.len() + 2 * record_bytes + 256 > self.room;
        Ok((came, next, full))
    }

    /// Waits, or ends early if the target closes the connection.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn wait(&mut self, span: Duration) -> Result<(), HostError> {
        self.client.wait(span)
    }

    /// Reads the remaining records and disconnects; the target ends the profile if nobody else asks
    /// for it.
    ///
    /// # Errors
    /// If the target does not answer as it should.
    pub fn finish(
        mut self,
        take: &mut impl FnMut(&Head, &[Span], &[u64]),
    ) -> Result<(Header, Counts), HostError> {
        self.poll(take)?;
        let counts = self.counts();
        let header = self.header.clone();
        // Others may still ask: then it goes on.
        let off = Instruction::store(statistic::SWITCH, 0);
        self.client.ask(&[off], AnswerHead::BYTES + 64)?;
        // What was asked for has come.
        let _ = self.client.leave();
        Ok((header, counts))
    }
}

/// What is said of a part that was not done.
fn refusal(part: &Part<'_>) -> String {
    let said = outcome::text(part.outcome);
    match std::str::from_utf8(part.data) {
        Ok(why) if !why.is_empty() => {
            format!("{said}: {}", why.chars().take(200).collect::<String>())
        }
        _ => said.to_owned(),
    }
}

fn check(part: &Part<'_>) -> Result<(), HostError> {
    match part.outcome {
        outcome::DONE => Ok(()),
        _ => Err(HostError::Unusable(refusal(part))),
    }
}

fn records_head(data: &[u8]) -> Result<(RecordsHead, &[u8]), HostError> {
    RecordsHead::read_from_prefix(data).map_err(|_| nonsense("records: too few bytes".to_owned()))
}

fn counts_of(data: &[u8]) -> Result<Counts, HostError> {
    let words: Vec<u64> = data
        .chunks_exact(8)
        .filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
        .collect();
    let [completed, recorded, filtered, sampled_out, lost] = words[..] else {
        return Err(nonsense(format!("{} bytes of counts", data.len())));
    };
    let counts = Counts { completed, recorded, filtered, sampled_out, lost };
    match counts.add_up() {
        true => Ok(counts),
        false => Err(nonsense("counts that do not add up".to_owned())),
    }
}

/// What is wanted of a target.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// For how long; `None`: until it is told to end.
    pub runtime: Option<Span>,
    /// How often something is told.
    pub interval: Span,
}

/// How long it waits between looks for records: the target's ring lasts some 50 ms at the highest
/// rates.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Collects a target's records in a ring until `goes_on` says no, or the time is over; `tell` is told
/// of each interval.
///
/// # Errors
/// If the target does not answer as it should. What has come is in the ring.
pub fn collect(
    mut records: TargetRecords,
    ring: &mut Ring,
    watch: Watch,
    goes_on: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Interval, &TargetRecords),
) -> Result<(), HostError> {
    let clock = records.clock();
    let (mut begun, mut before) = (clock.wall(), records.counts());
    let start = begun;
    let mut interval = Interval::new(records.header());
    let outcome = loop {
        let taken = records.poll(&mut |head, stages, beside| {
            interval.add(head, stages);
            ring.record(head, stages, beside);
        });
        ring.says_of(&records.counts());
        if let Err(error) = taken {
            break Err(error);
        }
        let now = clock.wall();
        if now.since(begun) >= watch.interval {
            let counts = records.counts();
            interval.ended(now.since(begun), counts.completed - before.completed);
            tell(&interval, &records);
            (begun, before) = (now, counts);
            interval = Interval::new(records.header());
        }
        let is_over = watch.runtime.is_some_and(|runtime| now.since(start) >= runtime);
        if is_over || !goes_on() {
            break Ok(());
        }
        if let Err(error) = records.wait(BETWEEN_LOOKS) {
            break Err(error);
        }
    };
    ring.describe(records.header());
    outcome?;
    let (_, counts) =
        records.finish(&mut |head, stages, beside| ring.record(head, stages, beside))?;
    ring.says_of(&counts);
    Ok(())
}
