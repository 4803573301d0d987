//! `mynah bench` on files of this machine, and on NBD exports: everything that is written comes back, and what
//! would destroy something or makes no sense there is refused.

use crate::serving::support::*;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file with bytes in it, on a file system with O_DIRECT: that of the target folder. `None`: it has none,
/// so there is nothing to test.
fn file(bytes: u64) -> Option<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    let noise: Vec<u8> = (0..bytes).map(|at| ((at * 7) >> 3) as u8 | 1).collect();
    file.write_all(&noise).expect("room");
    file.as_file().sync_all().expect("room");
    let output = run_bench(&name(file.path()), &["--number_ios", "1"]);
    let errors = text(&output.stderr);
    if errors.contains("O_DIRECT") || errors.contains("in memory") {
        eprintln!("not tested: {errors}");
        return None;
    }
    result(&output, 0);
    Some(file)
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn bytes_of(file: &File) -> Vec<u8> {
    let (mut file, mut bytes) = (file, Vec::new());
    file.seek(SeekFrom::Start(0)).expect("it is there");
    file.read_to_end(&mut bytes).expect("it is there");
    bytes
}

/// What a load says that is refused.
fn refused(target: &str, args: &[&str]) -> String {
    let output = run_bench(target, args);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{target} {args:?}: {errors}");
    errors.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_written_to_a_file_comes_back_and_its_size_stays() {
    // No multiple of a block: the rest is nobody's.
    let size = (8 << 20) + 100;
    let Some(file) = file(size) else { return };
    let target = name(file.path());
    let before = bytes_of(file.as_file());
    for load in [
        &["--bssplit", "4k/70:64k/30", "--rwmixtrim", "10", "--iodepth", "16", "--fsync", "20"][..],
        &["--bs", "4k", "--numjobs", "3", "--iodepth", "8"],
        &["--bs", "8k", "--rate_iops", "2000", "--sync"],
    ] {
        let common = ["--rw", "randrw", "--verify", "--number_ios", "300", "--destroy", &target];
        let output = run_bench(&target, &[&common, load].concat());
        let result = result(&output, 0);
        let host = &result["host"];
        assert!(host["checked_blocks"].as_u64().unwrap() > 0, "{load:?}: {host}");
        assert_eq!((&host["failed"], &host["unknown"]), (&0.into(), &0.into()), "{load:?}");
        assert_eq!(host["target"], target);
        assert!(str_of(&result["drive"]).contains("O_DIRECT"), "{}", result["drive"]);
    }
    let after = bytes_of(file.as_file());
    assert_eq!((after.len(), file.as_file().metadata().unwrap().size()), (before.len(), size));
    assert_ne!(after, before);
    assert_eq!(after[8 << 20..], before[8 << 20..]);
    // Reads alone change nothing.
    let output = run_bench(&target, &["--rw", "randread", "--number_ios", "200", "--iodepth", "8"]);
    let result = result(&output, 0);
    assert_eq!(result["flows"][0]["read"]["ios"], 200);
    assert_eq!(bytes_of(file.as_file()), after);
}

#[test]
fn nothing_is_written_that_was_not_named_twice() {
    let Some(file) = file(1 << 20) else { return };
    let (target, before) = (name(file.path()), bytes_of(file.as_file()));
    for rw in ["randwrite", "rw", "randtrim"] {
        let said = refused(&target, &["--rw", rw]);
        assert!(said.contains("would be lost") && said.contains("--destroy"), "{said}");
        assert!(refused(&target, &["--rw", rw, "--destroy", "/dev/sda"]).contains("is not what"));
    }
    assert!(refused(&target, &["--destroy", &target]).contains("nothing is written"));
    let jobs = tempfile::NamedTempFile::with_suffix(".fio").expect("a file");
    std::fs::write(jobs.path(), "[a]\nrw=randwrite\nbs=4k\nnumber_ios=4\n").expect("room");
    let said = refused(&target, &["--fio", &name(jobs.path())]);
    assert!(said.contains("would be lost"), "{said}");
    assert_eq!(bytes_of(file.as_file()), before);
}

#[test]
fn what_only_nvme_has_is_refused_by_name() {
    let Some(file) = file(1 << 20) else { return };
    for target in [&name(file.path()), "nbd:unix:/nobody"] {
        for option in [
            &["--nsid", "1"][..],
            &["--kv", "ycsb-b"],
            &["--host-nqn", "nqn.2026-01.org.example:a"],
            &["--header-digest"],
            &["--data-digest"],
            &["--interrupts"],
            &["--keep-alive", "1s"],
            &["--queue-size", "64"],
            &["--profile"],
        ] {
            let said = refused(target, option);
            assert!(said.contains(&format!("{} has no effect on", option[0])), "{said}");
        }
    }
    assert!(refused(&name(file.path()), &["--wait", "1s"]).contains("--wait has no effect on"));
    assert!(refused("nbd:unix:/nobody", &["--destroy", "x"]).contains("--destroy has no effect"));
    assert!(refused("nbd:nowhere", &[]).contains("HOST:PORT"));
    assert!(refused("/dev/null", &[]).contains("a character device"));
    assert!(refused("/", &[]).contains("a folder"));
    let odd = refused(&name(file.path()), &["--bs", "5k", "--blockalign", "100"]);
    assert!(odd.contains("--blockalign") || odd.contains("multiple"), "{odd}");
}

#[test]
fn what_is_written_to_an_nbd_export_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("drive.sock");
    let small = ["--set", "geometry.blocks_per_plane=48", "--set", "over_provisioning=20%"];
    let local = format!("unix:{}", socket.display());
    let serve =
        ["--precondition", "none", "--speed", "max", "--nbd", &local, "--nbd", "127.0.0.1:0"];
    let drive = Served::start(mynah(&["serve"]).args(small).args(serve));
    let targets = [format!("nbd:{local}"), format!("{}/1", str_of(&drive.ready["nbd"][1]))];
    for target in &targets {
        for load in [
            &["--bssplit", "512/30:4k/50:64k/20", "--rwmixtrim", "5", "--iodepth", "16"][..],
            &["--bs", "4k", "--numjobs", "3", "--iodepth", "8", "--fsync", "50"],
            &["--bs", "1m", "--iodepth", "4", "--sync"],
        ] {
            let common = ["--rw", "randrw", "--verify", "--size", "8m", "--number_ios", "200"];
            let output = run_bench(target, &[&common, load].concat());
            let result = result(&output, 0);
            let host = &result["host"];
            assert!(host["checked_blocks"].as_u64().unwrap() > 0, "{load:?}: {host}");
            assert_eq!((&host["failed"], &host["unknown"]), (&0.into(), &0.into()), "{load:?}");
            assert!(str_of(&host["target"]).starts_with("nbd"), "{host}");
        }
    }
    let said = refused(&format!("nbd:{local}:nobody"), &[]);
    assert!(said.contains("no export `nobody`") && said.contains("there are: 1"), "{said}");
    let said = refused(&targets[0], &["--bs", "100"]);
    assert!(said.contains("--bs"), "{said}");
    let (code, _, errors) = drive.stop();
    assert_eq!(code, 0, "{errors}");
}
