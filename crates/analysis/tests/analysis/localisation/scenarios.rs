//! What makes I/Os slow, one thing at a time: a base and a profile of each, and what a verdict should
//! say.

use super::path::{self, Arrivals, Network, Source, US};
use mynah_analysis::Cause;
use mynah_lab::experiment::Precondition;
use mynah_lab::simulation::Simulation;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;

/// Makes both profiles by a seed, the base and then the other; the cause that is right.
pub(crate) type Make = fn(u64, &Path, &Path) -> Cause;

/// A scenario: whether it was looked at while the analyser was written, and how its two profiles are
/// made.
pub(crate) struct Scenario {
    pub name: &'static str,
    pub held_back: bool,
    pub make: Make,
}

const fn seen(name: &'static str, make: Make) -> Scenario {
    Scenario { name, held_back: false, make }
}

const fn held_back(name: &'static str, make: Make) -> Scenario {
    Scenario { name, held_back: true, make }
}

pub(crate) const ALL: [Scenario; 15] = [
    seen("a slow target core", slow_target),
    seen("too few sessions", few_sessions),
    seen("a slow link", slow_link),
    seen("more depth", more_depth),
    seen("a neighbour that writes", neighbour),
    seen("slower dies", slower_dies),
    held_back("large transfers before small ones", large_before_small),
    held_back("a slow host core", slow_host),
    held_back("a target that sleeps", sleeping_target),
    held_back("few buffers for writes", few_buffers),
    held_back("garbage collection", collection),
    held_back("a smaller write cache", smaller_cache),
    held_back("more at once from a host with another number", more_from_a_host),
    held_back("more load on slower dies", more_on_slower_dies),
    held_back("reads of fewer dies", fewer_dies),
];

pub(crate) fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Between two numbers.
fn between(rng: &mut Xoshiro256PlusPlus, from: f64, to: f64) -> f64 {
    from + (to - from) * (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn both(seed: u64, base: &Path, now: &Path, before: &Network, after: &Network) {
    path::write(before, seed * 2, base);
    path::write(after, seed * 2 + 1, now);
}

fn slow_target(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let before = Network::quiet(&mut rng);
    let mut after = before.clone();
    after.target_core = (after.target_core as f64 * between(&mut rng, 8.0, 15.0)) as u64;
    both(seed, base, now, &before, &after);
    Cause::TargetCore
}

fn few_sessions(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let mut before = Network::quiet(&mut rng);
    before.entries = 8 + (rng.next_u64() % 9) as u32;
    // Some 90 us an I/O: so many a second that a third of the entries are taken, and then 1.1 to 1.5
    // times what they can take.
    let capacity = f64::from(before.entries) / 90e-6;
    let at = |share: f64| {
        vec![Source {
            session: 1,
            queue: 1,
            write: false,
            bytes: 4096,
            how: Arrivals::Open(capacity * share),
        }]
    };
    let mut after = before.clone();
    before.sources = at(0.33);
    after.sources = at(between(&mut rng, 1.1, 1.5));
    both(seed, base, now, &before, &after);
    Cause::Sessions
}

fn slow_link(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let before = Network::quiet(&mut rng);
    let mut after = before.clone();
    match seed % 2 {
        0 => after.link_rate /= between(&mut rng, 20.0, 40.0),
        _ => after.hidden_rate = after.link_rate * between(&mut rng, 0.8, 0.9),
    }
    both(seed, base, now, &before, &after);
    Cause::Network
}

pub(crate) fn large_before_small(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let mut before = Network::quiet(&mut rng);
    // A connection does not fill the link.
    before.connection_rate = 1e9;
    before.link_rate = 12e9;
    let write = seed % 2 == 1;
    before.sources.iter_mut().for_each(|source| source.write = write);
    let mut after = before.clone();
    let depth = 2 + (rng.next_u64() % 4) as u32;
    let bytes = if write { 8192 } else { 131_072 };
    let depth = if write { 16 * depth } else { depth };
    after.entries = 256;
    before.entries = 256;
    for session in [1, 2] {
        let how = Arrivals::Closed(depth);
        after.sources.push(Source { session, queue: 1, write, bytes, how });
    }
    after.ios = 12_000;
    both(seed, base, now, &before, &after);
    Cause::SendQueue
}

fn slow_host(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let before = Network::quiet(&mut rng);
    let mut after = before.clone();
    after.host_core = (after.host_core as f64 * between(&mut rng, 8.0, 15.0)) as u64;
    both(seed, base, now, &before, &after);
    Cause::HostCore
}

fn sleeping_target(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let before = Network::quiet(&mut rng);
    let mut after = before.clone();
    after.nap = between(&mut rng, 60.0, 250.0) as u64 * US;
    both(seed, base, now, &before, &after);
    Cause::Lateness
}

fn few_buffers(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let mut before = Network::quiet(&mut rng);
    for source in &mut before.sources {
        (source.write, source.bytes) = (true, 32_768);
    }
    let mut after = before.clone();
    after.buffers = 1;
    both(seed, base, now, &before, &after);
    Cause::Buffers
}

/// A drive small enough for many runs.
fn drive() -> Simulation {
    let mut simulation = Simulation::on("enterprise-tlc").unwrap();
    for set in [
        "over_provisioning=28%",
        "geometry.channels=4",
        "geometry.chips_per_channel=1",
        "geometry.blocks_per_plane=48",
        "geometry.pages_per_block=192",
        "cache.size=4MiB",
    ] {
        simulation = simulation.set(set).unwrap();
    }
    simulation.precondition(Precondition::Fill)
}

fn run(simulation: Simulation, seed: u64, path: &Path) {
    let mut simulation = simulation.seed(seed);
    simulation.profile = Some(path.to_owned());
    simulation.run().unwrap();
}

fn more_depth(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let (depth, more) = (1 + rng.next_u64() % 4, 8 + rng.next_u64() % 56);
    let flow = |depth| format!("rw=randread bs=4k iodepth={depth} number_ios=5000");
    run(drive().flow("reader", &flow(depth)).unwrap(), 2 * seed, base);
    run(drive().flow("reader", &flow(depth * 4 + more)).unwrap(), 2 * seed + 1, now);
    Cause::MoreLoad
}

/// One I/O at once, and then many, which wait for the target's core; the host's controller has another
/// number then, as it has in another run.
fn more_from_a_host(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let mut before = Network::quiet(&mut rng);
    let source = |session, depth| Source {
        session,
        queue: 1,
        write: false,
        bytes: 4096,
        how: Arrivals::Closed(depth),
    };
    (before.target_core, before.entries) = (4 * US, 256);
    let mut after = before.clone();
    before.sources = vec![source(1, 1)];
    after.sources = vec![source(2, 32 + (rng.next_u64() % 97) as u32)];
    both(seed, base, now, &before, &after);
    Cause::MoreLoad
}

/// Both at once: most of what is added comes of the load.
fn more_on_slower_dies(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let depth = 8 + rng.next_u64() % 8;
    let flow = |depth| format!("rw=randread bs=4k iodepth={depth} number_ios=5000");
    run(drive().flow("reader", &flow(depth)).unwrap(), 2 * seed, base);
    let slower = drive().set("flash.read=55us").unwrap();
    run(slower.flow("reader", &flow(depth * 5)).unwrap(), 2 * seed + 1, now);
    Cause::MoreLoad
}

/// Nothing is written, so that the drive has no work of its own.
fn fewer_dies(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let depth = 12 + rng.next_u64() % 12;
    let flow = format!("rw=randread bs=4k iodepth={depth} number_ios=5000");
    run(drive().flow("reader", &flow).unwrap(), 2 * seed, base);
    let fewer = drive().set("geometry.channels=1").unwrap();
    run(fewer.flow("reader", &flow).unwrap(), 2 * seed + 1, now);
    Cause::DriveStage
}

pub(crate) fn neighbour(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let depth = 1 + rng.next_u64() % 4;
    let flow = format!("rw=randread bs=4k iodepth={depth} number_ios=4000");
    let other = format!("rw=write bs=128k iodepth={} number_ios=4000", 4 + rng.next_u64() % 8);
    run(drive().flow("reader", &flow).unwrap(), 2 * seed, base);
    let both = drive().flow("reader", &flow).unwrap().flow("writer", &other).unwrap();
    run(both, 2 * seed + 1, now);
    Cause::Neighbour
}

fn slower_dies(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let depth = 1 + rng.next_u64() % 16;
    let flow = format!("rw=randread bs=4k iodepth={depth} number_ios=5000");
    let read = between(&mut rng, 70.0, 160.0);
    run(drive().flow("reader", &flow).unwrap(), 2 * seed, base);
    let slower = drive().set(&format!("flash.read={read:.0}us")).unwrap();
    run(slower.flow("reader", &flow).unwrap(), 2 * seed + 1, now);
    Cause::SlowFlash
}

/// Reads and writes at a rate that the drive stands in either state: freshly filled, and at rest.
fn collection(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let rate = 6000 + rng.next_u64() % 2000;
    let flow = format!(
        "rw=randrw rwmixread=50 bs=4k iodepth=64 rate_iops={rate} rate_process=poisson number_ios=8000"
    );
    run(drive().flow("mixed", &flow).unwrap(), 2 * seed, base);
    let old = drive().set("over_provisioning=13%").unwrap().precondition(Precondition::Steady);
    run(old.flow("mixed", &flow).unwrap(), 2 * seed + 1, now);
    Cause::Background
}

/// Bursts of writes, which one cache takes and the other does not.
fn smaller_cache(seed: u64, base: &Path, now: &Path) -> Cause {
    let mut rng = rng(seed);
    let bs = [16, 32, 64][(rng.next_u64() % 3) as usize];
    let flow = format!("rw=write bs={bs}k iodepth=16 burst=2ms/40ms number_ios=6000");
    run(drive().set("cache.size=32MiB").unwrap().flow("writer", &flow).unwrap(), 2 * seed, base);
    let small = drive().set("cache.size=512KiB").unwrap();
    run(small.flow("writer", &flow).unwrap(), 2 * seed + 1, now);
    Cause::WriteCache
}

/// Two profiles of the same: no verdict is right but that nothing is slower.
pub(crate) fn alike(seed: u64, base: &Path, now: &Path) {
    let mut rng = rng(seed);
    match seed % 4 {
        0 => {
            let depth = 1 + rng.next_u64() % 32;
            let flow = format!("rw=randread bs=4k iodepth={depth} number_ios=3000");
            run(drive().flow("reader", &flow).unwrap(), 2 * seed, base);
            run(drive().flow("reader", &flow).unwrap(), 2 * seed + 1, now);
        }
        1 => {
            let flow = "rw=randrw bs=4k iodepth=8 number_ios=4000";
            run(drive().flow("mixed", flow).unwrap(), 2 * seed, base);
            run(drive().flow("mixed", flow).unwrap(), 2 * seed + 1, now);
        }
        _ => {
            let mut network = Network::quiet(&mut rng);
            if seed % 4 == 3 {
                // Not far from what the target can do, so that its waits vary.
                network.target_core *= 2;
                network.hidden_rate = 0.5 * network.link_rate;
            }
            both(seed, base, now, &network, &network);
        }
    }
}
