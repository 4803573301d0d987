//! The models themselves: how long each I/O stays, given when it comes and what it takes. They are
//! exact for these arrivals; nothing is assumed of their distribution.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// When an I/O comes, what it takes, and to which of several queues it goes; times in picoseconds. In
/// the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) arrival: u64,
    pub(super) service: f64,
    pub(super) queue: u64,
}

/// Central-FCFS (G/G/c): whoever came first goes to the server that is free first. It is the
/// recursion of J. Kiefer and J. Wolfowitz ("On the theory of queues with many servers", Transactions
/// of the AMS 78, 1955) and, with one server, Lindley's.
pub(super) fn central(jobs: &[Job], servers: usize) -> Vec<f64> {
    // When each becomes free. Positive numbers are in the order of their bits.
    let mut free: BinaryHeap<Reverse<u64>> =
        (0..servers.max(1)).map(|_| Reverse(0f64.to_bits())).collect();
    let stay = |job: &Job| {
        let Reverse(first) = free.pop().unwrap_or(Reverse(0));
        let arrival = job.arrival as f64;
        let end = f64::from_bits(first).max(arrival) + job.service.max(0.0);
        free.push(Reverse(end.to_bits()));
        end - arrival
    };
    jobs.iter().map(stay).collect()
}

/// Split-FCFS: a server for each queue.
pub(super) fn split(jobs: &[Job]) -> Vec<f64> {
    let mut free: BTreeMap<u64, f64> = BTreeMap::new();
    let stay = |job: &Job| {
        let arrival = job.arrival as f64;
        let free = free.entry(job.queue).or_insert(0.0);
        *free = free.max(arrival) + job.service.max(0.0);
        *free - arrival
    };
    jobs.iter().map(stay).collect()
}

/// Central-PS: all who are there are served at once, each as fast as there are few. Everybody gets
/// the same, so an I/O leaves when what each got since it came is what it takes.
pub(super) fn sharing(jobs: &[Job]) -> Vec<f64> {
    let mut stays = vec![0.0; jobs.len()];
    // By what everybody will have got when it leaves.
    let mut there: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let (mut now, mut got) = (0.0f64, 0.0f64);
    let mut leave = |there: &mut BinaryHeap<Reverse<(u64, usize)>>,
                     now: &mut f64,
                     got: &mut f64,
                     until: f64| {
        while let Some(&Reverse((at, job))) = there.peek() {
            let takes = (f64::from_bits(at) - *got).max(0.0) * there.len() as f64;
            if *now + takes > until {
                break;
            }
            *now += takes;
            *got = f64::from_bits(at);
            there.pop();
            stays[job] = *now - jobs[job].arrival as f64;
        }
        if !there.is_empty() && until.is_finite() {
            *got += (until - *now) / there.len() as f64;
        }
        *now = until;
    };
    for (number, job) in jobs.iter().enumerate() {
        leave(&mut there, &mut now, &mut got, job.arrival as f64);
        if there.is_empty() {
            // Small numbers are exact for longer.
            got = 0.0;
        }
        there.push(Reverse(((got + job.service.max(0.0)).to_bits(), number)));
    }
    leave(&mut there, &mut now, &mut got, f64::INFINITY);
    stays
}

/// What each got, if all who are there are served at once: of those who were there from one time until
/// another, in the order in which they came.
pub(super) fn shared(stays: &[(u64, u64)]) -> Vec<f64> {
    let mut events: Vec<(u64, bool, usize)> = vec![];
    for (number, (enter, leave)) in stays.iter().enumerate() {
        events.push((*enter, true, number));
        events.push((*leave, false, number));
    }
    // Who leaves goes before who comes at the same time.
    events.sort_unstable();
    let mut got = vec![0.0; stays.len()];
    let (mut each, mut there, mut before) = (0.0, 0u64, 0u64);
    for (at, comes, number) in events {
        if there > 0 {
            each += (at - before) as f64 / there as f64;
        }
        before = at;
        if comes {
            there += 1;
            got[number] = -each;
        } else {
            there -= 1;
            got[number] += each;
        }
    }
    got
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// A microsecond of service on average.
    const SERVICE: f64 = 1e6;

    fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
        ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn exponential(rng: &mut Xoshiro256PlusPlus) -> f64 {
        -libm::log(unit(rng))
    }

    /// Poisson arrivals that keep so much of one server busy.
    fn jobs(load: f64, service: impl Fn(&mut Xoshiro256PlusPlus) -> f64) -> Vec<Job> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut now = 0.0;
        let job = |_| {
            now += exponential(&mut rng) * SERVICE / load;
            Job { arrival: now as u64, service: service(&mut rng) * SERVICE, queue: 0 }
        };
        (0..1_000_000).map(job).collect()
    }

    fn mean(stays: &[f64]) -> f64 {
        stays.iter().sum::<f64>() / stays.len() as f64 / SERVICE
    }

    fn assert_close(found: f64, exact: f64) {
        assert!((found / exact - 1.0).abs() < 0.03, "{found}, not {exact}");
    }

    /// E(T) = 1 / (1 - load).
    #[test]
    fn m_m_1() {
        for load in [0.3, 0.6, 0.8] {
            let jobs = jobs(load, exponential);
            assert_close(mean(&central(&jobs, 1)), 1.0 / (1.0 - load));
            assert_eq!(central(&jobs, 1), split(&jobs));
        }
    }

    /// E(T) = 1 + C(c, a) / (c - a), with Erlang's C.
    #[test]
    fn m_m_c() {
        for (servers, load) in [(2usize, 1.2), (4, 3.2), (16, 14.0)] {
            let (mut term, mut sum) = (1.0, 1.0);
            for n in 1..servers {
                term *= load / n as f64;
                sum += term;
            }
            let last = term * load / servers as f64 * servers as f64 / (servers as f64 - load);
            let waits = last / (sum + last);
            let exact = 1.0 + waits / (servers as f64 - load);
            assert_close(mean(&central(&jobs(load, exponential), servers)), exact);
        }
    }

    /// E(T) = 1 / (1 - load), whatever the distribution of service.
    #[test]
    fn m_g_1_ps() {
        let two = |rng: &mut Xoshiro256PlusPlus| {
            let long = unit(rng) < 0.1;
            exponential(rng) * if long { 5.5 } else { 0.5 }
        };
        for load in [0.3, 0.6, 0.75] {
            let exact = 1.0 / (1.0 - load);
            assert_close(mean(&sharing(&jobs(load, exponential))), exact);
            assert_close(mean(&sharing(&jobs(load, |_| 1.0))), exact);
            assert_close(mean(&sharing(&jobs(load, two))), exact);
        }
    }

    /// What was got is found again from when they came and left.
    #[test]
    fn shares_are_found_again() {
        let jobs = &jobs(0.7, exponential)[..5000];
        let stays = sharing(jobs);
        let stays: Vec<(u64, u64)> = (jobs.iter().zip(&stays))
            .map(|(job, stay)| (job.arrival, job.arrival + stay.round() as u64))
            .collect();
        for (job, got) in jobs.iter().zip(shared(&stays)) {
            assert!((job.service - got).abs() < 100.0, "{} {got}", job.service);
        }
    }

    #[test]
    fn queues_by_hand() {
        let job = |arrival, service, queue| Job { arrival, service, queue };
        let jobs = [job(0, 10.0, 0), job(2, 10.0, 1), job(4, 10.0, 0)];
        assert_eq!(central(&jobs, 1), [10.0, 18.0, 26.0]);
        assert_eq!(central(&jobs, 2), [10.0, 10.0, 16.0]);
        assert_eq!(split(&jobs), [10.0, 10.0, 16.0]);
        // Alone until 2, two until 4, three from then on: 10 = 2 + 1 + 7 is at 4 + 21 = 25, the next at
        // 25 + 2 * 2, the last alone for 1 more... each has got what the others had when it came.
        let stays = sharing(&jobs);
        let leaves: Vec<f64> =
            jobs.iter().zip(&stays).map(|(job, stay)| job.arrival as f64 + stay).collect();
        assert_eq!(leaves, [25.0, 29.0, 30.0]);
        assert_eq!(sharing(&[]), [0.0; 0]);
    }
}
