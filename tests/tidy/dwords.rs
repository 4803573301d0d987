//! Commands are parsed once: few files of the device read raw dwords of a submission queue entry.

use crate::report::Report;
use crate::source;

/// A ratchet: so many files do. The number may only become smaller.
const FILES: usize = 1;

#[test]
fn commands_are_parsed_once() {
    let mut report = Report::new("raw dwords of commands are read in few files of crates/device");
    let mut found = Vec::new();
    for source in source::sources("device") {
        // Plays the host, which puts commands together.
        if source.in_crate().starts_with("fuzzing") {
            continue;
        }
        let dword = source.identifiers().into_iter().find(|ident| is_dword(&ident.to_string()));
        found.extend(dword.map(|ident| (source.path.clone(), source::line(&ident), ident)));
    }
    if found.len() > FILES {
        for (path, line, ident) in &found {
            let count = found.len();
            let what = format!(
                "names {ident}, and so do {count} files, {FILES} is the most; take the parsed \
                 command"
            );
            report.add(path, *line, what);
        }
    } else if found.len() < FILES {
        let what = format!("{} files are left of {FILES}; write that", found.len());
        report.add_to("tests/tidy/dwords.rs", what);
    }
    report.end();
}

/// `dword10`, `dword_10`, `cdw10` and the like; not `dword` alone, which registers have as well.
fn is_dword(name: &str) -> bool {
    let rest = name.strip_prefix("dword").or_else(|| name.strip_prefix("cdw"));
    let number = rest.map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

#[test]
fn dwords_are_told_by_their_names() {
    for name in ["dword_10", "dword10", "dword11_of", "cdw10", "cdw2"] {
        assert!(is_dword(name), "{name}");
    }
    for name in ["dword", "dwords", "words", "cdw", "word10"] {
        assert!(!is_dword(name), "{name}");
    }
}
