//! Asynchronous Event Request, and events for the hosts of controllers: which wait, and for what, is in
//! [`crate::controllers::events`].

use super::Context;
use crate::controllers::events::{Kind, NAMESPACE_CHANGED};
use crate::subsystem::{Outcome, Subsystem};
use mynah_wire::nvme::opcode::admin;
use mynah_wire::nvme::{Status, SubmissionEntry};

impl Subsystem {
    pub(super) fn event_request(&mut self, context: Context<'_>) -> Result<Outcome, Status> {
        let controller = self.controllers.get_mut(context.controller);
        let events = controller.ok_or(Status::INTERNAL_ERROR)?.events_mut();
        match events.request(context.entry.command_id.get()) {
            true => Ok(Outcome::Later),
            false => Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED.do_not_retry()),
        }
    }

    /// Something has happened that a controller's host may want to hear of.
    pub(crate) fn raise(&mut self, controller: u16, kind: Kind) {
        let Some(target) = self.controllers.get_mut(controller) else { return };
        if target.events_mut().raise(kind) {
            self.deliver_events(controller);
        }
    }

    /// The host has read a log page without asking to keep its event.
    pub(super) fn page_read(&mut self, controller: u16, page: u8) {
        if let Some(target) = self.controllers.get_mut(controller) {
            target.events_mut().page_read(page);
        }
    }

    /// Answers requests with what is pending.
    pub(crate) fn deliver_events(&mut self, controller: u16) {
        while let Some(target) = self.controllers.get_mut(controller) {
            let queue = target.admin_queue();
            let Some((command_id, kind)) = target.events_mut().next() else { return };
            let mut entry =
                SubmissionEntry { opcode: admin::ASYNCHRONOUS_EVENT_REQUEST, ..Default::default() };
            entry.command_id.set(command_id);
            self.complete_admin(queue, &entry, kind.result());
        }
    }

    /// Tells the hosts of a namespace that it is not what it was.
    pub(crate) fn namespace_changed(&mut self, id: u32) {
        for controller in self.controllers.ids() {
            if self.namespaces.active(controller, id).is_ok() {
                self.namespace_changed_for(controller, id);
            }
        }
    }

    /// Tells one host that a namespace is not what it was.
    pub(super) fn namespace_changed_for(&mut self, controller: u16, id: u32) {
        if let Some(target) = self.controllers.get_mut(controller)
            && target.is_io()
        {
            target.note_changed(id);
            self.raise(controller, NAMESPACE_CHANGED);
        }
    }
}
