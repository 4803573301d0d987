//! What the paths of hosts take at least, from what the kernel says of their connections.
//!
//! The kernel's least round trip of a connection is what its fastest one took. With few of them that
//! may be far more than the path takes: the first is that of the handshake, while caches are cold and
//! processes are waking up. A credit of so much would let answers leave early. So the least counts once
//! so many more have not undercut it, and until then nothing is credited; nor is it while any host
//! at work has yet to show its path. A path that becomes faster later than that is found out at the
//! next look: no credit until it has shown itself, too.

use crate::quota::Peer;
use crate::tcp_info::RoundTrips;
use mynah_stamp::Span;
use std::collections::BTreeMap;

/// Round trips that must not undercut the least before it is believed.
const PROOF: u64 = 1_000;
/// The kernel takes the difference of two moments in whole microseconds: up to so much too long.
const STEP: Span = Span::from_us(1);

/// A connection, as it is found at a look.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Which it is: a later one has another number.
    pub serial: u64,
    pub host: Peer,
    /// Only its round trips matter: its commands are not modelled.
    pub is_admin: bool,
    /// Nothing is known if it is not one of TCP.
    pub trips: Option<RoundTrips>,
}

#[derive(Default)]
struct Host {
    least: Option<Span>,
    /// Round trips, and those until the least was last undercut.
    count: u64,
    fell: u64,
    /// It has connections; commands come on them; the kernel does not know how far some come.
    present: bool,
    at_work: bool,
    unknown: bool,
}

impl Host {
    fn credit(&self) -> Span {
        match self.least {
            Some(least) if !self.unknown && self.count - self.fell >= PROOF => {
                least.saturating_sub(STEP)
            }
            _ => Span::ZERO,
        }
    }
}

/// The hosts, and what their paths are known to take.
#[derive(Default)]
pub struct PathMeter {
    hosts: BTreeMap<Peer, Host>,
    /// Round trips of connections at the last look.
    counts: BTreeMap<u64, u64>,
}

impl PathMeter {
    /// What may be credited to every host: what the nearest one's path takes at least.
    pub fn credit(&self) -> Span {
        let at_work = self.hosts.values().filter(|host| host.at_work);
        at_work.map(Host::credit).min().unwrap_or_default()
    }

    /// A host has opened one more connection, and nobody knows yet what for.
    pub fn meet(&mut self, host: Peer) {
        self.hosts.entry(host).or_default().at_work = true;
    }

    /// Looks at all connections that there are.
    pub fn look(&mut self, connections: impl Iterator<Item = Found>) {
        for host in self.hosts.values_mut() {
            (host.present, host.at_work, host.unknown) = (false, false, false);
        }
        let before = std::mem::take(&mut self.counts);
        for found in connections {
            let host = self.hosts.entry(found.host).or_default();
            host.present = true;
            host.at_work |= !found.is_admin;
            let Some(trips) = found.trips else {
                host.unknown = true;
                continue;
            };
            self.counts.insert(found.serial, trips.count);
            let counted = before.get(&found.serial).copied().unwrap_or_default();
            host.count += trips.count.saturating_sub(counted);
            if let Some(least) = trips.least
                && host.least.is_none_or(|before| least < before)
            {
                host.least = Some(least);
                host.fell = u64::MAX;
            }
        }
        self.hosts.retain(|_, host| host.present);
        for host in self.hosts.values_mut() {
            host.fell = host.fell.min(host.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Peer = Peer::LOCAL;

    fn far() -> Peer {
        Peer::at([192, 0, 2, 1].into())
    }

    fn found(serial: u64, host: Peer, least_us: u64, count: u64) -> Found {
        let least = (least_us > 0).then(|| Span::from_us(least_us));
        Found { serial, host, is_admin: false, trips: Some(RoundTrips { least, count }) }
    }

    fn credit(meter: &mut PathMeter, found: &[Found]) -> u64 {
        meter.look(found.iter().copied());
        meter.credit().as_ps() / Span::from_us(1).as_ps()
    }

    /// A handshake proves nothing, nor does a least that was undercut just now.
    #[test]
    fn a_least_counts_when_so_many_more_have_not_undercut_it() {
        let mut meter = PathMeter::default();
        let steps = [
            (18, 1, 0),
            (7, 900, 0),
            // When it fell between two looks is not known.
            (6, 2_500, 0),
            (6, 3_499, 0),
            (6, 3_500, 5),
            (6, 9_000, 5),
            (4, 9_100, 0),
            (4, 10_100, 3),
            // What the kernel has forgotten is remembered.
            (9, 20_000, 3),
        ];
        for (least, count, expected) in steps {
            assert_eq!(credit(&mut meter, &[found(1, NEAR, least, count)]), expected, "{count}");
        }
    }

    /// All connections of a host show the same path, and go on doing so when one is closed.
    #[test]
    fn connections_of_a_host_count_together() {
        let mut meter = PathMeter::default();
        let admin = Found { is_admin: true, ..found(1, NEAR, 12, 10) };
        assert_eq!(credit(&mut meter, &[admin, found(2, NEAR, 6, 600), found(3, NEAR, 7, 1)]), 0);
        assert_eq!(
            credit(&mut meter, &[admin, found(2, NEAR, 6, 1_100), found(3, NEAR, 7, 501)]),
            5
        );
        assert_eq!(credit(&mut meter, &[admin, found(3, NEAR, 7, 501), found(4, NEAR, 20, 1)]), 5);
        assert_eq!(credit(&mut meter, &[admin]), 0, "nobody is at work");
    }

    /// The nearest host decides, and one that has just come might be that.
    #[test]
    fn no_credit_while_the_path_of_a_host_at_work_is_not_known() {
        let mut meter = PathMeter::default();
        let first = |count| found(1, far(), 100, count);
        credit(&mut meter, &[first(1)]);
        assert_eq!(credit(&mut meter, &[first(2_000)]), 99);
        meter.meet(NEAR);
        assert_eq!(meter.credit(), Span::ZERO);
        assert_eq!(credit(&mut meter, &[first(9_000), found(2, NEAR, 0, 0)]), 0);
        assert_eq!(credit(&mut meter, &[first(9_000), found(2, NEAR, 10, 5)]), 0);
        assert_eq!(credit(&mut meter, &[first(9_000), found(2, NEAR, 10, 1_005)]), 9);
        let admin = Found { is_admin: true, ..found(2, NEAR, 3, 1_010) };
        assert_eq!(
            credit(&mut meter, &[first(9_000), admin]),
            99,
            "it has no commands to be early"
        );
        let local = Found { trips: None, ..found(3, NEAR, 0, 0) };
        assert_eq!(credit(&mut meter, &[first(9_000), local]), 0);
    }
}
