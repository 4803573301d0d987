//! Parts of the model name only what lies below them, or beside them for all.

use crate::report::Report;
use crate::source;
use std::collections::BTreeSet;
use syn::visit::{self, Visit};

/// What the files of a folder may name of their crate: modules, with what is in them.
const BELOW: &[(&str, &[&str])] = &[
    // The event core has the observers of everything, and the events have their names.
    ("kernel", &["kernel", "number", "observe"]),
    // Addresses, and the token that goes down with work and comes back with its end.
    (
        "flash",
        &[
            "config",
            "flash",
            "invariant",
            "kernel",
            "number",
            "observe",
            "policy",
            "space",
            "token",
        ],
    ),
    // Plain numbers in, plain numbers out.
    ("steady", &["config", "steady", "victim"]),
];

#[test]
fn parts_name_what_lies_below_them() {
    let mut report = Report::new("parts of the model name only what lies below them");
    for (folder, allowed) in BELOW {
        let mut met = BTreeSet::new();
        let mut files = 0;
        for source in source::sources("model") {
            if !source.in_crate().starts_with(&format!("{folder}/")) {
                continue;
            }
            files += 1;
            let mut named = Paths::default();
            named.visit_file(&source.code);
            for (line, path) in named.0 {
                let fits = |of: &&&str| path == **of || path.starts_with(&format!("{of}::"));
                match allowed.iter().find(fits) {
                    Some(of) => _ = met.insert(*of),
                    None => report.add(
                        &source.path,
                        line,
                        format!(
                            "names crate::{path}; return what it needs, or have it handed down"
                        ),
                    ),
                }
            }
        }
        assert!(files > 0, "there is no crates/model/src/{folder}/");
        for of in allowed.iter().filter(|of| *of != folder && !met.contains(*of)) {
            let what = format!("{folder} names nothing of {of} any more; strike it off");
            report.add_to("tests/tidy/parts.rs", what);
        }
    }
    report.end();
}

/// Paths that begin with `crate`, without that: the line and the path.
#[derive(Default)]
struct Paths(Vec<(usize, String)>);

impl Paths {
    fn walk(&mut self, tree: &syn::UseTree, before: &str) {
        let join = |ident: &proc_macro2::Ident| match before {
            "" => ident.to_string(),
            before => format!("{before}::{ident}"),
        };
        match tree {
            syn::UseTree::Path(path) => self.walk(&path.tree, &join(&path.ident)),
            syn::UseTree::Name(name) => self.add(&join(&name.ident), source::line(&name.ident)),
            syn::UseTree::Rename(name) => self.add(&join(&name.ident), source::line(&name.ident)),
            syn::UseTree::Glob(_) => {}
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.walk(tree, before));
            }
        }
    }

    fn add(&mut self, path: &str, line: usize) {
        if let Some(path) = path.strip_prefix("crate::") {
            self.0.push((line, path.to_string()));
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.walk(&item.tree, "");
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if let [first, _, ..] = &path.segments.iter().collect::<Vec<_>>()[..]
            && first.ident == "crate"
        {
            self.add(&names.join("::"), source::line(&first.ident));
        }
        visit::visit_path(self, path);
    }
}
