use super::*;
use crate::nvme::{CompletionEntry, Status, SubmissionEntry};
use crate::tcp::digest::Digests;
use proptest::prelude::*;
use zerocopy::IntoBytes;

const LIMITS: Limits = Limits { capsule_data_bytes: 8192, data_bytes: 1 << 20 };

/// What a sender does, and what the receiver is to see.
#[derive(Clone, Debug, PartialEq)]
enum Message {
    Command(u16, Vec<u8>),
    Response(u16, u64),
    Ready(u16, u16, u32, u32),
    Data(u16, u16, u32, Vec<u8>, u8),
}

fn data(bytes: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    (bytes, any::<u8>()).prop_map(|(n, seed)| (0..n).map(|i| (i as u8) ^ seed).collect())
}

fn from_host() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<u16>(), data(0..8193)).prop_map(|(id, data)| Message::Command(id, data)),
        (any::<u16>(), any::<u16>(), any::<u32>(), data(1..20_000), 0..2u8)
            .prop_map(|(id, tag, at, data, last)| Message::Data(id, tag, at, data, last << 2)),
    ]
}

fn from_controller() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<u16>(), any::<u64>()).prop_map(|(id, result)| Message::Response(id, result)),
        (any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>())
            .prop_map(|(id, tag, at, bytes)| Message::Ready(id, tag, at, bytes)),
        (any::<u16>(), any::<u32>(), data(1..20_000), 0..4u8)
            .prop_map(|(id, at, data, flags)| Message::Data(id, 0, at, data, flags << 2)),
    ]
}

fn digests() -> impl Strategy<Value = Digests> {
    (any::<bool>(), any::<bool>()).prop_map(|(header, data)| Digests { header, data })
}

fn send(out: &mut Outbound, message: &Message) {
    match message {
        Message::Command(id, data) => {
            let mut entry = SubmissionEntry::default();
            entry.command_id.set(*id);
            out.command(&entry, data.len() as u32, |into| into.copy_from_slice(data));
        }
        Message::Response(id, result) => {
            out.response(&CompletionEntry::new(*id, Status::SUCCESS, *result));
        }
        Message::Ready(id, tag, at, bytes) => out.ready_to_transfer(*id, *tag, *at, *bytes),
        Message::Data(id, tag, at, data, flags) => {
            let bytes = data.len() as u32;
            out.data(*id, *tag, *at, bytes, *flags, |into| into.copy_from_slice(data));
        }
    }
}

/// The same, with data lent from `memory`.
fn send_lent(out: &mut Outbound, memory: &mut Vec<u8>, message: &Message) {
    match message {
        Message::Data(id, tag, at, data, flags) if !out.digests().data => {
            let address = memory.len() as u64;
            memory.extend_from_slice(data);
            out.data_lent(*id, *tag, *at, data.len() as u32, *flags, address);
        }
        message => send(out, message),
    }
}

/// The first bytes of what is to be sent.
fn pieces(out: &Outbound, memory: &[u8], most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in out.pieces() {
        match piece {
            Piece::Bytes(part) => bytes.extend_from_slice(part),
            Piece::Lent { address, bytes: count } => {
                bytes.extend_from_slice(&memory[address as usize..][..count]);
            }
        }
    }
    assert_eq!(bytes.len(), out.len());
    bytes.truncate(most);
    bytes
}

/// Feeds bytes in parts of the given sizes, over and over; every second part of data may go
/// straight to its place. Returns what was seen and whether all digests fitted.
fn receive(
    inbound: &mut Inbound,
    mut bytes: &[u8],
    parts: &[usize],
) -> Result<(Vec<Message>, bool), Fatal> {
    let (mut seen, mut all_intact) = (Vec::new(), true);
    let mut open: Option<(crate::tcp::pdu::Data, Vec<u8>)> = None;
    let mut part = parts.iter().cycle();
    while !bytes.is_empty() {
        let wanted = *part.next().expect("a cycle goes on");
        let direct = inbound.direct() as usize;
        if direct > 0 && wanted.is_multiple_of(2) {
            let (now, later) = bytes.split_at(wanted.min(direct).min(bytes.len()));
            inbound.received_directly(now);
            open.as_mut().unwrap().1.extend_from_slice(now);
            bytes = later;
        } else {
            let space = inbound.space();
            let (now, later) = bytes.split_at(wanted.min(space.len()).min(bytes.len()));
            space[..now.len()].copy_from_slice(now);
            inbound.received(now.len());
            bytes = later;
        }
        loop {
            if let Some((header, held)) = &mut open {
                held.extend_from_slice(inbound.data());
                inbound.took(inbound.data().len());
                let Some(intact) = inbound.end_data() else { break };
                all_intact &= intact;
                seen.push(Message::Data(
                    header.command_id.get(),
                    header.transfer_tag.get(),
                    header.offset.get(),
                    std::mem::take(held),
                    header.common.flags & 0xc,
                ));
                open = None;
            }
            match inbound.poll()? {
                None => break,
                Some(Pdu::CapsuleCommand(entry, data)) => {
                    all_intact &= data.intact;
                    let bytes = inbound.capsule_data(&data).to_vec();
                    seen.push(Message::Command(entry.command_id.get(), bytes));
                }
                Some(Pdu::CapsuleResponse(entry)) => {
                    seen.push(Message::Response(entry.command_id.get(), entry.result.get()));
                }
                Some(Pdu::ReadyToTransfer(r)) => seen.push(Message::Ready(
                    r.command_id.get(),
                    r.transfer_tag.get(),
                    r.offset.get(),
                    r.bytes.get(),
                )),
                Some(Pdu::Data(header)) => open = Some((header, Vec::new())),
                Some(Pdu::Initialize(_) | Pdu::Terminate(..)) => {}
            }
        }
    }
    Ok((seen, all_intact))
}

fn stream(sender: End, digests: Digests, alignment: u8, messages: &[Message]) -> Vec<u8> {
    let mut out = Outbound::new(sender);
    out.establish(digests, alignment);
    messages.iter().for_each(|message| send(&mut out, message));
    out.bytes().to_vec()
}

fn receiver(end: End, digests: Digests, alignment: u8) -> Inbound {
    let mut inbound = Inbound::new(end, LIMITS);
    inbound.establish(digests, alignment);
    inbound
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Lending data changes nothing about the stream, however it is sent and whenever what is
    /// lent is copied.
    #[test]
    fn lent_data_are_sent_like_others(
        messages in prop::collection::vec(from_controller(), 1..12),
        header in any::<bool>(),
        parts in prop::collection::vec((1..30_000usize, any::<bool>()), 1..20),
    ) {
        let digests = Digests { header, data: false };
        let expected = stream(End::Controller, digests, 8, &messages);
        let mut out = Outbound::new(End::Controller);
        out.establish(digests, 8);
        let (mut memory, mut seen) = (Vec::new(), Vec::new());
        let mut messages = messages.iter();
        for (part, settles) in parts.iter().cycle() {
            let before = pieces(&out, &memory, usize::MAX);
            if *settles {
                out.settle(|at, into| into.copy_from_slice(&memory[at as usize..][..into.len()]));
                prop_assert_eq!(out.bytes(), &before[..]);
            }
            let message = messages.next();
            message.into_iter().for_each(|message| send_lent(&mut out, &mut memory, message));
            let sent = pieces(&out, &memory, *part);
            out.sent(sent.len());
            seen.extend(sent);
            if message.is_none() && out.is_empty() {
                break;
            }
        }
        prop_assert!(seen == expected);
    }

    #[test]
    fn what_is_sent_is_received(
        host in prop::collection::vec(from_host(), 0..12),
        controller in prop::collection::vec(from_controller(), 0..12),
        digests in digests(),
        alignment in 0..32u8,
        parts in prop::collection::vec(1..6000usize, 1..8),
    ) {
        let alignment = alignment_bytes(alignment).unwrap();
        for (sender, to, messages) in
            [(End::Host, End::Controller, host), (End::Controller, End::Host, controller)]
        {
            let bytes = stream(sender, digests, alignment, &messages);
            let mut inbound = receiver(to, digests, alignment);
            let (seen, intact) = receive(&mut inbound, &bytes, &parts).unwrap();
            prop_assert_eq!(seen, messages);
            prop_assert!(intact);
            prop_assert_eq!(inbound.data_left(), 0);
        }
    }

    #[test]
    fn one_wrong_byte_is_noticed(
        messages in prop::collection::vec(from_host(), 1..4),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
        parts in prop::collection::vec(1..6000usize, 1..8),
    ) {
        let digests = Digests { header: true, data: true };
        let mut bytes = stream(End::Host, digests, 4, &messages);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let mut inbound = receiver(End::Controller, digests, 4);
        match receive(&mut inbound, &bytes, &parts) {
            Err(_) => {}
            Ok((seen, intact)) => {
                // A longer length leaves the stream waiting for the rest.
                prop_assert!(!intact || seen.len() < messages.len());
            }
        }
    }

    #[test]
    fn rubbish_is_refused_in_bounded_memory(
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
        kind in 0..12u8,
        established in any::<bool>(),
        digests in digests(),
        end in prop_oneof![Just(End::Host), Just(End::Controller)],
    ) {
        let mut inbound = Inbound::new(end, LIMITS);
        if established {
            inbound.establish(digests, 4);
        }
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        let _ = receive(&mut inbound, &bytes, &[117]);
        prop_assert!(inbound.memory_bytes() <= 256 << 10);
    }
}

/// A header that is wrong in one field, and what the receiver says about it.
#[test]
fn wrong_headers_are_named() {
    use crate::tcp::pdu::FatalError::*;
    let none = Digests::default();
    let command = stream(End::Host, none, 4, &[Message::Command(1, vec![7; 512])]);
    let data = stream(End::Host, none, 4, &[Message::Data(1, 2, 0, vec![7; 512], 4)]);
    let cases: &[(&[u8], usize, u8, FatalError, u32)] = &[
        (&command, 0, 0x08, InvalidHeaderField, 0), // no such kind
        (&command, 0, 0x05, InvalidHeaderField, 0), // the wrong way
        (&command, 0, 0x00, PduSequenceError, 0),   // a second initialize request
        (&command, 1, 0x01, InvalidHeaderField, 1), // a header digest nobody agreed on
        (&command, 1, 0x02, InvalidHeaderField, 1), // a data digest nobody agreed on
        (&command, 2, 71, InvalidHeaderField, 2),
        (&command, 3, 73, InvalidHeaderField, 3), // not aligned
        (&command, 3, 68, InvalidHeaderField, 3), // within the header
        (&command, 6, 0x10, InvalidHeaderField, 4), // more than a capsule may have
        (&command, 4, 10, InvalidHeaderField, 4), // shorter than its header (10 + 2 * 256)
        (&data, 7, 0x7f, InvalidHeaderField, 16), // data length and PDU length differ
        (&data, 17, 0x03, InvalidHeaderField, 16),
    ];
    for (number, &(bytes, at, value, error, information)) in cases.iter().enumerate() {
        let mut bytes = bytes.to_vec();
        bytes[at] = value;
        if (at, value) == (4, 10) {
            bytes[5] = 0;
        }
        let fatal = receive(&mut receiver(End::Controller, none, 4), &bytes, &[1]).unwrap_err();
        assert_eq!((fatal.error, fatal.information), (error, information), "case {number}");
        assert!(fatal.header.len() <= 128 && bytes.starts_with(&fatal.header));
    }
}

#[test]
fn too_much_data_in_a_pdu_is_a_limit() {
    let bytes = stream(End::Host, Digests::default(), 4, &[Message::Data(1, 2, 0, vec![7; 99], 4)]);
    let mut inbound = receiver(End::Controller, Digests::default(), 4);
    inbound.set_limits(Limits { capsule_data_bytes: 0, data_bytes: 98 });
    let fatal = receive(&mut inbound, &bytes, &[9]).unwrap_err();
    assert_eq!((fatal.error, fatal.information), (FatalError::LimitExceeded, 16));
}

#[test]
fn only_initialization_opens_a_connection() {
    let mut out = Outbound::new(End::Host);
    let fields = Initialization { version: 0, alignment: 3, digests: 3, limit: 7 };
    out.initialize(fields);
    let mut inbound = Inbound::new(End::Controller, LIMITS);
    inbound.space()[..128].copy_from_slice(out.bytes());
    inbound.received(128);
    assert_eq!(inbound.poll(), Ok(Some(Pdu::Initialize(fields))));
    let entry = SubmissionEntry::default();
    out.sent(128);
    out.command(&entry, 0, |_| ());
    inbound.space()[..72].copy_from_slice(out.bytes());
    inbound.received(72);
    assert_eq!(inbound.poll().unwrap_err().error, FatalError::PduSequenceError);
}

#[test]
fn a_terminate_pdu_carries_the_header_at_fault() {
    let fatal = Fatal {
        error: FatalError::InvalidHeaderField,
        information: 0x0102,
        header: SubmissionEntry::default().as_bytes().to_vec(),
    };
    let mut out = Outbound::new(End::Controller);
    out.establish(Digests { header: true, data: true }, 64);
    out.terminate(&fatal);
    assert_eq!(out.len(), 24 + 64);
    let mut inbound = receiver(End::Host, Digests { header: true, data: true }, 4);
    inbound.space()[..88].copy_from_slice(out.bytes());
    inbound.received(88);
    assert_eq!(inbound.poll(), Ok(Some(Pdu::Terminate(1, 0x0102))));
}
