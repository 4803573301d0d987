//! Says what the crates that results come from were built from: a hash over their sources and the
//! versions of what they use. Runs are kept by it (`mynah_study::ledger`), so it does not depend on where
//! the sources lie, nor on the machine.

use sha2::{Digest, Sha256};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// What results follow from, beside this crate's manifest. Packed alone, the crate has none of its
/// neighbours: then their versions stand for them, which its manifest has.
const SOURCES: [&str; 7] = [
    "src",
    "../drive-file/src",
    "../workload/src",
    "../result/src",
    "../model/src",
    "../stamp/src",
    "../../Cargo.lock",
];

/// Hexadecimal digits of the hash.
const DIGITS: usize = 16;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let here = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let mut hash = Sha256::new();
    for source in SOURCES {
        let path = here.join(source);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
            add(&mut hash, source, &path);
        }
    }
    let digest = hash.finalize();
    let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=MYNAH_SOURCES={}", &text[..DIGITS]);
}

/// Adds a file, or all files of a folder in the order of their names, each with its name and length.
fn add(hash: &mut Sha256, name: &str, path: &Path) {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        names.sort();
        for child in names {
            add(hash, &format!("{name}/{}", child.to_string_lossy()), &path.join(&child));
        }
        return;
    }
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    hash.update(format!("{name}\n{}\n", bytes.len()));
    hash.update(bytes);
}
