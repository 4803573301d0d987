//! Replays the fuzz targets' corpora, and mutations of them, with the stable toolchain.

use mynah_analysis::fuzzing;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn profiles() {
    replay("profile", fuzzing::profile);
}

#[test]
fn profile_tasks() {
    replay("profile_task", fuzzing::profile_task);
}
