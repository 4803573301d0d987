//! Work of admin commands and shutdowns that ends with what the store and the model have done.

use super::Work;
use crate::admin::Context;
use crate::namespaces::Format;
use crate::output::{CommandKind, CompletionData};
use crate::subsystem::{Outcome, Subsystem};

/// A format to give to a namespace, by its identifier.
type Formats = Vec<(u32, Format)>;

impl Subsystem {
    /// Work of commands that ends with what the store and the model have done, and the command
    /// with it.
    pub(crate) fn end_own(&mut self, index: u32, work: Work) {
        match work {
            Work::Format(formats) => {
                self.formatted(formats);
                return self.finish_kept(index, 0);
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
            | Work::Keep(_) => {}
        }
        self.finish(index, CompletionData::None);
    }

    /// Ends an admin command that has changed what outlives the process: when that is on stable
    /// storage, because its host asks for nothing more.
    pub(crate) fn keep_change(&mut self, context: Context<'_>, result: u64) -> Outcome {
        let index = self.begin_whole(context.queue, context.entry, CommandKind::Admin, 0);
        self.describe();
        self.finish_kept(index, result);
        Outcome::Later
    }

    /// The same of a command that is under way.
    fn finish_kept(&mut self, index: u32, result: u64) {
        let ready = self.flush_store();
        self.wait_for(index, ready);
        if let Some(command) = self.commands.get_mut(index) {
            command.set_work(Work::Keep(result));
        }
        self.start(index);
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

    /// Everything is gone.
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

    /// Nothing is on its way any more, unless `index`, the command that was to see to it, has
    /// failed: then the shutdown never is complete.
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
