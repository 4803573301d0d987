//! The profile of a simulation: the same records as those of a drive that is served, on virtual
//! time.

use mynah_model::io::{Request, Status};
use mynah_model::stats::{Blame, Holder, Resource};
use mynah_profile::{Head, Header, Side, TimeBase, Writer};
use mynah_result::holder_name;
use mynah_result::output::{OutputError, PendingFile};
use mynah_result::{kind::Kind, recorder::Completed};
use mynah_stamp::{Span, Stage, Time};
use mynah_workload::FlowSpec;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

/// Commands of a simulation have no opcode.
const NO_OPCODE: u8 = 0xff;

/// What the drive's own work can hold.
const IN_THE_DRIVE: [Resource; 4] =
    [Resource::Die, Resource::Channel, Resource::FreeBlock, Resource::CacheSpace];

/// A profile being written by a simulation.
pub(crate) struct ProfileLog {
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
    /// Whether the drive's link is Ethernet, which has stages of its own.
    has_link: bool,
    /// How many flows a drive has.
    flows: usize,
    /// Of several drives: whose records come next.
    drive: Option<u32>,
    /// Which command of its flow, on its drive, comes next.
    next: Vec<u32>,
}

impl ProfileLog {
    /// Begins `file`, for a drive of this name, which has an Ethernet link or not, and flows of
    /// these. Several `drives` are behind a switch: a flow is a session on each of them.
    pub(crate) fn create(
        file: &PendingFile,
        drive: &str,
        flows: &[FlowSpec],
        has_link: bool,
        drives: Option<u32>,
    ) -> Result<ProfileLog, OutputError> {
        let mut header = Header::new(Side::Simulation, drive, TimeBase::Virtual);
        header.kinds = Kind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
        let of_link = Stage::OF_LINK.into_iter().filter(|_| has_link);
        let switch = |stage| drives.map(|_| stage);
        let stages = std::iter::once(Stage::HostQueue)
            .chain(switch(Stage::NetworkRequest))
            .chain(Stage::OF_DRIVE)
            .chain(of_link)
            .chain(switch(Stage::NetworkResponse));
        header.stages = stages.map(|stage| stage.name().to_owned()).collect();
        let names = flows.iter().map(|flow| flow.name.clone());
        header.sessions = match drives {
            None => names.collect(),
            Some(drives) => (0..drives)
                .flat_map(|drive| names.clone().map(move |name| format!("{name} of drive {drive}")))
                .collect(),
        };
        header.closed_loop = Some(flows.iter().all(|flow| flow.depth().is_some()));
        let begun = file.file().and_then(|out| {
            let writer = Writer::new(BufWriter::with_capacity(1 << 18, out), header)?;
            Ok(ProfileLog {
                path: file.path().to_owned(),
                writer,
                flows: flows.len(),
                drive: drives.map(|_| 0),
                next: vec![0; flows.len()],
                has_link,
            })
        });
        begun.map_err(|error| file.error(error))
    }

    /// Which of several drives the next records are of, from 0.
    pub(crate) fn set_drive(&mut self, drive: u32) {
        self.drive = Some(drive);
    }

    /// Appends the record of a completed I/O that transferred `bytes`.
    pub(crate) fn record(
        &mut self,
        flow: usize,
        kind: Kind,
        bytes: u32,
        request: &Request,
        created: Time,
        (completion, link): Completed<'_>,
    ) -> Result<(), OutputError> {
        let flow = flow + self.flows * self.drive.unwrap_or(0) as usize;
        if flow >= self.next.len() {
            self.next.resize(flow + 1, 0);
        }
        let nth = self.next[flow];
        self.next[flow] = nth.wrapping_add(1);
        let head = Head {
            connection: flow as u16,
            queue: completion.queue.0,
            namespace: request.namespace.0 as u16,
            bytes,
            kind: kind as u8,
            opcode: NO_OPCODE,
            status: status_of(completion.status),
            nth,
            block: request.sector,
            begin: created,
            total: completion.at.since(created),
            ..Head::default()
        };
        let waited = completion.rung.since(created);
        let of_drive = Stage::OF_DRIVE.into_iter().map(|stage| completion.stages.get(stage));
        let of_link = Stage::OF_LINK.into_iter().filter(|_| self.has_link);
        let of_link = of_link.map(|stage| link.map_or(Span::ZERO, |link| link.get(stage)));
        let switch = |stage| self.drive.map(|_| completion.stages.get(stage));
        let stages = std::iter::once(waited)
            .chain(switch(Stage::NetworkRequest))
            .chain(of_drive)
            .chain(of_link)
            .chain(switch(Stage::NetworkResponse));
        let path = &self.path;
        let fail = |error| OutputError { path: path.clone(), error, at_start: false };
        self.writer.record(head, stages, &[]).map_err(fail)
    }

    /// The run has ended; for whom its I/Os waited.
    pub(crate) fn finish(mut self, blame: &[Blame]) -> Result<(), OutputError> {
        let mut held = BTreeMap::new();
        for blame in blame.iter().filter(|it| IN_THE_DRIVE.contains(&it.resource)) {
            let holder = match blame.holder {
                Holder::Flow(flow) if flow == blame.victim => "own".to_owned(),
                Holder::Flow(_) => "others".to_owned(),
                of_the_drive => holder_name(of_the_drive, &[]),
            };
            *held.entry(holder).or_default() += blame.wait.as_ps() / 1_000;
        }
        self.writer.held(held);
        let path = self.path;
        let finished = self.writer.finish();
        finished.map(drop).map_err(|error| OutputError { path, error, at_start: false })
    }
}

/// The status that a drive which is served would complete with (NVMe Base 2.0, section 3.3.3.2.1;
/// code type and code).
fn status_of(status: Status) -> u16 {
    match status {
        Status::Success => 0,
        Status::InvalidField => 0x002,
        Status::Aborted => 0x007,
        Status::InvalidNamespace => 0x00b,
        Status::WriteProtected => 0x020,
        Status::LbaOutOfRange => 0x080,
        Status::CapacityExceeded => 0x081,
        Status::WriteFault => 0x280,
        Status::UnrecoveredReadError => 0x281,
    }
}
