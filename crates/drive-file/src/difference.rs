//! What two drives differ in, for people whose file belongs to another drive than the one at hand.
//!
//! The file says what its drive was, in the form of a drive file, which is read as this version
//! reads drive files. What does not stand in it is a setting that its version did not have.
//!
//! Which drive a file belongs to is decided by the hash alone ([`drive_hash`]); this only explains.

use super::keys::declare::Setting;
use super::keys::settings;
use super::moved::{MOVED, Moved};
use super::{Source, drive_hash, parse, to_toml};
use mynah_model::config::Config;
use std::collections::BTreeMap;
use std::fmt;

/// As many settings are named.
const NAMED_MAX: usize = 8;

/// What the drive that a file was made with and the one at hand differ in. Shown, it goes on from
/// "the drive is another: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Differences {
    /// These settings, in the order of a drive file.
    Settings(Vec<Difference>),
    /// The file does not say what its drive was.
    Unsaid,
    /// What it says of it is no drive here, because of this.
    Unreadable(String),
}

/// A setting that two drives have, or one of them, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key, with dots.
    pub path: String,
    /// The value then, if the drive had it.
    pub was: Option<String>,
    /// The value now, if the drive has it.
    pub is: Option<String>,
    /// What else is to be known.
    pub remark: Remark,
}

/// Why a setting may be another although nobody has changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Nothing of that kind.
    None,
    /// Its default has moved just so.
    DefaultMoved,
    /// The file's version had no such setting: what it was is what the drive did.
    Newer,
}

/// What a drive differs in from `here`: `text` is what the file says of its drive, and `hash` that
/// drive's.
pub fn differences(text: Option<&str>, hash: &str, here: &Config) -> Differences {
    let Some(text) = text else { return by_moved_defaults(hash, here) };
    let there = match parse("the file", text, &[]) {
        Ok(there) => there,
        Err(error) => return Differences::Unreadable(error.to_string()),
    };
    let unsaid = |path: &str| {
        let source = there.settings.iter().find(|setting| setting.path == path);
        source.is_some_and(|setting| setting.source == Source::Default)
    };
    Differences::Settings(between(&there.config, here, unsaid))
}

/// What `there` and `here` differ in; `unsaid` are the settings that the former has by default.
fn between(there: &Config, here: &Config, unsaid: impl Fn(&str) -> bool) -> Vec<Difference> {
    let (then, now) = (settings(there), settings(here));
    let values = |settings: &[Setting]| -> BTreeMap<String, String> {
        settings.iter().map(|it| (it.path.clone(), it.value.clone())).collect()
    };
    let (was, is) = (values(&then), values(&now));
    let gone = then.iter().filter(|it| !is.contains_key(&it.path));
    let all = now.iter().chain(gone).map(|it| it.path.clone());
    // Which seed is no part of a drive.
    let other = all.filter(|path| path != "seed" && was.get(path) != is.get(path));
    other
        .map(|path| {
            let (was, is) = (was.get(&path).cloned(), is.get(&path).cloned());
            let remark = match (&was, &is) {
                (Some(was), Some(is)) if has_moved(&path, was, there, is, here) => {
                    Remark::DefaultMoved
                }
                (Some(_), _) if unsaid(&path) => Remark::Newer,
                _ => Remark::None,
            };
            Difference { path, was, is, remark }
        })
        .collect()
}

/// Whether `path` had the default of earlier versions, and has today's.
fn has_moved(path: &str, was: &str, there: &Config, is: &str, here: &Config) -> bool {
    let earlier = MOVED.iter().find(|moved| moved.path == path);
    earlier.is_some_and(|moved| (moved.was)(there) == was)
        && default_of(path, here) == Some(is.into())
}

/// What `path` is in a drive file of `config` that leaves it out.
fn default_of(path: &str, config: &Config) -> Option<String> {
    let (section, key) = path.rsplit_once('.')?;
    let mut inside = false;
    let key = format!("{key} = ");
    let text: String = to_toml("drive", "", config, &[])
        .split_inclusive('\n')
        .filter(|line| {
            if line.starts_with('[') {
                inside = line.trim_end() == format!("[{section}]");
            }
            !(inside && line.starts_with(&key))
        })
        .collect();
    let file = parse("drive", &text, &[]).ok()?;
    file.settings.into_iter().find(|setting| setting.path == path).map(|setting| setting.value)
}

/// The same where only the hash is known: whether moved defaults explain it.
fn by_moved_defaults(hash: &str, here: &Config) -> Differences {
    let text = to_toml("drive", "", here, &[]);
    let settings = settings(here);
    let is = |path: &str| settings.iter().find(|it| it.path == path).map(|it| it.value.clone());
    let moved = |&&Moved { path, was }: &&Moved| {
        let is = is(path);
        is.is_some() && is != Some(was(here)) && is == default_of(path, here)
    };
    let moved: Vec<&Moved> = MOVED.iter().filter(moved).collect();
    // All of them first: an earlier version had them all.
    (1..1u32 << moved.len())
        .rev()
        .find_map(|set| {
            let chosen = moved.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
            let earlier: Vec<String> =
                chosen.map(|(_, it)| format!("{}={}", it.path, (it.was)(here))).collect();
            let there = parse("drive", &text, &earlier).ok()?.config;
            let found = drive_hash(&there) == hash;
            found.then(|| Differences::Settings(between(&there, here, |_| false)))
        })
        .unwrap_or(Differences::Unsaid)
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = match self {
            Differences::Settings(all) => all,
            Differences::Unsaid => {
                return f.write_str(
                    "which settings differ is not known, since the version that wrote the file \
                     did not write them down",
                );
            }
            Differences::Unreadable(problem) => {
                return write!(f, "what the file says of its drive is none here: {problem}");
            }
        };
        if all.is_empty() {
            return f.write_str("all settings are alike, so the rules of the hash were others");
        }
        for (at, difference) in all.iter().take(NAMED_MAX).enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{difference}")?;
        }
        match all.len().saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            1 => f.write_str("; and one more setting"),
            more => write!(f, "; and {more} more settings"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |value: &Option<String>| match value {
            Some(value) => value.replace('"', ""),
            None => "not there".to_owned(),
        };
        write!(f, "`{}` was {} and is {}", self.path, plain(&self.was), plain(&self.is))?;
        match self.remark {
            Remark::None => Ok(()),
            Remark::DefaultMoved => f.write_str(" (a default that has moved)"),
            Remark::Newer => f.write_str(" (the file is from before there was such a setting)"),
        }
    }
}
