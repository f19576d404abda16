//! The addresses that nobody in a box may reach, whatever a name resolves to.
//!
//! Runs in: any (pure data).
//!
//! An IPv6 address can carry an IPv4 one, to which some router or the kernel itself hands the packets on;
//! such an address is judged by what it carries. IPv6 outside of 2000::/3 that carries nothing is no
//! public address at all (some hosts run meshes there) and is refused without a row of its own.
//!
//! The host's own addresses belong here too, but only the host knows them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::network::Network;

/// A range of addresses that nobody may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeniedRange {
    /// The addresses.
    pub network: Network,
    /// What they are, in the words of a message: "10.0.0.0/8 is REASON".
    pub reason: &'static str,
}

const fn v4(first: [u8; 4], prefix: u8, reason: &'static str) -> DeniedRange {
    DeniedRange { network: Network::v4(first, prefix), reason }
}

const fn v6(first: u128, prefix: u8, reason: &'static str) -> DeniedRange {
    DeniedRange { network: Network::v6(first, prefix), reason }
}

const METADATA: &str = "a cloud's metadata service";
const PRIVATE: &str = "a private network";
const LOOPBACK: &str = "loopback";
const LINK_LOCAL: &str = "link-local";
const UNSPECIFIED: &str = "no address of another host";
const DOCUMENTATION: &str = "kept for documentation";
const BENCHMARK: &str = "kept for benchmarks and for sandboxd's own addresses";
const PROTOCOLS: &str = "kept for protocols";
const MULTICAST: &str = "multicast or reserved";
const NOT_GLOBAL: &str = "no public address";

/// Where clouds answer with credentials; they lie in the ranges too, but for Azure's, and are named first.
pub const METADATA_ADDRESSES: &[DeniedRange] = &[
    v4([169, 254, 169, 254], 32, METADATA),
    v4([169, 254, 170, 2], 32, METADATA),
    v4([169, 254, 170, 23], 32, METADATA),
    v4([168, 63, 129, 16], 32, METADATA),
    v4([100, 100, 100, 200], 32, METADATA),
    v4([192, 0, 0, 192], 32, METADATA),
    v6(0xfd00_0ec2_0000_0000_0000_0000_0000_0254, 128, METADATA),
    v6(0xfd00_0ec2_0000_0000_0000_0000_0000_0023, 128, METADATA),
    v6(0xfd20_00ce_0000_0000_0000_0000_0000_0254, 128, METADATA),
];

/// The ranges that are not the public internet.
pub const DENIED_RANGES: &[DeniedRange] = &[
    v4([0, 0, 0, 0], 8, UNSPECIFIED),
    v4([10, 0, 0, 0], 8, PRIVATE),
    v4([100, 64, 0, 0], 10, "a provider's private network"),
    v4([127, 0, 0, 0], 8, LOOPBACK),
    v4([169, 254, 0, 0], 16, LINK_LOCAL),
    v4([172, 16, 0, 0], 12, PRIVATE),
    v4([192, 0, 0, 0], 24, PROTOCOLS),
    v4([192, 0, 2, 0], 24, DOCUMENTATION),
    v4([192, 88, 99, 0], 24, "a 6to4 relay"),
    v4([192, 168, 0, 0], 16, PRIVATE),
    v4([198, 18, 0, 0], 15, BENCHMARK),
    v4([198, 51, 100, 0], 24, DOCUMENTATION),
    v4([203, 0, 113, 0], 24, DOCUMENTATION),
    v4([224, 0, 0, 0], 3, MULTICAST),
    v6(0, 128, UNSPECIFIED),
    v6(1, 128, LOOPBACK),
    v6(0x0100 << 112, 64, "a range that is discarded"),
    v6(0x2001_0002 << 96, 48, BENCHMARK),
    v6(0x2001_0010 << 96, 28, PROTOCOLS),
    v6(0x2001_0db8 << 96, 32, DOCUMENTATION),
    v6(0x3fff << 112, 20, DOCUMENTATION),
    v6(0x5f00 << 112, 16, PROTOCOLS),
    v6(0xfc00 << 112, 7, PRIVATE),
    v6(0xfe80 << 112, 10, LINK_LOCAL),
    v6(0xfec0 << 112, 10, "a private network of a site"),
    v6(0xff00 << 112, 8, MULTICAST),
];

const COMPATIBLE: Network = Network::v6(0, 96);
const MAPPED: Network = Network::v6(0xffff << 32, 96);
const NAT64: Network = Network::v6(0x0064_ff9b << 96, 96);
const LOCAL_NAT64: Network = Network::v6(0x0064_ff9b_0001 << 80, 48);
const SIX_TO_FOUR: Network = Network::v6(0x2002 << 112, 16);
const TEREDO: Network = Network::v6(0x2001 << 112, 32);

/// The ranges in which every address carries an IPv4 address.
const CARRIERS: [Network; 6] = [COMPATIBLE, MAPPED, NAT64, LOCAL_NAT64, SIX_TO_FOUR, TEREDO];

const GLOBAL: Network = Network::v6(0x2000 << 112, 3);

/// Returns why an address may not be dialled, in the words of `DeniedRange::reason`; nothing when it may.
///
/// Of an IPv6 address that carries IPv4 addresses (v4-mapped, v4-compatible, NAT64, 6to4, Teredo, ISATAP)
/// each of those is judged. The host's own addresses are not known here.
#[must_use]
pub fn denied_address(address: IpAddr) -> Option<&'static str> {
    if let Some(row) = rows().find(|row| row.network.contains(address)) {
        return Some(row.reason);
    }
    let IpAddr::V6(v6) = address else { return None };
    let carried = carried(v6).into_iter().map(IpAddr::V4).find_map(denied_address);
    carried.or_else(|| (!is_carrier(address) && !GLOBAL.contains(address)).then_some(NOT_GLOBAL))
}

/// Returns why a rule may not list these addresses; nothing when all of them are public. The reason is a
/// sentence. What carries an IPv4 address cannot be listed: the IPv4 address can.
pub(super) fn denied_network(network: &Network) -> Option<String> {
    if let Some(row) = rows().find(|row| row.network.overlaps(network)) {
        return Some(format!("{} is {}", row.network, row.reason));
    }
    if let Some(carrier) = CARRIERS.iter().find(|carrier| carrier.overlaps(network)) {
        return Some(format!("{carrier} carries IPv4 addresses, which have rules of their own"));
    }
    let is_public = network.address().is_ipv4()
        || (GLOBAL.contains(network.address()) && network.prefix() >= GLOBAL.prefix());
    if !is_public {
        return Some(format!("outside of {GLOBAL} there is {NOT_GLOBAL}"));
    }
    let single = denied_address(network.address()).filter(|_| network.is_single());
    single.map(|reason| format!("it carries an IPv4 address that is {reason}"))
}

fn rows() -> impl Iterator<Item = &'static DeniedRange> {
    METADATA_ADDRESSES.iter().chain(DENIED_RANGES)
}

fn is_carrier(address: IpAddr) -> bool {
    CARRIERS.iter().any(|carrier| carrier.contains(address))
}

/// Returns the IPv4 addresses that an IPv6 address carries.
fn carried(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bits = address.to_bits();
    let whole = IpAddr::V6(address);
    let mut carried = Vec::new();
    if [COMPATIBLE, MAPPED, NAT64].iter().any(|carrier| carrier.contains(whole)) {
        carried.push(cut(bits, 96));
    }
    if LOCAL_NAT64.contains(whole) {
        carried.extend(translated(bits));
    }
    if SIX_TO_FOUR.contains(whole) {
        carried.push(cut(bits, 16));
    }
    if TEREDO.contains(whole) {
        // Of the server, and of the client, whose bits are flipped (RFC 4380, section 4).
        carried.extend([cut(bits, 32), cut(!bits, 96)]);
    }
    // ISATAP: an interface identifier of 0000:5efe or 0200:5efe and the address (RFC 5214, section 6.1).
    if matches!(address.segments(), [_, _, _, _, 0x0000 | 0x0200, 0x5efe, _, _]) {
        carried.push(cut(bits, 96));
    }
    carried
}

/// Returns the 32 bits that start at a bit, counted from the left.
fn cut(bits: u128, start: u32) -> Ipv4Addr {
    let [a, b, c, d, ..] = (bits << start).to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

/// Returns what an address of a network's own NAT64 may carry. Where the IPv4 address lies depends on the
/// length of the prefix that the network chose (RFC 6052, section 2.2; the octet at bit 64 is left out),
/// which cannot be seen. Each place counts, but for those that hold next to nothing when it is another.
fn translated(bits: u128) -> Vec<Ipv4Addr> {
    const BEFORE_OCTET: u128 = u128::MAX << 64;
    let without_octet = (bits & BEFORE_OCTET) | ((bits << 8) & !BEFORE_OCTET);
    let places = [48, 56].map(|start| cut(without_octet, start));
    let places = [places[0], places[1], cut(bits, 72), cut(bits, 96)];
    let held = places.into_iter().filter(|place| place.octets()[0] != 0).collect::<Vec<_>>();
    if held.is_empty() { places.into() } else { held }
}

#[cfg(test)]
#[path = "denied_tests.rs"]
mod tests;
