//! Clocks are read in one module of a crate, and in most crates not at all.
//!
//! Waiting is not reading: sleeps and timeouts are not looked for.

use crate::report::Report;
use crate::source;
use std::collections::BTreeSet;

/// The module of each crate that reads clocks. All other crates have none.
const MODULES: &[(&str, &str)] =
    &[("cli", "machine.rs"), ("py", "machine.rs"), ("runtime", "clock.rs")];

/// Threads beside the loop of the target that keep a deadline, and what is no reading.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("guest-calendar", "lib.rs", "it is the function by which QEMU reads a clock, and reads none"),
    ("runtime", "engine/control.rs", "another thread waits so long for the engine's answer"),
    (
        "runtime",
        "metrics/http.rs",
        "how old a page is, by tokio's clock, which its timeouts have too",
    ),
    ("runtime", "tls/carrier.rs", "handshakes and the ends of connections get so much time"),
];

#[test]
fn clocks_are_read_in_one_module() {
    let mut report = Report::new("clocks are read in one module of a crate");
    let here = "tests/tidy/clocks.rs";
    let mut readers = BTreeSet::new();
    for krate in source::crates() {
        for source in source::sources(&krate) {
            let path = source.in_crate();
            let Some((line, what)) = reading(&source) else { continue };
            readers.insert((krate.clone(), path.to_owned()));
            let module = MODULES.iter().find(|(of, _)| *of == krate).map(|(_, module)| *module);
            let excepted = EXCEPTIONS.iter().any(|(of, file, _)| *of == krate && *file == path);
            if module != Some(path) && !excepted {
                let what = match module {
                    Some(module) => format!("reads a clock ({what}); have {module} do that"),
                    None => format!("reads a clock ({what}); take the time as an argument"),
                };
                report.add(&source.path, line, what);
            }
        }
    }
    let listed = EXCEPTIONS.iter().map(|(krate, file, _)| (krate, file));
    for (krate, file) in MODULES.iter().map(|(krate, file)| (krate, file)).chain(listed) {
        if !readers.contains(&((*krate).to_owned(), (*file).to_owned())) {
            report.add_to(here, format!("{file} of {krate} reads no clock; strike it off"));
        }
    }
    report.end();
}

/// The first place of a file at which a clock is read, and with what.
fn reading(source: &source::Source) -> Option<(usize, String)> {
    let idents = source.identifiers();
    let names: Vec<String> = idents.iter().map(ToString::to_string).collect();
    let n = (0..names.len()).find(|n| {
        let before = n.checked_sub(1).map_or("", |before| &names[before]);
        is_reading(before, &names[*n])
    })?;
    Some((source::line(&idents[n]), names[n].clone()))
}

fn is_reading(before: &str, name: &str) -> bool {
    match name {
        "now" => matches!(before, "Instant" | "SystemTime" | "Utc" | "Local" | "OffsetDateTime"),
        "UNIX_EPOCH" | "_rdtsc" | "__rdtscp" => true,
        "clock_gettime" | "clock_gettime_dynamic" | "gettimeofday" | "getrusage" => true,
        _ => false,
    }
}

#[test]
fn readings_are_found() {
    let text = "fn a(at: Time) -> Time {\n    let now = at;\n    b!(Instant::now());\n}\n";
    let code = syn::parse_file(text).unwrap();
    let source = source::Source { path: "crates/a/src/a.rs".into(), code };
    assert_eq!(reading(&source), Some((3, "now".to_owned())));
    assert!(!is_reading("clock", "now") && is_reading("time", "clock_gettime"));
}
