//! What a drive file makes of a device in this process: the layout of its pairs, and the table of them.

use crate::abi::{KEY_BYTES, VALUE_BYTES_MAX};
use crate::table::{Layout, Table};
use mynah_device::{PatternValues, RamValues, Values};
use mynah_lab::drive::{default_key_value, load, takes_pairs};
use mynah_model::config::{Config, NamespaceKind};
use mynah_model::io::NamespaceId;
use mynah_runtime::arena;

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

/// An empty table. Values are kept, or made up of their keys; records are kept.
pub(crate) fn table(layout: Layout, pattern: bool) -> Table {
    let values: Box<dyn Values + Send> = match pattern {
        true => Box::new(PatternValues),
        false => Box::new(RamValues::from_source(arena::source())),
    };
    Table::new(layout, [Box::new(RamValues::new()), values])
}
