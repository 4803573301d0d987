//! A scripted target, message by message.

use super::*;
use crate::nvme::opcode::nvm;
use crate::tcp::digest::digest;
use crate::tcp::pdu::{self, CommonHeader, Kind};
use crate::tcp::pdu::{Data, Initialize, ReadyToTransfer, Terminate};
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

/// Every command's data is told by slot and offset.
fn byte(slot: u16, offset: u32) -> u8 {
    (u32::from(slot) * 31 + offset * 7 + offset / 251) as u8
}

/// Data that is written is [`byte`]; data that is read is kept.
#[derive(Default)]
struct Memory {
    read: Vec<Vec<u8>>,
}

impl Payload for Memory {
    fn fill(&mut self, slot: u16, offset: u32, into: &mut [u8]) {
        for (at, into) in (offset..).zip(into) {
            *into = byte(slot, at);
        }
    }

    fn place(&mut self, slot: u16, offset: u32, from: &[u8]) {
        let slot = usize::from(slot);
        self.read.resize(self.read.len().max(slot + 1), Vec::new());
        let (memory, offset) = (&mut self.read[slot], offset as usize);
        memory.resize(memory.len().max(offset + from.len()), 0);
        memory[offset..offset + from.len()].copy_from_slice(from);
    }
}

fn bytes(slot: u16, range: std::ops::Range<u32>) -> Vec<u8> {
    range.map(|offset| byte(slot, offset)).collect()
}

const BOTH: Digests = Digests { header: true, data: true };

/// A host, and a target that says what the test wants.
struct Pair {
    host: Host,
    memory: Memory,
    digests: Digests,
}

impl Pair {
    fn new(config: HostConfig) -> Pair {
        let mut pair =
            Pair { host: Host::new(config), memory: Memory::default(), digests: config.digests };
        let sent = pair.sent();
        let request = Initialize::read_from_bytes(&sent).unwrap();
        assert_eq!(request.digests, config.digests.to_byte());
        assert_eq!(request.limit.get(), config.ready_to_transfer_max - 1);
        pair
    }

    /// A pair whose connection is initialised.
    fn ready(config: HostConfig) -> Pair {
        let mut pair = Pair::new(config);
        let response = initialize(|_| ());
        let response = Initialize { digests: config.digests.to_byte(), ..response };
        assert_eq!(pair.say(response.as_bytes()), Ok(vec![Event::Ready]));
        pair
    }

    /// The target says `bytes`; what happens.
    fn say(&mut self, bytes: &[u8]) -> Result<Vec<Event>> {
        let mut rest = bytes;
        let mut events = Vec::new();
        while !rest.is_empty() {
            let into = self.host.receive_buffer();
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            self.host.received(count);
            rest = &rest[count..];
            while let Some(event) = self.host.poll(&mut self.memory)? {
                events.push(event);
            }
        }
        Ok(events)
    }

    /// What the host has said since the last time.
    fn sent(&mut self) -> Vec<u8> {
        let bytes = self.host.output(&mut self.memory).to_vec();
        self.host.sent(bytes.len());
        bytes
    }

    fn submit(&mut self, opcode: u8, movement: Movement) -> (u16, U16) {
        let entry = SubmissionEntry { opcode, ..SubmissionEntry::default() };
        let slot = self.host.submit(&entry, movement, &mut self.memory).unwrap();
        let sent = self.sent();
        let capsule = pdu::CapsuleCommand::read_from_prefix(&sent).unwrap().0;
        assert_eq!(capsule.common.pdu_bytes.get() as usize, sent.len());
        (slot, capsule.entry.command_id)
    }

    /// A PDU with the digests of the connection.
    fn pdu(&self, header: &[u8], data: &[u8]) -> Vec<u8> {
        let mut all = header.to_vec();
        let digest_bytes = self.digests.header_bytes();
        if self.digests.header {
            all[1] |= pdu::FLAG_HEADER_DIGEST;
        }
        let mut total = all.len() + digest_bytes;
        if !data.is_empty() {
            all[3] = total as u8;
            total += data.len() + self.digests.data_bytes();
            if self.digests.data {
                all[1] |= pdu::FLAG_DATA_DIGEST;
            }
        }
        all[4..8].copy_from_slice(&(total as u32).to_le_bytes());
        if self.digests.header {
            all.extend_from_slice(&digest(&all));
        }
        all.extend_from_slice(data);
        if self.digests.data && !data.is_empty() {
            all.extend_from_slice(&digest(data));
        }
        all
    }

    fn data(&self, id: U16, offset: u32, data: &[u8], flags: u8) -> Vec<u8> {
        let header = Data {
            common: common(Kind::DataToHost, flags),
            command_id: id,
            transfer_tag: U16::new(0),
            offset: U32::new(offset),
            bytes: U32::new(data.len() as u32),
            reserved: [0; 4],
        };
        self.pdu(header.as_bytes(), data)
    }

    fn response(&self, id: U16, status: Status) -> Vec<u8> {
        let entry = CompletionEntry::new(id.get(), status, 0);
        let header = pdu::CapsuleResponse { common: common(Kind::CapsuleResponse, 0), entry };
        self.pdu(header.as_bytes(), &[])
    }

    fn request(&self, id: U16, tag: u16, offset: u32, bytes: u32) -> Vec<u8> {
        let header = ReadyToTransfer {
            common: common(Kind::ReadyToTransfer, 0),
            command_id: id,
            transfer_tag: U16::new(tag),
            offset: U32::new(offset),
            bytes: U32::new(bytes),
            reserved: [0; 4],
        };
        self.pdu(header.as_bytes(), &[])
    }
}

fn common(kind: Kind, flags: u8) -> CommonHeader {
    CommonHeader {
        kind: kind as u8,
        flags,
        header_bytes: kind.header_bytes() as u8,
        ..CommonHeader::default()
    }
}

fn initialize(change: impl FnOnce(&mut Initialize)) -> Initialize {
    let mut response = Initialize {
        common: CommonHeader { pdu_bytes: U32::new(128), ..common(Kind::InitializeResponse, 0) },
        version: U16::new(0),
        alignment: 0,
        digests: 0,
        limit: U32::new(8_192),
        reserved: [0; 112],
    };
    change(&mut response);
    response
}

fn completed(slot: u16, id: U16, status: Status, received: u32) -> Event {
    Event::Completed { slot, entry: CompletionEntry::new(id.get(), status, 0), received }
}

const LAST: u8 = pdu::FLAG_DATA_LAST;
const SUCCESS: u8 = pdu::FLAG_DATA_SUCCESS;

#[test]
fn a_read_in_parts_with_and_without_a_completion() {
    for digests in [Digests::default(), BOTH] {
        let mut pair = Pair::ready(HostConfig { digests, ..HostConfig::default() });
        let (slot, id) = pair.submit(nvm::READ, Movement::ToHost(6_000));
        assert_eq!(pair.say(&pair.data(id, 0, &bytes(slot, 0..4_096), 0)), Ok(vec![]));
        assert_eq!(pair.say(&pair.data(id, 4_096, &bytes(slot, 4_096..6_000), LAST)), Ok(vec![]));
        let events = pair.say(&pair.response(id, Status::SUCCESS));
        assert_eq!(events, Ok(vec![completed(slot, id, Status::SUCCESS, 6_000)]));
        assert_eq!(std::mem::take(&mut pair.memory.read[usize::from(slot)]), bytes(slot, 0..6_000));

        let (slot, again) = pair.submit(nvm::READ, Movement::ToHost(512));
        assert_ne!(again, id, "the same slot has another identifier the next time");
        let events = pair.say(&pair.data(again, 0, &bytes(slot, 0..512), LAST | SUCCESS));
        assert_eq!(events, Ok(vec![completed(slot, again, Status::SUCCESS, 512)]));
        assert_eq!(pair.memory.read[usize::from(slot)], bytes(slot, 0..512));
        assert_eq!(pair.host.outstanding(), 0);
    }
}

#[test]
fn it_shows_whether_more_of_long_data_is_on_its_way() {
    let mut pair = Pair::ready(HostConfig::default());
    let (slot, id) = pair.submit(nvm::READ, Movement::ToHost(20_000));
    let (_, next) = pair.submit(nvm::READ, Movement::ToHost(20_000));
    let (first, second) = (pair.data(id, 0, &bytes(slot, 0..20_000), LAST | SUCCESS), next);
    let second = pair.data(second, 0, &bytes(slot, 0..20_000), LAST | SUCCESS);
    assert!(!pair.host.is_amid_data(1), "nothing has come");
    pair.say(&first[..10_000]).unwrap();
    assert!(pair.host.is_amid_data(20_000) && !pair.host.is_amid_data(20_001));
    pair.say(&first[10_000..]).unwrap();
    assert!(!pair.host.is_amid_data(1), "all of it has come");
    // Even a part of the next header says that something follows.
    pair.say(&second[..3]).unwrap();
    assert!(pair.host.is_amid_data(20_000));
    pair.say(&second[3..]).unwrap();
    assert!(!pair.host.is_amid_data(1));
    assert_eq!(pair.host.outstanding(), 0);
}

#[test]
fn a_write_in_the_capsule_is_padded_as_the_target_wants() {
    for (digests, alignment, data_at) in
        [(Digests::default(), 0, 72), (BOTH, 0, 76), (Digests::default(), 31, 128), (BOTH, 4, 80)]
    {
        let mut pair = Pair::new(HostConfig { digests, ..HostConfig::default() });
        let response = initialize(|response| {
            response.digests = digests.to_byte();
            response.alignment = alignment;
        });
        pair.say(response.as_bytes()).unwrap();
        pair.host.set_in_capsule_bytes(4_096);
        let entry = SubmissionEntry { opcode: nvm::WRITE, ..SubmissionEntry::default() };
        let slot = pair.host.submit(&entry, Movement::FromHost(4_096), &mut pair.memory).unwrap();
        let sent = pair.sent();
        let capsule = pdu::CapsuleCommand::read_from_prefix(&sent).unwrap().0;
        assert_eq!(capsule.entry.flags, 0x40);
        assert_eq!(capsule.entry.data.kind, SGL_IN_CAPSULE);
        assert_eq!(capsule.entry.data.length.get(), 4_096);
        assert_eq!(usize::from(capsule.common.data_offset), data_at);
        assert_eq!(capsule.common.pdu_bytes.get() as usize, sent.len());
        let data = &sent[data_at..data_at + 4_096];
        assert_eq!(data, bytes(slot, 0..4_096));
        if digests == BOTH {
            assert_eq!(capsule.common.flags, 3);
            assert_eq!(sent[72..76], digest(&sent[..72]));
            assert_eq!(sent[data_at + 4_096..], digest(data));
        }
    }
}

#[test]
fn a_write_is_sent_as_it_is_asked_for() {
    let config = HostConfig { ready_to_transfer_max: 2, ..HostConfig::default() };
    let mut pair = Pair::ready(config);
    let (slot, id) = pair.submit(nvm::WRITE, Movement::FromHost(20_000));
    // Two requests at once; the PDUs are no longer than the target's 8,192 bytes.
    let both = [pair.request(id, 7, 0, 12_000), pair.request(id, 8, 12_000, 5_000)].concat();
    assert_eq!(pair.say(&both), Ok(vec![]));
    let mut sent = &pair.sent()[..];
    for (tag, offset, length, flags) in
        [(7, 0, 8_192, 0), (7, 8_192, 3_808, LAST), (8, 12_000, 5_000, LAST)]
    {
        let (header, rest) = Data::read_from_prefix(sent).unwrap();
        assert_eq!((header.transfer_tag.get(), header.offset.get()), (tag, offset));
        assert_eq!((header.bytes.get(), header.common.flags), (length, flags));
        let (data, rest) = rest.split_at(length as usize);
        assert_eq!(data, bytes(slot, offset..offset + length));
        sent = rest;
    }
    assert_eq!(sent, []);
    // A success before all data was asked for is a lie; a failure is not.
    let failed = pair.say(&pair.response(id, Status::WRITE_FAULT));
    assert_eq!(failed, Ok(vec![completed(slot, id, Status::WRITE_FAULT, 0)]));
}

#[test]
fn what_was_asked_for_by_a_command_that_failed_is_not_sent() {
    let mut pair = Pair::ready(HostConfig::default());
    let (_, id) = pair.submit(nvm::WRITE, Movement::FromHost(8_192));
    let both = [pair.request(id, 1, 0, 8_192), pair.response(id, Status::WRITE_FAULT)].concat();
    pair.say(&both).unwrap();
    assert_eq!(pair.sent(), []);
    assert_eq!(pair.host.outstanding(), 0);
}

#[test]
fn data_that_does_not_fit_its_digest_fails_the_command_only() {
    let mut pair = Pair::ready(HostConfig { digests: BOTH, ..HostConfig::default() });
    let (slot, id) = pair.submit(nvm::READ, Movement::ToHost(512));
    let mut data = pair.data(id, 0, &bytes(slot, 0..512), LAST | SUCCESS);
    data[100] ^= 1;
    let events = pair.say(&data);
    assert_eq!(events, Ok(vec![completed(slot, id, Status::TRANSIENT_TRANSPORT_ERROR, 512)]));
}

#[test]
fn a_target_that_breaks_the_rules_is_told_so() {
    use FatalError::*;
    type Mistake = fn(&Pair, U16, U16) -> Vec<u8>;
    let data = |pair: &Pair, id, offset, length: u32, flags| {
        pair.data(id, offset, &vec![0; length as usize], flags)
    };
    let table: &[(&str, FatalError, Mistake)] = &[
        ("no such type", InvalidHeaderField, |_, _, _| vec![8, 0, 24, 0, 24, 0, 0, 0]),
        ("a host's PDU", InvalidHeaderField, |_, _, _| vec![4, 0, 72, 0, 72, 0, 0, 0]),
        ("a second start", PduSequenceError, |_, _, _| initialize(|_| ()).as_bytes().to_vec()),
        ("a header too short", InvalidHeaderField, |_, _, _| vec![5, 0, 8, 0, 8, 0, 0, 0]),
        ("a response too long", InvalidHeaderField, |pair, id, _| {
            let mut response = pair.response(id, Status::SUCCESS);
            response[4] += 4;
            response
        }),
        ("a digest unasked for", InvalidHeaderField, |pair, id, _| {
            let mut response = pair.response(id, Status::SUCCESS);
            response[1] = 1;
            response
        }),
        ("a data digest unasked for", InvalidHeaderField, |pair, id, _| {
            pair.data(id, 0, &[0; 16], pdu::FLAG_DATA_DIGEST)
        }),
        ("an unknown command", PduSequenceError, |pair, id, _| {
            pair.response(U16::new(id.get() + 5), Status::SUCCESS)
        }),
        ("a command number beyond all", PduSequenceError, |pair, _, _| {
            pair.response(U16::new(0xffff), Status::SUCCESS)
        }),
        ("a completion that comes twice", PduSequenceError, |pair, id, _| {
            pair.response(id, Status::SUCCESS).repeat(2)
        }),
        ("data after the completion", PduSequenceError, |pair, id, _| {
            [pair.response(id, Status::SUCCESS), pair.data(id, 0, &[0; 512], 0)].concat()
        }),
        ("data after the last data", PduSequenceError, |pair, id, _| {
            [pair.data(id, 0, &[0; 512], LAST), pair.data(id, 512, &[0; 512], 0)].concat()
        }),
        ("too much data", DataOutOfRange, |pair, id, _| pair.data(id, 0, &[0; 4_100], 0)),
        ("too much data in two parts", DataOutOfRange, |pair, id, _| {
            [pair.data(id, 0, &[0; 4_000], 0), pair.data(id, 4_000, &[0; 100], 0)].concat()
        }),
        ("a gap", DataOutOfRange, |pair, id, _| pair.data(id, 512, &[0; 512], 0)),
        ("data again", DataOutOfRange, |pair, id, _| pair.data(id, 0, &[0; 512], 0).repeat(2)),
        ("no data", InvalidHeaderField, |pair, id, _| pair.data(id, 0, &[], 0)),
        ("data of a length that is not there", InvalidHeaderField, |pair, id, _| {
            let mut data = pair.data(id, 0, &[0; 512], 0);
            data[19] = 0xff;
            data
        }),
        ("data within the header", InvalidHeaderField, |pair, id, _| {
            let mut data = pair.data(id, 0, &[0; 512], 0);
            data[3] = 20;
            data
        }),
        ("success before the end", InvalidHeaderField, |pair, id, _| {
            pair.data(id, 0, &[0; 512], SUCCESS)
        }),
        ("data for a write", PduSequenceError, |pair, _, write| pair.data(write, 0, &[0; 512], 0)),
        ("a request to a read", PduSequenceError, |pair, id, _| pair.request(id, 1, 0, 512)),
        ("too many requests", LimitExceeded, |pair, _, write| {
            [pair.request(write, 1, 0, 512), pair.request(write, 2, 512, 512)].concat()
        }),
        ("a request beyond the data", DataOutOfRange, |pair, _, write| {
            pair.request(write, 1, 0, 16_385)
        }),
        ("a request that wraps", DataOutOfRange, |pair, _, write| {
            pair.request(write, 1, 0, u32::MAX)
        }),
        ("a request with a gap", DataOutOfRange, |pair, _, write| pair.request(write, 1, 4, 512)),
        ("a request for nothing", DataOutOfRange, |pair, _, write| pair.request(write, 1, 0, 0)),
        ("a write without its data", PduSequenceError, |pair, _, write| {
            pair.response(write, Status::SUCCESS)
        }),
    ];
    for &(what, expected, mistake) in table {
        let mut pair = Pair::ready(HostConfig::default());
        let (_, read) = pair.submit(nvm::READ, Movement::ToHost(4_096));
        let (_, write) = pair.submit(nvm::WRITE, Movement::FromHost(16_384));
        let said = mistake(&pair, read, write);
        let error = pair.say(&said).expect_err(what);
        assert!(
            matches!(error, HostError::Violation { error, .. } if error == expected),
            "{what}: {error}"
        );
        let sent = pair.sent();
        let (terminate, offender) = Terminate::read_from_prefix(&sent).unwrap();
        assert_eq!(terminate.common.kind, Kind::TerminateFromHost as u8, "{what}");
        assert_eq!(terminate.status.get(), expected as u16, "{what}");
        assert_eq!(terminate.common.pdu_bytes.get() as usize, sent.len(), "{what}");
        assert!(said.windows(offender.len()).any(|part| part == offender), "{what}");
        assert_eq!(pair.say(&[0]), Err(error), "it stays so: {what}");
        assert!(!pair.host.can_submit());
    }
    // Lengths that the table's closures cannot have: the largest data.
    let mut pair = Pair::ready(HostConfig::default());
    let (_, id) = pair.submit(nvm::READ, Movement::ToHost(u32::MAX));
    assert_eq!(pair.say(&data(&pair, id, 0, 1 << 20, 0)), Ok(vec![]));
}

#[test]
fn a_header_that_does_not_fit_its_digest_ends_the_connection() {
    let mut pair = Pair::ready(HostConfig { digests: BOTH, ..HostConfig::default() });
    let (_, id) = pair.submit(nvm::READ, Movement::ToHost(512));
    let mut response = pair.response(id, Status::SUCCESS);
    response[12] ^= 4;
    let error = pair.say(&response).unwrap_err();
    assert!(matches!(error, HostError::Violation { error: FatalError::HeaderDigestError, .. }));
}

#[test]
fn a_connection_that_does_not_start_well_does_not_start() {
    use HostError::Unsupported;
    let refused = |digests, change: fn(&mut Initialize)| {
        let mut pair = Pair::new(HostConfig { digests, ..HostConfig::default() });
        pair.say(initialize(change).as_bytes()).unwrap_err()
    };
    let none = Digests::default();
    assert_eq!(refused(BOTH, |response| response.digests = 1), Unsupported("data digests"));
    assert_eq!(refused(BOTH, |response| response.digests = 2), Unsupported("header digests"));
    assert!(matches!(refused(none, |response| response.version = U16::new(1)), Unsupported(_)));
    for change in [
        |response: &mut Initialize| response.digests = 3,
        |response: &mut Initialize| response.alignment = 32,
        |response: &mut Initialize| response.limit = U32::new(4_092),
        |response: &mut Initialize| response.limit = U32::new(4_098),
        |response: &mut Initialize| response.common.pdu_bytes = U32::new(132),
        |response: &mut Initialize| response.common.kind = Kind::CapsuleResponse as u8,
    ] {
        assert!(matches!(refused(none, change), HostError::Violation { .. }));
    }
}

#[test]
fn a_termination_request_is_understood() {
    let mut pair = Pair::ready(HostConfig::default());
    let terminate = Terminate {
        common: CommonHeader { pdu_bytes: U32::new(24 + 72), ..common(Kind::TerminateToHost, 0) },
        status: U16::new(FatalError::UnsupportedParameter as u16),
        information: U32::new(12),
        reserved: [0; 10],
    };
    let all = [terminate.as_bytes(), &[0; 72]].concat();
    let (part, rest) = all.split_at(50);
    assert_eq!(pair.say(part), Ok(vec![]));
    let error = pair.say(rest).unwrap_err();
    assert_eq!(error, HostError::Terminated { status: 6, information: 12 });
    assert!(error.to_string().contains("unsupported parameter"), "{error}");
}

#[test]
fn commands_end_with_the_slots() {
    let mut pair = Pair::ready(HostConfig { commands: 3, ..HostConfig::default() });
    let ids: Vec<_> = (0..3).map(|_| pair.submit(nvm::FLUSH, Movement::None)).collect();
    assert_eq!(pair.host.next_slot(), None);
    let entry = SubmissionEntry::default();
    assert_eq!(pair.host.submit(&entry, Movement::None, &mut pair.memory), None);
    pair.say(&pair.response(ids[1].1, Status::SUCCESS)).unwrap();
    assert_eq!(pair.host.outstanding_slots().collect::<Vec<_>>(), [ids[0].0, ids[2].0]);
    assert_eq!(pair.host.next_slot(), Some(ids[1].0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However the bytes are split, the same happens.
    #[test]
    fn splitting_changes_nothing(
        digests in any::<(bool, bool)>(),
        lengths in prop::collection::vec(1..40usize, 1..60),
    ) {
        let digests = Digests { header: digests.0, data: digests.1 };
        let mut pair = Pair::ready(HostConfig { digests, ..HostConfig::default() });
        let (slot, read) = pair.submit(nvm::READ, Movement::ToHost(700));
        let (written, write) = pair.submit(nvm::WRITE, Movement::FromHost(9_000));
        let said = [
            pair.data(read, 0, &bytes(slot, 0..300), 0),
            pair.request(write, 3, 0, 9_000),
            pair.data(read, 300, &bytes(slot, 300..700), LAST | SUCCESS),
        ].concat();
        let (mut rest, mut lengths) = (&said[..], lengths.iter().cycle());
        let mut events = Vec::new();
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.len().min(*lengths.next().unwrap()));
            events.extend(pair.say(part).unwrap());
            rest = after;
        }
        prop_assert_eq!(events, vec![completed(slot, read, Status::SUCCESS, 700)]);
        prop_assert_eq!(&pair.memory.read[usize::from(slot)], &bytes(slot, 0..700));
        let sent = pair.sent();
        prop_assert!(sent.windows(808).any(|part| part == bytes(written, 8_192..9_000)));
        let done = pair.say(&pair.response(write, Status::SUCCESS));
        prop_assert_eq!(done, Ok(vec![completed(written, write, Status::SUCCESS, 0)]));
    }

    /// Whatever comes, the machine neither panics nor holds more than it may.
    #[test]
    fn any_bytes_are_survived(
        noise in prop::collection::vec((0..9usize, any::<u32>(), any::<u8>()), 0..60),
        digests in any::<bool>(),
    ) {
        let digests = if digests { BOTH } else { Digests::default() };
        let mut pair = Pair::ready(HostConfig { digests, ..HostConfig::default() });
        let (slot, read) = pair.submit(nvm::READ, Movement::ToHost(4_096));
        let (_, write) = pair.submit(nvm::WRITE, Movement::FromHost(64 << 10));
        for (kind, number, spoilt) in noise {
            let mut said = match kind {
                0 => pair.data(read, 0, &bytes(slot, 0..4_096), LAST | SUCCESS),
                1 => pair.data(read, 0, &bytes(slot, 0..number % 4_096), 0),
                2 => pair.data(read, number, &[1; 64], LAST),
                3 => pair.request(write, number as u16, 0, number % 70_000),
                4 => pair.request(write, 1, number, 512),
                5 => pair.response(write, Status::from_bits(number as u16)),
                6 => pair.response(read, Status::from_bits(number as u16)),
                7 => number.to_le_bytes().to_vec(),
                _ => initialize(|_| ()).as_bytes().to_vec(),
            };
            if spoilt < 32 && !said.is_empty() {
                let at = number as usize % said.len().min(80);
                said[at] ^= 1 << (spoilt % 8);
            }
            if pair.say(&said).is_err() {
                break;
            }
            prop_assert!(pair.host.output(&mut pair.memory).len() <= UNSENT_BYTES_MAX + (256 << 10));
            prop_assert!(pair.host.outstanding() <= 2);
            prop_assert!(pair.memory.read.iter().all(|data| data.len() <= 4_096));
        }
    }
}
