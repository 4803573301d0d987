//! Replays the fuzz targets' corpora, and mutations of them, with the stable toolchain.

use mynah_lab::fuzzing;

#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::{replay, vary};

#[test]
fn trace_lines() {
    replay("trace_line", fuzzing::trace_line);
}

#[test]
fn fio_jobs() {
    replay("fio_job", fuzzing::fio_job);
}

#[test]
fn mqsim_files() {
    replay("mqsim_files", fuzzing::mqsim_files);
}

#[test]
fn drive_files() {
    replay("drive_file", fuzzing::drive_file);
}

#[test]
fn experiment_files() {
    replay("experiment_file", fuzzing::experiment_file);
}

#[test]
fn recordings() {
    replay("recording", fuzzing::recording);
}

#[test]
fn saved_states() {
    replay("saved_state", fuzzing::saved_state);
    // The layout changes with the model, so that one is made that is surely taken.
    let sample = fuzzing::saved_state_sample().expect("a state that the drive takes");
    vary(&sample, &fuzzing::saved_state);
}
