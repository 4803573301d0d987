//! Media errors, fatal status, power cuts.

use crate::support::*;
use mynah_device::{AnaState, Path, Timing};
use mynah_model::config::{Fault, FaultExtent, MediaOperation};
use mynah_stamp::{Span, Time};
use mynah_wire::fabrics::DISCOVERY_NQN;
use mynah_wire::nvme::log::{Smart, page};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::collections::HashMap;
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn a_media_error_is_an_error_and_is_counted() {
    let extent = FaultExtent::Units { namespace: 1, first: 2, last: 2 };
    let fault = Fault::Media { operation: MediaOperation::Read, extent };
    let mut world = World::with(Timing::Modelled, |_| {}, |drive| drive.faults.push(fault));
    let (admin, io, _) = world.host();
    world.status(io, write(0, 64), &pattern(1, 64 * 512));
    world.status(io, entry(nvm::FLUSH, 1), &[]);
    assert_eq!(world.status(io, read(0, 8), &[]), Status::SUCCESS);
    assert_eq!(world.status(io, read(16, 8), &[]), Status::UNRECOVERED_READ_ERROR);
    assert_eq!(world.status(io, read(0, 64), &[]), Status::UNRECOVERED_READ_ERROR);
    let smart = Smart::read_from_bytes(&world.log(admin, page::SMART, 512)).unwrap();
    assert_eq!((smart.media_errors.get(), smart.error_entries.get()), (2, 2));
    let log = world.log(admin, page::ERROR_INFORMATION, 64);
    assert_eq!(u16::from_le_bytes([log[12], log[13]]) >> 1 & 0x7ff, 0x281);
}

/// Whoever asks what went wrong is a host of his own, with a controller of his own.
#[test]
fn what_a_fault_left_is_told_to_hosts_that_come_later() {
    let extent = FaultExtent::Units { namespace: 1, first: 0, last: 0 };
    let fault = Fault::Media { operation: MediaOperation::Read, extent };
    let mut world = World::with(Timing::Modelled, |_| {}, |drive| drive.faults.push(fault));
    let (first, first_io, _) = world.host_as(HOST);
    let (second, second_io, _) = world.host_as("nqn.2026-11.example:another");
    world.status(first_io, write(0, 64), &pattern(1, 64 * 512));
    world.status(first_io, entry(nvm::FLUSH, 1), &[]);
    assert_eq!(world.status(first_io, read(0, 8), &[]), Status::UNRECOVERED_READ_ERROR);
    assert_eq!(world.status(second_io, read(7, 1), &[]), Status::UNRECOVERED_READ_ERROR);
    world.subsystem.detach(world.clock(), first);
    let (later, _) = world.admin_as("nqn.2026-11.example:later", SUBSYSTEM);
    for admin in [second, later] {
        let log = world.log(admin, page::ERROR_INFORMATION, 192);
        // Error Count, and LBA (bytes 7:0 and 23:16 of an entry, Base 2.0, figure 205).
        let number = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
        assert_eq!([0, 64, 128].map(number), [2, 1, 0]);
        assert_eq!([16, 64 + 16].map(number), [7, 0]);
        let smart = Smart::read_from_bytes(&world.log(admin, page::SMART, 512)).unwrap();
        assert_eq!(smart.error_entries.get(), 2);
    }
    // The log keeps as many as Identify Controller says (ELPE), and goes on counting.
    for _ in 0..70 {
        assert_eq!(world.status(second_io, read(0, 1), &[]), Status::UNRECOVERED_READ_ERROR);
    }
    let log = world.log(later, page::ERROR_INFORMATION, 64 * 64);
    assert_eq!((log[0], log[63 * 64]), (72, 9));
    // A discovery controller, which anybody has, shows nothing of it.
    let (discovery, _) = world.admin_as("nqn.2026-11.example:later", DISCOVERY_NQN);
    assert_eq!(world.log(discovery, page::ERROR_INFORMATION, 64), [0; 64]);
}

#[test]
fn a_failed_controller_waits_for_its_reset() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, id) = world.host();
    let request = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
    world.subsystem.fail_controllers(world.clock());
    let (event, _) = world.reply_now(admin, request).expect("an event");
    assert_eq!(event.entry.result.get(), 0x01_0300);
    assert_eq!(world.call(admin, property_get(offset::CSTS, 4), &[]).0.result.get(), 3);
    let lost = world.submit(io, read(0, 1), &[]);
    world.wait(Span::from_secs(1));
    assert!(world.reply_now(io, lost).is_none());
    world.call(admin, property_set(offset::CC, 0), &[]);
    world.call(admin, property_set(offset::CC, 0x0046_0001), &[]);
    assert_eq!(world.call(admin, property_get(offset::CSTS, 4), &[]).0.result.get(), 1);
    let io = world.io_queue_as(HOST, id, 1);
    assert_eq!(world.status(io, read(0, 1), &[]), Status::SUCCESS);
}

/// Writes with flushes and forced writes in between; at some moment the power fails. Then
/// every block reads as something that was written since its last certain value, or as that.
#[test]
fn a_power_cut_takes_no_more_than_what_was_not_flushed() {
    cut_the_power(false);
}

/// The same where what is in the cache outlives it: nothing acknowledged is lost.
#[test]
fn a_protected_cache_loses_nothing() {
    cut_the_power(true);
}

/// Nor is anything lost when a host has shut its controller down and waited for it.
#[test]
fn a_shutdown_that_is_complete_makes_the_power_safe_to_cut() {
    for waits in [false, true] {
        let at = Time::ZERO + Span::from_ms(20);
        let cut = Fault::PowerCut { at, recovery: Span::from_ms(5) };
        let mut world = World::with(Timing::Modelled, |_| {}, |drive| drive.faults.push(cut));
        let (admin, io, _) = world.host();
        world.wait(Span::from_ms(if waits { 1 } else { 19 }));
        for unit in 0..16 {
            world.status(io, write(unit * 8, 8), &pattern(unit, 4096));
        }
        let csts = |world: &mut World, admin| {
            world.call(admin, property_get(offset::CSTS, 4), &[]).0.result.get()
        };
        if waits {
            assert_eq!(
                world.status(admin, property_set(offset::CC, 0x0046_4001), &[]),
                Status::SUCCESS
            );
            assert_eq!(csts(&mut world, admin), 1 | 1 << 2, "data are on their way");
            while csts(&mut world, admin) != 1 | 2 << 2 {
                world.wait(Span::from_us(50));
            }
        }
        world.wait(Span::from_ms(30));
        let (admin, io, _) = world.host();
        let kept = |world: &mut World, unit| {
            world.call(io, read(unit * 8, 8), &[]).1 == pattern(unit, 4096)
        };
        let count = (0..16).filter(|&unit| kept(&mut world, unit)).count();
        assert_eq!(count == 16, waits, "{count}");
        let smart = Smart::read_from_bytes(&world.log(admin, page::SMART, 512)).unwrap();
        assert_eq!(smart.power_cycles.get(), 2);
        assert_eq!(smart.unsafe_shutdowns.get(), u128::from(!waits));
    }
}

fn cut_the_power(protected: bool) {
    for seed in 0..12u64 {
        let at = Time::ZERO + Span::from_us(2000 + seed * 3777);
        let cut = Fault::PowerCut { at, recovery: Span::from_ms(5) };
        let mut world = World::with(
            Timing::Modelled,
            |_| {},
            |drive| {
                drive.faults.push(cut);
                if let Some(cache) = &mut drive.cache {
                    cache.power_loss_protection = protected;
                }
            },
        );
        let (_, io, _) = world.host();
        // What each unit may hold: the last certain seed first.
        let mut may: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut random = seed;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (random >> 33) % below
        };
        for number in 1.. {
            if !world.closed.is_empty() {
                break;
            }
            let unit = next(40);
            let data = pattern(number, 4096);
            let forced = next(10) == 0;
            let mut entry = write(unit * 8, 8);
            if forced {
                entry.dword12.set(7 | 1 << 30);
            }
            if next(3) == 0 {
                world.wait(Span::from_us(next(200)));
            }
            may.entry(unit).or_insert_with(|| vec![0]).push(number);
            let id = world.submit(io, entry, &data);
            let done = until_reply(&mut world, io, id);
            if done && (forced || protected) {
                may.insert(unit, vec![number]);
            }
            if next(12) == 0 {
                let flush = crate::support::entry(nvm::FLUSH, 1);
                let id = world.submit(io, flush, &[]);
                if until_reply(&mut world, io, id) {
                    for values in may.values_mut() {
                        values.drain(..values.len() - 1);
                    }
                }
            }
        }
        assert_eq!(world.closed.len(), 2, "admin and I/O queue");
        let refused = {
            let queue = world.attach();
            world.connect_as(queue, HOST, SUBSYSTEM, connect(0, 32), 0xffff).status()
        };
        assert_eq!(plain(refused), Status::CONNECT_CONTROLLER_BUSY);
        world.wait(Span::from_ms(6));
        let (admin, io, _) = world.host();
        let mut lost = 0;
        for (unit, values) in &may {
            let back = world.call(io, read(unit * 8, 8), &[]).1;
            let of = |seed: u64| if seed == 0 { vec![0; 4096] } else { pattern(seed, 4096) };
            let found = values.iter().position(|&value| of(value) == back);
            let found = found.unwrap_or_else(|| panic!("seed {seed}, unit {unit}: {values:?}"));
            lost += values.len() - 1 - found;
        }
        let smart = Smart::read_from_bytes(&world.log(admin, page::SMART, 512)).unwrap();
        assert_eq!((smart.power_cycles.get(), smart.unsafe_shutdowns.get()), (2, 1));
        let unflushed: usize = may.values().map(|values| values.len() - 1).sum();
        // The last write may have been under way.
        assert!(!protected || unflushed < 2, "{unflushed}");
        assert!(
            protected || lost > 0 || unflushed < 4,
            "seed {seed}: {unflushed} may be lost, none was"
        );
        world.status(io, write(0, 8), &pattern(1, 4096));
    }
}

/// A block is written and flushed, then zeroed by a command that is on flash when it completes,
/// then written anew: only the last write may be lost, whatever command zeroed the block and
/// whyever it had to be on flash.
#[test]
fn a_power_cut_takes_nothing_that_was_written_through() {
    const FORCE: u32 = 1 << 30;
    for write_cache in [true, false] {
        let at = Time::ZERO + Span::from_ms(100);
        let cut = Fault::PowerCut { at, recovery: Span::from_ms(5) };
        let mut world = World::with(Timing::Modelled, |_| {}, |drive| drive.faults.push(cut));
        let (admin, io, _) = world.host();
        let (old, new, zeros) = ([1; 4096], [2; 4096], [0; 4096]);
        let units = [0, 8, 16, 24, 32];
        for start in units {
            world.status(io, write(start, 8), &old);
        }
        world.status(io, entry(nvm::FLUSH, 1), &[]);
        let force = |mut entry: SubmissionEntry| {
            entry.dword12.set(entry.dword12.get() | if write_cache { FORCE } else { 0 });
            entry
        };
        let feature = set_feature(mynah_wire::nvme::feature::id::VOLATILE_WRITE_CACHE, 0);
        if !write_cache {
            assert_eq!(world.status(admin, feature, &[]), Status::SUCCESS);
        }
        let (copied, range) = copy(800, 24, 8);
        for (entry, data) in [
            (write(0, 8), &zeros[..]),
            (write_zeroes(8, 8, false), &[]),
            (write_zeroes(16, 8, true), &[]),
            (copied, range.as_bytes()),
        ] {
            assert_eq!(world.status(io, force(entry), data), Status::SUCCESS);
        }
        let fused = |mut entry: SubmissionEntry, half: u8| {
            entry.flags |= half;
            entry
        };
        world.submit(io, fused(blocks(nvm::COMPARE, 1, 32, 8), 1), &old);
        let second = fused(force(write(32, 8)), 2);
        assert_eq!(world.status(io, second, &zeros), Status::SUCCESS);
        if !write_cache {
            let feature = set_feature(mynah_wire::nvme::feature::id::VOLATILE_WRITE_CACHE, 1);
            assert_eq!(world.status(admin, feature, &[]), Status::SUCCESS);
        }
        for start in units {
            world.status(io, write(start, 8), &new);
        }
        assert!(world.closed.is_empty());
        world.wait(Span::from_ms(110));
        let (_, io, _) = world.host();
        for start in units {
            let back = world.call(io, read(start, 8), &[]).1;
            assert!(back == zeros, "{start}: {:?} of {write_cache}", back[0]);
        }
    }
}

#[test]
fn a_power_cut_takes_nothing_of_a_namespace_that_is_protected() {
    let at = Time::ZERO + Span::from_ms(100);
    let cut = Fault::PowerCut { at, recovery: Span::from_ms(5) };
    let mut world = World::with(Timing::Modelled, |_| {}, |drive| drive.faults.push(cut));
    let (admin, io, _) = world.host();
    world.status(io, write(0, 8), &[1; 4096]);
    let mut protect = set_feature(mynah_wire::nvme::feature::id::WRITE_PROTECTION, 1);
    protect.namespace_id.set(1);
    assert_eq!(world.status(admin, protect, &[]), Status::SUCCESS);
    world.wait(Span::from_ms(110));
    let (_, io, _) = world.host();
    assert!(world.call(io, read(0, 8), &[]).1 == [1; 4096]);
}

#[test]
fn a_power_cut_does_not_bring_back_what_has_been_erased() {
    let mut sanitize = entry(admin::SANITIZE, 0);
    sanitize.dword10.set(4);
    for erase in [entry(admin::FORMAT_NVM, 1), sanitize] {
        let at = Time::ZERO + Span::from_ms(100);
        let cut = Fault::PowerCut { at, recovery: Span::from_ms(5) };
        let mut world = World::with(Timing::Modelled, |_| {}, |drive| drive.faults.push(cut));
        let (admin, io, _) = world.host();
        world.status(io, write(0, 8), &[1; 4096]);
        world.status(io, entry(nvm::FLUSH, 1), &[]);
        world.status(io, write(0, 8), &[2; 4096]);
        assert_eq!(world.status(admin, erase, &[]), Status::SUCCESS);
        // A sanitize goes on after its completion.
        world.wait(Span::from_ms(20));
        assert_eq!(world.status(io, write(0, 8), &[3; 4096]), Status::SUCCESS);
        world.wait(Span::from_ms(110));
        assert_eq!(world.closed.len(), 2);
        let (_, io, _) = world.host();
        let back = world.call(io, read(0, 8), &[]).1;
        assert!(back == [0; 4096], "the write is lost, {} is there", back[0]);
    }
}

/// Waits for a reply, or for the queue's end.
fn until_reply(world: &mut World, queue: mynah_device::Queue, id: u16) -> bool {
    loop {
        if world.reply_now(queue, id).is_some() {
            return true;
        }
        if !world.closed.is_empty() {
            return false;
        }
        let Some(next) = world.subsystem.next_at().model else { return false };
        world.now = world.now.max(next);
        let clock = world.clock();
        world.subsystem.advance(clock);
    }
}

/// Change count of the ANA log, and of its one group; the group's state.
fn ana_log(world: &mut World, admin: mynah_device::Queue) -> (u64, u64, u8) {
    let log = world.log(admin, page::ANA, 64);
    let count = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    (count(0), count(16 + 8), log[16 + 16])
}

#[test]
fn paths_change_their_state_and_say_so() {
    for timing in [Timing::Modelled, Timing::Immediate] {
        let mut world = World::new(timing);
        let (admin, io, id) = world.host();
        let (other_admin, other, _) = world.host_as("nqn.2026-11.test:other");
        world.status(io, write(0, 8), &pattern(1, 4096));
        // One host wants to hear of it, the other does not.
        let events = set_feature(mynah_wire::nvme::feature::id::ASYNCHRONOUS_EVENTS, 1 << 11);
        world.status(admin, events, &[]);
        let request = entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0);
        let mut asked = world.submit(admin, request, &[]);
        let unasked = world.submit(other_admin, request, &[]);
        let (mut changes, mut before) = (0, Status::SUCCESS);
        for (state, code, refusal) in [
            (AnaState::NonOptimized, 2, None),
            (AnaState::Inaccessible, 3, Some(Status::ANA_INACCESSIBLE)),
            (AnaState::Change, 15, Some(Status::ANA_TRANSITION)),
            (AnaState::PersistentLoss, 4, Some(Status::ANA_PERSISTENT_LOSS)),
            (AnaState::Optimized, 1, None),
        ] {
            let under_way = world.submit(io, write(8, 8), &pattern(2, 4096));
            world.subsystem.set_ana_state(world.clock(), Path::Controller(id), state);
            changes += 1;
            let (event, _) = world.reply_now(admin, asked).expect("an event");
            // Notice (2), asymmetric namespace access change (3), log page 0ch.
            assert_eq!(event.entry.result.get(), 0x0c_0302);
            assert_eq!(ana_log(&mut world, admin), (changes, changes, code));
            assert_eq!(ana_log(&mut world, other_admin), (0, 0, 1));
            asked = world.submit(admin, request, &[]);
            // The same once more is no change.
            world.subsystem.set_ana_state(world.clock(), Path::Controller(id), state);
            assert!(world.reply_now(admin, asked).is_none());
            // What is under way ends as it would have; what comes is refused, with retries allowed.
            let (reply, _) = world.reply(io, under_way);
            assert_eq!(plain(reply.entry.status()), before);
            let expected = refusal.unwrap_or(Status::SUCCESS);
            let mut flush_all = entry(nvm::FLUSH, 1);
            flush_all.namespace_id.set(u32::MAX);
            let data = pattern(3, 4096);
            for command in [
                read(0, 8),
                write(0, 8),
                entry(nvm::FLUSH, 1),
                flush_all,
                write_zeroes(0, 8, true),
                blocks(nvm::COMPARE, 1, 16, 1),
            ] {
                let status = world.call(io, command, &data).0.status();
                let is_same = plain(status) == expected || command.opcode == nvm::COMPARE;
                assert!(is_same, "{state:?} {command:?} {status:?}");
                assert!(refusal.is_none() || plain(status) == expected, "{command:?}");
                assert!(refusal.is_none() || status != status.do_not_retry(), "{command:?}");
            }
            before = expected;
            // The other path is as before.
            assert_eq!(world.status(other, read(0, 8), &[]), Status::SUCCESS);
        }
        assert!(world.reply_now(other_admin, unasked).is_none());
        // All at once, those that come later included.
        world.subsystem.set_ana_state(world.clock(), Path::All, AnaState::Inaccessible);
        assert_eq!(world.status(other, read(0, 8), &[]), Status::ANA_INACCESSIBLE);
        let (admin, late, _) = world.host_as("nqn.2026-11.test:late");
        assert_eq!(world.status(late, read(0, 8), &[]), Status::ANA_INACCESSIBLE);
        assert_eq!(ana_log(&mut world, admin).2, 3);
        world.subsystem.set_ana_state(world.clock(), Path::All, AnaState::Optimized);
        assert_eq!(world.status(late, read(0, 8), &[]), Status::SUCCESS);
    }
}

/// Whoever comes in at an address has its path, whatever controller that is.
#[test]
fn a_port_has_a_path_of_its_own() {
    let mut world = World::new(Timing::Modelled);
    let host = |world: &mut World, port: u16, name: &str| {
        let admin = world.attach_as(mynah_device::Transport { port, ..tcp() });
        let reply = world.connect_as(admin, name, SUBSYSTEM, connect(0, 32), 0xffff);
        let id = reply.result.get() as u16;
        world.call(admin, property_set(offset::CC, 0x0046_0001), &[]);
        (admin, world.io_queue_as(name, id, 1), id)
    };
    let (first, first_io, _) = host(&mut world, 0, "nqn.2026-11.test:first");
    let (second, second_io, _) = host(&mut world, 1, "nqn.2026-11.test:second");
    world.subsystem.set_ana_state(world.clock(), Path::Port(1), AnaState::Inaccessible);
    assert_eq!(world.status(first_io, read(0, 8), &[]), Status::SUCCESS);
    assert_eq!(world.status(second_io, read(0, 8), &[]), Status::ANA_INACCESSIBLE);
    assert_eq!((ana_log(&mut world, first).2, ana_log(&mut world, second).2), (1, 3));
    // Hosts that come later, among them one that gets the identifier of one that has gone.
    world.subsystem.detach(world.clock(), second);
    let (again, again_io, _) = host(&mut world, 0, "nqn.2026-11.test:second");
    assert_eq!(world.status(again_io, read(0, 8), &[]), Status::SUCCESS);
    assert_eq!(ana_log(&mut world, again).2, 1);
    let (_, late_io, late) = host(&mut world, 1, "nqn.2026-11.test:late");
    assert_eq!(world.status(late_io, read(0, 8), &[]), Status::ANA_INACCESSIBLE);
    // What was changed last counts.
    let path = Path::Controller(late);
    world.subsystem.set_ana_state(world.clock(), path, AnaState::Optimized);
    assert_eq!(world.status(late_io, read(0, 8), &[]), Status::SUCCESS);
    world.subsystem.set_ana_state(world.clock(), Path::Port(1), AnaState::Change);
    assert_eq!(world.status(late_io, read(0, 8), &[]), Status::ANA_TRANSITION);
    world.subsystem.set_ana_state(world.clock(), Path::All, AnaState::Optimized);
    assert_eq!(world.status(late_io, read(0, 8), &[]), Status::SUCCESS);
}
