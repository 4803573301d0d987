//! Hybrid mapping: merges counted by hand, and what they cost beside page mapping.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::Span;

/// One plane of `blocks` blocks of `pages` pages, one unit each; all of the logical blocks
/// `logical` hold data.
fn host(blocks: u32, pages: u32, logical: u64, scheme: MappingScheme) -> Host {
    host_with(blocks, pages, logical, |c| c.mapping.scheme = scheme)
}

fn host_with(blocks: u32, pages: u32, logical: u64, change: impl FnOnce(&mut Config)) -> Host {
    let mut host = Host::new(small_with(|c| {
        c.geometry = plane_of(blocks, pages);
        c.namespaces[0].units = Some(logical * u64::from(pages));
        change(c);
    }));
    fill(&mut host);
    host
}

fn log(log_blocks: u32) -> MappingScheme {
    MappingScheme::Hybrid { log_blocks }
}

/// Writes pages one after the other, and lets merges come to their end.
fn write(host: &mut Host, pages: impl IntoIterator<Item = u64>) {
    for page in pages {
        host.run_one(Operation::Write, page * 8, 8);
        host.advance_to(host.now() + Span::from_ms(100));
        host.drive.check().expect("the invariants hold");
    }
}

/// Switch, partial and full merges, erases, pages that hosts wrote, and pages copied.
fn counted(host: &Host) -> [u64; 6] {
    let c = host.drive.counters();
    assert_eq!(c.gc_reads, c.gc_programs);
    assert_eq!(c.gc_units_moved, c.gc_programs);
    let merges = [c.switch_merges, c.partial_merges, c.full_merges];
    let [switch, partial, full] = merges;
    [switch, partial, full, c.erases, c.host_units_written, c.gc_programs]
}

/// Blocks of four pages, four logical blocks A to D, one log block for sequential writes (S)
/// and two for others (R1, R2).
#[test]
fn merges_are_those_of_a_trace_worked_by_hand() {
    for copyback in [false, true] {
        let mut host = host_with(16, 4, 4, |c| {
            c.mapping.scheme = log(3);
            c.gc.copyback = copyback;
        });
        trace_worked_by_hand(&mut host);
        let c = host.drive.counters();
        assert_eq!(c.copybacks, if copyback { 24 } else { 0 });
        // Over the channel went 29 pages of the host, commands, and without copyback what was
        // copied, out and in.
        let cycles = host.drive.config().bus.cycles;
        let read = cycles.t_cs + cycles.t_wc.times(6) + cycles.t_wb + cycles.t_rr;
        let strobes = cycles.t_adl + cycles.t_wpst + cycles.t_wpsth;
        let program = cycles.t_cs + cycles.t_wc.times(6) + strobes + cycles.t_wb;
        let erase = cycles.t_cs + cycles.t_wc.times(4) + cycles.t_wb;
        // 4 KiB at 800 MT/s.
        let pages = Span::from_ns(5120).times(if copyback { 29 } else { 29 + 24 + 24 });
        let commands = read.times(24) + program.times(29 + 24) + erase.times(12);
        assert_eq!(c.channel_busy[0], commands + pages);
    }
}

fn trace_worked_by_hand(host: &mut Host) {
    let (a, b, c, d) = (0, 4, 8, 12);
    // S: a0 a1 a2 a3. It becomes A's data block, and the old one is erased.
    write(host, [a, a + 1, a + 2, a + 3]);
    assert_eq!(counted(host), [1, 0, 0, 1, 4, 0]);
    // S: b0 b1; then c0 wants it: b2 and b3 are copied, B's old data block is erased.
    write(host, [b, b + 1, c]);
    assert_eq!(counted(host), [1, 1, 0, 2, 7, 2]);
    // R1: a1 b2 d3 a2. R2: b1 d1 a1 b2. S: c0 c1. Nothing is merged yet.
    write(host, [a + 1, b + 2, d + 3, a + 2, b + 1, d + 1, a + 1, b + 2, c + 1]);
    assert_eq!(counted(host), [1, 1, 0, 2, 16, 2]);
    // R1 has to make room: of it d3 and a2 are valid, so D and A are copied whole, and their
    // data blocks and R1 are erased. R3: d2.
    write(host, [d + 2]);
    assert_eq!(counted(host), [1, 1, 2, 5, 17, 10]);
    // c3 does not follow c1: C is merged with c2 and c3 copied, and c3 goes to R3.
    write(host, [c + 3]);
    assert_eq!(counted(host), [1, 2, 2, 6, 18, 12]);
    // S: d0 d1 d2. R3: d2 (void) c3 a3 a1.
    write(host, [d, d + 1, d + 2, a + 3, a + 1]);
    assert_eq!(counted(host), [1, 2, 2, 6, 23, 12]);
    // R2 makes room: b1 and b2 are valid, d1 and a1 are not: one full merge. R4: b3.
    write(host, [b + 3]);
    assert_eq!(counted(host), [1, 2, 3, 8, 24, 16]);
    // S: d0 d1 d2 d3: a switch.
    write(host, [d + 3]);
    assert_eq!(counted(host), [2, 2, 3, 9, 25, 16]);
    // R4: b3 b1 b2 c1. R3 makes room for a2: c3, a3 and a1 are valid. C and A are copied.
    write(host, [b + 1, b + 2, c + 1, a + 2]);
    assert_eq!(counted(host), [2, 2, 5, 12, 29, 24]);
    for page in 0..16 {
        assert!(host.drive.holds_data(NAMESPACE, page));
    }
}

/// What the log block for sequential writes holds of a logical block need not be copied when
/// another of its pages has to leave the log.
#[test]
fn a_victim_whose_logical_block_is_being_written_in_order_is_merged_with_that() {
    let mut host = host(16, 4, 4, log(2));
    // R1: 2 5 9 13. S: 0 1.
    write(&mut host, [2, 5, 9, 13, 0, 1]);
    assert_eq!(counted(&host), [0, 0, 0, 0, 6, 0]);
    // One partial merge (2 copied from the log, 3 from the data block) and three full ones.
    write(&mut host, [6]);
    assert_eq!(counted(&host), [0, 1, 3, 5, 7, 2 + 3 * 4]);
}

/// An empty drive: pages are written to their places as long as they come in order.
#[test]
fn first_writes_go_to_data_blocks() {
    let mut host = Host::new(small_with(|c| {
        c.mapping.unit_bytes = 8192;
        c.mapping.scheme = log(2);
        c.geometry.channels = 1;
        c.geometry.chips_per_channel = 1;
        c.geometry.planes_per_die = 1;
    }));
    let mut write = |pages: &[u64]| {
        for page in pages {
            host.run_one(Operation::Write, page * 16, 16);
        }
        host.advance_to(host.now() + Span::from_ms(200));
        host.drive.check().expect("the invariants hold");
        counted(&host)
    };
    // In order, with gaps, of several logical blocks of 16 pages in turn.
    assert_eq!(write(&[0, 16, 3, 17, 5, 18, 15]), [0, 0, 0, 0, 7, 0]);
    // What comes too late for that goes to the log, and is copied with the five pages that
    // there are: nothing is copied to the places of those that there are not.
    assert_eq!(write(&[4]), [0, 0, 0, 0, 8, 0]);
    let fifteen: Vec<u64> = (0..15).map(|n| 5 * 16 + 15 - n).collect();
    // (15 is written to the data block.)
    assert_eq!(write(&fifteen), [0, 0, 0, 0, 23, 0]);
    assert_eq!(write(&[5 * 16 + 7, 5 * 16 + 7]), [0, 0, 2, 3, 25, 5 + 15]);
}

/// Amplification of `writes` overwrites of a filled drive of 40 blocks of 16 pages, 24 of them
/// logical.
fn amplification(scheme: MappingScheme, next: impl FnMut(usize) -> u64) -> f64 {
    let mut next = next;
    let mut host = host(40, 16, 24, scheme);
    let mut write = |n| (Operation::Write, next(n) * 8, 8);
    host.closed_loop(4, 2000, &mut write);
    host.drive.restart_counters();
    host.closed_loop(4, 4000, &mut write);
    host.drive.check().expect("the invariants hold");
    host.drive.counters().write_amplification().expect("something was written")
}

#[test]
fn random_writes_cost_much_more_than_with_page_mapping_and_sequential_ones_nothing() {
    let random = |scheme| {
        let mut random = Random(5);
        amplification(scheme, move |_| random.below(24 * 16))
    };
    let page = random(MappingScheme::Page);
    let [short, long] = [4, 12].map(|blocks| random(log(blocks)));
    assert!(page < 1.6, "page mapping: {page}");
    assert!(short > 4.0 * page, "{short}, page mapping {page}");
    // More of a logical block is in a longer log when it is merged.
    assert!(long < 0.6 * short, "{long} with 12 log blocks, {short} with 4");
    let sequential = amplification(log(4), |n| n as u64 % (24 * 16));
    assert_eq!(sequential, 1.0);
}

/// While a plane merges its writes wait, and are told for what.
#[test]
fn writes_wait_for_merges_and_say_so() {
    use mynah_model::stats::{Holder, Resource};
    let mut host = host(16, 4, 4, log(2));
    // R: 1 2 3 5. Then 6 has to wait for two full merges.
    for page in [1, 2, 3, 5] {
        host.run_one(Operation::Write, page * 8, 8);
    }
    let quick = host.run_one(Operation::Read, 0, 8);
    let waited = host.run_one(Operation::Write, 6 * 8, 8);
    assert_eq!(host.drive.counters().full_merges, 2);
    let latency = waited.at.since(waited.rung);
    // Three erases of 3 ms, and 8 programs of 0.5 ms.
    let least = Span::from_ms(3 * 3 + 8 / 2);
    assert!(latency > least && latency < least + Span::from_ms(2), "{latency}");
    let blame = host.drive.blame();
    let of = |resource, holder| {
        let rows = blame.iter().filter(|row| row.resource == resource && row.holder == holder);
        rows.map(|row| row.wait).sum::<Span>()
    };
    let gc = Holder::GarbageCollection;
    assert!(
        of(Resource::Die, gc) + of(Resource::FreeBlock, gc) + of(Resource::Channel, gc) > least
    );
    assert!(quick.at.since(quick.rung) < Span::from_us(100));
}

/// Reads go between the copies of a merge that may be interrupted, and not otherwise.
#[test]
fn reads_wait_for_a_whole_merge_only_where_it_may_not_be_interrupted() {
    let slowest = |preemptible: bool| {
        let mut host = Host::new(small_with(|c| {
            c.mapping.unit_bytes = 8192;
            c.mapping.scheme = log(2);
            c.gc.preemptible = preemptible;
            c.geometry.channels = 1;
            c.geometry.chips_per_channel = 1;
            c.geometry.planes_per_die = 1;
        }));
        host.create(memory_queue(2));
        fill(&mut host);
        for n in 0..16 {
            host.run_one(Operation::Write, (n * 16 + 1) * 16, 16);
        }
        let write = host.request(Operation::Write, 9 * 16, 16);
        host.submit(QueueId(2), write);
        let mut slowest = Span::ZERO;
        while host.outstanding > 0 {
            let read = host.request(Operation::Read, 200 * 16, 16);
            host.submit(QUEUE, read);
            loop {
                let done = host.next().expect("it completes");
                if done.tag == read.tag {
                    slowest = slowest.max(done.at.since(done.rung));
                    break;
                }
            }
            if host.drive.counters().full_merges >= 4 {
                break;
            }
        }
        slowest
    };
    let (interrupted, whole) = (slowest(true), slowest(false));
    // An erase at most.
    assert!(interrupted < Span::from_us(3200), "{interrupted}");
    // Copies of 16 pages at least.
    assert!(whole > Span::from_ms(8), "{whole}");
}

#[test]
fn what_hybrid_mapping_excludes_is_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut config = small_with(|c| {
            c.mapping.unit_bytes = 8192;
            c.mapping.scheme = log(4);
        });
        config.check().expect("a valid drive");
        change(&mut config);
        config.check().expect_err("it is refused").key
    };
    assert_eq!(refused(|c| c.mapping.unit_bytes = 4096), "mapping.unit");
    assert_eq!(
        refused(|c| c.mapping.table = MappingTable::Cached(cached_table(1 << 20))),
        "mapping.table"
    );
    assert_eq!(
        refused(|c| c.mapping.unmapped_reads = UnmappedReads::Allocate),
        "mapping.unmapped_reads"
    );
    assert_eq!(refused(|c| c.placement = Placement::Striped), "allocation.placement");
    assert_eq!(refused(|c| c.gc.paced = true), "gc");
    assert_eq!(refused(|c| c.gc.idle_after = Some(Span::from_ms(1))), "gc");
    assert_eq!(refused(|c| c.wear.static_threshold = Some(5)), "wear.static_threshold");
    assert_eq!(refused(|c| c.flash.one_shot = true), "flash.one_shot");
    assert_eq!(refused(|c| c.mapping.scheme = log(1)), "mapping.log_blocks");
    assert_eq!(refused(|c| c.mapping.scheme = log(20)), "over_provisioning");
}

/// A drive that was put into the steady state amplifies as it was said to, from the first
/// write on.
#[test]
fn the_steady_state_is_the_one_that_writes_lead_to() {
    use mynah_model::precondition::Occupancy;
    let (pages, logical) = (32u64, 60u64);
    let units = pages * logical * 4;
    for hot in [1.0, 9.0] {
        let mut host = Host::new(small_with(|c| {
            c.geometry.planes_per_die = 1;
            c.geometry.blocks_per_plane = 80;
            c.geometry.pages_per_block = pages as u32;
            c.mapping.unit_bytes = 8192;
            c.mapping.scheme = log(9);
            c.namespaces[0].units = Some(units);
        }));
        let half = units / 2;
        let classes = vec![written_class(0, half, 1.0), written_class(half, half, hot)];
        let occupancy = [Occupancy { namespace: NAMESPACE, classes }];
        let done = host.drive.precondition(&occupancy).expect("a fresh drive");
        host.drive.check().expect("the invariants hold");
        assert_eq!(done.units, units);
        let expected = done.expected_waf.expect("it is written to");
        let mut random = Random(3);
        let mut write = |_| {
            let upper = random.chance(hot / (1.0 + hot));
            let unit = random.below(units / 2) + if upper { units / 2 } else { 0 };
            (Operation::Write, unit * 16, 16)
        };
        let mut amplified = || {
            host.drive.restart_counters();
            host.closed_loop(32, 6000, &mut write);
            host.drive.check().expect("the invariants hold");
            host.drive.counters().write_amplification().expect("something was written")
        };
        let (soon, later) = (amplified(), amplified());
        assert!(expected > 5.0, "{expected}");
        assert_close("soon", soon, expected, 0.03);
        assert_close("later", later, expected, 0.03);
    }
}

/// A page that cannot be programmed spoils the block that it was for: a log block for
/// sequential writes is copied instead of becoming a data block, and a copy is begun anew in
/// another block.
#[test]
fn a_failed_program_spoils_the_block_that_it_was_for() {
    [false, true].into_iter().for_each(a_program_fails);
}

fn a_program_fails(copyback: bool) {
    let third = FaultExtent::Units { namespace: 1, first: 2, last: 2 };
    let mut host = Host::new(small_with(|c| {
        c.geometry = Geometry {
            channels: 1,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 1,
            blocks_per_plane: 16,
            pages_per_block: 4,
            page_bytes: 4096,
            page_spare_bytes: 0,
        };
        c.mapping.scheme = log(3);
        c.gc.copyback = copyback;
        c.namespaces[0].units = Some(16);
        c.faults = vec![Fault::Media { operation: MediaOperation::Program, extent: third }];
    }));
    fill(&mut host);
    // S: 0 1, and 2 fails. A full merge; its copy of 2 fails, too, and that block is erased;
    // another succeeds, and S and the data block are erased. R1: 2 3.
    write(&mut host, [0, 1, 2, 3]);
    let c = host.drive.counters();
    assert_eq!((c.switch_merges, c.partial_merges, c.full_merges), (0, 0, 1));
    assert_eq!((c.erases, c.media_errors, c.retired_blocks), (3, 2, 0));
    // A page of a data block for which there is no more use does no harm to the block.
    write(&mut host, [4, 5, 6, 7]);
    assert_eq!(host.drive.counters().switch_merges, 1);
}
