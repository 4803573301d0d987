//! Defaults that have moved: what they were in earlier versions.

use crate::keys::UNPACED_START;
use crate::keys::value::Value;
use crate::units::Bytes;
use mynah_model::config::Config;

/// A setting that has a default, and what that was in earlier versions.
pub(crate) struct Moved {
    pub(crate) path: &'static str,
    pub(crate) was: fn(&Config) -> String,
}

/// Settings whose default has moved. What they were is as [`Value::toml`] writes them.
pub(crate) const MOVED: [Moved; 3] = [
    Moved { path: "mapping.unit", was: |config| Bytes(config.geometry.page_bytes.into()).toml() },
    Moved { path: "gc.start", was: |_| UNPACED_START.toml() },
    Moved { path: "gc.paced", was: |_| false.to_string() },
];

/// Defaults of earlier versions that are others today, for a drive like `config`, as keys and
/// values.
pub(crate) fn earlier_defaults(config: &Config) -> impl Iterator<Item = (&'static str, String)> {
    MOVED.iter().map(|moved| (moved.path, (moved.was)(config)))
}
