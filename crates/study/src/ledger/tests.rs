use super::*;
use mynah_lab::simulation::Simulation;
use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom, Write};

fn runs(count: u64) -> Vec<Simulation> {
    let small = ["geometry.blocks_per_plane=64".to_owned(), "over_provisioning=30%".to_owned()];
    let base = Simulation::on_changed("mqsim", &small).unwrap();
    let base = base.flow("a", "rw=randread number_ios=20").unwrap();
    let base = base.precondition(mynah_lab::experiment::Precondition::None);
    (1..=count).map(|seed| base.clone().seed(seed)).collect()
}

fn keys(runs: &[Simulation]) -> Vec<Key> {
    let mut files = Files::default();
    runs.iter().map(|run| Key::of(run, &mut files).unwrap()).collect()
}

fn contents(keys: &[Key]) -> Contents {
    Contents::of_sweep(keys, format!("{} runs", keys.len()), vec![("a.txt".into(), "b".into())])
}

fn open(folder: &Path, keys: &[Key]) -> Result<Ledger, LedgerError> {
    Ledger::open(folder, &contents(keys), "a test")
}

fn done(run: &Simulation) -> Entry {
    Entry::Done(Box::new(run.run().unwrap().result))
}

fn failed(seed: u64) -> Entry {
    Entry::Failed(FailedRun { point: Default::default(), seed, error: "line\nend".to_owned() })
}

#[test]
fn what_is_kept_is_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let runs = runs(4);
    let keys = keys(&runs);
    let entries: Vec<Entry> = runs[..3].iter().map(done).collect();
    let mut ledger = open(folder.path(), &keys).unwrap();
    for (key, entry) in keys.iter().zip(&entries) {
        ledger.add(*key, entry).unwrap();
    }
    ledger.add(keys[3], &failed(4)).unwrap();
    drop(ledger);
    let mut ledger = open(folder.path(), &keys).unwrap();
    assert_eq!(ledger.len(), 4);
    for (key, entry) in keys.iter().zip(&entries) {
        let read = ledger.get(key).unwrap().unwrap();
        let (Entry::Done(read), Entry::Done(measured)) = (&read, entry) else { panic!("{read:?}") };
        assert_eq!(read.to_json(), measured.to_json());
    }
    assert_eq!(ledger.get(&keys[3]).unwrap(), Some(failed(4)));
    assert_eq!(ledger.has_failed(&keys[3]), Some(true));
    assert_eq!(ledger.has_failed(&keys[0]), Some(false));
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "b");
    // What is tried again counts from then on.
    ledger.add(keys[3], &done(&runs[3])).unwrap();
    drop(ledger);
    let ledger = open(folder.path(), &keys).unwrap();
    assert_eq!((ledger.has_failed(&keys[3]), ledger.len()), (Some(false), 4));
}

#[test]
fn a_torn_line_is_cut_off_wherever_it_is_torn() {
    let folder = tempfile::tempdir().unwrap();
    let keys = keys(&runs(3));
    let mut ledger = open(folder.path(), &keys).unwrap();
    for (key, seed) in keys.iter().zip(1..) {
        ledger.add(*key, &failed(seed)).unwrap();
    }
    drop(ledger);
    let path = folder.path().join(RUNS);
    let whole = std::fs::read(&path).unwrap();
    for bytes in 0..=whole.len() {
        std::fs::write(&path, &whole[..bytes]).unwrap();
        let lines = whole[..bytes].iter().filter(|byte| **byte == b'\n').count();
        let mut ledger = open(folder.path(), &keys).unwrap();
        assert_eq!(ledger.len(), lines.saturating_sub(1), "torn at byte {bytes}");
        for key in &keys {
            if ledger.get(key).unwrap().is_none() {
                ledger.add(*key, &failed(9)).unwrap();
            }
        }
        assert_eq!(ledger.len(), 3);
        drop(ledger);
        assert_eq!(open(folder.path(), &keys).unwrap().len(), 3, "torn at byte {bytes}");
    }
}

/// A disk with so much room. Writes come in parts.
struct Disk {
    bytes: Cursor<Vec<u8>>,
    room: usize,
}

impl Read for Disk {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}

impl Seek for Disk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.bytes.seek(to)
    }
}

impl Write for Disk {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let left = self.room.saturating_sub(self.bytes.position() as usize);
        match left.min(buffer.len()).min(7) {
            0 => Err(ErrorKind::StorageFull.into()),
            fits => self.bytes.write(&buffer[..fits]),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl lines::Storage for Disk {
    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes.get_mut().resize(bytes as usize, 0);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_keeps_whole_lines() {
    let texts = ["a header", "one", "", "another that is longer"];
    let all: usize = texts.iter().map(|text| text.len() + 1).sum();
    for room in 0..=all {
        let mut lines = Lines::new(Disk { bytes: Cursor::new(Vec::new()), room }).unwrap();
        let wrote: Vec<bool> = texts.iter().map(|text| lines.append(text).is_ok()).collect();
        let mut seen = Vec::new();
        let mut see = |_, line: &[u8]| {
            seen.push(String::from_utf8(line.to_vec()).unwrap());
            true
        };
        lines.scan(&mut see).unwrap();
        let kept = texts.iter().zip(&wrote).filter(|(_, wrote)| **wrote);
        assert_eq!(seen, kept.map(|(text, _)| (*text).to_owned()).collect::<Vec<_>>(), "{room}");
        assert_eq!(wrote.iter().all(|wrote| *wrote), room >= all);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_are_a_ledger_or_refused(
        key in "[0-9a-f]{60,66}",
        middle in "[\\PC\n\"{}:]{0,60}",
        end in proptest::sample::select(vec!["", "}", "}}", "}\n", "}}\n{"]),
    ) {
        crate::fuzzing::ledger(format!("{{\"key\":\"{key}\",\"{middle}{end}").as_bytes());
        crate::fuzzing::ledger(format!(" {{\"key\":\"{key}\",\"{middle}{end}").as_bytes());
        crate::fuzzing::ledger(middle.as_bytes());
    }
}

#[test]
fn what_it_is_not_of_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RUNS);
    let all = keys(&runs(3));
    let refused = |keys: &[Key]| open(folder.path(), keys).unwrap_err().to_string();
    let ledger = open(folder.path(), &all).unwrap();
    let error = refused(&all);
    assert!(error.contains("in use by a test (process "), "{error}");
    drop(ledger);
    let error = refused(&all[..2]);
    assert!(error.contains("has 3 runs (sweep ") && error.contains("this is 2 runs"), "{error}");
    let any = Ledger::open(folder.path(), &Contents::default(), "a test").unwrap_err();
    assert!(any.to_string().contains("and this is runs of all kinds"), "{any}");
    let header = std::fs::read_to_string(&path).unwrap();
    let changed = |from: &str, to: &str| {
        std::fs::write(&path, header.replace(from, to)).unwrap();
        refused(&all)
    };
    let error = changed(BUILD, "0.0.9+abc");
    assert!(error.contains("is of Mynah 0.0.9+abc, and this is ") && error.contains(BUILD));
    let error = changed(SCHEMA, "mynah.ledger/1");
    assert!(error.contains("`mynah.ledger/1`") && error.contains(BUILD), "{error}");
    for (from, to) in [("{", "["), ("\n", "\nx\n"), ("\n", "\n{\"key\":\"00\"}\n"), ("\n", "\n\n")]
    {
        let error = changed(from, to);
        assert!(error.contains("runs.jsonl:1: ") || error.contains("runs.jsonl:2: "), "{error}");
    }
    let lost = format!("{{\"key\":\"{}\",\"done\":{{}}", all[0]);
    let sum = crc32fast::hash(lost.as_bytes());
    let lost = format!("\n{lost},\"crc32\":\"{sum:08x}\"}}\n");
    std::fs::write(&path, header.replacen('\n', &lost, 1)).unwrap();
    let mut ledger = open(folder.path(), &all).unwrap();
    let error = ledger.get(&all[0]).unwrap_err().to_string();
    assert!(error.contains("runs.jsonl:2: "), "{error}");
}

/// A changed digit is JSON as before, and a result like any other.
#[test]
fn changed_bytes_are_no_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RUNS);
    let runs = runs(2);
    let all = keys(&runs);
    let mut ledger = open(folder.path(), &all).unwrap();
    ledger.add(all[0], &done(&runs[0])).unwrap();
    ledger.add(all[1], &failed(2)).unwrap();
    drop(ledger);
    let whole = std::fs::read(&path).unwrap();
    let digits: Vec<usize> = (0..whole.len()).filter(|at| whole[*at].is_ascii_digit()).collect();
    for at in digits.into_iter().step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] = if bytes[at] == b'9' { b'0' } else { bytes[at] + 1 };
        std::fs::write(&path, &bytes).unwrap();
        let line = 1 + whole[..at].iter().filter(|byte| **byte == b'\n').count();
        let error = open(folder.path(), &all).unwrap_err();
        assert!(error.is_usage());
        let error = error.to_string();
        // The first line says itself whose it is.
        assert!(line == 1 || error.contains(&format!("runs.jsonl:{line}: ")), "{at}: {error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "it is left as it is");
    }
}

#[test]
fn links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("precious");
    std::fs::write(&elsewhere, "data").unwrap();
    for name in ["lock", RUNS] {
        let ledger = folder.path().join(format!("of-{name}"));
        std::fs::create_dir(&ledger).unwrap();
        std::os::unix::fs::symlink(&elsewhere, ledger.join(name)).unwrap();
        let error = open(&ledger, &keys(&runs(1))).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "data", "{name}");
    }
}

#[test]
fn keys_are_of_what_a_result_follows_from() {
    let run = runs(1).remove(0);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    std::fs::write(&trace, "0 0 0 8 1\n").unwrap();
    let key = |run: &Simulation| Key::of(run, &mut Files::default()).unwrap();
    let mut others = vec![
        run.clone().seed(2),
        run.clone().fault("slow-die:die=0,factor=2").unwrap(),
        run.clone().set("flash.read=33us").unwrap(),
        run.clone().flow("b", "rw=read number_ios=1").unwrap(),
    ];
    let changed = |change: fn(&mut Simulation)| {
        let mut run = run.clone();
        change(&mut run);
        run
    };
    others.push(changed(|run| run.alone = true));
    others.push(changed(|run| run.name = "x".to_owned()));
    others.push(changed(|run| run.point = vec![("a".into(), "1".into())]));
    let mut traced = run.clone();
    traced.flows.clear();
    let options = format!("trace={} trace_remap=modulo", trace.display());
    let traced = traced.flow("a", &options).unwrap();
    others.push(traced.clone());
    let mut all: Vec<Key> = others.iter().map(key).collect();
    all.push(key(&run));
    all.push(key(&run).of_value("f 1"));
    all.push(key(&run).of_value("f 2"));
    for (index, one) in all.iter().enumerate() {
        assert_eq!(Key::parse(&one.to_string()), Some(*one));
        assert!(all[..index].iter().all(|other| other != one), "{index}");
    }
    // Where a trace lies is nothing, what is in it is.
    let elsewhere = folder.path().join("b.trace");
    std::fs::copy(&trace, &elsewhere).unwrap();
    let mut moved = traced.clone();
    let mynah_workload::Source::Trace(source) = &mut moved.flows[0].source else { panic!() };
    source.path = elsewhere.clone();
    assert_eq!(key(&moved), key(&traced));
    std::fs::write(&elsewhere, "0 0 0 8 0\n").unwrap();
    assert_ne!(key(&moved), key(&traced));
    // What is written besides is nothing.
    let written = changed(|run| (run.request_log, run.over_time) = (Some("x".into()), true));
    assert_eq!(key(&written), key(&run));
    let mynah_workload::Source::Trace(source) = &mut moved.flows[0].source else { panic!() };
    source.path = "-".into();
    assert!(matches!(Key::of(&moved, &mut Files::default()), Err(LedgerError::Pipe)));
    assert!(Key::parse("+0").is_none() && Key::parse(&"g".repeat(64)).is_none());
}
