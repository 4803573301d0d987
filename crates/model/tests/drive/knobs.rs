//! Every field of the configuration has an effect: a table of changes to a small drive, what
//! is measured, and the factor by which it changes. Faults, page types, bus rates and
//! refusals have tests of their own in the other files.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::Span;
use std::ops::RangeInclusive;

struct Knob {
    name: &'static str,
    /// What both drives have in common.
    base: fn(&mut Config),
    change: fn(&mut Config),
    measure: fn(Config) -> f64,
    /// Measured with the change over measured without.
    factor: RangeInclusive<f64>,
}

fn nothing(_: &mut Config) {}

fn us(us: u64) -> Span {
    Span::from_us(us)
}

fn filled(config: Config) -> Host {
    let mut host = Host::new(config);
    fill(&mut host);
    host
}

fn latency(done: &Completion) -> f64 {
    done.at.since(done.rung).as_ps() as f64
}

fn read_latency(config: Config) -> f64 {
    latency(&filled(config).run_one(Operation::Read, 0, 8))
}

/// Of 64 KiB.
fn long_read_latency(config: Config) -> f64 {
    latency(&filled(config).run_one(Operation::Read, 0, 128))
}

fn write_latency(config: Config) -> f64 {
    latency(&Host::new(config).run_one(Operation::Write, 0, 16))
}

/// Of 64 KiB.
fn long_write_latency(config: Config) -> f64 {
    latency(&Host::new(config).run_one(Operation::Write, 0, 128))
}

fn trim_latency(config: Config) -> f64 {
    latency(&filled(config).run_one(Operation::Trim, 0, 16))
}

fn flush_latency(config: Config) -> f64 {
    latency(&filled(config).run_one(Operation::Flush, 0, 0))
}

/// Reads a second, 64 outstanding.
fn read_rate(config: Config) -> f64 {
    let mut host = filled(config);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(1);
    let done = host.closed_loop(64, 3000, |_| (Operation::Read, random.below(units) * 8, 8));
    3000.0 / done[2999].at.as_secs_f64()
}

fn run_overwrites(config: Config) -> Host {
    let mut host = filled(config);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(2);
    host.closed_loop(16, 12_000, |_| (Operation::Write, random.below(units) * 8, 8));
    host
}

fn amplification(config: Config) -> f64 {
    run_overwrites(config).drive.counters().write_amplification().expect("written")
}

/// Writes a second of pages that all belong to one plane by their addresses.
fn one_plane_writes(config: Config) -> f64 {
    let mut host = Host::new(config);
    let planes = u64::from(host.drive.config().geometry.planes());
    let done = host.closed_loop(32, 400, |n| (Operation::Write, n as u64 % 50 * planes * 16, 16));
    400.0 / done[399].at.as_secs_f64()
}

/// Writes a second of successive pages.
fn striped_writes(config: Config) -> f64 {
    let mut host = Host::new(config);
    let done = host.closed_loop(32, 1000, |n| (Operation::Write, n as u64 % 500 * 16, 16));
    1000.0 / done[999].at.as_secs_f64()
}

/// Pages that collection moves through the controller.
fn moved_over_channels(config: Config) -> f64 {
    let counters = run_overwrites(config).drive.counters();
    (counters.gc_programs - counters.copybacks) as f64
}

/// The longest a write takes.
fn longest_write(config: Config) -> f64 {
    let mut host = filled(config);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(2);
    let write = |_| (Operation::Write, random.below(units) * 8, 8);
    let done = host.closed_loop(64, 12_000, write);
    done[2000..].iter().map(latency).fold(0.0, f64::max)
}

/// Of writes nine tenths of which go to a tenth of the drive.
fn skewed_amplification(config: Config) -> f64 {
    let mut host = filled(config);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(8);
    host.closed_loop(16, 20_000, |_| {
        let within = if random.chance(0.9) { units / 10 } else { units };
        (Operation::Write, random.below(within) * 8, 8)
    });
    host.drive.counters().write_amplification().expect("written")
}

/// Frontiers for hot and cold units.
fn hot_cold(change: impl FnOnce(&mut HotData)) -> WriteFrontiers {
    let mut hot = HotData::DEFAULT;
    change(&mut hot);
    WriteFrontiers::HotCold(hot)
}

fn erases(config: Config) -> f64 {
    run_overwrites(config).drive.counters().erases as f64
}

/// The mean latency of reads beside writes.
fn mean_read(config: Config) -> f64 {
    let mut host = filled(config);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(3);
    let mut reads = std::collections::BTreeSet::new();
    let mut latencies = vec![];
    let mut submitted = 0;
    while submitted < 8000 || host.outstanding > 0 {
        while submitted < 8000 && host.outstanding < 16 {
            let read = random.chance(0.3);
            let operation = if read { Operation::Read } else { Operation::Write };
            let tag = host.send(operation, random.below(units) * 8, 8);
            if read {
                reads.insert(tag);
            }
            submitted += 1;
        }
        if let Some(done) = host.next()
            && reads.contains(&done.tag)
        {
            latencies.push(latency(&done));
        }
    }
    latencies.iter().sum::<f64>() / latencies.len() as f64
}

/// Writes that a cache takes: the mean latency of a burst of 100.
fn burst_latency(config: Config) -> f64 {
    let mut host = Host::new(config);
    let done = host.closed_loop(100, 100, |n| (Operation::Write, n as u64 * 16, 16));
    done.iter().map(latency).sum::<f64>() / 100.0
}

/// Flash programs for overwriting the same few units over and over.
fn hot_programs(config: Config) -> f64 {
    let mut host = Host::new(config);
    host.closed_loop(1, 2000, |n| (Operation::Write, n as u64 * 7 % 48 * 8, 8));
    host.run_one(Operation::Flush, 0, 0);
    host.drive.counters().flash_programs as f64
}

fn cached_read_latency(config: Config) -> f64 {
    let mut host = Host::new(config);
    host.run_one(Operation::Write, 0, 8);
    latency(&host.run_one(Operation::Read, 0, 8))
}

/// Of a unit that was read before.
fn second_read_latency(config: Config) -> f64 {
    let mut host = filled(config);
    host.run_one(Operation::Read, 0, 8);
    latency(&host.run_one(Operation::Read, 0, 8))
}

/// The mean latency of single writes of flow 0 while flow 1 writes as fast as it can, on the
/// same namespace or on the other.
pub(crate) fn light_writes(config: Config, apart: bool) -> f64 {
    let mut host = Host::new(config);
    host.create(memory_queue(2));
    let mut sum = 0.0;
    let mut heavy = 0u64;
    let mut outstanding = [0, 0];
    let (mut due, mut done_of_light) = (Span::from_ms(5), 0u32);
    while done_of_light < 50 {
        while outstanding[1] < 32 {
            let mut request = host.request(Operation::Write, 4096 + heavy * 7 % 500 * 16, 16);
            request.namespace = NamespaceId(if apart { 2 } else { 1 });
            host.submit(QueueId(2), request);
            heavy += 1;
            outstanding[1] += 1;
        }
        if outstanding[0] == 0 && host.now().as_ps() >= due.as_ps() {
            host.send(Operation::Write, u64::from(done_of_light % 20) * 16, 16);
            outstanding[0] = 1;
        }
        let done = host.next().expect("writes complete");
        outstanding[usize::from(done.queue.0) - 1] -= 1;
        if done.queue == QUEUE {
            sum += latency(&done);
            done_of_light += 1;
            due += Span::from_ms(2);
        }
    }
    sum / 50.0
}

/// Of cached units in two rows of the DRAM, read in turn: the last.
fn alternating_read_latency(config: Config) -> f64 {
    let mut host = Host::new(config);
    host.run_one(Operation::Write, 0, 32);
    for n in 0..6 {
        host.run_one(Operation::Read, n % 2 * 16, 8);
    }
    latency(&host.run_one(Operation::Read, 0, 8))
}

/// Translation pages read for random reads.
fn mapping_reads(config: Config) -> f64 {
    let mut host = filled_with_table(config);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(4);
    host.closed_loop(8, 9000, |_| (Operation::Read, random.below(units / 2) * 8, 8));
    1.0 + host.drive.counters().mapping_reads as f64
}

fn miss_latency(config: Config) -> f64 {
    latency(&filled_with_table(config).run_one(Operation::Read, 0, 8))
}

fn filled_with_table(config: Config) -> Host {
    let mut host = Host::new(config);
    let sectors = host.drive.namespace_sectors(NAMESPACE).expect("a namespace");
    fill_sectors(&mut host, sectors);
    host
}

/// Translation pages programmed for random writes, and one.
fn mapping_programs(config: Config) -> f64 {
    let mut host = filled_with_table(config);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(4);
    host.closed_loop(8, 8000, |_| (Operation::Write, random.below(units) * 8, 8));
    1.0 + host.drive.counters().mapping_programs as f64
}

/// Table misses of namespace 1 while namespace 2 reads everything.
fn neighbour_misses(config: Config) -> f64 {
    let mut host = filled_with_table(config);
    let mut random = Random(6);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut misses = 0;
    for n in 0..2000 {
        let mine = n % 4 == 0;
        let unit = if mine { random.below(40) } else { random.below(units) };
        let before = host.drive.counters().cmt_hits;
        let mut request = host.request(Operation::Read, unit * 8, 8);
        request.namespace = NamespaceId(if mine { 1 } else { 2 });
        host.submit(QUEUE, request);
        host.next().expect("it completes");
        misses += u32::from(mine && host.drive.counters().cmt_hits == before);
    }
    f64::from(misses)
}

fn table(c: &mut Config, change: impl FnOnce(&mut CachedTable)) {
    let mut table = cached_table(8192);
    change(&mut table);
    c.mapping.table = MappingTable::Cached(table);
}

fn edit_table(c: &mut Config, change: impl FnOnce(&mut CachedTable)) {
    if let MappingTable::Cached(table) = &mut c.mapping.table {
        change(table);
    }
}

fn with_cache(c: &mut Config) {
    c.cache = Some(cache());
}

fn edit_cache(c: &mut Config, change: impl FnOnce(&mut DataCache)) {
    change(c.cache.as_mut().expect("a cache"));
}

/// Mean latency of a queue's reads beside another queue's many; the first is `priority`'s.
fn urgent_latency(config: Config) -> f64 {
    let mut host = Host::without_queues(config, Manner::default());
    host.create(Queue { priority: Priority::Urgent, ..memory_queue(1) });
    host.create(Queue { priority: Priority::Low, ..memory_queue(2) });
    fill(&mut host);
    let mut random = Random(7);
    let mut mine = vec![];
    let mut outstanding = [0, 0];
    while mine.len() < 300 {
        for (queue, depth) in [(0, 1), (1, 64)] {
            while outstanding[queue] < depth {
                let request = host.request(Operation::Read, random.below(1000) * 8, 8);
                host.submit(QueueId(queue as u16 + 1), request);
                outstanding[queue] += 1;
            }
        }
        let done = host.next().expect("reads complete");
        outstanding[usize::from(done.queue.0) - 1] -= 1;
        if done.queue == QUEUE {
            mine.push(latency(&done));
        }
    }
    mine.iter().sum::<f64>() / mine.len() as f64
}

fn knobs() -> Vec<Knob> {
    let knob = |name, base, change, measure, factor| Knob { name, base, change, measure, factor };
    let slow_link: fn(&mut Config) = |c| c.link.bytes_per_s = 100_000_000;
    let no_free: fn(&mut Config) = |c| c.over_provisioning = 0.28;
    vec![
        // Geometry.
        knob("geometry.channels", nothing, |c| c.geometry.channels = 4, read_rate, 1.5..=2.0),
        knob(
            "geometry.chips_per_channel",
            nothing,
            |c| c.geometry.chips_per_channel = 4,
            read_rate,
            1.4..=2.0,
        ),
        knob(
            "geometry.dies_per_chip",
            nothing,
            |c| c.geometry.dies_per_chip = 2,
            read_rate,
            1.4..=2.0,
        ),
        knob(
            "geometry.planes_per_die",
            nothing,
            |c| c.geometry.planes_per_die = 4,
            long_read_latency,
            0.8..=1.2,
        ),
        knob(
            "geometry.blocks_per_plane",
            nothing,
            |c| c.geometry.blocks_per_plane = 64,
            erases,
            0.3..=0.95,
        ),
        knob(
            "geometry.pages_per_block",
            nothing,
            |c| c.geometry.pages_per_block = 32,
            erases,
            0.1..=0.6,
        ),
        knob(
            "geometry.page_size",
            nothing,
            |c| c.geometry.page_bytes = 16384,
            write_latency,
            1.015..=1.025,
        ),
        knob(
            "geometry.page_spare",
            |c| c.bus.transfer_spare = true,
            |c| c.geometry.page_spare_bytes = 8192,
            read_latency,
            1.07..=1.10,
        ),
        // Flash.
        knob("flash.cell", nothing, |c| c.flash.cell = CellType::Tlc, erases, 0.9..=1.1),
        knob(
            "flash.read",
            nothing,
            |c| c.flash.read = page_times(100, 100, 100),
            read_latency,
            1.8..=1.9,
        ),
        knob(
            "flash.program",
            nothing,
            |c| c.flash.program = page_times(1000, 1000, 1000),
            write_latency,
            1.9..=2.0,
        ),
        knob("flash.erase", nothing, |c| c.flash.erase = Span::from_ms(30), mean_read, 2.0..=20.0),
        knob(
            "flash.read_ready_delay",
            nothing,
            |c| c.flash.read_ready_delay = us(50),
            read_latency,
            1.8..=1.9,
        ),
        // Bus.
        knob("bus.width_bits", nothing, |c| c.bus.width_bytes = 2, read_latency, 0.94..=0.96),
        knob("bus.rate", nothing, |c| c.bus.rate_mts = 400, read_latency, 1.08..=1.10),
        knob("bus.cycles.t_cs", nothing, |c| c.bus.cycles.t_cs = us(50), read_latency, 1.8..=1.9),
        knob("bus.cycles.t_wc", nothing, |c| c.bus.cycles.t_wc = us(50), read_latency, 6.0..=6.5),
        knob("bus.cycles.t_wb", nothing, |c| c.bus.cycles.t_wb = us(50), read_latency, 1.8..=1.9),
        knob("bus.cycles.t_rr", nothing, |c| c.bus.cycles.t_rr = us(50), read_latency, 1.8..=1.9),
        knob(
            "bus.cycles.t_adl",
            nothing,
            |c| c.bus.cycles.t_adl = us(500),
            write_latency,
            1.9..=2.0,
        ),
        knob(
            "bus.cycles.t_wpst",
            nothing,
            |c| c.bus.cycles.t_wpst = us(500),
            write_latency,
            1.9..=2.0,
        ),
        knob(
            "bus.cycles.t_wpsth",
            nothing,
            |c| c.bus.cycles.t_wpsth = us(500),
            write_latency,
            1.9..=2.0,
        ),
        knob(
            "bus.cycles.t_dbsy",
            |c| c.plane_order = planes_first(),
            |c| c.bus.cycles.t_dbsy = us(500),
            long_write_latency,
            2.7..=2.8,
        ),
        knob(
            "bus.cycles.t_cals",
            |c| c.plane_order = planes_first(),
            |c| c.bus.cycles.t_cals = us(500),
            long_write_latency,
            2.7..=2.8,
        ),
        knob(
            "bus.rounding",
            |c| c.bus.rate_mts = 667,
            |c| c.bus.rounding = BusRounding::TruncatedNs,
            read_latency,
            0.95..=0.99,
        ),
        knob(
            "bus.transfer_spare",
            nothing,
            |c| c.bus.transfer_spare = true,
            read_latency,
            1.003..=1.007,
        ),
        knob(
            "bus.arbitration",
            |c| c.bus.rate_mts = 200,
            |c| c.bus.arbitration = BusArbitration::DataFirst,
            read_rate,
            0.5..=0.98,
        ),
        // Link.
        knob(
            "link.bandwidth",
            slow_link,
            |c| c.link.bytes_per_s = 50_000_000,
            read_rate,
            0.49..=0.52,
        ),
        knob("link.lanes", slow_link, |c| c.link.lanes = 32, read_latency, 1.001..=1.02),
        knob(
            "link.max_payload",
            slow_link,
            |c| c.link.max_payload_bytes = 512,
            read_rate,
            1.12..=1.18,
        ),
        knob(
            "link.packet_overhead",
            slow_link,
            |c| c.link.packet_overhead_bytes = 0,
            read_rate,
            1.20..=1.26,
        ),
        knob(
            "link.submission_entry",
            slow_link,
            |c| c.link.submission_entry_bytes = 128,
            read_latency,
            1.001..=1.01,
        ),
        knob(
            "link.fetch_prp_lists",
            slow_link,
            |c| c.link.fetch_prp_lists = false,
            long_read_latency,
            0.99..=0.9999,
        ),
        knob("link.interrupt", nothing, |c| c.link.interrupt = us(57), read_latency, 1.9..=2.1),
        knob(
            "link.stream_data",
            slow_link,
            |c| c.link.stream_data = false,
            long_read_latency,
            1.005..=1.2,
        ),
        knob(
            "link.truncate_ns",
            |c| c.link.bytes_per_s = 1_300_000_000,
            |c| c.link.truncate_ns = true,
            read_latency,
            0.999..=0.99999,
        ),
        // Queues.
        knob("queues.fetch_size", nothing, |c| c.queues.fetch_size = 1, read_rate, 0.1..=0.3),
        knob("queues.fetch_size 4", nothing, |c| c.queues.fetch_size = 4, read_rate, 0.4..=0.8),
        knob("queues.command_slots", nothing, |c| c.queues.command_slots = 1, read_rate, 0.1..=0.3),
        knob(
            "queues.arbitration_burst",
            slow_link,
            |c| c.queues.arbitration_burst = 16,
            read_rate,
            1.0001..=1.1,
        ),
        // Firmware.
        knob("firmware.read", nothing, |c| c.firmware.read = us(57), read_latency, 1.9..=2.1),
        knob("firmware.write", nothing, |c| c.firmware.write = us(500), write_latency, 1.9..=2.1),
        knob("firmware.trim", nothing, |c| c.firmware.trim = us(1), trim_latency, 10.0..=30.0),
        knob("firmware.flush", nothing, |c| c.firmware.flush = us(1), flush_latency, 10.0..=30.0),
        knob(
            "firmware.cores",
            |c| c.firmware.read = us(100),
            |c| c.firmware.cores = 3,
            read_rate,
            2.9..=3.01,
        ),
        // Cache.
        knob("cache", nothing, with_cache, write_latency, 0.005..=0.02),
        knob(
            "cache.size",
            with_cache,
            |c| edit_cache(c, |cache| cache.bytes = 64 << 10),
            burst_latency,
            5.0..=1000.0,
        ),
        knob(
            "cache.dram.t_rcd",
            with_cache,
            |c| edit_cache(c, |cache| cache.dram.t_rcd = us(5)),
            cached_read_latency,
            2.5..=6.0,
        ),
        knob(
            "cache.dram.t_cl",
            with_cache,
            |c| edit_cache(c, |cache| cache.dram.t_cl = us(5)),
            cached_read_latency,
            2.5..=6.0,
        ),
        knob(
            "cache.dram.t_rp",
            |c| {
                with_cache(c);
                edit_cache(c, |cache| cache.dram.row_bytes = 1024);
            },
            |c| edit_cache(c, |cache| cache.dram.t_rp = us(1)),
            cached_read_latency,
            2.0..=4.0,
        ),
        knob(
            "cache.dram.row",
            |c| {
                with_cache(c);
                edit_cache(c, |cache| cache.dram.t_rcd = us(1));
            },
            |c| edit_cache(c, |cache| cache.dram.row_bytes = 1024),
            cached_read_latency,
            1.5..=3.0,
        ),
        knob(
            "cache.dram.rate",
            with_cache,
            |c| edit_cache(c, |cache| cache.dram.rate_mts = 100),
            cached_read_latency,
            2.5..=6.0,
        ),
        knob(
            "cache.dram.width_bits",
            with_cache,
            |c| edit_cache(c, |cache| cache.dram.width_bytes = 1),
            cached_read_latency,
            1.8..=4.0,
        ),
        knob(
            "cache.mode both",
            with_cache,
            |c| edit_cache(c, |cache| cache.mode = CacheMode::Both),
            second_read_latency,
            0.01..=0.1,
        ),
        knob(
            "cache.mode read",
            with_cache,
            |c| edit_cache(c, |cache| cache.mode = CacheMode::Read),
            write_latency,
            50.0..=300.0,
        ),
        knob(
            "cache.sharing per flow",
            |c| c.cache = Some(DataCache { bytes: 128 << 10, ..cache() }),
            |c| edit_cache(c, |cache| cache.sharing = CacheSharing::PerFlow),
            |c| light_writes(c, false),
            0.0001..=0.05,
        ),
        knob(
            "cache.sharing per namespace",
            |c| {
                two_namespaces(c);
                c.cache = Some(DataCache { bytes: 128 << 10, ..cache() });
            },
            |c| edit_cache(c, |cache| cache.sharing = CacheSharing::PerNamespace),
            |c| light_writes(c, true),
            0.0001..=0.05,
        ),
        knob(
            "cache.power_loss_protection",
            with_cache,
            |c| edit_cache(c, |cache| cache.power_loss_protection = true),
            |c| latency(&Host::new(c).run_one(Operation::WriteThrough, 0, 16)),
            0.005..=0.02,
        ),
        knob(
            "namespaces.caching",
            with_cache,
            |c| c.namespaces[0].caching = Caching::Only(None),
            write_latency,
            50.0..=300.0,
        ),
        knob(
            "cache.dram.burst_length",
            |c| {
                with_cache(c);
                edit_cache(c, |cache| {
                    (cache.dram.width_bytes, cache.dram.rate_mts) = (64, 10);
                    cache.dram.burst_length = 1;
                });
            },
            |c| edit_cache(c, |cache| cache.dram.burst_length = 64),
            |c| {
                let mut host = Host::new(c);
                host.run_one(Operation::Write, 0, 8);
                latency(&host.run_one(Operation::Read, 0, 1))
            },
            // 64 transfers of 100 ns in place of 8.
            5.0..=7.0,
        ),
        knob(
            "cache.dram.rows",
            |c| {
                with_cache(c);
                edit_cache(c, |cache| cache.dram.t_rcd = us(5));
            },
            |c| edit_cache(c, |cache| cache.dram.rows = RowPolicy::Open { banks: 8 }),
            cached_read_latency,
            0.1..=0.4,
        ),
        knob(
            "cache.dram.banks",
            |c| {
                with_cache(c);
                edit_cache(c, |cache| {
                    cache.write_back = WriteBack::Lru { high: 0.9 };
                    cache.dram.rows = RowPolicy::Open { banks: 1 };
                    cache.dram.t_rp = us(5);
                });
            },
            |c| edit_cache(c, |cache| cache.dram.rows = RowPolicy::Open { banks: 2 }),
            alternating_read_latency,
            0.1..=0.4,
        ),
        knob(
            "cache.dram.traffic",
            |c| {
                with_cache(c);
                edit_cache(c, |cache| cache.dram.rate_mts = 10);
            },
            |c| edit_cache(c, |cache| cache.dram.traffic = DramTraffic::All),
            striped_writes,
            0.45..=0.6,
        ),
        knob(
            "cache.write_back",
            with_cache,
            |c| edit_cache(c, |cache| cache.write_back = WriteBack::Lru { high: 0.9 }),
            hot_programs,
            0.2..=0.4,
        ),
        knob(
            "cache.write_back_max",
            with_cache,
            |c| edit_cache(c, |cache| cache.write_back_max = Some(16 << 10)),
            |c| {
                let mut host = Host::new(c);
                let burst = host.closed_loop(16, 16, |n| (Operation::Write, n as u64 * 8, 8));
                burst.iter().map(latency).sum()
            },
            10.0..=500.0,
        ),
        knob(
            "cache.high",
            |c| {
                with_cache(c);
                edit_cache(c, |cache| cache.write_back = WriteBack::Lru { high: 0.01 });
            },
            |c| edit_cache(c, |cache| cache.write_back = WriteBack::Lru { high: 0.9 }),
            hot_programs,
            0.2..=0.4,
        ),
        // Mapping.
        knob(
            "mapping.unit",
            nothing,
            // Writes of 4 KiB are parts of it.
            |c| c.mapping.unit_bytes = 8192,
            amplification,
            1.2..=1.7,
        ),
        knob("mapping.table", nothing, |c| table(c, |_| ()), miss_latency, 1.8..=2.0),
        knob(
            "mapping.unmapped_reads",
            nothing,
            |c| c.mapping.unmapped_reads = UnmappedReads::Allocate,
            |c| latency(&Host::new(c).run_one(Operation::Read, 0, 8)),
            20.0..=60.0,
        ),
        knob(
            "mapping.cmt.size",
            |c| table(c, |_| ()),
            |c| edit_table(c, |table| table.bytes = 1 << 20),
            mapping_reads,
            0.1..=0.9,
        ),
        knob(
            "mapping.cached.granularity",
            |c| table(c, |table| table.bytes = 16384),
            |c| edit_table(c, |table| table.granularity = CmtGranularity::Page),
            mapping_reads,
            0.0..=0.9,
        ),
        knob(
            "mapping.cmt.entry",
            |c| table(c, |_| ()),
            |c| edit_table(c, |table| table.entry_bytes = Some(1024)),
            mapping_reads,
            1.05..=3.0,
        ),
        knob(
            "mapping.cmt.translation_entry",
            |c| table(c, |table| table.granularity = CmtGranularity::Page),
            |c| edit_table(c, |table| table.translation_entry_bytes = Some(64)),
            mapping_reads,
            1.1..=100.0,
        ),
        knob(
            "mapping.cmt.load",
            |c| table(c, |_| ()),
            |c| edit_table(c, |table| table.load_bytes = 8192),
            miss_latency,
            1.05..=1.2,
        ),
        knob(
            "mapping.cached.write_back",
            |c| table(c, |_| ()),
            |c| edit_table(c, |table| table.write_back = false),
            mapping_programs,
            0.0..=0.1,
        ),
        knob(
            "mapping.cached.sharing private",
            |c| {
                two_namespaces(c);
                table(c, |table| table.entry_bytes = Some(100));
            },
            |c| edit_table(c, |table| table.sharing = CmtSharing::Private),
            neighbour_misses,
            0.0..=0.8,
        ),
        knob(
            "mapping.cached.sharing partitioned",
            |c| {
                two_namespaces(c);
                table(c, |table| table.entry_bytes = Some(100));
            },
            |c| edit_table(c, |table| table.sharing = CmtSharing::Partitioned),
            neighbour_misses,
            0.0..=0.99,
        ),
        // Placement.
        knob(
            "plane_order",
            nothing,
            |c| c.plane_order = planes_first(),
            |c| latency(&filled(c).run_one(Operation::Read, 0, 32)),
            1.05..=1.3,
        ),
        knob(
            "placement striped",
            nothing,
            |c| c.placement = Placement::Striped,
            one_plane_writes,
            3.5..=8.5,
        ),
        knob(
            "placement least-loaded",
            |c| c.faults = vec![Fault::SlowDie { die: 0, factor: 4.0 }],
            |c| c.placement = Placement::LeastLoaded,
            striped_writes,
            1.3..=4.0,
        ),
        knob(
            "over_provisioning",
            nothing,
            |c| c.over_provisioning = 0.45,
            amplification,
            0.4..=0.8,
        ),
        // Collection.
        knob(
            "gc.victim",
            nothing,
            |c| c.gc.victim = VictimPolicy::DChoices { d: 1 },
            amplification,
            1.1..=3.0,
        ),
        knob(
            "gc.unit",
            |c| (c.placement, c.geometry.pages_per_block) = (Placement::Striped, 8),
            |c| c.gc.unit = CollectionUnit::Superblock,
            amplification,
            1.02..=2.0,
        ),
        knob(
            "gc.d",
            |c| c.gc.victim = VictimPolicy::DChoices { d: 2 },
            |c| c.gc.victim = VictimPolicy::DChoices { d: 8 },
            amplification,
            0.5..=0.97,
        ),
        knob(
            "gc.invalid_pages",
            |c| c.gc.victim = VictimPolicy::RandomP { pages: 1 },
            |c| c.gc.victim = VictimPolicy::RandomP { pages: 4 },
            amplification,
            0.5..=0.97,
        ),
        knob(
            "gc.victim random++",
            |c| c.gc.victim = VictimPolicy::Random,
            |c| c.gc.victim = VictimPolicy::RandomPlusPlus,
            amplification,
            0.3..=0.9,
        ),
        knob(
            "gc.victim fifo",
            |c| c.gc.victim = VictimPolicy::Random,
            |c| c.gc.victim = VictimPolicy::Fifo,
            amplification,
            0.3..=0.9,
        ),
        knob(
            "gc.victim cost-benefit",
            nothing,
            |c| c.gc.victim = VictimPolicy::CostBenefit,
            skewed_amplification,
            0.5..=0.97,
        ),
        knob("gc.start", no_free, |c| c.gc.start = 0.2, amplification, 1.015..=3.0),
        knob(
            "gc.urgent",
            |c| (c.gc.start, c.gc.urgent) = (0.2, 0.2),
            |c| c.gc.urgent = 0.0,
            mean_read,
            0.3..=0.97,
        ),
        knob("gc.preemptible", nothing, |c| c.gc.preemptible = false, mean_read, 1.1..=5.0),
        knob("gc.copyback", nothing, |c| c.gc.copyback = true, moved_over_channels, 0.1..=0.9),
        knob(
            "gc.paced",
            |c| {
                (c.gc.start, c.gc.urgent) = (0.08, 0.04);
                (c.geometry.planes_per_die, c.geometry.blocks_per_plane) = (1, 64);
            },
            |c| c.gc.paced = true,
            longest_write,
            0.1..=0.9,
        ),
        knob("gc.reserve_blocks", no_free, |c| c.gc.reserve_blocks = 4, amplification, 1.015..=3.0),
        knob(
            "gc.write_frontiers",
            nothing,
            |c| c.gc.frontiers = WriteFrontiers::One,
            amplification,
            0.5..=0.99,
        ),
        knob(
            "gc.frontiers hot-cold",
            nothing,
            |c| c.gc.frontiers = hot_cold(|_| ()),
            skewed_amplification,
            0.5..=0.97,
        ),
        knob(
            "gc.frontiers.hot.counters",
            |c| c.gc.frontiers = hot_cold(|_| ()),
            |c| c.gc.frontiers = hot_cold(|hot| hot.counters = Some(64)),
            skewed_amplification,
            1.03..=2.0,
        ),
        knob(
            "gc.frontiers.hot.decay",
            |c| c.gc.frontiers = hot_cold(|_| ()),
            |c| c.gc.frontiers = hot_cold(|hot| hot.decay = Some(400)),
            skewed_amplification,
            1.03..=2.0,
        ),
        knob(
            "gc.frontiers.hot.threshold",
            |c| c.gc.frontiers = hot_cold(|_| ()),
            |c| c.gc.frontiers = hot_cold(|hot| hot.threshold = 15),
            skewed_amplification,
            1.03..=2.0,
        ),
        knob(
            "gc.idle_after",
            nothing,
            |c| c.gc.idle_after = Some(us(10)),
            idle_erases,
            1.01..=1000.0,
        ),
        knob(
            "gc.idle_target",
            |c| c.gc.idle_after = Some(us(10)),
            |c| c.gc.idle_target = 0.15,
            idle_erases,
            0.1..=0.99,
        ),
        // Scheduling.
        knob(
            "scheduler.die_interleaving",
            |c| c.geometry.dies_per_chip = 2,
            |c| c.scheduler.die_interleaving = false,
            read_rate,
            0.5..=0.7,
        ),
        knob(
            "scheduler.multi_plane",
            |c| c.plane_order = planes_first(),
            |c| c.scheduler.multi_plane = false,
            long_write_latency,
            1.8..=2.0,
        ),
        knob(
            "scheduler.multi_plane_window",
            nothing,
            |c| c.scheduler.multi_plane_window = 0,
            read_rate,
            0.5..=0.999,
        ),
        knob(
            "scheduler.priority_classes",
            nothing,
            |c| c.scheduler.priority_classes = true,
            urgent_latency,
            0.05..=0.7,
        ),
        knob(
            "namespaces.planes",
            nothing,
            |c| c.namespaces[0].channels = vec![0],
            read_rate,
            0.45..=0.6,
        ),
        knob(
            "namespaces.chips",
            nothing,
            |c| c.namespaces[0].chips = vec![0],
            read_rate,
            0.45..=0.7,
        ),
        knob(
            "namespaces.units",
            nothing,
            |c| c.namespaces[0].units = Some(1000),
            amplification,
            0.1..=0.8,
        ),
        // Faults.
        knob(
            "faults.slow_die",
            nothing,
            |c| c.faults = vec![Fault::SlowDie { die: 0, factor: 2.0 }],
            read_latency,
            1.8..=1.9,
        ),
    ]
}

fn planes_first() -> PlaneOrder {
    PlaneOrder([Dimension::Plane, Dimension::Channel, Dimension::Chip, Dimension::Die])
}

fn two_namespaces(c: &mut Config) {
    c.namespaces = vec![Namespace::whole_drive(), Namespace::whole_drive()];
}

/// Erases after writes and a long rest.
fn idle_erases(config: Config) -> f64 {
    let mut host = run_overwrites(config);
    host.finish();
    host.drive.counters().erases as f64
}

#[test]
fn every_knob_has_its_effect() {
    let mut wrong = vec![];
    for knob in knobs() {
        let base = small_with(knob.base);
        let mut changed = base.clone();
        (knob.change)(&mut changed);
        let measured = std::panic::catch_unwind(|| {
            let before = (knob.measure)(base);
            (before, (knob.measure)(changed))
        });
        match measured {
            Ok((before, after)) if knob.factor.contains(&(after / before)) => {}
            Ok((before, after)) => wrong.push(format!(
                "{}: {before} became {after}, a factor of {:.4}, not of {:?}",
                knob.name,
                after / before,
                knob.factor
            )),
            Err(_) => wrong.push(format!("{}: panicked", knob.name)),
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn all_plane_orders_use_every_plane_and_spread_as_they_say() {
    use Dimension::{Channel, Chip, Die, Plane};
    let dimensions = [Channel, Chip, Die, Plane];
    for first in dimensions {
        for second in dimensions {
            for third in dimensions {
                let fourth = dimensions
                    .into_iter()
                    .find(|fourth| ![first, second, third].contains(fourth))
                    .expect("four are not three");
                let order = [first, second, third, fourth];
                if (1..4).any(|at| order[..at].contains(&order[at])) {
                    continue;
                }
                let config = small_with(|c| {
                    c.geometry.dies_per_chip = 2;
                    c.plane_order = PlaneOrder(order);
                    c.scheduler.multi_plane = true;
                });
                // Two consecutive pages: on two channels or dies they are read side by
                // side, on two planes together.
                let mut host = filled(config.clone());
                host.run_one(Operation::Read, 0, 32);
                let together = host.drive.counters().multi_plane_operations;
                assert_eq!(together, u64::from(first == Plane), "{order:?}");
                let busy = |of: &[Span]| of.iter().filter(|busy| !busy.is_zero()).count();
                let counters = host.drive.counters();
                let two = |is| if is { 2 } else { 1 };
                assert_eq!(busy(&counters.channel_busy), two(first == Channel), "{order:?}");
                assert_eq!(busy(&counters.die_busy), two(first != Plane), "{order:?}");
                // The first two dimensions: four pages.
                let mut host = filled(config.clone());
                host.run_one(Operation::Read, 0, 64);
                let channels = two([first, second].contains(&Channel));
                assert_eq!(busy(&host.drive.counters().channel_busy), channels, "{order:?}");
                // All of them: every die.
                let mut host = filled(config);
                host.run_one(Operation::Read, 0, 256);
                assert_eq!(busy(&host.drive.counters().die_busy), 8, "{order:?}");
                assert_eq!(host.drive.counters().flash_reads, 16, "{order:?}");
            }
        }
    }
}

#[test]
fn the_seed_changes_random_choices_only() {
    let run = |seed| {
        let config = small_with(|c| {
            c.gc.victim = VictimPolicy::DChoices { d: 2 };
            c.seed = seed;
        });
        run_overwrites(config).drive.state_hash()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn each_kind_of_fault_shows() {
    let rate = |operation, rate| Fault::Media { operation, extent: FaultExtent::Rate(rate) };
    let with = |fault| small_with(|c| c.faults = vec![fault]);
    // Reads fail at their rate.
    let mut host = filled(with(rate(MediaOperation::Read, 0.2)));
    let done = host.closed_loop(8, 2000, |n| (Operation::Read, n as u64 % 500 * 8, 8));
    let failed = done.iter().filter(|done| done.status == Status::UnrecoveredReadError).count();
    assert!((300..500).contains(&failed), "{failed} of 2000 failed");
    // And by address.
    let extent = FaultExtent::Units { namespace: 1, first: 3, last: 4 };
    let mut host = filled(with(Fault::Media { operation: MediaOperation::Read, extent }));
    let status = |host: &mut Host, unit: u64| host.run_one(Operation::Read, unit * 8, 8).status;
    // Pages of two units fail as a whole.
    let good: Vec<_> = (0..8).map(|unit| status(&mut host, unit) == Status::Success).collect();
    assert_eq!(good, [true, true, false, false, false, false, true, true]);
    // A program that fails is repeated: twice the time.
    let fault = rate(MediaOperation::Program, 1.0);
    let factor = write_latency(with(fault)) / write_latency(small());
    assert!((1.9..2.1).contains(&factor), "{factor}");
    // Erases that fail retire blocks.
    let host = run_overwrites(with(rate(MediaOperation::Erase, 0.002)));
    let counters = host.drive.counters();
    assert!(counters.retired_blocks > 0 && counters.retired_blocks == counters.media_errors);
    // A dead die fails what is asked of it, and only that.
    let at = mynah_stamp::Time::ZERO;
    let mut host = filled(with(Fault::DeadDie { die: 0, at }));
    assert_eq!(host.run_one(Operation::Read, 0, 8).status, Status::UnrecoveredReadError);
    assert_eq!(host.run_one(Operation::Write, 0, 8).status, Status::WriteFault);
    assert_eq!(host.run_one(Operation::Read, 16, 8).status, Status::Success);
    assert_eq!(host.run_one(Operation::Write, 16, 8).status, Status::Success);
    // A power cut lasts as long as it says.
    let recovery = us(40);
    let at = mynah_stamp::Time::from_ns(5_000);
    let mut host = Host::new(with(Fault::PowerCut { at, recovery }));
    host.send(Operation::Write, 0, 8);
    host.advance_to(at);
    assert!(host.drive.has_lost_power());
    host.forget();
    host.advance_to(mynah_stamp::Time::from_ps((at + recovery).as_ps() - 1));
    assert!(host.drive.has_lost_power());
    host.advance_to(at + recovery);
    assert!(!host.drive.has_lost_power());
}

#[test]
fn namespaces_on_their_own_channels_do_not_meet() {
    let run = |neighbour: bool, apart: bool| {
        let mut host = Host::new(small_with(|c| {
            two_namespaces(c);
            if apart {
                c.namespaces[0].channels = vec![0];
                c.namespaces[1].channels = vec![1];
            }
        }));
        host.create(memory_queue(2));
        for n in 0..40 {
            let mut request = host.request(Operation::Write, n * 16, 16);
            host.submit(QUEUE, request);
            if neighbour {
                request = host.request(Operation::Write, n * 16, 16);
                request.namespace = NamespaceId(2);
                host.submit(QueueId(2), request);
            }
        }
        let done = host.finish();
        done.iter().filter(|done| done.queue == QUEUE).map(|done| done.at).max().expect("some")
    };
    let slowdown = |apart| run(true, apart).as_secs_f64() / run(false, apart).as_secs_f64();
    assert!(slowdown(false) > 1.5, "{}", slowdown(false));
    assert!(slowdown(true) < 1.01, "{}", slowdown(true));
}
