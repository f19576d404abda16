//! A world for the tests: names, addresses and servers of their own, all on loopback.
//!
//! Runs in: host (tests).

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use policy::ServerName;
use policy::egress::{HostName, Rule};
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::audit::Audit;
use super::dial::{Dialler, Promise, World};
use super::door::{Door, Network};

/// What happens at an outside address.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Connections arrive at this server on loopback.
    Server(SocketAddr),
    /// Connections are refused.
    Refuses,
    /// There is no answer.
    Silent,
    /// There is no route.
    Nowhere,
}

/// A world in which nothing leaves the test.
#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    names: HashMap<String, Vec<Vec<IpAddr>>>,
    places: HashMap<IpAddr, Place>,
    own: Vec<IpAddr>,
    own_unknown: bool,
    asked: Vec<String>,
    dialled: Vec<SocketAddr>,
}

impl Fake {
    /// Gives a name its addresses; called again, the next ones it will have.
    pub(super) fn name(self, name: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.0.lock().unwrap().names.entry(name.to_owned()).or_default().push(addresses);
        self
    }

    pub(super) fn place(self, address: &str, place: Place) -> Self {
        self.0.lock().unwrap().places.insert(address.parse().unwrap(), place);
        self
    }

    pub(super) fn own(self, address: &str) -> Self {
        self.0.lock().unwrap().own.push(address.parse().unwrap());
        self
    }

    pub(super) fn own_unknown(self) -> Self {
        self.0.lock().unwrap().own_unknown = true;
        self
    }

    /// The names that were resolved.
    pub(super) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }

    /// The addresses that were dialled.
    pub(super) fn dialled(&self) -> Vec<String> {
        self.0.lock().unwrap().dialled.iter().map(SocketAddr::to_string).collect()
    }
}

impl World for Fake {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Promise<'a, Vec<IpAddr>> {
        let mut state = self.0.lock().unwrap();
        state.asked.push(name.to_string());
        let found = match state.names.get_mut(name.as_str()) {
            Some(turns) if turns.len() > 1 => turns.remove(0),
            Some(turns) => turns.first().cloned().unwrap_or_default(),
            None => Vec::new(),
        };
        Box::pin(async move { found })
    }

    fn connect(&self, address: SocketAddr) -> Promise<'static, io::Result<TcpStream>> {
        let mut state = self.0.lock().unwrap();
        state.dialled.push(address);
        let place = state.places.get(&address.ip()).copied().unwrap_or(Place::Nowhere);
        Box::pin(async move {
            match place {
                Place::Server(server) => connect_from(Ipv4Addr::new(127, 0, 0, 9), server).await,
                Place::Refuses => Err(io::ErrorKind::ConnectionRefused.into()),
                Place::Silent => std::future::pending().await,
                Place::Nowhere => Err(io::ErrorKind::NetworkUnreachable.into()),
            }
        })
    }

    fn own_addresses(&self) -> Option<Arc<[IpAddr]>> {
        let state = self.0.lock().unwrap();
        (!state.own_unknown).then(|| state.own.clone().into())
    }
}

/// Connects from an address of loopback.
pub(super) async fn connect_from(source: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    socket.connect(to).await
}

/// Returns two ends of a connection.
pub(super) async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = connect_from(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

/// A door of two networks: the session's own (127.0.0.1) and that of the server "tracker" (127.0.0.2).
pub(super) fn door(folder: &Path, world: Fake, own: &[&str], tracker: &[&str]) -> Door {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse::<Rule>().unwrap()).collect();
    let network = |name: Option<&str>, last: u8, texts: &[&str]| Network {
        name: name.map(|name| name.parse::<ServerName>().unwrap()),
        v4: Ipv4Addr::new(127, 0, 0, last),
        v6: Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, last.into()),
        rules: rules(texts),
    };
    let networks = vec![network(None, 1, own), network(Some("tracker"), 2, tracker)];
    let audit = Audit::open("7f3a".to_owned(), &folder.join("egress.jsonl")).unwrap();
    Door::new(audit, Dialler::of(world), networks, BTreeSet::from([22, 443]))
}

/// Reads the records so far.
pub(super) fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until something is so, at most five seconds.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not so after five seconds: {what}");
}

/// A generator of bytes that are the same in every run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        // The constants of Knuth's MMIX; the high bits are the good ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end.max(1)
    }

    pub(super) fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}
