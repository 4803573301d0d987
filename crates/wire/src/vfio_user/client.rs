//! The end of whoever uses the device, as a machine without I/O.
//!
//! [`Client::submit`] puts requests into the output, and [`Client::poll`] returns the replies,
//! each with the number of its request. Several requests may be under way; servers answer them in
//! any order. The first reply is that to VERSION, which [`Client::new`] has asked.
//!
//! What the server sends is not trusted: replies have to fit their requests. A server that asks
//! for something is told that it is not supported.

use super::ACCESS_BYTES_MAX;
use super::capabilities::Capabilities;
use super::message::{
    DeviceInfo, DmaMap, DmaUnmap, Errno, Header, InterruptInfo, InterruptSet, RegionAccess,
    RegionInfo, SparseMapping, Version, command, flag,
};
use super::server::Area;
use super::stream::{self, Ended, Inbound, Outbound, Output, split};
use zerocopy::IntoBytes;

/// Bytes of a region's description that are asked for: room for some 250 areas.
const REGION_INFO_BYTES: u32 = 4096;
/// Mappings that the client says it may make; as QEMU does.
const MAPPINGS_MAX: u64 = 65_535;

/// A request to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// DMA_MAP: the device may use this memory.
    Map {
        /// The first address on the bus.
        address: u64,
        bytes: u64,
        /// Where it begins in the descriptor's file.
        offset: u64,
    },
    /// DMA_UNMAP: the device must not use this memory any more.
    Unmap {
        /// The first address on the bus.
        address: u64,
        bytes: u64,
    },
    /// DEVICE_GET_INFO.
    Device,
    /// DEVICE_GET_REGION_INFO.
    Region(u32),
    /// DEVICE_GET_IRQ_INFO.
    Interrupts(u32),
    /// DEVICE_SET_IRQS: interrupts are signalled through the descriptors of the request, one each.
    Signal {
        /// Index of the interrupt kind.
        kind: u32,
        /// The first interrupt of the kind.
        start: u32,
        /// Number of interrupts.
        count: u32,
    },
    /// DEVICE_SET_IRQS: interrupts of a kind are not signalled any more.
    Disable(u32),
    /// REGION_READ.
    Read {
        region: u32,
        /// Offset in the region.
        offset: u64,
        /// How many; at most [`ACCESS_BYTES_MAX`].
        bytes: u32,
    },
    /// REGION_WRITE.
    Write {
        region: u32,
        /// Offset in the region.
        offset: u64,
        /// At most [`ACCESS_BYTES_MAX`].
        data: &'a [u8],
    },
    /// DEVICE_RESET.
    Reset,
}

impl Request<'_> {
    /// The command that asks for it.
    pub fn command(&self) -> u16 {
        match self {
            Request::Map { .. } => command::DMA_MAP,
            Request::Unmap { .. } => command::DMA_UNMAP,
            Request::Device => command::DEVICE_GET_INFO,
            Request::Region(_) => command::DEVICE_GET_REGION_INFO,
            Request::Interrupts(_) => command::DEVICE_GET_IRQ_INFO,
            Request::Signal { .. } | Request::Disable(_) => command::DEVICE_SET_IRQS,
            Request::Read { .. } => command::REGION_READ,
            Request::Write { .. } => command::REGION_WRITE,
            Request::Reset => command::DEVICE_RESET,
        }
    }
}

/// A region, as the server describes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Region<D> {
    /// Bytes; 0: there is no such region.
    pub bytes: u64,
    /// Where it begins in the descriptor's file.
    pub offset: u64,
    /// What of it can be mapped; each area is within the region.
    pub mapped: Vec<Area>,
    /// The files; one for all areas, or one each.
    pub descriptors: Vec<D>,
}

/// Content of a successful reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a, D> {
    /// The version is agreed on; what the server can do.
    Connected(Capabilities),
    /// A reply without content.
    Done,
    /// DEVICE_GET_INFO.
    Device {
        /// It can be reset.
        resettable: bool,
        pci: bool,
        regions: u32,
        interrupts: u32,
    },
    Region(Region<D>),
    /// How many interrupts there are.
    Interrupts(u32),
    /// What was read, as many bytes as were asked for.
    Data(&'a [u8]),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Reply<'a, D> {
    /// The request, by the number that [`Client::submit`] gave it; 0 is VERSION.
    pub id: u16,
    pub result: Result<Answer<'a, D>, Errno>,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    id: u16,
    command: u16,
    bytes: u32,
}

/// The end of whoever uses the device, with descriptors of the type `D`.
#[derive(Debug)]
pub struct Client<D> {
    inbound: Inbound<D>,
    outbound: Outbound,
    next_id: u16,
    outstanding: Vec<Outstanding>,
    failed: Option<Ended>,
}

impl<D> Client<D> {
    /// A new connection; its VERSION is in the output.
    pub fn new() -> Client<D> {
        let mut outbound = Outbound::default();
        let text = Capabilities::own(MAPPINGS_MAX).write(usize::MAX);
        let version = Version { major: 0.into(), minor: 1.into() };
        let bytes = size_of::<Version>() + text.len();
        let into = outbound.push(0, command::VERSION, flag::REQUEST, 0, bytes);
        into[..size_of::<Version>()].copy_from_slice(version.as_bytes());
        into[size_of::<Version>()..].copy_from_slice(&text);
        let version = Outstanding { id: 0, command: command::VERSION, bytes: 0 };
        Client {
            inbound: Inbound::new(),
            outbound,
            next_id: 1,
            outstanding: vec![version],
            failed: None,
        }
    }

    /// Puts a request into the output; its number. The descriptors with the number `descriptors`
    /// go with it. A request with more data than may be is cut.
    pub fn submit(&mut self, request: &Request<'_>, descriptors: Option<u32>) -> u16 {
        // Numbers of requests that wait for their answers are not used again.
        let mut id = self.next_id;
        while id == 0 || self.outstanding.iter().any(|request| request.id == id) {
            id = id.wrapping_add(1);
        }
        self.next_id = id.wrapping_add(1);
        let most = ACCESS_BYTES_MAX;
        let bytes = match request {
            Request::Read { bytes, .. } => (*bytes).min(most),
            Request::Write { data, .. } => (data.len() as u32).min(most),
            _ => 0,
        };
        let command = request.command();
        self.outstanding.push(Outstanding { id, command, bytes });
        if let Some(descriptors) = descriptors {
            self.outbound.attach(descriptors);
        }
        let mut push = |head: &[u8], data: &[u8]| {
            let bytes = head.len() + data.len();
            let into = self.outbound.push(id, command, flag::REQUEST, 0, bytes);
            into[..head.len()].copy_from_slice(head);
            into[head.len()..].copy_from_slice(data);
        };
        match *request {
            Request::Map { address, bytes, offset } => {
                let map = DmaMap {
                    argsz: (size_of::<DmaMap>() as u32).into(),
                    flags: (DmaMap::READ | DmaMap::WRITE).into(),
                    offset: offset.into(),
                    address: address.into(),
                    size: bytes.into(),
                };
                push(map.as_bytes(), &[]);
            }
            Request::Unmap { address, bytes } => {
                let unmap = DmaUnmap {
                    argsz: (size_of::<DmaUnmap>() as u32).into(),
                    flags: 0.into(),
                    address: address.into(),
                    size: bytes.into(),
                };
                push(unmap.as_bytes(), &[]);
            }
            Request::Device => {
                let argsz = (size_of::<DeviceInfo>() as u32).into();
                push(DeviceInfo { argsz, ..DeviceInfo::default() }.as_bytes(), &[]);
            }
            Request::Region(index) => {
                let argsz = REGION_INFO_BYTES.into();
                let info = RegionInfo { argsz, index: index.into(), ..RegionInfo::default() };
                push(info.as_bytes(), &[]);
            }
            Request::Interrupts(index) => {
                let argsz = (size_of::<InterruptInfo>() as u32).into();
                let info = InterruptInfo { argsz, index: index.into(), ..Default::default() };
                push(info.as_bytes(), &[]);
            }
            Request::Signal { kind, start, count } => {
                let flags = InterruptSet::DATA_EVENTFD | InterruptSet::TRIGGER;
                push(interrupt_set(flags, kind, start, count).as_bytes(), &[]);
            }
            Request::Disable(kind) => {
                let flags = InterruptSet::DATA_NONE | InterruptSet::TRIGGER;
                push(interrupt_set(flags, kind, 0, 0).as_bytes(), &[]);
            }
            Request::Read { region, offset, .. } => {
                push(access(region, offset, bytes).as_bytes(), &[]);
            }
            Request::Write { region, offset, data } => {
                push(access(region, offset, bytes).as_bytes(), &data[..bytes as usize]);
            }
            Request::Reset => push(&[], &[]),
        }
        id
    }

    /// Requests that wait for their answers.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Where bytes from the server go: as many as a message lacks. Empty as long as
    /// [`Client::poll`] has something to say.
    pub fn receive_buffer(&mut self) -> &mut [u8] {
        self.inbound.buffer()
    }

    /// So many bytes were put into the buffer, and with them came these descriptors.
    pub fn received(&mut self, bytes: usize, descriptors: impl IntoIterator<Item = D>) {
        if let Err(ended) = self.inbound.received(bytes, descriptors) {
            self.failed = Some(ended);
        }
    }

    /// Descriptors came with the last bytes that could not be taken over.
    pub fn lost_descriptors(&mut self) {
        self.inbound.lost_descriptors();
    }

    /// The next reply; `None`: more has to be received.
    ///
    /// # Errors
    /// If the server broke the protocol; from then on always.
    pub fn poll(&mut self) -> Result<Option<Reply<'_, D>>, Ended> {
        if let Some(ended) = self.failed {
            return Err(ended);
        }
        if !self.inbound.take() {
            return Ok(None);
        }
        let header = self.inbound.header();
        let descriptors = self.inbound.take_descriptors();
        let (id, command, flags) = (header.id.get(), header.command.get(), header.flags.get());
        let is_request = match stream::is_request(&header) {
            Ok(is_request) => is_request,
            Err(ended) => return Err(*self.failed.insert(ended)),
        };
        if is_request {
            if flags & flag::NO_REPLY == 0 && self.outbound.unsent() <= stream::UNSENT_BYTES_MAX {
                let errno = Errno::NOT_SUPPORTED.0;
                self.outbound.push(id, command, flag::REPLY | flag::ERROR, errno, 0);
            }
            return Ok(None);
        }
        let Some(at) = self.outstanding.iter().position(|request| request.id == id) else {
            return Err(*self.failed.insert(Ended::Unexpected));
        };
        let request = self.outstanding.remove(at);
        if command != request.command {
            return Err(*self.failed.insert(Ended::Reply(request.command)));
        }
        if flags & flag::ERROR != 0 {
            let errno = match header.error.get() {
                0 => Errno::PROTOCOL,
                errno => Errno(errno),
            };
            return Ok(Some(Reply { id, result: Err(errno) }));
        }
        let descriptors = match descriptors {
            Ok(descriptors) => descriptors,
            Err(_) => return Err(*self.failed.insert(Ended::Reply(request.command))),
        };
        match answer(&request, self.inbound.body(), descriptors) {
            Some(answer) => Ok(Some(Reply { id, result: Ok(answer) })),
            None => Err(*self.failed.insert(Ended::Reply(request.command))),
        }
    }

    /// What to send next; `None`: nothing.
    pub fn output(&self) -> Option<Output<'_>> {
        self.outbound.output()
    }

    /// So many bytes of the output have been sent, with its descriptors if there are bytes.
    pub fn sent(&mut self, bytes: usize) {
        self.outbound.sent(bytes);
    }
}

impl<D> Default for Client<D> {
    fn default() -> Client<D> {
        Client::new()
    }
}

fn interrupt_set(flags: u32, kind: u32, start: u32, count: u32) -> InterruptSet {
    InterruptSet {
        argsz: (size_of::<InterruptSet>() as u32).into(),
        flags: flags.into(),
        index: kind.into(),
        start: start.into(),
        count: count.into(),
    }
}

fn access(region: u32, offset: u64, bytes: u32) -> RegionAccess {
    RegionAccess { offset: offset.into(), region: region.into(), count: bytes.into() }
}

/// What a reply says; `None` if it cannot be one to what was asked.
fn answer<'a, D>(
    request: &Outstanding,
    body: &'a [u8],
    descriptors: Vec<D>,
) -> Option<Answer<'a, D>> {
    Some(match request.command {
        command::VERSION => {
            let (version, data) = split::<Version>(body).ok()?;
            if version.major.get() != 0 || version.minor.get() > 1 {
                return None;
            }
            Answer::Connected(Capabilities::parse(data)?)
        }
        command::DEVICE_GET_INFO => {
            let (info, _) = split::<DeviceInfo>(body).ok()?;
            Answer::Device {
                resettable: info.flags.get() & DeviceInfo::RESET != 0,
                pci: info.flags.get() & DeviceInfo::PCI != 0,
                regions: info.regions.get(),
                interrupts: info.interrupts.get(),
            }
        }
        command::DEVICE_GET_REGION_INFO => Answer::Region(region(body, descriptors)?),
        command::DEVICE_GET_IRQ_INFO => {
            Answer::Interrupts(split::<InterruptInfo>(body).ok()?.0.count.get())
        }
        command::REGION_READ => {
            let (access, data) = split::<RegionAccess>(body).ok()?;
            let same = access.count.get() == request.bytes && data.len() == request.bytes as usize;
            same.then_some(Answer::Data(data))?
        }
        _ => Answer::Done,
    })
}

/// Reads a region's description, capabilities included.
fn region<D>(body: &[u8], descriptors: Vec<D>) -> Option<Region<D>> {
    let (info, _) = split::<RegionInfo>(body).ok()?;
    let (bytes, flags) = (info.size.get(), info.flags.get());
    let mut mapped = Vec::new();
    let mut next = match flags & RegionInfo::CAPABILITIES {
        0 => 0,
        _ => info.capability_offset.get(),
    };
    let mut sparse = false;
    // Each is behind the one before, so that the list ends.
    let mut from = size_of::<RegionInfo>() as u32;
    while next != 0 {
        if next < from {
            return None;
        }
        let capability = body.get(next as usize..)?;
        let (head, areas) = split::<CapabilityHeader>(capability).ok()?;
        if head.id.get() == SparseMapping::ID {
            sparse = true;
            let (counts, areas) =
                split::<[zerocopy::byteorder::little_endian::U32; 2]>(areas).ok()?;
            let areas = areas.chunks_exact(16).take(counts[0].get() as usize);
            for area in areas {
                let word = |at| u64::from_le_bytes(area[at..at + 8].try_into().expect("8 bytes"));
                mapped.push(Area { offset: word(0), bytes: word(8) });
            }
        }
        from = next + size_of::<CapabilityHeader>() as u32;
        next = head.next.get();
    }
    if flags & RegionInfo::MAPPABLE == 0 {
        mapped.clear();
    } else if !sparse {
        mapped.push(Area { offset: 0, bytes });
    }
    let within = |area: &Area| area.offset.checked_add(area.bytes).is_some_and(|end| end <= bytes);
    mapped.iter().all(within).then_some(Region {
        bytes,
        offset: info.offset.get(),
        mapped,
        descriptors,
    })
}

/// Begins every capability of a region.
#[derive(
    Clone,
    Copy,
    zerocopy::FromBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(C)]
struct CapabilityHeader {
    id: zerocopy::byteorder::little_endian::U16,
    _version: zerocopy::byteorder::little_endian::U16,
    next: zerocopy::byteorder::little_endian::U32,
}

const _: () = assert!(Header::BYTES + REGION_INFO_BYTES as usize <= super::MESSAGE_BYTES_MAX);
