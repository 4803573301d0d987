//! The keys of drive files: a file a section, in which each key is declared once ([`declare`]).
//!
//! The documentation of keys is the reference for users: it becomes the descriptions in the JSON
//! Schema. What a section's keys cannot be together is checked where the section becomes the
//! model's; what sections cannot be together, in [`lower`](crate::lower).

mod bus;
mod cache;
pub(crate) mod declare;
mod energy;
mod ethernet;
mod firmware;
mod flash;
mod gc;
mod geometry;
pub(crate) mod key_value;
pub(crate) mod link;
mod mapping;
pub(crate) mod namespace;
mod needs;
pub(crate) mod placement;
mod queues;
mod scheduler;
mod slc;
pub(crate) mod value;
mod wear;
mod words;

use crate::at::{At, Maybe};
use crate::units::Fraction;
use declare::{Section, Setting, Settings, no_keys, section};
use mynah_model::config::{self, Config};
use std::collections::BTreeMap;
use value::Value;

use bus::Bus;
use cache::Cache;
use energy::EnergyCosts;
use ethernet::{Axi, Nic, Target};
use firmware::Firmware;
use flash::Flash;
use gc::Gc;
pub(crate) use gc::UNPACED_START;
use geometry::Geometry;
use key_value::KeyValue;
pub use key_value::{default_key_value, takes_pairs};
use link::Link;
use mapping::{Allocation, Mapping};
use namespace::{FaultEntry, Namespace};
pub(crate) use needs::is_hybrid;
use needs::{COLLECTS, ERASED, PAIRS};
use placement::Placement;
pub use scheduler::FLIN;
use scheduler::Scheduler;
use slc::Slc;
use wear::Wear;
use words::*;

/// Over-provisioning of a drive that says nothing of it.
pub(crate) const SPARE: Fraction = Fraction(0.07);

section! {
    /// One drive: its flash, its controller, its link to the host.
    #[schemars(title = "Mynah drive file")]
    File {
        /// The format's version.
        schema: At<SchemaVersion>;
        /// Short name of the drive, as results show it.
        name: At<String>;
        /// What drive this is, in a sentence or two.
        #[serde(default)]
        description: String;
        /// Share of the physical pages that the host does not see, between 0% and 100%. Default: 7%, or
        /// 0 with `flash.rewritable`.
        over_provisioning: Maybe<Fraction>;
        /// Seed of every random choice the drive makes.
        seed: Maybe<u64> = "1";
        /// The flash array's shape.
        geometry: At<Geometry>;
        /// How long the flash array takes.
        flash: At<Flash>;
        /// The bus between controller and chips.
        bus: At<Bus>;
        /// The link between host and controller.
        link: At<Link>;
        /// Submission and completion queues.
        #[serde(default)]
        queues: queues::Queues;
        /// The controller's processors.
        #[serde(default)]
        firmware: Firmware;
        /// The data cache. Default: none.
        cache: Maybe<Cache>;
        /// Logical to physical mapping.
        #[serde(default)]
        mapping: Mapping;
        /// How writes are spread over the flash.
        #[serde(default)]
        allocation: Allocation;
        /// Garbage collection.
        #[serde(default)]
        gc: Gc;
        /// A pSLC write cache. Default: none.
        slc: Maybe<Slc>, when ERASED;
        /// Data placement, NVMe's FDP. Default: none.
        placement: Maybe<Placement>, when COLLECTS | ERASED;
        /// What wear does, and how it is levelled. Default: nothing wears out.
        #[serde(default)]
        wear: Wear;
        /// What operations cost in energy. Default: not known, and not reported.
        energy: Maybe<EnergyCosts>;
        /// Flash transaction scheduling.
        #[serde(default)]
        scheduler: Scheduler;
        /// Key-value namespaces. Default: there are none.
        kv: Maybe<KeyValue>, when PAIRS;
        /// The namespaces, in order, numbered from 1. Default: one over the whole drive.
        #[serde(default)]
        namespace: Vec<At<Namespace>>;
        /// Faults to inject. Default: none.
        #[serde(default)]
        fault: Vec<At<FaultEntry>>;
        /// Where each number comes from: a key (`"flash.read"`) or a section (`geometry`) and the
        /// publication, file or measurement. A text that begins with `estimate` says that nobody
        /// published it. The longest matching key counts.
        #[serde(default)]
        sources: BTreeMap<String, String>;
    }
}

no_keys!(String);

/// Fields that are read as they are.
macro_rules! verbatim {
    ($($type:ty),+) => { $(
        impl declare::Given for $type {
            fn place(&self) -> Option<std::ops::Range<usize>> {
                None
            }
            fn clear(&mut self) {}
            fn keys(&mut self, _: &mut dyn FnMut(&mut dyn declare::Given, declare::Needs)) {}
        }
    )+ };
}

verbatim!(String, BTreeMap<String, String>);

/// Every setting of `config`, in the order of a drive file.
pub(crate) fn settings(config: &Config) -> Vec<Setting> {
    fn show<S: Section>(model: &S::Model, name: &str, config: &Config, out: &mut Settings) {
        S::show(model, name, config, out);
    }
    let out = &mut Settings::default();
    out.put("over_provisioning", Fraction(config.over_provisioning).toml());
    out.put("seed", config.seed.toml());
    show::<Geometry>(&config.geometry, "geometry", config, out);
    show::<Flash>(&config.flash, "flash", config, out);
    show::<Bus>(&config.bus, "bus", config, out);
    show::<Link>(config, "link", config, out);
    show::<queues::Queues>(&config.queues, "queues", config, out);
    show::<Firmware>(&config.firmware, "firmware", config, out);
    match &config.cache {
        None => out.put("cache.size", crate::units::Bytes(0).toml()),
        Some(cache) => show::<Cache>(cache, "cache", config, out),
    }
    show::<Mapping>(&config.mapping, "mapping", config, out);
    show::<Allocation>(config, "allocation", config, out);
    show::<Gc>(&config.gc, "gc", config, out);
    if let Some(slc) = &config.slc {
        show::<Slc>(slc, "slc", config, out);
    }
    if let Some(placement) = &config.data_placement {
        show::<Placement>(placement, "placement", config, out);
    }
    show::<Wear>(&config.wear, "wear", config, out);
    if let Some(energy) = &config.energy {
        show::<EnergyCosts>(energy, "energy", config, out);
    }
    show::<Scheduler>(&config.scheduler, "scheduler", config, out);
    if let Some(kv) = &config.key_value {
        show::<KeyValue>(kv, "kv", config, out);
    }
    if config.namespaces != [config::Namespace::whole_drive()] {
        for (index, namespace) in config.namespaces.iter().enumerate() {
            show::<Namespace>(namespace, &format!("namespace.{index}"), config, out);
        }
    }
    for (index, fault) in config.faults.iter().enumerate() {
        namespace::show_fault(fault, &format!("fault.{index}"), out);
    }
    std::mem::take(&mut out.list)
}
