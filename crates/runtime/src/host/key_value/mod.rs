//! Typed operations on a key-value namespace, over either transport: several at once, which end in any
//! order, or one after the other.
//!
//! [`Client`] connects, finds the namespace and has one I/O queue. [`Keys`] pages through its keys.

mod keys;
mod session;

pub use keys::Keys;

use super::controller::Controller;
use super::load::Where;
use super::namespace::KeyValueNamespace;
use super::{HostError, describe, persist, vfio_user};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{KeyValueCommand, List, Retrieve, Store, StoreCondition};
use mynah_wire::nvme::key::Key;
use session::Session;
use std::time::Duration;

/// Memory for the data of commands that are under way: as many as it holds, and one at least.
const MEMORY_BYTES: usize = 128 << 20;
/// Bytes of keys that are asked for at a time.
const LIST_BYTES: u32 = 64 << 10;

/// What is asked of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Store {
        key: Key,
        value: Vec<u8>,
        /// Whether the key must, or must not, exist.
        condition: StoreCondition,
    },
    /// Retrieve a value, or as much of it as `bytes` are.
    Retrieve {
        key: Key,
        /// Most bytes of the value to return.
        bytes: u32,
    },
    List {
        /// From where on; the empty key: from the first.
        start: Key,
        /// Bytes of them, as [`mynah_wire::nvme::key::listed_keys`] reads them.
        bytes: u32,
    },
    /// Delete a key and its value.
    Delete(Key),
    /// Ask whether there is a key.
    Exist(Key),
    /// Have everything that was stored outlive a loss of power.
    Flush,
}

impl Request {
    /// As the queue takes it, and how many bytes it moves to the host.
    fn command(&self) -> (KeyValueCommand, u32) {
        use KeyValueCommand as C;
        match *self {
            Request::Store { key, ref value, condition } => {
                let bytes = value.len() as u32;
                (C::Store(Store { key, bytes, condition, uncompressed: false }), 0)
            }
            Request::Retrieve { key, bytes } => {
                (C::Retrieve(Retrieve { key, bytes, raw: false }), bytes)
            }
            Request::List { start, bytes } => (C::List(List { start, bytes }), bytes),
            Request::Delete(key) => (C::Delete(key), 0),
            Request::Exist(key) => (C::Exist(key), 0),
            Request::Flush => (C::Flush, 0),
        }
    }

    /// What it is called in messages.
    fn name(&self) -> &'static str {
        match self {
            Request::Store { .. } => "storing a value",
            Request::Retrieve { .. } => "retrieving a value",
            Request::List { .. } => "listing keys",
            Request::Delete(_) => "deleting a key",
            Request::Exist(_) => "asking for a key",
            Request::Flush => "flushing",
        }
    }

    /// Its key, if it is about one.
    pub fn key(&self) -> Option<Key> {
        match *self {
            Request::Store { key, .. }
            | Request::Retrieve { key, .. }
            | Request::Delete(key)
            | Request::Exist(key) => Some(key),
            Request::List { .. } | Request::Flush => None,
        }
    }
}

/// A completed request.
#[derive(Clone, Debug)]
pub struct Done {
    pub request: Request,
    pub status: Status,
    /// Bytes of the whole value (Retrieve).
    pub size: u32,
    /// Data from the controller: the value, or a list of keys.
    pub data: Vec<u8>,
}

impl Done {
    /// Whether it ended with this status, whatever the hints that go with it.
    pub fn is(&self, status: Status) -> bool {
        super::without_hints(self.status) == status
    }

    /// The status in words.
    pub fn outcome(&self) -> String {
        describe(self.status)
    }

    /// The same, if it succeeded.
    ///
    /// # Errors
    /// If not.
    pub fn succeeded(self) -> Result<Done, HostError> {
        match self.status.is_success() {
            true => Ok(self),
            false => Err(HostError::Refused { what: self.request.name(), status: self.status }),
        }
    }
}

/// How much a client is to be able to do at once.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Most requests under way at once.
    pub requests: u16,
    /// Bytes of each; `None`: whatever values the namespace has.
    pub bytes: Option<u32>,
}

/// What a client needs, whatever it goes over.
trait Driver {
    fn can_submit(&self) -> bool;
    fn submit(&mut self, request: Request);
    fn next_done(&mut self) -> Result<Option<Done>, HostError>;
    fn poll(&mut self) -> Result<Option<Done>, HostError>;
    fn identify(&mut self) -> Result<KeyValueNamespace, HostError>;
    fn shutdown(self: Box<Self>);
}

/// A host of a key-value namespace.
pub struct Client {
    session: Box<dyn Driver>,
    namespace: KeyValueNamespace,
    model: String,
    bytes_max: u32,
}

impl Client {
    /// Connects to a target, which is tried for so long, and finds the namespace: `id`, or the only
    /// key-value one.
    ///
    /// # Errors
    /// If there is no such target or namespace.
    pub fn connect(
        target: &Where,
        id: Option<u32>,
        needs: Needs,
        wait: Duration,
    ) -> Result<Client, HostError> {
        persist(wait, || match target {
            Where::Tcp(options) => Session::<Controller>::open(options, id, needs),
            Where::VfioUser(options) => Session::<vfio_user::Controller>::open(options, id, needs),
            Where::Disk(_) | Where::Nbd(_) => Err(target.without_controller()),
        })
    }

    pub fn namespace(&self) -> &KeyValueNamespace {
        &self.namespace
    }

    /// What the controller says it is.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Most bytes of a value that can be moved here.
    pub fn value_bytes_max(&self) -> u32 {
        self.namespace.value_bytes_max.min(self.bytes_max)
    }

    /// Whether the drive lists keys in the order of their bytes. The specification leaves the order
    /// open, so this is known of drives of our own alone.
    fn lists_in_order(&self) -> bool {
        self.model.starts_with("Mynah")
    }

    /// Whether another request can be submitted now.
    pub fn can_submit(&self) -> bool {
        self.session.can_submit()
    }

    /// Submits a request.
    ///
    /// # Panics
    /// If none can be submitted now, or it moves more bytes than the client was opened for.
    pub fn submit(&mut self, request: Request) {
        assert!(self.can_submit(), "there is no room");
        let bytes = match &request {
            Request::Store { value, .. } => value.len(),
            request => request.command().1 as usize,
        };
        assert!(bytes <= self.bytes_max as usize, "{bytes} bytes are more than {}", self.bytes_max);
        self.session.submit(request);
    }

    /// Waits for the next request to end. `None`: none is under way.
    ///
    /// # Errors
    /// If the target is lost.
    #[expect(clippy::should_implement_trait, reason = "it fails, and goes on after `None`")]
    pub fn next(&mut self) -> Result<Option<Done>, HostError> {
        self.session.next_done()
    }

    /// Looks once whether a request has ended. To be called from time to time where none is under way as
    /// well: the controller hears then that its host is still there.
    ///
    /// # Errors
    /// If the target is lost.
    pub fn poll(&mut self) -> Result<Option<Done>, HostError> {
        self.session.poll()
    }

    /// Asks how many bytes keys and values have now.
    ///
    /// # Errors
    /// If the target does not say.
    pub fn used_bytes(&mut self) -> Result<u64, HostError> {
        self.session.identify().map(|namespace| namespace.used_bytes)
    }

    /// Does one request; no other may be under way.
    ///
    /// # Errors
    /// If the target is lost. That it refuses is no error here.
    pub fn perform(&mut self, request: Request) -> Result<Done, HostError> {
        self.submit(request);
        self.next().map(|done| done.expect("one is under way"))
    }

    /// Leaves the target in order.
    pub fn close(self) {
        self.session.shutdown();
    }
}
