//! Replays the fuzz targets' corpora, and mutations of them, with the stable toolchain.

use mynah_workload::fuzzing;

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
