//! Every source file is covered by a row of the code map, and no row is stale.
//!
//! Files that only tests compile need no row, nor do those that only declare modules, and a crate's
//! `lib.rs` or `main.rs` is covered by its crate's row. A folder's row is for the module's own file
//! beside the folder as well. In a row a name without a folder may follow one with a folder and lies
//! in the same.

use crate::architecture::{self, Row};
use crate::report::Report;
use crate::source;
use std::collections::BTreeSet;

#[test]
fn the_code_map_is_complete_and_current() {
    let mut report = Report::new("the code map of ARCHITECTURE.md has a row for every source file");
    let rows = architecture::code_map();
    for krate in source::crates() {
        let all = source::paths(&krate);
        let in_crate = |path: &str| path.split_once("/src/").map(|(_, path)| path.to_owned());
        let all: Vec<String> = all.iter().filter_map(|path| in_crate(path)).collect();
        let mut covered = BTreeSet::new();
        for row in rows.iter().filter(|row| row.krate == krate) {
            match resolve(row, &all) {
                Ok(names) => covered.extend(names),
                Err(what) => report.add(architecture::PATH, row.line, what),
            }
        }
        for source in source::sources(&krate) {
            let path = source.in_crate();
            let needs_none = matches!(path, "lib.rs" | "main.rs") || only_declares(&source.code);
            if !needs_none && !is_covered(path, &covered) {
                let what = format!(
                    "no row of {} is for it; add it to the row of its idea in crates/{krate}",
                    architecture::PATH
                );
                report.add(&source.path, 1, what);
            }
        }
    }
    for row in &rows {
        if !source::crates().contains(&row.krate) {
            report.add(architecture::PATH, row.line, format!("there is no crates/{}", row.krate));
        }
    }
    report.end();
}

fn only_declares(code: &syn::File) -> bool {
    code.items.iter().all(|item| match item {
        syn::Item::Mod(module) => module.content.is_none(),
        syn::Item::Use(_) => true,
        _ => false,
    })
}

fn is_covered(path: &str, covered: &BTreeSet<String>) -> bool {
    let of_module = format!("{}/", path.trim_end_matches(".rs"));
    let folders = path.match_indices('/').map(|(at, _)| &path[..=at]);
    covered.contains(path)
        || covered.contains(&of_module)
        || folders.into_iter().any(|folder| covered.contains(folder))
}

/// The paths that a row's names mean, of a crate with these files.
fn resolve(row: &Row, files: &[String]) -> Result<Vec<String>, String> {
    let exists = |name: &str| match name.ends_with('/') {
        true => files.iter().any(|file| file.starts_with(name)),
        false => files.iter().any(|file| file == name),
    };
    let mut paths = Vec::new();
    let mut folder = String::new();
    for name in &row.names {
        let near = format!("{folder}{name}");
        let path = match (exists(name), !folder.is_empty() && exists(&near)) {
            (true, false) => name.clone(),
            (false, true) => near,
            (false, false) => {
                return Err(format!(
                    "there is no {name} in crates/{}/src; strike it off",
                    row.krate
                ));
            }
            (true, true) => {
                return Err(format!("{name} or {near}? Name {name} first, or write {near}"));
            }
        };
        if let Some((at, _)) = name.rsplit_once('/').filter(|_| !name.ends_with('/')) {
            folder = format!("{at}/");
        }
        paths.push(path);
    }
    Ok(paths)
}

#[test]
fn names_of_rows_are_resolved() {
    let files = ["a.rs", "b/c.rs", "b/d.rs", "d.rs", "e/f/g.rs", "h.rs"].map(str::to_owned);
    let resolve = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        resolve(&Row { line: 1, krate: "x".into(), names }, &files)
    };
    let paths = resolve(&["a.rs", "b/c.rs", "h.rs", "e/"]).unwrap();
    assert_eq!(paths, ["a.rs", "b/c.rs", "h.rs", "e/"]);
    assert_eq!(resolve(&["d.rs", "b/c.rs"]).unwrap(), ["d.rs", "b/c.rs"]);
    assert!(resolve(&["b/c.rs", "d.rs"]).unwrap_err().contains("d.rs or b/d.rs"));
    assert!(resolve(&["c.rs"]).unwrap_err().contains("no c.rs"));
    assert!(resolve(&["f/"]).is_err());
    let covered = paths.into_iter().collect();
    assert!(is_covered("e/f/g.rs", &covered) && is_covered("b/c.rs", &covered));
    assert!(is_covered("e.rs", &covered));
    assert!(!is_covered("b/d.rs", &covered) && !is_covered("b.rs", &covered));
}
