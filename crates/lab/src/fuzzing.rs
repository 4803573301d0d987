//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. Nothing here may panic, hang or allocate without bound.

use crate::key_space::KeySpace;
use crate::recording::{Recording, SCHEMA_PAIRS};
use crate::saved_state;
use mynah_model::Drive;
use mynah_model::config::Config;
use mynah_model::io::*;
use mynah_model::keys::{Decision, KeyOperation, KeyRequest, PairId, PairToFill};
use mynah_model::precondition::{Occupancy, Order, UpdateClass};
use mynah_stamp::Span;
use mynah_workload::key_value::{KeySize, key_token};
use mynah_workload::trace::Remap;
use std::path::Path;
use std::sync::OnceLock;

/// Reads an SSD configuration and a workload of MQSim; a zero byte separates them.
pub fn mqsim_files(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let config = parts.next().unwrap_or_default();
    let workload = parts.next().unwrap_or_default();
    for as_mqsim in [false, true] {
        let _ =
            crate::mqsim::parse(("ssdconfig.xml", config), ("workload.xml", workload), as_mqsim);
    }
}

/// Fuzz target: reads an experiment file.
pub fn experiment_file(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = crate::experiment::Experiment::parse_points("fuzz.toml", text);
    }
}

/// The small drives that recordings are replayed on: one of blocks, and one with both kinds of
/// namespaces.
pub const RECORDED: [(&str, &[&str]); 2] = [
    ("enterprise-tlc", &["geometry.blocks_per_plane=64", "geometry.channels=1"]),
    (
        "kv-tlc",
        &[
            "geometry.channels=1",
            "geometry.chips_per_channel=1",
            "geometry.dies_per_chip=1",
            "geometry.blocks_per_plane=40",
            "geometry.pages_per_block=24",
            "cache.size=256KiB",
            "over_provisioning=60%",
            "kv.value_max=64KiB",
            "kv.index.dram=128KiB",
            // The corpus was recorded on such a drive.
            "kv.key_round_trip=0s",
            "namespace.0.size=8MiB",
            "namespace.0.kind=kv",
            "namespace.1.size=4MiB",
            "namespace.1.kind=block",
        ],
    ),
];

/// Opens a recording, replays it on a small drive, and gives its commands to another. Those with
/// key-value commands get a drive for them; so do some others.
pub fn recording(data: &[u8]) {
    let path = Path::new("fuzz.rec");
    let open = || Recording::read(path, Box::new(std::io::Cursor::new(data.to_vec())));
    let Ok(opened) = open() else { return };
    let of_pairs = opened.header().schema == SCHEMA_PAIRS;
    let (name, overrides) = RECORDED[usize::from(of_pairs || data.len().is_multiple_of(3))];
    let overrides: Vec<String> = overrides.iter().map(|set| set.to_string()).collect();
    let drive = || {
        let drive = mynah_drive_file::load(name, &overrides).ok()?;
        Drive::new(drive.config).ok()
    };
    let prepare = |recording: &mut Recording, drive: &mut Drive| {
        recording.lay_pairs(Some(drive)).is_ok() && recording.warm(drive).is_ok()
    };
    if let (Ok(mut recording), Some(mut drive)) = (open(), drive())
        && prepare(&mut recording, &mut drive)
    {
        let _ = recording.replay(&mut drive, |_, _| true);
        let _ = recording.pairs_seen(&drive);
    }
    if let (Ok(mut recording), Some(mut drive)) = (open(), drive())
        && prepare(&mut recording, &mut drive)
    {
        let mut left = 10_000;
        let remap = if data.len().is_multiple_of(2) { Remap::Refuse } else { Remap::Modulo };
        let _ = recording.resimulate(&mut drive, remap, |_, _| {
            left -= 1;
            left > 0
        });
    }
}

/// What the drives whose states are read differ in: each part of a state is in one of them.
const TINY_DRIVES: [&[&str]; 13] = [
    &[],
    &["gc.unit=superblock", "allocation.placement=striped", "gc.victim=cost-benefit"],
    &["gc.write_frontiers=hot-cold", "gc.victim=fifo"],
    &["gc.unit=superblock", "gc.write_frontiers=hot-cold", "gc.hot.counters=64"],
    &["wear.dynamic=true", "wear.static_threshold=2", "wear.endurance=50"],
    &["cache.mode=both", "cache.size=64KiB", "gc.write_frontiers=one"],
    &["allocation.placement=least-loaded", "gc.victim=random++"],
    &["mapping.kind=hybrid", "mapping.log_blocks=3"],
    &["cache.size=64KiB", "cache.write_back=lru", "cache.sharing=per-flow", "cache.mode=both"],
    &[
        "mapping.unit=4KiB",
        "over_provisioning=60%",
        "cache.size=64KiB",
        "cache.dram.rows=open",
        "cache.dram.banks=2",
        "gc.write_frontiers=hot-cold",
    ],
    &[
        "mapping.unit=4KiB",
        "over_provisioning=60%",
        "cache.size=64KiB",
        "cache.write_back=lru",
        "scheduler.flin.fairness=50%",
    ],
    &[
        "mapping.unit=4KiB",
        "namespace.0.kind=kv",
        "over_provisioning=75%",
        "kv.value_max=64KiB",
        "allocation.placement=striped",
        "cache.size=64KiB",
        "kv.index.kind=dynamic-hash",
        "kv.index.dram=64KiB",
    ],
    &[
        "mapping.unit=4KiB",
        "namespace.0.kind=kv",
        "over_provisioning=75%",
        "kv.value_max=64KiB",
        "allocation.placement=least-loaded",
        "kv.index.kind=lsm",
        "kv.index.dram=128KiB",
        "kv.index.memtable=4KiB",
    ],
];
/// The one of them with hybrid mapping. Those after it are saved with what is dirty in the cache.
const HYBRID: usize = 7;

/// The drive of a few hundred pages with this number.
fn tiny_drive(number: usize) -> Option<Drive> {
    // Reading a drive file takes longer than all that is done with the drive.
    static CONFIGS: [OnceLock<Option<Config>>; TINY_DRIVES.len()] =
        [const { OnceLock::new() }; TINY_DRIVES.len()];
    let read = || {
        let hybrid = number == HYBRID;
        let mut overrides = vec![
            "geometry.channels=1",
            "geometry.chips_per_channel=1",
            "geometry.dies_per_chip=2",
            "geometry.planes_per_die=1",
            "geometry.blocks_per_plane=32",
            "geometry.pages_per_block=8",
            "over_provisioning=50%",
            if hybrid { "mapping.unit=8KiB" } else { "mapping.cmt.size=8KiB" },
        ];
        overrides.extend(TINY_DRIVES[number]);
        let overrides: Vec<String> = overrides.into_iter().map(String::from).collect();
        Some(mynah_drive_file::load("mqsim", &overrides).ok()?.config)
    };
    Drive::new(CONFIGS[number].get_or_init(read).clone()?).ok()
}

/// Reads a saved state. The first byte says of which drive, and what follows: bytes that are read
/// as a file, and as the part of a file that is the model's; or, with its highest bit, changes to
/// a state that is right, each the number of a four-byte word (three bytes) and what it becomes.
pub fn saved_state(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let number = usize::from(first & 0x7f) % TINY_DRIVES.len();
    if first & 0x80 != 0 {
        let Some(mut state) = sample(number) else { return };
        let words = (state.len() / 4).max(1);
        for change in data.chunks_exact(7) {
            let word = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % words;
            state[word * 4..][..4].copy_from_slice(&change[3..]);
        }
        restores(number, &state);
        return;
    }
    if let Some(mut drive) = tiny_drive(number) {
        let path = Path::new("fuzz.state");
        let _ = saved_state::read(&mut drive, path, data, data.len() as u64);
    }
    restores(number, data);
}

/// Whether the drive with this number takes `data`, to the last byte, as its state. If it does
/// it is written to.
fn restores(number: usize, data: &[u8]) -> bool {
    let Some(mut drive) = tiny_drive(number) else { return false };
    let mut left = data;
    let restored = drive.restore_state(&mut |bytes| {
        let Some((taken, rest)) = left.split_at_checked(bytes.len()) else { return false };
        bytes.copy_from_slice(taken);
        left = rest;
        true
    });
    if restored.is_err() {
        return false;
    }
    if drive.pair_counts(NamespaceId(1)).is_some() {
        let size = KeySize::Fixed(16);
        let space = KeySpace::restore(NamespaceId(1), size, &drive, &mut |bytes| {
            let Some((taken, rest)) = left.split_at_checked(bytes.len()) else { return false };
            bytes.copy_from_slice(taken);
            left = rest;
            true
        });
        store(&mut drive);
        return space.is_ok() && left.is_empty();
    }
    write(&mut drive);
    left.is_empty()
}

fn create_queue(drive: &mut Drive) {
    let queue = Queue {
        id: QueueId(1),
        kind: QueueKind::Fetched,
        flow: FlowId(0),
        priority: Default::default(),
        completion_entries: 64,
    };
    drive.control(drive.now(), Control::CreateQueue(queue)).expect("a new queue");
}

/// Stores, reads and deletes a few pairs of `drive`, as long as it answers.
fn store(drive: &mut Drive) {
    let namespace = NamespaceId(1);
    create_queue(drive);
    for number in 0..200u32 {
        let operation = match number % 4 {
            0 | 1 => KeyOperation::Store,
            2 => KeyOperation::Retrieve,
            _ => KeyOperation::Delete,
        };
        let pair = PairId(number.wrapping_mul(0x9e37_79b1) >> 8 & 63);
        let request = KeyRequest {
            tag: Tag(number),
            operation,
            namespace,
            token: key_token(pair.0.into(), 16),
            key_bytes: 16,
            bytes: 3000 + number,
        };
        drive.key_command(drive.now(), QueueId(1), request).expect("a command of its queue");
        let end = drive.now() + Span::from_ms(20);
        while let Some(at) = drive.next_at().filter(|at| *at <= end) {
            drive.advance(at);
            while let Some(output) = drive.poll() {
                let Output::Decide { at, tag, .. } = output else { continue };
                let stores = operation == KeyOperation::Store;
                let decision = match stores || drive.has_pair(namespace, pair) {
                    true => Decision::Pair { pair, bytes: 1000 },
                    false => Decision::Absent,
                };
                drive.decided(at, tag, decision).expect("it waits for that");
            }
        }
    }
    drive.check().expect("the invariants hold");
}

/// Writes and reads a few units of `drive`, as long as it answers.
fn write(drive: &mut Drive) {
    let namespace = NamespaceId(1);
    let sectors = drive.namespace_sectors(namespace).expect("it has one");
    create_queue(drive);
    for number in 0..300u32 {
        let operation = if number % 4 == 3 { Operation::Read } else { Operation::Write };
        // A multiplier that visits all units in no order.
        let sector = u64::from(number.wrapping_mul(0x9e37_79b1) >> 8) * 8 % (sectors - 8);
        let request = Request {
            placement: Default::default(),
            tag: Tag(number),
            operation,
            namespace,
            sector,
            sectors: 8,
        };
        drive.command(drive.now(), QueueId(1), request).expect("a command of its queue");
        let end = drive.now() + Span::from_ms(20);
        while let Some(at) = drive.next_at().filter(|at| *at <= end) {
            drive.advance(at);
            while drive.poll().is_some() {}
        }
    }
    drive.check().expect("the invariants hold");
}

/// The model's part of a state that the drive with this number takes. `None` if it takes none.
fn sample(number: usize) -> Option<Vec<u8>> {
    static SAMPLES: [OnceLock<Option<Vec<u8>>>; TINY_DRIVES.len()] =
        [const { OnceLock::new() }; TINY_DRIVES.len()];
    let made = || {
        let mut drive = tiny_drive(number)?;
        let namespace = NamespaceId(1);
        if drive.pair_counts(namespace).is_some() {
            return pairs_sample(drive);
        }
        let unit_sectors = u64::from(drive.config().mapping.unit_bytes / 512);
        let units = drive.namespace_sectors(namespace)? / unit_sectors;
        let class = UpdateClass {
            placement: Default::default(),
            first: 0,
            units,
            weight: 1.0,
            order: Order::UNIFORM,
            write_share: 1.0,
            saturated: true,
            units_per_s: 0.0,
            together: 1,
            trims_per_write: 0.0,
        };
        let occupancy = [Occupancy { namespace, classes: vec![class] }];
        drive.precondition_with(&occupancy, &[]).ok()?;
        if number > HYBRID {
            // What is dirty in the cache, and what FLIN knows.
            write(&mut drive);
            drive.control(drive.now(), Control::Reset).ok()?;
            while let Some(at) = drive.next_at() {
                drive.advance(at);
                while drive.poll().is_some() {}
            }
        }
        let mut bytes = Vec::new();
        drive.save_state(&mut |piece| bytes.extend_from_slice(piece)).ok()?;
        Some(bytes)
    };
    SAMPLES[number].get_or_init(made).clone()
}

/// The same of a drive of pairs, with their keys behind it.
fn pairs_sample(mut drive: Drive) -> Option<Vec<u8>> {
    let pairs = (0..50u32).map(|number| PairToFill {
        pair: PairId(number),
        token: key_token(number.into(), 16),
        key_bytes: 16,
        value_bytes: 1000 + 100 * number,
    });
    drive.fill_pairs(NamespaceId(1), pairs).ok()?;
    let mut bytes = Vec::new();
    drive.save_state(&mut |piece| bytes.extend_from_slice(piece)).ok()?;
    bytes.extend(50u64.to_le_bytes());
    for number in 0..50u32 {
        bytes.extend(u64::from(number).to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend((1000 + 100 * number).to_le_bytes());
    }
    bytes.extend(0u64.to_le_bytes());
    Some(bytes)
}

/// What [`saved_state`] reads as states that its drives take, one of each. `None` if one takes
/// none.
pub fn saved_state_samples() -> Option<Vec<Vec<u8>>> {
    let all = (0..TINY_DRIVES.len()).map(|number| {
        let state = sample(number).filter(|state| restores(number, state))?;
        Some([&[number as u8][..], &state].concat())
    });
    all.collect()
}
