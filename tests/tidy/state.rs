//! Parts own their state: no more fields of the large structs can be touched from other files.

use crate::report::Report;
use crate::source;
use syn::visit::{self, Visit};

/// A ratchet: how many fields other files can touch, of which struct in which crate. A number may
/// only become smaller. A part that has its state to itself is entered with 0.
const TOUCHABLE: &[(&str, &str, usize)] = &[
    ("model", "Drive", 8),
    ("model", "Host", 0),
    ("model", "Cache", 0),
    ("model", "Ftl", 0),
    ("model", "Flash", 0),
    ("model", "Observe", 0),
    ("device", "Subsystem", 1),
];

#[test]
fn parts_own_their_state() {
    let mut report = Report::new("other files touch no more fields than before (pub, pub(…))");
    for (krate, name, allowed) in TOUCHABLE {
        let mut structs = Structs { name, found: Vec::new() };
        let mut place = String::new();
        for source in source::sources(krate) {
            structs.visit_file(&source.code);
            if place.is_empty() && !structs.found.is_empty() {
                place = source.path;
            }
        }
        let [(line, fields)] = &structs.found[..] else {
            let count = structs.found.len();
            report.add_to("tests/tidy/state.rs", format!("{krate} has {count} structs {name}"));
            continue;
        };
        let (line, count) = (*line, fields.len());
        if count > *allowed {
            let what = format!(
                "{count} fields of {name} can be touched from other files, {allowed} is the most; \
                 make them private and give the part a method: {}",
                fields.join(", ")
            );
            report.add(&place, line, what);
        } else if count < *allowed {
            let what =
                format!("{count} fields of {krate}'s {name} are left of {allowed}; write that");
            report.add_to("tests/tidy/state.rs", what);
        }
    }
    report.end();
}

fn is_of_itself(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Restricted(within) if within.path.is_ident("self"))
}

/// The structs of a name: their lines, and their fields that are not private.
struct Structs<'a> {
    name: &'a str,
    found: Vec<(usize, Vec<String>)>,
}

impl Visit<'_> for Structs<'_> {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        if item.ident == self.name {
            let open = item.fields.iter().enumerate().filter(|(_, field)| {
                // `pub(self)` is private.
                !matches!(&field.vis, syn::Visibility::Inherited) && !is_of_itself(&field.vis)
            });
            let names = open.map(|(n, field)| match &field.ident {
                Some(ident) => ident.to_string(),
                None => n.to_string(),
            });
            self.found.push((source::line(&item.ident), names.collect()));
        }
        visit::visit_item_struct(self, item);
    }
}

#[test]
fn fields_that_are_not_private_are_counted() {
    let text = "struct A { a: u8, pub b: u8, pub(crate) c: u8, pub(in x::y) d: u8, \
                pub(self) e: u8 }\n\
                mod m { struct A(pub(super) u8, u8); }";
    let mut structs = Structs { name: "A", found: Vec::new() };
    structs.visit_file(&syn::parse_file(text).unwrap());
    let [(1, first), (2, second)] = &structs.found[..] else { panic!("{:?}", structs.found) };
    assert_eq!(
        (&first[..], &second[..]),
        (&["b", "c", "d"].map(String::from)[..], &["0".to_owned()][..])
    );
}
