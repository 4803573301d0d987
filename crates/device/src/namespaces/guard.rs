//! Whether reads and writes need more checks than usual, whatever their namespace.

use crate::subsystem::Subsystem;

impl Subsystem {
    /// Recomputes whether all namespaces need more checks than usual.
    pub(crate) fn settle_guard(&mut self) {
        let is_guarded = self.media.keeps_replaced()
            || self.admin.sanitizes()
            || self.controllers.has_closed_path();
        self.namespaces.set_guarded(is_guarded);
    }
}
