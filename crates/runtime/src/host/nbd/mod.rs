//! Exports of NBD servers as targets: a connection is a queue, and an export a namespace of blocks.
//!
//! There is no controller: what is known of an export comes with the handshake of its first connection, which
//! becomes the first queue, as some servers take only one. Others follow only if the server says that all of
//! them see the same bytes (NBD_FLAG_CAN_MULTI_CONN). TLS is not spoken.

mod place;
mod queue;

pub use place::{NbdPlace, NbdPlaceError, NbdServer};
pub(super) use queue::Queue;

use super::HostError;
use super::namespace::Namespace;
use super::transport::{Facts, Features, Remote, Source};
use mynah_stamp::Span;
use mynah_wire::nbd::client::Offer;
use mynah_wire::nbd::flag;
use mynah_wire::nvme::command::Identify;
use queue::Opened;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Most entries of a queue.
const ENTRIES_MAX: u32 = 4_096;
/// Most bytes of a request, whatever a server takes.
const TRANSFER_BYTES_MAX: u64 = 32 << 20;
/// The smallest unit of requests here: sectors of the load.
const BLOCK_BYTES_MIN: u32 = 512;

/// An export to be loaded.
#[derive(Clone, Debug)]
pub struct NbdOptions {
    /// Where it is.
    pub place: NbdPlace,
    /// Structured replies are asked for, and not only where the server lets nobody in without them.
    pub structured: bool,
    /// Other connections to it are used at the same time.
    pub several: bool,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// An export, and its first connection until a queue takes that.
#[derive(Clone)]
pub(super) struct Export {
    options: NbdOptions,
    offer: Offer,
    first: Arc<Mutex<Option<Opened>>>,
}

impl Export {
    fn has(&self, flags: u16) -> bool {
        let all = flags | flag::HAS_FLAGS;
        self.offer.flags & all == all
    }

    fn block_shift(&self) -> u8 {
        self.offer.sizes.least.max(BLOCK_BYTES_MIN).trailing_zeros() as u8
    }

    fn name(&self) -> String {
        match &self.options.place.export[..] {
            "" => "the default NBD export".to_owned(),
            name => format!("NBD export `{name}`"),
        }
    }
}

impl Source for Export {
    type Queue = Queue;

    fn facts(&self) -> Facts {
        Facts {
            queue_entries_max: ENTRIES_MAX,
            transfer_bytes_max: u64::from(self.offer.sizes.most).min(TRANSFER_BYTES_MAX),
            transition: Span::ZERO,
            controller_id: 0,
            features: Features {
                writes: !self.has(flag::READ_ONLY),
                trims: self.has(flag::TRIM) && !self.has(flag::READ_ONLY),
                flushes: self.has(flag::FLUSH),
                writes_through: self.has(flag::FUA),
            },
        }
    }

    fn open_queue(&self, _id: u16, entries: u16, _bytes_max: usize) -> Result<Queue, HostError> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let opened = match first {
            Some(first) => first,
            None => Opened::new(&self.options)?,
        };
        if opened.offer != self.offer {
            return Err(HostError::Nonsense(
                "another export than on the first connection has this name".to_owned(),
            ));
        }
        Ok(Queue::new(opened, self.block_shift(), entries))
    }
}

impl Remote for Export {
    type Options = NbdOptions;
    type Source = Export;

    fn connect(options: &NbdOptions) -> Result<Export, HostError> {
        let opened = Opened::new(options)?;
        let offer = opened.offer;
        let export =
            Export { options: options.clone(), offer, first: Arc::new(Mutex::new(Some(opened))) };
        if options.several {
            export.clone().request_queues(2)?;
        }
        Ok(export)
    }

    fn model(&self) -> String {
        self.name()
    }

    fn description(&self) -> String {
        format!("{}, blocks of {} bytes", self.name(), 1u32 << self.block_shift())
    }

    fn identify(
        &mut self,
        _what: &Identify,
        _namespace: u32,
        name: &'static str,
    ) -> Result<Vec<u8>, HostError> {
        Err(HostError::Unusable(format!("an NBD export has no controller: no {name}")))
    }

    fn blocks(&mut self, id: u32) -> Result<Namespace, HostError> {
        let block_shift = self.block_shift();
        match self.offer.bytes >> block_shift {
            0 => Err(HostError::Unusable(format!(
                "{} has {} bytes, and its requests are multiples of {}",
                self.name(),
                self.offer.bytes,
                1u32 << block_shift
            ))),
            blocks => Ok(Namespace { id, blocks, block_shift }),
        }
    }

    fn request_queues(&mut self, count: u16) -> Result<(), HostError> {
        match count > 1 && !self.has(flag::MULTIPLE_CONNECTIONS) {
            true => Err(HostError::OneConnection),
            false => Ok(()),
        }
    }

    fn source(&self) -> Export {
        self.clone()
    }

    /// Its queues notice what becomes of their connections.
    fn check(&mut self) -> Result<(), HostError> {
        Ok(())
    }

    fn keep_alive(&mut self) -> Result<(), HostError> {
        Ok(())
    }

    fn keep_alive_time(_options: &NbdOptions) -> Duration {
        Duration::ZERO
    }

    fn timeout(options: &NbdOptions) -> Duration {
        options.timeout
    }

    fn shutdown(self) -> Result<(), HostError> {
        Ok(())
    }
}
