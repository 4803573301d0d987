//! A small network of queues in virtual time: hosts, connections, a link, a target and dies, whose
//! I/Os are written as the records of a path. What slows it down is put in here, where the analyser
//! cannot know of it: it sees records.

use mynah_profile::{Head, Header, Side, TimeBase, Writer};
use mynah_stamp::{Span, Stage, Time};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::Path;

/// Stages of both ends.
const BEFORE: [&str; 6] =
    ["host_queue", "host_submit", "network_request", "data_buffer", "host_turn", "intake"];
const BEHIND: [&str; 6] =
    ["late", "backlog", "output", "network_response", "host_receive", "host_complete"];

pub(crate) const US: u64 = 1_000_000;

/// Someone who asks.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub session: u16,
    pub queue: u16,
    pub write: bool,
    pub bytes: u32,
    pub how: Arrivals,
}

#[derive(Clone, Copy)]
pub(crate) enum Arrivals {
    /// So many at once, always.
    Closed(u32),
    /// So many a second, independent of one another.
    Open(f64),
}

/// What is there, and how fast; times in picoseconds.
#[derive(Clone)]
pub(crate) struct Network {
    pub sources: Vec<Source>,
    pub ios: usize,
    /// Entries of each queue.
    pub entries: u32,
    pub host_core: u64,
    pub target_core: u64,
    /// Bytes a second of a connection's output, and of the link, each way.
    pub connection_rate: f64,
    pub link_rate: f64,
    pub propagation: u64,
    /// Bytes a second of somebody else on the link, whom no record names.
    pub hidden_rate: f64,
    /// Write data that the target holds at once, in I/Os.
    pub buffers: u32,
    /// How long the target sleeps when it does, or nothing.
    pub nap: u64,
    pub dies: u64,
    pub array: u64,
}

impl Network {
    pub(crate) fn quiet(rng: &mut Xoshiro256PlusPlus) -> Network {
        let depth = 2 + (rng.next_u64() % 6) as u32;
        let source = |session, write| Source {
            session,
            queue: 1,
            write,
            bytes: 4096,
            how: Arrivals::Closed(depth),
        };
        Network {
            sources: vec![source(1, false), source(2, false)],
            ios: 6000,
            entries: 32,
            host_core: 2 * US,
            target_core: 2 * US,
            connection_rate: 4e9,
            link_rate: 3.1e9,
            propagation: 5 * US,
            hidden_rate: 0.0,
            buffers: 64,
            nap: 0,
            dies: 64,
            array: 60 * US,
        }
    }
}

#[derive(Clone, Copy)]
enum Step {
    /// Waits for one of what there are so many of, and keeps it.
    Take(usize, usize),
    Give(usize),
    /// Waits in one stage and is served in another, or in the same.
    Serve {
        by: usize,
        waits: usize,
        stage: usize,
        takes: u64,
    },
    Delay(usize, u64),
    /// Until the target wakes up.
    Nap(usize, u64),
}

struct Resource {
    free: u32,
    waiting: VecDeque<(usize, u64)>,
}

struct Io {
    source: Option<usize>,
    begin: u64,
    at: usize,
    steps: Vec<Step>,
    spans: Vec<u64>,
    since: u64,
    block: u64,
}

struct World<'a> {
    network: &'a Network,
    rng: Xoshiro256PlusPlus,
    stages: Vec<String>,
    resources: Vec<Resource>,
    queues: Vec<(u16, u16)>,
    sessions: Vec<u16>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    ios: Vec<Io>,
    issued: usize,
    ended: Vec<usize>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(usize),
    Hidden,
    Served(usize, usize),
    Go(usize),
}

fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
}

/// Exponentially distributed.
pub(crate) fn exponential(rng: &mut Xoshiro256PlusPlus, mean: f64) -> u64 {
    (-libm::log(unit(rng)) * mean) as u64
}

/// Runs it, and writes its profile.
pub(crate) fn write(network: &Network, seed: u64, path: &Path) {
    let stages: Vec<String> = (BEFORE.iter().copied())
        .chain(Stage::OF_DRIVE.iter().map(|stage| stage.name()))
        .chain(BEHIND)
        .map(str::to_owned)
        .collect();
    let mut queues: Vec<(u16, u16)> =
        network.sources.iter().map(|it| (it.session, it.queue)).collect();
    queues.sort_unstable();
    queues.dedup();
    let mut sessions: Vec<u16> = queues.iter().map(|it| it.0).collect();
    sessions.dedup();
    let mut world = World {
        network,
        rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        stages: stages.clone(),
        resources: vec![],
        queues,
        sessions,
        events: BinaryHeap::new(),
        order: 0,
        ios: vec![],
        issued: 0,
        ended: vec![],
    };
    world.build();
    world.run();
    let mut header = Header::new(Side::Path, "a network of queues", TimeBase::Virtual);
    header.kinds = vec!["read".into(), "write".into()];
    header.stages = stages;
    let waits = |source: &Source| matches!(source.how, Arrivals::Closed(_));
    header.closed_loop = Some(network.sources.iter().all(waits));
    header.sessions = (0..=world.sessions.iter().copied().max().unwrap_or(0))
        .map(|session| format!("host-{session}"))
        .collect();
    let out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut writer = Writer::new(out, header).unwrap();
    for &at in &world.ended {
        let io = &world.ios[at];
        let Some(source) = io.source.map(|at| network.sources[at]) else { continue };
        let head = Head {
            connection: source.session,
            queue: source.queue,
            bytes: source.bytes,
            kind: source.write.into(),
            block: io.block,
            begin: Time::from_ps(io.begin),
            total: Span::from_ps(io.spans.iter().sum()),
            ..Head::default()
        };
        writer.record(head, io.spans.iter().map(|&ps| Span::from_ps(ps)), &[]).unwrap();
    }
    writer.finish().unwrap();
}

impl World<'_> {
    fn stage(&self, name: &str) -> usize {
        self.stages.iter().position(|it| it == name).unwrap()
    }

    fn build(&mut self) {
        let mut add = |free| {
            self.resources.push(Resource { free, waiting: VecDeque::new() });
        };
        // Entries and both outputs of each queue; a core of each host; the link's ways; the target's
        // core and its buffers; dies.
        for _ in &self.queues {
            add(self.network.entries);
            add(1);
            add(1);
        }
        self.sessions.iter().for_each(|_| add(1));
        for free in [1, 1, 1, self.network.buffers] {
            add(free);
        }
        (0..self.network.dies).for_each(|_| add(1));
        for (at, source) in self.network.sources.iter().enumerate() {
            match source.how {
                Arrivals::Closed(depth) => {
                    (0..depth).for_each(|n| {
                        self.events.push(Reverse((n.into(), n.into(), Event::Arrival(at))))
                    });
                }
                Arrivals::Open(_) => self.events.push(Reverse((0, 0, Event::Arrival(at)))),
            }
        }
        if self.network.hidden_rate > 0.0 {
            self.events.push(Reverse((0, 0, Event::Hidden)));
        }
        self.order = 1 << 20;
    }

    fn post(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn link(&self) -> usize {
        3 * self.queues.len() + self.sessions.len()
    }

    fn run(&mut self) {
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            match event {
                Event::Arrival(source) => self.arrive(source, now),
                Event::Hidden if self.issued < self.network.ios => {
                    // Bursts of 64 KiB towards the hosts.
                    let mean = 65536.0 / self.network.hidden_rate * 1e12;
                    let next = now + exponential(&mut self.rng, mean);
                    self.post(next, Event::Hidden);
                    let takes = (65536.0 / self.network.link_rate * 1e12) as u64;
                    let stage = 0;
                    let steps =
                        vec![Step::Serve { by: self.link() + 1, waits: stage, stage, takes }];
                    self.begin(None, steps, now);
                }
                Event::Hidden => {}
                Event::Served(by, io) => {
                    self.release(by, now);
                    self.go(io, now);
                }
                Event::Go(io) => self.go(io, now),
            }
        }
    }

    fn arrive(&mut self, source: usize, now: u64) {
        if self.issued >= self.network.ios {
            return;
        }
        self.issued += 1;
        if let Arrivals::Open(rate) = self.network.sources[source].how {
            let next = now + exponential(&mut self.rng, 1e12 / rate);
            self.post(next, Event::Arrival(source));
        }
        let steps = self.plan(source);
        self.begin(Some(source), steps, now);
    }

    fn begin(&mut self, source: Option<usize>, steps: Vec<Step>, now: u64) {
        let spans = vec![0; self.stages.len()];
        let block = self.rng.next_u64() >> 20;
        self.ios.push(Io { source, begin: now, at: 0, steps, spans, since: now, block });
        self.go(self.ios.len() - 1, now);
    }

    fn plan(&mut self, source: usize) -> Vec<Step> {
        let network = self.network;
        let source = network.sources[source];
        let queue =
            self.queues.iter().position(|it| *it == (source.session, source.queue)).unwrap();
        let host = 3 * self.queues.len()
            + self.sessions.iter().position(|it| *it == source.session).unwrap();
        let (up, down, core, buffers) =
            (self.link(), self.link() + 1, self.link() + 2, self.link() + 3);
        let die = self.link() + 4 + (self.rng.next_u64() % network.dies) as usize;
        let (capsule, data) = (72u32, source.bytes);
        let (sent, answered) =
            if source.write { (data + capsule, 24) } else { (capsule, data + 24) };
        let at = |bytes: u32, rate: f64| (f64::from(bytes) / rate * 1e12) as u64;
        let mut noise = |mean: u64| {
            // A quarter of it varies.
            mean * 3 / 4 + exponential(&mut self.rng, mean as f64 / 4.0)
        };
        let array = noise(network.array);
        let (submit, receive, complete) =
            (noise(network.host_core), noise(network.host_core), noise(network.host_core) / 4);
        let (turn, intake, late) =
            (noise(network.host_core), noise(network.target_core) / 4, noise(network.target_core));
        let stage = |name| self.stage(name);
        let serve =
            |by, name, takes| Step::Serve { by, waits: stage(name), stage: stage(name), takes };
        // Data beyond 8 KiB do not come in the capsule.
        let asks = source.write && data > 8192;
        let first = if asks { capsule } else { sent };
        let mut steps = vec![
            Step::Take(3 * queue, stage("host_queue")),
            serve(host, "host_submit", submit),
            serve(3 * queue + 1, "host_submit", at(first, network.connection_rate)),
            serve(up, "network_request", at(first, network.link_rate)),
            Step::Delay(stage("network_request"), network.propagation),
        ];
        if asks {
            steps.extend([
                Step::Take(buffers, stage("data_buffer")),
                Step::Delay(stage("network_request"), network.propagation),
                serve(host, "host_turn", turn),
                serve(3 * queue + 1, "host_turn", at(data, network.connection_rate)),
                serve(up, "network_request", at(data, network.link_rate)),
                Step::Delay(stage("network_request"), network.propagation),
            ]);
        }
        steps.push(serve(core, "intake", intake));
        steps.push(Step::Serve {
            by: die,
            waits: stage("die_wait"),
            stage: stage("flash_array"),
            takes: array,
        });
        steps.push(Step::Delay(stage("data_out"), at(data, 6e9)));
        if asks {
            steps.push(Step::Give(buffers));
        }
        if network.nap > 0 {
            steps.push(Step::Nap(stage("late"), network.nap));
        }
        steps.extend([
            serve(core, "late", late),
            serve(3 * queue + 2, "output", at(answered, network.connection_rate)),
            serve(down, "network_response", at(answered, network.link_rate)),
            Step::Delay(stage("network_response"), network.propagation),
            serve(host, "host_receive", receive),
            Step::Delay(stage("host_complete"), complete),
            Step::Give(3 * queue),
        ]);
        steps
    }

    /// Goes on with an I/O whose last step has ended.
    fn go(&mut self, io: usize, mut now: u64) {
        loop {
            let it = &mut self.ios[io];
            let Some(step) = it.steps.get(it.at).copied() else {
                self.ended.push(io);
                if let Some(source) = self.ios[io].source
                    && let Arrivals::Closed(_) = self.network.sources[source].how
                {
                    self.post(now, Event::Arrival(source));
                }
                return;
            };
            it.at += 1;
            it.since = now;
            match step {
                Step::Give(of) => self.release(of, now),
                Step::Delay(stage, takes) => {
                    it.spans[stage] += takes;
                    self.post(now + takes, Event::Go(io));
                    return;
                }
                Step::Nap(stage, nap) => {
                    let until = now.div_ceil(nap) * nap;
                    it.spans[stage] += until - now;
                    self.post(until, Event::Go(io));
                    return;
                }
                Step::Take(of, _) | Step::Serve { by: of, .. } => {
                    if self.resources[of].free == 0 {
                        self.resources[of].waiting.push_back((io, now));
                        return;
                    }
                    self.resources[of].free -= 1;
                    if self.have(io, now) {
                        return;
                    }
                    now = self.ios[io].since;
                }
            }
        }
    }

    /// An I/O has got what it waited for; whether it is busy with it now.
    fn have(&mut self, io: usize, now: u64) -> bool {
        let it = &mut self.ios[io];
        let waited = now - it.since;
        it.since = now;
        match it.steps[it.at - 1] {
            Step::Serve { by, waits, stage, takes } => {
                it.spans[waits] += waited;
                it.spans[stage] += takes;
                self.post(now + takes, Event::Served(by, io));
                true
            }
            Step::Take(_, stage) => {
                it.spans[stage] += waited;
                false
            }
            _ => unreachable!("only these wait"),
        }
    }

    fn release(&mut self, of: usize, now: u64) {
        match self.resources[of].waiting.pop_front() {
            None => self.resources[of].free += 1,
            Some((next, _)) => {
                if !self.have(next, now) {
                    self.post(now, Event::Go(next));
                }
            }
        }
    }
}
