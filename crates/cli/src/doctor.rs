//! `mynah doctor`: what works on this machine, and how to get the rest.

mod kvm;

use crate::args::Doctor;
use crate::failure::Failure;
use crate::print;
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Descriptors that a drive with many hosts needs.
const DESCRIPTORS: u64 = 4096;
/// Bytes of locked memory that RDMA needs, and perf's and other tracers' buffers.
const LOCKED_BYTES: u64 = 64 << 20;

/// How well something works on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Works,
    /// It works, but slower or less of it.
    Limited,
    Missing,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Works => "yes",
            State::Limited => "limited",
            State::Missing => "no",
        }
    }
}

/// Result of a check: what was found, and what would help.
struct Check {
    what: &'static str,
    state: State,
    found: String,
    help: Option<&'static str>,
}

fn works(what: &'static str, found: impl Into<String>) -> Check {
    Check { what, state: State::Works, found: found.into(), help: None }
}

fn lacks(what: &'static str, state: State, found: impl Into<String>, help: &'static str) -> Check {
    Check { what, state, found: found.into(), help: Some(help) }
}

/// Checks what works on this machine, and prints it.
pub(crate) fn run(args: &Doctor) -> Result<ExitCode, Failure> {
    let checks = [
        processors(),
        memory(),
        descriptors(),
        program("fio", "fio", "loads from fio, over NBD or a guest's disk", "Debian: fio"),
        qemu(),
        kvm::check(),
        program("nvme-cli", "nvme", "hosts of this machine's kernel", "Debian: nvme-cli"),
        kernel_host(),
        tracing(),
        nbd(),
        program("tshark", "tshark", "captures decoded", "Debian: tshark"),
        feature("TLS", cfg!(feature = "tls"), "cargo build --release --features tls"),
        rdma(),
        program("Python", "python3", "the package `mynah-ssd`", "Debian: python3"),
    ];
    if args.json {
        let all: Vec<_> = checks
            .iter()
            .map(|check| {
                json!({
                    "what": check.what,
                    "state": check.state.word(),
                    "found": check.found,
                    "help": check.help,
                })
            })
            .collect();
        print::out(&format!("{:#}\n", json!({ "checks": all })))?;
    } else {
        print::out(&text(&checks))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(checks: &[Check]) -> String {
    let mut out = String::new();
    for check in checks {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:<16} {:<8} {}", check.what, check.state.word(), check.found);
        if let Some(help) = check.help {
            let _ = writeln!(out, "{:25} {help}", "");
        }
    }
    out.push_str("Simulations need none of this. What is missing takes away only what it names.\n");
    out
}

/// A program in the path, if it is there.
fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(system);
    folders.find_map(|folder| Some(folder.join(name)).filter(|it| it.is_file()))
}

/// The first line that a program says of its version.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(60).collect())
}

fn program(what: &'static str, name: &str, for_what: &'static str, help: &'static str) -> Check {
    match which(name) {
        Some(path) => works(what, version(&path).unwrap_or_else(|| path.display().to_string())),
        None => lacks(what, State::Missing, format!("no `{name}`: {for_what}"), help),
    }
}

fn processors() -> Check {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    let found = format!("{count} for this process");
    match count {
        1 => lacks(
            "processors",
            State::Limited,
            found,
            "a served drive and its host want one each: results may not be trusted",
        ),
        _ => works("processors", found),
    }
}

fn memory() -> Check {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = setting.ok().and_then(|text| {
        let (_, rest) = text.split_once('[')?;
        rest.split_once(']').map(|(word, _)| word.to_owned())
    });
    match chosen.as_deref() {
        Some(word @ ("always" | "madvise")) => {
            works("huge pages", format!("transparent huge pages: {word}"))
        }
        _ => lacks(
            "huge pages",
            State::Limited,
            "no transparent huge pages: large drives are slower",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root",
        ),
    }
}

fn limit(resource: Resource) -> u64 {
    getrlimit(resource).current.unwrap_or(u64::MAX)
}

fn descriptors() -> Check {
    let most = limit(Resource::Nofile);
    let found = format!("up to {most} open files");
    match most {
        DESCRIPTORS.. => works("descriptors", found),
        _ => lacks(
            "descriptors",
            State::Limited,
            found,
            "ulimit -n 65536 before `mynah serve`, where there are many hosts",
        ),
    }
}

fn qemu() -> Check {
    const HELP: &str = "Debian: qemu-system-x86, 10.1 or later for vfio-user";
    let Some(path) = which("qemu-system-x86_64") else {
        return lacks("QEMU", State::Missing, "no `qemu-system-x86_64`: drives of guests", HELP);
    };
    let name = version(&path).unwrap_or_else(|| path.display().to_string());
    let devices = Command::new(&path).args(["-device", "help"]).stdin(Stdio::null()).output();
    let has_vfio_user = devices
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("vfio-user-pci"));
    match has_vfio_user {
        true => works("QEMU", format!("{name}, with vfio-user")),
        false => lacks("QEMU", State::Limited, format!("{name}, without vfio-user"), HELP),
    }
}

/// Whether this kernel has a module, or may have it.
fn has_module(name: &str) -> bool {
    Path::new("/sys/module").join(name.replace('-', "_")).exists()
        || which("modinfo").is_some_and(|modinfo| {
            let mut asked = Command::new(modinfo);
            let asked = asked.arg(name).stdout(Stdio::null()).stderr(Stdio::null());
            asked.status().is_ok_and(|status| status.success())
        })
}

fn kernel_host() -> Check {
    match has_module("nvme-tcp") {
        true => works("nvme-tcp", "this kernel can be a host (`nvme connect`, as root)"),
        false => lacks(
            "nvme-tcp",
            State::Missing,
            "this kernel has no module nvme-tcp",
            "`mynah bench`, `mynah nvme` and --nbd need no kernel module; tests/guest has a guest",
        ),
    }
}

fn tracing() -> Check {
    const HELP: &str = "mount -t tracefs tracefs /sys/kernel/tracing; then `mynah profile kernel`";
    let folder = Path::new("/sys/kernel/tracing/instances");
    let is_root = rustix::process::geteuid().is_root();
    match (is_root, folder.exists(), Path::new("/sys/kernel/btf/vmlinux").exists()) {
        (true, true, true) => works("kernel tracing", "tracefs with dynamic events, and BTF"),
        (true, true, false) => {
            lacks("kernel tracing", State::Limited, "no BTF: some fields are not seen", HELP)
        }
        (true, false, _) => lacks("kernel tracing", State::Missing, "no tracefs", HELP),
        (false, ..) => {
            lacks("kernel tracing", State::Missing, "only root may trace the kernel", HELP)
        }
    }
}

fn nbd() -> Check {
    let found: Vec<&str> = ["nbdinfo", "nbdcopy", "qemu-img", "nbd-client"]
        .into_iter()
        .filter(|it| which(it).is_some())
        .collect();
    match found.is_empty() {
        false => works("NBD clients", found.join(", ")),
        true => lacks(
            "NBD clients",
            State::Missing,
            "none: fio has an engine of its own",
            "Debian: libnbd-bin, qemu-utils, nbd-client",
        ),
    }
}

fn feature(what: &'static str, is_built: bool, help: &'static str) -> Check {
    match is_built {
        true => works(what, "built in"),
        false => lacks(what, State::Missing, "this mynah was built without it", help),
    }
}

fn rdma() -> Check {
    if !cfg!(feature = "rdma") {
        return feature("RDMA", false, "cargo build --release --features rdma");
    }
    let devices = std::fs::read_dir("/sys/class/infiniband").map_or(0, Iterator::count);
    if devices == 0 {
        let help = "rdma link add rxe0 type rxe netdev IF, as root, makes one in software";
        return lacks("RDMA", State::Missing, "no RDMA device", help);
    }
    match limit(Resource::Memlock) {
        LOCKED_BYTES.. => works("RDMA", format!("{devices} devices")),
        _ => lacks("RDMA", State::Limited, "too little memory may be locked", "ulimit -l 65536"),
    }
}
