//! Traces of caches in lines of columns: Twitter's, CacheLib's and MLPerf Storage's.

use super::{Event, REPEATS_MAX, Touch, key_number};

/// Seconds, as a number with a fraction, in microseconds.
fn seconds(text: &str) -> Option<u64> {
    let seconds: f64 = text.trim().parse().ok()?;
    (0.0..1e13).contains(&seconds).then_some((seconds * 1e6) as u64)
}

/// A line of Twitter's: the last five columns are counted from the right, since keys have commas.
pub(super) fn twitter(line: &str) -> Result<Event, String> {
    let mut right = line.rsplitn(6, ',');
    let mut next = || right.next().map(str::trim).unwrap_or_default();
    let (_ttl, operation, _client, value, key_bytes, rest) =
        (next(), next(), next(), next(), next(), next());
    let (at, key) = rest.split_once(',').ok_or("it has fewer than seven columns")?;
    let touch = match operation {
        "get" | "gets" => Touch::Get,
        "set" | "add" | "replace" | "cas" | "append" | "prepend" | "incr" | "decr" => Touch::Set,
        "delete" => Touch::Delete,
        other => return Err(format!("`{other}` is no operation")),
    };
    Ok(Event::Touch {
        at_us: seconds(at).ok_or("the time is not a number of seconds")?,
        key: key_number(key.as_bytes()),
        key_bytes: key_bytes.parse().map_err(|_| "the key's bytes are not a number")?,
        bytes: value.parse().map_err(|_| "the value's bytes are not a number")?,
        touch,
        times: 1,
    })
}

/// Where columns are, by their names in the first line.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Vec<String>,
}

impl Columns {
    /// Whether the header has been read; if not, `line` is it, and has to name `needed`.
    fn know(&mut self, line: &str, needed: &[&str]) -> Result<bool, String> {
        if !self.names.is_empty() {
            return Ok(true);
        }
        self.names = line.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
        match needed.iter().find(|name| !self.names.iter().any(|it| it == *name)) {
            Some(missing) => Err(format!("the first line names no column `{missing}`")),
            None => Ok(false),
        }
    }

    fn field<'l>(&self, fields: &[&'l str], name: &str) -> Option<&'l str> {
        let at = self.names.iter().position(|it| it == name)?;
        fields.get(at).map(|field| field.trim()).filter(|field| !field.is_empty())
    }

    /// A line of CacheLib's; `None`: the header.
    pub(super) fn cachelib(&mut self, line: &str) -> Result<Option<Event>, String> {
        if !self.know(line, &["key", "op", "size"])? {
            return Ok(None);
        }
        let fields: Vec<&str> = line.split(',').collect();
        let number = |name: &str, default: u64| match self.field(&fields, name) {
            None => Ok(default),
            Some(text) => text.parse::<u64>().map_err(|_| format!("`{name}` is not a number")),
        };
        let touch = match self.field(&fields, "op").unwrap_or_default() {
            "GET" | "GET_LEASE" => Touch::Get,
            "SET" | "SET_LEASE" => Touch::Set,
            "DELETE" => Touch::Delete,
            other => return Err(format!("`{other}` is no operation")),
        };
        let key = self.field(&fields, "key").ok_or("it has no key")?;
        let key_bytes = number("key_size", key.len() as u64)?;
        Ok(Some(Event::Touch {
            at_us: number("op_time", 0)?.saturating_mul(1_000_000),
            key: key_number(key.as_bytes()),
            key_bytes: u32::try_from(key_bytes).unwrap_or(u32::MAX),
            bytes: number("size", 0)?,
            touch,
            times: number("op_count", 1)?.clamp(1, REPEATS_MAX),
        }))
    }

    /// A line of MLPerf Storage's; `None`: the header, or of a tier above the drive.
    pub(super) fn mlperf(&mut self, line: &str) -> Result<Option<Event>, String> {
        if !self.know(line, &["timestamp", "operation", "object_size_bytes", "tier", "key"])? {
            return Ok(None);
        }
        let fields: Vec<&str> = line.split(',').collect();
        if self.field(&fields, "tier") != Some("Tier-2") {
            return Ok(None);
        }
        let touch = match self.field(&fields, "operation").unwrap_or_default() {
            "Read" => Touch::Get,
            "Write" => Touch::Set,
            other => return Err(format!("`{other}` is no operation")),
        };
        let bytes = self.field(&fields, "object_size_bytes").and_then(|text| text.parse().ok());
        let at = self.field(&fields, "timestamp").and_then(seconds);
        // Operations without a key are each of an object of their own.
        let key = self.field(&fields, "key").map_or_else(|| line.as_bytes(), str::as_bytes);
        Ok(Some(Event::Touch {
            at_us: at.ok_or("the time is not a number of seconds")?,
            key: key_number(key),
            key_bytes: 0,
            bytes: bytes.ok_or("the size is not a number of bytes")?,
            touch,
            times: 1,
        }))
    }
}
