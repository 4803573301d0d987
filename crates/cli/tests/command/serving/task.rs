//! `mynah profile --task`: a drive served, loaded and profiled as a file says it.

use crate::serving::support::*;
use serde_json::Value;
use std::path::Path;

const SERVE: &str = "serve = { drive = \"enterprise-tlc\", precondition = \"none\", \
                     set = { \"geometry.blocks_per_plane\" = 48, over_provisioning = \"20%\" } }";

fn run(folder: &Path, task: &str, args: &[&str]) -> (Option<i32>, String, String) {
    std::fs::write(folder.join("a.toml"), task).unwrap();
    let mut command = mynah(&["profile", "--task", "a.toml"]);
    let output = command.args(args).current_dir(folder).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    (output.status.code(), said, text(&output.stderr))
}

#[test]
fn each_depth_is_a_run_and_the_last_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let task = format!(
        "schema = \"mynah.profile-task/1\"\n\
         [workload]\nio = \"read\"\n\
         [execution]\n{SERVE}\n\
         load = [{{ rw = \"randrw\", bs = \"4k\", size = \"8m\", iodepth = [1, 4], runtime = \"0.2s\" }}]\n\
         [profiler]\nsample = 1\n\
         [report]\nbase = 1\ngroup_by = \"type\"\nshow = [\"breakdown\", \"verdict\"]\n\
         html = \"a.html\"\njson = \"a.json\"\noutput = \"kept\"\n"
    );
    let (code, said, errors) = run(folder.path(), &task, &[]);
    assert_eq!(code, Some(0), "{errors}");
    let run_lines: Vec<_> = said.lines().filter(|line| line.contains(": read: IOPS=")).collect();
    let [one, four] = run_lines[..] else { panic!("{said}") };
    assert!(one.starts_with("run 1, bs=4k iodepth=1 rw=randrw size=8m: read: IOPS="), "{said}");
    assert!(four.starts_with("run 2, bs=4k iodepth=4 rw=randrw size=8m: read: IOPS="), "{said}");
    for part in [", avg=", ", p99=", "%)"] {
        assert!(one.contains(part) && four.contains(part), "{said}");
    }
    // The last one beside the first: stages and a verdict, without the distribution.
    assert!(said.contains("VERDICT") && said.contains("of growth"), "{said}");
    assert!(!said.contains("lat: min="), "{said}");

    let page = std::fs::read_to_string(folder.path().join("a.html")).unwrap();
    assert!(page.contains("run 1, bs=4k") && page.contains("run 2, bs=4k"));
    let report = std::fs::read(folder.path().join("a.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(report["base"], "run 1, bs=4k iodepth=1 rw=randrw size=8m");
    let profiles = report["profiles"].as_array().expect("profiles");
    assert_eq!(profiles.len(), 2);
    for profile in profiles {
        // Both sides, and of reads alone.
        assert_eq!((&profile["side"], &profile["uneven"]), (&"path".into(), &0.into()));
        let groups = profile["groups"].as_array().expect("groups");
        let [group] = &groups[..] else { panic!("{groups:?}") };
        assert_eq!(group["name"], "read");
        let stages = group["stages"].as_array().expect("stages");
        for name in ["host_submit", "firmware"] {
            assert!(stages.iter().any(|stage| stage["stage"] == name), "{name}: {stages:?}");
        }
    }
    let held = |number: usize| profiles[number]["groups"][0]["outstanding"].as_f64().unwrap();
    assert!(held(1) > held(0), "{} {}", held(0), held(1));
    // What was kept is a base for another task.
    let kept = mynah(&["profile", "show", "kept/2.profile", "--base", "kept/1.profile"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    assert!(kept.status.success() && text(&kept.stdout).contains("VERDICT"));
}

#[test]
fn a_task_may_use_a_target_that_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["serve", "--quiet", "--tcp", "127.0.0.1:0", "--functional", "--precondition=none"];
    let set = ["--set=geometry.blocks_per_plane=48", "--set=over_provisioning=20%"];
    let target = Served::start(&mut mynah(&[&small[..], &set].concat()));
    let task = |base: &str| {
        format!(
            "schema = \"mynah.profile-task/1\"\n\
             [execution]\ntarget = \"tcp://{}\"\n\
             load = [{{ name = \"few\", rw = \"write\", size = \"1m\", number_ios = 50 }}]\n\
             [profiler]\nsample = 1\n[report]\n{base}",
            target.address()
        )
    };
    let (code, said, errors) = run(folder.path(), &task("output = \"kept\""), &["--quiet"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.starts_with("\nrun 1, few: path of "), "{said}");
    assert!(said.contains("write 4KiB: IOPS=") && said.contains(" 50 I/Os, "), "{said}");
    let base = "base = \"kept/1.profile\"";
    let (code, said, errors) = run(folder.path(), &task(base), &["--data-digest"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("write 4KiB: IOPS=") && said.contains("VERDICT"), "{said}");
    // A base that is none is said before anything runs.
    std::fs::write(folder.path().join("none.profile"), "none").unwrap();
    let (code, said, errors) = run(folder.path(), &task("base = \"none.profile\""), &[]);
    assert!(code == Some(2) && said.is_empty() && errors.contains("none.profile"), "{errors}");
    assert_eq!(target.stop().0, 0);
}

#[test]
fn processors_that_there_are_not_are_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    for (serve, load, said) in [
        ("", ", cpus_allowed = 1000", "load: cpus_allowed: there is no processor 1000"),
        ("cpus_allowed = \"x\", ", "", "serve: cpus_allowed: `x` is not a list of processors"),
    ] {
        let serve = SERVE.replace("{ drive", &format!("{{ {serve}drive"));
        let task = format!(
            "schema = \"mynah.profile-task/1\"\n[execution]\n{serve}\nload = [{{ rw = \"read\"{load} }}]"
        );
        let (code, _, errors) = run(folder.path(), &task, &[]);
        assert!(code == Some(2) && errors.contains(said), "{errors}");
    }
}

#[test]
fn loads_begin_together_and_what_is_expected_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let task = |expected: &str| {
        format!(
            "schema = \"mynah.profile-task/1\"\n[execution]\n{SERVE}\nload = [\n\
             {{ name = \"alone\", rw = \"randread\", size = \"8m\", number_ios = 200 }},\n\
             [{{ name = \"small\", rw = \"randread\", size = \"8m\", number_ios = 2000 }},\n\
              {{ name = \"shared\", rw = \"randread\", bs = \"32k\", size = \"8m\", iodepth = 4, \
                 shares_queue = true }},\n\
              {{ name = \"own\", rw = \"randread\", bs = \"64k\", size = \"8m\", number_ios = 50 }}]]\n\
             [profiler]\nsample = 1\n\
             [report]\nbase = 1\ngroup_by = \"size\"\njson = \"a.json\"\n\
             [[expect]]\n{expected}"
        )
    };
    let (code, said, errors) = run(folder.path(), &task("group = \"4KiB\"\niops_max = 0"), &[]);
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(said.contains("FAILS  run 2, 4KiB: IOPS ") && errors.contains("1 of 1 expectations"));
    let expected = "group = \"4KiB\"\niops_max = 1000.0\npaper = \"as published\"";
    let (code, said, errors) = run(folder.path(), &task(expected), &[]);
    assert_eq!(code, Some(0), "{said}{errors}");
    assert!(said.contains("holds  run 2, 4KiB: IOPS "), "{said}");
    assert!(said.contains("         paper: as published\n"), "{said}");
    let report = std::fs::read(folder.path().join("a.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let groups = report["profiles"][1]["groups"].as_array().expect("groups");
    let ios = |name: &str| groups.iter().find(|it| it["name"] == name).map(|it| it["ios"].clone());
    assert_eq!((ios("4KiB"), ios("64KiB")), (Some(2000.into()), Some(50.into())));
    assert!(ios("32KiB").and_then(|ios| ios.as_u64()).is_some_and(|ios| ios > 4), "{groups:?}");
}

/// The link is made, carries what it is said to, and verdicts know what the connections said.
#[test]
fn a_link_of_its_own_is_slow() {
    let allowed = std::process::Command::new("unshare")
        .args(["-Urn", "sh", "-c", "ip link add a type veth peer name b && tc qdisc add dev a root tbf rate 1mbit burst 64kb latency 1ms"])
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("no links in user namespaces here: not tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let task = format!(
        "schema = \"mynah.profile-task/1\"\n[execution]\n{SERVE}\n\
         link = {{ rate = \"100Mbit/s\", queue = \"20ms\" }}\n\
         load = [{{ rw = \"randread\", bs = \"16k\", size = \"8m\", iodepth = 2, \
                   number_ios = 500, bulk_flows = [0, 2] }}]\n\
         [profiler]\nsample = 1\n[report]\nbase = 1\njson = \"a.json\"\n\
         [[expect]]\npart = \"S3-S5\"\ngrows_most = true\nlad_min = 1.2\n"
    );
    let (code, said, errors) = run(folder.path(), &task, &[]);
    assert_eq!(code, Some(0), "{said}{errors}");
    let report = std::fs::read(folder.path().join("a.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    for profile in report["profiles"].as_array().expect("profiles") {
        let group = &profile["groups"][0];
        assert_eq!((&group["ios"], &profile["side"]), (&500.into(), &"path".into()));
        // It carries 12.5 MB a second, and a bucket of 64 KiB more.
        let rate = group["bw_bytes_per_s"].as_f64().expect("a rate");
        assert!(rate < 12.5e6 * 1.1, "{rate}");
    }
    let evidence = &report["profiles"][1]["groups"][0]["verdict"]["evidence"];
    assert!(evidence.to_string().contains("round trip: "), "{said}");
}
