//! Threads for work that would stall the engine: disks, Diffie-Hellman.

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A descriptor that becomes readable when work has finished, for the engine to sleep on.
#[derive(Debug)]
struct Bell {
    descriptor: OwnedFd,
    /// Whether it was rung since the engine last looked: one system call an awakening.
    rung: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // The counter cannot overflow: it is only added to once between two reads.
            let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
        }
    }

    /// Read before it is said to be read: between the two nobody rings, so that a ring is never taken
    /// with the one before it and still thought to be outstanding.
    fn silence(&self) {
        // Nothing to read: the ringer is between its two steps, and the engine will wake once more.
        if self.rung.load(Ordering::Acquire)
            && rustix::io::read(&self.descriptor, &mut [0; 8]).is_ok()
        {
            // What was sent by those who did not ring since it was rung is seen from here on.
            self.rung.swap(false, Ordering::AcqRel);
        }
    }
}

/// A fixed number of threads that turn tasks into results, in any order.
#[derive(Debug)]
pub struct Workers<T, R> {
    tasks: Option<Sender<T>>,
    results: Receiver<R>,
    bell: Arc<Bell>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Send + 'static, R: Send + 'static> Workers<T, R> {
    /// Starts `threads` threads with this name; each does its tasks with a clone of `work`.
    pub fn new<F>(name: &str, threads: usize, work: F) -> io::Result<Workers<T, R>>
    where
        F: FnMut(T) -> R + Clone + Send + 'static,
    {
        let (tasks, incoming) = unbounded::<T>();
        let (outgoing, results) = unbounded::<R>();
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let bell = Arc::new(Bell { descriptor, rung: AtomicBool::new(false) });
        let threads = (0..threads)
            .map(|_| {
                let (incoming, outgoing) = (incoming.clone(), outgoing.clone());
                let (bell, mut work) = (bell.clone(), work.clone());
                std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                    for task in incoming {
                        if outgoing.send(work(task)).is_err() {
                            break;
                        }
                        bell.ring();
                    }
                })
            })
            .collect::<io::Result<_>>()?;
        Ok(Workers { tasks: Some(tasks), results, bell, threads })
    }

    /// Hands a task over. Never blocks.
    pub fn submit(&self, task: T) {
        if let Some(tasks) = &self.tasks {
            // Fails only if all threads have panicked.
            let _ = tasks.send(task);
        }
    }

    /// The next result, if there is one.
    pub fn finished(&self) -> Option<R> {
        self.bell.silence();
        self.results.try_recv().ok()
    }

    /// Waits for the next result; `None` if no thread is left to give one.
    pub fn wait(&self) -> Option<R> {
        self.results.recv().ok()
    }

    /// Becomes readable when there are results; [`Workers::finished`] until `None` clears it.
    pub fn wake_descriptor(&self) -> BorrowedFd<'_> {
        self.bell.descriptor.as_fd()
    }
}

/// Whoever turns tasks into results: threads, or a test.
pub trait Executor<T, R> {
    /// Takes a task. Never blocks.
    fn submit(&mut self, task: T);
    /// The next result, if there is one.
    fn finished(&mut self) -> Option<R>;
    /// Waits for the next result.
    fn wait(&mut self) -> Option<R>;
}

impl<T: Send + 'static, R: Send + 'static> Executor<T, R> for Workers<T, R> {
    fn submit(&mut self, task: T) {
        Workers::submit(self, task);
    }

    fn finished(&mut self) -> Option<R> {
        Workers::finished(self)
    }

    fn wait(&mut self) -> Option<R> {
        Workers::wait(self)
    }
}

impl<T, R> Drop for Workers<T, R> {
    /// Waits until all tasks that were handed over are done.
    fn drop(&mut self) {
        self.tasks = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn results_come_back_and_ring() {
        let workers = Workers::new("test", 2, |n: u64| n * n).unwrap();
        (0..100).for_each(|n| workers.submit(n));
        let mut sum = 0;
        let mut count = 0;
        while count < 100 {
            let mut descriptors = [PollFd::new(&workers.bell.descriptor, PollFlags::IN)];
            let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
            assert_eq!(poll(&mut descriptors, Some(&limit)), Ok(1), "{count} of 100 came");
            while let Some(result) = workers.finished() {
                sum += result;
                count += 1;
            }
        }
        assert_eq!(sum, (0..100).map(|n| n * n).sum::<u64>());
        assert!(workers.finished().is_none());
    }

    /// Results that come while others are taken.
    #[test]
    fn no_ring_is_lost() {
        let workers = Workers::new("test", 2, |n: u64| n).unwrap();
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        for round in 0..50_000 {
            (0..3).for_each(|n| workers.submit(n));
            let mut count = 0;
            while count < 3 {
                let mut descriptors = [PollFd::new(&workers.bell.descriptor, PollFlags::IN)];
                assert_eq!(poll(&mut descriptors, Some(&limit)), Ok(1), "round {round}: {count}");
                count += std::iter::from_fn(|| workers.finished()).count();
            }
        }
    }
}
