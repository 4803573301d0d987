//! Replays the fuzz target's corpus, and mutations of it, with the stable toolchain.

#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn calibrations() {
    replay::replay("calibration", mynah_calibrate::fuzzing::calibration);
}
