//! Where the host asks for the addresses of names.
//!
//! Runs in: any (pure data).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::network::Network;
use crate::error::quote;

const STANDARD: u16 = 53;
const LINK_LOCAL: Network = Network::v6(0xfe80 << 112, 10);

/// `resolver`: the DNS server that the host asks, an address and perhaps a port (53 when not said). It is
/// the operator's choice and may be private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Resolver(SocketAddr);

/// Says why a text is not the address of a DNS server.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResolverError {
    /// No address, or no port.
    #[error(
        "expected an address and perhaps a port, such as 192.0.2.1 or [2001:db8::1]:53, found {found}"
    )]
    Form {
        /// What stood there.
        found: String,
    },
    /// An address at which no server can be asked.
    #[error("expected the address of one DNS server, found {found}")]
    Address {
        /// The address.
        found: IpAddr,
    },
}

impl Resolver {
    /// Returns the server's address and port.
    #[must_use]
    pub fn address(self) -> SocketAddr {
        self.0
    }
}

impl FromStr for Resolver {
    type Err = ResolverError;

    fn from_str(text: &str) -> Result<Self, ResolverError> {
        let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let alone = match inside {
            None => text.parse::<IpAddr>().ok(),
            Some(inside) => inside.parse().ok().filter(IpAddr::is_ipv6),
        };
        let address = match alone {
            Some(address) => SocketAddr::new(address, STANDARD),
            None => text.parse().map_err(|_| ResolverError::Form { found: quote(text) })?,
        };
        let has_zone = matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0);
        if address.port() == 0 || has_zone {
            return Err(ResolverError::Form { found: quote(text) });
        }
        let ip = address.ip();
        let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        // A link-local IPv6 address means nothing without an interface, which cannot be said here.
        if ip.is_unspecified() || ip.is_multicast() || is_broadcast || LINK_LOCAL.contains(ip) {
            return Err(ResolverError::Address { found: ip });
        }
        Ok(Self(address))
    }
}

impl TryFrom<String> for Resolver {
    type Error = ResolverError;
    fn try_from(text: String) -> Result<Self, ResolverError> {
        text.parse()
    }
}

impl From<Resolver> for String {
    fn from(resolver: Resolver) -> Self {
        resolver.to_string()
    }
}

impl fmt::Display for Resolver {
    /// Writes it as a user would: without the port where it is 53.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.port() {
            STANDARD => self.0.ip().fmt(f),
            _ => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
#[path = "resolver_tests.rs"]
mod tests;
