//! The AXI bus between network interface, DRAM and flash controllers: one transfer at a time,
//! first come, first served.

use crate::config::{Axi, AxiCounting};
use crate::kernel::fifo::Fifo;
use mynah_stamp::Span;
use serde::{Deserialize, Serialize};

const SECOND_PS: u64 = 1_000_000_000_000;
/// What bursts of powers of two end at in SimpleSSD's count.
const SIMPLE_SSD_BOUNDARY: u32 = 4096;

#[derive(Serialize, Deserialize)]
pub(super) struct Bus {
    config: Axi,
    pub(super) fifo: Fifo,
}

impl Bus {
    pub(super) fn new(config: Axi) -> Bus {
        Bus { config, fifo: Fifo::default() }
    }

    pub(super) fn time(&self, bytes: u32) -> Span {
        time(&self.config, bytes)
    }
}

/// How long a transfer of so many bytes takes.
pub(super) fn time(axi: &Axi, bytes: u32) -> Span {
    let beats = u64::from(bytes.div_ceil(axi.width_bytes));
    let cycles = |count: u64| {
        // Mostly a cycle is so many picoseconds exactly.
        if SECOND_PS.is_multiple_of(axi.clock_hz) {
            return Span::from_ps(count * (SECOND_PS / axi.clock_hz));
        }
        let ps = (u128::from(count) * u128::from(SECOND_PS)).div_ceil(u128::from(axi.clock_hz));
        Span::from_ps(ps as u64)
    };
    let moved = match axi.counting {
        AxiCounting::SimpleSsd => {
            let pages = u64::from(bytes.saturating_sub(1) / SIMPLE_SSD_BOUNDARY);
            cycles(2 * beats + 3 * (u64::from(beats.count_ones()) + pages))
        }
        AxiCounting::Bursts { beats: most, boundary_bytes, setup } => {
            let burst = most * axi.width_bytes;
            let bursts = match boundary_bytes {
                None => bytes.div_ceil(burst),
                Some(boundary) => {
                    let (whole, rest) = (bytes / boundary, bytes % boundary);
                    whole * boundary.div_ceil(burst) + rest.div_ceil(burst)
                }
            };
            cycles(beats) + setup.times(bursts.into())
        }
    };
    moved + axi.arbitration
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_by_hand() {
        // EEMU's bus: 500 MHz, 1024 bits, 256 beats.
        let eemu = |counting| Axi {
            width_bytes: 128,
            clock_hz: 500_000_000,
            counting,
            arbitration: Span::ZERO,
        };
        let bursts = |beats, boundary_bytes, setup| {
            let setup = Span::from_ns(setup);
            eemu(AxiCounting::Bursts { beats, boundary_bytes, setup })
        };
        let ns = Span::from_ns;
        assert_eq!(time(&bursts(256, None, 0), 4096), ns(64));
        assert_eq!(time(&bursts(256, None, 0), 131_072), ns(2048));
        assert_eq!(time(&eemu(AxiCounting::SimpleSsd), 4096), ns(134));
        // Bursts of 32 KiB, and of the 4 KiB that AXI4 allows.
        assert_eq!(time(&bursts(256, None, 10), 131_072), ns(2048 + 40));
        assert_eq!(time(&bursts(256, Some(4096), 10), 131_072), ns(2048 + 320));
        assert_eq!(time(&bursts(16, Some(4096), 10), 6144), ns(96 + 30));
        // A cycle of a third of a nanosecond is rounded up at the end.
        let odd = Axi { clock_hz: 3_000_000_000, ..bursts(256, None, 0) };
        assert_eq!(time(&odd, 512), Span::from_ps(1334));
        let slow = Axi { arbitration: ns(5), ..bursts(256, None, 0) };
        assert_eq!(time(&slow, 64), ns(2 + 5));
    }
}
