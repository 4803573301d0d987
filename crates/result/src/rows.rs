//! Every completed request as a row, column by column, handed over in batches while a run goes on:
//! for tables. What a row says, and which rows there are, is as in the request log, in picoseconds.

use crate::{kind::Kind, recorder::Completed};
use mynah_model::io::{Completion, Operation, Request, Status};
use mynah_stamp::{Span, Stage, Time};
use std::fmt;
use std::sync::Arc;

/// Rows of a batch. The last one has fewer.
pub const BATCH_ROWS: usize = 1 << 16;

/// Completed requests. The columns have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestBatch {
    /// The number of the request; those of a run are numbered from 0 as they complete.
    pub id: Vec<u64>,
    /// The number of the flow, from 0.
    pub flow: Vec<i32>,
    /// Submission queue identifier.
    pub queue: Vec<u16>,
    /// Index into [`OP_NAMES`].
    pub op: Vec<i8>,
    /// The first sector; of a key-value command the number of its key.
    pub sector: Vec<u64>,
    /// How many; of a key-value command the bytes of its value or of the host's buffer.
    pub sectors: Vec<u32>,
    /// Index into [`STATUSES`].
    pub status: Vec<i8>,
    /// When the request was made.
    pub created_ps: Vec<u64>,
    /// When it was inserted into its submission queue.
    pub inserted_ps: Vec<u64>,
    /// When the host saw its completion.
    pub completed_ps: Vec<u64>,
    /// Completion less insertion.
    pub latency_ps: Vec<u64>,
    /// For each of [`stages`] the time that it spent there. The time before insertion is in the host's
    /// queue.
    pub stages_ps: Vec<Vec<u64>>,
}

impl RequestBatch {
    /// No rows yet, of a drive with an Ethernet link or another.
    pub fn new(has_link: bool) -> RequestBatch {
        RequestBatch { stages_ps: vec![Vec::new(); stages(has_link).len()], ..Default::default() }
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
        self.id.push(id);
        self.flow.push(flow as i32);
        self.queue.push(completion.queue.0);
        self.op.push(op);
        self.sector.push(request.sector);
        self.sectors.push(request.sectors);
        self.status.push(status_number(completion.status));
        self.created_ps.push(created.as_ps());
        self.inserted_ps.push(completion.rung.as_ps());
        self.completed_ps.push(completion.at.as_ps());
        self.latency_ps.push(completion.at.since(completion.rung).as_ps());
        let mut columns = self.stages_ps.iter_mut();
        for ((stage, span), column) in completion.stages.iter().zip(&mut columns) {
            let before = match stage {
                Stage::HostQueue => completion.rung.saturating_since(created),
                _ => Span::ZERO,
            };
            column.push((span + before).as_ps());
        }
        for (stage, column) in Stage::OF_LINK.into_iter().zip(columns) {
            column.push(link.map_or(Span::ZERO, |link| link.get(stage)).as_ps());
        }
    }

    pub fn len(&self) -> usize {
        self.flow.len()
    }

    pub fn is_empty(&self) -> bool {
        self.flow.is_empty()
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

/// Who takes batches. One that returns false wants no more of them.
#[derive(Clone)]
pub struct RowSink(pub Arc<dyn Fn(RequestBatch) -> bool + Send + Sync>);

impl fmt::Debug for RowSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowSink")
    }
}

/// Collects rows, and hands them to a sink in batches.
pub struct RequestRows {
    sink: RowSink,
    has_link: bool,
    batch: RequestBatch,
    next_id: u64,
    is_wanted: bool,
}

impl RequestRows {
    /// Rows that go to `sink`, in batches; those of an Ethernet link have its spans as well.
    pub fn new(sink: RowSink, has_link: bool) -> RequestRows {
        let batch = RequestBatch::new(has_link);
        RequestRows { sink, has_link, batch, next_id: 0, is_wanted: true }
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
        if self.batch.len() == BATCH_ROWS {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let next = RequestBatch::new(self.has_link);
        let batch = std::mem::replace(&mut self.batch, next);
        self.is_wanted = (self.sink.0)(batch);
    }

    /// Hands over the last, incomplete batch.
    pub fn finish(mut self) {
        if self.is_wanted && !self.batch.is_empty() {
            let batch = std::mem::take(&mut self.batch);
            (self.sink.0)(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::status_name;

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
