//! What the kernel says of a TCP connection.

use mynah_stamp::Span;
use nix::libc;
use std::os::fd::{AsFd, AsRawFd};

/// The beginning of `struct tcp_info` (Linux, include/uapi/linux/tcp.h), which later kernels add to:
/// eight bytes, then words of four and of eight bytes. A shorter buffer gets the beginning.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Info {
    _state: [u8; 8],
    _until_total_retrans: [u32; 24],
    _rates_and_bytes: [u64; 4],
    _segments_and_unsent: [u32; 3],
    /// The least round trip lately (5 minutes, unless `tcp_min_rtt_wlen` says otherwise), in
    /// microseconds; all bits set: there was none.
    min_rtt: u32,
}

/// The least round trip that the kernel has seen on a connection lately: of segments and their
/// acknowledgements, which the kernel makes, so that no process has to wake up for it.
#[allow(unsafe_code)]
pub(crate) fn least_round_trip(socket: &impl AsFd) -> Option<Span> {
    let mut info = Info::default();
    let mut bytes = size_of::<Info>() as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes up to `bytes` bytes into
    // `info`, of which any are valid, and the number of them into `bytes`.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut bytes,
        )
    };
    let is_known = result == 0 && bytes as usize == size_of::<Info>() && info.min_rtt != u32::MAX;
    is_known.then(|| Span::from_us(info.min_rtt.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn it_is_where_the_kernel_has_it() {
        assert_eq!(std::mem::offset_of!(Info, min_rtt), 148);
    }

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
        let least = least_round_trip(&far).expect("bytes were acknowledged");
        assert!(least < Span::from_secs(1), "{least}");
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(least_round_trip(&one), None);
    }
}
