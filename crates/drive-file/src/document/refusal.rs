//! What the TOML parser or a type refuses, in the words of drive files: with its path, and what is
//! valid there.

use super::{Document, Problem, choices, keys_of};
use std::ops::Range;

/// The mistake that the TOML parser or a type found.
pub(super) fn problem(
    document: &Document<'_>,
    message: &str,
    span: Option<Range<usize>>,
) -> Problem {
    let span = span.unwrap_or(0..0);
    let quoted = message.split('`').skip(1).step_by(2).collect();
    let path = document.path_at(&span);
    let refusal = Refusal { document, message, quoted, path, span };
    let known = refusal
        .unknown_key()
        .or_else(|| refusal.unknown_value())
        .or_else(|| refusal.value_for_section())
        .or_else(|| refusal.missing_key())
        .or_else(|| refusal.value_for_list());
    known.unwrap_or_else(|| refusal.other())
}

/// A message of the parser, and where it points.
struct Refusal<'a> {
    document: &'a Document<'a>,
    message: &'a str,
    /// What it has between backticks.
    quoted: Vec<&'a str>,
    path: String,
    span: Range<usize>,
}

impl Refusal<'_> {
    fn problem(&self, message: String, label: &str, help: Option<String>) -> Problem {
        self.document.problem(message, self.span.clone(), label, help)
    }

    fn unknown_key(&self) -> Option<Problem> {
        if !self.message.starts_with("unknown field") {
            return None;
        }
        let (key, valid) = self.quoted.split_first()?;
        let section = self.path.rsplit_once('.').map_or("", |(section, _)| section);
        let suffix = format!(".{key}");
        let elsewhere: Vec<String> = crate::key_paths()
            .into_iter()
            .filter(|path| path.ends_with(&suffix))
            .map(|path| format!("`{path}`"))
            .collect();
        let mut help = choices(key, valid, "keys");
        if !elsewhere.is_empty() {
            help = format!("there is {}\n{help}", elsewhere.join(", "));
        }
        let message = format!("unknown key `{key}` in {}", place(section));
        Some(self.problem(message, "not a key", Some(help)))
    }

    fn unknown_value(&self) -> Option<Problem> {
        let place = place(&self.path);
        let refuse = |found: &str, valid: &[&str]| {
            let help = choices(found, valid, "values");
            self.problem(format!("{place} cannot be `{found}`"), "not a valid value", Some(help))
        };
        if self.message.starts_with("unknown variant")
            && let Some((found, valid)) = self.quoted.split_first()
        {
            return Some(refuse(found, valid));
        }
        let (_, words) = self.message.split_once(", expected one of `")?;
        let words: Vec<&str> = words.trim_end_matches('`').split("`, `").collect();
        Some(refuse(&self.document.value_text(&self.span), &words))
    }

    fn value_for_section(&self) -> Option<Problem> {
        let message = self.message;
        if !(message.starts_with("invalid type") && message.contains(", expected struct ")) {
            return None;
        }
        let (path, found) = (&self.path, self.document.value_text(&self.span));
        let message = format!("{} is a section and needs a key: `{path}.KEY={found}`", place(path));
        let section = path.rsplit('.').next().unwrap_or(path);
        Some(self.problem(message, "here", keys_of(section)))
    }

    fn missing_key(&self) -> Option<Problem> {
        let key = *self.quoted.first().filter(|_| self.message.starts_with("missing field"))?;
        let missing = match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        let help = if is_section(key) {
            format!("add a section `[{missing}]`; `mynah drives show mqsim` is an example")
        } else {
            format!("add `{key} = …`; `mynah drives schema` describes every key")
        };
        Some(self.problem(format!("`{missing}` is missing"), "it belongs here", Some(help)))
    }

    fn value_for_list(&self) -> Option<Problem> {
        let message = self.message;
        if !(message.starts_with("invalid type") && message.ends_with(", expected a sequence")) {
            return None;
        }
        let path = self.path.as_str();
        let help = match path {
            "namespace" | "fault" => format!(
                "it is a list of sections: write `[[{path}]]` and its keys below, or `--set \
                 {path}.0.KEY=VALUE`"
            ),
            "wear.retries" => {
                "it is a list of points: write `[{cycles=0, mean=0.01}, {cycles=3000, \
                 mean=0.5}]`, say"
                    .to_owned()
            }
            "wear.decode" => {
                "it is a list of points: write `[{cycles=0, time=\"1us\"}, {cycles=3000, \
                 time=\"5us\"}]`, say"
                    .to_owned()
            }
            _ => "it is a list: write `[0, 1]`, say".to_owned(),
        };
        let found = self.document.value_text(&self.span);
        let message = format!("{} cannot be `{found}`", place(path));
        Some(self.problem(message, "not a list", Some(help)))
    }

    fn other(&self) -> Problem {
        let message = self
            .message
            .trim()
            .replace("expected u32", "expected a whole number from 0 to 4294967295")
            .replace("expected u64", "expected a whole number from 0 to 18446744073709551615");
        let message = match self.path.as_str() {
            "" => message,
            path => format!("{path}: {message}"),
        };
        self.problem(message, "here", None)
    }
}

/// A section as messages name it.
fn place(path: &str) -> String {
    match path {
        "" => "a drive file".to_owned(),
        section => format!("`{section}`"),
    }
}

/// The keys of a drive file that are sections and cannot be left out.
fn is_section(key: &str) -> bool {
    matches!(key, "geometry" | "flash" | "bus" | "link")
}
