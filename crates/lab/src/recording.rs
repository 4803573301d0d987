//! Recordings: everything that went into a drive, with its time, and what came out, so that
//! the run can be repeated exactly in another process.
//!
//! A recording is a file: the eight bytes `MYNAHREC`, the length of a JSON header as a
//! little-endian 32-bit number, the header, and records of 32 bytes each:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | time in picoseconds |
//! | 8 | kind |
//! | 9 | operation, status, queue kind or priority, by kind |
//! | 10..12 | queue |
//! | 12..16 | tag, or a count |
//! | 16..20 | namespace, or a flow; of a write its placement identifier in 18..20 |
//! | 20..24 | sectors |
//! | 24..32 | first sector |
//!
//! The highest bit of a command's operation is set if it is no host's: what a shutdown leaves the
//! drive to write, and the work of admin commands. (Earlier versions do not tell them apart.)
//!
//! A completion has the time at which its command was created in 16..24, and the time at which it
//! was rung in 24..32. All numbers are little-endian. The first records, at time 0, are the accesses
//! that the drive's data cache was warmed with, if it was: whose, in place of the queue, and what
//! they did, with the highest bit set for flows that write as fast as the drive lets them
//! (`mynah.recording/1` has none: its cache was empty). The end of the ramp has a record, that of a
//! flow which waited for others one with the flow in 16..20, and each batch of a run that lasts until
//! something is known one at the instant before its end. At the end so has each flow (in 16..20)
//! whose load went on after its last completion, with the time until when in 24..32; earlier versions
//! write none of these.
//!
//! Where the drive has key-value namespaces the schema is `mynah.recording/3` (others stay
//! `mynah.recording/2`, which earlier versions read as well), with these records besides:
//!
//! | kind | fields |
//! |---|---|
//! | a pair that was there at the beginning | 12..16 pair, 16..19 namespace, 19 bytes of its key, 20..24 of its value, 24..32 token of its key |
//! | a key-value command | 9 operation, 10..12 queue, 12..16 tag, 16..19 namespace, 19 bytes of its key, 20..24 of its value or the host's buffer, 24..32 token of its key |
//! | its decision | 9 what (0 a pair, 1 absent, 2 refused, 3 keys), 12..16 tag, 16..20 pair, 20..24 bytes that go to the host |
//!
//! Pairs come first of all, in the order in which they were laid down; a replay lays them down unless
//! the drive began in a saved state or settled.
//!
//! The last record is an end mark with the number of records before it, at the
//! drive's last time: a recording without it was cut off, and is refused.

use mynah_drive_file::Differences;
use mynah_model::config::{Priority, Weights};
use mynah_model::io::{
    Completion, Control, FlowId, NamespaceId, Operation, PlacementId, Queue, QueueId, QueueKind,
    Request, Tag,
};
use mynah_model::keys::{Decision, KeyRequest, PairToFill};
use mynah_model::precondition::PreconditionError;
use mynah_model::warm::Access;
use mynah_model::{Drive, InputError};
use mynah_result::precision::Plan;
use mynah_stamp::{LinkSpans, Time};
use mynah_workload::trace::Remap;
use serde::{Deserialize, Serialize};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

mod key;
mod preparation;
mod rehost;
mod verifier;

use key::KeysReplayed;
pub use key::{KeyDone, PairsSeen};
pub(crate) use preparation::Preparation;
use rehost::Rehost;
use verifier::Verifier;

const MAGIC: &[u8; 8] = b"MYNAHREC";
const RECORD_BYTES: usize = 32;
/// Most commands that one doorbell write announces: a queue has no more entries.
const RING_MAX: u32 = 1 << 16;
/// Flag in the code of a [`Kind::Past`] record: the flow writes as fast as the drive lets it.
const SATURATED: u8 = 0x80;
/// Flags in the code of a [`Kind::CreateQueue`] record: commands arrive complete, off the link or
/// over the network of an Ethernet drive.
const FETCHED: u8 = 0x80;
const NETWORK: u8 = 0x40;
/// Flag in the code of a [`Kind::Command`] record: the command is not I/O of a host.
const NOBODYS: u8 = 0x80;
/// Longest header that is read, in bytes.
const HEADER_BYTES_MAX: u32 = 16 << 20;

/// Header of a recording: the drive, its preparation, and the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`SCHEMA`], or [`SCHEMA_PAIRS`] of a drive with key-value namespaces, or [`SCHEMA_COLD`] of
    /// an earlier version.
    pub schema: String,
    /// Name of the drive.
    pub drive: String,
    /// The drive file, overrides applied.
    pub drive_text: String,
    /// Hash of the drive it describes.
    pub drive_hash: String,
    /// Hash of the drive's state at the first record.
    pub state_hash: String,
    /// Which saved state the drive began in ([`saved_state::name`]); none: it was preconditioned.
    ///
    /// [`saved_state::name`]: crate::saved_state::name
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_state: Option<String>,
    /// How the drive was preconditioned: `none`, `fill`, `steady` or `steady:random`, and
    /// after it perhaps `,slc=` and the state of the pSLC cache.
    pub precondition: String,
    /// The ranges that were occupied then.
    pub occupancy: Vec<OccupancyRange>,
    /// The experiment file under whose flows the drive settled after that; none: it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<String>,
    /// Names of the flows, by number.
    pub flows: Vec<String>,
    /// Whether the drive reported data movements.
    pub report_moves: bool,
    /// Seed of the recorded run.
    pub seed: u64,
    /// Simulated time that was left out of the results, in picoseconds.
    pub ramp_ps: u64,
    /// What the run was to find out before it ended; none: its end was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Plan>,
    /// Remarks about how the drive was prepared.
    pub notes: Vec<String>,
}

/// One range of [`mynah_model::precondition::UpdateClass`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OccupancyRange {
    /// Namespace identifier, from 1.
    pub namespace: u32,
    /// First mapping unit of the range.
    pub first: u64,
    /// Number of mapping units.
    pub units: u64,
    /// Share of the namespace's writes that go to this range.
    pub weight: f64,
    /// Share of these writes that go from the range's start to its end, and round again.
    #[serde(default)]
    pub in_order: f64,
    /// Share of the units that each such round does not write.
    #[serde(default)]
    pub passed_over: f64,
    /// Share of accesses that are writes.
    pub write_share: f64,
    /// Whether it is written as fast as the drive takes it.
    pub saturated: bool,
    /// Mapping units written per second; 0 if that was not known.
    #[serde(default)]
    pub units_per_s: f64,
    /// Mapping units that are written together, and so are placed together.
    #[serde(default = "one")]
    pub together: u32,
    /// Units that are trimmed for each that is written.
    #[serde(default)]
    pub trims_per_write: f64,
    /// Which data they belong with, on a drive with data placement.
    #[serde(default, skip_serializing_if = "is_first")]
    pub placement: u16,
}

fn is_first(placement: &u16) -> bool {
    *placement == 0
}

fn one() -> u32 {
    1
}

/// The schema of recordings of drives without key-value namespaces.
pub const SCHEMA: &str = "mynah.recording/2";

/// The schema of recordings of drives with key-value namespaces.
pub const SCHEMA_PAIRS: &str = "mynah.recording/3";

/// The first schema, which is still read. It has no accesses that warmed the data cache, which
/// began empty.
pub const SCHEMA_COLD: &str = "mynah.recording/1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Ring = 1,
    Command = 2,
    DataArrived = 3,
    CqFreed = 4,
    CreateQueue = 5,
    DeleteQueue = 6,
    Reset = 7,
    Abort = 8,
    Format = 9,
    PowerCut = 10,
    Arbitration = 11,
    WriteBack = 12,
    Past = 13,
    RampEnds = 14,
    Offered = 15,
    RampOf = 16,
    BatchEnds = 17,
    Pair = 18,
    KeyCommand = 19,
    Decided = 20,
    UpdateHandle = 21,
    Completed = 64,
    End = 255,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    at: Time,
    kind: Kind,
    code: u8,
    queue: u16,
    tag: u32,
    namespace: u32,
    sectors: u32,
    sector: u64,
}

/// A namespace in the lower half, and in the upper which of its data a write belongs with.
fn placed(namespace: NamespaceId, placement: PlacementId) -> u32 {
    u32::from(placement.0) << 16 | namespace.0 & 0xffff
}

/// The bits that say of which kind a queue is.
fn kind_bits(kind: QueueKind) -> u8 {
    match kind {
        QueueKind::Memory => 0,
        QueueKind::Fetched => FETCHED,
        QueueKind::Network { .. } => NETWORK,
    }
}

impl Record {
    fn new(at: Time, kind: Kind) -> Record {
        Record { at, kind, code: 0, queue: 0, tag: 0, namespace: 0, sectors: 0, sector: 0 }
    }

    fn of_command(at: Time, queue: QueueId, request: &Request) -> Record {
        Record {
            code: request.operation as u8,
            queue: queue.0,
            tag: request.tag.0,
            namespace: placed(request.namespace, request.placement),
            sectors: request.sectors,
            sector: request.sector,
            ..Record::new(at, Kind::Command)
        }
    }

    /// Of a queue's creation, or of the end of a flow's load: the flow.
    fn flow(&self) -> FlowId {
        FlowId(self.namespace as u16)
    }

    /// Of a queue's creation: whether its commands arrive complete.
    fn is_fetched(&self) -> bool {
        self.code & (FETCHED | NETWORK) != 0
    }

    /// The event of a record that is about the run and not an input of the drive.
    fn remark(&self) -> Replayed<'static> {
        match self.kind {
            Kind::RampEnds => Replayed::RampEnds(self.at),
            Kind::RampOf => Replayed::RampOf(self.flow(), self.at),
            Kind::BatchEnds => Replayed::BatchEnds,
            _ => Replayed::Offered(self.flow(), Time::from_ps(self.sector)),
        }
    }

    /// Whether it belongs to key-value commands.
    fn is_of_keys(&self) -> bool {
        matches!(self.kind, Kind::Pair | Kind::KeyCommand | Kind::Decided)
    }

    /// Of a command: whether it is not I/O of a host.
    fn is_nobodys(&self) -> bool {
        self.code & NOBODYS != 0
    }

    /// Of a command, or of what warmed the cache: which data it belongs with, and its namespace.
    fn placement(&self) -> PlacementId {
        PlacementId((self.namespace >> 16) as u16)
    }

    fn namespace_placed(&self) -> NamespaceId {
        NamespaceId(self.namespace & 0xffff)
    }

    /// The command that the record holds.
    fn request(&self) -> Result<Request, FeedError> {
        Ok(Request {
            placement: self.placement(),
            tag: Tag(self.tag),
            operation: operation(self.code & !NOBODYS)?,
            namespace: self.namespace_placed(),
            sector: self.sector,
            sectors: self.sectors,
        })
    }

    /// The access of a [`Kind::Past`] record.
    fn access(&self) -> Result<Access, FeedError> {
        let access = Access {
            placement: self.placement(),
            flow: FlowId(self.queue),
            namespace: self.namespace_placed(),
            operation: operation(self.code & !SATURATED)?,
            sector: self.sector,
            sectors: self.sectors,
            saturated: self.code & SATURATED != 0,
        };
        match access.is_possible() {
            true => Ok(access),
            false => Err(FeedError::Access { flow: self.queue, sectors: self.sectors }),
        }
    }

    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0..8].copy_from_slice(&self.at.as_ps().to_le_bytes());
        (bytes[8], bytes[9]) = (self.kind as u8, self.code);
        bytes[10..12].copy_from_slice(&self.queue.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.tag.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.namespace.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.sectors.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sector.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        let u64_at =
            |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| bytes[at + n]));
        let kind = [
            Kind::Ring,
            Kind::Command,
            Kind::DataArrived,
            Kind::CqFreed,
            Kind::CreateQueue,
            Kind::DeleteQueue,
            Kind::Reset,
            Kind::Abort,
            Kind::Format,
            Kind::PowerCut,
            Kind::Arbitration,
            Kind::WriteBack,
            Kind::Past,
            Kind::RampEnds,
            Kind::Offered,
            Kind::RampOf,
            Kind::BatchEnds,
            Kind::Pair,
            Kind::KeyCommand,
            Kind::Decided,
            Kind::UpdateHandle,
            Kind::Completed,
            Kind::End,
        ]
        .into_iter()
        .find(|&kind| kind as u8 == bytes[8])?;
        Some(Record {
            at: Time::from_ps(u64_at(0)),
            kind,
            code: bytes[9],
            queue: u16::from_le_bytes([bytes[10], bytes[11]]),
            tag: u32_at(12),
            namespace: u32_at(16),
            sectors: u32_at(20),
            sector: u64_at(24),
        })
    }
}

/// The operation that a record names.
fn operation(code: u8) -> Result<Operation, FeedError> {
    [
        Operation::Read,
        Operation::Write,
        Operation::WriteThrough,
        Operation::Trim,
        Operation::Flush,
        Operation::Other,
    ]
    .into_iter()
    .find(|&operation| operation as u8 == code)
    .ok_or(FeedError::Code(code))
}

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// The recording.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is not a recording, or damaged.
    #[error("{path}: not a usable recording: {problem}")]
    Format {
        /// The recording.
        path: PathBuf,
        /// What is wrong with the contents.
        problem: String,
    },
    /// The drive is another than was recorded.
    #[error(
        "this recording was made with drive `{drive}` [{recorded}], and this is another [{here}]: \
         {differences}"
    )]
    #[diagnostic(help(
        "a recording only fits the very drive it was made with; leave out --drive, --set and \
         --fault to replay it on the drive that it carries"
    ))]
    OtherDrive {
        /// Name of the drive in the recording.
        drive: String,
        /// Drive hash in the recording.
        recorded: String,
        /// Hash of the given drive.
        here: String,
        /// Settings in which the two drives differ.
        differences: Box<Differences>,
    },
    /// The drive's state is another than was recorded.
    #[error(
        "the drive's state at the start ({here}) is not the recorded one ({recorded}): this version of Mynah preconditions differently"
    )]
    OtherState {
        /// State hash in the recording.
        recorded: String,
        /// Hash of the state that the drive has been prepared into.
        here: String,
    },
    /// It begins in a saved state, which was not given.
    #[error("{}: this recording begins in a saved state", path.display())]
    #[diagnostic(help(
        "give it with --load-state FILE; `mynah serve --record FILE` puts it into FILE.state. \
         To another drive such a recording cannot be given"
    ))]
    NeedsState {
        /// The recording.
        path: PathBuf,
    },
    /// It begins in another saved state than the one that was given.
    #[error("{}: not the saved state that {} begins in", state.display(), path.display())]
    #[diagnostic(help("{help}"))]
    OtherStart {
        /// The recording.
        path: PathBuf,
        /// The saved state that was given.
        state: PathBuf,
        /// Which state the recording begins in.
        help: &'static str,
    },
    /// A request lies where the other drive has nothing.
    #[error("{}: {problem}", path.display())]
    #[diagnostic(help("{help}"))]
    Outside {
        /// The recording.
        path: PathBuf,
        /// Which request, and where this drive ends.
        problem: String,
        /// How such requests can be replayed.
        help: &'static str,
    },
    /// What came out differs from what was recorded.
    #[error("the replay departs from the recording at record {record}: {problem}")]
    Diverged {
        /// Number of the record, from 0.
        record: u64,
        /// What the drive did, and what was recorded.
        problem: String,
    },
}

/// Writes a recording while a drive runs.
pub struct Tape {
    writer: BufWriter<Box<dyn Write + Send>>,
    records: u64,
}

impl Tape {
    /// Starts a recording.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn new(writer: Box<dyn Write + Send>, header: &Header) -> io::Result<Tape> {
        let mut writer = BufWriter::with_capacity(1 << 18, writer);
        let header = serde_json::to_vec(header).map_err(io::Error::other)?;
        let length = u32::try_from(header.len()).map_err(io::Error::other)?;
        writer.write_all(MAGIC)?;
        writer.write_all(&length.to_le_bytes())?;
        writer.write_all(&header)?;
        Ok(Tape { writer, records: 0 })
    }

    #[inline(never)]
    fn write(&mut self, record: Record) -> io::Result<()> {
        self.records += 1;
        self.writer.write_all(&record.to_bytes())
    }

    /// An access that the data cache was warmed with, before anything else; oldest first.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn past(&mut self, access: &Access) -> io::Result<()> {
        self.write(Record {
            code: access.operation as u8 | (u8::from(access.saturated) * SATURATED),
            queue: access.flow.0,
            namespace: placed(access.namespace, access.placement),
            sectors: access.sectors,
            sector: access.sector,
            ..Record::new(Time::ZERO, Kind::Past)
        })
    }

    /// A pair that is there, before anything else, in the order in which they were laid down.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn pair(&mut self, namespace: NamespaceId, pair: &PairToFill) -> io::Result<()> {
        self.write(Record::of_pair(namespace, pair))
    }

    /// Records a key-value command that was handed to the drive.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn key_command(
        &mut self,
        at: Time,
        queue: QueueId,
        request: &KeyRequest,
    ) -> io::Result<()> {
        self.write(Record::of_key_command(at, queue, request))
    }

    /// Records the decision about a key-value command.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn decided(&mut self, at: Time, tag: Tag, decision: &Decision) -> io::Result<()> {
        self.write(Record::of_decision(at, tag, decision))
    }

    /// Records a doorbell write.
    ///
    /// # Errors
    /// If the file cannot be written; likewise below.
    pub fn ring(&mut self, at: Time, queue: QueueId, count: u32) -> io::Result<()> {
        self.write(Record { queue: queue.0, tag: count, ..Record::new(at, Kind::Ring) })
    }

    /// Records a command that was handed to the drive.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn command(&mut self, at: Time, queue: QueueId, request: &Request) -> io::Result<()> {
        self.write(Record::of_command(at, queue, request))
    }

    /// Records a command that is not I/O of a host.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn own_command(&mut self, at: Time, queue: QueueId, request: &Request) -> io::Result<()> {
        let record = Record::of_command(at, queue, request);
        self.write(Record { code: record.code | NOBODYS, ..record })
    }

    /// Records that a write's data has arrived at the drive.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn data_arrived(&mut self, at: Time, tag: Tag) -> io::Result<()> {
        self.write(Record { tag: tag.0, ..Record::new(at, Kind::DataArrived) })
    }

    /// Records that the host has freed completion queue entries.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn cq_freed(&mut self, at: Time, queue: QueueId, count: u32) -> io::Result<()> {
        self.write(Record { queue: queue.0, tag: count, ..Record::new(at, Kind::CqFreed) })
    }

    /// Records a control input, such as a queue's creation or a reset.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn control(&mut self, at: Time, control: &Control) -> io::Result<()> {
        let new = |kind| Record::new(at, kind);
        self.write(match *control {
            Control::CreateQueue(queue) => Record {
                code: queue.priority as u8 | kind_bits(queue.kind),
                tag: match queue.kind {
                    QueueKind::Network { port } => port.into(),
                    QueueKind::Memory | QueueKind::Fetched => 0,
                },
                queue: queue.id.0,
                namespace: queue.flow.0.into(),
                sectors: queue.completion_entries,
                ..new(Kind::CreateQueue)
            },
            Control::DeleteQueue(queue) => Record { queue: queue.0, ..new(Kind::DeleteQueue) },
            Control::Reset => new(Kind::Reset),
            Control::Abort(queue, tag) => Record { queue: queue.0, tag: tag.0, ..new(Kind::Abort) },
            Control::Format(namespace) => Record { namespace: namespace.0, ..new(Kind::Format) },
            Control::PowerCut => new(Kind::PowerCut),
            Control::WriteBack => new(Kind::WriteBack),
            Control::UpdateHandle(namespace, placement) => {
                Record { namespace: placed(namespace, placement), ..new(Kind::UpdateHandle) }
            }
            Control::Arbitration { burst, weights } => Record {
                sectors: burst,
                queue: weights.high,
                tag: weights.medium.into(),
                namespace: weights.low.into(),
                ..new(Kind::Arbitration)
            },
        })
    }

    /// Records a completion.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn completed(&mut self, completion: &Completion, created: Time) -> io::Result<()> {
        let created = created.as_ps();
        self.write(Record {
            namespace: created as u32,
            sectors: (created >> 32) as u32,
            code: completion.status as u8,
            queue: completion.queue.0,
            tag: completion.tag.0,
            sector: completion.rung.as_ps(),
            ..Record::new(completion.at, Kind::Completed)
        })
    }

    /// Records the end of the ramp, before the drive's counters restart.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn ramp_ends(&mut self, at: Time) -> io::Result<()> {
        self.write(Record::new(at, Kind::RampEnds))
    }

    /// Records the end of the ramp of a flow that waited for others.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn ramp_of(&mut self, at: Time, flow: FlowId) -> io::Result<()> {
        self.write(Record { namespace: flow.0.into(), ..Record::new(at, Kind::RampOf) })
    }

    /// Records the end of a batch of a run that ends when its figures are known.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn batch_ends(&mut self, at: Time) -> io::Result<()> {
        self.write(Record::new(at, Kind::BatchEnds))
    }

    /// Records, at time `at`, that the load of `flow` went on until `until`.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn offered(&mut self, at: Time, flow: FlowId, until: Time) -> io::Result<()> {
        self.write(Record {
            namespace: flow.0.into(),
            sector: until.as_ps(),
            ..Record::new(at, Kind::Offered)
        })
    }

    /// Writes the end mark: the drive's clock stood at `at`.
    ///
    /// # Errors
    /// See [`Tape::ring`].
    pub fn finish(mut self, at: Time) -> io::Result<()> {
        let end = Record { sector: self.records, ..Record::new(at, Kind::End) };
        self.writer.write_all(&end.to_bytes())?;
        self.writer.flush()
    }
}

/// Something that happens during a replay.
#[derive(Clone, Copy, Debug)]
pub enum Replayed<'a> {
    /// A queue was created for this flow.
    Flow(FlowId),
    /// A command was inserted into a submission queue, or handed over.
    Issued(Time),
    /// The ramp has ended.
    RampEnds(Time),
    /// The ramp of a flow that waited for others is over.
    RampOf(FlowId, Time),
    /// A batch of the run is over ([`Header::precision`]).
    BatchEnds,
    /// A flow kept offering load until then, after its last completion.
    Offered(FlowId, Time),
    /// A command completed, as recorded.
    Completed {
        /// The completion that the drive posted.
        completion: &'a Completion,
        /// Where its time went on an Ethernet link.
        link: Option<&'a LinkSpans>,
        /// What it was; unknown if the drive took it before the recording began, or it is no
        /// host's I/O.
        request: Option<Request>,
        /// When the host created the request.
        created: Time,
        /// The queue's flow; `None` if the recording does not say.
        flow: Option<FlowId>,
    },
    /// A key-value command completed, as recorded.
    CompletedKey {
        /// The completion that the drive posted.
        completion: &'a Completion,
        /// The request, and what it was decided to be.
        done: KeyDone,
        /// When the host created the request.
        created: Time,
        /// The queue's flow; `None` if the recording does not say.
        flow: Option<FlowId>,
    },
}

/// A recording that is open for replay.
pub struct Recording {
    path: PathBuf,
    header: Header,
    reader: BufReader<Box<dyn Read>>,
    /// Number of records about the time before the run that have been read, and the record after
    /// them.
    past: u64,
    behind_past: Option<Record>,
    keys: KeysReplayed,
}

impl Recording {
    /// Opens the recording in the file `path`.
    ///
    /// # Errors
    /// If it is not a recording that this version understands.
    pub fn open(path: &Path) -> Result<Recording, RecordingError> {
        let file = std::fs::File::open(path)
            .map_err(|error| RecordingError::Io { path: path.into(), error })?;
        Recording::read(path, Box::new(file))
    }

    /// Reads a recording; `path` is used in messages.
    ///
    /// # Errors
    /// If it is not a recording that this version understands.
    pub fn read(path: &Path, reader: Box<dyn Read>) -> Result<Recording, RecordingError> {
        let mut reader = BufReader::with_capacity(1 << 18, reader);
        let format = |problem: String| RecordingError::Format { path: path.into(), problem };
        let mut start = [0; 12];
        reader
            .read_exact(&mut start)
            .map_err(|_| format("it is too short; one is what --record writes".into()))?;
        if &start[..8] != MAGIC {
            return Err(format(
                "it does not start with MYNAHREC; one is what --record writes".into(),
            ));
        }
        let length = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if length > HEADER_BYTES_MAX {
            return Err(format(format!("a header of {length} bytes")));
        }
        let mut header = vec![];
        reader
            .by_ref()
            .take(length.into())
            .read_to_end(&mut header)
            .map_err(|error| RecordingError::Io { path: path.into(), error })?;
        let header: Header = serde_json::from_slice(&header)
            .map_err(|error| format(format!("its header: {error}")))?;
        if ![SCHEMA, SCHEMA_COLD, SCHEMA_PAIRS].contains(&&*header.schema) {
            return Err(format(format!("schema `{}`, not `{SCHEMA_PAIRS}`", header.schema)));
        }
        let keys = KeysReplayed::default();
        Ok(Recording { path: path.into(), header, reader, past: 0, behind_past: None, keys })
    }

    /// The header, which says what was recorded.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Lays the pairs that were there at the beginning down on `drive`, which has not been used; or
    /// only reads them, where `drive` has them.
    ///
    /// # Errors
    /// If the file is damaged, or the drive cannot take them.
    pub fn lay_pairs(&mut self, mut drive: Option<&mut Drive>) -> Result<(), RecordingError> {
        let mut next = self.next_pair()?;
        while let Some((namespace, first)) = next.take() {
            let mut failed = None;
            let others = std::iter::from_fn(|| match self.next_pair() {
                Ok(Some((of, pair))) if of == namespace => Some(pair),
                Ok(other) => {
                    next = other;
                    None
                }
                Err(error) => {
                    failed = Some(error);
                    None
                }
            });
            let mut pairs = std::iter::once(first).chain(others).fuse();
            let filled = match &mut drive {
                Some(drive) => drive.fill_pairs(namespace, &mut pairs),
                None => Ok(()),
            };
            pairs.by_ref().for_each(drop);
            drop(pairs);
            match (failed, filled) {
                (Some(error), _) => return Err(error),
                (None, Err(error)) => return Err(self.no_room(namespace, &error)),
                (None, Ok(())) => {}
            }
        }
        Ok(())
    }

    /// The next pair that was there at the beginning.
    fn next_pair(&mut self) -> Result<Option<(NamespaceId, PairToFill)>, RecordingError> {
        let record = self.next_record(self.past)?;
        if record.kind != Kind::Pair {
            self.behind_past = Some(record);
            return Ok(None);
        }
        self.past += 1;
        let (namespace, pair) = (record.key_namespace(), record.pair());
        self.keys.pairs.add(namespace, &pair);
        Ok(Some((namespace, pair)))
    }

    /// Why the drive cannot have the pairs that the recorded one had.
    fn no_room(&self, namespace: NamespaceId, error: &PreconditionError) -> RecordingError {
        let (problem, help) = match error {
            PreconditionError::NoPairs { .. } => (
                FeedError::NoPairs(namespace.0).to_string(),
                "give a drive with this key-value namespace",
            ),
            PreconditionError::Pair { room, .. } => (
                format!(
                    "namespace {} of this drive has room for {room} of the pairs that were there",
                    namespace.0
                ),
                "a larger drive, or one with a smaller mapping.unit, holds them",
            ),
            error => return self.damaged(&error.to_string()),
        };
        RecordingError::Outside { path: self.path.clone(), problem, help }
    }

    /// The pairs on `drive` at the end of the run; `None` if the run uses none.
    pub fn pairs_seen(&self, drive: &Drive) -> Option<PairsSeen> {
        self.keys.seen(drive)
    }

    /// Warms the data cache of `drive`, which has been preconditioned, with what warmed that of
    /// the recorded drive, or with as much of it as fills it.
    ///
    /// # Errors
    /// If the file is damaged, or the drive has been used.
    pub fn warm(&mut self, drive: &mut Drive) -> Result<(), RecordingError> {
        let Some(first) = self.next_access()? else { return Ok(()) };
        let mut failed = None;
        let others = std::iter::from_fn(|| match self.next_access() {
            Ok(access) => access,
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        let mut past = std::iter::once(first).chain(others).fuse();
        let warmed = drive.warm_cache(&mut past);
        past.for_each(drop);
        match (failed, warmed) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(self.damaged(&error.to_string())),
            (None, Ok(_)) => Ok(()),
        }
    }

    /// The next access that warmed the data cache.
    fn next_access(&mut self) -> Result<Option<Access>, RecordingError> {
        let record = self.next_record(self.past)?;
        if record.kind != Kind::Past {
            self.behind_past = Some(record);
            return Ok(None);
        }
        self.past += 1;
        match record.access() {
            Ok(access) => Ok(Some(access)),
            Err(error) => Err(self.damaged(&error.to_string())),
        }
    }

    /// Feeds the recorded inputs to `drive`, which must be in the recorded state, and
    /// compares every completion; once. Says what happens to `watch`, which ends the replay early
    /// by returning false.
    ///
    /// # Errors
    /// If the file is damaged, or at the first difference.
    pub fn replay(
        &mut self,
        drive: &mut Drive,
        mut watch: impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<(), RecordingError> {
        self.keys.pairs.begin(drive);
        let mut verifier = Verifier::default();
        for number in self.past.. {
            let record = self.next_record(number)?;
            let diverged = |problem: String| RecordingError::Diverged { record: number, problem };
            verifier.run_to(drive, record.at);
            match record.kind {
                Kind::Completed => {
                    let (completion, link) = verifier.completion(&record).map_err(diverged)?;
                    let replayed =
                        verifier.completed(&mut self.keys, &record, &completion, link.as_ref());
                    if !watch(drive, replayed) {
                        return Ok(());
                    }
                }
                Kind::End if record.sector != number => {
                    return Err(self.damaged("its end mark does not fit its length"));
                }
                Kind::End => return verifier.ends(&record).map_err(diverged),
                Kind::RampEnds | Kind::RampOf | Kind::BatchEnds | Kind::Offered => {
                    if record.kind == Kind::RampEnds {
                        self.keys.misses = 0;
                    }
                    watch(drive, record.remark());
                }
                _ => {
                    let given = verifier.give(&mut self.keys, drive, &record, &mut watch);
                    given.map_err(|error| diverged(error.to_string()))?;
                }
            }
        }
        Ok(())
    }

    /// Gives the recorded commands, at their recorded times, to `drive`, which may be another
    /// than the recorded one, and runs it until all are answered. `remap` says what becomes of
    /// requests beyond its end; returns how many there were. Says what happens to `watch`, which
    /// ends it early by returning false.
    ///
    /// # Errors
    /// If the file is damaged, or the drive cannot take a command.
    pub fn resimulate(
        &mut self,
        drive: &mut Drive,
        remap: Remap,
        mut watch: impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<u64, RecordingError> {
        let pairs = std::mem::take(&mut self.keys.pairs);
        let mut host = Rehost::new(remap, self.past, pairs);
        let given = self.give_to(&mut host, drive, &mut watch);
        (self.keys.pairs, self.keys.misses) = host.into_pairs_and_misses();
        given
    }

    /// Gives all records to `drive`; returns the number of requests beyond its end.
    fn give_to(
        &mut self,
        host: &mut Rehost,
        drive: &mut Drive,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<u64, RecordingError> {
        // This host has all data at hand when they are asked for.
        drive.report_moves(false);
        loop {
            let record = host.next(self)?;
            if !host.run_to(self, drive, record.at, watch)? {
                return Ok(host.remapped);
            }
            match record.kind {
                Kind::End => break,
                Kind::RampEnds | Kind::RampOf | Kind::BatchEnds | Kind::Offered => {
                    if record.kind == Kind::RampEnds {
                        host.forget_misses();
                    }
                    watch(drive, record.remark());
                    continue;
                }
                _ => {}
            }
            host.give(drive, &record, watch).map_err(|error| self.unfit(record.at, error))?;
        }
        while host.outstanding() > 0 && drive.next_at().is_some() {
            if !host.run_to(self, drive, Time::MAX, watch)? {
                break;
            }
        }
        Ok(host.remapped)
    }

    /// The error for an input at `at` that the drive refuses.
    fn unfit(&self, at: Time, error: FeedError) -> RecordingError {
        let problem = format!("the drive cannot take what came at {at}: {error}");
        let help = match error {
            FeedError::NoNamespace(_) => "give a drive that has this namespace",
            FeedError::NoPairs(_) => "give a drive with this key-value namespace",
            FeedError::Outside { too_long: true, .. } => "the drive is too small for it",
            FeedError::Outside { .. } => {
                "a larger drive holds it, or `--remap modulo` folds such addresses into the drive \
                 and counts them"
            }
            _ => return self.damaged(&problem),
        };
        RecordingError::Outside { path: self.path.clone(), problem, help }
    }

    fn damaged(&self, problem: &str) -> RecordingError {
        RecordingError::Format { path: self.path.clone(), problem: problem.into() }
    }

    fn next_record(&mut self, number: u64) -> Result<Record, RecordingError> {
        if let Some(record) = self.behind_past.take() {
            return Ok(record);
        }
        let mut bytes = [0; RECORD_BYTES];
        self.reader
            .read_exact(&mut bytes)
            .map_err(|_| self.damaged(&format!("it is cut off after {number} records")))?;
        Record::from_bytes(&bytes)
            .filter(|record| !record.is_of_keys() || self.header.schema == SCHEMA_PAIRS)
            .ok_or_else(|| self.damaged(&format!("record {number} is of no known kind")))
    }
}

/// A recorded input that the drive cannot take.
#[derive(Debug, thiserror::Error)]
enum FeedError {
    #[error("{0}")]
    Input(#[from] InputError),
    #[error("code {0} means nothing here")]
    Code(u8),
    #[error("{0} commands rung at once")]
    TooMany(u32),
    #[error("no command of flow {flow} has {sectors} sectors")]
    Access { flow: u16, sectors: u32 },
    #[error("what warmed the data cache comes after the beginning")]
    LatePast,
    #[error("a pair that was there at the beginning comes after it")]
    LatePair,
    #[error("this drive has no namespace {0}")]
    NoNamespace(u32),
    #[error("this drive has no key-value namespace {0}")]
    NoPairs(u32),
    #[error(
        "{sectors} sectors from {sector} are outside this drive's namespace of {capacity} sectors"
    )]
    Outside { sector: u64, sectors: u32, capacity: u64, too_long: bool },
}

/// Gives one recorded input to the drive; returns the request it carried.
fn feed(drive: &mut Drive, record: &Record) -> Result<Option<Request>, FeedError> {
    let (at, queue, tag) = (record.at, QueueId(record.queue), Tag(record.tag));
    match record.kind {
        Kind::Ring if record.tag > RING_MAX => return Err(FeedError::TooMany(record.tag)),
        Kind::Ring => drive.ring(at, queue, record.tag)?,
        Kind::Command => {
            let request = record.request()?;
            drive.command(at, queue, request)?;
            return Ok(Some(request));
        }
        Kind::DataArrived => drive.data_arrived(at, tag)?,
        Kind::CqFreed => drive.cq_freed(at, queue, record.tag)?,
        Kind::CreateQueue => {
            let priority = [Priority::Urgent, Priority::High, Priority::Medium, Priority::Low]
                .into_iter()
                .find(|&priority| priority as u8 == record.code & !(FETCHED | NETWORK))
                .ok_or(FeedError::Code(record.code))?;
            drive.control(
                at,
                Control::CreateQueue(Queue {
                    id: queue,
                    kind: match record.code & (FETCHED | NETWORK) {
                        0 => QueueKind::Memory,
                        NETWORK => QueueKind::Network { port: record.tag.min(255) as u8 },
                        _ => QueueKind::Fetched,
                    },
                    flow: record.flow(),
                    priority,
                    completion_entries: record.sectors,
                }),
            )?;
        }
        Kind::DeleteQueue => drive.control(at, Control::DeleteQueue(queue))?,
        Kind::Reset => drive.control(at, Control::Reset)?,
        Kind::Abort => drive.control(at, Control::Abort(queue, tag))?,
        Kind::Format => drive.control(at, Control::Format(NamespaceId(record.namespace)))?,
        Kind::PowerCut => drive.control(at, Control::PowerCut)?,
        Kind::WriteBack => drive.control(at, Control::WriteBack)?,
        Kind::UpdateHandle => {
            let update = Control::UpdateHandle(record.namespace_placed(), record.placement());
            drive.control(at, update)?;
        }
        Kind::Arbitration => {
            let weight = |weight: u32| u16::try_from(weight).unwrap_or(u16::MAX).clamp(1, 256);
            let weights = Weights {
                high: weight(record.queue.into()),
                medium: weight(record.tag),
                low: weight(record.namespace),
            };
            drive.control(at, Control::Arbitration { burst: record.sectors, weights })?;
        }
        Kind::Past => return Err(FeedError::LatePast),
        Kind::Pair => return Err(FeedError::LatePair),
        Kind::RampEnds | Kind::RampOf | Kind::BatchEnds | Kind::Offered => {}
        Kind::KeyCommand | Kind::Decided | Kind::Completed | Kind::End => {}
    }
    Ok(None)
}
