//! Memory that a host's commands hold beyond their queue entries: data kept for comparisons or
//! until a namespace is free, completions that have been put together. A host that asks for much and
//! takes nothing must not be able to use up the machine's, nor what is for other hosts.

use mynah_wire::nvme::Status;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The accounts of all queues.
#[derive(Debug)]
pub(crate) struct Accounts {
    all: Arc<AtomicU64>,
    /// Bytes held by the queues of each machine, by [`crate::Transport::source`].
    sources: HashMap<u128, Weak<AtomicU64>>,
    all_max: u64,
    source_max: u64,
}

impl Accounts {
    /// `all_max` bounds the bytes of all hosts together, `source_max` those of one machine.
    pub(crate) fn new(all_max: u64, source_max: u64) -> Accounts {
        Accounts { all: Arc::default(), sources: HashMap::new(), all_max, source_max }
    }

    /// An account for a queue whose host is on the machine `source`.
    pub(crate) fn of_queue(&mut self, source: u128) -> Account {
        let known = self.sources.get(&source).and_then(Weak::upgrade);
        let source = known.unwrap_or_else(|| {
            self.sources.retain(|_, held| held.strong_count() > 0);
            let held = Arc::default();
            self.sources.insert(source, Arc::downgrade(&held));
            held
        });
        Account {
            all: self.all.clone(),
            source,
            own: Arc::default(),
            all_max: self.all_max,
            source_max: self.source_max,
        }
    }
}

/// Bytes that are held: by everybody, by the queues of one machine, and by one queue.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    all: Arc<AtomicU64>,
    source: Arc<AtomicU64>,
    own: Arc<AtomicU64>,
    all_max: u64,
    source_max: u64,
}

impl Account {
    /// Whether a command that needs memory may begin. The host may try again otherwise.
    pub(crate) fn check(&self, own_max: u64) -> Result<(), Status> {
        // Statistics of one thread: no order is needed.
        let exceeds = |held: &AtomicU64, max| held.load(Ordering::Relaxed) > max;
        if exceeds(&self.own, own_max)
            || exceeds(&self.source, self.source_max)
            || exceeds(&self.all, self.all_max)
        {
            return Err(Status::COMMAND_INTERRUPTED);
        }
        Ok(())
    }

    /// Holds bytes until the result is dropped.
    pub(crate) fn hold(&self, bytes: usize) -> Held {
        let bytes = bytes as u64;
        for held in self.levels() {
            held.fetch_add(bytes, Ordering::Relaxed);
        }
        Held { account: self.clone(), bytes }
    }

    fn levels(&self) -> [&AtomicU64; 3] {
        [&self.all, &self.source, &self.own]
    }
}

/// Bytes counted to an account; given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    account: Account,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        for held in self.account.levels() {
            held.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greedy_machine_leaves_others_their_part() {
        let mut accounts = Accounts::new(100, 60);
        let (greedy, good) = (1, 2);
        let queues = [greedy, greedy, greedy, good].map(|source| accounts.of_queue(source));
        let mut held = vec![queues[0].hold(40), queues[1].hold(30)];
        // Neither queue has too much of its own, nor the machine's third queue anything.
        assert!(queues[2].check(50).is_err());
        assert!(queues[3].check(50).is_ok());
        held.push(queues[3].hold(40));
        assert!(queues[3].check(50).is_err(), "all that there is");
        held.clear();
        assert!(queues.iter().all(|queue| queue.check(50).is_ok()));
        drop(queues);
        accounts.of_queue(3);
        assert_eq!(accounts.sources.len(), 1, "nothing is remembered of who is gone");
    }
}
