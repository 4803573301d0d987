//! The controllers: which there are, whose each identifier was last, and what they know in common
//! (the flows of hosts, the states of the ANA group, the error log).
//!
//! Identifiers of I/O controllers lie below those of discovery controllers: anybody can have one of
//! those, and they take none that hosts need for I/O.

mod ana;
mod controller;
mod error_log;
pub(crate) mod events;
mod features;
mod hosts;
mod lifecycle;
mod path;

pub(crate) use controller::{
    CHANGED_NAMESPACES, Controller, Opening, READY_TIMEOUT, Role, VENDOR_ID,
};
pub(crate) use error_log::{ERROR_ENTRIES, ErrorLog};
pub(crate) use features::{
    Aggregation, CRITICAL_TEMPERATURE_K, ENDURANCE_GROUP, Features, TEMPERATURE_K,
    WARNING_TEMPERATURE_K, arbitration_control,
};
pub(crate) use hosts::NOBODY;
pub(crate) use lifecycle::Reset;
pub use path::{AnaState, Path};

use crate::config::{Limits, Shard};
use crate::namespaces::reservation::HostId;
use hosts::Hosts;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::log::ErrorEntry;
use path::Paths;

/// A host by its NQN and its identifier.
pub(crate) type HostName = (String, HostId);

/// The controllers of a subsystem, by identifier.
#[derive(Debug)]
pub(crate) struct Controllers {
    table: Vec<Option<Box<Controller>>>,
    /// Which host had a controller identifier last.
    last_hosts: Vec<Option<HostName>>,
    /// The ANA group as each controller sees it.
    paths: Paths,
    hosts: Hosts,
    errors: ErrorLog,
    /// The error log of discovery controllers.
    discovery_errors: ErrorLog,
    shard: Shard,
    /// The last identifier of an I/O controller.
    io_last: u16,
}

impl Controllers {
    pub(crate) fn new(limits: Limits, shard: Shard) -> Controllers {
        let places = usize::from(limits.controllers_max) + usize::from(limits.discovery_max) + 1;
        Controllers {
            table: (0..places).map(|_| None).collect(),
            last_hosts: vec![None; places],
            paths: Paths::new(places),
            hosts: Hosts::default(),
            errors: ErrorLog::default(),
            discovery_errors: ErrorLog::default(),
            shard,
            io_last: limits.controllers_max,
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: u16) -> Option<&Controller> {
        self.table.get(usize::from(id))?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u16) -> Option<&mut Controller> {
        self.table.get_mut(usize::from(id))?.as_deref_mut()
    }

    /// The controller that a command has come to.
    pub(crate) fn need(&self, id: u16) -> Result<&Controller, Status> {
        self.get(id).ok_or(Status::INTERNAL_ERROR)
    }

    pub(crate) fn need_mut(&mut self, id: u16) -> Result<&mut Controller, Status> {
        self.get_mut(id).ok_or(Status::INTERNAL_ERROR)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Controller> {
        self.table.iter().filter_map(Option::as_deref)
    }

    /// Identifiers of the controllers that there are, in order.
    pub(crate) fn ids(&self) -> Vec<u16> {
        self.iter().map(|controller| controller.id).collect()
    }

    /// The identifiers that controllers of a role can have.
    fn ids_of(&self, role: Role) -> impl Iterator<Item = usize> + Clone + use<> {
        let io_last = usize::from(self.io_last);
        let (first, last) = match role {
            Role::Io => (1, io_last),
            Role::Discovery => (io_last + 1, self.table.len() - 1),
        };
        let ids = self.shard.ids();
        ids.skip_while(move |id| *id < first).take_while(move |id| *id <= last)
    }

    /// A new controller for a host: with the identifier that it had before if that is free, one that
    /// nobody has had, or any. `None` if there are as many as there can be.
    pub(crate) fn open(&mut self, host: HostName, opening: Opening<'_>) -> Option<u16> {
        let free = |id: &usize| self.table[*id].is_none();
        let ids = self.ids_of(opening.role);
        let id = ids
            .clone()
            .find(|id| free(id) && self.last_hosts[*id].as_ref() == Some(&host))
            .or_else(|| ids.clone().find(|id| free(id) && self.last_hosts[*id].is_none()))
            .or_else(|| ids.clone().find(free))?;
        let controller = Controller::new(id as u16, host.clone(), opening);
        let port = controller.is_over_tcp().then_some(controller.port);
        self.last_hosts[id] = Some(host);
        self.table[id] = Some(Box::new(controller));
        self.paths.begin(id as u16, port);
        Some(id as u16)
    }

    /// Adds an entry to the error log that a controller shows.
    pub(crate) fn log_error(&mut self, id: u16, mut entry: ErrorEntry) {
        let Some(controller) = self.get(id) else { return };
        entry.transport = controller.transport;
        match controller.role {
            Role::Io => self.errors.add(entry),
            Role::Discovery => self.discovery_errors.add(entry),
        }
    }

    /// The error log that controllers of a role show.
    pub(crate) fn errors(&self, role: Role) -> &ErrorLog {
        match role {
            Role::Io => &self.errors,
            Role::Discovery => &self.discovery_errors,
        }
    }

    /// Entries of the error log are numbered from here on: so many were counted by earlier
    /// processes.
    pub(crate) fn restore_errors(&mut self, count: u64) {
        self.errors.begin_after(count);
    }

    pub(crate) fn remove(&mut self, id: u16) -> Option<Box<Controller>> {
        self.table.get_mut(usize::from(id))?.take()
    }
}
