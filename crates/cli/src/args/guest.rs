//! The options of `mynah guest`.

use super::{DriveArgs, whole};
use clap::{Args, ValueHint};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  mynah guest --suite sid -- uname -a          QEMU, a kernel and programs, from Debian's packages
  mynah guest --drive samsung-970-pro --namespace 1GiB -- fio --name=a --filename=/dev/nvme0n1 \\
      --direct=1 --rw=randread --bs=4k --iodepth=1 --ioengine=io_uring --number_ios=100
  mynah guest --record run.rec --json run.json -- sh -c 'mkfs.ext4 -q /dev/nvme0n1 && echo made'
  mynah sim --replay run.rec                   the drive's part again, without the guest

Every run of the same is the same, unless it has several processors: what the command prints, what
the guest executes, what the drive is asked and when. The exit code is the command's, or 1 if guest or drive failed; see
docs/full-system.md.";

/// `mynah guest`.
#[derive(Args)]
pub(crate) struct Guest {
    #[command(flatten)]
    pub(crate) drive: DriveArgs,
    /// Seed of the drive [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// A namespace, with blocks of 512 or 4096 bytes; may be repeated [default: one over the whole
    /// drive, 512]
    #[arg(long, value_name = "SIZE[,512|4096]")]
    pub(crate) namespace: Vec<String>,
    /// The guest's files, as tests/guest/build makes them: vmlinux, initrd.img, and QEMU in tree/
    /// [default: target/guest, here or where this program was built]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) files: Option<PathBuf>,
    /// Make the guest's files of this Debian suite's packages, if that was not done before: sid has a
    /// QEMU with all that it takes. They are kept in ~/.cache/mynah/guest
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    pub(crate) suite: Option<String>,
    /// A kernel, as bzImage or with a PVH entry [default: that of the files]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kernel: Option<PathBuf>,
    /// An initial RAM file system whose /init runs /job/run and writes to the virtio port job.out, and
    /// the exit status to job.status [default: that of the files]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) initrd: Option<PathBuf>,
    /// QEMU, with plugins [default: that of the files, or qemu-system-x86_64]
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath)]
    pub(crate) qemu: Option<PathBuf>,
    /// More words for the kernel's command line; may be repeated
    #[arg(long, value_name = "WORDS")]
    pub(crate) append: Vec<String>,
    /// A file for the command, which finds it in its folder; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Vec<PathBuf>,
    /// Processors of the guest, 1 to 64. QEMU executes them in turns, and with more than one no two runs
    /// are the same
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole::<u32>(1..=64))]
    pub(crate) processors: u32,
    /// Memory of the guest
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) memory: String,
    /// So long the guest runs without the drive, if nothing happens there. No result depends on it
    /// [default: 1ms]
    #[arg(long, value_name = "TIME")]
    pub(crate) quantum: Option<String>,
    /// Record everything that goes into the drive, for sim --replay and compare
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    /// Write what the guest's kernel says on its console there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) console: Option<PathBuf>,
    /// Write the result as JSON at the end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    /// Show all stages, waits and devices, the slowest I/Os and a histogram of latencies, too
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Print what the command prints, and no summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// What the guest does: a program and its arguments, or one text for its shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
