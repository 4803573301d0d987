//! A controller: what belongs to one host's association.

use super::events::Events;
use super::features::Features;
use super::{HostName, NOBODY};
use crate::config::PCI_EXPRESS;
use crate::config::Transport;
use crate::namespaces::reservation::HostId;
use crate::output::Completion;
use crate::slots::NONE;
use core::net::IpAddr;
use mynah_model::io::FlowId;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::log::ReservationNotification;
use mynah_wire::nvme::property::Configuration;
use mynah_wire::rdma;
use std::collections::VecDeque;

/// VID and SSVID: a number that the PCI-SIG has given to nobody, because Mynah has none.
/// Drivers go by the class code.
pub(crate) const VENDOR_ID: u16 = 0x4d59;
/// CAP.TO and CRTO: 10 s in units of 500 ms. Real time may stand still that long.
pub(crate) const READY_TIMEOUT: u8 = 20;

/// Identify Controller states it as CNTRLTYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Io,
    Discovery,
}

/// Reservation notifications kept.
pub(crate) const NOTIFICATIONS: usize = 256;
/// Namespace identifiers that the changed namespace list holds.
pub(crate) const CHANGED_NAMESPACES: usize = 1024;

#[derive(Debug)]
pub(crate) struct Controller {
    pub(super) id: u16,
    pub(super) role: Role,
    pub(super) host_nqn: String,
    pub(super) host_id: HostId,
    /// The admin queue's transport queue.
    pub(super) admin_queue: u32,
    /// Transport queues of I/O queues, by queue identifier less one.
    pub(super) io_queues: Vec<u32>,
    /// I/O submission queues that the host may create; over fabrics, pairs that it may connect.
    pub(super) queues_granted: u16,
    /// I/O completion queues that the host may create.
    pub(super) completion_queues_granted: u16,
    pub(super) configuration: Configuration,
    /// CSTS.
    pub(super) status: u32,
    /// The command whose end makes its shutdown complete; NONE if none is under way.
    pub(super) shutdown: u32,
    /// Keep-alive timeout; zero: none.
    pub(super) keep_alive: Span,
    /// When the host was last heard of.
    pub(super) last_seen: Time,
    pub(super) features: Features,
    pub(super) events: Events,
    /// Namespaces that changed since the host last asked; `None`: too many to list.
    pub(super) changed: Option<Vec<u32>>,
    pub(super) notifications: VecDeque<ReservationNotification>,
    pub(super) notification_count: u64,
    pub(super) in_capsule_bytes: u32,
    pub(super) max_transfer_bytes: u32,
    pub(super) port: u16,
    /// The address at which its host came in.
    pub(super) local: Option<IpAddr>,
    pub(super) transport: u8,
    /// Where its host is, see [`Transport::source`].
    pub(super) source: u128,
    /// Whose I/O this is, once there was some to be expected ([`super::Controllers::flow_of`]).
    pub(super) flow: FlowId,
    /// I/O queues that it can have.
    pub(super) queues_max: u16,
    /// Whether it takes doorbells from guest memory, too.
    pub(super) has_shadow_doorbells: bool,
    /// Completions of commands from guest memory that the function has not taken yet.
    pub(super) completions: VecDeque<Completion>,
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
    pub(crate) now: Time,
}

impl Controller {
    pub(super) fn new(id: u16, (host_nqn, host_id): HostName, opening: Opening<'_>) -> Controller {
        let Opening { role, admin_queue, transport, queues_max, features, now } = opening;
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
            completions: VecDeque::new(),
        }
    }

    /// Whether its queues lie in guest memory.
    pub(crate) fn is_guests(&self) -> bool {
        self.transport == PCI_EXPRESS
    }

    /// Whether it is reached over TCP.
    pub(crate) fn is_over_tcp(&self) -> bool {
        !self.is_guests() && !self.is_over_rdma()
    }

    /// Whether it is reached over TCP, at this port.
    pub(crate) fn is_at(&self, port: u16) -> bool {
        self.is_over_tcp() && self.port == port
    }

    /// Whether it is reached over RDMA.
    pub(crate) fn is_over_rdma(&self) -> bool {
        self.transport == rdma::TRANSPORT_TYPE
    }

    /// Entries that its queues can have.
    pub(crate) fn entries_max(&self, limit: u32) -> u32 {
        if self.is_over_rdma() { limit.min(rdma::ENTRIES_MAX.into()) } else { limit }
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

    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn is_io(&self) -> bool {
        self.role == Role::Io
    }

    pub(crate) fn host_nqn(&self) -> &str {
        &self.host_nqn
    }

    pub(crate) fn host_id(&self) -> &HostId {
        &self.host_id
    }

    /// Set Features, Host Identifier: of guests only.
    pub(crate) fn set_host_id(&mut self, host_id: HostId) {
        self.host_id = host_id;
    }

    /// The admin queue's transport queue; NONE if there is none.
    #[inline]
    pub(crate) fn admin_queue(&self) -> u32 {
        self.admin_queue
    }

    pub(crate) fn set_admin_queue(&mut self, queue: u32) {
        self.admin_queue = queue;
    }

    /// I/O queues that it can have.
    pub(crate) fn queues_max(&self) -> u16 {
        self.queues_max
    }

    /// I/O submission queues and completion queues that the host may create; over fabrics, pairs
    /// that it may connect.
    pub(crate) fn queues_granted(&self) -> (u16, u16) {
        (self.queues_granted, self.completion_queues_granted)
    }

    pub(crate) fn grant_queues(&mut self, granted: (u16, u16)) {
        (self.queues_granted, self.completion_queues_granted) = granted;
    }

    /// Sets the transport queue of an I/O queue.
    pub(crate) fn set_io_queue(&mut self, queue_id: u16, queue: u32) {
        let at = usize::from(queue_id) - 1;
        if self.io_queues.len() <= at {
            self.io_queues.resize(at + 1, NONE);
        }
        self.io_queues[at] = queue;
    }

    /// A transport queue is gone that may have been that of an I/O queue.
    pub(crate) fn forget_io_queue(&mut self, queue_id: u16, queue: u32) {
        let at = usize::from(queue_id).wrapping_sub(1);
        if let Some(place) = self.io_queues.get_mut(at).filter(|place| **place == queue) {
            *place = NONE;
        }
    }

    pub(crate) fn has_io_queues(&self) -> bool {
        self.io_queues.iter().any(|&queue| queue != NONE)
    }

    /// Its transport queues, the admin queue's last.
    pub(crate) fn queues(&self) -> impl Iterator<Item = u32> {
        let all = self.io_queues.iter().chain([&self.admin_queue]);
        all.copied().filter(|&queue| queue != NONE)
    }

    /// Takes the I/O queues away: their transport queues.
    pub(super) fn take_io_queues(&mut self) -> Vec<u32> {
        let queues = std::mem::take(&mut self.io_queues).into_iter();
        queues.filter(|&queue| queue != NONE).collect()
    }

    pub(crate) fn features(&self) -> &Features {
        &self.features
    }

    pub(crate) fn features_mut(&mut self) -> &mut Features {
        &mut self.features
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) fn events_mut(&mut self) -> &mut Events {
        &mut self.events
    }

    /// Most data bytes that an I/O command's capsule can carry.
    pub(crate) fn in_capsule_bytes(&self) -> u32 {
        self.in_capsule_bytes
    }

    /// In bytes.
    pub(crate) fn max_transfer_bytes(&self) -> u32 {
        self.max_transfer_bytes
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The address at which its host came in.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// The flow of its host; [`NOBODY`] until it has taken one.
    pub(crate) fn flow(&self) -> FlowId {
        self.flow
    }

    /// Whether it takes doorbells from guest memory, too.
    pub(crate) fn has_shadow_doorbells(&self) -> bool {
        self.has_shadow_doorbells
    }

    pub(crate) fn offer_shadow_doorbells(&mut self, offers: bool) {
        self.has_shadow_doorbells = offers;
    }

    /// Has a completion of a command from guest memory wait for its function.
    #[inline]
    pub(crate) fn push_completion(&mut self, completion: Completion) {
        self.completions.push_back(completion);
    }

    /// The oldest completion that waits for the function.
    #[inline]
    pub(crate) fn take_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Removes the completions of one transport queue and returns them.
    pub(crate) fn take_completions_of(&mut self, queue: u32) -> VecDeque<Completion> {
        let all = std::mem::take(&mut self.completions).into_iter();
        let (gone, kept) = all.partition(|completion| completion.queue.0 == queue);
        self.completions = kept;
        gone
    }

    /// The transport queue of an I/O queue.
    pub(crate) fn io_queue(&self, queue_id: u16) -> Option<u32> {
        let at = usize::from(queue_id).checked_sub(1)?;
        self.io_queues.get(at).copied().filter(|&queue| queue != NONE)
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

    /// Namespaces that have changed since this was forgotten last; `None`: too many to list.
    pub(crate) fn changed(&self) -> Option<&[u32]> {
        self.changed.as_deref()
    }

    pub(crate) fn forget_changed(&mut self) {
        self.changed = Some(vec![]);
    }

    /// The next reservation notification, with the number of those behind it; it is removed unless
    /// `kept`.
    pub(crate) fn next_notification(&mut self, kept: bool) -> Option<ReservationNotification> {
        let available = self.notifications.len().saturating_sub(1).min(255) as u8;
        let next = match kept {
            true => self.notifications.front().copied(),
            false => self.notifications.pop_front(),
        };
        next.map(|next| ReservationNotification { available, ..next })
    }
}
