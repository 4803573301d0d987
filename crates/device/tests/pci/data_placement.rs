//! Data placement where queues lie in guest memory: writes that take the short ways, and what
//! I/O Management moves.

use crate::shared::{self, HANDLES, pattern, placing, read, write};
use crate::support::*;
use mynah_device::Timing;
use mynah_wire::nvme::{Status, SubmissionEntry};

fn host(timing: Timing) -> Host {
    let mut host = Host::with(timing, |_, _| {}, placing);
    host.create_pair(1, 64);
    host
}

fn placed(start: u64, count: u32, identifier: u16) -> SubmissionEntry {
    let mut entry = write(start, count);
    entry.dword12.set(entry.dword12.get() | 2 << 20);
    entry.dword13.set(u32::from(identifier) << 16);
    entry
}

/// Blocks left of each handle's reclaim unit, as Linux asks for them.
fn left(host: &mut Host) -> Vec<u64> {
    let mut entry = shared::entry(0x12, 1);
    entry.dword10.set(1);
    entry.dword11.set(4048 / 4 - 1);
    let (status, data) = host.fetch(1, entry, 4048);
    assert_eq!(status, Status::SUCCESS);
    let count = usize::from(u16::from_le_bytes([data[14], data[15]]));
    assert_eq!(count, usize::from(HANDLES));
    let one = |at: usize| {
        let of = &data[16 + 32 * at..][..32];
        u64::from_le_bytes(of[8..16].try_into().expect("8 bytes"))
    };
    (0..count).map(one).collect()
}

fn update(host: &mut Host, identifiers: &[u16]) -> Status {
    let mut entry = shared::entry(0x1d, 1);
    entry.dword10.set(1 | (identifiers.len() as u32 - 1) << 16);
    let data: Vec<u8> = identifiers.iter().flat_map(|it| it.to_le_bytes()).collect();
    host.send(1, entry, &data)
}

#[test]
fn a_guest_places_its_data() {
    let mut host = host(Timing::Modelled);
    let whole = 4 * 16 * 8192 / 512;
    assert_eq!(left(&mut host), [whole; 4]);
    // Plain ones, one through the cache's other door, one whose handle there is not.
    for (start, count, identifier) in [(0, 16, 1), (64, 8, 3), (100, 8, 3), (128, 8, 9)] {
        let data = pattern(start, count as usize * 512);
        assert_eq!(host.send(1, placed(start, count, identifier), &data), Status::SUCCESS);
        let (_, back) = host.fetch(1, read(start, count), data.len());
        assert_eq!(back, data);
    }
    // The third of them touches two units.
    assert_eq!(left(&mut host), [whole - 8, whole - 16, whole, whole - 24]);
    assert_eq!(update(&mut host, &[3, 2]), Status::SUCCESS);
    assert_eq!(left(&mut host), [whole - 8, whole - 16, whole, whole]);
    assert_eq!(update(&mut host, &[3, 4]), Status::INVALID_FIELD);
    let unknown = host.subsystem.drive().placement_counters().expect("it has").unknown;
    assert_eq!(unknown, 1);
    let mut bad = placed(0, 8, 0);
    bad.dword12.set(7 | 1 << 20);
    assert_eq!(host.send(1, bad, &[0; 4096]), Status::INVALID_FIELD);
}

/// Without the model nothing is ever written to a reclaim unit, and all else is as with it.
#[test]
fn placement_without_time_is_answered() {
    let mut host = host(Timing::Immediate);
    let whole = 4 * 16 * 8192 / 512;
    for identifier in [0, 3, 4, 0xffff] {
        let data = pattern(identifier, 4096);
        assert_eq!(host.send(1, placed(0, 8, identifier as u16), &data), Status::SUCCESS);
        assert_eq!(host.fetch(1, read(0, 8), 4096).1, data);
    }
    assert_eq!(update(&mut host, &[0]), Status::SUCCESS);
    assert_eq!(left(&mut host), [whole; 4]);
}

/// Where there is no data placement, nothing is moved for it, whatever the entry says.
#[test]
fn nothing_is_moved_for_commands_that_there_are_not() {
    for timing in [Timing::Immediate, Timing::Modelled] {
        let mut host = Host::with_io(timing);
        for opcode in [0x12, 0x1d] {
            let mut entry = shared::entry(opcode, 1);
            // Pages that are not mapped: nobody looks at them.
            entry.set_prps(0xdead_0000_0000, 0xbeef_0000_0000);
            entry.dword10.set(1);
            entry.dword11.set(1 << 20);
            assert_eq!(host.status(1, entry), Status::INVALID_OPCODE, "{opcode:#x}");
        }
        let mut receive = shared::entry(0x1a, 1);
        receive.set_prps(0xdead_0000_0000, 0);
        (receive.dword10).set(1 << 20);
        assert_eq!(host.status(0, receive), Status::INVALID_OPCODE);
        let mut feature = shared::set_feature(0x1e, 255 << 16);
        feature.set_prps(0xdead_0000_0000, 0);
        assert_eq!(host.status(0, feature), Status::INVALID_FIELD);
    }
}
