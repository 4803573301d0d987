//! What the first page of help shows runs as it is printed: the examples of `mynah sim -h`, `serve -h`
//! and `bench -h`. Served drives take a free port, so that no two tests want the same.

use crate::serving::support::{Served, mynah};
use std::path::Path;
use std::process::{Command, Output};

/// The examples of a verb's first page, as words behind `mynah`.
fn examples(verb: &str) -> Vec<Vec<String>> {
    let help = mynah(&[verb, "-h"]).env("COLUMNS", "80").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let start = format!("  mynah {verb}");
    let lines = help.lines().filter(|line| line.starts_with(&start));
    let words = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect();
    let examples: Vec<Vec<String>> = lines.map(words).collect();
    assert_eq!(examples.len(), 3, "{help}");
    examples
}

fn run(folder: &Path, words: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mynah"));
    command.args(words).current_dir(folder).output().expect("the program starts")
}

#[test]
fn examples_of_sim_run_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    for words in examples("sim") {
        let output = run(folder.path(), &words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        let summary = String::from_utf8(output.stdout).unwrap();
        let lines = summary.lines().count();
        match words.contains(&"-v".to_owned()) {
            true => assert!(summary.contains("\nslowest I/Os:"), "{summary}"),
            false => assert!((10..=25).contains(&lines), "{lines} lines\n{summary}"),
        }
    }
    assert!(folder.path().join("slow.html").exists());
}

#[test]
fn examples_of_serve_and_bench_run_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut loads = examples("bench").into_iter();
    for words in examples("serve") {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mynah"));
        // Whether a busy machine is in time is not the question.
        command.args(&words).args(["--tcp", "127.0.0.1:0", "--functional"]);
        let served = Served::start(command.current_dir(folder.path()));
        // Each drive gets one of the loads.
        let load = loads.next().unwrap();
        let target = format!("tcp://{}", served.address());
        let load: Vec<_> = load.iter().map(|it| it.replace("tcp://127.0.0.1", &target)).collect();
        let output = run(folder.path(), &load);
        assert!(output.status.success(), "{load:?}: {}", String::from_utf8_lossy(&output.stderr));
        let summary = String::from_utf8(output.stdout).unwrap();
        assert!(summary.contains(" I/Os completed, 0 failed"), "{summary}");
        assert_eq!(summary.contains("\nlatencies, "), load.contains(&"-v".to_owned()), "{summary}");
        let (code, said, errors) = served.stop();
        assert_eq!(code, 0, "{words:?}: {said}{errors}");
    }
    assert!(folder.path().join("run.rec").exists());
}

#[test]
fn help_takes_verbs_and_pages() {
    let say = |words: &[&str]| mynah(words).output().unwrap();
    for (short, long) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "sim"], &["sim", "--help"]),
        (&["help", "profile", "show"], &["profile", "show", "--help"]),
        (&["profile", "help", "show"], &["profile", "show", "--help"]),
        (&["kv", "help"], &["kv", "--help"]),
    ] {
        let [short, long] = [short, long].map(say);
        assert!(short.status.success() && !short.stdout.is_empty());
        assert_eq!(short.stdout, long.stdout);
    }
    for page in ["drives", "loads", "traces", "results"] {
        let output = say(&["help", page]);
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() <= 40 && text.contains("\nThe rest: docs/"), "{text}");
    }
}
