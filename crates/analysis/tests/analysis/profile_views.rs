//! Views of profiles: they show what is in the records, all of it and nothing else.

use crate::pftrace::field;
use crate::small;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use mynah_analysis::task::Task;
use mynah_analysis::views::{self, LeftOut};
use mynah_analysis::{Analysis, GroupBy, ProfileReports, analyse};
use mynah_profile::{Follow, Head, Header, Record, Side, TimeBase, Writer};
use mynah_stamp::{Span, Time};
use proptest::prelude::*;
use quick_xml::events::Event;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

fn simulated(folder: &Path, name: &str, iodepth: u32) -> PathBuf {
    let path = folder.join(name);
    let mut simulation = small::simulation()
        .flow("reader", &format!("rw=randread bs=4k iodepth={iodepth} number_ios=400"))
        .unwrap()
        .flow("a, writer", "rw=randwrite bs=16k number_ios=100")
        .unwrap();
    simulation.profile = Some(path.clone());
    simulation.run().unwrap();
    path
}

fn read(path: &Path, by: &str) -> Analysis {
    analyse(path, &by.parse::<GroupBy>().unwrap()).unwrap()
}

fn each(path: &Path, mut take: impl FnMut(&Header, &Record<'_>)) {
    let mut follow = Follow::open(path).unwrap();
    let header = follow.header().clone();
    follow.poll(&mut |record| take(&header, record)).unwrap();
}

/// A profile of both ends, and of a host alone, as a test makes them up.
fn made_up(path: &Path, header: &Header, records: &[(Head, Vec<u64>)]) {
    let mut writer = Writer::new(File::create(path).unwrap(), header.clone()).unwrap();
    for (head, stages) in records {
        let total = stages.iter().sum();
        let head = Head { total: Span::from_ns(total), ..*head };
        let stages = stages.iter().map(|&ns| Span::from_ns(ns));
        writer.record(head, stages, &vec![7; header.beside.len()]).unwrap();
    }
    writer.finish().unwrap();
}

fn page(files: &[&Path], base: Option<&Path>, verdict: Option<&str>, to: &Path) -> String {
    let profiles: Vec<Analysis> = files.iter().map(|path| read(path, "type,size")).collect();
    let base = base.map(|path| read(path, "type,size"));
    let reports = ProfileReports::new(&profiles, base.as_ref());
    views::write_report(to, &reports, (&profiles, base.as_ref()), verdict).unwrap();
    std::fs::read_to_string(to).unwrap()
}

/// What a page says, line by line. But for its first line it is XML too.
fn said(html: &str) -> String {
    let mut reader = quick_xml::Reader::from_str(html.trim_start_matches("<!doctype html>"));
    let (mut out, mut open) = (String::new(), vec![]);
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error}")) {
            Event::Start(tag) => {
                let name = tag.name().as_ref().to_owned();
                if matches!(&name[..], "h1" | "h2" | "h3" | "p" | "tr" | "li" | "pre" | "div") {
                    out.push('\n');
                }
                open.push(name);
            }
            Event::End(_) => drop(open.pop().expect("what ends has begun")),
            Event::Text(text) if open.last().is_none_or(|name| name != "style") => {
                out.push_str(text.trim());
                out.push(' ');
            }
            Event::GeneralRef(name) => out.push_str(&format!("&{};", &*name)),
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let lines = out.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_page_is_whole_and_says_what_the_report_says() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (quiet, busy) = (simulated(folder, "quiet", 1), simulated(folder, "busy", 32));
    let verdict = "die_wait is the bottleneck\n  evidence  x < y";
    let html = page(&[&busy], Some(&quiet), Some(verdict), &folder.join("a.html"));
    for outside in ["<script", "src=", "href=", "url(", "@import", "NaN", "inf%"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(html, page(&[&busy], Some(&quiet), Some(verdict), &folder.join("b.html")));
    let text = said(&html).replace(folder.to_str().unwrap(), "FOLDER");
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(text);
    // Base and now are on one scale: the longer of the two fills its bar.
    let widths = |line: &str| -> f64 {
        let parts = line.split("width:").skip(1);
        parts.map(|part| part.split_once('%').unwrap().0.parse::<f64>().unwrap()).sum()
    };
    let bars = |name: &str| -> Vec<f64> {
        let begins = format!("<div class=\"stack\"><span>{name}</span>");
        html.lines().filter(|line| line.starts_with(&begins)).map(widths).collect()
    };
    let (base, now) = (bars("base"), bars("now"));
    assert_eq!((base.len(), now.len()), (2, 2));
    for (base, now) in base.iter().zip(&now) {
        assert!((base.max(*now) - 100.0).abs() < 0.1 && base.min(*now) > 0.0, "{base} {now}");
    }
    // Several profiles, and no base.
    let both = said(&page(&[&quiet, &busy], None, None, &folder.join("c.html")));
    assert_eq!(both.matches("What was recorded").count(), 2);
    assert!(!both.contains("of growth") && !both.contains("Red takes longer"), "{both}");
}

#[test]
fn names_cannot_break_out_and_nothing_is_drawn_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("<i>");
    let name = "<script>\"&'";
    let mut header = Header::new(Side::Host, name, TimeBase::Monotonic);
    header.kinds = vec![name.into()];
    header.stages = vec![name.into(), "host_turn".into()];
    header.sessions = vec![name.into()];
    header.beside = vec![name.into(), "send_ps".into()];
    let failed = Head { status: 0x281, ..Head::default() };
    for records in [
        vec![],
        vec![(failed, vec![5, 6])],
        vec![(Head::default(), vec![0, 0])],
        vec![(Head::default(), vec![5, 6]), (failed, vec![90, 90])],
    ] {
        made_up(&path, &header, &records);
        let html = page(&[&path], Some(&path), Some(name), &folder.path().join("a.html"));
        assert!(!html.contains("<script") && !html.contains("NaN"), "{html}");
        said(&html);
        made_up(&path, &header, &records);
        views::write_trace(&folder.path().join("t"), &[read(&path, "all")]).unwrap();
        views::write_hdr(&folder.path().join("h"), &[read(&path, "type")]).unwrap();
    }
}

/// Slices by track, in order: name, begin, end, and the arrows that begin and end there.
type Slices = BTreeMap<u64, Vec<(String, u64, u64)>>;

#[derive(Default)]
struct Seen {
    slices: Slices,
    /// Names of processes.
    processes: Vec<String>,
    /// For each arrow, where it leaves and where it ends: track and time.
    from: BTreeMap<u64, (u64, u64)>,
    to: BTreeMap<u64, (u64, u64)>,
}

fn trace(path: &Path) -> Seen {
    let bytes = std::fs::read(path).unwrap();
    let mut seen = Seen::default();
    let mut names = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut rest = &bytes[..];
    while let Some((1, _, mut packet)) = field(&mut rest) {
        let mut time = 0;
        while let Some((number, value, mut inner)) = field(&mut packet) {
            match number {
                8 => time = value,
                12 => {
                    while let Some((kind, _, mut entry)) = field(&mut inner) {
                        let id = field(&mut entry).unwrap().1;
                        let name = field(&mut entry).unwrap().2;
                        names.insert((kind, id), String::from_utf8(name.to_vec()).unwrap());
                    }
                }
                60 => {
                    while let Some((number, _, mut process)) = field(&mut inner) {
                        while let (3, Some((kind, _, name))) = (number, field(&mut process)) {
                            if kind == 6 {
                                seen.processes.push(String::from_utf8(name.to_vec()).unwrap());
                            }
                        }
                    }
                }
                11 => {
                    let (mut kind, mut name, mut track, mut arrows) = (0, 0, 0, vec![]);
                    while let Some((number, value, _)) = field(&mut inner) {
                        match number {
                            9 => kind = value,
                            10 => name = value,
                            11 => track = value,
                            47 | 48 => arrows.push((number, value)),
                            _ => {}
                        }
                    }
                    let at = last.entry(track).or_default();
                    assert!(time >= *at, "a track's events are in order");
                    *at = time;
                    let slices = seen.slices.entry(track).or_default();
                    if kind == 1 {
                        open.entry(track).or_default().push(slices.len());
                        slices.push((names[&(2, name)].clone(), time, 0));
                        for (number, id) in arrows {
                            let ends = if number == 47 { &mut seen.from } else { &mut seen.to };
                            assert!(ends.insert(id, (track, time)).is_none());
                        }
                    } else {
                        slices[open.get_mut(&track).unwrap().pop().unwrap()].2 = time;
                    }
                }
                _ => {}
            }
        }
    }
    assert!(rest.is_empty() && open.values().all(Vec::is_empty), "every slice ends");
    seen
}

#[test]
fn a_trace_has_every_io_with_its_stages() {
    let folder = tempfile::tempdir().unwrap();
    let path = simulated(folder.path(), "busy", 8);
    let out = folder.path().join("t.pftrace");
    assert_eq!(views::write_trace(&out, &[read(&path, "all")]).unwrap(), 0);
    let seen = trace(&out);
    let names = ["simulation, reader", "simulation, a, writer"];
    assert_eq!(seen.processes.iter().filter(|name| names.contains(&name.as_str())).count(), 2);
    let mut expected = vec![];
    each(&path, |header, record| {
        let begin = record.head.begin.as_ps();
        let name = format!("{} ", header.kinds[usize::from(record.head.kind)]);
        expected.push((name, begin / 1000, (begin + record.head.total.as_ps()) / 1000));
        let mut at = begin;
        for (name, span) in header.stages.iter().zip(record.stages) {
            if !span.is_zero() {
                expected.push((name.clone(), at / 1000, (at + span.as_ps()) / 1000));
            }
            at += span.as_ps();
        }
    });
    let whole =
        |name: &String| name.split_once(' ').map_or(name.clone(), |(kind, _)| format!("{kind} "));
    let mut drawn: Vec<_> = (seen.slices.values().flatten())
        .map(|(name, from, to)| (whole(name), *from, *to))
        .collect();
    drawn.sort();
    expected.sort();
    assert_eq!(drawn, expected);
    assert!(seen.from.is_empty() && seen.to.is_empty());
}

#[test]
fn arrows_join_both_ends_of_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("path");
    let mut header = Header::new(Side::Path, "drive", TimeBase::Monotonic);
    header.kinds = vec!["write".into()];
    let stages = [
        "host_queue",
        "network_request",
        "host_turn",
        "firmware",
        "output",
        "network_response",
        "host_receive",
    ];
    header.stages = stages.map(str::to_owned).to_vec();
    let records: Vec<_> = (0..20u64)
        .map(|n| {
            (
                Head { begin: Time::from_ns(n * 40), ..Head::default() },
                vec![10, 20, n % 2, 30, 5, 20, 8],
            )
        })
        .collect();
    made_up(&path, &header, &records);
    let out = folder.path().join("t.pftrace");
    views::write_trace(&out, &[read(&path, "all")]).unwrap();
    let seen = trace(&out);
    assert_eq!(seen.processes, ["host, session 0", "target, session 0"]);
    assert_eq!((seen.from.len(), seen.to.len()), (40, 40));
    for (id, (track, time)) in &seen.from {
        let (end_track, end) = seen.to[id];
        assert!(end_track != *track && end >= *time, "an arrow goes on to the other process");
    }
    // The target's slice is from its first stage to its last; its stages are on its tracks.
    let of_target = |name: &str| matches!(name, "firmware" | "output");
    for slices in seen.slices.values() {
        let is_target = slices.iter().any(|(name, ..)| of_target(name));
        for (name, from, to) in slices {
            let is_whole = name == "write";
            assert!(is_whole || of_target(name) == is_target, "{name}");
            if is_whole && is_target {
                assert_eq!(to - from, 35);
            }
        }
    }
}

#[test]
fn folded_stacks_hold_all_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = simulated(folder.path(), "busy", 8);
    let text = views::folded(&[read(&path, "session,type,size")]);
    let mut total = 0;
    each(&path, |_, record| total += u128::from(record.head.total.as_ps()));
    let mut folded = 0;
    let mut reads = 0;
    for line in text.lines() {
        let (stack, ns) = line.rsplit_once(' ').unwrap();
        folded += ns.parse::<u128>().unwrap();
        assert_eq!(stack.split(';').count(), 5, "{stack}");
        reads += usize::from(stack == "reader;read;4KiB;drive;flash_array");
    }
    assert_eq!(reads, 1);
    assert!(folded.abs_diff(total / 1000) <= text.lines().count() as u128, "{folded} {total}");
    // Frames are what semicolons part, and lines end stacks.
    let mut header = Header::new(Side::Host, "host", TimeBase::Monotonic);
    header.kinds = vec!["a;b\nc".into()];
    header.stages = vec!["d e".into()];
    let odd = folder.path().join("odd");
    made_up(&odd, &header, &[(Head::default(), vec![3])]);
    assert_eq!(views::folded(&[read(&odd, "type")]), "a_b_c;target;d e 3\n");
    let all = views::folded(&[read(&odd, "all"), read(&odd, "all")]);
    assert_eq!(all, format!("{0};all;target;d e 3\n{0};all;target;d e 3\n", odd.display()));
}

#[test]
fn a_log_has_fios_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = simulated(folder.path(), "busy", 8);
    let mut out = vec![];
    let (left_out, written) = views::write_csv(&mut out, &[read(&path, "all")], 4096).unwrap();
    written.unwrap();
    let mut expected = vec![];
    let mut first = None;
    each(&path, |_, record| {
        first = Some(first.unwrap_or(u64::MAX).min(record.head.begin.as_ps()));
    });
    each(&path, |header, record| {
        let head = &record.head;
        let direction = match header.kinds[usize::from(head.kind)].as_str() {
            "read" => 0,
            "write" => 1,
            kind => panic!("{kind}"),
        };
        let begin = head.begin.as_ps() - first.unwrap();
        let ns = (head.total.as_ps() + 500) / 1000;
        let end = (begin + head.total.as_ps()) / 1_000_000_000;
        let (bytes, offset, issued) = (head.bytes, head.block * 512, begin / 1000);
        expected.push(format!("{end}, {ns}, {direction}, {bytes}, {offset}, 0, {issued}"));
    });
    assert_eq!(left_out, LeftOut::default());
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    let times = text.lines().map(|line| line.split_once(',').unwrap().0.parse::<u64>().unwrap());
    assert!(times.is_sorted());
    // Blocks of others are as large as is said, keys are no places, and failures are left out.
    let mut header = Header::new(Side::Target, "drive", TimeBase::Monotonic);
    header.kinds = ["read", "store", "flush"].map(str::to_owned).to_vec();
    header.stages = vec!["processing".into()];
    let odd = folder.path().join("odd");
    let head = |kind, status| Head { kind, status, block: 3, bytes: 9, ..Head::default() };
    let all = [(0, 0), (1, 0), (0, 0x281), (2, 0)]
        .map(|(kind, status)| (head(kind, status), vec![2_000_001]));
    made_up(&odd, &header, &all);
    let mut out = vec![];
    let (left_out, _) = views::write_csv(&mut out, &[read(&odd, "all")], 4096).unwrap();
    assert_eq!(left_out, LeftOut { failed: 1, undirected: 1 });
    let lines = "2, 2000001, 0, 9, 12288, 0, 0\n2, 2000001, 1, 9, 0, 0, 0\n";
    assert_eq!(String::from_utf8(out).unwrap(), lines);
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (_, written) = views::write_csv(&mut Full, &[read(&odd, "all")], 512).unwrap();
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
}

/// The histograms of a log, each tag's together, and when intervals began.
fn histograms(log: &[u8]) -> (BTreeMap<String, Histogram<u64>>, Vec<u128>) {
    use base64::Engine;
    let (mut all, mut begins) = (BTreeMap::new(), vec![]);
    for entry in IntervalLogIterator::new(log) {
        let LogEntry::Interval(interval) = entry.unwrap() else { continue };
        begins.push(interval.start_timestamp().as_millis());
        let bytes = base64::engine::general_purpose::STANDARD.decode(interval.encoded_histogram());
        let histogram: Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes.unwrap()[..]).unwrap();
        let tag = interval.tag().expect("a tag").as_str().to_owned();
        let into = all.entry(tag).or_insert_with(|| Histogram::new(3).unwrap());
        into.add(histogram).unwrap();
    }
    (all, begins)
}

#[test]
fn hdr_histograms_hold_every_latency() {
    let folder = tempfile::tempdir().unwrap();
    let path = simulated(folder.path(), "busy", 8);
    let log = folder.path().join("a.hlog");
    views::write_hdr(&log, &[read(&path, "session,type")]).unwrap();
    let log = std::fs::read(log).unwrap();
    assert!(log.starts_with(b"#[Histogram log format version 1.3]\n"));
    let (all, begins) = histograms(&log);
    assert!(begins.is_sorted() && begins[0] == 0 && begins.last() > Some(&0), "{begins:?}");
    let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    each(&path, |header, record| {
        let session = ["reader", "a-writer"][usize::from(record.head.connection)];
        let kind = &header.kinds[usize::from(record.head.kind)];
        let tag = format!("{session}-{kind}");
        expected.entry(tag).or_default().push(record.head.total.as_ps() / 1000);
    });
    assert_eq!(all.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (tag, mut values) in expected {
        let histogram = &all[&tag];
        assert_eq!(histogram.len(), values.len() as u64);
        values.sort_unstable();
        for share in [0.01, 0.5, 0.99, 1.0] {
            let exact = values[((values.len() as f64 * share).ceil() as usize).max(1) - 1];
            let said = histogram.value_at_quantile(share);
            assert!(said.abs_diff(exact) as f64 <= exact as f64 / 900.0 + 1.0, "{said} {exact}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_records_can_be_shown(
        records in prop::collection::vec(
            (any::<(u16, u16, u32, u64)>(), 0u8..3, prop::collection::vec(any::<u64>(), 2), any::<bool>()),
            0..40,
        ),
        total in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any");
        let mut header = Header::new(Side::Target, "drive", TimeBase::Monotonic);
        header.kinds = ["read", "write", "other"].map(str::to_owned).to_vec();
        header.stages = vec!["network_request".into(), "network_response".into()];
        let mut writer = Writer::new(File::create(&path).unwrap(), header).unwrap();
        for ((connection, queue, bytes, begin), kind, stages, failed) in records {
            let status = u16::from(failed);
            let (begin, total) = (Time::from_ps(begin), Span::from_ps(total));
            let head = Head { connection, queue, bytes, kind, status, begin, total, ..Head::default() };
            writer.record(head, stages.into_iter().map(Span::from_ps), &[]).unwrap();
        }
        writer.finish().unwrap();
        let profiles = [read(&path, "session,queue,type")];
        said(&page(&[&path], None, None, &folder.path().join("a.html")));
        views::write_trace(&folder.path().join("a.pftrace"), &profiles).unwrap();
        views::write_hdr(&folder.path().join("a.hlog"), &profiles).unwrap();
        views::folded(&profiles);
        views::write_csv(&mut vec![], &profiles, 512).unwrap().1.unwrap();
    }
}

/// Rewrite the file with `MYNAH_UPDATE_DOCS=1 cargo test -p mynah-lab`.
#[test]
fn the_schema_of_tasks_is_current_and_tasks_satisfy_it() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let path = format!("{root}/docs/profile-task.schema.json");
    let schema = Task::json_schema();
    if std::env::var_os("MYNAH_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(checked_in == schema, "{path} is out of date: MYNAH_UPDATE_DOCS=1 writes it");
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let mut tasks = 0;
    for entry in std::fs::read_dir(format!("{root}/experiments/ntprof")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "toml") {
            continue;
        }
        Task::load(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let value = serde_json::to_value(toml::from_str::<toml::Table>(&text).unwrap()).unwrap();
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{path:?}: {errors:#?}");
        tasks += 1;
    }
    assert!(tasks > 1);
    let unknown = serde_json::json!({ "schema": "", "execution": { "load": [{ "rw_": "read" }] } });
    assert!(!validator.is_valid(&unknown));
}

/// Rewrite the file with `MYNAH_UPDATE_DOCS=1 cargo test -p mynah-lab`.
#[test]
fn the_schema_is_current_and_reports_satisfy_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/profile-report.schema.json");
    let schema = ProfileReports::json_schema();
    if std::env::var_os("MYNAH_UPDATE_DOCS").is_some() {
        std::fs::write(path, &schema).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(checked_in == schema, "{path} is out of date: MYNAH_UPDATE_DOCS=1 writes it");
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let profile = simulated(folder.path(), "a", 4);
    let base = read(&profile, "type,size");
    for base in [None, Some(&base)] {
        let reports = ProfileReports::new(&[read(&profile, "type,size")], base);
        let value = serde_json::from_str(&reports.to_json()).unwrap();
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}
