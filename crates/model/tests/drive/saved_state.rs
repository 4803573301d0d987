//! Saved states: a drive that is saved, restored and goes on does what the drive would have
//! done that just went on.

use mynah_model::config::{
    CacheMode, CacheSharing, CachedTable, CellType, CmtGranularity, CollectionUnit, Config,
    DataPlacement, Flin, HotData, Isolation, MappingScheme, MappingTable, Placement, RowPolicy,
    VictimPolicy, Victims, WriteBack, WriteFrontiers,
};
use mynah_model::io::*;
use mynah_model::precondition::{Occupancy, Order, UpdateClass};
use mynah_model::testing::{cache, cached_table, small};
use mynah_model::{Drive, StateError};
use mynah_stamp::{Span, Time};
use proptest::prelude::*;

/// Two queues of two flows.
fn queue(drive: &mut Drive) {
    for (id, flow) in [(1, 0), (2, 3)] {
        let queue = Queue {
            id: QueueId(id),
            kind: QueueKind::Memory,
            flow: FlowId(flow),
            priority: Default::default(),
            completion_entries: 64,
        };
        drive.control(drive.now(), Control::CreateQueue(queue)).unwrap();
    }
}

/// Does the requests with eight outstanding, of which one in three is another flow's; each
/// completion's time from `start` on, and how it ended.
fn run(drive: &mut Drive, requests: &[(Operation, u64, u32)]) -> Vec<(Span, u32, Status)> {
    let start = drive.now();
    let mut done = Vec::new();
    let (mut next, mut out) = (0, 0);
    loop {
        while out < 8 && next < requests.len() {
            let (operation, sector, sectors) = requests[next];
            let tag = Tag(next as u32);
            let request = Request {
                placement: PlacementId(next as u16 % 3),
                tag,
                operation,
                namespace: NamespaceId(1),
                sector,
                sectors,
            };
            let queue = QueueId(1 + u16::from(next % 3 == 2));
            drive.submit(drive.now(), queue, request).unwrap();
            next += 1;
            out += 1;
        }
        if drive.next_at().is_none() {
            break;
        }
        drive.advance(Time::MAX);
        while let Some(output) = drive.poll() {
            let Output::Complete(completion) = output else { panic!("{output:?}") };
            done.push((completion.at.since(start), completion.tag.0, completion.status));
            drive.cq_freed(completion.at, completion.queue, 1).unwrap();
            out -= 1;
        }
    }
    // The last doorbell crosses the link.
    drive.advance(drive.now() + Span::from_us(1));
    done
}

fn bytes(drive: &mut Drive) -> Vec<u8> {
    let mut bytes = Vec::new();
    drive.save_state(&mut |piece| bytes.extend_from_slice(piece)).unwrap();
    bytes
}

fn restored(config: &Config, bytes: &[u8]) -> Result<Drive, StateError> {
    let mut drive = Drive::new(config.clone()).unwrap();
    let mut rest = bytes;
    drive.restore_state(&mut |wanted| {
        let Some((piece, after)) = rest.split_at_checked(wanted.len()) else { return false };
        wanted.copy_from_slice(piece);
        rest = after;
        true
    })?;
    Ok(drive)
}

fn requests(seeds: &[u64], units: u64) -> Vec<(Operation, u64, u32)> {
    let request = |seed: &u64| {
        let unit = seed / 16 % units;
        let operation = match seed % 16 {
            0..4 => Operation::Read,
            4 => Operation::Trim,
            _ => Operation::Write,
        };
        // One in four does not take all of its unit.
        let from = if seed % 64 < 16 { seed / 64 % 8 } else { 0 };
        (operation, unit * 8 + from, 8 - from as u32)
    };
    seeds.iter().map(request).collect()
}

/// What fits into the reclaim unit that each handle fills.
fn left(drive: &Drive) -> Vec<Option<u64>> {
    (0..3).map(|handle| drive.reclaim_unit_left(handle)).collect()
}

/// Writes what is in the cache, so that the drive comes to rest.
fn flush(drive: &mut Drive) {
    drive.control(drive.now(), Control::WriteBack).unwrap();
    run(drive, &[(Operation::Flush, 0, 0)]);
}

/// A drive after so many requests, as bytes.
fn used(config: &Config, count: u64) -> Vec<u8> {
    let mut drive = Drive::new(config.clone()).unwrap();
    let units = drive.namespace_sectors(NamespaceId(1)).unwrap() / 8;
    queue(&mut drive);
    let seeds: Vec<u64> = (0..count).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    run(&mut drive, &requests(&seeds, units));
    flush(&mut drive);
    bytes(&mut drive)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_restored_drive_goes_on_as_the_saved_one(
        before in prop::collection::vec(any::<u64>(), 1..4000),
        after in prop::collection::vec(any::<u64>(), 1..1500),
        cached: bool,
        reads: bool,
        mapped in 0..4u8,
        policy in 0..5u8,
        worn: bool,
        placed in 0..3u8,
        sorted: bool,
        together: bool,
        dirty: bool,
        lazy: bool,
        divided in 0..3u8,
        open: bool,
        fair: bool,
        large_pages: bool,
        seed: u64,
    ) {
        let mut config = small();
        config.seed = seed;
        if large_pages && mapped < 3 {
            // Some units wait for others to fill a page.
            config.geometry.page_bytes = 16_384;
            config.over_provisioning = 0.4;
            config.flash.one_shot = worn;
            config.flash.cell = if worn { CellType::Mlc } else { CellType::Slc };
        }
        config.cache = cached.then(cache);
        if let Some(cache) = &mut config.cache {
            if lazy {
                cache.write_back = WriteBack::Lru { high: 0.5 };
                cache.bytes = 512 << 10;
            }
            cache.sharing = [
                CacheSharing::Shared,
                CacheSharing::PerNamespace,
                CacheSharing::PerFlow,
            ][usize::from(divided)];
            if open {
                cache.dram.rows = RowPolicy::Open { banks: 4 };
            }
        }
        if let Some(cache) = config.cache.as_mut().filter(|_| reads) {
            cache.mode = CacheMode::Both;
            cache.bytes = 256 << 10;
            cache.power_loss_protection = worn;
        }
        if fair && !sorted {
            config.scheduler.flin = Some(Flin {
                epoch: Span::from_ms(5),
                read_bytes_per_s: 20_000_000,
                write_bytes_per_s: 20_000_000,
                fairness: 0.6,
                divides_collection: together,
            });
        }
        if sorted {
            config.gc.frontiers = WriteFrontiers::HotCold(HotData {
                decay: Some(1000),
                ..HotData::DEFAULT
            });
        }
        if together {
            config.gc.unit = CollectionUnit::Superblock;
        }
        if together && !sorted && !fair && mapped != 3 {
            config.over_provisioning += 0.15;
            config.data_placement = Some(DataPlacement {
                handles: 3,
                isolation: [Isolation::Initial, Isolation::Persistent][usize::from(worn)],
                victims: [Victims::All, Victims::Handle][usize::from(open)],
                superblocks: 1 + u32::from(reads),
            });
        }
        config.gc.victim = [
            VictimPolicy::Greedy,
            VictimPolicy::DChoices { d: 3 },
            VictimPolicy::Random,
            VictimPolicy::Fifo,
            VictimPolicy::CostBenefit,
        ][usize::from(policy)];
        config.placement =
            [Placement::Static, Placement::Striped, Placement::LeastLoaded][usize::from(placed)];
        if worn {
            config.wear.dynamic = true;
            config.wear.static_threshold = Some(3);
        }
        if mapped == 3 {
            config.mapping.scheme = MappingScheme::Hybrid { log_blocks: 3 };
            config.mapping.unit_bytes = config.geometry.page_bytes;
            config.placement = Placement::Static;
            config.gc.frontiers = WriteFrontiers::Separate;
            config.gc.unit = CollectionUnit::Block;
            config.wear.static_threshold = None;
        } else if mapped > 0 {
            config.mapping.table = MappingTable::Cached(CachedTable {
                granularity: [CmtGranularity::Entry, CmtGranularity::Page][usize::from(mapped - 1)],
                ..cached_table(16 << 10)
            });
        }
        let mut first = Drive::new(config.clone()).unwrap();
        let units = first.namespace_sectors(NamespaceId(1)).unwrap() / 8;
        queue(&mut first);
        run(&mut first, &requests(&before, units));
        if !dirty {
            flush(&mut first);
        }
        prop_assert!(first.is_at_rest());
        first.control(first.now(), Control::Reset).unwrap();
        let saved = bytes(&mut first);
        let mut second = restored(&config, &saved).unwrap();
        prop_assert_eq!(second.state_hash(), first.state_hash());
        prop_assert_eq!(left(&second), left(&first));
        queue(&mut first);
        queue(&mut second);
        let after = requests(&after, units);
        prop_assert!(run(&mut second, &after) == run(&mut first, &after), "they differ");
        prop_assert_eq!(left(&second), left(&first));
        for drive in [&mut first, &mut second] {
            drive.check().unwrap();
            prop_assert!(drive.is_at_rest());
            drive.control(drive.now(), Control::Reset).unwrap();
        }
        prop_assert!(bytes(&mut second) == bytes(&mut first), "the states differ in the end");
    }

    #[test]
    fn damaged_bytes_are_refused_or_a_valid_state(
        at in any::<prop::sample::Index>(),
        with: u8,
        cut: bool,
    ) {
        let config = small();
        let mut saved = used(&config, 3000);
        let at = at.index(saved.len());
        match cut {
            true => saved.truncate(at),
            false => saved[at] = with,
        }
        if let Ok(restored) = restored(&config, &saved) {
            prop_assert!(!cut);
            restored.check().unwrap();
        }
    }
}

#[test]
fn only_a_drive_at_rest_is_saved_and_only_a_fresh_one_restored() {
    let config = small();
    let mut drive = Drive::new(config.clone()).unwrap();
    let saved = bytes(&mut drive);
    queue(&mut drive);
    let write = Request {
        placement: Default::default(),
        tag: Tag(0),
        operation: Operation::Write,
        namespace: NamespaceId(1),
        sector: 0,
        sectors: 8,
    };
    drive.submit(drive.now(), QueueId(1), write).unwrap();
    drive.advance(Time::from_ns(100_000));
    assert_eq!(drive.save_state(&mut |_| {}), Err(StateError::Busy));
    let mut rest = &saved[..];
    let read = &mut |wanted: &mut [u8]| {
        let (piece, after) = rest.split_at(wanted.len());
        wanted.copy_from_slice(piece);
        rest = after;
        true
    };
    assert_eq!(drive.restore_state(read), Err(StateError::Used));
    let mut other = config.clone();
    other.geometry.blocks_per_plane *= 2;
    assert!(matches!(restored(&other, &saved), Err(StateError::OtherShape(_))));
    let mut newer = saved.clone();
    newer[0] = 99;
    assert!(matches!(restored(&config, &newer), Err(StateError::Layout(99))));
}

/// A drive with superblocks that has been overwritten, as bytes.
fn with_superblocks() -> (Config, Vec<u8>) {
    let mut config = small();
    config.gc.unit = CollectionUnit::Superblock;
    config.placement = Placement::Striped;
    let saved = used(&config, 6000);
    (config, saved)
}

/// The superblock of each block, one more than its number, or 0: where in `saved` they begin,
/// and what they are. They are the last that there is of each block.
fn superblocks(config: &Config, saved: &[u8]) -> (usize, Vec<u32>) {
    let geometry = &config.geometry;
    let blocks = (geometry.planes() * geometry.blocks_per_plane) as usize;
    let count = (blocks as u64).to_le_bytes();
    let starts = (0..saved.len() - 8 - 4 * blocks).step_by(4);
    let at = starts.rev().find(|&at| saved[at..at + 8] == count).unwrap() + 8;
    let words = saved[at..at + 4 * blocks].chunks_exact(4);
    (at, words.map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
}

#[test]
fn superblocks_of_other_blocks_than_those_in_use_are_refused() {
    let (config, saved) = with_superblocks();
    let (at, of_block) = superblocks(&config, &saved);
    let in_plane = &of_block[..config.geometry.blocks_per_plane as usize];
    let find = |fits: &dyn Fn(u32) -> bool| in_plane.iter().position(|&id| fits(id)).unwrap();
    let (member, free) = (find(&|id| id > 0), find(&|id| id == 0));
    restored(&config, &saved).unwrap();
    let changed = |changes: &[(usize, u32)]| {
        let mut saved = saved.clone();
        for &(block, id) in changes {
            saved[at + 4 * block..][..4].copy_from_slice(&id.to_le_bytes());
        }
        restored(&config, &saved).map(|drive| drive.state_hash())
    };
    let damaged = Err(StateError::Damaged("superblocks".into()));
    // A free block in place of one with data; one with data in no superblock.
    assert_eq!(changed(&[(member, 0), (free, of_block[member])]), damaged);
    assert_eq!(changed(&[(member, 0)]), damaged);
    // Another block with data instead is another state.
    let others = in_plane.iter().enumerate().filter(|(_, id)| **id > 0);
    let hash = restored(&config, &saved).unwrap().state_hash();
    let exchanged = others.map(|(other, &id)| {
        changed(&[(member, id), (other, of_block[member])]).map(|here| (other, here))
    });
    let accepted: Vec<_> = exchanged.filter_map(Result::ok).collect();
    assert!(accepted.len() > 1);
    for (other, here) in accepted {
        assert_eq!(here == hash, other == member, "block {other}");
    }
}

#[test]
fn what_is_hot_is_part_of_the_state() {
    let mut config = small();
    config.cache = None;
    config.gc.frontiers = WriteFrontiers::HotCold(HotData::DEFAULT);
    let mut drive = Drive::new(config.clone()).unwrap();
    let saved = bytes(&mut drive);
    let hash = drive.state_hash();
    assert_eq!(restored(&config, &saved).unwrap().state_hash(), hash);
    // The highest counts, which counts are halved next, and when.
    for from_end in [20, 16, 8] {
        let mut changed = saved.clone();
        changed[saved.len() - from_end] = 1;
        assert_ne!(restored(&config, &changed).unwrap().state_hash(), hash, "{from_end}");
    }
}

/// A cache of 16 units of which 8 may stay dirty.
fn lazy() -> Config {
    let mut config = small();
    config.geometry.channels = 1;
    config.geometry.chips_per_channel = 1;
    config.geometry.planes_per_die = 1;
    config.cache = Some(cache());
    if let Some(cache) = &mut config.cache {
        cache.bytes = 16 * 4096;
        cache.write_back = WriteBack::Lru { high: 0.5 };
    }
    config
}

#[test]
fn dirty_data_stay_in_the_cache_and_leave_in_their_order() {
    let config = lazy();
    let mut first = Drive::new(config.clone()).unwrap();
    queue(&mut first);
    let write = |unit: u64| (Operation::Write, unit * 8, 8);
    // Eight units rest; the second is written again, and is the newest then.
    run(&mut first, &(0..8).chain([1]).map(write).collect::<Vec<_>>());
    assert!(first.is_at_rest());
    assert_eq!(first.counters().flash_units_programmed, 0);
    first.control(first.now(), Control::Reset).unwrap();
    let saved = bytes(&mut first);
    let mut second = restored(&config, &saved).unwrap();
    queue(&mut second);
    assert!((0..8).all(|unit| second.holds_data(NamespaceId(1), unit)));
    // Nothing of it has to be read from flash.
    run(&mut second, &(0..8).map(|unit| (Operation::Read, unit * 8, 8)).collect::<Vec<_>>());
    assert_eq!(second.counters().flash_reads, 0);
    // A ninth unit: the oldest, 0, leaves, and waits for another to fill its page of two. A tenth:
    // 2 leaves, since 1 is newer, and the page is programmed.
    run(&mut second, &[write(8)]);
    assert_eq!(second.counters().flash_units_programmed, 0);
    second.control(second.now(), Control::Reset).unwrap();
    let saved = bytes(&mut second);
    let mut third = restored(&config, &saved).unwrap();
    queue(&mut third);
    run(&mut third, &[write(9)]);
    assert_eq!(third.counters().flash_units_programmed, 2);
    // The power fails: what was dirty is lost, and 0 and 2 are not.
    third.control(third.now(), Control::PowerCut).unwrap();
    let mut lost: Vec<u64> = third.take_lost_units().into_iter().map(|(_, unit)| unit).collect();
    lost.sort_unstable();
    assert_eq!(lost, [1, 3, 4, 5, 6, 7, 8, 9]);
    third.check().unwrap();
}

#[test]
fn blocks_of_any_age_are_restored() {
    // The clock of ages has counted the translation pages that were put in place; of blocks filled
    // shortly before, half of the stamp's bits are ones.
    let mut config = small();
    config.mapping.table = MappingTable::Cached(cached_table(16 << 10));
    (config.geometry.channels, config.geometry.chips_per_channel) = (1, 1);
    (config.geometry.dies_per_chip, config.geometry.planes_per_die) = (1, 1);
    (config.geometry.blocks_per_plane, config.geometry.pages_per_block) = (256, 4);
    config.gc.victim = VictimPolicy::Fifo;
    for seed in 0..200 {
        config.seed = seed;
        let mut drive = Drive::new(config.clone()).unwrap();
        let units = drive.namespace_sectors(NamespaceId(1)).unwrap() / 8;
        let class = UpdateClass {
            placement: Default::default(),
            first: 0,
            units,
            weight: 1.0,
            order: Order::UNIFORM,
            write_share: 1.0,
            saturated: false,
            units_per_s: 0.0,
            together: 1,
            trims_per_write: 0.0,
        };
        drive
            .precondition(&[Occupancy { namespace: NamespaceId(1), classes: vec![class] }])
            .unwrap();
        let saved = bytes(&mut drive);
        let again = restored(&config, &saved).unwrap();
        assert_eq!(again.state_hash(), drive.state_hash(), "seed {seed}");
    }
}

#[test]
fn a_run_in_two_parts_is_the_run_in_one() {
    // Where the drive comes to rest between requests, saving it changes nothing: each takes what
    // it takes in the run that was never saved.
    let mut config = lazy();
    if let Some(cache) = &mut config.cache {
        cache.mode = CacheMode::Both;
        cache.dram.rows = RowPolicy::Open { banks: 2 };
    }
    let seeds: Vec<u64> = (0..1000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let requests = requests(&seeds, 40);
    let alone = |drive: &mut Drive, requests: &[(Operation, u64, u32)]| -> Vec<Span> {
        requests.iter().map(|&request| run(drive, &[request])[0].0).collect()
    };
    let mut whole = Drive::new(config.clone()).unwrap();
    queue(&mut whole);
    let expected = alone(&mut whole, &requests);
    let mut drive = Drive::new(config.clone()).unwrap();
    let mut taken = vec![];
    for part in requests.chunks(70) {
        queue(&mut drive);
        taken.extend(alone(&mut drive, part));
        drive.control(drive.now(), Control::Reset).unwrap();
        let saved = bytes(&mut drive);
        drive = restored(&config, &saved).unwrap();
    }
    assert!(taken == expected, "they differ");
    assert_eq!(drive.state_hash(), whole.state_hash());
}

#[test]
fn what_flin_knows_of_flows_is_part_of_the_state() {
    let mut config = small();
    config.scheduler.flin = Some(Flin {
        epoch: Span::from_ms(10),
        read_bytes_per_s: 0,
        write_bytes_per_s: 0,
        fairness: 0.6,
        divides_collection: true,
    });
    let mut drive = Drive::new(config.clone()).unwrap();
    queue(&mut drive);
    // Three pages to the first die by one flow: two planes at once, and then one.
    let writes: Vec<_> = (0..1).map(|unit| (Operation::Write, unit * 8, 16)).collect();
    run(&mut drive, &writes);
    drive.control(drive.now(), Control::Reset).unwrap();
    let saved = bytes(&mut drive);
    // Of each flow, kind and die four numbers, and one of each die. The flow's writes to die 0
    // come after two holders without flows, and its own reads.
    let dies = 4;
    let shares = 2 * dies * (2 + 4);
    let at = saved.len() - 8 * (4 * shares + dies);
    let number = |at: usize| u64::from_le_bytes(saved[at..at + 8].try_into().unwrap());
    assert_eq!(number(at - 8), shares as u64);
    let of_flow = at + 8 * 4 * (2 * dies * 2 + dies);
    // Two units of 4 KiB, which were alone: each was slowed down by nothing but the other, as it
    // would have been. No collection yet.
    assert_eq!(number(of_flow), 8192);
    assert_eq!((number(of_flow + 16), number(of_flow + 24)), (2, 2));
    let mut other = restored(&config, &saved).unwrap();
    assert!(bytes(&mut other)[at..] == saved[at..]);
    for (from, to) in [(of_flow + 8, f64::NAN.to_bits()), (of_flow, 1 << 61), (at - 8, 1)] {
        let mut changed = saved.clone();
        changed[from..from + 8].copy_from_slice(&to.to_le_bytes());
        assert!(matches!(restored(&config, &changed), Err(StateError::Damaged(_))), "{from}");
    }
}
