//! A Unix socket through which bytes and descriptors go. Never blocks.

use mynah_wire::vfio_user::DESCRIPTORS_MAX;
use rustix::cmsg_space;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// A message's bytes and file descriptors.
#[derive(Debug)]
pub struct Received {
    /// So many bytes; 0: the other side has closed the connection.
    pub bytes: usize,
    /// Descriptors that came with them.
    pub descriptors: Vec<OwnedFd>,
    /// There were more than that.
    pub lost: bool,
}

/// A connected local socket that also carries file descriptors.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// A channel over a connected stream socket that does not block.
    pub fn new(socket: OwnedFd) -> Channel {
        Channel { socket }
    }

    /// Ends the connection for all who still hold the channel.
    pub fn hang_up(&self) {
        // Fails only if it has ended already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Receives bytes, and the descriptors that belong to them; `None` if there is nothing yet.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(into)];
        let message = match recvmsg(&self.socket, &mut parts, &mut control, flags) {
            Ok(message) => message,
            Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let lost = message.flags.contains(ReturnFlags::CTRUNC);
        Ok(Some(Received { bytes: message.bytes, descriptors, lost }))
    }

    /// Sends bytes, and descriptors with the first of them; how many bytes. 0 if there is no room.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::INVAL.into());
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Ok(sent) => Ok(sent),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_and_descriptors_go_through() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (Channel::new(one.into()), Channel::new(other.into()));
        let mut buffer = [0; 8];
        assert!(other.receive(&mut buffer).unwrap().is_none());
        let (memory, file) = Shared::create("test", 4096).unwrap();
        memory.write(0, &[42]);
        assert_eq!(one.send(b"abc", &[file.as_fd()]).unwrap(), 3);
        assert_eq!(one.send(b"defgh", &[]).unwrap(), 5);
        let first = other.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((first.bytes, &buffer[..3], first.lost), (3, &b"abc"[..], false));
        let same = Shared::map(&first.descriptors[0], 0, 4096, true, false).unwrap();
        let mut byte = [0];
        same.read(0, &mut byte);
        assert_eq!(byte, [42]);
        let second = other.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((second.bytes, second.descriptors.len()), (5, 0));
        let many = vec![file.as_fd(); DESCRIPTORS_MAX];
        one.send(b"x", &many).unwrap();
        let third = other.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((third.descriptors.len(), third.lost), (DESCRIPTORS_MAX, false));
        drop(one);
        assert_eq!(other.receive(&mut buffer).unwrap().unwrap().bytes, 0);
    }
}
