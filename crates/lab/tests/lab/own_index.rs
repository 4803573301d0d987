//! An index of keys from outside: the example, and what is refused.

#[path = "../../examples/own_index.rs"]
mod example;

use example::{Row, TWO_CHOICE};
use mynah_lab::{Precondition, Simulation};
use std::path::Path;

fn row<'a>(rows: &'a [Row], kind: &str) -> &'a Row {
    rows.iter().find(|row| row.kind == kind).expect("it ran")
}

#[test]
fn the_example_costs_what_it_looks_at() {
    let number = 4000;
    let flow = |misses| {
        format!(
            "kv=retrieve keys=240k value_size=100 iodepth=4 number_ios={number} misses={misses}"
        )
    };
    let found = example::compare(&flow(0)).unwrap();
    let missed = example::compare(&flow(100)).unwrap();
    for (rows, own_reads) in [(&found, 1.0), (&missed, 0.0)] {
        for row in rows {
            // A read for each look that did not find its page in DRAM, and one for the pair; but for
            // those that wait for a page that is being read.
            let looks = row.lookups as f64 / f64::from(number);
            let expected = looks * (1.0 - row.hit_ratio) + own_reads;
            assert!(
                (0.0..0.04).contains(&(expected - row.reads_per_retrieve)),
                "{row:?}, not {expected}"
            );
        }
    }
    // 1,928 of 2,048 entries to a page at 95 %; 32 pages of DRAM.
    let own = row(&found, "two-choice");
    assert_eq!(own.pages, 262_144u64.div_ceil(1945));
    assert!((own.hit_ratio - 32.0 / own.pages as f64).abs() < 0.03, "{own:?}");
    // A key is in its first page or in its second; one that is not there is looked for in both.
    assert!((1.2..1.5).contains(&(own.lookups as f64 / f64::from(number))), "{own:?}");
    assert_eq!(row(&missed, "two-choice").lookups, 2 * number as u64);
    assert_eq!(row(&missed, "dynamic-hash").lookups, number as u64);
}

#[test]
fn the_example_goes_on_from_a_saved_state() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let on = || {
        let small =
            ["geometry.channels=2", "geometry.blocks_per_plane=40", "over_provisioning=30%"];
        let small: Vec<String> = small.iter().map(|set| set.to_string()).collect();
        let simulation = Simulation::on_changed("kv-tlc", &small).unwrap();
        simulation.key_index(&TWO_CHOICE).unwrap().precondition(Precondition::None)
    };
    let mut stores = on().flow("it", "kv=store keys=5k value_size=100 number_ios=5000").unwrap();
    stores.save_state = Some(state.clone());
    assert_eq!(stores.run().unwrap().result.untrusted, None);
    let mut reads = on().flow("it", "kv=retrieve keys=5k value_size=100 number_ios=2000").unwrap();
    reads.options.load_state = Some(state.clone());
    let device = reads.run().unwrap().result.device.unwrap().key_value.unwrap();
    assert_eq!((device.keys, device.misses), (5000, 0));
    // The same drive with a built-in index is another drive.
    let mut other = reads.clone();
    let index = &mut other.config.key_value.as_mut().unwrap().index;
    index.kind = mynah_model::config::KeyIndexKind::DynamicHash;
    assert!(other.run().unwrap_err().to_string().contains("drive"));
}

#[test]
fn what_an_index_from_outside_cannot_do_is_refused() {
    let error = Simulation::on("enterprise-tlc").unwrap().key_index(&TWO_CHOICE).unwrap_err();
    assert_eq!(error.to_string(), "the index `two-choice`: the drive has no key-value namespace");
    let signed = || Simulation::on("kv-tlc").unwrap().key_index(&TWO_CHOICE).unwrap();
    let files = signed().to_files("", Path::new("drive.toml"), Path::new("experiment.toml"));
    assert_eq!(
        files.unwrap_err().to_string(),
        "the index `two-choice` is none that a drive file can name"
    );
    let mut recorded = signed().flow("it", "kv=store keys=1k number_ios=10").unwrap();
    let folder = tempfile::tempdir().unwrap();
    recorded.record = Some(folder.path().join("recording"));
    let message = recorded.run().unwrap_err().to_string();
    assert!(message.contains("the drive cannot be recorded"), "{message}");
}
