//! Top-level modules of a crate do not import one another in circles, so that each can be read, and
//! moved, without the others.
//!
//! An import is any path that begins at the crate's root, with `crate` or with `super`, also one to a
//! name that the root has from a module. What only tests compile is not looked at.

use crate::report::Report;
use crate::source::{self, Source};
use std::collections::{BTreeMap, BTreeSet};
use syn::UseTree;
use syn::visit::{self, Visit};

/// A ratchet: so many modules of a crate are in circles. A number may only become smaller, and crates
/// that are not here have none.
const IN_CIRCLES: &[(&str, usize)] =
    &[("cli", 14), ("guest-clock", 3), ("kvapi", 4), ("model", 4), ("wire", 2)];

#[test]
fn modules_do_not_import_one_another_in_circles() {
    let mut report = Report::new("modules of a crate do not import one another in circles");
    for krate in source::crates() {
        let allowed = IN_CIRCLES.iter().find(|(name, _)| *name == krate).map_or(0, |(_, it)| *it);
        let imports = imports(&source::sources(&krate));
        let circles = circles(&imports);
        let count: usize = circles.iter().map(Vec::len).sum();
        if count > allowed {
            let what = format!(
                "{count} modules are in circles, {allowed} is the most; move what both sides need \
                 below them: {}",
                described(&imports, &circles)
            );
            report.add_to(&format!("crates/{krate}"), what);
        } else if count < allowed {
            let what = format!("{count} modules of {krate} are left of {allowed}; write that");
            report.add_to("tests/tidy/imports.rs", what);
        }
    }
    report.end();
}

/// Each top-level module with those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn imports(sources: &[Source]) -> Imports {
    let module = |source: &Source| {
        let name = source.in_crate().split('/').next().unwrap_or_default();
        name.trim_end_matches(".rs").to_owned()
    };
    let is_root = |source: &&Source| matches!(source.in_crate(), "lib.rs" | "main.rs");
    let modules: BTreeSet<String> = sources.iter().filter(|it| !is_root(it)).map(module).collect();
    // Names that the root has from modules stand for these.
    let mut at_root = BTreeMap::new();
    for root in sources.iter().filter(is_root) {
        for item in &root.code.items {
            if let syn::Item::Use(item) = item {
                for path in flat(&item.tree) {
                    let from = path.iter().find(|it| *it != "crate" && *it != "self");
                    if let (Some(from), Some(name)) = (from, path.last())
                        && modules.contains(from)
                    {
                        at_root.insert(name.clone(), from.clone());
                    }
                }
            }
        }
    }
    let mut imports = Imports::new();
    for source in sources.iter().filter(|it| !is_root(it)) {
        let own = module(source);
        let mut met = Paths { depth: depth(source.in_crate()), met: BTreeSet::new() };
        met.visit_file(&source.code);
        let to = met.met.into_iter().filter_map(|name| match modules.contains(&name) {
            true => Some(name),
            false => at_root.get(&name).cloned(),
        });
        let to: Vec<String> = to.filter(|to| *to != own).collect();
        imports.entry(own).or_default().extend(to);
    }
    imports
}

/// In how many modules a file is.
fn depth(in_crate: &str) -> usize {
    in_crate.split('/').filter(|part| *part != "mod.rs").count()
}

/// What comes behind the crate's root in the paths of a file, which is in so many modules.
struct Paths {
    depth: usize,
    met: BTreeSet<String>,
}

impl Paths {
    fn add(&mut self, path: &[String]) {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let behind = match path.first().map(String::as_str) {
            Some("crate") => path.get(1),
            Some("super") if supers == self.depth => path.get(supers),
            _ => None,
        };
        self.met.extend(behind.cloned());
    }
}

impl Visit<'_> for Paths {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        for path in flat(&item.tree) {
            self.add(&path);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        self.add(&parts);
        visit::visit_path(self, path);
    }
}

/// The paths of a tree; what is renamed has the name that it has there.
fn flat(tree: &UseTree) -> Vec<Vec<String>> {
    let below = |name: String, paths: Vec<Vec<String>>| -> Vec<Vec<String>> {
        paths.into_iter().map(|path| [vec![name.clone()], path].concat()).collect()
    };
    match tree {
        UseTree::Path(path) => below(path.ident.to_string(), flat(&path.tree)),
        UseTree::Group(group) => group.items.iter().flat_map(flat).collect(),
        UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        UseTree::Rename(name) => vec![vec![name.ident.to_string()]],
        UseTree::Glob(_) => vec![vec!["*".to_owned()]],
    }
}

/// The modules that reach one another, for each circle.
fn circles(imports: &Imports) -> Vec<Vec<&str>> {
    let reached = |from: &str| -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut left = vec![from];
        while let Some(module) = left.pop() {
            for to in imports.get(module).into_iter().flatten() {
                if reached.insert(&**to) {
                    left.push(to);
                }
            }
        }
        reached
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (&**module, reached(module))).collect();
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for (module, reached) in &reach {
        if circles.iter().any(|circle| circle.contains(module)) || !reached.contains(module) {
            continue;
        }
        let back = |other: &&str| reach.get(other).is_some_and(|it| it.contains(module));
        circles.push(reached.iter().copied().filter(back).collect());
    }
    circles
}

fn described(imports: &Imports, circles: &[Vec<&str>]) -> String {
    let mut text = String::new();
    for circle in circles {
        for module in circle {
            let to = imports[*module].iter().filter(|to| circle.contains(&&***to));
            let to: Vec<&str> = to.map(|to| &**to).collect();
            text += &format!("\n    {module} imports {}", to.join(", "));
        }
    }
    text
}

#[test]
fn circles_of_imports_are_found() {
    let of = |modules: &[(&str, &[&str])]| -> Imports {
        let set = |to: &[&str]| to.iter().map(|it| (*it).to_owned()).collect();
        modules.iter().map(|(from, to)| ((*from).to_owned(), set(to))).collect()
    };
    let imports = of(&[("a", &["b"]), ("b", &["c"]), ("c", &["b", "d"]), ("d", &[])]);
    assert_eq!(circles(&imports), [["b", "c"]]);
    assert!(circles(&of(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])).is_empty());
}

#[test]
fn imports_are_read() {
    let file = |name: &str, text: &str| Source {
        path: format!("crates/x/src/{name}"),
        code: syn::parse_str(text).unwrap(),
    };
    let sources = [
        file("lib.rs", "mod a; mod b; mod c; pub use b::{Name, inner::Other as Third};"),
        file("a.rs", "use crate::{b::X, c}; use std::fs; fn f() { crate::a::g() }"),
        file("b.rs", "fn f(it: crate::c::Y) {}"),
        file("c/d.rs", "use crate::Name; use super::super::a; use super::b;"),
    ];
    let found = imports(&sources);
    let to = |module: &str| found[module].iter().map(|it| &**it).collect::<Vec<_>>();
    assert_eq!((to("a"), to("b"), to("c")), (vec!["b", "c"], vec!["c"], vec!["a", "b"]));
}
