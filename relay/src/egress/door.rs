//! One session's door out: what its listeners, its name server and its packet socket share.
//!
//! Runs in: host (any thread).

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use policy::ServerName;
use policy::egress::{HostName, Rule};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::answer::Recent;
use super::audit::Audit;
use super::dial::Dialler;
use super::names::Names;
use super::pump::Buffers;
use super::rate::Rate;
use super::record::{Event, Kind, Proto};
use super::verdict::{Standing, Target, Verdict, judge, judge_name};

/// How many connections a session may have at once, the ones that are being made among them.
pub(super) const MAX_FLOWS: usize = 256;
/// How many connections to the name server a session may have at once.
pub(super) const MAX_DNS_CONNECTIONS: usize = 32;
/// How many questions a network may ask a second, and at once. An answer costs some microseconds, and a
/// program that makes a connection for each request asks twice for each; what comes on top is not answered.
const QUESTIONS: u32 = 4_000;

/// A network of the session: its own, or that of one server with a list of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Whose it is; nothing for the session's own.
    pub name: Option<ServerName>,
    /// The address that its packets come from.
    pub v4: Ipv4Addr,
    /// The IPv6 address that its packets come from.
    pub v6: Ipv6Addr,
    /// What may be reached from it.
    pub rules: Vec<Rule>,
}

/// One network and what it has used so far.
#[derive(Debug)]
pub(super) struct Side {
    network: Network,
    pub(super) names: Names,
    pub(super) questions: Rate,
    pub(super) recent: Recent,
}

/// Returns the address that a client dialled: what the kernel says is the near end of its connection.
pub(super) type Dialled = fn(&TcpStream) -> io::Result<SocketAddr>;

/// What all the tasks of one session share.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) audit: Audit,
    pub(super) dialler: Dialler,
    pub(super) buffers: Buffers,
    pub(super) flows: Arc<Semaphore>,
    pub(super) dns_connections: Arc<Semaphore>,
    pub(super) dialled: Dialled,
    sides: Vec<Side>,
    ports: BTreeSet<u16>,
}

impl Door {
    pub(super) fn new(
        audit: Audit,
        dialler: Dialler,
        networks: Vec<Network>,
        ports: BTreeSet<u16>,
    ) -> Self {
        let side = |network| Side {
            network,
            names: Names::default(),
            questions: Rate::new(QUESTIONS, QUESTIONS),
            recent: Recent::default(),
        };
        Self {
            audit,
            dialler,
            buffers: Buffers::default(),
            flows: Arc::new(Semaphore::new(MAX_FLOWS)),
            dns_connections: Arc::new(Semaphore::new(MAX_DNS_CONNECTIONS)),
            dialled: TcpStream::local_addr,
            sides: networks.into_iter().map(side).collect(),
            ports,
        }
    }

    /// Returns the network that a packet or a connection comes from.
    pub(super) fn side_of(&self, source: IpAddr) -> Option<&Side> {
        let source = source.to_canonical();
        self.sides.iter().find(|side| source == side.network.v4 || source == side.network.v6)
    }

    /// Returns the network of a server, or the session's own.
    pub(super) fn side_named(&self, name: Option<&ServerName>) -> Option<&Side> {
        self.sides.iter().find(|side| side.network.name.as_ref() == name)
    }

    /// Says whether the gateway has a socket that takes connections to this port.
    pub(super) fn listens_on(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }
}

impl Side {
    /// Returns whose network it is.
    pub(super) fn name(&self) -> Option<&ServerName> {
        self.network.name.as_ref()
    }

    /// Returns what a client of this network means by an address.
    pub(super) fn target(&self, address: IpAddr) -> Target {
        Target::of(address, &self.names)
    }

    /// Judges an attempt to connect.
    pub(super) fn judge(&self, target: &Target, port: u16) -> Verdict {
        judge(&self.network.rules, self.name(), target, port)
    }

    /// Judges a question for a name.
    pub(super) fn judge_name(&self, name: &HostName) -> (Verdict, Option<Standing>) {
        judge_name(&self.network.rules, self.name(), name)
    }

    /// Returns an event of this network about a target, with nothing decided yet.
    pub(super) fn event(&self, kind: Kind, proto: Proto, target: &Target, port: u16) -> Event {
        Event { network: self.network.name.clone(), ..Event::about(kind, proto, target, port) }
    }
}
