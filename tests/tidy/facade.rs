//! What programs of others may use, as `docs/versions.md` promises it, is small: the names at the root
//! of `mynah-lab`, each for itself.

use crate::report::Report;
use crate::source;
use syn::UseTree;

const NAMES_MAX: usize = 120;
const PATH: &str = "crates/lab/src/lib.rs";

#[test]
fn the_facade_is_small() {
    let mut report = Report::new("the root of mynah-lab names few things, each for itself");
    let code: syn::File = syn::parse_str(&source::read(PATH)).expect("it is Rust");
    let is_public = |vis: &syn::Visibility| matches!(vis, syn::Visibility::Public(_));
    let mut names = 0;
    for item in &code.items {
        match item {
            syn::Item::Use(item) if is_public(&item.vis) => match count(&item.tree) {
                Some(count) => names += count,
                None => report.add_to(PATH, "name what is re-exported, without `*` and `self`"),
            },
            syn::Item::Const(syn::ItemConst { vis, .. })
            | syn::Item::Fn(syn::ItemFn { vis, .. })
            | syn::Item::Struct(syn::ItemStruct { vis, .. })
            | syn::Item::Enum(syn::ItemEnum { vis, .. })
                if is_public(vis) =>
            {
                names += 1;
            }
            _ => {}
        }
    }
    assert!(names > 10, "{PATH} names nothing");
    if names > NAMES_MAX {
        report.add_to(PATH, format!("{names} names, {NAMES_MAX} is the most"));
    }
    report.end();
}

/// How many names a tree has; `None` if it has some that are not named.
fn count(tree: &UseTree) -> Option<usize> {
    match tree {
        UseTree::Path(path) => count(&path.tree),
        UseTree::Group(group) => group.items.iter().map(count).sum(),
        UseTree::Name(name) => (name.ident != "self").then_some(1),
        UseTree::Rename(name) => (name.ident != "self").then_some(1),
        UseTree::Glob(_) => None,
    }
}

#[test]
fn names_are_counted() {
    let tree = |text: &str| syn::parse_str::<UseTree>(text).unwrap();
    assert_eq!(count(&tree("a::{b, c::{D, E as F}}")), Some(3));
    assert_eq!(count(&tree("a::{self as b, c}")), None);
    assert_eq!(count(&tree("a::*")), None);
}
