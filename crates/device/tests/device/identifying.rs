//! Identify in all its kinds.

use crate::support::*;
use mynah_device::Timing;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::identify::{IdentifyController, IdentifyNamespace, cns};
use zerocopy::FromBytes;

#[test]
fn every_kind_is_answered_or_refused() {
    let mut world = World::new(Timing::Modelled);
    let (admin, _, id) = world.host();
    for (kind, namespace, expected) in [
        (cns::NAMESPACE, 1, Status::SUCCESS),
        (cns::NAMESPACE, 2, Status::SUCCESS),
        (cns::NAMESPACE, u32::MAX, Status::SUCCESS),
        (cns::NAMESPACE, 0, Status::INVALID_NAMESPACE),
        (cns::NAMESPACE, 1025, Status::INVALID_NAMESPACE),
        (cns::CONTROLLER, 0, Status::SUCCESS),
        (cns::ACTIVE_NAMESPACES, 0, Status::SUCCESS),
        (cns::ACTIVE_NAMESPACES, 0xffff_fffe, Status::INVALID_NAMESPACE),
        (cns::ACTIVE_NAMESPACES, u32::MAX, Status::INVALID_NAMESPACE),
        (cns::NAMESPACE_DESCRIPTORS, 1, Status::SUCCESS),
        (cns::NAMESPACE_DESCRIPTORS, 2, Status::INVALID_NAMESPACE),
        (cns::NVM_SET_LIST, 0, Status::INVALID_FIELD),
        (cns::COMMAND_SET_NAMESPACE, 1, Status::SUCCESS),
        (cns::COMMAND_SET_CONTROLLER, 0, Status::SUCCESS),
        (cns::COMMAND_SET_ACTIVE_NAMESPACES, 0, Status::SUCCESS),
        (cns::INDEPENDENT_NAMESPACE, 1, Status::SUCCESS),
        (cns::ALLOCATED_NAMESPACES, 0, Status::SUCCESS),
        (cns::ALLOCATED_NAMESPACE, 1, Status::SUCCESS),
        (cns::NAMESPACE_CONTROLLERS, 1, Status::SUCCESS),
        (cns::CONTROLLERS, 0, Status::SUCCESS),
        (cns::PRIMARY_CAPABILITIES, 0, Status::SUCCESS),
        (cns::SECONDARY_CONTROLLERS, 0, Status::SUCCESS),
        (cns::NAMESPACE_GRANULARITY, 0, Status::SUCCESS),
        (cns::UUID_LIST, 0, Status::INVALID_FIELD),
        (cns::ENDURANCE_GROUPS, 0, Status::SUCCESS),
        (cns::COMMAND_SETS, 0, Status::SUCCESS),
        (0xff, 0, Status::INVALID_FIELD),
    ] {
        let (reply, data) = world.call(admin, identify(kind, namespace), &[]);
        assert_eq!(plain(reply.status()), expected, "{kind:#x} {namespace:#x}");
        assert_eq!(data.len(), if expected.is_success() { 4096 } else { 0 });
    }
    // Another command set.
    let mut entry = identify(cns::COMMAND_SET_NAMESPACE, 1);
    entry.dword11.set(2 << 24);
    assert_eq!(world.status(admin, entry, &[]), Status::COMMAND_SET_INVALID);
    let controllers = world.identify(admin, cns::CONTROLLERS, 0);
    assert_eq!(controllers[..4], [1, 0, id as u8, 0]);
}

#[test]
fn a_namespace_says_what_it_is() {
    let mut world = World::new(Timing::Modelled);
    let (admin, ..) = world.host();
    let page = world.identify(admin, cns::NAMESPACE, 1);
    let page = IdentifyNamespace::read_from_bytes(&page).unwrap();
    assert_eq!(Some(page.size.get()), world.subsystem.namespace_blocks(1));
    assert_eq!(page.bytes.get(), u128::from(page.size.get()) * 512);
    let shifts: Vec<(u8, u16)> = page.lba_formats[..=usize::from(page.formats)]
        .iter()
        .map(|format| (format.data_shift, format.metadata.get()))
        .collect();
    assert_eq!(shifts, [(9, 0), (12, 0), (9, 8), (12, 8)]);
    assert_eq!((page.multipath, page.ana_group.get()), (1, 1));
    assert_eq!(page.write_granularity.get(), 7, "a unit of 4 KiB");
    assert_eq!(page.optimal_write.get(), 7, "a multiple of it");
    let descriptors = world.identify(admin, cns::NAMESPACE_DESCRIPTORS, 1);
    let mut rest = &descriptors[..];
    let mut kinds = vec![];
    while rest.len() > 4 && rest[0] != 0 {
        kinds.push((rest[0], rest[1]));
        match rest[0] {
            1 => assert_eq!(rest[4..12], page.eui64),
            2 => assert_eq!(rest[4..20], page.nguid),
            _ => {}
        }
        rest = &rest[4 + usize::from(rest[1])..];
    }
    assert_eq!(kinds, [(1, 8), (2, 16), (3, 16), (4, 1)]);
    // The same again in another world, and others for another subsystem.
    let mut same = World::new(Timing::Immediate);
    let (admin, ..) = same.host();
    assert_eq!(same.identify(admin, cns::NAMESPACE_DESCRIPTORS, 1), descriptors);
    let renamed = |config: &mut mynah_device::SubsystemConfig| config.nqn.push('2');
    let mut other = World::with(Timing::Immediate, renamed, |_| {});
    let (admin, _) = other.admin_as(HOST, &format!("{SUBSYSTEM}2"));
    assert_ne!(other.identify(admin, cns::NAMESPACE_DESCRIPTORS, 1), descriptors);
}

#[test]
fn what_hosts_of_fabrics_check() {
    let mut world = World::new(Timing::Modelled);
    let (admin, ..) = world.host();
    let page = world.identify(admin, cns::CONTROLLER, 0);
    let page = IdentifyController::read_from_bytes(&page).unwrap();
    // Linux refuses controllers without these (drivers/nvme/host/core.c, tcp.c).
    assert!(page.command_capsule.get() >= 4 && page.response_capsule.get() >= 1);
    assert_eq!(page.capsule_data_offset.get(), 0);
    assert!(page.sgl.get() & 3 != 0 && page.keep_alive_granularity.get() > 0);
    assert!(page.commands_max.get() > 0 && page.controller_type == 1);
    assert!(page.multipath & 1 << 3 != 0 && page.ana_groups.get() == 1);
    // The ANA log of all namespaces fits a transfer.
    let ana_bytes = 16 + 32 + 4 * page.namespaces_max.get();
    assert!(ana_bytes <= 4096 << page.max_transfer);
    assert_eq!((page.submission_entry, page.completion_entry), (0x66, 0x44));
}
