//! Metadata and protection information, namespaces of other formats.

use crate::support::*;
use mynah_device::{Queue, Timing};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::protection::guard;
use mynah_wire::nvme::{Status, SubmissionEntry};

const PRACT: u32 = 1 << 29;
const GUARD: u32 = 1 << 28;
const APPLICATION: u32 = 1 << 27;
const REFERENCE: u32 = 1 << 26;

fn format(world: &mut World, admin: Queue, index: u32, protection: u32) -> Status {
    let mut entry = entry(admin::FORMAT_NVM, 1);
    entry.dword10.set(index | u32::from(index >= 2) << 4 | protection << 5);
    world.status(admin, entry, &[])
}

fn with(mut entry: SubmissionEntry, bits: u32, reference: u32, tag: u32) -> SubmissionEntry {
    let flags = entry.dword12.get() | bits;
    entry.dword12.set(flags);
    entry.dword14.set(reference);
    entry.dword15.set(tag);
    entry
}

/// A block as the host sends it: data, guard, application tag, reference tag.
fn protected(data: &[u8], application: u16, reference: u32) -> Vec<u8> {
    let mut block = data.to_vec();
    block.extend(guard(data).to_be_bytes());
    block.extend(application.to_be_bytes());
    block.extend(reference.to_be_bytes());
    block
}

#[test]
fn formats_change_the_blocks() {
    for timing in [Timing::Modelled, Timing::Immediate] {
        let mut world = World::new(timing);
        let (admin, io, _) = world.host();
        let blocks_512 = world.subsystem.namespace_blocks(1).unwrap();
        world.status(io, write(0, 8), &pattern(1, 4096));
        assert_eq!(format(&mut world, admin, 1, 0), Status::SUCCESS);
        assert_eq!(world.subsystem.namespace_blocks(1), Some(blocks_512 / 8));
        assert_eq!(world.subsystem.block_bytes(1), Some(4096));
        assert_eq!(world.call(io, read(0, 1), &[]).1, [0; 4096], "formatted");
        let data = pattern(2, 2 * 4096);
        assert_eq!(world.status(io, write(5, 2), &data), Status::SUCCESS);
        assert_eq!(world.call(io, read(5, 2), &[]).1, data);
        assert_eq!(world.status(io, read(blocks_512 / 8, 1), &[]), Status::LBA_OUT_OF_RANGE);
        assert_eq!(format(&mut world, admin, 4, 0), Status::FORMAT_INVALID);
        assert_eq!(format(&mut world, admin, 0, 1), Status::FORMAT_INVALID);
        let mut own_buffer = entry(admin::FORMAT_NVM, 1);
        own_buffer.dword10.set(2);
        assert_eq!(world.status(admin, own_buffer, &[]), Status::FORMAT_INVALID);
    }
}

#[test]
fn metadata_travel_with_their_blocks() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, _) = world.host();
    assert_eq!(format(&mut world, admin, 2, 0), Status::SUCCESS);
    let never = world.call(io, read(0, 1), &[]).1;
    assert_eq!(never[..512], [0; 512]);
    assert_eq!(never[512..], [0xff; 8]);
    let data = pattern(3, 5 * 520);
    assert_eq!(world.status(io, write(3, 5), &data), Status::SUCCESS);
    assert_eq!(world.call(io, read(3, 5), &[]).1, data);
    assert_eq!(world.call(io, read(4, 1), &[]).1, data[520..1040]);
    assert_eq!(world.status(io, write(3, 5), &data[1..]), Status::SGL_DATA_LENGTH_INVALID);
    let compare = blocks(nvm::COMPARE, 1, 3, 5);
    assert_eq!(world.status(io, compare, &data), Status::SUCCESS);
    let mut other = data.clone();
    other[519] ^= 1;
    assert_eq!(world.status(io, compare, &other), Status::COMPARE_FAILURE);
}

/// What belongs to a block is found with it, however the blocks are written and read.
#[test]
fn metadata_of_large_blocks_are_found_one_by_one() {
    for (index, size) in [(2, 512), (3, 4096)] {
        let mut world = World::new(Timing::Modelled);
        let (admin, io, _) = world.host();
        assert_eq!(format(&mut world, admin, index, 0), Status::SUCCESS);
        let unit = size + 8;
        let mut data = pattern(3, 24 * unit);
        assert_eq!(world.status(io, write(3, 24), &data), Status::SUCCESS);
        let one = |at: usize| at * unit..(at + 1) * unit;
        for at in 0..24 {
            assert_eq!(world.call(io, read(3 + at as u64, 1), &[]).1, data[one(at)], "block {at}");
        }
        // Single blocks, copies and zeroes among them leave the others as they are.
        let other = pattern(5, unit);
        for at in [2, 3, 9] {
            assert_eq!(world.status(io, write(3 + at as u64, 1), &other), Status::SUCCESS);
            data[one(at)].copy_from_slice(&other);
        }
        let zeroes = blocks(nvm::WRITE_ZEROES, 1, 3 + 12, 3);
        assert_eq!(world.status(io, zeroes, &[]), Status::SUCCESS);
        data[12 * unit..15 * unit].fill(0);
        for (first, count) in [(0, 24), (1, 2), (2, 9), (8, 16), (11, 5)] {
            let back = world.call(io, read(3 + first as u64, count as u32), &[]).1;
            assert_eq!(back, data[first * unit..(first + count) * unit], "{count} from {first}");
        }
    }
}

#[test]
fn protection_is_made_stripped_and_checked() {
    for kind in 1..=3 {
        let mut world = World::new(Timing::Modelled);
        let (admin, io, _) = world.host();
        assert_eq!(format(&mut world, admin, 3, kind), Status::SUCCESS);
        let data = pattern(4, 2 * 4096);
        // The controller makes it; the host may look at it.
        let make = with(write(9, 2), PRACT | GUARD | REFERENCE, 9, 0x1234);
        assert_eq!(world.status(io, make, &data), Status::SUCCESS);
        let second_reference = if kind == 3 { 9 } else { 10 };
        let mut expected = protected(&data[..4096], 0x1234, 9);
        expected.extend(protected(&data[4096..], 0x1234, second_reference));
        let all = GUARD | APPLICATION | REFERENCE;
        let tag = 0xffff_1234;
        let back = world.call(io, with(read(9, 2), all, 9, tag), &[]).1;
        assert_eq!(back, expected);
        let back = world.call(io, with(read(9, 2), PRACT | all, 9, tag), &[]).1;
        assert_eq!(back, data);
        // The host makes it, wrongly.
        let mut wrong = expected.clone();
        wrong[17] ^= 1;
        let put = with(write(9, 2), all, 9, tag);
        assert_eq!(world.status(io, put, &expected), Status::SUCCESS);
        assert_eq!(world.status(io, put, &wrong), Status::GUARD_CHECK_ERROR);
        let other_tag = with(write(9, 2), all, 9, 0xffff_1235);
        assert_eq!(world.status(io, other_tag, &expected), Status::APPLICATION_TAG_CHECK_ERROR);
        // Unchecked, it is stored, and found when it is read with checks.
        let unchecked = with(write(9, 2), 0, 9, 0);
        assert_eq!(world.status(io, unchecked, &wrong), Status::SUCCESS);
        let check = with(read(9, 2), all, 9, tag);
        assert_eq!(world.status(io, check, &[]), Status::GUARD_CHECK_ERROR);
        let verify = with(blocks(nvm::VERIFY, 1, 9, 2), all, 9, tag);
        assert_eq!(world.status(io, verify, &[]), Status::GUARD_CHECK_ERROR);
        assert_eq!(world.call(io, read(9, 2), &[]).1, wrong);
        // A reference tag that does not fit the address.
        let shifted = with(read(9, 2), REFERENCE, 10, 0);
        let expected = match kind {
            1 => Status::INVALID_PROTECTION_INFORMATION,
            2 => Status::REFERENCE_TAG_CHECK_ERROR,
            _ => Status::SUCCESS,
        };
        assert_eq!(world.status(io, shifted, &[]), expected, "type {kind}");
        // Deallocated blocks escape the checks.
        let mut zeroes = blocks(nvm::WRITE_ZEROES, 1, 9, 2);
        zeroes.dword12.set(1 | 1 << 25);
        assert_eq!(world.status(io, zeroes, &[]), Status::SUCCESS);
        assert_eq!(world.status(io, check, &[]), Status::SUCCESS);
    }
}
