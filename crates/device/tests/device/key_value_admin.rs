//! Key-value namespaces: what Identify and logs say of them, and admin commands.

use crate::pairs::*;
use crate::support::*;
use mynah_device::{Queue, Timing};
use mynah_wire::nvme::identify::{
    IdentifyController, IdentifyIndependentNamespace, IdentifyKeyValueController,
    IdentifyKeyValueNamespace, IdentifyNamespace, KEY_VALUE_VERSION_1_3, cns,
};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

fn world(timing: Timing) -> World {
    World::with(timing, |_| {}, mixed)
}

fn identify_of(what: u8, namespace: u32, set: u8) -> SubmissionEntry {
    let mut entry = identify(what, namespace);
    entry.dword11.set(u32::from(set) << 24);
    entry
}

fn page(world: &mut World, admin: Queue, what: u8, namespace: u32, set: u8) -> Vec<u8> {
    let (done, data) = world.call(admin, identify_of(what, namespace, set), &[]);
    assert!(done.status().is_success(), "{what:#x}: {:?}", done.status());
    data
}

#[test]
fn identify_tells_of_pairs() {
    let mut world = world(Timing::Immediate);
    let (admin, io, _) = world.host();
    let sets = page(&mut world, admin, cns::COMMAND_SETS, 0, 0);
    assert_eq!(sets[..8], [3, 0, 0, 0, 0, 0, 0, 0]);
    let ids = |page: Vec<u8>| page[..12].to_vec();
    let active = page(&mut world, admin, cns::ACTIVE_NAMESPACES, 0, 0);
    assert_eq!(ids(active), [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    for kind in [cns::COMMAND_SET_ACTIVE_NAMESPACES, cns::COMMAND_SET_ALLOCATED_NAMESPACES] {
        assert_eq!(ids(page(&mut world, admin, kind, 0, 0))[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ids(page(&mut world, admin, kind, 0, 1))[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    }
    let descriptors = page(&mut world, admin, cns::NAMESPACE_DESCRIPTORS, 1, 0);
    assert_eq!(descriptors[52..57], [4, 1, 0, 0, 1]);
    assert_eq!(world.status(io, store("key", 1000), &[7; 1000]), Status::SUCCESS);
    for kind in [cns::COMMAND_SET_NAMESPACE, cns::COMMAND_SET_ALLOCATED_NAMESPACE] {
        let page = page(&mut world, admin, kind, 1, 1);
        let page = IdentifyKeyValueNamespace::read_from_bytes(&page).unwrap();
        assert_eq!((page.size.get(), page.utilisation.get()), (BYTES, 1003));
        assert_eq!((page.formats, page.format, page.multipath), (0, 0, 1));
        let format = page.current_format().unwrap();
        assert_eq!(format.key_bytes_max.get(), 16);
        assert_eq!(format.value_bytes_max.get(), 64 << 10);
        assert_eq!(format.keys_max.get(), 0);
        assert_ne!(page.nguid, [0; 16]);
    }
    let formats = page(&mut world, admin, cns::COMMAND_SET_NAMESPACE_FORMAT, 0, 1);
    let formats = IdentifyKeyValueNamespace::read_from_bytes(&formats).unwrap();
    assert_eq!(formats.key_value_formats[0].value_bytes_max.get(), 64 << 10);
    let of_set = page(&mut world, admin, cns::COMMAND_SET_CONTROLLER, 0, 1);
    let of_set = IdentifyKeyValueController::read_from_bytes(&of_set).unwrap();
    assert_eq!(of_set.version.get(), KEY_VALUE_VERSION_1_3);
    // The page of blocks is what SPDK and xNVMe ask for of every namespace.
    for kind in [cns::NAMESPACE, cns::ALLOCATED_NAMESPACE] {
        let page = page(&mut world, admin, kind, 1, 0);
        let page = IdentifyNamespace::read_from_bytes(&page).unwrap();
        let blocks = [page.size.get(), page.capacity.get(), page.utilisation.get()];
        assert_eq!(blocks, [BYTES / 512, BYTES / 512, 2]);
        assert_eq!(page.lba_formats[usize::from(page.format)].data_shift, 9);
    }
    let independent = page(&mut world, admin, cns::INDEPENDENT_NAMESPACE, 1, 0);
    let independent = IdentifyIndependentNamespace::read_from_bytes(&independent).unwrap();
    assert_eq!(independent.status, 1);
    for (what, namespace, set, expected) in [
        (cns::COMMAND_SET_NAMESPACE, 1, 0, Status::COMMAND_SET_INVALID),
        (cns::COMMAND_SET_NAMESPACE, 2, 1, Status::COMMAND_SET_INVALID),
        (cns::COMMAND_SET_NAMESPACE, 1, 2, Status::COMMAND_SET_INVALID),
        (cns::COMMAND_SET_NAMESPACE_FORMAT, 0, 0, Status::INVALID_FIELD),
        (cns::COMMAND_SET_NAMESPACE, 2000, 1, Status::INVALID_NAMESPACE),
    ] {
        let status = world.status(admin, identify_of(what, namespace, set), &[]);
        assert_eq!(status, expected, "{what:#x} {namespace} {set}");
    }
    let mut other_format = identify_of(cns::COMMAND_SET_NAMESPACE_FORMAT, 0, 1);
    other_format.dword11.set(other_format.dword11.get() | 1);
    assert_eq!(world.status(admin, other_format, &[]), Status::INVALID_FIELD);
}

#[test]
fn a_drive_without_pairs_knows_nothing_of_them() {
    let mut world = World::new(Timing::Immediate);
    let (admin, io, _) = world.host();
    let sets = page(&mut world, admin, cns::COMMAND_SETS, 0, 0);
    assert_eq!(sets[0], 1);
    for what in [cns::COMMAND_SET_NAMESPACE, cns::COMMAND_SET_CONTROLLER] {
        let status = world.status(admin, identify_of(what, 1, 1), &[]);
        assert_eq!(status, Status::COMMAND_SET_INVALID);
    }
    let format = identify_of(cns::COMMAND_SET_NAMESPACE_FORMAT, 0, 0);
    assert_eq!(world.status(admin, format, &[]), Status::INVALID_FIELD);
    assert_eq!(world.status(admin, get_feature(0x20, 0, 0), &[]), Status::INVALID_FIELD);
    assert_eq!(world.status(io, list("", 100), &[]), Status::INVALID_OPCODE);
}

#[test]
fn the_log_of_effects_is_of_the_set_that_was_asked_for() {
    let mut world = world(Timing::Immediate);
    let (admin, ..) = world.host();
    let mut entry = log_page(5, 4096, 0);
    entry.dword14.set(1 << 24);
    let (_, effects) = world.call(admin, entry, &[]);
    let of =
        |opcode: usize| u32::from_le_bytes(*effects[1024 + opcode * 4..].first_chunk().unwrap());
    for (opcode, expected) in
        [(0, 1), (1, 3), (2, 1), (6, 1), (0x10, 3), (0x14, 1), (0x0d, 1), (5, 0), (9, 0)]
    {
        assert_eq!(of(opcode), expected, "{opcode:#x}");
    }
    let (_, blocks) = world.call(admin, log_page(5, 4096, 0), &[]);
    assert_eq!(blocks[1024 + 9 * 4], 3);
    assert_eq!(blocks[1024 + 6 * 4], 0);
}

#[test]
fn a_format_removes_all_pairs() {
    for timing in [Timing::Immediate, Timing::Modelled] {
        let mut world = world(timing);
        let (admin, io, _) = world.host();
        let value = pattern(1, 3000);
        for at in 0..50 {
            assert_eq!(world.status(io, store(&format!("{at}"), 3000), &value), Status::SUCCESS);
        }
        let format = |index: u32| {
            let mut entry = entry(admin::FORMAT_NVM, 1);
            entry.dword10.set(index);
            entry
        };
        assert_eq!(world.status(admin, format(1), &[]), Status::FORMAT_INVALID);
        assert_eq!(world.status(admin, format(0), &[]), Status::SUCCESS);
        let (_, data) = world.call(io, list("", 4096), &[]);
        assert_eq!(data, [0; 4]);
        assert_eq!(world.status(io, store("k", 3000), &value), Status::SUCCESS);
        assert_eq!(world.call(io, retrieve("k", 3000), &[]).1, value);
        // While it is under way, commands are refused, and those before it end.
        let put = world.submit(io, store("l", 3000), &value);
        let get = world.submit(io, retrieve("k", 3000), &[]);
        let id = world.submit(admin, format(0), &[]);
        world.reply(admin, id);
        for id in [put, get] {
            let status = plain(world.reply(io, id).0.entry.status());
            let allowed = [Status::SUCCESS, Status::FORMAT_IN_PROGRESS];
            assert!(allowed.contains(&status), "{status:?}");
        }
        assert_eq!(world.status(io, exist("k"), &[]), Status::KEY_DOES_NOT_EXIST);
        assert_eq!(world.status(io, exist("l"), &[]), Status::KEY_DOES_NOT_EXIST);
    }
}

/// Namespace Management and Attachment.
fn manage(
    world: &mut World,
    admin: Queue,
    select: u32,
    set: u8,
    id: u32,
    data: &[u8],
) -> (Status, u64) {
    let mut entry = entry(admin::NAMESPACE_MANAGEMENT, id);
    entry.dword10.set(select);
    entry.dword11.set(u32::from(set) << 24);
    let (done, _) = world.call(admin, entry, data);
    (plain(done.status()), done.result.get())
}

#[test]
fn a_namespace_of_pairs_can_be_deleted_and_created() {
    for timing in [Timing::Immediate, Timing::Modelled] {
        let mut world = world(timing);
        let (admin, io, controller) = world.host();
        assert_eq!(world.status(io, store("k", 5), b"value"), Status::SUCCESS);
        let wish = |bytes: u64, format: u8| {
            let mut wish = IdentifyKeyValueNamespace::new_zeroed();
            wish.size.set(bytes);
            wish.format = format;
            wish.as_bytes().to_vec()
        };
        let full = (Status::NAMESPACE_INSUFFICIENT_CAPACITY, 0);
        assert_eq!(manage(&mut world, admin, 0, 1, 0, &wish(BYTES, 0)), full);
        let unallocated = |world: &mut World| {
            let page = world.identify(admin, cns::CONTROLLER, 0);
            IdentifyController::read_from_bytes(&page).unwrap().unallocated_capacity.get()
        };
        assert_eq!(manage(&mut world, admin, 1, 0, 1, &[]), (Status::SUCCESS, 0));
        assert_eq!(world.status(io, exist("k"), &[]), Status::INVALID_OPCODE);
        assert_eq!(world.status(io, store("k", 1), b"x"), Status::INVALID_NAMESPACE);
        assert!(unallocated(&mut world) >= u128::from(BYTES));
        assert_eq!(manage(&mut world, admin, 0, 1, 0, &wish(BYTES + 1, 0)), full);
        let (status, _) = manage(&mut world, admin, 0, 1, 0, &wish(BYTES, 1));
        assert_eq!(status, Status::FORMAT_INVALID);
        assert_eq!(manage(&mut world, admin, 0, 1, 0, &wish(0, 0)).0, Status::INVALID_FIELD);
        assert_eq!(manage(&mut world, admin, 0, 1, 0, &wish(BYTES, 0)), (Status::SUCCESS, 1));
        assert_eq!(world.status(io, exist("k"), &[]), Status::INVALID_OPCODE, "not attached");
        let mut attach = entry(admin::NAMESPACE_ATTACHMENT, 1);
        attach.dword10.set(0);
        let mut list = vec![0; 4096];
        list[0] = 1;
        list[2..4].copy_from_slice(&controller.to_le_bytes());
        assert_eq!(world.status(admin, attach, &list), Status::SUCCESS);
        assert_eq!(world.status(io, exist("k"), &[]), Status::KEY_DOES_NOT_EXIST);
        assert_eq!(world.status(io, store("k", 5), b"other"), Status::SUCCESS);
        assert_eq!(world.call(io, retrieve("k", 5), &[]).1, b"other");
    }
}

#[test]
fn protected_and_reserved_namespaces_keep_their_pairs() {
    for timing in [Timing::Immediate, Timing::Modelled] {
        let mut world = world(timing);
        let (admin, io, _) = world.host();
        let (_, other, _) = world.host_as("nqn.2026-11.test:other");
        assert_eq!(world.status(io, store("k", 5), b"value"), Status::SUCCESS);
        let protect = |on: u32| {
            let mut entry = set_feature(0x84, on);
            entry.namespace_id.set(1);
            entry
        };
        assert_eq!(world.status(admin, protect(1), &[]), Status::SUCCESS);
        let protected = Status::NAMESPACE_WRITE_PROTECTED;
        assert_eq!(world.status(io, store("k", 1), b"x"), protected);
        assert_eq!(world.status(io, delete("k"), &[]), protected);
        assert_eq!(world.call(io, retrieve("k", 5), &[]).1, b"value");
        assert_eq!(world.status(io, entry(nvm::FLUSH, 1), &[]), Status::SUCCESS);
        assert_eq!(world.status(admin, protect(0), &[]), Status::SUCCESS);
        // Exclusive access.
        let register = reserve(nvm::RESERVATION_REGISTER, 0);
        assert_eq!(world.status(io, register, &keys(0, 7)), Status::SUCCESS);
        let acquire = reserve(nvm::RESERVATION_ACQUIRE, 2 << 8);
        assert_eq!(world.status(io, acquire, &keys(7, 0)), Status::SUCCESS);
        for entry in [store("k", 1), delete("k"), retrieve("k", 5), exist("k"), list("", 100)] {
            assert_eq!(world.status(other, entry, b"x"), Status::RESERVATION_CONFLICT);
        }
        assert_eq!(world.status(io, store("k", 1), b"x"), Status::SUCCESS);
    }
}

#[test]
fn a_sanitize_removes_all_pairs() {
    for timing in [Timing::Immediate, Timing::Modelled] {
        let mut world = world(timing);
        let (admin, io, _) = world.host();
        assert_eq!(world.status(io, store("k", 5), b"value"), Status::SUCCESS);
        let mut sanitize = entry(admin::SANITIZE, 0);
        sanitize.dword10.set(4);
        assert_eq!(world.status(admin, sanitize, &[]), Status::SUCCESS);
        world.wait(mynah_stamp::Span::from_secs(10));
        assert_eq!(world.status(io, exist("k"), &[]), Status::KEY_DOES_NOT_EXIST);
        assert_eq!(world.status(io, store("k", 5), b"other"), Status::SUCCESS);
    }
}
