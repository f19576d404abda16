//! The name server's sockets: UDP and TCP, IPv4 and IPv6, whatever server a client meant to ask.
//!
//! Every address is local in the gateway, so a question to 8.8.8.8 arrives here too, and its answer has to
//! leave from 8.8.8.8: a client that has connected its socket takes no other.
//!
//! Runs in: host (tokio; treats every byte as hostile).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage,
    recvmsg, sendmsg, setsockopt, sockopt,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::answer::answer;
use super::door::Door;
use super::flow::reset;
use super::wire::{Received, Transport, read};

/// The longest question: a name, and the options of a talkative client. Longer ones are no questions.
const LONGEST: usize = 4_096;
/// How many datagrams are answered before others get their turn.
const BATCH: usize = 32;
/// How long a TCP connection may wait for a question or for its answer to be taken, RFC 7766 section 6.2.3.
const IDLE: Duration = Duration::from_secs(10);
/// How long to rest when no connection can be accepted.
const REST: Duration = Duration::from_millis(50);

/// Returns the bytes to send back, if any.
fn respond(door: &Door, source: IpAddr, bytes: &[u8], transport: Transport) -> Option<Vec<u8>> {
    let side = door.side_of(source)?;
    if !side.questions.take() {
        return None;
    }
    match read(bytes) {
        Received::Nothing => None,
        Received::Refused(answer) => Some(answer),
        Received::Question(question) => question.answer(answer(door, side, &question), transport),
    }
}

/// A datagram's way: where it came from and which address was asked.
struct Way {
    source: SocketAddr,
    asked: Option<IpAddr>,
}

/// Asks the kernel to tell which address a datagram was sent to, and to send from any. The second is for
/// IPv6 alone: there an address that only a route makes local counts as foreign (`EINVAL`).
///
/// # Errors
/// When the socket is of neither family.
pub(super) fn prepare(socket: &OwnedFd) -> io::Result<()> {
    let v6 = setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true);
    let v4 = setsockopt(socket, sockopt::Ipv4PacketInfo, &true);
    v6.or(v4)?;
    Ok(setsockopt(socket, sockopt::IpFreebind, &true)?)
}

/// Answers datagrams until the task is ended.
pub(super) async fn serve_udp(door: Arc<Door>, socket: AsyncFd<OwnedFd>) {
    loop {
        let batch = socket.async_io(Interest::READABLE, |socket| serve_batch(&door, socket)).await;
        if batch.is_err() {
            sleep(REST).await;
        }
        // A socket that always has one more would keep a thread for itself.
        tokio::task::yield_now().await;
    }
}

fn serve_batch(door: &Door, socket: &OwnedFd) -> io::Result<()> {
    let mut bytes = [0; LONGEST];
    for count in 0..BATCH {
        match receive(socket, &mut bytes) {
            Ok((length, way)) => {
                let question = bytes.get(..length).unwrap_or_default();
                if let Some(answer) = respond(door, way.source.ip(), question, Transport::Udp) {
                    // Ignored: an answer that does not leave is asked for again, as one lost on a wire.
                    let _ = send(socket, &answer, &way);
                }
            }
            Err(nix::errno::Errno::EAGAIN) if count > 0 => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> nix::Result<(usize, Way)> {
    let mut control = nix::cmsg_space!(libc::in6_pktinfo, libc::in_pktinfo);
    let mut slices = [IoSliceMut::new(bytes)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let fd = socket.as_raw_fd();
    let received = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), flags)?;
    let source = received.address.as_ref().and_then(socket_address);
    let source = source.ok_or(nix::errno::Errno::EAFNOSUPPORT)?;
    let mut asked = None;
    for message in received.cmsgs()? {
        if let ControlMessageOwned::Ipv4PacketInfo(info) = message {
            asked = Some(IpAddr::V4(info.ipi_addr.s_addr.to_ne_bytes().into()));
        } else if let ControlMessageOwned::Ipv6PacketInfo(info) = message {
            asked = Some(IpAddr::V6(info.ipi6_addr.s6_addr.into()));
        }
    }
    Ok((received.bytes, Way { source, asked }))
}

/// Sends an answer from the address that was asked. The way out is left to the routes: they know on which
/// link the client is.
fn send(socket: &OwnedFd, bytes: &[u8], way: &Way) -> nix::Result<usize> {
    let (slices, flags, fd) = ([IoSlice::new(bytes)], MsgFlags::MSG_DONTWAIT, socket.as_raw_fd());
    match (way.source, way.asked) {
        (SocketAddr::V4(to), Some(IpAddr::V4(asked))) => {
            let from = libc::in_addr { s_addr: u32::from_ne_bytes(asked.octets()) };
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: from,
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            let control = [ControlMessage::Ipv4PacketInfo(&info)];
            sendmsg(fd, &slices, &control, flags, Some(&SockaddrIn::from(to)))
        }
        (SocketAddr::V6(to), Some(IpAddr::V6(asked))) => {
            let from = libc::in6_addr { s6_addr: asked.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: from, ipi6_ifindex: link_of(to, asked) };
            let control = [ControlMessage::Ipv6PacketInfo(&info)];
            sendmsg(fd, &slices, &control, flags, Some(&SockaddrIn6::from(to)))
        }
        (to, Some(_) | None) => sendmsg(fd, &slices, &[], flags, Some(&SockaddrStorage::from(to))),
    }
}

/// Returns the link to answer on, for an address that means nothing without one.
fn link_of(to: SocketAddrV6, asked: Ipv6Addr) -> u32 {
    if asked.is_unicast_link_local() { to.scope_id() } else { 0 }
}

fn socket_address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
}

/// Answers on TCP until the task is ended.
pub(super) async fn serve_tcp(door: Arc<Door>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(REST).await;
            continue;
        };
        let Ok(permit) = door.dns_connections.clone().try_acquire_owned() else {
            reset(stream);
            continue;
        };
        let door = door.clone();
        connections.spawn(async move {
            serve_stream(&door, stream, peer.ip()).await;
            drop(permit);
        });
    }
}

/// Answers one question after the other, RFC 7766 section 6.2.1.1: they may come together, or in pieces.
async fn serve_stream(door: &Door, mut stream: TcpStream, source: IpAddr) {
    let mut bytes = Vec::new();
    while let Ok(Some(())) = timeout(IDLE, receive_framed(&mut stream, &mut bytes)).await {
        let Some(answer) = respond(door, source, &bytes, Transport::Tcp) else { return };
        let Ok(length) = u16::try_from(answer.len()) else { return };
        let framed = [length.to_be_bytes().as_slice(), answer.as_slice()].concat();
        if !matches!(timeout(IDLE, stream.write_all(&framed)).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Reads one message with its length in front, RFC 1035 section 4.2.2; nothing at the end, or for a
/// length that no question has.
async fn receive_framed(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let length = usize::from(stream.read_u16().await.ok()?);
    if length == 0 || length > LONGEST {
        return None;
    }
    bytes.resize(length, 0);
    stream.read_exact(bytes).await.ok().map(drop)
}

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;
