//! `mynah profile --task`: a drive served, loaded and profiled as a file says it.

use crate::support::*;
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
