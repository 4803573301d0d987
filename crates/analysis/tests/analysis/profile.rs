//! Profiles of simulations: they say what the results say, and every I/O's stages add up.

use crate::small;
use mynah_analysis::{
    Beyond, Cause, GroupBy, Outcome, Part, ProfileReports, Verdict, analyse, analyse_part,
};
use mynah_lab::simulation::Simulation;
use mynah_profile::{
    Choice, Counts, Head, Header, KeepAbove, Profile, Sampling, Side, TimeBase, Writer,
};
use mynah_result::Result as RunResult;
use mynah_stamp::{Span, Time};
use std::path::{Path, PathBuf};

fn simulation(iodepth: u32) -> Simulation {
    small::simulation()
        .flow("reader", &format!("rw=randread bs=4k iodepth={iodepth} number_ios=3000"))
        .unwrap()
        .flow("writer", "rw=randrw bs=16k iodepth=4 number_ios=2000")
        .unwrap()
}

fn profiled(mut simulation: Simulation, path: &Path) -> RunResult {
    simulation.profile = Some(path.to_owned());
    let result = simulation.run().unwrap().result;
    RunResult { run: Default::default(), ..result }
}

fn report(path: &Path, by: &str, base: Option<&Path>) -> ProfileReports {
    let by: GroupBy = by.parse().unwrap();
    let base = base.map(|path| analyse(path, &by).unwrap());
    ProfileReports::new(&[analyse(path, &by).unwrap()], base.as_ref())
}

#[test]
fn a_profile_says_what_the_result_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    let result = profiled(simulation(8), &path);
    let plain = simulation(8).run().unwrap().result;
    let plain = RunResult { run: Default::default(), ..plain };
    assert_eq!(result.to_json(), plain.to_json(), "being profiled changes nothing");

    let report = &report(&path, "session,type", None).profiles[0];
    assert_eq!((report.side.as_str(), report.name.as_str()), ("simulation", "enterprise-tlc"));
    assert_eq!((report.counts.completed, report.counts.recorded), (5000, 5000));
    assert_eq!((report.uneven, report.counts.torn), (0, 0));
    let close = |a: f64, b: f64| (a - b).abs() <= a.abs().max(b.abs()) * 1e-9;
    let mut groups = 0;
    for flow in &result.flows {
        for (kind, side) in flow.sides().into_iter().filter(|(_, side)| side.ios > 0) {
            let name = format!("{} {}", flow.name, kind.name());
            let found = report.groups.iter().find(|group| group.name == name);
            let group = found.unwrap_or_else(|| panic!("{name}: {:?}", report.groups));
            groups += 1;
            assert_eq!(group.ios, side.ios);
            let (all, expected) = (group.lat_ns.unwrap(), side.e2e_ns.or(side.lat_ns).unwrap());
            assert!(close(all.mean, expected.mean), "{name}: {} {}", all.mean, expected.mean);
            assert_eq!((all.min, all.max), (expected.min, expected.max));
            assert_eq!(all.percentiles, expected.percentiles);
            // Stage by stage, and no others.
            let stages = &side.stages;
            assert_eq!(
                group.stages.iter().map(|it| &it.stage).collect::<Vec<_>>(),
                stages.iter().map(|it| &it.stage).collect::<Vec<_>>()
            );
            for (mine, expected) in group.stages.iter().zip(stages) {
                assert!(close(mine.mean_ns, expected.mean_ns), "{}", mine.stage);
                assert!(mine.p50_ns <= mine.p99_ns && mine.p99_ns <= mine.max_ns);
            }
            let sum: f64 = group.stages.iter().map(|stage| stage.mean_ns).sum();
            assert!(close(sum, all.mean));
        }
    }
    assert_eq!(groups, report.groups.len());
    // A closed loop keeps its depth, but for its last commands.
    let readers: f64 = (report.groups.iter())
        .filter(|group| group.name.starts_with("reader"))
        .map(|group| group.outstanding * report.window_ns)
        .sum();
    let flow = &result.flows[0].read;
    let busy = flow.e2e_ns.or(flow.lat_ns).unwrap().mean * flow.ios as f64;
    assert!(close(readers, busy));
}

#[test]
fn records_are_numbered_and_even() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    profiled(simulation(8), &path);
    let mut records = Profile::open(&path).unwrap().records();
    let mut next = [0, 0];
    let mut heads: Vec<Head> = vec![];
    while let Some(record) = records.next_record().unwrap() {
        assert_eq!(record.residual(), 0);
        let flow = usize::from(record.head.connection);
        assert_eq!(record.head.nth, next[flow]);
        next[flow] += 1;
        heads.push(record.head);
    }
    assert_eq!(next, [3000, 2000]);
    assert!(heads.iter().zip(1..).all(|(head, sequence)| head.sequence == sequence));
    assert!(heads.iter().all(|head| head.bytes == if head.connection == 0 { 4096 } else { 16384 }));
}

#[test]
fn what_has_grown_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| -> PathBuf { folder.path().join(name) };
    let alone = |iodepth: u32| {
        let flow = format!("rw=randread bs=4k iodepth={iodepth} number_ios=4000");
        Simulation::on("enterprise-tlc").unwrap().flow("reader", &flow).unwrap()
    };
    profiled(alone(1), &place("quiet"));
    profiled(alone(256), &place("busy"));
    let report = report(&place("busy"), "type", Some(&place("quiet")));
    let group = &report.profiles[0].groups[0];
    let growth = group.growth.as_ref().unwrap();
    assert_eq!(growth.stage.as_deref(), Some("die_wait"));
    assert!(growth.amplification > 1.5, "{growth:?}");
    let shares: f64 = group.stages.iter().filter_map(|stage| stage.growth_share).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let text = report.text();
    for said in ["x", "of growth", "most of what it grew by", "is die_wait"] {
        assert!(text.contains(said), "{text}");
    }
    // What the base does not have is said.
    let sizes = self::report(&place("busy"), "session,type", Some(&place("quiet")));
    assert!(!sizes.text().contains("has no such I/Os"));
    profiled(simulation(8), &place("other"));
    let other = self::report(&place("other"), "session,type", Some(&place("quiet")));
    assert!(other.text().contains("quiet has no such I/Os to compare with"), "{}", other.text());
    // Beside itself nothing has grown.
    let same = self::report(&place("quiet"), "type", Some(&place("quiet")));
    let growth = same.profiles[0].groups[0].growth.clone().unwrap();
    assert_eq!((growth.amplification, growth.stage), (1.0, None));
}

#[test]
fn pairs_have_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kv.profile");
    let simulation = Simulation::on("kv-tlc")
        .unwrap()
        .precondition(mynah_lab::experiment::Precondition::Fill)
        .flow("pairs", "kv=ycsb-a keys=10k value_size=4k iodepth=8 number_ios=2000")
        .unwrap();
    profiled(simulation, &path);
    let report = &report(&path, "type", None).profiles[0];
    let names: Vec<_> = report.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["update", "retrieve"]);
    assert_eq!(report.uneven, 0);
}

/// Sizes without end are a group each only up to a bound.
#[test]
fn many_groups_become_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    let mut header = Header::new(Side::Target, "a drive", TimeBase::Monotonic);
    header.kinds = vec!["read".into()];
    header.stages = vec!["new_stage".into(), "never".into()];
    let out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let mut writer = Writer::new(out, header).unwrap();
    for number in 0..1000u32 {
        let total = Span::from_ns(u64::from(number) + 1);
        let head = Head { bytes: number * 512, total, ..Head::default() };
        writer.record(head, [total, Span::ZERO], &[]).unwrap();
    }
    assert!(writer.finish().unwrap().add_up());
    let report = &report(&path, "type,size", None).profiles[0];
    assert_eq!(report.groups.len(), 129);
    let others = report.groups.last().unwrap();
    assert_eq!((others.name.as_str(), others.ios), ("others", 1000 - 128));
    let stages: Vec<_> = others.stages.iter().map(|it| it.stage.as_str()).collect();
    assert_eq!(stages, ["new_stage"]);
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    std::fs::write(&path, "a text").unwrap();
    let error = analyse(&path, &GroupBy::default()).err().unwrap();
    assert!(error.to_string().contains("this is no profile"), "{error}");
    profiled(simulation(8), &path);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let error = analyse(&path, &GroupBy::default()).err().unwrap();
    assert!(error.to_string().contains("ends after 4999 of 5000 records"), "{error}");
    assert!("type,colour".parse::<GroupBy>().is_err());
}

/// A target's profile of I/Os that come every 10 us, and are late by what `late` says of each; with so
/// many of `ios` lost, and their latency too long by `residual`.
fn target(path: &Path, ios: u64, late: impl Fn(u64) -> u64, lost: u64, residual: u64) {
    let mut header = Header::new(Side::Target, "a drive", TimeBase::Monotonic);
    header.kinds = vec!["read".into()];
    header.stages = vec!["flash_array".into(), "late".into()];
    let out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut writer = Writer::new(out, header).unwrap();
    for number in 0..ios {
        let stages = [Span::from_us(50 + number % 7), Span::from_us(late(number) + number % 3)];
        let total = Span::from_ps(stages[0].as_ps() + stages[1].as_ps() + residual);
        let begin = Time::from_ns(number * 10_000);
        let head = Head { begin, total, bytes: 4096, ..Head::default() };
        writer.record(head, stages, &[]).unwrap();
    }
    writer.finish().unwrap();
    if lost > 0 {
        let mut bytes = std::fs::read(path).unwrap();
        let mut add = |word: usize, more: u64| {
            let at = (mynah_profile::COUNTS_WORD + word) * 8;
            let mut count = [0; 8];
            count.copy_from_slice(&bytes[at..at + 8]);
            let count = u64::from_le_bytes(count) + more;
            bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
        };
        add(0, lost);
        add(4, lost);
        std::fs::write(path, bytes).unwrap();
    }
}

fn verdict(base: &Path, now: &Path) -> Verdict {
    let report = report(now, "type", Some(base)).profiles.remove(0);
    report.verdict().expect("a verdict").clone()
}

#[test]
fn untrusted_profiles_get_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| -> PathBuf { folder.path().join(name) };
    target(&place("base"), 5000, |_| 1, 0, 0);
    target(&place("slow"), 5000, |_| 80, 0, 0);
    assert_eq!(verdict(&place("base"), &place("slow")).outcome, Outcome::Slower);
    target(&place("slow"), 5000, |_| 80, 4, 0);
    assert_eq!(verdict(&place("base"), &place("slow")).outcome, Outcome::Slower);
    // Of those that are left there is a verdict, which says how many these are.
    target(&place("slow"), 5000, |_| 80, 1250, 0);
    let left = verdict(&place("base"), &place("slow"));
    assert_eq!((left.outcome, left.stage.as_deref()), (Outcome::Slower, Some("late")));
    let said = "By what is left (of 6250 I/Os of this profile the records of 80.0 % are left";
    assert!(left.sentence.starts_with(said), "{}", left.sentence);
    let cases = [(5000, 0, 1, "do not add up"), (100, 0, 0, "100 such I/Os")];
    for (ios, lost, residual, says) in cases {
        target(&place("slow"), ios, |_| 80, lost, residual);
        let verdict = verdict(&place("base"), &place("slow"));
        assert_eq!((verdict.outcome, verdict.cause), (Outcome::Untrusted, None));
        assert!(verdict.sentence.contains(says), "{}", verdict.sentence);
        assert!(verdict.sentence.contains("this profile"), "{}", verdict.sentence);
        // Nor do they bear one on others.
        let other = self::verdict(&place("slow"), &place("base"));
        assert_eq!(other.outcome, Outcome::Untrusted);
        assert!(other.sentence.contains("the base"), "{}", other.sentence);
    }
}

#[test]
fn the_floor_is_a_tenth() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| -> PathBuf { folder.path().join(name) };
    target(&place("base"), 5000, |_| 1, 0, 0);
    for (late, outcome) in [(1, Outcome::NotSlower), (4, Outcome::NotSlower), (12, Outcome::Slower)]
    {
        target(&place("now"), 5000, |_| late, 0, 0);
        let verdict = verdict(&place("base"), &place("now"));
        assert_eq!(verdict.outcome, outcome, "{}", verdict.sentence);
        assert_eq!(verdict.sentence.contains("by a tenth"), late == 4, "{}", verdict.sentence);
    }
}

/// A drive that stops in a part of the time does not move the median.
#[test]
fn what_is_slow_now_and_then_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| -> PathBuf { folder.path().join(name) };
    target(&place("base"), 5000, |_| 1, 0, 0);
    target(&place("now"), 5000, |n| if n % 1000 < 200 { 3000 } else { 1 }, 0, 0);
    let verdict = verdict(&place("base"), &place("now"));
    assert_eq!(verdict.outcome, Outcome::Slower, "{}", verdict.text());
    assert_eq!(verdict.stage.as_deref(), Some("late"));
    assert!(
        verdict.sentence.starts_with("In 2") && verdict.sentence.contains("of the time: "),
        "{}",
        verdict.text()
    );
}

#[test]
fn a_part_of_a_profile_is_its_base() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    // The first 20 ms are quiet.
    target(&path, 5000, |n| if n < 2000 { 1 } else { 200 }, 0, 0);
    let by: GroupBy = "type".parse().unwrap();
    let (from, until) = (Span::ZERO, Span::from_ms(20));
    let base = analyse_part(&path, &by, Part::Within(from, until)).unwrap();
    let now = analyse_part(&path, &by, Part::From(until)).unwrap();
    let reports = ProfileReports::knowing(&[now], Some(&base), &Beyond::default());
    let report = &reports.profiles[0];
    assert_eq!(report.groups[0].ios, 3000);
    let verdict = report.verdict().unwrap();
    assert_eq!(verdict.stage.as_deref(), Some("late"), "{}", verdict.text());
    // Shares of stages are of what the middle windows have grown by, so they are all of it.
    let shares: f64 = verdict.stages.iter().map(|stage| stage.share).sum();
    assert!((shares - 1.0).abs() < 0.01, "{shares}");
    assert!(matches!(verdict.cause, Some(Cause::TargetCore | Cause::Lateness)));
    let text = reports.text();
    for said in ["VERDICT  S6(C)", "evidence", "try", "not it"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// The mean number in a stage is the sum of the times in it over the window, for each and all.
#[test]
fn littles_law_holds_for_stages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    target(&path, 5000, |n| n % 90, 0, 0);
    let report = report(&path, "type", None).profiles.remove(0);
    let group = &report.groups[0];
    let sum: f64 = group.stages.iter().map(|stage| stage.in_stage).sum();
    assert!((sum - group.outstanding).abs() < 1e-9 * sum, "{sum} {}", group.outstanding);
    // By going through the time: who came, and who left.
    let mut events: Vec<(u64, i64)> = vec![];
    let mut records = Profile::open(&path).unwrap().records();
    while let Some(record) = records.next_record().unwrap() {
        let enter = record.head.begin.as_ps() + record.stages[0].as_ps();
        events.extend([(enter, 1), (enter + record.stages[1].as_ps(), -1)]);
    }
    events.sort_unstable();
    let (mut there, mut area, mut before) = (0i64, 0i128, 0);
    for (at, change) in events {
        area += i128::from(there) * i128::from(at - before);
        (before, there) = (at, there + change);
    }
    let mean = area as f64 / (report.window_ns * 1e3);
    let late = group.stages.iter().find(|stage| stage.stage == "late").unwrap();
    assert!((late.in_stage - mean).abs() < 1e-9 * mean, "{} {mean}", late.in_stage);
}

/// Large files are read in parts, on all processors: what they say is what one reader says.
#[test]
fn large_profiles_are_read_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    target(&path, 150_000, |n| n % 90, 0, 0);
    let by = GroupBy::default();
    let all = Part::From(Span::ZERO);
    let analysed = [analyse(&path, &by).unwrap(), analyse_part(&path, &by, all).unwrap()];
    let mut reports = ProfileReports::new(&analysed, None).profiles;
    for report in &mut reports {
        for group in &mut report.groups {
            // Its last digits depend on the order of sums.
            group.lat_ns.as_mut().unwrap().stddev = 0.0;
        }
    }
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0].groups.iter().map(|group| group.ios).sum::<u64>(), 150_000);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let error = analyse(&path, &by).err().unwrap();
    assert!(error.to_string().contains("ends after 149999 of 150000 records"), "{error}");
}

/// Means are of the sample alone, and rates those of all that the sample stands for: the slow ones
/// that were kept beside it are counted by themselves.
#[test]
fn slow_ones_beside_a_sample_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    let mut header = Header::new(Side::Target, "a drive", TimeBase::Monotonic);
    header.kinds = vec!["read".into()];
    header.stages = vec!["only".into()];
    let sampling = Sampling::OneIn(50);
    header.choice = Some(Choice { sampling, keep_above: KeepAbove::Running, ..Choice::default() });
    let out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let mut writer = Writer::new(out, header).unwrap();
    for number in 0..100u64 {
        let kept = number % 10 == 3;
        let total = if kept { Span::from_ms(2) } else { Span::from_us(10) };
        let begin = Time::from_ns(number * 1_000_000);
        let head = Head { bytes: 4096, begin, total, kept, ..Head::default() };
        writer.record(head, [total], &[]).unwrap();
    }
    let all = Counts { completed: 4500, recorded: 100, sampled_out: 4400, ..Counts::default() };
    assert!(writer.finish_as(all).unwrap().add_up());
    let reports = report(&path, "type", None);
    let profile = &reports.profiles[0];
    assert_eq!(profile.choice.as_deref(), Some("1 in 50 and all above the running p99.9"));
    let reads = &profile.groups[0];
    assert_eq!((reads.ios, reads.kept, reads.kept_max_ns), (90, 10, 2e6));
    assert_eq!(reads.lat_ns.unwrap().max, 10_000.0);
    let seconds = profile.window_ns / 1e9;
    assert!((reads.iops - 90.0 * 50.0 / seconds).abs() < 1e-6, "{}", reads.iops);
    assert!(reports.text().contains("; beside the sample 10 slow ones, up to 2.00ms"));
}
