//! Private data of the connection manager's messages (RDMA Transport 1.0, section 3.3): what a host
//! says of the queue that it wants, and what it is answered.

use zerocopy::byteorder::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// RECFMT: the one format there is.
const FORMAT: u16 = 0;
/// Entries of an admin queue, at most: as Linux's target (NVME_AQ_DEPTH in include/linux/nvme.h).
pub const ADMIN_ENTRIES_MAX: u16 = 32;

/// Why a connection is not accepted (RDMA Transport 1.0, figure 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u16)]
pub enum Rejection {
    /// The private data are too short.
    #[error("private data too short")]
    Length = 1,
    /// RECFMT is none that is known.
    #[error("private data of an unknown format")]
    Format = 2,
    /// QID is none that there can be.
    #[error("no such queue")]
    QueueId = 3,
    /// HSQSIZE is too small or too large.
    #[error("size of the send queue")]
    SendQueueSize = 4,
    /// HRQSIZE is too small or too large.
    #[error("size of the receive queue")]
    ReceiveQueueSize = 5,
    /// There is no room for another queue.
    #[error("no resources")]
    Resources = 6,
    /// The host lets nobody read from its memory.
    #[error("no RDMA READ allowed")]
    ReadDepth = 7,
}

/// Bytes of the private data of a rejection.
pub const REJECTION_BYTES: usize = 4;

impl Rejection {
    /// The private data of the refusal.
    pub fn to_bytes(self) -> [u8; REJECTION_BYTES] {
        let [format, status] = [FORMAT.to_le_bytes(), (self as u16).to_le_bytes()];
        [format[0], format[1], status[0], status[1]]
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestBytes {
    format: U16,
    queue_id: U16,
    receive_entries: U16,
    send_entries: U16,
    reserved: [u8; 24],
}

/// Bytes of a request, and of an answer.
pub const REQUEST_BYTES: usize = 32;

/// The queue that a host wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// QID: 0 for the admin queue.
    pub queue_id: u16,
    /// HRQSIZE: responses that it can receive at once.
    pub receive_entries: u16,
    /// HSQSIZE and one: commands that it has under way at once.
    pub send_entries: u16,
}

impl Request {
    /// Reads the private data of a request to connect. The connection manager may have padded them.
    /// Queues have up to `entries_max` entries, and controllers up to `queues_max` I/O queues.
    ///
    /// # Errors
    /// The rejection to answer with.
    pub fn parse(bytes: &[u8], entries_max: u16, queues_max: u16) -> Result<Request, Rejection> {
        let (data, _) = RequestBytes::ref_from_prefix(bytes).map_err(|_| Rejection::Length)?;
        if data.format.get() != FORMAT {
            return Err(Rejection::Format);
        }
        let queue_id = data.queue_id.get();
        if queue_id > queues_max {
            return Err(Rejection::QueueId);
        }
        let most = if queue_id == 0 { entries_max.min(ADMIN_ENTRIES_MAX) } else { entries_max };
        // Linux says of HSQSIZE what SQSIZE says, which is one less (nvmet_rdma_parse_cm_connect_req
        // in drivers/nvme/target/rdma.c).
        let send_entries =
            data.send_entries.get().checked_add(1).filter(|&it| it >= 2 && it <= most);
        let send_entries = send_entries.ok_or(Rejection::SendQueueSize)?;
        let receive_entries = data.receive_entries.get();
        if receive_entries == 0 {
            return Err(Rejection::ReceiveQueueSize);
        }
        Ok(Request { queue_id, receive_entries, send_entries })
    }

    /// The private data of a request to connect.
    pub fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let data = RequestBytes {
            format: U16::new(FORMAT),
            queue_id: U16::new(self.queue_id),
            receive_entries: U16::new(self.receive_entries),
            send_entries: U16::new(self.send_entries.saturating_sub(1)),
            reserved: [0; 24],
        };
        bytes.copy_from_slice(data.as_bytes());
        bytes
    }

    /// What the host is answered: CRQSIZE, commands that can be received at once.
    pub fn acceptance(self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[2..4].copy_from_slice(&self.send_entries.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(queue_id: u16, receive: u16, hsqsize: u16) -> Result<Request, Rejection> {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[2..4].copy_from_slice(&queue_id.to_le_bytes());
        bytes[4..6].copy_from_slice(&receive.to_le_bytes());
        bytes[6..8].copy_from_slice(&hsqsize.to_le_bytes());
        Request::parse(&bytes, 128, 64)
    }

    #[test]
    fn what_linux_sends_is_accepted() {
        // nvme_rdma_route_resolved in drivers/nvme/host/rdma.c: an admin queue, an I/O queue.
        let admin = request(0, 32, 31).expect("an admin queue");
        assert_eq!(admin, Request { queue_id: 0, receive_entries: 32, send_entries: 32 });
        let io = request(4, 128, 127).expect("an I/O queue");
        assert_eq!((io.send_entries, io.acceptance()[2]), (128, 128));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(request(65, 128, 127), Err(Rejection::QueueId));
        assert_eq!(request(1, 128, 128), Err(Rejection::SendQueueSize));
        assert_eq!(request(1, 128, 0), Err(Rejection::SendQueueSize));
        assert_eq!(request(1, 128, 0xffff), Err(Rejection::SendQueueSize));
        assert_eq!(request(0, 33, 32), Err(Rejection::SendQueueSize));
        assert_eq!(request(1, 0, 127), Err(Rejection::ReceiveQueueSize));
        assert_eq!(Request::parse(&[0; 31], 128, 64), Err(Rejection::Length));
        assert_eq!(Request::parse(&[1; 56], 128, 64), Err(Rejection::Format));
        assert_eq!(Rejection::SendQueueSize.to_bytes(), [0, 0, 4, 0]);
    }

    proptest! {
        #[test]
        fn what_is_accepted_lies_within_the_bounds(
            bytes in proptest::collection::vec(any::<u8>(), 0..64), entries in 2u16.., queues: u16,
        ) {
            if let Ok(request) = Request::parse(&bytes, entries, queues) {
                prop_assert!((2..=entries).contains(&request.send_entries));
                prop_assert!(request.queue_id <= queues && request.receive_entries > 0);
                prop_assert!(request.queue_id > 0 || request.send_entries <= ADMIN_ENTRIES_MAX);
                prop_assert_eq!(Request::parse(&request.to_bytes(), entries, queues), Ok(request));
            }
        }
    }
}
