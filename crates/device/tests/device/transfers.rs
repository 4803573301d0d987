//! Commands that give the host's data, or room for the drive's, of another length than they move.

use crate::support::*;
use mynah_device::{NamespaceConfig, NamespaceContent, Queue, Timing};
use mynah_wire::nvme::feature::{id, select};
use mynah_wire::nvme::identify::cns;
use mynah_wire::nvme::log::page;
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;

/// A part in one namespace, the rest free.
fn roomy() -> World {
    let half = NamespaceConfig {
        bytes: Some(4 << 20),
        content: NamespaceContent::Blocks(512),
        handles: vec![],
    };
    World::with(Timing::Modelled, |config| config.namespaces = vec![half], |_| {})
}

/// The status, and how many bytes came.
fn with_room(
    world: &mut World,
    queue: Queue,
    mut entry: SubmissionEntry,
    room: u32,
) -> (Status, usize) {
    entry.data.length.set(room);
    let (reply, data) = world.call(queue, entry, &[]);
    (plain(reply.status()), data.len())
}

const SHORT: Status = Status::SGL_DATA_LENGTH_INVALID;

/// So SPDK's nvme_compliance has it for Identify (admin_identify_ctrlr_verify_dptr).
#[test]
fn too_little_room_is_an_error_and_changes_nothing() {
    let mut world = roomy();
    let (admin_queue, io, _) = world.host();
    let mut report = reserve(nvm::RESERVATION_REPORT, 15);
    report.dword11.set(1);
    world.status(io, write(0, 8), &[1; 4096]);
    for (queue, entry, bytes) in [
        (admin_queue, identify(cns::CONTROLLER, 0), 4096),
        (admin_queue, identify(cns::NAMESPACE, 1), 4096),
        (admin_queue, identify(cns::ACTIVE_NAMESPACES, 0), 4096),
        (admin_queue, log_page(page::SMART, 512, 0), 512),
        (admin_queue, log_page(page::ERROR_INFORMATION, 64, 64), 64),
        (admin_queue, get_feature(id::TIMESTAMP, select::CURRENT, 0), 8),
        (admin_queue, get_feature(id::HOST_BEHAVIOR, select::CURRENT, 0), 512),
        (admin_queue, get_feature(id::HOST_ID, select::CURRENT, 1), 16),
        (io, read(0, 8), 4096),
        (io, report, 64),
    ] {
        for room in [0, bytes - 1] {
            assert_eq!(with_room(&mut world, queue, entry, room), (SHORT, 0), "{entry:?}");
        }
        for room in [bytes, bytes + 4] {
            let (status, came) = with_room(&mut world, queue, entry, room);
            // A report may be shorter than it might be.
            let fits = came == bytes as usize || entry.opcode == nvm::RESERVATION_REPORT;
            assert!(status == Status::SUCCESS && fits, "{entry:?}: {status:?} {came}");
        }
    }
    // What has no data needs no room.
    let queues = get_feature(id::NUMBER_OF_QUEUES, select::CURRENT, 0);
    assert_eq!(with_room(&mut world, admin_queue, queues, 0).0, Status::SUCCESS);
    let supported = get_feature(id::TIMESTAMP, select::SUPPORTED, 0);
    assert_eq!(with_room(&mut world, admin_queue, supported, 0).0, Status::SUCCESS);
    // What cannot be is still said.
    let unknown = with_room(&mut world, admin_queue, identify(0xee, 0), 4096).0;
    assert_eq!(unknown, Status::INVALID_FIELD);
    // A log that forgets what was read of it has not been read.
    let mut detach = entry(admin::NAMESPACE_ATTACHMENT, 1);
    detach.dword10.set(1);
    assert_eq!(world.status(admin_queue, detach, &[1, 0, 1, 0]), Status::SUCCESS);
    let changed = log_page(page::CHANGED_NAMESPACES, 4096, 0);
    assert_eq!(with_room(&mut world, admin_queue, changed, 4092), (SHORT, 0));
    assert_eq!(world.log(admin_queue, page::CHANGED_NAMESPACES, 4096)[..5], [1, 0, 0, 0, 0]);
    assert_eq!(world.log(admin_queue, page::CHANGED_NAMESPACES, 4096)[..5], [0; 5]);
}

#[test]
fn too_little_data_is_an_error_and_changes_nothing() {
    let mut world = roomy();
    let (admin_queue, io, _) = world.host();
    let mut download = entry(admin::FIRMWARE_IMAGE_DOWNLOAD, 0);
    download.dword10.set(1023);
    let mut wish = mynah_wire::nvme::identify::IdentifyNamespace::default();
    wish.size.set(8);
    wish.capacity.set(8);
    let (copying, range) = copy(0, 64, 1);
    let (trim, trimmed) = deallocate(0, 8);
    let block = vec![0; 4096];
    for (queue, entry, data) in [
        (admin_queue, set_feature(id::TIMESTAMP, 0), vec![0; 8]),
        (admin_queue, set_feature(id::HOST_BEHAVIOR, 0), vec![0; 512]),
        (admin_queue, download, block.clone()),
        (admin_queue, entry(admin::NAMESPACE_MANAGEMENT, 0), wish.as_bytes().to_vec()),
        (admin_queue, entry(admin::NAMESPACE_ATTACHMENT, 2), vec![1, 0, 1, 0]),
        (io, write(0, 8), block.clone()),
        (io, blocks(nvm::COMPARE, 1, 0, 8), block),
        (io, copying, range.as_bytes().to_vec()),
        (io, trim, trimmed.to_vec()),
        (io, reserve(nvm::RESERVATION_REGISTER, 0), keys(0, 7).to_vec()),
        (io, reserve(nvm::RESERVATION_ACQUIRE, 1 << 8), keys(7, 0).to_vec()),
        (io, reserve(nvm::RESERVATION_RELEASE, 1 << 8), keys(7, 0)[..8].to_vec()),
    ] {
        for part in [0, data.len() - 1] {
            assert_eq!(world.status(queue, entry, &data[..part]), SHORT, "{entry:?} {part}");
        }
        // More than is moved is no matter: Linux sends 256 ranges whatever it deallocates.
        let more = [&data[..], &[0; 16]].concat();
        assert_eq!(world.status(queue, entry, &more), Status::SUCCESS, "{entry:?}");
    }
}
