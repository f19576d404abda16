//! Connects to the outside: the one file that does.
//!
//! A name is resolved when somebody connects to it, never before; every address that comes back is checked,
//! and exactly a checked address is dialled, so there is nothing to change between check and use. The
//! library asks the name servers itself: the system's `getaddrinfo` would read files and load plug-ins.
//!
//! Runs in: host (tokio; inside a flow's task).

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RecordType};
use nix::ifaddrs::getifaddrs;
use policy::egress::{Host, HostName, denied_address};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::record::Reason;
use super::upstream::Upstream;

/// How long the name servers may take in all.
const RESOLVE: Duration = Duration::from_secs(5);
/// How long addresses may be kept, however long their own time to live is.
const KEEP: Duration = Duration::from_secs(30);
/// How long it may be kept that there are none.
const KEEP_NONE: Duration = Duration::from_secs(5);
/// How many answers are kept.
const MAX_KEPT: u64 = 512;
/// How long the answer for one family is waited for once the other one is there, RFC 8305 section 3.
const SECOND_FAMILY: Duration = Duration::from_millis(50);
/// How many addresses of a name are looked at.
const MAX_ADDRESSES: usize = 16;
/// How long a connection may take in all: shorter than what programs wait for a server's first words.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an attempt has before the next address is tried beside it, RFC 8305 section 5.
const STAGGER: Duration = Duration::from_millis(250);
/// How long the list of the host's own addresses is good for. An address that is younger is still met after
/// the connection, see [`Dialler::race`].
const OWN_ADDRESSES: Duration = Duration::from_secs(1);

pub(super) type Promise<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the dialler needs of the world outside.
pub(super) trait World: Send + Sync + 'static {
    /// Returns the addresses of a name; none when there are none or nobody can say.
    fn resolve<'a>(&'a self, name: &'a HostName) -> Promise<'a, Vec<IpAddr>>;
    /// Connects to exactly this address.
    fn connect(&self, address: SocketAddr) -> Promise<'static, io::Result<TcpStream>>;
    /// Returns the addresses of this host's own interfaces; nothing when the kernel does not say.
    fn own_addresses(&self) -> Option<Arc<[IpAddr]>>;
}

/// Makes connections to the outside.
#[derive(Clone)]
pub(super) struct Dialler {
    world: Arc<dyn World>,
}

/// A connection and the address that it goes to.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) stream: TcpStream,
    pub(super) address: IpAddr,
}

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: Reason,
    /// The address that was refused or that did not answer.
    pub(super) address: Option<IpAddr>,
}

impl std::fmt::Debug for Dialler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialler").finish_non_exhaustive()
    }
}

impl Dialler {
    /// Returns a dialler that asks these name servers.
    ///
    /// # Errors
    /// When the resolver cannot be built.
    pub(super) fn new(upstream: &Upstream) -> Result<Self, NetError> {
        Ok(Self::of(Outside::new(upstream)?))
    }

    /// Returns a dialler to another world.
    pub(super) fn of(world: impl World) -> Self {
        Self { world: Arc::new(world) }
    }

    /// Connects to a host that the rules allow, if it has an address that nobody forbids.
    ///
    /// # Errors
    /// The reason, with the address where there is one.
    pub(super) async fn dial(&self, host: &Host, port: u16) -> Result<Dialled, Failure> {
        let (found, none_left) = match host {
            Host::Name(name) => (self.resolve(name).await?, Reason::ResolvedPrivate),
            Host::Address(address) => (vec![*address], Reason::AddressDenied),
        };
        // Without the list nothing can be checked, so nothing is dialled.
        let nowhere = Failure { reason: Reason::Unreachable, address: None };
        let own = self.world.own_addresses().ok_or(nowhere)?;
        let (permitted, denied): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|address| is_permitted(*address, &own));
        if permitted.is_empty() {
            return Err(Failure { reason: none_left, address: denied.first().copied() });
        }
        let targets: Vec<_> =
            alternate(&permitted).map(|address| SocketAddr::new(address, port)).collect();
        let first = permitted.first().copied();
        timeout(CONNECT, self.race(&targets, none_left))
            .await
            .unwrap_or(Err(Failure { reason: Reason::TimedOut, address: first }))
    }

    async fn resolve(&self, name: &HostName) -> Result<Vec<IpAddr>, Failure> {
        let mut found = timeout(RESOLVE, self.world.resolve(name)).await.unwrap_or_default();
        found.truncate(MAX_ADDRESSES);
        if found.is_empty() {
            return Err(Failure { reason: Reason::ResolveFailed, address: None });
        }
        Ok(found)
    }

    /// Tries the addresses in turn, the next one when the one before has failed or is slow, and returns the
    /// first connection. Nothing has been sent on it yet.
    async fn race(&self, targets: &[SocketAddr], own: Reason) -> Result<Dialled, Failure> {
        let mut rest = targets.iter().copied();
        let mut attempts = JoinSet::new();
        let mut worst: Option<Failure> = None;
        loop {
            if let Some(target) = rest.next() {
                let attempt = self.world.connect(target);
                attempts.spawn(async move { (target.ip(), attempt.await) });
            } else if attempts.is_empty() {
                let nowhere = Failure { reason: Reason::Unreachable, address: None };
                return Err(worst.unwrap_or(nowhere));
            }
            let more = rest.len() > 0;
            let ended = tokio::select! {
                ended = attempts.join_next() => ended,
                () = sleep(STAGGER), if more => None,
            };
            let Some(Ok((address, result))) = ended else { continue };
            let failure = match result.and_then(|stream| Ok((is_to_itself(&stream)?, stream))) {
                Ok((false, stream)) => return Ok(Dialled { stream, address }),
                Ok((true, _)) => Failure { reason: own, address: Some(address) },
                Err(error) => Failure { reason: reason_of(&error), address: Some(address) },
            };
            if worst.is_none_or(|worst| weight(failure.reason) > weight(worst.reason)) {
                worst = Some(failure);
            }
        }
    }
}

fn is_permitted(address: IpAddr, own: &[IpAddr]) -> bool {
    denied_address(address).is_none() && !own.contains(&address.to_canonical())
}

/// Says whether a connection stayed on this host: only then has it the same address at both ends.
fn is_to_itself(stream: &TcpStream) -> io::Result<bool> {
    Ok(stream.local_addr()?.ip() == stream.peer_addr()?.ip())
}

/// Orders addresses so that the families take turns, IPv6 first, RFC 8305 section 4.
fn alternate(addresses: &[IpAddr]) -> impl Iterator<Item = IpAddr> {
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|ip| ip.is_ipv6());
    let longer = v4.len().max(v6.len());
    (0..longer).flat_map(move |at| [v6.get(at).copied(), v4.get(at).copied()]).flatten()
}

fn reason_of(error: &io::Error) -> Reason {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        Reason::ConnectRefused
    } else if error.kind() == io::ErrorKind::TimedOut {
        Reason::TimedOut
    } else {
        Reason::Unreachable
    }
}

/// Orders the reasons of several attempts by how much they say about the other side.
fn weight(reason: Reason) -> usize {
    let order = [Reason::Unreachable, Reason::TimedOut, Reason::ConnectRefused];
    order.iter().position(|&known| known == reason).unwrap_or(order.len())
}

/// The world as it is.
struct Outside {
    /// One for each name server: the library asks the next one only when no time is left for it.
    resolvers: Vec<TokioResolver>,
    /// What each of them may take.
    patience: Duration,
    own: Mutex<Option<(Instant, Arc<[IpAddr]>)>>,
}

impl Outside {
    fn new(upstream: &Upstream) -> Result<Self, NetError> {
        let servers = upstream.servers();
        let count = u32::try_from(servers.len()).unwrap_or(u32::MAX).max(1);
        let patience = RESOLVE / count;
        let resolvers = servers.iter().map(|server| resolver(*server, patience));
        Ok(Self {
            resolvers: resolvers.collect::<Result<_, _>>()?,
            patience,
            own: Mutex::new(None),
        })
    }

    /// Asks one server after the other: they may know different names, so the first that knows decides.
    async fn lookup(&self, name: Name, kind: RecordType) -> Vec<IpAddr> {
        for resolver in &self.resolvers {
            match timeout(self.patience, resolver.lookup(name.clone(), kind)).await {
                Ok(Ok(lookup)) => {
                    let found = lookup.answers().iter().filter_map(|record| record.data.ip_addr());
                    return found.take(MAX_ADDRESSES / 2).collect();
                }
                Ok(Err(error)) if is_answer(&error) => return Vec::new(),
                Ok(Err(_)) | Err(_) => {}
            }
        }
        Vec::new()
    }

    /// Asks for both families at once. When one has addresses, the other one gets a moment more.
    async fn both(&self, name: Name) -> Vec<IpAddr> {
        let mut v6 = pin!(self.lookup(name.clone(), RecordType::AAAA));
        let mut v4 = pin!(self.lookup(name, RecordType::A));
        let (mut first, other) = tokio::select! {
            first = &mut v6 => (first, v4 as Pin<&mut (dyn Future<Output = _> + Send)>),
            first = &mut v4 => (first, v6 as Pin<&mut (dyn Future<Output = _> + Send)>),
        };
        if first.is_empty() {
            return other.await;
        }
        first.extend(timeout(SECOND_FAMILY, other).await.unwrap_or_default());
        first
    }
}

/// Says whether a server has answered that there is nothing, as opposed to not having answered.
fn is_answer(error: &NetError) -> bool {
    matches!(error, NetError::Dns(DnsError::NoRecordsFound(none))
        if matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain))
}

/// Returns a resolver that asks one server for whole names, and reads no file of the host's.
fn resolver(server: SocketAddr, patience: Duration) -> Result<TokioResolver, NetError> {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    let server = NameServerConfig::new(server.ip(), true, connections.into());
    let config = ResolverConfig::from_name_servers(vec![server]);
    let mut options = ResolverOpts::default();
    options.timeout = patience;
    options.attempts = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.try_tcp_on_error = true;
    options.cache_size = MAX_KEPT;
    options.positive_max_ttl = Some(KEEP);
    options.negative_max_ttl = Some(KEEP_NONE);
    let provider = TokioRuntimeProvider::default();
    TokioResolver::builder_with_config(config, provider).with_options(options).build()
}

impl World for Outside {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Promise<'a, Vec<IpAddr>> {
        Box::pin(async move {
            let Ok(mut name) = Name::from_ascii(name.as_str()) else { return Vec::new() };
            // A whole name: nothing is ever appended to it.
            name.set_fqdn(true);
            self.both(name).await
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the dialler is what connects to the outside")]
    fn connect(&self, address: SocketAddr) -> Promise<'static, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }

    fn own_addresses(&self) -> Option<Arc<[IpAddr]>> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, addresses)) = own.as_ref()
            && read.elapsed() < OWN_ADDRESSES
        {
            return Some(addresses.clone());
        }
        let addresses = read_own_addresses()?;
        *own = Some((Instant::now(), addresses.clone()));
        Some(addresses)
    }
}

/// Reads the addresses of this host's interfaces from the kernel.
fn read_own_addresses() -> Option<Arc<[IpAddr]>> {
    let read = getifaddrs().inspect_err(|error| {
        tracing::warn!(%error, "cannot read this host's own addresses; nothing is dialled");
    });
    let interfaces = read.ok()?;
    let address = |storage: nix::sys::socket::SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    };
    Some(interfaces.filter_map(|interface| address(interface.address?)).collect())
}

#[cfg(test)]
#[path = "dial_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod resolve_tests;
