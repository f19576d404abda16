//! Which networks a session gets, with which addresses; and the sockets of its gateway as they come back.
//!
//! The addresses are the same in every session: their networks know nothing of each other.
//!
//! Runs in: host (tokio).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use policy::egress::EgressMode;
use policy::{Server, ServerName, ServerNetwork, SessionFile};
use relay::egress::{Egress, EgressSettings, Gateway, Network, Upstream};
use sandbox_sys::{Errno, Failure};

use crate::fault::{Fault, Kind};
use crate::wire::{Link, NetworkOrder};

/// The benchmarking range (RFC 2544), which is routed nowhere: the first of its addresses are links, the rest
/// stand for names. The IPv6 ones are a unique local prefix (RFC 4193).
const GATEWAY: Link = link(1);

const fn link(number: u8) -> Link {
    Link {
        v4: Ipv4Addr::new(198, 18, 0, number),
        v6: Ipv6Addr::new(0xfd53, 0x616e, 0x6462, 0, 0, 0, 0, number as u16),
    }
}

/// Plans the networks of a session.
pub(crate) fn order(file: &SessionFile) -> NetworkOrder {
    let session = (file.egress.mode == EgressMode::Filter).then(|| link(2));
    let servers = (3..=u8::MAX)
        .zip(own(file))
        .map(|(number, (_, server))| match server.network() {
            ServerNetwork::Own(_) => Some(link(number)),
            ServerNetwork::Loopback | ServerNetwork::Session => None,
        })
        .collect();
    let ports = policy::egress::ports(file.rules());
    // The kernel has this file when it has IPv6 (proc(5)).
    let ipv6 = Path::new("/proc/net/if_inet6").exists();
    NetworkOrder { gateway: GATEWAY, session, servers, ports, ipv6 }
}

/// The servers that have a network namespace of their own, in the order of their names.
fn own(file: &SessionFile) -> impl Iterator<Item = (&ServerName, &Server)> {
    file.servers.iter().filter(|(_, server)| match server.network() {
        ServerNetwork::Session => false,
        ServerNetwork::Loopback | ServerNetwork::Own(_) => true,
    })
}

/// The place of a server's own network in the order.
pub(crate) fn place(file: &SessionFile, name: &ServerName) -> Option<usize> {
    own(file).position(|(other, _)| other == name)
}

/// Opens the door out: serves the gateway's sockets.
pub(crate) fn open(
    file: &SessionFile,
    order: &NetworkOrder,
    sockets: Vec<OwnedFd>,
    session: &str,
    log: Option<PathBuf>,
) -> Result<Option<Egress>, Fault> {
    if !order.has_gateway() {
        return Ok(None);
    }
    let cannot = |error: &dyn std::error::Error| Fault::chain(Kind::Host, error);
    let gateway = gateway(order, sockets).map_err(|failure| cannot(&failure))?;
    let resolver = match &file.egress.resolver {
        Some(resolver) => Upstream::from_servers([resolver.address()]),
        None => Upstream::from_host().map_err(|error| cannot(&error))?,
    };
    let settings = EgressSettings {
        session: session.to_owned(),
        networks: networks(file, order),
        resolver,
        log,
    };
    Egress::start(gateway, settings).map(Some).map_err(|error| cannot(&error))
}

fn networks(file: &SessionFile, order: &NetworkOrder) -> Vec<Network> {
    let session = order.session.map(|link| Network {
        name: None,
        v4: link.v4,
        v6: link.v6,
        rules: file.egress.allow.clone(),
    });
    let servers = own(file).zip(&order.servers).filter_map(|((name, server), link)| {
        let ServerNetwork::Own(rules) = server.network() else { return None };
        let link = (*link)?;
        let rules = rules.to_vec();
        Some(Network { name: Some(name.clone()), v4: link.v4, v6: link.v6, rules })
    });
    session.into_iter().chain(servers).collect()
}

/// Gives the sockets their names back; their order is that of setup's answer.
fn gateway(order: &NetworkOrder, sockets: Vec<OwnedFd>) -> Result<Gateway, Failure> {
    let families = order.families().len();
    let expected = 2 * families + 1 + order.ports.len() * families;
    if sockets.len() != expected {
        return Err(Failure::new("take the gateway's sockets", "", Errno::EBADMSG));
    }
    let mut sockets = sockets.into_iter();
    let udp = sockets.by_ref().take(families).collect();
    let tcp = sockets.by_ref().take(families).collect();
    let missing = || Failure::new("take the gateway's packet socket", "", Errno::EBADMSG);
    let packets = sockets.next().ok_or_else(missing)?;
    let ports = order.ports.iter().flat_map(|port| std::iter::repeat_n(*port, families));
    Ok(Gateway { udp, tcp, listeners: ports.zip(sockets).collect(), packets })
}
