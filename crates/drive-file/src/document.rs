//! A drive file and its `--set` overrides as one document, and messages that point into it.
//!
//! Each text (the file, then every override) is a layer with its own range of byte offsets,
//! so a span says where a value was written however the layers were merged.

mod read;
mod refusal;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use serde_spanned::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Why a drive cannot be used: one or more mistakes, each with its place and how to mend it.
#[derive(Debug)]
pub struct DriveError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    first: Problem,
    rest: Vec<Problem>,
}

/// One mistake.
#[derive(Debug)]
pub(super) struct Problem {
    message: String,
    source: Option<Arc<NamedSource<String>>>,
    labels: Vec<LabeledSpan>,
    help: Option<String>,
    /// Offset in the document, for the order in which mistakes are shown.
    offset: usize,
}

impl Problem {
    /// A mistake that stands in no text.
    pub(super) fn nowhere(message: String, help: Option<String>) -> Problem {
        Problem { message, source: None, labels: Vec::new(), help, offset: 0 }
    }
}

impl DriveError {
    /// The error of at least one mistake.
    pub(super) fn new(mut problems: Vec<Problem>) -> DriveError {
        problems.sort_by_key(|problem| problem.offset);
        let mut problems = problems.into_iter();
        let first = problems.next().expect("an error has a reason");
        DriveError(Box::new(Inner { first, rest: problems.collect() }))
    }

    /// What is wrong, one text for each mistake, without places.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.0.first).chain(&self.0.rest).map(|problem| problem.message.as_str())
    }
}

impl From<Problem> for DriveError {
    fn from(problem: Problem) -> DriveError {
        DriveError::new(vec![problem])
    }
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.first.message)
    }
}

impl std::error::Error for DriveError {}

impl Diagnostic for DriveError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.first.help()
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.first.source_code()
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.0.first.labels()
    }
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        if self.0.rest.is_empty() {
            return None;
        }
        Some(Box::new(self.0.rest.iter().map(|problem| problem as &dyn Diagnostic)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        if self.labels.is_empty() {
            return None;
        }
        Some(Box::new(self.labels.iter().cloned()))
    }
}

/// An override as TOML: as it was typed, or with its value in quotes if only that is TOML,
/// so that `flash.read=75us` needs no quotes.
pub fn override_text(assignment: &str) -> String {
    let verbatim = DeTable::parse(assignment).is_ok_and(|table| table.get_ref().len() == 1);
    match assignment.split_once('=') {
        Some((key, value)) if !verbatim => {
            format!("{key}={}", toml::Value::String(value.trim().to_owned()))
        }
        _ => assignment.to_owned(),
    }
}

/// One text of the document.
struct Layer {
    source: Arc<NamedSource<String>>,
    start: usize,
    len: usize,
}

/// A file with its overrides.
pub(super) struct Document<'i> {
    /// What overrides are called: `--set`, or as the front end spells it.
    set: &'static str,
    layers: Vec<Layer>,
    root: Spanned<DeTable<'i>>,
}

impl<'i> Document<'i> {
    /// Where it says that it is an experiment file.
    pub(super) fn experiment_schema(&self) -> Option<Range<usize>> {
        let schema = self.root.get_ref().get("schema")?;
        let name = schema.get_ref().as_str()?;
        name.starts_with("mynah.experiment/").then(|| schema.span())
    }

    /// Reads `text`, which errors call `name`.
    pub(super) fn parse(
        name: &str,
        text: &'i str,
        set: &'static str,
    ) -> Result<Document<'i>, Problem> {
        let root = Spanned::new(0..text.len(), DeTable::new());
        let mut document = Document { set, layers: Vec::new(), root };
        document.add_layer(name, text);
        let parsed = DeTable::parse(text)
            .map_err(|error| refusal::problem(&document, error.message(), error.span()))?;
        document.root = Spanned::new(0..text.len(), parsed.into_inner());
        Ok(document)
    }

    fn add_layer(&mut self, name: &str, text: &str) -> usize {
        let start = self.layers.last().map_or(0, |layer| layer.start + layer.len + 1);
        let source = Arc::new(NamedSource::new(name, text.to_owned()));
        self.layers.push(Layer { source, start, len: text.len() });
        start
    }

    /// Merges an override as given with `--set`. `text` is its [`override_text`].
    pub(super) fn set(&mut self, assignment: &str, text: &'i str) -> Result<(), Problem> {
        let set = self.set;
        let Some((key, _)) = assignment.split_once('=') else {
            let start = self.add_layer(set, assignment);
            return Err(self.problem(
                format!("`{set} {assignment}` has no value"),
                start..start + assignment.len(),
                "expected KEY=VALUE",
                Some(format!("for example `{set} geometry.channels=16`")),
            ));
        };
        let start = self.add_layer(set, text);
        let parsed = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..key.len());
            self.problem(
                format!("`{set} {assignment}`: `{key}` is not a key"),
                start + span.start..start + span.end,
                "here",
                Some(format!("write sections and keys with dots: `{set} flash.read=75us`")),
            )
        })?;
        let table = shift_table(parsed.into_inner(), start);
        let mut root = std::mem::take(self.root.get_mut());
        let merged = merge_table(&mut root, table);
        *self.root.get_mut() = root;
        merged.map_err(|blocked| {
            self.problem(
                format!("`{set} {assignment}`: {}", blocked.reason),
                blocked.span,
                "this key",
                blocked.help,
            )
        })
    }

    /// Reads the document as a `T`.
    pub(super) fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, Problem> {
        read::read(&self.root)
            .map_err(|refused| refusal::problem(self, &refused.message, refused.span))
    }

    /// The layer that holds an offset: 0 is the file, others are overrides.
    pub(super) fn layer(&self, span: &Range<usize>) -> usize {
        self.layers.iter().rposition(|layer| layer.start <= span.start).unwrap_or(0)
    }

    /// A mistake at `span`.
    pub(super) fn problem(
        &self,
        message: String,
        span: Range<usize>,
        label: impl Into<String>,
        help: Option<String>,
    ) -> Problem {
        let layer = &self.layers[self.layer(&span)];
        let end = span.end.min(layer.start + layer.len).max(span.start);
        Problem {
            message,
            source: Some(Arc::clone(&layer.source)),
            labels: vec![LabeledSpan::new(
                Some(label.into()),
                span.start - layer.start,
                end - span.start,
            )],
            help,
            offset: span.start,
        }
    }

    /// Every path in the document and the span of its value (tables: of their header).
    /// Elements of arrays of tables are numbered: `namespace.0.size`.
    pub(super) fn paths(&self) -> BTreeMap<String, PathEntry> {
        let mut paths = BTreeMap::new();
        collect(self.root.get_ref(), "", &mut paths);
        paths
    }

    /// The text of a value as it was written.
    pub(super) fn value_text(&self, span: &Range<usize>) -> String {
        let layer = &self.layers[self.layer(span)];
        let text = layer.source.inner();
        text.get(span.start - layer.start..span.end - layer.start).unwrap_or_default().to_owned()
    }

    /// The `[sources]` table: key, span of the key, text.
    pub(super) fn sources(&self) -> Vec<(String, Range<usize>, String)> {
        let Some(DeValue::Table(table)) = self.root.get_ref().get("sources").map(Spanned::get_ref)
        else {
            return Vec::new();
        };
        table
            .iter()
            .filter_map(|(key, value)| {
                let text = value.get_ref().as_str()?;
                Some((key.get_ref().to_string(), key.span(), text.to_owned()))
            })
            .collect()
    }

    /// The path of the innermost key or value that covers `span`.
    pub(crate) fn path_at(&self, span: &Range<usize>) -> String {
        let covers = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        self.paths()
            .into_iter()
            .filter(|(_, entry)| covers(&entry.key) || covers(&entry.value))
            .max_by_key(|(path, _)| path.matches('.').count())
            .map_or_else(String::new, |(path, _)| path)
    }
}

/// Where a path stands.
#[derive(Clone, Debug)]
pub(super) struct PathEntry {
    /// The key.
    pub(super) key: Range<usize>,
    /// The value; of a table, its header.
    pub(super) value: Range<usize>,
    /// Whether it is a plain value.
    pub(super) leaf: bool,
}

fn collect<'i>(table: &DeTable<'i>, prefix: &str, paths: &mut BTreeMap<String, PathEntry>) {
    for (key, value) in table.iter() {
        let path = match prefix {
            "" => key.get_ref().to_string(),
            prefix => format!("{prefix}.{}", key.get_ref()),
        };
        collect_value(&path, key.span(), value, paths);
    }
}

fn collect_value<'i>(
    path: &str,
    key: Range<usize>,
    value: &Spanned<DeValue<'i>>,
    paths: &mut BTreeMap<String, PathEntry>,
) {
    let leaf = match value.get_ref() {
        DeValue::Table(table) => {
            collect(table, path, paths);
            false
        }
        DeValue::Array(array) if array.iter().any(|item| item.get_ref().is_table()) => {
            for (index, item) in array.iter().enumerate() {
                collect_value(&format!("{path}.{index}"), item.span(), item, paths);
            }
            false
        }
        _ => true,
    };
    paths.insert(path.to_owned(), PathEntry { key, value: value.span(), leaf });
}

/// The same table with every span moved by `by`.
fn shift_table<'i>(table: DeTable<'i>, by: usize) -> DeTable<'i> {
    table.into_iter().map(|(key, value)| (shift(key, by), shift_value(value, by))).collect()
}

fn shift<T>(spanned: Spanned<T>, by: usize) -> Spanned<T> {
    let span = spanned.span();
    Spanned::new(span.start + by..span.end + by, spanned.into_inner())
}

fn shift_value<'i>(value: Spanned<DeValue<'i>>, by: usize) -> Spanned<DeValue<'i>> {
    let value = shift(value, by);
    let span = value.span();
    let inner = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(shift_table(table, by)),
        DeValue::Array(array) => {
            let mut shifted = DeArray::new();
            for item in array.iter() {
                shifted.push(shift_value(item.clone(), by));
            }
            DeValue::Array(shifted)
        }
        other => other,
    };
    Spanned::new(span, inner)
}

/// An override that cannot be merged.
struct Blocked {
    span: Range<usize>,
    reason: String,
    help: Option<String>,
}

/// Lays `over` on `base`: tables are merged, everything else is replaced. A whole number as
/// a key chooses an element of an array of tables, the first free one appends.
fn merge_table<'i>(base: &mut DeTable<'i>, over: DeTable<'i>) -> Result<(), Blocked> {
    for (key, value) in over {
        // `Spanned` keys compare by their text.
        let Some(old) = base.get_mut(key.get_ref().as_ref()) else {
            let value = match value.get_ref() {
                DeValue::Table(table) if is_index(table) => {
                    let empty = Spanned::new(value.span(), DeValue::Array(DeArray::new()));
                    merge_value(empty, value, key.get_ref())?
                }
                _ => value,
            };
            base.insert(key, value);
            continue;
        };
        let taken = std::mem::replace(old, Spanned::new(0..0, DeValue::Boolean(false)));
        let backup = taken.clone();
        match merge_value(taken, value, key.get_ref()) {
            Ok(merged) => {
                // The key must point to where the value now comes from, or an error about
                // it would show the wrong text.
                base.remove(key.get_ref().as_ref());
                base.insert(key, merged);
            }
            Err(blocked) => {
                base.insert(key, backup);
                return Err(blocked);
            }
        }
    }
    Ok(())
}

/// Whether the only key of `table` is a whole number.
fn is_index(table: &DeTable<'_>) -> bool {
    table.len() == 1 && table.keys().all(|key| key.get_ref().parse::<usize>().is_ok())
}

fn merge_value<'i>(
    base: Spanned<DeValue<'i>>,
    over: Spanned<DeValue<'i>>,
    name: &str,
) -> Result<Spanned<DeValue<'i>>, Blocked> {
    let (base_span, over_span) = (base.span(), over.span());
    match (base.into_inner(), over.into_inner()) {
        // A cost of one kind takes the place of one of the other.
        (DeValue::Table(base), DeValue::Table(over))
            if base.contains_key("bytes") != over.contains_key("bytes")
                && matches!(name, "in" | "out") =>
        {
            Ok(Spanned::new(over_span, DeValue::Table(over)))
        }
        (DeValue::Table(mut base), DeValue::Table(over)) => {
            merge_table(&mut base, over)?;
            Ok(Spanned::new(base_span, DeValue::Table(base)))
        }
        (DeValue::Array(array), DeValue::Table(over)) if is_index(&over) => {
            let (key, value) = over.into_iter().next().expect("it has one key");
            let index: usize = key.get_ref().parse().expect("it is a number");
            let mut merged = DeArray::new();
            for item in array.iter().take(index) {
                merged.push(item.clone());
            }
            match array.get(index) {
                Some(old) => merged.push(merge_value(old.clone(), value, name)?),
                None if index == array.len() => merged.push(value),
                None => {
                    return Err(Blocked {
                        span: key.span(),
                        reason: format!(
                            "`{name}` has {} elements; the next is `{name}.{}`",
                            array.len(),
                            array.len()
                        ),
                        help: None,
                    });
                }
            }
            for item in array.iter().skip(index + 1) {
                merged.push(item.clone());
            }
            Ok(Spanned::new(base_span, DeValue::Array(merged)))
        }
        (base, DeValue::Table(over)) if !base.is_array() => {
            if one_or_each(name) {
                return Ok(Spanned::new(over_span, DeValue::Table(over)));
            }
            let reason = format!("`{name}` is a value and has no keys");
            Err(Blocked { span: over_span, reason, help: None })
        }
        (DeValue::Table(_), over) if !one_or_each(name) => Err(Blocked {
            span: over_span,
            reason: format!("`{name}` is a section and needs a key: `{name}.KEY={}`", text(&over)),
            help: keys_of(name),
        }),
        (_, over) => Ok(Spanned::new(over_span, over)),
    }
}

/// Help that lists the keys of a section.
fn keys_of(section: &str) -> Option<String> {
    let place = format!(".{section}.");
    let all = super::key_paths();
    let rest = |path: &str| {
        let at = format!(".{path}").find(&place)?;
        let key = format!(".{path}")[at + place.len()..].to_owned();
        (!key.contains('.')).then_some(key)
    };
    let mut keys: Vec<String> = all.iter().filter_map(|path| rest(path)).collect();
    keys.sort();
    keys.dedup();
    (!keys.is_empty()).then(|| format!("valid keys: {}", keys.join(", ")))
}

/// Whether `name` may be one time or a table of times: for each page type, or by the size of a
/// value or a command.
fn one_or_each(name: &str) -> bool {
    matches!(
        name,
        "read"
            | "program"
            | "store"
            | "update"
            | "retrieve"
            | "delete"
            | "exist"
            | "list"
            | "in"
            | "out"
    )
}

fn text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        _ => "VALUE".to_owned(),
    }
}

/// Help for a word that is not one of `valid`.
pub fn choices(found: &str, valid: &[&str], what: &str) -> String {
    let list = format!("valid {what}: {}", valid.join(", "));
    match nearest(found, valid) {
        Some(near) => format!("did you mean `{near}`?\n{list}"),
        None => list,
    }
}

/// The one of `valid` that `found` was probably meant to be.
pub fn nearest<'a>(found: &str, valid: &[&'a str]) -> Option<&'a str> {
    let lower = found.to_lowercase();
    valid
        .iter()
        .map(|word| (distance(&lower, &word.to_lowercase()), *word))
        .map(|(distance, word)| (if anagrams(&lower, word) { 1 } else { distance }, word))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, word)| *distance <= 1 + word.len().min(found.len()) / 4)
        .map(|(_, word)| word)
        .or_else(|| {
            valid.iter().copied().find(|word| {
                found.len() >= 3 && (word.starts_with(&lower) || lower.starts_with(word))
            })
        })
}

/// Whether letters were only swapped.
fn anagrams(a: &str, b: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    sorted(a) == sorted(b)
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
