//! Pairs of a drive whose store is a file: flushed ones outlive the process whatever ends it, and after
//! an end in order the drive's own state comes back with them.

use crate::serving::support::*;
use mynah_runtime::host::Options;
use mynah_runtime::host::key_value::{Client, Keys, Needs, Request};
use mynah_runtime::host::load::Where;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::StoreCondition;
use mynah_wire::nvme::key::Key;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A small drive on the file `bytes` of a folder, with keys and with blocks.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let store = format!("file:{}", self.path("bytes").display());
        let drive = ["serve", "--set", "geometry.blocks_per_plane=48"];
        let rest = ["--set", "over_provisioning=20%", "--functional", "--tcp", "127.0.0.1:0"];
        let namespaces = ["--namespace", "256MiB,kv", "--namespace", "32MiB", "--store", &store];
        let all = [&drive[..], &rest, &namespaces, more].concat();
        all.into_iter().map(str::to_owned).collect()
    }

    fn serve(&self, more: &[&str]) -> Served {
        let arguments = self.arguments(more);
        Served::start(&mut mynah(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// What a start that fails says.
    fn refused(&self) -> String {
        let arguments = self.arguments(&[]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = mynah(&arguments).output().unwrap();
        let said = text(&output.stderr).replace('│', "");
        assert_eq!(output.status.code(), Some(2), "{said}");
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn kill(mut served: Served) {
    served.child.kill().unwrap();
    served.child.wait().unwrap();
}

/// Ends it in order; what it said.
fn stop(served: Served) -> String {
    let (code, said, errors) = served.stop();
    assert_eq!(code, 0, "{said}{errors}");
    errors
}

fn connect(served: &Served, requests: u16) -> Client {
    let (address, nqn) = (served.address().to_owned(), str_of(&served.ready["nqn"]).to_owned());
    let place = Where::Tcp(Box::new(Options::plain(address, nqn, Duration::ZERO, PATIENCE)));
    Client::connect(&place, None, Needs { requests, bytes: None }, PATIENCE).expect("it connects")
}

fn key(number: u64) -> Key {
    Key::new(format!("key:{number}").as_bytes()).unwrap()
}

fn store(number: u64, value: Vec<u8>) -> Request {
    Request::Store { key: key(number), value, condition: StoreCondition::Always }
}

fn perform(client: &mut Client, request: Request) -> Vec<u8> {
    client.perform(request).and_then(|done| done.succeeded()).expect("it succeeds").data
}

/// All keys with their values.
fn all(client: &mut Client) -> BTreeMap<Key, Vec<u8>> {
    let mut keys = Keys::new(client, Key::EMPTY);
    let mut all = BTreeMap::new();
    while let Some(page) = keys.next_page(client).expect("a page") {
        for key in page {
            let bytes = client.value_bytes_max().min(1 << 16);
            all.insert(key, perform(client, Request::Retrieve { key, bytes }));
        }
    }
    all
}

/// Vigna's SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let number = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ number >> 31) % below
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes = [0, 5, 100, 4096, 20_000][self.below(5) as usize];
        let byte = self.below(256) as u8;
        (0..bytes).map(|at: u32| byte.wrapping_add(at as u8)).collect()
    }

    fn change(&mut self) -> (u64, Option<Vec<u8>>) {
        let number = self.below(40);
        (number, (self.below(4) > 0).then(|| self.value()))
    }
}

fn request((number, value): (u64, Option<Vec<u8>>)) -> Request {
    match value {
        Some(value) => store(number, value),
        None => Request::Delete(key(number)),
    }
}

/// What a key may have: what was there at the last flush, and everything since.
type MayBe = BTreeMap<Key, Vec<Option<Vec<u8>>>>;

fn note(may_be: &mut MayBe, number: u64, value: Option<Vec<u8>>) {
    may_be.entry(key(number)).or_insert_with(|| vec![None]).push(value);
}

#[track_caller]
fn says(errors: &str, what: &str) {
    assert!(errors.contains(what), "{what}: {errors}");
}

const KEPT: &str = "the drive's own state is, too";
const UNORDERLY: &str = "the drive's own state is made anew: the run before did not end in order";

/// Rounds of changes, of flushes, of ends of either kind, and of kills while commands are under way.
#[test]
fn flushed_pairs_outlive_a_kill() {
    let place = Place::new();
    let mut random = Random(25);
    let mut may_be = MayBe::new();
    for round in 0..8 {
        let served = place.serve(if round % 2 == 0 { &["--speed", "max"] } else { &[] });
        let mut client = connect(&served, 32);
        let found = all(&mut client);
        for (key, values) in &mut may_be {
            let value = found.get(key).cloned();
            assert!(values.contains(&value), "round {round}: {key:?} is {value:?} of {values:?}");
            *values = vec![value];
        }
        assert!(found.keys().all(|key| may_be.contains_key(key)));
        for step in 0..120 {
            let (number, value) = random.change();
            note(&mut may_be, number, value.clone());
            perform(&mut client, request((number, value)));
            if step == 100 || random.below(30) == 0 {
                perform(&mut client, Request::Flush);
                may_be.values_mut().for_each(|it| drop(it.drain(..it.len() - 1)));
            }
        }
        if round % 4 == 3 {
            drop(client);
            stop(served);
            may_be.values_mut().for_each(|it| drop(it.drain(..it.len() - 1)));
            continue;
        }
        // Whatever of these is decided before the end.
        while client.can_submit() {
            let (number, value) = random.change();
            note(&mut may_be, number, value.clone());
            client.submit(request((number, value)));
        }
        let _ = client.poll();
        kill(served);
    }
}

#[test]
fn the_drives_own_state_comes_back_with_its_pairs() {
    let place = Place::new();
    let served = place.serve(&["--precondition", "none"]);
    let mut client = connect(&served, 1);
    for number in 0..300 {
        perform(&mut client, store(number, vec![number as u8; 3000]));
    }
    // Numbers of pairs that are used again.
    (0..300).step_by(3).for_each(|number| drop(perform(&mut client, Request::Delete(key(number)))));
    (400..450).for_each(|number| drop(perform(&mut client, store(number, vec![7; 100]))));
    let before = all(&mut client);
    assert_eq!(before.len(), 250);
    drop(client);
    stop(served);
    for (kind, said) in [("stop", KEPT), ("kill", KEPT), ("stop", UNORDERLY), ("stop", KEPT)] {
        let served = place.serve(&[]);
        let mut client = connect(&served, 1);
        assert_eq!(all(&mut client), before);
        assert!(!client.perform(Request::Exist(key(0))).unwrap().is(Status::SUCCESS));
        // The model knows the pairs, too.
        perform(&mut client, store(1, before[&key(1)].clone()));
        perform(&mut client, Request::Flush);
        drop(client);
        if kind == "kill" {
            kill(served);
            continue;
        }
        let errors = stop(served);
        says(&errors, said);
        says(&errors, "the namespaces are those that the store has kept");
    }
    // What fits a state no more is laid down anew.
    let bytes = std::fs::read(place.path("bytes.state")).unwrap();
    std::fs::write(place.path("bytes.state"), &bytes[..bytes.len() / 2]).unwrap();
    let served = place.serve(&[]);
    assert_eq!(all(&mut connect(&served, 1)), before);
    says(&stop(served), "was not saved with these bytes, or is damaged");
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        // Somebody may be at work there: what has gone meanwhile is left out.
        let copied = std::fs::copy(from, to);
        let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        assert!(copied.as_ref().err().is_none_or(gone), "{}: {copied:?}", from.display());
    }
}

#[test]
fn pairs_that_do_not_belong_to_the_file_are_refused() {
    let place = Place::new();
    let served = place.serve(&["--speed", "max"]);
    let mut client = connect(&served, 1);
    (0..20).for_each(|number| drop(perform(&mut client, store(number, vec![1; 100]))));
    drop(client);
    copy(&place.path("bytes.pairs"), &place.path("early"));
    let mut client = connect(&served, 1);
    (0..20).for_each(|number| drop(perform(&mut client, store(number, vec![2; 100]))));
    drop(client);
    stop(served);
    let pairs = place.path("bytes.pairs");
    copy(&pairs, &place.path("whole"));
    let put = |from: &str| {
        let _ = std::fs::remove_dir_all(&pairs);
        copy(&place.path(from), &pairs);
    };
    let other = "the pairs that the store has kept are not those of its namespaces";
    std::fs::remove_dir_all(&pairs).unwrap();
    says(&place.refused(), other);
    // Older ones than the file ended with.
    put("early");
    says(&place.refused(), other);
    // A journal of which the end is missing, which the engine does not mind.
    put("whole");
    let journal = std::fs::read_dir(&pairs).unwrap().map(|entry| entry.unwrap().path());
    let mut journals: Vec<_> = journal.filter(|it| it.extension().is_some()).collect();
    journals.sort();
    let journal = journals.pop().expect("a journal");
    let bytes = std::fs::read(&journal).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    std::fs::write(&journal, &bytes[..end / 2]).unwrap();
    says(&place.refused(), other);
    // Not even pairs.
    std::fs::remove_dir_all(&pairs).unwrap();
    std::fs::write(&pairs, "x").unwrap();
    says(&place.refused(), "bytes.pairs: it is not a folder");
    std::fs::remove_file(&pairs).unwrap();
    std::fs::create_dir(&pairs).unwrap();
    std::fs::write(pairs.join("letter"), "x").unwrap();
    says(&place.refused(), "`letter` does not belong there");
    // Of another file.
    put("whole");
    let bytes = place.path("bytes");
    std::fs::rename(&bytes, place.path("kept")).unwrap();
    says(&place.refused(), other);
    std::fs::rename(place.path("kept"), &bytes).unwrap();
    let served = place.serve(&[]);
    assert_eq!(all(&mut connect(&served, 1)).len(), 20);
    let again = place.refused();
    says(&again, "another process is using it");
    stop(served);
}

fn limit(served: &Served, bytes: Option<u64>) {
    let new = Rlimit { current: bytes, maximum: None };
    prlimit(Some(Pid::from_child(&served.child)), Resource::Fsize, new).unwrap();
}

#[test]
fn a_full_disk_is_told_and_got_over() {
    let place = Place::new();
    let served = place.serve(&["--speed", "max"]);
    let mut client = connect(&served, 1);
    // As a full disk, but that it needs no disk.
    limit(&served, Some(200 << 10));
    let mut stored = BTreeMap::new();
    let failed = (0..200).find(|&number| {
        let value = vec![number as u8; 8000];
        let done = client.perform(store(number, value.clone())).expect("an answer");
        if done.is(Status::SUCCESS) {
            stored.insert(key(number), value);
        } else {
            assert!(done.is(Status::CAPACITY_EXCEEDED), "{}", done.outcome());
        }
        let flushed = client.perform(Request::Flush).expect("an answer");
        !done.is(Status::SUCCESS) || !flushed.is(Status::SUCCESS)
    });
    assert!(failed.is_some(), "there is room");
    // Room can be made.
    let deleted = stored.pop_first().expect("some were stored").0;
    perform(&mut client, Request::Delete(deleted));
    limit(&served, None);
    let began = Instant::now();
    while !client.perform(Request::Flush).expect("an answer").is(Status::SUCCESS) {
        assert!(began.elapsed() < PATIENCE, "it takes nothing any more");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(all(&mut client), stored);
    drop(client);
    let mut served = served;
    served.child.kill().unwrap();
    let (mut errors, mut pipe) = (String::new(), served.child.stderr.take().unwrap());
    std::io::Read::read_to_string(&mut pipe, &mut errors).unwrap();
    served.child.wait().unwrap();
    says(&errors, "bytes.pairs: there is no room for what was written");
    says(&errors, "bytes.pairs: there is room again");
    drop(served);
    let served = place.serve(&[]);
    assert_eq!(all(&mut connect(&served, 1)), stored);
    stop(served);
}
