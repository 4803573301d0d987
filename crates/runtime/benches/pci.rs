//! What the PCI function costs: time of a read or write of 512 bytes or 4 KiB in nanoseconds,
//! without the model and with it, by queue depth; the best of five runs. The guest is in the same
//! thread: it puts all its entries into the queue, lets the function have its turns and takes all
//! completions, which is part of the figure.
//!
//! `cargo bench -p mynah-runtime --bench pci [-- WORD…]` runs the lines that have all the words.
//! `--count N` has each do N commands once and no more, for a tool that counts instructions.

mod guest;
#[allow(dead_code)]
#[path = "../../device/tests/device/support.rs"]
mod shared;

use guest::{Bench, Work};
use mynah_device::Timing;
use mynah_wire::nvme::opcode::nvm;
use std::time::Instant;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let count = words.iter().position(|word| word == "--count").map(|at| {
        words.remove(at);
        words.remove(at).parse::<u64>().expect("a number of commands")
    });
    // A disk that fits no cache, and one that does.
    for (disk, disk_bytes) in [("256-MiB", 256 << 20), ("1-MiB", 1 << 20)] {
        for (timing, timing_name, commands) in
            [(Timing::Immediate, "immediate", 2_000_000), (Timing::Modelled, "modelled", 200_000)]
        {
            for (what, opcode, blocks) in [
                ("read-512", nvm::READ, 1),
                ("write-512", nvm::WRITE, 1),
                ("read-4k", nvm::READ, 8),
            ] {
                for depth in [1, 16, 32, 128] {
                    let name = format!("{disk} {timing_name} {what} depth-{depth}");
                    let is_wanted = |word: &String| name.split(' ').any(|part| part == word);
                    if !words.iter().all(is_wanted) {
                        continue;
                    }
                    let mut bench = Bench::new(timing, disk_bytes, 1);
                    let work = Work { opcode, blocks, span: disk_bytes / 512, depth };
                    if let Some(count) = count {
                        run(&mut bench, &work, count);
                        continue;
                    }
                    let mut best = f64::MAX;
                    for _ in 0..5 {
                        let began = Instant::now();
                        run(&mut bench, &work, commands / 5);
                        let each = began.elapsed().as_secs_f64() * 1e9 / (commands / 5) as f64;
                        best = best.min(each);
                    }
                    println!("{name}: {best:.1} ns, {:.2} M/s", 1000.0 / best);
                }
            }
        }
    }
}

/// Keeps the queue at its depth until so many commands are done.
fn run(bench: &mut Bench, work: &Work, commands: u64) {
    let mut done = 0;
    while done < commands {
        done += bench.step(work);
    }
}
