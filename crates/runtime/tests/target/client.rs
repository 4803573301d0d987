//! A host made of the bare PDU stream, so that it can also do what no host should.

use mynah_lab::emulation::{Emulation, Prepared};
use mynah_lab::experiment::Precondition;
use mynah_runtime::engine::{Control, Newcomer, Protocol};
use mynah_runtime::server::{ServeOptions, Served, Server};
use mynah_wire::fabrics::ConnectData;
use mynah_wire::nvme::entry::{SGL_IN_CAPSULE, SGL_TRANSPORT};
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry, opcode};
use mynah_wire::tcp::digest::Digests;
use mynah_wire::tcp::pdu::{FLAG_DATA_LAST, FLAG_DATA_SUCCESS};
use mynah_wire::tcp::stream::{End, Inbound, Initialization, Limits, Outbound, Pdu};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

pub(crate) const NQN: &str = "nqn.2026-11.io.github.mynah-ssd:test";
pub(crate) const HOST: &str = "nqn.2026-11.io.github.mynah-ssd:host";

/// A small drive, empty.
pub(crate) fn drive() -> Prepared {
    let small = ["geometry.blocks_per_plane=32", "geometry.channels=2", "over_provisioning=50%"];
    let small = small.map(String::from);
    let mut emulation = Emulation::on("enterprise-tlc", &small).expect("a drive");
    emulation.start.precondition = Precondition::None;
    emulation.prepare().expect("a drive")
}

/// A drive with an Ethernet port and a target of its own.
pub(crate) fn ethernet_drive() -> Prepared {
    let small = ["geometry.blocks_per_plane=32", "geometry.channels=2", "over_provisioning=50%"];
    let small = small.map(String::from);
    let mut emulation = Emulation::on("eemu-baseline", &small).expect("a drive");
    emulation.start.precondition = Precondition::None;
    emulation.prepare().expect("a drive")
}

/// A served drive; ends when it is told to.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) control: Arc<Control>,
    thread: Option<JoinHandle<mynah_result::Result>>,
}

impl Target {
    pub(crate) fn start(options: ServeOptions) -> Target {
        Target::start_on(drive, options)
    }

    /// The same of another drive.
    pub(crate) fn start_on(drive: fn() -> Prepared, options: ServeOptions) -> Target {
        let (told, tell) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let options = ServeOptions { name: Some("test".into()), ..options };
            let server = Server::new(drive(), options).expect("a server");
            told.send((server.addresses()[0], server.control())).expect("somebody waits");
            let served: Served = server.run().expect("it runs");
            served.result(Default::default())
        });
        let (address, control) = tell.recv().expect("it starts");
        Target { address, control, thread: Some(thread) }
    }

    /// A connection that comes from `address`, as far as the drive can tell.
    pub(crate) fn open_from(&self, address: &str) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("it is");
        let (far, _) = listener.accept().expect("a connection");
        far.set_nonblocking(true).expect("a socket");
        let address = Some(SocketAddr::new(address.parse().expect("an address"), 1234));
        let (local, port, host_nqn, half_open) = (None, 0, None, None);
        let (socket, protocol) = (far.into(), Protocol::NvmeTcp);
        let new = Newcomer { socket, address, local, port, host_nqn, protocol, half_open };
        self.control.adopt(new);
        near
    }

    /// Ends it; its result.
    pub(crate) fn stop(mut self) -> mynah_result::Result {
        self.control.stop();
        self.thread.take().expect("it runs").join().expect("it ended in order")
    }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) out: Outbound,
    inbound: Inbound,
    host: String,
    next_id: u16,
}

impl Client {
    /// A connection, initialized.
    pub(crate) fn open(address: SocketAddr, digests: u8) -> io::Result<Client> {
        Client::over(TcpStream::connect(address)?, digests)
    }

    /// The same over this stream.
    pub(crate) fn over(stream: TcpStream, digests: u8) -> io::Result<Client> {
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.set_nodelay(true)?;
        let limits = Limits { capsule_data_bytes: 0, data_bytes: u32::MAX };
        let (out, inbound) = (Outbound::new(End::Host), Inbound::new(End::Host, limits));
        let mut client = Client { stream, out, inbound, host: HOST.to_owned(), next_id: 0 };
        client.out.initialize(Initialization { version: 0, alignment: 0, digests, limit: 0 });
        client.send()?;
        match client.pdu()? {
            Pdu::Initialize(fields) => {
                let digests = Digests::from_byte(fields.digests);
                client.out.establish(digests, (fields.alignment + 1) * 4);
                client.inbound.establish(digests, 4);
                Ok(client)
            }
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    /// An admin queue; the controller's identifier and the connection, enabled.
    pub(crate) fn admin(address: SocketAddr, digests: u8) -> io::Result<(u16, Client)> {
        Client::admin_as(address, digests, HOST)
    }

    /// The same of another host.
    pub(crate) fn admin_as(
        address: SocketAddr,
        digests: u8,
        host: &str,
    ) -> io::Result<(u16, Client)> {
        Client::admin_on(TcpStream::connect(address)?, digests, host)
    }

    /// The same over this stream.
    pub(crate) fn admin_over(stream: TcpStream, digests: u8) -> io::Result<(u16, Client)> {
        Client::admin_on(stream, digests, HOST)
    }

    fn admin_on(stream: TcpStream, digests: u8, host: &str) -> io::Result<(u16, Client)> {
        let mut client = Client::over(stream, digests)?;
        client.host = host.to_owned();
        let done = client.connect(0, 0xffff, 31)?;
        if !done.status().is_success() {
            return Err(io::Error::other(format!("{:?}", done.status())));
        }
        let id = done.result.get() as u16;
        // Enable, with 64-byte and 16-byte entries.
        let mut enable = fabrics(opcode::fabrics::PROPERTY_SET);
        enable.dword11.set(0x14);
        enable.dword12.set(0x46_0001);
        assert_eq!(client.command(enable, &[])?.0.status(), Status::SUCCESS);
        Ok((id, client))
    }

    /// An I/O queue of a controller.
    pub(crate) fn io(address: SocketAddr, digests: u8, controller: u16) -> io::Result<Client> {
        Client::io_as(address, digests, HOST, controller)
    }

    /// The same of another host.
    pub(crate) fn io_as(
        address: SocketAddr,
        digests: u8,
        host: &str,
        controller: u16,
    ) -> io::Result<Client> {
        Client::io_on(TcpStream::connect(address)?, digests, host, controller)
    }

    /// The same over this stream.
    pub(crate) fn io_over(stream: TcpStream, digests: u8, controller: u16) -> io::Result<Client> {
        Client::io_on(stream, digests, HOST, controller)
    }

    fn io_on(stream: TcpStream, digests: u8, host: &str, controller: u16) -> io::Result<Client> {
        let mut client = Client::over(stream, digests)?;
        client.host = host.to_owned();
        let done = client.connect(1, controller, 127)?;
        assert_eq!(done.status(), Status::SUCCESS);
        Ok(client)
    }

    /// Connects a queue, without submission queue flow control.
    pub(crate) fn connect(
        &mut self,
        queue: u16,
        controller: u16,
        size: u16,
    ) -> io::Result<CompletionEntry> {
        self.connect_to(NQN, queue, controller, size)
    }

    /// Connects a queue of a controller of this subsystem.
    pub(crate) fn connect_to(
        &mut self,
        subsystem: &str,
        queue: u16,
        controller: u16,
        size: u16,
    ) -> io::Result<CompletionEntry> {
        let mut data = ConnectData::new_zeroed();
        data.host_id = host_id(&self.host);
        data.controller_id.set(controller);
        data.subsystem_nqn[..subsystem.len()].copy_from_slice(subsystem.as_bytes());
        data.host_nqn[..self.host.len()].copy_from_slice(self.host.as_bytes());
        let mut entry = fabrics(opcode::fabrics::CONNECT);
        entry.dword10.set(u32::from(queue) << 16);
        entry.dword11.set(u32::from(size) | 4 << 16);
        Ok(self.command(entry, data.as_bytes())?.0)
    }

    /// Carries a command out: its data are in the capsule if they are few, else asked for.
    pub(crate) fn command(
        &mut self,
        entry: SubmissionEntry,
        data: &[u8],
    ) -> io::Result<(CompletionEntry, Vec<u8>)> {
        let id = self.submit(entry, data)?;
        let mut read = Vec::new();
        loop {
            match self.pdu()? {
                Pdu::CapsuleResponse(entry) if entry.command_id.get() == id => {
                    return Ok((entry, read));
                }
                Pdu::ReadyToTransfer(ready) => {
                    let (at, bytes) = (ready.offset.get() as usize, ready.bytes.get() as usize);
                    let (first, second) = data[at..at + bytes].split_at(bytes / 2);
                    let tag = ready.transfer_tag.get();
                    let at = at as u32;
                    let half = first.len() as u32;
                    self.out.data(id, tag, at, half, 0, |into| into.copy_from_slice(first));
                    let rest = second.len() as u32;
                    let last = FLAG_DATA_LAST;
                    self.out.data(id, tag, at + half, rest, last, |i| i.copy_from_slice(second));
                    self.send()?;
                }
                Pdu::Data(header) => {
                    while self.inbound.data_left() > 0 {
                        read.extend_from_slice(self.inbound.data());
                        self.inbound.took(self.inbound.data().len());
                        if self.inbound.data_left() > 0 {
                            self.receive()?;
                        }
                    }
                    while self.inbound.end_data().is_none_or(|intact| !intact) {
                        self.receive()?;
                    }
                    if header.common.flags & FLAG_DATA_SUCCESS != 0 {
                        return Ok((CompletionEntry::new(id, Status::SUCCESS, 0), read));
                    }
                }
                other => return Err(io::Error::other(format!("{other:?}"))),
            }
        }
    }

    /// Sends a command; its identifier.
    pub(crate) fn submit(&mut self, mut entry: SubmissionEntry, data: &[u8]) -> io::Result<u16> {
        self.next_id = (self.next_id + 1) % 100;
        entry.command_id.set(self.next_id);
        entry.flags = 0x40;
        let in_capsule = !data.is_empty() && data.len() <= 8192;
        if !data.is_empty() {
            entry.data.length.set(data.len() as u32);
        }
        entry.data.kind = if in_capsule { SGL_IN_CAPSULE } else { SGL_TRANSPORT };
        let bytes = if in_capsule { data.len() as u32 } else { 0 };
        self.out.command(&entry, bytes, |into| into.copy_from_slice(data));
        self.send()?;
        Ok(self.next_id)
    }

    pub(crate) fn read(&mut self, block: u64, blocks: u32) -> io::Result<(Status, Vec<u8>)> {
        let (done, data) = self.command(blocks_of(opcode::nvm::READ, block, blocks), &[])?;
        Ok((done.status(), data))
    }

    pub(crate) fn write(&mut self, block: u64, data: &[u8]) -> io::Result<Status> {
        let blocks = (data.len() / 512) as u32;
        let done = self.command(blocks_of(opcode::nvm::WRITE, block, blocks), data)?;
        Ok(done.0.status())
    }

    pub(crate) fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(self.out.bytes())?;
        self.out.sent(self.out.len());
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let bytes = self.stream.read(self.inbound.space())?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.inbound.received(bytes);
        Ok(())
    }

    /// The next PDU.
    pub(crate) fn pdu(&mut self) -> io::Result<Pdu> {
        loop {
            match self.inbound.poll() {
                Ok(Some(pdu)) => return Ok(pdu),
                Ok(None) => self.receive()?,
                Err(fatal) => return Err(io::Error::other(format!("{fatal:?}"))),
            }
        }
    }
}

/// A host identifier made of a name.
fn host_id(host: &str) -> [u8; 16] {
    let mut id = [7; 16];
    for (at, byte) in host.bytes().enumerate() {
        id[at % 16] ^= byte.rotate_left(at as u32 / 16);
    }
    id
}

pub(crate) fn fabrics(kind: u8) -> SubmissionEntry {
    let mut entry = SubmissionEntry { opcode: opcode::FABRICS, ..Default::default() };
    entry.namespace_id.set(kind.into());
    entry
}

pub(crate) fn blocks_of(opcode: u8, block: u64, blocks: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry { opcode, ..Default::default() };
    entry.namespace_id.set(1);
    entry.dword10.set(block as u32);
    entry.dword11.set((block >> 32) as u32);
    entry.dword12.set(blocks - 1);
    entry.data.length.set(blocks * 512);
    entry
}
