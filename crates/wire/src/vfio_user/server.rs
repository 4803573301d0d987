//! The device's end of a connection, as a machine without I/O.
//!
//! Bytes and descriptors from the socket go into [`Server::receive_buffer`] and
//! [`Server::received`], what is to be sent comes out of [`Server::output`]. [`Server::poll`] says
//! what the client wants done with the device; each event has a [`Ticket`], with which it is
//! answered, at once or later. What the client asks about the device the machine answers by
//! itself.
//!
//! Requests come out in the order in which they were sent, and replies go out in the order in
//! which the tickets are given back.
//!
//! What the client sends is not trusted: a request that makes no sense is answered with an error,
//! and a message that cannot be told from the next ends the connection.

use super::capabilities::Capabilities;
use super::message::{
    DeviceInfo, DmaMap, DmaUnmap, Errno, Header, INTERRUPT_KINDS, InterruptInfo, InterruptSet,
    MemoryAccess, REGIONS, RegionAccess, RegionInfo, SparseMapping, Version, command, flag,
};
use super::stream::{self, Ended, Inbound, Outbound, Output, split};
use super::{ACCESS_BYTES_MAX, DESCRIPTORS_MAX};
use zerocopy::IntoBytes;

/// Minor version: 0.1 is spoken, and 0.0 with clients that ask for it.
const MINOR: u16 = 1;

/// A part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Offset in the region.
    pub offset: u64,
    pub bytes: u64,
}

/// Description of a region for clients, which may read and write all of it with messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Bytes; 0: there is no such region.
    pub bytes: u64,
    /// What can be mapped, from the same place of the descriptor's file. The reply that says so
    /// has descriptors with the region's number.
    pub mapped: Option<Area>,
}

/// Description of the device for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Indexed by region.
    pub regions: [Region; REGIONS],
    /// How many there are of each kind.
    pub interrupts: [u32; INTERRUPT_KINDS],
    /// Most mappings of a client's memory.
    pub mappings_max: u64,
}

/// Token with which a request is answered.
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    id: u16,
    command: u16,
    reply: bool,
    access: RegionAccess,
    unmap: DmaUnmap,
}

impl Ticket {
    /// Whether the client waits for the answer. Writes to regions may be posted: then it goes on at
    /// once.
    pub fn is_awaited(&self) -> bool {
        self.reply
    }
}

/// Memory of the client that the device may access (DMA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The first address on the bus; with `bytes` it stays within 64 bits.
    pub address: u64,
    /// At least 1.
    pub bytes: u64,
    /// Where it begins in the descriptor's file.
    pub offset: u64,
    /// The device may read it.
    pub readable: bool,
    /// The device may write it.
    pub writable: bool,
}

/// Some of a kind's interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// All that the request names.
    All,
    /// Those whose byte is not zero.
    Some(&'a [u8]),
}

/// What is to be done with interrupts.
#[derive(Debug, PartialEq, Eq)]
pub enum Change<'a, D> {
    /// None of the kind, however many were named, is signalled any more.
    Disable,
    /// They are signalled through these descriptors, one each.
    Signal(Vec<D>),
    /// They are not signalled any more.
    Silence,
    /// The interrupts are signalled now.
    Trigger(Which<'a>),
    Mask(Which<'a>),
    Unmask(Which<'a>),
}

/// What [`Server::poll`] reports.
#[derive(Debug)]
pub enum Event<'a, D> {
    /// The version is agreed on; what the client can do.
    Connected(Capabilities),
    /// The device may use this memory; without a descriptor it cannot be reached from here.
    Map {
        ticket: Ticket,
        memory: Memory,
        /// The file that holds the memory.
        descriptor: Option<D>,
    },
    /// The device must not use this memory any more, and must have stopped when the answer goes.
    Unmap {
        ticket: Ticket,
        /// First address and bytes, at least 1; `None`: all there is.
        range: Option<(u64, u64)>,
    },
    /// Interrupts are set up, masked or triggered.
    Interrupts {
        ticket: Ticket,
        /// Index of the interrupt kind.
        kind: u32,
        /// The first interrupt of the kind that is concerned.
        start: u32,
        /// How many; there are that many.
        count: u32,
        change: Change<'a, D>,
    },
    /// A region is read; to be answered with [`Server::read_done`].
    Read {
        ticket: Ticket,
        /// Index of the region.
        region: u32,
        /// Where; with the bytes it stays within the region.
        offset: u64,
        /// Number of bytes, at least 1.
        bytes: u32,
    },
    Write {
        ticket: Ticket,
        /// Index of the region.
        region: u32,
        /// Where; with the data it stays within the region.
        offset: u64,
        /// At least 1 byte.
        data: &'a [u8],
    },
    Reset {
        ticket: Ticket,
    },
    /// The client has answered [`Server::knock`].
    Knocked,
    /// The connection is over; what is in the output may still be sent.
    Ended(Ended),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Connected,
    Over,
}

/// The device's end of a connection, with descriptors of the type `D`.
#[derive(Debug)]
pub struct Server<D> {
    device: Device,
    state: State,
    inbound: Inbound<D>,
    outbound: Outbound,
    ended: Option<Ended>,
    /// The last request that the client was sent, if it has not been answered yet; and its number.
    knock: Option<u16>,
    knocks: u16,
}

/// Outcome of a request.
enum Handled<'a, D> {
    Event(Event<'a, D>),
    Answered,
}

impl<D> Server<D> {
    /// A new connection to a device.
    pub fn new(device: Device) -> Server<D> {
        Server {
            device,
            state: State::Fresh,
            inbound: Inbound::new(),
            outbound: Outbound::default(),
            ended: None,
            knock: None,
            knocks: 0,
        }
    }

    /// Sends a DMA_READ whose data do not matter, to learn when the client's thread for interrupts
    /// has caught up: then [`Event::Knocked`] comes. QEMU handles requests of a device in its main
    /// loop, as it does its interrupts.
    pub fn knock(&mut self) {
        self.knocks = self.knocks.wrapping_add(1);
        self.knock = Some(self.knocks);
        let access = MemoryAccess { address: 0.into(), count: 4.into() };
        let (id, bytes) = (self.knocks, size_of::<MemoryAccess>());
        let into = self.outbound.push(id, command::DMA_READ, flag::REQUEST, 0, bytes);
        put(into, &[access.as_bytes()]);
    }

    /// Whether anything may be received: the output is not so long that the client seems not to
    /// read it, and the connection is not over.
    pub fn may_receive(&self) -> bool {
        self.state != State::Over && self.outbound.unsent() <= stream::UNSENT_BYTES_MAX
    }

    /// Where bytes from the client go: as many as a message lacks. Empty as long as
    /// [`Server::poll`] has something to say.
    pub fn receive_buffer(&mut self) -> &mut [u8] {
        self.inbound.buffer()
    }

    /// So many bytes were put into the buffer, and with them came these descriptors.
    pub fn received(&mut self, bytes: usize, descriptors: impl IntoIterator<Item = D>) {
        if let Err(ended) = self.inbound.received(bytes, descriptors) {
            self.ended = Some(ended);
        }
    }

    /// Whether a whole message has come that [`Server::poll`] has not taken.
    pub fn has_message(&self) -> bool {
        self.ended.is_some() || self.inbound.is_complete()
    }

    /// Descriptors came with the last bytes that could not be taken over.
    pub fn lost_descriptors(&mut self) {
        self.inbound.lost_descriptors();
    }

    /// What the client wants, in the order in which it said so. `None`: more has to be received.
    pub fn poll(&mut self) -> Option<Event<'_, D>> {
        if self.state == State::Over {
            return None;
        }
        if let Some(ended) = self.ended.take() {
            self.state = State::Over;
            return Some(Event::Ended(ended));
        }
        if !self.inbound.take() {
            return None;
        }
        let header = self.inbound.header();
        match stream::is_request(&header) {
            Ok(true) => {}
            Ok(false) => {
                let answered = header.command.get() == command::DMA_READ
                    && self.knock.take_if(|id| *id == header.id.get()).is_some();
                if !answered {
                    return self.end(Ended::Unexpected);
                }
                // Whether it could be read does not matter. Descriptors are not expected.
                let _ = self.inbound.take_descriptors();
                return Some(Event::Knocked);
            }
            Err(ended) => return self.end(ended),
        }
        let descriptors = self.inbound.take_descriptors();
        let ticket = Ticket {
            id: header.id.get(),
            command: header.command.get(),
            reply: header.flags.get() & flag::NO_REPLY == 0,
            access: RegionAccess::default(),
            unmap: DmaUnmap::default(),
        };
        if self.state == State::Fresh {
            return self.version(&header, ticket);
        }
        let (id, reply) = (ticket.id, ticket.reply);
        let body = self.inbound.body();
        let handled = descriptors.and_then(|descriptors| {
            request(&self.device, &mut self.outbound, ticket, body, descriptors)
        });
        match handled {
            Ok(Handled::Event(event)) => Some(event),
            Ok(Handled::Answered) => None,
            Err(errno) => {
                if reply {
                    fail(&mut self.outbound, id, header.command.get(), errno);
                }
                None
            }
        }
    }

    fn end(&mut self, ended: Ended) -> Option<Event<'_, D>> {
        self.state = State::Over;
        Some(Event::Ended(ended))
    }

    /// The first request, which has to be VERSION.
    fn version(&mut self, header: &Header, ticket: Ticket) -> Option<Event<'_, D>> {
        let outcome = if ticket.command != command::VERSION {
            Err(Ended::Order(ticket.command))
        } else if let Ok((version, data)) = split::<Version>(self.inbound.body()) {
            let (major, minor) = (version.major.get(), version.minor.get());
            match Capabilities::parse(data) {
                _ if major != 0 => Err(Ended::Version(major, minor)),
                None => Err(Ended::Capabilities),
                Some(capabilities) => Ok((minor.min(MINOR), capabilities, data.len())),
            }
        } else {
            Err(Ended::Size(header.size.get()))
        };
        match outcome {
            Ok((minor, capabilities, room)) => {
                self.state = State::Connected;
                // QEMU has room for a reply as long as its request, and SPDK for one without JSON.
                let text = match room {
                    0 => Vec::new(),
                    room => Capabilities::own(self.device.mappings_max).write(room),
                };
                if ticket.reply {
                    let version = Version { major: 0.into(), minor: minor.into() };
                    let bytes = size_of::<Version>() + text.len();
                    let into = self.outbound.push(ticket.id, ticket.command, flag::REPLY, 0, bytes);
                    put(into, &[version.as_bytes(), &text]);
                }
                Some(Event::Connected(capabilities))
            }
            Err(ended) => {
                fail(&mut self.outbound, ticket.id, ticket.command, Errno::INVALID);
                self.end(ended)
            }
        }
    }

    /// Answers everything but a successful read.
    pub fn answer(&mut self, ticket: Ticket, result: Result<(), Errno>) {
        if !ticket.reply {
            return;
        }
        let (id, command) = (ticket.id, ticket.command);
        if let Err(errno) = result {
            return fail(&mut self.outbound, id, command, errno);
        }
        match command {
            command::REGION_WRITE => {
                let bytes = size_of::<RegionAccess>();
                let into = self.outbound.push(id, command, flag::REPLY, 0, bytes);
                put(into, &[ticket.access.as_bytes()]);
            }
            // As libvfio-user does, whose clients may wait for it.
            command::DMA_UNMAP => {
                let bytes = size_of::<DmaUnmap>();
                let into = self.outbound.push(id, command, flag::REPLY, 0, bytes);
                put(into, &[ticket.unmap.as_bytes()]);
            }
            _ => drop(self.outbound.push(id, command, flag::REPLY, 0, 0)),
        }
    }

    /// Answers a read: `fill` is given the place for its bytes, which are zeros.
    pub fn read_done(&mut self, ticket: Ticket, fill: impl FnOnce(&mut [u8])) {
        if !ticket.reply {
            return;
        }
        let bytes = size_of::<RegionAccess>() + ticket.access.count.get() as usize;
        let into = self.outbound.push(ticket.id, ticket.command, flag::REPLY, 0, bytes);
        let (head, data) = into.split_at_mut(size_of::<RegionAccess>());
        put(head, &[ticket.access.as_bytes()]);
        fill(data);
    }

    /// What is to be sent next; descriptors are those of the region with their number.
    pub fn output(&self) -> Option<Output<'_>> {
        self.outbound.output()
    }

    /// So many bytes of the output have been sent, with its descriptors if there are bytes.
    pub fn sent(&mut self, bytes: usize) {
        self.outbound.sent(bytes);
    }
}

fn request<'a, D>(
    device: &Device,
    outbound: &mut Outbound,
    mut ticket: Ticket,
    body: &'a [u8],
    mut descriptors: Vec<D>,
) -> Result<Handled<'a, D>, Errno> {
    let event = match ticket.command {
        command::DMA_MAP => {
            let (map, _) = split::<DmaMap>(body)?;
            let memory = memory(&map)?;
            if descriptors.len() > 1 {
                return Err(Errno::INVALID);
            }
            Event::Map { ticket, memory, descriptor: descriptors.pop() }
        }
        command::DMA_UNMAP => {
            // SPDK sends the memory's descriptor with it, which is of no use here.
            let (unmap, _) = split::<DmaUnmap>(body)?;
            ticket.unmap = unmap;
            Event::Unmap { ticket, range: unmapped(&unmap)? }
        }
        command::DEVICE_GET_INFO => {
            let info = DeviceInfo {
                argsz: (size_of::<DeviceInfo>() as u32).into(),
                flags: (DeviceInfo::RESET | DeviceInfo::PCI).into(),
                regions: (REGIONS as u32).into(),
                interrupts: (INTERRUPT_KINDS as u32).into(),
            };
            split::<DeviceInfo>(body)?;
            return Ok(tell(outbound, &ticket, &[info.as_bytes()]));
        }
        command::DEVICE_GET_REGION_INFO => {
            let (requested, _) = split::<RegionInfo>(body)?;
            return region_info(device, outbound, &ticket, &requested);
        }
        command::DEVICE_GET_IRQ_INFO => {
            let (requested, _) = split::<InterruptInfo>(body)?;
            let count = device.interrupts.get(requested.index.get() as usize);
            let count = *count.ok_or(Errno::INVALID)?;
            let flags = match count {
                0 => 0,
                _ => InterruptInfo::EVENTFD | InterruptInfo::NO_RESIZE,
            };
            let info = InterruptInfo {
                argsz: (size_of::<InterruptInfo>() as u32).into(),
                flags: flags.into(),
                index: requested.index,
                count: count.into(),
            };
            return Ok(tell(outbound, &ticket, &[info.as_bytes()]));
        }
        command::DEVICE_SET_IRQS => interrupts(device, ticket, body, descriptors)?,
        command::REGION_READ | command::REGION_WRITE => access(device, ticket, body)?,
        command::DEVICE_RESET => Event::Reset { ticket },
        command::VERSION => return Err(Errno::INVALID),
        _ => return Err(Errno::NOT_SUPPORTED),
    };
    Ok(Handled::Event(event))
}

fn memory(map: &DmaMap) -> Result<Memory, Errno> {
    let (address, bytes, offset) = (map.address.get(), map.size.get(), map.offset.get());
    let flags = map.flags.get();
    let fits = |from: u64, end: u64| from.checked_add(bytes - 1).is_some_and(|last| last <= end);
    let known = flags != 0 && flags & !(DmaMap::READ | DmaMap::WRITE) == 0;
    if bytes == 0 || !known || !fits(address, u64::MAX) || !fits(offset, i64::MAX as u64 - 1) {
        return Err(Errno::INVALID);
    }
    Ok(Memory {
        address,
        bytes,
        offset,
        readable: flags & DmaMap::READ != 0,
        writable: flags & DmaMap::WRITE != 0,
    })
}

fn unmapped(unmap: &DmaUnmap) -> Result<Option<(u64, u64)>, Errno> {
    let (address, bytes) = (unmap.address.get(), unmap.size.get());
    match unmap.flags.get() {
        0 if bytes > 0 && address.checked_add(bytes - 1).is_some() => Ok(Some((address, bytes))),
        DmaUnmap::ALL if address == 0 && bytes == 0 => Ok(None),
        flags if flags & DmaUnmap::DIRTY_BITMAP != 0 => Err(Errno::NOT_SUPPORTED),
        _ => Err(Errno::INVALID),
    }
}

fn region_info<'a, D>(
    device: &Device,
    outbound: &mut Outbound,
    ticket: &Ticket,
    requested: &RegionInfo,
) -> Result<Handled<'a, D>, Errno> {
    let region = device.regions.get(requested.index.get() as usize).ok_or(Errno::INVALID)?;
    let room = requested.argsz.get() as usize;
    if room < size_of::<RegionInfo>() {
        return Err(Errno::INVALID);
    }
    let accesses = match region.bytes {
        0 => 0,
        _ => RegionInfo::READ | RegionInfo::WRITE,
    };
    let mut info = RegionInfo {
        argsz: (size_of::<RegionInfo>() as u32).into(),
        flags: accesses.into(),
        index: requested.index,
        size: region.bytes.into(),
        ..RegionInfo::default()
    };
    let Some(area) = region.mapped else {
        return Ok(tell(outbound, ticket, &[info.as_bytes()]));
    };
    let all = size_of::<RegionInfo>() + size_of::<SparseMapping>();
    info.argsz = (all as u32).into();
    info.flags = (accesses | RegionInfo::MAPPABLE | RegionInfo::CAPABILITIES).into();
    // QEMU wants it even where the capability is left out.
    info.capability_offset = (size_of::<RegionInfo>() as u32).into();
    if room < all {
        return Ok(tell(outbound, ticket, &[info.as_bytes()]));
    }
    let sparse = SparseMapping {
        id: SparseMapping::ID.into(),
        version: 1.into(),
        areas: 1.into(),
        offset: area.offset.into(),
        size: area.bytes.into(),
        ..SparseMapping::default()
    };
    if ticket.reply {
        outbound.attach(requested.index.get());
    }
    Ok(tell(outbound, ticket, &[info.as_bytes(), sparse.as_bytes()]))
}

fn interrupts<'a, D>(
    device: &Device,
    ticket: Ticket,
    body: &'a [u8],
    descriptors: Vec<D>,
) -> Result<Event<'a, D>, Errno> {
    let (set, data) = split::<InterruptSet>(body)?;
    let (kind, start, count) = (set.index.get(), set.start.get(), set.count.get());
    let there = *device.interrupts.get(kind as usize).ok_or(Errno::INVALID)?;
    if start.checked_add(count).is_none_or(|end| end > there) {
        return Err(Errno::INVALID);
    }
    let flags = set.flags.get();
    let source = flags & 7;
    let which = match source {
        InterruptSet::DATA_NONE => Which::All,
        InterruptSet::DATA_BOOL => Which::Some(data.get(..count as usize).ok_or(Errno::INVALID)?),
        InterruptSet::DATA_EVENTFD => Which::All,
        _ => return Err(Errno::INVALID),
    };
    if source != InterruptSet::DATA_EVENTFD && !descriptors.is_empty() {
        return Err(Errno::INVALID);
    }
    let change = match (source, flags & !7) {
        (InterruptSet::DATA_NONE, InterruptSet::TRIGGER) if count == 0 => Change::Disable,
        _ if count == 0 => return Err(Errno::INVALID),
        (InterruptSet::DATA_EVENTFD, InterruptSet::TRIGGER) => match descriptors.len() {
            0 => Change::Silence,
            some if some == count as usize && some <= DESCRIPTORS_MAX => {
                Change::Signal(descriptors)
            }
            _ => return Err(Errno::INVALID),
        },
        (InterruptSet::DATA_EVENTFD, _) => return Err(Errno::NOT_SUPPORTED),
        (_, InterruptSet::TRIGGER) => Change::Trigger(which),
        (_, InterruptSet::MASK) => Change::Mask(which),
        (_, InterruptSet::UNMASK) => Change::Unmask(which),
        _ => return Err(Errno::INVALID),
    };
    Ok(Event::Interrupts { ticket, kind, start, count, change })
}

fn access<'a, D>(
    device: &Device,
    mut ticket: Ticket,
    body: &'a [u8],
) -> Result<Event<'a, D>, Errno> {
    let (access, data) = split::<RegionAccess>(body)?;
    let (region, offset, bytes) = (access.region.get(), access.offset.get(), access.count.get());
    let there = device.regions.get(region as usize).ok_or(Errno::INVALID)?.bytes;
    let within = offset.checked_add(bytes.into()).is_some_and(|end| end <= there);
    if bytes == 0 || bytes > ACCESS_BYTES_MAX || !within {
        return Err(Errno::INVALID);
    }
    ticket.access = access;
    if ticket.command == command::REGION_READ {
        return Ok(Event::Read { ticket, region, offset, bytes });
    }
    let data = data.get(..bytes as usize).ok_or(Errno::INVALID)?;
    Ok(Event::Write { ticket, region, offset, data })
}

/// Replies with these parts one behind the other.
fn tell<'a, D>(outbound: &mut Outbound, ticket: &Ticket, parts: &[&[u8]]) -> Handled<'a, D> {
    if ticket.reply {
        let bytes = parts.iter().map(|part| part.len()).sum();
        let into = outbound.push(ticket.id, ticket.command, flag::REPLY, 0, bytes);
        put(into, parts);
    }
    Handled::Answered
}

fn fail(outbound: &mut Outbound, id: u16, command: u16, errno: Errno) {
    outbound.push(id, command, flag::REPLY | flag::ERROR, errno.0.max(1), 0);
}

/// Writes parts one behind the other.
fn put(mut into: &mut [u8], parts: &[&[u8]]) {
    for part in parts {
        let (here, rest) = into.split_at_mut(part.len());
        here.copy_from_slice(part);
        into = rest;
    }
}
