//! A host in virtual time that does not need a transport, and small drives.

use mynah_device::{
    Authentication, Completion, CompletionData, Now, Output, Query, Queue, RamStore, Ready, Store,
    StoreError, StoreJob, Subsystem, SubsystemConfig, Timing, Transport, Values,
};
use mynah_model::Drive;
use mynah_model::config::{
    CollectionUnit, Config, DataPlacement, Firmware, Isolation, Placement, Victims, WriteBack,
};
use mynah_model::testing;
use mynah_stamp::{Span, Time};
use mynah_wire::fabrics::{CONNECT_NO_FLOW_CONTROL, Connect, ConnectData, nqn_field};
use mynah_wire::nvme::opcode::{FABRICS, admin, fabrics, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::protection::CopyRange;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use zerocopy::IntoBytes;

pub(crate) const SUBSYSTEM: &str = "nqn.2026-11.test:drive";
pub(crate) const HOST: &str = "nqn.2026-11.test:host";

/// 8 MiB and a bit of SLC with 4 KiB units, a cache, and round times.
pub(crate) fn small() -> Config {
    let us = Span::from_us;
    let mut config = testing::small();
    config.geometry.chips_per_channel = 1;
    config.geometry.blocks_per_plane = 24;
    config.flash.read = testing::page_times(50, 50, 50);
    config.flash.program = testing::page_times(500, 500, 500);
    config.firmware = Firmware { cores: 1, read: us(1), write: us(1), trim: us(1), flush: us(1) };
    let mut cache = testing::cache();
    cache.bytes = 256 << 10;
    cache.write_back = WriteBack::Lru { high: 0.5 };
    config.cache = Some(cache);
    config.over_provisioning = 0.3;
    config.gc.start = 0.15;
    config.gc.urgent = 0.1;
    config
}

/// Reclaim unit handles of [`placing`].
pub(crate) const HANDLES: u8 = 4;

/// Has a drive place data by four handles: reclaim units are four planes of sixteen pages of 8 KiB.
pub(crate) fn placing(config: &mut Config) {
    config.geometry.blocks_per_plane = 48;
    config.gc.unit = CollectionUnit::Superblock;
    config.placement = Placement::Striped;
    config.data_placement = Some(DataPlacement {
        handles: HANDLES,
        isolation: Isolation::Initial,
        victims: Victims::All,
        superblocks: 1,
    });
}

/// What a store was given to keep last.
pub(crate) type Description = Rc<RefCell<Vec<u8>>>;

/// A store in memory whose description a test can get at.
pub(crate) struct Kept {
    store: RamStore,
    description: Description,
    before: Vec<u8>,
    /// Where pairs are, if it has any.
    pub(crate) values: Option<Box<dyn Values>>,
}

impl Kept {
    /// One that has kept `before`, and puts what it is given to keep into `description`.
    pub(crate) fn new(description: &Description, before: Vec<u8>) -> Kept {
        let (store, description) = (RamStore::new(), description.clone());
        Kept { store, description, before, values: None }
    }
}

impl Store for Kept {
    fn fetch(&mut self, at: u64, bytes: u32) -> Ready {
        self.store.fetch(at, bytes)
    }
    fn read(&mut self, job: Option<StoreJob>, at: u64, into: &mut [u8]) {
        self.store.read(job, at, into);
    }
    fn forget(&mut self, job: StoreJob) {
        self.store.forget(job);
    }
    fn write(&mut self, at: u64, from: &[u8]) -> Ready {
        self.store.write(at, from)
    }
    fn discard(&mut self, at: u64, bytes: u64) -> Ready {
        self.store.discard(at, bytes)
    }
    fn flush(&mut self) -> Ready {
        self.store.flush()
    }
    fn describe(&mut self, description: &[u8]) {
        *self.description.borrow_mut() = description.to_vec();
    }
    fn description(&self) -> Option<&[u8]> {
        Some(&self.before)
    }
    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        None
    }
    fn values(&mut self) -> Option<Box<dyn Values>> {
        self.values.take()
    }
}

/// The subsystem and the clock of its world.
pub(crate) struct World {
    pub(crate) subsystem: Subsystem,
    pub(crate) now: Time,
    /// Replies that nobody has asked for yet, their data copied.
    replies: VecDeque<(Completion, Vec<u8>)>,
    pub(crate) closed: Vec<(Queue, &'static str)>,
    /// Authentication commands that wait for somebody to answer them.
    pub(crate) asked: Vec<Authentication>,
    pub(crate) queries: Vec<Query>,
    /// Where the next connection comes from.
    pub(crate) source: u128,
    next_id: u16,
}

/// A connection over TCP.
pub(crate) fn tcp() -> Transport {
    Transport {
        in_capsule_bytes: 8192,
        max_transfer_bytes: 128 << 10,
        peer: "test".into(),
        source: 0,
        local: None,
        port: 0,
        kind: 3,
        host_nqn: None,
    }
}

impl World {
    pub(crate) fn new(timing: Timing) -> World {
        World::with(timing, |_| {}, |_| {})
    }

    pub(crate) fn with(
        timing: Timing,
        change: impl FnOnce(&mut SubsystemConfig),
        change_drive: impl FnOnce(&mut Config),
    ) -> World {
        World::with_store(timing, change, change_drive, Box::new(RamStore::new()))
    }

    pub(crate) fn with_store(
        timing: Timing,
        change: impl FnOnce(&mut SubsystemConfig),
        change_drive: impl FnOnce(&mut Config),
        store: Box<dyn Store>,
    ) -> World {
        let mut config = SubsystemConfig { timing, ..SubsystemConfig::new(SUBSYSTEM) };
        change(&mut config);
        let mut drive = small();
        change_drive(&mut drive);
        let drive = Drive::new(drive).expect("a drive");
        let subsystem = Subsystem::new(config, drive, store).expect("a subsystem");
        World {
            subsystem,
            now: Time::ZERO,
            replies: VecDeque::new(),
            closed: vec![],
            asked: vec![],
            queries: Vec::new(),
            source: 0,
            next_id: 0,
        }
    }

    pub(crate) fn clock(&self) -> Now {
        Now { wall: self.now, model: self.now }
    }

    pub(crate) fn attach(&mut self) -> Queue {
        self.attach_proved(None)
    }

    /// A connection whose peer has proved to the transport that it is this host.
    pub(crate) fn attach_proved(&mut self, host: Option<&str>) -> Queue {
        let source = self.source;
        self.attach_as(Transport { host_nqn: host.map(str::to_owned), source, ..tcp() })
    }

    /// A connection of this kind.
    pub(crate) fn attach_as(&mut self, transport: Transport) -> Queue {
        self.subsystem.attach(self.clock(), transport)
    }

    /// Submits a command; returns its identifier.
    pub(crate) fn submit(&mut self, queue: Queue, mut entry: SubmissionEntry, data: &[u8]) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        entry.command_id.set(self.next_id);
        self.subsystem.submit(self.clock(), queue, &entry, data);
        self.next_id
    }

    /// Takes what the subsystem has to say.
    pub(crate) fn take(&mut self) {
        while let Some(output) = self.subsystem.poll() {
            match output {
                Output::Completion(mut reply) => {
                    let mut data = vec![0; reply.data.bytes()];
                    self.subsystem.fill(&mut reply, &mut data);
                    reply.data = CompletionData::None;
                    self.replies.push_back((reply, data));
                }
                Output::Close { queue, reason } => self.closed.push((queue, reason)),
                Output::Authentication(asked) => self.asked.push(asked),
                Output::Query(query) => self.queries.push(*query),
            }
        }
    }

    /// Lets time pass, event by event.
    pub(crate) fn wait(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            self.take();
            let next = self.subsystem.next_at();
            let next = [next.wall, next.model].into_iter().flatten().min();
            match next.filter(|&at| at < until) {
                Some(at) => self.now = self.now.max(at),
                None => self.now = until,
            }
            let clock = self.clock();
            self.subsystem.advance(clock);
            if self.now == until {
                self.take();
                return;
            }
        }
    }

    /// Every reply that nobody has asked for.
    pub(crate) fn all_replies(&mut self) -> Vec<((Queue, u16), Completion)> {
        self.take();
        let replies = std::mem::take(&mut self.replies).into_iter();
        replies.map(|(reply, _)| ((reply.queue, reply.entry.command_id.get()), reply)).collect()
    }

    /// The reply to a command, if there is one already.
    pub(crate) fn reply_now(&mut self, queue: Queue, id: u16) -> Option<(Completion, Vec<u8>)> {
        self.take();
        let at = self
            .replies
            .iter()
            .position(|(reply, _)| reply.queue == queue && reply.entry.command_id.get() == id)?;
        self.replies.remove(at)
    }

    /// The reply to a command, waiting for it.
    pub(crate) fn reply(&mut self, queue: Queue, id: u16) -> (Completion, Vec<u8>) {
        for _ in 0..1_000_000 {
            if let Some(reply) = self.reply_now(queue, id) {
                return reply;
            }
            let next = self.subsystem.next_at();
            let next = [next.wall, next.model].into_iter().flatten().min();
            self.now = next.expect("something will happen").max(self.now);
            let clock = self.clock();
            self.subsystem.advance(clock);
        }
        panic!("no reply to command {id}");
    }

    /// Submits and waits.
    pub(crate) fn call(
        &mut self,
        queue: Queue,
        entry: SubmissionEntry,
        data: &[u8],
    ) -> (CompletionEntry, Vec<u8>) {
        let id = self.submit(queue, entry, data);
        let (reply, data) = self.reply(queue, id);
        (reply.entry, data)
    }

    /// Submits and waits; only the status is of interest.
    pub(crate) fn status(&mut self, queue: Queue, entry: SubmissionEntry, data: &[u8]) -> Status {
        plain(self.call(queue, entry, data).0.status())
    }

    /// Connects a queue as `host`; returns the completion.
    pub(crate) fn connect_as(
        &mut self,
        queue: Queue,
        host: &str,
        subsystem: &str,
        connect: Connect,
        controller: u16,
    ) -> CompletionEntry {
        let mut entry = SubmissionEntry::default();
        connect.put(&mut entry);
        let data = connect_data(host, subsystem, controller);
        self.call(queue, entry, data.as_bytes()).0
    }

    /// Connects, enables, and returns the admin queue and the controller's identifier.
    pub(crate) fn admin_as(&mut self, host: &str, subsystem: &str) -> (Queue, u16) {
        let queue = self.attach();
        let reply = self.connect_as(queue, host, subsystem, connect(0, 32), 0xffff);
        assert!(reply.status().is_success(), "{:?}", reply.status());
        let id = reply.result.get() as u16;
        let reply = self.call(queue, property_set(offset::CC, 0x0046_0001), &[]).0;
        assert!(reply.status().is_success());
        (queue, id)
    }

    pub(crate) fn admin(&mut self) -> (Queue, u16) {
        self.admin_as(HOST, SUBSYSTEM)
    }

    /// An I/O queue of a controller.
    pub(crate) fn io_queue_as(&mut self, host: &str, controller: u16, queue_id: u16) -> Queue {
        let queue = self.attach();
        let reply = self.connect_as(queue, host, SUBSYSTEM, connect(queue_id, 128), controller);
        assert!(reply.status().is_success(), "{:?}", reply.status());
        queue
    }

    /// A whole host: admin queue, one I/O queue, controller identifier.
    pub(crate) fn host(&mut self) -> (Queue, Queue, u16) {
        let (admin, id) = self.admin();
        let io = self.io_queue_as(HOST, id, 1);
        (admin, io, id)
    }

    pub(crate) fn host_as(&mut self, host: &str) -> (Queue, Queue, u16) {
        let (admin, id) = self.admin_as(host, SUBSYSTEM);
        let io = self.io_queue_as(host, id, 1);
        (admin, io, id)
    }

    pub(crate) fn identify(&mut self, admin: Queue, cns: u8, namespace: u32) -> Vec<u8> {
        let (reply, data) = self.call(admin, identify(cns, namespace), &[]);
        assert!(reply.status().is_success(), "cns {cns:#x}: {:?}", reply.status());
        data
    }

    pub(crate) fn log(&mut self, admin: Queue, page: u8, bytes: u32) -> Vec<u8> {
        let (reply, data) = self.call(admin, log_page(page, bytes, 0), &[]);
        assert!(reply.status().is_success(), "log {page:#x}: {:?}", reply.status());
        data
    }
}

/// A status without its hints.
pub(crate) fn plain(status: Status) -> Status {
    Status::new(status.code_type(), status.code())
}

/// A host identifier made of a name.
pub(crate) fn host_id(host: &str) -> [u8; 16] {
    let mut id = [0; 16];
    for (at, byte) in host.bytes().enumerate() {
        id[at % 16] ^= byte.rotate_left(at as u32 / 16);
    }
    id
}

pub(crate) fn connect(queue_id: u16, entries: u16) -> Connect {
    Connect {
        record_format: 0,
        queue_id,
        queue_size: entries - 1,
        attributes: CONNECT_NO_FLOW_CONTROL,
        keep_alive_ms: 0,
    }
}

pub(crate) fn connect_data(host: &str, subsystem: &str, controller: u16) -> ConnectData {
    let mut data = ConnectData { host_id: host_id(host), ..Default::default() };
    data.controller_id.set(controller);
    data.subsystem_nqn = nqn_field(subsystem).expect("a name");
    data.host_nqn = nqn_field(host).expect("a name");
    data
}

pub(crate) fn fabrics_entry(kind: u8) -> SubmissionEntry {
    let mut entry = SubmissionEntry { opcode: FABRICS, flags: 0x40, ..Default::default() };
    entry.namespace_id.set(u32::from(kind));
    entry.data.length.set(u32::MAX);
    entry
}

pub(crate) fn property_set(offset: u32, value: u32) -> SubmissionEntry {
    let mut entry = fabrics_entry(fabrics::PROPERTY_SET);
    entry.dword11.set(offset);
    entry.dword12.set(value);
    entry
}

pub(crate) fn property_get(offset: u32, bytes: u32) -> SubmissionEntry {
    let mut entry = fabrics_entry(fabrics::PROPERTY_GET);
    entry.dword10.set(u32::from(bytes == 8));
    entry.dword11.set(offset);
    entry
}

/// A reservation command for namespace 1.
pub(crate) fn reserve(opcode: u8, dword10: u32) -> SubmissionEntry {
    let mut entry = entry(opcode, 1);
    entry.dword10.set(dword10);
    entry
}

/// The data of a reservation command: two keys.
pub(crate) fn keys(first: u64, second: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

/// An entry with room for all data.
pub(crate) fn entry(opcode: u8, namespace: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry { opcode, flags: 0x40, ..Default::default() };
    entry.namespace_id.set(namespace);
    entry.data.length.set(u32::MAX);
    entry
}

pub(crate) fn identify(cns: u8, namespace: u32) -> SubmissionEntry {
    let mut entry = entry(admin::IDENTIFY, namespace);
    entry.dword10.set(u32::from(cns));
    entry
}

pub(crate) fn log_page(page: u8, bytes: u32, offset: u64) -> SubmissionEntry {
    let mut entry = entry(admin::GET_LOG_PAGE, 0);
    let dwords = bytes / 4 - 1;
    entry.dword10.set(u32::from(page) | (dwords & 0xffff) << 16);
    entry.dword11.set(dwords >> 16);
    entry.dword12.set(offset as u32);
    entry.dword13.set((offset >> 32) as u32);
    entry
}

pub(crate) fn get_feature(feature: u8, select: u8, dword11: u32) -> SubmissionEntry {
    let mut entry = entry(admin::GET_FEATURES, 0);
    entry.dword10.set(u32::from(feature) | u32::from(select) << 8);
    entry.dword11.set(dword11);
    entry
}

pub(crate) fn set_feature(feature: u8, dword11: u32) -> SubmissionEntry {
    let mut entry = entry(admin::SET_FEATURES, 0);
    entry.dword10.set(u32::from(feature));
    entry.dword11.set(dword11);
    entry
}

pub(crate) fn blocks(opcode: u8, namespace: u32, start: u64, blocks: u32) -> SubmissionEntry {
    let mut entry = entry(opcode, namespace);
    entry.dword10.set(start as u32);
    entry.dword11.set((start >> 32) as u32);
    entry.dword12.set(blocks - 1);
    entry
}

pub(crate) fn read(start: u64, count: u32) -> SubmissionEntry {
    blocks(nvm::READ, 1, start, count)
}

pub(crate) fn write(start: u64, count: u32) -> SubmissionEntry {
    blocks(nvm::WRITE, 1, start, count)
}

/// Bytes that depend on a seed.
pub(crate) fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

pub(crate) fn write_zeroes(start: u64, count: u32, deallocate: bool) -> SubmissionEntry {
    let mut entry = blocks(nvm::WRITE_ZEROES, 1, start, count);
    entry.dword12.set(entry.dword12.get() | u32::from(deallocate) << 25);
    entry
}

/// Dataset Management that deallocates one range, and its data.
pub(crate) fn deallocate(start: u64, count: u32) -> (SubmissionEntry, [u8; 16]) {
    let mut entry = entry(nvm::DATASET_MANAGEMENT, 1);
    entry.dword11.set(4);
    let mut range = [0; 16];
    range[4..8].copy_from_slice(&count.to_le_bytes());
    range[8..].copy_from_slice(&start.to_le_bytes());
    (entry, range)
}

/// Copy of one range, and its data.
pub(crate) fn copy(from: u64, to: u64, count: u32) -> (SubmissionEntry, CopyRange) {
    let mut entry = blocks(nvm::COPY, 1, to, 1);
    entry.dword12.set(0);
    let mut range = CopyRange::default();
    range.start.set(from);
    range.blocks.set(count as u16 - 1);
    (entry, range)
}

/// What a namespace has to be: an array of blocks. The drive maps 4 KiB.
pub(crate) struct Array {
    size: usize,
    pub(crate) blocks: Vec<Vec<u8>>,
}

impl Array {
    pub(crate) fn new(size: usize, blocks: u64) -> Array {
        Array { size, blocks: vec![vec![0; size]; blocks as usize] }
    }

    pub(crate) fn read(&self, start: u64, count: u32) -> Vec<u8> {
        self.blocks[start as usize..][..count as usize].concat()
    }

    pub(crate) fn write(&mut self, start: u64, data: &[u8]) {
        for (block, bytes) in self.blocks[start as usize..].iter_mut().zip(data.chunks(self.size)) {
            block.copy_from_slice(bytes);
        }
    }

    pub(crate) fn zero(&mut self, blocks: std::ops::Range<u64>) {
        blocks.for_each(|at| self.blocks[at as usize].fill(0));
    }

    /// Only whole mapping units are deallocated.
    pub(crate) fn deallocate(&mut self, start: u64, count: u32) {
        let per_unit = 4096 / self.size as u64;
        let from = start.next_multiple_of(per_unit);
        let to = (start + u64::from(count)) / per_unit * per_unit;
        self.zero(from..to.max(from));
    }

    pub(crate) fn copy(&mut self, from: u64, to: u64, count: u32) {
        let source = self.read(from, count);
        self.write(to, &source);
    }
}
