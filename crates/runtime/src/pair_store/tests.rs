//! The store against a map, over restarts and ends that come suddenly; faults; damaged folders.

use super::*;
use crate::pair_store::engine::Keeper;
use proptest::prelude::*;
use std::path::Path;
use std::sync::{Arc, Mutex};

type Map = BTreeMap<(u32, Vec<u8>), Vec<u8>>;
/// Of each key everything that it may have.
type MayBe = BTreeMap<(u32, Vec<u8>), Vec<Option<Vec<u8>>>>;

/// A store, and what its owner knows: where values are, by set and key.
struct Owner<E> {
    store: PairStore<Vec<u8>, E>,
    places: BTreeMap<(u32, Vec<u8>), (Place, u32)>,
}

fn ram() -> mynah_device::ArenaSource<Vec<u8>> {
    Box::new(|bytes| vec![0; bytes])
}

fn opened(path: &Path) -> Owner<Workers<Task, TaskResult>> {
    let folder = PairFolder::open(path, ram()).expect("it can be used");
    Owner::of(PairStore::new(folder).expect("a thread"))
}

impl<E: Executor<Task, TaskResult>> Owner<E> {
    fn of(mut store: PairStore<Vec<u8>, E>) -> Owner<E> {
        let mut places = BTreeMap::new();
        for set in store.recalled.keys().copied().collect::<Vec<_>>() {
            store.recall(set, &mut |key, _, place, bytes| {
                assert!(places.insert((set, key.to_vec()), (place, bytes)).is_none());
            });
        }
        Owner { store, places }
    }

    fn put(&mut self, set: u32, key: &[u8], value: &[u8]) -> Ready {
        let bytes = value.len() as u32;
        let place = self.store.reserve(bytes).expect("memory");
        self.store.bytes_mut(place, bytes).expect("kept").copy_from_slice(value);
        let place = self.store.finish(place, None);
        let before = self.places.insert((set, key.to_vec()), (place, bytes));
        let ready = self.store.keep(set, key, place, bytes);
        if let Some((place, _)) = before {
            self.store.release(place);
        }
        ready
    }

    fn remove(&mut self, set: u32, key: &[u8]) {
        if let Some((place, _)) = self.places.remove(&(set, key.to_vec())) {
            self.store.release(place);
            self.store.forget(set, key);
        }
    }

    fn clear(&mut self, set: u32) {
        let gone = self.places.extract_if(.., |(of, _), _| *of == set);
        gone.for_each(|(_, (place, _))| self.store.release(place));
        self.store.forget_all(set);
    }

    /// Result of a job, which is waited for.
    fn end_of(&mut self, ready: Ready) -> Result<(), StoreError> {
        let Ready::Later(wanted) = ready else { return Ok(()) };
        loop {
            match self.store.finished() {
                Some((job, outcome)) if job == wanted => return outcome,
                Some(_) => {}
                None => std::thread::yield_now(),
            }
        }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let ready = self.store.flush();
        self.end_of(ready)
    }

    fn all(&self) -> Map {
        let value = |(place, bytes): &(Place, u32)| {
            let mut value = vec![0; *bytes as usize];
            self.store.read(*place, *bytes, 0, &mut value);
            value
        };
        self.places.iter().map(|(name, at)| (name.clone(), value(at))).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u32, Vec<u8>, Vec<u8>),
    Remove(u32, Vec<u8>),
    Clear(u32),
    Flush,
    /// An end in order.
    Close,
    /// An end without one: what has not been given to the engine is lost.
    Drop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || proptest::collection::vec(0..3u8, 1..4);
    let value = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        (any::<u8>(), 0..20_000usize).prop_map(|(byte, bytes)| vec![byte; bytes]),
    ];
    let step = prop_oneof![
        20 => (1..4u32, key(), value).prop_map(|(set, key, value)| Step::Put(set, key, value)),
        6 => (1..4u32, key()).prop_map(|(set, key)| Step::Remove(set, key)),
        1 => (1..4u32).prop_map(Step::Clear),
        3 => Just(Step::Flush),
        1 => Just(Step::Close),
        1 => Just(Step::Drop),
    ];
    proptest::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// What was flushed is there, or what became of it later; after an end in order, just what was.
    #[test]
    fn it_is_a_map_that_outlives_its_owner(steps in steps()) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pairs");
        let mut owner = opened(&path);
        let mut map = Map::new();
        // Of each key everything that it may be, the last for certain if there is one alone.
        let mut may_be = MayBe::new();
        for step in steps {
            match step {
                Step::Put(set, key, value) => {
                    owner.put(set, &key, &value);
                    map.insert((set, key.clone()), value.clone());
                    may_be.entry((set, key)).or_insert_with(|| vec![None]).push(Some(value));
                }
                Step::Remove(set, key) => {
                    owner.remove(set, &key);
                    map.remove(&(set, key.clone()));
                    may_be.entry((set, key)).or_insert_with(|| vec![None]).push(None);
                }
                Step::Clear(set) => {
                    owner.clear(set);
                    map.retain(|(of, _), _| *of != set);
                    may_be.iter_mut().filter(|(name, _)| name.0 == set).for_each(|(_, it)| it.push(None));
                }
                Step::Flush => {
                    prop_assert_eq!(owner.flush(), Ok(()));
                    may_be.values_mut().for_each(|it| drop(it.drain(..it.len() - 1)));
                }
                Step::Close => {
                    prop_assert_eq!(owner.store.close(None), Ok(()));
                    drop(owner);
                    owner = opened(&path);
                    prop_assert_eq!(owner.all(), map.clone());
                    may_be.values_mut().for_each(|it| drop(it.drain(..it.len() - 1)));
                }
                Step::Drop => {
                    drop(owner);
                    owner = opened(&path);
                    let found = owner.all();
                    for (name, values) in &mut may_be {
                        let value = found.get(name).cloned();
                        prop_assert!(values.contains(&value), "{name:?} {value:?} {values:?}");
                        *values = vec![value];
                    }
                    prop_assert!(found.keys().all(|name| may_be.contains_key(name)));
                    map = found;
                }
            }
            prop_assert_eq!(owner.all(), map.clone());
        }
    }
}

/// Names come back with the state that they were kept for, and with no other.
#[test]
fn names_belong_to_a_state() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("pairs");
    let mut owner = opened(&path);
    for key in 0..2000u16 {
        owner.put(7, &key.to_be_bytes(), b"value");
    }
    let names: Vec<PairId> = (0..2000).rev().map(|number| PairId(number * 3)).collect();
    owner.store.name(7, names.clone());
    let changes = owner.store.kept().unwrap();
    owner.store.close(Some([5; 16])).unwrap();
    assert_ne!(owner.store.kept(), Some(changes), "there were changes since");
    let at_last = owner.store.kept();
    drop(owner);
    let mut folder = PairFolder::open(&path, ram()).unwrap();
    assert!(!folder.name_as([6; 16]).unwrap());
    assert!(folder.name_as([5; 16]).unwrap());
    assert!(folder.pairs(7).map(|pair| pair.pair).eq(names));
    let store = PairStore::new(folder).unwrap();
    assert_eq!(store.kept(), at_last);
}

#[test]
fn a_folder_in_use_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("pairs");
    let first = PairFolder::open(&path, ram()).unwrap();
    let error = PairFolder::open(&path, ram()).unwrap_err();
    assert!(error.to_string().ends_with("another process is using it"), "{error}");
    drop(first);
    PairFolder::open(&path, ram()).unwrap();
}

#[test]
fn what_is_no_folder_of_pairs_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let said = |name: &str| PairFolder::open(&path(name), ram()).unwrap_err().to_string();
    std::fs::write(path("file"), "x").unwrap();
    assert!(said("file").ends_with("it is not a folder"));
    std::fs::create_dir(path("other")).unwrap();
    std::fs::write(path("other").join("letter.txt"), "x").unwrap();
    assert!(
        said("other").ends_with("it is not a folder of pairs: `letter.txt` does not belong there")
    );
    assert!(said("missing/pairs").contains("it cannot be used"));
    // One that was never finished is made anew.
    drop(PairFolder::open(&path("unfinished.new"), ram()).unwrap());
    std::fs::remove_file(path("unfinished.new").join("version")).unwrap();
    drop(PairFolder::open(&path("unfinished"), ram()).unwrap());
    assert!(!path("unfinished.new").exists());
    // What does not belong there is seen before the engine stumbles over it.
    std::fs::create_dir(path("unfinished").join("keyspaces").join("stray")).unwrap();
    assert!(said("unfinished").contains("`keyspaces/stray` does not belong there"));
}

/// Does tasks when it is asked to, and fails as it is told.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<Played>>);

#[derive(Default)]
struct Played {
    tasks: VecDeque<Task>,
    failures: VecDeque<Option<i32>>,
    kept: Map,
    is_stable: bool,
}

impl Keeper for Played {
    fn change(&mut self, batch: &Batch, _count: u64) -> Result<(), Failure> {
        if let Some(Some(errno)) = self.failures.pop_front() {
            let error = std::io::Error::from_raw_os_error(errno);
            return Err(match crate::file_store::is_no_room(&error) {
                true => Failure::NoRoom(error),
                false => Failure::Write(error),
            });
        }
        self.is_stable = false;
        for change in &batch.changes {
            match change {
                backlog::Change::Put((set, key), value) => {
                    self.kept.insert((*set, key.to_vec()), value.to_vec());
                }
                backlog::Change::Remove((set, key)) => {
                    self.kept.remove(&(*set, key.to_vec()));
                }
                backlog::Change::Clear(set) => self.kept.retain(|(of, _), _| of != set),
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        match self.failures.pop_front().flatten() {
            Some(errno) => Err(Failure::Sync(std::io::Error::from_raw_os_error(errno))),
            None => {
                self.is_stable = true;
                Ok(())
            }
        }
    }

    fn end(&mut self, _names: &Names) -> Result<(), Failure> {
        Ok(())
    }
}

impl Executor<Task, TaskResult> for Script {
    fn submit(&mut self, task: Task) {
        self.0.lock().unwrap().tasks.push_back(task);
    }

    fn finished(&mut self) -> Option<TaskResult> {
        let mut played = self.0.lock().unwrap();
        let task = played.tasks.pop_front()?;
        Some(perform(&mut *played, task))
    }

    fn wait(&mut self) -> Option<TaskResult> {
        self.finished()
    }
}

fn scripted(failures: &[Option<i32>]) -> (Owner<Script>, Script) {
    let script = Script::default();
    script.0.lock().unwrap().failures = failures.iter().copied().collect();
    let store = PairStore {
        values: RamValues::new(),
        recalled: BTreeMap::new(),
        identity: [1; 16],
        books: Books::new(script.clone(), 0),
    };
    (Owner::of(store), script)
}

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

#[test]
fn without_room_nothing_is_lost() {
    let (mut owner, script) = scripted(&[None, None, Some(ENOSPC), Some(ENOSPC), None]);
    owner.put(1, b"a", b"1");
    owner.flush().unwrap();
    owner.put(1, b"b", b"2");
    assert_eq!(owner.flush(), Err(StoreError::Full));
    assert_eq!(owner.store.condition(), Condition::Full);
    // A key that is deleted meanwhile, and another value.
    owner.remove(1, b"a");
    owner.put(1, b"b", b"3");
    assert_eq!(owner.flush(), Err(StoreError::Full));
    assert!(owner.store.tend());
    assert!(owner.store.finished().is_none());
    assert_eq!(owner.store.condition(), Condition::Full, "there still is none");
    owner.store.tend();
    assert!(owner.store.finished().is_none());
    assert_eq!(owner.store.condition(), Condition::Good);
    owner.flush().unwrap();
    assert_eq!(script.0.lock().unwrap().kept, owner.all());
    assert!(script.0.lock().unwrap().is_stable);
    let said = owner.store.books.trouble.messages();
    assert!(said.len() == 1 && said[0].contains("no room"), "{said:?}");
}

#[test]
fn after_another_failure_no_flush_succeeds() {
    for failures in [&[Some(EIO)][..], &[None, Some(EIO)]] {
        let (mut owner, _) = scripted(failures);
        owner.put(1, b"a", b"1");
        assert_eq!(owner.flush(), Err(StoreError::Write));
        owner.put(1, b"a", b"2");
        owner.store.tend();
        assert_eq!(owner.flush(), Err(StoreError::Write));
        assert_eq!(owner.store.condition(), Condition::Failed);
        assert_eq!(owner.store.close(None), Err(StoreError::Write));
        let said = owner.store.books.trouble.messages();
        assert!(said.last().is_some_and(|it| it.contains("lost")), "{said:?}");
    }
}

/// Who is too fast waits; a change that waits already costs no more.
#[test]
fn the_backlog_is_bounded() {
    let (mut owner, script) = scripted(&[]);
    owner.store.books.backlog_bytes_max = 10_000;
    // Under way, and so not among those that wait.
    assert_eq!(owner.put(1, b"first", &[0; 100]), Ready::Now);
    for round in 0..200u8 {
        assert_eq!(owner.put(1, b"same", &[round; 5000]), Ready::Now);
    }
    let waits = owner.put(1, b"other", &[2; 5000]);
    assert!(matches!(waits, Ready::Later(_)) && owner.store.is_behind());
    assert_eq!(owner.end_of(waits), Ok(()));
    assert!(!owner.store.is_behind());
    assert_eq!(script.0.lock().unwrap().kept, owner.all());
}

/// Whatever is changed in a folder, it is opened with other pairs at most, or refused with a message.
#[test]
fn damage_is_no_end_of_the_program() {
    let place = tempfile::tempdir().unwrap();
    let whole = place.path().join("whole");
    let mut owner = opened(&whole);
    for key in 0..300u16 {
        owner.put(1, &key.to_be_bytes(), &vec![key as u8; 10 + 13 * usize::from(key)]);
    }
    owner.store.close(Some([3; 16])).unwrap();
    drop(owner);
    let mut files = Vec::new();
    let mut folders = vec![whole.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below.max(1)
    };
    let mut panics = Vec::new();
    for round in 0..rounds() {
        let copy = place.path().join(format!("copy-{round}"));
        let target = |file: &Path| copy.join(file.strip_prefix(&whole).unwrap());
        for file in &files {
            std::fs::create_dir_all(target(file).parent().unwrap()).unwrap();
            std::fs::copy(file, target(file)).unwrap();
        }
        let victim = &files[random(files.len() as u64) as usize];
        let mut bytes = std::fs::read(victim).unwrap();
        let what = random(3);
        let at = random((bytes.len() as u64).min(70_000)) as usize;
        match what {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random(8),
            1 => bytes.truncate(at),
            _ => {
                let end = (at + 16).min(bytes.len());
                bytes[at..end].fill(random(256) as u8);
            }
        }
        std::fs::write(target(victim), &bytes).unwrap();
        let result = std::panic::catch_unwind(|| {
            let opened = PairFolder::open(&copy, ram());
            opened.map(|folder| folder.pairs(1).count()).map_err(|error| error.to_string())
        });
        if result.is_err() {
            panics.push((victim.strip_prefix(&whole).unwrap().to_owned(), what, at));
        }
        let _ = std::fs::remove_dir_all(&copy);
    }
    assert!(panics.is_empty(), "{panics:#?}");
}

fn rounds() -> u32 {
    std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}
