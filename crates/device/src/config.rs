//! What a subsystem is told when it is built, and by transports.

use core::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// At the time that the model of the drive gives them.
    Modelled,
    /// At once; the model is not asked.
    Immediate,
}

/// What an NVM subsystem is built from.
#[derive(Clone, Debug)]
pub struct SubsystemConfig {
    pub nqn: String,
    /// Serial number, at most 20 ASCII characters.
    pub serial: String,
    /// Model number, at most 40 ASCII characters.
    pub model_number: String,
    /// Firmware revision, at most 8 ASCII characters.
    pub firmware: String,
    /// Namespaces, numbered from 1. None given: one over all that the drive has for blocks, and one for
    /// each of the model's namespaces of pairs, in order of these.
    pub namespaces: Vec<NamespaceConfig>,
    /// NQNs of the hosts that may connect; empty: any host.
    pub allowed_hosts: Vec<String>,
    /// Whether hosts have to authenticate, which takes somebody who answers
    /// [`crate::Output::Authentication`]. The discovery subsystem is open to all.
    pub authenticate: bool,
    /// Where the subsystem can be reached, for the discovery log page.
    pub ports: Vec<Port>,
    /// Which part of an NVM subsystem this is.
    pub shard: Shard,
    pub timing: Timing,
    /// How much hosts may ask for.
    pub limits: Limits,
}

impl SubsystemConfig {
    /// A subsystem with this name and nothing out of the ordinary.
    pub fn new(nqn: impl Into<String>) -> SubsystemConfig {
        SubsystemConfig {
            nqn: nqn.into(),
            serial: "MYNAH00000000000001".into(),
            model_number: "Mynah".into(),
            firmware: env!("CARGO_PKG_VERSION").into(),
            namespaces: vec![],
            allowed_hosts: vec![],
            authenticate: false,
            ports: vec![],
            shard: Shard::WHOLE,
            timing: Timing::Modelled,
            limits: Limits::default(),
        }
    }
}

impl SubsystemConfig {
    /// Whether a host may use the subsystem.
    pub(crate) fn is_allowed(&self, host_nqn: &str) -> bool {
        let allowed = &self.allowed_hosts;
        allowed.is_empty() || allowed.iter().any(|allowed| allowed == host_nqn)
    }
}

/// A part of an NVM subsystem that several share, each with controllers, namespaces and a drive of
/// its own.
///
/// What has an identifier in the whole subsystem (controllers, namespaces, ports) takes every
/// `of`-th, from `index` + 1 on: so none is used twice, and the parts need not know one another.
/// Everything else (capacity, features, logs, power) is each part's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: u16,
    /// How many there are, at least 1.
    pub of: u16,
}

impl Shard {
    /// The only part, where the subsystem is not divided.
    pub const WHOLE: Shard = Shard { index: 0, of: 1 };

    /// Whether an identifier is one of its own.
    pub(crate) fn has(self, id: u32) -> bool {
        id.wrapping_sub(1) % u32::from(self.of.max(1)) == u32::from(self.index)
    }

    /// Its identifiers, in order: every `of`-th number from `index` + 1 on.
    pub(crate) fn ids(self) -> impl Iterator<Item = usize> + Clone {
        (usize::from(self.index) + 1..).step_by(usize::from(self.of.max(1)))
    }
}

/// Another subsystem that the discovery log page lists, or another part of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub nqn: String,
    /// The ports at which it listens.
    pub ports: Vec<Port>,
    /// Which part of its subsystem it is.
    pub shard: Shard,
    /// NQNs of the hosts that may connect; empty: any host.
    pub allowed_hosts: Vec<String>,
}

/// A namespace to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Bytes, rounded down to whole mapping units; `None`: an equal share of what is left. One of
    /// pairs is a whole namespace of the model: the first that is not taken and has so many bytes, if
    /// that is said.
    pub bytes: Option<u64>,
    pub content: NamespaceContent,
    /// The reclaim unit handle of each of its placement handles, on a drive with data placement;
    /// empty: all that there are.
    pub handles: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceContent {
    /// Logical blocks of so many bytes: 512 or 4,096.
    Blocks(u32),
    /// Pairs of a key and a value.
    Pairs,
    /// The same in key spaces, for hosts on the PCIe bus that speak Samsung's command set. A subsystem
    /// has at most one of these: its commands name key spaces, and no namespace.
    SamsungPairs,
}

impl NamespaceContent {
    /// Whether it holds pairs, and no blocks.
    pub fn holds_pairs(self) -> bool {
        matches!(self, NamespaceContent::Pairs | NamespaceContent::SamsungPairs)
    }
}

/// An address of the subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The address in text: `127.0.0.1`, `::1`. Every address (`0.0.0.0`, `::`) is listed as the one
    /// at which a host came in.
    pub address: String,
    /// The TCP or RDMA port number in decimal (TRSVCID).
    pub service: String,
    /// What carries messages there.
    pub carrier: Carrier,
}

/// What carries the messages of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// NVMe/TCP.
    Tcp,
    /// NVMe/TCP, encrypted.
    Tls,
    /// NVMe/RDMA.
    Rdma,
}

/// How much hosts may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Controllers at once, those of the discovery subsystem apart.
    pub controllers_max: u16,
    /// Controllers of the discovery subsystem at once. Their identifiers lie behind the others.
    pub discovery_max: u16,
    /// I/O queues of a controller.
    pub queues_max: u16,
    pub queue_entries_max: u32,
    /// The highest namespace identifier (NN).
    pub namespaces_max: u32,
    /// Bytes of memory that commands and completions of all hosts may hold beyond their queue entries,
    /// and that those of one source may.
    pub held_bytes_max: u64,
    /// See [`Transport::source`].
    pub source_held_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            controllers_max: 2048,
            discovery_max: 256,
            queues_max: 128,
            queue_entries_max: 1024,
            namespaces_max: 1024,
            held_bytes_max: 512 << 20,
            source_held_bytes_max: 256 << 20,
        }
    }
}

/// What the subsystem has to know of a transport connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Most data bytes that an I/O command's capsule can carry; a multiple of 16.
    pub in_capsule_bytes: u32,
    /// Largest transfer; a power of two of 4 KiB is stated as MDTS.
    pub max_transfer_bytes: u32,
    /// Who is at the other end, for messages.
    pub peer: String,
    /// Connections with the same number come from the same machine, as far as the transport can
    /// tell, and share what one may use up.
    pub source: u128,
    /// The address at which the host came in, where there is one: what the discovery log page says
    /// of ports that listen at every address.
    pub local: Option<IpAddr>,
    /// Which of [`SubsystemConfig::ports`] the host came to.
    pub port: u16,
    /// TRTYPE: 1 is RDMA, 3 is TCP.
    pub kind: u8,
    /// NQN of the host that the transport has authenticated, if it has: no other may connect.
    pub host_nqn: Option<String>,
}

/// A subsystem that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubsystemError {
    /// The name is not an NQN.
    #[error("`{0}` is no NVMe qualified name: it begins with `nqn.` and has at most 223 bytes")]
    Nqn(String),
    /// A field of Identify Controller is too long.
    #[error("the {field} `{text}` has more than {max} characters or some that are not ASCII")]
    Text {
        /// Which.
        field: &'static str,
        /// What was given.
        text: String,
        /// How long it may be.
        max: usize,
    },
    /// A block size that no format has.
    #[error("blocks have 512 or 4096 bytes, not {0}")]
    BlockBytes(u32),
    /// Commands would not say which of them is meant.
    #[error(
        "namespace {0} is another one for Samsung's command set, whose commands do not name a \
         namespace: there can be one"
    )]
    SecondOfKeySpaces(usize),
    /// The namespaces do not fit.
    #[error(
        "namespace {namespace} wants {}, but the drive has {} left",
        readable(*wanted),
        readable(*left)
    )]
    Capacity {
        /// Which.
        namespace: usize,
        /// Bytes wanted.
        wanted: u64,
        /// Bytes left.
        left: u64,
    },
    /// A namespace has no room for a single mapping unit.
    #[error("namespace {namespace} has less than {grain} bytes, the least that the drive maps")]
    TooSmall {
        /// Which.
        namespace: usize,
        /// Bytes that it needs at least.
        grain: u64,
    },
    /// A namespace is to have reclaim unit handles that it cannot have.
    #[error(
        "namespace {namespace} is to have other reclaim unit handles than there are, or one twice: it \
         can have {}",
        there.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
    )]
    Handles {
        /// Which.
        namespace: usize,
        /// Those that it can have.
        there: Vec<u8>,
    },
    /// A namespace is to have reclaim unit handles, and there are none for it.
    #[error(
        "namespace {0} is to have reclaim unit handles, and the drive has none: \
         `--set placement.handles=4` gives it four"
    )]
    NoHandles(usize),
    /// There is no namespace of pairs left in the model.
    #[error(
        "namespace {namespace} is to hold pairs, and the drive has no such part left{}",
        wanted.map_or_else(String::new, |bytes| format!(" of {}", readable(bytes)))
    )]
    NoPairs {
        /// Which.
        namespace: usize,
        /// Bytes wanted.
        wanted: Option<u64>,
    },
    /// The store has no place for values.
    #[error("namespace {0} holds pairs, and this store has no place for their values")]
    NoValues(usize),
    /// The store has kept pairs of other namespaces than the drive has.
    #[error(
        "the pairs that the store has kept are not those of its namespaces: they are another \
         drive's or another file's, or what says which they are is missing or damaged"
    )]
    Pairs,
    /// Too many namespaces.
    #[error("{0} namespaces are more than the limit of {1}")]
    TooManyNamespaces(usize, u32),
    /// There is no such part.
    #[error("there is no part {} of {}: numbers count from 0", .0.index, .0.of)]
    Shard(Shard),
    /// A limit makes no sense.
    #[error("limit {name} is {value}, but has to lie between {min} and {max}")]
    Limit {
        /// Which.
        name: &'static str,
        /// What was given.
        value: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
}

/// Most I/O queue pairs of a PCI function: their doorbells fill a page.
pub const QUEUES_MAX: u16 = 511;
/// The transport type of PCI Express, as far as there is one.
pub(crate) const PCI_EXPRESS: u8 = 0;

/// What a PCI function is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionConfig {
    /// Names the host, for the model's flows and so that it gets the same controller
    /// identifier again.
    pub host: String,
    /// See [`crate::Transport::source`].
    pub source: u128,
    /// Largest transfer in bytes; a power of two of 4 KiB is stated as MDTS.
    pub max_transfer_bytes: u32,
    /// Whether Doorbell Buffer Config is offered. Of use where the host's writes to doorbells
    /// are slow, and of none where the doorbells are shared with it.
    pub shadow_doorbells: bool,
    /// Whether the transport does the masking of interrupts
    /// ([`crate::pci::Function::hold_interrupt`]), and the MSI-X table that the host sees is not this
    /// one. So with VFIO.
    pub transport_masks: bool,
}

impl Default for FunctionConfig {
    fn default() -> Self {
        FunctionConfig {
            host: "pci".into(),
            source: 0,
            max_transfer_bytes: 1 << 20,
            shadow_doorbells: false,
            transport_masks: false,
        }
    }
}

/// A number of bytes for people.
fn readable(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            return format!("{value:.1} {unit}").replace(".0 ", " ");
        }
        value /= 1024.0;
    }
    format!("{value:.1} EiB")
}
