//! Features and asynchronous events.

use crate::support::*;
use mynah_device::{Tap, Timing};
use mynah_model::config::{Arbitration, Config, Weights};
use mynah_model::io::{Completion, Control, QueueId, Request, Tag};
use mynah_model::keys::{Decision, KeyRequest};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::feature::id;
use mynah_wire::nvme::log::{Smart, page};
use mynah_wire::nvme::opcode::{admin, nvm};
use std::cell::RefCell;
use std::rc::Rc;
use zerocopy::FromBytes;

#[test]
fn features_have_defaults_change_and_come_back() {
    let mut world = World::new(Timing::Immediate);
    let (admin, _) = world.admin();
    // Identifier, default, what is set, what is then read.
    for (feature, default, set, read) in [
        (id::ARBITRATION, 0, 0x0102_0304, 0x0102_0304),
        (id::POWER_MANAGEMENT, 0, 0, 0),
        (id::TEMPERATURE_THRESHOLD, 343, 350, 350),
        (id::VOLATILE_WRITE_CACHE, 1, 0, 0),
        (id::NUMBER_OF_QUEUES, 0x007f_007f, 0x0007_0003, 0x0003_0003),
        (id::INTERRUPT_COALESCING, 0, 0x1234, 0x1234),
        (id::WRITE_ATOMICITY, 0, 1, 1),
        (id::ASYNCHRONOUS_EVENTS, 0, 1 << 8 | 1 << 9 | 0xff, 1 << 8 | 0xff),
        (id::KEEP_ALIVE, 0, 1234, 1300),
        (id::NON_OPERATIONAL_POWER, 0, 1, 1),
        (id::SANITIZE_CONFIG, 0, 1, 1),
        (id::COMMAND_SET_PROFILE, 0, 0, 0),
    ] {
        let value = |world: &mut World, select| {
            world.call(admin, get_feature(feature, select, 0), &[]).0.result.get()
        };
        assert_eq!(value(&mut world, 0), default, "{feature:#x}");
        assert_eq!(value(&mut world, 3), 4, "{feature:#x} can be changed, not saved");
        assert_eq!(world.status(admin, set_feature(feature, set), &[]), Status::SUCCESS);
        assert_eq!(value(&mut world, 0), read, "{feature:#x}");
        assert_eq!(value(&mut world, 1), default, "{feature:#x}");
        assert_eq!(value(&mut world, 2), default, "{feature:#x}");
    }
    // A reset brings what belongs to the controller back.
    world.call(admin, property_set(0x14, 0), &[]);
    world.call(admin, property_set(0x14, 0x0046_0001), &[]);
    let arbitration = world.call(admin, get_feature(id::ARBITRATION, 0, 0), &[]).0;
    assert_eq!(arbitration.result.get(), 0);
}

/// Notes how the model is told to arbitrate.
struct Arbitrations(Rc<RefCell<Vec<(u32, Weights)>>>);

impl Tap for Arbitrations {
    fn command(&mut self, _: Time, _: QueueId, _: &Request) {}
    fn own_command(&mut self, _: Time, _: QueueId, _: &Request) {}
    fn key_command(&mut self, _: Time, _: QueueId, _: &KeyRequest) {}
    fn decided(&mut self, _: Time, _: Tag, _: &Decision) {}
    fn ring(&mut self, _: Time, _: QueueId, _: u32) {}
    fn data_arrived(&mut self, _: Time, _: Tag) {}
    fn cq_freed(&mut self, _: Time, _: QueueId, _: u32) {}
    fn control(&mut self, _: Time, control: &Control) {
        if let Control::Arbitration { burst, weights } = control {
            self.0.borrow_mut().push((*burst, *weights));
        }
    }
    fn completed(&mut self, _: &Completion, _: Time) {}
}

#[test]
fn arbitration_reaches_the_model_until_the_controller_is_reset_or_gone() {
    let own = Weights { high: 16, medium: 4, low: 2 };
    let drive = |config: &mut Config| {
        config.queues.arbitration = Arbitration::Weighted(own);
        config.queues.arbitration_burst = 5;
    };
    let mut world = World::with(Timing::Modelled, |_| {}, drive);
    let seen = Rc::new(RefCell::new(Vec::new()));
    world.subsystem.set_tap(Box::new(Arbitrations(Rc::clone(&seen))));
    let (admin, _) = world.admin();
    let read = |world: &mut World, select| {
        world.call(admin, get_feature(id::ARBITRATION, select, 0), &[]).0.result.get()
    };
    // A burst of 5 is at least 2^2.
    assert_eq!(read(&mut world, 0), 0x0f03_0102);
    assert_eq!(
        world.status(admin, set_feature(id::ARBITRATION, 0x0706_0503), &[]),
        Status::SUCCESS
    );
    assert_eq!((read(&mut world, 0), read(&mut world, 1)), (0x0706_0503, 0x0f03_0102));
    let set = Weights { high: 8, medium: 7, low: 6 };
    assert_eq!(seen.take(), [(8, set)]);
    world.call(admin, property_set(0x14, 0), &[]);
    world.call(admin, property_set(0x14, 0x0046_0001), &[]);
    assert_eq!((read(&mut world, 0), seen.take()), (0x0f03_0102, vec![(5, own)]));
    // Without a limit, and then the host goes.
    assert_eq!(
        world.status(admin, set_feature(id::ARBITRATION, 0x0706_0507), &[]),
        Status::SUCCESS
    );
    let now = world.clock();
    world.subsystem.detach(now, admin);
    assert_eq!(seen.take(), [(u32::MAX, set), (5, own)]);
}

#[test]
fn features_of_namespaces() {
    let mut world = World::new(Timing::Immediate);
    let (admin, io, _) = world.host();
    let of = |mut entry: mynah_wire::nvme::SubmissionEntry, namespace| {
        entry.namespace_id.set(namespace);
        entry
    };
    let recovery = set_feature(id::ERROR_RECOVERY, 77);
    assert_eq!(world.status(admin, of(recovery, u32::MAX), &[]), Status::SUCCESS);
    let back = world.call(admin, of(get_feature(id::ERROR_RECOVERY, 0, 0), 1), &[]).0;
    assert_eq!(back.result.get(), 77);
    // Without a namespace: what is common to all, if anything is.
    let common = get_feature(id::ERROR_RECOVERY, 0, 0);
    assert_eq!(world.call(admin, common, &[]).0.result.get(), 77);
    assert_eq!(world.status(admin, of(recovery, 0), &[]), Status::INVALID_NAMESPACE);
    assert_eq!(world.status(admin, of(recovery, 2), &[]), Status::INVALID_NAMESPACE);
    let refused = of(set_feature(id::ARBITRATION, 1), 1);
    assert_eq!(world.status(admin, refused, &[]), Status::FEATURE_NOT_NAMESPACE_SPECIFIC);
    // Write protection.
    let protect = |value| of(set_feature(id::WRITE_PROTECTION, value), 1);
    assert_eq!(world.status(admin, protect(1), &[]), Status::SUCCESS);
    let refused = Status::NAMESPACE_WRITE_PROTECTED;
    assert_eq!(world.status(io, write(0, 1), &[0; 512]), refused);
    assert_eq!(world.status(io, blocks(nvm::WRITE_ZEROES, 1, 0, 1), &[]), refused);
    assert_eq!(world.status(io, entry(nvm::FLUSH, 1), &[]), Status::SUCCESS);
    assert_eq!(world.status(admin, entry(admin::FORMAT_NVM, 1), &[]), refused);
    let mut sanitize = entry(admin::SANITIZE, 0);
    sanitize.dword10.set(2);
    assert_eq!(world.status(admin, sanitize, &[]), refused);
    assert_eq!(world.status(io, read(0, 1), &[]), Status::SUCCESS);
    assert_eq!(world.identify(admin, 0, 1)[99], 1);
    assert_eq!(world.status(admin, protect(0), &[]), Status::SUCCESS);
    assert_eq!(world.status(io, write(0, 1), &[0; 512]), Status::SUCCESS);
    assert_eq!(world.status(admin, protect(2), &[]), Status::SUCCESS);
    assert_eq!(world.status(admin, protect(0), &[]), Status::FEATURE_NOT_CHANGEABLE);
}

#[test]
fn features_that_are_refused() {
    let mut world = World::new(Timing::Immediate);
    let (admin, io, _) = world.host();
    let saved = set_feature(id::ARBITRATION, 1);
    let mut save = saved;
    save.dword10.set(saved.dword10.get() | 1 << 31);
    for (entry, expected) in [
        (save, Status::FEATURE_NOT_SAVEABLE),
        (set_feature(id::HOST_ID, 1), Status::SGL_DATA_LENGTH_INVALID),
        (set_feature(id::POWER_MANAGEMENT, 1), Status::INVALID_FIELD),
        (set_feature(id::NUMBER_OF_QUEUES, 0xffff), Status::INVALID_FIELD),
        (set_feature(id::NUMBER_OF_QUEUES, 0), Status::COMMAND_SEQUENCE_ERROR),
        (set_feature(id::COMMAND_SET_PROFILE, 1), Status::COMMAND_SET_COMBINATION_REJECTED),
        (set_feature(0xd0, 0), Status::INVALID_FIELD),
        (get_feature(0xd0, 0, 0), Status::INVALID_FIELD),
        (get_feature(id::ARBITRATION, 4, 0), Status::INVALID_FIELD),
        (get_feature(id::HOST_ID, 0, 0), Status::INVALID_FIELD),
        (get_feature(id::HOST_ID, 0, 1), Status::SUCCESS),
        (set_feature(id::HOST_BEHAVIOR, 0), Status::SGL_DATA_LENGTH_INVALID),
    ] {
        assert_eq!(world.status(admin, entry, &[]), expected, "{entry:?}");
    }
    let late = world.status(admin, set_feature(id::HOST_ID, 1), &[9; 16]);
    assert_eq!(late, Status::COMMAND_SEQUENCE_ERROR, "Connect has said it");
    let back = world.call(admin, get_feature(id::HOST_ID, 0, 1), &[]).1;
    assert_eq!(back, host_id(HOST));
    assert!(world.closed.is_empty());
    world.status(io, read(0, 1), &[]);
}

#[test]
fn the_timestamp_runs() {
    let mut world = World::new(Timing::Immediate);
    let (admin, _) = world.admin();
    let start: u64 = 1_700_000_000_000;
    let set = world.status(admin, set_feature(id::TIMESTAMP, 0), &start.to_le_bytes());
    assert_eq!(set, Status::SUCCESS);
    world.wait(Span::from_ms(1500));
    let back = world.call(admin, get_feature(id::TIMESTAMP, 0, 0), &[]).1;
    let back = u64::from_le_bytes(back.try_into().unwrap());
    assert_eq!((back & 0xffff_ffff_ffff, back >> 49 & 7), (start + 1500, 1));
}

#[test]
fn a_threshold_below_the_temperature_is_an_event() {
    let mut world = World::new(Timing::Immediate);
    let (admin, _) = world.admin();
    world.call(admin, set_feature(id::ASYNCHRONOUS_EVENTS, 0xff), &[]);
    let requests: Vec<u16> = (0..4)
        .map(|_| world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]))
        .collect();
    let fifth = world.status(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
    assert_eq!(fifth, Status::ASYNC_EVENT_LIMIT_EXCEEDED);
    world.call(admin, set_feature(id::TEMPERATURE_THRESHOLD, 300), &[]);
    let (event, _) = world.reply_now(admin, requests[0]).expect("an event");
    assert_eq!(event.entry.result.get(), 0x02_0101);
    // No second one before the page is read; nor if reading keeps the event.
    world.call(admin, set_feature(id::TEMPERATURE_THRESHOLD, 301), &[]);
    assert!(world.reply_now(admin, requests[1]).is_none());
    let mut keep = log_page(page::SMART, 512, 0);
    keep.dword10.set(keep.dword10.get() | 1 << 15);
    assert_eq!(world.call(admin, keep, &[]).1[0], 2, "critical warning");
    assert!(world.reply_now(admin, requests[1]).is_none());
    world.log(admin, page::SMART, 512);
    world.call(admin, set_feature(id::TEMPERATURE_THRESHOLD, 302), &[]);
    assert!(world.reply_now(admin, requests[1]).is_some());
}

#[test]
fn a_worn_out_drive_says_so() {
    let wear = |c: &mut Config| c.wear.endurance = Some(12);
    let mut world = World::with(Timing::Modelled, |_| {}, wear);
    let (admin, io, _) = world.host();
    world.call(admin, set_feature(id::ASYNCHRONOUS_EVENTS, 0xff), &[]);
    let requests: Vec<u16> = (0..2)
        .map(|_| world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]))
        .collect();
    let smart = |world: &mut World| {
        Smart::read_from_bytes(&world.log(admin, page::SMART, 512)).expect("its length")
    };
    let new = smart(&mut world);
    assert_eq!((new.available_spare, new.percentage_used, new.critical_warning), (100, 0, 0));
    let mut blocks = 0u64;
    let status = loop {
        let status = world.status(io, write(blocks * 8 % 8192, 8), &[1; 4096]);
        if status != Status::SUCCESS {
            break status;
        }
        blocks += 7;
        assert!(blocks < 1 << 20, "it never ends");
    };
    assert_eq!(status, Status::NAMESPACE_WRITE_PROTECTED);
    let mut keep = log_page(page::SMART, 512, 0);
    keep.dword10.set(keep.dword10.get() | 1 << 15);
    let worn = Smart::read_from_bytes(&world.call(admin, keep, &[]).1).expect("its length");
    // Spare, reliability, read only; every block has had what it endures, or nearly.
    assert_eq!((worn.available_spare, worn.critical_warning & !4), (0, 1 | 1 << 3));
    assert_eq!(worn.critical_warning & 4, 4);
    assert!((60..=100).contains(&worn.percentage_used), "{}", worn.percentage_used);
    // Looked at once a minute.
    world.wait(Span::from_secs(61));
    let (event, _) = world.reply_now(admin, requests[0]).expect("an event");
    assert_eq!(event.entry.result.get() & 0xff_00ff, 0x02_0001);
    assert_eq!(world.status(io, read(0, 8), &[]), Status::SUCCESS);
}

#[test]
fn a_protected_cache_is_not_volatile() {
    let protect = |drive: &mut mynah_model::config::Config| {
        if let Some(cache) = &mut drive.cache {
            cache.power_loss_protection = true;
        }
    };
    let mut world = World::with(Timing::Modelled, |_| {}, protect);
    let (admin, io, _) = world.host();
    // Identify Controller, byte 525: VWC.
    assert_eq!(world.identify(admin, 1, 0)[525], 0b110);
    for entry in
        [get_feature(id::VOLATILE_WRITE_CACHE, 0, 0), set_feature(id::VOLATILE_WRITE_CACHE, 0)]
    {
        assert_eq!(plain(world.status(admin, entry, &[])), Status::INVALID_FIELD);
    }
    let before = world.now;
    let mut through = write(0, 8);
    through.dword12.set(7 | 1 << 30);
    world.status(io, through, &[1; 4096]);
    world.status(io, entry(mynah_wire::nvme::opcode::nvm::FLUSH, 1), &[]);
    assert!(world.now.since(before) < Span::from_us(50));
    let mut world = World::new(Timing::Modelled);
    let (admin, _, _) = world.host();
    assert_eq!(world.identify(admin, 1, 0)[525], 0b111);
}

#[test]
fn without_a_write_cache_writes_are_on_flash() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, _) = world.host();
    let latency = |world: &mut World, entry| {
        let before = world.now;
        world.status(io, entry, &[1; 4096]);
        world.now.since(before)
    };
    let cached = latency(&mut world, write(0, 8));
    let mut through = write(0, 8);
    through.dword12.set(7 | 1 << 30);
    let forced = latency(&mut world, through);
    world.call(admin, set_feature(id::VOLATILE_WRITE_CACHE, 0), &[]);
    let uncached = latency(&mut world, write(8, 8));
    assert!(cached < Span::from_us(100), "{cached}");
    assert!(forced > Span::from_us(500) && uncached > Span::from_us(500));
}
