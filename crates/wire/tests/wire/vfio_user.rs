//! Both ends of a vfio-user connection, joined by a socket that cuts and merges bytes.

use mynah_wire::vfio_user::client::{Answer, Client, Request};
use mynah_wire::vfio_user::message::{
    CONFIGURATION_REGION, DeviceInfo, Header, MSI_X, command, flag,
};
use mynah_wire::vfio_user::server::{Area, Change, Device, Event, Region, Server, Ticket};
use mynah_wire::vfio_user::{Errno, MESSAGE_BYTES_MAX, Output};
use proptest::prelude::*;
use std::collections::VecDeque;
use zerocopy::{FromBytes, IntoBytes};

/// A descriptor: who sends it, and what for.
type Descriptor = (&'static str, u32);

/// One direction of a stream socket: bytes, and descriptors that go with one of them.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    taken: usize,
    descriptors: VecDeque<(usize, Descriptor)>,
}

impl Pipe {
    /// Takes a part of the output, as a socket with little room would.
    fn send(&mut self, output: Output<'_>, most: usize, from: &'static str) -> usize {
        let bytes = output.bytes.len().min(most);
        let at = self.taken + self.bytes.len();
        self.descriptors.extend(output.descriptors.map(|number| (at, (from, number))));
        self.bytes.extend(&output.bytes[..bytes]);
        bytes
    }

    /// Gives bytes as a socket does: those with descriptors are not joined with later ones.
    fn receive(&mut self, into: &mut [u8], most: usize) -> (usize, Vec<Descriptor>) {
        let mut bytes = into.len().min(self.bytes.len()).min(most);
        let mut came = Vec::new();
        if bytes == 0 {
            return (0, came);
        }
        while let Some(&(at, descriptor)) = self.descriptors.front() {
            if at >= self.taken + bytes {
                break;
            }
            if !came.is_empty() {
                bytes = bytes.min(at - self.taken);
                break;
            }
            came.push(descriptor);
            self.descriptors.pop_front();
        }
        for (place, byte) in into.iter_mut().zip(self.bytes.drain(..bytes)) {
            *place = byte;
        }
        self.taken += bytes;
        (bytes, came)
    }
}

fn device() -> Device {
    let mut device = Device { mappings_max: 1000, ..Device::default() };
    let mapped = Some(Area { offset: 0x1000, bytes: 0x2000 });
    device.regions[0] = Region { bytes: 0x4000, mapped };
    device.regions[CONFIGURATION_REGION as usize] = Region { bytes: 4096, mapped: None };
    device.interrupts[MSI_X as usize] = 40;
    device
}

/// Something asked, with owned data.
#[derive(Clone, Debug)]
enum Ask {
    Map(u64, u64),
    Unmap(u64, u64),
    Device,
    Region(u32),
    Interrupts(u32),
    Signal(u32, u32),
    Disable,
    Read(u32, u64, u32),
    Write(u32, u64, Vec<u8>),
    Reset,
}

impl Ask {
    fn request(&self) -> Request<'_> {
        match *self {
            Ask::Map(address, bytes) => Request::Map { address, bytes, offset: 8192 },
            Ask::Unmap(address, bytes) => Request::Unmap { address, bytes },
            Ask::Device => Request::Device,
            Ask::Region(region) => Request::Region(region),
            Ask::Interrupts(kind) => Request::Interrupts(kind),
            Ask::Signal(start, count) => Request::Signal { kind: MSI_X, start, count },
            Ask::Disable => Request::Disable(MSI_X),
            Ask::Read(region, offset, bytes) => Request::Read { region, offset, bytes },
            Ask::Write(region, offset, ref data) => Request::Write { region, offset, data },
            Ask::Reset => Request::Reset,
        }
    }

    /// Whether a server can do it.
    fn is_valid(&self) -> bool {
        let within = |region: u32, offset: u64, bytes: u64| {
            let there = device().regions.get(region as usize).map_or(0, |region| region.bytes);
            bytes > 0 && offset.checked_add(bytes).is_some_and(|end| end <= there)
        };
        match *self {
            // No file is longer than 2^63 - 1 bytes, and the memory begins at byte 8192 of one.
            Ask::Map(at, bytes) => {
                bytes > 0 && at.checked_add(bytes - 1).is_some() && bytes <= i64::MAX as u64 - 8192
            }
            Ask::Unmap(at, bytes) => bytes > 0 && at.checked_add(bytes - 1).is_some(),
            Ask::Region(region) => region < 9,
            Ask::Interrupts(kind) => kind < 5,
            // One descriptor goes with the request.
            Ask::Signal(start, count) => count == 1 && start < 40,
            Ask::Read(region, offset, bytes) => within(region, offset, bytes.into()),
            Ask::Write(region, offset, ref data) => within(region, offset, data.len() as u64),
            Ask::Device | Ask::Disable | Ask::Reset => true,
        }
    }
}

fn ask() -> impl Strategy<Value = Ask> {
    let offset = prop_oneof![0u64..0x4100, Just(u64::MAX - 3)];
    let region = prop_oneof![Just(0u32), Just(7), 0u32..11];
    let address = prop_oneof![any::<u64>(), (0u64..8).prop_map(|it| it << 20)];
    let size = prop_oneof![Just(0u64), Just(1 << 20), any::<u64>()];
    prop_oneof![
        (address.clone(), size.clone()).prop_map(|(at, bytes)| Ask::Map(at, bytes)),
        (address, size).prop_map(|(at, bytes)| Ask::Unmap(at, bytes)),
        Just(Ask::Device),
        (0u32..11).prop_map(Ask::Region),
        (0u32..7).prop_map(Ask::Interrupts),
        (0u32..45, 0u32..3).prop_map(|(start, count)| Ask::Signal(start, count)),
        Just(Ask::Disable),
        (region.clone(), offset.clone(), 0u32..5000)
            .prop_map(|(region, at, bytes)| Ask::Read(region, at, bytes)),
        (region, offset, proptest::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(region, at, data)| Ask::Write(region, at, data)),
        Just(Ask::Reset),
    ]
}

/// What the server was asked, in a few words, and the ticket for the answer.
fn heard(event: Event<'_, Descriptor>) -> Option<(String, Ticket, Option<u32>)> {
    Some(match event {
        Event::Connected(_) | Event::Knocked => return None,
        Event::Ended(ended) => panic!("{ended}"),
        Event::Map { ticket, memory, descriptor } => {
            assert_eq!((memory.offset, descriptor), (8192, Some(("client", 1))));
            (format!("map {} {}", memory.address, memory.bytes), ticket, None)
        }
        Event::Unmap { ticket, range } => {
            let (at, bytes) = range.expect("never everything");
            (format!("unmap {at} {bytes}"), ticket, None)
        }
        Event::Interrupts { ticket, kind, start, count, change } => {
            assert_eq!(kind, MSI_X);
            match change {
                Change::Disable => ("disable".to_owned(), ticket, None),
                Change::Signal(descriptors) => {
                    assert_eq!(descriptors, [("client", 2)]);
                    (format!("signal {start} {count}"), ticket, None)
                }
                other => panic!("nobody asks for {other:?}"),
            }
        }
        Event::Read { ticket, region, offset, bytes } => {
            (format!("read {region} {offset} {bytes}"), ticket, Some(bytes))
        }
        Event::Write { ticket, region, offset, data } => {
            (format!("write {region} {offset} {data:?}"), ticket, None)
        }
        Event::Reset { ticket } => ("reset".to_owned(), ticket, None),
    })
}

/// What the server should hear of it; `None`: nothing.
fn expected(ask: &Ask) -> Option<String> {
    let text = match ask {
        Ask::Map(at, bytes) => format!("map {at} {bytes}"),
        Ask::Unmap(at, bytes) => format!("unmap {at} {bytes}"),
        Ask::Signal(start, count) => format!("signal {start} {count}"),
        Ask::Disable => "disable".to_owned(),
        Ask::Read(region, offset, bytes) => format!("read {region} {offset} {bytes}"),
        Ask::Write(region, offset, data) => format!("write {region} {offset} {data:?}"),
        Ask::Reset => "reset".to_owned(),
        Ask::Device | Ask::Region(_) | Ask::Interrupts(_) => return None,
    };
    ask.is_valid().then_some(text)
}

fn check(ask: &Ask, result: Result<Answer<'_, Descriptor>, Errno>) {
    let Ok(answer) = result else {
        assert!(!ask.is_valid(), "{ask:?} is valid and failed");
        return;
    };
    assert!(ask.is_valid(), "{ask:?} is not valid");
    match (ask, answer) {
        (Ask::Device, Answer::Device { resettable, pci, regions, interrupts }) => {
            assert!(resettable && pci && regions == 9 && interrupts == 5);
        }
        (Ask::Region(number), Answer::Region(region)) => {
            let there = device().regions[*number as usize];
            assert_eq!((region.bytes, region.offset), (there.bytes, 0));
            assert_eq!(region.mapped, Vec::from_iter(there.mapped));
            let descriptors = there.mapped.map(|_| ("server", *number));
            assert_eq!(region.descriptors, Vec::from_iter(descriptors));
        }
        (Ask::Interrupts(kind), Answer::Interrupts(count)) => {
            assert_eq!(count, device().interrupts[*kind as usize]);
        }
        (Ask::Read(_, offset, bytes), Answer::Data(data)) => {
            assert!(data.len() == *bytes as usize && data.iter().all(|&it| it == *offset as u8));
        }
        (_, Answer::Done) => {}
        (ask, answer) => panic!("{ask:?}: {answer:?}"),
    }
}

proptest! {
    /// Whatever is asked is heard once, in order, with its descriptors, if it is valid; and
    /// answered once, however the bytes travel.
    #[test]
    fn both_ends_understand_one_another(
        asks in proptest::collection::vec(ask(), 1..40),
        parts in proptest::collection::vec(1usize..200, 1..40),
    ) {
        let mut client: Client<Descriptor> = Client::new();
        let mut server: Server<Descriptor> = Server::new(device());
        let (mut to_server, mut to_client) = (Pipe::default(), Pipe::default());
        let mut parts = parts.into_iter().cycle();
        let mut part = move || parts.next().expect("there is always one");
        let ids: Vec<u16> = asks.iter().map(|ask| {
            let descriptors = match ask {
                Ask::Map(..) => Some(1),
                Ask::Signal(..) => Some(2),
                _ => None,
            };
            client.submit(&ask.request(), descriptors)
        }).collect();
        let mut heard_all = Vec::new();
        let mut answered = vec![false; asks.len()];
        let mut connected = false;
        let mut turns = 0;
        while client.outstanding() > 0 {
            turns += 1;
            prop_assert!(turns < 200_000, "it does not end");
            if let Some(output) = client.output() {
                let sent = to_server.send(output, part(), "client");
                client.sent(sent);
            }
            if server.may_receive() {
                let (bytes, descriptors) = to_server.receive(server.receive_buffer(), part());
                server.received(bytes, descriptors);
            }
            while let Some(event) = server.poll() {
                let offset = if let Event::Read { offset, .. } = event { offset } else { 0 };
                let Some((text, ticket, read)) = heard(event) else { continue };
                heard_all.push(text);
                match read {
                    Some(_) => server.read_done(ticket, |into| into.fill(offset as u8)),
                    None => server.answer(ticket, Ok(())),
                }
            }
            if let Some(output) = server.output() {
                let sent = to_client.send(output, part(), "server");
                server.sent(sent);
            }
            let (bytes, descriptors) = to_client.receive(client.receive_buffer(), part());
            client.received(bytes, descriptors);
            while let Some(reply) = client.poll().expect("the server is right") {
                if reply.id == 0 {
                    prop_assert!(matches!(reply.result, Ok(Answer::Connected(_))));
                    connected = true;
                    continue;
                }
                let at = ids.iter().position(|&id| id == reply.id).expect("it was asked");
                prop_assert!(!std::mem::replace(&mut answered[at], true));
                check(&asks[at], reply.result);
            }
        }
        prop_assert!(connected && answered.into_iter().all(|it| it));
        let wanted: Vec<String> = asks.iter().filter_map(expected).collect();
        prop_assert_eq!(heard_all, wanted);
    }
}

/// A client that has nothing to do with it answers a knock, too; nothing else is taken for an answer.
#[test]
fn a_knock_is_answered() {
    let mut server: Server<u32> = Server::new(device());
    feed(&mut server, &message(1, command::VERSION, 0, &[0, 0, 1, 0]));
    assert!(server.has_message());
    assert!(matches!(server.poll(), Some(Event::Connected(_))));
    assert!(!server.has_message());
    sent(&mut server);
    server.knock();
    let asked = sent(&mut server);
    let header = Header::read_from_bytes(&asked[..Header::BYTES]).unwrap();
    assert_eq!((header.command.get(), asked.len()), (command::DMA_READ, Header::BYTES + 16));
    let id = header.id.get();
    feed(&mut server, &message(id, command::DMA_READ, flag::REPLY | flag::ERROR, &[]));
    assert!(matches!(server.poll(), Some(Event::Knocked)));
    // Once.
    feed(&mut server, &message(id, command::DMA_READ, flag::REPLY, &[0; 20]));
    assert!(matches!(server.poll(), Some(Event::Ended(_))));
}

/// A message as bytes.
fn message(id: u16, command: u16, flags: u32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        id: id.into(),
        command: command.into(),
        size: ((Header::BYTES + body.len()) as u32).into(),
        flags: flags.into(),
        error: 0.into(),
    };
    [header.as_bytes(), body].concat()
}

fn feed(server: &mut Server<u32>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let into = server.receive_buffer();
        let fits = into.len().min(bytes.len());
        into[..fits].copy_from_slice(&bytes[..fits]);
        bytes = &bytes[fits..];
        server.received(fits, []);
        if bytes.is_empty() {
            return;
        }
        assert!(server.poll().is_none(), "only the last message is one with an event");
    }
}

fn sent(server: &mut Server<u32>) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(output) = server.output() {
        all.extend_from_slice(output.bytes);
        let length = output.bytes.len();
        server.sent(length);
    }
    all
}

/// QEMU's client has room for a reply to VERSION as long as its request, SPDK's for none of the
/// JSON, since it sends none.
#[test]
fn the_reply_to_version_is_no_longer_than_the_request() {
    for room in 0..300usize {
        let mut json = b"{}".to_vec();
        json.resize(room.max(3) - 1, b' ');
        json.push(0);
        let json = if room < 3 { &[][..] } else { &json };
        let request = message(5, command::VERSION, 0, &[&[0, 0, 0, 0], json].concat());
        let mut server = Server::new(device());
        feed(&mut server, &request);
        assert!(matches!(server.poll(), Some(Event::Connected(_))));
        let reply = sent(&mut server);
        assert!(reply.len() <= request.len());
        assert_eq!(reply[18..20], [0, 0], "the minor version that was asked for");
        if room >= 3 {
            assert_eq!(reply.last(), Some(&0));
        }
        assert!(room < 150 || reply.len() > 100, "there is room for all");
    }
}

#[test]
fn a_version_is_agreed_on_first_and_only_once() {
    let version = message(1, command::VERSION, 0, &[0, 0, 9, 0]);
    let device_info = message(2, command::DEVICE_GET_INFO, 0, DeviceInfo::default().as_bytes());
    for wrong in [
        message(1, command::VERSION, 0, &[1, 0, 0, 0]),
        message(1, command::VERSION, 0, &[0]),
        message(1, command::VERSION, 0, b"\0\0\0\0{"),
        device_info.clone(),
    ] {
        let mut server = Server::new(device());
        feed(&mut server, &wrong);
        assert!(matches!(server.poll(), Some(Event::Ended(_))));
        assert!(server.poll().is_none() && !server.may_receive());
        let reply = sent(&mut server);
        assert_eq!((reply.len(), reply[8], reply[12]), (16, 0x21, 22), "an error, and which");
    }
    let mut server = Server::new(device());
    feed(&mut server, &version);
    assert!(matches!(server.poll(), Some(Event::Connected(_))));
    assert_eq!(sent(&mut server)[18], 1, "the highest minor version known here");
    feed(&mut server, &version);
    assert!(server.poll().is_none());
    assert_eq!(sent(&mut server)[8], 0x21);
    feed(&mut server, &device_info);
    assert!(server.poll().is_none());
    assert_eq!(sent(&mut server)[8], 1);
}

/// What cannot be done has an error that is not zero, and what shall not be answered is not.
#[test]
fn errors_have_numbers_and_silence_is_kept() {
    let mut server = Server::new(device());
    feed(&mut server, &message(1, command::VERSION, 0, &[0, 0, 0, 0]));
    assert!(matches!(server.poll(), Some(Event::Connected(_))));
    sent(&mut server);
    for number in 0..40u16 {
        for length in [0, 4, 20, 32, 100] {
            for (flags, reply) in [(0, true), (0x10, false)] {
                feed(&mut server, &message(7, number, flags, &vec![0xff; length]));
                let event = server.poll();
                // Any bytes at all are a reset.
                assert_eq!(event.is_some(), number == command::DEVICE_RESET, "{number}");
                if let Some(Event::Reset { ticket }) = event {
                    server.answer(ticket, Err(Errno(0)));
                }
                let said = sent(&mut server);
                if number == command::DEVICE_GET_INFO && length >= 16 {
                    continue;
                }
                assert_eq!(said.len(), if reply { 16 } else { 0 }, "{number} {length}");
                assert!(!reply || said[8] == 0x21 && said[12] != 0, "{number}: {said:?}");
            }
        }
    }
}

#[test]
fn messages_that_cannot_be_cut_off_end_the_connection() {
    for size in [0u32, 15, MESSAGE_BYTES_MAX as u32 + 1, u32::MAX] {
        let mut header = message(1, command::DEVICE_RESET, 0, &[]);
        header[4..8].copy_from_slice(&size.to_le_bytes());
        let mut server: Server<u32> = Server::new(device());
        feed(&mut server, &header);
        assert!(matches!(server.poll(), Some(Event::Ended(_))), "{size}");
    }
}

/// A client that does not read what it asks for cannot have more held for it.
#[test]
fn what_waits_to_be_sent_is_bounded() {
    let mut server = Server::new(device());
    feed(&mut server, &message(1, command::VERSION, 0, &[0, 0, 0, 0]));
    assert!(matches!(server.poll(), Some(Event::Connected(_))));
    let mut body = [0; 16];
    body[8] = 7;
    body[12..14].copy_from_slice(&4096u16.to_le_bytes());
    let mut answered = 0;
    while server.may_receive() {
        feed(&mut server, &message(1, command::REGION_READ, 0, &body));
        let Some(Event::Read { ticket, .. }) = server.poll() else { panic!("it is a read") };
        server.read_done(ticket, |_| ());
        answered += 1;
        assert!(answered < 1_000);
    }
    assert!(sent(&mut server).len() < 512 << 10);
    assert!(server.may_receive());
}
