//! What keeps results the same everywhere is clippy's to find: iteration of hash maps and the
//! platform's floating-point functions (`clippy.toml` of the model and of lab). Whether clippy finds
//! them, `lints.rs` among the tests of each has clippy say. Here: that these are there, and that
//! nothing is exempt.

use crate::report::Report;
use crate::source;

/// Crates, and the program of tests that has clippy find what is forbidden.
const CRATES: [(&str, &str); 2] = [("model", "drive"), ("lab", "lab")];
const LINTS: [&str; 2] = ["disallowed_methods", "disallowed_types"];

#[test]
fn lints_for_equal_results_stay_on() {
    let mut report = Report::new("clippy forbids what would make results differ");
    for (krate, program) in CRATES {
        let configured = format!("crates/{krate}/clippy.toml");
        if source::read(&configured) != source::read("crates/model/clippy.toml") {
            report.add_to(&configured, "is not the model's; make it a link to that");
        }
        let tests = format!("crates/{krate}/tests/{program}/lints.rs");
        for lint in LINTS {
            if !source::read(&tests).contains(&format!("#[expect(clippy::{lint}")) {
                report
                    .add_to(&tests, format!("has clippy find nothing of clippy::{lint} any more"));
            }
        }
        for source in source::sources(krate) {
            for ident in source.identifiers() {
                if LINTS.iter().any(|lint| ident == lint) {
                    let what =
                        format!("{ident} is named in an attribute; do without what it forbids");
                    report.add(&source.path, source::line(&ident), what);
                }
            }
        }
    }
    report.end();
}

#[test]
fn lints_find_what_they_are_for() {
    let mut report = Report::new("clippy.toml of the model forbids what ARCHITECTURE.md says");
    let path = "crates/model/clippy.toml";
    let table: toml::Table = source::read(path).parse().unwrap();
    let listed = |key: &str| -> Vec<String> {
        let entries = table.get(key).and_then(toml::Value::as_array).into_iter().flatten();
        entries.filter_map(|it| it.get("path")?.as_str().map(str::to_owned)).collect()
    };
    let methods = listed("disallowed-methods");
    let functions = ["exp", "ln", "log2", "log10", "powf", "powi", "sin", "cos", "tan", "cbrt"];
    let functions = functions.map(|name| format!("f64::{name}"));
    let maps = ["std::collections::HashMap", "hashbrown::HashMap"];
    let walks =
        ["drain", "into_keys", "into_values", "iter", "iter_mut", "keys", "values", "values_mut"];
    let walks = maps.iter().flat_map(|map| walks.iter().map(move |walk| format!("{map}::{walk}")));
    for wanted in functions.into_iter().chain(walks) {
        if !methods.contains(&wanted) {
            report.add_to(path, format!("disallowed-methods has no {wanted}"));
        }
    }
    let types = listed("disallowed-types");
    for wanted in ["std::collections::HashMap", "std::collections::HashSet", "hashbrown::HashSet"] {
        if !types.iter().any(|it| it == wanted) {
            report.add_to(path, format!("disallowed-types has no {wanted}"));
        }
    }
    report.end();
}
