use super::*;
use crate::{FlowOptions, FlowSpec, Planned};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn flow(options: &str) -> Result<FlowSpec, String> {
    let mut read = FlowOptions::default();
    for word in options.split(' ') {
        let (option, value) = word.split_once('=').unwrap();
        assert!(read.set(option, value), "{option}");
    }
    read.flow("it").map_err(|error| error.to_string())
}

fn stream(flow: &FlowSpec, job: u32) -> impl Iterator<Item = Planned> + use<> {
    let mut generator = flow.generator(0, 1, 0, job).unwrap();
    std::iter::from_fn(move || generator.next())
}

fn drawn(options: &str) -> Vec<Planned> {
    stream(&flow(options).unwrap(), 0).collect()
}

fn share(all: &[Planned], action: KeyAction) -> f64 {
    all.iter().filter(|planned| planned.key == Some(action)).count() as f64 / all.len() as f64
}

#[test]
fn mixes_are_what_they_are_called() {
    use KeyAction::{Exist, List, ReadModifyWrite, Retrieve, Store, Update};
    for (mix, parts) in [
        ("ycsb-a", &[(Retrieve, 0.5), (Update, 0.5)][..]),
        ("ycsb-b", &[(Retrieve, 0.95), (Update, 0.05)]),
        ("ycsb-c", &[(Retrieve, 1.0)]),
        ("ycsb-d", &[(Retrieve, 0.95), (Store, 0.05)]),
        ("ycsb-e", &[(List, 0.95), (Store, 0.05)]),
        ("ycsb-f", &[(Retrieve, 0.5), (ReadModifyWrite, 0.5)]),
        ("exist", &[(Exist, 1.0)]),
        ("retrieve=70,update=20.5,exist=9.5", &[(Retrieve, 0.7), (Update, 0.205), (Exist, 0.095)]),
    ] {
        let all = drawn(&format!("kv={mix} keys=10k number_ios=40000"));
        assert_eq!(all.len(), 40_000);
        for (action, expected) in parts {
            let found = share(&all, *action);
            assert!((found - expected).abs() < 0.01, "{mix}: {found} {action:?}");
        }
        assert_eq!(all, drawn(&format!("kv={mix} keys=10k number_ios=40000")), "the same again");
    }
}

#[test]
fn what_is_stored_only_is_stored_once() {
    for options in ["kv=store keys=1000", "kv=store keys=1000 key_distribution=sequential"] {
        for jobs in [1, 3] {
            let flow = flow(&format!("{options} numjobs={jobs}")).unwrap();
            assert_eq!(flow.key_value().unwrap().initial_keys(), 0);
            let all: Vec<u64> =
                (0..jobs).flat_map(|job| stream(&flow, job)).map(|it| it.sector).collect();
            assert_eq!(all.len(), 1000);
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 1000);
            assert!(all.iter().all(|key| *key < 1000));
            let in_order = all[..300].windows(2).all(|pair| pair[0] < pair[1]);
            assert_eq!(in_order, options.contains("sequential"));
        }
    }
}

/// Draws all jobs by turns, and checks that whatever is to exist does.
fn check_existence(flow: &FlowSpec) {
    let keys = flow.key_value().unwrap();
    let depth = flow.depth().unwrap() as usize;
    let mut exists: BTreeSet<u64> = (0..keys.initial_keys()).collect();
    for job in 0..flow.jobs {
        // A Store is decided at the latest when as many have followed as may be outstanding.
        let mut undecided = std::collections::VecDeque::new();
        for planned in stream(flow, job) {
            if undecided.len() == depth {
                exists.extend(undecided.pop_front().unwrap());
            }
            let key = planned.sector;
            let mut store = None;
            match planned.key.unwrap() {
                _ if keys.is_missing(key) => assert!(keys.misses > 0.0),
                KeyAction::Store => {
                    assert!(!exists.contains(&key), "{key} is there");
                    store = Some(key);
                }
                KeyAction::Delete => assert!(exists.remove(&key), "{key} is gone"),
                _ => assert!(exists.contains(&key), "{key} is not there"),
            }
            undecided.push_back(store);
        }
        exists.extend(undecided.into_iter().flatten());
    }
}

#[test]
fn commands_go_to_keys_that_exist() {
    for choice in ["uniform", "zipf:0.99", "latest", "sequential"] {
        for mix in ["retrieve=50,store=30,delete=20", "store=50,delete=50", "ycsb-d", "ycsb-e"] {
            for rest in ["keys=1k", "keys=40", "keys=3 iodepth=16", "keys=900 numjobs=3 misses=10%"]
            {
                if mix == "ycsb-e" && rest.contains("misses") {
                    continue;
                }
                let options = format!("kv={mix} key_distribution={choice} number_ios=5000 {rest}");
                check_existence(&flow(&options).unwrap());
            }
        }
    }
}

#[test]
fn jobs_end_when_their_keys_are_gone() {
    let all = drawn("kv=delete keys=500 number_ios=1000000");
    assert_eq!(all.len(), 500);
    let ordered = drawn("kv=delete keys=500 key_distribution=sequential runtime=1");
    assert!(ordered.iter().enumerate().all(|(at, planned)| planned.sector == at as u64));
    let short = drawn("kv=store=50,retrieve=50 keys=100 key_size=1 number_ios=10000");
    let stored = short.iter().filter(|it| it.key == Some(KeyAction::Store)).count();
    assert_eq!(stored, 28, "keys of one byte: 128 and as many that are never stored");
}

#[test]
fn choices_are_distributed_as_they_should() {
    let counts = |options: &str| {
        let mut counts = BTreeMap::<u64, u64>::new();
        for planned in drawn(&format!("kv=retrieve number_ios=100000 {options}")) {
            *counts.entry(planned.sector).or_default() += 1;
        }
        counts
    };
    let uniform = counts("keys=100");
    assert!(uniform.values().all(|count| (850..1150).contains(count)), "{uniform:?}");
    let zipf = counts("keys=1000 key_distribution=zipf:0.99");
    let mut all: Vec<u64> = zipf.values().copied().collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    let total: f64 = (1..=1000).map(|rank| libm::pow(f64::from(rank), -0.99)).sum();
    for rank in [1, 2, 5, 10] {
        let expected = 100_000.0 * libm::pow(f64::from(rank), -0.99) / total;
        let found = all[rank as usize - 1] as f64;
        assert!((found / expected - 1.0).abs() < 0.1, "{rank}: {found}, {expected}");
    }
    let hottest = zipf.iter().max_by_key(|(_, count)| **count).unwrap();
    assert!(*hottest.0 > 10, "popularity is scattered");
    let latest = counts("keys=1000 key_distribution=latest");
    assert!(latest[&999] > 10 * latest[&900]);
    let missed = drawn("kv=retrieve keys=1k misses=25% number_ios=40000");
    let spec = flow("kv=retrieve runtime=1").unwrap();
    let of = spec.key_value().unwrap();
    let misses = missed.iter().filter(|it| of.is_missing(it.sector)).count() as f64 / 40_000.0;
    assert!((misses - 0.25).abs() < 0.01, "{misses}");
    let all = drawn("kv=retrieve-miss keys=1k number_ios=1000");
    assert!(all.iter().all(|it| of.is_missing(it.sector)));
}

#[test]
fn sizes_follow_their_laws() {
    for (law, mean) in [
        ("4k", 4096.0),
        ("0", 0.0),
        ("1k-3k", 2048.0),
        ("100/50:300/50", 200.0),
        ("normal:4k/512", 4096.0),
        ("zipf:2/16-4k", 40.0),
    ] {
        let options = format!("kv=update keys=1k value_size={law} number_ios=20000");
        let spec = flow(&options).unwrap();
        let of = spec.key_value().unwrap();
        let drawn = stream(&spec, 0).map(|it| it.sectors);
        for sizes in [drawn.collect::<Vec<_>>(), of.initial().map(|it| it.2).collect()] {
            let sum: f64 = sizes.iter().map(|size| f64::from(*size)).sum();
            let found = sum / sizes.len() as f64;
            assert!(sizes.iter().all(|size| *size <= of.buffer_bytes()), "{law}");
            if !law.starts_with("zipf") {
                assert!((found - mean).abs() <= 0.05 * mean, "{law}: {found}");
            } else {
                assert!((20.0..80.0).contains(&found), "{found}");
            }
        }
    }
    let spec = flow("kv=list key_size=8-20 list_keys=3-5 keys=1k number_ios=1000").unwrap();
    let buffers: BTreeSet<u32> = stream(&spec, 0).map(|it| it.sectors).collect();
    assert_eq!(buffers, BTreeSet::from([76, 100, 124]));
    let lengths: BTreeSet<u8> = spec.key_value().unwrap().initial().map(|it| it.1).collect();
    assert_eq!(lengths, (8..=20).collect());
}

#[test]
fn errors_say_what_is_valid() {
    let errors: Vec<String> = [
        "kv=get runtime=1",
        "kv=retrieve=95,write=5 runtime=1",
        "kv=retrieve=95,update=6 runtime=1",
        "kv=retrieve=95,update runtime=1",
        "kv=retrieve=50,retrieve=50 runtime=1",
        "kv=retrieve bs=4k runtime=1",
        "kv=retrieve size=1g runtime=1",
        "kv=retrieve trace=a.csv",
        "kv=retrieve io_size=1g",
        "rw=randread keys=1m runtime=1",
        "kv=retrieve keys=0 runtime=1",
        "kv=retrieve keys=many runtime=1",
        "kv=retrieve keys=40k key_size=2 runtime=1",
        "kv=retrieve key_size=256 runtime=1",
        "kv=retrieve key_size=32-8 runtime=1",
        "kv=retrieve value_size=33m runtime=1",
        "kv=retrieve value_size=4k/60 runtime=1",
        "kv=retrieve value_size=normal:4k runtime=1",
        "kv=retrieve value_size=zipf:0.99 runtime=1",
        "kv=retrieve key_distribution=hotcold:90/10 runtime=1",
        "kv=store key_distribution=latest",
        "kv=update misses=5% runtime=1",
        "kv=update list_keys=5 runtime=1",
        "kv=list list_keys=0 runtime=1",
    ]
    .map(|options| flow(options).unwrap_err())
    .into();
    insta::assert_snapshot!(errors.join("\n"));
}

proptest! {
    #[test]
    fn no_text_panics(
        mix in "[a-z=,0-9%-]{0,30}|ycsb-[a-f]",
        keys in "[0-9]{1,6}[kmg]?|\\PC*",
        key_size in "[0-9]{1,4}(-[0-9]{1,4})?|\\PC*",
        value_size in "(zipf:|normal:)?[0-9]{1,5}[km]?([-/:][0-9]{1,5}[km]?)*|\\PC*",
        choice in "(zipf|latest|uniform|sequential)(:[0-9.]{1,4})?|\\PC*",
    ) {
        let options = FlowOptions {
            kv: Some(mix),
            keys: Some(keys),
            key_size: Some(key_size),
            value_size: Some(value_size),
            key_distribution: Some(choice),
            number_ios: Some("100".to_owned()),
            ..FlowOptions::default()
        };
        if let Ok(flow) = options.flow("it")
            && let Ok(mut generator) = flow.generator(0, 1, 0, 0)
        {
            while generator.next().is_some() {}
            flow.key_value().unwrap().initial().take(10).count();
        }
    }

    #[test]
    fn whatever_is_done_goes_to_keys_that_exist(
        shares in (0u32..100, 0u32..100, 0u32..100),
        keys in 1u64..300,
        depth in 1u32..40,
        jobs in 1u32..4,
        choice in prop::sample::select(vec!["uniform", "zipf:1.2", "latest", "sequential"]),
    ) {
        let (store, delete, retrieve) = shares;
        let total = f64::from(store + delete + retrieve + 1);
        let [store, delete, retrieve] =
            [store, delete, retrieve].map(|it| (f64::from(it) / total * 100.0).floor());
        let update = 100.0 - store - delete - retrieve;
        let options = format!(
            "kv=store={store},delete={delete},retrieve={retrieve},update={update} \
             keys={keys} iodepth={depth} numjobs={jobs} key_distribution={choice} number_ios=500"
        );
        let flow = flow(&options).unwrap();
        prop_assume!(keys >= u64::from(jobs));
        check_existence(&flow);
    }
}
