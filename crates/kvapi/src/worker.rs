//! The thread of a device that calls back: what asynchronous calls are to do there, and how many may be
//! under way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};

/// Something to be done on the thread.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// Polls for tasks before the thread sleeps.
const SPINS: u32 = 500;

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    /// Calls in flight.
    under_way: usize,
    sleeps: bool,
    waiting: usize,
    ended: bool,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when there are tasks.
    work: Condvar,
    /// Signalled when another call may be admitted, or none is in flight.
    room: Condvar,
    /// Tasks that have been pushed, to be looked at without the lock.
    pushed: AtomicUsize,
    depth: usize,
    /// `room` is signalled when no more than this many calls are in flight.
    refill: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the file's description.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    id: Option<ThreadId>,
}

/// Hands tasks to the thread.
#[derive(Clone)]
pub(crate) struct Tasks(Arc<Shared>);

impl Tasks {
    /// Something to do for a call that [`Worker::admit`] has admitted: its end.
    pub(crate) fn push(&self, task: Task) {
        let mut state = self.0.state();
        state.tasks.push_back(task);
        self.0.pushed.fetch_add(1, Ordering::Relaxed);
        if state.sleeps {
            state.sleeps = false;
            drop(state);
            self.0.work.notify_one();
        }
    }
}

impl Worker {
    /// A thread for at most so many calls at a time; `None` if there cannot be one. Calls that are
    /// `brief` are admitted some at a time.
    pub(crate) fn start(depth: usize, brief: bool) -> Option<Worker> {
        let depth = depth.max(1);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            pushed: AtomicUsize::new(0),
            depth,
            refill: if brief { depth / 2 } else { depth - 1 },
        });
        let its = Arc::clone(&shared);
        let builder = thread::Builder::new().name("mynah-kv-done".into());
        let thread = builder.spawn(move || run(&its)).ok()?;
        let id = Some(thread.thread().id());
        Some(Worker { shared, thread: Some(thread), id })
    }

    /// Whether this is the thread itself.
    pub(crate) fn is_current(&self) -> bool {
        self.id == Some(thread::current().id())
    }

    pub(crate) fn tasks(&self) -> Tasks {
        Tasks(Arc::clone(&self.shared))
    }

    /// Waits until another call may be made. The thread itself, which would have to end one first, does
    /// not wait.
    pub(crate) fn admit(&self) {
        let mut state = self.shared.state();
        if state.under_way >= self.shared.depth && !self.is_current() {
            state.waiting += 1;
            while state.under_way >= self.shared.depth {
                state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
        }
        state.under_way += 1;
    }

    /// Waits until no call is under way.
    pub(crate) fn drain(&self) {
        let mut state = self.shared.state();
        state.waiting += 1;
        while state.under_way > 0 {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.work.notify_one();
        // The last use may be the thread's own.
        if let Some(thread) = self.thread.take().filter(|_| !self.is_current()) {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    let mut batch = VecDeque::new();
    loop {
        if !take(shared, &mut batch) {
            return;
        }
        while !batch.is_empty() {
            // As many are ended at a time as keep those who wait for room from sleeping each time.
            let some = batch.len().min(16);
            for task in batch.drain(..some) {
                task();
            }
            let mut state = shared.state();
            state.under_way -= some;
            let wakes = state.waiting > 0 && state.under_way <= shared.refill;
            drop(state);
            if wakes {
                shared.room.notify_all();
            }
        }
    }
}

/// Waits for tasks; false: there will be none any more.
fn take(shared: &Shared, batch: &mut VecDeque<Task>) -> bool {
    let mut has_looked = false;
    let mut state = shared.state();
    loop {
        if !state.tasks.is_empty() {
            std::mem::swap(&mut state.tasks, batch);
            return true;
        }
        if state.ended {
            return false;
        }
        if !has_looked {
            // More comes soon, mostly.
            has_looked = true;
            let seen = shared.pushed.load(Ordering::Relaxed);
            drop(state);
            for _ in 0..SPINS {
                if shared.pushed.load(Ordering::Relaxed) != seen {
                    break;
                }
                std::hint::spin_loop();
            }
            state = shared.state();
            continue;
        }
        state.sleeps = true;
        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        has_looked = false;
    }
}
