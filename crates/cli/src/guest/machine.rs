//! QEMU as a guest in lock-step needs it: what it is given, and where its parts are.

use super::archive::Archive;
use super::{suite, system};
use crate::args::Guest;
use crate::failure::Failure;
use mynah_drive_file::units::Bytes;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The guest's clock, as its library is called.
const PLUGIN: &str = "libmynah_guest_clock.so";
/// QEMU's calendar, which stands still.
const CALENDAR: &str = "libmynah_guest_calendar.so";
/// What QEMU is given so that time is what is executed and nothing else: an instruction takes 4 ns;
/// processors that sleep are not waited for; the calendar goes by the guest's time, too; and random
/// numbers are the same every time. 4-level page tables are less for the emulator to walk.
const TIME: [&str; 10] = [
    "-accel",
    "tcg,thread=single",
    "-icount",
    "shift=2,sleep=off",
    "-rtc",
    "base=2026-01-01,clock=vm",
    "-seed",
    "1",
    "-cpu",
    "max,la57=off,-rdrand,-rdseed",
];
/// What its kernel is given, so that two runs are the same. A processor that halts sleeps through time that
/// nobody counts, and addresses are not to be random. DAMON, which Debian's kernels start by themselves, clears
/// accessed bits of page tables and does not flush; whether QEMU then sets them again depends on what its
/// software TLB holds, which it resizes by the host's time.
const STEADY: &str = "idle=poll nokaslr damon_stat.enabled=0";
/// Short boots, and a console that says what goes wrong. The tests of the kernel's cryptography would
/// run for seconds in the background.
const KERNEL: &str = "console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off tsc=reliable \
                      no_timer_check audit=0 lsm= cryptomgr.notests";
const HOW_TO_BUILD: &str = "`--suite sid` makes them of Debian's packages, without privileges, as does \
                            tests/guest/build; --files DIR names others, --kernel and --initrd \
                            single ones";

/// Where a library that QEMU loads is.
fn library(name: &str) -> Result<PathBuf, Failure> {
    let of_user = std::env::var_os("MYNAH_GUEST_LIBRARIES").map(PathBuf::from);
    let here = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let beside = here.into_iter().flat_map(|it| [it.clone(), it.join("../lib")]);
    let mut places = of_user.into_iter().chain(beside).map(|folder| folder.join(name));
    places.find(|path| path.is_file()).ok_or_else(|| {
        let help = "build it with `cargo build --release -p mynah-guest-clock -p mynah-guest-calendar`; it is \
                    looked for in the folder MYNAH_GUEST_LIBRARIES, beside this program, and in ../lib";
        Failure::usage(format!("a library that QEMU needs ({name}) is not there"), Some(help))
    })
}

/// The calendar, as `LD_PRELOAD` takes it.
fn calendar() -> Result<String, Failure> {
    let path = library(CALENDAR)?.display().to_string();
    if path.contains([' ', ':']) {
        let help = "the dynamic loader takes no path with a space or a colon; copy libmynah_guest_calendar.so \
                    and libmynah_guest_clock.so elsewhere, and have MYNAH_GUEST_LIBRARIES name the folder";
        return Err(Failure::usage(format!("{path} cannot be loaded before QEMU"), Some(help)));
    }
    Ok(path)
}

/// The function, as QEMU's `-device` takes it.
fn device(socket: &str) -> String {
    serde_json::json!({
        "driver": "vfio-user-pci",
        "socket": {"type": "unix", "path": socket},
        // The guest waits for the drive at every access.
        "x-no-posted-writes": true,
    })
    .to_string()
}

/// The clock, as QEMU's `-plugin` takes it.
fn clock(socket: &str) -> Result<String, Failure> {
    // A comma in a path is doubled for QEMU.
    let plugin = library(PLUGIN)?.display().to_string().replace(',', ",,");
    Ok(format!("{plugin},socket={}", socket.replace(',', ",,")))
}

/// The QEMU options for a guest in lock-step, to be printed.
pub(crate) fn line(socket: &str, clock_socket: &str) -> Result<String, Failure> {
    Ok(format!(
        "for QEMU 11.1, with LD_PRELOAD='{}', 1 GiB of memory, and `{STEADY}` on the kernel's command line:\n  \
         -m 1G -object memory-backend-memfd,id=mem,size=1G,share=on -machine q35,memory-backend=mem {} \
         -plugin '{}' -device '{}'",
        calendar()?,
        TIME.join(" "),
        clock(clock_socket)?,
        device(socket)
    ))
}

/// The files that a guest is made of.
pub(super) struct Files {
    kernel: PathBuf,
    initrd: PathBuf,
    /// QEMU, with its loader and libraries where it is not this machine's own.
    qemu: PathBuf,
    tree: Option<PathBuf>,
}

impl Files {
    /// The files that are given, or those that are found.
    pub(super) fn of(args: &Guest) -> Result<Files, Failure> {
        let of_build =
            std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("../guest")));
        let usual = [Some(PathBuf::from("target/guest")), of_build];
        let folder = match (&args.files, &args.suite) {
            (Some(folder), _) => Some(folder.clone()),
            (None, Some(suite)) => Some(suite::files(suite)?),
            (None, None) => usual.into_iter().flatten().find(|it| it.join("vmlinux").is_file()),
        };
        let part = |given: &Option<PathBuf>, name: &str, option: &str| {
            let path = given.clone().or_else(|| Some(folder.as_ref()?.join(name)));
            let message = match &path {
                Some(path) if path.is_file() => return Ok(path.clone()),
                Some(path) => format!("{option}: {} is not there", path.display()),
                None => format!("{option}: there are no files of a guest here"),
            };
            Err(Failure::usage(message, Some(HOW_TO_BUILD)))
        };
        let kernel = part(&args.kernel, "vmlinux", "--kernel")?;
        let initrd = part(&args.initrd, "initrd.img", "--initrd")?;
        let tree = folder.map(|it| it.join("tree"));
        let tree = tree.filter(|it| it.join("usr/bin/qemu-system-x86_64").is_file());
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let (qemu, tree) = match (&args.qemu, tree.map(absolute)) {
            (Some(qemu), _) => (qemu.clone(), None),
            (None, Some(tree)) => (tree.join("usr/bin/qemu-system-x86_64"), Some(tree)),
            (None, None) => (PathBuf::from("qemu-system-x86_64"), None),
        };
        Ok(Files { kernel, initrd, qemu, tree })
    }

    /// Writes the initial file system with the command in it.
    pub(super) fn write_initrd(&self, to: &Path, args: &Guest) -> Result<(), Failure> {
        let mut archive = Archive::default();
        archive.folder("job");
        archive.file("job/run", script(&args.command).as_bytes());
        for file in &args.file {
            let unreadable = |error: io::Error| {
                Failure::usage(format!("--file {}: {error}", file.display()), None)
            };
            let name = file.file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| *name != "run") else {
                let help = "the command itself is /job/run";
                let message = format!("--file {}: it cannot be called that", file.display());
                return Err(Failure::usage(message, Some(help)));
            };
            archive.file(&format!("job/{name}"), &fs::read(file).map_err(unreadable)?);
        }
        let unreadable = |error: io::Error| {
            Failure::usage(format!("--initrd {}: {error}", self.initrd.display()), None)
        };
        let mut from = File::open(&self.initrd).map_err(unreadable)?;
        let mut out = File::create(to).map_err(system)?;
        let bytes = io::copy(&mut from, &mut out).map_err(system)?;
        // Each archive begins at a multiple of four bytes.
        out.write_all(&[0; 4][..(bytes.wrapping_neg() % 4) as usize]).map_err(system)?;
        out.write_all(&archive.finish()).map_err(system)
    }

    /// The program, and its loader where it has one of its own.
    fn program(&self) -> Command {
        let Some(tree) = &self.tree else { return Command::new(&self.qemu) };
        let libraries = tree.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(tree.join("lib64/ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(&libraries).arg(&self.qemu);
        command.arg("-L").arg(tree.join("usr/share/qemu"));
        command.arg("-L").arg(tree.join("usr/share/seabios"));
        command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
        command
    }
}

/// What the guest executes: one text is for its shell, several words are a program and its arguments.
fn script(words: &[String]) -> String {
    match words {
        [text] => format!("#!/bin/sh\n{text}\n"),
        words => {
            let quoted: Vec<String> =
                words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
            format!("#!/bin/sh\nexec {}\n", quoted.join(" "))
        }
    }
}

/// QEMU, as it is to be started.
pub(super) struct Machine {
    command: Command,
}

impl Machine {
    /// The machine of these files, whose sockets and output are in `folder`.
    pub(super) fn new(files: &Files, args: &Guest, folder: &Path) -> Result<Machine, Failure> {
        let wrong = |error| Failure::usage(format!("--memory {}: {error}", args.memory), None);
        let Bytes(bytes) = args.memory.parse().map_err(wrong)?;
        if bytes < 256 << 20 {
            let message = format!("--memory {}: too little", args.memory);
            let help = "the kernel and its initial file system take 256MiB at least";
            return Err(Failure::usage(message, Some(help)));
        }
        let megabytes = bytes >> 20;
        let path = |name: &str| folder.join(name).display().to_string();
        // A comma in a path is doubled for QEMU.
        let file = |name: &str| format!("path={}", path(name).replace(',', ",,"));
        let mut command = files.program();
        command.args(TIME).args([
            "-no-user-config",
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
        ]);
        command.args(["-machine", "q35,vmport=off,usb=off,smbus=off,memory-backend=mem"]);
        command.args(["-smp", &args.processors.to_string(), "-m", &format!("{megabytes}M")]);
        let memory = format!("memory-backend-memfd,id=mem,size={megabytes}M,share=on");
        command.args(["-object", &memory]);
        command.arg("-kernel").arg(&files.kernel).args(["-initrd", &path("initrd")]);
        let mut words = vec![KERNEL, STEADY];
        words.extend(args.append.iter().map(String::as_str));
        command.args(["-append", &words.join(" ")]);
        command.args(["-serial", &format!("file:{}", path("console"))]);
        // Without event descriptors: those would be dealt with beside the guest, at any time.
        command.args(["-device", "virtio-serial-pci,ioeventfd=off"]);
        for (id, port) in [("out", "job.out"), ("status", "job.status")] {
            command.args(["-device", &format!("virtserialport,chardev={id},name={port}")]);
            command.args(["-chardev", &format!("file,id={id},{}", file(id))]);
        }
        command.args(["-plugin", &clock(&path("clock"))?, "-device", &device(&path("cntrl"))]);
        command.env("LD_PRELOAD", calendar()?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(Machine { command })
    }

    /// Starts QEMU.
    pub(super) fn start(mut self) -> Result<Child, Failure> {
        self.command.spawn().map_err(|error| {
            let program = self.command.get_program().display().to_string();
            let help = "install QEMU 11.1 (Debian: qemu-system-x86), or run tests/guest/build; --qemu \
                        says where it is";
            Failure::failed(format!("{program} cannot be started: {error}"), Some(help))
        })
    }
}

/// What the guest's clock says of how QEMU was started.
pub(super) fn warnings(errors: &str) -> impl Iterator<Item = &str> {
    errors.lines().filter_map(|line| line.strip_prefix("mynah-guest-clock: warning: "))
}

/// What is to be said of a QEMU that did not start, and what may help.
pub(super) fn complaint(errors: &str) -> (String, Option<&'static str>) {
    let lines: Vec<&str> = errors.lines().filter(|line| !line.trim().is_empty()).collect();
    let of = |text: &str| lines.iter().find(|line| line.contains(text));
    if let Some(line) = of("API version") {
        let help = "the guest's clock is built for QEMU 11.1 (version 7 of its plugin interface); for \
                    an older QEMU build it with MYNAH_QEMU_PLUGIN_API=4, 5 or 6";
        return ((*line).to_owned(), Some(help));
    }
    if of("-plugin").or_else(|| of("plugin interface not enabled")).is_some() {
        let help = "Debian's QEMU has plugins; --qemu names another program";
        return ("it was built without plugins (--enable-plugins)".to_owned(), Some(help));
    }
    if of("vfio-user-pci").is_some() && of("not a valid device model name").is_some() {
        let text = "it has no vfio-user-pci, which came with version 10.1".to_owned();
        return (text, Some("Debian sid and forky have a newer one; --qemu names another program"));
    }
    let last = lines.last().map_or("it ended without a word", |line| *line);
    (last.to_owned(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_reach_the_shell_as_they_were_given() {
        let words =
            |all: &[&str]| script(&all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["a | b"]), "#!/bin/sh\na | b\n");
        assert_eq!(words(&["echo", "it's", "$x"]), "#!/bin/sh\nexec 'echo' 'it'\\''s' '$x'\n");
    }

    #[test]
    fn what_qemu_lacks_is_said_in_a_sentence() {
        for (said, expected) in [
            ("qemu: -plugin: invalid option", "without plugins"),
            ("qemu: plugin interface not enabled in this build", "without plugins"),
            (
                "qemu: could not load plugin x: plugin requires API version 7, but this QEMU supports \
                 only a minimum version of 8",
                "minimum version of 8",
            ),
            (
                "qemu: -device {\"driver\":\"vfio-user-pci\"}: 'vfio-user-pci' is not a valid device \
                 model name",
                "10.1",
            ),
            ("qemu: something else\n", "something else"),
            ("", "without a word"),
        ] {
            let (what, _) = complaint(said);
            assert!(what.contains(expected), "{said}: {what}");
        }
    }
}
