//! Replays the fuzz targets' corpora, and mutations of them, with the stable toolchain.

use mynah_lab::fuzzing;

#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

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
