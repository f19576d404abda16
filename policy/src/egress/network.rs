//! A range of addresses.
//!
//! Runs in: any (pure data).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address, or all addresses that share its first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Makes a range of IPv4 addresses for a table; `prefix` is at most 32 and the other bits are zero.
    pub(super) const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// Makes a range of IPv6 addresses for a table, from its first address; `prefix` is at most 128.
    pub(super) const fn v6(first: u128, prefix: u8) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::from_bits(first)), prefix }
    }

    /// Makes a range of one address.
    pub(super) fn single(address: IpAddr) -> Self {
        Self { address, prefix: width(address) }
    }

    /// Makes the range of the addresses whose first `prefix` bits are those of `address`; nothing when an
    /// address has fewer bits.
    pub(super) fn around(address: IpAddr, prefix: u8) -> Option<Self> {
        if prefix > width(address) {
            return None;
        }
        let rest = u32::from(width(address) - prefix);
        let first = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(rest).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Some(Self { address: first, prefix })
    }

    /// Returns the first address of the range.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns how many bits the addresses share: 32 or 128 for a single address.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns whether the range is one address.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.prefix == width(self.address)
    }

    /// Returns whether an address lies in the range.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        shared_bits(self.address, address).is_some_and(|shared| shared >= u32::from(self.prefix))
    }

    /// Returns whether some address lies in both ranges.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let shorter = u32::from(self.prefix.min(other.prefix));
        shared_bits(self.address, other.address).is_some_and(|shared| shared >= shorter)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Counts the first bits that are the same; nothing for addresses of two kinds.
fn shared_bits(one: IpAddr, other: IpAddr) -> Option<u32> {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            Some((one.to_bits() ^ other.to_bits()).leading_zeros())
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            Some((one.to_bits() ^ other.to_bits()).leading_zeros())
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
    }
}

impl fmt::Display for Network {
    /// Writes a single address without its number of bits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        if self.is_single() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}
