//! The space that a drive has for pairs: those of the model's namespaces that are for them. A
//! namespace of pairs is one of these.

use super::pairs::Layout;
use mynah_model::Drive;
use mynah_model::config::Config;
use mynah_model::io::NamespaceId;
use std::collections::BTreeMap;

/// See the file's description.
#[derive(Debug, Default)]
pub(crate) struct PairSpace {
    /// The model's namespaces of pairs, and how many bytes each has.
    pools: Vec<(NamespaceId, u64)>,
    layout: Option<Layout>,
    /// Stores to those that no namespace is of any more, as the model counts them.
    stores: BTreeMap<NamespaceId, u64>,
}

impl PairSpace {
    /// The space of a drive that was built from `config`.
    pub(crate) fn of(drive: &Drive, config: &Config) -> PairSpace {
        let unit_bytes = u64::from(config.mapping.unit_bytes);
        let all = (1..=config.namespaces.len() as u32).map(NamespaceId);
        let pools = all.filter_map(|id| Some((id, drive.pair_counts(id)?.capacity * unit_bytes)));
        PairSpace { pools: pools.collect(), layout: Layout::of(config), stores: BTreeMap::new() }
    }

    /// How pairs are laid down; `None`: there can be none.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref().filter(|_| !self.pools.is_empty())
    }

    /// The namespace that was all of one of the model's is gone, after so many Stores.
    pub(crate) fn left(&mut self, pool: NamespaceId, stores: u64) {
        self.stores.insert(pool, stores);
    }

    /// How many Stores there were before to one that no namespace is of.
    pub(crate) fn stores(&self, pool: NamespaceId) -> u64 {
        self.stores.get(&pool).copied().unwrap_or(0)
    }

    /// The model's namespaces of pairs, and how many bytes each has.
    pub(crate) fn pools(&self) -> &[(NamespaceId, u64)] {
        &self.pools
    }
}
