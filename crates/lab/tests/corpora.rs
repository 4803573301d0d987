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
    // The layout changes with the model, so that some are made that are surely taken.
    let samples = fuzzing::saved_state_samples().expect("states that the drives take");
    for (number, sample) in (0..).zip(samples) {
        vary(&sample, &fuzzing::saved_state);
        // Words of it, one after the other, become small, large, and one more than others.
        let words = sample.len() as u32 / 4;
        for word in (0..words).step_by(words as usize / 400 + 1) {
            for with in [0, 1, 8, 31, 40, 63, 64, u32::MAX] {
                let change = [&word.to_le_bytes()[..3], &with.to_le_bytes()].concat();
                fuzzing::saved_state(&[&[0x80 | number][..], &change].concat());
            }
        }
    }
}
