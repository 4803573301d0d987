//! What outlives the process: counters, reservations, marks.

use crate::support::*;
use mynah_device::store::DESCRIPTION_BYTES_MAX;
use mynah_device::{Store, SubsystemConfig, Timing};
use mynah_stamp::Span;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::feature::id;
use mynah_wire::nvme::identify::cns;
use mynah_wire::nvme::log::{SanitizeStatus, Smart, page};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::reservation::ReservationStatus;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

const OTHER: &str = "nqn.2026-11.test:other";
/// CPTPL of Reservation Register: off, on.
const FORGET: u32 = 2 << 30;
const PERSIST: u32 = 3 << 30;

/// The drive that a store has kept `before` of, in use, and what its store keeps now.
fn started(before: &[u8]) -> (World, Description) {
    started_with(before, |_| {})
}

fn started_with(before: &[u8], change: impl FnOnce(&mut SubsystemConfig)) -> (World, Description) {
    let kept = Description::default();
    let store = Kept::new(&kept, before.to_vec());
    let mut world = World::with_store(Timing::Immediate, change, |_| {}, Box::new(store));
    world.subsystem.open_store().expect("a store in memory");
    (world, kept)
}

/// Ends it in order.
fn ended((mut world, kept): (World, Description)) -> Vec<u8> {
    world.subsystem.close_store(None).expect("a store in memory");
    kept.take()
}

/// Kills it after a flush.
fn killed((mut world, kept): (World, Description)) -> Vec<u8> {
    let (_, io, _) = world.host_as(OTHER);
    world.status(io, entry(nvm::FLUSH, 1), &[]);
    kept.take()
}

fn smart(world: &mut World) -> Smart {
    let (admin, _) = world.admin_as("nqn.2026-11.test:monitor", SUBSYSTEM);
    Smart::read_from_bytes(&world.log(admin, page::SMART, 512)).expect("a page")
}

/// Power cycles, unsafe shutdowns.
fn starts(world: &mut World) -> (u128, u128) {
    let smart = smart(world);
    (smart.power_cycles.get(), smart.unsafe_shutdowns.get())
}

#[test]
fn counters_go_on_where_they_were() {
    let (mut world, kept) = started(&[]);
    assert_eq!(starts(&mut world), (1, 0));
    let (admin, io, _) = world.host();
    for at in 0..3 {
        world.status(io, write(at * 8, 2000 / 512), &pattern(at, 2000 / 512 * 512));
    }
    world.status(io, read(0, 1), &[]);
    assert_eq!(world.status(io, read(u64::MAX / 2, 1), &[]), Status::LBA_OUT_OF_RANGE);
    world.wait(Span::from_secs(2 * 3600 + 60));
    let before = smart(&mut world);
    let errors = |world: &mut World, admin| {
        u64::read_from_bytes(&world.log(admin, page::ERROR_INFORMATION, 64)[..8]).unwrap()
    };
    assert_eq!(errors(&mut world, admin), 1);
    let first = ended((world, kept));

    let (mut world, kept) = started(&first);
    let after = smart(&mut world);
    assert_eq!((after.host_writes.get(), after.host_reads.get()), (3, 1));
    assert_eq!(after.data_units_written, before.data_units_written);
    assert_eq!(after.power_on_hours.get(), 2);
    assert_eq!((after.power_cycles.get(), after.unsafe_shutdowns.get()), (2, 0));
    assert_eq!(after.error_entries.get(), 1, "entries keep their numbers apart");
    let (admin, io, _) = world.host();
    world.status(io, read(0, 1), &[]);
    assert_eq!(world.status(io, read(u64::MAX / 2, 1), &[]), Status::LBA_OUT_OF_RANGE);
    assert_eq!(errors(&mut world, admin), 2);
    world.wait(Span::from_secs(3600));
    // The process is gone: what a minute's look has found, and a flush has kept, is there.
    let second = killed((world, kept));
    let (mut world, kept) = started(&second);
    let after = smart(&mut world);
    assert_eq!((after.host_reads.get(), after.power_on_hours.get()), (2, 3));
    assert_eq!((after.power_cycles.get(), after.unsafe_shutdowns.get()), (3, 1));
    let third = ended((world, kept));
    assert_eq!(starts(&mut started(&third).0), (4, 1));
}

#[test]
fn flushes_keep_counters_at_most_once_a_second() {
    let (mut world, kept) = started(&[]);
    let (_, io, _) = world.host();
    let second = Span::from_secs(1);
    let flush = |world: &mut World| {
        kept.borrow_mut().clear();
        assert_eq!(world.status(io, entry(nvm::FLUSH, 1), &[]), Status::SUCCESS);
        !kept.borrow().is_empty()
    };
    // What would be found if the process were killed now.
    let counted = || smart(&mut started(&kept.borrow()).0).host_writes.get();
    world.wait(second);
    assert!(!flush(&mut world), "nothing has been counted");
    world.status(io, write(0, 1), &[1; 512]);
    assert!(!flush(&mut world), "asked just now");
    world.wait(second);
    assert!(flush(&mut world));
    assert_eq!(counted(), 1);
    // However many flushes there are under load, each second has one description, and no
    // counter is older than that.
    let mut descriptions = 0;
    for at in 0..410 {
        world.wait(Span::from_ms(10));
        world.status(io, write(at % 64, 1), &[1; 512]);
        if flush(&mut world) {
            descriptions += 1;
            assert_eq!(counted(), u128::from(at) + 2);
        }
    }
    assert_eq!(descriptions, 4);
    // Nothing but time goes on: an idle host that flushes writes no more than before.
    world.wait(second);
    assert!(flush(&mut world));
    for _ in 0..30 {
        world.wait(second);
        assert!(!flush(&mut world));
    }
    // A write that is durable when it completes is as good as a flush; so is a failed command.
    let mut through = write(0, 1);
    through.dword12.set(through.dword12.get() | 1 << 30);
    world.status(io, through, &[1; 512]);
    world.wait(second);
    kept.borrow_mut().clear();
    world.status(io, through, &[1; 512]);
    assert_eq!(counted(), 412);
    world.wait(second);
    assert_eq!(world.status(io, read(u64::MAX / 2, 1), &[]), Status::LBA_OUT_OF_RANGE);
    assert!(flush(&mut world));
    assert_eq!(smart(&mut started(&kept.borrow()).0).error_entries.get(), 1);
}

#[test]
fn reservations_outlive_the_process_where_a_host_asks_for_it() {
    let register = |more| reserve(nvm::RESERVATION_REGISTER, more);
    for (persists, more) in [(false, 0), (true, PERSIST)] {
        for ends in [ended as fn((World, Description)) -> Vec<u8>, killed] {
            let (mut world, kept) = started(&[]);
            let (_, io, _) = world.host();
            assert_eq!(world.status(io, register(more), &keys(0, 7)), Status::SUCCESS);
            // Exclusive access.
            let acquire = reserve(nvm::RESERVATION_ACQUIRE, 2 << 8);
            assert_eq!(world.status(io, acquire, &keys(7, 0)), Status::SUCCESS);
            let (mut world, kept) = started(&ends((world, kept)));
            let (_, other, _) = world.host_as(OTHER);
            let expected = if persists { Status::RESERVATION_CONFLICT } else { Status::SUCCESS };
            assert_eq!(world.status(other, read(0, 1), &[]), expected, "{more:#x}");
            let (_, io, _) = world.host();
            assert_eq!(world.status(io, read(0, 1), &[]), Status::SUCCESS);
            let mut report = reserve(nvm::RESERVATION_REPORT, 31);
            report.dword11.set(1);
            let (head, _) =
                ReservationStatus::read_from_prefix(&world.call(io, report, &[]).1).unwrap();
            let found = (head.registrants.get(), head.kind, head.persists);
            assert_eq!(found, if persists { (1, 2, 1) } else { (0, 0, 0) });
            // Not any more.
            if persists {
                let replace = register(2 | FORGET);
                assert_eq!(world.status(io, replace, &keys(7, 8)), Status::SUCCESS);
                let (mut world, _) = started(&ends((world, kept)));
                let (_, other, _) = world.host_as(OTHER);
                assert_eq!(world.status(other, read(0, 1), &[]), Status::SUCCESS);
            }
        }
    }
}

#[test]
fn persistence_of_reservations_is_a_feature() {
    let (mut world, kept) = started(&[]);
    let (admin, io, _) = world.host();
    assert_eq!(world.identify(admin, cns::NAMESPACE, 1)[31] & 1, 1, "RESCAP");
    let feature = |value| {
        let mut entry = set_feature(id::RESERVATION_PERSISTENCE, value);
        entry.namespace_id.set(1);
        entry
    };
    let persists = |world: &mut World, admin| {
        let mut get = get_feature(id::RESERVATION_PERSISTENCE, 0, 0);
        get.namespace_id.set(1);
        world.call(admin, get, &[]).0.result.get()
    };
    assert_eq!(persists(&mut world, admin), 0);
    assert_eq!(world.status(admin, feature(2), &[]), Status::INVALID_FIELD);
    assert_eq!(world.status(admin, feature(1), &[]), Status::SUCCESS);
    let register = reserve(nvm::RESERVATION_REGISTER, 0);
    assert_eq!(world.status(io, register, &keys(0, 7)), Status::SUCCESS);
    let (mut world, _) = started(&ended((world, kept)));
    let (admin, io, _) = world.host();
    assert_eq!(persists(&mut world, admin), 1);
    let acquire = reserve(nvm::RESERVATION_ACQUIRE, 1 << 8);
    assert_eq!(world.status(io, acquire, &keys(7, 0)), Status::SUCCESS, "still registered");
}

#[test]
fn marks_of_blocks_outlive_the_process() {
    let (mut world, kept) = started(&[]);
    let (_, io, _) = world.host();
    let mark = |start, count| blocks(nvm::WRITE_UNCORRECTABLE, 1, start, count);
    assert_eq!(world.status(io, mark(8, 8), &[]), Status::SUCCESS);
    assert_eq!(world.status(io, mark(100, 1), &[]), Status::SUCCESS);
    let (mut world, kept) = started(&killed((world, kept)));
    let (_, io, _) = world.host();
    let unreadable = Status::UNRECOVERED_READ_ERROR;
    for (start, expected) in [(7, Status::SUCCESS), (8, unreadable), (15, unreadable)] {
        assert_eq!(world.status(io, read(start, 1), &[]), expected, "{start}");
    }
    // Written again, they can be read, in the next process as well.
    assert_eq!(world.status(io, write(8, 8), &[0; 8 * 512]), Status::SUCCESS);
    let (mut world, _) = started(&killed((world, kept)));
    let (_, io, _) = world.host();
    assert_eq!(world.status(io, read(8, 8), &[]), Status::SUCCESS);
    assert_eq!(world.status(io, read(100, 1), &[]), unreadable);
}

#[test]
fn no_mark_is_made_that_there_is_no_room_to_keep() {
    let (mut world, kept) = started(&[]);
    let (admin_queue, io, id) = world.host();
    let full = Status::CAPACITY_EXCEEDED;
    let unreadable = Status::UNRECOVERED_READ_ERROR;
    let mark = |start, count| blocks(nvm::WRITE_UNCORRECTABLE, 1, start, count);
    // A long run, and behind it as many of three blocks as there can be, one block apart.
    let run = |number: u64| 80 + number * 4;
    assert_eq!(world.status(io, mark(0, 64), &[]), Status::SUCCESS);
    let mut runs = 0;
    let refused = loop {
        match world.status(io, mark(run(runs), 3), &[]) {
            Status::SUCCESS => runs += 1,
            status => break status,
        }
    };
    assert_eq!(refused, full);
    assert!((3_800..3_968).contains(&runs), "{runs}");
    assert_eq!(world.status(io, read(run(runs), 3), &[]), Status::SUCCESS, "not marked");
    // Nor can one be made two.
    let midst = run(5) + 1;
    assert_eq!(world.status(io, write(midst, 1), &[1; 512]), full);
    assert_eq!(world.status(io, write_zeroes(midst, 1, false), &[]), full);
    let (copying, range) = copy(run(4) + 3, midst, 1);
    assert_eq!(world.status(io, copying, range.as_bytes()), full);
    let (trim, range) = deallocate(24, 8);
    assert_eq!(world.status(io, trim, &range), full);
    assert_eq!(world.status(io, read(midst, 1), &[]), unreadable, "as before");
    assert_eq!(world.status(io, read(24, 1), &[]), unreadable, "as before");
    // What makes none more is done.
    assert_eq!(world.status(io, mark(run(7) + 3, 1), &[]), Status::SUCCESS, "two become one");
    assert_eq!(world.status(io, mark(run(runs), 3), &[]), Status::SUCCESS, "room for another");
    assert_eq!(world.status(io, mark(run(8), 2), &[]), Status::SUCCESS, "again");
    assert_eq!(world.status(io, write(run(9), 1), &[1; 512]), Status::SUCCESS, "its front");
    assert_eq!(world.status(io, write(run(10) + 2, 1), &[1; 512]), Status::SUCCESS, "its end");
    // What else is to be kept has no room either.
    let register = reserve(nvm::RESERVATION_REGISTER, PERSIST);
    assert_eq!(world.status(io, register, &keys(0, 7)), Status::INTERNAL_ERROR);
    let mut detach = entry(admin::NAMESPACE_ATTACHMENT, 1);
    detach.dword10.set(1);
    let others = (0..7).map(|at| world.host_as(&format!("{OTHER}-{at}")).2);
    let ids: Vec<u16> = std::iter::once(id).chain(others).collect();
    let mut list: Vec<u8> =
        std::iter::once(8).chain(ids).flat_map(|number: u16| number.to_le_bytes()).collect();
    list.resize(4096, 0);
    assert_eq!(world.status(admin_queue, detach, &list), Status::INTERNAL_ERROR);
    // All of it is there again.
    let many = ended((world, kept));
    assert!(
        many.len() <= DESCRIPTION_BYTES_MAX && many.len() > DESCRIPTION_BYTES_MAX - 32,
        "{}",
        many.len()
    );
    let (mut world, _) = started(&many);
    assert!(world.subsystem.has_restored_namespaces());
    let (_, io, _) = world.host();
    for number in 0..=runs {
        assert_eq!(world.status(io, read(run(number) + 1, 1), &[]), unreadable, "{number}");
    }
    assert_eq!(world.status(io, read(run(9), 1), &[]), Status::SUCCESS);
    // A run that is gone makes room for another.
    assert_eq!(world.status(io, mark(run(runs) + 8, 1), &[]), full);
    assert_eq!(world.status(io, write(run(1), 3), &[1; 3 * 512]), Status::SUCCESS);
    assert_eq!(world.status(io, mark(run(runs) + 8, 1), &[]), Status::SUCCESS);
}

/// Progress, status and dword 10 of the last sanitize.
fn sanitized(world: &mut World) -> (u16, u16, u32) {
    let (admin, _) = world.admin_as("nqn.2026-11.test:monitor", SUBSYSTEM);
    let page = world.log(admin, page::SANITIZE_STATUS, 512);
    let page = SanitizeStatus::read_from_bytes(&page).expect("a page");
    (page.progress.get(), page.status.get(), page.dword10.get())
}

#[test]
fn a_sanitize_that_has_begun_ends_and_is_remembered() {
    for in_order in [false, true] {
        let kept = Description::default();
        // The store begins with a secret and with what it has kept.
        let start = |before: Vec<u8>| {
            let mut store = Kept::new(&kept, before);
            let _ = store.write(0, &[7; 4096]);
            let store = Box::new(store);
            let mut world = World::with_store(Timing::Modelled, |_| {}, |_| {}, store);
            world.subsystem.open_store().expect("a store in memory");
            world
        };
        let end = |mut world: World| {
            if in_order {
                world.subsystem.close_store(None).expect("a store in memory");
            }
            kept.take()
        };
        let mut world = start(vec![]);
        let (admin, io, _) = world.host();
        assert_eq!(world.call(io, read(0, 8), &[]).1, [7; 4096]);
        // Overwritten once.
        let mut sanitize = entry(admin::SANITIZE, 0);
        sanitize.dword10.set(3 | 1 << 4);
        assert_eq!(world.status(admin, sanitize, &[]), Status::SUCCESS);

        let mut world = start(end(world));
        let (_, io, _) = world.host();
        let (progress, status, dword10) = sanitized(&mut world);
        assert!(progress < 0xffff);
        assert_eq!((status, dword10), (2, 3 | 1 << 4));
        assert_eq!(world.status(io, read(0, 8), &[]), Status::SANITIZE_IN_PROGRESS);
        world.wait(Span::from_secs(5));
        assert_eq!(sanitized(&mut world), (0xffff, 1 | 1 << 3 | 0x100, 3 | 1 << 4));
        assert_eq!(world.call(io, read(0, 8), &[]).1, [0; 4096]);

        // It is over for good, and what is written then stays.
        let mut world = start(end(world));
        let untouched = if in_order { 0x100 } else { 0 };
        assert_eq!(sanitized(&mut world), (0xffff, 1 | 1 << 3 | untouched, 3 | 1 << 4));
        let (_, io, _) = world.host();
        assert_eq!(world.call(io, read(0, 8), &[]).1, [7; 4096]);
        world.status(io, write(8, 8), &[8; 4096]);
        let mut world = start(end(world));
        assert_eq!(sanitized(&mut world), (0xffff, 1 | 1 << 3, 3 | 1 << 4));
    }
}

#[test]
fn what_an_earlier_version_kept_is_read() {
    let (world, kept) = started(&[]);
    let now = ended((world, kept));
    // None of them knew of pairs: which belong to it, and whether a namespace has them.
    let (namespace, rest) = (&now[138..150], &now[151..]);
    // It had neither counters, nor sanitizes, nor reservations, nor marks.
    let before = [b"MynahNS1", &now[8..20], namespace, &rest[..rest.len() - 5]].concat();
    let (mut world, _) = started(&before);
    assert!(world.subsystem.has_restored_namespaces());
    assert_eq!(starts(&mut world), (1, 0));
    assert_eq!(sanitized(&mut world), (0xffff, 0, 0), "who knows what was written");
    // The next one knew of everything but sanitizes.
    let before = [b"MynahNS2", &now[8..101], namespace, rest].concat();
    let (mut world, _) = started(&before);
    assert!(world.subsystem.has_restored_namespaces());
    assert_eq!(starts(&mut world), (2, 0));
    assert_eq!(sanitized(&mut world), (0xffff, 0x100, 0), "nothing was written");
    // And the next of these, too.
    let before = [b"MynahNS3", &now[8..114], namespace, rest].concat();
    let (mut world, _) = started(&before);
    assert!(world.subsystem.has_restored_namespaces());
    assert_eq!(starts(&mut world), (2, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever is read back, a drive comes of it that works.
    #[test]
    fn nothing_that_is_kept_harms(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let (mut world, kept) = started(&[]);
        let (_, io, _) = world.host();
        let register = reserve(nvm::RESERVATION_REGISTER, PERSIST);
        world.status(io, register, &keys(0, 7));
        world.status(io, reserve(nvm::RESERVATION_ACQUIRE, 1 << 8), &keys(7, 0));
        world.status(io, blocks(nvm::WRITE_UNCORRECTABLE, 1, 8, 8), &[]);
        let mut bytes = ended((world, kept));
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let (mut world, kept) = started(&bytes);
        starts(&mut world);
        let (_, io, _) = world.host();
        world.status(io, read(8, 8), &[]);
        world.status(io, write(0, 16), &[0; 16 * 512]);
        let (mut world, _) = started(&ended((world, kept)));
        starts(&mut world);
    }
}
