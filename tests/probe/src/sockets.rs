//! Families, types and protocols of sockets: those that a box has, and those that it refuses.
//!
//! Runs in: probe.

use serde_json::{Map, Value};

use crate::kernel::{address, call, outcome};

const STREAM: usize = 1;
const DGRAM: usize = 2;
const RAW: usize = 3;
const SEQPACKET: usize = 5;

/// Name, family, type, protocol.
const KINDS: &[(&str, usize, usize, usize)] = &[
    ("unix stream", 1, STREAM, 0),
    ("unix datagram", 1, DGRAM, 0),
    ("unix seqpacket", 1, SEQPACKET, 0),
    ("tcp", 2, STREAM, 0),
    ("tcp by number", 2, STREAM, 6),
    ("tcp non-blocking close-on-exec", 2, STREAM | 0o2_004_000, 0),
    ("udp", 2, DGRAM, 0),
    ("udp by number", 2, DGRAM, 17),
    ("tcp6", 10, STREAM, 0),
    ("udp6", 10, DGRAM, 0),
    ("netlink route", 16, RAW, 0),
    ("raw", 2, RAW, 1),
    ("raw6", 10, RAW, 58),
    ("ping", 2, DGRAM, 1),
    ("ping6", 10, DGRAM, 58),
    ("sctp", 2, STREAM, 132),
    ("sctp seqpacket", 2, SEQPACKET, 132),
    ("mptcp", 2, STREAM, 262),
    ("netlink sock_diag", 16, RAW, 4),
    ("netlink xfrm", 16, RAW, 6),
    ("netlink audit", 16, RAW, 9),
    ("netlink netfilter", 16, RAW, 12),
    ("netlink uevent", 16, RAW, 15),
    ("netlink generic", 16, RAW, 16),
    ("packet", 17, RAW, 0x300),
    ("packet datagram", 17, DGRAM, 0x300),
    ("key", 15, RAW, 2),
    ("can", 29, RAW, 1),
    ("tipc", 30, SEQPACKET, 0),
    ("bluetooth", 31, RAW, 1),
    ("rxrpc", 33, DGRAM, 2),
    ("rds", 21, SEQPACKET, 0),
    ("alg", 38, SEQPACKET, 0),
    ("vsock", 40, STREAM, 0),
    ("qipcrtr", 42, DGRAM, 0),
    ("smc", 43, STREAM, 0),
    ("xdp", 44, RAW, 0),
    ("x25", 9, SEQPACKET, 0),
];

pub(crate) fn all() -> Value {
    let mut answers = Map::new();
    for &(name, family, kind, protocol) in KINDS {
        let result = call(libc::SYS_socket, &[family, kind, protocol]);
        answers.insert(name.to_owned(), outcome(result).into());
    }
    for (name, family, kind) in
        [("pair unix", 1, STREAM), ("pair unix datagram", 1, DGRAM), ("pair tipc", 30, SEQPACKET)]
    {
        let pair = [0_i32; 2];
        let result = call(libc::SYS_socketpair, &[family, kind, 0, address(&pair)]);
        answers.insert(name.to_owned(), outcome(result).into());
    }
    Value::Object(answers)
}
