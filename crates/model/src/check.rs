//! The invariants, walked in full: slow, for tests.

use crate::drive::{Drive, Policies};
use crate::invariant::{BrokenInvariant, hold};

impl<P: Policies> Drive<P> {
    /// Walks the drive's state and checks that it fits together: both mapping directions,
    /// valid counts, free blocks, queues, cache and counters.
    ///
    /// # Errors
    /// Says which invariant does not hold.
    #[inline]
    pub fn check(&self) -> Result<(), BrokenInvariant> {
        P::check(self)
    }

    pub(crate) fn check_here(&self) -> Result<(), BrokenInvariant> {
        self.ftl.check(self.config.placement)?;
        self.ftl.check_pairs(|lpn| self.cache.as_ref().is_some_and(|it| it.find(lpn).is_some()))?;
        self.check_queues()?;
        self.check_cache()
    }

    /// Checks that nothing is left to do: for the end of a run whose commands have all
    /// completed.
    ///
    /// # Errors
    /// Says what is left.
    pub fn check_quiet(&self) -> Result<(), BrokenInvariant> {
        hold(self.host.commands_inside() == 0, || {
            format!("{} commands are left", self.host.commands_inside())
        })?;
        hold(self.ftl.flights() == 0, || "translation pages are on their way".to_string())?;
        let units: usize = self.cache.as_ref().map_or(0, |cache| cache.len());
        hold(self.ftl.units().len() == units, || {
            format!("{} write units are left, {units} are cached", self.ftl.units().len())
        })
    }
}
