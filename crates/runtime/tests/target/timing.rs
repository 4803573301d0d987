//! When completions become visible, in a time of the test's own.

use crate::client::{HOST, NQN, blocks_of, drive, fabrics};
use mynah_device::{Now, RamStore, Subsystem, SubsystemConfig, Transport};
use mynah_runtime::clock::Rate;
use mynah_runtime::hub::{Arrival, Hub, Id};
use mynah_stamp::{Span, Time};
use mynah_wire::fabrics::ConnectData;
use mynah_wire::nvme::entry::SGL_IN_CAPSULE;
use mynah_wire::nvme::{SubmissionEntry, opcode};
use mynah_wire::tcp::stream::{End, Initialization, Outbound};
use mynah_wire::tcp::target::Settings;
use proptest::prelude::*;
use zerocopy::{FromZeros, IntoBytes};

/// A hub, and a clock that the test sets.
struct World {
    hub: Hub,
    rate: Rate,
    wall: Time,
}

impl World {
    fn new(rate: Rate) -> World {
        let config = SubsystemConfig::new(NQN);
        let subsystem = Subsystem::new(config, drive().drive, Box::new(RamStore::new()));
        let hub = Hub::new(subsystem.expect("a subsystem"), Settings::default(), 1 << 20, rate);
        World { hub, rate, wall: Time::ZERO }
    }

    fn now(&self) -> Now {
        Now { wall: self.wall, model: self.rate.model(self.wall) }
    }

    fn open(&mut self) -> Id {
        let transport = Transport {
            in_capsule_bytes: 8192,
            max_transfer_bytes: 1 << 20,
            peer: "test".into(),
            port: 0,
            kind: 3,
            host_nqn: None,
        };
        let id = self.hub.open(self.now(), transport);
        let mut out = Outbound::new(End::Host);
        out.initialize(Initialization { version: 0, alignment: 0, digests: 0, limit: 0 });
        self.give(id, out.bytes());
        id
    }

    fn give(&mut self, id: Id, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let buffer = self.hub.receive_buffer(id).expect("room");
            let part = buffer.len().min(bytes.len());
            buffer[..part].copy_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            self.hub.received(id, part, Arrival::seen(self.wall, Span::ZERO));
            while self.hub.work(id, 3) {}
        }
        self.look();
    }

    /// The hub at this moment; everything it has to send is sent.
    fn look(&mut self) {
        let now = self.now();
        self.hub.advance(now);
        while let Some(id) = self.hub.next_dirty() {
            let bytes = self.hub.output_bytes(id);
            self.hub.sent(now, id, bytes);
        }
        assert_eq!(self.hub.next_ended(), None);
    }

    fn command(&mut self, id: Id, mut entry: SubmissionEntry, command_id: u16, data: &[u8]) {
        entry.flags = 0x40;
        entry.command_id.set(command_id);
        entry.data.kind = if data.is_empty() { 0x5a } else { SGL_IN_CAPSULE };
        if !data.is_empty() {
            entry.data.length.set(data.len() as u32);
        }
        let mut out = Outbound::new(End::Host);
        out.command(&entry, data.len() as u32, |into| into.copy_from_slice(data));
        self.give(id, out.bytes());
    }

    /// An I/O queue of 128 entries, on a controller of its own.
    fn queue(&mut self) -> Id {
        let mut controller = 0xffff;
        let mut queue = 0;
        for number in 0..2u16 {
            queue = self.open();
            let mut data = ConnectData::new_zeroed();
            data.controller_id.set(controller);
            data.subsystem_nqn[..NQN.len()].copy_from_slice(NQN.as_bytes());
            data.host_nqn[..HOST.len()].copy_from_slice(HOST.as_bytes());
            let mut connect = fabrics(opcode::fabrics::CONNECT);
            connect.dword10.set(u32::from(number) << 16);
            connect.dword11.set(127 | 4 << 16);
            self.command(queue, connect, 0, data.as_bytes());
            assert!(self.hub.is_connected(queue));
            if number == 0 {
                controller = 1;
                let mut enable = fabrics(opcode::fabrics::PROPERTY_SET);
                enable.dword11.set(0x14);
                enable.dword12.set(0x46_0001);
                self.command(queue, enable, 1, &[]);
            }
        }
        queue
    }

    /// Reads and writes, four at a time, with looks `delays` after the moments at which
    /// something was due. Returns the largest lateness and how many commands were late.
    fn run(&mut self, requests: &[(bool, u16)], delays: &[u32]) -> (Span, u64) {
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

fn requests() -> impl Strategy<Value = Vec<(bool, u16)>> {
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
