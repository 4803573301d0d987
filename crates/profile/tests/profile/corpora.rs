//! Replays a fuzz target's corpus, and mutations of it, with the stable toolchain.

use mynah_profile::fuzzing;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn kernel_traces() {
    replay("kernel_trace", fuzzing::kernel_trace);
}
