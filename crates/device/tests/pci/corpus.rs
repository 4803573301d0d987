//! Replays the fuzz target's corpus, and mutations of it, with the stable toolchain.

use mynah_device::fuzzing;
use mynah_model::Drive;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn guest() {
    replay::replay("guest", |data| {
        let mut config = crate::shared::small();
        // As `fuzz/drive.rs` has it.
        if data.first().is_some_and(|first| first & 4 != 0) {
            crate::shared::placing(&mut config);
        }
        fuzzing::guest(Drive::new(config).expect("a drive"), data);
    });
}
