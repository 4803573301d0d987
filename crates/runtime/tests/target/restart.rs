//! What a drive whose bytes are in a file still knows when it is served again.

use crate::client::{Client, Target, blocks_of};
use mynah_lab::emulation::{Emulation, Prepared};
use mynah_lab::experiment::Precondition;
use mynah_runtime::server::{ServeOptions, StoreKind};
use mynah_wire::nvme::log::{Smart, page};
use mynah_wire::nvme::{Status, SubmissionEntry, opcode};
use std::path::Path;
use zerocopy::FromBytes;

fn served(path: &Path) -> Target {
    let store = StoreKind::File(path.to_owned());
    Target::start(ServeOptions { store, ..ServeOptions::default() })
}

fn smart(admin: &mut Client) -> Smart {
    let mut get = SubmissionEntry { opcode: opcode::admin::GET_LOG_PAGE, ..Default::default() };
    get.namespace_id.set(u32::MAX);
    get.dword10.set(127 << 16 | u32::from(page::SMART));
    get.data.length.set(512);
    let (done, data) = admin.command(get, &[]).unwrap();
    assert_eq!(done.status(), Status::SUCCESS);
    Smart::read_from_bytes(&data).expect("a page")
}

fn reservation(opcode: u8, dword10: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry { opcode, ..Default::default() };
    entry.namespace_id.set(1);
    entry.dword10.set(dword10);
    entry
}

#[test]
fn counters_reservations_and_marks_are_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    for start in 1..=3u64 {
        let target = served(&path);
        let (id, mut admin) = Client::admin(target.address, 0).unwrap();
        let mut io = Client::io(target.address, 0, id).unwrap();
        let before = smart(&mut admin);
        assert_eq!(before.power_cycles.get(), start.into());
        assert_eq!(before.unsafe_shutdowns.get(), 0);
        assert_eq!(before.host_writes.get(), u128::from(start - 1));
        if start == 1 {
            // Registers with persistence through power loss, and reserves.
            let keys = [[0; 8], 7u64.to_le_bytes()].concat();
            let register = reservation(opcode::nvm::RESERVATION_REGISTER, 3 << 30);
            assert_eq!(io.command(register, &keys).unwrap().0.status(), Status::SUCCESS);
            let mark = blocks_of(opcode::nvm::WRITE_UNCORRECTABLE, 64, 8);
            assert_eq!(io.command(mark, &[]).unwrap().0.status(), Status::SUCCESS);
        }
        let keys = [7u64.to_le_bytes(), [0; 8]].concat();
        let acquire = reservation(opcode::nvm::RESERVATION_ACQUIRE, 1 << 8);
        assert_eq!(io.command(acquire, &keys).unwrap().0.status(), Status::SUCCESS, "{start}");
        let marked = io.read(71, 1).unwrap().0;
        assert_eq!(marked.code(), Status::UNRECOVERED_READ_ERROR.code(), "{start}");
        assert_eq!(io.write(0, &[start as u8; 512]).unwrap(), Status::SUCCESS);
        target.stop();
    }
}

/// Little of the mapping table is cached and blocks are chosen blindly: collection writes as many
/// pages as it wins back.
fn restless() -> Prepared {
    let settings = [
        "geometry.blocks_per_plane=100",
        "geometry.pages_per_block=32",
        "over_provisioning=12%",
        "gc.write_frontiers=one",
        "gc.victim=random",
        "gc.paced=false",
        "mapping.table=cached",
        "mapping.cmt.size=64KiB",
        "mapping.cmt.granularity=page",
    ];
    let mut emulation =
        Emulation::on("samsung-48l-tlc", &settings.map(String::from)).expect("a drive");
    emulation.start.precondition = Precondition::Steady;
    emulation.prepare().expect("a drive")
}

#[test]
fn a_drive_that_never_comes_to_rest_ends_without_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    let store = StoreKind::File(path.clone());
    let target = Target::start_on(restless, ServeOptions { store, ..ServeOptions::default() });
    let (id, _admin) = Client::admin(target.address, 0).unwrap();
    let mut io = Client::io(target.address, 0, id).unwrap();
    // Some seconds of the drive's time pass between two.
    for block in 0..2 {
        assert_eq!(io.write(block * 4096, &[7; 512]).unwrap(), Status::SUCCESS);
    }
    let result = target.stop();
    assert!(result.notes.iter().any(|it| it.contains("did not come to rest")), "{result:?}");
    assert!(path.exists() && !path.with_extension("state").exists());
}
