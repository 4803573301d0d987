//! The host's side: initiators in user space, and a load generator.
//!
//! Over TCP, [`Controller`] connects to a subsystem, enables the controller and asks what it is;
//! [`discover`] asks a discovery controller what there is to connect to. A PCIe function is driven
//! over vfio-user. [`load::run`] keeps I/O queues of either busy and measures.

mod admin;
mod admin_session;
mod authentication;
mod connection;
mod controller;
mod discovery;
mod disk;
#[cfg(feature = "tls")]
mod encryption;
mod errno;
pub mod key_value;
pub mod load;
mod names;
mod namespace;
mod nbd;
mod noise;
mod patience;
mod prober;
mod profile_query;
pub mod samsung;
mod single;
mod target;
mod transport;
mod vfio_user;
mod watch;

pub use crate::initiator::{default_host_nqn, host_id};
pub use admin_session::{AdminSession, LogWanted};
pub use authentication::Credentials;
pub use connection::Connection;
pub use controller::{Association, Controller, Options};
pub use discovery::{Subsystem, discover};
pub use disk::{Disk, DiskError, DiskOptions};
#[cfg(feature = "tls")]
pub use encryption::Encryption;
pub use namespace::{KeyValueNamespace, Namespace};
pub use nbd::{NbdOptions, NbdPlace, NbdPlaceError, NbdServer};
pub use patience::persist;
pub use prober::{ProbeDone, ProbeOp, Prober};
pub use profile_query::{
    Answer, Chosen, Exchange, Interval, ProfileClient, TargetRecords, Watch, collect,
};
pub use target::{Target, TargetError};
pub use vfio_user::VfioUserOptions;

use mynah_wire::authentication::Failure;
use mynah_wire::nbd::client::Unusable;
use mynah_wire::nvme::Status;
use mynah_wire::tcp::host::HostError as ProtocolError;
use std::io;

/// Why a host did not get what it wanted.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There is no such address.
    #[error("`{address}` cannot be looked up: {error}")]
    Lookup {
        /// The address.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// The connection is refused or times out.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// The address.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// No vfio-user server answers at the socket.
    #[error("cannot connect to {path}: {error}")]
    Socket {
        /// The socket.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// The connection was lost.
    #[error("the connection was lost: {0}")]
    Lost(io::Error),
    /// The target closed the connection.
    #[error("the target closed the connection")]
    Closed,
    /// Something else than a target answers.
    #[error("what listens there does not speak NVMe/TCP: it says `{0}`")]
    NotNvme(String),
    /// The target does not speak NVMe/TCP well.
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    /// The target did not answer.
    #[error("the target has not answered {what} within {seconds} s")]
    Timeout {
        /// The step that failed, as in messages.
        what: &'static str,
        /// How long the target was given.
        seconds: u64,
    },
    /// The target refused.
    #[error("{what} failed: {}", describe_refusal(what, *status))]
    Refused {
        /// The step that failed, as in messages.
        what: &'static str,
        /// Status of the completion.
        status: Status,
    },
    /// The host or the controller could not prove who it is.
    #[error("{0}")]
    Authentication(#[from] Failure),
    /// The function does not speak vfio-user, or not well.
    #[error("the device broke the vfio-user protocol: {0}")]
    VfioUser(#[from] mynah_wire::vfio_user::Ended),
    /// The vfio-user device answered with an error.
    #[error("the device refused {what}: {error}")]
    Device {
        /// The step that failed, as in messages.
        what: &'static str,
        /// The error that it answered with.
        error: io::Error,
    },
    /// There is no encrypted connection.
    #[cfg(feature = "tls")]
    #[error("{0}")]
    Tls(#[from] crate::tls::TlsError),
    /// The target has not got what the host needs.
    #[error("{0}")]
    Unusable(String),
    /// A namespace is of another kind than what is to be done with it.
    #[error("namespace {id} is a {} namespace", if *is_key_value { "key-value" } else { "block" })]
    OtherKind {
        /// The namespace.
        id: u32,
        /// Whether it is a key-value namespace.
        is_key_value: bool,
    },
    /// The target answers no queries of a profile.
    #[error("the target does not answer queries of its profile (invalid opcode c2h)")]
    NoProfile,
    /// There is no key-value namespace.
    #[error("the target has no key-value namespace")]
    NoKeyValue,
    /// Nobody there speaks Samsung's key-value command set.
    #[error("the target does not speak Samsung's key-value command set")]
    NoSamsung,
    /// There are several, of which none was named.
    #[error("the target has {} key-value namespaces; name one of them", .0.len())]
    SeveralKeyValue(Vec<u32>),
    /// The NBD server is not there.
    #[error("cannot connect to {place}: {error}")]
    NbdConnect {
        /// The export, as a URI.
        place: String,
        /// What the system says.
        error: io::Error,
    },
    /// The NBD server does not open the export.
    #[error("{0}")]
    Nbd(#[from] mynah_wire::nbd::client::Unusable),
    /// The NBD server does not speak the protocol well.
    #[error("the NBD server broke the protocol: {0}")]
    NbdBroken(#[from] mynah_wire::nbd::client::Broken),
    /// Connections to the export may not see the same bytes.
    #[error(
        "the NBD server does not say that several connections see the same bytes \
         (NBD_FLAG_CAN_MULTI_CONN)"
    )]
    OneConnection,
    /// The target's answers make no sense.
    #[error("the target says something that cannot be: {0}")]
    Nonsense(String),
}

impl HostError {
    /// What the user can do about it, if that is known.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            HostError::Connect { error, .. }
                if error.kind() == io::ErrorKind::ConnectionRefused =>
            {
                Some("is a target listening there? `mynah serve --tcp ADDR:PORT` starts one")
            }
            HostError::Socket { .. } => {
                Some("is a drive served there? `mynah serve --vfio-user DIR` serves one")
            }
            HostError::Refused { status, .. } => match without_hints(*status) {
                Status::CONNECT_INVALID_HOST => {
                    Some("the subsystem lets in chosen hosts only: --host-nqn says who you are")
                }
                Status::CONNECT_INVALID_PARAMETERS => Some(
                    "is the NQN right? Without one, `mynah bench tcp://HOST:PORT` finds what there is",
                ),
                Status::AUTHENTICATION_REQUIRED => {
                    Some("the subsystem wants hosts to authenticate: --host-key gives the key")
                }
                _ => None,
            },
            HostError::Authentication(Failure::Failed) => Some(
                "--host-key must be the host's own, and --controller-key the subsystem's; a host \
                 is told by its NQN (--host-nqn)",
            ),
            HostError::Authentication(Failure::GroupNotUsable | Failure::HashNotUsable) => Some(
                "--auth-group and --auth-hash say what may be used, at either end; the null group \
                 and those above ffdhe4096 only if they name them",
            ),
            #[cfg(feature = "tls")]
            HostError::Tls(crate::tls::TlsError::Handshake(_)) => {
                Some("does the target want TLS, and has it this key for this host (--host-nqn)?")
            }
            HostError::NbdConnect { .. } => {
                Some("is an NBD server listening there? `mynah serve --nbd unix:PATH` starts one")
            }
            HostError::Nbd(Unusable::Unknown { .. }) => {
                Some("`nbdinfo --list URI` lists the exports of a server")
            }
            HostError::OneConnection => Some(
                "one connection (--numjobs 1, one flow at a time) has many requests outstanding with \
                 --iodepth",
            ),
            HostError::OtherKind { is_key_value: true, .. } => Some(
                "`mynah kv TARGET` uses its keys, and `mynah bench TARGET --kv MIX` puts a load on \
                 them; --nsid names another namespace",
            ),
            HostError::OtherKind { is_key_value: false, .. } => Some(
                "`mynah bench TARGET --rw KIND` puts a load on its blocks; --nsid names another \
                 namespace",
            ),
            HostError::NoProfile => Some(
                "only `mynah serve` does; of another target `mynah bench TARGET --profile` shows the \
                 host's side",
            ),
            HostError::NoKeyValue => Some(
                "`mynah serve --namespace SIZE,kv` serves one; `mynah bench TARGET --rw KIND` puts a \
                 load on blocks",
            ),
            HostError::NoSamsung => Some(
                "`mynah serve --namespace SIZE,kv-samsung --vfio-user DIR` serves one; without \
                 --key-space NVMe's own set is spoken",
            ),
            HostError::Protocol(_) => {
                Some("does an NVMe/TCP target listen there, without TLS or with it as you said?")
            }
            HostError::NotNvme(_) => {
                Some("is the port right? NVMe/TCP targets listen at 4420 unless told otherwise")
            }
            HostError::Timeout { what: connection::REQUEST, .. } => Some(
                "is it an NVMe/TCP target? Servers of other protocols wait in silence, and so do \
                 targets that want TLS (--tls-psk)",
            ),
            _ => None,
        }
    }
}

/// The status without its hints about retries and the error log.
fn without_hints(status: Status) -> Status {
    Status::new(status.code_type(), status.code())
}

/// What the answer to a connect, or to anything else, means.
fn describe_refusal(what: &str, status: Status) -> String {
    // Fabrics commands have meanings of their own for codes of I/O commands (Base Specification
    // 2.0, status codes of fabrics commands).
    let name = match without_hints(status) {
        Status::CONNECT_INCOMPATIBLE_FORMAT => "incompatible format",
        Status::CONNECT_CONTROLLER_BUSY => "controller busy",
        Status::CONNECT_INVALID_PARAMETERS => "invalid parameters",
        Status::CONNECT_RESTART_DISCOVERY => "restart discovery",
        Status::CONNECT_INVALID_HOST => "invalid host",
        _ => return describe(status),
    };
    match what == CONNECTING {
        true => format!("{name} (status {}/{:#04x})", status.code_type(), status.code()),
        false => describe(status),
    }
}

/// Name of a host's first step in messages.
pub(crate) const CONNECTING: &str = "connecting to the subsystem";

/// A status in words.
pub(crate) fn describe(status: Status) -> String {
    let code = format!("status {}/{:#04x}", status.code_type(), status.code());
    match status.name() {
        Some(name) => format!("{} ({code})", name.to_lowercase().replace('_', " ")),
        None => code,
    }
}
