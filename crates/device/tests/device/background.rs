//! Format, Sanitize, self-tests: what takes its time.

use crate::support::*;
use mynah_device::Timing;
use mynah_stamp::Span;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::identify::cns;
use mynah_wire::nvme::log::{SanitizeStatus, SelfTestLog, page};
use mynah_wire::nvme::opcode::{admin, nvm};
use zerocopy::FromBytes;

#[test]
fn a_format_takes_its_time_and_keeps_others_out() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, _) = world.host();
    let data = pattern(1, 4096);
    world.status(io, write(0, 8), &data);
    let mut format = entry(admin::FORMAT_NVM, 1);
    format.dword10.set(1 | 1 << 9);
    let id = world.submit(admin, format, &[]);
    // 24 blocks of 3 ms on each plane.
    world.wait(Span::from_ms(36));
    assert!(world.reply_now(admin, id).is_none());
    let progress = world.identify(admin, cns::NAMESPACE, 1)[32];
    assert_eq!(progress, 0x80 | 50);
    assert_eq!(world.status(io, read(0, 1), &[]), Status::FORMAT_IN_PROGRESS);
    assert_eq!(world.status(admin, format, &[]), Status::FORMAT_IN_PROGRESS);
    let (reply, _) = world.reply(admin, id);
    assert!(reply.entry.status().is_success());
    assert!(world.now >= mynah_stamp::Time::ZERO + Span::from_ms(72));
    assert_eq!(world.call(io, read(0, 1), &[]).1, [0; 4096]);
    assert!(!world.subsystem.drive().holds_data(mynah_model::io::NamespaceId(1), 0));
    // The host goes while a format is under way: it ends all the same.
    world.submit(admin, format, &[]);
    world.wait(Span::from_ms(1));
    world.subsystem.detach(world.clock(), admin);
    world.wait(Span::from_ms(100));
    let (admin, io, _) = world.host();
    assert_eq!(world.identify(admin, cns::NAMESPACE, 1)[32], 0x80);
    assert_eq!(world.status(io, read(0, 1), &[]), Status::SUCCESS);
    let mut bad = format;
    bad.dword10.set(3 << 9);
    assert_eq!(world.status(admin, bad, &[]), Status::INVALID_FIELD);
    assert_eq!(world.status(admin, entry(admin::FORMAT_NVM, 7), &[]), Status::INVALID_NAMESPACE);
}

fn sanitize(action: u32) -> mynah_wire::nvme::SubmissionEntry {
    let mut entry = entry(admin::SANITIZE, 0);
    entry.dword10.set(action);
    entry
}

fn status(world: &mut World, admin: mynah_device::Queue) -> (u16, u16) {
    let log = world.log(admin, page::SANITIZE_STATUS, 512);
    let log = SanitizeStatus::read_from_bytes(&log).unwrap();
    (log.progress.get(), log.status.get())
}

#[test]
fn a_sanitize_leaves_nothing() {
    for action in [2, 3 | 2 << 4, 4] {
        let mut world = World::new(Timing::Modelled);
        let (admin, io, _) = world.host();
        assert_eq!(status(&mut world, admin), (0xffff, 0x100));
        world.status(io, write(0, 8), &pattern(1, 4096));
        assert_eq!(status(&mut world, admin), (0xffff, 0));
        let request = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
        assert_eq!(world.status(admin, sanitize(action), &[]), Status::SUCCESS);
        let busy = Status::SANITIZE_IN_PROGRESS;
        assert_eq!(world.status(io, read(0, 1), &[]), busy);
        assert_eq!(world.status(io, entry(nvm::FLUSH, 1), &[]), busy);
        assert_eq!(world.status(admin, sanitize(2), &[]), busy);
        assert_eq!(world.status(admin, entry(admin::FORMAT_NVM, 1), &[]), busy);
        assert_eq!(world.status(admin, identify(cns::CONTROLLER, 0), &[]), Status::SUCCESS);
        assert_eq!(status(&mut world, admin).1 & 7, 2);
        let (event, _) = world.reply(admin, request);
        assert_eq!(event.entry.result.get(), 0x81_0106);
        let passes = if action & 7 == 3 { 2 << 3 } else { 0 };
        assert_eq!(status(&mut world, admin), (0xffff, 0x101 | passes));
        assert_eq!(world.call(io, read(0, 8), &[]).1, [0; 4096]);
        assert!(!world.subsystem.drive().holds_data(mynah_model::io::NamespaceId(1), 0));
        assert_eq!(world.status(io, write(0, 8), &pattern(1, 4096)), Status::SUCCESS);
    }
    let mut world = World::new(Timing::Immediate);
    let (admin, ..) = world.host();
    assert_eq!(world.status(admin, sanitize(1), &[]), Status::SUCCESS, "nothing has failed");
    assert_eq!(world.status(admin, sanitize(0), &[]), Status::INVALID_FIELD);
    assert_eq!(world.status(admin, sanitize(2 | 1 << 9), &[]), Status::INVALID_FIELD);
    world.call(admin, set_feature(0x17, 1), &[]);
    let request = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
    assert_eq!(world.status(admin, sanitize(2 | 1 << 9), &[]), Status::SUCCESS);
    let (event, _) = world.reply(admin, request);
    assert_eq!(event.entry.result.get(), 0x81_0206, "with unexpected deallocation");
    assert_eq!(status(&mut world, admin).1 & 7, 4, "deallocated all the same");
}

/// The log says how long an overwrite of 16 passes takes, whatever is asked for.
#[test]
fn a_sanitize_takes_as_long_as_its_log_says() {
    let mut world = World::new(Timing::Modelled);
    let (admin, ..) = world.host();
    // Estimated times for an overwrite, and block erase: bytes 11:8 and 15:12.
    let log = world.log(admin, page::SANITIZE_STATUS, 512);
    let seconds = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().unwrap());
    // Overwrite Pass Count, bits 7:4: 0 stands for 16.
    for (action, at) in [(3, 8), (2, 12)] {
        let request = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
        assert_eq!(world.status(admin, sanitize(action), &[]), Status::SUCCESS);
        let begun = world.now;
        let _ = world.reply(admin, request);
        let took = world.now.since(begun).as_ps().div_ceil(1_000_000_000_000);
        assert_eq!(took, u64::from(seconds(at)), "{action:#x}");
        // Reading the log lets the next event come.
        world.log(admin, page::SANITIZE_STATUS, 512);
    }
}

#[test]
fn self_tests() {
    let mut world = World::new(Timing::Modelled);
    let (admin, ..) = world.host();
    let test = |code: u32| {
        let mut entry = entry(admin::DEVICE_SELF_TEST, u32::MAX);
        entry.dword10.set(code);
        entry
    };
    let log = |world: &mut World| {
        let log = world.log(admin, page::SELF_TEST, 564);
        SelfTestLog::read_from_bytes(&log).unwrap()
    };
    assert_eq!(log(&mut world).results[0].status, 0xf);
    assert_eq!(world.status(admin, test(1), &[]), Status::SUCCESS);
    assert_eq!(world.status(admin, test(2), &[]), Status::SELF_TEST_IN_PROGRESS);
    world.wait(Span::from_ms(500));
    let now = log(&mut world);
    assert_eq!((now.current, now.completion), (1, 25));
    world.wait(Span::from_ms(1500));
    let now = log(&mut world);
    assert_eq!((now.current, now.results[0].status), (0, 0x10));
    assert_eq!(world.status(admin, test(2), &[]), Status::SUCCESS);
    assert_eq!(world.status(admin, test(0xf), &[]), Status::SUCCESS);
    assert_eq!(log(&mut world).results[0].status, 0x21);
    // A reset ends a short test, not an extended one.
    for (code, result, current) in [(1, 0x12, 0), (2, 0x12, 2)] {
        world.call(admin, test(code), &[]);
        world.call(admin, property_set(0x14, 0x0046_0000), &[]);
        world.call(admin, property_set(0x14, 0x0046_0001), &[]);
        let now = log(&mut world);
        assert_eq!((now.results[0].status, now.current), (result, current));
    }
    world.call(admin, entry(admin::FORMAT_NVM, 1), &[]);
    assert_eq!(log(&mut world).results[0].status, 0x24, "aborted by a format");
    assert_eq!(world.status(admin, test(3), &[]), Status::INVALID_FIELD);
    for _ in 0..30 {
        world.call(admin, test(1), &[]);
        world.call(admin, test(0xf), &[]);
    }
    assert_eq!(log(&mut world).results[19].status, 0x11);
}
