//! Throughput against what it can be at most, computed here, and against queueing formulas.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::{Span, Time};

/// A drive of single-plane dies without a link.
fn dies(channels: u32, chips: u32, dies: u32) -> Config {
    small_with(|c| {
        c.geometry.channels = channels;
        c.geometry.chips_per_channel = chips;
        c.geometry.dies_per_chip = dies;
        c.geometry.planes_per_die = 1;
    })
}

fn fetched(config: Config) -> Host {
    let mut host = Host::without_queues(config, Manner::default());
    host.create(fetched_queue(1));
    fill(&mut host);
    host
}

/// Picoseconds for a request, in the steady middle of a run.
fn pace(
    host: &mut Host,
    depth: usize,
    count: usize,
    request: impl FnMut(usize) -> (Operation, u64, u32),
) -> f64 {
    let done = host.closed_loop(depth, count, request);
    let (from, to) = (count / 4, count * 3 / 4);
    done[to].at.since(done[from].at).as_ps() as f64 / (to - from) as f64
}

fn striped(
    host: &Host,
    operation: Operation,
) -> impl FnMut(usize) -> (Operation, u64, u32) + use<> {
    let pages = host.drive.namespace_sectors(NAMESPACE).expect("a namespace") / 16;
    move |n| (operation, n as u64 % pages * 16, 16)
}

fn random_pages(host: &Host, seed: u64) -> impl FnMut(usize) -> (Operation, u64, u32) + use<> {
    let pages = host.drive.namespace_sectors(NAMESPACE).expect("a namespace") / 16;
    let mut random = Random(seed);
    move |_| (Operation::Read, random.below(pages) * 16, 16)
}

const READ_COMMAND_PS: f64 = 290_000.0;

#[test]
fn channels_are_the_bound() {
    for channels in [1, 2, 4] {
        let mut config = dies(channels, 2, 2);
        config.bus.rate_mts = 200;
        let mut host = fetched(config);
        let request = striped(&host, Operation::Read);
        let pace = pace(&mut host, 32 * channels as usize, 8000, request);
        let page = 8192.0 * 5000.0 + READ_COMMAND_PS;
        assert_close(&format!("{channels} channels"), pace, page / f64::from(channels), 0.005);
    }
    // Data first: the four dies read together and then transfer together.
    let mut config = dies(1, 2, 2);
    config.bus.rate_mts = 200;
    config.bus.arbitration = BusArbitration::DataFirst;
    let mut host = fetched(config);
    let request = striped(&host, Operation::Read);
    let pace = pace(&mut host, 32, 8000, request);
    let page = 8192.0 * 5000.0 + READ_COMMAND_PS;
    assert_close("data first", pace, page + 50e6 / 4.0, 0.02);
}

#[test]
fn dies_are_the_bound_and_add_up() {
    for (channels, chips, per_chip) in [(1, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (2, 2, 2)] {
        let mut config = dies(channels, chips, per_chip);
        config.bus.rate_mts = 4800;
        let mut host = fetched(config);
        let count = (channels * chips * per_chip) as usize;
        let request = striped(&host, Operation::Read);
        let pace = pace(&mut host, 8 * count, 4000, request);
        let page = READ_COMMAND_PS + 50e6 + 8192e6 / 4800.0;
        assert_close(&format!("{count} dies"), pace, page / count as f64, 0.005);
    }
}

#[test]
fn without_die_interleaving_a_chip_is_one_die() {
    let run = |interleaving: bool, per_chip: u32| {
        let mut config = dies(1, 2, per_chip);
        config.bus.rate_mts = 4800;
        config.scheduler.die_interleaving = interleaving;
        let mut host = fetched(config);
        let request = striped(&host, Operation::Read);
        pace(&mut host, 64, 4000, request)
    };
    let one = run(true, 1);
    assert_close("two dies that take turns", run(false, 2), one, 0.005);
    assert_close("two dies at work", run(true, 2), one / 2.0, 0.005);
}

#[test]
fn planes_add_up_when_they_work_together() {
    let run = |planes: u32, multi_plane: bool| {
        let mut config = dies(1, 1, 1);
        config.geometry.planes_per_die = planes;
        config.scheduler.multi_plane = multi_plane;
        // Not filled: nothing has to be collected.
        let mut host = Host::without_queues(config, Manner::default());
        host.create(fetched_queue(1));
        let request = striped(&host, Operation::Write);
        pace(&mut host, 8 * planes as usize, 200, request)
    };
    let program = |planes: u64| {
        let commands = 20 + (planes - 1) * 816 + 361 - 20 + 10_240 * planes + 500_000;
        (commands + 20) as f64 * 1000.0 / planes as f64
    };
    assert_close("one plane", run(1, true), program(1), 0.005);
    assert_close("two planes", run(2, true), program(2), 0.005);
    assert_close("four planes", run(4, true), program(4), 0.005);
    assert_close("four planes, one at a time", run(4, false), program(1), 0.005);
}

#[test]
fn the_link_is_the_bound() {
    let config = small_with(|c| {
        c.link.bytes_per_s = 400_000_000;
        c.geometry.channels = 4;
    });
    let mut host = Host::new(config);
    fill(&mut host);
    let request = striped(&host, Operation::Read);
    let read = pace(&mut host, 128, 6000, request);
    // Towards the host: the request for the entry, 64 packets of data, the completion.
    let bytes = 64 * 156 + 44;
    assert_close("reads", read, (f64::from(bytes) + 32.0) * 2500.0, 0.005);
    // Towards the drive: two doorbells, the entry, the data; the cache takes it all.
    let mut host = Host::new(small_with(|c| {
        c.link.bytes_per_s = 20_000_000;
        c.cache = Some(cache());
    }));
    let request = striped(&host, Operation::Write);
    let write = pace(&mut host, 128, 400, request);
    let bytes = 2 * 32 + 92 + 64 * 156;
    assert_close("writes", write, f64::from(bytes) * 50_000.0, 0.005);
}

#[test]
fn one_die_under_random_arrivals_is_an_md1_queue() {
    let mut config = dies(1, 1, 1);
    config.geometry.blocks_per_plane = 64;
    let service = 290_000 + 50_000_000 + 10_240_000u64;
    for load in [0.3, 0.6] {
        let mut host = fetched(config.clone());
        let mut request = random_pages(&host, 3);
        let mut random = Random(5);
        let (mut at, mut total, mut count) = (0.0, 0.0, 0);
        while count < 60_000 {
            let share = (random.below(1 << 53) as f64 + 1.0) / (1u64 << 53) as f64;
            at -= libm::log(share) * service as f64 / load;
            host.advance_to(Time::from_ps(at as u64));
            while let Some(done) = host.ready() {
                total += done.at.since(done.rung).as_ps() as f64;
                count += 1;
            }
            let (operation, sector, sectors) = request(0);
            host.send(operation, sector, sectors);
        }
        // Pollaczek and Khinchine, for a constant service time.
        let expected = service as f64 * (1.0 + load / (2.0 * (1.0 - load)));
        assert_close(&format!("load {load}"), total / f64::from(count), expected, 0.02);
    }
}

#[test]
fn random_reads_of_many_dies_are_a_closed_network() {
    // With exponential service a closed network of d equal stations and n customers has the
    // throughput n / (n + d - 1) of the most; constant service lies between that and the
    // most, and here less than 15 % above it.
    let mut config = dies(2, 4, 1);
    config.bus.rate_mts = 4800;
    config.geometry.blocks_per_plane = 64;
    let page = READ_COMMAND_PS + 50e6 + 8192e6 / 4800.0;
    for depth in [1, 8, 32, 128] {
        let mut host = fetched(config.clone());
        let request = random_pages(&host, 11);
        let pace = pace(&mut host, depth, 20_000, request);
        let used = page / 8.0 / pace;
        let exponential = depth as f64 / (depth as f64 + 7.0);
        assert!(used > exponential * 0.99, "depth {depth}: {used} of {exponential}");
        assert!(used < (exponential * 1.15).min(1.0), "depth {depth}: {used} of {exponential}");
    }
}

#[test]
fn a_queue_of_one_die_is_served_in_turn() {
    let mut host = fetched(dies(1, 1, 1));
    let request = random_pages(&host, 1);
    let done = host.closed_loop(8, 200, request);
    let service = Span::from_ns(290 + 50_000 + 10_240);
    assert!(done[8..192].iter().all(|done| done.at.since(done.rung) == service.times(8)));
}
