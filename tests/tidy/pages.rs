//! Pages are short, and their links lead somewhere.
//!
//! Words are those between blanks, tables and code included. The generated pages and `docs/notes`
//! are not counted.

use crate::report::Report;
use crate::source;
use std::collections::BTreeSet;
use std::fs;

/// Words of README.md, ARCHITECTURE.md and `docs`.
const WORDS_MAX: usize = 52_100;
const OF_ARCHITECTURE: usize = 2_615;
/// Words of a paragraph.
const OF_PARAGRAPH: usize = 100;
/// Made by tests, of what is in the code.
const GENERATED: &[&str] = &["docs/evidence.md", "docs/fio-options.md", "docs/reference.md"];

/// The pages that people read, from the root of the repository.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "python/README.md"]
            .map(str::to_owned)
            .into();
    for folder in ["docs", "docs/notes"] {
        let entries = fs::read_dir(source::root().join(folder)).expect("there are pages");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        pages.extend(names.filter(|it| it.ends_with(".md")).map(|it| format!("{folder}/{it}")));
    }
    pages.sort();
    pages
}

#[test]
fn pages_are_short() {
    let mut report = Report::new("pages are short");
    let is_counted = |page: &str| {
        (page.starts_with("docs/") || page == "README.md" || page == "ARCHITECTURE.md")
            && !page.starts_with("docs/notes/")
            && !GENERATED.contains(&page)
    };
    let mut all = 0;
    for page in pages().iter().filter(|page| is_counted(page)) {
        let text = source::read(page);
        let words = text.split_whitespace().count();
        all += words;
        if page == "ARCHITECTURE.md" && words > OF_ARCHITECTURE {
            report.add_to(page, format!("{words} words, {OF_ARCHITECTURE} is the most"));
        }
        for (line, paragraph) in paragraphs(&text) {
            let words = paragraph.split_whitespace().count();
            if words > OF_PARAGRAPH {
                let what = format!("a paragraph of {words} words, {OF_PARAGRAPH} is the most");
                report.add(page, line, what);
            }
        }
    }
    if all > WORDS_MAX {
        report.add_to("docs", format!("{all} words, {WORDS_MAX} is the most"));
    }
    report.end();
}

/// The paragraphs of a page, each with its line: no tables, code, headings or lists' further items.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let (mut is_code, mut goes_on) = (false, false);
    for (n, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            (is_code, goes_on) = (!is_code, false);
            continue;
        }
        let is_item =
            trimmed.starts_with("- ") || trimmed.starts_with("* ") || is_numbered(trimmed);
        let ends =
            trimmed.is_empty() || trimmed.starts_with(['|', '#']) || line.starts_with("    ");
        if is_code || ends && !(goes_on && line.starts_with("    ") && !trimmed.is_empty()) {
            goes_on = false;
            continue;
        }
        match paragraphs.last_mut().filter(|_| goes_on && !is_item) {
            Some((_, paragraph)) => *paragraph += &format!(" {trimmed}"),
            None => paragraphs.push((n + 1, trimmed.to_owned())),
        }
        goes_on = true;
    }
    paragraphs
}

fn is_numbered(line: &str) -> bool {
    let rest = line.trim_start_matches(|it: char| it.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with(". ")
}

#[test]
fn links_lead_somewhere() {
    let mut report = Report::new("links of pages lead somewhere");
    for page in pages() {
        let text = source::read(&page);
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, link) in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = if path.is_empty() { page.clone() } else { joined(folder, path) };
            if !source::root().join(&path).exists() {
                report.add(&page, line, format!("there is no {path}"));
            } else if !anchor.is_empty() && path.ends_with(".md") {
                let anchors = anchors(&source::read(&path));
                if !anchors.contains(anchor) {
                    report.add(&page, line, format!("{path} has no heading #{anchor}"));
                }
            }
        }
    }
    let summary: BTreeSet<String> =
        links(&source::read("docs/SUMMARY.md")).into_iter().map(|(_, link)| link).collect();
    let of_book = |page: &String| {
        let page = page.strip_prefix("docs/")?;
        (!page.contains('/') && page != "SUMMARY.md").then(|| page.to_owned())
    };
    for page in pages().iter().filter_map(of_book).filter(|page| !summary.contains(page)) {
        report.add_to("docs/SUMMARY.md", format!("{page} is not in it"));
    }
    report.end();
}

/// The relative links of a page outside of code, each with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut is_code = false;
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for part in line.split("](").skip(1) {
            let link = part.split(')').next().unwrap_or_default();
            if !link.contains("://") && !link.starts_with("mailto:") {
                links.push((n + 1, link.to_owned()));
            }
        }
    }
    links
}

/// `path` as it is seen from `folder`, from the root.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The names that GitHub and mdBook give a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = text.lines().filter(|line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code && line.starts_with('#')
    });
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn pages_are_read() {
    let text = "# One\nA b\nc.\n\n- d\n  e\n- f\n\n```\n# g [x](y)\n```\n| [h](a.md#b-c) |\n\n    i j\n1. k\n";
    let paragraphs: Vec<(usize, String)> = paragraphs(text);
    let found: Vec<(usize, &str)> = paragraphs.iter().map(|(n, it)| (*n, &**it)).collect();
    assert_eq!(found, [(2, "A b c."), (5, "- d e"), (7, "- f"), (15, "1. k")]);
    assert_eq!(links(text), [(12, "a.md#b-c".to_owned())]);
    assert_eq!(joined("docs/notes", "../../README.md"), "README.md");
    assert_eq!(anchor("Over time: `--intervals`"), "over-time---intervals");
    assert_eq!(anchors(text), BTreeSet::from(["one".to_owned()]));
}
