use super::*;
use crate::nvme::opcode::nvm;
use crate::tcp::pdu::ReadyToTransfer;
use proptest::prelude::*;
use zerocopy::byteorder::little_endian::{U16, U32, U64};

const POOL_BYTES: usize = 4 << 20;

/// A host made of the bare stream, and the connection it talks to.
struct Pair {
    out: Outbound,
    seen: Inbound,
    target: Connection,
    pool: TransferPool,
    commands: Vec<(SubmissionEntry, Vec<u8>)>,
    pdus: Vec<Pdu>,
    data: Vec<(Data, Vec<u8>)>,
    open: Option<(Data, Vec<u8>)>,
    ended: Option<Ended>,
    /// How many bytes at once, towards the target.
    parts: Vec<usize>,
}

impl Pair {
    fn new(settings: Settings) -> Pair {
        let limits = Limits { capsule_data_bytes: 0, data_bytes: u32::MAX };
        Pair {
            out: Outbound::new(End::Host),
            seen: Inbound::new(End::Host, limits),
            target: Connection::new(settings),
            pool: TransferPool::new(POOL_BYTES),
            commands: Vec::new(),
            pdus: Vec::new(),
            data: Vec::new(),
            open: None,
            ended: None,
            parts: vec![usize::MAX],
        }
    }

    /// Initialized, and a queue of 64 entries connected.
    fn connected(settings: Settings, digests: u8, ready: u32, attributes: u8) -> Pair {
        let mut pair = Pair::new(settings);
        pair.out.initialize(Initialization { version: 0, alignment: 0, digests, limit: ready - 1 });
        pair.run();
        let Some(Pdu::Initialize(fields)) = pair.pdus.pop() else { panic!("{:?}", pair.ended) };
        let digests = Digests::from_byte(fields.digests);
        pair.out.establish(digests, alignment_bytes(fields.alignment).unwrap());
        pair.seen.establish(digests, 4);
        let connect = SubmissionEntry {
            opcode: opcode::FABRICS,
            namespace_id: U32::new(1),
            dword10: U32::new(1 << 16),
            dword11: U32::new(63 | u32::from(attributes) << 16),
            ..in_capsule(0, 1, 0, 1024)
        };
        pair.command(&connect, &[0; 1024]);
        assert_eq!(pair.commands.len(), 1);
        pair.target.connected(1, 64, attributes & 4 == 0);
        pair.target.respond(&CompletionEntry::new(0, Status::SUCCESS, 0));
        pair.run();
        pair.commands.clear();
        pair.pdus.clear();
        pair
    }

    fn command(&mut self, entry: &SubmissionEntry, data: &[u8]) {
        self.out.command(entry, data.len() as u32, |into| into.copy_from_slice(data));
        self.run();
    }

    /// What the host has to send, taken from it.
    fn taken(&mut self) -> Vec<u8> {
        let bytes = self.out.bytes().to_vec();
        self.out.sent(bytes.len());
        bytes
    }

    /// The target receives these bytes.
    fn feed(&mut self, mut bytes: &[u8]) {
        let mut parts = self.parts.clone().into_iter().cycle();
        while !bytes.is_empty() && self.ended.is_none() {
            let space = self.target.receive_buffer();
            let part = parts.next().unwrap().min(space.len()).min(bytes.len());
            space[..part].copy_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            self.target.received(part);
            self.poll();
        }
        self.poll();
    }

    /// Moves everything there is to move.
    fn run(&mut self) {
        let bytes = self.taken();
        self.feed(&bytes);
        let output = self.target.output().to_vec();
        self.target.sent(output.len());
        for byte in output.chunks(1 << 10) {
            self.seen.space()[..byte.len()].copy_from_slice(byte);
            self.seen.received(byte.len());
            self.see();
        }
    }

    fn poll(&mut self) {
        while let Some(event) = self.target.poll(&mut self.pool) {
            match event {
                Event::Command { entry, data, .. } => self.commands.push((entry, data.to_vec())),
                Event::Ended(ended) => self.ended = Some(ended),
            }
        }
    }

    fn see(&mut self) {
        loop {
            if let Some((_, held)) = &mut self.open {
                held.extend_from_slice(self.seen.data());
                self.seen.took(self.seen.data().len());
                let Some(intact) = self.seen.end_data() else { return };
                assert!(intact);
                self.data.extend(self.open.take());
            }
            match self.seen.poll().expect("the target keeps to the protocol") {
                None => return,
                Some(Pdu::Data(header)) => self.open = Some((header, Vec::new())),
                Some(pdu) => self.pdus.push(pdu),
            }
        }
    }

    fn asked(&mut self) -> Vec<ReadyToTransfer> {
        let asked = |pdu: &Pdu| match pdu {
            Pdu::ReadyToTransfer(ready) => Some(*ready),
            _ => None,
        };
        let all = self.pdus.iter().filter_map(asked).collect();
        self.pdus.retain(|pdu| asked(pdu).is_none());
        all
    }

    fn responses(&mut self) -> Vec<CompletionEntry> {
        let entry = |pdu: &Pdu| match pdu {
            Pdu::CapsuleResponse(entry) => Some(*entry),
            _ => None,
        };
        let all = self.pdus.iter().filter_map(entry).collect();
        self.pdus.retain(|pdu| entry(pdu).is_none());
        all
    }
}

fn entry(id: u16, opcode: u8, kind: u8, address: u64, length: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry { opcode, flags: 0x40, ..SubmissionEntry::default() };
    entry.command_id = U16::new(id);
    entry.data.kind = kind;
    entry.data.address = U64::new(address);
    entry.data.length = U32::new(length);
    entry
}

fn in_capsule(id: u16, opcode: u8, at: u64, length: u32) -> SubmissionEntry {
    entry(id, opcode, SGL_IN_CAPSULE, at, length)
}

fn asked_for(id: u16, length: u32) -> SubmissionEntry {
    entry(id, nvm::WRITE, SGL_TRANSPORT, 0, length)
}

fn pattern(seed: u16, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed as u8).collect()
}

#[test]
fn initialization_says_what_is_used_or_what_is_wrong() {
    let offered = Settings {
        alignment: 7,
        digests: Digests { header: true, data: false },
        ..Settings::default()
    };
    let good = Initialization { version: 0, alignment: 31, digests: 3, limit: 0 };
    for (request, expected) in [
        (good, Ok(1)),
        (Initialization { digests: 2, limit: u32::MAX, ..good }, Ok(0)),
        (Initialization { version: 1, ..good }, Err((FatalError::UnsupportedParameter, 8))),
        (Initialization { alignment: 32, ..good }, Err((FatalError::InvalidHeaderField, 10))),
    ] {
        let mut pair = Pair::new(offered);
        pair.out.initialize(request);
        pair.run();
        match (expected, pair.pdus.first()) {
            (Ok(digests), Some(Pdu::Initialize(fields))) => {
                let limit = offered.data_pdu_bytes;
                let response = Initialization { version: 0, alignment: 7, digests, limit };
                assert_eq!(*fields, response);
            }
            (Err((error, field)), Some(Pdu::Terminate(status, information))) => {
                assert_eq!((*status, *information), (error as u16, field));
                assert!(matches!(&pair.ended, Some(Ended::Fatal(f)) if f.error == error));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What is wrong with a capsule's data descriptor.
#[test]
fn descriptors_are_checked() {
    let wrong = |status: Status| Err(status.do_not_retry());
    let cases = [
        (in_capsule(1, nvm::WRITE, 0, 512), 512, Ok(512)),
        (in_capsule(1, nvm::WRITE, 256, 256), 512, Ok(256)),
        (in_capsule(1, nvm::WRITE, 513, 0), 512, wrong(Status::SGL_OFFSET_INVALID)),
        (in_capsule(1, nvm::WRITE, u64::MAX, 1), 512, wrong(Status::SGL_OFFSET_INVALID)),
        (in_capsule(1, nvm::WRITE, 256, 257), 512, wrong(Status::SGL_DATA_LENGTH_INVALID)),
        (in_capsule(1, nvm::WRITE, 0, u32::MAX), 0, wrong(Status::SGL_DATA_LENGTH_INVALID)),
        (asked_for(1, 512), 512, wrong(Status::SGL_TYPE_INVALID)),
        // Too long: whoever knows the command says how.
        (asked_for(1, u32::MAX), 0, Ok(0)),
        (asked_for(1, 0), 0, Ok(0)),
        (entry(1, nvm::WRITE, 0, 0, 512), 0, wrong(Status::SGL_TYPE_INVALID)),
        (entry(1, nvm::READ, 0x55, 0, 512), 0, Ok(0)),
        (
            SubmissionEntry { flags: 0, ..in_capsule(1, nvm::WRITE, 0, 512) },
            512,
            wrong(Status::INVALID_FIELD),
        ),
    ];
    for (number, (entry, bytes, expected)) in cases.into_iter().enumerate() {
        let mut pair = Pair::connected(Settings::default(), 0, 1, 4);
        pair.command(&entry, &pattern(1, bytes));
        match expected {
            Ok(length) => {
                let (seen, data) = &pair.commands[0];
                let from = entry.data.address.get() as usize;
                assert_eq!(*seen, entry, "case {number}");
                assert_eq!(*data, pattern(1, bytes)[from..from + length], "case {number}");
            }
            Err(status) => {
                assert_eq!(pair.responses()[0].status(), status, "case {number}");
                assert!(pair.commands.is_empty(), "case {number}");
                assert_eq!(pair.target.outstanding(), 0);
            }
        }
    }
}

/// An answer to an R2T for 8 KiB at 0, and what the target thinks of it.
#[test]
fn data_outside_what_was_asked_for_end_the_connection() {
    use FatalError::*;
    let cases: &[(u16, u16, u32, u32, u8, FatalError, u32)] = &[
        (1, 1, 0, 8192, 4, InvalidHeaderField, 10), // no such tag
        (2, 0, 0, 8192, 4, InvalidHeaderField, 8),  // another command
        (1, 0, 4096, 4096, 4, DataOutOfRange, 12),
        (1, 0, 0, 8196, 4, DataOutOfRange, 16),
        (1, 0, 0, 8192, 0, InvalidHeaderField, 1), // the last, but it does not say so
        (1, 0, 0, 4096, 4, InvalidHeaderField, 1), // says so, but is not
    ];
    for &(id, tag, at, bytes, flags, error, information) in cases {
        let settings = Settings { ready_bytes: 8192, ..Settings::default() };
        let mut pair = Pair::connected(settings, 0, 1, 4);
        pair.command(&asked_for(1, 16384), &[]);
        assert_eq!(pair.asked().len(), 1, "the host takes one R2T at a time");
        pair.out.data(id, tag, at, bytes, flags, |into| into.fill(1));
        pair.run();
        let Some(Ended::Fatal(fatal)) = &pair.ended else { panic!("{flags}") };
        assert_eq!((fatal.error, fatal.information), (error, information));
        assert_eq!(pair.pool.lent_bytes(), 0, "buffers are back");
        let last = pair.pdus.last();
        assert_eq!(last, Some(&Pdu::Terminate(error as u16, information)));
    }
}

#[test]
fn more_commands_than_entries_end_the_connection() {
    let mut pair = Pair::connected(Settings::default(), 0, 1, 4);
    for id in 0..64 {
        pair.command(&in_capsule(id, nvm::FLUSH, 0, 0), &[]);
    }
    assert_eq!((pair.commands.len(), &pair.ended), (64, &None));
    pair.command(&in_capsule(64, nvm::FLUSH, 0, 0), &[]);
    assert!(
        matches!(&pair.ended, Some(Ended::Fatal(f)) if f.error == FatalError::PduSequenceError)
    );
}

#[test]
fn damaged_data_fail_their_command_only() {
    let mut pair = Pair::connected(Settings::default(), 3, 1, 4);
    pair.out.command(&in_capsule(1, nvm::WRITE, 0, 512), 512, |into| into.fill(1));
    let mut bytes = pair.taken();
    bytes[300] ^= 1;
    pair.feed(&bytes);
    pair.command(&asked_for(2, 20_000), &[]);
    pair.out.data(2, 0, 0, 20_000, 4, |into| into.fill(2));
    let mut bytes = pair.taken();
    bytes[15_000] ^= 1;
    pair.feed(&bytes);
    pair.command(&in_capsule(3, nvm::WRITE, 0, 512), &pattern(3, 512));
    let failed: Vec<_> =
        pair.responses().iter().map(|e| (e.command_id.get(), e.status())).collect();
    let status = Status::TRANSIENT_TRANSPORT_ERROR;
    assert_eq!(failed, [(1, status), (2, status)]);
    assert_eq!((pair.commands.len(), pair.target.damaged()), (1, 2));
    assert_eq!(pair.pool.lent_bytes(), 0);
}

/// SPDK computes data digests over data padded to a multiple of four bytes, Linux over the data: both
/// are taken, and answered alike; what fits neither is damaged.
#[test]
fn digests_of_padded_data_are_taken() {
    for pads in [false, true] {
        for bytes in [1usize, 5, 6, 511, 512] {
            let data = pattern(4, bytes);
            let checked = bytes.next_multiple_of(4);
            let crc = |of: &[u8]| crc32c::crc32c(of).to_le_bytes();
            let mut of = data.clone();
            of.resize(if pads { checked } else { bytes }, 0);
            let right = crc(&of);
            let mut pair = Pair::connected(Settings::default(), 2, 1, 4);
            // With the command, and when asked for.
            pair.out.command(&in_capsule(1, nvm::WRITE, 0, bytes as u32), bytes as u32, |into| {
                into.copy_from_slice(&data);
            });
            let mut sent = pair.taken();
            let end = sent.len() - 4;
            sent[end..].copy_from_slice(&right);
            pair.feed(&sent);
            pair.command(&asked_for(2, bytes as u32), &[]);
            pair.out.data(2, 0, 0, bytes as u32, 4, |into| into.copy_from_slice(&data));
            let mut sent = pair.taken();
            let end = sent.len() - 4;
            sent[end..].copy_from_slice(&right);
            pair.feed(&sent);
            let taken: Vec<_> =
                pair.commands.iter().map(|it| (&it.1, it.0.command_id.get())).collect();
            assert_eq!(taken, [(&data, 1), (&data, 2)], "{pads} {bytes}");
            // The answer's digest is as the host computes it, and a response follows where hosts differ.
            let done = CompletionEntry::new(1, Status::SUCCESS, 0);
            pair.target.respond_with_data(&done, bytes as u32, |into| into.copy_from_slice(&data));
            let output = pair.target.output().to_vec();
            let digest = 24 + bytes;
            assert_eq!(output[digest..digest + 4], right, "{pads} {bytes}");
            assert_eq!(output.len() > digest + 4, bytes % 4 != 0, "{pads} {bytes}");
        }
    }
    let mut pair = Pair::connected(Settings::default(), 2, 1, 4);
    pair.out.command(&in_capsule(1, nvm::WRITE, 0, 5), 5, |into| into.fill(1));
    let mut sent = pair.taken();
    let end = sent.len() - 4;
    sent[end] ^= 1;
    pair.feed(&sent);
    assert_eq!(pair.target.damaged(), 1);
}

#[test]
fn a_wrong_header_digest_is_fatal() {
    let mut pair = Pair::connected(Settings::default(), 1, 1, 4);
    pair.out.command(&in_capsule(1, nvm::FLUSH, 0, 0), 0, |_| ());
    let mut bytes = pair.taken();
    let digest = u32::from_le_bytes(bytes[72..76].try_into().unwrap());
    bytes[30] ^= 1;
    pair.feed(&bytes);
    let Some(Ended::Fatal(fatal)) = &pair.ended else { panic!() };
    assert_eq!((fatal.error, fatal.information), (FatalError::HeaderDigestError, digest));
}

#[test]
fn completions_carry_the_queue_unless_flow_control_is_off() {
    for (attributes, head, id) in [(0, 2, 1), (4, 0, 1)] {
        let mut pair = Pair::connected(Settings::default(), 0, 1, attributes);
        pair.command(&in_capsule(9, nvm::READ, 0, 4096), &[]);
        let done = CompletionEntry::new(9, Status::SUCCESS, 0);
        pair.target.respond_with_data(&done, 4096, |into| into.copy_from_slice(&pattern(9, 4096)));
        pair.run();
        let (header, data) = pair.data.pop().unwrap();
        assert_eq!(data, pattern(9, 4096));
        let success = header.common.flags & FLAG_DATA_SUCCESS != 0;
        assert_eq!(success, attributes == 4);
        let responses = pair.responses();
        assert_eq!(responses.is_empty(), success);
        if let Some(entry) = responses.first() {
            assert_eq!((entry.queue_head.get(), entry.queue_id.get()), (head, id));
        }
        // A result must be told, and so must a failure.
        let told = CompletionEntry::new(9, Status::SUCCESS, 1);
        pair.target.respond_with_data(&told, 8, |into| into.fill(1));
        pair.target.respond(&CompletionEntry::new(9, Status::INTERNAL_ERROR, 0));
        pair.run();
        assert_eq!(pair.responses().len(), 2);
    }
}

#[test]
fn data_to_the_host_are_split() {
    let settings = Settings { data_to_host_bytes: 3_000, ..Settings::default() };
    let mut pair = Pair::connected(settings, 3, 1, 4);
    let done = CompletionEntry::new(9, Status::SUCCESS, 0);
    pair.target.respond_with_data(&done, 8_000, |into| into.copy_from_slice(&pattern(1, 8_000)));
    pair.run();
    let whole: Vec<u8> = pair.data.iter().flat_map(|(_, data)| data.clone()).collect();
    assert_eq!(whole, pattern(1, 8_000));
    let parts: Vec<_> =
        pair.data.iter().map(|(h, _)| (h.offset.get(), h.common.flags & 0xc)).collect();
    assert_eq!(parts, [(0, 0), (3_000, 0), (6_000, 12)]);
    assert!(pair.responses().is_empty());
}

/// Fused halves come out next to one another, whichever has its data first.
#[test]
fn fused_halves_stay_together() {
    let fused = |mut entry: SubmissionEntry, half: u8| {
        entry.flags |= half;
        entry
    };
    let ids = |pair: &Pair| -> Vec<u16> {
        pair.commands.iter().map(|(entry, _)| entry.command_id.get()).collect()
    };
    // The first has its data last.
    let mut pair = Pair::connected(Settings::default(), 0, 1, 4);
    pair.command(&fused(asked_for(1, 512), 1), &[]);
    pair.command(&fused(in_capsule(2, nvm::WRITE, 0, 512), 2), &pattern(2, 512));
    pair.command(&in_capsule(3, nvm::FLUSH, 0, 0), &[]);
    assert_eq!(ids(&pair), [3]);
    pair.out.data(1, 0, 0, 512, 4, |into| into.copy_from_slice(&pattern(1, 512)));
    pair.run();
    assert_eq!(ids(&pair), [3, 1, 2]);
    assert_eq!((&pair.commands[1].1, &pair.commands[2].1), (&pattern(1, 512), &pattern(2, 512)));
    // The second has.
    let mut pair = Pair::connected(Settings::default(), 0, 1, 4);
    pair.command(&fused(in_capsule(1, nvm::COMPARE, 0, 512), 1), &pattern(1, 512));
    pair.command(&fused(asked_for(2, 512), 2), &[]);
    assert!(pair.commands.is_empty());
    pair.out.data(2, 0, 0, 512, 4, |into| into.copy_from_slice(&pattern(2, 512)));
    pair.run();
    assert_eq!(ids(&pair), [1, 2]);
    // There is no second: the device is to say so.
    let mut pair = Pair::connected(Settings::default(), 0, 1, 4);
    pair.command(&fused(in_capsule(1, nvm::COMPARE, 0, 512), 1), &pattern(1, 512));
    pair.command(&in_capsule(3, nvm::FLUSH, 0, 0), &[]);
    assert_eq!(ids(&pair), [3, 1]);
}

#[test]
fn buffers_are_shared_and_come_back() {
    let settings = Settings::default();
    let mut pair = Pair::connected(settings, 0, 1, 4);
    for id in 0..32 {
        pair.command(&asked_for(id, 256 << 10), &[]);
    }
    let share = pair.pool.share_bytes();
    assert_eq!(pair.pool.lent_bytes(), share, "one connection has no more than its share");
    assert!(pair.target.wants_buffer() && pair.target.awaits_data());
    let mut asked = pair.asked();
    while let Some(ready) = asked.pop() {
        let (id, tag, bytes) = (ready.command_id.get(), ready.transfer_tag.get(), 256 << 10);
        pair.out.data(id, tag, 0, bytes, 4, |into| into.fill(id as u8));
        pair.run();
        while pair.target.grant(&mut pair.pool) {}
        pair.run();
        asked.extend(pair.asked());
        assert!(pair.pool.lent_bytes() <= share);
    }
    assert_eq!(pair.commands.len(), 32);
    assert!(
        pair.commands.iter().all(|(e, data)| data.iter().all(|&b| b == e.command_id.get() as u8))
    );
    assert_eq!(pair.pool.lent_bytes(), 0);
    pair.target.shrink();
    assert!(pair.target.memory_bytes() < 64 << 10);
}

#[test]
fn a_host_that_does_not_read_is_not_answered_without_bound() {
    let mut pair = Pair::connected(Settings::default(), 0, 1, 4);
    let mut taken = 0;
    while pair.target.has_room() {
        let done = CompletionEntry::new(1, Status::SUCCESS, 0);
        pair.target.respond_with_data(&done, 4096, |into| into.fill(1));
        taken += 1;
    }
    assert!(taken < 70 && pair.target.memory_bytes() < 1 << 20);
}

/// A host whose every command is wrong is answered, but not without bound.
#[test]
fn a_host_that_never_reads_is_not_listened_to_without_bound() {
    let mut pair = Pair::connected(Settings::default(), 0, 1, 4);
    let mut sent = 0;
    while pair.target.may_receive() {
        let bad = entry(1, nvm::WRITE, 0, 0, 512);
        pair.out.command(&bad, 0, |_| ());
        let bytes = pair.taken();
        pair.feed(&bytes);
        sent += 1;
        assert!(sent < 30_000);
    }
    assert!(pair.ended.is_none() && pair.target.memory_bytes() < 4 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Writes of any size arrive whole, however R2Ts, data PDUs and received bytes are cut.
    #[test]
    fn writes_arrive_whole(
        sizes in prop::collection::vec(1..60_000u32, 1..12),
        digests in 0..4u8,
        ready_max in 1..5u32,
        ready_bytes in 1_000..70_000u32,
        pdu_bytes in 4_096..20_000u32,
        alignment in 0..32u8,
        parts in prop::collection::vec(1..9_000usize, 1..6),
        order in any::<prop::sample::Index>(),
    ) {
        let settings =
            Settings { ready_bytes, data_pdu_bytes: pdu_bytes, alignment, ..Settings::default() };
        let mut pair = Pair::connected(settings, digests, ready_max, 4);
        pair.parts = parts;
        let mut asked = Vec::new();
        for (id, &bytes) in sizes.iter().enumerate() {
            let id = id as u16;
            if bytes <= 8_192 {
                pair.command(&in_capsule(id, nvm::WRITE, 0, bytes), &pattern(id, bytes as usize));
            } else {
                pair.command(&asked_for(id, bytes), &[]);
            }
            asked.extend(pair.asked());
        }
        while !asked.is_empty() {
            for id in 0..sizes.len() as u16 {
                let open = asked.iter().filter(|r| r.command_id.get() == id).count();
                prop_assert!(open as u32 <= ready_max);
            }
            let ready = asked.swap_remove(order.index(asked.len()));
            let id = ready.command_id.get();
            let whole = pattern(id, sizes[usize::from(id)] as usize);
            let (first, bytes) = (ready.offset.get(), ready.bytes.get());
            let mut at = 0;
            while at < bytes {
                let part = pdu_bytes.min(bytes - at);
                let flags = if at + part == bytes { FLAG_DATA_LAST } else { 0 };
                let from = (first + at) as usize;
                let tag = ready.transfer_tag.get();
                pair.out.data(id, tag, first + at, part, flags, |into| {
                    into.copy_from_slice(&whole[from..from + part as usize]);
                });
                at += part;
            }
            pair.run();
            while pair.target.grant(&mut pair.pool) {}
            pair.run();
            asked.extend(pair.asked());
        }
        prop_assert_eq!(&pair.ended, &None);
        prop_assert_eq!(pair.commands.len(), sizes.len());
        for (entry, data) in &pair.commands {
            let id = entry.command_id.get();
            prop_assert!(*data == pattern(id, sizes[usize::from(id)] as usize));
        }
        prop_assert_eq!(pair.pool.lent_bytes(), 0);
    }

    /// Bytes changed at random never make the machine panic, and cost bounded memory.
    #[test]
    fn changed_bytes_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        tail in prop::collection::vec(any::<u8>(), 0..300),
        digests in 0..4u8,
    ) {
        let mut pair = Pair::connected(Settings::default(), digests, 2, 4);
        for id in 0..4 {
            pair.out.command(&in_capsule(id, nvm::WRITE, 0, 512), 512, |into| into.fill(3));
            pair.out.command(&asked_for(id + 10, 30_000), 0, |_| ());
            pair.out.data(id + 10, id, 0, 30_000, FLAG_DATA_LAST, |into| into.fill(4));
        }
        let mut bytes = pair.taken();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.extend(tail);
        let mut rest = &bytes[..];
        while !rest.is_empty() && pair.ended.is_none() {
            let space = pair.target.receive_buffer();
            let part = space.len().min(rest.len()).min(7_777);
            space[..part].copy_from_slice(&rest[..part]);
            rest = &rest[part..];
            pair.target.received(part);
            pair.poll();
            prop_assert!(pair.target.memory_bytes() <= 512 << 10);
        }
        pair.target.close(&mut pair.pool);
        prop_assert_eq!(pair.pool.lent_bytes(), 0);
    }
}
