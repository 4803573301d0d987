//! Data placement: that handles keep data apart, what that does to write amplification, how much room
//! reclaim units say they have, and that one handle is none.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::stats::Holder;
use mynah_model::steady::analytic::mean_field;
use mynah_stamp::Span;

const PLANES: u32 = 8;
const PAGES: u32 = 16;
const BLOCKS: u32 = 256;
const UNIT: u64 = (PLANES * PAGES) as u64;

/// Eight dies of a plane each, striped, with as many handles, `valid` of its blocks full.
fn drive(handles: u8, valid: f64, change: impl FnOnce(&mut Config, &mut DataPlacement)) -> Config {
    let mut config = one_plane(BLOCKS, PAGES, 8, valid);
    (config.geometry.channels, config.geometry.chips_per_channel) = (4, 2);
    keep_free(&mut config, 8, valid);
    (config.gc.unit, config.placement) = (CollectionUnit::Superblock, Placement::Striped);
    let mut placement = DataPlacement {
        handles,
        isolation: Isolation::Initial,
        victims: Victims::All,
        superblocks: 1,
    };
    change(&mut config, &mut placement);
    config.data_placement = Some(placement);
    config
}

/// Performs so many writes of a unit each, where `next` says which and by which handle.
fn write(host: &mut Host, depth: usize, count: usize, mut next: impl FnMut() -> (u16, u64)) {
    let mut left = count;
    while left > 0 || host.outstanding > 0 {
        while left > 0 && host.outstanding < depth {
            let (handle, unit) = next();
            let request = Request {
                placement: PlacementId(handle),
                ..host.request(Operation::Write, unit * 8, 8)
            };
            host.submit(QUEUE, request);
            left -= 1;
        }
        let done = host.next().expect("a deadlock: commands wait, nothing happens");
        assert_eq!(done.status, Status::Success);
    }
}

fn waf(host: &Host) -> f64 {
    host.drive.check().expect("the invariants hold");
    host.drive.counters().write_amplification().expect("written")
}

/// A handle for each of these shares of the units, to each of which go so many of the writes, at
/// random; write amplification at rest.
fn temperatures(config: Config, parts: &[(f64, f64)]) -> (Host, f64) {
    let mut host = Host::new(config);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(31);
    let mut first = 0;
    let ranges: Vec<(u64, u64)> = parts
        .iter()
        .map(|(share, _)| {
            let range = (first, (share * units as f64) as u64);
            first += range.1;
            range
        })
        .collect();
    for (handle, (first, count)) in (0..).zip(&ranges) {
        let mut at = *first;
        write(&mut host, 8, *count as usize, || {
            at += 1;
            (handle, at - 1)
        });
    }
    let mut next = || {
        let mut draw = random.below(1000) as f64 / 1000.0;
        let mut at = 0;
        while at + 1 < parts.len() && draw >= parts[at].1 {
            draw -= parts[at].1;
            at += 1;
        }
        let (first, count) = ranges[at];
        (at as u16, first + random.below(count))
    };
    write(&mut host, 8, 8 * units as usize, &mut next);
    host.drive.restart_counters();
    write(&mut host, 8, 5 * units as usize, &mut next);
    let waf = waf(&host);
    (host, waf)
}

/// One handle is none, whichever way its data are moved: the same completions at the same times.
#[test]
fn one_handle_is_none() {
    for isolation in [Isolation::Initial, Isolation::Persistent] {
        let run = |placement: Option<DataPlacement>| {
            let mut config = drive(1, 0.8, |c, _| c.cache = Some(cache()));
            config.data_placement = placement;
            let mut host = Host::new(config);
            fill(&mut host);
            let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
            let mut random = Random(7);
            let done = host.closed_loop(16, 40_000, |_| {
                let kind = random.pick(&[Operation::Write, Operation::Write, Operation::Read]);
                (kind, random.below(units) * 8, 8)
            });
            host.finish();
            let mut counters = host.drive.counters();
            counters.placement = None;
            (done, host.drive.state_hash(), counters)
        };
        let one = DataPlacement { handles: 1, isolation, victims: Victims::All, superblocks: 1 };
        assert!(run(Some(one)) == run(None));
    }
}

/// A unit that waits for others to fill a page with belongs to whoever wrote it last.
#[test]
fn what_waits_belongs_to_its_last_writer() {
    let mut host = Host::new(drive(2, 0.5, |config, placement| {
        config.cache = Some(cache());
        config.geometry.page_bytes = 16_384;
        placement.isolation = Isolation::Persistent;
    }));
    let mut write_one = |handle: u16, unit: u64| write(&mut host, 1, 1, || (handle, unit));
    write_one(0, 0);
    write_one(1, 0);
    (1..64).for_each(|unit| write_one(1, unit));
    host.drive.check().expect("the invariants hold");
    host.drive.control(host.drive.now(), Control::WriteBack).expect("done");
    host.finish();
    host.drive.check().expect("the invariants hold");
    let counters = host.drive.counters().placement.expect("placement");
    let programmed: Vec<u64> = counters.handles.iter().map(|of| of.units_programmed).collect();
    assert_eq!(programmed, [0, 64]);
}

/// Handles whose data die in the order in which they came leave nothing to move.
#[test]
fn what_dies_together_costs_nothing() {
    for isolation in [Isolation::Initial, Isolation::Persistent] {
        let mut host = Host::new(drive(4, 0.8, |_, it| it.isolation = isolation));
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        // Four logs, at different speeds, in turns of a few units.
        let (each, mut at, mut turn) = (units / 4, [0; 4], 0usize);
        let mut next = || {
            turn += 1;
            let log = [0, 1, 0, 2, 0, 1, 0, 3][turn / 3 % 8];
            at[log] += 1;
            (log as u16, log as u64 * each + (at[log] - 1) % each)
        };
        write(&mut host, 8, 12 * units as usize, &mut next);
        let counters = host.drive.placement_counters().expect("handles");
        let moved: u64 = counters.handles.iter().map(|of| of.units_moved).sum();
        assert_eq!((moved, host.drive.counters().gc_units_moved), (0, 0), "{isolation:?}");
        assert_eq!(waf(&host), 1.0);
        // Mixed, the fast logs leave the slow ones' data behind.
        let mut host = Host::new(drive(4, 0.8, |_, it| it.isolation = isolation));
        let mut mixed = || {
            let (_, unit) = next();
            (0, unit)
        };
        write(&mut host, 8, 12 * units as usize, &mut mixed);
        assert!(waf(&host) > 1.1, "{}", waf(&host));
    }
}

/// Greedy collection over all units takes from each handle the same share of valid data, so that
/// two temperatures that stay apart cost what uniform writes do to the whole.
#[test]
fn temperatures_apart_cost_what_theory_says() {
    let theory = |rho| mean_field(UNIT as u32, rho, VictimPolicy::Greedy).expect("in it").waf;
    let (_, apart) = temperatures(
        drive(2, 0.75, |_, it| it.isolation = Isolation::Persistent),
        &[(0.3, 0.8), (0.7, 0.2)],
    );
    // The open blocks, and what waits for the others of its superblock, are no spare of theirs.
    let closed = f64::from(BLOCKS - 8);
    let lost = 0.75 * closed / (closed - 3.0);
    assert_close("two temperatures", apart, theory(lost), 0.03);
}

/// Each handle's units apart: what each costs is what its own spare costs.
#[test]
fn victims_of_the_writing_handle_keep_to_its_share() {
    let (host, _) = temperatures(
        drive(2, 0.75, |_, it| {
            (it.isolation, it.victims) = (Isolation::Persistent, Victims::Handle);
        }),
        &[(0.3, 0.8), (0.7, 0.2)],
    );
    let counters = host.drive.placement_counters().expect("handles");
    for (handle, of) in counters.handles.iter().enumerate() {
        for (other, &moved) in of.moved_for.iter().enumerate() {
            assert!(handle == other || moved * 50 < of.units_moved, "{handle}: {of:?}");
        }
    }
}

/// Who waits behind collection is told for whose writes that is.
#[test]
fn blame_names_the_handle_that_needs_room() {
    let parts = [(0.5, 0.5), (0.5, 0.5)];
    let (mut host, _) = temperatures(drive(2, 0.75, |_, _| {}), &parts);
    let waits = |host: &Host| {
        let blame = host.drive.blame();
        let of = |handle: u8| -> Span {
            let ours = blame.iter().filter(|row| row.holder == Holder::CollectionFor(handle));
            ours.map(|row| row.wait).sum()
        };
        [of(0), of(1)]
    };
    let before = waits(&host);
    assert!(before.iter().all(|wait| *wait > Span::ZERO));
    let half = host.drive.namespace_sectors(NAMESPACE).expect("one") / 16;
    let mut random = Random(5);
    write(&mut host, 16, 20_000, || (1, half + random.below(half)));
    let [of_0, of_1] = waits(&host);
    let (of_0, of_1) = (of_0.saturating_sub(before[0]), of_1.saturating_sub(before[1]));
    assert!(of_1.as_ps() > of_0.as_ps() * 50, "{of_0:?} {of_1:?}");
}

/// What handles cost is what the drive costs.
#[test]
fn handles_account_for_everything() {
    for isolation in [Isolation::Initial, Isolation::Persistent] {
        let (host, waf) = temperatures(
            drive(3, 0.75, |c, it| {
                it.isolation = isolation;
                c.cache = Some(cache());
            }),
            &[(0.2, 0.6), (0.3, 0.3), (0.5, 0.1)],
        );
        let (now, all) = (host.drive.placement_counters().expect("handles"), host.drive.counters());
        let sum = |of: fn(&mynah_model::HandleCounters) -> u64| -> u64 {
            now.handles.iter().map(of).sum()
        };
        let erased = now.units_erased * u64::from(PLANES);
        // Since it was built, not since counters were restarted; so shares are compared.
        let total = sum(|of| of.units_programmed) + sum(|of| of.units_moved);
        let here = total as f64 / (sum(|of| of.host_bytes) / 4096) as f64;
        assert!((here - waf).abs() < 0.35 * waf, "{here}, {waf}");
        assert_eq!(sum(|of| of.moved_for.iter().sum()), sum(|of| of.units_moved));
        assert!(all.erases <= erased, "{} {erased}", all.erases);
        assert_eq!(now.unit_bytes, UNIT * 4096);
    }
}

/// What is programmed is some handle's, pages that were not full as a whole.
#[test]
fn pages_that_are_not_full_are_their_handles() {
    let mut host = Host::new(drive(3, 0.3, |c, _| {
        c.geometry.page_bytes = 16_384;
        c.cache = Some(cache());
    }));
    let mut random = Random(4);
    for _ in 0..200 {
        let count = random.range(1, 30) as usize;
        write(&mut host, 4, count, || (random.below(3) as u16, random.below(2000)));
        host.control(Control::WriteBack);
        host.finish();
    }
    let counters = host.drive.placement_counters().expect("handles");
    let padded: u64 = counters.handles.iter().map(|of| of.units_padded).sum();
    let data: u64 = counters.handles.iter().map(|of| of.units_programmed + of.units_moved).sum();
    assert!(padded > 100, "{padded}");
    assert_eq!(data + padded, host.drive.counters().flash_programs * 4);
}

/// A handle that writes nothing costs the others no more than the unit that it has open.
#[test]
fn an_idle_handle_costs_its_open_unit() {
    let waf_of = |handles, spare: f64| {
        let config = drive(handles, 0.8, |c, _| {
            c.namespaces[0].units = c.namespaces[0].units.map(|units| units - spare as u64);
        });
        let mut host = Host::new(config);
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        if handles > 1 {
            write(&mut host, 1, 1, || (1, 0));
        }
        let mut random = Random(5);
        write(&mut host, 8, 8 * units as usize, || (0, random.below(units)));
        host.drive.restart_counters();
        write(&mut host, 8, 5 * units as usize, || (0, random.below(units)));
        waf(&host)
    };
    let (alone, beside) = (waf_of(1, 0.0), waf_of(2, 0.0));
    // As if there were one superblock less.
    let theory = |blocks: f64| {
        let rho = 0.8 * f64::from(BLOCKS - 8) / blocks;
        mean_field(UNIT as u32, rho, VictimPolicy::Greedy).expect("in it").waf
    };
    let more = theory(f64::from(BLOCKS - 9)) / theory(f64::from(BLOCKS - 8));
    assert_close("beside an idle handle", beside / alone, more, 0.02);
}

/// What is left of each handle's unit is what has not been written since it was opened, whatever is
/// still in the cache.
#[test]
fn units_say_how_much_room_they_have() {
    for cached in [false, true] {
        let mut host = Host::new(drive(3, 0.6, |c, _| {
            c.cache = cached.then(cache);
        }));
        let (mut written, mut at) = ([0u64; 3], [0u64; 3]);
        let mut random = Random(9);
        for _ in 0..60 {
            let handle = random.below(3);
            let count = random.range(1, 90);
            write(&mut host, 4, count as usize, || {
                at[handle as usize] = (at[handle as usize] + 1) % (5 * UNIT);
                (handle as u16, handle * 5 * UNIT + at[handle as usize])
            });
            written[handle as usize] += count;
            for handle in 0..3u8 {
                let left = host.drive.reclaim_unit_left(handle).expect("a handle");
                let since = written[usize::from(handle)] % UNIT;
                assert_eq!(left, UNIT - since, "handle {handle}, cached {cached}");
            }
        }
        host.control(Control::WriteBack);
        host.finish();
        let counters = host.drive.placement_counters().expect("handles");
        for (of, written) in counters.handles.iter().zip(written) {
            let units = (written.div_ceil(UNIT), written / UNIT);
            assert_eq!((of.units_opened, of.units_closed), units);
        }
        // Those that were open when counting began are closed, too.
        host.drive.restart_counters();
        for handle in 0..3 {
            host.control(Control::UpdateHandle(NAMESPACE, PlacementId(handle)));
        }
        let counters = host.drive.counters().placement.expect("handles");
        for (of, written) in counters.handles.iter().zip(written) {
            let closed = u64::from(written % UNIT > 0);
            assert_eq!((of.units_opened, of.units_closed), (0, closed));
        }
        assert_eq!(host.drive.reclaim_unit_bytes(), Some(UNIT * 4096));
        assert_eq!(host.drive.reclaim_unit_left(3), None);
    }
}

/// A handle that is updated begins another unit, whatever waits in the cache, and what it had written
/// stays.
#[test]
fn updated_handles_begin_another_unit() {
    for cached in [false, true] {
        let mut host = Host::new(drive(2, 0.6, |c, it| {
            it.isolation = Isolation::Persistent;
            c.cache = cached.then(cache);
        }));
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let mut random = Random(3);
        for round in 0..200 {
            let count = random.range(1, 2 * UNIT);
            write(&mut host, 4, count as usize, || (random.below(2) as u16, random.below(units)));
            let handle = random.below(2) as u16;
            let other = host.drive.reclaim_unit_left(1 - handle as u8);
            let update = Control::UpdateHandle(NAMESPACE, PlacementId(handle));
            host.control(update);
            let left = || host.drive.reclaim_unit_left(handle as u8);
            assert_eq!(left(), Some(UNIT), "round {round}, cached {cached}");
            assert_eq!(host.drive.reclaim_unit_left(1 - handle as u8), other, "round {round}");
            // What comes now is in the next one, at once and when the cache is empty.
            let more = random.range(0, 3);
            write(&mut host, 1, more as usize, || (handle, more));
            // The cache may still hold that unit from before, and absorb it.
            let absorbed = if cached { 0 } else { more };
            let left = host.drive.reclaim_unit_left(handle as u8).expect("a handle");
            assert!((UNIT - more..=UNIT - absorbed).contains(&left), "{round} {left} {more}");
            host.finish();
            host.drive.check().expect("the invariants hold");
        }
        let counters = host.drive.placement_counters().expect("handles");
        assert!(counters.handles.iter().all(|of| of.units_closed > 80), "{counters:?}");
        let beside = Control::UpdateHandle(NAMESPACE, PlacementId(2));
        host.control(beside);
    }
}

/// What names no placement handle of its namespace goes to the first, and is counted.
#[test]
fn unknown_placement_is_the_first() {
    let mut host = Host::new(drive(4, 0.6, |c, _| c.namespaces[0].handles = vec![2, 0]));
    assert_eq!(host.drive.placement_handles(NAMESPACE), Some(&[2, 0][..]));
    for (placement, count) in [(0, 3), (1, 5), (2, 7), (0xffff, 11)] {
        write(&mut host, 1, count, || (placement, 1));
    }
    let counters = host.drive.placement_counters().expect("handles");
    let bytes: Vec<u64> = counters.handles.iter().map(|of| of.host_bytes / 4096).collect();
    assert_eq!((bytes, counters.unknown), (vec![5, 0, 3 + 7 + 11, 0], 7 + 11));
}

/// Units of several superblocks are chosen and won back as a whole.
#[test]
fn units_may_be_several_superblocks() {
    let settled = |superblocks| {
        let config = drive(2, 0.7, |_, it| it.superblocks = superblocks);
        temperatures(config, &[(0.5, 0.5), (0.5, 0.5)])
    };
    let (_, one) = settled(1);
    let (host, four) = settled(4);
    assert_eq!(host.drive.reclaim_unit_bytes(), Some(4 * UNIT * 4096));
    assert!(four > one, "{four} {one}");
    // About what units of that size cost.
    let theory = |units| mean_field(units, 0.7, VictimPolicy::Greedy).expect("in it").waf;
    let more = theory(4 * UNIT as u32) / theory(UNIT as u32);
    assert!((0.97..1.25).contains(&(four / one / more)), "{four} {one} {more}");
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: fn(&mut Config, &mut DataPlacement)| {
        drive(4, 0.6, change).check().expect_err("refused").key
    };
    assert_eq!(refused(|_, it| it.handles = 0), "placement.handles");
    assert_eq!(refused(|_, it| it.handles = 129), "placement.handles");
    assert_eq!(refused(|_, it| it.superblocks = 0), "placement.superblocks");
    assert_eq!(refused(|_, it| it.superblocks = 200), "placement.superblocks");
    assert_eq!(refused(|c, _| c.gc.unit = CollectionUnit::Block), "gc.unit");
    assert_eq!(refused(|c, _| c.namespaces[0].handles = vec![4]), "namespace.handles");
    assert_eq!(refused(|c, _| c.namespaces[0].handles = vec![1, 2, 1]), "namespace.handles");
    let hot = WriteFrontiers::HotCold(HotData::DEFAULT);
    assert_eq!(
        drive(4, 0.6, |c, _| c.gc.frontiers = hot).check().unwrap_err().key,
        "gc.write_frontiers"
    );
}
