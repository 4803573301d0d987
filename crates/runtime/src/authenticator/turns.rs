//! Work that waits, a queue for each peer: peers take turns, so that one with much work delays
//! another by no more than the job at hand.

use crate::quota::Peer;
use std::collections::VecDeque;

/// Waiting work, of which peers have their turns.
#[derive(Debug)]
pub(super) struct Turns<T> {
    /// Peers with work, in the order of their turns.
    peers: VecDeque<(Peer, VecDeque<T>)>,
}

impl<T> Turns<T> {
    pub(super) fn new() -> Turns<T> {
        Turns { peers: VecDeque::new() }
    }

    /// Puts work behind all that its peer has.
    pub(super) fn push(&mut self, peer: Peer, work: T) {
        match self.peers.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, waiting)) => waiting.push_back(work),
            None => self.peers.push_back((peer, VecDeque::from([work]))),
        }
    }

    /// The first work of the peer whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (peer, mut waiting) = self.peers.pop_front()?;
        let work = waiting.pop_front();
        if !waiting.is_empty() {
            self.peers.push_back((peer, waiting));
        }
        work
    }

    /// Forgets work that nobody wants any more.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.peers.retain_mut(|(_, waiting)| {
            waiting.retain(&mut keep);
            !waiting.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_take_turns() {
        let (greedy, good, late) = (Peer::function(0), Peer::function(1), Peer::function(2));
        let mut turns = Turns::new();
        (0..100).for_each(|work| turns.push(greedy, work));
        assert_eq!(turns.pop(), Some(0));
        (100..102).for_each(|work| turns.push(good, work));
        let four = [turns.pop(), turns.pop(), turns.pop(), turns.pop()];
        assert_eq!(four, [Some(1), Some(100), Some(2), Some(101)]);
        turns.push(late, 200);
        turns.retain(|work| work % 10 == 0);
        let rest: Vec<i32> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(rest, [10, 200, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert!(turns.peers.is_empty());
    }
}
