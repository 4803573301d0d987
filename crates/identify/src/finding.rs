//! What was found, and how sure it is.

use serde::Serialize;
use std::fmt;

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// A size in bytes.
    Bytes(u64),
    /// A time in us.
    Time(f64),
    /// Times in us, of page types from the fastest.
    Times(Vec<f64>),
    /// Bytes a second.
    Rate(f64),
    /// Whether it is so.
    Yes(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(count) => write!(f, "{count}"),
            Value::Bytes(bytes) => f.write_str(&size(*bytes)),
            Value::Time(us) => f.write_str(&time(*us)),
            Value::Times(all) => {
                f.write_str(&all.iter().map(|us| time(*us)).collect::<Vec<_>>().join(", "))
            }
            Value::Rate(rate) if *rate >= 1e9 => write!(f, "{:.2} GB/s", rate / 1e9),
            Value::Rate(rate) => write!(f, "{:.0} MB/s", rate / 1e6),
            Value::Yes(true) => f.write_str("yes"),
            Value::Yes(false) => f.write_str("no"),
        }
    }
}

/// A size with the largest unit that leaves a number of at least one, with the digits that it needs, but
/// at most two after the point.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => {
            let size = format!("{:.2}", bytes as f64 / (1u64 << shift) as f64);
            format!("{} {unit}", size.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{bytes} B"),
    }
}

/// A time with a unit that keeps it readable.
pub(crate) fn time(us: f64) -> String {
    let digits = |x: f64| if x >= 100.0 { 1 } else { 2 };
    if us >= 1e6 {
        format!("{:.*} s", digits(us / 1e6), us / 1e6)
    } else if us >= 1e3 {
        format!("{:.*} ms", digits(us / 1e3), us / 1e3)
    } else if us >= 1.0 {
        format!("{us:.*} us", digits(us))
    } else {
        format!("{:.0} ns", us * 1e3)
    }
}

/// What is known of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It is this.
    Found {
        /// The value.
        #[serde(flatten)]
        value: Value,
        /// Lowest and highest value that the measurement leaves possible, if it is no whole number.
        #[serde(skip_serializing_if = "Option::is_none")]
        between: Option<(Value, Value)>,
    },
    /// It cannot be told.
    NotDetermined {
        /// Why.
        because: String,
    },
}

/// A picture behind a finding: points of one or more series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// What lies across.
    pub x: String,
    /// What goes up.
    pub y: String,
    /// Series of points, each with its name.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// A parameter and what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// As drive files call it, or as they would.
    pub key: &'static str,
    /// What it is.
    pub what: &'static str,
    /// What is known.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What that rests on; empty if nothing was found.
    pub evidence: String,
    /// Who has published the method.
    pub method: &'static str,
    /// What people would rather look at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<Picture>,
}

impl Finding {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&Value> {
        match &self.outcome {
            Outcome::Found { value, .. } => Some(value),
            Outcome::NotDetermined { .. } => None,
        }
    }
}

/// All that was found, in the order in which it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Findings {
    /// One for each parameter.
    pub findings: Vec<Finding>,
    /// Requests that were made.
    pub requests: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// How long it took on the drive's clock, in seconds.
    pub seconds: f64,
    /// Why it ended early, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

impl Findings {
    /// What is known of a parameter.
    pub fn get(&self, key: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.key == key)
    }

    /// A parameter's value, if it was found.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.get(key)?.value()
    }

    /// A whole number that was found.
    pub(crate) fn count(&self, key: &str) -> Option<u64> {
        match self.value(key)? {
            Value::Count(count) | Value::Bytes(count) => Some(*count),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_with_units() {
        let shown = [
            (Value::Bytes(32 << 10), "32 KiB"),
            (Value::Bytes((2 << 30) + (256 << 10)), "2 GiB"),
            (Value::Bytes(512), "512 B"),
            (Value::Time(0.25), "250 ns"),
            (Value::Time(57.918), "57.92 us"),
            (Value::Time(5_000.0), "5.00 ms"),
            (Value::Times(vec![38.0, 45.0]), "38.00 us, 45.00 us"),
            (Value::Rate(1.0667e9), "1.07 GB/s"),
            (Value::Rate(333e6), "333 MB/s"),
            (Value::Yes(true), "yes"),
        ];
        for (value, text) in shown {
            assert_eq!(value.to_string(), text);
        }
    }
}
