//! Which file of a crate calls which.
//!
//! A file calls another if it calls a function, or names it with its path, that only that one
//! defines. Of several that a name could mean, those are left out that cannot be meant: private
//! ones of other files, functions after a dot, those of other types. If several files are left,
//! none is called, nor by a method that the standard library's types have as well. The types of
//! expressions are not known, so a method of another crate may be taken for the crate's own.

use crate::source::{self, Source};
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// Methods of the standard library that parts may have as well.
const COMMON: &[&str] = &[
    "add", "advance", "all", "any", "append", "clear", "clone", "collect", "contains", "copied",
    "count", "drain", "end", "entry", "extend", "fill", "filter", "finish", "first", "get",
    "get_mut", "insert", "is_empty", "iter", "iter_mut", "keys", "last", "len", "map", "max",
    "min", "next", "parse", "pop", "position", "push", "read", "remove", "replace", "reserve",
    "resize", "retain", "set", "sort", "split", "start", "sum", "swap", "take", "truncate",
    "values", "write",
];

/// Which file calls which, by their paths in the crate, and an example: the function's name and
/// the caller's line.
#[derive(Default)]
pub(crate) struct Calls(pub(crate) BTreeMap<String, BTreeMap<String, (String, usize)>>);

impl Calls {
    /// The calls within a crate.
    pub(crate) fn of(sources: &[Source]) -> Calls {
        let mut defined: BTreeMap<String, Vec<Definition<'_>>> = BTreeMap::new();
        for source in sources {
            let mut definitions = Definitions { file: source.in_crate(), of: None, found: vec![] };
            definitions.visit_file(&source.code);
            for (name, definition) in definitions.found {
                defined.entry(name).or_default().push(definition);
            }
        }
        let mut calls = Calls::default();
        for source in sources {
            let from = source.in_crate();
            let mut called = vec![];
            find_calls(without_uses(&source.code), &mut called);
            for (ident, form) in called {
                let name = ident.to_string();
                let Some(definitions) = defined.get(&name) else { continue };
                let meant = definitions.iter().filter(|it| it.can_be_meant(from, &form));
                let files: BTreeSet<&str> = meant.map(|it| it.file).collect();
                let [to] = files.into_iter().collect::<Vec<_>>()[..] else { continue };
                if to != from && !(form == Form::Method && COMMON.contains(&&*name)) {
                    let to_files = calls.0.entry(from.to_owned()).or_default();
                    to_files.entry(to.to_owned()).or_insert((name, source::line(&ident)));
                }
            }
        }
        calls
    }
}

/// Where a function with a body is defined.
struct Definition<'a> {
    file: &'a str,
    /// The type that it belongs to.
    of: Option<String>,
    has_self: bool,
    /// Only the file's own modules see it.
    is_private: bool,
}

impl Definition<'_> {
    fn can_be_meant(&self, from: &str, form: &Form) -> bool {
        let within = from.starts_with(&source::folder_of_children(self.file));
        let is_seen = !self.is_private || self.file == from || within;
        is_seen
            && match form {
                Form::Method => self.has_self,
                Form::Free => self.of.is_none(),
                Form::Of(of) if of == "Self" => self.of.is_some(),
                Form::Of(of) if of.starts_with(char::is_uppercase) => self.of.as_ref() == Some(of),
                Form::Of(_) => self.of.is_none(),
            }
    }
}

struct Definitions<'a> {
    file: &'a str,
    of: Option<String>,
    found: Vec<(String, Definition<'a>)>,
}

impl Definitions<'_> {
    fn add(&mut self, signature: &syn::Signature, visibility: &syn::Visibility) {
        let definition = Definition {
            file: self.file,
            of: self.of.clone(),
            has_self: signature.receiver().is_some(),
            is_private: matches!(visibility, syn::Visibility::Inherited),
        };
        self.found.push((signature.ident.to_string(), definition));
    }
}

impl<'a> Visit<'a> for Definitions<'_> {
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if let syn::Type::Path(of) = &*item.self_ty {
            self.of = of.path.segments.last().map(|last| last.ident.to_string());
        }
        // What a trait asks for is seen as far as the trait is, and called by its name.
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
        self.of = None;
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig, &item.vis);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig, &item.vis);
    }
}

/// The items of a file but for its imports, which name what the calls name again.
fn without_uses(file: &syn::File) -> TokenStream {
    let items = file.items.iter().filter(|item| !matches!(item, syn::Item::Use(_)));
    items.map(ToTokens::to_token_stream).collect()
}

/// How a function is named where it is called.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    /// After a dot.
    Method,
    /// By itself.
    Free,
    /// After the name of its type or module.
    Of(String),
}

/// Names before an argument list, and last names of paths.
fn find_calls(tokens: TokenStream, called: &mut Vec<(Ident, Form)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let before = |n: usize, by: usize| n.checked_sub(by).map(|n| &tokens[n]);
    let punct = |token: Option<&TokenTree>, c: char| match token {
        Some(TokenTree::Punct(punct)) => punct.as_char() == c,
        _ => false,
    };
    for (n, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => find_calls(group.stream(), called),
            TokenTree::Ident(ident) => {
                let defines =
                    matches!(before(n, 1), Some(TokenTree::Ident(before)) if before == "fn");
                let arguments = matches!(
                    tokens.get(n + 1),
                    Some(TokenTree::Group(it)) if it.delimiter() == Delimiter::Parenthesis
                );
                let goes_on = punct(tokens.get(n + 1), ':') && punct(tokens.get(n + 2), ':');
                let generic = goes_on && punct(tokens.get(n + 3), '<');
                let in_path = punct(before(n, 1), ':') && punct(before(n, 2), ':');
                // `a..b()` is none.
                let method = punct(before(n, 1), '.') && !punct(before(n, 2), '.');
                let form = match before(n, 3) {
                    Some(TokenTree::Ident(of)) if in_path => Form::Of(of.to_string()),
                    // Of a type with arguments, or a trait's.
                    _ if in_path => continue,
                    _ if method => Form::Method,
                    _ => Form::Free,
                };
                let by_path = in_path && !goes_on;
                if !defines && (arguments || generic || by_path) {
                    called.push((ident.clone(), form));
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}
