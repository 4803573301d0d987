//! Asymmetric namespace access (Base 2.0, section 8.1): whether a controller is a way to the
//! namespaces.
//!
//! All namespaces are in one group, which has a state for each controller: optimized, unless
//! somebody outside changes it. Where it does not let the host in, I/O commands end with a status
//! that tells it to try another path; those under way go on, and so do admin commands. A host that
//! has asked for it hears of every change, and of how many there were.

use super::{AnaState, Controller, Controllers, Path};
use mynah_wire::nvme::Status;

impl Controllers {
    /// The state of the group for a controller, and how often it has changed.
    pub(crate) fn ana(&self, id: u16) -> (AnaState, u64) {
        self.paths.state(id)
    }

    /// Whether a controller is a way to the namespaces.
    #[inline]
    pub(crate) fn check_path(&self, id: u16) -> Result<(), Status> {
        self.paths.refusal(id).map_or(Ok(()), Err)
    }

    /// Whether there is a controller, now or later, that is no way to the namespaces.
    pub(crate) fn has_closed_path(&self) -> bool {
        self.paths.has_closed()
    }

    /// Gives the group another state for those whose path this is: the controllers for which it is
    /// another. What was changed last counts.
    pub(crate) fn change_path(&mut self, path: Path, state: AnaState) -> Vec<u16> {
        let is_there = |it: &&Controller| matches!(path, Path::Port(port) if it.is_at(port));
        let there = self.iter().filter(is_there).map(|it| it.id()).collect();
        self.paths.set(path, state, there)
    }
}
