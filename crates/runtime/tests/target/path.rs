//! Both ends of a connection in a time of the test's own: every I/O has its record on either side,
//! their stages add up, and what is slow is slow in the stage that it is slow in, to the picosecond.

use crate::client::{HOST, NQN, blocks_of, drive, fabrics};
use crate::timing::World;
use mynah_analysis::{Joined, join};
use mynah_profile::{Choice, Head, Profile};
use mynah_result::kind::Kind;
use mynah_runtime::clock::Rate;
use mynah_runtime::hub::{Arrival, Id};
use mynah_runtime::profile::{Ended, Flights, HostProfile, HostProfiles, TargetProfile};
use mynah_stamp::{Span, Time};
use mynah_wire::fabrics::ConnectData;
use mynah_wire::nvme::{SubmissionEntry, opcode};
use mynah_wire::tcp::digest::Digests;
use mynah_wire::tcp::host::{Event, Host, HostConfig, Movement, Payload};
use mynah_wire::tcp::target::Settings;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use zerocopy::{FromZeros, IntoBytes};

/// Where time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    /// From an I/O's creation until it is given to its queue, and until it is sent.
    Created,
    Submitted,
    /// On the way to the target, and until it looks; the looks of the model; until it sends.
    WayThere,
    Unseen,
    Look,
    Output,
    /// On the way back; until the host looks; until it has handed on what came; until it sends what
    /// it was asked for.
    WayBack,
    Unread,
    Handing,
    Turn,
    /// In the send call, of either side.
    Call,
}

/// How long, in nanoseconds, one after the other.
#[derive(Clone, Debug, Default)]
struct Script {
    delays: BTreeMap<Point, Vec<u32>>,
    next: BTreeMap<Point, usize>,
}

impl Script {
    fn next(&mut self, point: Point) -> Span {
        let Some(delays) = self.delays.get(&point).filter(|delays| !delays.is_empty()) else {
            return Span::from_ns(100);
        };
        let at = self.next.entry(point).or_default();
        *at += 1;
        Span::from_ns(delays[(*at - 1) % delays.len()].into())
    }
}

/// Data that nobody looks at.
struct Bytes;

impl Payload for Bytes {
    fn fill(&mut self, _slot: u16, _offset: u32, into: &mut [u8]) {
        into.fill(7);
    }

    fn place(&mut self, _slot: u16, _offset: u32, _from: &[u8]) {}
}

struct ConnectBytes(ConnectData);

impl Payload for ConnectBytes {
    fn fill(&mut self, _slot: u16, offset: u32, into: &mut [u8]) {
        into.copy_from_slice(&self.0.as_bytes()[offset as usize..][..into.len()]);
    }

    fn place(&mut self, _slot: u16, _offset: u32, _from: &[u8]) {}
}

#[derive(Clone, Copy, Debug)]
struct Io {
    kind: Kind,
    block: u64,
    blocks: u32,
}

/// Both ends, and the network between them.
struct Both {
    world: World,
    script: Script,
    id: Id,
    host: Host,
    flights: Flights,
    profile: HostProfile,
    profiles: HostProfiles,
    folder: tempfile::TempDir,
    under_way: Vec<Option<(Io, Time, Time)>>,
    /// Bytes on their way, and when they arrive.
    there: VecDeque<(Vec<u8>, Time)>,
    back: VecDeque<(Vec<u8>, Time)>,
    done: u64,
    failed: u64,
}

const SLOTS: u16 = 16;
const QUEUE: u16 = 2;

impl Both {
    fn new(settings: Settings, digests: Digests, requests: u32, script: Script) -> Both {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::with(drive(), settings, Rate::REAL);
        world.queue();
        let profiles =
            HostProfiles::create(&folder.path().join("host"), "test", Choice::default()).unwrap();
        let mut target =
            TargetProfile::create(&folder.path().join("target"), "test", Rate::REAL).unwrap();
        target.starts(&profiles.clock());
        world.hub.profile_with(target);
        let mut profile = profiles.job(&profiles.clock()).unwrap();
        profile.connected(1, QUEUE);
        let config = HostConfig {
            digests,
            ready_to_transfer_max: requests,
            commands: SLOTS,
            ..HostConfig::default()
        };
        let mut both = Both {
            id: world.bare(),
            world,
            script,
            host: Host::new(config),
            flights: Flights::new(SLOTS.into()),
            profile,
            profiles,
            folder,
            under_way: vec![None; SLOTS.into()],
            there: VecDeque::new(),
            back: VecDeque::new(),
            done: 0,
            failed: 0,
        };
        both.connect(config);
        both
    }

    /// Connects the queue anew.
    fn connect(&mut self, config: HostConfig) {
        self.host = Host::new(config);
        self.host.tell_transfers();
        self.flights = Flights::new(SLOTS.into());
        self.under_way.fill(None);
        self.turn(&mut Bytes);
        let mut data = ConnectData::new_zeroed();
        data.controller_id.set(1);
        data.subsystem_nqn[..NQN.len()].copy_from_slice(NQN.as_bytes());
        data.host_nqn[..HOST.len()].copy_from_slice(HOST.as_bytes());
        let mut connect = fabrics(opcode::fabrics::CONNECT);
        connect.dword10.set(u32::from(QUEUE) << 16);
        connect.dword11.set(127 | 4 << 16);
        let mut bytes = ConnectBytes(data);
        let movement = Movement::FromHost(1024);
        let slot = self.host.submit(&connect, movement, &mut bytes).expect("a slot");
        self.flights.submitted(slot, &connect, movement, &self.host, 0);
        while self.host.outstanding() > 0 {
            self.turn(&mut bytes);
        }
        self.host.set_in_capsule_bytes(8192);
        assert!(self.world.hub.is_connected(self.id));
    }

    fn pass(&mut self, point: Point) {
        let span = self.script.next(point);
        self.world.wall += span;
    }

    fn submit(&mut self, io: Io) {
        let created = self.world.wall;
        self.pass(Point::Created);
        let submitted = self.world.wall;
        let bytes = io.blocks * 512;
        let (entry, movement) = match io.kind {
            Kind::Read => {
                (blocks_of(opcode::nvm::READ, io.block, io.blocks), Movement::ToHost(bytes))
            }
            Kind::Write => {
                (blocks_of(opcode::nvm::WRITE, io.block, io.blocks), Movement::FromHost(bytes))
            }
            _ => {
                let mut entry =
                    SubmissionEntry { opcode: opcode::nvm::FLUSH, ..Default::default() };
                entry.namespace_id.set(1);
                (entry, Movement::None)
            }
        };
        let ahead = self.host.unsent();
        let slot = self.host.submit(&entry, movement, &mut Bytes).expect("a slot is free");
        self.flights.submitted(slot, &entry, movement, &self.host, ahead);
        self.under_way[usize::from(slot)] = Some((io, created, submitted));
    }

    /// Everybody does what there is to do, once.
    fn turn(&mut self, payload: &mut impl Payload) {
        self.host_sends(payload);
        self.target_receives();
        self.look();
        self.host_receives(payload);
    }

    fn host_sends(&mut self, payload: &mut impl Payload) {
        let had = self.host.unsent();
        if self.host.output(payload).is_empty() {
            return;
        }
        self.flights.take_transfers(&mut self.host);
        self.pass(if self.host.unsent() > had { Point::Turn } else { Point::Submitted });
        let began = self.world.wall;
        let bytes = self.host.output(payload).to_vec();
        // The target has them before the call returns.
        let arrives = began + self.script.next(Point::WayThere);
        self.pass(Point::Call);
        self.host.sent(bytes.len());
        self.flights.sent(bytes.len(), began, self.world.wall);
        self.there.push_back((bytes, arrives));
    }

    fn target_receives(&mut self) {
        while let Some((bytes, at)) = self.there.pop_front() {
            self.world.wall = self.world.wall.max(at);
            self.pass(Point::Unseen);
            let arrival = Arrival::stamped(at, Span::ZERO, self.world.wall);
            self.world.give_arrived(self.id, &bytes, arrival);
        }
    }

    /// The target looks, and sends what there is.
    fn look(&mut self) {
        if let Some(next) = self.world.hub.next_at()
            && !self.world.hub.is_dirty()
            && self.world.hub.outstanding() > 0
            && self.there.is_empty()
        {
            self.world.wall = self.world.wall.max(next);
        }
        self.pass(Point::Look);
        self.world.hub.advance(self.world.now());
        while let Some(id) = self.world.hub.next_dirty() {
            self.pass(Point::Output);
            let began = self.world.wall;
            self.world.hub.sends(began);
            let mut bytes = Vec::new();
            for slice in self.world.hub.output(id, 1024) {
                bytes.extend_from_slice(&slice);
            }
            let arrives = began + self.script.next(Point::WayBack);
            self.pass(Point::Call);
            self.world.hub.sent(self.world.now(), id, bytes.len());
            self.world.hub.settle(id);
            self.back.push_back((bytes, arrives));
        }
    }

    fn host_receives(&mut self, payload: &mut impl Payload) {
        while let Some((bytes, at)) = self.back.pop_front() {
            self.world.wall = self.world.wall.max(at);
            self.pass(Point::Unread);
            let seen = self.world.wall;
            let mut left = &bytes[..];
            while !left.is_empty() {
                let buffer = self.host.receive_buffer();
                let part = buffer.len().min(left.len());
                buffer[..part].copy_from_slice(&left[..part]);
                left = &left[part..];
                self.host.received(part);
                self.flights.received(at);
                loop {
                    let event = self.host.poll(payload).expect("the target keeps the rules");
                    self.flights.take_transfers(&mut self.host);
                    let Some(event) = event else { break };
                    if let Event::Completed { slot, entry, .. } = event {
                        self.ended(slot, entry.status().to_bits() & 0x7ff, seen);
                    }
                }
            }
        }
    }

    fn ended(&mut self, slot: u16, status: u16, seen: Time) {
        let (flight, arrived, batch) = self.flights.ended(slot).expect("a flight");
        let Some((io, created, submitted)) = self.under_way[usize::from(slot)].take() else {
            return;
        };
        let handed = seen + self.script.next(Point::Handing);
        self.done += 1;
        self.failed += u64::from(status != 0);
        self.profile.ended(
            flight,
            &Ended {
                kind: io.kind,
                bytes: None,
                status,
                created,
                submitted,
                arrived,
                seen,
                handed,
                batch,
            },
        );
        self.world.wall = self.world.wall.max(handed);
    }

    /// Does all of these, so many at a time.
    fn run(&mut self, ios: &[Io], depth: usize) {
        let mut left = ios.iter();
        loop {
            while self.host.outstanding() < depth
                && let Some(&io) = left.next()
            {
                self.submit(io);
            }
            if self.host.outstanding() == 0 {
                break;
            }
            self.turn(&mut Bytes);
        }
    }

    /// The connection is lost, and made anew.
    fn reconnect(&mut self, config: HostConfig) {
        self.world.hub.close(self.world.now(), self.id);
        self.there.clear();
        self.back.clear();
        self.id = self.world.bare();
        self.connect(config);
    }

    fn joined(self) -> (Joined, tempfile::TempDir) {
        drop(self.profile);
        self.profiles.finish().unwrap();
        let path = |name: &str| -> PathBuf { self.folder.path().join(name) };
        (join(&[path("host")], &[path("target")]).expect("both sides"), self.folder)
    }
}

/// Every path: what it was, and its stages by name.
fn paths(joined: &Joined) -> Vec<(Head, BTreeMap<String, Span>)> {
    let profile = Profile::new(&joined.profile[..]).unwrap();
    let names = profile.header().stages.clone();
    let mut records = profile.records();
    let mut all = vec![];
    while let Some(record) = records.next_record().unwrap() {
        assert_eq!(record.residual(), 0, "{record:?}");
        let stages = names.iter().cloned().zip(record.stages.iter().copied());
        all.push((record.head, stages.collect()));
    }
    all
}

fn settings(pdu_bytes: u32, ready_bytes: u32) -> Settings {
    Settings { data_to_host_bytes: pdu_bytes, ready_bytes, ..Settings::default() }
}

fn ios() -> impl Strategy<Value = Vec<Io>> {
    let kind = prop_oneof![4 => Just(Kind::Read), 4 => Just(Kind::Write), 1 => Just(Kind::Flush)];
    let blocks = prop_oneof![Just(8u32), Just(16), Just(64), Just(256)];
    // The drive has some 100,000 blocks: some are out of range.
    let io = (kind, 0..2_000u64, blocks, 0..50u8).prop_map(|(kind, block, blocks, wrong)| Io {
        kind,
        block: if wrong == 0 { 1 << 40 } else { block * 8 },
        blocks,
    });
    prop::collection::vec(io, 1..40)
}

fn script() -> impl Strategy<Value = Script> {
    let points = [
        Point::Created,
        Point::Submitted,
        Point::WayThere,
        Point::Unseen,
        Point::Look,
        Point::Output,
        Point::WayBack,
        Point::Unread,
        Point::Handing,
        Point::Turn,
        Point::Call,
    ];
    let delays = prop::collection::vec(prop::collection::vec(0..30_000u32, 1..6), points.len());
    delays.prop_map(move |delays| Script {
        delays: points.into_iter().zip(delays).collect(),
        next: BTreeMap::new(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Reads with one data PDU and many, with and without digests, writes in capsules and with one
    /// request for data and many, flushes, errors, and a connection that was made anew: each I/O has
    /// a path, whose stages add up, and none had to be made non-negative.
    #[test]
    fn every_io_has_a_path_that_adds_up(
        ios in ios(),
        script in script(),
        depth in 1..8usize,
        pdu_bytes in prop_oneof![Just(4096u32), Just(1 << 20)],
        ready_bytes in prop_oneof![Just(16384u32), Just(1 << 20)],
        requests in 1..4u32,
        digests in any::<bool>(),
        again in any::<bool>(),
    ) {
        let digests = Digests { header: digests, data: digests };
        let mut both = Both::new(settings(pdu_bytes, ready_bytes), digests, requests, script);
        both.run(&ios, depth);
        if again {
            let commands = SLOTS;
            let config = HostConfig {
                digests, ready_to_transfer_max: requests, commands, ..HostConfig::default()
            };
            both.reconnect(config);
            both.run(&ios, depth);
        }
        let (done, failed) = (both.done, both.failed);
        prop_assert_eq!(done, ios.len() as u64 * (1 + u64::from(again)));
        let (joined, _folder) = both.joined();
        prop_assert_eq!((joined.paths, joined.host_alone, joined.target_alone), (done, 0, 0));
        prop_assert!(joined.one_clock);
        prop_assert_eq!(joined.clamped, 0);
        let paths = paths(&joined);
        let statuses = paths.iter().filter(|(head, _)| head.status != 0).count() as u64;
        prop_assert_eq!(statuses, failed);
        for (head, stages) in &paths {
            let was_asked = head.opcode == opcode::nvm::WRITE && head.bytes > 8192;
            prop_assert!(was_asked || stages["network_r2t"].is_zero());
        }
    }
}

/// The mean of each stage of so many equal I/Os, one at a time, with this script.
fn means(kind: Kind, blocks: u32, script: Script) -> BTreeMap<String, u64> {
    let mut both = Both::new(Settings::default(), Digests::default(), 1, script);
    let ios: Vec<_> = (0..20).map(|n| Io { kind, block: n * 256, blocks }).collect();
    both.run(&ios, 1);
    let (joined, _folder) = both.joined();
    assert_eq!(joined.paths, 20);
    let mut sums = BTreeMap::new();
    for (_, stages) in paths(&joined) {
        for (name, span) in stages {
            *sums.entry(name).or_insert(0) += span.as_ps();
        }
    }
    sums.into_iter().map(|(name, sum)| (name, sum / 20)).collect()
}

/// What takes longer in one place does so in the stage of that place, by as much, and in no other.
#[test]
fn a_delay_is_in_the_stage_that_it_is_in() {
    let everywhere: &[(Point, &str)] = &[
        (Point::Created, "host_queue"),
        (Point::Submitted, "host_submit"),
        (Point::WayThere, "network_request"),
        (Point::Look, "late"),
        (Point::Output, "output"),
        (Point::WayBack, "network_response"),
        (Point::Unread, "host_receive"),
        (Point::Handing, "host_complete"),
    ];
    let asked: &[(Point, &str)] = &[
        (Point::Created, "host_queue"),
        (Point::Submitted, "host_submit"),
        (Point::Handing, "host_complete"),
        (Point::Turn, "host_turn"),
    ];
    let cases =
        [(Kind::Read, 8, everywhere), (Kind::Write, 8, everywhere), (Kind::Write, 128, asked)];
    for (kind, blocks, points) in cases {
        let base = means(kind, blocks, Script::default());
        for &(point, expected) in points {
            // While a write is in the cache, the model has other things to do, and a look that is late
            // for those can be in time for the write.
            if (kind, point) == (Kind::Write, Point::Look) {
                continue;
            }
            for added in [1u32, 700, 40_000] {
                let mut script = Script::default();
                script.delays.insert(point, vec![100 + added]);
                let slowed = means(kind, blocks, script);
                for (stage, &before) in &base {
                    let more = slowed[stage].saturating_sub(before);
                    let less = before.saturating_sub(slowed[stage]);
                    let wanted = if stage == expected { u64::from(added) * 1_000 } else { 0 };
                    assert_eq!((more, less), (wanted, 0), "{kind:?} {blocks} {point:?}: {stage}");
                }
            }
        }
    }
}

/// I/Os of one class, and how they go over the wire.
struct Class {
    name: &'static str,
    /// Blocks, of each kind that there is.
    ios: &'static [(Kind, u32)],
    pdu_bytes: u32,
    ready_bytes: u32,
    digests: bool,
    /// One in so many is out of range.
    wrong: u64,
    /// The connection is made anew after so many.
    reconnects: usize,
}

const PLAIN: Class = Class {
    name: "",
    ios: &[],
    pdu_bytes: 1 << 20,
    ready_bytes: 1 << 20,
    digests: false,
    wrong: u64::MAX,
    reconnects: usize::MAX,
};
const MIX: &[(Kind, u32)] =
    &[(Kind::Read, 8), (Kind::Write, 8), (Kind::Write, 64), (Kind::Read, 64)];
const CLASSES: [Class; 9] = [
    Class { name: "reads, one data PDU", ios: &[(Kind::Read, 8)], ..PLAIN },
    Class { name: "reads, many data PDUs", ios: &[(Kind::Read, 64)], pdu_bytes: 4096, ..PLAIN },
    Class { name: "writes in capsules", ios: &[(Kind::Write, 8)], ..PLAIN },
    Class { name: "writes, one request for data", ios: &[(Kind::Write, 64)], ..PLAIN },
    Class {
        name: "writes, several requests",
        ios: &[(Kind::Write, 64)],
        ready_bytes: 16_384,
        ..PLAIN
    },
    Class { name: "flushes among reads", ios: &[(Kind::Flush, 0), (Kind::Read, 8)], ..PLAIN },
    Class { name: "digests", ios: MIX, digests: true, pdu_bytes: 4096, ..PLAIN },
    Class { name: "errors", ios: MIX, wrong: 2, ..PLAIN },
    Class { name: "connections made anew", ios: MIX, reconnects: 1_000, ..PLAIN },
];

/// Does so many I/Os of a class with delays drawn from the seed; how many had a path.
fn conserved(class: &Class, count: usize, seed: u64) -> u64 {
    let mut word = seed;
    let mut random = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word >> 33
    };
    let points = [
        Point::Created,
        Point::Submitted,
        Point::WayThere,
        Point::Unseen,
        Point::Look,
        Point::Output,
        Point::WayBack,
        Point::Unread,
        Point::Handing,
        Point::Turn,
        Point::Call,
    ];
    let delays =
        points.map(|point| (point, (0..101).map(|_| (random() % 30_000) as u32).collect()));
    let script = Script { delays: delays.into(), next: BTreeMap::new() };
    let digests = Digests { header: class.digests, data: class.digests };
    let requests = 1 + (random() % 3) as u32;
    let depth = 1 + (random() % 8) as usize;
    let settings = settings(class.pdu_bytes, class.ready_bytes);
    let mut both = Both::new(settings, digests, requests, script);
    let ios: Vec<Io> = (0..count as u64)
        .map(|n| {
            let (kind, blocks) = class.ios[random() as usize % class.ios.len()];
            let is_wrong = n % class.wrong == class.wrong - 1 && kind != Kind::Flush;
            let block = if is_wrong { 1 << 40 } else { random() % 2_000 * 8 };
            Io { kind, block, blocks }
        })
        .collect();
    let config = HostConfig {
        digests,
        ready_to_transfer_max: requests,
        commands: SLOTS,
        ..HostConfig::default()
    };
    for (number, part) in ios.chunks(class.reconnects.min(count)).enumerate() {
        if number > 0 {
            both.reconnect(config);
        }
        both.run(part, depth);
    }
    let (done, failed) = (both.done, both.failed);
    let (joined, _folder) = both.joined();
    assert_eq!((done, joined.paths), (count as u64, count as u64), "{}", class.name);
    assert_eq!((joined.host_alone, joined.target_alone), (0, 0), "{}", class.name);
    assert_eq!((joined.clamped, joined.one_clock), (0, true), "{}", class.name);
    assert!(class.wrong == u64::MAX || failed > 0, "{}", class.name);
    // Each has a residual of 0, and no stage can be negative.
    let profile = Profile::new(&joined.profile[..]).unwrap();
    let (mut records, mut found) = (profile.records(), 0);
    while let Some(record) = records.next_record().unwrap() {
        assert_eq!(record.residual(), 0, "{}: {record:?}", class.name);
        found += 1;
    }
    assert_eq!(found, count as u64, "{}", class.name);
    found
}

#[test]
fn each_class_adds_up() {
    for class in &CLASSES {
        conserved(class, 2_200, 1);
    }
}

/// `cargo test -p mynah-runtime --test target -- --ignored a_million --nocapture`
#[test]
#[ignore = "minutes"]
fn a_million_of_each_class_add_up() {
    // A ring holds so many, of which writes that are asked for take two places.
    const PART: usize = 12_500;
    for class in &CLASSES {
        let ios: u64 = (0..1_000_000 / PART as u64).map(|seed| conserved(class, PART, seed)).sum();
        println!("{}: {ios} I/Os, each with a path that adds up, no stage negative", class.name);
        assert_eq!(ios, 1_000_000);
    }
}
