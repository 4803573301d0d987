//! Replays the fuzz target's corpus, and mutations of it, with the stable toolchain.

use mynah_device::fuzzing;
use mynah_model::Drive;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn guest() {
    replay::replay("guest", |data| {
        let drive = Drive::new(crate::shared::small()).expect("a drive");
        fuzzing::guest(drive, data);
    });
}
