//! A fuzz target's corpus, replayed by the normal tests with the stable toolchain. Included by
//! the tests of each crate that has targets.

use std::path::Path;

/// Gives `target` every file of a corpus, varied.
pub(crate) fn replay(corpus: &str, target: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(corpus);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", folder.display());
    for file in files {
        vary(&std::fs::read(&file).expect("a corpus file"), &target);
    }
}

/// Gives `target` the bytes: whole, cut off at some 64 places, and with the byte there changed.
pub(crate) fn vary(data: &[u8], target: &impl Fn(&[u8])) {
    target(data);
    let step = data.len() / 64 + 1;
    for at in (0..data.len()).step_by(step) {
        target(&data[..at]);
        let mut changed = data.to_vec();
        for byte in [0, 1, b'0', b'"', b'-', 0x7f, 0xff] {
            changed[at] = byte;
            target(&changed);
        }
    }
}
