//! Work of admin commands and shutdowns that ends with what the store and the model have done.

use super::Work;
use crate::namespaces::Format;
use crate::subsystem::Subsystem;

/// A format to give to a namespace, by its identifier.
type Formats = Vec<(u32, Format)>;

impl Subsystem {
    /// Work of commands that ends with what the store and the model have done; whether the command
    /// ends only when what it has changed is on stable storage.
    pub(crate) fn end_own(&mut self, index: u32, work: Work) -> bool {
        match work {
            Work::Format(formats) => {
                self.formatted(formats);
                return true;
            }
            Work::Release(extents) => {
                self.media.forget_erased(&extents);
                self.namespaces.space_mut().give_back(&extents);
            }
            Work::Sanitize => {
                self.media.forget_replaced();
                self.sanitized();
            }
            Work::ShutDown(controller) => self.shutdown_flushed(index, controller),
            Work::None
            | Work::Media
            | Work::Blocks(_)
            | Work::Key(_)
            | Work::Fused(_)
            | Work::Place(_)
            | Work::Persist(_) => {}
        }
        false
    }

    /// Everything is gone: the namespaces have their new formats.
    pub(crate) fn formatted(&mut self, formats: Formats) {
        for (id, format) in formats {
            let Some(namespace) = self.namespaces.with_id_mut(id) else { continue };
            namespace.end_format(format);
            self.media.forget_erased(namespace.extents());
            self.namespace_changed(id);
        }
        self.describe();
    }

    /// A sanitize has erased everything.
    pub(crate) fn sanitized(&mut self) {
        let event = self.admin.end_sanitize(self.health.counts().writes);
        for namespace in self.namespaces.iter_mut() {
            namespace.clear_all_marks();
        }
        self.media.outdate_description();
        // Nobody waits for it: if it is lost, everything is erased once more, unless a host has
        // flushed since.
        let _ = self.flush_store();
        self.settle_guard();
        let ids: Vec<u16> =
            self.controllers.iter().filter(|it| it.is_io()).map(|it| it.id()).collect();
        for id in ids {
            self.raise(id, event);
        }
    }

    /// Completes a shutdown whose flushes are done. If `index`, the command that flushed, has
    /// failed, the shutdown never completes.
    pub(crate) fn shutdown_flushed(&mut self, index: u32, id: u16) {
        let Some(command) = self.commands.get(index) else { return };
        if !command.status().is_success() {
            return;
        }
        self.media.made_certain(command.certain());
        // The controller may have been reset since, or be another.
        if let Some(controller) = self.controllers.get_mut(id)
            && controller.is_shut_down_by(index)
        {
            controller.end_shutdown();
        }
    }
}
