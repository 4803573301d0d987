//! Queries of a target's profile while I/O goes on: vendor commands on I/O queues.
//!
//! A program of instructions says what is asked of which switch on an I/O's path (ntprof, section
//! 3.5). Up to three instructions fit into a command's dwords 10 to 15; a longer program, or one with
//! text, is stored first, and called by its handle: NVMe's commands move data one way only (Base
//! 2.0, figure 137). A command has one completion, so one answer has a part for each instruction. All
//! numbers are little-endian.

use super::{SubmissionEntry, structures};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// What an answer begins with.
pub const MAGIC: [u8; 8] = *b"mynahqry";
/// Version of the encoding.
pub const VERSION: u16 = 1;
/// Instructions that fit into a command.
pub const INLINE_MAX: usize = 3;
/// Bytes of a stored program, and instructions of a run.
pub const PROGRAM_BYTES_MAX: usize = 4096;
/// Instructions of a program, those of the programs that it calls included.
pub const INSTRUCTIONS_MAX: usize = 64;

/// Values of [`Instruction::operation`].
pub mod operation {
    /// Nothing: the end of the instructions in a command.
    pub const NONE: u8 = 0;
    /// Returns a statistic.
    pub const LOAD: u8 = 1;
    /// Changes one of the settings that [`super::statistic`] names.
    pub const STORE: u8 = 2;
    /// Restarts a statistic, for whoever asks only.
    pub const RESET: u8 = 3;
    /// Returns the target's clock.
    pub const CLOCK: u8 = 4;
    /// Runs the program whose handle is the parameter.
    pub const CALL: u8 = 5;
}

/// Where on an I/O's path: ntprof's stages S1 to S9 by their numbers.
pub mod switch {
    /// The whole way through the target.
    pub const ALL: u8 = 0;
    /// S6: the target's software, on the way in and out.
    pub const TARGET: u8 = 6;
    /// S7 to S9 together: the drive, as its model has it.
    pub const DRIVE: u8 = 7;
}

/// What is asked for, or set.
pub mod statistic {
    /// For a reset: all statistics.
    pub const EVERYTHING: u16 = 0;
    /// I/Os of the sample, since the first query or the last reset: u64.
    pub const COUNT: u16 = 1;
    /// Their time at the switch, picoseconds: 16 bytes.
    pub const SUM: u16 = 2;
    /// The shortest of these times: u64.
    pub const MIN: u16 = 3;
    /// The longest of these times: u64.
    pub const MAX: u16 = 4;
    /// Their distribution from the parameter's bucket on: see [`super::HistogramHead`].
    pub const HISTOGRAM: u16 = 5;
    /// Commands outstanding: see [`super::Occupancy`].
    pub const OCCUPANCY: u16 = 6;
    /// Records that were written over before they could be asked for: u64.
    pub const LOST: u16 = 7;
    /// Records from a cursor on: see [`super::RecordsHead`].
    pub const RECORDS: u16 = 8;
    /// I/Os completed, recorded, filtered, sampled out, lost: five u64.
    pub const COUNTS: u16 = 9;
    /// The first page of a profile's file.
    pub const HEADER: u16 = 10;
    /// Whether there is a profile: see [`super::Switched`]. Stored: for how many seconds there is to
    /// be one from now on, 0: none.
    pub const SWITCH: u16 = 11;
    /// Stored only. Records one I/O of as many as the parameter says.
    pub const SAMPLE: u16 = 12;
    /// Slow ones that are kept, stored: those above so many nanoseconds; 0: none, ffffffffh: those
    /// above the running 99.9th percentile.
    pub const KEEP_ABOVE: u16 = 13;
    /// All of what decides which I/Os have records, stored: the parameter's bytes of JSON follow the
    /// instruction in a stored program, filled up to a multiple of 8.
    pub const CHOICE: u16 = 14;
}

/// [`statistic::KEEP_ABOVE`] of the running percentile.
pub const KEEP_ABOVE_RUNNING: u32 = u32::MAX;

/// Values of [`PartHead::outcome`]: how an instruction ended.
pub mod outcome {
    pub const DONE: u16 = 0;
    /// There is no such operation, or no such statistic for it.
    pub const UNKNOWN: u16 = 1;
    /// The switch does not answer here.
    pub const ELSEWHERE: u16 = 2;
    /// The answer has no room for it.
    pub const NO_ROOM: u16 = 3;
    /// There is no profile now.
    pub const OFF: u16 = 4;
    /// It is not allowed; the part's data say why, if there are any.
    pub const DENIED: u16 = 5;
    /// The parameter cannot be; the part's data say why, if there are any.
    pub const INVALID: u16 = 6;
    /// There is no such program.
    pub const NO_PROGRAM: u16 = 7;

    /// The outcome as words for a message.
    pub fn text(outcome: u16) -> &'static str {
        match outcome {
            DONE => "done",
            UNKNOWN => "the target does not know that",
            ELSEWHERE => "that switch does not answer at the target",
            NO_ROOM => "the answer has no room for it",
            OFF => "there is no profile at the target",
            DENIED => "somebody else decides that",
            INVALID => "the target does not take that value",
            NO_PROGRAM => "the target has no such program",
            _ => "the target says something unknown",
        }
    }
}

structures! {
    pub struct Instruction: 8 {
        /// [`operation`].
        pub operation: u8,
        /// [`switch`].
        pub switch: u8,
        /// [`statistic`].
        pub statistic: U16,
        /// What it needs beside that.
        pub parameter: U32,
    }

    /// What an answer begins with. Its parts follow, each filled up to a multiple of 8 bytes.
    pub struct AnswerHead: 64 {
        /// [`MAGIC`].
        pub magic: [u8; 8],
        /// [`VERSION`].
        pub version: U16,
        /// Number of parts.
        pub parts: U16,
        /// Bytes of all of it; what lies behind is zero.
        pub bytes: U32,
        /// The target's clock when the query had come, in picoseconds.
        pub came: U64,
        /// The target's clock when it answered, in picoseconds.
        pub left: U64,
        /// Another number with every profile that is begun; 0: there is none.
        pub profile: U32,
        /// Sessions in scope of the answer: 0 the host's own, 1 all.
        pub scope: u8,
        pub reserved: [u8; 27],
    }

    /// Header of a part of an answer.
    pub struct PartHead: 16 {
        /// The instruction that the part answers.
        pub instruction: Instruction,
        /// [`outcome`].
        pub outcome: U16,
        pub reserved: U16,
        /// Bytes of data that follow.
        pub bytes: U32,
    }

    /// Before the buckets of a histogram: pairs of a bucket's shortest time and of how many are in
    /// it, u64 each, rising.
    pub struct HistogramHead: 8 {
        /// Number of buckets that follow.
        pub buckets: U32,
        /// The parameter that asks for the buckets after these; 0: there are none.
        pub next: U32,
    }

    /// Commands that are under way.
    pub struct Occupancy: 32 {
        /// Commands outstanding now, in the sessions in scope.
        pub now: U64,
        /// Number of commands of the sample that came.
        pub came: U64,
        /// Sum, over the arrivals, of the commands outstanding on the connection then.
        pub sum: U64,
        /// The most commands that were outstanding at an arrival.
        pub max: U64,
    }

    /// Before records, which are as a profile's file has them. The parameter is the low half of the
    /// number of the first one wanted; 0: from the oldest there is.
    pub struct RecordsHead: 32 {
        /// The number of the first record that was looked at.
        pub first: U64,
        /// The number of the record to continue with.
        pub next: U64,
        /// How many between the one wanted and `first` had been written over.
        pub lost: U64,
        /// Number of records that follow; those of sessions out of scope are left out.
        pub records: U32,
        /// Bytes of a record.
        pub record_bytes: U32,
    }

    /// Whether there is a profile.
    pub struct Switched: 16 {
        /// 0 no, 1 for as long as the lease, 2 always: `mynah serve --profile`.
        pub on: U32,
        /// Seconds of the lease that are left.
        pub lease_s: U32,
        /// Number of those who query the profile now.
        pub askers: U32,
        pub reserved: U32,
    }
}

impl Instruction {
    pub fn new(operation: u8, switch: u8, statistic: u16, parameter: u32) -> Instruction {
        let (statistic, parameter) = (U16::new(statistic), U32::new(parameter));
        Instruction { operation, switch, statistic, parameter }
    }

    pub fn load(switch: u8, statistic: u16, parameter: u32) -> Instruction {
        Instruction::new(operation::LOAD, switch, statistic, parameter)
    }

    pub fn store(statistic: u16, parameter: u32) -> Instruction {
        Instruction::new(operation::STORE, switch::ALL, statistic, parameter)
    }

    /// Bytes of text that follow it in a program.
    fn text_bytes(&self) -> u64 {
        match (self.operation, self.statistic.get()) {
            (operation::STORE, statistic::CHOICE) => self.parameter.get().into(),
            _ => 0,
        }
    }
}

/// An instruction, and the text that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub instruction: Instruction,
    pub text: Vec<u8>,
}

impl From<Instruction> for Step {
    fn from(instruction: Instruction) -> Step {
        Step { instruction, text: Vec::new() }
    }
}

impl Step {
    /// Sets what decides which I/Os have records.
    pub fn choice(text: &[u8]) -> Step {
        let instruction = Instruction::store(statistic::CHOICE, text.len() as u32);
        Step { instruction, text: text.to_vec() }
    }
}

/// A program or an answer that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It ends too early.
    #[error("it ends after {0} bytes, within something")]
    Short(usize),
    /// It is longer than may be.
    #[error("it has more than {PROGRAM_BYTES_MAX} bytes or {INSTRUCTIONS_MAX} instructions")]
    Long,
    /// It is something else.
    #[error("it does not begin as an answer to a query")]
    Foreign,
    /// It is of another version.
    #[error("it is of version {0}; this program knows version {VERSION}")]
    Version(u16),
}

/// The instructions in a command's dwords.
pub fn inline(entry: &SubmissionEntry) -> Vec<Instruction> {
    let dwords = [
        (entry.dword10, entry.dword11),
        (entry.dword12, entry.dword13),
        (entry.dword14, entry.dword15),
    ];
    let instruction = |(first, second): (U32, U32)| {
        let first = first.get();
        let [operation, switch] = (first as u16).to_le_bytes();
        Instruction::new(operation, switch, (first >> 16) as u16, second.get())
    };
    let all = dwords.into_iter().map(instruction);
    all.take_while(|it| it.operation != operation::NONE).collect()
}

/// Puts up to three instructions into a command's dwords.
pub fn put_inline(entry: &mut SubmissionEntry, instructions: &[Instruction]) {
    let dwords = [
        (&mut entry.dword10, &mut entry.dword11),
        (&mut entry.dword12, &mut entry.dword13),
        (&mut entry.dword14, &mut entry.dword15),
    ];
    for (at, (first, second)) in dwords.into_iter().enumerate() {
        let it = instructions.get(at).copied().unwrap_or_default();
        let low = u16::from_le_bytes([it.operation, it.switch]);
        first.set(u32::from(low) | u32::from(it.statistic.get()) << 16);
        *second = it.parameter;
    }
}

/// A program as it is stored.
pub fn program_bytes(steps: &[Step]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for step in steps {
        bytes.extend_from_slice(step.instruction.as_bytes());
        bytes.extend_from_slice(&step.text);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

/// Reads a program that is to be stored.
///
/// # Errors
/// If it is none.
pub fn parse_program(bytes: &[u8]) -> Result<Vec<Step>, QueryError> {
    if bytes.len() > PROGRAM_BYTES_MAX {
        return Err(QueryError::Long);
    }
    let mut steps = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let short = || QueryError::Short(bytes.len());
        let (instruction, behind) = Instruction::read_from_prefix(rest).map_err(|_| short())?;
        if instruction.operation == operation::NONE {
            break;
        }
        let text_bytes = usize::try_from(instruction.text_bytes()).map_err(|_| short())?;
        let text = behind.get(..text_bytes).ok_or_else(short)?;
        // The last text needs no filling.
        let filled = text_bytes.next_multiple_of(8).min(behind.len());
        if steps.len() == INSTRUCTIONS_MAX {
            return Err(QueryError::Long);
        }
        steps.push(Step { instruction, text: text.to_vec() });
        rest = &behind[filled..];
    }
    Ok(steps)
}

#[derive(Debug)]
pub struct AnswerWriter {
    bytes: Vec<u8>,
    room: usize,
    parts: u16,
}

impl AnswerWriter {
    /// An answer of at most `room` bytes; `None` if its head does not fit.
    pub fn new(room: usize) -> Option<AnswerWriter> {
        (room >= AnswerHead::BYTES).then(|| AnswerWriter {
            bytes: vec![0; AnswerHead::BYTES],
            room,
            parts: 0,
        })
    }

    /// Bytes of data that the next part may have.
    pub fn room(&self) -> usize {
        self.room.saturating_sub(self.bytes.len() + PartHead::BYTES) / 8 * 8
    }

    /// Adds a part; one that there is no room for says so, or is left out if there is none for that
    /// either.
    pub fn part(&mut self, instruction: Instruction, outcome: u16, data: &[u8]) {
        let fits = self.room >= self.bytes.len() + PartHead::BYTES;
        if !fits || self.parts == u16::MAX {
            return;
        }
        let (outcome, data) = match data.len() <= self.room() {
            true => (outcome, data),
            false => (outcome::NO_ROOM, &[][..]),
        };
        let mut head = PartHead { instruction, ..PartHead::default() };
        head.outcome.set(outcome);
        head.bytes.set(data.len() as u32);
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.parts += 1;
    }

    /// All of it. Of `head` only times, profile and scope count.
    pub fn finish(mut self, head: AnswerHead) -> Vec<u8> {
        let head = AnswerHead {
            magic: MAGIC,
            version: U16::new(VERSION),
            parts: U16::new(self.parts),
            bytes: U32::new(self.bytes.len() as u32),
            ..head
        };
        self.bytes[..AnswerHead::BYTES].copy_from_slice(head.as_bytes());
        self.bytes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The instruction that it answers.
    pub instruction: Instruction,
    /// [`outcome`].
    pub outcome: u16,
    pub data: &'a [u8],
}

/// Reads an answer, whatever it is.
///
/// # Errors
/// If it is none.
pub fn parse_answer(bytes: &[u8]) -> Result<(AnswerHead, Vec<Part<'_>>), QueryError> {
    let short = QueryError::Short(bytes.len());
    let (head, rest) = AnswerHead::read_from_prefix(bytes).map_err(|_| short)?;
    if head.magic != MAGIC {
        return Err(QueryError::Foreign);
    }
    if head.version.get() != VERSION {
        return Err(QueryError::Version(head.version.get()));
    }
    let all = (head.bytes.get() as usize).checked_sub(AnswerHead::BYTES);
    let mut rest = all.and_then(|all| rest.get(..all)).ok_or(short)?;
    let mut parts = Vec::new();
    for _ in 0..head.parts.get() {
        let (part, behind) = PartHead::read_from_prefix(rest).map_err(|_| short)?;
        let data = behind.get(..part.bytes.get() as usize);
        let data = data.ok_or(short)?;
        let (instruction, outcome) = (part.instruction, part.outcome.get());
        parts.push(Part { instruction, outcome, data });
        rest = behind.get(data.len().next_multiple_of(8)..).unwrap_or_default();
    }
    Ok((head, parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn instruction() -> impl Strategy<Value = Instruction> {
        (1u8.., any::<u8>(), any::<u16>(), any::<u32>()).prop_map(|(a, b, c, d)| {
            // Its text is given with it.
            let is_choice = a == operation::STORE && c == statistic::CHOICE;
            Instruction::new(a, b, c, if is_choice { 0 } else { d })
        })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            instruction().prop_map(Step::from),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|text| Step::choice(&text)),
        ]
    }

    proptest! {
        #[test]
        fn instructions_in_a_command_are_read_again(all in prop::collection::vec(instruction(), 0..=3)) {
            let mut entry = SubmissionEntry::default();
            put_inline(&mut entry, &all);
            prop_assert_eq!(inline(&entry), all);
            // As bytes they are the instructions one after the other.
            let bytes = program_bytes(&inline(&entry).into_iter().map(Step::from).collect::<Vec<_>>());
            prop_assert_eq!(&entry.as_bytes()[40..40 + bytes.len()], &bytes[..]);
        }

        #[test]
        fn programs_are_read_again(steps in prop::collection::vec(step(), 0..=20)) {
            prop_assert_eq!(parse_program(&program_bytes(&steps)), Ok(steps));
        }

        #[test]
        fn answers_are_read_again_as_far_as_there_was_room(
            parts in prop::collection::vec(
                (instruction(), any::<u16>(), prop::collection::vec(any::<u8>(), 0..60)),
                0..8,
            ),
            room in 64usize..400,
            times in any::<(u64, u64, u32, bool)>(),
        ) {
            let mut writer = AnswerWriter::new(room).expect("room");
            for (instruction, outcome, data) in &parts {
                writer.part(*instruction, *outcome, data);
            }
            let (came, left, profile, scope) = times;
            let head = AnswerHead {
                came: came.into(),
                left: left.into(),
                profile: profile.into(),
                scope: scope.into(),
                ..AnswerHead::default()
            };
            let mut bytes = writer.finish(head);
            prop_assert!(bytes.len() <= room);
            // A host's buffer is longer.
            bytes.resize(500, 0);
            let (read, got) = parse_answer(&bytes).expect("an answer");
            prop_assert_eq!((read.came.get(), read.left.get()), (came, left));
            prop_assert_eq!((read.profile.get(), read.scope), (profile, u8::from(scope)));
            let mut used = AnswerHead::BYTES;
            for (part, (instruction, outcome, data)) in got.iter().zip(&parts) {
                prop_assert_eq!(part.instruction, *instruction);
                let end = used + PartHead::BYTES + data.len().next_multiple_of(8);
                if end <= room {
                    prop_assert_eq!((part.outcome, part.data), (*outcome, &data[..]));
                    used = end;
                } else {
                    prop_assert_eq!((part.outcome, part.data), (outcome::NO_ROOM, &[][..]));
                    used += PartHead::BYTES;
                }
            }
            prop_assert!(got.len() == parts.len() || used + PartHead::BYTES > room);
        }

        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), begins in any::<bool>()) {
            if begins && bytes.len() > 16 {
                bytes[..8].copy_from_slice(&MAGIC);
                bytes[8..10].copy_from_slice(&[1, 0]);
                bytes[14..16].fill(0);
            }
            crate::fuzzing::query(&bytes);
        }
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert_eq!(parse_program(&[1, 2, 3]), Err(QueryError::Short(3)));
        let long = vec![Step::from(Instruction::load(0, 1, 0)); INSTRUCTIONS_MAX + 1];
        assert_eq!(parse_program(&program_bytes(&long)), Err(QueryError::Long));
        let mut claims = Step::choice(b"{}");
        claims.instruction.parameter.set(u32::MAX);
        assert_eq!(parse_program(&program_bytes(&[claims])), Err(QueryError::Short(16)));
    }
}
