//! Replays the fuzz target's corpus, and mutations of it, with the stable toolchain.

use mynah_drive_file::fuzzing;

#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn drive_files() {
    replay("drive_file", fuzzing::drive_file);
}
