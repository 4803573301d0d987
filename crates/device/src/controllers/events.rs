//! Asynchronous events (Base 2.0, section 5.2).
//!
//! An event waits until the host has a request for it. Once told, the host hears no more of
//! its kind until it has read the log page that belongs to it.

use mynah_wire::nvme::feature::event as config;
use mynah_wire::nvme::log::page;
use std::collections::VecDeque;

/// Outstanding requests (AERL is one less).
pub(crate) const REQUESTS_MAX: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Type: error, health, notice, I/O command specific.
    code: u8,
    /// Asynchronous Event Information.
    information: u8,
    /// The log page that says more.
    page: u8,
    /// Bits of the configuration of which one has to be set; 0: always told.
    enable_bits: u32,
}

pub(crate) const INVALID_DOORBELL: Kind =
    Kind { code: 0, information: 0, page: page::ERROR_INFORMATION, enable_bits: 0 };
pub(crate) const INVALID_DOORBELL_VALUE: Kind =
    Kind { code: 0, information: 1, page: page::ERROR_INFORMATION, enable_bits: 0 };
pub(crate) const PERSISTENT_ERROR: Kind =
    Kind { code: 0, information: 3, page: page::ERROR_INFORMATION, enable_bits: 0 };
pub(crate) const TEMPERATURE: Kind =
    Kind { code: 1, information: 1, page: page::SMART, enable_bits: 1 << 1 };
pub(crate) const RELIABILITY: Kind =
    Kind { code: 1, information: 0, page: page::SMART, enable_bits: 1 << 2 | 1 << 3 };
pub(crate) const SPARE: Kind = Kind { code: 1, information: 2, page: page::SMART, enable_bits: 1 };
pub(crate) const NAMESPACE_CHANGED: Kind = Kind {
    code: 2,
    information: 0,
    page: page::CHANGED_NAMESPACES,
    enable_bits: config::NAMESPACE_CHANGED,
};
pub(crate) const ANA_CHANGED: Kind =
    Kind { code: 2, information: 3, page: page::ANA, enable_bits: config::ANA_CHANGED };
pub(crate) const DISCOVERY_CHANGED: Kind = Kind {
    code: 2,
    information: 0xf0,
    page: page::DISCOVERY,
    enable_bits: config::DISCOVERY_CHANGED,
};
pub(crate) const RESERVATION_NOTIFICATION: Kind =
    Kind { code: 6, information: 0, page: page::RESERVATION_NOTIFICATION, enable_bits: 0 };
pub(crate) const SANITIZE_COMPLETED: Kind =
    Kind { code: 6, information: 1, page: page::SANITIZE_STATUS, enable_bits: 0 };
/// It has deallocated what the host wanted to keep allocated.
pub(crate) const SANITIZE_COMPLETED_DEALLOCATED: Kind =
    Kind { code: 6, information: 2, page: page::SANITIZE_STATUS, enable_bits: 0 };

impl Kind {
    /// What a request for events ends with: the completion's dword 0.
    pub(crate) fn result(self) -> u64 {
        u64::from(self.code) | u64::from(self.information) << 8 | u64::from(self.page) << 16
    }
}

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
    pub(crate) fn configuration(&self) -> u32 {
        self.configuration
    }

    pub(crate) fn configure(&mut self, configuration: u32) {
        self.configuration = configuration;
    }

    /// As after a reset; says how many requests are gone.
    pub(crate) fn reset(&mut self) -> usize {
        std::mem::take(self).requests.len()
    }

    /// Takes a request; false if there are as many as there can be.
    pub(crate) fn request(&mut self, command_id: u16) -> bool {
        let has_room = self.requests.len() < REQUESTS_MAX;
        if has_room {
            self.requests.push_back(command_id);
        }
        has_room
    }

    /// An event waits from now on, if the host wants to hear of its kind; false if nothing is new.
    pub(crate) fn raise(&mut self, kind: Kind) -> bool {
        let is_enabled = kind.enable_bits == 0 || self.configuration & kind.enable_bits != 0;
        let is_new = is_enabled && !self.pending.contains(&kind);
        if is_new {
            self.pending.push_back(kind);
        }
        is_new
    }

    /// The host has read a log page: what that says is not pending any more.
    pub(crate) fn page_read(&mut self, page: u8) {
        self.unread.retain(|&unread| unread != page);
        self.pending.retain(|kind| kind.page != page);
    }

    /// Withdraws a request; false if none has this command identifier.
    pub(crate) fn abort(&mut self, command_id: u16) -> bool {
        let at = self.requests.iter().position(|&request| request == command_id);
        at.and_then(|at| self.requests.remove(at)).is_some()
    }

    /// The next event to tell, and the request that takes it.
    pub(crate) fn next(&mut self) -> Option<(u16, Kind)> {
        if self.requests.is_empty() {
            return None;
        }
        let at = self.pending.iter().position(|kind| !self.unread.contains(&kind.page))?;
        let kind = self.pending.remove(at)?;
        self.unread.push(kind.page);
        Some((self.requests.pop_front()?, kind))
    }
}
