//! The whole program: results, recordings, faults, interruptions.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A drive that is quickly built.
const SMALL: [&str; 6] = [
    "--set",
    "geometry.pages_per_block=96",
    "--set",
    "geometry.blocks_per_plane=48",
    "--set",
    "over_provisioning=20%",
];
const CONFIGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/mqsim/configs");

fn mynah(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mynah"))
        .args(args)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

/// Runs `mynah sim ARGS` on a small drive.
fn sim(folder: &Path, args: &[&str]) -> Output {
    mynah(folder, &[&["sim"], &SMALL[..], args].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn done(output: Output) -> String {
    assert!(output.status.success(), "{:?}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// The JSON of a run, checked against the schema, without what depends on the machine.
fn result(json: &str) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/result.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut value: Value = serde_json::from_str(json).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let all = match value.get_mut("results") {
        Some(results) => results.as_array_mut().unwrap().iter_mut().collect(),
        None => vec![&mut value],
    };
    for result in all {
        let run = result.as_object_mut().unwrap().remove("run").unwrap();
        assert!(run["max_rss_bytes"].as_u64().unwrap() > 1 << 20);
        assert!(run["setup_cpu_s"].as_f64().unwrap() > 0.0);
        assert!(run["command"].as_str().unwrap().contains(" sim "));
    }
    value
}

const MIXED: [&str; 10] =
    ["--rw", "randrw", "--bs", "4k", "--iodepth", "16", "--number_ios", "20000", "--json", "-"];

#[test]
fn the_version_names_the_profile() {
    let folder = Path::new(env!("CARGO_BIN_EXE_mynah")).parent().expect("it is in a folder");
    let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
    let profile = if name == "debug" { "dev" } else { name };
    let said = done(mynah(Path::new("."), &["--version"]));
    assert_eq!(said.lines().last(), Some(&*format!("profile {profile}")));
    assert!(said.starts_with(&format!("mynah {}\n", env!("CARGO_PKG_VERSION"))), "{said}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let run = |seed: &str| {
        let json = done(sim(folder.path(), &[&["--seed", seed], &MIXED[..]].concat()));
        let from = json.find("\"run\"").expect("run is the last key");
        (json[..from].to_owned(), result(&json))
    };
    let (first, value) = run("7");
    assert_eq!(first, run("7").0);
    assert_ne!(first, run("8").0);
    assert_eq!((&value["seed"], &value["requests"]), (&7.into(), &20_000.into()));
}

#[test]
fn changes_that_only_make_sense_together_may_come_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let hashes =
        [["firmware.cores=3", "firmware.read=500ns"], ["firmware.read=500ns", "firmware.cores=3"]]
            .map(|[first, second]| {
                let args = ["--set", first, "--set", second, "--number_ios", "10", "--json", "-"];
                result(&done(sim(folder.path(), &args)))["drive_hash"].clone()
            });
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn a_recording_replays_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
    for (more, name) in [
        (&["--ramp_time", "5ms"][..], "ramp"),
        (&["--fault", "power-cut:at=3ms", "--precondition", "fill"], "power cut"),
        (&["--fault", "read-error:rate=1e-3", "--precondition", "fill"], "read errors"),
        (&["--rw", "randread", "--rate_iops", "1000000", "--number_ios", "3000"], "open loop"),
    ] {
        let flow = ["--record", "r", "--request-log", "a.csv", "--json", "a.json"];
        let base: &[&str] = match name {
            "open loop" => &[],
            _ => &MIXED[..8],
        };
        done(sim(folder.path(), &[base, more, &flow].concat()));
        let replay = ["sim", "--replay", "r", "--request-log", "b.csv", "--json", "b.json"];
        done(mynah(folder.path(), &replay));
        assert_eq!(result(&log("a.json")), result(&log("b.json")), "{name}");
        assert_eq!(log("a.csv"), log("b.csv"), "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 5, "no temporary files stay: {left:?}");
}

#[test]
fn a_recording_is_refused_on_another_drive() {
    let folder = tempfile::tempdir().unwrap();
    done(sim(folder.path(), &["--number_ios", "100", "--record", "r", "--quiet"]));
    for (change, said) in [
        (
            &["--set", "flash.read=80us"][..],
            &["]: `flash.read` was { lsb = 38us, csb = 45us, msb = 52us } and is 80us help:"][..],
        ),
        (
            &["--set", "flash.erase=4ms", "--set", "gc.start=7%", "--set", "firmware.cores=2"],
            &[
                "]: `flash.erase` was 3.5ms and is 4ms; `firmware.cores` was 8 and is 2; `gc.start` \
                 was 5% and is 7% help:",
            ],
        ),
        (
            &["--fault", "dead-die:die=3"],
            &["`fault.0.kind` was not there and is dead-die; `fault.0.die` was not there and is 3"],
        ),
        (&["--drive", "enterprise-tlc"], &["`geometry.blocks_per_plane` was 48 and is 172"]),
    ] {
        let output = mynah(folder.path(), &[&["sim", "--replay", "r"], change].concat());
        assert_eq!(output.status.code(), Some(2));
        let errors = text(&output.stderr);
        let words: Vec<&str> = errors.split_whitespace().filter(|word| *word != "│").collect();
        let errors = words.join(" ");
        for said in [&["made with drive", "and this is another ["], said].concat() {
            assert!(errors.contains(said), "{errors}");
        }
    }
    // The very drive is taken.
    done(sim(folder.path(), &["--replay", "r", "--drive", "enterprise-tlc"]));
    // A damaged one is not: cut off, and with a completion that never happened.
    let bytes = std::fs::read(folder.path().join("r")).unwrap();
    std::fs::write(folder.path().join("cut"), &bytes[..bytes.len() - 40]).unwrap();
    let output = mynah(folder.path(), &["sim", "--replay", "cut"]);
    assert_eq!(output.status.code(), Some(2));
    let mut other = bytes.clone();
    let at = bytes.len() - 72; // when the last completed command was rung
    other[at] ^= 1;
    std::fs::write(folder.path().join("other"), other).unwrap();
    let output = mynah(folder.path(), &["sim", "--replay", "other"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("departs from the recording"));
}

#[test]
fn a_power_cut_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--rw", "randwrite", "--iodepth", "8", "--number_ios", "100000"];
    let cut = ["--fault", "power-cut:at=2ms", "--json", "out.json"];
    // The drive's cache outlives it, unless that is taken from it.
    for protected in [true, false] {
        let set = format!("cache.power_loss_protection={protected}");
        let more: &[&str] = if protected { &[] } else { &["--set", &set] };
        let summary = done(sim(folder.path(), &[&args[..], &cut, more].concat()));
        assert!(summary.contains("the power failed at"), "{summary}");
        let json = std::fs::read_to_string(folder.path().join("out.json")).unwrap();
        let value = result(&json);
        let count = |key: &str| value["device"][key].as_u64().unwrap();
        assert_eq!(count("units_lost") == 0, protected);
        if !protected {
            // The cache was full when the run began; what was written since is told apart.
            let written = count("units_lost_written");
            assert!(0 < written && written < 8 * value["requests"].as_u64().unwrap(), "{written}");
            assert!(written < count("units_lost"));
            let told = format!("{written} were written in this run");
            assert!(summary.contains(&told), "{summary}");
        }
        assert!(value["notes"][0].as_str().unwrap().contains("never answered"));
    }
    // Requests are due at the very instant of the cut.
    let paced = ["--rw", "randread", "--rate_iops", "10000", "--numjobs", "2", "--runtime", "1s"];
    let summary =
        done(sim(folder.path(), &[&paced[..], &["--fault", "power-cut:at=2ms"]].concat()));
    assert!(summary.contains("the power failed at 2ms"), "{summary}");
}

#[test]
fn a_drive_that_does_nothing_but_collect_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    // Every translation page takes a whole word line of the only open block.
    let sets = [
        ("geometry.channels", "1"),
        ("geometry.blocks_per_plane", "64"),
        ("geometry.pages_per_block", "12"),
        ("over_provisioning", "30%"),
        ("mapping.table", "cached"),
        ("mapping.cmt.size", "64KiB"),
        ("mapping.cmt.granularity", "page"),
        ("gc.victim", "random"),
        ("flash.one_shot", "true"),
        ("gc.write_frontiers", "one"),
    ];
    let sets = sets.map(|(key, value)| format!("--set={key}={value}"));
    let drive = ["sim", "--drive", "samsung-48l-tlc", "--seed", "5"];
    let flow = ["--rw", "write", "--bs", "12k", "--iodepth", "8", "--number_ios", "3000"];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let output = mynah(folder.path(), &[&drive[..], &flow, &sets].concat());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    let error = text(&output.stderr);
    assert!(error.contains("8 I/Os wait") && error.contains("more over-provisioning"), "{error}");
}

#[test]
fn an_experiment_with_flows_that_also_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = "schema = 'mynah.experiment/1'\ndrive = 'enterprise-tlc'\nseed = 3\n\
        [set]\n'geometry.blocks_per_plane' = 48\n'geometry.pages_per_block' = 96\n\
        over_provisioning = '20%'\n\
        [[flow]]\nname = 'reader'\nrw = 'randread'\niodepth = 4\nruntime = '200ms'\n\
        [[flow]]\nname = 'writer'\nrw = 'randwrite'\nbs = '16k'\niodepth = 32\nruntime = '200ms'\n";
    std::fs::write(folder.path().join("two.toml"), experiment).unwrap();
    let args = ["sim", "two.toml", "--alone", "--json", "-", "--report", "two.html"];
    let value = result(&done(mynah(folder.path(), &args)));
    let slowdown = |flow: usize| value["flows"][flow]["slowdown"].as_f64().unwrap();
    assert!(slowdown(0) > 1.05 && slowdown(1) > 0.9, "{value:#}");
    let fairness = value["fairness"].as_f64().unwrap();
    let expected = f64::min(slowdown(0), slowdown(1)) / f64::max(slowdown(0), slowdown(1));
    assert!((fairness - expected).abs() < 1e-12);
    let speedup = value["weighted_speedup"].as_f64().unwrap();
    assert!((speedup - 1.0 / slowdown(0) - 1.0 / slowdown(1)).abs() < 1e-12);
    let html = std::fs::read_to_string(folder.path().join("two.html")).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("reader"));
}

#[test]
fn mqsims_files_run_and_become_files_that_run_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for case in ["a_randread4k_qd32_cmt2MB", "c_seqread8k_q8_q256_ideal"] {
        for as_mqsim in [&[][..], &["--as-mqsim"]] {
            let case = format!("{CONFIGS}/{case}");
            let (drive, workload) =
                (format!("{case}/ssdconfig.xml"), format!("{case}/workload.xml"));
            let files = ["sim", "--mqsim-config", &drive, "--mqsim-workload", &workload];
            let files = [&files[..], as_mqsim].concat();
            let value =
                result(&done(mynah(folder.path(), &[&files[..], &["--json", "-"]].concat())));
            assert!(value["requests"].as_u64().unwrap() > 0);
            let said =
                done(mynah(folder.path(), &[&files[..], &["--convert", "it.toml"]].concat()));
            assert!(said.contains("`mynah sim it-workload.toml`"), "{said}");
            done(mynah(folder.path(), &["drives", "check", "it.toml"]));
            let again = mynah(folder.path(), &["sim", "it-workload.toml", "--json", "-"]);
            assert_eq!(result(&done(again)), value, "{case} {as_mqsim:?}");
        }
    }
}

#[test]
fn scenarios_of_mqsim_are_results_and_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let case = format!("{CONFIGS}/c_seqread8k_q8_q256_ideal");
    let (drive, workload) = (format!("{case}/ssdconfig.xml"), format!("{case}/workload.xml"));
    let several = std::fs::read_to_string(&workload).unwrap();
    let from = several.find("<IO_Scenario>").unwrap();
    let to = several.find("</IO_Scenario>").unwrap() + "</IO_Scenario>".len();
    let twice = format!("{}{}{}", &several[..to], &several[from..to], &several[to..]);
    std::fs::write(folder.path().join("twice.xml"), twice).unwrap();
    let files = ["sim", "--mqsim-config", &drive, "--mqsim-workload", "twice.xml"];
    let value = result(&done(mynah(folder.path(), &[&files[..], &["--json", "-"]].concat())));
    assert_eq!(value["results"].as_array().unwrap().len(), 2);
    assert_eq!(value["schema"], "mynah.results/1");
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    done(mynah(folder.path(), &[&files[..], &["--convert", "sub/it.toml"]].concat()));
    let second = mynah(folder.path(), &["sim", "sub/it-scenario-2-workload.toml", "--json", "-"]);
    assert_eq!(result(&done(second)), value["results"][1]);
    // Nothing is written unless everything can be.
    std::fs::create_dir(folder.path().join("it-scenario-2-workload.toml")).unwrap();
    let refused = mynah(folder.path(), &[&files[..], &["--convert", "it.toml"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(!folder.path().join("it-scenario-1.toml").exists());
}

#[test]
fn demo_explains_on_a_page_and_leaves_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let said = done(mynah(folder.path(), &["demo"]));
    assert!(said.starts_with("VERDICT  "), "{said}");
    assert!(said.lines().count() <= 60, "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    for part in ["latency breakdown", "who delayed whom", "held by gc", "mynah-demo.html"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(folder.path().join("mynah-demo.html").is_file());
}

#[test]
fn completions_and_schemas_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    assert!(done(mynah(folder.path(), &["completions", "bash"])).contains("--iodepth"));
    let schema = done(mynah(folder.path(), &["drives", "schema"]));
    assert!(serde_json::from_str::<Value>(&schema).unwrap()["properties"].is_object());
    assert!(done(mynah(folder.path(), &["drives", "show", "mqsim"])).contains("flash.read"));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_mynah"))
        .args(["drives", "show", "mqsim"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn an_interrupted_run_prints_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_mynah"))
        .arg("sim")
        .args(SMALL)
        .args(["--rw", "randread", "--runtime", "1h", "--precondition", "none"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let summary = text(&output.stdout);
    assert!(summary.contains("IOPS=") && summary.contains("interrupted"), "{summary}");
}

/// What settles for hours is interrupted before anything is measured: nothing is said to have been, and
/// nothing half-written stays.
#[test]
fn an_interruption_before_the_run_has_no_result() {
    for (args, told) in [
        (&["--json", "one.json"][..], "nothing was measured"),
        (&["--repeat", "3", "--request-log", "log.csv"], "interrupted: no point was done"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_mynah"))
            .arg("sim")
            .args(SMALL)
            .args(["--rw", "randwrite", "--runtime", "1ms", "--settle", "100h"])
            .args(args)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_secs(6));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let output = child.wait_with_output().unwrap();
        let (summary, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(130), "{errors}");
        assert!(errors.contains(told), "{errors}");
        assert!(!summary.contains("IOPS="), "{summary}");
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The values of one figure of a comparison.
fn figure(comparison: &Value, group: &str, name: &str) -> [f64; 2] {
    let figures = comparison["figures"].as_array().unwrap();
    let mut found = figures.iter().filter(|f| f["group"] == group && f["name"] == name);
    let values =
        &found.next().unwrap_or_else(|| panic!("{group} {name}: {comparison:#}"))["values"];
    [0, 1].map(|index| values[index].as_f64().unwrap())
}

#[test]
fn a_recorded_run_is_laid_beside_another_drive() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let workload = ["--rw", "randread", "--bs", "4k", "--rate_iops", "20000"];
    let outputs = ["--number_ios", "5000", "--record", "run.rec", "--json", "a.json"];
    done(sim(folder, &[&workload[..], &outputs[..]].concat()));
    let compare = |args: &[&str]| -> Value {
        let args = [&["compare", "run.rec", "--json", "-"], args].concat();
        serde_json::from_str(&done(mynah(folder, &args))).unwrap()
    };

    // The very same drive does the very same.
    let same = compare(&["--set", "over_provisioning=20%"]);
    for f in same["figures"].as_array().unwrap() {
        assert!(f["ratio"].is_null() || f["ratio"] == 1.0, "{f}");
    }
    // Firmware that takes 10 us longer shows in the reads, and only there.
    let slower = compare(&["--set", "firmware.read=17us", "--set", "firmware.cores=64"]);
    let [before, after] = figure(&slower, "randread read", "latency mean");
    assert!((8_000.0..12_000.0).contains(&(after - before)), "{before} {after}");
    let [before, after] = figure(&slower, "stage, mean of all I/O", "flash_transfer");
    assert_eq!(before, after);

    done(sim(folder, &[&workload[..], &["--number_ios", "5000", "--json", "b.json"]].concat()));
    let table = done(mynah(folder, &["compare", "a.json", "b.json"]));
    assert!(table.contains("latency p99") && table.contains("1.000"), "{table}");
}

/// The help's own example: more over-provisioning makes the drive smaller than the recording.
#[test]
fn a_recording_of_the_whole_drive_is_folded_into_a_smaller_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let workload = ["--rw", "randrw", "--bs", "4k", "--rate_iops", "20000"];
    let run = ["--precondition", "fill", "--number_ios", "2000", "--record", "run.rec"];
    done(sim(folder, &[&workload[..], &run].concat()));
    let smaller = ["compare", "run.rec", "--set", "over_provisioning=40%", "--remap", "modulo"];
    let table = done(mynah(folder, &smaller));
    let note = table.lines().find(|line| line.contains("were folded into it"));
    let note = note.unwrap_or_else(|| panic!("{table}"));
    let folded: u64 = note.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    // 40 % in place of 20 %: a quarter of the addresses.
    assert!((400..600).contains(&folded), "{note}");
    assert!(!table.contains("errors"), "{table}");
    let json = done(mynah(folder, &[&smaller[..], &["--json", "-"]].concat()));
    let comparison: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(comparison["notes"][0], serde_json::json!([]));
    assert!(comparison["notes"][1][0].as_str().unwrap().contains("folded"), "{comparison}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let outputs = ["--number_ios", "100", "--record", "run.rec", "--json", "a.json"];
    done(sim(folder, &outputs));
    std::fs::write(folder.join("other.json"), "{\"schema\": \"x\"}").unwrap();
    for (args, says) in [
        (&["compare", "a.json"][..], "nothing to compare with"),
        (&["compare", "a.json", "run.rec"], "is a recording"),
        (&["compare", "a.json", "other.json"], "is not a result"),
        (&["compare", "a.json", "none.json"], "cannot read"),
        (&["compare", "a.json", "a.json", "--drive", "mqsim"], "go with a single recording"),
        (&["compare", "a.json", "a.json", "--remap", "modulo"], "go with a single recording"),
        (&["compare", "run.rec", "--set", "over_provisioning=70%"], "outside this drive's"),
        (&["compare", "run.rec", "--set", "over_provisioning=70%"], "`--remap modulo` folds"),
    ] {
        let output = mynah(folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        let message = text(&output.stderr).replace(['\n', '│', ' '], "");
        assert!(message.contains(&says.replace(' ', "")), "{args:?}: {message}");
    }
}

const SWEEP: &str = r#"
schema = "mynah.experiment/1"
drive = "enterprise-tlc"
precondition = "fill"
[set]
"geometry.blocks_per_plane" = 48
over_provisioning = "20%"
[[flow]]
name = "reader"
rw = "randread"
number_ios = 500
[sweep]
"flow.reader.iodepth" = [1, 8]
"flow.*.bs, seed" = [["4k", 3], ["16k", 4]]
"#;

#[test]
fn a_sweep_runs_every_combination_and_ends_with_a_table() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), SWEEP).unwrap();
    let run = |args: &[&str]| done(mynah(folder.path(), &[&["sim", "s.toml"], args].concat()));
    let table = run(&["--report", "s.html", "--table", "s.csv", "--threads", "2"]);
    let rows: Vec<_> = table.lines().filter(|line| line.contains("us")).collect();
    assert_eq!(rows.len(), 4, "{table}");
    assert!(table.contains("iodepth") && table.contains("IOPS"), "{table}");
    assert!(rows[3].contains("16k"), "{table}");
    let csv = std::fs::read_to_string(folder.path().join("s.csv")).unwrap();
    assert!(csv.starts_with("flow.reader.iodepth,flow.*.bs,seed,reader read iops,"), "{csv}");
    assert_eq!(csv.lines().count(), 5);
    let html = std::fs::read_to_string(folder.path().join("s.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("flow.reader.iodepth"));
    // How many run at a time changes nothing, and each point is what it says.
    let one = result(&run(&["--json", "-", "--threads", "1"]));
    assert_eq!(one, result(&run(&["--json", "-", "--threads", "3"])));
    let results = one["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    let point = &results[3]["point"];
    assert_eq!((&point["flow.reader.iodepth"], &point["flow.*.bs"]), (&"8".into(), &"16k".into()));
    assert_eq!(results[3]["seed"], 4);
    assert_eq!(results[3]["flows"][0]["read"]["bytes"], 500 * 16384);
}

#[test]
fn a_sweep_goes_on_where_it_was_stopped() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), SWEEP).unwrap();
    let run = |args: &[&str]| mynah(folder.path(), &[&["sim", "s.toml"], args].concat());
    let json = |args: &[&str]| done(run(&[args, &["--json", "-", "--quiet"]].concat()));
    let whole = json(&["--resume", "kept"]);
    assert_eq!(result(&whole), result(&json(&[])));
    let runs = folder.path().join("kept/runs.jsonl");
    let lines = std::fs::read_to_string(&runs).unwrap();
    assert_eq!(lines.lines().count(), 5);
    assert_eq!(std::fs::read_to_string(folder.path().join("kept/experiment.toml")).unwrap(), SWEEP);
    // What is done is not run again: it is the same to the last byte.
    assert_eq!(json(&["--resume", "kept"]), whole);
    // Stopped in the middle of a line, two runs are done, and two are run.
    let two: usize = lines.split_inclusive('\n').take(3).map(str::len).sum();
    std::fs::write(&runs, &lines[..two + 100]).unwrap();
    let again = run(&["--resume", "kept", "--json", "-"]);
    assert!(text(&again.stderr).contains("4 runs, 2 already done"), "{}", text(&again.stderr));
    assert_eq!(result(&done(again)), result(&whole));
    let now = std::fs::read_to_string(&runs).unwrap();
    assert!(now.starts_with(&lines[..two]) && now.lines().count() == 5);
    // Another sweep, and what has no effect.
    for (args, said) in [
        (&["--resume", "kept", "--repeat", "2"][..], "has 4 runs varying"),
        (&["--resume", "kept", "--set", "flash.read=33us"], "has 4 runs varying"),
        (&["--resume", "kept", "--request-log", "r.csv"], "--request-log has no effect"),
        (&["--retry-failed"], "--resume"),
    ] {
        let refused = run(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        let stderr = text(&refused.stderr).replace("\n  │ ", " ");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
    let one = sim(folder.path(), &["--rw", "randread", "--resume", "kept"]);
    assert_eq!(one.status.code(), Some(2), "{}", text(&one.stderr));
    // What has failed is kept as failed.
    let depths = SWEEP.replace("[1, 8]", "[1, 5000]");
    std::fs::write(folder.path().join("depths.toml"), depths).unwrap();
    let failing = ["sim", "depths.toml", "--resume", "failed", "--json", "-"];
    let first = mynah(folder.path(), &failing);
    assert_eq!(first.status.code(), Some(1));
    let second = mynah(folder.path(), &failing);
    assert!(text(&second.stderr).contains("4 runs, 4 already done"), "{}", text(&second.stderr));
    assert_eq!((second.status.code(), second.stdout), (Some(1), first.stdout.clone()));
    let third = mynah(folder.path(), &[&failing[..], &["--retry-failed"]].concat());
    assert!(text(&third.stderr).contains("4 runs, 2 already done"), "{}", text(&third.stderr));
    assert_eq!(third.stdout, first.stdout);
}

#[test]
fn a_sweep_keeps_what_was_measured_where_other_runs_fail() {
    let folder = tempfile::tempdir().unwrap();
    // One point's queues are too short for it; one ends within its ramp.
    let depths = SWEEP.replace("[1, 8]", "[1, 5000]");
    std::fs::write(folder.path().join("depths.toml"), depths).unwrap();
    let ramps = SWEEP.replace("[sweep]", "[sweep]\nramp_time = [\"0\", \"1s\"]");
    std::fs::write(folder.path().join("ramps.toml"), ramps).unwrap();

    let output = mynah(folder.path(), &["sim", "depths.toml", "--json", "d.json"]);
    assert_eq!(output.status.code(), Some(1));
    let table = text(&output.stdout);
    let rows = table.lines().filter(|line| line.contains("us"));
    assert_eq!(rows.count(), 2, "a table of two points: {table}");
    let said = text(&output.stderr);
    assert!(said.contains("2 runs of 4 have no result"), "{said}");
    assert!(
        said.contains("flow.*.bs 4k, flow.reader.iodepth 5000, seed 3: flow `reader`"),
        "{said}"
    );
    let json = std::fs::read_to_string(folder.path().join("d.json")).unwrap();
    let value = result(&json);
    assert_eq!(value["results"].as_array().unwrap().len(), 2);
    let failed = value["failed"].as_array().unwrap();
    assert_eq!((failed.len(), &failed[1]["seed"]), (2, &4.into()));
    assert_eq!(failed[1]["point"]["flow.reader.iodepth"], "5000");
    assert!(failed[1]["error"].as_str().unwrap().contains("1024 entries"), "{failed:?}");

    let output = mynah(folder.path(), &["sim", "ramps.toml", "--quiet"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("4 runs of 8 have no result"), "{said}");
    assert!(said.contains("ended within its ramp of 1s"), "{said}");
}

/// Reads of which the first point's are known soon; the second's come so seldom that a day of them
/// is not enough. Neither says when it ends.
const KNOWN: &str = r#"
schema = "mynah.experiment/1"
drive = "enterprise-tlc"
settle = "off"
set = ["geometry.blocks_per_plane=64", "geometry.pages_per_block=64"]
[[flow]]
name = "reader"
rw = "randread"
rate_process = "poisson"
rate_interval = "20us"
[sweep]
"flow.reader.rate_interval" = ["20us", "30s"]
"#;

#[test]
fn a_sweep_lasts_until_its_points_are_known_or_says_which_are_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("k.toml"), KNOWN).unwrap();
    let run = |args: &[&str]| done(mynah(folder.path(), &[&["sim", "k.toml"], args].concat()));
    let table = run(&["--report", "k.html", "--table", "k.csv", "--json", "k.json"]);
    let lines: Vec<_> =
        table.lines().filter(|line| line.contains("56.") || line.contains("57.")).collect();
    assert!(table.contains("known to") && !lines[0].contains('!'), "{table}");
    assert!(lines[1].contains("! 3.") || lines[1].contains("! 4."), "{table}");
    assert!(table.contains("! 1 of 2 points not known to 2.0 %"), "{table}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let csv = read("k.csv");
    assert!(csv.lines().nth(2).unwrap().ends_with(",reader read iops"), "{csv}");
    assert!(read("k.html").contains("1 of 2 points not known"));
    let value = result(&read("k.json"));
    let precision = |point: usize| &value["results"][point]["precision"];
    assert_eq!((&precision(0)["known"], &precision(0)["asked"]), (&true.into(), &0.02.into()));
    assert_eq!(
        (&precision(1)["known"], &precision(1)["bound_reached"]),
        (&false.into(), &true.into())
    );
    assert!(precision(1)["half_width"].as_f64().unwrap() > 0.02);
    // Less is asked for.
    assert!(!run(&["--precision", "10%"]).contains('!'));
}

#[test]
fn a_repetition_asks_for_the_precision_of_its_mean() {
    let folder = tempfile::tempdir().unwrap();
    let load = ["--rw", "randread", "--rate_iops", "20000", "--rate_process", "poisson"];
    let four = ["--repeat", "4", "--precision", "1%", "--json", "-"];
    let value = result(&done(sim(folder.path(), &[&load[..], &four].concat())));
    for run in value["results"].as_array().unwrap() {
        assert_eq!(
            (&run["precision"]["asked"], &run["precision"]["allowed"]),
            (&0.01.into(), &0.02.into())
        );
    }
    let joint = &value["confidence"][0]["precision"];
    assert_eq!(joint["known"], true, "{joint}");
    assert!(joint["half_width"].as_f64().unwrap() <= 0.01, "{joint}");
    // By itself a run says so in its summary.
    let said = done(sim(folder.path(), &[&load[..], &["--precision", "1%"]].concat()));
    assert!(said.contains("known to ") && said.contains("asked for: 1.0 %"), "{said}");
    let seldom = ["--rw", "randread", "--rate_interval", "30s", "--rate_process", "poisson"];
    let said = done(sim(folder.path(), &[&seldom[..], &["--runtime", "auto"]].concat()));
    assert!(said.starts_with("NOT KNOWN TO 2.0 %: randread read IOPS to "), "{said}");
    // With an end of its own it is as long as it is.
    let plain =
        done(sim(folder.path(), &[&load[..], &["--repeat", "2", "--number_ios", "99"]].concat()));
    assert!(!plain.contains("known to"), "{plain}");
}

#[test]
fn a_shipped_drives_file_is_where_ones_own_begins() {
    let folder = tempfile::tempdir().unwrap();
    let file = done(mynah(folder.path(), &["drives", "show", "qlc-p4320", "--toml"]));
    std::fs::write(folder.path().join("my-drive.toml"), file).unwrap();
    let checked = done(mynah(folder.path(), &["drives", "check", "my-drive.toml"]));
    assert!(checked.contains("qlc-p4320"), "{checked}");
}

#[test]
fn repeated_runs_have_confidence_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let flow = ["--rw", "randread", "--iodepth", "4", "--number_ios", "500"];
    let more = ["--repeat", "4", "--seed", "10", "--json", "-", "--intervals", "i.csv"];
    let value = result(&done(sim(folder.path(), &[&flow[..], &more].concat())));
    let seeds: Vec<_> =
        value["results"].as_array().unwrap().iter().map(|r| r["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [10, 11, 12, 13]);
    let confidence = &value["confidence"][0];
    assert_eq!(confidence["runs"], 4);
    let iops = &confidence["metrics"][0];
    assert_eq!(iops["name"], "randread read iops");
    assert!(iops["half_width"].as_f64().unwrap() > 0.0);
    assert!(folder.path().join("i-run-4.csv").exists());
    let text = done(sim(folder.path(), &[&flow[..], &["--repeat", "2"]].concat()));
    assert!(text.contains("means of 2 runs"), "{text}");
}

#[test]
fn a_run_is_watched_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let watch = ["--intervals", "i.csv", "--interval", "1ms", "--timeline", "t.pftrace"];
    let window = ["--timeline-window", "1ms-2ms", "--report", "r.html", "--quiet"];
    done(sim(folder.path(), &[&MIXED[..8], &watch, &window].concat()));
    let read = |name| std::fs::read(folder.path().join(name)).unwrap();
    let csv = text(&read("i.csv"));
    assert!(csv.starts_with("start_ns,end_ns,measured,flow,read_iops,"), "{csv}");
    assert!(csv.lines().nth(2).unwrap().starts_with("0.000,1000000.000,1,*,"), "{csv}");
    assert!(read("t.pftrace").len() > 10_000);
    assert!(text(&read("r.html")).contains("Over time"));
}

#[test]
fn a_fio_job_file_runs() {
    let folder = tempfile::tempdir().unwrap();
    let job = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/two-tenants.fio");
    let output = sim(folder.path(), &["--fio", job, "--json", "-"]);
    assert!(text(&output.stderr).contains("ioengine has no effect"));
    let value = result(&done(output));
    let flows = value["flows"].as_array().unwrap();
    assert_eq!((&flows[0]["name"], &flows[1]["name"]), (&"reader".into(), &"writer".into()));
    // Two jobs, 32 requests and a pause of 500 us: at most 18 ms / 500 us * 64 requests.
    let writes = flows[1]["write"]["ios"].as_u64().unwrap();
    assert!((100..=18 * 2 * 64 + 64).contains(&writes), "{writes}");
}

/// A log that is flushed behind each write, from the command line and from a job file.
#[test]
fn flushes_follow_writes() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--rw", "write", "--bs", "4k", "--size", "1m", "--fsync", "1"];
    let wal = "[wal]\nioengine=sync\nrw=write\nbs=4k\nsize=1m\nfdatasync=1\n";
    std::fs::write(folder.path().join("wal.fio"), wal).unwrap();
    for args in [&options[..], &["--fio", "wal.fio"]] {
        let always = ["--precondition", "none", "--json", "-"];
        let value = result(&done(sim(folder.path(), &[args, &always].concat())));
        let flow = &value["flows"][0];
        assert_eq!((&flow["write"]["ios"], &flow["flush"]["ios"]), (&256.into(), &256.into()));
    }
}

#[test]
fn sizes_are_those_of_fio() {
    let folder = tempfile::tempdir().unwrap();
    let requests = |args: &[&str]| {
        let always = ["--rw", "write", "--precondition", "none", "--json", "-"];
        result(&done(sim(folder.path(), &[&always[..], args].concat())))["requests"].clone()
    };
    for (args, wanted) in [
        (&["--bs", "64kb", "--size", "8MB"][..], 128),
        (&["--bs", "4kb", "--size", "1MiB"], 256),
        (&["--bs", "4096", "--size", "1mb", "--kb_base", "1000"], 244),
        (&["--bs", "4k", "--size", "1m", "--io_size", "50%"], 128),
        (&["--bs", "4k", "--size", "1m", "--io_size", "2mb"], 512),
        (&["--bs", "4k", "--size", "1m", "--number_ios", "7"], 7),
        (&["--bs", "4k", "--size", "1m", "--numjobs", "2"], 512),
    ] {
        assert_eq!(requests(args), wanted, "{args:?}");
    }
    let output = sim(folder.path(), &["--bs", "4k", "--kb_base", "1001", "--runtime", "1ms"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("1024 or 1000"), "{}", text(&output.stderr));
}

#[test]
fn job_files_say_what_they_say_to_fio() {
    let folder = tempfile::tempdir().unwrap();
    let run = |jobs: &str| {
        std::fs::write(folder.path().join("jobs.fio"), jobs).unwrap();
        let args = ["--precondition", "none", "--fio", "jobs.fio", "--json", "-"];
        let output = sim(folder.path(), &args);
        (text(&output.stderr), result(&done(output)))
    };
    // Without an engine one request is outstanding, and that is said.
    let (said, deep) = run("[deep]\nrw=randwrite\nbs=4k\nsize=4m\niodepth=32\n");
    assert!(said.contains("without an ioengine it is psync"), "{said}");
    let (_, one) = run("[deep]\nrw=randwrite\nbs=4k\nsize=4m\nioengine=psync\n");
    assert_eq!(deep["flows"], one["flows"]);
    assert_eq!(deep["requests"], 1024);
    // One begins when the other has ended.
    let (_, both) = run(
        "[global]\nname=nightly\nioengine=libaio\niodepth=8\nruntime=5ms\ntime_based\nstonewall\n\
         [reads]\nrw=randread\n[reads]\nrw=randwrite\n",
    );
    let names: Vec<_> =
        both["flows"].as_array().unwrap().iter().map(|flow| flow["name"].clone()).collect();
    assert_eq!(names, ["reads", "reads-2"]);
    let ms = both["simulated_ns"].as_f64().unwrap() / 1e6;
    assert!((9.9..11.0).contains(&ms), "{ms}");
    let notes = both["notes"].to_string();
    assert!(notes.contains("all flows before had ended, and `reads-2` began"), "{notes}");
}

#[test]
fn traces_of_other_programs_are_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/traces/");
    let replay = |file: &str, more: &[&str]| {
        let file = format!("{data}{file}");
        let run = ["--trace", &file, "--json", "-", "--precondition", "fill"];
        sim(folder.path(), &[&run[..], more].concat())
    };
    let value = result(&done(replay("sample-msr.csv", &["--trace-format", "msr"])));
    let flow = &value["flows"][0];
    assert_eq!((&flow["read"]["ios"], &flow["write"]["ios"]), (&2.into(), &2.into()));
    assert!(value["notes"][0].as_str().unwrap().starts_with("1 requests of the trace"));
    assert!(value["simulated_ns"].as_f64().unwrap() > 1_000_000.0, "10,000 ticks of 100 ns");
    let fast = ["--trace-format", "msr", "--trace-speed", "1000"];
    let value = result(&done(replay("sample-msr.csv", &fast)));
    assert!(value["simulated_ns"].as_f64().unwrap() < 600_000.0);

    let value = result(&done(replay("sample-blkparse.txt", &["--trace-format", "blkparse"])));
    let flow = &value["flows"][0];
    let ios = |side: &str| flow[side]["ios"].as_u64().unwrap();
    assert_eq!([ios("read"), ios("write"), ios("trim"), ios("flush")], [1, 2, 1, 1]);
    assert_eq!(value["notes"][0], "2 lines of the trace hold no request");

    let value = result(&done(replay("sample-iolog.fio", &["--trace-format", "fio"])));
    assert_eq!(value["requests"], 4);
    let untimed = replay("sample-iolog-v2.fio", &["--trace-format", "fio"]);
    assert!(text(&untimed.stderr).contains("has no times"), "{}", text(&untimed.stderr));
    let depth = ["--trace-format", "fio", "--trace-no-stall", "--iodepth", "2"];
    assert_eq!(result(&done(replay("sample-iolog-v2.fio", &depth)))["requests"], 2);
}

/// A trace of writes, of which nobody could say where they go: 2,000 to 64 MiB of the drive.
fn writes_of_a_trace() -> String {
    let line =
        |n: u64| format!("{} 0 {} 32 0\n", n * 20_000, n.wrapping_mul(2_654_435_761) % 4096 * 32);
    (0..2_000).map(line).collect()
}

/// `mynah sim ARGS` on a small drive, with `trace` piped in.
fn piped(folder: &Path, trace: &str, args: &[&str]) -> Output {
    use std::io::Write;
    let mut child = Command::new(env!("CARGO_BIN_EXE_mynah"))
        .args([&["sim", "--trace", "-"], &SMALL[..], args].concat())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // One that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(trace.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn a_trace_starts_from_random_writes_alike_by_file_and_by_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let trace = writes_of_a_trace();
    std::fs::write(folder.path().join("t"), &trace).unwrap();
    // The trace does not fit the cache.
    let drive =
        ["--set", "gc.start=12%", "--set", "geometry.channels=2", "--set", "cache.size=4MiB"];
    let random = [&drive[..], &["--precondition", "steady:random", "--json", "-"]].concat();
    let by_file = result(&done(sim(folder.path(), &[&["--trace", "t"], &random[..]].concat())));
    assert_eq!(by_file, result(&done(piped(folder.path(), &trace, &random))));
    assert_eq!(by_file["settled"]["random_writes"], true, "{}", by_file["settled"]);
    assert!(by_file["settled"]["requests"].as_u64().unwrap() > 1_000);
    // What was computed is of the random writes, and no measure of the run.
    assert_eq!(by_file["steadiness"]["waf_expected"], Value::Null);
    assert!(by_file["notes"][0].as_str().unwrap().contains("steady:random"), "{by_file}");
    let waf = |value: &Value| value["device"]["waf"].as_f64().unwrap();
    // Its own writes alone leave most of the drive in peace. Here the free blocks are used up.
    let often = ["--trace", "t", "--trace-repeat", "30"];
    let own = result(&done(sim(folder.path(), &[&often, &drive[..], &["--json", "-"]].concat())));
    let aged = result(&done(sim(folder.path(), &[&often, &random[..]].concat())));
    assert!(waf(&own) * 1.2 < waf(&aged), "{} {}", waf(&own), waf(&aged));
    let written = &own["trace_writes"][0];
    let bytes = written["bytes"].as_u64().unwrap();
    assert!(bytes.is_multiple_of(16 << 10) && (24 << 20..=32 << 20).contains(&bytes), "{bytes}");
    assert!((0.0..0.05).contains(&written["share"].as_f64().unwrap()), "{written}");
    let note = own["notes"][0].as_str().unwrap();
    assert!(note.contains("over and over") && note.contains("steady:random"), "{note}");
}

#[test]
fn a_pipe_is_never_taken_for_what_it_was_not_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let trace = writes_of_a_trace();
    let refused = piped(folder.path(), &trace, &[]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("steady:random") && said.contains("--trace-distribution"), "{said}");
    let told = ["--trace-distribution", "zipf:1.1", "--json", "-"];
    let told = result(&done(piped(folder.path(), &trace, &told)));
    assert_eq!(told["trace_writes"][0]["assumed"], "zipf:1.1");
    assert!(told["notes"][0].as_str().unwrap().contains("distribution zipf:1.1"), "{told}");
    let fill = ["--precondition", "fill", "--json", "-"];
    assert_eq!(result(&done(piped(folder.path(), &trace, &fill)))["trace_writes"], Value::Null);
}

#[test]
fn what_random_writes_have_aged_is_recorded_replayed_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t"), writes_of_a_trace()).unwrap();
    let drive = ["--set", "gc.start=12%", "--set", "geometry.channels=2"];
    let random = [&drive[..], &["--precondition", "steady:random"]].concat();
    for load in [&["--trace", "t"][..], &["--rw", "randread", "--number_ios", "2000"]] {
        let run = |more: &[&str]| sim(folder.path(), &[&random[..], load, more].concat());
        let recorded = result(&done(run(&["--record", "r", "--json", "-"])));
        let replay = ["sim", "--replay", "r", "--json", "-"];
        let mut replayed = result(&done(mynah(folder.path(), &replay)));
        for key in ["flows", "device", "settled", "steadiness"] {
            assert_eq!(replayed[key].take(), recorded[key], "{key}");
        }
        done(run(&["--save-state", "s", "--quiet"]));
        let go_on = ["--load-state", "s", "--rw", "randread", "--number_ios", "100", "--quiet"];
        done(sim(folder.path(), &[&go_on[..], &drive].concat()));
    }
    // Whose steady state a served drive would have otherwise, nobody knows.
    let served = mynah(folder.path(), &["serve", "--precondition", "steady:random"]);
    assert_eq!(served.status.code(), Some(2), "{}", text(&served.stderr));
}

#[test]
fn a_drive_is_saved_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let write = ["--rw", "randwrite", "--bs", "16k", "--iodepth", "8", "--number_ios", "3000"];
    let first =
        [&write[..], &["--precondition", "none", "--save-state", "s", "--json", "-"]].concat();
    assert_eq!(result(&done(sim(folder.path(), &first)))["requests"], 3000);
    let read = ["--rw", "randread", "--bs", "16k", "--number_ios", "5000", "--json", "-"];
    let flash_reads = |more: &[&str]| {
        let value = result(&done(sim(folder.path(), &[&read[..], more].concat())));
        (value["device"]["flash_reads"].as_u64().unwrap(), value["notes"].clone())
    };
    assert_eq!(flash_reads(&["--precondition", "none"]).0, 0);
    let (reads, notes) = flash_reads(&["--load-state", "s"]);
    assert!(reads > 0, "what was written is there");
    assert!(notes[0].as_str().unwrap().starts_with("started from the state in s, saved"));
    assert_eq!(flash_reads(&["--load-state", "s"]).0, reads);
    let load = [&read[..], &["--load-state", "s"]].concat();
    let other = [&load[..], &["--set", "flash.read=80us"]].concat();
    let output = sim(folder.path(), &other);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("a state fits the very drive"), "{:?}", output.stderr);
}

#[test]
fn zipf_is_preconditioned_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let waf = |distribution: &str| {
        let run = ["--rw", "randwrite", "--bs", "16k", "--iodepth", "16", "--json", "-"];
        let more = ["--random_distribution", distribution, "--number_ios", "40000"];
        let value = result(&done(sim(folder.path(), &[&run[..], &more].concat())));
        // The cache takes the most popular ones, which is not part of what is computed; that is said.
        let notes = value["notes"].as_array().unwrap();
        let of_waf = |note: &Value| note.as_str().unwrap().starts_with("write amplification");
        assert!(notes.iter().all(of_waf), "{}", value["notes"]);
        value["device"]["waf"].as_f64().unwrap()
    };
    // Rewrites of few places leave blocks that are nearly empty.
    let (uniform, zipf) = (waf("random"), waf("zipf:1.2"));
    assert!(zipf < uniform * 0.9, "{zipf} {uniform}");
    let record = ["--rw", "randwrite", "--random_distribution", "zipf:1.2", "--record", "r"];
    let output = sim(folder.path(), &record);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("follows no ranges"), "{}", text(&output.stderr));
}

#[test]
fn a_run_ends_when_it_is_steady() {
    let folder = tempfile::tempdir().unwrap();
    let flow = ["--rw", "randwrite", "--bs", "16k", "--iodepth", "16", "--json", "-"];
    // In so few blocks collection keeps pace only if it begins early.
    let early = ["--set", "over_provisioning=28%", "--set", "gc.start=12%"];
    let run = |more: &[&str]| sim(folder.path(), &[&early[..], &flow, more].concat());
    // In shorter rounds too few blocks are collected to say so.
    let value = result(&done(run(&["--until-steady=200ms"])));
    let steady = &value["steady"];
    assert_eq!(steady["reached"], true);
    let rounds = steady["rounds"].as_u64().unwrap();
    assert_eq!(steady["iops"].as_array().unwrap().len() as u64, rounds);
    assert!((5..=25).contains(&rounds), "{steady}");
    assert!(steady["excursion"].as_f64().unwrap() <= 0.2);
    // The results are those of five rounds.
    assert!((value["simulated_ns"].as_f64().unwrap() / 1e9 - 1.0).abs() < 0.05);
    let window: f64 = steady["iops"].as_array().unwrap()[rounds as usize - 5..]
        .iter()
        .map(|iops| iops.as_f64().unwrap() * 0.2)
        .sum();
    assert!((value["requests"].as_f64().unwrap() - window).abs() < 1.0);
    // A burst in every second round is never steady.
    let bursts = run(&["--until-steady=200ms", "--burst", "200ms/200ms"]);
    let value: Value = serde_json::from_str(&text(&bursts.stdout)).unwrap();
    assert_eq!(value["steady"]["reached"], false);
    assert!(value["untrusted"].as_str().unwrap().starts_with("not in steady state"));
}

/// A run that ends before its first round says so, in words and in JSON.
#[test]
fn a_steady_state_without_a_round_has_no_figures() {
    let output = mynah(
        Path::new("."),
        &[
            "sim",
            "--drive=mqsim",
            "--rw=randwrite",
            "--number_ios=10",
            "--until-steady",
            "--json=-",
        ],
    );
    let said = text(&output.stderr).replace("\n  │ ", " ");
    assert!(said.contains("the run ended after 0 rounds of "), "{said}");
    let result = result(&text(&output.stdout));
    assert!(!said.contains("NaN") && !result.to_string().contains("NaN"), "{result}");
    for figure in ["excursion", "slope"] {
        assert_eq!(result["steady"][figure].as_f64(), Some(0.0), "{figure}");
    }
}

/// What hosts have done is their owner's alone to read.
#[test]
fn profiles_are_their_owners() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    let profile = format!("--profile={}", path.display());
    let output = mynah(
        folder.path(),
        &["sim", "--drive=mqsim", "--precondition=none", "--number_ios=10", &profile],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // Who leaves out `show` is told.
    let output = mynah(folder.path(), &["profile", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("mynah profile show ") && said.contains("a.profile"), "{said}");
}
