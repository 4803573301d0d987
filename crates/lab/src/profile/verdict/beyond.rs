//! What is known beside profiles: what connections said of themselves, and what a path can do.

use super::noise::median;
use crate::units::Bandwidth;
use mynah_stamp::Time;
use std::collections::BTreeMap;

/// What a connection said of itself at one time (Linux's TCP_INFO). Counts go on from when it began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkSample {
    /// When, on the profile's clock.
    pub at: Time,
    /// Whose connection: the controller.
    pub connection: u16,
    /// The queue.
    pub queue: u16,
    /// Smoothed round trip time, in microseconds.
    pub rtt_us: f64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// For how long there was something to send, in microseconds.
    pub busy_us: u64,
    /// For how much of that the receiver's window was full.
    pub window_limited_us: u64,
    /// For how much of that the send buffer was full.
    pub buffer_limited_us: u64,
    /// Bytes a second that it delivered of late.
    pub delivery_rate: f64,
}

/// What parts of a path can carry, if somebody has said so.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bytes a second of the network, each way.
    pub link_bytes_per_s: Option<f64>,
    /// Bytes a second of the drive.
    pub drive_bytes_per_s: Option<f64>,
}

/// A rate as people write it, in bytes a second: `1440MB/s`, or in bits, `25Gbit/s`.
///
/// # Errors
/// If it is none, or nothing.
pub fn bytes_per_s(text: &str) -> Result<f64, String> {
    let no_rate = || format!("`{text}` is no rate: write `1440MB/s` or `25Gbit/s`");
    let rate = match text.trim().strip_suffix("bit/s") {
        Some(bits) => {
            let (number, factor) = match bits.trim_end() {
                it if it.ends_with('k') => (&it[..it.len() - 1], 1e3),
                it if it.ends_with('M') => (&it[..it.len() - 1], 1e6),
                it if it.ends_with('G') => (&it[..it.len() - 1], 1e9),
                it if it.ends_with('T') => (&it[..it.len() - 1], 1e12),
                it => (it, 1.0),
            };
            number.trim().parse::<f64>().map_err(|_| no_rate())? * factor / 8.0
        }
        None => text.trim().parse::<Bandwidth>().map_err(|_| no_rate())?.0 as f64,
    };
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err(no_rate()) }
}

/// What is known beside two profiles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beyond {
    /// Of the base, by time.
    pub base: Vec<NetworkSample>,
    /// Of the profile that is judged, by time.
    pub now: Vec<NetworkSample>,
    /// What the path can carry.
    pub limits: Limits,
}

/// What samples come to, over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Network {
    pub(super) rtt_us: f64,
    /// A second.
    pub(super) retransmits: f64,
    /// Parts of the time in which there was something to send.
    pub(super) window_limited: f64,
    pub(super) buffer_limited: f64,
    pub(super) delivery_rate: f64,
}

impl Network {
    /// Nothing without two samples of a connection at different times.
    pub(super) fn of(samples: &[NetworkSample]) -> Option<Network> {
        let mut connections: BTreeMap<(u16, u16), Vec<&NetworkSample>> = BTreeMap::new();
        for sample in samples {
            connections.entry((sample.connection, sample.queue)).or_default().push(sample);
        }
        let (mut seconds, mut again, mut busy, mut window, mut buffer) = (0.0f64, 0, 0, 0, 0);
        for of in connections.values_mut() {
            of.sort_by_key(|sample| sample.at);
            let [first, .., last] = of.as_slice() else { continue };
            seconds = seconds.max(last.at.saturating_since(first.at).as_secs_f64());
            again += last.retransmits.saturating_sub(first.retransmits);
            busy += last.busy_us.saturating_sub(first.busy_us);
            window += last.window_limited_us.saturating_sub(first.window_limited_us);
            buffer += last.buffer_limited_us.saturating_sub(first.buffer_limited_us);
        }
        let each =
            |of: fn(&NetworkSample) -> f64| median(&mut samples.iter().map(of).collect::<Vec<_>>());
        let part = |of: u64| if busy > 0 { of as f64 / busy as f64 } else { 0.0 };
        (seconds > 0.0).then(|| Network {
            rtt_us: each(|sample| sample.rtt_us),
            retransmits: again as f64 / seconds,
            window_limited: part(window),
            buffer_limited: part(buffer),
            delivery_rate: each(|sample| sample.delivery_rate),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_bytes_or_bits() {
        for (text, rate) in
            [("1440MB/s", 1.44e9), ("25Gbit/s", 3.125e9), ("8 bit/s", 1.0), ("2.5 kbit/s", 312.5)]
        {
            assert_eq!(bytes_per_s(text), Ok(rate), "{text}");
        }
        for text in
            ["", "25", "0bit/s", "-1Gbit/s", "nanbit/s", "infbit/s", "Gbit/s", "x/s", "0MB/s"]
        {
            assert!(bytes_per_s(text).is_err_and(|why| why.contains("25Gbit/s")), "{text}");
        }
    }

    #[test]
    fn samples_come_to_rates_and_parts() {
        let sample = |second: u64, queue, retransmits, window| NetworkSample {
            at: Time::from_ns(second * 1_000_000_000),
            connection: 1,
            queue,
            rtt_us: 100.0 * second as f64,
            retransmits,
            busy_us: second * 1_000_000,
            window_limited_us: window,
            buffer_limited_us: 0,
            delivery_rate: 1e9,
        };
        let all = [
            sample(1, 1, 5, 0),
            sample(3, 1, 15, 500_000),
            sample(1, 2, 7, 0),
            sample(3, 2, 7, 500_000),
        ];
        let network = Network::of(&all).unwrap();
        assert_eq!((network.retransmits, network.window_limited), (5.0, 0.25));
        assert_eq!((network.rtt_us, network.buffer_limited), (200.0, 0.0));
        assert_eq!(Network::of(&all[..1]), None);
        assert_eq!(Network::of(&[]), None);
    }
}
