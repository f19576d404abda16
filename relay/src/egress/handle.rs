//! Opens and closes the door of one session.
//!
//! Runs in: host (tokio).

use std::io;
use std::net::TcpListener as StdListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use policy::ServerName;
use thiserror::Error;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::audit::Audit;
use super::dial::Dialler;
use super::door::{Door, MAX_DNS_CONNECTIONS, MAX_FLOWS, Network};
use super::explain::{Explanation, explain};
use super::record::Refusal;
use super::upstream::Upstream;
use super::{dns, flow, packets};
use crate::log::LogError;

/// The sockets of a gateway, made inside its network namespace by another process.
#[derive(Debug)]
pub struct Gateway {
    /// UDP port 53, one socket for each family, on every address.
    pub udp: Vec<OwnedFd>,
    /// TCP port 53, listening, one socket for each family, on every address.
    pub tcp: Vec<OwnedFd>,
    /// Listening TCP sockets and their ports, one for each port and family, on every address.
    pub listeners: Vec<(u16, OwnedFd)>,
    /// A packet socket without link headers, filtered: refused first segments, and UDP not to port 53.
    pub packets: OwnedFd,
}

/// What one session's door is like.
#[derive(Debug)]
pub struct EgressSettings {
    /// The session, as its records name it.
    pub session: String,
    /// The networks behind the gateway, told apart by the address that packets come from.
    pub networks: Vec<Network>,
    /// The name servers to ask when a connection is made.
    pub resolver: Upstream,
    /// Where the log is written: 0600, bounded, the one before it beside it with `.1` added. Without it nothing is
    /// written; what was refused is remembered all the same.
    pub log: Option<PathBuf>,
}

/// Says why a door could not be opened. Nothing is open then.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EgressError {
    /// There is no runtime to run it in.
    #[error("cannot open the door out without a tokio runtime")]
    Runtime,
    /// A socket of the gateway cannot be used.
    #[error("cannot use the gateway's {what}")]
    Socket {
        /// Which socket.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The log cannot be opened.
    #[error("cannot record what goes out")]
    Log(#[source] LogError),
    /// The resolver cannot be built.
    #[error("cannot build the resolver: {message}")]
    Resolver {
        /// What the library says.
        message: String,
    },
}

/// The open door of one session. Cheap to clone; dropping the last one closes every socket and every
/// connection.
#[derive(Debug, Clone)]
pub struct Egress(Arc<Open>);

#[derive(Debug)]
struct Open {
    door: Arc<Door>,
    /// Each task owns its socket, and the connections that came in through it.
    tasks: Mutex<JoinSet<()>>,
}

impl Egress {
    /// Begins to answer and to carry. Everything is ready when it returns.
    ///
    /// # Errors
    /// When a socket, the log or the resolver cannot be used, or there is no runtime.
    pub fn start(gateway: Gateway, settings: EgressSettings) -> Result<Self, EgressError> {
        let _runtime = Handle::try_current().map_err(|_| EgressError::Runtime)?.enter();
        let EgressSettings { session, networks, resolver, log } = settings;
        let audit = match &log {
            Some(log) => Audit::open(session, log).map_err(EgressError::Log)?,
            None => Audit::unwritten(session),
        };
        let dialler = Dialler::new(&resolver)
            .map_err(|error| EgressError::Resolver { message: error.to_string() })?;
        let ports = gateway.listeners.iter().map(|(port, _)| *port).collect();
        Self::open(gateway, Door::new(audit, dialler, networks, ports))
    }

    /// Opens a door with these sockets. They are all prepared before any of them is used.
    pub(super) fn open(gateway: Gateway, door: Door) -> Result<Self, EgressError> {
        let Gateway { udp, tcp, listeners, packets } = gateway;
        let door = Arc::new(door);
        let packets = watched(packets).map_err(in_socket("packet socket"))?;
        let udp = each(udp, "UDP port 53", |fd| dns::prepare(&fd).and_then(|()| watched(fd)))?;
        let tcp = each(tcp, "TCP port 53", listening)?;
        let mut tasks = JoinSet::new();
        for (port, fd) in listeners {
            let listener = listening(fd).map_err(in_socket(&format!("TCP port {port}")))?;
            tasks.spawn(flow::serve(door.clone(), listener, port));
        }
        for socket in udp {
            tasks.spawn(dns::serve_udp(door.clone(), socket));
        }
        for listener in tcp {
            tasks.spawn(dns::serve_tcp(door.clone(), listener));
        }
        tasks.spawn(packets::watch(door.clone(), packets));
        let counting = door.clone();
        tasks.spawn(async move { counting.audit.release_in_time().await });
        Ok(Self(Arc::new(Open { door, tasks: Mutex::new(tasks) })))
    }

    /// Says what would happen to a connection to a name or an address, from the code that decides, without
    /// dialling and without a record.
    #[must_use]
    pub fn explain(&self, network: Option<&ServerName>, host: &str, port: u16) -> Explanation {
        explain(&self.0.door, network, host, port)
    }

    /// Returns what was refused and what failed so far: each name or address, port and reason once, with
    /// its count, in the order of the first time.
    #[must_use]
    pub fn refused(&self) -> Vec<Refusal> {
        self.0.door.audit.refused()
    }

    /// Returns where the log is.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        self.0.door.audit.path()
    }

    /// Closes every socket and every connection, and returns when their last records are written. It may
    /// be called again.
    pub async fn end(&self) {
        let mut tasks = {
            let mut held = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *held)
        };
        tasks.shutdown().await;
        // A connection holds its permit until its sockets are closed and its record is written.
        all_returned(&self.0.door.flows, MAX_FLOWS).await;
        all_returned(&self.0.door.dns_connections, MAX_DNS_CONNECTIONS).await;
        self.0.door.audit.flush();
    }
}

async fn all_returned(permits: &Semaphore, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    // Ignored: nobody closes the semaphore, and permits that were taken are given back at once.
    let _ = permits.acquire_many(count).await;
}

fn in_socket(what: &str) -> impl Fn(io::Error) -> EgressError {
    move |source| EgressError::Socket { what: what.to_owned(), source }
}

fn each<T>(
    sockets: Vec<OwnedFd>,
    what: &str,
    prepare: impl Fn(OwnedFd) -> io::Result<T>,
) -> Result<Vec<T>, EgressError> {
    sockets.into_iter().map(|fd| prepare(fd).map_err(in_socket(what))).collect()
}

/// Makes a descriptor non-blocking and has the runtime watch it.
#[expect(
    deprecated,
    reason = "the successor is unsafe for descriptors that may be closed; an OwnedFd is not"
)]
pub(super) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    AsyncFd::with_interest(fd, Interest::READABLE)
}

fn listening(fd: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdListener::from(fd);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
