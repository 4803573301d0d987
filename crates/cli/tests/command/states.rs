//! Prepared drives that are kept between commands.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Random writes on a drive that is quickly prepared.
const LOAD: &str = "--set geometry.pages_per_block=96 --set geometry.blocks_per_plane=48 --set \
                    over_provisioning=20% --rw randwrite --number_ios 1000 --settle 30ms --name writes";

fn sim(more: &str) -> Command {
    let words = format!("sim {LOAD} --json - {more}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mynah"));
    command.args(words.split_whitespace()).env_remove("MYNAH_STATE_CACHE");
    command.stdout(Stdio::piped());
    command
}

/// The result, without what depends on the machine.
fn result(mut command: Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut result: Value = serde_json::from_slice(&output.stdout).unwrap();
    result.as_object_mut().unwrap().remove("run").unwrap();
    result
}

fn cache(words: &str, folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mynah"));
    let output =
        command.arg("cache").args(words.split_whitespace()).arg("--state-cache").arg(folder);
    let output = output.output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn commands_share_what_they_prepare() {
    let folder = tempfile::tempdir().unwrap();
    let states = folder.path().join("states");
    let with = format!("--state-cache {}", states.display());
    let without = result(sim("--state-cache off"));
    // Two at once, and one that finds what they have kept.
    let both = [sim(&with).spawn().unwrap(), sim(&with).spawn().unwrap()];
    for child in both {
        let output = child.wait_with_output().unwrap();
        let mut one: Value = serde_json::from_slice(&output.stdout).unwrap();
        one.as_object_mut().unwrap().remove("run").unwrap();
        assert_eq!(one, without);
    }
    assert_eq!(names(&states).len(), 1);
    assert_eq!(result(sim(&with)), without);
    let listed = cache("", &states);
    let flow = "writes (100% write, random, 4KiB, iodepth 1, namespace 1)";
    let wanted = format!(", steady, seed 1, {flow}\n1 prepared drive in ");
    assert!(listed.contains(&wanted), "{listed}");
    // What a run leaves that is killed while it writes.
    let unfinished = states.join(format!(".{}.tmp", names(&states)[0]));
    fs::write(&unfinished, [0; 2048]).unwrap();
    let listed = cache("", &states);
    assert!(listed.contains("2.00KiB of that in 1 that a run is writing, or was"), "{listed}");
    fs::remove_file(unfinished).unwrap();
    // As many bytes as are there are room for what is there and nothing more.
    let size = fs::metadata(states.join(&names(&states)[0])).unwrap().len();
    assert_eq!(result(sim(&format!("{with} --seed 2 --state-cache-size {size}"))), {
        result(sim("--state-cache off --seed 2"))
    });
    assert_eq!(names(&states).len(), 1);
    // Nor does what is found keep more.
    result(sim(&with));
    assert_eq!(names(&states).len(), 2);
    result(sim(&format!("{with} --state-cache-size {size}")));
    assert_eq!(names(&states).len(), 1);
    // A shipped drive has its name.
    let shipped = ["sim", "--drive", "mqsim-table3", "--number_ios", "10", "-q", "--state-cache"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_mynah"));
    assert!(command.args(shipped).arg(&states).status().unwrap().success());
    let listed = cache("", &states);
    assert!(listed.contains("drive mqsim-table3"), "{listed}");
    assert!(cache("clear", &states).contains(" removed"));
    result(sim(&with));
    // What is not of the cache stays.
    let others = ["mine.state", "mine.prepared", ".hidden", "0123456789abcdef0123456789abcdef.txt"];
    others.iter().for_each(|name| fs::write(states.join(name), "hi").unwrap());
    assert!(cache("clear", &states).contains("1 file removed"));
    assert_eq!(names(&states).len(), others.len());
    assert!(cache("list", &states).starts_with("0 prepared drives in "));
}

#[test]
fn what_cannot_be_kept_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    let without = result(sim("--state-cache off"));
    let at_home = |home: &Path| {
        let mut command = sim("");
        command.env("HOME", home).env_remove("XDG_CACHE_HOME");
        command
    };
    assert_eq!(names(&home), [""; 0]);
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let wrong = sim(&format!("--state-cache {}", file.display())).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("that is no folder"));
    // No room: no file may be as large.
    let words = format!("ulimit -f 100; exec {} sim {LOAD} --json -", env!("CARGO_BIN_EXE_mynah"));
    let mut full = Command::new("sh");
    full.args(["-c", &words]).env("HOME", &home);
    full.env_remove("XDG_CACHE_HOME").env_remove("MYNAH_STATE_CACHE");
    assert_eq!(result(full), without);
    let states = home.join(".cache/mynah/states");
    assert_eq!(names(&states), [""; 0]);
    let mut listed = Command::new(env!("CARGO_BIN_EXE_mynah"));
    listed.arg("cache").env("HOME", "/dev/null");
    listed.env_remove("XDG_CACHE_HOME").env_remove("MYNAH_STATE_CACHE");
    let listed = String::from_utf8(listed.output().unwrap().stdout).unwrap();
    assert!(listed.ends_with("nothing can be kept there: not a directory\n"), "{listed}");
    // No home, none that can be, and one.
    assert_eq!(result(at_home(Path::new("/dev/null"))), without);
    assert_eq!(result(at_home(Path::new(""))), without);
    assert_eq!(result(at_home(&home)), without);
    assert_eq!(names(&states).len(), 1);
    assert_eq!(names(&home), [".cache"]);
}
