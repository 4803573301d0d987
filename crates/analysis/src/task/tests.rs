use super::loads::RUNTIME;
use super::*;
use crate::ProfileReport;
use miette::Diagnostic;
use mynah_workload::{Limits as FlowLimits, Source};
use proptest::prelude::*;

const HEAD: &str = "schema = \"mynah.profile-task/1\"\n";
const SERVE: &str = "serve = { drive = \"enterprise-tlc\" }\n";
const LOAD: &str = "load = [{ rw = \"randread\", iodepth = [1, 4] }]\n";

/// A task with these lines after those that it needs.
fn with(lines: &str) -> String {
    format!("{HEAD}[execution]\n{SERVE}{LOAD}{lines}\n")
}

fn task(text: &str) -> Task {
    Task::parse("a.toml", text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What is said of it, with the line and the help.
fn wrong(text: &str) -> String {
    let error = Task::parse("a.toml", text).expect_err(text);
    match error.help() {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    }
}

/// A task whose load is this, on a target that there is.
fn loads(load: &str) -> String {
    format!("{HEAD}[execution]\ntarget = \"tcp://h:1\"\nload = {load}\n")
}

/// The flow of a run with one load.
fn flow_of(run: &TaskRun) -> &FlowSpec {
    let [load] = &run.loads[..] else { panic!("{run:?}") };
    &load.flow
}

#[test]
fn what_is_left_out_has_defaults() {
    let read = task(&with(""));
    let sampled = Choice { sampling: SAMPLE, keep_above: KeepAbove::Running, ..Choice::default() };
    assert_eq!(read.choice, sampled);
    let drive = TaskDrive {
        drive: "enterprise-tlc".into(),
        set: vec![],
        precondition: Precondition::default(),
        cpus_allowed: None,
    };
    assert_eq!(read.target, TaskTarget::Served(drive));
    assert_eq!((read.limits, read.group_by), (Limits::default(), GroupBy::default()));
    assert_eq!((read.base, read.shown), (None, Shown::default()));
    assert_eq!((read.html, read.json, read.output), (None, None, None));
    assert_eq!((read.link, read.expected.len()), (None, 0));
    assert!(read.runs.iter().all(|run| flow_of(run).limits.runtime == Some(RUNTIME)));
}

#[test]
fn a_workload_is_a_filter() {
    let of = |lines: &str| {
        let choice = task(&with(&format!("[workload]\n{lines}"))).choice;
        choice.filters.into_iter().next().unwrap_or_default()
    };
    assert_eq!(of("io = \"all\""), Filter::default());
    assert_eq!(of("io = [\"read\", \"flush\"]").kinds, ["read", "flush"]);
    assert_eq!(of("io = \"read,flush\"").kinds, ["read", "flush"]);
    assert_eq!(of("size = \"4KiB..64KiB\"").bytes, Ranges(vec![(4096, 65536)]));
    assert_eq!(of("size = [512, \"4k\"]").bytes, Ranges(vec![(512, 512), (4096, 4096)]));
    assert_eq!(of("namespace = 2").namespaces, Ranges(vec![(2, 2)]));
    assert_eq!(of("queue = [1, \"3..4\"]").queues, Ranges(vec![(1, 1), (3, 4)]));
    assert_eq!(of("block = \"<8\"").blocks, Ranges(vec![(0, 7)]));
    assert_eq!(of("status = \"0x281\"").statuses, Ranges(vec![(0x281, 0x281)]));
}

#[test]
fn a_profiler_samples_and_keeps() {
    let of = |lines: &str| {
        let choice = task(&with(&format!("[profiler]\n{lines}"))).choice;
        (choice.sampling, choice.keep_above)
    };
    assert_eq!(of("sample = \"1/1000\""), (Sampling::OneIn(1000), KeepAbove::Running));
    assert_eq!(of("sample = 1"), (Sampling::All, KeepAbove::Nothing));
    assert_eq!(of("every = \"10ms\"").0, Sampling::EveryPs(10_000_000_000));
    assert_eq!(of("keep_above = \"5us\""), (SAMPLE, KeepAbove::Ps(5_000_000)));
    assert_eq!(of("keep_above = \"none\""), (SAMPLE, KeepAbove::Nothing));
}

#[test]
fn each_value_of_a_list_is_a_run() {
    let read = task(&loads(
        "[{ rw = \"randread\", bs = \"8k\", iodepth = [1, 4], runtime = \"1s\", cpus_allowed = 1 },
          { name = \"jobs\", rw = \"write\", numjobs = [2, 3], number_ios = 100 }]",
    ));
    assert_eq!(read.target, TaskTarget::At("tcp://h:1".into()));
    let names: Vec<_> = read.runs.iter().map(|run| run.name.as_str()).collect();
    let reads = ["bs=8k iodepth=1 rw=randread", "bs=8k iodepth=4 rw=randread"];
    assert_eq!(names, [reads[0], reads[1], "jobs numjobs=2", "jobs numjobs=3"]);
    let cpus: Vec<_> = read.runs.iter().map(|run| run.loads[0].cpus_allowed.as_deref()).collect();
    assert_eq!(cpus, [Some("1"), Some("1"), None, None]);
    let jobs: Vec<_> = read.runs.iter().map(|run| flow_of(run).jobs).collect();
    assert_eq!(jobs, [1, 1, 2, 3]);
    assert_eq!(flow_of(&read.runs[0]).limits.runtime, Some(Span::from_secs(1)));
    let hundred = FlowLimits { requests: Some(100), ..FlowLimits::default() };
    assert_eq!(flow_of(&read.runs[2]).limits, hundred);
    assert_ne!(flow_of(&read.runs[0]).source, flow_of(&read.runs[1]).source);
}

/// Each of them changes the flow that is run.
#[test]
fn every_option_of_a_load_has_an_effect() {
    let flow =
        |options: &str| flow_of(&task(&loads(&format!("[{{ {options} }}]"))).runs[0]).clone();
    for (without, option) in [
        ("", "name = \"a\""),
        ("", "rw = \"randwrite\""),
        ("", "bs = \"16k\""),
        ("", "bsrange = \"4k-16k\""),
        ("", "bssplit = \"4k/50:8k/50\""),
        ("", "blockalign = \"64k\""),
        ("", "iodepth = 2"),
        ("", "numjobs = 2"),
        ("", "rate_iops = 100"),
        ("rw = \"randrw\"", "rwmixread = 10"),
        ("rw = \"randrw\"", "rwmixtrim = 10"),
        ("rw = \"randread\"", "random_distribution = \"zipf:0.9\""),
        ("", "offset = \"1m\""),
        ("", "size = \"1m\""),
        ("", "io_size = \"1m\""),
        ("size = \"512k\"", "kb_base = 1000"),
        ("", "randseed = 7"),
        ("", "number_ios = 7"),
        ("", "runtime = \"7s\""),
    ] {
        let both = if without.is_empty() { option.into() } else { format!("{without}, {option}") };
        // What a run is called follows from all options, and is not what is meant.
        let unnamed = |flow: FlowSpec| FlowSpec { name: String::new(), ..flow };
        match option {
            "name = \"a\"" => assert_eq!(flow(&both).name, "a"),
            _ => assert_ne!(unnamed(flow(without)), unnamed(flow(&both)), "{option}"),
        }
    }
    assert!(matches!(flow("").source, Source::Synthetic(_)));
}

#[test]
fn loads_of_a_run_begin_together() {
    let read = task(&loads(
        "[[{ name = \"small\", rw = \"randread\", cpus_allowed = 1 },
           { name = \"large\", rw = \"write\", bs = \"128k\", iodepth = [1, 8] }],
          { name = \"alone\", rw = \"read\" }]",
    ));
    let names: Vec<_> = read.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["small + large iodepth=1", "small + large iodepth=8", "alone"]);
    let loads: Vec<_> = read.runs.iter().map(|run| run.loads.len()).collect();
    assert_eq!(loads, [2, 2, 1]);
    let depths = read.runs[..2].iter().map(|run| run.loads[1].flow.depth_max());
    assert_eq!(depths.collect::<Vec<_>>(), [Some(1), Some(8)]);
    assert!(read.runs[..2].iter().all(|run| run.loads[0] == read.runs[0].loads[0]));
    let cpus = read.runs[0].loads.iter().map(|load| load.cpus_allowed.as_deref());
    assert_eq!(cpus.collect::<Vec<_>>(), [Some("1"), None]);
}

#[test]
fn a_load_may_share_the_queue_of_another() {
    let read = task(&loads(
        "[[{ name = \"a\" }, { name = \"b\", shares_queue = true }, { name = \"c\" }]]",
    ));
    let [run] = &read.runs[..] else { panic!("{read:?}") };
    assert_eq!((run.name.as_str(), run.loads.len()), ("a + b + c", 2));
    let beside = |load: &TaskLoad| load.beside.iter().map(|flow| flow.name.clone()).collect();
    let beside: Vec<Vec<String>> = run.loads.iter().map(beside).collect();
    assert_eq!(beside, [vec!["b".to_owned()], vec![]]);
}

#[test]
fn a_link_is_as_it_is_said() {
    let of = |link: &str, loads: &str| {
        task(&format!("{HEAD}[execution]\n{SERVE}link = {link}\nload = [{loads}]\n"))
    };
    let read = of("{ rate = \"8Gbit/s\" }", "{ rw = \"read\", bulk_flows = [0, 4] }");
    assert_eq!(read.link, Some(TaskLink { bytes_per_s: 1e9, queue: LINK_QUEUE }));
    // What it carries is what a verdict says of it, unless something else is said.
    assert_eq!(read.limits.link_bytes_per_s, Some(1e9));
    let flows: Vec<_> = read.runs.iter().map(|run| run.bulk_flows).collect();
    assert_eq!(flows, [0, 4]);
    let read = of("{ rate = \"8Mbit/s\", queue = \"2ms\" }", "{ rw = \"read\" }");
    assert_eq!(read.link.map(|link| link.queue), Some(Span::from_ms(2)));
}

/// A report of one group: a stage of the network's and one of the drive's, in ns, and its IOPS.
fn measured(network: f64, drive: f64, base: Option<(f64, f64)>, iops: f64) -> ProfileReport {
    let stage = |name: &str, now: f64, base: Option<f64>| {
        serde_json::json!({
            "stage": name, "mean_ns": now, "share": 0.0, "p50_ns": 0.0, "p99_ns": 0.0,
            "max_ns": 0.0, "base_mean_ns": base, "amplification": null, "growth_share": null
        })
    };
    let stages = [
        stage("network_response", network, base.map(|it| it.0)),
        stage("flash_array", drive, base.map(|it| it.1)),
    ];
    let report = serde_json::json!({
        "file": "a", "side": "path", "name": "a", "program": "a", "choice": null,
        "counts": { "completed": 9, "recorded": 9, "filtered": 0, "sampled_out": 0, "lost": 0,
                    "torn": 0 },
        "weight": 1.0, "window_ns": 1e9, "uneven": 0, "residual_max_ns": 0.0,
        "groups": [{
            "name": "read 4KiB", "ios": 9, "kept": 0, "kept_max_ns": 0.0, "failed": {},
            "iops": iops, "bw_bytes_per_s": 1.0, "outstanding": 1.0, "lat_ns": null,
            "stages": stages, "growth": null
        }]
    });
    serde_json::from_value(report).expect("a report")
}

#[test]
fn what_is_expected_holds_or_not() {
    let base = measured(10_000.0, 50_000.0, None, 100.0);
    let now = measured(40_000.0, 60_000.0, Some((10_000.0, 50_000.0)), 60.0);
    for (expected, holds, said) in [
        ("part = \"S3-S5\"\ngrows_most = true", true, "(75.0 % of the growth; next S7-S9, 25.0 %)"),
        (
            "part = \"S7-S9\"\ngrows_most = true",
            false,
            "grows most (25.0 % of the growth; next S3-S5",
        ),
        ("part = \"network_response\"\ngrows_most = true", true, "next flash_array"),
        ("part = \"S3-S5\"\nlad_min = 3.5", true, "10.0us -> 40.0us, LAD 4.00, at least 3.5"),
        ("part = \"S3-S5\"\nlad_min = 4.5", false, "LAD 4.00, at least 4.5"),
        ("part = \"S7-S9\"\nlad_max = 1.3", true, "LAD 1.20, at most 1.3"),
        ("part = \"S7-S9\"\nlad_max = 1.1", false, "LAD 1.20"),
        ("part = \"S3-S5\"\ngrowth_min = 0.7", true, "75.0 % of the growth, at least 70.0 %"),
        ("part = \"S3-S5\"\ngrowth_min = 0.8", false, "75.0 % of the growth"),
        ("part = \"S7-S9\"\nshare_min = 0.5", true, "60.0 % of the latency"),
        ("part = \"S3-S5\"\nshare_min = 0.5", false, "40.0 % of the latency"),
        ("part = \"S1\"\nlad_min = 1", false, "S1 0"),
        ("iops_max = 0.7", true, "IOPS 0.60x the base's, at most 0.7x"),
        ("iops_max = 0.5", false, "IOPS 0.60x"),
        ("cause = \"network\"", false, "no verdict, expected network"),
        ("group = \"write 4KiB\"\niops_max = 9.0", false, "no such I/O was recorded"),
        ("iops_max = 0.7\npaper = \"73 %\"", true, "         paper: 73 %\n"),
    ] {
        let text = with(&format!("[report]\nbase = 1\n[[expect]]\n{expected}"));
        let read = task(&text).expected.remove(0);
        let Checked { holds: found, text } = read.check(&now, Some(&base));
        assert_eq!(found, holds, "{expected}: {text}");
        assert!(text.contains(said), "{expected}: {text}\nfor {said}");
        let mark = if holds { "  holds  run 2, " } else { "  FAILS  run 2, " };
        assert!(text.starts_with(mark), "{text}");
    }
    let first = task(&with("[report]\nbase = 1\n[[expect]]\nrun = 1\niops_max = 0.7"));
    assert_eq!(first.expected[0].run, 0);
}

/// One stall of a second makes any mean what it was not: what is expected is compared as verdicts are, in
/// the middle half of windows.
#[test]
fn what_is_expected_is_of_the_windows_of_the_verdict() {
    let mut now = measured(90_000.0, 60_000.0, Some((10_000.0, 50_000.0)), 60.0);
    let mut verdict = serde_json::json!({
        "outcome": "slower", "sentence": "", "cause": null, "stage": null, "base_ns": null,
        "now_ns": null, "noise_ns": null, "evidence": [], "try": [], "not_it": [],
        "stages": [{ "stage": "network_response", "place": "", "base_ns": 10_000.0,
                     "now_ns": 20_000.0, "amplification": 2.0, "share": 0.5 }]
    });
    let text = with("[report]\nbase = 1\n[[expect]]\npart = \"S3-S5\"\nlad_max = 2.5");
    let expected = task(&text).expected.remove(0);
    let base = measured(10_000.0, 50_000.0, None, 100.0);
    assert!(!expected.check(&now, Some(&base)).holds);
    now.groups[0].verdict = Some(serde_json::from_value(verdict.take()).expect("a verdict"));
    let Checked { holds, text } = expected.check(&now, Some(&base));
    assert!(holds && text.contains("10.0us -> 20.0us, LAD 2.00"), "{text}");
}

#[test]
fn a_drive_is_served_as_it_is_said() {
    let of = |more: &str| {
        let serve = format!("serve = {{ drive = \"enterprise-tlc\", {more} }}\n");
        match task(&format!("{HEAD}[execution]\n{serve}{LOAD}")).target {
            TaskTarget::Served(drive) => drive,
            TaskTarget::At(address) => panic!("{address}"),
        }
    };
    assert_eq!(of("set = [\"gc.start=0.1\"]").set, ["gc.start=0.1"]);
    let table = of("set = { \"gc.start\" = 0.1, over_provisioning = \"20%\" }");
    assert_eq!(table.set, ["gc.start=0.1", "over_provisioning=20%"]);
    assert_eq!(of("precondition = \"none\"").precondition, Precondition::None);
    assert_eq!(of("cpus_allowed = 0").cpus_allowed.as_deref(), Some("0"));
}

#[test]
fn a_report_is_said_as_it_is_wanted() {
    let of = |lines: &str| task(&with(&format!("[report]\n{lines}")));
    let by: GroupBy = "type,queue".parse().expect("dimensions");
    assert_eq!(of("group_by = [\"type\", \"queue\"]").group_by, by);
    assert_eq!(of("group_by = \"all\"").group_by, GroupBy(vec![]));
    assert_eq!(of("base = 1").base, Some(TaskBase::Run(0)));
    assert_eq!(of("base = \"quiet.profile\"").base, Some(TaskBase::File("quiet.profile".into())));
    let nothing = of("show = []").shown;
    for (part, shown) in [
        ("distribution", Shown { distribution: true, ..nothing }),
        ("breakdown", Shown { breakdown: true, ..nothing }),
        ("queue_models", Shown { queue_models: true, ..nothing }),
        ("interference", Shown { interference: true, ..nothing }),
        ("verdict", Shown { verdict: true, ..nothing }),
    ] {
        assert_ne!(shown, nothing);
        assert_eq!(of(&format!("base = 1\nshow = [\"{part}\"]")).shown, shown);
    }
    let files = of("html = \"a.html\"\njson = \"a.json\"\noutput = \"kept\"");
    let names = [files.html, files.json, files.output].map(|path| path.expect("a file"));
    assert_eq!(names, ["a.html", "a.json", "kept"].map(PathBuf::from));
    let limits = with("link_limit = \"8Gbit/s\"\ndrive_limit = \"5MB/s\"\n[report]\nbase = 1");
    let said = Limits { link_bytes_per_s: Some(1e9), drive_bytes_per_s: Some(5e6) };
    assert_eq!(task(&limits).limits, said);
}

#[test]
fn files_are_looked_for_beside_the_task() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    let text = with("[report]\nbase = \"quiet.profile\"\nhtml = \"a.html\"")
        .replace("enterprise-tlc", "my.toml");
    std::fs::write(&path, text).unwrap();
    let read = Task::load(&path).unwrap();
    let TaskTarget::Served(drive) = read.target else { panic!("a drive is served") };
    assert_eq!(Path::new(&drive.drive), folder.path().join("my.toml"));
    assert_eq!(read.base, Some(TaskBase::File(folder.path().join("quiet.profile"))));
    assert_eq!(read.html, Some("a.html".into()));
    let none = Task::load(&folder.path().join("none.toml")).unwrap_err().to_string();
    assert!(none.ends_with("none.toml: No such file or directory (os error 2)"), "{none}");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, said) in [
        ("drive = 1".into(), "a.toml:1: this is no task: a task begins with"),
        ("schema = \"mynah.drive/1\"".into(), "a.toml:1: this is a drive, not a task"),
        ("schema = \"mynah.experiment/1\"".into(), "`mynah sim a.toml` runs it"),
        ("schema = \"mynah.profile-task/9\"".into(), "is not known; this is mynah.profile-task/1"),
        (HEAD.into(), "missing field `execution`"),
        (with("[workload]\nsiez = 1"), "a.toml:6: unknown key `siez`; did you mean `size`?"),
        (with("[worklaod]"), "unknown key `worklaod`; did you mean `workload`?"),
        (with("[workload]\nio = \"raed\""), "a.toml:6: io: `raed` is no kind of I/O; valid is"),
        (with("[workload]\nsize = \"4x\""), "a.toml:6: size: `4x` is no size"),
        (with("[workload]\nqueue = [[1]]"), "queue: a number or a string belongs here"),
        (with("[profiler]\nsample = \"2/3\""), "a.toml:6: sample: `2/3` is no"),
        (with("[profiler]\nsample = 1\nevery = \"1s\""), "a.toml:7: every: sample says already"),
        (with("[profiler]\nsample = 1\nkeep_above = \"1s\""), "there are no others to be kept"),
        (with("[report]\nbase = 2"), "a.toml:6: base: run 2 is the last"),
        (with("[report]\nbase = 0"), "there is no run 0 before the last; the task has 2"),
        (with("[report]\nbase = []"), "base: write the number of a run"),
        (with("[report]\nshow = [\"breakdwon\"]"), "did you mean `breakdown`?"),
        (with("[report]\nshow = [\"verdict\"]"), "show: verdict compares with a base; add `base"),
        (with("[report]\ngroup_by = \"core\""), "group_by: `core` is none of type, size"),
        (with("[report]\nhtml = \"\""), "html: the name is empty"),
        (with("link_limit = \"fast\""), "a.toml:5: link_limit: `fast` is no rate"),
        (with("link_limit = \"1Gbit/s\""), "a.toml:5: a limit is for the verdict"),
        (with("target = \"tcp://h\""), "a.toml:5: target: the task serves a drive of its own"),
        (loads("[]").replace("tcp://", "http://"), "target: `http://h:1` is no address"),
        (format!("{HEAD}[execution]\n{LOAD}"), "there is nothing to put a load on; add `serve"),
        (with("").replace("drive = ", "dirve = "), "unknown key `dirve`; did you mean `drive`?"),
        (with("").replace("enterprise-tlc\"", "a\", precondition = \"new\""), "`new` is not a st"),
        (loads("[]"), "a.toml:4: load: there is nothing to run"),
        (loads("[{ iodpeth = 1 }]"), "unknown option `iodpeth` of a load; did you mean `iodepth`?"),
        (loads("[{ startdelay = 1 }]"), "unknown option `startdelay` of a load"),
        (loads("[{ iodepth = [] }]"), "iodepth: the list is empty"),
        (loads("[{ iodepth = [1], bs = [1] }]"), "bs and iodepth are lists"),
        (loads("[{ name = [\"a\"] }]"), "name: one value belongs here"),
        (loads("[{ iodepth = [1, \"x\"] }]"), "a.toml:4: iodepth = x: "),
        (loads("[[]]"), "a.toml:4: load: from 1 to 64 loads can begin together"),
        (
            loads("[[{ iodepth = [1] }, { bs = [1] }]]"),
            "iodepth and bs are lists, and one option of a",
        ),
        (loads("[[{ iodpeth = 1 }]]"), "unknown option `iodpeth` of a load"),
        (loads("[1]"), "a load, as in `{ rw = \"randread\" }`, or a list of loads"),
        (
            loads("[{ shares_queue = true }]"),
            "shares_queue: there is no load before it in this run",
        ),
        (
            loads("[[{}, { shares_queue = true, numjobs = 2 }]]"),
            "numjobs: a load with shares_queue has the queue, processors and end",
        ),
        (
            loads("[{ bulk_flows = 1 }]"),
            "flows of others need a link that they can fill; add `link",
        ),
        (with("link = { rate = \"1Tbit/s\" }"), "a.toml:5: rate: from 1Mbit/s to 100Gbit/s"),
        (with("link = { rate = \"1Gbit/s\", queue = \"2s\" }"), "queue: from 100us to 1s"),
        (with("link = { rate = \"1Gbit/s\", delay = \"2s\" }"), "unknown key `delay`"),
        (
            format!("{}link = {{ rate = \"1Gbit/s\" }}", loads("[{}]")),
            "link: the link to a target that",
        ),
        (with("[[expect]]\nrun = 3\npart = \"S1\""), "run: there is no run 3; the task has 2"),
        (with("[[expect]]\npart = \"S8\"\nshare_min = 0.5"), "part: there is no `S8`"),
        (with("[[expect]]\npart = \"S1\""), "a part is named, and nothing is expected of it"),
        (with("[[expect]]\nshare_min = 0.5"), "expect: of which part is not said; add `part"),
        (with("[[expect]]\nrun = 1"), "expect: nothing is expected"),
        (with("[[expect]]\npart = \"S1\"\nshare_min = 1.5"), "share_min: a number from 0 to 1"),
        (with("[[expect]]\npart = \"S1\"\nlad_min = 1.5"), "expect: that compares with a base"),
        (with("[[expect]]\ncause = \"netwrok\""), "did you mean `network`?"),
        (with("[[expect]]\nlda_min = 1"), "unknown key `lda_min`; did you mean `lad_min`?"),
        (loads("[{ runtime = \"auto\" }]"), "runtime = auto: a load on a target lasts"),
        (loads("[{ rw = \"read\", random_distribution = \"zipf:1\" }]"), "random_distribution = "),
    ] {
        let found = wrong(&text);
        assert!(found.contains(said), "{found}\nfor {said}");
    }
    let many = format!("[{{ iodepth = {:?} }}]", (1..=RUNS_MAX + 1).collect::<Vec<_>>());
    assert!(wrong(&loads(&many)).contains("more than 256 runs"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*", key in "[a-z_]{1,12}", value in "\\PC{0,20}") {
        let _ = Task::parse("a.toml", &text);
        for section in ["workload", "profiler", "report", "[expect]"] {
            let _ = Task::parse("a.toml", &with(&format!("[{section}]\n{key} = {value}")));
            let _ = Task::parse("a.toml", &with(&format!("[{section}]\n{key} = {value:?}")));
        }
        let _ = Task::parse("a.toml", &loads(&format!("[{{ {key} = {value:?} }}]")));
    }
}
