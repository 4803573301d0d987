//! From power-on to a controller with queues, and back.

use crate::shared;
use crate::support::*;
use mynah_device::Timing;
use mynah_device::pci::Region;
use mynah_stamp::Span;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::identify::{IdentifyController, cns};
use mynah_wire::nvme::opcode::admin;
use mynah_wire::nvme::property::offset;
use zerocopy::FromBytes;

#[test]
fn a_controller_boots_and_identifies_itself() {
    for timing in [Timing::Immediate, Timing::Modelled] {
        let mut host = Host::new(timing);
        let (status, page) = host.fetch(0, shared::identify(cns::CONTROLLER, 0), 4096);
        assert_eq!(status, Status::SUCCESS);
        let page = IdentifyController::read_from_bytes(&page).unwrap();
        assert_eq!(page.vendor_id.get(), 0x4d59);
        assert_eq!(page.controller_type, 1);
        assert_eq!(page.max_transfer, 6, "256 KiB");
        assert_eq!(page.sgl.get(), 1 | 1 << 16 | 1 << 18);
        // Nothing of fabrics.
        assert_eq!((page.command_capsule.get(), page.response_capsule.get()), (0, 0));
        assert_eq!((page.optional_fabrics.get(), page.sgl_blocks_max), (0, 0));
        assert_eq!(page.optional_admin.get() & 1 << 8, 0);
        host.create_pair(1, 2);
        assert_eq!(host.delete(admin::DELETE_SUBMISSION_QUEUE, 1), Status::SUCCESS);
        assert_eq!(host.delete(admin::DELETE_COMPLETION_QUEUE, 1), Status::SUCCESS);
    }
}

#[test]
fn registers_in_words_halves_and_pairs() {
    let mut host = Host::new(Timing::Immediate);
    let capabilities = u64::from_le_bytes(host.read(Region::Registers, 0));
    assert_eq!(capabilities & 0xffff, 1023);
    assert_eq!(capabilities >> 16 & 1, 1, "contiguous queues");
    assert_eq!(host.register(4), (capabilities >> 32) as u32);
    assert_eq!(host.read::<1>(Region::Registers, 1), [3]);
    assert_eq!(host.read::<2>(Region::Registers, 0x0a), [2, 0], "version 2.0");
    assert_eq!(host.register(offset::ASQ), host.submissions[&0].base as u32);
    // Read only, too short, not aligned, unknown: nothing happens.
    host.set_register(offset::CAP, 0);
    host.write(Region::Registers, u64::from(offset::CC), &[0]);
    host.write(Region::Registers, u64::from(offset::CC) + 1, &[0; 4]);
    host.set_register(0x800, 7);
    assert_eq!(u64::from_le_bytes(host.read(Region::Registers, 0)), capabilities);
    assert_eq!(host.register(offset::CC), 0x0046_0001);
    assert_eq!(host.register(0x800), 0);
    host.set_register(offset::INTMS, 0xf0);
    host.set_register(offset::INTMC, 0x30);
    assert_eq!(host.register(offset::INTMS), 0xc0);
    // What passes a region's end is refused.
    let mut four = [0; 4];
    let end = host.function.region_bytes(Region::Registers);
    assert!(host.function.read(&host.subsystem, Region::Registers, end - 2, &mut four).is_err());
    assert!(
        host.function.read(&host.subsystem, Region::Registers, u64::MAX - 1, &mut four).is_err()
    );
}

#[test]
fn configurations_that_cannot_be_never_become_ready() {
    for (register, value) in [
        // Admin queues of one entry, other entry sizes, pages, command sets, arbitration.
        (offset::AQA, 0),
        (offset::CC, 0x0056_0001),
        (offset::CC, 0x0047_0001),
        (offset::CC, 0x0046_0081),
        (offset::CC, 0x0046_0011),
        (offset::CC, 0x0046_0801),
    ] {
        let mut host = Host::new(Timing::Modelled);
        host.set_register(offset::CC, 0);
        assert_eq!(host.register(offset::CSTS), 0);
        host.set_register(register, value);
        if register != offset::CC {
            host.set_register(offset::CC, 0x0046_0001);
        }
        host.turn();
        assert_eq!(host.register(offset::CSTS), 0, "{register:#x} {value:#x}");
        // And with what can be, it does.
        host.set_register(offset::CC, 0);
        host.boot(2);
        assert_eq!(host.fetch(0, shared::identify(cns::CONTROLLER, 0), 4096).0, Status::SUCCESS);
    }
}

#[test]
fn shutdown_is_said_to_be_complete_when_it_is() {
    for notification in [1, 2] {
        let mut host = Host::with_io(Timing::Modelled);
        assert_eq!(host.send(1, shared::write(0, 8), &[1; 4096]), Status::SUCCESS);
        host.set_register(offset::CC, 0x0046_0001 | notification << 14);
        // A page takes 500 us.
        assert_eq!(host.register(offset::CSTS), 1 | 1 << 2);
        host.wait(Span::from_us(400));
        assert_eq!(host.register(offset::CSTS), 1 | 1 << 2);
        host.wait(Span::from_us(200));
        assert_eq!(host.register(offset::CSTS), 1 | 2 << 2);
        host.set_register(offset::CC, 0);
        assert_eq!(host.register(offset::CSTS), 0);
        host.boot(8);
    }
}

#[test]
fn nothing_moves_before_the_function_is_a_bus_master() {
    let mut host = Host::new(Timing::Immediate);
    host.write(Region::Configuration, 4, &[2, 0]);
    let mut entry = shared::identify(cns::CONTROLLER, 0);
    let at = host.pages(PAGE);
    host.set_prps(&mut entry, at, PAGE);
    let id = host.submit(0, entry);
    host.turn();
    assert!(host.done.is_empty());
    host.write(Region::Configuration, 4, &[6, 0]);
    assert!(host.completion(0, id).status().is_success());
}

#[test]
fn a_reset_forgets_everything_the_host_has_set_up() {
    for timing in [Timing::Immediate, Timing::Modelled] {
        for whole in [false, true] {
            let mut host = Host::with_io(timing);
            host.write(Region::MsixTable, 0, &[1, 2, 3, 4]);
            for block in 0..8 {
                let mut read = shared::read(block, 1);
                let at = host.pages(PAGE);
                host.set_prps(&mut read, at, 512);
                host.insert(1, read);
            }
            host.ring(1);
            if timing == Timing::Modelled {
                host.turn();
            }
            if whole {
                let now = host.clock();
                host.function.reset(now, &mut host.subsystem, &host.doorbells);
                assert_eq!(host.read::<2>(Region::Configuration, 4), [0, 0]);
                assert_eq!(host.read::<4>(Region::MsixTable, 0), [0; 4]);
                assert_eq!(host.register(offset::AQA), 0);
                host.write(Region::Configuration, 4, &[6, 0]);
            } else {
                host.set_register(offset::CC, 0);
                assert_eq!(host.read::<4>(Region::MsixTable, 0), [1, 2, 3, 4]);
            }
            assert!(
                host.doorbells.iter().all(|it| it.load(std::sync::atomic::Ordering::Relaxed) == 0)
            );
            assert_eq!(host.register(offset::CSTS), 0);
            host.done.clear();
            host.boot(4);
            host.create_pair(1, 16);
            assert_eq!(host.fetch(1, shared::read(0, 1), 512).0, Status::SUCCESS);
            assert!(host.done.is_empty(), "what was under way is not answered");
        }
    }
}
