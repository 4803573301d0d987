//! Receiving bytes with the time at which they came, as the kernel saw it.

use nix::sys::socket::{self, ControlMessageOwned, MsgFlags};
use nix::sys::time::TimeSpec;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Has the kernel note when bytes come to a socket; whether it does.
pub(crate) fn begin(descriptor: &impl AsFd) -> bool {
    socket::setsockopt(&descriptor.as_fd(), socket::sockopt::ReceiveTimestampns, &true).is_ok()
}

/// Room for what comes with received bytes: one stamp.
pub(crate) fn control_buffer() -> Vec<u8> {
    nix::cmsg_space!(TimeSpec)
}

/// Receives what is there, without waiting: how many bytes, and when the last of them came by the
/// system's calendar, if it was noted. `control` is [`control_buffer`].
pub(crate) fn receive(
    descriptor: impl AsFd,
    buffer: &mut [u8],
    control: &mut [u8],
) -> Result<(usize, Option<Duration>), Errno> {
    let mut parts = [IoSliceMut::new(buffer)];
    let (descriptor, flags) = (descriptor.as_fd().as_raw_fd(), MsgFlags::MSG_DONTWAIT);
    let received = socket::recvmsg::<()>(descriptor, &mut parts, Some(control), flags)
        .map_err(|error| Errno::from_raw_os_error(error as i32))?;
    let stamp = received.cmsgs().ok().and_then(|mut messages| {
        messages.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
            _ => None,
        })
    });
    Ok((received.bytes, stamp))
}
