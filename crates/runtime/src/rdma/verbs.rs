//! Verbs and the connection manager, behind an interface that is safe: all `unsafe` of RDMA is
//! here.
//!
//! Memory that the device may write to is a [`Block`] or a [`Slot`], which whoever posts a work
//! request gives away and gets back when that has ended. A queue pair is destroyed before its
//! memory is. Nothing here blocks but the destruction of a connection, for as long as the system
//! takes.
#![allow(unsafe_code)]

use super::buddy::Block;
use mynah_wire::rdma::capsule::Remote;
use mynah_wire::rdma::target::Answer;
use rdma_mummy_sys::*;
use rustix::fd::{AsFd, BorrowedFd};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Completions taken from the device in one go.
const COMPLETIONS: usize = 16;
/// Connections that wait to be taken.
const BACKLOG: i32 = 128;
/// Bytes of a response capsule.
const RESPONSE_BYTES: u32 = 16;
/// "For ever" (rdma_accept(3)).
const RNR_RETRIES: u8 = 7;

/// What a work request was, in the upper half of its identifier.
const RECEIVE: u64 = 0;
const READ: u64 = 1;
const ANSWER: u64 = 2;
const PART: u64 = 3;

fn work_request(kind: u64, number: usize) -> u64 {
    kind << 32 | number as u64
}

/// What a function that returns -1 has said.
fn succeeded(status: i32) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What a function that returns an error number has said.
fn posted(status: i32) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

fn not_null<T>(pointer: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(io::Error::last_os_error)
}

/// Has a descriptor not block.
fn never_blocks(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: the caller's object, which is alive, owns the descriptor.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    Ok(rustix::fs::fcntl_setfl(descriptor, flags | rustix::fs::OFlags::NONBLOCK)?)
}

/// A device, and where it says that work requests have ended.
#[derive(Debug)]
pub(super) struct Device {
    context: NonNull<ibv_context>,
    domain: NonNull<ibv_pd>,
    completions: NonNull<ibv_comp_channel>,
    /// RDMA READs that a queue pair may have under way.
    pub(super) read_depth: u8,
}

// SAFETY: verbs may be called from any thread (ibv_open_device(3) and others of libibverbs).
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// `context` belongs to the connection manager, which keeps devices open until the process ends.
    fn new(context: NonNull<ibv_context>) -> io::Result<Device> {
        // SAFETY: all bytes zero is a value of this structure of integers.
        let mut limits: ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: an open device, and a structure to be filled in.
        posted(unsafe { ibv_query_device(context.as_ptr(), &mut limits) })?;
        let read_depth = limits.max_qp_init_rd_atom.clamp(0, 255) as u8;
        // SAFETY: an open device.
        let domain = not_null(unsafe { ibv_alloc_pd(context.as_ptr()) })?;
        // SAFETY: as above.
        let completions = not_null(unsafe { ibv_create_comp_channel(context.as_ptr()) });
        let completions = match completions {
            Ok(completions) => completions,
            Err(error) => {
                // SAFETY: nothing uses the domain yet.
                unsafe { ibv_dealloc_pd(domain.as_ptr()) };
                return Err(error);
            }
        };
        let device = Device { context, domain, completions, read_depth };
        never_blocks(device.descriptor())?;
        Ok(device)
    }

    fn descriptor(&self) -> RawFd {
        // SAFETY: the channel lives as long as `self`.
        unsafe { self.completions.as_ref().fd }
    }

    /// Takes what has made the descriptor readable.
    pub(super) fn silence(&self) {
        loop {
            let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
            let channel = self.completions.as_ptr();
            // SAFETY: the channel is alive, and does not block.
            if unsafe { ibv_get_cq_event(channel, &mut queue, &mut context) } != 0 {
                return;
            }
            // SAFETY: the queue is alive: none is destroyed while an event of it is not acknowledged.
            unsafe { ibv_ack_cq_events(queue, 1) };
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel, which owns the descriptor, lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.descriptor()) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: whatever was made of them holds an `Arc` of this device, and is gone.
        unsafe {
            ibv_destroy_comp_channel(self.completions.as_ptr());
            ibv_dealloc_pd(self.domain.as_ptr());
        }
    }
}

/// Memory that the device may use, as it is told by this process alone.
#[derive(Debug)]
pub(super) struct Region {
    memory: NonNull<u8>,
    layout: Layout,
    registered: NonNull<ibv_mr>,
    _device: Arc<Device>,
}

// SAFETY: the memory is the region's own, and verbs may be called from any thread.
unsafe impl Send for Region {}
// SAFETY: through a shared region only bytes can be had whose block or slot the caller has.
unsafe impl Sync for Region {}

impl Region {
    /// Registers memory of this many bytes, all zero.
    pub(super) fn new(device: &Arc<Device>, bytes: usize) -> io::Result<Region> {
        let layout = Layout::from_size_align(bytes.max(1), 4096).map_err(io::Error::other)?;
        // SAFETY: the layout's size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) });
        let memory = memory.ok_or(io::ErrorKind::OutOfMemory)?;
        // Not for hosts: they have no access.
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 as i32;
        let at = memory.as_ptr().cast();
        // SAFETY: the memory is there until `drop`, which deregisters it first.
        let registered = not_null(unsafe { ibv_reg_mr(device.domain.as_ptr(), at, bytes, access) });
        match registered {
            Ok(registered) => Ok(Region { memory, layout, registered, _device: device.clone() }),
            Err(error) => {
                // SAFETY: it was allocated above with this layout, and nobody has it.
                unsafe { dealloc(memory.as_ptr(), layout) };
                Err(error)
            }
        }
    }

    fn key(&self) -> u32 {
        // SAFETY: the registration lives as long as `self`.
        unsafe { self.registered.as_ref().lkey }
    }

    fn address(&self, at: usize) -> u64 {
        self.memory.as_ptr() as u64 + at as u64
    }

    fn range(&self, at: usize, bytes: usize) -> NonNull<u8> {
        assert!(at.checked_add(bytes).is_some_and(|end| end <= self.layout.size()));
        // SAFETY: it lies within the allocation, as was just found.
        unsafe { self.memory.add(at) }
    }

    /// The first bytes of a block.
    pub(super) fn bytes(&self, block: &Block, bytes: usize) -> &[u8] {
        assert!(bytes <= block.bytes());
        let at = self.range(block.at(), bytes);
        // SAFETY: it lies within the memory. Whoever has a block is alone with its bytes: blocks are
        // apart, and one that the device may write to is with the queue pair.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), bytes) }
    }

    /// The same, to be written to.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn bytes_mut<'a>(&'a self, block: &'a mut Block, bytes: usize) -> &'a mut [u8] {
        assert!(bytes <= block.bytes());
        let at = self.range(block.at(), bytes);
        // SAFETY: as above, and the block is borrowed for as long as its bytes are.
        unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), bytes) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: queue pairs hold what they use, and are gone; it was allocated with this layout.
        unsafe {
            ibv_dereg_mr(self.registered.as_ptr());
            dealloc(self.memory.as_ptr(), self.layout);
        }
    }
}

/// Where the connection manager says what happens.
#[derive(Debug)]
struct Channel(NonNull<rdma_event_channel>);

// SAFETY: the connection manager may be called from any thread.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: identifiers hold an `Arc` of their channel, and are gone.
        unsafe { rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

/// One of the connection manager's identifiers: a listener, or a connection.
#[derive(Debug)]
struct Identifier {
    id: NonNull<rdma_cm_id>,
    _channel: Arc<Channel>,
}

// SAFETY: as for its channel.
unsafe impl Send for Identifier {}

impl Identifier {
    fn key(&self) -> usize {
        self.id.as_ptr() as usize
    }
}

impl Drop for Identifier {
    fn drop(&mut self) {
        // SAFETY: it is this one's own. Its queue pair is gone, and its events were acknowledged.
        unsafe { rdma_destroy_id(self.id.as_ptr()) };
    }
}

/// An address as the system's structure has it.
fn system_address(address: SocketAddr) -> libc::sockaddr_storage {
    // SAFETY: all bytes zero is a value of this structure of integers.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let at = ptr::from_mut(&mut storage);
    match address {
        SocketAddr::V4(address) => {
            // SAFETY: the storage has room and alignment for addresses of every family.
            let into = unsafe { &mut *at.cast::<libc::sockaddr_in>() };
            into.sin_family = libc::AF_INET as u16;
            into.sin_port = address.port().to_be();
            into.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
        }
        SocketAddr::V6(address) => {
            // SAFETY: as above.
            let into = unsafe { &mut *at.cast::<libc::sockaddr_in6>() };
            into.sin6_family = libc::AF_INET6 as u16;
            into.sin6_port = address.port().to_be();
            into.sin6_addr.s6_addr = address.ip().octets();
            into.sin6_scope_id = address.scope_id();
        }
    }
    storage
}

/// What the system's structure says.
fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at = ptr::from_ref(storage);
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the storage has room and alignment for it, and the family says that it is one.
            let it = unsafe { &*at.cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(it.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(IpAddr::V4(address), u16::from_be(it.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let it = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(it.sin6_addr.s6_addr);
            Some(SocketAddr::new(IpAddr::V6(address), u16::from_be(it.sin6_port)))
        }
        _ => None,
    }
}

/// What has happened to connections.
#[derive(Debug)]
pub(super) enum Event {
    /// A host asks for a connection.
    Requested(Request),
    /// A connection is over, by its key.
    Over(usize),
}

/// Listens for connections of hosts.
#[derive(Debug)]
pub(super) struct Listener {
    id: Identifier,
    channel: Arc<Channel>,
    device: Arc<Device>,
    address: SocketAddr,
}

impl Listener {
    /// Listens at an address of an RDMA device.
    pub(super) fn new(address: SocketAddr) -> io::Result<Listener> {
        // SAFETY: it takes nothing.
        let channel = Arc::new(Channel(not_null(unsafe { rdma_create_event_channel() })?));
        // SAFETY: the channel is alive.
        never_blocks(unsafe { channel.0.as_ref().fd })?;
        let mut id = ptr::null_mut();
        let space = rdma_port_space::RDMA_PS_TCP;
        // SAFETY: the channel is alive, and there is a place for the identifier.
        succeeded(unsafe { rdma_create_id(channel.0.as_ptr(), &mut id, ptr::null_mut(), space) })?;
        let id = Identifier { id: not_null(id)?, _channel: channel.clone() };
        let mut storage = system_address(address);
        let at = ptr::from_mut(&mut storage).cast();
        // SAFETY: an identifier, and an address that is there during the call.
        succeeded(unsafe { rdma_bind_addr(id.id.as_ptr(), at) })?;
        // SAFETY: the identifier is alive.
        let context = NonNull::new(unsafe { id.id.as_ref().verbs });
        let context = context.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let device = Arc::new(Device::new(context)?);
        // SAFETY: as above.
        succeeded(unsafe { rdma_listen(id.id.as_ptr(), BACKLOG) })?;
        // SAFETY: the address, which the manager has filled in, is plain bytes whatever the family.
        let bound = unsafe { address_of(&id.id.as_ref().route.addr.src_addr_union.src_storage) };
        let address = bound.unwrap_or(address);
        Ok(Listener { id, channel, device, address })
    }

    pub(super) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next thing that has happened.
    pub(super) fn next(&mut self) -> Option<Event> {
        loop {
            let mut event = ptr::null_mut();
            // SAFETY: the channel is alive, and does not block.
            if unsafe { rdma_get_cm_event(self.channel.0.as_ptr(), &mut event) } != 0 {
                return None;
            }
            let event = NonNull::new(event)?;
            // SAFETY: the event is there until it is acknowledged.
            let heard = unsafe { self.heard(event.as_ref()) };
            // SAFETY: nothing of it is used any more.
            unsafe { rdma_ack_cm_event(event.as_ptr()) };
            if heard.is_some() {
                return heard;
            }
        }
    }

    /// # Safety
    /// The event is one that was not acknowledged.
    unsafe fn heard(&self, event: &rdma_cm_event) -> Option<Event> {
        let id = NonNull::new(event.id)?;
        let key = id.as_ptr() as usize;
        match event.event {
            rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST => {
                let id = Identifier { id, _channel: self.channel.clone() };
                // SAFETY: requests of this kind of port have parameters of connections.
                let asked = unsafe { &event.param.conn };
                let private = match asked.private_data.is_null() {
                    true => Vec::new(),
                    // SAFETY: the event has so many bytes there.
                    false => unsafe {
                        let at = asked.private_data.cast::<u8>();
                        std::slice::from_raw_parts(at, asked.private_data_len.into()).to_vec()
                    },
                };
                // SAFETY: the connection's addresses, which the manager has filled in, are plain
                // bytes whatever the family.
                let (peer, local) = unsafe {
                    let address = &id.id.as_ref().route.addr;
                    let peer = address_of(&address.dst_addr_union.dst_storage);
                    (peer, address_of(&address.src_addr_union.src_storage))
                };
                let read_depth = asked.initiator_depth.min(self.device.read_depth);
                Some(Event::Requested(Request { id, private, peer, local, read_depth }))
            }
            rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED
            | rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_ERROR
            | rdma_cm_event_type::RDMA_CM_EVENT_UNREACHABLE
            | rdma_cm_event_type::RDMA_CM_EVENT_REJECTED
            | rdma_cm_event_type::RDMA_CM_EVENT_DEVICE_REMOVAL
            | rdma_cm_event_type::RDMA_CM_EVENT_TIMEWAIT_EXIT => {
                // The listener is told of the device's removal as well, and no connection's.
                (key != self.id.key()).then_some(Event::Over(key))
            }
            // That one is up shows by its capsules.
            _ => None,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel, which owns the descriptor, lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.channel.0.as_ref().fd) }
    }
}

/// A host that wants a connection.
#[derive(Debug)]
pub(super) struct Request {
    id: Identifier,
    /// What it says of the queue.
    pub(super) private: Vec<u8>,
    pub(super) peer: Option<SocketAddr>,
    /// The address at which it came in.
    pub(super) local: Option<SocketAddr>,
    /// RDMA READs that both ends let be under way.
    pub(super) read_depth: u8,
}

/// How much a queue pair has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Capsules that can be received at once, and bytes of each.
    pub(super) entries: u16,
    pub(super) capsule_bytes: u32,
    /// Most send work requests under way.
    pub(super) work_requests: u32,
    pub(super) read_depth: u8,
}

impl Request {
    /// Rejects the connection, with this private data.
    pub(super) fn reject(self, private: &[u8]) {
        let bytes = private.len() as u8;
        // SAFETY: the identifier is alive, and the bytes are there during the call. If it fails the
        // host finds that nobody answers.
        unsafe { rdma_reject(self.id.id.as_ptr(), private.as_ptr().cast(), bytes) };
    }

    /// Takes the host in, with a queue pair whose data go through `memory`.
    pub(super) fn accept(
        self,
        device: &Arc<Device>,
        memory: &Arc<Region>,
        sizes: Sizes,
        private: &[u8],
    ) -> io::Result<Pair> {
        let mut pair = Pair::new(self.id, device, memory, sizes)?;
        for number in 0..sizes.entries {
            pair.receive(Slot(number))?;
        }
        // SAFETY: all bytes zero is a value of this structure.
        let mut parameters: rdma_conn_param = unsafe { std::mem::zeroed() };
        parameters.private_data = private.as_ptr().cast();
        parameters.private_data_len = private.len() as u8;
        parameters.initiator_depth = sizes.read_depth;
        parameters.flow_control = 1;
        parameters.rnr_retry_count = RNR_RETRIES;
        let id = pair.id.id.as_ptr();
        // SAFETY: the identifier has its queue pair, and the bytes are there during the call.
        succeeded(unsafe { rdma_accept(id, &mut parameters) })?;
        Ok(pair)
    }
}

/// The place of a capsule that has come, until it is given back.
#[derive(Debug)]
pub(super) struct Slot(u16);

/// A work request that has ended.
#[derive(Debug)]
pub(super) enum Done {
    /// A capsule of so many bytes has come.
    Capsule(Slot, u32),
    /// The READ of this number has brought its data.
    Read(u8, Block),
    /// An answer of so many work requests has been sent, and the host has it.
    Answered(Option<Block>, u32),
    Broken,
}

/// A connected queue pair.
#[derive(Debug)]
pub(super) struct Pair {
    id: Identifier,
    queue: NonNull<ibv_cq>,
    has_pair: bool,
    sizes: Sizes,
    received: Region,
    memory: Arc<Region>,
    /// What the device uses, by the number of the READ and of the answer.
    reads: Vec<Option<Block>>,
    answers: Vec<Option<(Option<Block>, u32)>>,
    free_answers: Vec<u16>,
    done: Vec<(u64, bool, u32)>,
    _device: Arc<Device>,
}

// SAFETY: verbs may be called from any thread, and all else is its own.
unsafe impl Send for Pair {}

impl Pair {
    fn new(
        id: Identifier,
        device: &Arc<Device>,
        memory: &Arc<Region>,
        sizes: Sizes,
    ) -> io::Result<Pair> {
        let entries = u32::from(sizes.entries);
        let received = Region::new(device, (entries * sizes.capsule_bytes) as usize)?;
        let (context, channel) = (device.context.as_ptr(), device.completions.as_ptr());
        let room = (entries + sizes.work_requests) as i32;
        // SAFETY: device and channel are alive, and outlive the queue.
        let queue = unsafe { ibv_create_cq(context, room, ptr::null_mut(), channel, 0) };
        let queue = not_null(queue)?;
        let mut pair = Pair {
            id,
            queue,
            has_pair: false,
            sizes,
            received,
            memory: memory.clone(),
            reads: (0..sizes.read_depth).map(|_| None).collect(),
            answers: (0..sizes.work_requests).map(|_| None).collect(),
            free_answers: (0..sizes.work_requests as u16).rev().collect(),
            done: Vec::with_capacity(COMPLETIONS),
            _device: device.clone(),
        };
        // SAFETY: all bytes zero is a value of this structure.
        let mut wanted: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        wanted.send_cq = queue.as_ptr();
        wanted.recv_cq = queue.as_ptr();
        wanted.cap.max_send_wr = sizes.work_requests;
        wanted.cap.max_recv_wr = entries;
        wanted.cap.max_send_sge = 1;
        wanted.cap.max_recv_sge = 1;
        wanted.cap.max_inline_data = RESPONSE_BYTES;
        wanted.qp_type = ibv_qp_type::IBV_QPT_RC;
        let (id, domain) = (pair.id.id.as_ptr(), device.domain.as_ptr());
        // SAFETY: the identifier is a connection's of this device, which has no queue pair yet.
        succeeded(unsafe { rdma_create_qp(id, domain, &mut wanted) })?;
        pair.has_pair = true;
        Ok(pair)
    }

    /// What the connection manager's events call it.
    pub(super) fn key(&self) -> usize {
        self.id.key()
    }

    fn pair(&self) -> *mut ibv_qp {
        // SAFETY: the identifier is alive.
        unsafe { self.id.id.as_ref().qp }
    }

    /// The bytes of a capsule that has come.
    pub(super) fn capsule(&self, slot: &Slot, bytes: u32) -> &[u8] {
        let (all, bytes) = (self.sizes.capsule_bytes as usize, bytes.min(self.sizes.capsule_bytes));
        let at = self.received.range(usize::from(slot.0) * all, all);
        // SAFETY: it lies within the memory, and while its slot is out the device does not use it.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), bytes as usize) }
    }

    /// Lets another capsule come into a slot.
    pub(super) fn receive(&mut self, slot: Slot) -> io::Result<()> {
        let number = usize::from(slot.0);
        let mut part = ibv_sge {
            addr: self.received.address(number * self.sizes.capsule_bytes as usize),
            length: self.sizes.capsule_bytes,
            lkey: self.received.key(),
        };
        let mut request = ibv_recv_wr {
            wr_id: work_request(RECEIVE, number),
            next: ptr::null_mut(),
            sg_list: &mut part,
            num_sge: 1,
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive; the slot, which the caller has given away, lies within
        // memory that outlives it.
        posted(unsafe { ibv_post_recv(self.pair(), &mut request, &mut bad) })
    }

    /// Reads from a host's memory into a block.
    pub(super) fn read(&mut self, number: u8, block: Block, from: Remote) -> io::Result<()> {
        assert!(from.bytes as usize <= block.bytes());
        let mut part = self.part(&block, from.bytes);
        self.reads[usize::from(number)] = Some(block);
        // SAFETY: all bytes zero is a value of this structure: null pointers and numbers.
        let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = work_request(READ, number.into());
        request.sg_list = &mut part;
        request.num_sge = 1;
        request.opcode = ibv_wr_opcode::IBV_WR_RDMA_READ;
        request.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        request.wr.rdma = rdma_t { remote_addr: from.address, rkey: from.key };
        self.post(&mut request)
    }

    /// Writes data to a host's memory, if there are any, and sends the response behind them.
    pub(super) fn answer(&mut self, answer: &Answer, block: Option<Block>) -> io::Result<()> {
        let number = self.free_answers.pop().ok_or(io::ErrorKind::OutOfMemory)?;
        let entry = answer.entry.as_bytes();
        let mut response = ibv_sge {
            addr: entry.as_ptr() as u64,
            length: entry.len() as u32,
            // Inline data need none.
            lkey: 0,
        };
        // SAFETY: all bytes zero is a value of this structure: null pointers and numbers.
        let (mut send, mut write): (ibv_send_wr, ibv_send_wr) = unsafe { std::mem::zeroed() };
        send.wr_id = work_request(ANSWER, number.into());
        send.sg_list = &mut response;
        send.num_sge = 1;
        send.opcode = ibv_wr_opcode::IBV_WR_SEND;
        send.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0 | ibv_send_flags::IBV_SEND_INLINE.0;
        if let Some(key) = answer.invalidates {
            send.opcode = ibv_wr_opcode::IBV_WR_SEND_WITH_INV;
            send.imm_data_invalidated_rkey_union.invalidated_rkey = key;
        }
        let mut data;
        let result = match (&block, answer.to) {
            (Some(block), Some(to)) => {
                assert!(to.bytes as usize <= block.bytes());
                data = self.part(block, to.bytes);
                write.wr_id = work_request(PART, number.into());
                write.next = &mut send;
                write.sg_list = &mut data;
                write.num_sge = 1;
                write.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
                write.wr.rdma = rdma_t { remote_addr: to.address, rkey: to.key };
                self.post(&mut write)
            }
            _ => self.post(&mut send),
        };
        // With the pair even if it was not posted: then the pair is closed.
        self.answers[usize::from(number)] = Some((block, answer.work_requests()));
        result
    }

    fn part(&self, block: &Block, bytes: u32) -> ibv_sge {
        self.memory.range(block.at(), bytes as usize);
        ibv_sge { addr: self.memory.address(block.at()), length: bytes, lkey: self.memory.key() }
    }

    fn post(&self, request: &mut ibv_send_wr) -> io::Result<()> {
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive. What the requests point to is there during the call, and
        // the memory that the device uses is with this pair until they have ended.
        posted(unsafe { ibv_post_send(self.pair(), request, &mut bad) })
    }

    /// Takes some of what has ended, into what [`Pair::next`] returns; whether that has anything.
    pub(super) fn look(&mut self) -> bool {
        // SAFETY: all bytes zero is a value of this structure.
        let mut ended: [ibv_wc; COMPLETIONS] = unsafe { std::mem::zeroed() };
        let most = (COMPLETIONS - self.done.len().min(COMPLETIONS)) as i32;
        // SAFETY: the queue is alive, and there is room for so many.
        let count = unsafe { ibv_poll_cq(self.queue.as_ptr(), most, ended.as_mut_ptr()) };
        if count < 0 {
            // The queue itself is broken: as if all that is in it were.
            self.done.push((work_request(PART, 0), false, 0));
            return true;
        }
        self.done.extend(
            ended
                .iter()
                .take(count as usize)
                .map(|it| (it.wr_id, it.status == ibv_wc_status::IBV_WC_SUCCESS, it.byte_len)),
        );
        !self.done.is_empty()
    }

    /// What has ended, in no order but that of each kind.
    pub(super) fn next(&mut self) -> Option<Done> {
        if self.done.is_empty() {
            return None;
        }
        let (identifier, succeeded, bytes) = self.done.remove(0);
        let (kind, number) = (identifier >> 32, identifier as u32 as usize);
        if !succeeded {
            return Some(Done::Broken);
        }
        Some(match kind {
            RECEIVE => Done::Capsule(Slot(number as u16), bytes),
            READ => match self.reads.get_mut(number).and_then(Option::take) {
                Some(block) => Done::Read(number as u8, block),
                None => Done::Broken,
            },
            ANSWER => match self.answers.get_mut(number).and_then(Option::take) {
                Some((block, work_requests)) => {
                    self.free_answers.push(number as u16);
                    Done::Answered(block, work_requests)
                }
                None => Done::Broken,
            },
            _ => Done::Broken,
        })
    }

    /// Whether answers are on their way.
    pub(super) fn is_sending(&self) -> bool {
        self.answers.len() > self.free_answers.len()
    }

    /// Has the device tell of the next thing that ends.
    pub(super) fn arm(&mut self) {
        // SAFETY: the queue is alive. If it fails the device is broken, which shows by a look.
        unsafe { ibv_req_notify_cq(self.queue.as_ptr(), 0) };
    }

    /// Tells the host that it is over.
    pub(super) fn disconnect(&mut self) {
        // SAFETY: the identifier is alive. It fails where the host has said so first.
        unsafe { rdma_disconnect(self.id.id.as_ptr()) };
    }

    /// Ends it: the blocks that the device had.
    pub(super) fn close(mut self) -> Vec<Block> {
        self.destroy();
        let of_answers = self.answers.iter_mut().filter_map(|it| it.take()?.0);
        self.reads.iter_mut().filter_map(Option::take).chain(of_answers).collect()
    }

    fn destroy(&mut self) {
        if std::mem::take(&mut self.has_pair) {
            // SAFETY: the identifier has its queue pair, of which nobody has a pointer.
            unsafe { rdma_destroy_qp(self.id.id.as_ptr()) };
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.destroy();
        // SAFETY: the queue pair that used it is gone, and its events were acknowledged.
        unsafe { ibv_destroy_cq(self.queue.as_ptr()) };
    }
}
