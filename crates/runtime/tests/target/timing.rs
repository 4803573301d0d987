//! When completions become visible, in a time of the test's own.

use crate::client::{HOST, NQN, blocks_of, drive, ethernet_drive, fabrics};
use mynah_device::{Now, RamStore, Subsystem, SubsystemConfig, Transport};
use mynah_lab::emulation::Prepared;
use mynah_runtime::clock::Rate;
use mynah_runtime::hub::{Arrival, Found, Hub, Id, PathMeter, RoundTrips};
use mynah_runtime::quota::{Peer, Quotas};
use mynah_stamp::{Span, Time};
use mynah_wire::fabrics::ConnectData;
use mynah_wire::nvme::entry::SGL_IN_CAPSULE;
use mynah_wire::nvme::{SubmissionEntry, opcode};
use mynah_wire::tcp::stream::{End, Initialization, Outbound};
use mynah_wire::tcp::target::Settings;
use proptest::prelude::*;
use zerocopy::{FromZeros, IntoBytes};

/// A command, with its data behind it.
fn capsule(mut entry: SubmissionEntry, command_id: u16, data: &[u8]) -> Vec<u8> {
    entry.flags = 0x40;
    entry.command_id.set(command_id);
    entry.data.kind = if data.is_empty() { 0x5a } else { SGL_IN_CAPSULE };
    if !data.is_empty() {
        entry.data.length.set(data.len() as u32);
    }
    let mut out = Outbound::new(End::Host);
    out.command(&entry, data.len() as u32, |into| into.copy_from_slice(data));
    out.bytes().to_vec()
}

/// A hub, and a clock that the test sets.
pub(crate) struct World {
    pub(crate) hub: Hub,
    rate: Rate,
    pub(crate) wall: Time,
    controllers: u16,
    /// What was sent on a connection.
    pub(crate) heard: Vec<u8>,
    pub(crate) listens_to: Option<Id>,
}

impl World {
    pub(crate) fn new(rate: Rate) -> World {
        World::on(drive(), rate)
    }

    /// The same around this drive.
    pub(crate) fn on(drive: Prepared, rate: Rate) -> World {
        World::with(drive, Settings::default(), rate)
    }

    /// The same with connections like this.
    pub(crate) fn with(drive: Prepared, settings: Settings, rate: Rate) -> World {
        let config = SubsystemConfig::new(NQN);
        let subsystem = Subsystem::new(config, drive.drive, Box::new(RamStore::new()));
        let subsystem = subsystem.expect("a subsystem");
        let hub = Hub::new(subsystem, settings, Quotas::default(), rate);
        let (wall, controllers, heard) = (Time::ZERO, 0, vec![]);
        World { hub, rate, wall, controllers, heard, listens_to: None }
    }

    pub(crate) fn now(&self) -> Now {
        Now { wall: self.wall, model: self.rate.model(self.wall) }
    }

    /// A connection on which nothing has been said.
    pub(crate) fn bare(&mut self) -> Id {
        let transport = Transport {
            in_capsule_bytes: 8192,
            max_transfer_bytes: 1 << 20,
            peer: "test".into(),
            source: 0,
            local: None,
            port: 0,
            kind: 3,
            host_nqn: None,
        };
        self.hub.open(self.now(), Peer::LOCAL, transport)
    }

    fn open(&mut self) -> Id {
        let id = self.bare();
        let mut out = Outbound::new(End::Host);
        out.initialize(Initialization { version: 0, alignment: 0, digests: 0, limit: 0 });
        self.give(id, out.bytes());
        id
    }

    fn give(&mut self, id: Id, bytes: &[u8]) {
        self.give_arrived(id, bytes, Arrival::seen(self.wall, Span::ZERO));
        self.look();
    }

    pub(crate) fn give_arrived(&mut self, id: Id, mut bytes: &[u8], arrival: Arrival) {
        while !bytes.is_empty() {
            let buffer = self.hub.receive_buffer(id).expect("room");
            let part = buffer.len().min(bytes.len());
            buffer[..part].copy_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            self.hub.received(id, part, arrival);
            while self.hub.work(id, 3) {}
        }
    }

    /// The hub at this moment; everything it has to send is sent.
    pub(crate) fn look(&mut self) {
        let now = self.now();
        self.hub.advance(now);
        while let Some(id) = self.hub.next_dirty() {
            let bytes = self.hub.output_bytes(id);
            if self.listens_to == Some(id) {
                let slices = self.hub.output(id, usize::MAX);
                slices.iter().for_each(|slice| self.heard.extend_from_slice(slice));
            }
            self.hub.sends(now.wall);
            self.hub.sent(now, id, bytes);
        }
        assert_eq!(self.hub.next_ended(), None);
    }

    pub(crate) fn command(&mut self, id: Id, entry: SubmissionEntry, command_id: u16, data: &[u8]) {
        self.give(id, &capsule(entry, command_id, data));
    }

    /// An I/O queue of 128 entries, on a controller of its own.
    pub(crate) fn queue(&mut self) -> Id {
        self.queues_of(HOST).1
    }

    /// The same of that host, and the controller's admin queue.
    pub(crate) fn queues_of(&mut self, host: &str) -> (Id, Id) {
        let mut queues = [0; 2];
        let mut controller = 0xffff;
        for number in 0..2u16 {
            let queue = self.open();
            queues[usize::from(number)] = queue;
            let mut data = ConnectData::new_zeroed();
            data.controller_id.set(controller);
            data.subsystem_nqn[..NQN.len()].copy_from_slice(NQN.as_bytes());
            data.host_nqn[..host.len()].copy_from_slice(host.as_bytes());
            let mut connect = fabrics(opcode::fabrics::CONNECT);
            connect.dword10.set(u32::from(number) << 16);
            connect.dword11.set(127 | 4 << 16);
            self.command(queue, connect, 0, data.as_bytes());
            assert!(self.hub.is_connected(queue));
            if number == 0 {
                self.controllers += 1;
                controller = self.controllers;
                let mut enable = fabrics(opcode::fabrics::PROPERTY_SET);
                enable.dword11.set(0x14);
                enable.dword12.set(0x46_0001);
                self.command(queue, enable, 1, &[]);
            }
        }
        (queues[0], queues[1])
    }

    /// Reads and writes, four at a time, with looks `delays` after the moments at which
    /// something was due. Returns the largest lateness and how many commands were late.
    pub(crate) fn run(&mut self, requests: &[(bool, u16)], delays: &[u32]) -> (Span, u64) {
        let queue = self.queue();
        let mut delays = delays.iter().cycle();
        let mut left = requests.iter().enumerate();
        loop {
            while self.hub.outstanding() < 4
                && let Some((number, &(write, block))) = left.next()
            {
                let block = u64::from(block) * 8;
                let id = number as u16;
                match write {
                    true => {
                        let entry = blocks_of(opcode::nvm::WRITE, block, 8);
                        self.command(queue, entry, id, &[1; 4096]);
                    }
                    false => self.command(queue, blocks_of(opcode::nvm::READ, block, 8), id, &[]),
                }
            }
            if self.hub.outstanding() == 0 {
                break;
            }
            let next = self.hub.next_at().expect("something is under way");
            let delay = *delays.next().expect("a cycle goes on");
            self.wall = self.wall.max(next) + Span::from_ns(delay.into());
            self.look();
        }
        let measure = self.hub.measure();
        let totals = measure.totals();
        assert_eq!((totals.reads + totals.writes) as usize, requests.len());
        assert_eq!(totals.failed, 0);
        let late = measure.lateness().late_histogram();
        assert_eq!(late.count() as usize, requests.len());
        (late.max().unwrap_or_default(), late.count())
    }
}

pub(crate) fn requests() -> impl Strategy<Value = Vec<(bool, u16)>> {
    prop::collection::vec((any::<bool>(), 0..1000u16), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Looked at exactly when something is due, no command is late by more than the model's
    /// clock takes to tick; and none is ever early, which the lateness could not express.
    #[test]
    fn looks_in_time_make_no_lateness(
        requests in requests(),
        factor in prop_oneof![Just(1.0), Just(0.1), Just(3.7)],
    ) {
        let rate = Rate::new(factor).unwrap();
        let (late, _) = World::new(rate).run(&requests, &[0]);
        prop_assert!(late <= Span::from_ps(100), "{late}");
    }

    /// Lateness is what the looks were late by, and not more.
    #[test]
    fn late_looks_are_the_only_lateness(
        requests in requests(),
        delays in prop::collection::vec(0..20_000u32, 1..5),
    ) {
        let (late, _) = World::new(Rate::REAL).run(&requests, &delays);
        let most = *delays.iter().max().unwrap();
        prop_assert!(late <= Span::from_ns(most.into()), "{late} with looks up to {most} ns late");
    }
}

#[test]
fn an_idle_connection_costs_little_memory() {
    let mut world = World::new(Rate::REAL);
    let requests: Vec<_> = (0..500).map(|n| (n % 2 == 0, n)).collect();
    world.run(&requests, &[0]);
    for id in 0..2 {
        world.hub.shrink(id);
        let bytes = world.hub.memory_bytes(id);
        assert!(bytes < 32 << 10, "{bytes} bytes");
    }
}

/// A read that came 5 us before it was seen ends when it would have ended had it been seen at
/// once, as long as that is still to come.
#[test]
fn commands_take_effect_when_they_came_and_not_when_they_were_seen() {
    let us = |us: u64| Time::from_ns(us * 1_000);
    let ended = |came: u64, seen: u64| {
        let mut world = World::new(Rate::REAL);
        let queue = world.queue();
        // Written, so that there is something to read.
        world.command(queue, blocks_of(opcode::nvm::WRITE, 0, 8), 7, &[1; 4096]);
        while world.hub.outstanding() > 0 {
            world.wall = world.hub.next_at().expect("something is under way");
            world.look();
        }
        let start = world.wall + Span::from_ms(50);
        world.wall = start;
        world.look();
        world.wall = start + us(seen).since(Time::ZERO);
        let read = capsule(blocks_of(opcode::nvm::READ, 0, 8), 8, &[]);
        let came = start + us(came).since(Time::ZERO);
        let uncertain = Span::from_us(3);
        world.give_arrived(queue, &read, Arrival::stamped(came, uncertain, world.wall));
        world.look();
        while world.hub.outstanding() > 0 {
            world.wall = world.hub.next_at().expect("something is under way");
            world.look();
        }
        let lateness = world.hub.measure().lateness();
        (world.wall.since(start), lateness.uncertain_histogram().max())
    };
    let (at_once, _) = ended(10, 10);
    let (later, uncertain) = ended(10, 15);
    assert!(at_once > Span::from_us(15), "it is under way when it is seen: {at_once}");
    assert_eq!(at_once, later);
    // The stamp is that of the last bytes: of the only command.
    assert_eq!(uncertain, Some(Span::ZERO));
    let (delayed, _) = ended(15, 15);
    assert_eq!(delayed, at_once + Span::from_us(5));
}

/// Data that go out from where the store has them are those of the moment at which they were
/// read, though the socket takes them bit by bit and the host writes the blocks meanwhile.
#[test]
fn data_under_way_are_not_overtaken_by_writes() {
    let mut world = World::new(Rate::REAL);
    let (reader, writer) = (world.queue(), world.queue());
    let settle = |world: &mut World| {
        while world.hub.outstanding() > 0 {
            world.wall = world.hub.next_at().expect("something is under way");
            let now = world.now();
            world.hub.advance(now);
            while let Some(id) = world.hub.next_dirty() {
                if id != reader {
                    let bytes = world.hub.output_bytes(id);
                    world.hub.sent(now, id, bytes);
                }
            }
        }
    };
    for block in 0..8 {
        world.command(writer, blocks_of(opcode::nvm::WRITE, block * 16, 16), 1, &[0xaa; 8192]);
        settle(&mut world);
    }
    let read = capsule(blocks_of(opcode::nvm::READ, 0, 128), 2, &[]);
    world.give_arrived(reader, &read, Arrival::seen(world.wall, Span::ZERO));
    settle(&mut world);
    let expected = 128 * 512;
    assert!(world.hub.output_bytes(reader) > expected);

    let mut received = Vec::new();
    for step in 0.. {
        let now = world.now();
        let left = world.hub.output_bytes(reader);
        if left == 0 {
            break;
        }
        // The first part is sent while the data are lent, the rest is taken before the write.
        let part = left.min(10_000);
        let mut slices = Vec::new();
        for slice in world.hub.output(reader, 1024) {
            slices.extend_from_slice(&slice);
        }
        received.extend_from_slice(&slices[..part]);
        world.hub.sent(now, reader, part);
        world.hub.settle(reader);
        // From the end on: what has not been sent yet.
        let write = blocks_of(opcode::nvm::WRITE, (7 - step % 8) * 16, 16);
        let bytes = capsule(write, 3, &[0xbb; 8192]);
        world.give_arrived(writer, &bytes, Arrival::seen(world.wall, Span::ZERO));
        settle(&mut world);
    }
    let old = received.iter().filter(|&&byte| byte == 0xaa).count();
    let new = received.iter().filter(|&&byte| byte == 0xbb).count();
    assert!(old >= expected && new < 100, "{old} old bytes, {new} new ones");
}

/// A host that has one command under way, at the other end of a path: what its commands take to it.
/// The path takes `there` and `back`, and `credit` of that is credited.
fn seen_by_a_host(
    requests: &[(bool, u16)],
    thinks: &[u32],
    (there, back): (Span, Span),
    credit: Span,
) -> Vec<Span> {
    let mut world = World::on(ethernet_drive(), Rate::REAL);
    let queue = world.queue();
    world.hub.set_credit(credit);
    let mut thinks = thinks.iter().cycle();
    let mut sent = Time::from_ns(2_000_000);
    let mut seen = vec![];
    for (number, &(write, block)) in requests.iter().enumerate() {
        world.wall = sent + there;
        let block = u64::from(block) * 8;
        match write {
            true => {
                let entry = blocks_of(opcode::nvm::WRITE, block, 8);
                world.command(queue, entry, number as u16, &[1; 4096]);
            }
            false => {
                let entry = blocks_of(opcode::nvm::READ, block, 8);
                world.command(queue, entry, number as u16, &[]);
            }
        }
        while world.hub.outstanding() > 0 {
            world.wall = world.wall.max(world.hub.next_at().expect("something is under way"));
            world.look();
        }
        let came = world.wall + back;
        seen.push(came.since(sent));
        sent = came + Span::from_ns((*thinks.next().expect("a cycle goes on")).into());
    }
    let measure = world.hub.measure();
    assert_eq!(measure.lateness().late_histogram().max(), Some(Span::ZERO));
    assert_eq!(measure.credited().verdict(), None);
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What a host sees of an Ethernet drive is what is modelled, to the picosecond, wherever on the
    /// way to it the time passes that is credited; without the credit, the path comes on top.
    #[test]
    fn a_credited_path_is_not_seen(
        requests in requests(),
        thinks in prop::collection::vec(0..50_000u32, 1..5),
        there in 0..2_000u64,
        back in 1..2_000u64,
    ) {
        let (there, back) = (Span::from_ns(there), Span::from_ns(back));
        let near = (Span::ZERO, Span::ZERO);
        let modelled = seen_by_a_host(&requests, &thinks, near, Span::ZERO);
        let seen = seen_by_a_host(&requests, &thinks, (there, back), there + back);
        prop_assert_eq!(&modelled, &seen);
        let on_top = seen_by_a_host(&requests, &thinks, (there, back), Span::ZERO);
        prop_assert!(on_top.iter().zip(&modelled).all(|(of, without)| of > without));
    }
}

/// What a host sees of reads, one at a time, over a path that takes so long for each of them, there and
/// back; credited is what the kernel's least round trip proves. And the credit at the end.
fn seen_over(paths: &[(Span, Span)], handshake: Span) -> (Vec<Span>, Span) {
    let mut world = World::on(ethernet_drive(), Rate::REAL);
    let queue = world.queue();
    let mut meter = PathMeter::default();
    meter.meet(Peer::LOCAL);
    world.hub.set_credit(meter.credit());
    // In whole microseconds, as the kernel has them, and as much too long as they can be.
    let kernel = |took: Span| Span::from_us(took.as_ps().div_ceil(Span::from_us(1).as_ps()));
    let mut trips = RoundTrips { least: Some(kernel(handshake)), count: 1 };
    let mut sent = Time::from_ns(2_000_000);
    let mut seen = vec![];
    for (number, &(there, back)) in paths.iter().enumerate() {
        if number % 50 == 0 {
            let (serial, host) = (1, Peer::LOCAL);
            meter.look([Found { serial, host, is_admin: false, trips: Some(trips) }].into_iter());
            world.hub.set_credit(meter.credit());
        }
        world.wall = sent + there;
        world.command(queue, blocks_of(opcode::nvm::READ, 0, 8), number as u16, &[]);
        while world.hub.outstanding() > 0 {
            world.wall = world.wall.max(world.hub.next_at().expect("something is under way"));
            world.look();
        }
        let came = world.wall + back;
        seen.push(came.since(sent));
        trips.least = trips.least.min(Some(kernel(there + back)));
        trips.count += 1;
        sent = came + Span::from_ns(700);
    }
    (seen, meter.credit())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever the path takes of each command, and however slow its first round trips are, no answer
    /// comes before its modelled time; in the end all is credited that the path always takes.
    #[test]
    fn a_measured_path_is_never_credited_with_more_than_it_takes(
        least in (0..4_000u64, 1..4_000u64),
        further in prop::collection::vec((0..9_000u64, 0..9_000u64), 1..60),
        cold in (0..300usize, 0..20_000u64),
    ) {
        let (first, slower) = cold;
        let path = |number: usize| {
            let (there, back) = further[number % further.len()];
            let cold = if number < first { slower } else { 0 };
            (Span::from_ns(least.0 + there + cold), Span::from_ns(least.1 + back))
        };
        let paths: Vec<_> = (0..1_600).map(path).collect();
        let modelled = seen_over(&[(Span::ZERO, Span::ZERO)], Span::from_us(50)).0[0];
        let (seen, credit) = seen_over(&paths, Span::from_us(50));
        for (number, seen) in seen.iter().enumerate() {
            prop_assert!(*seen >= modelled, "read {} took {}, modelled {}", number, seen, modelled);
        }
        let shortest = paths.iter().map(|(there, back)| *there + *back).min().unwrap();
        prop_assert!(credit <= shortest && shortest.saturating_sub(credit) <= Span::from_us(1));
    }
}

/// A host that is farther away than the drive is fast gets no answer before its command came, and the
/// run is not trusted.
#[test]
fn a_path_longer_than_the_drive_is_not_hidden() {
    let mut world = World::on(ethernet_drive(), Rate::REAL);
    let queue = world.queue();
    world.hub.set_credit(Span::from_ms(10));
    for number in 0..4 {
        world.wall += Span::from_ms(50);
        world.command(queue, blocks_of(opcode::nvm::READ, number * 8, 8), number as u16, &[]);
        assert_eq!(world.hub.outstanding(), 0, "it is answered at once");
    }
    let measure = world.hub.measure();
    assert_eq!((measure.credited().commands, measure.credited().short), (4, 4));
    assert!(measure.credited().verdict().is_some());
    let late = measure.lateness().late_histogram().max().unwrap();
    assert!(late > Span::from_ms(9), "{late}");
}
