//! A function is read in one go: it has at most 100 lines.

use crate::report::Report;
use crate::source::{self, Source};
use std::collections::BTreeMap;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Lines from a function's signature to its closing brace.
const MOST: usize = 100;

/// A ratchet: what is longer still, by crate and name, with its lines. A number may only become
/// smaller, and nothing may be added.
const LONGER: &[(&str, &str, usize)] = &[("model", "Config::lay_out", 109)];

#[test]
fn functions_are_read_in_one_go() {
    let mut report = Report::new("a function has at most 100 lines");
    let known: BTreeMap<(&str, &str), usize> =
        LONGER.iter().map(|(krate, name, lines)| ((*krate, *name), *lines)).collect();
    let mut met = BTreeMap::new();
    for krate in source::crates() {
        for source in source::sources(&krate) {
            for function in functions(&source) {
                let Function { name, line, lines } = function;
                let allowed = known.get(&(&*krate, &*name)).copied();
                if allowed.is_some() {
                    // Of those that share a name, the longest is meant.
                    let longest = met.entry((krate.clone(), name.clone())).or_insert(lines);
                    *longest = lines.max(*longest);
                }
                if lines > allowed.unwrap_or(MOST) {
                    let what = format!(
                        "{name} has {lines} lines; split it into parts that are one idea each, \
                         and named for it"
                    );
                    report.add(&source.path, line, what);
                }
            }
        }
    }
    for (krate, name, allowed) in LONGER {
        let place = "tests/tidy/functions.rs";
        match met.get(&((*krate).to_owned(), (*name).to_owned())) {
            None => report.add_to(place, format!("{krate} has no {name} any more; strike it off")),
            Some(lines) if *lines <= MOST => {
                report.add_to(
                    place,
                    format!("{krate}'s {name} is no longer than others; strike it off"),
                );
            }
            Some(lines) if lines < allowed => {
                report.add_to(place, format!("{krate}'s {name} has {lines} lines now; write that"));
            }
            Some(_) => {}
        }
    }
    report.end();
}

/// A function with a body.
struct Function {
    /// With its type's, if it has one.
    name: String,
    line: usize,
    lines: usize,
}

fn functions(source: &Source) -> Vec<Function> {
    let mut visitor = Functions { of: None, found: Vec::new() };
    visitor.visit_file(&source.code);
    visitor.found
}

struct Functions {
    of: Option<String>,
    found: Vec<Function>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let name = match &self.of {
            Some(of) => format!("{of}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        let line = signature.span().start().line;
        self.found.push(Function { name, line, lines: block.span().end().line + 1 - line });
    }

    fn within<T>(&mut self, of: Option<String>, node: &T, visit: fn(&mut Functions, &T)) {
        let outer = std::mem::replace(&mut self.of, of);
        visit(self, node);
        self.of = outer;
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let of = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.within(of, item, |visitor, item| visit::visit_item_impl(visitor, item));
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        let of = Some(item.ident.to_string());
        self.within(of, item, |visitor, item| visit::visit_item_trait(visitor, item));
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig, &item.block);
        self.within(None, item, |visitor, item| visit::visit_item_fn(visitor, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        self.within(None, item, |visitor, item| visit::visit_impl_item_fn(visitor, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[test]
fn lines_of_functions_are_counted() {
    let text = "impl<T> a::B<T> {\n    /// Long\n    /// words.\n    #[inline]\n    fn c(\n        \
                self,\n    ) {\n        fn d() {\n        }\n    }\n}\n";
    let source = Source { path: "crates/a/src/a.rs".into(), code: syn::parse_file(text).unwrap() };
    let found: Vec<_> =
        functions(&source).into_iter().map(|it| (it.name, it.line, it.lines)).collect();
    assert_eq!(found, [("B::c".to_owned(), 5, 6), ("d".to_owned(), 8, 2)]);
}
