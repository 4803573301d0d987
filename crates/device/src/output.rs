//! What a subsystem wants done.

use crate::StoreJob;
use crate::held::Held;
use crate::store::Place;
use mynah_model::io::FlowId;
use mynah_stamp::{LinkSpans, StageSpans, Time};
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry, command};

/// A transport queue: a connection that carries one submission queue and its completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Queue(pub(crate) u32);

impl Queue {
    /// A small number that no other queue has at the same time; good as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What [`crate::Subsystem::poll`] returns.
#[derive(Debug)]
pub enum Output {
    Completion(Completion),
    /// The queue is over: end its connection, and then call [`crate::Subsystem::detach`].
    /// Nothing more will be said about it.
    Close {
        queue: Queue,
        /// For the log, in a few words.
        reason: &'static str,
    },
    /// An authentication command, which somebody else has to answer with
    /// [`crate::Subsystem::answer_authentication`].
    Authentication(Authentication),
    /// A query of a profile, which somebody else has to answer with
    /// [`crate::Subsystem::answer_query`].
    Query(Box<Query>),
}

impl Output {
    pub(crate) fn queue(&self) -> Queue {
        match self {
            Output::Completion(completion) => completion.queue,
            Output::Close { queue, .. } => *queue,
            Output::Authentication(authentication) => authentication.queue,
            Output::Query(query) => query.queue,
        }
    }
}

/// Authentication Send or Receive.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// The queue that authenticates.
    pub queue: Queue,
    pub entry: SubmissionEntry,
    /// The command's fields, parsed.
    pub command: command::Authentication,
    /// What was sent; `None` for Receive.
    pub data: Option<Vec<u8>>,
    pub host_nqn: String,
    pub host_id: [u8; 16],
    /// Identifier of the controller.
    pub controller_id: u16,
    /// Which queue of the controller; 0 is the admin queue.
    pub queue_id: u16,
}

/// A query of a profile ([`mynah_wire::nvme::query`]).
#[derive(Clone, Debug)]
pub struct Query {
    pub queue: Queue,
    /// The command: one of [`mynah_wire::nvme::opcode::query`], or Get Log Page.
    pub entry: SubmissionEntry,
    /// A program that is to be stored.
    pub program: Option<Vec<u8>>,
    /// Bytes that an answer may have.
    pub room: u32,
    /// Offset and length of the part of the log page that was asked for; `None`: it is no log page.
    pub(crate) page: Option<(u64, u32)>,
    /// When it came, on the host's clock.
    pub came: Time,
    /// NQN of the host that asks.
    pub host_nqn: String,
    /// Identifier of the controller.
    pub controller_id: u16,
    /// Which queue of the controller.
    pub queue_id: u16,
}

impl Query {
    /// Whether it is Get Log Page.
    pub fn is_page(&self) -> bool {
        self.page.is_some()
    }
}

/// What a command counts as in statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CommandKind {
    Fabrics,
    Admin,
    Read,
    Write,
    Flush,
    /// Dataset Management and Write Zeroes that deallocates.
    Trim,
    /// Every other I/O command.
    OtherIo,
    /// Store of a value under a key.
    Store,
    Retrieve,
    /// Delete of a key and its value.
    Delete,
    Exist,
    List,
}

#[derive(Debug)]
pub struct Completion {
    /// The transport queue that the command came on.
    pub queue: Queue,
    /// Which flow the queue belongs to, by its number in [`crate::Subsystem::flow_names`]. Only I/O
    /// queues belong to one for certain.
    pub flow: FlowId,
    /// The completion. Its queue head is 0xffff on queues without flow control: only there
    /// may a transport leave out the completion of a successful read.
    pub entry: CompletionEntry,
    pub data: CompletionData,
    pub kind: CommandKind,
    /// Bytes of data read or written by the host.
    pub bytes: u32,
    /// The model's time when the command came.
    pub arrival: Time,
    /// When the model says that the host sees the completion. `None`: not modelled, may go
    /// out at once.
    pub due: Option<Time>,
    /// Where the time went; sums to `due - arrival`. All zero without `due`.
    pub stages: StageSpans,
    /// What went to stages of an Ethernet link beside them: then all sum to `due - arrival`.
    pub link: Option<Box<LinkSpans>>,
    /// Where a guest's data lie, as the transport counts.
    pub(crate) transfer: u32,
    /// The model has said when the guest sees it, or is not asked.
    pub(crate) direct: bool,
    /// Memory that the completion holds; given back when it is dropped, and not read otherwise.
    pub(crate) _held: Option<Box<Held>>,
}

#[derive(Debug)]
pub enum CompletionData {
    None,
    Bytes(Vec<u8>),
    /// Bytes of the media, which [`crate::Subsystem::fill`] copies.
    Media(Media),
    /// Bytes of a value, which [`crate::Subsystem::fill`] copies.
    Value(Value),
    /// No data; tells the transport that the connection has become a queue.
    Connected(Connected),
}

/// What a connection has become with its Connect command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Identifier of the controller.
    pub controller_id: u16,
    /// Which queue of it; 0 is the admin queue.
    pub queue_id: u16,
    pub entries: u32,
    /// Whether completions say how far the controller has come in the submission queue.
    pub flow_control: bool,
}

impl CompletionData {
    /// Length of the data.
    pub fn bytes(&self) -> usize {
        match self {
            CompletionData::None | CompletionData::Connected(_) => 0,
            CompletionData::Bytes(bytes) => bytes.len(),
            CompletionData::Media(media) => media.bytes as usize,
            CompletionData::Value(value) => value.bytes as usize,
        }
    }
}

/// Where bytes of a completion lie in the store.
#[derive(Debug)]
pub struct Media {
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) job: Option<StoreJob>,
}

/// Bytes of a value, from one on, which stays what it is until its completion has taken it.
#[derive(Debug)]
pub struct Value {
    pub(crate) pinned: Place,
    pub(crate) skip: u32,
    pub(crate) bytes: u32,
    /// Size of the whole value.
    pub(crate) size: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_small_enough_to_be_handed_on() {
        // Every I/O copies one some times: its stages, and as little else as there can be.
        assert_eq!(size_of::<Completion>() - size_of::<StageSpans>(), 104);
    }
}
