//! Every crate has a row in ARCHITECTURE.md, and every source file says in its first lines what it is:
//! these lines are its entry in the map.
//!
//! Files that only tests compile need none, nor do those that only declare modules.

use crate::architecture;
use crate::report::Report;
use crate::source;

/// Less says nothing.
const HEADER_MIN: usize = 20;

#[test]
fn crates_and_files_say_what_they_are() {
    let mut report = Report::new("every crate has a row, and every file says what it is");
    let (rows, crates) = (architecture::crates(), source::crates());
    for krate in crates.iter().filter(|it| !rows.contains(it)) {
        report.add_to(architecture::PATH, format!("there is no row for crates/{krate}"));
    }
    for krate in rows.iter().filter(|it| !crates.contains(it)) {
        report.add_to(architecture::PATH, format!("there is no crates/{krate}; strike it off"));
    }
    for source in crates.iter().flat_map(|krate| source::sources(krate)) {
        let said = header(&source::read(&source.path)).chars().count();
        if said < HEADER_MIN && !only_declares(&source.code) {
            report.add(&source.path, 1, "say in `//!` what this file is for");
        }
    }
    report.end();
}

/// The text of a file's first lines.
fn header(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.collect::<String>().trim().to_owned()
}

fn only_declares(code: &syn::File) -> bool {
    code.items.iter().all(|item| match item {
        syn::Item::Mod(module) => module.content.is_none(),
        syn::Item::Use(_) => true,
        _ => false,
    })
}

#[test]
fn headers_are_read() {
    assert_eq!(header("//! One.\n//! Two.\nfn f() {}\n//! Not it."), "One. Two.");
    assert_eq!(header("use std::fs;\n//! Not it."), "");
}
