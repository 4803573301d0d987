//! A store that takes its time, as a file does.

use crate::support::*;
use mynah_device::{
    Condition, NamespaceConfig, NamespaceContent, Queue, RamStore, Ready, Store, StoreError,
    StoreJob, SubsystemConfig, Timing,
};
use mynah_model::config::Fault;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::feature::id;
use mynah_wire::nvme::identify::IdentifyNamespace;
use mynah_wire::nvme::log::{EnduranceGroup, Smart, page};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use zerocopy::{FromBytes, IntoBytes};

/// Jobs finish when the test says so. What a fetch brings near is what was there then.
#[derive(Default)]
struct Slow {
    bytes: RamStore,
    next: u64,
    near: HashMap<u64, Vec<u8>>,
    waiting: VecDeque<StoreJob>,
    finished: VecDeque<(StoreJob, Result<(), StoreError>)>,
    /// Jobs neither finished nor forgotten.
    fetches: usize,
    condition: Condition,
    /// How often it was asked to look after itself.
    tended: usize,
}

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Slow>>);

impl Shared {
    fn finish(&self, outcome: Result<(), StoreError>) -> bool {
        let mut slow = self.0.borrow_mut();
        let job = slow.waiting.pop_front();
        slow.finished.extend(job.map(|job| (job, outcome)));
        job.is_some()
    }

    fn job(&self) -> StoreJob {
        let mut slow = self.0.borrow_mut();
        slow.next += 1;
        let job = StoreJob(slow.next);
        slow.waiting.push_back(job);
        job
    }
}

impl Store for Shared {
    fn fetch(&mut self, at: u64, bytes: u32) -> Ready {
        let job = self.job();
        let mut slow = self.0.borrow_mut();
        let mut near = vec![0; bytes as usize];
        slow.bytes.read(None, at, &mut near);
        slow.near.insert(job.0, near);
        slow.fetches += 1;
        Ready::Later(job)
    }

    fn read(&mut self, job: Option<StoreJob>, _at: u64, into: &mut [u8]) {
        let mut slow = self.0.borrow_mut();
        let job = job.expect("every fetch has a job");
        into.copy_from_slice(&slow.near.remove(&job.0).expect("read or forgotten once"));
        slow.fetches -= 1;
    }

    fn forget(&mut self, job: StoreJob) {
        let mut slow = self.0.borrow_mut();
        slow.near.remove(&job.0).expect("read or forgotten once");
        slow.fetches -= 1;
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Ready {
        self.0.borrow_mut().bytes.write(at, from);
        Ready::Later(self.job())
    }

    fn discard(&mut self, at: u64, bytes: u64) -> Ready {
        let _ = self.0.borrow_mut().bytes.discard(at, bytes);
        Ready::Later(self.job())
    }

    fn flush(&mut self) -> Ready {
        Ready::Later(self.job())
    }

    fn is_volatile(&self) -> bool {
        true
    }

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        self.0.borrow_mut().finished.pop_front()
    }

    fn condition(&self) -> Condition {
        self.0.borrow().condition
    }

    fn tend(&mut self) -> bool {
        self.0.borrow_mut().tended += 1;
        true
    }
}

fn slow_world(timing: Timing) -> (World, Shared) {
    let store = Shared::default();
    (World::with_store(timing, |_| {}, |_| {}, Box::new(store.clone())), store)
}

/// A drive with two namespaces and free space; where its power will fail, what is replaced is
/// kept.
fn slow_world_with_space(timing: Timing, will_fail: bool) -> (World, Shared) {
    let store = Shared::default();
    let namespaces = vec![
        NamespaceConfig {
            bytes: Some(1 << 20),
            content: NamespaceContent::Blocks(512),
            handles: vec![]
        };
        2
    ];
    let at = Time::ZERO + Span::from_secs(3600);
    let cut = Fault::PowerCut { at, recovery: Span::from_ms(5) };
    let world = World::with_store(
        timing,
        |config| config.namespaces = namespaces,
        |drive| drive.faults.extend(will_fail.then_some(cut)),
        Box::new(store.clone()),
    );
    (world, store)
}

/// An admin command that changes what is kept, and only that: it is answered when its own job of
/// the store, the last one, is done, and no sooner. Its result.
fn kept(
    world: &mut World,
    store: &Shared,
    admin: Queue,
    entry: SubmissionEntry,
    data: &[u8],
) -> u64 {
    let id = world.submit(admin, entry, data);
    world.wait(Span::from_ms(10));
    assert!(world.reply_now(admin, id).is_none(), "answered before it was kept: {entry:?}");
    {
        let mut slow = store.0.borrow_mut();
        let job = slow.waiting.pop_back().expect("a flush");
        slow.finished.push_back((job, Ok(())));
    }
    world.wait(Span::from_ms(1));
    let reply = world.reply_now(admin, id).expect("it is kept").0.entry;
    assert_eq!(plain(reply.status()), Status::SUCCESS);
    reply.result.get()
}

#[test]
fn administration_is_answered_when_it_is_kept() {
    let (mut world, store) = slow_world_with_space(Timing::Modelled, false);
    let (admin, _, controller) = world.host();
    let mut wish = IdentifyNamespace::default();
    wish.size.set(2048);
    wish.capacity.set(2048);
    let create = entry(admin::NAMESPACE_MANAGEMENT, 0);
    assert_eq!(kept(&mut world, &store, admin, create, wish.as_bytes()), 3);
    let mut list = [0; 4096];
    list[0] = 1;
    list[2..4].copy_from_slice(&controller.to_le_bytes());
    let mut attach = entry(admin::NAMESPACE_ATTACHMENT, 3);
    kept(&mut world, &store, admin, attach, &list);
    let mut feature = set_feature(id::RESERVATION_PERSISTENCE, 1);
    feature.namespace_id.set(3);
    kept(&mut world, &store, admin, feature, &[]);
    let mut protect = set_feature(id::WRITE_PROTECTION, 1);
    protect.namespace_id.set(3);
    kept(&mut world, &store, admin, protect, &[]);
    let mut protect = set_feature(id::WRITE_PROTECTION, 0);
    protect.namespace_id.set(3);
    kept(&mut world, &store, admin, protect, &[]);
    attach.dword10.set(1);
    kept(&mut world, &store, admin, attach, &list);
    // These have their namespaces' bytes discarded, too; the last job is that which keeps them.
    let format = entry(admin::FORMAT_NVM, 1);
    let mut delete = entry(admin::NAMESPACE_MANAGEMENT, 3);
    delete.dword10.set(1);
    for (command, jobs) in [(format, 3), (delete, 3)] {
        let id = world.submit(admin, command, &[]);
        let mut finished = 0;
        for _ in 0..20 {
            world.wait(Span::from_ms(500));
            if let Some((reply, _)) = world.reply_now(admin, id) {
                assert_eq!(plain(reply.entry.status()), Status::SUCCESS);
                break;
            }
            finished += usize::from(store.finish(Ok(())));
        }
        assert_eq!(finished, jobs, "discards of blocks and of metadata, and a flush: {command:?}");
    }
    // What cannot be kept is not promised.
    let id = world.submit(admin, create, wish.as_bytes());
    assert!(store.finish(Err(StoreError::Write)));
    assert_eq!(reply(&mut world, &store, admin, id).0, Status::WRITE_FAULT);
}

/// Finishes every job, and those that come of it.
fn finish_all(world: &mut World, store: &Shared) {
    loop {
        world.wait(Span::from_ms(20));
        if !store.finish(Ok(())) {
            return;
        }
    }
}

/// Finishes jobs until the reply is there.
fn reply(world: &mut World, store: &Shared, queue: Queue, id: u16) -> (Status, Vec<u8>) {
    for _ in 0..100 {
        world.wait(Span::from_ms(2));
        if let Some((reply, data)) = world.reply_now(queue, id) {
            return (plain(reply.entry.status()), data);
        }
        store.finish(Ok(()));
    }
    panic!("no reply");
}

fn fused(mut entry: SubmissionEntry, half: u8) -> SubmissionEntry {
    entry.flags |= half;
    entry
}

#[test]
fn commands_wait_for_the_model_and_the_store() {
    for timing in [Timing::Modelled, Timing::Immediate] {
        let (mut world, store) = slow_world(timing);
        let (_, io, _) = world.host();
        let data = pattern(1, 4096);
        let id = world.submit(io, write(0, 8), &data);
        world.wait(Span::from_ms(10));
        assert!(world.reply_now(io, id).is_none(), "the store has not accepted it");
        assert_eq!(reply(&mut world, &store, io, id).0, Status::SUCCESS);
        let id = world.submit(io, read(0, 8), &[]);
        world.wait(Span::from_ms(10));
        assert!(world.reply_now(io, id).is_none());
        assert_eq!(reply(&mut world, &store, io, id), (Status::SUCCESS, data.clone()));
        for (entry, sent, expected) in [
            (entry(nvm::FLUSH, 1), &[][..], Status::SUCCESS),
            (blocks(nvm::COMPARE, 1, 0, 8), &data[..], Status::SUCCESS),
            (blocks(nvm::COMPARE, 1, 0, 8), &[0; 4096][..], Status::COMPARE_FAILURE),
            (blocks(nvm::WRITE_ZEROES, 1, 0, 8), &[][..], Status::SUCCESS),
        ] {
            let id = world.submit(io, entry, sent);
            assert_eq!(reply(&mut world, &store, io, id).0, expected);
        }
        assert_eq!(store.0.borrow().fetches, 0, "every fetch was read or forgotten");
    }
}

#[test]
fn hosts_are_told_of_what_the_store_may_lose() {
    let store = Shared::default();
    let protect = |drive: &mut mynah_model::config::Config| {
        drive.cache.iter_mut().for_each(|cache| cache.power_loss_protection = true);
    };
    let store_given = Box::new(store.clone());
    let mut world = World::with_store(Timing::Modelled, |_| {}, protect, store_given);
    let (admin, io, _) = world.host();
    // Identify Controller, byte 525: VWC, though the model's cache is protected.
    assert_eq!(world.identify(admin, 1, 0)[525], 0b111);
    let jobs_of_a_write = |world: &mut World| {
        let id = world.submit(io, write(0, 8), &[1; 4096]);
        let mut jobs = 0;
        while world.reply_now(io, id).is_none() {
            jobs += usize::from(store.finish(Ok(())));
            world.wait(Span::from_ms(2));
        }
        jobs
    };
    assert_eq!(jobs_of_a_write(&mut world), 1);
    // Without a write cache it is flushed as well.
    let off = set_feature(id::VOLATILE_WRITE_CACHE, 0);
    assert_eq!(world.status(admin, off, &[]), Status::SUCCESS);
    assert_eq!(jobs_of_a_write(&mut world), 2);
}

#[test]
fn a_shutdown_is_complete_when_the_store_has_flushed() {
    for timing in [Timing::Modelled, Timing::Immediate] {
        let (mut world, store) = slow_world(timing);
        let (admin, _, _) = world.host();
        let csts = |world: &mut World, admin| {
            world.call(admin, property_get(offset::CSTS, 4), &[]).0.result.get()
        };
        let shut_down = property_set(offset::CC, 0x0046_4001);
        assert_eq!(world.status(admin, shut_down, &[]), Status::SUCCESS);
        world.wait(Span::from_ms(10));
        assert_eq!(csts(&mut world, admin), 1 | 1 << 2);
        // A reset ends it; its flush does not end the next one.
        world.status(admin, property_set(offset::CC, 0x0046_0000), &[]);
        world.status(admin, property_set(offset::CC, 0x0046_0001), &[]);
        assert_eq!(csts(&mut world, admin), 1);
        world.status(admin, shut_down, &[]);
        world.wait(Span::from_ms(10));
        for expected in [1 | 1 << 2, 1 | 2 << 2] {
            assert!(store.finish(Ok(())));
            world.wait(Span::from_ms(1));
            assert_eq!(csts(&mut world, admin), expected);
        }
        // What cannot be flushed is never said to be safe.
        let (admin, _) = world.admin();
        world.status(admin, shut_down, &[]);
        assert!(store.finish(Err(StoreError::Write)));
        world.wait(Span::from_ms(10));
        assert_eq!(csts(&mut world, admin), 1 | 1 << 2);
    }
}

#[test]
fn errors_of_the_store_are_errors_of_the_command() {
    let (mut world, store) = slow_world(Timing::Modelled);
    let (_, io, _) = world.host();
    for (entry, error, expected) in [
        (read(0, 8), StoreError::Read, Status::UNRECOVERED_READ_ERROR),
        (write(0, 8), StoreError::Write, Status::WRITE_FAULT),
        (entry(nvm::FLUSH, 1), StoreError::Write, Status::WRITE_FAULT),
        (write(0, 8), StoreError::Full, Status::CAPACITY_EXCEEDED),
        (entry(nvm::FLUSH, 1), StoreError::Full, Status::CAPACITY_EXCEEDED),
        (blocks(nvm::VERIFY, 1, 0, 8), StoreError::Read, Status::UNRECOVERED_READ_ERROR),
    ] {
        let id = world.submit(io, entry, &[0; 4096]);
        assert!(store.finish(Err(error)));
        assert_eq!(reply(&mut world, &store, io, id).0, expected);
    }
    assert_eq!(store.0.borrow().fetches, 0);
}

#[test]
fn hosts_hear_of_a_store_that_takes_no_writes() {
    for timing in [Timing::Modelled, Timing::Immediate] {
        let (mut world, store) = slow_world(timing);
        world.subsystem.open_store().expect("it begins");
        let (admin, io, _) = world.host();
        let every_warning = set_feature(id::ASYNCHRONOUS_EVENTS, 0xff);
        assert_eq!(world.status(admin, every_warning, &[]), Status::SUCCESS);
        let warnings = |world: &mut World| {
            let smart = world.log(admin, page::SMART, 512);
            let smart = Smart::read_from_bytes(&smart).expect("its length");
            let mut group = log_page(page::ENDURANCE_GROUP, 512, 0);
            group.dword11.set(1 << 16);
            let group = world.call(admin, group, &[]).1;
            let group = EnduranceGroup::read_from_bytes(&group).expect("its length");
            assert_eq!(group.critical_warning, smart.critical_warning);
            (smart.critical_warning, smart.media_errors.get())
        };
        assert_eq!(warnings(&mut world), (0, 0));
        for _ in 0..2 {
            // No room: a write fails, and the media are read only.
            let event = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
            let id = world.submit(io, write(0, 8), &[1; 4096]);
            store.0.borrow_mut().condition = Condition::Full;
            assert!(store.finish(Err(StoreError::Full)));
            let (status, _) = reply(&mut world, &store, io, id);
            assert_eq!(status, Status::CAPACITY_EXCEEDED);
            let told = world.reply_now(admin, event).expect("an event").0;
            // The subsystem's reliability (0), of type SMART / health (1), in that log.
            assert_eq!(told.entry.result.get(), 1 | u64::from(page::SMART) << 16);
            assert_eq!(warnings(&mut world), (1 << 3, 0));
            // There is room again: nothing has to be asked of the drive for that.
            store.0.borrow_mut().condition = Condition::Good;
            world.subsystem.store_calls();
            world.wait(Span::from_ms(1));
            assert_eq!(warnings(&mut world), (0, 0));
            let id = world.submit(io, write(0, 8), &[1; 4096]);
            assert_eq!(reply(&mut world, &store, io, id).0, Status::SUCCESS);
        }
        // Writes that had succeeded are lost, though nobody asks for anything.
        let event = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
        let before = store.0.borrow().tended;
        world.wait(Span::from_secs(3));
        assert!(store.0.borrow().tended >= before + 2, "it looks after itself once a second");
        assert!(world.reply_now(admin, event).is_none());
        store.0.borrow_mut().condition = Condition::Failed;
        world.subsystem.store_calls();
        world.wait(Span::from_ms(1));
        assert!(world.reply_now(admin, event).is_some(), "an event");
        assert_eq!(warnings(&mut world), (1 << 2 | 1 << 3, 1));
    }
}

#[test]
fn a_connection_that_goes_leaves_nothing_behind() {
    let (mut world, store) = slow_world(Timing::Modelled);
    let (_, io, id) = world.host();
    world.submit(io, read(0, 8), &[]);
    world.submit(io, blocks(nvm::COMPARE, 1, 0, 8), &[0; 4096]);
    world.submit(io, write(0, 8), &[1; 4096]);
    world.wait(Span::from_us(1));
    world.subsystem.detach(world.clock(), io);
    while store.finish(Ok(())) {}
    world.wait(Span::from_ms(1));
    assert_eq!(store.0.borrow().fetches, 0);
    // And one whose replies have not been polled.
    let io = world.io_queue_as(HOST, id, 1);
    world.submit(io, read(0, 8), &[]);
    while store.finish(Ok(())) {}
    world.now += Span::from_ms(5);
    let clock = world.clock();
    world.subsystem.advance(clock);
    world.subsystem.detach(world.clock(), io);
    assert_eq!(store.0.borrow().fetches, 0);
}

#[test]
fn compare_and_write_lets_nothing_in_between() {
    let (mut world, store) = slow_world(Timing::Immediate);
    let (_, io, id) = world.host();
    let other = world.io_queue_as(HOST, id, 2);
    let (zeros, mine, theirs) = ([0; 512], [1; 512], [2; 512]);
    let first = world.submit(io, fused(blocks(nvm::COMPARE, 1, 0, 1), 1), &zeros);
    let second = world.submit(io, fused(write(0, 1), 2), &mine);
    // Another host's write, and its compare and write, while the first waits for the store.
    let third = world.submit(other, write(0, 1), &theirs);
    let fourth = world.submit(other, fused(blocks(nvm::COMPARE, 1, 0, 1), 1), &theirs);
    let fifth = world.submit(other, fused(write(0, 1), 2), &zeros);
    // They are a pair still when they have waited: what does not compare is not written.
    let sixth = world.submit(other, fused(blocks(nvm::COMPARE, 1, 0, 1), 1), &theirs);
    let seventh = world.submit(other, fused(write(0, 1), 2), &mine);
    assert_eq!(reply(&mut world, &store, io, first).0, Status::SUCCESS);
    assert_eq!(reply(&mut world, &store, io, second).0, Status::SUCCESS);
    assert_eq!(reply(&mut world, &store, other, third).0, Status::SUCCESS);
    assert_eq!(reply(&mut world, &store, other, fourth).0, Status::SUCCESS);
    assert_eq!(reply(&mut world, &store, other, fifth).0, Status::SUCCESS);
    assert_eq!(reply(&mut world, &store, other, sixth).0, Status::COMPARE_FAILURE);
    assert_eq!(reply(&mut world, &store, other, seventh).0, Status::ABORTED_FAILED_FUSED);
    let id = world.submit(io, read(0, 1), &[]);
    assert_eq!(reply(&mut world, &store, io, id), (Status::SUCCESS, zeros.to_vec()));
}

/// Writes the first blocks of a namespace, and flushes: what comes next replaces it.
fn put(world: &mut World, store: &Shared, io: Queue, data: &[u8]) {
    let id = world.submit(io, write(0, (data.len() / 512) as u32), data);
    assert_eq!(reply(world, store, io, id).0, Status::SUCCESS);
    let id = world.submit(io, entry(nvm::FLUSH, 1), &[]);
    assert_eq!(reply(world, store, io, id).0, Status::SUCCESS);
}

/// Every kind of command under way on the first 64 blocks of a namespace, which hold `data`;
/// their identifiers.
fn all_under_way(world: &mut World, io: Queue, data: &[u8]) -> Vec<u16> {
    let (mut of, range) = copy(0, 32, 8);
    of.dword12.set(1 << 30);
    let (trim, run) = deallocate(48, 8);
    let mut ids = vec![
        world.submit(io, read(0, 8), &[]),
        world.submit(io, blocks(nvm::VERIFY, 1, 0, 8), &[]),
        world.submit(io, blocks(nvm::COMPARE, 1, 0, 8), &data[..4096]),
        world.submit(io, of, range.as_bytes()),
        world.submit(io, write(8, 8), &data[..4096]),
        world.submit(io, write_zeroes(40, 8, false), &[]),
        world.submit(io, trim, &run),
    ];
    // And those that wait for a Compare and Write.
    for at in [0, 16] {
        ids.push(world.submit(io, fused(blocks(nvm::COMPARE, 1, at, 1), 1), &data[..512]));
        ids.push(world.submit(io, fused(write(at, 1), 2), &data[512..1024]));
    }
    ids.push(world.submit(io, write(24, 8), &data[..4096]));
    ids
}

/// The replies to these commands, none of which may have succeeded: each has this status (those
/// that waited for another: `late`), or is the half of a fused operation whose other half has it.
fn assert_overtaken(world: &mut World, io: Queue, ids: &[u16], status: Status, late: Status) {
    let mut halves = 0;
    for (at, &id) in ids.iter().enumerate() {
        let (reply, data) = world.reply_now(io, id).expect("it has ended");
        assert!(data.is_empty());
        match plain(reply.entry.status()) {
            Status::ABORTED_FAILED_FUSED => halves += 1,
            other => assert_eq!(other, if at < 9 { status } else { late }, "command {at}"),
        }
    }
    assert_eq!(halves, 2);
}

#[test]
fn what_is_under_way_does_nothing_to_a_namespace_that_is_formatted() {
    for (timing, will_fail) in
        [(Timing::Immediate, false), (Timing::Modelled, false), (Timing::Modelled, true)]
    {
        let (mut world, store) = slow_world_with_space(timing, will_fail);
        let (admin, io, _) = world.host();
        let data = pattern(1, 64 * 512);
        put(&mut world, &store, io, &data);
        let ids = all_under_way(&mut world, io, &data);
        let other = world.submit(io, blocks(nvm::READ, 2, 0, 8), &[]);
        // 512 bytes and 8 of metadata.
        let mut format = entry(admin::FORMAT_NVM, 1);
        format.dword10.set(2 | 1 << 4);
        let format = world.submit(admin, format, &[]);
        world.wait(Span::from_ms(200));
        assert!(world.reply_now(admin, format).is_none(), "it waits for them");
        finish_all(&mut world, &store);
        let status = Status::FORMAT_IN_PROGRESS;
        assert_overtaken(&mut world, io, &ids, status, status);
        assert_eq!(reply(&mut world, &store, io, other).0, Status::SUCCESS);
        assert_eq!(reply(&mut world, &store, admin, format).0, Status::SUCCESS);
        let id = world.submit(io, read(0, 64), &[]);
        let back = reply(&mut world, &store, io, id);
        assert_eq!(back, (Status::SUCCESS, [[0; 512].as_slice(), &[0xff; 8]].concat().repeat(64)));
        assert_eq!(store.0.borrow().fetches, 0);
    }
}

#[test]
fn what_is_under_way_does_nothing_to_the_namespace_that_comes_after_a_deleted_one() {
    for (timing, will_fail) in
        [(Timing::Immediate, false), (Timing::Modelled, false), (Timing::Modelled, true)]
    {
        let (mut world, store) = slow_world_with_space(timing, will_fail);
        let (admin, io, controller) = world.host();
        let data = pattern(1, 64 * 512);
        put(&mut world, &store, io, &data);
        let ids = all_under_way(&mut world, io, &data);
        let mut delete = entry(admin::NAMESPACE_MANAGEMENT, 1);
        delete.dword10.set(1);
        let delete = world.submit(admin, delete, &[]);
        let before = world.subsystem.allocated_bytes();
        // Another one under the same identifier.
        let mut wish = IdentifyNamespace::default();
        wish.size.set(2048);
        wish.capacity.set(2048);
        let create = entry(admin::NAMESPACE_MANAGEMENT, 0);
        assert_eq!(kept(&mut world, &store, admin, create, wish.as_bytes()), 1);
        let mut list = [0; 4096];
        list[0] = 1;
        list[2..4].copy_from_slice(&controller.to_le_bytes());
        let attach = entry(admin::NAMESPACE_ATTACHMENT, 1);
        kept(&mut world, &store, admin, attach, &list);
        finish_all(&mut world, &store);
        let status = Status::INVALID_NAMESPACE;
        assert_overtaken(&mut world, io, &ids, status, status);
        assert_eq!(reply(&mut world, &store, admin, delete).0, Status::SUCCESS);
        assert_eq!(world.subsystem.allocated_bytes(), before, "one went, and one came");
        let id = world.submit(io, read(0, 64), &[]);
        assert_eq!(reply(&mut world, &store, io, id), (Status::SUCCESS, vec![0; 64 * 512]));
        assert_eq!(store.0.borrow().fetches, 0);
    }
}

#[test]
fn what_is_under_way_brings_nothing_back_after_a_sanitize() {
    let (mut world, store) = slow_world_with_space(Timing::Modelled, true);
    let (admin, io, _) = world.host();
    let data = pattern(1, 64 * 512);
    put(&mut world, &store, io, &data);
    let ids = all_under_way(&mut world, io, &data);
    let mut sanitize = entry(admin::SANITIZE, 0);
    sanitize.dword10.set(4);
    // It is answered once the store has noted it.
    let id = world.submit(admin, sanitize, &[]);
    assert_eq!(reply(&mut world, &store, admin, id).0, Status::SUCCESS);
    finish_all(&mut world, &store);
    let status = Status::SANITIZE_IN_PROGRESS;
    assert_overtaken(&mut world, io, &ids, status, status);
    let id = world.submit(io, read(0, 64), &[]);
    assert_eq!(reply(&mut world, &store, io, id), (Status::SUCCESS, vec![0; 64 * 512]));
}

#[test]
fn preempt_and_abort_lets_nothing_of_the_preempted_host_come_after_it() {
    for (timing, will_fail) in
        [(Timing::Immediate, false), (Timing::Modelled, false), (Timing::Modelled, true)]
    {
        let (mut world, store) = slow_world_with_space(timing, will_fail);
        let (_, io, _) = world.host();
        let (_, other, _) = world.host_as("nqn.2026-11.test:other");
        let data = pattern(1, 64 * 512);
        put(&mut world, &store, io, &data);
        let register = reserve(nvm::RESERVATION_REGISTER, 0);
        assert_eq!(world.status(io, register, &keys(0, 7)), Status::SUCCESS);
        assert_eq!(world.status(other, register, &keys(0, 8)), Status::SUCCESS);
        // Write exclusive.
        let acquire = reserve(nvm::RESERVATION_ACQUIRE, 1 << 8);
        assert_eq!(world.status(io, acquire, &keys(7, 0)), Status::SUCCESS);
        let ids = all_under_way(&mut world, io, &data);
        let elsewhere = world.submit(io, blocks(nvm::WRITE, 2, 0, 8), &data[..4096]);
        let own = world.submit(other, read(0, 8), &[]);
        let preempt = reserve(nvm::RESERVATION_ACQUIRE, 1 << 8 | 2);
        let preempt = world.submit(other, preempt, &keys(8, 7));
        world.wait(Span::from_ms(200));
        assert!(world.reply_now(other, preempt).is_none(), "it waits for them");
        assert_eq!(reply(&mut world, &store, other, preempt).0, Status::SUCCESS);
        let (aborted, late) = (Status::ABORTED_PREEMPTED, Status::RESERVATION_CONFLICT);
        assert_overtaken(&mut world, io, &ids, aborted, late);
        finish_all(&mut world, &store);
        assert_eq!(reply(&mut world, &store, io, elsewhere).0, Status::SUCCESS);
        assert_eq!(reply(&mut world, &store, other, own).0, Status::SUCCESS);
        // What is written when it comes has been written, the rest has not.
        let mut expected = Array::new(512, 64);
        expected.write(0, &data);
        if !will_fail {
            expected.write(8, &data[..4096]);
            expected.zero(40..56);
        }
        let id = world.submit(other, read(0, 64), &[]);
        let back = reply(&mut world, &store, other, id);
        assert!(back == (Status::SUCCESS, expected.read(0, 64)), "{timing:?} {will_fail}");
        assert_eq!(store.0.borrow().fetches, 0);
    }
}

#[test]
fn a_namespace_that_is_protected_does_not_change_any_more() {
    for will_fail in [false, true] {
        let (mut world, store) = slow_world_with_space(Timing::Modelled, will_fail);
        let (admin, io, _) = world.host();
        let data = pattern(1, 64 * 512);
        put(&mut world, &store, io, &data);
        let ids = all_under_way(&mut world, io, &data);
        let mut protect = set_feature(mynah_wire::nvme::feature::id::WRITE_PROTECTION, 1);
        protect.namespace_id.set(1);
        let protect = world.submit(admin, protect, &[]);
        assert_eq!(reply(&mut world, &store, admin, protect).0, Status::SUCCESS);
        let id = world.submit(io, read(0, 64), &[]);
        let then = reply(&mut world, &store, io, id);
        finish_all(&mut world, &store);
        for id in ids {
            assert!(world.reply_now(io, id).is_some(), "it has ended");
        }
        // What was written when it came has been written, the rest has not.
        let mut expected = Array::new(512, 64);
        expected.write(0, &data);
        if !will_fail {
            expected.write(8, &data[..4096]);
            expected.zero(40..56);
        }
        assert!(then == (Status::SUCCESS, expected.read(0, 64)), "{will_fail}");
        let id = world.submit(io, read(0, 64), &[]);
        assert!(reply(&mut world, &store, io, id) == then);
    }
}

#[test]
fn a_copy_does_not_come_between_compare_and_write() {
    let (mut world, store) = slow_world(Timing::Immediate);
    let (_, io, _) = world.host();
    let (zeros, mine) = ([0; 512], [1; 512]);
    let id = world.submit(io, write(8, 1), &[2; 512]);
    assert_eq!(reply(&mut world, &store, io, id).0, Status::SUCCESS);
    let (of, range) = copy(8, 0, 1);
    let of = world.submit(io, of, range.as_bytes());
    let first = world.submit(io, fused(blocks(nvm::COMPARE, 1, 0, 1), 1), &zeros);
    let second = world.submit(io, fused(write(0, 1), 2), &mine);
    assert_eq!(reply(&mut world, &store, io, of).0, Status::COMMAND_INTERRUPTED);
    assert_eq!(reply(&mut world, &store, io, first).0, Status::SUCCESS);
    assert_eq!(reply(&mut world, &store, io, second).0, Status::SUCCESS);
    let id = world.submit(io, read(0, 1), &[]);
    assert_eq!(reply(&mut world, &store, io, id), (Status::SUCCESS, mine.to_vec()));
}

/// A greedy host has put off far more than it may hold: the rest it is told to try again. A good
/// one beside it waits for its turn, and is served.
#[test]
fn what_waits_for_compare_and_write_is_bounded() {
    let store = Shared::default();
    let bound = |config: &mut SubsystemConfig| {
        (config.limits.held_bytes_max, config.limits.source_held_bytes_max) = (2 << 20, 1 << 20);
    };
    let mut world = World::with_store(Timing::Immediate, bound, |_| {}, Box::new(store.clone()));
    world.source = 1;
    let (_, greedy, id) = world.host();
    let second = world.io_queue_as(HOST, id, 2);
    world.source = 2;
    let (_, good, _) = world.host_as("nqn.2026-11.test:good");
    let halves = [
        world.submit(greedy, fused(blocks(nvm::COMPARE, 1, 0, 1), 1), &[0; 512]),
        world.submit(greedy, fused(write(0, 1), 2), &[1; 512]),
    ];
    let long = vec![3; 128 << 10];
    let ids: Vec<_> = [greedy, second]
        .into_iter()
        .flat_map(|queue| [queue; 20])
        .map(|queue| (queue, world.submit(queue, write(256, 256), &long)))
        .collect();
    let own = world.submit(good, write(1024, 8), &[4; 4096]);
    let refused: Vec<_> = ids
        .iter()
        .filter_map(|&(queue, id)| world.reply_now(queue, id))
        .map(|(reply, _)| reply.entry.status())
        .collect();
    // One more than fits may begin; the comparison holds some, too.
    assert_eq!(refused.len(), 40 - 8, "of 40 of 128 KiB, where 1 MiB may be held");
    assert!(refused.iter().all(|&it| plain(it) == Status::COMMAND_INTERRUPTED));
    assert!(refused.iter().all(|&it| it != it.do_not_retry()), "the host may try again");
    assert!(world.reply_now(good, own).is_none(), "it waits like the others");
    // A pair that has to wait is refused with both halves.
    let pair = [
        world.submit(greedy, fused(blocks(nvm::COMPARE, 1, 0, 1), 1), &[0; 512]),
        world.submit(greedy, fused(write(0, 1), 2), &[1; 512]),
    ];
    let pair = pair.map(|id| world.reply_now(greedy, id).expect("an answer").0.entry.status());
    let expected = [Status::COMMAND_INTERRUPTED, Status::ABORTED_FAILED_FUSED];
    assert_eq!(pair.map(plain), expected);
    for id in halves {
        assert_eq!(reply(&mut world, &store, greedy, id).0, Status::SUCCESS);
    }
    assert_eq!(reply(&mut world, &store, good, own).0, Status::SUCCESS);
    finish_all(&mut world, &store);
    let again = world.submit(greedy, write(256, 256), &long);
    assert_eq!(reply(&mut world, &store, greedy, again).0, Status::SUCCESS);
}

#[test]
fn both_halves_of_compare_and_write_end_where_what_they_replace_is_kept() {
    let (mut world, store) = slow_world_with_space(Timing::Modelled, true);
    let (_, io, _) = world.host();
    let first = world.submit(io, fused(blocks(nvm::COMPARE, 1, 0, 1), 1), &[0; 512]);
    let second = world.submit(io, fused(write(0, 1), 2), &[1; 512]);
    assert_eq!(reply(&mut world, &store, io, first).0, Status::SUCCESS);
    assert_eq!(reply(&mut world, &store, io, second).0, Status::SUCCESS);
}

#[test]
fn a_power_cut_takes_nothing_that_was_written_through_to_a_slow_store() {
    let (mut world, store) = slow_world_with_space(Timing::Modelled, true);
    let (_, io, _) = world.host();
    let mut through = write(0, 8);
    through.dword12.set(7 | 1 << 30);
    for (entry, data) in [
        (write(0, 8), [1; 4096]),
        (entry(nvm::FLUSH, 1), [0; 4096]),
        (through, [2; 4096]),
        (write(0, 8), [3; 4096]),
    ] {
        let id = world.submit(io, entry, &data);
        assert_eq!(reply(&mut world, &store, io, id).0, Status::SUCCESS);
    }
    world.wait(Span::from_secs(3601));
    let (_, io, _) = world.host();
    let id = world.submit(io, read(0, 8), &[]);
    assert!(reply(&mut world, &store, io, id).1 == [2; 4096], "the last write is lost");
}
