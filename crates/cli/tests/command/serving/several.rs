//! Several drives in one process, and a drive in parts: each is as it would be by itself.

use crate::serving::support::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;

/// A drive that is quickly built, of 16 channels and 8 cores.
const SMALL: [&str; 6] = [
    "serve",
    "--set",
    "geometry.blocks_per_plane=48",
    "--set",
    "over_provisioning=20%",
    "--functional",
];

fn start(args: &[&str]) -> Served {
    Served::start(mynah(&SMALL).args(args))
}

/// Writes and checks over all of these targets at once.
fn use_all(targets: &[String], args: &[&str]) {
    let load = ["--verify", "--rw", "randrw", "--size", "4m", "--iodepth", "8"];
    let children: Vec<Child> =
        targets.iter().map(|target| start_bench(target, &[&load, args].concat())).collect();
    for child in children {
        let result = result(&child.wait_with_output().unwrap(), 0);
        assert_eq!(result["host"]["mismatched_blocks"], 0, "{}", result["host"]);
        assert_eq!(result["host"]["unknown"], 0, "{}", result["host"]);
    }
}

/// Two drives: over TCP and on the PCIe bus, with a store each. What one holds, the other does not.
#[test]
fn drives_of_one_process_are_drives_of_their_own() {
    let top = tempfile::tempdir().unwrap();
    let place = |name: &str| top.path().join(name).to_str().unwrap().to_owned();
    let (folder, store, file) = (place("bus"), format!("file:{}", place("bytes")), place("r.json"));
    let args = [
        ["--drives", "2", "--tcp", "127.0.0.1:0", "--vfio-user", &folder, "--name", "bay"],
        ["--store", &store, "--json", &file, "--metrics", "127.0.0.1:0", "--seed", "7"],
    ];
    let served = start(&args.concat());
    let drives = served.ready["drives"].as_array().unwrap().clone();
    assert_eq!(drives.len(), 2);
    for (number, drive) in drives.iter().enumerate() {
        assert_eq!(drive["name"], format!("bay-{number}"));
        assert!(str_of(&drive["nqn"]).ends_with(&format!(":bay-{number}")));
        assert_eq!(drive["vfio_user"][0], format!("{folder}/{number}/cntrl"));
        assert_eq!(drive["addresses"][0], served.ready["addresses"][number]);
    }
    assert_eq!(served.ready["nqn"], drives[0]["nqn"]);
    assert_eq!(served.ready["vfio_user"][1], drives[1]["vfio_user"][0]);
    let tcp = |at: usize| {
        let (address, nqn) = (&drives[at]["addresses"][0], &drives[at]["nqn"]);
        format!("tcp://{}/{}", str_of(address), str_of(nqn))
    };
    let bus = |at: usize| format!("vfio-user:{folder}/{at}");
    // The four do not see one another: same addresses, other drives; or other addresses.
    use_all(&[bus(0), bus(1)], &["--number_ios", "600"]);
    use_all(&[tcp(0), tcp(1)], &["--number_ios", "600", "--offset", "8m"]);
    let missing = start_bench(&tcp(0).replace("bay-0", "bay-1"), &["--number_ios", "1"]);
    let missing = missing.wait_with_output().unwrap();
    assert_ne!(missing.status.code(), Some(0), "the other drive is not there");
    // Discovery names both, each where it is.
    let (first, second) = (tcp(0), tcp(1));
    let (anywhere, _) = first.rsplit_once('/').unwrap();
    let which = start_bench(anywhere, &["--number_ios", "1"]).wait_with_output().unwrap();
    let said = text(&which.stderr);
    assert_eq!(which.status.code(), Some(2), "{said}");
    assert!(said.contains("2 subsystems; name one") && said.contains(&first), "{said}");
    assert!(said.contains(&second), "{said}");
    // Figures of both, told apart.
    let mut metrics = TcpStream::connect(str_of(&served.ready["metrics"])).unwrap();
    metrics.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut page = String::new();
    metrics.read_to_string(&mut page).unwrap();
    for name in ["bay-0", "bay-1"] {
        let reads = format!("mynah_commands_total{{drive=\"{name}\",kind=\"read\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&reads));
        assert!(line.unwrap().parse::<u64>().unwrap() > 600, "{page}");
    }
    assert_eq!(page.matches("# TYPE mynah_commands_total counter").count(), 1);
    let (code, said, errors) = served.stop();
    assert_eq!(code, 0, "{said}{errors}");
    assert!(said.contains("bay-0\n") && said.contains("bay-1\n"), "{said}");
    let results: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(results["schema"], "mynah.results/1");
    for (number, result) in results["results"].as_array().unwrap().iter().enumerate() {
        assert_eq!(result["seed"], 7 + number as u64);
        assert!(result["flows"].as_array().unwrap().len() >= 2, "{}", result["flows"]);
        assert!(result["requests"].as_u64().unwrap() >= 1_200);
        assert!(result["run"]["cpu_s"].as_f64().unwrap() > 0.0);
    }
    // Each store is found again.
    let again = start(&args.concat());
    let (code, _, errors) = again.stop();
    assert_eq!(code, 0, "{errors}");
    for number in 0..2 {
        let note = format!("note: bay-{number}: {}.{number}: the bytes are as", place("bytes"));
        assert!(errors.contains(&note), "{errors}");
    }
}

/// A host that asks at either address hears of both drives.
#[test]
fn discovery_lists_all_drives() {
    let served = start(&["--name", "one", "--name", "two", "--tcp", "127.0.0.1:0"]);
    for drive in served.ready["drives"].as_array().unwrap() {
        // Without a name only the one subsystem of a target can be meant.
        let target = format!("tcp://{}", str_of(&drive["addresses"][0]));
        let output = run_bench(&target, &["--number_ios", "1"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains(":one") && said.contains(":two"), "{said}");
    }
    assert_eq!(served.stop().0, 0);
}

/// Two halves of a drive, recorded: each is to the picosecond what the smaller drive of the same
/// file does.
#[test]
fn a_shard_is_the_smaller_drive() {
    let top = tempfile::tempdir().unwrap();
    let place = |name: &str| top.path().join(name).to_str().unwrap().to_owned();
    let (folder, recording, file) = (place("bus"), place("run"), place("r.json"));
    let served = start(&[
        "--shards",
        "2",
        "--vfio-user",
        &folder,
        "--tcp",
        "127.0.0.1:0",
        "--record",
        &recording,
        "--json",
        &file,
    ]);
    let drives = served.ready["drives"].as_array().unwrap().clone();
    assert_eq!(drives[0]["nqn"], drives[1]["nqn"], "one subsystem");
    let bus = |at: usize| format!("vfio-user:{folder}/{at}");
    let load = ["--verify", "--rw", "randrw", "--size", "4m", "--iodepth", "8"];
    let more = ["--number_ios", "600", "--rwmixtrim", "5", "--fsync", "50", "--nsid"];
    // A namespace each; over TCP too.
    let children: Vec<Child> = (0..2)
        .map(|at| start_bench(&bus(at), &[&load[..], &more, &[["1", "2"][at]]].concat()))
        .collect();
    for child in children {
        assert_eq!(result(&child.wait_with_output().unwrap(), 0)["host"]["mismatched_blocks"], 0);
    }
    let nqn = str_of(&drives[1]["nqn"]);
    let second = format!("tcp://{}/{nqn}", str_of(&drives[1]["addresses"][0]));
    let output = start_bench(&second, &[&load[..], &more, &["2"]].concat()).wait_with_output();
    assert_eq!(result(&output.unwrap(), 0)["host"]["mismatched_blocks"], 0);
    let other = start_bench(&bus(0), &["--nsid", "2", "--number_ios", "1"]).wait_with_output();
    assert_ne!(other.unwrap().status.code(), Some(0), "the other shard's namespace");
    let (code, said, errors) = served.stop();
    assert_eq!(code, 0, "{said}{errors}");
    let served: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();

    let halves = [
        "geometry.channels=8",
        "firmware.cores=4",
        "queues.command_slots=32768",
        "link.bandwidth=3938461538B/s",
        "cache.size=32MiB",
    ];
    for at in 0..2 {
        let recording = format!("{recording}.{at}");
        let mut smaller = vec!["sim", "--replay", &recording, "--drive", "enterprise-tlc"];
        smaller.extend(["--json", "-"]);
        for set in SMALL[2..5].iter().filter(|set| !set.starts_with("--")).chain(&halves) {
            smaller.extend(["--set", set]);
        }
        let replayed = result(&mynah(&smaller).output().unwrap(), 0);
        let served = &served["results"][at];
        assert_eq!(replayed["drive_hash"], served["drive_hash"]);
        assert_eq!(replayed["device"]["channel_utilisation"].as_array().unwrap().len(), 8);
        assert!(replayed["requests"].as_u64().unwrap() >= 600);
        // Another drive is not the one that was recorded.
        let whole = [
            "sim",
            "--replay",
            &recording,
            "--drive",
            "enterprise-tlc",
            SMALL[1],
            SMALL[2],
            SMALL[3],
            SMALL[4],
        ];
        let refused = mynah(&whole).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    }
}

#[test]
fn what_cannot_be_served_is_said() {
    let top = tempfile::tempdir().unwrap();
    let place = |name: &str| top.path().join(name).to_str().unwrap().to_owned();
    let fail = |args: &[&str], messages: &[&str]| {
        let output = mynah(&[&SMALL, args].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        for message in messages {
            assert!(text(&output.stderr).contains(message), "{args:?}: {}", text(&output.stderr));
        }
        assert!(output.stdout.is_empty(), "{args:?}: none is ready");
    };
    let any = ["--tcp", "127.0.0.1:0"];
    fail(&["--shards", "3"], &["16 channels and 8 firmware cores cannot", "valid: 1, 2, 4, 8"]);
    fail(&["--shards", "2", "--drives", "2"], &["cannot be used with"]);
    fail(&["--drives", "0"], &["a whole number from 1 to 1024"]);
    fail(&["--drives", "3", "--name", "a", "--name", "b"], &["--drives 3 with 2 names"]);
    fail(&["--shards", "2", "--name", "a", "--name", "b"], &["several --name with --shards"]);
    fail(&["--shards", "2", "--namespace", "1GiB"], &["--namespace 1 times with --shards 2"]);
    let pairs = ["--shards", "2", "--namespace", "1GiB,kv", "--namespace", "1GiB"];
    fail(&pairs, &["cannot be divided into shards: List would have to merge"]);
    fail(&["--drives", "2", "--tcp", "127.0.0.1:65535"], &["there is no port for each"]);
    // One drive's store is bad: none is served, and its place is free again.
    std::fs::create_dir(place("bytes.1")).unwrap();
    let (bus, store) = (place("bus"), format!("file:{}", place("bytes")));
    let bad = ["--drives", "2", "--store", &store, "--vfio-user", &bus, "--precondition=none"];
    fail(&bad, &["enterprise-tlc-1 cannot be served, and so none is", "bytes.1"]);
    assert!(!Path::new(&bus).join("0/cntrl").exists());
    // One drive's folder is taken.
    let first = start(&["--vfio-user", &format!("{bus}/1"), "--precondition=none"]);
    let taken = ["--drives", "2", "--vfio-user", &bus, "--precondition=none", "--name", "x"];
    fail(&taken, &["x-1 cannot be served", "another program serves there"]);
    assert_eq!(first.stop().0, 0);
    fail(&[&any[..], &["--drives", "2", "--record", &place("none/run")]].concat(), &["none/run"]);
}

/// The processors that a process may use, and those of each thread with this name, as the system
/// lists them.
fn allowed(pid: &str, name: &str) -> Vec<String> {
    let list = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.expect("the system says").trim().to_owned()
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    threads
        .map(|thread| thread.unwrap().path())
        .filter(|thread| std::fs::read_to_string(thread.join("comm")).unwrap().trim() == name)
        .map(|thread| list(std::fs::read_to_string(thread.join("status")).unwrap()))
        .collect()
}

/// `--cpus_allowed` gives each drive's thread a processor of the list.
#[test]
fn drives_keep_to_their_processors() {
    let own = std::fs::read_to_string("/proc/self/status").expect("a status");
    let own = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    let first = own.trim().split(['-', ',']).next().expect("a processor").to_owned();
    let last = own.trim().rsplit(['-', ',']).next().expect("a processor").to_owned();
    let both = format!("{first},{last}");
    let served = start(&["--drives", "2", "--tcp", "127.0.0.1:0", "--cpus_allowed", &both]);
    // Once they answer, they are where they are to be.
    let drives = served.ready["drives"].as_array().unwrap();
    let targets = drives
        .iter()
        .map(|drive| format!("tcp://{}/{}", str_of(&drive["addresses"][0]), str_of(&drive["nqn"])));
    use_all(&targets.collect::<Vec<_>>(), &["--number_ios", "10"]);
    let pid = served.child.id().to_string();
    assert_eq!(allowed(&pid, "mynah-drive-0"), [first]);
    assert_eq!(allowed(&pid, "mynah-drive-1"), [last]);
    served.stop();
}
