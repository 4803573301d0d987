//! Drives: one TOML file describes one, from the flash to the link.
//!
//! [`load`] reads a shipped drive by name or a file by path, lays `--set` overrides over it,
//! checks everything and gives the model's configuration. Every mistake is shown in the
//! text that it stands in, with what would be valid. Every number may say where it comes
//! from ([`DriveFile::show`]).
//!
//! This crate describes drives; it does not build or run them.

mod at;
mod caution;
mod check;
mod difference;
mod document;
pub mod fault;
pub mod foreign;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
pub mod input;
mod keys;
mod library;
mod lower;
mod moved;
mod render;
pub mod units;
mod way;

use std::fmt::Write;
use std::path::Path;

use mynah_model::ConfigError;
use mynah_model::config::Config;

use crate::fault::FaultError;

pub use caution::Caution;
pub use difference::{Difference, Differences, Remark, differences};
pub use document::DriveError;
use document::{Document, Problem};
pub use document::{choices, nearest, override_text};
pub use identity::{drive_hash, prepared_as, shaping};
pub use keys::declare::Shapes;
pub use keys::link::said_instead_of;
pub use keys::{FLIN, default_key_value, takes_pairs};
pub use library::{DEFAULT_DRIVE, DEFAULT_KEY_VALUE_DRIVE, Shipped, shipped};
pub use render::to_toml;

/// A drive that was read, checked and found possible.
#[derive(Clone, Debug)]
pub struct DriveFile {
    /// Its short name, as results show it.
    pub name: String,
    /// What drive this is.
    pub description: String,
    /// What the model runs on.
    pub config: Config,
    /// [`drive_hash`] of `config`.
    pub hash: String,
    /// The file as it was read, without the overrides.
    pub text: String,
    /// Where the text came from: a path, or `NAME (shipped)`.
    pub origin: String,
    /// The overrides, as given.
    pub overrides: Vec<String>,
    /// Every setting, with its source.
    settings: Vec<Sourced>,
}

/// A setting and where it comes from.
#[derive(Clone, Debug)]
struct Sourced {
    path: String,
    value: String,
    source: Source,
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// The file, which says where it has it from, or not.
    File(Option<String>),
    /// An override.
    Override,
    /// Nobody gave it.
    Default,
}

/// Reads the shipped drive or the file `name_or_path` with `overrides` (`KEY=VALUE`, later
/// ones win) laid over it.
///
/// # Errors
/// [`DriveError`] when there is no such drive, the file cannot be read, or it describes no
/// possible drive. It is a [`miette::Diagnostic`] with source, labels and help.
pub fn load(name_or_path: &str, overrides: &[String]) -> Result<DriveFile, DriveError> {
    load_naming(name_or_path, overrides, COMMAND)
}

/// As [`load`]; errors call overrides `set`.
///
/// # Errors
/// As [`load`].
pub fn load_naming(
    name_or_path: &str,
    overrides: &[String],
    set: &'static str,
) -> Result<DriveFile, DriveError> {
    if let Some(drive) = shipped().iter().find(|drive| drive.name == name_or_path) {
        let origin = format!("{} (shipped)", drive.name);
        return parse_naming(&origin, drive.text, overrides, set);
    }
    let path = Path::new(name_or_path);
    match input::read_text(path) {
        Ok(text) => parse_naming(name_or_path, &text, overrides, set),
        Err(error) => {
            let names: Vec<&str> = shipped().iter().map(|drive| drive.name).collect();
            let is_path = path.extension().is_some() || path.components().count() > 1;
            let message = if error.kind() != std::io::ErrorKind::NotFound {
                format!("cannot read the drive file `{name_or_path}`: {error}")
            } else if is_path {
                format!("there is no drive file `{name_or_path}`")
            } else {
                format!("there is no drive `{name_or_path}`")
            };
            let help = choices(name_or_path, &names, "drives");
            let help = format!("{help}, or the path of a drive file");
            Err(Problem::nowhere(message, Some(help)).into())
        }
    }
}

/// Reads the drive in `text`; errors call it `origin`.
///
/// # Errors
/// As [`load`].
pub fn parse(origin: &str, text: &str, overrides: &[String]) -> Result<DriveFile, DriveError> {
    parse_naming(origin, text, overrides, COMMAND)
}

/// What the command calls an override.
const COMMAND: &str = "--set";

/// As [`parse`]; errors call overrides `set`.
///
/// # Errors
/// As [`load`].
pub fn parse_naming(
    origin: &str,
    text: &str,
    overrides: &[String],
    set: &'static str,
) -> Result<DriveFile, DriveError> {
    let (file, config, settings) = read(origin, text, overrides, set)?;
    Ok(DriveFile {
        name: file.name.get().clone(),
        description: file.description.clone(),
        hash: drive_hash(&config),
        config,
        text: text.to_owned(),
        origin: origin.to_owned(),
        overrides: overrides.to_vec(),
        settings,
    })
}

/// What [`parse`] finds in the text.
fn read(
    origin: &str,
    text: &str,
    overrides: &[String],
    set: &'static str,
) -> Result<(keys::File, Config, Vec<Sourced>), DriveError> {
    let texts: Vec<String> = overrides.iter().map(|set| override_text(set)).collect();
    let mut document = Document::parse(origin, text, set)?;
    for (assignment, text) in overrides.iter().zip(&texts) {
        document.set(assignment, text)?;
    }
    if let Some(span) = document.experiment_schema() {
        let message = "this is an experiment, not a drive".to_owned();
        let help = format!("run it with `mynah sim {origin}`");
        return Err(document.problem(message, span, "not a drive's schema", Some(help)).into());
    }
    let file: keys::File = document.read()?;
    let config = lower::lower(&document, &file).map_err(DriveError::new)?;
    if let Err(error) = config.check() {
        return Err(impossible(&document, &error).into());
    }
    let settings = sourced(&document, &config)?;
    Ok((file, config, settings))
}

/// What the model says of a drive that it cannot build, in the words and at the place of the
/// file.
fn impossible(document: &Document<'_>, error: &ConfigError) -> Problem {
    let key = error.key;
    let message = format!("`{key}`: {}", error.problem);
    let paths = document.paths();
    // The key, or the innermost section that would hold it.
    let mut place = key;
    loop {
        if let Some(entry) = paths.get(place) {
            return document.problem(message, entry.value.clone(), "not possible", None);
        }
        match place.rsplit_once('.') {
            Some((section, _)) => place = section,
            None => return Problem::nowhere(message, Some(format!("change `{key}`"))),
        }
    }
}

/// The JSON Schema of drive files, for editors and for `mynah drives schema`.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(keys::File).to_value()
}

/// Every key of a drive file as a dotted path, without the indices of arrays.
fn key_paths() -> Vec<String> {
    fn walk(
        schema: &serde_json::Value,
        root: &serde_json::Value,
        prefix: &str,
        all: &mut Vec<String>,
    ) {
        let target = |schema: &serde_json::Value| {
            let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
            root.pointer(pointer).cloned()
        };
        if let Some(target) = target(schema) {
            walk(&target, root, prefix, all);
        }
        for alternative in schema.get("anyOf").and_then(|v| v.as_array()).into_iter().flatten() {
            walk(alternative, root, prefix, all);
        }
        if let Some(items) = schema.get("items") {
            walk(items, root, prefix, all);
        }
        for (key, value) in
            schema.get("properties").and_then(|v| v.as_object()).into_iter().flatten()
        {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            walk(value, root, &path, all);
            all.push(path);
        }
    }
    let schema = json_schema();
    let mut all = Vec::new();
    walk(&schema, &schema, "", &mut all);
    all
}

/// The settings of `config` with their sources; an error for a source of nothing.
fn sourced(document: &Document<'_>, config: &Config) -> Result<Vec<Sourced>, DriveError> {
    let mut settings = keys::settings(config);
    let paths = document.paths();
    // What the configuration does not keep, but the file said.
    let extra = ["bus.protocol", "link.generation"];
    for path in extra {
        let shown = settings.iter().any(|setting| setting.path == path);
        if let Some(entry) = paths.get(path).filter(|_| !shown) {
            let value = document.value_text(&entry.value);
            let section = path.split('.').next().unwrap_or(path);
            let place = settings.iter().position(|s| s.path.starts_with(section)).unwrap_or(0);
            let setting =
                keys::declare::Setting { path: path.to_owned(), value, shapes: Shapes::Always };
            settings.insert(place, setting);
        }
    }
    let sources = document.sources();
    let known: Vec<&str> = settings.iter().map(|s| s.path.as_str()).collect();
    let mut problems = Vec::new();
    for (key, span, text) in &sources {
        let exists = known.iter().any(|path| covers(key, path))
            || paths.keys().any(|path| covers(key, path) && !path.starts_with("sources"));
        if !exists {
            let help = nearest(key, &known).map(|near| format!("did you mean `{near}`?"));
            problems.push(document.problem(
                format!("a source for `{key}`, which the drive does not have"),
                span.clone(),
                "neither a key nor a section",
                help,
            ));
        }
        if text.trim().is_empty() {
            problems.push(document.problem(
                format!("the source of `{key}` is empty"),
                span.clone(),
                "says nothing",
                Some("name a publication or a file, or begin with `estimate`".to_owned()),
            ));
        }
    }
    if !problems.is_empty() {
        return Err(DriveError::new(problems));
    }
    let source_of = |path: &str| {
        sources
            .iter()
            .filter(|(key, _, _)| covers(key, path))
            .max_by_key(|(key, _, _)| key.len())
            .map(|(_, _, text)| text.clone())
    };
    let given = |path: &str| {
        // A page time may be given as one value or as a table of values.
        paths
            .iter()
            .filter(|(given, entry)| entry.leaf && covers(path, given))
            .map(|(_, entry)| document.layer(&entry.value))
            .max()
    };
    Ok(settings
        .into_iter()
        .map(|keys::declare::Setting { path, value, .. }| {
            let aliases: &[&str] = match path.as_str() {
                "link.bandwidth" => &["link.generation"],
                _ => &[],
            };
            let layer = given(&path).or_else(|| aliases.iter().find_map(|alias| given(alias)));
            let source = match layer {
                None => Source::Default,
                Some(0) => Source::File(source_of(&path)),
                Some(_) => Source::Override,
            };
            Sourced { path, value, source }
        })
        .collect())
}

/// Whether `key` is `path` or a section that holds it.
fn covers(key: &str, path: &str) -> bool {
    path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A setting of a drive, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'d> {
    /// Its dotted key.
    pub key: &'d str,
    /// Its value, as drive files have it.
    pub value: &'d str,
    /// `file`, `set` (an override) or `default`.
    pub origin: &'static str,
    /// What the file says of where it has it from.
    pub source: Option<&'d str>,
}

impl DriveFile {
    /// Every setting, in the order of drive files.
    pub fn settings(&self) -> impl Iterator<Item = Setting<'_>> {
        self.settings.iter().map(|Sourced { path, value, source }| {
            let (origin, source) = match source {
                Source::File(source) => ("file", source.as_deref()),
                Source::Override => ("set", None),
                Source::Default => ("default", None),
            };
            Setting { key: path, value, origin, source }
        })
    }

    /// Settings that stand in the file without a source.
    pub fn unsourced(&self) -> impl Iterator<Item = &str> {
        self.settings
            .iter()
            .filter(|setting| setting.source == Source::File(None))
            .map(|setting| setting.path.as_str())
    }

    /// Adds a fault, as given with `--fault SPEC`; it becomes part of the drive's hash.
    ///
    /// # Errors
    /// [`FaultError`] when the fault cannot be read or names what the drive does not have.
    pub fn inject(&mut self, spec: &str) -> Result<(), FaultError> {
        let fault = fault::parse(spec)?;
        fault::check(&fault, &self.config)?;
        self.config.faults.push(fault);
        self.hash = drive_hash(&self.config);
        let prefix = format!("fault.{}.", self.config.faults.len() - 1);
        let added = keys::settings(&self.config)
            .into_iter()
            .filter(|setting| setting.path.starts_with(&prefix))
            .map(|keys::declare::Setting { path, value, .. }| Sourced {
                path,
                value,
                source: Source::Override,
            });
        self.settings.extend(added);
        Ok(())
    }

    /// The drive as a text table: what follows from it, every setting, and where each number
    /// comes from. Ends with a line break.
    pub fn show(&self) -> String {
        let mut text = format!("{} [{}], from {}\n", self.name, self.hash, self.origin);
        if !self.description.is_empty() {
            let _ = writeln!(text, "{}", self.description.trim());
        }
        text.push('\n');
        let derived = render::derived(&self.config);
        let width = derived.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in &derived {
            let _ = writeln!(text, "{name:width$}  {value}");
        }
        if let Some(way) = way::show(&self.config) {
            text.push('\n');
            text.push_str(&way);
        }
        let plain = |value: &str| value.replace('"', "");
        let path_width = self.settings.iter().map(|s| s.path.len()).max().unwrap_or(0);
        let value_width =
            self.settings.iter().map(|s| plain(&s.value).chars().count()).max().unwrap_or(0);
        let value_width = value_width.min(32);
        let mut section = "";
        for setting in &self.settings {
            let own = setting.path.split_once('.').map_or("", |(section, _)| section);
            if own != section || section.is_empty() && setting.path == "over_provisioning" {
                text.push('\n');
                section = own;
            }
            let source = match &setting.source {
                Source::File(Some(source)) => source.as_str(),
                Source::File(None) => "no source given",
                Source::Override => "given on the command line",
                Source::Default => "default",
            };
            let value = plain(&setting.value);
            let path = &setting.path;
            let _ = writeln!(text, "{path:path_width$}  {value:value_width$}  {source}");
        }
        text
    }
}

#[cfg(test)]
mod tests;
