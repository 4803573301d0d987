//! Asynchronous events (Base 2.0, section 5.2).
//!
//! An event waits until the host has a request for it. Once told, the host hears no more of
//! its kind until it has read the log page that belongs to it.

use super::Context;
use crate::subsystem::{Outcome, Subsystem};
use mynah_wire::nvme::feature::event as config;
use mynah_wire::nvme::log::page;
use mynah_wire::nvme::opcode::admin;
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::collections::VecDeque;

/// Outstanding requests (AERL is one less).
pub(crate) const REQUESTS_MAX: usize = 4;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Type: error, health, notice, I/O command specific.
    code: u8,
    /// What happened.
    information: u8,
    /// The log page that says more.
    page: u8,
    /// Bits of the configuration of which one has to be set; 0: always told.
    wanted: u32,
}

pub(crate) const INVALID_DOORBELL: Kind =
    Kind { code: 0, information: 0, page: page::ERROR_INFORMATION, wanted: 0 };
pub(crate) const INVALID_DOORBELL_VALUE: Kind =
    Kind { code: 0, information: 1, page: page::ERROR_INFORMATION, wanted: 0 };
pub(crate) const PERSISTENT_ERROR: Kind =
    Kind { code: 0, information: 3, page: page::ERROR_INFORMATION, wanted: 0 };
pub(crate) const TEMPERATURE: Kind =
    Kind { code: 1, information: 1, page: page::SMART, wanted: 1 << 1 };
pub(crate) const RELIABILITY: Kind =
    Kind { code: 1, information: 0, page: page::SMART, wanted: 1 << 2 | 1 << 3 };
pub(crate) const SPARE: Kind = Kind { code: 1, information: 2, page: page::SMART, wanted: 1 };
pub(crate) const NAMESPACE_CHANGED: Kind = Kind {
    code: 2,
    information: 0,
    page: page::CHANGED_NAMESPACES,
    wanted: config::NAMESPACE_CHANGED,
};
pub(crate) const ANA_CHANGED: Kind =
    Kind { code: 2, information: 3, page: page::ANA, wanted: config::ANA_CHANGED };
pub(crate) const DISCOVERY_CHANGED: Kind =
    Kind { code: 2, information: 0xf0, page: page::DISCOVERY, wanted: config::DISCOVERY_CHANGED };
pub(crate) const RESERVATION_NOTIFICATION: Kind =
    Kind { code: 6, information: 0, page: page::RESERVATION_NOTIFICATION, wanted: 0 };
pub(crate) const SANITIZE_COMPLETED: Kind =
    Kind { code: 6, information: 1, page: page::SANITIZE_STATUS, wanted: 0 };
/// It has deallocated what the host wanted to keep allocated.
pub(crate) const SANITIZE_COMPLETED_DEALLOCATED: Kind =
    Kind { code: 6, information: 2, page: page::SANITIZE_STATUS, wanted: 0 };

/// Events of a controller.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Requests, by command identifier.
    requests: VecDeque<u16>,
    pending: VecDeque<Kind>,
    /// Pages that have to be read before their events are told again.
    unread: Vec<u8>,
    /// The asynchronous event configuration.
    configuration: u32,
}

impl Events {
    /// The asynchronous event configuration.
    pub(super) fn configuration(&self) -> u32 {
        self.configuration
    }

    pub(super) fn configure(&mut self, configuration: u32) {
        self.configuration = configuration;
    }

    /// As after a reset; says how many requests are gone.
    pub(crate) fn reset(&mut self) -> usize {
        std::mem::take(self).requests.len()
    }

    /// Takes one request back.
    pub(crate) fn abort(&mut self, command_id: u16) -> bool {
        let at = self.requests.iter().position(|&request| request == command_id);
        at.and_then(|at| self.requests.remove(at)).is_some()
    }

    /// The next event to tell, and the request that takes it.
    fn next(&mut self) -> Option<(u16, Kind)> {
        if self.requests.is_empty() {
            return None;
        }
        let at = self.pending.iter().position(|kind| !self.unread.contains(&kind.page))?;
        let kind = self.pending.remove(at)?;
        self.unread.push(kind.page);
        Some((self.requests.pop_front()?, kind))
    }
}

impl Subsystem {
    pub(super) fn event_request(&mut self, context: Context<'_>) -> Result<Outcome, Status> {
        let controller = self.controllers.get_mut(context.controller);
        let events = controller.ok_or(Status::INTERNAL_ERROR)?.events_mut();
        if events.requests.len() >= REQUESTS_MAX {
            return Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED.do_not_retry());
        }
        events.requests.push_back(context.entry.command_id.get());
        Ok(Outcome::Later)
    }

    /// Something has happened that a controller's host may want to hear of.
    pub(crate) fn raise(&mut self, controller: u16, kind: Kind) {
        let Some(target) = self.controllers.get_mut(controller) else { return };
        let events = target.events_mut();
        let wanted = kind.wanted == 0 || events.configuration & kind.wanted != 0;
        if wanted && !events.pending.contains(&kind) {
            events.pending.push_back(kind);
            self.deliver_events(controller);
        }
    }

    /// The host has read a log page without asking to keep its event.
    pub(super) fn page_read(&mut self, controller: u16, page: u8) {
        if let Some(target) = self.controllers.get_mut(controller) {
            let events = target.events_mut();
            events.unread.retain(|&unread| unread != page);
            events.pending.retain(|kind| kind.page != page);
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
            let result = u64::from(kind.code)
                | u64::from(kind.information) << 8
                | u64::from(kind.page) << 16;
            self.complete_admin(queue, &entry, result);
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
