//! Drives with pairs, and the commands of their hosts.

use crate::shared::entry;
use mynah_model::config::{Config, KeyValue, Namespace, NamespaceKind, Placement};
use mynah_wire::nvme::SubmissionEntry;
use mynah_wire::nvme::command::{
    KeyValueCommand, List, Retrieve, Store as StoreCommand, StoreCondition,
};
use mynah_wire::nvme::key::Key;

/// Bytes of the namespace of pairs.
pub(crate) const BYTES: u64 = 3 << 20;

/// Namespace 1 has pairs, namespace 2 blocks.
pub(crate) fn mixed(config: &mut Config) {
    let whole = config.namespaces[0].clone();
    let units = |bytes: u64| Some(bytes / u64::from(config.mapping.unit_bytes));
    config.namespaces = vec![
        Namespace { units: units(BYTES), kind: NamespaceKind::Pairs, ..whole.clone() },
        Namespace { units: units(1 << 20), ..whole },
    ];
    config.placement = Placement::Striped;
    config.key_value = Some(KeyValue { managers: 2, ..mynah_model::testing::key_value() });
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name.as_bytes()).expect("a short name")
}

pub(crate) fn put(command: KeyValueCommand) -> SubmissionEntry {
    let mut entry = entry(0, 1);
    command.put(&mut entry);
    entry
}

pub(crate) fn store_if(condition: StoreCondition, name: &str, bytes: u32) -> SubmissionEntry {
    let store = StoreCommand { key: key(name), bytes, condition, uncompressed: false };
    put(KeyValueCommand::Store(store))
}

pub(crate) fn store(name: &str, bytes: u32) -> SubmissionEntry {
    store_if(StoreCondition::Always, name, bytes)
}

pub(crate) fn retrieve(name: &str, bytes: u32) -> SubmissionEntry {
    put(KeyValueCommand::Retrieve(Retrieve { key: key(name), bytes, raw: false }))
}

pub(crate) fn delete(name: &str) -> SubmissionEntry {
    put(KeyValueCommand::Delete(key(name)))
}

pub(crate) fn exist(name: &str) -> SubmissionEntry {
    put(KeyValueCommand::Exist(key(name)))
}

pub(crate) fn list(start: &str, bytes: u32) -> SubmissionEntry {
    put(KeyValueCommand::List(List { start: key(start), bytes }))
}
