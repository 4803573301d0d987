//! The store on a disk that does its work in any order, refuses it, and loses what was not synced.

mod files;

use super::disk::FileState;
use super::task::{look, of_write};
use super::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::sync::Mutex;

const SECTOR: u64 = 512;
/// Sectors of the drive in these tests.
const SECTORS: u64 = 24;

/// The drive's states before and after.
const BEFORE: StateId = [3; 16];
const AFTER: StateId = [4; 16];

/// One step of a disk, as it was recorded.
#[derive(Clone, Debug)]
enum Step {
    WriteBegins { number: usize, sector: u64, content: Vec<u8> },
    WriteEnds { number: usize },
    SyncBegins,
    SyncEnds,
}

/// A disk in memory that records what is done to it. An operation that has begun and not
/// ended is half visible, as to a reader that gets in between.
#[derive(Default)]
struct RecordingDisk(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    content: Vec<u8>,
    steps: Vec<Step>,
    /// What writes end with, of zeros only where that is not for want of room.
    fails: Option<Errno>,
    /// The error with which syncs fail.
    sync_fails: Option<Errno>,
}

impl RecordingDisk {
    fn new(content: Vec<u8>) -> RecordingDisk {
        RecordingDisk(Mutex::new(Recorded { content, ..Recorded::default() }))
    }

    fn record(&self, step: Step) {
        self.0.lock().unwrap().steps.push(step);
    }

    /// The drive's first bytes.
    fn data(&self, bytes: usize) -> Vec<u8> {
        let mut content = self.0.lock().unwrap().content.clone();
        content.resize(content.len().max(SLOTS_BYTES as usize + bytes), 0);
        content[SLOTS_BYTES as usize..][..bytes].to_vec()
    }

    fn header(&self) -> Header {
        Header::newest(&self.0.lock().unwrap().content).expect("a header")
    }

    /// Half of every sector, or all, reaches what readers see.
    fn show(&self, sector: u64, content: &[u8], whole: bool) {
        let seen = &mut self.0.lock().unwrap().content;
        let begin = (sector * SECTOR) as usize;
        if content.iter().any(|&byte| byte != 0) && seen.len() < begin + content.len() {
            seen.resize(begin + content.len(), 0);
        }
        for (at, sector) in content.chunks(SECTOR as usize).enumerate() {
            let first = begin + at * SECTOR as usize;
            let shown = if whole { sector.len() } else { sector.len() / 2 };
            if first >= seen.len() {
                return;
            }
            seen[first..first + shown].copy_from_slice(&sector[..shown]);
        }
    }
}

impl Disk for RecordingDisk {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self.0.lock().unwrap().content[at as usize..][..into.len()]);
        Ok(())
    }
    fn read_cached(&self, at: u64, into: &mut [u8]) -> bool {
        // As good as random, and reproducible.
        (at / SECTOR).is_multiple_of(3) && self.read(at, into).is_ok()
    }
    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        unreachable!("the executor does it in two steps")
    }
    fn zero(&self, _: u64, _: u64) -> io::Result<()> {
        unreachable!("the executor does it in two steps")
    }
    fn sync(&self) -> io::Result<()> {
        unreachable!("the executor does it in two steps")
    }
    fn look(&self) -> io::Result<FileState> {
        Ok(FileState { is_named: true, bytes: self.0.lock().unwrap().content.len() as u64 })
    }
}

/// Performs tasks when told to, in any order and with any overlap.
struct Steps {
    disk: Arc<RecordingDisk>,
    waiting: Vec<Task>,
    running: Vec<(usize, Task, Vec<u8>)>,
    done: VecDeque<TaskResult>,
    begun: usize,
}

impl Steps {
    fn content(task: &Task) -> Option<(u64, Vec<u8>)> {
        match &task.0 {
            Work::Change { operation: Operation { at, bytes, content, .. }, .. } => match content {
                Content::Bytes(bytes) => Some((*at, bytes.to_vec())),
                Content::Zeros => Some((*at, vec![0; *bytes as usize])),
            },
            Work::Sync { header: Some(header), .. } => Some((header.at(), header.encode())),
            Work::Sync { header: None, .. } | Work::Read { .. } | Work::Look(_) => None,
        }
    }

    fn begin(&mut self, which: usize) {
        let task = self.waiting.remove(which % self.waiting.len());
        let number = self.begun;
        self.begun += 1;
        let mut half = Vec::new();
        if let Some((at, content)) = Self::content(&task) {
            let range = at..at + content.len() as u64;
            for (_, other, _) in &self.running {
                // A read may overlap an older change: its patches hide what it sees there.
                let other = Self::content(other).map_or(0..0, |(at, c)| at..at + c.len() as u64);
                let overlap = range.start < other.end && other.start < range.end;
                assert!(!overlap, "{range:?} begins while {other:?} is under way");
            }
            let sector = at / SECTOR;
            self.disk.show(sector, &content, false);
            self.disk.record(Step::WriteBegins { number, sector, content });
        }
        match &task.0 {
            Work::Read { at, held, .. } => {
                half = vec![0; *held];
                self.disk.read(*at, &mut half).unwrap();
            }
            // The sync itself begins when its header has been written.
            Work::Sync { header: None, .. } => self.disk.record(Step::SyncBegins),
            Work::Sync { header: Some(_), .. } | Work::Change { .. } | Work::Look(_) => {}
        }
        self.running.push((number, task, half));
    }

    fn end(&mut self, which: usize) {
        let (number, task, half) = self.running.remove(which % self.running.len());
        let (fails, sync_fails) = {
            let disk = self.disk.0.lock().unwrap();
            (disk.fails, disk.sync_fails)
        };
        let is_of_zeros = matches!(&task.0, Work::Change { operation, .. } if operation.content == Content::Zeros);
        let fails = fails.filter(|&it| it != Errno::NOSPC || !is_of_zeros);
        let mut result = fails.map_or(Ok(()), |error| Err(of_write(error.into())));
        if let Work::Change { wanted: Some(wanted), .. } = &task.0 {
            result = look(&*self.disk, *wanted).and(result);
        }
        if let Some((at, content)) = Self::content(&task)
            && result.is_ok()
        {
            self.disk.show(at / SECTOR, &content, true);
            self.disk.record(Step::WriteEnds { number });
        }
        match task.0 {
            Work::Read { job, at, buffer: mut bytes, held } => {
                self.disk.read(at, &mut bytes[..held]).unwrap();
                for (now, before) in bytes.chunks_mut(SECTOR as usize).zip(half.chunks(512)) {
                    now[..256].copy_from_slice(&before[..256]);
                }
                self.done.push_back(TaskResult(Outcome::Read {
                    job,
                    buffer: bytes,
                    result: Ok(()),
                }));
            }
            Work::Look(wanted) => {
                let result = look(&*self.disk, wanted);
                self.done.push_back(TaskResult(Outcome::Look { result }));
            }
            Work::Change { operation, .. } => {
                let (sequence, holds) = (operation.sequence, operation.holds());
                self.done.push_back(TaskResult(Outcome::Change { sequence, result, holds }));
            }
            // Written: now the sync of everything.
            Work::Sync { header: Some(_), wanted } if result.is_ok() => {
                self.disk.record(Step::SyncBegins);
                self.running.push((number, Task(Work::Sync { header: None, wanted }), half));
            }
            Work::Sync { header: Some(_), .. } => {
                self.done.push_back(TaskResult(Outcome::Sync { result }));
            }
            Work::Sync { header: None, .. } => {
                let result = sync_fails.map_or(Ok(()), |it| Err(Failure::Sync(it.into())));
                if result.is_ok() {
                    self.disk.record(Step::SyncEnds);
                }
                self.done.push_back(TaskResult(Outcome::Sync { result }));
            }
        }
    }
}

impl Executor<Task, TaskResult> for Steps {
    fn submit(&mut self, task: Task) {
        self.waiting.push(task);
    }
    fn finished(&mut self) -> Option<TaskResult> {
        self.done.pop_front()
    }
    fn wait(&mut self) -> Option<TaskResult> {
        while self.done.is_empty() {
            if self.running.is_empty() {
                assert!(!self.waiting.is_empty(), "the store waits for nothing");
                self.begin(0);
            }
            self.end(0);
        }
        self.done.pop_front()
    }
}

/// What a host and the disk's scheduler do.
#[derive(Clone, Debug)]
enum Action {
    Write {
        sector: u64,
        sectors: u64,
    },
    Discard {
        sector: u64,
        sectors: u64,
    },
    Describe,
    Flush,
    Fetch {
        sector: u64,
        sectors: u64,
    },
    Begin(usize),
    End(usize),
    Collect,
    /// The disk is full from now on, or has room again.
    Full(bool),
    Tend,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let range =
        || (0..SECTORS).prop_flat_map(|sector| (Just(sector), 1..=(SECTORS - sector).min(9)));
    let action = prop_oneof![
        6 => range().prop_map(|(sector, sectors)| Action::Write { sector, sectors }),
        2 => range().prop_map(|(sector, sectors)| Action::Discard { sector, sectors }),
        1 => Just(Action::Describe),
        2 => Just(Action::Flush),
        3 => range().prop_map(|(sector, sectors)| Action::Fetch { sector, sectors }),
        9 => any::<usize>().prop_map(Action::Begin),
        9 => any::<usize>().prop_map(Action::End),
        4 => Just(Action::Collect),
        1 => any::<bool>().prop_map(Action::Full),
        2 => Just(Action::Tend),
    ];
    proptest::collection::vec(action, 1..90)
}

/// The content of a sector in some version; version 0 is zeros.
fn sector_of(version: u32, sector: u64) -> Vec<u8> {
    let word = u64::from(version) << 32 | if version == 0 { 0 } else { sector };
    word.to_le_bytes().repeat(SECTOR as usize / 8)
}

/// The content of several sectors in one version.
fn sectors_of(version: u32, sectors: std::ops::Range<u64>) -> Vec<u8> {
    sectors.flat_map(|sector| sector_of(version, sector)).collect()
}

fn version_of(bytes: &[u8], sector: usize) -> u32 {
    let version = (u64::from_le_bytes(bytes[..8].try_into().unwrap()) >> 32) as u32;
    assert_eq!(bytes, sector_of(version, sector as u64), "a torn sector");
    version
}

/// Everything that was accepted, and what has been promised about it.
struct Book {
    /// For each sector the versions it was given, in order; it begins with zeros.
    versions: Vec<Vec<u32>>,
    descriptions: Vec<Vec<u8>>,
    /// Promises: from this length of the disk's record on, these versions are the oldest that
    /// may come back.
    promises: Vec<(usize, Vec<usize>, usize)>,
}

impl Book {
    fn state(&self) -> (Vec<usize>, usize) {
        (self.versions.iter().map(|v| v.len() - 1).collect(), self.descriptions.len() - 1)
    }
}

type Harness = (DiskStore<Steps>, Arc<RecordingDisk>, Book);

fn harness() -> Harness {
    harness_of(Some(0))
}

/// The same with a file that has so many of the drive's bytes, or is of format 1.
fn harness_of(held_bytes: Option<u64>) -> Harness {
    let header = Header {
        sequence: 4,
        data_bytes: SECTORS * SECTOR,
        held_bytes,
        drive: "drive".to_owned(),
        clean: true,
        state: Some(BEFORE),
        description: vec![1],
    };
    let mut content = vec![0; header.file_bytes() as usize];
    let encoded = header.encode();
    content[header.at() as usize..][..encoded.len()].copy_from_slice(&encoded);
    let disk = Arc::new(RecordingDisk::new(content));
    let (waiting, running, done) = Default::default();
    let steps = Steps { disk: disk.clone(), waiting, running, done, begun: 0 };
    let mut store = DiskStore::new(disk.clone(), steps, header);
    store.backlog_bytes_max = 12 << 10;
    assert_eq!(store.begin(), Ok(()));
    let book = Book {
        versions: vec![vec![0]; SECTORS as usize],
        descriptions: vec![vec![1]],
        promises: vec![(0, vec![0; SECTORS as usize], 0)],
    };
    (store, disk, book)
}

/// Does the actions; every read must see what was accepted before it. At the end there is room.
fn run((store, disk, book): &mut Harness, actions: &[Action]) {
    let mut flushes = HashMap::new();
    let mut fetches = HashMap::new();
    let mut version = 0;
    let collect = |store: &mut DiskStore<Steps>,
                   book: &mut Book,
                   flushes: &mut HashMap<StoreJob, _>,
                   fetches: &mut HashMap<StoreJob, (u64, u64, Vec<usize>)>| {
        while let Some((job, result)) = store.finished() {
            if result == Err(StoreError::Full) {
                // It promises nothing, or was not accepted, or is accepted and not waited for.
                assert!(!fetches.contains_key(&job));
                flushes.remove(&job);
                continue;
            }
            assert_eq!(result, Ok(()));
            if let Some((floor, description)) = flushes.remove(&job) {
                let now = disk.0.lock().unwrap().steps.len();
                book.promises.push((now, floor, description));
            } else if let Some((sector, sectors, floor)) = fetches.remove(&job) {
                let mut bytes = vec![9; (sectors * SECTOR) as usize];
                store.read(Some(job), sector * SECTOR, &mut bytes);
                for (index, bytes) in bytes.chunks(SECTOR as usize).enumerate() {
                    let at = sector as usize + index;
                    let seen = version_of(bytes, at);
                    let valid = &book.versions[at][floor[at]..];
                    assert!(valid.contains(&seen), "sector {at} reads {seen}, not {valid:?}");
                }
            }
        }
    };
    for action in actions {
        match *action {
            Action::Write { sector, sectors } => {
                version += 1;
                let bytes = sectors_of(version, sector..sector + sectors);
                let before = store.backlog.accepted();
                store.write(sector * SECTOR, &bytes);
                if store.backlog.accepted() == before {
                    assert_eq!(store.condition(), Condition::Full);
                    continue;
                }
                (sector..sector + sectors).for_each(|at| book.versions[at as usize].push(version));
            }
            Action::Discard { sector, sectors } => {
                let before = store.backlog.accepted();
                store.discard(sector * SECTOR, sectors * SECTOR);
                if store.backlog.accepted() == before {
                    assert_eq!(store.condition(), Condition::Full);
                    continue;
                }
                (sector..sector + sectors).for_each(|at| book.versions[at as usize].push(0));
            }
            Action::Describe => {
                version += 1;
                store.describe(&sector_of(version, 0));
                book.descriptions.push(sector_of(version, 0));
            }
            Action::Flush => {
                let (floor, description) = book.state();
                match store.flush() {
                    Ready::Later(job) => drop(flushes.insert(job, (floor, description))),
                    Ready::Now => {
                        let now = disk.0.lock().unwrap().steps.len();
                        book.promises.push((now, floor, description));
                    }
                }
            }
            Action::Fetch { sector, sectors } => {
                let Ready::Later(job) = store.fetch(sector * SECTOR, (sectors * SECTOR) as u32)
                else {
                    panic!("the bytes of a fetch need a job");
                };
                fetches.insert(job, (sector, sectors, book.state().0));
            }
            Action::Begin(which) if !store.executor.waiting.is_empty() => {
                store.executor.begin(which);
            }
            Action::End(which) if !store.executor.running.is_empty() => {
                store.executor.end(which);
            }
            Action::Collect => collect(store, book, &mut flushes, &mut fetches),
            Action::Full(is_full) => {
                disk.0.lock().unwrap().fails = is_full.then_some(Errno::NOSPC);
            }
            Action::Tend => assert!(store.tend()),
            Action::Begin(_) | Action::End(_) => {}
        }
    }
    // The rest, so that nothing waits for ever.
    disk.0.lock().unwrap().fails = None;
    loop {
        collect(store, book, &mut flushes, &mut fetches);
        if store.condition() == Condition::Full {
            store.tend();
        }
        if store.executor.waiting.is_empty() && store.executor.running.is_empty() {
            break;
        }
        if !store.executor.waiting.is_empty() {
            store.executor.begin(0);
        }
        if !store.executor.running.is_empty() {
            store.executor.end(0);
        }
    }
    assert_eq!(store.condition(), Condition::Good);
    assert!(flushes.is_empty() && fetches.is_empty(), "jobs that never finish");
    assert!(store.jobs.is_empty() && store.backlog.cost() == 0, "what is left over");
}

/// What a disk may hold after the power failed at `cut`: of every sector any content written
/// since the last sync that covers it, or that sync's. And how long it is at least.
fn after_power_cut(
    first: &[u8],
    steps: &[Step],
    cut: usize,
    random: &mut Xoshiro256PlusPlus,
) -> (Vec<u8>, usize) {
    let mut ended = HashMap::new();
    let mut covered = 0;
    let mut begins = Vec::new();
    for (at, step) in steps[..cut].iter().enumerate() {
        match step {
            Step::WriteEnds { number } => drop(ended.insert(*number, at)),
            Step::SyncBegins => begins.push(at),
            // Syncs do not overlap: the store has one at a time.
            Step::SyncEnds => covered = *begins.last().unwrap(),
            Step::WriteBegins { .. } => {}
        }
    }
    let mut candidates: BTreeMap<u64, Vec<&[u8]>> = BTreeMap::new();
    let mut stable_bytes = first.len();
    for step in &steps[..cut] {
        let Step::WriteBegins { number, sector, content } = step else { continue };
        let stable = ended.get(number).is_some_and(|&end| end < covered);
        for (at, bytes) in content.chunks(SECTOR as usize).enumerate() {
            let sector = sector + at as u64;
            let before = first.get((sector * SECTOR) as usize..);
            let before = before.and_then(|it| it.get(..SECTOR as usize)).unwrap_or(&[0; 512]);
            let list = candidates.entry(sector).or_insert_with(|| vec![before]);
            if stable {
                list.clear();
                stable_bytes = stable_bytes.max(((sector + 1) * SECTOR) as usize);
            }
            list.push(bytes);
        }
    }
    // Some cuts lose everything they can, some lose nothing, most are in between.
    let mode = random.random_range(0..4);
    let mut image = first.to_vec();
    image.resize(first.len() + (SECTORS * SECTOR) as usize, 0);
    for (sector, list) in candidates {
        let which = match mode {
            0 => 0,
            1 => list.len() - 1,
            _ => random.random_range(0..list.len()),
        };
        image[(sector * SECTOR) as usize..][..SECTOR as usize].copy_from_slice(list[which]);
    }
    (image, stable_bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// Cut at every point, with unsynced sectors lost and kept in any combination, the disk
    /// holds everything that was flushed, or something newer; and a header that is whole, and
    /// names a state of the drive only if that belongs to the bytes.
    #[test]
    fn what_was_flushed_survives_any_power_cut(
        actions in actions(),
        seed: u64,
        held in proptest::option::weighted(0.7, 0..=SECTORS),
    ) {
        let mut harness = harness_of(held.map(|sectors| sectors * SECTOR));
        let (slots, data) = match held {
            Some(_) => (0, SLOTS_BYTES as usize),
            None => ((SECTORS * SECTOR) as usize, 0),
        };
        let first = harness.1.0.lock().unwrap().content.clone();
        run(&mut harness, &actions);
        let (mut store, disk, mut book) = harness;
        let closing = disk.0.lock().unwrap().steps.len();
        prop_assert_eq!(store.close(Some(AFTER)), Ok(()));
        let steps = disk.0.lock().unwrap().steps.clone();
        let (floor, description) = book.state();
        book.promises.push((steps.len(), floor, description));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for cut in 0..=steps.len() {
            let (image, stable_bytes) = after_power_cut(&first, &steps, cut, &mut random);
            let promised = book.promises.iter().rfind(|(since, ..)| *since <= cut);
            let (_, floor, described) = promised.unwrap();
            for (at, bytes) in image[data..][..(SECTORS * SECTOR) as usize].chunks(512).enumerate() {
                let seen = version_of(bytes, at);
                let valid = &book.versions[at][floor[at]..];
                prop_assert!(valid.contains(&seen), "cut {cut}: sector {at} is {seen}: {valid:?}");
            }
            let header = Header::newest(&image[slots..][..SLOTS_BYTES as usize]);
            let header = header.expect("a whole header");
            prop_assert!(header.file_bytes() as usize <= stable_bytes, "cut {cut}: {header:?}");
            prop_assert!(book.descriptions[*described..].contains(&header.description));
            prop_assert_eq!(header.clean, header.state.is_some());
            prop_assert!(header.state != Some(AFTER) || cut > closing);
            // A state is named beside the very bytes that it was named with.
            if let Some(state) = header.state {
                let last = if state == BEFORE { vec![0; SECTORS as usize] } else { book.state().0 };
                for (at, bytes) in image[data..][..(SECTORS * SECTOR) as usize].chunks(512).enumerate() {
                    prop_assert_eq!(version_of(bytes, at), book.versions[at][last[at]]);
                }
            }
        }
        let content = disk.0.lock().unwrap().content.clone();
        let header = Header::newest(&content[slots..][..SLOTS_BYTES as usize]).expect("a header");
        prop_assert_eq!(&header.state, &Some(AFTER));
        // A write that had no room for all of it may have made the file longer.
        let behind = content.get(header.file_bytes() as usize..);
        prop_assert!(behind.is_some_and(|it| it.iter().all(|byte| *byte == 0)));
    }
}

#[test]
fn a_failed_write_fails_every_later_flush() {
    let (mut store, disk, _) = harness();
    store.write(0, &sector_of(7, 0));
    disk.0.lock().unwrap().fails = Some(Errno::IO);
    store.executor.begin(0);
    store.executor.end(0);
    assert_eq!(store.finished(), None);
    disk.0.lock().unwrap().fails = None;
    for _ in 0..3 {
        let Ready::Later(flush) = store.flush() else { panic!("it cannot be stable") };
        assert_eq!(store.finished(), Some((flush, Err(StoreError::Write))));
        let Ready::Later(write) = store.write(512, &sector_of(8, 1)) else { panic!("accepted") };
        assert_eq!(store.finished(), Some((write, Err(StoreError::Write))));
    }
    assert_eq!(store.condition(), Condition::Failed);
    assert!(store.tend(), "there is nothing to do about it");
    assert_eq!(store.condition(), Condition::Failed);
    assert_says(&store, &["it cannot be written (Input/output error"]);
    assert_eq!(store.close(None), Err(StoreError::Write));
    assert_says(&store, &["it cannot be written", "512 bytes that hosts had written are lost"]);
    // What was accepted is still seen.
    let Ready::Later(fetch) = store.fetch(0, 512) else { panic!("no job") };
    assert_eq!(store.finished(), Some((fetch, Ok(()))));
    let mut bytes = [0; 512];
    store.read(Some(fetch), 0, &mut bytes);
    assert_eq!(version_of(&bytes, 0), 7);
}

/// What was said went wrong, in order: each message has one of these.
#[track_caller]
fn assert_says<E: Executor<Task, TaskResult>>(store: &DiskStore<E>, parts: &[&str]) {
    let messages = store.trouble().messages();
    assert_eq!(messages.len(), parts.len(), "{messages:?}");
    for (message, part) in messages.iter().zip(parts) {
        assert!(message.contains(part), "{message}");
    }
}

/// Has everything done that the disk was given, and what comes of it.
fn do_all(store: &mut DiskStore<Steps>) -> Vec<(StoreJob, Result<(), StoreError>)> {
    let mut finished = Vec::new();
    loop {
        while let Some(it) = store.finished() {
            finished.push(it);
        }
        if store.executor.waiting.is_empty() && store.executor.running.is_empty() {
            return finished;
        }
        if !store.executor.waiting.is_empty() {
            store.executor.begin(0);
        }
        store.executor.end(0);
    }
}

fn later(ready: Ready) -> StoreJob {
    let Ready::Later(job) = ready else { panic!("it is done at once") };
    job
}

#[test]
fn what_has_no_room_is_kept_and_written_when_there_is_some() {
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
        let (mut store, disk, _) = harness();
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = told.clone();
        store.trouble().tell(Box::new(move |text| tell.lock().unwrap().push(text.to_owned())));
        disk.0.lock().unwrap().fails = Some(errno);
        assert_eq!(store.write(0, &sector_of(7, 0)), Ready::Now);
        assert_eq!(store.write(512, &sector_of(7, 1)), Ready::Now);
        let flush = later(store.flush());
        assert_eq!(do_all(&mut store), [(flush, Err(StoreError::Full))]);
        assert_eq!(store.condition(), Condition::Full);
        for _ in 0..3 {
            let (write, flush) = (later(store.write(1024, &sector_of(8, 2))), later(store.flush()));
            store.tend();
            let refused = [write, flush].map(|job| (job, Err(StoreError::Full)));
            assert_eq!(do_all(&mut store), refused);
        }
        let messages = told.lock().unwrap().clone();
        assert_eq!(messages.len(), 1, "once: {messages:?}");
        assert!(messages[0].starts_with("error: "), "{messages:?}");
        assert!(messages[0].contains("there is no room for what was written"), "{messages:?}");
        // What was accepted is seen, and is written with nobody's help.
        let fetch = later(store.fetch(0, 1024));
        assert_eq!(store.finished(), Some((fetch, Ok(()))));
        let mut bytes = [0; 1024];
        store.read(Some(fetch), 0, &mut bytes);
        assert_eq!(bytes[..], sectors_of(7, 0..2));
        disk.0.lock().unwrap().fails = None;
        assert!(store.tend());
        assert_eq!(do_all(&mut store), []);
        assert_eq!(store.condition(), Condition::Good);
        assert_eq!(disk.data(1024), sectors_of(7, 0..2));
        assert_eq!(store.write(1024, &sector_of(8, 2)), Ready::Now);
        let flush = later(store.flush());
        assert_eq!(do_all(&mut store), [(flush, Ok(()))]);
        assert_eq!(store.close(Some(AFTER)), Ok(()));
        assert_says(&store, &["there is no room for what was written"]);
        assert!(told.lock().unwrap()[1].contains("there is room again"));
    }
}

#[test]
fn deallocation_makes_room_where_there_is_none() {
    let (mut store, disk, _) = harness();
    disk.0.lock().unwrap().fails = Some(Errno::NOSPC);
    store.write(0, &sectors_of(7, 0..4));
    store.write(4 * SECTOR, &sectors_of(7, 4..6));
    assert_eq!(do_all(&mut store), []);
    assert_eq!(store.condition(), Condition::Full);
    // What is deallocated needs no room any more, and what is left has some then.
    assert_eq!(store.discard(0, 4 * SECTOR), Ready::Now);
    assert_eq!(do_all(&mut store), []);
    assert_eq!(store.condition(), Condition::Full);
    assert_eq!(store.discard(4 * SECTOR, 2 * SECTOR), Ready::Now);
    assert_eq!(do_all(&mut store), []);
    assert_eq!(store.condition(), Condition::Good);
    let flush = later(store.flush());
    assert_eq!(do_all(&mut store), [(flush, Ok(()))]);
    assert_eq!(disk.data(6 * 512), [0; 6 * 512]);
}

#[test]
fn what_has_found_no_room_by_the_end_is_lost_and_said_to_be() {
    let (mut store, disk, _) = harness();
    disk.0.lock().unwrap().fails = Some(Errno::NOSPC);
    store.write(0, &sectors_of(7, 0..4));
    assert_eq!(store.settle(), Err(StoreError::Full));
    assert_eq!(store.close(Some(AFTER)), Err(StoreError::Full));
    assert_says(&store, &["there is no room", "2048 bytes that hosts had written are lost"]);
    // If there is room at the last moment, nothing is.
    let (mut store, disk, _) = harness();
    disk.0.lock().unwrap().fails = Some(Errno::NOSPC);
    store.write(0, &sectors_of(7, 0..4));
    assert_eq!(do_all(&mut store), []);
    disk.0.lock().unwrap().fails = None;
    assert_eq!(store.close(Some(AFTER)), Ok(()));
    assert_eq!(disk.data(2048), sectors_of(7, 0..4));
}

#[test]
fn what_the_kernel_could_not_sync_is_lost_for_good() {
    let (mut store, disk, _) = harness();
    store.write(0, &sector_of(7, 0));
    disk.0.lock().unwrap().sync_fails = Some(Errno::NOSPC);
    let flush = later(store.flush());
    assert_eq!(do_all(&mut store), [(flush, Err(StoreError::Write))]);
    disk.0.lock().unwrap().sync_fails = None;
    store.tend();
    assert_eq!(do_all(&mut store), []);
    assert_eq!(store.condition(), Condition::Failed);
    assert_says(&store, &["what was written did not get to the disk"]);
}

#[test]
fn a_start_that_is_taken_back_leaves_the_header_as_it_was() {
    let (mut store, disk, _) = harness();
    let header = || disk.header();
    assert_eq!((header().clean, header().state), (false, None));
    assert_eq!(store.cancel(), Ok(()));
    assert_eq!((header().clean, header().state), (true, Some(BEFORE)));
    assert_eq!(header().description, [1]);
}

#[test]
fn too_much_under_way_makes_writes_wait() {
    let (mut store, _, _) = harness();
    let mut waiting = Vec::new();
    for version in 0..30 {
        match store.write(u64::from(version % 20) * SECTOR, &sector_of(version, 0)) {
            Ready::Now => assert!(waiting.is_empty()),
            Ready::Later(job) => waiting.push(job),
        }
    }
    assert!(waiting.len() > 5);
    assert_eq!(store.finished(), None);
    while !store.executor.waiting.is_empty() || !store.executor.running.is_empty() {
        store.executor.begin(0);
        store.executor.end(0);
        while let Some((job, result)) = store.finished() {
            assert_eq!((waiting.remove(0), Ok(())), (job, result));
        }
    }
    assert!(waiting.is_empty());
}

#[test]
fn a_forgotten_fetch_leaves_nothing() {
    let (mut store, _, _) = harness_of(Some(SECTORS * SECTOR));
    let Ready::Later(job) = store.fetch(512, 512) else { panic!("no job") };
    store.forget(job);
    store.executor.begin(0);
    store.executor.end(0);
    assert_eq!(store.finished(), None);
    assert!(store.jobs.is_empty());
}
