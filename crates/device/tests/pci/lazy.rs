//! A store that takes its time for everything, as one on a disk does.

use mynah_device::{RamStore, Ready, Store, StoreError, StoreJob};
use std::collections::{HashMap, VecDeque};

/// Looks at a job before it is done.
const LOOKS: u32 = 3;

#[derive(Default)]
pub(crate) struct LazyStore {
    bytes: RamStore,
    waiting: VecDeque<(StoreJob, u32)>,
    /// What was fetched, as it was then.
    fetched: HashMap<StoreJob, Vec<u8>>,
    next: u64,
}

impl LazyStore {
    fn later(&mut self) -> Ready {
        let job = StoreJob(self.next);
        self.next += 1;
        self.waiting.push_back((job, LOOKS));
        Ready::Later(job)
    }
}

impl Drop for LazyStore {
    fn drop(&mut self) {
        let waits = |job: &StoreJob| self.waiting.iter().any(|(it, _)| it == job);
        let lost = self.fetched.keys().filter(|&job| !waits(job)).count();
        assert!(lost == 0 || std::thread::panicking(), "{lost} fetches were never released");
    }
}

impl Store for LazyStore {
    fn fetch(&mut self, at: u64, bytes: u32) -> Ready {
        let mut copy = vec![0; bytes as usize];
        self.bytes.read(None, at, &mut copy);
        let ready = self.later();
        if let Ready::Later(job) = ready {
            self.fetched.insert(job, copy);
        }
        ready
    }

    fn read(&mut self, job: Option<StoreJob>, _at: u64, into: &mut [u8]) {
        let job = job.expect("everything takes a job");
        assert!(self.waiting.iter().all(|(it, _)| *it != job), "read before it is done");
        into.copy_from_slice(&self.fetched.remove(&job).expect("read once"));
    }

    fn forget(&mut self, job: StoreJob) {
        self.fetched.remove(&job).expect("released once");
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Ready {
        self.bytes.write(at, from);
        self.later()
    }

    fn discard(&mut self, at: u64, bytes: u64) -> Ready {
        self.bytes.discard(at, bytes);
        self.later()
    }

    fn flush(&mut self) -> Ready {
        self.later()
    }

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        let (_, looks) = self.waiting.front_mut()?;
        *looks -= 1;
        if *looks > 0 {
            return None;
        }
        self.waiting.pop_front().map(|(job, _)| (job, Ok(())))
    }
}
