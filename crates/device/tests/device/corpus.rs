//! Replays the fuzz target's corpus, and mutations of it, with the stable toolchain.

use mynah_device::fuzzing;
use mynah_model::Drive;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn commands() {
    replay::replay("commands", |data| {
        let drive = Drive::new(crate::support::small()).expect("a drive");
        fuzzing::commands(drive, data);
    });
}

fn with_pairs() -> Drive {
    let mut config = crate::support::small();
    crate::pairs::mixed(&mut config);
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

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 24, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn any_key_value_commands(data in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..4000)) {
        fuzzing::key_value(with_pairs(), &data);
    }
}
