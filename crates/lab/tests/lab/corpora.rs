//! Replays the fuzz targets' corpora, and mutations of them, with the stable toolchain.

use mynah_lab::fuzzing;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::{replay, vary};

#[test]
fn mqsim_files() {
    replay("mqsim_files", fuzzing::mqsim_files);
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

/// What is replayed as key-value commands is one to begin with.
#[test]
fn recordings_of_pairs_are_right() {
    use mynah_lab::recording::{Recording, Replayed};
    let (name, overrides) = fuzzing::RECORDED[1];
    let overrides: Vec<String> = overrides.iter().map(|set| set.to_string()).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/recording/");
    let path = std::path::PathBuf::from(folder).join("pairs");
    let mut recording = Recording::open(&path).unwrap();
    let config = mynah_drive_file::load(name, &overrides).unwrap().config;
    let mut drive = mynah_model::Drive::new(config).unwrap();
    recording.lay_pairs(Some(&mut drive)).unwrap();
    recording.warm(&mut drive).unwrap();
    let mut done = 0;
    let replayed = recording.replay(&mut drive, |_, event| {
        done += usize::from(matches!(event, Replayed::CompletedKey { .. }));
        true
    });
    replayed.unwrap();
    assert_eq!(done, 40);
}
