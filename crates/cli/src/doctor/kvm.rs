//! Whether guests run with KVM: QEMU is given a firmware of a few instructions, and has to get to its
//! end. That /dev/kvm can be opened says little: below some hypervisors no guest ever gets anywhere.

use super::{Check, State, lacks, which, works};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// What the firmware gives to the port at which QEMU ends.
const ANSWER: u8 = 0x2a;
/// QEMU's exit code then (`isa-debug-exit`).
const ANSWERED: i32 = (ANSWER as i32) << 1 | 1;
/// How long it may take, in steps.
const STEP: Duration = Duration::from_millis(20);
const STEPS: u32 = 5 * 50;

/// Bytes of the firmware, which ends at 4 GiB, and at the end of the first megabyte's last segment.
const BYTES: usize = 64 << 10;
/// Where its instructions are. They are given their own addresses below.
const CODE_AT: usize = 0xff80;
const CODE: [u8; 70] = [
    0xfa, // cli
    0x2e, 0x66, 0x0f, 0x01, 0x16, 0xc0, 0xff, // lgdtl %cs:0xffc0
    0x0f, 0x20, 0xc0, // mov %cr0, %eax
    0x0c, 0x01, // or $1, %al
    0x0f, 0x22, 0xc0, // mov %eax, %cr0: protected mode
    0x66, 0xea, 0x98, 0xff, 0xff, 0xff, 0x08, 0x00, // ljmpl $8, $0xffffff98
    0x66, 0xb8, 0x10, 0x00, // mov $16, %ax
    0x8e, 0xd8, // mov %eax, %ds
    0x66, 0xba, 0xf4, 0x00, // mov $PORT, %dx
    0xb0, ANSWER, // mov $ANSWER, %al
    0xee,   // out %al, (%dx)
    0xf4,   // hlt
    0xeb, 0xfd, // jmp to the hlt
    // At 0xffa8: a table of descriptors: none, all memory to be executed, all memory for data.
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
    0xff, 0xff, 0x00, 0x00, 0x00, 0x9a, 0xcf, 0x00, //
    0xff, 0xff, 0x00, 0x00, 0x00, 0x92, 0xcf, 0x00, //
    // At 0xffc0: its last byte, and where it is.
    0x17, 0x00, 0xa8, 0xff, 0xff, 0xff,
];
/// Offset of the reset vector in the firmware.
const RESET_AT: usize = 0xfff0;
/// A jump to [`CODE_AT`].
const RESET: [u8; 3] = [0xe9, 0x8d, 0xff];

/// A port of a debugging device of QEMU's.
const EXIT: &str = "isa-debug-exit,iobase=0xf4,iosize=1";

fn firmware() -> Vec<u8> {
    let mut bytes = vec![0xf4; BYTES];
    bytes[CODE_AT..CODE_AT + CODE.len()].copy_from_slice(&CODE);
    bytes[RESET_AT..RESET_AT + RESET.len()].copy_from_slice(&RESET);
    bytes
}

/// What was found, and what would help.
pub(super) fn check() -> Check {
    const OFF: &str = "guests are emulated (-accel tcg)";
    if let Err(error) = File::options().read(true).write(true).open("/dev/kvm") {
        let help = "where the processor has it: add yourself to the group kvm";
        return lacks("KVM", State::Limited, format!("/dev/kvm: {error}: {OFF}"), help);
    }
    let Some(qemu) = which("qemu-system-x86_64") else {
        let found = "/dev/kvm is there; without QEMU it was not tried";
        return lacks("KVM", State::Limited, found, "Debian: qemu-system-x86");
    };
    let why = match try_it(&qemu) {
        Ok(None) => return works("KVM", "QEMU ran a guest's first instructions with /dev/kvm"),
        Ok(Some(why)) => why,
        Err(error) => error.to_string(),
    };
    lacks(
        "KVM",
        State::Limited,
        format!("/dev/kvm is there, but no guest runs with it: {why}: {OFF}"),
        "in a virtual machine: nested virtualization has to be on below it",
    )
}

/// Has a guest run; why it did not.
fn try_it(qemu: &Path) -> io::Result<Option<String>> {
    // The program inherits it, and has it under this name.
    let mut file = File::from(memfd_create("firmware", MemfdFlags::empty())?);
    file.write_all(&firmware())?;
    let mut guest = Command::new(qemu)
        .args(["-accel", "kvm", "-machine", "pc", "-m", "16", "-display", "none"])
        .args(["-nodefaults", "-no-user-config", "-device", EXIT])
        .args(["-bios", &format!("/proc/self/fd/{}", file.as_raw_fd())])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    match wait(&mut guest)? {
        None => Ok(Some(format!("QEMU came to no end in {:?}", STEP * STEPS))),
        Some(status) if status.code() == Some(ANSWERED) => Ok(None),
        Some(status) => Ok(Some(last_words(&mut guest).unwrap_or_else(|| status.to_string()))),
    }
}

/// Waits until it has ended; `None` if that took too long, and then it is ended.
fn wait(guest: &mut Child) -> io::Result<Option<ExitStatus>> {
    for _ in 0..STEPS {
        if let Some(status) = guest.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(STEP);
    }
    guest.kill()?;
    guest.wait()?;
    Ok(None)
}

/// The last line that it said of what is wrong.
fn last_words(guest: &mut Child) -> Option<String> {
    let mut said = Vec::new();
    guest.stderr.take()?.take(4096).read_to_end(&mut said).ok()?;
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(120).collect())
}
