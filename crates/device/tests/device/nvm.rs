//! NVM commands other than Read, Write and Flush.

use crate::support::*;
use mynah_device::Timing;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::SubmissionEntry;
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::reservation::{Registrant, ReservationStatus};
use zerocopy::{FromBytes, IntoBytes};

const OTHER: &str = "nqn.2026-11.test:other";

fn fused(mut entry: SubmissionEntry, half: u8) -> SubmissionEntry {
    entry.flags |= half;
    entry
}

fn compare(start: u64, count: u32) -> SubmissionEntry {
    blocks(nvm::COMPARE, 1, start, count)
}

#[test]
fn compare_and_verify() {
    let mut world = World::new(Timing::Modelled);
    let (_, io, _) = world.host();
    let data = pattern(3, 4096);
    world.status(io, write(16, 8), &data);
    assert_eq!(world.status(io, compare(16, 8), &data), Status::SUCCESS);
    let mut other = data.clone();
    other[4095] ^= 1;
    assert_eq!(world.status(io, compare(16, 8), &other), Status::COMPARE_FAILURE);
    assert_eq!(world.status(io, compare(16, 8), &data[1..]), Status::SGL_DATA_LENGTH_INVALID);
    assert_eq!(world.status(io, blocks(nvm::VERIFY, 1, 16, 8), &[]), Status::SUCCESS);
    let verify = blocks(nvm::VERIFY, 1, u64::MAX, 1);
    assert_eq!(world.status(io, verify, &[]), Status::LBA_OUT_OF_RANGE);
}

#[test]
fn compare_and_write() {
    for timing in [Timing::Modelled, Timing::Immediate] {
        let mut world = World::new(timing);
        let (_, io, _) = world.host();
        let (old, new) = (pattern(4, 1024), pattern(5, 1024));
        world.status(io, write(8, 2), &old);
        let mut both = |first: SubmissionEntry, expect: &[u8], second: SubmissionEntry| {
            let first = world.submit(io, first, expect);
            let second = world.submit(io, second, &new);
            let status = |world: &mut World, id| plain(world.reply(io, id).0.entry.status());
            let results = (status(&mut world, first), status(&mut world, second));
            (results, world.call(io, read(8, 2), &[]).1)
        };
        let (first, second) = (fused(compare(8, 2), 1), fused(write(8, 2), 2));
        let failed = Status::ABORTED_FAILED_FUSED;
        let missing = Status::ABORTED_MISSING_FUSED;
        assert_eq!(both(first, &new, second), ((Status::COMPARE_FAILURE, failed), old.clone()));
        let elsewhere = fused(write(9, 2), 2);
        assert_eq!(both(first, &old, elsewhere), ((Status::INVALID_FIELD, failed), old.clone()));
        let wrong_kind = fused(read(8, 2), 1);
        assert_eq!(both(wrong_kind, &old, second), ((Status::INVALID_FIELD, failed), old.clone()));
        // A second half alone, and a first half followed by something else.
        let not_second = write(8, 2);
        let results = both(first, &old, not_second);
        assert_eq!(results, ((missing, Status::SUCCESS), new.clone()));
        world.status(io, write(8, 2), &old);
        assert_eq!(world.status(io, second, &new), missing);
        let long = fused(compare(8, 129), 1);
        let id = world.submit(io, long, &vec![0; 129 * 512]);
        world.submit(io, fused(write(8, 129), 2), &vec![0; 129 * 512]);
        let status = plain(world.reply(io, id).0.entry.status());
        assert_eq!(status, Status::ATOMIC_WRITE_UNIT_EXCEEDED);
        let first = world.submit(io, first, &old);
        let second = world.submit(io, second, &new);
        // Both succeed; the first half is answered first.
        assert!(world.reply(io, first).0.entry.status().is_success());
        assert!(world.reply_now(io, second).expect("both").0.entry.status().is_success());
        assert_eq!(world.call(io, read(8, 2), &[]).1, new);
    }
}

fn ranges(of: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (start, count) in of {
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(start.to_le_bytes());
    }
    bytes
}

fn deallocate(count: usize) -> SubmissionEntry {
    let mut entry = entry(nvm::DATASET_MANAGEMENT, 1);
    entry.dword10.set(count as u32 - 1);
    entry.dword11.set(1 << 2);
    entry
}

#[test]
fn deallocation_reaches_the_model_for_whole_units() {
    let mut world = World::new(Timing::Modelled);
    let (_, io, _) = world.host();
    let data = pattern(6, 64 * 512);
    world.status(io, write(0, 64), &data);
    let of = [(4, 24), (40, 8), (60, 0)];
    assert_eq!(world.status(io, deallocate(3), &ranges(&of)), Status::SUCCESS);
    let back = world.call(io, read(0, 64), &[]).1;
    for block in 0..64 {
        // Units of 8 blocks: 8 to 27 holds two whole ones, 40 to 47 one.
        let gone = (8..24).contains(&block) || (40..48).contains(&block);
        let range = block * 512..(block + 1) * 512;
        let expected = if gone { vec![0; 512] } else { data[range.clone()].to_vec() };
        assert_eq!(back[range], expected, "block {block}");
        let unit =
            world.subsystem.drive().holds_data(mynah_model::io::NamespaceId(1), block as u64 / 8);
        assert_eq!(unit, !gone, "block {block}");
    }
    let bad = ranges(&[(0, 8), (u64::MAX, 1)]);
    assert_eq!(world.status(io, deallocate(2), &bad), Status::LBA_OUT_OF_RANGE);
    assert_eq!(world.call(io, read(0, 8), &[]).1, data[..4096]);
    let many: Vec<(u64, u32)> = (0..256).map(|at| (at * 16, 8)).collect();
    assert_eq!(world.status(io, deallocate(256), &ranges(&many)), Status::SUCCESS);
    // Without the attribute nothing is deallocated.
    world.status(io, write(0, 64), &data);
    let mut hint = deallocate(1);
    hint.dword11.set(1);
    assert_eq!(world.status(io, hint, &ranges(&[(0, 64)])), Status::SUCCESS);
    assert_eq!(world.call(io, read(0, 64), &[]).1, data);
}

#[test]
fn a_long_deallocation_goes_in_turns_and_others_are_answered_meanwhile() {
    let namespace = mynah_model::io::NamespaceId(1);
    let mut took = Vec::new();
    for times in [1, 256] {
        // Some 40,000 units.
        let mut world =
            World::with(Timing::Modelled, |_| {}, |drive| drive.geometry.blocks_per_plane = 480);
        let (admin, io, _) = world.host();
        let all = world.subsystem.namespace_blocks(1).unwrap();
        let units = all / 8;
        assert!(units > 3 * 8192, "{units} units");
        for unit in [0, 8000, 9000, units - 1] {
            world.status(io, write(unit * 8, 8), &pattern(unit, 4096));
        }
        let before = world.now;
        let of = vec![(0, all as u32); times];
        let long = world.submit(io, deallocate(times), &ranges(&of));
        let other = world.submit(io, read(0, 8), &[]);
        world.reply(io, other);
        let holds = |world: &World, unit| world.subsystem.drive().holds_data(namespace, unit);
        assert!(world.reply_now(io, long).is_none());
        assert!(holds(&world, units - 1), "in later turns");
        // Turns are no less than 10 us apart, and none takes more than 8192 units.
        world.wait(mynah_stamp::Span::from_us(9));
        assert!(holds(&world, 9000));
        assert!(world.reply(io, long).0.entry.status().is_success());
        assert!([0, 8000, 9000, units - 1].iter().all(|&unit| !holds(&world, unit)));
        took.push(world.now.since(before));
        // Where turns are rare they do more, but for the first.
        world.wait(mynah_stamp::Span::from_ms(1));
        let (long, mut turns) = (world.submit(io, deallocate(times), &ranges(&of)), 0);
        while world.reply_now(io, long).is_none() {
            world.now += mynah_stamp::Span::from_ms(1);
            let clock = world.clock();
            world.subsystem.advance(clock);
            turns += 1;
        }
        assert!(units / 8192 >= 4 && turns == 3, "{turns} turns for {units} units");
        // A format and a sanitize go the same way; a host that goes leaves nothing behind.
        world.status(io, write((units - 1) * 8, 8), &pattern(1, 4096));
        let format = world.submit(admin, entry(admin::FORMAT_NVM, 1), &[]);
        assert!(world.reply(admin, format).0.entry.status().is_success());
        assert!(!holds(&world, units - 1));
        let abandoned = world.submit(io, deallocate(times), &ranges(&of));
        world.subsystem.detach(world.clock(), io);
        world.wait(mynah_stamp::Span::from_ms(1));
        assert!(world.reply_now(io, abandoned).is_none());
        let wakeup = world.subsystem.next_at();
        assert!(wakeup.wall.is_none_or(|at| at > world.now), "{wakeup:?}");
    }
    assert_eq!(took[0], took[1], "what is named again takes no longer");
}

#[test]
fn write_zeroes() {
    let mut world = World::new(Timing::Modelled);
    let (_, io, _) = world.host();
    let namespace = mynah_model::io::NamespaceId(1);
    for deallocates in [false, true] {
        let data = pattern(7, 32 * 512);
        world.status(io, write(0, 32), &data);
        let mut entry = blocks(nvm::WRITE_ZEROES, 1, 3, 20);
        let flags = entry.dword12.get() | u32::from(deallocates) << 25;
        entry.dword12.set(flags);
        assert_eq!(world.status(io, entry, &[]), Status::SUCCESS);
        let back = world.call(io, read(0, 32), &[]).1;
        assert_eq!(back[..3 * 512], data[..3 * 512]);
        assert_eq!(back[3 * 512..23 * 512], [0; 20 * 512]);
        assert_eq!(back[23 * 512..], data[23 * 512..]);
        assert_eq!(world.subsystem.drive().holds_data(namespace, 1), !deallocates);
    }
    let bad = blocks(nvm::WRITE_ZEROES, 1, u64::MAX - 3, 20);
    assert_eq!(world.status(io, bad, &[]), Status::LBA_OUT_OF_RANGE);
}

#[test]
fn write_uncorrectable() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, _) = world.host();
    world.status(io, write(0, 16), &pattern(8, 16 * 512));
    let mark = |start, count| blocks(nvm::WRITE_UNCORRECTABLE, 1, start, count);
    assert_eq!(world.status(io, mark(4, 2), &[]), Status::SUCCESS);
    let unreadable = Status::UNRECOVERED_READ_ERROR;
    assert_eq!(world.status(io, read(0, 8), &[]), unreadable);
    assert_eq!(world.status(io, compare(5, 1), &[0; 512]), unreadable);
    assert_eq!(world.status(io, blocks(nvm::VERIFY, 1, 5, 1), &[]), unreadable);
    assert_eq!(world.status(io, read(6, 8), &[]), Status::SUCCESS);
    world.status(io, write(4, 1), &[9; 512]);
    assert_eq!(world.status(io, read(4, 1), &[]), Status::SUCCESS);
    assert_eq!(world.status(io, read(4, 2), &[]), unreadable);
    // The error log says which block; SMART counts.
    let log = world.log(admin, 1, 64);
    assert_eq!(u64::from_le_bytes(log[16..24].try_into().unwrap()), 5);
    assert_eq!(world.log(admin, 2, 512)[160], 4);
    world.status(io, blocks(nvm::WRITE_ZEROES, 1, 0, 16), &[]);
    assert_eq!(world.call(io, read(0, 16), &[]).1, [0; 16 * 512]);
}

fn copy_of(to: u64, sources: &[(u64, u32)]) -> (SubmissionEntry, Vec<u8>) {
    let mut entry = blocks(nvm::COPY, 1, to, 1);
    entry.dword12.set(sources.len() as u32 - 1);
    let mut data = Vec::new();
    for (start, count) in sources {
        let mut range = mynah_wire::nvme::protection::CopyRange::default();
        range.start.set(*start);
        range.blocks.set((count - 1) as u16);
        data.extend_from_slice(range.as_bytes());
    }
    (entry, data)
}

#[test]
fn copy() {
    for timing in [Timing::Modelled, Timing::Immediate] {
        let mut world = World::new(timing);
        let (_, io, _) = world.host();
        let data = pattern(9, 64 * 512);
        world.status(io, write(0, 64), &data);
        let (entry, of) = copy_of(100, &[(10, 5), (0, 3), (60, 4)]);
        assert_eq!(world.status(io, entry, &of), Status::SUCCESS);
        let back = world.call(io, read(100, 12), &[]).1;
        assert_eq!(back[..5 * 512], data[10 * 512..15 * 512]);
        assert_eq!(back[5 * 512..8 * 512], data[..3 * 512]);
        assert_eq!(back[8 * 512..], data[60 * 512..]);
        let many: Vec<(u64, u32)> = (0..64).map(|at| (at, 1)).collect();
        let too_many: Vec<(u64, u32)> = (0..65).map(|at| (at, 1)).collect();
        for (to, sources, expected) in [
            (200, &many[..], Status::SUCCESS),
            (200, &too_many[..], Status::COMMAND_SIZE_LIMIT_EXCEEDED),
            (200, &[(0, 1025)], Status::COMMAND_SIZE_LIMIT_EXCEEDED),
            (200, &[(0, 1024); 5], Status::COMMAND_SIZE_LIMIT_EXCEEDED),
            (200, &[(u64::MAX, 2)], Status::LBA_OUT_OF_RANGE),
            (u64::MAX, &[(0, 2)], Status::LBA_OUT_OF_RANGE),
        ] {
            let (entry, of) = copy_of(to, sources);
            assert_eq!(world.status(io, entry, &of), expected, "{to} {}", sources.len());
        }
        let (mut entry, of) = copy_of(200, &[(0, 1)]);
        entry.dword12.set(1 << 8);
        assert_eq!(world.status(io, entry, &of), Status::INVALID_FIELD, "format 1");
        let (entry, of) = copy_of(200, &[(0, 1)]);
        assert_eq!(world.status(io, entry, &of[..31]), Status::SGL_DATA_LENGTH_INVALID);
    }
}

#[test]
fn reservations_keep_others_out() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, id) = world.host();
    let (other_admin, other, _) = world.host_as(OTHER);
    let data = [1; 512];
    let register = reserve(nvm::RESERVATION_REGISTER, 0);
    assert_eq!(world.status(io, register, &keys(0, 7)), Status::SUCCESS);
    assert_eq!(world.status(io, register, &[0; 15]), Status::SGL_DATA_LENGTH_INVALID);
    // Write exclusive.
    let acquire = reserve(nvm::RESERVATION_ACQUIRE, 1 << 8);
    assert_eq!(world.status(other, acquire, &keys(7, 0)), Status::RESERVATION_CONFLICT);
    assert_eq!(world.status(io, acquire, &keys(7, 0)), Status::SUCCESS);
    assert_eq!(world.status(io, write(0, 1), &data), Status::SUCCESS);
    let conflict = Status::RESERVATION_CONFLICT;
    for (entry, expected) in [
        (write(0, 1), conflict),
        (read(0, 1), Status::SUCCESS),
        (compare(0, 1), Status::SUCCESS),
        (entry(nvm::FLUSH, 1), conflict),
        (deallocate(1), conflict),
        (blocks(nvm::WRITE_ZEROES, 1, 0, 1), conflict),
        (blocks(nvm::WRITE_UNCORRECTABLE, 1, 0, 1), conflict),
    ] {
        assert_eq!(world.status(other, entry, &data), expected, "{:#x}", entry.opcode);
    }
    let format = entry(admin::FORMAT_NVM, 1);
    assert_eq!(world.status(other_admin, format, &[]), conflict);
    // The report.
    let mut report = reserve(nvm::RESERVATION_REPORT, 31);
    assert_eq!(world.status(io, report, &[]), Status::HOST_ID_INCONSISTENT);
    report.dword11.set(1);
    let bytes = world.call(other, report, &[]).1;
    let (head, rest) = ReservationStatus::read_from_prefix(&bytes).unwrap();
    assert_eq!((head.generation.get(), head.kind, head.registrants.get()), (1, 1, 1));
    let row = Registrant::read_from_bytes(rest).unwrap();
    assert_eq!((row.controller_id.get(), row.status, row.key.get()), (id, 1, 7));
    assert_eq!(row.host_id, host_id(HOST));
    // The other host registers and preempts; the first hears of it.
    assert_eq!(world.status(other, register, &keys(0, 8)), Status::SUCCESS);
    let request = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
    let preempt = reserve(nvm::RESERVATION_ACQUIRE, 2 << 8 | 1);
    assert_eq!(world.status(other, preempt, &keys(8, 7)), Status::SUCCESS);
    let (event, _) = world.reply_now(admin, request).expect("an event");
    assert_eq!(event.entry.result.get(), 0x80_0006);
    let log = world.log(admin, 0x80, 64);
    assert_eq!((log[0], log[8], log[9], log[12]), (1, 3, 0, 1));
    assert_eq!(world.log(admin, 0x80, 64)[8], 0, "read and gone");
    assert_eq!(world.status(io, read(0, 1), &[]), conflict);
    let release = reserve(nvm::RESERVATION_RELEASE, 2 << 8);
    assert_eq!(world.status(other, release, &keys(8, 0)), Status::SUCCESS);
    assert_eq!(world.status(io, write(0, 1), &data), Status::SUCCESS);
}

/// What blktests' nvme/054 does, and what does not belong to it: only what may change registrations
/// counts, whether or not it does.
#[test]
fn a_reservations_generation_counts_successes() {
    let mut world = World::new(Timing::Modelled);
    let (_, io, _) = world.host();
    let (_, other, _) = world.host_as(OTHER);
    let mut report = reserve(nvm::RESERVATION_REPORT, 15);
    report.dword11.set(1);
    let (register, acquire, release) =
        (nvm::RESERVATION_REGISTER, nvm::RESERVATION_ACQUIRE, nvm::RESERVATION_RELEASE);
    let (success, conflict) = (Status::SUCCESS, Status::RESERVATION_CONFLICT);
    for (queue, opcode, dword10, (first, second), status, expected) in [
        (io, register, 0, (0, 4), success, 1),
        (io, register, 2, (4, 5), success, 2),
        (io, register, 1, (5, 0), success, 3),
        (io, register, 0, (0, 4), success, 4),
        (io, register, 0, (0, 4), success, 5),
        (io, register, 0, (0, 9), conflict, 5),
        (io, acquire, 1 << 8, (4, 0), success, 5),
        // Itself, to change the type: nobody is removed.
        (io, acquire, 2 << 8 | 1, (4, 4), success, 6),
        (io, acquire, 2 << 8 | 2, (4, 4), success, 7),
        (io, acquire, 2 << 8 | 1, (4, 77), conflict, 7),
        (other, register, 0, (0, 8), success, 8),
        (io, acquire, 2 << 8 | 1, (4, 8), success, 9),
        (io, release, 2 << 8, (4, 0), success, 9),
        (io, release, 1, (4, 0), success, 10),
    ] {
        let entry = reserve(opcode, dword10);
        assert_eq!(world.status(queue, entry, &keys(first, second)), status, "{entry:?}");
        let (_, page) = world.call(io, report, &[]);
        let generation = u32::from_le_bytes(page[..4].try_into().unwrap());
        assert_eq!(generation, expected, "{entry:?} {first} {second}");
    }
}
