//! Replays the fuzz target's corpus, and mutations of it, with the stable toolchain.

use mynah_device::fuzzing;
use mynah_model::Drive;
use std::path::PathBuf;

/// Every file of the corpus, whole, cut off, and with single bytes changed.
#[test]
fn commands() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/commands");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", folder.display());
    let run = |data: &[u8]| {
        let drive = Drive::new(crate::support::small()).expect("a drive");
        fuzzing::commands(drive, data);
    };
    for file in files {
        let data = std::fs::read(&file).expect("a corpus file");
        run(&data);
        let step = data.len() / 48 + 1;
        for at in (0..data.len()).step_by(step) {
            run(&data[..at]);
            let mut changed = data.clone();
            for byte in [0, 1, 0x7f, 0xff] {
                changed[at] = byte;
                run(&changed);
            }
        }
    }
}
