//! What is read from refused packets.
//!
//! Runs in: host (tests).

use super::super::harness::Dice;
use super::*;

const SYN_V4: [u8; 40] = [
    0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 2, 198, 18, 1, 0, // IPv4
    0x9c, 0x40, 0x0c, 0xea, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0, // TCP
];

fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    bytes.extend("fd53::2".parse::<Ipv6Addr>().unwrap().octets());
    bytes.extend("2606:2800::1".parse::<Ipv6Addr>().unwrap().octets());
    bytes.extend(rest);
    bytes
}

fn packet(source: &str, target: &str, port: u16, proto: Proto) -> Packet {
    Packet {
        source: source.parse().unwrap(),
        target: target.parse().unwrap(),
        port: Some(port),
        proto,
    }
}

#[test]
fn a_first_segment_and_a_datagram_are_read_in_both_families() {
    assert_eq!(parse(&SYN_V4), Some(packet("198.18.0.2", "198.18.1.0", 3_306, Proto::Tcp)));
    let mut options = SYN_V4.to_vec();
    options[0] = 0x46;
    options.splice(20..20, [1, 1, 1, 0]);
    assert_eq!(parse(&options), parse(&SYN_V4));
    let udp = v6(17, &[0x9c, 0x40, 0, 123, 0, 8, 0, 0]);
    assert_eq!(parse(&udp), Some(packet("fd53::2", "2606:2800::1", 123, Proto::Udp)));
    let extended = v6(
        0,
        &[[60, 0, 0, 0, 0, 0, 0, 0], [44, 0, 0, 0, 0, 0, 0, 0], [17, 0, 0, 0, 0, 0, 0, 9]].concat(),
    );
    let extended = [extended, vec![0x9c, 0x40, 0, 123, 0, 8, 0, 0]].concat();
    assert_eq!(parse(&extended), parse(&udp));
}

#[test]
fn other_protocols_are_told_without_a_port() {
    for (number, proto) in [(1, Proto::Icmp), (47, Proto::Other), (132, Proto::Other)] {
        let mut bytes = SYN_V4;
        bytes[9] = number;
        let read = parse(&bytes).unwrap();
        assert_eq!((read.proto, read.port), (proto, None));
    }
}

#[test]
fn what_is_no_attempt_is_passed_over() {
    let with = |at: usize, value: u8| {
        let mut bytes = SYN_V4;
        bytes[at] = value;
        parse(&bytes)
    };
    assert_eq!(with(33, 0x12), None, "an answer to a first segment");
    assert_eq!(with(33, 0x10), None);
    assert_eq!(with(9, 2), None, "what a kernel says by itself");
    assert_eq!(with(7, 1), None, "a later fragment");
    assert_eq!(with(0, 0x44), None, "a header shorter than a header");
    assert_eq!(with(0, 0x4f), None, "a header longer than the packet");
    assert_eq!(with(0, 0x55), None);
    for length in 0..SYN_V4.len() {
        let is_read = parse(&SYN_V4[..length]).is_some();
        assert_eq!(is_read, length >= 34, "{length}");
    }
}

#[test]
fn no_bytes_break_the_reader() {
    let mut dice = Dice(11);
    let seeds = [SYN_V4.to_vec(), v6(0, &[0; 64]), v6(44, &[17; 64]), v6(51, &[0; 64])];
    for turn in 0..100_000 {
        let mut bytes = seeds[turn % seeds.len()].clone();
        for _ in 0..=dice.below(6) {
            let at = dice.below(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte = dice.byte();
            }
        }
        bytes.truncate(dice.below(bytes.len() + 1));
        if let Some(packet) = parse(&bytes) {
            assert!(packet.proto != Proto::Dns && bytes.len() >= 20);
        }
    }
}
