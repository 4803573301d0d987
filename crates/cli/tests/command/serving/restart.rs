//! A drive whose bytes are in a file comes back as it was, its own state too; or that is made anew,
//! and the drive says why.

use crate::serving::support::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A small drive on the file `bytes` of a folder.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn state(&self) -> PathBuf {
        self.path("bytes.state")
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let store = format!("file:{}", self.path("bytes").display());
        let json = self.path("result.json").display().to_string();
        let drive = ["--set", "geometry.blocks_per_plane=48", "--set", "geometry.channels=2"];
        let rest = ["--set", "over_provisioning=20%", "--functional", "--tcp", "127.0.0.1:0"];
        let place = ["--store", &store, "--json", &json];
        [&["serve"], &drive[..], &rest, &place, more]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    fn serve(&self, more: &[&str]) -> Served {
        let arguments = self.arguments(more);
        Served::start(&mut mynah(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// Serves it for a moment: what it said of its state, and its result.
    fn visit(&self, more: &[&str], use_it: impl FnOnce(&str)) -> (String, Value) {
        let served = self.serve(more);
        use_it(&target(&served));
        let (code, said, errors) = served.stop();
        assert_eq!(code, 0, "{said}{errors}");
        let result = std::fs::read(self.path("result.json")).unwrap();
        (errors, serde_json::from_slice(&result).unwrap())
    }

    /// The same, when nothing is done with it.
    fn look(&self, more: &[&str]) -> String {
        self.visit(more, |_| ()).0
    }
}

fn target(served: &Served) -> String {
    format!("tcp://{}/{}", served.address(), str_of(&served.ready["nqn"]))
}

fn bench(target: &str, args: &[&str]) {
    let load = ["--bs", "16k", "--iodepth", "8", "--number_ios", "400", "--size", "8m"];
    result(&run_bench(target, &[&load, args].concat()), 0);
}

fn flash_reads(result: &Value) -> u64 {
    result["device"]["flash_reads"].as_u64().expect("a count")
}

const KEPT: &str = "the drive's own state is, too";
const UNORDERLY: &str = "the drive's own state is made anew: the run before did not end in order";

#[track_caller]
fn says(errors: &str, what: &str) {
    assert!(errors.contains(what), "{errors}");
}

/// A signal that comes before the drive is ready ends the program with a word.
#[test]
fn a_drive_that_is_not_ready_says_that_it_was_interrupted() {
    let place = Place::new();
    // Something to do before it is ready.
    let fill = ["--precondition", "steady", "--set", "geometry.blocks_per_plane=2048"];
    let arguments = place.arguments(&fill);
    let mut command = mynah(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // By then it has a handler of signals.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
    let output = child.wait_with_output().unwrap();
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0), "{errors}");
    says(&errors, "interrupted: the drive was not ready yet, and nothing was served");
}

/// Reads of what was never written need no flash; in the steady state, everything is on flash.
#[test]
fn a_drive_that_ended_in_order_goes_on_with_its_own_state() {
    let place = Place::new();
    let write = |target: &str| bench(target, &["--rw", "write"]);
    let (errors, _) = place.visit(&["--precondition", "none"], write);
    assert!(!errors.contains("own state"), "there was none: {errors}");
    assert!(place.state().is_file());

    let there = |target: &str| bench(target, &["--rw", "read"]);
    let elsewhere = |target: &str| bench(target, &["--rw", "read", "--offset", "64m"]);
    let (errors, result) = place.visit(&[], there);
    says(&errors, KEPT);
    assert!(flash_reads(&result) > 0, "what was written is on flash");
    let (errors, result) = place.visit(&[], elsewhere);
    says(&errors, KEPT);
    assert_eq!(flash_reads(&result), 0, "and nothing else");

    // The same state is a start for a simulation.
    let (state, sets) = (place.state(), &place.arguments(&[])[1..7]);
    let reads = |offset: &str| {
        let mut sim = mynah(&["sim", "--rw", "read", "--bs", "16k", "--number_ios", "100"]);
        sim.args(["--size", "1m", "--offset", offset, "--json", "-", "--quiet", "--load-state"]);
        let simulated = sim.arg(&state).args(sets).output().unwrap();
        flash_reads(&crate::serving::support::result(&simulated, 0))
    };
    assert!(reads("0") > 0);
    assert_eq!(reads("64m"), 0);

    // A start that fails changes nothing.
    let failing = place.arguments(&["--vfio-user", "/proc/nowhere"]);
    let failing: Vec<&str> = failing.iter().map(String::as_str).collect();
    let output = mynah(&failing).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let (errors, result) = place.visit(&[], elsewhere);
    says(&errors, KEPT);
    assert_eq!(flash_reads(&result), 0);

    // Killed: the state that is still there is not of these bytes.
    let mut served = place.serve(&[]);
    there(&target(&served));
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    drop(served);
    let (errors, result) = place.visit(&[], elsewhere);
    says(&errors, "the bytes are as of the last flush or newer");
    says(&errors, UNORDERLY);
    assert!(flash_reads(&result) > 0, "preconditioned");
    says(&place.look(&[]), KEPT);
}

/// Faults that are to come, much later, are neither waited for nor brought about.
#[test]
fn a_drive_that_ended_before_its_faults_keeps_its_state() {
    for fault in ["dead-die:die=1,at=2h", "power-cut:at=2h"] {
        let place = Place::new();
        let start = ["--precondition", "none", "--fault", fault];
        place.visit(&start, |target| bench(target, &["--rw", "write"]));
        let read = |target: &str| bench(target, &["--rw", "read"]);
        let (errors, result) = place.visit(&["--fault", fault], read);
        says(&errors, KEPT);
        assert!(flash_reads(&result) > 0, "{fault}: what was written is on flash");
    }
}

#[test]
fn a_state_that_does_not_belong_to_the_bytes_is_not_taken() {
    let place = Place::new();
    let none = ["--precondition", "none"];
    let anew = |errors: &str, why: &str| {
        says(
            errors,
            &format!("the bytes are as they were left; the drive's own state is made anew: {why}"),
        );
    };
    place.look(&none);
    let good = std::fs::read(place.state()).unwrap();
    // Each of these saves a good state at its end.
    let damaged = |change: &dyn Fn(&Path)| {
        says(&place.look(&[]), KEPT);
        change(&place.state());
        place.look(&[])
    };
    let not_this =
        format!("{} was not saved with these bytes, or is damaged", place.state().display());
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        damaged(&|path| {
            let mut bytes = std::fs::read(path).unwrap();
            change(&mut bytes);
            std::fs::write(path, bytes).unwrap();
        })
    };
    anew(&changed(&|bytes| bytes.truncate(bytes.len() / 2)), &not_this);
    let wrong = format!("{}: it is damaged, or was truncated", place.state().display());
    anew(&changed(&|bytes| *bytes.last_mut().unwrap() ^= 1), &wrong);
    // That of an earlier run.
    anew(&changed(&|bytes| *bytes = good.clone()), &not_this);
    let middle = |bytes: &mut Vec<u8>| {
        let at = bytes.len() / 2;
        bytes[at] ^= 0x55;
    };
    anew(&changed(&middle), &place.state().display().to_string());
    let head = |bytes: &mut Vec<u8>| bytes[14..18].fill(0xff);
    anew(&changed(&head), &wrong);
    anew(&changed(&|bytes| bytes.truncate(3)), &place.state().display().to_string());
    anew(&changed(&Vec::clear), &place.state().display().to_string());
    anew(
        &damaged(&|path| std::fs::remove_file(path).unwrap()),
        &place.state().display().to_string(),
    );

    // Another drive; then the first again.
    says(&place.look(&[]), KEPT);
    let errors = place.look(&["--set", "flash.read.lsb=99us"]);
    anew(&errors, "the bytes are of another drive, `enterprise-tlc` [");
    says(&errors, "`flash.read` was ");
    says(&errors, "was written by another drive");
    anew(&place.look(&[]), "the bytes are of another drive");

    // Whoever asks for something else gets it.
    anew(&place.look(&none), "--precondition asks for that");
    let recording = place.path("recording").display().to_string();
    let write = |target: &str| bench(target, &["--rw", "write"]);
    let (errors, served) = place.visit(&["--record", &recording], write);
    says(&errors, KEPT);
    // The state that it began in is beside it, and the one that it ended in is another.
    let replay = |more: &[&str]| {
        let replay = ["sim", "--quiet", "--json", "-", "--replay", &recording];
        mynah(&[&replay, more].concat()).output().unwrap()
    };
    let begun = format!("{recording}.state");
    let replayed = result(&replay(&["--load-state", &begun]), 0);
    for figure in ["flash_programs", "flash_reads", "host_units_written"] {
        assert_eq!(replayed["device"][figure], served["device"][figure], "{figure}");
    }
    let ended = place.state().display().to_string();
    for (more, said) in
        [(&[][..], "begins in a saved state"), (&["--load-state", &ended], "not the saved state")]
    {
        let refused = replay(more);
        assert_eq!(refused.status.code(), Some(2));
        says(&text(&refused.stderr), said);
    }
    says(&place.look(&[]), KEPT);
    // Without the model the bytes change, and the drive's own state does not.
    anew(&place.look(&["--speed", "max"]), "speed max does not ask for it");
    anew(&place.look(&[]), "the run before has saved none");

    // Where no state can be saved the bytes are kept, and it is said: a failure.
    says(&place.look(&[]), KEPT);
    std::fs::remove_file(place.state()).unwrap();
    std::fs::create_dir(place.state()).unwrap();
    let (code, _, errors) = place.serve(&[]).stop();
    assert_eq!(code, 1, "{errors}");
    says(&errors, "the drive's own state was not saved");
    std::fs::remove_dir(place.state()).unwrap();
    anew(&place.look(&[]), "the run before has saved none");
}

/// What hosts have written, and what they have done, are for the drive's owner; results are for
/// whom the umask says.
#[test]
fn what_belongs_to_hosts_is_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let record = place.path("run.rec").display().to_string();
    let record = ["--record", &record];
    place.look(&record);
    place.look(&record);
    std::fs::File::create(place.path("plain")).unwrap();
    let mode = |name: &str| {
        let metadata = std::fs::metadata(place.path(name)).unwrap_or_else(|_| panic!("no {name}"));
        metadata.permissions().mode() & 0o777
    };
    for name in ["bytes", "bytes.state", "run.rec", "run.rec.state"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!(mode("result.json"), mode("plain"));
}
