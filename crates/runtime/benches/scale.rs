//! What a 512-byte or 4 KiB read costs one thread that serves several PCI functions, each a drive
//! of its own: nanoseconds by number of devices, queues of each and commands outstanding in all,
//! without the model; the best of three runs. The guests are in the same thread, and their part
//! is in the figure. Then the same on several threads at once, each with a device of its own: as
//! many as there are processors, and half of them.
//!
//! `cargo bench -p mynah-runtime --bench scale [-- WORD…]` runs the lines that have all the words.

mod guest;
#[allow(dead_code)]
#[path = "../../device/tests/device/support.rs"]
mod shared;

use guest::{Bench, Work};
use mynah_device::Timing;
use mynah_wire::nvme::opcode::nvm;
use std::sync::Barrier;
use std::thread;
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
    println!("threads  device each  outstanding  bytes    ns each    M/s in all");
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut counts = vec![1, processors.div_ceil(2), processors];
    counts.dedup();
    for threads in counts {
        for blocks in [1, 8] {
            let depth = 128;
            let name = format!("threads {threads:<3} 1 {depth:<12} {:<6}", blocks * 512);
            let has = |word: &String| name.split_whitespace().any(|part| part == word);
            if !words.iter().all(has) {
                continue;
            }
            let best = (0..3).map(|_| together(threads, blocks, depth)).fold(f64::MAX, f64::min);
            println!("{name} {best:>9.1} {:>8.2}", 1000.0 * threads as f64 / best);
        }
    }
}

/// Nanoseconds a command of each of several threads at once, a device of its own on each.
fn together(threads: usize, blocks: u32, depth: u32) -> f64 {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let each = || {
            let mut bench = [Bench::new(Timing::Immediate, BYTES, 1)];
            let work = Work { opcode: nvm::READ, blocks, span: BYTES / 512, depth };
            measure(&mut bench, &work);
            start.wait();
            measure(&mut bench, &work)
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(each)).collect();
        let times: Vec<f64> =
            running.into_iter().map(|it| it.join().expect("it does not fail")).collect();
        times.iter().sum::<f64>() / threads as f64
    })
}

/// Nanoseconds a command, over all devices in turn.
fn measure(benches: &mut [Bench], work: &Work) -> f64 {
    let (began, mut done) = (Instant::now(), 0);
    while done < COMMANDS {
        done += benches.iter_mut().map(|bench| bench.step(work)).sum::<u64>();
    }
    began.elapsed().as_secs_f64() * 1e9 / done as f64
}
