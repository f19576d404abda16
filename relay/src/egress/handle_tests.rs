//! A door from its start to its end.
//!
//! Runs in: host (tests).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;

use super::super::harness::{connect_from, records, until};
use super::*;

struct Opened {
    folder: tempfile::TempDir,
    egress: Egress,
    udp: SocketAddr,
    port: u16,
    packets: UnixDatagram,
}

fn opened() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = StdListener::bind("127.0.0.1:0").unwrap();
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let (packets, theirs) = UnixDatagram::pair().unwrap();
    let (address, port) = (udp.local_addr().unwrap(), listener.local_addr().unwrap().port());
    let gateway = Gateway {
        udp: vec![udp.into()],
        tcp: vec![tcp.into()],
        listeners: vec![(port, listener.into())],
        packets: theirs.into(),
    };
    let network = Network {
        name: None,
        v4: Ipv4Addr::LOCALHOST,
        v6: Ipv6Addr::LOCALHOST,
        rules: vec!["a.example:22".parse().unwrap()],
    };
    let settings = EgressSettings {
        session: "7f3a".to_owned(),
        networks: vec![network],
        resolver: Upstream::from_servers([SocketAddr::from(([127, 0, 0, 1], 1))]),
        log: Some(folder.path().join("egress.jsonl")),
    };
    let egress = Egress::start(gateway, settings).unwrap();
    Opened { folder, egress, udp: address, port, packets }
}

/// The headers of a refused packet from 127.0.0.1 to an IPv4 address.
fn packet(to: [u8; 4], protocol: u8, port: u16) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 127, 0, 0, 1];
    bytes.extend(to);
    bytes.extend([0x9c, 0x40]);
    bytes.extend(port.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0x50, 0x02, 0, 0, 0, 0, 0, 0]);
    bytes
}

async fn ask(udp: SocketAddr, name: &[&[u8]]) {
    let client = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut bytes = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend_from_slice(label);
    }
    bytes.extend([0, 0, 1, 0, 1]);
    client.send_to(&bytes, udp).await.unwrap();
    client.recv(&mut [0; 512]).await.unwrap();
}

#[tokio::test]
async fn what_the_kernel_refused_is_recorded_with_the_name() {
    let opened = opened();
    ask(opened.udp, &[b"a", b"example"]).await;
    for bytes in [
        packet([198, 18, 1, 0], 6, 5_432),
        packet([93, 1, 1, 1], 6, 8_080),
        packet([93, 1, 1, 1], 17, 123),
        packet([198, 18, 1, 0], 6, opened.port),
        b"no packet".to_vec(),
        packet([198, 18, 1, 0], 6, 22),
    ] {
        opened.packets.send(&bytes).unwrap();
    }
    let path = opened.egress.log_path().to_owned();
    until("five records", || records(&path).len() == 5).await;
    let found = records(&path);
    let told = |at: usize| {
        ["ev", "proto", "reason", "fix"]
            .map(|key| found[at][key].as_str().unwrap_or("-").to_owned())
    };
    assert_eq!(told(1), ["deny", "tcp", "port_not_listed", "--allow a.example:5432"]);
    assert_eq!(found[1]["name"], "a.example");
    assert_eq!(told(2), ["deny", "tcp", "literal_not_listed", "--allow 93.1.1.1:8080"]);
    assert_eq!(told(3), ["nontcp", "udp", "not_tcp", "-"]);
    assert_eq!(told(4), ["deny", "tcp", "port_not_open", "-"]);
    assert_eq!(opened.egress.refused().len(), 4);
    assert_eq!(
        opened.egress.explain(None, "a.example", 22).reason,
        Some(super::super::Reason::PortNotOpen)
    );
}

#[tokio::test]
async fn the_end_closes_everything_and_may_come_twice() {
    let opened = opened();
    opened.egress.end().await;
    opened.egress.end().await;
    let to = SocketAddr::from(([127, 0, 0, 1], opened.port));
    assert!(connect_from(Ipv4Addr::LOCALHOST, to).await.is_err());
    assert!(UdpSocket::bind(opened.udp).is_ok(), "the port is free again");
    assert!(opened.packets.send(b"x").is_err(), "nobody holds the other end");
}

#[tokio::test]
async fn the_last_handle_closes_everything() {
    let opened = opened();
    let other = opened.egress.clone();
    drop(opened.egress);
    let to = SocketAddr::from(([127, 0, 0, 1], opened.port));
    assert!(connect_from(Ipv4Addr::LOCALHOST, to).await.is_ok());
    drop(other);
    until("the port is free", || UdpSocket::bind(opened.udp).is_ok()).await;
    drop(opened.folder);
}

#[test]
fn a_door_without_a_runtime_is_an_error() {
    let gateway = Gateway {
        udp: vec![],
        tcp: vec![],
        listeners: vec![],
        packets: UnixDatagram::unbound().unwrap().into(),
    };
    let settings = EgressSettings {
        session: String::new(),
        networks: vec![],
        resolver: Upstream::from_servers([]),
        log: Some("/nonexistent/egress.jsonl".into()),
    };
    assert!(matches!(Egress::start(gateway, settings), Err(EgressError::Runtime)));
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_opens_nothing() {
    let gateway = Gateway {
        udp: vec![],
        tcp: vec![],
        listeners: vec![],
        packets: UnixDatagram::unbound().unwrap().into(),
    };
    let settings = EgressSettings {
        session: String::new(),
        networks: vec![],
        resolver: Upstream::from_servers([]),
        log: Some("/nonexistent/egress.jsonl".into()),
    };
    let error = Egress::start(gateway, settings).unwrap_err();
    assert!(matches!(error, EgressError::Log(_)), "{error}");
}
