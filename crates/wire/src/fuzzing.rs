//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. Nothing here may panic, hang or allocate without bound.

use crate::authentication::{
    Choices, Group, Hash, Host, HostStep, MESSAGE_BYTES_MAX, Message, Parties, Secret,
    SequenceNumbers, Target, TargetStep,
};
use crate::nbd;
use crate::nvme::command::{
    AdminCommand, FabricsCommand, KeyValueCommand, NvmCommand, ReservationCommand, SamsungCommand,
    admin_bytes, key_value_bytes,
};
use crate::nvme::entry::Transfer;
use crate::nvme::key::{KeyList, listed_keys};
use crate::nvme::opcode::nvm;
use crate::nvme::opcode::{FABRICS, fabrics::CONNECT};
use crate::nvme::query;
use crate::nvme::samsung::{KeyBatch, batched_keys};
use crate::nvme::{CompletionEntry, Status, SubmissionEntry};
use crate::rdma;
use crate::tcp::digest::Digests;
use crate::tcp::host;
use crate::tcp::pool::TransferPool;
use crate::tcp::stream::{End, Initialization, Outbound};
use crate::tcp::target::{Connection, Event, Settings};
use crate::tls_key::{Identity, TlsKey};
use crate::vfio_user::server::{self, Area, Change, Device, Region, Server};
use crate::vfio_user::{ACCESS_BYTES_MAX, DESCRIPTORS_MAX, client, message};
use zerocopy::FromBytes;

/// Reads a message, and gives it to both ends of an authentication at every step of it. A
/// message that was read survives being written and read again.
pub fn authentication_message(data: &[u8]) {
    if let Ok(message) = Message::parse(data) {
        let built = message.build();
        assert_eq!(Message::parse(&built).as_ref(), Ok(&message));
    }
    let choices = Choices { hashes: Hash::ALL.to_vec(), groups: vec![Group::Null] };
    let mut random = |bytes: &mut [u8]| bytes.fill(7);
    let secret = Secret::generate(Hash::Sha256, &mut random);
    let parties = Parties {
        host_nqn: "nqn.2026-11.fuzz:host".to_owned(),
        subsystem_nqn: "nqn.2026-11.fuzz:subsystem".to_owned(),
        host_secret: secret.clone(),
        controller_secret: Some(secret),
    };
    let mut sequence = SequenceNumbers::new(1);
    // The message comes instead of the one that belongs there.
    for steps in 0..6 {
        let mut target = Target::new(choices.clone(), parties.clone());
        let (mut host, mut step) = Host::new(choices.clone(), parties.clone(), 1);
        for number in 0..=steps {
            let instead = number == steps;
            step = match step {
                HostStep::Send(message) => {
                    let message = if instead { data } else { &message };
                    if let TargetStep::Work(job) = target.send(message, &mut random, &mut sequence)
                    {
                        target.worked(job.run());
                    }
                    host.sent()
                }
                HostStep::Receive => {
                    let message = target.receive(MESSAGE_BYTES_MAX);
                    let message = message.expect("any message fits");
                    let message = if instead { data } else { &message };
                    host.received(message, &mut random, &mut sequence)
                }
                HostStep::Work(job) => host.worked(job.run()),
                HostStep::Done | HostStep::Failed(_) => break,
            };
        }
        let _ = target.receive(data.len());
    }
}

/// Reads secrets, TLS keys and TLS identities. One that was read is written as it was.
pub fn keys(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(secret) = text.parse::<Secret>() {
        assert_eq!(*secret.reveal(), text.trim());
    }
    if let Ok(key) = text.parse::<TlsKey>() {
        assert_eq!(*key.reveal(), text.trim());
    }
    if let Some(identity) = Identity::parse(text) {
        let key = TlsKey::generate(false, &mut |bytes| bytes.fill(7));
        let psk = key.psk(identity.version, identity.host_nqn, identity.subsystem_nqn);
        let again = Identity::parse(&psk.identity).expect("an identity");
        assert_eq!((again.version, again.host_nqn), (identity.version, identity.host_nqn));
        assert_eq!(again.subsystem_nqn, identity.subsystem_nqn);
    }
}

/// Is a host to the controller's end of a connection. The first byte says in which state the
/// connection is, and in what parts the rest arrives.
pub fn target_connection(data: &[u8]) {
    let Some((&mode, bytes)) = data.split_first() else { return };
    let mut pool = TransferPool::new(1 << 20);
    let mut target = Connection::new(Settings::default());
    let mut host = Outbound::new(End::Host);
    if mode & 1 != 0 {
        let digests = mode >> 1 & 3;
        host.initialize(Initialization { version: 0, alignment: 0, digests, limit: 3 });
        if mode & 8 != 0 {
            host.establish(Digests::from_byte(digests), 4);
            let mut connect = SubmissionEntry { opcode: FABRICS, ..SubmissionEntry::default() };
            connect.namespace_id.set(CONNECT.into());
            connect.dword11.set(63 | 4 << 16);
            host.command(&connect, 0, |_| ());
        }
    }
    let part = usize::from(mode >> 4) * 997 + 1;
    for bytes in host.bytes().chunks(200).chain(bytes.chunks(part)) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            if !target.may_receive() {
                target.sent(target.output().len());
            }
            let buffer = target.receive_buffer();
            let fits = buffer.len().min(bytes.len());
            buffer[..fits].copy_from_slice(&bytes[..fits]);
            bytes = &bytes[fits..];
            target.received(fits);
            loop {
                let entry = match target.poll(&mut pool) {
                    None => break,
                    Some(Event::Command { entry, data, .. }) => {
                        assert!(data.len() <= 1 << 20);
                        entry
                    }
                    Some(Event::Ended(_)) => {
                        assert_eq!(pool.lent_bytes(), 0);
                        return;
                    }
                };
                let done = CompletionEntry::new(entry.command_id.get(), Status::SUCCESS, 0);
                if let Ok(FabricsCommand::Connect(connect)) = FabricsCommand::parse(&entry) {
                    let (entries, flow_control) = (connect.entries(), connect.has_flow_control());
                    target.connected(connect.queue_id, entries, flow_control);
                }
                match entry.transfer() {
                    Transfer::ToHost => {
                        let bytes = entry.data.length.get().min(8192);
                        target.respond_with_data(&done, bytes, |into| into.fill(1));
                    }
                    _ => target.respond(&done),
                }
            }
            assert!(target.memory_bytes() <= 4 << 20);
        }
    }
    target.close(&mut pool);
    assert_eq!(pool.lent_bytes(), 0);
}

/// Hears a target, as a host that reads and writes. The first byte says which digests it
/// wants and in what pieces it hears; the rest is what the target says.
pub fn host_stream(data: &[u8]) {
    struct Lengths;
    impl host::Payload for Lengths {
        fn fill(&mut self, _slot: u16, offset: u32, into: &mut [u8]) {
            assert!(offset as usize + into.len() <= 64 << 10, "no more than was to be written");
            into.fill(1);
        }

        fn place(&mut self, _slot: u16, offset: u32, from: &[u8]) {
            assert!(offset as usize + from.len() <= 4 << 10, "no more than was to be read");
        }
    }
    // Slots read and write in turns.
    let submit = |machine: &mut host::Host| {
        while let Some(slot) = machine.next_slot().filter(|_| machine.can_submit()) {
            let (opcode, movement) = match slot % 2 {
                0 => (nvm::READ, host::Movement::ToHost(4 << 10)),
                _ => (nvm::WRITE, host::Movement::FromHost(64 << 10)),
            };
            let entry = SubmissionEntry { opcode, ..Default::default() };
            machine.submit(&entry, movement, &mut Lengths);
        }
    };
    let Some((&first, mut said)) = data.split_first() else { return };
    let digests = Digests { header: first & 1 != 0, data: first & 2 != 0 };
    let piece = if first & 4 != 0 { 1 + usize::from(first >> 3) } else { usize::MAX };
    let config = host::HostConfig { digests, commands: 4, ..Default::default() };
    let mut machine = host::Host::new(config);
    while !said.is_empty() {
        let into = machine.receive_buffer();
        let (now, later) = said.split_at(said.len().min(into.len()).min(piece));
        into[..now.len()].copy_from_slice(now);
        machine.received(now.len());
        said = later;
        loop {
            match machine.poll(&mut Lengths) {
                Ok(Some(_)) => submit(&mut machine),
                Ok(None) => break,
                Err(_) => {
                    let farewell = machine.output(&mut Lengths).len();
                    assert!(farewell <= 2 << 20, "{farewell} bytes for a target that is wrong");
                    return;
                }
            }
        }
        let unsent = machine.output(&mut Lengths).len();
        assert!(unsent <= 2 << 20, "{unsent} bytes wait to be sent");
        machine.sent(unsent);
    }
}

/// A device with one region of which a part can be mapped, configuration space, and MSI-X.
fn vfio_user_device() -> Device {
    let mut device = Device { mappings_max: 64, ..Device::default() };
    let mapped = Some(Area { offset: 0x1000, bytes: 0x1000 });
    device.regions[0] = Region { bytes: 0x4000, mapped };
    device.regions[message::CONFIGURATION_REGION as usize] = Region { bytes: 4096, mapped: None };
    device.interrupts[message::MSI_X as usize] = 33;
    device
}

/// Is a client to the server's end of a vfio-user connection. The first byte says in what parts
/// the rest arrives, whether the version is agreed on before, and how many descriptors come with
/// each part.
pub fn vfio_user_server(data: &[u8]) {
    let Some((&mode, bytes)) = data.split_first() else { return };
    let device = vfio_user_device();
    let mut server: Server<()> = Server::new(device);
    let part = if mode & 2 != 0 { 1 + usize::from(mode >> 5) * 7 } else { usize::MAX };
    let descriptors = usize::from(mode >> 2 & 7) * 3;
    let version = [[0, 0, 1, 0, 20, 0, 0, 0], [0; 8]].concat();
    let version = [&version[..], &[0, 0, 1, 0]].concat();
    let hello: &[u8] = if mode & 1 != 0 { &version } else { &[] };
    for mut bytes in [hello, bytes] {
        while !bytes.is_empty() {
            if !server.may_receive() {
                while let Some(output) = server.output() {
                    let length = output.bytes.len();
                    assert!(length <= 512 << 10);
                    server.sent(length);
                }
                if !server.may_receive() {
                    return;
                }
            }
            let into = server.receive_buffer();
            let fits = into.len().min(bytes.len()).min(part);
            into[..fits].copy_from_slice(&bytes[..fits]);
            bytes = &bytes[fits..];
            server.received(fits, std::iter::repeat_n((), descriptors));
            while let Some(event) = server.poll() {
                if answer(&device, event).is_none_or(|answer| answer(&mut server)) {
                    return;
                }
            }
        }
    }
}

/// Checks what the client wants against what there is; how to answer it, and whether that was
/// the end. `None`: there is nothing to answer, and it was.
type Answering = Box<dyn FnOnce(&mut Server<()>) -> bool>;

fn answer(device: &Device, event: server::Event<'_, ()>) -> Option<Answering> {
    let within = |region: u32, offset: u64, bytes: u64| {
        assert!(bytes > 0 && bytes <= ACCESS_BYTES_MAX.into());
        assert!(offset + bytes <= device.regions[region as usize].bytes);
    };
    let ticket = match event {
        server::Event::Connected(_) | server::Event::Knocked => return Some(Box::new(|_| false)),
        server::Event::Ended(_) => return None,
        server::Event::Map { ticket, memory, .. } => {
            assert!(memory.address.checked_add(memory.bytes - 1).is_some());
            assert!(memory.readable || memory.writable);
            ticket
        }
        server::Event::Unmap { ticket, range } => {
            assert!(range.is_none_or(|(at, bytes)| at.checked_add(bytes - 1).is_some()));
            ticket
        }
        server::Event::Interrupts { ticket, kind, start, count, change } => {
            assert!(start + count <= device.interrupts[kind as usize]);
            match change {
                Change::Disable => assert_eq!(count, 0),
                Change::Signal(all) => {
                    assert!(all.len() == count as usize && all.len() <= DESCRIPTORS_MAX);
                }
                Change::Silence => {}
                Change::Trigger(which) | Change::Mask(which) | Change::Unmask(which) => {
                    if let server::Which::Some(which) = which {
                        assert_eq!(which.len(), count as usize);
                    }
                }
            }
            ticket
        }
        server::Event::Read { ticket, region, offset, bytes } => {
            within(region, offset, bytes.into());
            return Some(Box::new(move |server| {
                server.read_done(ticket, |into| {
                    assert_eq!(into.len(), bytes as usize);
                    into.fill(7);
                });
                false
            }));
        }
        server::Event::Write { ticket, region, offset, data } => {
            within(region, offset, data.len() as u64);
            ticket
        }
        server::Event::Reset { ticket } => ticket,
    };
    Some(Box::new(|server| {
        server.answer(ticket, Ok(()));
        false
    }))
}

/// Is a server to the other end of a vfio-user connection, which has asked for something of
/// everything. The first byte says in what parts the rest arrives.
pub fn vfio_user_client(data: &[u8]) {
    use client::Request;
    let Some((&mode, mut bytes)) = data.split_first() else { return };
    let part = if mode & 1 != 0 { 1 + usize::from(mode >> 4) * 7 } else { usize::MAX };
    let descriptors = usize::from(mode >> 1 & 7);
    let mut client: client::Client<()> = client::Client::new();
    for request in [
        Request::Device,
        Request::Region(0),
        Request::Interrupts(2),
        Request::Read { region: 0, offset: 0, bytes: 8 },
        Request::Write { region: 0, offset: 0, data: &[1, 2, 3, 4] },
        Request::Map { address: 0, bytes: 4096, offset: 0 },
        Request::Unmap { address: 0, bytes: 4096 },
        Request::Signal { kind: 2, start: 0, count: 1 },
        Request::Disable(2),
        Request::Reset,
    ] {
        client.submit(&request, None);
    }
    while !bytes.is_empty() {
        let into = client.receive_buffer();
        let fits = into.len().min(bytes.len()).min(part);
        into[..fits].copy_from_slice(&bytes[..fits]);
        bytes = &bytes[fits..];
        client.received(fits, std::iter::repeat_n((), descriptors));
        loop {
            match client.poll() {
                Ok(None) => break,
                Err(_) => return,
                Ok(Some(reply)) => match reply.result {
                    Ok(client::Answer::Data(data)) => assert_eq!(data.len(), 8),
                    Ok(client::Answer::Region(region)) => {
                        assert!(region.mapped.len() <= 4096);
                        assert!(
                            region.mapped.iter().all(|it| it.offset + it.bytes <= region.bytes)
                        );
                    }
                    _ => {}
                },
            }
        }
        assert!(client.output().map_or(0, |output| output.bytes.len()) <= 512 << 10);
    }
}

/// Reads an entry as a command of every set. A command that was read survives being written and
/// read again.
pub fn submission_entry(data: &[u8]) {
    let Ok((entry, _)) = SubmissionEntry::read_from_prefix(data) else { return };
    let mut built = SubmissionEntry::default();
    if let Ok(command) = AdminCommand::parse(&entry) {
        command.put(&mut built);
        assert_eq!(AdminCommand::parse(&built), Ok(command));
        let (said, moved) = (admin_bytes(&entry), admin_bytes(&built));
        assert_eq!(said, moved, "an entry says how many bytes the command moves: {command:?}");
    }
    built = SubmissionEntry::default();
    if let Ok(command) = NvmCommand::parse(&entry) {
        command.put(&mut built);
        assert_eq!(NvmCommand::parse(&built), Ok(command));
    }
    built = SubmissionEntry::default();
    if let Ok(command) = KeyValueCommand::parse(&entry) {
        command.put(&mut built);
        assert_eq!(KeyValueCommand::parse(&built), Ok(command));
        assert_eq!(key_value_bytes(&entry), key_value_bytes(&built));
    }
    built = SubmissionEntry::default();
    if let Ok(command) = SamsungCommand::parse(&entry) {
        command.put(&mut built);
        assert_eq!(SamsungCommand::parse(&built), Ok(command));
    }
    built = SubmissionEntry::default();
    if let Some(command) = ReservationCommand::parse(&entry) {
        command.put(&mut built);
        assert_eq!(ReservationCommand::parse(&built), Some(command));
    }
    // A Fabrics command is one whatever its opcode would be in another set.
    let entry = SubmissionEntry { opcode: FABRICS, ..entry };
    built = SubmissionEntry::default();
    if let Ok(command) = FabricsCommand::parse(&entry) {
        command.put(&mut built);
        assert_eq!(FabricsCommand::parse(&built), Ok(command));
    }
}

/// Takes bytes as a client of NBD sends them: the handshake in pieces, of which some exports are
/// accepted, and then requests, which are checked and answered.
pub fn nbd_client(data: &[u8]) {
    let export = |name: &str, bytes| nbd::Export {
        name: name.to_owned(),
        description: "of a fuzz target".to_owned(),
        bytes,
        sizes: nbd::BlockSizes { least: 512, preferred: 4096, most: 32 << 20 },
        flags: nbd::flag::HAS_FLAGS,
    };
    let exports = [export("1", 1 << 20), export("2", !511)];
    let mut out = Vec::new();
    let mut handshake = nbd::Handshake::begin(&mut out);
    let (mut taken, mut there) = (0, 0);
    let (agreed, export) = loop {
        // As bytes come in pieces of a network, too.
        there = (there + 37).min(data.len());
        match handshake.take(&data[taken..there], &exports, &mut out) {
            Err(_) | Ok((_, nbd::Step::Leaves)) => return,
            Ok((used, nbd::Step::Waits)) => {
                assert!(used <= there - taken);
                taken += used;
                if there == data.len() {
                    return;
                }
            }
            Ok((used, nbd::Step::Takes(at))) => {
                taken += used;
                if at == 1 && handshake.refuse(nbd::refusal::POLICY, "no", &mut out) {
                    continue;
                }
                break (handshake.accept(&exports[at], &mut out), &exports[at]);
            }
        }
        assert!(out.len() < 1 << 20, "{} bytes of answers", out.len());
    };
    out.clear();
    let replies = nbd::Replies { structured: agreed.structured };
    for bytes in data[taken..].as_chunks::<{ nbd::REQUEST_BYTES }>().0 {
        let Some(request) = nbd::Request::parse(bytes) else { return };
        assert_eq!(nbd::Request::parse(&request.build()), Some(request));
        let checked = request.check(export, agreed.structured, agreed.allocation.is_some());
        if checked.is_ok() && request.command == nbd::Command::Read {
            assert!(request.offset + u64::from(request.bytes) <= export.bytes);
        }
        let before = out.len();
        replies.end(&mut out, request.cookie, checked.err());
        assert!(out.len() - before <= nbd::REPLY_BYTES_MAX);
    }
}

/// Gives a client of NBD bytes as a server sends them: the handshake in pieces, and then answers to reads,
/// writes, trims and flushes. Data never go beyond what was asked, and no slot ends twice.
pub fn nbd_server(data: &[u8]) {
    struct Ranges(Vec<u32>);
    impl host::Payload for Ranges {
        fn fill(&mut self, slot: u16, offset: u32, into: &mut [u8]) {
            assert!(u64::from(offset) + into.len() as u64 <= self.0[usize::from(slot)].into());
        }

        fn place(&mut self, slot: u16, offset: u32, from: &[u8]) {
            assert!(u64::from(offset) + from.len() as u64 <= self.0[usize::from(slot)].into());
        }
    }
    let prefers_structured = data.first().is_some_and(|first| first & 1 != 0);
    let handshake = nbd::client::Handshake::new("1", prefers_structured);
    let mut handshake = handshake.expect("a short name");
    let (mut taken, mut there, mut out) = (1.min(data.len()), 0, Vec::new());
    let offer = loop {
        there = (there + 37).clamp(taken, data.len());
        match handshake.take(&data[taken..there], &mut out) {
            Err(error) => return drop(error.to_string()),
            Ok((used, offer)) => {
                assert!(used <= there - taken);
                taken += used;
                match offer {
                    Some(offer) => break offer,
                    None if there == data.len() => return,
                    None => {}
                }
            }
        }
        assert!(out.len() < 1 << 10, "{} bytes of options", out.len());
    };
    assert!(offer.sizes.least.is_power_of_two() && offer.sizes.most >= offer.sizes.least);
    let mut session = nbd::client::Session::new(offer.structured, 4);
    let mut ranges = Ranges(vec![0; 4]);
    let commands =
        [nbd::Command::Read, nbd::Command::Write, nbd::Command::Trim, nbd::Command::Flush];
    let mut turns = (0..1_000u64).zip(commands.into_iter().cycle());
    for piece in data[taken..].chunks(41) {
        while let Some(slot) = session.next_slot()
            && let Some((turn, command)) = turns.next()
        {
            let bytes = 1 << (turn % 20);
            ranges.0[usize::from(slot)] = bytes;
            let request = nbd::Request { cookie: 0, command, flags: 0, offset: turn << 20, bytes };
            assert_eq!(session.submit(request), Some(slot));
        }
        // The socket takes some of it.
        let some = session.output(&mut ranges).len().min(300_000);
        session.sent(some);
        session.receive_buffer()[..piece.len()].copy_from_slice(piece);
        session.received(piece.len());
        for ended in 0.. {
            assert!(ended <= 4, "no slot ends twice");
            match session.poll(&mut ranges) {
                Ok(Some(event)) => assert!(event.received <= ranges.0[usize::from(event.slot)]),
                Ok(None) => break,
                Err(error) => return drop(error.to_string()),
            }
        }
    }
}

/// Connects a queue pair with the beginning as private data, and gives it the rest as capsules, while
/// its READs and answers take their time. It is never made to hold or post more than it has.
pub fn rdma_pair(data: &[u8]) {
    let private = &data[..data.len().min(rdma::private_data::REQUEST_BYTES)];
    let Ok(request) = rdma::private_data::Request::parse(private, 16, 4) else { return };
    let settings = rdma::target::Settings {
        entries: request.send_entries,
        read_depth: (request.receive_entries & 3) as u8 + 1,
        transfer_bytes: 1 << 20,
    };
    let mut pair = rdma::target::Connection::new(settings);
    let (mut inside, mut reading, mut sending) = (Vec::new(), Vec::new(), Vec::new());
    let mut capsules = data[private.len()..].chunks(96);
    let mut next = capsules.next();
    while let Some(capsule) = next {
        // What the network and the drive do meanwhile.
        let meanwhile = capsule.last().copied().unwrap_or(0);
        let held_up = pair.holds_up(capsule);
        if !held_up {
            match pair.capsule(capsule, 0) {
                Ok(rdma::target::Step::Command(entry, range)) => {
                    assert!(range.end <= capsule.len());
                    inside.push(CompletionEntry::new(entry.command_id.get(), Status::SUCCESS, 0));
                }
                Ok(rdma::target::Step::Answered(entry)) => inside.push(entry),
                Ok(rdma::target::Step::Waits) => {}
                Err(_) => return,
            }
            next = capsules.next();
        }
        while let Some(remote) = pair.next_read() {
            assert!((1..=1 << 20).contains(&remote.bytes));
            reading.extend(pair.read_begins());
        }
        if held_up || meanwhile & 1 != 0 {
            for (entry, _) in reading.drain(..).filter_map(|number| pair.read_ended(number)) {
                inside.push(CompletionEntry::new(entry.command_id.get(), Status::SUCCESS, 0));
            }
        }
        if meanwhile & 2 != 0 {
            while pair.has_room()
                && let Some(entry) = inside.pop()
            {
                let answer = pair.answer(&entry, u32::from(meanwhile) << 4);
                sending.push(answer.work_requests());
            }
        }
        if held_up || meanwhile & 4 != 0 {
            sending.drain(..).for_each(|requests| pair.sent(requests));
        }
        assert!(pair.outstanding() <= usize::from(settings.entries));
        let used = reading.len() as u32 + sending.iter().sum::<u32>();
        assert!(used <= settings.work_requests());
    }
}

/// Reads a query's program and an answer. A program that was read survives being written and read
/// again.
pub fn query(data: &[u8]) {
    if let Ok(steps) = query::parse_program(data) {
        let built = query::program_bytes(&steps);
        assert_eq!(query::parse_program(&built).as_ref(), Ok(&steps));
    }
    if let Ok((_, parts)) = query::parse_answer(data) {
        let bytes: usize = parts.iter().map(|part| part.data.len()).sum();
        assert!(bytes <= data.len());
    }
    if let Some(entry) = SubmissionEntry::read_from_prefix(data).ok().map(|(entry, _)| entry) {
        let instructions = query::inline(&entry);
        let mut again = SubmissionEntry::default();
        query::put_inline(&mut again, &instructions);
        assert_eq!(query::inline(&again), instructions);
    }
}

/// Reads the data of a List. Those that are read survive being written and read again.
pub fn key_list(data: &[u8]) {
    let Ok(keys) = listed_keys(data) else { return };
    let mut built = vec![0; data.len() + 3];
    let mut list = KeyList::new(&mut built).expect("there was a number of keys");
    assert!(keys.iter().all(|key| list.push(key.as_slice())));
    assert_eq!(listed_keys(&built), Ok(keys));
}

/// Reads the keys that an iterator of Samsung's set returns. Those that are read survive being
/// written and read again.
pub fn key_batch(data: &[u8]) {
    let Some(keys) = batched_keys(data) else { return };
    let Some(mut batch) = KeyBatch::new(u32::MAX) else { return };
    let fitted = keys.iter().take_while(|key| batch.push(key)).count();
    assert_eq!(batched_keys(&batch.into_bytes()).as_deref(), Some(&keys[..fitted]));
}
