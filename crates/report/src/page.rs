//! What all pages have in common: one HTML file that needs nothing else, for the light and the dark.

use quick_xml::escape::escape;
use std::fmt::{Result, Write};

/// Style sheet that all pages share.
const STYLE: &str = include_str!("page/style.css");

/// Begins a page of some `kind` of document, with a style of its own beside that of all.
///
/// # Errors
/// Those of `out`.
pub fn begin(out: &mut String, title: &str, kind: &str, more_style: &str) -> Result {
    let title = escape(title);
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title} · Mynah {kind}</title>\n<style>\n{STYLE}{more_style}</style>\n</head>\n\
         <body>\n<main>"
    )
}

/// Ends it.
///
/// # Errors
/// Those of `out`.
pub fn end(out: &mut String) -> Result {
    writeln!(out, "</main>\n</body>\n</html>")
}

/// A paragraph that stands out.
///
/// # Errors
/// Those of `out`.
pub fn alarm(out: &mut String, what: &str, text: &str) -> Result {
    let (what, text) = (escape(what), escape(text));
    writeln!(out, "<p class=\"alarm\"><strong>{what}:</strong> {text}</p>")
}
