//! A pSLC write cache, in numbers: each expectation is worked out by hand from pages, blocks and times
//! of the flash.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::stats::{Holder, Resource};
use mynah_model::{SlcFill, SlcState};
use mynah_stamp::{Span, Time};

const BITS: u64 = 3;
const PAGES: u64 = 24;
const SLC_PAGES: u64 = PAGES / BITS;

const PROGRAM: Span = Span::from_us(600);
const SLC_PROGRAM: Span = Span::from_us(100);
const SLC_READ: Span = Span::from_us(20);
const ERASE: Span = Span::from_ms(1);

/// Planes of TLC with pages of 4 KiB, a mapping unit each, and a cache that folds when it is full.
pub(crate) fn drive(
    blocks: u32,
    planes: u32,
    change: impl FnOnce(&mut Config, &mut SlcCache),
) -> Config {
    let mut config = one_plane(blocks, PAGES as u32, 3, 0.5);
    (config.geometry.channels, config.geometry.chips_per_channel) = (planes, 1);
    config.placement = Placement::Striped;
    config.flash.cell = CellType::Tlc;
    config.flash.program = PageTimes::all(PROGRAM);
    config.flash.read = PageTimes::all(Span::from_us(50));
    config.flash.erase = ERASE;
    config.bus.rate_mts = 2400;
    config.namespaces[0].units = None;
    config.over_provisioning = 0.15;
    config.gc.paced = false;
    let mut slc = SlcCache {
        static_share: 0.0,
        dynamic: 1.0,
        dynamic_max: 1.0,
        read: SLC_READ,
        program: SLC_PROGRAM,
        erase: ERASE,
        endurance: None,
        when_full: WhenFull::Fold,
        fold: FoldWay::Copy,
        fold_beside: 0.0,
        fold_blocks: None,
        fold_from: 1.0,
        idle_after: Span::from_ms(500),
        idle_share: 0.0,
        evict: Evict::Fifo,
        sequential_cutoff: None,
        keep_free: 0.01,
    };
    change(&mut config, &mut slc);
    config.slc = Some(slc);
    config
}

fn units(host: &Host) -> u64 {
    host.drive.namespace_sectors(NAMESPACE).expect("one") / 8
}

/// Writes units `from` on, one after the other.
fn write(host: &mut Host, depth: usize, from: u64, count: u64) -> Vec<Completion> {
    let done =
        host.closed_loop(depth, count as usize, |at| (Operation::Write, (from + at as u64) * 8, 8));
    assert!(done.iter().all(|done| done.status == Status::Success));
    host.drive.check().expect("the invariants hold");
    done
}

/// Units a second between two completions.
fn rate(done: &[Completion]) -> f64 {
    let span = done[done.len() - 1].at.since(done[0].at);
    (done.len() - 1) as f64 / span.as_secs_f64()
}

fn near(what: &str, got: f64, expected: f64, within: f64) {
    let off = got / expected - 1.0;
    println!("{what}: {got:.1}, {expected:.1} by hand, {:+.2} %", off * 100.0);
    assert!(off.abs() <= within, "{what}: {got} is not {expected}, {:+.2} %", off * 100.0);
}

/// Time of a page on the channel, commands beside it included, as the drive itself takes it for one
/// write and one read alone.
fn on_the_channel() -> Span {
    let mut host = Host::new(drive(40, 1, |_, _| {}));
    let write = host.run_one(Operation::Write, 0, 8);
    let stages = write.stages;
    stages.total() - SLC_PROGRAM
}

/// Behind the cliff each page costs an SLC program, an SLC read, a native program, and what it takes to
/// erase the blocks, at as many dies as there are.
#[test]
fn the_rate_of_folding_is_that_of_its_parts() {
    let transfer = on_the_channel();
    for planes in [1, 4] {
        let mut host = Host::new(drive(400, planes, |_, slc| {
            (slc.static_share, slc.dynamic) = (0.05, 0.0);
        }));
        let cache = 20 * SLC_PAGES * u64::from(planes);
        let done = write(&mut host, 8 * planes as usize, 0, 12 * cache);
        let fast = rate(&done[..cache as usize * 9 / 10]);
        near("the burst", fast, f64::from(planes) / (SLC_PROGRAM + transfer).as_secs_f64(), 0.02);
        let slow = rate(&done[2 * cache as usize..]);
        let page = SLC_PROGRAM
            + SLC_READ
            + PROGRAM
            + transfer.times(3)
            + Span::from_ps(ERASE.as_ps() / SLC_PAGES);
        near("behind it", slow, f64::from(planes) / page.as_secs_f64(), 0.02);
        let counters = host.drive.counters();
        assert_eq!(counters.slc.units_direct, 0);
        assert_eq!(counters.gc_runs, 0);
        let waits = host.drive.blame();
        let of = |resource, holder| {
            let rows = waits.iter().filter(|it| it.resource == resource && it.holder == holder);
            rows.map(|it| it.wait).sum::<Span>()
        };
        let folding = of(Resource::Die, Holder::Folding) + of(Resource::FreeBlock, Holder::Folding);
        let collection = of(Resource::Die, Holder::GarbageCollection);
        assert!(folding > Span::from_ms(100) && collection.is_zero(), "{folding} {collection}");
    }
}

/// What is folded in the time that the host leaves makes room for more: burst = cache / (1 - fold rate
/// / write rate).
#[test]
fn folding_beside_lengthens_the_burst() {
    let transfer = on_the_channel();
    let interval = Span::from_us(400);
    let mut host = Host::new(drive(400, 1, |_, slc| {
        (slc.static_share, slc.dynamic, slc.fold_from) = (0.2, 0.0, 0.0);
    }));
    let cache = 80 * SLC_PAGES;
    let own = SLC_PROGRAM + transfer;
    let fold = SLC_READ + PROGRAM + transfer.times(2) + Span::from_ps(ERASE.as_ps() / SLC_PAGES);
    let left = interval.saturating_sub(own);
    let share = left.as_secs_f64() / fold.as_secs_f64();
    let expected = cache as f64 / (1.0 - share);
    // Open loop: a write each interval, until they queue for longer than any operation takes.
    let (mut at, mut burst) = (Time::ZERO, None);
    for unit in 0..units(&host) {
        host.advance_to(at);
        host.send(Operation::Write, unit * 8, 8);
        at += interval;
        if host.outstanding > 40 {
            burst = Some(unit - 40);
            break;
        }
    }
    near("the burst", burst.expect("a cliff") as f64, expected, 0.05);
}

/// A host that writes past a full cache ends when no native block is left: at the capacity less (bits -
/// 1) times the cache.
#[test]
fn direct_writes_end_where_the_cache_takes_the_rest() {
    for share in [0.3, 0.6, 0.9] {
        let blocks = 400;
        let mut host = Host::new(drive(blocks, 1, |config, slc| {
            (slc.when_full, slc.dynamic_max) = (WhenFull::Direct, share);
            config.over_provisioning = 0.03;
        }));
        let (mut first_direct, mut first_fold) = (None, None);
        let all = units(&host);
        let done = host.closed_loop(8, all as usize, |at| (Operation::Write, at as u64 * 8, 8));
        assert_eq!(done.len() as u64, all);
        // Once more, by steps, for where the phases end.
        let config = host.drive.config().clone();
        let mut host = Host::new(config);
        for from in (0..all).step_by(8) {
            write(&mut host, 8, from, 8.min(all - from));
            let slc = host.drive.counters().slc;
            if slc.units_direct > 0 {
                first_direct.get_or_insert(from);
            }
            if slc.fold_programs > 0 {
                first_fold.get_or_insert(from);
                break;
            }
        }
        let cache = share * f64::from(blocks) * SLC_PAGES as f64;
        near("the first cliff", first_direct.expect("a cliff") as f64, cache, 0.02);
        let second = f64::from(blocks) * PAGES as f64 - (BITS - 1) as f64 * cache;
        near("the second", first_fold.expect("another") as f64, second, 0.06);
    }
}

/// Behind the second cliff three folded blocks are one native block, and free two for the host: half a
/// page is folded for each that it writes, whatever the size of the drive.
#[test]
fn behind_the_second_cliff_half_a_page_is_folded_for_each() {
    let transfer = on_the_channel();
    let fold = SLC_READ + PROGRAM + transfer.times(2) + Span::from_ps(ERASE.as_ps() / SLC_PAGES);
    let page = (PROGRAM + transfer).as_secs_f64() + 0.5 * fold.as_secs_f64();
    for (planes, blocks) in [(1, 200), (4, 200), (4, 800)] {
        let mut host = Host::new(drive(blocks, planes, |config, slc| {
            (slc.when_full, slc.dynamic_max) = (WhenFull::Direct, 0.6);
            config.over_provisioning = 0.05;
        }));
        let all = units(&host);
        let done = write(&mut host, 8 * planes as usize, 0, all);
        // Direct writes end at 63 %.
        let [from, to] = [0.68, 0.95].map(|share| (all as f64 * share) as usize);
        let expected = f64::from(planes) / page;
        near("behind it", rate(&done[from..to]), expected, 0.05);
    }
}

/// Where few blocks are folded at a time, the host has what they win, whatever the size of the drive.
#[test]
fn folds_in_turns_are_not_left_behind() {
    let rate_with = |blocks| {
        let mut host = Host::new(drive(blocks, 8, |config, slc| {
            (slc.when_full, slc.dynamic_max) = (WhenFull::Direct, 0.6);
            slc.fold_blocks = Some(2);
            config.over_provisioning = 0.05;
            config.placement = Placement::LeastLoaded;
        }));
        let all = units(&host);
        let done = write(&mut host, 64, 0, all);
        let [from, to] = [0.68, 0.95].map(|share| (all as f64 * share) as usize);
        rate(&done[from..to])
    };
    let (small, large) = (rate_with(200), rate_with(800));
    near("a drive four times as large", large, small, 0.1);
}

/// A cache of free blocks is a share of what the data have left, by the bits of a cell.
#[test]
fn a_dynamic_cache_shrinks_as_the_drive_fills() {
    let blocks = 1000;
    for (share, full) in
        [(1.0, 0.0), (1.0, 0.25), (1.0, 0.5), (1.0, 0.75), (0.5, 0.25), (0.5, 0.75)]
    {
        let mut host = Host::new(drive(blocks, 1, |_, slc| {
            (slc.when_full, slc.dynamic) = (WhenFull::Direct, share);
        }));
        let all = units(&host);
        let filled = (all as f64 * full) as u64;
        if filled > 0 {
            fill_sectors(&mut host, filled * 8);
        }
        let room = host.drive.slc_state().expect("a cache").room_bytes / 4096;
        let mut next = filled;
        while host.drive.counters().slc.units_direct == 0 && next < all {
            write(&mut host, 4, next, 4);
            next += 4;
        }
        let free = f64::from(blocks) - (filled as f64 / PAGES as f64).ceil();
        // Collection keeps three blocks, and two are kept beside its reserve of two.
        let expected = (share * free).min(free - 12.0).floor() * SLC_PAGES as f64;
        near("a burst", (next - filled) as f64, expected, 0.015);
        near("the room that it said", room as f64, (next - filled) as f64, 0.01);
    }
}

/// Data that are overwritten while they are in the cache are never programmed again; a working set that
/// fits is never folded as long as the drive is not idle.
#[test]
fn data_that_die_in_the_cache_cost_nothing() {
    for (evict, planes) in [(Evict::Fifo, 1), (Evict::Greedy, 4)] {
        let mut host = Host::new(drive(200, planes, |_, slc| {
            (slc.static_share, slc.dynamic, slc.evict) = (0.1, 0.0, evict);
            slc.idle_share = 0.5;
        }));
        // 20 blocks of each plane, all of them overwritten in turn.
        let set = 16 * SLC_PAGES * u64::from(planes);
        for _ in 0..20 {
            write(&mut host, 8, 0, set);
        }
        let counters = host.drive.counters();
        assert_eq!((counters.slc.units_folded, counters.slc.fold_programs), (0, 0));
        assert_eq!(counters.write_amplification(), Some(1.0));
        assert!(counters.slc.erases > 200, "{counters:?}");
        // Then it rests: what lives is folded.
        assert_eq!(host.finish().len(), 0);
        let counters = host.drive.counters();
        let open = SLC_PAGES * u64::from(planes);
        assert!((set - open..=set).contains(&counters.slc.units_folded), "{counters:?}");
    }
}

/// Beside a stream in order that goes past the cache, data that die there still do; the stream is
/// programmed once. Without the cutoff it fills the cache, and both are folded.
#[test]
fn streams_in_order_go_past_the_cache() {
    let run = |planes, cached: bool, cutoff: Option<u64>| {
        let mut host = Host::new(drive(400, planes, |config, slc| {
            if cached {
                config.cache = Some(cache());
            }
            (slc.static_share, slc.dynamic) = (0.1, 0.0);
            slc.sequential_cutoff = cutoff.map(|units| units * 4096);
        }));
        // 40 blocks of each plane: of the cache half is overwritten again and again, no address after
        // the one before it.
        let set = 20 * SLC_PAGES * u64::from(planes) + 1;
        let count = 30 * set;
        let done = host.closed_loop(16, count as usize * 2, |at| {
            let at = at as u64;
            let unit = if at.is_multiple_of(2) { set + at / 2 } else { at / 2 * 7 % set };
            (Operation::Write, unit * 8, 8)
        });
        assert!(done.iter().all(|done| done.status == Status::Success));
        host.send(Operation::Flush, 0, 0);
        host.finish();
        host.drive.check().expect("the invariants hold");
        (count, host.drive.counters())
    };
    for planes in [1, 4] {
        let (count, counters) = run(planes, false, Some(64));
        let slc = counters.slc;
        assert_eq!((slc.units_cached, slc.units_direct), (count + 64, count - 64), "{planes}");
        // Of the stream's that live in the cache each is programmed twice.
        let waf = 1.0 + 64.0 / (2 * count) as f64;
        assert_eq!((slc.units_folded, counters.write_amplification()), (64, Some(waf)));
        let (_, counters) = run(planes, false, None);
        let waf = counters.write_amplification().expect("written");
        assert!(counters.slc.units_folded > count / 2 && waf > 1.2, "{waf} {counters:?}");
        // A data cache writes some of what is overwritten once.
        let (count, counters) = run(planes, true, Some(64));
        let slc = counters.slc;
        assert_eq!(slc.units_direct, count - 64, "{planes}");
        assert!(slc.units_cached <= count + 64 && slc.units_folded == 64, "{slc:?}");
    }
}

/// Streams are known after the drive was saved, and not after its power was cut.
#[test]
fn streams_in_order_are_saved() {
    let config = drive(200, 4, |config, slc| {
        config.cache = Some(cache());
        (slc.static_share, slc.dynamic) = (0.1, 0.0);
        slc.sequential_cutoff = Some(16 * 4096);
    });
    let mut host = Host::new(config.clone());
    write(&mut host, 1, 0, 20);
    host.advance_to(host.now() + Span::from_ms(50));
    let bytes = saved(&mut host);
    let mut other = Host::new(config);
    restore(&mut other, &bytes);
    assert_eq!(other.drive.state_hash(), host.drive.state_hash());
    for host in [&mut host, &mut other] {
        write(host, 1, 20, 20);
        host.send(Operation::Flush, 0, 0);
        host.finish();
        host.drive.check().expect("the invariants hold");
    }
    assert_eq!(other.drive.state_hash(), host.drive.state_hash());
    let slc = host.drive.counters().slc;
    assert_eq!((slc.units_cached, slc.units_direct), (16, 24));
    host.control(Control::PowerCut);
    host.forget();
    host.finish();
    host.create(memory_queue(1));
    write(&mut host, 1, 40, 20);
    host.send(Operation::Flush, 0, 0);
    host.finish();
    let slc = host.drive.counters().slc;
    assert_eq!((slc.units_cached, slc.units_direct), (32, 28));
}

/// The idle time after which the cache is empty is told beforehand: with what is collected for it where
/// native blocks are full of what is void, and where a program takes a word line.
#[test]
fn the_idle_time_that_empties_the_cache_is_told() {
    for (random, one_shot, fold, share) in [
        (false, false, FoldWay::Copy, 0.5),
        (false, true, FoldWay::Copy, 1.0),
        (false, false, FoldWay::Copyback, 1.0),
        (true, false, FoldWay::Copy, 0.5),
        (true, false, FoldWay::Copy, 1.0),
    ] {
        let mut host = Host::new(drive(100, 2, |config, slc| {
            (config.flash.one_shot, config.over_provisioning) = (one_shot, 0.2);
            (slc.static_share, slc.dynamic, slc.fold, slc.idle_share) = (0.2, 0.0, fold, share);
        }));
        let all = units(&host);
        write(&mut host, 16, 0, all);
        let count = if random { 6 * all } else { all };
        let step = if random { 1_000_003 } else { 1 };
        host.closed_loop(16, count as usize, |at| {
            (Operation::Write, at as u64 * step % all * 8, 8)
        });
        let told = host.drive.slc_state().expect("a cache").idle_to_empty.expect("it folds idly");
        let begin = host.now();
        let valid = |host: &Host| {
            let open = 2 * SLC_PAGES * 4096;
            host.drive.slc_state().expect("a cache").filled_bytes.saturating_sub(open)
        };
        assert!(valid(&host) > 0);
        while valid(&host) > 0 {
            let next = host.drive.next_at().expect("it folds");
            host.advance_to(next);
        }
        let took = host.now().since(begin).as_secs_f64();
        let what = format!("random {random}, one shot {one_shot}, {fold:?}, {share}");
        near(&what, told.as_secs_f64(), took, 0.1);
    }
}

/// What lives is programmed twice.
#[test]
fn data_that_live_cost_one_more_program() {
    let mut host = Host::new(drive(400, 4, |_, slc| {
        (slc.static_share, slc.dynamic, slc.idle_share) = (0.05, 0.0, 1.0);
    }));
    let cache = 20 * SLC_PAGES * 4;
    write(&mut host, 32, 0, 6 * cache);
    assert_eq!(host.finish().len(), 0);
    host.drive.check().expect("the invariants hold");
    let counters = host.drive.counters();
    let open = SLC_PAGES * 4;
    assert!(6 * cache - counters.slc.units_folded <= open, "{counters:?}");
    let waf = counters.write_amplification().expect("written");
    near("write amplification", waf, 2.0, 0.01);
}

/// In idle time as much room is won as the share of it allows, until the cache is empty.
#[test]
fn idle_time_makes_room() {
    let transfer = on_the_channel();
    let block = (SLC_READ + PROGRAM + transfer.times(2)).times(SLC_PAGES) + ERASE;
    for share in [1.0, 0.5, 0.25] {
        let config = drive(400, 2, |_, slc| {
            (slc.static_share, slc.dynamic, slc.idle_share) = (0.2, 0.0, share);
        });
        let cache = 80 * SLC_PAGES * 2;
        for idle in [200, 400, 800, 8000] {
            let mut host = Host::new(config.clone());
            // Short of the last blocks, at which folding would begin.
            write(&mut host, 16, 0, cache - 8 * SLC_PAGES);
            let said = host.drive.slc_state().expect("a cache");
            let empty = said.idle_to_empty.expect("it folds in idle time");
            let before = host.drive.slc_state().expect("a cache").room_bytes / 4096;
            let until = host.now() + Span::from_ms(500 + idle);
            host.advance_to(until);
            host.drive.check().expect("the invariants hold");
            let room = host.drive.slc_state().expect("a cache").room_bytes / 4096;
            let blocks = 2.0 * share * Span::from_ms(idle).as_secs_f64() / block.as_secs_f64();
            let expected = (blocks * SLC_PAGES as f64).min((cache - before) as f64);
            let won = (room - before) as f64;
            println!("{share} of {idle} ms: {won} of {expected:.0} units");
            if idle == 8000 {
                assert_eq!(room * 4096, said.empty_room_bytes, "the room when it is empty");
                let at = empty.as_secs_f64() - 0.5;
                let all = expected / (SLC_PAGES as f64 * 2.0 * share) * block.as_secs_f64();
                near("idle time that empties it", at, all, 0.06);
            }
            // A block more or less in each plane, and the open ones.
            let slack = 3.0 * SLC_PAGES as f64;
            assert!((won - expected).abs() <= slack, "{won} units, {expected} by hand");
        }
    }
}

/// Past a full cache the host goes at the native rate, and no faster until the drive has been idle.
#[test]
fn a_full_cache_is_passed_until_the_drive_rests() {
    let transfer = on_the_channel();
    let mut host = Host::new(drive(400, 1, |_, slc| {
        (slc.static_share, slc.dynamic) = (0.05, 0.0);
        (slc.when_full, slc.idle_share) = (WhenFull::Direct, 1.0);
    }));
    let cache = 20 * SLC_PAGES;
    let done = write(&mut host, 4, 0, 5 * cache);
    let slow = rate(&done[cache as usize + 8..]);
    near("past it", slow, 1.0 / (PROGRAM + transfer).as_secs_f64(), 0.01);
    assert_eq!(host.drive.counters().slc.units_cached, cache);
    assert_eq!(host.drive.slc_state().expect("a cache").room_bytes, 0, "it is passed");
    let until = host.now() + Span::from_secs(5);
    host.advance_to(until);
    let done = write(&mut host, 4, 5 * cache, cache - 8);
    near("after rest", rate(&done), 1.0 / (SLC_PROGRAM + transfer).as_secs_f64(), 0.02);
}

/// The gauges hold what was written up to the cliff, no more behind it, and nothing after rest.
#[test]
fn gauges_follow_the_cache() {
    let planes = 2;
    let mut host = Host::new(drive(400, planes, |_, slc| {
        (slc.static_share, slc.dynamic) = (0.2, 0.0);
        (slc.when_full, slc.idle_share) = (WhenFull::Direct, 1.0);
    }));
    let cache = 80 * SLC_PAGES * u64::from(planes);
    let fill = |host: &Host| {
        let SlcFill { filled_bytes, room_bytes } = host.drive.gauges().slc.expect("a cache");
        let state: SlcState = host.drive.slc_state().expect("a cache");
        assert_eq!((filled_bytes, room_bytes), (state.filled_bytes, state.room_bytes));
        (filled_bytes / 4096, room_bytes / 4096)
    };
    assert_eq!(fill(&host), (0, cache));
    let step = cache / 40;
    for written in (0..cache).step_by(step as usize).map(|before| before + step) {
        write(&mut host, 8, written - step, step);
        assert_eq!(fill(&host), (written, cache - written));
    }
    write(&mut host, 8, cache, cache);
    assert_eq!(fill(&host), (cache, 0), "past it");
    let slc = host.drive.counters().slc;
    assert_eq!((slc.units_cached, slc.units_direct, slc.units_folded), (cache, cache, 0));
    // Nothing is folded before the drive is idle; then a block of each plane at a time.
    let (mut before, from) = (cache, host.now());
    let block = (SLC_READ + PROGRAM + on_the_channel().times(2)).times(SLC_PAGES) + ERASE;
    for ms in (400..1500).step_by(100) {
        host.advance_to(from + Span::from_ms(ms));
        let (filled, room) = fill(&host);
        let idle = Span::from_ms(ms.saturating_sub(500));
        let folded = (idle.as_ps() / block.as_ps() * SLC_PAGES * u64::from(planes)).min(cache);
        let slack = 2 * SLC_PAGES * u64::from(planes);
        assert!((cache - filled).abs_diff(folded) <= slack, "{ms} ms: {filled} of {cache} left");
        assert_eq!(room, if ms < 500 { 0 } else { cache - filled }, "{ms} ms");
        assert!(filled <= before);
        before = filled;
    }
    assert_eq!(fill(&host), (0, cache));
    assert_eq!(Host::new(one_plane(40, PAGES as u32, 3, 0.5)).drive.gauges().slc, None);
}

/// Beside writes past the cache so many pages are folded for each of theirs.
#[test]
fn folding_beside_takes_its_share() {
    let transfer = on_the_channel();
    for share in [0.25, 0.5, 1.0] {
        let mut host = Host::new(drive(800, 1, |_, slc| {
            (slc.static_share, slc.dynamic) = (0.2, 0.0);
            (slc.when_full, slc.fold_beside) = (WhenFull::Direct, share);
        }));
        let cache = 160 * SLC_PAGES;
        let done = write(&mut host, 4, 0, 2 * cache - 16);
        let counters = host.drive.counters().slc;
        let direct = counters.units_direct as f64;
        near("pages folded", counters.units_folded as f64, share * direct, 0.04);
        let fold =
            SLC_READ + PROGRAM + transfer.times(2) + Span::from_ps(ERASE.as_ps() / SLC_PAGES);
        let page = (PROGRAM + transfer).as_secs_f64() + share * fold.as_secs_f64();
        near("the rate beside", rate(&done[cache as usize + 8..]), 1.0 / page, 0.05);
    }
}

/// Pages that stay in their die cross no channel.
#[test]
fn copies_within_a_die_spare_the_channel() {
    let busy = |fold| {
        let mut host = Host::new(drive(400, 1, |config, slc| {
            (slc.static_share, slc.dynamic, slc.fold) = (0.05, 0.0, fold);
            config.bus.rate_mts = 100;
        }));
        write(&mut host, 4, 0, 100 * SLC_PAGES);
        let counters = host.drive.counters();
        assert!(counters.slc.units_folded > 50 * SLC_PAGES);
        let folded = counters.slc.units_folded as f64;
        (counters.channel_busy[0].as_secs_f64() / (100 * SLC_PAGES) as f64, folded)
    };
    let ((copied, _), (within, _)) = (busy(FoldWay::Copy), busy(FoldWay::Copyback));
    // A page crosses three times, or once, when four fifths of what is written are folded.
    assert!(copied > 2.0 * within, "{copied} {within}");
}

/// A read takes the time of the mode that its page was programmed in.
#[test]
fn reads_take_the_time_of_their_mode() {
    let mut host = Host::new(drive(100, 1, |_, slc| slc.idle_share = 1.0));
    write(&mut host, 1, 0, 2 * SLC_PAGES);
    let cached = host.run_one(Operation::Read, 0, 8);
    assert_eq!(host.finish().len(), 0);
    let until = host.now() + Span::from_secs(2);
    host.advance_to(until);
    let folded = host.run_one(Operation::Read, 0, 8);
    let array = |done: &Completion| done.stages.get(mynah_stamp::Stage::FlashArray);
    assert_eq!(array(&cached), SLC_READ);
    assert_eq!(array(&folded), Span::from_us(50));
}

/// Only so many blocks are folded at a time, and every plane has its turn.
#[test]
fn planes_take_turns_to_fold() {
    let transfer = on_the_channel();
    let rate_with = |blocks| {
        let mut host = Host::new(drive(400, 4, |_, slc| {
            (slc.static_share, slc.dynamic, slc.fold_blocks) = (0.05, 0.0, blocks);
        }));
        let cache = 20 * SLC_PAGES * 4;
        let done = write(&mut host, 64, 0, 8 * cache);
        rate(&done[2 * cache as usize..])
    };
    let one = rate_with(Some(1));
    let fold = SLC_READ + PROGRAM + transfer.times(2) + Span::from_ps(ERASE.as_ps() / SLC_PAGES);
    // The next block is chosen when one is erased, in another plane than the one that writes.
    near("one at a time", one, 1.0 / fold.as_secs_f64(), 0.03);
    assert!(rate_with(None) > 3.0 * one);
}

/// A drive that is saved and restored goes on as it was.
#[test]
fn a_saved_cache_goes_on() {
    let config = drive(100, 4, |_, slc| (slc.static_share, slc.dynamic) = (0.1, 0.5));
    let mut host = Host::new(config.clone());
    write(&mut host, 8, 0, 1500);
    let until = host.now() + Span::from_secs(1);
    host.advance_to(until);
    let bytes = saved(&mut host);
    let mut other = Host::new(config);
    restore(&mut other, &bytes);
    assert_eq!(other.drive.state_hash(), host.drive.state_hash());
    assert_eq!(other.drive.slc_state(), host.drive.slc_state());
    other.drive.check().expect("the invariants hold");
    let rates: Vec<f64> =
        [&mut host, &mut other].map(|host| rate(&write(host, 8, 1500, 2000))).to_vec();
    assert!((rates[0] / rates[1] - 1.0).abs() < 1e-9, "{rates:?}");
    assert_eq!(other.drive.state_hash(), host.drive.state_hash());
}

/// One that is passed is passed after it was saved, too; and folds when nobody writes.
#[test]
fn a_restored_cache_is_passed_and_rests() {
    let config = drive(400, 1, |_, slc| {
        (slc.static_share, slc.dynamic) = (0.05, 0.0);
        (slc.when_full, slc.idle_share) = (WhenFull::Direct, 1.0);
    });
    let cache = 20 * SLC_PAGES;
    let mut host = Host::new(config.clone());
    write(&mut host, 4, 0, 2 * cache);
    host.advance_to(host.now() + Span::from_ms(1));
    let (saved, mut other) = (saved(&mut host), Host::new(config));
    restore(&mut other, &saved);
    write(&mut other, 4, 2 * cache, cache);
    let slc = other.drive.counters().slc;
    assert_eq!((slc.units_cached, slc.units_direct), (0, cache), "it is passed");
    other.advance_to(other.now() + Span::from_ms(1));
    let (saved, mut other) = (self::saved(&mut other), Host::new(other.drive.config().clone()));
    restore(&mut other, &saved);
    assert_eq!(other.finish().len(), 0);
    let full = other.drive.slc_state().expect("a cache").filled_bytes / 4096;
    assert!(full <= SLC_PAGES, "{full} units are left of {cache}");
}

fn saved(host: &mut Host) -> Vec<u8> {
    let mut bytes = vec![];
    host.drive.save_state(&mut |piece| bytes.extend_from_slice(piece)).expect("at rest");
    bytes
}

fn restore(host: &mut Host, bytes: &[u8]) {
    let mut rest = bytes;
    let read = &mut |wanted: &mut [u8]| {
        let (piece, after) = rest.split_at(wanted.len());
        wanted.copy_from_slice(piece);
        rest = after;
        true
    };
    host.drive.restore_state(read).expect("a state");
}

/// A block ends after so many erases with one bit, native ones are counted apart.
#[test]
fn blocks_wear_out_by_mode() {
    let retired = |endurance| {
        let mut host = Host::new(drive(200, 1, |_, slc| {
            (slc.static_share, slc.dynamic, slc.endurance) = (0.1, 0.0, endurance);
        }));
        // Each block of the cache is erased some thirty times, and no other.
        for _ in 0..40 {
            write(&mut host, 4, 0, 16 * SLC_PAGES);
        }
        host.drive.check().expect("the invariants hold");
        let counters = host.drive.counters();
        assert_eq!(counters.erases + counters.retired_blocks, counters.slc.erases);
        assert_eq!((counters.gc_runs, counters.wear.erases_min), (0, 0), "native blocks");
        counters.retired_blocks
    };
    assert_eq!((retired(None), retired(Some(1000))), (0, 0));
    assert_eq!(retired(Some(10)), 20, "all blocks of the cache");
}

/// Use with one bit takes nothing of what blocks endure with all bits, and blocks that only serve the
/// cache are none of the spare ones.
#[test]
fn each_mode_endures_its_own() {
    let run = |change: fn(&mut SlcCache)| {
        let mut host = Host::new(drive(200, 1, |config, slc| {
            config.wear.endurance = Some(5);
            change(slc);
        }));
        for _ in 0..40 {
            write(&mut host, 4, 0, 16 * SLC_PAGES);
        }
        let counters = host.drive.counters();
        let wear = counters.wear;
        assert!(!wear.write_protected && wear.spare_blocks == wear.spare_blocks_new, "{wear:?}");
        assert!(wear.spare_blocks > 0 && wear.endurance == Some(5));
        assert_eq!(wear.native().erases, 0);
        let [apart, others] = wear.slc.expect("a cache");
        (counters.retired_blocks, apart.erases, others.erases, wear.native().blocks)
    };
    // 20 blocks have 10 erases each; what comes then fits into native blocks.
    let apart = run(|slc| {
        (slc.static_share, slc.dynamic, slc.endurance) = (0.1, 0.0, Some(10));
    });
    assert_eq!(apart, (20, 200, 0, 180));
    let (retired, apart, others, native) = run(|slc| slc.dynamic_max = 0.1);
    assert_eq!((retired, apart, native), (0, 0, 200));
    // All but the 20 blocks of the cache, if they are full.
    assert!(others.abs_diff(40 * 16 - 20) <= 1, "{others}");
}

/// Under uniform overwrites of more than the cache holds, choosing the emptiest block moves less than
/// their order does.
#[test]
fn the_fewest_valid_units_cost_the_least() {
    let folded = |evict| {
        let mut host = Host::new(drive(400, 1, |_, slc| {
            (slc.static_share, slc.dynamic, slc.evict) = (0.05, 0.0, evict);
        }));
        let mut random = Random(7);
        for _ in 0..4000 {
            write(&mut host, 1, random.below(20 * SLC_PAGES), 1);
        }
        host.drive.counters().slc.units_folded
    };
    let (greedy, fifo) = (folded(Evict::Greedy), folded(Evict::Fifo));
    assert!(greedy < fifo, "{greedy} units are moved, {fifo} in order");
}

/// Erases of blocks with one bit take their own time, and blocks that are kept end direct writes
/// earlier.
#[test]
fn erases_and_kept_blocks_matter() {
    let slow = |erase| {
        let mut host = Host::new(drive(400, 1, |_, slc| {
            (slc.static_share, slc.dynamic, slc.erase) = (0.05, 0.0, erase);
        }));
        let done = write(&mut host, 8, 0, 120 * SLC_PAGES);
        1.0 / rate(&done[40 * SLC_PAGES as usize..])
    };
    let longer = slow(Span::from_ms(5)) - slow(Span::from_ms(1));
    near("a page, longer by an erase's share", longer * 1e6, 4000.0 / SLC_PAGES as f64, 0.03);
    let first_fold = |keep_free| {
        let mut host = Host::new(drive(400, 1, |_, slc| {
            (slc.when_full, slc.dynamic_max) = (WhenFull::Direct, 0.3);
            slc.keep_free = keep_free;
        }));
        let mut next = 0;
        while host.drive.counters().slc.fold_programs == 0 {
            write(&mut host, 8, next, 8);
            next += 8;
        }
        next as f64
    };
    let earlier = first_fold(0.02) - first_fold(0.1);
    near("direct writes that are less", earlier, 0.08 * 400.0 * PAGES as f64, 0.1);
}

/// What contradicts itself is refused, with its key.
#[test]
fn contradictions_are_refused() {
    let refused = |key: &str, change: &dyn Fn(&mut Config, &mut SlcCache)| {
        let config = drive(40, 1, |config, slc| change(config, slc));
        let error = config.check().expect_err(key);
        assert_eq!(error.key, key, "{error}");
    };
    drive(40, 1, |_, _| {}).check().expect("valid");
    refused("slc.keep_free", &|_, slc| slc.keep_free = 0.0);
    refused("slc.program", &|_, slc| slc.program = PROGRAM + Span::from_us(1));
    refused("slc.read", &|_, slc| slc.read = Span::from_us(51));
    refused("slc.dynamic", &|_, slc| slc.dynamic = 1.1);
    refused("slc.static", &|_, slc| slc.static_share = -0.1);
    refused("slc", &|_, slc| slc.dynamic = 0.0);
    refused("slc", &|config, _| config.flash.cell = CellType::Slc);
    refused("slc.fold", &|config, slc| {
        (config.flash.one_shot, slc.fold) = (true, FoldWay::Copyback);
    });
    refused("slc.fold_blocks", &|_, slc| slc.fold_blocks = Some(0));
    refused("gc.unit", &|config, _| config.gc.unit = CollectionUnit::Superblock);
}

/// What has been trimmed holds nothing back: the cache is as large as it was in the erased drive.
#[test]
fn trims_give_the_cache_back() {
    let mut host = Host::new(drive(80, 2, |_, _| {}));
    let all = units(&host);
    let fits = host.drive.slc_state().expect("a cache").room_bytes;
    for _ in 0..4 {
        write(&mut host, 16, 0, all);
    }
    assert!(host.drive.slc_state().expect("a cache").room_bytes < fits / 2, "it is full of data");
    host.run_one(Operation::Trim, 0, (all * 8) as u32);
    let before = host.drive.counters().slc;
    let state = host.drive.slc_state().expect("a cache");
    let room = state.room_bytes;
    let count = room / 4096;
    write(&mut host, 16, 0, count);
    let slc = host.drive.counters().slc.since(&before);
    println!("{room} of {fits} fit after the trim: {slc:?}");
    // What lies in the cache already, and is void as well, takes its place until it is folded.
    near("room after the trim", (room + state.filled_bytes) as f64, fits as f64, 0.05);
    assert!(slc.units_cached >= count - 64 && slc.units_direct <= 64, "{slc:?}");
}

/// A cache that is emptied and filled without time is as full as it says, for as long as it should be.
#[test]
fn the_cache_can_be_filled_without_time() {
    for placement in [Placement::Striped, Placement::Static] {
        let change = |config: &mut Config, slc: &mut SlcCache| {
            config.placement = placement;
            slc.static_share = 0.2;
            slc.dynamic = 0.0;
        };
        let blocks = 16;
        let fits = 2 * blocks * SLC_PAGES;
        for (share, left) in [(0.0, fits), (0.5, fits / 2), (1.0, 0)] {
            let mut host = Host::new(drive(80, 2, change));
            let all = units(&host);
            // Something is in the cache that has to be folded first.
            write(&mut host, 8, 0, all / 2);
            host.finish();
            host.drive.empty_slc();
            let past = (0..).map(|at| mynah_model::warm::Access {
                flow: FlowId(0),
                namespace: NAMESPACE,
                operation: Operation::Write,
                placement: PlacementId::default(),
                sector: (at * 7 % all) * 8,
                sectors: 8,
                saturated: false,
            });
            host.drive.fill_slc(share, past);
            host.drive.begin_anew(vec![]);
            host.forget();
            host.create(memory_queue(1));
            host.drive.check().expect("the invariants hold");
            let state = host.drive.slc_state().expect("a cache");
            assert_eq!(state.room_bytes, left * 4096, "{placement:?}, {share}");
            assert_eq!(state.filled_bytes, (fits - left) * 4096, "{placement:?}, {share}");
            // Each unit that is written beyond what fits has another folded.
            let before = host.drive.counters().slc;
            let count = fits * 3 / 4;
            write(&mut host, 16, 0, count);
            let slc = host.drive.counters().slc.since(&before);
            let beyond = count.saturating_sub(left);
            println!("{placement:?}, {share}: {beyond} beyond, {slc:?}");
            assert!(slc.units_folded + slc.units_direct <= beyond + 4 * SLC_PAGES, "{slc:?}");
            let erased = slc.erases * SLC_PAGES;
            assert!(erased + 4 * SLC_PAGES >= beyond, "{beyond} beyond what fits: {slc:?}");
        }
    }
}
