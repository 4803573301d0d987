//! A controller behind a function: from enabling it to shutting it down.

use super::queue::{Doorbell, Ring};
use super::{Device, PAGE_BYTES, Queue, VfioUserOptions};
use crate::clock::{Clock, Rate};
use crate::host::controller::{features, read, text, transfer_bytes_max};
use crate::host::transport::{Facts, Remote, Source};
use crate::host::{HostError, admin};
use crate::initiator::enabling_configuration;
use crate::shared::Shared;
use mynah_stamp::Span;
use mynah_wire::nvme::command::Identify;
use mynah_wire::nvme::identify::{IdentifyController, cns};
use mynah_wire::nvme::property::{Capabilities, offset, status};
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry, opcode};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Entries of the admin queues.
const ADMIN_ENTRIES: u16 = 32;
/// Where the admin queues and their data are on the bus; I/O queues are above.
const ADMIN_ADDRESS: u64 = 1 << 32;
/// Address bits that each I/O queue has for itself.
const QUEUE_ADDRESS_BITS: u32 = 40;
/// The admin queues' memory: submission queue, completion queue, data, a page each.
const ADMIN_PAGES: u64 = 3;
/// Most bytes that a command moves here: the longest value of a key-value namespace.
const TRANSFER_BYTES_MAX: u64 = 32 << 20;
/// How long a controller that shuts down is waited for.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(2);
/// Looks for an answer at once, before it is waited for in the system.
const SPINS: u32 = 1_000;
const PAUSE: Duration = Duration::from_micros(50);

/// The function and its admin queue.
pub(super) struct Admin {
    device: Device,
    ring: Ring,
    memory: Shared,
    timeout: Duration,
    next_id: u16,
}

/// As several threads use it.
pub(super) type SharedAdmin = Arc<Mutex<Admin>>;

/// Locks the admin queue. Whoever left it in disorder has failed, and so will the controller.
fn lock(admin: &SharedAdmin) -> MutexGuard<'_, Admin> {
    admin.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admin {
    fn register(&mut self, offset: u32) -> Result<u32, HostError> {
        let mut value = [0; 4];
        self.device.read(0, offset.into(), &mut value)?;
        Ok(u32::from_le_bytes(value))
    }

    fn register_64(&mut self, offset: u32) -> Result<u64, HostError> {
        let mut value = [0; 8];
        self.device.read(0, offset.into(), &mut value)?;
        Ok(u64::from_le_bytes(value))
    }

    fn set_register(&mut self, offset: u32, value: u32) -> Result<(), HostError> {
        self.device.write(0, offset.into(), &value.to_le_bytes())
    }

    fn wait_status(
        &mut self,
        mask: u32,
        wanted: u32,
        patience: Duration,
    ) -> Result<bool, HostError> {
        let clock = Clock::start(Rate::REAL);
        loop {
            let found = self.register(offset::CSTS)?;
            if found & mask == wanted {
                return Ok(true);
            }
            if found & status::FATAL != 0 && mask != status::READY {
                return Err(HostError::Unusable("the controller has a fatal status".into()));
            }
            if passed(&clock) > patience {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Writes a doorbell by a message.
    pub(super) fn ring_doorbell(&mut self, index: usize, value: u32) -> Result<(), HostError> {
        let offset = super::device::DOORBELLS + index as u64 * 4;
        self.device.write(0, offset, &value.to_le_bytes())
    }

    /// Does one command. `data` is written before and read after it, as far as there is any.
    fn command(
        &mut self,
        entry: &SubmissionEntry,
        data: &mut [u8],
        what: &'static str,
    ) -> Result<CompletionEntry, HostError> {
        let data_at = (2 * PAGE_BYTES) as usize;
        self.memory.write(data_at, data);
        let mut entry = *entry;
        self.next_id = self.next_id.wrapping_add(1) & 0x7fff;
        entry.command_id.set(self.next_id);
        if !data.is_empty() {
            entry.data.address.set(ADMIN_ADDRESS + 2 * PAGE_BYTES);
        }
        self.ring.push(&self.memory, &entry);
        if let Some((index, value)) = self.ring.ring_submission() {
            self.ring_doorbell(index, value)?;
        }
        let clock = Clock::start(Rate::REAL);
        let mut looks = 0;
        let completion = loop {
            if let Some(completion) = self.ring.pop(&self.memory) {
                break completion;
            }
            looks += 1;
            if looks > SPINS {
                self.device.check()?;
                if passed(&clock) > self.timeout {
                    return Err(HostError::Timeout { what, seconds: self.timeout.as_secs() });
                }
                std::thread::sleep(PAUSE);
            }
        };
        if let Some((index, value)) = self.ring.ring_completion() {
            self.ring_doorbell(index, value)?;
        }
        if completion.command_id != entry.command_id {
            return Err(HostError::Nonsense("it answered what nobody asked".to_owned()));
        }
        if !completion.status().is_success() {
            return Err(HostError::Refused { what, status: completion.status() });
        }
        self.memory.read(data_at, data);
        Ok(completion)
    }

    fn identify(
        &mut self,
        what: &Identify,
        namespace: u32,
        name: &'static str,
    ) -> Result<Vec<u8>, HostError> {
        let mut data = vec![0; PAGE_BYTES as usize];
        self.command(&admin::identify(what, namespace), &mut data, name)?;
        Ok(data)
    }

    /// Creates a completion queue and a submission queue with the same number, in memory that the
    /// function can use already.
    fn create_queues(
        &mut self,
        id: u16,
        entries: u16,
        submission: u64,
        completion: u64,
        vector: Option<u16>,
    ) -> Result<(), HostError> {
        let size = u32::from(entries - 1) << 16 | u32::from(id);
        let mut entry = SubmissionEntry {
            opcode: opcode::admin::CREATE_COMPLETION_QUEUE,
            ..Default::default()
        };
        entry.data.address.set(completion);
        entry.dword10.set(size);
        // Physically contiguous (0), with interrupts (1), their vector (31:16).
        let interrupts = vector.map_or(0, |vector| u32::from(vector) << 16 | 2);
        entry.dword11.set(interrupts | 1);
        self.command(&entry, &mut [], "creating a completion queue")?;
        let mut entry = SubmissionEntry {
            opcode: opcode::admin::CREATE_SUBMISSION_QUEUE,
            ..Default::default()
        };
        entry.data.address.set(submission);
        entry.dword10.set(size);
        entry.dword11.set(u32::from(id) << 16 | 1);
        self.command(&entry, &mut [], "creating a submission queue")?;
        Ok(())
    }
}

/// A controller that is enabled.
pub(in crate::host) struct Controller {
    admin: SharedAdmin,
    identity: Box<IdentifyController>,
    capabilities: u64,
    interrupts: bool,
}

/// What I/O queues are made from.
pub(in crate::host) struct Queues {
    admin: SharedAdmin,
    facts: Facts,
    stride: usize,
    interrupts: bool,
}

impl Source for Queues {
    type Queue = Queue;

    fn facts(&self) -> Facts {
        self.facts
    }

    fn open_queue(&self, id: u16, entries: u16, bytes_max: usize) -> Result<Queue, HostError> {
        let mut admin = lock(&self.admin);
        let layout = super::queue::Layout::new(entries, bytes_max, address(id));
        let what = "memory for a queue";
        let (memory, file) = Shared::create("mynah-bench-queue", layout.bytes)
            .map_err(|error| HostError::Device { what, error })?;
        admin.device.map(layout.address, layout.bytes, file.as_fd())?;
        let event = match self.interrupts {
            true => {
                let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
                let event =
                    event.map_err(|error| HostError::Device { what, error: error.into() })?;
                let vector = u32::from(id) % admin.device.vectors().max(1);
                admin.device.signal(vector, event.as_fd())?;
                Some((event, vector as u16))
            }
            false => None,
        };
        let vector = event.as_ref().map(|(_, vector)| *vector);
        let (submission, completion) = (layout.submission_address(), layout.completion_address());
        admin.create_queues(id, entries, submission, completion, vector)?;
        let doorbell = match admin.device.doorbells() {
            Some((words, first)) => Doorbell::Mapped { words, first },
            None => Doorbell::Messages,
        };
        let ring = Ring::new(id, entries, &layout, doorbell, self.stride);
        drop(admin);
        let event = event.map(|(event, _)| event);
        Ok(Queue::new(layout, memory, ring, event, Arc::clone(&self.admin)))
    }
}

/// Where the memory of an I/O queue is on the bus.
fn address(id: u16) -> u64 {
    u64::from(id) << QUEUE_ADDRESS_BITS
}

impl Drop for Controller {
    /// Queues still hold the connection; the device serves nobody else before it has ended.
    fn drop(&mut self) {
        lock(&self.admin).device.hang_up();
    }
}

impl Controller {
    /// Does a command whose answer has so many bytes, up to a page.
    ///
    /// # Errors
    /// If it fails.
    pub(in crate::host) fn ask(
        &mut self,
        entry: &SubmissionEntry,
        bytes: usize,
        what: &'static str,
    ) -> Result<(u64, Vec<u8>), HostError> {
        let mut data = vec![0; bytes.min(PAGE_BYTES as usize)];
        let answer = lock(&self.admin).command(entry, &mut data, what)?;
        Ok((answer.result.get(), data))
    }
}

impl Remote for Controller {
    type Options = VfioUserOptions;
    type Source = Queues;

    fn connect(options: &VfioUserOptions) -> Result<Controller, HostError> {
        let mut device = Device::connect(options)?;
        let bytes = ADMIN_PAGES * PAGE_BYTES;
        let (memory, file) = Shared::create("mynah-bench-admin", bytes)
            .map_err(|error| HostError::Device { what: "memory", error })?;
        device.map(ADMIN_ADDRESS, bytes, file.as_fd())?;
        let mut capabilities = [0; 8];
        device.read(0, offset::CAP.into(), &mut capabilities)?;
        let capabilities = u64::from_le_bytes(capabilities);
        let doorbell = match device.doorbells() {
            Some((words, first)) => Doorbell::Mapped { words, first },
            None => Doorbell::Messages,
        };
        let layout = super::queue::Layout::of_admin(ADMIN_ADDRESS);
        let ring = Ring::new(0, ADMIN_ENTRIES, &layout, doorbell, stride(capabilities));
        let timeout = options.timeout;
        let mut admin = Admin { device, ring, memory, timeout, next_id: 0 };
        // The time to become ready, or not, is in units of 500 ms (CAP.TO).
        let patience = Duration::from_millis(500 * (capabilities >> 24 & 0xff).max(1));
        let late = |what| HostError::Timeout { what, seconds: patience.as_secs() };
        admin.set_register(offset::CC, 0)?;
        if !admin.wait_status(status::READY, 0, patience)? {
            return Err(late("that the controller is to stop"));
        }
        let size = u32::from(ADMIN_ENTRIES - 1);
        admin.set_register(offset::AQA, size | size << 16)?;
        for (register, address) in
            [(offset::ASQ, layout.submission_address()), (offset::ACQ, layout.completion_address())]
        {
            admin.device.write(0, register.into(), &address.to_le_bytes())?;
        }
        admin.set_register(offset::CC, enabling_configuration(capabilities))?;
        let ready = status::READY | status::FATAL;
        if !admin.wait_status(ready, status::READY, patience)? {
            return Err(late("that the controller is to become ready"));
        }
        debug_assert_eq!(admin.register_64(offset::CAP)?, capabilities);
        let what = Identify { structure: cns::CONTROLLER, ..Identify::default() };
        let bytes = admin.identify(&what, 0, "identifying the controller")?;
        Ok(Controller {
            admin: Arc::new(Mutex::new(admin)),
            identity: Box::new(read(&bytes)),
            capabilities,
            interrupts: options.interrupts,
        })
    }

    fn model(&self) -> String {
        text(&self.identity.model)
    }

    fn identify(
        &mut self,
        what: &Identify,
        namespace: u32,
        name: &'static str,
    ) -> Result<Vec<u8>, HostError> {
        lock(&self.admin).identify(what, namespace, name)
    }

    fn request_queues(&mut self, count: u16) -> Result<(), HostError> {
        let entry = admin::number_of_queues(count);
        let answer = lock(&self.admin).command(&entry, &mut [], "asking for I/O queues")?;
        crate::host::controller::check_queues(answer.result.get(), count)
    }

    fn source(&self) -> Queues {
        let page_shift = 12 + (self.capabilities >> 48 & 0xf) as u32;
        let most = transfer_bytes_max(&self.identity, page_shift);
        let facts = Facts {
            queue_entries_max: Capabilities::queue_entries(self.capabilities),
            transfer_bytes_max: most.min(TRANSFER_BYTES_MAX),
            transition: Span::from_secs(self.identity.ana_transition_time.into()),
            controller_id: self.identity.controller_id.get(),
            features: features(&self.identity),
        };
        Queues {
            admin: Arc::clone(&self.admin),
            facts,
            stride: stride(self.capabilities),
            interrupts: self.interrupts,
        }
    }

    fn check(&mut self) -> Result<(), HostError> {
        lock(&self.admin).device.check()
    }

    /// Nobody has to: a socket that is there says as much.
    fn keep_alive(&mut self) -> Result<(), HostError> {
        self.check()
    }

    fn keep_alive_time(_options: &VfioUserOptions) -> Duration {
        Duration::ZERO
    }

    fn timeout(options: &VfioUserOptions) -> Duration {
        options.timeout
    }

    fn shutdown(self) -> Result<(), HostError> {
        let mut admin = lock(&self.admin);
        let configuration = admin.register(offset::CC)?;
        admin.set_register(offset::CC, configuration | 1 << 14)?;
        admin.wait_status(3 << 2, status::SHUTDOWN_COMPLETE, SHUTDOWN_PATIENCE).map(|_| ())
    }
}

/// Words from one doorbell to the next (CAP.DSTRD).
fn stride(capabilities: u64) -> usize {
    1 << (capabilities >> 32 & 0xf)
}

fn passed(clock: &Clock) -> Duration {
    Duration::from_nanos(clock.wall().as_ps() / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Rate;
    use crate::host::transport::{Data, IoQueue};
    use crate::lockstep::GuestClock;
    use crate::server::{ServeOptions, Server, Speed};
    use mynah_guest_protocol::{Counts, Message};
    use mynah_lab::emulation::Emulation;
    use mynah_result::Run;
    use mynah_wire::nvme::opcode::nvm;
    use mynah_wire::tcp::host::{Movement, Payload};
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::io::{Read, Write};
    use std::sync::atomic::Ordering;

    struct Nothing;

    impl Payload for Nothing {
        fn fill(&mut self, _slot: u16, _offset: u32, into: &mut [u8]) {
            into.fill(7);
        }

        fn place(&mut self, _slot: u16, _offset: u32, _from: &[u8]) {}
    }

    impl Data for Nothing {
        fn is_particular(&self, _slot: u16) -> bool {
            true
        }

        fn is_looked_at(&self) -> bool {
            false
        }
    }

    /// Memory that a command still moves data to is given back when the command has ended, and
    /// not before; registers answer meanwhile.
    #[test]
    fn memory_in_use_is_given_back_when_its_command_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let vfio_user = vec![folder.path().join("drive")];
        let options = VfioUserOptions {
            folder: vfio_user[0].clone(),
            interrupts: false,
            timeout: Duration::from_secs(60),
        };
        // A read of some 60 us takes some 600 ms.
        let speed = Speed::Modelled(Rate::new(1e-4).unwrap());
        let serve = ServeOptions { tcp: Vec::new(), vfio_user, speed, ..ServeOptions::default() };
        let (sender, receiver) = std::sync::mpsc::channel();
        let drive = std::thread::spawn(move || {
            let overrides = ["geometry.blocks_per_plane=48", "over_provisioning=20%"];
            let prepared = Emulation::on("enterprise-tlc", &overrides.map(str::to_owned)).unwrap();
            let server = Server::new(prepared.prepare().unwrap(), serve).unwrap();
            sender.send(server.control()).unwrap();
            server.run().unwrap();
        });
        let control = receiver.recv().unwrap();
        let mut controller = Controller::connect(&options).unwrap();
        controller.request_queues(1).unwrap();
        let source = controller.source();
        let mut queue = source.open_queue(1, 16, 4096).unwrap();
        let mut entry = SubmissionEntry { opcode: nvm::READ, ..SubmissionEntry::default() };
        entry.namespace_id.set(1);
        entry.dword12.set(7);
        let slot = queue.submit(&entry, Movement::ToHost(4096), &mut Nothing).unwrap();
        queue.send(&mut Nothing).unwrap();
        let layout = super::super::queue::Layout::new(16, 4096, address(1));
        // The command has to be under way before its memory is asked for.
        std::thread::sleep(Duration::from_millis(100));
        let mut admin = lock(&source.admin);
        let id = admin.device.take_back(layout.address, layout.bytes);
        let mut looks = 0;
        loop {
            let (status, given_back) = admin.device.register_and(offset::CSTS.into(), id);
            assert_eq!(status, status::READY);
            if given_back {
                break;
            }
            looks += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(looks > 0, "it was given back while it was in use");
        drop(admin);
        // The completion is there although the queue's own memory went with it.
        assert!(queue.receive().unwrap());
        let completed = queue.poll(&mut Nothing).unwrap().unwrap();
        assert_eq!(completed.slot, slot);
        assert!(completed.entry.status().is_success(), "{:?}", completed.entry.status());
        control.stop();
        drive.join().unwrap();
    }

    /// The clock of a guest that runs as far as it may, or, while it is frozen, executes 25 instructions
    /// for each of its accesses and no others.
    fn play_clock(
        path: &std::path::Path,
        frozen: &std::sync::atomic::AtomicBool,
        welcome: &std::sync::mpsc::Sender<()>,
    ) {
        let mut socket = std::os::unix::net::UnixStream::connect(path).unwrap();
        let mut executed = 0;
        let counts = |executed| Counts {
            current: 0,
            processors: vec![mynah_guest_protocol::Processor { executed, idle: 0 }],
        };
        let hello = Message::Hello { version: mynah_guest_protocol::VERSION, processors: 1 };
        socket.write_all(&hello.to_bytes()).unwrap();
        let (mut inbox, mut buffer) = (mynah_guest_protocol::Inbox::default(), [0; 256]);
        loop {
            while let Some(message) = inbox.next().unwrap() {
                match message {
                    Message::Ask => {
                        executed += 25;
                        socket.write_all(&Message::Time(counts(executed)).to_bytes()).unwrap();
                    }
                    Message::Run(limit) if !frozen.load(Ordering::Acquire) => executed = limit,
                    Message::Run(_) => continue,
                    Message::Welcome { .. } => welcome.send(()).unwrap(),
                    _ => return,
                }
                let reached = Message::Reached(counts(executed));
                if socket.write_all(&reached.to_bytes()).is_err() {
                    return;
                }
            }
            match socket.read(&mut buffer) {
                Ok(bytes) if bytes > 0 => inbox.received(&buffer[..bytes]),
                _ => return,
            }
        }
    }

    /// In lock-step no time passes while a guest waits for its memory, so that the drive has to go on
    /// alone until the command that uses it has ended; then the guest's clock catches up.
    #[test]
    fn in_lock_step_memory_in_use_is_given_back_though_the_guest_stands_still() {
        let folder = tempfile::tempdir().unwrap();
        let options = VfioUserOptions {
            folder: folder.path().join("drive"),
            interrupts: false,
            timeout: Duration::from_secs(60),
        };
        let clock = GuestClock { quantum: GuestClock::QUANTUM, socket: None };
        let serve = ServeOptions {
            tcp: Vec::new(),
            vfio_user: vec![options.folder.clone()],
            guest_clock: Some(clock.clone()),
            ..ServeOptions::default()
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let drive = std::thread::spawn(move || {
            let overrides = ["geometry.blocks_per_plane=48", "over_provisioning=20%"];
            let prepared = Emulation::on("enterprise-tlc", &overrides.map(str::to_owned)).unwrap();
            let server = Server::new(prepared.prepare().unwrap(), serve).unwrap();
            sender.send(server.control()).unwrap();
            server.run().unwrap()
        });
        let control = receiver.recv().unwrap();
        let frozen = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (welcome, welcomed) = std::sync::mpsc::channel();
            let (path, frozen) = (clock.path(&options.folder), &frozen);
            scope.spawn(move || play_clock(&path, frozen, &welcome));
            welcomed.recv().unwrap();
            let mut controller = Controller::connect(&options).unwrap();
            controller.request_queues(1).unwrap();
            let source = controller.source();
            let mut queue = source.open_queue(1, 16, 4096).unwrap();
            frozen.store(true, Ordering::Release);
            let mut entry = SubmissionEntry { opcode: nvm::READ, ..SubmissionEntry::default() };
            entry.namespace_id.set(1);
            entry.dword12.set(7);
            let slot = queue.submit(&entry, Movement::ToHost(4096), &mut Nothing).unwrap();
            queue.send(&mut Nothing).unwrap();
            let layout = super::super::queue::Layout::new(16, 4096, address(1));
            let mut admin = lock(&source.admin);
            // A read takes some 60 us, and each look at a register is 100 ns of the guest's time.
            let (status, _) = admin.device.register_and(offset::CSTS.into(), 0);
            assert_eq!(status, status::READY);
            let id = admin.device.take_back(layout.address, layout.bytes);
            let (_, given_back) = admin.device.register_and(offset::CSTS.into(), id);
            assert!(given_back, "the guest waits for a command that waits for the guest");
            drop(admin);
            assert!(queue.receive().unwrap());
            let completed = queue.poll(&mut Nothing).unwrap().unwrap();
            assert_eq!(completed.slot, slot);
            assert!(completed.entry.status().is_success(), "{:?}", completed.entry.status());
            frozen.store(false, Ordering::Release);
            control.stop();
            let result = drive.join().unwrap().result(Run {
                version: String::new(),
                command: String::new(),
                wall_s: 0.0,
                cpu_s: 0.0,
                setup_cpu_s: 0.0,
                max_rss_bytes: 0,
            });
            assert_eq!((result.requests, result.failures), (1, Vec::new()));
        });
    }

    /// Two guests of one drive. One cuts the file of its memory while a command waits there: it is
    /// sent away with a message, and the other never notices.
    #[test]
    fn a_guest_that_takes_its_memory_away_ends_nobody_else() {
        let top = tempfile::tempdir().unwrap();
        let folders = ["good", "bad"].map(|name| top.path().join(name));
        let serve = ServeOptions {
            tcp: Vec::new(),
            vfio_user: folders.to_vec(),
            speed: Speed::Max,
            ..ServeOptions::default()
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let (complaints, complained) = std::sync::mpsc::channel();
        let drive = std::thread::spawn(move || {
            let overrides = ["geometry.blocks_per_plane=48", "over_provisioning=20%"];
            let prepared = Emulation::on("enterprise-tlc", &overrides.map(str::to_owned)).unwrap();
            let mut server = Server::new(prepared.prepare().unwrap(), serve).unwrap();
            server.on_complaint(Box::new(move |text| complaints.send(text.to_owned()).unwrap()));
            sender.send(server.control()).unwrap();
            server.run().unwrap();
        });
        let control = receiver.recv().unwrap();
        let connect = |folder: &std::path::Path| {
            let timeout = Duration::from_secs(60);
            let options = VfioUserOptions { folder: folder.into(), interrupts: false, timeout };
            let mut controller = Controller::connect(&options).unwrap();
            controller.request_queues(1).unwrap();
            controller
        };
        let (good, bad) = (connect(&folders[0]), connect(&folders[1]));
        let mut good_queue = good.source().open_queue(1, 16, 4096).unwrap();
        let mut entry = SubmissionEntry { opcode: nvm::READ, ..SubmissionEntry::default() };
        entry.namespace_id.set(1);
        entry.dword12.set(7);
        let mut read = || {
            good_queue.submit(&entry, Movement::ToHost(4096), &mut Nothing).unwrap();
            good_queue.send(&mut Nothing).unwrap();
            let completed = loop {
                good_queue.receive().unwrap();
                if let Some(completed) = good_queue.poll(&mut Nothing).unwrap() {
                    break completed;
                }
            };
            assert!(completed.entry.status().is_success(), "{:?}", completed.entry.status());
        };
        read();
        // A queue as `open_queue` makes it, but for a file that can be cut.
        let layout = super::super::queue::Layout::new(16, 4096, address(1));
        let file = memfd_create("cut", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, layout.bytes).unwrap();
        let memory = Shared::map(&file, 0, layout.bytes, true, true).unwrap();
        let mut admin = lock(&bad.admin);
        admin.device.map(layout.address, layout.bytes, file.as_fd()).unwrap();
        let (submission, completion) = (layout.submission_address(), layout.completion_address());
        admin.create_queues(1, 16, submission, completion, None).unwrap();
        let (words, first) = admin.device.doorbells().unwrap();
        let doorbell = Doorbell::Mapped { words, first };
        let ring = Ring::new(1, 16, &layout, doorbell, stride(bad.capabilities));
        drop(admin);
        let mut queue = Queue::new(layout, memory, ring, None, Arc::clone(&bad.admin));
        queue.submit(&entry, Movement::ToHost(4096), &mut Nothing).unwrap();
        ftruncate(&file, 0).unwrap();
        queue.send(&mut Nothing).unwrap();
        let complaint = complained.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(complaint.contains("/bad: the client was sent away: its memory"), "{complaint}");
        let address = format!("{:#x}", address(1));
        assert!(complaint.contains(&address), "{complaint}");
        (0..100).for_each(|_| read());
        let clock = Clock::start(Rate::REAL);
        while lock(&bad.admin).device.check().is_ok() {
            assert!(passed(&clock) < Duration::from_secs(60), "the connection is still there");
        }
        // Its place is free for another, and nothing is wrong with the drive.
        drop((queue, bad));
        drop(connect(&folders[1]));
        read();
        control.stop();
        drive.join().unwrap();
        assert!(complained.try_recv().is_err(), "and nothing else was said");
    }
}
