//! Recordings that are given to another drive: what was answered when it was recorded is
//! answered there as well, however long that takes.

use mynah_drive_file as drive;
use mynah_lab::recording::{Header, Recording, RecordingError, Replayed, SCHEMA, Tape};
use mynah_model::Drive;
use mynah_model::io::*;
use mynah_stamp::{Span, StageSpans, Time};
use mynah_workload::trace::Remap;
use std::io::{self, Cursor, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What is written stays here.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a recorded host did, and what it was answered.
struct Script(Tape, Memory);

const QUEUE: QueueId = QueueId(7);

fn us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

impl Script {
    fn begin() -> Script {
        let header = Header {
            schema: SCHEMA.into(),
            drive: "another".into(),
            drive_text: String::new(),
            drive_hash: String::new(),
            state_hash: String::new(),
            saved_state: None,
            precondition: "none".into(),
            settling: None,
            occupancy: vec![],
            flows: vec![],
            report_moves: false,
            seed: 1,
            ramp_ps: 0,
            precision: None,
            notes: vec![],
        };
        let memory = Memory::default();
        Script(Tape::new(Box::new(memory.clone()), &header).unwrap(), memory)
    }

    fn create(&mut self, at: Time, kind: QueueKind) {
        let queue = Queue {
            id: QUEUE,
            kind,
            flow: FlowId(0),
            priority: Default::default(),
            completion_entries: 64,
        };
        self.0.control(at, &Control::CreateQueue(queue)).unwrap();
    }

    fn command(&mut self, at: Time, tag: u32, operation: Operation, sector: u64) {
        let request = Request {
            placement: Default::default(),
            tag: Tag(tag),
            operation,
            namespace: NamespaceId(1),
            sector,
            sectors: 8,
        };
        self.0.command(at, QUEUE, &request).unwrap();
    }

    fn answer(&mut self, at: Time, tag: u32, status: Status) {
        let completion = Completion {
            at,
            tag: Tag(tag),
            queue: QUEUE,
            status,
            rung: at,
            stages: StageSpans::default(),
        };
        self.0.completed(&completion, at).unwrap();
    }

    fn control(&mut self, at: Time, control: Control) {
        self.0.control(at, &control).unwrap();
    }

    fn end(self, at: Time) -> Recording {
        let Script(tape, memory) = self;
        tape.finish(at).unwrap();
        let bytes = std::mem::take(&mut *memory.0.lock().unwrap());
        Recording::read(Path::new("a.rec"), Box::new(Cursor::new(bytes))).unwrap()
    }
}

/// What a shutdown leaves to be written, and comes long after a host's last I/O, is neither its I/O
/// nor its time.
#[test]
fn what_is_no_hosts_is_not_measured() {
    let script = || {
        let mut script = Script::begin();
        script.create(us(0), QueueKind::Fetched);
        script.command(us(10), 1, Operation::Write, 0);
        script.command(us(5_000_000), 2, Operation::Write, 8);
        let flush = Request {
            placement: Default::default(),
            tag: Tag(3),
            operation: Operation::Flush,
            namespace: NamespaceId(1),
            sector: 0,
            sectors: 0,
        };
        script.0.own_command(us(9_000_000), QUEUE, &flush).unwrap();
        script.answer(us(9_900_000), 3, Status::Success);
        script.end(us(9_900_000))
    };
    let mut measured = vec![];
    let remapped = script().resimulate(&mut slow(&[]), Remap::Refuse, |_, event| {
        if let Replayed::Completed { completion, request, .. } = event {
            assert_eq!(completion.status, Status::Success);
            measured.push(request.map(|request| request.operation));
        }
        true
    });
    assert_eq!(remapped.unwrap(), 0);
    // It is done all the same.
    assert_eq!(measured, [Some(Operation::Write), Some(Operation::Write), None]);
}

/// A drive whose reads take a millisecond.
fn slow(more: &[&str]) -> Drive {
    let small = [
        "geometry.blocks_per_plane=64",
        "geometry.channels=1",
        "firmware.read=1ms",
        "firmware.cores=64",
    ];
    let overrides: Vec<String> = small.iter().chain(more).map(|&text| text.to_owned()).collect();
    Drive::new(drive::load("enterprise-tlc", &overrides).unwrap().config).unwrap()
}

/// What came of each command: where it was, and how it ended.
fn given(
    mut recording: Recording,
    mut drive: Drive,
    remap: Remap,
) -> Result<(u64, Vec<(u64, Status)>), RecordingError> {
    let mut all = vec![];
    let remapped = recording.resimulate(&mut drive, remap, |_, event| {
        if let Replayed::Completed { completion, request: Some(request), .. } = event {
            all.push((request.sector, completion.status));
        }
        true
    })?;
    all.sort_unstable_by_key(|&(sector, _)| sector);
    Ok((remapped, all))
}

/// Hosts leave when they have their answers. Before that was so, what a slower drive had not
/// answered by then was aborted.
#[test]
fn a_queue_goes_when_what_was_answered_has_been_answered() {
    for kind in [QueueKind::Fetched, QueueKind::Memory] {
        let mut script = Script::begin();
        for round in 0..3 {
            let at = round * 100;
            // The same queue number and the same tags again, while the drive is far behind.
            script.create(us(at), kind);
            if kind == QueueKind::Memory {
                script.0.ring(us(at + 1), QUEUE, 17).unwrap();
            }
            for tag in 0..17 {
                let sector = (round * 17 + u64::from(tag)) * 8;
                script.command(us(at + 1), tag, Operation::Read, sector);
            }
            (0..16).for_each(|tag| script.answer(us(at + 50), tag, Status::Success));
            script.control(us(at + 60), Control::DeleteQueue(QUEUE));
            script.answer(us(at + 60), 16, Status::Aborted);
        }
        let (remapped, all) = given(script.end(us(300)), slow(&[]), Remap::Refuse).unwrap();
        assert_eq!(remapped, 0);
        let answered = |&&(sector, _): &&(u64, Status)| sector / 8 % 17 < 16;
        assert_eq!(all.iter().filter(answered).count(), 48, "{kind:?}: {all:?}");
        let mut answered = all.iter().filter(answered);
        assert!(answered.all(|&(_, status)| status == Status::Success), "{kind:?}: {all:?}");
    }
}

#[test]
fn who_had_no_answer_when_the_queue_went_is_cut_off() {
    let mut script = Script::begin();
    script.create(us(0), QueueKind::Fetched);
    script.command(us(1), 3, Operation::Read, 0);
    script.control(us(60), Control::DeleteQueue(QUEUE));
    script.answer(us(60), 3, Status::Aborted);
    let (_, all) = given(script.end(us(100)), slow(&[]), Remap::Refuse).unwrap();
    assert_eq!(all, [(0, Status::Aborted)]);
    // A reset answers nobody, but what was answered before it is answered here.
    let mut script = Script::begin();
    script.create(us(0), QueueKind::Fetched);
    script.command(us(1), 3, Operation::Read, 0);
    script.command(us(1), 4, Operation::Read, 1 << 12);
    script.answer(us(50), 3, Status::Success);
    script.control(us(60), Control::Reset);
    let (_, all) = given(script.end(us(100)), slow(&[]), Remap::Refuse).unwrap();
    assert!(all.contains(&(0, Status::Success)), "{all:?}");
    assert!(all.iter().all(|&(_, status)| status == Status::Success), "{all:?}");
}

/// A tag comes again when its command was answered, which the drive here need not have done.
#[test]
fn an_abort_is_for_the_command_that_had_no_answer() {
    let mut script = Script::begin();
    script.create(us(0), QueueKind::Fetched);
    // More than the cache holds, on a drive that takes a second to program.
    (0..600).for_each(|tag| script.command(us(1), tag, Operation::Write, u64::from(tag) * 8));
    (0..600).for_each(|tag| script.answer(us(2), tag, Status::Success));
    for round in 0..8u64 {
        let sector = (1000 + round) * 8;
        script.command(us(3), 99, Operation::Write, sector);
        if round < 7 {
            script.answer(us(3), 99, Status::Success);
        }
    }
    // When all of them have reached the cache.
    script.control(us(50_000), Control::Abort(QUEUE, Tag(99)));
    let drive = slow(&["flash.program=1s", "cache.size=2MiB"]);
    let (_, all) = given(script.end(us(60_000)), drive, Remap::Refuse).unwrap();
    let aborted: Vec<u64> =
        all.iter().filter(|it| it.1 == Status::Aborted).map(|&(sector, _)| sector / 8).collect();
    assert_eq!(aborted, [1007]);
    assert_eq!(all.len(), 608);
}

#[test]
fn what_lies_beyond_the_end_is_refused_or_folded() {
    let capacity = slow(&[]).namespace_sectors(NamespaceId(1)).unwrap();
    let script = |sector| {
        let mut script = Script::begin();
        script.create(us(0), QueueKind::Fetched);
        script.command(us(1), 1, Operation::Read, 64);
        script.command(us(2), 2, Operation::Write, sector);
        script.answer(us(50), 1, Status::Success);
        script.answer(us(50), 2, Status::Success);
        script.end(us(100))
    };
    let error = given(script(capacity + 80), slow(&[]), Remap::Refuse).unwrap_err();
    let help = miette::Diagnostic::help(&error).unwrap().to_string();
    assert!(error.to_string().contains("outside this drive's namespace"), "{error}");
    assert!(help.contains("--remap modulo"), "{help}");
    let done = Status::Success;
    for (sector, folded) in
        [(capacity + 80, 80), (3 * capacity + 16, 16), (capacity - 4, capacity - 8)]
    {
        let (remapped, all) = given(script(sector), slow(&[]), Remap::Modulo).unwrap();
        let mut expected = [(64, done), (folded, done)];
        expected.sort_unstable_by_key(|&(sector, _)| sector);
        assert_eq!((remapped, &all[..]), (1, &expected[..]), "{sector}");
    }
    // Nothing is folded that fits.
    let (remapped, all) = given(script(capacity - 8), slow(&[]), Remap::Modulo).unwrap();
    assert_eq!((remapped, all.len()), (0, 2));
    // A deallocation is cut off: what the drive does not have need not be deallocated.
    let mut script = Script::begin();
    script.create(us(0), QueueKind::Fetched);
    let whole = Request {
        placement: Default::default(),
        tag: Tag(1),
        operation: Operation::Trim,
        namespace: NamespaceId(1),
        sector: 0,
        sectors: 2 * capacity as u32,
    };
    script.0.command(us(1), QUEUE, &whole).unwrap();
    let (remapped, all) = given(script.end(us(2)), slow(&[]), Remap::Modulo).unwrap();
    assert_eq!((remapped, &all[..]), (1, &[(0, done)][..]));
}
