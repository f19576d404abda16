//! The sockets of a gateway: DNS, listeners for every address, and one that sees what the kernel refuses.
//!
//! Runs in: setup (the gateway's network namespace is the current one; CAP_NET_ADMIN, CAP_NET_RAW and
//! CAP_NET_BIND_SERVICE over it).

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, SockaddrIn6, bind, listen, setsockopt,
    socket, sockopt,
};

use crate::netlink::Family;
use crate::{check, own};

/// Binds a UDP socket to a port of every address, and has the address of each packet told (ip(7), IP_PKTINFO).
///
/// # Errors
/// What the calls say.
pub fn datagrams(family: Family, port: u16) -> Result<OwnedFd, Errno> {
    let socket = bound(family, SockType::Datagram, port)?;
    match family {
        Family::V4 => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        Family::V6 => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
    }
    Ok(socket)
}

/// Listens for TCP on a port of every address.
///
/// # Errors
/// What the calls say.
pub fn listener(family: Family, port: u16) -> Result<OwnedFd, Errno> {
    let socket = bound(family, SockType::Stream, port)?;
    listen(&socket, Backlog::new(512)?)?;
    Ok(socket)
}

fn bound(family: Family, kind: SockType, port: u16) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let domain = match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    let socket = socket(domain, kind, flags, None)?;
    match family {
        Family::V4 => {
            let any = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
            bind(socket.as_raw_fd(), &any)?;
        }
        Family::V6 => {
            setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
            let any = SockaddrIn6::from(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0));
            bind(socket.as_raw_fd(), &any)?;
        }
    }
    Ok(socket)
}

/// Opens a socket that sees what nothing here answers: TCP to a port without a listener (its first packet),
/// UDP other than DNS, and other protocols (packet(7)).
///
/// # Errors
/// What the calls say; EPERM without CAP_NET_RAW.
pub fn refusals(listened: &BTreeSet<u16>) -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // Protocol 0: it receives nothing until it is bound, so nothing that the filter has not seen.
    // SAFETY: takes only integers.
    let socket = own(unsafe { libc::socket(libc::AF_PACKET, kind, 0) }.into())?;
    let mut program = filter(listened);
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::EINVAL)?;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    let value = (&raw const program).cast::<libc::c_void>();
    let size =
        libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).map_err(|_| Errno::EINVAL)?;
    let fd = socket.as_raw_fd();
    // SAFETY: the program and its instructions live through the call; the kernel copies and checks them.
    let result =
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, size) };
    check(result.into())?;
    // SAFETY: sockaddr_ll is plain integers, for which all zeroes is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::c_ushort::try_from(libc::AF_PACKET).map_err(|_| Errno::EINVAL)?;
    address.sll_protocol =
        libc::c_ushort::try_from(libc::ETH_P_ALL).map_err(|_| Errno::EINVAL)?.to_be();
    let value = (&raw const address).cast::<libc::sockaddr>();
    let size =
        libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).map_err(|_| Errno::EINVAL)?;
    // SAFETY: the address lives through the call and its size is given.
    check(unsafe { libc::bind(fd, value, size) }.into())?;
    Ok(socket)
}

/// As many bytes of a packet as its headers have.
const SNAP: u32 = 128;

/// Ends the program with how much of the packet is kept (linux/bpf_common.h, BPF_RET | BPF_K).
const RETURN: u16 = 0x06;

/// Where a jump leads; the distances are filled in when all lengths are known.
#[derive(Clone, Copy)]
enum To {
    Next,
    Keep,
    Drop,
    V6,
    Udp4,
    Udp6,
}

/// Writes the filter: classic BPF over the packet from its network header on (SOCK_DGRAM).
fn filter(listened: &BTreeSet<u16>) -> Vec<libc::sock_filter> {
    use To::{Drop, Keep, Next, Udp4, Udp6, V6};
    // Fields that are not of the packet (linux/filter.h, SKF_AD_OFF + SKF_AD_PROTOCOL, + SKF_AD_PKTTYPE).
    const PROTOCOL: u32 = 0xffff_f000;
    const DIRECTION: u32 = 0xffff_f004;
    const OUTGOING: u32 = 4;
    // Instructions (linux/bpf_common.h): load a word, half or byte at an offset, or at X and an offset; X becomes
    // the length of an IPv4 header; compare, test bits, mask.
    const WORD: u16 = 0x20;
    const HALF: u16 = 0x28;
    const BYTE: u16 = 0x30;
    const HALF_FROM_X: u16 = 0x48;
    const BYTE_FROM_X: u16 = 0x50;
    const X_IS_HEADER: u16 = 0xb1;
    const EQUAL: u16 = 0x15;
    const ANY_OF: u16 = 0x45;
    const AND: u16 = 0x54;
    let mut program: Vec<(u16, u32, To, To)> = Vec::new();
    let load = |code: u16, offset: u32| (code, offset, Next, Next);
    let equal = |value, yes, no| (EQUAL, value, yes, no);
    let set = |value, yes, no| (ANY_OF, value, yes, no);
    let and = |value| (AND, value, Next, Next);
    program.extend([
        load(WORD, DIRECTION),
        equal(OUTGOING, Drop, Next),
        load(WORD, PROTOCOL),
        equal(0x86dd, V6, Next),
        equal(0x0800, Next, Drop),
        // IPv4 (RFC 791): only the first fragment has ports; X is the header's length.
        load(HALF, 6),
        set(0x1fff, Drop, Next),
        load(X_IS_HEADER, 0),
        load(BYTE, 9),
        equal(17, Udp4, Next),
        equal(6, Next, Keep),
        // TCP (RFC 9293): SYN without ACK.
        load(BYTE_FROM_X, 13),
        and(0x12),
        equal(0x02, Next, Drop),
        load(HALF_FROM_X, 2),
    ]);
    program.extend(listened.iter().map(|port| equal(u32::from(*port), Drop, Next)));
    program.push(equal(53, Drop, Keep));
    let udp4 = program.len();
    program.extend([load(HALF_FROM_X, 2), equal(53, Drop, Keep)]);
    let v6 = program.len();
    program.extend([
        // IPv6 (RFC 8200): without extension headers, which nothing in a box needs.
        load(BYTE, 6),
        equal(17, Udp6, Next),
        // ICMPv6 is how neighbours find each other here.
        equal(58, Drop, Next),
        equal(6, Next, Keep),
        load(BYTE, 53),
        and(0x12),
        equal(0x02, Next, Drop),
        load(HALF, 42),
    ]);
    program.extend(listened.iter().map(|port| equal(u32::from(*port), Drop, Next)));
    program.push(equal(53, Drop, Keep));
    let udp6 = program.len();
    program.extend([load(HALF, 42), equal(53, Drop, Keep)]);
    let keep = program.len();
    assemble(&program, [keep, keep + 1, v6, udp4, udp6])
}

/// Turns places into distances, and appends the two ends.
fn assemble(
    program: &[(u16, u32, To, To)],
    [keep, drop, v6, udp4, udp6]: [usize; 5],
) -> Vec<libc::sock_filter> {
    let distance = |here: usize, to: To| {
        let there = match to {
            To::Next => here + 1,
            To::Keep => keep,
            To::Drop => drop,
            To::V6 => v6,
            To::Udp4 => udp4,
            To::Udp6 => udp6,
        };
        // At most 64 ports twice: every distance fits.
        u8::try_from(there - here - 1).unwrap_or(u8::MAX)
    };
    let mut instructions: Vec<libc::sock_filter> = program
        .iter()
        .enumerate()
        .map(|(here, (code, k, yes, no))| libc::sock_filter {
            code: *code,
            jt: distance(here, *yes),
            jf: distance(here, *no),
            k: *k,
        })
        .collect();
    instructions.push(libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: SNAP });
    instructions.push(libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 });
    instructions
}
