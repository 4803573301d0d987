//! Replays the fuzz target's corpus, and mutations of it, with the stable toolchain.

use mynah_device::fuzzing;
use mynah_model::Drive;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn commands() {
    replay::replay("commands", |data| {
        let mut config = crate::support::small();
        // As `fuzz/drive.rs` has it.
        if data.first().is_some_and(|first| first & 4 != 0) {
            crate::support::placing(&mut config);
        }
        fuzzing::commands(Drive::new(config).expect("a drive"), data);
    });
}

fn with_pairs() -> Drive {
    let mut config = crate::support::small();
    crate::pairs::mixed(&mut config);
    config.key_value.as_mut().expect("it has pairs").key_max = 255;
    Drive::new(config).expect("a drive")
}

#[test]
fn key_value() {
    let most = std::cell::Cell::new(0);
    replay::replay("key_value", |data| {
        most.set(most.get().max(fuzzing::key_value(with_pairs(), data)));
    });
    assert!(most.get() > 30, "sane commands succeed: {}", most.get());
}

#[test]
fn sane_commands_of_samsungs_set_succeed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/key_value/samsung-modelled");
    let data = std::fs::read(path).expect("it is there");
    let succeeded = fuzzing::key_value(with_pairs(), &data);
    assert!(succeeded > 60, "{succeeded}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 24, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn any_key_value_commands(data in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..4000)) {
        fuzzing::key_value(with_pairs(), &data);
    }
}
