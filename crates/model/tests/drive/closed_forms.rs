//! The latency of a command that is alone in the drive is the exact sum of its parts, for
//! every kind of command. The sums are written out here from the data sheet quantities, not
//! taken from the drive.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::{Span, Stage};

fn ns(ns: u64) -> Span {
    Span::from_ns(ns)
}

fn us(us: u64) -> Span {
    Span::from_us(us)
}

// The link of `small`: 4 bytes a nanosecond, 128-byte payloads, 28 bytes of overhead.
fn packets(bytes: u64) -> Span {
    ns((bytes + bytes.div_ceil(128) * 28).div_ceil(4))
}

const DOORBELL: u64 = 8;
const READ_REQUEST: u64 = 8;
const SUBMISSION_ENTRY: u64 = 23;
const COMPLETION_ENTRY: u64 = 11;

/// Doorbell, request for the entry, entry.
fn arrival() -> Span {
    ns(DOORBELL + READ_REQUEST + SUBMISSION_ENTRY)
}

fn list(pages: u64) -> Span {
    ns(READ_REQUEST) + packets((pages - 1) * 8)
}

fn data_in(bytes: u64) -> Span {
    ns(READ_REQUEST) + packets(bytes)
}

fn completion() -> Span {
    ns(COMPLETION_ENTRY)
}

// The bus of `small`: a byte every 1.25 ns.
fn bus(bytes: u64) -> Span {
    Span::from_ps(bytes * 1250)
}

fn read_command(planes: u64) -> Span {
    ns(20 + 6 * 25 * planes + 500 * (planes - 1) + 100 + 20)
}

fn program_command(planes: u64) -> Span {
    ns(20 + (planes - 1) * (5 * 25 + 70 + 6 + 15 + 100 + 500) + 6 * 25 + 70 + 6 + 15 + 100)
}

/// A page's program, data included.
fn program(planes: u64, page: u64) -> Span {
    program_command(planes) + bus(page).times(planes) + us(500)
}

fn sum(parts: &[Span]) -> Span {
    parts.iter().copied().sum()
}

#[track_caller]
fn assert_latency(done: &Completion, parts: &[Span]) {
    assert_eq!(done.status, Status::Success);
    assert_eq!(done.at.since(done.rung), sum(parts), "stages: {:?}", stages(done));
}

fn stages(done: &Completion) -> Vec<(Stage, Span)> {
    done.stages.iter().filter(|(_, span)| !span.is_zero()).collect()
}

fn filled(config: Config) -> Host {
    let mut host = Host::new(config);
    let sectors = host.drive.namespace_sectors(NAMESPACE).expect("a namespace");
    fill_sectors(&mut host, sectors);
    host
}

/// Sectors of one page, and so the distance of pages on neighbouring channels.
const PAGE: u64 = 16;
/// Planes of `small`: the same plane comes round after so many pages.
const PLANES: u64 = 8;

#[test]
fn a_read_of_each_page_type() {
    for (cell, expected) in [
        (CellType::Slc, [50; 16]),
        (CellType::Mlc, [50, 70, 50, 70, 50, 70, 50, 70, 50, 70, 50, 70, 50, 70, 50, 70]),
        (CellType::Tlc, [50, 50, 50, 50, 50, 50, 60, 60, 50, 50, 60, 60, 70, 70, 50, 50]),
    ] {
        let mut host = filled(small_with(|c| c.flash.cell = cell));
        for (page, expected) in expected.into_iter().enumerate() {
            let done = host.run_one(Operation::Read, page as u64 * PAGE * PLANES, 8);
            assert_latency(
                &done,
                &[arrival(), read_command(1), us(expected), bus(4096), packets(4096), completion()],
            );
        }
    }
}

#[test]
fn a_read_names_its_stages() {
    let mut host = filled(small_with(|c| {
        c.firmware.read = us(2);
        c.link.interrupt = ns(900);
        c.flash.read_ready_delay = us(3);
    }));
    let done = host.run_one(Operation::Read, 0, 8);
    assert_eq!(
        stages(&done),
        [
            (Stage::SubmissionQueue, ns(DOORBELL)),
            (Stage::CommandFetch, ns(READ_REQUEST + SUBMISSION_ENTRY)),
            (Stage::Firmware, us(2)),
            (Stage::FlashCommand, read_command(1)),
            (Stage::FlashArray, us(53)),
            (Stage::FlashTransfer, bus(4096)),
            (Stage::DataOut, packets(4096)),
            (Stage::Completion, ns(COMPLETION_ENTRY + 900)),
        ]
    );
}

#[test]
fn reads_of_parts_of_pages_and_of_several() {
    let mut host = filled(small());
    // One sector; two units of one page; the end of one unit and the start of the next.
    for (sector, sectors) in [(3, 1), (0, 16), (6, 4)] {
        let done = host.run_one(Operation::Read, sector, sectors);
        let bytes = u64::from(sectors) * 512;
        let flash = [read_command(1), us(50), bus(bytes)];
        assert_latency(&done, &[arrival(), sum(&flash), packets(bytes), completion()]);
    }
    // Two pages on two channels: the second page's data goes to the host after the first's.
    let done = host.run_one(Operation::Read, 0, 32);
    let flash = [read_command(1), us(50), bus(8192)];
    assert_latency(
        &done,
        &[arrival(), list(4), sum(&flash), packets(8192), packets(8192), completion()],
    );
}

#[test]
fn planes_read_together_and_transfer_in_turn() {
    // Two pages on the two planes of one die.
    let order = PlaneOrder([Dimension::Plane, Dimension::Channel, Dimension::Chip, Dimension::Die]);
    let parts = |commands: Span| {
        // The first page crosses the link while the second crosses the bus.
        [arrival(), list(4), commands, us(50), bus(8192).times(2), packets(8192), completion()]
    };
    let mut host = filled(small_with(|c| c.plane_order = order));
    assert_latency(&host.run_one(Operation::Read, 0, 32), &parts(read_command(2)));
    assert_eq!(host.drive.counters().multi_plane_operations, 1);
    // Without multi-plane operations the second read starts when the first has left.
    let mut host = filled(small_with(|c| {
        c.plane_order = order;
        c.scheduler.multi_plane = false;
    }));
    let one_after_the_other = read_command(1).times(2) + us(50);
    assert_latency(&host.run_one(Operation::Read, 0, 32), &parts(one_after_the_other));
}

#[test]
fn data_all_at_once_or_page_by_page() {
    let mut host = filled(small_with(|c| c.link.stream_data = false));
    let done = host.run_one(Operation::Read, 0, 32);
    let flash = [read_command(1), us(50), bus(8192)];
    assert_latency(&done, &[arrival(), list(4), sum(&flash), packets(16384), completion()]);
}

#[test]
fn a_read_of_nothing() {
    let mut host = Host::new(small());
    let done = host.run_one(Operation::Read, 0, 8);
    assert_latency(&done, &[arrival(), packets(4096), completion()]);
    // As MQSim: a page is assigned and read.
    let mut host = Host::new(small_with(|c| c.mapping.unmapped_reads = UnmappedReads::Allocate));
    let done = host.run_one(Operation::Read, 0, 8);
    let flash = [read_command(1), us(50), bus(4096)];
    assert_latency(&done, &[arrival(), sum(&flash), packets(4096), completion()]);
}

#[test]
fn a_write_without_a_cache() {
    let mut host = Host::new(small());
    // A unit on its own takes a whole page.
    let done = host.run_one(Operation::Write, 0, 8);
    assert_latency(&done, &[arrival(), data_in(4096), program(1, 8192), completion()]);
    assert_eq!(host.drive.counters().padded_units, 1);
    let done = host.run_one(Operation::Write, PAGE, 16);
    assert_latency(&done, &[arrival(), data_in(8192), program(1, 8192), completion()]);
    // Overwriting a part reads the rest first: seven of the unit's eight sectors.
    let merge = [read_command(1), us(50), bus(7 * 512)];
    let done = host.run_one(Operation::Write, 2, 1);
    let parts = [arrival(), data_in(512), sum(&merge), program(1, 8192), completion()];
    assert_latency(&done, &parts);
    assert_eq!(host.drive.counters().merge_reads, 1);
    // A part of what was never written needs no read.
    let done = host.run_one(Operation::Write, 2 * PAGE, 1);
    assert_latency(&done, &[arrival(), data_in(512), program(1, 8192), completion()]);
}

#[test]
fn both_planes_are_programmed_together() {
    let order = PlaneOrder([Dimension::Plane, Dimension::Channel, Dimension::Chip, Dimension::Die]);
    let mut host = Host::new(small_with(|c| c.plane_order = order));
    let done = host.run_one(Operation::Write, 0, 32);
    assert_latency(&done, &[arrival(), list(4), data_in(16384), program(2, 8192), completion()]);
}

fn dram(rows: u64, bytes: u64) -> Span {
    ns(27 * rows + 15 * (rows - 1)) + Span::from_ps(bytes / 8 * 625)
}

#[test]
fn writes_and_reads_of_the_cache() {
    let mut host = Host::new(small_with(|c| c.cache = Some(cache())));
    let done = host.run_one(Operation::Write, 0, 8);
    assert_latency(&done, &[arrival(), data_in(4096), dram(1, 4096), completion()]);
    let done = host.run_one(Operation::Read, 0, 8);
    assert_latency(&done, &[arrival(), dram(1, 4096), packets(4096), completion()]);
    // 16 KiB touch two rows of the DRAM, and need a PRP list.
    let done = host.run_one(Operation::Write, 64, 32);
    let parts = [arrival(), list(4), data_in(16384), dram(2, 16384), completion()];
    assert_latency(&done, &parts);
}

#[test]
fn a_write_through_the_cache_waits_for_the_flash() {
    let mut host = Host::new(small_with(|c| c.cache = Some(cache())));
    let done = host.run_one(Operation::WriteThrough, 0, 8);
    assert_latency(&done, &[arrival(), data_in(4096), program(1, 8192), completion()]);
}

#[test]
fn flushes() {
    let mut host = Host::new(small_with(|c| {
        c.cache = Some(cache());
        c.firmware.flush = us(1);
    }));
    let done = host.run_one(Operation::Flush, 0, 0);
    assert_latency(&done, &[arrival(), us(1), completion()]);
    // A lone unit waits in the cache until the flush comes.
    host.run_one(Operation::Write, 0, 8);
    let done = host.run_one(Operation::Flush, 0, 0);
    assert_latency(&done, &[arrival(), us(1), program(1, 8192), completion()]);
    let done = host.run_one(Operation::Flush, 0, 0);
    assert_latency(&done, &[arrival(), us(1), completion()]);
}

#[test]
fn a_trim() {
    let mut host = filled(small_with(|c| c.firmware.trim = us(4)));
    let done = host.run_one(Operation::Trim, 0, 20);
    assert_latency(&done, &[arrival(), us(4), completion()]);
    // Of 20 sectors only the two whole units are gone.
    let held: Vec<_> = (0..4).map(|unit| host.drive.holds_data(NAMESPACE, unit)).collect();
    assert_eq!(held, [false, false, true, true]);
}

#[test]
fn a_fetched_queue_has_no_link() {
    let mut host = Host::without_queues(small(), Manner::default());
    host.create(fetched_queue(1));
    let done = host.run_one(Operation::Write, 0, 16);
    assert_latency(&done, &[program(1, 8192)]);
    let done = host.run_one(Operation::Read, 0, 16);
    assert_latency(&done, &[read_command(1), us(50), bus(8192)]);
}

#[test]
fn a_table_miss_reads_flash_first() {
    let mut host = Host::new(small_with(|c| {
        c.mapping.table = MappingTable::Cached(cached_table(8192));
    }));
    fill_sectors(&mut host, PAGE * 1024);
    let flash = [read_command(1), us(50), bus(4096)];
    let load = [read_command(1), us(50), bus(512)];
    let done = host.run_one(Operation::Read, 0, 8);
    let parts = [arrival(), sum(&load), sum(&flash), packets(4096), completion()];
    assert_latency(&done, &parts);
    assert_eq!(done.stages.get(Stage::Mapping), sum(&load));
    // The entry is known now.
    let done = host.run_one(Operation::Read, 0, 8);
    assert_latency(&done, &[arrival(), sum(&flash), packets(4096), completion()]);
}

#[test]
fn the_bus_at_every_rate() {
    for rate in [200, 400, 533, 800, 1200, 1600, 2000, 2400, 3200, 3600, 4800] {
        for width in [1, 2] {
            let mut host = filled(small_with(|c| {
                c.bus.rate_mts = rate;
                c.bus.width_bytes = width;
            }));
            let done = host.run_one(Operation::Read, 0, 16);
            let exact = (8192u64 * 1_000_000).div_ceil(u64::from(rate * width));
            assert_eq!(done.stages.get(Stage::FlashTransfer), Span::from_ps(exact), "{rate} MT/s");
        }
    }
    // As MQSim: two transfers in whole nanoseconds, so 533 MT/s runs at 2 ns for two.
    for (rate, expected) in [(200, 40_960), (333, 24_576), (533, 8192), (800, 8192)] {
        let mut host = filled(small_with(|c| {
            c.bus.rate_mts = rate;
            c.bus.rounding = BusRounding::TruncatedNs;
        }));
        let done = host.run_one(Operation::Read, 0, 16);
        assert_eq!(done.stages.get(Stage::FlashTransfer), ns(expected), "{rate} MT/s");
    }
}
