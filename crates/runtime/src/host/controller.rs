//! A controller, from connecting to it to leaving it.

use super::HostError;
use super::admin::{self, Data, Identity, Queue};
use super::authentication::{self, Credentials};
use super::connection::{self, Connection};
#[cfg(feature = "tls")]
use super::encryption::Encryption;
use super::namespace;
use super::transport::{Completed, Data as Bytes, Facts, Features, IoQueue, Remote, Source};
use crate::clock::{Clock, Rate};
use crate::initiator::enabling_configuration;
use crate::profile::Flight;
use mynah_stamp::{Span, Time};
use mynah_wire::fabrics::{CONTROLLER_ANY, DISCOVERY_NQN};
use mynah_wire::nvme::command::Identify;
use mynah_wire::nvme::identify::{IDENTIFY_BYTES, IdentifyController, cns};
use mynah_wire::nvme::property::{Capabilities, offset, status};
use mynah_wire::nvme::{Status, SubmissionEntry, opcode};
use mynah_wire::tcp::digest::Digests;
use mynah_wire::tcp::host::{ADMIN_IN_CAPSULE_BYTES, COMMANDS_MAX, Event, HostConfig, Movement};
use std::os::fd::OwnedFd;
use std::time::Duration;
use zerocopy::FromBytes;

/// Entries of the admin queue; at least 32 are always supported (NVMe over Fabrics 1.1).
const ADMIN_ENTRIES: u16 = 32;
/// R2Ts that a command may have outstanding: more than targets ask for.
const READY_TO_TRANSFER_MAX: u32 = 16;
/// Where data PDUs have so many bytes they are received to their end before anything is sent.
const LONG_DATA_BYTES: u32 = 8 << 10;
/// How long a controller that shuts down is waited for.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(2);

/// How to connect, and as whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host name or address and port.
    pub address: String,
    pub subsystem_nqn: String,
    pub host_nqn: String,
    /// What the host can prove itself with, if the subsystem asks for it.
    pub credentials: Option<Credentials>,
    /// The key of encrypted connections.
    #[cfg(feature = "tls")]
    pub tls: Option<Encryption>,
    /// The digests of all connections.
    pub digests: Digests,
    /// Keep-alive timeout; zero: none.
    pub keep_alive: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Options {
    /// What a host needs that proves nothing and encrypts nothing: to the subsystem at this address,
    /// with so long a keep-alive timeout, and so much time for answers.
    pub fn plain(
        address: String,
        subsystem_nqn: String,
        keep_alive: Duration,
        timeout: Duration,
    ) -> Options {
        Options {
            address,
            subsystem_nqn,
            host_nqn: super::default_host_nqn(),
            credentials: None,
            #[cfg(feature = "tls")]
            tls: None,
            digests: Digests::default(),
            keep_alive,
            timeout,
        }
    }

    pub(super) fn identity(&self) -> Identity {
        Identity {
            subsystem_nqn: self.subsystem_nqn.clone(),
            host_nqn: self.host_nqn.clone(),
            host_id: super::host_id(&self.host_nqn),
        }
    }

    /// A connection that is ready for its Connect command.
    fn open(&self, entries: u16) -> Result<Connection, HostError> {
        let stream = connection::connect(&self.address, self.timeout)?;
        let config = HostConfig {
            digests: self.digests,
            ready_to_transfer_max: READY_TO_TRANSFER_MAX,
            commands: (entries - 1).clamp(1, COMMANDS_MAX),
            ..HostConfig::default()
        };
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let stream = tls.encrypt(stream, &self.identity())?;
            return Connection::open(Box::new(stream), config, self.timeout);
        }
        Connection::open(Box::new(stream), config, self.timeout)
    }

    /// Proves who this is, if the subsystem wants to know. A host that has the subsystem's
    /// secret goes on only if that has proved itself, too.
    fn authenticate(
        &self,
        connection: &mut Connection,
        identity: &Identity,
        wanted: bool,
    ) -> Result<(), HostError> {
        match &self.credentials {
            Some(credentials) if wanted => {
                authentication::authenticate(connection, identity, credentials, self.timeout)
            }
            // The discovery subsystem holds no data, and has no secrets.
            Some(Credentials { controller: Some(_), .. })
                if identity.subsystem_nqn != DISCOVERY_NQN =>
            {
                Err(HostError::Nonsense(
                    "it does not authenticate, though it is to prove itself".to_owned(),
                ))
            }
            None if wanted => Err(HostError::Refused {
                what: super::CONNECTING,
                status: Status::AUTHENTICATION_REQUIRED.do_not_retry(),
            }),
            _ => Ok(()),
        }
    }
}

/// What I/O queues need to know about the controller they belong to.
#[derive(Clone, Debug)]
pub struct Association {
    options: Options,
    controller_id: u16,
    in_capsule_bytes: u32,
    pub queue_entries_max: u32,
    /// Most bytes that a command moves.
    pub transfer_bytes_max: u64,
    /// Whether what was written is safe only after a flush.
    pub volatile_cache: bool,
    /// How long a change of a namespace's access state may take (ANATT).
    pub transition: Span,
    features: Features,
}

impl Association {
    /// Connects I/O queue `id`, from 1.
    ///
    /// # Errors
    /// If that fails.
    pub fn open_queue(&self, id: u16, entries: u16) -> Result<Connection, HostError> {
        let mut connection = self.options.open(entries)?;
        let queue = Queue { id, entries, controller_id: self.controller_id, keep_alive_ms: 0 };
        let identity = self.options.identity();
        let timeout = self.options.timeout;
        let (_, wanted) = admin::connect(&mut connection, &identity, &queue, timeout)?;
        self.options.authenticate(&mut connection, &identity, wanted)?;
        connection.machine.set_in_capsule_bytes(self.in_capsule_bytes);
        Ok(connection)
    }
}

/// A controller that is connected and enabled.
pub struct Controller {
    connection: Connection,
    options: Options,
    id: u16,
    configuration: u32,
    capabilities: u64,
    identity: Box<IdentifyController>,
}

impl Controller {
    /// Connects to a subsystem, enables the controller it gives and asks what that is.
    ///
    /// # Errors
    /// If any of that fails.
    pub fn connect(options: &Options) -> Result<Controller, HostError> {
        let mut connection = options.open(ADMIN_ENTRIES)?;
        connection.machine.set_in_capsule_bytes(ADMIN_IN_CAPSULE_BYTES);
        let queue = Queue {
            id: 0,
            entries: ADMIN_ENTRIES,
            controller_id: CONTROLLER_ANY,
            keep_alive_ms: u32::try_from(options.keep_alive.as_millis()).unwrap_or(u32::MAX),
        };
        let timeout = options.timeout;
        let identity = options.identity();
        let (id, wanted) = admin::connect(&mut connection, &identity, &queue, timeout)?;
        options.authenticate(&mut connection, &identity, wanted)?;
        let mut controller = Controller {
            connection,
            options: options.clone(),
            id,
            configuration: 0,
            capabilities: 0,
            identity: Box::default(),
        };
        controller.enable()?;
        *controller.identity = controller.identify_controller()?;
        Ok(controller)
    }

    /// What the controller says it is.
    pub fn identity(&self) -> &IdentifyController {
        &self.identity
    }

    pub fn model(&self) -> String {
        text(&self.identity.model)
    }

    fn command(
        &mut self,
        entry: &SubmissionEntry,
        data: Data<'_>,
        what: &'static str,
    ) -> Result<(u64, Vec<u8>), HostError> {
        let timeout = self.options.timeout;
        let (answer, back) = admin::command(&mut self.connection, entry, data, what, timeout)?;
        Ok((answer.result.get(), back))
    }

    /// Does a command whose answer has so many bytes.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn ask(
        &mut self,
        entry: &SubmissionEntry,
        bytes: usize,
        what: &'static str,
    ) -> Result<(u64, Vec<u8>), HostError> {
        let data = if bytes == 0 { Data::None } else { Data::Back(bytes) };
        self.command(entry, data, what)
    }

    /// A property's value (Base 2.0, section 3.1.3).
    fn property(&mut self, offset: u32, wide: bool) -> Result<u64, HostError> {
        let mut entry = admin::fabrics(opcode::fabrics::PROPERTY_GET);
        entry.dword10.set(u32::from(wide));
        entry.dword11.set(offset);
        let (value, _) = self.command(&entry, Data::None, "reading a property")?;
        Ok(if wide { value } else { value & 0xffff_ffff })
    }

    fn set_configuration(&mut self, value: u32) -> Result<(), HostError> {
        let mut entry = admin::fabrics(opcode::fabrics::PROPERTY_SET);
        entry.dword11.set(offset::CC);
        entry.dword12.set(value);
        self.command(&entry, Data::None, "configuring the controller")?;
        self.configuration = value;
        Ok(())
    }

    /// Waits until the status, masked, is `wanted`; false if that does not come about.
    fn wait_status(
        &mut self,
        mask: u32,
        wanted: u32,
        patience: Duration,
    ) -> Result<bool, HostError> {
        let clock = Clock::start(Rate::REAL);
        loop {
            let status = self.property(offset::CSTS, false)? as u32;
            if status & mask == wanted {
                return Ok(true);
            }
            if status & status::FATAL != 0 {
                return Err(HostError::Unusable("the controller has a fatal status".into()));
            }
            if Duration::from_nanos(clock.wall().as_ps() / 1_000) > patience {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn enable(&mut self) -> Result<(), HostError> {
        self.capabilities = self.property(offset::CAP, true)?;
        // The time to become ready is in units of 500 ms (CAP.TO).
        let patience = Duration::from_millis(500 * (self.capabilities >> 24 & 0xff).max(1));
        self.set_configuration(enabling_configuration(self.capabilities))?;
        if !self.wait_status(status::READY, status::READY, patience)? {
            let what = "that the controller is to become ready";
            return Err(HostError::Timeout { what, seconds: patience.as_secs() });
        }
        Ok(())
    }

    fn identify_controller(&mut self) -> Result<IdentifyController, HostError> {
        let what = Identify { structure: cns::CONTROLLER, ..Identify::default() };
        Ok(read(&self.identify(&what, 0, "identifying the controller")?))
    }

    /// The active namespaces, the first 1,024.
    ///
    /// # Errors
    /// If the controller does not say.
    pub fn namespaces(&mut self) -> Result<Vec<u32>, HostError> {
        let what = Identify { structure: cns::ACTIVE_NAMESPACES, ..Identify::default() };
        let bytes = self.identify(&what, 0, "listing the namespaces")?;
        namespace::active(&bytes)
    }

    /// Asks for `count` I/O queues.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn request_queues(&mut self, count: u16) -> Result<(), HostError> {
        let entry = admin::number_of_queues(count);
        let (granted, _) = self.command(&entry, Data::None, "asking for I/O queues")?;
        check_queues(granted, count)
    }

    /// What I/O queues of this controller need to know.
    pub fn association(&self) -> Association {
        let identity = &self.identity;
        // MDTS counts pages of 4 KiB and more (CAP.MPSMIN).
        let page_shift = 12 + (self.capabilities >> 48 & 0xf) as u32;
        let transfer_bytes_max = transfer_bytes_max(identity, page_shift);
        let capsule = u64::from(identity.command_capsule.get()) * 16;
        let in_capsule = match identity.capsule_data_offset.get() {
            0 => capsule.saturating_sub(SubmissionEntry::BYTES as u64),
            _ => 0,
        };
        Association {
            options: self.options.clone(),
            controller_id: self.id,
            in_capsule_bytes: u32::try_from(in_capsule).unwrap_or(u32::MAX),
            queue_entries_max: Capabilities::queue_entries(self.capabilities),
            transfer_bytes_max,
            volatile_cache: identity.volatile_write_cache & 1 != 0,
            transition: Span::from_secs(identity.ana_transition_time.into()),
            features: features(identity),
        }
    }

    /// Tells the controller that its host is alive.
    ///
    /// # Errors
    /// If the controller does not answer.
    pub fn keep_alive(&mut self) -> Result<(), HostError> {
        let entry = SubmissionEntry { opcode: opcode::admin::KEEP_ALIVE, ..Default::default() };
        self.command(&entry, Data::None, "keep alive").map(|_| ())
    }

    /// Whether the connection is still there, without asking the controller.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(&mut self) -> Result<(), HostError> {
        while self.connection.receive()? {
            let event = self.connection.poll(&mut connection::NoData)?;
            if event.is_some() {
                return Err(HostError::Nonsense("it answered what nobody asked".into()));
            }
        }
        Ok(())
    }

    /// Reads `bytes` of a log page, beginning at offset `from`.
    pub(super) fn log(&mut self, page: u8, from: u64, bytes: usize) -> Result<Vec<u8>, HostError> {
        let mut entry =
            SubmissionEntry { opcode: opcode::admin::GET_LOG_PAGE, ..Default::default() };
        let dwords = bytes as u32 / 4 - 1;
        entry.dword10.set(u32::from(page) | dwords << 16);
        entry.dword11.set(dwords >> 16);
        entry.dword12.set(from as u32);
        entry.dword13.set((from >> 32) as u32);
        let (_, bytes) = self.command(&entry, Data::Back(bytes), "reading a log page")?;
        Ok(bytes)
    }

    /// Shuts the controller down and leaves it.
    ///
    /// # Errors
    /// If the controller cannot be told.
    pub fn shutdown(mut self) -> Result<(), HostError> {
        self.set_configuration(self.configuration | 1 << 14)?;
        self.wait_status(3 << 2, status::SHUTDOWN_COMPLETE, SHUTDOWN_PATIENCE).map(|_| ())
    }
}

impl IoQueue for Connection {
    fn watch(&mut self, clock: Clock) {
        Connection::watch(self, clock);
    }

    fn socket(&self) -> Option<OwnedFd> {
        self.stream.is_bare().then(|| self.stream.fd().try_clone_to_owned().ok())?
    }

    #[inline]
    fn ended(&mut self, slot: u16) -> Option<(&Flight, Time, u16)> {
        self.watch.as_mut()?.flights.ended(slot)
    }

    fn flight(&self, slot: u16) -> Option<&Flight> {
        self.watch.as_ref()?.flights.flight(slot)
    }

    #[inline]
    fn receive(&mut self) -> Result<bool, HostError> {
        Connection::receive(self)
    }

    #[inline]
    fn is_amid_data(&self) -> bool {
        self.machine.is_amid_data(LONG_DATA_BYTES)
    }

    #[inline]
    fn poll(&mut self, data: &mut impl Bytes) -> Result<Option<Completed>, HostError> {
        loop {
            match Connection::poll(self, data)? {
                Some(Event::Completed { slot, entry, received }) => {
                    return Ok(Some(Completed { slot, entry, received }));
                }
                Some(Event::Ready) => {}
                None => return Ok(None),
            }
        }
    }

    #[inline]
    fn can_submit(&self) -> bool {
        self.machine.can_submit()
    }

    #[inline]
    fn next_slot(&self) -> Option<u16> {
        self.machine.next_slot()
    }

    #[inline]
    fn submit(
        &mut self,
        entry: &SubmissionEntry,
        movement: Movement,
        data: &mut impl Bytes,
    ) -> Option<u16> {
        let ahead = self.machine.unsent();
        let slot = self.machine.submit(entry, movement, data)?;
        if let Some(watch) = &mut self.watch {
            watch.flights.submitted(slot, entry, movement, &self.machine, ahead);
        }
        Some(slot)
    }

    #[inline]
    fn send(&mut self, data: &mut impl Bytes) -> Result<(), HostError> {
        Connection::send(self, data)
    }

    fn is_blocked(&self) -> bool {
        Connection::is_blocked(self)
    }

    fn wait(&self, timeout: Duration) -> Result<(), HostError> {
        Connection::wait(self, timeout)
    }
}

impl Source for Association {
    type Queue = Connection;

    fn facts(&self) -> Facts {
        let Association {
            queue_entries_max,
            transfer_bytes_max,
            transition,
            controller_id,
            features,
            ..
        } = *self;
        // Identifiers of commands have no room for more.
        let queue_entries_max = queue_entries_max.min(u32::from(COMMANDS_MAX) + 1);
        Facts { queue_entries_max, transfer_bytes_max, transition, controller_id, features }
    }

    fn open_queue(&self, id: u16, entries: u16, _bytes: usize) -> Result<Connection, HostError> {
        Association::open_queue(self, id, entries)
    }
}

impl Remote for Controller {
    type Options = Options;
    type Source = Association;

    fn connect(options: &Options) -> Result<Controller, HostError> {
        Controller::connect(options)
    }

    fn model(&self) -> String {
        Controller::model(self)
    }

    fn identify(
        &mut self,
        what: &Identify,
        namespace: u32,
        name: &'static str,
    ) -> Result<Vec<u8>, HostError> {
        let entry = admin::identify(what, namespace);
        let (_, bytes) = self.command(&entry, Data::Back(IDENTIFY_BYTES), name)?;
        Ok(bytes)
    }

    fn request_queues(&mut self, count: u16) -> Result<(), HostError> {
        Controller::request_queues(self, count)
    }

    fn source(&self) -> Association {
        self.association()
    }

    fn check(&mut self) -> Result<(), HostError> {
        Controller::check(self)
    }

    fn keep_alive(&mut self) -> Result<(), HostError> {
        Controller::keep_alive(self)
    }

    fn keep_alive_time(options: &Options) -> Duration {
        options.keep_alive
    }

    fn timeout(options: &Options) -> Duration {
        options.timeout
    }

    fn shutdown(self) -> Result<(), HostError> {
        Controller::shutdown(self)
    }
}

/// Whether as many I/O queues were granted as were asked for.
///
/// # Errors
/// If there are fewer.
pub(super) fn check_queues(granted: u64, count: u16) -> Result<(), HostError> {
    let granted = u32::from((granted as u16).min((granted >> 16) as u16)) + 1;
    if granted < u32::from(count) {
        return Err(HostError::Unusable(format!(
            "the target has {granted} I/O queues, and --numjobs asks for {count}"
        )));
    }
    Ok(())
}

/// What a controller does on blocks (ONCS: bit 2 is Dataset Management).
pub(super) fn features(identity: &IdentifyController) -> Features {
    Features { trims: identity.optional_commands.get() & 1 << 2 != 0, ..Features::ALL }
}

/// Most bytes that a command moves, with pages of 2^`page_shift` bytes (MDTS).
pub(super) fn transfer_bytes_max(identity: &IdentifyController, page_shift: u32) -> u64 {
    match identity.max_transfer {
        0 => u64::MAX,
        shift => 1u64.checked_shl(page_shift + u32::from(shift)).unwrap_or(u64::MAX),
    }
}

/// A structure that fills `bytes`.
pub(super) fn read<T: FromBytes>(bytes: &[u8]) -> T {
    T::read_from_prefix(bytes).expect("as many bytes were asked for").0
}

/// A field of ASCII, padded with spaces or zeros, fit to be printed.
pub(super) fn text(field: &[u8]) -> String {
    let text: String = field
        .iter()
        .take_while(|&&byte| byte != 0)
        .map(|&byte| if (0x20..0x7f).contains(&byte) { char::from(byte) } else { '?' })
        .collect();
    text.trim().to_owned()
}
