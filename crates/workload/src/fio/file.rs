//! The text of a job file, as fio takes it apart (`init.c`, `__parse_jobs_ini`; `parse.c`).
//!
//! A line is an option, the start of a section or `include FILE`; `;` and `#` begin a comment
//! anywhere in it. Names are as they are written, in lower case. `[global]` (and any section whose
//! name begins so) holds defaults for the sections after it, and may stand several times.
//! `${NAME}` is a variable of the environment.

use super::FioError;
use super::values::Base;
use std::ops::Range;
use std::sync::Arc;

/// Most levels of `include`; deeper ones are taken for files that include one another.
const INCLUDES_MAX: usize = 8;

pub(super) struct Text {
    pub(super) name: String,
    pub(super) text: String,
}

/// A place in a job file, for error messages.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) file: Arc<Text>,
    pub(super) span: Range<usize>,
}

impl Place {
    pub(super) fn error(&self, message: impl Into<String>) -> FioError {
        FioError::at(&self.file, self.span.clone(), message.into())
    }
}

/// Access to what a job file refers to: included files and environment variables.
pub(super) trait Surroundings {
    /// The file that the one called `from` includes as `name`: its name and text.
    fn included(&self, from: &str, name: &str) -> Result<(String, String), String>;

    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
}

/// An option as it stands in the file.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) name: String,
    /// The text after the first `=`; `None` without one.
    pub(super) value: Option<String>,
    /// An environment variable that the value names and that is not set.
    pub(super) missing: Option<String>,
    pub(super) place: Place,
    /// Whether it was set in `[global]`.
    pub(super) global: bool,
    /// How suffixes of its sizes are read, from `kb_base`.
    pub(super) base: Base,
}

/// A job with all settings that apply to it, those of `[global]` first.
pub(super) struct Section {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) settings: Vec<Setting>,
}

/// The job sections of `text`, each with the settings of `[global]` sections before it.
pub(super) fn sections(
    name: &str,
    text: &str,
    around: &dyn Surroundings,
) -> Result<Vec<Section>, FioError> {
    let file = Arc::new(Text { name: name.to_owned(), text: text.to_owned() });
    let mut blocks: Vec<Block> = Vec::new();
    read(&file, around, 0, &mut blocks)?;
    let mut global: Vec<Setting> = Vec::new();
    let mut global_base = Base::default();
    let mut sections = Vec::new();
    for Block { name, place, mut settings } in blocks {
        let in_global = name.starts_with("global");
        // It counts for the whole section, wherever it stands.
        let mut base = global_base;
        for setting in settings.iter().filter(|setting| setting.name == "kb_base") {
            base = match setting.value.as_deref().map(str::trim) {
                Some("1024") => Base::Binary,
                Some("1000") => Base::Decimal,
                _ => return Err(setting.place.error("kb_base is 1024 or 1000")),
            };
        }
        for setting in &mut settings {
            (setting.base, setting.global) = (base, in_global);
        }
        if in_global {
            global_base = base;
            global.extend(settings);
        } else {
            let settings = global.iter().cloned().chain(settings).collect();
            sections.push(Section { name, place, settings });
        }
    }
    Ok(sections)
}

/// A section without the defaults of `[global]`.
struct Block {
    name: String,
    place: Place,
    settings: Vec<Setting>,
}

/// Reads `file`, and appends its sections to `blocks`.
fn read(
    file: &Arc<Text>,
    around: &dyn Surroundings,
    depth: usize,
    blocks: &mut Vec<Block>,
) -> Result<(), FioError> {
    let mut at = 0;
    for line in file.text.split_inclusive('\n') {
        let start = at + (line.len() - line.trim_start().len());
        at += line.len();
        let content = line.trim_start();
        let content = content.split([';', '#']).next().unwrap_or_default();
        let content = content.trim_end_matches(|c: char| c.is_whitespace() || c.is_control());
        if content.is_empty() {
            continue;
        }
        let place = Place { file: file.clone(), span: start..start + content.len() };
        if let Some(name) = content.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').filter(|name| !name.is_empty()) else {
                return Err(place.error("a section is written [name]"));
            };
            if depth > 0 {
                return Err(place.error("an included file has no sections of its own, as in fio"));
            }
            blocks.push(Block { name: name.to_owned(), place, settings: Vec::new() });
            continue;
        }
        let Some(block) = blocks.last_mut() else {
            let message = "an option before the first section; a job begins with [name]";
            return Err(place.error(message));
        };
        let included = content.strip_prefix("include");
        if let Some(name) = included.and_then(|rest| rest.strip_prefix([' ', '\t', '='])) {
            if depth == INCLUDES_MAX {
                let message = format!("more than {INCLUDES_MAX} files include one another");
                return Err(place.error(message));
            }
            let found = around.included(&file.name, name.trim());
            let (name, text) = found.map_err(|problem| place.error(problem))?;
            read(&Arc::new(Text { name, text }), around, depth + 1, blocks)?;
            continue;
        }
        let (content, missing) = substituted(content, around);
        let (name, value) = match content.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (content.as_str(), None),
        };
        let name = name.trim_end().to_owned();
        let base = Base::default();
        block.settings.push(Setting { name, value, missing, place, global: false, base });
    }
    Ok(())
}

/// `line` with environment variables substituted, and the name of the first one that is not set.
fn substituted(line: &str, around: &dyn Surroundings) -> (String, Option<String>) {
    let (mut text, mut missing) = (String::new(), None);
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        text.push_str(before);
        match around.variable(name) {
            Some(value) => text.push_str(&value),
            None => missing = missing.or(Some(name.to_owned())),
        }
        rest = after;
    }
    text.push_str(rest);
    (text, missing)
}
