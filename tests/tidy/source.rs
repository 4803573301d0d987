//! The crates' source files, parsed, without the code that only tests compile.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit_mut::{self, VisitMut};

/// A source file.
pub(crate) struct Source {
    /// Its path from the root of the repository.
    pub(crate) path: String,
    /// What is in it, without test code.
    pub(crate) code: syn::File,
}

impl Source {
    /// Its path from its crate's `src/`.
    pub(crate) fn in_crate(&self) -> &str {
        self.path.split_once("/src/").map_or(&*self.path, |(_, path)| path)
    }

    /// All identifiers of its code, those in macros' arguments too; comments have none.
    pub(crate) fn identifiers(&self) -> Vec<Ident> {
        let mut idents = Vec::new();
        collect(self.code.to_token_stream(), &mut idents);
        idents
    }
}

fn collect(tokens: TokenStream, idents: &mut Vec<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => idents.push(ident),
            // Doc comments are attributes; their text is a literal.
            TokenTree::Group(group) => collect(group.stream(), idents),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The line at which an identifier stands.
pub(crate) fn line(ident: &Ident) -> usize {
    ident.span().start().line
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file's text.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of the folders in `crates/`.
pub(crate) fn crates() -> Vec<String> {
    let mut names: Vec<String> = entries("crates")
        .into_iter()
        .filter(|name| root().join("crates").join(name).join("Cargo.toml").is_file())
        .collect();
    names.sort();
    assert!(names.len() > 3, "the crates are not in {}", root().display());
    names
}

/// The paths of all Rust files in a crate's `src/`, from the root of the repository.
pub(crate) fn paths(krate: &str) -> Vec<String> {
    let mut paths = Vec::new();
    walk(&format!("crates/{krate}/src"), &mut paths);
    paths.sort();
    paths
}

fn walk(folder: &str, paths: &mut Vec<String>) {
    for name in entries(folder) {
        let path = format!("{folder}/{name}");
        if root().join(&path).is_dir() {
            walk(&path, paths);
        } else if path.ends_with(".rs") {
            paths.push(path);
        }
    }
}

fn entries(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder));
    let entries = entries.unwrap_or_else(|error| panic!("{folder}: {error}"));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A crate's source files but for those that only tests compile.
pub(crate) fn sources(krate: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut of_tests = BTreeSet::new();
    for path in paths(krate) {
        let file = syn::parse_file(&read(&path)).unwrap_or_else(|error| {
            panic!("{path}:{}: {error}", error.span().start().line);
        });
        let (code, modules) = without_tests(file);
        for module in modules {
            of_tests.insert(format!("{}{module}", folder_of_children(&path)));
        }
        sources.push(Source { path, code });
    }
    sources.retain(|source| {
        let module = source.path.trim_end_matches(".rs");
        !of_tests.iter().any(|of_tests| {
            module
                .strip_prefix(&**of_tests)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    });
    sources
}

/// Where the files of the modules lie that the file at `path` declares, with a slash at its end;
/// empty for the folder from which the path begins.
pub(crate) fn folder_of_children(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => path.trim_end_matches(name).to_owned(),
        _ => format!("{}/", path.trim_end_matches(".rs")),
    }
}

/// A file without what is `#[cfg(test)]`, and the modules among that which lie in other files.
fn without_tests(mut file: syn::File) -> (syn::File, Vec<String>) {
    let mut strip = Strip { modules: Vec::new() };
    strip.visit_file_mut(&mut file);
    (file, strip.modules)
}

struct Strip {
    modules: Vec<String>,
}

impl Strip {
    fn items(&mut self, items: &mut Vec<syn::Item>) {
        items.retain(|item| {
            let kept = !is_test(attributes(item));
            if let (false, syn::Item::Mod(module)) = (kept, item)
                && module.content.is_none()
            {
                self.modules.push(module.ident.to_string());
            }
            kept
        });
    }
}

impl VisitMut for Strip {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        self.items(&mut file.items);
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            self.items(items);
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        item.items.retain(|item| match item {
            syn::ImplItem::Const(it) => !is_test(&it.attrs),
            syn::ImplItem::Fn(it) => !is_test(&it.attrs),
            syn::ImplItem::Type(it) => !is_test(&it.attrs),
            syn::ImplItem::Macro(it) => !is_test(&it.attrs),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, item);
    }

    fn visit_attribute_mut(&mut self, attribute: &mut syn::Attribute) {
        // Whatever else may be left out for tests has to be left out here as well.
        let test = is_test(std::slice::from_ref(attribute));
        assert!(
            !test,
            "tests/tidy/source.rs does not leave this out: {}",
            attribute.to_token_stream()
        );
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(it) => &it.attrs,
        syn::Item::Enum(it) => &it.attrs,
        syn::Item::Fn(it) => &it.attrs,
        syn::Item::Impl(it) => &it.attrs,
        syn::Item::Macro(it) => &it.attrs,
        syn::Item::Mod(it) => &it.attrs,
        syn::Item::Static(it) => &it.attrs,
        syn::Item::Struct(it) => &it.attrs,
        syn::Item::Trait(it) => &it.attrs,
        syn::Item::Type(it) => &it.attrs,
        syn::Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

#[test]
fn test_code_is_left_out() {
    let file = syn::parse_file(
        "fn kept() {} #[cfg(test)] mod tests; #[cfg(test)] fn helper() {} \
         #[cfg(test)] mod more { mod inner; } mod other { #[cfg(test)] use a::b; } \
         impl A { #[cfg(test)] fn for_tests() {} fn in_use() {} }",
    );
    let (code, modules) = without_tests(file.unwrap());
    let source = Source { path: "crates/a/src/a.rs".into(), code };
    let idents: Vec<String> = source.identifiers().iter().map(ToString::to_string).collect();
    assert_eq!(idents, ["fn", "kept", "mod", "other", "impl", "A", "fn", "in_use"]);
    assert_eq!(modules, ["tests"]);
    assert_eq!(source.in_crate(), "a.rs");
    assert_eq!(folder_of_children("crates/a/src/lib.rs"), "crates/a/src/");
    assert_eq!(folder_of_children("lib.rs"), "");
    assert_eq!(folder_of_children("crates/a/src/b/c.rs"), "crates/a/src/b/c/");
}
