//! A controller: what belongs to one host's association.

use super::{HostName, NOBODY};
use crate::admin::event::Events;
use crate::admin::feature::Features;
use crate::config::Transport;
use crate::guest::PCI_EXPRESS;
use crate::namespaces::reservation::HostId;
use crate::output::Reply;
use crate::slots::NONE;
use core::net::IpAddr;
use mynah_model::io::FlowId;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::log::{ErrorEntry, ReservationNotification};
use mynah_wire::nvme::property::Configuration;
use std::collections::VecDeque;

/// What a controller is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Io,
    Discovery,
}

/// How long a controller that is not ready waits to hear of its host, at least, if the host wants
/// it to be given up at all: as long as Linux's target waits for a proof where there is no
/// keep-alive timeout (nvmet_execute_auth_send in drivers/nvme/target/fabrics-cmd-auth.c).
pub(crate) const UNREADY_PATIENCE: Span = Span::from_secs(120);
/// How long a discovery controller without a keep-alive timeout waits to hear of its host: anybody
/// can have one, and may forget it. As long as with Linux's target (NVMET_DISC_KATO_MS in
/// drivers/nvme/target/nvmet.h, nvmet_alloc_ctrl in core.c).
pub(crate) const DISCOVERY_PATIENCE: Span = Span::from_secs(120);
/// Entries kept of the error log.
pub(crate) const ERROR_ENTRIES: usize = 64;
/// Reservation notifications kept.
pub(crate) const NOTIFICATIONS: usize = 256;
/// Namespace identifiers that the changed namespace list holds.
pub(crate) const CHANGED_NAMESPACES: usize = 1024;

#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) id: u16,
    pub(crate) role: Role,
    pub(crate) host_nqn: String,
    pub(crate) host_id: HostId,
    /// The admin queue's transport queue.
    pub(crate) admin_queue: u32,
    /// Transport queues of I/O queues, by queue identifier less one.
    pub(crate) io_queues: Vec<u32>,
    /// I/O submission queues that the host may create; over fabrics, pairs that it may connect.
    pub(crate) queues_granted: u16,
    /// I/O completion queues that the host may create.
    pub(crate) completion_queues_granted: u16,
    pub(crate) configuration: Configuration,
    /// CSTS.
    pub(crate) status: u32,
    /// The command whose end makes its shutdown complete; NONE if none is under way.
    pub(crate) shutdown: u32,
    /// Keep-alive timeout; zero: none.
    pub(crate) keep_alive: Span,
    /// When the host was last heard of.
    pub(crate) last_seen: Time,
    pub(crate) features: Features,
    pub(crate) events: Events,
    pub(crate) errors: VecDeque<ErrorEntry>,
    pub(crate) error_count: u64,
    /// Namespaces that changed since the host last asked; `None`: too many to list.
    pub(crate) changed: Option<Vec<u32>>,
    pub(crate) notifications: VecDeque<ReservationNotification>,
    pub(crate) notification_count: u64,
    pub(crate) in_capsule_bytes: u32,
    pub(crate) max_transfer_bytes: u32,
    pub(crate) port: u16,
    /// The address at which its host came in.
    pub(crate) local: Option<IpAddr>,
    pub(crate) transport: u8,
    /// Where its host is, see [`Transport::source`].
    pub(crate) source: u128,
    /// Whose I/O this is, once there was some to be expected ([`Subsystem::flow_of`]).
    ///
    /// [`Subsystem::flow_of`]: crate::Subsystem::flow_of
    pub(crate) flow: FlowId,
    /// I/O queues that it can have.
    pub(crate) queues_max: u16,
    /// Whether it takes doorbells from guest memory, too.
    pub(crate) has_shadow_doorbells: bool,
    /// Replies to commands from guest memory.
    pub(crate) replies: VecDeque<Reply>,
}

/// What a controller begins with.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) role: Role,
    /// The admin queue's transport queue; NONE if it has none yet.
    pub(crate) admin_queue: u32,
    pub(crate) transport: &'a Transport,
    /// I/O queues that it can have.
    pub(crate) queues_max: u16,
    pub(crate) features: Features,
    /// The highest number of an error log entry so far.
    pub(crate) errors_before: u64,
    pub(crate) now: Time,
}

impl Controller {
    pub(super) fn new(id: u16, (host_nqn, host_id): HostName, opening: Opening<'_>) -> Controller {
        let Opening { role, admin_queue, transport, queues_max, features, errors_before, now } =
            opening;
        Controller {
            id,
            role,
            host_nqn,
            host_id,
            admin_queue,
            io_queues: Vec::new(),
            queues_granted: queues_max,
            completion_queues_granted: queues_max,
            configuration: Configuration::default(),
            status: 0,
            shutdown: NONE,
            keep_alive: Span::ZERO,
            last_seen: now,
            features,
            events: Events::default(),
            errors: VecDeque::new(),
            error_count: errors_before,
            changed: Some(Vec::new()),
            notifications: VecDeque::new(),
            notification_count: 0,
            in_capsule_bytes: transport.in_capsule_bytes,
            max_transfer_bytes: transport.max_transfer_bytes,
            port: transport.port,
            local: transport.local,
            transport: transport.kind,
            source: transport.source,
            flow: NOBODY,
            queues_max,
            has_shadow_doorbells: false,
            replies: VecDeque::new(),
        }
    }

    /// Whether its queues lie in guest memory.
    pub(crate) fn is_guests(&self) -> bool {
        self.transport == PCI_EXPRESS
    }

    /// What its queues in guest memory have in common.
    pub(crate) fn guest_transport(&self) -> Transport {
        Transport {
            in_capsule_bytes: 0,
            max_transfer_bytes: self.max_transfer_bytes,
            peer: self.host_nqn.clone(),
            source: self.source,
            local: None,
            port: self.port,
            kind: self.transport,
            host_nqn: None,
        }
    }

    /// Whether commands are processed.
    pub(crate) fn is_ready(&self) -> bool {
        self.status & mynah_wire::nvme::property::status::READY != 0
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.status & mynah_wire::nvme::property::status::FATAL != 0
    }

    /// When the host is given up unless it is heard of. A controller that is not ready is not held
    /// to its keep-alive timeout, and its host may have to work out who it is; but one that dies
    /// then must not leave it behind (so Linux's target, nvmet_start_ctrl in
    /// drivers/nvme/target/core.c).
    pub(crate) fn expires(&self) -> Option<Time> {
        let time = match (self.keep_alive.is_zero(), self.is_ready()) {
            (true, _) if self.role == Role::Discovery => DISCOVERY_PATIENCE,
            (true, _) => return None,
            (false, true) => self.keep_alive,
            (false, false) => self.keep_alive.max(UNREADY_PATIENCE),
        };
        Some(self.last_seen + time)
    }

    /// The transport queue of an I/O queue.
    pub(crate) fn io_queue(&self, queue_id: u16) -> Option<u32> {
        let at = usize::from(queue_id).checked_sub(1)?;
        self.io_queues.get(at).copied().filter(|&queue| queue != NONE)
    }

    /// Adds an entry to the error log.
    pub(crate) fn log_error(&mut self, mut entry: ErrorEntry) {
        self.error_count += 1;
        entry.count.set(self.error_count);
        entry.transport = self.transport;
        if self.errors.len() == ERROR_ENTRIES {
            self.errors.pop_back();
        }
        self.errors.push_front(entry);
    }

    /// Notes that a namespace has changed.
    pub(crate) fn note_changed(&mut self, namespace: u32) {
        if let Some(list) = &mut self.changed
            && !list.contains(&namespace)
        {
            list.push(namespace);
            if list.len() > CHANGED_NAMESPACES {
                self.changed = None;
            }
        }
    }

    /// Notes what happened to a reservation.
    pub(crate) fn note_reservation(&mut self, kind: u8, namespace: u32) {
        self.notification_count = self.notification_count.checked_add(1).unwrap_or(1);
        let mut notification = ReservationNotification { kind, ..Default::default() };
        notification.count.set(self.notification_count);
        notification.namespace_id.set(namespace);
        if self.notifications.len() == NOTIFICATIONS {
            self.notifications.pop_front();
        }
        self.notifications.push_back(notification);
    }
}
