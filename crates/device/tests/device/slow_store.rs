//! A store that takes its time, as a file does.

use crate::support::*;
use mynah_device::{RamStore, Ready, Store, StoreError, StoreJob, Timing};
use mynah_stamp::Span;
use mynah_wire::nvme::opcode::nvm;
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

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

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        self.0.borrow_mut().finished.pop_front()
    }
}

fn slow_world(timing: Timing) -> (World, Shared) {
    let store = Shared::default();
    (World::with_store(timing, |_| {}, |_| {}, Box::new(store.clone())), store)
}

/// Finishes jobs until the reply is there.
fn reply(
    world: &mut World,
    store: &Shared,
    queue: mynah_device::Queue,
    id: u16,
) -> (Status, Vec<u8>) {
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
fn errors_of_the_store_are_errors_of_the_command() {
    let (mut world, store) = slow_world(Timing::Modelled);
    let (_, io, _) = world.host();
    for (entry, error, expected) in [
        (read(0, 8), StoreError::Read, Status::UNRECOVERED_READ_ERROR),
        (write(0, 8), StoreError::Write, Status::WRITE_FAULT),
        (entry(nvm::FLUSH, 1), StoreError::Write, Status::WRITE_FAULT),
        (blocks(nvm::VERIFY, 1, 0, 8), StoreError::Read, Status::UNRECOVERED_READ_ERROR),
    ] {
        let id = world.submit(io, entry, &[0; 4096]);
        assert!(store.finish(Err(error)));
        assert_eq!(reply(&mut world, &store, io, id).0, expected);
    }
    assert_eq!(store.0.borrow().fetches, 0);
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
