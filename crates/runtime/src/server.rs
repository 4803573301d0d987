//! A drive served: put together from what somebody asked for, run until it is told to end,
//! and turned into a result.

mod pairs;
mod store;

pub use store::{Start, StartError, state_path};

use crate::authenticator::{Authenticator, Secrets};
use crate::clock::{Clock, Rate};
use crate::cpus::Cpus;
use crate::engine::{Control, Engine, EngineLimits, SnapshotSink, copy_descriptor};
use crate::fault::{self, ConnectionFault, FaultError, Faults};
use crate::file_store::{self, Tell, Trouble};
use crate::hub::{Hub, Measure, PathCredit};
use crate::lockstep::{self, GuestClock, Link, Outcome};
use crate::nbd::{NbdAddress, NbdListenError};
use crate::pacing::Poll;
use crate::pair_store;
use crate::profile::{Profiled, Queries, RingError, Scope, TargetProfile};
use crate::quota::{Bounds, Quotas};
use crate::vfio_user::{DoorbellMode, ListenError, Listener, Port, PortError, Say};
use mynah_device::{
    Carrier, Limits, Neighbour, Now, Port as Listed, Subsystem, SubsystemConfig, Timing, Transport,
};
pub use mynah_device::{NamespaceConfig as Namespace, NamespaceContent, Shard, SubsystemError};
use mynah_drive_file::units::Duration;
use mynah_lab::emulation::Emulation;
use mynah_model::Drive;
use mynah_model::config::{Config, LinkProtocol};
use mynah_model::stats::{Blame, Counters};
use mynah_profile::{Choice, ChoiceError};
use mynah_result::{Result as RunResult, Run, assembly::Parts};
use mynah_stamp::{Span, Time};
use mynah_wire::tcp::target::Settings;
pub use pairs::{PairsError, has_pairs};
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Opened;

/// NQNs of subsystems begin with this, unless they are given in full.
const NQN_PREFIX: &str = "nqn.2026-11.io.github.mynah-ssd:";
/// TRTYPE of TCP (Base 2.0, section 5.16.1.23).
const TCP: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// As the model says, on a clock that goes so fast.
    Modelled(Rate),
    /// Commands are answered at once, and the model is not asked.
    Max,
}

/// Where the drive's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In memory, as far as they were written.
    Ram,
    File(PathBuf),
    /// Nowhere: reads return a pattern made from the address.
    Pattern,
}

/// How a drive is to be served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The subsystem's name: the end of its NQN, or all of it if it begins with `nqn.`; the
    /// drive's name if it is not given.
    pub name: Option<String>,
    pub tcp: Vec<SocketAddr>,
    /// Addresses of RDMA devices to listen on.
    #[cfg(feature = "rdma")]
    pub rdma: Vec<SocketAddr>,
    /// Where namespaces of blocks are exported as network block devices.
    pub nbd: Vec<NbdAddress>,
    /// Folders with a socket for a PCIe function each; all are controllers of the one subsystem.
    pub vfio_user: Vec<PathBuf>,
    /// How guests ring the doorbells of these functions.
    pub doorbells: DoorbellMode,
    pub store: StoreKind,
    /// Why the drive's own state is made anew even if one was saved with the bytes; `None`: it is
    /// not.
    pub state_anew: Option<&'static str>,
    pub speed: Speed,
    /// The guest whose time is the drive's; `None`: the host's clock is.
    pub guest_clock: Option<GuestClock>,
    /// Which part of a subsystem it is.
    pub shard: Shard,
    /// Its namespaces; none: one over the whole drive.
    pub namespaces: Vec<Namespace>,
    /// NQNs of the hosts that may connect; empty: any.
    pub allowed_hosts: Vec<String>,
    /// Secrets with which hosts prove who they are; without any of hosts they need not.
    pub secrets: Secrets,
    /// Keys for encrypted connections, by host; with any, all connections are encrypted.
    #[cfg(feature = "tls")]
    pub tls: Vec<(Option<String>, mynah_wire::tls_key::TlsKey)>,
    /// Faults of connections and controllers.
    pub faults: Vec<ConnectionFault>,
    /// Where a profile is written: a record for each I/O of a host, the latest of them.
    pub profile: Option<PathBuf>,
    /// Which I/Os have a record.
    pub profile_choice: Choice,
    /// Whose I/Os the hosts see that ask for a profile; `None`: all where nobody but this
    /// machine can come, and of their own otherwise.
    pub profile_scope: Option<Scope>,
    /// What real time may be missed by before the result is not trusted.
    pub late_bound: Option<Span>,
    /// Only what the drive does matters, not when: untrusted timing is no failure.
    pub functional: bool,
    /// What of an Ethernet drive's time the real path is credited with.
    /// `None`: what the kernel says of it.
    pub path_credit: Option<PathCredit>,
    /// How the serving thread looks for work.
    pub poll: Poll,
    /// Where the serving thread may run; `None`: anywhere.
    pub cpus: Option<Cpus>,
    /// What connections offer.
    pub connection: Settings,
    /// How much hosts may ask for.
    pub limits: EngineLimits,
}

impl Default for ServeOptions {
    /// A free port of the loopback interface, bytes in memory.
    fn default() -> ServeOptions {
        ServeOptions {
            name: None,
            tcp: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            #[cfg(feature = "rdma")]
            rdma: Vec::new(),
            nbd: Vec::new(),
            vfio_user: Vec::new(),
            doorbells: DoorbellMode::default(),
            store: StoreKind::Ram,
            state_anew: None,
            speed: Speed::Modelled(Rate::REAL),
            guest_clock: None,
            shard: Shard::WHOLE,
            namespaces: Vec::new(),
            allowed_hosts: Vec::new(),
            secrets: Secrets::default(),
            #[cfg(feature = "tls")]
            tls: Vec::new(),
            faults: Vec::new(),
            profile: None,
            profile_choice: Choice::default(),
            profile_scope: None,
            late_bound: None,
            functional: false,
            path_credit: None,
            poll: Poll::Adaptive,
            cpus: None,
            connection: Settings::default(),
            limits: EngineLimits::default(),
        }
    }
}

/// Why a drive cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// An RDMA address cannot be listened on.
    #[cfg(feature = "rdma")]
    #[error("cannot listen on {0} over RDMA: {1}")]
    Rdma(SocketAddr, io::Error),
    /// An NBD address cannot be listened on.
    #[error("--nbd: {0}")]
    Nbd(#[from] NbdListenError),
    /// A folder cannot be listened in.
    #[error("cannot listen: {0}")]
    Folder(#[from] ListenError),
    /// The drive has no PCIe link.
    #[error(
        "--vfio-user: this drive's link is Ethernet, so that no guest can have it as a PCIe device: \
         serve it with --tcp, or give it `--set link.protocol=pcie` and what that needs"
    )]
    NoPcie,
    /// A guest's time is the drive's only where nothing else has a say.
    #[error("--clock guest: {0}")]
    GuestClock(&'static str),
    /// Nothing of the drive's time can be the path's.
    #[error(
        "--path-credit: this drive's link is {0}, and the path to it is not part of its time: only \
         drives with link.protocol = \"ethernet\" have one, as eemu-samsung"
    )]
    NoPath(&'static str),
    /// The kernel does not tell of encrypted connections.
    #[error(
        "--path-credit auto with {0}: the kernel does not tell the engine what the round trips of {1} \
         take; give a time, or off"
    )]
    UnseenPath(&'static str, &'static str),
    /// A vfio-user port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The subsystem cannot be built.
    #[error(transparent)]
    Subsystem(#[from] SubsystemError),
    /// Encryption cannot be set up.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
    /// There can be no key-value namespaces.
    #[error("{0}")]
    Pairs(#[from] PairsError),
    /// A fault names what the drive does not have.
    #[error("--fault: {0}")]
    Fault(#[from] FaultError),
    /// The file cannot hold the bytes.
    #[error(transparent)]
    Store(#[from] file_store::OpenError),
    /// A profile cannot be written.
    #[error(transparent)]
    Profile(#[from] RingError),
    /// These I/Os cannot be chosen for a profile.
    #[error("--profile: {0}")]
    ProfileChoice(#[from] ChoiceError),
    /// The folder cannot hold the pairs.
    #[error(transparent)]
    PairStore(#[from] pair_store::OpenError),
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
    /// The operating system refuses something.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl ServeError {
    /// Whether what the user gave is at fault, and not the machine.
    pub fn is_usage(&self) -> bool {
        !matches!(self, ServeError::System(_) | ServeError::Thread(_) | ServeError::Port(_))
    }
}

impl ServeOptions {
    /// Whether hosts come over RDMA.
    fn has_rdma(&self) -> bool {
        #[cfg(feature = "rdma")]
        return !self.rdma.is_empty();
        #[cfg(not(feature = "rdma"))]
        return false;
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return !self.tls.is_empty();
        #[cfg(not(feature = "tls"))]
        return false;
    }
}

/// Has connections accepted, and their handshakes made, by a thread that encrypts.
#[cfg(feature = "tls")]
fn encrypt(
    listeners: Vec<TcpListener>,
    nqn: &str,
    options: &ServeOptions,
    control: &Arc<Control>,
    quotas: &Quotas,
) -> Result<crate::tls::Carrier, ServeError> {
    use crate::engine::{Newcomer, Protocol};
    use crate::tls::Event;
    let carrier = crate::tls::Carrier::start()?;
    let keys = crate::tls::HostKeys::new(nqn, options.tls.clone())?;
    let acceptor = crate::tls::Acceptor::new(keys)?;
    for (number, listener) in listeners.into_iter().enumerate() {
        let control = control.clone();
        carrier.listen(listener, acceptor.clone(), quotas.half_open.clone(), move |event| {
            match event {
                Event::Established(new) => control.adopt(Newcomer {
                    socket: new.socket,
                    address: new.address,
                    local: new.local,
                    port: number as u16,
                    host_nqn: Some(new.host_nqn),
                    protocol: Protocol::NvmeTcp,
                    half_open: new.half_open,
                }),
                Event::Starved => control.starve(),
            }
        });
    }
    Ok(carrier)
}

/// What does not change while a drive is served.
#[derive(Clone, Debug)]
struct Identity {
    nqn: String,
    name: String,
    hash: String,
    seed: u64,
}

/// A drive that listens, but does not answer yet.
pub struct Server {
    options: ServeOptions,
    identity: Identity,
    addresses: Vec<SocketAddr>,
    listeners: Vec<TcpListener>,
    nbd: Vec<(crate::nbd::Listener, NbdAddress)>,
    control: Arc<Control>,
    subsystem: Subsystem,
    authenticator: Option<Authenticator>,
    quotas: Quotas,
    wakers: Vec<OwnedFd>,
    trouble: Trouble,
    notes: Vec<String>,
    interval: Option<(Span, SnapshotSink)>,
    ports: Vec<Port>,
    /// Where the clock of the guest connects whose time is the drive's.
    link: Option<Link>,
    #[cfg(feature = "rdma")]
    rdma: Vec<crate::rdma::Port>,
    say: Say,
    warn: Say,
    profile: Option<TargetProfile>,
    is_begun: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens, and puts everything around the drive.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn new(start: impl Into<Start>, mut options: ServeOptions) -> Result<Server, ServeError> {
        let mut start = start.into();
        if let Some(bytes) = pairs::transfer_bytes(start.drive.drive.config()) {
            // A value is moved by one command.
            options.connection.transfer_bytes = options.connection.transfer_bytes.max(bytes);
        }
        check_guest_clock(&options)?;
        raise_descriptor_limit();
        let (listeners, addresses) = listen(&options.tcp)?;
        let mut notes = Vec::new();
        let Opened { store, mut wakers, trouble } = store::open(&options, &mut start, &mut notes)?;
        let drive = start.drive;
        let identity = Identity {
            nqn: nqn(options.name.as_deref().unwrap_or(&drive.name)),
            name: drive.name,
            hash: drive.hash,
            seed: drive.drive.config().seed,
        };
        let drive = drive.drive;
        check_path_credit(&options, drive.config())?;
        let timing = match options.speed {
            Speed::Modelled(_) => Timing::Modelled,
            Speed::Max => Timing::Immediate,
        };
        notes.extend(note_of_speed(options.speed));
        let bounds = options.limits.bounds.of_shard(options.shard.of);
        let quotas = Quotas::new(bounds);
        let authenticator = match options.secrets.hosts.is_empty() {
            true => None,
            false => {
                let secrets = options.secrets.clone();
                let jobs = quotas.authentications.clone();
                let it = Authenticator::new(&identity.nqn, secrets, jobs)?;
                wakers.push(copy_descriptor(it.wake_descriptor())?);
                Some(it)
            }
        };
        let ports = addresses.iter().map(|address| Listed {
            address: address.ip().to_string(),
            service: address.port().to_string(),
            carrier: if options.is_encrypted() { Carrier::Tls } else { Carrier::Tcp },
        });
        #[cfg(feature = "rdma")]
        let rdma = listen_over_rdma(&options, &drive, bounds.transfer_bytes)?;
        #[cfg(feature = "rdma")]
        let ports = ports.chain(rdma.iter().map(|port| Listed {
            address: port.address().ip().to_string(),
            service: port.address().port().to_string(),
            carrier: Carrier::Rdma,
        }));
        let nbd = crate::nbd::Listener::all(&options.nbd)?;
        let has_kept = store.description().is_some();
        let mut subsystem = Subsystem::new(
            SubsystemConfig {
                serial: serial(&identity.nqn),
                namespaces: options.namespaces.clone(),
                allowed_hosts: options.allowed_hosts.clone(),
                authenticate: authenticator.is_some(),
                ports: ports.collect(),
                shard: options.shard,
                limits: device_limits(&bounds, options.shard.of),
                timing,
                ..SubsystemConfig::new(identity.nqn.clone())
            },
            drive,
            store,
        )?;
        let controllers_max = subsystem.config().limits.controllers_max;
        fault::check(&options.faults, controllers_max, listeners.len())?;
        let ports = functions(&options, identity.seed, &quotas, &mut subsystem)?;
        let link = link(&options)?;
        notes.extend(note_of_namespaces(has_kept, subsystem.has_restored_namespaces()));
        Ok(Server {
            options,
            identity,
            addresses,
            listeners,
            nbd,
            control: Arc::new(Control::new()?),
            subsystem,
            authenticator,
            quotas,
            wakers,
            trouble,
            notes,
            interval: None,
            ports,
            link,
            #[cfg(feature = "rdma")]
            rdma,
            say: Box::new(|_| ()),
            warn: Box::new(|_| ()),
            profile: None,
            is_begun: false,
        })
    }

    /// The addresses hosts can connect to.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where namespaces are exported as network block devices.
    pub fn nbd_addresses(&self) -> Vec<NbdAddress> {
        self.nbd.iter().map(|(_, address)| address.clone()).collect()
    }

    /// The addresses at which hosts can connect over RDMA.
    pub fn rdma_addresses(&self) -> Vec<SocketAddr> {
        #[cfg(feature = "rdma")]
        return self.rdma.iter().map(crate::rdma::Port::address).collect();
        #[cfg(not(feature = "rdma"))]
        return Vec::new();
    }

    /// The sockets of the functions.
    pub fn sockets(&self) -> impl Iterator<Item = &Path> {
        self.ports.iter().map(Port::path)
    }

    /// Calls `say` with what guests do wrong, on the thread that serves: it must not block.
    pub fn on_complaint(&mut self, say: Say) {
        self.say = say;
    }

    /// Calls `warn` when the drive has completed nothing for a second of its own time though
    /// commands wait, and when it goes on, on the thread that serves: it must not block.
    pub fn on_stall(&mut self, warn: Say) {
        self.warn = warn;
    }

    pub fn nqn(&self) -> &str {
        &self.identity.nqn
    }

    /// What the discovery log of others has to say of it.
    pub fn neighbour(&self) -> Neighbour {
        let config = self.subsystem.config();
        Neighbour {
            nqn: config.nqn.clone(),
            ports: config.ports.clone(),
            shard: config.shard,
            allowed_hosts: config.allowed_hosts.clone(),
        }
    }

    /// A handle that ends it and asks it for figures.
    pub fn control(&self) -> Arc<Control> {
        self.control.clone()
    }

    /// The subsystem, to set something up before it runs.
    pub fn subsystem_mut(&mut self) -> &mut Subsystem {
        &mut self.subsystem
    }

    /// What was assumed or found.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Calls `then` every so often, on the thread that serves: it must not block.
    pub fn every(&mut self, every: Span, then: SnapshotSink) {
        self.interval = Some((every, then));
    }

    /// Calls `tell` with what goes wrong with the store, at once and for each kind once, on the
    /// thread that serves: it must not block.
    pub fn on_trouble(&mut self, tell: Tell) {
        self.trouble.tell(tell);
    }

    /// The drive, as its profiles describe it.
    fn profiled(&self) -> Profiled {
        let has_link = self.subsystem.drive().config().ethernet.is_some();
        let has_functions = !self.options.vfio_user.is_empty();
        Profiled { drive: self.identity.name.clone(), has_link, has_functions }
    }

    /// Has the store note that it is in use: the last thing before hosts are told that they can
    /// come. A start that fails before this leaves the store and the drive's state as they are.
    ///
    /// # Errors
    /// If that cannot be noted.
    pub fn begin(&mut self) -> Result<(), ServeError> {
        if let (Some(path), None) = (&self.options.profile, &self.profile) {
            let mut profile = TargetProfile::create(path, self.profiled(), self.rate())?;
            profile.choose(self.options.profile_choice.clone())?;
            self.profile = Some(profile);
        }
        if !self.is_begun && self.subsystem.open_store().is_err() {
            let path = match &self.options.store {
                StoreKind::File(path) => path.as_path(),
                StoreKind::Ram | StoreKind::Pattern => Path::new("the store"),
            };
            return Err(file_store::OpenError::unusable(path, self.trouble.cause()).into());
        }
        self.is_begun = true;
        Ok(())
    }

    /// How the drive's clock goes.
    fn rate(&self) -> Rate {
        match self.options.speed {
            Speed::Modelled(rate) => rate,
            Speed::Max => Rate::REAL,
        }
    }

    /// Ends it without having served: the store and the drive's state are as they were.
    pub fn cancel(mut self) {
        if self.is_begun {
            // Else the next run takes this one for one that was killed, and says so.
            let _ = self.subsystem.cancel_store();
        }
    }

    /// Serves until [`Control::stop`]; begins first, if that was not done.
    ///
    /// # Errors
    /// If the operating system fails.
    pub fn run(mut self) -> Result<Served, ServeError> {
        self.begin()?;
        let (rate, profiled) = (self.rate(), self.profiled());
        let path_credit = path_credit(&self.options, self.subsystem.drive().config());
        let mut settings = self.options.connection;
        settings.transfer_bytes = transfer_bytes(settings, self.subsystem.drive());
        let transport = Transport {
            in_capsule_bytes: settings.capsule_data_bytes,
            max_transfer_bytes: settings.transfer_bytes,
            peer: String::new(),
            source: 0,
            local: None,
            port: 0,
            kind: TCP,
            host_nqn: None,
        };
        let mut hub = Hub::new(self.subsystem, settings, self.quotas.clone(), rate);
        if let Some(authenticator) = self.authenticator {
            hub.authenticate_with(authenticator);
        }
        let is_local = self.options.tcp.iter().all(|address| address.ip().is_loopback());
        let scope = self.options.profile_scope.unwrap_or(match is_local {
            true => Scope::All,
            false => Scope::Own,
        });
        if !self.options.faults.is_empty() {
            hub.inject(Faults::new(&self.options.faults, self.identity.seed));
        }
        #[cfg(feature = "tls")]
        let mut listeners = self.listeners;
        #[cfg(not(feature = "tls"))]
        let listeners = self.listeners;
        // The carrier ends, and with it its connections, when the engine has.
        #[cfg(feature = "tls")]
        let _carrier = match self.options.is_encrypted() {
            true => {
                let encrypted = std::mem::take(&mut listeners);
                let nqn = &self.identity.nqn;
                Some(encrypt(encrypted, nqn, &self.options, &self.control, &self.quotas)?)
            }
            false => None,
        };
        let clock = Clock::start(rate);
        let mut queries = Queries::new(scope, profiled, rate);
        queries.starts(&clock);
        hub.answer_queries(queries);
        if let Some(mut profile) = self.profile {
            profile.starts(&clock);
            hub.profile_with(profile);
        }
        if let (Some(guest_clock), Some(link)) = (&self.options.guest_clock, self.link) {
            let ports = self.ports.into_iter().next();
            let Some(port) = ports else { return Err(ServeError::GuestClock(ONE_FUNCTION)) };
            let step = (port, link);
            let mut engine = lockstep::Engine::new(hub, step, guest_clock, self.control, self.say);
            if let Some((every, then)) = self.interval {
                engine.every(every, then);
            }
            if let Some(cpus) = &self.options.cpus {
                cpus.keep_to()?;
            }
            let (subsystem, measure, outcome) = engine.run();
            let ended = EndedServer { subsystem, measure, outcome: Some(outcome) };
            let (identity, options, trouble) = (self.identity, self.options, self.trouble);
            return Ok(ended.served(identity, options, self.notes, &trouble));
        }
        let limits = self.options.limits;
        let mut engine = Engine::new(clock, hub, transport, limits, listeners, self.control)?;
        engine.add_nbd(self.nbd.into_iter().map(|(listener, _)| listener).collect())?;
        engine.add_ports(self.ports, self.say)?;
        #[cfg(feature = "rdma")]
        engine.add_rdma(self.rdma)?;
        engine.on_stall(self.warn);
        engine.set_path_credit(path_credit);
        engine.set_poll(self.options.poll);
        for waker in self.wakers {
            engine.wake_on(waker)?;
        }
        if let Some((every, then)) = self.interval {
            engine.every(every, then);
        }
        if let Some(cpus) = &self.options.cpus {
            cpus.keep_to()?;
        }
        let (subsystem, measure) = engine.run()?;
        let ended = EndedServer { subsystem, measure, outcome: None };
        let (identity, options, trouble) = (self.identity, self.options, self.trouble);
        Ok(ended.served(identity, options, self.notes, &trouble))
    }
}

/// A drive that is not served any more.
struct EndedServer {
    subsystem: Subsystem,
    measure: Measure,
    outcome: Option<Outcome>,
}

impl EndedServer {
    /// Saves what the store is to keep, and gathers what came of serving.
    fn served(
        self,
        identity: Identity,
        options: ServeOptions,
        mut notes: Vec<String>,
        trouble: &Trouble,
    ) -> Served {
        let EndedServer { mut subsystem, mut measure, outcome } = self;
        measure.name_flows(subsystem.flow_names());
        notes.extend(measure.stalls().note());
        let drive = subsystem.drive();
        let (end, counters, blame) = (drive.now(), drive.counters(), drive.blame());
        let faults = &drive.config().faults;
        notes.extend(mynah_drive_file::fault::unused(
            faults,
            "serving",
            end,
            counters.media_errors,
        ));
        // Functions draw their own.
        let of_hub = options.vfio_user.is_empty();
        let idle: &[_] = if of_hub { &measure.idle_faults } else { &[] };
        notes.extend(fault::unused(&options.faults, end, idle));
        let name = &identity.name;
        // The bytes first: a state belongs to them, and must not take their room. What fails is
        // among the troubles.
        let state = match subsystem.settle_store() {
            Ok(()) => store::save(&mut subsystem, name, &options, trouble, &mut notes),
            Err(_) => None,
        };
        let _ = subsystem.close_store(state);
        let mut failures = trouble.messages();
        let guest = outcome.and_then(|outcome| {
            failures.extend(outcome.failure);
            outcome.guest
        });
        Served { identity, options, end, counters, blame, measure, notes, failures, guest }
    }
}

/// What a server hands back when it has ended.
#[derive(Debug)]
pub struct Served {
    identity: Identity,
    options: ServeOptions,
    end: Time,
    counters: Counters,
    blame: Vec<Blame>,
    measure: Measure,
    notes: Vec<String>,
    failures: Vec<String>,
    guest: Option<mynah_result::Guest>,
}

impl Served {
    /// When serving ended, on the drive's clock.
    pub fn end(&self) -> Time {
        self.end
    }

    /// The result; `run` says what it cost the machine.
    pub fn result(&self, run: Run) -> RunResult {
        let mut result = RunResult::new(Parts {
            drive: &self.identity.name,
            drive_hash: &self.identity.hash,
            seed: self.identity.seed,
            recorder: self.measure.recorder(),
            counters_before: &Default::default(),
            counters: &self.counters,
            blame_before: &[],
            blame: &self.blame,
            alone: None,
            run,
        });
        let lateness = self.measure.lateness();
        result.notes.extend_from_slice(&self.notes);
        result.failures = self.failures.clone();
        result.functional = self.options.functional;
        result.guest = self.guest.clone();
        result.lateness_ns = lateness.late();
        result.arrival_uncertainty_ns = lateness.uncertain();
        let credited = self.measure.credited();
        result.path_credit = credited.result();
        if self.options.speed != Speed::Max {
            let median = self.measure.median_latency();
            let late = lateness.verdict(self.options.late_bound, median);
            result.untrusted = credited.verdict().or(late);
        }
        result
    }
}

/// A drive with the key-value namespaces that are wanted, which are the model's: unless its file has
/// such ones, they are cut from it. Not all of them can be recorded.
///
/// # Errors
/// If it cannot have them.
pub(crate) fn divide(
    mut emulation: Emulation,
    options: &ServeOptions,
    is_recorded: bool,
) -> Result<Emulation, ServeError> {
    pairs::divide(&mut emulation.config, &options.namespaces)?;
    if pairs::has_pairs(&emulation.config) {
        pairs::check(options, is_recorded)?;
    }
    Ok(emulation)
}

/// The NQN of the subsystem called `name`, with a hyphen for each character that hosts may not
/// take.
pub fn nqn(name: &str) -> String {
    let name = name.replace(is_odd_in_nqn, "-");
    match name.starts_with("nqn.") {
        true => name,
        false => format!("{NQN_PREFIX}{name}"),
    }
}

/// Whether hosts may not take a name with `character` in it: to Linux they are options that
/// commas part.
pub fn is_odd_in_nqn(character: char) -> bool {
    character.is_whitespace() || character.is_control() || character == ','
}

const ONE_FUNCTION: &str =
    "the drive is one guest's: give one --vfio-user, and no --tcp, --rdma or --nbd";

/// Refuses what a clock of the host's would have a say in.
fn check_guest_clock(options: &ServeOptions) -> Result<(), ServeError> {
    let Some(clock) = &options.guest_clock else { return Ok(()) };
    let refuse = |what| Err(ServeError::GuestClock(what));
    if options.vfio_user.len() != 1
        || !options.tcp.is_empty()
        || options.has_rdma()
        || !options.nbd.is_empty()
    {
        return refuse(ONE_FUNCTION);
    }
    if options.speed != Speed::Modelled(Rate::REAL) {
        return refuse("the guest's time is the drive's: leave --speed out");
    }
    if matches!(options.store, StoreKind::File(_)) {
        return refuse(
            "the disk of a store in a file takes time of the host's: give --store ram or pattern",
        );
    }
    if clock.quantum < Span::from_us(1) {
        return refuse("a quantum is at least 1us");
    }
    Ok(())
}

/// Where the clock of the guest connects whose time is the drive's.
fn link(options: &ServeOptions) -> Result<Option<Link>, ServeError> {
    let folder = options.guest_clock.as_ref().zip(options.vfio_user.first());
    let link = folder.map(|(clock, folder)| Link::listen(&clock.path(folder)));
    Ok(link.transpose()?)
}

/// Refuses a credit that nothing can be taken from.
fn check_path_credit(options: &ServeOptions, config: &Config) -> Result<(), ServeError> {
    match options.path_credit {
        Some(_) if config.ethernet.is_none() => {
            Err(ServeError::NoPath(match config.link.protocol {
                LinkProtocol::Pcie => "PCIe",
                LinkProtocol::Sata => "SATA",
            }))
        }
        Some(PathCredit::Auto) if options.is_encrypted() => {
            Err(ServeError::UnseenPath("--tls-psk", "encrypted connections"))
        }
        Some(PathCredit::Auto) if options.has_rdma() => {
            Err(ServeError::UnseenPath("--rdma", "connections over RDMA"))
        }
        _ => Ok(()),
    }
}

/// What of the modelled time the real path has.
fn path_credit(options: &ServeOptions, config: &Config) -> PathCredit {
    match config.ethernet {
        // What is least over TCP is not so over RDMA.
        Some(_) if options.speed != Speed::Max => {
            let unsaid = if options.has_rdma() { PathCredit::Off } else { PathCredit::Auto };
            options.path_credit.unwrap_or(unsaid)
        }
        _ => PathCredit::Off,
    }
}

/// Sockets that listen at these addresses, and the addresses with the ports that they got.
fn listen(tcp: &[SocketAddr]) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), ServeError> {
    let mut listeners = Vec::new();
    let mut addresses = Vec::new();
    for &address in tcp {
        let fail = |error| ServeError::Listen(address, error);
        let listener = TcpListener::bind(address).map_err(fail)?;
        addresses.push(listener.local_addr().map_err(fail)?);
        listeners.push(listener);
    }
    Ok((listeners, addresses))
}

/// Data that a command of a drive may move.
fn transfer_bytes(settings: Settings, drive: &Drive) -> u32 {
    let ethernet = drive.config().ethernet.as_ref();
    ethernet
        .map_or(settings.transfer_bytes, |it| settings.transfer_bytes.min(it.max_transfer_bytes))
}

/// The ports of RDMA devices.
#[cfg(feature = "rdma")]
fn listen_over_rdma(
    options: &ServeOptions,
    drive: &Drive,
    memory: crate::quota::Bound,
) -> Result<Vec<crate::rdma::Port>, ServeError> {
    let bytes = transfer_bytes(options.connection, drive);
    let mut ports = Vec::new();
    for &address in &options.rdma {
        let number = (options.tcp.len() + ports.len()) as u16;
        let port = crate::rdma::Port::new(address, number, bytes, memory);
        ports.push(port.map_err(|error| ServeError::Rdma(address, error))?);
    }
    Ok(ports)
}

/// What has to be said of a result if the drive's clock is not the host's.
fn note_of_speed(speed: Speed) -> Option<String> {
    match speed {
        Speed::Max => {
            Some("speed max: the model was not asked, commands were answered at once".to_owned())
        }
        Speed::Modelled(Rate::REAL) => None,
        Speed::Modelled(rate) => {
            let second = rate.wall_span(Span::from_secs(1));
            let second = Duration(Span::from_us(second.as_ps() / 1_000_000));
            Some(format!("a second of the drive's clock took {second}"))
        }
    }
}

/// What became of the namespaces that the store has kept, if it has kept any.
fn note_of_namespaces(has_kept: bool, are_restored: bool) -> Option<String> {
    match (are_restored, has_kept) {
        (true, _) => Some("the namespaces are those that the store has kept".to_owned()),
        (false, true) => Some(
            "the namespaces that the store has kept do not fit this drive or shard: they are made \
             anew, as the command line says, over the same bytes"
                .to_owned(),
        ),
        (false, false) => None,
    }
}

/// The PCIe functions, each a controller of the subsystem.
fn functions(
    options: &ServeOptions,
    seed: u64,
    quotas: &Quotas,
    subsystem: &mut Subsystem,
) -> Result<Vec<Port>, ServeError> {
    let start = Now { wall: Time::ZERO, model: Time::ZERO };
    let mut ports = Vec::new();
    if subsystem.drive().config().ethernet.is_some() && !options.vfio_user.is_empty() {
        return Err(ServeError::NoPcie);
    }
    let doorbells = match options.guest_clock {
        Some(_) => DoorbellMode::InStep,
        None => options.doorbells,
    };
    for (number, folder) in options.vfio_user.iter().enumerate() {
        let listener = Listener::new(folder)?;
        let of = (number, quotas);
        let transfer_bytes = pairs::transfer_bytes(subsystem.drive().config());
        let mut port = Port::new(start, subsystem, listener, doorbells, transfer_bytes, of)?;
        if let Some(faults) = Faults::of_function(&options.faults, seed, number) {
            port.inject(faults);
        }
        ports.push(port);
    }
    Ok(ports)
}

/// The part of the bounds that the subsystem keeps: identifiers, of which each shard has every
/// `shards`-th, and memory.
fn device_limits(bounds: &Bounds, shards: u16) -> Limits {
    let ids = |of_one: usize| u16::try_from(of_one * usize::from(shards)).unwrap_or(u16::MAX);
    Limits {
        controllers_max: ids(bounds.controllers.total),
        discovery_max: ids(bounds.discovery.total),
        held_bytes_max: bounds.held_bytes.total as u64,
        source_held_bytes_max: bounds.held_bytes.per_peer as u64,
        ..Limits::default()
    }
}

/// A serial number that follows from the name: the same name, the same drive.
fn serial(nqn: &str) -> String {
    // FNV-1a, 64 bits.
    let hash = nqn.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("MYN{hash:016X}")
}

/// A thousand connections need as many descriptors; the default limit is below that.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // If it cannot be raised, connections above the limit are refused.
    let _ = setrlimit(Resource::Nofile, raised);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_such_as_hosts_can_use() {
        assert_eq!(nqn("archive-1"), "nqn.2026-11.io.github.mynah-ssd:archive-1");
        assert_eq!(nqn("my, drive\n"), "nqn.2026-11.io.github.mynah-ssd:my--drive-");
        assert_eq!(nqn("nqn.2026-11.org.example:a"), "nqn.2026-11.org.example:a");
    }
}
