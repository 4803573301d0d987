//! Abort, firmware, namespace management and attachment; logs.

use crate::support::*;
use mynah_device::store::DESCRIPTION_BYTES_MAX;
use mynah_device::{
    NamespaceConfig, NamespaceContent, Queue, RamStore, Shard, Subsystem, SubsystemConfig,
    SubsystemError, Timing,
};
use mynah_model::Drive;
use mynah_stamp::Span;
use mynah_wire::nvme::identify::{IdentifyController, IdentifyNamespace, cns};
use mynah_wire::nvme::log::{MynahDrive, MynahLateness, Smart, page};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::{FromBytes, IntoBytes};

const OTHER: &str = "nqn.2026-11.test:other";

fn management(namespace: u32, select: u32) -> SubmissionEntry {
    let mut entry = entry(admin::NAMESPACE_MANAGEMENT, namespace);
    entry.dword10.set(select);
    entry
}

fn attachment(namespace: u32, select: u32) -> SubmissionEntry {
    let mut entry = entry(admin::NAMESPACE_ATTACHMENT, namespace);
    entry.dword10.set(select);
    entry
}

fn list(ids: &[u16]) -> Vec<u8> {
    let mut bytes = (ids.len() as u16).to_le_bytes().to_vec();
    bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    bytes
}

fn wish(blocks: u64, format: u8, shared: bool) -> IdentifyNamespace {
    let mut wish = IdentifyNamespace { format, multipath: u8::from(shared), ..Default::default() };
    wish.size.set(blocks);
    wish.capacity.set(blocks);
    wish
}

fn ids(page: &[u8]) -> Vec<u32> {
    let all = page.chunks_exact(4).map(|id| u32::from_le_bytes(id.try_into().unwrap()));
    all.take_while(|&id| id != 0).collect()
}

/// Three megabytes in one namespace, the rest free.
fn roomy() -> World {
    World::with(
        Timing::Modelled,
        |config| {
            config.namespaces = vec![NamespaceConfig {
                bytes: Some(3 << 20),
                content: NamespaceContent::Blocks(512),
                handles: vec![],
            }];
            config.limits.namespaces_max = 4;
        },
        |_| {},
    )
}

fn create(world: &mut World, admin: Queue, wish: &IdentifyNamespace) -> Result<u32, Status> {
    let (reply, _) = world.call(admin, management(0, 0), wish.as_bytes());
    match reply.status().is_success() {
        true => Ok(reply.result.get() as u32),
        false => Err(plain(reply.status())),
    }
}

/// Three parts of one subsystem: each has identifiers of its own, and none is used twice.
#[test]
fn parts_of_a_subsystem_share_no_identifier() {
    let (mut namespaces, mut controllers, mut guids) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..3 {
        let change = |config: &mut SubsystemConfig| {
            config.shard = Shard { index, of: 3 };
            config.namespaces = vec![
                NamespaceConfig {
                    bytes: Some(1 << 20),
                    content: NamespaceContent::Blocks(512),
                    handles: vec![],
                };
                2
            ];
            config.limits.namespaces_max = 12;
        };
        let mut world = World::with(Timing::Immediate, change, |_| {});
        let (admin, io, id) = world.host();
        let (_, other) = world.admin_as(OTHER, SUBSYSTEM);
        controllers.extend([id, other]);
        let first = u32::from(index) + 1;
        assert_eq!(create(&mut world, admin, &wish(100, 0, true)), Ok(first + 6));
        assert_eq!(world.status(admin, management(first + 3, 1), &[]), Status::SUCCESS);
        assert_eq!(create(&mut world, admin, &wish(100, 0, true)), Ok(first + 3), "free again");
        assert_eq!(create(&mut world, admin, &wish(100, 0, true)), Ok(first + 9));
        let refused = create(&mut world, admin, &wish(100, 0, true));
        assert_eq!(refused, Err(Status::NAMESPACE_ID_UNAVAILABLE), "four of twelve are its own");
        let its_own = ids(&world.identify(admin, cns::ALLOCATED_NAMESPACES, 0));
        for &namespace in &its_own {
            guids.push(
                world.identify(admin, cns::ALLOCATED_NAMESPACE, namespace)[104..120].to_vec(),
            );
        }
        namespaces.extend(its_own);
        let page = world.identify(admin, cns::CONTROLLER, 0);
        assert_eq!(page[76] & 1, 1, "there are ports beside its own");
        assert_eq!(world.status(io, blocks(nvm::READ, first, 0, 1), &[]), Status::SUCCESS);
        let others = blocks(nvm::READ, first % 3 + 1, 0, 1);
        assert_eq!(world.status(io, others, &[]), Status::INVALID_NAMESPACE);
    }
    namespaces.sort_unstable();
    assert_eq!(namespaces, (1..=12).collect::<Vec<_>>());
    controllers.sort_unstable();
    assert_eq!(controllers, (1..=6).collect::<Vec<_>>());
    guids.sort();
    guids.dedup();
    assert_eq!(guids.len(), 12);
    let build = |change: fn(&mut SubsystemConfig)| {
        let mut config = SubsystemConfig::new(SUBSYSTEM);
        change(&mut config);
        Subsystem::new(config, Drive::new(small()).unwrap(), Box::new(RamStore::new())).err()
    };
    let none = Shard { index: 3, of: 3 };
    assert_eq!(
        build(|config| config.shard = Shard { index: 3, of: 3 }),
        Some(SubsystemError::Shard(none))
    );
    let too_many = build(|config| {
        config.shard = Shard { index: 2, of: 3 };
        config.limits.namespaces_max = 4;
        config.namespaces = vec![
            NamespaceConfig {
                bytes: Some(1 << 20),
                content: NamespaceContent::Blocks(512),
                handles: vec![]
            };
            2
        ];
    });
    assert_eq!(too_many, Some(SubsystemError::TooManyNamespaces(6, 4)));
}

#[test]
fn namespaces_come_and_go() {
    let mut world = roomy();
    let (admin, io, id) = world.host();
    let (other_admin, other_io, other) = world.host_as(OTHER);
    let free = world.subsystem.allocated_bytes();
    assert_eq!(free, 3 << 20);
    assert_eq!(create(&mut world, admin, &wish(0, 0, true)), Err(Status::INVALID_FIELD));
    let thin = IdentifyNamespace { capacity: 1.into(), ..wish(100, 0, true) };
    let refused = create(&mut world, admin, &thin);
    assert_eq!(refused, Err(Status::THIN_PROVISIONING_UNSUPPORTED));
    assert_eq!(create(&mut world, admin, &wish(100, 5, true)), Err(Status::FORMAT_INVALID));
    for blocks in [1 << 20, 1 << 40, u64::MAX] {
        let refused = create(&mut world, admin, &wish(blocks, 0, true));
        assert_eq!(refused, Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY));
    }
    let events = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
    world.call(admin, set_feature(0x0b, 1 << 8), &[]);
    assert_eq!(create(&mut world, admin, &wish(100, 1, true)), Ok(2));
    assert_eq!(world.subsystem.allocated_bytes(), (3 << 20) + 100 * 4096);
    assert_eq!(ids(&world.identify(admin, cns::ALLOCATED_NAMESPACES, 0)), [1, 2]);
    assert_eq!(ids(&world.identify(admin, cns::ACTIVE_NAMESPACES, 0)), [1]);
    assert_eq!(world.identify(admin, cns::NAMESPACE, 2), vec![0; 4096], "inactive");
    assert_eq!(world.identify(admin, cns::ALLOCATED_NAMESPACE, 2)[..8], 100u64.to_le_bytes());
    assert_eq!(world.status(io, blocks(nvm::READ, 2, 0, 1), &[]), Status::INVALID_NAMESPACE);
    // Attached to one controller.
    for (namespace, select, list, expected) in [
        (9, 0, list(&[id]), Status::INVALID_NAMESPACE),
        (2, 0, list(&[]), Status::CONTROLLER_LIST_INVALID),
        (2, 0, list(&[id, 999]), Status::CONTROLLER_LIST_INVALID),
        (2, 0, vec![2, 0, 1, 0], Status::SGL_DATA_LENGTH_INVALID),
        (2, 2, list(&[id]), Status::INVALID_FIELD),
        (2, 1, list(&[id]), Status::NAMESPACE_NOT_ATTACHED),
        (2, 0, list(&[id]), Status::SUCCESS),
        (2, 0, list(&[id]), Status::NAMESPACE_ALREADY_ATTACHED),
    ] {
        let entry = attachment(namespace, select);
        assert_eq!(world.status(admin, entry, &list), expected, "{namespace} {list:?}");
    }
    let (event, _) = world.reply_now(admin, events).expect("an event");
    assert_eq!(event.entry.result.get(), 0x04_0002);
    assert_eq!(ids(&world.log(admin, page::CHANGED_NAMESPACES, 4096)), [2]);
    assert!(ids(&world.log(admin, page::CHANGED_NAMESPACES, 4096)).is_empty());
    assert_eq!(world.identify(admin, cns::NAMESPACE_CONTROLLERS, 2)[..4], [1, 0, id as u8, 0]);
    let data = pattern(1, 4096);
    assert_eq!(world.status(io, blocks(nvm::WRITE, 2, 99, 1), &data), Status::SUCCESS);
    let past_end = blocks(nvm::WRITE, 2, 100, 1);
    assert_eq!(world.status(io, past_end, &data), Status::LBA_OUT_OF_RANGE);
    let stranger = world.status(other_io, blocks(nvm::READ, 2, 99, 1), &[]);
    assert_eq!(stranger, Status::INVALID_NAMESPACE);
    // Detached, attached to the other.
    assert_eq!(world.status(admin, attachment(2, 1), &list(&[id])), Status::SUCCESS);
    assert_eq!(world.status(admin, attachment(2, 0), &list(&[other])), Status::SUCCESS);
    assert_eq!(world.call(other_io, blocks(nvm::READ, 2, 99, 1), &[]).1, data);
    // A private one has one controller.
    assert_eq!(create(&mut world, other_admin, &wish(8, 0, false)), Ok(3));
    let both = list(&[id, other]);
    assert_eq!(world.status(admin, attachment(3, 0), &both), Status::NAMESPACE_PRIVATE);
    assert_eq!(world.status(admin, attachment(3, 0), &list(&[id])), Status::SUCCESS);
    assert_eq!(create(&mut world, admin, &wish(8, 0, false)), Ok(4));
    let full = create(&mut world, admin, &wish(8, 0, false));
    assert_eq!(full, Err(Status::NAMESPACE_ID_UNAVAILABLE));
    // Deleted, with everything in it; a new one in its place is another.
    let before = world.identify(other_admin, cns::NAMESPACE_DESCRIPTORS, 2);
    assert_eq!(world.status(admin, management(2, 1), &[]), Status::SUCCESS);
    assert_eq!(world.status(admin, management(2, 1), &[]), Status::INVALID_NAMESPACE);
    let gone = world.status(other_io, blocks(nvm::READ, 2, 99, 1), &[]);
    assert_eq!(gone, Status::INVALID_NAMESPACE);
    assert_eq!(create(&mut world, admin, &wish(100, 1, true)), Ok(2));
    world.call(admin, attachment(2, 0), &list(&[other]));
    assert_eq!(world.call(other_io, blocks(nvm::READ, 2, 99, 1), &[]).1, vec![0; 4096]);
    assert_ne!(world.identify(other_admin, cns::NAMESPACE_DESCRIPTORS, 2), before);
    let all = management(u32::MAX, 1);
    assert_eq!(world.status(admin, all, &[]), Status::SUCCESS);
    assert_eq!(world.subsystem.allocated_bytes(), 0);
}

#[test]
fn a_namespace_in_pieces_works_like_any_other() {
    let mut world = roomy();
    let (admin, io, id) = world.host();
    let left = (world.identify(admin, cns::CONTROLLER, 0)[296..304].try_into())
        .map(u64::from_le_bytes)
        .unwrap();
    // Two pieces of free space that do not touch.
    assert_eq!(create(&mut world, admin, &wish(64, 0, true)), Ok(2));
    assert_eq!(create(&mut world, admin, &wish(left / 512 - 64, 0, true)), Ok(3));
    world.call(admin, management(1, 1), &[]);
    world.call(admin, management(3, 1), &[]);
    let blocks_of_rest = ((3 << 20) + left) / 512 - 64;
    assert_eq!(create(&mut world, admin, &wish(blocks_of_rest, 0, true)), Ok(1));
    world.call(admin, attachment(1, 0), &list(&[id]));
    // Over the seam, wherever it is.
    for start in (0..blocks_of_rest - 16).step_by(1000).chain([left / 512 - 72, (3 << 11) - 8]) {
        let data = pattern(start, 16 * 512);
        assert_eq!(world.status(io, write(start, 16), &data), Status::SUCCESS);
        assert_eq!(world.call(io, read(start, 16), &[]).1, data, "at {start}");
    }
}

#[test]
fn namespaces_outlive_the_process_with_their_store() {
    let kept = Description::default();
    let store = |before: Vec<u8>| Box::new(Kept::new(&kept, before));
    let two = |config: &mut SubsystemConfig| {
        config.namespaces = vec![
            NamespaceConfig {
                bytes: Some(1 << 20),
                content: NamespaceContent::Blocks(4096),
                handles: vec![]
            };
            2
        ];
    };
    let mut world = World::with_store(Timing::Immediate, two, |_| {}, store(vec![]));
    assert!(!world.subsystem.has_restored_namespaces());
    let (admin, _, id) = world.host();
    world.call(admin, management(1, 1), &[]);
    assert_eq!(create(&mut world, admin, &wish(64, 0, true)), Ok(1));
    world.call(admin, attachment(1, 0), &list(&[id]));
    world.call(admin, attachment(2, 1), &list(&[id]));
    let names = world.identify(admin, cns::NAMESPACE_DESCRIPTORS, 1);
    let description = kept.borrow().clone();
    let mut world = World::with_store(Timing::Immediate, two, |_| {}, store(description.clone()));
    assert!(world.subsystem.has_restored_namespaces());
    let (admin, _, _) = world.host();
    assert_eq!(ids(&world.identify(admin, cns::ACTIVE_NAMESPACES, 0)), [1]);
    assert_eq!(ids(&world.identify(admin, cns::ALLOCATED_NAMESPACES, 0)), [1, 2]);
    assert_eq!(world.identify(admin, cns::NAMESPACE_DESCRIPTORS, 1), names);
    assert_eq!(world.subsystem.namespace_blocks(1), Some(64));
    // A damaged description, or one of another drive, is not believed, and harms nobody.
    for cut in 0..description.len() {
        let world =
            World::with_store(Timing::Immediate, two, |_| {}, store(description[..cut].to_vec()));
        assert!(!world.subsystem.has_restored_namespaces(), "cut at {cut}");
        assert_eq!(world.subsystem.namespace_blocks(2), Some(256));
    }
    for at in 0..description.len() {
        for value in [0, 0xff] {
            let mut damaged = description.clone();
            damaged[at] = value;
            World::with_store(Timing::Immediate, two, |_| {}, store(damaged));
        }
    }
}

#[test]
fn configurations_that_are_refused() {
    let build = |change: &dyn Fn(&mut SubsystemConfig)| {
        let mut config = SubsystemConfig::new(SUBSYSTEM);
        change(&mut config);
        let drive = Drive::new(small()).unwrap();
        let built = Subsystem::new(config, drive, Box::new(RamStore::new()));
        built.err().map(|error| error.to_string())
    };
    assert_eq!(build(&|_| {}), None);
    let namespace = |bytes, block_bytes| NamespaceConfig {
        bytes,
        content: NamespaceContent::Blocks(block_bytes),
        handles: vec![],
    };
    for (change, message) in [
        (
            Box::new(|config: &mut SubsystemConfig| config.nqn = "iqn.x".into())
                as Box<dyn Fn(&mut SubsystemConfig)>,
            "`iqn.x` is no NVMe",
        ),
        (Box::new(|config| config.serial = "x".repeat(21)), "more than 20 characters"),
        (Box::new(move |config| config.namespaces = vec![namespace(None, 1024)]), "not 1024"),
        (
            Box::new(move |config| config.namespaces = vec![namespace(Some(1 << 40), 512)]),
            "namespace 1 wants",
        ),
        (
            Box::new(move |config| config.namespaces = vec![namespace(Some(4096), 512); 1025]),
            "1025 namespaces",
        ),
        (Box::new(|config| config.limits.queue_entries_max = 1), "between 2 and 65536"),
    ] {
        let error = build(&change).expect("an error");
        assert!(error.contains(message), "{error}");
    }
    // Shares of what is left.
    let mut world = World::with(
        Timing::Immediate,
        |config| {
            config.namespaces =
                vec![namespace(None, 512), namespace(Some(1 << 20), 4096), namespace(None, 512)];
        },
        |_| {},
    );
    let blocks = [1, 2, 3].map(|id| world.subsystem.namespace_blocks(id).unwrap());
    assert_eq!(blocks[1], 256);
    assert!(blocks[2] - blocks[0] < 16 && blocks[0] > 1000, "{blocks:?}");
    let (admin, io, _) = world.host();
    assert_eq!(ids(&world.identify(admin, cns::ACTIVE_NAMESPACES, 1)), [2, 3]);
    world.status(io, blocks_entry(3), &[3; 512]);
    assert_eq!(world.call(io, blocks_read(1), &[]).1, [0; 512]);
    assert_eq!(world.call(io, blocks_read(3), &[]).1, [3; 512]);
}

fn blocks_entry(namespace: u32) -> SubmissionEntry {
    blocks(nvm::WRITE, namespace, 0, 1)
}

fn blocks_read(namespace: u32) -> SubmissionEntry {
    blocks(nvm::READ, namespace, 0, 1)
}

#[test]
fn aborting() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, _) = world.host();
    let abort = |queue: u32, command: u16| {
        let mut abort = entry(admin::ABORT, 0);
        abort.dword10.set(queue | u32::from(command) << 16);
        abort
    };
    let request = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
    assert_eq!(world.call(admin, abort(0, request), &[]).0.result.get(), 0);
    let (reply, _) = world.reply_now(admin, request).expect("aborted");
    assert_eq!(plain(reply.entry.status()), Status::ABORT_REQUESTED);
    assert_eq!(world.call(admin, abort(0, request), &[]).0.result.get(), 1);
    assert_eq!(world.status(admin, abort(9, 1), &[]), Status::INVALID_FIELD);
    // Writes that wait for room in the cache can be called back.
    let data = pattern(1, 64 << 10);
    let ids: Vec<u16> = (0..20).map(|at| world.submit(io, write(at * 128, 128), &data)).collect();
    world.wait(Span::from_us(50));
    let last = ids[19];
    assert_eq!(world.call(admin, abort(1, last), &[]).0.result.get(), 0);
    let (reply, _) = world.reply_now(io, last).expect("aborted");
    assert_eq!(plain(reply.entry.status()), Status::ABORT_REQUESTED);
    assert_eq!(world.call(admin, abort(1, 9999), &[]).0.result.get(), 1);
    for id in &ids[..19] {
        assert!(world.reply(io, *id).0.entry.status().is_success());
    }
}

#[test]
fn firmware_is_what_it_is() {
    let mut world = World::new(Timing::Immediate);
    let (admin, ..) = world.host();
    let download = |offset: u32, dwords: u32| {
        let mut entry = entry(admin::FIRMWARE_IMAGE_DOWNLOAD, 0);
        entry.dword10.set(dwords - 1);
        entry.dword11.set(offset);
        entry
    };
    let commit = |slot: u32, action: u32| {
        let mut entry = entry(admin::FIRMWARE_COMMIT, 0);
        entry.dword10.set(slot | action << 3);
        entry
    };
    let image = [0; 4096];
    for (entry, expected) in [
        (commit(1, 2), Status::SUCCESS),
        (commit(1, 3), Status::SUCCESS),
        (commit(2, 2), Status::FIRMWARE_SLOT_INVALID),
        (commit(1, 0), Status::FIRMWARE_IMAGE_INVALID),
        (download(0, 1024), Status::SUCCESS),
        (download(1023, 1024), Status::FIRMWARE_RANGE_OVERLAP),
        (download(1024, 1024), Status::SUCCESS),
        (download(2048, 1025), Status::SGL_DATA_LENGTH_INVALID),
        (download(u32::MAX, 1024), Status::INVALID_FIELD),
        (commit(1, 3), Status::FIRMWARE_IMAGE_INVALID),
        (commit(1, 3), Status::SUCCESS),
    ] {
        assert_eq!(world.status(admin, entry, &image), expected, "{entry:?}");
    }
    let log = world.log(admin, page::FIRMWARE_SLOT, 512);
    assert_eq!((log[0], &log[8..13]), (1, env!("CARGO_PKG_VERSION").as_bytes()));
}

#[test]
fn counters_are_true() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, _) = world.host();
    for at in 0..5 {
        world.status(io, write(at * 256, 256), &pattern(at, 128 << 10));
    }
    for _ in 0..3 {
        world.status(io, read(0, 1), &[]);
    }
    world.status(io, read(u64::MAX, 1), &[]);
    world.wait(Span::from_secs(7200));
    let bytes = world.log(admin, page::SMART, 512);
    let smart = Smart::read_from_bytes(&bytes).unwrap();
    assert_eq!(smart.data_units_written.get(), 2, "1,280 sectors");
    assert_eq!(smart.data_units_read.get(), 1);
    assert_eq!((smart.host_writes.get(), smart.host_reads.get()), (5, 3));
    assert_eq!((smart.power_cycles.get(), smart.power_on_hours.get()), (1, 2));
    assert_eq!(smart.error_entries.get(), 1);
    assert_eq!((smart.media_errors.get(), smart.critical_warning), (0, 0));
    let errors = world.log(admin, page::ERROR_INFORMATION, 128);
    assert_eq!(errors[..8], 1u64.to_le_bytes());
    assert_eq!(errors[64..72], [0; 8]);
    let drive = MynahDrive::read_from_bytes(&world.log(admin, page::MYNAH_DRIVE, 256)).unwrap();
    assert_eq!((drive.unit_bytes.get(), drive.host_units_written.get()), (4096, 5 * 32));
    assert_eq!(
        drive.flash_units_programmed.get(),
        world.subsystem.drive().counters().flash_units_programmed
    );
    world.subsystem.record_lateness(Span::from_us(3), Span::from_ns(100));
    let log = world.log(admin, page::MYNAH_LATENESS, MynahLateness::BYTES as u32);
    let lateness = MynahLateness::read_from_bytes(&log).unwrap();
    assert_eq!((lateness.late.count.get(), lateness.late.max_ns.get()), (1, 3000));
    assert_eq!(lateness.uncertainty.sum_ns.get(), 100);
}

#[test]
fn log_pages_are_read_in_parts_and_bounded() {
    let mut world = World::new(Timing::Immediate);
    let (admin, ..) = world.host();
    let whole = world.log(admin, page::SUPPORTED_LOG_PAGES, 1024);
    let supported: Vec<u8> =
        (0..=255u8).filter(|&page| whole[usize::from(page) * 4] & 1 != 0).collect();
    assert_eq!(supported, [0, 1, 2, 3, 4, 5, 6, 9, 0x0c, 0x12, 0x80, 0x81, 0xc0, 0xc1, 0xc2]);
    // Whoever serves the subsystem answers the last one (`query.rs`).
    for at in (0..=255u8).filter(|&at| at != page::MYNAH_PROFILE) {
        let mut entry = log_page(at, 64, 0);
        entry.dword11.set(1 << 16);
        let expected =
            if supported.contains(&at) { Status::SUCCESS } else { Status::LOG_PAGE_INVALID };
        assert_eq!(world.status(admin, entry, &[]), expected, "page {at:#x}");
    }
    let part = world.call(admin, log_page(0, 512, 512), &[]).1;
    assert_eq!(part, whole[512..]);
    for (entry, expected) in [
        (log_page(0, 4, 1028), Status::INVALID_FIELD),
        (log_page(0, 4, 2), Status::INVALID_FIELD),
        (log_page(0, (128 << 10) + 4, 0), Status::INVALID_FIELD),
        (log_page(0, 4, u64::MAX - 3), Status::INVALID_FIELD),
    ] {
        assert_eq!(world.status(admin, entry, &[]), expected);
    }
    let past_end = world.call(admin, log_page(page::SMART, 1024, 0), &[]).1;
    assert_eq!(past_end[512..], [0; 512]);
    // The error log has 64 entries, whether there was an error or not.
    let mut world = World::new(Timing::Immediate);
    let (admin, ..) = world.host();
    for (offset, expected) in
        [(640, Status::SUCCESS), (64 * 64, Status::SUCCESS), (64 * 64 + 4, Status::INVALID_FIELD)]
    {
        let (reply, data) = world.call(admin, log_page(page::ERROR_INFORMATION, 64, offset), &[]);
        assert_eq!(plain(reply.status()), expected, "{offset}");
        assert!(data.iter().all(|&byte| byte == 0), "{offset}");
    }
}

#[test]
fn ana_is_one_optimised_group() {
    let mut world = World::new(Timing::Immediate);
    let (admin, ..) = world.host();
    let log = world.log(admin, page::ANA, 64);
    assert_eq!(log[8], 1, "groups");
    assert_eq!((log[16], log[20], log[32], log[48]), (1, 1, 1, 1));
}

#[test]
fn replies_that_nobody_takes_are_bounded() {
    let mut world = World::new(Timing::Immediate);
    let admin = world.attach();
    world.connect_as(admin, HOST, SUBSYSTEM, connect(0, 1024), 0xffff);
    world.call(admin, property_set(0x14, 0x0046_0001), &[]);
    // Nothing is polled: what is answered stays in memory.
    for _ in 0..1000 {
        world.submit(admin, log_page(page::SUPPORTED_LOG_PAGES, 128 << 10, 0), &[]);
    }
    let mut kept = vec![];
    while let Some(mynah_device::Output::Completion(reply)) = world.subsystem.poll() {
        kept.push(reply);
    }
    let bytes: usize = kept.iter().map(|reply| reply.data.bytes()).sum();
    assert_eq!(kept.len(), 1000);
    assert!(bytes <= (1 << 20) + (256 << 10), "{bytes} bytes");
    let busy = kept.last().map(|reply| plain(reply.entry.status()));
    assert_eq!(busy, Some(Status::COMMAND_INTERRUPTED));
    // Other queues are served; so is this one, once it has taken its replies.
    let (other, _) = world.admin_as(OTHER, SUBSYSTEM);
    assert_eq!(world.log(other, page::SMART, 512).len(), 512);
    drop(kept);
    assert_eq!(world.log(admin, page::SMART, 512).len(), 512);
}

/// As many as Identify says, each attached to a controller; and they are there again.
#[test]
fn as_many_namespaces_can_be_as_identify_says() {
    let change = |config: &mut SubsystemConfig| {
        config.namespaces = vec![NamespaceConfig {
            bytes: Some(4096),
            content: NamespaceContent::Blocks(512),
            handles: vec![],
        }];
    };
    let kept = Description::default();
    let start = |before: Vec<u8>| {
        let store = Box::new(Kept::new(&kept, before));
        World::with_store(Timing::Immediate, change, |_| {}, store)
    };
    let mut world = start(vec![]);
    let (admin, _, id) = world.host();
    let data = world.identify(admin, cns::CONTROLLER, 0);
    let page = IdentifyController::read_from_bytes(&data).unwrap();
    let most = page.namespaces_max.get();
    assert_eq!((most, page.namespaces.get()), (1024, 1024));
    for expected in 2..=most {
        assert_eq!(create(&mut world, admin, &wish(8, 0, true)), Ok(expected));
        let attached = world.status(admin, attachment(expected, 0), &list(&[id]));
        assert_eq!(attached, Status::SUCCESS, "{expected}");
    }
    let refused = create(&mut world, admin, &wish(8, 0, true));
    assert_eq!(refused, Err(Status::NAMESPACE_ID_UNAVAILABLE));
    assert_eq!(ids(&world.identify(admin, cns::ACTIVE_NAMESPACES, 0)).len(), 1024);
    let before = kept.take();
    assert!(before.len() <= DESCRIPTION_BYTES_MAX, "{}", before.len());
    let mut world = start(before);
    assert!(world.subsystem.has_restored_namespaces());
    let (admin, _, again) = world.host();
    assert_eq!(again, id);
    assert_eq!(ids(&world.identify(admin, cns::ACTIVE_NAMESPACES, 0)).len(), 1024);
}
