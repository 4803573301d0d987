//! Every completed request as a row, column by column, handed over in batches while a run goes on:
//! for tables. What a row says, and which rows there are, is as in the request log, in picoseconds.

use crate::{kind::Kind, recorder::Completed};
use mynah_model::io::{Completion, Operation, Request, Status};
use mynah_stamp::{Span, Stage, Time};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Rows of a batch that is looked at while the run goes on. The last one has fewer.
pub const BATCH_ROWS: usize = 1 << 16;
/// Rows of a batch that is kept: a column of times then fills a huge page.
pub const KEPT_ROWS: usize = 1 << 18;
/// Rows that are put into their columns together. One by one they would write to some thirty places
/// far apart, most of which the processor's first cache would have lost by the next row.
const TOGETHER: usize = 32;
/// Columns of 64 bits before those of the stages.
const BEFORE_STAGES: usize = 6;

/// A column of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    /// The number of the request; those of a run are numbered from 0 as they complete.
    Id,
    /// The first sector; of a key-value command the number of its key.
    Sector,
    /// When the request was made.
    CreatedPs,
    /// When it was inserted into its submission queue.
    InsertedPs,
    /// When the host saw its completion.
    CompletedPs,
    /// Completion less insertion.
    LatencyPs,
    /// The time that it spent in the stage with this number among [`stages`]. The time before
    /// insertion is in the host's queue.
    StagePs(usize),
}

impl Wide {
    const fn index(self) -> usize {
        match self {
            Wide::Id => 0,
            Wide::Sector => 1,
            Wide::CreatedPs => 2,
            Wide::InsertedPs => 3,
            Wide::CompletedPs => 4,
            Wide::LatencyPs => 5,
            Wide::StagePs(stage) => BEFORE_STAGES + stage,
        }
    }
}

/// Completed requests. The columns have the same length.
#[derive(Clone, Debug)]
pub struct RequestBatch {
    /// The columns of 64 bits, each of `room` rows, one after the other.
    wide: Vec<u64>,
    room: usize,
    stages: usize,
    /// Rows that are not in their columns yet.
    last: Vec<Row>,
    flow: Vec<i32>,
    queue: Vec<u16>,
    op: Vec<i8>,
    sectors: Vec<u32>,
    status: Vec<i8>,
}

/// A row that is not in its columns yet.
#[derive(Clone, Copy, Debug)]
struct Row {
    wide: [u64; BEFORE_STAGES + Stage::COUNT],
    flow: i32,
    queue: u16,
    op: i8,
    sectors: u32,
    status: i8,
}

/// The columns of completed requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestColumns {
    /// The columns of 64 bits, one after the other, each of `room` rows of which the first are used.
    pub wide: Vec<u64>,
    pub room: usize,
    /// The number of the flow, from 0.
    pub flow: Vec<i32>,
    /// Submission queue identifier.
    pub queue: Vec<u16>,
    /// Index into [`OP_NAMES`].
    pub op: Vec<i8>,
    /// How many sectors; of a key-value command the bytes of its value or of the host's buffer.
    pub sectors: Vec<u32>,
    /// Index into [`STATUSES`].
    pub status: Vec<i8>,
}

impl RequestColumns {
    pub fn len(&self) -> usize {
        self.flow.len()
    }

    pub fn is_empty(&self) -> bool {
        self.flow.is_empty()
    }

    /// Where a column of 64 bits is in `wide`.
    pub fn place(&self, column: Wide) -> Range<usize> {
        let first = column.index() * self.room;
        first..first + self.len()
    }

    /// A column of 64 bits.
    pub fn wide(&self, column: Wide) -> &[u64] {
        &self.wide[self.place(column)]
    }
}

impl RequestBatch {
    /// No rows yet, of a drive with an Ethernet link or another.
    pub fn new(has_link: bool) -> RequestBatch {
        RequestBatch::of_stages(stages(has_link).len(), 0)
    }

    fn of_stages(stages: usize, room: usize) -> RequestBatch {
        RequestBatch {
            wide: vec![0; room * (BEFORE_STAGES + stages)],
            room,
            stages,
            last: Vec::with_capacity(TOGETHER),
            flow: Vec::with_capacity(room),
            queue: Vec::with_capacity(room),
            op: Vec::with_capacity(room),
            sectors: Vec::with_capacity(room),
            status: Vec::with_capacity(room),
        }
    }

    /// Adds a row; `op` is of [`OP_NAMES`].
    #[inline]
    pub fn push(
        &mut self,
        id: u64,
        (flow, op): (usize, i8),
        request: &Request,
        created: Time,
        (completion, link): Completed<'_>,
    ) {
        let mut wide = [0; BEFORE_STAGES + Stage::COUNT];
        wide[Wide::Id.index()] = id;
        wide[Wide::Sector.index()] = request.sector;
        wide[Wide::CreatedPs.index()] = created.as_ps();
        wide[Wide::InsertedPs.index()] = completion.rung.as_ps();
        wide[Wide::CompletedPs.index()] = completion.at.as_ps();
        wide[Wide::LatencyPs.index()] = completion.at.since(completion.rung).as_ps();
        let mut columns = wide[BEFORE_STAGES..].iter_mut();
        for ((stage, span), column) in completion.stages.iter().zip(&mut columns) {
            let before = match stage {
                Stage::HostQueue => completion.rung.saturating_since(created),
                _ => Span::ZERO,
            };
            *column = (span + before).as_ps();
        }
        if let Some(link) = link {
            for (stage, column) in Stage::OF_LINK.into_iter().zip(columns) {
                *column = link.get(stage).as_ps();
            }
        }
        self.last.push(Row {
            wide,
            flow: flow as i32,
            queue: completion.queue.0,
            op,
            sectors: request.sectors,
            status: status_number(completion.status),
        });
        if self.last.len() == TOGETHER {
            self.put_down();
        }
    }

    /// Puts the last rows into their columns.
    fn put_down(&mut self) {
        let at = self.flow.len();
        let rows = at + self.last.len();
        if rows > self.room {
            // From where huge pages pay on, all of it at once.
            let room = (2 * self.room).max(rows).max(64);
            self.make_room(if room > BATCH_ROWS { room.max(KEPT_ROWS) } else { room });
        }
        for (column, place) in self.wide.chunks_exact_mut(self.room).enumerate() {
            for (row, value) in self.last.iter().zip(&mut place[at..rows]) {
                *value = row.wide[column];
            }
        }
        self.flow.extend(self.last.iter().map(|row| row.flow));
        self.queue.extend(self.last.iter().map(|row| row.queue));
        self.op.extend(self.last.iter().map(|row| row.op));
        self.sectors.extend(self.last.iter().map(|row| row.sectors));
        self.status.extend(self.last.iter().map(|row| row.status));
        self.last.clear();
    }

    /// Moves the columns to others with so much room, which is enough.
    fn make_room(&mut self, room: usize) {
        let rows = self.flow.len();
        let mut wide = vec![0; room * (BEFORE_STAGES + self.stages)];
        if rows > 0 {
            let old = self.wide.chunks_exact(self.room);
            for (new, old) in wide.chunks_exact_mut(room).zip(old) {
                new[..rows].copy_from_slice(&old[..rows]);
            }
        }
        (self.wide, self.room) = (wide, room);
    }

    /// Its columns, which take at most twice what is in them.
    pub fn into_columns(mut self) -> RequestColumns {
        if !self.last.is_empty() {
            self.put_down();
        }
        let rows = self.flow.len();
        if 2 * rows < self.room {
            self.make_room(rows);
            self.flow.shrink_to_fit();
            self.queue.shrink_to_fit();
            self.op.shrink_to_fit();
            self.sectors.shrink_to_fit();
            self.status.shrink_to_fit();
        }
        let RequestBatch { wide, room, flow, queue, op, sectors, status, .. } = self;
        RequestColumns { wide, room, flow, queue, op, sectors, status }
    }

    pub fn len(&self) -> usize {
        self.flow.len() + self.last.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The stages that have a column, of a drive with an Ethernet link or another.
pub fn stages(has_link: bool) -> Vec<Stage> {
    let of_link = |stage: &Stage| Stage::OF_LINK.contains(stage);
    Stage::ALL.into_iter().filter(|stage| has_link || !of_link(stage)).collect()
}

/// The names of operations, by the number that rows have of them: of requests, then of key-value
/// commands.
pub const OP_NAMES: [&str; 12] = [
    "read",
    "write",
    "write_through",
    "trim",
    "flush",
    "other",
    "store",
    "update",
    "retrieve",
    "delete",
    "exist",
    "list",
];

/// The number of an operation in the rows' column of operations.
pub const fn op_of(operation: Operation) -> i8 {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::WriteThrough => 2,
        Operation::Trim => 3,
        Operation::Flush => 4,
        Operation::Other => 5,
    }
}

const fn op_of_kind(kind: Kind) -> i8 {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Trim => 3,
        Kind::Flush => 4,
        Kind::Store => 6,
        Kind::Update => 7,
        Kind::Retrieve => 8,
        Kind::Delete => 9,
        Kind::Exist => 10,
        Kind::List => 11,
    }
}

/// The statuses, by the number that rows have of them.
pub const STATUSES: [Status; 9] = [
    Status::Success,
    Status::InvalidNamespace,
    Status::LbaOutOfRange,
    Status::InvalidField,
    Status::UnrecoveredReadError,
    Status::WriteFault,
    Status::Aborted,
    Status::WriteProtected,
    Status::CapacityExceeded,
];

/// The number that rows have of a status.
pub const fn status_number(status: Status) -> i8 {
    match status {
        Status::Success => 0,
        Status::InvalidNamespace => 1,
        Status::LbaOutOfRange => 2,
        Status::InvalidField => 3,
        Status::UnrecoveredReadError => 4,
        Status::WriteFault => 5,
        Status::Aborted => 6,
        Status::WriteProtected => 7,
        Status::CapacityExceeded => 8,
    }
}

/// Who takes batches.
#[derive(Clone)]
pub struct RowSink {
    /// Rows of each batch, but for the last.
    pub rows: usize,
    /// One that returns false wants no more of them.
    pub take: Arc<dyn Fn(RequestColumns) -> bool + Send + Sync>,
}

impl fmt::Debug for RowSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowSink")
    }
}

/// Collects rows, and hands them to a sink in batches.
pub struct RequestRows {
    sink: RowSink,
    batch: RequestBatch,
    next_id: u64,
    is_wanted: bool,
}

impl RequestRows {
    /// Rows that go to `sink`, in batches; those of an Ethernet link have its spans as well.
    pub fn new(sink: RowSink, has_link: bool) -> RequestRows {
        let batch = RequestBatch::new(has_link);
        RequestRows { sink, batch, next_id: 0, is_wanted: true }
    }

    /// Takes a completed request.
    pub fn record(
        &mut self,
        flow: usize,
        request: &Request,
        created: Time,
        completed: Completed<'_>,
    ) {
        self.row(flow, op_of(request.operation), request, created, completed);
    }

    /// Takes a completed key-value command, shown as in the request log.
    pub fn record_key(
        &mut self,
        flow: usize,
        kind: Kind,
        shown: &Request,
        created: Time,
        completion: &Completion,
    ) {
        self.row(flow, op_of_kind(kind), shown, created, (completion, None));
    }

    #[inline]
    fn row(
        &mut self,
        flow: usize,
        op: i8,
        request: &Request,
        created: Time,
        (completion, link): Completed<'_>,
    ) {
        if !self.is_wanted {
            return;
        }
        self.batch.push(self.next_id, (flow, op), request, created, (completion, link));
        self.next_id += 1;
        if self.batch.len() == self.sink.rows {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        // Where one batch was filled, another may well be.
        let next = RequestBatch::of_stages(self.batch.stages, self.sink.rows);
        let batch = std::mem::replace(&mut self.batch, next);
        self.is_wanted = (self.sink.take)(batch.into_columns());
    }

    /// Hands over the last, incomplete batch.
    pub fn finish(self) {
        if self.is_wanted && !self.batch.is_empty() {
            (self.sink.take)(self.batch.into_columns());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::status_name;
    use mynah_model::io::{NamespaceId, QueueId, Tag};
    use mynah_stamp::{LinkSpans, StageSpans};
    use std::sync::Mutex;

    fn request(number: u64) -> Request {
        Request {
            placement: Default::default(),
            tag: Tag(number as u32),
            namespace: NamespaceId(1),
            operation: Operation::Write,
            sector: 8 * number,
            sectors: 8 + number as u32,
        }
    }

    fn completion(number: u64) -> Completion {
        let mut stages = StageSpans::default();
        stages.add(Stage::SubmissionQueue, Span::from_ps(number + 2));
        Completion {
            at: Time::from_ps(10 * number + 7),
            tag: Tag(number as u32),
            queue: QueueId(number as u16 % 5),
            status: STATUSES[number as usize % STATUSES.len()],
            rung: Time::from_ps(10 * number + 5),
            stages,
        }
    }

    fn push(batch: &mut RequestBatch, number: u64, link: Option<&LinkSpans>) {
        let who = (number as usize % 3, op_of(Operation::Write));
        let created = Time::from_ps(10 * number + 1);
        batch.push(number, who, &request(number), created, (&completion(number), link));
    }

    fn holds(columns: &RequestColumns, numbers: Range<u64>, has_link: bool) {
        let rows = (numbers.end - numbers.start) as usize;
        assert_eq!(columns.len(), rows);
        let wide = |column, value: &dyn Fn(u64) -> u64| {
            assert!(columns.wide(column).iter().copied().eq(numbers.clone().map(value)));
        };
        wide(Wide::Id, &|number| number);
        wide(Wide::Sector, &|number| 8 * number);
        wide(Wide::CreatedPs, &|number| 10 * number + 1);
        wide(Wide::InsertedPs, &|number| 10 * number + 5);
        wide(Wide::CompletedPs, &|number| 10 * number + 7);
        wide(Wide::LatencyPs, &|_| 2);
        for (index, stage) in stages(has_link).into_iter().enumerate() {
            wide(Wide::StagePs(index), &|number| match stage {
                Stage::HostQueue => 4,
                Stage::SubmissionQueue => number + 2,
                Stage::Nic => number + 9,
                _ => 0,
            });
        }
        for (row, number) in numbers.enumerate() {
            let small = (columns.flow[row], columns.queue[row], columns.op[row]);
            assert_eq!(small, (number as i32 % 3, number as u16 % 5, op_of(Operation::Write)));
            assert_eq!(columns.sectors[row], 8 + number as u32);
            assert_eq!(columns.status[row], (number % 9) as i8);
        }
        let all = columns.room * (BEFORE_STAGES + stages(has_link).len());
        assert_eq!(columns.wide.len(), all);
        assert!(columns.room <= 2 * rows.max(32), "{} rows have room for {}", rows, columns.room);
    }

    #[test]
    fn rows_come_to_their_columns() {
        for rows in [0, 1, 31, 32, 33, 64, 65, 1000, 70_000] {
            for has_link in [false, true] {
                let mut batch = RequestBatch::new(has_link);
                for number in 0..rows {
                    let mut link = LinkSpans::default();
                    link.add(Stage::Nic, Span::from_ps(number + 9));
                    assert_eq!(batch.len() as u64, number);
                    push(&mut batch, number, has_link.then_some(&link));
                }
                holds(&batch.into_columns(), 0..rows, has_link);
            }
        }
    }

    #[test]
    fn batches_have_the_rows_that_were_asked_for() {
        let taken: Arc<Mutex<Vec<RequestColumns>>> = Arc::default();
        let into = taken.clone();
        let take = Arc::new(move |columns| {
            let mut taken = into.lock().unwrap();
            taken.push(columns);
            taken.len() < 3
        });
        for (rows, expected) in
            [(250, vec![0..100, 100..200, 200..250]), (450, vec![0..100, 100..200, 200..300])]
        {
            let mut all = RequestRows::new(RowSink { rows: 100, take: take.clone() }, false);
            for number in 0..rows {
                let created = Time::from_ps(10 * number + 1);
                let done = completion(number);
                all.record(number as usize % 3, &request(number), created, (&done, None));
            }
            all.finish();
            let made = std::mem::take(&mut *taken.lock().unwrap());
            assert_eq!(made.len(), expected.len());
            for (columns, numbers) in made.iter().zip(expected) {
                holds(columns, numbers, false);
            }
        }
    }

    #[test]
    fn numbers_are_those_of_their_names() {
        for kind in Kind::ALL {
            assert_eq!(OP_NAMES[op_of_kind(kind) as usize], kind.name());
        }
        for operation in crate::request_log::OPERATIONS {
            let name = crate::request_log::operation_name(operation);
            assert_eq!(OP_NAMES[op_of(operation) as usize], name);
        }
        for (number, status) in STATUSES.into_iter().enumerate() {
            assert_eq!(
                usize::try_from(status_number(status)),
                Ok(number),
                "{}",
                status_name(status)
            );
        }
    }
}
