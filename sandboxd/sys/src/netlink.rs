//! Links, addresses, routes and rules of a network namespace (rtnetlink(7)). The one module that holds the
//! netlink crates.
//!
//! A socket keeps the namespace and the rights that it was opened with; so each namespace has its own, opened
//! while it was the current one.
//!
//! Runs in: setup (one thread, blocking; CAP_NET_ADMIN in the session's user namespace).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope,
    RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;

/// The main routing table (rtnetlink(7), RT_TABLE_MAIN).
pub const MAIN: u8 = 254;
/// The table of local addresses (RT_TABLE_LOCAL).
pub const LOCAL: u8 = 255;

/// The number of a link in its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkIndex(u32);

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    fn code(self) -> AddressFamily {
        match self {
            Self::V4 => AddressFamily::Inet,
            Self::V6 => AddressFamily::Inet6,
        }
    }

    fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The length of a host's own prefix.
    fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

/// A socket to the routing tables of one network namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket to the current network namespace.
    ///
    /// # Errors
    /// What socket(2) says.
    pub fn open() -> Result<Self, Errno> {
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(errno)?;
        socket.bind_auto().map_err(errno)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(errno)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Makes a veth pair: one end here, the other in another namespace (veth(4)).
    ///
    /// # Errors
    /// EOPNOTSUPP where the kernel has no veth.
    pub fn add_veth(
        &mut self,
        here: &str,
        there: &str,
        namespace: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        let mut peer = LinkMessage::default();
        peer.attributes.push(LinkAttribute::IfName(there.to_owned()));
        peer.attributes.push(LinkAttribute::NetNsFd(namespace.as_raw_fd()));
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(here.to_owned()));
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.create(RouteNetlinkMessage::NewLink(link))
    }

    /// Finds a link by its name.
    ///
    /// # Errors
    /// ENODEV when there is none.
    pub fn find(&mut self, name: &str) -> Result<LinkIndex, Errno> {
        self.look(name).map(|link| LinkIndex(link.header.index))
    }

    /// Brings a link up.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn raise(&mut self, link: LinkIndex) -> Result<(), Errno> {
        let mut message = LinkMessage::default();
        message.header.index = link.0;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(message), NLM_F_ACK).map(drop)
    }

    /// Waits until the kernel holds a link for up: asking makes it do the work that is pending.
    ///
    /// A fresh veth loses its first packets on a busy host until its link watcher has run; a SYN that is lost
    /// then costs the first connection a second.
    ///
    /// # Errors
    /// ETIMEDOUT when it does not come up.
    pub fn wait_up(&mut self, name: &str) -> Result<(), Errno> {
        const TRIES: u32 = 2000;
        for _ in 0..TRIES {
            let link = self.look(name)?;
            if link.attributes.contains(&LinkAttribute::OperState(State::Up)) {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Err(Errno::ETIMEDOUT)
    }

    /// Gives a link an address of its own, without a subnet around it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_address(&mut self, link: LinkIndex, address: IpAddr) -> Result<(), Errno> {
        let family = Family::of(address);
        let mut message = AddressMessage::default();
        message.header.family = family.code();
        message.header.prefix_len = family.bits();
        message.header.index = link.0;
        message.header.scope = AddressScope::Universe;
        // Nobody else is on this link: a search for duplicates would only make the address wait a second.
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        message.attributes.push(AddressAttribute::Local(address));
        message.attributes.push(AddressAttribute::Address(address));
        self.create(RouteNetlinkMessage::NewAddress(message))
    }

    /// Says that an address is reached directly over a link.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_neighbour_route(&mut self, link: LinkIndex, to: IpAddr) -> Result<(), Errno> {
        let family = Family::of(to);
        let mut message = route(family, MAIN);
        message.header.scope = RouteScope::Link;
        message.header.destination_prefix_length = family.bits();
        message.attributes.push(RouteAttribute::Destination(destination(to)));
        message.attributes.push(RouteAttribute::Oif(link.0));
        self.create(RouteNetlinkMessage::NewRoute(message))
    }

    /// Sends everything else over a gateway.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_default_route(&mut self, link: LinkIndex, gateway: IpAddr) -> Result<(), Errno> {
        let mut message = route(Family::of(gateway), MAIN);
        message.header.flags = RouteFlags::Onlink;
        message.attributes.push(RouteAttribute::Gateway(destination(gateway)));
        message.attributes.push(RouteAttribute::Oif(link.0));
        self.create(RouteNetlinkMessage::NewRoute(message))
    }

    /// Holds every address for one of this namespace's own: whatever arrives is for its sockets ("AnyIP").
    ///
    /// # Errors
    /// What the kernel says.
    pub fn own_all_addresses(&mut self, loopback: LinkIndex, family: Family) -> Result<(), Errno> {
        let mut message = route(family, LOCAL);
        message.header.kind = RouteType::Local;
        message.header.scope = RouteScope::Host;
        let any = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        message.attributes.push(RouteAttribute::Destination(destination(any)));
        message.attributes.push(RouteAttribute::Oif(loopback.0));
        self.create(RouteNetlinkMessage::NewRoute(message))
    }

    /// Looks a table up, at a preference: for one destination of this namespace's own packets, or for all.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_rule(
        &mut self,
        preference: u32,
        table: u8,
        family: Family,
        own_packets_to: Option<IpAddr>,
    ) -> Result<(), Errno> {
        let mut message = rule(preference, table, family);
        if let Some(to) = own_packets_to {
            message.header.dst_len = family.bits();
            message.attributes.push(RuleAttribute::Destination(to));
            // Own packets only: what one network sends to another is then local here, and refused at once.
            message.attributes.push(RuleAttribute::Iifname("lo".to_owned()));
        }
        self.create(RouteNetlinkMessage::NewRule(message))
    }

    /// Takes the rule away that looks local addresses up before all others.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove_first_rule(&mut self, family: Family) -> Result<(), Errno> {
        let message = rule(0, LOCAL, family);
        self.request(RouteNetlinkMessage::DelRule(message), NLM_F_ACK).map(drop)
    }

    fn look(&mut self, name: &str) -> Result<LinkMessage, Errno> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        match self.request(RouteNetlinkMessage::GetLink(message), 0)? {
            Some(RouteNetlinkMessage::NewLink(link)) => Ok(link),
            Some(_) | None => Err(Errno::ENODEV),
        }
    }

    fn create(&mut self, message: RouteNetlinkMessage) -> Result<(), Errno> {
        self.request(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Sends one request and waits for its answer or its acknowledgement.
    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Option<RouteNetlinkMessage>, Errno> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map_err(errno)?;
        let (answer, _) = self.socket.recv_from_full().map_err(errno)?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
            .map_err(|_| Errno::EBADMSG)?;
        match answer.payload {
            NetlinkPayload::Error(error) => match error.code {
                None => Ok(None),
                Some(code) => Err(Errno::from_raw(code.get().saturating_neg())),
            },
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            NetlinkPayload::Done(_) | NetlinkPayload::Noop | NetlinkPayload::Overrun(_) | _ => {
                Err(Errno::EBADMSG)
            }
        }
    }
}

fn route(family: Family, table: u8) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family.code(),
        table,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message
}

fn rule(preference: u32, table: u8, family: Family) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = family.code();
    message.header.table = table;
    message.header.action = RuleAction::ToTable;
    message.attributes.push(RuleAttribute::Priority(preference));
    message
}

fn destination(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}

fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
