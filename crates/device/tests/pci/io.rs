//! Reads, writes and the rest over queues in guest memory.

use crate::shared::{self, pattern, read, write};
use crate::support::*;
use mynah_device::pci::GuestMemory;
use mynah_device::{CommandKind, Timing};
use mynah_model::config::{Config, Fault};
use mynah_stamp::{Span, Stage, Time};
use mynah_wire::nvme::entry::DataPointer;
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::{FromBytes, IntoBytes};

const BOTH: [Timing; 2] = [Timing::Immediate, Timing::Modelled];

#[test]
fn what_is_written_is_read() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        for (start, blocks) in [(0, 1), (1, 8), (9, 16), (25, 17), (100, 512), (3, 300)] {
            let data = pattern(start, blocks as usize * 512);
            assert_eq!(host.send(1, write(start, blocks), &data), Status::SUCCESS);
            let (status, back) = host.fetch(1, read(start, blocks), data.len());
            assert_eq!(status, Status::SUCCESS);
            assert_eq!(back, data, "{timing:?} {start} {blocks}");
        }
        assert_eq!(host.fetch(1, read(u64::MAX, 1), 512).0, Status::LBA_OUT_OF_RANGE);
        assert_eq!(host.fetch(1, read(0, 1024), 512 << 10).0, Status::INVALID_FIELD, "MDTS");
        assert_eq!(host.plain(1, shared::entry(0x55, 1)), Status::INVALID_OPCODE);
        assert_eq!(host.plain(1, shared::entry(0x7f, 1)), Status::INVALID_OPCODE);
    }
}

#[test]
fn completions_are_heard_of_with_where_their_time_went() {
    let mut host = Host::with_io(Timing::Modelled);
    host.ears.heard.clear();
    host.wait(Span::from_us(50));
    let began = host.now;
    assert_eq!(host.send(1, write(0, 8), &[7; 4096]), Status::SUCCESS);
    assert_eq!(host.fetch(1, read(0, 8), 4096).0, Status::SUCCESS);
    let [first, second] = &host.ears.heard[..] else { panic!("{:?}", host.ears.heard) };
    assert_eq!((first.kind, second.kind), (CommandKind::Write, CommandKind::Read));
    for heard in [first, second] {
        assert_eq!((heard.queue_id, heard.bytes), (1, 4096));
        assert!(heard.stages.get(Stage::SubmissionQueue) > Span::ZERO);
        assert!(heard.stages.get(Stage::CommandFetch) > Span::ZERO);
        assert!(heard.stages.get(Stage::Completion) > Span::ZERO);
    }
    assert!(first.stages.get(Stage::DataIn) > Span::ZERO);
    assert!(second.stages.get(Stage::DataOut) > Span::ZERO);
    assert_eq!(first.arrival, began);
    assert_eq!(second.due, Some(host.now));
    assert_ne!(first.command_id, second.command_id);
    // One interrupt for each on the queue's vector, and the admin queue's.
    assert_eq!(host.interrupts, [0, 0, 1, 1]);
}

#[test]
fn plain_commands_without_timing_are_counted() {
    let mut host = Host::with_io(Timing::Immediate);
    for block in 0..5 {
        assert_eq!(host.send(1, write(block, 1), &[7; 512]), Status::SUCCESS);
    }
    assert_eq!(host.fetch(1, read(0, 8), 4096).0, Status::SUCCESS);
    assert_eq!(host.ears.plain, [(1, 4096), (5, 2560)]);
    // One whose data cannot be moved is none of them, and is heard of.
    let heard = host.ears.heard.len();
    let mut lost = read(0, 8);
    lost.set_prps(1 << 50, 0);
    assert_eq!(host.status(1, lost), Status::DATA_TRANSFER_ERROR);
    assert_eq!(host.ears.plain, [(1, 4096), (5, 2560)]);
    let kinds: Vec<CommandKind> = host.ears.heard[heard..].iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [CommandKind::Read]);
}

/// An SGL descriptor.
fn descriptor(kind: u8, at: u64, bytes: u32) -> [u8; 16] {
    let mut descriptor = [0; 16];
    descriptor[..8].copy_from_slice(&at.to_le_bytes());
    descriptor[8..12].copy_from_slice(&bytes.to_le_bytes());
    descriptor[15] = kind << 4;
    descriptor
}

fn with_sgl(mut entry: SubmissionEntry, first: [u8; 16]) -> SubmissionEntry {
    entry.flags |= 0x40;
    entry.data = DataPointer::read_from_bytes(&first).unwrap();
    entry
}

#[test]
fn scatter_gather_lists() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        let data = pattern(1, 4096);
        // One block, unaligned; then segments of several kinds.
        let at = host.put(&[&[0; 3], &data[..]].concat()) + 3;
        let one = with_sgl(write(0, 8), descriptor(0, at, 4096));
        assert_eq!(host.status(1, one), Status::SUCCESS);
        let back = host.pages(3 * PAGE);
        let last =
            host.put(&[descriptor(0, back + 2000, 96), descriptor(0, back + 5000, 5000)].concat());
        let first = host.put(
            &[
                descriptor(0, back + 100, 1000),
                descriptor(1, 0, 500),
                descriptor(0, back + 1100, 0),
                descriptor(3, last, 32),
            ]
            .concat(),
        );
        let list = with_sgl(read(0, 8), descriptor(2, first, 64));
        assert_eq!(host.status(1, list), Status::SUCCESS);
        assert_eq!(host.get(back + 100, 1000), data[..1000]);
        assert_eq!(host.get(back + 2000, 96), data[1500..1596]);
        assert_eq!(host.get(back + 5000, 2500), data[1596..]);
        let end = host.put(&descriptor(3, last, 32));
        for (first, expected) in [
            (descriptor(0, at, 4095), Status::SGL_DATA_LENGTH_INVALID),
            (descriptor(2, first, 65), Status::SGL_INVALID_SEGMENT),
            (descriptor(2, first, 0), Status::SGL_INVALID_SEGMENT),
            (descriptor(2, first, 65_536 * 16), Status::SGL_COUNT_INVALID),
            // A pointer in a last segment; one that is not the last of its segment.
            (descriptor(3, end, 16), Status::SGL_INVALID_SEGMENT),
            (descriptor(2, first + 48, 32), Status::SGL_INVALID_SEGMENT),
            (descriptor(5, at, 4096), Status::SGL_TYPE_INVALID),
            (descriptor(0, u64::MAX - 100, 4096), Status::DATA_TRANSFER_ERROR),
            (descriptor(2, u64::MAX - 20, 64), Status::DATA_TRANSFER_ERROR),
        ] {
            assert_eq!(host.status(1, with_sgl(read(0, 8), first)), expected, "{first:?}");
        }
        // A segment that points to itself ends.
        let own = host.pages(PAGE);
        host.memory.write(own, &descriptor(2, own, 16)).unwrap();
        let looped = with_sgl(read(0, 8), descriptor(2, own, 16));
        assert_eq!(host.status(1, looped), Status::SGL_COUNT_INVALID);
        let mut both = read(0, 8);
        both.flags |= 0xc0;
        assert_eq!(host.status(1, both), Status::INVALID_FIELD);
        // A write has nothing in a bit bucket.
        let list = host.put(&[descriptor(1, 0, 4096), descriptor(0, at, 4096)].concat());
        let write = with_sgl(write(8, 8), descriptor(3, list, 32));
        assert_eq!(host.status(1, write), Status::SUCCESS);
        assert_eq!(host.fetch(1, read(8, 8), 4096).1, data);
    }
}

#[test]
fn physical_region_pages_follow_their_rules() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        let at = host.pages(64 * PAGE);
        let pages = |count: u64| (0..count).map(move |n| at + n * PAGE).collect::<Vec<u64>>();
        let mut check = |first: u64, second: u64, blocks: u32, expected: Status| {
            let mut entry = read(0, blocks);
            entry.set_prps(first, second);
            assert_eq!(host.status(1, entry), expected, "{first:#x} {second:#x} {blocks}");
        };
        check(at + 2, 0, 1, Status::PRP_OFFSET_INVALID);
        check(at + 4, 0, 1, Status::SUCCESS);
        check(at + 3600, at + PAGE, 1, Status::SUCCESS);
        check(at + 3600, at + PAGE + 4, 1, Status::PRP_OFFSET_INVALID);
        check(at, at + PAGE, 16, Status::SUCCESS);
        check(at, at + 3, 17, Status::PRP_OFFSET_INVALID);
        check(1 << 50, 0, 1, Status::DATA_TRANSFER_ERROR);
        check(at, 1 << 50, 16, Status::DATA_TRANSFER_ERROR);
        check(at, 1 << 50, 24, Status::DATA_TRANSFER_ERROR);
        let mut bad = pages(3);
        bad[2] += 8;
        let bad = host.put(bad.as_bytes());
        // A list that begins just before the end of its page and goes on in another.
        let rest = host.put(pages(60)[3..].as_bytes());
        let split = host.pages(PAGE) + PAGE - 24;
        host.memory.write(split, [at + PAGE, at + 2 * PAGE, rest].as_bytes()).unwrap();
        // A list of nothing but the place of the next, which is itself.
        let own = host.pages(PAGE);
        host.memory.write(own, vec![own; 512].as_bytes()).unwrap();
        let mut check = |first: u64, second: u64, blocks: u32, expected: Status| {
            let mut entry = read(0, blocks);
            entry.set_prps(first, second);
            assert_eq!(host.status(1, entry), expected, "{first:#x} {second:#x} {blocks}");
        };
        check(at, bad, 32, Status::PRP_OFFSET_INVALID);
        check(at, split, 160, Status::SUCCESS);
        check(at, own + PAGE - 8, 512, Status::SUCCESS);
        let off = host.pages(PAGE);
        host.memory.write(off + PAGE - 8, &(off + 8).to_le_bytes()).unwrap();
        let mut entry = read(0, 32);
        entry.set_prps(at, off + PAGE - 8);
        assert_eq!(host.status(1, entry), Status::PRP_OFFSET_INVALID);
    }
}

#[test]
fn memory_that_goes_away_fails_what_reaches_for_it() {
    for write_command in [false, true] {
        let mut host = Host::with_io(Timing::Modelled);
        let at = host.pages(PAGE);
        let mut entry = if write_command { write(0, 8) } else { read(0, 8) };
        entry.set_prps(at, 0);
        let id = host.submit(1, entry);
        host.turn();
        // It is under way as soon as it has been fetched.
        while !host.function.uses(at, PAGE) {
            host.now = host.next_at().unwrap();
            host.turn();
        }
        assert!(!host.function.uses(at + PAGE, PAGE));
        host.memory.unmap(at, PAGE);
        let status = shared::plain(host.completion(1, id).status());
        assert_eq!(status, Status::DATA_TRANSFER_ERROR);
        assert!(!host.function.uses(at, PAGE));
        assert_eq!(host.fetch(1, read(64, 8), 4096).0, Status::SUCCESS);
    }
}

#[test]
fn a_queue_whose_memory_goes_away_fails_the_controller_until_it_is_reset() {
    for timing in BOTH {
        for completions in [false, true] {
            let mut host = Host::with_io(timing);
            let gone = match completions {
                true => host.completions[&1].base,
                false => host.submissions[&1].base,
            };
            let at = host.pages(PAGE);
            let mut entry = read(0, 1);
            entry.set_prps(at, 0);
            host.submit(1, entry);
            host.memory.unmap(gone, PAGE);
            host.wait(Span::from_ms(1));
            assert_eq!(host.register(offset::CSTS) & 3, 3, "{timing:?} {completions}");
            host.set_register(offset::CC, 0);
            host.completions.clear();
            host.submissions.clear();
            host.boot(8);
            host.create_pair(1, 8);
            assert_eq!(host.fetch(1, read(0, 1), 512).0, Status::SUCCESS);
        }
    }
}

#[test]
fn blocks_with_protection_information() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        // Format 2: 512 + 8 bytes, extended, type 1.
        let mut format = shared::entry(admin::FORMAT_NVM, 1);
        format.dword10.set(2 | 1 << 4 | 1 << 5);
        assert_eq!(host.plain(0, format), Status::SUCCESS);
        let data = pattern(5, 4 * 512);
        // PRACT: the controller makes it, and strips it.
        let mut make = write(0, 4);
        make.dword12.set(make.dword12.get() | 1 << 29);
        assert_eq!(host.send(1, make, &data), Status::SUCCESS);
        let mut strip = read(0, 4);
        strip.dword12.set(strip.dword12.get() | 1 << 29);
        assert_eq!(host.fetch(1, strip, data.len()).1, data);
        let (status, whole) = host.fetch(1, read(0, 4), 4 * 520);
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(whole[520..520 + 512], data[512..1024]);
        let mut check = write(0, 4);
        check.dword12.set(check.dword12.get() | 4 << 26);
        let mut spoilt = whole.clone();
        spoilt[100] ^= 1;
        assert_eq!(host.send(1, check, &spoilt), Status::GUARD_CHECK_ERROR);
        assert_eq!(host.send(1, check, &whole), Status::SUCCESS);
    }
}

#[test]
fn hosts_say_who_they_are_before_they_reserve() {
    let mut host = Host::with_io(Timing::Immediate);
    let register = shared::entry(nvm::RESERVATION_REGISTER, 1);
    let keys = [[0; 8], 7u64.to_le_bytes()].concat();
    assert_eq!(host.send(1, register, &keys), Status::COMMAND_SEQUENCE_ERROR);
    let mut set = shared::set_feature(0x81, 1);
    assert_eq!(host.send(0, set, &[3; 16]), Status::SUCCESS);
    assert_eq!(host.send(0, set, &[3; 16]), Status::SUCCESS);
    assert_eq!(host.send(0, set, &[4; 16]), Status::COMMAND_SEQUENCE_ERROR);
    set.dword11.set(0);
    assert_eq!(host.send(0, set, &[3; 16]), Status::INVALID_FIELD);
    assert_eq!(host.fetch(0, shared::get_feature(0x81, 0, 1), 16).1, [3; 16]);
    assert_eq!(host.send(1, register, &keys), Status::SUCCESS);
    let mut report = shared::entry(nvm::RESERVATION_REPORT, 1);
    report.dword10.set(31);
    report.dword11.set(1);
    let (status, report) = host.fetch(1, report, 128);
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(report[5], 1, "one registrant");
}

#[test]
fn traffic_keeps_a_controller_alive_and_silence_fails_it() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        assert_eq!(host.plain(0, shared::set_feature(0x0f, 200)), Status::SUCCESS);
        for _ in 0..5 {
            host.wait(Span::from_ms(150));
            assert_eq!(host.fetch(1, read(0, 1), 512).0, Status::SUCCESS);
        }
        host.wait(Span::from_ms(201));
        assert_eq!(host.register(offset::CSTS) & 2, 2, "{timing:?}");
    }
}

#[test]
fn halves_are_not_fused_where_only_one_can_be_in_the_controller() {
    for (fetch_size, expected) in [(1, Status::INVALID_FIELD), (2, Status::COMPARE_FAILURE)] {
        let change = |drive: &mut Config| drive.queues.fetch_size = fetch_size;
        let mut host = Host::with(Timing::Modelled, |_, _| {}, change);
        host.create_pair(1, 16);
        let identify = host.fetch(0, shared::identify(1, 0), 4096).1;
        assert_eq!(u32::from(identify[522] & 1), fetch_size - 1, "FUSES");
        let at = host.put(&[9; 512]);
        let mut compare = shared::blocks(nvm::COMPARE, 1, 0, 1);
        compare.set_prps(at, 0);
        compare.flags |= 1;
        let mut second = write(0, 1);
        second.set_prps(at, 0);
        second.flags |= 2;
        let first = host.submit(1, compare);
        let second = host.submit(1, second);
        assert_eq!(shared::plain(host.completion(1, first).status()), expected);
        assert!(!host.completion(1, second).status().is_success());
    }
}

#[test]
fn power_that_fails_is_a_failed_controller() {
    let cut = Time::ZERO + Span::from_ms(3);
    let mut host = Host::with(
        Timing::Modelled,
        |_, _| {},
        |drive| drive.faults.push(Fault::PowerCut { at: cut, recovery: Span::from_ms(1) }),
    );
    host.create_pair(1, 16);
    assert_eq!(host.send(1, write(0, 8), &[1; 4096]), Status::SUCCESS);
    host.wait(Span::from_ms(4));
    assert_eq!(host.register(offset::CSTS), 2);
    host.set_register(offset::CC, 0);
    host.completions.clear();
    host.submissions.clear();
    host.wait(Span::from_ms(10));
    host.boot(8);
    host.create_pair(1, 16);
    assert_eq!(host.fetch(1, read(0, 8), 4096).0, Status::SUCCESS);
}
