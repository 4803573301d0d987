//! What the engine believes of its files without a look at their checksums, checked before it does: a
//! damaged list of tables would have it ask for any amount of memory.
//!
//! In the folder of each keyspace `current` holds the number of a version (8 bytes, little-endian), the
//! checksum of the file `vNUMBER` (XXH3, 128 bits) and a zero; that file lists the tables, with a
//! checksum for each, and so on down to blocks (lsm-tree 3.1, `version/persist.rs`).

use super::open_error::Problem;
use std::fs;
use std::io;
use std::path::Path;
use twox_hash::XxHash3_128;

const CURRENT: &str = "current";
const TABLES: &str = "tables";
const CURRENT_BYTES: usize = 8 + 16 + 1;

/// Checks the list of tables of a keyspace.
pub(super) fn check(keyspace: &Path) -> Result<(), Problem> {
    let damaged = |what: &str| {
        let name = keyspace.file_name().unwrap_or_default().to_string_lossy();
        Err(Problem::Damaged(format!("keyspaces/{name}/{what}")))
    };
    let current = match fs::read(keyspace.join(CURRENT)) {
        Ok(current) => current,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // The process was killed while it made the keyspace, or somebody has taken the file.
            let tables = fs::read_dir(keyspace.join(TABLES));
            return match tables.is_ok_and(|mut tables| tables.next().is_some()) {
                true => damaged("current is missing"),
                false => Ok(()),
            };
        }
        Err(error) => return Err(error.into()),
    };
    let parts = current.split_first_chunk::<8>();
    let parts = parts.and_then(|(number, rest)| Some((number, rest.split_first_chunk::<16>()?)));
    let Some((number, (checksum, [0]))) = parts else {
        let bytes = current.len();
        let what =
            format!("current is none: it has {bytes} bytes of {CURRENT_BYTES}, or ends wrongly");
        return damaged(&what);
    };
    let list = format!("v{}", u64::from_le_bytes(*number));
    let found = match fs::read(keyspace.join(&list)) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return damaged(&format!("{list} is missing"));
        }
        Err(error) => return Err(error.into()),
    };
    match XxHash3_128::oneshot(&found) == u128::from_le_bytes(*checksum) {
        true => Ok(()),
        false => damaged(&format!("{list} has not the checksum that it should have")),
    }
}
