use super::*;
use crate::FlowOptions;
use std::collections::HashSet;

fn planned(options: &[(&str, &str)], sectors: u64, most: usize) -> Vec<Planned> {
    let mut flow = FlowOptions::default();
    let all = [("kv", "update=50,retrieve=50"), ("keys", "20000"), ("number_ios", "1000000")];
    for (name, value) in all.iter().chain(options) {
        assert!(flow.set(name, *value), "{name}");
    }
    let spec = flow.flow("cache").expect("a flow").with_handles(Some(2)).expect("handles");
    let written = FlowOptions::of(&spec).expect("as options");
    assert_eq!(written.flow("cache").expect("read again"), spec);
    let mut generator = spec.generator(sectors, 1, 0, 0).expect("a stream");
    std::iter::from_fn(|| generator.next()).take(most).collect()
}

const SECTORS: u64 = (256 << 20) / SECTOR_BYTES;

#[test]
fn small_objects_are_read_changed_and_written() {
    let all = planned(
        &[("front", "cachelib"), ("value_size", "100"), ("front_ram", "64k"), ("fdp", "1")],
        SECTORS,
        20_000,
    );
    let small = SECTORS * 4 / 100 / 8 * 8;
    for pair in all.windows(2) {
        assert!(pair.iter().all(|it| it.sector < small && it.sectors == 8 && it.sector % 8 == 0));
        if pair[1].operation == Operation::Write {
            // Of the bucket that was just read, with the first handle.
            assert_eq!((pair[0].operation, pair[0].sector), (Operation::Read, pair[1].sector));
            assert_eq!(pair[1].placement, PlacementId(0));
        }
    }
    let buckets: HashSet<u64> = all.iter().map(|it| it.sector).collect();
    assert!(buckets.len() > 2000, "{}", buckets.len());
}

#[test]
fn large_objects_are_written_as_a_log() {
    let all = planned(
        &[
            ("front", "cachelib"),
            ("value_size", "20000"),
            ("front_region", "1m"),
            ("fdp", "1"),
            ("front_ram", "1m"),
        ],
        SECTORS,
        60_000,
    );
    let writes: Vec<&Planned> = all.iter().filter(|it| it.operation == Operation::Write).collect();
    assert!(writes.len() > 4000 && writes.iter().all(|it| it.placement == PlacementId(1)));
    let first = SECTORS * 4 / 100 / 8 * 8;
    let regions = (SECTORS - first) / 2048;
    for pair in writes.windows(2) {
        let next = pair[0].sector + u64::from(pair[0].sectors);
        let wraps = next == first + regions * 2048 && pair[1].sector == first;
        assert!(pair[1].sector == next || wraps, "{pair:?}");
    }
    // Reads are of what has been written.
    assert!(all.iter().any(|it| it.operation == Operation::Read && it.sectors == 40));
}

#[test]
fn objects_never_share_chunks() {
    let all = planned(
        &[
            ("front", "objects"),
            ("value_size", "100k-900k"),
            ("front_region", "64k"),
            ("front_trim", "1"),
            ("front_ram", "4m"),
            ("keys", "2000"),
        ],
        SECTORS,
        40_000,
    );
    let mut held = HashSet::new();
    for it in &all {
        let chunks = it.sector / 128..(it.sector + u64::from(it.sectors)).div_ceil(128);
        for chunk in chunks {
            match it.operation {
                // The first writes may go where what the cache was filled with before was given up.
                Operation::Write => _ = held.insert(chunk),
                Operation::Trim => _ = held.remove(&chunk),
                _ => {}
            }
        }
        assert!(it.sector + u64::from(it.sectors) <= SECTORS && it.sectors <= 512);
    }
    let [writes, trims] = [Operation::Write, Operation::Trim].map(|of| {
        let all = all.iter().filter(|it| it.operation == of);
        all.map(|it| u64::from(it.sectors)).sum::<u64>() as f64
    });
    assert!((trims / writes - 1.0).abs() < 0.05, "{trims} {writes}");
}

#[test]
fn prefixes_count_as_far_as_they_are_found() {
    let path = std::env::temp_dir().join(format!("mynah-front-{}.jsonl", std::process::id()));
    let text = "{\"hash_ids\": [1, 2, 3]}\n{\"hash_ids\": [1, 2, 4]}\n{\"hash_ids\": [5, 3]}\n";
    std::fs::write(&path, text).expect("a folder for files");
    let mut flow = FlowOptions::default();
    for (name, value) in [
        ("front", "objects"),
        ("trace", path.to_str().unwrap()),
        ("trace_format", "qwen"),
        ("trace_no_stall", "1"),
        ("front_ram", "0"),
        ("trace_token_bytes", "4k"),
        ("front_region", "64k"),
    ] {
        assert!(flow.set(name, value));
    }
    let spec = flow.flow("cache").expect("a flow");
    let mut generator = spec.generator(SECTORS, 1, 0, 0).expect("a stream");
    let all: Vec<(Operation, u64)> =
        std::iter::from_fn(|| generator.next()).map(|it| (it.operation, it.sector / 128)).collect();
    let _ = std::fs::remove_file(&path);
    use Operation::{Read, Write};
    // Blocks of 16 tokens are chunks; the third request's 3 follows one that was not found.
    assert_eq!(
        all,
        [
            (Write, 0),
            (Write, 1),
            (Write, 2),
            (Read, 0),
            (Read, 1),
            (Write, 3),
            (Write, 4),
            (Write, 5)
        ]
    );
}

#[test]
fn what_has_no_effect_is_refused() {
    let refused = |options: &[(&str, &str)]| {
        let mut flow = FlowOptions::default();
        options.iter().for_each(|(name, value)| assert!(flow.set(name, *value)));
        flow.flow("f").expect_err("refused").option
    };
    assert_eq!(refused(&[("front", "cachelib")]), "front");
    assert_eq!(refused(&[("front_ram", "1m"), ("rw", "write")]), "front_ram");
    assert_eq!(
        refused(&[("front", "objects"), ("kv", "update"), ("front_small", "4")]),
        "front_small"
    );
    assert_eq!(refused(&[("front", "objects"), ("trace", "x")]), "trace");
    assert_eq!(refused(&[("front", "cachelib"), ("kv", "update"), ("bs", "4k")]), "bs");
}
