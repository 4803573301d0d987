//! Results as other programs leave them: with notes, warnings and errors before, around and behind what
//! is meant to be read, since both were written to one place (fio writes some of its to standard output,
//! where its JSON goes, too). What is no part of the result is read past, and quoted in a warning.

use crate::input::{FileError, Text};
use serde::de::IgnoredAny;

/// Places at which an object may begin are tried so often.
const TRIED: usize = 16;
/// Lines that are quoted before and behind a result.
const QUOTED: usize = 3;
/// The longest quote, in characters.
const QUOTE: usize = 160;

/// A result in a text, and what it was found among.
#[derive(Clone, Debug)]
pub struct Found<'t> {
    /// The result.
    pub text: &'t str,
    /// Where it begins.
    pub at: usize,
    /// What was read past.
    pub warnings: Vec<String>,
}

/// The JSON object in `text`, which is that of the file `name`. If there is none, `text` from where one
/// seems to begin: whoever reads it will say what is wrong.
///
/// # Errors
/// If there are several: nobody knows which is meant.
pub fn json<'t>(name: &str, text: &'t str) -> Result<Found<'t>, FileError> {
    let whole = |at: usize| Found { text: &text[at..], at, warnings: vec![] };
    let places = object_places(text);
    let Some((at, end)) = places.iter().find_map(|at| Some((*at, *at + object(&text[*at..])?)))
    else {
        return Ok(whole(places.first().copied().unwrap_or(0)));
    };
    let behind = &text[end..];
    let second = object_places(behind).into_iter().find(|at| object(&behind[*at..]).is_some());
    if let Some(second) = second {
        let error =
            Text { name, text }.error(end + second..end + second, "a second result begins here");
        return Err(error.with_help("leave the others out: fio writes one each --status-interval"));
    }
    let mut warnings = read_past(name, text, 0, at);
    warnings.extend(read_past(name, text, end, text.len()));
    Ok(Found { text: &text[at..end], at, warnings })
}

/// How long the object is that `text` begins with.
fn object(text: &str) -> Option<usize> {
    let mut objects = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    objects.next()?.ok()?;
    Some(objects.byte_offset())
}

/// Where objects may begin: where lines do with a brace, and at the first brace.
fn object_places(text: &str) -> Vec<usize> {
    let mut at = 0;
    let lines = text.split_inclusive(['\n', '\r']).map(|line| {
        let begin = at + (line.len() - line.trim_start_matches(['\u{feff}', ' ', '\t']).len());
        at += line.len();
        begin
    });
    let mut places: Vec<usize> =
        lines.filter(|begin| text[*begin..].starts_with('{')).take(TRIED).collect();
    places.extend(text.find('{').filter(|first| !places.contains(first)));
    places
}

/// Warnings of what stands in `text` from one place to another and is no part of a result.
pub fn read_past(name: &str, text: &str, from: usize, to: usize) -> Vec<String> {
    let mut number = text[..from].matches('\n').count();
    let mut lines = Vec::new();
    for line in text[from..to].split('\n') {
        number += 1;
        let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        if !line.is_empty() {
            lines.push((number, line));
        }
    }
    let quoted = lines.iter().take(QUOTED);
    let mut all: Vec<String> = quoted
        .map(|(number, line)| format!("{name}:{number}: read past `{}`", quote(line)))
        .collect();
    if let Some((number, _)) = lines.get(QUOTED) {
        let more = lines.len() - QUOTED;
        all.push(format!("{name}:{number}: read past {more} more such lines"));
    }
    all
}

/// A line as it can be shown.
fn quote(line: &str) -> String {
    let shown = line.chars().take(QUOTE).map(|c| if c.is_control() { ' ' } else { c });
    let more = if line.chars().nth(QUOTE).is_some() { "…" } else { "" };
    shown.collect::<String>() + more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (&str, Vec<String>) {
        let found = json("f", text).unwrap();
        assert_eq!(&text[found.at..found.at + found.text.len()], found.text);
        (found.text, found.warnings)
    }

    #[test]
    fn results_are_found_among_notes() {
        assert_eq!(found("{\"a\": 1}\n"), ("{\"a\": 1}", vec![]));
        assert_eq!(found(" \u{feff}{}"), ("{}", vec![]));
        let (text, warnings) =
            found("note: a\n\nfio: {b} \u{1b}[0m\n{\n \"a\": {}\n}\nfio: done\n");
        assert_eq!(text, "{\n \"a\": {}\n}");
        let said = ["f:1: read past `note: a`", "f:3: read past `fio: {b}  [0m`"];
        assert_eq!(warnings[..2], said);
        assert_eq!(warnings[2..], ["f:7: read past `fio: done`"]);
        // Lines that are written over, what only looks like an object, and one that begins late.
        assert_eq!(found("Jobs: 1\r{\"a\": 1}").0, "{\"a\": 1}");
        assert_eq!(found("{standard input}: x\n{\"a\": 1}").0, "{\"a\": 1}");
        assert_eq!(found("result: {\"a\": 1}").0, "{\"a\": 1}");
        let (_, warnings) = found(&format!("{}{{}}", "x\n".repeat(9)));
        assert_eq!(warnings[3..], ["f:4: read past 6 more such lines"]);
    }

    #[test]
    fn what_holds_no_result_is_left_as_it_is() {
        assert_eq!(found(""), ("", vec![]));
        assert_eq!(found("rw,bs\n"), ("rw,bs\n", vec![]));
        assert_eq!(found("note\n{\"a\": 1"), ("{\"a\": 1", vec![]));
        let error = json("f", "{\"a\": 1}\n{\"a\": 2}\n").unwrap_err();
        assert_eq!(error.to_string(), "f:2: a second result begins here");
    }
}
