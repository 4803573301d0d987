//! Key-value flows as people write them, and back.

use super::{KeyAction, KeyChoice, KeyMix, KeySize, KeyValueFlow, VALUE_BYTES_MAX, ValueSize};
use crate::quantity::{parse_count, parse_share, percent};
use mynah_drive_file::units::{Bytes, Iops};

/// Theta of YCSB's Zipf distributions (B. Cooper et al., "Benchmarking Cloud Serving Systems with
/// YCSB", SoCC 2010).
const YCSB_THETA: f64 = 0.99;
/// Keys that a List asks for where nothing is said.
const LIST_KEYS: (u32, u32) = (100, 100);

/// Defaults that a mix has for options that are not given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyDefaults {
    pub choice: KeyChoice,
    /// Share of commands to keys that do not exist, 0 to 1.
    pub misses: f64,
    /// Keys that a List asks for: the least and the most.
    pub list_keys: (u32, u32),
}

impl Default for KeyDefaults {
    fn default() -> KeyDefaults {
        KeyDefaults { choice: KeyChoice::Uniform, misses: 0.0, list_keys: LIST_KEYS }
    }
}

/// The names of mixes that are commands of one kind, with what they are.
const SINGLE: [(&str, KeyAction); 7] = [
    ("store", KeyAction::Store),
    ("update", KeyAction::Update),
    ("retrieve", KeyAction::Retrieve),
    ("read-modify-write", KeyAction::ReadModifyWrite),
    ("delete", KeyAction::Delete),
    ("exist", KeyAction::Exist),
    ("list", KeyAction::List),
];

/// The core workloads of YCSB: a Scan is a List, an Insert a Store, a Read a Retrieve.
const YCSB: [(&str, &[(KeyAction, f64)]); 6] = [
    ("ycsb-a", &[(KeyAction::Retrieve, 0.5), (KeyAction::Update, 0.5)]),
    ("ycsb-b", &[(KeyAction::Retrieve, 0.95), (KeyAction::Update, 0.05)]),
    ("ycsb-c", &[(KeyAction::Retrieve, 1.0)]),
    ("ycsb-d", &[(KeyAction::Retrieve, 0.95), (KeyAction::Store, 0.05)]),
    ("ycsb-e", &[(KeyAction::List, 0.95), (KeyAction::Store, 0.05)]),
    ("ycsb-f", &[(KeyAction::Retrieve, 0.5), (KeyAction::ReadModifyWrite, 0.5)]),
];

/// Example of a custom mix, for error messages.
const OWN: &str = "or shares of them such as retrieve=95,update=5";

impl KeyMix {
    fn of(shares: &[(KeyAction, f64)]) -> KeyMix {
        let mut mix = KeyMix([0.0; KeyAction::ALL.len()]);
        shares.iter().for_each(|&(action, share)| mix.0[action as usize] = share);
        mix
    }

    /// Reads a mix: one of YCSB's, one kind of command, or shares in percent that add up to 100.
    ///
    /// # Errors
    /// What is valid.
    pub fn parse(text: &str) -> Result<(KeyMix, KeyDefaults), String> {
        let text = text.trim().to_ascii_lowercase();
        let mut defaults = KeyDefaults::default();
        if let Some((_, action)) = SINGLE.iter().find(|(name, _)| *name == text) {
            return Ok((KeyMix::only(*action), defaults));
        }
        if text == "retrieve-miss" {
            defaults.misses = 1.0;
            return Ok((KeyMix::only(KeyAction::Retrieve), defaults));
        }
        if let Some((name, shares)) = YCSB.iter().find(|(name, _)| *name == text) {
            defaults.choice = match *name {
                "ycsb-d" => KeyChoice::Latest { theta: YCSB_THETA },
                _ => KeyChoice::Zipf { theta: YCSB_THETA },
            };
            if *name == "ycsb-e" {
                defaults.list_keys = (1, 100);
            }
            return Ok((KeyMix::of(shares), defaults));
        }
        if !text.contains('=') {
            let names = YCSB.iter().map(|(name, _)| *name);
            let names: Vec<&str> = names.chain(SINGLE.iter().map(|(name, _)| *name)).collect();
            return Err(format!("valid are {}, retrieve-miss, {OWN}", names.join(", ")));
        }
        let mut mix = KeyMix([0.0; KeyAction::ALL.len()]);
        for part in text.split(',') {
            let (name, share) = part.split_once('=').ok_or_else(|| {
                format!("`{part}` has no share; write KIND=PERCENT, as in retrieve=95,update=5")
            })?;
            let name = name.trim();
            let Some((_, action)) = SINGLE.iter().find(|(known, _)| *known == name) else {
                let names: Vec<&str> = SINGLE.iter().map(|(name, _)| *name).collect();
                return Err(format!("`{name}` is no command; valid are {}", names.join(", ")));
            };
            if mix.share(*action) > 0.0 {
                return Err(format!("`{name}` has a share already"));
            }
            mix.0[*action as usize] = parse_share(share)?;
        }
        let sum: f64 = mix.0.iter().sum();
        if (sum - 1.0).abs() > 1e-9 {
            return Err(format!("the shares add up to {}, not 100%", percent(sum)));
        }
        Ok((mix, defaults))
    }

    /// A text that is read as this mix.
    pub fn text(&self) -> String {
        if let Some((name, _)) = SINGLE.iter().find(|(_, action)| *self == KeyMix::only(*action)) {
            return (*name).to_owned();
        }
        let shares = SINGLE.iter().filter(|(_, action)| self.share(*action) > 0.0);
        let shares =
            shares.map(|(name, action)| format!("{name}={}", percent(self.share(*action))));
        shares.collect::<Vec<_>>().join(",")
    }
}

impl KeyChoice {
    /// Reads `uniform`, `zipf:THETA`, `latest` or `sequential`.
    ///
    /// # Errors
    /// What is valid.
    pub fn parse(text: &str) -> Result<KeyChoice, String> {
        let (kind, rest) = text.split_once(':').map_or((text, None), |(k, r)| (k, Some(r)));
        let theta = |text: &str| match text.parse::<f64>() {
            Ok(theta) if (0.01..=10.0).contains(&theta) => Ok(theta),
            _ => {
                Err(format!("the exponent of {kind} is a number from 0.01 to 10, as in zipf:0.99"))
            }
        };
        match (kind, rest) {
            ("uniform", None) => Ok(KeyChoice::Uniform),
            ("sequential", None) => Ok(KeyChoice::Sequential),
            ("latest", None) => Ok(KeyChoice::Latest { theta: YCSB_THETA }),
            ("latest", Some(rest)) => Ok(KeyChoice::Latest { theta: theta(rest)? }),
            ("zipf", Some(rest)) => Ok(KeyChoice::Zipf { theta: theta(rest)? }),
            ("zipf", None) => Ok(KeyChoice::Zipf { theta: YCSB_THETA }),
            _ => Err("valid are uniform, zipf:THETA, latest and sequential".to_owned()),
        }
    }

    /// A text that is read as this choice.
    pub fn text(&self) -> String {
        match self {
            KeyChoice::Uniform => "uniform".to_owned(),
            KeyChoice::Sequential => "sequential".to_owned(),
            KeyChoice::Zipf { theta } => format!("zipf:{theta}"),
            KeyChoice::Latest { theta } => format!("latest:{theta}"),
        }
    }
}

impl KeyValueFlow {
    /// Describes the flow in a line, as results show it.
    pub fn told(&self) -> String {
        let keys = match self.mix.only_stores() {
            true => format!("{} new keys", self.keys),
            false => format!("{} keys", self.keys),
        };
        let values = self.value_size.text(|bytes| Bytes(bytes).to_string());
        let choice = match self.mix.only_stores() && self.choice == KeyChoice::Uniform {
            true => "in no order".to_owned(),
            false => self.choice.text(),
        };
        let mut text = format!(
            "{} {choice}, {keys} of {} B, values of {values}",
            self.mix.text(),
            self.key_size.text()
        );
        if self.misses > 0.0 {
            text += &format!(", {} misses", percent(self.misses));
        }
        text
    }
}

/// Reads a number of keys: `2600000`, `2.6m`; k, m and g are powers of 1000.
///
/// # Errors
/// What is valid.
pub fn count(text: &str) -> Result<u64, String> {
    match text.trim().replace('g', "G").parse::<Iops>() {
        Ok(Iops(0)) => Err("it is at least 1".to_owned()),
        Ok(Iops(count)) => Ok(count),
        Err(_) => Err(format!(
            "`{}` is no number such as 2600000 or 2.6m (k, m and g are powers of 1000)",
            text.trim()
        )),
    }
}

/// `MIN-MAX`, or one for both.
fn range<T: PartialOrd + Copy>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(T, T), String> {
    let (min, max) = match text.split_once('-') {
        None => (read(text)?, read(text)?),
        Some((min, max)) => (read(min)?, read(max)?),
    };
    match min <= max {
        true => Ok((min, max)),
        false => Err("the smallest comes first, as in 8-32".to_owned()),
    }
}

impl KeySize {
    /// Reads bytes, or `MIN-MAX`.
    ///
    /// # Errors
    /// What is valid.
    pub fn parse(text: &str) -> Result<KeySize, String> {
        let bytes = |text: &str| match parse_count(text.trim_end_matches('B'))? {
            bytes @ 1..=255 => Ok(bytes as u8),
            bytes => Err(format!("keys have 1 to 255 bytes, not {bytes}")),
        };
        Ok(match range(text, bytes)? {
            (min, max) if min == max => KeySize::Fixed(min),
            (min, max) => KeySize::Range(min, max),
        })
    }

    /// A text that is read as these sizes.
    pub fn text(self) -> String {
        match self {
            KeySize::Fixed(bytes) => bytes.to_string(),
            KeySize::Range(min, max) => format!("{min}-{max}"),
        }
    }
}

/// Reads how many keys a List asks for.
pub(crate) fn list_keys(text: &str) -> Result<(u32, u32), String> {
    range(text, |text| match count(text)? {
        keys @ 1..=1_000_000 => Ok(keys as u32),
        _ => Err("a List asks for 1 to 1000000 keys".to_owned()),
    })
}

/// A text that is read as this number of keys.
pub(crate) fn list_keys_text((min, max): (u32, u32)) -> String {
    if min == max { min.to_string() } else { format!("{min}-{max}") }
}

impl ValueSize {
    /// Reads a size, `MIN-MAX`, `SIZE/PERCENT:…`, `normal:MEAN/DEVIATION` or
    /// `zipf:THETA/MIN-MAX`; `bytes` reads a size.
    ///
    /// # Errors
    /// What is valid.
    pub fn parse(
        text: &str,
        bytes: impl Fn(&str) -> Result<u64, String>,
    ) -> Result<ValueSize, String> {
        let size = |text: &str| match bytes(text)? {
            bytes if bytes <= VALUE_BYTES_MAX.into() => Ok(bytes as u32),
            bytes => Err(format!("values have at most 32 MiB, not {bytes} bytes")),
        };
        if let Some(rest) = text.strip_prefix("normal:") {
            let parts = rest.split_once('/');
            let (mean, deviation) =
                parts.ok_or("write normal:MEAN/DEVIATION, as in normal:4k/1k")?;
            let (mean, deviation) = (size(mean)?, size(deviation)?);
            if mean == 0 {
                return Err("the mean is more than 0".to_owned());
            }
            return Ok(ValueSize::Normal { mean: mean.into(), deviation: deviation.into() });
        }
        if let Some(rest) = text.strip_prefix("zipf:") {
            const FORM: &str = "write zipf:THETA/MIN-MAX, as in zipf:0.99/16-64k";
            let (theta, sizes) = rest.split_once('/').ok_or(FORM)?;
            let theta = theta.parse().ok().filter(|theta| (0.01..=10.0).contains(theta));
            let theta = theta.ok_or("the exponent of zipf is a number from 0.01 to 10")?;
            let (min, max) = range(sizes, size)?;
            return Ok(ValueSize::Zipf { theta, min, max });
        }
        if !text.contains('/') {
            return Ok(match range(text, size)? {
                (min, max) if min == max => ValueSize::Fixed(min),
                (min, max) => ValueSize::Range(min, max),
            });
        }
        let mut parts = Vec::new();
        for part in text.split(':') {
            let (bytes, share) = part
                .split_once('/')
                .ok_or("sizes are written SIZE/PERCENT with colons between, as in 512/60:4k/40")?;
            let share = parse_count(share.trim_end_matches('%'))?;
            parts.push((size(bytes)?, u32::try_from(share).unwrap_or(u32::MAX)));
        }
        match parts.iter().map(|&(_, share)| u64::from(share)).sum::<u64>() {
            100 => Ok(ValueSize::Split(parts)),
            total => Err(format!("the percentages add up to {total}, not 100")),
        }
    }

    /// A text that is read as these sizes; `bytes` writes one.
    pub(crate) fn text(&self, bytes: impl Fn(u64) -> String) -> String {
        match self {
            ValueSize::Fixed(size) => bytes(u64::from(*size)),
            ValueSize::Range(min, max) => {
                format!("{}-{}", bytes(u64::from(*min)), bytes(u64::from(*max)))
            }
            ValueSize::Split(parts) => {
                let part = |&(size, share): &(u32, u32)| format!("{}/{share}", bytes(size.into()));
                parts.iter().map(part).collect::<Vec<_>>().join(":")
            }
            ValueSize::Normal { mean, deviation } => {
                format!("normal:{}/{}", bytes(*mean as u64), bytes(*deviation as u64))
            }
            ValueSize::Zipf { theta, min, max } => {
                format!("zipf:{theta}/{}-{}", bytes((*min).into()), bytes((*max).into()))
            }
        }
    }
}
