//! A drive on paper, in which nothing is of the model's: dies that read one page at a time, buses that
//! carry one at a time, and a host around it whose clock ticks and whose answers come late now and then.

use mynah_identify::{Answer, Lost, Op, Subject};
use mynah_stamp::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// What the drive is, and what is around it. Times in us.
#[derive(Clone, Copy)]
pub(crate) struct Paper {
    pub(crate) dies: u64,
    pub(crate) channels: u64,
    pub(crate) page: u64,
    /// By type of page; pages of a die take turns.
    pub(crate) reads: [f64; 3],
    /// A page on a bus.
    pub(crate) transfer: f64,
    /// To the flash, and back from it.
    pub(crate) way: f64,
    /// Standard deviation of what the host adds to each answer.
    pub(crate) noise: f64,
    /// The share of answers that come late, and by how much.
    pub(crate) late: (f64, f64),
    /// How often everything is late for a while, for how long, and by how much.
    pub(crate) storms: (f64, f64, f64),
    /// The clock's step.
    pub(crate) tick: f64,
    /// By how much the way is longer after a second.
    pub(crate) drift: f64,
}

impl Paper {
    pub(crate) fn quiet() -> Paper {
        Paper {
            dies: 8,
            channels: 4,
            page: 16 << 10,
            reads: [40.0, 55.0, 70.0],
            transfer: 14.0,
            way: 6.0,
            noise: 0.0,
            late: (0.0, 0.0),
            storms: (1e6, 0.0, 0.0),
            tick: 0.001,
            drift: 0.0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Arrive,
    Read,
    Sent,
    Back,
}

struct Request {
    page: u64,
    bytes: u64,
    submitted: f64,
}

/// The drive at work.
pub(crate) struct PaperDrive {
    paper: Paper,
    now: f64,
    requests: BTreeMap<u64, Request>,
    next: u64,
    events: BinaryHeap<Reverse<(u64, u64, Step)>>,
    waiting: Vec<VecDeque<u64>>,
    reading: Vec<bool>,
    ready: Vec<VecDeque<u64>>,
    carrying: Vec<bool>,
    answers: VecDeque<Answer>,
    random: Xoshiro256PlusPlus,
}

impl PaperDrive {
    pub(crate) fn new(paper: Paper, seed: u64) -> PaperDrive {
        let (dies, channels) = (paper.dies as usize, paper.channels as usize);
        PaperDrive {
            paper,
            now: 0.0,
            requests: BTreeMap::new(),
            next: 0,
            events: BinaryHeap::new(),
            waiting: vec![VecDeque::new(); dies],
            reading: vec![false; dies],
            ready: vec![VecDeque::new(); channels],
            carrying: vec![false; channels],
            answers: VecDeque::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    fn die(&self, page: u64) -> usize {
        (page % self.paper.dies) as usize
    }

    fn channel(&self, page: u64) -> usize {
        (page % self.paper.dies % self.paper.channels) as usize
    }

    fn later(&mut self, tag: u64, at: f64, step: Step) {
        self.events.push(Reverse(((at * 1e6) as u64, tag, step)));
    }

    fn way(&self) -> f64 {
        self.paper.way + self.paper.drift * self.now * 1e-6
    }

    fn start(&mut self, die: usize) {
        if self.reading[die] {
            return;
        }
        let Some(tag) = self.waiting[die].pop_front() else { return };
        self.reading[die] = true;
        let kind = self.requests[&tag].page / self.paper.dies % 3;
        self.later(tag, self.now + self.paper.reads[kind as usize], Step::Read);
    }

    fn carry(&mut self, channel: usize) {
        if self.carrying[channel] {
            return;
        }
        let Some(tag) = self.ready[channel].pop_front() else { return };
        self.carrying[channel] = true;
        let time = self.paper.transfer * self.requests[&tag].bytes as f64 / self.paper.page as f64;
        self.later(tag, self.now + time, Step::Sent);
    }

    /// Does what is due next; whether that was before `until`.
    fn go(&mut self, until: f64) -> bool {
        let Some(&Reverse((at, tag, step))) = self.events.peek() else { return false };
        let at = at as f64 * 1e-6;
        if at > until {
            return false;
        }
        self.events.pop();
        self.now = self.now.max(at);
        let page = self.requests[&tag].page;
        let (die, channel) = (self.die(page), self.channel(page));
        match step {
            Step::Arrive => {
                self.waiting[die].push_back(tag);
                self.start(die);
            }
            Step::Read => {
                self.ready[channel].push_back(tag);
                self.carry(channel);
            }
            Step::Sent => {
                self.carrying[channel] = false;
                self.reading[die] = false;
                self.carry(channel);
                self.start(die);
                let late = self.random.random::<f64>() < self.paper.late.0;
                let (period, length, stormy) = self.paper.storms;
                let extra = match (late, self.now % period < length) {
                    (true, _) => self.paper.late.1,
                    (false, true) => stormy,
                    (false, false) => 0.0,
                };
                let normal: f64 = (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0;
                let back = (self.way() + self.paper.noise * normal).max(0.0) + extra;
                self.later(tag, self.now + back, Step::Back);
            }
            Step::Back => {
                let request = self.requests.remove(&tag).expect("it is under way");
                let (submitted, completed) = (self.clock(request.submitted), self.clock(self.now));
                self.answers.push_back(Answer { tag, submitted, completed, is_ok: true });
            }
        }
        true
    }

    fn clock(&self, us: f64) -> Time {
        let ticks = (us / self.paper.tick).floor() * self.paper.tick;
        Time::ZERO + Span::from_ps((ticks * 1e6).round() as u64)
    }
}

impl Subject for PaperDrive {
    fn bytes(&self) -> u64 {
        4 << 30
    }
    fn block_bytes(&self) -> u32 {
        512
    }
    fn max_transfer_bytes(&self) -> u32 {
        1 << 20
    }
    fn max_outstanding(&self) -> usize {
        256
    }
    fn can_trim(&self) -> bool {
        false
    }
    fn submit(&mut self, op: Op, offset: u64, bytes: u64) -> Result<u64, Lost> {
        assert_eq!(op, Op::Read, "it is only read");
        // Of a read across pages, only who has mistaken a page asks one, the first counts.
        let page = offset / self.paper.page;
        let tag = self.next;
        self.next += 1;
        let submitted = self.now;
        self.requests.insert(tag, Request { page, bytes, submitted });
        let at = self.now + self.way();
        self.later(tag, at, Step::Arrive);
        // A host takes its time between two requests.
        let until = self.now + 0.3;
        while self.go(until) {}
        self.now = until;
        Ok(tag)
    }
    fn next(&mut self) -> Result<Option<Answer>, Lost> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Ok(Some(answer));
            }
            if !self.go(f64::INFINITY) {
                return Ok(None);
            }
        }
    }
    fn pass(&mut self, span: Span) -> Result<(), Lost> {
        let until = self.now + span.as_ps() as f64 * 1e-6;
        while self.go(until) {}
        self.now = until;
        Ok(())
    }
    fn now(&self) -> Time {
        self.clock(self.now)
    }
}
