//! Crates depend on one another as ARCHITECTURE.md says: one way, no arrow upwards.

use crate::architecture;
use crate::report::Report;
use crate::source;
use std::collections::{BTreeMap, BTreeSet};

/// Whom each crate depends on.
type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn crates_depend_one_way() {
    let mut report = Report::new("crates depend on one another as ARCHITECTURE.md says");
    let said = architecture::dependencies();
    let mut graph = Graph::new();
    for (from, to) in &said {
        graph.entry(from.clone()).or_default().insert(to.clone());
    }
    let below = closure(&graph);
    for (from, _) in below.iter().filter(|(from, below)| below.contains(*from)) {
        report.add_to(architecture::PATH, format!("{from} depends on itself there"));
    }
    let mut actual = Graph::new();
    for (krate, manifest) in manifests() {
        for (table, to) in dependencies(&manifest) {
            if !below.get(&krate).is_some_and(|below| below.contains(&to)) {
                let what = format!(
                    "{krate} must not depend on {to} ({table}): {} has no arrow that way",
                    architecture::PATH
                );
                report.add_to(&format!("crates/{krate}/Cargo.toml"), what);
            }
            actual.entry(krate.clone()).or_default().insert(to);
        }
    }
    for (from, to) in &said {
        if !actual.get(from).is_some_and(|it| it.contains(to)) {
            let what = format!("{from} → {to} is no dependency; strike it off");
            report.add_to(architecture::PATH, what);
        }
    }
    report.end();
}

#[test]
fn unsafe_is_forbidden() {
    let mut report = Report::new("`unsafe` is forbidden in the crates that ARCHITECTURE.md says");
    let allowed = architecture::unsafe_crates();
    let workspace = parse("Cargo.toml");
    let level = |lints: Option<&toml::Value>| {
        lints.and_then(|lints| lints.get("rust")?.get("unsafe_code")?.as_str().map(str::to_owned))
    };
    let of_all = level(workspace.get("workspace").and_then(|it| it.get("lints")));
    for (krate, manifest) in manifests() {
        let lints = manifest.get("lints");
        let shared = lints.and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true);
        let level = if shared { of_all.clone() } else { level(lints) };
        let wanted = if allowed.contains(&krate) { "deny" } else { "forbid" };
        let level = level.as_deref().unwrap_or("nothing");
        if level != wanted {
            let what =
                format!("the lint unsafe_code has to be at \"{wanted}\", and is at \"{level}\"");
            report.add_to(&format!("crates/{krate}/Cargo.toml"), what);
        }
    }
    report.end();
}

fn manifests() -> impl Iterator<Item = (String, toml::Table)> {
    source::crates().into_iter().map(|krate| {
        let manifest = parse(&format!("crates/{krate}/Cargo.toml"));
        (krate, manifest)
    })
}

fn parse(path: &str) -> toml::Table {
    source::read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The crates that a manifest's tables name, each with the table: those for tests, for builds and
/// for some platforms as well.
fn dependencies(manifest: &toml::Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms =
        platforms.into_iter().flat_map(|it| it.values()).filter_map(toml::Value::as_table);
    for tables in platforms.chain([manifest]) {
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let names = tables.get(table).and_then(toml::Value::as_table);
            let names = names.into_iter().flat_map(|it| it.keys());
            let ours = names.filter_map(|name| match &**name {
                "mynah" => Some("cli"),
                name => name.strip_prefix("mynah-"),
            });
            found.extend(ours.map(|name| (table.to_owned(), name.to_owned())));
        }
    }
    found
}

/// Whom each crate depends on, by others too.
fn closure(graph: &Graph) -> Graph {
    let mut closure = graph.clone();
    loop {
        let mut grown = closure.clone();
        for below in grown.values_mut() {
            let further = below.iter().filter_map(|to| closure.get(to)).flatten();
            let further: Vec<String> = further.cloned().collect();
            below.extend(further);
        }
        if grown == closure {
            return closure;
        }
        closure = grown;
    }
}

#[test]
fn dependencies_are_read() {
    let manifest = "[dependencies]\nmynah-a.workspace = true\nlibm = '1'\n[dev-dependencies]\n\
                    mynah-b = { path = 'b' }\n[target.'cfg(unix)'.dependencies]\nmynah = '1'\n";
    let found = dependencies(&manifest.parse().unwrap());
    let expected = [("dependencies", "cli"), ("dependencies", "a"), ("dev-dependencies", "b")];
    assert_eq!(found, expected.map(|(table, name)| (table.to_owned(), name.to_owned())));
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let graph = Graph::from([
        ("a".into(), set(&["b"])),
        ("b".into(), set(&["c"])),
        ("c".into(), set(&["b"])),
    ]);
    assert_eq!(closure(&graph)["a"], set(&["b", "c"]));
    assert_eq!(closure(&graph)["b"], set(&["b", "c"]));
}
