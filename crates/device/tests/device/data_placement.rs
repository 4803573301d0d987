//! Flexible Data Placement: what hosts are told of it, where their writes go, what is refused. Layouts
//! are written down here as the specification has them, byte for byte.

use crate::support::*;
use mynah_device::{
    NamespaceConfig, NamespaceContent, Queue, Subsystem, SubsystemConfig, SubsystemError, Tap,
    Timing,
};
use mynah_model::Drive;
use mynah_model::config::{Config, Fault, Isolation};
use mynah_model::io::{self, Control, Operation, PlacementId, QueueId, Request, Tag};
use mynah_model::keys::{Decision, KeyRequest};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::cell::RefCell;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// Bytes of a reclaim unit of [`placing`]: four planes of sixteen pages of 8 KiB.
const UNIT_BYTES: u64 = 4 * 16 * 8192;

fn persistently(config: &mut Config) {
    placing(config);
    config.data_placement.as_mut().expect("it has").isolation = Isolation::Persistent;
}

fn world() -> World {
    World::with(Timing::Modelled, |_| {}, placing)
}

fn le(bytes: &[u8], at: usize, count: usize) -> u64 {
    bytes[at..at + count].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Get Log Page about an endurance group; `specific` is LSP.
fn group_log(page: u8, bytes: u32, group: u16, specific: u8) -> SubmissionEntry {
    let mut entry = log_page(page, bytes, 0);
    entry.dword10.set(entry.dword10.get() | u32::from(specific) << 8);
    entry.dword11.set(entry.dword11.get() | u32::from(group) << 16);
    entry
}

fn placement_log(world: &mut World, admin: Queue, page: u8, bytes: u32) -> Vec<u8> {
    let (reply, data) = world.call(admin, group_log(page, bytes, 1, 0), &[]);
    assert!(reply.status().is_success(), "log {page:#x}: {:?}", reply.status());
    data
}

/// Reclaim Unit Handle Status: I/O Management Receive 12h, MO 1.
fn receive(namespace: u32, operation: u8, bytes: u32) -> SubmissionEntry {
    let mut entry = entry(0x12, namespace);
    entry.dword10.set(operation.into());
    entry.dword11.set(bytes / 4 - 1);
    entry
}

/// Identifier, handle and blocks left of each placement handle.
fn handles(world: &mut World, io: Queue, namespace: u32) -> Vec<(u16, u16, u64)> {
    let (reply, data) = world.call(io, receive(namespace, 1, 4048), &[]);
    assert!(reply.status().is_success(), "{:?}", reply.status());
    assert_eq!(data.len(), 4048);
    let count = le(&data, 14, 2) as usize;
    assert_eq!(data[..14], [0; 14]);
    assert!(data[16 + 32 * count..].iter().all(|&byte| byte == 0), "zeros behind the end");
    let one = |at: usize| {
        let of = &data[16 + 32 * at..][..32];
        assert_eq!(of[4..8], [0; 4], "no time is said");
        assert_eq!(of[16..], [0; 16]);
        (le(of, 0, 2) as u16, le(of, 2, 2) as u16, le(of, 8, 8))
    };
    (0..count).map(one).collect()
}

/// Reclaim Unit Handle Update: I/O Management Send 1Dh, MO 1.
fn update(namespace: u32, identifiers: &[u16]) -> (SubmissionEntry, Vec<u8>) {
    let mut entry = entry(0x1d, namespace);
    entry.dword10.set(1 | (identifiers.len() as u32 - 1) << 16);
    (entry, identifiers.iter().flat_map(|it| it.to_le_bytes()).collect())
}

/// An entry with a directive.
fn with(mut entry: SubmissionEntry, kind: u32, specific: u16) -> SubmissionEntry {
    entry.dword12.set(entry.dword12.get() | kind << 20);
    entry.dword13.set(u32::from(specific) << 16);
    entry
}

fn placed(start: u64, count: u32, identifier: u16) -> SubmissionEntry {
    with(write(start, count), 2, identifier)
}

/// Set Features of Flexible Data Placement Events for a placement handle.
fn want(namespace: u32, handle: u16, types: &[u8], wants: bool) -> (SubmissionEntry, Vec<u8>) {
    let mut entry = set_feature(0x1e, u32::from(handle) | (types.len() as u32) << 16);
    entry.namespace_id.set(namespace);
    entry.dword12.set(wants.into());
    // As nvme-cli does.
    let mut data = types.to_vec();
    data.resize(255, 0);
    (entry, data)
}

fn wants(world: &mut World, admin: Queue, namespace: u32, handle: u16, types: &[u8]) {
    let (entry, data) = want(namespace, handle, types, true);
    assert_eq!(world.status(admin, entry, &data), Status::SUCCESS);
}

/// The events of hosts, or of the controller.
fn events(world: &mut World, admin: Queue, of_hosts: bool) -> Vec<Vec<u8>> {
    let (reply, log) = world.call(admin, group_log(0x23, 4096, 1, of_hosts.into()), &[]);
    assert!(reply.status().is_success(), "{:?}", reply.status());
    let count = le(&log, 0, 4) as usize;
    assert_eq!(log[4..64], [0; 60]);
    assert!(log[64 + 64 * count..].iter().all(|&byte| byte == 0));
    (0..count).map(|at| log[64 + 64 * at..][..64].to_vec()).collect()
}

/// Namespace Management: a new namespace of so many blocks of 512 bytes with these reclaim unit handles.
fn wish(blocks: u64, list: &[u16]) -> Vec<u8> {
    let mut data = vec![0; 4096];
    data[..8].copy_from_slice(&blocks.to_le_bytes());
    data[8..16].copy_from_slice(&blocks.to_le_bytes());
    data[30] = 1;
    data[102] = 1;
    data[392..394].copy_from_slice(&(list.len() as u16).to_le_bytes());
    for (at, handle) in list.iter().enumerate().take(128) {
        data[512 + 2 * at..][..2].copy_from_slice(&handle.to_le_bytes());
    }
    data
}

fn create(world: &mut World, admin: Queue, wish: &[u8]) -> Result<u32, Status> {
    let (reply, _) = world.call(admin, entry(admin::NAMESPACE_MANAGEMENT, 0), wish);
    match reply.status().is_success() {
        true => Ok(reply.result.get() as u32),
        false => Err(plain(reply.status())),
    }
}

fn attach(world: &mut World, admin: Queue, controller: u16, namespace: u32) {
    let list = [1, 0, controller as u8, (controller >> 8) as u8];
    let status = world.status(admin, entry(admin::NAMESPACE_ATTACHMENT, namespace), &list);
    assert_eq!(status, Status::SUCCESS);
}

fn delete_all(world: &mut World, admin: Queue) {
    let mut entry = entry(admin::NAMESPACE_MANAGEMENT, 0xffff_ffff);
    entry.dword10.set(1);
    assert_eq!(world.status(admin, entry, &[]), Status::SUCCESS);
}

fn usage(world: &mut World, admin: Queue) -> Vec<u8> {
    let log = placement_log(world, admin, 0x21, 8 + 8 * u32::from(HANDLES));
    assert_eq!((le(&log, 0, 2), &log[2..8]), (HANDLES.into(), &[0; 6][..]));
    log[8..].chunks(8).inspect(|it| assert_eq!(it[1..], [0; 7])).map(|it| it[0]).collect()
}

/// Bytes that hosts wrote, that were written, that were erased.
fn statistics(world: &mut World, admin: Queue) -> (u64, u64, u64) {
    let log = placement_log(world, admin, 0x22, 64);
    assert_eq!((le(&log, 8, 8), le(&log, 24, 8), le(&log, 40, 8), le(&log, 48, 8)), (0, 0, 0, 0));
    (le(&log, 0, 8), le(&log, 16, 8), le(&log, 32, 8))
}

/// Hears which data each write belongs with, and updates.
struct Heard(Rc<RefCell<Vec<(Operation, u16)>>>);

impl Tap for Heard {
    fn command(&mut self, _: Time, _: QueueId, request: &Request) {
        if matches!(request.operation, Operation::Write | Operation::WriteThrough) {
            self.0.borrow_mut().push((request.operation, request.placement.0));
        }
    }
    fn own_command(&mut self, _: Time, _: QueueId, _: &Request) {}
    fn key_command(&mut self, _: Time, _: QueueId, _: &KeyRequest) {}
    fn decided(&mut self, _: Time, _: Tag, _: &Decision) {}
    fn ring(&mut self, _: Time, _: QueueId, _: u32) {}
    fn data_arrived(&mut self, _: Time, _: Tag) {}
    fn cq_freed(&mut self, _: Time, _: QueueId, _: u32) {}
    fn control(&mut self, _: Time, control: &Control) {
        if let Control::UpdateHandle(_, PlacementId(handle)) = control {
            self.0.borrow_mut().push((Operation::Other, *handle));
        }
    }
    fn completed(&mut self, _: &io::Completion, _: Time) {}
}

fn heard(world: &mut World) -> Rc<RefCell<Vec<(Operation, u16)>>> {
    let heard = Rc::default();
    world.subsystem.set_tap(Box::new(Heard(Rc::clone(&heard))));
    heard
}

#[test]
fn identify_says_that_there_is_data_placement() {
    let mut world = world();
    let (admin, ..) = world.host();
    let page = world.identify(admin, 0x01, 0);
    assert_eq!(le(&page, 96, 4) & (1 << 19 | 1 << 4), 1 << 19 | 1 << 4, "CTRATT");
    assert_eq!(le(&page, 256, 2), 0b11_1110, "OACS");
    assert_eq!(le(&page, 340, 2), 1, "ENDGIDMAX");
    assert_eq!(le(&world.identify(admin, 0x00, 1), 102, 2), 1);
    assert_eq!(le(&world.identify(admin, 0x08, 1), 12, 2), 1);
    assert_eq!(le(&world.identify(admin, 0x11, 1), 102, 2), 1);
    assert_eq!(world.identify(admin, 0x19, 0)[..4], [1, 0, 1, 0]);
    let pages = world.log(admin, 0x00, 1024);
    let there = [0x20, 0x21, 0x22, 0x23, 0xc0, 0xd0];
    assert!(there.iter().all(|page| pages[page * 4] & 1 == 1));
    let effects = world.log(admin, 0x05, 4096);
    let of = |at: usize| le(&effects, at, 4);
    assert_eq!([of(0x19 * 4), of(0x1a * 4)], [1, 1]);
    assert_eq!([of(1024 + 0x12 * 4), of(1024 + 0x1d * 4)], [1, 1]);
    let features = world.log(admin, 0x12, 1024);
    assert_eq!(le(&features, 0x1d * 4, 4), 1 | 1 << 23, "of an endurance group");
    assert_eq!(le(&features, 0x1e * 4, 4), 1 | 1 << 20, "of namespaces");
}

/// A drive without it is what it was.
#[test]
fn a_drive_without_data_placement_knows_nothing_of_it() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, _) = world.host();
    let heard = heard(&mut world);
    let page = world.identify(admin, 0x01, 0);
    assert_eq!((le(&page, 96, 4), le(&page, 256, 2)), (1 | 1 << 4 | 1 << 6, 0b1_1110));
    let effects = world.log(admin, 0x05, 4096);
    for at in [0x19 * 4, 0x1a * 4, 1024 + 0x12 * 4, 1024 + 0x1d * 4] {
        assert_eq!(le(&effects, at, 4), 0);
    }
    let (features, pages) = (world.log(admin, 0x12, 1024), world.log(admin, 0x00, 1024));
    assert_eq!(le(&features, 0x1d * 4, 8), 0);
    for page in [0x20, 0x21, 0x22, 0x23, 0xd0] {
        assert_eq!(pages[usize::from(page) * 4], 0);
        let entry = group_log(page, 64, 1, 0);
        assert_eq!(world.status(admin, entry, &[]), Status::LOG_PAGE_INVALID, "{page:#x}");
    }
    assert_eq!(world.log(admin, 0xc0, 256)[..4], [1, 0, 0, 0], "Mynah's own page");
    let (set, types) = want(1, 0, &[3], true);
    let mut get = get_feature(0x1e, 0, 4 << 16);
    get.namespace_id.set(1);
    for (queue, entry, data, expected) in [
        (io, receive(1, 1, 4048), &[][..], Status::INVALID_OPCODE),
        // Whatever the namespace: there is no such command.
        (io, receive(77, 1, 4048), &[], Status::INVALID_OPCODE),
        (io, update(1, &[0]).0, &[0, 0], Status::INVALID_OPCODE),
        (admin, entry(0x19, 1), &[], Status::INVALID_OPCODE),
        (admin, entry(0x1a, 1), &[], Status::INVALID_OPCODE),
        (admin, get_feature(0x1d, 0, 1), &[], Status::INVALID_FIELD),
        (admin, set_feature(0x1d, 1), &[], Status::INVALID_FIELD),
        (admin, get, &[], Status::INVALID_FIELD),
        (admin, set, &types, Status::INVALID_FIELD),
    ] {
        assert_eq!(world.status(queue, entry, data), expected, "{:#x}", entry.opcode);
    }
    // No room and no data for what is not there.
    let mut entry = receive(1, 1, 4048);
    entry.data.length.set(0);
    assert_eq!(world.status(io, entry, &[]), Status::INVALID_OPCODE);
    // Directives of writes are not looked at.
    for (kind, specific) in [(1, 7), (2, 9), (15, 1)] {
        let entry = with(write(0, 8), kind, specific);
        assert_eq!(world.status(io, entry, &pattern(1, 4096)), Status::SUCCESS);
    }
    assert_eq!(heard.take(), [(Operation::Write, 0); 3]);
    // Nor is a list of handles.
    delete_all(&mut world, admin);
    assert_eq!(create(&mut world, admin, &wish(64, &[9, 9])), Ok(1));
}

#[test]
fn there_is_one_configuration() {
    for (change, kind) in [(placing as fn(&mut Config), 1), (persistently, 2)] {
        let mut world = World::with(Timing::Modelled, |_| {}, change);
        let (admin, ..) = world.host();
        // As Linux does: the head first, and then as many bytes as it says.
        let head = placement_log(&mut world, admin, 0x20, 16);
        assert_eq!(head, [0, 0, 0, 0, 96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let log = placement_log(&mut world, admin, 0x20, 96);
        let of = &log[16..];
        assert_eq!(le(of, 0, 2), 80, "bytes of it");
        assert_eq!(of[2], 0x90, "valid, volatile cache, no bits of reclaim groups");
        assert_eq!((of[3], le(of, 4, 4), le(of, 8, 2)), (0, 1, 4));
        assert_eq!((le(of, 10, 2), le(of, 12, 4)), (3, 1024));
        assert_eq!((le(of, 16, 8), le(of, 24, 4)), (UNIT_BYTES, 0));
        assert_eq!(of[28..64], [0; 36]);
        assert_eq!(of[64..], [kind, 0, 0, 0].repeat(4));
        // Of an odd number of handles the descriptor is a multiple of eight bytes all the same.
    }
    let odd = |config: &mut Config| {
        placing(config);
        config.data_placement.as_mut().expect("it has").handles = 3;
    };
    let mut world = World::with(Timing::Modelled, |_| {}, odd);
    let (admin, ..) = world.host();
    let log = placement_log(&mut world, admin, 0x20, 96);
    assert_eq!((le(&log, 4, 4), le(&log, 16, 2), le(&log, 26, 2)), (96, 80, 2));
    assert_eq!(log[80..], [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn logs_are_of_the_endurance_group() {
    let mut world = world();
    let (admin, ..) = world.host();
    for page in [0x20, 0x21, 0x22, 0x23] {
        for group in [0, 2, 0xffff] {
            let status = world.status(admin, group_log(page, 64, group, 0), &[]);
            assert_eq!(status, Status::INVALID_FIELD, "{page:#x} {group}");
        }
        let mut entry = group_log(page, 64, 1, 0);
        // The namespace is reserved.
        entry.namespace_id.set(0xffff_ffff);
        assert_eq!(world.status(admin, entry, &[]), Status::SUCCESS);
    }
}

#[test]
fn handles_say_how_much_room_their_units_have() {
    let mut world = world();
    let (_, io, _) = world.host();
    let whole = UNIT_BYTES / 512;
    let at_first: Vec<_> = (0..4).map(|at| (at, at, whole)).collect();
    assert_eq!(handles(&mut world, io, 1), at_first);
    for (start, count, identifier) in [(0, 64, 2), (64, 8, 0), (128, 16, 2), (256, 8, 3)] {
        let data = pattern(start, count as usize * 512);
        assert_eq!(world.status(io, placed(start, count, identifier), &data), Status::SUCCESS);
    }
    // One without a directive goes where those of placement handle 0 go.
    assert_eq!(world.status(io, write(512, 8), &pattern(5, 4096)), Status::SUCCESS);
    let left: Vec<u64> = handles(&mut world, io, 1).iter().map(|it| it.2).collect();
    assert_eq!(left, [whole - 16, whole, whole - 80, whole - 8]);
    // In blocks of the namespace's format, and for as many handles as there is room for.
    let (reply, head) = world.call(io, receive(1, 1, 4), &[]);
    assert!(reply.status().is_success() && head == [0; 4]);
    let (_, part) = world.call(io, receive(1, 1, 64), &[]);
    assert_eq!((part.len(), le(&part, 14, 2), le(&part, 56, 8)), (64, 4, whole));
    // What is read is what was written.
    assert_eq!(world.call(io, read(128, 16), &[]).1, pattern(128, 16 * 512));
}

#[test]
fn blocks_left_are_blocks_of_the_format() {
    let large = |config: &mut SubsystemConfig| {
        let content = NamespaceContent::Blocks(4096);
        config.namespaces = vec![NamespaceConfig { bytes: None, content, handles: vec![] }];
    };
    let mut world = World::with(Timing::Modelled, large, placing);
    let (_, io, _) = world.host();
    assert_eq!(world.status(io, placed(0, 2, 1), &pattern(1, 8192)), Status::SUCCESS);
    let left: Vec<u64> = handles(&mut world, io, 1).iter().map(|it| it.2).collect();
    assert_eq!(left, [128, 126, 128, 128]);
}

#[test]
fn an_update_begins_a_new_unit_unless_the_old_is_empty() {
    let mut world = world();
    let (admin, io, _) = world.host();
    let heard = heard(&mut world);
    for handle in 0..4 {
        wants(&mut world, admin, 1, handle, &[0]);
    }
    let whole = UNIT_BYTES / 512;
    world.status(io, placed(0, 24, 1), &pattern(1, 24 * 512));
    world.status(io, placed(64, 8, 3), &pattern(2, 8 * 512));
    heard.borrow_mut().clear();
    // 2 is empty still: it stays, and nobody hears of it.
    let (entry, data) = update(1, &[1, 2]);
    assert_eq!(world.status(io, entry, &data), Status::SUCCESS);
    assert_eq!(heard.take(), [(Operation::Other, 1)]);
    let left: Vec<u64> = handles(&mut world, io, 1).iter().map(|it| it.2).collect();
    assert_eq!(left, [whole, whole, whole, whole - 8]);
    let events = events(&mut world, admin, true);
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!((event[0], event[1], le(event, 2, 2)), (0, 7, 1));
    assert_eq!((le(event, 12, 4), le(event, 32, 2), le(event, 34, 2)), (1, 0, 1));
    // What is written now goes to the new one.
    world.status(io, placed(128, 8, 1), &pattern(3, 8 * 512));
    assert_eq!(handles(&mut world, io, 1)[1].2, whole - 8);
    // A flush programs a page that is half full.
    world.status(io, entry_of_flush(), &[]);
    assert_eq!(handles(&mut world, io, 1)[1].2, whole - 16);
    assert_eq!(world.call(io, read(0, 24), &[]).1, pattern(1, 24 * 512));
    // All of them at once.
    let (entry, data) = update(1, &[0, 1, 2, 3]);
    assert_eq!(world.status(io, entry, &data), Status::SUCCESS);
    assert!(handles(&mut world, io, 1).iter().all(|it| it.2 == whole));
}

fn entry_of_flush() -> SubmissionEntry {
    entry(nvm::FLUSH, 1)
}

#[test]
fn io_management_that_is_refused() {
    let mut world = world();
    let (admin, io, _) = world.host();
    let whole = UNIT_BYTES / 512;
    world.status(io, placed(0, 8, 0), &pattern(1, 4096));
    let short = |mut entry: SubmissionEntry| {
        entry.data.length.set(100);
        entry
    };
    let operation = |opcode, operation: u32| {
        let mut entry = entry(opcode, 1);
        entry.dword10.set(operation);
        entry
    };
    let update_of = |namespace, list: &[u16]| update(namespace, list).0;
    for (entry, data, expected) in [
        (receive(1, 0, 4), &[][..], Status::SUCCESS),
        (receive(1, 2, 4), &[], Status::INVALID_FIELD),
        (receive(1, 255, 4), &[], Status::INVALID_FIELD),
        (receive(2, 1, 4), &[], Status::INVALID_NAMESPACE),
        (receive(0, 1, 4), &[], Status::INVALID_NAMESPACE),
        (receive(0xffff_ffff, 1, 4), &[], Status::INVALID_NAMESPACE),
        (receive(1, 1, (128 << 10) + 4), &[], Status::INVALID_FIELD),
        (receive(1, 1, 0xffff_fffc), &[], Status::INVALID_FIELD),
        (short(receive(1, 1, 4048)), &[], Status::SGL_DATA_LENGTH_INVALID),
        (operation(0x1d, 0), &[], Status::SUCCESS),
        (operation(0x1d, 2), &[], Status::INVALID_FIELD),
        (update_of(1, &[4]), &[4, 0], Status::INVALID_FIELD),
        (update_of(1, &[0xffff]), &[0xff, 0xff], Status::INVALID_FIELD),
        // One that is not there, and so none of them.
        (update_of(1, &[0, 4]), &[0, 0, 4, 0], Status::INVALID_FIELD),
        (update_of(1, &[0; 5]), &[0; 10], Status::INVALID_FIELD),
        (update_of(1, &[0, 1]), &[0, 0, 1], Status::SGL_DATA_LENGTH_INVALID),
        (update_of(1, &[0]), &[], Status::SGL_DATA_LENGTH_INVALID),
        (update_of(9, &[0]), &[0, 0], Status::INVALID_NAMESPACE),
    ] {
        let status = world.status(io, entry, data);
        assert_eq!(status, expected, "{:#x} {:#x}", entry.opcode, entry.dword10.get());
    }
    let (reply, data) = world.call(io, receive(1, 0, 4048), &[]);
    assert!(reply.status().is_success() && data.is_empty(), "no action returns nothing");
    assert_eq!(handles(&mut world, io, 1)[0].2, whole - 8);
    // Where the namespace is protected against writes its handles may be updated, and not where
    // somebody else has reserved it.
    let mut protect = set_feature(0x84, 1);
    protect.namespace_id.set(1);
    assert_eq!(world.status(admin, protect, &[]), Status::SUCCESS);
    let (entry, data) = update(1, &[0]);
    assert_eq!(world.status(io, entry, &data), Status::SUCCESS);
    let (_, other, _) = world.host_as("nqn.2026-11.test:other");
    let register = reserve(nvm::RESERVATION_REGISTER, 0);
    assert_eq!(world.status(other, register, &keys(0, 7)), Status::SUCCESS);
    let acquire = reserve(nvm::RESERVATION_ACQUIRE, 2 << 8);
    assert_eq!(world.status(other, acquire, &keys(7, 0)), Status::SUCCESS);
    assert_eq!(world.status(io, entry, &data), Status::RESERVATION_CONFLICT);
    assert_eq!(world.status(io, receive(1, 1, 64), &[]), Status::RESERVATION_CONFLICT);
    assert_eq!(world.status(other, receive(1, 1, 64), &[]), Status::SUCCESS);
}

/// Whatever writes says where: the model hears the reclaim unit handle, whoever's placement handle it
/// is.
#[test]
fn whatever_writes_says_where() {
    let named = |config: &mut SubsystemConfig| {
        let content = NamespaceContent::Blocks(512);
        config.namespaces =
            vec![NamespaceConfig { bytes: Some(4 << 20), content, handles: vec![3, 1] }];
    };
    let mut world = World::with(Timing::Modelled, named, placing);
    let (admin, io, _) = world.host();
    assert_eq!(usage(&mut world, admin), [0, 1, 0, 1]);
    let there = handles(&mut world, io, 1);
    assert_eq!(there.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>(), [(0, 3), (1, 1)]);
    let heard = heard(&mut world);
    let page = pattern(1, 4096);
    let through = |mut entry: SubmissionEntry| {
        entry.dword12.set(entry.dword12.get() | 1 << 30);
        entry
    };
    for (entry, expected) in [
        (write(0, 8), (Operation::Write, 3)),
        (placed(0, 8, 0), (Operation::Write, 3)),
        (placed(0, 8, 1), (Operation::Write, 1)),
        (through(placed(0, 8, 1)), (Operation::WriteThrough, 1)),
    ] {
        assert_eq!(world.status(io, entry, &page), Status::SUCCESS);
        assert_eq!(heard.take(), [expected]);
    }
    // Some blocks of a unit are written as well where the rest is deallocated.
    let entry = with(write_zeroes(3, 16, true), 2, 1);
    assert_eq!(world.status(io, entry, &[]), Status::SUCCESS);
    assert_eq!(heard.take(), [(Operation::Write, 1); 2]);
    assert_eq!(world.status(io, with(write_zeroes(0, 8, false), 2, 1), &[]), Status::SUCCESS);
    assert_eq!(heard.take(), [(Operation::Write, 1)]);
    let (entry, range) = copy(0, 64, 8);
    assert_eq!(world.status(io, with(entry, 2, 1), range.as_bytes()), Status::SUCCESS);
    assert_eq!(heard.take(), [(Operation::Write, 1)]);
    // Compare and Write.
    let mut first = blocks(nvm::COMPARE, 1, 0, 8);
    let mut second = placed(0, 8, 1);
    (first.flags, second.flags) = (first.flags | 1, second.flags | 2);
    let ids = (world.submit(io, first, &[0; 4096]), world.submit(io, second, &page));
    assert!(world.reply(io, ids.0).0.entry.status().is_success());
    assert!(world.reply(io, ids.1).0.entry.status().is_success());
    assert_eq!(heard.take(), [(Operation::Write, 1)]);
    // Types that are not supported.
    for kind in [1, 3, 15] {
        assert_eq!(world.status(io, with(write(0, 8), kind, 0), &page), Status::INVALID_FIELD);
        let entry = with(write_zeroes(0, 8, false), kind, 0);
        assert_eq!(world.status(io, entry, &[]), Status::INVALID_FIELD);
        let (entry, range) = copy(0, 64, 8);
        let status = world.status(io, with(entry, kind, 0), range.as_bytes());
        assert_eq!(status, Status::INVALID_FIELD);
        let ids =
            (world.submit(io, first, &page), world.submit(io, with(second, kind ^ 2, 0), &page));
        let second = world.reply(io, ids.1).0;
        assert_eq!(plain(second.entry.status()), Status::INVALID_FIELD);
        world.reply(io, ids.0);
    }
    assert_eq!(heard.take(), []);
    // The fields of commands that do not write mean nothing.
    assert_eq!(world.status(io, with(read(0, 8), 15, 77), &[]), Status::SUCCESS);
    let entry = with(blocks(nvm::WRITE_UNCORRECTABLE, 1, 100, 1), 15, 77);
    assert_eq!(world.status(io, entry, &[]), Status::SUCCESS);
}

#[test]
fn a_write_with_an_unknown_identifier_goes_to_the_first_handle_and_is_told() {
    let mut world = world();
    let (admin, io, _) = world.host();
    let heard = heard(&mut world);
    let page = pattern(1, 4096);
    assert_eq!(world.status(io, placed(0, 8, 4), &page), Status::SUCCESS);
    assert_eq!(events(&mut world, admin, true).len(), 0, "nobody has asked for it");
    wants(&mut world, admin, 1, 0, &[3]);
    // Of the handle that the write has got, not of another.
    wants(&mut world, admin, 1, 1, &[0]);
    // 2026 in milliseconds.
    let stamp = 1_795_000_000_000u64.to_le_bytes();
    assert_eq!(world.status(admin, set_feature(0x0e, 0), &stamp), Status::SUCCESS);
    assert_eq!(world.status(io, placed(8, 8, 0xabcd), &page), Status::SUCCESS);
    let (entry, range) = copy(0, 64, 8);
    assert_eq!(world.status(io, with(entry, 2, 7), range.as_bytes()), Status::SUCCESS);
    assert_eq!(world.status(io, placed(16, 8, 1), &page), Status::SUCCESS);
    // One that fails has written nowhere.
    assert_eq!(world.status(io, placed(u64::MAX, 8, 9), &page), Status::LBA_OUT_OF_RANGE);
    let events = events(&mut world, admin, true);
    assert_eq!(events.len(), 2);
    let event = &events[0];
    assert_eq!((event[0], event[1], le(event, 2, 2)), (3, 7, 0xabcd));
    assert!(le(event, 4, 6) >= 1_795_000_000_000 && event[10] == 2, "the host's clock");
    assert_eq!((le(event, 12, 4), le(event, 32, 2), le(event, 34, 2)), (1, 0, 0));
    assert_eq!((&event[16..32], &event[36..]), (&[0; 16][..], &[0; 28][..]));
    assert_eq!(le(&events[1], 2, 2), 7);
    let unknown = world.subsystem.drive().placement_counters().expect("it has").unknown;
    assert_eq!(unknown, 3, "the model counts them");
    assert_eq!(heard.borrow().iter().filter(|it| it.1 == 1).count(), 1);
    let left = handles(&mut world, io, 1);
    assert_eq!((left[0].2, left[1].2), (UNIT_BYTES / 512 - 24, UNIT_BYTES / 512 - 8));
}

#[test]
fn the_oldest_events_give_way() {
    let mut world = world();
    let (admin, io, _) = world.host();
    wants(&mut world, admin, 1, 0, &[3, 0x80]);
    for identifier in 100..170 {
        assert_eq!(world.status(io, placed(0, 8, identifier), &pattern(1, 4096)), Status::SUCCESS);
    }
    let kept = events(&mut world, admin, true);
    assert_eq!(kept.len(), 63);
    let identifiers: Vec<u64> = kept.iter().map(|event| le(event, 2, 2)).collect();
    assert_eq!(identifiers, (107..170).collect::<Vec<u64>>());
    assert_eq!(events(&mut world, admin, false).len(), 0, "the controller's are others");
    // They stay when they are read.
    assert_eq!(events(&mut world, admin, true).len(), 63);
}

#[test]
fn events_are_wanted_by_handle() {
    let mut world = world();
    let (admin, ..) = world.host();
    let get = |types: u32, handle: u32| {
        let mut entry = get_feature(0x1e, 0, handle | types << 16);
        entry.namespace_id.set(1);
        entry
    };
    let (reply, data) = world.call(admin, get(6, 2), &[]);
    assert_eq!(
        (reply.result.get(), &data[..]),
        (6, &[0, 0, 1, 0, 2, 0, 3, 0, 0x80, 0, 0x81, 0][..])
    );
    wants(&mut world, admin, 1, 2, &[3, 0x80]);
    let (entry, data) = want(1, 2, &[3], false);
    let (_, after) = world.call(admin, get(255, 2), &[]);
    assert_eq!((after.len(), &after[6..12]), (510, &[3, 1, 0x80, 1, 0x81, 0][..]));
    assert!(after[12..].iter().all(|&byte| byte == 0));
    assert_eq!(world.status(admin, entry, &data), Status::SUCCESS);
    let (_, after) = world.call(admin, get(5, 2), &[]);
    assert_eq!(after, [0, 0, 1, 0, 2, 0, 3, 0, 0x80, 1]);
    let (_, other) = world.call(admin, get(5, 1), &[]);
    assert_eq!(other, [0, 0, 1, 0, 2, 0, 3, 0, 0x80, 0]);
    let mut default = get(5, 2);
    default.dword10.set(0x1e | 1 << 8);
    assert_eq!(world.call(admin, default, &[]).1[8..], [0x80, 0]);
    let mut supported = get(0, 0);
    supported.dword10.set(0x1e | 3 << 8);
    assert_eq!(world.call(admin, supported, &[]).0.result.get(), 0b110);
    let in_namespace = |namespace| {
        let (mut entry, data) = want(1, 0, &[3], true);
        entry.namespace_id.set(namespace);
        (entry, data)
    };
    for ((entry, data), expected) in [
        (want(1, 4, &[3], true), Status::INVALID_FIELD),
        (want(1, 0, &[4], true), Status::INVALID_FIELD),
        (want(1, 0, &[3, 0xff], true), Status::INVALID_FIELD),
        (want(1, 0, &[], true), Status::INVALID_FIELD),
        ((want(1, 0, &[3; 9], true).0, vec![3; 8]), Status::SGL_DATA_LENGTH_INVALID),
        (in_namespace(0), Status::INVALID_NAMESPACE),
        (in_namespace(2), Status::INVALID_NAMESPACE),
        (in_namespace(0xffff_ffff), Status::INVALID_NAMESPACE),
        ((get(0, 0), vec![]), Status::INVALID_FIELD),
        ((get(1, 4), vec![]), Status::INVALID_FIELD),
    ] {
        assert_eq!(world.status(admin, entry, &data), expected);
    }
    // None of those was done by halves.
    assert_eq!(world.call(admin, get(5, 0), &[]).1, [0, 0, 1, 0, 2, 0, 3, 0, 0x80, 0]);
}

#[test]
fn statistics_are_what_the_drive_has_written() {
    let mut world = world();
    let (admin, io, _) = world.host();
    assert_eq!(statistics(&mut world, admin), (0, 0, 0));
    let blocks = world.subsystem.namespace_blocks(1).expect("it is there");
    let mut random = 1u64;
    for round in 0..6 * blocks / 64 {
        let start = match round < blocks / 64 {
            true => round * 64,
            false => {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % (blocks / 64) * 64
            }
        };
        let entry = placed(start, 64, (round % 4) as u16);
        assert_eq!(world.status(io, entry, &pattern(round, 64 * 512)), Status::SUCCESS);
    }
    world.status(io, entry_of_flush(), &[]);
    let (host, media, erased) = statistics(&mut world, admin);
    assert_eq!(host, 6 * blocks / 64 * 64 * 512);
    let counters = world.subsystem.drive().counters();
    let waf = counters.write_amplification().expect("something was written");
    assert!(waf > 1.05, "{waf}");
    assert_eq!(media as f64 / host as f64, waf, "to the byte");
    let placement = counters.placement.expect("it has");
    assert!(placement.units_erased > 0);
    assert_eq!(erased, placement.units_erased * UNIT_BYTES);
    // The same in the pages that tools look at.
    let ocp = world.log(admin, 0xc0, 512);
    let guid = [
        0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4, 0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14, 0xd5,
        0xaf,
    ];
    assert_eq!((le(&ocp, 0, 8), le(&ocp, 8, 8), &ocp[496..]), (media, 0, &guid[..]));
    assert_eq!(le(&ocp, 16, 8), counters.flash_reads * 8192);
    assert_eq!((le(&ocp, 494, 2), ocp[103]), (3, 2));
    let own = world.log(admin, 0xd0, 256);
    assert_eq!((le(&own, 0, 4), le(&own, 8, 4)), (1, (waf * 1000.0) as u64));
    let mut entry = log_page(0x09, 512, 0);
    entry.dword11.set(entry.dword11.get() | 1 << 16);
    let group = world.call(admin, entry, &[]).1;
    let billions = |bytes: u64| bytes.div_ceil(1_000_000_000);
    assert_eq!((le(&group, 64, 8), le(&group, 80, 8)), (billions(host), billions(media)));
}

/// Data that collection moves are told of at most once a second.
#[test]
fn collection_is_told_of() {
    for (change, expected) in [(placing as fn(&mut Config), true), (persistently, false)] {
        let mut world = World::with(Timing::Modelled, |_| {}, change);
        let (admin, io, _) = world.host();
        for handle in 0..4 {
            wants(&mut world, admin, 1, handle, &[0x80]);
        }
        let blocks = world.subsystem.namespace_blocks(1).expect("it is there");
        let began = world.now;
        let mut random = 1u64;
        for round in 0..5 * blocks / 64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let start = match round < blocks / 64 {
                true => round * 64,
                false => (random >> 33) % (blocks / 64) * 64,
            };
            world.status(io, placed(start, 64, (round % 4) as u16), &pattern(round, 64 * 512));
        }
        let took = world.now.since(began).as_ps() / Span::from_secs(1).as_ps();
        world.wait(Span::from_secs(2));
        let events = events(&mut world, admin, false);
        let moved = world.subsystem.drive().placement_counters().expect("it has");
        assert!(moved.handles.iter().map(|it| it.units_moved).sum::<u64>() > 0);
        assert_eq!(!events.is_empty(), expected);
        assert!(events.len() as u64 <= took + 2, "{} in {took} s", events.len());
        for event in events {
            assert_eq!((event[0], event[1], le(&event, 12, 4)), (0x80, 7, 1));
            assert_eq!(le(&event, 2, 2), le(&event, 34, 2), "all handles, in order");
            assert!(event[16] == 0 && le(&event, 18, 2) >= 8, "blocks moved, and no LBA");
        }
    }
}

#[test]
fn it_is_enabled_and_disabled_where_there_is_no_namespace() {
    let mut world = world();
    let (admin, io, id) = world.host();
    let get = |select, group| get_feature(0x1d, select, group);
    let set = |group, value: u32| {
        let mut entry = set_feature(0x1d, group);
        entry.dword12.set(value);
        entry
    };
    for select in [0, 1, 2] {
        assert_eq!(world.call(admin, get(select, 1), &[]).0.result.get(), 1);
    }
    assert_eq!(world.call(admin, get(3, 1), &[]).0.result.get(), 0b101, "changed and saved");
    assert_eq!(world.status(admin, get(0, 2), &[]), Status::INVALID_FIELD);
    let saved = |mut entry: SubmissionEntry| {
        entry.dword10.set(entry.dword10.get() | 1 << 31);
        entry
    };
    let of_namespace = |mut entry: SubmissionEntry| {
        entry.namespace_id.set(1);
        entry
    };
    wants(&mut world, admin, 1, 0, &[3]);
    world.status(io, placed(0, 8, 9), &pattern(1, 4096));
    world.status(io, entry_of_flush(), &[]);
    assert_eq!(events(&mut world, admin, true).len(), 1);
    assert!(statistics(&mut world, admin).1 > 0);
    for (entry, expected) in [
        (set(1, 0), Status::COMMAND_SEQUENCE_ERROR),
        // Nothing changes.
        (set(1, 1), Status::SUCCESS),
        (set(2, 1), Status::INVALID_FIELD),
        (set(1, 1 | 1 << 8), Status::INVALID_FIELD),
        (of_namespace(set(1, 0)), Status::FEATURE_NOT_NAMESPACE_SPECIFIC),
    ] {
        assert_eq!(world.status(admin, entry, &[]), expected);
    }
    assert_eq!(events(&mut world, admin, true).len(), 1, "nothing has changed");
    delete_all(&mut world, admin);
    assert_eq!(usage(&mut world, admin), [0; 4]);
    assert_eq!(world.status(admin, set(1, 0), &[]), Status::SUCCESS);
    assert_eq!(world.call(admin, get(0, 1), &[]).0.result.get(), 0);
    assert_eq!(world.call(admin, get(1, 1), &[]).0.result.get(), 1, "the default");
    for page in [0x21, 0x22, 0x23] {
        let status = world.status(admin, group_log(page, 64, 1, 0), &[]);
        assert_eq!(status, Status::FDP_DISABLED, "{page:#x}");
    }
    assert_eq!(placement_log(&mut world, admin, 0x20, 96)[18], 0x90, "it can be read");
    // A namespace without placement handles; its list is not looked at.
    assert_eq!(create(&mut world, admin, &wish(1024, &[9, 9, 9])), Ok(1));
    attach(&mut world, admin, id, 1);
    let (entry, data) = update(1, &[0]);
    assert_eq!(world.status(io, receive(1, 1, 64), &[]), Status::FDP_DISABLED);
    assert_eq!(world.status(io, entry, &data), Status::FDP_DISABLED);
    let (events_feature, types) = want(1, 0, &[3], true);
    assert_eq!(world.status(admin, events_feature, &types), Status::FDP_DISABLED);
    assert_eq!(world.status(io, write(0, 8), &pattern(2, 4096)), Status::SUCCESS);
    assert_eq!(world.status(io, placed(0, 8, 0), &pattern(2, 4096)), Status::INVALID_FIELD);
    let mut send = entry_with(0x19, 1, 2 << 8);
    assert_eq!(world.status(admin, send, &[]), Status::FDP_DISABLED);
    let (_, directives) = world.call(admin, directives(1, 4096), &[]);
    assert_eq!((directives[0], directives[32], directives[64]), (0b101, 0b001, 0b100));
    assert_eq!(world.status(admin, set(1, 1), &[]), Status::COMMAND_SEQUENCE_ERROR);
    delete_all(&mut world, admin);
    // With the save bit, and without the group, as `nvme set-feature -f 0x1d -c 1 -s` has it.
    assert_eq!(world.status(admin, saved(set(0, 1)), &[]), Status::SUCCESS);
    assert_eq!(statistics(&mut world, admin), (0, 0, 0), "counted anew");
    assert_eq!(events(&mut world, admin, true).len(), 0);
    assert_eq!(create(&mut world, admin, &wish(1024, &[2, 0])), Ok(1));
    attach(&mut world, admin, id, 1);
    assert_eq!(handles(&mut world, io, 1).len(), 2);
    send.dword11.set(2 << 8);
    assert_eq!(world.status(admin, send, &[]), Status::INVALID_FIELD);
    // What was wanted is forgotten.
    world.status(io, placed(0, 8, 9), &pattern(1, 4096));
    assert_eq!(events(&mut world, admin, true).len(), 0);
}

fn entry_with(opcode: u8, namespace: u32, second: u32) -> SubmissionEntry {
    let mut entry = entry(opcode, namespace);
    entry.dword11.set(second);
    entry
}

/// Directive Receive of Identify, return parameters.
fn directives(namespace: u32, bytes: u32) -> SubmissionEntry {
    let mut entry = entry_with(0x1a, namespace, 1);
    entry.dword10.set(bytes / 4 - 1);
    entry
}

#[test]
fn directives_say_that_there_is_data_placement() {
    let mut world = world();
    let (admin, ..) = world.host();
    let (_, page) = world.call(admin, directives(1, 4096), &[]);
    let mut expected = vec![0; 4096];
    (expected[0], expected[32], expected[64]) = (0b101, 0b101, 0b100);
    assert_eq!(page, expected);
    assert_eq!(world.call(admin, directives(1, 4), &[]).1, [0b101, 0, 0, 0]);
    for (entry, expected) in [
        (directives(2, 4096), Status::INVALID_NAMESPACE),
        (directives(0xffff_ffff, 4096), Status::INVALID_NAMESPACE),
        (directives(1, (128 << 10) + 4), Status::INVALID_FIELD),
        (entry_with(0x1a, 1, 2), Status::INVALID_FIELD),
        // Streams, and data placement, which has no operations.
        (entry_with(0x1a, 1, 1 | 1 << 8), Status::INVALID_FIELD),
        (entry_with(0x1a, 1, 1 | 2 << 8), Status::INVALID_FIELD),
        (entry_with(0x19, 1, 1 | 2 << 8), Status::INVALID_FIELD),
        (entry_with(0x19, 1, 1), Status::INVALID_FIELD),
        (entry_with(0x19, 3, 1), Status::INVALID_NAMESPACE),
    ] {
        let status = world.status(admin, entry, &[]);
        assert_eq!(status, expected, "{:#x} {:#x}", entry.opcode, entry.dword11.get());
    }
}

#[test]
fn namespaces_are_created_with_lists_of_handles() {
    let mut world = world();
    let (admin, io, id) = world.host();
    assert_eq!(usage(&mut world, admin), [1; 4], "what the drive's description says");
    let invalid = Err(Status::PLACEMENT_HANDLES_INVALID);
    // Without a list the controller would choose one that nobody has.
    delete_all(&mut world, admin);
    let free = world.identify(admin, 0x01, 0)[296..304].to_vec();
    for list in [&[4][..], &[0, 0], &[1, 2, 1], &[0xffff], &[256], &[0; 129], &[0, 1, 2, 3, 4]] {
        assert_eq!(create(&mut world, admin, &wish(64, list)), invalid, "{list:?}");
    }
    let all = (0..128u16).chain([0]).collect::<Vec<u16>>();
    assert_eq!(create(&mut world, admin, &wish(64, &all)), invalid);
    let left = world.identify(admin, 0x01, 0)[296..304].to_vec();
    assert_eq!(free, left, "nothing is lost");
    assert_eq!(create(&mut world, admin, &wish(1024, &[2, 0])), Ok(1));
    assert_eq!(usage(&mut world, admin), [1, 0, 1, 0]);
    // Handles may be shared.
    assert_eq!(create(&mut world, admin, &wish(1024, &[2])), Ok(2));
    // The controller chooses one that nobody has, for all namespaces without a list.
    assert_eq!(create(&mut world, admin, &wish(1024, &[])), Ok(3));
    assert_eq!(create(&mut world, admin, &wish(1024, &[])), Ok(4));
    assert_eq!(usage(&mut world, admin), [1, 0, 1, 2]);
    assert_eq!(create(&mut world, admin, &wish(1024, &[3])), invalid, "it is the controller's");
    assert_eq!(create(&mut world, admin, &wish(1024, &[1])), Ok(5));
    (1..=5).for_each(|namespace| attach(&mut world, admin, id, namespace));
    let mut lists = Vec::new();
    for namespace in 1..=5 {
        let of = handles(&mut world, io, namespace);
        assert!(of.iter().zip(0..).all(|(it, at)| it.0 == at));
        lists.push(of.iter().map(|it| it.1).collect::<Vec<_>>());
    }
    assert_eq!(lists, [vec![2, 0], vec![2], vec![3], vec![3], vec![1]]);
    // What one writes for a handle that another has as well takes room from both.
    let entry = with(blocks(nvm::WRITE, 2, 0, 8), 2, 0);
    assert_eq!(world.status(io, entry, &pattern(1, 4096)), Status::SUCCESS);
    assert_eq!(handles(&mut world, io, 1)[0].2, UNIT_BYTES / 512 - 8);
    // Those that share a handle have one format.
    let of_format = |list: &[u16], format: u8| {
        let mut wish = wish(64, list);
        wish[26] = format;
        wish
    };
    assert_eq!(create(&mut world, admin, &of_format(&[1, 0], 1)), Err(Status::FORMAT_INVALID));
    assert_eq!(create(&mut world, admin, &of_format(&[], 1)), Err(Status::FORMAT_INVALID));
    delete_all(&mut world, admin);
    assert_eq!(create(&mut world, admin, &of_format(&[1, 0], 1)), Ok(1));
    assert_eq!(create(&mut world, admin, &of_format(&[0], 1)), Ok(2));
    assert_eq!(create(&mut world, admin, &of_format(&[2], 0)), Ok(3));
    // There is none left for the controller once lists have them all.
    delete_all(&mut world, admin);
    assert_eq!(create(&mut world, admin, &wish(1024, &[3, 2, 1, 0])), Ok(1));
    assert_eq!(create(&mut world, admin, &wish(1024, &[])), invalid);
}

#[test]
fn lists_outlive_the_process() {
    let kept = Description::default();
    let start = |before: Vec<u8>, change: fn(&mut Config)| {
        let store = Box::new(Kept::new(&kept, before));
        let mut world = World::with_store(Timing::Modelled, |_| {}, change, store);
        world.subsystem.open_store().expect("a store in memory");
        world
    };
    let lists = |world: &mut World| {
        let (_, io, _) = world.host();
        let mut of =
            |namespace| handles(world, io, namespace).iter().map(|it| it.1).collect::<Vec<_>>();
        [of(1), of(2), of(3)]
    };
    let mut world = start(vec![], placing);
    let (admin, _, id) = world.host();
    delete_all(&mut world, admin);
    for (list, expected) in [(&[2, 0, 1][..], 1), (&[], 2), (&[0, 1, 2], 3)] {
        assert_eq!(create(&mut world, admin, &wish(1024, list)), Ok(expected));
        attach(&mut world, admin, id, expected);
    }
    world.subsystem.close_store(None).expect("a store in memory");
    let mut world = start(kept.take(), placing);
    assert!(world.subsystem.has_restored_namespaces());
    assert_eq!(lists(&mut world), [vec![2, 0, 1], vec![3], vec![0, 1, 2]]);
    let (admin, ..) = world.host();
    assert_eq!(usage(&mut world, admin), [1, 1, 1, 2]);
    world.subsystem.close_store(None).expect("a store in memory");
    // With fewer handles, a list that has others is one of all.
    let fewer = |config: &mut Config| {
        placing(config);
        config.data_placement.as_mut().expect("it has").handles = 3;
    };
    let mut world = start(kept.take(), fewer);
    assert_eq!(lists(&mut world), [vec![2, 0, 1], vec![0, 1, 2], vec![0, 1, 2]]);
    world.subsystem.close_store(None).expect("a store in memory");
    // Without data placement there are none, and with it again there are.
    let without = |config: &mut Config| {
        placing(config);
        config.data_placement = None;
    };
    let mut world = start(kept.take(), without);
    assert!(world.subsystem.has_restored_namespaces());
    let (_, io, _) = world.host();
    assert_eq!(world.status(io, receive(1, 1, 64), &[]), Status::INVALID_OPCODE);
    world.subsystem.close_store(None).expect("a store in memory");
    let mut world = start(kept.take(), placing);
    assert_eq!(lists(&mut world), [vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
}

#[test]
fn whether_it_is_enabled_outlives_the_process() {
    let kept = Description::default();
    let start = |before: Vec<u8>| {
        let store = Box::new(Kept::new(&kept, before));
        let mut world = World::with_store(Timing::Modelled, |_| {}, placing, store);
        world.subsystem.open_store().expect("a store in memory");
        world
    };
    let mut world = start(vec![]);
    let (admin, ..) = world.host();
    delete_all(&mut world, admin);
    assert_eq!(world.status(admin, set_feature(0x1d, 1), &[]), Status::SUCCESS);
    assert_eq!(create(&mut world, admin, &wish(1024, &[])), Ok(1));
    world.subsystem.close_store(None).expect("a store in memory");
    let mut world = start(kept.take());
    let (admin, io, id) = world.host();
    assert_eq!(world.call(admin, get_feature(0x1d, 0, 1), &[]).0.result.get(), 0);
    attach(&mut world, admin, id, 1);
    assert_eq!(world.status(io, receive(1, 1, 64), &[]), Status::FDP_DISABLED);
}

#[test]
fn configured_handles_that_cannot_be() {
    let subsystem = |handles: &[u8], change: fn(&mut Config)| {
        let mut config = SubsystemConfig::new(SUBSYSTEM);
        let content = NamespaceContent::Blocks(512);
        config.namespaces =
            vec![NamespaceConfig { bytes: None, content, handles: handles.to_vec() }];
        let mut drive = small();
        change(&mut drive);
        let drive = Drive::new(drive).expect("a drive");
        Subsystem::new(config, drive, Box::new(mynah_device::RamStore::new())).map(|_| ())
    };
    let there = vec![0, 1, 2, 3];
    for list in [&[4][..], &[1, 1], &[0; 129]] {
        let refused = SubsystemError::Handles { namespace: 1, there: there.clone() };
        assert_eq!(subsystem(list, placing), Err(refused), "{list:?}");
    }
    assert_eq!(subsystem(&[3, 0], placing), Ok(()));
    assert_eq!(subsystem(&[0], |_| {}), Err(SubsystemError::NoHandles(1)));
}

#[test]
fn handles_stay_where_they_are_through_a_reset() {
    let mut world = world();
    let (admin, io, _) = world.host();
    wants(&mut world, admin, 1, 1, &[0, 2, 3]);
    world.status(io, placed(0, 24, 1), &pattern(1, 24 * 512));
    let before = handles(&mut world, io, 1);
    world.call(admin, property_set(0x14, 0), &[]);
    world.call(admin, property_set(0x14, 0x0046_0001), &[]);
    let (admin, io, _) = world.host_as("nqn.2026-11.test:other");
    assert_eq!(handles(&mut world, io, 1), before);
    assert_eq!(events(&mut world, admin, true).len(), 0);
}

/// A power cut takes what was in the cache, and the rest of a unit whose handle was updated; all else
/// is written behind what was there.
#[test]
fn handles_go_on_where_they_were_after_a_power_cut() {
    let at = Time::ZERO + Span::from_ms(200);
    let cut = |config: &mut Config| {
        placing(config);
        config.faults.push(Fault::PowerCut { at, recovery: Span::from_ms(5) });
    };
    let mut world = World::with(Timing::Modelled, |_| {}, cut);
    let (admin, io, _) = world.host();
    for handle in 0..4 {
        wants(&mut world, admin, 1, handle, &[0, 2, 3]);
    }
    // Two pages of each, on flash; of one handle something that is not, when it is updated.
    for identifier in 0..4u16 {
        let start = u64::from(identifier) * 32;
        let data = pattern(start, 32 * 512);
        assert_eq!(world.status(io, placed(start, 32, identifier), &data), Status::SUCCESS);
    }
    world.status(io, entry_of_flush(), &[]);
    let before: Vec<u64> = handles(&mut world, io, 1).iter().map(|it| it.2).collect();
    world.wait(at.since(world.now) - Span::from_us(60));
    assert_eq!(world.status(io, placed(256, 8, 2), &pattern(9, 4096)), Status::SUCCESS);
    let (entry, data) = update(1, &[2]);
    assert_eq!(world.status(io, entry, &data), Status::SUCCESS);
    assert!(world.now < at);
    world.wait(Span::from_ms(10));
    let (admin, io, _) = world.host();
    let mut expected = before;
    expected[2] = UNIT_BYTES / 512;
    let after: Vec<u64> = handles(&mut world, io, 1).iter().map(|it| it.2).collect();
    assert_eq!(after, expected);
    let events = events(&mut world, admin, true);
    assert_eq!(events.iter().map(|event| event[0]).collect::<Vec<_>>(), [0], "the update's");
    for identifier in 0..4u16 {
        let start = u64::from(identifier) * 32;
        assert_eq!(world.call(io, read(start, 32), &[]).1, pattern(start, 32 * 512));
        let data = pattern(start + 1, 32 * 512);
        assert_eq!(world.status(io, placed(start, 32, identifier), &data), Status::SUCCESS);
        assert_eq!(world.call(io, read(start, 32), &[]).1, data);
    }
    world.subsystem.drive().check().expect("the invariants hold");
}
