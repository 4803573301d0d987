//! Replays the fuzz targets' corpora, and mutations of them, with the stable toolchain.

use mynah_wire::fuzzing;
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
            for byte in [0, 1, b'0', 0x7f, 0xff] {
                changed[at] = byte;
                target(&changed);
            }
        }
    }
}

#[test]
fn authentication_messages() {
    replay("authentication_message", fuzzing::authentication_message);
}

#[test]
fn keys() {
    replay("keys", fuzzing::keys);
}

#[test]
fn target_connections() {
    replay("target_connection", fuzzing::target_connection);
}

#[test]
fn host_streams() {
    replay("host_stream", fuzzing::host_stream);
}
