//! The discovery log page (Base 2.0, section 5.16.1.23).

use crate::config::{Carrier, Neighbour};
use crate::subsystem::Subsystem;
use core::net::IpAddr;
use mynah_stamp::Time;
use mynah_wire::fabrics::{DISCOVERY_NQN, nqn_field};
use mynah_wire::nvme::identify::ascii;
use mynah_wire::nvme::log::{DiscoveryEntry, DiscoveryHeader};
use zerocopy::IntoBytes;
use zerocopy::byteorder::little_endian::U16;

/// TRTYPE of TCP.
const TCP: u8 = 3;
const RDMA: u8 = mynah_wire::rdma::TRANSPORT_TYPE;
/// ADRFAM.
const IPV4: u8 = 1;
const IPV6: u8 = 2;

/// Where a host that came in at `local` reaches a port that listens at `address`, and the address's
/// family: nobody can connect to "every address" (so Linux's target, nvmet_tcp_disc_port_addr in
/// drivers/nvme/target/tcp.c). `None` if it cannot reach it.
fn reached(address: &str, local: Option<IpAddr>) -> Option<(String, u8)> {
    let family = |address: &str| if address.contains(':') { IPV6 } else { IPV4 };
    let listens = match (address.parse::<IpAddr>(), local) {
        (Ok(listens), Some(_)) if listens.is_unspecified() => listens,
        _ => return Some((address.to_owned(), family(address))),
    };
    // Sockets of both families say addresses of IPv4 in those of IPv6.
    let local = local?.to_canonical();
    let address = local.to_string();
    let family = family(&address);
    // Whoever came over IPv6 came to another port than one of IPv4.
    (listens.is_ipv6() || local.is_ipv4()).then_some((address, family))
}

/// What the discovery log lists beside the subsystem itself, and how often that has changed.
#[derive(Debug)]
pub(crate) struct Discovery {
    generation: u64,
    neighbours: Vec<Neighbour>,
}

impl Default for Discovery {
    fn default() -> Discovery {
        Discovery { generation: 1, neighbours: Vec::new() }
    }
}

impl Subsystem {
    /// The page as this host sees it: on every port the discovery subsystem itself, and the
    /// NVM subsystem if the host is allowed to use it; then the neighbours. `local` is the address at
    /// which the host came in.
    pub(crate) fn discovery_page(&self, host_nqn: &str, local: Option<IpAddr>) -> Vec<u8> {
        let mut entries = Vec::new();
        let entries_max = self.config.limits.queue_entries_max.min(65_535) as u16;
        let mut offer = |(id, port): (usize, &crate::Port), kind: u8, flags: u16, nqn: &str| {
            let Some((address, address_family)) = reached(&port.address, local) else { return };
            let mut entry = DiscoveryEntry {
                transport: if port.carrier == Carrier::Rdma { RDMA } else { TCP },
                address_family,
                kind,
                // A secure channel is required or not; flow control may be disabled.
                requirements: if port.carrier == Carrier::Tls { 1 } else { 2 } | 1 << 2,
                port_id: U16::new(id as u16),
                controller_id: U16::new(0xffff),
                admin_queue_max: U16::new(entries_max),
                flags: U16::new(flags),
                service: ascii(&port.service),
                subsystem_nqn: nqn_field(nqn).unwrap_or([0; 256]),
                address: ascii(&address),
                ..Default::default()
            };
            match port.carrier {
                Carrier::Tcp => {}
                Carrier::Tls => entry.specific[0] = 2,
                // Reliable connections, RoCE version 2, the IP connection manager (RDMA Transport
                // 1.0, section 3.7). The port does not know of other providers.
                Carrier::Rdma => entry.specific[..3].copy_from_slice(&[1, 4, 1]),
            }
            entries.push(entry);
        };
        for port in self.config.shard.ids().zip(&self.config.ports) {
            // Its other ports say the same (0); a connection may be kept for news (1).
            offer(port, 3, u16::from(self.config.ports.len() > 1) | 1 << 1, DISCOVERY_NQN);
            if self.config.is_allowed(host_nqn) {
                offer(port, 2, 0, &self.config.nqn);
            }
        }
        for other in &self.admin.discovery.neighbours {
            let is_allowed = other.allowed_hosts.is_empty()
                || other.allowed_hosts.iter().any(|it| it == host_nqn);
            for port in other.shard.ids().zip(&other.ports).filter(|_| is_allowed) {
                offer(port, 2, 0, &other.nqn);
            }
        }
        let mut header = DiscoveryHeader::default();
        header.generation.set(self.admin.discovery.generation);
        header.records.set(entries.len() as u64);
        let mut page = header.as_bytes().to_vec();
        for entry in &entries {
            page.extend_from_slice(entry.as_bytes());
        }
        page
    }

    /// The ports have changed: hosts that watch the discovery log are told.
    pub fn set_ports(&mut self, ports: Vec<crate::Port>) {
        if self.config.ports == ports {
            return;
        }
        self.config.ports = ports;
        self.discovery_changed();
    }

    /// What else there is beside this subsystem, for the discovery log page.
    pub fn set_neighbours(&mut self, neighbours: Vec<Neighbour>) {
        let listed = &mut self.admin.discovery.neighbours;
        if *listed != neighbours {
            *listed = neighbours;
            self.discovery_changed();
        }
    }

    fn discovery_changed(&mut self) {
        // Nobody can have read the page before the clock started.
        if self.now.wall == Time::ZERO && self.queues.len() == 0 {
            return;
        }
        self.admin.discovery.generation += 1;
        for id in self.controllers.ids() {
            self.raise(id, crate::controllers::events::DISCOVERY_CHANGED);
        }
    }
}
