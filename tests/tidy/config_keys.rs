//! What the model says of a drive that it cannot build names keys of drive files, so that people find
//! what they have written.

use crate::report::Report;
use crate::source;
use syn::LitStr;
use syn::visit::{self, Visit};

/// Where the model's checks stand.
const CHECKS: [&str; 3] = ["validate.rs", "victim.rs", "config/ethernet.rs"];

#[test]
fn the_model_names_keys_of_drive_files() {
    let mut report = Report::new("the model's checks name keys of drive files");
    let reference = source::read("docs/reference.md").replace("[]", "");
    let mut count = 0;
    for source in source::sources("model") {
        if !CHECKS.contains(&source.in_crate()) {
            continue;
        }
        let mut keys = Keys::default();
        keys.visit_file(&source.code);
        for (line, key) in keys.0 {
            count += 1;
            if !reference.contains(&format!("\n| `{key}` | ")) {
                report.add(&source.path, line, format!("`{key}` is no key of drive files"));
            }
        }
    }
    assert!(count > 80, "{count} keys");
    report.end();
}

/// Literals with words between dots, with their lines.
#[derive(Default)]
struct Keys(Vec<(usize, String)>);

impl Visit<'_> for Keys {
    fn visit_lit_str(&mut self, literal: &LitStr) {
        let text = literal.value();
        let is_word = |word: &str| {
            !word.is_empty() && word.chars().all(|it| it == '_' || it.is_ascii_lowercase())
        };
        if text.contains('.') && text.split('.').all(is_word) {
            self.0.push((literal.span().start().line, text));
        }
        visit::visit_lit_str(self, literal);
    }
}
