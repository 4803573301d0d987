//! What a drive file makes of a device in this process: the layout of its pairs, and the table of them.

use crate::abi::{KEY_BYTES, VALUE_BYTES_MAX};
use crate::device::locked;
use crate::table::{Layout, Table};
use crate::uri::Backing;
use mynah_device::{PatternValues, RamValues, Values};
use mynah_drive_file::{default_key_value, load, takes_pairs};
use mynah_model::config::{Config, NamespaceKind};
use mynah_model::io::NamespaceId;
use mynah_runtime::arena;
use mynah_runtime::clock::{Clock, Rate};
use mynah_runtime::pair_store::{OpenError, PairFolder, PairStore};
use mynah_stamp::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

/// How often what was stored is put on stable storage.
const TEND_INTERVAL: Span = Span::from_secs(1);

/// What a drive is, and which namespace of it has the pairs.
pub(crate) struct Plan {
    pub(crate) config: Config,
    pub(crate) namespace: NamespaceId,
    pub(crate) layout: Layout,
}

/// A shipped drive, or that of a drive file.
///
/// # Errors
/// If there is no such drive, or it cannot have pairs.
pub(crate) fn plan(name: &str) -> Result<Plan, String> {
    let file = load(name, &[]).map_err(|error| error.to_string())?;
    let mut config = file.config;
    let at = namespace_of_pairs(&mut config)?;
    let pairs = config.key_value.as_mut().ok_or("the drive has no section [kv]")?;
    // The library's keys have up to 255 bytes, whatever the command set that the drive is served with.
    pairs.key_max = *KEY_BYTES.end() as u32;
    pairs.value_max = pairs.value_max.min(VALUE_BYTES_MAX);
    let (header_bytes, value_max) = (pairs.header_bytes, pairs.value_max);
    let keys_max = pairs.index.keys_max.unwrap_or(u64::MAX);
    let unit_bytes = config.mapping.unit_bytes;
    let units = config.capacities().map_err(|error| error.to_string())?;
    let capacity = units.get(at).copied().unwrap_or(0) * u64::from(unit_bytes);
    let layout = Layout { header_bytes, unit_bytes, capacity, keys_max, value_max };
    Ok(Plan { config, namespace: NamespaceId(at as u32 + 1), layout })
}

/// The first namespace of pairs. A drive for blocks that is not divided becomes one.
fn namespace_of_pairs(config: &mut Config) -> Result<usize, String> {
    if let Some(at) = config.namespaces.iter().position(|it| it.kind == NamespaceKind::Pairs) {
        return Ok(at);
    }
    if config.namespaces.len() > 1 {
        return Err("the drive file has namespaces, and none of them holds pairs".into());
    }
    takes_pairs(config)?;
    for namespace in &mut config.namespaces {
        namespace.kind = NamespaceKind::Pairs;
    }
    if config.key_value.is_none() {
        config.key_value = Some(default_key_value(config));
    }
    Ok(0)
}

/// The table of a device: empty, or with the pairs of the folder that keeps them. Values are kept, or
/// made up of their keys; records are kept.
///
/// # Errors
/// If the folder cannot be used, or its pairs are too many for the device.
pub(crate) fn table(layout: Layout, backing: &Backing) -> Result<Arc<Mutex<Table>>, String> {
    let of_pairs: Box<dyn Values + Send> = match backing {
        Backing::Ram => Box::new(RamValues::from_source(arena::source())),
        Backing::Pattern => Box::new(PatternValues),
        Backing::Folder(path) => return stored_table(layout, path),
    };
    let records = Box::new(RamValues::new());
    Ok(Arc::new(Mutex::new(Table::new(layout, of_pairs, Some(records)))))
}

fn stored_table(layout: Layout, path: &Path) -> Result<Arc<Mutex<Table>>, String> {
    let said = |error: OpenError| format!("{error}; {}", error.help());
    let folder = PairFolder::open(path, arena::source()).map_err(said)?;
    let store = PairStore::new(folder).map_err(said)?;
    store.tell(Box::new(|problem| eprintln!("mynah: {problem}")));
    let bell = store.wake_descriptor().try_clone_to_owned().map_err(|error| error.to_string())?;
    let mut table = Table::new(layout, Box::new(store), None);
    if !table.recall() {
        return Err(format!("the pairs in {} do not fit into this drive", path.display()));
    }
    let table = Arc::new(Mutex::new(table));
    let tended = Arc::downgrade(&table);
    let thread = std::thread::Builder::new().name("mynah-kv-store".into());
    thread.spawn(move || tend(&tended, &bell)).map_err(|error| error.to_string())?;
    Ok(table)
}

/// Has changed pairs stored, and put on stable storage every second, as long as the table exists.
fn tend(table: &Weak<Mutex<Table>>, bell: &OwnedFd) {
    let clock = Clock::start(Rate::REAL);
    let mut looked = clock.wall();
    loop {
        let wait = Timespec { tv_sec: 1, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(bell, PollFlags::IN)], Some(&wait));
        let Some(table) = table.upgrade() else { return };
        let now = clock.wall();
        let is_due = now.saturating_since(looked) >= TEND_INTERVAL;
        if is_due {
            looked = now;
        }
        locked(&table).go_on(is_due);
    }
}
