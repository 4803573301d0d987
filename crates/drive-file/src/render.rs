//! A configuration as keys and values of a drive file: for `show`, and to write drive files
//! from configurations that came from elsewhere.

use std::fmt::Write;

use mynah_model::config::Config;

use crate::keys::declare::Setting;
use crate::keys::settings;
use crate::keys::value::quoted;
use crate::lower::{MAX_UNITS, approximate};

/// Writes a drive file that loads as `config`, for configurations that came from elsewhere.
/// `sources` are pairs of a key or section and where its numbers come from.
///
/// What drive files cannot say (a submission queue entry of less than 64 bytes, say) is
/// refused when the file is loaded, not here.
pub fn to_toml(name: &str, description: &str, config: &Config, sources: &[(&str, &str)]) -> String {
    let mut text = String::from("schema = \"mynah.drive/1\"\n");
    let _ = writeln!(text, "name = {}", quoted(name));
    if !description.is_empty() {
        let _ = writeln!(text, "description = {}", quoted(description));
    }
    let mut section = "";
    let settings = settings(config);
    for Setting { path, value, .. } in &settings {
        let (own, key) = path.rsplit_once('.').unwrap_or(("", path));
        if own != section {
            let _ = match own.split_once('.') {
                Some((array @ ("namespace" | "fault"), _)) => writeln!(text, "\n[[{array}]]"),
                _ => writeln!(text, "\n[{own}]"),
            };
            section = own;
        }
        let _ = writeln!(text, "{key} = {value}");
    }
    if !sources.is_empty() {
        text.push_str("\n[sources]\n");
        for (key, source) in sources {
            let _ = writeln!(text, "{} = {}", quoted(key), quoted(source));
        }
    }
    text
}

/// Facts that follow from the configuration, as pairs of a name and a value.
pub(super) fn derived(config: &Config) -> Vec<(&'static str, String)> {
    let geometry = &config.geometry;
    let raw = geometry.raw_bytes();
    let unit = u64::from(config.mapping.unit_bytes);
    let native = raw / u64::from(geometry.blocks_per_plane) * u64::from(config.native_blocks());
    let user_units = ((native / unit) as f64 * (1.0 - config.over_provisioning)) as u64;
    let user = user_units * unit;
    let size = |bytes: u64| {
        format!(
            "{} ({:.1} GiB)",
            approximate(u128::from(bytes)),
            bytes as f64 / (1u64 << 30) as f64
        )
    };
    let channel = u64::from(config.bus.rate_mts) * 1_000_000 * u64::from(config.bus.width_bytes);
    let payload = u64::from(config.link.max_payload_bytes);
    let packet = payload + u64::from(config.link.packet_overhead_bytes);
    let link = u128::from(config.link.bytes_per_s) * u128::from(payload) / u128::from(packet);
    let rate = |bytes: u128| format!("{}/s", approximate(bytes));
    let mut facts = vec![
        ("raw capacity", size(raw)),
        ("user capacity", size(user)),
        (
            "spare over user capacity",
            format!("{:.1}%", (raw as f64 / user.max(1) as f64 - 1.0) * 100.0),
        ),
        (
            "mapping units",
            format!(
                "{} ({:.2}% of the model's limit)",
                raw / unit,
                (raw / unit) as f64 / MAX_UNITS as f64 * 100.0
            ),
        ),
        (
            "dies, planes, blocks",
            format!("{}, {}, {}", geometry.dies(), geometry.planes(), geometry.blocks()),
        ),
        (
            "peak bandwidth of a channel",
            format!(
                "{}, {} in all",
                rate(channel.into()),
                rate(u128::from(channel) * u128::from(geometry.channels))
            ),
        ),
    ];
    if config.ethernet.is_none() {
        facts.push(("peak payload of the link", format!("{} in each direction", rate(link))));
    }
    facts
}
