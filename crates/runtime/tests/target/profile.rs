//! The profile of a target: every I/O once, and stages that add up, in a time of the test's own.

use crate::client::ethernet_drive;
use crate::timing::{World, requests};
use mynah_profile::{Choice, Counts, Filter, Head, KeepAbove, Profile, Sampling, hash};
use mynah_runtime::clock::Rate;
use mynah_runtime::profile::{Profiled, TargetProfile};
use mynah_stamp::Span;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// The head of a record, and its stages by name.
type Read = (Head, BTreeMap<String, Span>);

/// Every record.
fn records(path: &Path) -> (Counts, Vec<Read>) {
    let profile = Profile::open(path).expect("a profile");
    let (counts, names) = (profile.counts(), profile.header().stages.clone());
    let mut records = profile.records();
    let mut all = vec![];
    while let Some(record) = records.next_record().expect("all of it") {
        assert_eq!(record.residual(), 0, "{record:?}");
        let stages = names.iter().cloned().zip(record.stages.iter().copied());
        all.push((record.head, stages.collect()));
    }
    assert_eq!(records.torn(), 0);
    (counts, all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the looks, and however fast the drive's clock: each I/O has one record, its stages
    /// add up to the picosecond, and what the looks were late by is in `late` alone.
    #[test]
    fn every_io_has_a_record_whose_stages_add_up(
        requests in requests(),
        delays in prop::collection::vec(0..20_000u32, 1..5),
        factor in prop_oneof![Just(1.0), Just(0.1), Just(3.7)],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.profile");
        let rate = Rate::new(factor).unwrap();
        let mut world = World::new(rate);
        world.hub.profile_with(TargetProfile::create(&path, "test", rate).unwrap());
        world.run(&requests, &delays);
        let (counts, records) = records(&path);
        let count = requests.len() as u64;
        prop_assert_eq!((counts.completed, counts.recorded), (count, count));
        // Connect was the first command of the connection.
        let mut nth: Vec<u32> = records.iter().map(|(head, _)| head.nth).collect();
        nth.sort_unstable();
        prop_assert_eq!(nth, (1..=requests.len() as u32).collect::<Vec<_>>());
        let most = Span::from_ns(delays.iter().copied().max().unwrap_or(0).into());
        for (head, stages) in &records {
            let (write, block) = requests[head.nth as usize - 1];
            let opcode = if write { 1 } else { 2 };
            prop_assert_eq!((head.opcode, head.kind), (opcode, u8::from(write)));
            prop_assert_eq!((head.block, head.bytes), (u64::from(block) * 8, 4096));
            prop_assert_eq!((head.namespace, head.status), (1, 0));
            prop_assert!((1..=4).contains(&head.outstanding));
            prop_assert!(stages["late"] <= most + Span::from_ns(1), "{} {most}", stages["late"]);
            for nothing in ["data_request", "backlog", "output", "processing"] {
                prop_assert!(stages[nothing].is_zero(), "{nothing}");
            }
            prop_assert!(!stages["firmware"].is_zero());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The same of an Ethernet drive: its link's stages are among them, and what is modelled is not
    /// late for it.
    #[test]
    fn an_ethernet_drives_records_have_its_links_stages(
        requests in requests(),
        delays in prop::collection::vec(0..20_000u32, 1..5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.profile");
        let mut world = World::on(ethernet_drive(), Rate::REAL);
        let drive = Profiled { drive: "test".into(), has_link: true, has_functions: false };
        world.hub.profile_with(TargetProfile::create(&path, drive, Rate::REAL).unwrap());
        world.run(&requests, &delays);
        let (counts, records) = records(&path);
        prop_assert_eq!(counts.recorded, requests.len() as u64);
        let most = Span::from_ns(delays.iter().copied().max().unwrap_or(0).into());
        for (head, stages) in &records {
            prop_assert!(stages["late"] <= most + Span::from_ns(1), "{} {most}", stages["late"]);
            // Four layers in and out are 20 us.
            let layers = ["transport", "capsule", "block_layer", "nvme_layer"];
            let in_layers: Span = layers.iter().map(|layer| stages[*layer]).sum();
            prop_assert!(in_layers >= Span::from_us(20), "{in_layers}");
            prop_assert!(!stages["axi"].is_zero() && !stages["command_fetch"].is_zero());
            prop_assert!(head.total >= in_layers);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What a choice leaves out is counted, and the others have their records: the sample is the one
    /// that a host would take, which counts as the target does.
    #[test]
    fn a_choice_leaves_out_what_it_says_and_counts_it(
        requests in requests(),
        delays in prop::collection::vec(0..20_000u32, 1..5),
        one_in in 2u32..5,
        above in 0u64..200,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.profile");
        let mut world = World::new(Rate::REAL);
        let mut profile = TargetProfile::create(&path, "test", Rate::REAL).unwrap();
        let reads = Filter { kinds: vec!["read".into()], ..Filter::default() };
        let above = Span::from_us(above);
        let choice = Choice {
            filters: vec![reads],
            sampling: Sampling::OneIn(one_in),
            keep_above: KeepAbove::Ps(above.as_ps()),
        };
        profile.choose(choice.clone()).unwrap();
        world.hub.profile_with(profile);
        world.run(&requests, &delays);
        prop_assert_eq!(Profile::open(&path).unwrap().header().choice.clone(), Some(choice));
        let (counts, records) = records(&path);
        prop_assert!(counts.add_up());
        let reads = requests.iter().filter(|(write, _)| !write).count() as u64;
        let count = requests.len() as u64;
        prop_assert_eq!((counts.completed, counts.filtered), (count, count - reads));
        prop_assert_eq!(counts.recorded, records.len() as u64);
        // Connect was the first command of the connection.
        let picked = |nth: u32| u64::from(hash(1, nth)) < (1 << 32) / u64::from(one_in);
        let sample: Vec<u32> = (1..).zip(&requests)
            .filter(|(nth, (write, _))| !write && picked(*nth)).map(|(nth, _)| nth).collect();
        let mut recorded: Vec<u32> =
            records.iter().filter(|(head, _)| !head.kept).map(|(head, _)| head.nth).collect();
        recorded.sort_unstable();
        prop_assert_eq!(recorded, sample);
        for (head, _) in records.iter().filter(|(head, _)| head.kept) {
            prop_assert!(head.total > above && !picked(head.nth));
        }
    }
}
