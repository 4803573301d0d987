//! The request log: one CSV row for every completed request, with its path through the
//! drive.
//!
//! Times are nanoseconds with three decimals, so picoseconds are exact. `latency_ns` runs
//! from insertion into the submission queue to the completion seen by the host, and the
//! stage columns after `host_queue_ns` add up to exactly that. `host_queue_ns` is the time
//! from creation to insertion, so that all stage columns add up to the time from
//! `created_ns` to `completed_ns`. The columns are always the same, also where a stage
//! cannot occur; of several drives behind a switch the last says which one it was.

use crate::output::PendingFile;
use crate::{
    kind::{Kind, status_name},
    recorder::Completed,
};
use mynah_model::io::{Completion, Operation, Request};
use mynah_stamp::{Span, Stage, Time};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The request log could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the request log {}: {source}", path.display())]
pub struct RequestLogError {
    /// Where the log was to be.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

/// A request log being written. Rows are complete on disk after [`RequestLog::finish`].
#[must_use = "rows are lost unless the log is finished"]
pub struct RequestLog<W: Write = BufWriter<File>> {
    path: PathBuf,
    out: W,
    /// The row being put together.
    row: Vec<u8>,
    /// Names of the flows, quoted where CSV asks for it.
    flows: Vec<String>,
    next_id: u64,
    has_link: bool,
    /// Of several drives: whose rows come next.
    drive: Option<u32>,
}

impl RequestLog {
    /// Begins `file` with the header. `flows` are the names of the flows;
    /// `has_link` says whether the drive's link is Ethernet, which has stages of its own.
    pub fn create(
        file: &PendingFile,
        flows: &[String],
        has_link: bool,
    ) -> Result<RequestLog, RequestLogError> {
        let path = file.path();
        let out =
            file.file().map_err(|source| RequestLogError { path: path.to_owned(), source })?;
        RequestLog::new(BufWriter::with_capacity(1 << 18, out), path, flows, has_link)
    }

    /// The same for several drives behind a switch, with a column that says which.
    pub fn create_of_drives(
        file: &PendingFile,
        flows: &[String],
    ) -> Result<RequestLog, RequestLogError> {
        let path = file.path();
        let out =
            file.file().map_err(|source| RequestLogError { path: path.to_owned(), source })?;
        RequestLog::of_drives(BufWriter::with_capacity(1 << 18, out), path, flows)
    }
}

impl<W: Write> RequestLog<W> {
    /// Writes the header to `out`, which errors call `path`.
    pub fn new(
        out: W,
        path: &Path,
        flows: &[String],
        has_link: bool,
    ) -> Result<Self, RequestLogError> {
        RequestLog::begin(out, path, flows, has_link, None)
    }

    /// The same for several drives behind a switch, with a column that says which.
    pub fn of_drives(out: W, path: &Path, flows: &[String]) -> Result<Self, RequestLogError> {
        RequestLog::begin(out, path, flows, true, Some(0))
    }

    fn begin(
        out: W,
        path: &Path,
        flows: &[String],
        has_link: bool,
        drive: Option<u32>,
    ) -> Result<Self, RequestLogError> {
        let mut log = RequestLog {
            path: path.to_owned(),
            out,
            row: Vec::with_capacity(512),
            flows: flows.iter().map(|name| quoted(name)).collect(),
            next_id: 0,
            has_link,
            drive,
        };
        log.row.extend_from_slice(header(has_link).as_bytes());
        if drive.is_some() {
            log.row.extend_from_slice(b",drive");
        }
        log.flush_row()?;
        Ok(log)
    }

    /// Which of several drives the next rows are of, from 0.
    pub fn set_drive(&mut self, drive: u32) {
        self.drive = Some(drive);
    }

    /// Adds a flow; it has the next number.
    pub fn add_flow(&mut self, name: &str) {
        self.flows.push(quoted(name));
    }

    /// Writes the row of a completed request. Rows are numbered from 0 in this order.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn record(
        &mut self,
        flow: usize,
        request: &Request,
        created: Time,
        completed: Completed<'_>,
    ) -> Result<(), RequestLogError> {
        self.row_of(flow, operation_name(request.operation), request, created, completed)
    }

    /// Writes the row of a completed key-value command: as its sector the number of its key, as its
    /// sectors the bytes of its value or of the host's buffer.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn record_key(
        &mut self,
        flow: usize,
        kind: Kind,
        shown: &Request,
        created: Time,
        completion: &Completion,
    ) -> Result<(), RequestLogError> {
        self.row_of(flow, kind.name(), shown, created, (completion, None))
    }

    #[inline]
    fn row_of(
        &mut self,
        flow: usize,
        name: &str,
        request: &Request,
        created: Time,
        (completion, link): Completed<'_>,
    ) -> Result<(), RequestLogError> {
        let row = &mut self.row;
        push_number(row, self.next_id);
        self.next_id += 1;
        push_text(row, &self.flows[flow]);
        row.push(b',');
        push_number(row, u64::from(completion.queue.0));
        push_text(row, name);
        row.push(b',');
        push_number(row, request.sector);
        row.push(b',');
        push_number(row, u64::from(request.sectors));
        push_text(row, status_name(completion.status));
        for time in [created, completion.rung, completion.at] {
            push_ns(row, time.as_ps());
        }
        push_ns(row, completion.at.since(completion.rung).as_ps());
        let host_queue = completion.rung.saturating_since(created);
        for (stage, span) in completion.stages.iter() {
            let more = if stage == Stage::HostQueue { host_queue } else { Span::ZERO };
            push_ns(row, (span + more).as_ps());
        }
        for stage in Stage::OF_LINK.into_iter().filter(|_| self.has_link) {
            push_ns(row, link.map_or(Span::ZERO, |link| link.get(stage)).as_ps());
        }
        if let Some(drive) = self.drive {
            row.push(b',');
            push_number(row, drive.into());
        }
        self.flush_row()
    }

    fn flush_row(&mut self) -> Result<(), RequestLogError> {
        self.row.push(b'\n');
        let written = self.out.write_all(&self.row);
        self.row.clear();
        written.map_err(|source| RequestLogError { path: self.path.clone(), source })
    }

    /// Writes what is still in memory and returns the number of rows.
    pub fn finish(mut self) -> Result<u64, RequestLogError> {
        match self.out.flush() {
            Ok(()) => Ok(self.next_id),
            Err(source) => Err(RequestLogError { path: self.path, source }),
        }
    }
}

/// The header line, without its end; with the stages of an Ethernet link or without.
pub fn header(has_link: bool) -> String {
    let mut line = "id,flow,queue,op,sector,sectors,status,\
                    created_ns,inserted_ns,completed_ns,latency_ns"
        .to_owned();
    for stage in Stage::ALL {
        if Stage::OF_LINK.contains(&stage) && !has_link {
            continue;
        }
        line.push(',');
        line.push_str(stage.name());
        line.push_str("_ns");
    }
    line
}

#[cfg(test)]
pub(crate) const OPERATIONS: [Operation; 6] = [
    Operation::Read,
    Operation::Write,
    Operation::WriteThrough,
    Operation::Trim,
    Operation::Flush,
    Operation::Other,
];

/// The operation's name in the log.
pub(crate) const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::WriteThrough => "write_through",
        Operation::Trim => "trim",
        Operation::Flush => "flush",
        Operation::Other => "other",
    }
}

/// A field of a CSV file, quoted if need be (RFC 4180).
pub fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn push_text(row: &mut Vec<u8>, text: &str) {
    row.push(b',');
    row.extend_from_slice(text.as_bytes());
}

/// Some thirty numbers a row: several times faster than the formatting machinery.
fn push_number(row: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    row.extend_from_slice(&digits[start..]);
}

fn push_ns(row: &mut Vec<u8>, ps: u64) {
    row.push(b',');
    push_number(row, ps / 1_000);
    let part = (ps % 1_000) as u16;
    row.push(b'.');
    row.extend([part / 100, part / 10 % 10, part % 10].map(|digit| b'0' + digit as u8));
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_model::io::{NamespaceId, QueueId, Status, Tag};
    use mynah_stamp::{LinkSpans, StageSpans};
    use proptest::prelude::*;

    fn request(operation: Operation) -> Request {
        Request {
            placement: Default::default(),
            tag: Tag(1),
            operation,
            namespace: NamespaceId(1),
            sector: 2048,
            sectors: 8,
        }
    }

    fn log_of(flows: &[String], rows: &[(usize, Request, Time, Completion)]) -> String {
        let mut bytes = Vec::new();
        let mut log = RequestLog::new(&mut bytes, Path::new("log.csv"), flows, false).unwrap();
        for (flow, request, created, completion) in rows {
            log.record(*flow, request, *created, (completion, None)).unwrap();
        }
        assert_eq!(log.finish().unwrap(), rows.len() as u64);
        String::from_utf8(bytes).unwrap()
    }

    fn completion(rung: Time, stages: StageSpans) -> Completion {
        let (tag, queue, status) = (Tag(1), QueueId(3), Status::Success);
        Completion { at: rung + stages.total(), tag, queue, status, rung, stages }
    }

    /// Reads exact picoseconds from nanoseconds with three decimals.
    fn ps(field: &str) -> u64 {
        let (whole, part) = field.split_once('.').expect("a decimal point");
        assert_eq!(part.len(), 3);
        format!("{whole}{part}").parse().unwrap()
    }

    #[test]
    fn a_row_reads_like_its_request() {
        let mut stages = StageSpans::default();
        stages.add(Stage::FlashArray, Span::from_ps(60_000_001));
        stages.add(Stage::DataOut, Span::from_ns(1_200));
        let done = completion(Time::from_ns(5_000), stages);
        let row = (0, request(Operation::Read), Time::from_ns(4_000), done);
        let text = log_of(&["a, \"b\"".to_owned()], &[row]);
        let (first, second) = text.trim_end().split_once('\n').unwrap();
        assert_eq!(first, header(false));
        assert!(
            second.starts_with(
                "0,\"a, \"\"b\"\"\",3,read,2048,8,success,\
                 4000.000,5000.000,66200.001,61200.001,1000.000,0.000,"
            ),
            "{second}"
        );
        assert!(second.ends_with(",60000.001,0.000,0.000,1200.000,0.000,0.000,0.000,0.000"));
    }

    #[test]
    fn an_error_names_the_file() {
        let full = PendingFile::create(Path::new("/dev/full")).unwrap();
        let log = RequestLog::create(&full, &[], false).unwrap();
        let error = log.finish().unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }

    #[test]
    fn a_file_is_complete_when_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        let file = PendingFile::create(&path).unwrap();
        let mut log = RequestLog::create(&file, &["a".to_owned()], false).unwrap();
        let done = completion(Time::ZERO, StageSpans::default());
        log.record(0, &request(Operation::Trim), Time::ZERO, (&done, None)).unwrap();
        assert_eq!(log.finish().unwrap(), 1);
        file.keep().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    proptest! {
        #[test]
        fn stages_add_up_to_the_latency(
            spans in prop::collection::vec(0..1u64 << 40, Stage::COUNT - 1),
            has_link in any::<bool>(),
            created in 0..1u64 << 50,
            queued in 0..1u64 << 40,
        ) {
            let mut stages = StageSpans::default();
            let mut link = LinkSpans::default();
            let known = Stage::ALL.into_iter().filter(|&stage| stage != Stage::HostQueue);
            for (stage, &span) in known.zip(&spans) {
                match Stage::OF_LINK.contains(&stage) {
                    false => stages.add(stage, Span::from_ps(span)),
                    true if has_link => link.add(stage, Span::from_ps(span)),
                    true => {}
                }
            }
            let mut done = completion(Time::from_ps(created + queued), stages);
            done.at += link.total();
            let mut bytes = Vec::new();
            let names = ["a".to_owned()];
            let mut log = RequestLog::new(&mut bytes, Path::new("log"), &names, has_link).unwrap();
            let (request, link) = (request(Operation::Write), has_link.then_some(&link));
            log.record(0, &request, Time::from_ps(created), (&done, link)).unwrap();
            log.finish().unwrap();
            let text = String::from_utf8(bytes).unwrap();
            let mut lines = text.lines();
            let names: Vec<_> = lines.next().unwrap().split(',').collect();
            let fields: Vec<_> = lines.next().unwrap().split(',').collect();
            prop_assert_eq!(names.len(), fields.len());
            let of = |name: &str| ps(fields[names.iter().position(|n| *n == name).unwrap()]);
            let sum: u64 = fields[11..].iter().map(|field| ps(field)).sum();
            prop_assert_eq!(sum - of("host_queue_ns"), of("latency_ns"));
            prop_assert_eq!(sum, of("completed_ns") - of("created_ns"));
            prop_assert_eq!(of("host_queue_ns"), queued);
        }
    }
}
