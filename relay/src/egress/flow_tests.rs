//! Connections from the box to the outside and to nowhere.
//!
//! Runs in: host (tests).

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use super::super::harness::{Fake, Place, connect_from, door, records, until};
use super::*;

/// A door with one listener. What a client dials on loopback stands for what it would dial in a gateway:
/// 127.18.x.y for the pool's 198.18.x.y and any other 127.a.b.c for 93.a.b.c, at port 443.
struct Box {
    folder: tempfile::TempDir,
    door: Arc<Door>,
    world: Fake,
    port: u16,
    outside: TcpListener,
    tasks: JoinSet<()>,
}

fn dialled(stream: &TcpStream) -> io::Result<SocketAddr> {
    let Ok(SocketAddr::V4(local)) = stream.local_addr() else { panic!("IPv4") };
    let [_, b, c, d] = local.ip().octets();
    let first = if b == 18 { 198 } else { 93 };
    Ok(SocketAddr::from(([first, b, c, d], 443)))
}

async fn boxed(rules: &[&str], change: impl FnOnce(&mut Door)) -> Box {
    let folder = tempfile::tempdir().unwrap();
    let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let world = Fake::default()
        .name("a.example", &["93.184.216.34"])
        .name("private.example", &["10.0.0.1"])
        .name("silent.example", &["93.184.216.40"])
        .place("93.184.216.34", Place::Server(outside.local_addr().unwrap()))
        .place("93.1.1.1", Place::Server(outside.local_addr().unwrap()))
        .place("93.184.216.40", Place::Silent);
    let mut door = door(folder.path(), world.clone(), rules, &["t.example"]);
    door.dialled = dialled;
    change(&mut door);
    let door = Arc::new(door);
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(serve(door.clone(), listener, 443));
    Box { folder, door, world, port, outside, tasks }
}

impl Box {
    /// Gives a name its address, as its question would, and returns what to dial for it.
    fn address(&self, name: &str) -> Ipv4Addr {
        let name = policy::egress::HostName::from_wire(name.as_bytes()).unwrap();
        let side = self.door.side_of(Ipv4Addr::LOCALHOST.into()).unwrap();
        let [_, b, c, d] = side.names.give(&name, None).unwrap().address.octets();
        Ipv4Addr::new(127, b, c, d)
    }

    async fn dial(&self, address: Ipv4Addr) -> TcpStream {
        connect_from(Ipv4Addr::LOCALHOST, (address, self.port).into()).await.unwrap()
    }

    async fn refused(&self, address: Ipv4Addr) {
        let mut client = self.dial(address).await;
        let error = client.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    fn records(&self) -> Vec<serde_json::Value> {
        records(&self.folder.path().join("egress.jsonl"))
    }

    fn last(&self) -> serde_json::Value {
        self.records().pop().unwrap()
    }
}

#[tokio::test]
async fn a_connection_goes_to_the_name_behind_the_address_and_is_recorded() {
    let inside = boxed(&["a.example"], |_| {}).await;
    let mut client = inside.dial(inside.address("a.example")).await;
    let (mut server, _) = inside.outside.accept().await.unwrap();
    server.write_all(b"banner").await.unwrap();
    let mut banner = [0; 6];
    client.read_exact(&mut banner).await.unwrap();
    client.write_all(b"hello").await.unwrap();
    client.shutdown().await.unwrap();
    let mut said = Vec::new();
    server.read_to_end(&mut said).await.unwrap();
    drop(server);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    assert_eq!((&banner, said.as_slice()), (b"banner", b"hello".as_slice()));
    until("both records", || inside.records().len() == 2).await;
    let [open, close] = &inside.records()[..] else { panic!("two records") };
    assert_eq!(
        [&open["ev"], &open["name"], &open["address"], &open["rule"], &open["verdict"]],
        ["open", "a.example", "93.184.216.34", "a.example", "allow"]
    );
    assert_eq!([&close["ev"], &close["reason"]], ["close", "eof"]);
    assert_eq!([&close["up"], &close["down"], &close["id"]], [&5.into(), &6.into(), &open["id"]]);
    assert_eq!((inside.world.asked().len(), inside.world.dialled().len()), (1, 1));
    assert!(inside.door.audit.refused().is_empty());
}

#[tokio::test]
async fn what_no_rule_allows_is_reset_and_the_record_is_there_first() {
    let inside = boxed(&["a.example", "ssh.example:22"], |_| {}).await;
    inside.refused(inside.address("evil.example")).await;
    assert_eq!(inside.last()["reason"], "no_rule_for_name");
    inside.refused(inside.address("ssh.example")).await;
    let record = inside.last();
    assert_eq!(
        [&record["name"], &record["reason"], &record["fix"], &record["rule"]],
        ["ssh.example", "port_not_listed", "--allow ssh.example:443", "ssh.example:22"]
    );
    inside.refused(Ipv4Addr::new(127, 1, 1, 1)).await;
    let record = inside.last();
    assert_eq!([&record["address"], &record["reason"]], ["93.1.1.1", "literal_not_listed"]);
    inside.refused(Ipv4Addr::new(127, 18, 77, 7)).await;
    assert_eq!(inside.last()["reason"], "address_unassigned");
    inside.refused(Ipv4Addr::new(127, 18, 0, 1)).await;
    assert_eq!(inside.last()["reason"], "address_denied");
    assert!(inside.world.asked().is_empty() && inside.world.dialled().is_empty());
    assert_eq!(inside.door.audit.refused().len(), 5);
}

#[tokio::test]
async fn a_network_cannot_use_the_names_of_another_and_a_stranger_nothing() {
    let inside = boxed(&["a.example"], |_| {}).await;
    let to = (inside.address("a.example"), inside.port).into();
    for (source, reason) in [(2, "address_unassigned"), (99, "source_unknown")] {
        let mut client = connect_from(Ipv4Addr::new(127, 0, 0, source), to).await.unwrap();
        assert!(client.read(&mut [0]).await.is_err());
        assert_eq!(inside.last()["reason"], reason);
    }
    assert!(inside.world.asked().is_empty());
    let _client = inside.dial(inside.address("a.example")).await;
    inside.outside.accept().await.unwrap();
}

#[tokio::test]
async fn a_listed_address_is_dialled_as_it_is() {
    let inside = boxed(&["93.1.1.0/24"], |_| {}).await;
    let _client = inside.dial(Ipv4Addr::new(127, 1, 1, 1)).await;
    inside.outside.accept().await.unwrap();
    assert_eq!(inside.world.dialled(), ["93.1.1.1:443"]);
    assert!(inside.world.asked().is_empty());
}

#[tokio::test]
async fn an_allowed_name_that_cannot_be_reached_says_why() {
    let inside = boxed(&["private.example", "unknown.example"], |_| {}).await;
    inside.refused(inside.address("private.example")).await;
    let record = inside.last();
    assert_eq!(
        [&record["ev"], &record["verdict"], &record["reason"], &record["address"]],
        ["deny", "deny", "resolved_private", "10.0.0.1"]
    );
    inside.refused(inside.address("unknown.example")).await;
    let record = inside.last();
    assert_eq!([&record["verdict"], &record["reason"]], ["fail", "resolve_failed"]);
}

#[tokio::test]
async fn connections_are_bounded_and_one_that_ends_makes_room() {
    let inside = boxed(&["a.example"], |door| door.flows = Arc::new(Semaphore::new(2))).await;
    let address = inside.address("a.example");
    let first = inside.dial(address).await;
    let (server, _) = inside.outside.accept().await.unwrap();
    let _second = inside.dial(address).await;
    let _other = inside.outside.accept().await.unwrap();
    inside.refused(address).await;
    assert_eq!(inside.last()["reason"], "too_many_flows");
    drop((first, server));
    until("room", || inside.door.flows.available_permits() == 1).await;
    let _third = inside.dial(address).await;
    inside.outside.accept().await.unwrap();
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_is_dialled_holds_nothing() {
    let inside = boxed(&["silent.example"], |_| {}).await;
    let client = inside.dial(inside.address("silent.example")).await;
    until("it is dialled", || !inside.world.dialled().is_empty()).await;
    reset(client);
    until("the record", || !inside.records().is_empty()).await;
    assert_eq!(inside.last()["reason"], "reset_by_client");
    until("the permit", || inside.door.flows.available_permits() == 256).await;
}

#[tokio::test]
async fn the_end_of_the_door_breaks_every_connection_and_is_recorded() {
    let mut inside = boxed(&["a.example"], |_| {}).await;
    let mut client = inside.dial(inside.address("a.example")).await;
    let (mut server, _) = inside.outside.accept().await.unwrap();
    client.write_all(b"x").await.unwrap();
    server.read_exact(&mut [0]).await.unwrap();
    inside.tasks.shutdown().await;
    for stream in [&mut client, &mut server] {
        let error = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    until("the record", || inside.last()["ev"] == "close").await;
    assert_eq!(inside.last()["reason"], "session_ended");
}
