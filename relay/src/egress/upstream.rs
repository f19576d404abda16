//! Which name servers the host asks.
//!
//! Runs in: host (any thread; reads one small file).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Where a host says which name servers it uses.
const FILE: &str = "/etc/resolv.conf";
/// How many name servers are used, as by every resolver that reads this file, resolv.conf(5).
const MAX_SERVERS: usize = 3;
/// The port of name servers.
const PORT: u16 = 53;

/// The name servers that are asked when a connection is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    servers: Vec<SocketAddr>,
}

/// Says why the host's name servers are not known.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// The file cannot be read.
    #[error("cannot read the name servers from {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Upstream {
    /// Returns the name servers of the host's own resolver.
    ///
    /// # Errors
    /// When there is a file that says them and it cannot be read.
    pub fn from_host() -> Result<Self, UpstreamError> {
        Self::from_file(Path::new(FILE))
    }

    /// Returns these name servers, the first one asked first.
    pub fn from_servers(servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self { servers: servers.into_iter().take(MAX_SERVERS).collect() }
    }

    /// Returns these name servers at their usual port.
    pub fn from_addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self::from_servers(addresses.into_iter().map(|address| SocketAddr::new(address, PORT)))
    }

    /// Returns the name servers, the first one asked first.
    #[must_use]
    pub fn servers(&self) -> &[SocketAddr] {
        &self.servers
    }

    fn from_file(path: &Path) -> Result<Self, UpstreamError> {
        match std::fs::read(path) {
            Ok(text) => Ok(Self::parse(&String::from_utf8_lossy(&text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::parse("")),
            Err(source) => Err(UpstreamError::Read { path: path.to_owned(), source }),
        }
    }

    /// Reads the lines that name a server and passes over the others, as every resolver does. Where none
    /// does, it is the one on this machine, resolv.conf(5). A server on one link only (`fe80::1%eth0`)
    /// is passed over: the library cannot be told the link.
    fn parse(text: &str) -> Self {
        let server = |line: &str| {
            let mut words = line.split_whitespace();
            if words.next() != Some("nameserver") {
                return None;
            }
            words.next()?.parse::<IpAddr>().ok()
        };
        let servers = Self::from_addresses(text.lines().filter_map(server));
        if servers.servers.is_empty() {
            return Self::from_addresses([IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        }
        servers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        Upstream::parse(text).servers().iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn the_first_three_servers_of_the_file_are_asked() {
        let text = "# a comment\nsearch lan\nnameserver 9.9.9.9\nnameserver\t2620:fe::fe # x\n\
                    ;nameserver 1.2.3.4\nnameserver nonsense\nnameserver fe80::1%eth0\n\
                    options edns0 strange\nnameserver 1.1.1.1\nnameserver 8.8.8.8\n";
        assert_eq!(shown(text), ["9.9.9.9:53", "[2620:fe::fe]:53", "1.1.1.1:53"]);
    }

    #[test]
    fn without_a_server_or_a_file_it_is_the_one_on_this_machine() {
        assert_eq!(shown("search lan\n"), ["127.0.0.1:53"]);
        let missing = Upstream::from_file(Path::new("/nonexistent/resolv.conf")).unwrap();
        assert_eq!(missing.servers().len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Upstream::from_file(folder.path()).unwrap_err();
        assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
    }
}
