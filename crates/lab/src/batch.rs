//! Many runs on several processors: sweeps and repetitions.
//!
//! Runs share nothing, so how many go on at a time never changes a result. The next run is
//! taken by whoever is free first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Calls `run` for the next item's number until there are none left or `run` returns `None`, and
/// hands each result to `done`.
fn work<T>(
    next: &AtomicUsize,
    items: usize,
    run: &impl Fn(usize) -> Option<T>,
    mut done: impl FnMut(usize, T),
) {
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= items {
            return;
        }
        match run(at) {
            Some(result) => done(at, result),
            None => next.store(items, Ordering::Relaxed),
        }
    }
}

/// Calls `run` for every item, on `threads` threads, and returns the results in the order of the
/// items. After `run` has returned `None` no further item is begun; items that were not begun are
/// `None`, too.
pub fn run<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    run: impl Fn(usize, &I) -> Option<T> + Sync,
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(items.iter().map(|_| None).collect::<Vec<Option<T>>>());
    let one = |at: usize| run(at, items.get(at)?);
    let on_thread = || {
        work(&next, items.len(), &one, |at, result| {
            if let Ok(mut done) = done.lock() {
                done[at] = Some(result);
            }
        });
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(items.len()).max(1) {
            scope.spawn(on_thread);
        }
        on_thread();
    });
    done.into_inner().unwrap_or_default()
}

/// Interval at which [`run_until`] asks whether to leave.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The same for so many items by their numbers, for a program that is about to end: when `leaves` says
/// so, what has been done by then is returned, and threads that are still at work are left to
/// themselves.
pub fn run_until<T: Send + 'static>(
    items: usize,
    threads: usize,
    run: impl Fn(usize) -> Option<T> + Send + Sync + 'static,
    mut leaves: impl FnMut() -> bool,
) -> Vec<Option<T>> {
    let shared = Arc::new((AtomicUsize::new(0), run));
    let (sender, results) = mpsc::channel();
    let on_thread = || {
        let (shared, sender) = (Arc::clone(&shared), sender.clone());
        std::thread::spawn(move || {
            let (next, run) = &*shared;
            // Who has left does not want it.
            work(next, items, run, |at, result| drop(sender.send((at, result))));
        })
    };
    let threads: Vec<_> = (0..threads.min(items).max(1)).map(|_| on_thread()).collect();
    drop(sender);
    let mut done: Vec<Option<T>> = (0..items).map(|_| None).collect();
    loop {
        match results.recv_timeout(LOOK_EVERY) {
            Ok((at, result)) => done[at] = Some(result),
            Err(mpsc::RecvTimeoutError::Timeout) if !leaves() => {}
            Err(mpsc::RecvTimeoutError::Timeout) => return done,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    for thread in threads {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
    done
}

/// Does `work` for every item, on as many threads as there are processors; what it returned, in the
/// order of the items.
pub fn on_all<I: Sync, T: Send>(items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    run(items, threads, |_, item| Some(work(item))).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_and_in_its_place() {
        let items: Vec<u64> = (0..100).collect();
        for threads in [1, 2, 7, 200] {
            let done = run(&items, threads, |at, item| Some((at as u64, item * item)));
            let right = |(at, done): (usize, &Option<(u64, u64)>)| {
                *done == Some((at as u64, (at * at) as u64))
            };
            assert!(done.iter().enumerate().all(right));
        }
        assert!(run(&[] as &[u8], 3, |_, _| Some(())).is_empty());
    }

    #[test]
    fn who_leaves_has_what_was_done() {
        let (go, goes) = mpsc::channel::<()>();
        let goes = Mutex::new(goes);
        // The last waits for somebody who comes when all is over.
        let run = move |at| {
            if at == 3 {
                let _ = goes.lock().unwrap().recv();
            }
            Some(at)
        };
        let mut looks = 0;
        let leaves = || {
            looks += 1;
            looks > 3
        };
        assert_eq!(run_until(4, 2, run, leaves), [Some(0), Some(1), Some(2), None]);
        drop(go);
        let all = run_until(50, 4, |at| (at < 20).then_some(at), || false);
        assert!(all.iter().flatten().copied().eq(0..20), "{all:?}");
    }

    #[test]
    fn nothing_is_begun_after_an_interruption() {
        let items: Vec<usize> = (0..50).collect();
        let begun = AtomicUsize::new(0);
        let done = run(&items, 1, |at, _| {
            begun.fetch_add(1, Ordering::Relaxed);
            (at < 3).then_some(at)
        });
        assert_eq!(begun.into_inner(), 4);
        assert_eq!(done.iter().flatten().count(), 3);
    }
}
