//! What a guest's commands do to the model is recorded, and comes out the same when the
//! recording is replayed.

use crate::support::Host;
use crate::{pairs, shared};
use mynah_device::{RamStore, Tap, Timing};
use mynah_lab::recording::{Header, Recording, Replayed, SCHEMA, SCHEMA_PAIRS, Tape};
use mynah_model::Drive;
use mynah_model::config::Config;
use mynah_model::io::{Completion, Control, Operation, QueueId, Request, Tag};
use mynah_model::keys::{Decision, KeyRequest};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::command::StoreCondition;
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{Status, SubmissionEntry};
use mynah_workload::trace::Remap;
use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A file in memory.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one thread").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes everything down.
#[derive(Clone)]
struct Recorder(Arc<Mutex<Option<Tape>>>);

impl Recorder {
    fn write(&self, record: impl FnOnce(&mut Tape) -> std::io::Result<()>) {
        let mut tape = self.0.lock().expect("one thread");
        record(tape.as_mut().expect("it has not ended")).expect("memory takes it");
    }
}

impl Tap for Recorder {
    fn command(&mut self, at: Time, queue: QueueId, request: &Request) {
        self.write(|tape| tape.command(at, queue, request));
    }
    fn own_command(&mut self, at: Time, queue: QueueId, request: &Request) {
        self.write(|tape| tape.own_command(at, queue, request));
    }
    fn key_command(&mut self, at: Time, queue: QueueId, request: &KeyRequest) {
        self.write(|tape| tape.key_command(at, queue, request));
    }
    fn decided(&mut self, at: Time, tag: Tag, decision: &Decision) {
        self.write(|tape| tape.decided(at, tag, decision));
    }
    fn ring(&mut self, at: Time, queue: QueueId, count: u32) {
        self.write(|tape| tape.ring(at, queue, count));
    }
    fn data_arrived(&mut self, at: Time, tag: Tag) {
        self.write(|tape| tape.data_arrived(at, tag));
    }
    fn cq_freed(&mut self, at: Time, queue: QueueId, count: u32) {
        self.write(|tape| tape.cq_freed(at, queue, count));
    }
    fn control(&mut self, at: Time, control: &Control) {
        self.write(|tape| tape.control(at, control));
    }
    fn completed(&mut self, completion: &Completion, created: Time) {
        self.write(|tape| tape.completed(completion, created));
    }
}

fn header() -> Header {
    Header {
        schema: SCHEMA.into(),
        drive: "small".into(),
        drive_text: String::new(),
        drive_hash: String::new(),
        state_hash: String::new(),
        saved_state: None,
        precondition: "none".into(),
        settling: None,
        precision: None,
        occupancy: vec![],
        flows: vec![],
        report_moves: true,
        seed: 1,
        ramp_ps: 0,
        notes: vec![],
    }
}

fn drive(change: impl FnOnce(&mut Config)) -> Drive {
    let mut config = shared::small();
    change(&mut config);
    let mut drive = Drive::new(config).expect("a drive");
    drive.report_moves(true);
    drive
}

/// A guest that does a little of everything; the recording, and how many commands ended.
fn record() -> (Vec<u8>, usize) {
    let file = Shared::default();
    let tape = Tape::new(Box::new(file.clone()), &header()).expect("memory takes it");
    let recorder = Recorder(Arc::new(Mutex::new(Some(tape))));
    let store = Box::new(RamStore::new());
    let mut host = Host::cold(Timing::Modelled, |_, _| {}, |_| {}, store);
    host.subsystem.set_tap(Box::new(recorder.clone()));
    host.boot(16);
    for round in 0..3u64 {
        host.create_pair(1, 64);
        host.create_pair(2, 4);
        for n in 0..150u64 {
            let number = (round * 1000 + n).wrapping_mul(0x9e37_79b9);
            let (start, count) = (number >> 7 & 0x3ff, 1 + (number >> 20 & 31) as u32);
            let mut entry = match number % 11 {
                0..4 => shared::read(start, count),
                4..7 => shared::write(start, count),
                7 => {
                    let mut through = shared::write(start, count);
                    through.dword12.set(through.dword12.get() | 1 << 30);
                    through
                }
                8 => shared::entry(nvm::FLUSH, 1),
                9 => shared::blocks(nvm::COMPARE, 1, start, count),
                _ => shared::blocks(nvm::VERIFY, 1, start, count),
            };
            let at = host.pages(u64::from(count) * 512);
            host.set_prps(&mut entry, at, u64::from(count) * 512);
            let queue = if n % 4 == 0 { 2 } else { 1 };
            // The small queue is kept from running over.
            if queue == 2 {
                host.call(2, entry);
            } else {
                host.submit(1, entry);
                host.wait(Span::from_us(number >> 30 & 31));
            }
        }
        let mut bad = SubmissionEntry { opcode: 0x55, ..Default::default() };
        bad.namespace_id.set(1);
        assert_eq!(host.status(1, bad), Status::INVALID_OPCODE);
        let copied = copy(&mut host);
        assert_eq!(host.status(1, copied), Status::SUCCESS);
        // A queue goes with its commands under way, and then all the others.
        let mut left = shared::read(0, 8);
        let at = host.pages(4096);
        host.set_prps(&mut left, at, 4096);
        for _ in 0..5 {
            host.insert(1, left);
        }
        host.ring(1);
        host.wait(Span::from_us(3));
        if round == 1 {
            assert_eq!(host.delete(admin::DELETE_SUBMISSION_QUEUE, 1), Status::SUCCESS);
        }
        host.set_register(offset::CC, 0);
        host.submissions.clear();
        host.completions.clear();
        host.wait(Span::from_us(700));
        host.boot(16);
    }
    host.wait(Span::from_ms(50));
    let tape = recorder.0.lock().expect("one thread").take().expect("it has not ended");
    tape.finish(host.subsystem.drive().now()).expect("memory takes it");
    let bytes = file.0.lock().expect("one thread").clone();
    let ended = host.ears.heard.iter().filter(|it| it.due.is_some()).count();
    (bytes, ended)
}

/// A Copy of two ranges, and so of several steps.
fn copy(host: &mut Host) -> SubmissionEntry {
    let mut ranges = [0; 64];
    for (at, start) in [(0, 8u64), (32, 40)] {
        ranges[at + 8..at + 16].copy_from_slice(&start.to_le_bytes());
        ranges[at + 16] = 7;
    }
    let at = host.put(&ranges);
    let mut entry = shared::blocks(nvm::COPY, 1, 100, 2);
    entry.set_prps(at, 0);
    entry
}

/// A guest of key-value commands: queues go with commands of all kinds under way, and a namespace is
/// formatted. The recording.
fn record_pairs() -> Vec<u8> {
    let file = Shared::default();
    let header = Header { schema: SCHEMA_PAIRS.into(), ..header() };
    let tape = Tape::new(Box::new(file.clone()), &header).expect("memory takes it");
    let recorder = Recorder(Arc::new(Mutex::new(Some(tape))));
    let store = Box::new(RamStore::new());
    let mut host = Host::cold(Timing::Modelled, |_, _| {}, pairs::mixed, store);
    host.subsystem.set_tap(Box::new(recorder.clone()));
    host.boot(16);
    for round in 0..6u64 {
        host.create_pair(1, 64);
        for n in 0..200u64 {
            let number = (round * 1000 + n).wrapping_mul(0x9e37_79b9);
            let name = format!("key{}", number >> 9 & 31);
            let bytes = (number >> 15 & 0x1fff) as u32;
            let (mut entry, bytes) = match (number >> 4) % 12 {
                0..3 => (pairs::store(&name, bytes), bytes),
                3 => (pairs::store_if(StoreCondition::IfExists, &name, bytes), bytes),
                4 => (pairs::store_if(StoreCondition::IfAbsent, &name, bytes), bytes),
                5..9 => (pairs::retrieve(&name, bytes), bytes),
                9 => (pairs::delete(&name), 0),
                10 => (pairs::exist(&name), 0),
                _ => (pairs::list(&name, 4 + bytes), 4 + bytes),
            };
            let at = host.pages(u64::from(bytes).max(1));
            host.set_prps(&mut entry, at, bytes.into());
            // As many are under way as the queue holds when it goes, in every other round.
            if n % 16 == 0 {
                host.call(1, entry);
            } else {
                host.submit(1, entry);
                host.wait(Span::from_us(number >> 30 & 7));
            }
        }
        if round == 2 {
            assert_eq!(host.delete(admin::DELETE_SUBMISSION_QUEUE, 1), Status::SUCCESS);
        }
        host.set_register(offset::CC, 0);
        host.submissions.clear();
        host.completions.clear();
        host.wait(Span::from_us(if round % 2 == 0 { 5 } else { 700 }));
        host.boot(16);
        if round == 3 {
            let mut format = shared::entry(admin::FORMAT_NVM, 1);
            format.set_prps(0, 0);
            assert_eq!(host.status(0, format), Status::SUCCESS);
        }
    }
    host.wait(Span::from_ms(50));
    let tape = recorder.0.lock().expect("one thread").take().expect("it has not ended");
    tape.finish(host.subsystem.drive().now()).expect("memory takes it");
    file.0.lock().expect("one thread").clone()
}

/// How many commands of each kind have succeeded, and how many had another end.
fn count_keys(counts: &mut BTreeMap<&'static str, usize>, event: &Replayed<'_>) {
    if let Replayed::CompletedKey { done, completion, .. } = event {
        let kind = match completion.status {
            mynah_model::io::Status::Success => done.kind.name(),
            _ => "failed",
        };
        *counts.entry(kind).or_default() += 1;
    }
}

#[test]
fn what_a_guest_does_with_pairs_is_replayed_and_given_to_another_drive() {
    let bytes = record_pairs();
    let mut counts = BTreeMap::new();
    let mut replayed = open(&bytes);
    let mut same = drive(pairs::mixed);
    let again = replayed.replay(&mut same, |_, event| {
        count_keys(&mut counts, &event);
        true
    });
    again.expect("the same again");
    for kind in ["store", "update", "retrieve", "delete", "exist", "list"] {
        assert!(counts.get(kind).is_some_and(|&count| count > 20), "{kind}: {counts:?}");
    }
    let left = replayed.pairs_seen(&same).expect("pairs");
    assert!(left.counts.pairs > 0 && left.live_bytes.is_some_and(|bytes| bytes > 0), "{left:?}");
    // Another drive is not the one that was recorded, but takes the commands.
    let slower = |config: &mut Config| {
        pairs::mixed(config);
        config.key_value.as_mut().expect("pairs").managers = 1;
        config.firmware.read = Span::from_us(20);
    };
    assert!(open(&bytes).replay(&mut drive(slower), |_, _| true).is_err());
    let mut there = BTreeMap::new();
    let mut given = open(&bytes);
    let mut other = drive(slower);
    let taken = given.resimulate(&mut other, Remap::Refuse, |_, event| {
        count_keys(&mut there, &event);
        true
    });
    taken.expect("it takes them");
    let all = |counts: &BTreeMap<&str, usize>| counts.values().sum::<usize>();
    assert!(all(&there) >= all(&counts), "{there:?} {counts:?}");
    let left = given.pairs_seen(&other).expect("pairs");
    assert!(left.counts.pairs > 0 && left.live_bytes.is_some_and(|bytes| bytes > 0), "{left:?}");
}

fn open(bytes: &[u8]) -> Recording {
    let file = Box::new(Cursor::new(bytes.to_vec()));
    Recording::read(Path::new("in memory"), file).expect("a recording")
}

#[test]
fn what_a_guest_does_is_replayed_to_the_picosecond() {
    let (bytes, ended) = record();
    assert!(ended > 400, "{ended}");
    let mut completions = 0;
    let mut others = 0;
    open(&bytes)
        .replay(&mut drive(|_| {}), |_, event| {
            if let Replayed::Completed { request, .. } = event {
                completions += 1;
                let request = request.map(|it| it.operation);
                others += usize::from(request == Some(Operation::Other));
            }
            true
        })
        .expect("the same again");
    // Those of deleted queues, and the steps beside the queues, are more.
    assert!(completions > ended, "{completions} {ended}");
    assert!(others > 20, "{others}");
    // Another drive is not the one that was recorded.
    let slower = |config: &mut Config| config.firmware.read = Span::from_us(2);
    assert!(open(&bytes).replay(&mut drive(slower), |_, _| true).is_err());
}

#[test]
fn what_a_guest_did_is_given_to_another_drive() {
    let (bytes, _) = record();
    let slower = |config: &mut Config| config.firmware.read = Span::from_us(20);
    let mut answered = BTreeMap::new();
    let recorded = open(&bytes).replay(&mut drive(|_| {}), |_, event| {
        count(&mut answered, &event);
        true
    });
    recorded.expect("the same again");
    assert!(answered.len() >= 5 && answered.values().sum::<usize>() > 400, "{answered:?}");
    let mut there = BTreeMap::new();
    let given = open(&bytes).resimulate(&mut drive(slower), Remap::Refuse, |_, event| {
        count(&mut there, &event);
        true
    });
    given.expect("it takes them");
    // What went with its queue when it was recorded may be answered there.
    for (operation, count) in answered {
        let here = there.get(&operation).copied().unwrap_or(0);
        assert!(here >= count, "{operation}: {here} of {count}");
    }
}

/// Counts a command that succeeded.
fn count(answered: &mut BTreeMap<String, usize>, event: &Replayed<'_>) {
    if let Replayed::Completed { request: Some(request), completion, .. } = event
        && completion.status == mynah_model::io::Status::Success
    {
        *answered.entry(format!("{:?}", request.operation)).or_default() += 1;
    }
}
