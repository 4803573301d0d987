//! How many I/Os jobs of fio's come to, beside fio itself (`tests/data/fio/counts.txt`).

use crate::small;
use mynah_lab::experiment::{Precondition, Settle};
use mynah_lab::runner::{RunOptions, Runner};
use mynah_result::kind::Kind;
use mynah_workload::fio::FioJob;
use mynah_workload::{Amount, FlowSpec};

const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Trim];

/// The I/Os of each flow of a job file.
fn done(jobs: &str) -> Vec<[u64; 3]> {
    let text = jobs.split_whitespace().collect::<Vec<_>>().join("\n");
    let text = format!("[global]\nioengine=libaio\n{text}\n");
    let flows = FioJob::parse(jobs, &text).unwrap_or_else(|error| panic!("{error}")).flows;
    // A namespace that is not said to be smaller would be gone through once.
    assert!(flows.iter().all(ends), "{jobs}");
    let config = mynah_drive_file::load(small::DRIVE, &small::changes()).unwrap().config;
    let options = RunOptions {
        precondition: Precondition::None,
        settle: Settle::Off,
        ..RunOptions::default()
    };
    let outcome = Runner::new(config, &flows, &options).unwrap().run(|_| true).unwrap();
    let of = |flow| KINDS.map(|kind| outcome.recorder.side(flow, kind).ios);
    (0..flows.len()).map(of).collect()
}

fn ends(flow: &FlowSpec) -> bool {
    matches!(flow.limits.bytes, Some(Amount::Bytes(_) | Amount::WorkingSet(_)))
}

/// How far chance may carry a count from fio's, and all of a job's together: where nothing is drawn,
/// not at all, and where only kinds are drawn and not sizes, all together not either.
fn allowed(jobs: &str, all: u64) -> (f64, f64) {
    let several = ["bsrange", "bssplit", "4k,64k"];
    let mixed = jobs.contains("rw=rw") || jobs.contains("rw=randrw");
    match (several.iter().any(|option| jobs.contains(option)), mixed) {
        (true, _) => (0.12 * all as f64, 0.12 * all as f64),
        (false, true) => (4.0 * (all as f64).sqrt(), 0.0),
        (false, false) => (0.0, 0.0),
    }
}

#[test]
fn jobs_come_to_as_many_ios_as_under_fio() {
    let lines = include_str!("../../../../tests/data/fio/counts.txt").lines();
    let mut jobs_seen = 0;
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (jobs, counted) = line.split_once(" => ").unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let of_fio: Vec<Vec<u64>> =
            counted.split(", ").map(|job| job.split(' ').map(number).collect()).collect();
        let done = done(jobs);
        assert_eq!(done.len(), of_fio.len(), "{jobs}");
        for (here, fio) in done.iter().zip(&of_fio) {
            let all: u64 = fio.iter().sum();
            let (each, together) = allowed(jobs, all);
            for (here, fio) in here.iter().zip(fio) {
                assert!(here.abs_diff(*fio) as f64 <= each, "{jobs}: {here}, and fio {fio}");
            }
            let sum: u64 = here.iter().sum();
            assert!(sum.abs_diff(all) as f64 <= together, "{jobs}: {sum}, and fio {all}");
        }
        jobs_seen += 1;
    }
    assert!(jobs_seen >= 40);
}

/// etcd's and Ceph's test of a disk.
#[test]
fn a_flush_follows_each_write_that_is_to_be_synchronised() {
    let config = mynah_drive_file::load(small::DRIVE, &small::changes()).unwrap().config;
    for (options, flushes) in [("fdatasync=1", 256), ("fsync=32", 8), ("sync=1", 256)] {
        let text = format!("[wal]\nioengine=sync\nrw=write\nbs=4k\nsize=1m\n{options}\n");
        let flows = FioJob::parse("wal.fio", &text).unwrap().flows;
        let options = RunOptions { precondition: Precondition::None, ..RunOptions::default() };
        let outcome = Runner::new(config.clone(), &flows, &options).unwrap().run(|_| true).unwrap();
        let of = |kind| outcome.recorder.side(0, kind).ios;
        assert_eq!((of(Kind::Write), of(Kind::Flush)), (256, flushes), "{text}");
        // A flush waits for what was written to be on flash.
        assert!(outcome.counters.flash_units_programmed > 0);
    }
}

/// What the block layer holds back under fio is more than a queue holds here.
#[test]
fn more_than_a_queue_holds_is_as_much_as_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep.fio");
    let text = "[deep]\nioengine=libaio\nrw=randread\nbs=4k\nsize=8m\niodepth=4096\n";
    std::fs::write(&path, text).unwrap();
    let (simulation, warnings) = small::simulation().fio(&path).unwrap();
    let depth = simulation.config.queues.entries - 1;
    let said = warnings.iter().find(|warning| warning.contains("iodepth=4096 is "));
    assert!(said.is_some_and(|said| said.contains(&depth.to_string())), "{warnings:?}");
    assert!(simulation.run().is_ok());
}
