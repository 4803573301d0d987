//! Replays the fuzz targets' corpora, and mutations of them, with the stable toolchain.

use mynah_lab::fuzzing;
use std::path::PathBuf;

/// Every file of a corpus, whole, cut at every length up to a bound, and with single bytes
/// changed.
fn replay(corpus: &str, target: impl Fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(corpus);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", folder.display());
    for file in files {
        let data = std::fs::read(&file).expect("a corpus file");
        target(&data);
        let step = data.len() / 64 + 1;
        for at in (0..data.len()).step_by(step) {
            target(&data[..at]);
            let mut changed = data.clone();
            for byte in [0, b'0', b'"', b'-', 0xff] {
                changed[at] = byte;
                target(&changed);
            }
        }
    }
}

#[test]
fn trace_lines() {
    replay("trace_line", fuzzing::trace_line);
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
