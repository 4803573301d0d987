//! Entry points that take any bytes: what the fuzz target calls. Nothing here may panic, hang or
//! allocate without bound.

use crate::ledger::{Contents, Entry, Key, Ledger, summed};

/// Opens a ledger whose file of runs has these bytes, and reads what it has.
pub fn ledger(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("runs.jsonl");
    // With a first line that is right, or as it is.
    let mut bytes = data.to_vec();
    if data.first() != Some(&b'{') {
        drop(Ledger::open(folder.path(), &Contents::default(), "fuzz"));
        let Ok(header) = std::fs::read(&path) else { return };
        // And lines with checksums that are right, of what is in them.
        let summed = data.split_inclusive(|byte| *byte == b'\n').flat_map(summed);
        bytes = header.into_iter().chain(summed).collect();
    }
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    let Ok(mut ledger) = Ledger::open(folder.path(), &Contents::default(), "fuzz") else { return };
    let before = ledger.len();
    for part in data.split(|byte| *byte == b'"') {
        let key = std::str::from_utf8(part).ok().and_then(Key::parse);
        if let Some(key) = key {
            let _ = ledger.get(&key);
        }
    }
    let Some(key) = Key::parse(&"5".repeat(64)) else { return };
    let value = Entry::Value(serde_json::Value::Bool(true));
    ledger.add(key, &value).expect("there is room");
    drop(ledger);
    let again = Ledger::open(folder.path(), &Contents::default(), "fuzz");
    let mut again = again.expect("what was opened can be opened again");
    assert!(again.len() >= before && again.get(&key).expect("it can be read") == Some(value));
}
