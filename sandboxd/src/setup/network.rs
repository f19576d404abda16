//! The networks of a session: loopback alone, or a door out over a gateway.
//!
//! ```text
//!   session netns ──veth── ┌─────────┐        sockets of the gateway go to the host by SCM_RIGHTS;
//!   a server's    ──veth── │ gateway │ ─ ─ ─  no process stays in it, and it has no uplink
//!   loopback alone         └─────────┘
//! ```
//! Every destination is local to the gateway (AnyIP), so a listener on a port gets the connections to that
//! port of every address, and the kernel refuses all other ports. The sockets keep the gateway alive: when
//! their holder dies, the veths go with it, and what remains in a box is its loopback.
//!
//! Runs in: setup (one thread; CAP_NET_ADMIN in the session's user namespace, nothing outside).

use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use nix::sched::{CloneFlags, setns, unshare};
use sandbox_sys::netlink::{Family, LOCAL, MAIN, Netlink};
use sandbox_sys::{Failing, Failure, process, socket};

use crate::wire::{Link, NetworkOrder};

/// What the networks leave behind.
#[derive(Debug)]
pub(super) struct Networks {
    /// The gateway's sockets, in the order of [`crate::wire::SetupReply`]; none without a gateway.
    pub(super) gateway: Vec<OwnedFd>,
    /// The namespaces of the servers that have their own, in the order's order.
    pub(super) servers: Vec<OwnedFd>,
}

/// Builds the networks and leaves the process in the session's own.
pub(super) fn build(order: &NetworkOrder) -> Result<Networks, Failure> {
    if !order.has_gateway() {
        // The first namespace has no other use: it is the session's.
        settle()?;
        let session = current()?;
        let servers = order.servers.iter().map(|_| isolated()).collect::<Result<_, _>>()?;
        enter(&session)?;
        return Ok(Networks { gateway: Vec::new(), servers });
    }
    let mut gateway = Gateway::open(order)?;
    let session = isolated()?;
    if let Some(link) = &order.session {
        gateway.join(0, link, order, &session)?;
    }
    let mut servers = Vec::new();
    for (number, link) in (1..).zip(&order.servers) {
        let server = isolated()?;
        if let Some(link) = link {
            gateway.join(number, link, order, &server)?;
        }
        servers.push(server);
    }
    enter(&session)?;
    Ok(Networks { gateway: gateway.sockets, servers })
}

/// Makes a namespace with loopback, enters it and returns it.
fn isolated() -> Result<OwnedFd, Failure> {
    unshare(CloneFlags::CLONE_NEWNET).failing("create a network namespace")?;
    settle()?;
    current()
}

/// What every network of a box has: loopback, and its low ports open to all its processes.
fn settle() -> Result<(), Failure> {
    process::raise_loopback().failing("bring up the loopback interface")?;
    fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
        .failing("open the low ports of the box")
}

fn current() -> Result<OwnedFd, Failure> {
    // /proc/self is this process's in the host's /proc, which is still in sight.
    File::open("/proc/self/ns/net").map(OwnedFd::from).failing("hold a network namespace")
}

fn enter(namespace: &OwnedFd) -> Result<(), Failure> {
    setns(namespace, CloneFlags::CLONE_NEWNET).failing("enter the session's network namespace")
}

/// The gateway while it is built: a socket to its routing tables, and those that go to the host.
struct Gateway {
    netlink: Netlink,
    sockets: Vec<OwnedFd>,
}

/// Rules for packets of the gateway's own come before the one that holds every address for local.
const OWN_PACKETS: u32 = 10;
const EVERYTHING: u32 = 1000;

impl Gateway {
    /// Makes the namespace that the process was born into the gateway, and opens all its sockets.
    fn open(order: &NetworkOrder) -> Result<Self, Failure> {
        process::raise_loopback().failing("bring up the gateway's loopback")?;
        harden()?;
        let mut netlink = Netlink::open().failing("reach the gateway's routing tables")?;
        let loopback = netlink.find("lo").failing("find the gateway's loopback")?;
        for family in order.families().iter().copied() {
            netlink.add_rule(EVERYTHING, LOCAL, family, None).failing("add the gateway's rule")?;
            netlink.remove_first_rule(family).failing("order the gateway's rules")?;
            netlink
                .own_all_addresses(loopback, family)
                .failing("hold every address in the gateway")?;
        }
        Ok(Self { netlink, sockets: open_sockets(order)? })
    }

    /// Joins a network to the gateway. The current namespace is that network.
    fn join(
        &mut self,
        number: u32,
        link: &Link,
        order: &NetworkOrder,
        network: &OwnedFd,
    ) -> Result<(), Failure> {
        let here = format!("vg{number}");
        self.netlink
            .add_veth(&here, "eth0", network.as_fd())
            .failing("make the link to the gateway")?;
        let inside = &mut Netlink::open().failing("reach the network's routing tables")?;
        let (outer, inner) = (
            self.netlink.find(&here).failing("find the gateway's end")?,
            inside.find("eth0").failing("find the network's end")?,
        );
        self.netlink.raise(outer).failing("bring up the gateway's end")?;
        inside.raise(inner).failing("bring up the network's end")?;
        let pairs = [
            (IpAddr::V4(order.gateway.v4), IpAddr::V4(link.v4), Family::V4),
            (IpAddr::V6(order.gateway.v6), IpAddr::V6(link.v6), Family::V6),
        ];
        let wanted = order.families();
        for (gateway, own, family) in pairs.into_iter().filter(|pair| wanted.contains(&pair.2)) {
            let cannot = "give the link its addresses";
            self.netlink.add_address(outer, gateway).failing(cannot)?;
            inside.add_address(inner, own).failing(cannot)?;
            let cannot = "give the link its routes";
            inside.add_neighbour_route(inner, gateway).failing(cannot)?;
            inside.add_default_route(inner, gateway).failing(cannot)?;
            self.netlink.add_neighbour_route(outer, own).failing(cannot)?;
            let preference = OWN_PACKETS + number;
            self.netlink.add_rule(preference, MAIN, family, Some(own)).failing(cannot)?;
        }
        // Both ends, or the first connection may wait a second for a packet that was lost.
        inside.wait_up("eth0").failing("wait for the network's end")?;
        self.netlink.wait_up(&here).failing("wait for the gateway's end")
    }
}

/// Turns off what a gateway without an uplink has no use for.
fn harden() -> Result<(), Failure> {
    let settings = [
        ("ipv4/ip_forward", "0"),
        ("ipv4/icmp_echo_ignore_all", "1"),
        ("ipv4/conf/all/accept_source_route", "0"),
        ("ipv4/conf/default/accept_source_route", "0"),
        ("ipv4/conf/all/accept_redirects", "0"),
        ("ipv4/conf/default/rp_filter", "1"),
    ];
    for (name, value) in settings {
        let path = format!("/proc/sys/net/{name}");
        fs::write(&path, value).failing_on("set the gateway's", &path)?;
    }
    Ok(())
}

/// DNS on UDP and TCP, the packet socket, then a listener for each port, IPv4 before IPv6.
fn open_sockets(order: &NetworkOrder) -> Result<Vec<OwnedFd>, Failure> {
    const DNS: u16 = 53;
    let families = || order.families().iter().copied();
    let mut sockets = Vec::new();
    for family in families() {
        sockets.push(socket::datagrams(family, DNS).failing("open the gateway's DNS socket")?);
    }
    for family in families() {
        sockets.push(socket::listener(family, DNS).failing("open the gateway's DNS listener")?);
    }
    sockets.push(socket::refusals(&order.ports).failing("open the gateway's packet socket")?);
    for port in order.ports.iter() {
        for family in families() {
            let listener = socket::listener(family, *port);
            sockets.push(listener.failing_on("listen in the gateway on port", &port.to_string())?);
        }
    }
    Ok(sockets)
}
