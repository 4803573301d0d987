//! An index of keys that is not one of Mynah's, in a simulation.

use super::{Simulation, SimulationError};
use crate::runner::RunError;
use mynah_model::config::{Config, KeyIndexKind, NamespaceKind};
use mynah_model::pair_index::{OwnIndex, PairIndexKind};

impl Simulation {
    /// Gives the drive's key-value namespaces an index of your own. After [`Simulation::set`]; what
    /// is set of `kv.index` besides the kind holds for it.
    ///
    /// # Errors
    /// If the drive has no key-value namespace, or the index does not fit it.
    pub fn key_index(
        mut self,
        kind: &'static dyn PairIndexKind,
    ) -> Result<Simulation, SimulationError> {
        let pairs = self.config.namespaces.iter().any(|it| it.kind == NamespaceKind::Pairs);
        let Some(key_value) = self.config.key_value.as_mut().filter(|_| pairs) else {
            return Err(SimulationError::NoPairs(kind.name().to_owned()));
        };
        key_value.index.kind = KeyIndexKind::Own(OwnIndex(kind));
        self.config.check().map_err(RunError::from)?;
        Ok(self)
    }
}

/// The name of the index, if drive files do not know it.
pub(super) fn name(config: &Config) -> Option<&'static str> {
    match config.key_value.as_ref()?.index.kind {
        KeyIndexKind::Own(own) => Some(own.0.name()),
        _ => None,
    }
}
