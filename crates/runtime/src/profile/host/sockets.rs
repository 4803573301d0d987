//! What connections say of themselves (TCP_INFO) while a load runs: nothing on the path of an I/O.

use crate::tcp_info::TcpInfo;
use mynah_profile::Network;
use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

const INTERVAL_MS: u64 = 100;
/// Most answers that are kept of a run. When there are more, every second look is forgotten.
const ANSWERS_MAX: usize = 1 << 14;

/// An answer. Counts go on from when the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    rtt_us: u32,
    retransmits: u32,
    out_of_order: u32,
    busy_us: u64,
    window_limited_us: u64,
    buffer_limited_us: u64,
    delivery_rate: u64,
}

impl Answer {
    /// What this socket says; nothing if it is none of TCP.
    fn of(socket: &OwnedFd) -> Option<Answer> {
        let info = TcpInfo::of(socket)?;
        // Where `struct tcp_info` has them (include/uapi/linux/tcp.h).
        Some(Answer {
            rtt_us: info.word(68),
            retransmits: info.word(100),
            out_of_order: info.word(224),
            busy_us: info.long(168),
            window_limited_us: info.long(176),
            buffer_limited_us: info.long(184),
            delivery_rate: info.long(160),
        })
    }
}

/// All that were asked at one time.
type Samples = (Time, Vec<(u64, Answer)>);

/// The sockets of a run's connections, and what they have said.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sockets: Vec<(u64, OwnedFd)>,
    next_number: u64,
    /// When they are asked again.
    due: Time,
    /// How often, as a power of two of intervals.
    thinned: u32,
    looks: Vec<Samples>,
    answers: usize,
    /// The first and the last of each connection.
    ends: BTreeMap<u64, (Answer, Answer)>,
    begun: Option<Time>,
    ended: Time,
}

/// A connection that is asked, as long as this is there.
#[derive(Debug)]
pub(crate) struct Sampled {
    sockets: Arc<Sockets>,
    number: u64,
    clock: crate::clock::Clock,
}

impl Sockets {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks this one from now on.
    pub(crate) fn add(self: &Arc<Self>, socket: OwnedFd, clock: crate::clock::Clock) -> Sampled {
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        state.ask(number, &socket, clock.wall());
        state.sockets.push((number, socket));
        Sampled { sockets: Arc::clone(self), number, clock }
    }

    /// Asks all of them, if it is time for that.
    pub(crate) fn look(&self, now: Time) {
        let mut state = self.state();
        if now < state.due {
            return;
        }
        state.due = now + Span::from_ms(INTERVAL_MS << state.thinned);
        let sockets = std::mem::take(&mut state.sockets);
        let answers = sockets
            .iter()
            .filter_map(|(number, socket)| Some((*number, state.ask(*number, socket, now)?)));
        let answers: Vec<_> = answers.collect();
        state.sockets = sockets;
        state.answers += answers.len();
        state.looks.push((now, answers));
        if state.answers > ANSWERS_MAX && state.thinned < 20 {
            state.thinned += 1;
            let mut odd = false;
            state.looks.retain(|_| {
                odd = !odd;
                odd
            });
            state.answers = state.looks.iter().map(|(_, answers)| answers.len()).sum();
        }
    }

    /// What they said; nothing if none was asked twice.
    pub(crate) fn said(&self) -> Option<Network> {
        let state = self.state();
        let asked_us = state.ended.saturating_since(state.begun?).as_ps() / 1_000_000;
        if asked_us == 0 {
            return None;
        }
        let last = state.ends.values().map(|(_, last)| *last);
        let all: Vec<Answer> =
            state.looks.iter().flat_map(|(_, it)| it.iter().map(|it| it.1)).chain(last).collect();
        let median = |of: fn(&Answer) -> u64| {
            let mut all: Vec<u64> = all.iter().map(of).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or(0)
        };
        let grown = |of: fn(&Answer) -> u64| {
            let grown = |(first, last): &(Answer, Answer)| of(last).saturating_sub(of(first));
            state.ends.values().map(grown).sum()
        };
        Some(Network {
            asked_us,
            rtt_us: median(|it| it.rtt_us.into()),
            retransmits: grown(|it| it.retransmits.into()),
            out_of_order: grown(|it| it.out_of_order.into()),
            busy_us: grown(|it| it.busy_us),
            window_limited_us: grown(|it| it.window_limited_us),
            buffer_limited_us: grown(|it| it.buffer_limited_us),
            delivery_rate: median(|it| it.delivery_rate),
        })
    }
}

impl State {
    fn ask(&mut self, number: u64, socket: &OwnedFd, now: Time) -> Option<Answer> {
        let answer = Answer::of(socket)?;
        self.begun.get_or_insert(now);
        self.ended = self.ended.max(now);
        self.ends.entry(number).or_insert((answer, answer)).1 = answer;
        Some(answer)
    }
}

impl Drop for Sampled {
    /// The socket is let go, so that the connection ends with its owner's.
    fn drop(&mut self) {
        let now = self.clock.wall();
        let mut state = self.sockets.state();
        if let Some(at) = state.sockets.iter().position(|(number, _)| *number == self.number) {
            let (number, socket) = state.sockets.swap_remove(at);
            state.ask(number, &socket, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Rate};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_says_what_limits_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        let (sockets, clock) = (Arc::new(Sockets::default()), Clock::start(Rate::REAL));
        assert_eq!(sockets.said(), None);
        let asked = sockets.add(here.try_clone().unwrap().into(), clock);
        let mut bytes = vec![1; 1 << 16];
        here.write_all(&bytes).unwrap();
        there.read_exact(&mut bytes).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
        drop(asked);
        let said = sockets.said().expect("it was asked twice");
        assert!(said.asked_us >= 2_000 && said.rtt_us > 0 && said.delivery_rate > 0, "{said:?}");
        assert_eq!((said.retransmits, said.out_of_order), (0, 0));
        // It is not kept open.
        drop(here);
        assert_eq!(there.read(&mut bytes).unwrap(), 0);
    }

    #[test]
    fn a_socket_of_another_kind_says_nothing() {
        let (here, _there) = UnixStream::pair().unwrap();
        let (sockets, clock) = (Arc::new(Sockets::default()), Clock::start(Rate::REAL));
        let asked = sockets.add(here.into(), clock);
        sockets.look(clock.wall() + Span::from_ms(1));
        drop(asked);
        assert_eq!(sockets.said(), None);
    }

    #[test]
    fn long_runs_are_thinned() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (sockets, clock) = (Arc::new(Sockets::default()), Clock::start(Rate::REAL));
        let _asked = sockets.add(here.into(), clock);
        for second in 0..40_000 {
            sockets.look(Time::from_ns(second * 1_000_000_000));
        }
        let state = sockets.state();
        assert!(state.answers <= ANSWERS_MAX && state.thinned >= 1, "{}", state.answers);
        assert!(state.looks.len() == state.answers && state.answers > ANSWERS_MAX / 4);
    }
}
