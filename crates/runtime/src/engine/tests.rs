//! What the loop does while nobody wants anything.

use super::*;
use crate::clock::Rate;
use crate::quota::Quotas;
use crate::workers::Workers;
use mynah_device::{PatternStore, Ready, Store, StoreError, StoreJob, SubsystemConfig};
use mynah_lab::emulation::Emulation;
use mynah_wire::tcp::target::Settings;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A store whose bytes have to be consolidated so many times, and which ends the engine then.
struct Scattered {
    pattern: PatternStore,
    pieces: usize,
    consolidated: Arc<Mutex<Vec<Instant>>>,
    control: Arc<Control>,
}

impl Store for Scattered {
    fn fetch(&mut self, at: u64, bytes: u32) -> Ready {
        self.pattern.fetch(at, bytes)
    }

    fn read(&mut self, job: Option<StoreJob>, at: u64, into: &mut [u8]) {
        self.pattern.read(job, at, into);
    }

    fn forget(&mut self, job: StoreJob) {
        self.pattern.forget(job);
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Ready {
        self.pattern.write(at, from)
    }

    fn discard(&mut self, at: u64, bytes: u64) -> Ready {
        self.pattern.discard(at, bytes)
    }

    fn flush(&mut self) -> Ready {
        self.pattern.flush()
    }

    fn is_scattered(&self) -> bool {
        self.pieces > 0
    }

    fn consolidate(&mut self) {
        self.consolidated.lock().unwrap().push(Instant::now());
        self.pieces -= 1;
        if self.pieces == 0 {
            self.control.stop();
        }
    }

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        None
    }
}

#[test]
fn a_store_is_consolidated_when_nobody_has_wanted_anything_for_a_while() {
    let control = Arc::new(Control::new().unwrap());
    let consolidated = Arc::new(Mutex::new(Vec::new()));
    let store = Scattered {
        pattern: PatternStore,
        pieces: 3,
        consolidated: Arc::clone(&consolidated),
        control: Arc::clone(&control),
    };
    let engine = engine_with(Box::new(store), &control);
    let began = Instant::now();
    engine.run().unwrap();
    let consolidated = consolidated.lock().unwrap();
    assert_eq!(consolidated.len(), 3);
    assert!(consolidated.iter().all(|at| at.duration_since(began) >= Duration::from_millis(100)));
}

/// An engine without connections around a drive with this store.
fn engine_with(store: Box<dyn Store>, control: &Arc<Control>) -> Engine {
    let overrides = ["geometry.blocks_per_plane=48".to_owned()];
    let drive = Emulation::on("enterprise-tlc", &overrides).unwrap().prepare().unwrap().drive;
    let config = SubsystemConfig::new("nqn.2026-11.org.example:scattered".to_owned());
    let subsystem = Subsystem::new(config, drive, store).unwrap();
    let hub = Hub::new(subsystem, Settings::default(), Quotas::default(), Rate::REAL);
    let transport = Transport {
        in_capsule_bytes: 8192,
        max_transfer_bytes: 1 << 20,
        peer: String::new(),
        source: 0,
        local: None,
        port: 0,
        kind: 3, // TCP
        host_nqn: None,
    };
    let limits = EngineLimits::default();
    // A store that is never asked fails its test instead of hanging it.
    let late = Arc::clone(control);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(60));
        late.stop();
    });
    let clock = Clock::start(Rate::REAL);
    Engine::new(clock, hub, transport, limits, Vec::new(), Arc::clone(control)).unwrap()
}

/// A store that has worked though nobody waits for it, and wants to be asked.
struct Calling {
    pattern: PatternStore,
    workers: Workers<(), ()>,
    answered: Arc<AtomicBool>,
    control: Arc<Control>,
}

impl Store for Calling {
    fn fetch(&mut self, at: u64, bytes: u32) -> Ready {
        self.pattern.fetch(at, bytes)
    }

    fn read(&mut self, job: Option<StoreJob>, at: u64, into: &mut [u8]) {
        self.pattern.read(job, at, into);
    }

    fn forget(&mut self, job: StoreJob) {
        self.pattern.forget(job);
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Ready {
        self.pattern.write(at, from)
    }

    fn discard(&mut self, at: u64, bytes: u64) -> Ready {
        self.pattern.discard(at, bytes)
    }

    fn flush(&mut self) -> Ready {
        self.pattern.flush()
    }

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        while self.workers.finished().is_some() {
            self.answered.store(true, Ordering::Release);
            self.control.stop();
        }
        None
    }
}

#[test]
fn a_store_that_calls_is_asked_though_no_command_waits() {
    let control = Arc::new(Control::new().unwrap());
    let answered = Arc::new(AtomicBool::new(false));
    let workers = Workers::new("calling", 1, |()| ()).unwrap();
    let waker = copy_descriptor(workers.wake_descriptor()).unwrap();
    workers.submit(());
    let store = Calling {
        pattern: PatternStore,
        workers,
        answered: Arc::clone(&answered),
        control: Arc::clone(&control),
    };
    let mut engine = engine_with(Box::new(store), &control);
    engine.wake_on(waker).unwrap();
    engine.run().unwrap();
    assert!(answered.load(Ordering::Acquire));
}
