//! Whether the engine spins or sleeps when there is nothing to do.
//!
//! Spinning makes a command's latency some 20 us shorter than sleeping does, and takes the
//! core from others. So the engine spins only just after work and just before a deadline,
//! and only as long as that pays: spins that end without work, and spins that the scheduler
//! interrupts because somebody else wants the core, make it sleep instead.

use mynah_stamp::{Span, Time};

/// A spin for work that may come takes at most this.
const SPIN: Span = Span::from_us(50);
/// The longest and shortest time that waking up is thought to take.
const WAKE_MAX: Span = Span::from_us(200);
const WAKE_MIN: Span = Span::from_us(5);
/// Two looks without work between them are never so far apart unless the core was taken.
const INTERRUPTED: Span = Span::from_us(100);
/// For this long after an interruption the engine spins only for deadlines.
const RESPECT: Span = Span::from_ms(10);
/// Without commands outstanding, the engine does not wake more often than this.
const IDLE: Span = Span::from_ms(1);
/// After so long without work nobody seems to want anything.
const REST: Span = Span::from_ms(100);
/// Spinning stops after this many spins in a row without work; each with work takes one back.
const PATIENCE: u32 = 16;

/// Doorbells that nobody tells of are looked at all the time for so long after the last work,
const DOORBELL_SPIN: Span = Span::from_ms(1);
/// and then after naps, of an eighth of the time since, but no shorter or longer than this.
const NAP_MIN: Span = Span::from_us(20);
const NAP_MAX: Span = Span::from_us(250);
/// After so long without work naps are as long as it takes for all of them to cost no more than
/// this share of a processor (one in so many), but no longer than that.
const DESERTED: Span = Span::from_secs(1);
const DESERTED_SHARE: u64 = 64;
const DESERTED_NAP_MAX: Span = Span::from_ms(3);
/// What a nap costs is taken from so many of them.
const NAPS_MEASURED: u32 = 64;

/// What to do until the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Look again at once.
    Spin,
    /// Sleep until then at the latest; `None`: until something comes.
    Sleep(Option<Time>),
}

/// How the engine looks for work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poll {
    /// It sleeps when spinning does not pay.
    #[default]
    Adaptive,
    /// It always spins, and takes a processor for itself.
    Always,
}

/// Decides. All times are the host's.
#[derive(Clone, Debug)]
pub struct Pacing {
    poll: Poll,
    last_work: Time,
    last_look: Time,
    worked: bool,
    lost: u32,
    wake: Span,
    respect_until: Time,
    /// How long naps are after so long without work.
    deserted_nap: Span,
    /// Naps since processor time was last measured.
    naps: u32,
    cpu: Span,
}

impl Default for Pacing {
    fn default() -> Self {
        Pacing {
            poll: Poll::Adaptive,
            last_work: Time::ZERO,
            last_look: Time::ZERO,
            worked: true,
            lost: PATIENCE,
            wake: WAKE_MAX,
            respect_until: Time::ZERO,
            deserted_nap: NAP_MAX,
            naps: 0,
            cpu: Span::ZERO,
        }
    }
}

impl Pacing {
    pub fn new(poll: Poll) -> Pacing {
        Pacing { poll, ..Pacing::default() }
    }

    /// A turn of the loop found something to do.
    pub fn worked(&mut self, now: Time) {
        if now.saturating_since(self.last_work) <= SPIN {
            self.lost = self.lost.saturating_sub(1);
        }
        self.last_work = now;
        self.worked = true;
    }

    /// When it has been so long without work that something longer may be done.
    pub fn rests_at(&self) -> Time {
        self.last_work + REST
    }

    /// What to do now, when the next thing is due at `deadline` and `busy` says whether
    /// commands of hosts are outstanding.
    pub fn wait(&mut self, now: Time, deadline: Option<Time>, busy: bool) -> Wait {
        if self.poll == Poll::Always {
            return Wait::Spin;
        }
        let since_look = now.saturating_since(self.last_look);
        if !std::mem::take(&mut self.worked) && since_look > INTERRUPTED {
            self.respect_until = now + RESPECT;
        }
        self.last_look = now;
        if let Some(deadline) = deadline {
            if deadline <= now {
                return Wait::Spin;
            }
            // Sleeping would wake too late, or hardly be worth it.
            if busy && deadline.since(now) <= self.wake.times(2) {
                return Wait::Spin;
            }
        }
        if self.lost < PATIENCE && now >= self.respect_until {
            if now.saturating_since(self.last_work) < SPIN {
                return Wait::Spin;
            }
            self.lost += 1;
        }
        // Looked at afresh after the sleep, so that the sleep is no interruption.
        self.worked = true;
        Wait::Sleep(deadline.map(|deadline| match busy {
            true => Time::from_ps(deadline.as_ps() - self.wake.as_ps()),
            false => deadline.max(now + IDLE),
        }))
    }

    /// As [`Pacing::wait`], where doorbells may be rung that nobody tells of: it never sleeps for
    /// long. Commands may be outstanding.
    pub fn wait_for_doorbells(&mut self, now: Time, deadline: Option<Time>) -> Wait {
        match self.wait(now, deadline, true) {
            Wait::Spin => return Wait::Spin,
            Wait::Sleep(_) if now < self.respect_until => {}
            Wait::Sleep(_) if now.saturating_since(self.last_work) < DOORBELL_SPIN => {
                // Not a sleep after all: an interruption shows.
                self.worked = false;
                return Wait::Spin;
            }
            Wait::Sleep(_) => {}
        }
        let quiet = now.saturating_since(self.last_work);
        let nap = match quiet < DESERTED {
            true => Span::from_ps(quiet.as_ps() / 8).clamp(NAP_MIN, NAP_MAX),
            false => self.deserted_nap,
        };
        let nap = now + nap;
        let before = deadline.map(|at| Time::from_ps(at.as_ps() - self.wake.as_ps()));
        Wait::Sleep(Some(before.map_or(nap, |before| before.min(nap))))
    }

    /// A sleep has ended: by itself, `due` at that time, or because of something that came
    /// then.
    pub fn woke(&mut self, due: Time, now: Time) {
        let late = now.saturating_since(due);
        let slowly_forgotten = Span::from_ps(self.wake.as_ps() / 16 * 15);
        self.wake = late.max(slowly_forgotten).clamp(WAKE_MIN, WAKE_MAX);
    }

    /// A nap has ended. `cpu` is the processor time that this thread has had, and is only asked
    /// for now and then. On a processor of its own a nap costs some microseconds and may be short;
    /// in a virtual machine it can be tens of them.
    pub fn napped(&mut self, now: Time, cpu: impl FnOnce() -> Span) {
        if now.saturating_since(self.last_work) < DESERTED {
            self.naps = 0;
            return;
        }
        if self.naps.is_multiple_of(NAPS_MEASURED) {
            let cpu = cpu();
            if self.naps > 0 {
                let each = cpu.saturating_sub(self.cpu).as_ps() / u64::from(NAPS_MEASURED);
                let nap = Span::from_ps(each.saturating_mul(DESERTED_SHARE - 1));
                self.deserted_nap = nap.clamp(NAP_MAX, DESERTED_NAP_MAX);
            }
            self.cpu = cpu;
        }
        // The first of a run, which measures nothing, is number 0.
        self.naps = self.naps % NAPS_MEASURED + 1;
    }

    /// How long waking up takes, as far as has been seen lately.
    pub fn wake(&self) -> Span {
        self.wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Time = |us| Time::from_ns(us * 1000);

    #[test]
    fn it_spins_while_work_comes_and_sleeps_when_none_does() {
        let mut pacing = Pacing::default();
        let mut now = 1_000;
        let mut spins = 0;
        for _ in 0..100 {
            pacing.worked(US(now));
            spins += u32::from(pacing.wait(US(now + 5), None, false) == Wait::Spin);
            now += 20;
        }
        assert!(spins > 90, "{spins}");
        // Work now comes every 300 us: spinning for it is given up soon.
        let mut spun = 0;
        for _ in 0..100 {
            pacing.worked(US(now));
            let mut at = now + 5;
            while pacing.wait(US(at), None, false) == Wait::Spin {
                (at, spun) = (at + 5, spun + 5);
            }
            now += 300;
        }
        assert!(spun < 20 * 50, "{spun} us");
        assert_eq!(pacing.wait(US(now + 5), None, false), Wait::Sleep(None));
    }

    #[test]
    fn it_spins_before_a_deadline_and_wakes_early_for_one() {
        let mut pacing = Pacing::default();
        for _ in 0..100 {
            pacing.woke(US(1_000), US(1_020));
        }
        assert_eq!(pacing.wake(), Span::from_us(20));
        assert_eq!(pacing.wait(US(2_000), Some(US(2_030)), true), Wait::Spin);
        let until = Wait::Sleep(Some(US(2_080)));
        assert_eq!(pacing.wait(US(2_000), Some(US(2_100)), true), until);
        assert_eq!(pacing.wait(US(2_000), Some(US(1_999)), false), Wait::Spin);
    }

    #[test]
    fn it_never_sleeps_if_it_is_not_to() {
        let mut pacing = Pacing::new(Poll::Always);
        for now in (0..100_000).step_by(1_000) {
            assert_eq!(pacing.wait(US(now), None, false), Wait::Spin);
        }
    }

    #[test]
    fn an_idle_target_wakes_once_a_millisecond() {
        let mut pacing = Pacing::default();
        let wait = pacing.wait(US(5_000), Some(US(5_010)), false);
        assert_eq!(wait, Wait::Sleep(Some(US(6_000))));
    }

    #[test]
    fn a_core_that_others_want_is_left_to_them() {
        let mut pacing = Pacing::default();
        for now in (1_000..2_000).step_by(10) {
            pacing.worked(US(now));
        }
        assert_eq!(pacing.wait(US(2_000), None, false), Wait::Spin);
        // The next look comes 5 ms later although there was nothing to do.
        pacing.last_work = US(6_990);
        assert_eq!(pacing.wait(US(7_000), None, false), Wait::Sleep(None));
    }

    #[test]
    fn naps_are_as_long_as_their_cost_asks_for() {
        let mut pacing = Pacing::default();
        pacing.worked(US(1_000));
        let (mut now, mut cpu, mut asked) = (2_000_000, Span::ZERO, 0);
        // What a nap costs, and how long it is then: 63 times that, within bounds.
        for (each, nap) in [(2, 250), (20, 1_260), (30, 1_890), (100, 3_000), (1, 250)] {
            for _ in 0..3 * NAPS_MEASURED {
                let Wait::Sleep(Some(until)) = pacing.wait_for_doorbells(US(now), None) else {
                    panic!("nobody rings")
                };
                now = until.as_ps() / 1_000_000;
                cpu = Span::from_us(cpu.as_ps() / 1_000_000 + each);
                pacing.napped(US(now), || {
                    asked += 1;
                    cpu
                });
            }
            let wait = pacing.wait_for_doorbells(US(now), None);
            assert_eq!(wait, Wait::Sleep(Some(US(now + nap))), "{each} us each");
        }
        assert!(asked <= 5 * 3 + 1, "{asked}");
        // After work they are short again at first.
        pacing.worked(US(now));
        let wait = pacing.wait_for_doorbells(US(now + 100_000), None);
        assert_eq!(wait, Wait::Sleep(Some(US(now + 100_250))));
    }

    #[test]
    fn doorbells_are_looked_at_less_often_the_longer_nobody_rings() {
        let mut pacing = Pacing::default();
        pacing.worked(US(1_000));
        let mut now = 1_000;
        let mut naps = Vec::new();
        while now < 100_000 {
            match pacing.wait_for_doorbells(US(now), None) {
                Wait::Spin => now += 1,
                Wait::Sleep(until) => {
                    let until = until.expect("never for ever");
                    naps.push(until.since(US(now)));
                    now = until.as_ps() / 1_000_000;
                }
            }
            assert!(naps.is_empty() || now >= 2_000, "a millisecond is spun through");
        }
        assert!(naps.is_sorted() && naps.len() < 600, "{}", naps.len());
        assert!(naps[0] >= Span::from_us(100) && naps.last() == Some(&NAP_MAX));
        let wait = pacing.wait_for_doorbells(US(2_000_000), None);
        assert_eq!(wait, Wait::Sleep(Some(US(2_000_250))));
        // What is due is not missed.
        for _ in 0..100 {
            pacing.woke(US(now), US(now + 20));
        }
        let wait = pacing.wait_for_doorbells(US(now), Some(US(now + 100)));
        assert_eq!(wait, Wait::Sleep(Some(US(now + 80))));
        // Others want the core.
        pacing.worked(US(now + 200));
        assert_eq!(pacing.wait_for_doorbells(US(now + 201), None), Wait::Spin);
        let wait = pacing.wait_for_doorbells(US(now + 900), None);
        assert!(matches!(wait, Wait::Sleep(_)), "{wait:?}");
    }
}
