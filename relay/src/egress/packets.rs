//! Sees what the gateway's kernel refused by itself: connections to ports where nobody listens, and UDP.
//!
//! The kernel has answered before a packet is read here, so nothing waits for this; it only notes what
//! happened, with the name behind a synthetic address.
//!
//! Runs in: host (tokio; treats every byte as hostile).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{LinkAddr, recvfrom};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

use super::door::Door;
use super::record::{Event, Kind, Proto, Reason};
use super::verdict::Verdict;

/// What of a packet is looked at: two headers, and extensions of IPv6 between them.
const SNAP: usize = 256;
/// How many packets are read at once before others get their turn.
const BATCH: usize = 64;
/// How long to rest after a full batch, during which the socket's own bounded queue drops what is too much:
/// so a flood costs 6,400 short reads a second at most.
const REST: Duration = Duration::from_millis(10);
/// How many extension headers of IPv6 are passed over.
const MAX_EXTENSIONS: usize = 8;

const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
const NOTHING: u8 = 59;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// One refused packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) source: IpAddr,
    pub(super) target: IpAddr,
    /// Where the protocol has one.
    pub(super) port: Option<u16>,
    pub(super) proto: Proto,
}

/// Reads packets until the task is ended.
pub(super) async fn watch(door: Arc<Door>, socket: AsyncFd<OwnedFd>) {
    loop {
        let read = socket.async_io(Interest::READABLE, |socket| batch(&door, socket)).await;
        match read {
            Ok(count) if count < BATCH => {}
            // The link may have gone down for a moment: that is one error, and no reason to stop.
            Ok(_) | Err(_) => sleep(REST).await,
        }
    }
}

/// Reads some packets; says how many there were.
fn batch(door: &Door, socket: &OwnedFd) -> io::Result<usize> {
    let mut bytes = [0; SNAP];
    for count in 0..BATCH {
        match recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut bytes) {
            Ok((length, from)) => {
                // A filter may let pass what the gateway itself sends, such as its answers.
                let is_ours = from.is_some_and(|from| from.pkttype() == libc::PACKET_OUTGOING);
                if let (false, Some(packet)) = (is_ours, bytes.get(..length).and_then(parse)) {
                    note(door, packet);
                }
            }
            Err(nix::errno::Errno::EAGAIN) if count > 0 => return Ok(count),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(BATCH)
}

/// Notes one refused packet.
fn note(door: &Door, packet: Packet) {
    let Some(side) = door.side_of(packet.source) else { return };
    let (port, is_tcp) = (packet.port.unwrap_or_default(), packet.proto == Proto::Tcp);
    // A connection that came in is judged, and noted, where it is accepted.
    if is_tcp && door.listens_on(port) {
        return;
    }
    let kind = if is_tcp { Kind::Deny } else { Kind::Nontcp };
    let target = side.target(packet.target);
    let verdict = if is_tcp {
        side.judge(&target, port).or_deny(Reason::PortNotOpen)
    } else {
        Verdict::deny(Reason::NotTcp)
    };
    let event = side.event(kind, packet.proto, &target, port);
    door.audit.note(verdict.tell(Event { port: packet.port, ..event }));
}

/// Reads the headers of a packet: a first TCP segment, UDP, or what is neither.
pub(super) fn parse(bytes: &[u8]) -> Option<Packet> {
    match bytes.first()? >> 4 {
        4 => parse_v4(bytes),
        6 => parse_v6(bytes),
        _ => None,
    }
}

/// RFC 791 section 3.1.
fn parse_v4(bytes: &[u8]) -> Option<Packet> {
    let header = bytes.get(..20)?;
    let length = usize::from(header[0] & 0x0f) * 4;
    let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    if length < 20 || offset != 0 {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        let four: [u8; 4] = header.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(four)))
    };
    let (proto, port) = transport(header[9], bytes.get(length..)?)?;
    Some(Packet { source: address(12)?, target: address(16)?, port, proto })
}

/// RFC 8200 sections 3 and 4.
fn parse_v6(bytes: &[u8]) -> Option<Packet> {
    let header = bytes.get(..40)?;
    let address = |at: usize| -> Option<IpAddr> {
        let sixteen: [u8; 16] = header.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(sixteen)))
    };
    let (mut next, mut rest) = (header[6], bytes.get(40..)?);
    for _ in 0..MAX_EXTENSIONS {
        let length = match next {
            // Hop by hop, routing, destination: in units of 8 bytes after the first 8.
            0 | 43 | 60 => 8 + usize::from(*rest.get(1)?) * 8,
            // A fragment: only the first one has the header behind it.
            44 if u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]) & 0xfff8 == 0 => 8,
            // Authentication, RFC 4302 section 2.2: in units of 4 bytes, less 2.
            51 => 8 + usize::from(*rest.get(1)?) * 4,
            _ => break,
        };
        next = *rest.first()?;
        rest = rest.get(length..)?;
    }
    let (proto, port) = transport(next, rest)?;
    Some(Packet { source: address(8)?, target: address(24)?, port, proto })
}

/// Returns the protocol and the port that a packet goes to. RFC 9293 section 3.1, RFC 768. What the kernel of
/// a box says by itself, to find neighbours and groups, is nothing that anybody tried.
fn transport(protocol: u8, bytes: &[u8]) -> Option<(Proto, Option<u16>)> {
    let port = || Some(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
    match protocol {
        TCP if *bytes.get(13)? & (SYN | ACK) == SYN => Some((Proto::Tcp, Some(port()?))),
        UDP if bytes.len() >= 8 => Some((Proto::Udp, Some(port()?))),
        TCP | UDP | IGMP | ICMP_V6 | NOTHING => None,
        ICMP => Some((Proto::Icmp, None)),
        _ => Some((Proto::Other, None)),
    }
}

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
