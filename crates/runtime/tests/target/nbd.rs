//! Clients of NBD, in a time of the test's own: an export is an array of bytes whatever they do, and
//! nothing that they send harms anybody else.

use crate::client::{NQN, drive};
use mynah_device::{Now, RamStore, Subsystem, SubsystemConfig, Transport};
use mynah_runtime::clock::Rate;
use mynah_runtime::hub::{Arrival, Hub, Id};
use mynah_runtime::quota::{Peer, Quotas};
use mynah_stamp::{Span, Time};
use mynah_wire::nbd::{Command, REQUEST_BYTES, Request, command_flag};
use mynah_wire::tcp::target::Settings;
use proptest::prelude::*;
use std::collections::HashMap;

/// What one command moves at most here, so that requests are several.
const TRANSFER_BYTES: u32 = 16 << 10;
const GO: u32 = 7;
const EXPORT_NAME: u32 = 1;

fn number<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (head, rest) = bytes.split_first_chunk::<N>().expect("more bytes");
    *bytes = rest;
    *head
}

fn word(bytes: &mut &[u8]) -> u32 {
    u32::from_be_bytes(number(bytes))
}

fn long(bytes: &mut &[u8]) -> u64 {
    u64::from_be_bytes(number(bytes))
}

/// What a request came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    error: u32,
    data: Vec<u8>,
    extents: Vec<(u32, u32)>,
}

/// A client: what is said to it is read by rules that are written down here once more.
struct Talk {
    id: Id,
    structured: bool,
    /// Bytes that have come and not been read.
    heard: Vec<u8>,
    asked: HashMap<u64, Request>,
    partial: HashMap<u64, Outcome>,
    done: HashMap<u64, Outcome>,
    cookie: u64,
}

struct World {
    hub: Hub,
    wall: Time,
    /// What was sent on connections, and which of them were ended.
    said: HashMap<Id, Vec<u8>>,
    ended: Vec<Id>,
}

impl World {
    fn new() -> World {
        let config = SubsystemConfig::new(NQN);
        let subsystem = Subsystem::new(config, drive().drive, Box::new(RamStore::new()));
        let hub = Hub::new(
            subsystem.expect("a subsystem"),
            Settings::default(),
            Quotas::default(),
            Rate::REAL,
        );
        World { hub, wall: Time::ZERO, said: HashMap::new(), ended: vec![] }
    }

    fn now(&self) -> Now {
        Now { wall: self.wall, model: self.wall }
    }

    fn open(&mut self) -> Id {
        let transport = Transport {
            in_capsule_bytes: 0,
            max_transfer_bytes: TRANSFER_BYTES,
            peer: "test".into(),
            source: 0,
            local: None,
            port: 0,
            kind: 3,
            host_nqn: None,
        };
        let id = self.hub.open_nbd(self.now(), Peer::LOCAL, transport);
        self.look(usize::MAX);
        id
    }

    /// Sends bytes in pieces, the hub looking at each; false if nobody takes them any more.
    fn give(&mut self, id: Id, mut bytes: &[u8], piece: usize) -> bool {
        let mut patience = 10_000;
        while !bytes.is_empty() && patience > 0 {
            if let Some(buffer) = self.hub.receive_buffer(id) {
                let part = buffer.len().min(bytes.len()).min(piece.max(1));
                buffer[..part].copy_from_slice(&bytes[..part]);
                bytes = &bytes[part..];
                self.hub.received(id, part, Arrival::seen(self.wall, Span::ZERO));
            } else {
                patience -= 1;
                self.wall += Span::from_us(5);
            }
            while self.hub.work(id, 3) {}
            self.look(piece.max(1) * 100);
        }
        bytes.is_empty()
    }

    /// The hub at this moment; it may send so many bytes on each connection at once.
    fn look(&mut self, most: usize) {
        loop {
            let now = self.now();
            self.hub.advance(now);
            let mut worked = false;
            while let Some(id) = self.hub.next_resumed() {
                while self.hub.work(id, 7) {}
                worked = true;
            }
            while let Some(id) = self.hub.next_dirty() {
                worked = true;
                while self.hub.output_bytes(id) > 0 {
                    let output = self.hub.output(id, 1);
                    let part = output.first().map_or(0, |slice| slice.len().min(most));
                    let said = self.said.entry(id).or_default();
                    said.extend_from_slice(&output[0][..part]);
                    self.hub.sent(now, id, part);
                    while self.hub.has_more(id) && self.hub.work(id, 5) {}
                }
            }
            while let Some((id, _)) = self.hub.next_ended() {
                self.ended.push(id);
                worked = true;
            }
            if !worked {
                return;
            }
        }
    }

    /// Lets time pass until nothing is under way.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            self.look(usize::MAX);
            if self.hub.outstanding() == 0 {
                return;
            }
            self.wall = self.hub.next_at().map_or(self.wall, |at| at.max(self.wall));
        }
        panic!("commands that never end");
    }
}

impl Talk {
    /// A client that has chosen the first export.
    fn begin(world: &mut World, structured: bool, by_name: bool) -> Talk {
        let id = world.open();
        let mut out = 3u32.to_be_bytes().to_vec();
        let mut option = |option: u32, data: &[u8]| {
            out.extend(b"IHAVEOPT");
            out.extend(option.to_be_bytes());
            out.extend((data.len() as u32).to_be_bytes());
            out.extend(data);
        };
        if structured {
            option(8, &[]);
            let mut context = vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 15];
            context.extend(b"base:allocation");
            option(10, &context);
        }
        match by_name {
            true => option(EXPORT_NAME, b""),
            false => option(GO, &[0; 6]),
        }
        assert!(world.give(id, &out, 7));
        world.settle();
        let heard = world.said.remove(&id).expect("a greeting");
        let mut rest = &heard[..];
        assert_eq!(number(&mut rest), *b"NBDMAGICIHAVEOPT\0\x03");
        let (mut size, mut options) = (0, 0);
        while by_name && rest.len() > 10 || !by_name && !rest.is_empty() {
            assert_eq!(long(&mut rest), 0x0003_e889_0455_65a9);
            let (_, kind, length) = (word(&mut rest), word(&mut rest), word(&mut rest) as usize);
            assert!(kind < 1 << 31, "refused: {kind:#x}");
            if kind == 3 && rest[..2] == [0, 0] {
                size = u64::from_be_bytes(number(&mut &rest[2..]));
            }
            options += u32::from(kind == 1);
            rest = &rest[length..];
        }
        if by_name {
            size = long(&mut rest);
        }
        let acknowledged = if structured { 2 } else { 0 } + u32::from(!by_name);
        assert_eq!((options, size), (acknowledged, world.bytes()));
        let (asked, partial, done) = Default::default();
        Talk { id, structured, heard: vec![], asked, partial, done, cookie: 7 }
    }

    /// A request as bytes.
    fn ask(&mut self, mut request: Request, payload: &[u8]) -> Vec<u8> {
        self.cookie += 1;
        request.cookie = self.cookie;
        self.asked.insert(self.cookie, request);
        [&request.build()[..], payload].concat()
    }

    /// Reads what has come.
    fn listen(&mut self, world: &mut World) {
        self.heard.extend(world.said.remove(&self.id).unwrap_or_default());
        let heard = std::mem::take(&mut self.heard);
        let mut rest = &heard[..];
        while !rest.is_empty() {
            let cookie = match self.structured {
                true => self.chunk(&mut rest),
                false => self.simple(&mut rest),
            };
            let Some((cookie, outcome)) = cookie else { continue };
            assert!(self.asked.remove(&cookie).is_some(), "an answer to nothing");
            self.done.insert(cookie, outcome);
        }
    }

    fn simple(&self, rest: &mut &[u8]) -> Option<(u64, Outcome)> {
        assert_eq!(word(rest), 0x6744_6698);
        let (error, cookie) = (word(rest), long(rest));
        let mut data = Vec::new();
        let request = self.asked.get(&cookie).expect("a request");
        if error == 0 && request.command == Command::Read {
            let (head, after) = rest.split_at(request.bytes as usize);
            data = head.to_vec();
            *rest = after;
        }
        Some((cookie, Outcome { error, data, extents: vec![] }))
    }

    fn chunk(&mut self, rest: &mut &[u8]) -> Option<(u64, Outcome)> {
        assert_eq!(word(rest), 0x668e_33ef);
        let flags = u16::from_be_bytes(number(rest));
        let kind = u16::from_be_bytes(number(rest));
        let (cookie, length) = (long(rest), word(rest) as usize);
        let (mut body, after) = rest.split_at(length);
        *rest = after;
        let request = *self.asked.get(&cookie).expect("a request");
        let outcome = self.partial.entry(cookie).or_default();
        match kind {
            0 => assert!(length == 0 && flags == 1),
            1 => {
                let at = (long(&mut body) - request.offset) as usize;
                outcome.data.resize(request.bytes as usize, 0);
                outcome.data[at..at + body.len()].copy_from_slice(body);
            }
            5 => {
                assert_eq!(word(&mut body), 1);
                while !body.is_empty() {
                    outcome.extents.push((word(&mut body), word(&mut body)));
                }
            }
            0x8001 | 0x8002 => outcome.error = word(&mut body),
            other => panic!("a chunk of type {other:#x}"),
        }
        (flags & 1 != 0).then(|| (cookie, self.partial.remove(&cookie).expect("it is there")))
    }
}

impl World {
    /// Bytes of the first export.
    fn bytes(&self) -> u64 {
        let subsystem = self.hub.subsystem();
        subsystem.namespace_blocks(1).expect("it") * 512
    }
}

/// A region that requests of one round have to themselves.
const REGION: u64 = 128 << 10;

#[derive(Clone, Debug)]
struct Deed {
    command: Command,
    flags: u16,
    sector: u64,
    sectors: u64,
    seed: u8,
}

fn deed() -> impl Strategy<Value = Deed> {
    let command = prop_oneof![
        4 => Just(Command::Read),
        4 => Just(Command::Write),
        1 => Just(Command::Trim),
        2 => Just(Command::WriteZeroes),
        1 => Just(Command::BlockStatus),
        1 => Just(Command::Flush),
    ];
    let flags = prop_oneof![4 => Just(0u16), 1 => 0..32u16];
    let sectors = prop_oneof![3 => 1..16u64, 1 => 1..=REGION / 512];
    (command, flags, 0..REGION / 512, sectors, any::<u8>()).prop_map(
        |(command, flags, sector, sectors, seed)| {
            let sectors = sectors.min(REGION / 512 - sector);
            Deed { command, flags, sector, sectors, seed }
        },
    )
}

/// What a flag that the command does not have makes of a request.
fn is_refused(command: Command, flags: u16, structured: bool, bytes: u32) -> Option<u32> {
    let allowed = match command {
        Command::Read if structured => command_flag::DONT_FRAGMENT,
        Command::WriteZeroes => command_flag::NO_HOLE | command_flag::FAST_ZERO,
        Command::BlockStatus if structured => command_flag::ONE_EXTENT,
        Command::BlockStatus => return Some(22),
        _ => 0,
    };
    let fast_bytes = command_flag::NO_HOLE | command_flag::FAST_ZERO;
    if flags & !(allowed | command_flag::FUA) != 0 {
        return Some(22);
    }
    match command {
        Command::Read if flags & command_flag::DONT_FRAGMENT != 0 && bytes > TRANSFER_BYTES => {
            Some(75)
        }
        Command::WriteZeroes if flags & fast_bytes == fast_bytes => Some(95),
        _ => None,
    }
}

fn check(deed: &Deed, structured: bool, outcome: &Outcome, bytes: &mut [u8]) {
    let length = (deed.sectors * 512) as u32;
    if let Some(error) = is_refused(deed.command, deed.flags, structured, length) {
        assert_eq!(outcome.error, error, "{deed:?}");
        return;
    }
    assert_eq!(outcome.error, 0, "{deed:?}");
    match deed.command {
        Command::Read => assert_eq!(outcome.data, bytes, "{deed:?}"),
        Command::Write => bytes.fill(deed.seed),
        Command::WriteZeroes => bytes.fill(0),
        Command::BlockStatus => {
            let mut at = 0;
            for &(run, state) in &outcome.extents {
                let part = &bytes[at..at + run as usize];
                assert!(state == 0 || state == 3 && part.iter().all(|&byte| byte == 0));
                at += run as usize;
            }
            assert!(at > 0);
            assert!(deed.flags & command_flag::ONE_EXTENT == 0 || outcome.extents.len() == 1);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two clients at once, each with several requests under way in regions of their own.
    #[test]
    fn an_export_is_an_array_of_bytes(
        kinds in [any::<(bool, bool)>(), any::<(bool, bool)>()],
        rounds in prop::collection::vec(
            prop::collection::vec((deed(), 0..2usize, 0..12u64), 1..12), 1..6),
        piece in prop_oneof![1..64usize, 64..100_000usize],
    ) {
        let mut world = World::new();
        let mut talks = kinds.map(|(structured, by_name)| Talk::begin(&mut world, structured, by_name));
        let mut bytes = vec![0u8; 12 * REGION as usize];
        for round in rounds {
            let mut used = [false; 12];
            let mut waiting = Vec::new();
            let mut messages = [vec![], vec![]];
            for (deed, who, region) in round {
                if std::mem::replace(&mut used[region as usize], true) {
                    continue;
                }
                let offset = region * REGION + deed.sector * 512;
                let is_flush = deed.command == Command::Flush;
                let length = if is_flush { 0 } else { deed.sectors * 512 };
                let request = Request {
                    cookie: 0,
                    command: deed.command,
                    flags: deed.flags,
                    offset: if is_flush { 0 } else { offset },
                    bytes: length as u32,
                };
                let payload = match deed.command {
                    Command::Write => vec![deed.seed; length as usize],
                    _ => vec![],
                };
                messages[who].extend(talks[who].ask(request, &payload));
                waiting.push((deed, who, talks[who].cookie, offset as usize));
            }
            for (talk, message) in talks.iter().zip(&messages) {
                prop_assert!(world.give(talk.id, message, piece));
            }
            world.settle();
            talks.iter_mut().for_each(|talk| talk.listen(&mut world));
            for (deed, who, cookie, at) in waiting {
                let outcome = talks[who].done.remove(&cookie).expect("an answer");
                let part = &mut bytes[at..at + deed.sectors as usize * 512];
                check(&deed, kinds[who].0, &outcome, part);
                let trims = deed.command == Command::Trim
                    && is_refused(deed.command, deed.flags, kinds[who].0, 512).is_none();
                if trims {
                    // What is left of it is whatever it is: both clients agree on that.
                    let request = Request {
                        cookie: 0,
                        command: Command::Read,
                        flags: 0,
                        offset: at as u64,
                        bytes: part.len() as u32,
                    };
                    let message = talks[who].ask(request, &[]);
                    prop_assert!(world.give(talks[who].id, &message, piece));
                    world.settle();
                    talks[who].listen(&mut world);
                    let cookie = talks[who].cookie;
                    let now = talks[who].done.remove(&cookie).expect("an answer").data;
                    let is_kept = part.iter().zip(&now).all(|(old, new)| new == old || *new == 0);
                    prop_assert!(is_kept);
                    part.copy_from_slice(&now);
                }
            }
            prop_assert!(talks.iter().all(|talk| talk.asked.is_empty() && talk.heard.is_empty()));
        }
        prop_assert!(world.ended.is_empty(), "{:?}", world.ended);
    }

    /// Whatever a client sends, before or after it has chosen: nobody panics, nothing is left of it,
    /// and another is served.
    #[test]
    fn any_bytes_are_survived(
        begins: bool,
        parts in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                (0..12u16, any::<u16>(), any::<u64>(), any::<u32>()).prop_map(
                    |(command, flags, offset, bytes)| Request {
                        cookie: offset,
                        command: Command::Unknown(command),
                        flags: flags & 31,
                        offset: if flags & 256 == 0 { offset & 0xf_fe00 } else { offset },
                        bytes: if flags & 512 == 0 { bytes & 0x1_fe00 } else { bytes },
                    }.build().to_vec()
                ),
                (0..14u32, prop::collection::vec(any::<u8>(), 0..64)).prop_map(|(option, data)| {
                    let length = data.len() as u32;
                    [b"IHAVEOPT", &option.to_be_bytes()[..], &length.to_be_bytes(), &data].concat()
                }),
            ], 0..20),
        piece in 1..300usize,
    ) {
        let mut world = World::new();
        let id = match begins {
            true => Talk::begin(&mut world, true, false).id,
            false => {
                let id = world.open();
                world.give(id, &1u32.to_be_bytes(), 4);
                id
            }
        };
        for part in &parts {
            world.give(id, part, piece);
            world.wall += Span::from_us(3);
        }
        world.settle();
        let memory = world.hub.memory_bytes(id);
        prop_assert!(memory < 8 << 20, "{memory} bytes");
        let now = world.now();
        world.hub.close(now, id);
        prop_assert_eq!((world.hub.connections(), world.hub.outstanding()), (0, 0));
        world.said.clear();
        let mut talk = Talk::begin(&mut world, false, true);
        let request =
            Request { cookie: 0, command: Command::Read, flags: 0, offset: 512, bytes: 1024 };
        let message = talk.ask(request, &[]);
        prop_assert!(world.give(talk.id, &message, REQUEST_BYTES));
        world.settle();
        talk.listen(&mut world);
        let cookie = talk.cookie;
        prop_assert_eq!(talk.done[&cookie].data.len(), 1024);
    }
}

/// A client that leaves is gone when its last answer has been sent.
#[test]
fn who_disconnects_is_answered_first() {
    let mut world = World::new();
    let mut talk = Talk::begin(&mut world, true, false);
    let read = Request { cookie: 0, command: Command::Read, flags: 0, offset: 0, bytes: 1 << 20 };
    let trim = Request { command: Command::Trim, flags: command_flag::FUA, ..read };
    let leave = Request { command: Command::Disconnect, bytes: 0, ..read };
    let mut message = talk.ask(trim, &[]);
    let trimmed = talk.cookie;
    message.extend(talk.ask(read, &[]));
    message.extend(leave.build());
    assert!(world.give(talk.id, &message, usize::MAX / 1000));
    world.settle();
    talk.listen(&mut world);
    let cookie = talk.cookie;
    assert_eq!((talk.done[&cookie].data.len(), talk.done[&trimmed].error), (1 << 20, 0));
    assert_eq!(world.ended, [talk.id]);
    let now = world.now();
    world.hub.close(now, talk.id);
    assert_eq!((world.hub.connections(), world.hub.outstanding()), (0, 0));
}

/// A host that the subsystem does not take is told why.
#[test]
fn a_client_that_is_not_let_in_is_told() {
    let mut world = World::new();
    let config = SubsystemConfig {
        allowed_hosts: vec!["nqn.2026-11.test:other".into()],
        ..SubsystemConfig::new(NQN)
    };
    let subsystem = Subsystem::new(config, drive().drive, Box::new(RamStore::new()));
    let subsystem = subsystem.expect("a subsystem");
    world.hub = Hub::new(subsystem, Settings::default(), Quotas::default(), Rate::REAL);
    let id = world.open();
    let mut out = 3u32.to_be_bytes().to_vec();
    out.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0");
    assert!(world.give(id, &out, 100));
    world.settle();
    let said = String::from_utf8_lossy(&world.said[&id]).into_owned();
    assert!(said.contains("does not take it: CONNECT_INVALID_HOST"), "{said}");
    assert_eq!(world.ended, [id]);
}
