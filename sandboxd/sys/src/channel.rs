//! Message sockets between our own processes: SOCK_SEQPACKET pairs that carry descriptors.
//!
//! A message is whole or absent (unix(7)), so there is no framing and no partial read. Descriptors ride along
//! as SCM_RIGHTS. A receiver always has room for as many as the kernel lets one message carry: what does not fit
//! would be cut, and nix answers a cut with an error that forgets those that did arrive. Too many are dropped,
//! and so closed, here.
//!
//! Runs in: any.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    recvmsg, sendmsg, socketpair,
};

/// The longest message. A message longer than the socket's buffer is refused by the kernel (EMSGSIZE).
pub const MESSAGE_LIMIT: usize = 160 * 1024;

/// The most descriptors that ride on one message: a gateway's sockets.
pub const DESCRIPTOR_LIMIT: usize = 140;

/// The most that the kernel lets one message carry (SCM_MAX_FD, unix(7)).
const KERNEL_LIMIT: usize = 253;

/// Makes a connected pair of message sockets.
///
/// # Errors
/// What socketpair(2) says, such as EMFILE.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let kind = SockType::SeqPacket;
    socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)
}

/// One message as it came in.
#[derive(Debug)]
pub struct Message {
    /// The bytes, whole.
    pub bytes: Vec<u8>,
    /// The descriptors that rode along, in their order.
    pub descriptors: Vec<OwnedFd>,
}

/// Sends one message with its descriptors.
///
/// # Errors
/// What sendmsg(2) says; EPIPE when the other end is gone (never a signal).
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    let parts = [IoSlice::new(bytes)];
    loop {
        match sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, control, MsgFlags::MSG_NOSIGNAL, None)
        {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Receives one message with its descriptors; `None` means that the other end is gone.
///
/// # Errors
/// What recvmsg(2) says (EAGAIN on a non-blocking socket); EMSGSIZE when the message or its descriptors did
/// not fit: it is dropped whole.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Result<Option<Message>, Errno> {
    if buffer.len() < MESSAGE_LIMIT {
        // Zeroes of the allocator's, which come as untouched pages: only those that a message reaches cost.
        *buffer = vec![0; MESSAGE_LIMIT];
    }
    let (length, descriptors) = receive_into(socket, buffer)?;
    if length == 0 && descriptors.is_empty() {
        return Ok(None);
    }
    Ok(Some(Message { bytes: buffer[..length].to_vec(), descriptors }))
}

/// Receives bytes and the descriptors that ride along: from a stream socket, no more than the buffer holds.
///
/// # Errors
/// As [`receive`].
pub fn receive_into(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut control = nix::cmsg_space!([RawFd; KERNEL_LIMIT]);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = loop {
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
            Ok(received) => break received,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    };
    let mut descriptors = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raws) = message {
            for raw in raws {
                // SAFETY: recvmsg installed this descriptor for us; nobody else knows its number.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(raw) });
            }
        }
    }
    let cut = received.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
    if cut || descriptors.len() > DESCRIPTOR_LIMIT {
        return Err(Errno::EMSGSIZE);
    }
    Ok((received.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_message_arrives_whole_with_its_descriptors() {
        let (a, b) = pair().unwrap();
        let extra = crate::memory::sealed("x", b"inside").unwrap();
        send(a.as_fd(), b"hello", &[extra.as_fd()]).unwrap();
        let got = receive(b.as_fd(), &mut Vec::new()).unwrap().unwrap();
        assert_eq!(got.bytes, b"hello");
        assert_eq!(crate::memory::read(got.descriptors[0].as_fd(), 100).unwrap(), b"inside");
    }

    #[test]
    fn the_end_of_the_other_side_is_told_apart_from_a_message() {
        let (a, b) = pair().unwrap();
        drop(a);
        assert!(receive(b.as_fd(), &mut Vec::new()).unwrap().is_none());
        assert_eq!(send(b.as_fd(), b"x", &[]), Err(Errno::EPIPE));
    }

    #[test]
    fn too_many_descriptors_are_refused_and_closed() {
        let (a, b) = pair().unwrap();
        let fds = vec![a.as_fd(); DESCRIPTOR_LIMIT + 3];
        send(a.as_fd(), b"x", &fds).unwrap();
        assert_eq!(receive(b.as_fd(), &mut Vec::new()).unwrap_err(), Errno::EMSGSIZE);
        send(a.as_fd(), b"next", &[]).unwrap();
        assert_eq!(receive(b.as_fd(), &mut Vec::new()).unwrap().unwrap().bytes, b"next");
    }
}
