//! Host and target joined: what one says the other hears, in pieces, late, and sometimes
//! spoilt. Who moves when is drawn, so that everything that time can do to a connection
//! happens.

use mynah_wire::fabrics::Connect;
use mynah_wire::nvme::command::FabricsCommand;
use mynah_wire::nvme::opcode::nvm;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use mynah_wire::tcp::digest::Digests;
use mynah_wire::tcp::host::{Event, Host, HostConfig, Movement, Payload};
use mynah_wire::tcp::pool::TransferPool;
use mynah_wire::tcp::target::{self, Connection, Settings};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

/// The data of command `number`.
fn byte(number: u32, offset: u32) -> u8 {
    (number.wrapping_mul(0x9e37_79b9) >> 24) as u8 ^ (offset.wrapping_mul(0x85eb_ca6b) >> 23) as u8
}

fn data(number: u32, bytes: u32) -> Vec<u8> {
    (0..bytes).map(|offset| byte(number, offset)).collect()
}

#[derive(Clone, Copy)]
struct Command {
    number: u32,
    writes: bool,
    bytes: u32,
}

/// The host's side of commands, by slot.
#[derive(Default)]
struct Memory {
    commands: HashMap<u16, Command>,
    read: HashMap<u16, Vec<u8>>,
    /// The command that is being submitted.
    fresh: Option<Command>,
}

impl Payload for Memory {
    fn fill(&mut self, slot: u16, offset: u32, into: &mut [u8]) {
        let number = self.fresh.unwrap_or_else(|| self.commands[&slot]).number;
        for (at, into) in (offset..).zip(into) {
            *into = byte(number, at);
        }
    }

    fn place(&mut self, slot: u16, offset: u32, from: &[u8]) {
        let read = self.read.entry(slot).or_default();
        assert_eq!(read.len(), offset as usize);
        read.extend_from_slice(from);
    }
}

/// A flipped bit: which byte after the start, of which direction.
#[derive(Clone, Copy, Debug)]
struct Damage {
    to_host: bool,
    at: usize,
    bit: u8,
}

struct World {
    host: Host,
    memory: Memory,
    target: Connection,
    pool: TransferPool,
    /// Bytes on their way: to the target, to the host.
    wires: [VecDeque<u8>; 2],
    carried: [usize; 2],
    damage: Option<Damage>,
    /// Commands that the target has and has not answered.
    pending: Vec<SubmissionEntry>,
    next: u32,
    completed: u32,
    /// Either end has given up.
    over: bool,
}

impl World {
    /// A connection that is initialised and connected.
    fn new(config: HostConfig, settings: Settings) -> World {
        let mut world = World {
            host: Host::new(config),
            memory: Memory::default(),
            target: Connection::new(settings),
            pool: TransferPool::new(4 << 20),
            wires: Default::default(),
            carried: [0; 2],
            damage: None,
            pending: Vec::new(),
            next: 0,
            completed: 0,
            over: false,
        };
        world.settle();
        world.host.set_in_capsule_bytes(settings.capsule_data_bytes);
        let mut entry = SubmissionEntry::default();
        let connect = Connect {
            record_format: 0,
            queue_id: 1,
            queue_size: config.commands,
            attributes: 1 << 2,
            keep_alive_ms: 0,
        };
        connect.put(&mut entry);
        world.issue(entry, true, 1_024);
        world.settle();
        assert_eq!((world.completed, world.over), (1, false));
        world.carried = [0; 2];
        world
    }

    fn issue(&mut self, mut entry: SubmissionEntry, writes: bool, bytes: u32) {
        if !self.host.can_submit() {
            return;
        }
        let command = Command { number: self.next, writes, bytes };
        entry.dword14.set(command.number);
        entry.dword15.set(bytes);
        let movement = match writes {
            true => Movement::FromHost(bytes),
            false => Movement::ToHost(bytes),
        };
        self.memory.fresh = Some(command);
        let slot = self.host.submit(&entry, movement, &mut self.memory).expect("it can");
        self.memory.fresh = None;
        assert!(self.memory.commands.insert(slot, command).is_none(), "slot {slot} was in use");
        self.next += 1;
    }

    /// The host's output goes onto the wire.
    fn host_says(&mut self, most: usize) {
        let output = self.host.output(&mut self.memory);
        let count = output.len().min(most);
        self.wires[0].extend(&output[..count]);
        self.host.sent(count);
    }

    fn target_says(&mut self, most: usize) {
        let count = self.target.output().len().min(most);
        self.wires[1].extend(&self.target.output()[..count]);
        self.target.sent(count);
    }

    /// Takes bytes off a wire, spoilt where that is wanted.
    fn carry(&mut self, wire: usize, into: usize) -> Vec<u8> {
        let count = self.wires[wire].len().min(into);
        let mut bytes: Vec<u8> = self.wires[wire].drain(..count).collect();
        if let Some(damage) = self.damage
            && damage.to_host == (wire == 1)
            && let Some(at) = damage.at.checked_sub(self.carried[wire])
            && at < bytes.len()
        {
            bytes[at] ^= 1 << (damage.bit % 8);
        }
        self.carried[wire] += count;
        bytes
    }

    fn target_hears(&mut self, most: usize) {
        let room = self.target.receive_buffer().len();
        let bytes = self.carry(0, most.min(room));
        self.target.receive_buffer()[..bytes.len()].copy_from_slice(&bytes);
        self.target.received(bytes.len());
        loop {
            match self.target.poll(&mut self.pool) {
                Some(target::Event::Command { entry, data: got, .. }) => {
                    let (number, bytes) = (entry.dword14.get(), entry.dword15.get());
                    if !got.is_empty() {
                        assert!(got == data(number, bytes), "the data of command {number}");
                    }
                    self.pending.push(entry);
                }
                Some(target::Event::Ended(_)) => self.over = true,
                None => {
                    if !self.target.wants_buffer() || !self.target.grant(&mut self.pool) {
                        return;
                    }
                }
            }
        }
    }

    fn host_hears(&mut self, most: usize) {
        let room = self.host.receive_buffer().len();
        let bytes = self.carry(1, most.min(room));
        self.host.receive_buffer()[..bytes.len()].copy_from_slice(&bytes);
        self.host.received(bytes.len());
        loop {
            match self.host.poll(&mut self.memory) {
                Ok(Some(Event::Completed { slot, entry, received })) => {
                    let command =
                        self.memory.commands.remove(&slot).expect("once for each command");
                    let read = self.memory.read.remove(&slot).unwrap_or_default();
                    if entry.status().is_success() && !command.writes {
                        assert_eq!(received, command.bytes);
                        assert!(read == data(command.number, command.bytes));
                    }
                    self.completed += 1;
                }
                Ok(Some(Event::Ready)) => {}
                Ok(None) => return,
                Err(_) => {
                    self.over = true;
                    return;
                }
            }
        }
    }

    /// The target answers one of the commands it has.
    fn answer(&mut self, which: usize, fails: bool) {
        if self.pending.is_empty() || !self.target.has_room() {
            return;
        }
        let entry = self.pending.swap_remove(which % self.pending.len());
        let id = entry.command_id.get();
        let (number, bytes) = (entry.dword14.get(), entry.dword15.get());
        if fails {
            self.target.respond(&CompletionEntry::new(id, Status::INTERNAL_ERROR, 0));
        } else if entry.opcode == nvm::READ {
            let answer = CompletionEntry::new(id, Status::SUCCESS, 0);
            self.target.respond_with_data(&answer, bytes, |into| {
                into.copy_from_slice(&data(number, bytes));
            });
        } else {
            if let Ok(FabricsCommand::Connect(connect)) = FabricsCommand::parse(&entry) {
                let (entries, flow_control) = (connect.entries(), connect.has_flow_control());
                self.target.connected(connect.queue_id, entries, flow_control);
            }
            self.target.respond(&CompletionEntry::new(id, Status::SUCCESS, 0));
        }
    }

    /// Everything goes on until nothing moves.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.host_says(usize::MAX);
            self.target_hears(usize::MAX);
            self.answer(0, false);
            self.target_says(usize::MAX);
            self.host_hears(usize::MAX);
            let wires_empty = self.wires.iter().all(VecDeque::is_empty);
            if self.over || (wires_empty && self.pending.is_empty() && self.idle()) {
                return;
            }
        }
        panic!("the connection does not come to rest");
    }

    fn idle(&mut self) -> bool {
        self.target.output().is_empty() && self.host.output(&mut self.memory).is_empty()
    }

    fn act(&mut self, (action, number): (u8, u16)) {
        let number = usize::from(number);
        let bytes = 1 + number as u32 % 40_000;
        match action {
            0 => {
                let entry = SubmissionEntry { opcode: nvm::READ, ..Default::default() };
                self.issue(entry, false, bytes);
            }
            1 => {
                let entry = SubmissionEntry { opcode: nvm::WRITE, ..Default::default() };
                self.issue(entry, true, bytes);
            }
            2 => self.host_says(number % 9_000),
            3 => self.target_hears(number % 9_000),
            4 => self.answer(number, number % 11 == 0),
            5 => self.target_says(number % 9_000),
            6 => self.host_hears(number % 9_000),
            // Small pieces, where headers end.
            7 => self.target_hears(number % 7),
            _ => self.host_hears(number % 7),
        }
    }
}

fn settings() -> impl Strategy<Value = (HostConfig, Settings)> {
    (any::<(bool, bool)>(), 0..32u8, 0..32u8, 1..5u32, 1..9u32, 0..3u32).prop_map(
        |((header, data), here, there, requests, ready, capsule)| {
            let digests = Digests { header, data };
            let config = HostConfig {
                digests,
                alignment: here,
                ready_to_transfer_max: requests,
                commands: 16,
            };
            let settings = Settings {
                capsule_data_bytes: 1_024 + 4_096 * capsule,
                data_pdu_bytes: 4_096,
                transfer_bytes: 64 << 10,
                ready_bytes: ready * 4_096,
                data_to_host_bytes: 6_000,
                alignment: there,
                output_bytes: 64 << 10,
                ..Settings::default()
            };
            (config, settings)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Every command is answered once, with its own data, whatever time does.
    #[test]
    fn all_commands_are_answered_with_their_data(
        (config, settings) in settings(),
        actions in prop::collection::vec((0..9u8, any::<u16>()), 1..200),
    ) {
        let mut world = World::new(config, settings);
        for action in actions {
            world.act(action);
            prop_assert!(!world.over, "nobody did anything wrong");
        }
        world.settle();
        prop_assert!(!world.over);
        prop_assert_eq!(world.completed, world.next);
        prop_assert_eq!(world.host.outstanding(), 0);
        prop_assert_eq!(world.pool.lent_bytes(), 0);
    }

    /// With digests, a flipped bit is never taken for data: the command fails or the
    /// connection ends.
    #[test]
    fn a_flipped_bit_is_noticed(
        (config, settings) in settings(),
        actions in prop::collection::vec((0..9u8, any::<u16>()), 20..120),
        to_host in any::<bool>(),
        at in 0..30_000usize,
        bit in any::<u8>(),
    ) {
        let config = HostConfig { digests: Digests { header: true, data: true }, ..config };
        let mut world = World::new(config, settings);
        world.damage = Some(Damage { to_host, at, bit });
        for action in actions {
            // The checks are in what the two ends hear.
            world.act(action);
            if world.over {
                return Ok(());
            }
        }
        // A length that was spoilt may leave one end waiting for bytes that never come; what
        // the header digest then shows is that.
        let before = world.next;
        for _ in 0..64 {
            world.host_says(usize::MAX);
            world.target_hears(usize::MAX);
            world.answer(0, false);
            world.target_says(usize::MAX);
            world.host_hears(usize::MAX);
        }
        prop_assert!(world.completed <= before);
    }
}
