//! The shipped drives beside what was published of the drives that they are named after.
//!
//! `cargo test -p mynah-lab --test validation_drives -- --nocapture` prints the table of
//! `docs/drives.md`. Writes are those of a drive that was filled once; random writes at rest
//! are not among the figures.

use mynah_lab::drive;
use mynah_lab::experiment::Precondition;
use mynah_lab::recorder::Kind;
use mynah_lab::runner::{RunOptions, Runner};
use mynah_lab::workload::FlowOptions;

/// What is measured.
#[derive(Clone, Copy)]
enum Figure {
    /// Mean latency in microseconds.
    Latency,
    /// Thousands of requests a second.
    Kiops,
    /// Megabytes a second.
    Megabytes,
}

struct Row {
    drive: &'static str,
    what: &'static str,
    options: &'static [(&'static str, &'static str)],
    figure: Figure,
    /// What was published, from and to.
    published: [f64; 2],
}

const READ_1: &[(&str, &str)] =
    &[("rw", "randread"), ("bs", "4k"), ("iodepth", "1"), ("number_ios", "4000")];
const READ_16: &[(&str, &str)] =
    &[("rw", "randread"), ("bs", "4k"), ("iodepth", "16"), ("number_ios", "60000")];
const READ_32: &[(&str, &str)] =
    &[("rw", "randread"), ("bs", "4k"), ("iodepth", "32"), ("number_ios", "30000")];
const READ_256: &[(&str, &str)] =
    &[("rw", "randread"), ("bs", "4k"), ("iodepth", "256"), ("number_ios", "100000")];
const WRITE_1: &[(&str, &str)] =
    &[("rw", "randwrite"), ("bs", "4k"), ("iodepth", "1"), ("number_ios", "4000")];
const WRITE_16: &[(&str, &str)] =
    &[("rw", "randwrite"), ("bs", "4k"), ("iodepth", "16"), ("number_ios", "60000")];
const SEQUENTIAL: &[(&str, &str)] =
    &[("rw", "read"), ("bs", "128k"), ("iodepth", "32"), ("number_ios", "10000")];
const SEQUENTIAL_WRITES: &[(&str, &str)] =
    &[("rw", "write"), ("bs", "128k"), ("iodepth", "32"), ("number_ios", "40000")];

const fn row(
    drive: &'static str,
    what: &'static str,
    options: &'static [(&'static str, &'static str)],
    figure: Figure,
    published: [f64; 2],
) -> Row {
    Row { drive, what, options, figure, published }
}

const ROWS: &[Row] = &[
    row("optane-p4800x", "read, QD 1, us", READ_1, Figure::Latency, [8.9, 8.9]),
    row("optane-p4800x", "read, QD 16, kIOPS", READ_16, Figure::Kiops, [584.8, 584.8]),
    row("optane-p4800x", "write, QD 1, us", WRITE_1, Figure::Latency, [8.0, 10.0]),
    row("optane-p4800x", "write, QD 16, kIOPS", WRITE_16, Figure::Kiops, [500.0, 500.0]),
    row("optane-p4800x", "read 128k, MB/s", SEQUENTIAL, Figure::Megabytes, [2400.0, 2400.0]),
    row("z-nand-sz985", "read, QD 1, us", READ_1, Figure::Latency, [12.0, 20.0]),
    row("z-nand-sz985", "read, QD 256, kIOPS", READ_256, Figure::Kiops, [750.0, 750.0]),
    row("z-nand-sz985", "write, QD 1, us", WRITE_1, Figure::Latency, [16.0, 16.0]),
    row("z-nand-sz985", "read 128k, MB/s", SEQUENTIAL, Figure::Megabytes, [3200.0, 3200.0]),
    row("qlc-p4320", "read, QD 256, kIOPS", READ_256, Figure::Kiops, [427.0, 427.0]),
    row("qlc-p4320", "read 128k, MB/s", SEQUENTIAL, Figure::Megabytes, [3200.0, 3200.0]),
    row("qlc-p4320", "write 128k, MB/s", SEQUENTIAL_WRITES, Figure::Megabytes, [1000.0, 1000.0]),
    row("sata-850-pro", "read, QD 1, us", READ_1, Figure::Latency, [100.0, 100.0]),
    row("sata-850-pro", "read, QD 32, kIOPS", READ_32, Figure::Kiops, [100.0, 100.0]),
    row("sata-850-pro", "read 128k, MB/s", SEQUENTIAL, Figure::Megabytes, [551.4, 551.4]),
    row("samsung-pm9a3", "read, QD 256, kIOPS", READ_256, Figure::Kiops, [900.0, 900.0]),
    row("samsung-pm9a3", "read 128k, MB/s", SEQUENTIAL, Figure::Megabytes, [6500.0, 6500.0]),
];

fn measure(row: &Row) -> f64 {
    let path = format!("{}/../../drives/{}.toml", env!("CARGO_MANIFEST_DIR"), row.drive);
    let file = drive::load(&path, &[]).unwrap_or_else(|error| panic!("{error:?}"));
    let mut options = FlowOptions::default();
    for (name, value) in row.options {
        assert!(options.set(name, *value), "{name}");
    }
    let flow = options.flow("flow").unwrap();
    let options = RunOptions { precondition: Precondition::Fill, ..RunOptions::default() };
    let outcome = Runner::new(file.config, &[flow], &options).unwrap().run(|_| true).unwrap();
    let recorder = &outcome.recorder;
    let (seconds, done) = (recorder.interval().as_secs_f64(), recorder.completions() as f64);
    match row.figure {
        Figure::Latency => {
            let kind = if row.what.starts_with("read") { Kind::Read } else { Kind::Write };
            recorder.latencies(0, kind).unwrap().mean_ns().unwrap() / 1e3
        }
        Figure::Kiops => done / seconds / 1e3,
        Figure::Megabytes => done * 131_072.0 / seconds / 1e6,
    }
}

#[test]
fn drives_do_what_was_published_of_them() {
    println!("| drive | figure | published | here | |\n|---|---|---|---|---|");
    let mut far = vec![];
    for row in ROWS {
        let measured = measure(row);
        let [from, to] = row.published;
        let off = match measured {
            measured if measured < from => measured / from - 1.0,
            measured if measured > to => measured / to - 1.0,
            _ => 0.0,
        };
        let published = if from == to { format!("{to}") } else { format!("{from} to {to}") };
        println!(
            "| {} | {} | {published} | {measured:.1} | {:+.1} % |",
            row.drive,
            row.what,
            off * 100.0
        );
        if off.abs() > 0.1 {
            far.push(format!("{}, {}: {measured:.1}", row.drive, row.what));
        }
    }
    assert!(far.is_empty(), "more than 10 % off: {far:?}");
}
