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
