//! What a peer can use up, and how much of each it may have: connections, controllers, work,
//! memory; before it has proved who it is and afterwards, over every transport.
//!
//! Each quantity has a [`Budget`]: so much for all peers together, and so much of it for one, so
//! that nobody keeps the others out alone. What was taken is a [`Share`], and given back when that
//! is dropped. Peers without proof have budgets of their own (half-open connections, discovery), so
//! that they never use up what is for hosts at work. Nothing here is asked in the path of an I/O:
//! bytes are counted where they are held (the pool of a [`crate::hub::Hub`], the subsystem), within
//! the bounds that stand here.
//!
//! A peer is an address, and not a proof: somebody with many addresses is many peers. Then the
//! totals hold, and nothing else does.

use rustix::io::Errno;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether accept failed for want of descriptors or memory, though a connection waits.
pub(crate) fn is_starved(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
}

/// Who is at the other end, as far as quotas are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(u128);

impl Peer {
    /// This machine, whichever loopback address or local socket it comes from.
    pub const LOCAL: Peer = Peer(1);

    /// The peer at an address. Of an IPv6 address that is its network of 64 bits, which is the
    /// least that a site is given (RFC 6177), and all of which one machine can use (RFC 8981).
    /// Link-local addresses have that part in common, and count as they are.
    pub fn at(address: IpAddr) -> Peer {
        const NETWORK: u128 = !(u64::MAX as u128);
        let address = address.to_canonical();
        if address.is_loopback() {
            return Peer::LOCAL;
        }
        match address {
            IpAddr::V4(address) => Peer(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) if address.is_unicast_link_local() => Peer(address.to_bits()),
            IpAddr::V6(address) => Peer(address.to_bits() & NETWORK),
        }
    }

    /// The peer of a connection; without an address it is a local socket.
    pub fn of(address: Option<SocketAddr>) -> Peer {
        address.map_or(Peer::LOCAL, |address| Peer::at(address.ip()))
    }

    /// The client of the PCIe function of this number.
    pub fn function(number: usize) -> Peer {
        // Nobody connects from a multicast address.
        Peer(0xff << 120 | number as u128)
    }

    /// A number that is unique to this peer.
    pub fn number(self) -> u128 {
        self.0
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Ipv6Addr::from_bits(self.0).to_canonical() {
            address if address.is_loopback() => f.write_str("this machine"),
            address if address.is_multicast() => f.write_str("a PCIe function"),
            address => address.fmt(f),
        }
    }
}

/// Upper bounds of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub total: usize,
    pub per_peer: usize,
}

impl Bound {
    /// One peer may have all of it.
    pub const fn shared(total: usize) -> Bound {
        Bound { total, per_peer: total }
    }
}

/// Why something cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The peer has reached its own bound.
    Peer,
    /// All peers together have reached the bound.
    All,
}

#[derive(Debug, Default)]
struct Used {
    total: usize,
    /// Peers that have something; no more of them than `total`.
    peers: HashMap<Peer, usize>,
}

#[derive(Debug)]
struct Ledger {
    bound: Bound,
    used: Mutex<Used>,
    refused: AtomicU64,
}

/// A quantity that peers share, and how much each has. Clones are the same budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Ledger>);

impl Budget {
    /// A budget of which nobody has anything.
    pub fn new(bound: Bound) -> Budget {
        let (used, refused) = (Mutex::default(), AtomicU64::new(0));
        Budget(Arc::new(Ledger { bound, used, refused }))
    }

    /// Takes one for `peer`.
    ///
    /// # Errors
    /// If it may have no more, which is counted.
    pub fn take(&self, peer: Peer) -> Result<Share, Refused> {
        let taken = self.with(|used| {
            let own = used.peers.get(&peer).copied().unwrap_or(0);
            if own >= self.0.bound.per_peer {
                return Err(Refused::Peer);
            }
            if used.total >= self.0.bound.total {
                return Err(Refused::All);
            }
            used.total += 1;
            used.peers.insert(peer, own + 1);
            Ok(())
        });
        match taken {
            Ok(()) => Ok(Share { budget: self.clone(), peer }),
            Err(refused) => {
                self.0.refused.fetch_add(1, Ordering::Relaxed);
                Err(refused)
            }
        }
    }

    pub fn bound(&self) -> Bound {
        self.0.bound
    }

    /// How much all peers have of it.
    pub fn used(&self) -> usize {
        self.with(|used| used.total)
    }

    /// How often a share was refused.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Used) -> T) -> T {
        // Nothing in here panics half-way.
        f(&mut self.0.used.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One that a peer has of a budget, until this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    peer: Peer,
}

impl Share {
    pub fn peer(&self) -> Peer {
        self.peer
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.with(|used| {
            used.total -= 1;
            if let Some(own) = used.peers.get_mut(&self.peer) {
                *own -= 1;
                if *own == 0 {
                    used.peers.remove(&self.peer);
                }
            }
        });
    }
}

/// Which of those that hold a share and have proved nothing has to go for a newcomer: the oldest of
/// the newcomer's own if it is that peer that has too much, else the oldest of the peer that has
/// most of them. So nobody drives another out who has less than himself.
pub fn whom_to_drop<K>(
    mut oldest_first: impl Iterator<Item = (K, Peer)> + Clone,
    newcomer: Peer,
    refused: Refused,
) -> Option<K> {
    let who = match refused {
        Refused::Peer => newcomer,
        Refused::All => {
            let mut counts: HashMap<Peer, usize> = HashMap::new();
            oldest_first.clone().for_each(|(_, peer)| *counts.entry(peer).or_default() += 1);
            let most = counts.values().copied().max()?;
            oldest_first.clone().map(|(_, peer)| peer).find(|peer| counts[peer] == most)?
        }
    };
    oldest_first.find(|(_, peer)| *peer == who).map(|(it, _)| it)
}

/// How much there is of everything that peers can use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections that are queues of controllers, or will be once their host is authenticated.
    pub connections: Bound,
    /// Connections that are not queues that may be used, handshakes of TLS among them.
    pub half_open: Bound,
    /// Controllers of the subsystem. Functions have theirs from the beginning.
    pub controllers: Bound,
    /// Controllers of the discovery subsystem, with a connection each.
    pub discovery: Bound,
    /// Diffie-Hellman jobs that wait for their turn.
    pub authentications: Bound,
    /// Bytes of memory for data that hosts were asked for.
    pub transfer_bytes: Bound,
    /// Bytes of memory that commands hold beyond that: data that wait for a namespace, replies
    /// that were put together.
    pub held_bytes: Bound,
}

impl Bounds {
    /// Connections to the metrics of a process, whose drives have them in common.
    pub const SCRAPES: Bound = Bound { total: 64, per_peer: 16 };
}

impl Default for Bounds {
    /// A machine with several controllers of 128 queues each has enough, and so have two of them.
    fn default() -> Bounds {
        Bounds {
            connections: Bound { total: 4096, per_peer: 2048 },
            half_open: Bound { total: 512, per_peer: 256 },
            controllers: Bound { total: 2048, per_peer: 1024 },
            discovery: Bound { total: 256, per_peer: 64 },
            authentications: Bound { total: 1024, per_peer: 256 },
            transfer_bytes: Bound { total: 64 << 20, per_peer: 32 << 20 },
            held_bytes: Bound { total: 512 << 20, per_peer: 256 << 20 },
        }
    }
}

impl Bounds {
    /// The bounds of one of so many shards of a drive: they share its controllers, and each has
    /// connections and memory of its own.
    pub fn of_shard(self, shards: u16) -> Bounds {
        let shards = usize::from(shards.max(1));
        // A host that comes back before its old controller has gone needs two.
        let share = |of: Bound| Bound {
            total: (of.total / shards).max(2),
            per_peer: (of.per_peer / shards).max(2),
        };
        let (controllers, discovery) = (share(self.controllers), share(self.discovery));
        Bounds { controllers, discovery, ..self }
    }
}

/// What there is for the peers of one drive. Clones are the same.
#[derive(Clone, Debug)]
pub struct Quotas {
    /// See [`Bounds::connections`].
    pub connections: Budget,
    /// See [`Bounds::half_open`].
    pub half_open: Budget,
    /// See [`Bounds::controllers`].
    pub controllers: Budget,
    /// See [`Bounds::discovery`].
    pub discovery: Budget,
    /// See [`Bounds::authentications`].
    pub authentications: Budget,
    bounds: Bounds,
}

/// Quantities whose refusals are counted.
pub const COUNTED: usize = 5;

impl Quotas {
    pub fn new(bounds: Bounds) -> Quotas {
        Quotas {
            connections: Budget::new(bounds.connections),
            half_open: Budget::new(bounds.half_open),
            controllers: Budget::new(bounds.controllers),
            discovery: Budget::new(bounds.discovery),
            authentications: Budget::new(bounds.authentications),
            bounds,
        }
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// How often somebody could have no more of a quantity, by its name.
    pub fn refusals(&self) -> [(&'static str, u64); COUNTED] {
        [
            ("connections", &self.connections),
            ("half_open", &self.half_open),
            ("controllers", &self.controllers),
            ("discovery", &self.discovery),
            ("authentications", &self.authentications),
        ]
        .map(|(name, budget)| (name, budget.refused()))
    }
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas::new(Bounds::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::at(text.parse().expect("an address"))
    }

    #[test]
    fn one_machine_is_one_peer() {
        let local = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
        assert!(local.iter().all(|text| peer(text) == Peer::LOCAL));
        assert_eq!(Peer::of(None), Peer::LOCAL);
        assert_eq!(peer("192.0.2.1"), peer("::ffff:192.0.2.1"));
        assert_eq!(peer("2001:db8:1:2::3"), peer("2001:db8:1:2:ffff::"));
        let all = ["192.0.2.1", "192.0.2.2", "2001:db8:1:2::1", "2001:db8:1:3::1", "fe80::1"];
        let mut all: Vec<Peer> = all.map(peer).into();
        all.extend([Peer::LOCAL, peer("fe80::2"), Peer::function(0), Peer::function(1)]);
        let distinct: std::collections::HashSet<_> = all.iter().map(|peer| peer.number()).collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(peer("192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(Peer::LOCAL.to_string(), "this machine");
    }

    #[test]
    fn a_greedy_peer_leaves_the_others_their_part() {
        let (greedy, good) = (peer("192.0.2.1"), peer("192.0.2.2"));
        let budget = Budget::new(Bound { total: 10, per_peer: 6 });
        let mut taken: Vec<Share> = (0..6).map(|_| budget.take(greedy).expect("one")).collect();
        assert_eq!(budget.take(greedy).unwrap_err(), Refused::Peer);
        let own: Vec<Share> = (0..4).map(|_| budget.take(good).expect("one")).collect();
        assert_eq!(budget.take(good).unwrap_err(), Refused::All);
        assert_eq!((budget.used(), budget.refused()), (10, 2));
        taken.pop();
        drop(budget.take(good).expect("what was given back"));
        drop((taken, own));
        assert_eq!(budget.used(), 0);
        assert!(budget.with(|used| used.peers.is_empty()), "nothing is remembered of who is gone");
    }

    #[test]
    fn who_has_most_goes_first() {
        let (greedy, good, new) = (peer("192.0.2.1"), peer("192.0.2.2"), peer("192.0.2.3"));
        let all = [(0, good), (1, greedy), (2, greedy), (3, good), (4, greedy)];
        let of = |newcomer, refused| whom_to_drop(all.iter().copied(), newcomer, refused);
        assert_eq!(of(new, Refused::All), Some(1));
        assert_eq!(of(good, Refused::All), Some(1));
        assert_eq!(of(good, Refused::Peer), Some(0));
        assert_eq!(of(greedy, Refused::Peer), Some(1));
        assert_eq!(of(new, Refused::Peer), None);
        assert_eq!(whom_to_drop::<u8>([].into_iter(), new, Refused::All), None);
    }
}
