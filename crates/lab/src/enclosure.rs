//! Several Ethernet drives behind a switch (an EBOF): what there is between hosts and ports.
//!
//! A message takes the uplink, one after the other in each direction, first come, first served, and
//! then `latency`; towards a drive the switch sends it on when it has all of it. What a drive's
//! port sends comes to the switch packet by packet, and goes on as it comes: the uplink is faster
//! than a port, or is what is waited for. Bytes are those of the port's wire.

use mynah_stamp::{Span, Time};

/// The most drives of an enclosure.
pub const DRIVES_MAX: u64 = 256;

/// Several drives, and the switch before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enclosure {
    /// Number of drives.
    pub drives: u32,
    /// Bits a second between switch and hosts, in each direction; `None`: no limit.
    pub uplink_bits_per_s: Option<u64>,
    /// Latency of the switch in each direction.
    pub latency: Span,
}

impl Enclosure {
    /// An enclosure with these parameters; the error names the parameter that is out of range, and
    /// the range.
    pub(crate) fn new(
        drives: u64,
        uplink_bits_per_s: Option<u64>,
        latency: Option<Span>,
    ) -> Result<Enclosure, (&'static str, String)> {
        if !(1..=DRIVES_MAX).contains(&drives) {
            return Err(("drives", format!("from 1 to {DRIVES_MAX}, not {drives}")));
        }
        let possible = 1_000_000_000..=10_000_000_000_000;
        if uplink_bits_per_s.is_some_and(|rate| !possible.contains(&rate)) {
            return Err(("uplink", "from 1 Gbit/s to 10000 Gbit/s".to_owned()));
        }
        let latency = latency.unwrap_or_default();
        if latency > Span::from_ms(100) {
            return Err(("latency", "at most 100ms, each way".to_owned()));
        }
        Ok(Enclosure { drives: drives as u32, uplink_bits_per_s, latency })
    }
}

/// Direction in which a message passes the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDrives,
    ToHosts,
}

/// The link between an enclosure's switch and the hosts, with a rate limit in each direction.
pub(crate) struct Uplink {
    enclosure: Enclosure,
    free: [Time; 2],
    busy: [Span; 2],
}

impl Uplink {
    pub(crate) fn new(enclosure: Enclosure) -> Uplink {
        Uplink { enclosure, free: [Time::ZERO; 2], busy: [Span::ZERO; 2] }
    }

    /// Transmission time of `bytes` at the uplink's rate; zero without a limit.
    fn time(&self, bytes: u32) -> Span {
        let Some(rate) = self.enclosure.uplink_bits_per_s else { return Span::ZERO };
        let ps = (u128::from(bytes) * 8_000_000_000_000).div_ceil(u128::from(rate));
        Span::from_ps(ps as u64)
    }

    /// Least time that a message takes from the hosts to a drive: transmission and switch latency.
    pub(crate) fn least(&self, bytes: u32) -> Span {
        self.time(bytes) + self.enclosure.latency
    }

    /// Sends a message over the uplink at `now`; returns when its last byte is at the other end.
    /// Messages queue for the uplink in the order of the calls, so calls are made in order of time.
    pub(crate) fn carry(&mut self, now: Time, direction: Direction, bytes: u32) -> Time {
        let length = self.time(bytes);
        let free = &mut self.free[direction as usize];
        // What comes from a port has come in part before.
        let begun = match direction {
            Direction::ToDrives => now,
            Direction::ToHosts => Time::from_ps(now.as_ps().saturating_sub(length.as_ps())),
        };
        *free = (*free).max(begun) + length;
        self.busy[direction as usize] += length;
        *free + self.enclosure.latency
    }

    /// Time that the uplink was busy, towards the drives and towards the hosts.
    pub(crate) fn busy(&self) -> [Span; 2] {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_one_another() {
        let enclosure = Enclosure {
            drives: 2,
            uplink_bits_per_s: Some(100_000_000_000),
            latency: Span::from_ns(500),
        };
        let mut uplink = Uplink::new(enclosure);
        let ns = Time::from_ns;
        // 1250 bytes take 100 ns.
        assert_eq!(uplink.carry(ns(1000), Direction::ToDrives, 1250), ns(1600));
        assert_eq!(uplink.carry(ns(1050), Direction::ToDrives, 1250), ns(1700));
        // From a port it has come already, but for what is in front.
        assert_eq!(uplink.carry(ns(2000), Direction::ToHosts, 1250), ns(2500));
        assert_eq!(uplink.carry(ns(2010), Direction::ToHosts, 1250), ns(2600));
        assert_eq!(uplink.busy(), [Span::from_ns(200); 2]);
        let mut unlimited = Uplink::new(Enclosure { uplink_bits_per_s: None, ..enclosure });
        assert_eq!(unlimited.carry(ns(1000), Direction::ToDrives, 1250), ns(1500));
    }
}
