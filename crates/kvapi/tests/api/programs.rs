//! C programs against the header and the shared object, as a user builds them.

use mynah_lab::emulation::Emulation;
use mynah_runtime::group::{Group, Plan, Up};
use mynah_runtime::host::Options;
use mynah_runtime::host::key_value::{Client, Keys, Needs, Request};
use mynah_runtime::host::load::Where;
use mynah_runtime::server::{Namespace, NamespaceContent, ServeOptions};
use mynah_wire::nvme::command::StoreCondition;
use mynah_wire::nvme::key::Key;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Where the shared object is that belongs to this test.
fn library_folder() -> PathBuf {
    let here = std::env::current_exe().expect("the test is a program");
    let folder = here.parent().expect("it is in a folder");
    for folder in [folder, folder.parent().unwrap_or(folder)] {
        if folder.join("libmynahkv.so").exists() {
            return folder.to_owned();
        }
    }
    panic!("libmynahkv.so is not beside {}", here.display());
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// Compiles a program with a compiler and its options.
fn compile(folder: &TempDir, name: &str, compiler: &[&str]) -> PathBuf {
    let program = folder.path().join(name.replace('.', "_"));
    let library = library_folder();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let output = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation"])
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&program)
        .arg(source(name))
        .arg("-L")
        .arg(&library)
        .args(["-lmynahkv", "-lpthread"])
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .output()
        .expect("there is a compiler");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

const C: &[&str] = &["cc", "-std=c11", "-D_GNU_SOURCE"];

/// A program with the library that belongs to this test: cargo's own path may lead to another one,
/// that was built before.
fn with_library(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Runs a program with arguments.
fn start(program: &Path, arguments: &[&str]) {
    let output = with_library(program).args(arguments).output().expect("it runs");
    assert!(
        output.status.success(),
        "{} {arguments:?}: {:?} {}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

const CPP: &[&str] = &["c++", "-x", "c++", "-std=c++11"];
/// Drives in this process: at once, and with the time of the model, a thousand times as fast.
const DEVICES: [&str; 3] = ["/dev/kvemul", "mynah:kv-tlc", "mynah:kv-tlc,speed=1000"];

fn run_on_all(name: &str) {
    let folder = TempDir::new().expect("there is room");
    let program = compile(&folder, name, C);
    for device in DEVICES {
        start(&program, &[device]);
    }
}

#[test]
fn calls_that_wait() {
    run_on_all("sync.c");
}

#[test]
fn other_drives_can_have_pairs_too() {
    let folder = TempDir::new().expect("there is room");
    let program = compile(&folder, "sync.c", C);
    for device in ["mynah:enterprise-tlc", "mynah:moke", "mynah:moke,speed=1000"] {
        start(&program, &[device]);
    }
}

#[test]
fn calls_that_do_not_wait() {
    run_on_all("async.c");
}

#[test]
fn key_spaces() {
    run_on_all("spaces.c");
}

#[test]
fn iterators_and_groups() {
    run_on_all("iterators.c");
}

#[test]
fn what_programs_do_wrong() {
    run_on_all("errors.c");
}

/// Key spaces and pairs in a folder: whatever they are used with, at once or with the time of the model,
/// and whether the program that used them last has ended well.
#[test]
fn pairs_that_outlive_their_program() {
    let folder = TempDir::new().expect("there is room");
    let program = compile(&folder, "kept.c", C);
    let kept = folder.path().join("pairs").display().to_string();
    let device = |more: &str| format!("mynah:kv-tlc,store={kept}{more}");
    let (at_once, modelled) = (device(""), device(",speed=1000"));
    start(&program, &["fill", &at_once]);
    for device in [&at_once, &modelled, &at_once] {
        start(&program, &["check", device]);
    }
    for device in [&at_once, &modelled] {
        let ended = with_library(&program).args(["kill", device]).output().expect("it runs");
        assert_eq!(ended.status.code(), None, "{}", String::from_utf8_lossy(&ended.stderr));
        start(&program, &["look", device]);
    }
    // What is no such folder is refused.
    std::fs::write(folder.path().join("pairs/letter"), "x").expect("it can be written");
    let refused = with_library(&program).args(["look", &at_once]).output().expect("it runs");
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("`letter` does not belong there"), "{said}");
}

#[test]
fn layouts_are_those_of_openmpdk_in_c_and_cpp() {
    let folder = TempDir::new().expect("there is room");
    compile(&folder, "layout.c", C);
    compile(&folder, "layout.c", CPP);
}

/// Serves a small key-value drive at once, over TCP and vfio-user, while `work` is at work.
fn served(work: impl FnOnce(&Up, &Path)) {
    let folder = TempDir::new().expect("there is room");
    let small = ["geometry.blocks_per_plane=32", "geometry.channels=2", "over_provisioning=50%"];
    let emulation = Emulation::on("enterprise-tlc", &small.map(String::from)).expect("a drive");
    let content = NamespaceContent::Pairs;
    let options = ServeOptions {
        name: Some("test".into()),
        functional: true,
        namespaces: vec![Namespace { bytes: None, content, handles: vec![] }],
        vfio_user: vec![folder.path().to_owned()],
        ..ServeOptions::default()
    };
    let plan = Plan {
        name: "test".into(),
        emulation,
        options,
        record: None,
        status: None,
        complain: |problem| eprintln!("{problem}"),
        alarm: |problem| eprintln!("{problem}"),
    };
    let group = Group::start(vec![plan]).expect("it can be served");
    let up = group.drives().next().expect("one").clone();
    let serving = std::thread::spawn(|| group.serve());
    work(&up, folder.path());
    up.control.stop();
    for result in serving.join().expect("it ends in order") {
        result.expect("it was served");
    }
}

/// Another host of the served namespace.
fn client(up: &Up) -> Client {
    let seconds = Duration::from_secs(30);
    let (address, nqn) = (up.addresses[0].to_string(), up.nqn.clone());
    let place = Where::Tcp(Box::new(Options::plain(address, nqn, Duration::ZERO, seconds)));
    let needs = Needs { requests: 1, bytes: None };
    Client::connect(&place, None, needs, seconds).expect("it connects")
}

#[test]
fn a_served_namespace_over_both_transports() {
    served(|up, folder| {
        let tcp = format!("tcp://{}/{}", up.addresses[0], up.nqn);
        let found = format!("tcp://{},nsid=1", up.addresses[0]);
        let vfio_user = format!("vfio-user:{}", folder.display());
        let programs = TempDir::new().expect("there is room");
        for name in ["sync.c", "async.c", "iterators.c", "errors.c"] {
            let program = compile(&programs, name, C);
            start(&program, &[&tcp]);
            // What a program leaves behind is taken away.
            clear(up);
            start(&program, &[&vfio_user]);
            clear(up);
        }
        let program = compile(&programs, "served.c", C);
        let key = |text: &[u8]| Key::new(text).expect("it is short");
        let (value, condition) = (b"its value".to_vec(), StoreCondition::Always);
        let mut other = client(up);
        let store = Request::Store { key: key(b"of another host"), value, condition };
        other.perform(store).and_then(|done| done.succeeded()).expect("it is stored");
        start(&program, &[&found, "first"]);
        let kept = Request::Retrieve { key: key(b"sixteen bytes ok"), bytes: 100 };
        let kept = other.perform(kept).and_then(|done| done.succeeded()).expect("it is there");
        assert_eq!(kept.data, b"value");
        start(&program, &[&vfio_user, "again"]);
        assert_eq!(all_keys(&mut other), []);
        other.close();
    });
}

fn all_keys(client: &mut Client) -> Vec<Key> {
    let mut keys = Keys::new(client, Key::EMPTY);
    let mut all = Vec::new();
    while let Some(page) = keys.next_page(client).expect("it says") {
        all.extend(page);
    }
    all
}

fn clear(up: &Up) {
    let mut client = client(up);
    for key in all_keys(&mut client) {
        client.perform(Request::Delete(key)).expect("it is there");
    }
    client.close();
}
