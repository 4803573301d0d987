//! What a 512-byte or 4 KiB read costs one thread that serves several PCI functions, each a drive
//! of its own: nanoseconds by number of devices, queues of each and commands outstanding in all,
//! without the model; the best of three runs. The guests are in the same thread, and their part
//! is in the figure.
//!
//! `cargo bench -p mynah-device --bench scale [-- WORD…]` runs the lines that have all the words.

mod guest;
#[allow(dead_code)]
#[path = "../tests/device/support.rs"]
mod shared;

use guest::{Bench, Work};
use mynah_device::Timing;
use mynah_wire::nvme::opcode::nvm;
use std::time::Instant;

/// Bytes of all devices together, so that they fit no cache.
const BYTES: u64 = 256 << 20;
const COMMANDS: u64 = 400_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    println!("devices  queues each  outstanding  bytes    ns each    M/s");
    for devices in [1, 4, 16] {
        for queues in [1, 4, 16] {
            for outstanding in [64, 512] {
                for blocks in [1, 8] {
                    let depth = (outstanding / devices / u32::from(queues)).max(1);
                    let (bytes, all) = (blocks * 512, depth * devices * u32::from(queues));
                    let name = format!("{devices:<8} {queues:<12} {all:<12} {bytes:<6}");
                    let has = |word: &String| name.split_whitespace().any(|part| part == word);
                    if !words.iter().all(has) {
                        continue;
                    }
                    let each = BYTES / u64::from(devices);
                    let work = Work { opcode: nvm::READ, blocks, span: each / 512, depth };
                    let mut benches: Vec<_> =
                        (0..devices).map(|_| Bench::new(Timing::Immediate, each, queues)).collect();
                    let best =
                        (0..3).map(|_| measure(&mut benches, &work)).fold(f64::MAX, f64::min);
                    println!("{name} {best:>9.1} {:>8.2}", 1000.0 / best);
                }
            }
        }
    }
}

/// Nanoseconds a command, over all devices in turn.
fn measure(benches: &mut [Bench], work: &Work) -> f64 {
    let (began, mut done) = (Instant::now(), 0);
    while done < COMMANDS {
        done += benches.iter_mut().map(|bench| bench.step(work)).sum::<u64>();
    }
    began.elapsed().as_secs_f64() * 1e9 / done as f64
}
