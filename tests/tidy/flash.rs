//! Flash knows operations, addresses and times: not what is mapped, cached or written often.

use crate::report::Report;
use crate::source;
use std::collections::BTreeSet;

/// What it may not name: words of identifiers.
const WORDS: &[&str] = &[
    "cmt",
    "heat",
    "hot",
    "hotness",
    "hybrid",
    "lpn",
    "lpns",
    "mapped",
    "mapping",
    "translation",
    "unit",
    "units",
];

/// The same, as whole identifiers: flash has cache programs and cache reads of its own.
const NAMES: &[&str] = &["cache", "Cache", "cached", "clean", "dram"];

/// Words that mean something else here: the planes that work as one are a unit.
const ALLOWED: &[&str] = &["planes_per_unit"];

/// A ratchet: files of `crates/model/src/flash/` that still do, and of `flash.rs` beside it. None
/// may be added, and those that no longer do are struck off.
const STILL: &[&str] = &[];

#[test]
fn flash_knows_no_mapping_and_no_cache() {
    let mut report =
        Report::new("crates/model/src/flash/ names no mapping, cache, write unit or hotness");
    let mut still: BTreeSet<&str> = STILL.iter().copied().collect();
    let mut files = 0;
    for source in source::sources("model") {
        let path = source.in_crate();
        if path != "flash.rs" && !path.starts_with("flash/") {
            continue;
        }
        files += 1;
        let mut named = source.identifiers();
        named.retain(|ident| is_of_others(&ident.to_string()));
        let listed = still.remove(path);
        match (listed, named.first()) {
            (true, None) => {
                let what = format!("{path} names nothing of it any more; strike it off");
                report.add_to("tests/tidy/flash.rs", what);
            }
            (false, Some(first)) => {
                let names: BTreeSet<String> = named.iter().map(ToString::to_string).collect();
                let names: Vec<String> = names.into_iter().collect();
                let what = format!(
                    "names {}; have the work that comes down carry what is needed of it, as a \
                     value of flash's own",
                    names.join(", ")
                );
                report.add(&source.path, source::line(first), what);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
    for path in still {
        report.add_to("tests/tidy/flash.rs", format!("there is no {path} any more; strike it off"));
    }
    assert!(files > 0, "there is no crates/model/src/flash/: where is flash now?");
    report.end();
}

fn is_of_others(name: &str) -> bool {
    let named = NAMES.contains(&name) || words(name).iter().any(|word| WORDS.contains(&&**word));
    named && !ALLOWED.contains(&name)
}

/// The words of a name in snake case, camel case or capitals, in small letters.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = '_';
    for c in name.chars() {
        if c == '_' || c.is_ascii_uppercase() && !before.is_ascii_uppercase() {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().unwrap().push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn names_of_other_parts_are_told_by_their_words() {
    assert_eq!(words("goes_by_heat"), ["goes", "by", "heat"]);
    assert_eq!(words("UnitKey"), ["unit", "key"]);
    assert_eq!(words("CMT_SIZE"), ["cmt", "size"]);
    for name in ["units_per_page", "WriteUnit", "HotQueues", "cached", "mapping", "lpn"] {
        assert!(is_of_others(name), "{name}");
    }
    for name in ["cache_program", "map", "shot", "community", "CacheRead", "planes_per_unit"] {
        assert!(!is_of_others(name), "{name}");
    }
}
