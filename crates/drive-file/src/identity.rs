//! What identifies a drive: a hash of its settings, to which results, recordings, saved states
//! and stores of bytes are bound.
//!
//! The hash is of the settings as [`settings`] writes them, one a line, so that it is the same
//! however a file says them, and leaves out those at their default, so that drives keep their
//! hash when a key is added that they do not use. What the default is are the values that a few
//! drives have which say nothing of it ([`BASE`], [`SECTIONS`]); whether a key is there at all
//! is decided by keys that those drives do say, and which therefore are never left out. A default
//! that has moved since counts here as what it was first: what a drive does is its hash, not what
//! its file leaves out.

use super::keys::declare::{Setting, Shapes};
use super::keys::settings;
use super::moved::earlier_defaults;
use super::{Source, Sourced, read};
use mynah_model::config::{Config, Namespace};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;

/// Begins what is hashed, and changes when the rules here do.
const RULES: &str = "mynah.drive/1";

/// A drive that says only what every drive has to.
const BASE: &str = r#"schema = "mynah.drive/1"
name = "defaults"
over_provisioning = "20%"

[geometry]
channels = 2
chips_per_channel = 1
dies_per_chip = 2
planes_per_die = 2
blocks_per_plane = 64
pages_per_block = 32
page_size = "16KiB"

[flash]
cell = "tlc"
read = "40us"
program = "500us"
erase = "3ms"

[bus]
rate = "1200MT/s"

[link]
generation = 4
lanes = 4

[cache]
size = "1MiB"

[mapping]
unit = "4KiB"
"#;

/// What of it has a default all the same, and is never left out.
const BASE_SAYS: [&str; 1] = ["mapping.unit"];

/// What opens the sections that a drive may have, or not.
const SECTIONS: [&[&str]; 11] = [
    &[],
    &[
        "cache.write_back=lru",
        "cache.dram.rows=open",
        "mapping.table=cached",
        "mapping.cmt.size=1MiB",
        "gc.victim=d-choices",
        "gc.write_frontiers=hot-cold",
        "gc.idle_after=1ms",
        "queues.arbitration=weighted",
        "firmware.read=1us",
        "scheduler.suspend_program.latency=5us",
        "scheduler.suspend_erase.latency=5us",
        "wear.endurance=3000",
    ],
    &["gc.victim=random-p", "scheduler.flin.epoch=10ms", "gc.preemptible=true"],
    &["mapping.kind=hybrid", "mapping.unit=16KiB"],
    &["link={protocol = \"sata\", generation = 3}"],
    &["slc.dynamic=100%", "slc.sequential_cutoff=1GiB"],
    // Its default of the unit of collection is its own, and said.
    &["placement.handles=8", "geometry.blocks_per_plane=1024", "gc.unit=superblock"],
    &[
        "link={protocol = \"ethernet\"}",
        "link.nic.receive=1ns",
        "link.axi={width_bits = 1024, clock = \"500MHz\"}",
        "link.target.transport={engines = 1}",
        "link.target.capsule={}",
        "link.target.block_layer={}",
        "link.target.nvme_layer={}",
    ],
    &["link={protocol = \"ethernet\", framing = \"tcp\"}"],
    &["kv={}", "kv.index.kind=hash", "allocation.placement=striped"],
    &["kv={}", "kv.index.kind=lsm", "allocation.placement=striped", "over_provisioning=40%"],
];

/// What is never left out: namespaces are counted, and what is said of one is said.
const NEVER: &str = "namespace.";

/// Identifies a drive by what it does: the first 16 hexadecimal digits of the SHA-256 of its
/// settings that are not at their default. Comments, sources, names, how quantities are spelt and
/// the seed do not change it.
pub fn drive_hash(config: &Config) -> String {
    let mut text = format!("{RULES}\n");
    if config.namespaces != [Namespace::whole_drive()] {
        let _ = writeln!(text, "namespaces = {}", config.namespaces.len());
    }
    let defaults = defaults();
    for Setting { path, value, .. } in settings(config) {
        if path != "seed" && defaults.get(&path) != Some(&value) {
            let _ = writeln!(text, "{path} = {value}");
        }
    }
    Sha256::digest(text).iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What the state depends on that the drive is prepared into, as text: drives with the same one are
/// prepared alike, to the last bit. `paced` says whether it is a steady state of which it is known how fast
/// it is written ([`Shapes::Paced`]).
pub fn prepared_as(config: &Config, paced: bool) -> String {
    let mut text = format!("namespaces = {}\n", config.namespaces.len());
    for Setting { path, value, shapes } in settings(config) {
        if shapes == Shapes::Always || (paced && shapes == Shapes::Paced) {
            let _ = writeln!(text, "{path} = {value}");
        }
    }
    text
}

/// Each setting of the drive and its value, with what is said of it in [`prepared_as`].
pub fn shaping(config: &Config) -> Vec<(String, String, Shapes)> {
    settings(config).into_iter().map(|it| (it.path, it.value, it.shapes)).collect()
}

/// Keys that may be left out, and the values that they then have.
fn defaults() -> &'static BTreeMap<String, String> {
    static DEFAULTS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    DEFAULTS.get_or_init(|| {
        let mut defaults = BTreeMap::new();
        for changes in SECTIONS {
            // What others follow from is said as it was first.
            let changes: Vec<String> =
                ["gc.paced=false"].iter().chain(changes).map(|&text| text.to_owned()).collect();
            let (_, config, settings) =
                read("defaults", BASE, &changes, "set").unwrap_or_else(|error| panic!("{error}"));
            let said = |path: &str| BASE_SAYS.contains(&path);
            defaults.extend(
                earlier_defaults(&config)
                    .filter(|(path, _)| !said(path))
                    .map(|(path, value)| (path.to_owned(), value)),
            );
            let unsaid = settings.into_iter().filter(|setting| {
                setting.source == Source::Default && !setting.path.starts_with(NEVER)
            });
            for Sourced { path, value, .. } in unsaid {
                defaults.entry(path).or_insert(value);
            }
        }
        defaults
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key_paths, shipped};
    use std::collections::BTreeSet;

    /// Keys that no setting of a drive is called by: the file's own, and other ways to say what is
    /// shown under another name. Faults have a test of their own.
    const NOT_SHOWN: [&str; 6] =
        ["schema", "name", "description", "sources", "bus.protocol", "link.target.LAYER.bypass"];

    /// The path of a key, for every namespace and layer the same.
    fn path_of_all(path: &str) -> String {
        let path = path.replace("namespace.0.", "namespace.");
        let layers = ["transport", "capsule", "block_layer", "nvme_layer"];
        layers.iter().fold(path, |path, layer| path.replace(&format!(".{layer}."), ".LAYER."))
    }

    /// A key that is read and not shown would not be part of the hash: two drives that do different
    /// things would be taken for one.
    #[test]
    fn every_key_is_part_of_some_drives_hash() {
        let more: &[&[&str]] = &[
            &["wear.static_threshold=9", "wear.retry=9us", "wear.retries=[{cycles=0,mean=0.5}]"],
            &["wear.decode=[{cycles=0,time=\"1us\"}]", "scheduler.write_deadline=1ms"],
            &["energy={read=\"1uJ\",program=\"1uJ\",erase=\"1uJ\"}", "geometry.pages_per_block=33"],
            &["flash.one_shot=true", "geometry.pages_per_block=33"],
            &["scheduler.suspend_erase={latency=\"5us\",for_writes=\"1ms\"}"],
            &["mapping.cmt={size=\"1MiB\",entry=\"16B\",translation_entry=\"8B\"}"],
            &["cache.write_back_max=64KiB", "gc.unit=superblock", "link.generation=4"],
            &["gc.write_frontiers=hot-cold", "gc.hot={counters=160,decay=160}"],
            &["slc={endurance=30000}"],
            &["namespace.0={size=\"1MiB\",channels=[0],chips=[0],dies=[0],planes=[0]}"],
            &["namespace.0={cache=\"off\"}", "gc.least_invalid=1%"],
            &[
                "placement={handles=2}",
                "geometry.blocks_per_plane=1024",
                "namespace.0={handles=[1]}",
            ],
            &[
                "link={protocol=\"ethernet\",target={cores=1,receive_buffers=9,data_buffers=9}}",
                "link.target.transport={}",
                "link.target.capsule={merge=true}",
                "link.target.block_layer={engines=2}",
                "link.target.nvme_layer={}",
            ],
            &["kv.index.keys=9", "namespace.0.kind=kv", "allocation.placement=striped"],
        ];
        let mut shown = BTreeSet::new();
        let mut add = |config: &Config| {
            shown.extend(settings(config).iter().map(|setting| path_of_all(&setting.path)));
        };
        for changes in SECTIONS.into_iter().chain(more.iter().copied()) {
            let changes: Vec<String> = changes.iter().map(|&text| text.to_owned()).collect();
            let (_, config, _) = read("every", BASE, &changes, "set")
                .unwrap_or_else(|error| panic!("{changes:?}: {error}"));
            add(&config);
        }
        for drive in shipped() {
            add(&crate::load(drive.name, &[]).unwrap().config);
        }
        let paths = key_paths();
        let is_section = |path: &String| {
            let within = format!("{path}.");
            paths.iter().any(|other| other.starts_with(&within))
        };
        let missing: Vec<String> = paths
            .iter()
            .filter(|path| !is_section(path))
            .map(|path| path_of_all(path))
            .filter(|path| !shown.contains(path))
            .filter(|path| !NOT_SHOWN.contains(&path.as_str()) && !path.starts_with("fault."))
            // Times that are one or many are shown whole.
            .filter(|path| shown.iter().all(|shown| !path.starts_with(&format!("{shown}."))))
            .collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
}
