//! What the kernel says of a TCP connection (TCP_INFO).

use mynah_stamp::Span;
use nix::libc;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of `struct tcp_info` that are looked at (include/uapi/linux/tcp.h): up to tcpi_rcv_ooopack. A
/// kernel that has less of it leaves zeros.
const INFO_BYTES: usize = 228;
/// Where the least round trip stands; all bits set: there was none.
const MIN_RTT: usize = 148;
/// Where segments are counted that came, and those that were sent and acknowledged (Linux 4.18).
const SEGMENTS_IN: usize = 140;
const DELIVERED: usize = 192;

/// What the kernel has seen of a connection's round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// The least that one took; nothing if none has ended yet.
    pub least: Option<Span>,
    pub count: u64,
}

/// The beginning of a connection's `struct tcp_info`.
pub(crate) struct TcpInfo([u8; INFO_BYTES]);

impl TcpInfo {
    /// What this socket says; nothing if it is none of TCP.
    #[allow(unsafe_code)]
    pub(crate) fn of(socket: &impl AsFd) -> Option<TcpInfo> {
        let mut info = [0u8; INFO_BYTES];
        let mut bytes = INFO_BYTES as libc::socklen_t;
        let descriptor = socket.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `bytes` bytes
        // into the buffer, which has them, and their number into `bytes`.
        let failed = unsafe {
            libc::getsockopt(
                descriptor,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        (failed == 0).then_some(TcpInfo(info))
    }

    /// The word of four bytes there.
    pub(crate) fn word(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[at..at + 4]);
        u32::from_ne_bytes(bytes)
    }

    /// The word of eight bytes there.
    pub(crate) fn long(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[at..at + 8]);
        u64::from_ne_bytes(bytes)
    }
}

/// The round trips that the kernel has seen on a connection: how many at most, and the least lately (5
/// minutes, unless `tcp_min_rtt_wlen` says otherwise). They are of segments and their acknowledgements,
/// which the kernel makes, so that no process has to wake up for it. Nothing if it is none of TCP.
pub(crate) fn round_trips(socket: &impl AsFd) -> Option<RoundTrips> {
    let info = TcpInfo::of(socket)?;
    let least = info.word(MIN_RTT);
    let least = (least != 0 && least != u32::MAX).then(|| Span::from_us(least.into()));
    // One acknowledgement may be for several segments.
    Some(RoundTrips { least, count: info.word(DELIVERED).min(info.word(SEGMENTS_IN)).into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_round_trip_on_this_machine_is_short_and_not_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut byte = [0];
        for _ in 0..100 {
            near.write_all(&[1]).unwrap();
            far.read_exact(&mut byte).unwrap();
            far.write_all(&[2]).unwrap();
            near.read_exact(&mut byte).unwrap();
        }
        let RoundTrips { least, count } = round_trips(&far).expect("it is one of TCP");
        let least = least.expect("bytes were acknowledged");
        assert!(least < Span::from_secs(1), "{least}");
        // The last answer may have yet to be acknowledged.
        assert!((99..=300).contains(&count), "{count}");
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(round_trips(&one), None);
    }
}
