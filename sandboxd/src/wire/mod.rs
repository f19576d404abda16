//! What our own processes say to each other: one enum a direction, so a wrong message cannot be sent.
//!
//! ```text
//! host -> zygote      MakeSession                + the session's socket      -> ZygoteReply  + pidfd
//! host -> setup       SetupOrder                                             -> SetupReply
//! host -> supervisor  SupervisorOrder            + the compartment's socket  -> SupervisorReply + pidfd
//! host -> init        InitOrder                  + launch's descriptors      -> InitReply    + pidfd, master
//! host -> launch      LaunchSpec                 in a sealed memory file, for it may hold secrets
//! ```
//! Encoded by postcard; a reader takes what the enum says and refuses the rest, whoever sent it.
//!
//! Runs in: any (pure data and its encoding).

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use policy::syscalls::Profile;
use rootfs::{Guard, MountPlan};
use sandbox_sys::netlink::Family;
use sandbox_sys::terminal::Size;
use sandbox_sys::{Errno, Failing, Failure, channel};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Asks the zygote for the first process of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MakeSession;

/// What the zygote answers; the pidfd rides along.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ZygoteReply {
    /// The process is there, with this number on the host.
    Made(i32),
    /// It is not.
    Failed(Failure),
}

/// Tells setup what to build.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SetupOrder {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) host_name: String,
    pub(crate) plan: MountPlan,
    pub(crate) network: NetworkOrder,
}

/// The networks of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NetworkOrder {
    /// The gateway's own addresses.
    pub(crate) gateway: Link,
    /// The session's link to it; without one it has loopback alone.
    pub(crate) session: Option<Link>,
    /// The same for each server that has a network of its own.
    pub(crate) servers: Vec<Option<Link>>,
    /// The ports that the gateway listens on, for all of them.
    pub(crate) ports: BTreeSet<u16>,
    /// Whether this kernel has IPv6.
    pub(crate) ipv6: bool,
}

impl NetworkOrder {
    /// Returns the families of addresses, in the order in which everything is made for them.
    pub(crate) fn families(&self) -> &'static [Family] {
        if self.ipv6 { &Family::BOTH } else { &[Family::V4] }
    }

    /// Says whether anything has a door out.
    pub(crate) fn has_gateway(&self) -> bool {
        self.session.is_some() || self.servers.iter().any(Option::is_some)
    }
}

/// The addresses of one end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
}

/// What setup answers, once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SetupReply {
    /// The session stands and its supervisor waits for orders. With a gateway its sockets ride along: DNS on UDP
    /// (IPv4, then IPv6 where the kernel has it), DNS on TCP, the packet socket, then a listener for each port, in
    /// the same families.
    Ready,
    /// Nothing stands.
    Failed(Failure),
}

/// What the supervisor is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorOrder {
    /// Make a compartment; its socket rides along.
    Make(CompartmentOrder),
    /// Bind these trusted paths again, in this order: the host replaced one of them.
    Guard(Vec<Guard>),
}

/// What a compartment is to be.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct CompartmentOrder {
    /// Which system calls its payloads may make.
    pub(crate) profile: Profile,
    /// Whether less than all of Landlock is too little.
    pub(crate) landlock_required: bool,
    /// The network of its own, by its place in [`NetworkOrder::servers`]; the session's when there is none.
    pub(crate) network: Option<usize>,
}

/// What the supervisor answers, in the order of the orders.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorReply {
    /// The compartment's init runs; its pidfd rides along. Whether its walls stand, init says itself.
    Made,
    /// The trusted paths are protected again.
    Guarded,
    /// It could not be done.
    Failed(Failure),
}

/// What an init is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InitOrder {
    /// Run a command. The specification and the report pipe ride along, then its three descriptors unless it
    /// gets a terminal.
    Launch {
        /// The host's number for it.
        job: u64,
        /// The size of its terminal, when it gets one.
        terminal: Option<Size>,
    },
}

/// What an init says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InitReply {
    /// The walls stand.
    Ready(Walls),
    /// They do not; init ends.
    Failed(Failure),
    /// A command's process exists; its pidfd rides along, and the terminal's master behind it.
    Started {
        /// The host's number for it.
        job: u64,
        /// Its process number inside the compartment.
        pid: i32,
    },
    /// A command's process could not be made.
    NotStarted {
        /// The host's number for it.
        job: u64,
        /// Why.
        failure: Failure,
    },
    /// A command has ended.
    Ended {
        /// The host's number for it.
        job: u64,
        /// How.
        ending: Ending,
    },
}

/// The walls that stand around a compartment, as init found when it took them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Walls {
    /// The Landlock ABI whose rights are enforced; 0 when there is none.
    pub(crate) landlock: u32,
    /// How many instructions the system call filters have in all.
    pub(crate) seccomp: usize,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// It called exit.
    Status(i32),
    /// A signal killed it.
    Signal(i32),
}

impl Ending {
    /// Returns the status by which a shell would tell it: 128 and the signal's number.
    pub(crate) fn status(self) -> i32 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// The command that launch becomes.
#[derive(Debug, Serialize, Deserialize, zeroize::Zeroize, zeroize::ZeroizeOnDrop)]
pub(crate) struct LaunchSpec {
    /// The program and its arguments.
    pub(crate) argv: Vec<Vec<u8>>,
    /// Its whole environment, as `K=V`.
    pub(crate) environment: Vec<Vec<u8>>,
    /// Where it starts.
    pub(crate) directory: Vec<u8>,
    /// The caller's file mode creation mask.
    pub(crate) umask: u32,
    /// The caller's own limit of open descriptors, soft and hard; the host raised its own.
    pub(crate) descriptors: (u64, u64),
    /// How many processes the session may have.
    pub(crate) processes: Option<u64>,
}

/// The longest specification: as much as the kernel takes for arguments and environment, and some.
pub(crate) const SPEC_LIMIT: usize = 8 * 1024 * 1024;

/// Encodes a message.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, Errno> {
    postcard::to_stdvec(message).map_err(|_| Errno::EMSGSIZE)
}

/// Decodes a message, all of it.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Errno> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) | Err(_) => Err(Errno::EBADMSG),
    }
}

/// The end of a message socket that waits: for the processes with one thread.
#[derive(Debug)]
pub(crate) struct Line {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Line {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, buffer: Vec::new() }
    }

    /// Waits for the next message; `None` when the other end is gone.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, Failure> {
        let message =
            channel::receive(self.socket.as_fd(), &mut self.buffer).failing("receive an order")?;
        let Some(message) = message else { return Ok(None) };
        let order = decode(&message.bytes).failing("understand an order")?;
        Ok(Some((order, message.descriptors)))
    }

    /// Sends a message.
    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Failure> {
        let bytes = encode(message).failing("encode an answer")?;
        channel::send(self.socket.as_fd(), &bytes, descriptors).failing("send an answer")
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
